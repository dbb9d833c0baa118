"""`structlearn train --ray`: what threads learn, learned by actors."""

import sys
from pathlib import Path

import pytest
import spacy
from spacy.tokens import DocBin
from spacy.vocab import Vocab
from toys import gold_docs, one_line_error

import spacy_structlearn

CONFIG = Path(spacy_structlearn.__file__).parent / "pipeline" / "configs" / "np_chunker.cfg"


@pytest.fixture
def arguments(tmp_path):
    path = tmp_path / "gold.spacy"
    DocBin(docs=list(gold_docs(Vocab()))).to_disk(path)
    shards = ["--components.np_chunker.model.shards", "2"]
    return [CONFIG, "--paths.train", path, "--paths.dev", path, *shards]


def test_the_same_model(two_machines, run, arguments, tmp_path):
    models = []
    for place, options in {"here": [], "there": ["--ray"], "one": ["--workers=1", "--ray"]}.items():
        code, _, err = run("train", *arguments, "-o", tmp_path / place, *options)
        assert (code, err) == (0, "")
        nlp = spacy.load(tmp_path / place)
        models.append(nlp.get_pipe("np_chunker").parameters.to_bytes())
    assert models[0] == models[1] == models[2]


def test_workers_are_those_of_a_cluster(run, arguments, tmp_path):
    code, _, err = run("train", *arguments, "-o", tmp_path / "model", "--workers", "2")
    assert code == 2
    assert "--ray" in err


def test_ray_is_named_where_it_is_not_installed(run, arguments, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    error = one_line_error(run("train", *arguments, "-o", tmp_path / "model", "--ray"))
    assert "SL250" in error
    assert "pip install 'spacy-structlearn[ray]'" in error
    assert not (tmp_path / "model").exists()
