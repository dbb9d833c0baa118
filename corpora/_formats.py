"""The text formats that the builds read and write: PropBank skeletons (CoNLL-2005 columns),
CoNLL-U, one-line trees, Penn Treebank .mrg files."""

import re
from dataclasses import dataclass

from _download import FetchError

WORD, TAG, PARSE = 3, 4, 5  # columns of a skeleton; the first three: document, sentence, token
ROLES = 8  # the first column of arguments, behind lemma and roleset

Rows = list[list[str]]


def skeleton_sentences(text: str, name: str) -> list[Rows]:
    """The sentences of a .gold_skel file, each a list of rows of columns."""
    sentences: list[Rows] = []
    for block in re.split(r"\n\s*\n", text):
        rows = [line.split() for line in block.splitlines() if line.strip()]
        if not rows:
            continue
        if len(rows[0]) < ROLES or any(len(row) != len(rows[0]) for row in rows):
            raise FetchError(f"{name}: a sentence with columns of different number")
        sentences.append(rows)
    return sentences


def conllu_sentences(text: str) -> list[Rows]:
    """The sentences of a CoNLL-U file, words only (no multiword or empty tokens)."""
    sentences: list[Rows] = []
    for block in re.split(r"\n\s*\n", text):
        rows = [line.split("\t") for line in block.splitlines() if line and line[0] != "#"]
        if rows:
            sentences.append([row for row in rows if row[0].isdigit()])
    return sentences


def escape_brackets(word: str) -> str:
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


def tree_line(rows: Rows) -> str:
    """The tree in the parse bits as one line, one space between items."""
    bits = (row[PARSE].replace("*", f"({row[TAG]} {row[WORD]})") for row in rows)
    return re.sub(r"(?<=[^ (])\(", " (", "".join(bits)) + "\n"


def props_block(rows: Rows) -> str:
    """The columns of a sentence, aligned, and the empty line after it."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(lines) + "\n\n"


@dataclass
class MrgTree:
    """What the builds need of a Penn Treebank tree: its leaves (tag, word), traces included, and
    the number of brackets right under the outer, empty one."""

    leaves: list[tuple[str, str]]
    roots: int = 0

    @property
    def tokens(self) -> list[tuple[str, str]]:
        return [leaf for leaf in self.leaves if leaf[0] != "-NONE-"]


def mrg_trees(text: str) -> list[MrgTree]:
    trees: list[MrgTree] = []
    items = re.findall(r"[()]|[^\s()]+", text)
    depth = 0
    for i, item in enumerate(items):
        if item == "(":
            depth += 1
            if depth == 1:
                trees.append(MrgTree([]))
            trees[-1].roots += depth == 2
        elif item == ")":
            depth -= 1
        elif items[i + 1] == ")":
            trees[-1].leaves.append((items[i - 1], item))
    return trees
