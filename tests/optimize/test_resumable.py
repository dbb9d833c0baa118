"""Minimisers go on from their bytes bit for bit, and refuse bytes that are not theirs."""

import numpy as np
import pytest
from scipy import sparse

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.optimize.lbfgs import LBFGS
from spacy_structlearn.optimize.m_estimation import DualCoordinateDescent
from spacy_structlearn.serialization import pack, unpack

RNG = np.random.default_rng(1)
DESIGN = RNG.normal(size=(60, 37)) * np.geomspace(0.1, 10, 37)
COUNTS = RNG.poisson(0.6, (12, 20)).astype(float)
F_AND_E = sparse.csr_array(COUNTS), COUNTS.mean(axis=0) * 1.5


def squares(rows):
    def objective(x):
        residual = DESIGN[rows] @ x - 1.0
        return float(0.5 * residual @ residual), DESIGN[rows].T @ residual

    return objective


WHOLE, PARTS = squares(slice(None)), [squares(slice(i, None, 4)) for i in range(4)]
KINDS = {
    "lbfgs": (lambda: LBFGS(np.zeros(37), memory=5), (WHOLE,), ()),
    "owlqn": (lambda: LBFGS(np.zeros(37), l1=np.full(37, 0.5), memory=5), (WHOLE,), ()),
    "dual": (lambda: DualCoordinateDescent(*F_AND_E, c=3.0, tolerance=0.0, seed=5), (), F_AND_E),
}


def started(kind, steps):
    make, of, arguments = KINDS[kind]
    optimizer = make()
    for _ in range(steps):
        optimizer.step(*of)
    return optimizer, of, arguments


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stop", [0, 1, 5, 17])
def test_saved_and_continued_is_bitwise_the_same(kind, stop):
    whole, of, arguments = started(kind, stop)
    part = type(whole).from_bytes(whole.to_bytes(), *arguments)
    for _ in range(6):
        assert whole.step(*of) == part.step(*of)
        assert whole.to_bytes() == part.to_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_forged_state(kind):
    optimizer, _, arguments = started(kind, 3)
    data = optimizer.to_bytes()
    with pytest.raises(StructlearnError, match="SL051"):
        type(optimizer).from_bytes(data[:-1], *arguments)
    name = type(optimizer)._KIND
    _, fields = unpack(data, name, {1})
    state = fields["state"]
    changes = [{key: {"y": 1}} for key in state if key != "value"]
    # A vector that is shorter than the others.
    changes += [{key: state[key][:-1]} for key in ("gradient", "_squares", "w") if key in state]
    if "_pairs" in state:
        changes += [{"_pairs": [[np.zeros(3), np.zeros(3), 1.0]]}]
        changes += [{"_pairs": [[state["x"], state["x"], "1"]]}]
        changes += [{"value": "1"}, {"value": [1.0]}, {"_values": [1.0, "1"]}]
    damaged = [fields | {"state": state | change} for change in changes]
    damaged += [
        fields | {"settings": fields["settings"] | {setting: "1"}} for setting in fields["settings"]
    ]
    for bad in (*damaged, {}, fields | {"settings": {"steps": 1}}, fields | {"state": {}}):
        with pytest.raises(StructlearnError, match="SL054"):
            type(optimizer).from_bytes(pack(name, 1, bad), *arguments)
    with pytest.raises(StructlearnError, match="SL052"):
        (LBFGS if kind == "dual" else DualCoordinateDescent).from_bytes(data)
