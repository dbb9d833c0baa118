"""Cross-prediction: who annotates which document, and honest scores while training."""

import pytest
import spacy
from spacy.cli.init_config import init_config
from spacy.language import Language
from spacy.tokens import Doc

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.chain_tagger import ChainTagger
from spacy_structlearn.pipeline.readers import (
    create_conll_chunks_reader,
    create_docbin_reader,
    to_example,
)
from spacy_structlearn.pipeline.training import cross_prediction
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
        ([], 7, {"folds": 1}, "SL209"),
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
    assert tags(cross_predict(nlp, given, ["tagger"], folds=2)) == expected


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
