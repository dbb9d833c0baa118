"""The kernel of the search: against a plain search and the likelihoods of training."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isbn.automaton import decode, legal
from isbn.networks import PlainNetwork, derivations, log_likelihoods, make_symbols, random_weights
from isbn.networks import moves_of as sequence_of
from isbn.searches import random_network, search, sentence

from spacy_structlearn.isbn import _search
from spacy_structlearn.isbn.derivation import LeftCornerDerivations
from spacy_structlearn.isbn.symbols import ATTACH, MODIFY, SHIFT

WIDE = 1_000_000


def searcher(network):
    phrases = network.symbols.phrases
    chains = [[phrases.index(label) for label in chain] for chain in network.symbols.chains]
    root = phrases.index("TOP") if "TOP" in phrases else -1
    return _search.Searcher(network.kernel(), network.weights, chains, root)


def moves_of(result, words):
    """The derivations that the kernel returned, as the plain search has them."""
    _, moves, labels, begins, chosen, *_ = result
    columns = (np.ascontiguousarray(column[chosen.ravel()]) for column in words[1:4])
    offsets = np.arange(len(chosen) + 1) * chosen.shape[1]
    every = LeftCornerDerivations(begins, offsets, moves, labels, *columns)
    sequences = []
    for number, row in enumerate(chosen.tolist()):
        numbers = iter(row)
        sequence = [
            move._replace(candidate=next(numbers)) if move.leaf else move
            for move in sequence_of(every, number)
        ]
        assert next(numbers, None) is None
        sequences.append(tuple(sequence))
    return sequences


def run(network, words, beam, branching, k, max_pops=WIDE, margin=np.inf):
    """(scores, derivations, the rest) by the kernel."""
    workspace = _search.Workspace()
    found = searcher(network).search(*words, beam, branching, k, max_pops, margin, workspace)
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
    out = log_likelihoods(network.kernel(), network.weights, derivations(sequences))
    chosen = [[move.candidate for move in moves if move.move == SHIFT] for moves in sequences]
    return out + words.bonus[np.array(chosen, dtype=np.int64)].sum(axis=1)


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    own = make_symbols(
        draw(st.integers(0, 5)),
        tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))),
        draw(st.sampled_from([0, 2])),
        draw(st.integers(1, 3)),
    )
    size = draw(st.integers(1, 6))
    features = "".join(sorted(draw(st.sets(st.sampled_from("abcd")))))
    weights = random_weights(rng, own, size, draw(st.sampled_from([0.3, 0.8, 2.0])))
    network = PlainNetwork(own, size, weights, draw(st.booleans()), features)
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
)
def test_same_as_the_plain_search(problem, beam, branching, k, max_pops, margin):
    network, words = problem
    wanted, n_states = search(network, words, beam, branching, k, max_pops, margin)
    scores, found, (is_fallback, n_nodes) = run(
        network, words, beam, branching, k, max_pops, margin
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
def test_scores_are_those_of_training(mean_field):
    """On a network as large as real ones, with blocks that are no multiple of the lanes."""
    rng = np.random.default_rng(3)
    own = make_symbols(7, (1, 2, 37, 6, 11, 80), n_signatures=5, max_projects=3)
    network = PlainNetwork(own, 41, random_weights(rng, own, 41, 0.2), mean_field)
    words = sentence(own, 12, rng)
    scores, found, (is_fallback, *_) = run(network, words, 10, 10, 30)
    assert len(found) == 30
    assert not is_fallback
    assert len(set(found)) == 30
    assert (np.diff(scores) <= 0).all()
    np.testing.assert_allclose(scores, likelihoods(network, words, found), atol=1e-8)


# --- limits --------------------------------------------------------------------------------------
@pytest.mark.parametrize("mean_field", [False, True])
def test_what_is_not_finished_is_put_together(mean_field):
    """Projecting is nearly certain, and there may be many in a row."""
    rng = np.random.default_rng(0)
    own = make_symbols(2, (2, 3), max_projects=1000)
    network = PlainNetwork(own, 3, random_weights(rng, own, 3, 0.3), mean_field)
    network.parts["output_bias"][:4] = 0.0, 30.0, -30.0, -10.0
    words = sentence(own, 5, rng)
    scores, (moves,), (is_fallback, n_states) = run(network, words, 3, 10, 3, 40)
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
        network = random_network(rng, 5, 3, size, mean_field=mean_field, n_signatures=seed % 3)
        words = sentence(network.symbols, n_words, rng)
        kernel = searcher(network)
        given = *words, 5, 10, 5, 250, 12.0
        found, fresh = kernel.search(*given, workspace), kernel.search(*given, _search.Workspace())
        for mine, other in zip(found, fresh, strict=True):
            np.testing.assert_array_equal(mine, other)
        sequences = moves_of(found, words)
        assert all(sum(m.move == SHIFT for m in moves) == n_words for moves in sequences)
        np.testing.assert_allclose(found[0], likelihoods(network, words, sequences), rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("tags", value) for value in (3, -1)),
        *(("signatures", value) for value in (2, -2)),
        *(("bonus", value) for value in (0.5, np.nan, -np.inf)),
        ("items", 100),
        ("offsets", 7),
        ("offsets", None),
    ],
)
def test_what_does_not_fit_together(name, value):
    """One value is out of range, or there are no words."""
    rng = np.random.default_rng(5)
    network = random_network(rng, n_signatures=2)
    given = sentence(network.symbols, 4, rng)._asdict()
    given |= {"beam": 2, "branching": 2, "k": 2, "max_pops": 2**40, "margin": 12.0}
    kernel, workspace = searcher(network), _search.Workspace()
    assert len(kernel.search(**given, workspace=workspace)[0])
    given[name] = given[name].copy()
    given[name][1] = 0 if value is None else value
    if value is None:
        given |= {"offsets": np.zeros(1, np.int64)}
        given |= {column: given[column][:0] for column in ("tags", "items", "signatures", "bonus")}
    with pytest.raises(ValueError, match="must"):
        kernel.search(**given, workspace=workspace)
