"""Stages: learned one after another, whatever the parts and order of the data; stored as one."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn import serialization
from spacy_structlearn.classification.bayes_net import BayesNet
from spacy_structlearn.classification.estimators import (
    BayesNetEstimator,
    ClassificationData,
    LogLinearEstimator,
    concatenate,
)
from spacy_structlearn.classification.features import Table
from spacy_structlearn.classification.log_linear import LogLinear
from spacy_structlearn.classification.stages import Stages, StagesEstimator
from spacy_structlearn.errors import StructlearnError

ESTIMATOR = StagesEstimator(
    {
        "finding": BayesNetEstimator("naive"),
        "senses": LogLinearEstimator("pairs", l2=[0.5, 5.0], tolerance=1e-9),
        "roles": LogLinearEstimator([("p", "q"), ("q",)], l2=0.1, tolerance=1e-9),
    }
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


def train(trainer):
    while trainer.step():
        pass
    return trainer.parameters()


def fitted(data=None, estimator=ESTIMATOR):
    data = parts() if data is None else data
    return train(estimator.trainer(estimator.initialize(data, LABELS), data))


def alone(name, data):
    """The training of one stage by its own estimator."""
    own = [part[name] for part in data if name in part]
    labels = LABELS if name == "roles" else sorted(set(concatenate(own).labels))
    estimator = ESTIMATOR.estimators[name]
    return estimator.trainer(estimator.initialize(own, labels), own)


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
def test_initialize_knows_labels_and_variables_only():
    stages = ESTIMATOR.initialize(parts(), LABELS)
    assert stages.stages == tuple(stages) == ("finding", "senses", "roles")
    assert not stages.is_empty
    assert stages.labels == LABELS
    assert [type(stages[name]) for name in stages] == [BayesNet, LogLinear, LogLinear]
    assert [stages[name].labels for name in stages] == [("N", "Y"), ("1", "2"), LABELS]
    assert {name: stages[name].variables for name in stages} == VARIABLES
    assert [stages[name].used for name in stages] == [(), (), ()]
    np.testing.assert_allclose(stages["roles"].predict_proba([["0", "1", "?"]]), 1 / 3)
    assert ESTIMATOR.attributes == ()


def test_each_stage_learns_what_it_learns_alone():
    data = parts()
    for name in VARIABLES:
        assert STAGES[name].to_bytes() == train(alone(name, data)).to_bytes()
    assert STAGES.labels == LABELS
    assert STAGES["finding"].used == ("a", "b")
    assert STAGES["senses"].used == ("a", "b", "c")
    assert STAGES["roles"].used == ("p", "q")


def test_stages_are_learned_one_after_another():
    data = parts()
    trainer = ESTIMATOR.trainer(ESTIMATOR.initialize(data, LABELS), data)
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
        train(other)
    assert trainer.value == pytest.approx(sum(other.value for other in each))
    assert trainer.n_iterations == sum(other.n_iterations for other in each)
    before = trainer.parameters().to_bytes()
    assert not trainer.step()
    assert trainer.parameters().to_bytes() == before == STAGES.to_bytes()


@settings(deadline=None, max_examples=10)
@given(st.data())
def test_parts_in_any_order_and_steps_between_reach_the_same(data):
    order = data.draw(st.permutations(parts()))
    cuts = data.draw(st.sets(st.integers(1, len(order) - 1), max_size=2))
    bounds = [0, *sorted(cuts), len(order)]
    trainer = ESTIMATOR.trainer(ESTIMATOR.initialize(order, LABELS), order[: bounds[1]])
    for begin, end in pairwise(bounds[1:]):
        for _ in range(data.draw(st.integers(0, 40))):
            trainer.step()
        trainer.add(order[begin:end])
    assert_same_answers(train(trainer), STAGES, atol=1e-6)


def test_a_stage_without_instances_stays_empty_and_is_passed_over():
    data = [{"roles": part["roles"], "other": part["roles"]} for part in parts()]
    nothing = ClassificationData(data[0]["roles"].table.take(np.zeros(12, dtype=bool)), ())
    data.append({"finding": nothing})
    stages = ESTIMATOR.initialize(data, LABELS)
    trainer = ESTIMATOR.trainer(stages, data)
    for model in (stages, trainer.parameters(), train(trainer)):
        assert [model[name].is_empty for name in model] == [True, True, False]
        assert Stages.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
        assert "empty" in model.describe()
    state = trainer.to_bytes()
    assert ESTIMATOR.trainer(stages, data).resume(state)


def test_a_stage_whose_first_instances_come_in_training_is_learned_too():
    data = parts()
    known = [{"roles": part["roles"]} for part in data]
    stages = ESTIMATOR.initialize(known, LABELS)
    assert_same_answers(train(ESTIMATOR.trainer(stages, data)), STAGES, atol=1e-6)
    trainer = ESTIMATOR.trainer(stages, known)
    trainer.step()
    assert trainer.parameters()["senses"].is_empty
    trainer.add([{k: v for k, v in part.items() if k != "roles"} for part in data])
    assert_same_answers(train(trainer), STAGES, atol=1e-6)
    # The main stage too, whose labels are known all the same.
    stages = ESTIMATOR.initialize([], LABELS)
    assert stages.labels == LABELS
    assert_same_answers(train(ESTIMATOR.trainer(stages, data)), STAGES, atol=1e-6)


def test_what_was_learned_before_has_no_part_in_it():
    data = parts(seed=3)
    stages = ESTIMATOR.initialize(data, LABELS, STAGES)
    assert stages.to_bytes() == ESTIMATOR.initialize(data, LABELS).to_bytes()
    assert ESTIMATOR.initialize(data, LABELS, Stages.empty()).to_bytes() == stages.to_bytes()


def test_parameters_between_steps_are_the_latest_of_each_stage():
    data = parts()
    trainer = ESTIMATOR.trainer(ESTIMATOR.initialize(data, LABELS), data)
    train(trainer)
    trainer.add(parts(seed=1))
    # All begin anew, and until they do they answer as before.
    assert trainer.parameters().to_bytes() == STAGES.to_bytes()
    trainer.step()
    found = trainer.parameters()
    assert found["finding"].to_bytes() != STAGES["finding"].to_bytes()
    assert found["roles"].to_bytes() == STAGES["roles"].to_bytes()


def test_no_stages_to_learn_are_an_error():
    with pytest.raises(StructlearnError, match="SL533"):
        StagesEstimator({})


# --- going on -------------------------------------------------------------------------------------
@pytest.mark.parametrize("n_steps", [0, 1, 2, 5, 30])
def test_training_goes_on_from_its_state(n_steps):
    data = parts()

    def begin(data=data, estimator=ESTIMATOR):
        return estimator.trainer(estimator.initialize(data, LABELS), data)

    trainer = begin()
    for _ in range(n_steps):
        trainer.step()
    state, present = trainer.to_bytes(), trainer.parameters().to_bytes()
    other = begin()
    assert other.resume(state)
    assert (other.value, other.n_iterations) == (trainer.value, trainer.n_iterations)
    assert other.parameters().to_bytes() == present
    assert train(other).to_bytes() == STAGES.to_bytes()
    few = StagesEstimator({"roles": ESTIMATOR.estimators["roles"]})
    assert not begin(estimator=few).resume(state)
    if n_steps:
        changed = begin(parts(seed=1))
        assert not changed.resume(state)
        assert train(changed).to_bytes() == fitted(parts(seed=1)).to_bytes()


def test_stages_of_the_same_data_and_settings_go_on():
    data = parts()
    trainer = ESTIMATOR.trainer(ESTIMATOR.initialize(data, LABELS), data)
    wanted = train(trainer)
    estimator = StagesEstimator({**ESTIMATOR.estimators, "roles": LogLinearEstimator(l2=3.0)})
    other = estimator.trainer(estimator.initialize(data, LABELS), data)
    assert not other.resume(trainer.to_bytes())
    n_before = other.n_iterations
    assert n_before > 1
    learned = train(other)
    assert learned["senses"].to_bytes() == wanted["senses"].to_bytes()
    assert learned.to_bytes() == fitted(data, estimator).to_bytes()


def test_a_state_of_stages_without_data_is_of_other_data():
    data = parts()
    trainer = ESTIMATOR.trainer(ESTIMATOR.initialize(data, LABELS), data)
    train(trainer)
    less = [{name: of for name, of in datum.items() if name == "roles"} for datum in data]
    other = ESTIMATOR.trainer(ESTIMATOR.initialize(less, LABELS), less)
    assert not other.resume(trainer.to_bytes())
    assert train(other).to_bytes() == fitted(less).to_bytes()


def test_a_state_with_parts_missing_or_damaged_is_named():
    data = parts()
    trainer = ESTIMATOR.trainer(ESTIMATOR.initialize(data, LABELS), data)
    trainer.step()
    _, fields = serialization.unpack(trainer.to_bytes(), "stages_training", {1})
    for part in fields:
        rest = {other: value for other, value in fields.items() if other != part}
        with pytest.raises(StructlearnError, match="SL054"):
            trainer.resume(serialization.pack("stages_training", 1, rest))
    fields["states"]["finding"] = fields["states"]["finding"][:-1]
    with pytest.raises(StructlearnError, match="SL051"):
        trainer.resume(serialization.pack("stages_training", 1, fields))
    with pytest.raises(StructlearnError, match="SL052"):
        trainer.resume(STAGES.to_bytes())


# --- the model ------------------------------------------------------------------------------------
def test_an_empty_model():
    empty = Stages.empty()
    assert empty.is_empty
    assert (empty.stages, empty.labels, empty.strongest(3)) == ((), (), [])
    assert empty.describe() == "no stages"
    assert Stages.from_bytes(empty.to_bytes()).to_bytes() == empty.to_bytes()
    assert empty.compact().stages == ()
    with pytest.raises(StructlearnError, match="SL530"):
        empty["roles"]
    untrained = Stages({"a": LogLinear.empty(), "b": BayesNet.empty()})
    assert untrained.is_empty
    assert untrained.compact().stages == ("a", "b")
    assert "a, b" in repr(untrained)


def test_the_last_stage_is_the_main_one():
    assert STAGES.labels == STAGES["roles"].labels
    assert STAGES.strongest(4) == STAGES["roles"].strongest(4) != []
    assert STAGES.strongest(4, "A0", named=False) == STAGES["roles"].strongest(4, "A0", False)
    other = Stages({"roles": STAGES["roles"], "finding": STAGES["finding"]})
    assert other.labels == ("N", "Y")
    assert other.strongest(4) == []
    only = Stages({"roles": STAGES["roles"], "finding": BayesNet.empty()})
    assert only.is_empty
    for line in (STAGES["senses"].describe().splitlines()[1], "roles:", "finding:"):
        assert line in STAGES.describe()
    with pytest.raises(StructlearnError, match=r"SL530.*'sense'.*finding, senses, roles"):
        STAGES["sense"]
    assert "sense" not in STAGES
    assert "senses" in STAGES


def test_only_classifiers_can_be_stages():
    with pytest.raises(StructlearnError, match=r"SL531.*'a'.*Table"):
        Stages({"a": Table.of([])})


def test_compact_with_a_threshold_for_each_stage():
    all_less, one_less = STAGES.compact("float32", 0.2), STAGES.compact("float32", {"roles": 0.2})
    assert all_less["roles"].to_bytes() == one_less["roles"].to_bytes()
    assert one_less["roles"].n_features <= STAGES["roles"].n_features
    assert np.abs(one_less["roles"].weights[one_less["roles"].weights != 0]).min() > 0.2
    assert one_less["senses"].to_bytes() == STAGES["senses"].to_bytes()
    assert all_less["senses"].to_bytes() != STAGES["senses"].to_bytes()
    small = STAGES.compact()
    assert_same_answers(small, STAGES, atol=2e-3)
    assert small["roles"].storage == "float16"
    assert small.compact().to_bytes() == small.to_bytes()
    with pytest.raises(StructlearnError, match="SL530"):
        STAGES.compact("float32", {"role": 0.2})
    with pytest.raises(StructlearnError, match="SL520"):
        STAGES.compact("int8")


# --- files ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "copied",
    [
        lambda stages: Stages.from_bytes(stages.to_bytes()),
        lambda stages: pickle.loads(pickle.dumps(stages)),
        copy.deepcopy,
    ],
)
@pytest.mark.parametrize("stages", [STAGES, STAGES.compact("float16", 0.1)])
def test_round_trip(stages, copied):
    other = copied(stages)
    assert other.to_bytes() == stages.to_bytes()
    assert other.describe() == stages.describe()
    assert_same_answers(other, stages)


def test_a_pickled_copy_keeps_the_network_to_be_stacked_on():
    stages = Stages({"roles": LogLinear(base=BayesNet("naive"))})
    assert pickle.loads(pickle.dumps(stages))["roles"].settings.base.structure == "naive"


def test_damaged_and_foreign_files_are_refused():
    data = STAGES.to_bytes()
    for bad in (b"", data[:40], data[:-1], bytes([data[0] ^ 1]) + data[1:]):
        with pytest.raises(StructlearnError, match="SL05"):
            Stages.from_bytes(bad)
    with pytest.raises(StructlearnError, match="SL052"):
        Stages.from_bytes(LogLinear.empty().to_bytes())
    with pytest.raises(StructlearnError, match="SL052"):
        LogLinear.from_bytes(data)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stages", ["a", "b"]),
        ("stages", ["a", "b", 1]),
        ("stages", ["a", "b", "b"]),
        ("stages", None),
        ("kinds", ["bayes_net", "log_linear", "stages"]),
        ("kinds", ["bayes_net", "log_linear", []]),
        ("kinds", ["log_linear"] * 3),
        ("classifiers", []),
        ("classifiers", [1, 2, 3]),
        ("classifiers", [np.zeros(3, dtype=np.uint8)] * 3),
        ("more", 1),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(name, value):
    version, fields = serialization.unpack(STAGES.to_bytes(), "stages", {1})
    fields[name] = value
    with pytest.raises(StructlearnError, match="SL05"):
        Stages.from_bytes(serialization.pack("stages", version, fields))
