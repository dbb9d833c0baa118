"""Every architecture and option of a chain model through the chunker; those of grammars, and of
classifiers.
"""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import registry
from spacy.vocab import Vocab
from thinc.api import Config, Linear, Model

from spacy_structlearn.classification import (
    BayesNetSettings,
    LogLinearSettings,
    StagesSettings,
    Table,
)
from spacy_structlearn.classification.features import ClassificationData
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.batch_trainable import BatchTrainable
from spacy_structlearn.pipeline.pp_attacher import PPAttacher
from spacy_structlearn.sequence.classes import learn
from spacy_structlearn.sequence.decode import marginals

SETTINGS = {
    "first order": {"@architectures": "spacy_structlearn.CRF.v1"},
    "label pairs": {"@architectures": "spacy_structlearn.CRF.v1", "order": 2},
    "label pairs, label features": {
        "@architectures": "spacy_structlearn.CRF.v1",
        "order": 2,
        "pair_features": False,
    },
    "IOE2": {"@architectures": "spacy_structlearn.CRF.v1", "encoding": "IOE2"},
    "IOBES": {"@architectures": "spacy_structlearn.CRF.v1", "encoding": "IOBES", "order": 2},
    "threads": {"@architectures": "spacy_structlearn.CRF.v1", "threads": 2},
    "l1": {"@architectures": "spacy_structlearn.CRF.v1", "l1": 0.05, "l2": 0.2},
    "memm": {"@architectures": "spacy_structlearn.MEMM.v1"},
    "memm, label pairs": {"@architectures": "spacy_structlearn.MEMM.v1", "order": 2},
    "pseudolikelihood": {"@architectures": "spacy_structlearn.PseudoLikelihood.v1"},
    "pseudolikelihood, label pairs": {
        "@architectures": "spacy_structlearn.PseudoLikelihood.v1",
        "order": 2,
    },
    "pseudolikelihood, joint": {
        "@architectures": "spacy_structlearn.PseudoLikelihood.v1",
        "templates": ["ORTH[0]", "TAG[0]"],
        "order": 2,
        "joint": True,
    },
    "m-estimation": {"@architectures": "spacy_structlearn.MEstimation.v1"},
    "m-estimation, empirical": {
        "@architectures": "spacy_structlearn.MEstimation.v1",
        "base": "empirical",
        "encoding": "IOBES",
        "pair_features": False,
    },
    "m-estimation, specialized": {
        "@architectures": "spacy_structlearn.MEstimation.v1",
        "base": "specialized",
    },
    "perceptron": {"@architectures": "spacy_structlearn.Perceptron.v1"},
    "perceptron, first order": {"@architectures": "spacy_structlearn.Perceptron.v1", "order": 1},
    "stochastic crf": {
        "@architectures": "spacy_structlearn.StochasticCRF.v1",
        "max_iterations": 10,
    },
    "hmm": {"@architectures": "spacy_structlearn.HMM.v1"},
}
CLOSED = (
    "hmm",
    "m-estimation",
    "m-estimation, empirical",
    "m-estimation, specialized",
    "pseudolikelihood, joint",
)


@pytest.fixture(params=SETTINGS)
def trained(request, make_chunker, make_examples):
    nlp = make_chunker(model=SETTINGS[request.param])
    return request.param, nlp, make_examples(nlp)


def test_learns_predicts_and_is_stored(trained, tmp_path):
    name, nlp, examples = trained
    chunker = nlp.get_pipe("np_chunker")
    docs = [chunker(example.predicted) for example in examples]
    f1 = chunker.score(examples)["np_chunk_f"]
    # With a closed vocabulary words that were seen once are known as unknown ones only.
    assert f1 > 0.6 if name in CLOSED else f1 == 1.0
    for doc in docs:
        scores = doc.spans["np_chunks"].attrs["scores"]
        assert ((scores >= 0) & (scores <= 1 + 1e-6)).all()
    nlp.to_disk(tmp_path / "model")
    again = spacy.load(tmp_path / "model").get_pipe("np_chunker")
    assert again.parameters == chunker.parameters
    assert again.predict(docs) == chunker.predict(docs)


