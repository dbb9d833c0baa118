"""The order in which sentences are annotated: what teaches most comes first.

Uncertainty sampling (Lewis & Gale 1994; Hwa 2004, "Sample selection for statistical parsing") by
the probabilities of brackets. Sentences that are much like one before them come last.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from math import log
from random import Random
from typing import NamedTuple

SIMILAR = 0.5  # Jaccard index of pairs of neighbouring words from which sentences are much alike


class Parsed(NamedTuple):
    """A sentence: its words, their tags, and the probabilities of the brackets of its tree."""

    words: Sequence[str]
    tags: Sequence[str]
    probs: Sequence[float]


def wrong_brackets(parsed: Parsed) -> float:
    """Return the number of wrong brackets to be expected."""
    return sum(min(p, 1 - p) for p in parsed.probs)


def entropy(parsed: Parsed) -> float:
    """Return the entropy of the decisions about brackets, in nats a word."""
    sure = (p for own in parsed.probs for p in (own, 1 - own) if 0 < p < 1)
    return -sum(p * log(p) for p in sure) / max(len(parsed.words), 1)


ORDERS: dict[str, Callable[[Parsed], float] | None] = {
    "errors": wrong_brackets,
    "entropy": entropy,
    "length": lambda own: len(own.words),
    "random": None,
    "text": lambda own: 0.0,
}
"""What each order sorts by, the highest value first."""


def ordered(sentences: Sequence[Parsed], order: str = "errors", seed: int = 0) -> list[int]:
    """Return the numbers of the sentences in one of ORDERS.

    In the orders "errors" and "entropy", sentences with the same tags as one before them, or almost
    the same words, come last. seed: for "random".
    """
    numbers, value = list(range(len(sentences))), ORDERS[order]
    if value is None:
        return Random(seed).sample(numbers, len(numbers))
    values = list(map(value, sentences))
    numbers.sort(key=lambda number: -values[number])
    if order in ("length", "text"):
        return numbers
    repeated = near_duplicates(sentences[number] for number in numbers)
    pairs = list(zip(repeated, numbers, strict=True))
    return [number for later in (False, True) for own, number in pairs if own is later]


def near_duplicates(sentences: Iterable[Parsed]) -> list[bool]:
    """Say of each sentence whether it is much like one before it that is not."""
    having: defaultdict[object, list[int]] = defaultdict(list)
    sizes: list[int] = []
    seen: set[tuple[str, ...]] = set()
    found = []
    for words, tags, _ in sentences:
        grams = {*pairwise(["", *(word.lower() for word in words), ""])}
        shared = Counter(other for gram in grams for other in having[gram])
        found.append(
            tuple(tags) in seen
            or any(n >= SIMILAR * (len(grams) + sizes[at] - n) for at, n in shared.items())
        )
        if not found[-1]:
            seen.add(tuple(tags))
            for gram in grams:
                having[gram].append(len(sizes))
            sizes.append(len(grams))
    return found
