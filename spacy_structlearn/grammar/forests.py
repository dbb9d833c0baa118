"""What pruning leaves of the parses of each training sentence, kept from one iteration to the next.

Petrov & Klein (2007), section 3.2: the chart of the coarsest grammar is filled exhaustively, what
has a low posterior in it is left out, with all its refinements, and so on with each finer grammar;
what is left for the grammar that is trained is kept and gone through again and again. The tree of
the treebank always stays. Bits of a mask say which substates of a symbol over a span are left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _chart, _forest
from .lexicon import Lexicon
from .model import Level
from .symbols import TreebankData

MOST_SUBSTATES = 64  # bits of a mask
CHUNK = 512  # sentences whose counts are added up in float32


class Terminals(NamedTuple):
    """The words under tags that occur in some forests.

    words: int32 (n), ids of `Lexicon.encode`; tags: int32 (n).
    """

    words: NDArray[np.int32]
    tags: NDArray[np.int32]


class Weights(NamedTuple):
    """The weights of all productions of one level, as float32, and where those of each begin.

    The first seven are those of `model.Level`; terminal: one vector of substates for each of some
    `Terminals`, from terminal_offsets on.
    """

    substates: NDArray[np.int32]
    binary: NDArray[np.float32]
    binary_offsets: NDArray[np.int64]
    unary: NDArray[np.float32]
    unary_offsets: NDArray[np.int64]
    root: NDArray[np.float32]
    root_offsets: NDArray[np.int64]
    terminal: NDArray[np.float32]
    terminal_offsets: NDArray[np.int64]


class Counts(NamedTuple):
    """Expected counts of refined productions, float64, laid out as `Weights`."""

    binary: NDArray[np.float64]
    unary: NDArray[np.float64]
    root: NDArray[np.float64]
    terminal: NDArray[np.float64]


@dataclass(frozen=True)
class Statistics:
    """How much is kept: sums over sentences.

    constituents: pairs of a span and a refined symbol, what Petrov & Klein (2007, figure 2) count.
    items: pairs of a span and a coarse symbol. edges: coarse binary productions over spans.
    """

    sentences: int
    constituents: int
    items: int
    edges: int
    bytes: int

    def __add__(self, other: Statistics) -> Statistics:
        names = self.__dataclass_fields__
        return Statistics(*(getattr(self, name) + getattr(other, name) for name in names))


class GoldTrees:
    """The trees of a treebank as `_chart` and `_forest` want to know of them.

    starts, ends: int32 (n_nodes), the span of each node.
    """

    def __init__(self, data: TreebankData):
        self.data = data
        starts, ends = [0] * data.n_nodes, [0] * data.n_nodes
        left, right = data.left.tolist(), data.right.tolist()
        offsets = data.offsets.tolist()
        for begin, end in pairwise(offsets):
            word = 0
            # Nodes are in post-order, so that words come from left to right.
            for node in range(begin, end):
                if left[node] < 0:
                    starts[node], ends[node] = word, word + 1
                    word += 1
                else:
                    starts[node] = starts[left[node]]
                    ends[node] = ends[right[node] if right[node] >= 0 else left[node]]
        self.starts = np.array(starts, dtype=np.int32)
        self.ends = np.array(ends, dtype=np.int32)

    def grid(self, tree: int) -> NDArray[np.int32]:
        """Of each span the topmost symbol, the lower one, and where its children meet or its tag.

        int32 (n, n + 1, 3); -1 for none. See `_chart.Chart.coarse_forest`.
        """
        data = self.data
        nodes = slice(data.offsets[tree], data.offsets[tree + 1])
        n = int(self.ends[nodes].max())
        grid = np.full((n, n + 1, 3), -1, dtype=np.int32)
        rows = zip(
            range(nodes.start, nodes.stop),
            data.symbol[nodes].tolist(),
            self.starts[nodes].tolist(),
            self.ends[nodes].tolist(),
            data.left[nodes].tolist(),
            data.right[nodes].tolist(),
            strict=True,
        )
        for _, symbol, i, j, left, right in rows:
            cell = grid[i, j]
            cell[0] = symbol
            if left < 0:
                cell[2] = symbol
            elif right >= 0:
                cell[1:] = symbol, self.starts[right]
            elif cell[1] < 0:
                cell[1] = symbol
        return grid


_NAMES = (
    "sentence_cell",
    "cell_item",
    "cell_group",
    "cell_unary",
    "item_symbol",
    "item_terminal",
    "item_mask",
    "group_parent",
    "group_rule",
    "group_edge",
    "edge_left",
    "edge_right",
    "unary_parent",
    "unary_child",
    "unary_rule",
    "sentence_root",
    "root_item",
    "root_rule",
    "gold_item",
    "gold_edge",
    "gold_unary",
    "gold_root",
)
_TYPES: dict[str, type[np.generic]] = dict.fromkeys(_NAMES[-4:], np.uint8)
_TYPES["item_mask"] = np.uint64


class Forests:
    """The forests of some sentences.

    Made by `coarse_forests`, refined by `refine` to the substates of a level, thinned out by
    `prune`. trees: int64, the numbers of the sentences; one of whose tree the grammar has no parse
    is left out. n_made: pairs of a span and a symbol in the charts that they are left of.
    folder: where to keep the arrays, which are then read from there; None: in memory.
    """

    def __init__(
        self,
        data: TreebankData,
        trees: NDArray[np.int64],
        arrays: dict[str, NDArray[Any]],
        keys: NDArray[np.int64],
        n_made: int = 0,
        folder: Path | None = None,
    ):
        self.data = data
        self.trees = trees
        self.n_made = n_made
        self.folder = folder
        self._keys = keys
        self._workspace = _forest.Workspace()
        self._keep(arrays)

    def _keep(self, arrays: dict[str, NDArray[Any]]) -> None:
        # What is read from a file may not be read any more once the file is written anew.
        self._arrays = arrays
        self._forests = None
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            for name, array in arrays.items():
                if array.size and not isinstance(array, np.memmap):
                    path = self.folder / f"{name}.npy"
                    np.save(path, array)
                    arrays[name] = np.load(path, mmap_mode="r+")
        rules, symbols = self.data.rules, self.data.symbols
        self._forests = _forest.Forests(
            symbols.n_tags, symbols.size, rules.binary, rules.unary, rules.root, arrays
        )

    @property
    def n_sentences(self) -> int:
        """How many there are."""
        return len(self.trees)

    @property
    def statistics(self) -> Statistics:
        """How much is kept."""
        arrays = self._arrays
        masks = np.ascontiguousarray(arrays["item_mask"])
        bits = int(np.unpackbits(masks.view(np.uint8)).sum()) if len(masks) else 0
        return Statistics(
            self.n_sentences,
            bits,
            len(masks),
            len(arrays["edge_left"]),
            sum(array.nbytes for array in arrays.values()),
        )

    @property
    def terminal_keys(self) -> NDArray[np.int64]:
        """word * n_tags + tag of every terminal that occurs, ascending."""
        return np.unique(self._keys)

    def number_terminals(self, keys: NDArray[np.int64]) -> None:
        """Give each terminal its place among `keys`, int64, ascending, those of all forests."""
        places = np.array(self._arrays["item_terminal"])
        places[places >= 0] = np.searchsorted(keys, self._keys)
        self._keys = np.empty(0, np.int64)
        self._keep({**self._arrays, "item_terminal": places})

    def gold_terminals(self) -> NDArray[np.int32]:
        """The terminals of the trees' own tags, word after word, tree after tree."""
        arrays = self._arrays
        own = (arrays["gold_item"] > 0) & (arrays["item_terminal"] >= 0)
        return np.asarray(arrays["item_terminal"][own])

    def refine(self, level: Level) -> None:
        """Allow the refinements, by a level's `ancestors`, of what is allowed, and all of gold."""
        symbols = self._arrays["item_symbol"]
        masks = np.asarray(self._arrays["item_mask"])
        refined = np.zeros_like(masks)
        gold = self._arrays["gold_item"] > 0
        one = np.uint64(1)
        for x in range(int(level.substates.max())):
            has = level.substates[symbols] > x
            places = level.offsets[symbols[has]] + x
            old = level.ancestors[places].astype(np.uint64)
            allowed = ((masks[has] >> old) & one) | gold[has]
            refined[has] |= allowed.astype(np.uint64) << np.uint64(x)
        self._arrays["item_mask"][:] = refined

    def prune(self, weights: Weights, threshold: float, edge_factor: float) -> None:
        """Leave out what has a posterior below `threshold`; productions: below it times
        `edge_factor`.
        """
        sizes = _forest.prune(
            self._forests, self._workspace, tuple(weights), threshold, threshold * edge_factor
        )
        n_cells, n_items, n_groups, n_edges, n_unaries, n_roots = sizes
        lengths = {"cell": n_cells + 1, "item": n_items, "group": n_groups, "edge": n_edges}
        lengths |= {"unary": n_unaries, "root": n_roots}
        arrays = {}
        for name, array in self._arrays.items():
            first, _, second = name.partition("_")
            kind = second if first == "gold" else first
            if kind == "sentence":
                arrays[name] = np.array(array)
                continue
            length = lengths[kind] + (name == "group_edge")
            arrays[name] = np.array(array[:length])
        arrays["sentence_cell"][-1] = n_cells
        arrays["sentence_root"][-1] = n_roots
        arrays["cell_item"][-1] = n_items
        arrays["cell_group"][-1] = n_groups
        arrays["cell_unary"][-1] = n_unaries
        arrays["group_edge"][-1] = n_edges
        self._keep(arrays)

    def expected_counts(self, weights: Weights) -> tuple[NDArray[np.float64], Counts]:
        """log Z of each sentence, -inf where float32 has lost it, and sums of expected counts.

        Equations 2 and 3 of Petrov & Klein (2007). Counts are added up in float32 over some
        hundred sentences, and those in float64.
        """
        sums = _Sums(weights)
        log_z = self.add_counts(weights, sums)
        return log_z, sums.counts()

    def add_counts(self, weights: Weights, sums: _Sums) -> NDArray[np.float64]:
        """Add the counts to `sums`. Returns log Z of each sentence."""
        log_z = np.empty(self.n_sentences)
        for begin in range(0, self.n_sentences, CHUNK):
            end = min(begin + CHUNK, self.n_sentences)
            _forest.expected_counts(
                self._forests, self._workspace, begin, end, tuple(weights), sums.part, log_z
            )
            sums.add(end - begin)
        return log_z

    def scores(self, sentence: int, weights: Weights) -> tuple[Any, ...] | None:
        """All scores of one sentence; see `_forest.scores`."""
        return _forest.scores(self._forests, self._workspace, sentence, tuple(weights))

    def gold_items(self, sentence: int) -> NDArray[np.int64]:
        """The places, among the items of a sentence, of those of its tree, ascending: by width,
        start and symbol.
        """
        first, last = self._arrays["sentence_cell"][sentence : sentence + 2]
        begin, end = self._arrays["cell_item"][first], self._arrays["cell_item"][last]
        return np.flatnonzero(self._arrays["gold_item"][begin:end])


