"""The kernel of the search: against a plain search, enumeration and the likelihoods of training."""

import numpy as np
import pytest
from automaton import decode, legal
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import (
    log_likelihoods,
    make_symbols,
    network_of,
    random_moves,
    shapes,
    turns_of,
    with_symbols,
)
from searches import (
    Move,
    Network,
    derivations,
    enumerate_all,
    search,
    sentence,
    symbols,
    synchronous_search,
    weights_of,
)

from spacy_structlearn.isbn import _search
from spacy_structlearn.isbn.derivation import ATTACH, MODIFY, SHIFT, DerivationSymbols

WIDE = 1_000_000
PLAIN = {False: search, True: synchronous_search}


def kernel_of(network):
    return network_of(network.symbols, network.size, network.mean_field, network.features)


def searcher(network):
    return _search.Searcher(kernel_of(network), network.weights)


def moves_of(found, words):
    """The derivations that the kernel found, as the plain search has them."""
    _, moves, labels, begins, candidates, *_ = found
    sequences = []
    for i, own in enumerate(candidates):
        sequence, chosen = [], iter(own.tolist())
        for t in range(begins[i], begins[i + 1]):
            move = Move(int(moves[t]), int(labels[t]))
            if move.move == SHIFT:
                c = next(chosen)
                columns = (words.tags, words.items, words.signatures)
                move = move._replace(leaf=tuple(int(x[c]) for x in columns), candidate=c)
            sequence.append(move)
        assert next(chosen, None) is None
        sequences.append(tuple(sequence))
    return sequences


def run(network, words, beam, branching, k, max_pops=WIDE, margin=np.inf, synchronous=False):
    """(scores, derivations, the rest) by the kernel."""
    room = _search.Workspace()
    found = searcher(network).search(
        *words, beam, branching, k, max_pops, margin, room, synchronous
    )
    return found[0], moves_of(found, words), found[5:]


def likelihoods(network, words, sequences):
    """What each derivation scores by the kernel of training."""
    out = log_likelihoods(kernel_of(network), network.weights, derivations(sequences))
    chosen = [[move.candidate for move in moves if move.move == SHIFT] for moves in sequences]
    return out + words.bonus[np.array(chosen, dtype=np.int64)].sum(axis=1)


@st.composite
def problems(draw, longest=4, most_labels=5):
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    own = symbols(
        n_labels=draw(st.integers(0, most_labels)),
        n_tags=draw(st.integers(1, 3)),
        n_signatures=draw(st.sampled_from([0, 2])),
        max_projects=draw(st.integers(1, 3)),
        seed=seed,
    )
    size = draw(st.integers(1, 6))
    features = "".join(sorted(draw(st.sets(st.sampled_from("abcd")))))
    weights = weights_of(own, size, rng, draw(st.sampled_from([0.3, 0.8, 2.0])))
    network = Network(own, size, weights, draw(st.booleans()), features)
    return network, sentence(own, draw(st.integers(1, longest)), rng)


# --- against the plain search --------------------------------------------------------------------
@settings(max_examples=25, deadline=None)
@given(
    problems(),
    st.integers(1, 5),
    st.integers(1, 7),
    st.integers(0, 7),
    st.sampled_from([1, 3, 8, 20, 4096]),
    st.sampled_from([0.0, 1.0, 3.0, np.inf]),
    st.booleans(),
)
def test_same_as_the_plain_search(problem, beam, branching, k, max_pops, margin, synchronous):
    network, words = problem
    plain = PLAIN[synchronous]
    wanted, n_states = plain(network, words, beam, branching, k, max_pops, margin)
    scores, found, (is_fallback, n_nodes, n_capped) = run(
        network, words, beam, branching, k, max_pops, margin, synchronous
    )
    assert n_nodes == n_states
    assert max_pops < WIDE or not n_capped
    if is_fallback:
        assert not wanted
        assert len(found) == 1
        np.testing.assert_allclose(scores, likelihoods(network, words, found), atol=1e-8)
    else:
        assert found == [moves for _, moves in wanted]
        np.testing.assert_allclose(scores, [score for score, _ in wanted], atol=1e-8)


@pytest.mark.parametrize("mean_field", [False, True])
@pytest.mark.parametrize(
    ("n_labels", "max_projects", "n_words"), [(0, 0, 4), (1, 1, 2), (3, 2, 1), (2, 1, 1)]
)
def test_a_wide_beam_finds_all_there_is(n_labels, max_projects, n_words, mean_field):
    rng = np.random.default_rng(n_labels)
    own = symbols(n_labels, n_tags=2, max_projects=max_projects, seed=n_labels)
    network = Network(own, 4, weights_of(own, 4, rng), mean_field)
    words = sentence(own, n_words, rng, most=2)
    wanted = enumerate_all(network, words)
    assert len(wanted) > 1
    k = len(wanted)
    for synchronous in (False, True):
        scores, found, (is_fallback, *_) = run(network, words, k, k, k, synchronous=synchronous)
        assert not is_fallback
        assert found == [moves for _, moves in wanted]
        np.testing.assert_allclose(scores, [score for score, _ in wanted], atol=1e-8)


