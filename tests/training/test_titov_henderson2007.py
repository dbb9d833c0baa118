"""The reproduction of Titov & Henderson (2007), on the sample treebank and with little training."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spacy_structlearn.evaluation.evalb import score_trees
from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.spans.settings import SpanFeaturesSettings
from spacy_structlearn.trees.brackets import read_trees
from spacy_structlearn.trees.tree import Tree
from training.common import parsers, scoring
from training.common.parsers import Learner
from training.common.report import flat
from training.common.treebanks import TREES
from training.papers.titov_henderson2007 import __main__ as script
from training.papers.titov_henderson2007 import models, parsing, rows
from training.papers.titov_henderson2007.models import JACKKNIFED, Short
from training.papers.titov_henderson2007.parsing import BASE, MEANS, Lists

ROOT = Path(__file__).resolve().parents[2]
SMALL = replace(
    BASE, state_size=4, max_iterations=1, min_word_count=2, min_unknown=1, beam=2, branching=3
)
CANDIDATES = {"paper": replace(SMALL, signature=""), "package": SMALL}


@pytest.fixture(scope="module")
def trees(sample):
    return tuple(tree for tree in sample if len(tree.words()) < 18)


@pytest.fixture
def small(smaller, tmp_path, treebanks, trees):
    """Treebanks of some sentences and little training."""
    treebanks(train=trees[:20], fit=trees[:17], others=trees[45:51])
    settings = {
        corpus: replace(one, rounds=2, split_iterations=2, merge_iterations=1)
        for corpus, one in parsers.SETTINGS.items()
    }
    smaller(
        parsers,
        models,
        rows,
        parsing,
        script,
        SETTINGS=settings,
        FOLDS={"wsj": 2, "ewt": 2},
        ROUNDS={"ewt": (1, 2), "wsj": (1,)},
        SPAN=Learner(features=SpanFeaturesSettings(buckets=2**12)),
        FEW=2,
        CANDIDATES={"ewt": CANDIDATES, "wsj": CANDIDATES},
        SEEDS={"ewt": (0, 1), "wsj": (0, 1)},
        K=(2, 4),
        WEIGHTS=(0.0, 0.5),
        BIASES=(0.0, 0.5),
        SEARCHED={**parsing.SEARCHED, "beam": (1, 3)},
        SWEEPS={"state_size": {str(n): {"state_size": n} for n in (3, 4)}},
        measure=lambda name, *files: script.WORKERS[name](*files),
        tagger_tags=tagged,
    )
    work = tmp_path / "work"
    return Short(tmp_path, work / "titov_henderson2007", 1, None, 15, work)


def tagged(run, split):
    """Gold tags but for the last word of each sentence."""
    return [[*tree.tags()[:-1], "NN"] for tree in run.trees("ewt", split)]


# --- treebanks and tags ---------------------------------------------------------------------------
def test_long_sentences_are_left_out(small, trees):
    found = small.trees("ewt", "train")
    assert 0 < len(found) < 20
    assert max(len(tree.words()) for tree in found) == 15
    assert list(small.all_lengths().trees("ewt", "train")) == list(trees[:20])
    assert len(replace(small, limit=3).trees("ewt", "train")) == 3


def test_taggers_have_not_seen_what_they_tag(small, monkeypatch, nlp):
    monkeypatch.undo()
    calls = []
    monkeypatch.setattr(
        models.default, "train_tagger", lambda _, work, split: calls.append(split) or nlp
    )
    monkeypatch.setattr(models, "tagged", lambda pipeline, gold: [[] for _ in gold])
    monkeypatch.setattr(models.spacy_structlearn, "load", lambda: calls.append("all") or nlp)
    for corpus in TREES:
        monkeypatch.setitem(TREES, corpus, lambda corpora, split: ())
    for split in ("tune", "dev"):
        models.tagger_tags(small, split)
    assert calls == ["fit", "all"]


def test_jackknifed_tags(small, monkeypatch, trees):
    names = ["tuned" if number % 9 == 0 else "other" for number in range(20)]
    (small.corpora / "ewt").mkdir()
    (small.corpora / "ewt" / "tune.txt").write_text("tuned\n", encoding="utf8")

    class Token:
        def __init__(self, text):
            self.text, self.tag_ = text, f"T{len(text)}"
            self.is_space = text.isspace()

    words = [word for tree in trees[:20] for word in tree.words()]
    docs = [[Token(word) for word in (*part, "\n\n")] for part in (words[:50], words[50:])]
    own = models.default
    monkeypatch.setattr(own, "build_docs", lambda *_: {})
    monkeypatch.setattr(own, "jackknifed", lambda *_: None)
    monkeypatch.setattr(own, "read_docs", lambda _: docs)
    monkeypatch.setattr(models, "ewt_documents", lambda *_: names)
    whole = small.all_lengths()
    found = whole.trees("ewt", "train" + JACKKNIFED)
    assert len(found) == 20
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
    models.jackknifed_trees.cache_clear()
    with pytest.raises(ValueError, match="other documents"):
        whole.trees("ewt", "train" + JACKKNIFED)


# --- scores ---------------------------------------------------------------------------------------
def test_counts_are_those_of_the_score(trees):
    gold = trees[:20]
    flat = [Tree("TOP", [Tree("S", tree.leaves())]) for tree in gold]
    score = score_trees(gold, flat, punctuation="gold")
    counts = scoring.bracket_counts(score)
    assert counts.shape == (20, 3)
    assert scoring.f1_of(counts.sum(axis=0)) == pytest.approx(score.f1)
    nothing = np.zeros((2, 3), dtype=np.int64)
    assert scoring.f1_of(nothing).tolist() == [0.0, 0.0]


def test_the_bootstrap_is_that_of_a_loop():
    random = np.random.default_rng(1)
    gold = random.integers(1, 9, size=12)
    first, second = (np.stack([random.binomial(gold, 0.7), gold, gold], axis=1) for _ in range(2))
    found = models.bootstrap(first, second, 20_000, seed=3)
    difference = scoring.f1_of(second.sum(axis=0)) - scoring.f1_of(first.sum(axis=0))
    own = []
    for _ in range(4000):
        drawn = random.integers(0, 12, size=12)
        pair = [scoring.f1_of(counts[drawn].sum(axis=0)) for counts in (first, second)]
        own.append(abs(pair[1] - pair[0] - difference) >= abs(difference))
    assert found == pytest.approx(np.mean(own), abs=0.03)
    assert found == models.bootstrap(first, second, 20_000, seed=3)


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
        ({}, -2.0, 3, 1),
        ({"nn": 1.0}, 0.0, 3, 2),
        ({"nn": 1.0}, 0.0, 2, 0),
        ({"mf": 2.0}, 0.0, 3, 1),
        ({"nn": 1.0, "mf": 2.0}, 0.0, 3, 0),
    ],
)
def test_scores_are_added_up(lists, weights, bias, k, best):
    # A tree that a network cannot make is not chosen, unless it can make none of the sentence.
    assert lists.best(weights, bias, k).tolist() == [best, 0]


PLACES = {"ewt15": "EWT dev", "wsj15": "the WSJ sample's test"}


def test_all_steps(small, monkeypatch, run_script):
    """What they record is what the report reads, and the figures agree with one another."""
    whole = small.all_lengths()
    parts = dict.fromkeys(("fit", "train"), tuple(whole.trees("ewt", "fit")))
    monkeypatch.setattr(models, "jackknifed_trees", lambda *arguments: parts[arguments[-1]])
    grammars = {
        part: rows._trained(small, "ewt", part, parsers.SETTINGS["ewt"], 1)
        for part in ("fit", "train")
    }
    monkeypatch.setattr(parsing, "shipped", lambda run, part: Shipped(grammars[part].latent))
    steps = [step for step in script.STEPS if step != "artificial"]
    sweeps = ["--sweeps", "state_size", "beam", "decoder"]
    paths = ["--corpora", small.corpora, "--work", small.shared]
    found = flat(run_script(script, *paths, "--only", *steps, *sweeps))
    results = small.corpora / "results"
    page = (results / "titov_henderson2007.md").read_text(encoding="utf8")
    committed = (ROOT / "training" / "results" / "titov_henderson2007.md").read_text("utf8")
    titles, wanted = (set(re.findall("^## .*", text, re.MULTILINE)) for text in (page, committed))
    assert {title for title in wanted if "random networks" not in title} <= titles
    rounds = {n: found[f"ewt15.rows.split_merge.rounds.{n}.tune_f1"] for n in (1, 2)}
    assert found["ewt15.rows.split_merge.round"] == max(rounds, key=lambda n: rounds[n])
    for corpus, choose in (("ewt15", "tune"), ("wsj15", "dev")):
        assert f"* 2 seeds, mean field: mean F1 on {PLACES[corpus]} " in page
        for name in MEANS:
            assert len(found[f"{corpus}.seeds.{name}.f1"]) == 2
            scores = {
                key: found[f"{corpus}.{name}.candidates.{key}.{choose}_f1"] for key in CANDIDATES
            }
            assert found[f"{corpus}.{name}.{choose}_f1"] == max(scores.values())
            assert scores[found[f"{corpus}.{name}.chosen"]] == max(scores.values())
        nn, mf = (found[f"{corpus}.{name}.f1"] for name in MEANS)
        assert found[f"{corpus}.mf_minus_nn_f1"] == pytest.approx(mf - nn, abs=1e-5)
        reduction = found[f"{corpus}.mf_over_nn_error_reduction"]
        assert reduction == pytest.approx(100 * (mf - nn) / (100 - nn), abs=1e-3)
        assert 0 < found[f"{corpus}.mf_nn_p"] <= 1
    # What is chosen learns from all of train.
    assert found["ewt15.sentences.train"] > found["ewt15.sentences.fit"]
    for kind in ("tagger", "own_tags"):
        few, more = (found[f"rerank.lists.{kind}.{k}.tune_oracle_f1"] for k in (2, 4))
        assert found[f"rerank.lists.{kind}.first.tune_f1"] <= few <= more
    best = max(("nn", "mf", "nn_mf"), key=lambda name: found[f"rerank.{name}.tune_f1"])
    assert found["rerank.chosen"] == best
    assert found["rerank.f1"] == found[f"rerank.{best}.f1"]
    for name in MEANS:
        # The one that is chosen is not trained again.
        best = max(parsing.candidates(small, "ewt", name).values())
        assert found[f"beyond.state_size.4.{name}.tune_f1"] == pytest.approx(best, abs=1e-5)
    names = {path.name.split("-")[1] for path in (small.work / "isbn").glob("ewt15*.bin")}
    assert names == {"fit", "train", "fit.jackknifed", "train.jackknifed"}


class Shipped:
    """A model with a reader, as `parsers.Model`."""

    def __init__(self, grammar):
        self.parser = ChartParser(grammar, decoder="labelled_recall")

    def reader(self):
        return self
