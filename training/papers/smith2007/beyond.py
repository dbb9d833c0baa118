"""Beyond Smith, Vail & Lafferty (2007): other base distributions, and other trainers.

Called by papers/smith2007, or, without test data:

    python -m training.papers.smith2007.beyond

`beyond.steps`: richer emissions of the paper's HMM, and further M-steps. `beyond.frontier`:
accuracy and CPU seconds of several trainers, from symbol ids to a model, including features.
`beyond.crf_from_m_est`: iterations of a CRF that starts from
an M-estimate.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import numpy as np
import srsly
from numpy.typing import NDArray
from spacy.lang.lex_attrs import word_shape

from spacy_structlearn.learning.training import write_bytes
from spacy_structlearn.optimize.lbfgs import LBFGS
from spacy_structlearn.sequence.chain.model import ChainModel
from spacy_structlearn.sequence.estimators.base_distribution import BaseDistribution
from spacy_structlearn.sequence.estimators.crf import ChainLikelihood
from spacy_structlearn.sequence.estimators.hmm import close_columns
from spacy_structlearn.sequence.estimators.m_estimation import ChainStatistics, Minimization
from spacy_structlearn.sequence.estimators.training import LBFGS_MEMORY
from spacy_structlearn.sequence.layout.features import SHA_PEREIRA, Templates
from spacy_structlearn.sequence.settings import MEstimationSettings
from training.papers.smith2007 import models
from training.papers.smith2007.models import LABELS, Data

L2 = 1.0  # of the CRF, c = 1
ITERATIONS = (20, 30, 40, 60, 100)
OPTIMUM = 1e-4
"""Relative distance from the optimum at which iterations are compared."""
REPEATS = 3
COLUMNS = ("ORTH", "TAG", "SUFFIX", "SHAPE")
"""Columns of the data. Most models use only the first two."""
PAPER = MEstimationSettings(templates=SHA_PEREIRA, tolerance=1e-3)
EMITTED: dict[str, tuple[tuple[str, ...], ...]] = {
    "word_and_tag_apart": (("ORTH",), ("TAG",)),
    "word_with_classes": (("ORTH", "SUFFIX", "SHAPE"), ("TAG",)),
    "word_with_tag": (("ORTH", "TAG"),),
}
M_STEPS = (1, 2, 4, 8)
STRENGTHS = (10.0, 30.0, 100.0)
"""c of repeated M-steps, from the largest c of the paper's grid."""
Figures = dict[str, Any]
Named = Iterator[tuple[str, Figures]]


def figures(corpora: Path, work: Path, jobs: int) -> Figures:
    """Return all figures, on tuning data. jobs: ignored, because times are measured in sequence."""
    path = work / "beyond.json"
    if not path.exists():
        write_bytes(path, srsly.json_dumps(explore(corpora)).encode())
    return srsly.read_json(path)


def explore(corpora: Path) -> Figures:
    """Return all figures on tuning data, and print each as soon as it is measured."""
    data, tuning = models.training_data(corpora), models.tuning_data(corpora)
    found: Figures = {}
    for part in (
        emissions(corpora),
        m_steps(data, tuning),
        frontier(data, tuning),
        initialisers(data),
    ):
        for name, figures_of_part in part:
            for key, value in figures_of_part.items():
                found[f"beyond.{name}.{key}"] = value
                print(f"beyond.{name}.{key:48} {value}", flush=True)
    return found


