"""The parts of the output of `apply`: divided into chunks, parsed by chunk, written as a whole.

spaCy's n_process sends Docs between processes, which takes longer than parsing them. Here, texts
are sent in chunks, and bytes come back.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ...errors import StructlearnError
from .files import written
from .json_lines import dumps, parsed, with_predictions
from .pipelines import load
from .terminal import guard_errors, warn
from .texts import Job, Output, Part, Text

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.vocab import Vocab


WORDS = 1_000_000  # pipelines with a larger vocab are loaded again; see ChunkParser


class Chunk(NamedTuple):
    """Some texts of an output file."""

    target: str
    texts: list[str | None]  # None for the next Doc of `docs`
    docs: bytes  # a DocBin
    lines: list[str]  # lines of JSON, whose other keys are kept
    is_last: bool  # in the file
    first: int = 1  # number of the first text in the file

    def place(self) -> str:
        """Describe the texts by their numbers and the first words."""
        if not self.texts:
            return f"no texts, of {self.target}"
        last = self.first + len(self.texts) - 1
        which = f"text {last:,}" if last == self.first else f"texts {self.first:,} to {last:,}"
        content = next(self.contents())
        words = (content if isinstance(content, str) else content.text).split()
        return f"{which} of {self.target} ({' '.join(words[:5])[:60]!r} ...)"

    def contents(self, vocab: Vocab | None = None) -> Iterator[str | Doc]:
        """Yield the texts and Docs in order. vocab: None: a new one."""
        from spacy.tokens import DocBin
        from spacy.vocab import Vocab

        docs = DocBin().from_bytes(self.docs).get_docs(Vocab() if vocab is None else vocab)
        return (next(docs) if text is None else text for text in self.texts)


def chunks(target: str, texts: Iterable[Text], size: int) -> Iterator[Chunk]:
    """Divide the texts of a file into chunks; without texts, yield one empty chunk."""
    from spacy.tokens import DocBin

    texts = iter(texts)
    batch, is_last, first = list(islice(texts, size)), False, 1
    while not is_last:
        following = list(islice(texts, size))
        is_last = not following
        contents = [text.content for text in batch]
        docs = [content for content in contents if not isinstance(content, str)]
        yield Chunk(
            target,
            [content if isinstance(content, str) else None for content in contents],
            DocBin(store_user_data=True, docs=docs).to_bytes(),
            [text.line for text in batch],
            is_last,
            first,
        )
        first += len(batch)
        batch = following


class Rows(NamedTuple):
    """The format of `table`: rows as lines of JSON. whole: with all parts, not only their texts."""

    nouns: bool
    whole: bool


class ChunkParser:
    """A pipeline that parses any number of chunks in bounded memory. nlp: If it is loaded already.

    The words of texts are freed, but the hash table of the vocab keeps their slots: 16 to 50 bytes
    for each, gigabytes over millions of texts. So the pipeline is loaded again after WORDS words.
    """

    def __init__(self, model: str | None, nlp: Language | None = None):
        self.model = model
        self.nlp = nlp or load(model)

    def parse_all(
        self, chunks: Iterable[Chunk], format: Output | Rows
    ) -> Generator[tuple[Chunk, bytes], None, None]:
        """Yield chunks in order with their results."""
        for chunk in chunks:
            yield chunk, self.parse(chunk, format)

    def parse(self, chunk: Chunk, format: Output | Rows) -> bytes:
        """Return lines of JSON or CoNLL-U, or the bytes of a DocBin."""
        from spacy.tokens import DocBin

        from ...pipeline.extensions import align
        from ...pipeline.extensions.as_data import LAYERS, as_dict
        from ...pipeline.universal.conllu import conllu_lines

        # This count includes freed words.
        if len(self.nlp.vocab) > WORDS:
            del self.nlp
            gc.collect()
            self.nlp = load(self.model)
        # The words of these texts are freed, so memory does not grow in a long run.
        with self.nlp.memory_zone():
            docs = self.nlp.pipe(chunk.contents(self.nlp.vocab))
            pairs = zip(docs, chunk.lines, strict=True)
            if format is Output.docbin:
                found = DocBin(store_user_data=True)
                for doc, line in pairs:
                    own = parsed(line) if line else {}
                    doc.user_data.update((key, own[key]) for key in own if key != "text")
                    align(doc)
                    _drop_what_cannot_be_stored(doc)
                    found.add(doc)
                return found.to_bytes()
            if isinstance(format, Rows):
                return "".join(
                    f"{line}\n"
                    for number, (doc, own) in enumerate(pairs, chunk.first)
                    for line in _rows(doc, {"file": chunk.target, "text": number}, own, format)
                ).encode()
            if format is Output.conllu:
                numbered = enumerate(docs, chunk.first)
                found_lines = (conllu_lines(doc, str(number)) for number, doc in numbered)
                return "".join(f"{line}\n" for line in chain.from_iterable(found_lines)).encode()
            lines = [f"{with_predictions(line, as_dict(doc), LAYERS)}\n" for doc, line in pairs]
        return "".join(lines).encode("utf8")


def _rows(doc: Doc, place: dict[str, Any], line: str, format: Rows) -> Iterator[str]:
    """Yield the propositions of a Doc as lines of JSON. line: that of the text."""
    from ...pipeline.extensions import propositions

    own = {key: value for key, value in (parsed(line) if line else {}).items() if key != "text"}
    for found in propositions(doc, nouns=format.nouns):
        data = found.as_dict()
        if format.whole:
            yield dumps(own | place | data | {"did": found.did})
        else:
            kept = {key: data[key] for key in ("start", "end", "prob")}
            yield dumps(place | kept | found.as_row())


Parse: TypeAlias = Callable[
    [Iterable[Chunk], Output | Rows], Generator[tuple[Chunk, bytes], None, None]
]
"""A function that yields chunks in order with their results."""


def parse_in_processes(
    chunks: Iterable[Chunk], format: Output | Rows, *, model: str | None, number: int
) -> Generator[tuple[Chunk, bytes], None, None]:
    """Parse chunks in several processes, and yield them in order with their results.

    number: of processes, each of which loads the pipeline. They end with this one.
    Raises SL072 if a process dies, and errors of parsing.
    """
    # A forked process would inherit threads of BLAS in an undefined state.
    context = multiprocessing.get_context("spawn")
    if os.name == "posix":
        from multiprocessing import resource_tracker

        # A later start would unblock the signals below.
        resource_tracker.ensure_running()
    waiting: deque[tuple[Chunk, Future[bytes]]] = deque()

    def finished() -> tuple[Chunk, bytes]:
        chunk, result = waiting[0]
        try:
            return chunk, result.result()
        except BrokenProcessPool:
            raise StructlearnError("SL072", place=chunk.place()) from None
        finally:
            waiting.popleft()

    pool = ProcessPoolExecutor(number, context, initializer=_begin)
    try:
        for chunk in chunks:
            with _blocked_signals(), suppress(BrokenProcessPool):  # the first result tells
                waiting.append((chunk, pool.submit(_parse, model, chunk, format)))
            # The input may be larger than memory.
            if len(waiting) > 2 * number:
                yield finished()
        while waiting:
            yield finished()
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _blocked_signals() -> Iterator[None]:
    """Block signals for a moment, and for good in the processes that are started meanwhile.

    Ctrl-C and some supervisors send signals to all processes; the others end with the first one.
    """
    if os.name != "posix":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Prepare a process of the pool."""
    guard_errors()
    # Where signals cannot be blocked.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@cache
