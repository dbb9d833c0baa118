"""What every learner does: it begins empty, resumes bit for bit, and takes in data."""

import pickle

import numpy as np
import pytest
from contracts.cases import end, listed, trained

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.learning.settings import plain, signature
from spacy_structlearn.learning.training import KIND
from spacy_structlearn.pipeline.architectures import empty_parameters
from spacy_structlearn.serialization import pack, unpack


@pytest.fixture(params=listed("CASES"), ids=lambda case: case.name)
def case(request):
    return request.param


def states(case):
    """The state before the first step, and after some of the steps, about four in all."""
    trainer = case.trainer()
    found = [trainer.to_bytes()]
    while trainer.step():
        found.append(trainer.to_bytes())
    found.append(trainer.to_bytes())
    return found[:: max(1, len(found) // 4)]


def test_empty_parameters(case):
    empty = empty_parameters(case.settings)
    assert empty.is_empty
    assert type(empty).from_bytes(empty.to_bytes()) == empty
    assert not case.parameters().is_empty


def test_settings_are_what_a_config_gives(case):
    given = {
        name: plain(getattr(case.settings, name))
        for name in signature(type(case.settings)).parameters
    }
    assert case.settings.part(type(case.settings), **given) == case.settings
    assert pickle.loads(pickle.dumps(case.settings)) == case.settings


def test_training_ends_and_stays_ended(case):
    trainer = case.trainer()
    assert trainer.n_iterations == 0
    learned = end(trainer)
    assert trainer.n_iterations >= 1
    assert not trainer.step()
    assert trainer.parameters() == learned
    assert learned == trained(case.name)  # again, the same


def test_resumed_is_the_same_bit_for_bit(case):
    for state in states(case):
        trainer = case.trainer()
        assert trainer.resume(state)
        assert trainer.to_bytes() == state
        assert end(trainer) == trained(case.name)


def test_resumed_in_the_middle_of_a_step(case):
    trainer, found = case.trainer(), []
    trainer.on_iteration = lambda *_: found.append(trainer.to_bytes())
    end(trainer)
    for state in found[len(found) // 3 :: max(1, len(found) // 3)]:
        fresh = case.trainer()
        assert fresh.resume(state)
        assert end(fresh) == trained(case.name)


def test_state_of_other_data_or_settings(case):
    state = case.trainer().to_bytes()
    assert not case.trainer(case.other()).resume(state)
    for change in case.changes:
        assert not case.trainer(**change).resume(state), change


def test_damaged_state(case):
    trainer = case.trainer()
    before = trainer.to_bytes()
    state = states(case)[-1]
    for bad in (b"", state[:-1], state[:40] + bytes([state[40] ^ 1]) + state[41:]):
        with pytest.raises(StructlearnError, match=r"SL05[0-4]"):
            trainer.resume(bad)
    version, fields = unpack(state, KIND, {3})
    assert not trainer.resume(pack(KIND, version, fields | {"identity": np.zeros(2)}))
    damaged = [fields | {name: "x"} for name in fields if name != "identity"]
    damaged += [fields | {"n_iterations": -1}]
    for name in {"n_forests", "batch"}.intersection(fields["state"]):
        damaged += [fields | {"state": fields["state"] | {name: -(2**63)}}]
    for name in fields["state"]:
        rest = {key: value for key, value in fields["state"].items() if key != name}
        damaged += [fields | {"state": rest}, fields | {"state": rest | {name: "x"}}]
    for bad in damaged:
        with pytest.raises(StructlearnError, match="SL054"):
            trainer.resume(pack(KIND, version, bad))
        assert trainer.to_bytes() == before
    assert trainer.resume(state)


def test_order_and_parts_of_the_data(case):
    if not case.same_in_any_order:
        pytest.skip("depends on the order")
    first, *rest = reversed(case.data())
    trainer = case.trainer([first])
    trainer.add(rest)
    assert end(trainer) == trained(case.name)


def test_more_data_after_the_end(case):
    trainer = case.trainer(case.data()[:1])
    end(trainer)
    n_iterations = trainer.n_iterations
    trainer.add(case.data()[1:])
    assert trainer.step() or trainer.finished
    end(trainer)
    assert trainer.n_iterations > 0
    assert n_iterations > 0
    assert trainer.to_bytes() != case.trainer(case.data()[:1]).to_bytes()


def test_threads_change_nothing(case):
    if not hasattr(case.settings, "threads"):
        pytest.skip("has no threads")
    # With one shard the threads share the sentences, which changes the last bits.
    shards = {"shards": 3} if hasattr(case.settings, "shards") else {}
    one, two = (end(case.trainer(threads=threads, **shards)) for threads in (1, 2))
    assert one == two


def test_parameters_are_a_copy(case):
    trainer = case.trainer()
    trainer.step()
    learned = trainer.parameters()
    before = learned.to_bytes()
    end(trainer)
    assert learned.to_bytes() == before


def test_run_goes_on_from_its_checkpoint(case, tmp_path, caplog):
    file = tmp_path / "checkpoint"
    trainer = case.trainer()
    trainer.step()

    def save(settings):
        trainer._context, trainer._identity = settings, None
        file.write_bytes(trainer.to_bytes())

    save("these")
    seen = []
    learned = case.trainer().run(
        checkpoint=file, settings="these", keep=True, on_iteration=lambda *at: seen.append(at)
    )
    assert learned == trained(case.name)
    assert not caplog.records
    assert case.trainer().run(checkpoint=file, settings="these") == learned
    assert not file.exists()
    save("others")
    assert case.trainer().run(checkpoint=file, settings="these") == learned
    assert "begins anew" in caplog.text
    file.write_bytes(b"none")
    with pytest.raises(StructlearnError, match="SL085"):
        case.trainer().run(checkpoint=file)
