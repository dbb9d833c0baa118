"""Sites of PP attachment: the rules one by one, without trees, words, and attaching otherwise."""

from collections import Counter

import pytest
from case_tables import cases
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spacy_structlearn.attachment import reattach
from spacy_structlearn.attachment.sites import (
    Site,
    chains,
    chains_from_chunks,
    decided,
    normalized,
    opened,
    quadruple,
    sites,
)
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.trees.tree import Tree

FORK = "(S (NP (PRP I)) (VP (VBD ate) (NP (NN pizza)) (PP (IN with) (NP (DT a) (NN fork)))))"


def found(text: str, **settings) -> list[str]:
    """The sites as "V N1 P N2 label"."""
    tree = parse_tree(text)
    words = tree.words()
    return [" ".join((*quadruple(site, words), site.label)) for site in sites(tree, **settings)]


# --- sites of a tree ------------------------------------------------------------------------------
RULES = """
(S (NP (PRP I)) (VP (VBD ate) (NP (NN pizza)) (PP (IN with) (NP (DT a) (NN fork))))) -> ate pizza
    with fork V
(S (NP (PRP I)) (VP (VBD ate) (NP (NP (NN pizza)) (PP (IN with) (NP (NNS olives)))))) -> ate pizza
    with olives N
# Rule 1: verbs and objects.
(VP (VBD put) (ADVP (RB soon)) (PRT (RP out)) (NP (NN fire)) (PP (IN in) (NP (NN x)))) -> put fire
    in x V
(VP (VBZ owns) (CC and) (VBZ runs) (NP (NNS bars)) (PP (IN in) (NP (NNP Rome)))) -> owns bars in
    Rome V
(VP (MD may) (VP (VB eat) (NP (NN x)) (PP (IN at) (NP (NN y))))) -> eat x at y V
(VP (MD may) (NP (NN x)) (PP (IN at) (NP (NN y)))) -> none
(VP (VBD gave) (NP (PRP her)) (NP (NN x) (PP (IN of) (NP (NN y))))) -> none
(VP (VBD gave) (NP (PRP her)) (NP (NN x)) (PP (IN in) (NP (NN y)))) -> gave her in y V
(VP (VBD went) (PP (IN in) (NP (NN x)))) -> none
(VP (VBD went) (PP (IN in) (NP (NN x))) (NP (NN y))) -> none
(NP (NN x) (PP (IN in) (NP (NN y)))) -> none
(VP (VBD met) (NP-TMP (NN noon)) (NP (NNP X)) (PP (IN at) (NP (NNP Y)))) -> met X at Y V
(VP (VBD met) (NP-TMP-1 (NN noon)) (PP (IN at) (NP (NNP Y)))) -> none
(VP (VBD met) (NP (NN noon)) (PP (IN at) (NP (NNP Y)))) -> met noon at Y V
(VP (VBN named) (S (NP (NP (NN head)) (PP (IN of) (NP (NN it)))))) -> named head of it N
(VP (VBN named) (S (NP-SBJ (-NONE- *)) (NP-PRD (NN head))) (PP (IN in) (NP (CD 9)))) -> named head
    in 9 V
(VP (VBD named) (S (NP (PRP me)) (NP (NN x) (PP (IN of) (NP (NN y)))))) -> none
# Rule 2: the noun, and the first of either kind.
(VP (VBD put) (NP (NP (NN a)) (PP (IN of) (NP (NN b)))) (PP (IN in) (NP (NN c)))) -> put a of b N;
    put a in c V
(VP (VBD put) (NP (NP (NP (NN a)) (PP (IN of) (NP (NN b)))) (PP (IN in) (NP (NN c))))) -> put a of
    b N
(VP (VBD put) (NP (NN a)) (PP (IN in) (NP (NN b))) (PP (IN at) (NP (NN c)))) -> put a in b V
(VP (VBD took) (NP (NP (DT the) (NN firm) (POS 's)) (NN chair)) (PP (IN in) (NP (CD 9)))) -> took
    chair in 9 V
(VP (VBD met) (NP (NP (NN a)) (CC and) (NP (NN b))) (PP (IN in) (NP (NN c)))) -> met a in c V
(VP (VBD met) (NP (NP (NN a)) (SBAR (S (VP (VBD ran) (PP (IN in) (NP (NN c)))))))) -> none
(VP (VBD met) (NP (PP (IN of) (NP (NN b))) (NP (NN a)))) -> none
# Rule 3: forms of the prepositional phrase.
(VP (VBD won) (NP (NN x)) (PP (IN for) (S (VP (VBG keeping) (NP (NN y)))))) -> won x for keeping V
(VP (VBD won) (NP (NN x)) (PP (IN for) (S (NP-SBJ (-NONE- *)) (VP (VBG keeping))))) -> won x for
    keeping V
(VP (VBD won) (NP (NN x)) (PP (IN with) (S (NP (NN y)) (VP (VBG falling))))) -> none
(VP (VBD won) (NP (NN x)) (PP (IN of) (S (VP (TO to) (VP (VB be)))))) -> none
(VP (VBD won) (NP (NN x)) (PP (IN until) (ADVP (RB now)))) -> none
(VP (VBD won) (NP (NN x)) (PP (IN at))) -> none
(VP (VBD won) (NP (NN x)) (PP (RB just) (IN at) (NP (NN y)))) -> none
(VP (VBD won) (NP (NN x)) (PP (VBG including) (NP (NN y)))) -> none
(VP (VBD won) (NP (NN x)) (PP (IN out) (IN of) (NP (NN y)))) -> won x out y V
(VP (VBD won) (NP (NN x)) (PP (IN at) (ADVP (RB now))) (PP (TO to) (NP (NN y)))) -> won x to y V
# Rule 4: quantities.
(VP (VBD paid) (NP ($ $) (CD 4) (CD million)) (PP (IN in) (NP (CD 1990)))) -> paid million in 1990
    V
(VP (VBD paid) (NP (QP ($ $) (CD 4) (CD million)) (-NONE- *U*)) (PP (IN in) (NP (NN x)))) -> paid
    million in x V
(VP (VBD kept) (NP (QP (IN about) (CD 50))) (PP (IN of) (NP (NP (CD 9)) (PP (IN of) (NP (NN
    x)))))) -> kept 50 of 9 V
# Function tags and traces.
(VP (VBD saw) (NP-1 (NP (NN x)) (PP-LOC (IN in) (NP (NN y)))) (PP-TMP (IN at) (NP (NN z)))) -> saw
    x in y N; saw x at z V
(VP (VBN seen) (NP (-NONE- *-1)) (PP (IN by) (NP (NN x)))) -> none
(VP (VBN sent) (NP (-NONE- *-1)) (NP (NN x)) (PP (IN by) (NP (NN y)))) -> sent x by y V
(VP (VBN sent) (NP (NN x)) (PP (IN by) (NP (-NONE- *T*)))) -> none
"""


