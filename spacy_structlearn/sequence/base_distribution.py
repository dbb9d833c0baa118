"""Base distributions q0 of sentences and labels, and what they expect of features.

M-estimation (Smith, Vail & Lafferty 2007) needs of its base distribution the expectation of every
feature, once:

    E[f] = sum_{x, y} q0(x, y) f(x, y),
    q0(x, y) = prod_i t(y_i | y_{i-2}, y_{i-1}) prod_k e_k(x_ik | y_i) * t($ | y_{n-1}, y_n)

with y_0 = y_{-1} = ^ and independent emissions k (the word; the tag). The expectations are exact:
the weights i_ab of all ways from the start to a pair of labels, and o_ab of all from there to the
end, are solutions of linear systems (equations 9 to 11). A predicate that reads a window around a
token, with or without gaps, is expected wherever the window may lie (equation 12): from its
leftmost place a message over pairs of labels is sent to the right, and from its rightmost place one
to the left; they meet at the labels of the token and of the one before. Beyond the sentence there
is padding, one symbol for each distance, as in `features.Templates`. Messages are the same for all
predicates of a template that read the same up to there, so they are computed once for those.

With q0 tight (every sentence ends) all o_ab are one. It need not be: sums then are over the mass
that q0 has, as equation 3 says, and nothing is divided by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ..errors import StructlearnError
from ..kernels.index import KeyIndex, number_keys
from . import _chain
from .decode import state_scores
from .features import UNKNOWN, Templates
from .hmm import count_trigrams, legal_trigrams, normalise, pair_chain
from .model import ChainModel, check_label_ids, count_transitions
from .states import START, previous_labels

_LONGEST = 1e12
"""Expected numbers of tokens above it are taken for infinite: no sum is exact there."""

_BLOCK = 1 << 22
"""Numbers in an array that is made for many values or tokens at a time: 32 MB."""

_SAMPLES = 10_000
"""Sentences that are sampled at a time."""


@dataclass(frozen=True, eq=False)
class Emission:
    """p(symbols | label) of columns that are emitted together, independently of other columns.

    columns: their names. Several, where one follows from the other: the word and its suffix.
    symbols: uint64 (n_symbols, n_columns), distinct.
    table: float64 (n_symbols, n_labels), each column a distribution.
    """

    columns: tuple[str, ...]
    symbols: NDArray[np.uint64]
    table: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BaseDistribution:
    """q0, with L labels; the edge symbols ^ and $ both have the place L.

    labels: the label strings.
    t: float64 (L + 1, L + 1, L + 1), t[a, b, c] = t(c | a, b), as in `SecondOrderHMM`. Rows need
        not sum to one. t[L, L, L] is the probability of the empty sentence.
    emissions: each has columns of its own. Their symbols are those of closed vocabularies: where
        unknown ones are a symbol, it is one of them.
    Raises StructlearnError SL245 if the parts do not fit together.
    """

    labels: tuple[str, ...]
    t: NDArray[np.float64]
    emissions: tuple[Emission, ...]

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise StructlearnError("SL245", problem=problem)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns, in the order of the emissions."""
        return tuple(name for emission in self.emissions for name in emission.columns)

    @cached_property
    def prefix_sums(self) -> NDArray[np.float64]:
        """i (equations 9, 10), float64 (L + 1, L + 1): of the ways from the start to each pair.

        i[a, b] is the expected number of places with the labels (a, b) if every way from there
        ended with probability one; i[L, L] = 1 is that of the start, and (a, $) is no place.
        Raises StructlearnError SL246 if that is infinite.
        """
        return self._sums[0]

    @cached_property
    def suffix_sums(self) -> NDArray[np.float64]:
        """o (equation 11), float64 (L + 1, L + 1): of the ways from each pair to the end.

        Zero for pairs that are not on a way from the start to the end. o[L, L] is the mass of q0.
        Raises StructlearnError SL246 if that is infinite.
        """
        return self._sums[1]

    @property
    def mass(self) -> float:
        """The sum of q0 over everything, the empty sentence included; 1 if it is proper."""
        return float(self.suffix_sums[-1, -1])

    @property
    def expected_length(self) -> float:
        """The sum of q0 times the number of tokens."""
        n = len(self.labels)
        return float((self.prefix_sums * self.suffix_sums)[:, :n].sum())

    def expectations(
        self, model: ChainModel, columns: NDArray[np.uint64], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """E[f] of every supported feature of a chain model that was made by `ChainModel.build`.

        columns: uint64 (n_tokens, n_columns); offsets: int64 (n_sentences + 1): the data of which
        the model was built, vocabularies closed; they tell what its keys stand for.
        Returns float64 (n_predicates, n_columns) and float64 (n_states, n_states), zero where the
        model supports nothing. What q0 has behind ^ counts for the model's label before the first.
        Raises StructlearnError SL203, SL204, SL246 (see `prefix_sums`), SL247 if labels or columns
        differ, SL248 for a symbol that is not emitted, SL249 for a feature that is not in the data.
        """
        supported, supported_transitions = self._check_model(model)
        weights = np.zeros(model.weights.shape)
        befores = self._befores(model)
        labels = np.concatenate([np.arange(len(self.labels)), model.states[:, -1]])
        missing = supported.any(axis=1)
        for window in self._windows(model, columns, offsets):
            missing[window.rows] = False
            value, column = np.nonzero(supported[window.rows])
            weights[window.rows[value], column] = window.sums(
                value, labels[column], befores[column]
            )
        if missing.any():
            raise StructlearnError("SL249", n=np.count_nonzero(missing))
        transitions = np.where(supported_transitions, self._transitions(model), 0.0)
        return weights, transitions

    def predicate_expectations(
        self, model: ChainModel, columns: NDArray[np.uint64], offsets: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """E of every predicate of a model, whatever the labels are, float64 (n_predicates).

        These are the input-only features of section 5.2. Arguments and errors: as in
        `expectations`, but predicates that are not in the data have zero.
        """
        self._check_model(model)
        totals = np.zeros(len(model.keys))
        anything = np.ones((1, len(self.labels) + 1))
        for window in self._windows(model, columns, offsets):
            values = np.arange(len(window.rows))
            for label in range(len(self.labels)):
                totals[window.rows] += window.sums(values, label, anything)
        return totals

    def posterior_expectations(
        self, model: ChainModel, columns: NDArray[np.uint64], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """E[f] under the empirical distribution of sentences times q0(y | x) (equation 15).

        The mean over the sentences given, empty ones included, of what q0 expects of their labels:
        forward-backward. Arguments, results and errors: as in `expectations`; the model must read
        all columns of q0. Raises SL217 for a sentence that has no probability.
        """
        supported, supported_transitions = self._check_model(model)
        columns, offsets = model.templates.check(columns, offsets)
        own = self._own_columns(columns, model.templates.columns)
        chain_model = self.to_chain_model(model.encoding)
        chain = _chain.Chain(chain_model.initial, chain_model.transitions, chain_model.final)
        n_states = len(chain_model.states)
        pairs, totals = np.empty((n_states, n_states)), np.zeros((n_states, n_states))
        before, label = chain_model.states.T
        states = self._states(model)[before, label]
        features = np.eye(len(self.labels))[label]
        if model.has_pair_features:
            features = np.hstack([features, _one_hot(states, len(model.states))])
        features = scipy.sparse.csr_array(features)
        weights = np.zeros(model.weights.shape)
        for begin, end in _blocks(offsets, max(1, _BLOCK // n_states)):
            chosen, inside = slice(offsets[begin], offsets[end]), offsets[begin : end + 1]
            inside = inside - inside[0]
            scores, _ = state_scores(chain_model, own[chosen], inside)
            if _chain.forward_backward(chain, scores, inside, scores, pairs) == -np.inf:
                raise StructlearnError("SL217")
            totals += pairs
            posterior = scores @ features
            for template in range(len(model.templates)):
                keys = model.templates.keys(columns[chosen], inside, [template])[:, 0]
                firsts, ids = number_keys(keys)
                rows = model.rows(keys[firsts])
                tokens = np.arange(len(keys) + 1)
                on = scipy.sparse.csr_array(
                    (np.ones(len(ids)), ids, tokens), shape=(len(ids), len(rows))
                )
                known = rows >= 0
                weights[rows[known]] += (on.T @ posterior)[known]
        n_sentences = max(len(offsets) - 1, 1)
        of_states = _one_hot(states, len(model.states))
        transitions = of_states.T @ totals @ of_states
        # In place: with many labels the weights take a good part of the memory.
        weights /= n_sentences
        weights[~supported] = 0.0
        return weights, np.where(supported_transitions, transitions / n_sentences, 0.0)

    def sampled_expectations(
        self, model: ChainModel, n_samples: int, seed: int = 0, *, smoothing: float = 0.0
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """An estimate of `expectations` from sentences that are sampled from q0 (equation 7).

        smoothing: added to the count of every supported feature; with 0 most of them have none.
        Returns, and raises, what `expectations` does (not SL248, SL249).
        """
        supported, supported_transitions = self._check_model(model)
        weights, n_columns = np.zeros(model.weights.shape), model.weights.shape[1]
        n_labels, n_states = len(self.labels), len(model.states)
        transitions = np.zeros((n_states, n_states))
        states = self._states(model)
        rng = np.random.default_rng(seed)
        for n in _parts(n_samples):
            columns, offsets, label_ids = self._sample(n, rng)
            columns = _select(columns, self.columns, model.templates.columns)
            state_ids = states[previous_labels(label_ids, offsets, START), label_ids]
            is_state = state_ids < n_states
            counts = count_transitions(offsets, state_ids, n_states + 1)
            transitions += counts[:n_states, :n_states]
            for template in range(len(model.templates)):
                keys = model.templates.keys(columns, offsets, [template])[:, 0]
                first = model.rows(keys).astype(np.int64) * n_columns
                known = first >= 0
                np.add.at(weights.reshape(-1), (first + label_ids)[known], 1.0)
                if model.has_pair_features:
                    known &= is_state
                    np.add.at(weights.reshape(-1), (first + n_labels + state_ids)[known], 1.0)
        scale = self.mass / n_samples
        weights += smoothing
        weights *= scale
        weights[~supported] = 0.0
        transitions = np.where(supported_transitions, (transitions + smoothing) * scale, 0.0)
        return weights, transitions

    def sample(
        self, n: int, seed: int = 0
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int32]]:
        """n sentences from q0, divided by its mass if that is not one.

        Returns uint64 (n_tokens, n_columns), columns as in `.columns`, int64 (n + 1), the offsets,
        and int32 (n_tokens), the label ids; the same for the same seed.
        n: 1 or more. Raises StructlearnError SL246 if q0 has no mass.
        """
        rng = np.random.default_rng(seed)
        columns, offsets, label_ids = zip(*(self._sample(m, rng) for m in _parts(n)), strict=True)
        lengths = np.concatenate([np.diff(part) for part in offsets])
        return (
            np.concatenate(columns),
            np.concatenate([[0], np.cumsum(lengths)]),
            np.concatenate(label_ids),
        )

    def to_chain_model(self, encoding: str = "IOB2") -> ChainModel:
        """q0 as a chain of second order, whose states are the pairs after which something may come.

        It has a template for each emission, and the vocabularies of columns with unknown symbols.
        No emission may have a probability of zero (SL206).
        """
        states, initial, transitions, final = pair_chain(self.t)
        keys, vocabularies = [], {}
        for emission in self.emissions:
            templates = Templates(_texts([emission]))
            keys.append(_keys_of_rows(templates, emission.symbols))
            for name, symbols in zip(emission.columns, emission.symbols.T, strict=True):
                if (symbols == UNKNOWN).any():
                    vocabularies[name] = np.unique(symbols[symbols != UNKNOWN])
        order = np.argsort(np.concatenate(keys))
        with np.errstate(divide="ignore"):
            weights = np.log(np.concatenate([emission.table for emission in self.emissions]))
        return ChainModel(
            self.labels,
            Templates(_texts(self.emissions)),
            np.concatenate(keys)[order],
            weights[order],
            transitions,
            states=states,
            initial=initial,
            final=final,
            encoding=encoding,
            vocabularies=vocabularies,
        )

    @cached_property
    def _sums(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """i and o. What is not on a way from the start to the end has to be left out first: a
        circle without an end would have infinite weight in i, and no part in any sentence."""
        n, t = len(self.labels), self.t
        pairs = _on_a_way(t)
        before, label = np.nonzero(pairs)
        matrix = np.where(label[:, None] == before, t[before, label][:, label], 0.0)
        entries = np.where(before == n, t[n, n, label], 0.0)
        prefix, suffix = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1))
        system = np.eye(len(before)) - matrix
        try:
            into = np.linalg.solve(system.T, entries)
            out = np.linalg.solve(system, t[before, label, n])
        except np.linalg.LinAlgError:
            raise StructlearnError("SL246", problem="sentences of infinite length") from None
        # The series converges just where its formal sum is positive.
        for sums in (into, out):
            largest = sums.max(initial=0.0)
            if not (np.isfinite(sums).all() and largest < _LONGEST):
                raise StructlearnError("SL246", problem="sentences of infinite length")
            if sums.min(initial=0.0) < -1e-9 * largest:
                raise StructlearnError("SL246", problem="sentences of infinite length")
        prefix[before, label] = np.maximum(into, 0.0)
        suffix[before, label] = np.maximum(out, 0.0)
        prefix[n, n] = 1.0
        suffix[n, n] = t[n, n, n] + t[n, n, :n] @ suffix[n, :n]
        return prefix, suffix

    def _states(self, model: ChainModel) -> NDArray[np.int64]:
        """int64 (L + 1, L): the model's state for each pair of labels, n_states if there is none.

        The last place in the first axis is ^: the model's label before the first.
        """
        n, n_states = len(self.labels), len(model.states)
        if model.order == 1:
            return np.tile(np.arange(n), (n + 1, 1))
        states = np.full((n + 1, n), n_states)
        states[model.states[:, 0], model.states[:, 1]] = np.arange(n_states)
        states[n] = states[model.start]
        return states

    def _transitions(self, model: ChainModel) -> NDArray[np.float64]:
        """E of each transition between states of the model, float64 (n_states, n_states)."""
        n, n_states = len(self.labels), len(model.states)
        states = self._states(model)
        trigrams = self.prefix_sums[:, :n, None] * self.t[:, :n, :n] * self.suffix_sums[:n, :n]
        transitions = np.zeros((n_states + 1, n_states + 1))
        np.add.at(transitions, (states[:, :, None], states[:n]), trigrams)
        return transitions[:-1, :-1]

    def _befores(self, model: ChainModel) -> NDArray[np.float64]:
        """float64 (n_labels + n_states, L + 1), for each column of a model: 1 for the labels that
        may be before, any one if the column is a label's."""
        n = len(self.labels)
        befores = np.ones((n + len(model.states) + 1, n + 1))
        befores[n:] = 0.0
        befores[n + self._states(model), np.arange(n + 1)[:, None]] = 1.0
        return befores[:-1]

    def _windows(
        self, model: ChainModel, columns: NDArray[np.uint64], offsets: NDArray[np.int64]
    ) -> Iterator[_Window]:
        """The known predicates in the data, some of a template at a time, with their messages."""
        columns, offsets = model.templates.check(columns, offsets)
        reader = _Reader(self, model.templates.columns, columns, offsets)
        size = max(1, _BLOCK // (len(self.labels) * (len(self.labels) + 1)))
        for template, terms in enumerate(model.templates.terms):
            keys = model.templates.keys(columns, offsets, [template])[:, 0]
            first, _ = number_keys(keys)
            rows = model.rows(keys[first])
            first, rows = first[rows >= 0], rows[rows >= 0]
            names: dict[int, list[str]] = {}
            for name, offset in sorted(terms):
                names.setdefault(offset, []).append(name)
            for begin in range(0, len(rows), size):
                tokens = first[begin : begin + size]
                read = {place: reader.read(tokens, place, names[place]) for place in names}
                codes, table = read.get(0, (np.zeros(len(tokens), np.int64), reader.nothing(0)))
                yield _Window(
                    rows[begin : begin + size],
                    *self._from_left(read, min(names, default=0), len(tokens)),
                    *self._from_right(read, max(names, default=0), len(tokens)),
                    codes,
                    table,
                )

    def _from_left(
        self, read: dict[int, _Reading], leftmost: int, n_values: int
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The weights of all that is before a token, and of its label.

        read: by place, what is read there, of each value of a template. leftmost: of these places.
        Returns float64 (L, n_messages, L + 1), by the label of the token, the message, and the
        label before the token, ^ last; and int64 (n_values), the message of each value.
        """
        n = len(self.labels)
        ids = np.zeros(n_values, dtype=np.int64)
        message = np.ascontiguousarray(self.prefix_sums.T[:n, None, :])
        # That a place is the k-th before the sentence: once for each sentence.
        outside = np.ones((1, max(-leftmost, 0)))
        for place in range(leftmost, 0):
            after = np.empty((n, message.shape[1], n + 1))
            ways = np.matmul(message, self.t.transpose(1, 0, 2)[:n, :, :n])
            after[:, :, :n] = ways.transpose(2, 1, 0)
            after[:, :, n] = self.t[n, n, :n, None] * outside[:, 0]
            message, outside = after, outside[:, 1:]
            if place in read:
                codes, table = read[place]
                first, numbers = number_codes(ids * len(table) + codes)
                factors = table[codes[first]]
                # What was the place's label is now the one before.
                message = message[:, ids[first]] * factors[:, : n + 1]
                outside = outside[ids[first]] * factors[:, n + 1 :]
                ids = numbers
        return message, ids

    def _from_right(
        self, read: dict[int, _Reading], rightmost: int, n_values: int
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The weights of all that is after a token, given its label and the one before.

        Arguments and results: as in `_from_left`.
        """
        n = len(self.labels)
        ids = np.zeros(n_values, dtype=np.int64)
        message = np.ascontiguousarray(self.suffix_sums.T[:n, None, :])
        # That a place is the k-th after the sentence.
        outside = np.ones((1, max(rightmost, 0)))
        for place in range(rightmost, 0, -1):
            if place in read:
                codes, table = read[place]
                first, numbers = number_codes(ids * len(table) + codes)
                factors = table[codes[first]]
                message = message[:, ids[first]] * factors[:, :n].T[:, :, None]
                outside = outside[ids[first]] * factors[:, n:]
                ids = numbers
            ways = np.ascontiguousarray(message[:, :, :n].transpose(2, 1, 0))
            message = np.matmul(ways, self.t[:, :n, :n].transpose(1, 2, 0))
            message += self.t[:, :n, n].T[:, None, :] * outside[:, :1]
            outside = outside[:, 1:]
        return message, ids

    def _sample(
        self, n: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int32]]:
        if not self.mass > 0:
            raise StructlearnError("SL246", problem="no sentence that ends")
        edge = len(self.labels)
        ahead = self.suffix_sums.copy()
        ahead[:, edge] = 1.0
        limits = np.cumsum(self.t * ahead, axis=2)
        # Divided by the last, so that a label without probability is never reached.
        limits = np.divide(limits, limits[:, :, -1:], out=limits, where=limits[:, :, -1:] > 0)
        before = here = np.full(n, edge)
        sentences = np.arange(n)
        found = [(sentences[:0], here[:0])]
        while len(sentences):
            chosen = rng.random(len(sentences))[:, None]
            label = (limits[before, here, :-1] <= chosen).sum(axis=1)
            more = label < edge
            sentences, before, here = sentences[more], here[more], label[more]
            found.append((sentences, here))
        sentences, label_ids = map(np.concatenate, zip(*found, strict=True))
        label_ids = label_ids[np.argsort(sentences, kind="stable")].astype(np.int32)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(sentences, minlength=n))])
        columns = [np.empty((len(label_ids), 0), dtype=np.uint64)]
        for emission in self.emissions:
            places = np.empty(len(label_ids), dtype=np.int64)
            for label in range(edge):
                here = np.flatnonzero(label_ids == label)
                limit = np.cumsum(emission.table[:, label])
                chosen = rng.random(len(here)) * limit[-1]
                places[here] = np.searchsorted(limit, chosen, side="right")
            columns.append(emission.symbols[places])
        return np.hstack(columns), offsets, label_ids

    def _own_columns(self, columns: NDArray[np.uint64], names: Sequence[str]) -> NDArray[np.uint64]:
        """The columns of q0, of which each symbol is checked, of those with these names."""
        own = _select(columns, names, self.columns)
        begin = 0
        for emission in self.emissions:
            end = begin + len(emission.columns)
            _EmissionPart(emission, emission.columns, own[:, begin:end])
            begin = end
        return own

    def _check_model(self, model: ChainModel) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        problem = None
        if model.labels != self.labels:
            problem = f"labels {', '.join(model.labels)} instead of {', '.join(self.labels)}"
        elif model.supported is None or model.supported_transitions is None:
            problem = "no supported features, since it was loaded; call `support` first"
        missing = [name for name in model.templates.columns if name not in self.columns]
        if missing:
            problem = f"columns that are not emitted: {', '.join(missing)}"
        if problem:
            raise StructlearnError("SL247", problem=problem)
        assert model.supported is not None
        assert model.supported_transitions is not None
        return model.supported, model.supported_transitions

    def _problem(self) -> str | None:
        n = len(self.labels)
        if self.t.shape != (n + 1,) * 3:
            return f"t of shape {self.t.shape} for {n} labels"
        if not (np.isfinite(self.t).all() and (self.t >= 0).all()):
            return "a number in t that is negative or not finite"
        if len(set(self.columns)) != len(self.columns):
            return "a column that two emissions have"
        for emission in self.emissions:
            symbols, table = emission.symbols, emission.table
            name = ", ".join(emission.columns)
            if symbols.shape != (len(table), len(emission.columns)) or symbols.dtype != np.uint64:
                return f"symbols of {name} of shape {symbols.shape} and type {symbols.dtype}"
            if table.shape != (len(symbols), n):
                return f"a table of {name} of shape {table.shape} for {n} labels"
            if not ((table >= 0).all() and np.allclose(table.sum(axis=0), 1.0)):
                return f"a table of {name} whose columns are no distributions"
            if len(np.unique(symbols, axis=0)) != len(symbols):
                return f"a symbol of {name} that occurs twice"
        return None


def hidden_markov(
    columns: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    label_ids: NDArray[np.integer],
    labels: Sequence[str],
    names: Sequence[str] = ("ORTH", "TAG"),
    *,
    emitted: Sequence[tuple[str, ...]] | None = None,
    smoothing: float = 0.0,
    encoding: str | None = None,
) -> BaseDistribution:
    """The HMM of `SecondOrderHMM`, counted on columns whose vocabularies are closed already.

    columns: uint64 (n_tokens, n_columns); offsets: int64 (n_sentences + 1); label_ids: integers
        (n_tokens), places in `labels`; names: of the columns.
    emitted: the names of the columns that are emitted together; None: each by itself. Of joint
        symbols those in the data are known, with one added to each count.
    smoothing, encoding: as in `SecondOrderHMM.fit`.
    Raises StructlearnError if the arrays do not fit together, or there is no token.
    """
    columns, label_ids, trigrams = _counted(columns, offsets, label_ids, labels, names)
    t = trigrams + smoothing * legal_trigrams(trigrams > 0, labels, encoding)
    emissions = _emissions(columns, names, emitted, label_ids, len(labels))
    return BaseDistribution(tuple(labels), normalise(t), emissions)


def locally_uniform(
    columns: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    label_ids: NDArray[np.integer],
    labels: Sequence[str],
    names: Sequence[str] = ("ORTH", "TAG"),
    *,
    emitted: Sequence[tuple[str, ...]] | None = None,
    encoding: str | None = "IOB2",
) -> BaseDistribution:
    """The base distribution that says nothing of labels (equation 14).

        q(x, y) = prod_i p(x_i) / N(y_i) * 1 / N(^)

    N(y) is the number of labels that may follow y, the end included, by the encoding or in the
    data; p is the distribution of each column (or, if `emitted` says so, of several together) with
    one added to each count, whatever the label. The end may follow the start, as in the paper,
    where N(^) = N(O) = 3. Arguments and errors: as in `hidden_markov`.
    """
    columns, label_ids, trigrams = _counted(columns, offsets, label_ids, labels, names)
    pairs = legal_trigrams(trigrams > 0, labels, encoding).any(axis=0)
    pairs[-1, -1] = True
    t = np.broadcast_to(normalise(pairs.astype(np.float64)), trigrams.shape).copy()
    t[~pairs] = 0.0
    # The pair (y, $) has nothing behind it, and (^, ^) is the start.
    t[:-1, -1] = 0.0
    unlabelled = _emissions(columns, names, emitted, np.zeros(len(label_ids), dtype=np.int64), 1)
    emissions = tuple(
        Emission(part.columns, part.symbols, np.repeat(part.table, len(labels), axis=1))
        for part in unlabelled
    )
    return BaseDistribution(tuple(labels), t, emissions)


@dataclass(frozen=True)
class _Window:
    """Some predicates of a template, and what their expectations are made of.

    rows: int32 (n_values), of the model.
    left, right: float64 (L, n_messages, L + 1), by the label of the token, the message, and the
    label before it, ^ last. left_ids, right_ids: int64 (n_values), the messages of each value.
    codes: int64 (n_values); here: float64 (n_codes, L), what the token's own symbols have.
    """

    rows: NDArray[np.int32]
    left: NDArray[np.float64]
    left_ids: NDArray[np.int64]
    right: NDArray[np.float64]
    right_ids: NDArray[np.int64]
    codes: NDArray[np.int64]
    here: NDArray[np.float64]

    def sums(
        self, values: NDArray[np.int64], labels: NDArray[np.int64] | int, before: NDArray
    ) -> NDArray[np.float64]:
        """E of predicates together with the token's label and any of the labels before it.

        values, labels: of the same length n. before: float64 (n, L + 1), 1 for those that count.
        """
        left = self.left[labels, self.left_ids[values]]
        left *= self.right[labels, self.right_ids[values]]
        return np.einsum("ij,ij->i", left, before) * self.here[self.codes[values], labels]


_Reading = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Codes, and a row of factors for each: of the labels, then of the padding by distance."""


class _EmissionPart:
    """p(some columns of an emission | label) and the symbols of tokens in it.

    table: float64 (n_symbols, L). codes: int32 (n_tokens), places in it.
    """

    def __init__(self, emission: Emission, names: Sequence[str], columns: NDArray[np.uint64]):
        templates = Templates(("|".join(f"{name}[0]" for name in names),))
        kept = [emission.columns.index(name) for name in names]
        keys, places = np.unique(
            _keys_of_rows(templates, emission.symbols[:, kept]), return_inverse=True
        )
        self.table = np.zeros((len(keys), emission.table.shape[1]))
        np.add.at(self.table, places.reshape(-1), emission.table)
        self.codes = KeyIndex(keys).find(_keys_of_rows(templates, columns))
        if len(columns) and self.codes.min() < 0:
            at = int(self.codes.argmin())
            symbol = ", ".join(map(str, columns[at].tolist()))
            raise StructlearnError("SL248", columns=", ".join(names), symbol=symbol, at=at)


class _Reader:
    """What the emissions have for the symbols at places around tokens, or for the padding there."""

    def __init__(
        self,
        base: BaseDistribution,
        names: Sequence[str],
        columns: NDArray[np.uint64],
        offsets: NDArray[np.int64],
    ):
        self._emissions = base.emissions
        self._n_labels = len(base.labels)
        self._names = names
        self._columns = columns
        lengths = np.diff(offsets)
        self._begins = np.repeat(offsets[:-1], lengths)
        self._ends = np.repeat(offsets[1:], lengths)
        self._parts: dict[tuple[str, ...], _EmissionPart] = {}

    def nothing(self, place: int) -> NDArray[np.float64]:
        """The factors where nothing is read, float64 (1, L + |place|)."""
        return np.ones((1, self._n_labels + abs(place)))

    def read(self, tokens: NDArray[np.int32], place: int, names: Sequence[str]) -> _Reading:
        """What is read at `place` from each token: int64 (n), float64 (n_codes, L + |place|)."""
        at = tokens.astype(np.int64) + place
        beyond = np.maximum(self._begins[tokens] - at, at - self._ends[tokens] + 1)
        inside = beyond <= 0
        at = at[inside]
        found = [(part.codes[at].astype(np.int64), part.table) for part in self._parts_of(names)]
        known, table = reduce(_join, found)
        codes = np.empty(len(tokens), dtype=np.int64)
        codes[inside] = known
        codes[~inside] = len(table) + beyond[~inside] - 1
        distances = abs(place)
        factors = np.zeros((len(table) + distances, self._n_labels + distances))
        factors[: len(table), : self._n_labels] = table
        factors[len(table) :, self._n_labels :] = np.eye(distances)
        return codes, factors

    def _parts_of(self, names: Sequence[str]) -> Iterator[_EmissionPart]:
        for emission in self._emissions:
            mine = tuple(name for name in names if name in emission.columns)
            if not mine:
                continue
            if mine not in self._parts:
                columns = _select(self._columns, self._names, mine)
                self._parts[mine] = _EmissionPart(emission, mine, columns)
            yield self._parts[mine]


def _join(first: _Reading, second: _Reading) -> _Reading:
    """Two readings as one: a code for each pair of codes that occurs."""
    chosen, codes = number_codes(first[0] * len(second[1]) + second[0])
    return codes, first[1][first[0][chosen]] * second[1][second[0][chosen]]


def number_codes(codes: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Where each distinct code is first, and the number of each code in that order."""
    return number_keys(codes.view(np.uint64))


def _on_a_way(t: NDArray[np.float64]) -> NDArray[np.bool_]:
    """bool (L + 1, L): the pairs that are on a way from the start to the end."""
    n = len(t) - 1
    steps = t[:, :n, :n] > 0
    reached = np.zeros((n + 1, n), dtype=np.bool_)
    reached[n] = t[n, n, :n] > 0
    ending = t[:, :n, n] > 0
    for _ in range(reached.size):
        before = np.count_nonzero(reached) + np.count_nonzero(ending)
        reached[:n] |= (reached[:, :, None] & steps).any(axis=0)
        ending |= (steps & ending[:n]).any(axis=2)
        if np.count_nonzero(reached) + np.count_nonzero(ending) == before:
            break
    return reached & ending


def _counted(
    columns: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    label_ids: NDArray[np.integer],
    labels: Sequence[str],
    names: Sequence[str],
) -> tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.float64]]:
    """The checked columns and label ids, and the numbers of trigrams."""
    columns, offsets = Templates([f"{name}[0]" for name in names]).check(columns, offsets)
    label_ids = check_label_ids(label_ids, len(columns), len(labels))
    trigrams = count_trigrams(offsets, label_ids, len(labels)).astype(np.float64)
    return columns, label_ids, trigrams


