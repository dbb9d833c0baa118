"""The NP chunker as spaCy sees it: training, prediction, storage, odd input."""

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.np_chunker import NPChunker

TEXT = "The old dog slept under the table. My sister bought two red apples."
CHUNKS = ["The old dog", "the table", "My sister", "two red apples"]


def texts(doc):
    return [chunk.text for chunk in doc._.np_chunks]


def tagged(nlp, words, tags):
    return nlp.get_pipe("np_chunker")(Doc(nlp.vocab, words=words, tags=tags))


# --- training -------------------------------------------------------------------------------------
def test_gold_chunks_that_do_not_fit_the_tokens_are_left_out(make_examples):
    nlp = spacy.blank("en")
    chunker = nlp.add_pipe("np_chunker")
    reference = make_examples(nlp)[1].reference
    words = ["My", "sister", "bought two", "red", "apples", "."]
    tags = ["PRP$", "NN", "VBD", "JJ", "NNS", "."]
    chunker.add_label("NP")
    example = Example(Doc(nlp.vocab, words=words, tags=tags), reference)
    assert chunker.gold_data(example).tags == ("B-NP", "I-NP", "O", "O", "O", "O")


# --- prediction -----------------------------------------------------------------------------------
def test_chunks_and_probabilities(nlp):
    doc = nlp(TEXT)
    assert texts(doc) == CHUNKS
    scores = doc.spans["np_chunks"].attrs["scores"]
    assert scores.dtype == np.float32
    assert len(scores) == len(CHUNKS)
    for chunk, score in zip(doc._.np_chunks, scores, strict=True):
        assert 0.0 < score <= 1.0
        assert chunk._.np_chunk_prob == pytest.approx(score)
    assert doc[0:2]._.np_chunk_prob is None
    assert doc[3:4]._.np_chunk_prob is None
    assert [t._.np_iob for t in doc[:8]] == ["B", "I", "I", "O", "O", "B", "I", "O"]


def test_noun_chunks_hook(make_chunker):
    nlp = make_chunker(set_noun_chunks=True)
    doc = tagged(nlp, ["the", "dog", "saw", "a", "bird"], ["DT", "NN", "VBD", "DT", "NN"])
    assert [chunk.text for chunk in doc.noun_chunks] == ["the dog", "a bird"]
    assert [chunk.text for chunk in doc[2:].noun_chunks] == ["a bird"]
    assert {chunk.label_ for chunk in doc.noun_chunks} == {"NP"}
    # The root is spaCy's, and read from a dependency parse.
    first = next(doc.noun_chunks)
    assert (first.root.text, first._.head.text) == ("the", "dog")
    assert "`chunk.root` is the first word, not the head" in " ".join(NPChunker.__doc__.split())
    with pytest.raises(StructlearnError, match="np_chunker first"):
        list(nlp.make_doc("the dog").noun_chunks)


def test_chunks_are_merged(make_chunker):
    nlp = make_chunker()
    doc = tagged(nlp, ["the", "dog", "saw", "a", "bird"], ["DT", "NN", "VBD", "DT", "NN"])
    probabilities = [chunk._.np_chunk_prob for chunk in doc._.np_chunks]
    doc.spans["constituents"] = [Span(doc, 0, 5, "S"), Span(doc, 3, 5, "NP"), Span(doc, 4, 5, "X")]
    nlp.add_pipe("merge_np_chunks")
    doc = nlp.get_pipe("merge_np_chunks")(doc)
    assert [(token.text, token.tag_) for token in doc] == [
        *(("the dog", "NN"), ("saw", "VBD"), ("a bird", "NN"))
    ]
    assert [(chunk.start, chunk.end) for chunk in doc.spans["np_chunks"]] == [(0, 1), (2, 3)]
    assert [chunk._.np_chunk_prob for chunk in doc._.np_chunks] == probabilities
    assert [(s.label_, s.start, s.end) for s in doc.spans["constituents"]] == [
        *(("S", 0, 3), ("NP", 2, 3))
    ]


