"""Cross-prediction: who annotates which document, and honest scores while training."""

import subprocess
import sys

import pytest
import spacy
from contracts.components import ENVIRONMENT
from pipeline.written import config_of
from spacy.cli.init_config import init_config
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import load_config

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.chain_tagger import ChainTagger
from spacy_structlearn.pipeline.extensions import set_spans
from spacy_structlearn.pipeline.readers import (
    create_conll_chunks_reader,
    create_docbin_reader,
    to_example,
)
from spacy_structlearn.pipeline.training import cross_prediction, fitting
from spacy_structlearn.pipeline.training.cross_prediction import (
    create_cross_predicted_reader,
    cross_predict,
    predict_fold,
)

TAGGER = {
    "@architectures": "spacy_structlearn.StochasticCRF.v1",
    "encoding": "none",
    "templates": ["ORTH[0]", "bias"],
}
N_DOCS = 7


@Language.component("keeps_tags_as_lemmas")
def keeps_tags_as_lemmas(doc):
    for token in doc:
        token.lemma_ = token.tag_
    return doc


@pytest.fixture
def nlp():
    """A tagger, and a component that reads its tags."""
    nlp = spacy.blank("en")
    nlp.add_pipe("chain_tagger", config={"model": TAGGER})
    nlp.add_pipe("keeps_tags_as_lemmas")
    return nlp


def examples(nlp, n=N_DOCS):
    """Docs each with a word and a tag that no other has."""
    docs = [
        Doc(nlp.vocab, words=["the", f"word{i}"], tags=["DT", f"T{i}"], sent_starts=[1, 0])
        for i in range(n)
    ]
    return [to_example(doc, tags=False) for doc in docs]


def tags(docs):
    return [[token.tag_ for token in doc] for doc in docs]


# --- folds ----------------------------------------------------------------------------------------
def test_no_document_is_tagged_by_who_has_seen_it(nlp):
    given = examples(nlp)
    found = tags(cross_predict(nlp, given, ["chain_tagger"], folds=3))
    assert [the for the, _ in found] == ["DT"] * N_DOCS
    for i, (_, tag) in enumerate(found):
        same_fold = {f"T{j}" for j in range(N_DOCS) if j % 3 == i % 3}
        assert tag in {"DT", *(f"T{j}" for j in range(N_DOCS))} - same_fold
    assert not any(example.predicted.has_annotation("TAG") for example in given)
    assert nlp.get_pipe("chain_tagger").parameters.is_empty


def test_a_fold_is_tagged_by_who_was_trained_on_the_others(nlp):
    given = examples(nlp)
    found = cross_predict(nlp, given, ["chain_tagger"], folds=3)
    for fold in range(3):
        assert tags(predict_fold(nlp, "chain_tagger", given, fold, 3)) == tags(found[fold::3])
        other = spacy.blank("en")
        tagger = other.add_pipe("chain_tagger", config={"model": TAGGER})
        others = [example for i, example in enumerate(examples(other)) if i % 3 != fold]
        other.initialize(lambda own=others: own)
        tagger.fit(others)
        own = other.pipe(example.predicted for example in examples(other)[fold::3])
        assert tags(own) == tags(found[fold::3])


def test_components_read_those_before_them(nlp):
    docs = cross_predict(nlp, examples(nlp), ["keeps_tags_as_lemmas", "chain_tagger"])
    assert tags(docs) == [[token.lemma_ for token in doc] for doc in docs]


def test_a_frozen_component_annotates_all(nlp):
    given = examples(nlp)
    nlp.initialize(lambda: given)
    nlp.get_pipe("chain_tagger").fit(given)
    nlp.config["training"]["frozen_components"] = ["chain_tagger"]
    with nlp.select_pipes(disable=["chain_tagger"]):  # as spaCy does to initialize the others
        docs = cross_predict(nlp, given, ["chain_tagger"])
    assert tags(docs) == tags(example.reference for example in given)


