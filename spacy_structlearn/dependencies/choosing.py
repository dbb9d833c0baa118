"""The arcs of trees by the probabilities of their choices, and the choices of gold arcs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import first_largest
from ..trees.nodes import Numbers
from .arcs import LEAST
from .features import HEAD, LABEL, SISTER, Choices, Columns
from .phrases import PhraseTrees, gold_heads

YES, NO = "yes", "no"
"""The labels of the first two stages."""

Score = Callable[[str, Columns], NDArray[np.float64]]
"""Returns the probability of YES of each row of a stage."""


class PossibleArcs(NamedTuple):
    """The possible arcs of trees.

    places, sisters: of children, see `PhraseTrees.children`. probabilities: of the arcs of each
    child that is no head child; they sum to 1. head: the place of the head child of each phrase.
    words: the head word of each phrase.
    """

    choices: Choices
    places: NDArray[np.int64]
    sisters: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    head: NDArray[np.int64]
    words: NDArray[np.int64]

    @property
    def dependents(self) -> NDArray[np.int64]:
        """The dependent of each arc, a word."""
        return self.words[self.choices.phrases.children[self.places]]

    @property
    def heads(self) -> NDArray[np.int64]:
        """The head of each arc, a word."""
        return self.words[self.choices.phrases.children[self.sisters]]

    @property
    def roots(self) -> NDArray[np.int64]:
        """The head word of each tree."""
        return self.words[self.choices.phrases.roots]

    @property
    def best(self) -> NDArray[np.int64]:
        """The head of each word in the tree whose arcs are the best ones; a root is its own head.

        A sister whose arcs lead back to itself depends on the head child.
        """
        phrases = self.choices.phrases
        order = np.lexsort((-self.probabilities, self.places))
        own = order[np.unique(self.places[order], return_index=True)[1]]
        main = self.head[phrases.parents[phrases.children]]
        links = main.copy()
        links[self.places[own]] = self.sisters[own]
        links[main] = main
        ends = links
        for _ in range(int(phrases.sizes.max(initial=1)).bit_length()):
            ends = ends[ends]
        links = np.where(ends == main, links, main)
        heads, others = (
            np.arange(len(phrases.words)),
            np.flatnonzero(links != np.arange(len(links))),
        )
        heads[self.words[phrases.children[others]]] = self.words[phrases.children[links[others]]]
        return heads

    def labels(self, rows: Numbers) -> Columns:
        """Return the features of the labels of some arcs."""
        places, sisters = self.places[rows], self.sisters[rows]
        return self.choices.labels(places, sisters, self.head, self.words)


def possible_arcs(phrases: PhraseTrees, score: Score) -> PossibleArcs:
    """Return the possible arcs: first the head child of each phrase, then of every other child its
    sisters."""
    choices = Choices(phrases)
    above = choices.above
    odds = _odds(score(HEAD, choices.heads())) if len(above) else np.empty(0)
    best = first_largest(odds, above)
    head = np.full(phrases.n, -1, dtype=np.int64)
    head[phrases.sizes > 0] = best
    words = phrases.heads(phrases.children[best])
    places, sisters = pairs_of(phrases, head)
    probabilities = np.ones(len(places))
    # With two children there is no choice.
    rows = np.flatnonzero(choices.size[places] > 2)
    if len(rows):
        columns = choices.sisters(places[rows], sisters[rows], head, words)
        probabilities[rows] = _odds(score(SISTER, columns))
    probabilities /= np.bincount(places, probabilities, minlength=len(above))[places]
    return PossibleArcs(choices, places, sisters, probabilities, head, words)


def pairs_of(phrases: PhraseTrees, head: Numbers) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all pairs of a child and a sister, except those of head children.

    head: the place of the head child of each phrase, which is a sister at any distance.
    """
    main = head[phrases.parents[phrases.children]]
    places, sisters = phrases.pairs
    others = np.arange(len(main))
    far = others[(others != main) & (np.abs(others - main) > phrases.window)]
    at = np.searchsorted(places * len(main) + sisters, far * len(main) + main[far])
    places, sisters = np.insert(places, at, far), np.insert(sisters, at, main[far])
    kept = main[places] != places
    return places[kept], sisters[kept]