def test_l1_leaves_few_weights(make_chunker):
    many, few = (
        make_chunker(model=SETTINGS[name]).get_pipe("np_chunker").parameters.n_features
        for name in ("first order", "l1")
    )
    assert few < 0.7 * many


def test_threads_change_nothing_but_rounding(make_chunker):
    one, two = (
        make_chunker(model=SETTINGS[name]).get_pipe("np_chunker").parameters
        for name in ("first order", "threads")
    )
    np.testing.assert_allclose(one.weights, two.weights, atol=1e-4)


def test_warm_start_keeps_the_weights_of_what_was_known(make_chunker, make_examples):
    model = {"@architectures": "spacy_structlearn.CRF.v1", "warm_start": True}
    nlp = make_chunker(model=model)
    chunker = nlp.get_pipe("np_chunker")
    before = chunker.parameters
    examples = make_examples(nlp)
    chunker.initialize(lambda: examples)
    after = chunker.parameters
    rows = after.rows(before.keys)
    assert (rows >= 0).all()
    np.testing.assert_allclose(after.weights[rows], before.weights, atol=1e-6)
    iterations = []
    chunker.fit(examples, on_iteration=lambda i, _: iterations.append(i))
    cold = []
    fresh = spacy.blank("en").add_pipe("np_chunker")
    fresh.initialize(lambda: examples)
    fresh.fit(examples, on_iteration=lambda i, _: cold.append(i))
    assert len(iterations) < len(cold)


def test_m_estimation_by_both_doors(make_chunker, make_examples):
    settings = {"model": {"@architectures": "spacy_structlearn.MEstimation.v1", "tolerance": 1e-9}}
    fitted = make_chunker(**settings).get_pipe("np_chunker").parameters
    assert set(fitted.vocabularies) == {"ORTH", "TAG"}
    nlp = spacy.blank("en")
    nlp.add_pipe("np_chunker", config=settings)
    examples = make_examples(nlp)
    nlp.initialize(lambda: examples)
    for start in range(0, len(examples), 3):
        nlp.update(examples[start : start + 3])
    for _ in range(20):
        losses = nlp.update(examples[::-1])  # spaCy shuffles them
    assert nlp.get_pipe("np_chunker").parameters == fitted
    assert losses["np_chunker"] != 0.0


def test_m_estimation_without_regulariser(make_chunker):
    model = make_chunker(model={**SETTINGS["m-estimation"], "l2": 0.0})
    model = model.get_pipe("np_chunker").parameters
    columns = np.full((3, len(model.templates.columns)), 99, dtype=np.uint64)
    for name, known in model.vocabularies.items():
        columns[:2, model.templates.columns.index(name)] = known[:2]
    p = marginals(model, model.derive(columns), np.array([0, 3]))
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


@pytest.mark.parametrize("name", ["m-estimation", "pseudolikelihood, joint"])
def test_unknown_words_are_one(make_chunker, make_examples, name):
    nlp = make_chunker(model=SETTINGS[name])
    chunker = nlp.get_pipe("np_chunker")
    before = chunker.parameters
    assert 0 < len(before.vocabularies["ORTH"]) < 20
    docs = [
        Doc(nlp.vocab, words=["the", word, "slept", "."], tags=["DT", "NN", "VBD", "."])
        for word in ("table", "zebra")
    ]
    # One was seen once, one never.
    first, second = chunker.predict(docs)
    assert first == second
    # Trained anew, it forgets no word.
    nlp.initialize(lambda: make_examples(nlp))
    chunker.fit(make_examples(nlp))
    assert chunker.parameters == before


