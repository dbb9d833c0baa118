"""`structlearn table`: rows of who did what."""

import csv
import json

import pytest
from cli.toys import one_line_error

COLUMNS = "file,text,start,end,who,did,what,whom,when,where,how,roleset,prob"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("The old dog\nslept.\n\nRun! The old dog slept.", encoding="utf8")
    return path


@pytest.mark.parametrize("processes", [1, 2])
def test_columns(run, parsing_model, text, processes):
    options = ["--model", parsing_model, "--n-process", str(processes)]
    code, out, err = run("table", text, *options)
    assert (code, err, out.partition("\n")[0]) == (0, "", COLUMNS)
    found = list(csv.DictReader(out.splitlines()))
    assert {row["file"] for row in found} == {str(text)}
    slept = {"who": "The old dog", "did": "sleep"}
    wanted = [{"text": "1", "start": "12", **slept}, {"text": "2", "did": "run", "who": ""}]
    wanted.append({"text": "2", "start": "17", **slept})
    assert [
        {key: row[key] for key in own} for row, own in zip(found, wanted, strict=True)
    ] == wanted


def test_json_lines_keep_the_keys_of_their_input(run, parsing_model, tmp_path):
    path = tmp_path / "mails.jsonl"
    path.write_text('{"text":"The old dog slept.","from":"Ann","text2":1}\n', encoding="utf8")
    code, out, _ = run("table", tmp_path, "--model", parsing_model, "--format", "jsonl")
    row = json.loads(out)
    assert (code, row["from"], row["did"], row["file"]) == (0, "Ann", "sleep", str(path))
    assert row["subjects"][0]["head"] == "dog"


def test_standard_input_and_docs(run, parsing_model, text, tmp_path):
    options = ["--model", parsing_model]
    expected = run("table", text, *options)[1].splitlines()
    found = run("table", "-", *options, stdin=text.read_text(encoding="utf8"))[1].splitlines()
    assert [row.partition(",")[2] for row in found[1:]] == [
        row.removeprefix(f"{text},") for row in expected[1:]
    ]
    run("apply", parsing_model, text, tmp_path / "docs.spacy")
    assert len(run("table", tmp_path / "docs.spacy", *options)[1].splitlines()) == len(expected)


def test_errors(run, parsing_model, tmp_path):
    options = ["--model", parsing_model]
    one_line_error(run("table", tmp_path / "missing.txt", *options), "SL010")
    one_line_error(run("table", tmp_path, *options), "SL069")
