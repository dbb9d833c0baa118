"""Losses of merging against merging one node and counting anew, and grammars that are merged."""

from functools import cache

import numpy as np
import pytest
from grammar import grammars, treebanks

from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.discriminative.objective import with_levels, without_backoff
from spacy_structlearn.grammar.discriminative.settings import ConditionalGrammarSettings
from spacy_structlearn.grammar.latent.model import Level
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.latent.split_merge import Merging, least_useful
from spacy_structlearn.grammar.treebank.lexicon import LexiconLevel
from spacy_structlearn.grammar.treebank.symbols import binarize
from training.papers.petrov_klein2007.merging import merge_curve, merge_losses, merged

EXACT = ConditionalGrammarSettings(threshold=0.0, shards=1)


@cache
def toy():
    """With phrases over phrases, of one word and of several."""
    return [
        *treebanks.toy(),
        *treebanks.trees(
            "(R (P (L (N inu))) (. 。))",
            "(R (L (P (L (N tora) (A ga)) (V naita))) (. 。))",
            "(R (P (L (P (L (N neko) (A ga)) (V kieta)) (N mori)) (V mita)) (. 。))",
        ),
    ]


@cache
def toy_data():
    return binarize(toy(), root="R")


@cache
def generative(rounds=1, merge_fraction=0.0):
    settings = LatentGrammarSettings(
        rounds=rounds,
        merge_fraction=merge_fraction,
        split_iterations=4,
        merge_iterations=1,
        smooth_iterations=1,
        min_word_count=3,
        root="R",
    )
    return treebanks.learned(settings, toy_data())


def weighted(grammar, seed=0, scale=1.0):
    """The grammar with weights that are no probabilities."""
    rng = np.random.default_rng(seed)
    grammar = without_backoff(grammar)

    def changed(values):
        factors = np.exp(rng.normal(scale=scale, size=values.shape))
        return (values * factors).astype(np.float32)

    levels = [
        Level(
            level.rules,
            level.substates,
            level.ancestors,
            *(changed(part) for part in (level.binary, level.unary, level.root)),
        )
        for level in grammar.levels
    ]
    words = [LexiconLevel(*map(changed, part)) for part in grammar.lexicon.levels]
    return with_levels(grammar, levels, words)


GRAMMARS = {
    "generative": generative,
    "weighted, some merged": lambda: weighted(generative(2, 0.5), seed=1),
}


# --- merging one node, and counting anew ----------------------------------------------------------
def with_pair(vector, pair, p):
    """An inside vector of which both substates of a pair are the one that they become."""
    vector = vector.copy()
    vector[pair], vector[pair + 1] = [p * vector[pair] + (1 - p) * vector[pair + 1]] * 2
    return vector


def sentence_score(level, n_tags, rows, where=None, pair=0, p=0.0):
    """log Z. where: (layer, i, j) of the node at which a pair of all substates is merged."""
    n, tags = len(rows), int(level.offsets[n_tags])
    binary, unary, root = grammars.tensors(level)
    lower, upper = np.zeros((2, n, n + 1, level.size))
    for length in range(1, n + 1):
        for i in range(n - length + 1):
            j = i + length
            if length == 1:
                upper[i, j, :tags] = rows[i]
                if where == ("upper", i, j) and pair < tags:
                    upper[i, j] = with_pair(upper[i, j], pair, p)
                lower[i, j] = unary[:, :tags] @ upper[i, j, :tags]
            for k in range(i + 1, j):
                lower[i, j] += binary @ upper[k, j] @ upper[i, k]
            if where == ("lower", i, j):
                lower[i, j] = with_pair(lower[i, j], pair, p)
            upper[i, j] += lower[i, j] + unary[:, tags:] @ lower[i, j, tags:]
            if where == ("upper", i, j) and pair >= tags:
                upper[i, j] = with_pair(upper[i, j], pair, p)
    return float(np.log(root @ upper[0, n]))


