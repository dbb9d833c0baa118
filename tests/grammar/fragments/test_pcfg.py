"""PCFGs as distributions of trees: inside values and expectations against closed forms."""

from dataclasses import replace

import numpy as np
import pytest
from grammar.grammars import grammar_from, random_grammar, tensors
from grammar.treebanks import toy

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.fragments.pcfg import PCFG, Expectations
from spacy_structlearn.grammar.latent.em import observed_counts, treebank_grammar
from spacy_structlearn.grammar.treebank.data import BINARIZATIONS, binarize


# --- grammars ------------------------------------------------------------------------------------
def by_hand(binary, unary, root, tags="ab", phrases="SXY"):
    """By names, with the probabilities as they are given."""
    grammar = grammar_from(tags, phrases, binary, unary, root, {})
    pcfg = PCFG.of(grammar)
    names, rows = grammar.symbols.names, {**binary, **unary, **root}
    spelt = [[names[x] for x in rule if x >= 0] for rule in pcfg.rules.tolist()]
    exact = np.array([rows[" -> ".join([top, " ".join(rest)])] for top, *rest in spelt])
    top = np.array([root.get(name, 0.0) for name in names])
    return replace(pcfg, p=exact, root=top)


def branching(p, stop=None):
    """S -> S S with probability p, or a word."""
    stop = 1 - p if stop is None else stop
    return by_hand({"S -> S S": p}, {"S -> a": stop}, {"S": 1.0}, tags="a", phrases="S")


def relative_frequencies(data):
    """The treebank grammar in double precision; levels store single."""
    pcfg, counts = PCFG.of(treebank_grammar(data)), observed_counts(data)
    total = data.occurrences.astype(np.float64)
    root = np.zeros(pcfg.size)
    root[data.rules.root] = counts.root / data.n_trees
    return replace(
        pcfg, p=np.append(counts.binary, counts.unary) / total[pcfg.rules[:, 0]], root=root
    )


# --- arrays --------------------------------------------------------------------------------------
@pytest.mark.parametrize("zeros", [0.0, 0.5])
@pytest.mark.parametrize("number", [0, 1, -1])
def test_rules_are_those_of_the_level(number, zeros):
    grammar = random_grammar(3, n_levels=3, zeros=zeros, root_tags=True)
    pcfg, level = PCFG.of(grammar, number), grammar.levels[number]
    binary, unary, root = tensors(level)
    found = np.zeros_like(binary)
    n = pcfg.n_binary
    np.add.at(found, tuple(pcfg.rules[:n].T), pcfg.p[:n])
    np.testing.assert_array_equal(found, binary)
    found = np.zeros_like(unary)
    np.add.at(found, tuple(pcfg.rules[n:, :2].T), pcfg.p[n:])
    np.testing.assert_array_equal(found, unary)
    np.testing.assert_array_equal(pcfg.root, root)
    assert (pcfg.p > 0).all()
    assert (pcfg.rules[n:, 2] == -1).all()
    for states, numbers, rules in (
        (pcfg.rules[:n], pcfg.coarse[:n], grammar.rules.binary),
        (pcfg.rules[n:, :2], pcfg.coarse[n:], grammar.rules.unary),
    ):
        assert states.dtype == numbers.dtype == pcfg.symbol.dtype == np.int32
        np.testing.assert_array_equal(pcfg.symbol[states], rules[numbers])
    np.testing.assert_array_equal(pcfg.lexical[: pcfg.tags], 1)
    np.testing.assert_array_equal(pcfg.lexical[pcfg.tags :], 0)
    assert pcfg.tags == level.offsets[grammar.symbols.n_tags]
    assert pcfg.size == level.size


# --- inside --------------------------------------------------------------------------------------
@pytest.mark.parametrize("p", [0.0, 0.01, 0.3, 0.49, 0.499, 0.501, 0.6, 0.75, 0.99])
def test_inside_of_a_branching_process(p):
    assert branching(p).inside() == pytest.approx([1, min(1, (1 - p) / p) if p else 1], abs=1e-12)


