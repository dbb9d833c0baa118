"""The kernel of conditional training against NumPy and against enumeration, on random forests."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from numpy_forest import (
    FORMS,
    derivations,
    numpy_expected_counts,
    numpy_scores,
    random_problem,
)

from spacy_structlearn.grammar.discriminative import _forest
from spacy_structlearn.grammar.discriminative.forests import ForestCounts

LENGTHS = (1, 4, 2, 1, 3)
WIDTHS = ((1,), (2,), (1, 3), (2, 4), (3, 8), (1, 16, 17))


def expected_counts(problem, begin=0, end=None, left_out=()):
    """log Z and counts."""
    forests = problem.kernel()
    w = problem.weights
    parts = w.binary, w.unary, w.root, w.terminal
    sums = tuple(np.zeros(len(part), dtype=np.float32) for part in parts)
    log_z = np.full(forests.n_sentences, np.nan)
    end = forests.n_sentences if end is None else end
    skip = np.zeros(forests.n_sentences, dtype=np.uint8)
    skip[list(left_out)] = 1
    _forest.expected_counts(forests, _forest.Workspace(), begin, end, tuple(w), skip, sums, log_z)
    return log_z, ForestCounts(*sums)


def scores(problem, sentence):
    return _forest.scores(problem.kernel(), _forest.Workspace(), sentence, tuple(problem.weights))


def check(problem, rtol=1e-4):
    """All that the kernel finds. RETURNS: how many sentences have a derivation."""
    forests, workspace = problem.kernel(), _forest.Workspace()
    a = problem.arrays
    wanted_z, wanted = numpy_expected_counts(problem)
    log_z, counts = expected_counts(problem)
    np.testing.assert_array_equal(np.isfinite(log_z), np.isfinite(wanted_z))
    np.testing.assert_allclose(log_z, wanted_z, atol=1e-5, rtol=1e-6)
    for name, found in counts._asdict().items():
        np.testing.assert_allclose(found, getattr(wanted, name), rtol=rtol, atol=1e-6, err_msg=name)
    for s in range(forests.n_sentences):
        found = _forest.scores(forests, workspace, s, tuple(problem.weights))
        reference = numpy_scores(problem, s)
        assert (found is None) == (reference is None)
        if found is None:
            continue
        z, offsets, inside0, inside1, outside0, outside1, edges, unaries = found
        assert z == log_z[s]
        first, last = a["sentence_cell"][s : s + 2]
        items = range(a["cell_item"][first], a["cell_item"][last])
        assert len(offsets) == len(items) + 1
        for x, item in enumerate(items):
            part = slice(*offsets[x : x + 2])
            for inside, outside, values in (
                (inside0, outside0, reference.lower),
                (inside1, outside1, reference.upper),
            ):
                own = inside[part] * outside[part]
                np.testing.assert_allclose(own, values[item], rtol=rtol, atol=1e-6)
                assert not inside[part].any() or 1 <= inside[part].max() < 2
        groups = a["cell_group"][first], a["cell_group"][last]
        part = slice(*a["group_edge"][list(groups)])
        np.testing.assert_allclose(edges, reference.edges[part], rtol=rtol, atol=1e-6)
        part = slice(a["cell_unary"][first], a["cell_unary"][last])
        np.testing.assert_allclose(unaries, reference.unaries[part], rtol=rtol, atol=1e-6)
    return int(np.isfinite(log_z).sum())


@pytest.mark.parametrize("seed", range(4))
def test_numpy_is_enumeration(seed):
    """What the kernel is compared with is right."""
    problem = random_problem(seed, (3, 1, 2), (1, 2), density=0.6, empty=0.1)
    w = problem.weights
    for s in range(3):
        z = 0.0
        q, edges = defaultdict(float), defaultdict(float)
        for weight, parts in derivations(problem, s):
            z += weight
            for kind, place in parts:
                (edges if kind.endswith("edge") else q)[kind, place] += weight
        found = numpy_scores(problem, s)
        assert (found is None) == (z == 0)
        if found is None:
            continue
        assert found.log_z == pytest.approx(np.log(z), abs=1e-9)
        for name, values in found.counts._asdict().items():
            assert len(values) == len(getattr(w, name))
            wanted = np.zeros(len(values))
            for (kind, place), weight in q.items():
                if kind == name:
                    wanted[place] = weight / z
            np.testing.assert_allclose(values, wanted, atol=1e-12)
        for name, values in (("edge", found.edges), ("unary edge", found.unaries)):
            wanted = [edges[name, x] / z for x in range(len(values))]
            np.testing.assert_allclose(values, wanted, atol=1e-12)


@pytest.mark.parametrize("widths", WIDTHS, ids=str)
def test_scores_and_counts(widths):
    found = sum(check(random_problem(seed, LENGTHS, widths)) for seed in range(2))
    assert found >= 4


@pytest.mark.parametrize("density", [0.4, 1.0])
@pytest.mark.parametrize("zeros", [0.0, 0.8])
def test_zero_weights_and_sparse_forests(density, zeros):
    for seed in range(3):
        check(random_problem(seed, LENGTHS, (1, 2, 5), density=density, zeros=zeros, empty=0.1))


def test_all_64_substates():
    assert check(random_problem(1, (1, 3), (1, 64)), rtol=1e-3)


def test_sentences_that_are_left_out():
    """They are passed by, and so is their place in log Z."""
    problem = random_problem(0, LENGTHS, (2, 3), zeros=0.0, density=1.0)
    wanted, _ = expected_counts(problem)
    log_z, counts = expected_counts(problem, left_out=(0, 3))
    assert np.isnan(log_z[[0, 3]]).all()
    np.testing.assert_array_equal(log_z[[1, 2, 4]], wanted[[1, 2, 4]])
    parts = [expected_counts(problem, s, s + 1)[1] for s in (1, 2, 4)]
    for name, whole in counts._asdict().items():
        total = sum(getattr(part, name) for part in parts)
        np.testing.assert_allclose(whole, total, rtol=1e-5, atol=1e-7)


def test_no_sentences():
    problem = random_problem(0, (), (2,))
    log_z, counts = expected_counts(problem)
    assert log_z.shape == (0,)
    assert not any(part.any() for part in counts)
    assert (
        _forest.prune(problem.kernel(), _forest.Workspace(), tuple(problem.weights), 1, 1)
        == (0,) * 6
    )


# --- weights of any size -------------------------------------------------------------------------
def scaled(problem, factors):
    """The problem with the weights of each terminal times a factor, float32."""
    w = problem.weights
    each = np.repeat(factors, np.diff(w.terminal_offsets)).astype(np.float32)
    return problem._replace(weights=w._replace(terminal=w.terminal * each))


@pytest.mark.parametrize("factor", [1e30, 1e-30])
def test_all_terminals_scaled(factor):
    """Posteriors stay, and log Z has the factor once for each word."""
    problem = random_problem(3, LENGTHS, (1, 2, 4), zeros=0.0, density=1.0)
    log_z, counts = expected_counts(problem)
    other_z, others = expected_counts(scaled(problem, np.full(3 * FORMS, factor)))
    np.testing.assert_allclose(other_z, log_z + np.log(factor) * np.array(LENGTHS), rtol=1e-6)
    for mine, its in zip(counts, others, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("factor", [1e30, 1e-30])
@pytest.mark.parametrize("kind", ["terminal", "binary", "unary", "root"])
def test_one_production_scaled(kind, factor):
    """log Z is that of NumPy, though one item lies far from others of its cell."""
    problem = random_problem(4, (4, 1, 3), (1, 2, 3), zeros=0.0, density=1.0)
    offsets = getattr(problem.weights, kind + "_offsets")
    for rule in range(min(3, len(offsets) - 1)):
        values = getattr(problem.weights, kind).copy()
        values[offsets[rule] : offsets[rule + 1]] *= np.float32(factor)
        other = problem._replace(weights=problem.weights._replace(**{kind: values}))
        wanted, wanted_counts = numpy_expected_counts(other)
        found, counts = expected_counts(other)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-5)
        for mine, its in zip(counts, wanted_counts, strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-4, atol=1e-5)


def spread_out(seed, low, high):
    """Every weight is a power of ten between these."""
    problem = random_problem(seed, (4, 5, 3), (1, 2, 3), zeros=0.0)
    rng = np.random.default_rng(seed)
    w = problem.weights
    parts = {
        name: (10.0 ** rng.uniform(low, high, len(getattr(w, name)))).astype(np.float32)
        for name in ForestCounts._fields
    }
    return problem._replace(weights=w._replace(**parts))


@pytest.mark.parametrize("low", [-16, -8, 0])
def test_weights_far_apart(low):
    """Counts do not suffer, though weights differ by 1e16."""
    for seed in range(3):
        problem = spread_out(seed, low, low + 16)
        wanted_z, wanted = numpy_expected_counts(problem)
        log_z, counts = expected_counts(problem)
        np.testing.assert_allclose(log_z, wanted_z, rtol=1e-5, atol=1e-4)
        for name, found in counts._asdict().items():
            np.testing.assert_allclose(found, getattr(wanted, name), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("value", [np.inf, np.nan, 3e38])
def test_overflow_is_no_derivation(value):
    """And no crash."""
    problem = random_problem(6, (4, 1), (2, 3), zeros=0.0, density=1.0)
    w = problem.weights
    for name in ("binary", "unary", "root", "terminal"):
        array = np.full_like(getattr(w, name), value)
        other = problem._replace(weights=w._replace(**{name: array}))
        log_z, _ = expected_counts(other)
        assert not np.isnan(log_z).any()
        if not np.isfinite(value):
            assert log_z[0] == -np.inf


# --- pruning -------------------------------------------------------------------------------------
def test_a_threshold_of_zero_leaves_all():
    problem = random_problem(8, LENGTHS, (1, 3), zeros=0.0, density=1.0)
    before = {name: array.copy() for name, array in problem.arrays.items()}
    lengths = _forest.prune(problem.kernel(), _forest.Workspace(), tuple(problem.weights), 0, 0)
    names = ("cell_item", "item_mask", "group_rule", "edge_left", "unary_rule", "root_rule")
    sizes = [len(before[name]) - (name == "cell_item") for name in names]
    assert list(lengths) == sizes
    for name, array in problem.arrays.items():
        np.testing.assert_array_equal(array, before[name])


# --- arrays that do not fit ----------------------------------------------------------------------
def fine():
    return random_problem(9, (3, 1, 4), (2,), zeros=0.0, density=1.0)


def with_array(problem, name, place, value):
    problem.arrays[name][place] = value
    return problem


def cut(problem, name):
    arrays = {**problem.arrays, name: problem.arrays[name][:-1].copy()}
    return problem._replace(arrays=arrays)


def swap_kinds(problem):
    """A tag without a place of its weights."""
    tags = np.flatnonzero(problem.arrays["item_terminal"] >= 0)
    return with_array(problem, "item_terminal", tags[-1], -1)


def other_sentence(problem, name):
    """Something of one sentence made of what is another one's."""
    a = problem.arrays
    symbol = a["item_symbol"][a[name][-1]]
    return with_array(problem, name, -1, np.flatnonzero(a["item_symbol"] == symbol)[0])


