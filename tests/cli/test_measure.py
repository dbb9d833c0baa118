"""`structlearn measure`: rows of files, texts, sentences and folders."""

import csv
import json

import pytest
from cli.toys import TREES, one_line_error

from spacy_structlearn.measures.totals import MEASURES


@pytest.fixture
def trees(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    for path in ("a/one.trees", "a/b/two.trees"):
        (tmp_path / path).write_text("\n".join(TREES), encoding="utf8")
    (tmp_path / "a" / "three.mrg").touch()
    return tmp_path / "a"


def rows(out):
    return list(csv.DictReader(out.splitlines()))


@pytest.mark.parametrize(
    ("by", "columns", "words"),
    [
        ("sentence", ["file", "text", "sentence"], [4, 1, 4, 1]),
        ("text", ["file", "text"], [4, 1, 4, 1]),
        ("file", ["file"], [5, 5, 0]),  # one without trees
        ("folder", ["folder"], [5, 5]),
    ],
)
def test_levels(run, trees, by, columns, words):
    code, out, err = run("measure", trees, "--by", by)
    assert (code, err, out.partition("\n")[0]) == (0, "", ",".join([*columns, *MEASURES]))
    assert sorted(int(row["W"]) for row in rows(out)) == sorted(words)
    assert all(row["W"] == row["MLS"].removesuffix(".0") for row in rows(out)) is (len(columns) > 1)


def test_texts_and_json_lines(run, parsing_model, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("The old dog slept. Run!\n\nRun!", encoding="utf8")
    options = ["--model", parsing_model, "--by", "sentence", "--format", "jsonl"]
    code, out, _ = run("measure", path, *options)
    found = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [[row[key] for key in ("text", "sentence", "W", "MLS")] for row in found] == [
        [1, 1, 4, 4.0],
        [1, 2, 1, 1.0],
        [2, 1, 1, 1.0],
    ]
    output = tmp_path / "parsed.spacy"
    assert run("apply", parsing_model, path, output)[0] == 0
    stored = run("measure", output, "--by", "text")[1]
    assert [(row["text"], row["W"], row["S"]) for row in rows(stored)] == [
        ("1", "5", "2"),
        ("2", "1", "1"),
    ]


def test_what_cannot_be_measured(run, model, tmp_path):
    one_line_error(run("measure", tmp_path / "no.trees"), "SL010", "no.trees")
    one_line_error(run("measure", tmp_path), "SL069")
    (tmp_path / "text.txt").write_text("Run!", encoding="utf8")
    one_line_error(run("measure", tmp_path / "text.txt", "--model", model), "SL020")
