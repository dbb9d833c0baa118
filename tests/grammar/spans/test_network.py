"""The network over spans: its formula, its gradient, and a training that can be interrupted."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from thinc.api import HashEmbed, Maxout, Model, NumpyOps, chain, expand_window, with_array

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.chart.hypergraph import Hypergraphs
from spacy_structlearn.grammar.spans.network import (
    LENGTHS,
    SpanNetwork,
    span_scorer,
    tag_posteriors,
)
from spacy_structlearn.grammar.spans.settings import NeuralGrammarSettings
from spacy_structlearn.grammar.treebank.symbols import Symbols

SYMBOLS = Symbols(("A", "B", "C"), ("L", "P"), (3,), "R")
N_TAGS, N_SYMBOLS = SYMBOLS.n_tags, SYMBOLS.size
WIDTH, HIDDEN = 5, 7
WORDS = [["a", "b", "c", "a"], ["b"], ["c", "c", "a", "b", "a", "b"], ["a", "c"]]


# --- forests --------------------------------------------------------------------------------------
def forest(n_words, rng, keep=0.7):
    """A random forest: two tags a word, phrases over random spans and always over the sentence."""
    items, nodes, edges = [], {}, []  # edges: (tails, made)
    for i in range(n_words):
        for tag in sorted(rng.choice(N_TAGS, 2, replace=False).tolist()):
            nodes[len(items)] = [((-1, -1), len(items))]
            items.append((tag, i, i + 1))
    over = {(i, i + 1): [k for k, item in enumerate(items) if item[1] == i] for i in range(n_words)}
    for width in range(1, n_words + 1):
        for i in range(n_words - width + 1):
            below = list(over.get((i, i + 1), ())) if width == 1 else []
            splits = [
                (left, right)
                for k in range(i + 1, i + width)
                for left in over.get((i, k), ())
                for right in over.get((k, i + width), ())
            ]
            for symbol in range(N_TAGS, N_SYMBOLS):
                whole = width == n_words and symbol == N_TAGS
                if not whole and rng.random() > keep:
                    continue
                tails = [(one, -1) for one in below] + splits
                if not tails:
                    continue
                number = len(items)
                nodes[number] = [(pair, number) for pair in tails]
                items.append((symbol, i, i + width))
                over.setdefault((i, i + width), []).append(number)
    root = [k for k in over[0, n_words] if items[k][0] >= N_TAGS]
    nodes[len(items)] = [((k, -1), -1) for k in root]
    edges = [edge for node in range(len(nodes)) for edge in nodes[node]]
    n_edges = len(edges)
    return Hypergraphs(
        items=np.array(items, np.int32),
        item_offsets=np.array([0, len(items)], np.int64),
        node_offsets=np.array([0, len(nodes)], np.int64),
        edge_offsets=np.array([0, n_edges], np.int64),
        begins=np.cumsum([0, *(len(nodes[k]) for k in range(len(nodes)))]).astype(np.int32),
        tails=np.array([tails for tails, _ in edges], np.int32).reshape(-1, 2),
        scores=-2 * rng.random(n_edges),
        made=np.array([made for _, made in edges], np.int32),
        n_words=np.array([n_words], np.int32),
        chain=np.full(n_edges, -1, np.int32),
    )


def forests(lengths, seed=0):
    rng = np.random.default_rng(seed)
    return Hypergraphs.joined([forest(n, rng) for n in lengths])


GRAPHS = forests([len(words) for words in WORDS])


# --- the layer ------------------------------------------------------------------------------------
class PlainOps(NumpyOps):
    """Whose products are those of NumPy, in any precision."""

    def __init__(self):
        super().__init__(use_blis=False)


def random_scorer(dtype, seed=0, **settings):
    rng = np.random.default_rng(seed)
    layer = span_scorer(
        HIDDEN, width=WIDTH, n_tags=N_TAGS, n_symbols=N_SYMBOLS, **settings
    ).initialize()
    for name in layer.param_names:
        layer.set_param(name, rng.normal(size=layer.get_param(name).shape).astype(dtype))
    if dtype == np.float64:
        layer.ops = PlainOps()
    return layer


def random_rows(lengths, dtype, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, WIDTH)).astype(dtype) for n in lengths]


def by_the_formula(layer, rows, graphs):
    """The scores, one item after another."""
    get = layer.get_param
    posteriors = tag_posteriors(graphs, N_TAGS)
    blocks = np.split(get("W_span"), 5, axis=1)
    before, last, first, after, mean = blocks
    word = 0
    found = []
    for x, row in enumerate(rows):
        own = np.concatenate([row, posteriors[word : word + len(row)]], axis=1)
        word += len(row)
        begin, end = graphs.item_offsets[x : x + 2]
        for symbol, i, j in graphs.items[begin:end].tolist():
            if symbol < N_TAGS:
                found.append(own[i] @ get("W_tag")[:, symbol])
                continue
            h = own[i] @ first + own[j - 1] @ last + own[i:j].mean(axis=0) @ mean + get("b_span")
            h = h + (own[i - 1] if i else get("edges")[0]) @ before
            h = h + (own[j] if j < len(row) else get("edges")[1]) @ after
            h = h + get("lengths")[sum(j - i >= length for length in LENGTHS)]
            column = symbol - N_TAGS
            found.append(np.maximum(h, 0) @ get("W_phrase")[:, column] + get("b_phrase")[column])
    return np.array(found)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-4), (np.float64, 1e-10)])
@pytest.mark.parametrize("lengths", [[4, 1, 6, 2], [1], [1, 1], [12]])
def test_scores_are_those_of_the_formula(dtype, tolerance, lengths):
    graphs, rows = forests(lengths), random_rows(lengths, dtype)
    layer = random_scorer(dtype)
    found = layer.predict((rows, graphs))
    assert found.dtype == dtype
    expected = by_the_formula(layer, rows, graphs)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_posteriors_of_tags():
    table = tag_posteriors(GRAPHS, N_TAGS)
    assert table.shape == (13, N_TAGS)
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    # The word of one tag posterior is that of the item.
    one = forests([1])
    posteriors = one.item_posteriors(one.inside_outside(one.scores)[1])
    expected = {int(s): p for (s, _, _), p in zip(one.items, posteriors, strict=True) if s < N_TAGS}
    assert {s: tag_posteriors(one, N_TAGS)[0, s] for s in expected} == expected


def test_gradient_is_that_of_finite_differences():
    lengths = [4, 1, 6, 2]
    rows = random_rows(lengths, np.float64)
    layer = random_scorer(np.float64)
    weights = np.random.default_rng(2).normal(size=len(GRAPHS.items))
    _, backprop = layer.begin_update((rows, GRAPHS))
    d_rows, _ = backprop(weights)

    def slope(array):
        slopes = np.empty(array.shape)
        for place in np.ndindex(array.shape):
            kept, ends = array[place], []
            for step in (1e-6, -1e-6):
                array[place] = kept + step
                ends.append(layer.predict((rows, GRAPHS)) @ weights)
            array[place] = kept
            slopes[place] = (ends[0] - ends[1]) / 2e-6
        return slopes

    for name in layer.param_names:
        expected = slope(layer.get_param(name))
        np.testing.assert_allclose(layer.get_grad(name), expected, rtol=1e-5, atol=1e-7)
    for row, d_row in zip(rows, d_rows, strict=True):
        np.testing.assert_allclose(d_row, slope(row), rtol=1e-5, atol=1e-7)


def test_a_new_layer_says_nothing():
    layer = span_scorer(HIDDEN, width=WIDTH, n_tags=N_TAGS, n_symbols=N_SYMBOLS).initialize()
    rows = random_rows([len(words) for words in WORDS], np.float32)
    scores, backprop = layer.begin_update((rows, GRAPHS))
    assert not scores.any()
    backprop(np.ones(len(scores), dtype=np.float32))
    assert layer.get_grad("W_phrase").any()
    assert layer.get_grad("W_tag").any()


def test_dropout_is_of_the_hidden_layer_in_training():
    rows = random_rows([len(words) for words in WORDS], np.float32)
    layer = random_scorer(np.float32, dropout=0.5)
    sure = layer.predict((rows, GRAPHS))
    np.random.seed(0)
    scores, backprop = layer.begin_update((rows, GRAPHS))
    tags = GRAPHS.items[:, 0] < N_TAGS
    np.testing.assert_array_equal(scores[tags], sure[tags])
    assert (scores[~tags] != sure[~tags]).mean() > 0.8
    np.testing.assert_array_equal(layer.predict((rows, GRAPHS)), sure)
    backprop(np.ones(len(scores), dtype=np.float32))


def test_nothing():
    none = Hypergraphs.joined([])
    scores, backprop = random_scorer(np.float32).begin_update(([], none))
    assert scores.shape == (0,)
    assert backprop(scores)[0] == []


def test_a_long_sentence():
    n = 250
    items = [(k % N_TAGS, i, i + 1) for k, i in enumerate(range(n))]
    items += [(N_TAGS, i, j) for i in range(0, n, 5) for j in range(i + 1, n + 1, 7)]
    base = forests([1])
    graphs = Hypergraphs(
        np.array(items, np.int32), np.array([0, len(items)]), np.array([0, 1]), np.array([0, 0]),
        np.zeros(2, np.int32), base.tails[:0], base.scores[:0], base.made[:0],
        np.array([n], np.int32), base.chain[:0],
    )  # fmt: skip
    layer = random_scorer(np.float32)
    rows = random_rows([n], np.float32)
    expected = by_the_formula(layer, rows, graphs)
    np.testing.assert_allclose(layer.predict((rows, graphs)), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("lengths", "width", "code"),
    [([4, 1, 6], WIDTH, "SL438"), ([4, 1, 6, 3], WIDTH, "SL438"), ([4, 1, 6, 2], 3, "SL438")],
)
def test_rows_that_do_not_fit(lengths, width, code):
    rows = [np.zeros((n, width), np.float32) for n in lengths]
    with pytest.raises(StructlearnError, match=code):
        random_scorer(np.float32).predict((rows, GRAPHS))


def test_a_grammar_with_more_symbols():
    layer = span_scorer(HIDDEN, width=WIDTH, n_tags=2, n_symbols=4).initialize()
    rows = random_rows([len(words) for words in WORDS], np.float32)
    with pytest.raises(StructlearnError, match=r"SL439.*2 tags of 4"):
        layer.predict((rows, GRAPHS))


# --- the network ----------------------------------------------------------------------------------
def _letters(model, sentences, is_train):
    return [np.array([[ord(w[0])] for w in words], np.uint64) for words in sentences], lambda d: d


def tok2vec():
    embed = with_array(HashEmbed(WIDTH, 50, column=0, seed=3))
    maxout = Maxout(WIDTH, WIDTH * 3, nP=2, dropout=0.0, normalize=True)
    encode = with_array(chain(expand_window(1), maxout))
    return chain(Model("letters", _letters), embed, encode)


SETTINGS = NeuralGrammarSettings(hidden_width=HIDDEN, dropout=0.2, learn_rate=0.02)


def network(**changes):
    own = SpanNetwork(tok2vec(), span_scorer(HIDDEN))
    own.initialize(WORDS, SYMBOLS, replace(SETTINGS, **changes))
    return own


def targets(graphs, seed=5):
    """The edges of a tree of each forest that no score foretells."""
    return graphs.best(np.random.default_rng(seed).normal(size=len(graphs.scores)))[1]


def step(net, graphs=GRAPHS, words=WORDS, factor=1.0):
    """The loss before a step of training."""
    scores, backprop = net.begin_update(words, words, graphs)
    mask = targets(graphs)
    edges = graphs.edge_scores(scores, 1.0)
    log_z, posteriors = graphs.inside_outside(edges)
    backprop(graphs.item_posteriors(posteriors - mask) / len(graphs))
    net.finish_update(factor)
    return (log_z.sum() - edges[mask].sum()) / len(graphs)


def parameters(net):
    return {
        (i, name): node.get_param(name).copy()
        for i, node in enumerate([*net.tok2vec.walk(), *net.scorer.walk()])
        for name in node.param_names
    }


def assert_equal(one, other):
    one, other = parameters(one), parameters(other)
    assert one.keys() == other.keys()
    for key, array in one.items():
        np.testing.assert_array_equal(array, other[key], err_msg=str(key))


def test_it_learns_trees():
    net = network(dropout=0.0)
    losses = [step(net) for _ in range(80)]
    assert losses[-1] < 0.2 * losses[0]
    net.finish()
    mask = GRAPHS.best(GRAPHS.edge_scores(net.scores(WORDS, WORDS, GRAPHS), 1.0))[1]
    np.testing.assert_array_equal(mask, targets(GRAPHS))


def test_it_is_deterministic_and_leaves_the_generator_of_others_alone():
    np.random.seed(7)
    expected = np.random.random(3)
    np.random.seed(7)
    found, other = [network() for _ in range(2)]
    for _ in range(5):
        step(found)
    np.testing.assert_array_equal(np.random.random(3), expected)
    for _ in range(5):
        np.random.seed()
        step(other)
    assert_equal(found, other)
    different = network(seed=1)
    assert not np.array_equal(
        different.scorer.get_param("W_span"), network().scorer.get_param("W_span")
    )


def test_a_state_of_other_layers():
    other = network(hidden_width=HIDDEN + 1)
    with pytest.raises(ValueError, match="other layers"):
        network().load(other.state())


def test_the_averages_remain():
    net = network()
    for _ in range(20):
        step(net)
    last = parameters(net)
    averages = net.state()["optimizer"]["averages"]
    net.finish()
    now = parameters(net)
    for (i, name), array in now.items():
        np.testing.assert_array_equal(array, averages[f"{i}.{name}"])
    assert any(not np.array_equal(now[key], last[key]) for key in now)
    net.finish()
    assert all(np.array_equal(array, now[key]) for key, array in parameters(net).items())


def test_every_training_begins_alike():
    net, once = network(), network()
    for each in (once, net):
        each.prepare(WORDS, SYMBOLS, SETTINGS)
        step(each)
    net.finish()
    net.prepare(WORDS, SYMBOLS, SETTINGS)
    step(net)
    assert_equal(net, once)


def test_a_grammar_of_other_symbols_has_a_new_last_layer():
    net = network()
    step(net)
    more = Symbols(("A", "B", "C", "D"), ("L", "P"), (3,), "R")
    net.prepare(WORDS, more, SETTINGS)
    assert net.scorer.get_param("W_tag").shape == (WIDTH + 4, 4)
    assert net.scorer.get_dim("nO") == more.size
    assert not net.scores(WORDS, WORDS, GRAPHS).any()
    step(net)
    net.prepare(WORDS, more, replace(SETTINGS, hidden_width=HIDDEN + 2))
    assert net.scorer.get_param("b_span").shape == (HIDDEN + 2,)


@pytest.mark.parametrize("name", ["W_span", "edges", "lengths", "b_phrase", "W_tag"])
def test_parameters_that_cannot_be(name):
    net = network()
    net.check()
    sound = net.scorer.get_param(name)
    for bad in (sound[:-1], sound.astype(np.int32), np.full_like(sound, np.nan), None):
        net.scorer.set_param(name, bad)
        with pytest.raises(ValueError, match=name):
            net.check()
    net.scorer.set_param(name, sound)
    embed = next(node for node in net.tok2vec.walk() if node.has_param("E"))
    embed.get_param("E")[0] = np.inf
    with pytest.raises(ValueError, match="not finite numbers"):
        net.check()
    with pytest.raises(ValueError, match="sizes"):
        SpanNetwork(tok2vec(), span_scorer(HIDDEN)).check()


def test_storage():
    net = network()
    step(net)
    again = pickle.loads(pickle.dumps(net))
    assert again.layers == net.layers
    assert_equal(again, net)
    np.testing.assert_array_equal(
        again.scores(WORDS, WORDS, GRAPHS), net.scores(WORDS, WORDS, GRAPHS)
    )
    assert net.n_parameters == sum(array.size for array in parameters(net).values())


@pytest.mark.parametrize("tokens", [None, WORDS[:2], [["a"]] * 4])
def test_tokens_that_are_not_those_of_the_sentences(tokens):
    with pytest.raises(StructlearnError, match="SL438"):
        network().scores(WORDS, tokens, GRAPHS)