def own_cell(problem):
    """An edge to the cell of its parent."""
    a = problem.arrays
    parent = a["group_parent"][-1]
    problem.rules.binary[a["group_rule"][-1], 1] = a["item_symbol"][parent]
    a["edge_left"][a["group_edge"][-2] :] = parent
    return problem


def other_rules(problem, name, value=None):
    """The last rule has another symbol; None: one fewer."""
    array = getattr(problem.rules, name).copy()
    if value is None:
        array = np.ascontiguousarray(array[:, :-1])
    else:
        array.reshape(-1)[-1] = value
    return problem._replace(rules=replace(problem.rules, **{name: array}))


STARTS = ("sentence_cell", "cell_item", "cell_group", "cell_unary", "group_edge", "sentence_root")
ITEMS = ("group_parent", "edge_left", "edge_right", "unary_parent", "unary_child", "root_item")
BAD = [
    *((with_array, name, place, value) for name in STARTS for place, value in ((0, 1), (-1, 9999))),
    *((with_array, name, 1, 9999) for name in STARTS[:3]),
    *((with_array, name, 1, -1) for name in STARTS[3:]),
    *((with_array, "item_symbol", -1, value) for value in (-1, 6, 0)),
    *((with_array, "item_terminal", place, value) for place, value in ((-1, 0), (0, -1))),
    *((with_array, name, -1, value) for name in ITEMS for value in (-1, 0, 100_000)),
    *(
        (with_array, name, -1, value)
        for name in ("group_rule", "unary_rule", "root_rule")
        for value in (-1, 0, 1000)
    ),
    *((cut, name) for name in fine().arrays),
    *((other_rules, name, value) for name in ("binary", "unary", "root") for value in (-1, 6)),
    *((other_rules, name) for name in ("binary", "unary")),
    *((other_sentence, name) for name in ("edge_left", "edge_right", "unary_child", "root_item")),
    (swap_kinds,),
    (own_cell,),
]
NONE_LEFT_OUT = np.zeros(3, dtype=np.uint8)


