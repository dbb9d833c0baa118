"""What every stored model does: bytes, equality, pickling, changed copies, and no damage unseen."""

import copy
import pickle
from contextlib import suppress

import pytest
from contracts.cases import listed
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.serialization import pack, unpack


@pytest.fixture(params=listed("STORED"), ids=lambda model: model.name, scope="module")
def case(request):
    return request.param


@pytest.fixture(scope="module")
def model(case):
    return case.make()


def test_bytes_and_back(model):
    data = model.to_bytes()
    assert type(model).__name__ in repr(model)
    for found in (
        type(model).from_bytes(data),
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
    ):
        assert type(found) is type(model)
        assert found == model
        assert found.to_bytes() == data


def test_equality(case, model):
    assert model == case.make()
    assert model != "a model"
    with pytest.raises(TypeError):
        hash(model)


def test_changed_copy(case, model):
    assert model.replaced() == model
    other = model.replaced(**case.change)
    assert other != model
    assert type(model).from_bytes(other.to_bytes()) == other


@given(st.data())
def test_damage_is_found(data):
    case = data.draw(st.sampled_from(listed("STORED")), label="model")
    model = case.make()
    stored = bytearray(model.to_bytes())
    at = data.draw(st.integers(0, len(stored) - 1), label="at")
    stored[at] ^= 1 << data.draw(st.integers(0, 7), label="bit")
    with pytest.raises(StructlearnError, match=r"SL05[0-4]"):
        type(model).from_bytes(bytes(stored))


def test_fields_of_other_types(model):
    kind = type(model)
    for bad in (b"", b"no model", model.to_bytes()[:-1]):
        with pytest.raises(StructlearnError, match=r"SL05[0-4]"):
            kind.from_bytes(bad)
    version, fields = unpack(model.to_bytes(), kind.kind, kind.readable)
    for name in fields:
        for value in ("x", 7, [3.5], None, {"y": 1}):
            if type(value) is type(fields[name]):
                continue
            damaged = pack(kind.kind, version, fields | {name: value})
            with suppress(StructlearnError):  # it may also be a value that fits
                kind.from_bytes(damaged).to_bytes()
    with pytest.raises(StructlearnError, match="SL054"):
        kind.from_bytes(pack(kind.kind, version, fields | {"of another version": 1}))