def test_word_classes(make_examples, tmp_path):
    nlp = spacy.blank("en")
    examples = make_examples(nlp)
    docs = [example.predicted for example in examples]
    ids = np.concatenate([doc.to_array("ORTH") for doc in docs])
    shapes = np.concatenate([doc.to_array("SHAPE") for doc in docs])
    offsets = np.cumsum([0, *map(len, docs)])
    classes = learn(ids, offsets, 6, backoff=shapes, min_count=1)
    path = tmp_path / "classes"
    path.write_bytes(classes.to_bytes())
    model = {
        "@architectures": "spacy_structlearn.CRF.v1",
        "templates": ["CLASS[0]", "CLASS2[-1]|CLASS2[0]", "bias"],
        "classes": str(path),
    }
    chunker = nlp.add_pipe("np_chunker", config={"model": model})
    chunker.initialize(lambda: examples)
    chunker.fit(examples)
    assert chunker.parameters.classes == classes
    expected = chunker.predict(docs)
    # The model holds its classes: the file is needed in training alone.
    path.unlink()
    config = nlp.config.copy()
    config["components"]["np_chunker"]["model"]["classes"] = None
    again = spacy.blank("en").from_config(config)
    again.get_pipe("np_chunker").from_bytes(chunker.to_bytes())
    assert again.get_pipe("np_chunker").predict(docs) == expected


def test_missing_classes_are_an_error(make_examples):
    nlp = spacy.blank("en")
    model = {"@architectures": "spacy_structlearn.CRF.v1", "templates": ["CLASS[0]"]}
    chunker = nlp.add_pipe("np_chunker", config={"model": model})
    with pytest.raises(StructlearnError, match="SL241"):
        chunker.initialize(lambda: make_examples(nlp))
    other = nlp.add_pipe("np_chunker", name="b", config={"model": {**model, "classes": "nowhere"}})
    with pytest.raises(StructlearnError, match="SL010"):
        other.initialize(lambda: make_examples(nlp))


def test_n_best_and_known_tags(make_chunker):
    nlp = make_chunker()
    chunker = nlp.get_pipe("np_chunker")
    doc = Doc(nlp.vocab, words=["the", "red", "dog", "slept"], tags=["DT", "JJ", "NN", "VBD"])
    readings = chunker.n_best(doc, 4)
    scores = [score for score, _ in readings]
    assert scores == sorted(scores, reverse=True)
    assert len(readings) == 4
    assert [chunk.text for chunk in readings[0][1]] == ["the red dog"]
    assert len({tuple((c.start, c.end) for c in chunks) for _, chunks in readings}) > 1
    forced = chunker.n_best(doc, 1, known={1: "O", 3: "B-NP"})[0][1]
    assert (3, 4) in [(chunk.start, chunk.end) for chunk in forced]
    assert not any(chunk.start <= 1 < chunk.end for chunk in forced)
    assert len(chunker.n_best(doc, 1000)) == 3**4


def test_n_best_names_bad_input(make_chunker):
    nlp = make_chunker()
    chunker = nlp.get_pipe("np_chunker")
    doc = Doc(nlp.vocab, words=["a", "dog"], tags=["DT", "NN"])
    with pytest.raises(StructlearnError, match="B-XP"):
        chunker.n_best(doc, known={0: "B-XP"})
    two = Doc(nlp.vocab, words=["a", "dog"], tags=["DT", "NN"], sent_starts=[True, True])
    with pytest.raises(StructlearnError, match="one sentence"):
        chunker.n_best(two)


def test_other_chunks_in_a_group_of_their_own(make_examples):
    nlp = spacy.blank("en")
    chunker = nlp.add_pipe("np_chunker", name="chunker", config={"spans_key": "chunks"})
    examples = []
    for example in make_examples(nlp):
        reference = example.reference
        reference.spans["chunks"] = [
            *reference.spans["np_chunks"],
            *(Span(reference, t.i, t.i + 1, "VP") for t in reference if t.tag_ == "VBD"),
        ]
        del reference.spans["np_chunks"]
        examples.append(Example(example.predicted, reference))
    nlp.initialize(lambda: examples)
    chunker.fit(examples)
    assert chunker.labels == ("NP", "VP")
    for example in examples:
        chunker(example.predicted)
        assert "np_chunks" not in example.predicted.spans
    assert chunker.score(examples)["np_chunk_per_type"]["VP"]["f"] == 1.0


