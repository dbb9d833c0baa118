"""Expectation maximisation over the derivations of observed trees.

Petrov & Klein (2007), section 2.1, equations 3 to 5: the inside and outside scores of every node
of a tree whose coarse symbols are known (Matsuzaki, Miyao & Tsujii 2005) give the expected counts
of the refined productions, and their relative frequencies are the new probabilities.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...arrays import cumulative
from ...errors import StructlearnError
from ...parallel.shards import Pool, split
from ..treebank.data import TreebankData
from ..treebank.estimation import LexiconLearner
from ..treebank.lexicon import LexiconLevel
from ..treebank.settings import LexiconSettings
from ..treebank.symbols import substate_columns
from . import _derivations
from .model import LatentGrammar, Level

Ints = NDArray[np.int32]
LEAST = 1e-30  # smaller probabilities are set to zero
_PARTS = 4  # parts of the work for each thread, since they do not take the same time


class ProductionCounts(NamedTuple):
    """Counts of productions in the layout of `Level`, and of the pairs in `data.pairs`."""

    binary: NDArray[Any]
    unary: NDArray[Any]
    root: NDArray[Any]
    lexical: NDArray[Any]


def observed_counts(data: TreebankData) -> ProductionCounts:
    """Count each coarse production in the trees."""
    rules = data.rules
    return ProductionCounts(
        np.bincount(data.production[data.is_binary], minlength=len(rules.binary)),
        np.bincount(data.production[data.is_unary], minlength=len(rules.unary)),
        np.bincount(data.roots, minlength=len(rules.root)),
        data.pair_counts,
    )


Refined = tuple[Level, NDArray[np.float32]]
"""A level and its emissions: P(word | T_x) of `data.pairs`, for all substates of their tags."""


class TreebankDerivations:
    """The derivations of observed trees under refined grammars. Not thread-safe.

    threads: number of threads that share the work; they do not change the results.

    inside, outside: float32, the scores of nodes in the last `expected_counts`.
    node_offsets: int64 (n_nodes + 1), where the vector of each node begins.
    values: float64 (n_trees), the log-likelihood of each tree.
    """

    def __init__(self, data: TreebankData, threads: int = 1):
        self.data = data
        rules = data.rules
        self._trees = _derivations.Trees(
            *(data.symbol, data.left, data.right, data.production, data.offsets, data.roots),
            *(data.symbols.size, rules.binary, rules.unary, rules.root, data.pairs),
        )
        nodes = np.arange(data.n_nodes)
        self._by_symbol = _derivations.Groups(nodes, data.symbol, data.symbols.size)
        self._pool = Pool(threads)
        self._scale = np.empty(data.n_nodes, dtype=np.float32)
        self.values = np.empty(data.n_trees)
        self.node_offsets = np.zeros(1, dtype=np.int64)
        self.inside = self.outside = np.empty(0, dtype=np.float32)

    def close(self) -> None:
        """End the threads."""
        self._pool.close()

    def expected_counts(self, parameters: Refined) -> tuple[float, ProductionCounts]:
        """The log-likelihood (equation 4), in nats, and the expected counts (equation 3)."""
        level, emissions = parameters
        self._lay_out(level.substates)
        trees, scores = self._trees, (self.inside, self.outside, self._scale)
        blocks = (level.binary, level.unary, level.root, emissions)

        def derive(first: int, last: int) -> None:
            trees.inside_outside(first, last, *blocks, *scores, self.values)

        self._share(derive, self.data.offsets)
        counts = np.empty_like(level.binary), np.empty_like(level.unary)
        for is_unary in (False, True):

            def count(first: int, last: int, is_unary: bool = is_unary) -> None:
                trees.rule_counts(
                    is_unary, first, last, blocks[is_unary], *scores, counts[is_unary]
                )

            self._share(count, trees.work(is_unary))
        root, lexical = trees.posterior_sums(True, *scores), trees.posterior_sums(False, *scores)
        return float(self.values.sum()), ProductionCounts(*counts, root, lexical)

    def scores_of(self, symbol: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Inside and outside scores of all nodes of a symbol in the last `expected_counts`.

        Returns float32 (n_nodes, n_substates); their products are posteriors of substates.
        """
        nodes, starts = self._by_symbol.nodes, self._by_symbol.starts
        begin = self.node_offsets[nodes[starts[symbol] : starts[symbol + 1]]]
        places = begin[:, None] + np.arange(self._substates[symbol])
        return self.inside[places], self.outside[places]

    def _lay_out(self, substates: NDArray[np.int32]) -> None:
        self._substates = substates
        self._trees.lay_out(substates)
        self.node_offsets = np.asarray(self._trees.node_offsets)
        size = int(self.node_offsets[-1])
        if len(self.inside) != size:
            self.inside = self.outside = np.empty(0, dtype=np.float32)  # free the old ones first
            self.inside, self.outside = np.empty((2, size), dtype=np.float32)

    def _share(self, task: Callable[[int, int], None], costs: NDArray[np.int64]) -> None:
        """Run task(first, last) over all items with these cumulative costs."""
        threads = self._pool.threads
        parts = split(costs, threads * _PARTS if threads > 1 else 1)
        self._pool.map(lambda part: task(part.start, part.stop), parts)


