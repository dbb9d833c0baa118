"""The probabilities of binary rules as the kernel reads them."""

import numpy as np
import pytest
from grammar.grammars import random_grammar, sample_grammar, sample_trees

from spacy_structlearn.grammar.chart.compiled import blocks
from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.latent.split_merge import branches, smooth


def full(level, found):
    """All probabilities, from dense blocks and from entries."""
    rules = []
    for rule, symbols in enumerate(level.rules.binary.tolist()):
        n, left, right = level.substates[symbols].tolist()
        if found.offsets[rule] >= 0:
            begin = found.offsets[rule]
            block = found.dense[begin : begin + n * left * right].reshape(n, -1)
        else:
            block = np.zeros((n + 2, left * right))
            own = slice(*found.begins[rule : rule + 2])
            np.add.at(block, (found.parent[own], found.pair[own]), found.value[own])
            cut = found.groups[symbols[0]]
            block[:cut] += block[n]
            block[cut:n] += block[n + 1]
            block = block[:n]
        rules.append(block.reshape(-1))
    return np.concatenate(rules)


def smoothed(seed):
    grammar = random_grammar(seed, n_levels=4, zeros=0.9, n_phrases=4, density=0.2)
    groups = branches(grammar.levels)
    return smooth(grammar.levels[-1], groups, 0.01)


@pytest.mark.parametrize("seed", range(4))
def test_without_a_share_nothing_is_changed(seed):
    level = smoothed(seed)
    np.testing.assert_array_equal(full(level, blocks(level)), level.binary)


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("seed", range(4))
def test_a_share_keeps_the_sums_of_groups(seed, share, monkeypatch):
    monkeypatch.setattr("spacy_structlearn.grammar.chart.compiled.FEW", 0)
    monkeypatch.setattr("spacy_structlearn.grammar.chart.compiled.DENSE_ENTRIES", 10**9)
    level = smoothed(seed)
    found = blocks(level, share)
    values = full(level, found)
    assert len(found.value) <= len(blocks(level).value)
    offsets = level.binary_offsets
    for rule, symbols in enumerate(level.rules.binary.tolist()):
        own = slice(*offsets[rule : rule + 2])
        before, after = (
            x[own].reshape(level.substates[symbols[0]], -1) for x in (level.binary, values)
        )
        cut = found.groups[symbols[0]]
        for part in (slice(cut), slice(cut, None)):
            np.testing.assert_allclose(after[part].sum(axis=0), before[part].sum(axis=0), rtol=1e-4)
        # What is changed is small for the rule.
        assert abs(after - before).max(initial=0) <= share * before.max(initial=0) * 1.001


def test_parses_hardly_change():
    grammar = sample_grammar(3)
    words = [tree.words() for tree in sample_trees()[:40]]
    exact, approximate = (ChartParser(grammar, share=share).parse(words) for share in (0.0, 0.01))
    for one, other in zip(exact, approximate, strict=True):
        assert one.log_likelihood == pytest.approx(other.log_likelihood, abs=0.3)
