"""raw_text.py on a few texts: renderings, boundaries, tags, and what contradicts what."""

from __future__ import annotations

import pytest
import spacy
from spacy.tokens import Doc, Span, SpanGroup
from spacy.tokens.underscore import Underscore

from training.benchmarks import raw_text

NOTE = "Quarterly report\n\nThe company earned more.  It has a well-known name.\n\n\nBye"
SENTENCES = [(0, 16), (18, 42), (44, 69), (72, 75)]
VOCAB = spacy.blank("en").vocab
LONG = " ".join(["extraordinarily-long-words"] * 4)


def document(text=NOTE, sentences=SENTENCES, tokens=()):
    return raw_text.Document("d", text, list(sentences), list(tokens))


def placed(doc, key, spans):
    doc.spans[key] = SpanGroup(doc, name=key, spans=[Span(doc, *span) for span in spans])


@pytest.fixture
def rules():
    """A pipeline that splits by rules."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    return nlp


@pytest.fixture
def run(rules, tmp_path):
    """A run on documents that a test gives it."""
    return raw_text.Run(rules, tmp_path, "dev")


# --- texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("render", raw_text.RENDERINGS.values(), ids=raw_text.RENDERINGS)
def test_gold_sentences_are_found_in_every_rendering(render):
    sentences = [NOTE[start:end] for start, end in SENTENCES]
    text = render(NOTE)
    found, start = [], 0
    for words in map(str.split, sentences):
        start = text.index(words[0], start)
        end = text.index(words[-1], start) + len(words[-1])
        found.append((start, end))
        start = end
    figures = raw_text.segment_figures([(NOTE, SENTENCES)], [(text, found)])
    assert figures == {"p": 100, "r": 100, "f": 100, "se": 0}


# --- sentences ------------------------------------------------------------------------------------
def test_sentences_by_rules(run):
    run.documents = [document()]
    figures = raw_text.sents(run)
    assert figures["sents.n"] == 4
    # The heading is joined to the sentence below it unless paragraphs are split before.
    assert figures["sents.paragraphs.f"] == figures["sents.flat.f"] == pytest.approx(200 * 2 / 7)
    assert figures["sents.each_paragraph.f"] == 100
    assert "sents.ece" not in figures


def test_outcomes_of_probabilities(run, monkeypatch):
    extension = (None, None, starts_with_a_capital, None)
    monkeypatch.setitem(Underscore.token_extensions, "sent_start_prob", extension)
    text = "One went. Two\nStayed\n\nThree left"
    (doc,) = run.sentences([text])
    # went, ., Two, Stayed, left: not the first, not "Three", no white space.
    expected = [(0.1, False), (0.1, False), (0.9, True), (0.9, False), (0.1, False)]
    assert list(raw_text.boundaries(doc, {0, 10, 22})) == expected
    figures = raw_text.calibration([doc], [document(text, [(0, 9), (10, 20), (22, 32)])])
    assert figures == {"sents.ece": pytest.approx((3 * 0.1 + 2 * 0.4) / 5)}


def starts_with_a_capital(token):
    return 0.9 if token.is_title else 0.1


# --- tags, trees and chunks -----------------------------------------------------------------------


def test_tags_that_are_others_in_the_tree():
    doc = Doc(VOCAB, words=["it", " ", "ran", "far"], tags=["PRP", "_SP", "VBD", "RB"])
    placed(doc, "constituents", [(0, 4, "S"), (0, 1, "NP"), (2, 4, "VP")])
    assert raw_text.disagreeing(doc) == 0
    placed(doc, "constituent_tags", [(2, 3, "VBN"), (3, 4, "RB")])
    assert raw_text.disagreeing(doc) == 1


@pytest.mark.parametrize(
    ("chunk", "crosses"),
    [((0, 2), 0), ((0, 3), 0), ((2, 5), 0), ((1, 2), 0), ((0, 6), 0), ((1, 4), 1), ((0, 4), 1)],
)
def test_chunks_that_cross_brackets(chunk, crosses):
    doc = Doc(VOCAB, words=["a", "b", "\n", "c", "d", "e"])
    placed(doc, "constituents", [(0, 6, "S"), (0, 2, "NP"), (3, 5, "VP")])
    # White space at an end is no part of a chunk.
    placed(doc, "np_chunks", [(*chunk, "NP")])
    assert raw_text.crossing(doc) == crosses


def test_the_default_pipeline(nlp, monkeypatch, tmp_path):
    run = raw_text.Run(nlp, tmp_path, "dev")
    assert run.splitter in nlp.pipe_names
    assert run.tagger in nlp.pipe_names
    assert run.splitter not in raw_text.COSTLY
    assert {name for name, _ in raw_text.LAYERS.values()} <= set(nlp.pipe_names)
    run.documents = [document()]
    run.everyday = [("note", NOTE, SENTENCES)]
    assert raw_text.everyday(run)["everyday.n"] == 4
    assert set(raw_text.agreement(run)) == {
        *("tags.disagree", "np_chunks.crossing", "np_chunks.possessives")
    }
    monkeypatch.setattr(raw_text, "RUNS", 1)
    names = {
        "front",
        "front_new_text",
        "all",
        "tokenizer",
        *set(nlp.pipe_names) - set(raw_text.COSTLY),
    }
    assert set(raw_text.speed(run)) == {f"words_per_cpu_s.{name}" for name in names}


# --- peers and the command ------------------------------------------------------------------------
