"""The plot of papers/petrov_klein2007: figure 2, and the gain by the number of trees."""

from __future__ import annotations

import srsly

from training.common.recording import RESULTS
from training.common.report import flat, pyplot_for, save_plot

NUMBERS = (1, 2, 4, 8, 16)
SIZES = (1000, 4000, 15_000, 30_060)
COLOURS = {1: "#555555", 2: "#0072b2", 4: "#d55e00"}
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
    """Plot what is measured, as SVG."""
    figures = flat(srsly.read_json(RESULTS / f"{name}.json"))
    if not any(key.startswith("pruning.") for key in figures):
        return
    pyplot = pyplot_for(RESULTS / name)
    figure, axes = pyplot.subplots(1, len(PANELS) + 1, figsize=(16, 4.5), layout="constrained")
    gains = axes[0]
    for number, colour in COLOURS.items():
        keys = {size: f"skeleton.{size}.{number}.gain" for size in SIZES}
        points = [(size, figures[key]) for size, key in keys.items() if key in figures]
        if points:
            gains.plot(*zip(*points, strict=True), "o-", color=colour, label=f"{number}")
    gains.axhline(0, color="black", linewidth=0.5)
    gains.set(title="Gain of F1 over tags", xlabel="trees", xscale="log")
    gains.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
    gains.legend(title="subcategories")
    for own, (what, title) in zip(axes[1:], PANELS.items(), strict=True):
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
