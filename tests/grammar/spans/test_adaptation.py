"""Grammars with span features that learn on."""

from functools import cache

import numpy as np
import pytest
from grammar import treebanks

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.discriminative.settings import ConditionalGrammarSettings
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.spans.model import SpanGrammar
from spacy_structlearn.grammar.spans.settings import SpanGrammarSettings
from spacy_structlearn.pipeline.architectures import estimator as learner
from spacy_structlearn.trees.brackets import parse_tree

SETTINGS = SpanGrammarSettings(
    grammar=LatentGrammarSettings(
        rounds=1, split_iterations=3, merge_iterations=2, smooth_iterations=2
    ),
    folds=2,
    max_iterations=2,
    buckets=2**12,
    min_word_count=1,
)


@cache
def trees():
    return tuple(treebanks.sample()[:60])


@cache
def old():
    return learner(SETTINGS).trainer(None, [trees()[:40]]).run()


def adapter(data=None, strength=1.0):
    return learner(SETTINGS).adapter(
        old(), [trees()[40:] if data is None else data], (), strength=strength
    )


def test_the_objective_decreases_and_the_old_grammar_stays():
    before = old().to_bytes()
    trainer = adapter()
    values = []
    while trainer.step():
        values.append(trainer.value)
    assert (np.diff(values[2:]) <= 0).all()
    assert values[-1] < values[2]
    grammar = trainer.parameters()
    assert old().to_bytes() == before
    assert SpanGrammar.from_bytes(grammar.to_bytes()) == grammar
    assert set(trees()[-1].words()) <= set(grammar.lexicon.words)


def test_gradient():
    trainer = adapter()
    while trainer._objective is None:
        trainer.step()
    objective = trainer._objective
    rng = np.random.default_rng(1)
    x = objective.start + 0.1 * rng.normal(size=len(objective.start))
    _, gradient = objective.value_and_grad(x)
    for _ in range(5):
        direction = rng.normal(size=len(x))
        ahead, behind = (objective.value_and_grad(x + e * direction)[0] for e in (1e-4, -1e-4))
        assert gradient @ direction == pytest.approx((ahead - behind) / 2e-4, rel=1e-4)


def test_new_labels_keep_the_features_of_the_old_ones():
    tree = parse_tree("(S (AAA (DT The) (ZZ zyx)) (VP (VBD ran)))")
    grammar = adapter([*trees()[40:], tree, tree], strength=1e9).run()
    assert {"AAA", "ZZ"} <= set(grammar.symbols.names)
    assert grammar.symbols.names[: len(old().symbols.tags)] != old().symbols.tags
    known = SpanGrammar.from_bytes(grammar.to_bytes()).features
    numbers = dict(zip(grammar.symbols.names, known.symbol_numbers.tolist(), strict=True))
    places = {name: place for place, name in enumerate(old().symbols.names)}
    assert {name: numbers[name] for name in places} == places
    words = trees()[0].words()
    (parse,) = ChartParser(grammar).parse([words])
    (before,) = ChartParser(old()).parse([words])
    assert parse.tree(words) == before.tree(words)


def test_one_tree_adapts_the_grammar_only():
    grammar = adapter(trees()[40:41]).run()
    np.testing.assert_array_equal(grammar.features.dense(), old().features.dense())
    assert grammar.grammar != old().grammar


def test_a_conditional_grammar_cannot_learn_on():
    settings = SpanGrammarSettings(grammar=ConditionalGrammarSettings(), folds=2)
    with pytest.raises(StructlearnError, match="SL408"):
        learner(settings).adapter(old(), [trees()[40:]], (), strength=1.0).step()
