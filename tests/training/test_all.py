"""What is wrong with results: changes, commits that are gone, commands, later code."""

import pytest

from training import all as results
from training.common import recording, sources

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


def test_other_data(history):
    data = sources.data_of("training.benchmarks.product")
    assert found(data=data) == []
    assert found(data=data | {"ewt": "fff", "gone": "0"}) == [
        "made from another ewt",
        "made from another gone",
    ]


def test_the_data_of_a_command():
    assert list(sources.data_of("training.papers.smith2007")) == ["conll2000"]
    assert list(sources.data_of("training.benchmarks.product")) == ["ewt", sources.PIPELINE]
    assert sources.data_of("training.reliability.kills") == sources.data_of("training.x") == {}


def test_a_digest_of_data_is_of_what_is_pinned(monkeypatch):
    pinned = {"a": "x 1\n", "b": "y 2\n"}
    recipe = {"reads": {"a": ["*"]}, "builds": ["x"]}
    config = {"corpora": {"one": recipe}, "sources": {"a": {"commit": "0"}}}
    monkeypatch.setattr(sources, "_pinned", lambda: pinned)
    monkeypatch.setattr(sources, "_recipes", lambda: config)
    digest = sources.data_digest.__wrapped__
    before = digest("one")
    pinned["b"] = "y 3\n"
    assert digest("one") == before
    pinned["a"] = "x 2\n"
    assert digest("one") != before
    pinned["a"] = "x 1\n"
    config["sources"]["a"] = {"commit": "1"}
    assert digest("one") != before
    assert digest("two") == ""


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


OLD = "import re\nONE = 1\n@cache\ndef f():\n    return g(ONE)\n"


@pytest.mark.parametrize(
    ("new", "changed"),
    [
        (OLD + "def h():\n    return 2\n", False),
        ("from x import a\n" + OLD + "class C:\n    pass\n", False),
        (OLD.replace("import re", "import re, os"), False),
        ("def h():\n    pass\n" + OLD, False),
        (OLD.replace("g(ONE)", "g(2)"), True),
        (OLD.replace("import re\n", ""), True),
        (OLD + "TWO = 2\n", True),  # constants may be read by any code
        (OLD + "def f():\n    return 2\n", True),  # in place of the first one
        (OLD + "def g():\n    return 2\n", True),  # in place of what was called
        (OLD + "from x import g\n", True),
        (OLD + "@registered\ndef h():\n    return 2\n", True),  # may change other modules
        (OLD + OLD.partition("\n")[2], True),
        ("", True),
    ],
)
def test_additions_are_no_changes(new, changed):
    assert results.is_changed("x.py", OLD, new) is changed


def test_a_new_module_is_a_change():
    assert results.is_changed("x.py", "", OLD)
    assert results.is_changed("x.pyx", "cdef int x\n", "cdef int x\ncdef int y\n")


def test_modules_without_figures_do_not_count(monkeypatch):
    paths = ["training/common/recording.py", "training/papers/smith2007/report.py"]
    paths += ["training/common/scoring.py", "training/reported.py"]
    found = {"diff": "\n".join(paths), "log": "abd "}
    monkeypatch.setattr(results, "git", lambda name, *_: found.get(name, ""))
    assert results.changed_since.__wrapped__("abc") == ("training/common/scoring.py",)


@pytest.mark.parametrize(
    ("messages", "changed"),
    [
        (["Speed up"], True),
        (["Speed up\n\nFigures: unchanged"], False),
        (["Speed up\n\nFigures: unchanged", "Prune more"], True),
        (["Speed up\n\nFigures: better"], True),
    ],
)
def test_commits_that_change_no_figure_say_so(messages, changed, monkeypatch, tmp_path):
    monkeypatch.setattr(recording, "ROOT", tmp_path)
    monkeypatch.setattr(results, "ROOT", tmp_path)
    run = ["-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "--quiet", "--message"]
    code = tmp_path / "training" / "run.py"
    code.parent.mkdir()
    recording.git("init", "--quiet")
    for number, message in enumerate(["Begin", *messages]):
        code.write_text(f"x = {number}\n")
        recording.git("add", ".")
        recording.git(*run, message)
    first = recording.git("rev-list", "--max-parents=0", "HEAD")
    results.changed_by.cache_clear()
    assert bool(results.changed_since.__wrapped__(first)) is changed
    code.write_text("x = 100\n")  # not committed
    assert results.changed_since.__wrapped__(first) == ("training/run.py",)


def test_every_part_has_a_stamp():
    parts = list(results.parts())
    assert parts
    assert all("commit" in stamp for _, _, stamp in parts)
    assert not {part for _, part, _ in parts} & set(recording.STAMPS)


def test_parts_without_figures_are_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    monkeypatch.setattr(results, "WANTED", {"a": ("b.c", "d"), "e": ("f",)})
    (tmp_path / "a.json").write_text('{"b": {"cc": 1}, "d": {"g": 2}}')
    assert list(results.missing()) == [("a", "b.c"), ("e", "f")]
