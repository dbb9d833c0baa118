"""The differences of two pipelines on the same gold sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...display import page
from ...display.html import Page
from ...evaluation.significance import mcnemar, paired_bootstrap
from .evaluation import STYLE, drawn, section, table
from .items import LAYERS, Sentence

MOST_DRAWN = 10  # sentences that became better, and that became worse
HEADER = ("score", "A", "B", "B - A", "95 % from", "to", "p")
TEST_HEADER = ("right", "only A", "only B", "p")


class Comparison(NamedTuple):
    """Differences of two pipelines, A and B.

    scores: name, A, B, difference, bounds of its 95 % interval and p, by the paired bootstrap.
    tests: what is right, the numbers that only A and only B has right, and p of McNemar's test.
    pairs: the sentences of both that differ, with the number of wrong items that B has less.
    """

    scores: list[tuple[str, float, float, float, float, float, float]]
    tests: list[tuple[str, int, int, float]]
    pairs: list[tuple[int, Sentence, Sentence]]


def compare(first: Sequence[Sentence], second: Sequence[Sentence]) -> Comparison:
    """Compare two predictions of the same gold sentences, in the layers that both have."""
    both, scores, tests = list(zip(first, second, strict=True)), [], []
    for name, title in LAYERS.items():
        shared = [pair for pair in both if all(name in own.items for own in pair)]
        if not shared:
            continue
        sides = [[own[side] for own in shared] for side in (0, 1)]
        counts = [np.array([own.counts(name) for own in side]) for side in sides]
        exact = [(c[:, :1] == c).all(axis=1) for c in counts]
        counts = [np.column_stack([c, e, c[:, 0] >= 0]) for c, e in zip(counts, exact, strict=True)]
        found = np.array(paired_bootstrap(counts[0], counts[1], _measures)).T
        for kind, (a, b, low, high, p) in zip(_KINDS, found.tolist(), strict=True):
            scores.append((f"{title}: {kind}", a, b, b - a, low, high, p))
        rights = {"exact match": [side.tolist() for side in exact]}
        if name == "tag":
            rights["words"] = [_right_words(side) for side in sides]
        for what, pair in rights.items():
            tests.append((f"{title}: {what}", *mcnemar([True] * len(pair[0]), *pair)))
    pairs = [(a.wrong - b.wrong, a, b) for a, b in both if a.items != b.items]
    return Comparison(scores, tests, sorted(pairs, key=lambda pair: -pair[0]))


_KINDS = ("precision", "recall", "F1", "exact match")


def _measures(sums: NDArray[Any]) -> NDArray[np.float64]:
    right, gold, found, exact, n = np.moveaxis(np.asarray(sums, dtype=float), -1, 0)
    parts = ((right, found), (right, gold), (2 * right, gold + found), (exact, n))
    return np.stack([above / np.maximum(below, 1) for above, below in parts], axis=-1)


def _right_words(sentences: Sequence[Sentence]) -> list[bool]:
    """Return whether each gold word has the right tag."""
    return [item in own.items["tag"] for own in sentences for item in own.gold_items["tag"]]


def report(comparison: Comparison, title: str) -> Page:
    """Return a page with the differences, and the sentences that changed."""
    better = [pair for pair in comparison.pairs if pair[0] > 0][:MOST_DRAWN]
    worse = [pair for pair in comparison.pairs[::-1] if pair[0] < 0][:MOST_DRAWN]
    note = "Differences with 95 % intervals and p by the paired bootstrap over sentences."
    changed = [
        section(
            f"Sentences that are {name} in B",
            *(
                drawn({"Gold": a.gold, "A": a.predicted, "B": b.predicted}, b, f"{name}-{i}", i < 2)
                for i, (_, a, b) in enumerate(pairs)
            ),
        )
        for name, pairs in (("better", better), ("worse", worse))
    ]
    return page.whole(
        title,
        section("Scores", table("A and B", HEADER, comparison.scores), note=note)
        + section("McNemar's test", table("Right in one only", TEST_HEADER, comparison.tests))
        + "".join(changed),
        STYLE,
    )
