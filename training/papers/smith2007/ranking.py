"""Ranking noise-contrastive estimation, a later estimator for the model of the M-estimator.

Ma & Collins (2018), section 3.2: weights make each labelled sentence likelier than sentences that
are sampled from q0. Like M-estimation (Smith, Vail & Lafferty 2007, equation 3), this trains
p(x, y) = q0(x, y) exp(w.f(x, y)) / Z without Z, and needs q0 once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from spacy_structlearn.sequence.estimators.m_estimation import (
    ChainStatistics,
    GoldCounts,
    Minimization,
)
from training.papers.smith2007 import models
from training.papers.smith2007.models import LABELS, Limits
from training.papers.smith2007.sampled import PAPER

SAMPLES = (1, 5, 20)  # for each sentence
STRENGTHS = (100.0, 1000.0, 10_000.0, 100_000.0)  # c of |w|^2 / 2c, of a sum over sentences
LIMITS = Limits(100, 1e-6)

Floats = NDArray[np.float64]


def ranking_loss(scores: Floats) -> tuple[float, Floats]:
    """Return the loss in nats, and its derivatives by scores, (n, k + 1), gold ones first."""
    log_sums = logsumexp(scores, axis=1, keepdims=True)
    derivatives = np.exp(scores - log_sums)
    derivatives[:, 0] -= 1.0
    return float((log_sums[:, 0] - scores[:, 0]).sum()), derivatives


class Ranking:
    """The loss of labelled sentences among samples, with its gradient.

    statistics: of n sentences, with features and q0. k: samples for each sentence.
    """

    def __init__(self, statistics: ChainStatistics, k: int, seed: int = 0):
        self.gold, base = statistics.counts, statistics.base
        self.n, self.k = self.gold.shape[0], k
        columns, offsets, ids = base.sample(self.n * k, np.random.default_rng(seed))
        own = [base.columns.index(name) for name in statistics.model.templates.columns]
        self.noise = GoldCounts(statistics.model, columns[:, own], offsets, ids)
        order = np.argsort(self.gold.places)
        self.known = order[np.searchsorted(self.gold.places[order], self.noise.places)]

    def value_and_grad(self, w: Floats, c: float) -> tuple[float, Floats]:
        """Return the loss divided by n, and its gradient. w: float64 (n_parameters)."""
        scores = np.column_stack(
            [self.gold.matvec(w), self.noise.matvec(w[self.known]).reshape(self.n, self.k)]
        )
        loss, derivatives = ranking_loss(scores)
        gradient = self.gold.rmatvec(derivatives[:, 0]) + w / c
        gradient[self.known] += self.noise.rmatvec(derivatives[:, 1:].ravel())
        return float(loss + w @ w / (2 * c)) / self.n, gradient / self.n


def figures(corpora: Path) -> Iterator[dict[str, Any]]:
    """Yield F1 on tuning data, with the best c, and CPU seconds of all but features and q0."""
    data, tuning = models.training_data(corpora), models.tuning_data(corpora)
    start = process_time()
    statistics = ChainStatistics(PAPER, *data, LABELS)
    yield {"nce.features.cpu_s": process_time() - start}

    def best(name: str, fits: Iterator[tuple[float, Floats, float]]) -> dict[str, Any]:
        found = []
        for c, weights, seconds in fits:
            score = models.percentages(tuning.score(statistics.corrected(weights)), "tuning")
            found.append({"c": c, "cpu_s": seconds, **score})
        chosen = max(found, key=lambda one: one["tuning_f1"])
        return {f"nce.{name}.{key}": value for key, value in chosen.items()}

    def minimized() -> Iterator[tuple[float, Floats, float]]:
        for c in models.STRENGTHS[3:-1]:
            begun = process_time()
            yield c, Minimization(statistics, 1 / c).run(), process_time() - begun

    def ranked(k: int) -> Iterator[tuple[float, Floats, float]]:
        begun = process_time()
        ranking = Ranking(statistics, k)
        drawn = process_time() - begun
        for c in STRENGTHS:
            begun = process_time()
            x = models.minimized(
                lambda w, c=c: ranking.value_and_grad(w, c), len(statistics.expectations), LIMITS
            ).x
            yield c, x, drawn + process_time() - begun

    yield best("m_estimation", minimized())
    for k in SAMPLES:
        yield best(f"ranking_{k}", ranked(k))
