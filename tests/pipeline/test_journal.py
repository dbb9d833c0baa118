"""The journal: what it keeps when it is cut, damaged, locked, or the disk is full."""

import os

import pytest

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.annotation.journal import Journal, read

RECORDS = [{"do": "a", "text": "ü\n\r\u2028 \ud800"}, {"do": "b", "n": [1, None, 0.5]}, {"do": "c"}]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "new" / "journal.jsonl"
    journal = Journal(path)
    for record in RECORDS:
        journal.append(record)
    journal.close()
    return path


def test_what_was_written_is_there(path):
    assert read(path) == (RECORDS, path.stat().st_size)
    assert not list(path.parent.glob(".*"))


def test_a_line_that_is_cut_off_is_dropped(path):
    data = path.read_bytes()
    ends = [0] + [place + 1 for place, byte in enumerate(data) if byte == ord("\n")]
    for size in range(len(data)):
        path.write_bytes(data[:size])
        journal = Journal(path)
        whole = sum(end <= size for end in ends) - 1
        assert journal.records == RECORDS[:whole]
        journal.append({"do": "d"})
        journal.close()
        assert read(path)[0] == [*RECORDS[:whole], {"do": "d"}]


@pytest.mark.parametrize(("old", "new"), [(b'"b"', b'"x"'), (b"\n", b"\n\n"), (b" ", b"  ")])
def test_damage_is_an_error(path, old, new):
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    with pytest.raises(StructlearnError, match=r"SL271.*line [12] is damaged"):
        Journal(path)


def test_two_writers(path):
    first = Journal(path)
    with pytest.raises(StructlearnError, match="SL098"):
        Journal(path)
    first.close()
    Journal(path).close()


def test_after_an_error_it_is_as_before(path, monkeypatch):
    journal = Journal(path)
    with monkeypatch.context() as patch:

        def full(file):
            raise OSError("No space left")

        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            journal.append({"do": "lost"})
    journal.append({"do": "d"})
    journal.close()
    assert read(path)[0] == [*RECORDS, {"do": "d"}]
