"""CoNLL-U, the format of Universal Dependencies: Docs as its lines, and Docs from its files.

White space between words is told by `SpaceAfter=No`; a blank line is the end of a paragraph. What a
Doc or a file does not say is "_".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from spacy.attrs import SENT_START
from spacy.tokens import Doc, Span, Token
from spacy.vocab import Vocab

from ...errors import StructlearnError
from ...words.morphology import UNMARKED
from ..extensions import constituent_tags, sentences
from ..extensions.brackets import UNKNOWN_TAG
from ..readers.examples import lines
from ..readers.treebank import PARAGRAPH_BREAK

DOCUMENT, PARAGRAPH = "# newdoc", "# newpar"
NO_SPACE = "SpaceAfter=No"
COLUMNS = 10


# --- writing --------------------------------------------------------------------------------------
def conllu_lines(doc: Doc, name: str) -> Iterator[str]:
    """Iterate over the lines of a Doc, with an empty line after each sentence.

    name: of the document. Sentences are numbered, in `# sent_id`.
    """
    begins = f"{DOCUMENT} id = {name}"
    for number, sentence in enumerate(filter(_words, sentences(doc)), 1):
        if begins:
            yield begins
        yield f"# sent_id = {name}-{number}"
        yield from _sentence_lines(sentence)
        yield ""
        last = _words(sentence)[-1]
        begins = PARAGRAPH if _behind(last).count("\n") > 1 else ""


def _sentence_lines(sentence: Span) -> Iterator[str]:
    doc, words = sentence.doc, _words(sentence)
    forms = ["_".join(token.text.split()) for token in words]
    gaps = [bool(_behind(token)) for token in words]
    text = "".join(form + " " * gap for form, gap in zip(forms, gaps, strict=True))
    yield f"# text = {text.strip()}"
    places = {token.i: place for place, token in enumerate(words, 1)}
    tags = constituent_tags(doc, list(places))
    for token, form, tag, gap in zip(words, forms, tags, gaps, strict=True):
        head, relation = UNMARKED, UNMARKED
        if token.dep:
            above = _head(token)
            head = "0" if above is token or above.i not in places else str(places[above.i])
            relation = "root" if head == "0" else token.dep_
        row = [
            *(str(places[token.i]), form, "_".join(token.lemma_.split()), token.pos_),
            *("" if tag == UNKNOWN_TAG else tag, str(token.morph), head, relation),
            *("", "" if gap else NO_SPACE),
        ]
        yield "\t".join(cell or UNMARKED for cell in row)


def _words(sentence: Span) -> list[Token]:
    return [token for token in sentence if not token.is_space]


def _head(token: Token) -> Token:
    """Get the head of a token that is not white space; the token itself if it is a root."""
    head = token.head
    while head.is_space and head.head.i != head.i:
        head = head.head
    return token if head.i == token.i or head.is_space else head


def _behind(token: Token) -> str:
    """Get the white space behind a token."""
    doc, end = token.doc, token.i + 1
    while end < len(doc) and doc[end].is_space:
        end += 1
    return token.whitespace_ + doc[token.i + 1 : end].text_with_ws


# --- reading --------------------------------------------------------------------------------------
# The document, whether a paragraph begins, the columns of words, whether a space follows each.
_Sentence = tuple[str, bool, list[list[str]], list[bool]]


def read_conllu(vocab: Vocab, path: Path | None) -> Iterator[tuple[str, Doc]]:
    """Iterate over the documents of a file as (name, gold Doc); without `# newdoc`, each sentence.

    Docs have tags, or parts of speech in their place, `pos`, `morph`, `lemma`, `head` and `dep`.
    The tokens are the syntactic words: of "don't", "do" and "n't". Empty nodes are left out.
    Raises StructlearnError for a missing file, and for lines that are not CoNLL-U.
    """
    found = groupby(_sentences(path), key=itemgetter(0))
    return ((name, _gold_doc(vocab, own)) for name, own in found)


def _sentences(path: Path | None) -> Iterator[_Sentence]:
    document, number, begins = "", 0, False
    rows: list[list[str]] = []
    for place, line in enumerate(chain(lines(path), [""]), 1):
        text = line.rstrip("\r\n")
        if text.startswith(DOCUMENT):
            document = text.partition("=")[2].strip() or f"document {place}"
        elif text.startswith(PARAGRAPH):
            begins = True
        elif text and not text.startswith("#"):
            rows.append(text.split("\t"))
            if len(rows[-1]) != COLUMNS:
                _refuse(path, place, f"{len(rows[-1])} columns")
        elif not text.strip() and rows:
            words, spaces = _words_of(rows)
            if problem := _problem(words):
                _refuse(path, place - 1, f"the sentence ends here, and it has {problem}")
            yield document or str(number), begins, words, spaces
            number, begins, rows = number + 1, False, []


def _words_of(rows: Iterable[list[str]]) -> tuple[list[list[str]], list[bool]]:
    """Get the rows of words, and whether a space follows; tokens of several words tell it too."""
    words, joined = [], dict[str, bool]()
    for row in rows:
        first, hyphen, last = row[0].partition("-")
        if hyphen and first.isdecimal() and last.isdecimal():
            joined |= {str(place): False for place in range(int(first), int(last))}
            joined[last] = NO_SPACE not in row[-1]
        elif "." not in row[0]:
            words.append(row)
    return words, [joined.get(row[0], NO_SPACE not in row[-1]) for row in words]


def _problem(rows: Sequence[list[str]]) -> str:
    """Say what is wrong with the numbers or the heads of a sentence; "" if nothing is."""
    if [row[0] for row in rows] != [str(place) for place in range(1, len(rows) + 1)]:
        return "words with other numbers"
    if all(row[6] == UNMARKED for row in rows):
        return ""
    if not all(row[6].isdecimal() and int(row[6]) <= len(rows) for row in rows):
        return "heads that are no words"
    heads = [int(row[6]) for row in rows]
    for place in range(1, len(rows) + 1):
        above = place
        for _ in rows:
            above = heads[above - 1] if above else 0
        if above:
            return "a cycle of heads"
    return "" if heads.count(0) == 1 else f"{heads.count(0)} roots"


def _refuse(path: Path | None, line: int, problem: str) -> None:
    raise StructlearnError("SL128", path=path, line=line, problem=problem)


def _gold_doc(vocab: Vocab, read: Iterable[_Sentence]) -> Doc:
    tokens: list[list[Any]] = []
    starts: list[bool] = []
    for _, begins_paragraph, rows, spaces in read:
        if begins_paragraph and tokens:
            # As in a treebank, it belongs to the sentence before.
            tokens[-1][1] = False
            tokens.append([PARAGRAPH_BREAK, False, *[""] * 5, len(tokens) - 1])
            starts.append(False)
        first = len(tokens)
        for row, space in zip(rows, spaces, strict=True):
            _, form, lemma, pos, tag, features, head, relation, *_ = row
            above = len(tokens) if head in ("0", UNMARKED) else first + int(head) - 1
            relation = "ROOT" if head == "0" else relation
            cells = [pos if tag == UNMARKED else tag, pos, features, lemma, relation]
            annotation = ["" if cell == UNMARKED else cell for cell in cells]
            if form == UNMARKED:
                annotation[3] = lemma
            tokens.append([form, space, *annotation, above])
            starts.append(len(starts) == first)
    names = ("words", "spaces", "tags", "pos", "morphs", "lemmas", "deps", "heads")
    columns: dict[str, Any] = dict(zip(names, map(list, zip(*tokens, strict=True)), strict=True))
    doc = Doc(vocab, **columns)
    # spaCy sets no boundaries at sentences without heads. Its stub has thinc's type of arrays.
    doc.from_array([SENT_START], np.where(starts, 1, -1).astype(np.uint64))  # type: ignore[arg-type]
    return doc