def test_inside_at_criticality():
    found = branching(0.5).inside()
    assert found[1] == pytest.approx(1, abs=1e-6)
    # A second double root above it leaves the half of these digits.
    binary = {"S -> S S": 0.5, "X -> X X": 0.5}
    pcfg = by_hand(binary, {"S -> a": 0.5, "X -> S": 0.5}, {"X": 1.0}, "a", "SX")
    np.testing.assert_allclose(pcfg.inside(), 1, atol=1e-3)


def test_what_never_ends_and_what_is_never_reached():
    binary = {"S -> X a": 0.5, "S -> a a": 0.5, "X -> X a": 1.0, "Y -> Y Y": 0.5}
    unary = {"Z -> U": 1.0, "U -> Z": 1.0, "Y -> a": 0.5}
    pcfg = by_hand(binary, unary, {"S": 1.0}, "a", "SUXYZ")
    np.testing.assert_allclose(pcfg.inside(), [1, 0.5, 0, 0, 1, 0], atol=1e-6)
    found = Expectations(pcfg)
    np.testing.assert_allclose(found.outside, [2, 1, 0, 0, 0, 0])
    assert found.pcfg.rules.tolist() == [[1, 0, 0], [4, 4, 4], [4, 0, -1]]
    np.testing.assert_allclose(found.rules(), [1, 0, 0])
    # Without a tree below it, a state has no first word either.
    first = found.corner(1, np.eye(pcfg.size, 1))
    np.testing.assert_allclose(first[:, 0], [1, 1, 0, 0, 1, 0])


def test_a_grammar_that_never_ends():
    pcfg = by_hand({"S -> S a": 1.0}, {}, {"S": 1.0}, phrases="S")
    with pytest.raises(StructlearnError, match=r"SL440.*never ends"):
        pcfg.terminating()
    with pytest.raises(StructlearnError, match="SL440"):
        Expectations(branching(1.0))


def test_weights_without_a_finite_sum():
    with pytest.raises(StructlearnError, match=r"SL440.*no finite sum"):
        branching(0.6, 0.6).inside()
    loop = by_hand({}, {"S -> X": 1.0, "X -> S": 1.0, "X -> a": 0.5}, {"S": 1.0}, phrases="SX")
    with pytest.raises(StructlearnError, match="SL440"):
        loop.inside()


# --- expectations --------------------------------------------------------------------------------


@pytest.mark.parametrize("binarization", BINARIZATIONS)
def test_relative_frequencies_expect_what_they_were_counted_in(binarization):
    data = binarize(toy(), binarization)
    assert_means(data, relative_frequencies(data), 1e-10)
    assert_means(data, PCFG.of(treebank_grammar(data)), 1e-5)


def assert_means(data, pcfg, tolerance):
    found, counts = Expectations(pcfg), observed_counts(data)
    np.testing.assert_allclose(pcfg.inside(), 1, atol=tolerance)
    n, numbers = found.pcfg.n_binary, found.rules()
    rules = np.bincount(found.pcfg.coarse[:n], numbers[:n], len(counts.binary))
    np.testing.assert_allclose(rules, counts.binary / data.n_trees, atol=tolerance)
    rules = np.bincount(found.pcfg.coarse[n:], numbers[n:], len(counts.unary))
    np.testing.assert_allclose(rules, counts.unary / data.n_trees, atol=tolerance)
    symbols = np.bincount(pcfg.symbol, found.outside)
    np.testing.assert_allclose(symbols, data.occurrences / data.n_trees, atol=tolerance)


def test_trees_without_a_finite_size():
    with pytest.raises(StructlearnError, match=r"SL440.*no finite expected size"):
        Expectations(branching(0.5))
    assert Expectations(branching(0.4999)).outside[1] == pytest.approx(5000, rel=1e-7)
