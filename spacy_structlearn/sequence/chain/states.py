"""The states of a chain: labels, or pairs of labels (Sha & Pereira 2003, section 4.1).

In a second-order chain the state at i is the pair y_i = c_{i-1} c_i, so a transition sees three
labels and a state feature two. One state can follow another only if they agree on the shared label.
The label before the first token is O as in Sha & Pereira or, without a label O, `START`.

The states are all pairs that the encoding allows (B-NP I-NP but not O I-NP), even if they are not
in the training data; otherwise a test sentence could have no correct path.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..layout import encoding as encodings
from ..layout.data import AnyInts, Floats, Ids, Ints, Mask

START = -1
"""The label before the first token, unless it is a label of the data."""


def label_states(n_labels: int) -> Ids:
    """Return the states of a first-order chain, int32 (n_labels, 1): the labels."""
    return np.arange(n_labels, dtype=np.int32)[:, None]


def pair_states(
    labels: Sequence[str], encoding: str | None, label_ids: AnyInts, offsets: Ints
) -> tuple[Ids, int]:
    """Return the states of a second-order chain, int32 (n_states, 2), sorted, and the start label.

    The states are the pairs in the data and those that the encoding allows; it allows all pairs if
    it is None or a label is not one of its tags.
    """
    start = labels.index("O") if "O" in labels else START
    n = len(labels)
    # One more row, the last: index -1 is the start.
    allowed = np.ones((n + 1, n), dtype=np.bool_)
    if encodings.is_of(labels, encoding):
        allowed[:n] = encodings.successions(labels, encoding)
    allowed[START] = start == START
    allowed[previous_labels(label_ids, offsets, start), label_ids] = True
    pairs = np.argwhere(np.roll(allowed, 1, axis=0))
    return (pairs - [1, 0]).astype(np.int32), start


def previous_labels(label_ids: AnyInts, offsets: Ints, start: int) -> Ids:
    """Return the label before each token, int32 (n_tokens); `start` for the first of a sentence."""
    previous = np.empty(len(label_ids), dtype=np.int32)
    previous[1:] = label_ids[:-1]
    previous[offsets[:-1][np.diff(offsets) > 0]] = start
    return previous


def allowed_transitions(states: Ids) -> Mask:
    """Return bool (n_states, n_states): whether the column's state agrees with the row's."""
    if states.shape[1] == 1:
        return np.ones((len(states),) * 2, dtype=np.bool_)
    return states[:, 1][:, None] == states[:, 0][None, :]


def count_trigrams(offsets: Ints, label_ids: Ids, n_labels: int) -> Ints:
    """Count how often each label comes after two others, int64 (n_labels + 1,) * 3.

    The last place is ^ in the first two axes and $ in the third. Empty sentences do not count.
    """
    size = n_labels + 1
    before = previous_labels(label_ids, offsets, n_labels)
    pairs = previous_labels(before, offsets, n_labels).astype(np.int64) * size + before
    last = offsets[1:][np.diff(offsets) > 0] - 1
    ends = (before[last].astype(np.int64) * size + label_ids[last]) * size + n_labels
    trigrams = np.concatenate([pairs * size + label_ids, ends])
    return np.bincount(trigrams, minlength=size**3).reshape(size, size, size)


def legal_trigrams(seen: Mask, labels: Sequence[str], encoding: str | None) -> Mask:
    """Return the trigrams that are in `seen` or consist of pairs that the encoding allows.

    The axes are those of `count_trigrams`.
    """
    n = len(labels)
    pairs = np.ones((n + 1, n + 1), dtype=np.bool_)
    if encodings.is_of(labels, encoding):
        pairs[:n, :n] = encodings.successions(labels, encoding)
        pairs[:n, n] = encodings.endings(labels, encoding)
        # A sentence begins as if O were before it.
        pairs[n, :n] = encodings.successions(["O", *labels], encoding)[0, 1:]
    pairs[n, n] = False
    legal = pairs[:, :, None] & pairs[None, :, :]
    legal[:, n] = False
    legal[n, n] = pairs[n]
    return legal | seen


def pair_chain(t: Floats) -> tuple[Ids, Floats, Floats, Floats]:
    """Return the second-order chain of trigram probabilities t, float64 (n_labels + 1,) * 3.

    Returns its states, int32 (n_states, 2), the pairs that something can follow, with START for ^;
    then the initial scores, transitions and final scores as in `ChainModel`.
    """
    with np.errstate(divide="ignore"):
        log_t = np.log(t)
    edge = len(t) - 1
    pairs = np.argwhere(t.any(axis=2))
    pairs = pairs[pairs[:, 1] != edge]
    # The start, -1 as a label, is the last place of t and the first of the states.
    pairs = pairs[np.argsort((pairs[:, 0] + 1) % (edge + 1), kind="stable")]
    before, label = pairs.T
    agree = label[:, None] == before
    return (
        np.column_stack([np.where(before == edge, START, before), label]).astype(np.int32),
        np.where(before == edge, log_t[edge, edge, label], -np.inf),
        np.where(agree, log_t[before, label][:, label], -np.inf),
        log_t[before, label, edge],
    )
