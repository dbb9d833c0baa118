"""The parser: pruning, tags, sentences without a parse, batches, and settings out of range."""

import numpy as np
import pytest
from grammar.grammars import (
    NEVER,
    SMALL,
    WORDS,
    Table,
    chain_grammar,
    few_trees,
    flat_trees,
    grammar_from,
    key_of,
    numpy_posteriors,
    random_grammar,
    refined,
    sample_grammar,
    sample_trees,
    sentence,
    tree_log_probability,
    with_lexicon,
    word_scores,
)
from grammar.grammars import same_parses as same

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.chart import _chart, decode
from spacy_structlearn.grammar.chart.constraints import Compiler
from spacy_structlearn.grammar.chart.decode import DECODERS, ChartParser
from spacy_structlearn.grammar.latent.em import treebank_grammar
from spacy_structlearn.grammar.latent.model import LatentGrammar
from spacy_structlearn.grammar.spans.model import SpanGrammar
from spacy_structlearn.grammar.treebank.data import binarize
from spacy_structlearn.trees.parse import calibrate, tag_shares


def parse_one(grammar, words, tags=None, tag_weight=np.inf, **settings):
    given_tags = None if tags is None else [tags]
    return ChartParser(grammar, **settings).parse([words], given_tags, tag_weight=tag_weight)[0]


class Scores:
    """A random score of each symbol over each span."""

    def scores(self, sentences, graphs):
        return np.array([np.sin(a + 3 * i + 7 * j * j) for a, i, j in graphs.items.tolist()])


PARSERS = {
    "a grammar": ChartParser,
    "with scores": lambda grammar, **settings: ChartParser(
        SpanGrammar(grammar), scorers=[Scores()], **settings
    ),
}


@pytest.fixture(params=PARSERS)
def any_parser(request):
    """From a grammar and settings to a parser, with scores of spans or without."""
    return PARSERS[request.param]


# --- pruning and levels --------------------------------------------------------------------------
def test_pruning_changes_little():
    grammar = sample_grammar(3)
    trees = [tree for tree in sample_trees() if len(tree.words()) <= 12]
    sentences = [tree.words() for tree in trees]
    exact, pruned = (
        ChartParser(grammar, **t).parse(sentences) for t in ({"thresholds": NEVER}, {})
    )
    equal = 0
    for a, b in zip(exact, pruned, strict=True):
        assert a.log_likelihood - 0.05 < b.log_likelihood < a.log_likelihood + 1e-4
        equal += key_of(a) == key_of(b)
        if key_of(a) == key_of(b):
            np.testing.assert_allclose(a.probabilities, b.probabilities, atol=0.04)
    assert equal >= len(trees) - 1 > 20


def test_levels_may_be_left_out():
    grammar, words = random_grammar(3, n_levels=4), sentence(3, 5)
    every = parse_one(grammar, words, thresholds=NEVER)
    some = parse_one(grammar, words, levels=(0, 2, 3), thresholds=(0.0, 0.0))
    assert (every.levels, some.levels) == (4, 3)
    some.levels = 4
    assert same(every, some, atol=1e-6)


def test_levels_without_a_parse_are_left_out():
    grammar, words = random_grammar(2, n_levels=4), sentence(2, 5)
    tables = grammar.lexicon.tables
    for dead in (1, 2, 3):
        # The words of one level and of those after it are impossible.
        broken = Table(WORDS, [table * (level < dead) for level, table in enumerate(tables)])
        parse = parse_one(with_lexicon(grammar, broken), words, thresholds=NEVER)
        lesser = LatentGrammar(
            grammar.symbols, grammar.rules, grammar.levels[:dead], Table(WORDS, tables[:dead])
        )
        assert parse.levels == dead
        assert same(parse, parse_one(lesser, words, thresholds=NEVER), atol=1e-6)


@pytest.mark.parametrize("n_levels", [1, 3])
def test_thresholds_that_prune_everything_are_lowered(any_parser, n_levels):
    for seed in range(3):
        parser = any_parser(random_grammar(seed, n_levels=n_levels), thresholds=(1.0,) * 7)
        for words in (sentence(n, n) for n in (1, 3, 20)):
            (parse,) = parser.parse([words])
            assert parse.failed == (parse.levels == 0)
            assert parse.levels <= n_levels
            assert parse.tree(words).words() == words


