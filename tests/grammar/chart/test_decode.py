"""The parser: decoders against enumeration, pruning, tags, products of grammars, edge cases."""

import numpy as np
import pytest
from grammar.grammars import (
    NEVER,
    SHAPES,
    SMALL,
    WORDS,
    Table,
    as_members,
    chain_grammar,
    few_trees,
    grammar_from,
    key_of,
    numpy_log_likelihood,
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
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.chart import compiled, decode
from spacy_structlearn.grammar.chart.decode import DECODERS, ChartParser
from spacy_structlearn.grammar.latent.model import LatentGrammar
from spacy_structlearn.trees.parse import calibrate, tag_shares

EXACT = [decoder for decoder in DECODERS if decoder != "labelled_recall"]


def parse_one(grammar, words, tags=None, tag_weight=np.inf, **settings):
    given_tags = None if tags is None else [tags]
    return ChartParser(grammar, **settings).parse([words], given_tags, tag_weight=tag_weight)[0]


def check_brackets(parse, grammar, posteriors):
    """The probabilities of a parse without chains against those of `numpy_posteriors`."""
    brackets = posteriors.upper + posteriors.lower - posteriors.same
    expected = [brackets[i, j, grammar.symbols.phrase_index[label]] for label, i, j in parse.spans]
    np.testing.assert_allclose(parse.probabilities, expected, atol=1e-5)


# --- decoders ------------------------------------------------------------------------------------
@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("n", "least"), [(1, 2), (2, 5), (3, 20), (4, 100)])
def test_the_best_of_all_trees(n, least, shape, decoder):
    for seed in (0, 100):
        grammar, words, trees = few_trees(n, least, first_seed=seed, shape=shape, **SMALL)
        parse = parse_one(grammar, words, decoder=decoder, thresholds=NEVER)
        scores = trees.scores(decoder)
        mine = [x for x, tree in enumerate(trees.trees) if trees.key(tree) == key_of(parse)]
        assert max(scores[mine]) == pytest.approx(scores.max(), abs=1e-4)
        assert parse.log_likelihood == pytest.approx(np.log(trees.total), abs=1e-5)
        # Two trees with intermediates in other places look the same.
        logs = trees.log_probabilities(decoder)[mine]
        assert min(abs(logs - parse.log_probability)) < 1e-4
        for (label, i, j), found in zip(parse.spans, parse.probabilities, strict=True):
            symbol = grammar.symbols.phrase_index[label]
            assert found == pytest.approx(trees.bracket(symbol, i, j), abs=1e-5)


def test_decoders_differ():
    found = set()
    grammar, words, _ = few_trees(4, 100, first_seed=7, **SMALL)
    for seed in range(30):
        words = sentence(seed, 6)
        parses = [parse_one(grammar, words, decoder=decoder) for decoder in DECODERS]
        found.add(len({key_of(parse) for parse in parses}))
    assert max(found) > 1


