"""Chains of prepositional phrases: in trees, in chunks, and decisions about them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn.attachment.sites import (
    Site,
    chains,
    chains_from_chunks,
    decided,
    opened,
    sites,
)
from spacy_structlearn.trees.brackets import parse_tree

from .test_sites import FORK, TREES

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
