"""Conditional random fields: maximum conditional likelihood with a Gaussian prior.

Lafferty, McCallum & Pereira (2001); the objective and its gradient are those of Sha & Pereira
(2003, section 3.1), negated:

    f(w) = - sum_s log p_w(y_s | x_s) + l2 |w|^2 / 2
    df/dw = expected counts - empirical counts + l2 w

Only supported features, which occur with gold labels in the training data, have a weight; all
others stay zero (Sha & Pereira, section 4.2).

Most predicates follow from others: the tags at -1, 0 and 1 determine the two pairs and the three
single tags. So each implied template is grouped with a maximal template that has all its terms, and
each distinct value of a maximal template is a cell. Before a pass over the data, the weights of the
predicates that a cell implies are folded into the cell. A token then needs one look-up for each
maximal template (7 instead of 20 for the templates of Sha & Pereira). Afterwards the expected
counts of cells are unfolded. The gradient is the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter, methodcaller
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import StructlearnError
from ...kernels.index import number_keys
from ...learning.training import array_digest
from ...optimize.lbfgs import dot
from ...parallel.shards import Engine, Pool, balance, make_engine, split
from ..chain import _chain
from ..chain.model import ChainModel
from ..chain.states import check_label_ids, count_transitions
from ..layout.data import AnyInts, Floats, Ids, Ints, Symbols
from ..layout.features import Templates

LBFGS_MEMORY = 6  # pairs; each costs 16 bytes a feature, and more than CRFsuite's six gain nothing

LabelledSentences = tuple[Symbols, Ints, Ids]
"""Columns, offsets and label ids."""


class Part(NamedTuple):
    """Sentences of a shard for one thread: the slice of their tokens, their offsets, int64
    (n_sentences + 1), and their cells, int32 (n_tokens, n_groups)."""

    tokens: slice
    offsets: Ints
    cells: Ids


class Numbering:
    """The supported features of a model as a parameter vector.

    First come the (predicate, column) pairs, then the (state, next state) pairs.
    rows: integers, rows of predicates in the model, or -1. Their features come first.
    Attributes: order, int32 (n_predicates), rows in the order of the parameters; column, int16
    (n_weights), of each weight; transitions, int64, places in the flattened transitions;
    first_of_row, int64 (n_predicates + 1), and count_of_row, int16 (n_predicates + 1): the
    parameters of each row, none for row -1.
    """

    def __init__(self, model: ChainModel, rows: Ids):
        assert model.supported is not None
        assert model.supported_transitions is not None
        first = rows[rows >= 0]
        others = np.ones(len(model.keys), dtype=np.bool_)
        others[first] = False
        self.order = np.concatenate([first, np.flatnonzero(others).astype(np.int32)])
        supported = model.supported[self.order]
        self.column = np.nonzero(supported)[1].astype(np.int16)
        self.transitions = np.flatnonzero(model.supported_transitions)
        counts = np.count_nonzero(supported, axis=1).astype(np.int16)
        self.count_of_row = np.zeros(len(model.keys) + 1, dtype=np.int16)
        self.first_of_row = np.zeros(len(model.keys) + 1, dtype=np.int64)
        self.count_of_row[self.order] = counts
        self.first_of_row[self.order] = np.cumsum(counts, dtype=np.int64) - counts

    @property
    def n_parameters(self) -> int:
        """Length of a parameter vector."""
        return len(self.column) + len(self.transitions)

    def feature_rows(self) -> Ids:
        """The row of the model's weights in which each feature is, int32 (n_weights)."""
        return np.repeat(self.order, self.count_of_row[self.order])