@pytest.mark.parametrize("decoder", [d for d in DECODERS if d != "viterbi"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [1, 3, 4])
def test_k_best(n, shape, decoder):
    grammar, words, trees = few_trees(n, 2 if n == 1 else 30, 400, shape=shape, **SMALL)
    parser = ChartParser(grammar, decoder=decoder, thresholds=NEVER)
    # Labelled recall ranks trees by their probability.
    by_brackets = decoder == "labelled_recall"
    scores = trees.log_probabilities(decoder) if by_brackets else trees.scores(decoder)
    order = np.argsort(-scores)
    everything = parser.k_best(words, 10_000)
    assert len(everything) == len(trees.trees)
    for rank, parse in enumerate(everything):
        # Which trees could be here: those of (nearly) this score.
        near = np.flatnonzero(abs(scores - scores[order[rank]]) < 1e-3)
        there = [x for x in near if trees.key(trees.trees[x]) == key_of(parse)]
        logs = trees.log_probabilities(decoder)[there]
        assert min(abs(logs - parse.log_probability)) < 1e-3
        assert parse.log_likelihood == pytest.approx(np.log(trees.total), abs=1e-5)
        assert not parse.failed
        assert parse.levels == 3
    total = sum(np.exp(parse.log_probability) for parse in everything)
    assert total == pytest.approx(1, abs=1e-4)
    for k in (0, 1, 2, 10):
        fewer = parser.k_best(words, k)
        assert len(fewer) == min(k, len(everything))
        assert all(same(a, b) for a, b in zip(fewer, everything, strict=False))
    assert by_brackets or same(everything[0], parser.parse([words])[0], atol=1e-6)


def test_k_best_of_viterbi_are_those_of_the_product():
    grammar, words, _ = few_trees(4, 30, **SMALL)
    expected = ChartParser(grammar, thresholds=NEVER).k_best(words, 20)
    found = ChartParser(grammar, thresholds=NEVER, decoder="viterbi").k_best(words, 20)
    assert [key_of(parse) for parse in found] == [key_of(parse) for parse in expected]


def test_k_best_of_what_cannot_be_parsed():
    grammar = random_grammar(1)
    parser = ChartParser(with_lexicon(grammar, grammar.lexicon.scaled(0)))
    assert [parse.failed for parse in parser.k_best(["w0", "w1"], 3)] == [True]
    assert [key_of(parse) for parse in parser.k_best([], 3)] == [((), ())]
    assert parser.k_best(["w0"], 0) == []


# --- labelled recall -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("share", "spans"),
    [(0.6, "AB"), (0.52, "AB"), (0.45, "B"), (0.05, "B")],
)
def test_a_bracket_has_its_price(share, spans):
    grammar = grammar_from(
        ["t"],
        ["A", "B"],
        {"B -> t t": 1.0},
        {"A -> B": 1.0},
        {"A": share, "B": 1 - share},
        {("t", "w"): 1.0},
    )
    parse = parse_one(grammar, ["w", "w"], decoder="labelled_recall")
    assert parse.labels == list(spans)
    expected = [share, 1.0][-len(spans) :]
    np.testing.assert_allclose(parse.probabilities, expected, atol=1e-6)
    likelier = share if len(spans) == 2 else 1 - share
    assert parse.log_probability == pytest.approx(np.log(likelier), abs=1e-6)
    # The likeliest tree has no such price.
    best = parse_one(grammar, ["w", "w"], decoder="variational")
    assert best.labels == list("AB" if share > 0.5 else "B")


# --- posteriors and likelihood -------------------------------------------------------------------
@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(1, 7),
    st.sampled_from(SHAPES),
    st.sampled_from(DECODERS),
    st.sampled_from([0.0, 1e-6, 1e-3, 0.05, 0.4, 1.0]),
    st.booleans(),
)
def test_whatever_is_parsed_is_a_tree(seed, n, shape, decoder, threshold, root_tags):
    grammar = random_grammar(seed, shape=shape, root_tags=root_tags)
    words = sentence(seed, n)
    parse = parse_one(grammar, words, decoder=decoder, thresholds=(threshold,) * 7)
    tree = parse.tree(words)
    assert tree.words() == words
    assert tree.tags() == parse.tags
    assert tree.spans() == [("TOP", 0, n), *parse.spans]
    assert parse.failed == (parse.levels == 0)
    assert parse.probabilities.dtype == np.float32
    assert ((parse.probabilities >= 0) & (parse.probabilities <= 1)).all()
    rows = word_scores(grammar, words, 0)
    likelihood = numpy_log_likelihood(grammar.levels[0], grammar.symbols.n_tags, rows)
    assert parse.failed == (likelihood == -np.inf)
    if parse.failed:
        assert parse.log_probability == parse.log_likelihood == -np.inf
        return
    assert parse.log_probability <= 1e-5
    rows = word_scores(grammar, words, parse.levels - 1)
    level = grammar.levels[parse.levels - 1]
    likelihood = numpy_log_likelihood(level, grammar.symbols.n_tags, rows)
    # What is pruned is missing.
    assert parse.log_likelihood <= likelihood + 1e-5
    if not threshold:
        assert parse.log_likelihood == pytest.approx(likelihood, abs=1e-5)
        posteriors = numpy_posteriors(level, grammar.symbols.n_tags, rows)
        check_brackets(parse, grammar, posteriors)
    if shape != "any" and decoder in EXACT:
        log_tree = tree_log_probability(grammar, tree, rows, parse.levels - 1)
        assert parse.log_probability == pytest.approx(log_tree - parse.log_likelihood, abs=1e-4)


