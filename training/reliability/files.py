"""Check that hostile files are refused: nothing is executed, written elsewhere, or waited for.

    python -m training.reliability.files

A case is a file, a folder or bytes that somebody might pass on, and a way of reading it. It runs in
a process of its own, with limited memory. There are

readers    compressed files that expand without end, lines without end, and trees, settings,
           patterns and models that are nested deeply or claim more than they contain
folders    pipes, devices, sockets, folders and links in place of files of a pipeline, of
           checkpoints and of outputs
swapped    files and bytes of components in place of those of others
packages   names, versions and descriptions in meta.json that look like code, paths or headers
archives   paths, links, devices, sizes and names in archives that `corpora/fetch.py` reads

With --record, figures are recorded in training/results/reliability.json: files.cases; unclear:
neither refused by one line that says what is wrong and where, nor read although harmless, or with
more than PEAK bytes of memory; outside: something was executed, or changed outside of the folder
that was meant; hangs: cases not done after LIMIT seconds. This needs fork and /proc.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import traceback
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import spacy
import srsly
from spacy.language import Language
from tqdm import tqdm

import spacy_structlearn
from spacy_structlearn import cli, serialization
from spacy_structlearn.cli._texts import Unit
from spacy_structlearn.cli._texts import read as read_texts
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.learning import training
from spacy_structlearn.pipeline import digests, fitting, readers
from spacy_structlearn.pipeline.built_in import FOLDER
from spacy_structlearn.roles.propositions import read_props
from spacy_structlearn.sequence.settings import CRFSettings
from spacy_structlearn.trees.brackets import read_trees
from training.common.recording import ROOT, clean_commit, record, show
from training.reliability.small_pipelines import write_corpus

# The scripts in corpora/ are not a package.
sys.path.insert(0, str(ROOT / "corpora"))
import fetch

LIMIT = 120.0  # seconds, on a machine that may be busy
PEAK = 1 << 30
ADDRESS_SPACE = 8 << 30
DEEP = 100_000
SMALL = ("sentence_splitter", "chain_tagger", "np_chunker")  # whose files are copied most
OUTCOMES = ("unclear", "outside", "hangs")
EXECUTED = "executed"
Place = Path
"""The folder of a case. What is meant is in its folder `inside`; the rest must not change."""


class Case(NamedTuple):
    """A case.

    make: prepares its folder, and returns the function to be tested.
    refused: what the error must contain besides its place, such as a code. None: no error.
    """

    name: str
    make: Callable[[Place], Callable[[], Any]]
    refused: str | None = ""


class Inputs:
    """What the cases are made from.

    checked: a pipeline with digests. plain: the same as `nlp.to_disk` saves it. whole: the default
    pipeline as `nlp.to_disk` saves it. nlp: the default pipeline. wheels: whether they can be
    built.
    """

    def __init__(self, work: Path):
        self.checked, self.plain, self.whole = (work / x for x in ("checked", "plain", "whole"))
        self.nlp = spacy_structlearn.load()
        self.nlp.to_disk(self.whole)
        small = spacy.load(FOLDER, exclude=[x for x in self.nlp.pipe_names if x not in SMALL])
        small.to_disk(self.plain)
        fitting.save(small, self.checked)
        other = small.get_pipe("np_chunker")
        other.parameters.transitions[:] += 1
        other.to_disk(work / "other")
        self.other = work / "other"
        self.corpus = write_corpus(work)


# --- processes ------------------------------------------------------------------------------------
class Refused(Exception):
    """The line of a command that refuses its input."""


def run(case: Case, place: Place) -> tuple[str, str]:
    """Run a case in its own process. Return "" or one of OUTCOMES, and what happened."""
    (place / "inside").mkdir(parents=True)
    (place / "outside").mkdir()
    (place / "outside" / "held").write_text("kept")
    (place / "tmp").mkdir()
    test = case.make(place)
    before = _outside(place)
    result, told = os.pipe()
    child = os.fork()
    if not child:
        _report(case, test, place, told)
    os.close(told)
    ready, _, _ = select.select([result], [], [], LIMIT)
    said = b""
    if ready:
        with os.fdopen(result, "rb") as file:
            said = file.read()
    else:
        os.close(result)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not ready:
        return "hangs", f"no result after {LIMIT} s"
    changed = [name for name, of in _outside(place).items() if before.get(name) != of]
    changed += [name for name in before if name not in _outside(place)]
    if changed:
        return "outside", f"changed: {changed}"
    if not said:
        return "unclear", f"ended with status {status}"
    text = said.decode()
    return ("", text[1:]) if text[0] == "+" else ("unclear", text[1:])


def _outside(place: Place) -> dict[str, Any]:
    """Return everything in the folder of a case that is not meant to change."""
    found: dict[str, Any] = {}
    for path in place.rglob("*"):
        name = path.relative_to(place).as_posix()
        if name.split("/")[0] not in ("inside", "tmp"):
            is_file = path.is_file() and not path.is_symlink()
            found[name] = (path.lstat().st_mode, path.read_bytes() if is_file else None)
    return found


def _report(case: Case, test: Callable[[], Any], place: Place, told: int) -> None:
    """Run a test, write "+" or "-" and what happened, and end the process."""
    try:
        begin = _resident("VmRSS")
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        os.environ["TMPDIR"] = str(place / "tmp")
        os.chdir(place / "inside")
        try:
            test()
            sound, text = case.refused is None, "no error"
        except (StructlearnError, OSError, Refused) as error:
            text = str(error)
            named = case.refused is not None and case.refused in text
            sound = named and "\n" not in text
        except BaseException:
            sound, text = False, traceback.format_exc()
        grown = _resident("VmHWM") - begin
        if grown > PEAK:
            sound, text = False, f"{grown} bytes: {text}"
        os.write(told, f"{'+-'[not sound]}{text[-2000:]}".encode(errors="replace"))
    finally:
        os._exit(0)


def _resident(name: str) -> int:
    (line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(name))
    return int(line.split()[1]) * 1024


def command(*arguments: object) -> Callable[[], None]:
    """Return a function that runs `structlearn`, and raises Refused with its one line."""

    def call() -> None:
        sys.argv = ["structlearn", *map(str, arguments)]
        _one_line(cli.main, "structlearn: ")

    return call


def _one_line(function: Callable[[], Any], begin: str) -> None:
    """Call a command, and raise Refused with its only line on standard error."""
    said = io.TextIOWrapper(io.BytesIO(), encoding="utf8")
    code: Any = 0
    with redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf8")), redirect_stderr(said):
        try:
            code = function()
        except SystemExit as ended:
            code = ended.code
    said.seek(0)
    lines = said.read().splitlines()
    if code and len(lines) == 1 and code == 1 and lines[0].startswith(begin):
        raise Refused(lines[0])
    if code:
        raise AssertionError(f"{code}: {lines}")


def consumed(items: Callable[[], Iterable[Any]]) -> Callable[[], None]:
    """Return a function that reads all items, and holds none."""

    def call() -> None:
        for _ in items():
            pass

    return call


# --- readers --------------------------------------------------------------------------------------
BLOCK, TIMES = 8 << 20, 16
RECORDS = {
    "trees": (b"(S (NP (NN dog)) (VP (VBZ barks)))\n", read_trees),
    "columns": (b"dog NN B-NP\n\n", readers.read_conll_columns),
    "quadruples": (b"1 eat soup with spoon V\n", readers.read_pp_quadruples),
    "props": (b"d 1 0 dogs NNS (S* - -\nd 1 1 bark VB *) - -\n\n", read_props),
    "text": (b"The dog barks.\n", lambda path: read_texts(str(path), None, Unit.line, 10**6)),
    "jsonl": (
        b'{"text": "The dog barks."}\n',
        lambda p: read_texts(str(p), None, Unit.line, 10**6),
    ),
}
NAMES = {"text": "x.txt.gz", "jsonl": "x.jsonl.gz"}


def bomb(content: bytes) -> bytes:
    """Return a small gzip file that expands to a content, repeated endlessly."""
    return gzip.compress(content * (BLOCK // len(content)), 9) * TIMES


def reader_cases(inputs: Inputs) -> Iterator[Case]:
    """Yield cases of `readers`."""
    for kind, (record_, read) in RECORDS.items():
        for what, content in (
            ("records", record_),
            ("blank", b" " * 79 + b"\n"),
            ("one line", b"a"),
        ):

            def make(place: Place, kind=kind, read=read, content=content) -> Callable[[], Any]:
                path = place / "inside" / NAMES.get(kind, "x.gz")
                path.write_bytes(bomb(content))
                return consumed(lambda: read(path))

            yield Case(f"{kind}.gz of {what}", make, "/inside/x")
    yield Case("a DocBin of zeros", _docbin, "SL122")
    for name, options in {
        "convert": ["out.spacy", "--reader", "treebank"],
        "evaluate": ["--gold-tokens"],
        "apply": ["out.jsonl"],
        "parse": [],
    }.items():

        def run_command(place: Place, name=name, options=options) -> Callable[[], Any]:
            path = place / "inside" / "x.txt.gz"
            path.write_bytes(bomb(b" "))
            if name in ("evaluate", "apply"):
                return command(name, inputs.plain, path, *options)
            return command(name, path, *options)

        yield Case(f"{name} of a line without end", run_command, "SL12")
    yield from _nested_texts(inputs)
    yield from _hostile_models(inputs)


def _docbin(place: Place) -> Callable[[], Any]:
    path = place / "inside" / "x.spacy"
    compressor = zlib.compressobj(1)
    zeros = bytes(BLOCK)
    path.write_bytes(
        b"".join([*(compressor.compress(zeros) for _ in range(TIMES)), compressor.flush()])
    )
    return lambda: readers.load_docbin(path)


def _nested_texts(inputs: Inputs) -> Iterator[Case]:
    parse_bits = f"d 1 0 dogs NNS {'(S' * DEEP}*{')' * DEEP} - -\n"
    texts = {
        "open brackets": ("(" * DEEP, "SL124"),
        "open brackets on lines": ("(\n" * DEEP, "SL124"),
        "a deep tree": ("(X " * DEEP + "(NN dog)" + ")" * DEEP, "SL124"),
        "closing brackets": (")" * DEEP, "SL101"),
        "parse bits": (parse_bits, "SL130"),
    }
    for name, (text, code) in texts.items():
        arguments = ["convert", "x.trees", "out.spacy", "--reader", "treebank"]
        if name == "parse bits":
            arguments[-1] = "propbank"
        for given in (arguments, ["find", "NP", "x.trees"]):
            if given[0] == "convert" or name != "parse bits":
                yield Case(
                    f"{given[0]} of {name}", _written("x.trees", text, command(*given)), code
                )
    lists = "[" * DEEP + "]" * DEEP
    line = '{"text": "a", "trees": %s}\n'
    tree = json.dumps(["(X " * DEEP])
    yield Case(
        "deep JSONL",
        _written("x.jsonl", line % lists, command("apply", inputs.plain, "x.jsonl", "y.jsonl")),
        "SL064",
    )
    yield Case(
        "deep trees in JSONL",
        _written("x.jsonl", line % tree, command("find", "NP", "x.jsonl")),
        "SL704",
    )
    for name, pattern in {
        "brackets": "(" * DEEP + "NP" + ")" * DEEP,
        "relations": "NP" + " < (NP" * DEEP + ")" * DEEP,
        "negations": "NP " + "!" * DEEP + "< NP",
    }.items():
        yield Case(
            f"a pattern of {name}",
            _written("x.trees", "(NP (NN a))", command("find", pattern, "x.trees")),
            "SL70",
        )
    sections = "".join(f"[{'.'.join(['a'] * n)}]\n\n" for n in range(1, 1100))
    for name, text in {
        "a deep value": f"[training]\nx = {lists}\n",
        "deep sections": sections,
        "one deep section": f"[{'.'.join(['a'] * DEEP)}]\n",
    }.items():
        for given in (["train", "x.cfg", "-o", "out"], ["upgrade", "x.cfg", "-o", "y.cfg"]):
            refused = None if (given[0], name) == ("upgrade", "a deep value") else "structlearn: "
            yield Case(f"{given[0]} of {name}", _written("x.cfg", text, command(*given)), refused)
    for file in ("meta.json", "digests.json", "np_chunker/cfg", "np_chunker/digests.json"):
        for which in ("plain", "checked"):

            def make(place: Place, file=file, which=which) -> Callable[[], Any]:
                folder = _copied(getattr(inputs, which), place)
                (folder / file).write_text(lists)
                return command("info", folder)

            yield Case(f"a deep {file} ({which})", make, "SL08")


def _written(name: str, text: str, test: Callable[[], Any]) -> Callable[[Place], Callable[[], Any]]:
    def make(place: Place) -> Callable[[], Any]:
        (place / "inside" / name).write_text(text)
        return test

    return make


def _copied(folder: Path, place: Place) -> Path:
    return Path(shutil.copytree(folder, place / "inside" / "pipeline"))


def forged(payload: bytes) -> bytes:
    """Return the bytes of a model with a payload, whose digest is right."""
    return serialization.MAGIC + serialization._digest(payload) + payload


def _with_fields(value: bytes, kind: str, version: int) -> bytes:
    """Return the payload of a model whose field "weights" has this packed value."""
    dumps = srsly.msgpack_dumps
    fields = b"\xa6fields\x81" + dumps("weights") + value
    return b"\x83" + fields + dumps("kind") + dumps(kind) + dumps("version") + dumps(version)


VALUES = {
    "10^12 numbers": srsly.msgpack_dumps({"__array__": "<f4", "data": b"", "shape": [10**12]}),
    "2^62 rows": srsly.msgpack_dumps({"__array__": "<f4", "data": b"", "shape": [2**62, 2**62]}),
    "900 lists in lists": b"\x91" * 900 + b"\xc0",
    "lists in lists": b"\x91" * DEEP + b"\xc0",
    "maps in maps": b"\x81\xa1a" * DEEP + b"\xc0",
    "a list of 2^32 items": b"\xdd\xff\xff\xff\xff",
    "a map of 2^32 items": b"\xdf\xff\xff\xff\xff",
    "bytes of 2^32": b"\xc6\xff\xff\xff\xff",
    "text of 2^32": b"\xdb\xff\xff\xff\xff",
    "long lists in lists": b"\xdd\x00\x00\xff\xff" * 900 + bytes(1 << 16),
}


def _hostile_models(inputs: Inputs) -> Iterator[Case]:
    chunker = inputs.nlp.get_pipe("np_chunker")
    kind, version = chunker.parameters.kind, chunker.parameters.version
    stored = srsly.msgpack_loads(chunker.model.to_bytes())
    for name, value in VALUES.items():
        payload = _with_fields(value, kind, version)
        attributes = [{**held, "parameters": forged(payload)} for held in stored["attrs"]]
        model = srsly.msgpack_dumps({**stored, "attrs": attributes})
        for what, data in {"parameters": model, "model": value}.items():

            def on_disk(place: Place, data=data) -> Callable[[], Any]:
                folder = _copied(inputs.plain, place)
                (folder / "np_chunker" / "model").write_bytes(data)
                digests.write(folder / "np_chunker", "np_chunker")
                return lambda: spacy.load(folder)

            def in_bytes(place: Place, data=data) -> Callable[[], Any]:
                whole = digests.sealed({"cfg": "{}", "model": data}, "np_chunker")
                return lambda: chunker.from_bytes(srsly.msgpack_dumps(whole))

            yield Case(f"{name} in the {what} of a component", on_disk, "/np_chunker/model")
            yield Case(f"{name} in the {what} in bytes", in_bytes, "SL08")
        yield Case(
            f"{name} in bytes", lambda place, v=value: lambda: chunker.from_bytes(v), "SL080"
        )

        def classes(place: Place, value=value) -> Callable[[], Any]:
            path = place / "inside" / "classes"
            path.write_bytes(forged(_with_fields(value, "word_classes", 2)))
            return lambda: CRFSettings(classes=path).word_classes

        def checkpoint(place: Place, value=value) -> Callable[[], Any]:
            path = place / "inside" / "x.checkpoint"
            path.write_bytes(forged(_with_fields(value, "training_run", 1)))
            return lambda: _train(inputs, path)

        yield Case(f"{name} in word classes", classes, "SL054")
        yield Case(f"{name} in a checkpoint", checkpoint, "SL085")


def _train(inputs: Inputs, checkpoint: Path) -> None:
    """Train a chunker, with a checkpoint after every iteration."""
    training.CHECKPOINT_SECONDS = -1
    nlp = spacy.blank("en")
    architecture = {"@architectures": "spacy_structlearn.Perceptron.v2", "max_iterations": 2}
    chunker = nlp.add_pipe("np_chunker", config={"model": architecture})
    examples = list(readers.create_docbin_reader(Path(inputs.corpus["paths.dev"]))(nlp))
    nlp.initialize(lambda: examples)
    chunker.fit(examples, checkpoint=checkpoint, keep=True)  # type: ignore[attr-defined]


# --- folders --------------------------------------------------------------------------------------
def put(kind: str, path: Path, place: Place) -> None:
    """Replace a file by something else."""
    held = place / "outside" / "copy"
    if path.exists():
        path.rename(held)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            # The whole path may be too long for a socket.
            here = Path.cwd()
            os.chdir(path.parent)
            server.bind(path.name)
            os.chdir(here)
    elif kind == "folder":
        path.mkdir()
    elif kind == "circle":
        path.symlink_to(path.name)
    elif kind == "dangling":
        path.symlink_to(place / "outside" / "nothing")
    else:
        path.symlink_to(held)


KINDS = ("pipe", "device", "socket", "folder", "circle", "dangling", "link")
ENDLESS = KINDS[:3]
CHUNKER = ("np_chunker/cfg", "np_chunker/model", "np_chunker/digests.json")
FILES = (
    *("config.cfg", "meta.json", "tokenizer", "vocab/strings.json", "vocab/lookups.bin"),
    *CHUNKER,
)


def folder_cases(inputs: Inputs) -> Iterator[Case]:
    """Yield cases of `folders`."""
    doors: dict[str, Callable[[Path], Callable[[], Any]]] = {
        "load": lambda folder: lambda: spacy_structlearn.load(folder),
        "info": lambda folder: command("info", folder),
        "package": lambda folder: command("package", folder, folder.parent),
        "upgrade": lambda folder: command("upgrade", folder, "-o", folder.parent / "new"),
    }
    for kind in KINDS:
        for which in ("checked", "plain"):
            for door, through in doors.items():
                for file in (*FILES, *(["digests.json"] if which == "checked" else [])):
                    is_read = kind == "link" and door in ("load", "info")
                    # It copies what it cannot check.
                    is_read |= (kind, door, which) == ("folder", "upgrade", "plain") and (
                        file not in FILES[:2]
                    )
                    yield Case(
                        f"{door} of a {kind} in place of {file} ({which})",
                        _placed(kind, getattr(inputs, which), file, through),
                        None if is_read else "/pipeline",
                    )
            # spaCy reads its own files before a component is asked.
            for file in CHUNKER:
                yield Case(
                    f"spacy.load of a {kind} in place of {file} ({which})",
                    _placed(
                        kind,
                        getattr(inputs, which),
                        file,
                        lambda folder: lambda: spacy.load(folder),
                    ),
                    None if kind == "link" else "/np_chunker/",
                )
        for file in (*CHUNKER, "np_chunker"):
            if file == "np_chunker" and kind != "link":
                continue
            yield Case(
                f"to_disk over a {kind} in place of {file}",
                _placed(kind, inputs.plain, file, lambda folder: lambda: _save(inputs, folder)),
                None if kind != "folder" else "/np_chunker/",
            )
        yield from _outputs(inputs, kind)
    yield Case("package of a link to a folder outside", _linked_folder(inputs), "SL057")


def _placed(
    kind: str, source: Path, file: str, through: Callable[[Path], Callable[[], Any]]
) -> Callable[[Place], Callable[[], Any]]:
    def make(place: Place) -> Callable[[], Any]:
        folder = _copied(source, place)
        put(kind, folder / file, place)
        return through(folder)

    return make


def _linked_folder(inputs: Inputs) -> Callable[[Place], Callable[[], Any]]:
    def make(place: Place) -> Callable[[], Any]:
        folder = _copied(inputs.plain, place)
        (folder / "more").symlink_to(place / "outside")
        return command("package", folder, folder.parent)

    return make


def _save(inputs: Inputs, folder: Path) -> None:
    exclude = [name for name in inputs.nlp.pipe_names if name not in SMALL]
    inputs.nlp.to_disk(folder, exclude=exclude)
    assert not (folder / "np_chunker" / "model").is_symlink()


def _outputs(inputs: Inputs, kind: str) -> Iterator[Case]:
    """Yield cases of checkpoints, and of outputs that exist and are not files."""
    for ending in ("", ".new"):

        def train(place: Place, ending=ending) -> Callable[[], Any]:
            path = place / "inside" / "x.checkpoint"
            (place / "inside" / f"x.checkpoint{ending}").write_bytes(b"old")
            put(kind, place / "inside" / f"x.checkpoint{ending}", place)
            return lambda: _train(inputs, path)

        refused = None if ending or kind in ("circle", "dangling") else "/x.checkpoint"
        yield Case(f"a {kind} in place of a checkpoint{ending}", train, refused)

    def save(place: Place) -> Callable[[], Any]:
        put(kind, place / "inside" / "pipeline", place)
        nlp = spacy.blank("en")
        return lambda: fitting.save(nlp, place / "inside" / "pipeline")

    if kind not in ("folder", "dangling", "link"):  # these are meant
        yield Case(f"a pipeline saved in place of a {kind}", save, "")

    def convert(place: Place) -> Callable[[], Any]:
        (place / "inside" / "x").write_text("(NP (NN dog))\n")
        target = place / "inside" / "y.spacy"
        if kind == "device":
            target.symlink_to("/dev/null")
            return lambda: (command("convert", "x", target)(), _same_device(target))
        target.write_bytes(b"old")
        put(kind, target, place)
        return command("convert", "x", target)

    if kind not in ("pipe", "socket"):  # which wait for a reader, as in a shell
        yield Case(
            f"an output in place of a {kind}", convert, "/y.spacy" if kind == "folder" else None
        )

    def lock(place: Place) -> Callable[[], Any]:
        (place / "inside" / "x.txt").write_text("A dog.\n")
        put(kind, place / "inside" / ".y.jsonl.lock", place)
        return command("apply", inputs.plain, "x.txt", "y.jsonl")

    if kind not in ("pipe", "device", "socket", "link"):
        yield Case(f"a {kind} in place of a lock", lock, "y.jsonl")


def _same_device(target: Path) -> None:
    assert target.is_symlink()
    assert os.stat("/dev/null").st_rdev == os.makedev(1, 3)


# --- swapped components ---------------------------------------------------------------------------
def swapped_cases(inputs: Inputs) -> Iterator[Case]:
    """Yield cases of `swapped`."""
    ours = inputs.nlp.pipe_names
    for one, other in permutations(ours, 2):

        def folder(place: Place, one=one, other=other) -> Callable[[], Any]:
            return lambda: inputs.nlp.get_pipe(one).from_disk(inputs.whole / other)  # type: ignore[attr-defined]

        def in_bytes(place: Place, one=one, other=other) -> Callable[[], Any]:
            data = inputs.nlp.get_pipe(other).to_bytes(exclude=["vocab"])  # type: ignore[attr-defined]
            return lambda: inputs.nlp.get_pipe(one).from_bytes(data)  # type: ignore[attr-defined]

        yield Case(f"{other} in place of {one}", folder, "SL089")
        yield Case(f"bytes of {other} in place of {one}", in_bytes, "SL089")
        for part in ("cfg", "model"):

            def file(place: Place, one=one, other=other, part=part) -> Callable[[], Any]:
                mine = Path(shutil.copytree(inputs.whole / one, place / "inside" / one))
                shutil.copy(inputs.whole / other / part, mine / part)
                return lambda: inputs.nlp.get_pipe(one).from_disk(mine)  # type: ignore[attr-defined]

            same = (inputs.whole / one / part).read_bytes() == (
                inputs.whole / other / part
            ).read_bytes()
            yield Case(f"{part} of {other} in {one}", file, None if same else f"/{one}/")
    loads: dict[str, Callable[[Path], Language]] = {
        "load": spacy_structlearn.load,
        "spacy.load": spacy.load,
    }
    for door, load in loads.items():
        for file in ("np_chunker", "np_chunker/model"):

            def of_another_pipeline(place: Place, load=load, file=file) -> Callable[[], Any]:
                """Of the same type, with the same labels and sizes."""
                pipeline = _copied(inputs.checked, place)
                target = pipeline / file
                if target.is_dir():
                    shutil.rmtree(target)
                    shutil.copytree(inputs.other, target)
                else:
                    shutil.copy(inputs.other / target.name, target)
                return lambda: load(pipeline)

            yield Case(f"{door} of {file} of another pipeline", of_another_pipeline, "SL083")


# --- packages -------------------------------------------------------------------------------------
SETTINGS = ("name", "version", "lang", "description", "author", "email", "url", "license")
STRINGS = {
    "code": "'''; import pathlib; pathlib.Path('{mark}').touch(); '''",
    "format": "{{0.__class__}} %(x)s ${{x}} `touch {mark}` $(touch {mark})",
    "quotes": '"\'\\" \\',
    "lines": "x\nRequires-Dist: evil\n\nimport pathlib; pathlib.Path('{mark}').touch()",
    "entry": "x = os:system\n[console_scripts]\npython = evil:main",
    "path": "../../../outside/x",
    "absolute": "{place}/outside/x",
    "dots": "..",
    "null": "a\0b",
    "foreign": "\u212aelvin \u202e \u4e2d\u6587",
    "long": "x" * 100_000,
    "empty": "",
    "end": "x\n",
}
TYPES: dict[str, Any] = {"number": 7, "list": ["x"], "none": None, "map": {"x": "y"}}
ONE_LINE = ("author", "email", "url", "license")


def package_cases(inputs: Inputs) -> Iterator[Case]:
    """Yield cases of `packages`."""
    for setting in SETTINGS:
        for what, value in {**STRINGS, **TYPES}.items():
            refused = setting in SETTINGS[:3] or what in TYPES
            refused |= setting in ONE_LINE and what in ("lines", "entry", "null", "foreign", "end")
            yield Case(
                f"package with {setting} of {what}",
                _packaged(inputs, setting, value),
                "SL090" if refused else None,
            )
    for option, value in {"--name": "x/../y", "--version": "../../x"}.items():

        def given(place: Place, option=option, value=value) -> Callable[[], Any]:
            return command("package", _copied(inputs.plain, place), "wheels", option, value)

        yield Case(f"package {option} {value}", given, "SL090")
    for name, requirements in {
        "code": ["x; import os"],
        "lines": ["x\nevil"],
        "text": "evil",
        "number": [7],
    }.items():
        yield Case(
            f"package with requirements of {name}",
            _packaged(inputs, "requirements", requirements),
            "SL090",
        )


def _packaged(inputs: Inputs, setting: str, value: Any) -> Callable[[Place], Callable[[], Any]]:
    def make(place: Place) -> Callable[[], Any]:
        folder = _copied(inputs.plain, place)
        text = value
        if isinstance(value, str):
            text = value.format(mark=place / "outside" / EXECUTED, place=place)
        srsly.write_json(
            folder / "meta.json", {**srsly.read_json(folder / "meta.json"), setting: text}
        )
        wheels = place / "inside" / "wheels"

        def test() -> None:
            command("package", folder, wheels)()
            _import(wheels)

        return test

    return make


def _import(wheels: Path) -> None:
    """Unpack a wheel as pip does, import it, and read its entry points and requirements."""
    (wheel,) = wheels.iterdir()
    place = wheels.parent / "installed"
    with zipfile.ZipFile(wheel) as archive:
        assert not any(name.startswith("/") or ".." in name for name in archive.namelist())
        archive.extractall(place)
    code = (
        "import sys, importlib.metadata as m; sys.path.insert(0, sys.argv[1]); "
        "d = next(iter(m.distributions(path=[sys.argv[1]]))); "
        "__import__(d.metadata['Name'].replace('-', '_')); "
        "assert not [r for r in d.requires if 'evil' in r], d.requires; "
        "assert [(p.group, p.name == p.value) for p in d.entry_points] == [('spacy_models', True)]"
    )
    subprocess.run([sys.executable, "-c", code, place], check=True, capture_output=True, text=True)


# --- archives -------------------------------------------------------------------------------------
ROOT_NAME = "CRAFT-1"
WANTED = f"{ROOT_NAME}/structural-annotation/treebank/penn/11.tree"
CONFIG = """
[sources.craft]
url = "https://tars.example/v1.{ending}"
root = "CRAFT-1"
bytes = {bytes}
sha256 = "{sha256}"
max_download = 100000000
max_stream = 200000000
max_member = 1000000
max_read = 2000000