@pytest.mark.parametrize("synchronous", [False, True])
@pytest.mark.parametrize("mean_field", [False, True])
def test_scores_are_those_of_training(mean_field, synchronous):
    """On a network as large as real ones, with blocks that are no multiple of the lanes."""
    rng = np.random.default_rng(3)
    own = make_symbols(7, (1, 2, 37, 6, 11, 80), n_signatures=5, max_projects=3)
    network = Network(own, 41, weights_of(own, 41, rng, 0.2), mean_field)
    words = sentence(own, 12, rng)
    scores, found, (is_fallback, *_) = run(network, words, 10, 10, 30, synchronous=synchronous)
    assert len(found) == 30
    assert not is_fallback
    assert len(set(found)) == 30
    assert (np.diff(scores) <= 0).all()
    np.testing.assert_allclose(scores, likelihoods(network, words, found), atol=1e-8)


# --- limits --------------------------------------------------------------------------------------
@pytest.mark.parametrize("synchronous", [False, True])
@pytest.mark.parametrize("mean_field", [False, True])
def test_what_is_not_finished_is_put_together(mean_field, synchronous):
    """Projecting is nearly certain, and there may be many in a row."""
    rng = np.random.default_rng(0)
    own = make_symbols(2, (2, 3), max_projects=1000)
    network = Network(own, 3, weights_of(own, 3, rng, 0.3), mean_field)
    network.parts["output_bias"][:4] = 0.0, 30.0, -30.0, -10.0
    words = sentence(own, 5, rng)
    scores, (moves,), (is_fallback, n_states, n_capped) = run(
        network, words, 3, 10, 3, 40, synchronous=synchronous
    )
    assert is_fallback
    assert n_capped == 5  # only before the first word there is nothing to project
    assert n_states < 6 * 60
    np.testing.assert_allclose(scores, likelihoods(network, words, [moves]), atol=1e-8)
    # Modifying is more likely than attaching, and there are so many left.
    last = [move.move for move in moves][-5:]
    assert last == [SHIFT, MODIFY, MODIFY, MODIFY, ATTACH] or last[1:] == [MODIFY] * 3 + [ATTACH]
    assert not legal(own, [move.move for move in moves]).any()


def test_long_sentences_in_the_room_of_others():
    """Nodes are used again, and so is the room of a smaller or larger network."""
    room = _search.Workspace()
    for seed, (size, mean_field, n_words) in enumerate(
        [(4, False, 3), (40, True, 2), (3, True, 100), (3, False, 200)]
    ):
        rng = np.random.default_rng(seed)
        own = symbols(5, n_signatures=seed % 3, seed=seed)
        network = Network(own, size, weights_of(own, size, rng), mean_field)
        words = sentence(own, n_words, rng)
        kernel = searcher(network)
        given = *words, 5, 10, 5, 250, 12.0
        found, fresh = kernel.search(*given, room), kernel.search(*given, _search.Workspace())
        for mine, other in zip(found, fresh, strict=True):
            np.testing.assert_array_equal(mine, other)
        sequences = moves_of(found, words)
        assert all(sum(m.move == SHIFT for m in moves) == n_words for moves in sequences)
        np.testing.assert_allclose(found[0], likelihoods(network, words, sequences), rtol=1e-9)


@pytest.mark.parametrize("synchronous", [False, True])
def test_other_threads_go_on(synchronous):
    rng = np.random.default_rng(2)
    own = symbols(5, seed=2)
    network = Network(own, 40, weights_of(own, 40, rng, 0.3), mean_field=True)
    given = *sentence(own, 200, rng), 10, 10, 10, 500, 12.0, _search.Workspace(), synchronous
    assert turns_of(searcher(network).search, *given) > 10


