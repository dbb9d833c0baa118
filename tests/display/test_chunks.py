"""Chunks in the bracketed notation."""

import pytest

from spacy_structlearn.display.chunks import bracketed

WORDS = ["The", "cat", "saw", "her"]
TAGS = ["DT", "NN", "VBD", "PRP"]


def test_chunks_stand_in_brackets_with_their_label():
    spans = [("NP", 0, 2), ("NP", 3, 4)]
    assert bracketed(WORDS, TAGS, spans) == "[NP The/DT cat/NN ] saw/VBD [NP her/PRP ]"


def test_adjacent_chunks_close_before_the_next_opens():
    spans = [("NP", 0, 2), ("VP", 2, 3), ("NP", 3, 4)]
    assert bracketed(WORDS, TAGS, spans) == "[NP The/DT cat/NN ] [VP saw/VBD ] [NP her/PRP ]"


def test_an_empty_tag_is_left_out_with_its_slash():
    assert bracketed(WORDS, ["DT", "", "", "PRP"], [("NP", 0, 2)]) == "[NP The/DT cat ] saw her/PRP"


def test_no_chunks_and_no_words():
    assert bracketed(WORDS, TAGS, []) == "The/DT cat/NN saw/VBD her/PRP"
    assert bracketed([], [], []) == ""


def test_a_chunk_over_the_whole_sentence():
    assert bracketed(["cats"], ["NNS"], [("NP", 0, 1)]) == "[NP cats/NNS ]"


def test_words_and_tags_must_be_equally_many():
    with pytest.raises(ValueError, match="shorter"):
        bracketed(WORDS, TAGS[:-1], [])
