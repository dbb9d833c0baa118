"""Agreement of annotators about the sentences that both have annotated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from .prf import Span, score_spans

Annotated = Mapping[Hashable, tuple[Sequence[str], Sequence[Span]]]
"""The tags and the brackets of sentences, by what tells each from all others."""


def agreement(annotators: Mapping[str, Annotated]) -> list[dict[str, Any]]:
    """Compare each pair of annotators.

    annotators: the sentences of each, by name.
    Returns for each pair `annotators`, `sentences` (the number of those that both have),
    `brackets_f` and `labelled_f` (F1, which is the same in both directions), and `tags_kappa`; None
    where there is nothing to compare.
    """
    found = []
    for names in combinations(annotators, 2):
        one, other = (annotators[name] for name in names)
        pairs = [(one[key], other[key]) for key in one if key in other]
        tags = [own for one, other in pairs for own in zip(one[0], other[0], strict=True)]
        sides = [[own[side][1] for own in pairs] for side in (0, 1)]
        bare = [[[("", *place) for _, *place in own] for own in side] for side in sides]
        figures = {"brackets_f": _f1(bare), "labelled_f": _f1(sides), "tags_kappa": kappa(tags)}
        found.append({"annotators": list(names), "sentences": len(pairs), **figures})
    return found


def _f1(sides: Sequence[Any]) -> float | None:
    score = score_spans(*sides)
    return score.f1 if score.gold + score.predicted else None


def kappa(pairs: Iterable[tuple[str, str]]) -> float | None:
    """Return the kappa of pairs of labels (Cohen 1960); None without pairs.

    It is 1 if all are equal, and 0 if they are equal as often as by chance.
    """
    pairs = list(pairs)
    if not pairs:
        return None
    equal = sum(one == other for one, other in pairs) / len(pairs)
    first, second = (Counter(side) for side in zip(*pairs, strict=True))
    chance = sum(n * second[label] for label, n in first.items()) / len(pairs) ** 2
    return 1.0 if equal == 1 else (equal - chance) / (1 - chance)
