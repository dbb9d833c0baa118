"""From a chain model to labels, their probabilities, and chunks with theirs.

Labels by the algorithm of Viterbi, marginals by forward-backward (Rabiner 1989, sections III.A
and III.B). A chunk's probability is that of all label sequences which have exactly this chunk
(constrained forward-backward: Culotta & McCallum 2004), computed exactly from the backward
variables of the same pass. All of it is linear in the number of tokens, and works alike for labels
and for pairs of labels as states, since a sequence of labels is one of states.

Where brackets are given, as those of a tree, what is decoded is the best of the labellings whose
chunks cross none of them, and the probability of a chunk is that among these labellings (see
`_segments`).

Everywhere `allowed` says what is known beforehand: either bool (n_tokens, n_labels), the labels
that each token may have, or integers (n_tokens), the label that it has, -1 where that is open. What
is returned is then the best, and the probabilities are those, given what is known.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from . import _chain, _segments
from .encoding import same_chunk, split_tag
from .model import ChainModel

Allowed = NDArray[np.bool_] | NDArray[np.integer] | None


@dataclass(frozen=True)
class Segments:
    """The chunks of some sentences, in order; iterating gives (label, start, end, probability).

    labels: the chunks' labels ("NP"), without B- and I-.
    starts, ends: int64, first token and the token after the last, as rows of `columns`.
    probabilities: float64, that exactly this chunk, with these ends, is in the sentence.
    """

    labels: list[str]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    probabilities: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[tuple[str, int, int, float]]:
        arrays = (self.starts.tolist(), self.ends.tolist(), self.probabilities.tolist())
        return zip(self.labels, *arrays, strict=True)


def viterbi(
    model: ChainModel,
    columns: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    allowed: Allowed = None,
) -> NDArray[np.int32]:
    """The most probable label sequence of each sentence.

    columns: uint64 (n_tokens, n_columns); offsets: int64 (n_sentences + 1); see `Templates`.
    Returns int32 (n_tokens), places in `model.labels`; of equals the lowest.
    Raises StructlearnError SL205 if the model is empty, SL203 or SL204 for arrays that do not fit,
    SL216 if `allowed` does not fit, SL217 if it leaves a sentence without any sequence.
    """
    scores, offsets = state_scores(model, columns, offsets, allowed)
    return _labels(model, _viterbi(_chain_of(model), scores, offsets))


def marginals(
    model: ChainModel,
    columns: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    allowed: Allowed = None,
) -> NDArray[np.float64]:
    """p(y_t = y | x) of each token and label, float64 (n_tokens, n_labels).

    Arguments and errors: as in `viterbi`.
    """
    scores, offsets = state_scores(model, columns, offsets, allowed)
    total = _chain.forward_backward(_chain_of(model), scores, offsets, scores)
    _check_possible(total)
    if model.order == 1:
        return scores
    # Sums over the states of each label.
    members = model.states[:, -1:] == np.arange(len(model.labels))
    return scores @ members.astype(np.float64)


def decode_with_segments(
    model: ChainModel,
    columns: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    allowed: Allowed = None,
    brackets: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.int32], Segments]:
    """The label ids of `viterbi`, and the chunks in them with their exact probabilities.

    The chunks are read by the lenient rule of the encoding (see `encoding.same_chunk`). The
    probability of a chunk of type T from s to e is that of: a label of type T at s that does not go
    on with the chunk before, then labels that do, and after e one that does not.
    brackets: int64 (n, 2), in any order: the first token and the token after the last, as rows of
        `columns`, of what no chunk may cross. The labels are then the best without a chunk that
        does, and the probabilities those given that there is none, whether or not the best labels
        of all have one. Brackets that are not within a sentence, or cross one that begins before
        them, do not count. In a chain of second order this takes O(tokens * depth of brackets).
    Arguments and errors: as in `viterbi`; SL210 if the labels are not tags of the encoding.
    """
    parts = [split_tag(label, model.encoding) for label in model.labels]
    names = list(dict.fromkeys(name for _, name in parts if name))
    types = np.array([names.index(name) if name else -1 for _, name in parts], dtype=np.int32)
    same = same_chunk(model.labels, model.encoding)
    last = model.states[:, -1]
    scores, offsets = state_scores(model, columns, offsets, allowed)
    goes_on = np.ascontiguousarray(same[np.ix_(last, last)].view(np.uint8))
    tree = _nested(brackets, offsets)
    decoder: _Free | _UnderBrackets
    if len(tree):
        decoder = _UnderBrackets(model, goes_on, scores, offsets, tree)
    else:
        decoder = _Free(model, goes_on, scores, offsets)
    label_ids = _labels(model, decoder.best_states())
    starts, ends = _chunk_bounds(types, same, label_ids, offsets)
    chunk_types = types[label_ids[starts]]
    sentence = np.searchsorted(offsets, starts, side="right") - 1
    table = np.column_stack([starts, ends, chunk_types, sentence]).astype(np.int64)
    probabilities = decoder.probabilities(table, types[last])
    labels = [names[i] for i in chunk_types.tolist()]
    return label_ids, Segments(labels, starts, ends, probabilities)


class _Free:
    """All labellings of some sentences."""

    def __init__(
        self,
        model: ChainModel,
        goes_on: NDArray[np.uint8],
        scores: NDArray[np.float64],
        offsets: NDArray[np.int64],
    ):
        self.chain, self.goes_on = _chain_of(model), goes_on
        self.scores, self.offsets = scores, offsets

    def best_states(self) -> NDArray[np.int32]:
        """The best sequence of states; SL217 if there is none."""
        return _viterbi(self.chain, self.scores, self.offsets)

    def probabilities(
        self, segments: NDArray[np.int64], types: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        """That of each chunk, float64 (n); the scores are lost.

        segments: int64 (n, 4), its first token, the token after its last, its type, its sentence.
        types: int32 (n_states).
        """
        scores, offsets = self.scores, self.offsets
        messages = np.empty_like(scores)
        in_logs = np.zeros(len(offsets) - 1, dtype=np.uint8)
        # The marginals take the place of the scores.
        _chain.forward_backward(self.chain, scores, offsets, scores, None, messages, in_logs)
        starts, ends, _, sentence = segments.T
        edges = (starts == offsets[sentence]) + 2 * (ends == offsets[sentence + 1])
        found = np.empty(len(segments))
        _chain.segment_probabilities(
            self.chain,
            scores,
            messages,
            in_logs,
            np.column_stack([segments, edges]),
            self.goes_on,
            types,
            found,
        )
        return found


class _UnderBrackets:
    """The labellings whose chunks cross no bracket; else as `_Free`."""

    def __init__(
        self,
        model: ChainModel,
        goes_on: NDArray[np.uint8],
        scores: NDArray[np.float64],
        offsets: NDArray[np.int64],
        brackets: NDArray[np.int64],
    ):
        self.model, self.goes_on = model, goes_on
        self.scores, self.offsets, self.brackets = scores, offsets, brackets
        self.segmenter = _segments.Segmenter(
            model.initial, model.transitions, model.final, goes_on, model.order == 1
        )

    def best_states(self) -> NDArray[np.int32]:
        state_ids = np.zeros(len(self.scores), dtype=np.int32)
        _check_possible(self.segmenter.best(self.scores, self.offsets, self.brackets, state_ids))
        return state_ids

    def probabilities(
        self, segments: NDArray[np.int64], types: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        begins, totals = np.empty_like(self.scores), np.empty(len(self.offsets) - 1)
        self.segmenter.begins(self.scores, self.offsets, self.brackets, begins, totals)
        found = np.empty(len(segments))
        _segments.segment_probabilities(
            self.segmenter, self.scores, begins, self._ends(), totals, segments, types, found
        )
        return found

    def _ends(self) -> NDArray[np.float64]:
        """`Segmenter.begins` from right to left."""
        model, n = self.model, len(self.scores)
        mirrored = n - self.brackets[:, ::-1]
        ends = np.empty_like(self.scores)
        segmenter = _segments.Segmenter(
            model.final,
            np.ascontiguousarray(model.transitions.T),
            model.initial,
            np.ascontiguousarray(self.goes_on.T),
            model.order == 1,
        )
        segmenter.begins(
            np.ascontiguousarray(self.scores[::-1]),
            np.ascontiguousarray(n - self.offsets[::-1]),
            np.ascontiguousarray(mirrored[np.lexsort((-mirrored[:, 1], mirrored[:, 0]))]),
            ends,
            np.empty(len(self.offsets) - 1),
        )
        return np.ascontiguousarray(ends[::-1])


def _nested(brackets: NDArray[np.int64] | None, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The brackets that count, sorted by start, then longest first."""
    if brackets is None:
        return np.empty((0, 2), dtype=np.int64)
    brackets = brackets[brackets[:, 1] - brackets[:, 0] > 1]
    order = np.lexsort((-brackets[:, 1], brackets[:, 0]))
    brackets = np.ascontiguousarray(brackets[order], dtype=np.int64)
    kept = np.empty(len(brackets), dtype=np.uint8)
    _segments.nest(brackets, offsets, kept)
    return brackets[kept.view(np.bool_)]


