"""Linear scores of symbols over spans: hashes, gradient, AdaGrad with L1, and storage."""

import re
from dataclasses import replace

import numpy as np
import pytest
from grammar import treebanks
from grammar.plain_fragments import MASK, attribute
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.chart.hypergraph import Hypergraphs
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.spans import _features as _span_features
from spacy_structlearn.grammar.spans.features import (
    LENGTHS,
    SPAN_TEMPLATES,
    TAG_TEMPLATES,
    LinearScorer,
    SpanTemplates,
    SpanWeights,
    likeliest_tags,
)
from spacy_structlearn.grammar.spans.settings import SpanFeaturesSettings
from spacy_structlearn.grammar.spans.word_attributes import hash_of, word_hash
from spacy_structlearn.grammar.treebank.symbols import Symbols

SYMBOLS = Symbols(("A", "N", "V"), ("L", "P"), (4,), "R")
# Tags are of the forests, and tested by themselves.
OF_WORDS = tuple(text for text in SPAN_TEMPLATES if "TAG" not in text)
SMALL = SpanFeaturesSettings(templates=OF_WORDS, buckets=2**12, min_word_count=1)


def graphs_of(*items):
    """Forests that have these items but no edges. items: of each sentence its length, and them."""
    counts = [len(own) for _, own in items]
    n = len(items)
    return Hypergraphs(
        items=np.array([item for _, own in items for item in own], np.int32).reshape(-1, 3),
        item_offsets=np.cumsum([0, *counts]),
        node_offsets=np.zeros(n + 1, np.int64),
        edge_offsets=np.zeros(n + 1, np.int64),
        begins=np.zeros(n, np.int32),
        tails=np.empty((0, 2), np.int32),
        scores=np.empty(0),
        made=np.empty(0, np.int32),
        n_words=np.array([length for length, _ in items], np.int32),
        chain=np.empty(0, np.int32),
    )


def every_item(n):
    """All symbols over all spans of n words."""
    tags = [(symbol, i, i + 1) for i in range(n) for symbol in range(3)]
    spans = [(i, i + width) for width in range(1, n + 1) for i in range(n - width + 1)]
    return n, tags + [(symbol, *span) for span in spans for symbol in range(3, 6)]


# --- hashes ---------------------------------------------------------------------------------------
def mix(state):
    state = (state + 0x9E3779B97F4A7C15) & MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


def plain_place(template, kind, words, item, known, bits):
    """The place of one feature, as the text of the template says."""
    symbol, start, end = item
    state = hash_of(f"{kind}:{template}")
    for term in [] if template == "bias" else template.split("|"):
        if term == "LENGTH":
            value = sum(end - start > limit for limit in LENGTHS)
        elif term == "SPAN":
            runs = [attribute("CLASS", word, known) for word in words[start:end]]
            runs = [x for i, x in enumerate(runs) if i == 0 or x != runs[i - 1]]
            if len(runs) > 8:
                return -1
            value = 0
            for x in runs:
                value = mix((value + x) & MASK)
        else:
            name, position, more = re.fullmatch(r"(\w+)\[([a-z]*)([-+]?\d+)?\]", term).groups()
            places = {"first": start, "last": end - 1, "before": start - 1, "after": end, "": start}
            at = places[position] + int(more or 0)
            if at < 0:
                value = mix(at & MASK)
            elif at >= len(words):
                value = mix(at - len(words) + 1)
            else:
                value = attribute(name, words[at], known)
        state = mix(state ^ value)
    return mix(state ^ hash_of(f"symbol[{symbol}]")) >> (64 - bits)


EXTRA = ("WORD[first+1]|PREFIX2[last-2]", "SHAPE[before-1]", "SUFFIX9[after+3]")


def test_places_against_python():
    sentences = [["Tora", "ni", "neko", "3.5", "ni", "x-Y", "?"], ["Kieta"], ["The", "the"]]
    features = replace(SMALL, templates=OF_WORDS + EXTRA, min_word_count=2)
    weights = SpanWeights.untrained(features, sentences, SYMBOLS)
    assert len(weights.vocabulary) == 1  # "ni"
    graphs = graphs_of(*(every_item(len(words)) for words in sentences))
    found = LinearScorer(weights).places(sentences, graphs)
    assert found.dtype == np.int32
    assert found.shape == (len(graphs.items), len(OF_WORDS + EXTRA))
    for x, words in enumerate(sentences):
        for i in range(*graphs.item_offsets[x : x + 2]):
            item = graphs.items[i].tolist()
            kind, texts = ("span", features.templates)
            if item[0] < 3:
                kind, texts = "tag", TAG_TEMPLATES
            wanted = [
                plain_place(text, kind, words, item, frozenset([word_hash("ni")]), 12)
                for text in texts
            ]
            assert found[i].tolist() == wanted + [-1] * (found.shape[1] - len(wanted))