class ChainShard:
    """A part of the sentences of a `ChainLikelihood`, prepared for training.

    Subclasses with other losses override `_partial_loss` and `_count_gold`. `number` and then
    `set_prior` must be called before the first loss. The weights of the model are not used.
    Arguments are those of `ChainLikelihood`.
    """

    def __init__(
        self,
        model: ChainModel,
        columns: Symbols,
        offsets: Ints,
        label_ids: Ids,
        *,
        is_first: bool = True,
        threads: int = 1,
    ):
        self.model = model
        self.folding = Folding(model, columns, offsets)
        self.is_first = is_first
        self._columns, self._offsets, self._label_ids = columns, offsets, label_ids
        self._pool = Pool(threads)
        # The labels of states are needed where slots have a column for each label and, with pair
        # features, to sum the columns of labels and pairs in a slot that has one for each state.
        self._width, self._labels, self._labels_of_states = len(model.states), None, None
        labels = np.ascontiguousarray(model.states[:, -1])
        if model.has_pair_features:
            self._labels = labels
        elif model.order == 2:
            self._width, self._labels_of_states = len(model.labels), labels
        self._state_ids = model.state_ids(label_ids, offsets)

    def number(self, numbering: Numbering) -> None:
        """Set the numbering of parameter vectors, which all shards share."""
        self.numbering = numbering
        folding, threads = self.folding, self._pool.threads
        self._first = numbering.first_of_row[folding.rows]
        self._count = numbering.count_of_row[folding.rows]
        # These are kept: new memory costs as much as arithmetic.
        n_slots = len(folding.rows)
        self._weights = _aligned_zeros((n_slots, self._width))
        self._counts = _aligned_zeros((threads, n_slots, self._width))
        transitions = self._count_gold(folding.cells, self._counts[0])
        n_weights, n_parameters = len(numbering.column), numbering.n_parameters
        self._empirical, nothing = np.zeros((2, n_parameters))
        for group in folding.groups:
            self._unfold(group, nothing, 0.0, nothing, self._empirical)
        self._empirical[n_weights:] = transitions.reshape(-1)[numbering.transitions]
        # Features that no slot has: of predicates that are not in this data, and of transitions.
        unseen = ~np.isin(numbering.feature_rows(), folding.rows)
        self._rest = np.append(np.flatnonzero(unseen), np.arange(n_weights, n_parameters))

    def set_prior(self, l2: float, center: Floats) -> None:
        """Set the strength and the mean of the prior, which is counted once, by the first shard."""
        self._l2 = l2 if self.is_first else 0.0
        # l2 |w - c|^2 / 2 is l2 |w|^2 / 2 - l2 c.w and a constant, so l2 c adds to the counts.
        self._target = self._empirical + self._l2 * center
        self._constant = 0.5 * self._l2 * dot(center, center)

    def value_and_grad(self, theta: Floats) -> tuple[float, Floats]:
        """Return the part of f and of the gradient, float64 (n_parameters), at `theta`."""
        gradient = np.empty_like(theta)
        total = self._expected_counts(theta, gradient) + self._constant
        return total + 0.5 * self._l2 * dot(theta, theta) - dot(theta, self._target), gradient

    def close(self) -> None:
        """End the threads."""
        self._pool.close()

    def _partial_loss(
        self, part: Part, transitions: Floats, counts: Floats, pairs: Floats
    ) -> float:
        """Return the loss of some sentences, without the gold scores: the sum of log Z.

        Adds its derivatives by cells to `counts`, and writes those by `transitions` to `pairs`.
        """
        chain = _chain.Chain(self.model.initial, transitions, self.model.final)
        features = part.cells, part.offsets, self._weights, self._labels_of_states
        return _chain.expected_counts(chain, *features, counts, pairs)

    def _count_gold(self, cells: Ids, counts: Floats) -> NDArray[np.number]:
        """Add the cells of the gold paths to `counts`; returns the counts of transitions."""
        columns = self._state_ids if self._labels_of_states is None else self._label_ids
        np.add.at(counts, (cells, columns[:, None]), 1.0)
        return count_transitions(self._offsets, self._state_ids, len(self.model.states))

    def _expected_counts(self, theta: Floats, gradient: Floats) -> float:
        """Return the sum of the partial losses, and write the gradient into `gradient`."""
        folding, numbered = self.folding, self.numbering.transitions
        n_weights = len(self.numbering.column)
        transitions = np.where(np.isneginf(self.model.transitions), -np.inf, 0.0)
        transitions.reshape(-1)[numbered] = theta[n_weights:]

        def fold(groups: Iterable[_Group]) -> None:
            for group in groups:
                _chain.fold(theta, *self._layout_of(group), self._weights)

        def count(task: tuple[int, slice]) -> tuple[float, Floats]:
            place, chosen = task
            tokens, offsets = _inside(self._offsets, chosen)
            part = Part(tokens, offsets, folding.cells[tokens])
            pairs = np.empty_like(transitions)
            return self._partial_loss(part, transitions, self._counts[place], pairs), pairs

        def unfold(groups: Iterable[_Group]) -> None:
            for group in groups:
                self._unfold(group, theta, self._l2, self._target, gradient)

        tasks = balance(folding.groups, self._pool.threads, lambda group: group.cost)
        self._pool.map(fold, tasks)
        parts = split(self._offsets, self._pool.threads)
        results = self._pool.map(count, enumerate(parts))
        self._pool.map(unfold, tasks)
        rest = self._rest
        gradient[rest] = self._l2 * theta[rest] - self._target[rest]
        pairs: Floats = sum((pairs for _, pairs in results), np.zeros_like(transitions))
        gradient[n_weights:] += pairs.reshape(-1)[numbered]
        return sum(value for value, _ in results)

    def _layout_of(self, group: _Group) -> tuple:
        features = (self._first, self._count, self.numbering.column)
        slots = (group.links, group.begin, group.n_implied)
        return (*features, *slots, self._labels, len(self.model.labels))

    def _unfold(
        self, group: _Group, theta: Floats, shrinkage: float, empirical: Floats, out: Floats
    ) -> None:
        layout = self._layout_of(group)
        _chain.unfold(self._counts, *layout, theta, shrinkage, empirical, out)


