"""Settings of the sequence learners, one class for each registered architecture.

`estimators.training` has the functions that train them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ..learning import settings
from ..learning.settings import Settings, Variants, setting
from ..words.classes import WordClasses, derive_columns, source_columns
from .layout.data import Symbols
from .layout.encoding import PLAIN, SCHEMES
from .layout.features import SHA_PEREIRA, Templates, check_single_symbols

STRENGTHS = (30.0, 100.0, 10.0, 3.0)
"""Strengths of the prior when a model learns on. With the first, what is learned from a hundred
sentences of another domain costs little on the old one."""


def _smoothing() -> Any:
    text = "Added to the count of each label trigram that the encoding allows. The paper uses 0; "
    text += "a sentence that needs a trigram never seen then has no analysis."
    return setting(1e-3, ge=0, help=text)


@dataclass(frozen=True, kw_only=True)
class SequenceSettings(Settings):
    """Settings that all sequence learners share."""

    encoding: str = setting(
        "IOB2",
        choices=(*SCHEMES, PLAIN),
        help='Scheme that encodes chunks as tags. "none": each token has a label of its own.',
    )


@dataclass(frozen=True, kw_only=True)
class ChainSettings(SequenceSettings):
    """Settings that all sequence learners with feature templates share."""

    templates: Sequence[str] | None = setting(
        None,
        help='Feature templates over the tokens around a position, such as "ORTH[-1]|ORTH[0]".'
        " They combine token attributes of spaCy, word classes (CLASS, or CLASS8 for the first 8"
        " bits of the path) and spelling (PREFIX2, SUFFIX4, FLAGS). None: the templates of Sha and"
        " Pereira (2003) over ORTH and TAG.",
    )
    min_count: int = setting(
        1, ge=1, help="Minimum number of tokens with a predicate; rarer predicates are ignored."
    )
    order: int = setting(
        1, choices=(1, 2), help="1: states are labels. 2: states are pairs of labels."
    )
    pair_features: bool = setting(
        True, help="Whether predicates are also combined with pairs of labels, if order is 2."
    )
    classes: Path | WordClasses | None = setting(
        None, help="File of word classes, needed in training only."
    )
    warm_start: bool = setting(
        False, help="Whether retraining a component starts from its previous weights."
    )

    key_bits: ClassVar[int] = 64
    """Bits of the keys of predicates; fewer bits make a smaller model (see `Templates`)."""

    @property
    def own_templates(self) -> Templates:
        """The feature templates."""
        texts = SHA_PEREIRA if self.templates is None else self.templates
        return Templates(texts, self.key_bits)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that the templates read."""
        return self.own_templates.columns

    @cached_property
    def attributes(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns to read from the text, in order."""
        return source_columns(self.columns)

    @cached_property
    def word_classes(self) -> WordClasses | None:
        """The word classes. Raises StructlearnError if the file cannot be read."""
        if isinstance(self.classes, Path):
            return WordClasses.from_bytes(self.content("classes"))
        return self.classes

    def derive(self, columns: Symbols) -> Symbols:
        """Compute `columns` from those of the text, with the word classes if needed."""
        return derive_columns(columns, self.columns, self.word_classes)


@dataclass(frozen=True, kw_only=True)
class LikelihoodSettings(ChainSettings):
    """Settings of learners that minimise a penalised loss with L-BFGS, or OWL-QN if l1 is set."""

    l2: float = settings.l2(2.0)
    l1: float = settings.l1()
    max_iterations: int = settings.max_iterations(300)
    tolerance: float = setting(
        1e-5,
        ge=0,
        help="Training ends when the mean relative decrease of the objective over ten iterations is"
        " below this.",
    )
    threads: int = settings.threads()
    shards: int = settings.shards()

    strengths: ClassVar[tuple[float, ...]] = STRENGTHS


@dataclass(frozen=True, kw_only=True)
class CRFSettings(LikelihoodSettings):
    """Conditional random field over label sequences (Lafferty et al. 2001)."""

    name: ClassVar[str] = "CRF"


@dataclass(frozen=True, kw_only=True)
class MEMMSettings(LikelihoodSettings):
    """Maximum entropy Markov model (McCallum, Freitag & Pereira 2000).

    Predicts each label from the labels before it, which are gold labels in training. Faster than a
    CRF, and less accurate.
    """

    name: ClassVar[str] = "MEMM"


@dataclass(frozen=True, kw_only=True)
class PseudoLikelihoodSettings(LikelihoodSettings):
    """Pseudolikelihood of label sequences (Besag 1975; Smith, Vail & Lafferty 2007).

    Predicts each label from all others, which are gold labels in training.
    """

    name: ClassVar[str] = "PseudoLikelihood"
    variants: ClassVar[Variants] = {"joint": {"joint": True, "templates": ["ORTH[0]", "TAG[0]"]}}

    joint: bool = setting(
        False,
        help="Whether to predict words and tags from the labels, too. Vocabularies are then closed"
        " (symbols seen once are one unknown symbol), and a template reads a single position.",
    )

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        yield from super().constraints()
        if self.joint:
            check_single_symbols(self.own_templates)


@dataclass(frozen=True, kw_only=True)
class StochasticCRFSettings(ChainSettings):
    """Conditional random field of first order for many labels, such as part-of-speech tags.

    Considers only the likely labels of each token, and updates the weights after each sentence
    (Duchi, Hazan & Singer 2011).
    """

    name: ClassVar[str] = "StochasticCRF"
    key_bits: ClassVar[int] = 40

    order: int = setting(1, choices=(1,), exposed=False, help="States are labels.")
    pair_features: bool = setting(False, exposed=False, help="States are labels, never pairs.")
    max_iterations: int = settings.max_iterations(5)
    learn_rate: float = settings.learn_rate(0.3)
    damping: float = setting(
        0.3, gt=0, help="Added to the root of the sum of squared gradients in the step size."
    )
    l1: float = settings.l1(0.1)
    margin: float = setting(
        6.0,
        gt=0,
        help="Labels whose score at a token is lower than that of the best label by more than this"
        " (in nats) are pruned.",
    )
    seed: int = settings.seed()

    strengths: ClassVar[tuple[float, ...]] = STRENGTHS


@dataclass(frozen=True, kw_only=True)
class HMMSettings(SequenceSettings):
    """Second-order hidden Markov model (Smith, Vail & Lafferty 2007), trained by counting."""

    name: ClassVar[str] = "HMM"

    word: str = setting("ORTH", help="Token attribute to use as the word.")
    tag: str = setting("TAG", help="Token attribute to use as the tag.")
    smoothing: float = _smoothing()

    @property
    def attributes(self) -> tuple[str, str]:  # type: ignore[override]
        """The columns of words and tags."""
        return self.word, self.tag

    def derive(self, columns: Symbols) -> Symbols:
        """Return `columns`: nothing is derived."""
        return columns


@dataclass(frozen=True, kw_only=True)
class MEstimationSettings(ChainSettings):
    """Second-order chain by M-estimation (Smith, Vail & Lafferty 2007): trains in seconds.

    Feature weights, learned without inference, correct a base distribution estimated by counting.
    The order of the sentences does not matter.
    """

    name: ClassVar[str] = "MEstimation"
    variants: ClassVar[Variants] = {
        "locally_uniform": {"base": "locally_uniform", "l2": 0.1},
        "empirical": {"base": "empirical"},
    }

    order: int = setting(2, choices=(2,), exposed=False, help="States are pairs of labels.")
    warm_start: bool = setting(
        False, exposed=False, help="Not used: training always starts from the base distribution."
    )
    base: str = setting(
        "hmm",
        choices=("hmm", "locally_uniform", "empirical"),
        help="Base distribution: the HMM of the paper, its locally uniform distribution, or the"
        " empirical distribution of the sentences with the labels that the HMM expects.",
    )
    smoothing: float = _smoothing()
    l2: float | None = setting(
        None,
        ge=0,
        help=f"Strength of the Gaussian prior on the weights w, {settings.L2}, next to the mean"
        " over the sentences. With 0 there is usually no minimum; training then stops as soon as"
        " this is certain, and no weight exceeds 20. None: 1 or, with the empirical base, 150 over"
        " the number of sentences.",
    )
    max_iterations: int = settings.max_iterations(100)
    tolerance: float = setting(
        1e-4,
        ge=0,
        help="Training ends when the relative duality gap is at most this or, if l2 is 0, when the"
        " mean relative decrease of the objective over ten iterations is.",
    )
    samples: int = setting(
        0,
        ge=0,
        le=10_000_000,
        help="Number of sentences to sample from the base distribution for estimates of expected"
        " feature counts. 0: compute them exactly.",
    )
    seed: int = settings.seed()
    input_only: bool = setting(
        False,
        help="Whether to train weights of predicates without labels, too; they are dropped after"
        " training.",
    )

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        conditional = self.base == "empirical"
        yield "samples", f"0 for {self.base}", not (self.samples and conditional)
        yield "input_only", f"false for {self.base}", not (self.input_only and conditional)
        yield "templates", "templates that read a column", self.columns
        # With smaller ones, weights overflow.
        yield "l2", "0, or at least 1e-9", self.l2 is None or self.l2 == 0 or self.l2 >= 1e-9

    def strength(self, n_sentences: int) -> float:
        """Return l2, or the default for this number of sentences."""
        if self.l2 is not None:
            return self.l2
        # The same on 100 to 5,000 sentences of EWT. The HMM's expectations are not as noisy.
        return 150 / n_sentences if self.base == "empirical" else 1.0
