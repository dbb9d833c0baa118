"""The conditional likelihood against NumPy and against finite differences."""

from itertools import pairwise

import numpy as np
import pytest
from grammar import treebanks
from grammar.numpy_forest import at_level, generative_weights, learned, numpy_expected_counts, of

from spacy_structlearn.grammar.discriminative.objective import (
    LARGEST,
    LEAST,
    GrammarLikelihood,
    GrammarShard,
    Parameterization,
    Parts,
    TerminalMap,
    without_backoff,
)
from spacy_structlearn.grammar.discriminative.settings import BASES
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.parallel.shards import Engine

KINDS = ("smoothed", "simple", "tied")
FLOOR = 1e-3


def objective(
    name="toy",
    kind="smoothed",
    number=1,
    base="generative",
    *,
    threshold=1e-4,
    l2=0.0,
    shards=1,
    threads=1,
):
    data, grammar = learned(name, kind)
    made, terminals, _ = at_level(data, grammar, number, threshold, shards=shards)
    engine = Engine([GrammarShard(forests, terminals) for forests in made], threads)
    parameters = Parameterization(grammar, number, base)
    return GrammarLikelihood(parameters, terminals, engine, l2)


def theta_of(likelihood, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    start = likelihood.parameterization.initial(FLOOR)
    return start + rng.normal(scale=noise, size=len(start))


# --- words ---------------------------------------------------------------------------------------
def all_terminals(grammar):
    """Every id of a word, unknown ones too, with every tag."""
    n_words = len(grammar.lexicon.words) + len(grammar.lexicon.signatures) + 1
    return np.arange(n_words * grammar.symbols.n_tags)


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_terminals_have_the_scores_of_the_lexicon(kind, number):
    _, grammar = learned("toy", kind)
    terminals = all_terminals(grammar)
    mapped = TerminalMap(grammar.lexicon, terminals, grammar.levels[number])
    level = grammar.lexicon.levels[number]
    found = mapped.weights(level.own, level.rows.reshape(-1))
    wanted = generative_weights(grammar, number, terminals)
    np.testing.assert_array_equal(mapped.offsets, wanted.terminal_offsets)
    np.testing.assert_allclose(found, wanted.terminal, rtol=1e-5, atol=1e-12)
    assert (found > 0).any()


@pytest.mark.parametrize("kind", KINDS)
def test_without_backoff_words_score_the_same(kind):
    kinds = {"simple": {"lexicon": "simple"}, "tied": {"word_backoff": "signature"}}
    brief = {"rounds": 1, "split_iterations": 2, "merge_iterations": 1, "smooth_iterations": 1}
    settings = LatentGrammarSettings(**brief, min_word_count=2, **kinds.get(kind, {}), root="R")
    grammar = treebanks.learned(settings, treebanks.toy())
    whole = without_backoff(grammar)
    ids = np.unique(all_terminals(grammar) // grammar.symbols.n_tags).astype(np.int32)
    for number in range(2):
        wanted = grammar.lexicon.scores(number, ids)
        np.testing.assert_allclose(whole.lexicon.scores(number, ids), wanted, rtol=1e-6)
        assert whole.levels[number] == grammar.levels[number]
    assert not whole.lexicon.backoff.weights.any()


# --- parameters ----------------------------------------------------------------------------------
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_the_generative_base(kind, number):
    """Parameters of 0 are the generative weights; what is zero has none."""
    _, grammar = learned("short", kind)
    level, words = grammar.levels[number], grammar.lexicon.levels[number]
    parameters = Parameterization(grammar, number, "generative")
    start = parameters.initial(FLOOR)
    assert not start.any()
    found = parameters.weights(start)
    for name, array in zip(
        Parts._fields,
        (level.binary, level.unary, level.root, words.own, words.rows.reshape(-1)),
        strict=True,
    ):
        part = getattr(found, name)
        assert part.dtype == np.float32
        small = LEAST if name in ("binary", "unary", "root") else 0
        np.testing.assert_array_equal(part, np.where(array < small, 0, array))
    assert parameters.n_parameters == sum(np.count_nonzero(part) for part in found)
    refined, its = parameters.refined(found)
    assert refined.n_productions == sum(np.count_nonzero(part) for part in found[:3])
    np.testing.assert_array_equal(its.rows, words.rows)


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_the_uniform_base(kind, number):
    """Each production seen has a parameter; it starts from the probability, or the floor."""
    _, grammar = learned("short", kind)
    level, words = grammar.levels[number], grammar.lexicon.levels[number]
    parameters = Parameterization(grammar, number, "uniform")
    found = parameters.weights(parameters.initial(FLOOR))
    for part, array in zip(
        found[:4], (level.binary, level.unary, level.root, words.own), strict=True
    ):
        np.testing.assert_allclose(part, np.maximum(array, FLOOR), rtol=1e-5)
    rows = found.rows.reshape(words.rows.shape)
    np.testing.assert_array_equal(rows[-1], words.rows[-1])
    n_tags = grammar.symbols.n_tags
    for tag in range(n_tags):
        own = slice(*level.offsets[tag : tag + 2])
        seen = words.rows[:-1, own].any(axis=1)
        wanted = np.maximum(words.rows[:-1, own], FLOOR) * seen[:, None]
        np.testing.assert_allclose(rows[:-1, own], wanted, rtol=1e-5)
    n_rules = sum(len(part) for part in found[:4])
    assert parameters.n_parameters == n_rules + np.count_nonzero(rows[:-1])


@pytest.mark.parametrize("value", [LARGEST, 1e9, np.inf, np.nan])
def test_weights_that_are_too_large(value):
    likelihood = objective(l2=0.1)
    parameters = likelihood.parameterization
    theta = np.zeros(parameters.n_parameters)
    for place in (0, -1):
        other = theta.copy()
        other[place] = value
        assert parameters.weights(other) is None
        found, gradient = likelihood.value_and_grad(other)
        assert found == np.inf
        assert not gradient.any()
        with pytest.raises(ValueError, match="too large"):
            parameters.refined(parameters.weights(other))
    # As large as may be: finite, or lost, but nothing in between.
    found, gradient = likelihood.value_and_grad(theta + LARGEST - 0.01)
    assert not np.isnan(found)
    assert np.isfinite(gradient).all() or found == np.inf


# --- the objective -------------------------------------------------------------------------------
def numpy_value_and_grad(likelihood, theta):
    """In float64, of the float32 weights; the tree's side from the forests' own trees."""
    parameters = likelihood.parameterization
    parts = parameters.weights(theta)
    mapped = likelihood._map
    weights = mapped.level_weights(*parameters.refined(parts))
    value, gradient = 0.0, np.zeros(len(theta))
    for shard in likelihood.engine.shards:
        problem = of(shard.forests, weights)
        own, trees = numpy_expected_counts(problem, only_gold=True)
        log_z, full = numpy_expected_counts(problem)
        assert (own <= log_z + 1e-9).all()
        value -= (own - log_z).sum()
        diff = [a - b for a, b in zip(trees, full, strict=True)]
        words = mapped.counts(diff[3], parts.own, parts.rows)
        gradient -= parameters.parameters_of(Parts(*diff[:3], *words))
    return value + 0.5 * likelihood.l2 * theta @ theta, gradient + likelihood.l2 * theta


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("kind", KINDS)
def test_value_and_gradient_are_those_of_numpy(kind, base, number):
    likelihood = objective("toy", kind, number, base, l2=0.05)
    theta = theta_of(likelihood)
    value, gradient = likelihood.value_and_grad(theta)
    wanted, wanted_gradient = numpy_value_and_grad(likelihood, theta)
    assert 0 < value == pytest.approx(wanted, rel=1e-5)
    np.testing.assert_allclose(gradient, wanted_gradient, rtol=1e-4, atol=1e-5)


def test_a_prior_leaves_productions_alone_that_no_forest_has():
    likelihood = objective("short", "simple", 1, "uniform", threshold=0.1, l2=0.5)
    absent, free = likelihood.l2 == 0, objective("short", "simple", 1, "uniform", threshold=0.1)
    assert 0 < absent.sum() < len(absent)
    theta = theta_of(likelihood)
    assert not likelihood.value_and_grad(theta)[1][absent].any()
    assert (free.value_and_grad(theta)[1][~absent] != 0).mean() > 0.9


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("base", BASES)
def test_gradient_against_finite_differences(base, kind):
    likelihood = objective("short", kind, 1, base, threshold=1e-3, l2=0.5)
    parameters = likelihood.parameterization
    theta = theta_of(likelihood)
    _, gradient = likelihood.value_and_grad(theta)
    rng = np.random.default_rng(1)
    # Of each part, and of all together: the step must be large for float32.
    directions = [rng.choice([-1.0, 1.0], size=len(theta)), gradient / np.abs(gradient).max()]
    for begin, end in pairwise(parameters._bounds):
        part = np.zeros(len(theta))
        part[begin:end] = gradient[begin:end]
        # Known words may have no share in the rows that have parameters.
        if part.any():
            directions.append(part / np.abs(part).max())
    for direction in directions:
        step = min(1e-2 / np.sqrt(np.mean(direction[direction != 0] ** 2)), 2e-2)
        values = [
            likelihood.value_and_grad(theta + x * step * direction)[0] for x in (-2, -1, 1, 2)
        ]
        wanted = (8 * (values[2] - values[1]) - (values[3] - values[0])) / (12 * step)
        assert gradient @ direction == pytest.approx(wanted, rel=1e-3, abs=1e-2)


# --- sentences that float32 loses ----------------------------------------------------------------
def without_a_rule(shards=2):
    """An objective, and parameters with which float32 loses the one sentence of a rule."""
    likelihood = objective("toy", "simple", 1, "uniform", shards=shards)
    data, _ = learned("toy", "simple")
    level = likelihood.parameterization.level
    (rule,) = np.flatnonzero(np.bincount(data.production[data.is_binary]) == 1)[:1]
    theta = theta_of(likelihood)
    theta[slice(*level.binary_offsets[rule : rule + 2])] = -200
    node = np.flatnonzero(data.is_binary & (data.production == rule))[0]
    return likelihood, theta, int(np.searchsorted(data.offsets, node, side="right") - 1)


def test_a_sentence_that_float32_loses_has_no_part_in_value_or_gradient():
    likelihood, theta, lost = without_a_rule()
    value, gradient = likelihood.value_and_grad(theta)
    assert np.concatenate([shard.lost for shard in likelihood.engine.shards]).tolist() == [lost]
    # As if the treebank did not have it.
    data, grammar = learned("toy", "simple")
    rest = data.subset(np.delete(np.arange(data.n_trees), lost))
    made, terminals, _ = at_level(rest, grammar, 1, 1e-4)
    engine = Engine([GrammarShard(forests, terminals) for forests in made])
    other = GrammarLikelihood(likelihood.parameterization, terminals, engine, 0.0)
    wanted, its = other.value_and_grad(theta)
    assert value == pytest.approx(wanted, rel=1e-5)
    np.testing.assert_allclose(gradient, its, rtol=1e-4, atol=1e-5)
    rng = np.random.default_rng(0)
    for _ in range(3):
        direction = rng.choice([-1.0, 1.0], size=len(theta))
        values = [likelihood.value_and_grad(theta + x * 0.01 * direction)[0] for x in (-1, 1)]
        found = (values[1] - values[0]) / 0.02
        assert gradient @ direction == pytest.approx(found, rel=1e-2, abs=1e-2)
    # Of the trees that count, those of the shards' sentences.
    for shard in likelihood.engine.shards:
        assert shard.derivations.data.n_trees == len(shard.sentences)
