"""The tagger: the chunker's learners with one label a token, and their probabilities."""

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

TEXT = "The girl saw my red apples. Zorps sang loudly!"


@pytest.fixture
def nlp(make_examples):
    """The default tagger, which is unsure of words that it does not know; sentences by rule."""
    nlp = spacy.blank("en")
    nlp.add_pipe("chain_tagger")
    examples = [Example(untagged(nlp, eg.reference), eg.reference) for eg in make_examples(nlp)]
    nlp.initialize(lambda: examples)
    nlp.get_pipe("chain_tagger").fit(examples)
    nlp.add_pipe("sentencizer", first=True)
    return nlp


def untagged(nlp, doc):
    starts = [token.is_sent_start for token in doc]
    return Doc(nlp.vocab, words=[token.text for token in doc], sent_starts=starts)


def test_sentences_with_an_unknown_gold_tag_are_left_out(nlp):
    component = nlp.get_pipe("chain_tagger")
    words = ["Run", "!", "Wug", "!"]
    starts, tags = [True, False, True, False], ["VB", ".", "XYZ", "."]
    gold = Doc(nlp.vocab, words=words, tags=tags, sent_starts=starts)
    assert component.gold_data(Example(untagged(nlp, gold), gold)).tags == ("VB", ".")


def test_candidates(nlp):
    doc = nlp(TEXT)
    group, scores = doc.spans["tag_candidates"], doc.spans["tag_candidates"].attrs["scores"]
    assert scores.dtype == np.float32
    assert len(group) == len(scores) > 0
    places = [(span.start, -score) for span, score in zip(group, scores.tolist(), strict=True)]
    assert places == sorted(places)
    assert all(span.end == span.start + 1 for span in group)
    unsure = {span.start for span in group}
    for token in doc:
        probs = token._.tag_probs
        assert next(iter(probs)) == token.tag_
        assert list(probs.values()) == sorted(probs.values(), reverse=True)
        if token.i in unsure:
            assert probs[token.tag_] < 0.99
            assert 0.5 < sum(probs.values()) <= 1 + 1e-5
            assert min(list(probs.values())[1:], default=1) >= 0.01
        else:
            assert probs == {token.tag_: 1.0}
