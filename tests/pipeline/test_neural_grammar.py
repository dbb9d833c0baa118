"""Neural grammars as spaCy sees them: settings, both doors to training, storage, odd input."""

import pickle
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import parsers
import pytest
import spacy
import srsly
from parsers import (
    EMBED,
    FILES,
    GRAMMAR,
    SAMPLE,
    TEXT,
    TOK2VEC,
    parser_of,
    scores,
    stored,
    strings,
    treebank,
)
from spacy import registry
from spacy.cli.train import train as spacy_train
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from spacy.training.pretrain import get_tok2vec_ref
from spacy.vocab import Vocab
from thinc.api import Adam

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.settings import NeuralGrammarSettings, SpanFeaturesSettings
from spacy_structlearn.grammar.span_model import SpanGrammar
from spacy_structlearn.pipeline import batch_trainable, fitting
from spacy_structlearn.pipeline.readers import read_treebank

NAME = "spacy_structlearn.NeuralGrammar.v1"
CONFIG = Path(fitting.__file__).parent / "configs" / "constituency_parser.NeuralGrammar.cfg"
blank = partial(parsers.blank, "NeuralGrammar")
trained = partial(parsers.trained, "NeuralGrammar")
FEW = parsers.MODELS["NeuralGrammar"]


@pytest.fixture
def nlp():
    return parsers.loaded("NeuralGrammar")


# --- settings -------------------------------------------------------------------------------------
def test_the_defaults():
    model = registry.architectures.get(NAME)()
    estimator = model.attrs["estimator"]
    network = estimator.network
    assert estimator == NeuralGrammarSettings()
    assert model.attrs["parameters"] == SpanGrammar.empty()
    assert model.layers == [network.tok2vec, network.scorer]
    assert (network.scorer.get_dim("nH"), network.tok2vec.get_dim("nO")) == (160, 192)


def test_settings():
    features = {"@misc": "spacy_structlearn.span_features.v1", "min_word_count": 3}
    estimator = parser_of(blank(features=features, grammar=GRAMMAR | {"grammars": 2})).estimator
    assert estimator.features == SpanFeaturesSettings(min_word_count=3)
    assert estimator.grammar.grammars == 2


def test_spacy_finds_the_layers_that_it_can_pretrain():
    nlp = blank()
    layer = get_tok2vec_ref(nlp, {"component": "constituency_parser", "layer": "tok2vec"})
    assert layer is parser_of(nlp).network.tok2vec


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({"hidden_width": 0}, "SL043.*hidden_width"),
        ({"seed": 2**32}, "SL043.*seed"),
        ({"grammar": GRAMMAR | {"rounds": -1}}, "SL043.*rounds"),
        ({"grammar": {"@architectures": "spacy_structlearn.CRF.v1"}}, "SL043.*grammar is"),
        ({"grammar": TOK2VEC}, "SL043.*grammar is"),
        ({"grammar": {"@architectures": NAME, **FEW}}, "SL043.*grammar is"),
        (
            {"tok2vec": {"@architectures": "spacy.Tok2VecListener.v1", "width": 16}},
            "SL040.*NeuralGrammar.*component '\\*'",
        ),
    ],
)
def test_bad_settings(bad, code):
    with pytest.raises(StructlearnError, match=code):
        blank(**bad)


# --- training -------------------------------------------------------------------------------------
def test_learns_the_sample(nlp):
    found = nlp.evaluate(treebank(nlp))
    for name in ("W_phrase", "b_phrase", "W_tag"):
        parser_of(nlp).network.scorer.get_param(name)[:] = 0
    without = nlp.evaluate(treebank(nlp))
    assert found["constituents_f"] > without["constituents_f"] + 0.005


def test_every_phase_is_reported(nlp):
    other = blank()
    examples = treebank(other)
    parser = parser_of(other)
    parser.initialize(lambda: examples)
    calls = []
    value = parser.fit(examples, on_iteration=lambda *call: calls.append(call))
    assert len(calls) <= parser.estimator.n_reports
    # 2 rounds of each of 3 grammars, 2 folds, 3 epochs: of 11 steps the last has number 10.
    assert calls[-1] == (10, value)
    assert [number for number, _ in calls] == sorted(number for number, _ in calls)
    assert np.isfinite([loss for _, loss in calls]).all()
    assert stored(other) == stored(nlp)


