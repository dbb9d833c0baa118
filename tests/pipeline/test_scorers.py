"""Scores of NP chunks from Examples."""

import random

import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import registry

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.evaluation.conlleval import chunks, conlleval
from spacy_structlearn.pipeline.readers import set_gold_spans
from spacy_structlearn.pipeline.scorers import np_chunk_score, span_score

VOCAB = spacy.blank("en").vocab
WORDS = ["The", "dogs", "saw", "a", "red-haired", "cat", "."]


def make_doc(words, spans=None):
    doc = Doc(VOCAB, words=words)
    if spans is not None:
        set_gold_spans(doc, "np_chunks", spans)
    return doc


def make_example(predicted, gold, words=WORDS, gold_words=None):
    return Example(make_doc(words, predicted), make_doc(gold_words or words, gold))


def test_counted_by_hand():
    gold = [("NP", 0, 2), ("NP", 3, 6)]
    scores = np_chunk_score([make_example([("NP", 0, 2), ("NP", 4, 6), ("NP", 6, 7)], gold)])
    assert scores["np_chunk_p"] == pytest.approx(1 / 3)
    assert scores["np_chunk_r"] == pytest.approx(1 / 2)
    assert scores["np_chunk_f"] == pytest.approx(2 / 5)
    assert scores["np_chunk_per_type"] == {
        "NP": {measure: scores[f"np_chunk_{measure}"] for measure in "prf"}
    }


def test_on_gold_tokens_it_equals_conlleval():
    generator = random.Random(3)

    def random_tags():
        return [generator.choice(["O", "B-NP", "I-NP", "B-VP", "I-VP"]) for _ in range(12)]

    gold, predicted = ([random_tags() for _ in range(30)] for _ in range(2))
    examples = [
        make_example(chunks(p), chunks(g), words=[f"w{i}" for i in range(12)])
        for p, g in zip(predicted, gold, strict=True)
    ]
    scores, expected = np_chunk_score(examples), conlleval(gold, predicted)
    assert 0 < expected.correct < expected.gold
    assert scores["np_chunk_p"] == expected.precision
    assert scores["np_chunk_r"] == expected.recall
    assert scores["np_chunk_f"] == expected.f1
    per_type = {label: prf["f"] for label, prf in scores["np_chunk_per_type"].items()}
    assert per_type == {label: prf.f1 for label, prf in expected.per_label.items()}
    assert set(per_type) == {"NP", "VP"}


def test_other_tokens_over_the_same_characters_are_right():
    finer = ["The", "dogs", "saw", "a", "red", "-", "haired", "cat", "."]
    gold = [("NP", 0, 2), ("NP", 3, 6)]
    right = make_example([("NP", 0, 2), ("NP", 3, 8)], gold, words=finer, gold_words=WORDS)
    assert np_chunk_score([right])["np_chunk_f"] == 1.0
    # As right, but without the first half of the compound: a chunk of other characters.
    wrong = make_example([("NP", 0, 2), ("NP", 5, 8)], gold, words=finer, gold_words=WORDS)
    assert np_chunk_score([wrong])["np_chunk_f"] == 0.5


def test_white_space_tokens_do_not_count():
    spread = ["The", "\n", "dogs", "saw", " ", "a", "red-haired", "cat", "."]
    gold = [("NP", 0, 2), ("NP", 3, 6)]
    example = make_example([("NP", 0, 3), ("NP", 4, 8)], gold, words=spread, gold_words=WORDS)
    assert np_chunk_score([example])["np_chunk_f"] == 1.0


def test_a_chunk_with_another_label_is_wrong():
    scores = np_chunk_score([make_example([("VP", 0, 2)], [("NP", 0, 2)])])
    assert scores["np_chunk_f"] == 0.0
    assert set(scores["np_chunk_per_type"]) == {"NP", "VP"}


@pytest.mark.parametrize("examples", [[], [make_example([("NP", 0, 2)], None)]])
def test_without_gold_there_are_no_scores(examples):
    names = {"np_chunk_p", "np_chunk_r", "np_chunk_f", "np_chunk_per_type"}
    assert np_chunk_score(examples) == dict.fromkeys(names)


def test_examples_without_gold_do_not_count():
    annotated = make_example([("NP", 0, 2)], [("NP", 0, 2)])
    other = make_example([("NP", 3, 6)], None)
    assert np_chunk_score([annotated, other])["np_chunk_p"] == 1.0


def test_gold_without_chunks_does_count():
    annotated = make_example([("NP", 0, 2)], [("NP", 0, 2)])
    none = make_example([("NP", 3, 6)], [])
    assert np_chunk_score([annotated, none])["np_chunk_p"] == 0.5


def test_a_doc_that_no_chunker_has_seen_has_recall_zero():
    scores = np_chunk_score([make_example(None, [("NP", 0, 2)])])
    assert (scores["np_chunk_p"], scores["np_chunk_r"], scores["np_chunk_f"]) == (0.0, 0.0, 0.0)


def test_another_text_is_an_error():
    example = Example(make_doc(["The", "dogs"], []), make_doc(["The", "dogs"], []))
    example.predicted = make_doc(["The", "cats"], [])
    with pytest.raises(StructlearnError, match="SL304"):
        np_chunk_score([example])


def test_other_groups_under_other_names():
    example = make_example(None, None)
    for doc in (example.predicted, example.reference):
        set_gold_spans(doc, "frames", [("V", 2, 3)])
    scores = span_score([example], "frames", "frame")
    assert scores["frame_f"] == 1.0
    assert set(scores) == {"frame_p", "frame_r", "frame_f", "frame_per_type"}


def test_the_registered_scorer_is_what_the_component_uses():
    make = registry.scorers.get("spacy_structlearn.np_chunk_scorer.v1")
    assert make() is np_chunk_score
    assert spacy.blank("en").add_pipe("np_chunker").scorer is np_chunk_score
