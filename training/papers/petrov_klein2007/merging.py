"""Merging the least useful splits of a grammar, generative or discriminative: figure 3.

Petrov & Klein (2007), section 4.4, after Petrov et al. (2006), section 2.3. At a node n of an
observed tree two substates are replaced by one. It has the mean of their inside scores, weighted by
their relative frequencies p, and the sum of their outside scores. All else stays the same:

    I_m = p1 I_1 + p2 I_2,   O_m = O_1 + O_2
    loss(n) = log Z - log(Z - I_1 O_1 - I_2 O_2 + I_m O_m)

For the loss in joint likelihood, Z is the score of the derivations of the tree, all of which go
through n. The loss in conditional likelihood is that minus the same difference with the scores of
all derivations of the sentence, only some of which have the symbol over the span.
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
from spacy_structlearn.grammar.treebank.lexicon import LexiconLevel
from spacy_structlearn.grammar.treebank.symbols import TreebankData

CRITERIA = ("joint", "conditional")
FRACTIONS = tuple(tenths / 10 for tenths in range(11))
_LEAST = 1e-300

NodeScores = tuple[NDArray[np.float32], NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class MergeLosses:
    """What merging each pair of halves of a split loses, in nats.

    symbols: int32 (n); firsts: int64 (n), the first substate of each pair, the second one is next
    to it. shares: float64 (n), p of the first, its expected frequency in the trees relative to that
    of both. joint: float64 (n), loss in log P(trees, words), or of what scores are instead.
    sentences: float64 (n), loss in the log-scores of sentences; zeros if it was not asked for.
    """

    symbols: NDArray[np.int32]
    firsts: NDArray[np.int64]
    shares: NDArray[np.float64]
    joint: NDArray[np.float64]
    sentences: NDArray[np.float64]

    @property
    def conditional(self) -> NDArray[np.float64]:
        """Loss in log P(trees | words); below zero where merging is a gain."""
        return self.joint - self.sentences


def joint_merge_losses(shards: Sequence[TreeShard], level: Level) -> MergeLosses:
    """Losses in joint likelihood, of scores as of the last `expected_counts` of the shards."""
    return _losses(shards, level, None)


def conditional_merge_losses(
    shards: Sequence[GrammarShard], level: Level, weights: Weights
) -> MergeLosses:
    """Losses in conditional likelihood, approximated at each node of the trees.

    level: whose substates and ancestors those of `weights` are. A sentence of which float32 has
    lost the parses does not count.
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
    """Inside and outside scores of the trees' nodes among all parses of their sentences.

    float32, laid out as those of `shard.derivations`, whose substates are those of `weights`; their
    products are posteriors of substates, given the words. The scores of a node below a unary
    production are those of the lower node of its span, all others those of the upper one; see
    `_forest`. Of a sentence that float32 loses, NaN.
    """
    data, forests = shard.derivations.data, shard.forests
    substates, at = weights.substates, shard.derivations.node_offsets
    inside = np.full(int(at[-1]), np.nan, dtype=np.float32)
    outside = inside.copy()
    starts, ends = data.spans
    tree = np.repeat(np.arange(data.n_trees), np.diff(data.offsets))
    # As items lie in forests, those of each sentence by width, start and symbol.
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
    """Sums over nodes of log total - log(total with the pair merged), for each pair."""
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
    """The grammar with pairs of substates of one level as one.

    number: of the level. symbols, firsts, shares: as of `MergeLosses`. Weights of productions of
    what becomes one are averaged by its shares, those of productions that make it are added up;
    words are productions of tags. For probabilities and other weights alike.
    Raises ValueError if a substate is in two pairs, or in none of this level.
    """
    level = grammar.levels[number]
    places = level.offsets[symbols] + firsts
    if len(np.unique(np.concatenate([places, places + 1]))) != 2 * len(places) or (
        len(places) and ((firsts < 0) | (firsts + 1 >= level.substates[symbols])).any()
    ):
        raise ValueError("pairs of substates that are none")
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
    """What each merger of the last level would lose, over the trees that it was learned from.

    criterion: "joint", of which the cost is that of an E-step; "conditional": an evaluation of the
    conditional likelihood, and of its forests. settings: of these the thresholds, shards, threads
    and folder matter; None: the usual ones. Raises ValueError for another criterion or other trees.
    """
    if criterion == "joint":
        return joint_merge_losses([derivations(grammar, data)], grammar.levels[grammar.depth])
    _check_trees(grammar, data)
    if criterion != "conditional":
        raise ValueError(f"criterion {criterion!r} is none of {CRITERIA}")
    # The grammar's own weights are the base of parameters that are all zero.
    settings = replace(
        settings or ConditionalGrammarSettings(),
        rounds=grammar.depth,
        binarization=grammar.binarization,
        base="generative",
        first_level=grammar.depth,
    )
    whole = without_backoff(grammar)
    # In this process, since scores of all nodes are wanted.
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
    """How the last level derives trees, with the scores of their nodes.

    Raises ValueError if the trees have other symbols or rules than the grammar, as `binarize` finds
    them in the trees that it was learned from.
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
        raise ValueError("trees of other symbols or rules than those of the grammar")


@dataclass(frozen=True, eq=False)
class MergePoint:
    """A grammar of which some splits are taken back.

    fraction: of all splits; pairs: so many. score: what the grammar scores; loss: how much less
    than the grammar with all its splits.
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
    """Figure 3(a): what is lost when the least useful fraction of the last splits are taken back.

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
