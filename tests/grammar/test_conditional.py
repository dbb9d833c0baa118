"""The conditional likelihood against NumPy and against finite differences."""

from itertools import pairwise

import numpy as np
import pytest
from numpy_forest import (
    at_level,
    coarse,
    generative_weights,
    learned,
    numpy_expected_counts,
    of,
)

from spacy_structlearn.grammar.analysis import Distinct, distinct_productions
from spacy_structlearn.grammar.conditional import (
    LARGEST,
    LEAST,
    GrammarLikelihood,
    GrammarShard,
    MultiScale,
    Parts,
    TerminalMap,
    ancestor_places,
    parameterization_of,
    probabilities_of,
    with_levels,
    without_backoff,
)
from spacy_structlearn.grammar.decode import compile_grammar
from spacy_structlearn.grammar.forests import GoldTrees, Terminals, coarse_forests
from spacy_structlearn.grammar.settings import BASES, SCALES, LatentGrammarSettings
from spacy_structlearn.optimize.shards import ThreadEngine

KINDS = ("smoothed", "simple", "tied")
FLOOR = 1e-3


def parameterization(grammar, number, base, scales="own"):
    return parameterization_of(grammar, number, base, scales)


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
    scales="own",
):
    data, grammar = learned(name, kind)
    made, terminals, _ = at_level(data, grammar, number, threshold, shards=shards)
    engine = ThreadEngine([GrammarShard(forests, terminals) for forests in made], threads)
    parameters = parameterization(grammar, number, base, scales)
    return GrammarLikelihood(parameters, grammar.lexicon, terminals, engine, l2)