def test_gold_chunks_across_a_sentence_boundary_are_left_out(make_examples):
    nlp = spacy.blank("en")
    settings = {**SETTINGS["label pairs"], "encoding": "IOBES"}
    chunker = nlp.add_pipe("np_chunker", config={"model": settings})
    examples = make_examples(nlp)
    reference = examples[0].reference
    starts = [index in (0, 2) for index in range(len(reference))]
    cut = Doc(
        nlp.vocab,
        words=[token.text for token in reference],
        tags=[token.tag_ for token in reference],
        sent_starts=starts,
    )
    examples[0] = Example(cut, reference)
    chunker.initialize(lambda: examples)
    assert chunker.gold_data(examples[0]).tags[:3] == ("O", "O", "O")
    assert chunker.fit(examples) > 0


# --- classifiers ----------------------------------------------------------------------------------
def test_settings_of_bayesian_networks():
    build = registry.architectures.get("spacy_structlearn.BayesNet.v1")
    assert build().attrs["estimator"] == BayesNetSettings()
    assert build().attrs["parameters"].is_empty
    settings = {
        "structure": {"p": [], "v": ["p"]},
        "fit_d": "joint",
        "n_d": "one",
        "smoothing": "uniform",
        "max_parents": 2,
        "min_gain": 0.5,
        "l2": 0.25,
    }
    assert build(**settings).attrs["estimator"] == BayesNetSettings(**settings)


def test_settings_of_log_linear_models():
    build = registry.architectures.get("spacy_structlearn.LogLinear.v1")
    assert build().attrs["estimator"] == LogLinearSettings(templates="search")
    assert build().attrs["parameters"].is_empty
    settings = {
        "templates": [["p"], ["v", "p"]],
        "l2": [0.1, 1.0],
        "l2_per_label": {"V": 2.0},
        "max_conjunction": 2,
        "min_gain": 0.5,
        "max_templates": 3,
        "min_count": 2,
        "max_iterations": 7,
        "tolerance": 0.1,
        "search_tolerance": 0.2,
    }
    assert build(**settings).attrs["estimator"] == LogLinearSettings(**settings)
    base = registry.architectures.get("spacy_structlearn.BayesNet.v1")(structure="naive")
    stacked = build(base=base).attrs["estimator"].base
    assert stacked == BayesNetSettings(structure="naive")


@pytest.mark.parametrize(
    ("name", "bad", "code"),
    [
        ("BayesNet", {"structure": "tree"}, "SL043"),
        ("BayesNet", {"fit_d": "some"}, "SL043"),
        ("BayesNet", {"l2": -1.0}, "SL043"),
        ("LogLinear", {"templates": "all"}, "SL043"),
        ("LogLinear", {"l2": -1.0}, "SL043"),
        ("LogLinear", {"base": {"@architectures": "spacy_structlearn.HMM.v1"}}, "SL043.*base"),
        (
            "LogLinear",
            {"base": {"@architectures": "spacy_structlearn.LogLinear.v1"}},
            "SL043.*base",
        ),
    ],
)
def test_bad_settings_of_classifiers(name, bad, code):
    model = {"@architectures": f"spacy_structlearn.{name}.v1", **bad}
    with pytest.raises(StructlearnError, match=code):
        spacy.blank("en").add_pipe("pp_attacher", config={"model": model})


@pytest.mark.parametrize(
    ("component", "name"),
    [
        ("pp_attacher", "CRF"),
        ("pp_attacher", "LatentGrammar"),
        ("np_chunker", "LogLinear"),
        ("chain_tagger", "LatentGrammar"),
        ("np_chunker", "ConditionalGrammar"),
        ("constituency_parser", "BayesNet"),
        ("constituency_parser", "HMM"),
    ],
)
def test_architectures_of_another_family_are_refused(component, name):
    model = {"@architectures": f"spacy_structlearn.{name}.v1"}
    with pytest.raises(StructlearnError, match=f"SL029.*{component}.*its default"):
        spacy.blank("en").add_pipe(component, config={"model": model})


