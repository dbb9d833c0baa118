"""What is registered is called at the end of its context, or before a signal ends the process."""

import errno
import os
from functools import partial
from pathlib import Path

import pytest

from spacy_structlearn.cleanup import clean_up, ensured, unfinished
from spacy_structlearn.learning.training import write_bytes


def test_what_is_registered_last_comes_first():
    called = []
    with ensured(partial(called.append, 1)), ensured(partial(called.append, 2)):
        clean_up()
        assert called == [2, 1]
    assert called == [2, 1, 2, 1]
    clean_up()
    assert called == [2, 1, 2, 1]


@pytest.mark.skipif(os.name != "posix", reason="needs links")
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_an_unfinished_file_that_is_a_link_or_a_pipe_is_not_written(tmp_path, kind):
    (tmp_path / "outside").write_bytes(b"kept")
    if kind == "pipe":
        os.mkfifo(tmp_path / "file.new")
    else:
        (tmp_path / "file.new").symlink_to(tmp_path / "outside")
    write_bytes(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert not (tmp_path / "file").is_symlink()
    assert (tmp_path / "outside").read_bytes() == b"kept"


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_unfinished_folders_and_files_are_removed(tmp_path, make):
    def interrupted():
        with unfinished(tmp_path / ".new", tmp_path / "target") as fresh:
            make(fresh)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_errors_name_what_is_written(tmp_path):
    target = tmp_path / "target"
    target.write_bytes(b"before")

    def write(error):
        with unfinished(tmp_path / ".new", target):
            raise error

    with pytest.raises(OSError, match=f"No space left on device: '{target}'"):
        write(OSError(errno.ENOSPC, "No space left on device"))
    inside = str(tmp_path / ".new" / "model")
    with pytest.raises(OSError, match=f"denied: '{target / 'model'}'"):
        write(OSError(errno.EACCES, "Permission denied", inside))
    # spaCy's errors are only a text.
    with pytest.raises(OSError, match=r"^\[E050\] none$"):
        write(OSError("[E050] none"))
    assert target.read_bytes() == b"before"
