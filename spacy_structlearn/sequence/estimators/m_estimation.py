"""M-estimation of chain models: training without inference (Smith, Vail & Lafferty 2007).

The model is a base distribution q0, corrected by features (equation 2):

    p_w(x, y) = q0(x, y) exp(w.f(x, y)) / Z(w)

where w minimises the objective of `optimize.m_estimation` (equation 3). This objective needs two
statistics, computed once: the counts of each feature in each labelled sentence, and the expected
counts under q0. An iteration is then two sparse products; neither training nor decoding needs Z.

The result is one chain of second order that includes q0: transitions log t + w, and predicates with
weights log e + w. The label before the first token is ^ for q0 and O for features (Sha & Pereira
2003, section 4.1), so the pair (^, c) has the features of (O, c).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import LinearOperator

from ...errors import StructlearnError
from ...learning.training import Trainer, array_digest
from ...optimize.lbfgs import LBFGS, norm
from ...optimize.m_estimation import DualCoordinateDescent, MEstimationObjective
from ...serialization import Bytes
from ..chain.model import ChainModel
from ..chain.states import START, check_label_ids, transition_places
from ..layout.data import (
    AnyInts,
    Floats,
    Ids,
    Ints,
    Parts,
    SequenceData,
    Symbols,
    arranged,
    concatenate,
)
from ..layout.features import Templates, close
from .base_distribution import BaseDistribution
from .crf import LBFGS_MEMORY, Folding
from .emissions import number_codes
from .hmm import close_columns, hidden_markov, locally_uniform

_LARGEST_WEIGHT = 20.0
"""Bound without a regulariser: e^20 = 5e8 is more than counts of tokens can support."""
_SAMPLE_SMOOTHING = 0.5
"""Added to the count of each feature in samples, because many features are never drawn."""


class GoldCounts(LinearOperator):
    """F, the count of each feature in each labelled sentence, as a linear operator.

    model: its `supported` features are counted or, if they are not known, all features.
    columns: uint64 (n_tokens, n_columns); offsets: int64 (n_sentences + 1); see `Templates`.
    label_ids: integers (n_tokens), the gold labels.
    input_only: whether to count predicates without labels, too (section 5.2).
    The shape is (n_sentences, n_parameters): F w are the scores of the gold labels, and F'a is the
    sum over sentences of their features times a. A parameter vector has the features that occur in
    the data, in order of first occurrence.
    Attributes: places, int64 (n_parameters), of the features in the model's flattened weights,
    then its transitions, then its predicates.
    Raises StructlearnError if the arrays do not fit together.

    Most predicates follow from others (see `crf`), so F is the product of two matrices: the cells
    of each sentence (a cell is a value of a maximal template with the gold state, or a transition),
    and the features of each cell. Together they have two fifths of the nonzeros of F.
    """

    def __init__(
        self,
        model: ChainModel,
        columns: Symbols,
        offsets: Ints,
        label_ids: AnyInts,
        *,
        input_only: bool = False,
    ):
        columns, offsets = model.templates.check(columns, offsets)
        label_ids = check_label_ids(label_ids, len(columns), len(model.labels))
        folding = Folding(model, columns, offsets)
        state_ids = model.state_ids(label_ids, offsets)
        # Without pair features, cells need labels only.
        columns_of_tokens = state_ids if model.has_pair_features else label_ids
        n_own = len(model.states) if model.has_pair_features else len(model.labels)
        codes = np.empty((len(columns), len(folding.groups) + 1), dtype=np.int64)
        codes[:, :-1] = folding.cells.astype(np.int64) * n_own + columns_of_tokens[:, None]
        begin = len(folding.rows) * n_own
        codes[:, -1] = begin + transition_places(offsets, state_ids, len(model.states))
        firsts, ids = number_codes(codes.reshape(-1))
        cells = codes.reshape(-1)[firsts]
        starts = _small(offsets * codes.shape[1])
        shape = (len(offsets) - 1, len(cells))
        self._cells = scipy.sparse.csr_array((np.ones(len(ids)), ids, starts), shape=shape)
        slots, states = np.divmod(cells, n_own)
        owners, places = _features(model, folding, slots, states, cells - begin, input_only)
        # By cell, and numbered in the order in which they are read, since most are read once.
        by_cell = scipy.sparse.coo_array(
            (np.ones(len(owners)), (_small(owners), np.arange(len(owners), dtype=np.int32))),
            shape=(len(cells), len(owners)),
        ).tocsr()
        places = places[by_cell.indices]
        firsts, numbers = number_codes(places)
        self.places = places[firsts]
        self._features = scipy.sparse.csr_array(
            (by_cell.data, numbers, by_cell.indptr), shape=(len(cells), len(self.places))
        )
        super().__init__(np.dtype(np.float64), (len(offsets) - 1, len(self.places)))

    def vector(self, *arrays: Floats) -> Floats:
        """Return the values of the features, float64 (n_parameters).

        arrays: shaped like the model's weights, transitions and, with `input_only`, keys.
        """
        return np.concatenate(arrays, axis=None)[self.places]

    def write(self, vector: Floats, model: ChainModel) -> None:
        """Put a parameter vector into the model, without the weights of input-only features."""
        n = model.weights.size
        flat = np.concatenate([model.weights, model.transitions], axis=None)
        inside = self.places < len(flat)
        flat[self.places[inside]] = vector[inside]
        model.weights[:] = flat[:n].reshape(model.weights.shape)
        model.transitions[:] = flat[n:].reshape(model.transitions.shape)

    def distinct(self, expectations: Floats) -> tuple[scipy.sparse.csr_array, Floats]:
        """Return F and E of a smaller problem that merges features with the same counts.

        expectations: E, float64 (n_parameters).
        m features with the same counts f are merged into one with the counts f sqrt(m) and the
        expectation (sum of E_j) / sqrt(m). This does not change F F' and F E, and thus the dual.
        Most features of a large model are active in a single sentence.
        Returns float64 (n_sentences, n_distinct), in CSR format, and float64 (n_distinct).
        """
        # Sums modulo 2 ** 64, equal for equal columns; others collide with probability 2 ** -64.
        rng = np.random.default_rng(0)
        numbers = rng.integers(2**64, size=self.shape[0], dtype=np.uint64)
        for part in (self._cells, self._features):
            ones = np.ones(part.nnz, dtype=np.uint64)
            numbers = (
                scipy.sparse.csr_array((ones, part.indices, part.indptr), part.shape).T @ numbers
            )
        firsts, groups = number_codes(numbers.view(np.int64))
        scale = np.sqrt(np.bincount(groups, minlength=len(firsts)))
        # The first of each group stands for it.
        is_first = np.zeros(len(groups), dtype=np.bool_)
        is_first[firsts] = True
        chosen = is_first[self._features.indices]
        of_chosen = groups[self._features.indices[chosen]]
        starts = np.concatenate([[0], np.cumsum(chosen)])[self._features.indptr]
        chosen = scipy.sparse.csr_array(
            (scale[of_chosen], of_chosen, _small(starts)), shape=(len(starts) - 1, len(firsts))
        )
        totals = np.bincount(groups, weights=expectations, minlength=len(firsts))
        return self._cells @ chosen, totals / scale

    def _matvec(self, vector: Floats) -> Floats:
        return self._cells @ (self._features @ vector.reshape(-1))

    def _rmatvec(self, vector: Floats) -> Floats:
        return self._features.T @ (self._cells.T @ vector.reshape(-1))


def _features(
    model: ChainModel, folding: Folding, slots: Ints, states: Ints, steps: Ints, input_only: bool
) -> tuple[Ints, Ints]:
    """Return the features of cells as two int64 (n): cells, and places as in `GoldCounts`.

    slots, states, steps: of each cell. States are labels if there are no pair features. A cell with
    a step that is not negative is a transition, and has no slot.
    """
    n_columns, n_labels, n_states = model.weights.shape[1], len(model.labels), len(model.states)
    owners, rows = [], []
    # The row of the slot -1 is -1, too.
    row_of_slot = np.append(folding.rows, np.int32(-1))
    for group in folding.groups:
        first = group.begin + group.n_implied
        cells = np.flatnonzero((slots >= first) & (slots < first + len(group.links)))
        for chosen in (slots[cells], *group.links[slots[cells] - first].T):
            known = row_of_slot[chosen] >= 0
            owners.append(cells[known])
            rows.append(row_of_slot[chosen[known]].astype(np.int64))
    owner = np.concatenate([np.empty(0, dtype=np.int64), *owners])
    row = np.concatenate([np.empty(0, dtype=np.int64), *rows])
    labels = states[owner]
    if model.has_pair_features:
        pairs = row * n_columns + n_labels + states[owner]
        labels = model.states[:, -1][states[owner]]
    arcs = np.flatnonzero((steps >= 0) & (steps < n_states * n_states))
    features = [
        (owner, row * n_columns + labels),
        *([(owner, pairs)] if model.has_pair_features else ()),
        (arcs, model.weights.size + steps[arcs]),
    ]
    if model.supported is not None and model.supported_transitions is not None:
        supported = np.concatenate([model.supported, model.supported_transitions], axis=None)
        features = [(of[supported[places]], places[supported[places]]) for of, places in features]
    if input_only:
        features.append((owner, model.weights.size + model.transitions.size + row))
    owners_of, places_of = zip(*features, strict=True)
    return np.concatenate(owners_of), np.concatenate(places_of)


def _small(places: Ints) -> AnyInts:
    """Return int32 if the places fit, because SciPy uses the larger type of two matrices."""
    return places.astype(np.int32) if places.max(initial=0) <= np.iinfo(np.int32).max else places


class ChainStatistics:
    """The statistics of labelled sentences that M-estimation needs, for any regulariser.

    settings: `MEstimationSettings`. columns: uint64 (n_tokens, n_columns), `settings.columns`, with
        vocabularies not closed yet; offsets, label_ids: as in `ChainModel.build`.
    labels: the labels of the model.
    vocabularies: as in `ChainModel`; symbols outside them are unknown. None: close the vocabularies
        of the data.
    Attributes: base, q0; counts, F, without empty sentences; expectations, E[f], float64
    (n_parameters).
    The order of the sentences decides which token of a type counts as unknown.
    Raises StructlearnError if the arrays do not fit together or have no token, and as
    `BaseDistribution`.
    """

    def __init__(
        self,
        settings: Any,
        columns: Symbols,
        offsets: Ints,
        label_ids: AnyInts,
        labels: Sequence[str],
        vocabularies: Mapping[str, Symbols] | None = None,
    ):
        self.settings = settings
        templates = settings.own_templates
        columns, offsets = templates.check(columns, offsets)
        if len(columns) == 0:
            raise StructlearnError("SL226")
        offsets = np.concatenate([[0], offsets[1:][np.diff(offsets) > 0]])
        names = settings.columns
        columns, _ = close_columns(close(columns, names, vocabularies or {}))
        self.model = ChainModel.build(
            columns,
            offsets,
            label_ids,
            labels,
            templates,
            settings.min_count,
            order=2,
            pair_features=settings.pair_features,
            encoding=settings.encoding,
        )
        sentences, encoding = (columns, offsets, label_ids, labels, names), settings.encoding
        if settings.base == "locally_uniform":
            self.base = locally_uniform(*sentences, encoding=encoding)
        else:
            smoothing = settings.smoothing
            self.base = hidden_markov(*sentences, smoothing=smoothing, encoding=encoding)
        self.counts = GoldCounts(
            self.model, columns, offsets, label_ids, input_only=settings.input_only
        )
        data = self.model, columns, offsets
        expectations: tuple[Floats, ...]
        if settings.base == "empirical":
            expectations = self.base.posterior_expectations(*data)
        elif settings.samples:
            expectations = self.base.sampled_expectations(
                self.model, settings.samples, settings.seed, smoothing=_SAMPLE_SMOOTHING
            )
        else:
            expectations = self.base.expectations(*data)
        if settings.input_only:
            expectations = *expectations, self.base.predicate_expectations(*data)
        self.expectations = self.counts.vector(*expectations)

    @cached_property
    def distinct(self) -> tuple[scipy.sparse.csr_array, Floats]:
        """F and E of the smaller problem of `GoldCounts.distinct`."""
        return self.counts.distinct(self.expectations)

    def corrected(self, vector: Floats) -> ChainModel:
        """Return q0 corrected by features with weights, float64 (n_parameters), as a chain."""
        self.counts.write(vector, self.model)
        return correct(self.base, self.model)


def correct(base: BaseDistribution, model: ChainModel) -> ChainModel:
    """Return q0 times exp(w.f) (equation 2), with the weights w of a second-order chain.

    Its states are those of q0, with START before the first label. Templates that only q0 has come
    after those of the model.
    """
    chain = base.to_chain_model(model.encoding)
    new = [text for text in chain.templates.texts if text not in model.templates.texts]
    unknown = chain.keys[model.rows(chain.keys) < 0]
    keys = np.insert(model.keys, np.searchsorted(model.keys, unknown), unknown)
    n_labels, before = len(chain.labels), chain.states[:, 0]
    states = {tuple(state): place for place, state in enumerate(model.states.tolist())}
    pairs = np.column_stack([np.where(before == START, model.start, before), chain.states[:, 1]])
    places = np.array([states.get(tuple(pair), -1) for pair in pairs.tolist()])
    known = np.flatnonzero(places >= 0)
    has_pair_features = model.has_pair_features or chain.has_pair_features
    weights = np.zeros((len(keys), n_labels + len(chain.states) * has_pair_features))
    weights[np.searchsorted(keys, chain.keys), : chain.weights.shape[1]] = chain.weights
    rows = np.searchsorted(keys, model.keys)
    weights[rows, :n_labels] += model.weights[:, :n_labels]
    if model.has_pair_features:
        weights[rows[:, None], n_labels + known] += model.weights[:, n_labels + places[known]]
    transitions = chain.transitions.copy()
    # Pairs that do not agree are forbidden in both chains.
    further = model.transitions[np.ix_(places[known], places[known])]
    transitions[np.ix_(known, known)] += np.where(np.isneginf(further), 0.0, further)
    return ChainModel(
        chain.labels,
        Templates([*model.templates.texts, *new]),
        keys,
        weights,
        transitions,
        states=chain.states,
        initial=chain.initial,
        final=chain.final,
        encoding=model.encoding,
        classes=model.classes,
        vocabularies=chain.vocabularies,
    )


class Minimization:
    """Minimisation of the objective: of its dual or, without a regulariser, by L-BFGS.

    statistics: with the settings.
    l2: strength of the regulariser l2 |w|^2 / 2; 0: no regulariser.
    """

    def __init__(self, statistics: ChainStatistics, l2: float):
        settings = statistics.settings
        c = 1.0 / l2 if l2 else None
        self._statistics = statistics
        self._objective = MEstimationObjective(statistics.counts, statistics.expectations, c=c)
        self.optimizer: LBFGS | DualCoordinateDescent
        if c is None:
            self.optimizer = LBFGS(
                np.zeros(len(statistics.expectations)),
                memory=LBFGS_MEMORY,
                gradient_tolerance=0.0,
                value_tolerance=settings.tolerance,
            )
        else:
            self.optimizer = DualCoordinateDescent(
                *statistics.distinct, c=c, tolerance=settings.tolerance, seed=settings.seed
            )

    @property
    def n_iterations(self) -> int:
        """Passes of the dual, or iterations of L-BFGS, so far."""
        return self.optimizer.n_iterations

    @property
    def value(self) -> float:
        """The objective at the present weights."""
        return self._objective.value(self.weights())

    def step(self) -> bool:
        """Make one iteration; returns whether more can be made.

        Without a regulariser, stop as soon as the objective is known to have no lower bound.
        """
        if isinstance(self.optimizer, LBFGS):
            if self._objective.is_recession_direction(self.optimizer.x):
                return False
            more = self.optimizer.step(self._within_bounds)
        else:
            more = self.optimizer.step()
        return more and self.n_iterations < self._statistics.settings.max_iterations

    def _within_bounds(self, w: Floats) -> tuple[float, Floats]:
        """Return the objective and its gradient; infinite where a weight is too large.

        Otherwise the line search would take ever longer steps in a direction without lower bound.
        """
        if norm(w) > _LARGEST_WEIGHT:
            return np.inf, np.full(len(w), np.nan)
        return self._objective.value_and_grad(w)

    def run(self) -> Floats:
        """Make all remaining iterations; returns the weights."""
        while self.step():
            pass
        return self.weights()

    def weights(self) -> Floats:
        """The present weights, float64 (n_parameters)."""
        if isinstance(self.optimizer, LBFGS):
            return self.optimizer.x
        alpha = self.optimizer.alpha
        sums = self._statistics.counts.rmatvec(alpha / len(alpha))
        return self.optimizer.c * (sums - self._statistics.expectations)

    def resumed(self, state: Bytes) -> Minimization:
        """Return a copy with the optimizer that is stored, else raise StructlearnError."""
        resumed = copy(self)
        data = () if isinstance(self.optimizer, LBFGS) else self._statistics.distinct
        resumed.optimizer = type(self.optimizer).from_bytes(state, *data)
        return resumed


class MEstimationTrainer(Trainer[Any]):
    """Computes the statistics, then minimises the objective.

    More data change q0 and the features, so training starts again.
    """

    def __init__(self, settings: Any, model: ChainModel, data: Parts):
        super().__init__(settings)
        self._model = model
        self._data: list[SequenceData] = []
        self.add(data)

    def _add(self, data: Parts) -> None:
        self._data = [*self._data, *data]
        self._statistics: ChainStatistics | None = None
        self._minimization: Minimization | None = None

    def iterate(self) -> bool:
        minimization = self._begun()
        before = minimization.n_iterations
        more = minimization.step()
        self.n_iterations += minimization.n_iterations - before
        self.value = minimization.value
        return more

    def parameters(self) -> ChainModel:
        """Return the current model, float32; before the first step, the initial model."""
        if self._statistics is None or self._minimization is None:
            return self._model.replaced()
        model = self._statistics.corrected(self._minimization.weights())
        model.classes = self._model.classes
        return model.compact("float32")

    def data_digest(self) -> bytes:
        return array_digest(self._model.to_bytes(), *self._sentences())

    def state(self) -> dict[str, Any]:
        return {"search": self._minimization and self._minimization.optimizer}

    def restore(self, state: dict[str, Any]) -> bool | None:
        search = state["search"]
        self._minimization = None if search is None else self._begun().resumed(search)
        return None

    def _sentences(self) -> tuple[Symbols, Ints, Ids]:
        return concatenate(arranged(self._data), self._model.labels)

    def _begun(self) -> Minimization:
        if self._statistics is None:
            self._statistics = ChainStatistics(
                self.settings, *self._sentences(), self._model.labels, self._model.vocabularies
            )
        if self._minimization is None:
            l2 = self.settings.strength(sum(len(part.offsets) - 1 for part in self._data))
            self._minimization = Minimization(self._statistics, l2)
        return self._minimization
