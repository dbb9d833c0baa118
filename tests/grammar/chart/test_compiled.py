"""Compiled grammars: blocks of rules, and the factored first pass against the exhaustive one."""

import numpy as np
import pytest
from grammar import grammars

from spacy_structlearn.grammar.chart import compiled, decode
from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.latent.factors import Factors
from spacy_structlearn.grammar.latent.split_merge import branches, smooth


# --- blocks --------------------------------------------------------------------------------------
def full(level, blocks):
    """All probabilities, from dense blocks and from entries."""
    rules = []
    for rule, symbols in enumerate(level.rules.binary.tolist()):
        n, left, right = level.substates[symbols].tolist()
        if blocks.offsets[rule] >= 0:
            begin = blocks.offsets[rule]
            block = blocks.dense[begin : begin + n * left * right].reshape(n, -1)
        else:
            block = np.zeros((n + 2, left * right))
            entries = slice(*blocks.begins[rule : rule + 2])
            places = blocks.parent[entries], blocks.pair[entries]
            np.add.at(block, places, blocks.value[entries])
            cut = blocks.groups[symbols[0]]
            block[:cut] += block[n]
            block[cut:n] += block[n + 1]
            block = block[:n]
        rules.append(block.reshape(-1))
    return np.concatenate(rules)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1])
@pytest.mark.parametrize("seed", range(3))
def test_a_share_keeps_the_sums_of_groups(seed, share, monkeypatch):
    monkeypatch.setattr(compiled, "FEW", 0)
    monkeypatch.setattr(compiled, "DENSE_ENTRIES", 10**9)
    grammar = grammars.random_grammar(seed, n_levels=4, zeros=0.9, n_phrases=4, density=0.2)
    level = smooth(grammar.levels[-1], branches(grammar.levels), 0.01)
    blocks = compiled.blocks(level, share)
    values, offsets = full(level, blocks), level.binary_offsets
    if not share:
        np.testing.assert_array_equal(values, level.binary)
    assert len(blocks.value) <= len(compiled.blocks(level).value)
    for rule, symbols in enumerate(level.rules.binary.tolist()):
        places = slice(*offsets[rule : rule + 2])
        n = level.substates[symbols[0]]
        before, after = (x[places].reshape(n, -1) for x in (level.binary, values))
        cut = blocks.groups[symbols[0]]
        for part in (slice(cut), slice(cut, None)):
            np.testing.assert_allclose(after[part].sum(axis=0), before[part].sum(axis=0), rtol=1e-4)
        # What is changed is small for the rule.
        assert abs(after - before).max(initial=0) <= share * before.max(initial=0) * 1.001


def test_a_share_hardly_changes_parses(monkeypatch):
    grammar = grammars.sample_grammar(3)
    words = [tree.words() for tree in grammars.sample_trees()[:40]]
    approximate = ChartParser(grammar).parse(words)
    monkeypatch.setattr(decode, "SHARE", 0.0)
    exact = ChartParser(grammar).parse(words)
    for one, other in zip(exact, approximate, strict=True):
        assert one.log_likelihood == pytest.approx(other.log_likelihood, abs=0.3)


@pytest.mark.parametrize("decoder", ["viterbi", "max_rule_product"])
@pytest.mark.parametrize("zeros", [0.0, 0.6])
def test_blocks_may_be_dense_or_listed(decoder, zeros, monkeypatch):
    grammar = grammars.random_grammar(3, n_levels=3, zeros=zeros)
    sentences = [grammars.sentence(seed, n) for seed, n in enumerate((2, 5, 9, 14))]
    parses = []
    for entries in (10**9, 12, -(10**9)):
        monkeypatch.setattr(compiled, "DENSE_ENTRIES", entries)
        parses.append(ChartParser(grammar, decoder=decoder).parse(sentences))
    for listed, mixed, dense in zip(*parses, strict=True):
        assert grammars.same_parses(listed, dense, atol=1e-4)
        assert grammars.same_parses(mixed, dense, atol=1e-4)


