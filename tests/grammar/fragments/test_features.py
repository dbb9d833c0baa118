"""Features of fragments: templates, where they are in trees and in forests, and their hashes."""

import numpy as np
import pytest
from grammar import plain_fragments as plain
from grammar.treebanks import sample, toy, trees

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.fragments import features as fragments
from spacy_structlearn.grammar.fragments.features import (
    FRAGMENT_TEMPLATES,
    POSITIONS,
    FeatureHasher,
    FragmentForests,
    FragmentTemplates,
    Template,
    bounded,
    sites_of_trees,
)
from spacy_structlearn.grammar.fragments.weights import FragmentGrammar
from spacy_structlearn.grammar.latent.em import treebank_grammar
from spacy_structlearn.grammar.spans.word_attributes import word_hash
from spacy_structlearn.grammar.treebank.data import BINARIZATIONS, binarize

MORE = (
    "LABEL",
    "TAG",
    "RULE|PARENT|GRANDPARENT",
    "RULE|SIBLING|PARENT",
    "LABEL|SIBLING",
    "LABEL|PARENT|SIBLING",
    "LABEL|PARENT|GRANDPARENT",
    "TAG|PARENT|GRANDPARENT",
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
ALL = tuple(dict.fromkeys(FRAGMENT_TEMPLATES + MORE))
# A root of several children, one of a tag alone, and phrases of one child.
ODD = trees(
    "(R (P (L (N tora) (A ni)) (V mita)) (. 。))",
    "(R (P (L (L (N inu) (N neko) (A no) (D ano)) (N kage) (A ga)) (P (L (N mori)) (V mita))))",
    "(R (N inu) (A ga) (V naita))",
    "(R (P (L (P (L (N mori))))))",
    "(R (V naita))",
)
TREEBANKS = [toy, lambda: ODD, sample]


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
        ("RULE|GRANDPARENT", "PARENT comes before"),
        ("RULE|PARENT|PARENT", "PARENT comes before"),
        ("RULE|SIBLING|SIBLING", "each once"),
        ("TAG|SIBLING", "no SIBLING"),
        ("RULE|PARENT|GRANDPARENT|SIBLING", "SIBLING goes with PARENT"),
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
        Template.parse(text)
    assert error.value.code == "SL441"
    assert repr(text) in str(error.value)
    assert problem in str(error.value)


# --- sites of trees ------------------------------------------------------------------------------
def columns(site, tags, row):
    """A site as `Sites` has it; row: of the first word."""
    places = [plain.place_of(site, position) for position in POSITIONS]
    n = len(site.part.children)
    return (
        (site.symbol, site.left if n else -1, site.right if n > 1 else -1),
        site.relations,
        tuple(-1 if place is None else row + place for place in places),
        tuple(-1 if place is None else tags[place] for place in places[:4]),
    )


def row_of(sites, i):
    return (
        (int(sites.symbol[i]), int(sites.left[i]), int(sites.right[i])),
        tuple(sites.relations[i].tolist()),
        tuple(sites.words[i].tolist()),
        tuple(sites.tags[i].tolist()),
    )


@pytest.mark.parametrize("binarization", BINARIZATIONS)
@pytest.mark.parametrize("treebank", TREEBANKS)
def test_sites_of_trees_against_recursion(treebank, binarization):
    gold = treebank()[:60]
    data = binarize(gold, binarization, gold[0].label)
    sites, tree = sites_of_trees(data)
    assert len(sites) == len(tree) == data.n_nodes
    row, seen = 1, []
    for x in range(data.n_trees):
        found, words, tags = plain.sites_of(plain.tree_of(data, x), data.symbols)
        assert words == gold[x].words()
        for site in found:
            node = site.part.number
            assert tree[node] == x
            assert row_of(sites, node) == columns(site, tags, row)
            seen.append(node)
        row += len(words) + 1
    assert sorted(seen) == list(range(data.n_nodes))
    assert sites.words.max() == row - 1
    assert sites.relations.dtype == sites.tags.dtype == sites.symbol.dtype == np.int32


# --- hashes --------------------------------------------------------------------------------------
@pytest.mark.parametrize("binarization", BINARIZATIONS)
def test_keys_against_python(binarization):
    gold = toy() + ODD
    data = binarize(gold, binarization, "R")
    known = frozenset([word_hash("tora"), word_hash("mita")])
    vocabulary = np.array(sorted(known), dtype=np.uint64)
    templates = FragmentTemplates(ALL)
    hasher = FeatureHasher(templates, vocabulary)
    sites, _ = sites_of_trees(data)
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
        "LABEL|PARENT|GRANDPARENT",
        "TAG|SUFFIX2[first]",
        "RULE|TAG[left]|WORD[right]",
        "LABEL|WORD[before]|SHAPE[last]",
    )
    hasher = FeatureHasher(FragmentTemplates(texts), np.array([word_hash("mita")], np.uint64))
    sites, _ = sites_of_trees(data)
    attributes = hasher.attributes(data.sentences)
    keys = [hasher.features(template, sites, attributes)[1] for template in hasher.templates.all]
    assert [int(own[-1]) for own in keys] == KEYS


KEYS = [
    17082445402908884956,
    14527331580164495007,
    18204396692760631243,
    16583109107823787963,
    17347405952332121322,
    5379513958501755097,
]


# --- sites of forests ----------------------------------------------------------------------------
def forests_of(data, sentences, threshold=0.0):
    parser = ChartParser(FragmentGrammar(treebank_grammar(data)), thresholds=(threshold,))
    graphs, numbers = parser.forests(sentences)
    assert len(numbers) == len(sentences)
    return graphs


# --- forests that are too large ------------------------------------------------------------------
def batch_of(treebank):
    gold = treebank()[:12]
    data = binarize(gold, root="R")
    return data, gold, forests_of(data, [tree.words() for tree in gold])


@pytest.mark.parametrize("texts", [["RULE|TAG[first]"], ["RULE|PARENT"]])
@pytest.mark.parametrize("most", [1, 20, 60])
def test_large_forests_lose_what_is_least_likely(monkeypatch, texts, most):
    monkeypatch.setattr(fragments, "MAX_EDGES", most)
    data, _, graphs = batch_of(toy)
    templates, n_tags = FragmentTemplates(texts), data.symbols.n_tags
    fewer, chosen = bounded(graphs, templates, n_tags)
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
        alone, _ = bounded(graphs.select([x]), templates, n_tags)
        np.testing.assert_array_equal(alone.scores, graphs.scores[edges][left[edges]])
        if not templates.tags:
            assert left[edges].sum() <= most + best[1][edges].sum()


def test_trees_that_must_stay_do(monkeypatch):
    monkeypatch.setattr(fragments, "MAX_EDGES", 1)
    data, gold, graphs = batch_of(toy)
    target = graphs.closest(gold, data.symbols)
    assert (target & ~graphs.best(graphs.scores)[1]).any()
    templates = FragmentTemplates(["RULE|TAG[first]", "RULE|PARENT"])
    found = FragmentForests(graphs, templates, data.symbols, "right", target)
    assert set(np.flatnonzero(target)) <= set(found.edges.tolist())
    reached = np.where(target[found.edges], 0.0, -np.inf)
    assert (found.graphs.best(reached)[0] == 0).all()
