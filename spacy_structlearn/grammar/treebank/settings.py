"""Settings of the probabilities of words under tags."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...learning.settings import Settings, setting
from ...trees.tree import Tree
from ...words.signatures import spelling_constraints

Trees = Sequence[Tree | Sequence[Tree]]
"""Training data: normalized trees, or lists of them."""


@dataclass(frozen=True, kw_only=True)
class LexiconSettings(Settings):
    """How the probabilities of words under tags are estimated, see `lexicon`."""

    lexicon: str = setting(
        "smoothed",
        choices=("smoothed", "simple"),
        help="Estimation of word probabilities: smoothed, from P(tag | word), or simple relative "
        "frequencies with rare words replaced by their signatures.",
    )
    signature: str = setting(
        "shape",
        help="Registered function that classifies unknown words by spelling: shape (any language) "
        "or english.",
    )
    normalization: str = setting(
        "typographic",
        help="Registered function that finds spelling variants of unknown words. Empty string: no "
        "normalization.",
    )
    min_word_count: int | None = setting(
        None,
        ge=1,
        help="Words seen less often in training are rare; unknown words are treated like them. "
        "None: 21 for a smoothed lexicon, 6 for a simple one.",
    )
    word_backoff: str = setting(
        "unknown",
        choices=("unknown", "signature"),
        help="What known words are smoothed with: the distribution of all unknown words, or that "
        "of their signature.",
    )

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        yield from spelling_constraints(self.signature, self.normalization)

    @property
    def rare_below(self) -> int:
        """Words seen less often are rare."""
        usual = 21 if self.lexicon == "smoothed" else 6
        return usual if self.min_word_count is None else self.min_word_count
