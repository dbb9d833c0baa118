"""Commands of spaCy with configs and pipelines of this package."""

import pytest
from cli.toys import gold_docs
from pipeline.written import CONFIGS, config_of
from spacy.cli import app
from spacy.cli.evaluate import evaluate
from spacy.tokens import DocBin
from spacy.vocab import Vocab
from typer.testing import CliRunner


@pytest.fixture
def of_spacy():
    """Run a command of spaCy, which must succeed. RETURNS: what it prints."""

    def run(*arguments):
        done = CliRunner().invoke(app, [*map(str, arguments)])
        assert done.exit_code == 0, (done.output, done.exception)
        return done.output

    return run


@pytest.mark.parametrize("name", sorted(path.stem for path in CONFIGS.glob("*.cfg")))
def test_every_config_can_be_filled_in(of_spacy, name, tmp_path):
    of_spacy("init", "fill-config", config_of(name), tmp_path / "filled.cfg")
    assert "Config is valid" in of_spacy("debug", "config", tmp_path / "filled.cfg")


def test_debug_data(of_spacy, gold, tmp_path):
    filled = tmp_path / "filled.cfg"
    of_spacy("init", "fill-config", config_of("np_chunker"), filled)
    paths = [f"--paths.{name}={gold}" for name in ("train", "dev")]
    docs = [*gold_docs(Vocab())]
    DocBin(docs=docs * (100 // len(docs))).to_disk(gold)  # spaCy asks for 100
    out = of_spacy("debug", "data", filled, *paths)
    assert "Corpus is loadable" in out


def test_evaluate_shows_our_scores(of_spacy, model, gold):
    out = of_spacy("evaluate", model, gold, "--spans-key", "np_chunks")
    rows = [line.split() for line in out.splitlines()]
    assert ["SPAN", "F", "100.00"] in rows
    assert ["NP", "100.00", "100.00", "100.00"] in rows
    assert evaluate(model, gold, spans_key="np_chunks")["spans_np_chunks_f"] == 1.0