def tree_score(level, data, tree, rows, node=-1, pair=0, p=0.0):
    """log of the score of a tree. node: at which a pair of substates of its symbol is merged."""
    inside, word = {}, 0
    for x in range(data.offsets[tree], data.offsets[tree + 1]):
        left, right, rule = data.left[x], data.right[x], data.production[x]
        if left < 0:
            begin, end = level.offsets[data.symbol[x] : data.symbol[x] + 2]
            inside[x] = rows[word, begin:end]
            word += 1
        elif right < 0:
            inside[x] = level.unary_block(rule).astype(float) @ inside[left]
        else:
            inside[x] = level.binary_block(rule).astype(float) @ inside[right] @ inside[left]
        if x == node:
            inside[x] = with_pair(inside[x], pair, p)
    return float(np.log(level.root_block(data.roots[tree]).astype(float) @ inside[x]))


def numpy_losses(grammar, data, found):
    """Joint and sentence losses of the pairs of `found`, by merging one node after another."""
    level, n_tags = grammar.levels[-1], grammar.symbols.n_tags
    starts, ends = data.spans
    below_unary = set(data.left[data.is_unary].tolist())
    joint, sentences = np.zeros((2, len(found.symbols)))
    for tree, words in enumerate(tree.words() for tree in toy()):
        rows = grammars.word_scores(grammar, words)
        whole = tree_score(level, data, tree, rows), sentence_score(level, n_tags, rows)
        for x in range(data.offsets[tree], data.offsets[tree + 1]):
            symbol = data.symbol[x]
            layer = "lower" if x in below_unary and symbol >= n_tags else "upper"
            where = (layer, starts[x], ends[x])
            for i in np.flatnonzero(found.symbols == symbol):
                first, p = int(found.firsts[i]), found.shares[i]
                joint[i] += whole[0] - tree_score(level, data, tree, rows, x, first, p)
                pair = int(level.offsets[symbol]) + first
                sentences[i] += whole[1] - sentence_score(level, n_tags, rows, where, pair, p)
    return joint, sentences