@pytest.mark.parametrize("n_levels", [1, 3])
def test_a_hasty_parser_prunes_more_and_gives_up_if_nothing_is_left(n_levels):
    grammar = sample_grammar(n_levels)
    words = ["The", "town", "council", "opened", "the", "market", "."]
    parser = ChartParser(grammar, thresholds=(1.0,) * 7)
    lowered, flat = parser.parse([words, words], hasty=[False, True])
    assert same(lowered, *parser.parse([words]))
    assert (lowered.failed, flat.failed, flat.levels) == (False, True, 0)
    assert flat.spans == [(grammar.top_label, 0, len(words))]
    low, high = (ChartParser(grammar, thresholds=(t,) * 7) for t in (0.01, 0.03))
    (hasty,) = low.parse([words], hasty=[True])
    assert same(hasty, *high.parse([words]))
    assert not same(hasty, *low.parse([words]))


@pytest.mark.parametrize("decoder", DECODERS)
def test_nothing_is_pruned_that_must_be(decoder):
    # Each bracket of an improbable tree must be, with the thresholds of the package.
    trees = [tree for tree in sample_trees() if 2 < len(tree.words()) <= 15]
    parser = ChartParser(sample_grammar(3), decoder=decoder)
    sentences = [tree.words() for tree in trees]
    unlikely = [parser.k_best(words, 40)[-1] for words in sentences]
    wanted = [[(i, j, label, True) for label, i, j in parse.spans] for parse in unlikely]
    found = parser.parse(sentences, constraints=wanted)
    for parse, other in zip(found, unlikely, strict=True):
        assert not parse.unmet
        assert set(other.spans) <= set(parse.spans)
    plain = parser.parse(sentences)
    assert sum(key_of(a) != key_of(b) for a, b in zip(found, plain, strict=True)) > 10


# --- no parse, and other edges -------------------------------------------------------------------
@pytest.mark.parametrize("decoder", DECODERS)
def test_no_parse_gives_a_flat_tree(any_parser, decoder):
    grammar = grammar_from(
        ["a", "b", "c"],
        ["X", "Y"],
        {"X -> a b": 1.0, "Y -> a X": 0.5, "Y -> a c": 0.5},
        {},
        {"X": 0.3, "Y": 0.7},
        {("a", "a"): 1.0, ("b", "b"): 1.0, ("c", "b"): 0.5},
    )
    parser = any_parser(grammar, decoder=decoder)
    parses = parser.parse([["b", "a"], ["a", "a", "b"], [], ["b"], ["a", "a", "b", "b"]])
    assert [parse.failed for parse in parses] == [True, False, False, True, True]
    flat, tree, empty = parses[:3]
    assert (flat.spans, flat.tags) == ([("Y", 0, 2)], ["b", "a"])
    assert str(flat.tree(["b", "a"])) == "(TOP (Y (b b) (a a)))"
    assert (flat.log_probability, flat.log_likelihood, flat.levels) == (-np.inf, -np.inf, 0)
    assert flat.probabilities.tolist() == [0.0]
    assert str(tree.tree(["a", "a", "b"])) == "(TOP (Y (a a) (X (a a) (b b))))"
    assert tree.log_probability == pytest.approx(0.0, abs=1e-6)
    assert key_of(empty) == ((), ())
    assert [parse.failed for parse in parser.k_best(["b", "a"], 3)] == [True]
    assert [key_of(parse) for parse in parser.k_best([], 3)] == [((), ())]
    assert parser.k_best(["b"], 0) == parser.parse([]) == []
    graphs, numbers = parser.forests([["b", "a"], []])
    assert len(graphs) == len(numbers) == 0


def test_no_parse_without_a_phrase_under_the_root():
    # Only one-word sentences: the flat tree has the label of the root.
    grammar = grammar_from(["t"], [], {}, {}, {"t": 1.0}, {("t", "w"): 0.5}, top="ROOT")
    one, two, none = ChartParser(grammar).parse([["w"], ["w", "w"], []])
    assert (one.spans, one.tags, one.failed) == ([], ["t"], False)
    assert str(one.tree(["w"])) == "(ROOT (t w))"
    assert one.log_likelihood == pytest.approx(np.log(0.5))
    assert two.failed
    assert two.tree(["w", "w"]).words() == ["w", "w"]
    assert one.root == two.root == none.root == "ROOT"


