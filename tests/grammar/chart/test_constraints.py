"""Brackets that must or must not be: against the enumeration of all trees that meet them."""

import numpy as np
import pytest
from grammar.grammars import (
    NEVER,
    SHAPES,
    SMALL,
    Enumeration,
    as_members,
    count_trees,
    few_trees,
    flat_trees,
    grammar_from,
    key_of,
    random_grammar,
    sample_grammar,
    sample_trees,
    sentence,
    word_scores,
)
from grammar.grammars import same_parses as same
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.chart import _chart, decode
from spacy_structlearn.grammar.chart.constraints import Compiler
from spacy_structlearn.grammar.chart.decode import DECODERS, ChartParser
from spacy_structlearn.grammar.latent.em import treebank_grammar
from spacy_structlearn.grammar.spans.model import SpanGrammar
from spacy_structlearn.grammar.treebank.data import binarize

MOST = 1500  # trees that are enumerated


def meets(key, constraints, symbols):
    """Whether a tree, as (brackets, tags), meets all constraints."""
    spans, tags = key
    for start, end, label, must in constraints:
        if label is None:
            has = any(span[1:] == (start, end) for span in spans)
        elif label in symbols.phrases:
            has = (label, start, end) in spans
        else:
            has = end == start + 1 and tags[start] == label
        if has != must:
            return False
    return True


def random_constraints(seed, n, symbols, number):
    """Constraints of all kinds, of which some may contradict each other."""
    rng = np.random.default_rng(seed)
    labels = [None, None, *symbols.phrases, *symbols.phrases, *symbols.tags, "Nowhere"]
    found = []
    for _ in range(number):
        start, end = sorted(rng.choice(n + 1, size=2, replace=False).tolist())
        label = labels[rng.integers(len(labels))]
        found.append((start, end, label, bool(rng.random() < 0.6)))
    return found


def rows_with(grammar, words, constraints, level=-1):
    """Word scores, with those of a tag that a word must have but was never seen with."""
    rows = word_scores(grammar, words, level)
    offsets = grammar.levels[level].offsets
    for start, end, label, must in constraints:
        if must and end == start + 1 and label in grammar.symbols.tags:
            own = slice(*offsets[grammar.symbols.tag_index[label] :][:2])
            if not rows[start, own].any():
                rows[start, own] = 1.0
    return rows


