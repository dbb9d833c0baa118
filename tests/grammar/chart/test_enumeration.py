"""The parser against the enumeration of all trees of short sentences of random grammars."""

from itertools import product

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
    numpy_log_likelihood,
    numpy_posteriors,
    random_grammar,
    sentence,
    tree_log_probability,
    word_scores,
)
from grammar.grammars import same_parses as same

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.chart import decode
from spacy_structlearn.grammar.chart.decode import DECODERS, ChartParser
from spacy_structlearn.grammar.latent.em import treebank_grammar
from spacy_structlearn.grammar.spans.model import SpanGrammar
from spacy_structlearn.grammar.treebank.data import binarize

MOST = 1500  # trees that are enumerated


class Scores:
    """A scorer: a random score of each (symbol, start, end), or those of a dict."""

    def __init__(self, seed=0, given=None, default=0.0):
        self.seed, self.given, self.default = seed, given, default

    def score(self, *item):
        if self.given is not None:
            return self.given.get(item, self.default)
        return float(1.5 * np.random.default_rng([self.seed, *item]).normal())

    def scores(self, sentences, graphs):
        assert [len(words) for words in sentences] == graphs.n_words.tolist()
        return np.array([self.score(*item) for item in graphs.items.tolist()])


class Expected:
    """The trees of a sentence, their log probabilities, and what they are worth to a decoder.

    trees: an `Enumeration`. others: those of further grammars. scorer: of a log-linear model whose
    base are the variational distributions.
    """

    def __init__(self, trees, decoder, others=(), scorer=None, weight=1.0):
        self.trees, self.decoder, self.every = trees, decoder, [trees, *others]
        self.p = None
        if scorer is None:
            self.logs = trees.log_probabilities(decoder)
            self.worth = sum(one.scores(decoder) for one in self.every)
            by_product = decoder in ("viterbi", "max_rule_product")
            self.ranking = sum(
                one.scores("max_rule_product" if by_product else decoder) for one in self.every
            )
        else:
            base = np.mean([one.scores("variational") for one in self.every], axis=0)
            own = [sum(scorer.score(*node) for node in tree.nodes) for tree in trees.trees]
            total = weight * base + own
            self.logs = total - np.logaddexp.reduce(total)
            self.p = np.exp(self.logs)
            self.worth = self.ranking = self._worth()
        if decoder == "labelled_recall":
            self.ranking = self.logs
        self.keys = [trees.key(tree) for tree in trees.trees]

    def _worth(self):
        if self.decoder in ("viterbi", "variational"):
            return self.logs
        if self.decoder == "labelled_recall":
            return self.trees.labelled_recall(self.p)
        q = {}
        for tree, p in zip(self.trees.trees, self.p, strict=True):
            for part in tree.parts:
                if part[0] not in ("lower", "upper", "same"):
                    q[part] = q.get(part, 0.0) + p
        of = np.log if self.decoder == "max_rule_product" else float
        return np.array([sum(of(q[x]) for x in t.parts if x in q) for t in self.trees.trees])

    def bracket(self, label, start, end):
        symbol = self.trees.grammar.symbols.phrase_index[label]
        if self.p is None:
            return np.mean([one.bracket(symbol, start, end) for one in self.every])
        there = [(symbol, start, end) in tree.nodes for tree in self.trees.trees]
        return self.p[there].sum()

    def check(self, parser, words, constraints=None, atol=1e-3):
        """Compare the best tree, and all trees in their order."""
        parse = parser.parse([words], constraints=[constraints])[0]
        assert (parse.failed, parse.unmet, parse.levels) == (False, False, parser.grammar.depth + 1)
        likelihood = np.log(self.trees.total)
        # Two trees with intermediates in other places look the same.
        mine = [x for x, key in enumerate(self.keys) if key == key_of(parse)]
        assert max(self.worth[mine]) == pytest.approx(self.worth.max(), abs=atol)
        every = parser.k_best(words, 10_000, constraints=constraints)
        assert len(every) == len(self.keys)
        assert sum(np.exp(one.log_probability) for one in every) == pytest.approx(1, abs=atol)
        order = np.sort(-self.ranking)
        for rank, one in enumerate([parse, *every]):
            mine = np.flatnonzero([key == key_of(one) for key in self.keys])
            if rank:
                assert min(abs(self.ranking[mine] + order[rank - 1])) < 2 * atol
            assert min(abs(self.logs[mine] - one.log_probability)) < 2 * atol
            assert one.log_likelihood == pytest.approx(likelihood, abs=1e-4)
            if rank < 5 and not self.trees.grammar.chains:
                for span, found in zip(one.spans, one.probabilities, strict=True):
                    assert found == pytest.approx(self.bracket(*span), abs=atol)
        for k in (0, 1, 7):
            few = parser.k_best(words, k, constraints=constraints)
            assert len(few) == min(k, len(every))
            assert all(same(*pair, 1e-6) for pair in zip(few, every, strict=False))
        if self.decoder not in ("labelled_recall", "viterbi"):
            assert same(every[0], parse, 1e-6)