def n_best(
    model: ChainModel,
    columns: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    n: int,
    allowed: Allowed = None,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The n most probable label sequences of each sentence, best first, exactly.

    Returns int32 (n, n_tokens), the label ids, -1 where a sentence has no more sequences, and
    float64 (n, n_sentences), the logarithms of their probabilities, -inf there. Of equals that
    comes first whose last labels are lowest. The rest: as in `viterbi`; SL209 if n is not positive.
    """
    if n < 1:
        raise StructlearnError("SL209", name="n", wanted="1 or more", value=n)
    scores, offsets = state_scores(model, columns, offsets, allowed)
    chain = _chain_of(model)
    state_ids = np.full((n, len(scores)), -1, dtype=np.int32)
    log_probabilities = np.zeros((n, len(offsets) - 1))
    log_probabilities[1:] = -np.inf
    for i, (begin, end) in enumerate(pairwise(offsets.tolist())):
        if begin == end:
            continue
        part = np.ascontiguousarray(scores[begin:end])
        paths, path_scores = np.full((n, end - begin), -1, dtype=np.int32), np.empty(n)
        _chain.best_paths(chain, part, paths, path_scores)
        state_ids[:, begin:end] = paths
        bounds = np.array([0, end - begin])
        log_z = _chain.forward_backward(chain, part, bounds, np.empty_like(part))
        _check_possible(log_z)
        # A probability of one has a logarithm of zero, whatever was rounded on the way.
        log_probabilities[:, i] = np.minimum(path_scores - log_z, 0.0)
    return np.where(state_ids < 0, -1, _labels(model, state_ids)), log_probabilities


def state_scores(
    model: ChainModel,
    columns: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    allowed: Allowed = None,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """s_t(y), float64 (n_tokens, n_states), and the checked offsets.

    Where the label of a state is not allowed its score is -inf. Errors: as in `viterbi`.
    """
    if model.is_empty:
        raise StructlearnError("SL205")
    columns, offsets = model.templates.check(columns, offsets)
    scores = model.templates.scores(model.index, columns, offsets, model.weights, model.unknown)
    scores = model.state_weights(scores)
    if model.locally_normalized:
        _normalize_locally(model, scores, offsets)
    if allowed is not None:
        mask = _allowed_mask(allowed, len(columns), len(model.labels))
        scores[~mask[:, model.states[:, -1]]] = -np.inf
    return scores, offsets


def _normalize_locally(
    model: ChainModel, scores: NDArray[np.float64], offsets: NDArray[np.int64]
) -> None:
    """Make `scores` those of p(y | x) = prod_t p(y_t | y_{t-1}, x), in place.

    The normaliser of p(. | y_{t-1}, x) depends on y_{t-1} alone: it is taken from that one's score.
    """
    first = offsets[:-1][np.diff(offsets) > 0]
    later = np.ones(len(scores), dtype=np.bool_)
    later[first] = False
    later = np.flatnonzero(later)
    normalizers = _log_totals(scores[later], model.transitions)
    # From a state that nothing may follow no sequence goes on: its score does not matter.
    normalizers[normalizers == -np.inf] = 0.0
    scores[first] -= _log_totals(scores[first], model.initial[None, :])
    scores[later - 1] -= normalizers


def _log_totals(
    scores: NDArray[np.float64], transitions: NDArray[np.float64]
) -> NDArray[np.float64]:
    """log sum_s exp(transitions[r, s] + scores[t, s]), float64 (n_tokens, n_rows)."""
    possible = (transitions > -np.inf).any(axis=1)
    shift = np.where(possible, transitions.max(axis=1), 0.0)
    highest = scores.max(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        totals = np.log(np.exp(scores - highest) @ np.exp(transitions - shift[:, None]).T)
    totals += highest + shift
    # Where the states that may follow are so much worse than others that they were rounded to zero.
    for t in np.flatnonzero((totals[:, possible] == -np.inf).any(axis=1)):
        totals[t] = np.logaddexp.reduce(transitions + scores[t], axis=1)
    return totals


def _allowed_mask(allowed: Allowed, n_tokens: int, n_labels: int) -> NDArray[np.bool_]:
    """`allowed` as bool (n_tokens, n_labels); SL216 if it is neither that nor label ids or -1."""
    allowed = np.asarray(allowed)
    if allowed.dtype == np.bool_ and allowed.shape == (n_tokens, n_labels):
        return allowed
    if allowed.shape != (n_tokens,) or allowed.dtype.kind not in "iu":
        problem = f"{allowed.dtype} of shape {allowed.shape}"
    elif n_tokens and not -1 <= allowed.min() <= allowed.max() < n_labels:
        problem = f"ids from {allowed.min()} to {allowed.max()}"
    else:
        ids = allowed.astype(np.int64)[:, None]
        return (ids == -1) | (ids == np.arange(n_labels))
    raise StructlearnError("SL216", n_tokens=n_tokens, n_labels=n_labels, problem=problem)


def _check_possible(total: float) -> None:
    """Raise SL217 if the sum over sentences of their best scores or log Z is -inf."""
    if total == -np.inf:
        raise StructlearnError("SL217")


def _chain_of(model: ChainModel) -> _chain.Chain:
    return _chain.Chain(model.initial, model.transitions, model.final)


def _viterbi(
    chain: _chain.Chain, scores: NDArray[np.float64], offsets: NDArray[np.int64]
) -> NDArray[np.int32]:
    state_ids = np.empty(len(scores), dtype=np.int32)
    total = _chain.viterbi(chain, scores, offsets, state_ids)
    _check_possible(total)
    return state_ids


def _labels(model: ChainModel, state_ids: NDArray[np.int32]) -> NDArray[np.int32]:
    return state_ids if model.order == 1 else model.states[:, -1][state_ids]


def _chunk_bounds(
    types: NDArray[np.int32],
    same: NDArray[np.bool_],
    label_ids: NDArray[np.int32],
    offsets: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Starts and ends of the chunks in the labels of all tokens: `encoding.decode` on arrays."""
    goes_on = np.zeros(len(label_ids) + 1, dtype=np.bool_)
    goes_on[1:-1] = same[label_ids[:-1], label_ids[1:]]
    goes_on[offsets] = False
    inside = types[label_ids] >= 0
    return np.flatnonzero(inside & ~goes_on[:-1]), np.flatnonzero(inside & ~goes_on[1:]) + 1
