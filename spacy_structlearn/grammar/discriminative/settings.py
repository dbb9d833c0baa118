"""Settings of discriminative latent grammars."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp
from typing import Any, ClassVar

from ...learning import settings as core
from ...learning.settings import Variants, setting
from ..latent.settings import LatentGrammarSettings

BASES = ("generative", "uniform")

LEVEL_STARTS = ("generative", "copy")

MOST_CONDITIONAL_ROUNDS = 6  # the masks of forests have 64 bits


@dataclass(frozen=True, kw_only=True)
class ConditionalGrammarSettings(LatentGrammarSettings):
    """Grammar with latent annotations that maximizes the probability of the trees given the words.

    Discriminative training (Petrov & Klein 2007, sections 3 and 4): rounds of splitting, merging
    and smoothing as for a latent grammar, then each level by L-BFGS. It is more accurate than
    LatentGrammar and takes longer to train. Weights of productions are not probabilities; scores of
    brackets and trees still are. The penalties are on theta, the logarithm of a weight over its
    base. With l1, most theta are 0.
    """

    name: ClassVar[str] = "ConditionalGrammar"
    variants: ClassVar[Variants] = {"uniform": {"base": "uniform", "lexicon": "simple"}}
    strengths: ClassVar[tuple[float, ...]] = ()  # weights of productions are no counts

    base: str = setting(
        "generative",
        choices=BASES,
        help="Base of the weights: the generative probabilities, which the penalties then pull "
        "weights towards, or 1, as in the paper.",
    )
    start: str = setting(
        "generative",
        choices=LEVEL_STARTS,
        help="First weights of a level: its generative probabilities, or a copy of the weights of "
        "the level before it.",
    )
    first_level: int = setting(0, ge=0, help="First level to train; earlier ones stay generative.")
    l1: float = core.l1(1.0)
    l2: float = core.l2(0.0, "parameters")
    conditional_iterations: int = setting(
        50, ge=1, help="Largest number of iterations of L-BFGS for a level."
    )
    conditional_tolerance: float = setting(
        1e-4,
        ge=0,
        help="The training of a level ends when the mean relative decrease of the objective over "
        "ten iterations is less than this.",
    )
    threshold: float = setting(
        exp(-10.0),
        ge=0,
        le=1,
        help="Constituents of a training sentence whose posterior at one level is below this are "
        "pruned at the next level.",
    )
    shards: int = core.shards(4)

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        yield from super().constraints()
        most = MOST_CONDITIONAL_ROUNDS
        yield "rounds", f"at most {most}", self.rounds <= most
        yield "first_level", f"at most rounds, {self.rounds}", self.first_level <= self.rounds
        # A word without weights of its own needs those of its signature.
        sound = self.base == "generative" or self.lexicon == "simple"
        yield "base", "'generative' with a smoothed lexicon", sound

    @property
    def generative(self) -> LatentGrammarSettings:
        """The settings of the generative rounds."""
        return self.part(LatentGrammarSettings, grammars=1)

    def _n_reports_of_one(self) -> int:
        levels = self.rounds + 1 - self.first_level
        rounds = super()._n_reports_of_one()
        return rounds + 1 + levels * (self.conditional_iterations + 1)
