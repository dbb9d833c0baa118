"""Text formats of the builds: PropBank skeletons (CoNLL-2005 columns), CoNLL-U, one-line trees, raw
text with offsets, Penn Treebank .mrg files."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from _download import FetchError

WORD, TAG, PARSE = 3, 4, 5  # columns of a skeleton; the first three: document, sentence, token
ROLES = 8  # the first column of arguments, after lemma and roleset
CONLLU = 10  # columns
UD_COLUMNS = (3, 5, 2, 6, 7)  # UPOS, FEATS, LEMMA, HEAD, DEPREL
PARAGRAPH = re.compile(r"#\s*new(par|doc)\b")
GAPS = {"0": "", "1": " ", "2": "\n\n"}  # what follows a token

Rows = list[list[str]]


def skeleton_sentences(text: str, name: str) -> list[Rows]:
    """Read the sentences of a .gold_skel file, each a list of rows of columns."""
    sentences: list[Rows] = []
    for block in re.split(r"\n\s*\n", text):
        rows = [line.split() for line in block.splitlines() if line.strip()]
        if not rows:
            continue
        if len(rows[0]) < ROLES or any(len(row) != len(rows[0]) for row in rows):
            raise FetchError(f"{name}: a sentence with rows of different lengths")
        sentences.append(rows)
    return sentences


def conllu_sentences(text: str, name: str) -> list[Rows]:
    """Read the sentences of a CoNLL-U file, without multiword and empty tokens.

    Raises FetchError if a line does not have ten columns."""
    sentences: list[Rows] = []
    for _, lines in _conllu_blocks(text):
        rows = [line.split("\t") for line in lines]
        if any(len(row) != CONLLU for row in rows):
            raise FetchError(f"{name}: a line without {CONLLU} columns")
        sentences.append([row for row in rows if row[0].isdigit()])
    return sentences


def paragraph_starts(text: str) -> list[bool]:
    """Return whether each sentence of a CoNLL-U file begins a paragraph or a document."""
    return [any(map(PARAGRAPH.match, comments)) for comments, _ in _conllu_blocks(text)]


def _conllu_blocks(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the comments and the other lines of each sentence."""
    for block in re.split(r"\n\s*\n", text):
        lines = [line.rstrip("\r") for line in block.split("\n")]
        tokens = [line for line in lines if line and line[0] != "#"]
        if tokens:
            yield [line for line in lines if line.startswith("#")], tokens


def raw_line(document: str, sentences: Sequence[Sequence[str]], spacing: Sequence[str]) -> str:
    """Return a document as a line of JSON: text, and offsets of sentences and tokens.

    sentences: lists of words. spacing: one digit per word, a key of GAPS. White space after the
    last word of the document is omitted."""
    pieces: list[str] = []
    places: dict[str, list[tuple[int, int]]] = {"sentences": [], "tokens": []}
    end = 0
    for words, digits in zip(sentences, spacing, strict=True):
        first = len(places["tokens"])
        for word, digit in zip(words, digits, strict=True):
            pieces += (word, GAPS[digit])
            places["tokens"].append((end, end + len(word)))
            end += len(word) + len(GAPS[digit])
        own = places["tokens"][first:]
        places["sentences"].append((own[0][0], own[-1][1]))
    text = "".join(pieces[:-1])
    return json.dumps({"document": document, "text": text, **places}, ensure_ascii=False) + "\n"


def escape_brackets(word: str) -> str:
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


def tree_line(rows: Rows) -> str:
    """Return the tree of the parse bits in one line, with one space between items."""
    bits = (row[PARSE].replace("*", f"({row[TAG]} {row[WORD]})") for row in rows)
    return re.sub(r"(?<=[^ (])\(", " (", "".join(bits)) + "\n"


def props_block(rows: Rows) -> str:
    """Return the aligned columns of a sentence, and an empty line."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(lines) + "\n\n"


def ud_block(rows: Rows, tokens: int) -> str:
    """Return a line of UPOS, FEATS, LEMMA, HEAD and DEPREL for each token, and an empty line. All
    are `_` if the tokenisation differs."""
    if len(rows) != tokens:
        rows = [["_"] * CONLLU] * tokens
    return "".join("\t".join(row[i] for i in UD_COLUMNS) + "\n" for row in rows) + "\n"


@dataclass
class MrgTree:
    """A Penn Treebank tree, reduced to its leaves (tag, word), including traces, and the number of
    brackets directly below the outer, empty one."""

    leaves: list[tuple[str, str]]
    roots: int = 0

    @property
    def tokens(self) -> list[tuple[str, str]]:
        return [leaf for leaf in self.leaves if leaf[0] != "-NONE-"]


def mrg_trees(text: str, name: str) -> list[MrgTree]:
    """Read the trees of a .mrg file. Raises FetchError if the brackets are invalid."""
    trees: list[MrgTree] = []
    items = re.findall(r"[()]|[^\s()]+", text)
    depth = 0
    for i, item in enumerate(items):
        following = items[i + 1 : i + 2]
        if item == "(":
            depth += 1
            if depth == 1:
                trees.append(MrgTree([]))
            trees[-1].roots += depth == 2
        elif item == ")":
            depth -= 1
            if depth < 0:
                raise FetchError(f"{name}: a closing bracket without an opening one")
        elif depth and items[i - 2 : i - 1] == ["("] and items[i - 1] != "(" and following == [")"]:
            trees[-1].leaves.append((items[i - 1], item))
        elif not depth or items[i - 1] != "(" or following == [")"]:
            raise FetchError(f"{name}: {item[:40]!r} is neither a label nor a word with its tag")
    if depth:
        raise FetchError(f"{name}: {depth} brackets are not closed")
    return trees
