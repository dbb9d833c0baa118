"""`structlearn find`: what is searched, and what is printed."""

import gzip
import json

import pytest
from cli.toys import TREES, one_line_error
from pipeline.parsed import parsed_doc
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

import spacy_structlearn
from spacy_structlearn.pipeline.extensions import set_spans

FOUND = ["1:0-11\tNP\tThe old dog", "2:0-3\tVP\tRun"]


@pytest.fixture
def trees(tmp_path):
    path = tmp_path / "some.trees"
    path.write_text("\n".join(TREES), encoding="utf8")
    return path


def lines(out, path):
    return [line.removeprefix(f"{path}:") for line in out.splitlines()]


def test_trees_in_brackets(run, trees, tmp_path):
    code, out, err = run("find", "NP|VP !< VBD", trees)
    assert (code, lines(out, trees), err) == (0, FOUND, "")
    path = tmp_path / "some.mrg.gz"
    path.write_bytes(gzip.compress(f"((NP-SBJ-1 (-NONE- *)))\n({TREES[1]})".encode()))
    assert lines(run("find", "VP", path)[1], path) == ["2:0-3\tVP\tRun"]


@pytest.mark.finding
def test_a_label_that_nothing_has_is_named(run, trees):
    with pytest.warns(UserWarning, match=r"SL802.*'np'.*Did you mean 'NP'"):
        code, out, _ = run("find", "np < nn", trees)
    assert (code, out) == (1, "")


@pytest.mark.parametrize("format", ["spacy", "jsonl"])
def test_output_of_apply(run, parsing_model, tmp_path, format):
    text = "The old dog  slept. (Run!)\n\n\n Run!"
    (tmp_path / "text.txt").write_text(text, encoding="utf8")
    output = tmp_path / f"parsed.{format}"
    assert run("apply", parsing_model, tmp_path / "text.txt", output)[0] == 0
    code, out, err = run("find", "__", output)
    parsed = run("find", "__", tmp_path / "text.txt", "--model", parsing_model)
    assert (code, err) == (0, "")
    assert lines(out, output) == lines(parsed[1], tmp_path / "text.txt")
    assert lines(out, output)[0].endswith("\tTOP\tThe old dog slept. (")  # brackets are words
    assert lines(out, output)[-1] == "2:3-4\t!\t!"


def test_all_nodes_of_a_match(run, trees):
    code, out, _ = run("find", "S < (NP=subject <- NN=head) < VP", trees, "--format", "jsonl")
    assert code == 0
    assert [json.loads(line) for line in out.splitlines()] == [
        {
            "file": str(trees),
            "number": 1,
            "nodes": [
                {"label": "S", "start": 0, "end": 19, "text": "The old dog slept ."},
                {"name": "subject", "label": "NP", "start": 0, "end": 11, "text": "The old dog"},
                {"name": "head", "label": "NN", "start": 8, "end": 11, "text": "dog"},
                {"label": "VP", "start": 12, "end": 17, "text": "slept"},
            ],
        }
    ]


def test_texts_are_parsed(run, parsing_model, tmp_path):
    (tmp_path / "texts.jsonl").write_text('{"text": "Run!"}\n', encoding="utf8")
    path = tmp_path / "texts.jsonl"
    code, out, _ = run("find", "VB", path, "--model", parsing_model)
    assert (code, lines(out, path)) == (0, ["1:0-3\tVB\tRun"])
    found = run("find", "VB", "-", "--model", parsing_model, "--unit", "line", stdin="Run!\nRun!")
    assert found == (0, "-:1:0-3\tVB\tRun\n-:2:0-3\tVB\tRun\n", "")


def test_what_cannot_be_searched(run, trees, model, tmp_path):
    one_line_error(run("find", "NP <", trees), "SL701", "character 5")
    for name in ("no.txt", "no.trees", "no.spacy", "no.jsonl"):
        one_line_error(run("find", "NP", tmp_path / name), "SL010", name)
    (tmp_path / "bad.spacy").write_bytes(b"x")
    one_line_error(run("find", "NP", tmp_path / "bad.spacy"), "SL013")
    DocBin(docs=[Doc(Vocab(), words=["a"])]).to_disk(tmp_path / "bare.spacy")
    one_line_error(run("find", "NP", tmp_path / "bare.spacy"), "SL020", "'a'")
    (tmp_path / "bad.jsonl").write_text('{"text": "a", "trees": ["(X a)"]}', encoding="utf8")
    one_line_error(run("find", "NP", tmp_path / "bad.jsonl"), "SL704", "text 1", "tokens")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "table.csv").touch()
    one_line_error(run("find", "NP", tmp_path / "empty"), "SL125", "table.csv")
    # A pipeline without a parser.
    (tmp_path / "text.txt").write_text("Run!", encoding="utf8")
    one_line_error(run("find", "NP", tmp_path / "text.txt", "--model", model), "SL020")


def test_tags_of_the_parser_in_jsonl(run, tmp_path):
    """They can be others than those of the tokens."""
    doc = parsed_doc(Vocab(), TREES[0], space=(1,))
    set_spans(doc, "constituent_tags", [("XY", 2, 3)])
    data = spacy_structlearn.as_dict(doc)
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps(data), encoding="utf8")
    assert lines(run("find", "XY", path)[1], path) == ["1:6-9\tXY\told"]
