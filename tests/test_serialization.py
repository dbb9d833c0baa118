"""The file format: what goes in comes out, and nothing else gets in."""

import numpy as np
import pytest
import srsly.msgpack
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from spacy_structlearn import serialization
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.learning.stored import same
from spacy_structlearn.optimize.lbfgs import LBFGS
from spacy_structlearn.serialization import MAGIC, flag, pack, reading, restore, unpack

FIELDS = {
    "weights": np.arange(12, dtype=np.float32).reshape(3, 4),
    "keys": np.array([1, 2**64 - 1], dtype=np.uint64),
    "mask": np.array([True, False]),
    "scalar": np.array(1.5),
    "none": np.empty((0, 3), dtype=np.int16),
    "labels": ["B-NP", "O"],
    "nested": {"value": 0.1, "flag": True, "nothing": None, "array": np.arange(3)},
    "n": 7,
}


def code_of(data, kind="test", versions=(1,)):
    with pytest.raises(StructlearnError) as error:
        unpack(data, kind, versions)
    return error.value.code


def forge(content):
    """A file of any content with a right digest, as an attacker would make it."""
    payload = srsly.msgpack.packb(content, use_bin_type=True)
    return MAGIC + serialization._digest(payload) + payload


def forge_field(value):
    return forge({"kind": "test", "version": 1, "fields": {"a": value}})


@pytest.mark.parametrize(
    "damage",
    [
        lambda: int("x"),
        lambda: int(None),
        lambda: int(np.inf),
        lambda: {}["x"],
        lambda: [][0],
        lambda: None.tobytes(),
        lambda: unpack(b"", "other", {1}),
    ],
)
def test_whatever_damage_raises_is_one_error(damage):
    with pytest.raises(StructlearnError, match=r"SL054.*test"), reading("test", "SL405"):
        damage()


def test_attributes_are_restored_with_their_types():
    optimizer = LBFGS([1.0])
    state = {"n_iterations": 3, "value": 1.5, "status": "a"}
    restore(optimizer, state, state)
    assert (optimizer.n_iterations, optimizer.value, optimizer.status) == (3, 1.5, "a")
    bad = [("n_iterations", "3"), ("n_iterations", True), ("status", None), ("x", [1])]
    for name, value in bad:
        with pytest.raises(TypeError, match=name):
            restore(optimizer, (name,), {name: value})
    for value in (1, "yes", None):
        with pytest.raises(TypeError, match="true nor false"):
            flag(value)


def test_round_trip():
    version, fields = unpack(pack("test", 3, FIELDS), "test", {1, 3})
    assert version == 3
    assert same(FIELDS, fields)


_arrays = st.sampled_from(["b1", "u1", "i2", "<u4", ">i4", "i8", "u8", "f2", ">f4", "f8"]).flatmap(
    lambda dtype: hnp.arrays(
        np.dtype(dtype),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0),
        elements={"allow_nan": False} if "f" in dtype else None,
    )
)
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])) | _arrays,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.text("abc"), _values, max_size=4))
def test_round_trip_of_anything(fields):
    data = pack("test", 1, fields)
    _, back = unpack(data, "test", {1})
    assert pack("test", 1, back) == data
    for key, value in fields.items():
        if isinstance(value, np.ndarray):
            assert same(value.astype(value.dtype.newbyteorder("=")), back[key])


def test_objects_become_arrays_of_bytes():
    optimizer = LBFGS(np.ones(2))
    _, back = unpack(pack("test", 1, {"a": optimizer}), "test", {1})
    assert LBFGS.from_bytes(back["a"]).to_bytes() == optimizer.to_bytes()


def test_golden_bytes():
    # If this fails, files in the world are no longer read: give the format a new magic number.
    data = pack("k", 1, {"a": np.array([1.0], dtype=np.float32), "b": "x"})
    assert data.hex() == (
        "534c4541524e00016cd744ffa6e7ee2a640180aa6c4c97d3"
        "83a66669656c647382a16183a95f5f61727261795f5fa33c6634a464617461c4040000803f"
        "a573686170659101a162a178a46b696e64a16ba776657273696f6e01"
    )


def test_every_cut_and_every_flipped_byte_is_found():
    data = pack("test", 1, FIELDS)
    assert code_of(data + b"\0") == "SL051"
    for i in range(len(data)):
        assert code_of(data[:i]) in ("SL050", "SL051")
        flipped = bytearray(data)
        flipped[i] ^= 0x41
        assert code_of(bytes(flipped)) in ("SL050", "SL051")


@pytest.mark.parametrize("data", [b"", b"x", b"\x80", None, "text", {"a": 1}])
def test_not_such_a_file(data):
    assert code_of(data) == "SL050"


def test_wrong_kind_and_version():
    data = pack("other", 2, {})
    assert code_of(data) == "SL052"
    assert code_of(data, "other", {1, 3}) == "SL053"
    for version in ([1], True):
        assert code_of(forge({"kind": "test", "version": version, "fields": {}})) == "SL053"


@pytest.mark.parametrize(
    "value",
    [
        {"__array__": "|O", "shape": [1], "data": b"x" * 8},
        {"__array__": "<f4", "shape": [2**40, 2**40], "data": b""},
        {"__array__": "<f4", "shape": [2**61, 0], "data": b""},
        {"__array__": "<f4", "shape": [0, 2**61, 2**61], "data": b""},
        {"__array__": "<f4", "shape": [-1], "data": b"abcd"},
        {"__array__": "<f4", "shape": [-1, -1], "data": b"abcd"},
        {"__array__": "<f4", "shape": [1.0], "data": b"abcd"},
        {"__array__": "<f4", "shape": [True], "data": b"abcd"},
        {"__array__": "<f4", "shape": [1] * 100, "data": b"abcd"},
        {"__array__": "<f4", "shape": [2], "data": b"abcd"},
        {"__array__": "<f4", "shape": [1], "data": "abcd"},
        {"__array__": "<f4", "shape": 1, "data": b"abcd"},
        {"__array__": "<f4"},
        {"__array__": ["<f4"], "shape": [1], "data": b"abcd"},
        {"__array__": None, "shape": [1], "data": b"abcd"},
        b"bytes",
        srsly.msgpack.ExtType(5, b"x"),
        # What srsly's own hook would take for a pickled NumPy array.
        {b"nd": True, b"type": "|O", b"kind": b"O", b"shape": [1], b"data": b"cos\nsystem\n"},
        {"nd": True, "type": "|O", "kind": "O", "shape": [1], "data": b"cos\nsystem\n", 1: 2},
    ],
)
def test_hostile_values(value):
    assert code_of(forge_field(value)) == "SL054"


@pytest.mark.parametrize("content", [None, 1, [], {}, {"kind": "test", "version": 1, "fields": []}])
def test_hostile_content(content):
    assert code_of(forge(content)) == "SL054"


@pytest.mark.parametrize("payload", [b"\xc1", b"\x91" * 100000 + b"\xc0", b"\xdd\xff\xff\xff\xff"])
def test_hostile_msgpack(payload):
    assert code_of(MAGIC + serialization._digest(payload) + payload) == "SL054"


@pytest.mark.parametrize(
    "value",
    [
        *(b"bytes", object(), 2**65, "\ud800", {1: 2}, {"__array__": 1}, [{"a": {1, 2}}]),
        *(np.array([value]) for value in ("a", None, 1j)),
    ],
)
def test_values_that_cannot_be_stored(value):
    with pytest.raises(StructlearnError) as error:
        pack("test", 1, {"a": value})
    assert error.value.code == "SL055"
