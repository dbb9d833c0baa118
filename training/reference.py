"""Write the reference, training/guides/reference.md, from the code.

    python -m training.reference

Everything on the page comes from where it is defined: the getters of attributes, the keys of span
groups, the settings of components and architectures, docstrings, error messages and the command
line. With --check, nothing is written, and the exit status shows whether the page is up to date.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from importlib.metadata import EntryPoint, distribution
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from spacy.language import Language
from spacy.tokens import Doc, Span, Token
from spacy.vocab import Vocab
from typer.models import ArgumentInfo

from spacy_structlearn.cli import app
from spacy_structlearn.errors import MESSAGES, StructlearnError
from spacy_structlearn.groups import GROUPS
from spacy_structlearn.learning.annotations import annotations, shown
from spacy_structlearn.learning.settings import reference
from spacy_structlearn.matching import relations, tregex
from spacy_structlearn.matching.patterns import FLAGS, LABEL, LENGTH, TEXTS, compiled
from spacy_structlearn.pipeline.extensions import (
    GETTERS,
    METHODS,
    Clause,
    Frame,
    FrameArgument,
    PPAttachment,
)
from spacy_structlearn.pipeline.extensions.matcher import ConstituentMatcher
from spacy_structlearn.pipeline.training.batch_trainable import SETTINGS
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
KINDS: dict[str, type] = {"doc": Doc, "span": Span, "token": Token}
FUNCTIONS = (
    ("spacy_readers", "@readers"),
    ("spacy_misc", "@misc"),
    ("spacy_tokenizers", "@tokenizers"),
    ("spacy_scorers", "@scorers"),
    ("spacy_batchers", "@batchers"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args()
    text = page()
    if not args.check:
        PAGE.write_text(text, encoding="utf8")
    elif text != PAGE.read_text(encoding="utf8"):
        sys.exit(f"{PAGE.relative_to(ROOT)}: run python -m training.reference")


def page() -> str:
    """The whole page."""
    parts = attributes, groups, patterns, components, architectures, functions, commands, errors
    text = "\n".join([INTRODUCTION, *(line for part in parts for line in part())])
    # Docstrings name the functions of the code, a config their registered names.
    for group in ("spacy_architectures", "spacy_factories", *dict(FUNCTIONS)):
        for point in registered(group):
            if re.match("(build|create|make)_", point.attr):
                text = text.replace(f"`{point.attr}`", f"`{point.name}`")
    return text


def attributes() -> Iterator[str]:
    yield "## Attributes\n"
    yield (
        "All of them are read-only views of the [span groups](#span-groups). The third column is "
        "the value\non a Doc that no component has annotated. The functions in "
        "`spacy_structlearn.pipeline.extensions`\nwith the same names return the same values, for "
        "type checkers: `frames(doc)` is `doc._.frames`.\n"
    )
    for name, kind in KINDS.items():
        rows = [
            (f"`{name}._.{of.__name__}`", code(returns(of)), without(of, kind), flat(meaning(of)))
            for of in GETTERS[kind]
        ]
        yield from table(("attribute", "type", "without annotation", "meaning"), rows)
    yield "Methods of Docs and Spans, functions of `spacy_structlearn.pipeline.extensions`, too:\n"
    rows = [
        (
            f"`doc._.{method.__name__}`, `span._.{method.__name__}`",
            code(returns(method)),
            flat(meaning(method)),
        )
        for method in METHODS[Doc]
    ]
    yield from table(("method", "type", "meaning"), rows)
    for kind in (Frame, FrameArgument, PPAttachment, Clause, Tree):
        yield f"### {kind.__name__}\n"
        yield listed(kind)
        if fields := getattr(kind, "_fields", ()):
            yield f"Fields: {', '.join(f'`{field}` ({typed(kind, field)})' for field in fields)}.\n"
        yield from methods(kind)


def methods(kind: type) -> list[str]:
    """The table of the public methods and properties of a class; empty if it has none."""
    own = [part for part in vars(kind) if part == "__call__" or not part.startswith("_")]
    found = [(part, vars(kind)[part]) for part in own if described(vars(kind)[part])]
    rows = [(f"`{part}`", flat(inspect.getdoc(method) or "")) for part, method in found]
    return table(("method or property", "meaning"), rows) if rows else []


def described(part: Any) -> bool:
    return inspect.isfunction(part) or isinstance(part, (property, classmethod))


def typed(kind: type, field: str) -> str:
    return shown(annotations(kind)[field])


def meaning(getter: Callable) -> str:
    return re.sub("^(Get|Check) ", "", inspect.getdoc(getter) or "")


def returns(getter: Callable) -> str:
    return inspect.signature(getter).return_annotation


def without(getter: Callable, kind: type) -> str:
    """The value of an attribute on a Doc without annotation."""
    doc = Doc(Vocab(), words=["a"])
    try:
        value = getter({Doc: doc, Span: doc[:], Token: doc[0]}[kind])
    except StructlearnError as error:
        return f"raises {error.code}"
    # The text of an iterator is its address.
    return f"iterator over `{list(value)}`" if isinstance(value, Iterator) else code(repr(value))


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
        "here;\n`structlearn init-config` prints them in full.\n"
    )
    for point in registered("spacy_architectures"):
        kind = point.load().settings
        yield f"### {point.name}\n"
        yield listed(kind)
        yield from settings(reference(kind))


def functions() -> Iterator[str]:
    yield "## Readers and other functions\n"
    yield "Registered functions that a config can name.\n"
    for group, key in FUNCTIONS:
        for point in registered(group):
            function = point.load()
            kind = getattr(function, "settings", None)
            yield f"### {point.name}\n"
            yield f"`{key}`\n"
            yield listed(kind or function)
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
    current = {point.name: point for point in points if point.group == group}
    return [current[name] for name in sorted(current)]


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
    """A docstring, with its lines `name: text` as a list. until: where it ends."""
    paragraphs: list[str] = []
    text = escaped((inspect.getdoc(kind) or "").partition(until)[0])
    for line in text.split("\n"):
        item = re.match(r"(\w+(?:, \w+)*): ", line)
        if item:
            paragraphs.append(f"* `{item[1]}`: {line[item.end() :]}")
        elif not line.strip() or re.match("(Returns|Raises) ", line) or not paragraphs:
            paragraphs.append(line)
        else:
            paragraphs[-1] = f"{paragraphs[-1]} {line.strip()}".strip()
    lines: list[str] = []
    for paragraph in filter(None, paragraphs):
        both = bool(lines) and lines[-1].startswith("* ") and paragraph.startswith("* ")
        lines += [paragraph] if both or not lines else ["", paragraph]
    return "\n".join([*lines, ""])


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
