"""Trees of many Docs as arrays, against the trees of each Doc."""

from pathlib import Path

import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline.parsed import cut_doc, parsed_doc
from spacy.tokens import Doc, DocBin, Span

from spacy_structlearn import ConstituentMatcher, as_dict
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline import extensions
from spacy_structlearn.pipeline.doc_arrays import DocTrees
from spacy_structlearn.pipeline.extensions import set_spans
from spacy_structlearn.trees.tree import Tree

VOCAB = spacy.blank("en").vocab
LEAVES = st.sampled_from(
    [Tree.leaf(*leaf) for leaf in (("VBD", "ate"), ("NN", "men"), ("IN", "of"), (",", ","))]
)
PHRASES = st.sampled_from(["S", "NP", "VP", "PP", "TOP"])
TREES = st.recursive(
    LEAVES,
    lambda below: st.builds(Tree, PHRASES, st.lists(below, min_size=1, max_size=4)),
    max_leaves=12,
)
ATE = "(S (NP (PRP I)) (VP (VBD ate) (NP (NP (NN rice)) (PP (IN with) (NP (NNS forks))))))"
SLEPT = "(S (NP (PRP I)) (VP (VBD slept)))"


def doc_of(*trees, **settings) -> Doc:
    return parsed_doc(VOCAB, *trees, **settings)


def trees_of(found: DocTrees) -> list[Tree]:
    return found.brackets.trees()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(TREES, min_size=1, max_size=3), min_size=1, max_size=3),
    st.sets(st.integers(0, 20), max_size=4),
)
def test_trees_of_docs(groups, space):
    docs = [doc_of(*trees, space=space) for trees in groups]
    found = DocTrees(docs)
    assert trees_of(found) == [tree for doc in docs for tree in doc._.trees]
    wanted = [(n, t.i) for n, doc in enumerate(docs) for t in doc if not t.is_space]
    assert [*zip(found.doc_ids, found.positions, strict=True)] == wanted


# --- sentences that were cut ----------------------------------------------------------------------
def test_pieces_are_trees_of_their_own():
    pieces = (ATE, SLEPT, "(. .)")
    doc, other = cut_doc(VOCAB, *pieces), doc_of(SLEPT)
    assert [piece.text for piece in extensions.brackets.pieces(doc)] == [
        *("I ate rice with forks", "I slept", ".")
    ]
    assert [*extensions.brackets.pieces(other)] == [*other.sents]
    wanted = doc_of(*pieces, SLEPT)._.trees
    group = doc.spans["constituents"]
    group.attrs["scores"] = np.arange(len(group)) / 100
    found = DocTrees([doc, other])
    assert trees_of(found) == [*wanted]
    assert found.positions.tolist() == [*range(8), 0, 1]
    assert found.probabilities(np.array([0, 1, 5]), np.array([5, 5, 7])) == pytest.approx(
        [doc[:5]._.constituent_prob, doc[1:5]._.constituent_prob, doc[5:7]._.constituent_prob]
    )


def test_a_sentence_with_other_brackets_than_those_of_its_pieces_is_whole():
    doc = doc_of(ATE)
    set_spans(doc, "parse_failures", [("cut", 0, len(doc))])
    set_spans(doc, "constituents", [("S", 0, 5), ("VP", 0, 5), ("NP", 1, 3)])
    assert [*extensions.brackets.pieces(doc)] == [*doc.sents]
    assert trees_of(DocTrees([doc])) == [*doc._.trees]


# --- brackets -------------------------------------------------------------------------------------
def test_probabilities_are_those_of_the_topmost_bracket():
    other, doc = doc_of(ATE), doc_of(SLEPT, ATE, space=(1,))
    group = doc.spans["constituents"]
    group.attrs["scores"] = np.arange(1, len(group) + 1) / 100
    found = DocTrees([other, doc])
    assert found.scored.tolist() == [False, True]
    wanted = {}
    for span, score in zip(group, group.attrs["scores"], strict=True):
        wanted.setdefault((span.start, span.end), score)
    first, n = len(other), len(found.positions)
    spans = [(i, j) for i in range(n) for j in range(i + 1, n + 1) if i >= first or j <= first]
    starts, ends = np.array(spans).T
    tokens = (bounds.tolist() for bounds in found.tokens(starts, ends))
    assert found.probabilities(starts, ends).tolist() == [
        1.0 if word < first else wanted.get(place, 1.0)
        for (word, _), place in zip(spans, zip(*tokens, strict=True), strict=True)
    ]


@pytest.mark.parametrize(
    "spans",
    [
        [("S", 0, 4), ("NP", 2, 3), ("VP", 2, 4)],  # out of order
        [("NP", 0, 2), ("VP", 2, 4)],  # several tops
    ],
)
def test_brackets_of_other_forms(spans):
    doc = Doc(VOCAB, words=["a", "b", "c", "d", "\n"], tags=["NN"] * 4 + ["_SP"])
    set_spans(doc, "constituents", spans)
    try:
        wanted = list(doc._.trees)
    except StructlearnError as error:
        with pytest.raises(StructlearnError, match=error.code):
            trees_of(DocTrees([doc]))
    else:
        assert trees_of(DocTrees([doc])) == wanted


# --- Docs that were not parsed, or in part --------------------------------------------------------
@pytest.mark.finding
def test_no_tree_is_invented_for_parts_that_were_not_parsed():
    parsed = parsed_doc(VOCAB, "(S (NP (NN dog)) (VP (VBZ sleeps)))")
    other = Doc(VOCAB, words=["no", "tree", "here"], sent_starts=[True, False, False])
    doc = Doc.from_docs([parsed, other])
    other_parsed = parsed_doc(VOCAB, "(S (VP (VB Run)) (. !))", "(UH Oh)")
    assert [str(tree) for tree in doc._.trees] == [str(parsed._.trees[0])]
    first, second = doc.sents
    assert first._.parse_string == "(S (NP (NN dog)) (VP (VBZ sleeps)))"
    assert (second._.tree, second._.parse_string, list(second._.constituents)) == (None, "", [])
    assert as_dict(doc)["trees"] == [str(parsed._.trees[0])]
    matcher = ConstituentMatcher(VOCAB)
    matcher.add("any", ["__"])
    stored = DocBin(docs=[doc, other_parsed, doc])
    alone = [*matcher.search([parsed, other_parsed, parsed])]
    assert [*matcher.search([doc, other_parsed, doc])] == alone == [*matcher.search(stored)]
    # What the parser gave no bracket has failed, and has a flat tree.
    doc.spans["parse_failures"] = [Span(doc, 2, 5, "fallback")]
    assert [str(tree) for tree in doc._.trees][1] == "(TOP (XX no) (XX tree) (XX here))"


@pytest.mark.finding
def test_what_as_doc_loses_is_said():
    """It is spaCy's, and copies no groups."""
    doc = parsed_doc(VOCAB, "(S (NP (NN dog)) (VP (VBZ sleeps)))")
    sentence = next(doc.sents)
    assert sentence.as_doc()._.trees == ()
    assert sentence._.tree == doc._.trees[0].children[0]
    with pytest.raises(StructlearnError, match=r"SL020.*as_doc\(\).*do not copy constituents"):
        ConstituentMatcher(VOCAB)(sentence.as_doc())
    guide = (Path(__file__).parents[2] / "training/guides/layers.md").read_text(encoding="utf8")
    assert "`sentence.as_doc()` copies no layer" in guide
