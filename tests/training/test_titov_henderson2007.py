"""The reproduction of Titov & Henderson (2007), on the sample treebank and with little training."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pb_models
import pk_models
import pytest
import recording
import tables
import th_models
import th_parsing
import th_report
import th_rows
import titov_henderson2007
from pb_models import Learner
from th_models import JACKKNIFED, Short
from th_parsing import BASE, MEANS, Lists, Plan

from spacy_structlearn.evaluation.evalb import score_trees
from spacy_structlearn.grammar.decode import ChartParser
from spacy_structlearn.grammar.settings import SpanFeaturesSettings
from spacy_structlearn.isbn.decode import joint_log_probabilities
from spacy_structlearn.trees.brackets import read_trees
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.trees.tree import Tree

ROOT = Path(__file__).resolve().parents[2]
SMALL = replace(
    BASE, state_size=4, max_iterations=1, min_word_count=2, min_unknown=1, beam=2, branching=3
)
CANDIDATES = {"paper": replace(SMALL, signature=""), "package": SMALL}


@pytest.fixture(scope="module")
def trees():
    found = [normalize(tree) for tree in read_trees(ROOT / "corpora" / "sample" / "sample.trees")]
    return tuple(tree for tree in found if len(tree.words()) < 18)


@pytest.fixture
def small(monkeypatch, tmp_path, trees):
    """Treebanks of some sentences, little training, and all of it in this process."""
    parts = {"train": trees[:45], "fit": trees[:40]}
    parts |= dict.fromkeys(("tune", "dev", "test"), trees[45:57])
    for corpus in pk_models.TREES:
        monkeypatch.setitem(pk_models.TREES, corpus, lambda corpora, split: parts[split])

    def alone(function, *arguments):
        return function(*arguments)

    settings = {
        corpus: replace(one, rounds=2, split_iterations=2, merge_iterations=1)
        for corpus, one in pb_models.SETTINGS.items()
    }
    span = Learner(features=SpanFeaturesSettings(buckets=2**12))
    for module, name, value in (
        (pb_models, "in_process", alone),
        (pb_models, "SETTINGS", settings),
        (pb_models, "FOLDS", {"wsj": 2, "ewt": 2}),
        (th_rows, "SETTINGS", settings),
        (th_rows, "ROUNDS", {"ewt": (1, 2), "wsj": (1,)}),
        (th_rows, "SPAN", span),
        (th_rows, "FEW", 2),
        (th_parsing, "in_process", alone),
        (th_parsing, "CANDIDATES", {"ewt": CANDIDATES, "wsj": CANDIDATES}),
        (th_parsing, "SEEDS", (0, 1)),
        (th_parsing, "K", (2, 4)),
        (th_parsing, "WEIGHTS", (0.0, 0.5)),
        (th_parsing, "BIASES", (0.0, 0.5)),
        (th_parsing, "SEARCHED", {**th_parsing.SEARCHED, "beam": (1, 3)}),
        (th_parsing, "SWEEPS", {"state_size": {str(n): {"state_size": n} for n in (3, 4)}}),
        (titov_henderson2007, "measure", lambda name, *files: run_worker(name, *files)),
    ):
        monkeypatch.setattr(module, name, value)
    for module in (th_models, titov_henderson2007):
        monkeypatch.setattr(module, "tagger_tags", tagged)
    for module in (recording, titov_henderson2007, tables):
        monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    work = tmp_path / "work"
    return Short(tmp_path, work / "titov_henderson2007", 1, None, 15, work)


def tagged(run, split):
    """Gold tags but for the last word of each sentence."""
    return [[*tree.tags()[:-1], "NN"] for tree in run.trees("ewt", split)]


def run_worker(name, *files):
    return titov_henderson2007.WORKERS[name](*files)


def figures_of(step, run):
    found = {}
    for figures in titov_henderson2007.STEPS[step](run):
        found |= figures
    return found


# --- treebanks and tags ---------------------------------------------------------------------------
def test_long_sentences_are_left_out(small, trees):
    found = small.trees("ewt", "train")
    assert 0 < len(found) < 45
    assert max(len(tree.words()) for tree in found) == 15
    assert list(small.all_lengths().trees("ewt", "train")) == list(trees[:45])
    assert len(replace(small, limit=3).trees("ewt", "train")) == 3


def test_parts_have_names_of_their_own(small):
    runs = [small, small.all_lengths(), replace(small, limit=3)]
    names = [run.name(*part) for run in runs for part in (("ewt", "fit"), ("ewt", "train"))]
    assert len(set(names)) == len(names)
    assert small.name("ewt", "fit") == "ewt15-fit"


def test_tags_by_kind(small):
    gold = [tree.tags() for tree in small.trees("ewt", "dev")]
    assert th_models.tags_of(small, "ewt", "dev", "own_tags") is None
    assert th_models.tags_of(small, "ewt", "dev", "gold_tags") == gold
    assert th_models.tags_of(small, "ewt", "dev", "tagger") == tagged(small, "dev") != gold


def test_taggers_have_not_seen_what_they_tag(small, monkeypatch, nlp):
    monkeypatch.undo()
    calls = []
    own = th_models.train_default
    monkeypatch.setattr(own, "train_tagger", lambda _, work, split: calls.append(split) or nlp)
    monkeypatch.setattr(th_models, "tagged", lambda pipeline, gold: [[] for _ in gold])
    monkeypatch.setattr(th_models.spacy_structlearn, "load", lambda: calls.append("all") or nlp)
    for corpus in pk_models.TREES:
        monkeypatch.setitem(pk_models.TREES, corpus, lambda corpora, split: ())
    for split in ("tune", "dev"):
        th_models.tagger_tags(small, split)
    assert calls == ["fit", "all"]


def test_jackknifed_tags(small, monkeypatch, trees):
    names = ["tuned" if number % 9 == 0 else "other" for number in range(45)]
    (small.corpora / "ewt").mkdir()
    (small.corpora / "ewt" / "tune.txt").write_text("tuned\n", encoding="utf8")

    class Token:
        def __init__(self, text):
            self.text, self.tag_ = text, f"T{len(text)}"
            self.is_space = text.isspace()

    words = [word for tree in trees[:45] for word in tree.words()]
    docs = [[Token(word) for word in (*part, "\n\n")] for part in (words[:50], words[50:])]
    own = th_models.train_default
    monkeypatch.setattr(own, "build_docs", lambda *_: {})
    monkeypatch.setattr(own, "jackknifed", lambda *_: None)
    monkeypatch.setattr(own, "read_docs", lambda _: docs)
    monkeypatch.setattr(th_models, "ewt_documents", lambda *_: names)
    whole = small.all_lengths()
    found = whole.trees("ewt", "train" + JACKKNIFED)
    assert len(found) == 45
    for tree, gold in zip(found, trees, strict=False):
        assert tree.spans() == gold.spans()
        assert tree.words() == gold.words()
        assert tree.tags() == [f"T{len(word)}" for word in gold.words()]
    fit = whole.trees("ewt", "fit" + JACKKNIFED)
    assert [tree.words() for tree in fit] == [
        tree.words() for tree, name in zip(trees, names, strict=False) if name == "other"
    ]
    assert max(len(tree.words()) for tree in small.trees("ewt", "fit" + JACKKNIFED)) == 15
    docs[1][3].text = "another"
    th_models.jackknifed_trees.cache_clear()
    with pytest.raises(ValueError, match="other documents"):
        whole.trees("ewt", "train" + JACKKNIFED)


# --- scores ---------------------------------------------------------------------------------------
def test_counts_are_those_of_the_score(trees):
    gold = trees[:20]
    flat = [Tree("TOP", [Tree("S", tree.leaves())]) for tree in gold]
    score = score_trees(gold, flat, punctuation="gold")
    counts = th_models.bracket_counts(score)
    assert counts.shape == (20, 3)
    assert th_models.f1_of(counts.sum(axis=0)) == pytest.approx(score.f1)
    nothing = np.zeros((2, 3), dtype=np.int64)
    assert th_models.f1_of(nothing).tolist() == [0.0, 0.0]


def test_the_bootstrap_tells_chance_from_difference():
    random = np.random.default_rng(0)
    gold = random.integers(5, 15, size=400)
    first = np.stack([random.binomial(gold, 0.8), gold, gold], axis=1)
    second = np.stack([random.binomial(gold, 0.8), gold, gold], axis=1)
    better = np.stack([random.binomial(gold, 0.9), gold, gold], axis=1)
    assert th_models.bootstrap(first, second, 1000) > 0.05
    assert th_models.bootstrap(first, better, 1000) == pytest.approx(1 / 1001)
    assert th_models.bootstrap(better, first, 1000) == pytest.approx(1 / 1001)
    assert th_models.bootstrap(first, first, 100) == 1.0


def test_the_bootstrap_is_that_of_a_loop():
    random = np.random.default_rng(1)
    gold = random.integers(1, 9, size=12)
    first, second = (np.stack([random.binomial(gold, 0.7), gold, gold], axis=1) for _ in range(2))
    found = th_models.bootstrap(first, second, 20_000, seed=3)
    difference = th_models.f1_of(second.sum(axis=0)) - th_models.f1_of(first.sum(axis=0))
    own = []
    for _ in range(4000):
        drawn = random.integers(0, 12, size=12)
        pair = [th_models.f1_of(counts[drawn].sum(axis=0)) for counts in (first, second)]
        own.append(abs(pair[1] - pair[0] - difference) >= abs(difference))
    assert found == pytest.approx(np.mean(own), abs=0.03)
    assert found == th_models.bootstrap(first, second, 20_000, seed=3)


def test_main_figures_are_of_given_tags():
    assert th_models.under_tags("ewt", "tagger", {"f1": 1}) == {"f1": 1}
    assert th_models.under_tags("ewt", "own_tags", {"f1": 1}) == {"own_tags.f1": 1}
    both = {"f1": 1, "gold_tags.f1": 1}
    assert th_models.under_tags("wsj", "gold_tags", {"f1": 1}) == both


# --- grammars -------------------------------------------------------------------------------------
def test_rows(small):
    found = figures_of("rows", small)
    for corpus, choose in (("ewt15", "tune"), ("wsj15", "dev")):
        for name in ("xbar", "treebank", "split_merge", "product4", "span_features"):
            for score in ("recall", "precision", "f1", "exact"):
                for kind in ("", "gold_tags.", "own_tags."):
                    assert 0 <= found[f"{corpus}.rows.{name}.{kind}{score}"] <= 100
            assert 0 <= found[f"{corpus}.rows.{name}.{choose}_f1"] <= 100
        assert (
            found[f"{corpus}.rows.product4.train_s"] > found[f"{corpus}.rows.split_merge.train_s"]
        )
        assert "xbar.train_s" not in found
    scores = {n: found[f"ewt15.rows.split_merge.rounds.{n}.tune_f1"] for n in (1, 2)}
    assert found["ewt15.rows.split_merge.round"] == max(scores, key=lambda n: scores[n])
    # Gold tags leave fewer trees to choose from, all of them with the right punctuation.
    assert found["wsj15.rows.xbar.f1"] == found["wsj15.rows.xbar.gold_tags.f1"]


# --- networks -------------------------------------------------------------------------------------
def test_networks_are_kept(small, monkeypatch):
    first, notes = th_parsing.network(small, "ewt", "fit", SMALL)
    path = th_parsing.network_path(small, "ewt", "fit", SMALL)
    assert path.exists()
    assert not path.with_suffix(".checkpoint").exists()
    assert notes["cpu_s"] > 0
    monkeypatch.setattr(th_parsing, "run_training", None)
    again, found = th_parsing.network(small, "ewt", "fit", replace(SMALL, threads=2))
    assert again == first
    assert found == json.loads(json.dumps(notes))


def test_networks_are_kept_apart(small):
    settings = [SMALL, replace(SMALL, seed=1), replace(SMALL, means=MEANS["mf"])]
    plans = [Plan(corpus, split, SMALL) for corpus in ("ewt", "wsj") for split in ("fit", "train")]
    plans += [Plan("ewt", "fit", one) for one in settings[1:]]
    paths = {th_parsing.network_path(small, *plan) for plan in plans}
    paths |= {th_parsing.network_path(small.all_lengths(), *plans[0])}
    paths |= {th_parsing.network_path(replace(small, limit=5), *plans[0])}
    assert len(paths) == len(plans) + 2


def test_damaged_networks_are_trained_anew(small, capsys):
    first, _ = th_parsing.network(small, "ewt", "fit", SMALL)
    path = th_parsing.network_path(small, "ewt", "fit", SMALL)
    path.write_bytes(b"damaged")
    again, _ = th_parsing.network(small, "ewt", "fit", SMALL)
    assert again == first
    assert "trained anew" in capsys.readouterr().err


def test_training_that_was_broken_goes_on(small, monkeypatch):
    # The state is saved at each iteration.
    monkeypatch.setattr(pk_models, "CHECKPOINT_S", 0)
    monkeypatch.setattr(pk_models, "CHECKPOINT_RATIO", 0)
    settings = replace(SMALL, max_iterations=3)
    whole, _ = th_parsing.network(small, "ewt", "fit", settings)
    path = th_parsing.network_path(small, "ewt", "fit", settings)
    path.unlink()
    epochs = []

    class Bar(pk_models.tqdm):
        def set_postfix(self, **values):
            epochs.append(values["round"])
            if values["round"] == 2 and broken:
                raise KeyboardInterrupt

    broken = True
    monkeypatch.setattr(pk_models, "tqdm", Bar)
    with pytest.raises(KeyboardInterrupt):
        th_parsing.network(small, "ewt", "fit", settings)
    assert path.with_suffix(".checkpoint").exists()
    epochs.clear()
    broken = False
    again, _ = th_parsing.network(small, "ewt", "fit", settings)
    assert 1 not in epochs
    assert again == whole


def test_parsing(small):
    found = figures_of("parsing", small)
    for corpus, choose in (("ewt15", "tune"), ("wsj15", "dev")):
        for name in MEANS:
            scores = {
                key: found[f"{corpus}.{name}.candidates.{key}.{choose}_f1"] for key in CANDIDATES
            }
            assert found[f"{corpus}.{name}.{choose}_f1"] == max(scores.values())
            assert scores[found[f"{corpus}.{name}.chosen"]] == max(scores.values())
            for kind in ("", "own_tags.", "gold_tags."):
                for score in ("recall", "precision", "f1", "exact"):
                    assert 0 <= found[f"{corpus}.{name}.{kind}{score}"] <= 100
                    assert 0 <= found[f"{corpus}.paper.{name}.{kind}{score}"] <= 100
        nn, mf = (found[f"{corpus}.{name}.f1"] for name in MEANS)
        assert found[f"{corpus}.mf_minus_nn_f1"] == pytest.approx(mf - nn)
        reduction = found[f"{corpus}.mf_over_nn_error_reduction"]
        assert reduction == pytest.approx(100 * (mf - nn) / (100 - nn))
        assert 0 < found[f"{corpus}.mf_nn_p"] <= 1
    # What is chosen learns from all of train.
    assert found["ewt15.sentences.train"] > found["ewt15.sentences.fit"]
    kept = {path.name.split("-")[1] for path in (small.work / "isbn").glob("*.bin")}
    assert kept == {"fit", "train"}


def test_seeds(small):
    found = figures_of("seeds", small)
    values = found["ewt15.seeds.mf.f1"]
    assert len(values) == 2
    assert found["ewt15.seeds.mf.mean_f1"] == pytest.approx(np.mean(values))
    ahead = np.subtract(values, found["ewt15.seeds.nn.f1"])
    assert found["ewt15.seeds.mf_minus_nn_f1"] == pytest.approx(ahead.mean())
    assert found["ewt15.seeds.mf_wins"] == (ahead > 0).sum()


def test_networks_of_jackknifed_tags(small, monkeypatch):
    parts = dict.fromkeys(("fit", "train"), tuple(small.all_lengths().trees("ewt", "fit")))
    monkeypatch.setattr(th_models, "jackknifed_trees", lambda *arguments: parts[arguments[-1]])
    found = figures_of("jackknifed", small)
    assert 0 <= found["ewt15.jackknifed.mf.tune_f1"] <= 100
    assert "ewt15.jackknifed.nn.own_tags.f1" in found
    names = {path.name.split("-")[1] for path in (small.work / "isbn").glob("*.bin")}
    assert {"fit.jackknifed", "train.jackknifed"} < names


# --- reranking ------------------------------------------------------------------------------------
@pytest.fixture
def lists():
    """Two sentences: three trees of the first, one of the second."""
    texts = [
        "(TOP (S (NP (D a) (N b)) (VP (V c) (NP (N d)))))",
        "(TOP (S (NP (D a) (N b) (V c)) (NP (N d))))",
        "(TOP (S (D a) (N b) (V c) (N d)))",
        "(TOP (NP (D a)))",
    ]
    made = [next(iter(read_trees([text]))) for text in texts]
    gold = [made[0], made[3]]
    found = Lists(
        gold, [[(made[1], -1.0), (made[2], -2.0), (made[0], -4.0)], [(made[3], -0.5)]], "own"
    )
    found.joint["nn"] = np.array([[-9.0, -np.inf, -2.0], [-np.inf, -np.inf, -np.inf]])
    found.joint["mf"] = np.array([[-3.0, -2.0, -9.0], [-1.0, -np.inf, -np.inf]])
    return found


@pytest.mark.parametrize(
    ("weights", "bias", "k", "best"),
    [
        ({}, 0.0, 3, 0),
        ({}, -2.0, 3, 1),
        ({"nn": 1.0}, 0.0, 3, 2),
        ({"nn": 1.0}, 0.0, 2, 0),
        ({"mf": 2.0}, 0.0, 3, 1),
        ({"nn": 1.0, "mf": 2.0}, 0.0, 3, 0),
        ({"nn": 0.0}, -2.0, 3, 1),
    ],
)
def test_scores_are_added_up(lists, weights, bias, k, best):
    # A tree that a network cannot make is not chosen, unless it can make none of the sentence.
    assert lists.best(weights, bias, k).tolist() == [best, 0]


def test_lists_have_the_scores_of_their_trees(lists):
    for number in range(3):
        best = np.array([number, 0])
        assert lists.f1(best) == pytest.approx(lists.score(best).f1)
    assert lists.score(np.array([2, 0])).f1 == 100
    assert lists.oracle(3) == 100
    assert lists.oracle(2) == lists.f1(np.array([0, 0])) < 100
    assert lists.brackets.tolist() == [[3.0, 1.0, 4.0], [1.0, 0.0, 0.0]]


def test_the_simplest_of_equal_settings(lists, monkeypatch):
    monkeypatch.setattr(th_parsing, "K", (3,))
    monkeypatch.setattr(th_parsing, "WEIGHTS", (0.0, 0.5, 1.0))
    monkeypatch.setattr(th_parsing, "BIASES", (0.0, 1.0))
    f1, setting = th_parsing._best_setting({"tagger": lists}, ("nn",))
    assert f1 == 100
    assert setting == ("tagger", 3, (("nn", 0.5),), 0.0)


def test_networks_score_the_trees_of_lists(small):
    grammar = th_rows.grammars(small, "ewt", "fit").latent
    parser = ChartParser(grammar, decoder="labelled_recall")
    made = th_parsing.k_best_lists(small, parser, "tune", "own_tags")
    model, _ = th_parsing.network(small, "ewt", "fit", SMALL)
    made.add("nn", model, 1)
    ranked = made.log_probabilities
    assert (np.diff(ranked, axis=1)[np.isfinite(ranked[:, 1:])] <= 1e-9).all()
    assert (made.joint["nn"] == -np.inf)[~np.isfinite(ranked)].all()
    (first,) = joint_log_probabilities(model, made.trees[0][:1], 1)
    assert made.joint["nn"][0, 0] == first


def test_rerank(small):
    found = figures_of("rerank", small)
    for name in ("nn", "mf", "nn_mf", "chosen"):
        prefix = "rerank" if name == "chosen" else f"rerank.{name}"
        for score in ("recall", "precision", "f1", "exact", "tune_f1", "oracle_f1"):
            assert 0 <= found[f"{prefix}.{score}"] <= 100
    for kind in ("tagger", "own_tags"):
        few, more = (found[f"rerank.lists.{kind}.{k}.tune_oracle_f1"] for k in (2, 4))
        assert found[f"rerank.lists.{kind}.first.tune_f1"] <= few <= more
    best = max(("nn", "mf", "nn_mf"), key=lambda name: found[f"rerank.{name}.tune_f1"])
    assert found["rerank.chosen"] == best
    assert found["rerank.f1"] == found[f"rerank.{best}.f1"]
    assert len(found["rerank.weight"]) == len(best.split("_"))


def test_all_lengths(small, monkeypatch):
    models = {
        part: th_rows._trained(small, "ewt", part, pb_models.SETTINGS["ewt"], 1)
        for part in ("fit", "train")
    }
    monkeypatch.setattr(th_parsing, "shipped", lambda run, part: Shipped(models[part].latent))
    found = figures_of("full", small)
    for name in MEANS:
        for key in ("f1", "exact", "tune_f1", "train_s", "ms_per_token", "own_tags.f1"):
            assert found[f"full.{name}.{key}"] >= 0
    assert 0 <= found["full.rerank.f1"] <= 100
    names = {path.name.split("-")[0] for path in (small.work / "isbn").glob("*.bin")}
    assert names == {"ewt", "ewt15"}


class Shipped:
    """A model with a reader, as `pb_models.Model`."""

    def __init__(self, grammar):
        self.parser = ChartParser(grammar, decoder="labelled_recall")

    def reader(self):
        return self


# --- time, and settings one by one ----------------------------------------------------------------
def test_cpu(small):
    found = figures_of("cpu", small)
    for name in MEANS:
        for key in ("train_s", "train_mb", "ms_per_token", "weights", "mb"):
            assert found[f"cpu.{name}.{key}"] > 0
        assert found[f"cpu.threads2.train.{name}"] > 0
        assert found[f"cpu.threads2.parse.{name}"] > 0
    for key, what in (("train", "train_s"), ("parse", "ms_per_token")):
        ratio = found[f"cpu.mf.{what}"] / found[f"cpu.nn.{what}"]
        assert found[f"cpu.ratio.{key}"] == pytest.approx(ratio)


def test_beyond(small):
    found = figures_of("beyond", small)
    for name in MEANS:
        for what in ("state_size.3", "state_size.4", "beam.1", "beam.3", "decoder.viterbi"):
            assert 0 <= found[f"beyond.{what}.{name}.tune_f1"] <= 100
            assert found[f"beyond.{what}.{name}.ms_per_token"] > 0
        # The one that is chosen is not trained again.
        best = th_parsing.candidates(small, "ewt", name)
        assert found[f"beyond.state_size.4.{name}.tune_f1"] == max(best.values())


def test_sweeps_change_what_they_say():
    undotted = [value for own in th_parsing.SWEEPS.values() for value in own]
    assert not [value for value in undotted if "." in value]
    for what, own in th_parsing.SWEEPS.items():
        made = [replace(BASE, **changes) for changes in own.values()]
        assert len({repr(one) for one in made}) == len(made), what
        assert BASE in made, what


# --- the run --------------------------------------------------------------------------------------
def run_script(monkeypatch, run, *arguments):
    paths = ["--corpora", str(run.corpora), "--work", str(run.shared)]
    monkeypatch.setattr(sys, "argv", ["titov_henderson2007.py", *paths, *arguments])
    titov_henderson2007.main()


def test_the_script_writes_a_report(small, monkeypatch, capsys):
    run_script(monkeypatch, small, "--only", "rows", "beyond", "--sweeps", "beam")
    assert "beyond.beam.1.nn.tune_f1" in capsys.readouterr().out
    results = small.corpora / "results"
    found = json.loads((results / "titov_henderson2007.json").read_text())
    assert "state_size" not in found["beyond"]
    page = (results / "titov_henderson2007.md").read_text(encoding="utf8")
    assert page.index("## Table 1") < page.index("## Beyond") < page.index("## How")
    assert "## Costs" not in page


def test_a_trial_records_nothing(small, monkeypatch, capsys):
    run_script(monkeypatch, small, "--only", "beyond", "--sweeps", "beam", "--limit", "12")
    assert "beyond.beam.1.nn.tune_f1" in capsys.readouterr().out
    assert not (small.corpora / "results").exists()
    assert all("12" in path.name for path in (small.work / "isbn").glob("*.bin"))


def test_workers_print_figures(small, monkeypatch, capsys):
    network, _ = th_parsing.network(small, "ewt", "fit", SMALL)
    path = th_parsing.network_path(small, "ewt", "fit", SMALL)
    words = [["a", "b"], ["c"]]
    sentences = small.corpora / "words.json"
    sentences.write_text(json.dumps([words, [["NN", "NN"], ["DT"]]]), encoding="utf8")
    files = [str(sentences), str(path), str(path)]
    capsys.readouterr()
    run_script(monkeypatch, small, "--worker", "parse", *files)
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"nn.ms_per_token", "mf.ms_per_token"}
    assert not network.is_empty


def all_figures():
    scores = {
        f"{corpus}.{key}.{kind}{score}": 88.0
        for corpus in ("ewt15", "wsj15")
        for key in th_report.ROWS
        for kind in ("", "gold_tags.", "own_tags.")
        for score in th_report.SCORES
    }
    costs = {
        f"{prefix}.{key}": 12.345
        for prefix in (
            *(f"cpu.{name}" for name in MEANS),
            *(f"full.{name}" for name in MEANS),
            *(f"ewt15.rows.{name}" for name in ("split_merge", "product4", "span_features")),
        )
        for key in ("train_s", "ms_per_token")
    }
    others = {
        **{f"artificial.{key}": 80.0 for key in th_report.ARTIFICIAL},
        "ewt15.mf_minus_nn_f1": 0.75,
        "ewt15.mf_over_nn_error_reduction": 6.5,
        "ewt15.mf_nn_p": 0.012,
        "ewt15.tagger.dev_accuracy": 92.5,
        "ewt15.nn.chosen": "package",
        "ewt15.nn.candidates.package.tune_f1": 81.0,
        "ewt15.nn.candidates.paper.tune_f1": 80.0,
        "ewt15.seeds.nn.mean_f1": 80.5,
        "ewt15.seeds.nn.sd_f1": 0.25,
        "ewt15.seeds.nn.f1": [80.25, 80.75],
        "cpu.ratio.train": 5.0,
        "cpu.nn.weights": 12345,
        "full.nn.f1": 75.0,
        "full.nn.tune_f1": 74.0,
        "beyond.dropout.0_1.nn.tune_f1": 81.0,
        "beyond.state_size.120.mf.tune_f1": 82.0,
        "beyond.state_size.80.mf.tune_f1": 81.5,
    }
    for prefix in ("rerank", "full.rerank"):
        others |= {f"{prefix}.{score}": 86.0 for score in th_report.SCORES}
        others |= {f"{prefix}.nn_mf.{score}": 86.0 for score in th_report.SCORES}
        others |= {
            f"{prefix}.chosen": "nn_mf",
            f"{prefix}.first_p": 0.00001,
            f"{prefix}.minus_first_f1": 1.5,
            f"{prefix}.nn_mf.tune_f1": 85.0,
            f"{prefix}.nn_mf.weights.nn": 0.5,
            f"{prefix}.nn_mf.weights.mf": 0.25,
            f"{prefix}.nn_mf.bias": 0.0,
            f"{prefix}.nn_mf.k": 50,
            f"{prefix}.lists.own_tags.first.f1": 84.0,
            f"{prefix}.lists.own_tags.50.oracle_f1": 95.0,
        }
    return scores | costs | others


def test_a_report_of_all_figures(monkeypatch, tmp_path):
    monkeypatch.setattr(recording, "RESULTS", tmp_path)
    recording.record("all", all_figures())
    th_report.write(tmp_path, "all")
    page = (tmp_path / "all.md").read_text(encoding="utf8")
    for line in (
        "| mean-field approximation, accuracy | 81.0 | 80.00 |",
        "| Charniak 2000 | 90.0 | 90.2 | 90.1 |  |  |  |  |  |  |  |",
        f"| feed-forward approximation |  |  |  |{' 88.00 |' * 7}",
        f"| X-bar grammar |{' 88.00 |' * 5}",
        "On EWT mean field minus feed-forward is +0.75 points of F1, +6.5 %",
        "| EWT tune, feed-forward | package | 81.00 | chosen |",
        "* 2 seeds, feed-forward: mean F1 on EWT dev 80.50, standard deviation 0.25",
        "| the first of each list, tags the parser's own |  |  |  | 84.00 |  |  |",
        "| the best of 50, tags the parser's own |  |  |  | 95.00 |  |  |",
        f"| reranked: both | 85.00 |{' 86.00 |' * 4} 0.5 nn, 0.25 mf, bias 0, 50 trees |",
        "+1.50 points of F1 beside the first of each list, p < 0.0001.",
        "| training, CPU s | 12.3 | 12.3 | 5.0 | 3 h, 140 h: 47 |",
        "| weights | 12,345 |  |  |  |",
        "| feed-forward | 74.00 |  |  | 75.00 |  |  | 12 | 12.35 |",
        "| dropout: 0.1 | 81.00 |  |  |  |  |  |",
    ):
        assert line in page.splitlines() or line in page, line
    assert page.index("| state size: 80 |") < page.index("| state size: 120 |")


def test_a_report_of_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(recording, "RESULTS", tmp_path)
    recording.record("nothing", {})
    th_report.write(tmp_path, "nothing")
    assert "|" not in (tmp_path / "nothing.md").read_text(encoding="utf8")


def test_the_table_of_the_readme_appears_when_all_is_measured(monkeypatch, tmp_path):
    for module in (recording, tables):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    page = "<!-- table titov -->\n<!-- end -->\n"
    assert tables.fill(page) == page
    recording.record("titov_henderson2007", all_figures())
    filled = tables.fill(page)
    widths = {line.count("|") for line in filled.splitlines() if line.startswith("|")}
    assert widths == {10}
    row = "| incremental mean field | 90.0 | 88.0 | 88.0 | 88.0 | 88.0 | 88.0 | 12 | 12.35 |"
    assert row in filled
    assert tables.fill(filled) == filled
