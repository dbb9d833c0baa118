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

# The ways of loading, and exceptions that are clear if they name the file.
CLEAR = {"own": (StructlearnError,), "spacy_load": (StructlearnError, OSError)}
OUTCOMES = ("errors", "harmless", "unclear", "silent")
REPEATS = 3  # cases of each kind and file

Damage = Callable[[bytes, random.Random], "bytes | None"]  # None: the file is removed


# --- damage ---------------------------------------------------------------------------------------
def _flip(data: bytes, rng: random.Random, most: int | None = None) -> bytes:
    """Change a bit, of the first `most` bytes."""
    changed = bytearray(data)
    if changed:
        changed[rng.randrange(len(changed[:most]))] ^= 1 << rng.randrange(8)
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


def damaged(
    way: str,
    folder: Path,
    behaviour: Callable[[], Any],
    repeats: int,
    within: str = "",
    other: Path | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield way of loading and outcome for each case of each file but meta.json, and restore it.

    behaviour: loads the pipeline and returns what it does. within: only files of this folder in it.
    other: the folder of another pipeline.
    """
    sound = behaviour()
    for path in sorted((folder / within).rglob("*")):
        if path.is_dir() or path.name == digests.META:
            continue
        data, rng = path.read_bytes(), random.Random(path.name)
        contents = [damage(data, rng) for damage in (*REPEATED * repeats, *ONCE)]
        if other is not None and (other / path.relative_to(folder)).is_file():
            contents.append((other / path.relative_to(folder)).read_bytes())
        try:
            for content in contents:
                if content == data:
                    continue
                path.unlink(missing_ok=True)
                if content is not None:
                    path.write_bytes(content)
                try:
                    outcome = "harmless" if behaviour() == sound else "silent"
                except Exception as error:
                    text = f"{error} {getattr(error, 'filename', '')}"
                    # The parts of a component have one digest, in its model.
                    named = any(str(part) in text for part in (path, path.with_name("model")))
                    clear = isinstance(error, CLEAR[way]) and named
                    outcome = "errors" if clear else "unclear"
                if outcome in ("unclear", "silent"):
                    logging.getLogger(__name__).warning("%s: %s", path, outcome)
                yield way, outcome
        finally:
            path.write_bytes(data)


def loaded(load: Callable, path: Path, docs: Callable[[Language], list[Doc]]) -> tuple:
    """Return the bytes and predictions of a pipeline."""
    nlp = load(path)
    return nlp.to_bytes(), predictions(nlp, docs(nlp))


# --- pipelines ------------------------------------------------------------------------------------
def cases(
    names: Iterable[str], work: Path, repeats: int, default: bool
) -> Iterator[tuple[str, str]]:
    """Yield way of loading and outcome for each case of pipelines in the folder `work`."""
    write_corpus(work)
    names = list(names)
    docs = partial(input_docs, path=work / "dev.spacy")
    for name in names:
        nlp = fitting.train(write_config(name, work), work / name, progress=False)
        nlp.to_disk(work / f"{name}.plain")
    for name in names:
        component, folder, plain = COMPONENTS[name], work / name, work / f"{name}.plain"
        alike = [one for one in names if one != name and COMPONENTS[one] == component]
        other = work / alike[0] if alike else None
        own = partial(loaded, spacy_structlearn.load, folder, docs)
        by_spacy = partial(loaded, spacy.load, plain, docs)
        yield from damaged("own", folder, own, repeats, other=other)
        yield from damaged("spacy_load", plain, by_spacy, repeats, component, other)
    if default:
        folder = shutil.copytree(FOLDER, work / "package")
        own = partial(loaded, spacy_structlearn.load, folder, lambda nlp: [nlp.make_doc(TEXT)])
        yield from damaged("own", folder, own, 1)


def run(
    names: Iterable[str] = tuple(COMPONENTS), repeats: int = REPEATS, default: bool = True
) -> dict[str, int]:
    """Run all cases and return the figures. default: whether to damage the default pipeline."""
    logging.getLogger("spacy").setLevel(logging.ERROR)
    parts = ("corruption", *(f"corruption.{way}" for way in CLEAR))
    figures = {f"{part}.{key}": 0 for part in parts for key in ("cases", *OUTCOMES)}
    with TemporaryDirectory() as folder:
        for way, outcome in tqdm(cases(names, Path(folder), repeats, default), disable=None):
            for part in ("corruption", f"corruption.{way}"):
                figures[f"{part}.cases"] += 1
                figures[f"{part}.{outcome}"] += 1
    return figures
