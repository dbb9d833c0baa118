"""Docs as arrays of symbol ids."""

from itertools import pairwise

import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.doc_arrays import read_tokens
from spacy_structlearn.sequence.layout.words import word_columns

VOCAB = spacy.blank("en").vocab


def make_doc(words, **kwargs):
    return Doc(VOCAB, words=words, **kwargs)


def read(*docs, attributes=("ORTH",)):
    return read_tokens(docs, attributes, "chunker")


def test_columns_of_the_spelling_among_others():
    names = ("SUFFIX2", "LOWER", "FLAGS")
    docs = make_doc(["Dogs", " ", "bark"]), Doc(spacy.blank("de").vocab, words=["dogs", "zyzzyva"])
    columns = read(*docs, attributes=names).columns
    words = ["Dogs", "bark", "dogs", "zyzzyva"]
    np.testing.assert_array_equal(columns[:, [0, 2]], word_columns(words, ["SUFFIX2", "FLAGS"]))
    lower = [VOCAB.strings.add(word.lower()) for word in words]
    np.testing.assert_array_equal(columns[:, 1], np.array(lower, dtype=np.uint64))
    assert read(make_doc([]), attributes=names).columns.shape == (0, 3)


def test_missing_tags_are_an_error_that_names_text_and_component():
    tagged = make_doc(["Dogs", "bark"], tags=["NNS", "VBP"])
    with pytest.raises(StructlearnError, match=r"'chunker' reads token\.tag_.*'Cats sleep '") as e:
        read(tagged, make_doc(["Cats", "sleep"]), attributes=("ORTH", "TAG"))
    assert e.value.code == "SL001"
    assert "spacy_structlearn.CrossPredicted.v1" in str(e.value)


def test_a_text_without_entities_is_annotated_if_a_recognizer_has_run():
    doc = make_doc(["Dogs", "bark"])
    with pytest.raises(StructlearnError, match="SL001"):
        read(doc, attributes=("ENT_TYPE",))
    doc.set_ents([])
    assert read(doc, attributes=("ENT_TYPE",)).columns.tolist() == [[0], [0]]


RANDOM_DOC = st.lists(
    st.tuples(st.sampled_from(["dog", "Run", "!", " ", "\n\n"]), st.booleans()), max_size=12
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(RANDOM_DOC, st.booleans()), max_size=5))
def test_every_token_is_found_again_by_its_position(drawn):
    docs = []
    for tokens, split in drawn:
        starts = [bool(index == 0 or start) for index, (_, start) in enumerate(tokens)]
        docs.append(make_doc([word for word, _ in tokens], sent_starts=starts if split else None))
    read_back = read(*docs)
    assert read_back.offsets[0] == 0
    assert read_back.offsets[-1] == len(read_back.positions) == len(read_back.columns)
    assert (np.diff(read_back.offsets) > 0).all()
    assert read_back.docs[0] == 0
    assert read_back.docs[-1] == len(read_back.offsets) - 1
    for doc, (first, last) in zip(docs, pairwise(read_back.docs), strict=True):
        sentences = list(doc.sents) if doc.has_annotation("SENT_START") else [doc[:]]
        wanted = [[token.i for token in sentence if not token.is_space] for sentence in sentences]
        bounds = read_back.offsets[first : last + 1]
        found = [read_back.positions[a:b].tolist() for a, b in pairwise(bounds)]
        assert found == [indices for indices in wanted if indices]
        keys = [doc[index].orth for indices in found for index in indices]
        assert read_back.columns[bounds[0] : bounds[-1], 0].tolist() == keys
