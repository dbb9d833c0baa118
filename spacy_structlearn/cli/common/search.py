"""Reading files of trees, texts and parsed texts, for `find` and `measure`, and search in them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import spacy
from spacy.attrs import IS_SPACE, ORTH
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.util import get_words_and_spaces
from spacy.vocab import Vocab

from ...errors import StructlearnError
from ...groups import CONSTITUENTS
from ...matching import tregex
from ...matching.patterns import compiled
from ...pipeline.extensions import set_spans
from ...pipeline.extensions.matcher import ConstituentMatcher
from ...pipeline.readers import load_docbin
from ...pipeline.readers.tokenizers import is_blank
from ...trees.brackets import read_trees
from ...trees.normalize import normalize
from .json_lines import parsed
from .pipelines import find_msgpack_hooks_once, load
from .texts import TREES, Unit, check_length, read

DOCS = 100  # how many are searched at a time
_TAG = re.compile(r"\(([^\s()]+) [^()]+\)")  # of a tree in brackets


class Hit(NamedTuple):
    """A match. number: of its Doc in the file, from 1. nodes: (name or None, label, Span)."""

    path: str
    number: int
    nodes: list[tuple[str | None, str, Span]]


class Files:
    """A reader of files with trees, and of texts.

    model: the pipeline that parses texts. It is loaded when it is needed. unit: of text files.
    """

    def __init__(self, model: str | None, unit: Unit):
        find_msgpack_hooks_once()
        self.model, self.unit = model, unit
        # Which words are white space is the same in all languages.
        self.vocab: Vocab = spacy.blank("xx").vocab
        self.vocab.lex_attr_getters[IS_SPACE] = is_blank  # type: ignore[attr-defined] # stub

    @cached_property
    def nlp(self) -> Language:
        """The pipeline."""
        return load(self.model)

    def docs(self, path: str) -> Iterator[DocBin | list[Doc]]:
        """Iterate over the Docs of a file, some at a time."""
        name = path.removesuffix(".gz")
        if name.endswith(".spacy"):
            found = load_docbin(Path(path))
            for text in found.strings:
                self.vocab.strings.add(text)
            yield found
            return
        if name.endswith(TREES):
            docs = self._of_trees(path)
        elif name.endswith(".jsonl"):
            docs = self._of_json(path)
        else:
            texts = read(path, None, self.unit, self.nlp.max_length)
            docs = self.nlp.pipe(str(text.content) for text in texts)
        while some := list(islice(docs, DOCS)):
            yield some

    def _of_trees(self, path: str) -> Iterator[Doc]:
        """Iterate over trees in brackets, each a Doc."""
        if not os.path.exists(path):
            raise StructlearnError("SL010", path=path)
        for tree in map(normalize, read_trees(path)):
            if tree is None:
                yield Doc(self.vocab)
                continue
            doc = Doc(self.vocab, words=tree.words(), tags=tree.tags())
            set_spans(doc, CONSTITUENTS, tree.spans())
            yield doc

    def _of_json(self, path: str) -> Iterator[Doc]:
        """Iterate over texts with trees, as `apply` writes them; parse the others."""
        for number, text in enumerate(read(path, None, self.unit, 2**31), 1):
            data = parsed(text.line)
            if "trees" not in data:
                check_length(text.content, path, number, self.nlp.max_length)
                yield self.nlp(text.content)
                continue
            try:
                yield self._with_trees(str(text.content), data)
            except (KeyError, TypeError, ValueError) as error:
                problem = f"{type(error).__name__}: {error}"
                raise StructlearnError("SL704", path=path, number=number, problem=problem) from None

    def _with_trees(self, text: str, data: dict[str, Any]) -> Doc:
        """Return the Doc that `as_dict` has made into plain data, with its trees."""
        tokens = [text[token["start"] : token["end"]] for token in data["tokens"]]
        words, spaces = get_words_and_spaces(tokens, text)
        doc = Doc(self.vocab, words=words, spaces=spaces)
        starts = {token.idx: token.i for token in doc}
        ends = {token.idx + len(token): token.i + 1 for token in doc}
        tags = _TAG.findall(" ".join(data["trees"]))
        for token, tag in zip(data["tokens"], tags, strict=True):
            doc[starts[token["start"]]].tag_ = tag
        begins = {starts[sentence["start"]] for sentence in data["sents"]}
        for token in doc:
            token.is_sent_start = token.i in begins
        brackets = (
            (own["label"], starts[own["start"]], ends[own["end"]]) for own in data["constituents"]
        )
        set_spans(doc, CONSTITUENTS, brackets)
        return doc


class Search(Files):
    """A search for a pattern in files. model, unit: see `Files`."""

    def __init__(self, pattern: str, model: str | None, unit: Unit):
        super().__init__(model, unit)
        self.matcher: ConstituentMatcher = ConstituentMatcher(self.vocab)
        self.names: dict[int, list[str]] = {}
        for number, dicts in enumerate(tregex.parsed(pattern)):
            key = f"alternative {number}"
            self.matcher.add(key, [dicts])
            nodes = compiled(dicts).nodes
            self.names[self.vocab.strings[key]] = [node.name for node in nodes if node.is_matched]

    def count(self, path: str) -> int:
        """Return the number of matches in a file."""
        return sum(sum(self.matcher.count(docs).values()) for docs in self.docs(path))

    def hits(self, path: str) -> Iterator[Hit]:
        """Iterate over the matches in a file."""
        first = 1
        for docs in self.docs(path):
            for number, key, nodes in self.matcher.search(docs):
                doc = self._stored(docs, number) if not isinstance(docs, list) else docs[number]
                names = (None if name.isdecimal() else name for name in self.names[key])
                yield Hit(
                    path,
                    first + number,
                    [
                        (name, label, doc[start:end])
                        for name, (label, start, end) in zip(names, nodes, strict=True)
                    ],
                )
            first += len(docs)

    @lru_cache(maxsize=1)  # noqa: B019 - there is one search in a process
    def _stored(self, docs: DocBin, number: int) -> Doc:
        """Return the text of a Doc in a DocBin."""
        tokens = docs.tokens[number][:, docs.attrs.index(ORTH)]
        words: Any = tokens  # spaCy takes hashes of strings, too
        return Doc(self.vocab, words=words, spaces=docs.spaces[number][:, 0].tolist())
