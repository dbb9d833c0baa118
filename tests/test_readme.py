"""What the README shows is what the project does."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)


def test_tables_are_those_of_the_results():
    run = subprocess.run(
        [sys.executable, "-m", "training.tables", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_parse_prints_what_is_shown():
    from typer.testing import CliRunner

    from spacy_structlearn.cli import app

    shown = next(i for i, (_, text) in enumerate(BLOCKS) if "structlearn parse" in text)
    sentence = re.search(r'structlearn parse "(.*?)"', BLOCKS[shown][1])[1]
    result = CliRunner().invoke(app, ["parse", sentence])
    assert result.output == BLOCKS[shown + 1][1]


@pytest.mark.parametrize(
    ("code", "output"),
    [
        (block[1], after[1])
        for block, after in zip(BLOCKS, [*BLOCKS[1:], ("", "")], strict=True)
        if block[0] == "python"
    ],
)
def test_python_prints_what_is_shown(code, output):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue() == output


def test_ci_runs_the_commands_of_the_readme():
    """Both install lines and the test command, word for word."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf8")
    for command in ("pip install -e .", "pip install -e '.[test]'", "pytest"):
        assert command in README
        assert command in script.replace("pip install --quiet", "pip install")


def test_files_that_are_named_exist():
    names = re.findall(r"(?:corpora|training)/[\w/]+\.\w+", README)
    assert {"training/README.md", "corpora/README.md"} <= {*names}
    for name in names:
        assert (ROOT / name).is_file(), name


def test_the_drawing_is_a_small_picture_of_the_sentence_above_it():
    before, sentence, name = re.search(
        r'structlearn render "([^"]*)"[^!]*!\[[^"]*"([^"]*)"[^]]*\]\(([^)]*)\)', README
    ).groups()
    assert before == " ".join(sentence.split())
    picture = (ROOT / name).read_bytes()
    assert picture.startswith(b"\x89PNG\r\n")
    assert len(picture) <= 60_000
    # The guide says how it is made, from the same sentence.
    guide = (ROOT / "training" / "guides" / "drawings.md").read_text(encoding="utf8")
    (command,) = re.findall(rf"(.*)\n.*--screenshot={name}", guide)
    assert f'structlearn render "{before}"' in command