def test_a_component_of_another_pipeline_learns_on(nlp, monkeypatch):
    given = examples(nlp)
    nlp.initialize(lambda: given)
    nlp.get_pipe("chain_tagger").fit(given)
    known = []
    monkeypatch.setattr(ChainTagger, "fit", lambda self, _: known.append(self.labels))
    cross_predict(nlp, given[:2], ["chain_tagger"])
    assert known == [nlp.get_pipe("chain_tagger").labels] * 2


@pytest.mark.parametrize(
    ("names", "n", "settings", "code"),
    [
        (["tagger"], 7, {}, "SL017"),
        ([], 1, {}, "SL087"),
        ([], 0, {}, "SL087"),
        ([], 7, {"folds": 1}, "SL087"),
        ([], 7, {"epochs": 0}, "SL087"),
    ],
)
def test_what_cannot_be_cross_predicted(nlp, names, n, settings, code):
    with pytest.raises(StructlearnError, match=code):
        cross_predict(nlp, examples(nlp, n), names, **settings)


@pytest.mark.parametrize("frozen", [[], ["tok2vec"], ["tok2vec", "tagger"]])
def test_a_component_keeps_what_it_listens_to(frozen):
    """With a learning rate of 0 the copies are the components themselves."""
    nlp = spacy.util.load_model_from_config(init_config(lang="en", pipeline=["tagger"]))
    given = examples(nlp)
    nlp.config["training"]["optimizer"]["learn_rate"] = 0.0
    nlp.config["training"]["frozen_components"] = frozen
    nlp.initialize(lambda: given)
    expected = tags(nlp.pipe(example.predicted.copy() for example in given))
    assert tags(cross_predict(nlp, given, ["tagger"], folds=2, epochs=1)) == expected


def test_what_a_fresh_component_listens_to_is_trained_with_it():
    nlp = spacy.util.load_model_from_config(init_config(lang="en", pipeline=["tagger"]))
    given = [example for example in examples(nlp, 2) for _ in range(4)]
    (other, *_), settings = given, {"folds": 2, "epochs": 30}
    first, second = (tags(cross_predict(nlp, given, ["tagger"], **settings)) for _ in range(2))
    assert first == second  # seeded
    assert first[0] == [token.tag_ for token in other.reference]


def test_a_corpus_is_cross_predicted_once(nlp, monkeypatch):
    calls = []
    original = cross_prediction.cross_predict

    def counted(*args, **kwargs):
        calls.append(args)
        return original(*args, **kwargs)

    monkeypatch.setattr(cross_prediction, "cross_predict", counted)
    first, second = (
        list(create_cross_predicted_reader(corpus, ["chain_tagger"], folds=2)(nlp))
        for corpus in (examples, examples)
    )
    assert len(calls) == 1
    docs = [[example.predicted for example in read] for read in (first, second)]
    assert tags(docs[0]) == tags(docs[1])
    assert docs[0][0] is not docs[1][0]
    list(create_cross_predicted_reader(lambda nlp: examples(nlp, 4), ["chain_tagger"])(nlp))
    list(create_cross_predicted_reader(examples, ["chain_tagger"], folds=3)(nlp))
    assert len(calls) == 3


# --- tags of the corpus ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("names", "refused"),
    [
        (["tagger"], True),
        (["chain_tagger", "np_chunker"], True),
        (["np_chunker", "chain_tagger"], True),
        (["chain_tagger"], False),  # which does not keep them
        (["sentencizer", "np_chunker"], False),
        (["constituency_parser", "np_chunker"], False),
    ],
)
def test_tags_of_the_corpus_never_pass_for_predictions(names, refused, paths, tmp_path):
    nlp = spacy.blank("en")
    for name in names:
        nlp.add_pipe(name)
    columns = tmp_path / "columns"
    columns.write_text("Birds NNS B-NP\nsang VBD O\n\n", encoding="utf8")
    given = [(create_docbin_reader, paths["paths.dev"]), (create_conll_chunks_reader, columns)]
    for create, path in given:
        if refused:
            with pytest.raises(StructlearnError, match="SL086"):
                list(create(path)(nlp))
        else:
            assert next(iter(create(path)(nlp))).predicted.has_annotation("TAG")
        assert not next(iter(create(path, tags=False)(nlp))).predicted.has_annotation("TAG")


