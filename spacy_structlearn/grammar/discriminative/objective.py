"""Discriminative latent grammars: maximum conditional likelihood of the trees, given the words.

Petrov & Klein (2007), section 2.2. A production of refined symbols has the weight exp(theta), and

    L(theta) = sum_i log sum_(t in T_i) exp(theta . f(t)) - log sum_t exp(theta . f(t))
    dL / dtheta = sum_i E[f | T_i] - E[f | w_i]                            (equations 6 and 7)

where t runs over the derivations of the tree T_i, or of any tree of sentence w_i that pruning has
left (see `forests`). Here a weight is q exp(theta). The base q is 1 for each production seen in the
treebank, as in the paper, or the probability that a generative grammar has learned for it; theta is
then a correction of its logarithm. A production of probability zero has no parameter.

A word under a tag has a parameter for each substate of the tag if the lexicon has probabilities for
the pair. Rare words share the parameters of their signatures with unknown words.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...arrays import cumulative, ranges
from ...optimize.lbfgs import dot
from ...parallel.shards import Engine
from ..latent.em import ProductionCounts, TreebankDerivations
from ..latent.model import LatentGrammar, Level
from ..treebank.data import TreebankData
from ..treebank.lexicon import Backoff, Lexicon, LexiconLevel
from ..treebank.symbols import substate_columns
from .forests import Forests, Weights

FLOOR = 1e-3  # least probability that parameters with the base "uniform" start from
LEAST = 1e-8  # smaller base probabilities are taken for zero
LARGEST = 40.0  # bound on the logarithm of a weight, so that `_forest` does not overflow


class Parts(NamedTuple):
    """One number for each production of a level.

    binary, unary, root: in the layout of `model.Level`.
    own, rows: in the layout of `lexicon.LexiconLevel`, the rows one after another.
    """

    binary: NDArray[Any]
    unary: NDArray[Any]
    root: NDArray[Any]
    own: NDArray[Any]
    rows: NDArray[Any]


class TerminalMap:
    """Computes the weights of terminals from those of a lexicon, for one level.

        weight(T_x, w) = own(T, w)_x + share(T, w) rows[row(w)]_x

    lexicon: with expanded rows, see `without_backoff`.
    keys: int64 (n), of the terminals, see `Forests.terminal_keys`.

    offsets: int64 (n + 1), where the vector of each terminal begins.
    """

    def __init__(self, lexicon: Lexicon, keys: NDArray[np.int64], level: Level):
        n_words, n_tags = len(lexicon.words), len(lexicon.tag_substates[0])
        substates = level.substates[:n_tags]
        words, tags = np.divmod(keys, n_tags)
        known = words < n_words
        row = words - n_words
        share = np.ones(len(words), dtype=np.float64)
        row[known] = lexicon.backoff_rows[words[known]]
        share[known] = lexicon.backoff_weights[words[known]]
        # The pair of a known word and its tag, if the lexicon has it.
        owner = np.repeat(np.arange(n_words), np.diff(lexicon.word_offsets))
        pairs = owner * n_tags + lexicon.pair_tags
        # The last place stands for a pair that the lexicon does not have.
        order = np.append(np.argsort(pairs, kind="stable"), len(pairs))
        pair = order[np.searchsorted(pairs, keys, sorter=order[:-1])]
        has = known & (np.append(pairs, -1)[pair] == keys)
        share[has] += lexicon.pair_weights[pair[has]]
        is_own = lexicon.pair_weights == 0
        pair_offsets = cumulative(np.where(is_own, substates[lexicon.pair_tags], 0))
        has &= np.append(is_own, False)[pair]
        self.offsets, column = substate_columns(tags, substates)
        sizes = np.diff(self.offsets)
        self._cell = np.repeat(row * int(substates.sum()), sizes) + column
        self._share = np.repeat(share, sizes)
        self._has = np.flatnonzero(np.repeat(has, sizes))
        self._own = ranges(pair_offsets[pair], sizes)[self._has]

    def weights(self, own: NDArray[np.floating], rows: NDArray[np.floating]) -> NDArray:
        """The weights of all terminals, one vector after another."""
        weights = self._share * rows[self._cell]
        weights[self._has] += own[self._own]
        return weights

    def level_weights(self, level: Level, words: LexiconLevel) -> Weights:
        """The weights of a level for its forests. level, words: see `Parameterization.refined`."""
        terminal = self.weights(words.own, words.rows.reshape(-1))
        return Weights(level, terminal.astype(np.float32), self.offsets)

    def counts(
        self, counts: NDArray[np.float64], own: NDArray[np.floating], rows: NDArray[np.floating]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Distribute counts of terminals over the two parts of their weights, `own` and `rows`."""
        total = self.weights(own, rows)
        each = np.divide(counts, total, out=np.zeros(len(counts)), where=total > 0)
        of_rows = each * self._share * rows[self._cell]
        of_own = each[self._has] * own[self._own]
        return (
            np.bincount(self._own, of_own, len(own)).astype(np.float64, copy=False),
            np.bincount(self._cell, of_rows, len(rows)).astype(np.float64, copy=False),
        )


