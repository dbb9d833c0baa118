"""Parsing with span scores: against all trees of small forests, and where there is no tree."""

import numpy as np
import pytest
from grammar.grammars import (
    NEVER,
    SHAPES,
    SMALL,
    as_members,
    chain_grammar,
    few_trees,
    flat_trees,
    grammar_from,
    in_threads,
    key_of,
    random_grammar,
    same_parses,
    sample_grammar,
    sample_trees,
    sentence,
    with_lexicon,
    word_scores,
)

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.chart import decode
from spacy_structlearn.grammar.chart.decode import DECODERS, ChartParser
from spacy_structlearn.grammar.latent.em import treebank_grammar
from spacy_structlearn.grammar.spans import model
from spacy_structlearn.grammar.spans.model import SpanGrammar
from spacy_structlearn.grammar.treebank.data import binarize
from spacy_structlearn.trees.parse import calibrate


class Toy:
    """Scores of (symbol, start, end)."""

    def __init__(self, scores=None, default=0.0, seed=None):
        self.own, self.default, self.seed = scores or {}, default, seed

    def score(self, symbol, start, end):
        if self.seed is not None:
            rng = np.random.default_rng([self.seed, symbol, start, end])
            return float(1.5 * rng.normal())
        return self.own.get((symbol, start, end), self.default)

    def scores(self, sentences, graphs):
        assert [len(words) for words in sentences] == graphs.n_words.tolist()
        return np.array([self.score(*item) for item in graphs.items.tolist()])


def span_parser(grammar, network=None, weight=1.0, temperature=1.0, **settings):
    span_grammar = SpanGrammar(grammar, weight, None, temperature)
    return ChartParser(
        span_grammar,
        scorers=[] if network is None else [network],
        **{"thresholds": NEVER, **settings},
    )


def same(a, b, atol=1e-6):
    return same_parses(a, b, atol)


PARSERS = {
    "a grammar": lambda grammar, **settings: ChartParser(
        grammar, **{"thresholds": NEVER, **settings}
    ),
    "with scores": lambda grammar, **settings: span_parser(grammar, Toy(seed=5), **settings),
}


@pytest.fixture(params=PARSERS)
def any_parser(request):
    """From a grammar and settings to a parser, with scores of spans or without."""
    return PARSERS[request.param]


class Model:
    """The CRF over all trees of an `Enumeration`."""

    def __init__(self, trees, toy, weight=1.0, base=None):
        self.trees = trees
        base = trees.scores("variational") if base is None else base
        own = [sum(toy.score(*node) for node in tree.nodes) for tree in trees.trees]
        self.scores = weight * base + np.array(own)
        self.p = np.exp(self.scores - self.scores.max())
        self.p /= self.p.sum()
        self.keys = [trees.key(tree) for tree in trees.trees]

    def bracket(self, label, start, end):
        symbol = self.trees.grammar.symbols.phrase_index[label]
        there = [(symbol, start, end) in tree.nodes for tree in self.trees.trees]
        return self.p[there].sum()

    def check(self, parse, log_likelihood, atol=1e-3):
        """Whether probabilities are right; returns which trees it may be."""
        mine = [x for x, key in enumerate(self.keys) if key == key_of(parse)]
        # Two trees with intermediates in other places look the same.
        assert min(abs(np.log(self.p[mine]) - parse.log_probability)) < atol
        for span, found in zip(parse.spans, parse.probabilities, strict=True):
            assert found == pytest.approx(self.bracket(*span), abs=atol)
        assert parse.log_likelihood == pytest.approx(log_likelihood, abs=1e-5)
        assert parse.levels == 3
        assert not parse.failed
        return mine


