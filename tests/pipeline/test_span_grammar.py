"""Span grammars as spaCy sees them: settings, both doors to training, storage, odd input."""

import pickle
import sys
from functools import partial
from pathlib import Path

import numpy as np
import parsers
import pytest
import spacy
from parsers import FILES, SAMPLE, TEXT, parser_of, scores, stored, strings, treebank
from spacy import registry
from spacy.cli.train import train as spacy_train
from spacy.tokens import DocBin
from spacy.vocab import Vocab

from spacy_structlearn import serialization
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.settings import ConditionalGrammarSettings, SpanGrammarSettings
from spacy_structlearn.grammar.span_model import SpanGrammar
from spacy_structlearn.pipeline import fitting
from spacy_structlearn.pipeline.readers import read_treebank

NAME = "spacy_structlearn.SpanGrammar.v1"
CONFIG = Path(fitting.__file__).parent / "configs" / "constituency_parser.SpanGrammar.cfg"
blank = partial(parsers.blank, "SpanGrammar")
trained = partial(parsers.trained, "SpanGrammar")


@pytest.fixture
def nlp():
    return parsers.loaded("SpanGrammar")


# --- settings -------------------------------------------------------------------------------------
def test_the_defaults():
    model = registry.architectures.get(NAME)()
    assert model.attrs["estimator"] == SpanGrammarSettings()
    assert model.attrs["parameters"] == SpanGrammar.empty()
    assert model.layers == []


def test_settings():
    grammar = {"@architectures": "spacy_structlearn.ConditionalGrammar.v1", "rounds": 1}
    estimator = parser_of(blank(learn_rate=0.5, grammar=grammar)).estimator
    assert estimator.grammar == ConditionalGrammarSettings(rounds=1)
    assert estimator.features.learn_rate == 0.5
    assert parser_of(blank()).network is None


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({"templates": ["WORD[middle]"]}, "SL430"),
        ({"tag_templates": ["WORD[first]"]}, "SL430"),
        ({"templates": ["bias", "bias"]}, "SL431"),
        ({"buckets": 1000}, "SL043.*buckets"),
        ({"folds": 1}, "SL043.*folds"),
        ({"grammar": {"@architectures": "spacy_structlearn.BayesNet.v1"}}, "SL043.*SpanGrammar"),
    ],
)
def test_bad_settings(bad, code):
    with pytest.raises(StructlearnError, match=code):
        blank(**bad)


# --- training -------------------------------------------------------------------------------------
def test_learns_the_sample(nlp):
    found = nlp.evaluate(treebank(nlp))
    parser = parser_of(nlp)
    assert parser.parameters.features.n_weights > 1000
    parser.parameters = SpanGrammar(parser.parameters.grammar)
    without = nlp.evaluate(treebank(nlp))
    assert found["constituents_f"] > without["constituents_f"] + 0.01


def test_update_ends_at_the_grammar_of_fit(nlp):
    stepwise = blank(threads=2)
    examples = treebank(stepwise)
    sgd = stepwise.initialize(lambda: examples)
    losses = [stepwise.update(examples, sgd=sgd)["constituency_parser"] for _ in range(13)]
    assert losses[-3] == losses[-2] == losses[-1]
    assert stored(stepwise) == stored(nlp)


# --- two doors ------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def overrides(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    docs = [doc for _, doc in read_treebank(Vocab(), SAMPLE / "sample.trees", **FILES)]
    DocBin(docs=docs[2:]).to_disk(folder / "train.spacy")
    DocBin(docs=docs[:2]).to_disk(folder / "dev.spacy")
    settings = {"grammar.rounds": 1, "folds": 2, "max_iterations": 2}
    return {
        **{f"paths.{name}": str(folder / f"{name}.spacy") for name in ("train", "dev")},
        **{f"components.constituency_parser.model.{k}": v for k, v in settings.items()},
    }


def test_both_doors_end_at_the_same_parser(overrides, tmp_path):
    straight = fitting.train(CONFIG, tmp_path / "model", overrides=overrides, progress=False)
    spacy_train(CONFIG, tmp_path / "out", overrides=overrides)
    steps = spacy.load(tmp_path / "out" / "model-last")
    assert stored(steps) == stored(straight) == stored(spacy.load(tmp_path / "model"))
    performance = straight.meta["performance"]
    assert 0.3 < performance["constituents_f"] < 1.0
    for name, value in performance.items():
        assert steps.meta["performance"][name] == pytest.approx(value, rel=1e-6)


def test_progress_is_shown(overrides, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    fitting.train(CONFIG, overrides=overrides)
    shown = capsys.readouterr().err
    assert "loss=" in shown


# --- odd input ------------------------------------------------------------------------------------
def test_calibration(nlp):
    parser = parser_of(nlp)
    before = scores(nlp(TEXT))
    temperature = parser.calibrate(treebank(nlp))
    assert parser.parameters.temperature == temperature != 1.0
    assert ((scores(nlp(TEXT)) > before) == (temperature < 1)).all()


# --- storage --------------------------------------------------------------------------------------
def test_no_word_is_stored_with_the_features(nlp):
    own = parser_of(nlp).parameters
    features = serialization.pack("features", 1, own.features.to_fields()[1])
    long = [word for word in own.lexicon.words if len(word) > 6 and word.isalpha()]
    assert len(long) > 50
    assert not [word for word in long if word.encode() in features]


@pytest.mark.parametrize("storage", ["float32", "float16", "log8"])
def test_compact_grammars_parse_as_the_whole_one(nlp, storage):
    other = pickle.loads(pickle.dumps(nlp))
    # Trained on few trees, all weights of features are small.
    small = parser_of(nlp).parameters.compact(1e-6, storage, feature_threshold=1e-5)
    parser_of(other).parameters = small
    again = pickle.loads(pickle.dumps(other))
    assert parser_of(again).parameters == parser_of(other).parameters
    assert strings(again(TEXT)) == strings(nlp(TEXT))
    tolerance = {"float32": 2e-3, "float16": 0.02, "log8": 0.15}[storage]
    np.testing.assert_allclose(scores(again(TEXT)), scores(nlp(TEXT)), atol=tolerance)