@pytest.mark.parametrize(("text", "expected"), cases(RULES))
def test_rules(text, expected):
    assert ("; ".join(found(text)) or "none") == expected


def test_nested_sites_are_in_the_order_of_their_prepositions():
    text = (
        "(S (VP (VBD saw) (NP (NP (NNS men)) (SBAR (S (VP (VBG eating) (NP (NN pizza))"
        " (PP (IN with) (NP (NNS forks)))))) ) (PP (IN at) (NP (NN home)))))"
    )
    assert found(text) == ["eating pizza with forks V", "saw men at home V"]


# --- sites without a tree -------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("tags", "chunks", "expected"),
    [
        ("PRP VBD NN IN DT NN .", [(0, 1), (2, 3), (4, 6)], [(1, 2, 3, 5, 3, 6)]),
        # Adverbs and particles before the object; not after it, and no other words.
        ("VBD RB RP DT NN TO NNP", [(3, 5), (6, 7)], [(0, 4, 5, 6, 5, 7)]),
        ("VBD NN RB IN NN", [(1, 2), (4, 5)], []),
        ("VBD IN NN IN NN", [(2, 3), (4, 5)], []),
        ("NN IN NN", [(0, 1), (2, 3)], []),
        ("RB NN IN NN", [(1, 2), (3, 4)], []),
        ("VBD NN IN RB NN", [(1, 2), (4, 5)], []),
        ("VBD NN CC NN", [(1, 2), (3, 4)], []),
        ("VBD NN", [(1, 2)], []),
        ("VBD NN IN", [(1, 2)], []),
        # A possessor and what is possessed are one object; so they are after the preposition.
        ("VBD NN POS NN IN NNP POS NN", [(1, 2), (2, 4), (5, 6), (6, 8)], [(0, 3, 4, 7, 4, 8)]),
        # The head is the last noun; the last word where there is none.
        ("VBD NN RB IN DT JJ", [(1, 3), (4, 6)], [(0, 1, 3, 5, 3, 6)]),
        ("VBD $ CD CD IN CD", [(1, 4), (5, 6)], [(0, 3, 4, 5, 4, 6)]),
        # A number only where there is no noun: "bought it in May 1990 [for] 4 $".
        ("VBD PRP IN NNP CD", [(1, 2), (3, 5)], [(0, 1, 2, 3, 2, 5)]),
        ("VBD PRP IN CD $", [(1, 2), (3, 5)], [(0, 1, 2, 3, 2, 5)]),
        ("VBD $ IN JJ", [(1, 2), (3, 4)], [(0, 1, 2, 3, 2, 4)]),
        # Only the first preposition; the next one has no verb before its object.
        ("VBD NN IN NN IN NN", [(1, 2), (3, 4), (5, 6)], [(0, 1, 2, 3, 2, 4)]),
        # A conjunction.
        ("VBD NN IN PRP VBD", [(1, 2), (3, 4)], []),
        (
            "VBD NN IN NN VBG NN IN NN",
            [(1, 2), (3, 4), (5, 6), (7, 8)],
            [(0, 1, 2, 3, 2, 4), (4, 5, 6, 7, 6, 8)],
        ),
        ("", [], []),
    ],
)
def test_sites_from_chunks(tags, chunks, expected):
    found = [chain[0] for chain in chains_from_chunks(tags.split(), chunks)]
    assert found == [Site(*site, "") for site in expected]


