"""Trees with other attachments of prepositional phrases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise

import numpy as np

from ..arrays import Coded, cumulative
from ..errors import StructlearnError
from ..trees.heads import COLLINS
from ..trees.nodes import Brackets
from ..trees.normalize import strip_function
from ..trees.placed import PlacedNode
from ..trees.tree import Span, Tree
from .sites import (
    NOUN,
    NOUN_PHRASES,
    PREPOSITION_PHRASES,
    VERB,
    VERB_PHRASES,
    Place,
    Site,
    are_light,
    is_phrase,
    places_of,
)


def reattach(tree: Tree, attachments: Iterable[Site | tuple[int, int, str]]) -> Tree:
    """Return the tree with other attachments of prepositional phrases.

    attachments: sites, or (start, end, label) for a prepositional phrase of exactly these tokens.
        "V": attach it to the verb, as a child of the verb phrase after the object. "N": attach it
        to the noun, as a child of a new noun phrase over the object, or of the object if that ends
        in a prepositional phrase. For a phrase given twice the last one counts.

    A phrase is not moved without a verb and an object, across another phrase (other than
    punctuation and traces), or if it is coordinated with a sister. A noun phrase left with a noun
    phrase as its only child is replaced by it. Words, tags and all other phrases do not change.
    Raises StructlearnError if a label is unknown.
    """
    wanted: dict[tuple[int, int], str] = {}
    for attachment in attachments:
        start, end, label = attachment[-3:]
        if label not in (VERB, NOUN):
            raise StructlearnError("SL120", start=start, end=end, label=label)
        wanted[start, end] = label
    # A move can enable another one, so search again after each.
    while wanted and (moved := _first_move(tree, wanted)) is not None:
        tree = moved
    return tree


def reattach_all(brackets: Brackets, moves: Iterable[tuple[int, int, int, str]]) -> Brackets:
    """Return trees with other attachments; see `reattach`.

    moves: (preposition, start, end, label) of prepositional phrases, in words of all trees. The
        preposition tells which tree is meant.
    """
    offsets = cumulative(brackets.sizes)
    of_trees: defaultdict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for preposition, start, end, label in moves:
        number = min(int(np.searchsorted(offsets, preposition, "right")), len(offsets) - 1) - 1
        first, last = offsets[number : number + 2].tolist()
        bounds = (min(max(word, first), last) - first for word in (start, end))
        of_trees[number].append((*bounds, label))
    firsts = np.searchsorted(brackets.starts, offsets).tolist()
    moved: dict[int, list[Span]] = {}
    for number, wanted in of_trees.items():
        first, last = offsets[number : number + 2].tolist()
        inside, words = slice(*firsts[number : number + 2]), slice(first, last)
        bounds = ((ends[inside] - first).tolist() for ends in (brackets.starts, brackets.ends))
        spans = list(zip(brackets.labels.at(inside), *bounds, strict=True))
        if not all(is_attached(spans, *move) for move in wanted):
            texts, tags = list(brackets.words.at(words)), list(brackets.tags.at(words))
            tree = reattach(Tree.from_spans(texts, tags, spans), wanted)
            moved[number] = [(label, first + i, first + j) for label, i, j in tree.spans()]
    if not moved:
        return brackets
    spans = list(
        zip(brackets.labels, brackets.starts.tolist(), brackets.ends.tolist(), strict=True)
    )
    for number in sorted(moved, reverse=True):
        spans[slice(*firsts[number : number + 2])] = moved[number]
    labels, starts, ends = zip(*spans, strict=True)
    return brackets._replace(labels=Coded.of(labels), starts=np.array(starts), ends=np.array(ends))


def is_attached(spans: Sequence[Span], start: int, end: int, label: str) -> bool:
    """Whether `reattach` certainly leaves a prepositional phrase where it is, without a Tree.

    spans: (label, start, end) of the tree, in pre-order.
    """
    wanted = NOUN_PHRASES if label == NOUN else VERB_PHRASES
    for place, (name, first, last) in enumerate(spans):
        here = first == start and last == end
        if here and strip_function(name) in PREPOSITION_PHRASES:
            above = next((n for n, _, behind in spans[place - 1 :: -1] if behind >= end), "")
            if not place or strip_function(above) not in wanted:
                return False
    return True


def _first_move(tree: Tree, wanted: dict[tuple[int, int], str]) -> Tree | None:
    """Return the tree after the first wanted and possible move, or None."""
    for place in chain.from_iterable(places_of(tree)):
        label = wanted.get(place.phrase.bracket[1:], place.label)
        if label != place.label:
            moved = (_to_noun if label == NOUN else _to_verb)(place)
            if moved is not None:
                return moved
    return None


def _to_verb(place: Place) -> Tree | None:
    """Move a prepositional phrase out of the object, to the right of it."""
    # From the parent of the phrase up to the sister of the verb.
    _, lowest, *upper = _path(place.phrase, place.verb.parent)
    left, right = place.phrase.around()
    moved = [place.phrase.tree, *right]
    if not are_light(*right):
        return None
    while left and are_light(left[-1]):
        moved.insert(0, left.pop())
    if not left or place.noun.start > place.phrase.start:
        return None
    if left[-1].label in COLLINS.coordinators:
        return None
    rest = _collapsed(lowest.tree.label, left)
    for node in upper:
        left, right = lowest.around()
        if not are_light(*right):
            return None
        moved += right
        lowest, rest = node, _collapsed(node.tree.label, [*left, rest])
    left, right = lowest.around()
    return _replaced(place.verb.parent, [*left, rest, *moved, *right])


def _to_noun(place: Place) -> Tree | None:
    """Move a prepositional phrase from the right of the object into it."""
    phrases = _path(place.object, place.verb.parent)
    if any(phrase.around()[1] for phrase in phrases[:-1]):
        return None
    left, right = phrases[-1].around()
    distance = place.phrase.rank - phrases[-1].rank
    between, right = right[: distance - 1], right[distance:]
    if not are_light(*between):
        return None
    behind = next((sister for sister in right if not are_light(sister)), None)
    if behind is not None and behind.label in COLLINS.coordinators:
        return None
    children: Sequence[Tree] = place.object.tree.children
    if not is_phrase(place.object.children[-1], PREPOSITION_PHRASES):
        children = [Tree(place.object.label, children)]
    new = Tree(place.object.tree.label, [*children, *between, place.phrase.tree])
    for lower, upper in pairwise(phrases):
        new = Tree(upper.tree.label, [*lower.around()[0], new])
    return _replaced(place.verb.parent, [*left, new, *right])


def _path(node: PlacedNode, top: PlacedNode | None) -> list[PlacedNode]:
    """Return a node and those above it, up to the one below `top`."""
    path = [node]
    while (parent := path[-1].parent) is not top and parent is not None:
        path.append(parent)
    return path


def _collapsed(label: str, children: list[Tree]) -> Tree:
    """Return a phrase; an only child of the same category is replaced by its children."""
    only = children[0]
    if len(children) == 1 and strip_function(only.label) == strip_function(label):
        children = list(only.children) or children
    return Tree(label, children)


def _replaced(node: PlacedNode | None, children: Iterable[Tree]) -> Tree:
    """Return the whole tree with other children of one node."""
    assert node is not None
    new = Tree(node.tree.label, children)
    while node.parent is not None:
        left, right = node.around()
        node = node.parent
        new = Tree(node.tree.label, [*left, new, *right])
    return new
