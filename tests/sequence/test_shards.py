"""Chains trained through shards: the sum does not depend on who makes it, and hardly on the cut."""

import numpy as np
import pytest
from sequence.chains import RICH_TEMPLATES, random_theta
from sequence.chains import make_objective as make
from sequence.test_memm import KINDS
from sequence.test_pseudolikelihood import make_joint

from spacy_structlearn.sequence.estimators.pseudolikelihood import JointPseudoLikelihood

LENGTHS = np.random.default_rng(5).integers(0, 30, size=40)


def at_the_same_weights(objective, model):
    """Value, and gradient as an array like the model's weights and as one like its transitions."""
    objective.write(objective.parameters())
    value, gradient = objective.value_and_grad(objective.parameters())
    kept = model.weights.copy(), model.transitions.copy()
    objective.write(gradient)
    found = value, model.weights.copy(), model.transitions.copy()
    model.weights[:], model.transitions[:] = kept
    return found


@pytest.mark.parametrize("kind", [*KINDS, JointPseudoLikelihood])
@pytest.mark.parametrize("order", [1, 2])
def test_value_and_gradient_are_those_of_one_shard(kind, order):
    if kind is JointPseudoLikelihood:
        whole, data = make_joint(LENGTHS, order=order)
    else:
        whole, data = make(LENGTHS, templates=RICH_TEMPLATES, kind=kind, order=order)
    model = whole.model
    whole.write(random_theta(whole))
    wanted = at_the_same_weights(whole, model)
    for shards in (2, 3, 60):
        found = [
            at_the_same_weights(kind(model, *data, l2=0.5, shards=shards, threads=threads), model)
            for threads in (1, 2)
        ]
        for one, two in zip(*found, strict=True):
            np.testing.assert_array_equal(one, two)
        assert found[0][0] == pytest.approx(wanted[0], rel=1e-12)
        for array, right in zip(found[0][1:], wanted[1:], strict=True):
            np.testing.assert_allclose(array, right, atol=1e-10)
