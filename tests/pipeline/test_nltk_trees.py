"""Trees to and from NLTK, where it is installed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipeline.parsed import parsed_doc
from pipeline.test_extensions import random_tree
from spacy.lang.en import English

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline import extensions
from spacy_structlearn.pipeline.extensions.nltk_trees import from_nltk, to_nltk
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.trees.tree import Tree

FRUIT = "(S (NP (PRP$ My) (NN dog)) (VP (VBD ate) (NP (NN fruit))) (. .))"
SMILEY = "(NP (-LRB- -LRB-) (NN :-RRB-) (-RRB- -RRB-))"
VOCAB = English().vocab
nltk = pytest.importorskip("nltk", reason="needs nltk, of the extra test")
extensions.register()


# --- to nltk --------------------------------------------------------------------------------------
@pytest.mark.parametrize("text", [FRUIT, SMILEY, "(NP (NP (NN fruit)) (. .))"])
def test_the_same_as_reading_the_brackets(text):
    tree = parse_tree(text)
    assert to_nltk(tree) == nltk.Tree.fromstring(text)
    assert nltk.Tree.fromstring(str(to_nltk(tree))) == to_nltk(tree)
    doc = parsed_doc(VOCAB, FRUIT, text, space=(0,))
    first, second = doc.sents
    assert to_nltk(second) == to_nltk(tree)
    assert to_nltk(doc) == [nltk.Tree("TOP", [to_nltk(sentence)]) for sentence in (first, second)]


# --- from nltk ------------------------------------------------------------------------------------
def test_a_doc_of_trees():
    doc = from_nltk(VOCAB, map(nltk.Tree.fromstring, (FRUIT, SMILEY)))
    assert [s.text for s in doc.sents] == ["My dog ate fruit .", "( :) )"]
    assert [token.tag_ for token in doc][:3] == ["PRP$", "NN", "VBD"]
    assert [s._.parse_string for s in doc.sents] == [FRUIT, SMILEY]
    assert [span.text for span in doc._.phrases("NP")] == ["My dog", "fruit", "( :) )"]


def test_trees_are_normalised():
    tree = "(ROOT (S (NP-SBJ-1 (PRP It)) (VP (VBD sank) (NP (-NONE- *T*-1)) (ADVP=2 (RB fast)))))"
    doc = from_nltk(VOCAB, map(nltk.Tree.fromstring, (tree, "(NP (-NONE- *))")))
    assert doc._.trees == (parse_tree("(TOP (S (NP (PRP It)) (VP (VBD sank) (ADVP (RB fast)))))"),)


@pytest.mark.parametrize(
    "tree", [nltk.Tree("NP", ["My", "dog"]), nltk.Tree("S", [nltk.Tree("NP", [("My", "PRP$")])])]
)
def test_a_word_without_a_tag(tree):
    with pytest.raises(StructlearnError, match=r"SL182.*My"):
        from_nltk(VOCAB, [tree])


WORDS = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Z")), min_size=1, max_size=6)


@given(st.randoms(use_true_random=False), st.data())
def test_there_and_back(generator, data):
    words = st.one_of(WORDS, st.sampled_from(["(", ")", "[", "{", ":)", "(a)"]))
    trees = []
    for _ in range(generator.randint(1, 3)):
        tree = random_tree(generator, generator.randint(2, 8))
        tree = tree.fold(
            lambda leaf: Tree.leaf(leaf.label, data.draw(words)),
            lambda node, children: Tree(node.label, children),
        )
        trees.append(normalize(tree))
    doc = from_nltk(VOCAB, map(to_nltk, trees))
    assert list(doc._.trees) == trees
    assert from_nltk(doc.vocab, to_nltk(doc))._.trees == doc._.trees
