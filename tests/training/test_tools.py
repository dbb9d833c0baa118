"""Whether the checks of spaCy's tools find what is wrong."""

import pytest

from training.benchmarks import tools
from training.benchmarks.tools import Check, problem

LINE = "import sys; print('structlearn: no', file=sys.stderr); sys.exit(1)"


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (Check("", "print('one')", ("one",)), None),
        (Check("", "print('one')", ("one", "two")), "not printed: two"),
        (Check("", "print('one'); exit(3)"), "exit code 3: one"),
        (Check("", "raise ValueError('bad')"), "exit code 1: ValueError: bad"),
        (Check("", LINE, ("no",), refused=True), None),
        (Check("", LINE.replace("no", r"no\nno"), refused=True), "not one line: no"),
        (Check("", "print('one')", refused=True), "exit code 0: one"),
        (Check("", "raise ValueError('bad')", refused=True), "exit code 1: ValueError: bad"),
        (Check("", "structlearn --version"), None),
    ],
)
def test_problems_are_found(check, expected, tmp_path):
    assert problem(check, tmp_path) == expected


def test_a_command_that_hangs_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(tools, "SECONDS", 0.1)
    assert problem(Check("", "while True: pass"), tmp_path) == "not done after 0.1 s"


def test_checks_have_names_of_their_own():
    names = [check.name for check in (*tools.trained(), *tools.applied())]
    assert len({*names, *tools.IN_PYTHON}) == len(names) + len(tools.IN_PYTHON)


def test_results_are_by_name(monkeypatch):
    monkeypatch.setattr(tools, "trained", lambda: [Check("good", "print('a')")])
    monkeypatch.setattr(tools, "applied", lambda: [Check("bad", "exit(1)")])
    monkeypatch.setattr(tools, "IN_PYTHON", {})
    assert tools.checks() == {"good": None, "bad": "exit code 1: "}
