"""Patterns of nodes, as lists of dicts with the keys of spaCy's DependencyMatcher, compiled."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from ..trees.labels import labels_of
from .relations import OPERATORS, SAME_LABEL, parts

LABEL, LENGTH = "LABEL", "LENGTH"
NOT = "!"  # before a relation
TEXTS = labels_of(
    "ORTH LOWER NORM SHAPE PREFIX SUFFIX LEMMA TAG POS MORPH DEP ENT_TYPE ENT_ID ENT_KB_ID"
)
FLAGS = labels_of(
    "IS_ALPHA IS_ASCII IS_DIGIT IS_LOWER IS_UPPER IS_TITLE IS_PUNCT IS_STOP IS_QUOTE IS_BRACKET "
    "IS_LEFT_PUNCT IS_RIGHT_PUNCT IS_CURRENCY LIKE_URL LIKE_NUM LIKE_EMAIL"
)
"""The attributes of words: strings, and those that are true or false."""
NUMBERS = FLAGS | {LENGTH}
_ALIASES = {"TEXT": "ORTH"}
_ROOTS = {"ROOT": "TOP"}  # the root of other treebanks
_KEYS = ("LEFT_ID", "REL_OP", "RIGHT_ID", "RIGHT_ATTRS")
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


# Search backtracks: what it does within a second or two, and on texts of which length it must.
MOST_EFFORT, USUAL_LENGTH = 28, 60
_PARSER = getattr(re, "_parser", None) or import_module("sre_parse")  # before Python 3.11


class Test(NamedTuple):
    """A test of values. kind: IN, NOT_IN, REGEX, or a comparison of numbers."""

    kind: str
    value: Any  # frozenset, re.Pattern or int

    def holds(self, values: Mapping[Any, int]) -> NDArray[np.bool_]:
        """Return whether it holds for each value. values: with their places, 0, 1, and so on."""
        if self.kind in _COMPARISONS:
            return _COMPARISONS[self.kind](np.array([*values]), self.value)
        if self.kind == "REGEX":
            _check_effort(self.value.pattern, max(map(len, values), default=0))
            return np.array([bool(self.value.search(value)) for value in values], dtype=bool)
        holds = np.full(len(values), self.kind == "NOT_IN")
        holds[[values[value] for value in self.value if value in values]] = self.kind == "IN"
        return holds


@cache
def _check_effort(regex: str, length: int) -> None:
    """Raise StructlearnError if a search in a text of this length may never end."""
    if _effort(_PARSER.parse(regex), length) + np.log2(length + 1) > MOST_EFFORT:
        raise StructlearnError("SL705", regex=regex, length=length)


def _effort(regex: Any, length: int) -> float:
    """Bound the ways to try a parsed regular expression at one place; the logarithm to base 2."""
    effort = 0.0
    for kind, value in regex:
        if str(kind) == "BRANCH":
            effort += float(np.logaddexp2.reduce([_effort(part, length) for part in value[1]]))
        elif str(kind).endswith("_REPEAT"):
            least, most, part = value
            times = min(most, length)
            effort += times * _effort(part, length) + np.log2(max(times - least, 0) + 1)
        else:
            parts = value if isinstance(value, tuple) else (value,)
            effort += sum(_effort(p, length) for p in parts if isinstance(p, _PARSER.SubPattern))
    return effort


Attributes = tuple[tuple[str, Test], ...]


class PatternNode(NamedTuple):
    """A node of a pattern.

    attributes: the tests that it must pass. parent: the number of the node at the left of its
        relation, -1 for the first. negated: whether there must be no such node. is_matched: whether
        it is part of a match: not if it is negated, or below a negated one.
    """

    name: str
    attributes: Attributes
    parent: int
    relation: str
    negated: bool
    is_matched: bool


class Check(NamedTuple):
    """A relation between two nodes of a pattern, by their numbers; both are in every match."""

    left: int
    relation: str
    right: int
    negated: bool


class Pattern(NamedTuple):
    """A pattern. Each node comes after its parent. The first is a node of every match.

    checks: further relations between its nodes. Nodes and their parents alone are a tree.
    """

    nodes: tuple[PatternNode, ...]
    checks: tuple[Check, ...] = ()

    @property
    def names(self) -> set[str]:
        """The names of the attributes of words that it reads."""
        names = {name for node in self.nodes for name, _ in node.attributes}
        return names - {LABEL, LENGTH}

    @property
    def labels(self) -> list[str]:
        """The labels of nodes that are above others, and so no words."""
        above = {node.parent for node in self.nodes if node.relation.startswith("<")}
        above |= {n for n, node in enumerate(self.nodes) if node.relation.startswith(">")}
        tests = [
            test for n in sorted(above) for name, test in self.nodes[n].attributes if name == LABEL
        ]
        return [label for test in tests if test.kind == "IN" for label in sorted(test.value)]


def compiled(pattern: Sequence[Mapping[str, Any]]) -> Pattern:
    """Compile a list of dicts.

    The first has RIGHT_ID and RIGHT_ATTRS, the others also LEFT_ID, the RIGHT_ID of an earlier one,
    and REL_OP, a relation (`relations`), with "!" in front if there must be no such node. One
    without RIGHT_ATTRS is the earlier node with this RIGHT_ID again; its REL_OP may also be "~":
    with the same label.
    Raises StructlearnError for anything else.
    """
    if not pattern:
        raise _error(0, "there is no node")
    numbers: dict[str, int] = {}
    nodes: list[PatternNode] = []
    checks: list[Check] = []
    for number, given in enumerate(pattern):
        keys: tuple[str, ...] = _KEYS if number else _KEYS[2:]
        is_check = number > 0 and isinstance(given, Mapping) and _KEYS[3] not in given
        keys = _KEYS[:3] if is_check else keys
        if not isinstance(given, Mapping) or sorted(given) != sorted(keys):
            raise _error(number, f"{given!r} is not a dict with the keys {', '.join(keys)}")
        name = given["RIGHT_ID"]
        if not isinstance(name, str) or (name in numbers) is not is_check:
            wanted = "not one of an earlier node" if is_check else "not the only one"
            raise _error(number, f"the RIGHT_ID {name!r} is no string, or {wanted}")
        attributes = () if is_check else _attributes(number, given["RIGHT_ATTRS"])
        node = PatternNode(name, attributes, -1, "", negated=False, is_matched=True)
        if number:
            parent = numbers.get(given["LEFT_ID"], -1)
            if parent < 0:
                raise _error(number, f"no earlier node has the RIGHT_ID {given['LEFT_ID']!r}")
            relation, negated = given["REL_OP"], False
            if isinstance(relation, str):
                negated, relation = relation.startswith(NOT), relation.removeprefix(NOT)
            is_known = isinstance(relation, str) and parts(relation) is not None
            if not is_known and not (is_check and relation == SAME_LABEL):
                known = " ".join(OPERATORS)
                raise _error(number, f"the REL_OP {relation!r} is not one of {known}")
            if is_check:
                check = Check(parent, relation, numbers[name], negated)
                if not all(nodes[n].is_matched for n in (check.left, check.right)):
                    raise _error(number, f"{name!r} or {given['LEFT_ID']!r} is in a negation")
                checks.append(check)
                continue
            is_matched = nodes[parent].is_matched and not negated
            node = PatternNode(name, attributes, parent, relation, negated, is_matched)
        numbers[name] = len(nodes)
        nodes.append(node)
    return Pattern(tuple(nodes), tuple(checks))


def _error(number: int, problem: str) -> StructlearnError:
    return StructlearnError("SL702", number=number, problem=problem)


def _attributes(number: int, given: object) -> Attributes:
    if not isinstance(given, Mapping):
        raise _error(number, f"RIGHT_ATTRS is {given!r}, not a dict")
    attributes: list[tuple[str, Test]] = []
    for key, value in given.items():
        name = str(key).upper()
        name = _ALIASES.get(name, name)
        if name not in TEXTS | NUMBERS | {LABEL}:
            known = ", ".join([LABEL, LENGTH, *sorted(TEXTS), *sorted(FLAGS)])
            raise _error(number, f"{key!r} is not one of the attributes {known}")
        tests = value if isinstance(value, Mapping) else {"IN": [value]}
        for kind, wanted in tests.items():
            test = _test(number, name, kind, wanted)
            if test is None:
                choices = "a string, a list after IN or NOT_IN, or a string after REGEX"
                if name in NUMBERS:
                    choices = "a number, a list after IN or NOT_IN"
                if name == LENGTH:
                    choices += ", or a number after ==, >= and so on"
                raise _error(number, f"{name} is {value!r}; give {choices}")
            attributes.append((name, test))
    return tuple(attributes)


def _test(number: int, name: str, kind: Any, wanted: object) -> Test | None:
    """Return a test of an attribute, None if it has no such test."""
    if kind in ("IN", "NOT_IN") and isinstance(wanted, (list, tuple, set, frozenset)):
        value_type = int if name in NUMBERS else str
        if all(isinstance(item, value_type) for item in wanted):
            names = _ROOTS if name == LABEL else {}
            return Test(kind, frozenset(names.get(item, item) for item in wanted))
    elif kind == "REGEX" and name not in NUMBERS and isinstance(wanted, str):
        try:
            test = Test(kind, re.compile(wanted))
        except (re.error, RecursionError, OverflowError) as error:
            problem = f"{wanted!r} is not a regular expression ({error})"
            raise _error(number, problem) from None
        _check_effort(wanted, USUAL_LENGTH)
        return test
    elif kind in _COMPARISONS and name == LENGTH and isinstance(wanted, int):
        return Test(kind, wanted)
    return None
