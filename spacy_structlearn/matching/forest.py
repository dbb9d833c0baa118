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

    attributes: returns the values of another attribute of the words by its name.
    """

    def __init__(
        self,
        brackets: Brackets,
        attributes: Callable[[str], Coded],
        rules: HeadRules = COLLINS,
    ):
        super().__init__(brackets, rules, has_tags=True)
        self.attributes = attributes

    def bounds(self, nodes: Nodes) -> tuple[Nodes, Nodes]:
        """Return the first node of the tree of each node, and the node after its last one."""
        trees = self.trees[nodes]
        return self.firsts[trees], self.firsts[trees + 1]

    def order(self, name: str) -> Order:
        """Return the place of each node in an order, and the node at each place.

        name: before, after, sisters or heads.
        """
        return getattr(self, name)

    @cached_property
    def before(self) -> Order:
        """Pre-order."""
        own = np.arange(self.n)
        return own, own

    @cached_property
    def after(self) -> Order:
        """Post-order."""
        return order(self.ends - 1 - self.depths)

    @cached_property
    def heads(self) -> Order:
        """An order in which each chain of head children is together."""
        # Links from each head child to its parent end at the top of its chain.
        own = np.arange(self.n)
        tops = followed(np.where(self.is_head, self.parents, own))
        begins = cumulative(np.bincount(tops, minlength=self.n))
        return order(begins[tops] + self.depths - self.depths[tops])

    @cached_property
    def chains(self) -> tuple[Nodes, Nodes]:
        """The places in `heads` where the chain of each node begins, and where it ends."""
        _, nodes = self.heads
        begins = np.flatnonzero(~self.is_head[nodes])
        own = np.searchsorted(begins, self.heads[0], "right")
        return begins[own - 1], np.append(begins, self.n)[own]

    @cached_property
    def is_head(self) -> NDArray[np.bool_]:
        """Whether each node is the head child of its parent; False for a root."""
        heads = self.head_ranks(np.arange(self.n))
        return (self.parents >= 0) & (heads[self.parents] == self.ranks)

    @cached_property
    def chain_ends(self) -> tuple[Nodes, Nodes]:
        """Of the nodes over the same words as each node: the first one, and the one after the last.

        These are a unary chain.
        """
        changed = (np.diff(self.starts) != 0) | (np.diff(self.stops) != 0)
        begins = np.append(0, np.flatnonzero(changed) + 1)[: self.n]
        own = np.searchsorted(begins, np.arange(self.n), "right")
        return begins[own - 1], np.append(begins, self.n)[own]