def test_a_network_of_thinc_is_refused():
    with pytest.raises(StructlearnError, match=r"SL029.*'linear'"):
        PPAttacher(Vocab(), Linear(2, 2))


def test_settings_of_classifiers_are_read_from_a_config_as_they_were_written(tmp_path):
    settings = {"structure": {"p": [], "n1": ["p"]}, "fit_d": None}
    model = {"@architectures": "spacy_structlearn.BayesNet.v1", **settings}
    nlp = spacy.blank("en")
    attacher = nlp.add_pipe("pp_attacher", config={"model": model})
    nlp.config.to_disk(tmp_path / "config.cfg")
    again = spacy.util.load_model_from_config(spacy.util.load_config(tmp_path / "config.cfg"))
    assert again.get_pipe("pp_attacher").estimator == attacher.estimator
    assert attacher.estimator == BayesNetSettings(**settings)


# --- stages ---------------------------------------------------------------------------------------
STAGES = """
[model]
@architectures = "spacy_structlearn.Stages.v1"
order = ["nouns", "determiners"]

[model.stages]

[model.stages.determiners]
@architectures = "spacy_structlearn.LogLinear.v1"
templates = [["tag"], ["word", "tag"]]
l2 = 0.1

[model.stages.nouns]
@architectures = "spacy_structlearn.BayesNet.v1"
structure = "naive"
"""


class WordStages(BatchTrainable):
    """Two questions about each word of a Doc, for the tests of stages."""

    parameter = "stages"
    annotation = "tags"

    def gold_labels(self, example):
        return ("no", "yes")

    def gold_data(self, example):
        rows = [(token.lower_, token.tag_) for token in example.reference]
        found = {}
        for stage, tag in (("nouns", "NN"), ("determiners", "DT")):
            labels = tuple("yes" if row[1] == tag else "no" for row in rows)
            found[stage] = ClassificationData(Table.of(rows, ("word", "tag")), labels)
        return found

    def predict(self, docs):
        rows = {"word": ["the", "dog", "?"], "tag": ["DT", "NN", "?"]}
        return self.parameters["determiners"].predict_proba(rows)[:, 1].tolist()

    def set_annotations(self, docs, scores):
        pass


@Language.factory("word_stages", default_config=Config().from_str(STAGES))
def make_word_stages(nlp: Language, name: str, model: Model):
    return WordStages(nlp.vocab, model, name)


@pytest.fixture
def word_stages(make_examples):
    """A pipeline whose component has a model of two stages, and its examples."""
    nlp = spacy.blank("en")
    nlp.add_pipe("word_stages")
    examples = make_examples(nlp)
    nlp.initialize(lambda: examples)
    return nlp, examples


def test_stages_are_sections_within_a_section():
    model = registry.resolve(Config().from_str(STAGES))["model"]
    assert model.attrs["estimator"] == StagesSettings(
        stages={
            "nouns": BayesNetSettings(structure="naive"),
            "determiners": LogLinearSettings(templates=[["tag"], ["word", "tag"]], l2=0.1),
        },
        order=["nouns", "determiners"],
    )
    assert model.attrs["parameters"].is_empty
    assert model.attrs["parameters"].stages == ("nouns", "determiners")
    build = registry.architectures.get("spacy_structlearn.Stages.v1")
    stages = {"a": registry.architectures.get("spacy_structlearn.LogLinear.v1")(), "b": model}
    assert build(stages=stages, order=["a"]).attrs["parameters"].stages == ("a",)


def test_stages_are_learned_by_both_doors_to_the_same_point(word_stages):
    nlp, examples = word_stages
    component = nlp.get_pipe("word_stages")
    assert component.labels == component.parameters.labels == ("no", "yes")
    component.fit(examples)
    expected = component.predict([])
    assert component.parameters["nouns"].used == ("word", "tag")
    assert expected == pytest.approx([1, 0, 0], abs=0.3)
    nlp.initialize(lambda: examples)
    for start in range(0, len(examples), 2):
        nlp.update(examples[start : start + 2])
    for _ in range(20):
        losses = nlp.update(examples)
    assert losses["word_stages"] > 0
    np.testing.assert_allclose(component.predict([]), expected, atol=1e-3)


