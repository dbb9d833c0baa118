"""Patterns of nodes, as lists of dicts with the keys of spaCy's DependencyMatcher, compiled."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from ..trees.labels import labels_of
from .relations import OPERATORS, parts

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
_ALIASES = {"TEXT": "ORTH"}
_KEYS = ("LEFT_ID", "REL_OP", "RIGHT_ID", "RIGHT_ATTRS")
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


class Values:
    """The distinct values of an attribute."""

    def __init__(self, values: Sequence[str | int]):
        self.all = values

    @cached_property
    def places(self) -> dict[str | int, int]:
        """The place of each value."""
        return dict(zip(self.all, range(len(self.all)), strict=True))


class Test(NamedTuple):
    """A test of values. kind: IN, NOT_IN, REGEX, or a comparison of numbers."""

    kind: str
    value: Any  # frozenset, re.Pattern or int

    def holds(self, values: Values) -> NDArray[np.bool_]:
        """Return whether it holds for each value."""
        if self.kind == "REGEX":
            holds = map(bool, map(self.value.search, values.all))
            return np.fromiter(holds, dtype=bool, count=len(values.all))
        if self.kind in _COMPARISONS:
            return _COMPARISONS[self.kind](np.array(values.all), self.value)
        found = np.full(len(values.all), self.kind == "NOT_IN")
        places = [values.places[value] for value in self.value if value in values.places]
        found[places] = self.kind == "IN"
        return found


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


class Pattern(NamedTuple):
    """A pattern. Each node comes after its parent. The first is a node of every match."""

    nodes: tuple[PatternNode, ...]

    @property
    def names(self) -> set[str]:
        """The names of the attributes of words that it reads."""
        found = {name for node in self.nodes for name, _ in node.attributes}
        return found - {LABEL, LENGTH}


def compiled(pattern: Sequence[Mapping[str, Any]]) -> Pattern:
    """Compile a list of dicts.

    The first has RIGHT_ID and RIGHT_ATTRS, the others also LEFT_ID, the RIGHT_ID of an earlier one,
    and REL_OP, a relation (`relations`), with "!" in front if there must be no such node.
    Raises StructlearnError for anything else.
    """
    if not pattern:
        raise _error(0, "there is no node")
    numbers: dict[str, int] = {}
    nodes: list[PatternNode] = []
    for number, given in enumerate(pattern):
        wanted = _KEYS if number else _KEYS[2:]
        if not isinstance(given, Mapping) or sorted(given) != sorted(wanted):
            raise _error(number, f"{given!r} is not a dict with the keys {', '.join(wanted)}")
        name = given["RIGHT_ID"]
        if not isinstance(name, str) or name in numbers:
            raise _error(number, f"the RIGHT_ID {name!r} is no string, or not the only one")
        attributes = _attributes(number, given["RIGHT_ATTRS"])
        parent, relation, negated = -1, "", False
        if number:
            parent = numbers.get(given["LEFT_ID"], -1)
            if parent < 0:
                raise _error(number, f"no earlier node has the RIGHT_ID {given['LEFT_ID']!r}")
            relation = given["REL_OP"]
            negated = isinstance(relation, str) and relation.startswith(NOT)
            relation = relation[len(NOT) :] if negated else relation
            if not isinstance(relation, str) or parts(relation) is None:
                known = " ".join(OPERATORS)
                raise _error(number, f"the REL_OP {relation!r} is not one of {known}")
        is_matched = not negated and (not number or nodes[parent].is_matched)
        nodes.append(PatternNode(name, attributes, parent, relation, negated, is_matched))
        numbers[name] = number
    return Pattern(tuple(nodes))


def _error(number: int, problem: str) -> StructlearnError:
    return StructlearnError("SL702", number=number, problem=problem)


def _attributes(number: int, given: object) -> Attributes:
    if not isinstance(given, Mapping):
        raise _error(number, f"RIGHT_ATTRS is {given!r}, not a dict")
    found: list[tuple[str, Test]] = []
    for key, value in given.items():
        name = str(key).upper()
        name = _ALIASES.get(name, name)
        if name not in TEXTS | FLAGS | {LABEL, LENGTH}:
            known = ", ".join([LABEL, LENGTH, *sorted(TEXTS), *sorted(FLAGS)])
            raise _error(number, f"{key!r} is not one of the attributes {known}")
        found += ((name, test) for test in _tests(number, name, value))
    # LABEL first, which leaves the fewest nodes.
    return tuple(sorted(found, key=lambda attribute: attribute[0] != LABEL))


def _tests(number: int, name: str, value: object) -> list[Test]:
    kind: type = int if name in FLAGS or name == LENGTH else str
    tests = value if isinstance(value, Mapping) else {"IN": [value]}
    found = []
    for key, wanted in tests.items():
        if key in ("IN", "NOT_IN") and isinstance(wanted, (list, tuple, set, frozenset)):
            if all(isinstance(item, kind) for item in wanted):
                found.append(Test(key, frozenset(wanted)))
                continue
        elif key == "REGEX" and kind is str and isinstance(wanted, str):
            try:
                found.append(Test(key, re.compile(wanted)))
                continue
            except (re.error, RecursionError, OverflowError) as error:
                problem = f"{wanted!r} is not a regular expression ({error})"
                raise _error(number, problem) from None
        elif key in _COMPARISONS and name == LENGTH and isinstance(wanted, int):
            found.append(Test(key, wanted))
            continue
        more = {str: ", or a string after REGEX", int: ""}[kind]
        more = ", or a number after ==, >= and so on" if name == LENGTH else more
        what = {str: "a string", int: "a number"}[kind]
        raise _error(number, f"{name} is {value!r}; give {what}, a list after IN or NOT_IN{more}")
    return found