# --- against all trees ---------------------------------------------------------------------------
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [1, 2, 4])
def test_without_scores_the_best_tree_is_that_of_the_variational_distribution(n, shape):
    for seed in (0, 100):
        grammar, words, trees = few_trees(n, 2, 400, first_seed=seed, shape=shape, **SMALL)
        own = ChartParser(grammar, decoder="variational", thresholds=NEVER).parse([words])[0]
        for toy in (None, Toy()):
            parse = span_parser(grammar, toy, decoder="viterbi").parse([words])[0]
            model = Model(trees, Toy())
            mine = model.check(parse, np.log(trees.total))
            assert max(model.scores[mine]) == pytest.approx(model.scores.max(), abs=1e-4)
            assert key_of(parse) == key_of(own)
            assert parse.log_likelihood == own.log_likelihood
        # The variational distribution has the posteriors of the grammar.
        expected = [trees.bracket(grammar.symbols.phrase_index[a], i, j) for a, i, j in parse.spans]
        np.testing.assert_allclose(parse.probabilities, expected, atol=1e-4)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [1, 3, 4])
def test_the_best_of_all_trees(n, shape, decoder):
    for seed in (0, 60):
        grammar, words, trees = few_trees(n, 2, 300, first_seed=seed, shape=shape, **SMALL)
        toy = Toy(seed=seed)
        model = Model(trees, toy, weight=0.7)
        parser = span_parser(grammar, toy, weight=0.7, decoder=decoder)
        parse = parser.parse([words])[0]
        mine = model.check(parse, np.log(trees.total))
        if decoder in ("viterbi", "variational"):
            assert max(model.scores[mine]) == pytest.approx(model.scores.max(), abs=1e-3)
        elif decoder == "labelled_recall":
            values = trees.labelled_recall(model.p)
            assert max(values[mine]) == pytest.approx(values.max(), abs=1e-3)
        else:
            q = {}
            for tree, p in zip(trees.trees, model.p, strict=True):
                for part in tree.parts:
                    if part[0] not in ("lower", "upper", "same"):
                        q[part] = q.get(part, 0.0) + p
            worth = np.log if decoder == "max_rule_product" else float
            values = [
                sum(worth(q[part]) for part in tree.parts if part in q) for tree in trees.trees
            ]
            assert max(values[x] for x in mine) == pytest.approx(max(values), abs=1e-3)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("n", [1, 4])
def test_k_best(n, decoder):
    grammar, words, trees = few_trees(n, 2 if n == 1 else 30, 300, **SMALL)
    toy = Toy(seed=1)
    model = Model(trees, toy)
    parser = span_parser(grammar, toy, decoder=decoder)
    everything = parser.k_best(words, 10_000)
    assert len(everything) == len(trees.trees)
    for parse in everything:
        model.check(parse, np.log(trees.total), atol=2e-3)
    logs = np.array([parse.log_probability for parse in everything])
    assert np.exp(logs).sum() == pytest.approx(1, abs=1e-6)
    if decoder in ("viterbi", "variational", "labelled_recall"):
        assert (np.diff(logs) <= 1e-9).all()
        np.testing.assert_allclose(logs, np.log(-np.sort(-model.p)), atol=2e-3)
    if decoder != "labelled_recall":
        assert same(everything[0], parser.parse([words])[0])
    for k in (0, 1, 7):
        fewer = parser.k_best(words, k)
        assert len(fewer) == min(k, len(everything))
        assert all(same(a, b) for a, b in zip(fewer, everything, strict=False))


@pytest.mark.parametrize("n", [1, 3, 4])
def test_products_of_grammars_have_the_mean_of_their_scores(n):
    grammar, words, trees = few_trees(n, 2 if n == 1 else 30, 300, **SMALL)
    other = random_grammar(trees.seed, variant=1, **SMALL)
    others = type(trees)(other, word_scores(other, words))
    joined = as_members(grammar, other)
    toy = Toy(seed=2)
    base = (trees.scores("variational") + others.scores("variational")) / 2
    model = Model(trees, toy, base=base)
    parse = span_parser(joined, toy, decoder="viterbi").parse([words])[0]
    mine = model.check(parse, np.log(trees.total), atol=2e-3)
    assert max(model.scores[mine]) == pytest.approx(model.scores.max(), abs=2e-3)


