"""Beyond Smith, Vail & Lafferty (2007): a better base distribution, and what else was tried.

Called by smith2007.py, and alone without test data:

    python training/reproduce/smith_beyond.py

`beyond.best_m_est` is M-estimation from the specialised HMM (`sequence.specialized`), its c chosen
on tuning data; `beyond.specialized` are steps on the way there. `beyond.frontier` has accuracy
beside CPU seconds, from symbol ids to a model, features included, of it and its rivals.
`beyond.crf_from_m_est` and `beyond.crf_from_perceptron` tell how many iterations of the CRF are
saved by starting from another model; `beyond.selection` trains the CRF on the features
with the largest M-estimates.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import numpy as np
import smith_models as models
import srsly
from numpy.typing import NDArray
from smith_models import LABELS, Data

from spacy_structlearn.optimize.lbfgs import LBFGS
from spacy_structlearn.optimize.m_estimation import DualCoordinateDescent
from spacy_structlearn.sequence.conditional import ConditionalLikelihood
from spacy_structlearn.sequence.estimators import LBFGS_MEMORY
from spacy_structlearn.sequence.features import SHA_PEREIRA, Templates
from spacy_structlearn.sequence.hmm import close_columns
from spacy_structlearn.sequence.m_estimation import (
    GoldCounts,
    MEstimation,
    Minimization,
    Statistics,
)
from spacy_structlearn.sequence.model import ChainModel
from spacy_structlearn.sequence.perceptron import AveragedPerceptron
from spacy_structlearn.sequence.specialized import CentredCounts, SpecializedHMM

BEST = MEstimation(SHA_PEREIRA, base="specialized", tolerance=1e-2)
C = 0.25
L2 = 0.5  # of the CRF, c = 1
EPOCHS = (1, 2, 3, 5, 10)
ITERATIONS = (20, 30, 40, 60, 100)
OPTIMUM = 1e-4
"""Relative distance from the optimum at which iterations are compared."""
KEPT = (10_000, 50_000)
Figures = dict[str, Any]
Named = Iterator[tuple[str, Figures]]


def figures(corpora: Path, work: Path, jobs: int) -> Figures:
    """All figures; the test data are read once, by the M-estimate that is best on tuning data.

    jobs: not used, times are measured one after another.
    """
    path = work / "beyond.json"
    if not path.exists():
        found, model = explore(corpora)
        score = models.percentages(models.test_data(corpora).score(model), "test")
        found |= {f"beyond.best_m_est.{key}": value for key, value in score.items()}
        models.write(path, srsly.json_dumps(found).encode())
    return srsly.read_json(path)


def explore(corpora: Path) -> tuple[Figures, ChainModel]:
    """All that is measured on tuning data, printed as it is found, and the best M-estimate."""
    data, tuning = models.training_data(corpora), models.tuning_data(corpora)
    best, model = grid(data, tuning)
    found: Figures = {}
    for part in (
        iter([("best_m_est", best)]),
        steps(data, tuning),
        frontier(data, tuning, best["c"]),
        initialisers(data),
        selection(data, tuning),
    ):
        for name, figures_of_part in part:
            for key, value in figures_of_part.items():
                found[f"beyond.{name}.{key}"] = value
                print(f"beyond.{name}.{key:48} {value}", flush=True)
    return found, model


# --- M-estimation from the specialised HMM --------------------------------------------------------
def grid(data: Data, tuning: Data) -> tuple[Figures, ChainModel]:
    """The best c of the paper's grid, with its F1 and CPU seconds."""
    runs = []
    start = process_time()
    statistics = Statistics(BEST, *data, LABELS)
    preparation = process_time() - start
    for c in filter(None, models.STRENGTHS):
        start = process_time()
        model = statistics.corrected(Minimization(statistics, c).run())
        seconds = preparation + process_time() - start
        runs.append(({"c": c, "cpu_s": seconds, **f1(tuning, model)}, model))
    best, model = max(runs, key=lambda run: run[0]["tuning_f1"])
    return {**best, "features": len(statistics.expectations)}, model


