"""What is learned beside a grammar, on the sample treebank and with little training."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import parsing_best
import pb_models
import pb_report
import pk_models
import pytest
import recording
import tables
from pb_models import Kept, Learner, Model, Run, Seen
from spacy.util import registry

from spacy_structlearn.grammar.decode import DECODERS
from spacy_structlearn.grammar.settings import (
    ConditionalGrammarSettings,
    SpanFeaturesSettings,
    SpanGrammarSettings,
)
from spacy_structlearn.grammar.span_features import SPAN_TEMPLATES, TAG_TEMPLATES
from spacy_structlearn.grammar.span_model import SpanGrammar
from spacy_structlearn.trees.brackets import read_trees
from spacy_structlearn.trees.normalize import normalize

ROOT = Path(__file__).resolve().parents[2]
FEATURES = SpanFeaturesSettings(buckets=2**12)
SPAN = Learner(features=FEATURES)
NEURAL = Learner(network="default")
BOTH = replace(NEURAL, features=FEATURES)
CONFIG = """\
[components]

[components.constituency_parser]

[components.constituency_parser.model]
@architectures = "spacy_structlearn.NeuralGrammar.v1"
hidden_width = 8
max_iterations = 1
learn_rate = 0.01

[components.constituency_parser.model.grammar]
@architectures = "spacy_structlearn.LatentGrammar.v1"

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
def trees():
    found = [normalize(tree) for tree in read_trees(ROOT / "corpora" / "sample" / "sample.trees")]
    return tuple(tree for tree in found if len(tree.words()) < 16)


@pytest.fixture
def small(monkeypatch, tmp_path, trees):
    """Treebanks of some sentences, little training, and all of it in this process."""
    parts = {"train": trees[:40], "fit": trees[:36]}
    parts |= dict.fromkeys(("tune", "dev", "test"), trees[40:52])
    for corpus in pk_models.TREES:
        monkeypatch.setitem(pk_models.TREES, corpus, lambda corpora, split: parts[split])
    config = tmp_path / "network.cfg"
    config.write_text(CONFIG, encoding="utf8")
    for name, value in {
        "in_process": lambda function, *arguments: function(*arguments),
        "SETTINGS": {
            corpus: replace(settings, rounds=1, split_iterations=2, merge_iterations=1)
            for corpus, settings in pb_models.SETTINGS.items()
        },
        "FOLDS": {"wsj": 2, "ewt": 2},
        "NETWORK_CONFIG": config,
    }.items():
        monkeypatch.setattr(pb_models, name, value)
    own = parsing_best
    for name, value in {
        "SETTINGS": pb_models.SETTINGS,
        "FEATURES": FEATURES,
        "SPAN": SPAN,
        "BOTH": BOTH,
        "PASSES": {"owlqn": 3, "adagrad": 2},
        "FEW": 2,
        "MANY": 3,
        "MULTI_SCALE": pk_models.TABLE1.part(
            ConditionalGrammarSettings,
            rounds=1,
            split_iterations=2,
            l1=0.5,
            l2=0.0,
            conditional_iterations=3,
        ),
        "default_parser": lambda run, split: run.learned("ewt", split, SPAN).with_latent(
            run.generative("ewt", split, 2).latent
        ),
    }.items():
        monkeypatch.setattr(own, name, value)
    for module in (recording, own, tables):
        monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    return Run(tmp_path, tmp_path / "work")


def figures_of(step, run):
    found = {}
    for figures in parsing_best.STEPS[step](run):
        found |= figures
    return found


# --- grammars that are kept -----------------------------------------------------------------------
def test_grammars_of_all_trees_are_where_other_scripts_keep_them(small, trees):
    settings = pb_models.SETTINGS["wsj"]
    kept = small.kept("wsj", "train", settings)
    path = pk_models.grammar_path(small.work, "wsj", "train", settings)
    assert kept.path(trees[:40]) == path
    assert not path.exists()
    trained, notes = kept.grammar(trees[:40])
    again, _ = pk_models.kept_grammar(small.work, small.corpora, "wsj", "train", settings)
    assert again == trained
    assert notes["cpu_s"] > 0