@pytest.mark.parametrize(
    "wrong",
    [
        {"tags": 3},
        {"tags": -1},
        {"items": 100},
        {"signatures": 2},
        {"signatures": -2},
        {"bonus": 0.5},
        {"bonus": np.nan},
        {"bonus": -np.inf},
        {"offsets": 7},
        {"beam": 0},
        {"branching": 0},
        {"k": -1},
        {"max_pops": 0},
        {"margin": np.nan},
    ],
)
def test_what_does_not_fit_together(wrong):
    rng = np.random.default_rng(5)
    own = symbols(3, n_tags=3, n_signatures=2)
    network = Network(own, 2, weights_of(own, 2, rng))
    given = sentence(own, 4, rng)._asdict()
    given |= {"beam": 2, "branching": 2, "k": 2, "max_pops": 100, "margin": 12.0}
    kernel, room = searcher(network), _search.Workspace()
    assert len(kernel.search(**given, workspace=room)[0])
    for name, value in wrong.items():
        if isinstance(given[name], np.ndarray):
            given[name] = given[name].copy()
            given[name][1] = value
        else:
            given[name] = value
    with pytest.raises(ValueError, match="must"):
        kernel.search(**given, workspace=room)


def test_sentences_and_networks_that_are_none():
    own = symbols(3)
    network = Network(own, 2, np.zeros(sum(map(np.prod, shapes(own, 2).values()))))
    nothing = sentence(own, 1, np.random.default_rng(0))
    nothing = nothing._replace(offsets=np.zeros(1, np.int64))
    empty = [x[:0] for x in nothing[1:]]
    with pytest.raises(ValueError, match="must have candidates"):
        searcher(network).search(nothing.offsets, *empty, 1, 1, 1, 1, 0.0, _search.Workspace())
    with pytest.raises(ValueError, match="weights"):
        _search.Searcher(kernel_of(network), network.weights[1:])


# --- brackets ------------------------------------------------------------------------------------
# Chains of all lengths, one of them with the root's name in it.
LABELS = ("A", "B", "TOP")
CHAINS = sorted([(x,) for x in LABELS] + [("A", "B"), ("B", "A"), ("A", "B", "A"), ("TOP", "B")])


NO_DERIVATIONS = ([2], [0], [0, 0, 2], [0, 3], [0, 0, 2, 2], [0, 1], [1, 2], [0, 2, 2], [0, 2, 0])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 40), max_size=4))
def test_brackets_are_those_of_the_trees(seed, lengths):
    rng = np.random.default_rng(seed)
    own = DerivationSymbols(("t",), tuple(CHAINS), (("",),), max_projects=4)
    made = with_symbols(rng, own, [random_moves(rng, own, length) for length in lengths])
    index = {label: i for i, label in enumerate(own.phrases)}
    found, begins = _search.brackets(
        made.offsets,
        made.moves,
        made.labels,
        np.cumsum([0, *map(len, own.chains)], dtype=np.int64),
        np.array([index[label] for chain in own.chains for label in chain], dtype=np.int32),
        index[own.root],
    )
    assert len(begins) == len(lengths) + 1
    for i in range(len(made)):
        one = made.subset([i])
        words = ["w"] * len(one.tags)
        tree = decode(own, one.moves, one.labels, words, ["t"] * len(words))
        mine = [
            (own.phrases[phrase], first, end)
            for phrase, first, end in found[begins[i] : begins[i + 1]].tolist()
        ]
        assert mine == tree.spans()[1:]


@pytest.mark.parametrize(
    ("moves", "labels", "offsets", "chain_offsets"),
    [
        *((m, [0] * len(m), [0, len(m)], [0, 1]) for m in NO_DERIVATIONS),
        *(([0, 1, 2], [-1, label, -1], [0, 3], [0, 1]) for label in (-1, 1)),
        *(([0, 1, 2], [-1, 0, -1], offsets, [0, 1]) for offsets in ([0, 9], [2, 0], [-1, 3])),
        *(([0, 1, 2], [-1, 0, -1], [0, 3], chains) for chains in ([0, 9], [0, 0, 1])),
    ],
)
def test_brackets_of_no_derivation(moves, labels, offsets, chain_offsets):
    given = np.int64(offsets), np.int8(moves), np.int32(labels), np.int64(chain_offsets)
    with pytest.raises(ValueError, match=r"no derivation|offsets|phrase"):
        _search.brackets(*given, np.zeros(1, np.int32), -1)


def test_more_than_can_be():
    own = symbols(3, n_tags=3)
    network = Network(own, 2, weights_of(own, 2, np.random.default_rng(5)))
    given = sentence(own, 4, np.random.default_rng(5))._asdict()
    settings = {"beam": 2, "branching": 2, "k": 2, "max_pops": 2**63 - 1, "margin": 12.0}
    kernel = searcher(network)
    assert len(kernel.search(**given, **settings, workspace=_search.Workspace())[0])
    for name in ("beam", "branching", "k"):
        with pytest.raises(ValueError, match="or less"):
            kernel.search(**given, **{**settings, name: 2**31 - 1}, workspace=_search.Workspace())
