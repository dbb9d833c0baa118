"""Conditional grammars as spaCy sees them: settings, both doors to training, storage, odd input."""

import pickle
import sys
from functools import partial
from pathlib import Path

import numpy as np
import parsers
import pytest
import spacy
import srsly
from parsers import FILES, SAMPLE, TEXT, parser_of, scores, strings, treebank
from spacy.cli.train import train as spacy_train
from spacy.tokens import DocBin
from spacy.vocab import Vocab

from spacy_structlearn.pipeline import fitting
from spacy_structlearn.pipeline.readers import read_treebank

CONFIG = Path(fitting.__file__).parent / "configs" / "constituency_parser.ConditionalGrammar.cfg"
blank = partial(parsers.blank, "ConditionalGrammar")
trained = partial(parsers.trained, "ConditionalGrammar")


@pytest.fixture
def nlp():
    return parsers.loaded("ConditionalGrammar")


# --- training -------------------------------------------------------------------------------------
def test_learns_the_sample(nlp):
    found = nlp.evaluate(treebank(nlp))
    assert found["constituents_f"] > 0.9
    assert found["constituents_tag_acc"] > 0.95
    weights = [level.entries.values.max() for level in parser_of(nlp).parameters.levels]
    assert max(weights) > 1.01


def test_the_loss_of_both_phases_is_reported():
    nlp = blank()
    examples = treebank(nlp)
    parser = parser_of(nlp)
    parser.initialize(lambda: examples)
    calls = []
    value = parser.fit(examples, on_iteration=lambda *call: calls.append(call))
    assert calls[-1] == (3, value)
    assert len(calls) <= parser.estimator.n_reports
    # Of each step its parts; when it is over, its last loss once more, under the next number.
    generative, first, second = ([x for n, x in calls if n == step][1:] for step in (1, 2, 3))
    assert min(len(first), len(second)) > 3
    assert min(generative) > 2 * max(first)
    for losses in (first, second):
        assert losses == sorted(losses, reverse=True)


def test_update_ends_at_the_grammar_of_fit(nlp):
    stepwise = blank(threads=2)
    examples = treebank(stepwise)
    sgd = stepwise.initialize(lambda: examples)
    losses = [stepwise.update(examples, sgd=sgd)["constituency_parser"] for _ in range(5)]
    assert losses[0] > losses[1] > losses[2] > losses[3] == losses[4]
    assert parser_of(stepwise).parameters.to_bytes() == parser_of(nlp).parameters.to_bytes()


def test_products_of_conditional_grammars(nlp, tmp_path):
    both = trained(grammars=2)
    grammar = parser_of(both).parameters
    assert grammar.members == 1
    first = parser_of(nlp).parameters
    assert grammar.levels[: len(first.levels)] == first.levels
    assert grammar.levels[-1] != first.levels[-1]
    assert both.evaluate(treebank(both))["constituents_f"] > 0.9
    both.to_disk(tmp_path / "model")
    assert strings(spacy.load(tmp_path / "model")(TEXT)) == strings(both(TEXT))


# --- two doors ------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def overrides(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    docs = [doc for _, doc in read_treebank(Vocab(), SAMPLE / "sample.trees", **FILES)]
    DocBin(docs=docs[2:]).to_disk(folder / "train.spacy")
    DocBin(docs=docs[:2]).to_disk(folder / "dev.spacy")
    settings = {"rounds": 1, "conditional_iterations": 5}
    return {
        **{f"paths.{name}": str(folder / f"{name}.spacy") for name in ("train", "dev")},
        **{f"components.constituency_parser.model.{k}": v for k, v in settings.items()},
    }


def test_both_doors_end_at_the_same_grammar(overrides, tmp_path):
    config = spacy.util.load_config(CONFIG)
    config["training"]["logger"] = {
        "@loggers": "spacy.ConsoleLogger.v3",
        "output_file": str(tmp_path / "log"),
    }
    config.to_disk(tmp_path / "config.cfg")
    straight = fitting.train(CONFIG, tmp_path / "model", overrides=overrides, progress=False)
    spacy_train(tmp_path / "config.cfg", tmp_path / "out", overrides=overrides)
    steps = spacy.load(tmp_path / "out" / "model-last")
    saved = spacy.load(tmp_path / "model")
    ours = parser_of(straight).parameters.to_bytes()
    assert parser_of(steps).parameters.to_bytes() == ours
    assert parser_of(saved).parameters.to_bytes() == ours
    performance = straight.meta["performance"]
    assert 0.3 < performance["constituents_f"] < 1.0
    for name, value in performance.items():
        assert steps.meta["performance"][name] == pytest.approx(value, rel=1e-6)
    # F1 on the held-out trees and the loss after every step.
    logged = list(srsly.read_jsonl(tmp_path / "log"))
    assert len(logged) >= 4
    assert all(line["scores"]["constituents_f"] > 0 for line in logged)


def test_progress_is_shown_for_both_phases(overrides, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    short = {"components.constituency_parser.model.split_iterations": 2}
    fitting.train(CONFIG, overrides=overrides | short)
    shown = capsys.readouterr().err
    # Of EM 1 + 1 + 32 with the treebank grammar, of each level 5 and one more.
    assert f"/{1 + 1 + 32 + 2 * 6} " in shown
    assert "loss=" in shown


# --- odd input ------------------------------------------------------------------------------------
@pytest.mark.parametrize("decoder", ["max_rule_product", "max_rule_sum", "viterbi", "variational"])
def test_every_decoder_reads_weights(nlp, decoder):
    parser = parser_of(nlp)
    before, parser.decoder = parser.decoder, decoder
    try:
        doc = nlp(TEXT)
        best = parser.k_best(next(doc.sents), 3)
    finally:
        parser.decoder = before
    assert doc._.parse_failures == ()
    assert strings(doc)[1] == "(S (NP (PRP He)) (VP (VBD opened) (NP (DT the) (NN door))) (. .))"
    assert all(log_probability <= 1e-5 for log_probability, _ in best)
    assert sum(np.exp(log_probability) for log_probability, _ in best) <= 1 + 1e-4


# --- storage --------------------------------------------------------------------------------------
@pytest.mark.parametrize("storage", ["float32", "float16", "log8"])
def test_compact_grammars_parse_as_the_whole_one(nlp, storage):
    other = pickle.loads(pickle.dumps(nlp))
    parser_of(other).parameters = parser_of(nlp).parameters.compact(1e-6, storage)
    again = pickle.loads(pickle.dumps(other))
    assert parser_of(again).parameters == parser_of(other).parameters
    assert strings(again(TEXT)) == strings(nlp(TEXT))
    tolerance = {"float32": 1e-3, "float16": 0.02, "log8": 0.15}[storage]
    np.testing.assert_allclose(scores(again(TEXT)), scores(nlp(TEXT)), atol=tolerance)
