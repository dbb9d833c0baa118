"""Tagging with the whole tag set, where normalisers are expensive.

The estimators of Smith, Vail & Lafferty (2007) label words with the tags of the English Web
Treebank. A CRF of second order sums over all triples of tags at each word, in each iteration;
M-estimation does so once, for the expectations of q0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from spacy_structlearn.sequence.chain.decode import viterbi
from spacy_structlearn.sequence.chain.model import ChainModel
from spacy_structlearn.sequence.estimators.m_estimation import ChainStatistics, Minimization
from spacy_structlearn.sequence.layout.encoding import PLAIN
from spacy_structlearn.sequence.layout.features import symbol_of
from spacy_structlearn.sequence.settings import (
    CRFSettings,
    LikelihoodSettings,
    MEMMSettings,
    MEstimationSettings,
    PseudoLikelihoodSettings,
)
from spacy_structlearn.trees.tree import Tree
from training.common.treebanks import TREES
from training.papers.smith2007.models import Data, Limits, prepare_likelihood

PARTS = {"fit": 100, "tune": 50}  # sentences of EWT; second-order search takes 0.2 s for each
TEMPLATES = ("ORTH[-1]", "ORTH[0]", "ORTH[1]", "SUFFIX[0]")
SUFFIX = 3  # letters
LIMITS = Limits(100, 1e-5)
L2 = (1.0,)  # of a sum over sentences; one value, because a CRF of second order takes minutes
C = (1.0, 10.0)  # of the regulariser of M-estimation
SHARED: dict[str, Any] = {"templates": TEMPLATES, "encoding": PLAIN, "pair_features": False}
LIKELIHOODS: dict[str, LikelihoodSettings] = {
    "crf_first_order": CRFSettings(order=1, **SHARED),
    "memm": MEMMSettings(order=2, **SHARED),
    "pl": PseudoLikelihoodSettings(order=2, **SHARED),
    "crf": CRFSettings(order=2, **SHARED),
}

Figures = dict[str, Any]


def as_data(trees: Sequence[Tree], labels: Sequence[str]) -> Data:
    """Return words, suffixes and tags of trees. Words of other tags have the first tag."""
    words = [word for tree in trees for word in tree.words()]
    ids = [list(map(symbol_of, own)) for own in (words, [word[-SUFFIX:].lower() for word in words])]
    offsets = np.cumsum([0, *(len(tree.words()) for tree in trees)])
    place = {label: number for number, label in enumerate(labels)}
    tags = [place.get(tag, 0) for tree in trees for tag in tree.tags()]
    return Data(np.array(ids, dtype=np.uint64).T.copy(), offsets, np.array(tags, dtype=np.int32))


def figures(corpora: Path) -> Iterator[Figures]:
    """Yield accuracy on the tuning documents with the best strength, and its CPU seconds."""
    fit, tune = (list(islice(TREES["ewt"](corpora, s), n)) for s, n in PARTS.items())
    labels = sorted({tag for tree in fit for tag in tree.tags()})
    data, tuning = as_data(fit, labels), as_data(tune, labels)
    size = {"sentences": len(fit), "labels": len(labels), "words": len(data.columns)}
    yield {f"tagging.{key}": value for key, value in size.items()}

    def best(name: str, fits: Iterator[tuple[float, ChainModel, Figures]]) -> Figures:
        found = []
        for strength, model, own in fits:
            given = viterbi(model, model.derive(tuning.columns), tuning.offsets)
            accuracy = 100 * float((given == tuning.label_ids).mean())
            found.append({"strength": strength, "accuracy": accuracy, **own})
        chosen = max(found, key=lambda one: one["accuracy"])
        return {f"tagging.{name}.{key}": value for key, value in chosen.items()}

    yield best("m_est", _m_estimates(data, labels))
    for name, settings in LIKELIHOODS.items():
        yield best(name, _likelihoods(settings, data, labels))


def _m_estimates(data: Data, labels: Sequence[str]) -> Iterator[tuple[float, ChainModel, Figures]]:
    settings = MEstimationSettings(max_iterations=LIMITS.max_iterations, **SHARED)
    start = process_time()
    statistics = ChainStatistics(settings, *data, labels)
    prepared = process_time() - start
    for c in C:
        start = process_time()
        minimization = Minimization(statistics, 1 / c)
        weights = minimization.run()
        seconds = process_time() - start
        figures = {"iterations": minimization.n_iterations, "statistics_s": prepared}
        model = statistics.corrected(weights)
        yield c, model, figures | {"dual_s": seconds, "cpu_s": prepared + seconds}


def _likelihoods(
    settings: LikelihoodSettings, data: Data, labels: Sequence[str]
) -> Iterator[tuple[float, ChainModel, Figures]]:
    start = process_time()
    prepared = prepare_likelihood(settings, data, labels, LIMITS)
    preparation = process_time() - start
    for l2 in L2:
        start = process_time()
        model, iterations = prepared.fit(1 / l2)
        yield l2, model, {"iterations": iterations, "cpu_s": preparation + process_time() - start}
