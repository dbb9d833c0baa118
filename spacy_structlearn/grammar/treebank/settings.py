"""Settings of the estimation of word probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...learning.settings import Settings, setting
from ...trees.tree import Tree
from ...words.signatures import spelling_constraints
from .symbols import TreebankData

Trees = Sequence[Tree | Sequence[Tree] | TreebankData]
"""Training data: normalised trees, lists of them, or encoded ones."""


@dataclass(frozen=True, kw_only=True)
class LexiconSettings(Settings):
    """How the probabilities of words under tags are estimated; see `lexicon`."""

    lexicon: str = setting(
        "smoothed",
        choices=("smoothed", "simple"),
        help="Estimation of word probabilities: smoothed by P(tag | word), or simple relative "
        "frequencies in which rare words are replaced by their signatures.",
    )
    signature: str = setting(
        "shape",
        help="Registered function that classifies unknown words by their spelling: shape, for any "
        "language, or english.",
    )
    normalization: str = setting(
        "typographic",
        help="Registered function that finds spelling variants of unknown words. An empty string: "
        "no normalization.",
    )
    min_word_count: int | None = setting(
        None,
        ge=1,
        help="Words seen less often in training are rare: unknown words are judged by them. "
        "None: 21 with a smoothed lexicon, 6 with a simple one.",
    )
    tie_rare: bool = setting(
        True, exposed=False, help="Rare words share the substates of all rare words."
    )
    word_smoothing: float = setting(
        0.1, ge=0, exposed=False, help="Counts added to those of a word, from unknown words."
    )
    frequent_smoothing: float = setting(
        1e-4, ge=0, exposed=False, help="The same for words seen more often than `frequent`."
    )
    frequent: int = setting(
        100, ge=0, exposed=False, help="Words seen more often take `frequent_smoothing`."
    )
    signature_smoothing: float = setting(
        0.5, gt=0, exposed=False, help="Counts added to those of a signature."
    )
    hierarchical: bool = setting(
        True,
        help="Smooth each signature with the next coarser one, instead of with all unknown words.",
    )
    word_backoff: str = setting(
        "unknown",
        choices=("unknown", "signature"),
        help="Distribution that known words are smoothed with: that of all unknown words or that "
        "of their signature.",
    )

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        yield from spelling_constraints(self.signature, self.normalization)

    @property
    def rare_below(self) -> int:
        """Words seen less often are rare."""
        usual = 21 if self.lexicon == "smoothed" else 6
        return usual if self.min_word_count is None else self.min_word_count