@pytest.mark.parametrize("shape", ["right", "left"])
def test_pruning_changes_little(shape):
    grammar = sample_grammar(3, shape)
    trees = [tree for tree in sample_trees() if len(tree.words()) <= 12]
    sentences = [tree.words() for tree in trees]
    exact = ChartParser(grammar, thresholds=NEVER).parse(sentences)
    pruned = ChartParser(grammar).parse(sentences)
    assert len(trees) > 20
    equal = 0
    for a, b in zip(exact, pruned, strict=True):
        assert a.log_likelihood - 0.05 < b.log_likelihood < a.log_likelihood + 1e-4
        equal += key_of(a) == key_of(b)
        if key_of(a) == key_of(b):
            np.testing.assert_allclose(a.probabilities, b.probabilities, atol=0.04)
    assert equal >= len(trees) - 1


def test_edges_may_be_pruned_less():
    grammar = random_grammar(3)
    words = sentence(3, 7)
    every = parse_one(grammar, words, thresholds=(1e-2,) * 7, edge_factor=0.0)
    few = parse_one(grammar, words, thresholds=(1e-2,) * 7, edge_factor=1.0)
    assert few.log_likelihood < every.log_likelihood


def test_levels_may_be_left_out():
    grammar = random_grammar(3, n_levels=4)
    words = sentence(3, 5)
    every = parse_one(grammar, words, thresholds=NEVER)
    some = parse_one(grammar, words, levels=(0, 2, 3), thresholds=(0.0, 0.0))
    assert (every.levels, some.levels) == (4, 3)
    some.levels = 4
    assert same(every, some, atol=1e-6)


def test_levels_without_a_parse_are_left_out():
    grammar = random_grammar(2, n_levels=4)
    words = sentence(2, 5)
    tables = grammar.lexicon.tables
    for dead in (1, 2, 3):
        # The words of one level and of those after it are impossible.
        broken = Table(WORDS, [table * (level < dead) for level, table in enumerate(tables)])
        parse = parse_one(with_lexicon(grammar, broken), words, thresholds=NEVER)
        assert parse.levels == dead
        lesser = LatentGrammar(
            grammar.symbols, grammar.rules, grammar.levels[:dead], Table(WORDS, tables[:dead])
        )
        assert same(parse, parse_one(lesser, words, thresholds=NEVER), atol=1e-6)


# --- no parse, and other edges -------------------------------------------------------------------
def test_no_parse_gives_a_flat_tree():
    grammar = grammar_from(
        ["a", "b", "c"],
        ["X", "Y"],
        {"X -> a b": 1.0, "Y -> a X": 0.5, "Y -> a c": 0.5},
        {},
        {"X": 0.3, "Y": 0.7},
        {("a", "a"): 1.0, ("b", "b"): 1.0, ("c", "b"): 0.5},
    )
    for decoder in DECODERS:
        parser = ChartParser(grammar, decoder=decoder)
        parses = parser.parse([["b", "a"], ["a", "a", "b"], ["b"], ["a", "a", "b", "b"]])
        assert [parse.failed for parse in parses] == [True, False, True, True]
        flat = parses[0]
        assert flat.spans == [("Y", 0, 2)]
        assert flat.tags == ["b", "a"]
        assert str(flat.tree(["b", "a"])) == "(TOP (Y (b b) (a a)))"
        assert (flat.log_probability, flat.log_likelihood, flat.levels) == (-np.inf, -np.inf, 0)
        assert flat.probabilities.tolist() == [0.0]
        assert str(parses[1].tree(["a", "a", "b"])) == "(TOP (Y (a a) (X (a a) (b b))))"
        assert parses[1].log_probability == pytest.approx(0.0, abs=1e-6)


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