class _Sums:
    """Counts in float64, and a part of them in float32, of some hundred sentences."""

    def __init__(self, weights: Weights):
        arrays = (weights.binary, weights.unary, weights.root, weights.terminal)
        self.total = Counts(*(np.zeros(len(array)) for array in arrays))
        self.part = tuple(np.zeros(len(array), dtype=np.float32) for array in arrays)
        self._pending = 0

    def add(self, n_sentences: int) -> None:
        """Say that so many sentences were added to `part`."""
        self._pending += n_sentences
        if self._pending >= CHUNK:
            self._flush()

    def counts(self) -> Counts:
        """The counts of all sentences so far."""
        if self._pending:
            self._flush()
        return self.total

    def _flush(self) -> None:
        for total, part in zip(self.total, self.part, strict=True):
            total += part
            part[:] = 0
        self._pending = 0


class RebuiltForests:
    """Forests that are made anew for each evaluation, by the whole cascade, and not kept.

    What Petrov & Klein (2007, figure 2) compare with cached pruning. The arguments are those of
    `coarse_forests`, with a threshold of 0 for no pruning at all, and keys: of the terminals, see
    `all_terminals`. statistics: of the last evaluation, with what was made at all levels.
    """

    def __init__(
        self,
        data: TreebankData,
        gold: GoldTrees,
        grammar: _chart.Grammar,
        lexicon: Lexicon,
        trees: Sequence[int],
        threshold: float,
        edge_factor: float,
        keys: NDArray[np.int64],
    ):
        self.data = data
        self.trees = np.array(trees, dtype=np.int64)
        self.statistics = Statistics(0, 0, 0, 0, 0)
        self._first = (data, gold, grammar, lexicon)
        self._limits = (threshold, edge_factor)
        self._keys = keys
        self._cascade: list[tuple[Weights, Level]] = []
        self._gold_keys = [
            lexicon.encode(_words(data, tree)).astype(np.int64) * data.symbols.n_tags
            + _tags(data, tree)
            for tree in trees
        ]

    @property
    def n_sentences(self) -> int:
        """How many there are."""
        return len(self.trees)

    def gold_terminals(self) -> NDArray[np.int32]:
        """See `Forests`."""
        found = np.concatenate([np.empty(0, np.int64), *self._gold_keys])
        return np.searchsorted(self._keys, found).astype(np.int32)

    def refine(self, weights: Weights, level: Level) -> None:
        """Add a level to the cascade: prune with these weights, then refine to this level."""
        self._cascade.append((weights, level))

    def expected_counts(self, weights: Weights) -> tuple[NDArray[np.float64], Counts]:
        """See `Forests`."""
        threshold, edge_factor = self._limits
        sums = _Sums(weights)
        values = np.full(self.n_sentences, -np.inf)
        made = Statistics(self.n_sentences, 0, 0, 0, 0)
        for place, tree in enumerate(self.trees.tolist()):
            forests = coarse_forests(*self._first, [tree], threshold, edge_factor)
            if not forests.n_sentences:
                continue
            made += Statistics(0, forests.n_made, forests.n_made, 0, 0)
            forests.number_terminals(self._keys)
            for before, level in self._cascade:
                if threshold > 0:
                    forests.prune(before, threshold, edge_factor)
                forests.refine(level)
                if threshold > 0:
                    made += forests.statistics
            if self._cascade and threshold == 0:
                made += forests.statistics
            values[place] = forests.add_counts(weights, sums)[0]
        self.statistics = replace(made, sentences=self.n_sentences)
        return values, sums.counts()


