"""Whether values fit annotations, and how these are shown."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, Union

import numpy as np
import pytest
from numpy.typing import NDArray

from spacy_structlearn.learning.annotations import fits, shown


class Named(TypedDict):
    """A dict with known names."""

    size: int
    names: list[str]


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (int, [0, -3, np.int32(2)], [True, 1.0, "1", None]),
        (float, [0, 1.5, np.float32(2)], [False, "1", None, [1.0]]),
        (bool, [True, False], [0, 1, "true", None]),
        (str, ["", "x"], [b"x", 1, None]),
        (str | None, ["x", None], [1, []]),
        (Union[int, Literal["all"]], [3, "all"], ["some", 1.5]),  # noqa: UP007
        (Sequence[str], [[], ["x"], ("x", "y")], ["x", [1], None]),
        (list[float], [[1, 2.5], ()], ["x", ["x"], 1.0]),
        (tuple[int, str], [(1, "x"), [1, "x"]], [(1,), (1, "x", 2), ("x", 1)]),
        (tuple[int, ...], [(), (1, 2)], [(1, "x")]),
        (Mapping[str, Sequence[int]], [{}, {"x": [1]}], [{1: [1]}, {"x": 1}, ["x"]]),
        (NDArray[np.int32], [np.zeros(2, np.int32)], [np.zeros(2), [1], None]),
        (NDArray[np.floating], [np.zeros(2), np.zeros(2, np.float16)], [np.zeros(2, int)]),
        (NDArray[Any], [np.zeros(2, bool)], [[1]]),
        (
            Named,
            [{"size": 1, "names": []}, {"names": ["x"], "size": 0}],
            [{}, {"size": 1, "names": [1]}, {"size": 1, "names": [], "more": 1}, None],
        ),
        (Path, [Path("x")], ["x"]),
        (Callable[[int], int], [abs, lambda x: x], [1, "abs"]),
        (Any, [None, object()], []),
    ],
)
def test_fits(annotation, good, bad):
    assert all(fits(value, annotation) for value in good)
    assert not any(fits(value, annotation) for value in bad)


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (float, "float"),
        (str | None, "str or none"),
        (Sequence[Sequence[str]], "list of list of str"),
        (dict[str, list[int]], "dict from str to list of int"),
        (Literal["a", "b"], '"a" or "b"'),
        (Named, "dict of size: int, names: list of str"),
    ],
)
def test_shown(annotation, text):
    assert shown(annotation) == text