def test_no_parse_without_a_phrase_under_the_root():
    # Only one-word sentences: the flat tree has the label of the root.
    grammar = grammar_from(["t"], [], {}, {}, {"t": 1.0}, {("t", "w"): 0.5})
    one, two = ChartParser(grammar).parse([["w"], ["w", "w"]])
    assert (one.spans, one.tags, one.failed) == ([], ["t"], False)
    assert str(one.tree(["w"])) == "(TOP (t w))"
    assert one.log_likelihood == pytest.approx(np.log(0.5))
    assert two.failed
    assert two.tree(["w", "w"]).words() == ["w", "w"]


@pytest.mark.parametrize("decoder", DECODERS)
def test_long_sentences(decoder):
    grammar = chain_grammar(2)
    parser = ChartParser(grammar, decoder=decoder)
    for n in (1, 2, 100, 300):
        words = sentence(n, n, ["a", "b"])
        with np.errstate(all="raise"):
            parse = parser.parse([words])[0]
        assert parse.levels == 2
        assert np.isfinite(parse.probabilities).all()
        rows = word_scores(grammar, words)
        log_tree = tree_log_probability(grammar, parse.tree(words), rows)
        if decoder in EXACT:
            log_tree -= parse.log_likelihood
            assert parse.log_probability == pytest.approx(log_tree, abs=1e-3)
        assert parse.log_probability <= 1e-3


@pytest.mark.parametrize("decoder", DECODERS)
def test_trees_far_less_probable_than_their_sentence(decoder):
    # All trees of 80 words are about as good, and there are more than 2**126 of them. Substates
    # say so little that the variational distribution is that of the grammar.
    grammar = grammar_from(
        ["t"], ["X"], {"X -> X X": 0.5}, {"X -> t": 0.5}, {"X": 1.0}, {("t", "w"): 1.0}
    )
    grammar = refined(grammar, noise=0.01)
    words = ["w"] * 80
    parse = parse_one(grammar, words, decoder=decoder, thresholds=NEVER)
    rows = word_scores(grammar, words)
    log_tree = tree_log_probability(grammar, parse.tree(words), rows)
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
        np.testing.assert_allclose(a.probabilities, b.probabilities, atol=1e-4)


def test_empty_sentences_and_batches():
    parser = ChartParser(random_grammar(2))
    assert parser.parse([]) == []
    assert parser.parse([], []) == []
    words = sentence(1, 4)
    parses = parser.parse([[], words, [], []])
    assert [len(parse.tags) for parse in parses] == [0, 4, 0, 0]
    assert same(parses[1], parser.parse([words])[0])
    for parse in (parses[0], parses[2]):
        assert parse.spans == []
        assert not parse.failed
    # No two of them are one object.
    parses[0].labels.append("X")
    assert parses[2].labels == parses[3].labels == []
    assert [parse.spans for parse in parser.parse([[], []])] == [[], []]


def test_sentences_may_be_any_iterables():
    parser = ChartParser(random_grammar(2))
    words = sentence(1, 4)
    expected = parser.parse([words])[0]
    assert same(parser.parse(iter([tuple(words)]), iter([("",) * 4]))[0], expected)
    assert same(parser.k_best(tuple(words), 1)[0], expected, atol=1e-6)


