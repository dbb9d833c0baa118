"""Patterns as strings, in the notation of Tregex.

    pattern      = node { ":" node }
    node         = description [ "=" name ] relations | "(" node ")" | "=" name | "~" name
    description  = [ "!" ] label { "|" label }, "__" for any node
    label        = letters and other signs, or "label" in quotes, or /regular expression/
    relations    = conjunction { "|" conjunction }
    conjunction  = { [ "&" ] ( [ "!" | "?" ] operator node | "[" relations "]" ) }

All relations of a conjunction are of the same node on the left. After an operator, a description
without brackets has no relations of its own: in `NP < DT < NN`, both are children of the NP, and in
`NP < (DT < the)` "the" is below the DT. A regular expression is searched for anywhere in the label.

Without a description, `=name` is the node of this name again, and `~name` any node with the same
label. The name comes earlier; neither is in a negation, except as `!< =name`. `? <` is a relation
to a node that may be missing. Nodes behind ":" are anywhere in the same tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple, TypeVar

from ..errors import StructlearnError
from .patterns import LABEL, NOT
from .relations import OPERATOR, SAME_LABEL

T = TypeVar("T")
U = TypeVar("U")

ANY = "__"
# A dollar sign is a relation, but in PRP$ and WP$ it belongs to the label.
_LABEL = re.compile(
    r"""@?(?:/(?P<regex>(?:\\.|[^/\\])+)/|"(?P<quoted>[^"]+)"|"""
    r"""(?P<plain>[^\s()\[\]|/=&!<>.,:$"@#?]+(?:\$(?=[\s)|=\]&]|\Z))?))"""
)
MOST_DEPTH = 100  # brackets within each other
MOST_ALTERNATIVES = 1000  # of a node and its relations
_NAME = re.compile(r"\w+")
_OR_LABEL = re.compile(r"\|\s*" + _LABEL.pattern)


class _NodePattern(NamedTuple):
    """A node with its relations: (negated, operator, node)."""

    name: str | None
    attributes: dict[str, Any] | None  # None: it is the node of this name again
    relations: tuple[tuple[bool, str, _NodePattern], ...]


Relations = tuple[tuple[bool, str, _NodePattern], ...]


def parsed(text: str) -> list[list[dict[str, Any]]]:
    """Parse a pattern. Returns a list of dicts (`patterns.compiled`) for each of its alternatives.

    Nodes without a name get their number in the pattern. Raises StructlearnError with the place if
    the text is malformed.
    """
    parser = _Parser(text)
    nodes = parser.segments()
    if parser.place < len(text):
        raise parser.error("a relation or the end")
    return [list(_dicts(node)) for node in nodes]


def _dicts(root: _NodePattern) -> Iterator[dict[str, Any]]:
    """Iterate over the dicts of a node and its relations, in the order of the text."""
    number = 0
    stack: list[tuple[dict[str, str], _NodePattern]] = [({}, root)]
    while stack:
        relation, node = stack.pop()
        name = node.name or str(number)
        if node.attributes is None:
            yield {**relation, "RIGHT_ID": name}
        else:
            number += 1
            yield {**relation, "RIGHT_ID": name, "RIGHT_ATTRS": node.attributes}
        stack += (
            ({"LEFT_ID": name, "REL_OP": NOT * negated + operator}, other)
            for negated, operator, other in reversed(node.relations)
        )


