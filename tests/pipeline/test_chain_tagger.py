"""The tagger: the chunker's learners with one label a token, and their probabilities."""

import multiprocessing
import pickle

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline import batch_trainable
from spacy_structlearn.sequence.classes import learn

CRF = {
    "@architectures": "spacy_structlearn.CRF.v1",
    "encoding": "none",
    "templates": ["ORTH[0]", "ORTH[-1]", "SUFFIX[0]", "bias"],
    "l2": 0.2,
}
PERCEPTRON = {
    "@architectures": "spacy_structlearn.Perceptron.v1",
    "encoding": "none",
    "templates": ["ORTH[0]", "SUFFIX2[0]", "bias"],
}
CONFIGS = {"default": {}, "crf": {"model": CRF}, "perceptron": {"model": PERCEPTRON}}
TEXT = "The girl saw my red apples. Zorps sang loudly!"


@pytest.fixture(params=CONFIGS)
def tagger(request, make_examples):
    return trained(make_examples, **CONFIGS[request.param])


@pytest.fixture
def nlp(make_examples):
    """The default tagger, which is unsure of words that it does not know; sentences by rule."""
    nlp, _ = trained(make_examples)
    nlp.add_pipe("sentencizer", first=True)
    return nlp


def trained(make_examples, **config):
    nlp = spacy.blank("en")
    nlp.add_pipe("chain_tagger", config=config)
    examples = [Example(untagged(nlp, eg.reference), eg.reference) for eg in make_examples(nlp)]
    nlp.initialize(lambda: examples)
    nlp.get_pipe("chain_tagger").fit(examples)
    return nlp, examples


def untagged(nlp, doc):
    starts = [token.is_sent_start for token in doc]
    return Doc(nlp.vocab, words=[token.text for token in doc], sent_starts=starts)


def test_learns_its_training_data(tagger):
    nlp, examples = tagger
    assert nlp.evaluate(examples)["tag_acc"] > 0.95


def test_labels_are_the_tags(tagger):
    nlp, examples = tagger
    tags = {token.tag_ for example in examples for token in example.reference}
    assert set(nlp.get_pipe("chain_tagger").labels) == tags


def test_round_trip_through_disk(tagger, tmp_path):
    nlp, _ = tagger
    nlp.to_disk(tmp_path / "model")
    text = "The girl saw my red apples."
    tags = [[token.tag_ for token in each(text)] for each in (nlp, spacy.load(tmp_path / "model"))]
    assert tags[0] == tags[1]
    assert tags[0][0] == "DT"


def test_docs_of_another_vocab(tagger):
    nlp, _ = tagger
    words = ["The", "zorkish", "girl", "saw", "apples", "."]
    known, unknown = (Doc(each.vocab, words=words) for each in (nlp, spacy.blank("en")))
    tags = [[t.tag_ for t in nlp.get_pipe("chain_tagger")(doc)] for doc in (known, unknown)]
    assert tags[0] == tags[1]


def test_white_space_and_empty_docs(tagger):
    nlp, _ = tagger
    assert [token.tag_ for token in nlp(" \n")] == [""]
    assert len(nlp("")) == 0
    assert nlp("The \n dog")[1].tag_ == ""


def test_sentences_with_an_unknown_gold_tag_are_left_out(tagger):
    nlp, _ = tagger
    component = nlp.get_pipe("chain_tagger")
    words = ["Run", "!", "Wug", "!"]
    gold = Doc(
        nlp.vocab, words=words, tags=["VB", ".", "XYZ", "."], sent_starts=[True, False, True, False]
    )
    starts = [True, False, True, False]
    predicted = Doc(nlp.vocab, words=words, sent_starts=starts)
    assert component.gold_data(Example(predicted, gold)).tags == ("VB", ".")


def test_without_tags_there_is_nothing_to_learn():
    nlp = spacy.blank("en")
    nlp.add_pipe("chain_tagger")
    example = Example(nlp.make_doc("A dog"), nlp.make_doc("A dog"))
    with pytest.raises(StructlearnError, match=r"token.tag_"):
        nlp.initialize(lambda: [example])


def test_a_tagger_holds_its_word_classes(make_examples, tmp_path):
    nlp = spacy.blank("en")
    examples = [Example(untagged(nlp, eg.reference), eg.reference) for eg in make_examples(nlp)]
    docs = [example.predicted for example in examples]
    ids, shapes = (
        np.concatenate([doc.to_array(name) for doc in docs]) for name in ("ORTH", "SHAPE")
    )
    classes = learn(ids, np.cumsum([0, *map(len, docs)]), 6, backoff=shapes, min_count=1)
    path = tmp_path / "classes"
    path.write_bytes(classes.to_bytes())
    model = {**CRF, "templates": ["CLASS[0]", "bias"], "classes": str(path)}
    component = nlp.add_pipe("chain_tagger", config={"model": model})
    nlp.initialize(lambda: examples)
    component.fit(examples)
    other = spacy.blank("en").add_pipe("chain_tagger", config={"model": {**model, "classes": None}})
    other.from_bytes(component.to_bytes())
    tagged = [[annotation(each(doc)) for doc in docs] for each in (component, other)]
    assert tagged[0] == tagged[1]