def steps(data: Data, tuning: Data) -> Named:
    """Tuning F1 without some part of what makes it good."""
    statistics = Statistics(BEST, *data, LABELS)
    nothing = np.zeros(len(statistics.expectations))
    yield "specialized.q0_alone", f1(tuning, statistics.corrected(nothing))
    closed, _ = close_columns(data.columns)
    base = statistics.base
    assert isinstance(base, SpecializedHMM)
    sentences = np.repeat(np.arange(len(data.offsets) - 1), np.diff(data.offsets))
    for name, n_folds, examples in (
        ("judged_by_itself", 1, None),
        ("example_a_sentence", 10, sentences),
        ("whole", 10, None),
    ):
        residuals = base.residuals(n_folds)
        counts = CentredCounts(statistics.model, closed, data.offsets, residuals, examples)
        descent = DualCoordinateDescent(
            *counts.distinct(np.zeros(counts.shape[1])),
            c=C * counts.shape[0],
            tolerance=BEST.tolerance,
        ).run(BEST.max_iterations)
        statistics.model.weights[:] = 0.0
        statistics.counts = counts
        weights = descent.c * counts.rmatvec(descent.alpha / len(descent.alpha))
        yield f"specialized.{name}", f1(tuning, statistics.corrected(weights))


# --- accuracy beside time -------------------------------------------------------------------------
def frontier(data: Data, tuning: Data, c: float) -> Named:
    """CPU seconds and tuning F1 of some ways to train; those of one are one run."""
    for name, settings, strength in (
        ("m_est_paper", MEstimation(SHA_PEREIRA, tolerance=1e-3), 1.0),
        ("m_est_specialized", BEST, c),
    ):
        start = process_time()
        statistics = Statistics(settings, *data, LABELS)
        model = statistics.corrected(Minimization(statistics, strength).run())
        seconds = process_time() - start
        yield f"frontier.{name}", {"cpu_s": seconds, **f1(tuning, model)}
    start = process_time()
    model, columns = featurised(data)
    perceptron = AveragedPerceptron(model, columns, *data[1:])
    seconds = process_time() - start
    for epoch in range(1, max(EPOCHS) + 1):
        start = process_time()
        perceptron.epoch()
        perceptron.write()
        seconds += process_time() - start
        if epoch in EPOCHS:
            yield f"frontier.perceptron_{epoch}", {"cpu_s": seconds, **f1(tuning, model)}
    start = process_time()
    model, columns = featurised(data)
    objective = ConditionalLikelihood(model, columns, *data[1:], l2=L2)
    optimizer = lbfgs(objective.parameters())
    seconds = process_time() - start
    while optimizer.n_iterations < max(ITERATIONS):
        start = process_time()
        optimizer.step(objective.value_and_gradient)
        seconds += process_time() - start
        if optimizer.n_iterations in ITERATIONS:
            objective.write(optimizer.x)
            name = f"frontier.crf_{optimizer.n_iterations}"
            yield name, {"cpu_s": seconds, **f1(tuning, model)}


def featurised(
    data: Data, templates: tuple[str, ...] = SHA_PEREIRA
) -> tuple[ChainModel, NDArray[np.uint64]]:
    """An untrained model of second order, and the closed columns that it reads."""
    closed, vocabularies = close_columns(data.columns)
    own = [("ORTH", "TAG").index(name) for name in Templates(templates).columns]
    columns = np.ascontiguousarray(closed[:, own])
    model = ChainModel.build(columns, *data[1:], LABELS, templates, order=2)
    model.vocabularies = {
        name: vocabularies[place] for name, place in zip(model.templates.columns, own, strict=True)
    }
    return model, columns


def f1(tuning: Data, model: ChainModel) -> Figures:
    own = [("ORTH", "TAG").index(name) for name in model.templates.columns]
    read = tuning._replace(columns=np.ascontiguousarray(tuning.columns[:, own]))
    return {"tuning_f1": 100 * read.score(model).f1}


