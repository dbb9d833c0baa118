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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...arrays import cumulative
from ...encoder.pool import log_softmax
from ...encoder.scorer import SiteScorer
from ...encoder.spans import JOIN, n_spans, place, posteriors, span_scores, span_sites
from ...errors import StructlearnError
from ..latent.model import LatentGrammar
from .constraints import Limits, uncrossed
from .hypergraph import Floats, Hypergraphs

UNKNOWN_CHAIN = -1.0  # added to the score of the topmost label of a chain that has none
STEP = 2.0**0.25  # from one weight to the next
STEPS = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, -1))
LEAST_GAIN = 5e-4  # of F1, of a step: less is noise, and flat posteriors are calibrated better
SHARPNESS = 4.0  # times the scores, whose margin is 1
CERTAIN = 0.99  # the posterior above which no other span crosses a phrase
OF_LABELS = ("output", "bias")  # arrays of a scorer


class Spans(NamedTuple):
    """All spans of sentences of these lengths.

    sites: see `span_sites`. scores: of their labels, less that of no phrase, float32 (n, labels).
    values: minus the log-probability of no phrase, float64 (n).
    """

    lengths: NDArray[np.int64]
    sites: NDArray[np.int64]
    scores: NDArray[np.float32]
    values: Floats


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
        less = {name: array - array[0] for name in OF_LABELS for array in [getattr(scorer, name)]}
        self._less = scorer.replaced(**less, storage="float32")
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
        self._above, self._below = above.astype(np.int64), below.astype(np.int64)
        self._penalty = penalty - other
        self._none = [np.zeros((0, n), np.uint8) for n in (symbols.size, len(grammar.rules.unary))]

    def spans(self, vectors: Sequence[Any], lengths: NDArray[np.int64]) -> Spans:
        """Score all spans of sentences.

        vectors: of the words of each sentence. lengths: of the sentences. Raises StructlearnError
        if they do not fit.
        """
        for rows, n in zip(vectors, lengths.tolist(), strict=True):
            if np.shape(rows) != (n, self.scorer.width):
                wanted = n, self.scorer.width
                raise StructlearnError("SL446", shape=np.shape(rows), wanted=wanted)
        sites = span_sites(lengths)
        scores = np.empty((len(sites), len(self.scorer.labels)), dtype=np.float32)
        values = np.empty(len(sites))
        for at, own in span_scores(self._less, np.concatenate(vectors), sites):
            scores[at], values[at] = own, -log_softmax(SHARPNESS * own, 0)
        return Spans(lengths, sites, scores, values)

    def scores(self, graphs: Hypergraphs, spans: Spans, numbers: NDArray[np.integer]) -> Floats:
        """Return the score of each edge, float64 (E).

        spans: of all sentences. numbers: of the sentences that have forests.
        """
        symbol, start, end = graphs.items.astype(np.int64).T
        sentence = numbers[graphs.item_sentences]
        row = cumulative(n_spans(spans.lengths))[sentence]
        row += place(start, end, spans.lengths[sentence])
        # The last one is that of edges that make nothing.
        found = np.append(self._values(spans, row, symbol), 0.0)[graphs.made]
        unary = np.flatnonzero(graphs.chain >= 0)
        rule = self._none[0].shape[1] + graphs.chain[unary].astype(np.int64)
        found[unary] = self._values(spans, row[graphs.made[unary]], rule)
        return found

    def _values(self, spans: Spans, row: NDArray, kind: NDArray) -> Floats:
        scores = spans.scores
        above, below = scores[row, self._above[kind]], scores[row, self._below[kind]]
        return (above - below).astype(np.float64) + self._penalty[kind]

    def limits(self, spans: Spans) -> list[Limits]:
        """Return limits of each sentence that leave out what crosses a certain phrase."""
        probabilities = posteriors(spans.values, spans.lengths) * -np.expm1(-spans.values)
        starts, lasts = spans.sites[probabilities >= CERTAIN, 1:3].T
        offsets = cumulative(spans.lengths)
        bounds = pairwise(np.searchsorted(starts, offsets).tolist())
        found = []
        for first, n, own in zip(offsets.tolist(), spans.lengths.tolist(), bounds, strict=False):
            starts_of, ends_of = (x[slice(*own)] - first for x in (starts, lasts + 1))
            grid = uncrossed(n, zip(starts_of.tolist(), ends_of.tolist(), strict=True))
            found.append(Limits(grid, *self._none))
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
