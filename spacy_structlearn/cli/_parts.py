"""Parts of the output of `apply`: cut into chunks, parsed a chunk at a time, written whole."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cache
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from ._pipelines import load
from ._texts import Text

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc


class Output(str, Enum):
    """What is written."""

    docbin = "docbin"
    jsonl = "jsonl"


OUTPUTS = {".spacy": Output.docbin, ".jsonl": Output.jsonl}
ENDINGS = {output: ending for ending, output in OUTPUTS.items()}


WORDS = 1_000_000  # a larger vocab is made anew: see ChunkParser


class Chunk(NamedTuple):
    """Some texts of the file `target`.

    texts: None for each of the Docs of `docs`, a DocBin. extras: what goes into JSONL beside each,
    and into the user data of a Doc. first: the number of the first of them in the file, from 1.
    """

    target: str
    texts: list[str | None]
    docs: bytes
    extras: list[dict[str, Any]]
    is_last: bool
    first: int = 1

    def place(self) -> str:
        """Which texts these are, by their numbers and the words that the first begins with."""
        if not self.texts:
            return f"no texts, of {self.target}"
        last = self.first + len(self.texts) - 1
        which = f"text {last:,}" if last == self.first else f"texts {self.first:,} to {last:,}"
        content = next(self.contents())
        words = (content if isinstance(content, str) else content.text).split()
        return f"{which} of {self.target} ({' '.join(words[:5])[:60]!r} ...)"

    def contents(self) -> Iterator[str | Doc]:
        """The texts and Docs, in order."""
        from spacy.tokens import DocBin
        from spacy.vocab import Vocab

        docs = DocBin().from_bytes(self.docs).get_docs(Vocab())
        return (next(docs) if text is None else text for text in self.texts)

    def singles(self) -> list[Chunk]:
        """The same, each text by itself."""
        texts = map(Text, self.contents(), self.extras)
        return [_chunk(self.target, [text], True, n) for n, text in enumerate(texts, self.first)]


def chunks(target: str, texts: Iterable[Text], size: int) -> Iterator[Chunk]:
    """What goes into one file, in pieces; an empty piece if there are no texts."""
    texts = iter(texts)
    found, is_last, first = list(islice(texts, size)), False, 1
    while not is_last:
        following = list(islice(texts, size))
        is_last = not following
        yield _chunk(target, found, is_last, first)
        first += len(found)
        found = following


def _chunk(target: str, texts: list[Text], is_last: bool, first: int) -> Chunk:
    from spacy.tokens import DocBin

    contents = [text.content for text in texts]
    docs = [content for content in contents if not isinstance(content, str)]
    return Chunk(
        target,
        [content if isinstance(content, str) else None for content in contents],
        DocBin(store_user_data=True, docs=docs).to_bytes(),
        [text.extra for text in texts],
        is_last,
        first,
    )


class ChunkParser:
    """A pipeline that parses chunks, for as long as one likes.

    model: what it loads: at once if there is no `nlp`, and anew whenever its vocab has had WORDS
    words. It forgets those of the texts, but the table in which it finds words keeps their places
    and doubles when they are used up: 16 to 50 bytes for each, gigabytes over millions of texts.
    """

    def __init__(self, model: str | None, nlp: Language | None = None):
        self.model = model
        self.nlp = nlp or load(model)

    def parse(self, chunk: Chunk, format: Output) -> bytes:
        """See `parse_chunk`."""
        # This counts those that are forgotten, too.
        if len(self.nlp.vocab) > WORDS:
            del self.nlp
            gc.collect()
            self.nlp = load(self.model)
        return parse_chunk(self.nlp, chunk, format)


def parse_chunk(nlp: Language, chunk: Chunk, format: Output) -> bytes:
    """What is to be written of a chunk: lines of JSON, or a DocBin."""
    import srsly
    from spacy.tokens import DocBin

    from ..pipeline.extensions import align
    from ._documents import as_json

    # The words of these texts are forgotten after them: a long run takes no more memory.
    with nlp.memory_zone():
        given = DocBin().from_bytes(chunk.docs).get_docs(nlp.vocab)
        docs = nlp.pipe(next(given) if text is None else text for text in chunk.texts)
        pairs = zip(docs, chunk.extras, strict=True)
        if format is Output.docbin:
            found = DocBin(store_user_data=True)
            for doc, extra in pairs:
                doc.user_data.update(extra)
                align(doc)
                _drop_what_cannot_be_stored(doc)
                found.add(doc)
            return found.to_bytes()
        lines = [f"{srsly.json_dumps({**extra, **as_json(doc)})}\n" for doc, extra in pairs]
    return "".join(lines).encode("utf8")


def joined(results: Iterable[bytes], format: Output) -> bytes:
    """The results of several chunks as that of one."""
    whole = BytesIO()
    for _ in write_chunks(whole, ((1, data) for data in results), format):
        pass
    return whole.getvalue()


def write_chunks(
    file: BinaryIO, results: Iterable[tuple[int, bytes]], format: Output, *, at_once: bool = False
) -> Iterator[int]:
    """Write what was made of the chunks of one file.

    results: the number of texts of each chunk, and its result. at_once: do not keep any back until
    there is more. YIELDS: the number of texts of each.
    """
    from spacy.tokens import DocBin

    whole = DocBin(store_user_data=True)
    for number, data in results:
        if format is Output.docbin:
            whole.merge(DocBin(store_user_data=True).from_bytes(data))
        else:
            file.write(data)
            if at_once:
                file.flush()
        yield number
    if format is Output.docbin:
        file.write(whole.to_bytes())


def _drop_what_cannot_be_stored(doc: Doc) -> None:
    """Keep only user data of plain values: components of others may have set objects."""
    for key, value in list(doc.user_data.items()):
        if not _is_storable(key) or not _is_storable(value):
            # Values of extensions are stored as ("._.", name, start, end).
            is_extension = isinstance(key, tuple) and len(key) == 4 and key[0] == "._."
            _warn_of(f"._.{key[1]}" if is_extension else f"user_data[{key!r}]")
            del doc.user_data[key]


def _is_storable(value: Any) -> bool:
    import srsly

    try:
        srsly.msgpack_dumps(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


@cache
def _warn_of(name: str) -> None:
    """Once for all Docs of a process."""
    print(f"structlearn: not stored, because it is no plain data: {name}", file=sys.stderr)
