"""Learning on: a trained latent grammar, in which its old counts are prior counts, and new trees.

MAP adaptation of a PCFG (Bacchiani, Riley, Roark & Sproat 2006). With u, the expected uses
of a substate A_x in a tree of the old grammar, c, expected counts in the new trees, and `strength`
s, the number of trees for which the old grammar stands,

    P'(r | A_x) = (s u(A_x) P(r | A_x) + c(r)) / (s u(A_x) + c(A_x))

in each level by itself, members of a product included. Words are learned in the same way. The
substates of a level and their ancestors stay; a new symbol has one substate. In the E-steps,
productions of the new trees have a small share of their parent besides, since they may be new.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...arrays import cumulative
from ...learning.training import array_digest
from ..treebank.adaptation import LexiconAdapter
from ..treebank.data import TreebankData
from ..treebank.lexicon import LexiconLevel
from ..treebank.settings import Trees
from ..treebank.storage import Entries
from ..treebank.symbols import Rules, renumbering, substate_columns, united_rules
from .em import Refined, TreebankDerivations, observed_counts
from .model import LatentGrammar, Level
from .settings import LatentGrammarSettings
from .stages import TreebankTrainer, encode

ITERATIONS = 3
UNIFORM = 1e-6  # share of the productions of the new trees in the E-steps
MIN_USE = 1e-9  # uses in a tree of a substate that is new or never used
MIN_COUNT = 1e-6  # smaller counts are set to zero
LEAST = 1e-6  # smaller probabilities of rules are set to zero, unless float32 is stored
NO_TAGS = np.empty(0, dtype=np.int32)
_DEEPEST = 1000  # depth of the deepest derivations for which uses are counted

Vector = NDArray[np.float64]


class AdaptationTrainer(TreebankTrainer[LatentGrammarSettings]):
    """Learns on, see `Estimator.adapter`. A step is one iteration of EM in all levels.

    strength: the number of trees for which the old grammar stands. labels: not used.

    value: the negative log-likelihood of the new trees before the last step, the sum over all
        levels, in nats.
    """

    def __init__(
        self,
        settings: LatentGrammarSettings,
        parameters: LatentGrammar,
        data: Trees,
        labels: Sequence[str] = (),
        *,
        strength: float,
    ):
        self._origin, self._strength = parameters, strength
        binarization, root = parameters.binarization, parameters.symbols.root
        super().__init__(replace(settings, binarization=binarization, root=root), data)

    @cached_property
    def _data(self) -> TreebankData:
        return encode(self.settings, self._trees, self._origin.symbols)

    def begin(self) -> None:
        """Add the symbols and rules of the trees to the grammar."""
        data = self._data
        self._old, numbers = widened(self._origin, data)
        lexicon = self._old.lexicon
        ids = np.zeros(len(data.forms), dtype=np.int32)
        forms = data.pairs[data.production[data.is_word], 1]
        ids[forms] = np.concatenate([lexicon.encode(words) for words in data.sentences])
        self._levels = [
            LevelAdapter(level, lexicon.scores(k, ids), data, numbers, self._strength)
            for k, level in enumerate(self._old.levels)
        ]

    def iterate(self) -> bool:
        """Run one iteration of EM in each level. Returns False after the last one."""
        derivations = TreebankDerivations(self._data, self.settings.threads)
        self.value = 0.0
        try:
            for level in self._levels:
                log_likelihood, counts = derivations.expected_counts(level.refined())
                level.set_counts(np.concatenate(counts))
                self.value -= log_likelihood
        finally:
            derivations.close()
        self.n_iterations += 1
        return self.n_iterations < ITERATIONS

    def parameters(self) -> LatentGrammar:
        """The grammar with the old and the new counts."""
        levels, *words = zip(*(level.learned() for level in self._levels), strict=True)
        # P(U | T_x) = P(T_x | U) / c(T_x), which shows the number of the old trees.
        rows = self._old.lexicon.levels[0].rows
        share = float(rows[-1] @ self._levels[0].weight[: rows.shape[1]])
        adapter = LexiconAdapter(self.settings, self._old.lexicon, self._data, share)
        lexicon = adapter.lexicon(list(zip(*words, strict=True)))
        learned = self._old.replaced(levels=levels, lexicon=lexicon)
        storage = learned.storage
        return learned if storage == "float32" else learned.compact(LEAST, storage)

    def data_digest(self) -> bytes:
        """A hash of the trees, the old grammar and its strength."""
        return array_digest(super().data_digest(), self._origin.to_bytes(), self._strength)

    def state(self) -> dict[str, Any]:
        """The expected counts of each level."""
        return {"counts": [list(level.counts) for level in self._levels]}

    def restore(self, state: dict[str, Any]) -> None:
        self._levels = list(map(copy, self._levels))
        for level, (places, values) in zip(self._levels, state["counts"], strict=True):
            level.set_counts(Entries(places, values).dense(int(level.layout.starts[-1])))


def widened(grammar: LatentGrammar, data: TreebankData) -> tuple[LatentGrammar, NDArray[np.int64]]:
    """The grammar with the further symbols, of one substate each, and the rules of trees.

    New rules have probability zero. data: over all symbols of the grammar and of the trees.

    Returns the grammar, and the numbers of the rules of the trees in it, see `united_rules`.
    """
    symbols, to = data.symbols, renumbering(grammar.symbols, data.symbols)
    before = grammar.rules.renumbered(to)
    rules, of_old, of_data = united_rules(before, data.rules, symbols.size)
    levels, words = [], []
    for level, level_words in zip(grammar.levels, grammar.lexicon.levels, strict=True):
        substates = np.ones(symbols.size, dtype=np.int32)
        substates[to] = level.substates
        columns = substate_columns(to, substates)[1]
        ancestors = np.zeros(int(substates.sum()), dtype=np.int32)
        ancestors[columns] = level.ancestors
        layout = RuleLayout(rules, substates)
        starts = RuleLayout(level.rules, level.substates).starts
        entries = _moved(_flat(level), starts, layout.starts[of_old])
        levels.append(layout.level(ancestors, entries))
        width = int(substates[: symbols.n_tags].sum())
        rows = np.zeros((len(level_words.rows), width), dtype=np.float32)
        rows[:, columns[: level_words.rows.shape[1]]] = level_words.rows
        words.append(LexiconLevel(level_words.own, rows))
    known = set(map(tuple, before.unary.tolist()))
    chains = {pair: between for pair, between in data.chains.items() if pair not in known}
    for pair, between in grammar.chains.items():
        top, bottom, *others = to[[*pair, *between]].tolist()
        chains[top, bottom] = tuple(others)
    lexicon = replace(
        grammar.lexicon,
        pair_tags=to[grammar.lexicon.pair_tags],
        tag_substates=[level.substates[: symbols.n_tags] for level in levels],
        levels=words,
    )
    wide = grammar.replaced(
        symbols=symbols, rules=rules, levels=levels, lexicon=lexicon, chains=chains
    )
    return wide, of_data


class LevelAdapter:
    """One level that learns on: its old counts and those in the new trees.

    old: the level, with all rules. numbers: of the rules of the trees in it.
    words: P(w | T_x) of each of data.forms, float32 (n_forms, n_substates of tags).
    data: the new trees. strength: see `AdaptationTrainer`.

    weight: the prior counts of each substate and, last, of ROOT, float64 (old.size + 1).
    layout: of the rules and pairs of the trees.
    counts: of these, with their places in it.
    """

    def __init__(
        self,
        old: Level,
        words: NDArray[np.float32],
        data: TreebankData,
        numbers: NDArray[np.int64],
        strength: float,
    ):
        self._ancestors, self._entries = old.ancestors, _flat(old)
        self._all = every = RuleLayout(old.rules, old.substates)
        self.layout = layout = RuleLayout(data.rules, old.substates, data.pairs[:, 0])
        self._to_own = np.full(len(every.starts) - 1, -1)
        self._to_own[numbers] = layout.starts[: len(numbers)]
        self._to_all = np.full(len(layout.starts) - 1, -1)
        self._to_all[: len(numbers)] = every.starts[numbers]
        self._n_tag_substates = words.shape[1]
        self.weight = strength * np.maximum(np.append(uses(old), 1.0), MIN_USE)
        self.counts = Entries.of(np.zeros(0, dtype=np.float32))
        # The old probabilities of the productions in the trees, and their share in the E-steps.
        known = _moved(self._entries, every.starts, self._to_own)
        first, end = layout.ends[2:].tolist()
        forms = np.repeat(data.pairs[:, 1], old.substates[data.pairs[:, 0]])
        lexical = Entries.of(words[forms, layout.parents(np.arange(first, end))])
        self._known = Entries(
            np.append(known.places, first + lexical.places), np.append(known.values, lexical.values)
        )
        seen = np.concatenate(observed_counts(data))
        seen = seen / np.append(data.occurrences, data.n_trees)[layout.rule_parents]
        share = UNIFORM * seen / layout.widths
        self._share = np.repeat(share.astype(np.float32), np.diff(layout.starts))

    def refined(self) -> Refined:
        """The present probabilities of the rules and words of the trees, for an E-step."""
        totals, values, known = self._totals(), self._share.copy(), self._known
        factor = self.weight / totals
        values[known.places] += known.values * factor[self.layout.parents(known.places)]
        places, counts = self.counts
        values[places] += counts / totals[self.layout.parents(places)]
        *blocks, emissions = np.split(values, self.layout.ends[:-1])
        return Level(self.layout.rules, self.layout.substates, self._ancestors, *blocks), emissions

    def set_counts(self, counts: NDArray[np.float32]) -> None:
        """Set the counts, a vector in the layout."""
        self.counts = Entries.of(np.where(counts > MIN_COUNT, counts, np.float32(0)))

    def learned(self) -> tuple[Level, Vector, Vector]:
        """The level with the old and the new counts, and for its words a `treebank.Learned`."""
        totals, old, every = self._totals(), self._entries, self._all
        factor = self.weight / totals
        added: NDArray[Any] = self.counts.values / totals[self.layout.parents(self.counts.places)]
        new = _moved(Entries(self.counts.places, added), self.layout.starts, self._to_all)
        places = np.union1d(old.places, new.places)
        values = np.zeros(len(places))
        values[np.searchsorted(places, old.places)] = old.values * factor[every.parents(old.places)]
        values[np.searchsorted(places, new.places)] += new.values
        first, end = self.layout.ends[2:].tolist()
        words = np.zeros(end)
        words[self.counts.places] = added
        level = every.level(self._ancestors, Entries(places, values.astype(np.float32)))
        return level, factor[: self._n_tag_substates], words[first:]

    def _totals(self) -> Vector:
        parents = self.layout.parents(self.counts.places)
        return self.weight + np.bincount(parents, self.counts.values, len(self.weight))


class RuleLayout:
    """The blocks of binary, unary and root rules, and of pairs with these tags, in one vector.

    starts: int64 (n + 1), where the block of each rule or pair begins.
    ends: int64 (4), where the blocks of each kind end.
    rule_parents: int64 (n), the symbol of the parent; for ROOT the number of symbols.
    widths: int64 (n), the lengths of the rows of a block, one for each substate of the parent.
    """

    def __init__(
        self, rules: Rules, substates: NDArray[np.int32], tags: NDArray[np.int32] = NO_TAGS
    ):
        self.rules, self.substates = rules, substates
        wide = np.append(substates, 1)
        tops = np.stack([np.full_like(rules.root, len(substates)), rules.root], axis=1)
        kinds = (rules.binary, rules.unary, tops, tags[:, None])
        self.rule_parents = np.concatenate([kind[:, 0] for kind in kinds])
        self.widths = np.concatenate([wide[kind[:, 1:]].prod(axis=1) for kind in kinds])
        heights = wide[self.rule_parents]
        self.starts = cumulative(self.widths * heights)
        self.ends = self.starts[np.cumsum([len(kind) for kind in kinds])]
        self._row_starts = cumulative(np.repeat(self.widths, heights))
        self._row_parents = substate_columns(self.rule_parents, wide)[1]

    def parents(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The substate of the parent of each entry; that of ROOT is the last one."""
        return self._row_parents[np.searchsorted(self._row_starts, places, side="right") - 1]

    def level(self, ancestors: NDArray[np.int32], entries: Entries) -> Level:
        """The level with these entries."""
        first, second, end, _ = self.ends.tolist()
        cut = int(np.searchsorted(entries.places, first))
        binary = Entries(entries.places[:cut], entries.values[:cut])
        rest = Entries(entries.places[cut:] - first, entries.values[cut:]).dense(end - first)
        unary, root = np.split(rest, [second - first])
        return Level(self.rules, self.substates, ancestors, binary, unary, root)


