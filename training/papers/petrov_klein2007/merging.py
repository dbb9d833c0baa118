"""Merge the least useful splits of a generative or discriminative grammar: figure 3.

Petrov & Klein (2007), section 4.4, after Petrov et al. (2006), section 2.3. At a node n of an
observed tree, two substates are replaced by one. Its inside score is the mean of their inside
scores, weighted by their relative frequencies p, and its outside score is the sum of theirs:

    I_m = p1 I_1 + p2 I_2,   O_m = O_1 + O_2
    loss(n) = log Z - log(Z - I_1 O_1 - I_2 O_2 + I_m O_m)

For the loss in joint likelihood, Z is the score of all derivations of the tree, which all contain
n. The loss in conditional likelihood is this loss minus the same difference for all derivations of
the sentence, of which only some have the symbol over the span.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from spacy_structlearn.grammar.discriminative.forests import Terminals, Weights
from spacy_structlearn.grammar.discriminative.objective import (
    GrammarShard,
    TerminalMap,
    without_backoff,
)
from spacy_structlearn.grammar.discriminative.settings import ConditionalGrammarSettings
from spacy_structlearn.grammar.discriminative.training import Objectives
from spacy_structlearn.grammar.latent.em import TreeShard
from spacy_structlearn.grammar.latent.model import LatentGrammar, Level
from spacy_structlearn.grammar.latent.split_merge import Merging, least_useful
from spacy_structlearn.grammar.treebank.data import TreebankData
from spacy_structlearn.grammar.treebank.lexicon import LexiconLevel

CRITERIA = ("joint", "conditional")
FRACTIONS = tuple(tenths / 10 for tenths in range(11))
_LEAST = 1e-300

NodeScores = tuple[NDArray[np.float32], NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class MergeLosses:
    """The losses of merging each pair of substates of a split, in nats.

    symbols: int32 (n). firsts: int64 (n), the first substate of each pair; the second one follows.
    shares: float64 (n), p of the first, its share of the expected frequency of both. joint: float64
    (n), loss in the log score of trees, such as log P(trees, words). sentences: float64 (n), loss
    in the log score of sentences; zeros for the joint criterion.
    """

    symbols: NDArray[np.int32]
    firsts: NDArray[np.int64]
    shares: NDArray[np.float64]
    joint: NDArray[np.float64]
    sentences: NDArray[np.float64]

    @property
    def conditional(self) -> NDArray[np.float64]:
        """Return losses in log P(trees | words). A negative loss is a gain."""
        return self.joint - self.sentences


def joint_merge_losses(shards: Sequence[TreeShard], level: Level) -> MergeLosses:
    """Return losses in joint likelihood by the scores of the last `expected_counts` of shards."""
    return _losses(shards, level, None)


def conditional_merge_losses(
    shards: Sequence[GrammarShard], level: Level, weights: Weights
) -> MergeLosses:
    """Return losses in conditional likelihood, approximated at each node of the trees.

    level: with the substates and ancestors of `weights`. Sentences whose parses underflow in
    float32 are skipped.
    """
    weighted = Level(
        level.rules,
        level.substates,
        level.ancestors,
        weights.binary,
        weights.unary,
        weights.root,
    )
    trees = [shard.derivations for shard in shards]
    for shard in trees:
        shard.expected_counts((weighted, weights.terminal))
    return _losses(trees, level, [scores_in_forests(shard, weights) for shard in shards])


def scores_in_forests(shard: GrammarShard, weights: Weights) -> NodeScores:
    """Return inside and outside scores of the nodes of trees over all parses of their sentences.

    float32, with the layout of `shard.derivations`, which has the substates of `weights`. Products
    are posteriors of substates given the words. A node below a unary production has the scores of
    the lower node of its span, other nodes those of the upper one; see `_forest`. NaN if the
    sentence underflows in float32.
    """
    data, forests = shard.derivations.data, shard.forests
    substates, at = weights.substates, shard.derivations.node_offsets
    inside = np.full(int(at[-1]), np.nan, dtype=np.float32)
    outside = inside.copy()
    starts, ends = data.spans
    tree = np.repeat(np.arange(data.n_trees), np.diff(data.offsets))
    # In the order of the items of forests: per sentence by width, start and symbol.
    order = np.lexsort((data.symbol, starts, ends - starts, tree))
    is_upper = np.ones(data.n_nodes, dtype=np.bool_)
    is_upper[data.left[data.is_unary]] = False
    is_upper[data.is_word] = True
    for number, sentence in enumerate(shard.sentences.tolist()):
        found = forests.scores(sentence, weights)
        if found is None:
            continue
        nodes = order[data.offsets[number] : data.offsets[number + 1]]
        sizes = substates[data.symbol[nodes]].astype(np.int64)
        ends = np.cumsum(sizes)
        local = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
        _, offsets, lower_in, upper_in, lower_out, upper_out, *_ = found
        begin = offsets[forests.gold_items(sentence)]
        source = np.repeat(begin, sizes) + local
        target = np.repeat(at[nodes], sizes) + local
        upper = np.repeat(is_upper[nodes], sizes)
        inside[target] = np.where(upper, upper_in[source], lower_in[source])
        outside[target] = np.where(upper, upper_out[source], lower_out[source])
    return inside, outside


def _losses(
    shards: Sequence[TreeShard], level: Level, sentences: Sequence[NodeScores] | None
) -> MergeLosses:
    parts: list[tuple[NDArray, ...]] = []
    for symbol in range(len(level.substates)):
        begin, end = level.offsets[symbol : symbol + 2]
        old = level.ancestors[begin:end]
        pairs = np.flatnonzero(old[1:] == old[:-1])
        if not len(pairs):
            continue
        scores = [shard.scores_of(symbol) for shard in shards]
        used = sum((i.astype(np.float64) * o).sum(axis=0) for i, o in scores)
        both = used[pairs] + used[pairs + 1]
        p = np.divide(used[pairs], both, out=np.full(len(pairs), 0.5), where=both > 0)
        joint, full = np.zeros(len(pairs)), np.zeros(len(pairs))
        for number, (shard, (inside, outside)) in enumerate(zip(shards, scores, strict=True)):
            total = (inside.astype(np.float64) * outside).sum(axis=1)
            kept = total > 0
            if sentences is not None:
                places = shard.places_of(symbol)
                i_full, o_full = (values[places] for values in sentences[number])
                kept &= np.isfinite(i_full).all(axis=1) & np.isfinite(o_full).all(axis=1)
                full += _node_losses(i_full[kept], o_full[kept], pairs, p, 1.0)
            joint += _node_losses(inside[kept], outside[kept], pairs, p, total[kept, None])
        parts.append((np.full(len(pairs), symbol), pairs, p, joint, full))
    if not parts:
        parts = [(np.empty(0),) * 5]
    symbols, firsts, shares, joint, full = map(np.concatenate, zip(*parts, strict=True))
    return MergeLosses(symbols.astype(np.int32), firsts.astype(np.int64), shares, joint, full)


def _node_losses(
    inside: NDArray[np.float32],
    outside: NDArray[np.float32],
    pairs: NDArray[np.int64],
    p: NDArray[np.float64],
    total: NDArray[np.float64] | float,
) -> NDArray[np.float64]:
    """Sum log total - log(total with the pair merged) over nodes, for each pair."""
    i, o = inside.astype(np.float64), outside.astype(np.float64)
    i1, i2, o1, o2 = i[:, pairs], i[:, pairs + 1], o[:, pairs], o[:, pairs + 1]
    # I_m O_m - I_1 O_1 - I_2 O_2, without the difference of large numbers.
    change = (i2 - i1) * ((1 - p) * o1 - p * o2)
    return -np.log(np.maximum(1 + change / total, _LEAST)).sum(axis=0)


def merged(
    grammar: LatentGrammar,
    number: int,
    symbols: NDArray[np.int32],
    firsts: NDArray[np.int64],
    shares: NDArray[np.float64],
) -> LatentGrammar:
    """Merge pairs of substates of one level of a grammar.

    number: of the level. symbols, firsts, shares: see `MergeLosses`. Weights of productions with
    the merged substate on the left are averaged by shares, and on the right added up. Words are
    productions of tags. Weights need not be probabilities.
    Raises ValueError if a substate is in two pairs, or not on this level.
    """
    level = grammar.levels[number]
    places = level.offsets[symbols] + firsts
    if len(np.unique(np.concatenate([places, places + 1]))) != 2 * len(places) or (
        len(places) and ((firsts < 0) | (firsts + 1 >= level.substates[symbols])).any()
    ):
        raise ValueError("invalid pairs of substates")
    merging = Merging.of_pairs(level, symbols, firsts)
    factors = np.ones(level.size, dtype=np.float32)
    factors[places] = shares
    factors[places + 1] = 1.0 - shares
    rules = grammar.rules
    levels, words = list(grammar.levels), list(grammar.lexicon.levels)
    levels[number] = Level(
        rules,
        merging.substates,
        merging.ancestors,
        merging.add_up(level.binary, rules.binary, level.binary_offsets, factors),
        merging.add_up(level.unary, rules.unary, level.unary_offsets, factors),
        merging.add_up(level.root, rules.root[:, None], level.root_offsets),
    )
    if number < grammar.depth:
        finer = levels[number + 1]
        begin = np.repeat(level.offsets[:-1], finer.substates)
        ancestors = merging.target[begin + finer.ancestors]
        levels[number + 1] = Level(
            rules, finer.substates, ancestors, finer.entries, finer.unary, finer.root
        )
    words[number] = _merged_words(grammar, words[number], merging, factors)
    n_tags = grammar.symbols.n_tags
    lexicon = grammar.lexicon.with_levels([each.substates[:n_tags] for each in levels], words)
    return grammar.replaced(levels=levels, lexicon=lexicon)


def _merged_words(
    grammar: LatentGrammar, words: LexiconLevel, merging: Merging, factors: NDArray[np.float32]
) -> LexiconLevel:
    lexicon, level = grammar.lexicon, merging.level
    tags = lexicon.pair_tags[lexicon.pair_weights == 0][:, None]
    sizes = level.substates[tags[:, 0]].astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    width = words.rows.shape[1]
    rows = words.rows * factors[:width]
    if width:
        rows = np.add.reduceat(rows, merging.kept[merging.kept < width], axis=1)
    return LexiconLevel(merging.add_up(words.own, tags, offsets, factors), rows)


def merge_losses(
    grammar: LatentGrammar,
    data: TreebankData,
    criterion: str = "conditional",
    settings: ConditionalGrammarSettings | None = None,
) -> MergeLosses:
    """Return the losses of merging substates of the last level, over its training trees.

    criterion: "joint", as expensive as an E-step, or "conditional", as an evaluation of the
    conditional likelihood with its forests. settings: for thresholds, shards, threads and folder;
    None: the defaults. Raises ValueError for another criterion or other trees.
    """
    if criterion == "joint":
        return joint_merge_losses([derivations(grammar, data)], grammar.levels[grammar.depth])
    _check_trees(grammar, data)
    if criterion != "conditional":
        raise ValueError(f"criterion {criterion!r} is not one of {CRITERIA}")
    # The grammar's own weights are the base, and all parameters are zero.
    settings = replace(
        settings or ConditionalGrammarSettings(),
        rounds=grammar.depth,
        binarization=grammar.binarization,
        base="generative",
        first_level=grammar.depth,
    )
    whole = without_backoff(grammar)
    # In this process, because the scores of all nodes are needed.
    objectives = Objectives(settings, data, whole, grammar.depth)
    try:
        objective = objectives.objective(grammar.depth, {})
        zeros = np.zeros(objective.parameterization.n_parameters)
        return conditional_merge_losses(
            objectives.engine.shards, whole.levels[grammar.depth], objective.weights_at(zeros)
        )
    finally:
        objectives.close()


def derivations(grammar: LatentGrammar, data: TreebankData) -> TreeShard:
    """Return the derivations of trees by the last level, with the scores of their nodes.

    Raises ValueError if the trees differ from the training trees in symbols or rules.
    """
    _check_trees(grammar, data)
    grammar = without_backoff(grammar)
    level, words = grammar.levels[grammar.depth], grammar.lexicon.levels[grammar.depth]
    is_word = data.is_word
    tags, forms = data.pairs[data.production[is_word]].T
    in_tree = np.repeat(np.arange(data.n_trees), np.diff(data.offsets))[is_word]
    bounds = np.searchsorted(in_tree, np.arange(data.n_trees + 1)).tolist()
    texts = [data.forms[form] for form in forms.tolist()]
    ids = np.empty(len(texts), dtype=np.int32)
    for begin, end in pairwise(bounds):
        ids[begin:end] = grammar.lexicon.encode(texts[begin:end])
    found, places = np.unique(np.stack([tags, ids], axis=1), axis=0, return_inverse=True)
    production = data.production.copy()
    production[is_word] = places.reshape(-1)
    shard = TreeShard(replace(data, production=production, pairs=np.ascontiguousarray(found)))
    terminals = Terminals(*(np.ascontiguousarray(found[:, column]) for column in (1, 0)))
    lexical = TerminalMap(grammar.lexicon, terminals, level.substates[: grammar.symbols.n_tags])
    rows = np.ascontiguousarray(words.rows).reshape(-1)
    shard.expected_counts((level, lexical.weights(words.own, rows).astype(np.float32)))
    return shard


def _check_trees(grammar: LatentGrammar, data: TreebankData) -> None:
    if data.symbols != grammar.symbols or data.rules != grammar.rules:
        raise ValueError("the trees have other symbols or rules than the grammar")


@dataclass(frozen=True, eq=False)
class MergePoint:
    """A grammar after merging some splits.

    fraction: of all splits. pairs: number of merged pairs. score: of the grammar. loss: of the
    score, compared with the unmerged grammar.
    """

    fraction: float
    pairs: int
    score: float
    loss: float
    grammar: LatentGrammar


def merge_curve(
    grammar: LatentGrammar,
    data: TreebankData,
    score: Callable[[LatentGrammar], float],
    criterion: str = "conditional",
    fractions: Sequence[float] = FRACTIONS,
    settings: ConditionalGrammarSettings | None = None,
) -> Iterator[MergePoint]:
    """Return figure 3(a): the loss by merging the least useful fractions of the last splits.

    score: of a grammar, such as F1 on other trees. criterion, settings: see `merge_losses`.
    """
    losses = merge_losses(grammar, data, criterion, settings)
    best = score(grammar)
    for fraction in fractions:
        chosen = least_useful(getattr(losses, criterion), fraction)
        smaller, found = grammar, best
        if len(chosen):
            smaller = merged(
                grammar,
                grammar.depth,
                losses.symbols[chosen],
                losses.firsts[chosen],
                losses.shares[chosen],
            )
            found = score(smaller)
        yield MergePoint(fraction, len(chosen), found, best - found, smaller)
