"""Word classes that the components of a pipeline share."""

import pickle

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.doc_arrays import form_ids
from spacy_structlearn.pipeline.storage.word_classes import share_classes, word_classes
from spacy_structlearn.words.classes import FORMS, learn

TAGGED = "the/DT cat/NN saw/VBD a/DT dog/NN and/CC the/DT dog/NN saw/VBD a/DT cat/NN near/IN it/PRP"
WORDS, TAGS = zip(*(token.split("/") for token in TAGGED.split()), strict=True)


@pytest.fixture
def classes():
    return learn(form_ids(WORDS), [0, len(WORDS)], 3, forms=FORMS, min_count=1)


@pytest.fixture
def nlp(classes, tmp_path):
    """A pipeline of two taggers with the same classes, which it does not share."""
    (tmp_path / "classes.bin").write_bytes(classes.to_bytes())
    nlp = spacy.blank("en")
    gold = Doc(
        nlp.vocab, list(WORDS), tags=list(TAGS), sent_starts=[True] + [False] * (len(WORDS) - 1)
    )
    example = spacy.training.Example(nlp.make_doc(" ".join(WORDS)), gold)
    model = {
        "@architectures": "spacy_structlearn.CRF.v1",
        "templates": ["CLASS[0]", "LOWER[0]", "bias"],
        "encoding": "none",
        "classes": str(tmp_path / "classes.bin"),
    }
    for name in ("first", "second"):
        tagger = nlp.add_pipe("chain_tagger", name=name, config={"model": model})
        tagger.initialize(lambda: [example])
        tagger.fit([example])
    for name in ("first", "second"):
        del nlp.config["components"][name]["model"]["classes"]
    return nlp


def tags(nlp):
    doc = nlp(" ".join(WORDS))
    return [token.tag_ for token in doc]


def held(nlp):
    return [component.parameters.classes for _, component in nlp.pipeline]


def size(nlp):
    return sum(len(component.to_bytes(exclude=["vocab"])) for _, component in nlp.pipeline)


def copies(nlp, folder):
    """The pipeline from disk, bytes and pickle."""
    nlp.to_disk(folder)
    yield spacy.load(folder)
    config = nlp.config.copy()
    for component in config["components"].values():
        component["model"].pop("classes", None)
    yield spacy.util.load_model_from_config(config).from_bytes(nlp.to_bytes())
    yield pickle.loads(pickle.dumps(nlp))


def test_shared_classes_are_stored_once(nlp, classes, tmp_path):
    before, alone = tags(nlp), size(nlp)
    share_classes(nlp.vocab, classes)
    assert word_classes(nlp.vocab) == classes
    assert size(nlp) < alone - len(classes.to_bytes())
    for copy in copies(nlp, tmp_path / "pipeline"):
        assert held(copy) == [classes, classes]
        assert tags(copy) == before
        assert word_classes(copy.vocab) == classes


def test_other_classes_are_stored_in_the_model(nlp, classes, tmp_path):
    other = classes.replaced(classes=classes.classes[::-1].copy())
    assert other != classes
    share_classes(nlp.vocab, other)
    for copy in copies(nlp, tmp_path / "pipeline"):
        assert held(copy) == [classes, classes]
        assert word_classes(copy.vocab) == other


def test_a_copied_component_takes_its_classes_along(nlp, classes, tmp_path):
    share_classes(nlp.vocab, classes)
    other = spacy.blank("en")
    other.add_pipe("first", source=nlp)
    assert tags(other) == tags(nlp)
    assert word_classes(other.vocab) == classes
    assert list(other.pipe(["the cat"]))
    for copy in copies(other, tmp_path / "pipeline"):
        assert tags(copy) == tags(nlp)


def test_without_the_classes_loading_fails(nlp, classes, tmp_path):
    share_classes(nlp.vocab, classes)
    nlp.to_disk(tmp_path / "pipeline")
    with pytest.raises(StructlearnError, match=r"SL242.*missing"):
        spacy.load(tmp_path / "pipeline", exclude=["vocab"])
    data = nlp.get_pipe("first").to_bytes(exclude=["vocab"])
    share_classes(nlp.vocab, classes.replaced(classes=np.zeros_like(classes.classes)))
    with pytest.raises(StructlearnError, match=r"SL242.*different"):
        nlp.get_pipe("first").from_bytes(data)
    share_classes(nlp.vocab, None)
    assert word_classes(nlp.vocab) is None
    with pytest.raises(StructlearnError, match=r"SL242.*missing"):
        nlp.get_pipe("first").from_bytes(data)
