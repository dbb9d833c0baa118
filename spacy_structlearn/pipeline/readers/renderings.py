"""Variants of annotated texts with other white space, to train components that read the layout.

All texts of a treebank have the layout of its files. Texts of users differ: lines may be wrapped or
not, each paragraph or sentence may be a line, or the text may be a list. A sentence splitter is
trained on every document in each of these renderings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from ...errors import StructlearnError
from ...learning.settings import quoted
from .docbin import create_docbin_reader
from .examples import Reader

BLANK, LINE_BREAK = " ", "\n"
WIDTH, WIDTHS = 72, (56, 80)  # of wrapped lines in columns, and the range of random widths
BULLETS = ((), (), ("-",), ("*",), ("•",), (">",), ("{}.",), ("{})",))  # the beginnings of items
MOST_WORDS = 8  # maximal number of words of an item


def create_raw_text_reader(
    path: Path | None, renderings: Sequence[str] = ("as_it_is",), seed: int = 0
) -> Reader:
    """Read the sentences of a .spacy file, in several renderings of its white space.

    The predicted Docs have the tokens of the pipeline's own tokenizer, and no annotation.
    path: the file.
    renderings: the renderings of each Doc, see `RENDERINGS`.
    seed: seed of the random choices of `rendered`.
    Raises StructlearnError for a missing file, a file that is not a DocBin, and an unknown
    rendering.
    """
    for name in renderings:
        if name not in RENDERINGS:
            given = {"learner": "spacy_structlearn.RawText.v1", "name": "renderings"}
            wanted = f"some of {', '.join(RENDERINGS)}"
            raise StructlearnError("SL043", value=quoted(name), wanted=wanted, **given)
    read_docs = create_docbin_reader(path, tags=False)

    def read(nlp: Language) -> Iterator[Example]:
        for number, example in enumerate(read_docs(nlp)):
            for name in renderings:
                reference = rendered(example.reference, name, seed + number)
                yield Example(nlp.make_doc(reference.text), reference)

    return read


def rendered(doc: Doc, rendering: str, seed: int | None = None) -> Doc:
    """Make a Doc of the same sentences with other white space, and no other annotation.

    rendering: one of `RENDERINGS`. "items" keeps only the first words of each sentence.
    seed: seed of random choices. Half of the texts get curly quotation marks. None: only white
        space changes.
    """
    words = [token for token in doc if not token.is_space]
    starts = {next((t.i for t in sent if not t.is_space), -1) for sent in doc.sents}
    whole, random = doc.text, Random(seed or 0)
    text = SpacedText(
        [token.text for token in words],
        [whole[a.idx + len(a) : b.idx] for a, b in pairwise(words)],
        [token.i in starts for token in words[1:]],
    )
    if seed is not None and rendering != "as_it_is" and random.random() < 0.5:
        text = text._replace(words=list(_curly(text.words)))
    return _doc(doc, RENDERINGS[rendering](text, random))


class SpacedText(NamedTuple):
    """A text of n words.

    words: the words.
    behind: the n - 1 pieces of white space between the words, which may be "".
    ends: whether a sentence ends there, (n - 1).
    """

    words: list[str]
    behind: list[str]
    ends: list[bool]

    def spaced(self, space_of: Callable[[str, bool], str]) -> SpacedText:
        """Replace white space. space_of: by what it is, and by whether a sentence ends there."""
        pairs = zip(self.behind, self.ends, strict=True)
        return self._replace(behind=[space_of(space, end) for space, end in pairs])


def _doc(doc: Doc, text: SpacedText) -> Doc:
    """Convert a text to a Doc."""
    words, spaces = [], []
    starts: list[bool | int | None] = []
    rows = zip(text.words, [*text.behind, ""], [True, *text.ends], strict=bool(text.words))
    for word, space, begins in rows:
        words.append(word)
        starts.append(begins)
        # Like in spaCy's tokenizer, one space belongs to the word before, the rest is a token.
        spaces.append(space[:1] == BLANK)
        if rest := space[space[:1] == BLANK :]:
            words.append(rest)
            spaces.append(False)
            starts.append(False)
    return Doc(doc.vocab, words=words, spaces=spaces, sent_starts=starts)


def _curly(words: Iterable[str]) -> Iterator[str]:
    """Replace quotation marks and apostrophes by curly ones."""
    opens = True
    for word in words:
        if word in ('"', "``", "''"):
            opens = word == "``" or (opens and word == '"')
            yield "“" if opens else "”"
            opens = not opens
        else:
            yield word.replace("'", "’")


def _lines(text: SpacedText) -> SpacedText:
    return text.spaced(lambda space, end: LINE_BREAK if _is_blank_line(space) else space)


def _sentence_lines(text: SpacedText) -> SpacedText:
    return text.spaced(
        lambda space, end: LINE_BREAK if end and space and not _is_blank_line(space) else space
    )


def _wrapped(text: SpacedText, width: int) -> SpacedText:
    gaps = list(text.behind)
    column, blank = 0, None  # of the line so far, and its last space
    since = 0  # columns after that space
    for index, word in enumerate(text.words):
        column, since = column + len(word), since + len(word)
        if column > width and blank is not None:
            gaps[blank], column, blank = LINE_BREAK, since, None
        if index < len(gaps):
            space = gaps[index]
            if "\n" in space:
                column, since, blank = 0, 0, None
            elif space:
                column, since, blank = column + len(space), 0, index
    return text._replace(behind=gaps)


def _items(text: SpacedText, random: Random) -> SpacedText:
    """Make a list: a short line with the first words of each sentence, after a random bullet."""
    bullet = random.choice(BULLETS)
    bounds = [0, *(i + 1 for i, end in enumerate(text.ends) if end), len(text.words)]
    words, behind = [], []
    ends: list[bool] = []
    for number, (begin, end) in enumerate(pairwise(bounds), 1):
        last = min(end, begin + random.randint(1, MOST_WORDS))
        words += [mark.format(number) for mark in bullet] + text.words[begin:last]
        behind += [BLANK] * len(bullet)
        behind += [space and BLANK for space in text.behind[begin : last - 1]] + [LINE_BREAK]
        ends += [False] * (len(words) - len(ends) - 1) + [True]
    return SpacedText(words, behind[:-1], ends[:-1])


def _is_blank_line(space: str) -> bool:
    return space.count("\n") > 1


RENDERINGS: dict[str, Callable[[SpacedText, Random], SpacedText]] = {
    "as_it_is": lambda text, random: text,
    # All white space is one space.
    "flat": lambda text, random: text.spaced(lambda space, end: space and BLANK),
    # Lines are wrapped where there are spaces.
    "wrapped": lambda text, random: _wrapped(text, WIDTH),
    # Line breaks stand for blank lines between paragraphs.
    "lines": lambda text, random: _lines(text),
    # The same with lines that are wrapped to a random width.
    "wrapped_lines": lambda text, random: _lines(_wrapped(text, random.randint(*WIDTHS))),
    # Each sentence of a paragraph is on its own line.
    "sentence_lines": lambda text, random: _sentence_lines(text),
    "items": _items,
}
