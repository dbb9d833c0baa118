"""Items of Docs: their scores are those of the scorers, and tokens may differ."""

import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

import spacy_structlearn
from spacy_structlearn.pipeline.reports import comparison, evaluation, items

TEXTS = [
    "The old man saw a dog with a telescope. He said that it barked (loudly), but it slept.",
    "My sister gave the boxes of apples to her friends in Bristol.",
    " \n Stop! ",
]


@pytest.fixture(scope="module")
def gold():
    """A pipeline, and its predictions as gold Docs."""
    nlp = spacy_structlearn.load()
    return nlp, list(nlp.pipe(TEXTS))


def test_scores_are_those_of_the_scorers(gold):
    nlp, docs = gold
    examples = []
    with nlp.select_pipes(disable=["sentence_splitter"]):
        for doc in docs:
            words, spaces = zip(*((t.text, bool(t.whitespace_)) for t in doc), strict=True)
            starts = [t.is_sent_start or t.text in ("with", "that", "of") for t in doc]
            other = nlp(Doc(doc.vocab, words, spaces, sent_starts=starts))
            examples.append(Example(other, doc))
    scores = spacy.scorer.Scorer(nlp).score(examples)
    for _, component in nlp.pipeline:
        if hasattr(component, "score"):
            scores |= component.score(examples)
    found = list(items.by_sentence(examples))
    assert len(found) == 4
    assert any(own.wrong for own in found)
    for name in ("np_chunk", "constituents", "srl", "pp_attachment"):
        score = evaluation.score_of(found, name)
        assert score.gold
        assert score.f1 == pytest.approx(scores[f"{name}_f"])
        assert score.precision == pytest.approx(scores[f"{name}_p"])
    assert evaluation.score_of(found, "dep").f1 == pytest.approx(scores["dep_las"])
    assert evaluation.score_of(found, "tag").recall == pytest.approx(scores["tag_acc"])


def test_other_tokens_and_sentences(gold):
    nlp, (doc, *_) = gold
    predicted = nlp(Doc(nlp.vocab, words=doc.text.split()))
    found = list(items.by_sentence([Example(predicted, doc)]))
    assert [own.gold.text for own in found] == [span.text for span in doc.sents]
    assert found[0].predicted[-1].text == "telescope."
    assert found[0].counts("constituents")[1] > 0
    assert evaluation.report(found, "a page")
    changed = comparison.compare(found, found)
    assert {difference for _, _, _, difference, *_ in changed.scores} == {0.0}
    assert changed.pairs == []


def test_nothing_to_report():
    assert evaluation.report([], "Nothing").count("<section>") == 0
    nlp = spacy.blank("en")
    pair = Example(nlp.make_doc(""), nlp.make_doc(""))
    assert list(items.by_sentence([pair])) == []
