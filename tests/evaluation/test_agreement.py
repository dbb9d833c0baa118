"""Agreement of annotators, with values that can be worked out by hand."""

import pytest

from spacy_structlearn.evaluation.agreement import agreement, kappa

ONE = (("A", "B", "B"), (("S", 0, 3), ("X", 1, 3)))
TWO = (("A", "B", "A"), (("S", 0, 3), ("Y", 1, 3), ("Z", 0, 1)))


def test_two_annotators():
    (found,) = agreement({"ann": {0: ONE, 1: ONE}, "bob": {0: TWO, 2: TWO}})
    assert found["annotators"] == ["ann", "bob"]
    assert found["sentences"] == 1
    assert found["brackets_f"] == pytest.approx(2 * 2 / 5)
    assert found["labelled_f"] == pytest.approx(2 * 1 / 5)
    # Equal in 2 of 3, and by chance in (1 * 2 + 2 * 1) of 9.
    assert found["tags_kappa"] == pytest.approx((2 / 3 - 4 / 9) / (1 - 4 / 9))


def test_pairs_and_nothing():
    found = agreement({"ann": {0: ONE}, "bob": {0: ONE}, "cy": {}})
    assert [own["sentences"] for own in found] == [1, 0, 0]
    assert [own["labelled_f"] for own in found] == [1.0, None, None]
    assert [own["tags_kappa"] for own in found] == [1.0, None, None]
    assert agreement({"ann": {}}) == []


@pytest.mark.parametrize(
    ("pairs", "value"),
    [([], None), (["AA"], 1), (["AA", "AB", "BA", "BB"], 0), (["AB", "BA"], -1)],
)
def test_kappa(pairs, value):
    assert kappa(map(tuple, pairs)) == value
