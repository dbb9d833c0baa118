"""Packed parse forests of the training sentences, pruned once and cached between iterations.

Petrov & Klein (2007), section 3.2. The chart of the coarsest grammar is filled exhaustively. Items
with a low posterior are pruned with all their refinements, and the remaining ones are refined and
pruned again with each finer grammar. Training evaluates what is left in every iteration. The gold
tree is never pruned. An item is a symbol over a span; the bits of its mask are its substates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..chart import _chart
from ..latent.em import ProductionCounts
from ..latent.model import Level
from ..treebank.data import TreebankData
from ..treebank.lexicon import Lexicon
from . import _forest

EDGE_FACTOR = 0.1  # times the threshold, the posterior below which productions are pruned
CHUNK = 512  # number of sentences whose counts are added up in float32


class Weights(NamedTuple):
    """Weights of all productions: a level with weights for probabilities, and those of terminals.

    terminal: float32, one vector of substates for each of some terminals; vector t starts at
        terminal_offsets[t].
    """

    level: Level
    terminal: NDArray[np.float32]
    terminal_offsets: NDArray[np.int64]

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All weights, and the offsets of their blocks, as `_forest.expected_counts` takes them."""
        g = self.level
        rules = (g.binary, g.binary_offsets, g.unary, g.unary_offsets, g.root, g.root_offsets)
        return g.substates, *rules, *self[1:]


@dataclass(frozen=True)
class ForestStatistics:
    """Size of the forests of some sentences.

    constituents: number of pairs of a span and a refined symbol (Petrov & Klein 2007, figure 2).
    """

    sentences: int
    constituents: int

    def __add__(self, other: ForestStatistics) -> ForestStatistics:
        return ForestStatistics(*map(sum, zip(astuple(self), astuple(other), strict=True)))


def gold_grid(data: TreebankData, tree: int) -> NDArray[np.int32]:
    """The nodes of one tree as `_chart.Chart.coarse_forest` takes them.

    Returns int32 (n, n + 1, 3), for each span its topmost symbol, its lowest phrase, and the split
    point of its children or, over one word, the tag. -1: nothing there.
    """
    nodes = np.arange(*data.offsets[tree : tree + 2])
    starts, ends = data.spans
    n = int(ends[nodes[-1]])
    grid = np.full((n, n + 1, 3), -1, dtype=np.int32)

    def put(nodes: NDArray[np.int64], layer: int, values: NDArray[np.integer]) -> None:
        # The last of several nodes over one span stays.
        grid[starts[nodes], ends[nodes], layer] = values[nodes]

    put(nodes, 0, data.symbol)
    put(nodes[data.is_unary[nodes]][::-1], 1, data.symbol)
    binary = nodes[data.is_binary[nodes]]
    put(binary, 1, data.symbol)
    put(binary, 2, starts[data.right])
    put(nodes[data.is_word[nodes]], 2, data.symbol)
    return grid


_TYPES: dict[str, type[np.generic]] = dict.fromkeys(_forest.ARRAYS[-4:], np.uint8)
_TYPES["item_mask"] = np.uint64
# The kind of element that the entries of an array are indexes of.
_PLACES = _forest.PARTS | dict.fromkeys(
    ("group_parent", "edge_left", "edge_right", "unary_parent", "unary_child", "root_item"), "item"
)
_N_BITS = np.array([byte.bit_count() for byte in range(256)], dtype=np.uint8)


