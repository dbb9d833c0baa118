"""Whether the harness of kills finds what is lost, and that a small training loses nothing."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import spacy

from spacy_structlearn.pipeline.storage import digests
from spacy_structlearn.pipeline.training import fitting
from training.reliability.small_pipelines import (
    write_config,
    write_corpus,
)

# It takes modules that Windows has not.
kills = pytest.importorskip("training.reliability.kills", reason="needs fork", exc_type=ImportError)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    """A folder with a pipeline, and the pipeline."""
    folder = tmp_path_factory.mktemp("trained")
    config = write_config("crf", folder.parent / "config.cfg")
    return folder, fitting.train(config, folder / "pipeline", overrides=corpus, progress=False)


# In each of WAYS once.
def test_a_training_that_is_killed_loses_nothing(tmp_path):
    found = kills.train_killed("crf", tmp_path, 0, runs=1, kills=2)
    assert (found.runs, found.difference) == (1, 0.0)
    assert found.kills >= 1


def test_files_that_are_written_are_whole(tmp_path):
    found = kills.write_killed(tmp_path, 0, 1, ["convert"])
    assert (found.runs, found.kills, found.damaged) == (1, 1, 0)


def copied(trained, tmp_path):
    return Path(shutil.copytree(trained[0], tmp_path / "copy"))


def test_a_difference_is_found(trained, tmp_path):
    copy = copied(trained, tmp_path)
    assert kills.difference(trained[0], copy) == 0.0
    own, other = (folder / "pipeline" / "np_chunker" for folder in (trained[0], copy))
    chunker = spacy.load(other.parent).get_pipe("np_chunker")
    # Those that are 0 are not stored.
    weights = chunker.parameters.weights
    weights.flat[np.flatnonzero(weights)[3]] += 0.25
    chunker.to_disk(other, exclude=["vocab"])
    assert kills.difference(own, other) == pytest.approx(0.25)


def test_other_files_and_leftovers_are_differences(trained, tmp_path):
    copy = copied(trained, tmp_path)
    (copy / ".pipeline.np_chunker.checkpoint").write_bytes(b"")
    assert kills.difference(trained[0], copy) == np.inf
    (copy / ".pipeline.np_chunker.checkpoint").unlink()
    (copy / "pipeline" / "config.cfg").write_text("[nlp]\n", encoding="utf8")
    assert kills.difference(trained[0], copy) == np.inf


def test_half_a_pipeline_is_found(trained, tmp_path):
    copy = copied(trained, tmp_path) / "pipeline"
    kills.check_whole(copy)
    (copy / "vocab" / "strings.json").unlink()
    with pytest.raises(ValueError, match="SL083"):
        kills.check_whole(copy)
    shutil.rmtree(copy)
    kills.check_whole(copy)


# --- what the harness has found -------------------------------------------------------------------


def test_a_finished_training_is_not_gone_on_with(corpus, tmp_path, monkeypatch):
    """Killed between the training and the saving: one iteration more is another model."""
    config = write_config("crf", tmp_path / "config.cfg")
    wanted = fitting.train(config, overrides=corpus, progress=False)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fitting, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            fitting.train(config, tmp_path / "pipeline", overrides=corpus, progress=False)
    state = tmp_path / ".pipeline.np_chunker.checkpoint"
    assert state.exists()
    # Nothing is learned again.
    with monkeypatch.context() as patch:
        step = "spacy_structlearn.sequence.estimators.training.LikelihoodTrainer.iterate"
        patch.setattr(step, lambda self: pytest.fail("goes on"))
        found = fitting.train(config, tmp_path / "pipeline", overrides=corpus, progress=False)
    assert found.get_pipe("np_chunker").parameters == wanted.get_pipe("np_chunker").parameters
    assert not state.exists()


def test_a_pipeline_that_was_moved_and_not_replaced_comes_back(trained, tmp_path):
    old = shutil.copytree(trained[0] / "pipeline", tmp_path / ".pipeline.old")
    with pytest.raises(OSError, match="E053"):
        fitting.train(tmp_path / "no.cfg", tmp_path / "pipeline")
    assert not old.exists()
    digests.check(tmp_path / "pipeline")
    assert (tmp_path / "pipeline" / digests.DIGESTS).is_file()


def test_a_pipeline_that_cannot_be_replaced_stays(trained, tmp_path, monkeypatch):
    copy = copied(trained, tmp_path) / "pipeline"

    def full(*_):
        raise OSError("full")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="full"):
        fitting.save(trained[1], copy)
    assert [path.name for path in copy.parent.iterdir()] == ["pipeline"]
    digests.check(copy)
