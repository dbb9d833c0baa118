"""Features of fragments: templates, where they are in trees and in forests, and their hashes."""

import numpy as np
import pytest
from grammar import plain_fragments as plain
from grammar.treebanks import toy, trees

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.fragments import features
from spacy_structlearn.grammar.fragments import features as fragments
from spacy_structlearn.grammar.fragments.weights import FragmentGrammar
from spacy_structlearn.grammar.latent.em import treebank_grammar
from spacy_structlearn.grammar.spans.word_attributes import word_hash
from spacy_structlearn.grammar.treebank.data import BINARIZATIONS, binarize

MORE = (
    "LABEL",
    "TAG",
    "RULE|SIBLING|PARENT",
    "LABEL|SIBLING",
    "LABEL|PARENT|SIBLING",
    "LABEL|WORD[before]|WORD[first]",
    "LABEL|WORD[after]|WORD[last]",
    "LABEL|SHAPE[before]",
    "LABEL|TAG[last]|PREFIX3[after]",
    "RULE|WORD[first]|WORD[last]",
    "RULE|WORD[left]|TAG[right]",
    "RULE|WORD[before]|TAG[first]|SHAPE[right]",
    "TAG|WORD[first]",
    "TAG|SUFFIX1[first]",
)
ALL = tuple(dict.fromkeys(features.FRAGMENT_TEMPLATES + MORE))
# A root of several children, one of a tag alone, and phrases of one child.
ODD = trees(
    "(R (P (L (N tora) (A ni)) (V mita)) (. 。))",
    "(R (P (L (L (N inu) (N neko) (A no) (D ano)) (N kage) (A ga)) (P (L (N mori)) (V mita))))",
    "(R (N inu) (A ga) (V naita))",
    "(R (P (L (P (L (N mori))))))",
    "(R (V naita))",
)


# --- templates -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "malformed"),
        ("RULES", "malformed"),
        ("RULE|", "malformed"),
        ("RULE|WORD", "malformed"),
        ("RULE|WORD[first", "malformed"),
        ("RULE|SUFFIX10[first]", "malformed"),
        ("RULE|GRANDPARENT", "malformed"),
        ("RULE|SIBLING|SIBLING", "occur once"),
        ("TAG|SIBLING", "no SIBLING"),
        ("RULE|PARENT|WORD[first]", "relations and words"),
        ("LABEL|WORD[left]", "only a RULE"),
        ("RULE|WORD[first]|WORD[left]", "not independent"),
        ("RULE|WORD[first]|SHAPE[first]", "not independent"),
        ("RULE|WORD[before]|WORD[after]", "not independent"),
        ("LABEL|WORD[first]|WORD[last]", "not independent"),
        ("TAG|WORD[last]", "first one"),
        ("RULE|TAG[before]", "inside"),
    ],
)
def test_what_is_no_template(text, problem):
    with pytest.raises(StructlearnError) as error:
        features.Template.parse(text)
    assert error.value.code == "SL441"
    assert repr(text) in str(error.value)
    assert problem in str(error.value)


# --- hashes --------------------------------------------------------------------------------------
@pytest.mark.parametrize("binarization", BINARIZATIONS)
def test_keys_against_python(binarization):
    gold = toy() + ODD
    data = binarize(gold, binarization, "R")
    known = frozenset([word_hash("tora"), word_hash("mita")])
    vocabulary = np.array(sorted(known), dtype=np.uint64)
    templates = features.FragmentTemplates(ALL)
    hasher = features.FeatureHasher(templates, vocabulary)
    sites = features.sites_of_trees(data, templates)
    sentences = data.sentences
    assert sentences == [tree.words() for tree in gold]
    attributes = hasher.attributes(sentences)
    by_tree = [plain.sites_of(plain.tree_of(data, x), data.symbols) for x in range(len(gold))]
    spelt = {s.part.number: (s, words, tags) for found, words, tags in by_tree for s in found}
    for template in templates.all:
        rows, keys = hasher.features(template, sites, attributes)
        assert keys.dtype == np.uint64
        wanted = {x: plain.key_of(template.text, *site, known) for x, site in spelt.items()}
        wanted = {x: key for x, key in wanted.items() if key is not None}
        assert dict(zip(rows.tolist(), keys.tolist(), strict=True)) == wanted, template.text