# --- decoders ------------------------------------------------------------------------------------
KINDS = ("grammar", "product", "scores", "scores of a product", "scores without a grammar")


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_all_trees(kind, shape, decoder):
    for n, least in ((1, 2), (3, 5), (4, 30)):
        options = {"shape": shape, **SMALL}
        grammar, words, trees = few_trees(n, least, 300, first_seed=10 * n, **options)
        other = random_grammar(trees.seed, variant=1, **options)
        others = [Enumeration(other, word_scores(other, words))] if "product" in kind else []
        scorer = Scores(n) if "scores" in kind else None
        weight = {"scores": 0.7, "scores without a grammar": 0.0}.get(kind, 1.0)
        settings = {"decoder": decoder, "thresholds": NEVER}
        if scorer is None:
            if others and decoder in ("viterbi", "labelled_recall"):
                continue  # of products they read the first grammar alone, or the mean of scores
            parser = ChartParser([grammar, other] if others else grammar, **settings)
        else:
            joined = as_members(grammar, other) if others else grammar
            model = SpanGrammar(joined, weight, None, 1.0)
            parser = ChartParser(model, scorers=[scorer], **settings)
        Expected(trees, decoder, others, scorer, weight).check(parser, words)


def test_decoders_differ():
    grammar, _, _ = few_trees(4, 100, first_seed=7, **SMALL)
    parsers = [ChartParser(grammar, decoder=decoder) for decoder in DECODERS]
    found = [{key_of(p.parse([sentence(s, 6)])[0]) for p in parsers} for s in range(8)]
    assert max(map(len, found)) > 1


@pytest.mark.parametrize(("share", "spans"), [(0.6, "AB"), (0.52, "AB"), (0.45, "B"), (0.05, "B")])
def test_a_bracket_of_labelled_recall_has_its_price(share, spans):
    root = {"A": share, "B": 1 - share}
    grammar = grammar_from(
        ["t"], ["A", "B"], {"B -> t t": 1.0}, {"A -> B": 1.0}, root, {("t", "w"): 1.0}
    )
    (parse,) = ChartParser(grammar, decoder="labelled_recall").parse([["w", "w"]])
    assert parse.labels == list(spans)
    np.testing.assert_allclose(parse.probabilities, [share, 1.0][-len(spans) :], atol=1e-6)
    likelier = share if len(spans) == 2 else 1 - share
    assert parse.log_probability == pytest.approx(np.log(likelier), abs=1e-6)
    # The likeliest tree has no such price.
    (best,) = ChartParser(grammar, decoder="variational").parse([["w", "w"]])
    assert best.labels == list("AB" if share > 0.5 else "B")


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("threshold", [0.0, 1e-3, 0.4, 1.0])
def test_whatever_is_parsed_is_a_tree(threshold, decoder):
    for seed, (shape, root_tags) in enumerate(product(SHAPES, (False, True))):
        grammar = random_grammar(seed, shape=shape, root_tags=root_tags)
        parser = ChartParser(grammar, decoder=decoder, thresholds=(threshold,) * 7)
        for n in (1, 2, 7):
            check_tree(grammar, parser, sentence(seed, n), threshold, shape)


def check_tree(grammar, parser, words, threshold, shape):
    (parse,) = parser.parse([words])
    tree = parse.tree(words)
    assert (tree.words(), tree.tags()) == (words, parse.tags)
    assert tree.spans() == [("TOP", 0, len(words)), *parse.spans]
    assert parse.probabilities.dtype == np.float32
    assert ((parse.probabilities >= 0) & (parse.probabilities <= 1)).all()
    n_tags = grammar.symbols.n_tags
    coarsest = numpy_log_likelihood(grammar.levels[0], n_tags, word_scores(grammar, words, 0))
    assert parse.failed == (parse.levels == 0) == (coarsest == -np.inf)
    if parse.failed:
        assert parse.log_probability == parse.log_likelihood == -np.inf
        return
    assert parse.log_probability <= 1e-5
    rows, level = word_scores(grammar, words, parse.levels - 1), grammar.levels[parse.levels - 1]
    likelihood = numpy_log_likelihood(level, n_tags, rows)
    # What is pruned is missing.
    assert parse.log_likelihood <= likelihood + 1e-5
    if not threshold:
        assert parse.log_likelihood == pytest.approx(likelihood, abs=1e-5)
        check_brackets(parse, grammar, numpy_posteriors(level, n_tags, rows))
    if shape != "any" and parser.decoder != "labelled_recall":
        log_tree = tree_log_probability(grammar, tree, rows, parse.levels - 1)
        assert parse.log_probability == pytest.approx(log_tree - parse.log_likelihood, abs=1e-4)


