"""Size and structure of the code, its checks, and whether a change of it keeps output and speed.

    python corpora/fetch.py ewt
    git worktree add ../before 458abad
    python -m training.benchmarks.house
    python -m training.benchmarks.house --before ../before
    python -m training.benchmarks.house --ci

`--before` needs an environment in which the other checkout is installed: by default .venv in it.
Both versions run the measurements of `paired` in processes that take turns. The figures are in
training/results/house.json:

lines.package, lines.tests, lines.training   lines of .py, .pyx, .pxd and .h files
lines.before.*         the same of the other checkout
circles                groups of modules of the package that import each other, imports in functions
                       included, imports for type checkers not
largest_file.python    lines of the longest .py file of the package; largest_file.any: of any file
files_per_room_max     maximum number of source files in a folder of the package
readme_kb              size of README.md, 1,000 bytes
audit.tables           tables on the pages of the papers; audit.open: those without a verdict
mypy.errors            errors of mypy in the package
same_output            1 if the built-in pipeline makes the same Docs as the other checkout, of the
                       text and of the gold tokens of dev of EWT, byte for byte
ratio.*                ours over the other checkout: words per CPU second of pipeline and parser,
                       seconds of load and train; the median over rounds, their standard error *_se
ci.wall_s              seconds of .ci/run in a clean clone; ci.parts: seconds of its parts, some of
                       which run in parallel; tests.wall_s: seconds of pytest
install.wall_s         seconds of the first command of the README in a clean clone
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from training.common import report
from training.common.recording import CORPORA, ROOT, record, show

PACKAGE = "spacy_structlearn"
PARTS = {"package": PACKAGE, "tests": "tests", "training": "training"}
SUFFIXES = (".py", ".pyx", ".pxd", ".h")
_TOOK = re.compile(r"^== (.+) took (\d+) s$", re.MULTILINE)  # in the output of .ci/run
_ERRORS = re.compile(r"^Found (\d+) errors?", re.MULTILINE)  # in the output of mypy

Figures = dict[str, Any]


# --- size -----------------------------------------------------------------------------------------
def lines(checkout: Path) -> dict[str, int]:
    """Return the number of lines of each source file, by its path in the checkout."""
    paths = (path for part in PARTS.values() for path in (checkout / part).rglob("*"))
    return {
        path.relative_to(checkout).as_posix(): len(path.read_bytes().splitlines())
        for path in sorted(paths)
        # Without the caches of training.
        if path.suffix in SUFFIXES and checkout / "training" / "work" not in path.parents
    }


def sizes(checkout: Path) -> Figures:
    """Return the figures of the files of a checkout."""
    found = lines(checkout)
    ours = {path: number for path, number in found.items() if path.startswith(f"{PACKAGE}/")}
    folders = Counter(path.rpartition("/")[0] for path in ours)
    return {
        **{
            f"lines.{name}": sum(n for path, n in found.items() if path.startswith(f"{part}/"))
            for name, part in PARTS.items()
        },
        "largest_file.any": max(ours.values()),
        "largest_file.python": max(n for path, n in ours.items() if path.endswith(".py")),
        "files_per_room_max": max(folders.values()),
        "readme_kb": (checkout / "README.md").stat().st_size / 1000,
    }


# --- imports --------------------------------------------------------------------------------------
def modules(checkout: Path) -> dict[str, Path]:
    """Return the files of the modules of the package, kernels included, by dotted name."""
    found = {}
    for path in sorted((checkout / PACKAGE).rglob("*.py*")):
        if path.suffix in (".py", ".pyx"):
            parts = path.relative_to(checkout).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imports(name: str, path: Path) -> set[str]:
    """Return the absolute names of what a Python module imports, also inside its functions.

    Imports for type checkers only are left out.
    """
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found: set[str] = set()
    nodes: list[ast.AST] = [ast.parse(path.read_text(encoding="utf8"))]
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            found.update(f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            nodes.extend(node.orelse)
        else:
            nodes.extend(ast.iter_child_nodes(node))
    return found


def circles(checkout: Path) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or by way of others.

    The top of the package, which every module can import, is not counted.
    """
    files = modules(checkout)
    names = sorted(name for name, path in files.items() if path.suffix == ".py" and name != PACKAGE)
    index = {name: number for number, name in enumerate(names)}
    graph = np.zeros((len(names), len(names)), dtype=bool)
    for name in names:
        for target in imports(name, files[name]):
            # The name of a module, or of something in it.
            there = index.get(target, index.get(target.rpartition(".")[0]))
            if there is not None:
                graph[index[name], there] = True
    _, group = connected_components(csr_array(graph), connection="strong")
    members = (np.flatnonzero(group == number) for number in np.unique(group))
    return [[names[i] for i in own] for own in members if len(own) > 1]