def test_grammars_are_kept_by_trees_and_settings(small, trees):
    kept = small.kept("wsj", "train", pb_models.SETTINGS["wsj"])
    paths = [kept.path(trees[:n]) for n in (38, 39, 40)]
    paths += [replace(kept, seed=1).path(trees[:39]), kept.path(trees[1:40])]
    paths.append(replace(small, limit=30).kept("wsj", "train", kept.own).path(trees[:30]))
    assert len(set(paths)) == len(paths)
    assert small.kept("wsj", "train", replace(kept.own, threads=2)).path(trees) == kept.path(trees)


def test_a_kept_grammar_is_not_trained_again(small, trees, monkeypatch):
    kept = small.kept("wsj", "train", pb_models.SETTINGS["wsj"])

    def grammar():
        trainer = kept.trainer(None, [trees[:20], trees[20:39]])
        assert trainer.parameters() == kept.initialize([trees[:39]])
        assert not trainer.step()
        return trainer.parameters()

    first = grammar()
    assert first == pk_models.train(trees[:39], kept.own, "plain")[0]
    monkeypatch.setattr(pk_models, "train", None)
    assert grammar() == first


def test_folds_are_those_of_the_training(small, monkeypatch):
    """What is trained before is what the training asks for."""
    small.prepare("wsj", "train", [pb_models.SETTINGS["wsj"]], 2)
    kept = sorted((small.work / "grammars").iterdir())
    monkeypatch.setattr(pk_models, "train", None)
    small.learned("wsj", "train", SPAN)
    assert sorted((small.work / "grammars").iterdir()) == kept
    assert len(kept) == 6


def test_the_grammar_that_has_seen_all_is_that_of_each_fold(small, trees):
    kept = small.kept("wsj", "train", pb_models.SETTINGS["wsj"], Seen)
    whole, _ = small.kept("wsj", "train", pb_models.SETTINGS["wsj"]).grammar(trees[:40])
    trainer = kept.trainer(None, [trees[:20]])
    trainer.step()
    assert trainer.parameters() == whole
    small.learned("wsj", "train", replace(SPAN, seen=True))
    assert len(list((small.work / "grammars").glob("*.bin"))) == 1


def test_a_kept_estimator_is_a_base(small, trees):
    base = small.kept("wsj", "train", pb_models.SETTINGS["wsj"])
    assert isinstance(base, Kept)
    settings = FEATURES.part(SpanGrammarSettings, grammar=base, folds=2, max_iterations=1)
    plain = replace(settings, grammar=base.own)
    found = []
    for own in (settings, plain):
        trainer = own.trainer(None, [trees[:40]])
        state = trainer.to_bytes()
        assert trainer.resume(state)
        while trainer.step():
            pass
        found.append(trainer.parameters())
    assert found[0] == found[1]


# --- what is learned beside them ------------------------------------------------------------------
@pytest.mark.parametrize("learner", [SPAN, NEURAL, BOTH, replace(NEURAL, network="cnn")])
def test_what_is_learned_is_kept(small, trees, monkeypatch, learner):
    first = small.learned("wsj", "train", learner)
    monkeypatch.setattr(pb_models, "run_training", None)
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


@pytest.mark.parametrize("learner", [SPAN, BOTH])
def test_training_that_was_broken_goes_on(small, monkeypatch, learner):
    # The state is saved at each iteration.
    monkeypatch.setattr(pk_models, "CHECKPOINT_S", 0)
    monkeypatch.setattr(pk_models, "CHECKPOINT_RATIO", 0)
    phases: list[str] = []
    broken = None

    class Bar(pk_models.tqdm):
        def set_postfix(self, *, phase, **values):
            phases.append(phase)

        def update(self, n=1):
            if phases.count("network") == broken:
                raise KeyboardInterrupt

    monkeypatch.setattr(pk_models, "tqdm", Bar)
    whole = small.learned("wsj", "train", learner)
    number = phases.count("network")
    for path in (small.work / "anchored").iterdir():
        path.unlink()
    phases.clear()
    broken = 2
    with pytest.raises(KeyboardInterrupt):
        small.learned("wsj", "train", learner)
    assert list((small.work / "anchored").glob("*.checkpoint"))
    phases.clear()
    broken = None
    again = small.learned("wsj", "train", learner)
    assert phases.count("network") == number - 1 > 0
    assert again.grammar == whole.grammar
    if learner.network is not None:
        assert pb_models._stored(again.network) == pb_models._stored(whole.network)
    assert not list((small.work / "anchored").glob("*.checkpoint"))


