"""`structlearn apply`: from disk to disk, for as many texts as there are.

The input is cut into parts, each of which becomes a file of the output folder. A part is written
beside its place and renamed, so what is there is complete, and a run that was interrupted goes on
where it was. Which shard does a part follows from the names of the files alone, so shards need not
know of each other, and any scheduler can run them.
"""

from __future__ import annotations

import gzip
import multiprocessing
import re
import signal
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from enum import Enum
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NamedTuple, TypeAlias

import typer

from ..errors import StructlearnError
from ._corpora import Reader, files_of, gold_docs
from ._files import STANDARD, not_blank, write_text, written
from ._pipelines import HELP, load

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

SETTINGS = "structlearn-apply.json"  # in the output folder: how its parts are made


class Input(str, Enum):
    """What is in the files."""

    text = "text"
    jsonl = "jsonl"
    docbin = "docbin"


class Unit(str, Enum):
    """What of a text file is one text."""

    line = "line"
    file = "file"


class Output(str, Enum):
    """What is written."""

    docbin = "docbin"
    jsonl = "jsonl"


INPUTS = {".txt": Input.text, ".text": Input.text, ".jsonl": Input.jsonl, ".spacy": Input.docbin}
OUTPUTS = {".spacy": Output.docbin, ".jsonl": Output.jsonl}
ENDINGS = {output: ending for ending, output in OUTPUTS.items()}


class Text(NamedTuple):
    """A text, or a Doc with its own tokens, and the other keys of its line of JSONL."""

    content: str | Doc
    extra: dict[str, Any]


class Chunk(NamedTuple):
    """Some texts of the file `target`.

    texts: None for each of the Docs of `docs`, a DocBin. extras: what goes into JSONL beside each,
    and into the user data of a Doc.
    """

    target: str
    texts: list[str | None]
    docs: bytes
    extras: list[dict[str, Any]]
    is_last: bool


Part: TypeAlias = "tuple[str, Iterable[Text]]"  # the file to write, and what goes into it
Shard: TypeAlias = "tuple[int, int]"  # the number of this one, from 0, and of all


def apply_cli(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=HELP)],
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help='Text, JSONL with the key "text", or DocBins: a file, a folder of them, or -.',
        ),
    ],
    output: Annotated[
        str,
        typer.Argument(
            metavar="OUTPUT", help="A file .spacy or .jsonl, - for JSONL on stdout, or a folder."
        ),
    ],
    input_format: Annotated[
        Input | None,
        typer.Option(help="What the input is. Default: as its names end; text for others."),
    ] = None,
    unit: Annotated[Unit, typer.Option(help="What of a text file is one text.")] = Unit.line,
    format: Annotated[
        Output, typer.Option(help="What is written to a folder: DocBins or JSONL.")
    ] = Output.docbin,
    shard: Annotated[
        str, typer.Option(metavar="I/N", help="Do only the I-th of N shares, to a folder.")
    ] = "1/1",
    n_process: Annotated[int, typer.Option(help="So many processes.", min=1)] = 1,
    batch_size: Annotated[int, typer.Option(help="So many texts at once.", min=1)] = 256,
    part_size: Annotated[
        int, typer.Option(help="At most so many texts in one file of a folder.", min=1)
    ] = 10_000,
    force: Annotated[
        bool, typer.Option("--force", help="Write again what is there already.")
    ] = False,
) -> None:
    """Apply a pipeline to files, from disk to disk.

    To a folder, texts.jsonl is written as texts.jsonl.0000.spacy, texts.jsonl.0001.spacy and so on.
    What is there already is skipped: an interrupted run goes on, and N runs with --shard 1/N to N/N
    share the work, on one machine or on many.

    In JSONL every text is a line as `parse --format jsonl` prints it, with the other keys of its
    line of the input; in DocBins these are in doc.user_data. Blank lines of text are left out;
    files .gz are read too.

    From DocBin to DocBin everything is kept, user data and Doc._ values too, but for what the
    pipeline itself sets. JSONL has the text and what the pipeline found.
    """
    chosen = _shard(shard)
    paths = _inputs(source, output, input_format)
    single = output == STANDARD or Path(output).suffix in OUTPUTS
    if single:
        if chosen != (0, 1):
            raise typer.BadParameter("--shard needs a folder as OUTPUT")
        format = OUTPUTS.get(Path(output).suffix, Output.jsonl)
    elif Path(output).suffix and Path(source).is_file() and not Path(output).is_dir():
        raise typer.BadParameter(f"OUTPUT must end in .spacy or .jsonl, or be a folder: {output}")
    nlp = load(model)
    named = ((path, read(nlp, path, input_format, unit)) for path in paths)
    if single:
        parts: Iterable[Part] = [(output, chain.from_iterable(texts for _, texts in named))]
    else:
        settings = {"format": format.value, "unit": unit.value, "part_size": part_size}
        _check_settings(Path(output), {"model": _name(nlp), **settings}, force=force)
        parts = _cut(named, Path(source), Path(output), format, part_size, chosen)
    done = write_parts(
        nlp, parts, format, model=model, n_process=n_process, batch_size=batch_size, force=force
    )
    if output != STANDARD:
        there = f", {_counted(done['skipped'], 'file')} there already" if done["skipped"] else ""
        files = _counted(done["written"], "file")
        print(
            f"{output}: {_counted(done['texts'], 'text')}, {files} written{there}", file=sys.stderr
        )


