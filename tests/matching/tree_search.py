"""An exhaustive search in trees, to which ConstituentMatcher is compared, and random trees and
patterns.

The search tries every node of a tree for every node of a pattern. It uses the definitions of the
relations and shares no code with the matcher, except the head rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_structlearn.pipeline.extensions import set_spans
from spacy_structlearn.pipeline.extensions.brackets import ROOT
from spacy_structlearn.trees.heads import COLLINS, HeadRules
from spacy_structlearn.trees.tree import Tree

Pattern = list[dict[str, Any]]
Found = list[tuple[str, int, int]]


# --- the search -----------------------------------------------------------------------------------
class Node:
    """A node of a tree. start, stop: words. token: of a tag, its number, or else None."""

    def __init__(self, label: str, parent: Node | None, start: int):
        self.label, self.parent, self.start = label, parent, start
        self.stop = start + 1
        self.children: list[Node] = []
        self.head: Node | None = None
        self.token: int | None = None
        if parent is not None:
            parent.children.append(self)


def nodes_of(tree: Tree, rules: HeadRules, start: int = 0) -> list[Node]:
    """Return the nodes of a tree in pre-order. start: the number of its first word."""
    nodes: list[Node] = []

    def add(tree: Tree, parent: Node | None, start: int) -> Node:
        node = Node(tree.label, parent, start)
        nodes.append(node)
        if tree.is_leaf:
            node.token = start
            node.head = Node(tree.word, node, start)
            nodes.append(node.head)
        for child in tree.children:
            node.stop = start = add(child, node, start).stop
        if tree.children:
            node.head = node.children[rules.head_child(tree)]
        return node

    add(tree, None, start)
    return nodes


def chain(node: Node | None, further: Callable[[Node], Node | None]) -> list[Node]:
    """Return the nodes that follow from a node, one from another."""
    found = []
    while node is not None and (node := further(node)) is not None:
        found.append(node)
    return found


def nth(node: Node | None, number: int) -> Node | None:
    """Return the child with this number from 1, or from the end with numbers from -1."""
    if node is None or len(node.children) < abs(number):
        return None
    return node.children[number - 1 if number > 0 else number]


def only(node: Node | None) -> Node | None:
    return node.children[0] if node is not None and len(node.children) == 1 else None


def sisters(node: Node) -> list[Node]:
    """Return the children of the parent, and the node itself."""
    return node.parent.children if node.parent is not None else [node]


def rank(node: Node) -> int:
    return sisters(node).index(node)


def is_sister(a: Node, b: Node, distances: Sequence[int] | None = None) -> bool:
    if a is b or b not in sisters(a):
        return False
    return distances is None or rank(b) - rank(a) in distances


FAR = range(1, 1000)
# How far each relation leads downwards. With > for < it leads upwards.
DOWN: dict[str, Callable[[Node, Node], bool]] = {
    "<": lambda a, b: b in a.children,
    "<<": lambda a, b: a in chain(b, lambda node: node.parent),
    "<,": lambda a, b: nth(a, 1) is b,
    "<-": lambda a, b: nth(a, -1) is b,
    "<:": lambda a, b: only(a) is b,
    "<<,": lambda a, b: b in chain(a, lambda node: nth(node, 1)),
    "<<-": lambda a, b: b in chain(a, lambda node: nth(node, -1)),
    "<<:": lambda a, b: b in chain(a, only),
    "<#": lambda a, b: a.head is b,
    "<<#": lambda a, b: b in chain(a, lambda node: node.head),
}
RELATIONS: dict[str, Callable[[Node, Node], bool]] = {
    **DOWN,
    **{
        name.replace("<", ">"): lambda a, b, holds=holds: holds(b, a)
        for name, holds in DOWN.items()
    },
    ".": lambda a, b: a.stop == b.start,
    "..": lambda a, b: a.stop <= b.start,
    ",": lambda a, b: b.stop == a.start,
    ",,": lambda a, b: b.stop <= a.start,
    "==": lambda a, b: a is b,
    ":": lambda a, b: True,
    "<=": lambda a, b: a is b or b in a.children,
    ">=": lambda a, b: a is b or a in b.children,
    "$": is_sister,
    "$+": lambda a, b: is_sister(a, b, [1]),
    "$-": lambda a, b: is_sister(b, a, [1]),
    "$++": lambda a, b: is_sister(a, b, FAR),
    "$--": lambda a, b: is_sister(b, a, FAR),
}
SAME = {"$.": "$+", "$,": "$-", "$..": "$++", "$,,": "$--", "<`": "<-", ">>`": ">>-"}
RELATIONS |= {name: RELATIONS[same] for name, same in SAME.items()}
CHECKS = {**RELATIONS, "~": lambda a, b: a.label == b.label}


def related(a: Node, operator: str, b: Node) -> bool:
    """Return whether two nodes of a tree are in a relation."""
    if numbered := re.fullmatch(r"([<>])(-?\d+)", operator):
        side, number = numbered[1], int(numbered[2])
        return nth(a, number) is b if side == "<" else nth(b, number) is a
    return RELATIONS[operator](a, b)


COMPARISONS = {
    "==": lambda value, wanted: value == wanted,
    ">=": lambda value, wanted: value >= wanted,
    "<": lambda value, wanted: value < wanted,
    "IN": lambda value, wanted: value in wanted,
    "NOT_IN": lambda value, wanted: value not in wanted,
    "REGEX": lambda value, wanted: re.search(wanted, value) is not None,
}


def agrees(node: Node, attributes: Mapping[str, Any], words: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a node has attributes. words: the attributes of all words."""
    for name, wanted in attributes.items():
        if name == "LABEL":
            value: Any = node.label
        elif name == "LENGTH":
            value = node.stop - node.start
        elif node.token is None:
            return False
        else:
            value = words[node.token][name]
        tests = wanted if isinstance(wanted, dict) else {"==": wanted}
        if not all(COMPARISONS[test](value, other) for test, other in tests.items()):
            return False
    return True


