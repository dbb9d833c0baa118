"""What is particular to neural grammars: layers beside the parameters, and tokens as data."""

import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import spacy
import srsly
from contracts import components
from contracts.components import COMPONENTS, GRAMMAR, TEXT
from pipeline.written import config_of
from spacy import registry
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.training.pretrain import get_tok2vec_ref

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.architectures import TOK2VEC

NAME = "spacy_structlearn.NeuralGrammar.v2"
CONFIG = config_of("constituency_parser.NeuralGrammar")
LISTED = COMPONENTS["constituency_parser NeuralGrammar"]
blank, trained, parser_of, treebank, stored = (
    partial(function, LISTED)
    for function in (
        components.blank,
        components.trained,
        components.part,
        components.examples,
        components.stored,
    )
)


@pytest.fixture
def nlp():
    return components.own(LISTED)


def strings(doc):
    return [s._.parse_string for s in doc.sents if not s.text.isspace()]


def scores(doc):
    return doc.spans["constituents"].attrs["scores"]


# --- settings -------------------------------------------------------------------------------------
def test_spacy_finds_the_layers_that_it_can_pretrain():
    nlp = blank()
    layer = get_tok2vec_ref(nlp, {"component": "constituency_parser", "layer": "tok2vec"})
    assert layer is parser_of(nlp).network.tok2vec


# --- training -------------------------------------------------------------------------------------
def test_learns_the_sample(nlp):
    found = nlp.evaluate(treebank(nlp))
    for name in ("W_phrase", "b_phrase", "W_tag"):
        parser_of(nlp).network.scorer.get_param(name)[:] = 0
    without = nlp.evaluate(treebank(nlp))
    assert found["constituents_f"] > without["constituents_f"] + 0.005


def test_training_again_ends_at_the_same_parser(nlp):
    other = blank()
    examples = treebank(other)
    parser_of(other).initialize(lambda: examples[:2])
    parser_of(other).fit(examples[:2])
    parser_of(other).initialize(lambda: examples)
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


@pytest.mark.parametrize(
    "settings",
    [
        {
            "features": {"@misc": "spacy_structlearn.span_features.v2", "buckets": 2**12},
            "grammar": GRAMMAR | {"grammars": 2},
        },
        {
            "grammar": GRAMMAR
            | {"@architectures": "spacy_structlearn.ConditionalGrammar.v2"}
            | {"conditional_iterations": 2},
            "fit_weight": True,
            "tok2vec": None,
        },
    ],
    ids=["features, product", "conditional, weight, default layers"],
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
def test_the_config_is_that_of_the_defaults():
    model = spacy.util.load_config(CONFIG, interpolate=True)["components"]["constituency_parser"]
    nlp = spacy.blank("en")
    nlp.add_pipe("constituency_parser", config={"model": model["model"]})
    default = registry.architectures.get(NAME)().attrs["estimator"]
    estimator = parser_of(nlp).estimator
    assert replace(estimator, grammar=None) == default
    assert model["model"]["tok2vec"] == TOK2VEC
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


# --- storage --------------------------------------------------------------------------------------


def test_damaged_layers(nlp):
    """An array of another shape or type, one that is none, one with NaN, and other sizes."""
    other = parser_of(blank())
    for name, change in (
        ("W_phrase", lambda array: array[:, 1:].copy()),
        ("W_tag", lambda array: array.astype(np.int32)),
        ("W_tag", lambda _: "W_tag"),
        ("W_span", lambda array: np.where(array == array[3, 4], np.nan, array)),
        ("edges", lambda _: None),
        (None, None),
    ):
        bytes_data = srsly.msgpack_loads(parser_of(nlp).to_bytes(exclude=["vocab"]))
        model = srsly.msgpack_loads(bytes_data["model"])
        place = next(i for i, node in enumerate(model["nodes"]) if node["name"] == "span_scorer")
        params = model["params"][place]
        if name is None:
            model["nodes"][place]["dims"]["nO"] += 1
        else:
            model["params"][place] = {**params, name: change(params[name])}
        bytes_data["model"] = srsly.msgpack_dumps(model)
        with pytest.raises(StructlearnError, match=r"SL08[02]"):
            other.from_bytes(srsly.msgpack_dumps(bytes_data), exclude=["vocab"])
