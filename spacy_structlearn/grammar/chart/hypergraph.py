"""Packed forests of sentences as hypergraphs, and log-linear models of their trees.

Huang & Chiang (2005), section 2, and Li & Eisner (2009): a node is a symbol over a span, an edge is
a production that makes it, and a tree is a derivation of the last node. What the cascade of a
latent grammar leaves of a sentence is such a forest, without substates. Over its trees,

    log P(tree | words) = sum of the scores of its edges - log Z

Each span has a lower and an upper node of each phrase (see `_chart.pyx`). The upper node is made of
the lower node of the same symbol, or by a unary production.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...errors import StructlearnError
from ...trees.tree import Tree
from ..treebank.symbols import Symbols
from . import _hypergraph

Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]
FLOOR = 1e-30  # of posteriors, before their logarithm is taken
# The cost of a bracket. Brackets with a posterior above one half never cross each other, so all of
# them are in the tree. With a lower cost, brackets would be combined that hardly any tree has.
BRACKET_COST = 0.5
LIKELIER = 1e-3  # times the posterior of an edge: breaks ties of trees with the same brackets
# Gains of brackets and tags in the search for the tree closest to a gold tree.
GOLD_BRACKET, WRONG_BRACKET, GOLD_TAG, TIE = 1.0, -0.6, 0.1, 1e-4


@dataclass(frozen=True, eq=False)
class Hypergraphs:
    """Forests of several sentences, one after another; nodes and edges are numbered in each.

    items: symbol, start and end of each tag and phrase, narrow spans first, int32 (I, 3).
    item_offsets, node_offsets, edge_offsets: where those of each sentence begin, int64 (s + 1).
    begins: of each sentence the first edge of each node, and the end of its edges,
        int32 (nodes + s).
    tails: the nodes below each edge, -1 for none, int32 (E, 2). They precede its head.
    scores: of the edges by the grammar, in nats, float64 (E).
    made: the item, counted over all sentences, that an edge makes, int32 (E): a tag, the lower node
        of a phrase, or the upper node by a unary production; -1 for the edge from the lower to the
        upper node of a phrase, and for edges of the root.
    n_words: int32 (s).
    chain: the place of a unary production in `Rules.unary`, -1 for other edges, int32 (E).
    """

    items: NDArray[np.int32]
    item_offsets: NDArray[np.int64]
    node_offsets: NDArray[np.int64]
    edge_offsets: NDArray[np.int64]
    begins: NDArray[np.int32]
    tails: NDArray[np.int32]
    scores: Floats
    made: NDArray[np.int32]
    n_words: NDArray[np.int32]
    chain: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.n_words)

    @classmethod
    def joined(cls, parts: Sequence[Hypergraphs]) -> Hypergraphs:
        """Concatenate forests."""
        if not parts:
            none, start = np.empty(0, np.int32), np.zeros(1, np.int64)
            items, tails = none.reshape(0, 3), none.reshape(0, 2)
            return cls(items, start, start, start, none, tails, np.empty(0), none, none, none)
        firsts = np.cumsum([0, *(len(part.items) for part in parts)]).tolist()
        arrays: dict[str, Any] = {
            "made": np.concatenate(
                [
                    np.where(part.made >= 0, part.made + np.int32(first), np.int32(-1))
                    for part, first in zip(parts, firsts, strict=False)
                ]
            )
        }
        for name in ("items", "begins", "tails", "scores", "n_words", "chain"):
            arrays[name] = np.concatenate([getattr(part, name) for part in parts])
        for name in ("item_offsets", "node_offsets", "edge_offsets"):
            sizes = [np.diff(getattr(part, name)) for part in parts]
            arrays[name] = np.cumsum(np.concatenate([np.zeros(1, np.int64), *sizes]))
        return cls(**arrays)

    def select(self, sentences: Sequence[int] | NDArray[np.integer]) -> Hypergraphs:
        """Return the forests of some sentences, in this order."""
        return Hypergraphs.joined([self._one(int(sentence)) for sentence in sentences])

    def _one(self, x: int) -> Hypergraphs:
        items, nodes, edges = (
            slice(*offsets[x : x + 2].tolist())
            for offsets in (self.item_offsets, self.node_offsets, self.edge_offsets)
        )
        made = self.made[edges]
        return Hypergraphs(
            items=self.items[items],
            item_offsets=np.array([0, items.stop - items.start], np.int64),
            node_offsets=np.array([0, nodes.stop - nodes.start], np.int64),
            edge_offsets=np.array([0, edges.stop - edges.start], np.int64),
            begins=self.begins[nodes.start + x : nodes.stop + x + 1],
            tails=self.tails[edges],
            scores=self.scores[edges],
            made=np.where(made >= 0, made - np.int32(items.start), np.int32(-1)),
            n_words=self.n_words[x : x + 1],
            chain=self.chain[edges],
        )

    @property
    def item_sentences(self) -> NDArray[np.int64]:
        """The sentence of each item, int64 (I)."""
        return np.repeat(np.arange(len(self)), np.diff(self.item_offsets))

    @property
    def edge_sentences(self) -> NDArray[np.int64]:
        """The sentence of each edge, int64 (E)."""
        return np.repeat(np.arange(len(self)), np.diff(self.edge_offsets))

    @cached_property
    def heads(self) -> NDArray[np.int64]:
        """The node that each edge makes, counted over all sentences, int64 (E)."""
        # Between two sentences are the end of one and the begin of the next.
        between = self.node_offsets[1:-1] + np.arange(len(self) - 1)
        sizes = np.delete(np.diff(self.begins), between)
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def node_items(self) -> NDArray[np.int32]:
        """The item of each node, counted over all sentences, int32 (N).

        This is the item that the edges of the node make. An upper node that is only made of its
        lower node has the item of the latter, and a lower node without edges that of the upper one.
        -1: for roots, and for nodes that are in no tree because of constraints.
        """
        heads = self.heads
        items = np.full(int(self.node_offsets[-1]), -1, dtype=np.int32)
        making = self.made >= 0
        items[heads[making]] = self.made[making]
        taken = np.flatnonzero(~making & (self.tails[:, 0] >= 0) & ~self._of_roots)
        upper = heads[taken]
        lower = self.tails[taken, 0] + self.node_offsets[self.edge_sentences[taken]]
        for node, other in ((upper, lower), (lower, upper)):
            unknown = items[node] < 0
            items[node[unknown]] = items[other[unknown]]
        return items

    @property
    def _of_roots(self) -> Mask:
        """Which edges make the last node of their sentence, a mask (E)."""
        is_root = np.zeros(int(self.node_offsets[-1]), dtype=bool)
        is_root[self.node_offsets[1:] - 1] = True
        return is_root[self.heads]

    def thinned(self, kept: Mask) -> Hypergraphs:
        """Return the same nodes with some of the edges. kept: a mask (E)."""
        ends = np.zeros(int(self.node_offsets[-1]) + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.heads[kept], minlength=len(ends) - 1), out=ends[1:])
        sizes = np.diff(self.node_offsets) + 1
        nodes = np.arange(len(self.begins)) - np.repeat(np.arange(len(self)), sizes)
        offsets = ends[self.node_offsets]
        return replace(
            self,
            edge_offsets=offsets,
            begins=(ends[nodes] - np.repeat(offsets[:-1], sizes)).astype(np.int32),
            tails=self.tails[kept],
            scores=self.scores[kept],
            made=self.made[kept],
            chain=self.chain[kept],
        )

    def edge_scores(self, item_scores: Floats, weight: float) -> Floats:
        """Add the scores of the items that edges make to the grammar's scores times the weight.

        item_scores: float64 (I). Returns float64 (E). Raises StructlearnError unless there is a
        score for each item, and each is a number or -inf.
        """
        item_scores = np.asarray(item_scores, dtype=np.float64)
        sound = item_scores.shape == (len(self.items),)
        if not sound or not (item_scores < np.inf).all():
            raise StructlearnError("SL425", shape=item_scores.shape, wanted=(len(self.items),))
        # The last score, 0, is that of edges that make nothing.
        return weight * self.scores + np.append(item_scores, 0.0)[self.made]

    def inside_outside(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return log Z of each sentence and the posterior of each edge, float64 (s) and (E).

        scores: float64 (E), of the edges. Where no tree has a score above -inf, log Z is -inf and
        the posteriors are 0.
        """
        return _hypergraph.inside_outside(*self._structure, _doubles(scores))

    def item_posteriors(self, posteriors: Floats) -> Floats:
        """Return the expected number of each item, float64 (I). posteriors: (E)."""
        # Edges that make no item have -1. NumPy counts integers if there is nothing to count.
        counts = np.bincount(self.made + 1, posteriors, len(self.items) + 1)
        return counts[1:].astype(np.float64, copy=False)

    def best(self, scores: Floats) -> tuple[Floats, Mask]:
        """Return the score of the best tree of each sentence, float64 (s), and its edges, a mask.

        scores: of the edges, float64 (E). The first of equally good edges is taken. Where the score
        is -inf no edge is marked.
        """
        return _hypergraph.best(*self._structure, _doubles(scores))

    def gains(
        self,
        scores: Floats,
        posteriors: Floats,
        decoder: str,
        symbols: Symbols | None = None,
        sources: NDArray[np.integer] | None = None,
        logs: Floats | None = None,
    ) -> Floats:
        """Return what each edge adds to the sum that a decoder maximizes, float64 (E).

        scores: of the edges, float64 (E).
        posteriors: of the edges, float64 (E).
        decoder: one of `decode.DECODERS`. As there are no substates, "viterbi", the most probable
            tree, is also "variational".
        symbols: of the grammar, for labelled recall.
        sources: the edge that each edge is a copy of, (E), in forests whose nodes were split (see
            `fragments.annotation`). A production is then all copies of an edge together.
        logs: logarithms of the posteriors. None: computed.
        """
        if decoder in ("viterbi", "variational"):
            return scores
        of_edges, posteriors = posteriors, together(posteriors, sources)
        if decoder == "labelled_recall":
            if symbols is None:
                raise ValueError("labelled recall asks which symbols are phrases")
            symbol, gain = self.items[:, 0], self.item_posteriors(of_edges)
            gain[symbol >= symbols.n_tags] -= BRACKET_COST
            # These symbols are not brackets of the trees that the parser returns.
            last = symbols.n_tags + symbols.n_phrases
            gain[(symbol >= last) | (symbol == symbols.inserted_root)] = 0.0
            gain = np.append(gain, 0.0)[self.made] + LIKELIER * posteriors
            return np.where(np.isneginf(scores), -np.inf, gain)
        gain = posteriors
        if decoder == "max_rule_product":
            gain = np.log(np.maximum(posteriors, FLOOR)) if logs is None else logs
        production = (self.made >= 0) | self._of_roots
        # Edges that are in no tree stay out.
        return np.where(np.isneginf(scores), -np.inf, np.where(production, gain, 0.0))

    def k_best(self, scores: Floats, k: int) -> list[list[tuple[float, NDArray[np.int64]]]]:
        """Return the scores and edges of the k best trees of each sentence, best first.

        scores: of the edges, float64 (E). There may be fewer trees with a score above -inf. Huang &
        Chiang (2005), algorithm 2.
        """
        return [
            [
                (score, edges + self.edge_offsets[x])
                for score, edges in _k_best(
                    self._one(x), scores[slice(*self.edge_offsets[x : x + 2])], k
                )
            ]
            for x in range(len(self))
        ]

    def closest(self, gold: Sequence[Tree], symbols: Symbols) -> Mask:
        """Return the edges of the tree of each forest that is closest to its gold tree, a mask (E).

        As in reranking (Charniak & Johnson 2005). The closest tree has the largest sum of 1 for
        each gold bracket, -0.6 for each wrong one, and 0.1 for each gold tag; ties are broken by
        probability. A label counts once a span, and the root does not count. Raises ValueError
        unless there is a tree for each forest.
        """
        if len(gold) != len(self):
            raise ValueError(f"{len(gold)} trees for {len(self)} forests")
        size = np.int64(symbols.size + 1)
        wide = np.int64(self.n_words.max(initial=0) + 1)
        n_tags, last = symbols.n_tags, symbols.n_tags + symbols.n_phrases
        right: list[int] = []
        for x, tree in enumerate(gold):
            # A phrase is inserted below the root only if the root has several children.
            spans = tree.spans()[len(tree.children) < 2 :]
            wanted = [(symbols.phrase_index.get(label, -1), i, j) for label, i, j in spans]
            tags = enumerate(tree.tags())
            wanted += [(symbols.tag_index.get(tag, -1), i, i + 1) for i, tag in tags]
            right += [
                ((x * int(wide) + i) * int(wide) + j) * int(size) + symbol
                for symbol, i, j in wanted
                if symbol >= 0
            ]
        symbol, start, end = self.items.astype(np.int64).T
        keys = ((self.item_sentences * wide + start) * wide + end) * size + symbol
        is_gold = np.isin(keys, np.array(right, dtype=np.int64))
        gains = np.where(is_gold, GOLD_BRACKET, WRONG_BRACKET)
        gains[symbol >= last] = 0.0
        gains[symbol < n_tags] = np.where(is_gold[symbol < n_tags], GOLD_TAG, 0.0)
        return self.best(self.edge_scores(gains, TIE))[1]

    @property
    def _structure(self) -> tuple[NDArray[Any], ...]:
        return self.node_offsets, self.edge_offsets, self.begins, self.tails


