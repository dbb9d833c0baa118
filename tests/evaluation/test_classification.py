import pytest
from hypothesis import strategies as st

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.evaluation.classification import score_labels
from spacy_structlearn.evaluation.prf import PRF

PAIRS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abcd")), max_size=40)


def test_by_hand():
    score = score_labels("VVVNN", "VVNNV")
    assert (score.correct, score.total) == (3, 5)
    assert score.accuracy == 0.6
    assert score.standard_error == pytest.approx((0.6 * 0.4 / 5) ** 0.5)
    assert score.confusion == {("N", "N"): 1, ("N", "V"): 1, ("V", "N"): 1, ("V", "V"): 2}
    assert list(score.confusion) == sorted(score.confusion)
    assert score.per_label == {"N": PRF(1, 2, 2), "V": PRF(2, 3, 3)}
    assert score.per_label["V"].f1 == pytest.approx(2 / 3)


def test_no_items():
    score = score_labels([], [])
    assert (score.accuracy, score.standard_error, score.per_label) == (0.0, 0.0, {})


def test_one_label_for_each_item():
    with pytest.raises(StructlearnError, match=r"SL301.*labels"):
        score_labels(["V"], ["V", "N"])