# --- scores --------------------------------------------------------------------------------------
def test_scores_choose():
    grammar, words, _ = few_trees(4, 30, **SMALL)
    plain = span_parser(grammar, decoder="viterbi")
    for parse in plain.k_best(words, 20):
        symbols = grammar.symbols
        own = {(symbols.phrase_index[label], i, j) for label, i, j in parse.spans}
        own |= {(symbols.tag_index[tag], i, i + 1) for i, tag in enumerate(parse.tags)}
        # An intermediate costs nothing.
        last = symbols.n_tags + symbols.n_phrases
        free = {(a, i, j) for a in range(last, symbols.size) for i in range(4) for j in range(5)}
        toy = Toy({**dict.fromkeys(own, 100.0), **dict.fromkeys(free, 0.0)}, -100.0)
        for decoder in DECODERS:
            found = span_parser(grammar, toy, decoder=decoder).parse([words])[0]
            assert key_of(found) == key_of(parse)
            np.testing.assert_allclose(found.probabilities, 1, atol=1e-6)


def test_the_weight_of_the_grammar():
    grammar, words, trees = few_trees(4, 30, **SMALL)
    equally = span_parser(grammar, weight=0.0, decoder="viterbi").k_best(words, 1000)
    assert len(equally) == len(trees.trees)
    for parse in equally:
        assert parse.log_probability == pytest.approx(-np.log(len(trees.trees)), abs=1e-9)
    sharp = span_parser(grammar, weight=50.0, decoder="viterbi").parse([words])[0]
    assert sharp.log_probability > np.log(0.5)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_the_temperature(temperature):
    grammar, words, _ = few_trees(4, 30, **SMALL)
    grammar.temperature = 7.0
    plain = span_parser(grammar, Toy(seed=3)).parse([words])[0]
    parse = span_parser(grammar, Toy(seed=3), temperature=temperature).parse([words])[0]
    assert key_of(plain) == key_of(parse)
    expected = calibrate(plain.probabilities, temperature)
    np.testing.assert_allclose(parse.probabilities, expected, atol=1e-6)
    assert plain.log_probability == parse.log_probability


@pytest.mark.parametrize("decoder", DECODERS)
def test_forbidden_items(decoder):
    grammar, words, trees = few_trees(4, 30, **SMALL)
    best = span_parser(grammar, decoder=decoder).parse([words])[0]
    symbols = grammar.symbols
    label, i, j = next(span for span in best.spans if span[2] - span[1] < 4)
    toy = Toy({(symbols.phrase_index[label], i, j): -np.inf})
    parser = span_parser(grammar, toy, decoder=decoder)
    parse = parser.parse([words])[0]
    assert (label, i, j) not in parse.spans
    assert not parse.failed
    assert np.isfinite(parse.log_probability)
    everything = parser.k_best(words, 10_000)
    assert 0 < len(everything) < len(trees.trees)
    assert all((label, i, j) not in one.spans for one in everything)
    assert sum(np.exp(one.log_probability) for one in everything) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("decoder", DECODERS)
def test_where_every_tree_is_forbidden(decoder):
    grammar = chain_grammar()

    class Some(Toy):
        def scores(self, sentences, graphs):
            lengths = np.repeat(graphs.n_words, np.diff(graphs.item_offsets))
            return np.where(lengths == 3, -np.inf, 0.0)

    parser = span_parser(grammar, Some(), decoder=decoder)
    sentences = [["a"] * n for n in (2, 3, 4, 3, 1)]
    parses = parser.parse(sentences)
    assert [parse.failed for parse in parses] == [False, True, False, True, False]
    assert (parses[1].log_probability, parses[1].levels) == (-np.inf, 0)
    assert parses[1].spans == [("X", 0, 3)]
    assert np.isfinite(parses[2].log_probability)
    plain = span_parser(grammar, decoder=decoder).parse(sentences)
    assert all(same(parses[x], plain[x]) for x in (0, 2, 4))
    assert [parse.failed for parse in parser.k_best(["a"] * 3, 5)] == [True]


