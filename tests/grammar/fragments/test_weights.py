"""Weights of features of fragments: how they are stored, and the trees that they choose."""

from functools import cache

import numpy as np
import pytest
from grammar import plain_fragments as plain
from grammar.fragments.test_features import ALL, ODD
from grammar.treebanks import sample, toy, trees

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.chart.decode import DECODERS, ChartParser
from spacy_structlearn.grammar.chart.hypergraph import Hypergraphs
from spacy_structlearn.grammar.fragments.settings import MEstimatedGrammarSettings
from spacy_structlearn.grammar.fragments.training import FragmentStatistics
from spacy_structlearn.grammar.fragments.weights import (
    FragmentGrammar,
    FragmentScorer,
    FragmentWeights,
)
from spacy_structlearn.grammar.latent.em import treebank_grammar
from spacy_structlearn.grammar.spans.word_attributes import word_hash
from spacy_structlearn.grammar.treebank.data import BINARIZATIONS, binarize, restore

FEW = ("RULE", "RULE|PARENT", "LABEL|SUFFIX3[first]")
SMALL = MEstimatedGrammarSettings(templates=FEW, min_count=1, min_word_count=1)
EVERY = MEstimatedGrammarSettings(templates=ALL, min_count=1)


def short():
    return [tree for tree in sample() if len(tree.words()) <= 8][:15]


@cache
def learned(name="toy", binarization="right", features=SMALL):
    """A treebank grammar, and the statistics of its treebank."""
    gold = {"toy": toy, "odd": lambda: ODD, "sample": short}[name]()
    data = binarize(gold, binarization, gold[0].label)
    grammar = treebank_grammar(data)
    return grammar, FragmentStatistics(features, grammar, data), data, gold


def random_weights(weights, seed=0, scale=1.0):
    values = np.random.default_rng(seed).normal(scale=scale, size=len(weights))
    return weights.with_weights(values)


# --- fields --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("storage", "error"), [("float32", 0.0), ("float16", 2e-3)])
def test_compact(storage, error):
    weights = random_weights(learned()[1].weights)
    small = weights.compact(0.5, storage)
    kept = np.abs(weights.values) >= 0.5
    np.testing.assert_array_equal(small.keys, weights.keys[kept])
    np.testing.assert_allclose(small.values, weights.values[kept], atol=error)
    assert small.n_weights == len(small) == kept.sum() < len(weights)
    assert FragmentWeights.from_bytes(small.to_bytes()) == small == small.compact(0.0, storage)
    assert weights.with_weights(0 * weights.values).compact().n_weights == 0


def test_words_that_are_not_to_be_known():
    grammar, statistics, *_ = learned()
    weights = random_weights(statistics.weights)
    fewer = weights.without_words(["tora", "neko", "nothing"])
    assert len(fewer.vocabulary) == len(weights.vocabulary) - 2
    assert word_hash("tora") not in fewer.vocabulary
    np.testing.assert_array_equal(fewer.values, weights.values)
    assert weights.without_words([]) == weights
    own = FragmentGrammar(grammar, fragments=weights)
    assert own.without_words(["tora", "neko"]).fragments == fewer
    assert FragmentGrammar(grammar).without_words(["tora"]).fragments is None


def test_grammars_with_weights():
    grammar, statistics, *_ = learned()
    own = FragmentGrammar(grammar, fragments=random_weights(statistics.weights))
    assert b"fragments" not in FragmentGrammar(grammar).to_bytes()
    assert own.compact(feature_threshold=0.3).fragments == own.fragments.compact(0.3)
    for changes in ({"n_symbols": 99}, {"n_tags": 1}, {"binarization": "left"}):
        with pytest.raises(StructlearnError, match="SL433"):
            FragmentGrammar(grammar, fragments=statistics.weights.replaced(**changes))


# --- features of forests -------------------------------------------------------------------------
def forests_of(grammar, sentences, threshold=0.0):
    return ChartParser(FragmentGrammar(grammar), thresholds=(threshold,)).forests(sentences)


