"""`structlearn train --ray`: what threads learn, learned by actors."""

import sys

import pytest
import spacy
from cli.toys import one_line_error


@pytest.fixture
def arguments(config, gold):
    shards = ["--components.np_chunker.model.shards", "2"]
    return [config, "--paths.train", gold, "--paths.dev", gold, *shards]


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
    one_line_error(
        run("train", *arguments, "-o", tmp_path / "model", "--ray"),
        "SL250",
        "pip install 'spacy-structlearn[ray]'",
    )
    assert not (tmp_path / "model").exists()
