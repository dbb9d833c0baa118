"""`structlearn evaluate`: what a pipeline is given, and what is reported."""

import json

import pytest
import spacy
from cli.toys import ATTACHED, TREES, one_line_error

from spacy_structlearn.cli.evaluate import example_of
from spacy_structlearn.pipeline.readers import read_treebank


@pytest.fixture
def trees(tmp_path):
    path = tmp_path / "trees"
    path.write_text("\n".join(ATTACHED + TREES), encoding="utf8")
    return path


def test_scores_are_a_table_and_json(run, model, gold, tmp_path):
    code, out, err = run("evaluate", model, gold, "-o", tmp_path / "scores.json")
    assert (code, err) == (0, "")
    rows = dict(line.split() for line in out.splitlines() if line.startswith(("np_chunk", "token")))
    assert rows["np_chunk_f"] == "1.0000"
    assert "np_chunk_per_type" not in rows
    scores = json.loads((tmp_path / "scores.json").read_text(encoding="utf8"))
    assert scores["np_chunk_f"] == 1.0
    assert scores["np_chunk_per_type"]["NP"]["f"] == 1.0


def test_the_gold_corpus_may_be_a_treebank(run, attaching_model, trees):
    out = run("evaluate", attaching_model, trees, "-o", "-")[1]
    scores = json.loads(out)
    assert scores["constituents_f"] > 0.9
    assert scores["pp_attachment_acc"] == 1.0


def test_gold_tokens_are_kept(run, model, tmp_path):
    # spaCy's tokenizer would make two tokens of the last one.
    (tmp_path / "trees").write_text("(S (NP (NN Dog)) (VP (VBD slept.)))", encoding="utf8")
    (tmp_path / "spaces").write_text("10\n", encoding="utf8")
    arguments = [model, tmp_path / "trees", "--spaces", tmp_path / "spaces", "-o", "-"]
    raw = json.loads(run("evaluate", *arguments)[1])
    gold = json.loads(run("evaluate", *arguments, "--gold-tokens")[1])
    assert raw["token_f"] < 1
    assert gold["token_f"] == 1


def test_what_a_pipeline_makes_itself_it_is_not_given(attaching_model, trees):
    nlp = spacy.load(attaching_model)
    ((_, doc), *_) = read_treebank(nlp.vocab, trees)
    given = example_of(nlp, doc, gold_tokens=True).predicted
    assert set(given.spans) == {"np_chunks"}
    assert given.has_annotation("SENT_START")
    nlp.remove_pipe("constituency_parser")
    given = example_of(nlp, doc, gold_tokens=True).predicted
    assert set(given.spans) == {"np_chunks", "constituents"}
    assert [token.tag_ for token in given] == [token.tag_ for token in doc]
    nlp.add_pipe("tagger")
    assert not example_of(nlp, doc, gold_tokens=True).predicted.has_annotation("TAG")


def test_a_component_alone_is_given_what_it_needs(run, attaching_model, trees, tmp_path):
    nlp = spacy.load(attaching_model)
    for name in ("constituency_parser", "sentencizer"):
        nlp.remove_pipe(name)
    nlp.to_disk(tmp_path / "attacher")
    arguments = [tmp_path / "attacher", trees, "-o", "-"]
    assert json.loads(run("evaluate", *arguments, "--gold-tokens")[1])["pp_attachment_acc"] == 1.0
    assert "SL026" in one_line_error(run("evaluate", *arguments))


def test_a_report_explains_the_errors(run, attaching_model, trees, tmp_path):
    # The other attachment of a phrase, and a sentence with other tokens than the tokenizer's.
    wrong = (
        ATTACHED[0].replace("(NP (NN soup)) (PP", "(NP (NP (NN soup)) (PP").replace(")))", "))))")
    )
    trees.write_text("\n".join([*ATTACHED, wrong, "(S (VP (VB Run.)))"]), encoding="utf8")
    target = tmp_path / "page.html"
    assert run("evaluate", attaching_model, trees, "--gold-tokens", "--report", target)[0] == 0
    page = target.read_text(encoding="utf8")
    assert "<td>PP attachment</td>" in page
    for title in ("Scores", "Errors of trees by kind", "Phrases", "PP attachments", "Calibration"):
        assert f"<h2>{title}</h2>" in page
    assert "<h2>Roles</h2>" not in page
    assert "<h4>Gold</h4>" in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert "<script" not in page
    assert run("evaluate", attaching_model, trees, "--report", target)[0] == 0
    assert "SL058" in one_line_error(run("evaluate", attaching_model, trees, "--report", trees))


def test_a_report_without_errors(run, model, gold, tmp_path):
    assert run("evaluate", model, gold, "--report", tmp_path / "page.html")[0] == 0
    page = (tmp_path / "page.html").read_text(encoding="utf8")
    assert "<h2>Chunks</h2>" in page
    assert "Worst sentences" not in page
    assert "Phrases" not in page
