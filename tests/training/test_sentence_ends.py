"""Abbreviations are learned from text."""

from training.pipeline.sentence_ends import abbreviations


def test_abbreviations():
    text = "Ask Dr. Lee about the cat! See no. 3 of it! No cat saw it! "
    assert abbreviations([text] * 20) == ["dr.", "no. #"]
