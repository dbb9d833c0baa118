"""The states of a chain: single labels, or pairs of labels (Sha & Pereira 2003, section 4.1).

In a chain of second order the state at i is the pair y_i = c_{i-1} c_i, so that a transition
between two states sees three labels and a state feature two. Two states follow one another only
if they agree on the label that they share. The first pair of a sentence needs a label before the
first token: c_0 = O in Sha & Pereira, or, where there is no label O, a start of its own (-1).

The states are all pairs that the encoding allows (B-NP I-NP but not O I-NP), whether or not the
training data have them: with those seen alone, a test sentence could be without any right path.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from . import encoding as encodings

START = -1
"""The label before the first token, where no real label plays its part."""


def label_states(n_labels: int) -> NDArray[np.int32]:
    """The states of a first-order chain, int32 (n_labels, 1): the labels."""
    return np.arange(n_labels, dtype=np.int32)[:, None]


def pair_states(
    labels: Sequence[str],
    encoding: str | None,
    label_ids: NDArray[np.integer],
    offsets: NDArray[np.int64],
) -> tuple[NDArray[np.int32], int]:
    """The states of a second-order chain, int32 (n_states, 2), sorted, and the start label.

    labels, encoding: pairs that the encoding allows are states; all are if it is None or a label
        is none of its tags. label_ids (n_tokens), offsets: pairs in these data are states too.
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


def previous_labels(
    label_ids: NDArray[np.integer], offsets: NDArray[np.int64], start: int
) -> NDArray[np.int32]:
    """The label before each token, `start` before the first of a sentence: int32 (n_tokens)."""
    previous = np.empty(len(label_ids), dtype=np.int32)
    previous[1:] = label_ids[:-1]
    previous[offsets[:-1][np.diff(offsets) > 0]] = start
    return previous


def allowed_transitions(states: NDArray[np.int32]) -> NDArray[np.bool_]:
    """bool (n_states, n_states): whether the column's state agrees with the row's before it."""
    if states.shape[1] == 1:
        return np.ones((len(states),) * 2, dtype=np.bool_)
    return states[:, 1][:, None] == states[:, 0][None, :]
