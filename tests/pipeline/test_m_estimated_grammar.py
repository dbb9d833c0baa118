"""M-estimated grammars as spaCy sees them: settings, both doors to training, storage, odd input."""

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
from spacy_structlearn.grammar.fragments import FRAGMENT_TEMPLATES
from spacy_structlearn.grammar.settings import LatentGrammarSettings, MEstimatedGrammarSettings
from spacy_structlearn.grammar.span_model import SpanGrammar
from spacy_structlearn.pipeline import fitting
from spacy_structlearn.pipeline.readers import read_treebank

NAME = "spacy_structlearn.MEstimatedGrammar.v1"
CONFIG = Path(fitting.__file__).parent / "configs" / "constituency_parser.MEstimatedGrammar.cfg"
blank = partial(parsers.blank, "MEstimatedGrammar")
trained = partial(parsers.trained, "MEstimatedGrammar")
LATENT = {"@architectures": "spacy_structlearn.LatentGrammar.v1"}
# The treebank grammar is a step, the M-estimate takes two, then come forests and L-BFGS, two each.
CONDITIONAL = {"tolerance": 0.0, "max_iterations": 15, "folds": 2, "conditional_iterations": 12}


@pytest.fixture(scope="module")
def conditional():
    """What is stored of a parser that went on to the conditional likelihood."""
    return stored(trained(**CONDITIONAL))


@pytest.fixture
def nlp():
    return parsers.loaded("MEstimatedGrammar")


# --- settings -------------------------------------------------------------------------------------
def test_the_defaults():
    model = registry.architectures.get(NAME)()
    assert model.attrs["estimator"] == MEstimatedGrammarSettings()
    assert model.attrs["estimator"].base == LatentGrammarSettings(rounds=0)
    assert model.attrs["parameters"] == SpanGrammar.empty()
    assert model.layers == []


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({"templates": ["RULE|WORD[middle]"]}, "SL441"),
        ({"templates": ["RULE", "RULE"]}, "SL431"),
        ({"folds": 0}, "SL043.*folds"),
        ({"grammar": {**LATENT, "grammars": 2}}, "SL043.*grammar is"),
        ({"grammar": {"@architectures": "spacy_structlearn.BayesNet.v1"}}, "SL043.*MEstimated"),
    ],
)
def test_bad_settings(bad, code):
    with pytest.raises(StructlearnError, match=code):
        blank(**bad)


# --- training -------------------------------------------------------------------------------------
def test_learns_the_sample(nlp):
    found = nlp.evaluate(treebank(nlp))
    parser = parser_of(nlp)
    assert parser.parameters.fragments.templates.texts == FRAGMENT_TEMPLATES
    assert parser.parameters.fragments.n_weights > 1000
    parser.parameters = SpanGrammar(parser.parameters.grammar)
    without = nlp.evaluate(treebank(nlp))
    assert found["constituents_f"] > without["constituents_f"] + 0.01


def test_a_grammar_with_substates_is_corrected():
    nlp = trained(grammar={**LATENT, "rounds": 1})
    parameters = parser_of(nlp).parameters
    assert parameters.grammar.depth == 1
    assert parameters.fragments.n_weights > 1000
    assert strings(nlp(TEXT))[1] == (
        "(S (NP (PRP He)) (VP (VBD opened) (NP (DT the) (NN door))) (. .))"
    )


@pytest.mark.parametrize("settings", [{}, {**CONDITIONAL, "threads": 2}])
def test_update_ends_at_the_grammar_of_fit(nlp, conditional, settings):
    stepwise = blank(**settings)
    examples = treebank(stepwise)
    sgd = stepwise.initialize(lambda: examples)
    losses = [stepwise.update(examples, sgd=sgd)["constituency_parser"] for _ in range(10)]
    assert losses[-3] == losses[-2] == losses[-1]
    assert len(set(losses)) == (7 if settings else 2)
    assert stored(stepwise) == (conditional if settings else stored(nlp))


# --- two doors ------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def overrides(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    docs = [doc for _, doc in read_treebank(Vocab(), SAMPLE / "sample.trees", **FILES)]
    DocBin(docs=docs[2:]).to_disk(folder / "train.spacy")
    DocBin(docs=docs[:2]).to_disk(folder / "dev.spacy")
    return {f"paths.{name}": str(folder / f"{name}.spacy") for name in ("train", "dev")}


