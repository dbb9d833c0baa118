"""Predicted annotation in place of gold one: what is replaced, and what stays."""

from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import DocBin

from spacy_structlearn.pipeline.extensions import set_spans
from spacy_structlearn.pipeline.readers import read_treebank
from training.common.jackknife import (
    jackknife,
    jackknife_parses,
    untagged,
    with_brackets,
    with_tags,
    write_docs,
)
from training.pipeline.classes import train_classes

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "corpora" / "sample"


@Language.component("tags_and_parses")
def tags_and_parses(doc):
    """One tag for all tokens, also white space, as spaCy's tagger gives it some."""
    for token in doc:
        token.tag_ = "XX"
    set_spans(doc, "constituents", [("X", s.start, s.end) for s in doc.sents])
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
    tagged = with_tags(gold, pipeline(untagged(pipeline, gold)))
    assert tagged.text == gold.text
    assert {token.tag_ for token in tagged if token.is_space} == {""}
    assert {token.tag_ for token in tagged if not token.is_space} == {"XX"}
    assert [s.text for s in tagged.spans["srl"]] == [s.text for s in gold.spans["srl"]]


def test_brackets_are_replaced_with_the_tags_of_their_trees(pipeline, gold):
    """Whether the parser wrote these beside the tokens' own or in their place."""
    parsed = with_brackets(gold, pipeline(gold.copy()))
    assert parsed.text == gold.text
    assert [s.text for s in parsed.spans["constituents"]] == [s.text for s in gold.sents]
    assert [token.tag_ for token in parsed] == [token.tag_ for token in gold]
    words = [token.i for token in gold if not token.is_space]
    group = parsed.spans["constituent_tags"]
    assert [(s.label_, s.start, s.end) for s in group] == [("XX", i, i + 1) for i in words]
    predicted = pipeline(gold.copy())
    set_spans(predicted, "constituent_tags", [("YY", i, i + 1) for i in words])
    replaced = with_brackets(gold, predicted)
    assert {s.label_ for s in replaced.spans["constituent_tags"]} == {"YY"}


def test_files_in_processes(tmp_path):
    """The Docs of the sample keep their order, and a kept fold is not predicted again."""
    nlp = spacy.blank("en")
    files = {"spaces": SAMPLE / "sample.spaces", "props": SAMPLE / "sample.props"}
    gold = [doc for _, doc in read_treebank(nlp.vocab, SAMPLE / "sample.trees", **files)][:5]
    source, target, work = (tmp_path / name for name in ("gold", "tagged", "work"))
    write_docs(gold, source)
    classes = tmp_path / "classes.bin"
    classes.write_bytes(train_classes([[t.text for t in doc] for doc in gold], 4, 1).to_bytes())
    options = {"work": work, "folds": 2, "overrides": {"paths.classes": str(classes)}}
    config = ROOT / "training" / "configs" / "chain_tagger.cfg"
    jackknife(config, source, target, **options, jobs=2)
    tagged = list(DocBin().from_disk(target).get_docs(nlp.vocab))
    assert [doc.text for doc in tagged] == [doc.text for doc in gold]
    pairs = [
        (a.tag_, b.tag_)
        for docs in zip(gold, tagged, strict=True)
        for a, b in zip(*docs, strict=True)
    ]
    assert 0.5 < sum(a == b for a, b in pairs) / len(pairs) < 0.95
    write_docs(gold[::2], work / "fold-0-of-2.spacy")
    jackknife(config, source, target, **options)
    again = list(DocBin().from_disk(target).get_docs(nlp.vocab))
    tagged[::2] = gold[::2]
    for before, after in zip(tagged, again, strict=True):
        assert [token.tag_ for token in after] == [token.tag_ for token in before]
    parsed = tmp_path / "parsed"
    jackknife_parses(
        ROOT / "training" / "configs" / "grammar.cfg",
        source,
        parsed,
        work=tmp_path / "parses",
        tagged=target,
        folds=2,
        overrides={
            "components.constituency_parser.model.grammars": 1,
            "components.constituency_parser.model.rounds": 1,
        },
    )
    for doc, own in zip(gold, DocBin().from_disk(parsed).get_docs(nlp.vocab), strict=True):
        assert [token.tag_ for token in own] == [token.tag_ for token in doc]
        assert len(own.spans["constituent_tags"]) == len([t for t in own if not t.is_space])
