"""Check that damaged files of pipelines and checkpoints are detected.

    python -m training.reliability.corruption --record

Files of the default pipeline, and of small pipelines of every architecture, are truncated, changed,
emptied, doubled, removed, or swapped with files of the same name of another pipeline. Each case is
loaded in one of several ways. The outcome is

error     a StructlearnError that names the file, or with `spacy.load` any error that names it
harmless  the same predictions and bytes as the undamaged pipeline
unclear   another error
silent    loaded, but something differs

Ways of loading: `own`, the functions and commands of the package, for pipelines with digests, as
saved by `structlearn train`; `spacy_load`, `spacy.load` after `nlp.to_disk`, for files of our
components; `bytes`, what `to_bytes` of our components returns; `checkpoints`, states of interrupted
trainings, where restarting is harmless if it is logged. Apart from these, `spacy_load.foreign` is
`spacy.load` for the files of spaCy in pipelines with digests, and `spacy_load.plain` in pipelines
without: spaCy reads these files before our components compare the digests, so its own errors come
first. `meta` is meta.json, loaded by the package. spaCy and its users edit this file, so a changed
description counts as `described`, not as silent.

With --record, figures are recorded in training/results/reliability.json: corruption.{cases, errors,
harmless, unclear, silent}, without those apart, and the same by way of loading.
"""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span
from tqdm import tqdm

import spacy_structlearn
from spacy_structlearn.cli import _pipelines
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.learning import training
from spacy_structlearn.pipeline.readers import create_docbin_reader
from spacy_structlearn.pipeline.storage import digests
from spacy_structlearn.pipeline.storage.built_in import FOLDER
from spacy_structlearn.pipeline.training import fitting
from training.common.recording import clean_commit, record, show
from training.reliability.small_pipelines import (
    SMALL,
    dev_docs,
    predictions,
    write_config,
    write_corpus,
)

OURS = ("np_chunker", "constituency_parser", "pp_attacher", "srl_labeler")
OUTCOMES = ("errors", "harmless", "described", "unclear", "silent")
APART = ("spacy_load.foreign", "spacy_load.plain", "meta")  # not included in the sum
CHECKPOINTS = ("crf", "split_merge", "span", "isbn", "m_estimated", "log_linear", "roles")

Damage = Callable[[bytes, random.Random], bytes | None]


# --- damage ---------------------------------------------------------------------------------------
def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(max(len(data), 1))]


def _flip_bit(data: bytes, rng: random.Random) -> bytes:
    return _changed(data, rng.randrange(max(len(data), 1)), 1 << rng.randrange(8))


def _flip_byte(data: bytes, rng: random.Random) -> bytes:
    return _changed(data, rng.randrange(max(len(data), 1)), rng.randrange(1, 256))


def _flip_head(data: bytes, rng: random.Random) -> bytes:
    """Change a byte of the first hundred, which contain the header of most formats."""
    return _changed(data, rng.randrange(max(min(len(data), 100), 1)), 1 << rng.randrange(8))


def _changed(data: bytes, place: int, mask: int) -> bytes:
    changed = bytearray(data)
    for byte in changed[place : place + 1]:
        changed[place] = byte ^ mask
    return bytes(changed)


REPEATED: dict[str, Damage] = {
    "cut": _cut,
    "bit": _flip_bit,
    "byte": _flip_byte,
    "head": _flip_head,
}
ONCE: dict[str, Damage] = {
    "emptied": lambda data, rng: b"",
    "doubled": lambda data, rng: data * 2,
    "removed": lambda data, rng: None,
    "last byte": lambda data, rng: data[:-1],
    "longer": lambda data, rng: data + b"\n",
}


def cases(name: str, path: Path, other: Path | None, repeats: int) -> Iterator[bytes | None]:
    """Yield replacements of a file, with its name as seed. None: the file is removed."""
    data = path.read_bytes()
    for kind, damage in REPEATED.items():
        for number in range(repeats):
            yield damage(data, random.Random(f"{name} {kind} {number}"))
    for kind, damage in ONCE.items():
        yield damage(data, random.Random(f"{name} {kind}"))
    if other is not None and other.is_file() and other.read_bytes() != data:
        yield other.read_bytes()