def test_a_pipeline_with_stages_is_stored(word_stages, tmp_path):
    nlp, examples = word_stages
    component = nlp.get_pipe("word_stages")
    component.fit(examples)
    expected = component.parameters.to_bytes()
    nlp.to_disk(tmp_path / "model")
    loaded = spacy.load(tmp_path / "model")
    from_bytes = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    for other in (loaded, from_bytes, pickle.loads(pickle.dumps(nlp))):
        found = other.get_pipe("word_stages")
        assert found.parameters.to_bytes() == expected
        assert found.parameters.stages == ("nouns", "determiners")
        assert found.estimator == component.estimator
        assert found.predict([]) == component.predict([])
    model = pickle.loads(pickle.dumps(component.model))
    assert model.attrs["parameters"].to_bytes() == expected


def test_a_stage_is_changed_or_left_out_by_its_name():
    stage = {"@architectures": "spacy_structlearn.LogLinear.v1", "l2": 3.0}
    model = {"@architectures": "spacy_structlearn.Stages.v1", "stages": {"determiners": stage}}
    component = spacy.blank("en").add_pipe("word_stages", config={"model": model})
    estimators = component.estimator.stages
    assert list(estimators) == ["nouns", "determiners"]
    assert estimators["determiners"].l2 == 3.0
    assert estimators["determiners"].templates == (("tag",), ("word", "tag"))
    model = {"@architectures": "spacy_structlearn.Stages.v1", "order": ["determiners"]}
    component = spacy.blank("en").add_pipe("word_stages", config={"model": model})
    assert component.parameters.stages == ("determiners",)


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"order": []}, "SL533"),
        ({"order": ["nouns", "nouns"]}, "SL533.*nouns, nouns"),
        ({"order": ["nouns", "verbs"]}, "SL530.*'verbs'"),
        ({"stages": {"nouns": {"@architectures": "spacy_structlearn.HMM.v1"}}}, "SL531.*'nouns'"),
        ({"stages": {"verbs": {"l2": 1.0}}, "order": ["verbs"]}, "SL531.*'verbs'.*dict"),
    ],
)
def test_bad_stages(changed, code):
    model = {"@architectures": "spacy_structlearn.Stages.v1", **changed}
    with pytest.raises(StructlearnError, match=code):
        spacy.blank("en").add_pipe("word_stages", config={"model": model})


def test_stages_have_no_word_classes(tmp_path):
    classes = learn(np.arange(8, dtype=np.uint64), np.array([0, 8]), 2, min_count=1)
    (tmp_path / "classes").write_bytes(classes.to_bytes())
    stage = {
        "@architectures": "spacy_structlearn.BayesNet.v1",
        "classes": str(tmp_path / "classes"),
    }
    model = {"@architectures": "spacy_structlearn.Stages.v1", "stages": {"nouns": stage}}
    with pytest.raises(StructlearnError, match=r"SL532.*'nouns'"):
        spacy.blank("en").add_pipe("word_stages", config={"model": model})


def test_what_was_unpickled_is_stored_whole(tmp_path):
    """Where no builder has run, nobody has told thinc of the classes that are imported late."""
    found = {}
    for name in ("ISBN", "SpanGrammar", "MEstimatedGrammar", "NeuralGrammar"):
        config = {"model": {"@architectures": f"spacy_structlearn.{name}.v1"}}
        parser = spacy.blank("xx").add_pipe("constituency_parser", config=config)
        found[name] = parser, parser.to_bytes().hex()
    (tmp_path / "parsers").write_bytes(pickle.dumps(found))
    script = (
        "import pickle, sys\n"
        "with open(sys.argv[1], 'rb') as file:\n"
        "    found = pickle.load(file)\n"
        "for name, (parser, wanted) in found.items():\n"
        "    assert parser.to_bytes().hex() == wanted, name\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "parsers")], check=True)
