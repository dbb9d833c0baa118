"""Training times of the estimators of Smith, Vail & Lafferty (2007, figure 1), and of CRFsuite.

Each measurement runs in its own process with one thread, and only one runs at a time. CPU seconds
are from symbol ids in memory to a model, including features. All estimators have the extended
features and the c selected on tuning data. "iterations_100" is L-BFGS as in the paper. "converged"
means: L-BFGS (ours and CRFsuite's) until the loss decreases by less than 0.001 % per iteration
(mean of ten), M-estimation by its dual until the duality gap is below 0.01 %. Runs of M-estimation,
our CRF and CRFsuite alternate, because they are compared with each other.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any
from unittest import mock

import numpy as np
import srsly

from spacy_structlearn.optimize.m_estimation import MEstimationObjective
from spacy_structlearn.sequence.estimators.base_distribution import BaseDistribution
from spacy_structlearn.sequence.estimators.m_estimation import ChainStatistics, Minimization
from spacy_structlearn.sequence.settings import MEstimationSettings
from spacy_structlearn.writing import write_bytes
from training.benchmarks.peers.others import predicates
from training.common.conll2000 import Sentence
from training.common.process import in_process
from training.common.recording import peak_mb
from training.papers.smith2007 import models

CONVERGED = models.Limits(1000, 1e-5)
RUNS = 3
COMPARED = ("m_est.converged", "crf.converged", "crfsuite.converged")
SINGLE = (
    "hmm.converged",
    "memm.converged",
    "pl.converged",
    "m_est.iterations_100",
    "crf.iterations_100",
    "memm.iterations_100",
    "pl.iterations_100",
)
Figures = dict[str, Any]


def times(
    corpora: Path, work: Path, strengths: Mapping[str, float | None]
) -> Iterator[tuple[str, Figures | None]]:
    """Yield the name and figures of all measurements, with finished ones from `work`.

    The name is also yielded before the measurement, without figures.
    strengths: the selected c of each method; CRFsuite has the c of "crf".
    """
    compared = [name for name in COMPARED if "suite" not in name or find_spec("pycrfsuite")]
    order = [(name, run) for run in range(RUNS) for name in compared]
    for name, run in [*order, *((name, 0) for name in SINGLE)]:
        yield name, None
        method = name.split(".")[0]
        path = work / f"times.{name}.{run}.json"
        if not path.exists():
            c = strengths["crf" if method == "crfsuite" else method]
            write_bytes(path, srsly.json_dumps(in_process(measure, name, c, corpora)).encode())
        yield name, srsly.read_json(path)


def count() -> int:
    """Return the number of measurements."""
    return RUNS * len(COMPARED) + len(SINGLE)


def summary(measured: Iterable[tuple[str, Figures]]) -> Figures:
    """Return the medians for the results, by dotted keys."""
    runs: dict[str, list[Figures]] = {}
    for name, figures in measured:
        runs.setdefault(name, []).append(figures)
    medians = {
        name: {key: median(run[key] for run in found) for key in found[0]}
        for name, found in runs.items()
    }
    result: Figures = {}
    for name, figures in medians.items():
        result[f"cpu_s.{name}"] = figures["cpu_s"]
        result[f"iterations.{name}"] = figures["iterations"]
        result[f"peak_mb.{name}"] = figures["peak_mb"]
    # Counting has only one step.
    result["cpu_s.hmm.iterations_100"] = result["cpu_s.hmm.converged"]
    ours = medians["m_est.converged"]
    result |= {
        "cpu_s.m_est.expectations": ours["expectations"],
        "cpu_s.m_est.features": ours["features"],
        "cpu_s.m_est.total": ours["cpu_s"],
        "ratio.cpu.our_crf_over_m_est": medians["crf.converged"]["cpu_s"] / ours["cpu_s"],
    }
    if "crfsuite.converged" in medians:
        peer = medians["crfsuite.converged"]["cpu_s"]
        result["ratio.cpu.crfsuite_over_m_est"] = peer / ours["cpu_s"]
    return result


# --- workers --------------------------------------------------------------------------------------
def train(method: str, limits: models.Limits, c: float | None, corpora: Path) -> Figures:
    """Train any estimator of the grids by L-BFGS."""
    data = models.training_data(corpora)
    start = process_time()
    prepared = models.prepare("extended", method, data, limits)
    _, iterations = prepared.fit(c)
    return {"cpu_s": process_time() - start, "iterations": iterations}


def m_estimation(c: float | None, corpora: Path) -> Figures:
    """Train by M-estimation as in the package. Also return the times of its parts."""
    data = models.training_data(corpora)
    seconds: dict[str, float] = {}

    expectations = BaseDistribution.expectations

    def timed(*args: Any) -> tuple[np.ndarray, np.ndarray]:
        start = process_time()
        found = expectations(*args)
        seconds["expectations"] = process_time() - start
        return found

    start = process_time()
    settings = MEstimationSettings(templates=models.TEMPLATES["extended"], smoothing=0.0)
    with mock.patch.object(BaseDistribution, "expectations", timed):
        statistics = ChainStatistics(settings, *data, models.LABELS)
    prepared = process_time()
    minimization = Minimization(statistics, models.l2_of(c))
    statistics.corrected(minimization.run())
    return {
        "cpu_s": process_time() - start,
        "features": prepared - start - seconds["expectations"],
        **seconds,
        "iterations": minimization.n_iterations,
    }


def primal(c: float | None, corpora: Path) -> Figures:
    """Train by M-estimation with L-BFGS on the weights, as in the paper."""
    data = models.training_data(corpora)
    start = process_time()
    settings = MEstimationSettings(templates=models.TEMPLATES["extended"], smoothing=0.0)
    statistics = ChainStatistics(settings, *data, models.LABELS)
    objective = MEstimationObjective(statistics.counts, statistics.expectations, c=c)
    optimizer = models.minimized(
        objective.value_and_grad, len(statistics.expectations), models.PAPER
    )
    statistics.corrected(optimizer.x)
    return {"cpu_s": process_time() - start, "iterations": optimizer.n_iterations}


def crfsuite(c: float | None, corpora: Path) -> Figures:
    """Train CRFsuite on the same predicates. Its labels are pairs, so transitions see three."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for rows in closed(models.training_sentences(corpora)):
        before = ["O", *(iob for _, _, iob in rows)]
        pairs = [f"{a} {iob}" for a, (_, _, iob) in zip(before, rows, strict=False)]
        trainer.append(predicates([(word, tag) for word, tag, _ in rows]), pairs)
    trainer.set_params(
        {
            "c1": 0.0,
            "c2": 0.5 * models.l2_of(c),  # of |w|^2
            "max_iterations": CONVERGED.max_iterations,
            "delta": CONVERGED.tolerance,
            "period": 10,
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        start = process_time()
        trainer.train(str(Path(folder) / "model"))
        seconds = process_time() - start
    return {"cpu_s": seconds, "iterations": trainer.logparser.last_iteration["num"]}


def closed(sentences: list[Sentence]) -> Iterator[Sentence]:
    """Replace the first token of each word and each tag by an unknown one."""
    seen: set[tuple[int, str]] = set()

    def known(column: int, text: str) -> str:
        first = (column, text) not in seen
        seen.add((column, text))
        return "<unknown>" if first else text

    for rows in sentences:
        yield [(known(0, word), known(1, tag), iob) for word, tag, iob in rows]


WORKERS: dict[str, Callable[[float | None, Path], Figures]] = {
    "m_est.converged": m_estimation,
    "m_est.iterations_100": primal,
    "crfsuite.converged": crfsuite,
}


def measure(name: str, c: float | None, corpora: Path) -> Figures:
    """Return one measurement, and the peak memory of this process."""
    method, end = name.split(".")
    limits = CONVERGED if end == "converged" else models.PAPER
    worker = WORKERS.get(name) or partial(train, method, limits)
    return {**worker(c, corpora), "peak_mb": peak_mb()}
