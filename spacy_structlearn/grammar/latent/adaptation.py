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

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...arrays import cumulative, ranges
from ...learning.training import array_digest
from ...parallel.shards import MakeEngine, make_engine
from ..treebank.adaptation import LexiconAdapter
from ..treebank.lexicon import Lexicon, LexiconLevel
from ..treebank.settings import Trees
from ..treebank.symbols import (
    TreebankData,
    renumbering,
    substate_columns,
    united_rules,
    united_symbols,
)
from .em import Refined, TreebankDerivations, observed_counts
from .model import Entries, LatentGrammar, Level
from .settings import LatentGrammarSettings
from .training import TreebankTrainer

ITERATIONS = 3
UNIFORM = 1e-6  # share of the productions of the new trees in the prior
LEAST_USE = 1e-9  # uses in a tree of a substate that is new or never used
LEAST = 1e-6  # smaller probabilities of rules are set to zero, unless float32 is stored
_DEEPEST = 1000  # depth of the deepest derivations for which uses are counted

Vector = NDArray[np.float64]


class AdaptationTrainer(TreebankTrainer[LatentGrammarSettings]):
    """Learns on from a grammar. A step is one iteration of EM in all levels.

    value: minus the logarithm of the posterior before the last step, summed over all levels, in
        nats; the prior is relative to that of the old grammar.
    """

    def __init__(
        self,
        settings: LatentGrammarSettings,
        parameters: LatentGrammar,
        data: Trees,
        *,
        strength: float,
        make_engine: MakeEngine = make_engine,
    ):
        self._origin, self._strength = parameters, strength
        form = {"binarization": parameters.binarization, "root": parameters.symbols.root}
        super().__init__(replace(settings, **form), data, make_engine=make_engine)

    def begin(self) -> None:
        """Add the symbols and rules of the trees to the grammar."""
        symbols = united_symbols([self._origin.symbols, self._data.symbols])
        self._trees = data = self._data.renumbered(symbols)
        self._old, numbers = widened(self._origin, data)
        lexicon = self._old.lexicon
        forms = form_ids(lexicon, data)
        scores = (lexicon.scores(k, forms) for k in range(len(lexicon.levels)))
        self._priors = [
            Prior(level, own, data, numbers, self._strength)
            for level, own in zip(self._old.levels, scores, strict=True)
        ]
        self._counts = [np.zeros(len(prior.pseudo)) for prior in self._priors]

    def iterate(self) -> bool:
        """Run one iteration of EM in each level. Returns False after the last one."""
        derivations = TreebankDerivations(
            self._trees, self.settings.threads, self.settings.shards, make_engine=self.make_engine
        )
        found, value = [], 0.0
        try:
            for prior, counts in zip(self._priors, self._counts, strict=True):
                gain, expected = derivations.expected_counts(prior.refined(counts))
                found.append(np.concatenate(expected).astype(np.float64))
                value += gain + prior.log_density(counts)
        finally:
            derivations.close()
        self._counts, self.value = found, -value
        self.n_iterations += 1
        return self.n_iterations < ITERATIONS

    def parameters(self) -> LatentGrammar:
        """The grammar with the old and the new counts."""
        pairs = zip(self._priors, self._counts, strict=True)
        levels, *words = zip(*(prior.learned(counts) for prior, counts in pairs), strict=True)
        # P(U | T_x) = P(T_x | U) / c(T_x), which shows the number of the old trees.
        rows = self._old.lexicon.levels[0].rows
        share = float(rows[-1] @ self._priors[0].weight[: rows.shape[1]])
        adapter = LexiconAdapter(self.settings, self._old.lexicon, self._trees, share)
        lexicon = adapter.lexicon(list(zip(*words, strict=True)))
        learned = self._old.replaced(levels=levels, lexicon=lexicon)
        storage = learned.storage
        return learned if storage == "float32" else learned.compact(LEAST, storage)

    def data_digest(self) -> bytes:
        """A hash of the trees, the old grammar and its strength."""
        return array_digest(super().data_digest(), self._origin.to_bytes(), self._strength)

    def state(self) -> dict[str, Any]:
        """The expected counts of each level."""
        return {"counts": self._counts}

    def restore(self, state: dict[str, Any]) -> bool:
        """Set what `state` returned."""
        counts = state["counts"]
        self._counts, before = counts, self._counts
        return [(c.dtype, c.shape) for c in counts] == [(c.dtype, c.shape) for c in before]