def test_learners_are_kept_apart(small):
    learners = [SPAN, replace(SPAN, seen=True), NEURAL, replace(NEURAL, seed=1), BOTH]
    learners.append(replace(SPAN, features=replace(FEATURES, l1_per_sentence=0.1)))
    for learner in learners:
        small.learned("wsj", "train", learner)
    small.learned("ewt", "fit", SPAN)
    assert len(list((small.work / "anchored").glob("*.bin"))) == len(learners) + 1
    assert not list((small.work / "anchored").glob("*.checkpoint"))


def test_kept_features_have_their_templates_in_the_name():
    """So that others are learned when the usual templates change."""
    assert pb_models.FEATURES.templates == SPAN_TEMPLATES
    assert pb_models.FEATURES.tag_templates == TAG_TEMPLATES


def test_features_are_learned_as_the_default_parser_learns_them():
    model = registry.resolve({"model": pb_models.component_block(pb_models.CONFIG)["model"]})
    shipped = model["model"].attrs["estimator"]
    own = pb_models.SPAN.estimator(shipped.base, pb_models.FOLDS["ewt"], shipped.threads)
    assert replace(own, templates=None, tag_templates=None) == shipped


def test_networks_are_those_of_the_packaged_config():
    estimator = BOTH.estimator(pb_models.SETTINGS["wsj"], 10, 1)
    assert estimator.network is not None
    assert estimator.features == FEATURES
    assert NEURAL.estimator(pb_models.SETTINGS["wsj"], 10, 1).features is None


def test_grammars_of_other_symbols_are_refused(small, trees):
    model = small.learned("wsj", "train", SPAN)
    fewer = small.kept("wsj", "train", pb_models.SETTINGS["wsj"]).grammar(trees[:3])[0]
    with pytest.raises(ValueError, match="different symbols"):
        model.with_latent(fewer)


def test_the_default_parser_must_have_features(small, monkeypatch, trees):
    class Component:
        parameters, network = small.generative("ewt", "fit", 1).latent, None

    class Pipeline:
        def get_pipe(self, name):
            assert name == "constituency_parser"
            return Component()

    monkeypatch.setattr(pb_models.train_default, "learn_parser", lambda *_: Pipeline())
    with pytest.raises(ValueError, match="train it again"):
        pb_models.default_parser(small, "train")
    model = small.learned("ewt", "fit", SPAN)
    Component.parameters = model.grammar.replaced(features=None)
    with pytest.raises(ValueError, match="train it again"):
        pb_models.default_parser(small, "train")
    Component.parameters = model.grammar.replaced(temperature=2.0)
    found = pb_models.default_parser(small, "train")
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


def test_models_are_decoded_as_the_default_parser_is(small):
    model = small.learned("wsj", "train", SPAN)
    assert model.reader().parser.decoder == "labelled_recall"
    assert model.plain().reader().parser.decoder == "max_rule_product"
    assert model.reader(decoder="viterbi").parser.decoder == "viterbi"


def test_a_product_has_the_costs_of_all(small):
    one, two = (small.generative("wsj", "train", number) for number in (1, 2))
    assert (one.latent.members, two.latent.members) == (0, 1)
    assert two.first().latent == one.latent
    assert two.cpu_s > one.cpu_s > 0
    model = small.learned("wsj", "train", SPAN)
    product = parsing_best._with_product(small, "wsj", "train", model, 2)
    assert product.cpu_s == pytest.approx(model.cpu_s + two.cpu_s - one.cpu_s)
    assert product.grammar.features == model.grammar.features
    assert isinstance(product.grammar, SpanGrammar)