@pytest.mark.parametrize("change", BAD, ids=lambda change: f"{change[0].__name__}{change[1:]}")
def test_bad_arrays(change):
    problem = change[0](fine(), *change[1:])
    with pytest.raises(ValueError):  # noqa: PT011
        problem.kernel()


@pytest.mark.parametrize("name", sorted(fine().arrays))
def test_arrays_of_another_kind(name):
    array = fine().arrays[name]
    frozen = array.copy()
    frozen.flags.writeable = False
    spread = np.repeat(array, 2)[::2]
    for bad in (array.astype(np.int64), array.reshape(1, -1), spread, frozen):
        problem = fine()._replace(arrays={**fine().arrays, name: bad})
        with pytest.raises(ValueError, match=r"contiguous|mismatch|read-only"):
            problem.kernel()


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w._replace(substates=w.substates[:-1]),
        lambda w: w._replace(substates=0 * w.substates),
        lambda w: w._replace(substates=w.substates + 63),
        lambda w: w._replace(substates=w.substates + 1),
        lambda w: w._replace(binary=w.binary[:-1]),
        lambda w: w._replace(unary=w.unary[:-1]),
        lambda w: w._replace(root=w.root[:-1]),
        lambda w: w._replace(terminal=w.terminal[:-1]),
        lambda w: w._replace(binary_offsets=w.binary_offsets[:-1]),
        lambda w: w._replace(unary_offsets=w.unary_offsets[:-1]),
        lambda w: w._replace(root_offsets=w.root_offsets[:-1]),
        lambda w: w._replace(binary_offsets=w.binary_offsets[::-1].copy()),
        lambda w: w._replace(unary_offsets=w.unary_offsets - 1),
        lambda w: w._replace(root_offsets=w.root_offsets + 1),
        lambda w: w._replace(terminal_offsets=w.terminal_offsets - 1),
        lambda w: w._replace(
            terminal=w.terminal[: w.terminal_offsets[1]], terminal_offsets=w.terminal_offsets[:2]
        ),
        lambda w: w._replace(binary=w.binary.astype(float)),
    ],
)
def test_bad_weights(change):
    problem = fine()
    forests, weights = problem.kernel(), change(problem.weights)
    sums = tuple(np.zeros_like(weights[i], dtype=np.float32) for i in (1, 3, 5, 7))
    with pytest.raises(ValueError):  # noqa: PT011
        _forest.expected_counts(
            forests,
            _forest.Workspace(),
            0,
            3,
            tuple(weights),
            NONE_LEFT_OUT,
            sums,
            np.empty(3),
        )
    for s in range(3):
        with pytest.raises(ValueError):  # noqa: PT011
            _forest.scores(forests, _forest.Workspace(), s, tuple(weights))
    with pytest.raises(ValueError):  # noqa: PT011
        _forest.prune(forests, _forest.Workspace(), tuple(weights), 0.1, 0.1)