# --- starting points of the CRF -------------------------------------------------------------------
def initialisers(data: Data) -> Named:
    """Iterations and CPU seconds of the CRF to the same loss, from zero and from other models.

    Other models are scaled so that their loss is lowest; CPU seconds saved count what they cost.
    """
    model, columns = featurised(data)
    objective = ConditionalLikelihood(model, columns, *data[1:], l2=L2)
    zero = descend(objective, objective.parameters(), 0.0)
    optimum = min(value for value, _ in zero) * (1 + OPTIMUM)
    n_zero, s_zero = reached(zero, optimum)
    yield "crf_from_zero", {"iterations": n_zero, "cpu_s": s_zero}
    for name, start in (("m_est", m_estimate), ("perceptron", perceptron)):
        begin = process_time()
        other = start(data)
        own = process_time() - begin
        model.weights[:] = 0.0
        model.transitions[np.isfinite(model.transitions)] = 0.0
        model.adopt(other)
        x = objective.parameters()
        scaled = [scale * x for scale in (1.0, 0.5, 0.3, 0.2, 0.1)]
        x = min(scaled, key=lambda x: objective.value_and_gradient(x)[0])
        n, seconds = reached(descend(objective, x, optimum), optimum)
        yield (
            f"crf_from_{name}",
            {
                "iterations": n,
                "iterations_from_zero": n_zero,
                "iterations_saved": n_zero - n,
                "cpu_saved": s_zero - seconds - own,
            },
        )


def m_estimate(data: Data) -> ChainModel:
    """That whose loss is lowest among those that were tried: the paper's with empirical q0."""
    statistics = Statistics(MEstimation(SHA_PEREIRA, base="empirical"), *data, LABELS)
    model = statistics.corrected(Minimization(statistics, 10.0).run())
    # What is added to all labels alike makes no difference but to the penalty.
    labels = model.weights[:, : len(LABELS)]
    labels -= labels.mean(axis=1, keepdims=True)
    return model


def perceptron(data: Data) -> ChainModel:
    """Three epochs."""
    model, columns = featurised(data)
    averaged = AveragedPerceptron(model, columns, *data[1:])
    for _ in range(3):
        averaged.epoch()
    averaged.write()
    return model


def descend(
    objective: ConditionalLikelihood, x: NDArray[np.float64], goal: float
) -> list[tuple[float, float]]:
    """The loss and the CPU seconds so far after each iteration, until the loss is `goal`."""
    optimizer = lbfgs(x)
    course: list[tuple[float, float]] = []
    start, more = process_time(), True
    while more and optimizer.n_iterations < 400:
        more = optimizer.step(objective.value_and_gradient)
        course.append((float(optimizer.value or 0.0), process_time() - start))
        if course[-1][0] <= goal:
            break
    return course


def reached(course: list[tuple[float, float]], goal: float) -> tuple[int, float]:
    """The number of iterations to a loss, and their CPU seconds; all of them if it never is."""
    n = next((i for i, (value, _) in enumerate(course, 1) if value <= goal), len(course))
    return n, course[n - 1][1]


def lbfgs(x: NDArray[np.float64]) -> LBFGS:
    return LBFGS(x, memory=LBFGS_MEMORY, gradient_tolerance=0.0, value_tolerance=1e-7)


# --- features chosen by the M-estimate ------------------------------------------------------------
def selection(data: Data, tuning: Data) -> Named:
    """Tuning F1 of 100 iterations of the CRF with k features: those of greatest magnitude by the
    M-estimate or by the first step towards it, or the most frequent ones."""
    statistics = Statistics(BEST, *data, LABELS)
    model, columns = featurised(data)
    supported = model.supported
    places = {
        "by_m_est": Minimization(statistics, C).run(),
        "by_gradient": statistics.counts.rmatvec(np.ones(statistics.counts.shape[0])),
    }
    frequent = GoldCounts(model, columns, *data[1:])
    counts = frequent.rmatvec(np.ones(frequent.shape[0]))
    of_weights = frequent.places < model.weights.size
    orders = {
        "most_frequent": frequent.places[of_weights][np.argsort(-counts[of_weights])],
        **{name: statistics.counts.places[np.argsort(-np.abs(w))] for name, w in places.items()},
    }
    for name, order in orders.items():
        for k in KEPT:
            chosen = np.zeros(model.weights.size, dtype=np.bool_)
            chosen[order[:k]] = True
            model.weights[:] = 0.0
            model.transitions[np.isfinite(model.transitions)] = 0.0
            model.supported = chosen.reshape(model.weights.shape) & supported
            objective = ConditionalLikelihood(model, columns, *data[1:], l2=L2)
            optimizer = lbfgs(objective.parameters())
            while optimizer.n_iterations < 100 and optimizer.step(objective.value_and_gradient):
                pass
            objective.write(optimizer.x)
            yield f"selection.{name}.features_{k}", f1(tuning, model)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpora", type=Path, default=os.environ.get("STRUCTLEARN_CORPORA"))
    args = parser.parse_args()
    explore(args.corpora)


if __name__ == "__main__":
    main()
