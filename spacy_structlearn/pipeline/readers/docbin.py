"""Reader of .spacy files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spacy.language import Language
from spacy.tokens import DocBin
from spacy.training import Example

from ...errors import StructlearnError
from ...reading import check_zlib, read_bytes
from .examples import Reader, check_tags, existing, to_example


def create_docbin_reader(
    path: Path | None, tags: bool = True, spans: list[str] | None = None
) -> Reader:
    """Read Docs with span groups from a .spacy file, whole and with their own tokens.

    tags, spans: see `create_treebank_reader`.
    Raises StructlearnError for a missing file, for a file that is not a DocBin, and for `tags` if
    the pipeline has a tagger.
    """

    def read(nlp: Language) -> Iterator[Example]:
        check_tags(nlp, tags)
        docs = load_docbin(path).get_docs(nlp.vocab)
        while True:
            with _of_docbin(path):  # a Doc may have strings or spans that do not exist
                if (doc := next(docs, None)) is None:
                    return
                example = to_example(doc, tags=tags, spans=spans or ())
            yield example

    return read


def load_docbin(path: Path | None) -> DocBin:
    """Read a .spacy file. Raises StructlearnError if it is missing or not a DocBin."""
    file = existing(path)
    data = read_bytes(file)
    check_zlib(data, file)
    with _of_docbin(path):
        docbin = DocBin().from_bytes(data)
        # get_docs() silently loses Docs if one of these is too short.
        for part in (docbin.spaces, docbin.cats, docbin.flags, docbin.span_groups):
            if len(part) != len(docbin.tokens):
                raise ValueError("its parts are of different numbers of Docs")
    return docbin


@contextmanager
def _of_docbin(path: Path | None) -> Iterator[None]:
    """Convert errors in reading a DocBin."""
    try:
        yield
    except Exception as error:  # of zlib, msgpack, NumPy or spaCy
        problem = " ".join(str(error).split()) or type(error).__name__
        if "E1014" in problem:  # which speaks of an old format of spaCy
            problem = "it is not compressed as a DocBin is"
        raise StructlearnError("SL013", path=path, problem=problem) from error
