"""Fuzz readers of corpora, and functions that process their output, with changed files."""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import DocBin

from spacy_structlearn.attachment.sites import sites
from spacy_structlearn.cli._texts import Unit
from spacy_structlearn.cli._texts import read as read_texts
from spacy_structlearn.display.trees import tree_latex, tree_svg, tree_text
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.evaluation.evalb import score_trees
from spacy_structlearn.pipeline.readers import (
    create_conll_chunks_reader,
    create_docbin_reader,
    create_pp_quadruples_reader,
    create_treebank_reader,
)
from spacy_structlearn.roles.propositions import read_props
from spacy_structlearn.trees.brackets import parse_tree, read_trees, write_trees
from spacy_structlearn.trees.chunks import base_noun_phrases
from spacy_structlearn.trees.normalize import normalize

from .choices import Choices
from .workloads import ROOT, SAMPLE, examples

# The scripts in corpora/ are not a package.
sys.path.insert(0, str(ROOT / "corpora"))
import _formats
from _download import FetchError

MOST_ITEMS = 50  # maximum number of items read from a file
# Strings for insertion and replacement.
PIECES = (
    b"(", b")", b"((", b"))", b" ", b"\n", b"\n\n", b"\t", b"\r", b"\x00", b"\xff", b"\xef\xbb\xbf",
    b"*", b"(A1*", b"(V*)", b"-", b"-LRB-", b"-NONE-", b"*T*-1", b"B-NP", b"I-NP", b"O", b"V", b"N",
    b"TOP", b"(S", b"(NP (DT the))", b"-DOCSTART- -X- O", b"#", b"1-2", b"0", b"9" * 5000, b"_",
    "\U0001f355".encode(), "\u2028".encode(), "\x85".encode(), b'{"text": ', b"}", b'"', b"null",
    b"(" * 400, b"(X " * 2000, b")" * 400, b"x" * 5000, b"\n" * 300,
)  # fmt: skip