def test_hashes_are_part_of_the_model_format():
    data = binarize(toy()[:1], root="R")
    texts = (
        "RULE",
        "RULE|SIBLING|PARENT",
        "TAG|SUFFIX2[first]",
        "RULE|TAG[left]|WORD[right]",
        "LABEL|WORD[before]|SHAPE[last]",
    )
    hasher = features.FeatureHasher(
        features.FragmentTemplates(texts), np.array([word_hash("mita")], np.uint64)
    )
    sites = features.sites_of_trees(data, hasher.templates)
    attributes = hasher.attributes(data.sentences)
    keys = [hasher.features(template, sites, attributes)[1] for template in hasher.templates.all]
    assert [int(own[-1]) for own in keys] == KEYS


KEYS = [
    17082445402908884956,
    14527331580164495007,
    16583109107823787963,
    17347405952332121322,
    5379513958501755097,
]


# --- forests that are too large ------------------------------------------------------------------
def forests():
    """Trees, and the forests of their sentences by their own grammar."""
    data = binarize(toy(), root="R")
    parser = ChartParser(FragmentGrammar(treebank_grammar(data)), thresholds=(0.0,))
    graphs, _ = parser.forests([tree.words() for tree in toy()])
    return data, graphs


@pytest.mark.parametrize("texts", [["RULE|TAG[first]"], ["RULE|PARENT"]])
@pytest.mark.parametrize("most", [1, 20, 60])
def test_large_forests_lose_what_is_least_likely(monkeypatch, texts, most):
    monkeypatch.setattr(fragments, "MAX_EDGES", most)
    data, graphs = forests()
    templates, n_tags = features.FragmentTemplates(texts), data.symbols.n_tags
    fewer, chosen = features.bounded(graphs, templates, n_tags)
    np.testing.assert_array_equal(chosen, np.unique(chosen))
    np.testing.assert_array_equal(fewer.scores, graphs.scores[chosen])
    left = np.zeros(len(graphs.scores), dtype=bool)
    left[chosen] = True
    assert not left.all()
    best = graphs.best(graphs.scores)
    assert left[best[1]].all()
    np.testing.assert_array_equal(fewer.best(fewer.scores)[0], best[0])
    posteriors = graphs.inside_outside(graphs.scores)[1]
    for x in range(len(graphs)):
        edges = slice(*graphs.edge_offsets[x : x + 2].tolist())
        others = ~best[1][edges]
        mine, own = left[edges][others], posteriors[edges][others]
        # Up to ties.
        if mine.any() and not mine.all():
            assert own[mine].min() >= own[~mine].max()
        # As if it had been alone.
        alone, _ = features.bounded(graphs.select([x]), templates, n_tags)
        np.testing.assert_array_equal(alone.scores, graphs.scores[edges][left[edges]])
        if not templates.tags:
            assert left[edges].sum() <= most + best[1][edges].sum()


def test_trees_that_must_stay_do(monkeypatch):
    monkeypatch.setattr(fragments, "MAX_EDGES", 1)
    data, graphs = forests()
    target = graphs.closest(toy(), data.symbols)
    assert (target & ~graphs.best(graphs.scores)[1]).any()
    templates = features.FragmentTemplates(["RULE|TAG[first]", "RULE|PARENT"])
    found = features.FragmentForests(graphs, templates, data.symbols, "right", target)
    assert set(np.flatnonzero(target)) <= set(found.edges.tolist())
    reached = np.where(target[found.edges], 0.0, -np.inf)
    assert (found.graphs.best(reached)[0] == 0).all()
