"""Everything public says what it is for, and everything that a config can name says what each of
its settings does.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path

import pytest

import spacy_structlearn

PACKAGE = Path(spacy_structlearn.__file__).parent
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
KERNELS = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.pyx"))
REGISTERED = [
    point
    for point in distribution("spacy-structlearn").entry_points
    if point.group.startswith("spacy_")
]
# Not in a config: spaCy gives them to a factory.
GIVEN = {"spacy_factories": {"nlp", "name"}}
SEE = re.compile(r"see `(\w+)`")


def imported(path: str):
    """The module of a file of the package."""
    parts = Path(path).with_suffix("").parts
    names = parts[:-1] if parts[-1] == "__init__" else parts
    return import_module(".".join((PACKAGE.name, *names)))


def public(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    """But for the setters of properties, which are told by what is set."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
            if f"{node.name}.setter" not in decorators:
                yield node


def is_inherited(kind: type, name: str) -> bool:
    """Whether a base of the class says what this method or property is for."""
    return any(inspect.getdoc(vars(base)[name]) for base in kind.__mro__[1:] if name in vars(base))


def undocumented(path: str) -> Iterator[str]:
    """Functions, classes and methods of a file without a text, their own or that of a base;
    properties may also be explained where their class is.

    Their text is looked for in the source, because Python gives named tuples and enums one.
    """
    for node in public(ast.parse((PACKAGE / path).read_text(encoding="utf8")).body):
        if not ast.get_docstring(node):
            yield node.name
        if isinstance(node, ast.ClassDef):
            kind = getattr(imported(path), node.name)
            for part in public(node.body):
                said = ast.get_docstring(part) or part.name in explained(kind.__doc__ or "")
                if not said and not is_inherited(kind, part.name):
                    yield f"{node.name}.{part.name}"


@pytest.mark.parametrize("path", [path for path in MODULES if path != "__main__.py"])
def test_everything_public_is_documented(path):
    assert ast.get_docstring(ast.parse((PACKAGE / path).read_text(encoding="utf8"))), path
    assert [*undocumented(path)] == []


@pytest.mark.parametrize("path", KERNELS)
def test_everything_public_of_a_kernel_is_documented(path):
    module = imported(path)
    assert module.__doc__
    own = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }
    # Those with declarations are for other kernels alone.
    assert own or (PACKAGE / path).with_suffix(".pxd").exists()
    assert [name for name, value in own.items() if not value.__doc__] == []


def explained(text: str) -> set[str]:
    """The arguments that a docstring explains: `order: of the chain`, `l1, l2: strengths`, or, with
    type and default, `order (int, default 1): of the chain`."""
    before = re.findall(r"(\w+(?:,\s+\w+)*)(?:\s+\([^)]*\))?:(?=\s)", text)
    return {name for names in before for name in re.split(r",\s+", names)}


def test_explained_arguments_are_those_before_a_colon():
    text = "Take `value: int`.\n\norder: 1 or 2. l1,\n    l2: strengths, as in cost: none::x"
    assert explained(text) == {"value", "order", "l1", "l2", "cost"}


@pytest.mark.parametrize("point", REGISTERED, ids=lambda point: point.name)
def test_every_setting_of_a_config_is_explained(point):
    """In the docstring of the function, or in that which it says to see for the rest."""
    function = point.load()
    text = inspect.getdoc(function) or ""
    others = {other.attr: other.load() for other in REGISTERED} | function.__globals__
    texts = [text, *(others[name].__doc__ for name in SEE.findall(text))]
    settings = {*inspect.signature(function).parameters} - GIVEN.get(point.group, set())
    assert settings - set().union(*map(explained, texts)) == set()
