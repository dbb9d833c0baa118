import pytest
from case_tables import cases
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.chunks import base_noun_phrases
from spacy_structlearn.trees.tree import Tree


def chunked(text: str) -> str:
    """The words of a tree with its chunks in square brackets."""
    tree = parse_tree(text)
    words = tree.words()
    for start, end in reversed(base_noun_phrases(tree)):
        words[start:end] = ["[" + " ".join(words[start:end]) + "]"]
    return " ".join(words)


CASES = """
# Determiners, numbers and modifiers before the head are in the chunk.
(NP (DT the) (CD two) (JJ old) (NN garden) (NNS gates)) -> [the two old garden gates]
(NP (PRP$ my) (NN bike)) -> [my bike]
(NP (PDT all) (DT the) (NNS rooms)) -> [all the rooms]
(NP (PDT such) (DT a) (NN mess)) -> [such a mess]
(NP (RB only) (CD three) (NNS cups)) -> [only three cups]
(NP (QP (RB about) (CD five)) (NNS miles)) -> [about five miles]
(NP (QP ($ $) (CD 3) (CD million))) -> [$ 3 million]
(NP (DT a) (ADJP (RB very) (JJ tall)) (NN fence)) -> [a very tall fence]
(NP (DT a) (JJ cold) (, ,) (JJ wet) (NN day)) -> [a cold , wet day]
(NP (DT the) (NML (NN apple) (NN cake)) (NN recipe)) -> [the apple cake recipe]
(NP (DT a) (UCP (NN state) (CC and) (JJ local)) (NN tax)) -> [a state and local tax]
(NP (NNP May) (CD 4) (, ,) (CD 1999)) -> [May 4 , 1999]
# One word that stands for a noun phrase.
(S (NP (PRP they)) (VP (VBD ran))) -> [they] ran
(S (NP (EX there)) (VP (VBZ is) (NP (NN hope)))) -> [there] is [hope]
(NP (DT those)) -> [those]
(NP (DT the) (JJ rich) (CC and) (JJ famous)) -> [the rich and famous]
(NP (DT the) (ADJP (RBS most) (JJ gifted))) -> [the most gifted]
# Question words and relative pronouns; the conjunction "that" is no noun phrase.
(SBARQ (WHNP (WDT what) (NN colour)) (SQ (VBZ is) (NP (PRP it)))) -> [what colour] is [it]
(NP (NP (DT the) (NN dog)) (SBAR (WHNP (WDT that)) (S (VP (VBD bit) (NP (PRP me)))))) -> [the dog]
    [that] bit [me]
(VP (VBP know) (SBAR (IN that) (S (NP (PRP we)) (VP (VBD won))))) -> know that [we] won
# Words directly behind the head belong to it, phrases do not.
(NP (NN nothing) (RB else)) -> [nothing else]
(NP (NNS tickets) (JJ available)) -> [tickets available]
(NP (NP (DT a) (NN cup)) (PP (IN of) (NP (NN tea)))) -> [a cup] of [tea]
(NP (DT a) (NN cup) (PP (IN of) (NP (NN tea)))) -> [a cup] of [tea]
(NP (NNS people) (ADJP (JJ fond) (PP (IN of) (NP (NNS cats))))) -> [people] fond of [cats]
(NP (DT the) (NN wish) (S (VP (TO to) (VP (VB win))))) -> [the wish] to win
(NP (NP (DT the) (NN boat)) (VP (VBN moored) (ADVP (RB here)))) -> [the boat] moored here
# Coordination of words is one chunk, of noun phrases several.
(NP (NN tea) (CC and) (NN sugar)) -> [tea and sugar]
(NP (NP (DT the) (NN cat)) (CC and) (NP (DT the) (NN fox))) -> [the cat] and [the fox]
(NP (NP (NNS pears)) (, ,) (NP (NNS figs)) (CC and) (NP (NNS nuts))) -> [pears] , [figs] and
    [nuts]
(NP (DT the) (NML (NML (NN sale)) (CC and) (NML (NML (NN repair)) (PP (IN of) (NP (NNS
    clocks)))))) -> [the sale and repair] of [clocks]
# Appositions are chunks of their own.
(NP (NP (NNP Ada)) (, ,) (NP (PRP$ his) (NN niece)) (, ,)) -> [Ada] , [his niece] ,
(NP (NP (NNP Ada)) (, ,) (ADJP (NP (CD ten) (NNS years)) (JJ old)) (, ,)) -> [Ada] , [ten years]
    old ,
# A possessive marker begins a chunk.
(NP (NP (DT the) (NN lawyer) (POS 's)) (JJ old) (NN office)) -> [the lawyer] ['s old office]
(NP (NP (NP (NNP Ada) (POS 's)) (NN aunt) (POS 's)) (NN house)) -> [Ada] ['s aunt] ['s house]
(S (NP (DT This)) (VP (VBZ is) (NP (NP (NNP Ada) (POS 's))))) -> [This] is [Ada] ['s]
(NP (NP (NNP Ada) (POS 's)) (JJ own)) -> [Ada] ['s own]
(NP (NML (NNP Ada) (POS 's)) (NN house)) -> [Ada 's house]
# Measures before an adverb, adjective or preposition.
(ADVP (NP (CD two) (NNS weeks)) (RB ago)) -> [two weeks] ago
(ADJP (NML (CD two) (NNS weeks)) (JJ late)) -> [two weeks] late
(PP (NP (DT an) (NN hour)) (IN before) (NP (NN sunset))) -> [an hour] before [sunset]
# A modifier before the head that holds a noun phrase breaks the chunk ...
(NP (NML (NML (NNP Head)) (PP (IN of) (NP (NN School)))) (NNP Ada) (NNP Byron)) -> Head of
    [School] [Ada Byron]
# ... except where hyphens make it one word.
(NP (DT an) (NML (PP (IN in) (HYPH -) (NP (NN house)))) (NN lawyer)) -> [an in - house lawyer]
(NP (DT a) (ADJP (NP (NNP New) (NNP Delhi)) (HYPH -) (VBN based)) (NN firm)) -> [a New Delhi -
    based firm]
(NP (DT a) (NN run) (HYPH -) (RP up)) -> [a run - up]
# Brackets and bullets stay outside, opening quotes inside.
(NP (-LRB- -LRB-) (NN page) (CD 4) (-RRB- -RRB-)) -> ( [page 4] )
(NP (NFP *) (NNS apples)) -> * [apples]
(NP (`` ``) (NN freedom) ('' '')) -> [`` freedom] ''
# Not a noun phrase at all.
(VP (VB go) (ADVP (RB home))) -> go home
(NN word) -> word
(NP (POS 's)) -> ['s]
(NP (, ,)) -> ,
"""


@pytest.mark.parametrize(("tree", "chunks"), cases(CASES))
def test_conventions(tree, chunks):
    assert chunked(tree) == chunks


def test_spans():
    tree = parse_tree(
        "(S (NP (NP (NNP Ada) (POS 's)) (NN aunt)) (VP (VBZ sings) (NP (JJ old) (NNS songs))))"
    )
    assert base_noun_phrases(tree) == [(0, 1), (1, 3), (4, 6)]


LABELS = ["S", "NP", "WHNP", "NML", "ADJP", "PP", "VP", "QP"]
TAGS = ["NN", "POS", "HYPH", "CC", ",", "DT", "JJ", "-LRB-", "VB"]
TREES = st.recursive(
    st.builds(Tree.leaf, st.sampled_from(TAGS), st.just("w")),
    lambda inner: st.builds(Tree, st.sampled_from(LABELS), st.lists(inner, min_size=1, max_size=5)),
    max_leaves=25,
)


@settings(max_examples=30)
@given(TREES)
def test_chunks_of_any_tree_are_ordered_and_disjoint(tree):
    chunks = base_noun_phrases(tree)
    ends = [0]
    for start, end in chunks:
        assert ends[-1] <= start < end <= len(tree.words())
        ends.append(end)
