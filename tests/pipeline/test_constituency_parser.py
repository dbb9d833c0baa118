"""The constituency parser as spaCy sees it: training, prediction, storage, odd input.

What does not depend on the grammar is tested with a chart parser that makes right-branching trees.
"""

import logging
from typing import ClassVar

import numpy as np
import pytest
import spacy
from contracts.components import FILES, SAMPLE
from spacy.tokens import Doc

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline import constituency_parser
from spacy_structlearn.pipeline.architectures import learner_model
from spacy_structlearn.pipeline.constituency_parser import ConstituencyParser, cut
from spacy_structlearn.pipeline.extensions import set_spans
from spacy_structlearn.pipeline.readers import create_treebank_reader, to_example
from spacy_structlearn.trees.brackets import read_trees
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.trees.parse import Parse


def treebank(nlp):
    """The sample as Examples, a document each."""
    return list(create_treebank_reader(SAMPLE / "sample.trees", **FILES)(nlp))


def strings(doc):
    return [s._.parse_string for s in doc.sents if not s.text.isspace()]


def scores(doc):
    return doc.spans["constituents"].attrs["scores"]


# --- a chart parser without a grammar -------------------------------------------------------------
class RightBranching:
    """S over everything, X over every suffix of two words or more; failed if a word is FAIL."""

    calls: ClassVar[list] = []

    def __init__(self, grammar, **settings):
        self.settings = settings

    def parse(self, sentences, tags=None, **settings):
        RightBranching.calls.append((sentences, tags, {**self.settings, **settings}))
        return [self.tree(words) for words in sentences]

    def k_best(self, sentence, k, tags=None, **settings):
        return self.parse([sentence], None if tags is None else [tags], **settings)[:k]

    def tree(self, words):
        n = len(words)
        return Parse(
            labels=["S"] + ["X"] * max(n - 2, 0),
            starts=[0, *range(1, n - 1)],
            ends=[n] * max(n - 1, 1),
            probabilities=np.linspace(1, 0.5, max(n - 1, 1), dtype=np.float32),
            tags=["NN"] * n,
            log_probability=-1.0,
            failed="FAIL" in words,
        )


@pytest.fixture
def fake(monkeypatch, grammar):
    """Makes parsers of right-branching trees: (nlp, component)."""
    monkeypatch.setattr(constituency_parser, "ChartParser", RightBranching)
    RightBranching.calls = []

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")

    def make(**settings):
        return nlp, ConstituencyParser(nlp.vocab, learner_model("fake", grammar, None), **settings)

    return make


def parsed(made, text):
    nlp, parser = made
    return parser(nlp(text))


def test_the_sentences_of_all_docs_are_parsed_at_once(fake):
    nlp, parser = fake()
    docs = list(nlp.pipe(["I ran. You ran.", "", " ", "We ran."]))
    list(parser.pipe(docs, batch_size=10))
    assert len(RightBranching.calls) == 1
    assert RightBranching.calls[0][0] == [[w, "ran", "."] for w in ("I", "You", "We")]
    assert [len(doc._.trees) for doc in docs] == [2, 0, 0, 1]


def test_tags_are_written_if_asked_for(fake):
    nlp, parser = fake()
    again = fake(set_tags=True)[1]
    again.vocab = nlp.vocab
    doc = parser(nlp("I ran. \n"))
    assert [token.tag_ for token in doc] == [""] * 4
    assert strings(doc) == ["(S (NN I) (X (NN ran) (NN .)))"]
    again(doc)
    assert [token.tag_ for token in doc] == ["NN", "NN", "NN", ""]
    assert "constituent_tags" not in doc.spans
    assert strings(doc) == ["(S (NN I) (X (NN ran) (NN .)))"]


@pytest.mark.parametrize(
    ("settings", "tags", "weight"),
    [
        ({}, None, None),
        ({"tags": "prior", "tag_weight": 0.5}, [["PRP", "", "."]], 0.5),
        ({"tags": "require"}, [["PRP", "", "."]], np.inf),
    ],
)
def test_tags_go_to_the_chart_parser(fake, settings, tags, weight):
    nlp, parser = fake(**settings)
    doc = nlp("I  ran.")
    for token, tag in zip(doc, ["PRP", "_SP", "", "."], strict=True):
        token.tag_ = tag
    parser(doc)
    _, given, told = RightBranching.calls[-1]
    assert given == tags
    assert told.get("tag_weight") == weight


def with_candidates(doc, tags, candidates, scores):
    """Tags of the tokens, and of some of them other candidates, as (token, tag)."""
    for token, tag in zip(doc, tags, strict=True):
        token.tag_ = tag
    set_spans(doc, "tag_candidates", [(tag, i, i + 1) for i, tag in candidates])
    doc.spans["tag_candidates"].attrs["scores"] = np.array(scores, dtype=np.float32)
    return doc


CANDIDATES = [(2, "NN"), (2, "VBD"), (3, "."), (3, ":")]