def all_terminals(data: TreebankData, lexicon: Lexicon) -> NDArray[np.int64]:
    """word * n_tags + tag of every word of the sentences under every tag that it can have."""
    ids = np.unique(np.concatenate([lexicon.encode(_words(data, t)) for t in range(data.n_trees)]))
    words, tags = np.nonzero(lexicon.scores(0, ids))
    return np.sort(ids[words].astype(np.int64) * data.symbols.n_tags + tags)


def coarse_forests(
    data: TreebankData,
    gold: GoldTrees,
    grammar: _chart.Grammar,
    lexicon: Lexicon,
    trees: Sequence[int],
    threshold: float,
    edge_factor: float,
    progress: Callable[[int], object] | None = None,
    folder: Path | None = None,
) -> Forests:
    """What the grammar of level 0 leaves of some sentences.

    grammar: compiled; lexicon: with its level 0. trees: their numbers. threshold: of posteriors of
    items, and, times `edge_factor`, of productions. progress: called with the number of sentences
    done. The terminals of items are numbers word * n_tags + tag: see `Forests.number_terminals`.
    """
    builder = _Builder(data)
    chart = _chart.Chart()
    for number, tree in enumerate(trees):
        words = _words(data, tree)
        ids = lexicon.encode(words)
        scores = np.ascontiguousarray(lexicon.scores(0, ids), dtype=np.float32)
        grid = gold.grid(tree)
        found = chart.coarse_forest(grammar, scores, grid, threshold, threshold * edge_factor)
        if found is not None:
            builder.n_made += found[1]
            builder.add(tree, ids, grid, *found[2:])
        if progress is not None:
            progress(number + 1)
    return builder.forests(folder)