def test_what_are_no_scores():
    class Wrong:
        def __init__(self, function):
            self.function = function

        def scores(self, sentences, graphs):
            return self.function(np.zeros(len(graphs.items)))

    grammar = chain_grammar()
    for function in (lambda x: x[1:], lambda x: x[:, None], lambda x: x + np.nan, lambda x: 0.0):
        with pytest.raises(StructlearnError, match="SL425"):
            span_parser(grammar, Wrong(function)).parse([["a", "a"]])
    found = span_parser(grammar, Wrong(lambda x: x.astype(np.float32) + 1)).parse([["a"]])
    assert not found[0].failed


# --- no parse, and other edges -------------------------------------------------------------------
def test_fallback_trees_and_empty_sentences():
    grammar = random_grammar(1)
    mute = with_lexicon(grammar, grammar.lexicon.scaled(0))
    toy = Toy(seed=0)
    parser, plain = span_parser(mute, toy), ChartParser(mute, thresholds=NEVER)
    sentences = [[], ["w0", "w1"], [], ["w2"]]
    for a, b in zip(parser.parse(sentences), plain.parse(sentences), strict=True):
        assert same(a, b, 0.0)
        assert a.failed == bool(a.tags)
    assert parser.parse([]) == []
    assert [parse.failed for parse in parser.k_best(["w0", "w1"], 3)] == [True]
    assert [key_of(parse) for parse in parser.k_best([], 3)] == [((), ())]
    assert parser.k_best(["w0"], 0) == []
    graphs, numbers = parser.forests(sentences)
    assert len(graphs) == len(numbers) == 0


@pytest.mark.parametrize("n_levels", [1, 3])
def test_thresholds_that_prune_everything_are_lowered(any_parser, n_levels):
    for seed in range(5):
        parser = any_parser(random_grammar(seed, n_levels=n_levels), thresholds=(1.0,) * 7)
        for n in (1, 3, 9, 20):
            words = sentence(n, n)
            parse = parser.parse([words])[0]
            assert parse.failed == (parse.levels == 0)
            assert parse.levels <= n_levels
            assert parse.tree(words).words() == words


@pytest.mark.parametrize("decoder", DECODERS)
def test_chains_are_restored(any_parser, decoder):
    grammar = grammar_from(
        ["t", "u"],
        ["A", "B", "C", "D"],
        {"B -> t u": 0.5, "C -> B t": 1.0},
        {"A -> B": 0.6, "A -> D": 0.4, "B -> t": 0.5, "D -> u": 1.0},
        {"A": 0.7, "C": 0.3},
        {("t", "t"): 1.0, ("u", "u"): 1.0},
    )
    a, b, c, d = (grammar.symbols.phrase_index[label] for label in "ABCD")
    grammar.chains.update({(a, b): (c, d), (a, d): (b,)})
    parser = any_parser(grammar, decoder=decoder)
    for text, expected in (
        ("t u", "(TOP (A (C (D (B (t t) (u u))))))"),
        ("t", "(TOP (A (C (D (B (t t))))))"),
        ("u", "(TOP (A (B (D (u u)))))"),
        ("t u t", "(TOP (C (B (t t) (u u)) (t t)))"),
    ):
        words = text.split()
        for parse in (parser.parse([words])[0], parser.k_best(words, 1)[0]):
            assert str(parse.tree(words)) == expected
            np.testing.assert_allclose(parse.probabilities, 1, atol=1e-6)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("binarization", ["right", "left"])
@pytest.mark.parametrize("make", [ChartParser, lambda *a, **b: span_parser(*a, Toy(), **b)])
def test_the_inserted_root_is_left_out(make, binarization, decoder):
    trees = flat_trees()
    grammar = treebank_grammar(binarize(trees, binarization))
    assert grammar.symbols.inserted_root >= 0
    parser = make(grammar, decoder=decoder)
    parses = parser.parse([t.words() for t in trees], [t.tags() for t in trees])
    for tree, parse in zip(trees, parses, strict=True):
        words = tree.words()
        assert parse.tree(words) == tree
        assert len(parse.probabilities) == len(parse.labels)
        assert parser.k_best(words, 1, tree.tags())[0].tree(words) == tree