class Parameterization:
    """Which productions of a level have a parameter, and the bases of their weights.

    grammar, number: a level of a generative grammar without back-off, see `without_backoff`. Its
        structure is used and, for the base "generative", its probabilities.
    base: one of `settings.BASES`.

    A parameter vector has the parameters of binary, unary and root productions, of words with a
    vector of their own, and of rows, in this order.
    """

    def __init__(self, grammar: LatentGrammar, number: int, base: str):
        self.level = level = grammar.levels[number]
        self.lexicon = lexicon = grammar.lexicon
        self.words = words = lexicon.levels[number]
        self.is_centred = base == "generative"
        self.n_tags = len(lexicon.tag_substates[0])
        self.own_tags = lexicon.pair_tags[lexicon.pair_weights == 0]
        probabilities = Parts(level.binary, level.unary, level.root, words.own, words.rows.ravel())
        if base == "generative":
            large = [np.where(p < LEAST, np.float32(0), p) for p in probabilities[:3]]
            self.base = Parts._make([*large, *probabilities[3:]])
        else:
            ones = [np.ones(len(part), np.float32) for part in probabilities]
            # A signature has weights for all substates of the tags that it was seen with.
            substates = level.substates[: self.n_tags]
            seen = np.add.reduceat(words.rows, cumulative(substates)[:-1], axis=1) > 0
            rows = np.repeat(seen, substates, axis=1).astype(np.float32)
            rows[-1] = words.rows[-1]
            self.base = Parts._make([*ones[:4], rows.reshape(-1)])
        self._bounds = np.cumsum([len(part) for part in self.base])
        support = np.flatnonzero(np.concatenate(self.base))
        if base != "generative":
            support = support[support < self._bounds[-1] - words.rows.shape[1]]
        self._support = support
        self._probabilities = probabilities

    @property
    def n_parameters(self) -> int:
        """Length of a parameter vector."""
        return len(self._support)

    def initial(self, floor: float) -> NDArray[np.float64]:
        """The parameters at which weights are the generative probabilities, at least `floor`."""
        if self.is_centred:
            return np.zeros(self.n_parameters)
        least = np.maximum(self.parameters_of(self._probabilities), floor)
        return np.log(least / self.parameters_of(self.base))

    def parts_of(self, theta: NDArray[np.float64]) -> Parts:
        """The parameter of each production, 0 for productions without one."""
        values = np.zeros(self._bounds[-1])
        values[self._support] = theta
        return self._split(values)

    def _split(self, values: NDArray) -> Parts:
        return Parts(*np.split(values, self._bounds[:-1]))

    def refined(self, parts: Parts | None) -> tuple[Level, LexiconLevel]:
        """The level, and its words, with these `weights`. Raises ValueError if they are None."""
        if parts is None:
            raise ValueError("weights that are too large")
        level = self.level
        rows = parts.rows.reshape(self.words.rows.shape)
        return (
            Level(level.rules, level.substates, level.ancestors, *parts[:3]),
            LexiconLevel(parts.own, rows),
        )

    def parameters_of(self, parts: Parts) -> NDArray[np.float64]:
        """The numbers of the productions that have a parameter, as one vector."""
        return np.concatenate(parts)[self._support].astype(np.float64, copy=False)

    def weights(self, theta: NDArray[np.float64]) -> Parts | None:
        """base * exp(theta), float32; None if a weight is too large for float32 arithmetic."""
        if len(theta) and not theta.max() < LARGEST:
            return None
        values = np.concatenate(self.base)
        values[self._support] *= np.exp(theta.astype(np.float32))
        return self._split(values)


