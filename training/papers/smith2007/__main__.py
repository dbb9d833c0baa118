"""Smith, Vail & Lafferty (2007): every estimator of the paper on CoNLL-2000, NP chunks.

    python corpora/fetch.py conll2000
    pip install matplotlib python-crfsuite
    python -m training.papers.smith2007 --jobs 2

Writes training/results/smith2007.json, .md and .svg: tables 1 and 2, figures 1 to 3, and the
result with input-only features, with the figures of the paper. Finished models are kept in
training/work/smith2007/. Remove the folder to start again.

Parts: `hmm`, `crf`, `memm`, `pl` and `m_est` train models for all values of c, on all training
sentences, with both feature sets. `q0` uses other base distributions,
`q0_wide` the same with further values of c, `input_only` input-only features, and `curves` fewer
sentences. `test` evaluates the models with the best F1 on tuning data once on the test data.
`times` measures training times in one process at a time, and includes CRFsuite if it is installed.
`sampled`, `nce`, `tagging`: see sampled.py, ranking.py and tagging.py. A part needs the results of
earlier parts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import srsly
from tqdm import tqdm

from spacy_structlearn.sequence.chain.model import ChainModel
from spacy_structlearn.writing import write_bytes
from training.common.command import options, run_parts
from training.papers.smith2007 import models, ranking, report, sampled, tagging, times
from training.papers.smith2007.models import Grid

NAME = "smith2007"
SIZES = (500, 1000, 2000, 4000)
N_TRAIN = 8036
ESTIMATORS = ("hmm", "crf", "memm", "pl", "m_est")
GRIDS: dict[str, tuple[Grid, ...]] = {
    "hmm": (Grid("hmm_features", "hmm"),),
    "crf": (Grid("hmm_features", "crf"), Grid("extended", "crf")),
    "memm": (Grid("hmm_features", "memm"), Grid("extended", "memm")),
    "pl": (Grid("hmm_features", "pl"), Grid("hmm_features", "pl_joint"), Grid("extended", "pl")),
    "m_est": (Grid("hmm_features", "m_est"), Grid("extended", "m_est")),
    "q0": (Grid("extended", "lu", by=("f1", "p")), Grid("extended", "empirical")),
    "q0_wide": tuple(
        Grid("extended", method, by=("f1", "p"), wide=True) for method in ("lu", "empirical")
    ),
    "input_only": (Grid("extended", "input_only"),),
    "curves": tuple(
        Grid("hmm_features" if method == "hmm" else "extended", method, n)
        for n in SIZES
        for method in ESTIMATORS
    ),
}
# The selected models by their names in the results: the grid and the score used for selection.
CHOSEN: dict[str, tuple[Grid, str]] = {
    **{
        f"{grid.features}.{grid.method}": (grid, "f1")
        for part in ESTIMATORS
        for grid in GRIDS[part]
    },
    "q0.hmm": (Grid("extended", "m_est"), "f1"),
    "q0.lu_f1": (GRIDS["q0"][0], "f1"),
    "q0.lu_precision": (GRIDS["q0"][0], "p"),
    "q0.empirical": (GRIDS["q0"][1], "f1"),
    "q0.lu_wide_f1": (GRIDS["q0_wide"][0], "f1"),
    "q0.lu_wide_precision": (GRIDS["q0_wide"][0], "p"),
    "q0.empirical_wide": (GRIDS["q0_wide"][1], "f1"),
    "input_only.m_est": (GRIDS["input_only"][0], "f1"),
}


# --- grids ----------------------------------------------------------------------------------------
def train(
    grids: Sequence[Grid], args: argparse.Namespace, strengths: Sequence[float | None]
) -> None:
    """Train all unfinished models of some grids, several grids at a time."""
    todo = [grid for grid in grids if grid.missing(args.work, strengths)]
    with ProcessPoolExecutor(args.jobs, get_context("spawn")) as pool:
        pending = [pool.submit(grid.run, args.corpora, args.work, strengths) for grid in todo]
        for future in tqdm(as_completed(pending), total=len(pending), desc="grids"):
            try:
                future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def tuning_figures(work: Path) -> dict[str, Any]:
    """Return figures of the selected models of all finished grids."""
    figures: dict[str, Any] = {}
    for name, (grid, by) in CHOSEN.items():
        if grid.is_finished(work):
            run = models.chosen(grid.runs(work), by)
            figures |= {f"{name}.{key}": value for key, value in run.items()}
    # Points of a figure are lists, because strengths and sizes are not names.
    for grid in GRIDS["q0_wide"]:
        if grid.is_finished(work):
            keys = ("c", "tuning_p", "tuning_r", "tuning_f1")
            figures[f"q0.points.{grid.method}"] = [
                [run[key] for key in keys] for run in grid.runs(work)
            ]
    for method in ESTIMATORS:
        sizes, points = [], []
        for n in (*SIZES, None):
            grid = Grid("hmm_features" if method == "hmm" else "extended", method, n)
            if not grid.is_finished(work):
                continue
            runs, size = grid.runs(work), n or N_TRAIN
            sizes.append([size, models.chosen(runs, "f1")["tuning_f1"]])
            points += [[size, run["c"], run["cpu_s"], run["tuning_f1"]] for run in runs]
        if sizes:
            figures[f"figure_2.{method}"] = sizes
            figures[f"figure_3.{method}"] = points
    return figures


# --- test -----------------------------------------------------------------------------------------
def test_figures(args: argparse.Namespace) -> dict[str, Any]:
    """Return test figures of the selected models of all finished grids."""
    figures: dict[str, Any] = {}
    data = None
    for name, (grid, by) in CHOSEN.items():
        if not grid.is_finished(args.work):
            print(f"{name}: its grid is not finished", file=sys.stderr)
            continue
        path = args.work / f"{grid.name}.{by}.test.json"
        if not path.exists():
            data = data or models.test_data(args.corpora)
            model = ChainModel.from_bytes(grid.model_path(args.work, by).read_bytes())
            found = data.score(model)
            score = models.percentages(found, "test") | {"test_chunks": found.gold}
            write_bytes(path, srsly.json_dumps(score).encode())
        figures |= {f"{name}.{key}": value for key, value in srsly.read_json(path).items()}
        print(f"{name:28} test F1 {figures[f'{name}.test_f1']:.2f}")
    return figures


# --- times ----------------------------------------------------------------------------------------
def time_figures(args: argparse.Namespace) -> dict[str, Any]:
    """Return figure 1, and CPU times compared with our CRF and CRFsuite."""
    if find_spec("pycrfsuite") is None:
        print("python-crfsuite is not installed: its time is left out", file=sys.stderr)
    strengths = {}
    for method in ESTIMATORS:
        grid = GRIDS[method][-1]
        if not grid.is_finished(args.work):
            sys.exit(f"times need the chosen c: run --only {method} before")
        strengths[method] = models.chosen(grid.runs(args.work), "f1")["c"]
    found = []
    with tqdm(total=times.count(), unit="run") as bar:
        for name, figures in times.times(args.corpora, args.work, strengths):
            if figures is None:
                bar.set_postfix_str(name)
                continue
            found.append((name, figures))
            tqdm.write(f"{name:24} {figures['cpu_s']:8.2f} CPU s, {figures['iterations']} it.")
            bar.update()
    return times.summary(found)


# --- the run --------------------------------------------------------------------------------------
def main() -> None:
    names = [*GRIDS, "test", "times", "sampled", "nce", "tagging"]
    parser = options(__doc__, "corpora", "work", "jobs", only=names)
    parser.add_argument("--c", type=float, help="one strength of the grids; default: all")
    args = parser.parse_args()
    args.work /= NAME
    args.work.mkdir(parents=True, exist_ok=True)
    only = args.only or names
    strengths = (*models.STRENGTHS, *models.WIDE) if args.c is None else (_nearest(args.c),)

    def grids() -> dict[str, Any]:
        train([grid for part in only for grid in GRIDS.get(part, ())], args, strengths)
        return tuning_figures(args.work)

    parts = {
        "grids": grids,
        "test": lambda: test_figures(args),
        "times": lambda: time_figures(args),
        "sampled": lambda: sampled.figures(args.corpora),
        "nce": lambda: ranking.figures(args.corpora),
        "tagging": lambda: tagging.figures(args.corpora),
    }
    chosen = [*(["grids"] * any(n in GRIDS for n in only)), *(n for n in only if n in parts)]
    run_parts(NAME, parts, chosen, page=True, write=report.plot)


def _nearest(c: float) -> float:
    """Return the nearest strength of the grid, for example for 0.215."""
    return min((s for s in models.STRENGTHS if s is not None), key=lambda s: abs(s - c))


if __name__ == "__main__":
    main()
