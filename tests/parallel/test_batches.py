"""Batches of sentences, and workspaces for threads."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.parallel.batches import Workspaces, in_batches


@given(st.lists(st.integers(0, 9), max_size=20), st.integers(1, 30), st.integers(1, 3))
def test_batches_are_all_sentences_in_order(lengths, words, threads):
    sentences = [[number] * n for number, n in enumerate(lengths)]
    found = list(in_batches(sentences, sentences.__getitem__, words=words, threads=threads))
    assert [sentence for batch in found for sentence in batch] == sentences
    # A batch ends with the sentence that completes its share of all words.
    assert all(sum(map(len, batch[:-1])) < words for batch in found)


def test_threads_share_the_batches():
    meeting = threading.Barrier(2, timeout=60)
    found = in_batches([["a"]] * 2, lambda _: meeting.wait() >= 0, words=1, threads=2)
    assert list(found) == [True, True]


def test_workspaces_are_given_back():
    workspaces = Workspaces(list, 2)
    with workspaces.borrowed() as one, workspaces.borrowed() as other:
        assert one is not other
    for _ in range(2):  # two remain free
        with pytest.raises(MemoryError), workspaces.borrowed(), workspaces.borrowed():
            raise MemoryError