@pytest.mark.parametrize("name", GRAMMARS)
def test_losses_are_those_of_merging_at_one_node(name):
    grammar, data = GRAMMARS[name](), toy_data()
    found = merge_losses(grammar, data, settings=EXACT)
    assert len(found.symbols) > 3
    joint, sentences = numpy_losses(grammar, data, found)
    np.testing.assert_allclose(found.joint, joint, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(found.sentences, sentences, rtol=1e-3, atol=1e-5)
    assert np.abs(found.sentences).max() > 1e-3
    np.testing.assert_array_equal(found.conditional, found.joint - found.sentences)


# --- grammars -------------------------------------------------------------------------------------
def doubled():
    """The treebank grammar, weighted, and a level of two identical halves of each symbol."""
    grammar = weighted(generative().truncated(1))
    level, words = grammar.levels[0], grammar.lexicon.levels[0]
    n_binary, n_unary, n_root = (
        len(rules) for rules in (level.rules.binary, level.rules.unary, level.rules.root)
    )
    finer = Level(
        level.rules,
        2 * level.substates,
        np.zeros(2 * level.size, np.int32),
        np.repeat(level.binary, 8) / 4 if n_binary else level.binary,
        np.repeat(level.unary, 4) / 2 if n_unary else level.unary,
        np.repeat(level.root, 2) / 2 if n_root else level.root,
    )
    finer_words = LexiconLevel(np.repeat(words.own, 2), np.repeat(words.rows, 2, axis=1))
    n_tags = grammar.symbols.n_tags
    lexicon = grammar.lexicon.with_levels(
        [level.substates[:n_tags], finer.substates[:n_tags]], [words, finer_words]
    )
    return grammar.replaced(levels=[level, finer], lexicon=lexicon)


def test_merging_identical_halves_gives_the_grammar_back():
    grammar, rng = doubled(), np.random.default_rng(0)
    symbols = np.arange(grammar.symbols.size, dtype=np.int32)
    firsts = np.zeros(len(symbols), dtype=np.int64)
    found = merged(grammar, 1, symbols, firsts, rng.uniform(size=len(symbols)))
    before, after = grammar.levels[0], found.levels[1]
    assert (after.substates == 1).all()
    assert not after.ancestors.any()
    for name in ("binary", "unary", "root"):
        np.testing.assert_allclose(getattr(after, name), getattr(before, name), rtol=1e-5)
    for name in ("own", "rows"):
        old, new = (getattr(level, name) for level in found.lexicon.levels)
        np.testing.assert_allclose(new, old, rtol=1e-5)


@pytest.mark.parametrize("name", GRAMMARS)
def test_weights_of_parents_are_averaged_and_of_children_added(name):
    grammar, data = GRAMMARS[name](), toy_data()
    number = len(grammar.levels) - 1
    losses = merge_losses(grammar, data, "joint")
    chosen = least_useful(losses.joint, 0.6)
    symbols, firsts, shares = (
        part[chosen] for part in (losses.symbols, losses.firsts, losses.shares)
    )
    found = merged(grammar, number, symbols, firsts, shares)
    level = grammar.levels[number]
    merging = Merging.of_pairs(level, symbols, firsts)
    starts = np.cumsum([0, *merging.substates])[:-1]
    to = np.repeat(starts, level.substates) + merging.target
    add = np.zeros((level.size, merging.substates.sum()))
    add[np.arange(level.size), to] = 1
    factors = np.ones(level.size)
    places = level.offsets[symbols] + firsts
    factors[places], factors[places + 1] = shares, 1 - shares
    mean = add * factors[:, None]
    binary, unary, root = grammars.tensors(level)
    wanted = (
        np.einsum("abc,ax,by,cz->xyz", binary, mean, add, add, optimize=True),
        np.einsum("ab,ax,by->xy", unary, mean, add),
        root @ add,
    )
    for mine, want in zip(grammars.tensors(found.levels[number]), wanted, strict=True):
        np.testing.assert_allclose(mine, want, rtol=1e-5, atol=1e-12)
    words = ["tora", "neko", "kono", "Unheard", "9", "。"]
    n, m = (int(g.levels[number].offsets[g.symbols.n_tags]) for g in (grammar, found))
    np.testing.assert_allclose(
        grammars.word_scores(found, words, number),
        grammars.word_scores(grammar, words, number) @ mean[:n, :m],
        rtol=1e-4,
    )
    assert (found.levels[number].substates < level.substates).any()


@pytest.mark.parametrize("criterion", ["joint", "conditional"])
def test_curve(criterion):
    grammar, data = weighted(generative(), scale=0.1), toy_data()
    words = [tree.words() for tree in toy()]

    def score(candidate):
        return float(sum(parse.log_likelihood for parse in ChartParser(candidate).parse(words)))

    points = list(
        merge_curve(grammar, data, score, criterion, fractions=(0.0, 0.5, 1.0), settings=EXACT)
    )
    assert [point.fraction for point in points] == [0.0, 0.5, 1.0]
    n = int((grammar.levels[1].substates == 2).sum())
    assert [point.pairs for point in points] == [0, int(0.5 * n + 0.5), n]
    assert points[0].loss == 0
    assert points[0].grammar is grammar
    for point in points:
        assert point.loss == pytest.approx(points[0].score - point.score)
        substates = point.grammar.levels[1].substates
        assert int((substates == 2).sum()) == n - point.pairs
        assert point.score == pytest.approx(score(point.grammar))


def test_what_cannot_be_merged():
    with pytest.raises(ValueError, match="criterion"):
        merge_losses(generative(), toy_data(), "marginal")
    with pytest.raises(ValueError, match="other symbols"):
        merge_losses(generative(), binarize(treebanks.sample()), "joint")
    split = np.flatnonzero(generative().levels[1].substates == 2)[:1].astype(np.int32)
    with pytest.raises(ValueError, match="pairs"):
        merged(generative(), 1, split, np.ones(1, np.int64), np.full(1, 0.5))
