"""How often features of fragments are expected: against all trees, random trees, and counts."""

from bisect import bisect
from collections import Counter
from functools import cache
from itertools import product
from math import prod

import numpy as np
import pytest
from grammar import treebanks
from grammar.fragments.test_features import ALL, ODD
from grammar.random_trees import Node, all_trees, samples
from grammar.treebanks import toy, trees

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.fragments.expectations import FragmentExpectations, Words
from spacy_structlearn.grammar.fragments.features import BOUNDARY, FeatureHasher, sites_of_trees
from spacy_structlearn.grammar.fragments.settings import MEstimatedGrammarSettings
from spacy_structlearn.grammar.fragments.training import FragmentStatistics
from spacy_structlearn.grammar.latent.em import treebank_grammar
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.treebank.data import BINARIZATIONS, TreebankData, binarize
from spacy_structlearn.grammar.treebank.symbols import Rules

N_SAMPLES = 3_000
NO_WORDS = Words([], np.empty(0, np.int64), (), np.empty((0, 0), np.uint64))
FEATURES = MEstimatedGrammarSettings(templates=ALL, min_count=1)


@cache
def learned(rounds=0, binarization="right"):
    """A grammar, the treebank, and the statistics of its features."""
    data = binarize(toy() + ODD, binarization, "R")
    if not rounds:
        grammar = treebank_grammar(data)
    else:
        short = {"split_iterations": 5, "merge_iterations": 2, "smooth_iterations": 2}
        settings = LatentGrammarSettings(
            rounds=rounds, merge_fraction=0.3, root="R", binarization=binarization, **short
        )
        grammar = treebanks.learned(settings, toy() + ODD)
        assert grammar.levels[grammar.depth].size > grammar.symbols.size
    return grammar, data, FragmentStatistics(FEATURES, grammar, data)


def emissions_of(grammar, data):
    """P(word | state) among the words of the treebank, by the lexicon's P(w | state)."""
    sentences = data.sentences
    texts = sorted(set(data.forms))
    counts = {text: sum(s.count(text) for s in sentences) for text in texts}
    ids = {text: int(grammar.lexicon.encode(["x", text])[1]) for text in texts}
    rows = []
    for text in texts:
        alike = sum(counts[other] for other in texts if ids[other] == ids[text])
        score = grammar.lexicon.scores(grammar.depth, np.array([ids[text]], np.int32))[0]
        rows.append(score.astype(float) * counts[text] / alike)
    table = np.array(rows).T
    return texts, table / table.sum(axis=1, keepdims=True)


def encoded(data, pcfg, trees, texts):
    """Trees as a treebank. The rule of a leaf is the number of its word."""
    symbol, left, right, words, offsets = [], [], [], [], [0]

    def add(node):
        children = [add(child) for child in node.children]
        symbol.append(int(pcfg.symbol[node.state]))
        left.append(children[0] if children else -1)
        right.append(children[1] if len(children) > 1 else -1)
        words.append(-1 if children else node.rule)
        return len(symbol) - 1

    for tree in trees:
        add(tree)
        offsets.append(len(symbol))
    return TreebankData(
        data.symbols,
        Rules.empty(),
        *(np.array(column, np.int32) for column in (symbol, left, right, words)),
        np.array(offsets),
        np.zeros(len(trees), np.int32),
        tuple(texts),
        np.zeros(len(texts), bool),
        np.array([(0, i) for i in range(len(texts))], np.int32),
        {},
        data.binarization,
    )


def sampled(grammar, data, expected, n, seed):
    """Random trees with words, as a treebank."""
    texts, emissions = emissions_of(grammar, data)
    rng, trees = np.random.default_rng(seed), list(samples(expected.pcfg, n, seed))
    todo = [*trees]
    while todo:
        node = todo.pop()
        todo += node.children
        if not node.children:
            node.rule = bisect(emissions[node.state].cumsum()[:-1], rng.random())
    return encoded(data, expected.pcfg, trees, texts)


def features_of(weights, data):
    """Of each template the tree and the key of each of its features."""
    hasher = FeatureHasher(weights.templates, weights.vocabulary)
    sites = sites_of_trees(data, weights.templates)
    tree = np.repeat(np.arange(data.n_trees), np.diff(data.offsets))
    attributes = hasher.attributes(data.sentences)
    for template in weights.templates.all:
        rows, keys = hasher.features(template, sites, attributes)
        yield template, tree[rows], keys


