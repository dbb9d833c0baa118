"""The data on which the figures of a command depend."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PIPELINE = "en_structlearn_sm"
PACKAGED = ROOT / "spacy_structlearn" / "data" / PIPELINE
FETCHED = re.compile(r"python corpora/fetch\.py ((?:\w| )+)")
LOADS = re.compile(r"\bspacy_structlearn\.load\(|\bimport load$|\bPACKAGED\b", re.MULTILINE)


def text_of(path: Path) -> str:
    """Return the text of a source, "" if it is gone."""
    return path.read_text(encoding="utf8") if path.is_file() else ""


@cache
def data_of(module: str) -> Mapping[str, str]:
    """Return a digest of each corpus that a module fetches, and of the pipeline if it loads it.

    The corpora are those of the line `python corpora/fetch.py ...` of its docstring. The pipeline
    counts if the module, or one of its folder if this is one script, loads it.
    """
    base = ROOT.joinpath(*module.split("."))
    main = base / "__main__.py" if base.is_dir() else base.with_suffix(".py")
    fetched = FETCHED.search(text_of(main))
    names = [] if fetched is None else fetched[1].split()
    if any(LOADS.search(text_of(path)) for path in (main, *base.glob("*.py"))):
        names.append(PIPELINE)
    return {name: digest for name in names if (digest := data_digest(name))}


@cache
def data_digest(name: str) -> str:
    """Return a digest of what is pinned of a corpus, or of the files of the packaged pipeline.

    Of a corpus, its recipe in corpora.toml and the digests of its sources are pinned. The digest is
    empty if there is no such corpus.
    """
    if name == PIPELINE:
        return _digest(text_of(PACKAGED / "digests.json"))
    config = _recipes()
    recipe = config["corpora"].get(name)
    if recipe is None:
        return ""
    sources = [(config["sources"][key], _pinned().get(key, "")) for key in recipe["reads"]]
    return _digest(repr((recipe["reads"], recipe["builds"], sources)))


@cache
def _recipes() -> Mapping[str, Any]:
    return tomllib.loads(text_of(ROOT / "corpora" / "corpora.toml"))


@cache
def _pinned() -> Mapping[str, str]:
    """Return the lines of digests.txt by source."""
    parts = re.split(r"^\[", text_of(ROOT / "corpora" / "digests.txt"), flags=re.MULTILINE)[1:]
    return {name: lines for name, _, lines in (part.partition("]\n") for part in parts)}


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()
