"""Settings of the learners of grammars: latent grammars, generative and conditional."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import Any, ClassVar

from ..learning import settings as core
from ..learning.settings import Settings, setting
from ..learning.training import Trainer
from ..optimize.shards import MakeEngine, make_engine
from ..trees.signatures import NORMALIZATIONS, SIGNATURES
from ..trees.tree import Tree
from .model import LatentGrammar
from .symbols import BINARIZATIONS, ROOT, TreebankData, binarize, concatenate

Trees = Sequence[Tree | Sequence[Tree] | TreebankData]
"""Training data: normalised trees, lists of them, or encoded ones."""
MOST_ROUNDS = 8
MOST_CONDITIONAL_ROUNDS = 6  # a forest has bits for 64 substates


def _smoothing(default: float, what: str, of: str) -> Any:
    text = f"Share of the probability of {what} that comes from the mean of {of}."
    return setting(default, ge=0, le=1, help=text)


def _em_iterations(default: int, when: str) -> Any:
    return setting(default, ge=0, help=f"Largest number of iterations of EM {when}, in each round.")


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
        for name, registry, value in (
            ("signature", SIGNATURES, self.signature),
            ("normalization", NORMALIZATIONS, self.normalization or "typographic"),
        ):
            known = ", ".join(sorted(registry.get_all()))
            yield name, f"registered ({known})", value in registry

    @property
    def rare_below(self) -> int:
        """Words seen less often are rare."""
        usual = 21 if self.lexicon == "smoothed" else 6
        return usual if self.min_word_count is None else self.min_word_count


@dataclass(frozen=True, kw_only=True)
class LatentGrammarSettings(LexiconSettings):
    """Grammar with latent annotations, by split-merge EM on observed trees (Petrov & Klein 2007).

    Rounds of splitting every symbol, EM, taking back the splits that gain least, EM, and EM with
    smoothing. Several grammars, learned with different random numbers, parse as a product (Petrov
    2010), which is more accurate and takes longer.
    """

    name: ClassVar[str] = "LatentGrammar"
    attributes: ClassVar[tuple[str, ...]] = ("ORTH",)

    rounds: int = setting(4, ge=0, le=MOST_ROUNDS, help="Rounds of splitting every symbol in two.")
    seed: int = core.seed()
    merge_fraction: float = setting(
        0.5, ge=0, le=1, help="Share of the splits taken back in each round, those that gain least."
    )
    rule_smoothing: float = _smoothing(
        0.01, "a rule", "the other substates that began as one with its own"
    )
    lexicon_smoothing: float = _smoothing(
        0.1, "a word", "the other substates that began as one with its own"
    )
    split_iterations: int = _em_iterations(50, "after splitting")
    merge_iterations: int = _em_iterations(20, "after merging")
    smooth_iterations: int = _em_iterations(10, "with smoothing")
    tolerance: float = setting(
        0.0,
        ge=0,
        help="EM ends early when the log-likelihood rises by less than this, relative to itself.",
    )
    binarization: str = setting(
        "right", choices=BINARIZATIONS, help="Side on which long rules are binarized."
    )
    root: str = setting(ROOT, exposed=False, help="Label above the trees.")
    grammars: int = setting(
        1,
        ge=1,
        help="Number of grammars, learned with consecutive seeds, that parse as a product. "
        "Training takes this many times as long.",
    )
    threads: int = core.threads()
    shards: int = core.shards()

    @property
    def n_reports(self) -> int:
        """Calls of `on_iteration` and steps, at most."""
        return self.grammars * (self._n_reports_of_one() + 1) - 1

    def _n_reports_of_one(self) -> int:
        iterations = self.split_iterations + self.merge_iterations + self.smooth_iterations
        return self.rounds * (iterations + 1)

    def encode(self, data: Trees) -> TreebankData:
        """All trees of `data` as arrays."""
        parts: list[TreebankData] = []
        trees: list[Tree] = []
        for part in data:
            if isinstance(part, TreebankData):
                parts.append(part)
            elif isinstance(part, Tree):
                trees.append(part)
            else:
                trees.extend(part)
        if trees or not parts:
            parts.append(binarize(trees, self.binarization, self.root))
        return concatenate(parts)

    def empty(self) -> LatentGrammar:
        """A grammar without symbols."""
        return LatentGrammar.empty()

    def initialize(
        self, data: Trees, labels: Sequence[str] = (), previous: LatentGrammar | None = None
    ) -> LatentGrammar:
        """The treebank grammar, level 0. Symbols are those of the trees; labels and what was
        learned before have no part in it. Raises StructlearnError if there are no trees.
        """
        from .em import treebank_grammar

        return treebank_grammar(self.encode(data), self)

    def trainer(
        self, parameters: Any, data: Trees, *, make_engine: MakeEngine = make_engine
    ) -> Trainer[Any]:
        """Training from the treebank grammar on, which follows from the data alone."""
        from .product import ProductTrainer

        kind = ProductTrainer if self.grammars > 1 else self._trainer()
        return kind(self, data, make_engine=make_engine)

    def _trainer(self) -> type[Trainer[Any]]:
        """How one grammar is trained."""
        from .estimators import LatentGrammarTrainer

        return LatentGrammarTrainer


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
        choices=("generative", "uniform"),
        help="What weights are corrections of: the generative probability, to which the penalties "
        "draw a weight, or 1, as in the paper.",
    )
    scales: str = setting(
        "own",
        choices=("own", "all"),
        help="Parameters of a level: of its own productions, or of those of all levels up to it, "
        "which are added up (Petrov & Klein 2008).",
    )
    start: str = setting(
        "generative",
        choices=("generative", "copy"),
        help="First weights of a level: its generative probabilities, or a copy of the weights of "
        "the level before it.",
    )
    first_level: int = setting(0, ge=0, help="Levels before this one stay generative.")
    l1: float = core.l1(1.0)
    l2: float = core.l2(0.0, "parameters theta, here called")
    solver: str = setting(
        "lbfgs",
        choices=("lbfgs", "adagrad"),
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
        choices=("cached", "coarse_to_fine", "none"),
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
        from .hierarchical import ConditionalGrammarTrainer

        return ConditionalGrammarTrainer
