"""Errors of trees by kind, and the coverage of intervals.

report.kinds            kinds of errors (Kummerfeld et al. 2012) in trees of en_structlearn_sm on
                        EWT's dev, with gold tokens; report.sentences, report.brackets: the trees,
                        and their missing and extra brackets
report.errors.KIND      share of these brackets; report.unexplained: of those kinds that only name
                        the step which repairs them
report.seconds          CPU seconds of a page on all of dev, without the predictions
compare.coverage.under_null, .true_difference   percentage of the 95 % intervals of the bootstrap
                        that hold the true difference, of simulated pairs of parsers that are equal,
                        and of which one is better: F1 of sentences like those of dev;
                        compare.simulations: pairs of each
"""

from __future__ import annotations

from collections import Counter
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.training import Example

import spacy_structlearn
from spacy_structlearn.evaluation.significance import paired_bootstrap
from spacy_structlearn.evaluation.tree_errors import KINDS, UNEXPLAINED
from spacy_structlearn.pipeline.readers import with_gold_tokens
from spacy_structlearn.pipeline.reports import evaluation, items
from training.common.command import Figures
from training.common.ewt import read_documents
from training.common.scoring import f1_of

SIMULATIONS, SENTENCES, SAMPLES = 2000, 400, 1000
POPULATION = 1_000_000  # sentences by which the true difference is found


def report(args: Any) -> Figures:
    nlp = spacy_structlearn.load("en_structlearn_sm")
    gold = [doc for _, doc in read_documents(args.corpora, "dev")][: args.limit]
    docs = nlp.pipe(with_gold_tokens(nlp, doc).predicted for doc in gold)
    examples = [Example(doc, own) for doc, own in zip(docs, gold, strict=True)]
    began = process_time()
    sentences = list(items.by_sentence(examples))
    evaluation.report(sentences, "EWT dev")
    seconds = process_time() - began
    repaired: Counter[str] = Counter()
    for own in sentences:
        for error in evaluation.errors_of(own):
            repaired[error.kind] += error.repaired
    total = repaired.total()
    return {
        "report.sentences": len(sentences),
        "report.brackets": total,
        "report.kinds": sum(n > 0 for n in repaired.values()),
        "report.unexplained": sum(repaired[kind] for kind in UNEXPLAINED) / total,
        **{f"report.errors.{kind.replace(' ', '_')}": repaired[kind] / total for kind in KINDS},
        "report.seconds": seconds,
    }


def coverage(args: Any) -> Figures:
    number = args.limit or SIMULATIONS
    figures: Figures = {"compare.simulations": number}
    for name, gain in (("under_null", 0.0), ("true_difference", 0.02)):
        random = np.random.default_rng(0)
        a, b = simulated(random, POPULATION, gain)
        true = f1_of(b.sum(axis=0)) - f1_of(a.sum(axis=0)) if gain else 0.0
        held = 0
        for _ in range(number):
            found = paired_bootstrap(*simulated(random, SENTENCES, gain), f1_of, SAMPLES)
            held += bool(found.low <= true <= found.high)
        figures[f"compare.coverage.{name}"] = 100 * held / number
    return figures


def simulated(
    random: np.random.Generator, n: int, gain: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of right, gold and predicted brackets of two parsers in n sentences.

    Some sentences are hard for both. gain: of the second parser, in the share of right brackets.
    """
    gold = 1 + random.geometric(0.09, n)
    ease = random.beta(6, 1, n)
    sides = []
    for more in (0.0, gain):
        right = random.binomial(gold, np.minimum(ease + more * (1 - ease) / 0.143, 1))
        sides.append(np.stack([right, gold, right + random.binomial(gold - right, 0.9)], axis=1))
    return sides[0], sides[1]
