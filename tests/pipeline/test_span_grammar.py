"""Span grammars as spaCy sees them: settings, both doors to training, storage, odd input."""

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
from spacy_structlearn.grammar.anchored import AnchoredEstimator, AnchoredGrammar
from spacy_structlearn.grammar.estimators import SplitMerge
from spacy_structlearn.grammar.hierarchical import ConditionalGrammar
from spacy_structlearn.grammar.span_features import SpanFeatures
from spacy_structlearn.pipeline import batch_trainable, fitting
from spacy_structlearn.pipeline.readers import create_treebank_reader, read_treebank

SAMPLE = Path(__file__).resolve().parents[2] / "corpora" / "sample"
FILES = {"spaces": SAMPLE / "sample.spaces", "props": SAMPLE / "sample.props"}
NAME = "spacy_structlearn.SpanGrammar.v1"
CONFIG = Path(fitting.__file__).parent / "configs" / "constituency_parser.SpanGrammar.cfg"
GRAMMAR = {
    "@architectures": "spacy_structlearn.LatentGrammar.v1",
    "rounds": 1,
    "split_iterations": 3,
    "merge_iterations": 2,
    "smooth_iterations": 1,
}
FEW = {"grammar": GRAMMAR, "buckets": 2**16, "folds": 2, "epochs": 3, "batch_size": 16}
TEXT = "The old man took a key from his pocket. He opened the door."


def treebank(nlp):
    return list(create_treebank_reader(SAMPLE / "sample.trees", **FILES)(nlp))


def blank(**settings):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    model = {"@architectures": NAME, **FEW, **settings}
    nlp.add_pipe("constituency_parser", config={"model": model})
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


def strings(doc):
    return [s._.parse_string for s in doc.sents if not s.text.isspace()]


def scores(doc):
    return doc.spans["constituents"].attrs["scores"]


def stored(nlp):
    return parser_of(nlp).parameters.to_bytes()


# --- settings -------------------------------------------------------------------------------------
def test_the_defaults():
    model = registry.architectures.get(NAME)()
    expected = AnchoredEstimator(base=SplitMerge(), features=SpanFeatures())
    assert model.attrs["estimator"] == expected
    assert model.attrs["parameters"] == AnchoredGrammar.empty()
    assert model.layers == []


def test_settings():
    own = {"folds": 3, "fold_grammars": 2, "threshold": 1e-3, "epochs": 4, "batch_size": 5}
    own |= {"weight": 0.5, "fit_weight": True, "seed": 7, "threads": 2}
    features = {"templates": ["WORD[first]", "LENGTH"], "tag_templates": ["SUFFIX2[0]"]}
    features |= {"buckets": 256, "min_count": 3, "l1": 0.1, "learn_rate": 0.5}
    grammar = {"@architectures": "spacy_structlearn.ConditionalGrammar.v1", "rounds": 1}
    estimator = parser_of(blank(**own, **features, grammar=grammar)).estimator
    base = ConditionalGrammar(SplitMerge(rounds=1), l1=1.0, l2=0.0)
    assert estimator == AnchoredEstimator(base, features=SpanFeatures(**features), **own)
    assert parser_of(blank()).network is None


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({"templates": ["WORD[middle]"]}, "SL430"),
        ({"tag_templates": ["WORD[first]"]}, "SL430"),
        ({"templates": ["bias", "bias"]}, "SL431"),
        ({"buckets": 1000}, "SL432.*buckets"),
        ({"l1": -1.0}, "SL432.*l1"),
        ({"folds": 1}, "SL406.*folds"),
        ({"batch_size": 0}, "SL406.*batch_size"),
        ({"weight": -1.0}, "SL406.*weight"),
        ({"grammar": {"@architectures": "spacy_structlearn.BayesNet.v1"}}, "SL041.*SpanGrammar"),
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
    parser.parameters = AnchoredGrammar(parser.parameters.grammar)
    without = nlp.evaluate(treebank(nlp))
    assert found["constituents_f"] > without["constituents_f"] + 0.01


def test_update_ends_at_the_grammar_of_fit(nlp):
    stepwise = blank(threads=2)
    examples = treebank(stepwise)
    sgd = stepwise.initialize(lambda: examples)
    losses = [stepwise.update(examples, sgd=sgd)["constituency_parser"] for _ in range(13)]
    assert losses[-3] == losses[-2] == losses[-1]
    assert stored(stepwise) == stored(nlp)


@pytest.mark.parametrize("step", [1, 5, 7, 8, 10])
def test_an_interrupted_fit_goes_on_from_its_checkpoint(nlp, tmp_path, monkeypatch, step):
    """In the grammar, that of a fold, in forests, and in the first and the last epoch."""
    monkeypatch.setattr(batch_trainable, "CHECKPOINT_SECONDS", -1)
    other = blank()
    parser = parser_of(other)
    examples = treebank(other)
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
    assert stored(other) == stored(nlp)
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
    settings = {"grammar.rounds": 1, "folds": 2, "epochs": 2}
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


@pytest.mark.parametrize("decoder", ["max_rule_product", "max_rule_sum", "viterbi", "variational"])
def test_every_decoder(nlp, decoder):
    parser = parser_of(nlp)
    parser.decoder = decoder
    doc = nlp(TEXT)
    best = parser.k_best(next(doc.sents), 3)
    assert doc._.parse_failures == ()
    assert strings(doc)[1] == "(S (NP (PRP He)) (VP (VBD opened) (NP (DT the) (NN door))) (. .))"
    assert str(best[0][1]) == f"(TOP {strings(doc)[0]})"
    assert sum(np.exp(log_probability) for log_probability, _ in best) <= 1 + 1e-9


def test_calibration(nlp):
    parser = parser_of(nlp)
    before = scores(nlp(TEXT))
    temperature = parser.calibrate(treebank(nlp))
    assert parser.parameters.temperature == temperature != 1.0
    assert ((scores(nlp(TEXT)) > before) == (temperature < 1)).all()


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
    features = serialization.pack("features", 1, own.features.fields())
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
    # Trained on few trees, all weights of features are small.
    small = parser_of(nlp).parameters.compact(1e-6, storage, feature_threshold=1e-5)
    parser_of(other).parameters = small
    again = pickle.loads(pickle.dumps(other))
    assert parser_of(again).parameters == parser_of(other).parameters
    assert strings(again(TEXT)) == strings(nlp(TEXT))
    tolerance = {"float32": 2e-3, "float16": 0.02, "log8": 0.15}[storage]
    np.testing.assert_allclose(scores(again(TEXT)), scores(nlp(TEXT)), atol=tolerance)


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


def test_loading_one_imports_no_scipy(nlp, tmp_path):
    nlp.to_disk(tmp_path / "model")
    code = (
        "import sys, spacy\n"
        f"spacy.load({str(tmp_path / 'model')!r})({TEXT!r})\n"
        "assert 'scipy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
