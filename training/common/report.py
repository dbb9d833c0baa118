"""What the reports share: tables in Markdown, figures with keys joined by dots, and plots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import srsly

Figures = Mapping[str, Any]


def flat(table: Figures, prefix: str = "") -> dict[str, Any]:
    """Nested figures by keys joined by dots; a structure stays whole."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict) and not key.startswith("structure"):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table, with an empty line before it."""
    lines = [header, ["---"] * len(header), *rows]
    return ["", *(f"| {' | '.join(line)} |" for line in lines)]


def shown(figures: Figures, key: str, form: str = ".2f", scale: float = 1.0) -> str:
    """A figure times `scale`, or nothing where there is none."""
    value = figures.get(key)
    if value is None:
        return ""
    return format(value if scale == 1.0 else scale * value, form)


def write_sections(
    results: Path, name: str, head: str, sections: Iterable[Callable[[Figures], Iterable[str]]]
) -> None:
    """The report of results/NAME.json: the head, and what each section says of the figures."""
    figures = flat(srsly.read_json(results / f"{name}.json"))
    lines = head.split("\n")
    for section in sections:
        lines += section(figures)
    (results / f"{name}.md").write_text("\n".join([*lines, ""]), encoding="utf8")


def pyplot_for(path: Path) -> Any:
    """Matplotlib's, for files of this name that do not change where the figures do not."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    matplotlib.rcParams.update(
        {"svg.hashsalt": path.name, "svg.fonttype": "none", "axes.grid": True, "grid.alpha": 0.3}
    )
    return pyplot


def save_plot(figure: Any, path: Path) -> None:
    """As SVG and PNG."""
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"), dpi=120)


def p_value(p: float) -> str:
    return f"{p:.3g}" if p >= 0.0001 else "< 0.0001"
