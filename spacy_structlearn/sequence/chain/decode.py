"""Decoding of chain models: labels, label probabilities, and chunks with their probabilities.

Labels come from the Viterbi algorithm and marginals from forward-backward (Rabiner 1989, sections
III.A and III.B). The probability of a chunk is that of all label sequences that have exactly this
chunk (Culotta & McCallum 2004), computed exactly by passes over segments (see `_segments`).
Everything is linear in the number of tokens. Pairs of labels as states need no other algorithm,
since a label sequence is a state sequence.

With brackets, such as those of a tree, the result is the best labelling whose chunks cross no
bracket, and probabilities are those among these labellings.

Everywhere `allowed` constrains the labels: integers (n_tokens), the label of each token, -1 for
any. Results are the best, and probabilities those, under the constraints. A model may be a pool
with scores from outside (`ChainModel.pooled`).
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np

from ...encoder.pool import Loss, log_loss
from ...errors import StructlearnError
from ...learning.settings import check_argument
from ..layout.data import AnyFloats, AnyInts, Floats, Ids, Ints, Mask, Symbols
from ..layout.encoding import Span, decode, same_chunk, split_tag
from . import _chain, _segments
from .model import ChainModel

Allowed = AnyInts | None
MOST_CELLS = 2**23  # of the table of n-best sequences, of 8 bytes


class Segments(NamedTuple):
    """The chunks of some sentences, in order.

    labels: labels of the chunks ("NP"), without B- and I-.
    starts, ends: int64, first token and the token after the last, as rows of `columns`.
    probabilities: float64, the probability of exactly this chunk.
    """

    labels: list[str]
    starts: Ints
    ends: Ints
    probabilities: Floats


def viterbi(model: ChainModel, columns: Symbols, offsets: Ints, allowed: Allowed = None) -> Ids:
    """Return the most probable label sequence of each sentence.

    columns: uint64 (n_tokens, n_columns); offsets: int64 (n_sentences + 1); see `Templates`.
    Returns int32 (n_tokens), places in `model.labels`; the lowest labels win ties.
    Raises StructlearnError if the model is empty, if the arrays do not fit together, or if
    `allowed` leaves a sentence without any label sequence.
    """
    scores, offsets = state_scores(model, columns, offsets, allowed)
    segmenter = _segments.Segmenter(*_state_parts(model))
    state_ids = np.zeros(len(scores), dtype=np.int32)
    _check_possible(segmenter.best(scores, offsets, _nested(None, offsets), state_ids))
    return _labels(model, state_ids)


def marginals(
    model: ChainModel, columns: Symbols, offsets: Ints, allowed: Allowed = None
) -> Floats:
    """Return p(y_t = y | x) of each token and label, float64 (n_tokens, n_labels).

    Arguments and errors are those of `viterbi`.
    """
    scores, offsets = state_scores(model, columns, offsets, allowed)
    total = _chain.forward_backward(_chain.Chain(*_state_parts(model)), scores, offsets, scores)
    _check_possible(total)
    if model.order == 1:
        return scores
    # Sums over the states of each label.
    members = model.states[:, -1:] == np.arange(len(model.labels))
    return scores @ members.astype(np.float64)


def pool_loss(
    model: ChainModel, columns: Symbols, offsets: Ints, outside: AnyFloats, labels: Sequence[str]
) -> Loss:
    """Return the negative log-likelihood of labels, each by itself, by the weights of a pool.

    outside: see `ChainModel.pooled`. labels: (n_tokens); unknown ones do not count.
    """
    outside, numbers = outside.astype(np.float64), {y: i for i, y in enumerate(model.labels)}
    gold = [(row, numbers[label]) for row, label in enumerate(labels) if label in numbers]
    at = tuple(np.array(gold, dtype=np.intp).reshape(-1, 2).T)
    given = columns, offsets
    return lambda weights: log_loss(marginals(model.pooled(weights, outside), *given)[at])


def decode_with_segments(
    model: ChainModel,
    columns: Symbols,
    offsets: Ints,
    allowed: Allowed = None,
    brackets: Ints | None = None,
) -> tuple[Ids, Segments]:
    """Return the label ids of `viterbi`, and the chunks in them with their exact probabilities.

    Chunks are read by the lenient rule of `encoding.same_chunk`. The probability of a chunk of type
    T from s to e is that of a label of type T at s that does not continue the chunk before, then
    labels that continue it, and after e a label that does not.

    brackets: int64 (n, 2), in any order: first token and the token after the last, as rows of
        `columns`, of what no chunk may cross. Brackets that are not within a sentence, or cross a
        bracket that begins before them, are ignored. Decoding takes O(tokens * depth).
    Other arguments and errors are those of `viterbi`; raises StructlearnError also if the labels
    are not tags of the encoding.
    """
    kinds = [split_tag(label, model.encoding)[1] for label in model.labels]
    names = list(dict.fromkeys(filter(None, kinds)))
    types = np.array([names.index(kind) if kind else -1 for kind in kinds], dtype=np.int32)
    same = same_chunk(model.labels, model.encoding)
    last = model.states[:, -1]
    scores, offsets = state_scores(model, columns, offsets, allowed)
    goes_on = np.ascontiguousarray(same[np.ix_(last, last)].view(np.uint8))
    tree = _nested(brackets, offsets)
    segmenter = _segments.Segmenter(*_state_parts(model), goes_on)
    state_ids = np.zeros(len(scores), dtype=np.int32)
    _check_possible(segmenter.best(scores, offsets, tree, state_ids))
    label_ids = _labels(model, state_ids)
    starts, ends = _chunk_bounds(types, same, label_ids, offsets)
    chunk_types = types[label_ids[starts]]
    sentence = np.searchsorted(offsets, starts, side="right") - 1
    table = np.column_stack([starts, ends, chunk_types, sentence]).astype(np.int64)
    begins, totals = _begins(segmenter, scores, offsets, tree)
    # The same from right to left.
    back = [np.ascontiguousarray(part.T) for part in (*_state_parts(model)[::-1], goes_on)]
    mirror = _segments.Segmenter(*back)
    tree = _sorted(len(scores) - tree[:, ::-1])
    from_right, _ = _begins(mirror, scores[::-1], len(scores) - offsets[::-1], tree)
    passes = scores, begins, np.ascontiguousarray(from_right[::-1]), totals
    probabilities = np.empty(len(starts))
    _segments.segment_probabilities(segmenter, *passes, table, types[last], probabilities)
    labels = [names[i] for i in chunk_types.tolist()]
    return label_ids, Segments(labels, starts, ends, probabilities)


def _begins(
    segmenter: _segments.Segmenter, scores: Floats, offsets: Ints, brackets: Ints
) -> tuple[Floats, Floats]:
    begins, totals = np.empty(scores.shape), np.empty(len(offsets) - 1)
    scores, offsets = np.ascontiguousarray(scores), np.ascontiguousarray(offsets)
    segmenter.begins(scores, offsets, brackets, begins, totals)
    return begins, totals


def _sorted(brackets: Ints) -> Ints:
    order = np.lexsort((-brackets[:, 1], brackets[:, 0]))
    return np.ascontiguousarray(brackets[order], dtype=np.int64)


def _nested(brackets: Ints | None, offsets: Ints) -> Ints:
    """Return the brackets that are not ignored, sorted by start, then longest first."""
    if brackets is None:
        return np.empty((0, 2), dtype=np.int64)
    brackets = _sorted(brackets[brackets[:, 1] - brackets[:, 0] > 1])
    kept = np.empty(len(brackets), dtype=np.uint8)
    _segments.nest(brackets, offsets, kept)
    return brackets[kept.view(np.bool_)]


def n_best(
    model: ChainModel, columns: Symbols, offsets: Ints, n: int, allowed: Allowed = None
) -> tuple[Ids, Floats]:
    """Return the n most probable label sequences of each sentence, best first, exactly.

    Returns int32 (n, n_tokens), the label ids, and float64 (n, n_sentences), their log
    probabilities; -1 and -inf where a sentence has fewer sequences, and fewer rows if all have. The
    lowest last labels win ties. Arguments and errors are those of `viterbi`; raises
    StructlearnError also if n < 1, and if the sequences would take more than `MOST_CELLS`.
    """
    check_argument("n", n, ge=1)
    scores, offsets = state_scores(model, columns, offsets, allowed)
    bounds, n_states = list(pairwise(offsets.tolist())), np.isfinite(scores).sum(axis=1)
    n = min(n, max((prod(n_states[slice(*part)].tolist()) for part in bounds), default=1))
    check_argument("n", n, le=_most(model, max((end - begin for begin, end in bounds), default=0)))
    chain = _chain.Chain(*_state_parts(model))
    state_ids = np.full((n, len(scores)), -1, dtype=np.int32)
    log_probabilities = np.zeros((n, len(offsets) - 1))
    log_probabilities[1:] = -np.inf
    for i, (begin, end) in enumerate(bounds):
        if begin == end:
            continue
        part = scores[begin:end]
        state_ids[:, begin:end], path_scores = _best_paths(model, part, n)
        whole = np.array([0, end - begin])
        log_z = _chain.forward_backward(chain, part, whole, np.empty_like(part))
        _check_possible(log_z)
        # Rounding must not make a probability larger than one.
        log_probabilities[:, i] = np.minimum(path_scores - log_z, 0.0)
    return np.where(state_ids < 0, -1, _labels(model, state_ids)), log_probabilities


def _best_paths(model: ChainModel, scores: Floats, k: int) -> tuple[Ids, Floats]:
    """Return the k best state sequences of one sentence, and their scores; -1 and -inf for none.

    A list of k paths to each state; the r-th path comes from place = state * k + rank before.
    """
    n, n_states = scores.shape
    best = np.full((n_states, k), -np.inf)
    best[:, 0] = model.initial + scores[0]
    back = []
    # All states lead to one more state after the last token.
    for t, step in enumerate([*[model.transitions] * (n - 1), model.final[:, None]], 1):
        through = (best[:, :, None] + step[:, None, :]).reshape(n_states * k, -1)
        back.append(np.argsort(-through, axis=0, kind="stable")[:k])
        best = np.take_along_axis(through, back[-1], axis=0).T
        if t < n:
            best += scores[t][:, None]
    paths = np.empty((k, n), dtype=np.int32)
    places = back[-1][:, 0]
    for t in range(n - 1, -1, -1):
        paths[:, t] = places // k
        if t > 0:
            places = back[t - 1][places % k, places // k]
    paths[best[0] == -np.inf] = -1
    return paths, best[0]


def _most(model: ChainModel, n_tokens: int) -> int:
    return max(MOST_CELLS // (max(n_tokens, 1) * (len(model.states) + 1)), 1)


def n_best_chunks(
    model: ChainModel, columns: Symbols, n: int, allowed: Allowed = None
) -> list[tuple[float, list[Span]]]:
    """Return the chunks in the most probable label sequences of one sentence, n different ones.

    The log probability is that of all label sequences with exactly these chunks, by which they are
    sorted. Arguments and errors are those of `n_best`.
    """
    check_argument("n", n, ge=1)
    offsets, wanted, n_before = np.array([0, len(columns)]), n, 0
    found: dict[tuple[Span, ...], None] = {}
    while len(found) < n:
        ids, log_probabilities = n_best(model, columns, offsets, wanted, allowed)
        rows = ids[(log_probabilities > -np.inf).all(axis=1)].tolist()
        tags = ([model.labels[i] for i in row] for row in rows)
        found = dict.fromkeys(tuple(decode(own, model.encoding)) for own in tags)
        if len(rows) == n_before:
            break
        wanted, n_before = min(2 * len(rows), _most(model, len(columns))), len(rows)
    scores, _ = state_scores(model, columns, offsets, allowed)
    total = _log_sum(model, scores)
    sums = [(min(_log_sum(model, scores, spans) - total, 0.0), list(spans)) for spans in found]
    return sorted(sums, key=lambda pair: -pair[0])[:n]


def _log_sum(model: ChainModel, scores: Floats, spans: Iterable[Span] | None = None) -> float:
    """Return log sum exp of the scores of all label sequences, or of those with these chunks."""
    last, n = model.states[:, -1], len(scores)
    kinds, goes_on = np.full(n, "", dtype=object), np.zeros(n, dtype=np.bool_)
    for label, start, end in spans or ():
        kinds[start:end], goes_on[start + 1 : end] = label, True
    if spans is not None:
        types = np.array([split_tag(label, model.encoding)[1] for label in model.labels])[last]
        scores = np.where(types == kinds[:, None], scores, -np.inf)
    same = same_chunk(model.labels, model.encoding)[np.ix_(last, last)]
    steps = [model.transitions] * 2
    if spans is not None:
        steps = [np.where(same == on, model.transitions, -np.inf) for on in (False, True)]
    totals = model.initial + scores[0] if n else np.zeros(1)
    for here, on in zip(scores[1:], goes_on[1:].tolist(), strict=True):
        totals = np.logaddexp.reduce(totals[:, None] + steps[on], axis=0) + here
    return float(np.logaddexp.reduce(totals + model.final if n else totals))


def state_scores(
    model: ChainModel, columns: Symbols, offsets: Ints, allowed: Allowed = None
) -> tuple[Floats, Ints]:
    """Return s_t(y), float64 (n_tokens, n_states), and the checked offsets.

    States of labels that are not allowed have the score -inf. Errors are those of `viterbi`.
    """
    if model.is_empty:
        raise StructlearnError("SL205")
    columns, offsets = model.templates.check(columns, offsets)
    scores: Floats = model.templates.scores(model.index, columns, offsets, model.weights)
    scores = model.state_weights(scores)
    if model.locally_normalized:
        _normalize_locally(model.pool[0] if model.pool else model, scores, offsets)
    scores = model.in_pool(scores)
    if allowed is not None:
        scores[~_allowed_states(model, allowed, len(columns))] = -np.inf
    return scores, offsets


def _normalize_locally(model: ChainModel, scores: Floats, offsets: Ints) -> None:
    """Turn scores into those of p(y | x) = prod_t p(y_t | y_{t-1}, x), in place.

    The normaliser of p(. | y_{t-1}, x) depends on y_{t-1} only and is subtracted from its score.
    """
    first = offsets[:-1][np.diff(offsets) > 0]
    later = np.delete(np.arange(len(scores)), first)
    normalizers = _log_totals(scores[later], model.transitions)
    # No sequence continues after a state without successors, so its score does not matter.
    normalizers[normalizers == -np.inf] = 0.0
    scores[first] -= _log_totals(scores[first], model.initial[None, :])
    scores[later - 1] -= normalizers


def _log_totals(scores: Floats, transitions: Floats) -> Floats:
    """Return log sum_s exp(transitions[r, s] + scores[t, s]), float64 (n_tokens, n_rows)."""
    possible = (transitions > -np.inf).any(axis=1)
    shift = np.where(possible, transitions.max(axis=1), 0.0)
    highest = scores.max(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        totals = np.log(np.exp(scores - highest) @ np.exp(transitions - shift[:, None]).T)
    totals += highest + shift
    # Where all successors are so much worse than other states that they were rounded to zero.
    for t in np.flatnonzero((totals[:, possible] == -np.inf).any(axis=1)):
        totals[t] = np.logaddexp.reduce(transitions + scores[t], axis=1)
    return totals


def _allowed_states(model: ChainModel, allowed: AnyInts, n_tokens: int) -> Mask:
    """Return bool (n_tokens, n_states); raise StructlearnError if `allowed` does not fit."""
    n_labels, given = len(model.labels), np.asarray(allowed)
    if given.shape != (n_tokens,) or given.dtype.kind not in "iu":
        problem = f"{given.dtype} of shape {given.shape}"
    elif n_tokens and not -1 <= given.min() <= given.max() < n_labels:
        problem = f"ids from {given.min()} to {given.max()}"
    else:
        return (given[:, None] == -1) | (given[:, None] == model.states[:, -1])
    raise StructlearnError("SL216", n_tokens=n_tokens, last=n_labels - 1, problem=problem)


def _check_possible(total: float) -> None:
    """Raise StructlearnError if the sum of best scores, or of log Z, is -inf."""
    if total == -np.inf:
        raise StructlearnError("SL217")


def _state_parts(model: ChainModel) -> tuple[Floats, Floats, Floats]:
    return model.initial, model.transitions, model.final


def _labels(model: ChainModel, state_ids: Ids) -> Ids:
    return state_ids if model.order == 1 else model.states[:, -1][state_ids]


def _chunk_bounds(types: Ids, same: Mask, label_ids: Ids, offsets: Ints) -> tuple[Ints, Ints]:
    """Return starts and ends of the chunks in the labels of all tokens."""
    goes_on = np.zeros(len(label_ids) + 1, dtype=np.bool_)
    goes_on[1:-1] = same[label_ids[:-1], label_ids[1:]]
    goes_on[offsets] = False
    inside = types[label_ids] >= 0
    return np.flatnonzero(inside & ~goes_on[:-1]), np.flatnonzero(inside & ~goes_on[1:]) + 1