# --- ways of loading ------------------------------------------------------------------------------
@dataclass
class Pipeline:
    """A folder with a pipeline, a way of loading it, and its undamaged behaviour."""

    folder: Path
    load: Callable[[], Language]
    docs: Callable[[Language], list[Doc]]
    other: Path | None = None  # a folder with files for swapping

    def __post_init__(self) -> None:
        self.sound = self.behaviour()

    def behaviour(self) -> tuple[bytes, bytes, Any]:
        """Return the bytes without the meta, the meta, and predictions, for comparison."""
        nlp = self.load()
        everything, most = nlp.to_bytes(), nlp.to_bytes(exclude=["meta"])
        return most, everything, predictions(nlp, self.docs(nlp))

    def outcome(self, file: Path) -> str:
        """Return one of OUTCOMES with the current file."""
        try:
            found = self.behaviour()
        except Exception as error:
            clear = self.is_named(error, file) and self.is_clear(error)
            return "errors" if clear else "unclear"
        if found == self.sound:
            return "harmless"
        described = file.name == digests.META and found[::2] == self.sound[::2]
        return "described" if described else "silent"

    def is_named(self, error: Exception, file: Path) -> bool:
        """Return whether an error names the file."""
        return str(file) in str(error) or str(file) == getattr(error, "filename", None)

    def is_clear(self, error: Exception) -> bool:
        """Return whether this error is clear for this way of loading, if it names the file."""
        return isinstance(error, StructlearnError)


class Foreign(Pipeline):
    """A pipeline loaded by `spacy.load`."""

    def is_clear(self, error: Exception) -> bool:
        return isinstance(error, (StructlearnError, OSError))


class Bytes(Pipeline):
    """A component of a loaded pipeline, loaded from bytes, which are in a file in `folder`."""

    def __init__(self, folder: Path, nlp: Language, name: str, docs: Callable):
        self.component: Any = nlp.get_pipe(name)
        self.nlp, self.name = nlp, name
        folder.mkdir()
        (folder / name).write_bytes(self.component.to_bytes(exclude=["vocab"]))
        super().__init__(folder, lambda: nlp, docs)

    def behaviour(self) -> tuple[bytes, bytes, Any]:
        self.component.from_bytes((self.folder / self.name).read_bytes(), exclude=["vocab"])
        found = self.component.to_bytes(exclude=["vocab"])
        return found, found, predictions(self.nlp, self.docs(self.nlp))

    def outcome(self, file: Path) -> str:
        if not file.exists():
            return "harmless"  # there is nothing to load
        return super().outcome(file)

    def is_named(self, error: Exception, file: Path) -> bool:
        return repr(self.name) in str(error)


def damaged(pipeline: Pipeline, name: str, files: Iterable[str], repeats: int) -> Iterator[str]:
    """Yield the outcome of each case of some files of a pipeline, and restore the files."""
    for file in files:
        path = pipeline.folder / file
        sound = path.read_bytes()
        other = None if pipeline.other is None else pipeline.other / file
        try:
            for content in cases(f"{name}/{file}", path, other, repeats):
                if content == sound:
                    continue
                if content is None:
                    path.unlink()
                else:
                    path.write_bytes(content)
                outcome = pipeline.outcome(path)
                if outcome in ("unclear", "silent"):
                    logging.getLogger("corruption").info("%s %s: %s", name, file, outcome)
                yield outcome
        finally:
            path.write_bytes(sound)


def files_of(folder: Path) -> list[str]:
    """Return the relative paths of the files of a pipeline."""
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


