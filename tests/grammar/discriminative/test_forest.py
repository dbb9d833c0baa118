"""The kernel of conditional training against NumPy and against enumeration, on random forests."""

from itertools import product

import numpy as np
import pytest
from grammar.numpy_forest import OFFSETS, Arrays, numpy_expected_counts, random_problem

from spacy_structlearn.grammar.discriminative import _forest
from spacy_structlearn.grammar.latent.em import ProductionCounts

LENGTHS = (1, 4, 2, 1, 3)
KEPT = ("edge_left", "unary_rule", "root_rule")
WIDTHS = ((1,), (2,), (1, 3), (2, 4), (3, 8), (1, 16, 17))


def expected_counts(problem, begin=0, end=None, left_out=()):
    """log Z and counts."""
    forests = problem.kernel()
    w = problem.weights
    parts = w.binary, w.unary, w.root, w.lexical
    sums = tuple(np.zeros(len(part), dtype=np.float32) for part in parts)
    log_z = np.full(forests.n_sentences, np.nan)
    end = forests.n_sentences if end is None else end
    skip = np.zeros(forests.n_sentences, dtype=np.uint8)
    skip[list(left_out)] = 1
    _forest.expected_counts(forests, _forest.Scratch(), begin, end, tuple(w), skip, sums, log_z)
    return log_z, ProductionCounts(*sums)


def check(problem, rtol=1e-4):
    """Compare log Z and counts with NumPy. Returns how many sentences have a derivation."""
    wanted_z, wanted = numpy_expected_counts(problem)
    log_z, counts = expected_counts(problem)
    np.testing.assert_array_equal(np.isfinite(log_z), np.isfinite(wanted_z))
    np.testing.assert_allclose(log_z, wanted_z, atol=1e-5, rtol=1e-6)
    for name, values in counts._asdict().items():
        np.testing.assert_allclose(
            values, getattr(wanted, name), rtol=rtol, atol=1e-6, err_msg=name
        )
    return int(np.isfinite(log_z).sum())


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
    kept = _forest.prune(problem.kernel(), _forest.Scratch(), tuple(problem.weights), 1, 1)
    assert [len(marks) for marks in kept] == [0, 0, 0]


# --- weights of any size -------------------------------------------------------------------------
def spread_out(seed, low, high):
    """Every weight is a power of ten between these."""
    problem = random_problem(seed, (4, 5, 3), (1, 2, 3), zeros=0.0)
    rng = np.random.default_rng(seed)
    w = problem.weights
    parts = {
        name: (10.0 ** rng.uniform(low, high, len(getattr(w, name)))).astype(np.float32)
        for name in Arrays._fields[1::2]
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
    for name in ("binary", "unary", "root", "lexical"):
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
    kept = _forest.prune(problem.kernel(), _forest.Scratch(), tuple(problem.weights), 0, 0)
    assert [len(marks) for marks in kept] == [len(before[name]) for name in KEPT]
    assert all(marks.all() for marks in kept)
    for name, array in problem.arrays.items():
        np.testing.assert_array_equal(array, before[name])


# --- arrays that do not fit ----------------------------------------------------------------------
def fine():
    return random_problem(9, (3, 1, 4), (2,), zeros=0.0, density=1.0)


def own_cell(problem):
    """Make an edge to the cell of its parent."""
    a = problem.arrays
    parent = a["group_parent"][-1]
    problem.rules.binary[a["group_rule"][-1], 1] = a["item_symbol"][parent]
    a["edge_left"][a["group_edge"][-2] :] = parent


def other_sentence(problem):
    """Make an edge to an item of another sentence."""
    a = problem.arrays
    symbol = a["item_symbol"][a["edge_left"][-1]]
    a["edge_left"][-1] = np.flatnonzero(a["item_symbol"] == symbol)[0]


@pytest.mark.parametrize("change", [own_cell, other_sentence])
def test_edges_to_the_wrong_cell(change):
    problem = fine()
    change(problem)
    with pytest.raises(ValueError, match="edge"):
        problem.kernel()


@pytest.mark.parametrize("name", sorted(fine().arrays))
def test_arrays_that_do_not_fit(name):
    good = fine().arrays[name]
    frozen = good.copy()
    frozen.flags.writeable = False
    wrong = [good[:-1].copy(), good.astype(np.int64), good[None], np.repeat(good, 2)[::2], frozen]
    if not name.startswith(("gold", "item_mask")):
        places = (0, -1) if name in OFFSETS else (-1,)
        # The last item is no tag, and has no weights of words.
        for place, value in product(places, (0, 1) if name == "item_terminal" else (-2, 9999)):
            wrong.append(good.copy())
            wrong[-1][place] = value
    for array in wrong:
        problem = fine()._replace(arrays={**fine().arrays, name: array})
        with pytest.raises(ValueError, match=r"."):
            problem.kernel()


@pytest.mark.parametrize("name", ["binary", "unary", "root"])
def test_rules_of_unknown_symbols(name):
    problem = fine()
    getattr(problem.rules, name).reshape(-1)[-1] = 6
    with pytest.raises(ValueError, match="unknown symbol"):
        problem.kernel()


@pytest.mark.parametrize("name", Arrays._fields)
def test_weights_that_do_not_fit(name):
    problem = fine()
    good = getattr(problem.weights, name)
    wrong = [good[:-1].copy(), good.astype(float)]
    wrong += [good * 0, good + 1, good + 63] if good.dtype != np.float32 else []
    w = problem.weights
    sums = tuple(np.zeros_like(part) for part in (w.binary, w.unary, w.root, w.lexical))
    skip, log_z = np.zeros(3, np.uint8), np.empty(3)
    forests, workspace = problem.kernel(), _forest.Scratch()
    for array in wrong:
        weights = tuple(w._replace(**{name: array}))
        with pytest.raises(ValueError, match=r"."):
            _forest.expected_counts(forests, workspace, 0, 3, weights, skip, sums, log_z)
        with pytest.raises(ValueError, match=r"."):
            _forest.prune(forests, workspace, weights, 0.1, 0.1)


def test_a_mask_of_more_substates_than_there_are():
    problem = fine()
    problem.arrays["item_mask"][-1] = 0b100
    with pytest.raises(ValueError, match="mask"):
        expected_counts(problem, 2)
    assert np.isfinite(expected_counts(problem, 0, 1)[0][0])