@pytest.mark.parametrize("decoder", DECODERS)
def test_long_sentences(decoder):
    grammar = chain_grammar(2)
    parser = ChartParser(grammar, decoder=decoder)
    for n in (1, 2, 300):
        words = sentence(n, n, ["a", "b"])
        with np.errstate(all="raise"):
            (parse,) = parser.parse([words])
        assert parse.levels == 2
        assert np.isfinite(parse.probabilities).all()
        assert parse.log_probability <= 1e-3
        if decoder != "labelled_recall":
            log_tree = tree_log_probability(grammar, parse.tree(words), word_scores(grammar, words))
            assert parse.log_probability == pytest.approx(log_tree - parse.log_likelihood, abs=1e-3)


@pytest.mark.parametrize("decoder", DECODERS)
def test_trees_far_less_probable_than_their_sentence(decoder):
    # All trees of 80 words are about as good, and there are more than 2**126 of them. Substates
    # say so little that the variational distribution is that of the grammar.
    grammar = grammar_from(
        ["t"], ["X"], {"X -> X X": 0.5}, {"X -> t": 0.5}, {"X": 1.0}, {("t", "w"): 1.0}
    )
    grammar, words = refined(grammar, noise=0.01), ["w"] * 80
    parse = parse_one(grammar, words, decoder=decoder, thresholds=NEVER)
    log_tree = tree_log_probability(grammar, parse.tree(words), word_scores(grammar, words))
    assert parse.log_probability == pytest.approx(log_tree - parse.log_likelihood, abs=1e-3)
    assert parse.log_probability < -126 * np.log(2)


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_the_scale_of_words_shifts_the_likelihood_alone(factor):
    grammar = random_grammar(5)
    scaled = with_lexicon(grammar, grammar.lexicon.scaled(factor))
    for n in (1, 4, 40):
        words = sentence(n, n)
        a, b = parse_one(grammar, words), parse_one(scaled, words)
        assert key_of(a) == key_of(b)
        assert b.log_likelihood == pytest.approx(a.log_likelihood + n * np.log(factor), rel=1e-6)
        assert b.log_probability == pytest.approx(a.log_probability, abs=1e-3)


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
@pytest.mark.parametrize("decoder", DECODERS)
def test_words_without_sound_scores(decoder, value):
    grammar = random_grammar(5)
    broken = [np.full_like(table, value) for table in grammar.lexicon.tables]
    grammar = with_lexicon(grammar, Table(WORDS, broken))
    words = sentence(1, 5)
    assert parse_one(grammar, words, decoder=decoder).tree(words).words() == words


# --- tags ----------------------------------------------------------------------------------------
def tags_of(grammar, words, seed=0):
    """Random tags that the words may have, or ""."""
    rng = np.random.default_rng(seed)
    rows = word_scores(grammar, words, 0)
    allowed = [[grammar.symbols.tags[t] for t in np.flatnonzero(row)] for row in rows]
    return [str(rng.choice([*own, ""])) for own in allowed]


def probable_tags(grammar, words, seed=0):
    """Random probabilities of the tags of words, of some of which one is certain."""
    rng = np.random.default_rng(seed)
    names = [*grammar.symbols.tags, "nowhere"]
    some = [dict(zip(names, p.tolist(), strict=True)) for p in rng.dirichlet([0.5] * 4, len(words))]
    pairs = zip(tags_of(grammar, words, seed), some, strict=True)
    return [one if rng.random() < 0.3 else other for one, other in pairs]


def check_tagged(parse, grammar, rows):
    """Compare a parse with NumPy, given the scores of words with their tags. Returns P(words)."""
    q = numpy_posteriors(grammar.levels[-1], 3, rows)
    assert parse.failed == (q.total == 0)
    if parse.failed:
        return 0.0
    index, brackets = grammar.symbols.phrase_index, q.upper + q.lower - q.same
    expected = [brackets[i, j, index[label]] for label, i, j in parse.spans]
    np.testing.assert_allclose(parse.probabilities, expected, atol=1e-5)
    return q.total