# --- the first pass ------------------------------------------------------------------------------
def exact_factors(level, n_tags):
    """One rank for each refined rule."""
    first = int(level.offsets[n_tags])
    rules = []
    for number, symbols in enumerate(level.rules.binary.tolist()):
        block = level.block("binary", number)
        for place in zip(*np.nonzero(block), strict=True):
            rules.append((*(level.offsets[symbols] + place), block[place]))
    rank = -(-max(len(rules), 1) // 32) * 32
    parent, left, right = (np.zeros((level.size, rank), np.float32) for _ in range(3))
    for r, (a, b, c, value) in enumerate(rules):
        parent[a, r], left[b, r], right[c, r] = value, 1.0, 1.0
    return Factors(parent[first:], left, right)


@pytest.fixture
def exact(monkeypatch):
    monkeypatch.setattr(compiled, "decompose", exact_factors)


def exhaustive(monkeypatch, *arguments, **settings):
    with monkeypatch.context() as patch:
        patch.setattr(decode, "is_factored", lambda level: False)
        return ChartParser(*arguments, **settings)


def items_of(graphs):
    return {tuple(item) for item in graphs.items.tolist()}


@pytest.mark.parametrize("n", [1, 2, 3, 9, 20])
@pytest.mark.parametrize("shape", grammars.SHAPES)
def test_without_pruning_nothing_is_lost(shape, n, monkeypatch):
    for seed in range(3):
        grammar = grammars.random_grammar(seed, n_levels=3, density=0.4, shape=shape)
        words = [grammars.sentence(seed, n)]
        parses = [
            make(grammar, thresholds=grammars.NEVER).parse(words)
            for make in (ChartParser, lambda *a, **k: exhaustive(monkeypatch, *a, **k))
        ]
        assert all(grammars.same_parses(a, b, atol=1e-4) for a, b in zip(*parses, strict=True))


@pytest.mark.parametrize("n", [1, 2, 7, 12])
@pytest.mark.parametrize("seed", range(4))
def test_exact_factors_leave_what_has_a_posterior(seed, n, exact, monkeypatch):
    grammar = grammars.random_grammar(seed, n_levels=2, density=0.5, root_tags=True)
    words = grammars.sentence(seed, n)
    keep = 1e-3
    monkeypatch.setattr(decode, "EDGE_FACTOR", 0.0)
    parser = ChartParser(grammar, thresholds=(keep,))
    graphs, numbers = parser.forests([words])
    rows = grammar.lexicon.scores(1, grammar.lexicon.encode(words))
    q = grammars.numpy_posteriors(grammar.levels[1], grammar.symbols.n_tags, rows)
    if not len(numbers):
        assert not q.total > 0
        return
    best = np.maximum(q.lower, q.upper)
    found = items_of(graphs)
    for i, j, symbol in zip(*np.nonzero(best > keep * 1.01), strict=True):
        assert (symbol, i, j) in found
    for symbol, i, j in found:
        assert best[i, j, symbol] >= keep * 0.99


def test_the_score_of_a_long_sentence(monkeypatch, exact):
    grammar = grammars.random_grammar(1, n_levels=2, density=0.5)
    words = [grammars.sentence(3, 60)]
    parser = ChartParser(grammar, thresholds=grammars.NEVER)
    other = exhaustive(monkeypatch, grammar, thresholds=grammars.NEVER)
    assert grammars.same_parses(parser.parse(words)[0], other.parse(words)[0], atol=1e-2)


def test_a_level_with_more_states_is_not_factored():
    grammar = grammars.random_grammar(1, n_levels=3)
    level = grammar.levels[2]
    assert level.substates.max() > 2
    assert not compiled.is_factored(level)
    assert compiled.is_factored(grammar.levels[1])


def test_factors_that_do_not_fit():
    grammar = grammars.random_grammar(1, n_levels=2)
    made = compiled.factored(grammar)
    made_of = compiled.compile_grammar(grammar, first_pass=True)
    assert made_of.is_factored
    assert not compiled.compile_grammar(grammar).is_factored
    for name in made:
        with pytest.MonkeyPatch.context() as patch:
            wrong = {**made, name: made[name][:-1]}
            patch.setattr(compiled, "factored", lambda grammar, wrong=wrong: wrong)
            with pytest.raises(ValueError, match="factors do not fit"):
                compiled.compile_grammar(grammar, first_pass=True)