def _ends(marks: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return the number of marks before each place, int32 (n + 1)."""
    ends = np.zeros(len(marks) + 1, dtype=np.int32)
    np.cumsum(marks, dtype=np.int32, out=ends[1:])
    return ends


class Forests:
    """The forests of some sentences.

    `coarse_forests` makes them, `refine` refines them to the substates of a level, and `prune`
    prunes them.

    data: the treebank.
    trees: int64, the numbers of the sentences. Trees that the grammar cannot derive are left out.
    arrays: names and arrays, see `_forest.ForestArrays`; the forests take them over.
    keys: int64, the keys of the terminals, which item_terminal indexes; see `number_terminals`.
    """

    def __init__(
        self,
        data: TreebankData,
        trees: NDArray[np.int64],
        arrays: Iterable[tuple[str, NDArray[Any]]],
        keys: NDArray[np.int64],
    ):
        self.data = data
        self.trees = trees
        self._keys = keys
        self._left_out = np.zeros(len(trees), dtype=np.uint8)
        self._workspace = _forest.Scratch()
        self._arrays = dict(arrays)
        self._open()

    def release(self) -> dict[str, NDArray[Any]]:
        """Hand over the arrays; the forests cannot be used any more."""
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
        """Number of sentences."""
        return len(self.trees)

    def count_only(self, sentences: NDArray[np.int64]) -> None:
        """Skip all other sentences in `expected_counts`; their log Z is -inf."""
        self._left_out = np.ones(self.n_sentences, dtype=np.uint8)
        self._left_out[sentences] = 0

    @property
    def statistics(self) -> ForestStatistics:
        """The size of the forests."""
        bits = _N_BITS[np.asarray(self._arrays["item_mask"]).view(np.uint8)]
        return ForestStatistics(self.n_sentences, int(bits.sum(dtype=np.int64)))

    @property
    def terminal_keys(self) -> NDArray[np.int64]:
        """word * n_tags + tag of every terminal that occurs: int64, ascending."""
        places = self._arrays["item_terminal"]
        return self._keys[np.unique(places[places >= 0])]

    def number_terminals(self, keys: NDArray[np.int64]) -> None:
        """Renumber the terminals as indexes of ascending `keys`, which may be more than needed."""
        places = self._arrays["item_terminal"]
        is_tag = places >= 0
        places[is_tag] = np.searchsorted(keys, self._keys)[places[is_tag]]
        self._keys = keys
        self._open()

    def gold_terminals(self) -> NDArray[np.int32]:
        """The terminals of the gold tags, word after word and tree after tree."""
        terminals = self._arrays["item_terminal"]
        return np.asarray(terminals[(self._arrays["gold_item"] > 0) & (terminals >= 0)])

    def refine(self, level: Level) -> None:
        """Refine the masks by the `ancestors` of a level; gold items keep all substates."""
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

    def prune(self, weights: Weights, threshold: float) -> None:
        """Prune items with a lower posterior, and productions by this times `EDGE_FACTOR`."""
        arrays = self._arrays
        edges, unaries, roots = _forest.prune(
            self._forests, self._workspace, weights.arrays, threshold, threshold * EDGE_FACTOR
        )
        kept = {"edge": edges, "unary": unaries, "root": roots, "item": arrays["item_mask"] != 0}
        self._forests = None  # frees each old array as soon as it is replaced
        ends = {kind: _ends(marks) for kind, marks in kept.items()}
        kept["sentence"] = np.ones(self.n_sentences, dtype=bool)
        # Groups without edges and cells without items go, too.
        for kind, parts, inner in (("group", "group_edge", "edge"), ("cell", "cell_item", "item")):
            kept[kind] = np.diff(ends[inner][arrays[parts]]) > 0
            ends[kind] = _ends(kept[kind])
        for name in _forest.ARRAYS:
            left = kept[_forest.KINDS[name]]
            if name in _forest.PARTS:
                left = np.append(left, True)
            array = arrays[name][left]
            arrays[name] = ends[_PLACES[name]][array] if name in _PLACES else array
        self._open()

    def expected_counts(self, weights: Weights) -> tuple[NDArray[np.float64], ProductionCounts]:
        """log Z of each sentence and the sums of expected counts (equations 2 and 3 of the paper).

        log Z is -inf for a sentence that is lost to float32 underflow. Counts are added up in
        float32 over `CHUNK` sentences, and these sums in float64.
        """
        arrays = weights.arrays[1::2]
        totals = ProductionCounts(*(np.zeros(len(array)) for array in arrays))
        sums = tuple(np.zeros(len(array), dtype=np.float32) for array in arrays)
        log_z = np.full(self.n_sentences, -np.inf)
        for begin in range(0, self.n_sentences, CHUNK):
            self.add_counts(weights, begin, min(begin + CHUNK, self.n_sentences), sums, log_z)
            for total, part in zip(totals, sums, strict=True):
                total += part
                part[:] = 0
        return log_z, totals

    def add_counts(
        self,
        weights: Weights,
        begin: int,
        end: int,
        sums: tuple[NDArray[np.float32], ...],
        log_z: NDArray[np.float64],
    ) -> None:
        """Add the counts of sentences `begin` to `end` to `sums`, and set their log Z."""
        _forest.expected_counts(
            self._forests, self._workspace, begin, end, weights.arrays, self._left_out, sums, log_z
        )


def coarse_forests(
    data: TreebankData,
    grammar: _chart.Grammar,
    lexicon: Lexicon,
    trees: Sequence[int],
    threshold: float,
    chart: _chart.Chart | None = None,
) -> Forests:
    """Make the forests of some sentences with the grammar of level 0.

    trees: the numbers of the sentences.
    threshold: see `Forests.prune`.
    chart: a workspace to use again.

    Returns forests that number their own terminals, see `Forests.number_terminals`.
    """
    parts: list[dict[str, NDArray[Any]]] = []
    numbers: list[int] = []
    keys = [np.empty(0, np.int64)]
    chart = _chart.Chart() if chart is None else chart
    for tree in trees:
        ids = lexicon.encode(data.sentences[tree])
        scores = np.ascontiguousarray(lexicon.scores(0, ids), dtype=np.float32)
        grid = gold_grid(data, tree)
        forest = chart.coarse_forest(grammar, scores, grid, threshold, threshold * EDGE_FACTOR)
        made = None if forest is None else _arrays_of(data, tree, ids, grid, forest[2])
        if made is not None:
            parts.append(made[0])
            keys.append(made[1])
            numbers.append(tree)
    distinct, places = np.unique(np.concatenate(keys), return_inverse=True)
    begin = 0
    for arrays in parts:
        is_tag = arrays["item_terminal"] >= 0
        end = begin + int(is_tag.sum())
        arrays["item_terminal"][is_tag] = places[begin:end]
        begin = end
    return Forests(data, np.array(numbers, np.int64), _concatenated(parts), distinct)


def joined(data: TreebankData, parts: Sequence[Forests]) -> Forests:
    """Join forests of one level; the parts are used up."""
    trees = np.concatenate([np.empty(0, np.int64), *(part.trees for part in parts)])
    keys = [part.terminal_keys for part in parts]
    all_keys = np.unique(np.concatenate([np.empty(0, np.int64), *keys]))
    for part in parts:
        part.number_terminals(all_keys)
    arrays = _concatenated([part.release() for part in parts])
    return Forests(data, trees, arrays, all_keys)


def _arrays_of(
    data: TreebankData,
    tree: int,
    ids: NDArray[np.int32],
    grid: NDArray[np.int32],
    forest: dict[str, NDArray[np.int32]],
) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]] | None:
    """The arrays of a forest and the keys of its tags; None if it does not have the gold tree."""
    n_tags, symbols = data.symbols.n_tags, forest["item_symbol"]
    n_items = np.diff(forest["cell_item"])
    i, j = np.repeat(forest["cell_i"], n_items), np.repeat(forest["cell_j"], n_items)
    gold = grid[i, j]
    is_tag = symbols < n_tags
    gold_item = np.where(is_tag, gold[:, 2] == symbols, (gold[:, :2] == symbols[:, None]).any(1))
    gold_item &= ~is_tag | (j == i + 1)
    # A production belongs to the tree if its parent is the lower node of its span, its children are
    # the upper nodes of theirs, and the split points agree.
    parent = np.repeat(forest["group_parent"], np.diff(forest["group_edge"]))
    left, right = forest["edge_left"], forest["edge_right"]
    top = gold_item & (gold[:, 0] == symbols)
    lower = gold_item & (gold[:, 1] == symbols)
    gold_edge = lower[parent] & top[left] & top[right] & (j[left] == gold[parent, 2])
    above, below = forest["unary_parent"], forest["unary_child"]
    gold_unary = gold_item[above] & gold_item[below]
    # A word has at most a tag, a lower phrase and an upper phrase over it.
    gold_unary &= np.where(is_tag[below], lower[above], lower[below] & top[above])
    gold_root = top[forest["root_item"]]
    n_gold = [int(marks.sum()) for marks in (gold_item & is_tag, gold_edge, gold_unary, gold_root)]
    mine = slice(data.offsets[tree], data.offsets[tree + 1])
    kinds = (data.is_word, data.is_binary, data.is_unary)
    if n_gold != [*(int(kind[mine].sum()) for kind in kinds), 1]:
        return None
    keys = ids[i[is_tag]].astype(np.int64) * n_tags + symbols[is_tag]
    arrays = {
        **forest,
        "sentence_cell": np.array([0, len(n_items)]),
        "item_terminal": np.where(is_tag, 0, -1),
        "item_mask": np.ones(len(symbols)),
        "sentence_root": np.array([0, len(gold_root)]),
        "gold_item": gold_item,
        "gold_edge": gold_edge,
        "gold_unary": gold_unary,
        "gold_root": gold_root,
    }
    return {name: arrays[name].astype(_TYPES.get(name, np.int32)) for name in _forest.ARRAYS}, keys


def _concatenated(parts: Sequence[dict[str, NDArray[Any]]]) -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays of some forests one after another; the parts are emptied on the way."""
    sizes = {kind: [int(part[name][-1]) for part in parts] for name, kind in _forest.PARTS.items()}
    for name in _forest.ARRAYS:
        arrays = [part.pop(name) for part in parts]
        is_offsets = name in _forest.PARTS
        length = sum(map(len, arrays)) - is_offsets * (len(arrays) - 1)
        whole = np.zeros(length, dtype=_TYPES.get(name, np.int32))
        begin = before = 0
        for array, size in zip(arrays, sizes[_PLACES.get(name, "item")], strict=True):
            end = begin + len(array)
            whole[begin:end] = array
            if name in _PLACES:
                whole[begin:end] += before
                before += size
            begin = end - is_offsets
        yield name, whole
