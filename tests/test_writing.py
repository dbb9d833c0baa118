"""Writers of one target: one at a time, the old one or the new one, and never a mixture."""

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import spacy

from spacy_structlearn import writing
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.writing import locked, replaced, tidy, write_bytes, written

posix = pytest.mark.skipif(os.name != "posix", reason="signals, links and modes of POSIX")
WRITER = """
import sys, time
from pathlib import Path
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.writing import locked, replaced

target, name = Path(sys.argv[1]), sys.argv[2]
try:
    with locked(target), replaced(target) as fresh:
        fresh.mkdir()
        for file in "abc":
            (fresh / file).write_text(name)
            time.sleep(float(sys.argv[3]))
except StructlearnError as error:
    sys.exit(str(error))
"""


def writer(target, name, pause):
    command = [sys.executable, "-c", WRITER, target, name, str(pause)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def content(folder):
    return {path.name: path.read_text(encoding="utf8") for path in folder.iterdir()}


@pytest.fixture
def target(tmp_path):
    """A folder that is there already."""
    with replaced(tmp_path / "target") as fresh:
        fresh.mkdir()
        for file in "abc":
            (fresh / file).write_text("old", encoding="utf8")
    return tmp_path / "target"


# --- locks ----------------------------------------------------------------------------------------
@pytest.mark.finding
def test_races_are_refused_and_nothing_is_mixed(target):
    for _ in range(3):
        processes = [writer(target, str(number), 0.02) for number in range(4)]
        errors = [process.communicate(timeout=60)[1] for process in processes]
        winners = [str(i) for i, process in enumerate(processes) if process.returncode == 0]
        found = set(content(target).values())
        assert winners
        assert len(found) == 1
        assert found <= set(winners)
        for process, error in zip(processes, errors, strict=True):
            assert (process.returncode == 0) == (error == "")
            assert not error or ("SL098" in error and "written by process" in error)
        assert list(target.parent.iterdir()) == [target]


def test_the_message_names_the_process_that_writes(tmp_path):
    with locked(tmp_path / "target"):
        assert os.listdir(tmp_path) == [".target.lock"]
        refused = pytest.raises(StructlearnError, match=rf"SL098.*target is .* {os.getpid()} on ")
        with refused, locked(tmp_path / "target"):
            pytest.fail("two at a time")
        with locked(tmp_path / "other"):
            pass
    assert os.listdir(tmp_path) == []


@posix
def test_what_a_killed_process_holds_or_leaves_is_no_obstacle(target):
    process = writer(target, "new", 30)
    while len(list(target.parent.glob(".target.*.new/a"))) == 0:
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(os.listdir(target.parent)) == 3
    assert set(content(target).values()) == {"old"}
    with locked(target):
        assert sorted(os.listdir(target.parent)) == [".target.lock", "target"]


@posix
def test_a_forked_process_holds_no_lock_of_its_parent(tmp_path):
    with locked(tmp_path / "target"):
        if (child := os.fork()) == 0:
            signal.pause()
    try:
        with locked(tmp_path / "target"):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


# --- replacing ------------------------------------------------------------------------------------
def test_a_target_between_two_names_is_moved_back(target, monkeypatch):
    """Where folders cannot be exchanged, a process may be killed between two renames."""
    monkeypatch.setattr(writing, "_exchanged", lambda *paths: False)
    with replaced(target) as fresh:
        fresh.mkdir()
    assert content(target) == {}
    target.rename(target.with_name(".target.0123456789abcdef.old"))
    target.with_name(".target.0123456789abcdef.new").mkdir()
    tidy(target)
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
@pytest.mark.parametrize("exchanged", [True, False])
def test_the_old_target_survives_an_error(target, error, exchanged, monkeypatch):
    def interrupted(*paths):
        raise error

    if exchanged:
        monkeypatch.setattr(os, "fsync", interrupted)
    else:
        monkeypatch.setattr(writing, "_exchanged", lambda *paths: False)
        rename = Path.rename
        monkeypatch.setattr(
            Path,
            "rename",
            lambda old, new: interrupted() if old.suffix == ".new" else rename(old, new),
        )
    with pytest.raises(type(error)), replaced(target) as fresh:
        fresh.mkdir()
    assert set(content(target).values()) == {"old"}
    assert list(target.parent.iterdir()) == [target]


def test_all_is_on_the_disk_before_it_counts(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda file: (done.append("fsync"), fsync(file)))
    monkeypatch.setattr(Path, "replace", lambda *to: (done.append("rename"), replace(*to)))
    write_bytes(tmp_path / "file", b"new")
    assert done == (["fsync", "rename", "fsync"] if os.name == "posix" else ["fsync", "rename"])


@posix
@pytest.mark.finding
def test_mode_and_links_of_the_target_are_kept(tmp_path):
    (tmp_path / "there").mkdir()
    file = tmp_path / "there" / "file"
    file.write_bytes(b"old")
    file.chmod(0o600)
    (tmp_path / "link").symlink_to(file)
    write_bytes(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"new", 0o600)
    (tmp_path / "there").chmod(0o700)
    with replaced(tmp_path / "there") as fresh:
        fresh.mkdir()
    assert stat.S_IMODE((tmp_path / "there").stat().st_mode) == 0o700


@posix
def test_a_pipe_is_written_itself(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_bytes(tmp_path / "pipe", b"new")
    assert os.read(reader, 10) == b"new"
    os.close(reader)


def test_errors_name_the_target(tmp_path):
    target = tmp_path / "target"
    target.write_bytes(b"before")

    def write(error):
        with written(target):
            raise error

    with pytest.raises(OSError, match=f"No space left on device: '{target}'"):
        write(OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(OSError, match=r"^\[E050\] none$"):
        write(OSError("[E050] none"))  # spaCy's errors are only a text
    assert target.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [target]


# --- nlp.to_disk, which saves one component after another -----------------------------------------
SAVER = """
import sys
import spacy
from spacy_structlearn.errors import StructlearnError
from pathlib import Path

nlp = spacy.blank("en")
for name in ("first", "second"):
    nlp.add_pipe("np_chunker", name=name).cfg["labels"] = [sys.argv[2]]
try:
    for _ in range(40):
        nlp.to_disk(sys.argv[1])
except StructlearnError as error:
    sys.exit(str(error))
"""


@pytest.mark.finding
def test_two_processes_that_save_with_spacy_leave_no_mixture(tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SAVER, tmp_path / "model", label],
            stderr=subprocess.PIPE,
            text=True,
        )
        for label in ("A", "B")
    ]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    for process, error in zip(processes, errors, strict=True):
        assert process.returncode == 0 or error.startswith("[SL098]"), error
    assert any(process.returncode for process in processes)
    nlp = spacy.load(tmp_path / "model")
    assert nlp.get_pipe("first").labels == nlp.get_pipe("second").labels


def test_components_saved_over_by_another_process_are_noticed(tmp_path):
    nlp = spacy.blank("en")
    for name in ("first", "second"):
        nlp.add_pipe("np_chunker", name=name)
    nlp.to_disk(tmp_path)
    nlp.get_pipe("first").to_disk(tmp_path / "first", exclude=["vocab"])
    (tmp_path / "first" / "cfg").write_bytes(b"{}")
    with pytest.raises(StructlearnError, match=r"SL098.*written by another process"):
        nlp.get_pipe("second").to_disk(tmp_path / "second", exclude=["vocab"])
    nlp.to_disk(tmp_path)
    for part in ("first", "second"):
        nlp.get_pipe(part).to_disk(tmp_path / part)
