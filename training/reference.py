"""Write the reference, training/guides/reference.md, from the code.

    python -m training.reference

Everything on the page comes from where it is defined: docstrings, settings, error messages.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from importlib.metadata import EntryPoint, distribution
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from spacy.language import Language
from spacy.tokens import Doc
from typer.models import ArgumentInfo

from spacy_structlearn.cli import app
from spacy_structlearn.errors import MESSAGES
from spacy_structlearn.groups import GROUPS
from spacy_structlearn.learning.annotations import hints, shown
from spacy_structlearn.learning.settings import reference
from spacy_structlearn.matching import relations, tregex
from spacy_structlearn.matching.patterns import FLAGS, LABEL, LENGTH, TEXTS, compiled
from spacy_structlearn.pipeline.extensions import (
    GETTERS,
    METHODS,
    Clause,
    Frame,
    FrameArgument,
    Part,
    PPAttachment,
    Proposition,
)
from spacy_structlearn.pipeline.extensions.matcher import ConstituentMatcher
from spacy_structlearn.pipeline.training.factories import SETTINGS
from spacy_structlearn.trees.tree import Tree
from training.common.recording import ROOT

PAGE = ROOT / "training" / "guides" / "reference.md"
LONGEST = 70  # characters of a default; longer ones are cut
INTRODUCTION = """\
<!-- Written by python -m training.reference: do not edit. -->

# Reference

Every attribute, span group, component, setting, command and error of the package. This page is
generated from the code. In Python, `help(nlp.get_pipe("constituency_parser"))` describes a
component with its settings.

