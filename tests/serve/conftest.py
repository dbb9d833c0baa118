"""The built-in pipeline, and sentences of one annotator."""

import pytest

import spacy_structlearn
from spacy_structlearn.serve.annotate.annotation import Annotation

TEXT = "She saw the man with the telescope. He left (at noon) because it rained. Nobody knew why."


@pytest.fixture(scope="session")
def built_in():
    return spacy_structlearn.load()


@pytest.fixture
def annotation(built_in, tmp_path):
    made = Annotation(built_in, tmp_path / "me", [("a", TEXT)], order="text")
    yield made
    made.close()
