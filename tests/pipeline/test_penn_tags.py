"""Which Docs get a warning of their tags."""

import warnings

import pytest
from spacy.lang.en import English
from spacy.tokens import Doc

from spacy_structlearn.pipeline.doc_arrays import warn_of_other_tags
from spacy_structlearn.pipeline.extensions import set_spans

VOCAB = English().vocab


def warned(doc, of_trees=False):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        given = warn_of_other_tags("name", doc, of_trees=of_trees)
    assert given == bool(found)
    return given


@pytest.mark.parametrize(
    ("words", "tags", "expected"),
    [
        ("Hello there", "UH EX", False),
        ("Dia makan", "PRN VBT", True),
        ("Dia Budi", "PRN NNP", False),  # the treebanks have a tag in common
        ("wo n't", "AUX RB", False),
        (". ... !", "Z Z Z", False),
        ("Dia .", "PRN .", True),
        ("2 + 3", "NUM S NUM", False),
        ("\n Dia", "_SP PRN", True),
        ("\n \n\n", "_SP _SP", False),
    ],
)
def test_words_without_a_tag_of_the_penn_treebank(words, tags, expected):
    assert warned(Doc(VOCAB, words=words.split(" "), tags=tags.split())) == expected


@pytest.mark.parametrize(("own", "of_tree"), [("PRN", "PRP"), ("PRP", "PRN")])
def test_tags_of_trees(own, of_tree):
    doc = Doc(VOCAB, words=["Dia"], tags=[own])
    set_spans(doc, "constituent_tags", [(of_tree, 0, 1)])
    assert warned(doc) == (own == "PRN")
    assert warned(doc, of_trees=True) == (of_tree == "PRN")