def test_update_ends_at_the_parser_of_fit(nlp):
    stepwise = blank(threads=2)
    examples = treebank(stepwise)
    # Adam with weight decay, which must have no part in it.
    sgd = stepwise.initialize(lambda: examples)
    assert sgd.L2 > 0
    losses = [stepwise.update(examples, sgd=sgd)["constituency_parser"] for _ in range(13)]
    assert losses[-3] == losses[-2] == losses[-1]
    assert not sgd.averages
    assert stored(stepwise) == stored(nlp)


def test_parameters_of_others_change_nothing(nlp):
    before, expected = stored(nlp), strings(nlp(TEXT))
    optimizer = nlp.resume_training()
    assert isinstance(optimizer, Adam(0.001).__class__)
    with nlp.use_params({}):
        assert strings(nlp(TEXT)) == expected
    parser_of(nlp).finish_update(optimizer)
    assert stored(nlp) == before


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
    fresh = blank()
    again = treebank(fresh)
    parser_of(fresh).initialize(lambda: again)
    for each, own in ((fresh, again), (other, examples)):
        went_on = []
        state = tmp_path / f"state{len(each.vocab)}"
        state.write_bytes((tmp_path / "state").read_bytes())
        parser_of(each).fit(
            own, on_iteration=lambda n, _, to=went_on: to.append(n), checkpoint=state
        )
        assert went_on[0] == step
        assert stored(each) == stored(nlp)
        assert not state.exists()


def test_training_again_ends_at_the_same_parser(nlp):
    other = blank()
    examples = treebank(other)
    for _ in range(2):
        parser_of(other).initialize(lambda: examples)
        parser_of(other).fit(examples)
        assert stored(other) == stored(nlp)
    parser_of(other).fit(examples)
    assert stored(other) == stored(nlp)


def test_training_on_fewer_symbols_than_were_announced():
    other = blank(max_iterations=1)
    examples = treebank(other)
    parser = parser_of(other)
    parser.initialize(lambda: examples)
    announced = parser.network.scorer.get_dim("nO")
    parser.fit(examples[:3])
    symbols = parser.parameters.symbols
    assert parser.network.scorer.get_dim("nO") == symbols.size < announced
    assert other(TEXT)._.trees


def test_training_goes_on_with_other_symbols(nlp):
    parser, examples = parser_of(nlp), treebank(nlp)
    parser.initialize(lambda: examples[:2])
    parser.fit(examples[:2])
    known = parser.parameters.symbols.size
    symbols = set()
    for _ in range(12):
        parser.update(examples)
        # The network is of the grammar before until there are forests for it.
        assert len(nlp(TEXT)._.trees) == 2
        symbols.add(parser.network.scorer.get_dim("nO"))
    assert symbols == {known, parser.parameters.symbols.size}


def test_a_grammar_that_the_network_was_not_trained_with(nlp):
    other = blank()
    examples = treebank(other, 2)
    parser_of(other).initialize(lambda: examples)
    parser_of(nlp).parameters = parser_of(other).parameters
    with pytest.raises(StructlearnError, match="SL439"):
        nlp(TEXT)
    # One that has learned nothing takes nothing away.
    parser_of(other).parameters = (
        pickle.loads(pickle.dumps(nlp)).get_pipe("constituency_parser").parameters
    )
    assert len(other(TEXT)._.trees) == 2


def test_sentences_without_tokens_of_their_own():
    """Predicted Docs with other tokens, and gold trees with traces."""
    other = blank(max_iterations=1)
    examples = treebank(other, 3)
    for example in examples:
        example.predicted = Doc(other.vocab, words=["other", "words"])
    data = parser_of(other).gold_data(examples[0])
    assert [[t.text for t in own] for own, _ in data] == [tree.words() for _, tree in data]
    words, tags = ["He", "*T*", "left"], ["PRP", "-NONE-", "VBD"]
    doc = Doc(other.vocab, words=words, tags=tags, sent_starts=[True, False, False])
    doc.spans["constituents"] = [Span(doc, 0, 3, "S")]
    ((own, tree),) = parser_of(other).gold_data(Example(doc.copy(), doc))
    assert [t.text for t in own] == tree.words() == ["He", "left"]


def test_tokens_are_those_of_the_predicted_doc():
    other = blank()
    example = treebank(other, 1)[0]
    example.predicted[0].lemma_ = "seen"
    data = parser_of(other).gold_data(example)
    assert data[0][0][0].lemma_ == "seen"