@pytest.mark.parametrize("decoder", DECODERS)
def test_tags_are_certain(decoder):
    for seed in range(8):
        grammar, words = random_grammar(seed, tags_of_words=0.9), sentence(seed, 5)
        tags = tags_of(grammar, words, seed)
        parse = parse_one(grammar, words, tags, decoder=decoder, thresholds=NEVER)
        rows = word_scores(grammar, words)
        of = np.repeat(grammar.symbols.tags, grammar.levels[-1].substates[:3])
        for row, tag in zip(rows, tags, strict=True):
            row[(of != tag) & (tag != "")] = 0.0
        total = check_tagged(parse, grammar, rows)
        assert parse.failed or all(
            own in ("", found) for own, found in zip(tags, parse.tags, strict=True)
        )
        assert parse.failed or parse.log_likelihood == pytest.approx(np.log(total), abs=1e-5)
        # One tag with the probability 1 is that tag.
        other = [{tag: 1.0} if tag else {} for tag in tags]
        for weight in (1.5, np.inf):
            one, two = (
                parse_one(grammar, words, t, weight, decoder=decoder) for t in (tags, other)
            )
            assert same(one, two)


@pytest.mark.parametrize("weight", [0.0, 0.5, 3.0, -2.0])
@pytest.mark.parametrize("made", [tags_of, probable_tags])
def test_tags_as_a_prior(made, weight):
    for seed in range(6):
        grammar, words = random_grammar(seed, tags_of_words=0.9), sentence(seed, 5)
        tags = made(grammar, words, seed)
        raised = np.exp(weight * tag_shares(tags, grammar.symbols.tag_index))
        raised = np.repeat(raised, grammar.levels[-1].substates[:3], axis=1)
        parse = parse_one(grammar, words, tags, weight, thresholds=NEVER)
        rows = word_scores(grammar, words) * raised
        total = check_tagged(parse, grammar, rows)
        if not parse.failed:
            log_tree = tree_log_probability(grammar, parse.tree(words), rows)
            expected = log_tree - np.log(total)
            assert parse.log_probability == pytest.approx(expected, abs=1e-4)


def test_the_most_probable_tag_is_required():
    grammar, words = chain_grammar(2), ["b", "a", "b", "b"]
    likely = [{"u": 0.3, "t": 0.6}, "", {"t": 0.2, "u": 0.7, "v": 0.1}, {"v": 0.9, "u": 0.1}]
    expected = parse_one(grammar, words, ["t", "", "u", "u"])
    assert not expected.failed
    assert same(parse_one(grammar, words, likely), expected)
    # It is in flat trees too.
    flat = parse_one(grammar, ["b", "b", "a"], [{"u": 0.8, "t": 0.2}, {"t": 1.0}, "t"])
    assert (flat.failed, flat.tags) == (True, ["u", "t", "t"])


def test_tags_that_say_nothing():
    grammar, words = random_grammar(3), sentence(3, 6)
    expected = parse_one(grammar, words)
    other = ["nowhere", "TOP", "A", "@B", "", "?"]
    for tags, weight in (([""] * 6, np.inf), (other, np.inf), (other, 5.0)):
        assert same(parse_one(grammar, words, tags, weight), expected)
    for tags in (tags_of(grammar, words), probable_tags(grammar, words)):
        assert same(parse_one(grammar, words, tags, 0.0), expected)


def test_words_never_seen_with_their_tag():
    # "a" is only a t; here it is said to be a u.
    grammar, words, tags = chain_grammar(2), ["b", "a"], ["t", "u"]
    certain = parse_one(grammar, words, tags)
    assert (certain.tags, certain.failed) == (["t", "u"], False)
    for weight in (1.0, 1e4):
        weighted = parse_one(grammar, words, tags, weight)
        assert (weighted.tags, weighted.failed) == (["t", "t"], False)
    # The likelihood of such a word does not matter: the trees are those of a word with that tag.
    assert certain.spans == parse_one(grammar, ["b", "b"], ["t", "u"]).spans


