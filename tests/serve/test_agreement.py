"""Agreement of annotators, with values that can be worked out by hand."""

import pytest

from spacy_structlearn.serve.annotate.agreement import agreement, kappa
from spacy_structlearn.serve.annotate.annotation import accepted
from spacy_structlearn.serve.annotate.formats import Gold

WORDS, SPACES = ("a", "b", "c"), (True, True, False)
ONE = Gold(WORDS, SPACES, ("A", "B", "B"), (("S", 0, 3), ("X", 1, 3)))
TWO = Gold(WORDS, SPACES, ("A", "B", "A"), (("S", 0, 3), ("Y", 1, 3), ("Z", 0, 1)))


def test_two_annotators():
    (found,) = agreement({"ann": [(0, ONE), (1, ONE)], "bob": [(0, TWO), (2, TWO)]})
    assert found["annotators"] == ["ann", "bob"]
    assert found["sentences"] == 1
    assert found["brackets_f"] == pytest.approx(2 * 2 / 5)
    assert found["labelled_f"] == pytest.approx(2 * 1 / 5)
    # Equal in 2 of 3, and by chance in (1 * 2 + 2 * 1) of 9.
    assert found["tags_kappa"] == pytest.approx((2 / 3 - 4 / 9) / (1 - 4 / 9))


def test_pairs_and_nothing():
    found = agreement({"ann": [(0, ONE)], "bob": [(0, ONE)], "cy": []})
    assert [own["sentences"] for own in found] == [1, 0, 0]
    assert [own["labelled_f"] for own in found] == [1.0, None, None]
    assert [own["tags_kappa"] for own in found] == [1.0, None, None]
    assert agreement({"ann": []}) == []


def test_kappa():
    assert kappa([]) is None
    assert kappa([("A", "A")]) == 1
    assert kappa([("A", "A"), ("A", "B"), ("B", "A"), ("B", "B")]) == 0
    assert kappa([("A", "B"), ("B", "A")]) == -1


def test_of_folders(annotation, built_in, tmp_path):
    annotation.accept(0)
    annotation.accept(2)
    (found,) = agreement({name: accepted(tmp_path / "me") for name in ("ann", "bob")})
    assert (found["sentences"], found["labelled_f"], found["tags_kappa"]) == (2, 1.0, 1.0)