# --- tags ----------------------------------------------------------------------------------------
def weighted_rows(grammar, words, tags, weight):
    """Word scores with those of given tags raised by so many nats, or by their shares of them."""
    raised = np.exp(weight * tag_shares(tags, grammar.symbols.tag_index))
    return word_scores(grammar, words) * np.repeat(raised, grammar.levels[-1].substates[:3], axis=1)


def tags_of(grammar, words, seed=0):
    """Random tags that the words may have, or ""."""
    rng = np.random.default_rng(seed)
    rows = word_scores(grammar, words, 0)
    allowed = [[grammar.symbols.tags[t] for t in np.flatnonzero(row)] for row in rows]
    return [str(rng.choice([*own, ""])) for own in allowed]


@pytest.mark.parametrize("decoder", DECODERS)
def test_tags_are_certain(decoder):
    checked = 0
    for seed in range(12):
        grammar = random_grammar(seed, tags_of_words=0.9)
        words = sentence(seed, 5)
        tags = tags_of(grammar, words, seed)
        parse = parse_one(grammar, words, tags, decoder=decoder, thresholds=NEVER)
        rows = word_scores(grammar, words)
        kept = weighted_rows(grammar, words, tags, 1.0) != rows
        rows[np.array(tags) != ""] *= kept[np.array(tags) != ""]
        posteriors = numpy_posteriors(grammar.levels[-1], 3, rows)
        assert parse.failed == (posteriors.total == 0)
        if parse.failed:
            continue
        assert all(own in ("", found) for own, found in zip(tags, parse.tags, strict=True))
        assert parse.log_likelihood == pytest.approx(np.log(posteriors.total), abs=1e-5)
        check_brackets(parse, grammar, posteriors)
        checked += "" in tags and len(set(tags)) > 2
    assert checked > 3


def probable_tags(grammar, words, seed=0):
    """Random probabilities of the tags of words, of some of which one is certain."""
    rng = np.random.default_rng(seed)
    names = [*grammar.symbols.tags, "nowhere"]
    given = [
        dict(zip(names, p.tolist(), strict=True)) for p in rng.dirichlet([0.5] * 4, len(words))
    ]
    certain = tags_of(grammar, words, seed)
    return [one if rng.random() < 0.3 else some for one, some in zip(certain, given, strict=True)]


@pytest.mark.parametrize("weight", [0.0, 0.5, 3.0, -2.0])
@pytest.mark.parametrize("made", [tags_of, probable_tags])
def test_tags_as_a_prior(made, weight):
    for seed in range(6):
        grammar = random_grammar(seed, tags_of_words=0.9)
        words = sentence(seed, 5)
        tags = made(grammar, words, seed)
        parse = parse_one(grammar, words, tags, weight, thresholds=NEVER)
        rows = weighted_rows(grammar, words, tags, weight)
        posteriors = numpy_posteriors(grammar.levels[-1], 3, rows)
        if parse.failed:
            assert posteriors.total == 0
            continue
        check_brackets(parse, grammar, posteriors)
        log_tree = tree_log_probability(grammar, parse.tree(words), rows)
        expected = log_tree - np.log(posteriors.total)
        assert parse.log_probability == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("weight", [0.0, 1.5, np.inf])
@pytest.mark.parametrize("decoder", DECODERS)
def test_one_certain_tag_is_that_tag(decoder, weight):
    for seed in range(6):
        grammar = random_grammar(seed)
        words = sentence(seed, 6)
        tags = tags_of(grammar, words, seed)
        other = [{tag: 1.0} if tag else {} for tag in tags]
        parser = ChartParser(grammar, decoder=decoder)
        expected = parser.parse([words], [tags], tag_weight=weight)[0]
        assert same(parser.parse([words], [other], tag_weight=weight)[0], expected)
        of_k = [parser.k_best(words, 3, given, tag_weight=weight) for given in (tags, other)]
        assert all(same(*pair) for pair in zip(*of_k, strict=True))