# --- words ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Ate Pizza With Forks", "ate pizza with forks"),
        ("rose % to 1990", "rose % to YEAR"),
        ("rose 5.5 to 10,000", "rose NUM to NUM"),
        ("rose 1\\/2 to .5", "rose NUM to NUM"),
        ("fell 7:30 at 123", "fell NUM at NUM"),
        ("fell -5 at 12345", "fell NUM at NUM"),
        ("drove 1980s in A4", "drove 1980s in a4"),
        ("drove mid-1990 in 10th", "drove mid-1990 in 10th"),
    ],
)
def test_normalized(words, expected):
    assert normalized(tuple(words.split())) == tuple(expected.split())


# --- attaching otherwise --------------------------------------------------------------------------
MOVES = """
(VP (VBD ate) (NP (NN x)) (PP (IN in) (NP (NN y)))) -> 2 4 N -> (VP (VBD ate) (NP (NP (NN x)) (PP
    (IN in) (NP (NN y)))))
(VP (VBD ate) (NP (NP (NN x)) (PP (IN in) (NP (NN y))))) -> 2 4 V -> (VP (VBD ate) (NP (NN x)) (PP
    (IN in) (NP (NN y))))
# An object that ends in a prepositional phrase takes another one beside it.
(VP (RB a) (VBD ate) (NP (NP (NN x)) (PP (IN of) (NN y))) (PP (IN in) (NN z)) (ADVP (RB b)))
    -> 5 7 N -> (VP (RB a) (VBD ate) (NP (NP (NN x)) (PP (IN of) (NN y)) (PP (IN in) (NN z)))
    (ADVP (RB b)))
(VP (VBD ate) (NP (NP (NN x)) (PP (IN of) (NN y)) (PP (IN in) (NN z)))) -> 4 6 V -> (VP (VBD ate)
    (NP (NP (NN x)) (PP (IN of) (NN y))) (PP (IN in) (NN z)))
(VP (VBD ate) (NP (NP (NP (NN x)) (PP (IN of) (NN y))) (PP (IN in) (NN z)))) -> 4 6 V -> (VP (VBD
    ate) (NP (NP (NN x)) (PP (IN of) (NN y))) (PP (IN in) (NN z)))
# Another phrase stands in between.
(VP (VBD ate) (NP (NP (NN x)) (PP (IN of) (NN y)) (PP (IN in) (NN z)))) -> 2 4 V -> the same
(VP (VBD ate) (NP (NN x)) (ADVP (RB now)) (PP (IN in) (NN z))) -> 3 5 N -> the same
(VP (VBD ate) (NP (NP (NN x)) (PP (IN in) (NN z)) (SBAR (S (VP (VB go)))))) -> 2 4 V -> the same
# A conjunction joins the phrase to another one.
(VP (VBD ate) (NP (NP (NN x)) (PP (IN of) (NN y)) (CC or) (PP (IN in) (NN z)))) -> 5 7 V -> the
    same
(VP (VBD ate) (NP (NN x)) (PP (IN of) (NN y)) (, ,) (CC or) (PP (IN in) (NN z))) -> 2 4 N -> the
    same
# Punctuation and traces are no phrases.
(VP (VBD ate) (NP (NP (NN x)) (, ,) (PP (IN in) (NN z)) (, ,)) (: :)) -> 3 5 V -> (VP (VBD ate)
    (NP (NN x)) (, ,) (PP (IN in) (NN z)) (, ,) (: :))
(VP (VBD ate) (NP (NN x)) (, ,) (PP (IN in) (NN z)) (. .)) -> 3 5 N -> (VP (VBD ate) (NP (NP (NN
    x)) (, ,) (PP (IN in) (NN z))) (. .))
(VP (VBD ate) (NP-2 (NP (NN x)) (PP-LOC (IN in) (NN z)) (S (-NONE- *)))) -> 2 4 V -> (VP (VBD ate)
    (NP-2 (NN x)) (PP-LOC (IN in) (NN z)) (S (-NONE- *)))
(VP (VBD ate) (NP-2 (NN x)) (S (-NONE- *)) (PP (IN in) (NN z))) -> 3 5 N -> (VP (VBD ate) (NP-2
    (NP (NN x)) (S (-NONE- *)) (PP (IN in) (NN z))))
# Through a clause that is a noun phrase.
(VP (VBN named) (S (NP (NP (NN x)) (PP (IN of) (NN y))))) -> 2 4 V -> (VP (VBN named) (S (NP (NN
    x))) (PP (IN of) (NN y)))
(VP (VBN named) (S (NP (NN x))) (PP (IN of) (NN y))) -> 2 4 N -> (VP (VBN named) (S (NP (NP (NN
    x)) (PP (IN of) (NN y)))))
# So already; no such phrase; no object; nothing but the phrase in the object.
(VP (VBD ate) (NP (NN x)) (PP (IN in) (NN y))) -> 2 4 V -> the same
(VP (VBD ate) (NP (NP (NN x)) (PP (IN in) (NN y)))) -> 2 4 N -> the same
(VP (VBD ate) (NP (NN x)) (PP (IN in) (NN y))) -> 1 4 N -> the same
(VP (VBD ate) (NP (NN x)) (PP (IN in) (NN y))) -> 7 9 N -> the same
(VP (VBD ate) (PP (IN in) (NN y))) -> 1 3 N -> the same
(VP (VBD ate) (NP (PP (IN in) (NN y)))) -> 1 3 V -> the same
(VP (VBD ate) (NP (NN x)) (ADVP (IN in) (NN y))) -> 2 4 N -> the same
"""


