"""Splitting, merging and smoothing of substates between the rounds of EM.

Petrov, Barrett, Thibaux & Klein (2006), sections 2.2 to 2.4; the generative grammars of Petrov &
Klein (2007) are trained in this way. Every substate is split in two with a little noise, the splits
that gain least are undone, and the probabilities of substates of one origin are smoothed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import cumulative
from ..treebank.data import TreebankData
from .em import ProductionCounts, TreebankDerivations
from .model import KINDS, Level

NOISE = 0.01  # share of a probability; for each child it changes by at most half of this


def split(
    level: Level, occurrences: NDArray[np.int64], rng: np.random.Generator, noise: float = NOISE
) -> Level:
    """Split every substate into two adjacent halves, whose `ancestors` are the old substates.

    A probability is divided equally among the combinations of the children's halves. For each child
    it changes by `noise` U(-0.5, 0.5) of itself, up for one half and down for the other. A symbol
    that occurs less often than it would have substates is not split.
    """
    factor = np.where(2 * level.substates <= occurrences, 2, 1).astype(np.int32)
    ancestors = np.concatenate(
        [np.repeat(np.arange(n), f) for n, f in zip(level.substates, factor, strict=True)]
    )
    refined = Level.zeros(level.rules, level.substates * factor, ancestors)

    def halves(block: NDArray[np.float32], factors: list[int]) -> NDArray[np.float64]:
        """Split the axes of the block of a rule; the first axis is the parent."""

        def spread(values: NDArray[np.float64]) -> NDArray[np.float64]:
            for axis, f in enumerate(factors[1:], 1):
                values = np.repeat(values, f, axis=axis)
            return values

        parts = np.repeat(block, factors[0], axis=0).astype(np.float64)
        change = spread(np.ones(parts.shape))
        for axis, f in enumerate(factors[1:], 1):
            if f == 2:
                draw = spread(noise * rng.uniform(-0.5, 0.5, parts.shape))
                # The second half changes the other way, so that the sum stays the same.
                np.moveaxis(draw, axis, -1)[..., 1::2] *= -1
                change += draw
        return spread(parts / np.prod(factors[1:])) * change

    for kind in KINDS:
        for rule, symbols in enumerate(getattr(level.rules, kind)):
            factors = np.append(1, factor[symbols]) if kind == "root" else factor[symbols]
            block = halves(np.atleast_2d(level.block(kind, rule)), factors.tolist())
            refined.block(kind, rule)[...] = block[0] if kind == "root" else block
    return refined


def merge_losses(
    derivations: TreebankDerivations, refined: Level
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float64]]:
    """Loss in log-likelihood by merging the two halves of each split, after an E-step.

    Petrov et al. (2006), equation 2. At each node the two halves are replaced by one substate with
    the mean of their inside scores, weighted by their relative frequencies p, and the sum of their
    outside scores; all else stays the same.

    Returns the symbol, first substate and loss of each pair of halves.
    """
    symbols, firsts, losses = [np.empty(0, np.int32)], [np.empty(0, np.int64)], [np.empty(0)]
    for symbol in range(len(refined.substates)):
        begin, end = refined.offsets[symbol : symbol + 2]
        old = refined.ancestors[begin:end]
        pairs = np.flatnonzero(old[1:] == old[:-1])
        if not len(pairs):
            continue
        inside, outside = (a.astype(np.float64) for a in derivations.scores_of(symbol))
        posterior = inside * outside
        used = posterior.sum(axis=0)
        both = used[pairs] + used[pairs + 1]
        p = np.divide(used[pairs], both, out=np.full(len(pairs), 0.5), where=both > 0)
        mean = p * inside[:, pairs] + (1 - p) * inside[:, pairs + 1]
        merged = mean * (outside[:, pairs] + outside[:, pairs + 1])
        total = posterior.sum(axis=1, keepdims=True)
        rest = total - posterior[:, pairs] - posterior[:, pairs + 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            change = np.log(total) - np.log(np.maximum(rest + merged, 1e-300))
        symbols.append(np.full(len(pairs), symbol, dtype=np.int32))
        firsts.append(pairs)
        losses.append(np.where(total > 0, change, 0.0).sum(axis=0))
    return np.concatenate(symbols), np.concatenate(firsts), np.concatenate(losses)


def least_useful(losses: NDArray[np.float64], fraction: float) -> NDArray[np.int64]:
    """Indexes, ascending, of the `fraction` of pairs with the smallest losses."""
    order = np.argsort(losses, kind="stable")
    return np.sort(order[: int(fraction * len(losses) + 0.5)])


class Merging:
    """A merge of substates `firsts` and `firsts` + 1 of `symbols`.

    substates, ancestors: of the merged level, see `Level`.
    """

    def __init__(self, level: Level, symbols: NDArray[np.int32], firsts: NDArray[np.int64]):
        self._level = level
        stay = np.delete(np.arange(level.size), level.offsets[symbols] + firsts + 1)
        ends = np.searchsorted(stay, level.offsets)
        self.substates = np.diff(ends).astype(np.int32)
        self.ancestors = level.ancestors[stay]
        # For each symbol the first old substate of each new one.
        self._starts = np.split(stay - np.repeat(level.offsets[:-1], self.substates), ends[1:-1])

    def counts(self, data: TreebankData, counts: ProductionCounts) -> ProductionCounts:
        """Counts of the merged productions.

        Their relative frequencies are the merged probabilities, which add up over merged children
        and are averages over merged parents, weighted by their frequencies.
        """
        level, rules, pairs = self._level, data.rules, data.pairs[:, :1]
        return ProductionCounts(
            self._add_up(counts.binary, rules.binary, level.binary_offsets),
            self._add_up(counts.unary, rules.unary, level.unary_offsets),
            self._add_up(counts.root, rules.root[:, None], level.root_offsets),
            self._add_up(counts.lexical, pairs, cumulative(level.substates[pairs[:, 0]])),
        )

    def _add_up(
        self, flat: NDArray[Any], rules: NDArray[np.int32], offsets: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Add up blocks of rules over merged substates.

        flat: the blocks, one after another.
        rules: int32 (n, k), the symbols of the axes of each block.
        offsets: int64 (n + 1), where blocks begin.
        """
        blocks = [np.empty(0, np.float32)]
        for symbols, (first, last) in zip(rules.tolist(), pairwise(offsets.tolist()), strict=True):
            block = flat[first:last].reshape(self._level.substates[symbols])
            for axis, symbol in enumerate(symbols):
                if self.substates[symbol] < self._level.substates[symbol]:
                    block = np.add.reduceat(block, self._starts[symbol], axis=axis)
            blocks.append(block.reshape(-1))
        return np.concatenate(blocks)