def test_the_most_probable_tag_is_required():
    grammar = chain_grammar(2)
    words = ["b", "a", "b", "b"]
    likely = [{"u": 0.3, "t": 0.6}, "", {"t": 0.2, "u": 0.7, "v": 0.1}, {"v": 0.9, "u": 0.1}]
    expected = parse_one(grammar, words, ["t", "", "u", "u"])
    assert not expected.failed
    assert same(parse_one(grammar, words, likely), expected)
    # It is in flat trees too.
    flat = parse_one(grammar, ["b", "b", "a"], [{"u": 0.8, "t": 0.2}, {"t": 1.0}, "t"])
    assert flat.failed
    assert flat.tags == ["u", "t", "t"]


def test_a_prior_of_nothing_changes_nothing():
    grammar = random_grammar(3)
    words = sentence(3, 6)
    expected = parse_one(grammar, words)
    nothing = [""] * 6
    other = ["nowhere", "TOP", "A", "@B", "", "?"]
    assert same(parse_one(grammar, words, nothing), expected)
    assert same(parse_one(grammar, words, other), expected)
    assert same(parse_one(grammar, words, other, 5.0), expected)
    for tags in (tags_of(grammar, words), probable_tags(grammar, words)):
        assert same(parse_one(grammar, words, tags, 0.0), expected)


@pytest.mark.parametrize("weight", [20.0, 80.0, 200.0, 1e6])
def test_a_high_weight_is_nearly_certain(weight):
    grammar = chain_grammar(2)
    words = ["b", "a", "b", "b"]
    for tags in (["t", "", "u", "u"], ["t", "t", "t", "t"]):
        certain = parse_one(grammar, words, tags, thresholds=NEVER)
        weighted = parse_one(grammar, words, tags, weight, thresholds=NEVER)
        assert weighted.tags == certain.tags
        np.testing.assert_allclose(weighted.probabilities, certain.probabilities, atol=1e-4)


def test_words_never_seen_with_their_tag():
    # "a" is only a t; here it is said to be a u.
    grammar = chain_grammar(2)
    words, tags = ["b", "a"], ["t", "u"]
    certain = parse_one(grammar, words, tags)
    assert certain.tags == ["t", "u"]
    assert not certain.failed
    for weight in (1.0, 50.0, 1e4):
        weighted = parse_one(grammar, words, tags, weight)
        assert weighted.tags == ["t", "t"]
        assert not weighted.failed
    # The likelihood of such a word does not matter: the trees are those of a word with that tag.
    other = parse_one(grammar, ["b", "b"], ["t", "u"])
    assert certain.spans == other.spans


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


def test_impossible_tags_give_a_flat_tree_with_them():
    grammar = chain_grammar(2)
    words, tags = ["b", "b", "a"], ["u", "t", "t"]
    parse = parse_one(grammar, words, tags)
    assert parse.failed
    assert parse.tags == tags


def test_not_one_tag_a_word():
    parser = ChartParser(random_grammar(0))
    for tags in ([["a"]], [["a", "b", "c"]], [], [["a", "b"], ["a"]]):
        with pytest.raises(StructlearnError, match="SL423"):
            parser.parse([["w0", "w1"]], tags)


# --- several grammars ----------------------------------------------------------------------------
@pytest.mark.parametrize("decoder", DECODERS)
def test_two_equal_grammars_are_one(decoder):
    grammar = random_grammar(4)
    for n in (1, 5, 12):
        words = sentence(n, n)
        one = parse_one(grammar, words, decoder=decoder, thresholds=NEVER)
        for several in ([grammar, grammar], [grammar, random_grammar(4), grammar]):
            parse = parse_one(several, words, decoder=decoder, thresholds=NEVER)
            assert same(parse, one, atol=1e-5)


