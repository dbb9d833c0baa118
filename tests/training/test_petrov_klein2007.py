"""The reproduction of Petrov & Klein (2007), on the sample treebank and with few iterations."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import petrov_klein2007
import pk_discriminative
import pk_models
import pk_report
import pytest
import recording
from paper_report import flat
from pk_models import TABLE1

from spacy_structlearn.grammar.discriminative.settings import ConditionalGrammarSettings

ROUNDS = 1
GENERATIVE = replace(TABLE1, rounds=ROUNDS, split_iterations=2)
FEW = {"conditional_iterations": 3, "shards": 2}
BASE = GENERATIVE.part(ConditionalGrammarSettings, l1=0.0, l2=0.0, **FEW)


@pytest.fixture(scope="module")
def trees(sample):
    return tuple(tree for tree in sample if len(tree.words()) < 20)


@pytest.fixture
def small(monkeypatch, tmp_path, treebanks, trees):
    """Treebanks of some sentences, little training, and all of it in this process."""
    treebanks(train=trees[:50], fit=trees[:50], others=trees[50:])
    own = pk_discriminative
    monkeypatch.setattr(own, "in_process", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(own, "TABLE1", GENERATIVE)
    monkeypatch.setattr(own, "SKELETON", GENERATIVE)
    monkeypatch.setattr(own, "SKELETON_ROUNDS", {})
    monkeypatch.setattr(own, "BASE", BASE)
    smoothed = replace(GENERATIVE, **vars(pk_models.LEXICON))
    monkeypatch.setattr(own, "WSJ", smoothed)
    monkeypatch.setattr(own, "EWT", smoothed)
    monkeypatch.setattr(own, "SEEDS", (0, 1))
    monkeypatch.setattr(own, "FURTHER", [replace(smoothed, seed=seed) for seed in (2, 3)])
    monkeypatch.setattr(own, "N_SHAPES", 1)
    monkeypatch.setattr(
        own, "ewt_grammar", lambda: smoothed.trainer(None, [trees[:50]]).parameters()
    )
    monkeypatch.setattr(own, "GRID", {"generative": {"l1": (0.5, 1.0), "l2": (0.5,)}})
    monkeypatch.setattr(own, "NUMBERS", (1, 2))
    monkeypatch.setattr(pk_report, "NUMBERS", (1, 2))
    monkeypatch.setattr(own, "EVERY", 10)
    for module in (recording, petrov_klein2007):
        monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    return pk_discriminative.Run(tmp_path, tmp_path / "work", 1, ("generative",))


def test_grammars_are_kept_by_all_that_matters(tmp_path):
    def path(**changes):
        return pk_models.grammar_path(tmp_path, "ewt", "train", replace(BASE, **changes))

    assert path() == path(threads=2)
    others = [
        path(l1=1.0),
        path(l2=1.0),
        path(base="uniform"),
        path(conditional_iterations=4),
        path(split_iterations=3),
    ]
    assert len({path(), *others}) == len(others) + 1


def test_training_that_was_broken_goes_on(monkeypatch, tmp_path, trees):
    # The state is saved at each iteration.
    monkeypatch.setattr(pk_models, "CHECKPOINT_S", 0)
    monkeypatch.setattr(pk_models, "CHECKPOINT_RATIO", 0)
    writes = []

    def write(path, data):
        path.write_bytes(data)
        writes.append(path)
        if len(writes) == last:
            raise KeyboardInterrupt

    last = 0
    monkeypatch.setattr(pk_models, "write", write)
    whole, notes = pk_models.train(trees[:50], BASE, "whole", tmp_path / "whole")
    assert [level["level"] for level in notes["levels"]] == [0, 1]
    # In the midst of the last level.
    assert notes["levels"][-1]["iterations"] > 1
    last = len(writes) - 1
    writes.clear()
    with pytest.raises(KeyboardInterrupt):
        pk_models.train(trees[:50], BASE, "broken", tmp_path / "broken")
    before = json.loads((tmp_path / "broken").read_bytes().split(b"\n", 1)[0])
    again, after = pk_models.train(trees[:50], BASE, "again", tmp_path / "broken")
    assert len(writes) - last <= 2
    assert again.to_bytes() == whole.to_bytes()
    assert after["cpu_s"] > before["cpu_s"]
    assert after["levels"] == notes["levels"]


def test_samples_are_of_all_lengths(trees):
    lengths = sorted(len(tree.words()) for tree in trees)
    part = pk_discriminative.sample(BASE, trees, 10)
    sizes = sorted(int(own.sum()) for own in _words_of(part))
    assert sizes == lengths[5::10]
    assert part.rules == BASE.encode([trees]).rules
    assert pk_discriminative.sample(BASE, trees, 1000).n_trees == 1


def _words_of(data):
    bounds = zip(data.offsets[:-1], data.offsets[1:], strict=True)
    return [data.is_word[begin:end] for begin, end in bounds]


@pytest.mark.parametrize("part", ["tune", "best"])
def test_a_part_of_the_other_half_is_a_wrong_use(monkeypatch, capsys, part):
    monkeypatch.setattr(sys, "argv", ["petrov_klein2007.py", "--generative", "--only", part])
    with pytest.raises(SystemExit):
        petrov_klein2007.main()
    assert f"{part} is no part of --generative" in capsys.readouterr().err


def run_script(monkeypatch, run, *arguments):
    paths = ["--corpora", str(run.corpora), "--work", str(run.work), "--bases", "generative"]
    monkeypatch.setattr(sys, "argv", ["petrov_klein2007.py", *paths, *arguments])
    petrov_klein2007.main()
    found = (run.work.parent / "results" / "petrov_klein2007.json").read_text(encoding="utf8")
    return flat(json.loads(found))


def test_all_parts(small, monkeypatch):
    """What they record is what the report reads, and the figures agree with one another."""
    monkeypatch.setattr(pk_report, "plot", lambda figures, path: False)
    results, own = small.work.parent / "results", pk_discriminative
    for part in filter(lambda name: name not in own.OPTIONAL, own.PARTS):
        found = run_script(monkeypatch, small, "--only", part)
        assert pk_report.section(results, "petrov_klein2007", part), part
    points = found["wsj.tune.generative.l1.points"]
    assert [point["strength"] for point in points] == [0.5, 1.0]
    best = max(points, key=lambda point: point["mean_f1"])
    assert found["wsj.tune.generative.l1.chosen.strength"] == best["strength"]
    assert pk_discriminative.chosen(small, "l1").l1 == best["strength"]
    for number in (1, 2):
        assert 1 <= found[f"l1.{number}.iterations"] < found[f"l1.{number}.evaluations"]
        counts = [found[f"pruning.{number}.{r}.constituents"] for r in ("cached", "none")]
        assert 0 < counts[0] < counts[1]
    assert found["l2.2.share"] > found["l1.2.share"] > 0
    for regime in pk_discriminative.REGIMES:
        assert found[f"pruning.{regime}.seconds"] == found[f"pruning.2.{regime}.seconds"] > 0
    assert abs(found["pruning.likelihood_change_percent"]) < 1
    for kind in ("generative", "discriminative"):
        assert found[f"merge.0.f1_loss.{kind}"] == 0.0
        assert found[f"merge.split_categories.{kind}"]
    kinds = ("generative", "discriminative", "generative4", "both")
    f1 = {name: found[f"best.wsj.candidates.{name}.dev_f1"] for name in kinds}
    assert found["best.wsj.dev_f1"] == f1[found["best.wsj.chosen"]] == max(f1.values())
    # What is done is not done again.
    monkeypatch.setattr(pk_models, "train", None)
    monkeypatch.setattr(pk_discriminative, "score", None)
    assert run_script(monkeypatch, small, "--only", "tune") == found
