"""Standard errors by the bootstrap over sentences, and the calibration error of a pipeline."""

import numpy as np
import pytest
from spacy.tokens import Doc, Span, SpanGroup
from spacy.training import Example
from spacy.vocab import Vocab

from spacy_structlearn.evaluation.evalb import SCORED, EvalbScore, Row, score_trees
from spacy_structlearn.evaluation.prf import PRF, SpanScore
from spacy_structlearn.pipeline import extensions
from spacy_structlearn.trees.brackets import parse_tree
from training.common import scoring
from training.pipeline import card


def score_of(counts):
    """A score of sentences with these numbers of right, predicted and gold brackets."""
    rows = [SpanScore(*map(int, row), per_label={"X": PRF(*map(int, row))}) for row in counts]
    return EvalbScore(tuple(Row(i, 1, SCORED, own) for i, own in enumerate(rows, 1)))


def test_the_error_of_a_ratio():
    """With sentences of different lengths, the delta method for 2 right / (gold + predicted)."""
    random = np.random.default_rng(1)
    gold = random.integers(1, 40, 1000)
    right = random.binomial(gold, random.uniform(0.6, 1.0, 1000))
    f1 = right.sum() / gold.sum()
    analytic = 100 * np.sqrt(np.sum((right - f1 * gold) ** 2)) / gold.sum()
    found = scoring.f1_standard_error(score_of(np.stack([right, gold, gold], axis=1)))
    assert found == pytest.approx(analytic, rel=0.08)
    assert found == scoring.f1_standard_error(score_of(np.stack([right, gold, gold], axis=1)))


def test_figures_of_a_score():
    gold = parse_tree("(TOP (S (NP (D the) (N dog)) (VP (V barks))))")
    wrong = parse_tree("(TOP (S (NP (D the)) (VP (N dog) (V barks))))")
    found = scoring.figures_of(score_trees([gold, gold], [gold, wrong]), "dev")
    assert found["dev_f1"] == pytest.approx(200 / 3)
    # The mean of two sentences, each with an F1 of 100 or 100 / 3.
    assert found["dev_f1_se"] == pytest.approx(100 / 3 * np.sqrt(0.5), rel=0.05)


def chunked(*spans, scores=None):
    doc = Doc(Vocab(), words=["a", "b", "c", "d"])
    group = [Span(doc, start, end, "NP") for start, end in spans]
    attrs = {} if scores is None else {"scores": np.array(scores, dtype=np.float32)}
    doc.spans["np_chunks"] = SpanGroup(doc, name="np_chunks", spans=group, attrs=attrs)
    return doc


def test_the_calibration_error_is_the_mean_gap_of_the_bins():
    extensions.register()
    predicted = chunked((0, 1), (1, 2), (2, 3), (3, 4), scores=[0.75, 0.75, 0.25, 0.25])
    found = card.calibration_errors([Example(predicted, chunked((0, 1), (2, 3)))])
    assert found == {"np_chunk_ece": pytest.approx(0.25)}