# --- figures --------------------------------------------------------------------------------------
def test_the_closest_trees_are_the_bound(small, trees):
    grammar = small.generative("wsj", "train", 1).latent
    # Every tree of the training data is one that the grammar has.
    found = pb_models.oracle(grammar, trees[:20], "wsj")
    best = parsing_best._score(small, Model(grammar).reader(), "wsj", "train")
    assert found["oracle_f1"] > best.f1
    assert found["oracle_f1"] > 97
    assert found["edges"] > found["items"] > 20
    assert found["failures"] == 0


def test_temperatures_are_of_the_first_part(small):
    model = small.generative("wsj", "train", 1)
    (found,) = pb_models.measured(small, "x", "wsj", {"dev": model, "test": model})
    assert found["x.wsj.dev_f1"] == found["x.wsj.test_f1"]
    assert "x.wsj.dev_ece_calibrated" not in found
    assert found["x.wsj.test_ece_calibrated"] != found["x.wsj.test_ece"] == found["x.wsj.dev_ece"]
    assert found["x.wsj.temperature"] > 0
    costs = ("ms_per_sentence", "mb", "train_cpu_s")
    assert all(found[f"x.wsj.{key}"] > 0 for key in costs)
    own = list(pb_models.measured(small, "x", "ewt", {"tune": model}))
    assert set(own[1]) == {f"x.{key}" for key in costs}


SCORED = {
    "generative": (True, True),
    "product_generative": (True, True),
    "span_features": (True, True),
    "span_features_seen": (True, None),
    "span_features_xbar": (True, None),
    "lexicon": (True, False),
    "neural": (True, False),
    "neural_cnn": (True, False),
    "neural_features": (True, False),
    "product_features": (True, True),
    "product_neural": (True, False),
    "product_neural_dev": (False, True),
    "product_best": (True, False),
}


@pytest.mark.parametrize("step", SCORED)
def test_steps_of_a_model(small, step):
    found = figures_of(step, small)
    name = step.removesuffix("_dev")
    on_wsj, on_dev = SCORED[step]
    splits = {"wsj": ("dev", "test") if on_wsj else (), "ewt": ("tune", "dev") if on_dev else ()}
    if on_dev is False:
        splits["ewt"] = ("tune",)
    wanted = {
        f"{name}.{corpus}.{split}_{what}"
        for corpus, own in splits.items()
        for split in own
        for what in ("f1", "exact", "ece")
    }
    assert wanted <= set(found)
    assert not {key for key in found if key.endswith("_f1")} - wanted
    assert all(0 <= found[key] <= 100 for key in wanted)
    assert (f"{name}.mb" in found) == (on_dev is not None)


def test_solvers_have_one_objective(small):
    found = figures_of("span_features_batch", small)
    for solver, passes in parsing_best.PASSES.items():
        points = found[f"span_features_batch.{solver}.points"]
        assert len(points) == passes
        values = [value for _, value, _ in points]
        assert values == sorted(values, reverse=True)
        assert found[f"span_features_batch.{solver}.cpu_s"] > 0
    assert 0 <= found["span_features_batch.wsj.dev_f1"] <= 100


def test_lexical_features_are_of_the_word_alone():
    assert parsing_best.LEXICON.templates == ()
    assert "SUFFIX3[0]" in parsing_best.LEXICON.tag_templates
    assert not any("1]" in text for text in parsing_best.LEXICON.tag_templates)


def test_the_xbar_grammar_has_no_substates(small, trees):
    base = small.kept("wsj", "train", parsing_best.XBAR).grammar(trees[:40])[0]
    assert base.depth == 1
    assert (base.levels[1].substates == 1).all()


def test_forests(small):
    found = figures_of("forests", small)
    assert {key.rsplit(".", 1)[0] for key in found} == {"forests.wsj", "forests.ewt"}


