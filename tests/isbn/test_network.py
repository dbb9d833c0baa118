"""The kernel of sigmoid belief networks against NumPy, finite differences and enumeration."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isbn.automaton import legal, replay
from isbn.networks import (
    Move,
    derivations,
    finite_differences,
    log_likelihoods,
    make_symbols,
    moves_of,
    random_problem,
    with_symbols,
)

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.isbn._network import Network
from spacy_structlearn.isbn.symbols import ATTACH, MODIFY, PROJECT, SHIFT


@st.composite
def problems(draw, sizes=(1, 2, 3, 4, 5, 8, 13), scales=(0.3, 1.0, 3.0), longest=25):
    n_labels = draw(st.sampled_from([0, 1, 2, 5]))
    symbols = make_symbols(
        n_labels,
        tuple(draw(st.lists(st.sampled_from([1, 2, 4, 9]), min_size=1, max_size=4))),
        draw(st.sampled_from([0, 1, 3])),
        draw(st.integers(1, 3)),
    )
    least = 1 if n_labels else 0
    lengths = draw(st.lists(st.integers(least, longest), min_size=1, max_size=3))
    return random_problem(
        draw(st.integers(0, 2**32 - 1)),
        symbols,
        lengths=lengths,
        size=draw(st.sampled_from(sizes)),
        mean_field=draw(st.booleans()),
        features="".join(sorted(draw(st.sets(st.sampled_from("abcd"))))),
        scale=draw(st.sampled_from(scales)),
    )


def check(problem, number, atol=1e-9):
    """Compare the log-likelihood of a derivation with NumPy."""
    network, moves = problem.network, moves_of(problem.derivations, number)
    expected = sum(network.log_probability(moves[:t], move) for t, move in enumerate(moves))
    derivation = problem.derivations.subset([number])
    (value,) = log_likelihoods(network.kernel(), problem.weights, derivation)
    if network.mean_field:
        atol *= 20  # where the bound is flat, means that are somewhat apart are as good
    assert value == pytest.approx(expected, rel=1e-9, abs=atol * (len(moves) + 1))


def check_gradient(value, gradient, problem, rtol=1e-8):
    """All parts of the weights, against differences of value(weights)."""
    expected = problem.parts(finite_differences(value, problem.weights))
    for name, part in problem.parts(gradient).items():
        atol = 1e-10 + rtol * np.abs(expected[name]).max()
        np.testing.assert_allclose(part, expected[name], rtol=0, atol=atol, err_msg=name)


# --- against NumPy -------------------------------------------------------------------------------
@settings(deadline=None, max_examples=30)
@given(problems(scales=(0.3, 1.0, 3.0, 8.0)))
def test_log_likelihood_is_numpy(problem):
    for number in range(len(problem.derivations)):
        check(problem, number)


@pytest.mark.parametrize("mean_field", [False, True])
@pytest.mark.parametrize(("size", "scale"), [(1, 0.5), (7, 0.5), (40, 0.5), (50, 16.0)])
def test_state_sizes(mean_field, size, scale):
    """Vectors of every length, blocks from one alternative to hundreds, and strong rows."""
    symbols = make_symbols(70, (300, 1, 2, *[9] * 12), 5, 3)
    lengths, given = (12,), {"size": size, "mean_field": mean_field, "scale": scale}
    check(random_problem(size, symbols, lengths=lengths, **given), 0)


@pytest.mark.parametrize("mean_field", [False, True])
def test_probabilities_of_all_derivations_sum_to_one(mean_field):
    """Those of up to two words, where a third one is improbable."""
    symbols = make_symbols(2, (1, 3))
    problem = random_problem(3, symbols, mean_field=mean_field)
    problem.parts(problem.weights)["output_bias"][:4] = -4.0, 0.0, 16.0, 4.0
    items = symbols.item_offsets.tolist()
    leaves = [(t, item, -1) for t in range(2) for item in range(items[t], items[t + 1])]
    choices = {SHIFT: [Move(SHIFT, -1, leaf) for leaf in leaves]}
    choices[PROJECT] = [Move(PROJECT, label) for label in range(2)]
    prefixes, complete = [()], []
    while prefixes:
        moves = prefixes.pop()
        allowed = np.flatnonzero(problem.network.legal(moves)).tolist()
        if not allowed:
            complete.append(moves)
        for move in allowed:
            if move != SHIFT or sum(made.move == SHIFT for made in moves) < 2:
                prefixes += [(*moves, choice) for choice in choices.get(move, [Move(move)])]
    every = derivations(complete)
    assert len(complete) > 1000
    total = np.exp(log_likelihoods(problem.network.kernel(), problem.weights, every)).sum()
    assert total == pytest.approx(1, abs=1e-5)


def test_sentences_in_any_order():
    problem = random_problem(5, lengths=(5, 1, 9, 14))
    network = problem.network.kernel()
    alone, total = np.empty(4), np.zeros(network.n_weights)
    numbers = np.array([3, 0, 3, 1, 2])
    for i in range(4):
        slope = np.zeros(network.n_weights)
        given = problem.weights, *problem.derivations.arrays, np.array([i]), slope
        alone[i] = network.log_likelihoods(*given).sum()
        total += (numbers == i).sum() * slope
    gradient = np.zeros(network.n_weights)
    given = problem.weights, *problem.derivations.arrays, numbers
    for more in ((), (gradient,)):
        found = network.log_likelihoods(*given, *more)
        np.testing.assert_allclose(found, alone[numbers], rtol=1e-14)
    np.testing.assert_allclose(gradient, total, rtol=1e-12, atol=1e-12)
    # The gradient is added to what is there, times the scale.
    network.log_likelihoods(*given, gradient, scale=-0.25)
    np.testing.assert_allclose(gradient, 0.75 * total, rtol=1e-12, atol=1e-12)


# --- gradients -----------------------------------------------------------------------------------
@settings(deadline=None, max_examples=10)
@given(problems(sizes=(1, 3, 5), scales=(0.3, 1.0, 2.0), longest=12))
def test_gradient(problem):
    value, gradient = problem.gradient()
    assert value == pytest.approx(problem.log_likelihood(), rel=1e-12, abs=1e-12)
    check_gradient(problem.log_likelihood, gradient, problem)


@pytest.mark.parametrize("mean_field", [False, True])
def test_gradient_of_many_rows(mean_field):
    """A row that no state reads has no gradient, all others have one."""
    symbols = make_symbols(12, (11, 1, 1, 1, 9), 3)
    problem = random_problem(11, symbols, mean_field=mean_field, lengths=(30,), size=3)
    _, gradient = problem.gradient()
    check_gradient(problem.log_likelihood, gradient, problem)
    given = problem.symbols, problem.derivations
    states = [replay(*given, i, problem.network.features) for i in range(len(given[1]))]
    read = {row for state in states for rows in state.rows for row in rows}
    inputs = problem.parts(gradient)["inputs"]
    np.testing.assert_array_equal(np.flatnonzero(inputs.any(axis=1)), sorted(read))


@pytest.mark.parametrize("mean_field", [False, True])
def test_gradient_of_saturated_states(mean_field):
    """Some means are at the limits whatever else is so: nothing flows through them."""
    problem = random_problem(12, mean_field=mean_field)
    weights = problem.parts(problem.weights)
    weights["bias"][:2] = 70.0, -70.0
    _, gradient = problem.gradient()
    check_gradient(problem.log_likelihood, gradient, problem)
    found = problem.parts(gradient)
    assert not found["bias"][:2].any()
    assert found["bias"][2:].all()
    assert not found["recurrent"][:, :2].any()
    assert found["recurrent"][:, 2:, 0].any()


# --- dropout -------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=4)
@given(problems(sizes=(3,), longest=8), st.integers(0, 2**64 - 1))
def test_gradient_with_dropout(problem, seed):
    _, gradient = problem.gradient(dropout=0.4, seed=seed)

    def value(weights):
        return problem.gradient(weights, dropout=0.4, seed=seed)[0]

    check_gradient(value, gradient, problem)


# --- what is not legal ---------------------------------------------------------------------------
def complete_after(problem, moves):
    """The problem with these moves, whatever they are, as its second sentence."""
    derivations = with_symbols(np.random.default_rng(1), problem.symbols, [[SHIFT, ATTACH], moves])
    return problem._replace(derivations=derivations)


def evaluate(problem, number):
    """Call the kernel for one sentence."""
    given = problem.weights, *problem.derivations.arrays, np.array([number])
    return problem.network.kernel().log_likelihoods(*given)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.data())
def test_illegal_moves(seed, max_projects, data):
    """The kernel finds legal what `legal` does, and says which move is not."""
    symbols = make_symbols(2, (2, 1), max_projects=max_projects)
    problem = random_problem(seed, symbols, lengths=(15,), size=2)
    moves = problem.derivations.moves.tolist()
    at = data.draw(st.integers(0, len(moves)))
    allowed = legal(symbols, moves[:at])
    for move in range(4):
        changed = complete_after(problem, [*moves[:at], move])
        is_whole = bool(allowed[move] and not legal(symbols, [*moves[:at], move]).any())
        # Legal but not the end: then what is wrong is that nothing follows.
        place = at + 1 if allowed[move] else at
        if is_whole:
            evaluate(changed, 1)
        else:
            with pytest.raises(StructlearnError, match=rf"SL642.* 1 .* move {place}\b"):
                evaluate(changed, 1)


def altered(problem, **arrays):
    """The problem with other arrays of its derivations."""
    return problem._replace(derivations=replace(problem.derivations, **arrays))


@pytest.mark.parametrize("n_words", [0, 2, 4])
def test_more_or_fewer_words_than_shifts(n_words):
    moves = [SHIFT, PROJECT, SHIFT, ATTACH, SHIFT, ATTACH, ATTACH]
    problem = complete_after(random_problem(0), moves)
    evaluate(problem, 1)
    names = ("tags", "items", "signatures")
    words = {name: np.resize(getattr(problem.derivations, name), 1 + n_words) for name in names}
    with pytest.raises(StructlearnError, match="SL642"):
        evaluate(altered(problem, word_offsets=np.array([0, 1, 1 + n_words]), **words), 1)
    # Projects need labels.
    with pytest.raises(StructlearnError, match=r"SL642.*move 1\b"):
        evaluate(altered(problem, labels=np.full(9, -1, dtype=np.int32)), 1)


def test_only_shifts_are_legal_in_sequences():
    problem = random_problem(0, make_symbols(0, (2, 3)), lengths=(3, 0))
    for move in (PROJECT, ATTACH, MODIFY):
        with pytest.raises(StructlearnError, match=r"SL642.*move 1\b"):
            evaluate(altered(problem, moves=np.array([SHIFT, move, SHIFT], dtype=np.int8)), 0)
    # An empty sequence is complete.
    assert evaluate(problem, 1) == [0.0]


# --- what does not fit ---------------------------------------------------------------------------
ARRAYS = ("offsets", "word_offsets", "moves", "labels", "tags", "items", "signatures")
LOW, HIGH = -(2**31), 2**31 - 1
BEYOND = {
    "offsets": (10**6, 2**62),
    "word_offsets": (10**6, -1),
    "moves": (4, -128),
    "labels": (3, -2, HIGH),
    "tags": (2, -1, LOW),
    "items": (5, -1, HIGH, 0),
    "signatures": (2, -2, HIGH),
}
WRONG = [(name, -1, value) for name in ARRAYS for value in BEYOND[name]]
WRONG += [(name, -2, value) for name in ARRAYS[:2] for value in (2**40, -1)]
WRONG += [(name, None, None) for name in ARRAYS]


@pytest.mark.parametrize(("name", "place", "value"), WRONG)
def test_out_of_range(name, place, value):
    """One value is out of range, or an array ends early."""
    problem = random_problem(0, make_symbols(3, (2, 3), 2), lengths=(9, 13))
    problem.derivations.tags[-1], problem.derivations.items[-1] = 1, 2
    evaluate(problem, 1)
    array = np.array(getattr(problem.derivations, name))
    if place is None:
        array = array[:-1].copy()
    else:
        array[place] = value
    with pytest.raises(StructlearnError, match="SL641"):
        evaluate(altered(problem, **{name: array}), 1)


def test_sentences_that_are_not_there():
    for number in (-1, 3, 2**62, -(2**62)):
        with pytest.raises(StructlearnError, match="SL641"):
            evaluate(random_problem(0), number)
    no_offsets = dict.fromkeys(ARRAYS[:2], np.empty(0, np.int64))
    with pytest.raises(StructlearnError, match="SL641"):
        evaluate(altered(random_problem(0), **no_offsets), 0)


def test_gradients_and_dropout_out_of_range():
    problem = random_problem(0)
    with pytest.raises(StructlearnError, match="SL641"):
        problem.gradient(problem.weights[:-1])
    given = problem.network.kernel(), problem.weights, problem.derivations
    for size in (0, len(problem.weights) - 1, len(problem.weights) + 1):
        with pytest.raises(StructlearnError, match="SL641"):
            log_likelihoods(*given, np.zeros(size))
    for dropout in (-0.1, 1.0, np.nan, np.inf):
        with pytest.raises(StructlearnError, match="SL641"):
            problem.gradient(dropout=dropout)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308, -1e308])
@pytest.mark.parametrize("mean_field", [False, True])
def test_weights_that_are_no_numbers_end(mean_field, bad):
    """In a value that is no number either, or in any; the search for means ends."""
    problem = random_problem(0, mean_field=mean_field)
    for weights in problem.parts(problem.weights).values():
        before = weights.flat[3]
        weights.flat[3] = bad
        value, _ = problem.gradient()
        assert not value > 0
        weights.flat[3] = before


# --- networks ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("state_size", value) for value in (0, -1, 10**6, 2**40)),
        ("n_labels", 2**31),
        ("item_offsets", [0, 2, 2**32 + 3]),
        ("n_signatures", 2**31),
        ("max_projects", 2**33),
    ],
)
def test_networks_that_cannot_be(name, value):
    good = {"state_size": 3, "n_labels": 2, "n_tags": 2, "item_offsets": [0, 2, 3]}
    Network(**good, max_projects=2)
    with pytest.raises(StructlearnError, match="SL640"):
        Network(**{"max_projects": 2} | good | {name: value})
