"""The choices of dependency trees, on trees that can be checked by hand."""

import numpy as np
import pytest

from spacy_structlearn.dependencies.choosing import YES, gold_choices, pairs_of, possible_arcs
from spacy_structlearn.dependencies.features import (
    HEAD,
    LABEL,
    SISTER,
    TEMPLATES,
    dependency_templates,
)
from spacy_structlearn.dependencies.phrases import PhraseTrees, gold_heads
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.nodes import Brackets

TREES = (
    "(TOP (S (NP (DT The) (NN dog)) (VP (VBZ barks) (PP (IN at) (NP (NNS cats)))) (. .)))",
    "(TOP (INTJ (UH Yes)))",
    "(TOP (NP (NN tea) (, ,) (NN milk) (CC and) (NN sugar)))",
)
# In words of all trees.
HEADS = np.array([1, 2, 2, 4, 2, 2, 6, 7, 9, 7, 11, 7])
LABELS = ["det", "nsubj", None, "case", "obl", "punct", None, None, "punct", "conj", "cc", "conj"]


@pytest.fixture
def phrases():
    return PhraseTrees(Brackets.of(map(parse_tree, TREES)))


def right_answers(stage, columns):
    return np.full(len(next(iter(columns.values()))), 0.5)


def test_phrases(phrases):
    names = [phrases.names[label] for label in phrases.tops.tolist()]
    first = ["S", "NP", "DT", "NN", "VP", "VBZ", "PP", "IN", "NP", "."]
    assert names == [*first, "INTJ", "NP", "NN", ",", "NN", "CC", "NN"]
    assert phrases.sizes.tolist() == [3, 2, 0, 0, 2, 0, 2, 0, 0, 0, 0, 5, *[0] * 5]
    assert phrases.parents.tolist() == [-1, 0, 1, 1, 0, 4, 4, 6, 6, 0, -1, -1, *[11] * 5]
    assert phrases.roots.tolist() == [0, 10, 11]
    # A word below phrases without sisters is in one phrase with them.
    tags = [phrases.names[tag] for tag in phrases.tags[phrases.leaves].tolist()]
    assert tags == list(phrases.word_tags)


def test_gold_heads_of_phrases(phrases):
    found = gold_heads(phrases, HEADS)
    assert found[phrases.roots].tolist() == [2, 6, 7]
    assert found[[1, 4, 6]].tolist() == [1, 2, 4]
    unknown = np.where(HEADS < 6, -1, HEADS)
    assert gold_heads(phrases, unknown)[phrases.roots].tolist() == [-1, 6, 7]


def test_gold_choices(phrases):
    choices = gold_choices(phrases, HEADS, LABELS)
    columns, answers = choices[HEAD]
    assert len(answers) == len(columns["q"]) == len(phrases.children)
    assert answers.count(YES) == (phrases.sizes > 0).sum()
    assert choices[SISTER][1].count(YES) == 2 + 4  # in phrases of three children or more
    assert sorted(choices[LABEL][1]) == sorted(filter(None, LABELS))
    for stage, (columns, answers) in choices.items():
        used = {name for template in TEMPLATES[stage] for name in template}
        assert used <= columns.keys()
        for column in columns.values():
            assert column.dtype == np.uint64
            assert len(column) == len(answers)


def test_arcs_of_known_answers(phrases):
    """With the gold answers, the arcs are the gold ones."""
    gold = gold_choices(phrases, HEADS, LABELS)

    def score(stage, columns):
        known = np.array([answer == YES for answer in gold[stage][1]])
        assert len(known) == len(next(iter(columns.values())))
        return known.astype(float)

    possible = possible_arcs(phrases, score)
    assert possible.best.tolist() == HEADS.tolist()
    assert possible.roots.tolist() == [2, 6, 7]
    best = possible.probabilities > 0.5
    pairs = zip(possible.dependents[best].tolist(), possible.heads[best].tolist(), strict=True)
    assert sorted(pairs) == [(d, h) for d, h in enumerate(HEADS.tolist()) if d != h]


def test_without_knowledge_the_arcs_are_a_tree(phrases):
    possible = possible_arcs(phrases, right_answers)
    sums = np.bincount(possible.places, possible.probabilities)
    assert np.allclose(sums[sums > 0], 1.0)
    heads = possible.best
    for word in range(len(heads)):
        for _ in range(len(heads)):
            word = heads[word]
        assert heads[word] == word


def test_pairs_are_near_or_with_the_head_child():
    tree = "(TOP (NP " + " ".join(f"(NN w{i})" for i in range(40)) + "))"
    phrases = PhraseTrees(Brackets.of([parse_tree(tree)]))
    places, sisters = pairs_of(phrases, np.array([39, *[-1] * 40]))
    assert set(places.tolist()) == set(range(39))
    far = np.abs(places - sisters) > phrases.window
    assert (sisters[far] == 39).all()
    assert len(places) < 40 * 10


@pytest.mark.parametrize("stage", [HEAD, LABEL])
def test_features_of_trees_in_a_batch_are_those_of_each_tree(phrases, stage):
    def columns(phrases):
        possible = possible_arcs(phrases, right_answers)
        every = np.arange(len(possible.places))
        return possible.choices.heads() if stage == HEAD else possible.labels(every)

    single = [columns(PhraseTrees(Brackets.of([parse_tree(tree)]))) for tree in TREES]
    for name, column in columns(phrases).items():
        assert column.tolist() == [x for own in single for x in own[name].tolist()], name


def test_templates():
    assert dependency_templates(LABEL)[0] == ["q"]
    with pytest.raises(StructlearnError, match="SL039"):
        dependency_templates("roles")
