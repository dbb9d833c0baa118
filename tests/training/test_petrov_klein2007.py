"""The reproduction of Petrov & Klein (2007), on the sample treebank and with few iterations."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from spacy_structlearn.grammar.discriminative.settings import ConditionalGrammarSettings
from spacy_structlearn.pipeline.architectures import estimator
from training.common import kept
from training.common.process import measured
from training.common.report import flat
from training.papers.petrov_klein2007 import __main__ as script
from training.papers.petrov_klein2007 import discriminative, memory, report, uniform

GENERATIVE = replace(kept.TABLE1, rounds=1, split_iterations=2)
BASE = GENERATIVE.part(
    ConditionalGrammarSettings, l1=0.0, l2=0.0, conditional_iterations=3, shards=2
)


@pytest.fixture(scope="module")
def trees(sample):
    return tuple(tree for tree in sample if len(tree.words()) < 16)


@pytest.fixture
def small(smaller, tmp_path, treebanks, trees):
    """Treebanks of some sentences and little training."""
    treebanks(train=trees[:30], fit=trees[:30], others=trees[30:40])
    smoothed = replace(GENERATIVE, **vars(kept.LEXICON))
    smaller(
        discriminative,
        uniform,
        script,
        TABLE1=GENERATIVE,
        SKELETON=GENERATIVE,
        SKELETON_ROUNDS={},
        BASE=BASE,
        UNIFORM=replace(BASE, base="uniform"),
        STRENGTHS={"l1": (0.5, 1.0), "none": (0.0,)},
        COMPARED_LEVEL=1,
        COPIED_ROUNDS=1,
        WSJ=smoothed,
        SEEDS=(0, 1),
        ewt_grammar=lambda: estimator(smoothed).trainer(None, [trees[:30]]).parameters(),
        GRID={"l1": (0.5, 1.0), "l2": (0.5,)},
        NUMBERS=(1, 2),
        EVERY=10,
    )
    smaller(report, NUMBERS=(1, 2), plot=lambda figures, path: False)
    return discriminative.Run(tmp_path, tmp_path / "work", 1)


def test_training_that_was_broken_goes_on(monkeypatch, tmp_path, trees):
    # The state is saved at each iteration.
    monkeypatch.setattr(kept, "CHECKPOINT_S", 0)
    monkeypatch.setattr(kept, "CHECKPOINT_RATIO", 0)
    writes = []

    def write(path, data):
        path.write_bytes(data)
        writes.append(path)
        if len(writes) == last:
            raise KeyboardInterrupt

    last = 0
    monkeypatch.setattr(kept, "write_bytes", write)
    whole, notes = kept.train(trees[:30], BASE, "whole", tmp_path / "whole")
    assert [level["level"] for level in notes["levels"]] == [0, 1]
    # In the midst of the last level.
    assert notes["levels"][-1]["iterations"] > 1
    last = len(writes) - 1
    writes.clear()
    with pytest.raises(KeyboardInterrupt):
        kept.train(trees[:30], BASE, "broken", tmp_path / "broken")
    before = json.loads((tmp_path / "broken").read_bytes().split(b"\n", 1)[0])
    again, after = kept.train(trees[:30], BASE, "again", tmp_path / "broken")
    assert len(writes) - last <= 2
    assert again.to_bytes() == whole.to_bytes()
    assert after["cpu_s"] > before["cpu_s"]
    assert after["levels"] == notes["levels"]


def test_a_part_of_the_other_half_is_a_wrong_use(run_script, capsys):
    with pytest.raises(SystemExit):
        run_script(script, "--generative", "--only", "tune")
    assert "tune is not a part of --generative" in capsys.readouterr().err


def test_all_parts(small, monkeypatch, run_script):
    """What they record is what the report reads, and the figures agree with one another."""
    paths = ["--corpora", small.corpora, "--work", small.work]
    for part in script.DISCRIMINATIVE:
        found = flat(run_script(script, *paths, "--only", part))
        assert report.section(small.corpora / "results", script.NAME, part), part
    points = found["wsj.tune.generative.l1.points"]
    assert [point["strength"] for point in points] == [0.5, 1.0]
    best = max(points, key=lambda point: point["mean_f1"])
    assert found["wsj.tune.generative.l1.chosen.strength"] == best["strength"]
    for number in (1, 2):
        assert 1 <= found[f"l1.{number}.iterations"] < found[f"l1.{number}.evaluations"]
        counts = [found[f"pruning.{number}.{r}.constituents"] for r in ("cached", "none")]
        assert 0 < counts[0] < counts[1]
    assert abs(found["pruning.likelihood_change_percent"]) < 1
    for kind in ("generative", "discriminative"):
        assert found[f"merge.0.f1_loss.{kind}"] == 0.0
    assert found["l2.2.share"] > found["l1.2.share"] > 0
    kinds = ("generative", "discriminative", "generative4", "both")
    f1 = {name: found[f"best.wsj.candidates.{name}.dev_f1"] for name in kinds}
    assert found["best.wsj.dev_f1"] == f1[found["best.wsj.chosen"]] == max(f1.values())
    # What is done is not done again.
    monkeypatch.setattr(kept, "train", None)
    monkeypatch.setattr(discriminative, "score", None)
    assert flat(run_script(script, *paths, "--only", "tune")) == found


def test_figures_of_the_papers_parametrisation(small, run_script):
    paths = ["--corpora", small.corpora, "--work", small.work]
    found = flat(run_script(script, *paths, "--only", "uniform"))
    means = {norm: found[f"uniform.mean_f1.{norm}"] for norm in ("l1", "none")}
    norm = found["uniform.chosen"]
    assert means[norm] == max(means.values())
    # Without a prior, only parameters that never change are 0.
    assert found["uniform.l1.2.share"] < found["uniform.none.2.share"]
    for number in (1, 2):
        assert found[f"uniform.{number}.discriminative.f1"] == found[f"uniform.{norm}.{number}.f1"]
        # All sentences are short.
        for kind in ("generative", "discriminative"):
            key = f"uniform.{number}.{kind}.test"
            assert found[f"{key}_f1"] == found[f"{key}_40.f1"]
    # The first level does not depend on how later ones start.
    assert found["uniform.copy.1.f1"] == found[f"uniform.{norm}.1.f1"]
    sizes = {key.split(".")[2] for key in found if key.startswith("uniform.size.")}
    assert sizes == {"30", "15", "8", "4"}
    assert found["uniform.sentences.test"] == 10


def test_memory_is_measured_without_spacy(tmp_path, trees):
    grammar, _ = kept.train(trees[:30], GENERATIVE, "small")
    (tmp_path / "grammar").write_bytes(grammar.to_bytes())
    sentences = [tree.words() for tree in trees[:5]]
    (tmp_path / "sentences").write_text(json.dumps(sentences), encoding="utf8")
    found = measured(memory.__name__, tmp_path / "grammar", tmp_path / "sentences")
    assert found["peak_rss_mb"] > 10


def test_productions_of_the_root_and_words(trees):
    trainer = estimator(GENERATIVE).trainer(None, [trees[:30]])
    while trainer.step():
        pass
    trained = trainer.parameters()
    root = uniform.root_productions(trained)
    assert root["first"] == "S"
    assert root["s_rank"] == 1
    assert 0 < root["s_weight"] == root["first_weight"] <= 1 + 1e-6
    words = uniform.words_of(trained, "DT")
    assert len(words["words"]) == 2
    assert all(len(own.split()) <= uniform.SHOWN for own in words["words"])
    assert 0 < words["share"] <= 1
