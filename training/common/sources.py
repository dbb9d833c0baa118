"""The code and the data on which the figures of a command depend."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import blake2b
from importlib.util import resolve_name
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


# --- code -----------------------------------------------------------------------------------------
@cache
def code_of(module: str) -> frozenset[str]:
    """Return the paths of the modules that a module needs, itself included, relative to ROOT."""
    found: dict[str, Path] = {}
    todo = [module, f"{module}.__main__"]
    while todo:
        name = todo.pop()
        path = path_of(name)
        if name in found or path is None:
            continue
        found[name] = path
        parts = name.split(".")
        todo += [".".join(parts[:length]) for length in range(1, len(parts))]
        todo += imports(name, path)
    headers = (path.with_suffix(".pxd") for path in found.values() if path.suffix == ".pyx")
    paths = {*found.values(), *(path for path in headers if path.is_file())}
    return frozenset(str(path.relative_to(ROOT)) for path in paths)


def path_of(name: str) -> Path | None:
    """Return the source of a module of training or of the package, or None."""
    if name.split(".")[0] not in ("training", "spacy_structlearn"):
        return None
    base = ROOT.joinpath(*name.split("."))
    places = [base / "__init__.py", *map(base.with_suffix, (".py", ".pyx", ".pxd"))]
    return next((place for place in places if place.is_file()), None)


@cache
def imports(name: str, path: Path) -> tuple[str, ...]:
    """Return the names of what a module imports or may import; of kernels what they cimport."""
    text = text_of(path)
    if path.suffix != ".py":
        return tuple(re.findall(r"^from (\S+) c?import", text, re.MULTILINE))
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            found += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return tuple(found)


# --- data -----------------------------------------------------------------------------------------
@cache
def data_of(module: str) -> Mapping[str, str]:
    """Return a digest of each corpus that a module fetches, and of the pipeline if it loads it.

    The corpora are those of the line `python corpora/fetch.py ...` of its docstring. The pipeline
    counts if the module, or one that it needs from its own folder, loads it. Shared modules have
    functions that load it, too, but few of the commands that import them call these.
    """
    main = path_of(f"{module}.__main__") or path_of(module)
    if main is None:
        return {}
    fetched = FETCHED.search(text_of(main))
    names = [] if fetched is None else fetched[1].split()
    near = (ROOT / path for path in code_of(module) if (ROOT / path).parent == main.parent)
    if any(LOADS.search(text_of(path)) for path in near):
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
    return dict(_sections(text_of(ROOT / "corpora" / "digests.txt")))


def _sections(text: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^\[", text, flags=re.MULTILINE)[1:]:
        name, _, lines = part.partition("]\n")
        yield name, lines


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()
