"""Base distributions q0 of sentences and labels, and expected feature counts under them.

M-estimation (Smith, Vail & Lafferty 2007) needs the expectation of every feature, once:

    E[f] = sum_{x, y} q0(x, y) f(x, y),
    q0(x, y) = prod_i t(y_i | y_{i-2}, y_{i-1}) prod_k e_k(x_ik | y_i) * t($ | y_{n-1}, y_n)

with y_0 = y_{-1} = ^ and independent emissions k (the word; the tag). The expectations are exact:
the weight i_ab of all paths from the start to a pair of labels, and the weight o_ab of all paths
from there to the end, solve linear systems (equations 9 to 11). The expectation of a predicate that
reads a window around a token is a sum over all positions of the window (equation 12): a message
over pairs of labels goes right from its leftmost place, and another goes left from its rightmost
place. They meet at the labels of the token and of the token before. Outside the sentence there is
padding, one symbol for each distance, as in `features.Templates`. Predicates of a template that
read the same symbols up to a place share the message.

If q0 is tight (every sentence ends), all o_ab are one. It need not be tight: sums are then over the
mass of q0, as in equation 3, and are not divided by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ...errors import StructlearnError
from ...kernels.index import number_keys
from ..chain import _chain
from ..chain.decode import state_scores
from ..chain.model import ChainModel
from ..chain.states import START, count_transitions, pair_chain, previous_labels
from ..layout.data import Floats, Ids, Ints, Mask, Symbols
from ..layout.features import UNKNOWN, Templates
from .emissions import Emission, Reader, Reading, number_codes

_LONGEST = 1e12  # larger expected numbers of tokens count as infinite: sums are not exact there
_BLOCK = 1 << 22  # numbers in an array that holds many values or tokens: 32 MB
_SAMPLES = 10_000  # sentences to sample at a time


@dataclass(frozen=True, eq=False)
class BaseDistribution:
    """q0, with L labels; the edge symbols ^ and $ both have the place L.

    labels: the label strings.
    t: float64 (L + 1, L + 1, L + 1), t[a, b, c] = t(c | a, b). Rows need not sum to one.
        t[L, L, L] is the probability of the empty sentence.
    emissions: of different columns, over closed vocabularies.
    """

    labels: tuple[str, ...]
    t: Floats
    emissions: tuple[Emission, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns, in the order of the emissions."""
        return tuple(emission.column for emission in self.emissions)

    @property
    def mass(self) -> float:
        """The sum of q0 over all sentences and labels; 1 if it is a proper distribution."""
        return float(self.sums[1][-1, -1])

    def expectations(
        self, model: ChainModel, columns: Symbols, offsets: Ints
    ) -> tuple[Floats, Floats]:
        """Return E[f] of every supported feature of a model from `ChainModel.build`.

        columns, offsets: the data that the model was built from, with closed vocabularies.
        Returns float64 (n_predicates, n_columns) and float64 (n_states, n_states), zero for
        features that are not supported. ^ counts as the model's label before the first token.
        Raises StructlearnError if q0 does not emit a column of the model, or if sentences have
        infinite length.
        """
        supported, supported_transitions = self._supported(model)
        weights = np.zeros(model.weights.shape)
        befores = self._befores(model)
        labels = np.concatenate([np.arange(len(self.labels)), model.states[:, -1]])
        for window in self._windows(model, columns, offsets):
            value, column = np.nonzero(supported[window.rows])
            weights[window.rows[value], column] = window.sums(
                value, labels[column], befores[column]
            )
        transitions = np.where(supported_transitions, self._transitions(model), 0.0)
        return weights, transitions

    def predicate_expectations(self, model: ChainModel, columns: Symbols, offsets: Ints) -> Floats:
        """Return E of every predicate without a label, float64 (n_predicates): see section 5.2.

        Arguments and errors are those of `expectations`.
        """
        totals = np.zeros(len(model.keys))
        anything = np.ones((1, len(self.labels) + 1))
        for window in self._windows(model, columns, offsets):
            values = np.arange(len(window.rows))
            for label in range(len(self.labels)):
                totals[window.rows] += window.sums(values, label, anything)
        return totals

    def posterior_expectations(
        self, model: ChainModel, columns: Symbols, offsets: Ints
    ) -> tuple[Floats, Floats]:
        """Return E[f] under the empirical distribution of sentences times q0(y | x) (equation 15).

        This is the mean over sentences, including empty ones, of forward-backward with q0.
        Arguments, results and errors are those of `expectations`; the model must read all columns
        of q0, and each sentence needs a probability above zero.
        """
        supported, supported_transitions = self._supported(model)
        emitted = _select_columns(columns, model.templates.columns, self.columns)
        chain_model = self.to_chain_model(model.encoding)
        chain = _chain.Chain(chain_model.initial, chain_model.transitions, chain_model.final)
        n_states = len(chain_model.states)
        pairs, totals = np.empty((n_states, n_states)), np.zeros((n_states, n_states))
        before, label = chain_model.states.T
        states = self._states(model)[before, label]
        # The place n_states has no column.
        of_states = np.eye(len(model.states) + 1)[states][:, :-1]
        features = np.eye(len(self.labels))[label]
        if model.has_pair_features:
            features = np.hstack([features, of_states])
        features = scipy.sparse.csr_array(features)
        weights = np.zeros(model.weights.shape)
        for begin, end in _blocks(offsets, max(1, _BLOCK // n_states)):
            chosen, inside = slice(offsets[begin], offsets[end]), offsets[begin : end + 1]
            inside = inside - inside[0]
            scores, _ = state_scores(chain_model, emitted[chosen], inside)
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
        transitions = of_states.T @ totals @ of_states
        # In place: with many labels the weights take much of the memory.
        weights /= n_sentences
        weights[~supported] = 0.0
        return weights, np.where(supported_transitions, transitions / n_sentences, 0.0)

    def sampled_expectations(
        self, model: ChainModel, n_samples: int, seed: int = 0, *, smoothing: float = 0.0
    ) -> tuple[Floats, Floats]:
        """Estimate `expectations` from sentences sampled from q0 (equation 7).

        smoothing: added to the count of every supported feature, because many are never sampled.
        """
        supported, supported_transitions = self._supported(model)
        weights, n_columns = np.zeros(model.weights.shape), model.weights.shape[1]
        n_labels, n_states = len(self.labels), len(model.states)
        transitions = np.zeros((n_states, n_states))
        states = self._states(model)
        rng = np.random.default_rng(seed)
        for begin in range(0, n_samples, _SAMPLES):
            columns, offsets, label_ids = self.sample(min(_SAMPLES, n_samples - begin), rng)
            columns = _select_columns(columns, self.columns, model.templates.columns)
            before = previous_labels(label_ids, offsets, START)
            state_ids = states[before, label_ids].astype(np.int32)
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

    def to_chain_model(self, encoding: str = "IOB2") -> ChainModel:
        """Return q0 as a second-order chain with closed vocabularies and a template a column."""
        states, initial, transitions, final = pair_chain(self.t)
        templates = Templates([f"{name}[0]" for name in self.columns])
        parts = [templates.symbol_keys(i, part.symbols) for i, part in enumerate(self.emissions)]
        keys = np.concatenate(parts)
        order = np.argsort(keys)
        return ChainModel(
            self.labels,
            templates,
            keys[order],
            np.log(np.concatenate([part.table for part in self.emissions]))[order],
            transitions,
            states=states,
            initial=initial,
            final=final,
            encoding=encoding,
            vocabularies={
                part.column: part.symbols[part.symbols != UNKNOWN]
                for part in self.emissions
                if UNKNOWN in part.symbols
            },
        )

    @cached_property
    def sums(self) -> tuple[Floats, Floats]:
        """i (equations 9, 10) and o (equation 11), both float64 (L + 1, L + 1).

        i[a, b] is the weight of all paths from the start to the pair (a, b), and o[a, b] of all
        paths from there to the end. o is zero for pairs on no path from the start to the end;
        o[L, L] is the mass of q0. Raises StructlearnError if sentences have infinite length.
        """
        # Pairs on no complete path are left out: a cycle without an end has infinite weight in i.
        n, t = len(self.labels), self.t
        pairs = _complete_pairs(t)
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
            if not largest < _LONGEST or not sums.min(initial=0.0) >= -1e-9 * largest:
                raise StructlearnError("SL246", problem="sentences of infinite length")
        prefix[before, label] = np.maximum(into, 0.0)
        suffix[before, label] = np.maximum(out, 0.0)
        prefix[n, n] = 1.0
        suffix[n, n] = t[n, n, n] + t[n, n, :n] @ suffix[n, :n]
        return prefix, suffix

    def _states(self, model: ChainModel) -> Ints:
        """Return int64 (L + 1, L): the state of each label (column) after another, or n_states."""
        states = model.state_table()
        states[-1] = states[model.start]
        return np.where(states < 0, len(model.states), states)

    def _transitions(self, model: ChainModel) -> Floats:
        """Return E of each transition between states of the model, float64 (n_states, n_states)."""
        n, n_states = len(self.labels), len(model.states)
        states = self._states(model)
        prefix, suffix = self.sums
        trigrams = prefix[:, :n, None] * self.t[:, :n, :n] * suffix[:n, :n]
        transitions = np.zeros((n_states + 1, n_states + 1))
        np.add.at(transitions, (states[:, :, None], states[:n]), trigrams)
        return transitions[:-1, :-1]

    def _befores(self, model: ChainModel) -> Floats:
        """Return float64 (L + n_states, L + 1): 1 if a column allows a label before the token."""
        n = len(self.labels)
        befores = np.ones((n + len(model.states) + 1, n + 1))
        befores[n:] = 0.0
        befores[n + self._states(model), np.arange(n + 1)[:, None]] = 1.0
        return befores[:-1]

    def _windows(self, model: ChainModel, columns: Symbols, offsets: Ints) -> Iterator[_Window]:
        """Yield the known predicates in the data with their messages, in blocks."""
        data = model.templates.columns, columns, offsets
        reader = Reader(self.emissions, len(self.labels), *data)
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
                nothing = np.zeros(len(tokens), np.int64), np.ones((1, len(self.labels)))
                codes, table = read.get(0, nothing)
                yield _Window(
                    rows[begin : begin + size],
                    *self._from_left(read, min(names, default=0), len(tokens)),
                    *self._from_right(read, max(names, default=0), len(tokens)),
                    codes,
                    table,
                )

    def _from_left(
        self, read: dict[int, Reading], leftmost: int, n_values: int
    ) -> tuple[Floats, Ints]:
        """Return `left` and `left_ids` of `_Window`. read: what each value reads, by place."""
        n = len(self.labels)
        ids = np.zeros(n_values, dtype=np.int64)
        message = np.ascontiguousarray(self.sums[0].T[:n, None, :])
        # The weight of places before the sentence, by distance.
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
                # The label of the place is now the label before.
                message = message[:, ids[first]] * factors[:, : n + 1]
                outside = outside[ids[first]] * factors[:, n + 1 :]
                ids = numbers.astype(np.int64)
        return message, ids

    def _from_right(
        self, read: dict[int, Reading], rightmost: int, n_values: int
    ) -> tuple[Floats, Ints]:
        """Return `right` and `right_ids` of `_Window`."""
        n = len(self.labels)
        ids = np.zeros(n_values, dtype=np.int64)
        message = np.ascontiguousarray(self.sums[1].T[:n, None, :])
        # The weight of places after the sentence, by distance.
        outside = np.ones((1, max(rightmost, 0)))
        for place in range(rightmost, 0, -1):
            if place in read:
                codes, table = read[place]
                first, numbers = number_codes(ids * len(table) + codes)
                factors = table[codes[first]]
                message = message[:, ids[first]] * factors[:, :n].T[:, :, None]
                outside = outside[ids[first]] * factors[:, n:]
                ids = numbers.astype(np.int64)
            ways = np.ascontiguousarray(message[:, :, :n].transpose(2, 1, 0))
            message = np.matmul(ways, self.t[:, :n, :n].transpose(1, 2, 0))
            message += self.t[:, :n, n].T[:, None, :] * outside[:, :1]
            outside = outside[:, 1:]
        return message, ids

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Symbols, Ints, Ids]:
        """Draw n sentences from q0, divided by its mass.

        Returns uint64 (n_tokens, n_columns), with the columns `.columns`, the offsets, int64
        (n + 1), and the label ids, int32 (n_tokens).
        """
        if not self.mass > 0:
            raise StructlearnError("SL246", problem="no sentence that ends")
        edge = len(self.labels)
        ahead = self.sums[1].copy()
        ahead[:, edge] = 1.0
        limits = np.cumsum(self.t * ahead, axis=2)
        # Divided by the last, so that a label without probability is never drawn.
        limits = np.divide(limits, limits[:, :, -1:], out=limits, where=limits[:, :, -1:] > 0)
        before = here = np.full(n, edge)
        sentences = np.arange(n)
        drawn = [(sentences[:0], here[:0])]
        while len(sentences):
            chosen = rng.random(len(sentences))[:, None]
            label = (limits[before, here, :-1] <= chosen).sum(axis=1)
            more = label < edge
            sentences, before, here = sentences[more], here[more], label[more]
            drawn.append((sentences, here))
        sentences, label_ids = map(np.concatenate, zip(*drawn, strict=True))
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
        return np.column_stack(columns), offsets, label_ids

    def _supported(self, model: ChainModel) -> tuple[Mask, Mask]:
        """Return the supported features of a model whose columns q0 emits."""
        _check_columns(self.columns, model.templates.columns)
        assert model.supported is not None
        assert model.supported_transitions is not None
        return model.supported, model.supported_transitions


class _Window(NamedTuple):
    """Some predicates of a template with their messages.

    rows: int32 (n_values), rows of the model. here: float64 (n_codes, L), the emissions of the
        token's own symbols. codes: int64 (n_values), rows of `here`.
    left, right: float64 (L, n_messages, L + 1), by the label of the token, the message, and the
        label before the token, with ^ last. left_ids, right_ids: int64 (n_values), of messages.
    """

    rows: Ids
    left: Floats
    left_ids: Ints
    right: Floats
    right_ids: Ints
    codes: Ints
    here: Floats

    def sums(self, values: Ints, labels: Ints | int, before: NDArray) -> Floats:
        """Return E of n predicates with the token's label, float64 (n).

        before: float64 (n, L + 1), 1 for the labels before the token that count.
        """
        left = self.left[labels, self.left_ids[values]]
        left *= self.right[labels, self.right_ids[values]]
        return np.einsum("ij,ij->i", left, before) * self.here[self.codes[values], labels]


def _select_columns(columns: Symbols, names: Sequence[str], wanted: Sequence[str]) -> Symbols:
    """Select columns by name. Raises StructlearnError if a name is missing."""
    _check_columns(names, wanted)
    return np.ascontiguousarray(columns[:, [names.index(name) for name in wanted]])


def _check_columns(names: Sequence[str], wanted: Sequence[str]) -> None:
    if missing := [name for name in wanted if name not in names]:
        raise StructlearnError("SL247", problem=f"no columns {', '.join(missing)}")


def _complete_pairs(t: Floats) -> Mask:
    """Return bool (L + 1, L): the pairs that are on a path from the start to the end."""
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


def _blocks(offsets: Ints, n_tokens: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of sentences with at most n_tokens tokens, or with one sentence."""
    begin, last = 0, len(offsets) - 1
    while begin < last:
        end = int(np.searchsorted(offsets, offsets[begin] + n_tokens, side="right")) - 1
        yield begin, (end := max(end, begin + 1))
        begin = end