def test_a_parser_that_sets_tags_is_a_tagger(paths):
    nlp = spacy.blank("en")
    nlp.add_pipe("constituency_parser", config={"set_tags": True})
    nlp.add_pipe("np_chunker")
    with pytest.raises(StructlearnError, match="'constituency_parser'"):
        list(create_docbin_reader(paths["paths.dev"])(nlp))


# --- trees ----------------------------------------------------------------------------------------
def test_the_labeler_learns_from_predicted_trees(paths):
    """In flat trees every word is a candidate, so there are more of them."""
    nlp = spacy.blank("en")
    labeler = nlp.add_pipe("srl_labeler")
    (example, *_) = create_docbin_reader(paths["paths.dev"])(nlp)
    doc = example.predicted.copy()
    labeler.initialize(lambda: [example])
    set_spans(doc, "constituents", [("X", s.start, s.end) for s in doc.sents])
    flat = labeler.gold_data(Example(doc, example.reference))
    gold = labeler.gold_data(example)
    assert len(flat["identification"].labels) > len(gold["identification"].labels)
    assert flat["predicates"].labels == gold["predicates"].labels
    spans = create_docbin_reader(paths["paths.dev"], spans=["constituents"])(nlp)
    same = labeler.gold_data(next(iter(spans)))
    assert same["identification"].labels == gold["identification"].labels


# --- training -------------------------------------------------------------------------------------
def raw_scores(nlp, paths):
    """Scores on Docs with words and sentences alone."""
    return nlp.evaluate(list(create_docbin_reader(paths["paths.dev"], tags=False)(nlp)))


def test_several_components_are_scored_on_predictions(paths, tmp_path):
    names = ["chain_tagger", "constituency_parser", "np_chunker", "pp_attacher", "srl_labeler"]
    config = load_config(config_of("pipeline"))
    assert config["nlp"]["pipeline"] == names
    assert config["corpora"]["train"]["annotating"] == names[:2]
    config["components"]["constituency_parser"]["model"]["rounds"] = 1
    config["components"]["chain_tagger"]["model"]["max_iterations"] = 3
    config["corpora"]["train"]["folds"] = 2
    config.to_disk(tmp_path / "config.cfg")
    nlp = fitting.train(tmp_path / "config.cfg", tmp_path / "model", overrides=paths)
    found, shown = raw_scores(spacy.load(tmp_path / "model"), paths), nlp.meta["performance"]
    for name in ("tag_acc", "constituents_f", "np_chunk_f", "pp_attachment_acc", "srl_f"):
        assert shown[name] == pytest.approx(found[name])
        assert 0.1 < shown[name] < 0.99


INIT = ["init", "config", "--pipeline", "tagger,np_chunker"]
CROSS_PREDICTED = {
    "@readers": "spacy_structlearn.CrossPredicted.v1",
    "annotating": ["tagger"],
    "folds": 2,
    "epochs": 5,
    "corpus": {
        "@readers": "spacy_structlearn.DocBin.v1",
        "path": "${paths.train}",
        "tags": False,
    },
}


def spacy_command(*arguments):
    command = [sys.executable, "-m", "spacy", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=600)


def test_spacys_tagger_in_spacys_own_training(paths, tmp_path):
    """With the config of `spacy init config`, and the reader that SL001 names."""
    path = tmp_path / "config.cfg"
    spacy_command(*INIT, path)
    options = [f"--{name}={value}" for name, value in paths.items()]
    options += ["--training.max_steps=20", "--training.eval_frequency=20"]
    config = load_config(path)
    config["corpora"] = {
        "train": CROSS_PREDICTED,
        "dev": {**CROSS_PREDICTED["corpus"], "path": "${paths.dev}"},
    }
    config.to_disk(path)
    found = spacy_command("train", path, "-o", tmp_path / "out", *options)
    assert found.returncode == 0, found.stderr
    nlp = spacy.load(tmp_path / "out" / "model-best")
    shown = nlp.meta["performance"]
    scores = raw_scores(nlp, paths)
    for name in ("tag_acc", "np_chunk_f"):
        assert shown[name] == pytest.approx(scores[name])
        assert 0.3 < shown[name] < 0.95
