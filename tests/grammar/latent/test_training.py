from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from grammar import treebanks
from grammar.treebanks import learned

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.latent.model import product
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.latent.training import PHASES
from spacy_structlearn.grammar.treebank.data import binarize
from spacy_structlearn.pipeline.architectures import estimator as learner

FEW = {"split_iterations": 2, "merge_iterations": 2, "smooth_iterations": 1}
SIMPLE = {"lexicon": "simple", "min_word_count": 2}


def learn(trees, **settings):
    return learned(LatentGrammarSettings(**{**FEW, **settings}), trees)


def test_a_step_is_a_round_and_every_round_a_level():
    trainer = learner(LatentGrammarSettings(rounds=2, **FEW)).trainer(None, [treebanks.sample()])
    values = []
    for steps, more in ((1, True), (2, True), (3, False)):
        assert trainer.step() is more
        assert trainer.n_iterations == steps
        assert len(trainer.parameters().levels) == steps
        values.append(trainer.value)
    assert values == sorted(values, reverse=True)


def test_em_does_not_fall_within_a_phase():
    settings = {"rounds": 2, "split_iterations": 8, "merge_iterations": 4, **SIMPLE}
    trainer = learner(LatentGrammarSettings(**settings)).trainer(None, [treebanks.sample()])
    calls = defaultdict(list)
    trainer.on_iteration = lambda value: calls[trainer.n_iterations, trainer._current.phase].append(
        value
    )
    while trainer.step():
        pass
    for number in (1, 2):
        for phase, n in zip(PHASES, (8, 4, 10), strict=True):
            values = np.array(calls[number, phase])
            assert len(values) == n
            if phase != "smooth":
                assert (np.diff(values) > -1e-6 * abs(values[0])).all()


def test_merging_takes_back_its_share_of_the_splits():
    grammar = learn(treebanks.sample(), rounds=1, merge_fraction=0.5)
    can_be_split = (binarize(treebanks.sample()).occurrences >= 2).sum()
    assert (grammar.levels[1].substates == 2).sum() == can_be_split - int(can_be_split / 2 + 0.5)
    grammar = learn(treebanks.sample(), rounds=1, merge_fraction=1.0)
    assert (grammar.levels[1].substates == 1).all()


def test_a_product_is_that_of_the_single_grammars():
    settings = LatentGrammarSettings(rounds=2, seed=3, **FEW)
    singles = [learned(replace(settings, seed=seed), treebanks.sample()) for seed in (3, 4, 5)]
    together = learned(replace(settings, grammars=3), treebanks.sample())
    assert together == product(singles)
    assert product(singles[:1]) == singles[0]
    assert together.members == 2
    assert together.depth == singles[0].depth == 2
    assert len(together.levels) == 5
    assert together.truncated(3) == singles[0]
    assert together.compact(1e-5, "float16").members == 2
    sentences = [tree.words() for tree in treebanks.sample()[:20]]
    wanted, found = (ChartParser(grammar).parse(sentences) for grammar in (singles, together))
    for one, other in zip(wanted, found, strict=True):
        assert (one.spans, one.tags) == (other.spans, other.tags)
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)
    with pytest.raises(StructlearnError, match="SL422"):
        product([singles[0], learned(settings, treebanks.toy())])