# --- small pipelines ------------------------------------------------------------------------------
def small_cases(
    names: Iterable[str], work: Path, repeats: int, foreign: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Yield way of loading and outcome for each case of small pipelines, trained in `work`.

    foreign: pipelines in which spaCy's own files are damaged too, as `spacy.load` reads them.
    """
    overrides = write_corpus(work)
    names = list(names)
    for name in names:
        nlp = fitting.train(
            write_config(name, work / f"{name}.cfg"), work / name, overrides=overrides
        )
        nlp.to_disk(work / f"{name}.plain")
    docs = partial(dev_docs, overrides=overrides)
    for name in names:
        folder, plain = work / name, work / f"{name}.plain"
        alike = [o for o in names if o != name and SMALL[o].component == SMALL[name].component]
        other = work / alike[0] if alike else None
        own = Pipeline(folder, partial(_pipelines.load, str(folder)), docs, other)
        for file in files_of(folder):
            door = "meta" if file == digests.META else "own"
            for outcome in damaged(own, name, [file], repeats):
                yield door, outcome
        through = Foreign(plain, partial(spacy.load, plain), docs, other)
        for file in files_of(plain):
            door = "spacy_load" if file.startswith(SMALL[name].component) else "spacy_load.plain"
            if door == "spacy_load" or name in foreign:
                for outcome in damaged(through, plain.name, [file], repeats):
                    yield door, outcome
        if name in foreign:
            through = Foreign(folder, partial(spacy.load, folder), docs, other)
            files = [file for file in files_of(folder) if file.split("/")[0] in digests.SPACYS]
            for outcome in damaged(through, f"{name} spacy.load", files, repeats):
                yield "spacy_load.foreign", outcome
        component = SMALL[name].component
        in_bytes = Bytes(work / f"{name}.bytes", spacy.load(folder), component, docs)
        for outcome in damaged(in_bytes, f"{name}.bytes", [component], repeats):
            yield "bytes", outcome


# --- the default pipeline -------------------------------------------------------------------------
def default_cases(work: Path, repeats: int) -> Iterator[tuple[str, str]]:
    """Yield way of loading and outcome for each case of a copy of the default pipeline."""
    folder = Path(shutil.copytree(FOLDER, work / "package"))
    own = Pipeline(folder, partial(spacy_structlearn.load, folder), _default_docs)
    for file in files_of(folder):
        door = "meta" if file == digests.META else "own"
        for outcome in damaged(own, "default", [file], repeats):
            yield door, outcome
    for component in OURS:
        others = [name for name in spacy.load(folder).pipe_names if name != component]
        through = Foreign(folder, partial(spacy.load, folder, exclude=others), _default_docs)
        files = [file for file in files_of(folder) if file.startswith(f"{component}/")]
        for outcome in damaged(through, "default", files, repeats):
            yield "spacy_load", outcome


def _default_docs(nlp: Language) -> list[Doc]:
    text = "The committee approved a new plan for the old harbor ."
    tags = ["DT", "NN", "VBD", "DT", "JJ", "NN", "IN", "DT", "JJ", "NN", "."]
    doc = Doc(nlp.vocab, words=text.split(), tags=tags, sent_starts=[i == 0 for i in range(11)])
    # Needed by components that are loaded without the parser.
    brackets = [("S", 0, 11), ("NP", 0, 2), ("VP", 2, 10), ("NP", 3, 10)]
    brackets += [("NP", 3, 6), ("PP", 6, 10), ("NP", 7, 10)]
    doc.spans["constituents"] = [Span(doc, start, end, label) for label, start, end in brackets]
    return [doc]


# --- checkpoints ----------------------------------------------------------------------------------
class _Interrupted(Exception):
    """Interrupts a training."""


def checkpoint_cases(
    names: Iterable[str], work: Path, repeats: int, after: int = 2
) -> Iterator[tuple[str, str]]:
    """Yield way of loading and outcome for each case of the state of an interrupted training."""
    overrides = write_corpus(work)
    heard = _Heard()
    ours = logging.getLogger("spacy_structlearn")
    # Whatever is printed.
    level = ours.level
    ours.setLevel(logging.WARNING)
    ours.addHandler(heard)
    seconds, training.CHECKPOINT_SECONDS = training.CHECKPOINT_SECONDS, -1
    states: dict[str, Path] = {}

    def fit(name: str, on_iteration: Callable | None = None) -> bytes:
        nlp = spacy.blank("en")
        config = spacy.util.load_config(write_config(name, work / "config.cfg"), overrides)
        section = dict(config.interpolate()["components"][SMALL[name].component])
        component = nlp.add_pipe(section.pop("factory"), config=section)
        reader = config.interpolate()["corpora"]["train"]
        spans = reader.get("spans")
        examples = list(create_docbin_reader(Path(reader["path"]), spans=spans)(nlp))
        nlp.initialize(lambda: examples)
        component.fit(
            examples, on_iteration=on_iteration, checkpoint=states[name], settings=name, keep=True
        )
        return component.model.to_bytes()

    def interrupt(n: int, value: float) -> None:
        # The state of this iteration is written after it, so the previous state exists.
        if n > after:
            raise _Interrupted

    def outcome(name: str, wanted: bytes) -> str:
        heard.messages.clear()
        try:
            found = fit(name)
        except StructlearnError as error:
            return "errors" if str(states[name]) in str(error) else "unclear"
        except Exception:
            return "unclear"
        return "harmless" if found == wanted and heard.messages else "silent"

    try:
        for name in names:
            states[name] = work / f"{name}.state"
            wanted = fit(name)
            states[name].unlink()
            with suppress(_Interrupted):
                fit(name, interrupt)
            data = states[name].read_bytes()
            other = next((path for o, path in states.items() if o != name), None)
            for content in cases(f"{name}/checkpoint", states[name], other, repeats):
                # Without a state, training starts from the beginning, which is correct.
                if content is None or content == data:
                    continue
                states[name].write_bytes(content)
                yield "checkpoints", outcome(name, wanted)
            states[name].write_bytes(data)
    finally:
        ours.removeHandler(heard)
        ours.setLevel(level)
        training.CHECKPOINT_SECONDS = seconds


class _Heard(logging.Handler):
    """Collects the log of the package."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, entry: logging.LogRecord) -> None:
        self.messages.append(entry.getMessage())


# --- the command ----------------------------------------------------------------------------------
def figures(found: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the numbers of cases by way of loading and outcome, and their sums."""
    by_door: dict[str, Counter[str]] = {}
    for door, outcome in found:
        by_door.setdefault(door, Counter())[outcome] += 1
    total: Counter[str] = Counter()
    for door, counts in by_door.items():
        if door not in APART:
            total += counts
    result = {}
    for place, counts in {"": total, **{f".{door}": c for door, c in by_door.items()}}.items():
        result[f"corruption{place}.cases"] = counts.total()
        for outcome in OUTCOMES:
            if counts[outcome] or outcome != "described":
                result[f"corruption{place}.{outcome}"] = counts[outcome]
    return result


def main(arguments: list[str] | None = None) -> dict[str, int]:
    """Run the command line and return the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--small", nargs="*", default=sorted(SMALL), choices=sorted(SMALL))
    parser.add_argument("--foreign", nargs="*", default=["crf", "span"], help="see above")
    parser.add_argument("--checkpoints", nargs="*", default=CHECKPOINTS, choices=sorted(SMALL))
    parser.add_argument("--repeats", type=int, default=3, help="cases of each kind and file")
    parser.add_argument("--no-default", action="store_true", help="without the default pipeline")
    parser.add_argument("--verbose", action="store_true", help="print unclear and silent cases")
    parser.add_argument("--record", action="store_true", help="write the figures to the results")
    args = parser.parse_args(arguments)
    if args.record:
        clean_commit()
    logging.basicConfig(level=logging.INFO if args.verbose else logging.ERROR)
    logging.getLogger("spacy").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="spacy")
    with TemporaryDirectory() as folder:
        work = Path(folder)
        found = [*_in_turn(args, work)]
    result = figures(found)
    show(result)
    if args.record:
        record("reliability", result)
    return result


def _in_turn(args: argparse.Namespace, work: Path) -> Iterator[tuple[str, str]]:
    parts = [
        small_cases(args.small, work, args.repeats, args.foreign),
        checkpoint_cases(args.checkpoints, work, args.repeats),
    ]
    if not args.no_default:
        parts.append(default_cases(work, max(args.repeats // 3, 1)))
    for part in parts:
        yield from tqdm(part, desc="cases", disable=None)


if __name__ == "__main__":
    main()
