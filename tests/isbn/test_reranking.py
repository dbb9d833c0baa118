"""Reranking by a sigmoid belief network, with and without a chart in front."""

import numpy as np
import pytest
import spacy
from contracts.components import COMPONENTS, block, own, part
from isbn.networks import initialized, log_likelihoods, sample, symbols_of
from spacy.tokens import Doc

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.isbn.derivation import encode
from spacy_structlearn.isbn.model import ISBN
from spacy_structlearn.isbn.reranking import Reranker, choose
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.parse import Parse

NAME = "constituency_parser LatentGrammar rerank"


def network():
    return initialized(*symbols_of(sample(), signature="shape"), state_size=4, scale=2.0)


def parse(log_probability, *spans):
    labels, starts, ends = (list(column) for column in zip(*spans, strict=True))
    ones = np.ones(len(spans), np.float32)
    return Parse(labels, starts, ends, ones, ["A"] * 3, log_probability)


@pytest.fixture
def parser():
    return part(COMPONENTS[NAME], own(COMPONENTS[NAME]))


def test_log_probabilities_are_those_of_derivations():
    model, trees = network(), sample()[:5]
    derivations, _ = encode(trees, model.symbols)
    wanted = log_likelihoods(model.network(), model.weights.astype(float), derivations)
    wanted += model.signature_scores(derivations)
    unknown = parse_tree("(TOP (NO (NOT a)))")
    found = Reranker(model, 3, 1.0).log_probabilities([*trees, unknown])
    np.testing.assert_allclose(found, [*wanted, -np.inf])
    assert Reranker(model, 3, 1.0).best([["a"], []], [[], []]) == [0, 0]


def test_the_best_tree_or_that_with_the_most_expected_brackets():
    high, low = ("X", 0, 2), ("X", 1, 3)
    one, two, three = (
        parse(np.log(share), ("S", 0, 3), *spans, ("Y", 0, 1))
        for share, *spans in ((0.4, high), (0.3, low), (0.3, low, low))
    )
    none = np.zeros(3)
    assert choose([one, two, three], none, 1.0, by_brackets=False) == 0
    # Among these, the lower X is likelier than not, but not twice.
    assert choose([one, two, three], none, 1.0, by_brackets=True) == 1
    assert choose([one, two], np.array([0.0, 1.0]), 0.5, by_brackets=False) == 1
    assert choose([one, two], np.array([0.0, 1.0]), 0.2, by_brackets=False) == 0
    assert choose([one, two], np.array([-np.inf, -99.0]), 0.5, by_brackets=False) == 1
    for weight in (0.0, 0.5):  # what it cannot derive at all, it cannot judge
        assert choose([two, one], np.full(2, -np.inf), weight, by_brackets=False) == 1


@pytest.mark.parametrize("decoder", ["viterbi", "max_rule_product", "labelled_recall"])
def test_brackets_have_the_probabilities_of_the_chart(parser, decoder):
    class Last:
        k = 4

        def best(self, sentences, lists):
            kept.extend(zip(sentences, lists, strict=True))
            return [len(own) - 1 for own in lists]

    kept = []
    words = [tree.words() for tree in sample()[:6]] + [[], ["."]]
    plain = ChartParser(parser.parameters, decoder=decoder)
    found = ChartParser(parser.parameters, decoder=decoder, reranker=Last()).parse(words)
    ranked = {tuple(sentence): parses for sentence, parses in kept}
    for sentence, alone, last in zip(words, plain.parse(words), found, strict=True):
        known = dict(zip(alone.spans, alone.probabilities, strict=True))
        for span, probability in zip(last.spans, last.probabilities, strict=True):
            assert known.get(span, probability) == pytest.approx(probability, abs=1e-6)
        own_list = ranked.get(tuple(sentence), [])
        assert len({str(p.tree(sentence)) for p in own_list}) == len(own_list) <= 4
        logs = [p.log_probability for p in own_list]
        assert logs == sorted(logs, reverse=True)
        assert max(logs, default=0.0) <= 1e-9
        assert (last.levels, last.log_likelihood) == (alone.levels, alone.log_likelihood)
    assert any(len(own) > 1 for own in ranked.values())


def test_the_settings_may_be_changed(parser):
    nlp, parser.one_sentence = own(COMPONENTS[NAME]), True
    words = [word for tree in sample()[:20] for word in tree.words()]

    def trees(**settings):
        for name, value in settings.items():
            setattr(parser, name, value)
        return [str(tree) for tree in parser(Doc(nlp.vocab, words=words))._.trees]

    assert trees(rerank=0) != trees(rerank=20, rerank_weight=5.0)
    assert trees(rerank_weight=0.0) == trees(rerank=1)
    with pytest.raises(StructlearnError, match="SL420"):
        trees(reranker=ISBN.empty())


def test_a_network_alone_is_not_reranked():
    config = {"rerank": 2, "model": block("ISBN")}
    with pytest.raises(StructlearnError, match=r"\[SL198\]"):
        spacy.blank("en").add_pipe("constituency_parser", config=config)
