"""What is learned beside a grammar, on the sample treebank and with little training."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from spacy.util import registry

from spacy_structlearn.grammar.chart.decode import DECODERS
from spacy_structlearn.grammar.spans.settings import SpanFeaturesSettings
from training.beyond.span_parser import __main__ as parsing_best
from training.common import kept, parsers, recording
from training.common.parsers import Learner, Model, Run
from training.common.report import flat

ROOT = Path(__file__).resolve().parents[2]
FEATURES = SpanFeaturesSettings(buckets=2**12)
SPAN = Learner(features=FEATURES)
NEURAL = Learner(network="default")
BOTH = replace(NEURAL, features=FEATURES)
CONFIG = """\
[components]

[components.constituency_parser]

[components.constituency_parser.model]
@architectures = "spacy_structlearn.NeuralGrammar.v2"
hidden_width = 8
max_iterations = 1
learn_rate = 0.01

[components.constituency_parser.model.grammar]
@architectures = "spacy_structlearn.LatentGrammar.v2"

[components.constituency_parser.model.tok2vec]
@architectures = "spacy.Tok2Vec.v2"

[components.constituency_parser.model.tok2vec.embed]
@architectures = "spacy.MultiHashEmbed.v2"
width = 8
attrs = ["NORM", "SUFFIX"]
rows = [50, 50]
include_static_vectors = false