def theta_of(likelihood, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    start = likelihood.parameterization.initial(FLOOR)
    return start + rng.normal(scale=noise, size=len(start))


def tag_substates(grammar, number):
    return grammar.levels[number].substates[: grammar.symbols.n_tags]


# --- words ---------------------------------------------------------------------------------------
def all_terminals(grammar):
    """Every id of a word, unknown ones too, with every tag."""
    n_tags = grammar.symbols.n_tags
    n_words = len(grammar.lexicon.words) + len(grammar.lexicon.signatures) + 1
    words, tags = np.divmod(np.arange(n_words * n_tags), n_tags)
    return Terminals(words.astype(np.int32), tags.astype(np.int32))


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_terminals_have_the_scores_of_the_lexicon(kind, number):
    _, grammar = learned("toy", kind)
    terminals = all_terminals(grammar)
    mapped = TerminalMap(grammar.lexicon, terminals, tag_substates(grammar, number))
    level = grammar.lexicon.levels[number]
    found = mapped.weights(level.own, level.rows.reshape(-1))
    wanted = generative_weights(grammar, number, terminals)
    np.testing.assert_array_equal(mapped.offsets, wanted.terminal_offsets)
    np.testing.assert_allclose(found, wanted.terminal, rtol=1e-5, atol=1e-12)
    assert (found > 0).any()


@pytest.mark.parametrize("kind", KINDS)
def test_counts_of_terminals(kind):
    """They are the derivative by the logarithms of the parts, of which none is forgotten."""
    _, grammar = learned("toy", kind)
    terminals = all_terminals(grammar)
    mapped = TerminalMap(grammar.lexicon, terminals, tag_substates(grammar, 2))
    level = grammar.lexicon.levels[2]
    own, rows = level.own.astype(float), level.rows.reshape(-1).astype(float)
    rng = np.random.default_rng(0)
    counts = rng.random(int(mapped.offsets[-1]))
    weights = mapped.weights(own, rows)
    counts[weights == 0] = 0

    def value(own, rows):
        weights = mapped.weights(own, rows)
        return float(counts[weights > 0] @ np.log(weights[weights > 0]))

    found = mapped.counts(counts, own, rows)
    assert sum(part.sum() for part in found) == pytest.approx(counts.sum(), rel=1e-12)
    step = 1e-6
    for which, part in enumerate((own, rows)):
        assert found[which].shape == part.shape
        for place in rng.choice(len(part), size=min(60, len(part)), replace=False):
            values = []
            for sign in (1, -1):
                other = part.copy()
                other[place] *= np.exp(sign * step)
                values.append(value(other, rows) if which == 0 else value(own, other))
            wanted = (values[0] - values[1]) / (2 * step)
            assert found[which][place] == pytest.approx(wanted, abs=1e-6)


def test_counts_of_terminals_without_weight():
    _, grammar = learned("toy", "simple")
    mapped = TerminalMap(grammar.lexicon, all_terminals(grammar), tag_substates(grammar, 1))
    level = grammar.lexicon.levels[1]
    none = np.zeros_like(level.own), np.zeros(level.rows.size, np.float32)
    counts = np.ones(int(mapped.offsets[-1]))
    assert not any(part.any() for part in mapped.counts(counts, *none))


def test_a_lexicon_without_words():
    _, grammar = learned("toy", "simple")
    lexicon = grammar.lexicon.without(set(grammar.lexicon.words))
    terminals = Terminals(np.zeros(2, np.int32), np.arange(2, dtype=np.int32))
    mapped = TerminalMap(lexicon, terminals, tag_substates(grammar, 1))
    level = lexicon.levels[1]
    found = mapped.weights(level.own, level.rows.reshape(-1))
    wanted = lexicon.scores(1, np.zeros(1, np.int32))[0][: len(found)]
    np.testing.assert_allclose(found, wanted)
    own, rows = mapped.counts(np.ones(len(found)), level.own, level.rows.reshape(-1))
    assert own.shape == (0,)
    assert rows.sum() == (found > 0).sum()


@pytest.mark.parametrize("kind", KINDS)
def test_without_backoff_words_score_the_same(kind):
    settings = {
        "smoothed": {},
        "simple": {"lexicon": "simple"},
        "tied": {"word_backoff": "signature"},
    }
    trainer = LatentGrammarSettings(
        rounds=1,
        split_iterations=2,
        merge_iterations=1,
        smooth_iterations=1,
        min_word_count=2,
        **settings[kind],
        root="R",
    ).trainer(None, [learned("toy")[0]])
    while trainer.step():
        pass
    grammar = trainer.parameters()
    whole = without_backoff(grammar)
    ids = np.unique(all_terminals(grammar).words)
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
    parameters = parameterization(grammar, number, "generative")
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
    refined, its = parameters.refined(start)
    assert refined.n_productions == sum(np.count_nonzero(part) for part in found[:3])
    np.testing.assert_array_equal(its.rows, words.rows)


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_the_uniform_base(kind, number):
    """Each production seen has a parameter; it starts from the probability, or the floor."""
    _, grammar = learned("short", kind)
    level, words = grammar.levels[number], grammar.lexicon.levels[number]
    parameters = parameterization(grammar, number, "uniform")
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


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("kind", KINDS)
def test_parameters_there_and_back(kind, base):
    _, grammar = learned("short", kind)
    parameters = parameterization(grammar, 1, base)
    theta = np.random.default_rng(0).normal(size=parameters.n_parameters)
    parts = parameters.parts_of(theta)
    np.testing.assert_array_equal(parameters.parameters_of(parts), theta)
    assert [part.shape for part in parts] == [part.shape for part in parameters.base]
    for part, base_of, found in zip(parts, parameters.base, parameters.weights(theta), strict=True):
        np.testing.assert_allclose(found, base_of * np.exp(part), rtol=1e-5)
        assert not part[base_of == 0].any()
    level, words = parameters.refined(theta)
    whole = with_levels(
        grammar,
        [grammar.levels[0], level, grammar.levels[2]],
        [grammar.lexicon.levels[0], words, grammar.lexicon.levels[2]],
    )
    assert type(whole).from_bytes(whole.to_bytes()) == whole


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
            likelihood.weights_at(other)
        with pytest.raises(ValueError, match="too large"):
            parameters.refined(other)
    # As large as may be: finite, or lost, but nothing in between.
    found, gradient = likelihood.value_and_grad(theta + LARGEST - 0.01)
    assert not np.isnan(found)
    assert np.isfinite(gradient).all() or found == np.inf


# --- parameters at all scales --------------------------------------------------------------------
def named(grammar, number, own_tags, n_rows):
    """Symbols and substates of each production of a level, of a word with its row before them."""
    level, rules = grammar.levels[number], grammar.rules

    def of(axes, own=()):
        shape = tuple(level.substates[list(axes)])
        return [(*own, *axes, *place) for place in np.ndindex(*shape)]

    def together(rows):
        return [name for row in rows for name in row]

    tags = range(grammar.symbols.n_tags)
    return (
        together(of(axes) for axes in rules.binary.tolist()),
        together(of(axes) for axes in rules.unary.tolist()),
        together(of((top,)) for top in rules.root.tolist()),
        together(of((tag,), (n,)) for n, tag in enumerate(own_tags.tolist())),
        together(of((tag,), (n,)) for n in range(n_rows) for tag in tags),
    )


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_places_of_what_is_refined(kind, number):
    _, grammar = learned("toy", kind)
    lexicon = grammar.lexicon
    own_tags = lexicon.pair_tags[lexicon.pair_weights == 0]
    n_rows = len(lexicon.levels[0].rows)
    fine, coarse = grammar.levels[number], grammar.levels[number - 1]
    found = ancestor_places(fine, coarse, own_tags, grammar.symbols.n_tags, n_rows)
    names = [named(grammar, n, own_tags, n_rows) for n in (number, number - 1)]
    before = probabilities_of(coarse, lexicon.levels[number - 1])
    assert [len(part) for part in names[1]] == [len(part) for part in before]
    for places, mine, its, axes in zip(found, *names, (3, 2, 1, 1, 1), strict=True):
        assert len(places) == len(mine)
        for place, name in zip(places.tolist(), mine, strict=True):
            symbols, substates = name[-2 * axes : -axes], name[-axes:]
            above = [
                int(fine.ancestors[fine.offsets[symbol] + x])
                for symbol, x in zip(symbols, substates, strict=True)
            ]
            assert its[place] == (*name[:-axes], *above)


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("kind", KINDS)
def test_scales_add_up(kind, base, number):
    """The weight of each production is its base times e to the sum of its parameters."""
    _, grammar = learned("toy", kind)
    parameters = parameterization(grammar, number, base, "all")
    plain = parameterization(grammar, number, base)
    assert isinstance(parameters, MultiScale)
    assert parameters.n_scales == number + 1
    theta = np.random.default_rng(number).normal(size=parameters.n_parameters)
    sums = parameters.scale_parts(0, parameters.of_scale(0, theta))
    about = (parameters.own_tags, parameters.n_tags, len(parameters.words.rows))
    for scale in range(1, number + 1):
        own = parameters.scale_parts(scale, parameters.of_scale(scale, theta))
        places = ancestor_places(grammar.levels[scale], grammar.levels[scale - 1], *about)
        sums = Parts(*(a[p] + b for a, p, b in zip(sums, places, own, strict=True)))
    # The last row of signatures, of unknown ones, has no parameter.
    has = plain.parts_of(np.ones(plain.n_parameters))
    found = parameters.weights(theta)
    for part, sum_of, base_of, own in zip(found, sums, parameters.base, has, strict=True):
        wanted = np.where(own > 0, base_of * np.exp(sum_of), base_of)
        np.testing.assert_allclose(part, wanted, rtol=1e-5)
    parts = parameters.parts_of(theta)
    np.testing.assert_array_equal(plain.parameters_of(parts), parameters.sums(theta)[-1])
    # What is added up and what adds it up are transposes of one another.
    counts = Parts(*(np.random.default_rng(9).normal(size=len(p)) for p in parts))
    mine = parameters.parameters_of(counts) @ theta
    assert mine == pytest.approx(plain.parameters_of(counts) @ parameters.sums(theta)[-1])


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("kind", KINDS)
def test_all_scales_start_where_one_does(kind, base, number):
    _, grammar = learned("toy", kind)
    plain, scaled = (parameterization(grammar, number, base, scales) for scales in SCALES)
    wanted, found = plain.initial(FLOOR), scaled.initial(FLOOR)
    np.testing.assert_allclose(scaled.sums(found)[-1], wanted, atol=1e-12)
    if base == "uniform":
        # Those of coarser scales are what a coarser grammar starts from.
        for scale in range(number):
            coarser = parameterization(grammar, scale, base, "all")
            own = coarser.scale_parts(scale, coarser.of_scale(scale, coarser.initial(FLOOR)))
            mine = scaled.scale_parts(scale, scaled.of_scale(scale, found))
            for a, b in zip(own[:3], mine[:3], strict=True):
                np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("kind", KINDS)
def test_scales_are_carried_to_the_next_level(kind, base):
    _, grammar = learned("toy", kind)
    before, after = (parameterization(grammar, n, base, "all") for n in (1, 2))
    theta = np.random.default_rng(0).normal(size=before.n_parameters)
    found = after.carried(before, theta, FLOOR)
    np.testing.assert_array_equal(after.of_scale(2, found), after.of_scale(2, after.initial(FLOOR)))
    for scale in range(2):
        own = before.scale_parts(scale, before.of_scale(scale, theta))
        has = before.scale_parts(scale, np.ones(len(before.of_scale(scale, theta)), bool))
        mine = after.scale_parts(scale, after.of_scale(scale, found))
        used = after.scale_parts(scale, np.ones(len(after.of_scale(scale, found)), bool))
        for a, b, both, all_of in zip(own, mine, has, used, strict=True):
            np.testing.assert_array_equal(b[both & all_of], a[both & all_of])
            assert not b[~both].any()


def ways_of(parameters, theta):
    """By brute force: each production with the parameters on its way to the coarsest scale."""
    ways = [(n,) for n in range(len(parameters.of_scale(0, theta)))]
    for parents in parameters.parents:
        ways = [(*ways[parent], n) for n, parent in enumerate(parents.tolist())]
    return ways


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.0, 0.002, 0.2, 1.0])
def test_distinct_productions(kind, base, share):
    _, grammar = learned("toy", kind)
    parameters = parameterization(grammar, 2, base, "all")
    rng = np.random.default_rng(1)
    theta = rng.normal(size=parameters.n_parameters)
    theta[rng.random(len(theta)) >= share] = 0
    found = distinct_productions(parameters, theta)
    ways = ways_of(parameters, theta)
    own = [parameters.of_scale(scale, theta) for scale in range(3)]
    # A production is told apart from the scale on below which there is nothing but zeros.
    busy = [
        {way[: scale + 1] for way in ways if any(own[k][way[k]] for k in range(scale + 1, 3))}
        for scale in range(3)
    ]
    kept = set()
    for way in ways:
        scale = next(k for k in range(3) if way[: k + 1] not in busy[k])
        kept.add(way[: scale + 1])
    assert found.productions == len(ways)
    assert found.different == len(kept)
    assert found.substates == grammar.levels[2].size
    assert grammar.levels[0].size <= found.merged <= found.substates
    assert found.between <= found.productions
    if share == 0:
        assert found.merged == grammar.levels[0].size
        assert found.different == found.between == len(own[0])
    if share == 1:
        wanted = Distinct(len(ways), len(ways), found.substates, found.substates, len(ways))
        assert found == wanted


