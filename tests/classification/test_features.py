"""Tables of symbols, and the hashes, which are part of the format of models."""

from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.classification.features import MISSING, Table, symbol, tuple_keys
from spacy_structlearn.errors import StructlearnError

MASK = 2**64 - 1
ROWS = [("eat", "with"), ("see", None), ("eat", "of")]


def slow_mix(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def slow_key(symbols, seed=0):
    key = (0x9E3779B97F4A7C15 + seed) & MASK
    for value in symbols:
        key = slow_mix(slow_mix((key + 1) & MASK) ^ value)
    return key


def test_symbols_never_change():
    assert symbol(None) == MISSING == 0
    assert symbol("with") == int.from_bytes(blake2b(b"with", digest_size=8).digest(), "little")
    assert symbol("with") == 12372069566862259043
    assert symbol("") != MISSING
    assert symbol("\ud800") != symbol("?")


def test_keys_never_change():
    columns = [np.array([symbol(value)], dtype=np.uint64) for value in ("eat", "pizza", None)]
    assert tuple_keys(*columns).tolist() == [slow_key(map(symbol, ("eat", "pizza", None)))]
    assert int(tuple_keys(*columns)[0]) == 3402494631619497537
    assert int(tuple_keys()) == 0x9E3779B97F4A7C15


@given(
    st.lists(st.tuples(*[st.integers(0, MASK)] * 3), min_size=1, max_size=5), st.integers(0, MASK)
)
def test_tuple_keys(rows, seed):
    columns = np.array(rows, dtype=np.uint64).T
    keys = tuple_keys(*columns, seed=seed)
    assert keys.dtype == np.uint64
    assert keys.tolist() == [slow_key(row, seed) for row in rows]


@pytest.mark.parametrize(
    "rows",
    [ROWS, [list(row) for row in ROWS], {"v": ["eat", "see", "eat"], "p": ["with", None, "of"]}],
    ids=["tuples", "lists", "columns"],
)
def test_table_of(rows):
    table = Table.of(rows, ("v", "p"))
    assert len(table) == 3
    assert table.variables == ("v", "p")
    assert table.symbols.dtype == np.uint64
    assert table.symbols.tolist() == [[symbol(value) for value in row] for row in ROWS]
    assert {table.names[symbol(word)] for word in ("eat", "see", "with", "of")} == {
        "eat",
        "see",
        "with",
        "of",
    }
    assert MISSING not in table.names
    assert Table.of(table) is table


@pytest.mark.parametrize(
    ("code", "make"),
    [
        ("SL501", lambda: Table.of([("a", "b")], ("v", "v"))),
        ("SL501", lambda: Table(("v",), np.zeros((2, 2), np.uint64))),
        ("SL502", lambda: Table.of([("a", "b"), ("a",)])),
        ("SL501", lambda: Table.of([("a", "b")], "vp")),
        ("SL501", lambda: Table.of([("a", "b")], (0, 1))),
        ("SL501", lambda: Table.of({0: ["a"]})),
        ("SL501", lambda: Table.of([("a",)], ("v\x1fp",))),
        ("SL506", lambda: Table.of(["ab"], ("v", "p"))),
        ("SL506", lambda: Table.of("ab")),
        ("SL506", lambda: Table.of(None)),
        ("SL506", lambda: Table.of(np.arange(3))),
        ("SL506", lambda: Table.of([{"v": "a", "p": "b"}])),
        ("SL506", lambda: Table.of([{"a", "b"}])),
        ("SL506", lambda: Table.of({"v": "ab"})),
        ("SL506", lambda: Table.of({"v": 1})),
        ("SL502", lambda: Table.of({"v": ["a"], "p": []})),
        ("SL503", lambda: Table.of({"v": ["a"]}, ("p",))),
        ("SL503", lambda: Table.of(ROWS, ("v", "p")).select(("q",))),
    ],
)
def test_what_is_no_table_is_named(code, make):
    with pytest.raises(StructlearnError) as caught:
        make()
    assert caught.value.code == code


def test_values_that_are_equal_but_have_other_texts_are_others():
    column = [1, True, 1.0, "1", np.int64(1), np.bool_(True), 0.0, -0.0, ["x"]]
    texts = ["1", "True", "1.0", "1", "1", "True", "0.0", "-0.0", "['x']"]
    assert Table.of({"v": column}).symbols[:, 0].tolist() == list(map(symbol, texts))
    # What a value is does not depend on those that stand before it.
    assert Table.of({"v": column[::-1]}).symbols[::-1, 0].tolist() == list(map(symbol, texts))


class Frame(dict):
    """What is read of a data frame."""

    def keys(self):
        return np.array(list(self), dtype=object)

    def __getitem__(self, name):
        return np.array(super().__getitem__(name), dtype=object)


def test_data_frames_and_arrays_are_tables():
    frame = Frame({"p": [p for _, p in ROWS], "v": [v for v, _ in ROWS]})
    for table in (
        Table.of(np.array(ROWS, dtype=object), ("v", "p")),
        Table.of((list(row) for row in ROWS), np.array(["v", "p"])),
        Table.of(frame).select(("v", "p")),
        Table.of(frame, ("v", "p")),
    ):
        assert table.symbols.tolist() == Table.of(ROWS, ("v", "p")).symbols.tolist()
        assert {type(name) for name in (*table.variables, *table.names.values())} == {str}
