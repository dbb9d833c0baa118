"""Spans of a Doc as constraints on its trees, over the words of each sentence."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from spacy.tokens import Doc

from ...grammar.chart.constraints import Constraint
from ...groups import CONSTITUENT_CONSTRAINTS
from .span_groups import aligned_group

ENTITIES = "ents"
PIECE = 60  # number of words of a piece of a sentence that is too long
# Where long sentences are cut: after strong punctuation, or else after a comma.
BOUNDARIES = (re.compile(r"[;:.!?…。；：！？]+|--+|[—–]"), re.compile(r"[,،、，]"))
FORBIDDEN = "!"  # before the label of a bracket that must not be


class Constraints(NamedTuple):
    """The constraints of a sentence, or of a piece of it, over its words.

    inside: those of its words alone.
    impossible: whether there are others, which no tree can meet.
    """

    inside: list[Constraint]
    impossible: bool = False

    @property
    def required(self) -> list[tuple[int, int]]:
        """Start and end of the brackets that must be."""
        return [(start, end) for start, end, _, must in self.inside if must]

    def pieces(self, ends: Sequence[int]) -> list[Constraints]:
        """Divide the constraints among pieces. ends: of the pieces, in words.

        The first has `impossible` set if a bracket that must be is in no piece.
        """
        found: list[Constraints] = []
        for begin, end in pairwise([0, *ends]):
            inside = [
                (first - begin, last - begin, label, must)
                for first, last, label, must in self.inside
                if begin <= first and last <= end
            ]
            found.append(Constraints(inside))
        left = len(self.required) - sum(len(piece.required) for piece in found)
        found[0] = found[0]._replace(impossible=self.impossible or left > 0)
        return found


def read_constraints(doc: Doc, keys: Iterable[str]) -> list[Constraint]:
    """Read the constraints of a Doc, over its tokens.

    keys: of the span groups; "ents" are the entities. Labels count in "constituent_constraints"
    alone. The spans of other groups must be brackets if they have several tokens.
    """
    found: list[Constraint] = []
    for key in keys:
        if key == CONSTITUENT_CONSTRAINTS:
            for span in aligned_group(doc, key) or ():
                label = span.label_.removeprefix(FORBIDDEN) or None
                must = not span.label_.startswith(FORBIDDEN)
                found.append((span.start, span.end, label, must))
        else:
            spans = doc.ents if key == ENTITIES else doc.spans.get(key, ())
            found += [(span.start, span.end, None, True) for span in spans if len(span) > 1]
    return found


def by_sentence(
    constraints: Iterable[Constraint], positions: Sequence[int], ends: Sequence[int]
) -> list[Constraints]:
    """Divide the constraints of a Doc among its sentences.

    positions: the tokens that are words. ends: of the sentences, in words.
    """
    found = [Constraints([]) for _ in ends]
    for start, end, label, must in constraints if found else ():
        first, last = (bisect_left(positions, token) for token in (start, end))
        # White space belongs to the sentence before it.
        least, most = (first, last - 1) if first < last else [max(first - 1, 0)] * 2
        numbers = range(bisect_right(ends, least), bisect_right(ends, most) + 1)
        if first < last and len(numbers) == 1:
            begin = ends[numbers[0] - 1] if numbers[0] else 0
            found[numbers[0]].inside.append((first - begin, last - begin, label, must))
        elif must:
            for number in numbers:
                found[number] = found[number]._replace(impossible=True)
    return found


def cut(
    words: Sequence[str], max_length: int, brackets: Iterable[tuple[int, int]] = ()
) -> list[int]:
    """Get the ends of the pieces in which a sentence of more than `max_length` words is parsed.

    A piece of at most `PIECE` words ends after the last possible strong punctuation mark, or else
    the last possible comma, or else at `PIECE` words. No piece ends inside of a bracket that must
    be if that is possible with pieces of at most `max_length` words.
    """
    if len(words) <= max_length:
        return [len(words)]
    inner = {
        end for i, j in brackets if j - i <= max_length for end in range(i + 1, j)
    }  # no end of a piece
    usual = min(PIECE, max_length)
    ends, begin = [], 0
    while len(words) - begin > usual:
        longest = begin + usual
        possible = [end for end in range(longest, begin, -1) if end not in inner]
        if not possible:
            most = min(begin + max_length, len(words))
            possible = [next((end for end in range(longest, most) if end not in inner), most)]
        begin = next(
            (
                end
                for boundary in BOUNDARIES
                for end in possible
                if boundary.fullmatch(words[end - 1])
            ),
            possible[0],
        )
        ends.append(begin)
    return [*ends, len(words)] if begin < len(words) else ends
