"""Size and structure of the code, and the time of its checks.

    python -m training.benchmarks.house
    python -m training.benchmarks.house --ci

Code is parsed, not executed, except for `penalty`. The figures are in training/results/house.json:

lines.package        lines of .py, .pyx, .pxd, .pyi, .h and .cfg files in spacy_structlearn, without
                     its data; package_of: by suffix
lines.tests          lines of .py files in tests; lines.training: in training, without work/
files.grammar_per_room_max   maximum number of source files in a folder of grammar/
inside_passes        functions of the kernels of grammar/ whose name begins with inside, without
                     callers of other such functions in the same kernel
decoders.implementations     kernels of grammar/ with a function that selects the best tree of a
                     forest: best, best_tree or viterbi
settings.learners    registered architectures with a learner: `build_x = architecture(X)`, a
                     function decorated with the settings X, or one that calls `learner_model`; only
                     the latest version
settings.n           their settings: arguments of these functions, exposed fields of X
settings.places_max  maximum number of places with a default of one setting of a learner. Places are
                     (1) the function, and functions beginning with _ that it calls in its module;
                     (2) the dataclasses that these create, or X, with inherited classes: fields
                     (without overridden ones), and arguments of constructors and class methods; (3)
                     the same for classes of the family (the folder of such a class) that methods of
                     (2) create or whose class methods they call, except for constructors of stored
                     models, whose arguments are parameters. Each place counts once. Settings of
                     other learners and arguments without a default do not count.
settings.repeated    number of settings with more than one place
trainers.protocols   classes that declare the interface of a trainer: those that inherit Protocol
                     and have a method `step`, and those with `step` and `resume` that inherit no
                     class of the package and raise NotImplementedError in a method
class_names.duplicated   repeated names of classes in .py and .pyx files, including private ones
penalty.formulas     for l1 and l2: number of different formulas that explain settings of this name
ci.wall_s            with --ci: seconds of .ci/run in a clean clone; ci.parts: seconds of its parts,
                     some of which run in parallel; tests.wall_s: seconds of pytest
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from training.common.recording import ROOT, record, show

PACKAGE = "spacy_structlearn"
RESULTS = "house"
SUFFIXES = (".py", ".pyx", ".pxd", ".pyi", ".h", ".cfg")
_VERSIONED = re.compile(rf"{PACKAGE}\.(\w+)\.v(\d+)")
_FUNCTION = re.compile(r"^\s*(?:cdef|cpdef|def) [^(\n]*?(\w+)\(", re.MULTILINE)
_TOOK = re.compile(r"^== (.+) took (\d+) s$", re.MULTILINE)  # in the output of .ci/run
_CLASS = re.compile(r"^\s*(?:cdef )?class (\w+)", re.MULTILINE)

Figures = dict[str, Any]
Function = ast.FunctionDef | ast.AsyncFunctionDef


# --- lines ----------------------------------------------------------------------------------------
def lines(checkout: Path) -> Figures:
    """Count the lines of a checkout."""
    package = checkout / PACKAGE
    data = package / "data"
    of = {suffix: _lines(package, suffix, data) for suffix in SUFFIXES}
    return {
        "package": sum(of.values()),
        **{f"package_of.{suffix[1:]}": number for suffix, number in of.items()},
        "tests": _lines(checkout / "tests", ".py"),
        "training": _lines(checkout / "training", ".py", checkout / "training" / "work"),
    }


def _lines(folder: Path, suffix: str, without: Path | None = None) -> int:
    return sum(
        len(path.read_text(encoding="utf8").splitlines())
        for path in folder.rglob(f"*{suffix}")
        if without is None or without not in path.parents
    )


# --- code -----------------------------------------------------------------------------------------
class Place(NamedTuple):
    """A function or a class: the name of its module, and its syntax tree."""

    module: str
    node: ast.stmt

    @property
    def name(self) -> str:
        return self.node.name  # type: ignore[attr-defined]

    @property
    def family(self) -> str:
        return self.module.rpartition(".")[0]


class Code:
    """The modules of the package of a checkout, parsed without importing them."""

    def __init__(self, checkout: Path):
        self.checkout = checkout
        self.modules: dict[str, ast.Module] = {}
        for path in sorted((checkout / PACKAGE).rglob("*.py")):
            parts = path.relative_to(checkout).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            self.modules[name] = ast.parse(path.read_text(encoding="utf8"))
        self._names = {name: _names(module.body) for name, module in self.modules.items()}

    def resolve(self, module: str, name: str, within: ast.AST | None = None) -> Place | None:
        """Return the definition of a name in a module, if it is in the package.

        within: a statement that can contain its own imports.
        """
        own = {} if within is None else _names(ast.walk(within), imports=True)
        seen = set()
        if name in own:
            module, name = self._source(module, *own[name])
        while (module, name) not in seen:
            seen.add((module, name))
            found = self._names.get(module, {}).get(name)
            if not isinstance(found, tuple):
                return None if found is None else Place(module, found)
            module, name = self._source(module, *found)
        return None

    @cached_property
    def classes(self) -> list[Place]:
        return [
            Place(name, node)
            for name, module in self.modules.items()
            for node in ast.walk(module)
            if isinstance(node, ast.ClassDef)
        ]

    def bases(self, place: Place) -> list[Place]:
        """Return a class and the inherited classes of the package."""
        found = [place]
        for module, node in found:
            for base in getattr(node, "bases", ()):
                base = base.value if isinstance(base, ast.Subscript) else base
                above = self.resolve(module, base.id) if isinstance(base, ast.Name) else None
                if above is not None and above not in found:
                    found.append(above)
        return found

    def called(self, module: str, node: ast.AST) -> Iterator[tuple[Place, str]]:
        """Yield functions and classes called in a statement; for X.method() X and the method."""
        for call in ast.walk(node):
            if not isinstance(call, ast.Call):
                continue
            function, method = call.func, ""
            if isinstance(function, ast.Attribute):
                function, method = function.value, function.attr
            if isinstance(function, ast.Name):
                place = self.resolve(module, function.id, node)
                if place is not None and isinstance(place.node, (ast.ClassDef, Function)):
                    yield place, method

    def _source(self, module: str, level: int, source: str, name: str) -> tuple[str, str]:
        """Return the module that a name is imported from, and its name there."""
        is_package = (self.checkout / Path(*module.split(".")) / "__init__.py").is_file()
        parts = module.split(".")
        above = parts[: len(parts) + is_package - level] if level else []
        return ".".join([*above, *filter(None, [source])]), name


def _names(statements: Iterable[ast.AST], *, imports: bool = False) -> dict[str, Any]:
    """Return the definitions of names, or the sources of their imports. imports: only imports."""
    found: dict[str, Any] = {}
    for node in statements:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                source = node.level, node.module or "", alias.name
                found[alias.asname or alias.name] = source
        elif isinstance(node, ast.If):  # if TYPE_CHECKING
            found |= _names(node.body, imports=imports)
        elif not imports and isinstance(node, (ast.ClassDef, Function)):
            found[node.name] = node
        elif not imports and isinstance(node, ast.Assign):
            found |= {t.id: node for t in node.targets if isinstance(t, ast.Name)}
    return found


# --- settings -------------------------------------------------------------------------------------
class Learner(NamedTuple):
    """A registered architecture: its builder, and the dataclasses of its settings."""

    name: str
    build: list[Place]
    holders: list[Place]
    settings: frozenset[str]


def learners(code: Code) -> list[Learner]:
    """Return the registered learners."""
    project = tomllib.loads((code.checkout / "pyproject.toml").read_text(encoding="utf8"))
    latest: dict[str, tuple[int, str]] = {}
    for name, target in project["project"]["entry-points"]["spacy_architectures"].items():
        found = _VERSIONED.fullmatch(name)
        if found:
            latest[found[1]] = max(latest.get(found[1], (0, "")), (int(found[2]), target))
    made = (_learner(code, name, *target.split(":")) for name, (_, target) in latest.items())
    return [learner for learner in made if learner is not None]


def _learner(code: Code, name: str, module: str, attribute: str) -> Learner | None:
    place = code.resolve(module, attribute)
    if place is None:
        raise ValueError(f"{name}: there is no {attribute} in {module}")
    decorators = getattr(place.node, "decorator_list", [])
    call = getattr(place.node, "value", None) or (decorators[0] if decorators else None)
    if isinstance(call, ast.Call):
        if _name(call.func) not in ("architecture", "_documented") or "Encoder" in name:
            return None
        kind = code.resolve(place.module, _name(call.args[0]))
        if kind is None:
            raise ValueError(f"{name}: {ast.unparse(call)} is of no class of the package")
        holders = code.bases(kind)
        exposed: dict[str, bool] = {}
        for holder in reversed(holders):  # the class overrides its bases
            exposed |= _exposed(holder.node)
        return Learner(name, [], holders, frozenset(n for n, yes in exposed.items() if yes))
    build = [place]
    for step in build:
        for found, _ in code.called(*step):
            private = found.module == place.module and found.name.startswith("_")
            if private and isinstance(found.node, Function) and found not in build:
                build.append(found)
    called = [found for step in build for found, method in code.called(*step) if not method]
    if not any(found.name == "learner_model" for found in called):
        return None
    kinds = [found for found in called if _is_dataclass(found.node)]
    holders = list(dict.fromkeys(above for kind in kinds for above in code.bases(kind)))
    arguments = place.node.args  # type: ignore[union-attr]
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return Learner(name, build, holders, frozenset(names))


def places(code: Code) -> dict[tuple[str, str], list[str]]:
    """Return the places with a default for each setting of each learner."""
    found_learners = learners(code)
    found: dict[tuple[str, str], list[str]] = {}
    for learner in found_learners:
        others = {p for other in found_learners for p in other.holders} - set(learner.holders)
        names: list[tuple[str, str]] = []
        fields: dict[str, str] = {}
        for place in dict.fromkeys([*learner.build, *learner.holders]):
            own = set(_fields(place.node))
            names += [(n, _shown(place)) for n in _defaults(place.node) if n not in own]
            fields = dict.fromkeys(own, _shown(place)) | fields  # the class precedes its bases
        names += fields.items()
        for holder in learner.holders:
            for place, method in code.called(*holder):
                kinds = code.bases(place)
                is_class = isinstance(place.node, ast.ClassDef)
                if not is_class or place.family != holder.family or others & set(kinds):
                    continue
                if not method and any(kind.name == "Stored" for kind in kinds):
                    continue
                for kind in kinds:
                    names += [(setting, _shown(kind)) for setting in _defaults(kind.node, method)]
        for setting in sorted(learner.settings):
            found[learner.name, setting] = sorted({at for name, at in names if name == setting})
    return found


def _defaults(node: ast.stmt, method: str | None = None) -> list[str]:
    """Return the names with a default in a function or class. method: only of this method of a
    class, "" for its constructor; None for its constructor and all class methods."""
    if isinstance(node, Function):
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        given = positional[len(positional) - len(arguments.defaults) :]
        keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        return [a.arg for a in (*given, *(a for a, default in keywords if default is not None))]
    if not isinstance(node, ast.ClassDef):
        return []
    found = _fields(node) if not method else []
    for part in node.body:
        if isinstance(part, Function):
            is_made = part.name == "__init__" and not method
            of_class = "classmethod" in map(_name, part.decorator_list)
            if is_made or part.name == method or (method is None and of_class):
                found += _defaults(part)
    return found


def _fields(node: ast.stmt) -> list[str]:
    """Return the fields of a class with a default."""
    return [_name(part.target) for part in _annotated(node) if part.value is not None]


def _exposed(node: ast.stmt) -> dict[str, bool]:
    """Return the fields of a class, and whether they are in a config."""
    found = {}
    for part in _annotated(node):
        keywords = part.value.keywords if isinstance(part.value, ast.Call) else []
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in keywords}
        found[_name(part.target)] = given.get("exposed") != "False"
    return found


def _annotated(node: ast.stmt) -> list[ast.AnnAssign]:
    return [
        part
        for part in getattr(node, "body", ())
        if isinstance(part, ast.AnnAssign) and "ClassVar" not in ast.unparse(part.annotation)
    ]


def _is_dataclass(node: ast.stmt) -> bool:
    return isinstance(node, ast.ClassDef) and "dataclass" in map(_name, node.decorator_list)


def _name(node: ast.expr) -> str:
    """Return the name of a variable, or of a called or subscripted expression, or ""."""
    node = node.func if isinstance(node, ast.Call) else node
    node = node.value if isinstance(node, ast.Subscript) else node
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _shown(place: Place) -> str:
    return f"{place.module.partition('.')[2]}.{place.name}"


# --- classes --------------------------------------------------------------------------------------
def protocols(code: Code) -> list[str]:
    """Return the classes that declare the interface of a trainer."""
    found = []
    for place in code.classes:
        node = place.node
        assert isinstance(node, ast.ClassDef)
        methods = {part.name for part in node.body if isinstance(part, Function)}
        errors = [part.exc for part in ast.walk(node) if isinstance(part, ast.Raise) and part.exc]
        is_abstract = "NotImplementedError" in map(_name, errors) and len(code.bases(place)) == 1
        declares = {"step", "resume"} if is_abstract else {"step"}
        if declares <= methods and (is_abstract or "Protocol" in map(_name, node.bases)):
            found.append(_shown(place))
    return found


def duplicated(code: Code) -> list[str]:
    """Return the names of several classes."""
    names = Counter(place.name for place in code.classes)
    for path in (code.checkout / PACKAGE).rglob("*.pyx"):
        names.update(_CLASS.findall(path.read_text(encoding="utf8")))
    return sorted(name for name, number in names.items() if number > 1)


def counted(checkout: Path) -> tuple[Figures, dict[str, list[str]]]:
    """Return all figures of the code, and the names that were counted for each figure."""
    code = Code(checkout)
    defined = places(code)
    repeated = {key: found for key, found in defined.items() if len(found) > 1}
    named = {
        "settings.repeated": [f"{'.'.join(key)}: {', '.join(at)}" for key, at in repeated.items()],
        "trainers.protocols": protocols(code),
        "class_names.duplicated": duplicated(code),
    }
    return {
        **{f"lines.{key}": value for key, value in lines(checkout).items()},
        "settings.learners": len({learner for learner, _ in defined}),
        "settings.n": len(defined),
        "settings.places_max": max(map(len, defined.values())),
        **rooms(checkout),
        **{key: len(found) for key, found in named.items()},
    }, named


def rooms(checkout: Path) -> Figures:
    """Return figures of the folders of grammar/."""
    grammar = checkout / PACKAGE / "grammar"
    suffixes = (".py", ".pyx", ".pxd", ".pxi", ".h")
    files = Counter(path.parent for suffix in suffixes for path in grammar.rglob(f"*{suffix}"))
    inside, decoders = set(), set()
    for path in grammar.rglob("*.py[xi]"):
        for name in _FUNCTION.findall(path.read_text(encoding="utf8")):
            if name.startswith("inside"):
                inside.add((path, name.removesuffix("_outside")))
            if name in ("best", "best_tree", "viterbi"):
                decoders.add(path)
    return {
        "files.grammar_per_room_max": max(files.values(), default=0),
        "inside_passes": len(inside),
        "decoders.implementations": len(decoders),
    }


# --- penalties ------------------------------------------------------------------------------------
def formulas() -> Figures:
    """Return the formulas that explain the settings l1 and l2 of all learners."""
    from importlib import import_module
    from pkgutil import walk_packages

    import spacy_structlearn
    from spacy_structlearn.learning.settings import Settings

    for module in walk_packages(spacy_structlearn.__path__, f"{PACKAGE}."):
        if not module.name.endswith("__main__"):
            try:
                import_module(module.name)
            except ImportError as error:  # an optional dependency
                print(f"skipped: {error}", file=sys.stderr)
    kinds: list[type] = [Settings]
    for kind in kinds:
        kinds += kind.__subclasses__()
    found: dict[str, set[str]] = {"l1": set(), "l2": set()}
    for kind in kinds:
        for name in found.keys() & kind.__dataclass_fields__.keys():
            text = kind.__dataclass_fields__[name].metadata["help"]
            found[name].update(penalties(name, text))
    return {name: sorted(formulas) for name, formulas in found.items()}


def penalties(name: str, text: str) -> list[str]:
    """Return the formulas of a penalty in an explanation, or the whole text if there are none."""
    return re.findall(rf"\b{name}\b[^.,;()]*?\|w\|[\w^]*(?: / \w+)?", text) or [text]


# --- CI -------------------------------------------------------------------------------------------
def ci() -> Figures:
    """Return the seconds of .ci/run in a clean clone, total and by part.

    Raises CalledProcessError if it fails.
    """
    with TemporaryDirectory() as folder:
        clone = Path(folder, "clone")
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        start = perf_counter()
        command = [clone / ".ci" / "run"]
        run = subprocess.run(command, cwd=clone, stdout=subprocess.PIPE, text=True, check=True)
        seconds = perf_counter() - start
    parts = {name: int(took) for name, took in _TOOK.findall(run.stdout)}
    return {
        "ci.wall_s": seconds,
        **{f"ci.parts.{name.replace(' ', '_')}": took for name, took in parts.items()},
        "tests.wall_s": parts["tests"],
    }


# --- the run --------------------------------------------------------------------------------------
def figures() -> Iterator[Figures]:
    """Yield all figures of the code."""
    found, named = counted(ROOT)
    for key, items in named.items():
        print(f"{key}:", *items, sep="\n    ", file=sys.stderr)
    yield found
    yield {f"penalty.formulas.{name}": len(items) for name, items in formulas().items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ci", action="store_true", help="only run .ci/run, and record its times")
    for found in [ci()] if parser.parse_args().ci else figures():
        record(RESULTS, found)
        show(found)


if __name__ == "__main__":
    main()
