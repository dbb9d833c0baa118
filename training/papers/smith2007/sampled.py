"""Smith, Vail & Lafferty (2007), equation 7: expectations of features from sampled sentences.

Exact expectations are compared with those of sentences that are sampled from q0, for several
numbers of sentences and seeds. The model is that of the paper's HMM with the extended features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from spacy_structlearn.sequence.estimators.m_estimation import ChainStatistics, Minimization
from spacy_structlearn.sequence.layout.features import SHA_PEREIRA
from spacy_structlearn.sequence.settings import MEstimationSettings
from training.papers.smith2007 import models
from training.papers.smith2007.models import LABELS

PAPER = MEstimationSettings(templates=SHA_PEREIRA, tolerance=1e-3)
C = 10 ** (1 / 3)  # of the regulariser |w|^2 / 2c; the best in the grid with exact expectations
SAMPLES = (1000, 10_000, 100_000, 1_000_000)
SEEDS = (0, 1, 2)

Figures = dict[str, Any]


def figures(corpora: Path) -> Iterator[Figures]:
    """Yield figures on tuning data.

    tuning_f1, tuning_sd: mean and standard deviation over seeds. relative_error: the mean of
    |E' - E| / |E|, norms being sums of magnitudes. cpu_s: of data, features and expectations.
    """
    data, tuning = models.training_data(corpora), models.tuning_data(corpora)

    def run(settings: MEstimationSettings) -> tuple[Any, float, float]:
        start = process_time()
        statistics = ChainStatistics(settings, *data, LABELS)
        seconds = process_time() - start
        model = statistics.corrected(Minimization(statistics, 1 / C).run())
        return statistics.expectations, 100 * tuning.score(model).f1, seconds

    exact, f1, seconds = run(PAPER)
    yield {"sampled.c": C, "sampled.exact.tuning_f1": f1, "sampled.exact.cpu_s": seconds}
    for n in SAMPLES:
        runs = [run(replace(PAPER, samples=n, seed=seed)) for seed in SEEDS]
        errors = [np.abs(found - exact).sum() / np.abs(exact).sum() for found, _, _ in runs]
        scores = [f1 for _, f1, _ in runs]
        own = {
            "tuning_f1": np.mean(scores),
            "tuning_sd": np.std(scores, ddof=1),
            "relative_error": np.mean(errors),
            "cpu_s": np.mean([seconds for _, _, seconds in runs]),
        }
        yield {f"sampled.{n}.{key}": float(value) for key, value in own.items()}
