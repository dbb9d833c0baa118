"""Vectors of tokens in Docs."""

import pickle

import numpy as np
import pytest
import spacy
from encoder.tiny import tiny
from spacy.tokens import Doc, DocBin

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.doc_arrays import copy_with_vectors, read_tokens, read_vectors

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
TEXTS = ["The dog barks.  Dogs bark.", "", " \n ", "A dog.\n\nNo dog."]


def pipeline(**config):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("token_encoder", config=config).parameters = tiny()
    return nlp


def vectors(doc):
    return read_vectors([doc], read_tokens([doc], ["ORTH"], ""), "it")


def test_vectors_of_docs():
    nlp = pipeline()
    together = list(nlp.pipe(TEXTS))
    for text, doc in zip(TEXTS, together, strict=True):
        words = [token for token in doc if not token.is_space]
        found = vectors(doc)
        assert found.shape == (len(words), 16 if len(doc) else 0)
        np.testing.assert_allclose(vectors(nlp(text)), found, atol=1e-6)
        np.testing.assert_allclose(vectors(copy_with_vectors(doc)), found)
        sentences = [[t.text for t in sent if not t.is_space] for sent in doc.sents]
        if words:
            wanted = np.concatenate(nlp.get_pipe("token_encoder").parameters.vectors(sentences))
            np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_vectors_are_not_in_bytes_unless_wanted():
    plain, kept = pipeline()(TEXTS[0]), pipeline(set_tensor=True)(TEXTS[0])
    assert len(plain.to_bytes()) < 1500 < len(kept.to_bytes())
    again = Doc(kept.vocab).from_bytes(kept.to_bytes())
    np.testing.assert_allclose(vectors(again), vectors(kept))
    (stored,) = DocBin(docs=[plain]).get_docs(plain.vocab)
    with pytest.raises(StructlearnError, match="SL192"):
        vectors(stored)


def test_vectors_of_other_processes_come_back_if_wanted():
    for wanted in (False, True):
        nlp = pipeline(set_tensor=wanted)
        docs = list(nlp.pipe([TEXTS[0]] * 4, n_process=2, batch_size=2))
        assert [len(doc.tensor) > 0 for doc in docs] == [wanted] * 4
        if wanted:
            np.testing.assert_allclose(vectors(docs[0]), vectors(nlp(TEXTS[0])), atol=1e-6)


def test_without_sentences_a_doc_is_one():
    nlp = pipeline()
    words = ["dog", "bark"] * 100
    (wanted,) = nlp.get_pipe("token_encoder").parameters.vectors([words])
    doc = nlp.get_pipe("token_encoder")(Doc(nlp.vocab, words=words))
    np.testing.assert_allclose(vectors(doc), wanted)


def test_storage(tmp_path):
    nlp = pipeline(batch_pieces=20)
    wanted = vectors(nlp(TEXTS[0]))
    nlp.to_disk(tmp_path)
    for again in (spacy.load(tmp_path), pickle.loads(pickle.dumps(nlp)), spacy.blank("en")):
        if "token_encoder" not in again.pipe_names:
            again.add_pipe("sentencizer")
            again.add_pipe("token_encoder", source=nlp)
        assert again.get_pipe("token_encoder").batch_pieces == 20
        np.testing.assert_allclose(vectors(again(TEXTS[0])), wanted)
    model = tmp_path / "token_encoder" / "model"
    data = bytearray(model.read_bytes())
    data[len(data) // 2] ^= 1
    model.write_bytes(data)
    with pytest.raises(StructlearnError, match="SL08"):
        spacy.load(tmp_path)


def test_it_is_not_trained():
    nlp = pipeline()
    assert not nlp.get_pipe("token_encoder").is_trainable
    before = nlp.get_pipe("token_encoder").parameters
    nlp.initialize()
    assert nlp.get_pipe("token_encoder").parameters is before


def test_without_an_encoder():
    nlp = spacy.blank("en")
    nlp.add_pipe("token_encoder")
    with pytest.raises(StructlearnError, match="SL194"):
        nlp("A dog.")
    assert nlp.from_bytes(nlp.to_bytes()).get_pipe("token_encoder").parameters.is_empty