def _k_best(
    graph: Hypergraphs, scores: Floats, k: int
) -> Iterator[tuple[float, NDArray[np.int64]]]:
    """Yield the score and edges of the k best derivations of one hypergraph, best first."""
    of_edges: list[float] = scores.tolist()
    tails = [tuple(node for node in pair if node >= 0) for pair in graph.tails.tolist()]
    # (score, edge, ranks of the tails) by node.
    best: list[list[tuple[float, int, tuple[int, ...]]]] = []
    for first, end in pairwise(graph.begins.tolist()):
        queue: list[tuple[float, int, tuple[int, ...]]] = []
        todo = [(edge, (0,) * len(tails[edge])) for edge in range(first, end)]
        seen = set(todo)
        best.append([])
        while True:
            for edge, ranks in todo:
                below = [
                    best[node][rank : rank + 1]
                    for node, rank in zip(tails[edge], ranks, strict=True)
                ]
                if of_edges[edge] > -np.inf and all(below):
                    score = sum((one[0][0] for one in below), of_edges[edge])
                    heapq.heappush(queue, (-score, edge, ranks))
            if not queue or len(best[-1]) == k:
                break
            score, edge, ranks = heapq.heappop(queue)
            best[-1].append((-score, edge, ranks))
            others = (
                (edge, tuple(rank + (i == place) for i, rank in enumerate(ranks)))
                for place in range(len(ranks))
            )
            todo = [other for other in others if other not in seen]
            seen.update(todo)
    for score, *top in best[-1]:
        edges: list[int] = []
        stack: list[Any] = [top]
        while stack:
            edge, ranks = stack.pop()
            edges.append(edge)
            stack += [best[node][rank][1:] for node, rank in zip(tails[edge], ranks, strict=True)]
        yield score, np.sort(np.array(edges, dtype=np.int64))


def together(posteriors: Floats, sources: NDArray[np.integer] | None) -> Floats:
    """Return the posteriors of productions, (E), from those of edges; see `Hypergraphs.gains`."""
    return posteriors if sources is None else np.bincount(sources, posteriors)[sources]


def _doubles(scores: NDArray[Any]) -> Floats:
    return np.ascontiguousarray(scores, dtype=np.float64)


class Refinement(NamedTuple):
    """Forests with several copies of some nodes, which features tell apart, and their scores.

    graphs: the refined forests, with the same items. edges: int64 (E), the edge that each of their
    edges is a copy of. scores: float64 (E), of their edges, in nats.
    """

    graphs: Hypergraphs
    edges: NDArray[np.int64]
    scores: Floats


class Scorer(Protocol):
    """Scores the trees of forests, such as linear features, features of fragments."""

    def scores(
        self, sentences: Sequence[Sequence[str]], graphs: Hypergraphs
    ) -> Floats | Refinement:
        """Return a score for each item of the forests, in nats, float64 (I), or refined forests.

        sentences: the words of each sentence.
        graphs: the forests of the sentences.

        Several threads may call it at the same time.
        """
        ...