[components.constituency_parser.model.tok2vec.encode]
@architectures = "spacy_structlearn.BiLSTMEncoder.v1"
width = 8
depth = 1
seed = 0
"""


@pytest.fixture(scope="module")
def trees(sample):
    return tuple(tree for tree in sample if len(tree.words()) < 16)


@pytest.fixture
def small(monkeypatch, tmp_path, treebanks, trees):
    """Treebanks of some sentences, little training, and all of it in this process."""
    treebanks(train=trees[:40], fit=trees[:36], others=trees[40:52])
    config = tmp_path / "network.cfg"
    config.write_text(CONFIG, encoding="utf8")
    for name, value in {
        "in_process": lambda function, *arguments: function(*arguments),
        "SETTINGS": {
            corpus: replace(settings, rounds=1, split_iterations=2, merge_iterations=1)
            for corpus, settings in parsers.SETTINGS.items()
        },
        "FOLDS": {"wsj": 2, "ewt": 2},
        "NETWORK_CONFIG": config,
    }.items():
        monkeypatch.setattr(parsers, name, value)
    own = parsing_best
    for name, value in {
        "SETTINGS": parsers.SETTINGS,
        "FEATURES": FEATURES,
        "SPAN": SPAN,
        "BOTH": BOTH,
        "PASSES": {"owlqn": 3, "adagrad": 2},
        "FEW": 2,
        "MANY": 3,
        "default_parser": lambda run, split: run.learned("ewt", split, SPAN).with_latent(
            run.generative("ewt", split, 2).latent
        ),
    }.items():
        monkeypatch.setattr(own, name, value)
    for module in (recording, own):
        monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    return Run(tmp_path, tmp_path / "work")


def figures_of(step, run):
    found = {}
    for figures in parsing_best.STEPS[step](run):
        found |= figures
    return found


# --- grammars that are kept -----------------------------------------------------------------------
def test_grammars_are_kept_and_not_trained_again(small, trees, monkeypatch):
    settings = parsers.SETTINGS["wsj"]
    own = small.kept("wsj", "train", settings)
    assert own.path(trees[:40]) == kept.grammar_path(small.work, "wsj", "train", settings)

    def grammar():
        trainer = own.trainer(None, [trees[:20], trees[20:39]])
        assert trainer.parameters() == own.initialize([trees[:39]])
        assert not trainer.step()
        return trainer.parameters()

    first = grammar()
    assert first == kept.train(trees[:39], own.own, "plain")[0]
    monkeypatch.setattr(kept, "train", None)
    assert grammar() == first


# --- what is learned beside them ------------------------------------------------------------------
@pytest.mark.parametrize("learner", [SPAN, BOTH])
def test_what_is_learned_is_kept(small, trees, monkeypatch, learner):
    first = small.learned("wsj", "train", learner)
    monkeypatch.setattr(parsers, "run_training", None)
    again = small.learned("wsj", "train", learner)
    words = [tree.words() for tree in trees[40:52]]
    parses = [model.reader().parse(words) for model in (first, again)]
    for a, b in zip(*parses, strict=True):
        assert a.spans == b.spans
        np.testing.assert_array_equal(a.probabilities, b.probabilities)
    assert first.cpu_s == again.cpu_s > first.notes["grammars_cpu_s"] > 0
    assert first.mb == again.mb > 0
    assert (first.grammar.features is None) == (learner.features is None)
    assert (first.network is None) == (learner.network is None)


def test_features_are_learned_as_the_default_parser_learns_them():
    model = registry.resolve({"model": parsers.component_block(parsers.CONFIG)["model"]})
    shipped = model["model"].attrs["estimator"]
    own = parsers.SPAN.estimator(shipped.base, parsers.FOLDS["ewt"], shipped.threads)
    assert replace(own, templates=None, tag_templates=None) == shipped


def test_the_default_parser_must_have_features(small, monkeypatch, trees):
    class Component:
        parameters, network = small.generative("ewt", "fit", 1).latent, None

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
    assert found.network is None
    assert found.plain().grammar == model.latent


def test_scores_are_averaged(small, trees):
    first, second = (small.learned("wsj", "train", replace(BOTH, seed=seed)) for seed in (0, 1))
    words = [tree.words() for tree in trees[40:45]]
    one, same, other = (
        [parse.log_probability for parse in model.reader(decoder="viterbi").parse(words)]
        for model in (first, replace(first, others=(first,)), replace(first, others=(second,)))
    )
    assert one == pytest.approx(same, rel=1e-5)
    assert one != pytest.approx(other, rel=1e-3)
    both = replace(first, others=(second,))
    assert both.mb == pytest.approx(first.mb + second.mb - second.plain().mb)


# --- figures --------------------------------------------------------------------------------------
def test_the_closest_trees_are_the_bound(small, trees):
    grammar = small.generative("wsj", "train", 1).latent
    # Every tree of the training data is one that the grammar has.
    found = parsers.oracle(grammar, trees[:20], "wsj")
    best = parsing_best._score(small, Model(grammar).reader(), "wsj", "train")
    assert found["oracle_f1"] > best.f1
    assert found["oracle_f1"] > 97
    assert found["edges"] > found["items"] > 20
    assert found["failures"] == 0


def test_temperatures_are_of_the_first_part(small):
    model = small.generative("wsj", "train", 1)
    (found,) = parsers.measured(small, "x", "wsj", {"dev": model, "test": model})
    assert found["x.wsj.dev_f1"] == found["x.wsj.test_f1"]
    assert "x.wsj.dev_ece_calibrated" not in found
    assert found["x.wsj.test_ece_calibrated"] != found["x.wsj.test_ece"] == found["x.wsj.dev_ece"]
    assert found["x.wsj.temperature"] > 0
    costs = ("ms_per_sentence", "mb", "train_cpu_s")
    assert all(found[f"x.wsj.{key}"] > 0 for key in costs)
    own = list(parsers.measured(small, "x", "ewt", {"tune": model}))
    assert set(own[1]) == {f"x.{key}" for key in costs}


# --- the run --------------------------------------------------------------------------------------
def test_the_best_are_chosen_where_things_are_chosen(small):
    for step, wsj, ewt in (("generative", 80.0, 79.0), ("neural", 82.0, 81.0)):
        for corpus, split, value in (("wsj", "dev", wsj), ("ewt", "tune", ewt)):
            recording.record("parsing_best", {f"{step}.{corpus}.{split}_f1": value})
        # The best on what nothing is chosen by are the others.
        recording.record("parsing_best", {f"{step}.wsj.test_f1": -wsj, f"{step}.ewt.dev_f1": -ewt})
    # What has no figure on dev is not chosen.
    more = {"lexicon.ewt.tune_f1": 99.0, "product_neural.ewt.tune_f1": 98.0}
    more |= {"product_features.ewt.tune_f1": 83.0, "product_features.ewt.dev_f1": 84.0}
    recording.record("parsing_best", more)
    found = figures_of("best", small)
    assert found["best_single.wsj.step"] == found["best_single.ewt.step"] == "neural"
    assert found["best_single.wsj.test_f1"] == -82.0
    assert found["best_single.ewt.dev_f1"] == -81.0
    assert found["best_product.wsj.step"] == "neural"
    assert found["best_product.ewt.step"] == "product_features"
    assert found["default.step"] == "product_features"
    assert found["default.ewt.dev_f1"] == 84.0


def run_script(monkeypatch, run, *arguments):
    paths = ["--corpora", str(run.corpora), "--work", str(run.work)]
    monkeypatch.setattr(sys, "argv", ["parsing_best.py", *paths, *arguments])
    parsing_best.main()


def test_all_steps(small, monkeypatch, nlp):
    """What they record is what the report reads, and the figures agree with one another."""
    own = parsing_best.default
    monkeypatch.setattr(own, "build_docs", lambda *_: None)
    monkeypatch.setattr(own, "train_tagger", lambda *_: nlp)
    monkeypatch.setattr(parsing_best.spacy_structlearn, "load", lambda: nlp)
    run_script(monkeypatch, small, "--only", *parsing_best.STEPS)
    results = small.work.parent / "results"
    page = (results / "parsing_best.md").read_text(encoding="utf8")
    committed = (ROOT / "training" / "results" / "parsing_best.md").read_text(encoding="utf8")
    # Two sections are of other scripts, or of what is no more.
    wanted = re.sub("## (Conditional grammars of several|Stochastic steps).*", "", committed)
    titles = [re.findall("^## .*", text, re.MULTILINE) for text in (page, wanted)]
    assert titles[0] == titles[1]
    found = flat(json.loads((results / "parsing_best.json").read_text(encoding="utf8")))
    # Nothing is chosen by what is scored at last.
    for step in ("generative", "product_features"):
        scored = {key.removeprefix(f"{step}.") for key in found if key.startswith(f"{step}.")}
        assert {"wsj.dev_f1", "wsj.test_f1", "ewt.tune_f1", "ewt.dev_f1"} <= scored
    assert not [key for key in found if key.startswith("neural") and "ewt.dev" in key]
    for solver, passes in parsing_best.PASSES.items():
        values = [value for _, value, _ in found[f"span_features_batch.{solver}.points"]]
        assert len(values) == passes
        assert values == sorted(values, reverse=True)
    assert {key.split(".")[1] for key in found if key.startswith("decoders.")} == set(DECODERS)
    for prefix in ("", "generative_"):
        weights = {w: found[f"{prefix}tagger.ewt.weights.{w}.tune_f1"] for w in ("0_5", "1", "2")}
        best = f"{found[f'{prefix}tagger.ewt.weight']:g}".replace(".", "_")
        assert weights[best] == max(weights.values()) == found[f"{prefix}tagger.ewt.tune_f1"]


def test_a_trial_records_nothing(small, monkeypatch, capsys):
    run_script(monkeypatch, small, "--only", "generative", "--limit", "30")
    assert "generative.wsj.dev_f1" in capsys.readouterr().out
    assert not (small.work.parent / "results").exists()
    assert all("30" in path.name for path in (small.work / "grammars").iterdir())