def uses(level: Level) -> Vector:
    """The expected number of uses of each substate in a tree, float64 (level.size).

    The sum over depths of the expected number at this depth. Probabilities are normalized first.
    """
    parent, left, right = level.entry_states()[1].T
    top, child = level.entry_states("unary")[1].T
    parents, children = np.concatenate([parent, parent, top]), np.concatenate([left, right, child])
    binary, unary = level.entries.values.astype(np.float64), level.unary[level.unary != 0]
    values = np.concatenate([binary, binary, unary]) / level.sums()[parents]
    step = csr_array((values, (children, parents)), (level.size, level.size))
    now = np.zeros(level.size)
    now[level.root_states] = level.root / level.root.sum()
    used = now.copy()
    for _ in range(_DEEPEST):
        now = step @ now
        used += now
        if now.sum() < 1e-6:
            break
    return used


def _flat(level: Level) -> Entries:
    """The entries of all rules, see `RuleLayout`."""
    binary, rest = level.entries, Entries.of(np.append(level.unary, level.root))
    places = np.append(binary.places, level.binary_offsets[-1] + rest.places)
    return Entries(places, np.append(binary.values, rest.values))


def _moved(entries: Entries, starts: NDArray[np.int64], to: NDArray[np.int64]) -> Entries:
    """Move entries of the blocks from `starts` on to blocks from `to` on, or -1: leave them out."""
    n_entries = np.diff(np.searchsorted(entries.places, starts))
    places = entries.places + np.repeat(to - starts[:-1], n_entries)
    stay = np.repeat(to >= 0, n_entries)
    return Entries(places[stay], entries.values[stay])