def test_layers_may_read_what_other_components_set():
    embed = EMBED | {"attrs": ["NORM", "TAG"], "rows": [500, 200]}
    other = trained(tok2vec=TOK2VEC | {"embed": embed})
    docs = [Doc(other.vocab, words=["He", "left", "."], tags=tags) for tags in (None, ["A"] * 3)]
    first, second = (scores(parser_of(other)(doc)) for doc in docs)
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    "settings",
    [
        {"features": {"@misc": "spacy_structlearn.span_features.v1", "buckets": 2**12}},
        {"grammar": GRAMMAR | {"grammars": 2}},
        {
            "grammar": GRAMMAR
            | {"@architectures": "spacy_structlearn.ConditionalGrammar.v1"}
            | {"conditional_iterations": 2}
        },
        {"fit_weight": True},
        {"tok2vec": None},
    ],
    ids=["features", "product", "conditional", "weight", "default layers"],
)
def test_other_parts(settings, tmp_path):
    other = trained(**settings, max_iterations=1, threads=2)
    doc = other(TEXT)
    assert strings(doc)[1].startswith("(S (NP (PRP He))")
    other.to_disk(tmp_path / "model")
    again = spacy.load(tmp_path / "model")
    assert strings(again(TEXT)) == strings(doc)
    np.testing.assert_array_equal(scores(again(TEXT)), scores(doc))


# --- two doors ------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def overrides(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    docs = [doc for _, doc in read_treebank(Vocab(), SAMPLE / "sample.trees", **FILES)]
    DocBin(docs=docs[2:]).to_disk(folder / "train.spacy")
    DocBin(docs=docs[:2]).to_disk(folder / "dev.spacy")
    settings = {"grammar.rounds": 1, "folds": 2, "max_iterations": 2, "tok2vec.encode.depth": 1}
    return {
        **{f"paths.{name}": str(folder / f"{name}.spacy") for name in ("train", "dev")},
        **{f"components.constituency_parser.model.{k}": v for k, v in settings.items()},
    }


def test_both_doors_end_at_the_same_parser(overrides, tmp_path):
    config = spacy.util.load_config(CONFIG)
    config["training"]["logger"] = {
        "@loggers": "spacy.ConsoleLogger.v3",
        "output_file": str(tmp_path / "log"),
    }
    config.to_disk(tmp_path / "config.cfg")
    straight = fitting.train(CONFIG, tmp_path / "model", overrides=overrides, progress=False)
    spacy_train(tmp_path / "config.cfg", tmp_path / "out", overrides=overrides)
    steps = spacy.load(tmp_path / "out" / "model-last")
    ours = stored(straight)
    assert stored(steps) == ours
    assert stored(spacy.load(tmp_path / "model")) == ours
    performance = straight.meta["performance"]
    assert 0.3 < performance["constituents_f"] < 1.0
    for name, value in performance.items():
        assert steps.meta["performance"][name] == pytest.approx(value, rel=1e-6)
    logged = list(srsly.read_jsonl(tmp_path / "log"))
    assert len(logged) >= 10
    assert all(line["scores"]["constituents_f"] > 0 for line in logged)


def test_the_config_is_that_of_the_defaults():
    model = spacy.util.load_config(CONFIG, interpolate=True)["components"]["constituency_parser"]
    nlp = spacy.blank("en")
    nlp.add_pipe("constituency_parser", config={"model": model["model"]})
    default = registry.architectures.get(NAME)().attrs["estimator"]
    estimator = parser_of(nlp).estimator
    assert replace(estimator, grammar=None) == default
    assert [n.name for n in estimator.network.tok2vec.walk()] == [
        n.name for n in default.network.tok2vec.walk()
    ]


# --- prediction -----------------------------------------------------------------------------------
def test_a_parse_does_not_depend_on_its_neighbours(nlp):
    texts = [sent.text for example in treebank(nlp, 4) for sent in example.reference.sents]
    texts = [text for text in texts if text.endswith(".") and '"' not in text]
    assert len(texts) > 20
    together = nlp(" ".join(texts))
    apart = [nlp(text) for text in texts]
    assert [s for doc in apart for s in strings(doc)] == strings(together)
    np.testing.assert_allclose(
        np.concatenate([scores(doc) for doc in apart]), scores(together), atol=1e-5
    )
    piped = list(nlp.pipe(texts, batch_size=3))
    assert [strings(doc) for doc in piped] == [strings(doc) for doc in apart]


