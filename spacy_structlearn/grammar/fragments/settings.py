"""Settings of M-estimated grammars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...learning import settings as core
from ...learning.settings import Settings, setting
from ...learning.training import Trainer
from ...parallel.shards import MakeEngine, make_engine
from ..latent.settings import LatentGrammarSettings
from ..spans.settings import BASE, ForestSettings, threshold_setting
from ..treebank.settings import Trees


@dataclass(frozen=True, kw_only=True)
class FragmentFeaturesSettings(Settings):
    """Which features of fragments of trees there are."""

    templates: Sequence[str] | None = setting(
        None,
        help='Features, such as "RULE|PARENT" or "LABEL|WORD[first]", in the notation of '
        "`grammar.fragments.features`. None: local substructures and the words at the ends of "
        "spans.",
    )
    min_count: int = setting(
        2, ge=1, help="Features seen less often in the training data are left out."
    )
    min_word_count: int = setting(
        2, ge=1, help="Words seen less often in the training data are unknown words."
    )

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        yield from super().constraints()
        if self.templates is not None:
            from .features import FragmentTemplates

            yield "templates", "one or more", self.templates
            FragmentTemplates.of(self)


@dataclass(frozen=True, kw_only=True)
class MEstimatedGrammarSettings(ForestSettings, FragmentFeaturesSettings):
    """Grammar corrected by features of fragments of trees (Smith, Vail & Lafferty 2007).

    M-estimation: how often the grammar expects each feature has a closed form, and the treebank is
    counted once, so that no sentence is parsed in training. The settings `folds`, `threshold`,
    `start` and those called conditional are of what may follow: maximizing the conditional
    likelihood of the trees, which is more accurate, but parses the training sentences.
    """

    name: ClassVar[str] = "MEstimatedGrammar"

    grammar: LatentGrammarSettings | None = setting(
        None, help=BASE.format("a treebank grammar, without any splitting")
    )
    l2: float = setting(
        1.0,
        gt=0,
        help="Strength of the Gaussian prior on the weight of a feature that occurs once in a tree "
        f"on average, {core.L2}; on one that occurs m times it is l2 m^scaling.",
    )
    scaling: float = setting(
        0.75,
        ge=0,
        help="How much weaker the prior on rare features is. 0: one for all, as in the paper.",
    )
    tolerance: float = setting(
        1e-4, ge=0, help="Training ends when the duality gap is at most this."
    )
    max_iterations: int = core.max_iterations(50, ge=0)
    conditional_iterations: int = setting(
        0,
        ge=0,
        help="Largest number of iterations of L-BFGS on the conditional likelihood. 0: none.",
    )
    conditional_l2: float = core.l2(2.0)
    start: str = setting(
        "m_estimate",
        choices=("m_estimate", "zero"),
        help="First weights of these iterations: a fraction of the M-estimate, or zero, without "
        "M-estimation before.",
    )
    threshold: float = threshold_setting(1e-2)

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        yield from super().constraints()
        yield "grammar", "one grammar, not a product", self.base.grammars == 1

    @property
    def base(self) -> LatentGrammarSettings:
        """The grammar that is corrected."""
        return LatentGrammarSettings(rounds=0) if self.grammar is None else self.grammar

    @property
    def n_reports(self) -> int:
        """Calls of `on_iteration` and steps, at most."""
        from ..spans.training import REPORTS
        from .training import PASSES

        found = self.base.n_reports + 1 + self.max_iterations + self.max_iterations // PASSES + 1
        if self.conditional_iterations:
            fold = self.base.n_reports + REPORTS + 2
            found += self.folds * fold + 2 * self.conditional_iterations
        return found

    def empty(self) -> Any:
        """Return a grammar without symbols."""
        from .weights import FragmentGrammar

        return FragmentGrammar.empty()

    def initialize(self, data: Any, labels: Sequence[str] = (), previous: Any = None) -> Any:
        """Return the treebank grammar, without features."""
        from .weights import FragmentGrammar

        return FragmentGrammar(self.base.initialize(data, labels))

    def trainer(
        self, parameters: Any, data: Trees, *, make_engine: MakeEngine = make_engine
    ) -> Trainer[Any]:
        """Training from the treebank grammar on; it follows from the data alone."""
        from .training import MEstimatedGrammarTrainer

        return MEstimatedGrammarTrainer(self, data, make_engine=make_engine)
