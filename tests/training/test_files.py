"""The measurement of hostile files, with some cases of each part."""

import os
import time
from pathlib import Path

import pytest

if not hasattr(os, "fork") or not Path("/proc/self/status").exists():
    pytest.skip("needs fork and /proc", allow_module_level=True)

from spacy_structlearn.errors import StructlearnError
from training.reliability import files

CHOSEN = {
    "a DocBin of zeros",
    "find of a deep tree",
    "load of a pipe in place of tokenizer (plain)",
    "spacy.load of a device in place of np_chunker/model (checked)",
    "to_disk over a link in place of np_chunker/model",
    "np_chunker in place of chain_tagger",
    "package with version of path",
    "a link in a tar.gz",
    "a large member in a zip",
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return files.Inputs(tmp_path_factory.mktemp("files"))


def test_some_cases_of_each_part(inputs, tmp_path):
    cases = [case for part in files.PARTS.values() for case in part(inputs)]
    assert len({case.name for case in cases}) == len(cases) > 500
    chosen = [case for case in cases if case.name in CHOSEN]
    assert len(chosen) == len(CHOSEN)
    found = files.figures(chosen, tmp_path, verbose=False)
    assert found == {
        "files.cases": len(CHOSEN),
        "files.unclear": 0,
        "files.outside": 0,
        "files.hangs": 0,
    }


def refuse():
    raise StructlearnError("SL010", path="x")


def several_lines():
    raise OSError("x\ny")


def fail():
    raise RecursionError


@pytest.mark.parametrize(
    ("test", "refused", "outcome"),
    [
        (refuse, "SL010", ""),
        (refuse, "SL011", "unclear"),
        (refuse, None, "unclear"),
        (several_lines, "x", "unclear"),
        (fail, "", "unclear"),
        (lambda: None, None, ""),
        (lambda: None, "", "unclear"),
        (lambda: os._exit(0), None, "unclear"),
        (lambda: bytearray(b"x") * (2 << 30), None, "unclear"),
        (lambda: Path("../outside/executed").touch(), None, "outside"),
        (lambda: Path("../outside/held").write_text("x"), None, "outside"),
        (lambda: Path("../outside/held").unlink(), None, "outside"),
        (lambda: Path("../new").mkdir(), None, "outside"),
        (lambda: Path("new").mkdir(), None, ""),
        (lambda: time.sleep(60), None, "hangs"),
    ],
)
def test_every_outcome_is_told_apart(tmp_path, monkeypatch, test, refused, outcome):
    monkeypatch.setattr(files, "LIMIT", 1.0 if outcome == "hangs" else 60.0)
    case = files.Case("a case", lambda place: test, refused)
    assert files.run(case, tmp_path / "case")[0] == outcome