def widened(
    grammar: LatentGrammar, data: TreebankData
) -> tuple[LatentGrammar, list[NDArray[np.int32]]]:
    """The grammar with the further symbols, of one substate each, and the rules of trees.

    New rules have probability zero. data: over all symbols of the grammar and of the trees.

    Returns the grammar, and the numbers in it of the binary, unary and root rules of the trees.
    """
    symbols, to = data.symbols, renumbering(grammar.symbols, data.symbols)
    before = grammar.rules.renumbered(to)
    rules, of_old, of_data = united_rules(before, data.rules, symbols.size)
    levels, words = [], []
    for level, own in zip(grammar.levels, grammar.lexicon.levels, strict=True):
        substates = np.ones(symbols.size, dtype=np.int32)
        substates[to] = level.substates
        columns = substate_columns(to, substates)[1]
        ancestors = np.zeros(int(substates.sum()), dtype=np.int32)
        ancestors[columns] = level.ancestors
        moved = []
        for (entries, old, _), sizes, numbers in zip(
            _kinds(level), rules.sizes(substates).values(), of_old, strict=True
        ):
            new, n_entries = cumulative(sizes), np.diff(np.searchsorted(entries.places, old))
            shifts = np.repeat(new[numbers] - old[:-1], n_entries)
            moved.append((Entries(entries.places + shifts, entries.values), int(new[-1])))
        (binary, _), *others = moved
        others = [_dense(*part) for part in others]
        levels.append(Level(rules, substates, ancestors, binary, *others))
        rows = np.zeros((len(own.rows), int(substates[: symbols.n_tags].sum())), dtype=np.float32)
        rows[:, columns[: own.rows.shape[1]]] = own.rows
        words.append(LexiconLevel(own.own, rows))
    known = set(map(tuple, before.unary.tolist()))
    chains = {pair: between for pair, between in data.chains.items() if pair not in known}
    for pair, between in grammar.chains.items():
        top, bottom, *others = to[[*pair, *between]].tolist()
        chains[top, bottom] = tuple(others)
    wide = grammar.replaced(
        symbols=symbols,
        rules=rules,
        levels=levels,
        lexicon=replace(
            grammar.lexicon,
            pair_tags=to[grammar.lexicon.pair_tags],
            tag_substates=[level.substates[: symbols.n_tags] for level in levels],
            levels=words,
        ),
        chains=chains,
    )
    return wide, of_data


def uses(level: Level) -> Vector:
    """The expected number of uses of each substate in a tree, float64 (level.size).

    The sum over depths of the expected number at this depth. Probabilities are normalized first.
    """
    (binary, parent, left, right), (unary, top, child), (root, start) = (
        (kind[0].values, *_axes(level, *kind)) for kind in _kinds(level)
    )
    parents, children = np.concatenate([parent, parent, top]), np.concatenate([left, right, child])
    values = np.concatenate([binary, binary, unary]).astype(np.float64)
    total = np.bincount(np.append(parent, top), np.append(binary, unary), level.size)
    step = csr_array((values / total[parents], (children, parents)), (level.size, level.size))
    now = np.bincount(start, root, level.size) / root.sum()
    used = now.copy()
    for _ in range(_DEEPEST):
        now = step @ now
        used += now
        if now.sum() < 1e-6:
            break
    return used


