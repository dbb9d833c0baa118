"""What is learned beside a grammar, on the sample treebank and with little training."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from spacy.util import registry

from spacy_structlearn.grammar.chart.decode import DECODERS
from spacy_structlearn.grammar.latent.training import initialize
from spacy_structlearn.grammar.spans.settings import SpanFeaturesSettings
from training.beyond.span_parser import __main__ as script
from training.common import kept, parsers, recording
from training.common.parsers import Learner, Model, Run
from training.common.report import flat

ROOT = Path(__file__).resolve().parents[2]
FEATURES = SpanFeaturesSettings(buckets=2**12)
SPAN = Learner(features=FEATURES)


@pytest.fixture(scope="module")
def trees(sample):
    return tuple(tree for tree in sample if len(tree.words()) < 16)


@pytest.fixture
def small(smaller, tmp_path, treebanks, trees):
    """Treebanks of some sentences and little training."""
    treebanks(train=trees[:24], fit=trees[:22], others=trees[40:46])
    settings = {
        corpus: replace(own, rounds=1, split_iterations=2, merge_iterations=1)
        for corpus, own in parsers.SETTINGS.items()
    }
    folds = {"wsj": 2, "ewt": 2}
    smaller(parsers, SETTINGS=settings, FOLDS=folds)
    smaller(
        script,
        SETTINGS=settings,
        FEATURES=FEATURES,
        SPAN=SPAN,
        PASSES={"owlqn": 3, "adagrad": 2},
        FEW=2,
        default_parser=lambda run, split: run.learned("ewt", split, SPAN).with_latent(
            run.generative("ewt", split, 2).latent
        ),
    )
    return Run(tmp_path, tmp_path / "work")


# --- grammars that are kept -----------------------------------------------------------------------
def test_grammars_are_kept_and_not_trained_again(small, trees, monkeypatch):
    settings = parsers.SETTINGS["wsj"]
    own = small.kept("wsj", "train", settings)
    assert own.path(trees[:24]) == kept.grammar_path(small.work, "wsj", "train", settings)

    def grammar():
        trainer = parsers.KeptTrainer(own, [trees[:12], trees[12:23]])
        assert trainer.parameters() == initialize(own, [trees[:23]])
        assert not trainer.step()
        return trainer.parameters()

    first = grammar()
    assert first == kept.train(trees[:23], own.own, "plain")[0]
    monkeypatch.setattr(kept, "train", None)
    assert grammar() == first


# --- what is learned beside them ------------------------------------------------------------------
def test_what_is_learned_is_kept(small, trees, monkeypatch):
    first = small.learned("wsj", "train", SPAN)
    monkeypatch.setattr(parsers, "run_training", None)
    again = small.learned("wsj", "train", SPAN)
    words = [tree.words() for tree in trees[40:46]]
    parses = [model.reader().parse(words) for model in (first, again)]
    for a, b in zip(*parses, strict=True):
        assert a.spans == b.spans
        np.testing.assert_array_equal(a.probabilities, b.probabilities)
    assert first.cpu_s == again.cpu_s > first.notes["grammars_cpu_s"] > 0
    assert first.mb == again.mb > 0


def test_features_are_learned_as_the_default_parser_learns_them():
    model = registry.resolve({"model": parsers.component_block(parsers.CONFIG)["model"]})
    shipped = model["model"].attrs["estimator"].settings
    own = parsers.SPAN.estimator(shipped.base, parsers.FOLDS["ewt"], shipped.threads)
    assert replace(own, templates=None, tag_templates=None) == shipped


def test_the_default_parser_must_have_features(small, monkeypatch, trees):
    class Component:
        parameters = small.generative("ewt", "fit", 1).latent

    class Pipeline:
        def get_pipe(self, name):
            assert name == "constituency_parser"
            return Component()

    monkeypatch.setattr(parsers.default, "learn_parser", lambda *_: Pipeline())
    with pytest.raises(ValueError, match="train it again"):
        parsers.default_parser(small, "train")
    model = small.learned("ewt", "fit", SPAN)
    Component.parameters = model.grammar.replaced(features=None)
    with pytest.raises(ValueError, match="train it again"):
        parsers.default_parser(small, "train")
    Component.parameters = model.grammar.replaced(temperature=2.0)
    found = parsers.default_parser(small, "train")
    assert found.grammar == model.grammar
    assert found.plain().grammar == model.latent


# --- figures --------------------------------------------------------------------------------------
def test_the_closest_trees_are_the_bound(small, trees):
    grammar = small.generative("wsj", "train", 1).latent
    # Every tree of the training data is one that the grammar has.
    found = parsers.oracle(grammar, trees[:20], "wsj")
    best = script._score(small, Model(grammar).reader(), "wsj", "train")
    assert found["oracle_f1"] > best.f1
    assert found["oracle_f1"] > 97
    assert found["edges"] > found["items"] > 20
    assert found["failures"] == 0


# --- the run --------------------------------------------------------------------------------------
def test_the_best_are_chosen_where_things_are_chosen(small):
    for step, wsj, ewt in (("generative", 80.0, 79.0), ("span_features", 82.0, 81.0)):
        for corpus, split, value in (("wsj", "dev", wsj), ("ewt", "tune", ewt)):
            recording.record("parsing_best", {f"{step}.{corpus}.{split}_f1": value})
        # The best on what nothing is chosen by are the others.
        recording.record("parsing_best", {f"{step}.wsj.test_f1": -wsj, f"{step}.ewt.dev_f1": -ewt})
    # What has no figure on dev is not chosen.
    more = {"lexicon.ewt.tune_f1": 99.0, "product_features.ewt.tune_f1": 98.0}
    more |= {"default.ewt.tune_f1": 83.0, "default.ewt.dev_f1": 84.0}
    recording.record("parsing_best", more)
    found = {key: value for part in script.STEPS["best"](small) for key, value in part.items()}
    assert found["best_single.wsj.step"] == found["best_single.ewt.step"] == "span_features"
    assert found["best_single.wsj.test_f1"] == -82.0
    assert found["best_single.ewt.dev_f1"] == -81.0
    assert found["best_product.wsj.step"] == "span_features"
    assert found["best_product.ewt.step"] == "default"
    assert found["best_product.ewt.dev_f1"] == 84.0


def test_all_steps(small, monkeypatch, nlp, run_script):
    """What they record is what the report reads, and the figures agree with one another."""
    monkeypatch.setattr(script.default, "train_tagger", lambda *_: nlp)
    monkeypatch.setattr(script.spacy_structlearn, "load", lambda: nlp)
    paths = ["--corpora", small.corpora, "--work", small.work]
    found = flat(run_script(script, *paths, "--only", *script.STEPS))
    page = (small.corpora / "results" / "parsing_best.md").read_text(encoding="utf8")
    committed = (ROOT / "training" / "results" / "parsing_best.md").read_text(encoding="utf8")
    titles = [re.findall("^## .*", text, re.MULTILINE) for text in (page, committed)]
    assert titles[0] == titles[1]
    # Nothing is chosen by what is scored at last.
    for step, wanted in (
        ("generative", {"wsj.dev_f1", "wsj.test_f1", "ewt.tune_f1"}),
        ("product_features", {"wsj.dev_f1", "wsj.test_f1", "ewt.tune_f1"}),
        ("default", {"ewt.tune_f1", "ewt.dev_f1"}),
        ("default_single", {"ewt.tune_f1", "ewt.dev_f1"}),
    ):
        scored = {key.removeprefix(f"{step}.") for key in found if key.startswith(f"{step}.")}
        assert {key for key in scored if re.fullmatch(r"(wsj|ewt)\.\w+_f1", key)} == wanted
    for solver, passes in script.PASSES.items():
        values = [value for _, value, _ in found[f"span_features_batch.{solver}.points"]]
        assert len(values) == passes
        assert values == sorted(values, reverse=True)
    assert {key.split(".")[1] for key in found if key.startswith("decoders.")} == set(DECODERS)
    for prefix in ("", "generative_"):
        weights = {w: found[f"{prefix}tagger.ewt.weights.{w}.tune_f1"] for w in ("0_5", "1", "2")}
        best = f"{found[f'{prefix}tagger.ewt.weight']:g}".replace(".", "_")
        assert weights[best] == max(weights.values()) == found[f"{prefix}tagger.ewt.tune_f1"]


def test_a_trial_records_nothing(small, capsys, run_script):
    paths = ["--corpora", small.corpora, "--work", small.work]
    assert run_script(script, *paths, "--only", "generative", "--limit", "20") is None
    assert "generative.wsj.dev_f1" in capsys.readouterr().out
    assert all("20" in path.name for path in (small.work / "grammars").iterdir())