[corpora.craft]
title = "Three trees"
licence = "free"
size = "1 kB"
reads = {{ craft = ["articles/ids/*", "structural-annotation/treebank/penn/*.tree"] }}
builds = []
"""
PATHS = {
    "an absolute path": "/outside/x.tree",
    "a path out": "../../../outside/x.tree",
    "a path out from within": f"{WANTED}/../../../../../../outside/x.tree",
    "a path of Windows": f"{ROOT_NAME}\\..\\x.tree",
    "a drive": "C:/x.tree",
}
SPECIAL = {
    "a link": tarfile.SYMTYPE,
    "a hard link": tarfile.LNKTYPE,
    "a device": tarfile.CHRTYPE,
    "a block device": tarfile.BLKTYPE,
    "a pipe": tarfile.FIFOTYPE,
}


def archive_cases(inputs: Inputs) -> Iterator[Case]:
    """Yield cases of `archives`."""
    for what, name in PATHS.items():
        for ending in ("tar.gz", "zip"):
            yield Case(
                f"{what} in a {ending}",
                _archived([(name, b"(X (NN a))")], ending),
                "unsafe member name",
            )
    for what, kind in SPECIAL.items():
        member = tarfile.TarInfo(WANTED)
        member.type, member.linkname = kind, "../../../../../outside/held"
        yield Case(f"{what} in a tar.gz", _archived([member], "tar.gz"), "is a link, special")
    link = zipfile.ZipInfo(WANTED)
    link.external_attr = 0o120777 << 16
    yield Case("a link in a zip", _archived([(link, b"/etc/passwd")], "zip"), "is a link, special")
    for ending in ("tar.gz", "zip"):
        twice = [(WANTED, b"(X (NN a))")] * 2
        yield Case(f"a name twice in a {ending}", _archived(twice, ending), "repeated")
        large = [(WANTED, bytes(2_000_000))]
        yield Case(f"a large member in a {ending}", _archived(large, ending), "over the size cap")
    bomb_ = [(f"{ROOT_NAME}/x", bytes(1 << 28))]
    yield Case("a tar.gz that expands", _archived(bomb_, "tar.gz"), "over the size cap")
    for kind in (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME):
        header = tarfile.TarInfo("././@x")
        header.type, header.size = kind, 10**11
        yield Case(f"a vast header {kind!r}", _raw_tar(header), "truncated or damaged archive")


def _archived(members: list[Any], ending: str) -> Callable[[Place], Callable[[], Any]]:
    def make(place: Place) -> Callable[[], Any]:
        path = place / "inside" / "mirror" / "tars.example" / f"v1.{ending}"
        path.parent.mkdir(parents=True)
        if ending == "zip":
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, content in members:
                    archive.writestr(name, content)
        else:
            with tarfile.open(path, "w:gz") as archive:
                for member in members:
                    if isinstance(member, tarfile.TarInfo):
                        archive.addfile(member)
                    else:
                        info = tarfile.TarInfo(member[0])
                        info.size = len(member[1])
                        archive.addfile(info, io.BytesIO(member[1]))
        return _fetched(place, path)

    return make


def _raw_tar(header: tarfile.TarInfo) -> Callable[[Place], Callable[[], Any]]:
    def make(place: Place) -> Callable[[], Any]:
        path = place / "inside" / "mirror" / "tars.example" / "v1.tar.gz"
        path.parent.mkdir(parents=True)
        path.write_bytes(gzip.compress(header.tobuf(tarfile.GNU_FORMAT) + bytes(190_000_000), 1))
        return _fetched(place, path)

    return make


def _fetched(place: Place, path: Path) -> Callable[[], Any]:
    data = path.read_bytes()
    inside = place / "inside"
    ending = "zip" if path.suffix == ".zip" else "tar.gz"
    digest = hashlib.sha256(data).hexdigest()
    config = CONFIG.format(ending=ending, bytes=len(data), sha256=digest)
    (inside / "corpora.toml").write_text(config)
    (inside / "digests.txt").write_text("# none\n")
    arguments = ["craft", "--mirror", inside / "mirror", "--output", inside / "output"]
    arguments += ["--config", inside / "corpora.toml", "--digests", inside / "digests.txt"]
    return lambda: _one_line(lambda: fetch.main([*map(str, arguments)]), "fetch.py: error: ")


# --- the command ----------------------------------------------------------------------------------
PARTS = {
    "readers": reader_cases,
    "folders": folder_cases,
    "swapped": swapped_cases,
    "packages": package_cases,
    "archives": archive_cases,
}


def figures(cases: Iterable[Case], work: Path, verbose: bool = True) -> dict[str, int]:
    """Run cases in folders below `work`, print those that went wrong, and count them."""
    found: Counter[str] = Counter()
    for number, case in enumerate(cases):
        place = work / f"case{number}"
        outcome, text = run(case, place)
        shutil.rmtree(place, ignore_errors=True)
        found["cases"] += 1
        if outcome:
            found[outcome] += 1
            tqdm.write(f"{outcome}: {case.name}: {text}")
        elif verbose:
            tqdm.write(f"as it should be: {case.name}: {text[:150]}")
    return {f"files.{key}": found[key] for key in ("cases", *OUTCOMES)}


def main(arguments: list[str] | None = None) -> dict[str, int]:
    """Run the command line and return the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--match", default="", help="only cases whose name contains this")
    parser.add_argument("--verbose", action="store_true", help="print the other cases too")
    parser.add_argument("--record", action="store_true", help="write the figures to the results")
    args = parser.parse_args(arguments)
    if args.record:
        clean_commit()
    with TemporaryDirectory() as folder:
        work = Path(folder).resolve()
        inputs = Inputs(work)
        cases = [case for part in args.only for case in PARTS[part](inputs)]
        cases = [case for case in cases if args.match in case.name]
        result = figures(tqdm(cases, desc="cases", disable=None), work, args.verbose)
    show(result)
    if args.record:
        record("reliability", result)
    return result


if __name__ == "__main__":
    main()