@pytest.mark.parametrize(("rounds", "binarization"), [(0, "right"), (2, "left")])
def test_expectations_are_those_of_random_trees(rounds, binarization):
    grammar, data, statistics = learned(rounds, binarization)
    trees = sampled(grammar, data, statistics.expected.expected, N_SAMPLES, seed=rounds)
    weights, compared = statistics.weights, 0
    pairs = zip(features_of(weights, trees), features_of(weights, data), strict=True)
    for (template, tree, keys), (_, _, gold_keys) in pairs:
        places = np.searchsorted(weights.keys, keys)
        places[places == len(weights.keys)] = 0
        found = weights.keys[places] == keys
        pairs, counts = np.unique(
            tree[found] * np.int64(len(weights)) + places[found], return_counts=True
        )
        sums, squares = (
            np.bincount(pairs % len(weights), counts.astype(float) ** power, len(weights))
            for power in (1, 2)
        )
        mean = sums / N_SAMPLES
        error = np.sqrt(np.maximum(squares / N_SAMPLES - mean**2, 0) / N_SAMPLES)
        there = np.flatnonzero(statistics.expectations * N_SAMPLES >= 25)
        there = there[np.isin(weights.keys[there], gold_keys)]
        assert len(there), template.text
        gap = np.abs(mean[there] - statistics.expectations[there])
        assert (gap <= 5 * error[there] + 1e-9).all(), template.text
        compared += len(there)
    assert compared > 400


@pytest.mark.parametrize("binarization", BINARIZATIONS)
def test_expectations_are_those_of_all_trees(binarization):
    """A grammar of finitely many trees: every tree with every word, by its probability."""
    gold = trees(
        "(R (S (X (N a) (Y (V b))) (Y (N c)) (V b)))",
        "(R (S (X (Y (V b)) (V b) (N a)) (N a)))",
        "(R (S (V b) (X (Y (N a) (V b)))))",
        "(R (Y (N c)))",
        "(R (N a))",
    )
    data = binarize(gold, binarization, "R")
    grammar = treebank_grammar(data)
    statistics = FragmentStatistics(FEATURES, grammar, data)
    pcfg = statistics.expected.expected.pcfg
    texts, emissions = emissions_of(grammar, data)
    every, weights = [], []

    def filled(node):
        """The node with each choice of words, and the probability of these."""
        if not node.children:
            chances = enumerate(emissions[node.state].tolist())
            return [(p, Node(node.state, word)) for word, p in chances if p]
        below = product(*map(filled, node.children))
        return [(prod(p for p, _ in x), Node(node.state, -1, *(y for _, y in x))) for x in below]

    for p, tree in all_trees(pcfg):
        for q, words in filled(tree):
            every.append(words)
            weights.append(p * q)
    assert len(weights) > 1000
    assert sum(weights) == pytest.approx(1)
    treebank = encoded(data, pcfg, every, texts)
    own, expected = statistics.weights, Counter()
    for _, tree, keys in features_of(own, treebank):
        for number, key in zip(tree.tolist(), keys.tolist(), strict=True):
            expected[key] += weights[number]
    expected = [expected[key] for key in own.keys.tolist()]
    np.testing.assert_allclose(statistics.expectations, expected, rtol=1e-5)


@pytest.mark.parametrize("binarization", BINARIZATIONS)
def test_rules_of_the_treebank_grammar_are_expected_as_counted(binarization):
    grammar, data, _ = learned(0, binarization)
    statistics = FragmentStatistics(
        MEstimatedGrammarSettings(templates=["RULE"], min_count=1), grammar, data
    )
    mean = statistics.counts.mean(axis=0)
    np.testing.assert_allclose(statistics.expectations, mean, rtol=2e-6)


def test_a_product_of_grammars():
    grammar = treebanks.learned(LatentGrammarSettings(rounds=0, root="R", grammars=2), toy())
    assert grammar.members
    with pytest.raises(StructlearnError, match=r"SL443.*2 grammars"):
        FragmentExpectations(grammar, NO_WORDS, BOUNDARY)
