"""The kernel against a short NumPy version of equations 2 and 3 of Petrov & Klein (2007)."""

import numpy as np
import pytest
from grammar import treebanks

from spacy_structlearn.arrays import cumulative
from spacy_structlearn.grammar.latent import _derivations
from spacy_structlearn.grammar.latent.em import TreebankDerivations
from spacy_structlearn.grammar.latent.model import Level
from spacy_structlearn.grammar.treebank.data import binarize


def random_level(data, rng, most=5):
    """Substates, rule scores and emissions drawn at random; no distributions."""
    substates = rng.integers(1, most + 1, data.symbols.size).astype(np.int32)
    ancestors = np.zeros(substates.sum(), np.int32)
    sizes = [int(size.sum()) for size in data.rules.sizes(substates).values()]
    arrays = [rng.uniform(0.01, 1, size).astype(np.float32) for size in sizes]
    level = Level(data.rules, substates, ancestors, *arrays)
    emissions = rng.uniform(1e-3, 1, int(substates[data.pairs[:, 0]].sum())).astype(np.float32)
    return level, emissions


def by_definition(data, level, emissions):
    """Log-likelihood, counts and posteriors of nodes, one tree and one node after the other."""
    binary, unary = np.zeros(len(level.binary)), np.zeros(len(level.unary))
    root, lexical = np.zeros(len(level.root)), np.zeros(len(emissions))
    pair_offsets = cumulative(level.substates[data.pairs[:, 0]])
    total, posteriors = 0.0, [None] * data.n_nodes

    def place(offsets, production):
        return slice(*offsets[production : production + 2])

    for tree in range(data.n_trees):
        nodes = range(*data.offsets[tree : tree + 2])
        inside, outside = {}, {}
        for i in nodes:
            b, c, p = data.left[i], data.right[i], data.production[i]
            if b < 0:
                inside[i] = emissions[place(pair_offsets, p)].astype(float)
            elif c < 0:
                inside[i] = level.block("unary", p).astype(float) @ inside[b]
            else:
                block = level.block("binary", p).astype(float)
                inside[i] = np.einsum("xyz,y,z->x", block, inside[b], inside[c])
        top, rule = nodes[-1], data.roots[tree]
        outside[top] = level.block("root", rule).astype(float)
        z = outside[top] @ inside[top]
        total += np.log(z)
        root[place(level.root_offsets, rule)] += outside[top] * inside[top] / z
        for i in reversed(nodes):
            b, c, p = data.left[i], data.right[i], data.production[i]
            posteriors[i] = outside[i] * inside[i] / z
            if b < 0:
                lexical[place(pair_offsets, p)] += posteriors[i]
            elif c < 0:
                block = level.block("unary", p).astype(float)
                outside[b] = outside[i] @ block
                counts = outside[i][:, None] * block * inside[b] / z
                unary[place(level.unary_offsets, p)] += counts.reshape(-1)
            else:
                block = level.block("binary", p).astype(float)
                outside[b] = np.einsum("x,xyz,z->y", outside[i], block, inside[c])
                outside[c] = np.einsum("x,xyz,y->z", outside[i], block, inside[b])
                counts = np.einsum("x,xyz,y,z->xyz", outside[i], block, inside[b], inside[c]) / z
                binary[place(level.binary_offsets, p)] += counts.reshape(-1)
    return total, (binary, unary, root, lexical), posteriors


@pytest.mark.parametrize("binarization", ["right", "left"])
@pytest.mark.parametrize("most", [1, 5, 20])
def test_counts_are_those_of_the_definition(binarization, most):
    data = binarize(treebanks.toy() + treebanks.sample()[:8], binarization, "R")
    level, emissions = random_level(data, np.random.default_rng(most), most)
    derivations = TreebankDerivations(data)
    value, counts = derivations.expected_counts((level, emissions))
    expected, expected_counts, posteriors = by_definition(data, level, emissions)
    assert value == pytest.approx(expected, rel=1e-6)
    for found, wanted in zip(counts, expected_counts, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=1e-6)
    for symbol in range(data.symbols.size):
        inside, outside = derivations.scores_of(symbol)
        for i, found in zip(np.flatnonzero(data.symbol == symbol), inside * outside, strict=True):
            np.testing.assert_allclose(found, posteriors[i], rtol=2e-4, atol=1e-6)