def check(grammar, words, constraints, decoder, others=()):
    """Compare the parser with the trees of the enumeration that meet the constraints."""
    rows = rows_with(grammar, words, constraints)
    symbols = grammar.symbols
    trees = Enumeration(grammar, rows).only(lambda key: meets(key, constraints, symbols))
    parser = ChartParser([grammar, *others], decoder=decoder, thresholds=NEVER)
    (parse,) = parser.parse([words], constraints=[constraints])
    everything = parser.k_best(words, 10_000, constraints=constraints)
    if not trees.trees:
        assert everything == []
        (plain,) = parser.parse([words])
        plain.unmet = parse.unmet
        assert same(parse, plain)
        assert parse.unmet == bool(constraints)
        return 0
    assert not parse.unmet
    assert not parse.failed
    assert meets(key_of(parse), constraints, symbols)
    assert parse.log_likelihood == pytest.approx(np.log(trees.total), abs=1e-4)
    assert len(everything) == len(trees.trees)
    assert all(meets(key_of(found), constraints, symbols) for found in everything)
    assert sum(np.exp(found.log_probability) for found in everything) == pytest.approx(1, abs=1e-3)
    if others:
        return len(everything)
    scores = trees.scores(decoder)
    mine = [x for x, tree in enumerate(trees.trees) if trees.key(tree) == key_of(parse)]
    assert max(scores[mine]) == pytest.approx(scores.max(), abs=1e-3)
    logs = trees.log_probabilities(decoder)[mine]
    assert min(abs(logs - parse.log_probability)) < 1e-3
    if not grammar.chains:
        for (label, i, j), found in zip(parse.spans, parse.probabilities, strict=True):
            symbol = symbols.phrase_index[label]
            assert found == pytest.approx(trees.bracket(symbol, i, j), abs=1e-4)
    ranking = decoder if decoder not in ("viterbi", "labelled_recall") else "max_rule_product"
    scores = trees.scores(ranking)
    if decoder == "labelled_recall":
        scores = trees.log_probabilities(decoder)
    order = np.argsort(-scores)
    for rank, found in enumerate(everything[:20]):
        near = np.flatnonzero(abs(scores - scores[order[rank]]) < 1e-3)
        assert key_of(found) in [trees.key(trees.trees[x]) for x in near]
    return len(everything)


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 4),
    shape=st.sampled_from(SHAPES),
    decoder=st.sampled_from(DECODERS),
    number=st.integers(1, 4),
    root=st.sampled_from(["TOP", "A"]),
    chained=st.booleans(),
    root_tags=st.booleans(),
    is_factored=st.booleans(),
)
def test_the_trees_that_meet_constraints(
    seed, n, shape, decoder, number, root, chained, root_tags, is_factored
):
    options = dict(SMALL, shape=shape, root=root, root_tags=root_tags, n_phrases=3)
    grammar = random_grammar(seed, **options)
    # Nothing is collapsed below the phrase that holds several tops together.
    if chained and root == "TOP":
        first = grammar.symbols.n_tags
        pairs = [(a, b) for a, b in grammar.rules.unary.tolist() if b >= first]
        chains = dict.fromkeys(pairs, (first + seed % 3,))
        grammar = random_grammar(seed, **options, chains=chains)
    words = sentence(seed, n)
    constraints = random_constraints(seed, n, grammar.symbols, number)
    if count_trees(grammar, rows_with(grammar, words, constraints)) > MOST:
        return
    with pytest.MonkeyPatch.context() as patch:
        if not is_factored:
            patch.setattr(decode, "is_factored", lambda level: False)
        check(grammar, words, constraints, decoder)


@pytest.mark.parametrize("decoder", ["max_rule_product", "variational", "labelled_recall"])
def test_products_of_grammars(decoder):
    checked = 0
    for seed in range(12):
        grammar = random_grammar(seed, **SMALL)
        other = random_grammar(seed, variant=1, n_levels=2, **SMALL)
        words = sentence(seed, 3)
        constraints = random_constraints(seed, 3, grammar.symbols, 2)
        if count_trees(grammar, word_scores(grammar, words)) <= MOST:
            checked += check(grammar, words, constraints, decoder, [other]) > 0
            joined = ChartParser(as_members(grammar, other), decoder=decoder)
            one = joined.parse([words], constraints=[constraints])[0]
            two = ChartParser([grammar, other], decoder=decoder)
            assert same(one, two.parse([words], constraints=[constraints])[0])
    assert checked > 2


@pytest.mark.parametrize("decoder", DECODERS)
def test_nothing_is_pruned_that_must_be(decoder):
    # Each bracket of an improbable tree must be, with the thresholds of the package.
    grammar = sample_grammar(3)
    trees = [tree for tree in sample_trees() if 2 < len(tree.words()) <= 15]
    parser = ChartParser(grammar, decoder=decoder)
    sentences = [tree.words() for tree in trees]
    unlikely = [parser.k_best(words, 40)[-1] for words in sentences]
    wanted = [[(i, j, label, True) for label, i, j in parse.spans] for parse in unlikely]
    assert len(trees) > 20
    changed = 0
    plain = parser.parse(sentences)
    for parse, before, own in zip(
        parser.parse(sentences, constraints=wanted), plain, wanted, strict=True
    ):
        assert not parse.unmet
        assert meets(key_of(parse), own, grammar.symbols)
        changed += key_of(parse) != key_of(before)
    assert changed > 10