def test_a_substate_stays_where_it_makes_a_difference():
    _, grammar = learned("toy", "simple")
    parameters = parameterization(grammar, 2, "uniform", "all")
    level = grammar.levels[2]
    symbols = grammar.rules.unary
    (rule,) = np.flatnonzero((level.substates[symbols] > 1).all(axis=1))[:1]
    theta = np.zeros(parameters.n_parameters)
    whole = parameters.scale_parts(2, np.arange(parameters.of_scale(2, theta).size))
    parameters.of_scale(2, theta)[whole.unary[level.unary_offsets[rule]]] = 1.0
    found = distinct_productions(parameters, theta)
    # The first substates of both, their siblings, and of each ancestor those that it has besides.
    wanted = grammar.levels[0].size
    for symbol in set(symbols[rule].tolist()):
        own = level.ancestors[level.offsets[symbol] : level.offsets[symbol + 1]]
        wanted += int((own == own[0]).sum()) + len(np.unique(own[own != own[0]])) - 1
    assert found.merged == wanted


# --- the objective -------------------------------------------------------------------------------
def numpy_value_and_grad(likelihood, theta):
    """In float64, of the float32 weights; the tree's side from the forests' own trees."""
    parameters = likelihood.parameterization
    parts = parameters.weights(theta)
    weights = likelihood.weights_at(theta)
    mapped = likelihood._map
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


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("kind", KINDS)
def test_value_and_gradient_are_those_of_numpy(kind, base, number):
    likelihood = objective("toy", kind, number, base, l2=0.05)
    for seed in range(2):
        theta = theta_of(likelihood, seed)
        value, gradient = likelihood.value_and_grad(theta)
        wanted, wanted_gradient = numpy_value_and_grad(likelihood, theta)
        assert value == pytest.approx(wanted, rel=1e-5)
        np.testing.assert_allclose(gradient, wanted_gradient, rtol=1e-4, atol=1e-5)
        assert value > 0