def test_tags_of_unknown_words_weigh_more(monkeypatch):
    parser = ChartParser(sample_grammar())
    known = [parser.grammar.lexicon.words[place] for place in (3, 1, 2)]
    unknown = ["blorps", "zwanging", "Quoddly"]

    def parse(words, weight):
        return parser.parse([words], [["NN", "VBZ", "RB"]], tag_weight=weight)[0]

    raised, of_known = parse(unknown, 2.0), parse(known, 2.0)
    monkeypatch.setattr(decode, "UNKNOWN_WORDS", 1.0)
    assert same(parse(unknown, 3.0), raised)
    assert not same(parse(unknown, 2.0), raised)
    assert same(parse(known, 2.0), of_known)


# --- what is returned ----------------------------------------------------------------------------
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
def test_the_inserted_root_is_left_out(binarization, decoder):
    trees = flat_trees()
    grammar = treebank_grammar(binarize(trees, binarization))
    assert grammar.symbols.inserted_root >= 0
    parser = ChartParser(grammar, decoder=decoder)
    parses = parser.parse([t.words() for t in trees], [t.tags() for t in trees])
    for tree, parse in zip(trees, parses, strict=True):
        assert parse.tree(tree.words()) == tree
        assert len(parse.probabilities) == len(parse.labels)
        assert parser.k_best(tree.words(), 1, tree.tags())[0].tree(tree.words()) == tree


@pytest.mark.parametrize("decoder", DECODERS)
def test_the_temperature(decoder):
    grammar, words, _ = few_trees(4, 30, **SMALL)
    for make in (
        lambda t: grammar.replaced(temperature=t),
        lambda t: SpanGrammar(grammar, 1, None, t),
    ):
        plain, warm = (parse_one(make(t), words, decoder=decoder) for t in (1.0, 2.0))
        assert key_of(warm) == key_of(plain)
        expected = calibrate(plain.probabilities, 2.0)
        np.testing.assert_allclose(warm.probabilities, expected, atol=1e-6)
        assert warm.log_probability == plain.log_probability


# --- batches and threads -------------------------------------------------------------------------
def test_batches_and_threads_change_nothing(any_parser, monkeypatch):
    grammar, rng = chain_grammar(2), np.random.default_rng(0)
    sentences = [sentence(i, n, ["a", "b"]) for i, n in enumerate(rng.integers(12, size=60))]
    # Of some tags there is no tree, and some constraints are not met.
    tags = [["u" if rng.random() < 0.1 else "" for _ in words] for words in sentences]
    wanted = [[(0, len(words), None, rng.random() < 0.5)] if words else None for words in sentences]
    alone = any_parser(grammar)
    expected = [
        alone.parse([words], [own], constraints=[must])[0]
        for words, own, must in zip(sentences, tags, wanted, strict=True)
    ]
    assert 5 < sum(parse.failed for parse in expected) < 50
    assert {parse.unmet for parse in expected} == {False, True}
    for size in (1, 30, 4000):
        monkeypatch.setattr(decode, "_BATCH_WORDS", size)
        for threads in (1, 3):
            parser = any_parser(grammar, threads=threads)
            found = parser.parse(sentences, tags, constraints=wanted)
            assert all(same(*pair) for pair in zip(found, expected, strict=True))
            assert [x.unmet for x in found] == [x.unmet for x in expected]


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_grammar_without_a_parse_has_no_say(decoder):
    grammar, mute = random_grammar(4), random_grammar(4, variant=1)
    mute = with_lexicon(mute, mute.lexicon.scaled(0))
    words = sentence(4, 5)
    one, two = (
        parse_one(g, words, decoder=decoder, thresholds=NEVER) for g in (grammar, [grammar, mute])
    )
    assert same(one, two, atol=1e-6)
    assert parse_one([mute, grammar], words, decoder=decoder).failed


def test_constraints_that_say_nothing_change_nothing():
    parser = ChartParser(random_grammar(3))
    sentences = [sentence(seed, 4 + seed) for seed in range(4)]
    expected = parser.parse(sentences)
    vacuous = [(0, 3, "Nowhere", False)]
    for none in (None, [None] * 4, [[], None, (), []], [vacuous] * 4):
        found = parser.parse(sentences, constraints=none)
        assert all(same(*pair, atol=1e-6) for pair in zip(found, expected, strict=True))