def places_of(places, edges):
    """The features of some edges, each as often as it is there."""
    rows = places.forests.local[edges]
    found = np.concatenate([places.local[rows[rows >= 0]].ravel(), places.above[edges].ravel()])
    return np.unique(found[found >= 0], return_counts=True)


@pytest.mark.parametrize("binarization", BINARIZATIONS)
@pytest.mark.parametrize("name", ["toy", "odd", "sample"])
def test_features_of_gold_trees_are_those_counted(name, binarization):
    grammar, statistics, data, gold = learned(name, binarization, EVERY)
    known, counted = set(statistics.weights.vocabulary.tolist()), []
    for x in range(len(gold)):
        features = plain.features_of(plain.tree_of(data, x), data.symbols, ALL, known)
        row = statistics.counts[[x]]
        columns = statistics.weights.keys[row.indices].tolist()
        assert dict(zip(columns, row.data.tolist(), strict=True)) == features
        counted.append(dict(zip(row.indices.tolist(), row.data.tolist(), strict=True)))
    # Gold trees in their forests have the same features there.
    sentences = [tree.words() for tree in gold]
    graphs, numbers = forests_of(grammar, sentences, 1e-4 if name == "sample" else 0.0)
    parsed, trees_ = ([x[number] for number in numbers] for x in (sentences, gold))
    target = graphs.closest(trees_, grammar.symbols)
    places = FragmentScorer(statistics.weights, grammar.symbols).places(parsed, graphs, target)
    refined, edges = places.forests.graphs, places.forests.edges
    mask = refined.best(np.where(target[edges], 0.0, -np.inf))[1]
    np.testing.assert_array_equal(np.bincount(edges[mask], minlength=len(target)), target)
    compared = 0
    for x, number in enumerate(numbers.tolist()):
        first, end = refined.edge_offsets[x : x + 2]
        mine = first + np.flatnonzero(mask[first:end])
        tree = plain.tree_of_edges(refined, x, mine, parsed[x])
        if plain.spelt(tree) == plain.spelt(plain.tree_of(data, number)):
            columns, counts = places_of(places, mine)
            assert dict(zip(columns.tolist(), counts.tolist(), strict=True)) == counted[number]
            compared += 1
    assert compared >= len(gold) * (0.5 if name == "sample" else 1)


def test_the_wrong_sentences():
    grammar, statistics, data, gold = learned()
    sentences = [tree.words() for tree in gold]
    graphs, _ = forests_of(grammar, sentences)
    scorer = FragmentScorer(statistics.weights, data.symbols)
    for wrong in (sentences[1:], sentences[::-1], []):
        with pytest.raises(ValueError, match="not those of the sentences"):
            scorer.places(wrong, graphs)
    refinement = scorer.scores([], Hypergraphs.joined([]))
    assert len(refinement.graphs) == len(refinement.scores) == 0


# --- decoding ------------------------------------------------------------------------------------