def test_decoders(small):
    found = figures_of("decoders", small)
    assert {key.split(".")[1] for key in found} == set(DECODERS)


def test_scales(small, monkeypatch):
    found = figures_of("multi_scale", small)
    for scales in ("own", "all"):
        key = f"multi_scale.{scales}.wsj"
        assert found[f"{key}.dev_f1"] == found[f"{key}.levels.1.dev_f1"]
        assert 0 < found[f"{key}.levels.1.share"] <= 1
        assert found[f"{key}.train_cpu_s"] > 0
    own, both = (found[f"multi_scale.{s}.wsj.levels.1.parameters"] for s in ("own", "all"))
    assert both > own == found["multi_scale.all.wsj.distinct.productions"]
    monkeypatch.setattr(parsing_best, "run_training", None)
    again = figures_of("multi_scale", small)
    assert again["multi_scale.all.wsj.dev_f1"] == found["multi_scale.all.wsj.dev_f1"]


def test_tags_of_a_tagger(small, monkeypatch, nlp):
    monkeypatch.setattr(parsing_best.train_default, "build_docs", lambda *_: None)
    monkeypatch.setattr(parsing_best.train_default, "train_tagger", lambda *_: nlp)
    monkeypatch.setattr(parsing_best.spacy_structlearn, "load", lambda: nlp)
    found = figures_of("tagger", small)
    assert found["tagger.ewt.tune_accuracy"] == found["tagger.ewt.dev_accuracy"] > 80
    for prefix in ("", "generative_"):
        weights = {
            weight: found[f"{prefix}tagger.ewt.weights.{name}.tune_f1"]
            for weight, name in ((0.5, "0_5"), (1.0, "1"), (2.0, "2"))
        }
        best = found[f"{prefix}tagger.ewt.weight"]
        assert weights[best] == max(weights.values()) == found[f"{prefix}tagger.ewt.tune_f1"]
        assert f"{prefix}tagger.ewt.weights.0.tune_f1" in found
        assert f"{prefix}tagger_gold.ewt.tune_f1" in found


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


def test_the_script_writes_a_report(small, monkeypatch, capsys):
    run_script(monkeypatch, small, "--only", "generative", "forests")
    assert "generative.wsj.dev_f1" in capsys.readouterr().out
    results = small.work.parent / "results"
    assert "forests" in json.loads((results / "parsing_best.json").read_text())
    page = (results / "parsing_best.md").read_text(encoding="utf8")
    assert page.index("## Scores") < page.index("## Costs") < page.index("## Forests")
    assert "## Decoders" not in page


def test_a_trial_records_nothing(small, monkeypatch, capsys):
    run_script(monkeypatch, small, "--only", "generative", "--limit", "30")
    assert "generative.wsj.dev_f1" in capsys.readouterr().out
    assert not (small.work.parent / "results").exists()
    assert all("30" in path.name for path in (small.work / "grammars").iterdir())


def all_figures():
    scores = {
        f"{step}.{corpus}.{split}_{what}": 50.0
        for step in pb_report.STEPS
        for corpus, split in (("wsj", "dev"), ("wsj", "test"), ("ewt", "tune"), ("ewt", "dev"))
        for what in ("f1", "exact", "ece", "ece_calibrated")
    }
    costs = {
        f"{step}.{corpus}.{key}": 1234.5
        for step in pb_report.STEPS
        for corpus in ("wsj", "ewt")
        for key in ("ms_per_sentence", "train_cpu_s", "mb")
    }
    others = {
        f"forests.{corpus}.{key}": 97
        for corpus in ("wsj", "ewt")
        for key in ("oracle_f1", "oracle_exact", "items", "edges", "failures")
    }
    others |= {f"decoders.{name}.wsj.dev_f1": 87.0 for name in DECODERS}
    others |= {
        "tagger.ewt.tune_accuracy": 95.0,
        "tagger.ewt.weight": 0.5,
        "tagger.ewt.dev_f1": 85.5,
        "tagger.ewt.weights.0.tune_f1": 84.0,
        "tagger.ewt.weights.0_5.tune_f1": 85.0,
        "tagger_gold.ewt.tune_f1": 90.0,
        "tagger_gold.ewt.dev_f1": 91.0,
        "span_features_batch.owlqn.points": [[1.0, 9.0, 10], [2.0, 8.0, 20], [3.0, 7.0, 30]],
        "multi_scale.all.wsj.levels.1.parameters": 2000,
        "multi_scale.all.wsj.levels.1.nonzero": 100,
        "multi_scale.all.wsj.levels.1.dev_f1": 77.0,
        "zeros.uniform-0_5-4.finest_share": 0.05,
        "stochastic.2.lbfgs.value": 1000.0,
        "stochastic.2.adagrad.64-0_1.value": 1001.0,
        "stochastic.2.adagrad.64-0_1.within_1": None,
        "best_single.wsj.step": "neural",
        "best_single.wsj.test_f1": 88.0,
        "default.step": "product_features",
    }
    distinct = ("productions", "different", "substates", "merged", "between")
    others |= {f"multi_scale.all.wsj.distinct.{name}": 1000 for name in distinct}
    return scores | costs | others