# --- other base distributions ---------------------------------------------------------------------
def emissions(corpora: Path) -> Named:
    """Try richer emissions of the paper's HMM, each with its best c of the paper's grid.

    Vocabularies of suffixes and shapes are closed as well, so an unknown word keeps its suffix and
    shape if they are known.
    """
    train = models.training_sentences(corpora)
    tuning = models.read(corpora / "conll2000" / "train.txt.gz")[-models.N_TUNING :]
    data, tuning = with_classes(train), with_classes(tuning)
    for name, emitted in EMITTED.items():
        settings = replace(PAPER, emitted=emitted)
        own = read_by(data, settings.columns)
        start = process_time()
        statistics = ChainStatistics(settings, *own, LABELS)
        preparation = process_time() - start
        alone = f1(tuning, statistics.corrected(np.zeros(len(statistics.expectations))))
        runs = []
        for c in filter(None, models.STRENGTHS):
            start = process_time()
            model = statistics.corrected(Minimization(statistics, 1 / c).run())
            seconds = preparation + process_time() - start
            runs.append({"c": c, "cpu_s": seconds, **f1(tuning, model)})
        best = max(runs, key=itemgetter("tuning_f1"))
        yield f"steps.{name}", {**best, "q0_alone_f1": alone["tuning_f1"]}


def with_classes(sentences: list[Any]) -> Data:
    """Return data with all `COLUMNS`: suffixes of three characters, and spaCy's shapes."""
    data = models.as_data(sentences)
    classes = models.as_data(
        [[(word[-3:], word_shape(word), iob) for word, _, iob in rows] for rows in sentences]
    )
    return data._replace(columns=np.hstack([data.columns, classes.columns]))


@dataclass(frozen=True, eq=False)
class Corrected(BaseDistribution):
    """The label distribution of a model on given sentences: see `posterior_expectations`."""

    model: ChainModel

    def to_chain_model(self, encoding: str = "IOB2", *, closed: bool = True) -> ChainModel:
        return self.model


def m_steps(data: Data, tuning: Data) -> Named:
    """Try several M-steps: q0 of a step is the estimate of the previous step on the training data.

    A step runs forward-backward once with that estimate. The first step has the empirical base.
    """
    closed, _ = close_columns(data.columns)
    for c in STRENGTHS:
        start = process_time()
        statistics = ChainStatistics(replace(PAPER, base="empirical"), *data, LABELS)
        q0 = statistics.base
        assert isinstance(q0, BaseDistribution)
        model = statistics.corrected(Minimization(statistics, 1 / c).run())
        seconds = process_time() - start
        for n in range(1, max(M_STEPS) + 1):
            if n > 1:
                start = process_time()
                q0 = Corrected(q0.labels, q0.t, q0.emissions, model)
                expected = q0.posterior_expectations(statistics.model, closed, data.offsets)
                statistics.base = q0
                statistics.expectations = statistics.counts.vector(*expected)
                del statistics.distinct  # computed from other expectations
                model = statistics.corrected(Minimization(statistics, 1 / c).run())
                seconds += process_time() - start
            if n in M_STEPS:
                yield f"steps.m_steps_{n}_c_{c:.0f}", {"cpu_s": seconds, **f1(tuning, model)}


# --- accuracy over time ---------------------------------------------------------------------------
def frontier(data: Data, tuning: Data) -> Named:
    """Return CPU seconds and tuning F1 of several trainers, each from one run."""
    start = process_time()
    statistics = ChainStatistics(PAPER, *data, LABELS)
    model = statistics.corrected(Minimization(statistics, 1.0).run())
    seconds = process_time() - start
    yield "frontier.m_est_paper", {"cpu_s": seconds, **f1(tuning, model)}
    start = process_time()
    model, columns = featurised(data)
    objective = ChainLikelihood(model, columns, *data[1:], l2=L2)
    optimizer = lbfgs(objective.parameters())
    seconds = process_time() - start
    while optimizer.n_iterations < max(ITERATIONS):
        start = process_time()
        optimizer.step(objective.value_and_grad)
        seconds += process_time() - start
        if optimizer.n_iterations in ITERATIONS:
            objective.write(optimizer.x)
            name = f"frontier.crf_{optimizer.n_iterations}"
            yield name, {"cpu_s": seconds, **f1(tuning, model)}


