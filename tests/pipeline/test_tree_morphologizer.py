"""Parts of speech, morphology and lemmas, from tags alone and with trees."""

import pytest
import spacy
from contracts.components import COMPONENTS, OTHER, TEXT, analysed, own
from spacy.tokens import Doc
from spacy.training import Example

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.extensions import set_spans
from spacy_structlearn.pipeline.readers import to_example

NAME = "tree_morphologizer"


@pytest.fixture
def nlp():
    """With a toy tagger, and the sample as training data."""
    return own(COMPONENTS[f"{NAME} StochasticCRF"])


def doc_of(vocab, words, tags, **columns):
    words = words.split()
    return Doc(
        vocab, words=words, tags=tags.split(), sent_starts=[w == words[0] for w in words], **columns
    )


def learned(vocab, *docs, **settings):
    nlp = spacy.blank("en", vocab=vocab)
    part = nlp.add_pipe(NAME, config=settings)
    examples = [to_example(doc, spans=["constituents"]) for doc in docs]
    nlp.initialize(lambda: examples)
    part.fit(examples)
    return part


def test_all_layers_are_written(nlp):
    doc = nlp(" \n" + TEXT)
    assert doc[0].pos_ == "SPACE"
    assert (doc[0].lemma_, str(doc[0].morph)) == (doc[0].text, "")
    key = doc[-2]
    assert (key.text, key.pos_, key.lemma_) == ("key", "NOUN", "key")
    assert key.morph.get("Number") == ["Sing"]
    assert doc.has_annotation("MORPH", require_complete=True)
    assert [token.lemma_ for token in nlp(OTHER)][:2] == ["she", "read"]
    assert not len(nlp(""))


def test_scores(nlp):
    gold = analysed(doc_of(nlp.vocab, "The dogs ran", "DT NNS VBD"))
    gold[2].pos_ = ""  # it has no annotation
    found = doc_of(nlp.vocab, "The dogs ran", "DT NNS VBD")
    for token, label in zip(found, ("DET", "NOUN", "X"), strict=True):
        token.pos_, token.lemma_ = label, token.lower_
        token.set_morph("Number=Sing" if label == "NOUN" else "")
    scores = nlp.get_pipe(NAME).score([Example(found, gold)])
    assert scores == {"pos_acc": 1.0, "morph_acc": 0.5, "lemma_acc": pytest.approx(1 / 3)}


def test_tags_are_needed(nlp):
    with pytest.raises(StructlearnError, match=r"SL001.*tree_morphologizer.*token\.tag_.*A dog"):
        nlp.get_pipe(NAME)(nlp.make_doc("A dog slept."))
    with pytest.raises(StructlearnError, match=r"SL043.*encoder"):
        nlp.add_pipe(NAME, "other", config={"encoder": True})


def test_trees_decide_where_there_are_any():
    """The word and its tag do not tell: in one phrase it is a pronoun, in the other not."""
    vocab, docs = spacy.blank("en").vocab, []
    for phrase, pos in (("WHNP", "PRON"), ("SBAR", "SCONJ")):
        doc = doc_of(vocab, "that works", "IN VBZ", pos=[pos, "VERB"])
        set_spans(doc, "constituents", [("S", 0, 2), (phrase, 0, 1), ("VP", 1, 2)])
        docs.append(doc)
    part = learned(vocab, *docs * 6)
    answers = [part(to_example(doc, spans=["constituents"]).predicted) for doc in docs]
    assert [doc[0].pos_ for doc in answers] == ["PRON", "SCONJ"]
    assert part(to_example(docs[0]).predicted)[0].pos_ in ("PRON", "SCONJ")


def test_lemmas_are_learned_on(tmp_path):
    vocab = spacy.blank("en").vocab
    pos, lemmas = ["PRON", "AUX", "PART"], ["I", "can", "not"]
    doc = doc_of(vocab, "i ca n't", "PRP MD RB", pos=pos, lemmas=lemmas)
    part = learned(vocab, doc, doc.copy())
    assert [token.lemma_ for token in part(to_example(doc).predicted)] == ["I", "can", "not"]
    part.to_disk(tmp_path / "part")
    again = spacy.blank("en").add_pipe(NAME).from_disk(tmp_path / "part")
    assert again.lemmas == part.lemmas
    assert len(part.lemmas) == 2
    new = [doc_of(vocab, "u", "PRP", pos=["PRON"], lemmas=["you"]) for _ in range(2)]
    again.update([to_example(doc) for doc in new])
    assert again.lemmas.lemma("U", "PRON") == "you"
    assert again.lemmas.lemma("I", "PRON") == "I"
    # From scratch, what was known is forgotten.
    again.initialize(lambda: [to_example(doc) for doc in new])
    again.fit([to_example(doc) for doc in new])
    assert len(again.lemmas) == 1
