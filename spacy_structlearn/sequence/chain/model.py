"""The parameters of a linear chain: a row of weights for each predicate, and transitions.

The model is log-linear (Lafferty, McCallum & Pereira 2001, equation 1): a sequence of states has
the score

    i(y_1) + sum_t sum_k w(k-th predicate at t, y_t) + sum_t a(y_{t-1}, y_t) + f(y_n)

A state is a label or, in a chain of second order, a pair of labels (see `states`). The weights of a
predicate are a row with a column for each label and, if predicates are also combined with pairs of
labels (Sha & Pereira 2003, section 4.1), a column for each state; w(k, y) is the sum of the columns
of y. All sequence learners produce this model, and all decoders read it. Predicates are identified
by 64-bit keys (see `features`). Rows are contiguous, so scoring a token takes a few look-ups and
additions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ...arrays import check_offsets
from ...errors import StructlearnError
from ...kernels.index import KeyIndex
from ...learning.settings import check_argument
from ...learning.stored import Stored
from ...learning.weights import Feature, strongest
from ...words.classes import NOT_SHARED, WordClasses, derive_columns, source_columns
from ..layout import encoding as encodings
from ..layout.data import AnyFloats, AnyInts, Floats, Ids, Ints, Mask, Symbols
from ..layout.features import Templates, close
from . import storage
from .states import (
    START,
    allowed_transitions,
    check_label_ids,
    count_transitions,
    pair_states,
    previous_labels,
)

_WEIGHT_DTYPES = ("float16", "float32", "float64")


class ChainModel(Stored):
    """A linear-chain log-linear model of first or second order.

    labels: the label strings; a label's id is its place.
    templates: the feature templates, which make predicates of the input.
    keys: uint64 (n_predicates), ascending and unique: the known predicates.
    weights: float32 or float64 (n_predicates, n_columns); zero where a feature is not supported.
        A column for each label, then (optional, second order only) a column for each state.
    transitions: float64 (n_states, n_states), from row to column; -inf forbids.
    states: int32 (n_states, 1), the labels in order, for a chain of first order, or (n_states, 2),
        the pairs (label before, label) in ascending order; the label before may be `states.START`.
        None: first order.
    initial, final: float64 (n_states), scores of the first and last state; -inf forbids. None:
        zero. In a chain of second order, all allowed first pairs begin with the same label.
    encoding: the scheme that encodes chunks as labels (see `encoding`).
    names: readable names of predicates, by key.
    classes: word classes, from which some columns are derived.
    vocabularies: uint64, ascending: the symbols of each column with a closed vocabulary; all other
        symbols become `features.UNKNOWN`.
    locally_normalized: whether the model is a product of p(state | state before, input), each
        normalised locally (McCallum, Freitag & Pereira 2000), instead of globally normalised.
    margin: labels whose score at a token is lower than the best score by more than this are pruned
        (see `stochastic_crf`); None: no pruning. For first order, with all transitions allowed.
    index: from keys to rows of `weights`.
    storage: floating type in which `to_bytes` writes the weights; None: the type of `weights`.
    pool: the model before `pooled`, and what this was given; not stored.
    supported, supported_transitions: bool (n_predicates, n_columns) and bool (n_states, n_states):
        the features to train. Set by `build`, not stored; else None.
    Raises StructlearnError if the parts do not fit together.
    """

    kind = "chain_model"
    readable = storage.VERSIONS
    passed = (NOT_SHARED,)

    def __init__(
        self,
        labels: Sequence[str],
        templates: Templates,
        keys: Symbols,
        weights: AnyFloats,
        transitions: Floats,
        *,
        states: Ids | None = None,
        initial: Floats | None = None,
        final: Floats | None = None,
        encoding: str = "IOB2",
        names: Mapping[int, str] | None = None,
        classes: WordClasses | None = None,
        vocabularies: Mapping[str, Symbols] | None = None,
        locally_normalized: bool = False,
        margin: float | None = None,
        storage: str | None = None,
    ):
        self.labels: tuple[str, ...] = tuple(labels)
        self.templates = templates
        self.keys = np.ascontiguousarray(keys, dtype=np.uint64)
        dtype = np.float32 if np.asarray(weights).dtype.itemsize <= 4 else np.float64
        self.weights: AnyFloats = np.ascontiguousarray(weights, dtype=dtype)
        self.transitions = np.ascontiguousarray(transitions, dtype=np.float64)
        if states is None:
            states = np.arange(len(self.labels), dtype=np.int32)[:, None]
        self.states = np.ascontiguousarray(states, dtype=np.int32)
        n_states = len(self.states)
        self.initial = _vector(initial, n_states)
        self.final = _vector(final, n_states)
        self.encoding = encoding
        self.names: dict[int, str] = dict(names or {})
        self.classes = classes
        self.vocabularies = {
            name: np.ascontiguousarray(symbols, dtype=np.uint64)
            for name, symbols in sorted((vocabularies or {}).items())
        }
        self.locally_normalized = locally_normalized
        self.margin = margin
        self.storage = storage or str(dtype.__name__)
        self.supported: Mask | None = None
        self.supported_transitions: Mask | None = None
        self.pool: tuple[ChainModel, float, AnyFloats] | None = None
        self._check()
        self.index = KeyIndex(self.keys)

    @classmethod
    def empty(cls) -> ChainModel:
        """Return a model without labels and predicates, as an untrained component holds it."""
        weights, transitions = np.empty((0, 0), np.float32), np.empty((0, 0))
        return cls((), Templates(()), np.empty(0, np.uint64), weights, transitions)

    @classmethod
    def build(
        cls,
        columns: Symbols,
        offsets: Ints,
        label_ids: AnyInts,
        labels: Sequence[str],
        templates: Templates | Sequence[str],
        min_count: int,
        *,
        order: int,
        pair_features: bool,
        encoding: str,
    ) -> ChainModel:
        """Return a float64 model of the predicates and labels in labelled data, all weights zero.

        columns: uint64 (n_tokens, n_columns); offsets: int64 (n_sentences + 1); see `Templates`.
        label_ids: integers (n_tokens), places in `labels`.
        min_count: minimum number of tokens with a predicate.
        order: 1 or 2; with 2 the states are `states.pair_states`.
        pair_features: whether predicates are also combined with pairs of labels, if order is 2.
        The pairs (predicate, column) and (state, next state) in the data are supported.
        Raises StructlearnError if the arrays do not fit together.
        """
        if not isinstance(templates, Templates):
            templates = Templates(templates)
        offsets = check_offsets(offsets, len(columns))
        label_ids = check_label_ids(label_ids, len(columns), len(labels))
        keys = templates.frequent_keys(columns, offsets, min_count)
        states: Ids = np.arange(len(labels), dtype=np.int32)[:, None]
        n_columns, initial, final = len(labels), None, None
        if order == 2:
            states, start = pair_states(labels, encoding, label_ids, offsets)
            n_columns += len(states) * pair_features
            ends = label_ids[offsets[1:][np.diff(offsets) > 0] - 1]
            initial = np.where(states[:, 0] == start, 0.0, -np.inf)
            may_end = np.ones(len(labels), dtype=np.bool_)
            if encodings.is_of(labels, encoding):
                may_end = encodings.endings(labels, encoding)
            may_end[ends] = True
            final = np.where(may_end[states[:, 1]], 0.0, -np.inf)
        model = cls(
            labels,
            templates,
            keys,
            np.zeros((len(keys), n_columns)),
            np.where(allowed_transitions(states), 0.0, -np.inf),
            states=states,
            initial=initial,
            final=final,
            encoding=encoding,
        )
        model.support(columns, offsets, label_ids)
        return model

    @property
    def is_empty(self) -> bool:
        """Whether the model has no labels and cannot decode."""
        return not self.labels

    @property
    def order(self) -> int:
        """1 if the states are labels, 2 if they are pairs of labels."""
        return self.states.shape[1]

    @property
    def has_pair_features(self) -> bool:
        """Whether predicates have weights for pairs of labels."""
        return self.weights.shape[1] > len(self.labels)

    @property
    def start(self) -> int:
        """The label before the first token in a chain of second order."""
        return int(self.states[self.initial > -np.inf, 0][0]) if self.order == 2 else START

    def state_table(self) -> Ids:
        """Return int32 (L + 1, L): the state of each label (column) after each label (row), or -1.

        The last row is the start symbol.
        """
        n = len(self.labels)
        if self.order == 1:
            return np.tile(np.arange(n, dtype=np.int32), (n + 1, 1))
        table = np.full((n + 1, n), -1, dtype=np.int32)
        table[self.states[:, 0], self.states[:, 1]] = np.arange(len(self.states))
        return table

    def state_ids(self, label_ids: Ids, offsets: Ints) -> Ids:
        """Return the states of label sequences, int32 (n_tokens); SL207 for an unknown pair."""
        if self.order == 1:
            return label_ids
        ids = self.state_table()[previous_labels(label_ids, offsets, self.start), label_ids]
        if len(ids) and ids.min() < 0:
            at = int(ids.argmin())
            problem = f"a pair of labels that is no state, at token {at}"
            raise StructlearnError(
                "SL207", last=len(self.labels) - 1, n_tokens=len(ids), problem=problem
            )
        return ids

    def state_weights(self, weights: AnyFloats) -> NDArray[Any]:
        """Sum the columns of each state: from (n, n_columns) to (n, n_states)."""
        if self.order == 1:
            return weights
        n_labels = len(self.labels)
        total = np.take(weights, self.states[:, 1], axis=1)
        if self.has_pair_features:
            total += weights[:, n_labels:]
        return total

    def pooled(self, weights: Sequence[float], scores: AnyFloats) -> ChainModel:
        """Return the log-linear pool of this chain and scores from outside, to decode one input.

        weights: at least 0, of the scores of this chain, transitions included, and of the others. A
            chain that is locally normalised is so before.
        scores: float (n_tokens, n_labels), of each label.
        """
        own, weight = weights
        model = ChainModel.__new__(ChainModel)
        vars(model).update(vars(self), pool=(self, own, weight * scores))
        for name in ("initial", "transitions", "final"):
            part = getattr(self, name)
            # What is forbidden stays forbidden.
            scaled = np.multiply(part, own, out=part.copy(), where=part > -np.inf)
            setattr(model, name, scaled)
        return model

    def in_pool(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Weight scores of states, (n_tokens, n_states), and add those from outside, in place."""
        if self.pool is not None:
            _, own, outside = self.pool
            scores *= own
            scores += outside[:, self.states[:, -1]]
        return scores

    def rows(self, keys: Symbols) -> Ids:
        """Return the row of each predicate in `weights`, or -1 if it is unknown.

        keys: uint64 of any shape. Returns int32 of the same shape.
        """
        return self.index.find(keys)

    def support(self, columns: Symbols, offsets: Ints, label_ids: Ids) -> None:
        """Mark features that occur in the data, or have a weight, as trainable.

        columns, offsets: see `Templates`. label_ids: int32 (n_tokens).
        """
        n_labels = len(self.labels)
        state_ids = self.state_ids(label_ids, offsets)
        # Without the weights of a loaded model some would stay that no objective sees.
        self.supported = self.weights != 0
        for template in range(len(self.templates)):
            rows = self.rows(self.templates.keys(columns, offsets, [template])[:, 0])
            known = rows >= 0
            rows = rows[known]
            self.supported[rows, label_ids[known]] = True
            if self.has_pair_features:
                self.supported[rows, n_labels + state_ids[known]] = True
        counts = count_transitions(offsets, state_ids, len(self.states))
        weighted = np.isfinite(self.transitions) & (self.transitions != 0)
        self.supported_transitions = (counts > 0) | weighted

    def strongest(self, n: int, label: str | None = None, *, named: bool = False) -> list[Feature]:
        """Return the n features with the largest absolute weights: (name, key, label, weight).

        label: only features of this label (for pair features: "before label", with a space).
        named: only predicates with a name; other predicates have an empty name.
        """
        features = self.weights, self.keys, self._column_names(), self.names
        return strongest(*features, n, label, named=named)

    def compact(self, dtype: DTypeLike = "float16", threshold: float = 0.0) -> ChainModel:
        """Return a smaller model with (almost) the same predictions.

        dtype: "float16", "float32" or "float64", the precision to which weights are rounded and
            with which `to_bytes` stores them; in memory float16 is float32.
        threshold: weights of at most this magnitude become zero, and predicates without any
            weight are dropped.
        Raises StructlearnError SL208 if a weight is too large for `dtype`, SL209 for another dtype.
        """
        storage = np.dtype(dtype).name
        check_argument("dtype", storage, str, choices=_WEIGHT_DTYPES)
        # Overflow to infinity is reported below, with a code.
        with np.errstate(over="ignore"):
            weights = self.weights.astype(storage)
        if not np.isfinite(weights).all():
            raise StructlearnError("SL208", dtype=storage)
        weights[np.abs(weights) <= threshold] = 0
        used = weights.any(axis=1)
        keys = self.keys[used]
        return self.replaced(
            keys=keys,
            weights=weights[used],
            transitions=self.transitions.copy(),
            names=self.names
            and {key: self.names[key] for key in keys.tolist() if key in self.names},
            storage=storage,
        )

    @property
    def attributes(self) -> tuple[str, ...]:
        """The columns of the text from which those of the templates are derived."""
        return source_columns(self.templates.columns)

    def derive(self, columns: Symbols, *, closed: bool = True) -> Symbols:
        """The columns of the templates, uint64 (n_tokens, n_columns), from those of the text.

        columns: uint64 (n_tokens, n_sources); see `classes.source_columns`. closed: put UNKNOWN in
        place of what the vocabularies do not have.
        """
        derived = derive_columns(columns, self.templates.columns, self.classes)
        return close(derived, self.templates.columns, self.vocabularies) if closed else derived

    def start_from(self, other: ChainModel) -> None:
        """Copy the weights of the features that `other` shares, as a start of training.

        Weights of labels and pairs of labels are known by the labels' names; those that this model
        does not support stay zero.
        """
        columns, theirs = _shared(self._column_names(), other._column_names())
        rows = other.rows(self.keys)
        known = np.flatnonzero(rows >= 0)
        self.weights[np.ix_(known, columns)] = other.weights[np.ix_(rows[known], theirs)]
        if self.supported is not None:
            self.weights[~self.supported] = 0.0
        states, theirs = _shared(self._state_names(), other._state_names())
        scores = other.transitions[np.ix_(theirs, theirs)]
        block = self.transitions[np.ix_(states, states)]
        both = np.isfinite(scores) & np.isfinite(block)
        self.transitions[np.ix_(states, states)] = np.where(both, scores, block)
        if self.supported_transitions is not None:
            free = np.isfinite(self.transitions) & ~self.supported_transitions
            self.transitions[free] = 0.0

    def extended(
        self,
        columns: Symbols,
        offsets: Ints,
        label_ids: AnyInts,
        labels: Sequence[str],
        min_count: int,
    ) -> ChainModel:
        """Return a float64 model with these weights, and with the labels and features of new data.

        Weights of new features are 0. Arguments and errors are those of `build`.
        """
        new = self.build(
            columns,
            offsets,
            label_ids,
            labels,
            self.templates,
            min_count,
            order=self.order,
            pair_features=self.has_pair_features,
            encoding=self.encoding,
        )
        keys = np.union1d(self.keys, new.keys)
        model = new.replaced(
            keys=keys,
            weights=np.zeros((len(keys), new.weights.shape[1])),
            names=self.names,
            classes=self.classes,
            locally_normalized=self.locally_normalized,
            margin=self.margin,
        )
        model.start_from(self)
        model.support(columns, offsets, np.asarray(label_ids, dtype=np.int32))
        return model

    def _state_names(self) -> list[str]:
        """The label of each state, or "before label"."""
        if self.order == 1:
            return list(self.labels)
        before = [*self.labels, "START"]
        return [f"{before[a]} {self.labels[b]}" for a, b in self.states.tolist()]

    def _column_names(self) -> list[str]:
        """The label, or pair of labels, of each column of weights."""
        return [*self.labels, *(self._state_names() if self.has_pair_features else ())]

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        return storage.to_fields(self)

    @classmethod
    def from_fields(cls, version: int, fields: dict[str, Any]) -> ChainModel:
        return super().from_fields(version, storage.arguments(version, fields))

    def _check(self) -> None:
        problem = self._problem_of_states() or self._problem_of_weights()
        if problem:
            raise StructlearnError("SL206", problem=problem)
        check_argument("storage", self.storage, str, choices=_WEIGHT_DTYPES)
        schemes = *encodings.SCHEMES, encodings.PLAIN
        check_argument("encoding", self.encoding, str, choices=schemes)

    def _problem_of_states(self) -> str | None:
        n_labels, states = len(self.labels), self.states
        n_states = len(states)
        if len(set(self.labels)) != n_labels:
            return "a label occurs twice"
        if states.ndim != 2 or states.shape[1] not in (1, 2):
            return f"states of shape {states.shape}"
        if self.transitions.shape != (n_states, n_states):
            return f"transitions of shape {self.transitions.shape} for {n_states} states"
        if self.initial.shape != (n_states,) or self.final.shape != (n_states,):
            return f"initial or final scores that are not {n_states}"
        for scores in (self.transitions, self.initial, self.final):
            if np.isnan(scores).any() or (scores == np.inf).any():
                return "a transition or another score of states is no number below infinity"
        if states.shape[1] == 1:
            if not np.array_equal(states[:, 0], np.arange(n_labels)):
                return "the states of a first-order chain are not its labels"
            return None
        places = (states[:, 0].astype(np.int64) + 1) * n_labels + states[:, 1]
        if (
            not n_states
            or (states < [START, 0]).any()
            or (states >= n_labels).any()
            or (places[1:] <= places[:-1]).any()
        ):
            return "the states are not pairs of labels, ascending and unique"
        if len(set(states[self.initial > -np.inf, 0].tolist())) != 1:
            return "the pairs that may be first do not have one label before"
        if (self.transitions[~allowed_transitions(states)] > -np.inf).any():
            return "a transition between pairs that do not agree is allowed"
        return None

    def _problem_of_weights(self) -> str | None:
        n_labels, n_states = len(self.labels), len(self.states)
        n_columns = self.weights.shape[-1]
        wanted = {n_labels} if self.order == 1 else {n_labels, n_labels + n_states}
        if self.keys.ndim != 1 or len(self.keys) > np.iinfo(np.int32).max:
            return "the keys are no vector of at most 2**31 - 1 keys"
        if (self.keys[1:] <= self.keys[:-1]).any():
            return "the keys are not ascending and unique"
        if self.weights.shape != (len(self.keys), n_columns) or n_columns not in wanted:
            return f"weights of shape {self.weights.shape} for {len(self.keys)} keys"
        if not np.isfinite(self.weights).all():
            return "a weight is not finite"
        for name, symbols in self.vocabularies.items():
            if symbols.ndim != 1 or (symbols[1:] <= symbols[:-1]).any():
                return f"the vocabulary of {name} is not ascending and unique"
        if self.margin is None:
            return None
        if not 0 <= self.margin < np.inf:
            return f"a margin of {self.margin}"
        if self.order > 1 or self.locally_normalized or not np.isfinite(self.transitions).all():
            return "a margin, and pairs of labels, local normalisation or forbidden transitions"
        return None


def _vector(scores: Floats | None, n: int) -> Floats:
    return np.zeros(n) if scores is None else np.ascontiguousarray(scores, dtype=np.float64)


def _shared(names: Sequence[str], others: Sequence[str]) -> tuple[Ints, Ints]:
    """Return the places in both lists of the names that they share, in the order of the first."""
    place = {name: i for i, name in enumerate(others)}
    pairs = [(i, place[name]) for i, name in enumerate(names) if name in place]
    first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return first, second
