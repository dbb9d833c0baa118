"""Pages of results: text with figures of training/results/*.json in it, and plots.

In a page of training/pages, and in training/tables.md, `{KEY FORM}` is a figure:

{KEY FORM}            the figure with this dotted key in the results of the page, such as
                      `{wsj.dev_f1 .1f}`; a number in a key is a place in a list
{RESULTS KEY FORM}    a figure of training/results/RESULTS.json
{A - B FORM}          the difference of two figures
{100 * KEY FORM}      a figure times a number
{se N KEY FORM}       the standard error of a share of N items, in percent as the share is

FORM is that of `format`, or: `p`, a p-value; `<0.05` and `>=0.05`, yes if this holds and **no** if
it does not; `;`, a list of texts; a word, such as `role`, a network of this class in one line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, reduce
from pathlib import Path
from typing import Any

import srsly

from training.common import recording
from training.common.sources import ROOT

Figures = Mapping[str, Any]

PAGES = ROOT / "training" / "pages"
PAPERS = ("petrov_klein2007", "smith2007", "srl", "titov_henderson2007", "toutanova2006_pp")
VERDICTS = ("**Agrees.**", "**Contradicts.**", "**Not in the paper.**")
FIGURE = re.compile(r"\{([^{}\n]+ [^{}\n ]+)\}")


# --- pages ----------------------------------------------------------------------------------------
def page_of(name: str) -> str:
    """Return training/pages/NAME.md with the figures of training/results/NAME.json in it.

    A figure that is not recorded yet is left out.
    """
    return filled((PAGES / f"{name}.md").read_text(encoding="utf8"), name, missing="")


def write_page(name: str) -> None:
    """Write this page to training/results/NAME.md."""
    (recording.RESULTS / f"{name}.md").write_text(page_of(name), encoding="utf8")


def filled(template: str, results: str = "", missing: str | None = None) -> str:
    """Return a text with its figures.

    results: of keys without a name. missing: in place of figures that are not recorded. Raises
    KeyError or FileNotFoundError for these if it is None.
    """
    read.cache_clear()

    def shown(place: re.Match[str]) -> str:
        *words, form = place[1].split(" ")
        try:
            return formatted(value_of(words, results), form)
        except (FileNotFoundError, KeyError, IndexError):
            if missing is None:
                raise
            return missing

    return FIGURE.sub(shown, template)


def value_of(words: list[str], results: str) -> Any:
    """Return the value of a place: see above."""
    match words:
        case ["se", n, *rest]:
            percent = value_of(rest, results)
            return (percent * (100 - percent) / int(n)) ** 0.5
        case [*rest, "-", key]:
            return value_of(rest, results) - value_of([*rest[:-1], key], results)
        case [*rest, factor, "*", key]:
            return float(factor) * value_of([*rest, key], results)
        case [*name, key]:
            return reduce(_below, key.split("."), read(name[0] if name else results))
    raise KeyError(" ".join(words))


def _below(table: Any, step: str) -> Any:
    return table[int(step) if isinstance(table, list) else step]


@cache
def read(results: str) -> Any:
    return srsly.read_json(recording.RESULTS / f"{results}.json")


def formatted(value: Any, form: str) -> str:
    """Format a figure: see above."""
    if value is None:
        return ""
    if form == "p":
        return f"{value:.3g}" if value >= 0.0001 else "< 0.0001"
    if form == ";":
        return "; ".join(value)
    if isinstance(value, dict):
        return "; ".join(" | ".join([v, f"{form} {p}".strip()]) for v, p in value.items())
    if form.startswith("<"):
        return "yes" if value < float(form[1:]) else "**no**"
    if form.startswith(">="):
        return "yes" if value >= float(form[2:]) else "**no**"
    return format(value, form)


def flat(table: Figures, prefix: str = "") -> dict[str, Any]:
    """Flatten nested figures to dotted keys, except for network structures."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict) and not key.startswith("structure"):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


# --- verdicts -------------------------------------------------------------------------------------
def verdicts(name: str) -> list[bool]:
    """Return for each table of a page on a paper whether a paragraph that starts with one of
    `VERDICTS` follows it, before the next table or heading.
    """
    blocks = (PAGES / f"{name}.md").read_text(encoding="utf8").split("\n\n")
    kinds = ["=" if own.startswith(VERDICTS) else own[:1] for own in map(str.strip, blocks)]
    return ["=" in own for own in re.findall(r"\|([^|#]*)", "".join(kinds))]


# --- plots ----------------------------------------------------------------------------------------
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
    """Save a plot as SVG."""
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
