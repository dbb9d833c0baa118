"""Fuzz readers of corpora, and functions that process their output, with changed files."""

from __future__ import annotations

import configparser
import gzip
import os
import sys
import tempfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import spacy
from confection import Config
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from spacy_structlearn.attachment.sites import sites
from spacy_structlearn.cli._texts import Unit
from spacy_structlearn.cli._texts import read as read_texts
from spacy_structlearn.display.trees import tree_latex, tree_svg, tree_text
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.evaluation.evalb import score_trees
from spacy_structlearn.pipeline.extensions.matcher import ConstituentMatcher
from spacy_structlearn.pipeline.readers import (
    create_conll_chunks_reader,
    create_docbin_reader,
    create_pp_quadruples_reader,
    create_treebank_reader,
)
from spacy_structlearn.roles.propositions import read_props
from spacy_structlearn.sequence.layout.features import Templates
from spacy_structlearn.trees.brackets import parse_tree, read_trees, write_trees
from spacy_structlearn.trees.chunks import base_noun_phrases
from spacy_structlearn.trees.normalize import normalize

from .checks import ANSWERED, NotSane, refusal
from .choices import Choices, changed_bytes
from .workloads import ROOT, SAMPLE, examples

# The scripts in corpora/ are not a package.
sys.path.insert(0, str(ROOT / "corpora"))
import _formats
from _download import FetchError

TREGEX = (
    b"NP < (PP=pp < IN) $+ VP",
    b"S <1 NP|VP !<< /^VB.*/ & <: __",
    b'"NN" >> (NP [ < DT | <- PRP$ ])',
)
TEMPLATES = (b"ORTH[0] ORTH[-1]|TAG[+1] LOWER[2] bias", b"SUFFIX[0] SUFFIX2[0] FLAGS[-1] CLASS8[0]")
MOST_ITEMS = 50  # maximum number of items read from a file


FORMATS = (
    "brackets", "evalb", "conll", "quadruples", "props", "docbin", "docbin_content", "json_lines",
    "text", "trees", "spaces", "skeleton", "gzip", "gzip_content", "mrg", "conllu", "tregex",
    "config", "templates",
)  # fmt: skip


class Reader:
    """A target: each input is a file, or another text, of one format."""

    def __init__(self, name: str) -> None:
        self.nlp = spacy.blank("en")
        # In memory, if this folder exists.
        place = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self._folder = tempfile.TemporaryDirectory(dir=place)
        self.folder = Path(self._folder.name)
        self.seeds, self.read = self._cases()[name]

    def __call__(self, data: bytes) -> str:
        choices = Choices(data)
        content = changed_bytes(choices.one_of(self.seeds), choices)
        try:
            self.read(content)
        except (StructlearnError, FetchError) as error:
            return refusal(error)
        return ANSWERED

    def _cases(self) -> dict[str, tuple[Sequence[bytes], Callable[[bytes], Any]]]:
        trees = (SAMPLE / "sample.trees").read_bytes().splitlines(keepends=True)
        props = (SAMPLE / "sample.props").read_bytes().split(b"\n\n")
        spaces = (SAMPLE / "sample.spaces").read_bytes().splitlines(keepends=True)
        few = [*trees[:12], b"( (S (NP-SBJ-1 (PRP I)) (VP (VBD ran))) )\n"]
        beside = {
            "trees": b"".join(trees[:3]),
            "spaces": b"".join(spaces[:3]),
            "props": b"\n\n".join(props[:3]) + b"\n\n",
        }
        conll = b"He PRP B-NP\nsaw VBD B-VP\nthe DT B-NP\n\n-DOCSTART- -X- O\nRun VB O\n"
        quadruples = b"0 ate pizza with fork V\n1 ate soup with noodles N\n"
        json_lines = b'{"text": "She left."}\n{"text": "He \\ud83c\\udf55 ate.", "a": 1}\n'
        conllu = b"# text = a\n1\ta\ta\tX\t_\t_\t0\troot\t_\t_\n1-2\tab\t_\n2\tb\tb\tX\n\n"
        configs = [
            path.read_bytes()
            for path in sorted((ROOT / "spacy_structlearn/pipeline/configs").glob("*.cfg"))
        ]
        docbin = DocBin(docs=self.docs, store_user_data=True).to_bytes()
        treebank = partial(self._treebank, beside)
        return {
            "brackets": (few, self._brackets),
            "evalb": (few, self._evalb),
            "conll": ([conll], partial(self._file, create_conll_chunks_reader)),
            "quadruples": ([quadruples], partial(self._file, create_pp_quadruples_reader)),
            "props": ([beside["props"], *props[:12]], self._props),
            "docbin": ([docbin], self._docbins),
            "docbin_content": (
                [zlib.decompress(docbin)],
                lambda data: self._docbins(zlib.compress(data, 1)),
            ),
            "json_lines": ([json_lines], partial(self._texts, ".jsonl")),
            "text": ([b"She left.\n\nHe ran.\n"], partial(self._texts, ".txt")),
            "trees": ([beside["trees"]], partial(treebank, "trees")),
            "spaces": ([beside["spaces"]], partial(treebank, "spaces")),
            "skeleton": ([beside["props"]], self._skeleton),
            "gzip": ([gzip.compress(few[0])], self._gzip),
            "gzip_content": (few, lambda data: self._gzip(gzip.compress(data, 1))),
            "mrg": (few, lambda data: _formats.mrg_trees(_text(data), "file")),
            "conllu": ([conllu], lambda data: _formats.conllu_sentences(_text(data), "file")),
            "tregex": (TREGEX, self._tregex),
            "config": (configs, self._config),
            "templates": (TEMPLATES, self._templates),
        }

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
                raise NotSane(f"another tree is read back: {str(tree)[:80]}")
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

    def _tregex(self, data: bytes) -> None:
        matcher = ConstituentMatcher(self.nlp.vocab)
        matcher.add("pattern", _text(data))
        matcher.count(self.docs)

    @cached_property
    def docs(self) -> list[Doc]:
        return [example.reference for example in examples(self.nlp, 3)]

    def _config(self, data: bytes) -> None:
        try:
            Config().from_str(_text(data), interpolate=False)
        except (ValueError, KeyError, configparser.Error):  # of confection
            return

    def _templates(self, data: bytes) -> None:
        Templates(_text(data).split(" "))

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