def test_a_report_of_all_figures(monkeypatch, tmp_path):
    monkeypatch.setattr(recording, "RESULTS", tmp_path)
    recording.record("all", all_figures())
    pb_report.write(tmp_path, "all")
    page = (tmp_path / "all.md").read_text(encoding="utf8")
    for line in (
        "| with a network | 50.00 | 50.00 | 50.00 | 50.00 | 50.00 | 50.00 |",
        "| with a network | 1,234 | 1234.5 | 1234.5 | 1,234 | 1234.5 | 1234.5 |",
        "| Berkeley 1.7 | 85.4 | 85.5 | 28.3 |  | 82.7 | 45.8 |",
        "| the default parser, weight 0.5 | 85.00 | 85.50 |",
        "| the default parser | 84.00 |  |",
        "| the default parser, gold tags | 90.00 | 91.00 |",
        "| OWL-QN | 3 | 3.0 | 7.0000 | 30 |",
        "| a sum over levels, 2 subcategories | 77.00 |  | 100 | 5.00 % |  |",
        "Of 1,000 productions of the sums 1,000 are left if one stands for all",
        "| uniform-0.5-4 | 5.0 |  |  |  |",
        "| level 2, AdaGrad, 64-0.1 | 1,001.0 |  |  |  |  |",
        "| the best of one grammar, WSJ test | with a network | 88.00 |  |",
        "The default pipeline has: four grammars with features of spans.",
    ):
        assert line in page.splitlines() or line in page, line


def test_a_report_of_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(recording, "RESULTS", tmp_path)
    recording.record("nothing", {})
    pb_report.write(tmp_path, "nothing")
    assert "|" not in (tmp_path / "nothing.md").read_text(encoding="utf8")


def test_the_table_of_the_readme_appears_when_all_is_measured(monkeypatch, tmp_path):
    for module in (recording, tables):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    page = "<!-- table beyond -->\n<!-- end -->\n"
    assert tables.fill(page) == page
    recording.record("parsing_best", all_figures())
    peer = {"peer.train.berkeley.cpu_s": 115.0, "peer.parse.berkeley.ms_per_sentence": 37.5}
    recording.record("parsing_generative", peer)
    filled = tables.fill(page)
    widths = {line.count("|") for line in filled.splitlines() if line.startswith("|")}
    assert widths == {11}
    for text in ("with features of spans", "with features of spans, as the pipeline has it"):
        assert f"| {text} | 50.0 | 50.0 | 50.0 | 50.0 | 50.0 | 50.0 | 1,234 |" in filled
    both = "| with a network and features of spans | 50.0 | 50.0 | 50.0 | 50.0 |  |  | 1,234 |"
    assert filled.count(both) == 2
    assert "| Berkeley 1.7 | 85.4 | 85.5 | 28.3 |  | 82.7 | 45.8 | 115 | 37.5 |  |" in filled
    assert tables.fill(filled) == filled
