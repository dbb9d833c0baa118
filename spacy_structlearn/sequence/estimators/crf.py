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

from collections.abc import Iterator
from operator import attrgetter, methodcaller
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import StructlearnError
from ...kernels.index import number_keys
from ...learning.training import array_digest
from ...optimize.lbfgs import dot
from ...parallel.shards import make_engine, split
from ..chain import _chain
from ..chain.model import ChainModel
from ..chain.states import START, check_label_ids, count_transitions
from ..layout.data import AnyFloats, AnyInts, Floats, Ids, Ints, Symbols
from ..layout.features import Templates

LBFGS_MEMORY = 6  # pairs; each costs 16 bytes a feature, and more than CRFsuite's six gain nothing

LabelledSentences = tuple[Symbols, Ints, Ids]
"""Columns, offsets and label ids."""


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

    `number` and then `set_prior` must be called before the first loss. The weights of the model are
    not used. Arguments are those of `ChainLikelihood`.
    """

    def __init__(
        self,
        model: ChainModel,
        columns: Symbols,
        offsets: Ints,
        label_ids: Ids,
        *,
        is_first: bool = True,
    ):
        self.model = model
        self.folding = Folding(model, columns, offsets)
        self.is_first = is_first
        self._columns, self._offsets, self._label_ids = columns, offsets, label_ids
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
        folding = self.folding
        self._first = numbering.first_of_row[folding.rows]
        self._count = numbering.count_of_row[folding.rows]
        # These are kept: new memory costs as much as arithmetic.
        self._weights, self._counts = (
            _aligned_zeros(len(folding.rows), self._width) for _ in range(2)
        )
        transitions = self._count_gold(folding.cells, self._counts)
        n_weights, n_parameters = len(numbering.column), numbering.n_parameters
        self._empirical, nothing = np.zeros((2, n_parameters))
        self._unfold(nothing, 0.0, nothing, self._empirical)
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
        numbered, n_weights = self.numbering.transitions, len(self.numbering.column)
        transitions = np.where(np.isneginf(self.model.transitions), -np.inf, 0.0)
        transitions.reshape(-1)[numbered] = theta[n_weights:]
        for layout in self._layouts():
            _chain.fold(theta, *layout, self._weights)
        chain = _chain.Chain(self.model.initial, transitions, self.model.final)
        features = self.folding.cells, self._offsets, self._weights, self._labels_of_states
        pairs = np.empty_like(transitions)
        loss = _chain.expected_counts(chain, *features, self._counts, pairs, *self._gold())
        self._unfold(theta, self._l2, self._target, gradient)
        rest = self._rest
        gradient[rest] = self._l2 * theta[rest] - self._target[rest]
        gradient[n_weights:] += pairs.reshape(-1)[numbered]
        total = loss + self._constant + 0.5 * self._l2 * dot(theta, theta)
        return total - dot(theta, self._target), gradient

    def close(self) -> None:
        """Nothing is open."""

    def _gold(self) -> tuple[Any, ...]:
        """Return the arguments of `_chain.expected_counts` that choose the loss."""
        return ()

    def _count_gold(self, cells: Ids, counts: Floats) -> NDArray[np.number]:
        """Add the cells of the gold paths to `counts`; returns the counts of transitions."""
        columns = self._state_ids if self._labels_of_states is None else self._label_ids
        np.add.at(counts, (cells, columns[:, None]), 1.0)
        return count_transitions(self._offsets, self._state_ids, len(self.model.states))

    def _layouts(self) -> Iterator[tuple]:
        """Yield the arguments of `_chain.fold` for each group of slots."""
        features = self._first, self._count, self.numbering.column
        for group in self.folding.groups:
            slots = group.links, group.begin, group.n_implied
            yield *features, *slots, self._labels, len(self.model.labels)

    def _unfold(self, theta: Floats, shrinkage: float, empirical: Floats, out: Floats) -> None:
        for layout in self._layouts():
            _chain.unfold(self._counts, *layout, theta, shrinkage, empirical, out)


class LocalShard(ChainShard):
    """Some sentences of a `LocalLikelihood`: each state is predicted from the gold one before."""

    def _gold(self) -> tuple[Any, ...]:
        return (self._state_ids,)


class PseudoShard(ChainShard):
    """Some sentences of a `LogPseudoLikelihood`: each label is predicted from all others."""

    def _gold(self) -> tuple[Any, ...]:
        model = self.model
        start = len(model.labels) if model.start == START else model.start
        return self._state_ids, self._label_ids, model.state_table(), start

    def _count_gold(self, cells: Ids, counts: Floats) -> NDArray[np.number]:
        """Nothing: the loss already has the gold scores."""
        return np.zeros_like(self.model.transitions)


class ChainLikelihood:
    """The objective of a CRF, - log p(y | x) + l2 |w|^2 / 2; subclasses have other losses.

    model: the model to train. If `supported` is not set (the model was loaded), the features of the
        data are supported. Predicates stay fixed; `locally_normalized` of the model is set.
    columns: uint64 (n_tokens, n_columns); offsets: int64 (n_sentences + 1); see `Templates`.
    label_ids: integers (n_tokens), the gold labels.
    l2: strength of the prior, 0 or more; `set_prior` may change it at any time.
    shards: number of parts of the data.
    threads: number of threads, which work on different shards, with identical results.
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
        self.model = model
        self.model.locally_normalized = self.locally_normalized
        self._data = self._check(columns, offsets, label_ids)
        columns, offsets, label_ids = self._data
        if model.supported is None or model.supported_transitions is None:
            model.support(*self._data)

        def make(part: tuple[int, slice]) -> ChainShard:
            number, chosen = part
            inside = offsets[chosen.start : chosen.stop + 1]
            tokens = slice(inside[0], inside[-1])
            sentences = columns[tokens], inside - inside[0], label_ids[tokens]
            return self.shard(model, *sentences, is_first=number == 0)

        self._engine = make_engine(make, enumerate(split(offsets, shards)), threads)
        rows, *others = self._engine.map(attrgetter("folding.rows"))
        if others:
            rows, _ = _number(np.concatenate([rows, *others]))
        self._numbering = Numbering(model, rows)
        self._engine.map(methodcaller("number", self._numbering))
        self.set_prior(float(l2), np.zeros(self.n_parameters))

    @property
    def n_parameters(self) -> int:
        """Length of a parameter vector."""
        return self._numbering.n_parameters

    def set_prior(self, l2: float, center: Floats) -> None:
        """Set the strength and the mean of the prior."""
        self.l2, self.center = l2, center
        self._engine.map(methodcaller("set_prior", l2, center))

    def value_and_grad(self, theta: Floats) -> tuple[float, Floats]:
        """f and its gradient, float64 (n_parameters), at `theta`, float64 (n_parameters)."""
        return self._engine.value_and_grad(theta)

    def parameters(self) -> Floats:
        """The model's present weights as a parameter vector."""
        return self.vector(self.model.weights, self.model.transitions)

    def vector(self, weights: AnyFloats, transitions: Floats) -> Floats:
        """Return the parameter vector of arrays like those of the model."""
        numbering = self._numbering
        weights = weights[numbering.feature_rows(), numbering.column]
        transitions = transitions.reshape(-1)[numbering.transitions]
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
        texts = model.labels, model.templates.texts, model.templates.key_bits
        states = model.states, model.initial, model.final
        return array_digest(texts, *states, *features, *self._data)

    def close(self) -> None:
        """End the threads."""
        self._engine.close()

    def _check(self, columns: Symbols, offsets: Ints, label_ids: AnyInts) -> LabelledSentences:
        """Return the data as the shards want it; raise StructlearnError if it does not fit."""
        columns, offsets = self.model.templates.check(columns, offsets)
        label_ids = check_label_ids(label_ids, len(columns), len(self.model.labels))
        self.model.state_ids(label_ids, offsets)
        return columns, offsets, label_ids