def read(nlp: Language, path: str, kind: Input | None, unit: Unit) -> Iterator[Text]:
    """The texts of a file, or of standard input.

    kind: None: as the name ends. RAISES: SL010 if there is no such file, SL013, SL064 or SL070 if
    it is not what it should be, SL065 for a text that is too long for the pipeline.
    """
    from spacy.vocab import Vocab

    kind = kind or _kind(path) or Input.text
    if path != STANDARD and not Path(path).is_file():
        raise StructlearnError("SL010", path=path)
    if kind is Input.docbin:
        # A vocab of its own: what is read here is parsed in others.
        yield from (Text(doc, {}) for _, doc in gold_docs(Vocab(), path, Reader.docbin))
        return
    if kind is Input.jsonl:
        texts = _json_lines(path)
    else:
        lines = _lines(path) if unit is Unit.line else ["".join(_lines(path))]
        texts = (Text(line, {}) for line in not_blank(lines))
    for number, text in enumerate(texts, 1):
        length, most = len(text.content), nlp.max_length
        if length > most:
            raise StructlearnError("SL065", path=path, number=number, length=length, most=most)
        yield text


def write_parts(
    nlp: Language,
    parts: Iterable[Part],
    format: Output,
    *,
    model: str | None = None,
    n_process: int = 1,
    batch_size: int = 256,
    force: bool = False,
) -> Counter[str]:
    """Parse each part, and write it once it is complete; those that are there only with `force`.

    model: what processes beside this one load. RETURNS: the numbers of `texts`, and of files
    `written` and `skipped`. RAISES: SL072 if a process ends before its time.
    """
    from tqdm import tqdm

    done: Counter[str] = Counter()
    chunks = _chunks(parts, batch_size, done, force=force)
    if n_process == 1:
        parsed = ((chunk, parse_chunk(nlp, chunk, format)) for chunk in chunks)
    else:
        parsed = _by_processes(chunks, model, format, n_process)
    # None: tqdm itself is silent where standard error is no terminal.
    with tqdm(unit=" texts", disable=None) as progress:
        for first in parsed:
            target = first[0].target
            with written(target) as file:
                group = _of_one_file(first, parsed)
                for number in _write(file, group, format, at_once=target == STANDARD):
                    done["texts"] += number
                    progress.update(number)
            done["written"] += 1
    return done


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


def _chunks(
    parts: Iterable[Part], size: int, done: Counter[str], *, force: bool
) -> Iterator[Chunk]:
    """Each part in pieces; one that has no texts is an empty piece."""
    from spacy.tokens import DocBin

    for target, texts in parts:
        if target != STANDARD and Path(target).exists() and not force:
            done["skipped"] += 1
            continue
        texts = iter(texts)
        found, is_last = list(islice(texts, size)), False
        while not is_last:
            following = list(islice(texts, size))
            is_last = not following
            contents = [text.content for text in found]
            yield Chunk(
                target,
                [content if isinstance(content, str) else None for content in contents],
                DocBin(
                    store_user_data=True, docs=[doc for doc in contents if not isinstance(doc, str)]
                ).to_bytes(),
                [text.extra for text in found],
                is_last,
            )
            found = following


def _of_one_file(
    pair: tuple[Chunk, bytes], following: Iterator[tuple[Chunk, bytes]]
) -> Iterator[tuple[Chunk, bytes]]:
    """This chunk and those that follow up to the last of its file.

    What comes after is not asked for before the file is written: it may be an error.
    """
    yield pair
    while not pair[0].is_last:
        pair = next(following)
        yield pair


def _write(
    file: BinaryIO, group: Iterable[tuple[Chunk, bytes]], format: Output, *, at_once: bool
) -> Iterator[int]:
    """Write the chunks of one file. YIELDS: the number of texts of each."""
    from spacy.tokens import DocBin

    whole = DocBin(store_user_data=True)
    for chunk, data in group:
        if format is Output.docbin:
            whole.merge(DocBin(store_user_data=True).from_bytes(data))
        else:
            file.write(data)
            if at_once:
                file.flush()
        yield len(chunk.extras)
    if format is Output.docbin:
        file.write(whole.to_bytes())


# --- processes ------------------------------------------------------------------------------------
# spaCy's own n_process sends Docs from process to process, which takes longer than parsing them.


