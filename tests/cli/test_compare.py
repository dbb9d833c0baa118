"""`structlearn compare`: differences of two pipelines, and the sentences that changed."""

import pytest
import spacy
from cli.toys import one_line_error


@pytest.fixture
def silent(model, tmp_path):
    """The pipeline whose chunker finds nothing."""
    nlp = spacy.load(model)
    nlp.remove_pipe("np_chunker")

    @spacy.Language.component("no_chunks")
    def no_chunks(doc):
        doc.spans["np_chunks"] = []
        return doc

    nlp.add_pipe("no_chunks")
    nlp.to_disk(tmp_path / "silent")
    return tmp_path / "silent"


def test_compare(run, model, silent, gold, tmp_path):
    target = tmp_path / "page.html"
    code, out, err = run("compare", silent, model, gold, "-o", target)
    assert (code, err) == (0, "")
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert any(row.startswith("Chunks: F1 0.0000 1.0000 1.0000") for row in rows)
    assert "Chunks: exact match 0 3 0.2500" in rows
    assert "3 sentences are better" in out
    assert "0 sentences are worse" in out
    page = target.read_text(encoding="utf8")
    assert "<h4>A</h4>" in page
    assert "better in B</h2>" in page
    assert "worse in B</h2>" not in page


def test_a_pipeline_does_not_differ_from_itself(run, model, gold):
    out = run("compare", model, model, gold, "--gold-tokens")[1]
    assert "0 sentences are better" in out
    line = next(line for line in out.splitlines() if line.startswith("Chunks: F1"))
    assert line.split()[-4:] == ["0.0000", "0.0000", "0.0000", "1.0000"]


def test_outputs_are_no_inputs(run, model, gold):
    assert "SL058" in one_line_error(run("compare", model, model, gold, "-o", gold))
