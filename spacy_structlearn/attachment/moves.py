"""Trees with other attachments of prepositional phrases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, pairwise

from ..errors import StructlearnError
from ..trees.heads import COLLINS
from ..trees.normalize import strip_function
from ..trees.tree import PlacedNode, Tree
from . import sites


def reattach(tree: Tree, attachments: Iterable[sites.Site | tuple[int, int, str]]) -> Tree:
    """Return the tree with other attachments of prepositional phrases.

    attachments: sites, or (start, end, label) for a prepositional phrase of exactly these tokens.
        "V": attach it to the verb, as a child of the verb phrase after the object. "N": attach it
        to the noun of the site, or that of the object, as a child of a new noun phrase over it, or
        of its own if that ends in a prepositional phrase. For a phrase given twice the last one
        counts.

    A phrase is not moved without a verb and an object, across another phrase (other than
    punctuation and traces), or if it is coordinated with a sister. A noun phrase left with a noun
    phrase as its only child is replaced by it. Words, tags and all other phrases do not change.
    Raises StructlearnError if a label is unknown.
    """
    wanted: dict[tuple[int, int], tuple[str, int | None]] = {}
    for attachment in attachments:
        start, end, label = attachment[-3:]
        if label not in (sites.VERB, sites.NOUN):
            raise StructlearnError("SL120", start=start, end=end, label=label)
        wanted[start, end] = label, attachment.noun if isinstance(attachment, sites.Site) else None
    # A move can enable another one, so search again after each.
    while wanted and (moved := _first_move(tree, wanted)) is not None:
        tree = moved
    return tree


def follow(
    tree: Tree,
    chains: Iterable[Sequence[sites.Site]],
    decisions: Iterable[tuple[sites.Site, float]],
    least: float,
) -> Tree | None:
    """Return the tree with other attachments; None if all decisions are those of the tree.

    chains: of the tree. decisions: of each of their sites, with probabilities. least: the
        probability of the attachments that may be moved.
    """
    own = chain.from_iterable(chains)
    others = [new for old, new in zip(own, decisions, strict=True) if old != new[0]]
    sure = (site for site, prob in others if prob >= least)
    return reattach(tree, sure) if others else None


def _first_move(tree: Tree, wanted: dict[tuple[int, int], tuple[str, int | None]]) -> Tree | None:
    """Return the tree after the first wanted and possible move, or None."""
    for at_verb in map(list, sites.places_of(tree)):
        places = sites.nested(at_verb)
        for place in at_verb + [place for place in places if place not in at_verb]:
            label, noun = wanted.get(place.phrase.bracket[1:], (place.label, None))
            head = sites.head_of(place.noun).start
            if label == place.label and (label == sites.VERB or noun in (None, head)):
                continue
            moved = None
            if label == sites.VERB:
                moved = _to_verb(place)
            elif place.label == sites.VERB:
                moved = _to_noun(place._replace(object=_phrase_of(noun, place.object, places)))
            elif (between := _to_verb(place)) is not None:
                moved = _first_move(between, {place.phrase.bracket[1:]: (label, noun)})
            if moved is not None:
                return moved
    return None


def _phrase_of(noun: int | None, above: PlacedNode, places: Iterable[sites.Place]) -> PlacedNode:
    """Return the noun phrase of a noun in these places, or else the object."""
    found = filter(None, (sites.noun_phrase(place.phrase) for place in places))
    return next((node for node in found if sites.head_of(node).start == noun), above)


def _to_verb(place: sites.Place) -> Tree | None:
    """Move a prepositional phrase out of the object, to the right of it."""
    # From the parent of the phrase up to the sister of the verb.
    _, lowest, *upper = _path(place.phrase, place.verb.parent)
    left, right = place.phrase.around()
    moved = [place.phrase.tree, *right]
    if not sites.are_light(*right):
        return None
    while left and sites.are_light(left[-1]):
        moved.insert(0, left.pop())
    if not left or place.noun.start > place.phrase.start:
        return None
    if left[-1].label in COLLINS.coordinators:
        return None
    rest = _collapsed(lowest.tree.label, left)
    for node in upper:
        left, right = lowest.around()
        if not sites.are_light(*right):
            return None
        moved += right
        lowest, rest = node, _collapsed(node.tree.label, [*left, rest])
    left, right = lowest.around()
    return _replaced(place.verb.parent, [*left, rest, *moved, *right])


def _to_noun(place: sites.Place) -> Tree | None:
    """Move a prepositional phrase from the right of the object into it."""
    phrases = _path(place.object, place.verb.parent)
    if any(phrase.around()[1] for phrase in phrases[:-1]):
        return None
    left, right = phrases[-1].around()
    distance = place.phrase.rank - phrases[-1].rank
    between, right = right[: distance - 1], right[distance:]
    if not sites.are_light(*between):
        return None
    behind = next((sister for sister in right if not sites.are_light(sister)), None)
    if behind is not None and behind.label in COLLINS.coordinators:
        return None
    children: Sequence[Tree] = place.object.tree.children
    if not sites.is_phrase(place.object.children[-1], sites.PREPOSITION_PHRASES):
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
