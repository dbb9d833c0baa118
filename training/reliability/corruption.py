"""Check that damaged files of pipelines are detected.

    python -m training.reliability --only corruption

Files of the default pipeline, and of small pipelines of every architecture, are truncated, changed,
emptied, doubled, removed, or swapped with files of the same name of another pipeline. The outcome
of loading them is

errors    a StructlearnError, or an OSError of `spacy.load`, that names the file or the model
harmless  the same predictions and bytes as the undamaged pipeline
unclear   another error
silent    loaded, but something differs

Ways of loading: `own`, `spacy_structlearn.load`, for pipelines with digests, as saved by
`structlearn train`; `spacy_load`, `spacy.load` after `nlp.to_disk`, for files of our components.
meta.json, which spaCy and its users edit, and files that `spacy.load` reads before our components
can check them are left out. In results/reliability.json: corruption.{cases, errors, harmless,
unclear, silent}, and the same by way of loading.
"""

from __future__ import annotations

import logging
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc
from tqdm import tqdm

import spacy_structlearn
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.storage import digests
from spacy_structlearn.pipeline.storage.built_in import FOLDER
from spacy_structlearn.pipeline.training import fitting
from training.reliability.small_pipelines import (
    COMPONENTS,
    TEXT,
    input_docs,
    predictions,
    write_config,
    write_corpus,
)

OUTCOMES = ("errors", "harmless", "unclear", "silent")
REPEATS = 3  # cases of each kind and file

Damage = Callable[[bytes, random.Random], "bytes | None"]


# --- damage ---------------------------------------------------------------------------------------
def _flip(data: bytes, rng: random.Random, most: int | None = None) -> bytes:
    """Change a bit, of the first bytes if `most` is their number."""
    changed = bytearray(data)
    place = rng.randrange(max(min(len(data), most or len(data)), 1))
    for byte in changed[place : place + 1]:
        changed[place] = byte ^ (1 << rng.randrange(8))
    return bytes(changed)


REPEATED: tuple[Damage, ...] = (
    _flip,
    partial(_flip, most=100),  # the header of most formats
    lambda data, rng: data[: rng.randrange(max(len(data), 1))],
)
ONCE: tuple[Damage, ...] = (
    lambda data, rng: b"",
    lambda data, rng: data * 2,
    lambda data, rng: None,
    lambda data, rng: data[:-1],
    lambda data, rng: data + b"\n",
)


def cases(path: Path, other: Path | None, repeats: int) -> Iterator[bytes | None]:
    """Yield replacements of a file; None: it is removed. other: of another pipeline."""
    data, rng = path.read_bytes(), random.Random(path.name)
    damages = [*REPEATED * repeats, *ONCE]
    changed = [damage(data, rng) for damage in damages]
    changed += [other.read_bytes()] if other is not None and other.is_file() else []
    yield from (one for one in changed if one != data)


def damaged(
    folder: Path,
    files: Iterable[Path],
    behaviour: Callable[[], Any],
    other: Path | None = None,
    repeats: int = REPEATS,
    clear_errors: tuple[type[Exception], ...] = (StructlearnError,),
) -> Iterator[str]:
    """Yield the outcome of each case of some files of a pipeline, and restore the files.

    behaviour: loads the pipeline and returns what it does. other: the folder of another pipeline.
    clear_errors: exceptions that are clear if they name the file.
    """
    sound = behaviour()
    for path in files:
        data = path.read_bytes()
        beside = None if other is None else other / path.relative_to(folder)
        try:
            for content in cases(path, beside, repeats):
                path.unlink(missing_ok=True)
                if content is not None:
                    path.write_bytes(content)
                try:
                    outcome = "harmless" if behaviour() == sound else "silent"
                except Exception as error:
                    text = f"{error} {getattr(error, 'filename', '')}"
                    # The parts of a component have one digest, in its model.
                    named = any(str(part) in text for part in (path, path.with_name("model")))
                    clear = isinstance(error, clear_errors) and named
                    outcome = "errors" if clear else "unclear"
                if outcome in ("unclear", "silent"):
                    logging.getLogger(__name__).warning("%s: %s", path, outcome)
                yield outcome
        finally:
            path.write_bytes(data)


def files_of(folder: Path, within: str = "") -> list[Path]:
    """Return the files of a pipeline, or of one of its folders, without meta.json."""
    files = sorted(path for path in (folder / within).rglob("*") if path.is_file())
    return [path for path in files if path.name != digests.META]


def loaded(load: Callable, path: Path, docs: Callable[[Language], list[Doc]]) -> tuple:
    """Return the bytes and predictions of a pipeline."""
    nlp = load(path)
    return nlp.to_bytes(), predictions(nlp, docs(nlp))


# --- pipelines ------------------------------------------------------------------------------------
def small_cases(names: Iterable[str], work: Path, repeats: int) -> Iterator[tuple[str, str]]:
    """Yield way of loading and outcome for each case of small pipelines, trained in `work`."""
    write_corpus(work)
    names = list(names)
    docs = partial(input_docs, path=work / "dev.spacy")
    for name in names:
        config = write_config(name, work / f"{name}.cfg", work)
        nlp = fitting.train(config, work / name, progress=False)
        nlp.to_disk(work / f"{name}.plain")
    for name in names:
        component, folder, plain = COMPONENTS[name], work / name, work / f"{name}.plain"
        alike = [one for one in names if one != name and COMPONENTS[one] == component]
        other = work / alike[0] if alike else None
        behaviour = partial(loaded, spacy_structlearn.load, folder, docs)
        for outcome in damaged(folder, files_of(folder), behaviour, other, repeats):
            yield "own", outcome
        behaviour = partial(loaded, spacy.load, plain, docs)
        clear_errors = (StructlearnError, OSError)
        files = files_of(plain, component)
        for outcome in damaged(plain, files, behaviour, other, repeats, clear_errors):
            yield "spacy_load", outcome


def default_cases(work: Path, repeats: int) -> Iterator[tuple[str, str]]:
    """Yield way of loading and outcome for each case of a copy of the default pipeline."""
    folder = Path(shutil.copytree(FOLDER, work / "package"))
    behaviour = partial(loaded, spacy_structlearn.load, folder, lambda nlp: [nlp.make_doc(TEXT)])
    for outcome in damaged(folder, files_of(folder), behaviour, None, repeats):
        yield "own", outcome


# --- figures --------------------------------------------------------------------------------------
def figures(outcomes: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the numbers of cases by way of loading and outcome, and their sums."""
    counts: dict[str, Counter[str]] = {"": Counter()}
    for way, outcome in outcomes:
        for part in ("", f".{way}"):
            counts.setdefault(part, Counter())[outcome] += 1
    result = {}
    for part, count in counts.items():
        result[f"corruption{part}.cases"] = count.total()
        result |= {f"corruption{part}.{outcome}": count[outcome] for outcome in OUTCOMES}
    return result


def run(
    names: Iterable[str] = tuple(COMPONENTS), repeats: int = REPEATS, default: bool = True
) -> dict[str, int]:
    """Run all cases and return the figures. default: whether to damage the default pipeline."""
    logging.getLogger("spacy").setLevel(logging.ERROR)
    with TemporaryDirectory() as folder:
        parts = [small_cases(names, Path(folder), repeats)]
        parts += [default_cases(Path(folder), 1)] if default else []
        return figures(case for part in parts for case in tqdm(part, "cases", disable=None))
