"""The report of papers/smith2007: tables and figures of the paper and of the package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import sqrt
from operator import itemgetter
from pathlib import Path
from typing import Any

import srsly

from training.common.report import flat, pyplot_for, save_plot, shown, table

Figures = Mapping[str, Any]

# Precision, recall and F1 of the paper.
TABLES = {
    "Table 1, HMM features": [
        ("HMM", "hmm_features.hmm", (85.60, 88.68, 87.11)),
        ("CRF", "hmm_features.crf", (90.40, 89.56, 89.98)),
        ("pseudolikelihood, of labels", "hmm_features.pl", (80.31, 81.37, 80.84)),
        ("pseudolikelihood, also of words and tags", "hmm_features.pl_joint", None),
        ("MEMM", "hmm_features.memm", (86.03, 88.62, 87.31)),
        ("M-estimation", "hmm_features.m_est", (85.57, 88.65, 87.08)),
    ],
    "Table 1, extended features": [
        ("CRF", "extended.crf", (94.04, 93.68, 93.86)),
        ("pseudolikelihood, of labels", "extended.pl", (91.88, 91.79, 91.83)),
        ("MEMM", "extended.memm", (90.89, 92.15, 91.51)),
        ("M-estimation", "extended.m_est", (88.88, 90.42, 89.64)),
    ],
    "Table 2, M-estimation by base distribution": [
        ("HMM, c by F1", "q0.hmm", (88.88, 90.42, 89.64)),
        ("locally uniform, c by F1", "q0.lu_f1", (72.91, 57.56, 64.33)),
        ("locally uniform, c by precision", "q0.lu_precision", (84.40, 37.68, 52.10)),
        ("empirical, c by F1", "q0.empirical", (84.38, 89.43, 86.83)),
        ("locally uniform, any c by F1", "q0.lu_wide_f1", None),
        ("locally uniform, any c by precision", "q0.lu_wide_precision", None),
        ("empirical, any c by F1", "q0.empirical_wide", None),
    ],
    "Section 5.2, input-only features": [
        ("M-estimation", "input_only.m_est", (None, None, 89.33)),
    ],
}
NAMES = {
    "crf": "CRF",
    "memm": "MEMM",
    "pl": "pseudolikelihood",
    "m_est": "M-estimation",
    "hmm": "HMM",
}
# Figure 1: hours and minutes on a 2.2 GHz Opteron.
PAPER_TIMES = {"hmm": "2 s", "crf": "64:18 h", "memm": "3:40 h", "pl": "9:35 h", "m_est": "1:04 h"}
HEAD = """\
# Smith, Vail & Lafferty (2007)

Made by training/papers/smith2007. CoNLL-2000, NP chunks: the first 8,036 training sentences, with
the last 900 for tuning. c of the regulariser |w|²/2c is chosen among seven values and none, by F1
on the tuning data unless a row says otherwise. The chosen models are tested once. Precision, recall
and F1 are in percent: paper / ours."""
READINGS = """\
## Interpretation of the paper

* Equation 3 includes the factor 1/n, which is in its derivation but not in its text. Otherwise a
  correct base distribution would be changed.
* Features: the predicates of Sha & Pereira (2003, table 1) with labels and label pairs, and label
  trigrams, if they occur in the training data. Positions outside the sentence have padding symbols.
  The paper reports 630,862 features.
* The pseudolikelihood of table 1 is of labels given everything else. The joint form, also of words
  and tags, needs a sum over the vocabulary for every token, unless features read only one symbol.
* L-BFGS runs to machine precision or for 100 iterations, as in the paper. M-estimation with a
  regulariser is solved by its dual, to a gap of a millionth of the objective. Without a
  regulariser, it uses L-BFGS too. Then the objective has no lower bound, because there are more
  features than sentences. Training ends when this is detected, and weights are limited to 20. This
  limit decides the scores of this row of the grid, which is never chosen.
