import gzip
from collections import Counter
from dataclasses import replace
from itertools import groupby

import pytest
from case_tables import cases
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn.trees.brackets import parse_tree, read_trees
from spacy_structlearn.trees.chunks import PENN, base_noun_phrases
from spacy_structlearn.trees.normalize import normalize
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


def test_traces_and_function_tags_are_gone_after_normalisation():
    raw = "( (S (NP-SBJ-1 (DT A) (NN bird)) (VP (VBD was) (VP (VBN seen) (NP (-NONE- *-1))))) )"
    assert base_noun_phrases(normalize(parse_tree(raw))) == [(0, 2)]


def test_other_labels():
    tree = parse_tree("(S (GN (D le) (N chat) (A noir)) (V dort) (GP (P sur) (GN (D un) (N lit))))")
    french = replace(
        PENN,
        noun_phrases=frozenset({"GN"}),
        heads=frozenset({"N"}),
        clauses=frozenset({"GP", "S"}),
    )
    assert base_noun_phrases(tree, french) == [(0, 3), (5, 7)]
    assert base_noun_phrases(tree) == []


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


def test_deep_trees():
    tree = Tree("NP", [Tree.leaf("NN", "x")])
    for label in ["PP", "NP", "NML"] * 1_000:
        tree = Tree(label, [Tree.leaf("IN", "of"), tree])
    assert base_noun_phrases(tree)[-1] == (3_000, 3_001)


# --- against the shared task's own chunks ---------------------------------------------------------


def joined_tokens(tags: list[str]) -> list[int]:
    """For each token the index of its word before OntoNotes cut words at hyphens."""
    words: list[int] = []
    for i, tag in enumerate(tags):
        joined = i > 0 and "HYPH" in (tag, tags[i - 1])
        words.append(words[-1] + (not joined) if words else 0)
    return words


def conll_sentences(path):
    """(tags, chunk tags) of each sentence."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for full, block in groupby((line.split() for line in lines), key=bool):
            if full:
                _, tags, chunks = zip(*block, strict=True)
                yield tags, chunks


def chunk_f1(corpora, sections: set[str], conll: str) -> tuple[float, int]:
    """F1 of the chunks made from the trees of `sections` against those of the shared task, on the
    sentences that are in both, and the number of those sentences.
    """
    with gzip.open(corpora / "wsj_skeleton/train.index.tsv.gz", "rt") as index:
        wanted = [line.split("\t")[0] in sections for line in index]
    with gzip.open(corpora / "wsj_skeleton/train.postrees.gz", "rt") as lines:
        kept = [line for line, keep in zip(lines, wanted, strict=True) if keep]
    trees = list(read_trees(kept))
    words = [joined_tokens(tree.tags()) for tree in trees]
    tags = [
        [tag for i, tag in enumerate(tree.tags()) if i + 1 == len(word) or word[i] < word[i + 1]]
        for tree, word in zip(trees, words, strict=True)
    ]
    sentences = list(conll_sentences(corpora / "conll2000" / conll))
    # Sentences with the same tags in both corpora, which no other sentence has.
    counts = [Counter(map(tuple, side)) for side in (tags, (own for own, _ in sentences))]
    places = {tuple(own): i for i, own in enumerate(tags)}
    unique = {own for own in places if all(side[own] == 1 for side in counts)}
    pairs = [(places[own], chunks) for own, chunks in sentences if own in unique]
    correct = total = 0
    for i, chunks in pairs:
        starts = [k for k, tag in enumerate(chunks) if tag == "B-NP"]
        gold = set()
        for start in starts:
            end = start + 1
            while end < len(chunks) and chunks[end] == "I-NP":
                end += 1
            gold.add((start, end))
        made = {(words[i][a], words[i][b - 1] + 1) for a, b in base_noun_phrases(trees[i])}
        correct += len(gold & made)
        total += len(gold) + len(made)
    return 2 * correct / total, len(pairs)


@pytest.mark.corpus
def test_agreement_with_conll_2000(corpora):
    f1, compared = chunk_f1(corpora, {"20"}, "test.txt.gz")

    assert compared >= 450
    assert f1 >= 0.99
