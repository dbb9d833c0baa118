"""Predictions as plain data: `as_dict`, and spaCy's JSON."""

import json

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

import spacy_structlearn
from spacy_structlearn import as_dict
from spacy_structlearn.pipeline import extensions
from spacy_structlearn.pipeline.extensions import set_spans

TEXT = "Hi!\n\nShe  ate the pizza with a fork. (Dr. Ito slept 😀.)\n"


@pytest.fixture(scope="module")
def parsed():
    return spacy_structlearn.load()(TEXT)


def covered(place):
    return TEXT[place["start"] : place["end"]]


def test_everything_that_the_getters_tell(parsed):
    data = json.loads(json.dumps(as_dict(parsed)))
    assert data == as_dict(parsed)
    assert set(data) == {
        *("text", "tokens", "sents", "np_chunks", "trees", "constituents", "parse_failures"),
        *("pp_attachments", "frames"),
    }
    words = [token for token in parsed if not token.is_space]
    assert [(covered(t), t["tag"]) for t in data["tokens"]] == [(t.text, t.tag_) for t in words]
    for token, own in zip(words, data["tokens"], strict=True):
        assert (token.pos_, token.lemma_, token.dep_) == (own["pos"], own["lemma"], own["dep"])
        assert str(token.morph) == own.get("morph", "")
        assert words[own["head"]] == token.head
    assert [word for sentence in data["sents"] for word in sentence["words"]] == [
        token.text for token in words
    ]
    assert data["trees"] == [str(tree) for tree in parsed._.trees]
    assert len(data["trees"]) == len(data["sents"])

    def told(spans):
        return [(covered(span), span["label"], span["prob"]) for span in spans]

    chunks = parsed._.np_chunks
    assert told(data["np_chunks"]) == [(c.text, "NP", round(c._.np_chunk_prob, 4)) for c in chunks]
    assert told(data["constituents"]) == [
        (span.text, span.label_, round(span._.constituent_prob, 4))
        for span in parsed.spans["constituents"]
    ]
    (site,) = parsed._.pp_attachments
    (found,) = data["pp_attachments"]
    assert told([found]) == [(site.pp.text, site.label, round(site.prob, 4))]
    heads = [covered(found[role]) for role in ("verb", "noun", "prep", "object")]
    assert heads == ["ate", "pizza", "with", "fork"]
    assert len(data["frames"]) == len(parsed._.frames) >= 2
    for frame, found in zip(parsed._.frames, data["frames"], strict=True):
        assert covered(found["predicate"]) == found["verb"] == frame.predicate.text
        assert (found["roleset"], found["prob"]) == (frame.roleset, round(frame.prob, 4))
        assert told(found["arguments"]) == [
            (a.span.text, a.label, round(a.prob, 4)) for a in frame.arguments
        ]


def framed(frames):
    words = ["She", "who", "ran", "home", "slept", "well", "."]
    doc = Doc(Vocab(), words=words, sent_starts=[i == 0 for i in range(len(words))])
    set_spans(doc, "srl", extensions.frame_spans(frames))
    return doc


def test_frames_have_the_form_of_allennlp():
    frames = [
        (2, "run.02", [("ARG0", 0, 1), ("R-ARG0", 1, 2), ("ARG1", 3, 4)]),
        (4, None, [("ARG0", 0, 4), ("ARGM-MNR", 5, 6)]),
    ]
    ran, slept = as_dict(framed(frames))["frames"]
    assert (ran["verb"], ran["sentence"]) == ("ran", 0)
    assert ran["description"] == "[ARG0: She] [R-ARG0: who] [V: ran] [ARG1: home] slept well ."
    assert ran["tags"] == ["B-ARG0", "B-R-ARG0", "B-V", "B-ARG1", "O", "O", "O"]
    assert slept["description"] == "[ARG0: She who ran home] [V: slept] [ARGM-MNR: well] ."
    assert slept["tags"] == [*("B-ARG0", "I-ARG0", "I-ARG0", "I-ARG0", "B-V", "B-ARGM-MNR", "O")]
    assert slept["prob"] is slept["roleset"] is slept["arguments"][0]["prob"] is None


def test_tags_do_not_express_arguments_that_overlap():
    (frame,) = as_dict(framed([(2, None, [("ARG0", 0, 4)])]))["frames"]
    assert frame["tags"] is None
    assert frame["description"] == "[ARG0: She who [V: ran] home] slept well ."


def test_words_and_tags_are_without_white_space():
    words = ["\n", "She", " ", "ran", "\n\n", "Go", "!"]
    doc = Doc(spacy.blank("en").vocab, words=words, sent_starts=[i in (0, 5) for i in range(7)])
    set_spans(doc, "srl", extensions.frame_spans([(3, None, [("ARG0", 1, 3)]), (5, None, [])]))
    data = as_dict(doc)
    assert [sentence["words"] for sentence in data["sents"]] == [["She", "ran"], ["Go", "!"]]
    assert [(f["sentence"], f["tags"]) for f in data["frames"]] == [
        (0, ["B-ARG0", "B-V"]),
        (1, ["B-V", "O"]),
    ]


# --- spaCy's JSON ---------------------------------------------------------------------------------
def test_spacy_json_keeps_probabilities_with_span_probs(parsed):
    stored = json.dumps(parsed.to_json(underscore=["span_probs"]))
    again = Doc(spacy.blank("en").vocab).from_json(json.loads(stored), validate=True)
    assert as_dict(again) == as_dict(parsed)
    assert again._.span_probs == parsed._.span_probs
    assert again.spans["srl"].attrs["scores"].dtype == np.float32
    for token, same in zip(parsed, again, strict=True):
        assert same._.tag_probs == token._.tag_probs
        assert same._.sent_start_prob == token._.sent_start_prob
    # Without it, everything else is the same.
    without = Doc(spacy.blank("en").vocab).from_json(parsed.to_json())
    assert without._.span_probs == {}
    assert without._.frames[0].prob is None
    assert without._.frames[0].roleset == parsed._.frames[0].roleset
    assert Doc(Vocab(), words=["a"])._.span_probs == {}


def test_probabilities_of_gold_groups_stay_unknown():
    doc = Doc(Vocab(), words=["a"])
    doc.spans["np_chunks"] = [Span(doc, 0, 1, "NP")]
    assert doc._.span_probs == {}
