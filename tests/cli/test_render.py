"""`structlearn render`: a page of HTML from text or from Docs."""

import pytest
from cli.toys import gold_docs
from spacy.tokens import DocBin
from spacy.vocab import Vocab


@pytest.mark.finding
def test_a_terminal_is_not_flooded(run, model, monkeypatch, tmp_path):
    """A page of HTML was printed on the terminal unless -o was given."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    code, out, err = run("render", "The old dog slept.", "--model", model)
    assert (code, out) == (2, "")
    assert "--output FILE" in err
    assert run("render", "Run!", "--model", model, "-o", "-")[1].startswith("<!DOCTYPE")


def test_a_page_on_standard_output(run, parsing_model):
    code, out, err = run("render", "The old dog slept.", "--model", parsing_model)
    assert (code, err) == (0, "")
    assert out.startswith("<!DOCTYPE html>")
    assert "<title>The old dog slept.</title>" in out
    assert "<svg" in out


def test_a_whole_file_is_one_text(run, model, tmp_path):
    text = "The old\ndog slept.\n\nRun!\n"
    page = run("render", "-", "--model", model, stdin=text)[1]
    assert "<title>The old dog slept. Run!</title>" in page
    assert page == run("render", text, "--model", model)[1]
    (tmp_path / "my notes.txt").write_text(text, encoding="utf8")
    assert page == run("render", tmp_path / "my notes.txt", "--model", model)[1]


def test_docs_are_drawn_as_they_are(run, model, tmp_path):
    (doc, *_) = gold_docs(Vocab())
    DocBin(docs=[doc]).to_disk(tmp_path / "gold.spacy")
    page = run("render", tmp_path / "gold.spacy", "--model", model)[1]
    assert "slept" in page
    # Of gold chunks there are no probabilities, of predicted ones there are.
    assert "<i>" not in page
    assert "<i>" in run("render", "The old dog slept.", "--model", model)[1]
