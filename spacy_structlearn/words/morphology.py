"""Parts of speech, morphological features and lemmas of words that have tags and maybe trees.

An analysis is a universal part of speech with its features, "NOUN|Number=Sing" (Nivre et al. 2020,
"Universal Dependencies v2"). Tags of the Penn Treebank decide most of it. The rest depends on the
word (pronouns have case and person), on its neighbours ("to" is a preposition or a particle) and on
its phrase ("that" is a pronoun or a conjunction). The lemma follows from the word and its analysis,
by rules and learned exceptions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..arrays import Coded
from ..learning.stored import Stored
from ..trees.labels import VERBS
from ..trees.nodes import TreeNodes
from .lemmas import Lemmatizer

Ints = NDArray[np.integer]

VERBAL = VERBS | {"MD", "TO"}
REACH = 4  # greatest distance of the verbs next to a word
UNMARKED = "_"  # in place of features, as in CoNLL-U
FEW = 2  # an exception to the rules of lemmas occurs so often


# --- features -------------------------------------------------------------------------------------
def next_to(found: NDArray[np.bool_], offsets: Ints, reach: int = REACH) -> tuple[Ints, Ints]:
    """Return the nearest word before and behind each word for which `found` is true, -1 for none.

    offsets: the first word of each sentence, and the number of words, (s + 1).
    reach: the greatest distance, within the sentence.
    """
    n, sizes = len(found), np.diff(offsets)
    every, sentences = np.arange(n), np.repeat(np.arange(len(sizes)), sizes)
    before = np.maximum.accumulate(np.where(found, every, -1))
    behind = np.minimum.accumulate(np.where(found, every, n)[::-1])[::-1]
    places = np.append(-1, before)[:n], np.append(behind, n)[1:]
    padded = np.append(sentences, -1)
    near = [(padded[p] == sentences) & (abs(p - every) <= reach) for p in places]
    return np.where(near[0], places[0], -1), np.where(near[1], places[1], -1)


def phrases(nodes: TreeNodes) -> dict[str, Coded]:
    """Return what is around each word: the label of its phrase, of the phrase that contains this
    one, and of the sisters on the left and on the right; None for none.
    """
    leaves, labels = nodes.leaves, np.append(nodes.labels, -1)
    parents, (places, sisters) = np.append(nodes.parents, -1), nodes.sisters
    phrase, ranks = parents[leaves], nodes.ranks[leaves]
    last = ranks + 1 == np.append(nodes.n_children, 1)[phrase]
    around = {
        "PHRASE": phrase,
        "PHRASE_ABOVE": parents[phrase],
        "LEFT": np.where(ranks > 0, sisters[places[leaves] - 1], -1),
        "RIGHT": np.where(last, -1, sisters[(places[leaves] + 1) % max(nodes.n, 1)]),
    }
    return {name: Coded([*nodes.names, None], labels[found]) for name, found in around.items()}


# --- analyses and lemmas --------------------------------------------------------------------------
def analysis(pos: str, features: str) -> str:
    """Return an analysis as one label."""
    return f"{pos}|{features}" if features not in ("", UNMARKED) else pos


def lower_form(word: str, label: str) -> str:
    """Return a word in lower case, unless its analysis says that it is a name."""
    return word if label.partition("|")[0] == "PROPN" else word.lower()


class Lemmas(Stored):
    """Lemmas that do not follow the rules, by the form of the word and its analysis.

    forms, analyses, lemmas: of the exceptions, sorted.
    """

    kind = "lemma_exceptions"

    def __init__(
        self,
        forms: Sequence[str] = (),
        analyses: Sequence[str] = (),
        lemmas: Sequence[str] = (),
    ):
        self.forms, self.analyses, self.lemmas = map(tuple, (forms, analyses, lemmas))
        self._table = dict(zip(zip(forms, analyses, strict=True), lemmas, strict=True))

    def __len__(self) -> int:
        return len(self.lemmas)

    def lemma(self, word: str, label: str, lemmatizer: Lemmatizer | None = None) -> str:
        """Return the lemma of a word.

        label: its analysis.
        lemmatizer: gives the base forms of verbs, with the tag VB, and of plural nouns, with NNS.
        """
        form = lower_form(word, label)
        return self._table.get((form, label)) or _by_rule(form, label, lemmatizer)

    def learned(
        self, counts: Mapping[tuple[str, str, str], int], lemmatizer: Lemmatizer | None = None
    ) -> Lemmas:
        """Return these exceptions together with those of a corpus.

        counts: how often a form with an analysis has a lemma there. The most frequent lemma counts,
            and of equally frequent ones that of the rules.
        """
        best: dict[tuple[str, str], tuple[int, bool, str]] = {}
        for (form, label, lemma), count in counts.items():
            expected = lemma == self.lemma(form, label, lemmatizer)
            found = count, expected, lemma
            best[form, label] = max(best.get((form, label), found), found)
        new = {key: lemma for key, (n, known, lemma) in best.items() if n >= FEW and not known}
        rows = sorted((*key, lemma) for key, lemma in (self._table | new).items())
        return Lemmas(*zip(*rows, strict=True)) if rows else Lemmas()


def _by_rule(form: str, label: str, lemmatizer: Lemmatizer | None) -> str:
    pos, _, features = label.partition("|")
    if lemmatizer is not None and pos in ("VERB", "AUX"):
        return lemmatizer(form, "VB")
    if lemmatizer is not None and pos == "NOUN" and "Number=Plur" in features:
        return lemmatizer(form, "NNS")
    return form
