"""The objective that features of spans are learned with at once: its gradient, and its minimum."""

from functools import cache
from pathlib import Path

import numpy as np

from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.spans.features import SPAN_TEMPLATES, SpanWeights
from spacy_structlearn.grammar.spans.settings import SpanFeaturesSettings
from spacy_structlearn.pipeline.architectures import estimator
from spacy_structlearn.trees.brackets import load_trees
from spacy_structlearn.trees.normalize import normalize
from training.beyond.span_parser.batch import LinearObjective, SupportedScorer

SAMPLE = Path(__file__).resolve().parents[2] / "corpora" / "sample" / "sample.trees"
# Tags are of the forests, and tested by themselves.
OF_WORDS = tuple(text for text in SPAN_TEMPLATES if "TAG" not in text)
SMALL = SpanFeaturesSettings(
    templates=OF_WORDS, buckets=2**12, min_word_count=1, l1_per_sentence=0.01
)


@cache
def forests(n=40):
    """Forests of the first sentences, their words, the edges of their trees, and the symbols."""
    trees = [normalize(tree) for tree in load_trees(SAMPLE)[:n]]
    short = LatentGrammarSettings(
        rounds=1, split_iterations=3, merge_iterations=2, smooth_iterations=1
    )
    trainer = estimator(short).trainer(None, [trees])
    while trainer.step():
        pass
    grammar = trainer.parameters()
    sentences = [tree.words() for tree in trees]
    graphs, kept = ChartParser(grammar, thresholds=(1e-6,) * 7).forests(sentences)
    gold = graphs.closest([trees[i] for i in kept], grammar.symbols)
    return graphs, [sentences[i] for i in kept], gold, grammar.symbols


def objective_of(n=40, **settings):
    graphs, sentences, gold, symbols = forests(n)
    return LinearObjective(
        graphs, sentences, gold, SpanWeights.untrained(SMALL, sentences, symbols), **settings
    )


def test_gradient_against_finite_differences():
    objective = objective_of(base=0.7)
    rng = np.random.default_rng(0)
    x = rng.normal(size=objective.n_parameters) / 4
    value, gradient = objective.value_and_grad(x)
    assert value > 0
    for _ in range(5):
        way = rng.normal(size=len(x))
        ends = [objective.value_and_grad(x + step * way)[0] for step in (1e-5, -1e-5)]
        assert np.isclose((ends[0] - ends[1]) / 2e-5, gradient @ way, rtol=1e-6)


def test_the_objective_and_a_scorer_agree():
    graphs, sentences, gold, _ = forests()
    objective = objective_of()
    x = np.random.default_rng(0).normal(size=objective.n_parameters).astype(np.float32)
    value, gradient = objective.value_and_grad(x.astype(np.float64))
    fitted = objective.weights_of(x)
    assert np.array_equal(objective.parameters(fitted), x)
    assert fitted.n_weights == objective.n_parameters == objective.support.sum()
    scorer = SupportedScorer(fitted, SMALL, objective.support)
    scores = scorer.scores(sentences, graphs)
    edges = graphs.edge_scores(scores, 1.0)
    log_z, posteriors = graphs.inside_outside(edges)
    assert np.isclose((log_z.sum() - edges[gold].sum()) / len(graphs), value, rtol=1e-9)
    # The gradient that is propagated back is the same.
    again, backprop = scorer.begin_update(sentences, graphs)
    assert np.allclose(again, scores, rtol=1e-12)
    expected = graphs.item_posteriors(posteriors) - graphs.item_posteriors(gold.astype(float))
    backprop(expected / len(graphs))
    assert np.allclose(scorer._table[objective.places, 2], gradient, atol=1e-5)
    others = np.delete(scorer._table[:, 2], objective.places)
    assert not others.any()
