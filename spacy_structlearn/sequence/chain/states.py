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

from ...errors import StructlearnError
from ..layout import encoding as encodings
from ..layout.data import AnyInts, Floats, Ids, Ints, Mask

START = -1
"""The label before the first token, unless it is a label of the data."""


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
    if encoding is not None and encodings.is_of(labels, encoding):
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
    if encoding is not None and encodings.is_of(labels, encoding):
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


def check_label_ids(label_ids: AnyInts, n_tokens: int, n_labels: int) -> Ids:
    """`label_ids` as contiguous int32, if there is one for each token in range (else SL207)."""
    label_ids = np.asarray(label_ids)
    problem = None
    if label_ids.shape != (n_tokens,):
        problem = f"shape {label_ids.shape}"
    elif label_ids.size and label_ids.dtype.kind not in "iu":
        problem = f"type {label_ids.dtype}"
    elif label_ids.size and not 0 <= label_ids.min() <= label_ids.max() < n_labels:
        problem = f"ids from {label_ids.min()} to {label_ids.max()}"
    if problem:
        raise StructlearnError("SL207", last=n_labels - 1, n_tokens=n_tokens, problem=problem)
    return np.ascontiguousarray(label_ids, dtype=np.int32)


def count_transitions(offsets: Ints, state_ids: Ids, n_states: int) -> Ints:
    """Count how often the column's state follows the row's, int64 (n_states, n_states)."""
    places = transition_places(offsets, state_ids, n_states)
    counts = np.bincount(places, minlength=n_states * n_states + 1)
    return counts[:-1].reshape(n_states, n_states)


def transition_places(offsets: Ints, state_ids: Ids, n_states: int) -> Ints:
    """Return the place of the transition into each token, int64; n_states ** 2 for first tokens."""
    places = np.full(len(state_ids), n_states * n_states, dtype=np.int64)
    places[1:] = state_ids[:-1].astype(np.int64) * n_states + state_ids[1:]
    places[offsets[:-1][np.diff(offsets) > 0]] = n_states * n_states
    return places
