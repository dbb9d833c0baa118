"""Accepted sentences in files, and back: DocBin, brackets, columns of PropBank, JSON of Prodigy."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from spacy.language import Language
from spacy.tokens import DocBin
from spacy.vocab import Vocab

from ...groups import CONSTITUENT_CONSTRAINTS, CONSTITUENTS
from ...writing import write_bytes
from ..extensions import trees
from ..readers import load_docbin, read_prodigy, read_treebank
from ..readers.columns import column_lines
from ..readers.prodigy import to_prodigy
from .gold import Gold, doc_of, golds_of

FILES = ("accepted.spacy", "accepted.trees", "accepted.spaces", "accepted.conll", "accepted.jsonl")


def write(folder: Path, documents: Iterable[Sequence[Gold]], vocab: Vocab) -> None:
    """Write FILES. documents: the sentences of each that follow one another.

    Raises StructlearnError if arguments of a frame overlap, because columns cannot have them.
    """
    documents = list(documents)
    docs = [doc_of(vocab, own) for own in documents]
    golds = [gold for own in documents for gold in own]
    texts = (
        (str(tree) for doc in docs for tree in trees(doc)),
        ("".join("01"[space] for space in gold.spaces) for gold in golds),
        (line for number, doc in enumerate(docs) for line in column_lines(doc, number)),
        (json.dumps(to_prodigy(gold)) for gold in golds),
    )
    made = [DocBin(docs=docs).to_bytes()]
    made += ["".join(f"{line}\n" for line in own).encode() for own in texts]
    for name, data in zip(FILES, made, strict=True):
        write_bytes(folder / name, data)


def read(nlp: Language, path: Path) -> Iterator[tuple[list[Gold], bool]]:
    """Iterate over the documents of a file, and whether they have trees.

    If they do not, their brackets are those that must be in a tree. The format is known by the
    ending: .spacy, .jsonl, .conll, and brackets for all others. White space of the latter two is
    read from the file with the ending .spaces next to them, if it exists.
    Raises StructlearnError for a file that is not in its format.
    """
    if path.suffix == ".jsonl":
        docs = read_prodigy(nlp, path)
    elif path.suffix == ".spacy":
        docs = load_docbin(path).get_docs(nlp.vocab)
    else:
        beside = path.with_suffix(".spaces")
        spaces = beside if beside.exists() else None
        props = path if path.suffix == ".conll" else None
        docs = (doc for _, doc in read_treebank(nlp.vocab, path, spaces=spaces, props=props))
    for doc in docs:
        has_trees = CONSTITUENTS in doc.spans
        yield [*golds_of(doc, CONSTITUENTS if has_trees else CONSTITUENT_CONSTRAINTS)], has_trees