* Label trigrams of the HMM are not smoothed. After training on a few hundred sentences, the model
  allows no labelling of some sentences. These get O everywhere.
* If c is chosen by precision on tuning data, the locally uniform base gets the strongest
  regulariser, on any grid: the fewer chunks it predicts, the more of them are right. No c has the
  scores of the paper.
* Unlike in the paper, the empirical base is better than the HMM. Its best c is the largest one of
  the grid of the paper, and a larger c is better still.
* Our MEMMs are better than in the paper, and better than pseudolikelihood: each factor sees the
  pair of previous labels, and decoding is exact.
* Figures 2 and 3 are on tuning data, because test data are only used for the tables."""

STEPS = {
    "word_and_tag_apart": "paper's HMM: separate emissions of word and tag",
    "word_with_classes": "joint emission of the word with its suffix and shape",
    "word_with_tag": "joint emission of word and tag",
    **{
        f"m_steps_{n}_c_{c}": f"empirical base, {n} M-step{'s' if n > 1 else ''}, c = {c}"
        for c in (10, 30, 100)
        for n in (1, 2, 4, 8)
    },
}
FOUND = """\
For emissions, the best c on the paper's grid is shown. Times are of the whole training.

* Suffixes and shapes, which distinguish unknown words, make q0 a better chunker, but do not improve
  the M-estimate.