def _emissions(
    columns: NDArray[np.uint64],
    names: Sequence[str],
    emitted: Sequence[tuple[str, ...]] | None,
    label_ids: NDArray[np.integer],
    n_labels: int,
) -> tuple[Emission, ...]:
    """p(symbols | label) with one added to each count."""
    emissions = []
    for group in [(name,) for name in names] if emitted is None else emitted:
        chosen = _select(columns, names, group)
        templates = Templates(("|".join(f"{name}[0]" for name in group),))
        keys = _keys_of_rows(templates, chosen)
        firsts, ids = number_keys(keys)
        symbols = chosen[firsts]
        size = len(symbols) * n_labels
        counts = np.bincount(ids * np.int64(n_labels) + label_ids, minlength=size) + 1.0
        table = counts.reshape(len(symbols), n_labels)
        order = np.lexsort(symbols.T[::-1])
        emissions.append(Emission(tuple(group), symbols[order], (table / table.sum(axis=0))[order]))
    return tuple(emissions)


def _texts(emissions: Iterable[Emission]) -> tuple[str, ...]:
    """The template of each emission."""
    return tuple("|".join(f"{name}[0]" for name in emission.columns) for emission in emissions)


def _keys_of_rows(templates: Templates, rows: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The key of the only template for each row of symbols."""
    return templates.keys(rows, np.array([0, len(rows)]))[:, 0]


def _select(
    columns: NDArray[np.uint64], names: Sequence[str], wanted: Sequence[str]
) -> NDArray[np.uint64]:
    """Some columns of those with these names; SL247 if there is none of a name."""
    missing = [name for name in wanted if name not in names]
    if missing:
        raise StructlearnError("SL247", problem=f"no columns {', '.join(missing)}")
    return np.ascontiguousarray(columns[:, [list(names).index(name) for name in wanted]])


def _one_hot(places: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    """float64 (len(places), n): 1 at each place; the place n is none."""
    return np.eye(n + 1)[places][:, :-1]


def _blocks(offsets: NDArray[np.int64], n_tokens: int) -> Iterator[tuple[int, int]]:
    """Sentences, from and to, of about so many tokens together, or one that has more."""
    begin, last = 0, len(offsets) - 1
    while begin < last:
        end = int(np.searchsorted(offsets, offsets[begin] + n_tokens, side="right")) - 1
        end = min(max(end, begin + 1), last)
        yield begin, end
        begin = end


def _parts(n: int) -> list[int]:
    """n samples, in parts."""
    return [min(_SAMPLES, n - begin) for begin in range(0, n, _SAMPLES)]
