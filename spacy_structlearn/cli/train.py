"""`structlearn train` and `structlearn init-config`: train a component with any of its learners."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from ..errors import visible
from .common.files import write_text
from .common.pipelines import find_msgpack_hooks_once
from .common.terminal import echo, print_scores

CONFIGS = Path(__file__).parent.parent / "pipeline" / "configs"
_NAMES = ", ".join(sorted(path.stem for path in CONFIGS.glob("*.cfg")))


def train_cli(
    context: typer.Context,
    config: Annotated[
        Path,
        typer.Argument(
            metavar="CONFIG",
            help=f"A config, as for `spacy train`, or the name of one of this package: {_NAMES}.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the trained pipeline.")
    ],
    plot: Annotated[Path | None, typer.Option(help="An SVG file for the learning curves.")] = None,
) -> None:
    """Train the components of a config, and save the pipeline.

    To change a config of this package, write it to a file, with all its settings:

    python -m spacy init fill-config FOLDER/pipeline/configs/np_chunker.cfg my.cfg

    As in `spacy train`, the parameters with the best score on the dev corpus are kept.

    Override any value of the config by an option with its name, for example:

    --paths.train train.spacy --paths.dev dev.spacy --components.np_chunker.model.l2 0.1
    """
    from spacy.cli._util import parse_config_overrides
    from wasabi import msg

    from ..pipeline.training.fitting import Curves, unset_attributes
    from ..pipeline.training.fitting import train as fit

    for argument in context.args:
        if argument.startswith("--") and "." not in argument:
            raise typer.BadParameter(f"no such option, and no value of a config: {argument}")
    find_msgpack_hooks_once()
    of_package = CONFIGS / f"{config}.cfg"
    if not config.exists():
        if not of_package.is_file() and not config.suffix:
            raise typer.BadParameter(f"{config} is neither a file nor one of the configs: {_NAMES}")
        config = of_package if of_package.is_file() else config
    curves: Curves = {}
    nlp = fit(config, output, overrides=parse_config_overrides(context.args), curves=curves)
    if plot is not None:
        write_text(plot, _curves_svg(curves))
    print_scores(nlp.meta["performance"])
    msg.good(visible(f"Saved the pipeline to {output}"))
    for name, attribute in unset_attributes(nlp):
        line = f"{name} reads {attribute}, which no component of this pipeline sets. To run it on "
        msg.warn(visible(f"{line}texts, put a component that does in front of {name}."))


def _curves_svg(curves: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Draw learning curves. Objectives, which have any size, are divided by their largest value."""
    from ..display.plots import plot_svg

    lines = {name: points for name, points in curves.items() if points}
    for name in [name for name in lines if name.endswith("objective")]:
        most = max(abs(value) for _, value in lines[name]) or 1.0
        lines[name] = [(iteration, value / most) for iteration, value in lines[name]]
    return plot_svg(lines, x="iteration", y="score; objective / its largest value")


def init_config_cli(
    component: Annotated[str, typer.Argument(help="Without any, all learners are listed.")] = "",
    architecture: Annotated[
        str, typer.Option("--architecture", "-a", help="A learner. Default: the usual one.")
    ] = "",
    output: Annotated[str, typer.Option("--output", "-o", help="A file, or - for stdout.")] = "-",
) -> None:
    """Print a config of one component, for training, with all settings of its learner.

    Learners are MEMM or MEstimation.empirical, for example.
    """
    from ..pipeline.training import configs

    if not component:
        for name in configs.COMPONENTS:
            echo(f"{name}: {', '.join(configs.learners(name))}")
        return
    config = configs.usual(_known("component", component, configs.COMPONENTS))
    if architecture:
        learners = configs.learners(component)
        short = architecture.removeprefix("spacy_structlearn.").removesuffix(".v1")
        config = learners[_known(f"learner of {component}", short, learners)]
    write_text(output, f"{configs.filled(config)}\n")


def _known(what: str, name: str, names: Collection[str]) -> str:
    """Return the name. Raises BadParameter, with similar names, unless it is known."""
    if name not in names:
        close = {own.lower(): own for own in names}
        meant = [close[lower] for lower in get_close_matches(name.lower(), close)] or names
        raise typer.BadParameter(f"{name} is no {what}. Choose {' or '.join(meant)}.")
    return name