def test_tags_may_be_given():
    grammar = chain_grammar()
    parser = span_parser(grammar, Toy())
    words = ["a", "b", "b"]
    assert parser.parse([words], [["t", "t", "u"]])[0].tags == ["t", "t", "u"]
    assert parser.parse([words], [["t", "u", "u"]], tag_weight=30.0)[0].tags == ["t", "u", "u"]
    assert parser.k_best(words, 1, ["t", "", "u"])[0].tags[2] == "u"


def test_a_long_sentence():
    grammar = sample_grammar(2)
    words = [word for tree in sample_trees() for word in tree.words()][:150]
    parser = span_parser(grammar, Toy(seed=0), thresholds=(1e-4,) * 7)
    parse, short = parser.parse([words, words[:5]])
    assert parse.tree(words).words() == words
    assert np.isfinite([parse.log_probability, parse.log_likelihood]).all()
    assert parse.log_probability < 0
    assert not short.failed
    own = ChartParser(grammar).parse([words])[0]
    assert parse.log_likelihood == pytest.approx(own.log_likelihood, rel=1e-6)


# --- batches and threads -------------------------------------------------------------------------
def test_batches_and_threads_change_nothing(any_parser, monkeypatch):
    grammar = chain_grammar(2)
    rng = np.random.default_rng(0)
    sentences = [sentence(i, n, ["a", "b"]) for i, n in enumerate(rng.integers(12, size=80))]
    # Of some tags there is no tree.
    tags = [["u" if rng.random() < 0.1 else "" for _ in words] for words in sentences]
    alone = any_parser(grammar)
    expected = [alone.parse([words], [own])[0] for words, own in zip(sentences, tags, strict=True)]
    assert 10 < sum(parse.failed for parse in expected) < 60
    for size in (1, 30, 4000):
        monkeypatch.setattr(decode, "_BATCH_WORDS", size)
        for threads in (1, 3):
            parser = any_parser(grammar, threads=threads)
            for _ in range(2):
                found = parser.parse(sentences, tags)
                assert len(found) == len(sentences)
                assert all(same(a, b, 0.0) for a, b in zip(found, expected, strict=True))


def test_one_parser_in_several_threads(any_parser):
    parser = any_parser(random_grammar(6), thresholds=(1e-4,) * 7)
    sentences = [sentence(i, 3 + i % 9) for i in range(25)]
    expected = parser.parse(sentences)

    def work():
        found = [parser.parse([words])[0] for words in sentences]
        return all(same(a, b, 0.0) for a, b in zip(found, expected, strict=True))

    assert in_threads(work)


# --- what there is to parse with -----------------------------------------------------------------
def test_what_cannot_parse_together():
    grammar = random_grammar(0)
    span_grammar = SpanGrammar(grammar)
    for grammars in ([span_grammar], [span_grammar, grammar], [grammar, span_grammar]):
        with pytest.raises(StructlearnError, match="SL426"):
            ChartParser(grammars)
    with pytest.raises(StructlearnError, match="SL420"):
        ChartParser(SpanGrammar.empty())
    with pytest.raises(StructlearnError, match="SL421"):
        ChartParser(span_grammar, decoder="best")


def test_linear_scores_of_the_grammar_and_of_a_network_are_added(monkeypatch):
    grammar, words, _ = few_trees(4, 30, **SMALL)
    monkeypatch.setattr(model, "LinearScorer", lambda features: features)
    span_grammar = SpanGrammar(grammar)
    span_grammar.features = Toy(seed=7)
    parser = ChartParser(span_grammar, scorers=[Toy(seed=8)], thresholds=NEVER)

    class Sum(Toy):
        def score(self, *item):
            return Toy(seed=7).score(*item) + Toy(seed=8).score(*item)

    expected = span_parser(grammar, Sum(seed=0)).parse([words])[0]
    assert same(parser.parse([words])[0], expected)
