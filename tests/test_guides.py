"""The guides are true: every command and every example in them runs, and prints what they show.

In training/README.md and training/guides the blocks of a page are run one after another, in a
folder that holds the sample treebank: `bash`, `python` (all blocks of a page are one program) and
`ini` (the settings of a component). An untagged block is the output of the one before it. What is
tagged `sh` (it needs corpora) or `text` (it is of others) is shown and not run.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pytest
import spacy
from thinc.api import Config
from typer.testing import CliRunner

import spacy_structlearn
from spacy_structlearn.cli import app
from spacy_structlearn.pipeline.readers import create_docbin_reader, create_treebank_reader
from spacy_structlearn.pipeline.training.configs import COMPONENTS, learners
from spacy_structlearn.trees.brackets import parse_tree

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
TRAINING = ROOT / "training" / "README.md"
GUIDES = sorted((ROOT / "training" / "guides").glob("*.md"))
PAGES = [TRAINING, *GUIDES]
CONTENTS = ROOT / "training" / "guides" / "README.md"
REFERENCE = ROOT / "training" / "guides" / "reference.md"
WITH_CODE = [page for page in PAGES if page not in (CONTENTS, REFERENCE)]
# Their links are checked as well.
OTHERS = [README, *(ROOT / "training" / "results").glob("*.md"), ROOT / "corpora" / "README.md"]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# Lines that a shell has to run; all other commands are run in this process, which is faster.
SHELL = re.compile(r"^(?!structlearn )|[|<>&;$`]")
FIVE = ("convert", "-m", "train", "evaluate", "parse")


class Block(NamedTuple):
    """A block of a page. output: what the block behind it shows; None if there is none."""

    line: int
    language: str
    text: str
    output: str | None


def blocks(path: Path) -> Iterator[Block]:
    page = path.read_text(encoding="utf8")
    found = list(BLOCK.finditer(page))
    for block, following in zip(found, [*found[1:], None], strict=True):
        output = None
        if following is not None and not following[1]:
            between = page[block.end() : following.start()]
            output = None if between.strip() else following[2]
        if block[1]:
            yield Block(page.count("\n", 0, block.start()) + 1, block[1], block[2], output)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def commands(text: str) -> list[list[str]]:
    """The commands of a block, as their words."""
    lines = text.replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines if line.strip()]


def run_bash(text: str) -> str:
    """Run a block of commands and return what they print on standard output.

    Commands of `structlearn` run in this process, all other lines in a shell.
    """
    printed = ""
    lines = text.replace("\\\n", " ").splitlines(keepends=True)
    for in_shell, group in groupby(lines, lambda line: SHELL.search(line) is not None):
        if in_shell:
            printed += run_shell("".join(group))
            continue
        for command in commands("".join(group)):
            result = CliRunner().invoke(app, command[1:])
            assert result.exit_code == 0, (command, result.output, result.exception)
            printed += result.stdout
    return printed


def run_shell(text: str) -> str:
    """Run a block in a shell. RETURNS: what it prints on standard output."""
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("no bash")
    here = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([here, os.environ.get("PATH", "")]),
        # The folder of configs here would hide an editable installation.
        "PYTHONPATH": str(Path(spacy_structlearn.__file__).parents[1]),
    }
    run = subprocess.run(
        [shell, "-euo", "pipefail", "-c", text],
        env=environment,
        capture_output=True,
        encoding="utf8",
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def run_python(text: str, names: dict, place: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(text, place, "exec"), names)
    return printed.getvalue()


def run_config(text: str) -> None:
    """Add the component of a config to a pipeline, which checks every name and type in it.

    Without a component it is the readers of the corpora that are made.
    """
    if "[components." not in text:
        paths = '[paths]\ntrain = "train.spacy"\ndev = "dev.spacy"\n'
        spacy.registry.resolve(Config().from_str(f"{paths}{text}")["corpora"])
        return
    (name,) = set(re.findall(r"^\[components\.(\w+)", text, re.MULTILINE))
    config = Config().from_str(f"[components]\n[components.{name}]\n{text}")
    spacy.blank("en").add_pipe(name, config=config["components"][name])


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the sample treebank and the configs where the pages expect them."""
    for folder in ("corpora/sample", "spacy_structlearn/pipeline/configs"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.stem)
def test_everything_on_the_page_runs(page, place):
    names: dict = {}
    found = list(blocks(page))
    if any(re.search("^import nltk$", block.text, re.MULTILINE) for block in found):
        pytest.importorskip("nltk", reason="needs nltk, of the extra test")
    for block in found:
        where = f"{page.name}:{block.line}"
        if block.language == "python":
            assert run_python(block.text, names, where) == (block.output or ""), where
        elif block.language == "ini":
            run_config(block.text)
        elif block.language == "bash":
            # Of several commands the page shows what the last one prints.
            assert run_bash(block.text).endswith(block.output or ""), where
        else:
            assert block.language in ("sh", "text"), where
    if page == TRAINING:
        check_training(place)


# The main score of each component on ten documents of the sample, with the settings of the guide.
FLOORS = {"np_chunker": 0.85, "chain_tagger": 0.7, "sentence_splitter": 0.8}
LESS = {"rounds": 1, "grammars": 1, "folds": 2, "conditional_iterations": 10, "min_word_count": 1}


def less_effort(block: dict) -> dict:
    """The block of a model with settings for few trees."""
    small = {name: LESS.get(name, value) for name, value in block.items()}
    return {name: less_effort(of) if isinstance(of, dict) else of for name, of in small.items()}


def in_guide() -> Iterator[tuple[str, dict]]:
    page = ROOT / "training" / "guides" / "choosing_an_architecture.md"
    for block in blocks(page):
        if block.language == "ini":
            (name,) = set(re.findall(r"^\[components\.(\w+)", block.text, re.MULTILINE))
            config = Config().from_str(f"[components]\n[components.{name}]\n{block.text}")
            yield name, config["components"][name]["model"]


