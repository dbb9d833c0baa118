"""Trees as brackets and tags, from the edges of packed forests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...arrays import ranges
from ...trees.parse import Parse, calibrate
from ..latent.model import LatentGrammar
from .hypergraph import Floats, Hypergraphs, together


class Forests(NamedTuple):
    """The forests of a batch: of sentences `numbers`, whose words begin at `offsets`.

    arrays: see `Chart.hypergraphs`. word_scores: of all words at level 0. spans: see `encoded`.
    """

    graphs: Hypergraphs
    numbers: NDArray[np.int64]
    arrays: dict[str, NDArray[Any]]
    offsets: NDArray[np.int64]
    word_scores: NDArray[np.float32]
    spans: Any


USED = 0.1  # nats that the edges of a tree lose for the next of several
FAR = 2.0  # in nats, how much less probable than the first one a probable tree may be
UNLIKELY = 1e-3  # posterior of edges that no tree of a list has


class ScoredTrees(NamedTuple):
    """Forests whose edges have scores, and log_z, under a log-linear model; None without one.

    sources: the edge that each edge of a refined forest is a copy of, or None. parts: the scores by
    the model and by the encoder, if there is one.
    """

    graphs: Hypergraphs
    scores: Floats | None
    sources: NDArray[np.int64] | None
    log_z: Floats | None
    posteriors: Floats
    gains: Floats
    parts: tuple[Floats, ...] = ()


class Reranker(Protocol):
    """Chooses among k parses by a model that cannot score forests, see `isbn.reranking`."""

    k: int

    def best(
        self, sentences: Sequence[Sequence[str]], lists: Sequence[Sequence[Parse]]
    ) -> list[int]:
        """Return the number of the best parse of each list, any if it is empty.

        sentences: the words of each. Several threads may call it at the same time.
        """


class ParseReader:
    """Reads trees of the forests of a grammar."""

    def __init__(self, grammar: LatentGrammar):
        self._symbols = grammar.symbols
        self._names = np.array(grammar.symbols.names, dtype=object)
        chains, unary = grammar.chains, grammar.rules.unary.tolist()
        # Each begins with a place for the symbol of its edge. The last chain is that of edges that
        # are not unary productions.
        between = [(-1, *chains.get((top, bottom), ())) for top, bottom in unary] + [(-1,)]
        self._chain_lengths = np.array([len(chain) for chain in between], dtype=np.int64)
        self._chain_begins = np.cumsum(self._chain_lengths) - self._chain_lengths
        self._chain_symbols = np.array([x for chain in between for x in chain], dtype=np.int32)

    def parses(
        self,
        trees: ScoredTrees,
        edges: NDArray[np.int64],
        temperature: float,
        sizes: NDArray[np.int64] | None = None,
    ) -> list[Parse]:
        """Read the brackets and tags of trees from their edges.

        edges: of all trees, int64, ascending in each. temperature: of the probabilities of
        brackets. sizes: the number of edges of each tree. None: there is one tree of each forest.
        """
        graphs = trees.graphs
        if sizes is None:
            sizes = np.diff(np.searchsorted(edges, graphs.edge_offsets))
        own = np.repeat(np.arange(len(sizes)), sizes)
        making = graphs.made[edges] >= 0
        edges, own = edges[making], own[making]
        made, rules = graphs.made[edges], graphs.chain[edges]
        # The labels of a collapsed unary chain, below the symbol of its edge. The later edge is
        # first: of the nodes over one span it is the higher one.
        lengths = self._chain_lengths[rules][::-1]
        place = np.repeat(np.arange(len(edges))[::-1], lengths)
        depth = ranges(np.zeros_like(lengths), lengths)
        symbols = self._chain_symbols[self._chain_begins[rules[place]] + depth]
        symbols[depth == 0] = graphs.items[made[::-1], 0]
        table = self._symbols
        kept = np.flatnonzero(symbols < table.n_tags + table.n_phrases)
        place, depth, symbols = place[kept], depth[kept], symbols[kept]
        of_items = graphs.item_posteriors(trees.posteriors)[made[place]]
        of_chains = together(trees.posteriors, trees.sources)[edges[place]]
        probabilities = np.where(depth == 0, of_items, of_chains)
        starts, ends = graphs.items[made[place], 1:].T
        owner, width = own[place], int(ends.max(initial=0)) + 1
        # One number, because sorting by several keys is slow.
        order = np.argsort((owner * width + starts) * width - ends, kind="stable")
        begins = np.searchsorted(owner[order], np.arange(len(sizes) + 1))
        symbols, starts, ends = symbols[order], starts[order], ends[order]
        probabilities = np.minimum(probabilities[order], 1.0).astype(np.float32)
        is_tag = symbols < table.n_tags
        bracket = ~is_tag
        # The phrase that holds together several children of the root is not in the treebank.
        if table.inserted_root >= 0:
            tops = begins[:-1][np.diff(begins) > 0]
            bracket[tops[symbols[tops] == table.inserted_root]] = False
        names = self._names[symbols]
        bounds = np.searchsorted(np.flatnonzero(bracket), begins).tolist()
        tag_bounds = np.searchsorted(np.flatnonzero(is_tag), begins).tolist()
        labels, tags = names[bracket].tolist(), names[is_tag].tolist()
        first, last = starts[bracket].tolist(), ends[bracket].tolist()
        calibrated = calibrate(probabilities[bracket], temperature)
        rows = zip(pairwise(bounds), pairwise(tag_bounds), strict=True)
        return [
            Parse(labels[a:b], first[a:b], last[a:b], calibrated[a:b], tags[c:d], root=table.root)
            for (a, b), (c, d) in rows
        ]

    def rerank(
        self,
        reranker: Reranker,
        sentences: Sequence[Sequence[str]],
        parses: list[Parse],
        trees: ScoredTrees,
        temperature: float,
    ) -> None:
        """Replace the parse of each forest by one of its most probable trees."""
        graphs, posteriors, scores = trees.graphs, trees.posteriors, trees.scores
        if scores is None:
            scores = graphs.gains(graphs.scores, posteriors, "max_rule_product")
        log_z = [0.0] * len(graphs) if trees.log_z is None else trees.log_z.tolist()
        kept = np.flatnonzero(likely := posteriors >= UNLIKELY)
        found = graphs.thinned(likely).k_best(scores[kept], reranker.k)
        lists: list[list[Parse]] = [[] for _ in found]
        for rank in range(max(map(len, found), default=0)):
            rows = [x for x, own in enumerate(found) if len(own) > rank]
            edges = kept[np.concatenate([found[x][rank][1] for x in rows])]
            others = self.parses(trees, edges, temperature)
            for x in rows:
                log_probability = found[x][rank][0] - log_z[x]
                lists[x].append(replace(others[x], log_probability=log_probability))
        for x, best in enumerate(reranker.best(sentences, lists)):
            if lists[x]:
                same = {name: getattr(parses[x], name) for name in ("levels", "log_likelihood")}
                parses[x] = replace(lists[x][best], **same)

    def add_probable(self, parses: Sequence[Parse], trees: ScoredTrees, k: int) -> None:
        """Give the parse of each forest up to k probable trees, the most probable one first.

        After each tree, all edges that it contains cost `USED` nats: so the next ones differ where
        this costs the least. Their log-probabilities are comparable within a forest. Trees that are
        `FAR` less probable than the first one are left out.
        """
        graphs, least = trees.graphs, None
        scores = trees.gains if trees.scores is None else trees.scores
        current, found = scores.copy(), dict[tuple[int, bytes], float]()
        for _ in range(k):
            edges = np.flatnonzero(graphs.best(current)[1])
            current[edges] -= USED
            bounds = np.searchsorted(edges, graphs.edge_offsets)
            owner = np.repeat(np.arange(len(graphs)), np.diff(bounds))
            totals = np.bincount(owner, scores[edges], len(graphs))
            least = totals - FAR if least is None else least
            bounds = bounds.tolist()
            for x in np.flatnonzero(totals > least).tolist():
                found.setdefault((x, edges[bounds[x] : bounds[x + 1]].tobytes()), totals.item(x))
        every = [np.frombuffer(key, dtype=np.int64) for _, key in found]
        # All at once, because operations on few trees are slow.
        edges = np.concatenate([np.empty(0, dtype=np.int64), *every])
        others = self.parses(trees, edges, 1.0, np.array([*map(len, every)], dtype=np.int64))
        for (x, _), total, other in zip(found, found.values(), others, strict=True):
            other.log_probability = total
            parses[x].probable.append(other)

    def fallback(self, scores: NDArray[np.float32], label: str) -> Parse:
        """Return a flat tree of this label, with the likeliest tag of each word."""
        tags = self._names[scores[:, : self._symbols.n_tags].argmax(axis=1)].tolist()
        probability, root = np.zeros(1, np.float32), self._symbols.root
        return Parse([label], [0], [len(tags)], probability, tags, failed=True, root=root)
