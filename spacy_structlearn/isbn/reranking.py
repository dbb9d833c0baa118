"""Reranking of the best trees of another parser by a sigmoid belief network.

A tree t of the list has the score log P(t | words) of the first parser plus a weight times log P(t,
words) of the network, by its canonical derivation: a log-linear combination as in Charniak &
Johnson (2005). The best tree, or that of minimum Bayes risk over the list, is taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from ..trees.parse import Parse
from ..trees.tree import Tree
from .decode import BRACKET_COST, BY_BRACKETS, numbered
from .derivation import encode
from .model import ISBN

Floats = NDArray[np.float64]


class Reranker:
    """Chooses one of several parses of a sentence.

    model: the network. k: how many parses it reads. weight: of its log-probabilities. decoder: as
    in `DerivationParser`.

    Raises StructlearnError if the network is empty.
    """

    def __init__(self, model: ISBN, k: int, weight: float, *, decoder: str = "viterbi"):
        if model.is_empty:
            raise StructlearnError("SL420")
        self.k, self.weight, self.by_brackets = k, weight, decoder in BY_BRACKETS
        self._model, self._network = model, model.network()
        self._weights = model.weights.astype(np.float64)

    def log_probabilities(self, trees: Sequence[Tree]) -> Floats:
        """Return log P(tree, words) of normalised trees by their canonical derivations, in nats.

        The result, float64 (n), is -inf for trees that the network cannot derive.
        """
        derivations, numbers = encode(trees, self._model.symbols)
        every, scores = np.arange(len(numbers)), np.full(len(trees), -np.inf)
        own = self._network.log_likelihoods(self._weights, *derivations.arrays, every)
        scores[numbers] = own + self._model.signature_scores(derivations)
        return scores

    def best(
        self, sentences: Sequence[Sequence[str]], lists: Sequence[Sequence[Parse]]
    ) -> list[int]:
        """Return the number of the best parse of each list. sentences: the words of each list."""
        pairs = list(zip(sentences, lists, strict=True))
        several = [(words, parses) for words, parses in pairs if len(parses) > 1]
        scores = self.log_probabilities([p.tree(words) for words, own in several for p in own])
        bounds = np.cumsum([len(parses) for _, parses in several])
        found = iter(np.split(scores, bounds))
        return [
            choose(parses, next(found), self.weight, self.by_brackets) if len(parses) > 1 else 0
            for _, parses in pairs
        ]


def choose(parses: Sequence[Parse], scores: Floats, weight: float, by_brackets: bool) -> int:
    """Return the number of the best parse of a sentence.

    scores: of a network, float64 (n); -inf for what it cannot derive, unless that is all of them.
    by_brackets: whether it is the one with the most expected brackets, less one half each.
    """
    if not np.isfinite(scores).any():
        scores = np.zeros(len(parses))
    totals = weight * scores if weight else np.zeros(len(parses))
    totals = totals + [parse.log_probability for parse in parses]
    if not by_brackets:
        return int(totals.argmax())
    shares = np.exp(totals - totals.max())
    expected: defaultdict[Any, float] = defaultdict(float)
    brackets = [numbered(parse.spans) for parse in parses]
    for own, share in zip(brackets, (shares / shares.sum()).tolist(), strict=True):
        for bracket in own:
            expected[bracket] += share
    worth = [sum(expected[bracket] - BRACKET_COST for bracket in own) for own in brackets]
    return int(np.argmax(worth))