def _parser(model: str | None) -> ChunkParser:
    return ChunkParser(model)


def _parse(model: str | None, chunk: Chunk, format: Output | Rows) -> bytes:
    """Parse a chunk in a process of the pool."""
    try:
        return _parser(model).parse(chunk, format)
    except MemoryError:
        os._exit(1)  # as if the system had killed it
    except Exception as error:
        raise portable(error) from error


def portable(error: Exception) -> Exception:
    """Return a copy of an error for another process: a RuntimeError if it cannot be pickled."""
    try:
        return pickle.loads(pickle.dumps(error))
    except Exception:  # the class may raise anything
        return RuntimeError(f"{type(error).__name__}: {error}")


def write_parts(parts: Iterable[Part], job: Job, parse: Parse) -> Counter[str]:
    """Parse each part, and write it when it is complete. Skip existing parts unless it is forced.

    Returns the numbers of `texts`, and of files `written` and `skipped`.
    Raises StructlearnError if a process dies.
    """
    from spacy.tokens import DocBin
    from tqdm import tqdm

    done: Counter[str] = Counter()

    def wanted() -> Iterator[Chunk]:
        for target, texts in parts:
            if Path(target).exists() and not job.force:
                done["skipped"] += 1
            else:
                yield from chunks(target, texts, job.batch_size)

    whole = partial(DocBin, store_user_data=True)
    # None: no progress bar if standard error is not a terminal.
    progress = tqdm(unit=" texts", disable=None)
    with closing(parse(wanted(), job.format)) as results, progress:
        for first in results:
            found = whole()
            with written(first[0].target, lock=False) as file:
                for chunk, data in chain([first], results):
                    if job.format is Output.docbin:
                        found.merge(whole().from_bytes(data))
                    else:
                        file.write(data)
                        file.flush()
                    done["texts"] += len(chunk.texts)
                    progress.update(len(chunk.texts))
                    # No more results are requested before the file is written: that may fail.
                    if chunk.is_last:
                        break
                if job.format is Output.docbin:
                    file.write(found.to_bytes())
            done["written"] += 1
    return done


def _drop_what_cannot_be_stored(doc: Doc) -> None:
    """Remove user data that cannot be stored, such as objects set by other components."""
    import srsly

    for key, value in list(doc.user_data.items()):
        try:
            srsly.msgpack_dumps([key, value])
        except (TypeError, ValueError, OverflowError):
            # Values of extensions are stored as ("._.", name, start, end).
            is_extension = isinstance(key, tuple) and len(key) == 4 and key[0] == "._."
            name = f"._.{key[1]}" if is_extension else f"user_data[{key!r}]"
            warn(f"not stored, because it is no plain data: {name}")
            del doc.user_data[key]
