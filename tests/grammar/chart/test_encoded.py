"""Trees scored by a latent grammar and by vectors of words together."""

from functools import cache

import numpy as np
import pytest
from grammar.grammars import NEVER, sample_grammar, sample_trees

from spacy_structlearn.encoder.scorer import SiteScorer
from spacy_structlearn.encoder.spans import n_spans
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.chart import encoded
from spacy_structlearn.grammar.chart.constraints import BLOCKED
from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.spans.model import SpanGrammar

WIDTH = 6


def grammar():
    return sample_grammar(2)


@cache
def sentences():
    return [words for tree in sample_trees() if 2 <= len(words := tree.words()) <= 8][:8]


def scorer(weights=(1.0, 1.0), seed=0, scale=1.0):
    """A random scorer of the chains of the sample, of which some are unknown."""
    chains = {}
    for tree in sample_trees():
        for label, start, end in tree.spans()[1:]:
            chains.setdefault((id(tree), start, end), []).append(label)
    labels = sorted({"+".join(chain) for chain in chains.values()})
    labels = ["", *(label for label in labels if "+" not in label or len(label) % 2)]
    draw = np.random.default_rng(seed)
    shapes = [(4, WIDTH, 8), (4, 8), 8, 8, 8, (len(labels), 8), len(labels)]
    arrays = [draw.normal(0, scale, shape) for shape in shapes]
    return SiteScorer(labels, *arrays, weights=weights)


def vectors(words, seed=0):
    draw = np.random.default_rng([seed, len(words)])
    return draw.normal(0, 1, (len(words), WIDTH)).astype(np.float32)


def score_of(parse, words, scorer):
    """The score of a tree by its brackets."""
    chains = {}
    for label, start, end in parse.spans:
        chains.setdefault((start, end), []).append(label)
    n, total = len(words), 0.0
    for (start, end), chain in chains.items():
        site = np.array([[start - 1, start, end - 1, end if end < n else -1]])
        scores = dict(zip(scorer.labels, scorer.scores(vectors(words), site)[0], strict=True))
        found = scores.get("+".join(chain))
        if found is None:
            found = scores[chain[0]] + encoded.UNKNOWN_CHAIN
        total += found - scores[""]
    return total


@pytest.fixture
def proposes_nothing(monkeypatch):
    monkeypatch.setattr(encoded, "CERTAIN", 2.0)


@pytest.mark.parametrize("of_spans", [False, True])
@pytest.mark.usefixtures("proposes_nothing")
def test_probabilities_are_those_of_the_pool(of_spans):
    model = SpanGrammar(grammar(), 0.7) if of_spans else grammar()
    own, weight, seen = 0.6, 1.4, 0
    alone = ChartParser(model, encoder=scorer((1.0, 0.0), scale=0.3), thresholds=NEVER)
    both = ChartParser(model, encoder=scorer((own, weight), scale=0.3), thresholds=NEVER)
    for words in sentences():
        every = {
            (*parse.spans, *parse.tags): parse.log_probability
            for parse in alone.k_best(words, 60, vectors=vectors(words))
        }
        found = [
            (
                own * every[key] + weight * score_of(parse, words, scorer(scale=0.3)),
                parse.log_probability,
            )
            for parse in both.k_best(words, 20, vectors=vectors(words))
            if (key := (*parse.spans, *parse.tags)) in every
        ]
        seen += len(found)
        differences = [wanted - probability for wanted, probability in found]
        np.testing.assert_allclose(differences, differences[:1] * len(found), atol=1e-3)
    assert seen > 40


@pytest.mark.usefixtures("proposes_nothing")
def test_a_weight_of_zero_changes_nothing():
    model = SpanGrammar(grammar())
    rows = [vectors(words) for words in sentences()]
    plain = ChartParser(model).parse(sentences())
    found = ChartParser(model, encoder=scorer((1.0, 0.0))).parse(sentences(), vectors=rows)
    assert [parse.spans for parse in found] == [parse.spans for parse in plain]
    one = ChartParser(model, encoder=scorer(), threads=2).parse(sentences(), vectors=rows)
    assert [parse.spans for parse in one] != [parse.spans for parse in plain]


