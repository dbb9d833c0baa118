"""What of the subcategories of a multi-scale grammar need be told apart at all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .conditional import MultiScale


class Distinct(NamedTuple):
    """What is left to be told apart in a multi-scale grammar; see `distinct_productions`.

    productions: those that have a weight, words under substates too. different: those that are
    left if one stands for all that refine it with zeros. substates: of all symbols. merged: those
    that are left if substates are told apart only where a parameter other than zero does; between:
    productions of these.
    """

    productions: int
    different: int
    substates: int
    merged: int
    between: int


def distinct_productions(parameters: MultiScale, theta: NDArray[np.float64]) -> Distinct:
    """How far a multi-scale grammar can be collapsed without another correction of any production.

    A production of a coarser scale stands for all that refine it if all of these have parameters of
    zero from its scale on. Substates are one again if no production with a parameter other than
    zero has one of them, from the scale on at which they are split. With the base "uniform" the
    weights too are the same before and after.
    """
    nonzero = [parameters.of_scale(k, theta) != 0 for k in range(parameters.n_scales)]
    # From the finest scale on: whether something below a production is other than zero.
    split = [np.zeros(len(nonzero[-1]), dtype=np.bool_)]
    for own, parents, coarser in zip(
        nonzero[:0:-1], reversed(parameters.parents), nonzero[-2::-1], strict=True
    ):
        above = np.zeros(len(coarser), dtype=np.bool_)
        above[parents[own | split[0]]] = True
        split.insert(0, above)
    different = np.count_nonzero(~split[0])
    for whole, above, parents in zip(split[1:], split, parameters.parents, strict=False):
        different += np.count_nonzero(~whole & above[parents])
    classes = _substate_classes(parameters, nonzero)
    level, rules = parameters.level, parameters.level.rules
    n_rows = len(parameters.words.rows)
    has = parameters.scale_parts(parameters.n_scales - 1, np.ones(len(nonzero[-1]), np.bool_))
    symbols = (rules.binary, rules.unary, rules.root[:, None], parameters.own_tags[:, None])
    rows = np.tile(np.arange(parameters.n_tags), n_rows)[:, None]
    between = 0
    for axes, part in zip((*symbols, rows), has, strict=True):
        begin = 0
        for block in axes.tolist():
            shape = tuple(level.substates[block].tolist())
            end = begin + int(np.prod(shape))
            found = np.nonzero(part[begin:end].reshape(shape))
            key = np.zeros(len(found[0]), dtype=np.int64)
            for symbol, places in zip(block, found, strict=True):
                own = classes[level.offsets[symbol] : level.offsets[symbol + 1]]
                key = key * level.size + own[places]
            between += len(np.unique(key))
            begin = end
    return Distinct(
        len(nonzero[-1]), int(different), level.size, len(np.unique(classes)), int(between)
    )


def _substate_classes(
    parameters: MultiScale, nonzero: Sequence[NDArray[np.bool_]]
) -> NDArray[np.int64]:
    """For each substate of the last level a number, equal for those that are not told apart."""
    levels, n_tags = parameters.levels, parameters.n_tags
    used = []
    for scale, (level, own) in enumerate(zip(levels, nonzero, strict=True)):
        parts = parameters.scale_parts(scale, own)
        mine = np.zeros(level.size, dtype=np.bool_)
        rules = level.rules
        for axes, part in (
            (rules.binary, parts.binary),
            (rules.unary, parts.unary),
            (rules.root[:, None], parts.root),
            (parameters.own_tags[:, None], parts.own),
        ):
            begin = 0
            for block in axes.tolist():
                shape = tuple(level.substates[block].tolist())
                end = begin + int(np.prod(shape))
                for symbol, places in zip(
                    block, np.nonzero(part[begin:end].reshape(shape)), strict=True
                ):
                    mine[level.offsets[symbol] + places] = True
                begin = end
        width = int(level.offsets[n_tags])
        mine[:width] |= parts.rows.reshape(-1, width).any(axis=0)
        used.append(mine)
    # What a level's substates are parts of, in the level before.
    parents = [
        level.ancestors + np.repeat(before.offsets[:-1], level.substates)
        for before, level in pairwise(levels)
    ]
    down = [used[-1]]
    for mine, above in zip(used[-2::-1], reversed(parents), strict=True):
        found = mine.copy()
        found[above[down[0]]] = True
        down.insert(0, found)
    classes = np.arange(levels[0].size)
    for mine, above in zip(down[1:], parents, strict=True):
        is_split = np.zeros(len(classes), dtype=np.bool_)
        is_split[above[mine]] = True
        own = len(classes) + np.arange(len(mine))
        classes = np.where(is_split[above], own, classes[above])
        _, classes = np.unique(classes, return_inverse=True)
        classes = classes.reshape(-1)
    return classes