def test_hashes_are_part_of_the_model_format():
    sentences = [["Tora", "ga", "naita", "."]]
    templates = ("bias", "LENGTH", "SPAN", "WORD[first]|SUFFIX3[after]")
    features = SpanFeaturesSettings(
        templates=templates, tag_templates=["WORD[-1]", "PREFIX2[0]"], min_word_count=1
    )
    weights = SpanWeights.untrained(features, sentences, SYMBOLS)
    graphs = graphs_of((4, [(0, 0, 1), (1, 3, 4), (4, 0, 2), (5, 1, 4)]))
    assert weights.vocabulary.tolist() == VOCABULARY
    assert LinearScorer(weights).places(sentences, graphs).tolist() == PLACES


VOCABULARY = [5844899678993518729, 13136625958107798693, 13872666579027539795, 14252465320398549026]
PLACES = [
    [742805, 87112, -1, -1],
    [470189, 140445, -1, -1],
    [135107, 322927, 426386, 204477],
    [840469, 450527, 1014819, 945061],
]


# --- weights --------------------------------------------------------------------------------------
def with_random_weights(seed=0, n=300, features=SMALL):
    rng = np.random.default_rng(seed)
    full = np.zeros(features.buckets)
    full[rng.choice(features.buckets, n, replace=False)] = rng.normal(size=n)
    return SpanWeights.untrained(features, [["tora", "ga"]], SYMBOLS).with_weights(full)


# --- scores ---------------------------------------------------------------------------------------
def test_scores_are_sums_of_weights():
    weights = with_random_weights(n=4096)
    words = ["tora", "ga", "naita"]
    graphs = graphs_of(every_item(3))
    places = LinearScorer(weights).places([words], graphs)
    full = np.append(weights.dense().astype(np.float64), 0.0)
    found = LinearScorer(weights).scores([words], graphs)
    assert np.allclose(found, full[places].sum(axis=1), rtol=1e-12)
    # Those of one sentence do not depend on the others.
    both = LinearScorer(weights).scores([["inu"], words], graphs_of(every_item(1), every_item(3)))
    assert np.array_equal(both[-len(found) :], found)


def test_scores_of_the_wrong_sentences():
    scorer = LinearScorer(with_random_weights())
    graphs = graphs_of(every_item(3))
    for sentences in ([["a", "b"]], [], [["a", "b", "c"], ["d"]]):
        with pytest.raises(ValueError, match="sentences"):
            scorer.scores(sentences, graphs)
    with pytest.raises(ValueError, match="symbol"):
        scorer.scores([["a"]], graphs_of((1, [(6, 0, 1)])))
    with pytest.raises(ValueError, match="symbol"):
        scorer.scores([["a"]], graphs_of((1, [(3, 0, 2)])))


# --- AdaGrad --------------------------------------------------------------------------------------
def plain_adagrad(gradients, rates, l1, epsilon, start):
    """Dense steps, with the penalty at each of them."""
    x, squares = start.copy(), np.zeros(len(start))
    for gradient, rate in zip(gradients, rates, strict=True):
        squares += gradient**2
        width = epsilon + np.sqrt(squares)
        x -= rate * gradient / width
        x = np.sign(x) * np.maximum(np.abs(x) - rate * l1 / width, 0)
    return x


@settings(max_examples=40)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 30),
    st.sampled_from([0.0, 0.01, 0.2]),
    st.sampled_from([1e-3, 0.1]),
)
def test_penalties_of_many_steps_at_once(seed, n_steps, l1, epsilon):
    rng = np.random.default_rng(seed)
    gradients = rng.normal(size=(n_steps, 8)) * (rng.random((n_steps, 8)) < 0.3)
    steps = rng.random(n_steps) * 0.3
    start = rng.normal(size=8) * (rng.random(8) < 0.5)
    table = np.zeros((8, 4), np.float32)
    table[:, 0] = start
    rates, every = np.cumsum([0.0, *steps]), np.arange(8, dtype=np.int32)[:, None]
    for n, gradient in enumerate(gradients, 1):
        touched = _span_features.accumulate(every, gradient, table)
        assert touched.tolist() == np.flatnonzero(gradient).tolist()
        _span_features.step(touched, table, rates[: n + 1], l1, epsilon)
        assert not table[:, 2].any()
    found = _span_features.current_sums(every, table, rates, l1, epsilon)
    # Single precision, over steps that may be as long as 0.3.
    wanted = plain_adagrad(gradients, steps, l1, epsilon, start.astype(np.float32))
    assert np.allclose(found, wanted, atol=2e-5)
    sums = _span_features.current_sums(
        np.array([[0, -1], [3, 3]], np.int32), table, rates, l1, epsilon
    )
    assert np.allclose(sums, [found[0], 2 * found[3]], atol=1e-6)