def test_random_constraints_on_longer_sentences():
    grammar = random_grammar(5, n_phrases=4, density=0.3, n_levels=4)
    parser = ChartParser(grammar)
    sentences = [sentence(seed, 5 + seed % 15) for seed in range(20)]
    plain = parser.parse(sentences)
    for seed, (words, parse) in enumerate(zip(sentences, plain, strict=True)):
        rng = np.random.default_rng(seed)
        n = len(words)
        own = random_constraints(seed, n, grammar.symbols, 3)
        # Some are those of a tree, which is never impossible.
        other = parser.k_best(words, 30)[-1]
        taken = rng.permutation(len(other.spans))[:3]
        sure = [(i, j, label, True) for label, i, j in (other.spans[x] for x in taken)]
        one, two = parser.parse([words, words], constraints=[own, sure])
        assert one.unmet or meets(key_of(one), own, grammar.symbols)
        assert not two.unmet
        assert meets(key_of(two), sure, grammar.symbols)
        assert two.tree(words).words() == words
        for found in parser.k_best(words, 5, constraints=sure):
            assert meets(key_of(found), sure, grammar.symbols)
        assert same(parser.parse([words], constraints=[None])[0], parse)


def test_no_constraints_change_nothing():
    parser = ChartParser(random_grammar(3))
    sentences = [sentence(seed, 4 + seed) for seed in range(4)]
    expected = parser.parse(sentences)
    vacuous = [(0, 3, "Nowhere", False)]
    for none in (None, [None] * 4, [[], None, (), []], [vacuous] * 4):
        found = parser.parse(sentences, constraints=none)
        assert all(same(*pair, atol=1e-6) for pair in zip(found, expected, strict=True))
    for none in (None, [], vacuous):
        best = parser.k_best(sentences[0], 5, constraints=none)
        assert all(map(same, best, parser.k_best(sentences[0], 5)))


def test_sentences_of_a_batch_have_their_own_constraints():
    grammar = random_grammar(3, n_phrases=3)
    parser = ChartParser(grammar, threads=2)
    sentences = [sentence(seed, seed % 7) for seed in range(40)]
    wanted = [
        random_constraints(seed, len(words), grammar.symbols, seed % 3) if words else None
        for seed, words in enumerate(sentences)
    ]
    together = parser.parse(sentences, constraints=wanted)
    for words, own, parse in zip(sentences, wanted, together, strict=True):
        assert same(parse, parser.parse([words], constraints=[own])[0])
        assert parse.unmet or meets(key_of(parse), own or [], grammar.symbols)
    assert {parse.unmet for parse in together} == {False, True}


def by_span(sentences, graphs):
    """A random score of each symbol over each span."""
    return np.array([np.sin(a + 3 * i + 7 * j * j) for a, i, j in graphs.items.tolist()])


class Scorer:
    scores = staticmethod(by_span)


@pytest.mark.parametrize("decoder", DECODERS)
def test_the_model_of_scorers_given_the_constraints(decoder):
    # Without substates, all trees have the scores of before, and only their sum changes.
    for seed in range(8):
        grammar = random_grammar(seed, n_levels=1, density=0.25)
        words = sentence(seed, 4)
        if not 10 < count_trees(grammar, word_scores(grammar, words)) < MOST:
            continue
        own = random_constraints(seed, 4, grammar.symbols, 2)
        own = [constraint for constraint in own if constraint[2] not in grammar.symbols.tags]
        parser = ChartParser(SpanGrammar(grammar), scorers=[Scorer()], thresholds=NEVER)
        every = parser.k_best(words, 10_000)
        wanted = [parse for parse in every if meets(key_of(parse), own, grammar.symbols)]
        found = parser.k_best(words, 10_000, constraints=own)
        assert len(found) == len(wanted)
        before, after = (
            np.sort([parse.log_probability for parse in parses]) for parses in (wanted, found)
        )
        expected = before - np.logaddexp.reduce(before) if len(before) else before
        np.testing.assert_allclose(after, expected, atol=1e-3)
        assert {key_of(parse) for parse in found} == {key_of(parse) for parse in wanted}


def test_grammars_without_unary_rules():
    grammar = grammar_from(
        ["t"], ["X"], {"X -> t t": 0.5, "X -> X t": 0.5}, {}, {"X": 1.0}, {("t", "w"): 1.0}
    )
    parser = ChartParser(grammar)
    wanted = [[(0, 2, "X", True)], [(0, 3, None, False)], [(1, 3, None, True)]]
    parses = parser.parse([["w"] * 3] * 3, constraints=wanted)
    assert [parse.unmet for parse in parses] == [False, True, True]


