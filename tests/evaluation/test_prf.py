import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.evaluation import prf
from spacy_structlearn.evaluation.conlleval import chunks

WORDS = st.text(st.sampled_from("ab\u00e9("), min_size=1, max_size=4)
TAGS = st.sampled_from(["O", "B-NP", "I-NP", "B-VP", "I-VP"])
SENTENCES = st.lists(st.tuples(WORDS, TAGS, TAGS), max_size=10)


def test_figures():
    score = prf.PRF(correct=1, predicted=2, gold=4)
    assert (score.precision, score.recall) == (0.5, 0.25)
    assert score.f1 == pytest.approx(2 * 0.5 * 0.25 / 0.75)
    assert prf.PRF().precision == prf.PRF().recall == prf.PRF().f1 == 0.0


def test_spans_match_within_their_document_and_label():
    gold = [[("NP", 0, 2), ("VP", 2, 3)], [("NP", 0, 1)]]
    predicted = [[("NP", 0, 1), ("VP", 2, 3)], [("VP", 0, 1)]]
    score = prf.score_spans(gold, predicted)
    assert (score.correct, score.predicted, score.gold) == (1, 3, 3)
    assert score.per_label == {"NP": prf.PRF(0, 1, 2), "VP": prf.PRF(1, 2, 1)}


def test_repeated_spans_are_counted():
    one, other = ("NP", 0, 1), ("NP", 1, 2)
    score = prf.score_spans([[one, one, one, other]], [[one, one, other, other]])
    assert (score.correct, score.predicted, score.gold) == (3, 4, 4)


def test_offsets_do_not_count_white_space():
    words = ["I", "\n ", "can", "not\u00a0", "go"]
    spans = [("NP", 0, 1), ("VP", 2, 4), ("VP", 1, 5), ("X", 1, 2)]
    assert prf.character_spans(words, spans) == [("NP", 0, 1), ("VP", 1, 7), ("VP", 1, 9)]


def test_another_tokenisation_of_the_same_text():
    gold = [(["a", "well", "-", "known", "man"], [("NP", 0, 5), ("ADJP", 1, 4), ("X", 1, 2)])]
    predicted = [(["a", " ", "well-known", "man"], [("NP", 0, 4), ("ADJP", 2, 3), ("X", 0, 1)])]
    score = prf.score_token_spans(gold, predicted)
    assert (score.correct, score.predicted, score.gold) == (2, 3, 3)
    assert score.per_label["X"] == prf.PRF(0, 1, 1)
    assert score.precision == score.recall == pytest.approx(2 / 3)


@given(SENTENCES, st.data())
def test_cutting_tokens_changes_no_score(sentence, data):
    words = [word for word, _, _ in sentence]
    spans = chunks([tag for _, tag, _ in sentence])
    cut: list[str] = []
    starts: list[int] = []
    for word in words:
        starts.append(len(cut))
        at = data.draw(st.integers(0, len(word)))
        cut.extend(part for part in (word[:at], " ", word[at:]) if part)
    starts.append(len(cut))
    moved = [(label, starts[a], starts[b]) for label, a, b in spans]
    score = prf.score_token_spans([(words, spans)], [(cut, moved)])
    assert score.correct == score.predicted == score.gold == len(spans)


def test_texts_must_agree():
    with pytest.raises(
        StructlearnError, match=r"SL304.*document 2 differ from character 3"
    ) as error:
        prf.score_token_spans([(["a"], []), (["ab", "cd"], [])], [(["a"], []), (["ab cx"], [])])
    assert error.value.fields["gold"] == "d"
    with pytest.raises(StructlearnError, match="SL304"):
        prf.score_token_spans([(["a"], [])], [(["a", "b"], [])])


def test_numbers_of_documents_must_agree():
    for score in (prf.score_spans, prf.score_token_spans):
        with pytest.raises(StructlearnError, match=r"SL301.*documents"):
            score([], [[]])


@pytest.mark.parametrize("span", [("NP", 0, 0), ("NP", 1, 3), ("NP", -1, 1)])
def test_spans_must_lie_in_the_document(span):
    with pytest.raises(StructlearnError, match="SL305"):
        prf.character_spans(["a", "b"], [span])