def test_a_step_that_never_was_is_found():
    table = np.array([[1, 1, 0, 7]], np.float32)
    place = np.zeros((1, 1), np.int32)
    assert np.isnan(_span_features.current_sums(place, table, np.zeros(3), 0.1, 0.1)).all()


# --- kernel ---------------------------------------------------------------------------------------
def test_sums_and_their_opposite():
    rng = np.random.default_rng(0)
    places = rng.integers(-1, 20, size=(30, 7)).astype(np.int32)
    weights, values = rng.normal(size=20), rng.normal(size=30)
    values[::3] = 0
    found, wanted = _span_features.sums(places, weights), np.append(weights, 0.0)[places]
    assert np.allclose(found, wanted.sum(axis=1))
    single = _span_features.sums(places, weights.astype(np.float32))
    assert np.allclose(single, found, atol=1e-5)
    wanted = np.zeros(21)
    np.add.at(wanted, places, values[:, None])
    assert np.allclose(_span_features.scattered(places, values, 20), wanted[:20])


def test_the_kernel_checks_its_arrays():
    places = np.array([[3]], np.int32)
    table, rates, ones = np.zeros((3, 4), np.float32), np.zeros(2), np.ones(1)
    for call in (
        lambda: _span_features.sums(places, np.zeros(3)),
        lambda: _span_features.scattered(places, ones, 3),
        lambda: _span_features.scattered(places[:0], ones, 3),
        lambda: _span_features.current_sums(places, table, rates, 0.1, 0.1),
        lambda: _span_features.accumulate(places, ones, table),
        lambda: _span_features.accumulate(places[:0], ones, table),
        lambda: _span_features.step(places[0], table, rates, 0.1, 0.1),
        lambda: _span_features.step(-places[0], table, rates, 0.1, 0.1),
        lambda: _span_features.step(places[0, :0], table, rates[:1], 0.1, 0.1),
    ):
        with pytest.raises(ValueError, match=r"."):
            call()


def test_the_hasher_checks_its_arrays():
    hasher = SpanTemplates(["WORD[first]"], ["bias"]).hasher(1, np.arange(2), 8)
    names = ("seeds", "n_span", "starts", "terms", "lengths", "shape_column", "symbols")
    names += ("n_tags", "bits")
    seeds, starts, terms = np.zeros(2, np.uint64), np.array([0, 1, 1]), np.array([[1, 0, 0]])
    starts, terms, lengths = (a.astype(np.int32) for a in (starts, terms, np.array(LENGTHS)))
    arguments = dict(zip(names, (seeds, 1, starts, terms, lengths, 0, seeds, 1, 8), strict=True))
    assert _span_features.SpanHasher(**arguments).width == hasher.width == 1
    for name, value in (
        ("n_span", 3),
        ("bits", 32),
        ("starts", np.array([0, 2, 1], np.int32)),
        ("starts", np.array([0, 1, 2], np.int32)),
        ("terms", terms[:, :2].copy()),
        ("terms", terms - 4),
        ("shape_column", -1),
    ):
        with pytest.raises(ValueError, match=r"."):
            _span_features.SpanHasher(**arguments | {name: value})
    words, items = np.zeros((1, 2), np.uint64), np.zeros((0, 3), np.int32)
    offsets, none = np.array([0, 1]), np.array([0, 0])
    for case in (
        (words[:, :1].copy(), offsets, items, none),
        (words, 2 * offsets, items, none),
        (words, offsets, items, offsets),
        (words, offsets, items, none[:1]),
        (words, offsets, items[:, :2].copy(), none),
        # Their differences are none below zero.
        (words, np.array([0, 2**63 - 1, -(2**63), -1, 1]), items, np.zeros(5, np.int64)),
    ):
        with pytest.raises(ValueError, match=r"."):
            hasher.places(*case)


def test_tags_are_the_likeliest_ones_by_the_grammar():
    """The symbols of TAG are those of the tag items with the highest posteriors."""
    trees = treebanks.sample()[:40]
    settings = LatentGrammarSettings(rounds=1, split_iterations=3, merge_iterations=2)
    grammar = treebanks.learned(settings, trees)
    sentences = [tree.words() for tree in trees]
    graphs, _ = ChartParser(grammar).forests(sentences)
    symbols = grammar.symbols
    n_tags = symbols.n_tags
    found = likeliest_tags(graphs, n_tags)
    assert len(found) == graphs.n_words.sum()
    _, posteriors = graphs.inside_outside(graphs.scores)
    own = graphs.item_posteriors(posteriors)
    word = 0
    for sentence, words in enumerate(sentences):
        low, high = graphs.item_offsets[sentence : sentence + 2]
        for place in range(len(words)):
            here = [
                (own[i], graphs.items[i, 0])
                for i in range(low, high)
                if graphs.items[i, 0] < n_tags and graphs.items[i, 1] == place
            ]
            assert found[word] == max(here)[1]
            word += 1