# --- probabilities --------------------------------------------------------------------------------
def annotation(doc):
    return [(token.tag_, token._.tag_probs) for token in doc]


def test_candidates(nlp):
    doc = nlp(TEXT)
    group, scores = doc.spans["tag_candidates"], doc.spans["tag_candidates"].attrs["scores"]
    assert scores.dtype == np.float32
    assert len(group) == len(scores) > 0
    places = [(span.start, -score) for span, score in zip(group, scores.tolist(), strict=True)]
    assert places == sorted(places)
    assert all(span.end == span.start + 1 for span in group)
    unsure = {span.start for span in group}
    for token in doc:
        probs = token._.tag_probs
        assert next(iter(probs)) == token.tag_
        assert list(probs.values()) == sorted(probs.values(), reverse=True)
        if token.i in unsure:
            assert probs[token.tag_] < 0.99
            assert 0.5 < sum(probs.values()) <= 1 + 1e-5
            assert min(list(probs.values())[1:], default=1) >= 0.01
        else:
            assert probs == {token.tag_: 1.0}


def test_probabilities_without_a_tagger_and_where_they_are_lost(nlp):
    doc = nlp("The girl\n saw it.")
    assert doc[2].is_space
    assert doc[2]._.tag_probs is None
    assert nlp.make_doc(TEXT)[0]._.tag_probs is None
    assert Doc.from_docs([doc, doc])[0]._.tag_probs is None
    doc.spans["tag_candidates"].attrs["scores"] = [0.5]
    assert len(doc.spans["tag_candidates"]) != 1
    assert doc[0]._.tag_probs is None


def test_one_text_at_a_time_is_the_same(nlp):
    texts = [TEXT, "", " ", "Run!", "A", "\n\n" + TEXT]
    for doc, text in zip(nlp.pipe(texts), texts, strict=True):
        alone = nlp(text)
        assert [t.tag_ for t in doc] == [t.tag_ for t in alone]
        for a, b in zip(doc, alone, strict=True):
            assert a._.tag_probs == (b._.tag_probs and pytest.approx(b._.tag_probs, rel=1e-5))


def test_a_very_long_sentence(nlp):
    words = ["the", "girl", "saw", "zorps"] * 5000
    doc = nlp.get_pipe("chain_tagger")(Doc(nlp.vocab, words=words))
    assert [token.tag_ for token in doc[:3]] == ["DT", "NN", "VBD"]
    assert np.isfinite(doc.spans["tag_candidates"].attrs["scores"]).all()


def test_merged_tokens(nlp):
    doc = nlp(TEXT)
    expected = doc[-2]._.tag_probs
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    assert doc[-2]._.tag_probs == expected


def test_tagging_anew_replaces_what_was_there(nlp):
    doc = nlp(TEXT)
    expected = annotation(doc)
    doc[0].tag_ = "XX"
    doc.spans["tag_candidates"] = [Span(doc, 0, 1, "XX")]
    assert annotation(nlp.get_pipe("chain_tagger")(doc)) == expected


# --- storage --------------------------------------------------------------------------------------
@pytest.fixture(params=["disk", "bytes", "pickle"])
def restored(request, nlp, tmp_path):
    if request.param == "disk":
        nlp.to_disk(tmp_path / "model")
        return spacy.load(tmp_path / "model")
    if request.param == "bytes":
        return spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    return pickle.loads(pickle.dumps(nlp))


def test_component_round_trip(nlp, restored):
    assert restored.get_pipe("chain_tagger").parameters == nlp.get_pipe("chain_tagger").parameters
    assert annotation(restored(TEXT)) == annotation(nlp(TEXT))


def test_docs_are_stored(nlp):
    doc = nlp(TEXT)
    (stored,) = DocBin(docs=[doc]).get_docs(nlp.vocab)
    copies = [stored, doc.copy(), Doc(nlp.vocab).from_bytes(doc.to_bytes())]
    for copy in [*copies, pickle.loads(pickle.dumps(doc))]:
        assert annotation(copy) == annotation(doc)


def test_many_processes(nlp):
    previous = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("spawn", force=True)
    try:
        docs = list(nlp.pipe([TEXT] * 3, n_process=2, batch_size=1))
    finally:
        multiprocessing.set_start_method(previous, force=True)
    assert [annotation(doc) for doc in docs] == [annotation(nlp(TEXT))] * 3


def test_training_is_deterministic(make_examples):
    first, second = (
        trained(make_examples)[0].get_pipe("chain_tagger").to_bytes() for _ in range(2)
    )
    assert first == second


def test_an_interrupted_fit_goes_on_from_its_checkpoint(make_examples, tmp_path, monkeypatch):
    monkeypatch.setattr(batch_trainable, "CHECKPOINT_SECONDS", -1)
    expected, examples = trained(make_examples)

    def interrupt(iteration, value):
        if iteration == 3:
            raise KeyboardInterrupt

    nlp = spacy.blank("en")
    component = nlp.add_pipe("chain_tagger")
    nlp.initialize(lambda: examples)
    with pytest.raises(KeyboardInterrupt):
        component.fit(examples, on_iteration=interrupt, checkpoint=tmp_path / "state")
    component.fit(examples, checkpoint=tmp_path / "state")
    assert component.parameters == expected.get_pipe("chain_tagger").parameters