@pytest.mark.parametrize("decoder", [d for d in EXACT if d != "viterbi"])
@pytest.mark.parametrize("n", [1, 3, 4])
def test_products_of_grammars(n, decoder):
    grammar, words, trees = few_trees(n, 2 if n == 1 else 30, 400, **SMALL)
    other = random_grammar(trees.seed, variant=1, n_levels=2, **SMALL)
    others = type(trees)(other, word_scores(other, words))
    assert [a.nodes for a in trees.trees] == [b.nodes for b in others.trees]
    scores = trees.scores(decoder) + others.scores(decoder)
    parser = ChartParser([grammar, other], decoder=decoder, thresholds=NEVER)
    parse = parser.parse([words])[0]
    keys = [trees.key(tree) for tree in trees.trees]
    best = keys.index(key_of(parse))
    assert scores[best] == pytest.approx(scores.max(), abs=1e-3)
    # Brackets: the mean of all; the likelihoods: of the first.
    for (label, i, j), found in zip(parse.spans, parse.probabilities, strict=True):
        symbol = grammar.symbols.phrase_index[label]
        mean = (trees.bracket(symbol, i, j) + others.bracket(symbol, i, j)) / 2
        assert found == pytest.approx(mean, abs=1e-5)
    expected = np.log(trees.weights[best] / trees.total)
    assert parse.log_probability == pytest.approx(expected, abs=1e-4)
    assert parse.log_likelihood == pytest.approx(np.log(trees.total), abs=1e-5)
    order = np.argsort(-scores)
    for rank, found in enumerate(parser.k_best(words, 20)):
        near = np.flatnonzero(abs(scores - scores[order[rank]]) < 1e-3)
        assert key_of(found) in [keys[x] for x in near]


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("zeros", [0.0, 0.6])
def test_blocks_may_be_dense_or_listed(decoder, zeros, monkeypatch):
    grammar = random_grammar(3, n_levels=3, zeros=zeros)
    sentences = [sentence(seed, n) for seed, n in enumerate((2, 5, 9, 14))]
    parses = []
    for entries in (10**9, 12, -(10**9)):
        monkeypatch.setattr(compiled, "DENSE_ENTRIES", entries)
        parses.append(ChartParser(grammar, decoder=decoder).parse(sentences))
    for listed, mixed, dense in zip(*parses, strict=True):
        assert same(listed, dense, atol=1e-4)
        assert same(mixed, dense, atol=1e-4)


@pytest.mark.parametrize("decoder", DECODERS)
def test_members_are_a_product(decoder):
    grammar, other = random_grammar(4), random_grammar(4, variant=1, n_levels=2)
    joined = as_members(grammar, other)
    for n in (1, 4, 9):
        words = sentence(n, n)
        product = parse_one([grammar, other], words, decoder=decoder)
        assert same(parse_one(joined, words, decoder=decoder), product)


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_grammar_without_a_parse_has_no_say(decoder):
    grammar = random_grammar(4)
    mute = random_grammar(4, variant=1)
    mute = with_lexicon(mute, mute.lexicon.scaled(0))
    words = sentence(4, 5)
    one = parse_one(grammar, words, decoder=decoder, thresholds=NEVER)
    product = parse_one([grammar, mute], words, decoder=decoder, thresholds=NEVER)
    assert same(product, one, atol=1e-6)
    assert parse_one([mute, grammar], words, decoder=decoder).failed


# --- output --------------------------------------------------------------------------------------
@pytest.mark.parametrize("decoder", DECODERS)
def test_labels_between_have_the_posterior_of_the_chain(decoder):
    found = 0
    unaries = {"n_phrases": 3, "density": 0.05, "unary": 0.9, "n_levels": 2}
    for seed in range(20):
        plain = random_grammar(seed, **unaries)
        first = plain.symbols.n_tags
        chains = {(a, b): (first,) for a, b in plain.rules.unary.tolist() if b >= first}
        grammar = random_grammar(seed, **unaries, chains=chains)
        words = sentence(seed, 4)
        a = parse_one(plain, words, decoder=decoder, thresholds=NEVER)
        b = parse_one(grammar, words, decoder=decoder, thresholds=NEVER)
        spans, probabilities = [], []
        for x, span in enumerate(a.spans):
            if x and a.spans[x - 1][1:] == span[1:]:
                spans.append((plain.symbols.names[first], *span[1:]))
                probabilities.append(None)
                found += 1
            spans.append(span)
            probabilities.append(a.probabilities[x])
        assert b.spans == spans
        for mine, p in zip(b.probabilities, probabilities, strict=True):
            assert p is None or mine == p
            assert 0 <= mine <= 1
    assert found


