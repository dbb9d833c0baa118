"""The kernel of the search: against a plain search, enumeration and the likelihoods of training."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isbn.automaton import decode, legal
from isbn.networks import log_likelihoods, make_symbols, network_of, shapes, turns_of
from isbn.searches import (
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
from spacy_structlearn.isbn.symbols import ATTACH, MODIFY, SHIFT

WIDE = 1_000_000
PLAIN = {False: search, True: synchronous_search}


def kernel_of(network):
    return network_of(network.symbols, network.size, network.mean_field, network.features)


def searcher(network, root="TOP"):
    phrases = network.symbols.phrases
    chains = [[phrases.index(label) for label in chain] for chain in network.symbols.chains]
    number = phrases.index(root) if root in phrases else -1
    return _search.Searcher(kernel_of(network), network.weights, chains, number)


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
    workspace = _search.Workspace()
    found = searcher(network).search(
        *words, beam, branching, k, max_pops, margin, workspace, synchronous
    )
    check_phrases(network, found, words)
    return found[0], moves_of(found, words), found[5:7]


def check_phrases(network, found, words):
    """Compare the phrases of all derivations with those of their trees."""
    own = network.symbols
    _, moves, labels, begins, candidates, *_, phrases, bounds = found
    assert len(bounds) == len(begins)
    for i, chosen in enumerate(candidates):
        if own.n_labels:
            part = slice(*begins[i : i + 2])
            tags = [own.tags[tag] for tag in words.tags[chosen]]
            tree = decode(own, moves[part].tolist(), labels[part].tolist(), ["w"] * len(tags), tags)
            wanted = tree.spans()[1:]
        else:
            wanted = []
        rows = phrases[slice(*bounds[i : i + 2])].tolist()
        assert [(own.phrases[label], first, end) for label, first, end in rows] == wanted


def likelihoods(network, words, sequences):
    """What each derivation scores by the kernel of training."""
    out = log_likelihoods(kernel_of(network), network.weights, derivations(sequences))
    chosen = [[move.candidate for move in moves if move.move == SHIFT] for moves in sequences]
    return out + words.bonus[np.array(chosen, dtype=np.int64)].sum(axis=1)


@st.composite
def problems(draw):
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    own = symbols(
        n_labels=draw(st.integers(0, 5)),
        n_tags=draw(st.integers(1, 3)),
        n_signatures=draw(st.sampled_from([0, 2])),
        max_projects=draw(st.integers(1, 3)),
        seed=seed,
    )
    size = draw(st.integers(1, 6))
    features = "".join(sorted(draw(st.sets(st.sampled_from("abcd")))))
    weights = weights_of(own, size, rng, draw(st.sampled_from([0.3, 0.8, 2.0])))
    network = Network(own, size, weights, draw(st.booleans()), features)
    return network, sentence(own, draw(st.integers(1, 3)), rng)


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
    scores, found, (is_fallback, n_nodes) = run(
        network, words, beam, branching, k, max_pops, margin, synchronous
    )
    assert n_nodes == n_states
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
    scores, (moves,), (is_fallback, n_states) = run(
        network, words, 3, 10, 3, 40, synchronous=synchronous
    )
    assert is_fallback
    # Only before the first word there is nothing to project.
    assert 5 * 40 <= n_states < 6 * 60
    np.testing.assert_allclose(scores, likelihoods(network, words, [moves]), atol=1e-8)
    # Modifying is more likely than attaching, and there are so many left.
    last = [move.move for move in moves][-5:]
    assert last == [SHIFT, MODIFY, MODIFY, MODIFY, ATTACH] or last[1:] == [MODIFY] * 3 + [ATTACH]
    assert not legal(own, [move.move for move in moves]).any()


def test_workspaces_of_other_sentences():
    """Nodes are used again, and so is the workspace of a smaller or larger network."""
    workspace = _search.Workspace()
    for seed, (size, mean_field, n_words) in enumerate(
        [(4, False, 3), (40, True, 2), (3, True, 100), (3, False, 200)]
    ):
        rng = np.random.default_rng(seed)
        own = symbols(5, n_signatures=seed % 3, seed=seed)
        network = Network(own, size, weights_of(own, size, rng), mean_field)
        words = sentence(own, n_words, rng)
        kernel = searcher(network)
        given = *words, 5, 10, 5, 250, 12.0
        found, fresh = kernel.search(*given, workspace), kernel.search(*given, _search.Workspace())
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
    ],
)
def test_what_does_not_fit_together(wrong):
    rng = np.random.default_rng(5)
    own = symbols(3, n_tags=3, n_signatures=2)
    network = Network(own, 2, weights_of(own, 2, rng))
    given = sentence(own, 4, rng)._asdict()
    given |= {"beam": 2, "branching": 2, "k": 2, "max_pops": 2**40, "margin": 12.0}
    kernel, workspace = searcher(network), _search.Workspace()
    assert len(kernel.search(**given, workspace=workspace)[0])
    for name, value in wrong.items():
        given[name] = given[name].copy()
        given[name][1] = value
    with pytest.raises(ValueError, match="must"):
        kernel.search(**given, workspace=workspace)


def test_a_sentence_without_words():
    own = symbols(3)
    network = Network(own, 2, np.zeros(sum(map(np.prod, shapes(own, 2).values()))))
    nothing = sentence(own, 1, np.random.default_rng(0))
    nothing = nothing._replace(offsets=np.zeros(1, np.int64))
    empty = [x[:0] for x in nothing[1:]]
    with pytest.raises(ValueError, match="must have candidates"):
        searcher(network).search(nothing.offsets, *empty, 1, 1, 1, 1, 0.0, _search.Workspace())
