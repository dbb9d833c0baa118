"""Settings of latent grammars trained by EM."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ...learning import settings as core
from ...learning.settings import Variants, setting
from ..treebank.data import BINARIZATIONS
from ..treebank.settings import LexiconSettings
from ..treebank.symbols import ROOT

MAX_ROUNDS = 8
MAX_GRAMMARS = 100
MAX_EM_ITERATIONS = 10_000  # EM does not end by itself


def _smoothing(default: float, what: str, of: str) -> Any:
    text = f"Weight of the mean over {of} in the probability of {what}."
    return setting(default, ge=0, le=1, help=text)


def _em_iterations(default: int, when: str) -> Any:
    text = f"Largest number of EM iterations {when}, in each round."
    return setting(default, ge=0, le=MAX_EM_ITERATIONS, help=text)


@dataclass(frozen=True, kw_only=True)
class LatentGrammarSettings(LexiconSettings):
    """Grammar with latent annotations, by split-merge EM on observed trees (Petrov & Klein 2007).

    Each round splits every symbol, runs EM, merges the splits that gain least, runs EM again, and
    runs EM with smoothing. Several grammars, trained with different random numbers, parse as a
    product (Petrov 2010), which is more accurate and takes longer.
    """

    name: ClassVar[str] = "LatentGrammar"
    variants: ClassVar[Variants] = {"treebank": {"rounds": 0}}
    attributes: ClassVar[tuple[str, ...]] = ("ORTH",)
    strengths: ClassVar[tuple[float, ...]] = (1000.0, 10_000.0, 100.0)

    rounds: int = setting(4, ge=0, le=MAX_ROUNDS, help="Rounds of splitting every symbol in two.")
    seed: int = core.seed()
    merge_fraction: float = setting(
        0.5, ge=0, le=1, help="Share of the splits that each round undoes: those that gain least."
    )
    rule_smoothing: float = _smoothing(0.01, "a rule", "the other substates of the same origin")
    lexicon_smoothing: float = _smoothing(0.1, "a word", "the other substates of the same origin")
    split_iterations: int = _em_iterations(50, "after splitting")
    merge_iterations: int = _em_iterations(20, "after merging")
    smooth_iterations: int = _em_iterations(10, "with smoothing")
    binarization: str = setting(
        "right", choices=BINARIZATIONS, help="Direction in which long rules are binarized."
    )
    root: str = setting(ROOT, exposed=False, help="Label above the trees.")
    grammars: int = setting(
        1,
        ge=1,
        le=MAX_GRAMMARS,
        help="Number of grammars, trained with consecutive seeds, that parse as a product. "
        "Training time is proportional to it.",
    )
    prior: Path | None = setting(
        None,
        help="File of a grammar to learn on from, such as one of trees of raw text by another "
        "parser. Needed in training only.",
    )
    prior_trees: float = setting(
        10_000.0, gt=0, help="Number of trees for which `prior` stands, beside those of the data."
    )
    threads: int = core.threads()

    @property
    def n_reports(self) -> int:
        """Largest number of calls of `on_iteration` and of steps."""
        return self.grammars * (self._n_reports_of_one() + 1) - 1

    def _n_reports_of_one(self) -> int:
        iterations = self.split_iterations + self.merge_iterations + self.smooth_iterations
        return self.rounds * (iterations + 1)