@pytest.mark.parametrize("k_best", [False, True])
def test_probabilities_of_tags_go_to_the_chart_parser(fake, k_best):
    nlp, parser = fake(tags="prior")

    def told(doc):
        if k_best:
            parser.k_best(next(doc.sents), 1)
        else:
            parser.predict([doc])
        return RightBranching.calls[-1][1][:1]

    def doc():
        tags = ["PRP", "_SP", "NN", "."]
        return with_candidates(nlp("I  ran."), tags, CANDIDATES, [0.75, 0.25, 0.5, 0.5])

    assert told(doc()) == [["PRP", {"NN": 0.75, "VBD": 0.25}, {".": 0.5, ":": 0.5}]]
    parser.tags = "require"
    assert told(doc()) == [["PRP", "NN", "."]]
    parser.tags = "prior"
    # Whoever has set another tag since means it.
    other = doc()
    other[2].tag_ = "VBD"
    assert told(other) == [["PRP", "VBD", {".": 0.5, ":": 0.5}]]
    # Scores get lost where Docs are joined.
    joined = Doc.from_docs([doc(), doc()])
    assert "tag_candidates" in joined.spans
    for scores in ({}, {"scores": np.ones(3, np.float32)}, {"scores": None}):
        joined.spans["tag_candidates"].attrs.update(scores)
        assert told(joined) == [["PRP", "NN", "."]]


def test_candidates_of_several_docs(fake):
    nlp, parser = fake(tags="prior")
    docs = [
        with_candidates(nlp(" Run. Run."), ["_SP", "VB", ".", "VB", "."], [(3, "VB")], [0.5]),
        nlp(""),
        with_candidates(nlp("Run."), ["VB", "."], [(0, "VB"), (0, "NN")], [0.5, 0.5]),
    ]
    parser.predict(docs)
    assert RightBranching.calls[-1][1] == [
        ["VB", "."],
        [{"VB": 0.5}, "."],
        [{"VB": 0.5, "NN": 0.5}, "."],
    ]


def test_long_sentences_are_cut_and_joined(fake):
    made = fake(max_length=4)
    doc = parsed(made, "I ran , I sat ; you slept , FAIL . Fine.")
    first = next(doc.sents)
    assert first._.labels[0] == "S"
    assert first._.constituent_prob == 0.0
    assert [c.text for c in first._.children] == ["I ran ,", "I sat ;", "you slept ,", "FAIL ."]
    assert [(s.label_, s.text) for s in doc._.parse_failures] == [
        ("cut", first.text),
        ("fallback", "FAIL ."),
    ]
    assert first._.tree.words() == [token.text for token in first]


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("a b c", [3]),
        ("a b c d", [4]),
        ("a ; b c d", [2, 5]),
        ("a ; b : c d", [4, 6]),
        ("a , b c d", [2, 5]),
        ("a , b ; c d", [4, 6]),
        ("a ; b , c d", [2, 6]),
        ("a b c d e f g h i", [4, 8, 9]),
        ("a -- b c d", [2, 5]),
        ("a - b c d", [4, 5]),
        ("; ; ; ; ;", [4, 5]),
    ],
)
def test_where_a_sentence_is_cut(text, ends):
    assert cut(text.split(), 4) == ends


def test_only_pieces_without_constraints_are_parsed_in_haste(fake):
    nlp, parser = fake(max_length=4)
    parser(nlp("I ran. You sat ."))
    assert "hasty" not in RightBranching.calls[-1][2]
    doc = nlp("I ran. a b ; c d e f")
    set_spans(doc, "constituent_constraints", [("X", 6, 8)])
    parser(doc)
    sentences, _, given = RightBranching.calls[-1]
    assert sentences == [["I", "ran", "."], ["a", "b", ";"], ["c", "d", "e", "f"]]
    assert given["hasty"] == [False, True, False]


# --- gold -----------------------------------------------------------------------------------------
@pytest.fixture
def untrained():
    return spacy.blank("en").add_pipe("constituency_parser", config={})


def test_gold_data_are_the_trees_of_the_treebank(untrained):
    found = [untrained.gold_data(example) for example in treebank(spacy.blank("en"))]
    gold = [normalize(tree) for tree in read_trees(SAMPLE / "sample.trees")]
    assert [tree for trees in found for tree in trees] == gold


def test_sentences_without_a_complete_tree_are_left_out(untrained, caplog):
    words, tags = ["a", "b", "c", "d", "\n", "e", "f", "g"], ["X"] * 7 + [""]
    starts = [i in (0, 2, 4, 5, 7) for i in range(8)]
    vocab = spacy.blank("en").vocab
    doc = Doc(vocab, words=words, tags=tags, sent_starts=starts)
    # Without brackets; good; white space; across a boundary; without a tag.
    set_spans(doc, "constituents", [("A", 2, 4), ("B", 5, 8), ("B", 6, 7)])
    with caplog.at_level(logging.WARNING, "spacy_structlearn"):
        data = untrained.gold_data(to_example(doc))
    assert list(map(str, data)) == ["(TOP (A (X c) (X d)))"]
    assert "3 of the sentences" in caplog.text


def test_gold_without_tags_is_an_error(untrained):
    doc = Doc(spacy.blank("en").vocab, words=["a", "b"])
    set_spans(doc, "constituents", [("A", 0, 2)])
    with pytest.raises(StructlearnError, match="SL022"):
        untrained.gold_data(to_example(doc))


# --- settings -------------------------------------------------------------------------------------
def test_k_best_trees_are_of_one_sentence_that_is_not_cut(fake):
    nlp, parser = fake()
    assert len(parser.k_best(next(nlp("I ran. You ran.").sents), 1)) == 1
    assert parser.k_best(nlp(" \n"), 3) == []
    with pytest.raises(StructlearnError, match=r"SL025.* 251 words .* 250\. "):
        parser.k_best(Doc(nlp.vocab, words=["door"] * 251), 3)
    with pytest.raises(StructlearnError, match="SL024"):
        parser.k_best(nlp("I ran. You ran."))