class Model:
    """All trees of the forest of a sentence, with the scores of the features."""

    def __init__(self, grammar, weights, words, templates=ALL):
        graphs, _ = forests_of(grammar, [words])
        self.graphs, self.symbols = graphs, grammar.symbols
        of_key = dict(zip(weights.keys.tolist(), weights.values.tolist(), strict=True))
        known = set(weights.vocabulary.tolist())
        scores, self.edges, self.keys, self.brackets = [], [], [], []
        for score, edges in graphs.k_best(graphs.scores, 5000)[0]:
            tree = plain.tree_of_edges(graphs, 0, edges, words)
            features = plain.features_of(tree, self.symbols, templates, known)
            scores.append(score + sum(of_key.get(key, 0.0) * n for key, n in features.items()))
            self.edges.append(edges)
            made = graphs.made[edges]
            self.brackets.append(made[made >= 0])
            self.keys.append(self.key(grammar, tree))
        assert 1 < len(scores) < 5000
        self.scores = np.array(scores)
        self.log_z = np.logaddexp.reduce(self.scores)
        self.p = np.exp(self.scores - self.log_z)

    def key(self, grammar, tree):
        sites, _, tags = plain.sites_of(tree, self.symbols)
        spans = {site.part: (site.start, site.end) for site in sites}
        brackets = []

        def visit(part):
            brackets.append((part.symbol, *spans[part]))
            for child in part.children:
                visit(child)

        visit(tree)
        names = self.symbols.names
        kept = restore(self.symbols, grammar.chains, brackets)
        return tuple((names[a], i, j) for a, i, j, _ in kept), tuple(names[tag] for tag in tags)

    def values(self, decoder):
        if decoder in ("viterbi", "variational"):
            return self.scores
        q = np.zeros(len(self.graphs.scores))
        item = np.zeros(len(self.graphs.items))
        for p, edges, made in zip(self.p, self.edges, self.brackets, strict=True):
            q[edges] += p
            item[made] += p
        if decoder == "labelled_recall":
            symbol, last = self.graphs.items[:, 0], self.symbols.n_tags + self.symbols.n_phrases
            item[symbol >= self.symbols.n_tags] -= 0.5
            item[(symbol >= last) | (symbol == self.symbols.inserted_root)] = 0.0
            return np.array([item[made].sum() for made in self.brackets])
        produces = self.graphs.made >= 0
        produces[self.graphs.begins[-2] :] = True
        worth = np.where(produces, np.log(q + 1e-30) if decoder == "max_rule_product" else q, 0.0)
        return np.array([worth[edges].sum() for edges in self.edges])


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(("name", "binarization"), [("toy", "right"), ("odd", "left")])
def test_the_best_of_all_trees(name, binarization, decoder):
    grammar, statistics, _, gold = learned(name, binarization, EVERY)
    weights = random_weights(statistics.weights, scale=0.5)
    parser = ChartParser(
        FragmentGrammar(grammar, fragments=weights), decoder=decoder, thresholds=(0.0,)
    )
    for words in (gold[0].words(), gold[1].words()[:4]):
        model = Model(grammar, weights, words)
        parse = parser.parse([words])[0]
        key = tuple(parse.spans), tuple(parse.tags)
        mine = [x for x, own in enumerate(model.keys) if own == key]
        values = model.values(decoder)
        # How likely productions are decides between trees of the same brackets.
        tie = 0.05 if decoder == "labelled_recall" else 1e-4
        assert max(values[mine]) >= values.max() - tie
        logs = np.log(model.p[mine])
        assert np.abs(logs - parse.log_probability).min() < 1e-4


def test_k_best():
    grammar, statistics, _, gold = learned("odd", "right", EVERY)
    weights = random_weights(statistics.weights, scale=0.5)
    words = gold[0].words()
    parser = ChartParser(FragmentGrammar(grammar, fragments=weights), thresholds=(0.0,))
    parses = parser.k_best(words, 10_000)
    logs = np.array([parse.log_probability for parse in parses])
    expected = np.log(Model(grammar, weights, words).p)
    np.testing.assert_allclose(np.sort(logs), np.sort(expected), atol=1e-4)


def test_labels_between_have_the_posterior_of_all_copies_of_a_chain():
    gold = trees("(R (S (X (Y (Z (N a)))) (V b)))", "(R (T (X (Y (Z (N a)))) (V b)))")
    data = binarize(gold, root="R")
    grammar = treebank_grammar(data)
    features = MEstimatedGrammarSettings(templates=["RULE|PARENT"], min_count=1)
    weights = FragmentStatistics(features, grammar, data).weights
    for fragments in (None, weights):
        parser = ChartParser(FragmentGrammar(grammar, fragments=fragments))
        for parse in (*parser.parse([["a", "b"]]), *parser.k_best(["a", "b"], 1)):
            assert parse.labels[1:] == ["X", "Y", "Z"]
            np.testing.assert_allclose(parse.probabilities, [0.5, 1, 1, 1], atol=1e-5)