# --- chunks under a tree --------------------------------------------------------------------------
def rechunked(nlp, doc, *brackets):
    """The Doc with other constituents, and chunks that fit them."""
    doc.spans["constituents"] = [Span(doc, start, end, "X") for start, end in brackets]
    return nlp.get_pipe("np_chunker")(doc)


def places(doc):
    return [(chunk.start, chunk.end) for chunk in doc._.np_chunks]


def test_chunks_do_not_cross_constituents(nlp):
    doc = nlp(TEXT)
    assert places(doc)[0] == (0, 3)
    free = doc.spans["np_chunks"].attrs["scores"]
    rechunked(nlp, doc, (0, 8), (1, 4), (8, 15))
    scores = doc.spans["np_chunks"].attrs["scores"]
    assert (0, 3) not in places(doc)
    assert not any(i < 1 < j < 4 or 1 < i < 4 < j for i, j in places(doc))
    assert len(scores) == len(doc._.np_chunks)
    # Those of the other sentence are as they were.
    assert texts(doc)[-2:] == CHUNKS[2:]
    np.testing.assert_allclose(scores[-2:], free[-2:], rtol=1e-5)


def test_constituents_count_past_white_space(nlp):
    doc = nlp("\n The old \n\n dog slept  under the\ttable.")
    words = [token.i for token in doc if not token.is_space]
    assert places(doc)[0] == (words[0], words[2] + 1)
    rechunked(nlp, doc, (words[1], words[3] + 1))
    assert not any(i < words[1] < j <= words[3] for i, j in places(doc))
    rechunked(nlp, doc, (words[0], words[2] + 1))
    assert places(doc)[0] == (words[0], words[2] + 1)


def test_a_possessive_marker_begins_the_next_chunk():
    nlp = spacy.blank("en")
    chunker = nlp.add_pipe("np_chunker")
    words, tags = ["the", "dog", "'s", "old", "table"], ["DT", "NN", "POS", "JJ", "NN"]
    gold = Doc(nlp.vocab, words=words, tags=tags)
    gold.spans["np_chunks"] = [Span(gold, 0, 2, "NP"), Span(gold, 2, 5, "NP")]
    examples = [Example(gold.copy(), gold)]
    nlp.initialize(lambda: examples)
    chunker.fit(examples)
    doc = Doc(nlp.vocab, words=words, tags=tags)
    assert places(rechunked(nlp, doc, (0, 5), (0, 3))) == [(0, 2), (2, 5)]
    # No phrase without it may be crossed.
    assert (2, 5) not in places(rechunked(nlp, doc, (0, 5), (0, 4)))


# --- storage of the predictions -------------------------------------------------------------------
def test_features_of_single_symbols_get_names(make_chunker, make_examples):
    nlp = make_chunker()
    chunker = nlp.get_pipe("np_chunker")
    assert chunker.parameters.strongest(5, named=True) == []
    chunker.name_features([example.predicted for example in make_examples(nlp)])
    named = chunker.parameters.strongest(10_000, named=True)
    assert "TAG[0]=DT" in {name for name, _, _, _ in named}
    assert not any("|" in name for name, _, _, _ in named)
    assert all(nlp.vocab.strings[name.split("=", 1)[1]] for name, _, _, _ in named)


def test_constituents_can_be_left_alone(make_chunker):
    nlp = make_chunker(respect_constituents=False)
    doc = tagged(nlp, ["the", "dog", "slept"], ["DT", "NN", "VBD"])
    assert places(rechunked(nlp, doc, (1, 3))) == [(0, 2)]
    nlp = make_chunker()
    doc = tagged(nlp, ["the", "dog", "slept"], ["DT", "NN", "VBD"])
    assert (0, 2) not in places(rechunked(nlp, doc, (1, 3)))