def m_step(data: TreebankData, substates: Ints, ancestors: Ints, counts: ProductionCounts) -> Level:
    """Relative frequencies (equation 5); all zeros for a substate that is never used."""
    level = Level.zeros(data.rules, substates, ancestors)
    rows, total = [], np.zeros(level.size)
    for array, rules in ((counts.binary, data.rules.binary), (counts.unary, data.rules.unary)):
        # A row of a block has the rules of one substate.
        widths = substates[rules[:, 1:]].astype(np.int64).prod(axis=1)
        widths = np.repeat(widths, substates[rules[:, 0]])
        parents = substate_columns(rules[:, 0], substates)[1]
        if len(widths):
            sums = np.add.reduceat(array, cumulative(widths)[:-1], dtype=np.float64)
            total += np.bincount(parents, sums, level.size)
        rows.append((parents, widths))
    inverse = np.divide(1.0, total, out=np.zeros(level.size), where=total > LEAST)
    blocks = (level.binary, level.unary)
    for values, array, (parents, widths) in zip(blocks, counts, rows, strict=False):
        np.multiply(np.repeat(inverse[parents].astype(np.float32), widths), array, out=values)
        values[values < LEAST] = 0
    level.root[:] = counts.root / counts.root.sum()
    return level


def treebank_grammar(data: TreebankData, settings: LexiconSettings | None = None) -> LatentGrammar:
    """The X-bar grammar of the treebank, by counting: a grammar with only level 0.

    Raises StructlearnError if there are no trees.
    """
    if not data.n_trees:
        raise StructlearnError("SL407")
    learner = LexiconLearner(settings or LexiconSettings(), data)
    level, words = treebank_level(data, learner)
    return grammar_of(data, learner, [level], [words])


def treebank_level(data: TreebankData, learner: LexiconLearner) -> tuple[Level, LexiconLevel]:
    """Level 0: relative frequencies of the coarse productions and words of at least one tree."""
    counts = observed_counts(data)
    substates = np.ones(data.symbols.size, dtype=np.int32)
    level = m_step(data, substates, np.zeros_like(substates), counts)
    return level, learner.fit(counts.lexical, substates[: data.symbols.n_tags])


def grammar_of(
    data: TreebankData, learner: LexiconLearner, levels: list[Level], words: list[LexiconLevel]
) -> LatentGrammar:
    """The grammar with these levels."""
    substates = [level.substates[: data.symbols.n_tags] for level in levels]
    lexicon, binarization = learner.lexicon(substates, words), data.binarization
    parts = (data.symbols, data.rules, levels, lexicon, data.chains)
    return LatentGrammar(*parts, binarization=binarization)
