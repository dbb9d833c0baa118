"""What tells where a sentence begins: symbols of words, white space and layout around each gap.

A sentence splitter labels every token B (a sentence begins here) or I. Words, shapes and classes
are columns of their own; here are those that come from the layout of the text and from the text as
a whole:

    GAP       the white space before the token: none, a blank, several, a line break, a line break
              and an indent, a blank line, nothing because the text begins here
    BREAK     at a line break: how far the next word would have fit on the line before it, if lines
              may be as long as the longest one of the text. A line that was wrapped is full; one
              that ends early was ended on purpose
    ROOM      the same, if lines may be as long as the longest one of the paragraph
    FULL      at a line break: how many lines of the paragraph there are, and how many are full
    LINE      at a line break: the length of the line before it
    PLACE     how many tokens the token is behind the beginning of its line
    KIND      what kind of word or mark the token is, see `KINDS`
    QUOTE     whether the token stands inside quotation marks, and whether they are paired
    BRACKET   whether it stands inside brackets
    BEHIND    how many tokens ago a mark ended a sentence, or the paragraph began
    AHEAD     in how many tokens the next such mark comes, or the paragraph ends
    CASE      of a capitalised word: whether the text has it in lower case too, or capitalised where
              no sentence begins; of a word before a period: whether the text has it without one, or
              with one where no sentence ends
    CAPITALS  how much of the text is in capitals
    STYLE     whether words behind other marks are in lower case, capitalised; the case of the first
    LISTED    whether it is a listed abbreviation, always or only before a number
    LAYOUT    whether the text has line breaks, and blank lines, at all; and how long the paragraph
              is. Where paragraphs are marked, fewer sentences end without a mark inside of them

CASE is that of Kiss & Strunk (2006, sections 4.1 and 4.3) in the document; LISTED is from others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .data import Ints, Mask, Symbols

LABELS = ("B", "I")
COLUMNS = (
    *("GAP", "BREAK", "ROOM", "FULL", "LINE", "PLACE", "KIND", "QUOTE", "BRACKET"),
    *("BEHIND", "AHEAD", "CASE", "CAPITALS", "STYLE", "LISTED", "LAYOUT"),
)

# Codes of GAP.
NONE, BLANK, BLANKS, LINE_BREAK, INDENTED, BLANK_LINE, BEGINNING = range(1, 8)

KINDS = (
    ("period", r"\."),
    ("question mark", r"\?+"),
    ("exclamation mark", r"!+"),
    ("ellipsis", r"…+|\.{2,}"),
    ("several marks", r"[.?!…]{2,}"),
    ("straight quote", r'"'),
    ("opening quote", r"“|``|‘|«|„"),
    ("closing quote", r"”|''|’|»"),
    ("apostrophe", r"'"),
    ("opening bracket", r"[(\[{<]"),
    ("closing bracket", r"[)\]}>]"),
    ("colon", r":"),
    ("comma", r"[,;]"),
    ("dash", r"-{1,3}|[–—]"),
    ("bullet", r"[*•·+#▪►●◦‣→]"),
    ("rule", r"([-_=*~#+.])\1+|[-_=*~#+<>|]{2,}"),
    ("emoticon", r"[:;=8xX][-o^']?[)(DPp\]/\\|]+|<3+|\^_*\^"),
    ("number of an item", r"\d{1,3}[.)]?"),
    ("letter of an item", r"[a-zA-Z][.)]|[ivxIVX]+[.)]"),
    ("address", r"\S+@\S+|@\w+"),
    ("link", r"(?:https?:|www\.)\S+|\S+\.(?:com|org|net|edu|gov)\b\S*"),
    ("short word with a period", r"[^\W\d_]{1,3}\."),
    ("word with periods", r"\S+\."),
    ("digits", r"\d\S*"),
)
_KIND = re.compile("|".join(f"(?P<k{i}>{pattern})" for i, (_, pattern) in enumerate(KINDS)))
_NUMBER = {f"k{i}": i + 1 for i in range(len(KINDS))}
_CODE = {name: i + 1 for i, (name, _) in enumerate(KINDS)}
INITIAL, UPPER, CAPITALISED, LOWER, OTHER = range(len(KINDS) + 1, len(KINDS) + 6)
_LAST_MARK = _CODE["several marks"]

# Where numbers are told apart no more exactly than this.
_DISTANCES = (1, 2, 3, 5, 9, 17, 33)
_SLACKS = (0, 5, 15, 30)  # characters that the line before had left
_WIDTHS = (45, 56, 81, 101)
_LENGTHS = (10, 20, 30, 40, 50, 60, 72, 85)
_SHARES = (0.01, 0.5, 0.99)
_LINES = (3, 5)
_TOKENS = (8, 30, 100)  # of a paragraph
_MAX_BRACKETED = 40  # tokens: a bracket that is not closed by then will not be
_MAX_PLACE = 3
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: spreads small numbers


def word_kind(word: str) -> int:
    """The code of the kind of a token: the place in `KINDS` from 1, or a class of letters."""
    match = _KIND.fullmatch(word)
    if match is not None:
        # The first group that matched is a kind, not a group inside of one.
        return next(_NUMBER[name] for name, text in match.groupdict().items() if text is not None)
    if word.isupper():
        return INITIAL if len(word) == 1 else UPPER
    if word[:1].isupper():
        return CAPITALISED
    return LOWER if word[:1].islower() else OTHER


@dataclass(frozen=True)
class Layout:
    """Where the n tokens of some documents stand, white space tokens left out.

    documents: int64 (n), the document of each, ascending from 0; each of them has a token.
    starts, ends: int64 (n), characters; those of a later document are larger.
    breaks: int64 (n), line breaks between the token before and this one.
    kinds: int64 (n), codes of `word_kind`. words: uint64 (n), the same for equal words, whatever
    their case. listed: int64 (n), 1 for abbreviations, 2 for those before numbers, 0 for others.
    """

    documents: Ints
    starts: Ints
    ends: Ints
    breaks: Ints
    kinds: Ints
    words: Symbols
    listed: Ints

    def column(self, name: str) -> Symbols:
        """One of `COLUMNS`, uint64 (n); symbols of one column are not those of another one."""
        columns = {"GAP": self.gaps, "KIND": self.kinds, "LISTED": self.listed}
        values = columns[name] if name in columns else getattr(self, f"_{name.lower()}")()
        return np.asarray(values).astype(np.uint64)

    @cached_property
    def offsets(self) -> Ints:
        """int64 (n_documents + 1): where documents begin and end."""
        return np.append(np.flatnonzero(self._is_first), len(self.starts))

    @cached_property
    def gaps(self) -> Ints:
        """int64 (n), codes of the white space before each token."""
        space = self.starts - np.concatenate([[0], self.ends[:-1]])[: len(self.starts)]
        blanks = space - self.breaks
        codes = np.where(space == 0, NONE, np.where(blanks > 1, BLANKS, BLANK))
        codes[self.breaks == 1] = np.where(blanks[self.breaks == 1] > 1, INDENTED, LINE_BREAK)
        codes[self.breaks > 1] = BLANK_LINE
        codes[self._is_first] = BEGINNING
        return codes

    @cached_property
    def _is_first(self) -> Mask:
        return np.diff(self.documents, prepend=-1) != 0

    @cached_property
    def _places(self) -> Ints:
        return np.arange(len(self.starts))

    @cached_property
    def _paragraphs(self) -> Ints:
        return np.cumsum((self.breaks > 1) | self._is_first) - 1

    @cached_property
    def _paragraph_starts(self) -> Ints:
        """Of each token the first one of its paragraph."""
        return np.flatnonzero(np.diff(self._paragraphs, prepend=-1) != 0)[self._paragraphs]

    @cached_property
    def _line_starts(self) -> Ints:
        """The tokens that begin a line."""
        return np.flatnonzero((self.breaks > 0) | self._is_first)

    @cached_property
    def _line_lengths(self) -> Ints:
        """Characters of each line, white space at its ends left out."""
        first, n = self._line_starts, len(self.starts)
        return self.ends[np.append(first[1:], n)[: len(first)] - 1] - self.starts[first]

    @cached_property
    def _breaks(self) -> Ints:
        """The lines that follow another one of their paragraph."""
        first = self._line_starts
        return np.flatnonzero((self.breaks[first] == 1) & ~self._is_first[first])

    @cached_property
    def _needed(self) -> Ints:
        """At each of `_breaks`, the length of the line before it and of the next word together."""
        lines, first = self._breaks, self._line_starts
        # What stands before the first white space of a line is wrapped as one.
        begins = np.append(np.flatnonzero(self.gaps != NONE), len(self.starts))
        behind = begins[np.searchsorted(begins, first[lines], side="right")]
        words = self.ends[behind - 1] - self.starts[first[lines]]
        return self._line_lengths[lines - 1] + 1 + words

    def _fit(self, groups: Ints) -> tuple[Ints, Ints]:
        """At each of `_breaks`, the characters left, and the length of the group's longest line."""
        longest = _longest(self._line_lengths, groups[self._line_starts])[self._breaks]
        return longest - self._needed, longest

    def _break(self) -> Ints:
        return self._at_breaks(*self._fit(self.documents))

    def _room(self) -> Ints:
        return self._at_breaks(*self._fit(self._paragraphs))

    def _at_breaks(self, left: Ints, longest: Ints) -> Ints:
        codes = np.zeros_like(self.starts)
        fit = _bucket(left, _SLACKS) + (len(_SLACKS) + 1) * _bucket(longest, _WIDTHS)
        codes[self._line_starts[self._breaks]] = 1 + fit
        return codes

    def _full(self) -> Ints:
        codes, places = np.zeros_like(self.starts), self._line_starts[self._breaks]
        left, _ = self._fit(self._paragraphs)
        paragraphs = self._paragraphs[places]
        size = int(self._paragraphs[-1]) + 1 if len(self.starts) else 0
        number = np.bincount(paragraphs, minlength=size)
        share = np.bincount(paragraphs, left < 0, minlength=size) / np.maximum(number, 1)
        symbols = _bucket(share, _SHARES) + (len(_SHARES) + 1) * _bucket(number + 1, _LINES)
        codes[places] = 1 + symbols[paragraphs]
        return codes

    def _line(self) -> Ints:
        codes, lines = np.zeros_like(self.starts), self._breaks
        codes[self._line_starts[lines]] = 1 + _bucket(self._line_lengths[lines - 1], _LENGTHS)
        return codes

    def _place(self) -> Ints:
        begins = np.zeros_like(self.starts)
        begins[self._line_starts] = self._line_starts
        return np.minimum(self._places - np.maximum.accumulate(begins), _MAX_PLACE)

    def _quote(self) -> Ints:
        straight = self.kinds == _CODE["straight quote"]
        before = np.cumsum(straight) - straight
        inside = (before - before[self._paragraph_starts]) % 2
        number = np.bincount(self._paragraphs, straight).astype(np.int64)[self._paragraphs]
        curly = self._is_open("opening quote", "closing quote")
        return inside + 2 * (number % 2) + 4 * (number > 0) + 8 * curly

    def _bracket(self) -> Ints:
        opened = self._last("opening bracket")
        is_near = self._places - opened < _MAX_BRACKETED
        return (self._is_open("opening bracket", "closing bracket") & is_near).astype(np.int64)

    def _behind(self) -> Ints:
        last = np.maximum.accumulate(np.where(self.kinds <= _LAST_MARK, self._places + 1, -1))
        return _bucket(self._places - np.maximum(last, self._paragraph_starts), _DISTANCES)

    def _ahead(self) -> Ints:
        n = len(self.starts)
        following = np.where(self.kinds <= _LAST_MARK, self._places, n)
        following = np.minimum.accumulate(following[::-1])[::-1]
        begins = np.append(np.unique(self._paragraph_starts), n)
        end = begins[self._paragraphs + 1]
        distance = _bucket(np.minimum(following, end) - self._places, _DISTANCES)
        return distance + (len(_DISTANCES) + 1) * (following < end)

    def _case(self) -> Ints:
        kinds, n = self.kinds, len(self.starts)
        # Types of different documents are different; sorting pairs would take five times as long.
        types = self.words ^ (self.documents.astype(np.uint64) * _GOLDEN)
        _, of_type = np.unique(types, return_inverse=True)
        is_lower, is_capital = kinds == LOWER, (kinds == CAPITALISED) | (kinds == INITIAL)
        goes_on = np.isin(kinds, (LOWER, _CODE["comma"], _CODE["digits"]))
        inside = is_capital & np.append(False, goes_on[:-1])[:n] & (self.gaps == BLANK)
        # A period that belongs to its word, and after which the sentence goes on.
        period = np.append((kinds[1:] == _CODE["period"]) & (self.gaps[1:] == NONE), False)[:n]
        goes_on[1:] &= self.documents[1:] == self.documents[:-1]
        abbreviated = period & np.append(goes_on[2:], [False, False])[:n]
        capital = 1 + _elsewhere(is_lower, of_type) + 2 * _elsewhere(inside, of_type)
        word = 5 + _elsewhere(~period, of_type) + 2 * _elsewhere(abbreviated, of_type)
        return np.where(period, word, np.where(is_capital, capital, 0))

    def _capitals(self) -> Ints:
        upper, capitalised, lower = (
            np.bincount(self.documents, np.isin(self.kinds, codes))
            for codes in (UPPER, (CAPITALISED, INITIAL), LOWER)
        )
        all_upper = upper / np.maximum(upper + capitalised + lower, 1)
        titles = capitalised / np.maximum(capitalised + lower, 1)
        codes = 3 * _bucket(all_upper, (0.1, 0.5)) + _bucket(titles, (0.03, 0.5))
        return codes[self.documents]

    def _style(self) -> Ints:
        new = np.roll(self.kinds <= _LAST_MARK, 1) & ~np.isin(self.gaps, (NONE, BEGINNING))
        is_lower, is_upper = self.kinds == LOWER, np.isin(self.kinds, (CAPITALISED, INITIAL))
        lower, upper = (_elsewhere(new & case, self.documents) for case in (is_lower, is_upper))
        return lower + 2 * upper + 4 * is_lower[self._is_first][self.documents]

    def _layout(self) -> Ints:
        inside = ~self._is_first
        has_breaks, has_blank_lines = (
            np.bincount(self.documents, is_break & inside) > 0
            for is_break in (self.breaks == 1, self.breaks > 1)
        )
        size = _bucket(np.bincount(self._paragraphs)[self._paragraphs], _TOKENS)
        return (has_breaks + 2 * has_blank_lines)[self.documents] + 4 * size

    def _last(self, kind: str) -> Ints:
        """The last token of a kind up to each one; -1 where there is none."""
        return np.maximum.accumulate(np.where(self.kinds == _CODE[kind], self._places, -1))

    def _is_open(self, opening: str, closing: str) -> Mask:
        """Whether in the paragraph of each token something was opened and not closed since."""
        opened = self._last(opening)
        return (opened >= self._paragraph_starts) & (opened > self._last(closing))


def _bucket(values: NDArray, edges: tuple[float, ...]) -> Ints:
    """How many of the edges each value reaches."""
    return np.searchsorted(edges, values, side="right")


def _longest(lengths: Ints, groups: Ints) -> Ints:
    """Of each line the length of the longest one of its group. groups: ascending."""
    first = np.flatnonzero(np.diff(groups, prepend=-1) != 0)
    if not len(first):
        return lengths
    return np.maximum.reduceat(lengths, first)[np.cumsum(np.diff(groups, prepend=-1) != 0) - 1]


def _elsewhere(marked: Mask, of_type: Ints) -> Mask:
    """Whether another token of the same type is marked."""
    return np.bincount(of_type, marked)[of_type] - marked > 0