def branches(levels: Sequence[Level]) -> NDArray[np.int64]:
    """The groups of substates of the last level that are smoothed together.

    Returns int64 (size), distinct between symbols: for each substate its ancestor at the first
    level at which the symbol has several substates.
    """
    last = levels[-1]
    begin = np.repeat(last.offsets[:-1], last.substates)
    symbol = np.repeat(np.arange(len(last.substates)), last.substates)
    here = np.arange(last.size) - begin
    branch = here.copy()
    for i in range(len(levels) - 1, 0, -1):
        level = levels[i]
        branch = np.where(level.substates[symbol] > 1, here, branch)
        here = level.ancestors[level.offsets[symbol] + here]
    return last.offsets[symbol] + branch


def smooth(level: Level, groups: NDArray[np.int64], amount: float) -> Level:
    """Smooth the rules of each substate with its group: Petrov et al. (2006), section 2.4.

    p'_x = (1 - amount) p_x + amount * mean of the others in the group.

    groups: see `branches`.

    Returns a new level with the same substates.
    """
    weights: list[NDArray[np.float32] | None] = []
    for begin, end in pairwise(level.offsets.tolist()):
        same = groups[begin:end, None] == groups[begin:end]
        others = same.sum(axis=1) - 1
        mix = amount * same / np.maximum(others, 1)[:, None]
        np.fill_diagonal(mix, np.where(others > 0, 1 - amount, 1.0))
        weights.append(mix.astype(np.float32) if others.any() else None)

    def mixed(kind: str) -> NDArray[np.float32]:
        flat, out = getattr(level, kind), getattr(level, kind).copy()
        bounds = pairwise(getattr(level, f"{kind}_offsets").tolist())
        parents = getattr(level.rules, kind)[:, 0].tolist()
        for parent, (begin, end) in zip(parents, bounds, strict=True):
            weight = weights[parent]
            if weight is not None:
                block = flat[begin:end].reshape(len(weight), -1)
                np.matmul(weight, block, out=out[begin:end].reshape(block.shape))
        return out

    arrays = mixed("binary"), mixed("unary"), level.root
    return Level(level.rules, level.substates, level.ancestors, *arrays)
