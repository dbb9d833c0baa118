"""Settings of M-estimated grammars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...learning import settings as core
from ...learning.settings import Settings, setting
from ..latent.settings import LatentGrammarSettings
from ..spans.settings import BASE

PASSES = 10  # over the trees in a step


@dataclass(frozen=True, kw_only=True)
class MEstimatedGrammarSettings(Settings):
    """Grammar corrected by features of fragments of trees (Smith, Vail & Lafferty 2007).

    M-estimation parses no sentences in training: the expectations of the features have a closed
    form.
    """

    name: ClassVar[str] = "MEstimatedGrammar"
    attributes: ClassVar[tuple[str, ...]] = ("ORTH",)

    grammar: LatentGrammarSettings | None = setting(
        None, help=BASE.format("a treebank grammar, without any splitting")
    )
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
    seed: int = core.seed()

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        number = self.base.grammars
        yield "grammar", f"one grammar, not a product of {number}", number == 1
        if self.templates is not None:
            from .features import FragmentTemplates

            yield "templates", "one or more", self.templates
            FragmentTemplates(self.templates)

    @property
    def base(self) -> LatentGrammarSettings:
        """The grammar that is corrected."""
        return LatentGrammarSettings(rounds=0) if self.grammar is None else self.grammar

    @property
    def n_reports(self) -> int:
        """The largest number of reports and steps."""
        return self.base.n_reports + 2 + self.max_iterations + self.max_iterations // PASSES
