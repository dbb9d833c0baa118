"""Trees as the flat arrays of an X-bar grammar, and brackets of the grammar as trees.

Petrov & Klein (2007), section 2 and figure 1. A phrase X with n > 2 children becomes a cascade of
binary nodes; the intermediate ones are labelled @X and do not depend on their neighbours. Each span
has at most one unary production between phrases: the top and the bottom of a longer chain are kept,
and `restore` inserts the most frequent labels between the two in the output. The label above the
tree (ROOT) is not a symbol. If it has several children, a phrase with its name is inserted over
them and removed from the output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import cumulative, followed
from ...errors import StructlearnError
from ...trees.tree import Tree
from .symbols import ROOT, Rules, Symbols, distinct_rows

BINARIZATIONS = ("right", "left")

Chains = dict[tuple[int, int], tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class TreebankData:
    """Binarized trees as flat arrays, one tree after another, children before their parents.

    symbol: int32 (n_nodes).
    left, right: int32 (n_nodes), the children; right is -1 for unary productions, both for words.
    production: int32 (n_nodes), id of the binary or unary rule or, for a word, of the pair.
    offsets: int64 (n_trees + 1), the first node of each tree; the last node of a tree is its top.
    roots: int32 (n_trees), id of the root rule of each tree.
    forms: distinct words.
    initial: bool (n_forms), whether the form is the first word of a sentence.
    pairs: int32 (n_pairs, 2) tag, form.
    chain_counts: how often (top, bottom, labels between) was collapsed.
    """

    symbols: Symbols
    rules: Rules
    symbol: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    production: NDArray[np.int32]
    offsets: NDArray[np.int64]
    roots: NDArray[np.int32]
    forms: tuple[str, ...]
    initial: NDArray[np.bool_]
    pairs: NDArray[np.int32]
    chain_counts: Mapping[tuple[int, int, tuple[int, ...]], int] = field(default_factory=dict)
    binarization: str = "right"

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.roots)

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees."""
        return len(self.symbol)

    def subset(self, trees: NDArray[np.integer]) -> TreebankData:
        """Some of the trees, by number, with the symbols, rules and pairs of all trees."""
        sizes = np.diff(self.offsets)[trees]
        offsets = cumulative(sizes)
        shift = np.repeat(self.offsets[:-1][trees] - offsets[:-1], sizes)
        nodes = np.arange(offsets[-1]) + shift

        def shifted(children: NDArray[np.int32]) -> NDArray[np.int32]:
            old = children[nodes]
            return np.where(old < 0, old, old - shift).astype(np.int32)

        return replace(
            self,
            symbol=self.symbol[nodes],
            left=shifted(self.left),
            right=shifted(self.right),
            production=self.production[nodes],
            offsets=offsets,
            roots=self.roots[trees],
            chain_counts={},
        )

    @cached_property
    def is_word(self) -> NDArray[np.bool_]:
        """Whether each node is a word with its tag, bool (n_nodes)."""
        return self.left < 0

    @cached_property
    def is_unary(self) -> NDArray[np.bool_]:
        """Whether each node has one child, bool (n_nodes)."""
        return (self.left >= 0) & (self.right < 0)

    @cached_property
    def is_binary(self) -> NDArray[np.bool_]:
        """Whether each node has two children, bool (n_nodes)."""
        return self.right >= 0

    @cached_property
    def spans(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the words below each node begin and end in its tree, int64 (n_nodes) each."""
        nodes = np.arange(self.n_nodes)
        word: NDArray[np.int64] = np.cumsum(self.is_word) - self.is_word
        word -= np.repeat(word[self.offsets[:-1]], np.diff(self.offsets))
        below = np.where(self.is_word, nodes, self.left)
        last = np.where(self.is_binary, self.right, below)
        return word[followed(below)], word[followed(last)] + 1

    @cached_property
    def sentences(self) -> list[list[str]]:
        """The words of each tree."""
        forms = [self.forms[form] for form in self.pairs[self.production[self.is_word], 1].tolist()]
        ends = np.append(0, np.cumsum(self.is_word))[self.offsets].tolist()
        return [forms[begin:end] for begin, end in pairwise(ends)]

    @cached_property
    def occurrences(self) -> NDArray[np.int64]:
        """How often each symbol occurs, int64 (n_symbols)."""
        return np.bincount(self.symbol, minlength=self.symbols.size)

    @cached_property
    def pair_counts(self) -> NDArray[np.int64]:
        """How often each pair occurs, int64 (n_pairs)."""
        return np.bincount(self.production[self.is_word], minlength=len(self.pairs))

    @cached_property
    def chains(self) -> Chains:
        """The most frequent labels between each collapsed (top, bottom); ties: the shortest."""
        best: dict[tuple[int, int], tuple[int, int, tuple[int, ...]]] = {}
        for (top, bottom, between), count in self.chain_counts.items():
            rank = (-count, len(between), between)
            best[top, bottom] = min(rank, best.get((top, bottom), rank))
        return {pair: best[pair][2] for pair in sorted(best) if best[pair][2]}


def binarize(
    trees: Iterable[Tree],
    binarization: str = "right",
    root: str = ROOT,
    known: Symbols | None = None,
) -> TreebankData:
    """Encode normalized trees, see `trees.normalize`.

    binarization: "right" (X -> c1 @X, as in the paper) or "left" (X -> @X cn).
    root: the label above the trees. A tree with another top label is put below it.
    known: symbols to which those of the trees are added.

    Raises StructlearnError for an unknown binarization.
    """
    if binarization not in BINARIZATIONS:
        raise StructlearnError("SL401", value=binarization, known=", ".join(BINARIZATIONS))
    encoder = _Encoder(binarization, root)
    for tree in trees:
        encoder.add(tree)
    return encoder.finish(known or Symbols())


def restore(
    symbols: Symbols,
    chains: Mapping[tuple[int, int], tuple[int, ...]],
    brackets: Iterable[tuple[int, int, int]],
) -> list[tuple[int, int, int, int]]:
    """The brackets of the original tree of a binarized one.

    brackets: (symbol, start, end) of the nodes of one tree in pre-order, with or without tags.

    Returns (phrase, start, end, source) in pre-order, with collapsed chains expanded. source is the
    index in `brackets`; for the labels of an expanded chain, that of its top.
    """
    first, last = symbols.n_tags, symbols.n_tags + symbols.n_phrases
    inserted = symbols.inserted_root
    restored: list[tuple[int, int, int, int]] = []
    for source, (symbol, start, end) in enumerate(brackets):
        if not first <= symbol < last or (source == 0 and symbol == inserted):
            continue
        if restored and restored[-1][1:3] == (start, end):
            top = restored[-1]
            restored.extend((label, *top[1:]) for label in chains.get((top[0], symbol), ()))
        restored.append((symbol, start, end, source))
    return restored


def to_tree(data: TreebankData, index: int) -> Tree:
    """Restore one tree of `data`; its collapsed chains become the most frequent ones."""
    symbols, words = data.symbols, data.sentences[index]
    nodes = np.arange(*data.offsets[index : index + 2])
    starts, ends = (places[nodes] for places in data.spans)
    order = np.lexsort((-nodes, -ends, starts))  # pre-order
    symbol = data.symbol[nodes][order]
    brackets = zip(symbol.tolist(), starts[order].tolist(), ends[order].tolist(), strict=True)
    tags = [symbols.names[tag] for tag in symbol[symbol < symbols.n_tags].tolist()]
    restored = restore(symbols, data.chains, brackets)
    spans = [(symbols.names[label], start, end) for label, start, end, _ in restored]
    return Tree.from_spans(words, tags, [(symbols.root, 0, len(words)), *spans])


_TAG, _PHRASE, _INTERMEDIATE = range(3)  # kinds of symbols


class _Encoder:
    """Collects the nodes of trees, with symbols numbered in order of appearance."""

    def __init__(self, binarization: str, root: str):
        self.binarization, self.root = binarization, root
        self.symbols: dict[tuple[int, str], int] = {}  # by kind and label
        self.forms: dict[tuple[str, bool], int] = {}
        self.nodes: list[tuple[int, int, int, int]] = []  # symbol, left, right, form
        self.offsets = [0]
        self.chains: Counter[tuple[str, str, tuple[str, ...]]] = Counter()

    def add(self, tree: Tree) -> None:
        work: list[Tree | tuple[list[str], int]] = [tree]
        # A root with several children is kept as the inserted phrase.
        if tree.label == self.root and len(tree.children) == 1:
            work = [tree.children[0]]
        done: list[int] = []  # nodes without a parent yet
        n_words = 0
        while work:
            item = work.pop()
            if isinstance(item, tuple):
                self._close(*item, done)
            elif item.word is not None:
                form = self.forms.setdefault((item.word, n_words == 0), len(self.forms))
                done.append(self._node(_TAG, item.label, -1, -1, form))
                n_words += 1
            else:
                labels = [item.label]
                children = item.children
                while len(children) == 1 and children[0].word is None:
                    labels.append(children[0].label)
                    children = children[0].children
                work.append((labels, len(children)))
                work.extend(reversed(children))
        self.offsets.append(len(self.nodes))

    def _close(self, labels: list[str], n: int, done: list[int]) -> None:
        """Put a phrase, with the chain of `labels`, above the last n nodes of `done`."""
        children = done[-n:]
        del done[-n:]
        if n == 1:
            node = self._node(_PHRASE, labels[-1], children[0], -1)
        else:
            step = 1 if self.binarization == "right" else -1
            children = children[::step]
            node = children.pop()
            while children:
                kind = _INTERMEDIATE if len(children) > 1 else _PHRASE
                node = self._node(kind, labels[-1], *(children.pop(), node)[::step])
        if labels[0] != labels[-1]:
            # The labels between are symbols, too, even if they occur nowhere else.
            for label in labels:
                self._symbol(_PHRASE, label)
            self.chains[labels[0], labels[-1], tuple(labels[1:-1])] += 1
            node = self._node(_PHRASE, labels[0], node, -1)
        done.append(node)

    def _symbol(self, kind: int, label: str) -> int:
        return self.symbols.setdefault((kind, label), len(self.symbols))

    def _node(self, kind: int, label: str, left: int, right: int, form: int = -1) -> int:
        self.nodes.append((self._symbol(kind, label), left, right, form))
        return len(self.nodes) - 1

    def finish(self, known: Symbols) -> TreebankData:
        tags, phrases, split = (
            sorted({label for other, label in self.symbols if other == kind}.union(labels))
            for kind, labels in enumerate((known.tags, known.phrases, known.intermediate_index))
        )
        places = {label: len(tags) + i for i, label in enumerate(phrases)}
        intermediates = tuple(sorted(places[label] for label in split))
        symbols = Symbols(tuple(tags), tuple(phrases), intermediates, self.root)
        index = symbols.phrase_index
        indexes = (symbols.tag_index, index, symbols.intermediate_index)
        to = np.array([indexes[kind][label] for kind, label in self.symbols], dtype=np.int32)
        chains = {
            (index[top], index[bottom], tuple(index[label] for label in between)): count
            for (top, bottom, between), count in sorted(self.chains.items())
        }
        numbers, left, right, form = np.array(self.nodes, np.int64).reshape(-1, 4).T.copy()
        symbol, offsets = to[numbers], np.array(self.offsets)
        # Rules and pairs are numbered in ascending order.
        production = np.empty(len(symbol), dtype=np.int32)
        tables = []
        for mask, size, columns in (
            (right >= 0, symbols.size, (symbol[left], symbol[right], symbol)),
            ((left >= 0) & (right < 0), symbols.size, (symbol[left], symbol)),
            (left < 0, max(len(self.forms), 1), (symbol, form)),
        ):
            rows: NDArray[Any] = np.stack(columns, axis=1)[mask]
            table, production[mask] = distinct_rows(rows, size)
            tables.append(table)
        binaries, unaries, pairs = tables
        roots, root = np.unique(symbol[offsets[1:] - 1], return_inverse=True)
        return TreebankData(
            symbols,
            Rules(binaries[:, [2, 0, 1]].copy(), unaries[:, ::-1].copy(), roots),
            symbol,
            left.astype(np.int32),
            right.astype(np.int32),
            production,
            offsets,
            root.astype(np.int32),
            tuple(text for text, _ in self.forms),
            np.array([initial for _, initial in self.forms], dtype=np.bool_),
            pairs,
            chains,
            self.binarization,
        )
