"""Both doors to training, `spacy train` and the fitting loop, with each config of the package."""

import sys

import numpy as np
import pytest
import spacy
import srsly
from pipeline.written import NAMES, config_of
from spacy.cli.train import train as spacy_train
from spacy.schemas import ConfigSchemaTraining
from spacy.util import registry

from spacy_structlearn.pipeline.training import fitting

# One learner of each kind: stochastic, by L-BFGS, by rounds, in one step. For each the settings of
# its model with which training is quick, and its score on what was not trained on.
QUICK = {
    "chain_tagger": ({"max_iterations": 3}, "tag_acc", 0.5),
    "constituency_parser": ({"rounds": 1}, "constituents_f", 0.3),
    "np_chunker": ({}, "np_chunk_f", 0.7),
    "pp_attacher": ({}, "pp_attachment_acc", 0.4),
}

IN_ORDER = {"chain_tagger"}  # stochastic: it depends on the order of the examples


@pytest.mark.parametrize("name", NAMES)
def test_every_config_makes_a_pipeline(name, paths):
    config = spacy.util.load_config(config_of(name), overrides=paths)
    nlp = spacy.util.load_model_from_config(config, auto_fill=True, validate=True)
    factory = name.partition(".")[0]
    assert nlp.pipe_names[-1] == factory
    registry.resolve(nlp.config.interpolate()["training"], schema=ConfigSchemaTraining)


@pytest.mark.parametrize("name", QUICK)
def test_both_doors_end_at_the_same_pipeline(name, paths, tmp_path, monkeypatch, capsys):
    settings, score, floor = QUICK[name]
    factory = name.partition(".")[0]
    model = f"components.{factory}.model."
    overrides = {k if k[:8] == "training" else model + k: v for k, v in settings.items()} | paths
    config = spacy.util.load_config(config_of(name))
    log = {"@loggers": "spacy.ConsoleLogger.v3", "output_file": str(tmp_path / "log")}
    config["training"]["logger"] = log
    config.to_disk(tmp_path / "config.cfg")
    with monkeypatch.context() as patch:
        patch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        straight = fitting.train(config_of(name), tmp_path / "model", overrides=overrides)
        shown = capsys.readouterr().err
    assert factory in shown
    spacy_train(tmp_path / "config.cfg", tmp_path / "out", overrides=overrides)
    steps, saved = (spacy.load(tmp_path / n) for n in ("out/model-last", "model"))
    ours, theirs, of_disk = (nlp.get_pipe(factory) for nlp in (straight, steps, saved))
    assert of_disk.model.to_bytes() == ours.model.to_bytes()
    assert theirs.cfg == ours.cfg == of_disk.cfg
    performance = straight.meta["performance"]
    assert performance[score] > floor
    if name in IN_ORDER:
        assert steps.meta["performance"][score] == pytest.approx(performance[score], abs=0.1)
        return
    if hasattr(ours.parameters, "transitions"):
        # spaCy shuffles the examples, on whose order sums depend.
        np.testing.assert_array_equal(theirs.parameters.keys, ours.parameters.keys)
        for part in ("weights", "transitions"):
            of_both = (getattr(p.parameters, part) for p in (theirs, ours))
            np.testing.assert_allclose(*of_both, rtol=1e-4, atol=1e-5)
    else:
        assert theirs.model.to_bytes() == ours.model.to_bytes()
    for key, value in performance.items():
        assert steps.meta["performance"][key] == pytest.approx(value, rel=1e-6), key
    # What is scored after every step, for early stopping, and the loss.
    logged = list(srsly.read_jsonl(tmp_path / "log"))
    assert len(logged) >= 2
    assert all(line["scores"][score] > 0 for line in logged[1:])
    losses = [line["losses"][factory] for line in logged]
    assert losses[-1] == pytest.approx(performance[f"{factory}_loss"])
