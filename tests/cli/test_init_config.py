"""`structlearn init-config`: names, suggestions, and a config that `train` takes."""

import pytest


def test_components_and_learners_are_listed(run):
    code, out, _ = run("init-config")
    assert code == 0
    assert "np_chunker: CRF, HMM, MEMM, MEstimation, " in out
    assert "LatentGrammar.treebank" in out


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["chunker"], "np_chunker"),
        (["np_chunker", "-a", "memm"], "Choose MEMM."),
        (["np_chunker", "-a", "MEstimation.emprical"], "MEstimation.empirical"),
        (["constituency_parser", "-a", "CRF"], "LatentGrammar"),
    ],
)
def test_a_wrong_name_gets_the_right_one(run, arguments, meant):
    code, out, err = run("init-config", *arguments)
    assert (code, out) == (2, "")
    assert meant in " ".join(err.split())


@pytest.mark.parametrize("name", ["MEMM", "spacy_structlearn.MEMM.v1", None])
def test_train_takes_the_config(run, gold, tmp_path, name):
    config, model = tmp_path / "my.cfg", tmp_path / "model"
    code, _, err = run("init-config", "np_chunker", *(["-a", name] if name else []), "-o", config)
    assert (code, err) == (0, "")
    assert ("MEMM.v1" in config.read_text()) is bool(name)
    code, out, _ = run("train", config, "-o", model, "--paths.train", gold, "--paths.dev", gold)
    assert code == 0
    assert "1.0000" in out