def _by_processes(
    chunks: Iterable[Chunk], model: str | None, format: Output, n_process: int
) -> Iterator[tuple[Chunk, bytes]]:
    """The chunks in order, each with what a process made of it."""
    # spawn: a forked child would inherit the threads of BLAS in an undefined state.
    pool = ProcessPoolExecutor(n_process, multiprocessing.get_context("spawn"))
    waiting: deque[tuple[Chunk, Future[bytes]]] = deque()
    try:
        for chunk in chunks:
            waiting.append((chunk, pool.submit(_parse_here, model, chunk, format)))
            # Not all at once: the input may be larger than memory.
            if len(waiting) > 2 * n_process:
                yield _result(waiting.popleft())
        while waiting:
            yield _result(waiting.popleft())
    finally:
        pool.shutdown(cancel_futures=True)


def _result(pair: tuple[Chunk, Future[bytes]]) -> tuple[Chunk, bytes]:
    try:
        return pair[0], pair[1].result()
    except BrokenProcessPool:
        raise StructlearnError("SL072", target=pair[0].target) from None


def _parse_here(model: str | None, chunk: Chunk, format: Output) -> bytes:
    return parse_chunk(_pipeline_of_process(model), chunk, format)


@cache
def _pipeline_of_process(model: str | None) -> Language:
    # Ctrl-C reaches all processes; the first one ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return load(model)


# --- what there is to do --------------------------------------------------------------------------
def _cut(
    named: Iterable[tuple[str, Iterator[Text]]],
    source: Path,
    output: Path,
    format: Output,
    size: int,
    shard: Shard,
) -> Iterator[Part]:
    """The parts of one shard."""
    for place, (path, texts) in enumerate(named):
        name = "stdin" if path == STANDARD else Path(path).name
        if source.is_dir():
            name = Path(path).relative_to(source).as_posix()
        number = 0
        while found := list(islice(texts, size)):
            # Large files and many small ones are both shared out evenly.
            if (place + number) % shard[1] == shard[0]:
                yield str(output / f"{name}.{number:04d}{ENDINGS[format]}"), found
            number += 1


def _inputs(source: str, output: str, kind: Input | None) -> list[str]:
    """The files to read: of a folder those with a known ending, or all if their kind is named.

    RAISES: SL069 if there are none.
    """
    folder = Path(source)
    if source == STANDARD or not folder.is_dir():
        return [source]
    inside = Path(output).resolve()
    # What is written into the folder itself is no input of the next run.
    paths = [path for path in files_of(folder) if inside not in path.resolve().parents]
    chosen = [str(path) for path in paths if kind or _kind(path)]
    if not chosen:
        raise StructlearnError("SL069", folder=folder)
    if len(chosen) < len(paths):
        print(
            f"structlearn: not read of {source}: {_counted(len(paths) - len(chosen), 'file')} with "
            f"names that do not end in {', '.join(INPUTS)}; --input-format reads all files",
            file=sys.stderr,
        )
    return chosen


def _kind(path: str | Path) -> Input | None:
    """What is in a file with this name."""
    path = Path(path)
    return INPUTS.get((path.with_suffix("") if path.suffix == ".gz" else path).suffix)


def _lines(path: str) -> Iterator[str]:
    """The lines of a text file, plain or .gz. RAISES: SL070 if it is not in UTF-8."""
    try:
        if path == STANDARD:
            yield from sys.stdin
            return
        opener = gzip.open if path.endswith(".gz") else open
        # utf-8-sig: with or without the mark that some editors put at the beginning.
        with opener(path, "rt", encoding="utf-8-sig") as lines:
            yield from lines
    except UnicodeDecodeError as error:
        raise StructlearnError("SL070", path=path, problem=error) from None


def _json_lines(path: str) -> Iterator[Text]:
    import srsly

    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        try:
            found = srsly.json_loads(line)
        except ValueError as error:
            raise StructlearnError("SL064", path=path, line=number, problem=error) from None
        if not isinstance(found, dict) or not isinstance(found.get("text"), str):
            raise StructlearnError("SL064", path=path, line=number, problem="no text in it")
        yield Text(found.pop("text"), found)


def _shard(text: str) -> Shard:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    number, of = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= of:
        raise typer.BadParameter(f"--shard is I/N, with I from 1 to N, not {text!r}")
    return number - 1, of


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _name(nlp: Language) -> str:
    return "{lang}_{name} {version}".format(**nlp.meta)


def _check_settings(output: Path, settings: dict[str, Any], *, force: bool) -> None:
    """Keep how the parts of a folder are made. RAISES: SL068 if those there were made otherwise.

    force: they are written again, so the model may be another one; but not what their names depend
    on, or old ones would be left among the new.
    """
    import srsly

    path = output / SETTINGS
    if path.is_file():
        before = srsly.read_json(path)
        for setting, value in settings.items():
            found = before.get(setting)
            if found != value and not (force and setting == "model"):
                raise StructlearnError(
                    "SL068", path=output, setting=setting, found=found, value=value
                )
    write_text(path, srsly.json_dumps(settings, indent=2) + "\n")
