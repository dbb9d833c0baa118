"""Attachment scores of dependency trees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

Arc = tuple[int, str]


class AttachmentScore(NamedTuple):
    """Counts of words. heads: with the right head. labels: with the right head and label."""

    words: int = 0
    heads: int = 0
    labels: int = 0

    @property
    def uas(self) -> float:
        """The unlabelled attachment score: the share of words with the right head."""
        return self.heads / self.words if self.words else 0.0

    @property
    def las(self) -> float:
        """The labelled attachment score: the share of words with the right head and label."""
        return self.labels / self.words if self.words else 0.0


def attachment_score(
    pairs: Iterable[tuple[Sequence[Arc | None], Sequence[Arc]]], *, subtypes: bool = False
) -> AttachmentScore:
    """Score dependency trees over the same words, punctuation included.

    pairs: the gold and the predicted (head, label) of each word of a text; words whose gold arc is
        None do not count. The labels of roots are equal in any case.
    subtypes: whether "nmod:poss" is another label than "nmod".
    """
    label = partial(compared_label, subtypes=subtypes)
    counts = [0, 0, 0]
    for gold, predicted in pairs:
        for wanted, found in zip(gold, predicted, strict=True):
            if wanted is not None:
                right = wanted[0] == found[0]
                both = right and label(wanted[1]) == label(found[1])
                counts = [n + m for n, m in zip(counts, (True, right, both), strict=True)]
    return AttachmentScore(*counts)


def compared_label(label: str, *, subtypes: bool = False) -> str:
    """Return a label as it is compared: without its subtype, unless they count."""
    label = label if subtypes else label.partition(":")[0] or label
    return label.lower() if label.lower() == "root" else label
