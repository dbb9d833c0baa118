"""Other white space for the same sentences."""

from itertools import chain

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin

from spacy_structlearn.pipeline.readers import renderings

NLP = spacy.blank("en")


def doc_of(*paragraphs):
    """A Doc of paragraphs, each a list of sentences, each a text of words between blanks."""
    words, spaces, starts = [], [], []
    for number, sentences in enumerate(paragraphs):
        for sentence in sentences:
            own = sentence.split()
            words += own
            spaces += [True] * len(own)
            starts += [True] + [False] * (len(own) - 1)
        spaces[-1] = False
        if number < len(paragraphs) - 1:
            words.append("\n\n")
            spaces.append(False)
            starts.append(False)
    return Doc(NLP.vocab, words=words, spaces=spaces, sent_starts=starts)


DOC = doc_of(["Old news", "We met again today ."], ["It rained ."])


@pytest.mark.parametrize(
    ("rendering", "text"),
    [
        ("as_it_is", "Old news We met again today .\n\nIt rained ."),
        ("flat", "Old news We met again today . It rained ."),
        ("lines", "Old news We met again today .\nIt rained ."),
        ("sentence_lines", "Old news\nWe met again today .\n\nIt rained ."),
        ("wrapped", "Old news We\nmet again\ntoday .\n\nIt rained ."),
    ],
)
def test_renderings(rendering, text, monkeypatch):
    monkeypatch.setattr(renderings, "WIDTH", 11)
    doc = renderings.rendered(DOC, rendering)
    assert doc.text == text
    assert [" ".join(s.text.split()) for s in doc.sents] == [
        *("Old news", "We met again today .", "It rained .")
    ]


words = st.lists(st.text("abc", min_size=1, max_size=9), min_size=1, max_size=6).map(" ".join)


@given(
    st.lists(st.lists(words, min_size=1, max_size=3), min_size=1, max_size=3),
    st.sampled_from(sorted(renderings.RENDERINGS.keys() - {"items"})),
    st.integers(5, 30),
)
def test_words_and_sentences_stay(paragraphs, rendering, width):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(renderings, "WIDTH", width)
        doc, other = doc_of(*paragraphs), renderings.rendered(doc_of(*paragraphs), rendering)
    found = [[t.text for t in s if not t.is_space] for s in other.sents]
    assert found == [[t.text for t in s if not t.is_space] for s in doc.sents]
    # The tokens are those that spaCy's tokenizer makes of such a text.
    assert [t.text for t in NLP.tokenizer(other.text)] == [t.text for t in other]
    if rendering == "wrapped":
        rows = other.text.split("\n")
        assert all(len(row) <= width or " " not in row for row in rows)


@given(
    st.lists(st.lists(words, min_size=1, max_size=3), min_size=1, max_size=3), st.integers(0, 99)
)
def test_items_are_a_list_of_beginnings(paragraphs, seed):
    doc = renderings.rendered(doc_of(*paragraphs), "items", seed=seed)
    rows = doc.text.split("\n")
    assert [s.text.strip() for s in doc.sents] == rows
    for row, sentence in zip(rows, chain(*paragraphs), strict=True):
        begins = row.removeprefix(row.split()[0]).strip() if row[0] not in "abc" else row
        assert sentence.startswith(begins)


def test_the_reader_gives_raw_text(tmp_path):
    path = tmp_path / "docs.spacy"
    DocBin(docs=[DOC]).to_disk(path)
    examples = list(renderings.create_raw_text_reader(path, ["as_it_is", "flat"])(NLP))
    assert [eg.text for eg in examples] == [DOC.text, DOC.text.replace("\n\n", " ")]
    assert not any(eg.predicted.has_annotation("SENT_START") for eg in examples)
    assert [len(list(eg.reference.sents)) for eg in examples] == [3, 3]
