"""What the subcategories of a grammar are used for in a treebank, to be read.

Petrov & Klein (2007), section 4.4: which categories stay split, and the words and productions of
each subcategory, of generative and discriminative grammars in the same way: by expected counts over
trees, since the weights of a discriminative grammar are no probabilities; these stand beside.
Of multi-scale grammars, what of the subcategories need be told apart at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import nlargest
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .conditional import MultiScale, TerminalMap, without_backoff
from .em import ProductionCounts, TreeShard
from .forests import Terminals
from .model import LatentGrammar
from .symbols import TreebankData

LEAST_COUNT = 1e-3  # productions that are expected less often are not shown


class Uses(NamedTuple):
    """The derivations of a treebank's trees under one level of a grammar.

    level: its number. shard: the trees, with the scores of their nodes. counts: expected counts of
    productions. tags, forms: int32 (n), pairs of a tag and one of `TreebankData.forms`; their
    counts are vectors of substates, from pair_offsets on, int64 (n + 1), and so are their weights,
    emissions, float32.
    """

    level: int
    shard: TreeShard
    counts: ProductionCounts
    tags: NDArray[np.int32]
    forms: NDArray[np.int32]
    pair_offsets: NDArray[np.int64]
    emissions: NDArray[np.float32]


def uses(grammar: LatentGrammar, data: TreebankData, number: int | None = None) -> Uses:
    """How a grammar derives trees. number: of its level; None: the last.

    Raises ValueError if the trees have other symbols or rules than the grammar, as `binarize` finds
    them in the trees that it was learned from.
    """
    check_trees(grammar, data)
    number = grammar.depth if number is None else number
    grammar = without_backoff(grammar)
    level, words = grammar.levels[number], grammar.lexicon.levels[number]
    is_word = data.is_word
    tags, forms = data.pairs[data.production[is_word]].T
    in_tree = np.repeat(np.arange(data.n_trees), np.diff(data.offsets))[is_word]
    bounds = np.searchsorted(in_tree, np.arange(data.n_trees + 1)).tolist()
    texts = [data.forms[form] for form in forms.tolist()]
    ids = np.empty(len(texts), dtype=np.int32)
    for begin, end in pairwise(bounds):
        ids[begin:end] = grammar.lexicon.encode(texts[begin:end])
    found, places = np.unique(np.stack([tags, forms, ids], axis=1), axis=0, return_inverse=True)
    pairs = np.ascontiguousarray(found[:, :2])
    production = data.production.copy()
    production[is_word] = places.reshape(-1)
    shard = TreeShard(replace(data, production=production, pairs=pairs))
    terminals = Terminals(np.ascontiguousarray(found[:, 2]), np.ascontiguousarray(found[:, 0]))
    substates = level.substates[: grammar.symbols.n_tags]
    lexical = TerminalMap(grammar.lexicon, terminals, substates)
    rows = np.ascontiguousarray(words.rows).reshape(-1)
    emissions = lexical.weights(words.own, rows).astype(np.float32)
    _, counts = shard.expected_counts((level, emissions))
    return Uses(number, shard, counts, *pairs.T, lexical.offsets, emissions)


def check_trees(grammar: LatentGrammar, data: TreebankData) -> None:
    """Raises ValueError if the trees have other symbols or rules than the grammar."""
    if data.symbols != grammar.symbols or data.rules != grammar.rules:
        raise ValueError("trees of other symbols or rules than those of the grammar")


class Production(NamedTuple):
    """What a subcategory becomes: a word ("the") or subcategories ("NP-0 VP-1").

    count: how often it is expected to. weight: that of the production, a probability if the grammar
    is generative; of a word the mean over the forms of signatures that it is judged by.
    """

    text: str
    count: float
    weight: float


class Subcategory(NamedTuple):
    """A subcategory ("NN-3"), how often it is expected to be used, and its top productions."""

    name: str
    count: float
    productions: list[Production]


class SplitCategories(NamedTuple):
    """Names of tags, of phrases and of intermediate nodes ("@NP")."""

    tags: tuple[str, ...]
    phrases: tuple[str, ...]
    intermediates: tuple[str, ...]


def split_categories(grammar: LatentGrammar, number: int | None = None) -> SplitCategories:
    """Figure 3(b): what has two subcategories or more. number: of the level; None: the last."""
    symbols = grammar.symbols
    level = grammar.levels[grammar.depth if number is None else number]
    names = [
        [
            symbols.names[symbol]
            for symbol in np.flatnonzero(level.substates > 1)
            if low <= symbol < high
        ]
        for low, high in pairwise(
            (0, symbols.n_tags, symbols.n_tags + symbols.n_phrases, symbols.size)
        )
    ]
    return SplitCategories(*map(tuple, names))


def subcategories(
    grammar: LatentGrammar, data: TreebankData, found: Uses, label: str, top: int = 3
) -> Iterator[Subcategory]:
    """The subcategories of a tag, a phrase, an intermediate ("@NP") or the label of the root.

    found: `uses` of the grammar in these trees. top: so many productions of each, those expected
    most often. The root above all trees is never split and has no number.
    """
    symbols = grammar.symbols
    for symbol, name in enumerate(symbols.names):
        if name == label:
            if symbol < symbols.n_tags:
                rows = _words(data, found, symbol)
            else:
                rows = _productions(grammar, found, symbol)
            for index, productions in enumerate(rows):
                yield _ranked(f"{name}-{index}", productions, top)
    if label == symbols.root:
        yield _ranked(label, _tops(grammar, found), top)


def table(parts: Sequence[Subcategory]) -> str:
    """A line for each: its name, its share of all of them, its productions with their shares."""
    total = sum(part.count for part in parts) or 1.0
    width = max((len(part.name) for part in parts), default=0)
    lines = []
    for part in parts:
        shares = (f"{p.text} {p.count / max(part.count, 1e-300):.2f}" for p in part.productions)
        lines.append(f"{part.name:<{width}} {part.count / total:5.0%}  " + ", ".join(shares))
    return "\n".join(lines)


def _ranked(name: str, productions: list[Production], top: int) -> Subcategory:
    likeliest = nlargest(top, productions, key=lambda p: p.count)
    return Subcategory(
        name,
        sum(production.count for production in productions),
        [production for production in likeliest if production.count >= LEAST_COUNT],
    )


def _words(data: TreebankData, found: Uses, tag: int) -> list[list[Production]]:
    """Of each substate; a word that stands first in some sentences and not in others is one."""
    pairs = np.flatnonzero(found.tags == tag)
    n = int(np.diff(found.pair_offsets[pairs[0] : pairs[0] + 2])[0]) if len(pairs) else 0
    rows: list[dict[str, tuple[float, float, int]]] = [{} for _ in range(n)]
    for pair in pairs.tolist():
        text = data.forms[found.forms[pair]]
        vector = slice(*found.pair_offsets[pair : pair + 2])
        values = zip(found.counts.lexical[vector], found.emissions[vector], strict=True)
        for row, (count, weight) in zip(rows, values, strict=True):
            before = row.get(text, (0.0, 0.0, 0))
            row[text] = before[0] + float(count), before[1] + float(weight), before[2] + 1
    return [
        [Production(text, count, weight / times) for text, (count, weight, times) in row.items()]
        for row in rows
    ]


def _productions(grammar: LatentGrammar, found: Uses, parent: int) -> list[list[Production]]:
    level, rules, names = grammar.levels[found.level], grammar.rules, grammar.symbols.names
    rows: list[list[Production]] = [[] for _ in range(int(level.substates[parent]))]
    for symbols, counts, weight_of, offsets in (
        (rules.binary, found.counts.binary, level.binary_block, level.binary_offsets),
        (rules.unary, found.counts.unary, level.unary_block, level.unary_offsets),
    ):
        for rule in np.flatnonzero(symbols[:, 0] == parent).tolist():
            weights = weight_of(rule)
            block = counts[offsets[rule] : offsets[rule + 1]].reshape(weights.shape)
            for place in np.argwhere(block > 0).tolist():
                parts = zip(symbols[rule, 1:].tolist(), place[1:], strict=True)
                text = " ".join(f"{names[child]}-{index}" for child, index in parts)
                at = tuple(place)
                rows[place[0]].append(Production(text, float(block[at]), float(weights[at])))
    return rows


def _tops(grammar: LatentGrammar, found: Uses) -> list[Production]:
    level, names = grammar.levels[found.level], grammar.symbols.names
    return [
        Production(f"{names[symbol]}-{index}", float(count), float(weight))
        for rule, symbol in enumerate(grammar.rules.root.tolist())
        for index, (count, weight) in enumerate(
            zip(
                found.counts.root[slice(*level.root_offsets[rule : rule + 2])],
                level.root_block(rule),
                strict=True,
            )
        )
    ]


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
