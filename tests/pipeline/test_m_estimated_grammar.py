"""M-estimated grammars as spaCy sees them: settings, both doors to training, storage, odd input."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy import registry
from spacy.cli.train import train as spacy_train
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_structlearn import serialization
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.anchored import AnchoredGrammar
from spacy_structlearn.grammar.estimators import SplitMerge
from spacy_structlearn.grammar.fragment_weights import FragmentFeatures
from spacy_structlearn.grammar.fragments import FRAGMENT_TEMPLATES
from spacy_structlearn.grammar.m_estimation import MEstimation
from spacy_structlearn.pipeline import batch_trainable, fitting
from spacy_structlearn.pipeline.readers import create_treebank_reader, read_treebank

SAMPLE = Path(__file__).resolve().parents[2] / "corpora" / "sample"
FILES = {"spaces": SAMPLE / "sample.spaces", "props": SAMPLE / "sample.props"}
NAME = "spacy_structlearn.MEstimatedGrammar.v1"
CONFIG = Path(fitting.__file__).parent / "configs" / "constituency_parser.MEstimatedGrammar.cfg"
LATENT = {"@architectures": "spacy_structlearn.LatentGrammar.v1"}
THRESHOLDS = [0.01]
# The treebank grammar is a step, the M-estimate takes two, then come forests and L-BFGS, two each.
CONDITIONAL = {"tolerance": 0.0, "max_passes": 15, "folds": 2, "conditional_iterations": 12}
TEXT = "The old man took a key from his pocket. He opened the door."


def treebank(nlp):
    return list(create_treebank_reader(SAMPLE / "sample.trees", **FILES)(nlp))


def blank(**settings):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    config = {"model": {"@architectures": NAME, **settings}, "decoder": "labelled_recall"}
    nlp.add_pipe("constituency_parser", config=config | {"thresholds": THRESHOLDS})
    return nlp


def parser_of(nlp):
    return nlp.get_pipe("constituency_parser")


def trained(**settings):
    nlp = blank(**settings)
    examples = treebank(nlp)
    parser_of(nlp).initialize(lambda: examples)
    parser_of(nlp).fit(examples)
    return nlp


@pytest.fixture(scope="module")
def pickled():
    return pickle.dumps(trained())


@pytest.fixture
def nlp(pickled):
    """A trained parser, of which each test may change its own."""
    return pickle.loads(pickled)


@pytest.fixture(scope="module")
def conditional():
    """What is stored of a parser that went on to the conditional likelihood."""
    return stored(trained(**CONDITIONAL))


def strings(doc):
    return [s._.parse_string for s in doc.sents if not s.text.isspace()]


def scores(doc):
    return doc.spans["constituents"].attrs["scores"]


def stored(nlp):
    return parser_of(nlp).parameters.to_bytes()


# --- settings -------------------------------------------------------------------------------------
def test_the_defaults():
    model = registry.architectures.get(NAME)()
    assert model.attrs["estimator"] == MEstimation()
    assert model.attrs["estimator"].base == SplitMerge(rounds=0)
    assert model.attrs["parameters"] == AnchoredGrammar.empty()
    assert model.layers == []


def test_settings():
    own = {"c": 0.5, "scaling": 0.25, "tolerance": 1e-3, "max_passes": 30, "l2": 10.0, "seed": 7}
    own |= {"conditional_iterations": 7, "start": "zero", "folds": 3, "threshold": 1e-3}
    own |= {"threads": 2}
    features = {"templates": ["RULE", "TAG|WORD[first]"], "min_count": 3, "min_word_count": 4}
    estimator = parser_of(blank(**own, **features, grammar={**LATENT, "rounds": 1})).estimator
    base = SplitMerge(rounds=1)
    assert estimator == MEstimation(base, FragmentFeatures(**features), **own)


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({"templates": ["RULE|WORD[middle]"]}, "SL441"),
        ({"templates": ["RULE", "RULE"]}, "SL431"),
        ({"min_count": 0}, "SL442.*min_count"),
        ({"c": 0.0}, "SL406.*c"),
        ({"scaling": -1.0}, "SL406.*scaling"),
        ({"start": "there"}, "SL406.*start"),
        ({"folds": 0}, "SL406.*folds"),
        ({"grammar": {**LATENT, "grammars": 2}}, "SL443.*2 grammars"),
        ({"grammar": {"@architectures": "spacy_structlearn.BayesNet.v1"}}, "SL041.*MEstimated"),
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
    parser.parameters = AnchoredGrammar(parser.parameters.grammar)
    without = nlp.evaluate(treebank(nlp))
    assert found["constituents_f"] > without["constituents_f"] + 0.01


def test_a_grammar_with_substates_is_corrected():
    nlp = trained(grammar={**LATENT, "rounds": 1})
    parameters = parser_of(nlp).parameters
    assert parameters.depth == 1
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


@pytest.mark.parametrize("step", [1, 4, 5])
def test_an_interrupted_fit_goes_on_from_its_checkpoint(conditional, tmp_path, monkeypatch, step):
    """In M-estimation, in the forests of the second fold, and in the conditional likelihood."""
    monkeypatch.setattr(batch_trainable, "CHECKPOINT_SECONDS", -1)
    nlp = blank(**CONDITIONAL)
    parser = parser_of(nlp)
    examples = treebank(nlp)
    parser.initialize(lambda: examples)
    calls = []

    def interrupt(number, value):
        calls.append(number)
        if calls.count(step) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parser.fit(examples, on_iteration=interrupt, checkpoint=tmp_path / "state")
    went_on = []
    parser.fit(examples, on_iteration=lambda n, _: went_on.append(n), checkpoint=tmp_path / "state")
    assert went_on[0] == step
    assert stored(nlp) == conditional
    assert not (tmp_path / "state").exists()


def test_initialize_keeps_a_loaded_grammar(nlp):
    before = parser_of(nlp).parameters
    nlp.initialize()
    assert parser_of(nlp).parameters is before


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
    hard = {"templates": ["LABEL|WORD[first]"], "c": 1e6, "tolerance": 0.0}
    settings["model"] = {**settings["model"], **hard}
    nlp = spacy.blank("en")
    parser = nlp.add_pipe(settings.pop("factory"), config=settings)
    examples = treebank(nlp)
    parser.initialize(lambda: examples)
    numbers = []
    parser.fit(examples, on_iteration=lambda number, _: numbers.append(number))
    assert numbers[-1] + 1 == config["training"]["max_steps"]
    assert len(numbers) <= parser.estimator.max_iterations


def test_progress_is_shown(overrides, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    fitting.train(CONFIG, overrides=overrides)
    assert "loss=" in capsys.readouterr().err


# --- odd input ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text", ["", " ", "\n\n\t ", "dog", "!", "🙂 🙂", "\u200b", ") (", "a " * 600, "door, " * 300]
)
def test_odd_texts(nlp, text):
    doc = nlp(text)
    words = [token.text for token in doc if not token.is_space]
    assert [word for tree in doc._.trees for word in tree.words()] == words
    assert np.isfinite(scores(doc)).all()
    assert (scores(doc) >= 0).all()
    assert (scores(doc) <= 1).all()


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
@pytest.fixture(params=["disk", "bytes", "pickle"])
def restored(request, nlp, tmp_path):
    if request.param == "disk":
        nlp.to_disk(tmp_path / "model")
        return spacy.load(tmp_path / "model")
    if request.param == "bytes":
        return spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    nlp(TEXT)
    return pickle.loads(pickle.dumps(nlp))


def test_component_round_trip(nlp, restored):
    ours, again = parser_of(nlp), parser_of(restored)
    assert stored(restored) == stored(nlp)
    assert again.parameters == ours.parameters
    assert again.labels == ours.labels
    assert again.estimator == ours.estimator
    assert strings(restored(TEXT)) == strings(nlp(TEXT))
    np.testing.assert_array_equal(scores(restored(TEXT)), scores(nlp(TEXT)))


def test_no_word_is_stored_with_the_features(nlp):
    own = parser_of(nlp).parameters
    features = serialization.pack("features", 1, own.fragments.fields())
    long = [word for word in own.lexicon.words if len(word) > 6 and word.isalpha()]
    assert len(long) > 50
    assert not [word for word in long if word.encode() in features]


def test_store_of_predictions(nlp):
    doc = nlp(TEXT)
    for again in (
        Doc(nlp.vocab).from_bytes(doc.to_bytes()),
        next(DocBin().from_bytes(DocBin(docs=[doc]).to_bytes()).get_docs(nlp.vocab)),
    ):
        assert again._.trees == doc._.trees
        np.testing.assert_array_equal(scores(again), scores(doc))


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


def test_store_n_process_under_spawn(nlp, tmp_path):
    nlp.to_disk(tmp_path / "model")
    script = tmp_path / "run.py"
    script.write_text(
        "import multiprocessing, sys, spacy\n"
        "if __name__ == '__main__':\n"
        "    multiprocessing.set_start_method('spawn')\n"
        "    nlp = spacy.load(sys.argv[1])\n"
        "    for doc in nlp.pipe([sys.argv[2]] * 4, n_process=2, batch_size=2):\n"
        "        print([s._.parse_string for s in doc.sents],\n"
        "              [round(s._.constituent_prob, 5) for s in doc.spans['constituents']])\n",
        encoding="utf8",
    )
    run = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "model"), TEXT],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    doc = nlp(TEXT)
    probs = [round(s._.constituent_prob, 5) for s in doc.spans["constituents"]]
    assert run.stdout.splitlines() == [f"{strings(doc)} {probs}"] * 4