def check_brackets(parse, grammar, q):
    """Compare the probabilities of a parse without chains with those of `numpy_posteriors`."""
    brackets = q.upper + q.lower - q.same
    expected = [brackets[i, j, grammar.symbols.phrase_index[label]] for label, i, j in parse.spans]
    np.testing.assert_allclose(parse.probabilities, expected, atol=1e-5)


# --- scorers -------------------------------------------------------------------------------------
@pytest.mark.parametrize("decoder", DECODERS)
def test_scores_choose_and_forbid(decoder):
    grammar, words, trees = few_trees(4, 30, **SMALL)
    symbols = grammar.symbols

    def parser(scorer):
        return ChartParser(
            SpanGrammar(grammar), scorers=[scorer], decoder=decoder, thresholds=NEVER
        )

    for parse in parser(Scores(given={})).k_best(words, 5):
        own = {(symbols.phrase_index[label], i, j) for label, i, j in parse.spans}
        own |= {(symbols.tag_index[tag], i, i + 1) for i, tag in enumerate(parse.tags)}
        # An intermediate costs nothing.
        last = symbols.n_tags + symbols.n_phrases
        free = product(range(last, symbols.size), range(4), range(5))
        given = {**dict.fromkeys(own, 100.0), **dict.fromkeys(free, 0.0)}
        (found,) = parser(Scores(given=given, default=-100.0)).parse([words])
        assert key_of(found) == key_of(parse)
        np.testing.assert_allclose(found.probabilities, 1, atol=1e-6)
    label, i, j = next(span for span in parse.spans if span[2] - span[1] < 4)
    item = symbols.phrase_index[label], i, j
    without = trees.only(lambda key: (label, i, j) not in key[0])
    # The base is the variational distribution of all trees, of which some are left.
    every = parser(Scores(given={item: -np.inf})).k_best(words, 10_000)
    assert len(every) == len(without.trees) < len(trees.trees)
    assert all((label, i, j) not in one.spans for one in every)
    assert sum(np.exp(one.log_probability) for one in every) == pytest.approx(1, abs=1e-6)
    nothing = parser(Scores(given={}, default=-np.inf))
    (parse,) = nothing.parse([words])
    assert (parse.failed, parse.levels, parse.log_probability) == (True, 0, -np.inf)
    assert [parse.failed for parse in nothing.k_best(words, 5)] == [True]


def test_scores_that_are_none():
    grammar = random_grammar(0)
    for function in (lambda x: x[1:], lambda x: x[:, None], lambda x: x + np.nan, lambda x: 0.0):
        wrong = Scores()
        wrong.scores = lambda sentences, graphs, f=function: f(np.zeros(len(graphs.items)))
        with pytest.raises(StructlearnError, match="SL425"):
            ChartParser(grammar, scorers=[wrong]).parse([["w0", "w1"]])


# --- constraints ---------------------------------------------------------------------------------
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
        found.append((start, end, labels[rng.integers(len(labels))], bool(rng.random() < 0.6)))
    return found


def rows_with(grammar, words, constraints):
    """Word scores, with those of a tag that a word must have but was never seen with."""
    rows, offsets = word_scores(grammar, words), grammar.levels[-1].offsets
    for start, end, label, must in constraints:
        if must and end == start + 1 and label in grammar.symbols.tags:
            own = slice(*offsets[grammar.symbols.tag_index[label] :][:2])
            if not rows[start, own].any():
                rows[start, own] = 1.0
    return rows


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_factored", [True, False])
def test_the_trees_that_meet_constraints(is_factored, shape, decoder, monkeypatch):
    if not is_factored:
        monkeypatch.setattr(decode, "is_factored", lambda level: False)
    met = unmet = 0
    for seed in range(24):
        root, root_tags = ("TOP", "A")[seed % 2], seed % 3 == 0
        options = {**SMALL, "shape": shape, "root": root, "root_tags": root_tags, "n_phrases": 3}
        grammar = random_grammar(seed, **options)
        # Nothing is collapsed below the phrase that holds several tops together.
        if root == "TOP" and seed % 4 == 0:
            first = grammar.symbols.n_tags
            pairs = [(a, b) for a, b in grammar.rules.unary.tolist() if b >= first]
            chains = dict.fromkeys(pairs, (first + seed % 3,))
            grammar = random_grammar(seed, **options, chains=chains)
        n = 1 + seed % 4
        words = sentence(seed, n)
        constraints = random_constraints(seed, n, grammar.symbols, 1 + seed % 3)
        rows = rows_with(grammar, words, constraints)
        if count_trees(grammar, rows) > MOST // 5:
            continue
        symbols = grammar.symbols
        trees = Enumeration(grammar, rows).only(
            lambda key, c=constraints, s=symbols: meets(key, c, s)
        )
        parser = ChartParser(grammar, decoder=decoder, thresholds=NEVER)
        if trees.trees:
            Expected(trees, decoder).check(parser, words, constraints)
            met += 1
            continue
        assert parser.k_best(words, 5, constraints=constraints) == []
        (parse,), (plain,) = parser.parse([words], constraints=[constraints]), parser.parse([words])
        assert parse.unmet
        plain.unmet = True
        assert same(parse, plain)
        unmet += 1
    assert met > 5
    assert unmet > 1


