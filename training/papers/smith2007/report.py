"""The plots of papers/smith2007: figures 2 and 3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import srsly

from training.common.recording import RESULTS
from training.common.report import pyplot_for, save_plot

Figures = Mapping[str, Any]

NAMES = {
    "crf": "CRF",
    "memm": "MEMM",
    "pl": "pseudolikelihood",
    "m_est": "M-estimation",
    "hmm": "HMM",
}
COLOURS = {
    "crf": "#0072b2",
    "memm": "#009e73",
    "pl": "#cc79a7",
    "m_est": "#d55e00",
    "hmm": "#555555",
}
MARKERS = {"crf": "o", "memm": "s", "pl": "^", "m_est": "D", "hmm": "x"}


def plot(name: str) -> None:
    """Plot figures 2 and 3 as SVG, if there are any points."""
    figures: Any = srsly.read_json(RESULTS / f"{name}.json")
    if "figure_2" not in figures:
        return
    pyplot = pyplot_for(RESULTS / name)
    figure, axes = pyplot.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    _curves(axes[0], figures["figure_2"])
    _clouds(axes[1], figures["figure_3"])
    save_plot(figure, RESULTS / name)
    pyplot.close(figure)


def _curves(axes: Any, curves: Figures) -> None:
    for key, name in NAMES.items():
        if key in curves:
            sizes, scores = zip(*curves[key], strict=True)
            axes.plot(sizes, scores, MARKERS[key] + "-", color=COLOURS[key], label=name)
    axes.set(title="Figure 2: learning curves", xlabel="training sentences", ylabel="F1, tuning")
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.16), fontsize=8)


def _clouds(axes: Any, points: Figures) -> None:
    """Plot a line for each estimator and number of sentences; larger numbers are darker."""
    largest = max(point[0] for found in points.values() for point in found)
    lowest = 100.0
    for key, name in NAMES.items():
        for size in dict.fromkeys(point[0] for point in points.get(key, ())):
            runs = [point for point in points[key] if point[0] == size]
            # Without a regulariser, F1 can be so low that other differences become invisible.
            regularised = [run for run in runs if run[1] is not None or key == "hmm"]
            lowest = min([lowest, *(run[3] for run in regularised)])
            axes.plot(
                [run[2] for run in runs],
                [run[3] for run in runs],
                MARKERS[key] + "-",
                color=COLOURS[key],
                markersize=4,
                alpha=0.3 + 0.7 * size / largest,
                label=name if size == largest else None,
            )
    axes.set(
        title="Figure 3: all regularisers, several sizes",
        xlabel="training, CPU s",
        ylabel="F1, tuning",
        xscale="log",
        ylim=(max(lowest - 1, 60), None),
    )
    axes.legend()