class Prior:
    """The prior of one level, and what the new trees make of it.

    old: the level, with all rules.
    words: P(w | T_x) of each of data.forms, float32 (n_forms, n_substates of tags).
    data: the new trees. numbers: of their binary, unary and root rules in `old`.

    pseudo: the prior counts of the productions in the new trees, in the order and layout of
        `ProductionCounts`; counts of new trees are the same. All are positive.
    weight: those of all productions of each substate and, last, of ROOT.
    """

    def __init__(
        self,
        old: Level,
        words: NDArray[np.float32],
        data: TreebankData,
        numbers: list[NDArray[np.int32]],
        strength: float,
    ):
        self._old, self._rules, self._n_tag_substates = old, data.rules, words.shape[1]
        self._places = [
            ranges(offsets[own], np.diff(offsets)[own])
            for (_, offsets, _), own in zip(_kinds(old), numbers, strict=True)
        ]
        rules, tags, substates = data.rules, data.pairs[:, 0], np.append(old.substates, 1)
        top = np.full_like(rules.root, data.symbols.size)
        occurrences = np.append(data.occurrences, data.n_trees)
        parents, shares = [], []
        for symbols, seen in zip(
            (rules.binary, rules.unary, np.stack([top, rules.root], axis=1), tags[:, None]),
            observed_counts(data),
            strict=True,
        ):
            parent, width = symbols[:, 0], substates[symbols[:, 1:]].astype(np.int64).prod(axis=1)
            height = substates[parent]
            parents.append(
                np.repeat(substate_columns(parent, substates)[1], np.repeat(width, height))
            )
            shares.append(np.repeat(seen / (occurrences[parent] * width), height * width))
        self._parent, self._ends = np.concatenate(parents), np.cumsum([len(p) for p in parents])
        self.weight = strength * np.maximum(np.append(uses(old), 1.0), LEAST_USE)
        before = [
            a[p] for a, p in zip((old.binary, old.unary, old.root), self._places, strict=True)
        ]
        before.append(words[np.repeat(data.pairs[:, 1], substates[tags]), parents[-1]])
        shares = UNIFORM * np.concatenate(shares)
        self.pseudo = self.weight[self._parent] * (np.concatenate(before) + shares)

    def refined(self, counts: Vector) -> Refined:
        """The level of the rules and words of the trees, for an E-step."""
        values = (self.pseudo + counts) / self._totals(counts)[self._parent]
        *blocks, emissions = np.split(values.astype(np.float32), self._ends[:-1])
        return Level(self._rules, self._old.substates, self._old.ancestors, *blocks), emissions

    def log_density(self, counts: Vector) -> float:
        """The logarithm of the prior, relative to that of the old probabilities."""
        known = self.pseudo @ np.log1p(counts / self.pseudo)
        return float(known - self.weight @ np.log(self._totals(counts) / self.weight))

    def learned(self, counts: Vector) -> tuple[Level, Vector, Vector]:
        """The level with the old and the new counts.

        Returns it, and what `LexiconAdapter` needs.
        """
        totals, old = self._totals(counts), self._old
        factor = self.weight / totals
        *added, words = np.split(counts / totals[self._parent], self._ends[:-1])
        arrays = []
        for kind, places, own in zip(_kinds(old), self._places, added, strict=True):
            entries, offsets, rules = kind
            values = np.zeros(int(offsets[-1]))
            # The rules of ROOT have no parent among the symbols.
            parent = _axes(old, *kind)[0] if rules.shape[1] > 1 else -1
            values[entries.places] = entries.values * factor[parent]
            values[places] += own
            arrays.append(values.astype(np.float32))
        binary, unary, root = arrays
        entries = Entries.of(binary)
        return (
            Level(old.rules, old.substates, old.ancestors, entries, unary, root),
            factor[: self._n_tag_substates],
            words,
        )

    def _totals(self, counts: Vector) -> Vector:
        return self.weight + np.bincount(self._parent, counts, len(self.weight))


def form_ids(lexicon: Lexicon, data: TreebankData) -> NDArray[np.int32]:
    """The id of each of data.forms, see `Lexicon.encode`: int32 (n_forms)."""
    ids = np.zeros(len(data.forms), dtype=np.int32)
    forms = data.pairs[data.production[data.is_word], 1]
    ids[forms] = np.concatenate([lexicon.encode(words) for words in data.sentences])
    return ids


def _dense(entries: Entries, size: int) -> NDArray[np.float32]:
    full = np.zeros(size, dtype=np.float32)
    full[entries.places] = entries.values
    return full


def _kinds(level: Level) -> list[tuple[Entries, NDArray[np.int64], NDArray[np.int32]]]:
    """The entries, the offsets and the symbols of the binary, unary and root rules."""
    rules = level.rules
    return [
        (level.entries, level.binary_offsets, rules.binary),
        (Entries.of(level.unary), level.unary_offsets, rules.unary),
        (Entries.of(level.root), level.root_offsets, rules.root[:, None]),
    ]


def _axes(
    level: Level, entries: Entries, offsets: NDArray[np.int64], rules: NDArray[np.int32]
) -> list[NDArray[np.int64]]:
    """The substates of each entry, among those of all symbols, in the order of its rule."""
    rule = np.searchsorted(offsets, entries.places, side="right") - 1
    rest = entries.places - offsets[rule]
    found = []
    for symbols in rules.T[::-1]:
        symbol = symbols[rule]
        rest, substate = np.divmod(rest, level.substates[symbol])
        found.append(level.offsets[symbol] + substate)
    return found[::-1]