@pytest.mark.parametrize("l2", [0.0, 0.5])
@pytest.mark.parametrize(
    ("kind", "number", "scales"),
    [*((kind, 1, "own") for kind in KINDS), *(("simple", number, "all") for number in (1, 2))],
)
@pytest.mark.parametrize("base", BASES)
def test_gradient_against_finite_differences(base, kind, number, scales, l2):
    likelihood = objective("short", kind, number, base, threshold=1e-3, l2=l2, scales=scales)
    parameters = likelihood.parameterization
    theta = theta_of(likelihood, noise=0.2 if scales == "all" else 0.3)
    _, gradient = likelihood.value_and_grad(theta)
    rng = np.random.default_rng(1)
    # Of each part or scale, and of all together: the step must be large for float32.
    directions = [rng.choice([-1.0, 1.0], size=len(theta)), gradient / np.abs(gradient).max()]
    bounds = parameters._scale_bounds if scales == "all" else parameters._bounds
    for begin, end in pairwise(bounds):
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


@pytest.mark.parametrize("kind", KINDS)
def test_the_tree_side(kind):
    """Scores and counts of the trees are those of the forest's own trees, and below log Z."""
    data, grammar = learned("toy", kind)
    for number in range(3):
        (forests,), terminals, weights = at_level(data, grammar, number, 1e-3)
        shard = GrammarShard(forests, terminals)
        value, counts = shard.expected_counts((grammar.levels[number], weights))
        own, trees = numpy_expected_counts(of(forests, weights), only_gold=True)
        np.testing.assert_allclose(shard.derivations.values, own, atol=1e-5)
        log_z, full = forests.expected_counts(weights)
        assert (shard.derivations.values <= log_z + 1e-5).all()
        assert value == pytest.approx((own - log_z).sum(), abs=1e-4)
        for found, mine, whole in zip(counts, trees, full, strict=True):
            np.testing.assert_allclose(found + whole, mine, atol=1e-5)
        assert not len(shard.lost)
        shard.close()