# --- checks ---------------------------------------------------------------------------------------
def mypy_errors(checkout: Path) -> int:
    """Return the number of errors that mypy finds. Raises RuntimeError if it cannot run."""
    command = [sys.executable, "-m", "mypy", PACKAGE]
    run = subprocess.run(command, cwd=checkout, capture_output=True, text=True)
    errors = _ERRORS.search(run.stdout)
    if run.returncode and errors is None:
        raise RuntimeError(run.stdout + run.stderr)
    return int(errors[1]) if errors else 0


def ci() -> Figures:
    """Return the seconds of .ci/run and of the README's first command, in clean clones.

    Raises SystemExit or CalledProcessError if one of them fails.
    """
    with TemporaryDirectory() as folder:
        clone, environment = Path(folder, "clone"), Path(folder, "environment")
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        began = perf_counter()
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        pip = [environment / "bin" / "pip", "install", "--quiet", "-e", "."]
        subprocess.run(pip, cwd=clone, check=True)
        parse = [environment / "bin" / "structlearn", "parse", "It works."]
        subprocess.run(parse, cwd=clone, check=True, stdout=subprocess.DEVNULL)
        installed = perf_counter() - began
    with TemporaryDirectory() as folder:
        clone = Path(folder, "clone")
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        began = perf_counter()
        command = [clone / ".ci" / "run"]
        run = subprocess.run(command, cwd=clone, stdout=subprocess.PIPE, text=True)
        seconds = perf_counter() - began
    if run.returncode:
        raise SystemExit(run.stdout)
    parts = {name: int(took) for name, took in _TOOK.findall(run.stdout)}
    return {
        "install.wall_s": installed,
        "ci.wall_s": seconds,
        **{f"ci.parts.{name.replace(' ', '_')}": took for name, took in parts.items()},
        "tests.wall_s": parts["tests"],
    }


# --- comparison -----------------------------------------------------------------------------------
def compare(before: Path, python: Path, rounds: int) -> Iterator[Figures]:
    """Yield the figures of this version beside those of an earlier one.

    python: the interpreter of an environment with the earlier version.
    """
    interpreters = {"ours": Path(sys.executable), "before": python}
    outputs = {name: measured(path, "output") for name, path in interpreters.items()}
    yield {"same_output": int(outputs["ours"] == outputs["before"])}
    yield {
        f"lines.before.{key.partition('.')[2]}": n
        for key, n in sizes(before).items()
        if key.startswith("lines.")
    }
    for part in ("load", "pipeline", "parser", "train"):
        ratios = []
        for number in range(rounds):
            order = sorted(interpreters, reverse=bool(number % 2))
            values = {name: measured(interpreters[name], part) for name in order}
            ratios.append(values["ours"] / values["before"])
        error = np.std(ratios, ddof=1) / np.sqrt(rounds)
        yield {f"ratio.{part}": float(np.median(ratios)), f"ratio.{part}_se": float(error)}


def measured(python: Path, part: str) -> Any:
    """Return the result of `paired` in a process of an interpreter. Raises CalledProcessError."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "STRUCTLEARN_CORPORA": str(CORPORA)}
    environment.pop("PYTHONPATH", None)
    with TemporaryDirectory() as folder:  # outside of both checkouts, so that neither is imported
        script = Path(__file__).with_name("paired.py")
        command = [python, script, part, folder]
        run = subprocess.run(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, check=True
        )
    return json.loads(run.stdout)


def figures() -> Figures:
    """Return the figures of the code as it stands."""
    tied = circles(ROOT)
    for group in tied:
        print("circle:", *group, sep="\n    ", file=sys.stderr)
    judged = [judged for name in report.PAPERS for judged in report.verdicts(name)]
    audit = {"audit.tables": len(judged), "audit.open": judged.count(False)}
    return {**sizes(ROOT), "circles": len(tied), **audit, "mypy.errors": mypy_errors(ROOT)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ci", action="store_true", help="only .ci/run and the installation")
    parser.add_argument("--before", type=Path, help="only the comparison with this checkout")
    parser.add_argument("--python", type=Path, help="its Python; default: .venv/bin/python in it")
    parser.add_argument("--rounds", type=int, default=7, help="of the comparison")
    arguments = parser.parse_args()
    if arguments.before is not None:
        python = arguments.python or arguments.before / ".venv" / "bin" / "python"
        python = python.absolute()  # processes have a folder of their own; links are kept
        parts = compare(arguments.before, python, arguments.rounds)
    else:
        parts = iter([ci() if arguments.ci else figures()])
    for found in parts:
        record("house", found)
        show(found)


if __name__ == "__main__":
    main()
