"""Functions for reports: tables in Markdown, figures with dotted keys, and plots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

import srsly

from training.common import recording

Figures = Mapping[str, Any]

# Sentences of the parts on which grammars are scored.
SENTENCES = {
    ("wsj", "dev"): 273,
    ("wsj", "test"): 245,
    ("ewt", "tune"): 1175,
    ("ewt", "dev"): 1974,
}
NAMES = {"wsj": "WSJ", "ewt": "EWT"}


def flat(table: Figures, prefix: str = "") -> dict[str, Any]:
    """Flatten nested figures to dotted keys, except for network structures."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict) and not key.startswith("structure"):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, after an empty line."""
    lines = [header, ["---"] * len(header), *rows]
    return ["", *(f"| {' | '.join(line)} |" for line in lines)]


def shown(figures: Figures, key: str, form: str = ".2f", scale: float = 1.0) -> str:
    """Format a figure times `scale`; return "" if it is missing."""
    value = figures.get(key)
    if value is None:
        return ""
    return format(value if scale == 1.0 else scale * value, form)


def standard_error(percent: float, n: int) -> float:
    """Return the standard error of a share of n items, in percent as the share is."""
    return (percent * (100 - percent) / n) ** 0.5


def error_lines(figures: Figures, pattern: str) -> list[str]:
    """Return an empty line, and a text on the sizes of treebanks and the standard errors on each.

    Those of exact match follow from it. Those of F1 have to be recorded with the scores; without
    them, there is only how much F1 varies with the seed. Without any figure, there is no text.

    pattern: of the keys of one model, with {corpus}, {split} and {score}, which is "exact" or
    "f1_se".
    """
    exact, f1 = [], []
    for (corpus, split), n in SENTENCES.items():
        place = f"{NAMES[corpus]} {split}"
        keys = {s: pattern.format(corpus=corpus, split=split, score=s) for s in ("exact", "f1_se")}
        if keys["exact"] in figures:
            error = standard_error(figures[keys["exact"]], n)
            exact.append(f"{error:.1f} on {place} ({n:,} sentences)")
        if keys["f1_se"] in figures:
            f1.append(f"{figures[keys['f1_se']]:.1f} on {place}")
    if not exact:
        return []
    text = f"The standard error of exact match is about {_listed(exact)}. "
    text += f"That of F1 is about {_listed(f1)}." if f1 else seeds_text()
    return ["", *wrap(text, 100)]


def seeds_text() -> str:
    """Say how much F1 of a grammar varies with the seed on the WSJ sample, "" if unknown."""
    path = recording.RESULTS / "parsing_generative.json"
    figures = flat(srsly.read_json(path)) if path.exists() else {}
    dev, test = (shown(figures, f"wsj.seeds.{part}_f1.sd", ".1f") for part in ("dev", "test"))
    if not dev or not test:
        return ""
    return (
        "Over four seeds of a split-merge grammar, the standard deviation of F1 is "
        f"{dev} on WSJ dev and {test} on WSJ test."
    )


def _listed(texts: Sequence[str]) -> str:
    *most, last = texts
    return f"{', '.join(most)} and {last}" if most else last


def write_sections(
    results: Path, name: str, head: str, sections: Iterable[Callable[[Figures], Iterable[str]]]
) -> None:
    """Write the report of results/NAME.json: the head, and each section of the figures."""
    figures = flat(srsly.read_json(results / f"{name}.json"))
    lines = head.split("\n")
    for section in sections:
        lines += section(figures)
    (results / f"{name}.md").write_text("\n".join([*lines, ""]), encoding="utf8")


def pyplot_for(path: Path) -> Any:
    """Return pyplot, configured so that equal figures result in equal files."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    matplotlib.rcParams.update(
        {"svg.hashsalt": path.name, "svg.fonttype": "none", "axes.grid": True, "grid.alpha": 0.3}
    )
    return pyplot


def save_plot(figure: Any, path: Path) -> None:
    """Save a plot as SVG and PNG."""
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"), dpi=120)


def p_value(p: float) -> str:
    return f"{p:.3g}" if p >= 0.0001 else "< 0.0001"
