"""Trees with other attachments of prepositional phrases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise

import numpy as np

from ..arrays import Coded, cumulative
from ..errors import StructlearnError
from ..trees.heads import COLLINS, HeadRules
from ..trees.nodes import Brackets
from ..trees.normalize import strip_function
from ..trees.tree import Tree
from .sites import NOUN, PENN, VERB, Place, Site, SiteLabels, SiteNodes, places_of


def reattach(
    tree: Tree,
    attachments: Iterable[Site | tuple[int, int, str]],
    rules: HeadRules = COLLINS,
    labels: SiteLabels = PENN,
) -> Tree:
    """Return the tree with other attachments of prepositional phrases.

    attachments: sites, or (start, end, label) for a prepositional phrase of exactly these tokens.
        "V": attach it to the verb, as a child of the verb phrase after the object. "N": attach it
        to the noun, as a child of a new noun phrase over the object, or of the object if that ends
        in a prepositional phrase. For a phrase given twice the last one counts.
    rules, labels: as for `sites`.

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
    while wanted and (moved := _first_move(SiteNodes(tree, rules, labels), wanted)) is not None:
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
        bounds = (min(max(place, first), last) - first for place in (start, end))
        of_trees[number].append((*bounds, label))
    first_brackets = np.searchsorted(brackets.starts, offsets).tolist()
    kept = np.ones(len(brackets.starts), dtype=bool)
    changed: list[tuple[str, int, int]] = []
    for number, wanted in of_trees.items():
        first, last = offsets[number : number + 2].tolist()
        own, part = slice(*first_brackets[number : number + 2]), slice(first, last)
        bounds = ((values[own] - first).tolist() for values in (brackets.starts, brackets.ends))
        spans = list(zip(brackets.labels.at(own), *bounds, strict=True))
        if all(is_attached(spans, *move) for move in wanted):
            continue
        tree = Tree.from_spans(list(brackets.words.at(part)), list(brackets.tags.at(part)), spans)
        moved = reattach(tree, wanted).spans()
        changed += [(label, first + start, first + end) for label, start, end in moved]
        kept[own] = False
    if not changed:
        return brackets
    labels, *places = zip(*changed, strict=True)
    old = brackets.starts[kept], brackets.ends[kept]
    starts, ends = (np.append(*values) for values in zip(old, places, strict=True))
    order = np.lexsort((-ends, starts))
    coded = Coded.of([*brackets.labels.at(np.flatnonzero(kept)), *labels]).at(order)
    return brackets._replace(labels=coded, starts=starts[order], ends=ends[order])


def is_attached(
    spans: Sequence[tuple[str, int, int]],
    start: int,
    end: int,
    label: str,
    labels: SiteLabels = PENN,
) -> bool:
    """Whether `reattach` certainly leaves a prepositional phrase where it is, without a Tree.

    spans: (label, start, end) of the tree, in pre-order.
    """
    wanted = labels.noun_phrases if label == NOUN else labels.verb_phrases
    for place, (name, first, last) in enumerate(spans):
        here = first == start and last == end
        if here and strip_function(name) in labels.preposition_phrases:
            above = next((n for n, _, behind in spans[place - 1 :: -1] if behind >= end), "")
            if not place or strip_function(above) not in wanted:
                return False
    return True


def _first_move(nodes: SiteNodes, wanted: dict[tuple[int, int], str]) -> Tree | None:
    """Return the tree after the first wanted and possible move, or None."""
    for place in chain.from_iterable(places_of(nodes)):
        label = wanted.get(nodes.spans[place.phrase], place.label)
        if label != place.label:
            moved = (_to_noun if label == NOUN else _to_verb)(nodes, place)
            if moved is not None:
                return moved
    return None


def _to_verb(nodes: SiteNodes, place: Place) -> Tree | None:
    """Move a prepositional phrase out of the object, to the right of it."""
    verb_phrase = nodes.parents[place.verb]
    index = nodes.parents[place.phrase]
    left, right = nodes.around(place.phrase)
    moved = [nodes.originals[place.phrase], *right]
    if not nodes.are_light(*right):
        return None
    while left and nodes.are_light(left[-1]):
        moved.insert(0, left.pop())
    if not left or nodes.spans[place.noun][0] > nodes.spans[place.phrase][0]:
        return None
    if left[-1].label in nodes.rules.coordinators:
        return None
    kept = _collapsed(nodes.originals[index].label, left)
    while nodes.parents[index] != verb_phrase:
        left, right = nodes.around(index)
        if not nodes.are_light(*right):
            return None
        moved += right
        index = nodes.parents[index]
        kept = _collapsed(nodes.originals[index].label, [*left, kept])
    left, right = nodes.around(index)
    return _replaced(nodes, verb_phrase, [*left, kept, *moved, *right])


def _to_noun(nodes: SiteNodes, place: Place) -> Tree | None:
    """Move a prepositional phrase from the right of the object into it."""
    verb_phrase = nodes.parents[place.verb]
    phrases: list[int] = [place.object]  # from the object up to the sister of the verb
    while nodes.parents[phrases[-1]] != verb_phrase:
        if nodes.around(phrases[-1])[1]:
            return None
        phrases.append(nodes.parents[phrases[-1]])
    left, right = nodes.around(phrases[-1])
    distance = nodes.ranks[place.phrase] - nodes.ranks[phrases[-1]]
    between, right = right[: distance - 1], right[distance:]
    if not nodes.are_light(*between):
        return None
    behind = next((sister for sister in right if not nodes.are_light(sister)), None)
    if behind is not None and behind.label in nodes.rules.coordinators:
        return None
    added = [*between, nodes.originals[place.phrase]]
    old = nodes.originals[place.object]
    children = nodes.children[place.object]
    if nodes.is_phrase(children[-1], nodes.labels.preposition_phrases):
        new = Tree(old.label, [*old.children, *added])
    else:
        new = Tree(old.label, [Tree(nodes.tree(place.object).label, old.children), *added])
    for lower, upper in pairwise(phrases):
        new = Tree(nodes.originals[upper].label, [*nodes.around(lower)[0], new])
    return _replaced(nodes, verb_phrase, [*left, new, *right])


def _collapsed(label: str, children: list[Tree]) -> Tree:
    """Return a phrase; an only child of the same category is replaced by its children."""
    only = children[0]
    if len(children) == 1 and strip_function(only.label) == strip_function(label):
        children = list(only.children) or children
    return Tree(label, children)


def _replaced(nodes: SiteNodes, index: int, children: list[Tree]) -> Tree:
    """Return the whole tree with other children of one node."""
    new = Tree(nodes.originals[index].label, children)
    while (parent := nodes.parents[index]) >= 0:
        left, right = nodes.around(index)
        new = Tree(nodes.originals[parent].label, [*left, new, *right])
        index = parent
    return new
