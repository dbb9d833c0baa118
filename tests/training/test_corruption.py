"""Whether the harness of damaged files finds what is silent, and that small pipelines pass."""

import logging
from functools import partial

import pytest
import spacy

from spacy_structlearn.pipeline.storage import digests
from spacy_structlearn.pipeline.training import fitting
from training.reliability import corruption
from training.reliability.small_pipelines import dev_docs, write_config, write_corpus


@pytest.mark.parametrize("cases", ["small_cases", "checkpoint_cases"])
def test_small_pipelines_pass(cases, tmp_path, monkeypatch):
    """Some damage to every file of a small pipeline, and to the state of a training."""
    monkeypatch.setattr(corruption, "REPEATED", {"byte": corruption.REPEATED["byte"]})
    once = ("removed", "last byte")
    monkeypatch.setattr(corruption, "ONCE", {name: corruption.ONCE[name] for name in once})
    # A restart from the state of another training is logged, whatever is printed.
    monkeypatch.setattr(logging.getLogger("spacy_structlearn"), "level", logging.ERROR)
    foreign = [["crf"]] if cases == "small_cases" else []
    names = ["crf"] if foreign else ["crf", "hmm"]
    found = corruption.figures(getattr(corruption, cases)(names, tmp_path, 1, *foreign))
    assert found["corruption.cases"] > (20 if foreign else 1)
    assert found["corruption.silent"] == found["corruption.unclear"] == 0
    assert found["corruption.errors"] > 0
    if foreign:
        assert found["corruption.bytes.errors"] > 0
        assert found["corruption.spacy_load.foreign.errors"] > 0
        assert found["corruption.spacy_load.foreign.silent"] == 0
    else:
        assert found["corruption.harmless"] == 1


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    """A small pipeline as spaCy saves it, and loads it."""
    work = tmp_path_factory.mktemp("corruption")
    overrides = write_corpus(work)
    config = write_config("span", work / "config.cfg")
    fitting.train(config, overrides=overrides, progress=False).to_disk(work / "pipeline")
    docs = partial(dev_docs, overrides=overrides)
    return corruption.Foreign(work / "pipeline", partial(spacy.load, work / "pipeline"), docs)


def outcome(pipeline, file, change):
    path = pipeline.folder / file
    data = path.read_bytes()
    try:
        path.write_bytes(change(data))
        return pipeline.outcome(path)
    finally:
        path.write_bytes(data)


def longer(data):
    return data.replace(b"{", b"{ ", 1)


def weight_changed(data):
    """A number in the last array of the layers is another."""
    changed = bytearray(data)
    changed[data.rindex(b"W_tag") - 40] ^= 1
    return bytes(changed)


def test_every_outcome_is_told_apart(pipeline, monkeypatch):
    cfg = "constituency_parser/cfg"
    assert outcome(pipeline, cfg, lambda data: data) == "harmless"
    assert outcome(pipeline, cfg, longer) == "errors"
    assert outcome(pipeline, "constituency_parser/model", weight_changed) == "errors"
    assert outcome(pipeline, "meta.json", lambda d: d.replace(b"0.0.0", b"0.0.1")) == "described"
    assert outcome(pipeline, "config.cfg", lambda data: b"[") == "unclear"
    # Without digests.
    monkeypatch.setattr(digests, "check_component", lambda *_, **__: None)
    assert outcome(pipeline, cfg, longer) == "harmless"
    assert outcome(pipeline, "constituency_parser/model", weight_changed) == "silent"
