"""From a chain model to labels, their probabilities, and chunks with theirs.

Labels by the algorithm of Viterbi, marginals by forward-backward (Rabiner 1989, sections III.A
and III.B). A chunk's probability is that of all label sequences which have exactly this chunk
(constrained forward-backward: Culotta & McCallum 2004), computed exactly from the backward
variables of the same pass. All of it is linear in the number of tokens.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from . import _chain
from .encoding import split_tag
from .features import check_offsets
from .model import ChainModel


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
    model: ChainModel, columns: NDArray[np.uint64], offsets: NDArray[np.int64]
) -> NDArray[np.int32]:
    """The most probable label sequence of each sentence.

    columns: uint64 (n_tokens, n_columns); offsets: int64 (n_sentences + 1); see `Templates`.
    Returns int32 (n_tokens), places in `model.labels`; of equals the lowest.
    Raises StructlearnError SL205 if the model is empty, SL203 or SL204 for arrays that do not fit.
    """
    scores, offsets = emission_scores(model, columns, offsets)
    return _viterbi(model, scores, offsets)


def marginals(
    model: ChainModel, columns: NDArray[np.uint64], offsets: NDArray[np.int64]
) -> NDArray[np.float64]:
    """p(y_t = y | x) of each token and label, float64 (n_tokens, n_labels).

    Arguments and errors: as in `viterbi`.
    """
    scores, offsets = emission_scores(model, columns, offsets)
    _chain.forward_backward(scores, offsets, model.transitions, scores)
    return scores


def decode_with_segments(
    model: ChainModel, columns: NDArray[np.uint64], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int32], Segments]:
    """The label ids of `viterbi`, and the chunks in them with their exact probabilities.

    The chunks are read by the lenient rule of conlleval (see `encoding`). The probability of a
    chunk of type T from s to e is that of: B-T at s, or I-T at s after neither B-T nor I-T (or at
    the start of the sentence); then I-T; and no I-T after e.
    Arguments and errors: as in `viterbi`; SL210 if the labels are not IOB2 tags.
    """
    tags = [split_tag(label) for label in model.labels]
    scores, offsets = emission_scores(model, columns, offsets)
    label_ids = _viterbi(model, scores, offsets)
    gamma, log_beta = np.empty_like(scores), np.empty_like(scores)
    _chain.forward_backward(
        scores, offsets, model.transitions, gamma, expectations=None, log_beta=log_beta
    )
    starts, ends = _chunk_bounds(tags, label_ids, offsets)
    sentence = np.searchsorted(offsets, starts, side="right") - 1
    bounds = np.column_stack([starts, ends, offsets[sentence], offsets[sentence + 1]])
    types, type_labels = _types(tags)
    chunk_types = types[label_ids[starts]]
    probabilities = np.empty(len(starts))
    _chain.segment_probabilities(
        scores,
        model.transitions,
        gamma,
        log_beta,
        np.ascontiguousarray(bounds, dtype=np.int64),
        np.ascontiguousarray(type_labels[chunk_types]),
        probabilities,
    )
    labels = [tags[i][1] for i in label_ids[starts].tolist()]
    return label_ids, Segments(labels, starts, ends, probabilities)


def emission_scores(
    model: ChainModel, columns: NDArray[np.uint64], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """s_t(y), float64 (n_tokens, n_labels), and the checked offsets. Errors: as in `viterbi`."""
    if model.is_empty:
        raise StructlearnError("SL205")
    rows = model.rows(model.templates.keys(columns, offsets))
    scores = np.empty((len(rows), len(model.labels)))
    _chain.emission_scores(rows, model.weights, scores)
    return scores, check_offsets(offsets, len(rows))


def _viterbi(
    model: ChainModel, scores: NDArray[np.float64], offsets: NDArray[np.int64]
) -> NDArray[np.int32]:
    label_ids = np.empty(len(scores), dtype=np.int32)
    _chain.viterbi(scores, offsets, model.transitions, label_ids)
    return label_ids


def _types(tags: list[tuple[str, str]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Type of each label (-1 for O), and the ids (n_types, 2) of B-T and I-T (-1 if absent)."""
    names = list(dict.fromkeys(label for prefix, label in tags if prefix != "O"))
    types = np.array([names.index(label) if label else -1 for _, label in tags], dtype=np.int32)
    ids = {tag: i for i, tag in enumerate(tags)}
    pairs = [(ids.get(("B", name), -1), ids.get(("I", name), -1)) for name in names]
    return types, np.array(pairs, dtype=np.int32).reshape(-1, 2)


def _chunk_bounds(
    tags: list[tuple[str, str]], label_ids: NDArray[np.int32], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Starts and ends of the chunks in the labels of all tokens: `encoding.decode` on arrays."""
    types = _types(tags)[0][label_ids]
    goes_on = np.array([prefix == "I" for prefix, _ in tags])[label_ids]
    goes_on[1:] &= types[1:] == types[:-1]
    goes_on[offsets[:-1][np.diff(offsets) > 0]] = False
    inside = types >= 0
    starts = np.flatnonzero(inside & ~goes_on)
    ends = np.flatnonzero(inside & ~np.append(goes_on[1:], False)) + 1
    return starts, ends
