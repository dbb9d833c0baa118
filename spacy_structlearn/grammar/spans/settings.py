"""Settings of grammars that score spans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...learning import settings as core
from ...learning.settings import Settings, setting
from ..latent.settings import LatentGrammarSettings

REPORTS = 20  # largest number of reports in an epoch or for the forests of a fold
BASE = (
    "The grammar that parses first, as a block: spacy_structlearn.LatentGrammar or "
    "spacy_structlearn.ConditionalGrammar. None: {}."
)


@dataclass(frozen=True, kw_only=True)
class SpanFeaturesSettings(Settings):
    """Linear scores of symbols over spans, learned by AdaGrad with an L1 penalty."""

    templates: Sequence[str] | None = setting(
        None,
        help='Feature templates of a span, such as "WORD[first]|SUFFIX3[after]" or "LENGTH", see '
        "`grammar.spans.features`. None: those of Hall, Durrett & Klein (2014), and tags.",
    )
    tag_templates: Sequence[str] | None = setting(
        None,
        help='Feature templates of the word under a tag, such as "SUFFIX2[0]|WORD[-1]". None: its '
        "spelling and its neighbours.",
    )
    buckets: int = setting(
        2**20,
        ge=2**8,
        le=2**30,
        help="Number of weights, a power of 2. Features are hashed to them.",
    )
    min_word_count: int = setting(
        2, ge=1, help="Rarer words of the training data are known by shape and suffix only."
    )
    l1_per_sentence: float = setting(
        3e-4, ge=0, help="Strength of the L1 penalty, divided by the number of sentences."
    )
    learn_rate: float = core.learn_rate(0.1, "Learning rate of AdaGrad.")

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        yield from super().constraints()
        yield "buckets", "a power of 2", self.buckets & (self.buckets - 1) == 0
        if self.templates is not None or self.tag_templates is not None:
            from .features import SpanTemplates

            SpanTemplates(self.templates, self.tag_templates)


@dataclass(frozen=True, kw_only=True)
class SpanGrammarSettings(SpanFeaturesSettings):
    """Latent grammar whose trees are rescored by features of the words around each span.

    A CRF over the forest that the grammar leaves of a sentence (Hall, Durrett & Klein 2014). In
    training, grammars of other folds parse each sentence. More accurate than the grammar alone and
    nearly as fast.
    """

    name: ClassVar[str] = "SpanGrammar"
    attributes: ClassVar[tuple[str, ...]] = ("ORTH",)
    # Weaker ones were not clearly better on other trees of six domains, but chosen by mistake.
    strengths: ClassVar[tuple[float, ...]] = (1.0, 4.0)

    grammar: LatentGrammarSettings | None = setting(
        None, help=BASE.format("a latent grammar with its default settings")
    )
    folds: int = setting(
        5,
        ge=2,
        help="Number of folds. The trees of each are parsed by a grammar trained on the others.",
    )
    max_iterations: int = core.max_iterations(6, ge=0)
    batch_size: int = setting(32, ge=1, help="Number of sentences per update.")
    seed: int = core.seed()
    threads: int = core.threads()

    @property
    def features(self) -> SpanFeaturesSettings:
        """The settings of the linear scores."""
        return self.part(SpanFeaturesSettings)

    @property
    def base(self) -> LatentGrammarSettings:
        """The settings of the grammar that parses first."""
        return LatentGrammarSettings() if self.grammar is None else self.grammar

    @property
    def fold_base(self) -> LatentGrammarSettings:
        """The settings of the grammar of a fold."""
        return self.base.part(type(self.base), grammars=1)

    @property
    def n_reports(self) -> int:
        """The largest number of reports and steps."""
        rounds = self.base.n_reports + 1 + self.folds * (self.fold_base.n_reports + 1)
        return rounds + (self.folds + self.max_iterations) * (REPORTS + 1) - 1
