"""Stages: learned one after another, whatever the parts and order of the data; stored as one."""

import numpy as np
import pytest
from classification.nets import end, learned

from spacy_structlearn import serialization
from spacy_structlearn.classification import (
    BayesNetSettings,
    LogLinearSettings,
    Stages,
    StagesSettings,
    Table,
    training,
)
from spacy_structlearn.classification.features import ClassificationData, concatenate
from spacy_structlearn.errors import StructlearnError

SETTINGS = StagesSettings(
    stages={
        "roles": LogLinearSettings(templates=[("p", "q"), ("q",)], l2=0.1, tolerance=1e-9),
        "finding": BayesNetSettings(structure="naive"),
        "senses": LogLinearSettings(templates="pairs", l2=[0.5, 5.0], tolerance=1e-9),
    },
    order=["finding", "senses", "roles"],
)
VARIABLES = {"finding": ("a", "b"), "senses": ("a", "b", "c"), "roles": ("p", "q", "r")}
LABELS = ("A0", "A1", "A9")


def instances(stage, n, rng):
    variables = VARIABLES[stage]
    values = rng.integers(0, 4, (n, len(variables)))
    noise = rng.random(n) < 0.15
    labels = (values[:, 0] * values[:, 1] + noise) % 2
    name = {"finding": "NY", "senses": "12"}.get(stage)
    return ClassificationData(
        Table.of([[f"{v}" for v in row] for row in values], variables),
        tuple(name[y] if name else LABELS[y] for y in labels),
    )


def parts(n_parts=6, seed=0):
    """Each part has the main stage; the others are missing in some."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(n_parts):
        stages = [s for s in VARIABLES if s == "roles" or (number + len(s)) % 3]
        found.append({stage: instances(stage, 12, rng) for stage in stages})
    return found


def fitted():
    return learned(SETTINGS, parts(), LABELS)


def alone(name, data):
    """The training of one stage by itself."""
    own = [part[name] for part in data if name in part]
    labels = LABELS if name == "roles" else sorted(set(concatenate(own).labels))
    settings = SETTINGS.stages[name]
    return training.trainer(settings, training.initialize(settings, own, labels), own)


STAGES = fitted()


def assert_same_answers(one, other, atol=0.0):
    assert one.stages == other.stages
    rows = [[None, "0", "1"], ["1", "2", "3"], ["?", "3", "0"]]
    for stage in one:
        assert one[stage].labels == other[stage].labels
        table = [row[: len(one[stage].variables)] for row in rows]
        np.testing.assert_allclose(
            one[stage].predict_proba(table), other[stage].predict_proba(table), rtol=0, atol=atol
        )


# --- learning -------------------------------------------------------------------------------------
def test_stages_are_learned_one_after_another():
    data = parts()
    trainer = training.trainer(SETTINGS, training.initialize(SETTINGS, data, LABELS), data)
    assert (trainer.value, trainer.n_iterations) == (0.0, 0)
    begun = []
    for number in range(1, 1000):
        more = trainer.step()
        assert trainer.n_iterations == number
        begun.append(tuple(name for name in VARIABLES if trainer.parameters()[name].used))
        if not more:
            break
    assert list(dict.fromkeys(begun)) == [
        ("finding",),
        ("finding", "senses"),
        ("finding", "senses", "roles"),
    ]
    each = [alone(name, data) for name in VARIABLES]
    for other in each:
        end(other)
    assert trainer.value == pytest.approx(sum(other.value for other in each))
    assert trainer.n_iterations == sum(other.n_iterations for other in each)


def test_a_stage_without_instances_stays_empty_and_is_passed_over():
    data = [{"roles": part["roles"], "other": part["roles"]} for part in parts()]
    nothing = ClassificationData(data[0]["roles"].table.take(np.zeros(12, dtype=bool)), ())
    data.append({"finding": nothing})
    stages = training.initialize(SETTINGS, data, LABELS)
    trainer = training.trainer(SETTINGS, stages, data)
    for model in (stages, trainer.parameters(), end(trainer)):
        assert [model[name].is_empty for name in model] == [True, True, False]
        assert "empty" in model.describe()


def test_a_stage_whose_first_instances_come_in_training_is_learned_too():
    data = parts()
    known = [{"roles": part["roles"]} for part in data]
    stages = training.initialize(SETTINGS, known, LABELS)
    assert_same_answers(end(training.trainer(SETTINGS, stages, data)), STAGES, atol=1e-6)
    trainer = training.trainer(SETTINGS, stages, known)
    trainer.step()
    assert trainer.parameters()["senses"].is_empty
    trainer.add([{k: v for k, v in part.items() if k != "roles"} for part in data])
    assert_same_answers(end(trainer), STAGES, atol=1e-6)
    # The main stage too, whose labels are known all the same.
    stages = training.initialize(SETTINGS, [], LABELS)
    assert stages.labels == LABELS
    assert_same_answers(end(training.trainer(SETTINGS, stages, data)), STAGES, atol=1e-6)


# --- the model ------------------------------------------------------------------------------------
def test_compact_with_a_threshold_for_each_stage():
    all_less, one_less = STAGES.compact("float32", 0.2), STAGES.compact("float32", {"roles": 0.2})
    assert all_less["roles"].to_bytes() == one_less["roles"].to_bytes()
    assert one_less["senses"].to_bytes() == STAGES["senses"].to_bytes()
    assert all_less["senses"].to_bytes() != STAGES["senses"].to_bytes()
    assert_same_answers(STAGES.compact(), STAGES, atol=2e-3)
    with pytest.raises(StructlearnError, match="SL530"):
        STAGES.compact("float32", {"role": 0.2})


# --- files ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stages", ["a", "b"]),
        ("stages", ["a", "b", "b"]),
        ("kinds", ["bayes_net", "log_linear", "stages"]),
        ("kinds", ["log_linear"] * 3),
        ("classifiers", [np.zeros(3, dtype=np.uint8)] * 3),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(name, value):
    version, fields = serialization.unpack(STAGES.to_bytes(), "stages", {1})
    fields[name] = value
    with pytest.raises(StructlearnError, match="SL05"):
        Stages.from_bytes(serialization.pack("stages", version, fields))
