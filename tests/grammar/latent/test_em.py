import numpy as np
import pytest
from grammar import treebanks

from spacy_structlearn.grammar.latent import em
from spacy_structlearn.grammar.latent.split_merge import split
from spacy_structlearn.grammar.treebank.data import binarize
from spacy_structlearn.grammar.treebank.estimation import LexiconLearner
from spacy_structlearn.grammar.treebank.settings import LexiconSettings

SIMPLE = LexiconSettings(lexicon="simple", min_word_count=2)


def test_the_treebank_grammar_is_relative_frequencies():
    trees = treebanks.trees(
        "(TOP (S (A a) (B b)))", "(TOP (S (A a) (B b)))", "(TOP (S (B b)))", "(TOP (A a))"
    )
    grammar = em.treebank_grammar(binarize(trees))
    level = grammar.levels[0]
    assert level.binary.tolist() == pytest.approx([2 / 3])
    assert level.unary.tolist() == pytest.approx([1 / 3])
    assert level.root.tolist() == pytest.approx([0.25, 0.75])
    assert level.ancestors.tolist() == [0, 0, 0]


def tags(data, level):
    return level.substates[: data.symbols.n_tags]


def refine(data, settings=SIMPLE, noise=0.3):
    """A grammar split once, its words, and their learner."""
    learner = LexiconLearner(settings, data)
    counts = em.observed_counts(data)
    ones = np.ones(data.symbols.size, dtype=np.int32)
    level = em.m_step(data, ones, 0 * ones, counts)
    words = learner.fit(counts.lexical, tags(data, level))
    refined = split(level, data.occurrences, np.random.default_rng(0), noise)
    factor = tags(data, refined) // tags(data, level)
    return refined, learner.split(words, tags(data, level), factor), learner


def test_threads_change_nothing():
    data = binarize(treebanks.sample())
    level, words, learner = refine(data)
    parameters = level, learner.emissions(words, tags(data, level))
    one, two = (em.TreebankDerivations(data, threads) for threads in (1, 2))
    (value, counts), (other, others) = (x.expected_counts(parameters) for x in (one, two))
    assert value == other
    for a, b in zip(counts, others, strict=True):
        np.testing.assert_array_equal(a, b)
    two.close()