class _Parser:
    """A parser by recursive descent. Each method returns the alternatives of what it reads."""

    def __init__(self, text: str):
        self.text, self.depth = text, 0
        self._names: set[str] = set()
        self._go_to(0)

    def segments(self) -> list[_NodePattern]:
        """Read the whole pattern."""
        nodes = self.node()
        while self._takes(":"):
            pairs = self._product(nodes, self.node())
            nodes = [n._replace(relations=(*n.relations, (False, ":", m))) for n, m in pairs]
        return nodes

    def node(self, *, bare: bool = False) -> list[_NodePattern]:
        """Read a node. bare: without relations, unless it is in brackets."""
        if self._opens("("):
            nodes = self.node()
            self._closes(")")
        elif self._at("=") or self._at(SAME_LABEL):
            by_label = self._takes(SAME_LABEL) or not self._takes("=")
            begin, name = self.place, self._match(_NAME, "a name")[0]
            if name not in self._names:
                raise self.error("the name of an earlier node", begin - self.place)
            nodes = [_NodePattern(name, None, ())]
            if by_label:
                nodes = [_NodePattern(None, {}, ((False, SAME_LABEL, nodes[0]),))]
        else:
            attributes, name = self._description(), None
            if not self._at("==") and self._takes("="):
                name = self._match(_NAME, "a name")[0]
                if name in self._names or name.isdecimal():
                    raise self.error("a new name that is no number", -len(name))
                self._names.add(name)
            nodes = [_NodePattern(name, attributes, ())]
        if bare:
            return nodes
        # Relations behind brackets belong to the node in them.
        return [
            node._replace(relations=node.relations + more)
            for node, more in self._product(nodes, self.relations())
        ]

    def relations(self, *, needed: bool = False) -> list[Relations]:
        """Read alternatives of relations. needed: whether there must be any."""
        alternatives: list[Relations] = []
        while True:
            more = self.conjunction()
            if more == [()] and (needed or self._at("|")):
                raise self.error("a relation")
            alternatives += more
            if not self._takes("|"):
                return alternatives
            needed = True

    def conjunction(self) -> list[Relations]:
        alternatives: list[Relations] = [()]
        while True:
            needed = self._takes("&")
            if self._opens("["):
                more = self.relations(needed=True)
                self._closes("]")
            elif self._at(NOT) or self._at("?") or OPERATOR.match(self.text, self.place) or needed:
                more = self._relation()
            else:
                return alternatives
            alternatives = [one + other for one, other in self._product(alternatives, more)]

    def _relation(self) -> list[Relations]:
        negated, optional = self._takes(NOT), self._takes("?")
        operator = self._match(OPERATOR, "a relation")[0]
        nodes = self.node(bare=True)
        none = tuple((True, operator, node) for node in nodes)
        if negated:
            return [none]
        return [((False, operator, node),) for node in nodes] + [none] * optional

    def _description(self) -> dict[str, Any]:
        negated = self._takes(NOT)
        labels = [self._match(_LABEL, "a label")]
        # Before a relation, "|" separates alternatives of relations.
        while _OR_LABEL.match(self.text, self.place):
            self._takes("|")
            labels.append(self._match(_LABEL, "a label"))
        if any(label["plain"] == ANY for label in labels):
            return {LABEL: {"IN": []}} if negated else {}
        if not any(label["regex"] for label in labels):
            texts = [label["plain"] or label["quoted"] for label in labels]
            if len(texts) == 1 and not negated:
                return {LABEL: texts[0]}
            return {LABEL: {"NOT_IN" if negated else "IN": texts}}
        wanted = "|".join(_expression(label) for label in labels)
        return {LABEL: {"REGEX": rf"(?s)\A(?!.*?(?:{wanted}))" if negated else wanted}}

    def _go_to(self, place: int) -> None:
        """Go on behind the white space at a place."""
        self.place = len(self.text) - len(self.text[place:].lstrip())

    def _at(self, sign: str) -> bool:
        return self.text.startswith(sign, self.place)

    def _takes(self, sign: str) -> bool:
        if not self._at(sign):
            return False
        self._go_to(self.place + len(sign))
        return True

    def _opens(self, sign: str) -> bool:
        opened = self._takes(sign)
        self.depth += opened
        if self.depth > MOST_DEPTH:
            raise self.error(f"at most {MOST_DEPTH} brackets within each other")
        return opened

    def _closes(self, sign: str) -> None:
        if not self._takes(sign):
            raise self.error(f"a {sign!r}")
        self.depth -= 1

    def _product(self, one: Sequence[T], other: Sequence[U]) -> Iterable[tuple[T, U]]:
        if len(one) * len(other) > MOST_ALTERNATIVES:
            raise self.error(f"at most {MOST_ALTERNATIVES:,} alternatives")
        return product(one, other)

    def _match(self, kind: re.Pattern, what: str) -> re.Match:
        match = kind.match(self.text, self.place)
        if match is None:
            raise self.error(what)
        self._go_to(match.end())
        if regex := match.groupdict().get("regex"):
            try:
                re.compile(regex)
            except (re.error, RecursionError, OverflowError) as error:
                raise self.error(f"a regular expression ({error})", -len(match[0])) from None
        return match

    def error(self, wanted: str, shift: int = 0) -> StructlearnError:
        place = self.place + shift
        return StructlearnError("SL701", text=self.text[:200], wanted=wanted, place=place + 1)


def _expression(label: re.Match) -> str:
    """Return a regular expression for a label."""
    if label["regex"]:
        return label["regex"].replace(r"\/", "/")
    return rf"\A{re.escape(label['plain'] or label['quoted'])}\Z"