def _words(data: TreebankData, tree: int) -> list[str]:
    nodes = slice(data.offsets[tree], data.offsets[tree + 1])
    forms = data.pairs[data.production[nodes][data.is_word[nodes]], 1]
    return [data.forms[form] for form in forms.tolist()]


def _tags(data: TreebankData, tree: int) -> NDArray[np.int32]:
    nodes = slice(data.offsets[tree], data.offsets[tree + 1])
    return data.symbol[nodes][data.is_word[nodes]]


class _Builder:
    """Gathers forests of sentences as the chart gives them."""

    def __init__(self, data: TreebankData):
        self.data = data
        self.trees: list[int] = []
        self.n_made = 0
        self.parts: dict[str, list[NDArray[Any]]] = {name: [] for name in _NAMES}
        self.n = dict.fromkeys(("cell", "item", "group", "edge", "unary", "root"), 0)

    def add(
        self,
        tree: int,
        ids: NDArray[np.int32],
        grid: NDArray[np.int32],
        cells: NDArray[np.int32],
        symbols: NDArray[np.int32],
        groups: NDArray[np.int32],
        edges: NDArray[np.int32],
        unaries: NDArray[np.int32],
        roots: NDArray[np.int32],
    ) -> None:
        n_tags = self.data.symbols.n_tags
        n = self.n
        bounds = cells[:, 2:]
        cell_of = np.repeat(np.arange(len(cells) - 1), np.diff(bounds[:, 0]))
        i, j = cells[cell_of, 0], cells[cell_of, 1]
        own = grid[i, j]
        is_tag = symbols < n_tags
        gold_item = np.where(is_tag, own[:, 2] == symbols, (own[:, :2] == symbols[:, None]).any(1))
        gold_item &= ~is_tag | (j == i + 1)
        # A production is one of the tree if its parent is the lower node, and its children the
        # upper ones where the tree has its split.
        parents, _, starts = groups[:-1].T
        parent = np.repeat(parents, np.diff(groups[:, 2]))
        left, right = edges.T
        top = gold_item & (own[:, 0] == symbols)
        lower = gold_item & (own[:, 1] == symbols)
        gold_edge = lower[parent] & top[left] & top[right] & (j[left] == own[parent, 2])
        above, below, _ = unaries.T
        gold_unary = gold_item[above] & gold_item[below]
        # Over one word stand at most a tag, the lower phrase and the upper one.
        gold_unary &= np.where(is_tag[below], lower[above], lower[below] & top[above])
        gold_root = top[roots[:, 0]]
        n_gold = [
            int(gold.sum()) for gold in (gold_item & is_tag, gold_edge, gold_unary, gold_root)
        ]
        mine = slice(self.data.offsets[tree], self.data.offsets[tree + 1])
        kinds = (self.data.is_word, self.data.is_binary, self.data.is_unary)
        if n_gold != [*(int(kind[mine].sum()) for kind in kinds), 1]:
            return  # the grammar has no parse like the tree
        terminal = np.where(is_tag, ids[i].astype(np.int64) * n_tags + symbols, -1)
        found = {
            "sentence_cell": np.array([n["cell"]]),
            "cell_item": bounds[:-1, 0] + n["item"],
            "cell_group": bounds[:-1, 1] + n["group"],
            "cell_unary": bounds[:-1, 2] + n["unary"],
            "item_symbol": symbols,
            "item_terminal": terminal,
            "item_mask": np.ones(len(symbols), dtype=np.uint64),
            "group_parent": parents + n["item"],
            "group_rule": groups[:-1, 1],
            "group_edge": starts + n["edge"],
            "edge_left": left + n["item"],
            "edge_right": right + n["item"],
            "unary_parent": above + n["item"],
            "unary_child": below + n["item"],
            "unary_rule": unaries[:, 2],
            "sentence_root": np.array([n["root"]]),
            "root_item": roots[:, 0] + n["item"],
            "root_rule": roots[:, 1],
            "gold_item": gold_item,
            "gold_edge": gold_edge,
            "gold_unary": gold_unary,
            "gold_root": gold_root,
        }
        for name, array in found.items():
            kind = np.int64 if name == "item_terminal" else _TYPES.get(name, np.int32)
            self.parts[name].append(array.astype(kind))
        self.trees.append(tree)
        n["cell"] += len(cells) - 1
        n["item"] += len(symbols)
        n["group"] += len(parents)
        n["edge"] += len(edges)
        n["unary"] += len(unaries)
        n["root"] += len(roots)

    def forests(self, folder: Path | None) -> Forests:
        n = self.n
        ends = {
            "sentence_cell": n["cell"],
            "cell_item": n["item"],
            "cell_group": n["group"],
            "cell_unary": n["unary"],
            "group_edge": n["edge"],
            "sentence_root": n["root"],
        }
        arrays = {}
        for name in _NAMES:
            parts = self.parts.pop(name)
            kind = np.int64 if name == "item_terminal" else _TYPES.get(name, np.int32)
            if name in ends:
                parts.append(np.array([ends[name]], dtype=kind))
            arrays[name] = np.concatenate([np.empty(0, kind), *parts])
        # Until they are numbered the kernel only sees whether there is one.
        keys = arrays["item_terminal"]
        arrays["item_terminal"] = np.where(keys < 0, -1, 0).astype(np.int32)
        trees = np.array(self.trees, dtype=np.int64)
        return Forests(self.data, trees, arrays, keys[keys >= 0], self.n_made, folder)