def test_a_long_tree_does_not_underflow():
    words = " ".join(f"(T w{i})" for i in range(3000))
    data = binarize(treebanks.trees(f"(TOP (S {words}))"))
    level, emissions = random_level(data, np.random.default_rng(3))
    value, counts = TreebankDerivations(data).expected_counts(
        (level, emissions * np.float32(1e-20))
    )
    assert np.isfinite(value)
    assert counts.lexical.sum() == pytest.approx(3000, rel=1e-3)
    assert counts.binary.sum() == pytest.approx(2999, rel=1e-3)


def test_an_impossible_tree_counts_for_nothing():
    data = binarize(treebanks.toy(), root="R")
    level, emissions = random_level(data, np.random.default_rng(4))
    derivations = TreebankDerivations(data)
    pairs = cumulative(level.substates[data.pairs[:, 0]])
    leaf = data.production[data.offsets[4]]  # of one tree only
    assert (data.production[data.is_word] == leaf).sum() == 1
    emissions[pairs[leaf] : pairs[leaf + 1]] = 0
    with np.errstate(invalid="ignore"):
        value, counts = derivations.expected_counts((level, emissions))
    assert value == -np.inf
    assert counts.root.sum() == pytest.approx(data.n_trees - 1)
    assert all(np.isfinite(array).all() for array in counts)


# --- arrays that do not fit ----------------------------------------------------------------------
FIELDS = ("symbol", "left", "right", "production", "offsets", "roots", "pairs")


def fields_of(data):
    rules = {name: getattr(data.rules, name) for name in ("binary", "unary", "root")}
    fields = {name: getattr(data, name) for name in FIELDS}
    return {**fields, **rules, "n_symbols": data.symbols.size}


@pytest.mark.parametrize("name", [*FIELDS, "binary", "unary", "root"])
@pytest.mark.parametrize("change", [1000, -1000, -(2**31) + 1])
def test_trees_refuse_indices_out_of_range(name, change):
    fields = fields_of(binarize(treebanks.toy(), root="R"))
    _derivations.Trees(**fields)
    array = fields[name].copy()
    array.reshape(-1)[array.size // 2 // array.shape[-1] * array.shape[-1]] += change
    if name in ("left", "right") and change < 0:
        array[:] = change  # all negative numbers are the same to these
    with pytest.raises(ValueError, match=r"agree|range|delimit|unknown"):
        _derivations.Trees(**{**fields, name: array})


def test_scores_refuse_arrays_of_other_sizes():
    fields = fields_of(data := binarize(treebanks.toy(), root="R"))
    for name in FIELDS[:-1]:
        with pytest.raises(ValueError, match=r"node|agree"):
            _derivations.Trees(**{**fields, name: fields[name][:-1]})
    trees, n = _derivations.Trees(**fields), data.n_trees
    level, emissions = random_level(data, np.random.default_rng(5))
    values = np.zeros((2, int(level.substates[data.symbol].sum())), np.float32)
    scores = (*values, np.zeros(data.n_nodes, np.float32))
    blocks = (level.binary, level.unary, level.root, emissions)
    arguments = (*blocks, *scores, np.zeros(n))
    with pytest.raises(ValueError, match="layout"):
        trees.inside_outside(0, n, *arguments)
    for substates in (0 * level.substates, level.substates[1:], level.substates + 1024):
        with pytest.raises(ValueError, match="substates"):
            trees.lay_out(substates)
    trees.lay_out(level.substates)
    trees.inside_outside(0, n, *arguments)
    for i, array in enumerate(arguments):
        with pytest.raises(ValueError, match=r"size|range"):
            trees.inside_outside(0, n, *arguments[:i], array[1:], *arguments[i + 1 :])
    for first, last in ((-1, 1), (2, 1), (0, data.n_trees + 1)):
        with pytest.raises(ValueError, match="range"):
            trees.inside_outside(first, last, *arguments)
    for unary, block in enumerate(blocks[:2]):
        counts, whole = np.empty_like(block), (0, len(fields[("binary", "unary")[unary]]))
        trees.rule_counts(unary, *whole, block, *scores, counts)
        for first, last, probabilities, sums in (
            (0, whole[1] + 1, block, counts),
            (*whole, block[1:], counts),
            (*whole, block, block[1:]),
        ):
            with pytest.raises(ValueError, match=r"size|range"):
                trees.rule_counts(unary, first, last, probabilities, *scores, sums)
        with pytest.raises(ValueError, match="size"):
            trees.posterior_sums(unary, scores[0][1:], *scores[1:])