# --- what counts as a bracket --------------------------------------------------------------------
CHAIN = grammar_from(
    ["t"],
    ["A", "B", "C", "D"],
    {"C -> t t": 0.5, "D -> t t": 0.1, "D -> t @D": 0.4, "@D -> t t": 1.0},
    {"A -> C": 0.5, "A -> D": 0.5, "C -> t": 0.5},
    {"A": 0.4, "C": 0.3, "D": 0.3},
    {("t", "w"): 1.0},
    ["D"],
    chains={(1, 3): (2,)},  # A, C: B
)


@pytest.mark.parametrize(
    ("constraints", "brackets"),
    [
        # B is between A and C, where the grammar has one production.
        ([(0, 2, "B", True)], "ABC"),
        ([(0, 2, "B", False), (0, 2, "A", True)], "AD"),
        ([(0, 2, "A", False), (0, 2, "C", False)], "D"),
        ([(0, 2, "C", True), (0, 2, "A", True)], "ABC"),
        ([(0, 2, "C", True), (0, 2, "A", False)], "C"),
        ([(0, 2, "C", True), (0, 2, "D", True)], None),
        ([(0, 2, "C", True), (0, 2, "C", False)], None),
        ([(0, 2, "t", True)], None),
        ([(0, 2, "@D", True)], None),
        ([(0, 2, "", True)], None),
        ([(0, 1, None, True)], None),
    ],
)
def test_labels_of_one_span(constraints, brackets):
    (parse,) = ChartParser(CHAIN, thresholds=NEVER).parse([["w", "w"]], constraints=[constraints])
    assert parse.unmet == (brackets is None)
    assert parse.unmet or parse.labels == list(brackets)


def test_an_intermediate_symbol_is_no_bracket():
    parser = ChartParser(CHAIN, thresholds=NEVER)
    words = ["w"] * 3
    assert parser.parse([words])[0].labels[-1] == "D"
    for span in ((0, 2), (1, 3)):
        (parse,) = parser.parse([words], constraints=[[(*span, None, True)]])
        assert parse.unmet
    (parse,) = parser.parse([words], constraints=[[(1, 3, None, False)]])
    assert not parse.unmet


def test_words():
    grammar = grammar_from(
        ["t", "u"],
        ["X", "Y"],
        {"Y -> X X": 0.4, "Y -> t t": 0.2, "Y -> t X": 0.1, "Y -> u u": 0.1},
        {"X -> t": 0.7, "Y -> t": 0.2, "X -> u": 0.3},
        {"Y": 0.5, "X": 0.3, "t": 0.2},
        {("t", "w"): 1.0, ("u", "v"): 1.0},
    )

    def parse(words, *constraints):
        found = ChartParser(grammar, thresholds=NEVER).parse([words], constraints=[constraints])[0]
        return None if found.unmet else str(found.tree(words))

    assert parse(["w"], (0, 1, None, False)) == "(TOP (t w))"
    assert parse(["w"], (0, 1, "X", True)) == "(TOP (X (t w)))"
    assert parse(["w"], (0, 1, None, True), (0, 1, "X", False)) == "(TOP (Y (t w)))"
    assert parse(["w", "w"], (0, 1, None, False), (1, 2, None, True)) == "(TOP (Y (t w) (X (t w))))"
    assert parse(["w", "w"], (0, 1, None, False), (1, 2, None, False)) == "(TOP (Y (t w) (t w)))"
    # Tags, and a tag that the word was never seen with.
    assert parse(["w", "w"], (0, 1, "u", True)) == "(TOP (Y (X (u w)) (X (t w))))"
    assert parse(["w", "w"], (0, 1, "t", False)) is None
    assert parse(["w", "w"], (0, 1, "t", True), (0, 1, "u", True)) is None
    assert parse(["v", "v"], (0, 1, "t", False), (0, 1, None, False)) == "(TOP (Y (u v) (u v)))"


