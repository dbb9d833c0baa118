"""Clauses of a tree, with their verbs, subjects and objects.

The rules are about trees with the labels of the Penn Treebank, as a treebank defines them (Bies et
al. 1995); a tree with other labels has no clauses. Where the verb has a frame, it tells modifiers
from objects and complements, and what is extracted: "the boat that she sold".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ..trees.heads import COLLINS
from ..trees.labels import labels_of
from ..trees.tree import PlacedNode, Span, Tree, placed_nodes
from .propositions import CORE, ENGLISH, Argument, base_label

CLAUSES = labels_of("S SINV SQ SBARQ SBAR")
OUTER = labels_of("SBAR SBARQ")  # one clause with the S, SINV or SQ inside
INVERTED = labels_of("SQ SINV")  # in these, auxiliaries are outside of the verb phrase
AUXILIARIES = labels_of("MD TO")  # tags, besides those of verbs
FINITE = labels_of("MD VBD VBP VBZ")  # tags
BASE = "VB"  # tag of imperatives and infinitives
HAS_OR_IS = labels_of("'s ’s")
# Noun phrases with these roles are no modifiers: "take (a bath)", "sing (me) a song".
NOUN_ROLES = labels_of("ARGM-PRR ARGM-GOL")

Arguments = Callable[[int], Iterable[Argument]]


class PlainClause(NamedTuple):
    """A clause as plain data: its bracket, the word that is its verb, and its parts, brackets too.

    All places are in words of the tree.
    """

    bracket: Span
    verb: int
    subject: Span | None
    objects: tuple[Span, ...]
    attribute: Span | None
    complements: tuple[Span, ...]
    passive: bool
    agent: Span | None


def find_clauses(tree: Tree, arguments: Arguments = lambda verb: ()) -> list[PlainClause]:
    """Return the clauses of a tree, outer ones first, in the order of their verbs if they have the
    same bracket.

    arguments: returns the arguments of a verb, in words, given its word; none if it has no frame.
    """
    words = [word.lower() for word in tree.words()]
    clauses = [
        clause for node in placed_nodes(tree) for clause in _clauses_of(words, node, arguments)
    ]
    return sorted(clauses, key=lambda c: (c.bracket[1], -c.bracket[2], c.verb))


class _Head(NamedTuple):
    """A verb, the auxiliaries before it, and what follows: in its phrase, or behind coordinated
    phrases, as in "washed and dried (the car)".
    """

    verb: PlacedNode
    auxiliaries: tuple[PlacedNode, ...]
    after: list[PlacedNode]
    shared: list[PlacedNode]


def _clauses_of(
    words: Sequence[str], node: PlacedNode, arguments: Arguments
) -> Iterator[PlainClause]:
    """Iterate over the clauses whose verb phrases, or verbs, are children of a node."""
    if node.label not in CLAUSES or not _verbal(node):
        return
    outer, parent = node, node.parent
    if parent is not None and parent.label in OUTER and node.label in ENGLISH.clauses:
        inner = [child for child in parent.children if child.label in ENGLISH.clauses]
        outer = parent if len(inner) == 1 else node
    for head in _heads(node):
        yield _clause(words, outer, node, head, _Roles(arguments(head.verb.start)))


def _clause(
    words: Sequence[str], outer: PlacedNode, node: PlacedNode, head: _Head, roles: _Roles
) -> PlainClause:
    """Make the clause of a verb. outer: its bracket. node: where its verb phrase is."""
    first = (*head.auxiliaries, head.verb)[0].label
    question, direct = _question(outer)
    subject = _subject(node, first, roles)
    asked = subject is None and direct and first in FINITE
    if asked and question is not None and question.label == "WHNP":
        subject, question = question, None
    passive = _is_passive(words, head, subject, roles)
    rest = [part for part in head.after if part is not subject and not roles.is_modifier(part)]
    objects = [part for part in rest if part.label in ENGLISH.noun_phrases]
    complements = [part for part in rest if part.label in CLAUSES]
    for part in head.shared:
        if part.label in ENGLISH.noun_phrases and roles.is_core(part, otherwise=not objects):
            objects.append(part)
    attribute = None
    stranded = _is_stranded(rest)
    if words[head.verb.start] in ENGLISH.be:
        objects = []
        attribute = next((part for part in rest if part.label in ("NP", "ADJP")), None)
        if attribute is None and direct and not stranded:
            attribute = question
    elif question is not None and question.label == "WHNP" and not stranded:
        alone = direct and not (objects or complements or passive)
        if roles.is_core(question, otherwise=alone):
            objects.append(question)
    agent = _agent(words, rest, roles) if passive else None
    return PlainClause(
        outer.bracket,
        head.verb.start,
        None if subject is None else subject.bracket,
        tuple(part.bracket for part in objects),
        None if attribute is None else attribute.bracket,
        tuple(part.bracket for part in complements),
        passive,
        None if agent is None else agent.bracket,
    )


class _Roles:
    """The roles of nodes in the frame of a verb, as far as they are known."""

    def __init__(self, arguments: Iterable[Argument]):
        self._labels = {(start, end): base_label(label) for label, start, end in arguments}

    def of(self, node: PlacedNode) -> str:
        return self._labels.get((node.start, node.end), "")

    def is_core(self, node: PlacedNode, *, otherwise: bool) -> bool:
        """Whether a node has a numbered role. otherwise: the answer if it has no role, and the
        frame has no patient.
        """
        role = self.of(node)
        return role in CORE if role or "ARG1" in self._labels.values() else otherwise

    def is_modifier(self, node: PlacedNode) -> bool:
        role = self.of(node)
        return role.startswith("ARGM-") and role not in NOUN_ROLES


def _verbal(node: PlacedNode) -> list[PlacedNode]:
    """Return the verb phrases, verbs and auxiliaries among the children."""
    words: frozenset[str] = frozenset()
    if node.label in INVERTED or node.label in ENGLISH.verb_phrases:
        words = ENGLISH.verbs | AUXILIARIES
    return [
        child
        for child in node.children
        if child.label in ENGLISH.verb_phrases or (child.word is not None and child.label in words)
    ]


def _heads(clause: PlacedNode) -> Iterator[_Head]:
    """Iterate over the verbs of a clause, one for each conjunct."""
    stack: list[tuple[PlacedNode, tuple[PlacedNode, ...], list[PlacedNode]]] = [(clause, (), [])]
    while stack:
        phrase, auxiliaries, shared = stack.pop()
        groups = _conjuncts(phrase)
        after = _after(phrase, groups[-1][-1])
        for *before, last in groups:
            before = [*auxiliaries, *before]
            if last.tree.is_leaf:
                yield _Head(last, tuple(before), after, shared)
            elif _verbal(last):
                stack.append(
                    (last, tuple(before), [*after, *shared] if len(groups) > 1 else shared)
                )
            else:  # its verb has another tag
                verb, above = last, last
                while not verb.tree.is_leaf and verb.label not in CLAUSES:
                    above, verb = verb, verb.children[COLLINS.head_child(verb.tree)]
                if verb.tree.is_leaf:  # or else it is the verb of the inner clause
                    yield _Head(verb, tuple(before), _after(above, verb), shared)


def _child(node: PlacedNode, *labels: str) -> PlacedNode | None:
    return next((child for child in node.children if child.label in labels), None)


def _after(phrase: PlacedNode, child: PlacedNode) -> list[PlacedNode]:
    return phrase.children[child.rank + 1 :]


def _conjuncts(phrase: PlacedNode) -> list[list[PlacedNode]]:
    """Return the verb or verb phrase of each conjunct, with the auxiliaries before it."""
    verbal = _verbal(phrase)
    groups: list[list[PlacedNode]] = []
    conjunction = comma = False
    for child in phrase.children:
        if child in verbal:
            is_word = child.tree.is_leaf
            if not groups or conjunction or not groups[-1][-1].tree.is_leaf or (comma and is_word):
                groups.append([])
            groups[-1].append(child)
            conjunction = comma = False
        elif child.label in ENGLISH.conjunctions:
            conjunction = True
        elif child.label == ",":
            comma = True
    # Coordinated auxiliaries: "(can and will (sell it))".
    if len(groups) > 1 and len(groups[-1]) > 1 and not groups[-1][-1].tree.is_leaf:
        groups = [[node for group in groups for node in group]]
    return groups


def _is_passive(
    words: Sequence[str], head: _Head, subject: PlacedNode | None, roles: _Roles
) -> bool:
    verb = words[head.verb.start]
    if head.verb.label not in ENGLISH.participles or verb in ENGLISH.be:
        return False
    for auxiliary in reversed(head.auxiliaries):
        word = words[auxiliary.start]
        if word in HAS_OR_IS:
            acts = subject is not None and roles.of(subject) == "ARG0"
            return not acts and verb not in ENGLISH.get
        if word in ENGLISH.be or word in ENGLISH.get:
            return True
        if word in ENGLISH.have:
            return False
    return True


def _subject(node: PlacedNode, first: str, roles: _Roles) -> PlacedNode | None:
    """Find the subject among the children of a clause. first: tag of its first verb."""
    verb = _verbal(node)[0]
    before, after = node.children[: verb.rank][::-1], _after(node, verb)
    inverted = node.label == "SINV" or verb.tree.is_leaf
    places: list[Sequence[PlacedNode]] = [after, before] if inverted else [before]
    for place in places:
        for child in place:
            if first == BASE and child.label == ",":
                break  # "Bob, come here"
            if child.label in ENGLISH.noun_phrases and not roles.is_modifier(child):
                return child
    comma = False
    for child in before if first in FINITE else ():
        comma = comma or child.label == ","
        if child.label in ("S", "SBAR") and roles.is_core(child, otherwise=not comma):
            return child
    return None


def _question(outer: PlacedNode) -> tuple[PlacedNode | None, bool]:
    """Find the relative or interrogative phrase that a clause may lack, and whether it is of this
    clause, not of one around it.
    """
    direct = True
    node: PlacedNode | None = outer
    while node is not None and node.label in ENGLISH.governing:
        if node.label in OUTER and (phrase := _child(node, "WHNP", "WHADJP")) is not None:
            return phrase, direct
        above = node.parent
        # Coordinated clauses have the phrase in common.
        direct = direct and above is not None and above.label in CLAUSES and not _verbal(above)
        node = above
    return None, False


def _is_stranded(parts: Sequence[PlacedNode]) -> bool:
    """Whether there is a preposition without its object: "the man she talked to"."""
    return any(
        part.label in ENGLISH.preposition_phrases and all(c.tree.is_leaf for c in part.children)
        for part in parts
    )


def _agent(words: Sequence[str], parts: Sequence[PlacedNode], roles: _Roles) -> PlacedNode | None:
    for part in parts:
        if part.label in ENGLISH.preposition_phrases and words[part.start] == "by":
            noun_phrase = _child(part, "NP")
            if noun_phrase is not None and "ARG0" in (roles.of(part), roles.of(noun_phrase)):
                return noun_phrase
    return None
