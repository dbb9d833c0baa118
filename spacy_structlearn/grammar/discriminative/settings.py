"""Settings of discriminative latent grammars."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import Any, ClassVar

from ...learning import settings as core
from ...learning.settings import setting
from ...learning.training import Trainer
from ..latent.settings import LatentGrammarSettings

BASES = ("generative", "uniform")

LEVEL_STARTS = ("generative", "copy")

SOLVERS = ("lbfgs", "adagrad")

PRUNINGS = ("cached", "coarse_to_fine", "none")

MOST_CONDITIONAL_ROUNDS = 6  # a forest has bits for 64 substates


@dataclass(frozen=True, kw_only=True)
class ConditionalGrammarSettings(LatentGrammarSettings):
    """Grammar with latent annotations whose weights make the trees likely, given the words.

    Discriminative training (Petrov & Klein 2007, sections 3 and 4): rounds of splitting, merging
    and smoothing as for a latent grammar, then each level by L-BFGS. More accurate, and slower to
    train. Its weights are not probabilities; those of brackets and trees are. A penalty is on
    theta, the logarithm of a weight over its base; with l1 most of these are 0.
    """

    name: ClassVar[str] = "ConditionalGrammar"

    base: str = setting(
        "generative",
        choices=BASES,
        help="What weights are corrections of: the generative probability, to which the penalties "
        "draw a weight, or 1, as in the paper.",
    )
    start: str = setting(
        "generative",
        choices=LEVEL_STARTS,
        help="First weights of a level: its generative probabilities, or a copy of the weights of "
        "the level before it.",
    )
    first_level: int = setting(0, ge=0, help="Levels before this one stay generative.")
    l1: float = core.l1(1.0)
    l2: float = core.l2(0.0, "parameters")
    solver: str = setting(
        "lbfgs",
        choices=SOLVERS,
        help="L-BFGS (OWL-QN with l1), or AdaGrad, which takes steps along the gradients of a few "
        "sentences: faster at first, and less close to the optimum.",
    )
    learn_rate: float = setting(0.3, gt=0, help="Learning rate of AdaGrad.")
    batch_size: int = setting(64, ge=1, help="Sentences in a step of AdaGrad.")
    conditional_iterations: int = setting(
        50, ge=1, help="Largest number of iterations for a level; with AdaGrad, passes."
    )
    conditional_tolerance: float = setting(
        1e-4,
        ge=0,
        help="The training of a level ends when the mean relative decrease of the objective over "
        "ten iterations is less than this.",
    )
    memory: int = setting(5, ge=1, exposed=False, help="Corrections that L-BFGS keeps.")
    pruning: str = setting(
        "cached",
        choices=PRUNINGS,
        exposed=False,
        help="Parses of a sentence that count: those left by pruning, found once for a level or "
        "anew in each evaluation, or all (figure 2 of the paper).",
    )
    threshold: float = setting(
        exp(-10.0),
        ge=0,
        le=1,
        help="Constituents of the training sentences with a posterior below this, at one level, "
        "are left out at the next.",
    )
    edge_factor: float = setting(
        0.1, ge=0, le=1, exposed=False, help="The threshold of productions is this times as high."
    )
    folder: Path | None = setting(
        None,
        identity=False,
        exposed=False,
        help="Folder for the cached forests during training. None: they are kept in memory.",
    )
    shards: int = core.shards(4)

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        yield from super().constraints()
        most = MOST_CONDITIONAL_ROUNDS
        yield "rounds", f"at most {most}", self.rounds <= most
        yield "first_level", f"at most rounds, {self.rounds}", self.first_level <= self.rounds
        # A word that has no weight of its own needs one of its signature.
        sound = self.base == "generative" or self.lexicon == "simple"
        yield "base", "'generative' with a smoothed lexicon", sound

    @property
    def generative(self) -> LatentGrammarSettings:
        """Those of the rounds of splitting."""
        return self.part(LatentGrammarSettings, grammars=1, shards=1)

    def n_shards(self, n_sentences: int) -> int:
        """Number of parts into which sentences are cut."""
        if self.solver == "adagrad":
            return max(1, -(-n_sentences // self.batch_size))
        return self.shards

    def _n_reports_of_one(self) -> int:
        levels = self.rounds + 1 - self.first_level
        rounds = super()._n_reports_of_one()
        return rounds + 1 + levels * (self.conditional_iterations + 1)

    def _trainer(self) -> type[Trainer[Any]]:
        from .training import ConditionalGrammarTrainer

        return ConditionalGrammarTrainer
