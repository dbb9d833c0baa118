"""The measure of CoNLL-2005 on cases worked by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.evaluation.prf import PRF
from spacy_structlearn.evaluation.srl import (
    RoleScore,
    joined_arguments,
    score_roles,
    score_token_roles,
)


def one(gold: str, predicted: str) -> RoleScore:
    """The score of one sentence with one predicate; arguments as "ARG0:0-2 V:2-3"."""
    return score_roles([[(2, pieces(gold))]], [[(2, pieces(predicted))]])


def pieces(text: str) -> list[tuple[str, int, int]]:
    found = []
    for part in text.split():
        label, _, span = part.partition(":")
        start, end = span.split("-")
        found.append((label, int(start), int(end)))
    return found


def counts(score: PRF) -> tuple[int, int, int]:
    return score.correct, score.predicted, score.gold


@pytest.mark.parametrize(
    ("arguments", "joined"),
    [
        ("", []),
        ("ARG0:0-2 V:2-3", [("ARG0", ((0, 2),)), ("V", ((2, 3),))]),
        ("ARG1:0-1 V:2-3 C-ARG1:3-5", [("ARG1", ((0, 1), (3, 5))), ("V", ((2, 3),))]),
        ("C-ARG1:3-5 ARG1:0-1", [("ARG1", ((0, 1), (3, 5)))]),  # any order
        ("ARG1:0-1 C-ARG1:2-3 C-ARG1:4-5", [("ARG1", ((0, 1), (2, 3), (4, 5)))]),
        # A continuation of nothing is turned into a regular argument, which others can continue.
        ("C-ARG1:0-1 ARG0:2-3", [("ARG1", ((0, 1),)), ("ARG0", ((2, 3),))]),
        ("C-ARG1:0-1 C-ARG1:2-3", [("ARG1", ((0, 1), (2, 3)))]),
        # It continues the last one with its label.
        ("ARG1:0-1 ARG1:1-2 C-ARG1:4-5", [("ARG1", ((0, 1),)), ("ARG1", ((1, 2), (4, 5)))]),
        ("R-ARG1:0-1 C-ARG1:4-5", [("R-ARG1", ((0, 1),)), ("ARG1", ((4, 5),))]),
        ("R-ARG1:0-1 C-R-ARG1:4-5", [("R-ARG1", ((0, 1), (4, 5)))]),
        ("ARG1-DSP:0-1 C-ARG1-DSP:4-5", [("ARG1", ((0, 1), (4, 5)))]),
    ],
)
def test_pieces_are_joined(arguments, joined):
    assert joined_arguments(pieces(arguments)) == joined


@pytest.mark.parametrize(
    ("gold", "predicted", "figures"),
    [
        ("ARG0:0-2 V:2-3 ARG1:3-6", "ARG0:0-2 V:2-3 ARG1:3-6", (2, 2, 2)),
        ("V:2-3", "V:2-3", (0, 0, 0)),
        ("ARG0:0-2 V:2-3", "V:2-3", (0, 0, 1)),
        ("V:2-3", "ARG0:0-2", (0, 1, 0)),
        ("ARG0:0-2", "ARG1:0-2", (0, 1, 1)),
        ("ARG0:0-2", "ARG0:1-2", (0, 1, 1)),
        ("ARG0:0-1 R-ARG0:1-2", "ARG0:0-1 ARG0:1-2", (1, 2, 2)),
        ("ARG1:0-1 C-ARG1:3-5", "ARG1:0-1 C-ARG1:3-5", (1, 1, 1)),
        ("ARG1:0-1 C-ARG1:3-5", "ARG1:0-1", (0, 1, 1)),
        ("ARG1:0-1 C-ARG1:3-5", "ARG1:0-1 ARG1:3-5", (0, 2, 1)),
        ("ARG1:0-1 C-ARG1:3-5", "ARG1:0-1 C-ARG0:3-5", (0, 2, 1)),
        ("ARG1:3-5", "C-ARG1:3-5", (1, 1, 1)),
        ("ARG1-DSP:0-1 C-ARG1-DSP:3-5", "ARG1:0-1 C-ARG1:3-5", (1, 1, 1)),
        ("V:2-3 C-V:4-5 ARG1:3-4", "V:2-3 ARG1:3-4", (1, 1, 1)),
        ("ARGM-TMP:0-1 ARGM-TMP:4-5", "ARGM-TMP:4-5 ARGM-LOC:0-1", (1, 2, 2)),
    ],
)
def test_by_hand(gold, predicted, figures):
    assert counts(one(gold, predicted)) == figures


def test_all_figures_of_two_sentences():
    gold = [
        [(1, pieces("ARG0:0-1 V:1-2 ARG1:2-6 ARGM-TMP:6-8")), (4, pieces("ARG1:2-4 V:4-5"))],
        [(0, pieces("V:0-1 ARG1:1-2 C-ARG1:3-4"))],
    ]
    predicted = [
        [(1, pieces("ARG0:0-1 V:1-2 ARG2:2-6 ARGM-LOC:7-8")), (4, pieces("ARG1:2-4 V:4-5"))],
        [(0, pieces("V:0-1 ARG2:1-2 C-ARG2:3-4")), (2, pieces("ARG0:1-2"))],
    ]
    score = score_roles(gold, predicted)
    assert counts(score) == (2, 6, 5)
    assert score.precision == pytest.approx(2 / 6)
    assert score.recall == pytest.approx(2 / 5)
    assert score.f1 == pytest.approx(4 / 11)
    assert counts(score.identification) == (4, 6, 5)
    assert score.classification == pytest.approx(2 / 4)
    assert {label: counts(row) for label, row in score.per_label.items()} == {
        "ARG0": (1, 2, 1),
        "ARG1": (1, 1, 3),
        "ARG2": (0, 2, 0),
        "ARGM-LOC": (0, 1, 0),
        "ARGM-TMP": (0, 0, 1),
    }
    assert list(score.per_label) == sorted(score.per_label)


def test_arguments_of_another_predicate_do_not_count():
    score = score_roles([[(0, [("ARG1", 1, 2)])]], [[(3, [("ARG1", 1, 2)])]])
    assert counts(score) == (0, 1, 1)
    assert counts(score.identification) == (0, 1, 1)


def test_the_empty_score():
    score = score_roles([], [])
    assert (score.f1, score.classification, score.identification.f1) == (0, 0, 0)
    assert score == RoleScore()


def test_errors():
    with pytest.raises(StructlearnError, match="SL301"):
        score_roles([[]], [])
    with pytest.raises(StructlearnError, match="SL320"):
        score_roles([[(0, [("ARG0", 1, 1)])]], [[]])
    with pytest.raises(StructlearnError, match="SL304"):
        score_token_roles([(["a"], [])], [(["b"], [])])
    with pytest.raises(StructlearnError, match="SL305"):
        score_token_roles([(["a"], [(1, [])])], [(["a"], [])])
    with pytest.raises(StructlearnError, match="SL305"):
        score_token_roles([(["a"], [(0, [("ARG0", 0, 2)])])], [(["a"], [])])


def test_other_tokens():
    # The same text; the prediction cuts "cannot" and joins "ice cream".
    gold = (["I", "cannot", "eat", "ice", "cream", "."], [(2, [("ARG0", 0, 1), ("ARG1", 3, 5)])])
    predicted = (
        ["I", "can", "not", "eat", "ice cream", "."],
        [(3, [("ARG0", 0, 1), ("ARG1", 4, 5), ("ARGM-NEG", 2, 3)])],
    )
    score = score_token_roles([gold], [predicted])
    assert counts(score) == (2, 3, 2)
    # A predicate that is cut otherwise is another one.
    assert counts(score_token_roles([gold], [(predicted[0], [(2, [("ARG0", 0, 1)])])])) == (0, 1, 2)


LABELS = ["ARG0", "ARG1", "ARGM-TMP", "R-ARG0", "C-ARG1", "V"]
FRAMES = st.lists(
    st.tuples(
        st.integers(0, 7),
        st.lists(
            st.tuples(st.sampled_from(LABELS), st.integers(0, 4), st.integers(5, 8)), max_size=4
        ),
    ),
    max_size=4,
    unique_by=lambda frame: frame[0],
)
CORPORA = st.lists(st.tuples(FRAMES, FRAMES), max_size=4)


@given(CORPORA)
def test_properties(corpus):
    gold, predicted = [a for a, _ in corpus], [b for _, b in corpus]
    score = score_roles(gold, predicted)
    mirrored = score_roles(predicted, gold)
    assert counts(mirrored) == (score.correct, score.gold, score.predicted)
    assert score.correct <= score.identification.correct
    assert counts(score.identification)[1:] == counts(score)[1:]
    for name in ("correct", "predicted", "gold"):
        assert sum(getattr(row, name) for row in score.per_label.values()) == getattr(score, name)
    itself = score_roles(gold, gold)
    assert itself.correct == itself.gold == itself.predicted


@given(CORPORA)
def test_offsets_of_the_same_tokens_change_nothing(corpus):
    words = ["a", "bc", "d", "(", "ef", "g", "h", "ijk"]
    gold, predicted = [a for a, _ in corpus], [b for _, b in corpus]
    by_offsets = score_token_roles([(words, f) for f in gold], [(words, f) for f in predicted])
    assert by_offsets == score_roles(gold, predicted)