@pytest.mark.parametrize("decoder", DECODERS)
def test_the_model_of_scorers_given_the_constraints(decoder):
    # Without substates, all trees have the scores of before, and only their sum changes.
    for seed in range(8):
        grammar = random_grammar(seed, n_levels=1, density=0.25)
        words = sentence(seed, 4)
        if not 10 < count_trees(grammar, word_scores(grammar, words)) < MOST:
            continue
        wanted = random_constraints(seed, 4, grammar.symbols, 2)
        wanted = [x for x in wanted if x[2] not in grammar.symbols.tags]
        parser = ChartParser(SpanGrammar(grammar), scorers=[Scores(seed)], thresholds=NEVER)
        every, found = (parser.k_best(words, 10_000, constraints=c) for c in (None, wanted))
        every = [parse for parse in every if meets(key_of(parse), wanted, grammar.symbols)]
        assert {key_of(parse) for parse in found} == {key_of(parse) for parse in every}
        before, after = (np.sort([p.log_probability for p in ps]) for ps in (every, found))
        expected = before - np.logaddexp.reduce(before) if len(before) else before
        np.testing.assert_allclose(after, expected, atol=1e-3)


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
    ("n", "constraints", "labels"),
    [
        # B is between A and C, where the grammar has one production.
        (2, [(0, 2, "B", True)], "ABC"),
        (2, [(0, 2, "B", False), (0, 2, "A", True)], "AD"),
        (2, [(0, 2, "A", False), (0, 2, "C", False)], "D"),
        (2, [(0, 2, "C", True), (0, 2, "A", True)], "ABC"),
        (2, [(0, 2, "C", True), (0, 2, "A", False)], "C"),
        (2, [(0, 2, "C", True), (0, 2, "D", True)], None),
        (2, [(0, 2, "C", True), (0, 2, "C", False)], None),
        (2, [(0, 2, "t", True)], None),
        (2, [(0, 2, "@D", True)], None),
        (2, [(0, 2, "", True)], None),
        (2, [(0, 1, None, True)], None),
        # An intermediate symbol is no bracket.
        (3, [(0, 2, None, True)], None),
        (3, [(1, 3, None, True)], None),
        (3, [(1, 3, None, False), (0, 3, "A", False)], "D"),
        # Brackets that cross; no parse at all.
        (3, [(0, 2, None, True), (1, 3, None, True)], None),
        (4, [(0, 2, None, True)], None),
    ],
)
def test_what_counts_as_a_bracket(n, constraints, labels):
    parser = ChartParser(CHAIN, thresholds=NEVER)
    (parse,) = parser.parse([["w"] * n], constraints=[constraints])
    assert parse.unmet == (labels is None)
    assert parse.failed == (n == 4)
    assert parse.unmet or parse.labels == list(labels)
    assert bool(parser.k_best(["w"] * n, 2, constraints=constraints)) == (labels is not None)


def test_what_holds_several_tops_together_is_no_bracket():
    parser = ChartParser(treebank_grammar(binarize(flat_trees())))
    assert parser.grammar.symbols.inserted_root >= 0
    for constraints, spans in (
        ([(0, 2, "S", True)], [("S", 0, 2)]),
        ([(0, 3, None, False)], [("S", 0, 2)]),
        ([(0, 3, None, True)], None),
        ([(0, 3, "TOP", True)], None),
        ([(0, 3, "TOP", False), (0, 2, None, True)], [("S", 0, 2)]),
    ):
        (parse,) = parser.parse([["a", "b", "!"]], constraints=[constraints])
        assert (None if parse.unmet else parse.spans) == spans
