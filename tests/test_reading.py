"""Files that wait, have no end, or expand without end: one clear error, and little memory."""

import gzip
import os
import socket
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn import reading
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.readers import load_docbin
from spacy_structlearn.pipeline.training import fitting
from spacy_structlearn.trees.brackets import read_trees, text_lines

needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes and devices")


@pytest.fixture
def small_bounds(monkeypatch):
    monkeypatch.setattr(reading, "EXPANDED", 1 << 20)
    monkeypatch.setattr(reading, "RATIO", 10)


def special(kind, path, monkeypatch):
    """Make what is not a file, and waits or has no end."""
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    else:
        monkeypatch.chdir(path.parent)  # the whole path may be too long
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    return path


# --- no files -------------------------------------------------------------------------------------
@needs_pipes
@pytest.mark.parametrize("kind", ["a pipe", "a device", "a socket"])
def test_what_is_no_file_is_not_opened(tmp_path, monkeypatch, kind):
    path = special(kind, tmp_path / "file", monkeypatch)
    assert reading.special(path) == kind
    folder = lambda _: reading.check_folder(tmp_path)  # noqa: E731
    for check in (reading.read_bytes, reading.check_regular, folder):
        with pytest.raises(StructlearnError, match="SL099") as error:
            check(path)
        assert f"{path} is {kind}" in str(error.value)


def test_a_config_with_sections_in_sections(tmp_path):
    path = tmp_path / "x.cfg"
    path.write_text("".join(f"[{'.'.join(['a'] * n)}]\n" for n in range(1, 1100)))
    with pytest.raises(StructlearnError, match=r"SL056.*x\.cfg"):
        fitting.train(path)


# --- compressed files -----------------------------------------------------------------------------
@pytest.mark.parametrize("block", [b"(NN dog)\n", b" \n", b"\0", b"("])
def test_a_gzip_file_that_expands_without_end(tmp_path, small_bounds, block):
    path = tmp_path / "trees.gz"
    path.write_bytes(gzip.compress(block * (1 << 20)) * 20)
    tracemalloc.start()
    with pytest.raises(StructlearnError, match=r"SL12[234]") as error:
        for _ in read_trees(path):
            pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert str(path) in str(error.value)
    assert peak < 100 << 20


def test_damage_behind_what_is_not_utf8(tmp_path):
    path = tmp_path / "trees.gz"
    path.write_bytes(gzip.compress(b"\xff" + os.urandom(200_000), 0)[:-100_000])
    with pytest.raises(StructlearnError, match=r"SL121.*trees\.gz"):
        list(text_lines(path))


def test_what_is_repeated_a_lot_may_be_small(tmp_path):
    path = tmp_path / "trees.gz"
    path.write_bytes(gzip.compress(b"(NN dog)\n" * 100_000))
    assert sum(1 for _ in text_lines(path)) == 100_000


def test_a_docbin_that_expands_without_end(tmp_path, small_bounds):
    path = tmp_path / "docs.spacy"
    path.write_bytes(zlib.compress(bytes(50 << 20)))
    with pytest.raises(StructlearnError, match="SL122") as error:
        load_docbin(path)
    assert str(path) in str(error.value)


@given(st.lists(st.text("ab\u00e9 \r\n", max_size=9), max_size=20))
def test_plain_and_compressed_lines_are_those_of_python(tmp_path_factory, parts):
    folder = tmp_path_factory.mktemp("lines")
    data = "".join(parts).encode()
    (folder / "plain").write_bytes(data)
    (folder / "x.gz").write_bytes(gzip.compress(data))
    with open(folder / "plain", encoding="utf8") as file:
        wanted = list(file)
    assert list(text_lines(folder / "plain")) == list(text_lines(folder / "x.gz")) == wanted


# --- lines ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_line_that_is_too_long(tmp_path, monkeypatch, end):
    path = tmp_path / "lines"
    path.write_text(f"short\n{'a' * 99}{end}")
    monkeypatch.setattr(reading, "LONGEST_LINE", 99 + len(end))
    assert list(text_lines(path)) == ["short\n", f"{'a' * 99}{end}"]
    monkeypatch.setattr(reading, "LONGEST_LINE", 98 + len(end))
    with pytest.raises(StructlearnError, match=r"SL123.*lines, line 2") as error:
        list(text_lines(path))
    assert error.value.fields["longest"] == 98 + len(end)


@needs_pipes
def test_a_device_has_no_line(monkeypatch):
    monkeypatch.setattr(reading, "LONGEST_LINE", 1 << 16)
    with pytest.raises(StructlearnError, match="SL123"):
        list(text_lines("/dev/zero"))