def ancestor_places(
    fine: Level, coarse: Level, own_tags: NDArray[np.int32], n_tags: int, n_rows: int
) -> Parts:
    """The indexes of the productions of `coarse` that the productions of `fine` refine, int64.

    own_tags: the tags of the pairs with vectors of their own. n_rows: number of signatures' rows.
    """
    rules = fine.rules
    ancestors = np.split(fine.ancestors.astype(np.int64), fine.offsets[1:-1])

    def of_blocks(symbols: NDArray[np.int32], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        blocks = [np.empty(0, np.int64)]
        for axes, begin in zip(symbols.tolist(), offsets[:-1].tolist(), strict=True):
            above = np.ix_(*(ancestors[symbol] for symbol in axes))
            shape = tuple(coarse.substates[axes].tolist())
            blocks.append(begin + np.ravel_multi_index(above, shape).reshape(-1))
        return np.concatenate(blocks)

    def of_vectors(symbols: NDArray[np.integer]) -> NDArray[np.int64]:
        above = fine.ancestors[substate_columns(symbols, fine.substates)[1]]
        begin = cumulative(coarse.substates[symbols])[:-1]
        return np.repeat(begin, fine.substates[symbols]) + above

    row = of_vectors(np.arange(n_tags))
    width = int(coarse.offsets[n_tags])
    return Parts(
        of_blocks(rules.binary, coarse.binary_offsets),
        of_blocks(rules.unary, coarse.unary_offsets),
        of_vectors(rules.root),
        of_vectors(own_tags),
        np.add.outer(np.arange(n_rows) * width, row).reshape(-1),
    )


class GrammarShard:
    """The forests of some sentences, and the derivations of their gold trees.

    keys: the terminals of all shards, or None if `number` is called later.
    first: the number of the first sentence of this part of the data.

    sentences: int64, the sentences that count: all that float32 has not lost.
    """

    def __init__(self, forests: Forests, keys: NDArray[np.int64] | None = None, first: int = 0):
        self.forests = forests
        self._first = first
        self._may_lose = True
        if keys is not None:
            self.number(keys)

    def number(self, keys: NDArray[np.int64]) -> None:
        """Number the terminals by `keys`; see `Forests.number_terminals`."""
        self.forests.number_terminals(keys)
        self._trees = _trees_of(self.forests, keys)
        self.count_only(np.arange(self.forests.n_sentences))

    def leave_out(self, lost: NDArray[np.int64]) -> None:
        """Leave out sentences, given by their numbers in all data."""
        self.count_only(np.flatnonzero(~np.isin(self._first + self.forests.trees, lost)))

    def count_only(self, sentences: NDArray[np.int64]) -> None:
        """Leave out all other sentences of the forests."""
        self.sentences = sentences
        self.forests.count_only(sentences)
        everything = len(sentences) == self._trees.n_trees
        self.derivations = TreebankDerivations(
            self._trees if everything else self._trees.subset(sentences)
        )

    def expected_counts(self, weights: Weights) -> tuple[float, ProductionCounts]:
        """log P(trees | words), and the expected counts of the trees minus those of the sentences.

        Returns minus infinity if float32 loses a sentence after the first evaluation since `begin`.
        """
        _, of_trees = self.derivations.expected_counts((weights.level, weights.terminal))
        log_z, counts = self.forests.expected_counts(weights)
        log_z = log_z[self.sentences]
        is_finite = np.isfinite(self.derivations.values) & np.isfinite(log_z)
        if not is_finite.all():
            if not self._may_lose:
                return -np.inf, counts
            self.count_only(self.sentences[is_finite])
            return self.expected_counts(weights)
        self._may_lose = False
        for total, gold in zip(counts, of_trees, strict=True):
            np.subtract(gold, total, out=total)
        return float((self.derivations.values - log_z).sum()), counts

    def begin(self, may_lose: bool = True) -> None:
        """Begin a level, whose first evaluation may leave out sentences that float32 loses."""
        self._may_lose = may_lose

    @property
    def lost(self) -> NDArray[np.int64]:
        """The numbers, in all data, of the sentences that float32 has lost."""
        return self._first + np.delete(self.forests.trees, self.sentences)

    def close(self) -> None:
        """End the threads of the derivations."""
        self.derivations.close()


def _trees_of(forests: Forests, keys: NDArray[np.int64]) -> TreebankData:
    """The gold trees of some forests, with terminals as the productions of words."""
    trees = forests.data.subset(forests.trees)
    production = trees.production.copy()
    production[trees.is_word] = forests.gold_terminals()
    words, tags = np.divmod(keys, forests.data.symbols.n_tags)
    pairs = np.stack([tags, words], axis=1).astype(np.int32)
    return replace(trees, production=production, forms=(), initial=np.empty(0, bool), pairs=pairs)


class GrammarLikelihood:
    """The objective of one level, to be minimised: - L(theta) + l2 |theta|^2 / 2.

    keys: the terminals of all shards.
    engine: of `GrammarShard`s.
    l2, l1: the penalties, 0 or more. They become those of each parameter, float64 (n), with the
        base "uniform": 0 for productions that no forest has. The data says nothing about these, and
        a prior alone would pull their weights up to 1.
    """

    def __init__(
        self,
        parameterization: Parameterization,
        keys: NDArray[np.int64],
        engine: Engine,
        l2: float = 0.0,
        l1: float = 0.0,
    ):
        self.parameterization = parameterization
        self.engine = engine
        self.l1: float | NDArray[np.float64] = l1
        self.l2: float | NDArray[np.float64] = l2
        self._map = TerminalMap(parameterization.lexicon, keys, parameterization.level)
        if (l1 or l2) and not parameterization.is_centred:
            parts = parameterization.weights(parameterization.initial(FLOOR))
            assert parts is not None
            weights = self._map.level_weights(*parameterization.refined(parts))
            each = engine.map(lambda shard: shard.forests.expected_counts(weights)[1])
            counts = self._of_parameters(map(sum, zip(*each, strict=True)), parts)
            self.l1, self.l2 = (np.where(counts > 0, strength, 0.0) for strength in (l1, l2))

    def value_and_grad(self, theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """The objective, infinite where weights overflow, and its gradient: float64 (n)."""
        parts = self.parameterization.weights(theta)
        if parts is None:
            return np.inf, np.zeros_like(theta)
        weights = self._map.level_weights(*self.parameterization.refined(parts))
        value, counts = self.engine.expected_counts(weights)
        gradient = self.l2 * theta - self._of_parameters(counts, parts)
        return 0.5 * dot(self.l2 * theta, theta) - value, gradient

    def _of_parameters(self, counts: Iterable[Any], parts: Parts) -> NDArray[np.float64]:
        *others, terminal = counts
        words = self._map.counts(terminal, parts.own, parts.rows)
        return self.parameterization.parameters_of(Parts._make([*others, *words]))


def without_backoff(grammar: LatentGrammar) -> LatentGrammar:
    """The same grammar, with expanded rows of signatures instead of own parts and back-off."""
    lexicon = grammar.lexicon
    weights = np.zeros_like(lexicon.backoff.weights)
    words = [
        LexiconLevel(level.own, lexicon.backoff.expand(level.rows)) for level in lexicon.levels
    ]
    backoff = Backoff(lexicon.backoff.parents, weights)
    whole = replace(lexicon, levels=words, backoff=backoff)
    return grammar.replaced(lexicon=whole, storage="float32")