@pytest.mark.parametrize(("text", "attachment", "expected"), cases(MOVES))
def test_reattach(text, attachment, expected):
    start, end, label = attachment.split()
    tree = parse_tree(text)
    moved = reattach(tree, [(int(start), int(end), label)])
    assert moved is tree if expected == "the same" else str(moved) == expected


def test_one_move_makes_room_for_another():
    tree = parse_tree(
        "(VP (VBD ate) (NP (NP (NN x)) (PP (IN of) (NP (NN y))) (PP (IN in) (NP (NN z)))))"
    )
    moved = reattach(tree, [(2, 4, "V"), (4, 6, "V")])
    flat = "(VP (VBD ate) (NP (NN x)) (PP (IN of) (NP (NN y))) (PP (IN in) (NP (NN z))))"
    assert str(moved) == flat
    assert reattach(moved, [(4, 6, "N"), (2, 4, "N")]) == tree
    # Of one phrase named twice the last counts.
    assert reattach(tree, [(4, 6, "V"), (4, 6, "N")]) is tree


@pytest.mark.parametrize("start", range(3))
def test_phrases_move_to_the_noun_of_their_site(start):
    """All pairs of attachments of "in" in "treated men with asthma in March"."""
    object_, phrase = "(NP (NNS men))", "(PP (IN in) (NP (NN March)))"
    asthma = "(PP (IN with) (NP (NN asthma)))"
    trees = [
        f"(VP (VBD treated) (NP {object_} {asthma}) {phrase})",
        f"(VP (VBD treated) (NP {object_} {asthma} {phrase}))",
        "(VP (VBD treated) (NP (NP (NNS men)) (PP (IN with) (NP (NP (NN asthma))"
        " (PP (IN in) (NP (NN March)))))))",
    ]
    wanted = [Site(0, 1, 4, 5, 4, 6, label) for label in "VN"] + [Site(0, 3, 4, 5, 4, 6, "N")]
    for tree, site in zip(trees, wanted, strict=True):
        moved = reattach(parse_tree(trees[start]), [site])
        assert str(moved) == str(parse_tree(tree))


