"""Conditional random fields: maximum conditional likelihood with a Gaussian prior.

Lafferty, McCallum & Pereira (2001); the objective and its gradient are those of Sha & Pereira
(2003, section 3.1), negated, with the prior in CRFsuite's unit (no one-half):

    f(w) = - sum_s log p_w(y_s | x_s) + l2 |w|^2
    df/dw = expected counts - empirical counts + 2 l2 w

Only supported features, those seen with the right labels in the training data, have a weight;
the others stay at zero (Sha & Pereira, section 4.2).

Most predicates follow from others: the tags at -1, 0 and 1 tell the two pairs and the three single
ones. So the templates are grouped, each implied one with a maximal one that has all its terms, and
each distinct value of a maximal template is a cell. Before the data are gone through, the weights
of the predicates that a cell implies are folded into its own, and a token needs one look-up for
each maximal template (7 instead of 20 for those of Sha & Pereira); the expected counts of cells
are unfolded afterwards. The gradient is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from ..optimize.lbfgs import LBFGS, dot, minimize
from . import _chain
from .features import Templates
from .model import ChainModel, check_label_ids, count_transitions

T = TypeVar("T")
R = TypeVar("R")


class Shard(NamedTuple):
    """Some sentences, one after another: their tokens among those of all, their own offsets,
    int64 (n_sentences + 1), and cells, int32 (n_tokens, n_groups)."""

    tokens: slice
    offsets: NDArray[np.int64]
    cells: NDArray[np.int32]


class ChainObjective:
    """A function of the supported weights of a chain model, to be minimised: a loss and l2 |w|^2.

    The loss is a sum over sentences: `_partial_loss` and `_count_gold` of a subclass say of what.
    model: what is trained; its `supported` features, or, if it has none (it was loaded), those of
        this data. Its predicates stay fixed, and it is told whether it is locally normalised.
    columns: uint64 (n_tokens, n_columns); offsets: int64 (n_sentences + 1); see `Templates`.
    label_ids: integers (n_tokens), the right labels.
    l2: strength of the prior, 0 or more; 1 / (2 variance).
    threads: so many threads share the sentences; results differ by rounding errors only.
    A parameter vector has the supported (predicate, column) pairs, in the order in which the data
    bring the predicates, then the supported (state, next state) pairs. Not to be used by two
    threads at a time.
    Raises StructlearnError SL203 to SL207 or SL209.
    """

    locally_normalized: ClassVar[bool] = False
    """Whether the weights are those of a model that is normalised at every token by itself."""

    def __init__(
        self,
        model: ChainModel,
        columns: NDArray[np.uint64],
        offsets: NDArray[np.int64],
        label_ids: NDArray[np.integer],
        *,
        l2: float,
        threads: int = 1,
    ):
        if model.is_empty:
            raise StructlearnError("SL205")
        if model.unknown is not None:
            problem = "weights of unknown predicates cannot be trained by conditional likelihood"
            raise StructlearnError("SL206", problem=problem)
        for name, value, wanted, sound in (
            ("l2", l2, "0 or more", 0 <= l2 < np.inf),
            ("threads", threads, "1 or more", threads >= 1),
        ):
            if not sound:
                raise StructlearnError("SL209", name=name, wanted=wanted, value=value)
        self.model = model
        self.model.locally_normalized = self.locally_normalized
        self.l2 = float(l2)
        self._shards = _Shards(threads)
        self._columns, self._offsets, self._label_ids = self._check(columns, offsets, label_ids)
        if model.supported is None or model.supported_transitions is None:
            model.support(self._columns, self._offsets, self._label_ids)
        self._labels = None
        self._width = len(model.states)
        if model.has_pair_features:
            # Label and pair columns are summed in the rows of slots, where a state has one place.
            self._labels = np.ascontiguousarray(model.states[:, -1])
        elif model.order == 2:
            self._width = len(model.labels)
        folding = Folding(model, self._columns, self._offsets)
        self._number_parameters(folding)
        self._take(folding)

    @property
    def n_parameters(self) -> int:
        """Length of a parameter vector."""
        return len(self._column) + len(self._transitions)

    def add(
        self,
        columns: NDArray[np.uint64],
        offsets: NDArray[np.int64],
        label_ids: NDArray[np.integer],
    ) -> None:
        """Extend the data; features that it does not share with the model stay unsupported.

        Arguments and errors are those of the constructor.
        """
        columns, offsets, label_ids = self._check(columns, offsets, label_ids)
        self._offsets = np.concatenate([self._offsets, offsets[1:] + self._offsets[-1]])
        self._columns = np.concatenate([self._columns, columns])
        self._label_ids = np.concatenate([self._label_ids, label_ids])
        # Not before it is needed: data may come in many parts.
        self._folding = None

    def value_and_gradient(self, theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """f and its gradient, float64 (n_parameters), at `theta`, float64 (n_parameters)."""
        theta = self._check_parameters(theta)
        if self._folding is None:
            self._take(Folding(self.model, self._columns, self._offsets))
        gradient = np.empty_like(theta)
        total = self._expected_counts(theta, gradient)
        return total + self.l2 * dot(theta, theta) - dot(theta, self._empirical), gradient

    def parameters(self) -> NDArray[np.float64]:
        """The model's present weights as a parameter vector."""
        weights = self.model.weights[self._feature_rows(), self._column]
        transitions = self.model.transitions.reshape(-1)[self._transitions]
        return np.concatenate([weights.astype(np.float64, copy=False), transitions])

    def write(self, theta: NDArray[np.float64]) -> None:
        """Put a parameter vector into the model."""
        theta = self._check_parameters(theta)
        n_weights = len(self._column)
        self.model.weights[self._feature_rows(), self._column] = theta[:n_weights]
        self.model.transitions.reshape(-1)[self._transitions] = theta[n_weights:]

    def close(self) -> None:
        """End the threads."""
        self._shards.close()

    def _partial_loss(
        self,
        shard: Shard,
        transitions: NDArray[np.float64],
        counts: NDArray[np.float64],
        pairs: NDArray[np.float64],
    ) -> float:
        """The loss of some sentences, but for the scores of what `_count_gold` counts.

        transitions: float64 (n_states, n_states), of the present weights; -inf forbids.
        Of the derivative, the part of cells, float64 (n_slots, width), is added to `counts`, and
        that of transitions, float64 (n_states, n_states), is written to `pairs`.
        """
        raise NotImplementedError

    def _count_gold(
        self, cells: NDArray[np.int32], counts: NDArray[np.float64]
    ) -> NDArray[np.number]:
        """Add to `counts` the cells on the right paths; returns how often each transition is."""
        places = self._state_ids if self._labels_of_states() is None else self._label_ids
        _chain.count_cells(cells, places, counts)
        return count_transitions(self._offsets, self._state_ids, len(self.model.states))

    def _expected_counts(self, theta: NDArray[np.float64], gradient: NDArray[np.float64]) -> float:
        """Sum of the partial losses; the gradient of all features goes into `gradient`."""
        folding, n_weights = self._folding, len(self._column)
        transitions = np.where(np.isneginf(self.model.transitions), -np.inf, 0.0)
        transitions.reshape(-1)[self._transitions] = theta[n_weights:]

        def fold(groups: Iterable[_Group]) -> None:
            for group in groups:
                _chain.fold(theta, *self._layout_of(group), self._weights)

        def count(shard: tuple[int, slice]) -> tuple[float, NDArray[np.float64]]:
            part, chosen = shard
            offsets = self._offsets[chosen.start : chosen.stop + 1]
            tokens = slice(offsets[0], offsets[-1])
            found = Shard(tokens, offsets - offsets[0], folding.cells[tokens])
            pairs = np.empty_like(transitions)
            return self._partial_loss(found, transitions, self._counts[part], pairs), pairs

        def unfold(groups: Iterable[_Group]) -> None:
            for group in groups:
                self._unfold(group, theta, 2.0 * self.l2, self._empirical, gradient)

        tasks = self._shards.balance(folding.groups, lambda group: group.cost)
        self._shards.map(fold, tasks)
        found = self._shards.map(count, enumerate(self._shards.split(self._offsets)))
        self._shards.map(unfold, tasks)
        rest = self._rest
        gradient[rest] = 2.0 * self.l2 * theta[rest] - self._empirical[rest]
        pairs = sum(pairs for _, pairs in found)
        gradient[n_weights:] += pairs.reshape(-1)[self._transitions]
        return sum(value for value, _ in found)

    def _layout_of(self, group: _Group) -> tuple:
        """What `_chain.fold` and `_chain.unfold` have to know of a group."""
        features = (self._first, self._count, self._column)
        slots = (group.links, group.begin, group.n_implied)
        return (*features, *slots, self._labels, len(self.model.labels))

    def _unfold(
        self,
        group: _Group,
        theta: NDArray[np.float64],
        shrinkage: float,
        empirical: NDArray[np.float64],
        out: NDArray[np.float64],
    ) -> None:
        layout = self._layout_of(group)
        _chain.unfold(self._counts, *layout, theta, shrinkage, empirical, out)

    def _labels_of_states(self) -> NDArray[np.int32] | None:
        """For slots with a place a label: the label of each state. None: a place a state."""
        if self._width == len(self.model.states):
            return None
        return np.ascontiguousarray(self.model.states[:, -1])

    def _check(
        self,
        columns: NDArray[np.uint64],
        offsets: NDArray[np.int64],
        label_ids: NDArray[np.integer],
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int32]]:
        columns, offsets = self.model.templates.check(columns, offsets)
        label_ids = check_label_ids(label_ids, len(columns), len(self.model.labels))
        self.model.state_ids(label_ids, offsets)
        return columns, offsets, label_ids

    def _number_parameters(self, folding: Folding) -> None:
        """Order the predicates as their slots are: what is needed together lies together."""
        model = self.model
        assert model.supported is not None
        found = folding.rows[folding.rows >= 0]
        others = np.ones(len(model.keys), dtype=np.bool_)
        others[found] = False
        self._order = np.concatenate([found, np.flatnonzero(others).astype(np.int32)])
        supported = model.supported[self._order]
        self._column = np.nonzero(supported)[1].astype(np.int16)
        self._transitions = np.flatnonzero(model.supported_transitions)
        counts = np.count_nonzero(supported, axis=1).astype(np.int16)
        # By row of the model; the last, -1, stands for predicates that it does not know.
        self._count_of_row = np.zeros(len(model.keys) + 1, dtype=np.int16)
        self._first_of_row = np.zeros(len(model.keys) + 1, dtype=np.int64)
        self._count_of_row[self._order] = counts
        self._first_of_row[self._order] = np.cumsum(counts, dtype=np.int64) - counts

    def _feature_rows(self) -> NDArray[np.int32]:
        """The row of the model's weights in which each feature is."""
        return np.repeat(self._order, self._count_of_row[self._order])

    def _take(self, folding: Folding) -> None:
        """Make the arrays of this data, which are kept: new memory costs as much as arithmetic."""
        self._folding: Folding | None = folding
        self._first = self._first_of_row[folding.rows]
        self._count = self._count_of_row[folding.rows]
        n_slots = len(folding.rows)
        self._weights = _aligned_zeros((n_slots, self._width))
        self._counts = _aligned_zeros((self._shards.n, n_slots, self._width))
        self._state_ids = self.model.state_ids(self._label_ids, self._offsets)
        transitions = self._count_gold(folding.cells, self._counts[0])
        # Features that no slot has: of predicates that are not in this data, and of transitions.
        in_slots = np.zeros(self.n_parameters, dtype=np.bool_)
        self._empirical = np.zeros(self.n_parameters)
        nothing = np.zeros(self.n_parameters)
        for group in folding.groups:
            self._unfold(group, nothing, 0.0, nothing, self._empirical)
        seen = np.zeros(len(self.model.keys) + 1, dtype=np.bool_)
        seen[folding.rows] = True
        in_slots[: len(self._column)] = seen[self._feature_rows()]
        self._rest = np.flatnonzero(~in_slots)
        self._empirical[len(self._column) :] = transitions.reshape(-1)[self._transitions]

    def _check_parameters(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        theta = np.ascontiguousarray(theta, dtype=np.float64)
        if theta.shape != (self.n_parameters,):
            raise StructlearnError("SL221", n=self.n_parameters, shape=theta.shape)
        return theta


class ConditionalLikelihood(ChainObjective):
    """The objective of a CRF: - log p(y | x), and the prior. Arguments: see `ChainObjective`."""

    def _partial_loss(
        self,
        shard: Shard,
        transitions: NDArray[np.float64],
        counts: NDArray[np.float64],
        pairs: NDArray[np.float64],
    ) -> float:
        """Sum of log Z, and expected counts."""
        return _chain.expected_counts(
            _chain.Chain(self.model.initial, transitions, self.model.final),
            shard.cells,
            shard.offsets,
            self._weights,
            self._labels_of_states(),
            counts,
            pairs,
        )


@dataclass(frozen=True)
class _Group:
    """A maximal template and those that it implies: slots for the predicates of the latter, then
    for the cells of the former.

    begin: the first slot. n_implied: the number of the predicates.
    links: int32 (n_cells, n_templates), the slots of the predicates that a cell implies, -1 for
        one that the model does not know.
    """

    begin: int
    n_implied: int
    links: NDArray[np.int32]

    @property
    def cost(self) -> int:
        """Of folding and unfolding: the rows that are read."""
        return self.n_implied + len(self.links) + self.links.size


class Folding:
    """The cells of some data, and from which predicates their weights come.

    groups: see `_Group`. rows: int32 (n_slots), the predicate of each slot as a row of the model,
    -1 for a cell without one of its own. cells: int32 (n_tokens, n_groups), slots. Slots of a
    group are in order of first occurrence, so that those met for the first time, as most are, lie
    side by side in memory.
    """

    def __init__(self, model: ChainModel, columns: NDArray[np.uint64], offsets: NDArray[np.int64]):
        templates = model.templates
        maximal, implying = _implications(templates)
        self.cells = np.empty((len(columns), len(maximal)), dtype=np.int32)
        firsts, owners = [], []
        for place, template in enumerate(maximal):
            keys = templates.keys(columns, offsets, [template])[:, 0]
            ids = np.empty(len(keys), dtype=np.int32)
            firsts.append(_chain.number_keys(keys, ids))
            self.cells[:, place] = ids
            owners.append(model.rows(keys[firsts[-1]]))
        implied: list[list[NDArray[np.int32]]] = [[] for _ in maximal]
        for template, candidates in implying.items():
            # Where it has to be looked up for the fewest values.
            chosen = min(candidates, key=lambda place: len(firsts[place]))
            keys = templates.keys(columns, offsets, [template])[:, 0]
            implied[chosen].append(model.rows(keys[firsts[chosen]]))
        self.groups: list[_Group] = []
        rows, begin = [], 0
        for place, own in enumerate(owners):
            columns_of_rows = np.empty((len(own), len(implied[place])), dtype=np.int32)
            for i, column in enumerate(implied[place]):
                columns_of_rows[:, i] = column
            found, links = _number(columns_of_rows)
            links[links >= 0] += begin
            self.groups.append(_Group(begin, len(found), links))
            rows += [found, own]
            self.cells[:, place] += begin + len(found)
            begin += len(found) + len(own)
        self.rows = np.concatenate([np.empty(0, dtype=np.int32), *rows])


def _implications(templates: Templates) -> tuple[list[int], dict[int, list[int]]]:
    """The maximal templates, and for each other one the places, among those, that imply it."""

    def implies(i: int, j: int) -> bool:
        # Of templates with the same terms the first one stands for all.
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


def _number(rows: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The distinct rows that are not -1, by first occurrence; and for each its place, or -1."""
    flat = np.ascontiguousarray(rows).reshape(-1)
    known = np.flatnonzero(flat >= 0)
    ids = np.empty(len(known), dtype=np.int32)
    firsts = _chain.number_keys(flat[known].astype(np.uint64), ids)
    numbers = np.full(len(flat), -1, dtype=np.int32)
    numbers[known] = ids
    return flat[known[firsts]], numbers.reshape(rows.shape)


def _aligned_zeros(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Zeros that begin with a cache line, so that rows of eight lie in one instead of two."""
    size = int(np.prod(shape))
    memory = np.zeros(size + 8)
    start = -memory.ctypes.data % 64 // memory.itemsize
    return memory[start : start + size].reshape(shape)


class _Shards:
    """Work shared by so many threads, or done by the caller if it is one."""

    def __init__(self, n: int):
        self.n = n
        self._pool = ThreadPoolExecutor(n, "structlearn") if n > 1 else None

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """The results, in order."""
        if self._pool is None:
            return [function(item) for item in items]
        return list(self._pool.map(function, items))

    def split(self, offsets: NDArray[np.int64]) -> list[slice]:
        """A slice of the sentences for each thread, with about as many tokens each."""
        goals = offsets[-1] * np.arange(1, self.n) / self.n
        ends = [0, *np.searchsorted(offsets, goals).tolist(), len(offsets) - 1]
        return [slice(a, b) for a, b in pairwise(ends)]

    def balance(self, items: Sequence[T], size: Callable[[T], int]) -> list[list[T]]:
        """The items in a list for each thread: the largest first, to whom has least."""
        lists: list[list[T]] = [[] for _ in range(self.n)]
        for item in sorted(items, key=size, reverse=True):
            min(lists, key=lambda chosen: sum(map(size, chosen))).append(item)
        return lists

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()


def train_crf(
    columns: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    label_ids: NDArray[np.integer],
    labels: Sequence[str],
    templates: Templates | Sequence[str],
    *,
    l2: float = 1.0,
    min_frequency: int = 1,
    order: int = 1,
    pair_features: bool = True,
    encoding: str = "IOB2",
    threads: int = 1,
    max_iterations: int = 500,
    gradient_tolerance: float = 1e-5,
    value_tolerance: float = 1e-9,
    memory: int = 10,
    callback: Callable[[LBFGS], object] | None = None,
) -> ChainModel:
    """A CRF trained on labelled sentences, with float64 weights.

    columns, offsets, label_ids, labels, templates, min_frequency, order, pair_features, encoding:
    as in `ChainModel.build`. l2, threads: as in `ConditionalLikelihood`. The rest: as in
    `optimize.lbfgs.minimize`.
    """
    model = ChainModel.build(
        columns,
        offsets,
        label_ids,
        labels,
        templates,
        min_frequency,
        order=order,
        pair_features=pair_features,
        encoding=encoding,
    )
    objective = ConditionalLikelihood(model, columns, offsets, label_ids, l2=l2, threads=threads)
    optimizer = minimize(
        objective.value_and_gradient,
        objective.parameters(),
        max_iterations=max_iterations,
        callback=callback,
        memory=memory,
        gradient_tolerance=gradient_tolerance,
        value_tolerance=value_tolerance,
    )
    objective.write(optimizer.x)
    objective.close()
    return model