class Readers:
    """A target: each input is a file of one of the formats."""

    def __init__(self) -> None:
        self.nlp = spacy.blank("en")
        # In memory, if this folder exists.
        place = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self._folder = tempfile.TemporaryDirectory(dir=place)
        self.folder = Path(self._folder.name)
        self.cases = self._cases()

    def __call__(self, data: bytes) -> None:
        choices = Choices(data)
        _, seeds, read = choices.one_of(self.cases)
        content = changed_bytes(choices.one_of(seeds), choices)
        with suppress(StructlearnError, FetchError):
            read(content)

    def _cases(self) -> list[tuple[str, list[bytes], Callable[[bytes], Any]]]:
        trees = (SAMPLE / "sample.trees").read_bytes().splitlines(keepends=True)
        props = (SAMPLE / "sample.props").read_bytes().split(b"\n\n")
        spaces = (SAMPLE / "sample.spaces").read_bytes().splitlines(keepends=True)
        few = [b"".join(trees[:2]), trees[5], b"( (S (NP-SBJ-1 (PRP I)) (VP (VBD ran))) )\n"]
        beside = {
            "trees": b"".join(trees[:3]),
            "spaces": b"".join(spaces[:3]),
            "props": b"\n\n".join(props[:3]) + b"\n\n",
        }
        conll = b"He PRP B-NP\nsaw VBD B-VP\nthe DT B-NP\n\n-DOCSTART- -X- O\nRun VB O\n"
        quadruples = b"0 ate pizza with fork V\n1 ate soup with noodles N\n"
        json_lines = b'{"text": "She left."}\n{"text": "He \\ud83c\\udf55 ate.", "a": 1}\n'
        conllu = b"# text = a\n1\ta\ta\tX\t_\t_\t0\troot\t_\t_\n1-2\tab\t_\n2\tb\tb\tX\n\n"
        return [
            ("brackets", few, self._brackets),
            ("evalb", few, self._evalb),
            ("conll", [conll], partial(self._file, create_conll_chunks_reader)),
            ("quadruples", [quadruples], partial(self._file, create_pp_quadruples_reader)),
            ("props", [beside["props"]], self._props),
            ("docbin", [self._docbin()], self._docbins),
            ("json lines", [json_lines], partial(self._texts, ".jsonl")),
            ("text", [b"She left.\n\nHe ran.\n"], partial(self._texts, ".txt")),
            *((part, [beside[part]], partial(self._treebank, beside, part)) for part in beside),
            ("skeleton", [beside["props"]], self._skeleton),
            ("gzip", [gzip.compress(few[0])], self._gzip),
            ("mrg", few, lambda data: _formats.mrg_trees(_text(data), "file")),
            ("conllu", [conllu], lambda data: _formats.conllu_sentences(_text(data), "file")),
        ]

    def _docbin(self) -> bytes:
        docs = [example.reference for example in examples(self.nlp, 3)]
        return DocBin(docs=docs, store_user_data=True).to_bytes()

    def _path(self, data: bytes, suffix: str) -> Path:
        path = self.folder / f"file{suffix}"
        path.write_bytes(data)
        return path

    def _file(self, reader: Callable, data: bytes) -> None:
        for _ in islice(reader(self._path(data, ".txt"))(self.nlp), MOST_ITEMS):
            pass

    def _docbins(self, data: bytes) -> None:
        reader = create_docbin_reader(self._path(data, ".spacy"), spans=["constituents"])
        for _ in islice(reader(self.nlp), MOST_ITEMS):
            pass

    def _texts(self, suffix: str, data: bytes) -> None:
        path = str(self._path(data, suffix))
        for _ in islice(read_texts(path, None, Unit.line, 10**6), MOST_ITEMS):
            pass

    def _treebank(self, beside: dict[str, bytes], part: str, data: bytes) -> None:
        paths = {
            name: self._path(data if name == part else other, f".{name}")
            for name, other in beside.items()
        }
        reader = create_treebank_reader(
            paths["trees"], spaces=paths["spaces"], props=paths["props"], spans=["constituents"]
        )
        for example in islice(reader(self.nlp), MOST_ITEMS):
            _use(self.nlp, example)

    def _brackets(self, data: bytes) -> None:
        for tree in islice(read_trees(_lines(data)), MOST_ITEMS):
            if parse_tree(str(tree)) != tree:
                raise AssertionError(f"another tree is read back: {str(tree)[:80]}")
            whole = normalize(tree)
            with suppress(StructlearnError):
                write_trees([tree], self.folder / "written.trees")
            if whole is not None:
                base_noun_phrases(whole)
                sites(whole)
                if len(whole.words()) < 40:
                    tree_text(whole)
                    tree_svg(whole)
                    tree_latex(whole)

    def _evalb(self, data: bytes) -> None:
        trees = [
            whole
            for tree in islice(read_trees(_lines(data)), 8)
            if (whole := normalize(tree)) is not None
        ]
        score_trees(trees, trees)
        score_trees(trees, trees[::-1])

    def _gzip(self, data: bytes) -> None:
        for _ in islice(read_trees(self._path(data, ".trees.gz")), MOST_ITEMS):
            pass

    def _props(self, data: bytes) -> None:
        for _ in islice(read_props(_lines(data)), MOST_ITEMS):
            pass

    def _skeleton(self, data: bytes) -> None:
        for rows in _formats.skeleton_sentences(_text(data), "file")[:MOST_ITEMS]:
            _formats.tree_line(rows)
            _formats.props_block(rows)


def _use(nlp: Language, example: Any) -> None:
    for sentence in example.reference.sents:
        if not sentence.text.isspace():
            sentence._.tree  # noqa: B018  (a getter)


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _lines(data: bytes) -> list[str]:
    return _text(data).splitlines(keepends=True)


def changed_bytes(data: bytes, choices: Choices) -> bytes:
    """Make up to five changes: delete, repeat, move or change bytes, or insert strings."""
    fresh = bytearray(data)
    for _ in range(choices.below(6)):
        place = choices.index(len(fresh) + 1)
        length = choices.one_of((1, 1, 2, 5, 20, 200))
        kind = choices.below(6)
        if kind == 0:
            del fresh[place : place + length]
        elif kind == 1:
            fresh[place:place] = fresh[place : place + length]
        elif kind == 2:
            fresh[place:place] = choices.one_of(PIECES)
        elif kind == 3:
            fresh[place : place + length] = choices.one_of(PIECES)
        elif kind == 4 and place < len(fresh):
            fresh[place] = choices.byte()
        else:
            other = choices.index(len(fresh) + 1)
            fresh[place:place] = fresh[other : other + length]
    return bytes(fresh)
