"""Products of grammars: one model of several trainings."""

from dataclasses import replace

import pytest
from grammar.treebanks import learned, sample, toy

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.latent.model import product
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings

SHORT = LatentGrammarSettings(
    rounds=2, seed=3, split_iterations=2, merge_iterations=1, smooth_iterations=1
)


@pytest.fixture(scope="module")
def singles():
    return [learned(replace(SHORT, seed=seed), sample()) for seed in (3, 4, 5)]


@pytest.fixture(scope="module")
def together():
    return learned(replace(SHORT, grammars=3), sample())


def test_it_is_the_product_of_the_single_ones(singles, together):
    assert together == product(singles)
    assert product(singles[:1]) == singles[0]
    assert together.members == 2
    assert together.depth == singles[0].depth == 2
    assert len(together.levels) == 5
    assert together.truncated(3) == singles[0]
    assert together.compact(1e-5, "float16").members == 2


def test_it_parses_like_the_single_ones_together(singles, together):
    sentences = [tree.words() for tree in sample()[:20]]
    expected = ChartParser(singles).parse(sentences)
    found = ChartParser(together).parse(sentences)
    for parse, wanted in zip(found, expected, strict=True):
        assert parse.spans == wanted.spans
        assert parse.tags == wanted.tags
        assert parse.probabilities == pytest.approx(wanted.probabilities, abs=1e-5)


def test_grammars_of_other_trees(singles):
    with pytest.raises(StructlearnError, match="SL422"):
        product([singles[0], learned(SHORT, toy())])
