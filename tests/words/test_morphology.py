"""What is next to a word, in its sentence and its tree, and lemmas with learned exceptions."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.nodes import Brackets, TreeNodes
from spacy_structlearn.words import morphology
from spacy_structlearn.words.lemmas import lemma
from spacy_structlearn.words.morphology import Lemmas

PAST = "VERB|Mood=Ind|Tense=Past|VerbForm=Fin"
TREE = "(S (NP (DT The) (NN dog)) (VP (VBD ran) (ADVP (RB off))) (. .))"


@given(st.lists(st.lists(st.booleans(), min_size=1), max_size=4), st.integers(1, 3))
def test_next_words(sentences, reach):
    found = np.array([flag for own in sentences for flag in own], dtype=bool)
    offsets = np.cumsum([0, *map(len, sentences)])
    before, behind = morphology.next_to(found, offsets, reach)
    for begin, end in pairwise(offsets):
        for i in range(begin, end):
            near = [j for j in np.flatnonzero(found) if begin <= j < end and abs(i - j) <= reach]
            assert before[i] == max((j for j in near if j < i), default=-1)
            assert behind[i] == min((j for j in near if j > i), default=-1)


def test_phrases():
    columns = morphology.phrases(TreeNodes(Brackets.of([parse_tree(TREE)] * 2)))
    assert {name: list(column)[5:] for name, column in columns.items()} == {
        "PHRASE": ["NP", "NP", "VP", "ADVP", "S"],
        "PHRASE_ABOVE": ["S", "S", "S", "VP", None],
        "LEFT": [None, "DT", None, None, "VP"],
        "RIGHT": ["NN", None, "ADVP", None, None],
    }


@pytest.mark.parametrize(
    ("word", "label", "base"),
    [
        ("Dogs", "NOUN|Number=Plur", "dog"),
        ("news", "NOUN|Number=Sing", "news"),
        ("Has", "AUX|Mood=Ind", "have"),
        ("Smiths", "PROPN|Number=Plur", "Smiths"),
        ("The", "DET", "the"),
    ],
)
def test_rules(word, label, base):
    assert Lemmas().lemma(word, label, lemma) == base
    assert Lemmas().lemma(word, label) == (word if label.startswith("PROPN") else word.lower())


def test_learned_exceptions():
    counts = {
        ("n't", "PART", "not"): 3,
        ("n't", "PART", "n't"): 1,
        ("sang", PAST, "sing"): 5,  # a rule gives this
        ("seen", "ADJ", "see"): 1,  # too few
        ("off", "ADV", "of"): 2,
        ("off", "ADV", "off"): 2,  # the rule decides
    }
    learned = Lemmas().learned(counts, lemma)
    assert (learned.forms, learned.analyses, learned.lemmas) == (("n't",), ("PART",), ("not",))
    assert learned.lemma("N'T", "PART", lemma) == "not"
    assert learned.lemma("n't", "ADV", lemma) == "n't"
    assert learned.learned({}, lemma) == learned == Lemmas.from_bytes(learned.to_bytes())
    more = learned.learned({("n't", "PART", "n't"): 2, ("an", "DET", "a"): 2}, lemma)
    assert [more.lemma(*pair, lemma) for pair in (("n't", "PART"), ("An", "DET"))] == ["n't", "a"]