class ChainLikelihood:
    """The objective of a CRF, - log p(y | x) + l2 |w|^2 / 2; subclasses have other losses.

    model: the model to train. If `supported` is not set (the model was loaded), the features of the
        data are supported. Predicates stay fixed; `locally_normalized` of the model is set.
    columns: uint64 (n_tokens, n_columns); offsets: int64 (n_sentences + 1); see `Templates`.
    label_ids: integers (n_tokens), the gold labels.
    l2: strength of the prior, 0 or more; `set_prior` may change it at any time.
    shards: number of parts of the data.
    threads: number of threads. They work on different shards, with identical results, or share the
        sentences of a single shard, with results that differ by rounding errors.
    `Numbering` defines the parameter vector, with predicates in the order of the shards. Not
    thread-safe.
    Attributes: l2; center, float64 (n_parameters), the mean of the prior, at first zeros.
    Raises StructlearnError if the data do not fit together, or to the model.
    """

    shard: type[ChainShard] = ChainShard
    locally_normalized: ClassVar[bool] = False
    """Whether the model is normalised locally, at each token."""

    def __init__(
        self,
        model: ChainModel,
        columns: Symbols,
        offsets: Ints,
        label_ids: AnyInts,
        *,
        l2: float,
        threads: int = 1,
        shards: int = 1,
    ):
        if model.is_empty:
            raise StructlearnError("SL205")
        if model.unknown is not None:
            problem = "weights of unknown predicates cannot be trained by conditional likelihood"
            raise StructlearnError("SL206", problem=problem)
        self.l2 = float(l2)
        self.model = model
        self.model.locally_normalized = self.locally_normalized
        self._threads, self._n_shards = threads, shards
        self._columns, self._offsets, self._label_ids = self._check(columns, offsets, label_ids)
        if model.supported is None or model.supported_transitions is None:
            model.support(self._columns, self._offsets, self._label_ids)
        folded = self._folded()
        rows, *others = folded.map(attrgetter("folding.rows"))
        if others:
            rows, _ = _number(np.concatenate([rows, *others]))
        self._numbering = Numbering(model, rows)
        self.center = np.zeros(self._numbering.n_parameters)
        self._engine: Engine | None = self._numbered(folded)

    @property
    def n_parameters(self) -> int:
        """Length of a parameter vector."""
        return self._numbering.n_parameters

    @property
    def engine(self) -> Engine:
        """All shards."""
        if self._engine is None:
            self._engine = self._numbered(self._folded())
        return self._engine

    def set_prior(self, l2: float, center: Floats) -> None:
        """Set the strength and the mean of the prior."""
        self.l2, self.center = float(l2), center
        if self._engine is not None:
            self._engine.map(methodcaller("set_prior", self.l2, self.center))

    def add(self, columns: Symbols, offsets: Ints, label_ids: AnyInts) -> None:
        """Extend the data; features that it does not share with the model stay unsupported.

        Arguments and errors are those of the constructor.
        """
        columns, offsets, label_ids = self._check(columns, offsets, label_ids)
        self._offsets = np.concatenate([self._offsets, offsets[1:] + self._offsets[-1]])
        self._columns = np.concatenate([self._columns, columns])
        self._label_ids = np.concatenate([self._label_ids, label_ids])
        # Shards are not made before they are needed: data may come in many parts.
        self.close()

    def value_and_grad(self, theta: Floats) -> tuple[float, Floats]:
        """f and its gradient, float64 (n_parameters), at `theta`, float64 (n_parameters)."""
        return self.engine.value_and_grad(theta)

    def parameters(self) -> Floats:
        """The model's present weights as a parameter vector."""
        numbering = self._numbering
        weights = self.model.weights[numbering.feature_rows(), numbering.column]
        transitions = self.model.transitions.reshape(-1)[numbering.transitions]
        return np.concatenate([weights.astype(np.float64, copy=False), transitions])

    def write(self, theta: Floats) -> None:
        """Put a parameter vector into the model."""
        numbering = self._numbering
        n_weights = len(numbering.column)
        self.model.weights[numbering.feature_rows(), numbering.column] = theta[:n_weights]
        self.model.transitions.reshape(-1)[numbering.transitions] = theta[n_weights:]

    def digest(self) -> bytes:
        """Equal for the same data and features, whatever the weights."""
        model, numbering = self.model, self._numbering
        features = numbering.order, numbering.column, numbering.transitions, model.keys
        data = self._columns, self._offsets, self._label_ids
        texts = model.labels, model.templates.texts, model.templates.key_bits
        return array_digest(texts, model.states, model.initial, model.final, *features, *data)

    def close(self) -> None:
        """End the threads and let go of the shards, which are made anew if they are needed."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _folded(self) -> Engine:
        """Shards of all data, which cannot be asked for the loss yet."""
        threads = self._threads if self._n_shards == 1 else 1

        def make(part: tuple[int, slice]) -> ChainShard:
            number, chosen = part
            tokens, offsets = _inside(self._offsets, chosen)
            sentences = self._columns[tokens], offsets, self._label_ids[tokens]
            return self.shard(self.model, *sentences, is_first=number == 0, threads=threads)

        return make_engine(make, enumerate(split(self._offsets, self._n_shards)), self._threads)

    def _numbered(self, folded: Engine) -> Engine:
        """The same, with the numbering of parameters and the prior."""
        folded.map(methodcaller("number", self._numbering))
        folded.map(methodcaller("set_prior", self.l2, self.center))
        return folded

    def _check(self, columns: Symbols, offsets: Ints, label_ids: AnyInts) -> LabelledSentences:
        columns, offsets = self.model.templates.check(columns, offsets)
        label_ids = check_label_ids(label_ids, len(columns), len(self.model.labels))
        self.model.state_ids(label_ids, offsets)
        return columns, offsets, label_ids


def _inside(offsets: Ints, chosen: slice) -> tuple[slice, Ints]:
    """Return the tokens of some sentences, and their offsets from the first of these tokens."""
    offsets = offsets[chosen.start : chosen.stop + 1]
    return slice(offsets[0], offsets[-1]), offsets - offsets[0]


class _Group(NamedTuple):
    """A maximal template with the templates that it implies.

    begin: the first slot; slots of n_implied implied predicates come first, then slots of cells.
    links: int32 (n_cells, n_templates), the slots of the predicates that a cell implies, or -1.
    """

    begin: int
    n_implied: int
    links: Ids

    @property
    def cost(self) -> int:
        """Number of rows that folding reads."""
        return self.n_implied + len(self.links) + self.links.size


class Folding:
    """The cells of some data, and the predicates that their weights come from.

    groups: see `_Group`. rows: int32 (n_slots), the row of each predicate in the model, or -1.
    cells: int32 (n_tokens, n_groups), slots; those of a group are in order of first occurrence.
    """

    def __init__(self, model: ChainModel, columns: Symbols, offsets: Ints):
        templates = model.templates
        maximal, implying = _implications(templates)
        self.cells = np.empty((len(columns), len(maximal)), dtype=np.int32)
        firsts, owners = [], []
        for place, template in enumerate(maximal):
            keys = templates.keys(columns, offsets, [template])[:, 0]
            first, self.cells[:, place] = number_keys(keys)
            firsts.append(first)
            owners.append(model.rows(keys[first]))
        implied: list[list[Ids]] = [[] for _ in maximal]
        for template, candidates in implying.items():
            # The candidate with the fewest values to look up.
            chosen = min(candidates, key=lambda place: len(firsts[place]))
            keys = templates.keys(columns, offsets, [template])[:, 0]
            implied[chosen].append(model.rows(keys[firsts[chosen]]))
        self.groups: list[_Group] = []
        rows, begin = [], 0
        for place, cells in enumerate(owners):
            shape = len(implied[place]), len(cells)
            distinct, links = _number(np.array(implied[place], dtype=np.int32).reshape(shape).T)
            links[links >= 0] += begin
            self.groups.append(_Group(begin, len(distinct), links))
            rows += [distinct, cells]
            self.cells[:, place] += begin + len(distinct)
            begin += len(distinct) + len(cells)
        self.rows = np.concatenate([np.empty(0, dtype=np.int32), *rows])


def _implications(templates: Templates) -> tuple[list[int], dict[int, list[int]]]:
    """Return the maximal templates, and for each other template the places that imply it."""

    def implies(i: int, j: int) -> bool:
        # The first of several templates with the same terms is the maximal one.
        return templates.terms[j] < templates.terms[i] or (
            templates.terms[j] == templates.terms[i] and i < j
        )

    everything = range(len(templates))
    maximal = [j for j in everything if not any(implies(i, j) for i in everything)]
    return maximal, {
        j: [place for place, i in enumerate(maximal) if implies(i, j)]
        for j in everything
        if j not in maximal
    }


def _number(rows: Ids) -> tuple[Ids, Ids]:
    """Return the distinct rows but -1, by first occurrence, and the place of each row, or -1."""
    flat = np.ascontiguousarray(rows).reshape(-1)
    known = np.flatnonzero(flat >= 0)
    firsts, ids = number_keys(flat[known].astype(np.uint64))
    numbers = np.full(len(flat), -1, dtype=np.int32)
    numbers[known] = ids
    return flat[known[firsts]], numbers.reshape(rows.shape)


def _aligned_zeros(shape: tuple[int, ...]) -> Floats:
    """Return zeros that start at a cache line, so that a row of eight needs one line, not two."""
    size = int(np.prod(shape))
    memory = np.zeros(size + 8)
    start = -memory.ctypes.data % 64 // memory.itemsize
    return memory[start : start + size].reshape(shape)
