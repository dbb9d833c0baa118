"""What pruning leaves of the parses of each training sentence, kept from one iteration to the next.

Petrov & Klein (2007), section 3.2: the chart of the coarsest grammar is filled exhaustively, what
has a low posterior in it is left out, with all its refinements, and so on with each finer grammar;
what is left for the grammar that is trained is kept and gone through again and again. The tree of
the treebank always stays. Bits of a mask say which substates of a symbol over a span are left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..chart import _chart
from ..latent.model import Level
from ..treebank.lexicon import Lexicon
from ..treebank.symbols import TreebankData
from . import _forest

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


class ForestCounts(NamedTuple):
    """Expected counts of refined productions, float64, laid out as `Weights`."""

    binary: NDArray[np.float64]
    unary: NDArray[np.float64]
    root: NDArray[np.float64]
    terminal: NDArray[np.float64]


@dataclass(frozen=True)
class ForestStatistics:
    """How much is kept: sums over sentences.

    constituents: pairs of a span and a refined symbol, what Petrov & Klein (2007, figure 2) count.
    items: pairs of a span and a coarse symbol. edges: coarse binary productions over spans.
    """

    sentences: int
    constituents: int
    items: int
    edges: int
    bytes: int

    def __add__(self, other: ForestStatistics) -> ForestStatistics:
        names = self.__dataclass_fields__
        return ForestStatistics(*(getattr(self, name) + getattr(other, name) for name in names))


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
            data.symbol[nodes].tolist(),
            self.starts[nodes].tolist(),
            self.ends[nodes].tolist(),
            data.left[nodes].tolist(),
            data.right[nodes].tolist(),
            strict=True,
        )
        for symbol, i, j, left, right in rows:
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
# Of each kind of thing the array that says where those of a larger one begin, and where all end.
_OFFSETS = {
    "cell": "sentence_cell",
    "item": "cell_item",
    "group": "cell_group",
    "unary": "cell_unary",
    "edge": "group_edge",
    "root": "sentence_root",
}
# What the numbers of an array are places of.
_PLACES = {name: kind for kind, name in _OFFSETS.items()} | dict.fromkeys(
    ("group_parent", "edge_left", "edge_right", "unary_parent", "unary_child", "root_item"), "item"
)
_BITS = np.array([byte.bit_count() for byte in range(256)], dtype=np.uint8)


class Forests:
    """The forests of some sentences.

    Made by `coarse_forests`, refined by `refine` to the substates of a level, thinned out by
    `prune`. trees: int64, the numbers of the sentences; one of whose tree the grammar has no parse
    is left out. arrays: by name, see `_forest.ForestArrays`; the forests own them from then on.
    keys: of the terminals, int64, which item_terminal has the places of; see `number_terminals`.
    n_made: pairs of a span and a symbol in the charts that they are left of. folder: where to keep
    the arrays, which are then read from there, and which is nobody else's; None: in memory.
    """

    def __init__(
        self,
        data: TreebankData,
        trees: NDArray[np.int64],
        arrays: Iterable[tuple[str, NDArray[Any]]],
        keys: NDArray[np.int64],
        n_made: int = 0,
        folder: Path | None = None,
    ):
        self.data = data
        self.trees = trees
        self.n_made = n_made
        self.folder = folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self._keys = keys
        self._left_out = np.zeros(len(trees), dtype=np.uint8)
        self._workspace = _forest.ForestRoom()
        self._arrays: dict[str, NDArray[Any]] = {}
        for name, array in arrays:
            self._put(name, array)
        self._open()

    def _put(self, name: str, array: NDArray[Any]) -> None:
        """Keep an array, which may not be read from the file of the one that it stands for."""
        self._arrays[name] = array
        if self.folder is not None and array.size:
            path = self.folder / f"{name}.npy"
            np.save(path, array)
            self._arrays[name] = np.load(path, mmap_mode="r+")

    def release(self) -> dict[str, NDArray[Any]]:
        """The arrays, for somebody else to keep; the forests are none any more."""
        self._forests = None
        arrays, self._arrays = self._arrays, {}
        return arrays

    def _open(self) -> None:
        rules, symbols = self.data.rules, self.data.symbols
        self._forests = _forest.ForestArrays(
            symbols.n_tags, symbols.size, rules.binary, rules.unary, rules.root, self._arrays
        )

    @property
    def n_sentences(self) -> int:
        """How many there are."""
        return len(self.trees)

    def count_only(self, sentences: NDArray[np.int64]) -> None:
        """Say of which sentences to add up the counts; the others have a log Z of -inf."""
        self._left_out = np.ones(self.n_sentences, dtype=np.uint8)
        self._left_out[sentences] = 0

    @property
    def statistics(self) -> ForestStatistics:
        """How much is kept."""
        arrays = self._arrays
        masks = np.asarray(arrays["item_mask"])
        return ForestStatistics(
            self.n_sentences,
            int(_BITS[masks.view(np.uint8)].sum(dtype=np.int64)),
            len(masks),
            len(arrays["edge_left"]),
            sum(array.nbytes for array in arrays.values()),
        )

    @property
    def terminal_keys(self) -> NDArray[np.int64]:
        """word * n_tags + tag of every terminal that occurs, ascending."""
        places = self._arrays["item_terminal"]
        return self._keys[np.unique(places[places >= 0])]

    def number_terminals(self, keys: NDArray[np.int64]) -> None:
        """Give each terminal its place among `keys`, int64, ascending, all of these and others."""
        places = self._arrays["item_terminal"]
        is_tag = places >= 0
        places[is_tag] = np.searchsorted(keys, self._keys)[places[is_tag]]
        self._keys = keys
        self._open()

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
        left = dict(zip(("cell", "item", "group", "edge", "unary", "root"), sizes, strict=True))
        self._forests = None  # the arrays are replaced one by one, so that few are there twice
        for name in _NAMES:
            first, _, second = name.partition("_")
            length = left.get(second if first == "gold" else first, self.n_sentences)
            ends = name in _OFFSETS.values()
            array = np.array(self._arrays[name][: length + ends])
            if ends:
                array[-1] = left[_PLACES[name]]
            self._put(name, array)
        self._open()

    def expected_counts(self, weights: Weights) -> tuple[NDArray[np.float64], ForestCounts]:
        """log Z of each sentence, -inf where float32 has lost it, and sums of expected counts.

        Equations 2 and 3 of Petrov & Klein (2007). Counts are added up in float32 over some
        hundred sentences, and those in float64.
        """
        sums = _Sums(weights)
        log_z = self.add_counts(weights, sums)
        return log_z, sums.counts()

    def add_counts(self, weights: Weights, sums: _Sums) -> NDArray[np.float64]:
        """Add the counts to `sums`. Returns log Z of each sentence."""
        log_z = np.full(self.n_sentences, -np.inf)
        for begin in range(0, self.n_sentences, CHUNK):
            end = min(begin + CHUNK, self.n_sentences)
            _forest.expected_counts(
                self._forests,
                self._workspace,
                begin,
                end,
                tuple(weights),
                self._left_out,
                sums.part,
                log_z,
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
        self.total = ForestCounts(*(np.zeros(len(array)) for array in arrays))
        self.part = tuple(np.zeros(len(array), dtype=np.float32) for array in arrays)
        self._pending = 0

    def add(self, n_sentences: int) -> None:
        """Say that so many sentences were added to `part`."""
        self._pending += n_sentences
        if self._pending >= CHUNK:
            self._flush()

    def counts(self) -> ForestCounts:
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
    `coarse_forests`, with a threshold of 0 for no pruning at all. terminal_keys: see `Forests`; of
    every word under every tag that it can have. statistics: of the last evaluation, with what was
    made at all levels; without pruning, of the chart of the last level.
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
    ):
        self.data = data
        tags = data.symbols.n_tags
        keys = _all_terminals(data, lexicon, trees)
        gold_keys = {
            tree: lexicon.encode(_words(data, tree)).astype(np.int64) * tags + _tags(data, tree)
            for tree in trees
        }
        # With a tag that a word cannot have there is no parse like the tree.
        known = set(keys.tolist())
        self._gold_keys = {
            tree: own for tree, own in gold_keys.items() if known.issuperset(own.tolist())
        }
        self.trees = np.array(list(self._gold_keys), dtype=np.int64)
        self.statistics = ForestStatistics(0, 0, 0, 0, 0)
        self._first = (data, gold, grammar, lexicon)
        self._limits = (threshold, edge_factor)
        self.terminal_keys = keys
        self._cascade: list[tuple[Weights, Level]] = []
        self._left_out = np.zeros(len(self.trees), dtype=np.uint8)

    @property
    def n_sentences(self) -> int:
        """How many there are."""
        return len(self.trees)

    def gold_terminals(self) -> NDArray[np.int32]:
        """See `Forests`."""
        found = np.concatenate([np.empty(0, np.int64), *self._gold_keys.values()])
        return np.searchsorted(self.terminal_keys, found).astype(np.int32)

    def number_terminals(self, keys: NDArray[np.int64]) -> None:
        """See `Forests`."""
        self.terminal_keys = keys

    def count_only(self, sentences: NDArray[np.int64]) -> None:
        """See `Forests`."""
        self._left_out = np.ones(self.n_sentences, dtype=np.uint8)
        self._left_out[sentences] = 0

    def refine(self, weights: Weights, level: Level) -> None:
        """Add a level to the cascade: prune with these weights, then refine to this level."""
        self._cascade.append((weights, level))

    def expected_counts(self, weights: Weights) -> tuple[NDArray[np.float64], ForestCounts]:
        """See `Forests`."""
        threshold, edge_factor = self._limits
        sums = _Sums(weights)
        values = np.full(self.n_sentences, -np.inf)
        made = ForestStatistics(self.n_sentences, 0, 0, 0, 0)
        for place, tree in enumerate(self.trees.tolist()):
            if self._left_out[place]:
                continue
            forests = coarse_forests(*self._first, [tree], threshold, edge_factor)
            if not forests.n_sentences:
                continue
            if threshold > 0 or not self._cascade:
                made += ForestStatistics(0, forests.n_made, forests.n_made, 0, 0)
            forests.number_terminals(self.terminal_keys)
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


def _all_terminals(data: TreebankData, lexicon: Lexicon, trees: Sequence[int]) -> NDArray[np.int64]:
    """word * n_tags + tag of every word of some sentences under every tag that it can have."""
    sentences = [lexicon.encode(_words(data, tree)) for tree in trees]
    ids = np.unique(np.concatenate([np.empty(0, np.int32), *sentences]))
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
    folder: Path | None = None,
) -> Forests:
    """What the grammar of level 0 leaves of some sentences.

    grammar: compiled; lexicon: with its level 0. trees: their numbers. threshold: of posteriors of
    items, and, times `edge_factor`, of productions. The forests' terminals are their own, see
    `Forests.number_terminals`.
    """
    parts: list[dict[str, NDArray[Any]]] = []
    kept: list[int] = []
    keys = [np.empty(0, np.int64)]
    n_made = 0
    chart = _chart.Chart()
    for tree in trees:
        words = _words(data, tree)
        ids = lexicon.encode(words)
        scores = np.ascontiguousarray(lexicon.scores(0, ids), dtype=np.float32)
        grid = gold.grid(tree)
        found = chart.coarse_forest(grammar, scores, grid, threshold, threshold * edge_factor)
        if found is not None:
            n_made += found[1]
            made = _arrays_of(data, tree, ids, grid, *found[2:])
            if made is not None:
                parts.append(made[0])
                keys.append(made[1])
                kept.append(tree)
    numbers = np.array(kept, dtype=np.int64)
    own, places = np.unique(np.concatenate(keys), return_inverse=True)
    begin = 0
    for arrays in parts:
        is_tag = arrays["item_terminal"] >= 0
        end = begin + int(is_tag.sum())
        arrays["item_terminal"][is_tag] = places[begin:end]
        begin = end
    return Forests(data, numbers, _concatenated(parts), own, n_made, folder)


def joined(data: TreebankData, parts: Sequence[Forests], folder: Path | None = None) -> Forests:
    """Forests of the same level as one; the parts are used up. folder: see `Forests`."""
    trees = np.concatenate([np.empty(0, np.int64), *(part.trees for part in parts)])
    own = [part.terminal_keys for part in parts]
    keys = np.unique(np.concatenate([np.empty(0, np.int64), *own]))
    for part in parts:
        part.number_terminals(keys)
    n_made = sum(part.n_made for part in parts)
    arrays = _concatenated([part.release() for part in parts])
    return Forests(data, trees, arrays, keys, n_made, folder)


def _words(data: TreebankData, tree: int) -> list[str]:
    nodes = slice(data.offsets[tree], data.offsets[tree + 1])
    forms = data.pairs[data.production[nodes][data.is_word[nodes]], 1]
    return [data.forms[form] for form in forms.tolist()]


def _tags(data: TreebankData, tree: int) -> NDArray[np.int32]:
    nodes = slice(data.offsets[tree], data.offsets[tree + 1])
    return data.symbol[nodes][data.is_word[nodes]]


def _arrays_of(
    data: TreebankData,
    tree: int,
    ids: NDArray[np.int32],
    grid: NDArray[np.int32],
    cells: NDArray[np.int32],
    symbols: NDArray[np.int32],
    groups: NDArray[np.int32],
    edges: NDArray[np.int32],
    unaries: NDArray[np.int32],
    roots: NDArray[np.int32],
) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]] | None:
    """The forest of one sentence, as the chart gives it, and the keys of its tags, not numbered.

    None if the grammar has no parse like the tree.
    """
    n_tags = data.symbols.n_tags
    bounds = cells[:, 2:]
    cell_of = np.repeat(np.arange(len(cells) - 1), np.diff(bounds[:, 0]))
    i, j = cells[cell_of, 0], cells[cell_of, 1]
    own = grid[i, j]
    is_tag = symbols < n_tags
    gold_item = np.where(is_tag, own[:, 2] == symbols, (own[:, :2] == symbols[:, None]).any(1))
    gold_item &= ~is_tag | (j == i + 1)
    # A production is one of the tree if its parent is the lower node, and its children the
    # upper ones where the tree has its split.
    parents = groups[:-1, 0]
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
    n_gold = [int(gold.sum()) for gold in (gold_item & is_tag, gold_edge, gold_unary, gold_root)]
    mine = slice(data.offsets[tree], data.offsets[tree + 1])
    kinds = (data.is_word, data.is_binary, data.is_unary)
    if n_gold != [*(int(kind[mine].sum()) for kind in kinds), 1]:
        return None
    keys = ids[i[is_tag]].astype(np.int64) * n_tags + symbols[is_tag]
    found = {
        "sentence_cell": np.array([0, len(cells) - 1]),
        "cell_item": bounds[:, 0],
        "cell_group": bounds[:, 1],
        "cell_unary": bounds[:, 2],
        "item_symbol": symbols,
        "item_terminal": np.where(is_tag, 0, -1),
        "item_mask": np.ones(len(symbols)),
        "group_parent": parents,
        "group_rule": groups[:-1, 1],
        "group_edge": groups[:, 2],
        "edge_left": left,
        "edge_right": right,
        "unary_parent": above,
        "unary_child": below,
        "unary_rule": unaries[:, 2],
        "sentence_root": np.array([0, len(roots)]),
        "root_item": roots[:, 0],
        "root_rule": roots[:, 1],
        "gold_item": gold_item,
        "gold_edge": gold_edge,
        "gold_unary": gold_unary,
        "gold_root": gold_root,
    }
    return {name: array.astype(_TYPES.get(name, np.int32)) for name, array in found.items()}, keys


def _concatenated(parts: Sequence[dict[str, NDArray[Any]]]) -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays of some forests one after another; the parts are emptied meanwhile."""
    sizes = {kind: [int(part[name][-1]) for part in parts] for kind, name in _OFFSETS.items()}
    for name in _NAMES:
        found = [part.pop(name) for part in parts]
        ends = name in _OFFSETS.values()
        length = sum(map(len, found)) - ends * (len(found) - 1)
        whole = np.zeros(length, dtype=_TYPES.get(name, np.int32))
        begin = before = 0
        for array, size in zip(found, sizes[_PLACES.get(name, "item")], strict=True):
            end = begin + len(array)
            whole[begin:end] = array
            if name in _PLACES:
                whole[begin:end] += before
                before += size
            begin = end - ends
        yield name, whole
