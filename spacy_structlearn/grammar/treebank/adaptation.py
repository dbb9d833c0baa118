"""Words of new trees in a trained lexicon, in which the old counts are prior counts.

Probabilities of known words are, with new counts c and a factor f(T_x) of the old probabilities,

    P'(w | T_x) = f(T_x) P(w | T_x) + c(w, T_x) / c(T_x)

New words are smoothed with their signatures as in a smoothed lexicon (see `lexicon`), and the
counts of the rare ones are added to those of the signatures. A simple lexicon knows all new words,
and its signatures stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...arrays import cumulative, ranges
from ...words.signatures import SIGNATURES, registered
from .data import TreebankData
from .estimation import (
    SIGNATURE_SMOOTHING,
    UNSEEN,
    Mask,
    number_signatures,
    signature_chain,
    word_smoothing,
)
from .lexicon import Backoff, Lexicon, LexiconLevel
from .settings import LexiconSettings
from .symbols import substate_columns

Learned = tuple[NDArray[np.float64], NDArray[np.float64]]
"""For a level: the factors f, (n_substates), and c(w, T_x) / c(T_x) in the layout of data.pairs."""


class LexiconAdapter:
    """The words, pairs and signatures of a lexicon and of new trees under one index.

    old: over the symbols of `data`.
    share: the part of the old counts that is kept. The rows of signatures have the scale of all.
    """

    def __init__(self, settings: LexiconSettings, old: Lexicon, data: TreebankData, share: float):
        self._old, self._pairs = old, data.pairs
        n_old, n_tags = len(old.words), data.symbols.n_tags
        index = dict(old.index)
        for text in data.forms:
            index.setdefault(text, len(index))
        self._words = tuple(index)
        # In a simple one words are not smoothed.
        self._smoothed = smoothed = bool(old.backoff_weights.any() or old.backoff.weights.any())
        word = np.array([index[text] for text in data.forms])
        of_pairs = word[data.pairs[:, 1]]
        counts = np.bincount(of_pairs, data.pair_counts, len(index))
        is_new = np.arange(len(index)) >= n_old
        rare = is_new & (counts < settings.rare_below) & smoothed
        # Pairs of words and tags, old and new.
        before = np.repeat(np.arange(n_old), np.diff(old.word_offsets)) * n_tags + old.pair_tags
        keys = np.append(before, of_pairs * n_tags + data.pairs[:, 0])
        keys, places = np.unique(keys, return_inverse=True)
        words, self._tags = np.divmod(keys, n_tags)
        self._of_old, self._of_new = np.split(places, [len(before)])
        self._tied = np.zeros(len(keys), dtype=np.bool_)
        self._tied[self._of_old] = old.pair_weights > 0
        self._tied[self._of_new] = False
        self._word_offsets = cumulative(np.bincount(words, minlength=len(index)))
        # Smoothing of new words.
        rows = self._number_signatures(data, index, is_new[word], rare[word])
        self._rare, self._row_of_pairs = rare[of_pairs], rows[data.pairs[:, 1]]
        s1 = word_smoothing(counts) * (is_new & smoothed)
        shrink = counts / np.maximum(counts + s1, 1)  # old words may have no count
        self._shrink = shrink[of_pairs]
        self._backoff_weights = np.append(old.backoff_weights, (s1 * shrink)[n_old:] / share)
        self._backoff_rows = np.empty(len(index), dtype=np.int32)
        # The signature of a word is that within sentences, if it was ever seen there.
        order = np.argsort(~data.initial, kind="stable")
        self._backoff_rows[word[order]] = rows[order]
        self._backoff_rows[:n_old] = self._moved(old.backoff_rows)
        self._count_signatures(data.pair_counts, share)

    def _number_signatures(
        self, data: TreebankData, index: dict[str, int], is_new: Mask, rare: Mask
    ) -> NDArray[np.int64]:
        """Number the signatures of rare new forms. Returns the row of each new form, (n_forms)."""
        old = self._old
        function = registered(SIGNATURES, "signature", old.signature)
        numbers = {name: i for i, name in enumerate(old.signatures)}
        chains: dict[int, tuple[str, ...]] = {}
        above: list[str | None] = []
        for form in np.flatnonzero(is_new).tolist():
            chains[form] = signature_chain(function, data, form, index)
            if rare[form]:
                above += number_signatures(numbers, chains[form])
        self._signatures = tuple(numbers)
        unknown = len(numbers)
        parents = [unknown if name is None else numbers[name] for name in above]
        self._parents = np.append(self._moved(old.backoff.parents), parents).astype(np.int32)
        rows = np.full(len(data.forms), unknown)
        for form, chain in chains.items():
            rows[form] = next((numbers[name] for name in chain if name in numbers), unknown)
        return rows

    def _moved(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Renumber rows: that of U is the last one."""
        return np.where(rows == len(self._old.signatures), len(self._signatures), rows)

    def _count_signatures(self, pair_counts: NDArray[np.int64], share: float) -> None:
        """Add the counts of rare new words to those of their signatures."""
        weights, s0 = self._old.backoff.weights, SIGNATURE_SMOOTHING
        n, n_new = len(self._signatures), len(self._signatures) - len(weights)
        prior = np.ones(n + 1)
        if self._smoothed:
            # A weight is s0 / (c(S) + s0). All words with a signature are U.
            seen = s0 / weights - s0
            of_unknown = max(seen[self._old.backoff.parents == len(weights)].sum(), 1.0)
            prior = np.concatenate([share * s0 / weights, np.full(n_new, s0), [share * of_unknown]])
        rare = self._rare
        self._backoff = Backoff(self._parents, np.zeros(n, dtype=np.float32))
        seen = self._backoff.add_up(self._row_of_pairs[rare], pair_counts[rare], 1)[:, 0]
        self._row_factors = prior / (prior + seen)
        self._row_shares = share / (prior + seen)
        weights = self._row_factors[:-1] * np.append(weights, np.ones(n_new))
        self._backoff = Backoff(self._parents, weights.astype(np.float32))

    def lexicon(self, learned: Sequence[Learned]) -> Lexicon:
        """The lexicon with what was learned in each level."""
        old, of_old = self._old, self._of_old
        levels = [self._level(k, *of_level) for k, of_level in enumerate(learned)]
        # The tied pairs of words that were not seen keep their probability in level 0.
        words = np.repeat(np.arange(len(old.words)), np.diff(old.word_offsets))
        tags = old.pair_tags
        rows = old.backoff.expand(old.levels[0].rows)[old.backoff_rows[words], tags]
        before = rows * learned[0][0][tags]
        after = self._backoff.expand(levels[0].rows)[self._backoff_rows[words], tags]
        ratio = np.divide(before, after, where=(before > 0) & (after > 0), out=np.ones(len(tags)))
        weights = np.zeros(len(self._tied), dtype=np.float32)
        weights[of_old] = old.pair_weights * ratio
        weights[~self._tied] = 0
        return replace(
            old,
            words=self._words,
            word_offsets=self._word_offsets,
            pair_tags=self._tags.astype(np.int32),
            pair_weights=weights,
            backoff_weights=self._backoff_weights.astype(np.float32),
            backoff_rows=self._backoff_rows,
            signatures=self._signatures,
            backoff=self._backoff,
            levels=levels,
        )

    def _level(
        self, k: int, factor: NDArray[np.float64], added: NDArray[np.float64]
    ) -> LexiconLevel:
        old, substates = self._old, self._old.tag_substates[k]
        ends = cumulative(substates[self._tags])
        sizes = np.diff(ends)
        _, columns, values = old.entries(k)
        pairs = np.zeros(int(ends[-1]))
        pairs[ranges(ends[self._of_old], sizes[self._of_old])] = values * factor[columns]
        of_new = sizes[self._of_new]
        places = ranges(ends[self._of_new], of_new)
        pairs += np.bincount(places, added * np.repeat(self._shrink, of_new), len(pairs))
        own = pairs[np.repeat(~self._tied, sizes)]
        # The rows, old and new.
        width = len(factor)
        columns = substate_columns(self._pairs[:, 0], substates)[1]
        rare = np.repeat(self._rare, of_new)
        cells = np.repeat(self._row_of_pairs, of_new) * width + columns
        rows = self._row_shares[:, None] * self._backoff.add_up(cells[rare], added[rare], width)
        old_rows = np.append(np.arange(len(old.signatures)), len(rows) - 1)
        rows[old_rows] += self._row_factors[old_rows, None] * old.levels[k].rows * factor
        if not self._smoothed:
            rows[-1] = UNSEEN
        return LexiconLevel(own.astype(np.float32), rows.astype(np.float32))