@pytest.mark.parametrize("label", ["", "NP", "v"])
def test_other_labels_are_refused(label):
    with pytest.raises(StructlearnError, match=r"SL120.*3 to 6"):
        reattach(parse_tree(FORK), [(3, 6, label)])


def sampled(labels: str):
    return st.sampled_from(labels.split())


LEAVES = st.builds(Tree.leaf, sampled("NN NNP CD VBD VBG IN TO , . '' RB -NONE-"), st.just("w"))


def phrase(label: str, *children) -> st.SearchStrategy[Tree]:
    """A phrase of these children, some more after them."""
    return st.builds(lambda *parts: Tree(label, [*parts[:-1], *parts[-1]]), *children)


def rich(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    """Trees with many verb phrases that have an object and prepositional phrases."""
    more = st.lists(inner, max_size=3)
    return st.one_of(
        st.builds(Tree, sampled("S NP VP PP NP-TMP NP-SBJ QP SBAR"), st.lists(inner, min_size=1)),
        phrase("VP", st.just(Tree.leaf("VBD", "v")), inner, inner, more),
        phrase("NP", inner, inner, more),
        phrase("PP", st.just(Tree.leaf("IN", "p")), inner, more),
    )


NOUNS = st.builds(lambda word: Tree("NP", [Tree.leaf("NN", word)]), sampled("duck bread park"))
WITHIN = st.builds(lambda noun: Tree("PP", [Tree.leaf("IN", "in"), noun]), NOUNS)
OBJECTS = st.builds(Tree, st.just("NP"), st.tuples(NOUNS, WITHIN))
TREES = st.recursive(st.one_of(LEAVES, NOUNS, WITHIN, OBJECTS), rich, max_leaves=25)
OTHER = {"V": "N", "N": "V"}


def other_brackets(tree: Tree) -> Counter:
    """All but those of noun phrases and of clauses that may hold nothing else."""
    return Counter(span for span in tree.spans() if span[0] not in ("NP", "NP-SBJ", "S"))


@settings(max_examples=30)
@given(TREES)
def test_sites_are_what_they_say(tree):
    words, tags = tree.words(), tree.tags()
    brackets = {(start, end) for label, start, end in tree.spans() if label == "PP"}
    every = sites(tree, every=True)
    assert set(sites(tree)) <= set(every)
    assert every == sorted(every, key=lambda site: site.preposition)
    for site in every:
        assert site.verb < site.noun < site.preposition < site.object < site.end <= len(words)
        assert site.start <= site.preposition
        assert (site.start, site.end) in brackets
        assert tags[site.verb] in ("VBD", "VBG")
        assert tags[site.preposition] in ("IN", "TO")
        assert "-NONE-" not in (tags[site.noun], tags[site.object])


REPEATED = """(VP (VP (VBD v) (NN w) (NP-1 (NP (NP (NN duck)) (PP (IN in) (NP (NN duck)))))
    (PP (PP (IN in) (NP (NN duck))))))"""


@settings(max_examples=30)
@given(TREES)
@example(parse_tree(REPEATED))
def test_normalised_trees_have_the_same_sites(tree):
    normal = normalize(tree, root=None)
    places = [i for i, tag in enumerate(tree.tags()) if tag != "-NONE-"]
    if normal is None:
        assert sites(tree) == []
    elif not any("TMP" in label for label, _, _ in tree.spans()):
        overt = [[places.index(i) for i in site[:4]] + [site.label] for site in sites(tree)]
        assert [[*site[:4], site.label] for site in sites(normal)] == overt


@settings(max_examples=30)
@given(TREES, st.data())
def test_reattaching_moves_the_phrase_and_nothing_else(tree, data):
    every = sites(tree, every=True)
    chosen = [data.draw(st.sampled_from(every))] if every else []
    others = [site._replace(label=OTHER[site.label]) for site in chosen]
    moved = reattach(tree, others)
    assert (moved.words(), moved.tags()) == (tree.words(), tree.tags())
    assert reattach(moved, others) is moved
    assert reattach(tree, chosen) is tree
    if moved is not tree:
        (site,) = others
        assert site in sites(moved, every=True)
        assert other_brackets(moved) == other_brackets(tree)
        back = reattach(moved, chosen)
        assert sites(back, every=True) == every


# --- chains ---------------------------------------------------------------------------------------
TREATED = """(S (NP (PRP They)) (VP (VBD treated) (NP (NP (NNS men)) (PP (IN with)
    (NP (NP (NN asthma)) (PP (IN of) (NP (DT the) (NN lung)))))) (PP (IN in) (NP (NN March)))))"""
MEN, ASTHMA, LUNG, MARCH = 2, 4, 7, 9


def test_the_chain_of_a_tree():
    assert chains(parse_tree(TREATED)) == [
        [
            Site(1, MEN, 3, ASTHMA, 3, 8, "N"),
            Site(1, ASTHMA, 5, LUNG, 5, 8, "N"),
            Site(1, LUNG, 8, MARCH, 8, 10, "V"),
        ]
    ]
    assert chains(parse_tree(FORK)) == [sites(parse_tree(FORK))]
    assert chains(parse_tree("(NN dog)")) == []


def test_the_chain_of_chunks():
    tags = ["PRP", "VBD", "NNS", "IN", "NN", "IN", "DT", "NN", "IN", "NNP"]
    chunks = [(0, 1), (2, 3), (4, 5), (6, 8), (9, 10)]
    (chain,) = chains_from_chunks(tags, chunks)
    assert [site[:4] for site in chain] == [(1, 2, 3, 4), (1, 4, 5, 7), (1, 7, 8, 9)]
    # What follows is a clause.
    (chain,) = chains_from_chunks([*tags, "VBD"], chunks)
    assert len(chain) == 2
    assert chains_from_chunks(["NN"], [(0, 1)]) == chains_from_chunks([], []) == []


@settings(max_examples=50)
@given(TREES)
def test_chains_extend_sites(tree):
    found = chains(tree)
    every = {site.preposition: site for chain in found for site in chain}
    assert len(every) == sum(map(len, found)), "each phrase is in one chain"
    for chain in found:
        assert len({site.verb for site in chain}) == 1
        reachable = [chain[0].noun]
        for site in chain:
            assert site.verb < site.noun < site.preposition < site.object < site.end
            assert site.noun in reachable
            reachable = opened(reachable, site)
    for site in sites(tree, every=True):
        # Of phrases that cross others only some are in a chain.
        assert every.get(site.preposition, site).label == site.label


CHAIN = chains(parse_tree(TREATED))[0]


def test_decisions():
    # The second phrase takes the better noun; then only nouns that it does not cross are left.
    decisions = decided(CHAIN, [3.0, 4.0, 2.0, 0.5, 9.0, 0.5])
    assert [(site.noun, site.label) for site, _ in decisions] == [(2, "N"), (2, "N"), (LUNG, "V")]
    assert [p for _, p in decisions] == pytest.approx([3 / 4, 4 / 7, 1 / 2])
    # Behind a phrase of the verb, the object cannot be reached.
    decisions = decided(CHAIN, [0.5, 9.0, 0.5, 9.0, 0.1, 2.0])
    assert [(site.noun, site.label) for site, _ in decisions] == [
        (MEN, "V"),
        (ASTHMA, "V"),
        (LUNG, "N"),
    ]


@given(st.lists(st.floats(1e-12, 1e12), min_size=6, max_size=6))
def test_decisions_do_not_cross(odds):
    reachable = [CHAIN[0].noun]
    for (site, probability), before in zip(decided(CHAIN, odds), CHAIN, strict=True):
        assert site._replace(noun=0, label="") == before._replace(noun=0, label="")
        assert site.noun in reachable
        assert 1 / (2 + len(reachable)) <= probability <= 1
        reachable = opened(reachable, site)
