"""The texts of tests/everyday and their reader."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.common.everyday import (
    MARK,
    parse_marked,
    read_everyday,
    read_pairs,
    score_pairs,
)

FOLDER = Path(__file__).resolve().parents[1] / "everyday"
PATHS = sorted(FOLDER.glob("*.txt"))
README = (FOLDER / "README.md").read_text(encoding="utf8")
SENTENCES = st.lists(st.from_regex(r"\w([\w .!?\n]*\w)?[.!?]", fullmatch=True), min_size=1)


@given(SENTENCES, st.sampled_from(["", " ", "\n", "\n\n  "]))
def test_marked_sentences_are_read(sentences, white):
    text, spans = parse_marked((white + MARK).join(sentences))
    assert text == white.join(sentences)
    assert [text[start:end] for start, end in spans] == sentences


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_marks_are_at_legal_places(path):
    marked = path.read_text(encoding="utf8")
    assert marked.endswith("\n")
    assert not marked.startswith(MARK)
    assert not re.search(rf"{MARK}(\s|{MARK}|$)", marked), "before white space, or twice"
    assert not re.search(rf"\w{MARK}\w", marked), "inside a word"
    assert not re.search(r"\n[^\S\n]*\n\s*[^\s‖]", marked), "none behind a blank line"


@pytest.mark.parametrize(
    ("name", "text", "sentences"),
    read_everyday(FOLDER),
    ids=lambda value: value if isinstance(value, str) and "\n" not in value else "",
)
def test_sentences_cover_a_text(name, text, sentences):
    assert MARK not in text
    assert len(sentences) >= 3
    end = 0
    for start, stop in sentences:
        assert end <= start < stop <= len(text)
        assert text[end:start].strip() == ""
        assert text[start:stop] == text[start:stop].strip() != ""
        end = stop
    assert text[end:].strip() == ""


def test_there_are_enough_texts_and_none_twice():
    texts = read_everyday(FOLDER)
    assert len({name for name, _, _ in texts}) == len(texts) >= 60
    assert len({" ".join(text.split()) for _, text, _ in texts}) == len(texts)
    assert sum(len(sentences) for _, _, sentences in texts) >= 700


def test_the_readme_counts_the_texts():
    texts = read_everyday(FOLDER)
    sentences = sum(len(spans) for _, _, spans in texts)
    words = sum(len(text.split()) for _, text, _ in texts)
    assert f"{len(texts):,} texts, {sentences:,} sentences, {words:,} words" in README


def test_pairs_of_attachments():
    readings = read_pairs()
    assert [reading.label for reading in readings] == ["V", "N"] * (len(readings) // 2)
    assert len({reading.text for reading in readings}) == len(readings) >= 120
    assert f"{len(readings) // 2} pairs of sentences" in README
    for first, second in zip(readings[::2], readings[1::2], strict=True):
        phrases = [r.text[r.start : r.end].split() for r in (first, second)]
        assert phrases[0][0] == phrases[1][0], "one preposition"
        assert all(r.text[r.end :] == "." and len(r.text.split()) < 12 for r in (first, second))


def test_scores_of_pairs(nlp):
    readings = read_pairs()[:20]
    scores = score_pairs(nlp, readings)
    assert scores["pairs.n"] == 10
    right = [
        [a.label for a in nlp(r.text)._.pp_attachments if a.prep.idx == r.start] == [r.label]
        for r in readings
    ]
    assert scores["pairs.verb"] == sum(right[::2]) / 10
    assert scores["pairs.noun"] == sum(right[1::2]) / 10
    silent = {"enable": [name for name in nlp.pipe_names if name != "pp_attacher"]}
    with nlp.select_pipes(**silent):
        assert score_pairs(nlp, readings)["pairs.verb"] == 0
