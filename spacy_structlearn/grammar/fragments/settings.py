"""Settings of M-estimated grammars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...learning import settings as core
from ...learning.settings import Settings, setting
from ..latent.settings import LatentGrammarSettings
from ..spans.settings import BASE, PRUNED, REPORTS, ForestSettings

PASSES = 10  # over the trees in a step


@dataclass(frozen=True, kw_only=True)
class FragmentFeaturesSettings(Settings):
    """Features of fragments of trees."""

    templates: Sequence[str] | None = setting(
        None,
        help='Feature templates such as "RULE|PARENT" or "LABEL|WORD[first]", see '
        "`grammar.fragments.features`. None: local substructures and the words around spans.",
    )
    min_count: int = setting(
        2, ge=1, help="Least number of occurrences of a feature in the training data."
    )
    min_word_count: int = setting(
        2, ge=1, help="Least number of occurrences of a known word in the training data."
    )

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        yield from super().constraints()
        if self.templates is not None:
            from .features import FragmentTemplates

            yield "templates", "one or more", self.templates
            FragmentTemplates(self.templates)


@dataclass(frozen=True, kw_only=True)
class MEstimatedGrammarSettings(ForestSettings, FragmentFeaturesSettings):
    """Grammar corrected by features of fragments of trees (Smith, Vail & Lafferty 2007).

    M-estimation parses no sentences in training: the expectations of the features have a closed
    form. It can be followed by maximizing the conditional likelihood of the trees, which is more
    accurate but parses the training sentences. The settings `folds`, `threshold`, `start` and
    `conditional_*` are for this second phase.
    """

    name: ClassVar[str] = "MEstimatedGrammar"

    grammar: LatentGrammarSettings | None = setting(
        None, help=BASE.format("a treebank grammar, without any splitting")
    )
    l2: float = setting(
        1.0,
        ge=1e-9,
        help="Strength of the Gaussian prior on the weight of a feature that occurs once per tree "
        f"on average, {core.L2}. For a feature that occurs m times it is l2 m^scaling.",
    )
    scaling: float = setting(
        0.75,
        ge=0,
        le=2,
        help="How much weaker the prior on rare features is. 0: the same for all, as in the paper.",
    )
    tolerance: float = setting(
        1e-4, ge=0, help="M-estimation ends when the duality gap is at most this."
    )
    max_iterations: int = core.max_iterations(50, ge=0)
    conditional_iterations: int = setting(
        0,
        ge=0,
        help="Largest number of L-BFGS iterations on the conditional likelihood. 0: skip it.",
    )
    conditional_l2: float = core.l2(2.0)
    start: str = setting(
        "m_estimate",
        choices=("m_estimate", "zero"),
        help="Where this maximization starts: at a fraction of the M-estimate, or at zero, without "
        "M-estimation.",
    )
    threshold: float = setting(1e-2, ge=0, le=1, help=f"{PRUNED}Use the same threshold in parsing.")

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        yield from super().constraints()
        number = self.base.grammars
        yield "grammar", f"one grammar, not a product of {number}", number == 1

    @property
    def base(self) -> LatentGrammarSettings:
        """The grammar that is corrected."""
        return LatentGrammarSettings(rounds=0) if self.grammar is None else self.grammar

    @property
    def n_reports(self) -> int:
        """The largest number of reports and steps."""
        most = self.base.n_reports + 1 + self.max_iterations + self.max_iterations // PASSES + 1
        if self.conditional_iterations:
            fold = self.base.n_reports + REPORTS + 2
            most += self.folds * fold + 2 * self.conditional_iterations
        return most
