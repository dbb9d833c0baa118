"""Functions for reports: tables in Markdown, figures with dotted keys, and plots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import srsly

Figures = Mapping[str, Any]


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
