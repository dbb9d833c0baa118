"""What is wrong with results: changes, commits that are gone, commands, later code."""

import pytest

from training import all as results
from training.common import recording

STAMP = {"commit": "abc", "command": "python -m training.benchmarks.product --installed x"}


@pytest.fixture
def history(monkeypatch):
    """A history with the commit "abc", since which these paths have changed."""
    changed = []
    monkeypatch.setattr(results, "git", lambda *args: "commit" if args[-1] == "abc" else "")
    monkeypatch.setattr(results, "changed_since", lambda commit: tuple(changed))
    return changed


def found(**changes):
    return list(results.problems(STAMP | changes))


def test_a_part_of_present_code(history):
    assert found() == []
    history.append("training/benchmarks/chunker.py")
    assert found() == []


def test_problems(history):
    assert found(commit="abc+") == ["made with uncommitted changes"]
    assert found(commit="fff") == ["made at fff, which is not in the history"]
    assert found(command="python run.py") == ["made by an unknown command"]
    gone = "python -m training.nothing"
    assert found(command=gone) == ["made by training.nothing, which is gone"]
    history += ["training/benchmarks/product.py", "training/common/recording.py"]
    assert found() == ["older than training/benchmarks/product.py and 1 others"]
    stamp = {"commit": "abc"}
    assert list(results.problems(stamp)) == ["made by an unknown command"]


def test_the_code_of_a_command():
    own = results.code_of("training.papers.smith2007")
    assert {
        "training/papers/smith2007/__main__.py",
        "training/papers/__init__.py",
        "training/common/recording.py",
        "spacy_structlearn/sequence/crf.py",
        "spacy_structlearn/sequence/_chain.pyx",
        "spacy_structlearn/kernels/index.pyx",
        "spacy_structlearn/kernels/index.pxd",
        "spacy_structlearn/kernels/hashing.pxd",
    } <= own
    assert "training/papers/titov_henderson2007/__main__.py" not in own
    assert all((results.ROOT / path).is_file() for path in own)


@pytest.mark.parametrize(
    ("path", "one", "other", "same"),
    [
        ("x.py", "def f():\n    'A text.'\n    return 1  # one\n", "def f():\n  return 1", True),
        ("x.py", "def f():\n    return 1\n", "def f():\n    return 2\n", False),
        ("x.pyx", "cdef int x  # a number\n", "cdef  int x\n", True),
        ("x.pyx", "cdef int x\n", "cdef long x\n", False),
        ("x.py", "", "x = 1", False),
    ],
)
def test_what_counts_as_code(path, one, other, same):
    assert (results.code(path, one) == results.code(path, other)) is same


def test_every_part_has_a_stamp():
    parts = list(results.parts())
    assert parts
    assert all("commit" in stamp for _, _, stamp in parts)
    assert not {part for _, part, _ in parts} & set(recording.STAMPS)