def search(
    trees: Sequence[Tree],
    pattern: Pattern,
    words: Sequence[Mapping[str, Any]],
    rules: HeadRules = COLLINS,
) -> list[Found]:
    """Return all matches of a pattern, each as (label, start, end) in words of all trees."""
    first, found = 0, []
    for tree in trees:
        nodes = nodes_of(tree, rules, first)
        first = nodes[0].stop
        found += [
            [(node.label, node.start, node.stop) for node in match]
            for match in _matches(nodes, pattern, words)
        ]
    return found


def _matches(
    nodes: list[Node], pattern: Pattern, words: Sequence[Mapping[str, Any]]
) -> Iterator[list[Node]]:
    """Iterate over the matches in the nodes of a tree."""
    checks = [part for part in pattern[1:] if "RIGHT_ATTRS" not in part]
    pattern = [part for part in pattern if part not in checks]
    negated = set()  # nodes that are not part of a match
    for part in pattern[1:]:
        if part["REL_OP"].startswith("!") or part["LEFT_ID"] in negated:
            negated.add(part["RIGHT_ID"])
    wanted = [part for part in pattern if part["RIGHT_ID"] not in negated]

    def is_there(left: Node, part: dict[str, Any]) -> bool:
        """Return whether there is a node for a part and for all parts that depend on it."""
        return any(
            related(left, part["REL_OP"].removeprefix("!"), node)
            and agrees(node, part["RIGHT_ATTRS"], words)
            and all(
                is_there(node, other) is not other["REL_OP"].startswith("!")
                for other in pattern[1:]
                if other["LEFT_ID"] == part["RIGHT_ID"]
            )
            for node in nodes
        )

    def extended(chosen: dict[str, Node]) -> Iterator[list[Node]]:
        if len(chosen) == len(wanted):
            yield list(chosen.values())
            return
        part = wanted[len(chosen)]
        for node in nodes:
            if not agrees(node, part["RIGHT_ATTRS"], words):
                continue
            if chosen and not related(chosen[part["LEFT_ID"]], part["REL_OP"], node):
                continue
            absent = (
                other
                for other in pattern[1:]
                if other["LEFT_ID"] == part["RIGHT_ID"] and other["REL_OP"].startswith("!")
            )
            if not any(is_there(node, other) for other in absent):
                yield from extended({**chosen, part["RIGHT_ID"]: node})

    def holds(check: dict[str, Any], nodes: dict[str, Node]) -> bool:
        operator = check["REL_OP"]
        found = CHECKS[operator.removeprefix("!")](
            nodes[check["LEFT_ID"]], nodes[check["RIGHT_ID"]]
        )
        return found is not operator.startswith("!")

    names = [part["RIGHT_ID"] for part in wanted]
    for match in extended({}):
        if all(holds(check, dict(zip(names, match, strict=True))) for check in checks):
            yield match


