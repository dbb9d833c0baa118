import numpy as np
import pytest
from grammar import treebanks
from grammar.latent.test_em import refine, tags

from spacy_structlearn.grammar.latent import split_merge
from spacy_structlearn.grammar.latent.em import TreebankDerivations, m_step
from spacy_structlearn.grammar.latent.model import Level
from spacy_structlearn.grammar.treebank.data import binarize


def value_of(data, level, words, learner):
    return TreebankDerivations(data).expected_counts(
        (level, learner.emissions(words, tags(data, level)))
    )[0]


def test_a_split_without_noise_keeps_the_likelihood():
    data = binarize(treebanks.sample())
    before, words, learner = refine(data, noise=0.0)
    value = value_of(data, before, words, learner)
    again = split_merge.split(before, data.occurrences, np.random.default_rng(0), 0.0)
    factor = tags(data, again) // tags(data, before)
    finer = learner.split(words, tags(data, before), factor)
    assert again.substates.max() == 4
    assert value_of(data, again, finer, learner) == pytest.approx(value, rel=1e-6)
    noisy = split_merge.split(before, data.occurrences, np.random.default_rng(0), 0.01)
    assert value_of(data, noisy, finer, learner) == pytest.approx(value, rel=1e-3)
    np.testing.assert_allclose(noisy.sums()[noisy.offsets[len(factor)] :], 1, rtol=1e-4)


def test_noise_keeps_the_sum_of_a_rule_and_its_bounds():
    data = binarize(treebanks.sample())
    flat = refine(data, noise=0.0)[0]
    noisy = refine(data, noise=0.01)[0]
    for rule in range(len(data.rules.binary)):
        a, b = flat.block("binary", rule), noisy.block("binary", rule)
        np.testing.assert_allclose(a.sum(axis=(1, 2)), b.sum(axis=(1, 2)), rtol=1e-5)
        assert (np.abs(b - a) <= 0.01 * a + 1e-9).all()
    assert not np.array_equal(flat.binary, noisy.binary)


def test_the_loss_is_exact_where_a_symbol_occurs_once_in_a_tree():
    # The estimate keeps all else as it is, so it is exact for one node; p is then its posterior.
    data = binarize(treebanks.trees(*["(TOP (S (A a) (B b)))"] * 3, "(TOP (S (A c) (B d)))"))
    rng = np.random.default_rng(0)
    level, words, learner = refine(data)
    level.binary[:] = rng.uniform(0.1, 1, len(level.binary))
    own = words.own * rng.uniform(0.2, 1, len(words.own)).astype(np.float32)
    words = words._replace(own=own)
    derivations = TreebankDerivations(data)
    emissions = learner.emissions(words, tags(data, level))
    value, _ = derivations.expected_counts((level, emissions))
    symbols, firsts, losses = split_merge.merge_losses(derivations, level)
    symbol = data.symbols.tag_index["A"]
    place = symbols.tolist().index(symbol)
    inside, outside = derivations.scores_of(symbol)
    p = (inside * outside).mean(axis=0)
    mixed = emissions.copy()
    offsets = np.cumsum([0, *level.substates[data.pairs[:, 0]]])
    for pair, (tag, _) in enumerate(data.pairs):
        if tag == symbol:
            begin = offsets[pair]
            # Both halves with the mean of their inside scores: outside scores then add up.
            mixed[begin : begin + 2] = p @ emissions[begin : begin + 2]
    exact = value - derivations.expected_counts((level, mixed))[0]
    assert losses[place] == pytest.approx(exact, rel=1e-3)
    assert firsts[place] == 0


def test_the_least_useful_are_chosen():
    assert split_merge.least_useful(np.array([3.0, 1.0, 2.0, 0.0]), 0.5).tolist() == [1, 3]
    assert split_merge.least_useful(np.array([1.0, 1.0, 1.0]), 0.5).tolist() == [0, 1]
    assert split_merge.least_useful(np.array([1.0, 2.0]), 0).tolist() == []


def test_merged_productions_add_children_and_average_parents():
    data = binarize(treebanks.sample())
    level, words, learner = refine(data)
    derivations = TreebankDerivations(data)
    _, counts = derivations.expected_counts((level, learner.emissions(words, tags(data, level))))
    fitted = m_step(data, level.substates, level.ancestors, counts)
    symbols, firsts, losses = split_merge.merge_losses(derivations, level)
    chosen = split_merge.least_useful(losses, 0.5)
    merging = split_merge.Merging(level, symbols[chosen], firsts[chosen])
    merged = m_step(data, merging.substates, merging.ancestors, merging.counts(data, counts))
    gone = set(symbols[chosen].tolist())
    assert list(merged.substates) == [1 if s in gone else n for s, n in enumerate(level.substates)]
    used = np.zeros(level.size)
    for symbol in range(data.symbols.size):
        inside, outside = derivations.scores_of(symbol)
        used[slice(*level.offsets[symbol : symbol + 2])] = (inside * outside).sum(axis=0)
    for rule, (a, b, c) in enumerate(data.rules.binary.tolist()):
        block = fitted.block("binary", rule).astype(float)
        p = used[slice(*level.offsets[a : a + 2])]
        if a in gone:
            block = ((p / p.sum())[:, None, None] * block).sum(axis=0, keepdims=True)
        for axis, symbol in ((1, b), (2, c)):
            if symbol in gone:
                block = block.sum(axis=axis, keepdims=True)
        np.testing.assert_allclose(merged.block("binary", rule), block, rtol=1e-3, atol=1e-6)


def test_smoothing_draws_a_branch_together_and_keeps_sums():
    data = binarize(treebanks.sample())
    first, _, _ = refine(data)
    second = split_merge.split(first, data.occurrences, np.random.default_rng(1), 0.5)
    base = Level(
        data.rules,
        np.ones_like(first.substates),
        np.zeros(len(first.substates), np.int32),
        *(np.ones(len(sizes), np.float32) for sizes in data.rules.sizes(first.substates).values()),
    )
    groups = split_merge.branches([base, first, second])
    found = split_merge.smooth(second, groups, 0.1)
    np.testing.assert_allclose(found.sums(), second.sums(), rtol=1e-4, atol=1e-6)
    symbol = data.symbols.phrase_index["NP"]
    begin = second.offsets[symbol]
    assert groups[begin : begin + 4].tolist() == [begin, begin, begin + 1, begin + 1]
    rule = int(np.flatnonzero(data.rules.binary[:, 0] == symbol)[0])
    old, new = second.block("binary", rule), found.block("binary", rule)
    np.testing.assert_allclose(new[0], 0.9 * old[0] + 0.1 * old[1], rtol=1e-5)
    np.testing.assert_allclose(new[3], 0.9 * old[3] + 0.1 * old[2], rtol=1e-5)
