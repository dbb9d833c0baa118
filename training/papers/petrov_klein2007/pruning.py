"""Forests without caching: figure 2 of Petrov & Klein (2007).

The package prunes the forests of the training sentences once per level and caches them. Here, every
evaluation of the conditional likelihood runs the whole coarse-to-fine cascade, or does not prune.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_structlearn.grammar.chart import _chart
from spacy_structlearn.grammar.chart.compiled import compile_grammar
from spacy_structlearn.grammar.discriminative import objective
from spacy_structlearn.grammar.discriminative.forests import (
    ForestStatistics,
    Weights,
    coarse_forests,
)
from spacy_structlearn.grammar.discriminative.settings import ConditionalGrammarSettings
from spacy_structlearn.grammar.latent.em import ProductionCounts
from spacy_structlearn.grammar.latent.model import LatentGrammar, Level
from spacy_structlearn.grammar.treebank.data import TreebankData
from spacy_structlearn.grammar.treebank.lexicon import Lexicon
from spacy_structlearn.parallel.shards import Engine

REGIMES = ("coarse_to_fine", "none")


class RebuiltForests:
    """Forests that are rebuilt in each evaluation, in place of `forests.Forests`.

    threshold: see `coarse_forests`; 0 means no pruning.

    terminal_keys: of every word with every tag that it can have.
    statistics: of the last evaluation: of the charts of all levels or, without pruning, of the
        chart of the last level.
    """

    def __init__(self, data: TreebankData, grammar: LatentGrammar, threshold: float):
        self.data = data
        lexicon, n_tags = grammar.lexicon, data.symbols.n_tags
        keys = _all_terminals(data, lexicon)
        # Trees with an impossible tag of a word are skipped.
        self._gold_keys = {}
        for tree in range(data.n_trees):
            gold = lexicon.encode(data.sentences[tree]).astype(np.int64) * n_tags + _tags(
                data, tree
            )
            if np.isin(gold, keys).all():
                self._gold_keys[tree] = gold
        self.trees = np.array(list(self._gold_keys), dtype=np.int64)
        self.statistics = ForestStatistics(0, 0)
        self.terminal_keys = keys
        self._chart = _CountingChart()
        self._first = (data, compile_grammar(grammar.truncated(1)), lexicon)
        self._threshold = threshold
        self._cascade: list[tuple[Weights, Level]] = []
        self._counted = np.arange(len(self.trees))

    @property
    def n_sentences(self) -> int:
        return len(self.trees)

    def gold_terminals(self) -> NDArray[np.int32]:
        gold = np.concatenate([np.empty(0, np.int64), *self._gold_keys.values()])
        return np.searchsorted(self.terminal_keys, gold).astype(np.int32)

    def number_terminals(self, keys: NDArray[np.int64]) -> None:
        self.terminal_keys = keys

    def count_only(self, sentences: NDArray[np.int64]) -> None:
        self._counted = sentences

    def refine(self, weights: Weights, level: Level) -> None:
        """Add a level to the cascade: prune with these weights, and refine to this level."""
        self._cascade.append((weights, level))

    def expected_counts(self, weights: Weights) -> tuple[NDArray[np.float64], ProductionCounts]:
        threshold = self._threshold
        arrays = weights.arrays[1::2]
        sums = tuple(np.zeros(len(array), dtype=np.float32) for array in arrays)
        totals = ProductionCounts(*(np.zeros(len(array)) for array in arrays))
        log_z = np.full(self.n_sentences, -np.inf)
        made = ForestStatistics(self.n_sentences, 0)
        for place in self._counted.tolist():
            self._chart.n_made = 0
            tree = [int(self.trees[place])]
            forests = coarse_forests(*self._first, tree, threshold, chart=self._chart)
            if not forests.n_sentences:
                continue
            if threshold > 0 or not self._cascade:
                made += ForestStatistics(0, self._chart.n_made)
            forests.number_terminals(self.terminal_keys)
            for before, level in self._cascade:
                if threshold > 0:
                    forests.prune(before, threshold)
                forests.refine(level)
                if threshold > 0:
                    made += forests.statistics
            if self._cascade and threshold == 0:
                made += forests.statistics
            forests.add_counts(weights, 0, 1, sums, log_z[place : place + 1])
        for total, part in zip(totals, sums, strict=True):
            total += part
        self.statistics = replace(made, sentences=self.n_sentences)
        return log_z, totals


class _CountingChart:
    """A chart that counts its pairs of a span and a symbol."""

    def __init__(self) -> None:
        self._chart = _chart.Chart()
        self.n_made = 0

    def coarse_forest(self, *arguments: Any) -> Any:
        forest = self._chart.coarse_forest(*arguments)
        self.n_made += 0 if forest is None else forest[1]
        return forest


class RebuiltObjective:
    """The conditional likelihood of trees by the last level of a grammar, see `RebuiltForests`.

    grammar: with expanded rows, see `without_backoff`; its weights correspond to parameters of 0.
    regime: one of `REGIMES`.
    """

    def __init__(
        self,
        settings: ConditionalGrammarSettings,
        data: TreebankData,
        grammar: LatentGrammar,
        regime: str,
    ):
        threshold = 0.0 if regime == "none" else settings.threshold
        forests = RebuiltForests(data, grammar, threshold)
        keys = forests.terminal_keys
        for number in range(grammar.depth):
            parameters = objective.Parameterization(grammar, number, "generative")
            parts = parameters.weights(np.zeros(parameters.n_parameters))
            level, words = parameters.refined(parts)
            weights = objective.TerminalMap(grammar.lexicon, keys, level).level_weights(
                level, words
            )
            forests.refine(weights, grammar.levels[number + 1])
        self._forests: Any = forests
        self._shard = objective.GrammarShard(self._forests, keys)
        self._n_trees = data.n_trees
        self.objective = objective.GrammarLikelihood(
            objective.Parameterization(grammar, grammar.depth, "generative"),
            keys,
            Engine([self._shard]),
        )

    @property
    def statistics(self) -> ForestStatistics:
        return self._forests.statistics

    @property
    def left_out(self) -> int:
        return self._n_trees - len(self._shard.sentences)

    def close(self) -> None:
        self.objective.engine.close()


def _all_terminals(data: TreebankData, lexicon: Lexicon) -> NDArray[np.int64]:
    """Return word * n_tags + tag for every word and every tag that it can have."""
    sentences = [lexicon.encode(data.sentences[tree]) for tree in range(data.n_trees)]
    ids = np.unique(np.concatenate([np.empty(0, np.int32), *sentences]))
    words, tags = np.nonzero(lexicon.scores(0, ids))
    return np.sort(ids[words].astype(np.int64) * data.symbols.n_tags + tags)


def _tags(data: TreebankData, tree: int) -> NDArray[np.int32]:
    nodes = slice(data.offsets[tree], data.offsets[tree + 1])
    return data.symbol[nodes][data.is_word[nodes]]
