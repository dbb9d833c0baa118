"""The measurement of texts that are not language, with short ones."""

import pytest

from training.reliability import degenerate


@pytest.mark.parametrize("name", [name for name in degenerate.TEXTS if name != "long_tokens"])
def test_texts_have_as_many_tokens_and_no_end_of_a_sentence(name):
    text = degenerate.text_of(name, 500)
    assert len(text.split(" ")) == len(text.split()) == 500
    assert text == degenerate.text_of(name, 500)


def test_other_texts():
    whole = degenerate.text_of("of_200_words.dots", 500)
    assert [len(sentence.split()) for sentence in whole.split("\n\n")] == [200, 200, 100]
    assert [*map(len, degenerate.text_of("long_tokens", 50_000).split())] == [100_000] * 2
    (once, twice) = (degenerate.text_of("ordinary", n) for n in (1, 32_000))
    assert twice == f"{once}\n\n{once}"


def test_figures_compare_with_ordinary_text():
    sizes = {"longest": 7, "peak_mb": 300.0, "page_over_text": 2.0}
    usual = {"seconds": [1.0, 0.5, 0.5], "tokens": 1000, "characters": 4000, **sizes}
    found = {"seconds": [4.0, 1.0, 3.0], "tokens": 2000, "characters": 2000, **sizes}
    micros = {"microseconds.nlp": 2000, "microseconds.json": 500, "microseconds.page": 1500}
    wanted = {"seconds_per_word_ratio": 3, "tokens": 2000, **sizes, **micros}
    assert degenerate.figures(found, usual) == wanted
    by_length = degenerate.figures(found, usual, "characters")
    assert by_length == {**wanted, "seconds_per_word_ratio": 12}
    assert degenerate.figures(usual, usual)["seconds_per_word_ratio"] == 1


def test_a_text_is_measured():
    found = degenerate.measure("that", 310)
    assert (found["tokens"], found["longest"], found["characters"]) == (310, 310, 310 * 5 - 1)
    assert len(found["seconds"]) == len(degenerate.STEPS)
    assert min(found["seconds"]) > 0
    assert 1 < found["page_over_text"] < 50
    assert found["peak_mb"] > 100