def test_certain_phrases_are_not_crossed():
    certain = scorer((1.0, 1.0), scale=4.0)
    rows = [vectors(words) for words in sentences()]
    found = ChartParser(grammar(), encoder=certain).parse(sentences(), vectors=rows)
    scored = encoded.SpanScorer(certain, grammar())
    lengths = np.array([len(words) for words in sentences()])
    limits = scored.limits(scored.spans(rows, lengths))
    blocked = [(own.spans == BLOCKED).sum() for own in limits]
    assert sum(blocked) > 50
    for parse, own in zip(found, limits, strict=True):
        assert BLOCKED not in [own.spans[start, end] for _, start, end in parse.spans]


def test_proposals_that_leave_no_tree_are_ignored(monkeypatch):
    rows = [vectors(words) for words in sentences()]
    found = {}
    for certain in (-1.0, 2.0):  # all spans, none
        monkeypatch.setattr(encoded, "CERTAIN", certain)
        parser = ChartParser(grammar(), encoder=scorer())
        parses = parser.parse(sentences(), vectors=rows)
        parses += parser.k_best(sentences()[0], 2, vectors=rows[0])
        found[certain] = [(parse.spans, parse.log_probability) for parse in parses]
    assert found[-1.0] == found[2.0]


def test_constraints_replace_proposals():
    parser = ChartParser(grammar(), encoder=scorer(scale=4.0))
    words = max(sentences(), key=len)
    for start in range(len(words) - 1):
        given = [(start, start + 2, None, True)]
        (found,) = parser.parse([words], constraints=[given], vectors=[vectors(words)])
        (plain,) = ChartParser(grammar()).parse([words], constraints=[given])
        assert found.unmet == plain.unmet


def test_weights_climb_to_the_best_score():
    def score(own, weight):
        return -((np.log2(own) + 2) ** 2) - (np.log2(weight) - 1.5) ** 2

    assert encoded.climb(score) == pytest.approx((0.25, 2**1.5))
    assert encoded.climb(lambda own, weight: 0.5) == (0.5, 1.0)


def test_fitted_weights_have_the_best_f1():
    rows = [vectors(words) for words in sentences()]
    gold = [next(tree for tree in sample_trees() if tree.words() == words) for words in sentences()]
    gold[0] = None
    chosen, scores = scorer(scale=0.3), {}
    for weights in (
        (0.5, 1.0),
        ChartParser(grammar(), encoder=chosen).fit_weights(sentences(), gold, vectors=rows),
    ):
        chosen.weights = weights
        parses = ChartParser(grammar(), encoder=chosen).parse(sentences()[1:], vectors=rows[1:])
        right = [len({*p.spans} & {*t.spans()}) for p, t in zip(parses, gold[1:], strict=True)]
        scores[weights] = sum(right) / sum(len(parse.spans) for parse in parses)
    assert max(scores, key=scores.get) == weights


@pytest.mark.parametrize("rows", [None, [np.zeros((3, WIDTH))], [np.zeros((2, WIDTH + 1))]])
def test_vectors_must_be_those_of_the_words(rows):
    parser = ChartParser(grammar(), encoder=scorer())
    with pytest.raises(StructlearnError, match=r"\[SL446\] Got vectors of shape"):
        parser.parse([["a", "b"]], vectors=rows)


def test_the_scorer_must_be_one_of_spans():
    other = SiteScorer.untrained(["", "NP"], WIDTH, 3)
    with pytest.raises(StructlearnError, match=r"\[SL445\] The scorer of spans"):
        ChartParser(grammar(), encoder=other)
    other = SiteScorer.untrained(["NP", ""], WIDTH, 4)
    with pytest.raises(StructlearnError, match=r"\[SL445\] The scorer of spans"):
        ChartParser(grammar(), encoder=other)


def test_all_spans_are_scored_once():
    of_spans, rows = scorer(), vectors("abcd")
    spans = encoded.SpanScorer(of_spans, grammar()).spans([rows[:1], rows[1:]], np.array([1, 3]))
    assert len(spans.scores) == len(spans.values) == n_spans(1) + n_spans(3)
    wanted = of_spans.scores(rows, spans.sites)
    np.testing.assert_allclose(spans.scores, wanted - wanted[:, :1], rtol=1e-4, atol=1e-4)
