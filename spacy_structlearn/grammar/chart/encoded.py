"""Scores of trees by vectors of tokens: an encoder as one more expert in the chart.

The trees of a forest are scored by a log-linear pool of the grammar and a site scorer of spans
(Genest & Zidek 1986), P(tree) proportional to P_grammar(tree) ** own * P_encoder(tree) ** weight.
The encoder's score of a tree is the sum over its spans of s(chain of labels) - s(no phrase). In a
forest these are scores of edges: an edge that makes the lower node of a phrase B adds s(B) - s(no
phrase), and a unary production A -> B, whose chain has A, B and what is between, adds s(chain) -
s(B). Nodes of binarization and the phrase inserted below the root are no phrases.

The encoder proposes, too: spans that are most probably phrases are not crossed (see `constraints`),
which leaves the first pass little to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import cumulative
from ...encoder.scorer import SiteScorer
from ...encoder.spans import JOIN, n_spans, place, posteriors, span_sites
from ...errors import StructlearnError
from ..latent.model import LatentGrammar
from .constraints import BLOCKED, FREE, Limits
from .hypergraph import Floats, Hypergraphs

Spans = NDArray[np.float32]  # the scores of all spans, (n, labels)

UNKNOWN_CHAIN = -1.0  # added to the score of the topmost label of a chain that has none
STEP = 2.0**0.25  # from one weight to the next
STEPS = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, -1))
LEAST_GAIN = 5e-4  # of F1, of a step: less is noise, and flat posteriors are calibrated better
SHARPNESS = 4.0  # times the scores, whose margin is 1
CERTAIN = 0.99  # the posterior above which no other span crosses a phrase


class SpanScorer:
    """Scores edges of forests by a site scorer.

    scorer: whose labels are chains of phrases, topmost first, joined by "+", and "" for no phrase.
    grammar: of the forests.
    Raises StructlearnError for a scorer of other sites or without "".
    """

    def __init__(self, scorer: SiteScorer, grammar: LatentGrammar):
        if scorer.slots != 4 or scorer.labels[:1] != ("",):
            raise StructlearnError("SL445", slots=scorer.slots, labels=scorer.labels[:3])
        self.scorer = scorer
        symbols, index = grammar.symbols, {label: i for i, label in enumerate(scorer.labels)}

        def column(*chain: int) -> tuple[int, float]:
            labels = [
                symbols.names[symbol]
                for symbol in chain
                if symbols.n_tags <= symbol < symbols.n_tags + symbols.n_phrases
                and symbol != symbols.inserted_root
            ]
            known = index.get(JOIN.join(labels))
            return (index.get(labels[0], 0), UNKNOWN_CHAIN) if known is None else (known, 0.0)

        # Of each symbol and of each unary production: the column, the one below, and the penalty.
        rows = [(*column(symbol), 0, 0.0) for symbol in range(symbols.size)]
        for top, bottom in grammar.rules.unary.tolist():
            chain = (top, *grammar.chains.get((top, bottom), ()), bottom)
            rows.append((*column(*chain), *column(bottom)))
        above, penalty, below, other = np.array(rows or [(0, 0.0, 0, 0.0)]).T
        self._n_symbols = symbols.size
        self._above, self._below = above.astype(np.int64), below.astype(np.int64)
        self._penalty = penalty - other

    def spans(self, vectors: Sequence[Any], lengths: NDArray[np.int64]) -> Spans:
        """Return the scores of all spans of sentences, less those of no phrase.

        vectors: of the words of each sentence. lengths: of the sentences. Raises StructlearnError
        if they do not fit.
        """
        for rows, n in zip(vectors, lengths.tolist(), strict=True):
            if np.shape(rows) != (n, self.scorer.width):
                wanted = n, self.scorer.width
                raise StructlearnError("SL446", shape=np.shape(rows), wanted=wanted)
        scores = self.scorer.scores(np.concatenate(vectors), span_sites(lengths))
        return scores - scores[:, :1]

    def scores(
        self,
        graphs: Hypergraphs,
        spans: Spans,
        lengths: NDArray[np.int64],
        numbers: NDArray[np.integer],
    ) -> Floats:
        """Return the score of each edge, float64 (E).

        spans: of all sentences, of these lengths. numbers: of the sentences that have forests.
        """
        symbol, start, end = graphs.items.astype(np.int64).T
        sentence = numbers[graphs.item_sentences]
        row = cumulative(n_spans(lengths))[sentence] + place(start, end, lengths[sentence])
        # The last one is that of edges that make nothing.
        found = np.append(self._values(spans, row, symbol), 0.0)[graphs.made]
        unary = np.flatnonzero(graphs.chain >= 0)
        rule = self._n_symbols + graphs.chain[unary].astype(np.int64)
        found[unary] = self._values(spans, row[graphs.made[unary]], rule)
        return found

    def _values(self, spans: Spans, row: NDArray, kind: NDArray) -> Floats:
        above, below = spans[row, self._above[kind]], spans[row, self._below[kind]]
        return (above - below).astype(np.float64) + self._penalty[kind]

    def limits(
        self,
        spans: Spans,
        lengths: NDArray[np.int64],
        free: Sequence[bool],
        limits: Sequence[Limits | None] | None,
    ) -> list[Limits | None]:
        """Return the limits of each sentence.

        spans: of all sentences, of these lengths. free: which sentences get limits that leave out
        what crosses a certain phrase. limits: those of the others.
        """
        found: list[Limits | None] = [None] * len(lengths) if limits is None else list(limits)
        scores = SHARPNESS * spans
        top = scores.max(axis=1, initial=0.0)
        values = top + np.log(np.exp(scores - top[:, None]).sum(axis=1))
        certain = posteriors(values, lengths) * (1.0 - np.exp(-values)) >= CERTAIN
        none = np.zeros((0, len(self._above)), np.uint8)
        bounds = cumulative(n_spans(lengths)).tolist()
        for x, (begin, end) in enumerate(pairwise(bounds)):
            if free[x]:
                n = int(lengths[x])
                grid = np.full((n, n + 1), FREE, dtype=np.int32)
                for _, start, last, _ in span_sites([n])[certain[begin:end]].tolist():
                    grid[:start, start + 1 : last + 1] = BLOCKED
                    grid[start + 1 : last + 1, last + 2 :] = BLOCKED
                found[x] = Limits(grid, none[:, : self._n_symbols], none[:, self._n_symbols :])
        return found


def pooled(own_scores: Floats, scores: Floats, own: float, weight: float) -> Floats:
    """Return the scores of edges by a model and an encoder together, float64 (E)."""
    with np.errstate(invalid="ignore"):  # 0 * -inf
        return np.where(np.isneginf(own_scores), -np.inf, own * own_scores + weight * scores)


def climb(score: Callable[[float, float], float]) -> tuple[float, float]:
    """Return the weights of a model and an encoder with the best score, by steps uphill."""
    best, weights, last = -np.inf, (0.5, 1.0), None
    while weights != last:
        last = weights
        for steps in STEPS:
            own, weight = (old * STEP**step for old, step in zip(last, steps, strict=True))
            if (found := score(own, weight)) > best + LEAST_GAIN:
                best, weights = found, (own, weight)
    return weights
