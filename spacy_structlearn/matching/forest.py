"""The nodes of many trees as Tregex sees them: phrases, tags, and words below tags."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..arrays import Coded, cumulative, followed
from ..trees.heads import COLLINS, HeadRules
from ..trees.nodes import Brackets, Order, TreeNodes, order

Nodes = NDArray[np.integer]


class Forest(TreeNodes):
    """The nodes of trees by their number, with orders in which relations are intervals.

    An order has the place of each node, and the node at each place. `sisters` is one too.
    attributes: returns the values of another attribute of the words by its name.
    """

    def __init__(
        self, brackets: Brackets, attributes: Callable[[str], Coded], rules: HeadRules = COLLINS
    ):
        super().__init__(brackets, rules, has_tags=True)
        self.attributes = attributes

    @cached_property
    def before(self) -> Order:
        """Pre-order."""
        return order(np.arange(self.n))

    @cached_property
    def after(self) -> Order:
        """Post-order."""
        return order(self.ends - 1 - self.depths)

    @cached_property
    def heads(self) -> Order:
        """An order in which each chain of head children is together."""
        # Links from each head child to its parent end at the top of its chain.
        tops = followed(np.where(self.is_head, self.parents, np.arange(self.n)))
        begins = cumulative(np.bincount(tops, minlength=self.n))
        return order(begins[tops] + self.depths - self.depths[tops])

    @cached_property
    def is_head(self) -> NDArray[np.bool_]:
        """Whether each node is the head child of its parent; False for a root."""
        heads = self.head_ranks(np.arange(self.n))
        return (self.parents >= 0) & (heads[self.parents] == self.ranks)

    @cached_property
    def head_chains(self) -> tuple[Nodes, Nodes]:
        """The places in `heads` where the chain of each node begins, and where it ends."""
        places, nodes = self.heads
        begins, ends = _runs(~self.is_head[nodes])
        return begins[places], ends[places]

    @cached_property
    def unary_chains(self) -> tuple[Nodes, Nodes]:
        """Of the nodes over the same words as each node: the first one, and the one after the last.

        These are a unary chain.
        """
        bounds = np.stack([self.starts, self.stops])
        return _runs((np.diff(bounds, prepend=-1) != 0).any(axis=0))


def _runs(first: NDArray[np.bool_]) -> tuple[Nodes, Nodes]:
    """Return where the run of each element begins and ends. first: whether a run begins here."""
    begins = np.flatnonzero(first)
    run = np.cumsum(first) - 1
    return begins[run], np.append(begins[1:], len(first))[run]
