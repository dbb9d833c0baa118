"""Which sentence comes first."""

import pytest

from spacy_structlearn.pipeline.annotation.order import (
    ORDERS,
    Parsed,
    near_duplicates,
    ordered,
    wrong_brackets,
)

SURE = Parsed(["The", "dog", "barks", "."], ["DT", "NN", "VBZ", "."], [1.0, 0.99, 0.98])
LONG = Parsed(
    ["It", "was", "as", "if", "he", "had", "never", "been", "there", "."], ["X"] * 10, [0.9] * 9
)
UNSURE = Parsed(["Time", "flies", "."], ["NN", "VBZ", "."], [0.5, 0.4])
LIKE = Parsed(["Cats", "sleep", "."], ["NN", "VBZ", "."], [0.5, 0.5])
ALL = [SURE, LONG, UNSURE, LIKE]


def test_orders():
    assert wrong_brackets(UNSURE) == pytest.approx(0.9)
    assert ordered(ALL, "errors") == [3, 1, 0, 2]  # the tags of 2 are those of 3
    assert ordered(ALL, "length") == [1, 0, 2, 3]
    assert ordered(ALL, "text") == [0, 1, 2, 3]
    found = [ordered(ALL * 5, "random", seed) for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]
    assert sorted(found[0]) == list(range(20))


def test_near_duplicates():
    words = ["The", "patients", "were", "treated", "with", "aspirin", "for", "two", "weeks", "."]
    other = [*words[:7], "three", *words[8:]]
    rows = [(words, ["A"]), (other, ["B"]), (words[::-1], ["C"]), (other, ["C"]), ([], [])]
    found = near_duplicates(Parsed(*row, []) for row in rows)
    assert found == [False, True, False, True, False]


@pytest.mark.parametrize("order", ORDERS)
def test_nothing(order):
    assert ordered([], order) == []
    assert ordered([Parsed([], [], [])], order) == [0]
