"""Predicted annotation in place of gold one: what is replaced, and what stays."""

from pathlib import Path

import pytest
import spacy
from spacy.language import Language

from spacy_structlearn.pipeline.readers import read_treebank, set_gold_spans
from training.common.jackknife import parsed_docs, with_brackets, with_predicted_tags

SAMPLE = Path(__file__).resolve().parents[2] / "corpora" / "sample"


@Language.component("tags_and_parses")
def tags_and_parses(doc):
    """One tag for all tokens, also white space, as spaCy's tagger gives it some."""
    for token in doc:
        token.tag_ = "XX"
    set_gold_spans(doc, "constituents", [("X", s.start, s.end) for s in doc.sents])
    return doc


@pytest.fixture
def pipeline():
    nlp = spacy.blank("en")
    nlp.add_pipe("tags_and_parses")
    return nlp


@pytest.fixture
def gold(pipeline, tmp_path):
    """A document with a blank line behind each sentence."""
    lines = (SAMPLE / "sample.spaces").read_text(encoding="utf8").splitlines()
    spaces = tmp_path / "spaces"
    spaces.write_text("".join(f"{line[:-1]}2\n" for line in lines), encoding="utf8")
    files = {"spaces": spaces, "props": SAMPLE / "sample.props"}
    return next(read_treebank(pipeline.vocab, SAMPLE / "sample.trees", **files))[1]


def test_white_space_keeps_no_tag(pipeline, gold):
    tagged = with_predicted_tags(pipeline, gold)
    assert tagged.text == gold.text
    assert {token.tag_ for token in tagged if token.is_space} == {""}
    assert {token.tag_ for token in tagged if not token.is_space} == {"XX"}
    assert [s.text for s in tagged.spans["srl"]] == [s.text for s in gold.spans["srl"]]


def test_brackets_are_replaced_with_the_tags_of_their_trees(pipeline, gold):
    """Whether the parser wrote these beside the tokens' own or in their place."""
    (parsed,) = parsed_docs(pipeline, [gold])
    assert parsed.text == gold.text
    assert [s.text for s in parsed.spans["constituents"]] == [s.text for s in gold.sents]
    assert [token.tag_ for token in parsed] == [token.tag_ for token in gold]
    words = [token.i for token in gold if not token.is_space]
    group = parsed.spans["constituent_tags"]
    assert [(s.label_, s.start, s.end) for s in group] == [("XX", i, i + 1) for i in words]
    predicted = pipeline(gold.copy())
    set_gold_spans(predicted, "constituent_tags", [("YY", i, i + 1) for i in words])
    replaced = with_brackets(gold, predicted)
    assert {s.label_ for s in replaced.spans["constituent_tags"]} == {"YY"}