# --- arguments -----------------------------------------------------------------------------------
def test_what_cannot_parse():
    grammar = random_grammar(0)
    span_grammar = SpanGrammar(grammar)
    for code, grammars in (
        ("SL420", []),
        ("SL420", LatentGrammar.empty()),
        ("SL420", [grammar, LatentGrammar.empty()]),
        ("SL420", SpanGrammar.empty()),
        ("SL422", [grammar, random_grammar(1)]),
        ("SL422", [grammar, random_grammar(0, n_tags=4)]),
        ("SL422", [grammar, random_grammar(0, root="ROOT")]),
        ("SL426", [span_grammar]),
        ("SL426", [grammar, span_grammar]),
    ):
        with pytest.raises(StructlearnError, match=code):
            ChartParser(grammars)
    assert ChartParser([grammar, random_grammar(0, variant=3, n_levels=1)])


@pytest.mark.parametrize(
    "bad",
    [
        {"decoder": "best"},
        *({"levels": levels} for levels in ((1, 2), (0, 1), (0, 2, 1), (0, 1, 2, 3), ())),
        *({"thresholds": t} for t in ((0.1,), (0.1, -0.1), (0.1, np.nan), (2.0, 0.1))),
        {"threads": 0},
    ],
)
def test_settings_out_of_range(bad):
    with pytest.raises(StructlearnError, match="SL421"):
        ChartParser(random_grammar(0), **bad)


def test_arguments_of_other_sentences():
    parser = ChartParser(random_grammar(0))
    words = ["w0", "w1"]
    for tags in ([["a"]], [["a", "b", "c"]], [], [["a", "b"], ["a"]]):
        with pytest.raises(StructlearnError, match="SL423"):
            parser.parse([words], tags)
    for bad in (
        (0, 0, None, True), (1, 0, None, True), (-1, 1, None, True), (0, 3, None, True),
        (0, 1, 5, True), (0, 1, None), 7, ("0", 1, None, True),
    ):  # fmt: skip
        with pytest.raises(StructlearnError, match="SL428"):
            parser.parse([words], constraints=[[bad]])
        with pytest.raises(StructlearnError, match="SL428"):
            parser.k_best(words, 1, constraints=[bad])
    with pytest.raises(StructlearnError, match="SL429"):
        parser.parse([words], constraints=[None, None])


def test_limits_that_do_not_fit_the_kernel():
    grammar, words, _ = few_trees(3)
    parser = ChartParser(grammar)
    limits = Compiler(grammar).limited([(0, 2, None, True)], 3).limits
    lexicon = parser._scores([decode._Request(words)], np.inf)
    chart, offsets = _chart.Chart(), np.array([0, 3])
    assert chart.hypergraphs(parser._parser, lexicon, [], offsets, [limits])
    far = limits.spans.copy()
    far[0, 1] = 1
    changes = (
        {"spans": limits.spans[:, :3].copy()},
        {"spans": far},
        {"whole": limits.whole[:, 1:].copy()},
        {"unary": limits.unary[:0]},
    )
    for wrong in ([], *([limits._replace(**change)] for change in changes)):
        with pytest.raises(ValueError, match="limits"):
            chart.hypergraphs(parser._parser, lexicon, [], offsets, wrong)


# --- sentences that are too long -----------------------------------------------------------------
def test_a_sentence_is_too_long(monkeypatch):
    parser = ChartParser(chain_grammar())
    long = ["a"] * 2**15 + ["b"]
    for call in (lambda: parser.parse([["a"], long]), lambda: parser.k_best(long, 2)):
        with pytest.raises(StructlearnError, match=r"SL444.* 32769 words"):
            call()

    def none(*arguments):
        raise MemoryError

    monkeypatch.setattr(parser, "_forests", none)
    sentences = [["a"], ["a", "b"]]
    for call in (parser.parse, parser.forests, lambda x: parser.k_best(x[1], 2)):
        with pytest.raises(StructlearnError, match=r"SL444.* 2 words"):
            call(sentences)


@pytest.mark.parametrize(
    ("present", "more", "room"),
    [
        (10, 0, 10),
        (10, 2, 10 + 2 + 6 + 256),
        (2**31 - 10, 8, (2**31 - 2) * 3 // 2 + 256),
        (2**31 - 10, 9, -1),
        (2**31 - 2, 2**31 - 2, -1),
        (0, 2**40, -1),
    ],
)
def test_numbers_of_edges_do_not_overflow(present, more, room):
    assert _chart.room(present, more) == room
