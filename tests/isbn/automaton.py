"""The states of derivations and what is legal in them, as plainly as can be: what the kernels
`_network` and `_search` are compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spacy_structlearn.isbn.derivation import LeftCornerDerivations
from spacy_structlearn.isbn.settings import FEATURES
from spacy_structlearn.isbn.symbols import (
    ANCESTOR,
    ATTACH,
    LEFT_CHILD,
    MODIFY,
    MOVES,
    PROJECT,
    RECENT_CHILD,
    RELATIONS,
    SELF,
    SHIFT,
    DerivationSymbols,
)
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.trees.tree import Tree


class Node:
    """A node of the stack of `Automaton`. latest: the last state in which it was on top."""

    __slots__ = ("corner", "is_leaf", "latest", "left", "modified", "row")

    def __init__(self, row: int, corner: int, left: Node | None = None, is_leaf: bool = False):
        self.row = row
        self.corner = corner  # the number of its leftmost word, -1 for none
        self.left = left
        self.is_leaf = is_leaf
        self.modified = False
        self.latest = -1


class Automaton:
    """The stack of a derivation, its states and what is legal, as plainly as can be.

    Rows of nodes are those of block b of the inputs.
    """

    def __init__(self, symbols: DerivationSymbols):
        self.symbols = symbols
        self.stack = [Node(symbols.n_labels, -1)]
        self.n_states = 0
        self.n_words = 0
        self.run = 0
        self.is_done = False
        self.last = -1
        self.enter()

    def enter(self) -> None:
        """Begin the state after a move: `relations` are the states that it reads, -1 for none."""
        top = self.stack[-1]
        self.relations = [-1] * len(RELATIONS)
        self.relations[SELF] = top.latest
        if len(self.stack) > 1:
            self.relations[ANCESTOR] = self.stack[-2].latest
        if top.left is not None:
            self.relations[LEFT_CHILD] = top.left.latest
        if self.last in (PROJECT, ATTACH, MODIFY):
            self.relations[RECENT_CHILD] = self.n_states - 1
        top.latest = self.n_states
        self.n_states += 1

    def legal(self) -> NDArray[np.bool_]:
        mask = np.zeros(len(MOVES), dtype=bool)
        top = self.stack[-1]
        if self.is_done:
            return mask
        mask[SHIFT] = not top.is_leaf or not self.symbols.n_labels
        if len(self.stack) > 1 and self.symbols.n_labels:
            below = self.stack[-2]
            mask[PROJECT] = self.run < self.symbols.max_projects
            mask[ATTACH] = not below.modified
            mask[MODIFY] = len(self.stack) > 2
        return mask

    def make(self, move: int, row: int) -> None:
        """Make a legal move. row: of the new node, for a shift or project."""
        top = self.stack[-1]
        if move == SHIFT:
            self.stack.append(Node(row, self.n_words, is_leaf=True))
            self.n_words += 1
        elif move == PROJECT:
            self.stack[-1] = Node(row, top.corner, top)
        else:
            self.stack.pop()
            self.stack[-1].modified |= move == MODIFY
            self.is_done = len(self.stack) == 1
        self.run = self.run + 1 if move == PROJECT else 0
        self.last = move
        if not self.is_done:
            self.enter()


def legal(symbols: DerivationSymbols, moves: Iterable[int]) -> NDArray[np.bool_]:
    """Which moves may follow, bool (4); none where the derivation is complete.

    moves: those so far. Raises ValueError if one of them is not legal.
    """
    automaton = Automaton(symbols)
    for number, move in enumerate(moves):
        if not automaton.legal()[move]:
            raise ValueError(f"move {number} is not legal")
        automaton.make(move, 0)
    return automaton.legal()


class Replay(NamedTuple):
    """What each state of a derivation of m moves reads.

    relations: int32 (m, 4), the states that it is linked to by each of `RELATIONS`, -1 for none.
    rows: of each state its rows of the inputs (`DerivationSymbols.input_blocks`).
    """

    relations: NDArray[np.int32]
    rows: tuple[tuple[int, ...], ...]


def replay(
    symbols: DerivationSymbols,
    derivations: LeftCornerDerivations,
    number: int,
    features: str = FEATURES,
) -> Replay:
    """The states of one derivation, by its number.

    features: the blocks of inputs that are read. Raises ValueError if a move is not legal.
    """
    first, end = derivations.offsets[number : number + 2].tolist()
    words = slice(*derivations.word_offsets[number : number + 2].tolist())
    columns = (derivations.tags, derivations.items, derivations.signatures)
    leaves = np.stack([column[words] for column in columns], axis=1).tolist()
    blocks = {name: block.start for name, block in symbols.input_blocks.items()}

    def leaf_rows(block: str, leaf: int) -> list[int]:
        if leaf < 0:
            return []
        names = ("tags", "items", "signatures")
        pairs = zip(names, leaves[leaf], strict=True)
        return [blocks[f"{block}.{name}"] + value for name, value in pairs if value >= 0]

    automaton = Automaton(symbols)
    relations, rows = [], []
    last, label = -1, -1
    for move, new in zip(
        derivations.moves[first:end].tolist(), derivations.labels[first:end].tolist(), strict=True
    ):
        top = automaton.stack[-1]
        newest = automaton.n_words - 1
        read: dict[str, list[int]] = {name: [] for name in FEATURES}
        if last >= 0:
            read["a"].append(blocks["a.moves"] + last)
        if last == PROJECT:
            read["a"].append(blocks["a.labels"] + label)
        if last == SHIFT:
            read["a"] += leaf_rows("a", newest)
        read["b"].append(blocks["b.labels"] + top.row)
        read["c"] += leaf_rows("c", newest)
        read["d"] += leaf_rows("d", top.corner)
        if not automaton.legal()[move]:
            raise ValueError(f"move {len(rows)} is not legal")
        relations.append(automaton.relations)
        rows.append(tuple(row for name in FEATURES if name in features for row in read[name]))
        row = new
        if move == SHIFT:
            row = blocks["b.tags"] - blocks["b.labels"] + leaves[automaton.n_words][0]
        automaton.make(move, row)
        last, label = move, new
    return Replay(np.array(relations, dtype=np.int32).reshape(-1, len(RELATIONS)), tuple(rows))


def decode(
    symbols: DerivationSymbols,
    moves: Sequence[int],
    labels: Sequence[int],
    words: Sequence[str],
    tags: Sequence[str],
) -> Tree:
    """The normalised tree of a complete derivation, the inverse of `encode`."""
    leaves = [Tree.leaf(tag, word) for tag, word in zip(tags, words, strict=True)]
    stack: list[tuple[int, list[Tree], list[Tree]] | Tree] = []

    def closed(node: tuple[int, list[Tree], list[Tree]] | Tree) -> Tree:
        if isinstance(node, Tree):
            return node
        label, children, modifiers = node
        *upper, lowest = symbols.chains[label]
        tree = Tree(lowest, children)
        for modifier in modifiers:
            tree = Tree(lowest, (tree, modifier))
        for above in reversed(upper):
            tree = Tree(above, (tree,))
        return tree

    for move, label in zip(moves, labels, strict=True):
        if move == SHIFT:
            stack.append(leaves.pop(0))
        elif move == PROJECT:
            stack[-1] = label, [closed(stack[-1])], []
        elif len(stack) > 1:
            node = closed(stack.pop())
            stack[-1][1 if move == ATTACH else 2].append(node)
    (top,) = stack
    assert not leaves
    return normalize(Tree(symbols.root, (closed(top),)), root=symbols.root)
