"""`structlearn info`: describe a pipeline, or what one of its components has learned."""

from __future__ import annotations

from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import StructlearnError
from .common.pipelines import HELP, load
from .common.terminal import echo, print_scores, table

if TYPE_CHECKING:
    from spacy.language import Language


def info_cli(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help=f"{HELP} Default: the built-in one.")
    ] = None,
    component: Annotated[
        str | None, typer.Option(help="The component to describe. Default: the whole pipeline.")
    ] = None,
    top: Annotated[
        int, typer.Option(help="Number of features, words or productions to show.", min=1)
    ] = 10,
    label: Annotated[
        str | None, typer.Option(help="Show only this label, such as B-NP, NN or VP.")
    ] = None,
) -> None:
    """Describe a pipeline, or what a component has learned.

    Without --component, this lists the components with their sizes and labels, and the scores of
    the pipeline, for the built-in one with the calibration error of the probabilities (ece).

    With --component, this shows the size of the model and its content. Linear models: the strongest
    features of each label (single words, tags and classes; conjunctions are stored without names).
    Bayesian networks: the structure. Models in several stages: each stage, and the features of the
    last one. Grammars: the subcategories of each tag with their most probable words; with --label,
    those of a phrase with their most probable productions. Conditional grammars: the same, by
    weight. Components that read the vectors of an encoder: their site scorers, and the weights of
    both.
    """
    if label is not None and component is None:
        raise typer.BadParameter("--label needs --component")
    nlp = load(model)
    if component is None:
        _show_pipeline(nlp)
        return
    if component not in nlp.pipe_names:
        raise StructlearnError("SL017", component=component, names=", ".join(nlp.pipe_names))
    pipe = nlp.get_pipe(component)
    parameters = getattr(pipe, "parameters", None)
    if hasattr(parameters, "lexicon"):
        _show_grammar(component, parameters, top, label)
    elif hasattr(parameters, "describe") or hasattr(parameters, "strongest"):
        _show_features(component, parameters, top, label)
    else:
        raise StructlearnError("SL019", component=component)
    for name, scorer in getattr(pipe, "site_scorers", {}).items():
        own, weight = scorer.weights
        sizes = f"{len(scorer.labels)} labels from vectors of {scorer.width}"
        echo(f"site scorer {name}: {sizes}, pooled with weights {own:.2f} : {weight:.2f}")


def _show_pipeline(nlp: Language) -> None:
    meta = nlp.meta
    echo(f"{meta['lang']}_{meta['name']} {meta['version']}")
    for key in ("description", "license", "author", "url"):
        if meta[key]:
            echo(f"{key}: {meta[key]}")
    folder = nlp.path
    rows = [
        (
            name,
            nlp.get_pipe_meta(name).factory,
            "-" if folder is None else _megabytes(folder / name),
            str(len(nlp.pipe_labels.get(name, ())) or "-"),
            shorten(" ".join(nlp.pipe_labels.get(name, ())), 40, placeholder=" ..."),
        )
        for name in nlp.pipe_names
    ]
    header = ("component", "factory", "MB", "number", "labels")
    table(rows, header=header, aligns=("l", "l", "r", "r", "l"))
    if folder is not None:
        echo(f"{_megabytes(folder)} MB in {folder}")
    scores = meta.get("performance")
    print_scores(scores if isinstance(scores, dict) else {})


def _megabytes(folder: Path) -> str:
    return f"{sum(path.stat().st_size for path in folder.rglob('*') if path.is_file()) / 1e6:.1f}"


def _show_features(component: str, parameters: Any, top: int, label: str | None) -> None:
    weighted = hasattr(parameters, "strongest")
    # Pairs of labels also have features, under names that are not labels.
    if weighted and label not in (None, *parameters.labels) and not parameters.strongest(1, label):
        raise _unknown(component, label, parameters.labels)
    if hasattr(parameters, "describe"):
        echo(parameters.describe())
    else:
        labels, predicates = len(parameters.labels), len(parameters.keys)
        echo(f"linear chain of {labels} labels and {predicates:,} predicates")
    if not weighted:
        return
    for name in parameters.labels if label is None else [label]:
        found = parameters.strongest(top, name, named=True)
        rows = [(f"{weight:.2f}", text) for text, _, _, weight in found]
        if rows:
            table(rows, header=(name, "feature"), aligns=("r", "l"))


def _show_grammar(component: str, parameters: Any, top: int, label: str | None) -> None:
    from ..grammar.latent import describe

    if label not in (None, *describe.labels(parameters)):
        raise _unknown(component, label, describe.labels(parameters))
    echo(describe.describe(parameters))
    names = parameters.symbols.tags if label is None else [label]
    rows = (row for name in names for row in describe.subcategories(parameters, name, top))
    for name, found in rows:
        texts = (f"{text} {_short(value)}" for value, text in found)
        echo(f"{name:8} {', '.join(texts)}")


def _short(value: float) -> str:
    """Format a probability or a weight, which may be above 1."""
    return f"{value:.2f}" if 0.095 <= value < 999.995 else f"{value:.1g}"


def _unknown(component: str, label: str | None, labels: tuple[str, ...]) -> StructlearnError:
    return StructlearnError("SL032", component=component, label=label, labels=", ".join(labels))
