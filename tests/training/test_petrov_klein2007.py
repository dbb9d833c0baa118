"""The reproduction of Petrov & Klein (2007), on the sample treebank and with few iterations."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import petrov_klein2007
import pk_discriminative
import pk_models
import pk_report
import pytest
import recording
import tables
from pk_models import TABLE1

from spacy_structlearn.grammar.settings import ConditionalGrammarSettings
from spacy_structlearn.trees.brackets import read_trees
from spacy_structlearn.trees.normalize import normalize

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 1
GENERATIVE = replace(TABLE1, rounds=ROUNDS, split_iterations=2)
FEW = {"conditional_iterations": 3, "shards": 2}
BASE = GENERATIVE.part(ConditionalGrammarSettings, l1=0.0, l2=0.0, **FEW)


@pytest.fixture(scope="module")
def trees():
    found = [normalize(tree) for tree in read_trees(ROOT / "corpora" / "sample" / "sample.trees")]
    return tuple(tree for tree in found if len(tree.words()) < 20)


@pytest.fixture
def small(monkeypatch, tmp_path, trees):
    """Treebanks of some sentences, little training, and all of it in this process."""
    parts = {"train": trees[:50], "fit": trees[:50]}
    parts |= dict.fromkeys(("tune", "dev", "test"), trees[50:])
    for corpus in pk_models.TREES:
        monkeypatch.setitem(pk_models.TREES, corpus, lambda corpora, split: parts[split])
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


def figures_of(part, run):
    found = {}
    for figures in pk_discriminative.PARTS[part](run):
        found |= figures
    return found


def test_grammars_are_kept_by_all_that_matters(tmp_path):
    def path(**changes):
        return pk_models.grammar_path(tmp_path, "ewt", "train", replace(BASE, **changes))

    assert path() == path(threads=2) == path(folder=tmp_path)
    others = [
        path(l1=1.0),
        path(l2=1.0),
        path(base="uniform"),
        path(conditional_iterations=4),
        path(scales="all"),
        path(solver="adagrad"),
        path(learn_rate=0.1),
        path(batch_size=32),
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


def test_strengths_are_chosen_by_f1_on_dev(small):
    found = figures_of("tune", small)
    points = found["wsj.tune.generative.l1.points"]
    assert [point["strength"] for point in points] == [0.5, 1.0]
    assert [len(point["levels"]) for point in points] == [2, 2]
    best = max(points, key=lambda point: point["mean_f1"])
    assert found["wsj.tune.generative.l1.chosen.strength"] == best["strength"]
    assert found["wsj.tune.chosen.base"] == "generative"
    assert pk_discriminative.chosen(small, "l1").l1 == best["strength"]
    assert pk_discriminative.chosen(small, "l2") == replace(BASE, l2=1.0)


def test_what_is_done_is_not_done_again(small, monkeypatch):
    first = figures_of("tune", small)
    monkeypatch.setattr(pk_models, "train", None)
    monkeypatch.setattr(pk_discriminative, "score", None)
    assert figures_of("tune", small) == first


def test_scores_are_of_the_grammar_that_is_there(small):
    settings = pk_discriminative.chosen(small)
    (path,) = (small.work / "petrov_klein2007").glob("*0.5-0-*-dev-0.0001.json")
    kept = json.loads(path.read_text())
    assert set(kept) == {"digest", "found"}
    path.write_text(json.dumps({"digest": "another", "found": []}))
    small.scores("wsj", replace(settings, l1=0.5, l2=0.0), 1e-4)
    assert json.loads(path.read_text()) == kept


def test_table_2(small):
    found = figures_of("l1", small)
    for number in (1, 2):
        assert 0 <= found[f"l1.{number}.f1"] <= 100
        assert 0 <= found[f"l1.{number}.share"] < 1
        assert 1 <= found[f"l1.{number}.iterations"] <= 3
        assert found[f"l1.{number}.evaluations"] > found[f"l1.{number}.iterations"]
    assert found["l1.1.features"] > 0
    assert found["l1.2.features"] > 0
    dense = figures_of("l2", small)
    assert dense["l2.2.share"] > found["l1.2.share"]


def test_table_1(small):
    found = figures_of("table1", small)
    assert set(found) == {
        f"{corpus}.{kind}.{number}.{what}"
        for corpus in ("wsj", "ewt")
        for kind in ("generative", "discriminative")
        for number in (1, 2)
        for what in ("f1", "exact")
    }


def test_figure_2(small):
    found = figures_of("pruning", small)
    for number in (1, 2):
        counts = [
            found[f"pruning.{number}.{regime}.constituents"]
            for regime in ("cached", "coarse_to_fine", "none")
        ]
        assert all(count > 0 for count in counts)
        assert counts[0] < counts[2]
    for regime in pk_discriminative.REGIMES:
        assert found[f"pruning.{regime}.seconds"] == found[f"pruning.2.{regime}.seconds"] > 0
    assert found["pruning.none.sentences"] == 5
    assert abs(found["pruning.likelihood_change_percent"]) < 1


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


def test_the_likelihood_of_a_kept_grammar_is_that_of_its_training(small, trees):
    settings = replace(BASE, l2=1.0)
    trained, notes = small.kept("wsj", settings)
    data = settings.encode([trees[:50]])
    conditional = pk_discriminative.Conditional(settings, data, trained)
    wanted = notes["levels"][-1]["log_likelihood"]
    # Other parses are pruned: in training the first chart was that of the generative grammar.
    assert conditional.evaluate() == pytest.approx(wanted, rel=0.01)
    conditional.close()


def test_costs(small):
    found = figures_of("cost", small)
    assert set(found) >= {
        "train.ewt16.wall_min",
        "train.cpu_s_per_evaluation.ewt16",
        "train.wsj_skeleton4.cpu_s_per_evaluation",
        "train.peak_rss_gb",
    }
    assert all(value > 0 for value in found.values())


def test_figure_3(small):
    found = figures_of("merge", small)
    for kind in ("generative", "discriminative"):
        assert found[f"merge.0.f1_loss.{kind}"] == 0.0
        assert f"merge.100.f1_loss.{kind}" in found
        assert found[f"merge.split_categories.{kind}"]


@pytest.mark.parametrize("bases", [("generative",), ("uniform",)])
def test_the_best_grammars(small, monkeypatch, bases):
    # With a smoothed lexicon the generative probability is the only base, whatever is compared.
    monkeypatch.setitem(pk_discriminative.GRID, "uniform", {"l1": (0.1,)})
    found = figures_of("best", replace(small, bases=bases))
    kinds = ("generative", "discriminative", "generative4", "both")
    f1 = {name: found[f"best.wsj.candidates.{name}.dev_f1"] for name in kinds}
    assert found["best.wsj.dev_f1"] == f1[found["best.wsj.chosen"]] == max(f1.values())
    assert found["best.ewt.grammars"] in (2, 3, 4)
    for key in ("best.wsj.dev_f1", "best.wsj.test_f1", "best.ewt.dev_f1", "best.ewt.dev_exact"):
        assert 0 <= found[key] <= 100
    assert found["best.ewt.ms_per_sentence"] > 0


@pytest.mark.parametrize("part", ["tune", "best"])
def test_a_part_of_the_other_half_is_a_wrong_use(monkeypatch, capsys, part):
    monkeypatch.setattr(sys, "argv", ["petrov_klein2007.py", "--generative", "--only", part])
    with pytest.raises(SystemExit):
        petrov_klein2007.main()
    assert f"{part} is no part of --generative" in capsys.readouterr().err


def test_the_script_writes_a_report(small, monkeypatch, capsys):
    arguments = ["--corpora", str(small.corpora), "--work", str(small.work)]
    for part in ("tune", "l1"):
        monkeypatch.setattr(sys, "argv", ["petrov_klein2007.py", "--only", part, *arguments])
        monkeypatch.setattr(pk_report, "plot", lambda figures, path: False)
        petrov_klein2007.main()
    shown = capsys.readouterr().out
    assert "## Table 2, L1, EWT, dev" in shown
    results = small.work.parent / "results"
    page = (results / "petrov_klein2007.md").read_text(encoding="utf8")
    assert page.index("## Priors") < page.index("## Table 2, L1")
    assert "## Table 1" not in page
    assert json.loads((results / "petrov_klein2007.json").read_text())["l1"]["2"]["features"] > 0


ALL = {
    **{
        f"{corpus}.{kind}.{n}.{what}": 50.0 + n
        for corpus in ("wsj", "ewt")
        for kind in pk_report.KINDS
        for n in (1, 2, 4, 8, 16)
        for what in ("f1", "exact")
    },
    **{
        f"{norm}.{n}.{what}": value
        for norm in ("l1", "l2")
        for n in (1, 2, 4, 8, 16)
        for what, value in (
            ("f1", 70.0),
            ("exact", 20.0),
            ("features", 12345),
            ("share", 0.5),
            ("iterations", 40),
        )
    },
    **{
        f"pruning.{n}.{regime}.{what}": 10.0 * n
        for n in (1, 2, 4, 8, 16)
        for regime in pk_report.REGIMES
        for what in ("constituents", "seconds")
    },
    **{f"merge.{n}.f1_loss.{kind}": n / 10 for n in range(0, 101, 10) for kind in pk_report.KINDS},
    "merge.split_categories.generative": ["NNP", "VP"],
    "merge.split_categories.discriminative": ["NP", "VP"],
    "pruning.likelihood_change_percent": -0.01,
    "pruning.cached.sentences": 170,
    "best.wsj.test_f1": 82.0,
    "train.ewt16.wall_min": 30.0,
    "uniform.l1.1.f1": 60.0,
}


def test_a_report_of_all_figures(monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(recording, "RESULTS", tmp_path)
    recording.record("all", ALL)
    pk_report.write(tmp_path, "all")
    page = (tmp_path / "all.md").read_text(encoding="utf8")
    assert "| 16 | 35.8 / 66.0 | 39.4 / 66.0 | 88.7 / 66.0 | 89.3 / 66.0 |" in page
    assert "| 16 | 89.3 / 70.0 | 39.4 / 20.0 | 698 / 12 | 50.0 % | 75 / 40 |" in page
    assert "* both: `VP`" in page
    assert "* generative only: `NNP`" in page
    assert "| 80 % | 8.00 | 8.00 |" in page
    first = (tmp_path / "all.svg").read_bytes()
    assert (tmp_path / "all.png").exists()
    pk_report.write(tmp_path, "all")
    assert (tmp_path / "all.svg").read_bytes() == first


def test_tables_of_the_readme_appear_when_all_is_measured(monkeypatch, tmp_path):
    for module in (recording, tables):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    page = "".join(
        f"<!-- table {name} -->\n<!-- end -->\n" for name in ("discriminative", "regularization")
    )
    assert tables.fill(page) == page
    recording.record("petrov_klein2007", {"wsj.generative.1.f1": 50.0})
    assert tables.fill(page) == page
    recording.record("petrov_klein2007", ALL)
    filled = tables.fill(page)
    assert "| F1, 16 | 88.7 | 89.3 | 66.0 | 66.0 | 66.0 | 66.0 |" in filled
    assert "| exact match, 1 | 7.6 | 7.8 | 51.0 | 51.0 | 51.0 | 51.0 |" in filled
    assert "| L1, 16 | 89.3 | 70.0 | 698,000 | 12,345 | 75 | 40 |" in filled
    assert "| L2, 1 | 67.4 | 70.0 | 35,000 | 12,345 | 67 | 40 |" in filled
    assert tables.fill(filled) == filled


def test_a_table_without_a_text_must_be_complete(monkeypatch, tmp_path):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    with pytest.raises(FileNotFoundError):
        tables.fill("<!-- table srl -->\n<!-- end -->\n")


def test_a_report_of_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(recording, "RESULTS", tmp_path)
    recording.record("nothing", {})
    pk_report.write(tmp_path, "nothing")
    page = (tmp_path / "nothing.md").read_text(encoding="utf8")
    assert "|" not in page.replace("λ|θ|", "")
    for part in pk_discriminative.PARTS:
        assert pk_report.section(tmp_path, "nothing", part) == ""