def test_what_holds_several_tops_together_is_no_bracket():
    grammar = treebank_grammar(binarize(flat_trees()))
    assert grammar.symbols.inserted_root >= 0
    words = ["a", "b", "!"]
    parser = ChartParser(grammar)

    def spans(*constraints):
        (parse,) = parser.parse([words], constraints=[constraints])
        return None if parse.unmet else parse.spans

    assert spans((0, 2, "S", True)) == [("S", 0, 2)]
    assert spans((0, 3, None, False)) == [("S", 0, 2)]
    assert spans((0, 3, None, True)) is None
    assert spans((0, 3, "TOP", True)) is None
    assert spans((0, 3, "TOP", False), (0, 2, None, True)) == [("S", 0, 2)]


def test_brackets_that_cross():
    words = ["w"] * 4
    parser = ChartParser(
        grammar_from(
            ["t"], ["X"], {"X -> X X": 0.5}, {"X -> t": 0.5}, {"X": 1.0}, {("t", "w"): 1.0}
        )
    )
    crossing = [(0, 2, None, True), (1, 3, None, True)]
    assert parser.parse([words], constraints=[crossing])[0].unmet
    assert parser.k_best(words, 3, constraints=crossing) == []
    nested = [(0, 3, None, True), (1, 3, "X", True)]
    (parse,) = parser.parse([words], constraints=[nested])
    assert {("X", 0, 3), ("X", 1, 3)} < set(parse.spans)
    assert len(parser.k_best(words, 9, constraints=nested)) == 1
    assert len(parser.k_best(words, 9, constraints=[(0, 2, "X", False)])) == 3


def test_a_sentence_without_any_parse_meets_nothing():
    parser = ChartParser(CHAIN)
    words = ["w"] * 4
    (parse,) = parser.parse([words], constraints=[[(0, 2, None, True)]])
    assert (parse.failed, parse.unmet) == (True, True)
    assert parser.k_best(words, 2, constraints=[(0, 2, None, True)]) == []
    assert [p.failed for p in parser.k_best(words, 2)] == [True]


def test_scorers_see_only_what_is_allowed():
    class Against:
        """Forbids all brackets over two words."""

        def scores(self, sentences, graphs):
            symbol, start, end = graphs.items.T
            return np.where((end - start == 2) & (symbol > 0), -np.inf, 0.0)

    parser = ChartParser(CHAIN, scorers=[Against()], thresholds=NEVER)
    words = ["w"] * 3
    (parse,) = parser.parse([words], constraints=[[(0, 3, "A", False)]])
    assert parse.failed
    assert parse.unmet


# --- arguments -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "bad",
    [
        (0, 0, None, True), (1, 0, None, True), (-1, 1, None, True), (0, 3, None, True),
        (0, 1, 5, True), (0, 1, None), 7, ("0", 1, None, True),
    ],
)  # fmt: skip
def test_what_is_no_constraint(bad):
    parser = ChartParser(CHAIN)
    with pytest.raises(StructlearnError, match="SL428"):
        parser.parse([["w", "w"]], constraints=[[bad]])
    with pytest.raises(StructlearnError, match="SL428"):
        parser.k_best(["w", "w"], 1, constraints=[bad])
    with pytest.raises(StructlearnError, match="SL429"):
        parser.parse([["w", "w"]], constraints=[None, None])


def test_limits_that_do_not_fit_the_kernel():
    grammar, words, _ = few_trees(3)
    parser = ChartParser(grammar)
    limits = Compiler(grammar).limited([(0, 2, None, True)], 3).limits
    lexicon, others = parser._scores([words], [None], np.inf)
    chart, offsets = _chart.Chart(), np.array([0, 3])
    assert chart.hypergraphs(parser._parser, lexicon, others, offsets, [limits])
    far = limits.spans.copy()
    far[0, 1] = 1
    for wrong in (
        limits._replace(spans=limits.spans[:, :3].copy()),
        limits._replace(spans=far),
        limits._replace(whole=limits.whole[:, 1:].copy()),
        limits._replace(unary=limits.unary[:0]),
    ):
        with pytest.raises(ValueError, match="limits"):
            chart.hypergraphs(parser._parser, lexicon, others, offsets, [wrong])
    with pytest.raises(ValueError, match="limits"):
        chart.hypergraphs(parser._parser, lexicon, others, offsets, [])