def featurised(
    data: Data, templates: tuple[str, ...] = SHA_PEREIRA
) -> tuple[ChainModel, NDArray[np.uint64]]:
    """Return an untrained second-order model, and its columns with closed vocabularies."""
    closed, vocabularies = close_columns(data.columns)
    own = [("ORTH", "TAG").index(name) for name in Templates(templates).columns]
    columns = np.ascontiguousarray(closed[:, own])
    model = ChainModel.build(
        columns, *data[1:], LABELS, templates, 1, order=2, pair_features=True, encoding="IOB2"
    )
    model.vocabularies = {
        name: vocabularies[place] for name, place in zip(model.templates.columns, own, strict=True)
    }
    return model, columns


def f1(tuning: Data, model: ChainModel) -> Figures:
    return {"tuning_f1": 100 * read_by(tuning, model.templates.columns).score(model).f1}


def read_by(data: Data, names: Sequence[str]) -> Data:
    """Return the data with only these columns."""
    places = [COLUMNS.index(name) for name in names]
    return data._replace(columns=np.ascontiguousarray(data.columns[:, places]))


# --- starting points of the CRF -------------------------------------------------------------------
def initialisers(data: Data) -> Named:
    """Return iterations and CPU seconds of a CRF to the same loss, from 0 and from an M-estimate.

    The weights of the M-estimate are scaled to minimize the loss. Seconds include the estimate and
    the scaling, and are medians of alternating runs.
    """
    model, columns = featurised(data)
    objective = ChainLikelihood(model, columns, *data[1:], l2=L2)
    zero = objective.parameters()
    optimum = (descend(objective, zero, 0.0).value or 0.0) * (1 + OPTIMUM)
    n: dict[str, int] = {}
    seconds: dict[str, list[float]] = {"zero": [], "m_est": []}
    for _ in range(REPEATS):
        for name, start in (("zero", None), ("m_est", m_estimate)):
            begin = process_time()
            x = zero
            if start is not None:
                model.weights[:] = 0.0
                model.transitions[np.isfinite(model.transitions)] = 0.0
                model.start_from(start(data))
                x = objective.parameters()
                scaled = [scale * x for scale in (1.0, 0.5, 0.3, 0.2, 0.1)]
                x = min(scaled, key=lambda x: objective.value_and_grad(x)[0])
            n[name] = descend(objective, x, optimum).n_iterations
            seconds[name].append(process_time() - begin)
    of_zero = median(seconds["zero"])
    yield "crf_from_zero", {"iterations": n["zero"], "cpu_s": of_zero}
    yield (
        "crf_from_m_est",
        {
            "iterations": n["m_est"],
            "iterations_from_zero": n["zero"],
            "iterations_saved": n["zero"] - n["m_est"],
            "cpu_saved": of_zero - median(seconds["m_est"]),
        },
    )


def m_estimate(data: Data) -> ChainModel:
    """Return the M-estimate with the lowest CRF loss of those tried: the paper's, empirical q0."""
    statistics = ChainStatistics(
        MEstimationSettings(templates=SHA_PEREIRA, base="empirical"), *data, LABELS
    )
    model = statistics.corrected(Minimization(statistics, 0.1).run())
    # A constant added to all labels changes only the penalty.
    labels = model.weights[:, : len(LABELS)]
    labels -= labels.mean(axis=1, keepdims=True)
    return model


def descend(objective: ChainLikelihood, x: NDArray[np.float64], goal: float) -> LBFGS:
    """Run L-BFGS from x until the loss is `goal`, or it cannot continue."""
    optimizer = lbfgs(x)
    while optimizer.n_iterations < 400 and optimizer.step(objective.value_and_grad):
        if (optimizer.value or 0.0) <= goal:
            break
    return optimizer


def lbfgs(x: NDArray[np.float64]) -> LBFGS:
    return LBFGS(x, memory=LBFGS_MEMORY, gradient_tolerance=0.0, value_tolerance=1e-7)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpora", type=Path, default=os.environ.get("STRUCTLEARN_CORPORA"))
    args = parser.parse_args()
    explore(args.corpora)


if __name__ == "__main__":
    main()
