"""Constraints on the trees of a sentence: brackets that must be, or must not be.

Pereira & Schabes (1992) parse within given brackets in the same way: no node of the chart may
cross a bracket that must be. A binarised tree without such a node has a node of exactly this span.
What is left is a matter of this span alone: which productions may make its lower and its upper node
(see `_chart.pyx`). These are the limits that the kernel reads. As it does so before it computes the
posteriors by which it prunes, a bracket that must be is never pruned, however improbable it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import StructlearnError
from ..latent.model import LatentGrammar

# Start and end in words, a label or None for any phrase, and whether the bracket must be.
Constraint = tuple[int, int, str | None, bool]
FREE, BLOCKED = -1, -2  # spans without constraints, and those that cross a bracket that must be


class Limits(NamedTuple):
    """What the constraints of a sentence of n words allow, for the kernel.

    spans: FREE, BLOCKED, or the row of (start, end) in the other two, int32 (n, n + 1).
    whole: whether one node of this symbol may be both the lower and the upper one of the span, and
        for a tag, whether the word may have no phrase, uint8 (rows, symbols).
    unary: whether the unary production may be over the span, uint8 (rows, unary rules).
    """

    spans: NDArray[np.int32]
    whole: NDArray[np.uint8]
    unary: NDArray[np.uint8]


class Limited(NamedTuple):
    """The constraints of a sentence, as the parser reads them.

    limits: on its phrases, or None.
    tags: by word, the tags that it must have and those that it must not have.
    """

    limits: Limits | None
    tags: dict[int, tuple[set[int], set[int]]]


class Compiler:
    """Makes limits of constraints.

    grammar: whose symbols, rules and chains are read.
    """

    def __init__(self, grammar: LatentGrammar):
        symbols, rules = grammar.symbols, grammar.rules
        self._symbols = symbols
        first, last = symbols.n_tags, symbols.n_tags + symbols.n_phrases
        # The labels of the brackets that a node makes, by symbol and by unary production.
        self._whole = np.zeros((symbols.size, symbols.n_phrases), dtype=bool)
        self._whole[range(first, last), range(symbols.n_phrases)] = True
        self._unary = np.zeros((len(rules.unary), symbols.n_phrases), dtype=bool)
        # At the top of a tree the phrase that holds together several children is no bracket.
        self._top_unary = self._unary.copy()
        self._parent, self._child = rules.unary.T
        for number, (top, bottom) in enumerate(rules.unary.tolist()):
            below = [*grammar.chains.get((top, bottom), ()), *[bottom] * (bottom >= first)]
            for row, labels in (
                (self._unary[number], [top, *below]),
                (self._top_unary[number], below if top == symbols.inserted_root else [top, *below]),
            ):
                row[np.array(labels, dtype=np.int64) - first] = True
        self._top_whole = self._whole.copy()
        if symbols.inserted_root >= 0:
            self._top_whole[symbols.inserted_root] = False

    def limited(self, constraints: Iterable[Constraint], n: int) -> Limited:
        """Return the constraints of a sentence of n words.

        Raises StructlearnError for what is no constraint on this sentence.
        """
        symbols = self._symbols
        spans: dict[tuple[int, int], list[tuple[str | None, bool]]] = {}
        tags: dict[int, tuple[set[int], set[int]]] = {}
        for constraint in constraints:
            start, end, label, must = _checked(constraint, n)
            if (
                end == start + 1
                and label in symbols.tag_index
                and (label not in symbols.phrase_index)
            ):
                tags.setdefault(start, (set(), set()))[not must].add(symbols.tag_index[label])
            else:
                spans.setdefault((start, end), []).append((label, must))
        if not spans:
            return Limited(None, tags)
        grid = uncrossed(
            n, (span for span, wanted in spans.items() if any(must for _, must in wanted))
        )
        for row, span in enumerate(spans):
            if grid[span] == FREE:
                grid[span] = row
        rows = [
            self._row(wanted, start == 0 and end == n) for (start, end), wanted in spans.items()
        ]
        whole, unary = (np.array(part, dtype=np.uint8) for part in zip(*rows, strict=True))
        return Limited(Limits(grid, whole, unary), tags)

    def _row(
        self, wanted: Sequence[tuple[str | None, bool]], is_top: bool
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which symbols and unary productions meet all constraints on a span."""
        whole = self._meet(wanted, self._top_whole if is_top else self._whole)
        unary = self._meet(wanted, self._top_unary if is_top else self._unary)
        # A phrase over a tag is a lower node, about which the upper one decides.
        over_tags = self._child < self._symbols.n_tags
        used = whole.copy()
        used[self._child[unary & ~over_tags]] = True
        return whole, np.where(over_tags, used[self._parent], unary)

    def _meet(
        self, wanted: Iterable[tuple[str | None, bool]], labels: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return which rows of labels meet all constraints on a span."""
        met = np.ones(len(labels), dtype=bool)
        first, index = self._symbols.n_tags, self._symbols.phrase_index
        for label, must in wanted:
            if label is None:
                has = labels.any(axis=1)
            elif label in index:
                has = labels[:, index[label] - first]
            else:
                has = np.zeros(len(labels), dtype=bool)
            met &= has == must
        return met


def uncrossed(n: int, spans: Iterable[Sequence[int]]) -> NDArray[np.int32]:
    """Return which spans of n words cross one of these spans; see `Limits`."""
    grid = np.full((n, n + 1), FREE, dtype=np.int32)
    for start, end in spans:
        grid[:start, start + 1 : end] = BLOCKED
        grid[start + 1 : end, end + 1 :] = BLOCKED
    return grid


def limit_tags(
    rows: NDArray[np.float32],
    substates: NDArray[np.int32],
    tags: Mapping[int, tuple[set[int], set[int]]],
) -> None:
    """Apply constraints on tags to the scores of words, in place.

    rows: float32 (n, X). substates: of each tag. tags: see `Limited`. A word that was never seen
    with the tag that it must have is as probable with each of its substates.
    """
    tag_of = np.repeat(np.arange(len(substates)), substates)
    for word, (wanted, forbidden) in tags.items():
        for tag in wanted:
            states = tag_of == tag
            rows[word, states] = rows[word, states] if rows[word, states].any() else 1.0
        # No tag is left if the word must have several.
        out = np.isin(tag_of, list(forbidden))
        for tag in wanted:
            out |= tag_of != tag
        rows[word, out] = 0.0


def _checked(constraint: Any, n: int) -> Constraint:
    """Check a constraint on a sentence of n words. Raises StructlearnError if it is malformed."""
    try:
        start, end, label, must = constraint
        sound = 0 <= start < end <= n and (label is None or isinstance(label, str))
    except (TypeError, ValueError):
        sound = False
    if not sound:
        raise StructlearnError("SL428", constraint=constraint, number=n)
    return int(start), int(end), label, bool(must)