# --- random trees and patterns --------------------------------------------------------------------
PHRASES = ("S", "NP", "VP", "PP", ROOT)
TAGS = ("NN", "VBD", "IN", "CC", ",")
WORDS = ("dog", "Dog", "of", ",", "NP")


def random_tree(random: Random, most: int) -> Tree:
    """Return a tree of at most `most` words."""

    def phrase(most: int) -> Tree:
        if most == 1 and random.random() < 0.7:
            return Tree.leaf(random.choice(TAGS), random.choice(WORDS))
        parts, left = [], random.randint(1, most)
        while left:
            size = random.randint(1, left)
            parts.append(size)
            left -= size
        # A phrase with one child that is as large as itself may go on for ever.
        most = 1 if parts == [most] and random.random() < 0.5 else most
        return Tree(random.choice(PHRASES), [phrase(min(size, most)) for size in parts])

    return Tree(ROOT, [phrase(most)])


def random_pattern(random: Random, most: int) -> Pattern:
    """Return a pattern of at most `most` nodes."""
    numbered = [f"{side}{sign}{random.randint(1, 3)}" for side in "<>" for sign in ("", "-")]
    operators = [*RELATIONS, *numbered]
    pattern: Pattern = []
    matched: list[str] = []
    for number in range(random.randint(1, most)):
        node: dict[str, Any] = {
            "RIGHT_ID": f"node{number}",
            "RIGHT_ATTRS": random_attributes(random),
        }
        if number:
            node["LEFT_ID"] = f"node{random.randrange(number)}"
            node["REL_OP"] = random.choice(["", "", "", "!"]) + random.choice(operators)
        pattern.append(node)
        if not number or (node["LEFT_ID"] in matched and not node["REL_OP"].startswith("!")):
            matched.append(node["RIGHT_ID"])
    if random.random() < 0.3:
        left, right = random.choice(matched), random.choice(matched)
        operator = random.choice(["", "!"]) + random.choice([*CHECKS])
        pattern.append({"LEFT_ID": left, "REL_OP": operator, "RIGHT_ID": right})
    return pattern


def random_attributes(random: Random) -> dict[str, Any]:
    labels = random.sample(PHRASES + TAGS + WORDS, random.randint(1, 4))
    return random.choice(
        [
            {},
            {},
            {"LABEL": labels[0]},
            {"LABEL": {"IN": labels}},
            {"LABEL": {"NOT_IN": labels}},
            {"LABEL": {"REGEX": "^(N|V)"}},
            {"LENGTH": {random.choice(["==", ">=", "<"]): random.randint(1, 3)}},
            {"ORTH": random.choice(WORDS)},
            {"LOWER": {"IN": ["dog", "of"]}, "LABEL": {"REGEX": "N"}},
            {"IS_TITLE": random.choice([True, False])},
        ]
    )


def random_doc(random: Random, vocab: Vocab, n_trees: int = 2, most: int = 5) -> Doc:
    """Return a Doc of random trees, with white space tokens between some words."""
    words: list[str] = []
    tags: list[str] = []
    starts: list[bool] = []
    brackets: list[tuple[str, int, int]] = []
    for _ in range(n_trees):
        tree, places = random_tree(random, most), []
        for word, tag in zip(tree.words(), tree.tags(), strict=True):
            starts.append(not places)
            if random.random() < 0.1:
                words.append("\n")
                tags.append("_SP")
                starts.append(False)
            places.append(len(words))
            words.append(word)
            tags.append(tag)
        spans = ((label, places[start], places[end - 1] + 1) for label, start, end in tree.spans())
        brackets += list(spans)[random.randint(0, 1) :]
    doc = Doc(vocab, words=words, tags=tags, sent_starts=starts)
    set_spans(doc, "constituents", brackets)
    return doc


def found_in(doc: Doc, pattern: Pattern, rules: HeadRules = COLLINS) -> list[Found]:
    """Search the trees of a Doc. Returns (label, start, end) in tokens."""
    tokens = [token for token in doc if not token.is_space]
    words = [
        {"ORTH": token.text, "LOWER": token.lower_, "IS_TITLE": token.is_title} for token in tokens
    ]
    return [
        [(label, tokens[start].i, tokens[stop - 1].i + 1) for label, start, stop in match]
        for match in search(doc._.trees, pattern, words, rules)
    ]
