"""Ranking noise-contrastive estimation of fragment features, for `m_estimated_grammars`.

Ma & Collins (2018), section 3.2: weights make the tree of each sentence likelier than trees that
are sampled from q0 given its words. Like M-estimation, this needs q0 once and no Z; log q0 cancels,
because q0 is a factor of the model.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from spacy_structlearn.grammar.chart.hypergraph import Hypergraphs
from spacy_structlearn.grammar.fragments.weights import FragmentPlaces
from training.beyond.fragment_likelihood import Floats, FragmentObjective
from training.papers.smith2007.ranking import ranking_loss


class TreeRanking:
    """The mean loss of n trees among samples in nats, plus the penalty l2 |w|^2 / 2 divided by n.

    objective: has the forests of the sentences, their trees and the features. k: samples for each
    sentence.
    """

    def __init__(self, objective: FragmentObjective, k: int, seed: int = 0):
        rng = np.random.default_rng(seed)
        rows = []
        for places, target in objective.parts:
            graphs = places.forests.graphs
            ends = graphs.edge_offsets
            drawn = sampled(graphs, k, rng)
            for x, own in enumerate(drawn):
                gold = ends[x] + np.flatnonzero(target[ends[x] : ends[x + 1]])
                rows += [features(places, edges) for edges in (gold, *own)]
        self.n, self.size = len(rows) // (k + 1), objective.size
        lengths = np.cumsum([0, *map(len, rows)])
        ones = np.ones(lengths[-1])
        shape = (len(rows), self.size)
        self.rows = scipy.sparse.csr_array((ones, np.concatenate(rows), lengths), shape)
        self.rows.sum_duplicates()

    def value_and_grad(self, w: Floats, l2: float) -> tuple[float, Floats]:
        """Return the objective at w, float64 (n_features), and its gradient of the same shape."""
        scores = (self.rows @ w).reshape(self.n, -1)
        loss, derivatives = ranking_loss(scores)
        gradient = self.rows.T @ derivatives.ravel() + l2 * w
        return float(loss + 0.5 * l2 * (w @ w)) / self.n, gradient / self.n


def features(places: FragmentPlaces, edges: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the features of the tree with these edges."""
    sites = places.forests.local[edges]
    found = np.append(places.local[sites[sites >= 0]].ravel(), places.above[edges].ravel())
    return found[found >= 0]


def sampled(graphs: Hypergraphs, k: int, rng: np.random.Generator) -> Iterator[list[NDArray]]:
    """Yield the edges of k trees of each sentence, sampled from the grammar given the words."""
    _, posteriors = graphs.inside_outside(graphs.scores)
    ends, first_node = graphs.edge_offsets.tolist(), graphs.node_offsets.tolist()
    for x in range(len(graphs)):
        # Above a node, all is independent of the edge that makes it: its edges have the shares of
        # their posteriors.
        sums = np.cumsum(posteriors[ends[x] : ends[x + 1]])
        begins = graphs.begins[first_node[x] + x : first_node[x + 1] + x + 1].tolist()
        tails = graphs.tails[ends[x] : ends[x + 1]].tolist()
        before = np.append(0.0, sums)
        trees = []
        for _ in range(k):
            edges: list[int] = []
            stack = [len(begins) - 2]
            while stack:
                node = stack.pop()
                low, high = before[begins[node]], before[begins[node + 1]]
                point = low + (high - low) * rng.random()
                edge = min(int(np.searchsorted(sums, point, "right")), begins[node + 1] - 1)
                edges.append(edge)
                stack += [tail for tail in tails[edge] if tail >= 0]
            trees.append(ends[x] + np.array(edges))
        yield trees