class LocalLikelihood(ChainLikelihood):
    """The objective of a maximum entropy Markov model (McCallum, Freitag & Pereira 2000).

    With the state y_t, a label or a pair of labels, and Z a sum over the states that may follow,

        p(y_t | y_{t-1}, x) = exp(s_t(y_t) + a(y_{t-1}, y_t)) / Z_t(y_{t-1})

    In training y_{t-1} is the gold state. In decoding the product of all factors is a chain like
    any other (`decode.state_scores`).
    """

    shard = LocalShard
    locally_normalized: ClassVar[bool] = True


class LogPseudoLikelihood(ChainLikelihood):
    """The objective of pseudolikelihood, - sum_t log p(c_t | all other labels, x) + prior.

    Besag (1975); a baseline of Smith, Vail & Lafferty (2007, section 5; Toutanova et al. 2003).
    The result is a chain like that of a CRF.
    """

    shard = PseudoShard


class _Group(NamedTuple):
    """A maximal template with the templates that it implies.

    begin: the first slot; slots of n_implied implied predicates come first, then slots of cells.
    links: int32 (n_cells, n_templates), the slots of the predicates that a cell implies, or -1.
    """

    begin: int
    n_implied: int
    links: Ids


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


def _aligned_zeros(*shape: int) -> Floats:
    """Return zeros that start at a cache line, so that a row of eight needs one line, not two."""
    size = int(np.prod(shape))
    memory = np.zeros(size + 8)
    start = -memory.ctypes.data % 64 // memory.itemsize
    return memory[start : start + size].reshape(shape)
