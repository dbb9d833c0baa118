"""Forests that are made anew in each evaluation have the likelihood of cached ones."""

import numpy as np
import pytest

from spacy_structlearn.grammar.discriminative.objective import without_backoff
from spacy_structlearn.grammar.discriminative.settings import ConditionalGrammarSettings
from spacy_structlearn.grammar.discriminative.training import Objectives
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.latent.stages import encode
from spacy_structlearn.pipeline.architectures import estimator
from training.papers.petrov_klein2007.pruning import RebuiltObjective


@pytest.mark.parametrize(("regime", "threshold"), [("none", 0.0), ("coarse_to_fine", 1e-3)])
def test_rebuilt_forests_are_those_that_are_cached(sample, regime, threshold):
    trees = [tree for tree in sample if len(tree.words()) < 9]
    generative = LatentGrammarSettings(rounds=1, split_iterations=2, merge_iterations=1)
    trainer = estimator(generative).trainer(None, [trees])
    while trainer.step():
        pass
    grammar, data = without_backoff(trainer.parameters()), encode(generative, [trees])
    settings = ConditionalGrammarSettings(rounds=1, threshold=threshold, l1=0.0)
    cached = Objectives(settings, data, grammar, 1)
    rebuilt = RebuiltObjective(settings, data, grammar, regime)
    wanted = cached.objective(1, {})
    theta = np.random.default_rng(0).normal(0, 0.1, wanted.parameterization.n_parameters)
    (value, gradient), (other, its) = (
        objective.value_and_grad(theta) for objective in (wanted, rebuilt.objective)
    )
    assert other == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(its, gradient, rtol=1e-3, atol=1e-4)
    # The cascade counts what is made at all levels, and before it is pruned.
    assert rebuilt.statistics.constituents >= cached.statistics.constituents > 0
    assert rebuilt.left_out == cached.left_out == 0
    cached.close()
    rebuilt.close()
