"""The benchmark of who did what: its texts, and when a row is right."""

import spacy_structlearn
from training.benchmarks.who_did_what import (
    CELLS,
    is_right,
    n_right,
    paired,
    read_mails,
    sentences,
)

WORDS = "Ann", "boat", "", "Monday", ""


def row(did="sell", words=WORDS):
    cells = {cell: frozenset(word.lower().split()) for cell, word in zip(CELLS, words, strict=True)}
    return type(read_mails()[0].rows[0])(did, cells)


def test_texts():
    mails = read_mails()
    assert (len(mails), sum(len(mail.rows) for mail in mails)) == (40, 142)
    for mail in mails:
        words = mail.text.lower().replace("?", " ")
        assert all(w in words for own in mail.rows for cell in CELLS for w in own.cells[cell])
    texts = list(sentences())
    assert (len(texts), len({lemma for _, lemma, *_ in texts})) == (750, 50)
    assert texts[0] == ("My sister made a cake.", "make", "sister", "cake")


def test_rows():
    found = spacy_structlearn.load()("Ann sold the boat on Monday.")._.propositions
    ((own, gold),) = paired(found, [row()])
    assert is_right(own, gold)
    assert [n_right(own, gold, cell) for cell in CELLS] == [1, 1, 0, 1, 0]
    # Times do not count for rows, other verbs and objects do.
    assert is_right(own, row(words=("Ann", "boat", "", "Tuesday", "")))
    assert not is_right(own, row(words=("Ann", "car", "", "Monday", "")))
    assert not is_right(own, row(words=("Ann", "", "", "Monday", "")))
    pairs = list(paired(found, [row("not sell")]))
    assert [(a is None, b is None) for a, b in pairs] == [(True, False), (False, True)]
