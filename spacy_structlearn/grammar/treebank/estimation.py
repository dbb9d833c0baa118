"""Estimation of lexicons from expected counts of words under tags.

`LexiconLearner` estimates two kinds of lexicons, which `Lexicon` stores in one form:

* simple (Petrov & Klein 2007, section 4): rare training words are replaced by their signatures, and
  P(w-or-signature | T_x) is a relative frequency.
* smoothed (the generative lexicon of Petrov et al. 2006), from P(T_x | w). With expected counts c,
  and U the rare words,

      P(T_x | S) = (c_U(T_x, S) + s0 P(T_x | U)) / (c(S) + s0)          S a signature
      P(T_x | w) = (c(T_x, w) + s1 P(T_x | U)) / (c(w) + s1)
      P(w | T_x) = P(T_x | w) c(w) / c(T_x),   P(S | T_x) = P(T_x | S) / c(T_x)

  where the counts of a rare word are tied to U: c(T_x, w) = c(T, w) P(T_x | U) / P(T | U). Our own
  additions replace U: by the signature S of a known word, in the second line and in the tie, and by
  the next coarser signature, in the first line.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import cumulative, ranges
from ...words.signatures import SIGNATURES, Signature
from .data import TreebankData
from .lexicon import Backoff, Lexicon, LexiconLevel
from .settings import LexiconSettings
from .symbols import substate_columns

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

UNSEEN = 0.001  # simple lexicon: probability of an unseen signature under every tag
# s1, and the same for words that occur more often than FREQUENT.
WORD_SMOOTHING, FREQUENT_SMOOTHING, FREQUENT = 0.1, 1e-4, 100
SIGNATURE_SMOOTHING = 0.5  # s0


def word_smoothing(counts: NDArray[Any]) -> NDArray[np.float64]:
    """s1 of words that occur so often."""
    return np.where(counts > FREQUENT, FREQUENT_SMOOTHING, WORD_SMOOTHING)


def signature_chain(
    function: Signature, data: TreebankData, form: int, known: dict[str, int]
) -> tuple[str, ...]:
    """The signatures of a form, from fine to coarse."""
    return tuple(dict.fromkeys(function(data.forms[form], bool(data.initial[form]), known)))


def number_signatures(numbers: dict[str, int], chain: Sequence[str]) -> list[str | None]:
    """Number the new signatures of a chain. Returns the next coarser one of each of them."""
    above: list[str | None] = []
    for name, parent in zip(chain, (*chain[1:], None), strict=False):
        if name in numbers:
            break
        numbers[name] = len(numbers)
        above.append(parent)
    return above


class LexiconLearner:
    """Estimates the lexicon of a treebank from expected counts of its pairs of a tag and a form.

    Counts and emissions of `data.pairs` are vectors one after another, each with an entry for each
    substate of the tag of its pair.
    """

    def __init__(self, settings: LexiconSettings, data: TreebankData):
        self.settings = settings
        self.n_tags = data.symbols.n_tags
        self._pair_tags = np.ascontiguousarray(data.pairs[:, 0])
        texts = sorted(set(data.forms))
        index = {text: i for i, text in enumerate(texts)}
        word = np.array([index[text] for text in data.forms], dtype=np.int64)[data.pairs[:, 1]]
        counts = np.bincount(word, weights=data.pair_counts, minlength=len(texts)).astype(np.int64)
        self._smoothed = settings.lexicon == "smoothed"
        known = np.ones(len(texts), np.bool_) if self._smoothed else counts >= settings.rare_below
        self.words = tuple(compress(texts, known))
        self._index = {text: i for i, text in enumerate(self.words)}
        self._rare = (counts < settings.rare_below)[word]
        self._number_signatures(data)
        self._last: _PairLayout | None = None
        self._number_pairs(data, (np.cumsum(known) - 1)[word], known[word], counts[known])

    def _number_signatures(self, data: TreebankData) -> None:
        """Number the signatures of rare words; each row is smoothed with that of its parent."""
        function, rare = SIGNATURES.get(self.settings.signature), self._rare
        rows: dict[str, int] = {}
        parents: list[str | None] = []
        of_form = np.full(len(data.forms), -1, dtype=np.int64)
        for form in np.unique(data.pairs[rare, 1]).tolist():
            chain = signature_chain(function, data, form, self._index)
            parents += number_signatures(rows, chain)
            of_form[form] = rows[chain[0]] if chain else -1
        backoff = np.full(len(self.words), -1)
        if self.settings.word_backoff == "signature" and self._smoothed:
            # The signature is that of the word within sentences, if it was ever seen there.
            later = dict(sorted(zip(data.forms, data.initial.tolist(), strict=True), reverse=True))
            for i, text in enumerate(self.words):
                chain = function(text, later[text], self._index)
                backoff[i] = next((rows[name] for name in chain if name in rows), -1)
        self.signatures = tuple(rows)
        n = len(rows)
        of_parent = np.array([n if p is None else rows[p] for p in parents], dtype=np.int32)
        self._pair_rows = np.where(of_form < 0, n, of_form)[data.pairs[:, 1]]
        unsmoothed = Backoff(of_parent, np.zeros(n, dtype=np.float32))
        seen = unsmoothed.add_up(self._pair_rows[rare], data.pair_counts[rare], 1)[:n]
        s0 = SIGNATURE_SMOOTHING if self._smoothed else 0.0
        self._seen = seen + s0
        weights = (s0 / self._seen[:, 0]).astype(np.float32)
        self._backoff_of_rows = Backoff(of_parent, weights)
        self._backoff_rows = np.where(backoff < 0, n, backoff).astype(np.int32)

    def _number_pairs(self, data: TreebankData, word: Ints, known: Mask, counts: Ints) -> None:
        """Number the pairs of a known word and a tag, whether or not the word begins a sentence."""
        keys = word[known] * self.n_tags + data.pairs[known, 0]
        distinct, self._known_as = np.unique(keys, return_inverse=True)
        self._known = known
        words, tags = np.divmod(distinct, self.n_tags)
        self._pair_words, self._tags = words, tags.astype(np.int32)
        self._word_offsets = cumulative(np.bincount(words, minlength=len(counts)))
        s1 = word_smoothing(counts) * self._smoothed
        shrink = counts / (counts + s1)
        self._backoff = (s1 * shrink).astype(np.float32)
        self._shrink = shrink[words]
        pair_counts = np.bincount(self._known_as, data.pair_counts[known], len(distinct))
        tied = (counts < self.settings.rare_below - 1)[words] & self._smoothed
        # P(T | S), which does not depend on substates.
        cells = self._pair_rows * self.n_tags + data.pairs[:, 0]
        rare, c = self._rare, data.pair_counts
        rows = self._backoff_of_rows.add_up(cells[rare], c[rare], self.n_tags)
        self._normalize(rows, np.bincount(data.pairs[:, 0], c, self.n_tags))
        share = self._backoff_of_rows.expand(rows)[self._backoff_rows[words], self._tags]
        tied &= share > 0
        weights = np.divide(self._shrink * pair_counts, share, where=tied, out=np.zeros(len(share)))
        self._weights = weights.astype(np.float32)
        self._own = ~tied

    def fit(
        self,
        counts: NDArray[np.floating],
        substates: NDArray[np.int32],
        branches: NDArray[np.int64] | None = None,
        smoothing: float = 0.0,
    ) -> LexiconLevel:
        """The M-step.

        counts: of data.pairs.
        substates: int32 (n_tags).
        branches: int64 (X), the group of each substate of the tags.
        smoothing: the weight a of the others in the group, p'_x = (1 - a) p_x + a mean of others.
        """
        layout = self._layout(substates)
        width = layout.width
        total = np.bincount(layout.column, weights=counts, minlength=width)
        inverse = np.divide(1.0, total, out=np.zeros(width), where=total > 1e-20)
        rows = self._backoff_of_rows.add_up(layout.rare_cell, counts[layout.rare], width)
        sums = np.bincount(layout.known_as, counts[layout.known], len(layout.pair_column))
        shares = np.repeat(self._shrink, layout.pair_sizes) * inverse[layout.pair_column]
        own: NDArray[np.float64] = (sums * shares)[layout.own]
        if self._smoothed:
            self._normalize(rows, total)
        rows *= inverse
        if not self._smoothed:
            # Signatures are words like any others, and the row of U is constant.
            rows[-1] = UNSEEN
        if smoothing and branches is not None:
            groups = layout.own_key * width + branches[layout.own_column]
            own = _smooth(own, groups, smoothing)
            rows = _smooth(rows, branches, smoothing)
        return LexiconLevel(*(a.astype(np.float32) for a in (own, rows)))

    def _normalize(self, rows: NDArray[np.float64], total: NDArray[Any]) -> None:
        """Normalize c_U in place to own parts of P(T_x | S), or to `total` if no word is rare."""
        unknown = rows[-1] if rows[-1].any() else total
        rows[-1] = unknown / unknown.sum()
        rows[:-1] /= self._seen

    def split(
        self, level: LexiconLevel, substates: NDArray[np.int32], factor: NDArray[np.int32]
    ) -> LexiconLevel:
        """Split each substate into `factor` parts, which get the probabilities of the whole."""
        columns = np.repeat(factor, substates)
        return LexiconLevel(
            np.repeat(level.own, columns[self._layout(substates).own_column]),
            np.repeat(level.rows, columns, axis=1),
        )

    def emissions(self, level: LexiconLevel, substates: NDArray[np.int32]) -> NDArray[np.float32]:
        """P(word | T_x) of each of data.pairs, float32, in the layout of the counts."""
        layout = self._layout(substates)
        words = np.repeat(self._pair_words, layout.pair_sizes)
        weights = np.repeat(self._weights, layout.pair_sizes) + self._backoff[words]
        rows = self._backoff_of_rows.expand(level.rows)
        pairs = weights * rows[self._backoff_rows[words], layout.pair_column]
        pairs[layout.own] += level.own
        emissions = rows.reshape(-1)[layout.cell]
        emissions[layout.known] = pairs[layout.known_as]
        return emissions

    def lexicon(
        self, tag_substates: Sequence[NDArray[np.int32]], levels: Sequence[LexiconLevel]
    ) -> Lexicon:
        """The lexicon with these levels."""
        return Lexicon(
            self.words,
            self._word_offsets,
            self._tags,
            self._weights,
            self._backoff,
            self._backoff_rows,
            self.signatures,
            self._backoff_of_rows,
            self.settings.signature,
            self.settings.normalization,
            tag_substates,
            levels,
        )

    def _layout(self, substates: NDArray[np.int32]) -> _PairLayout:
        if self._last is None or not np.array_equal(self._last.substates, substates):
            self._last = _PairLayout(self, substates)
        return self._last


class _PairLayout:
    """Layout of flat vectors of substates, for given numbers of substates of the tags."""

    def __init__(self, learner: LexiconLearner, substates: NDArray[np.int32]):
        self.substates = substates.copy()
        self.width = int(substates.sum())
        # Entries of data.pairs: substate; whether the word is rare; cell in rows.
        ends, self.column = substate_columns(learner._pair_tags, substates)
        sizes = np.diff(ends)
        self.rare = np.repeat(learner._rare, sizes)
        self.cell = np.repeat(learner._pair_rows, sizes) * self.width + self.column
        self.rare_cell = self.cell[self.rare]
        # Pairs of known words and tags: their entries in data.pairs, and the entries of the pair.
        pair_ends, self.pair_column = substate_columns(learner._tags, substates)
        self.pair_sizes = np.diff(pair_ends)
        as_pair = np.zeros(len(sizes), dtype=np.int64)
        as_pair[learner._known] = learner._known_as
        self.known = np.repeat(learner._known, sizes)
        # One more, since there may be no known pairs.
        self.known_as = ranges(np.append(pair_ends[:-1], 0)[as_pair], sizes)[self.known]
        # Their entries that are not tied.
        self.own = np.repeat(learner._own, self.pair_sizes)
        self.own_column = self.pair_column[self.own]
        self.own_key = np.repeat(np.arange(len(self.pair_sizes)), self.pair_sizes)[self.own]


def _smooth(values: NDArray[np.float64], groups: Ints, amount: float) -> NDArray[np.float64]:
    """Smooth the last axis within runs of equal groups."""
    if not len(groups):
        return values
    starts = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    sizes = np.diff(np.append(starts, len(groups)))
    total = np.repeat(np.add.reduceat(values, starts, axis=-1), sizes, axis=-1)
    others = np.repeat(sizes - 1, sizes)
    mean = np.divide(total - values, others, out=values.copy(), where=others > 0)
    return (1 - amount) * values + amount * np.maximum(mean, 0)