@pytest.mark.parametrize("binarization", ["right", "left"])
def test_the_sample_is_parsed(binarization):
    grammar = sample_grammar(2, binarization)
    trees = sample_trees()[:30]
    parses = ChartParser(grammar).parse(
        [tree.words() for tree in trees], [tree.tags() for tree in trees]
    )
    right = wanted = 0
    for tree, parse in zip(trees, parses, strict=True):
        assert not parse.failed
        assert parse.tags == tree.tags()
        right += len(set(parse.spans) & set(tree.spans()))
        wanted += len(set(tree.spans())) - 1
        assert parse.tree(tree.words()).words() == tree.words()
    # It has seen them; an X-bar grammar remembers little.
    assert right > 0.7 * wanted


def test_another_root_label():
    grammar = grammar_from(
        ["t"], ["X"], {"X -> t t": 1.0}, {}, {"X": 1.0}, {("t", "w"): 1.0}, top="ROOT"
    )
    parse = parse_one(grammar, ["w", "w"])
    assert parse.root == "ROOT"
    assert str(parse.tree(["w", "w"])) == "(ROOT (X (t w) (t w)))"
    assert parse_one(grammar, ["w"]).root == "ROOT"
    assert parse_one(grammar, []).root == "ROOT"


# --- calibration ---------------------------------------------------------------------------------
@pytest.mark.parametrize("decoder", DECODERS)
def test_the_temperature_of_a_grammar(decoder):
    grammar, words, _ = few_trees(4, 30, **SMALL)
    plain = parse_one(grammar, words, decoder=decoder)
    grammar.temperature = 2.0
    warm = parse_one(grammar, words, decoder=decoder)
    assert key_of(warm) == key_of(plain)
    np.testing.assert_allclose(warm.probabilities, calibrate(plain.probabilities, 2.0), atol=1e-6)
    assert warm.log_probability == plain.log_probability


# --- settings ------------------------------------------------------------------------------------
def test_no_grammar():
    for grammars in ([], LatentGrammar.empty(), [random_grammar(0), LatentGrammar.empty()]):
        with pytest.raises(StructlearnError, match="SL420"):
            ChartParser(grammars)


@pytest.mark.parametrize(
    "bad",
    [
        {"decoder": "best"},
        {"levels": (1, 2)},
        {"levels": (0, 1)},
        {"levels": (0, 2, 1)},
        {"levels": (0, 1, 2, 3)},
        {"levels": ()},
        {"thresholds": (0.1,)},
        {"thresholds": (0.1, -0.1)},
        {"thresholds": (0.1, np.nan)},
        {"thresholds": (2.0, 0.1)},
        {"edge_factor": -1.0},
        {"edge_factor": 1.5},
        {"threads": 0},
    ],
)
def test_settings_out_of_range(bad):
    with pytest.raises(StructlearnError, match="SL421"):
        ChartParser(random_grammar(0), **bad)


def test_grammars_of_other_treebanks():
    grammar = random_grammar(0)
    assert ChartParser([grammar, random_grammar(0, variant=3, n_levels=1)])
    for other in (random_grammar(1), random_grammar(0, n_tags=4), random_grammar(0, root="ROOT")):
        with pytest.raises(StructlearnError, match="SL422"):
            ChartParser([grammar, other])