* [Attributes](#attributes)
* [Span groups](#span-groups)
* [Patterns of trees](#patterns-of-trees)
* [Components](#components)
* [Architectures](#architectures)
* [Readers and other functions](#readers-and-other-functions)
* [Commands](#commands)
* [Errors](#errors)
"""
FUNCTIONS = [f"spacy_{kind}" for kind in ("readers", "misc", "tokenizers", "scorers", "batchers")]


def main() -> None:
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    PAGE.write_text(page(), encoding="utf8")


def page() -> str:
    """The whole page."""
    parts = attributes, groups, patterns, components, architectures, functions, commands, errors
    text = "\n".join([INTRODUCTION, *(line for part in parts for line in part())])
    # Docstrings name the functions of the code, a config their registered names.
    for group in ("spacy_architectures", "spacy_factories", *FUNCTIONS):
        for point in registered(group):
            if re.match("(build|create|make)_", point.attr):
                text = text.replace(f"`{point.attr}`", f"`{point.name}`")
    return text


def attributes() -> Iterator[str]:
    yield "## Attributes\n"
    yield (
        "All of them are read-only views of the [span groups](#span-groups). The functions in\n"
        "`spacy_structlearn.pipeline.extensions` with the same names return the same values, for "
        "type\ncheckers: `frames(doc)` is `doc._.frames`.\n"
    )
    for kind, getters in GETTERS.items():
        rows = [attribute(f"{kind.__name__.lower()}._.", getter) for getter in getters]
        yield from table(("attribute", "type", "meaning"), rows)
    yield "Methods of Docs and Spans, functions of `spacy_structlearn.pipeline.extensions`, too:\n"
    rows = [attribute("doc._.", method) for method in METHODS[Doc]]
    yield from table(("method", "type", "meaning"), rows)
    for kind in (Frame, FrameArgument, PPAttachment, Clause, Proposition, Part, Tree):
        yield f"### {kind.__name__}\n"
        yield listed(kind)
        if fields := getattr(kind, "_fields", ()):
            types = hints(kind)
            yield f"Fields: {', '.join(f'`{name}` ({shown(types[name])})' for name in fields)}.\n"
        yield from methods(kind)


def attribute(owner: str, getter: Callable) -> tuple[str, str, str]:
    """The row of an attribute or a method: its name, type and meaning."""
    meaning = re.sub("^(Get|Check) ", "", inspect.getdoc(getter) or "")
    kind = inspect.signature(getter).return_annotation
    return code(f"{owner}{getter.__name__}"), code(kind), flat(meaning)


def methods(kind: type) -> list[str]:
    """The table of the public methods and properties of a class; empty if it has none."""
    rows = [
        (code(name), flat(inspect.getdoc(part) or ""))
        for name, part in vars(kind).items()
        if name == "__call__" or name[0] != "_"
        if inspect.isfunction(part) or isinstance(part, (property, classmethod))
    ]
    return table(("method or property", "meaning"), rows) if rows else []


def groups() -> Iterator[str]:
    yield "## Span groups\n"
    yield (
        "Predictions are stored in `doc.spans`, and the probabilities in "
        '`doc.spans[key].attrs["scores"]`, one per\nspan. Gold annotation for training has the '
        "same form.\n"
    )
    yield from table(("key", "spans"), ((code(key), flat(text)) for key, text in GROUPS.items()))


def patterns() -> Iterator[str]:
    yield "## Patterns of trees\n"
    yield "[Search in trees](searching_trees.md) has examples.\n"
    yield "### ConstituentMatcher\n"
    yield listed(ConstituentMatcher)
    yield from methods(ConstituentMatcher)
    yield "### Relations\n"
    rows = re.findall(r"^\| (A .*?) \| (.*) \|$", relations.__doc__ or "", re.MULTILINE)
    yield from table(("relation", "meaning"), ((code(of), flat(text)) for of, text in rows))
    yield "A tag is above its word, which is its only child and its head child. No relation crosses"
    yield "sentences. With `!` before the operator, there must be no such node.\n"
    yield "### Patterns as strings\n"
    yield f"{escaped((tregex.__doc__ or '').partition(chr(10) * 2)[2])}"
    yield "### Patterns as lists of dicts\n"
    yield listed(compiled)
    yield f"Of any node: {joined([LABEL, LENGTH])}, the number of words. Of tags, the attributes of"
    yield f"their words: {joined(sorted(TEXTS))}, {joined(sorted(FLAGS))}. `TEXT` is `ORTH`."
    yield 'A value is given as such, in a list after `"IN"` or `"NOT_IN"`, as `{"REGEX": ...}`,'
    yield 'which is searched for anywhere in it, or, of `LENGTH`, as `{">=": 3}`.\n'


def components() -> Iterator[str]:
    yield "## Components\n"
    yield "Add a component with `nlp.add_pipe(name, config={setting: value})`.\n"
    for point in registered("spacy_factories"):
        function = point.load()
        # A component that is a function has no settings.
        component = getattr(function, "component", function)
        meta = Language.get_factory_meta(point.name)
        yield f"### {point.name}\n"
        yield listed(component, until=SETTINGS)
        yield f"* assigns: {joined(meta.assigns)}"
        yield f"* requires: {joined(meta.requires)}"
        yield f"* scores: {joined(meta.default_score_weights)}\n"
        if component is not function:
            rows = [("model", "", "", "The [architecture](#architectures).")]
            rows += reference(component.settings_kind)
            rows += [("scorer", "", "", "The scoring function for `nlp.evaluate`.")]
            yield from settings(rows, meta.default_config)


def architectures() -> Iterator[str]:
    yield "## Architectures\n"
    yield (
        "The learner of a component, `[components.NAME.model]` in a config. Long defaults are cut "
        "here;\n`python -m spacy init fill-config` writes them in full.\n"
    )
    yield from registered_functions("spacy_architectures")


def functions() -> Iterator[str]:
    yield "## Readers and other functions\n"
    yield "Registered functions that a config can name.\n"
    for group in FUNCTIONS:
        yield from registered_functions(group, key=f"`@{group.removeprefix('spacy_')}`\n")


def registered_functions(group: str, key: str = "") -> Iterator[str]:
    for point in registered(group):
        kind = getattr(point.load(), "settings", None)
        yield f"### {point.name}\n"
        if key:
            yield key
        yield listed(kind or point.load())
        if kind is not None:
            yield from settings(reference(kind))


def commands() -> Iterator[str]:
    yield "## Commands\n"
    for command in app.registered_commands:
        assert command.callback is not None
        parts = inspect.signature(command.callback).parameters
        hints = get_type_hints(command.callback, include_extras=True)
        kinds = {name: annotated for name in parts if (annotated := described_by(hints[name]))}
        arguments = [name for name, (_, info) in kinds.items() if isinstance(info, ArgumentInfo)]
        usage = " ".join(option(name, *kinds[name]) for name in arguments)
        yield f"### structlearn {command.name}\n"
        yield f"`structlearn {command.name} {usage}`\n"
        yield f"{escaped(inspect.getdoc(command.callback) or '')}\n"
        rows = [
            (code(option(name, kind, info)), code(given(parts[name])), flat(info.help or ""))
            for name, (kind, info) in kinds.items()
        ]
        yield from table(("argument or option", "default", "meaning"), rows)


def described_by(hint: Any) -> tuple[Any, Any] | None:
    """The type and the description of a parameter; None for the context of typer."""
    # Python 3.10 puts Optional around it if the default is None.
    for part in (hint, *get_args(hint)):
        if get_origin(part) is Annotated:
            return get_args(part)
    return None


def option(name: str, kind: Any, info: Any) -> str:
    """An argument or an option, with its choices."""
    if isinstance(info, ArgumentInfo):
        return info.metavar or name.upper()
    # typer takes the first name for the default, which here is that of the parameter.
    first = [info.default] if isinstance(info.default, str) else []
    names = ", ".join([*first, *info.param_decls] or ["--" + name.replace("_", "-")])
    of = next(part for part in get_args(kind) or [kind] if part is not NoneType)
    enum = isinstance(of, type) and issubclass(of, Enum)
    choices = "|".join(str(choice.value) for choice in of) if enum else info.metavar
    return f"{names} {choices}" if choices else names


def given(part: inspect.Parameter) -> str:
    """The default, if it says something."""
    value = getattr(part.default, "value", part.default)
    return "" if value in (None, False, inspect.Parameter.empty) else str(value)


def errors() -> Iterator[str]:
    yield "## Errors\n"
    yield (
        "The error is a `spacy_structlearn.errors.StructlearnError`, a ValueError, and `code` its "
        "code. Names in\nbraces are filled in. Codes from SL801 on are warnings, which "
        "`warnings.filterwarnings`\ncan turn off.\n"
    )
    rows = ((f"`{key}`", flat(MESSAGES[key])) for key in sorted(MESSAGES))
    yield from table(("code", "message"), rows)


# --- text -----------------------------------------------------------------------------------------
def registered(group: str) -> list[EntryPoint]:
    """The entry points of a group, sorted by name."""
    points = distribution("spacy-structlearn").entry_points
    return sorted((p for p in points if p.group == group), key=lambda point: point.name)


def settings(rows: Iterable[tuple[str, ...]], defaults: dict[str, Any] | None = None) -> list[str]:
    """The table of settings. defaults: values in place of those of the rows."""
    lines = []
    for name, of, value, text in rows:
        given = (defaults or {}).get(name)
        if isinstance(given, dict):
            value = next((str(given[key]) for key in given if key.startswith("@")), value)
        cut = value if len(value) <= LONGEST else f"{value[: LONGEST - 3]}..."
        lines.append((f"`{name}`", of, code(cut), flat(text)))
    return table(("setting", "type", "default", "meaning"), lines)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [head, ("---",) * len(head), *rows]
    return [*(f"| {' | '.join(line)} |" for line in lines), ""]


def listed(kind: Any, until: str = "\n\n\n") -> str:
    """The docstring of an object, as Markdown. until: where it ends."""
    return of_docstring((inspect.getdoc(kind) or "").partition(until)[0])


def of_docstring(text: str) -> str:
    """A docstring, with its lines `name: text` as a list."""
    text = escaped(text)
    lines: list[str] = [""]
    for line in text.split("\n"):
        item = re.match(r"(\w+(?:, \w+)*): ", line)
        if item:
            # An empty line before the first item.
            lines += [""] if lines[-1] and not lines[-1].startswith("* ") else []
            lines.append(f"* `{item[1]}`: {line[item.end() :]}")
        elif not line or re.match("(Returns|Raises) ", line):
            lines += ["", line]
        else:
            lines[-1] = f"{lines[-1]} {line.strip()}".strip()
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n") + "\n"


def flat(text: str) -> str:
    """A text as one cell of a table, with a capital letter at its beginning."""
    text = escaped(" ".join(text.split())).replace("|", r"\|")
    return text[:1].upper() + text[1:]


def code(text: str) -> str:
    return f"`{text}`".replace("|", r"\|") if text else ""


def joined(names: Iterable[str]) -> str:
    return ", ".join(map(code, names)) or "nothing"


def escaped(text: str) -> str:
    """Without HTML; code in backticks is left as it is."""
    parts = text.split("`")
    parts[::2] = (part.replace("<", "&lt;").replace("*", r"\*") for part in parts[::2])
    return "`".join(parts)


if __name__ == "__main__":
    main()
