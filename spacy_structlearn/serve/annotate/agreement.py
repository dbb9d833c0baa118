"""Agreement of annotators about the sentences that both have accepted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from ...evaluation.prf import score_spans
from .formats import Gold

Figures = dict[str, Any]


def agreement(annotators: Mapping[str, Iterable[tuple[Any, Gold]]]) -> list[Figures]:
    """Compare each pair of annotators.

    annotators: the name of each, and the accepted sentences, each with a key that tells it from
    others of the same words.
    Returns for each pair `annotators`, `sentences` (the number of those that both have),
    `brackets_f` and `labelled_f` (F1, which is the same in both directions), and `tags_kappa`; None
    where there is nothing to compare.
    """
    by_key = {
        name: {(key, *gold.words): gold for key, gold in own} for name, own in annotators.items()
    }
    found = []
    for (name, one), (other_name, other) in combinations(by_key.items(), 2):
        both = [key for key in one if key in other]
        pairs = [(one[key], other[key]) for key in both]
        names = [name, other_name]
        found.append({"annotators": names, "sentences": len(both)} | _of(pairs))
    return found


def _of(pairs: Sequence[tuple[Gold, Gold]]) -> Figures:
    figures: Figures = {}
    for name, labelled in (("brackets_f", False), ("labelled_f", True)):
        spans = [
            [[(label if labelled else "", i, j) for label, i, j in own.brackets] for own in side]
            for side in zip(*pairs, strict=True)
        ] or [[], []]
        score = score_spans(*spans)
        figures[name] = score.f1 if score.gold + score.predicted else None
    tags = [pair for one, other in pairs for pair in zip(one.tags, other.tags, strict=True)]
    return figures | {"tags_kappa": kappa(tags)}


def kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return the kappa of pairs of labels (Cohen 1960); None without pairs.

    It is 1 if all are equal, and 0 if they are equal as often as by chance.
    """
    if not pairs:
        return None
    equal = sum(one == other for one, other in pairs) / len(pairs)
    first, second = (Counter(side) for side in zip(*pairs, strict=True))
    chance = sum(n * second[label] for label, n in first.items()) / len(pairs) ** 2
    return 1.0 if equal == 1 else (equal - chance) / (1 - chance)
