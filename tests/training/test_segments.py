import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.evaluation.prf import PRF
from training.benchmarks.segments import micro_average, score_segments, standard_error

TEXT = "Notes\n\nWe met. All came.\n\nBye"
GOLD = [(0, 5), (7, 14), (15, 24), (26, 29)]
WORDS = st.lists(st.text(st.sampled_from("ab.\u00e9"), min_size=1, max_size=3), min_size=1)


def test_spans_are_right_if_both_ends_are():
    (score,) = score_segments([(TEXT, GOLD)], [(TEXT, [(0, 14), (15, 24), (26, 29)])])
    assert (score.correct, score.predicted, score.gold) == (2, 3, 4)
    assert score.f1 == pytest.approx(4 / 7)


def test_white_space_at_the_ends_does_not_count():
    (score,) = score_segments([(TEXT, GOLD)], [(TEXT, [(0, 7), (6, 15), (14, 26), (25, 29)])])
    assert (score.correct, score.predicted, score.gold) == (4, 4, 4)


def test_documents_are_counted_by_themselves():
    scores = score_segments([("a b", [(0, 3)]), ("c", [(0, 1)])], [("a b", []), ("c", [(0, 1)])])
    assert [(s.correct, s.predicted, s.gold) for s in scores] == [(0, 0, 1), (1, 1, 1)]
    assert micro_average(scores) == PRF(1, 1, 2)
    assert micro_average([]) == PRF()


def test_other_texts_are_refused():
    with pytest.raises(StructlearnError, match="SL304"):
        score_segments([("a", []), ("a b", [])], [("a", []), ("a c", [])])
    with pytest.raises(StructlearnError, match="SL301"):
        score_segments([("a", [])], [])
    with pytest.raises(StructlearnError, match="SL305"):
        score_segments([("a", [(0, 1)])], [("a", [(0, 2)])])


@given(WORDS, st.data())
def test_white_space_changes_no_score(words, data):
    gaps = st.sampled_from([" ", "\n", "\n\n", "  ", "\n \n"])
    bounds = st.sets(st.integers(1, len(words)))
    cuts = [[0, *sorted(data.draw(bounds) | {len(words)})] for _ in range(2)]
    scores = []
    for gap in (st.just(" "), gaps):
        text = "".join(word + data.draw(gap) for word in words)
        tokens = [found.span() for found in re.finditer(r"\S+", text)]
        gold, predicted = (
            [(tokens[a][0], tokens[b - 1][1]) for a, b in pairwise(cut)] for cut in cuts
        )
        scores.append(score_segments([(text, gold)], [(text, predicted)]))
    assert scores[0] == scores[1]


def test_standard_error():
    right, wrong = PRF(1, 1, 1), PRF(0, 1, 1)
    assert standard_error([]) == standard_error([right] * 9) == 0.0
    scores = [right] * 300 + [wrong] * 100
    # F1 is the share of right ones, whose standard error is known.
    assert standard_error(scores) == pytest.approx(np.sqrt(0.75 * 0.25 / 400), rel=0.1)
    assert standard_error(scores) == standard_error(scores)
    assert standard_error(scores, seed=1) != standard_error(scores)