@pytest.mark.parametrize("base", BASES)
def test_only_the_trees_are_certain(base):
    """With all else pruned there is nothing to learn."""
    data, grammar = learned("short")
    (forests,), terminals = coarse(data, grammar, 2.0, 1.0)
    forests.prune(generative_weights(grammar, 0, terminals), 2.0, 1.0)
    forests.refine(grammar.levels[1])
    parameters = parameterization(grammar, 1, base)
    engine = ThreadEngine([GrammarShard(forests, terminals)])
    likelihood = GrammarLikelihood(parameters, grammar.lexicon, terminals, engine)
    value, gradient = likelihood.value_and_grad(theta_of(likelihood))
    assert value == pytest.approx(0, abs=1e-3)
    np.testing.assert_allclose(gradient, 0, atol=1e-4)


def test_pruning_more_makes_the_trees_likelier():
    theta = theta_of(objective("short", number=2))
    values = [
        objective("short", number=2, threshold=threshold).value_and_grad(theta)[0]
        for threshold in (1e-7, 1e-4, 1e-2, 0.5)
    ]
    assert (np.diff(values) < 1e-3).all()
    assert values[0] > values[-1] + 1


# --- shards --------------------------------------------------------------------------------------
@pytest.mark.parametrize("base", BASES)
def test_shards_agree(base):
    one = objective("short", number=1, base=base, l2=0.1)
    theta = theta_of(one)
    value, gradient = one.value_and_grad(theta)
    found = []
    for threads in (1, 2, 2):
        three = objective("short", number=1, base=base, l2=0.1, shards=3, threads=threads)
        assert len(three.engine.shards) == 3
        found.append(three.value_and_grad(theta))
        three.engine.close()
    for other, its in found:
        assert other == found[0][0]
        np.testing.assert_array_equal(its, found[0][1])
    assert found[0][0] == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(found[0][1], gradient, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scales", SCALES)
def test_batches_add_up(scales):
    likelihood = objective("short", "simple", 1, "uniform", l2=0.1, shards=5, scales=scales)
    theta = theta_of(likelihood)
    value, gradient = likelihood.value_and_grad(theta)
    parts = [batch(theta) for batch in likelihood.batches(likelihood.engine.shards)]
    assert len(parts) == 5
    assert sum(part for part, _ in parts) == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(sum(g for _, g in parts), gradient, rtol=1e-5, atol=1e-6)


def test_more_shards_than_sentences():
    one, many = objective("toy"), objective("toy", shards=12)
    theta = theta_of(one)
    for mine, its in zip(one.value_and_grad(theta), many.value_and_grad(theta), strict=True):
        np.testing.assert_allclose(its, mine, rtol=1e-4, atol=1e-4)


def test_no_sentences():
    data, grammar = learned("toy")
    parser = compile_grammar(grammar.truncated(1))
    forests = coarse_forests(data, GoldTrees(data), parser, grammar.lexicon, (), 0.0, 0.1)
    terminals = Terminals(np.empty(0, np.int32), np.empty(0, np.int32))
    forests.number_terminals(np.empty(0, np.int64))
    forests.refine(grammar.levels[1])
    engine = ThreadEngine([GrammarShard(forests, terminals)])
    parameters = parameterization(grammar, 1, "generative")
    likelihood = GrammarLikelihood(parameters, grammar.lexicon, terminals, engine, 0.5)
    theta = np.ones(parameters.n_parameters)
    value, gradient = likelihood.value_and_grad(theta)
    assert value == pytest.approx(0.25 * len(theta))
    np.testing.assert_allclose(gradient, 0.5 * theta)


# --- sentences that float32 loses ----------------------------------------------------------------
def test_a_sentence_lost_at_first_does_not_count():
    likelihood = objective("toy", l2=0.0, shards=2)
    shards = likelihood.engine.shards
    n = likelihood.parameterization.n_parameters
    theta = np.zeros(n)
    whole, _ = likelihood.value_and_grad(theta)
    arrays = shards[0].forests._arrays
    arrays["item_mask"][: arrays["cell_item"][arrays["sentence_cell"][1]]] = 0
    for shard in shards:
        shard.begin()
    value, gradient = likelihood.value_and_grad(theta)
    assert shards[0].lost.tolist() == [0]
    assert not len(shards[1].lost)
    assert 0 < value < whole
    assert np.isfinite(gradient).all()


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
    engine = ThreadEngine([GrammarShard(forests, terminals) for forests in made])
    other = GrammarLikelihood(likelihood.parameterization, grammar.lexicon, terminals, engine, 0.0)
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


def test_what_is_lost_stays_lost_at_the_next_level():
    likelihood, theta, lost = without_a_rule(shards=1)
    (shard,) = likelihood.engine.shards
    value, _ = likelihood.value_and_grad(theta)
    shard.begin()
    # Now it could be parsed.
    likelihood.value_and_grad(theta_of(likelihood))
    assert shard.lost.tolist() == [lost]
    assert likelihood.value_and_grad(theta)[0] == value


def test_a_sentence_lost_later_is_an_overflow():
    likelihood = objective("toy")
    theta = np.zeros(likelihood.parameterization.n_parameters)
    likelihood.value_and_grad(theta)
    value, _ = likelihood.value_and_grad(theta - 200)
    assert value == np.inf
    assert np.isfinite(likelihood.value_and_grad(theta)[0])
