"""The plot of papers/petrov_klein2007: figure 2."""

from __future__ import annotations

import srsly

from training.common.recording import RESULTS
from training.common.report import flat, pyplot_for, save_plot

NUMBERS = (1, 2, 4, 8, 16)
REGIMES = {
    "none": ("no pruning", "#555555"),
    "coarse_to_fine": ("coarse-to-fine pruning", "#0072b2"),
    "cached": ("cached pruning", "#d55e00"),
}
PANELS = {
    "constituents": "Figure 2(a): constituents a sentence",
    "seconds": "Figure 2(b): a pass over the training sentences, CPU s",
}


def plot(name: str) -> None:
    """Plot what is measured of figure 2, as SVG."""
    figures = flat(srsly.read_json(RESULTS / f"{name}.json"))
    if not any(key.startswith("pruning.") for key in figures):
        return
    pyplot = pyplot_for(RESULTS / name)
    figure, axes = pyplot.subplots(1, len(PANELS), figsize=(12, 4.5), layout="constrained")
    for own, (what, title) in zip(axes, PANELS.items(), strict=True):
        for regime, (text, colour) in REGIMES.items():
            keys = {number: f"pruning.{number}.{regime}.{what}" for number in NUMBERS}
            points = [(n, figures[key]) for n, key in keys.items() if key in figures]
            if points:
                own.plot(*zip(*points, strict=True), "o-", color=colour, label=text)
        own.set(title=title, xlabel="subcategories", yscale="log")
        own.set_xscale("log", base=2)
        own.set_xticks(NUMBERS, [str(number) for number in NUMBERS])
        own.legend()
    save_plot(figure, RESULTS / name)
    pyplot.close(figure)
