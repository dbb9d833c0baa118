"""Propositions in the style of PropBank (Palmer, Gildea & Kingsbury 2005).

1. `read_props` reads trees with propositions in the column format of the CoNLL shared tasks, and
   `parse_bits` writes the column of trees.
2. `RoleLabels` names the labels and words of a treebank that candidates and features depend on.

Trees have neither traces nor function tags (`spacy_structlearn.trees.normalize`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from sys import intern
from typing import Any, NamedTuple, TypeAlias

from ..errors import StructlearnError
from ..trees.brackets import MOST_OPEN, named_lines, unescape
from ..trees.labels import VERBS, labels_of
from ..trees.tree import Tree

CORE = frozenset({"ARG0", "ARG1", "ARG2", "ARG3", "ARG4", "ARG5", "ARGA"})
PREDICATE = "V"
REFERENCE, CONTINUATION, SPLIT = "R-", "C-", "-DSP"
MOST_DIGITS = 18  # of the number of a sentence


# --- propositions ---------------------------------------------------------------------------------
class Argument(NamedTuple):
    """A piece of an argument, in tokens, end exclusive.

    label: "ARG0" to "ARG5", "ARGA", "ARGM-TMP" and so on, or "V" and "C-V" for the predicate. The
        prefix "R-" marks relative pronouns, "C-" continuations, and the suffix "-DSP" split quotes.
    """

    label: str
    start: int
    end: int


class Proposition(NamedTuple):
    """A predicate with its arguments.

    predicate: its token.
    lemma: as in the corpus.
    roleset: its sense, such as "give.01", or None.
    arguments: all pieces, including those of the predicate, left to right.
    """

    predicate: int
    lemma: str
    roleset: str | None
    arguments: tuple[Argument, ...]

    @property
    def roles(self) -> tuple[Argument, ...]:
        """The arguments without the predicate, V and C-V."""
        return tuple(piece for piece in self.arguments if base_label(piece.label) != PREDICATE)


PlainFrame: TypeAlias = tuple[int, str | None, Iterable[tuple[str, int, int]]]
"""A frame as plain data: the token of the predicate, its roleset or None, and the arguments as
(label, start, end)."""


class Sentence(NamedTuple):
    """A sentence of a corpus: the name of its document and its number in it, words with real
    brackets, tags, tree and propositions.
    """

    document: str
    number: int
    words: tuple[str, ...]
    tags: tuple[str, ...]
    tree: Tree
    propositions: tuple[Proposition, ...]


def base_label(label: str) -> str:
    """Return the role without R-, C- and -DSP: ARG1 for "C-ARG1-DSP"."""
    while label.startswith((REFERENCE, CONTINUATION)):
        label = label[2:]
    return label.removesuffix(SPLIT)


def read_props(source: str | os.PathLike[str] | Iterable[str]) -> Iterator[Sentence]:
    """Yield sentences with their propositions.

    source: the name of a UTF-8 file (gzipped if it ends in .gz), an open text file, or lines.

    There is a token on each line and an empty line after each sentence. The columns are the
    document, the number of the sentence, the number of the token, word, tag, parse bit, lemma or
    "-", roleset or "-", and a column for each predicate. Predicates are the tokens with a roleset,
    or those with a lemma if only their number matches the columns. Raises StructlearnError with
    file and line for other formats, and the errors of `text_lines`.
    """
    return _sentences(*named_lines(source))


def _sentences(lines: Iterable[str], path: str) -> Iterator[Sentence]:
    rows = enumerate(map(str.split, lines), 1)
    for has_token, group in groupby(rows, key=lambda row: bool(row[1])):
        if has_token:
            numbers, tokens = zip(*group, strict=True)
            yield _sentence(tokens, path, numbers[0])


def _sentence(rows: Sequence[list[str]], path: str, line: int) -> Sentence:
    """line: the number of the first row in the file."""
    width = len(rows[0])
    for place, row in enumerate(rows):
        if len(row) != width or width < 8:
            wanted = "8 or more" if width < 8 else f"{width}, as in the first line of the sentence"
            _fail(path, line + place, f"{len(row)} columns, expected are {wanted}")
    documents, numbers, _, words, tags, bits, lemmas, rolesets, *columns = zip(*rows, strict=True)
    if not numbers[0].isdecimal() or len(numbers[0]) > MOST_DIGITS:
        _fail(path, line, f"{numbers[0]!r} is no number of a sentence")
    predicates = [token for token, roleset in enumerate(rolesets) if roleset != "-"]
    if len(predicates) != len(columns):
        predicates = [token for token, text in enumerate(lemmas) if text != "-"]
    if len(predicates) != len(columns):
        _fail(
            path, line, f"the sentence has {len(columns)} columns for {len(predicates)} predicates"
        )
    words = tuple(unescape(word) for word in words)
    tags = tuple(intern(tag) for tag in tags)
    tree = _tree(words, tags, bits, path, line)
    propositions = tuple(
        Proposition(
            token,
            lemmas[token],
            None if rolesets[token] == "-" else rolesets[token],
            _arguments(column, path, line),
        )
        for token, column in zip(predicates, columns, strict=True)
    )
    return Sentence(intern(documents[0]), int(numbers[0]), words, tags, tree, propositions)


def _fail(path: str, line: int, problem: str) -> None:
    raise StructlearnError("SL130", path=path, line=line, problem=problem)


def _bit(bit: str, path: str, line: int) -> tuple[list[str], int]:
    """Return the labels that open at a token and the number of brackets that close after it."""
    opening, star, closing = bit.partition("*")
    first, *labels = opening.split("(")
    if not star or first or "" in labels or ")" in opening or closing.strip(")"):
        _fail(path, line, f"{bit!r} is neither a parse bit nor an argument, such as '(NP*)'")
    return labels, len(closing)


def _tree(
    words: Sequence[str], tags: Sequence[str], bits: Sequence[str], path: str, line: int
) -> Tree:
    root: list[Tree] = []
    stack: list[tuple[str, list[Tree]]] = [("", root)]
    for token, (word, tag, bit) in enumerate(zip(words, tags, bits, strict=True)):
        opened, closed = _bit(bit, path, line + token)
        stack.extend((intern(label), []) for label in opened)
        if len(stack) > MOST_OPEN:
            _fail(path, line + token, f"more than {MOST_OPEN} brackets are open")
        stack[-1][1].append(Tree(tag, (), word))
        if closed >= len(stack):
            _fail(path, line + token, f"the parse bit {bit!r} closes more brackets than are open")
        for _ in range(closed):
            label, children = stack.pop()
            stack[-1][1].append(Tree(label, children))
        if len(root) > 1:
            _fail(path, line + token, "a second tree begins, or a word stands outside of the tree")
    if len(stack) > 1:
        _fail(path, line + len(words) - 1, "the sentence ends inside its tree")
    return root[0]


def parse_bits(tree: Tree) -> list[str]:
    """Return the parse bit of each word: the brackets that open before it, *, and those that close
    behind it.
    """
    spans = tree.spans()
    bits = ["*"] * len(tree.words())
    for label, start, _ in reversed(spans):
        bits[start] = f"({label}{bits[start]}"
    for _, _, end in spans:
        bits[end - 1] += ")"
    return bits


def _arguments(column: Sequence[str], path: str, line: int) -> tuple[Argument, ...]:
    arguments: list[Argument] = []
    label, start = "", 0
    for token, cell in enumerate(column):
        if cell == "*":
            continue
        opened, closed = _bit(cell, path, line + token)
        if len(opened) > (not label) or closed > 1 or (closed and not label and not opened):
            _fail(path, line + token, f"{cell!r} does not fit: arguments follow one another")
        if opened:
            label, start = intern(opened[0]), token
        if closed:
            arguments.append(Argument(label, start, token + 1))
            label = ""
    if label:
        _fail(path, line + len(column) - 1, f"the sentence ends inside the argument {label}")
    return tuple(arguments)


# --- the labels of the rules ----------------------------------------------------------------------
@dataclass(frozen=True)
class RoleLabels:
    """The labels and words of candidates and features, by default those of English in the Penn
    Treebank.

    verbs: tags of verbs.
    verb: the tag of all verbs in a path.
    participles: tags of verbs that can be passive.
    verb_phrases, noun_phrases, preposition_phrases, adverb_phrases, clauses: labels of phrases.
    subordinate: labels of phrases whose last phrase carries the content.
    governing: labels of possible governors of a phrase.
    conjunctions, particles: tags and labels of conjunctions and verb particles.
    relative: tags and labels of relative and interrogative phrases.
    be, have, get: forms of these verbs in lower case.
    core: roles that a predicate has only once, possibly in several pieces.
    propbank: whether verbs may have rolesets of PropBank that they did not have in training.
    """

    verbs: frozenset[str] = VERBS
    verb: str = "VB"
    participles: frozenset[str] = labels_of("VBN")
    verb_phrases: frozenset[str] = labels_of("VP")
    noun_phrases: frozenset[str] = labels_of("NP")
    preposition_phrases: frozenset[str] = labels_of("PP")
    adverb_phrases: frozenset[str] = labels_of("ADVP")
    clauses: frozenset[str] = labels_of("S SQ SINV")
    subordinate: frozenset[str] = labels_of("PP WHPP SBAR SBARQ")
    governing: frozenset[str] = labels_of("S SQ SINV SBAR SBARQ VP")
    conjunctions: frozenset[str] = labels_of("CC CONJP")
    particles: frozenset[str] = labels_of("RP PRT")
    relative: frozenset[str] = labels_of("WHNP WHPP WHADVP WHADJP WDT WP WP$ WRB")
    be: frozenset[str] = labels_of("be am is are was were been being 's 're 'm ’s ’re ’m ai")
    have: frozenset[str] = labels_of("have has had having 've 'd ’ve ’d")
    get: frozenset[str] = labels_of("get gets got getting gotten")
    core: frozenset[str] = CORE
    propbank: bool = True


ENGLISH = RoleLabels()


def english_role_labels() -> RoleLabels:
    """Return the labels of English in the Penn Treebank. This is a registered function."""
    return ENGLISH


# Not an arbitrary iterable, so that a string is refused in a config.
LabelList: TypeAlias = list[str] | tuple[str, ...]


def role_labels(
    verbs: LabelList = (),
    verb: str = "V",
    participles: LabelList = (),
    verb_phrases: LabelList = (),
    noun_phrases: LabelList = (),
    preposition_phrases: LabelList = (),
    adverb_phrases: LabelList = (),
    clauses: LabelList = (),
    subordinate: LabelList = (),
    governing: LabelList = (),
    conjunctions: LabelList = (),
    particles: LabelList = (),
    relative: LabelList = (),
    be: LabelList = (),
    have: LabelList = (),
    get: LabelList = (),
    core: LabelList = (),
    propbank: bool = False,
) -> RoleLabels:
    """Return the labels of another treebank; see `RoleLabels`. This is a registered function.

    Labels that are not given are empty, so that the features based on them are constant.
    """
    labels: dict[str, Any] = dict(locals())
    labels = {
        name: frozenset(value) if isinstance(value, list | tuple) else value
        for name, value in labels.items()
    }
    return RoleLabels(**labels)