def test_white_space_is_not_seen(nlp):
    plain, spaced = nlp("He opened the door."), nlp("He  opened \n the door.")
    assert strings(plain) == strings(spaced)
    np.testing.assert_array_equal(scores(plain), scores(spaced))


def test_no_docs(nlp):
    assert parser_of(nlp).predict([]) == []
    assert list(nlp.pipe([])) == []


def test_tags(nlp):
    parser = parser_of(nlp)
    doc = nlp.make_doc("He opened the door .")
    for token, tag in zip(doc, ["PRP", "VBD", "DT", "VB", "."], strict=True):
        token.tag_ = tag
    parser.tags = "require"
    assert "(VB door)" in parser(doc)._.trees[0].__str__()
    parser.tags, parser.tag_weight = "prior", 0.0
    assert "(NN door)" in str(parser(doc)._.trees[0])
    parser.tags, parser.set_tags = "ignore", True
    assert [token.tag_ for token in parser(doc)] == ["PRP", "VBD", "DT", "NN", "."]


def test_calibration(nlp):
    parser = parser_of(nlp)
    before = scores(nlp(TEXT))
    temperature = parser.calibrate(treebank(nlp))
    assert parser.parameters.temperature == temperature != 1.0
    after = scores(nlp(TEXT))
    assert ((after > before) == (temperature < 1)).all()
    again = pickle.loads(pickle.dumps(nlp))
    np.testing.assert_array_equal(scores(again(TEXT)), after)


def test_calibration_that_fails_changes_nothing(nlp):
    parser_of(nlp).parameters.temperature = 1.25
    with pytest.raises(StructlearnError, match="SL424"):
        parser_of(nlp).calibrate([])
    assert parser_of(nlp).parameters.temperature == 1.25


def test_memory_zone(nlp):
    expected = strings(nlp(TEXT))
    with nlp.memory_zone():
        assert strings(nlp("Glumpf zwirbelte " + TEXT))[-1] == expected[-1]
    assert strings(nlp(TEXT)) == expected


# --- storage --------------------------------------------------------------------------------------
def test_a_model_of_another_width(nlp, tmp_path):
    nlp.to_disk(tmp_path / "model")
    config = spacy.util.load_config(tmp_path / "model" / "config.cfg")
    config["components"]["constituency_parser"]["model"]["hidden_width"] = 13
    config.to_disk(tmp_path / "model" / "config.cfg")
    with pytest.raises(StructlearnError, match=r"SL08[02]"):
        spacy.load(tmp_path / "model")


def _other_sizes(nodes, params):
    nodes["dims"]["nO"] += 1


def _other_shape(nodes, params):
    params["W_phrase"] = params["W_phrase"][:, 1:].copy()


def _other_type(nodes, params):
    params["W_tag"] = params["W_tag"].astype(np.int32)


def _no_array(nodes, params):
    params["W_tag"] = "W_tag"


def _no_number(nodes, params):
    params["W_span"][3, 4] = np.nan


def _nothing(nodes, params):
    params["edges"] = None


@pytest.mark.parametrize(
    "change", [_other_sizes, _other_shape, _other_type, _no_array, _no_number, _nothing]
)
def test_damaged_layers(nlp, change):
    parser = parser_of(nlp)
    bytes_data = srsly.msgpack_loads(parser.to_bytes())
    model = srsly.msgpack_loads(bytes_data["model"])
    place = next(i for i, node in enumerate(model["nodes"]) if node["name"] == "span_scorer")
    model["params"][place] = {name: array.copy() for name, array in model["params"][place].items()}
    change(model["nodes"][place], model["params"][place])
    bytes_data["model"] = srsly.msgpack_dumps(model)
    with pytest.raises(StructlearnError, match=r"SL08[02]"):
        parser_of(blank()).from_bytes(srsly.msgpack_dumps(bytes_data))


def test_compact_grammars_parse_as_the_whole_one(nlp):
    other = pickle.loads(pickle.dumps(nlp))
    parser_of(other).parameters = parser_of(nlp).parameters.compact(1e-6, "float16")
    assert strings(other(TEXT)) == strings(nlp(TEXT))
    np.testing.assert_allclose(scores(other(TEXT)), scores(nlp(TEXT)), atol=0.02)