def test_both_doors_end_at_the_same_parser(overrides, tmp_path):
    further = {"components.constituency_parser.model.conditional_iterations": 12}
    own = {**overrides, **further, "training.max_steps": 20}
    straight = fitting.train(CONFIG, tmp_path / "model", overrides=own, progress=False)
    spacy_train(CONFIG, tmp_path / "out", overrides=own)
    steps = spacy.load(tmp_path / "out" / "model-last")
    assert stored(steps) == stored(straight) == stored(spacy.load(tmp_path / "model"))
    assert parser_of(straight).decoder == "labelled_recall"
    performance = straight.meta["performance"]
    assert 0.3 < performance["constituents_f"] < 1.0
    for name, value in performance.items():
        assert steps.meta["performance"][name] == pytest.approx(value, rel=1e-6)


def test_the_config_has_as_many_steps_as_there_can_be():
    config = spacy.util.load_config(CONFIG).interpolate()
    settings = {**config["components"]["constituency_parser"]}
    assert set(settings["thresholds"]) == {settings["model"]["threshold"]}
    # Few features and a weak penalty: the minimum is not reached.
    hard = {"templates": ["LABEL|WORD[first]"], "l2": 1e-6, "tolerance": 0.0}
    settings["model"] = {**settings["model"], **hard}
    nlp = spacy.blank("en")
    parser = nlp.add_pipe(settings.pop("factory"), config=settings)
    examples = treebank(nlp)
    parser.initialize(lambda: examples)
    numbers = []
    parser.fit(examples, on_iteration=lambda number, _: numbers.append(number))
    assert numbers[-1] + 1 == config["training"]["max_steps"]
    assert len(numbers) <= parser.estimator.n_reports


def test_progress_is_shown(overrides, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    fitting.train(CONFIG, overrides=overrides)
    assert "loss=" in capsys.readouterr().err


# --- odd input ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "decoder", ["max_rule_product", "max_rule_sum", "viterbi", "variational", "labelled_recall"]
)
def test_every_decoder(nlp, decoder):
    parser = parser_of(nlp)
    parser.decoder = decoder
    doc = nlp(TEXT)
    assert doc._.parse_failures == ()
    assert strings(doc)[1] == "(S (NP (PRP He)) (VP (VBD opened) (NP (DT the) (NN door))) (. .))"
    best = parser.k_best(list(doc.sents)[1], 5)
    logs = [log_probability for log_probability, _ in best]
    assert len({tree for _, tree in best}) == len(best) == 5
    assert str(best[0][1]) == f"(TOP {strings(doc)[1]})"
    assert np.exp(logs).sum() <= 1 + 1e-9
    if decoder in ("viterbi", "labelled_recall"):
        assert logs == sorted(logs, reverse=True)


def test_calibration(nlp):
    parser = parser_of(nlp)
    before = scores(nlp(TEXT))
    temperature = parser.calibrate(treebank(nlp))
    assert parser.parameters.temperature == temperature != 1.0
    assert ((scores(nlp(TEXT)) > before) == (temperature < 1)).all()


def test_words_may_be_forgotten(nlp):
    parser = parser_of(nlp)
    doc = nlp("The council opened the door.")
    known = scores(doc)
    parser.parameters = parser.parameters.without_words(["council"])
    # Alike at the beginning and at the end, and in shape.
    unknown, never_seen = nlp("The council opened the door."), nlp("The coumncil opened the door.")
    np.testing.assert_array_equal(scores(unknown), scores(never_seen))
    assert not np.array_equal(scores(unknown), known)


# --- storage --------------------------------------------------------------------------------------
def test_no_word_is_stored_with_the_features(nlp):
    own = parser_of(nlp).parameters
    features = serialization.pack("features", 1, own.fragments.to_fields()[1])
    long = [word for word in own.lexicon.words if len(word) > 6 and word.isalpha()]
    assert len(long) > 50
    assert not [word for word in long if word.encode() in features]


@pytest.mark.parametrize("storage", ["float32", "float16", "log8"])
def test_compact_grammars_parse_as_the_whole_one(nlp, storage):
    other = pickle.loads(pickle.dumps(nlp))
    small = parser_of(nlp).parameters.compact(1e-6, storage, feature_threshold=0.02)
    assert len(small.fragments) < len(parser_of(nlp).parameters.fragments)
    assert len(small.to_bytes()) < len(stored(nlp))
    parser_of(other).parameters = small
    again = pickle.loads(pickle.dumps(other))
    assert parser_of(again).parameters == parser_of(other).parameters
    assert strings(again(TEXT)) == strings(nlp(TEXT))
    np.testing.assert_allclose(scores(again(TEXT)), scores(nlp(TEXT)), atol=0.15)