@pytest.mark.parametrize(
    ("name", "model"), list(in_guide()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_settings_in_the_guide_are_accurate(name, model):
    sample = ROOT / "corpora" / "sample"
    spans = ["constituents"] if name == "pp_attacher" else None
    read = create_treebank_reader(
        sample / "sample.trees", spaces=sample / "sample.spaces", spans=spans
    )
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe(name, config={"model": less_effort(model)})
    examples = list(read(nlp))
    nlp.initialize(lambda: examples[10:])
    pipe.fit(examples[10:])
    for example in examples[:10]:
        pipe(example.predicted)
    assert pipe.score(examples[:10])[pipe.main_score] >= FLOORS.get(name, 0.5)


def check_training(place: Path) -> None:
    """What the commands of training/README.md leave is what the page says."""
    for scores in ("scores.json", "toy_scores.json", "pipeline_scores.json"):
        assert json.loads((place / scores).read_text())["constituents_f"] > 0.5, scores
    parsed = [json.loads(line) for line in (place / "parsed.jsonl").read_text().splitlines()]
    assert [line["text"] for line in parsed] == (place / "texts.txt").read_text().splitlines()
    labels = set(spacy.load(place / "toy_parser").get_pipe("constituency_parser").labels)
    assert labels == {"R", "P", "L"}
    gold = read_labels(place / "toy_train.spacy") | read_labels(place / "toy_dev.spacy")
    assert gold == labels


def read_labels(path: Path) -> set[str]:
    examples = create_docbin_reader(path)(spacy.blank("xx"))
    return {span.label_ for example in examples for span in example.reference.spans["constituents"]}


def five_commands(page: Path) -> Block:
    """The block of a page that trains a parser."""
    (found,) = (
        block
        for block in blocks(page)
        if block.language == "bash"
        and [command[1] for command in commands(block.text) if len(command) > 1] == [*FIVE]
        and "sample.trees" in block.text
    )
    return found


def test_the_five_commands_of_the_readme_are_those_of_the_longer_page():
    """That page explains one more option, and is run above."""
    short, long = five_commands(README), five_commands(TRAINING)
    assert long.text.replace(" --output scores.json", "") == short.text
    assert long.output == short.output
    tree = parse_tree(short.output[: short.output.rindex(")") + 1])
    assert tree.words() == ["The", "town", "council", "opened", "the", "market", "."]


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.stem)
def test_blocks_have_lines_of_their_own(page):
    text = page.read_text(encoding="utf8")
    assert "```" not in BLOCK.sub("", text)


@pytest.mark.parametrize(
    "page", [*OTHERS, *PAGES], ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf8")
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"\]\s+\(", "](", text)):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), target
        if anchor:
            assert anchor in anchors(found), target


def test_questions_of_users_have_answers():
    """Each names a page and a heading, from the root of the repository."""
    text = (ROOT / "training" / "benchmarks" / "usability" / "questions.md").read_text("utf8")
    answers = re.findall(r"^\d+\. .+\[.+?\]\((.+?)#(.+?)\)$", text, re.MULTILINE)
    assert len(answers) == len(re.findall(r"^\d+\.", text, re.MULTILINE)) == 40
    for page, anchor in answers:
        assert anchor in anchors(ROOT / page), f"{page}#{anchor}"


def test_the_contents_lead_to_every_guide():
    readme, contents = README.read_text(encoding="utf8"), CONTENTS.read_text(encoding="utf8")
    for page in (TRAINING, CONTENTS, REFERENCE):
        assert f"({page.relative_to(ROOT).as_posix()})" in readme
    for page in GUIDES:
        assert page == CONTENTS or f"({page.name})" in contents, page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_name_files_that_exist(page):
    text = page.read_text("utf8")
    for name in re.findall(r"python (corpora/[\w/]+\.py)", text):
        assert (ROOT / name).is_file(), name
    for name in re.findall(r"python -m (training[\w.]*\w)", text):
        assert importlib.util.find_spec(name), name


def test_every_architecture_is_in_the_guide():
    from importlib.metadata import distribution

    guide = (ROOT / "training" / "guides" / "choosing_an_architecture.md").read_text("utf8")
    points = distribution("spacy-structlearn").entry_points
    points = [point for point in points if point.group == "spacy_architectures"]
    names = [point.name for point in points]
    assert names
    for name in names:
        assert f"`{name}`" in guide, name


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_learner_is_in_a_table(component):
    tables = (ROOT / "training" / "tables.md").read_text("utf8")
    (table,) = re.findall(f"<!-- table learners_{component} -->.*?<!-- end -->", tables, re.DOTALL)
    ours = [name for name in learners(component) if not name.startswith("contracts.")]
    assert re.findall(r"^\| `(.+?)`", table, re.MULTILINE) == ours


def test_benepar_names_in_the_guide_are_registered():
    """The left column of the table names benepar's extensions; all of them are here."""
    from spacy.tokens import Span, Token

    spacy_structlearn.load()
    guide = (ROOT / "training" / "guides" / "coming_from_benepar.md").read_text("utf8")
    rows = [row.split("|")[1] for row in guide.splitlines() if row.startswith("|")]
    names = {name for row in rows for name in re.findall(r"(?:span|token)\._\.\w+", row)}
    assert names == {
        *(f"span._.{n}" for n in ("labels", "parse_string", "constituents", "children", "parent")),
        *(f"token._.{n}" for n in ("labels", "parse_string", "parent")),
    }
    for name in names:
        owner, attribute = name.split("._.")
        assert {"span": Span, "token": Token}[owner].has_extension(attribute), name