def test_a_mask_of_more_substates_than_there_are():
    problem = fine()
    problem.arrays["item_mask"][-1] = 0b100
    with pytest.raises(ValueError, match="mask"):
        expected_counts(problem)
    with pytest.raises(ValueError, match="mask"):
        scores(problem, 2)
    assert scores(problem, 0) is not None


def test_bad_results():
    problem = fine()
    w = problem.weights
    parts = w.binary, w.unary, w.root, w.terminal
    good = [np.zeros(len(part), dtype=np.float32) for part in parts]
    forests = problem.kernel()

    def evaluate(begin=0, end=3, left_out=NONE_LEFT_OUT, sums=tuple(good), n=3):
        workspace = _forest.Workspace()
        _forest.expected_counts(
            forests, workspace, begin, end, tuple(w), left_out, sums, np.empty(n)
        )

    for bad in range(4):
        sums = tuple(part[:-1] if i == bad else part for i, part in enumerate(good))
        with pytest.raises(ValueError, match="size"):
            evaluate(sums=sums)
    for begin, end in ((-1, 3), (0, 4), (2, 1)):
        with pytest.raises(ValueError, match="no such"):
            evaluate(begin, end)
    for bad in ({"n": 2}, {"left_out": NONE_LEFT_OUT[:2]}, {"left_out": np.zeros(4, np.uint8)}):
        with pytest.raises(ValueError, match="size"):
            evaluate(**bad)
    for s in (-1, 3):
        with pytest.raises(ValueError, match="no such sentence"):
            _forest.scores(forests, _forest.Workspace(), s, tuple(w))