def _odds(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    clipped = probabilities.clip(LEAST, 1.0 - LEAST)
    return clipped / (1.0 - clipped)


def gold_choices(
    phrases: PhraseTrees, heads: Numbers, labels: Sequence[str | None]
) -> dict[str, tuple[Columns, list[str]]]:
    """Return the features and the right answers of the choices of each stage.

    heads: the head of each word, a root's is itself; -1 if it is not known. labels: of the words;
    None for arcs that are not to be learned. Children whose head is no sister are left out.
    """
    choices, kids = Choices(phrases), phrases.children
    words, is_head, head, places, sisters = _gold_pairs(phrases, heads)
    known = np.flatnonzero(words[choices.above] >= 0)
    found = {HEAD: (_rows(choices.heads(), known), _answers(is_head[known]))}
    right = heads[words[kids[places]]] == words[kids[sisters]]
    arcs = places[right], sisters[right]
    reached = np.zeros(len(kids), dtype=bool)
    reached[arcs[0]] = True
    rows = np.flatnonzero(reached[places] & (choices.size[places] > 2))
    pairs = places[rows], sisters[rows]
    found[SISTER] = choices.sisters(*pairs, head, words), _answers(right[rows])
    own = [labels[word] for word in words[kids[arcs[0]]].tolist()]
    named = [row for row, label in enumerate(own) if label is not None]
    columns = choices.labels(arcs[0][named], arcs[1][named], head, words)
    found[LABEL] = columns, [label for label in own if label is not None]
    return found


def _gold_pairs(phrases: PhraseTrees, heads: Numbers) -> tuple[NDArray, ...]:
    """Get the head words of phrases, whether each child is the head child, the place of that child,
    and the pairs of children and sisters whose head words are known."""
    kids, above = phrases.children, phrases.parents[phrases.children]
    words = gold_heads(phrases, heads)
    main = words[above]
    is_head = (main >= phrases.starts[kids]) & (main < phrases.stops[kids])
    head = np.full(phrases.n, -1, dtype=np.int64)
    head[above[is_head]] = np.flatnonzero(is_head)
    places, sisters = pairs_of(phrases, head)
    known = words[kids] >= 0
    kept = (head[above[places]] >= 0) & known[places] & known[sisters]
    return words, is_head, head, places[kept], sisters[kept]


def arc_sites(dependents: Numbers, heads: Numbers) -> NDArray[np.int64]:
    """Return the sites of arcs: the dependent, the head if it is to the left, and if to the right.

    heads: of the dependents; that of a root is itself, and there is no head in its site.
    """
    sides = [np.where(left, heads, -1) for left in (heads < dependents, heads > dependents)]
    return np.stack([dependents, *sides], axis=1)


def gold_arcs(phrases: PhraseTrees, heads: Numbers) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the sites of gold arcs, of the other possible arcs in the trees and of each word as a
    root; and which are gold. heads: see `gold_choices`."""
    words, *_, places, sisters = _gold_pairs(phrases, heads)
    kids, every = words[phrases.children], np.flatnonzero(heads >= 0)
    own = np.concatenate([kids[places], every, every])
    other = np.concatenate([kids[sisters], heads[every], every])
    own, other = np.unique(np.stack([own, other]), axis=1)
    return arc_sites(own, other), heads[own] == other


def _rows(columns: Columns, rows: Numbers) -> Columns:
    return {name: column[rows] for name, column in columns.items()}


def _answers(right: NDArray[np.bool_]) -> list[str]:
    return [YES if one else NO for one in right.tolist()]