* Joint emissions of word and tag are worse for both, because q0 has no estimate for unseen pairs.
* More M-steps from the empirical base help, and so does a larger c than on the paper's grid. But
  with c = 100, the first step is much too large. Each step runs forward-backward once, and the CRF
  is equally accurate in less time."""

STARTS = """\
The seconds saved by starting the CRF from another model include the training of that model. The
M-estimate makes training longer. The perceptron saves iterations, but the difference in CPU seconds
is within the noise."""


def write(results: Path, name: str) -> None:
    """Write the report of results/NAME.json and, if there are any points, the plots."""
    figures = flat(srsly.read_json(results / f"{name}.json"))
    lines = [*HEAD.split("\n"), *tables(figures)]
    if any(key.startswith("figure_2.") for key in figures):
        plot(figures, results / name)
        lines += ["", "## Figures 2 and 3", "", f"![learning curves, and F1 by time]({name}.svg)"]
    lines += [*wide(figures), *figure_1(figures), *sampled(figures), *beyond(figures)]
    lines += ["", *READINGS.split("\n"), ""]
    (results / f"{name}.md").write_text("\n".join(lines), encoding="utf8")


def tables(figures: Figures) -> Iterator[str]:
    """Write tables 1 and 2, and the result of section 5.2."""
    n, recall = (figures.get(f"extended.crf.test_{key}") for key in ("chunks", "r"))
    if n is not None:
        error = sqrt(recall * (100 - recall) / n)
        yield f"The test data have {n:,} chunks; the standard error of a recall of {recall:.1f} is"
        yield f"{error:.2f}."
    header = ("model", "precision", "recall", "F1", "tuning F1", "c", "features")
    for title, rows in TABLES.items():
        found = [row for row in rows if f"{row[1]}.tuning_f1" in figures]
        if found:
            yield from ("", f"## {title}")
            yield from table(header, [_row(figures, *row) for row in found])


def _row(
    figures: Figures, text: str, key: str, paper: tuple[float | None, ...] | None
) -> list[str]:
    cells = [text]
    for part, value in zip(("p", "r", "f1"), paper or (None, None, None), strict=True):
        wanted = "" if value is None else f"{value:.2f}"
        cells.append(f"{wanted or '–'} / {shown(figures, f'{key}.test_{part}', '.2f') or '–'}")
    c = figures[f"{key}.c"]
    strength = "" if key.endswith(".hmm") and key[0] == "h" else "none" if c is None else f"{c:.3g}"
    return [
        *cells,
        shown(figures, f"{key}.tuning_f1", ".2f"),
        strength,
        shown(figures, f"{key}.features", ",d"),
    ]


def wide(figures: Figures) -> Iterator[str]:
    """Write the scores on tuning data by c, also beyond the grid of the paper."""
    points = {key: figures.get(f"q0.points.{key}") for key in ("lu", "empirical")}
    if None in points.values():
        return
    yield from ("", "## Base distributions by c", "")
    yield "Tuning data; values of c below 0.1 and above 10 are not in the grid of the paper."
    header = ["c"]
    for name in ("locally uniform", "empirical"):
        header += [f"{name}: precision", "recall", "F1"]
    rows = [
        (f"{lu[0]:.3g}", *(f"{value:.2f}" for value in (*lu[1:], *empirical[1:])))
        for lu, empirical in zip(points["lu"], points["empirical"], strict=True)
    ]
    yield from table(header, rows)


def figure_1(figures: Figures) -> Iterator[str]:
    """Write training times and their parts."""
    if "cpu_s.m_est.total" not in figures:
        return
    yield from ("", "## Figure 1, training times", "")
    yield "CPU seconds of one thread, with extended features and the chosen c. The paper reports"
    yield "wall time of 100 iterations on a 2.2 GHz Opteron. 100 iterations of M-estimation are"
    yield "L-BFGS on the weights, as in the paper; convergence is by the dual."
    header = ("model", "paper, 100 iterations", "100 iterations", "to convergence", "iterations")
    yield from table(
        header,
        [
            (
                NAMES.get(key, "CRFsuite, pairs as labels"),
                PAPER_TIMES.get(key, ""),
                shown(figures, f"cpu_s.{key}.iterations_100", ".2f"),
                shown(figures, f"cpu_s.{key}.converged", ".2f"),
                shown(figures, f"iterations.{key}.converged", ".0f"),
            )
            for key in (*NAMES, "crfsuite")
            if f"cpu_s.{key}.converged" in figures
        ],
    )
    yield ""
    yield (
        f"M-estimation takes {figures['cpu_s.m_est.total']:.2f} CPU s in total, of which "
        f"{figures['cpu_s.m_est.features']:.2f} for features and "
        f"{figures['cpu_s.m_est.expectations']:.2f} for expectations."
    )
    for text, key in (("our CRF", "our_crf"), ("CRFsuite", "crfsuite")):
        ratio = figures.get(f"ratio.cpu.{key}_over_m_est")
        if ratio is not None:
            yield f"Until convergence, {text} takes {ratio:.1f} times as long."


def sampled(figures: Figures) -> Iterator[str]:
    """Write what sampled expectations cost and lose."""
    numbers = sorted(
        int(key.split(".")[1])
        for key in figures
        if key.startswith("sampled.") and key.endswith(".relative_error")
    )
    if not numbers:
        return
    yield from ("", "## Equation 7, sampled expectations", "")
    yield f"Means over three seeds, with c = {figures['sampled.c']:.3g}. The error is the sum of"
    yield "the magnitudes of all errors, relative to that of all expectations."
    f1, seconds = (shown(figures, f"sampled.exact.{key}", ".2f") for key in ("tuning_f1", "cpu_s"))
    rows = [("exact", "", f1, "", seconds)]
    rows += [
        (
            f"{n:,} sentences",
            f"{figures[f'sampled.{n}.relative_error']:.3f}",
            *(
                shown(figures, f"sampled.{n}.{key}", ".2f")
                for key in ("tuning_f1", "tuning_sd", "cpu_s")
            ),
        )
        for n in numbers
    ]
    header = ("expectations", "error", "tuning F1", "standard deviation", "CPU s")
    yield from table(header, rows)


def beyond(figures: Figures) -> Iterator[str]:
    """Write the figures of beyond.py: the frontier, other base distributions, and all others."""
    points = frontier(figures)
    if points:
        yield from ("", "## Beyond the paper: accuracy over time")
        rows = [(name, f"{seconds:.2f}", f"{f1:.2f}") for name, seconds, f1 in points]
        yield from table(("training", "CPU s", "tuning F1"), rows)
    tried = [
        (
            text,
            shown(figures, f"beyond.steps.{name}.q0_alone_f1", ".2f"),
            shown(figures, f"beyond.steps.{name}.tuning_f1", ".2f"),
            shown(figures, f"beyond.steps.{name}.cpu_s", ".2f"),
        )
        for name, text in STEPS.items()
        if f"beyond.steps.{name}.tuning_f1" in figures
    ]
    if tried:
        yield from ("", "## Beyond the paper: other base distributions")
        yield from table(("q0", "tuning F1 of q0", "of the M-estimate", "CPU s"), tried)
        yield from ("", *FOUND.split("\n"))
    rest = {key: value for key, value in figures.items() if key.startswith("beyond.")}
    found = [
        (key.removeprefix("beyond."), _text(value))
        for key, value in rest.items()
        if not key.startswith(("beyond.frontier.", "beyond.steps."))
    ]
    if found:
        yield from ("", "## Beyond the paper")
        yield from table(("figure", "value"), found)
        yield from ("", *STARTS.split("\n"))


def frontier(figures: Figures) -> list[tuple[str, float, float]]:
    """Return the name, CPU seconds and tuning F1 of each beyond.frontier.NAME, fastest first.

    Their keys are `beyond.frontier.NAME.cpu_s` and `.tuning_f1`.
    """
    begin, end = "beyond.frontier.", ".cpu_s"
    names = [
        key[len(begin) : -len(end)]
        for key in figures
        if key.startswith(begin) and key.endswith(end)
    ]
    points = [
        (name, figures[f"{begin}{name}.cpu_s"], figures[f"{begin}{name}.tuning_f1"])
        for name in names
    ]
    return sorted(points, key=itemgetter(1))


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# --- plots ----------------------------------------------------------------------------------------
COLOURS = {
    "crf": "#0072b2",
    "memm": "#009e73",
    "pl": "#cc79a7",
    "m_est": "#d55e00",
    "hmm": "#555555",
}
MARKERS = {"crf": "o", "memm": "s", "pl": "^", "m_est": "D", "hmm": "x"}


def plot(figures: Figures, path: Path) -> None:
    """Plot figures 2 and 3 and, if measured, the frontier, as SVG and PNG."""
    pyplot = pyplot_for(path)
    points = frontier(figures)
    n = 3 if points else 2
    figure, axes = pyplot.subplots(1, n, figsize=(6 * n, 4.5), layout="constrained")
    _curves(axes[0], _points(figures, "figure_2"))
    _clouds(axes[1], _points(figures, "figure_3"))
    if points:
        _frontier(axes[2], points)
    save_plot(figure, path)
    pyplot.close(figure)


def _points(figures: Figures, figure: str) -> dict[str, Any]:
    return {key: figures[f"{figure}.{key}"] for key in NAMES if f"{figure}.{key}" in figures}


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


def _frontier(axes: Any, points: Iterable[tuple[str, float, float]]) -> None:
    for name, seconds, score in points:
        colour = next((COLOURS[key] for key in NAMES if name.startswith(key)), "black")
        axes.plot(seconds, score, "o", color=colour, markersize=5)
        axes.annotate(
            name.replace("_", " "),
            (seconds, score),
            xytext=(4, 4),
            textcoords="offset points",
            fontsize=7,
        )
    axes.margins(x=0.12)
    axes.set(title="Beyond: accuracy by time", xlabel="training, CPU s", ylabel="F1, tuning")
    axes.set_xscale("log")
    axes.set_xticks([0.5, 1, 2, 5], ["0.5", "1", "2", "5"])
    axes.set_xticks([], minor=True)
