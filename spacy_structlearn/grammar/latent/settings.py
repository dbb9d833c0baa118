"""Settings of latent grammars trained by EM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ...errors import StructlearnError
from ...learning import settings as core
from ...learning.settings import setting
from ...learning.training import Trainer
from ...parallel.shards import MakeEngine, make_engine
from ...trees.tree import Tree
from ..treebank.settings import LexiconSettings, Trees
from ..treebank.symbols import BINARIZATIONS, ROOT, TreebankData, binarize, concatenate

if TYPE_CHECKING:
    from .model import LatentGrammar

MOST_ROUNDS = 8
MOST_GRAMMARS = 100
MOST_EM_ITERATIONS = 10_000  # EM does not end by itself if `tolerance` is 0


def _smoothing(default: float, what: str, of: str) -> Any:
    text = f"Weight of the mean over {of} in the probability of {what}."
    return setting(default, ge=0, le=1, help=text)


def _em_iterations(default: int, when: str) -> Any:
    text = f"Largest number of EM iterations {when}, in each round."
    return setting(default, ge=0, le=MOST_EM_ITERATIONS, help=text)


@dataclass(frozen=True, kw_only=True)
class LatentGrammarSettings(LexiconSettings):
    """Grammar with latent annotations, by split-merge EM on observed trees (Petrov & Klein 2007).

    Each round splits every symbol, runs EM, merges the splits that gain least, runs EM again, and
    runs EM with smoothing. Several grammars, trained with different random numbers, parse as a
    product (Petrov 2010), which is more accurate and takes longer.
    """

    name: ClassVar[str] = "LatentGrammar"
    attributes: ClassVar[tuple[str, ...]] = ("ORTH",)
    strengths: ClassVar[tuple[float, ...]] = (1000.0, 10_000.0, 100.0)

    rounds: int = setting(4, ge=0, le=MOST_ROUNDS, help="Rounds of splitting every symbol in two.")
    seed: int = core.seed()
    merge_fraction: float = setting(
        0.5, ge=0, le=1, help="Share of the splits that each round undoes: those that gain least."
    )
    rule_smoothing: float = _smoothing(0.01, "a rule", "the other substates of the same origin")
    lexicon_smoothing: float = _smoothing(0.1, "a word", "the other substates of the same origin")
    split_iterations: int = _em_iterations(50, "after splitting")
    merge_iterations: int = _em_iterations(20, "after merging")
    smooth_iterations: int = _em_iterations(10, "with smoothing")
    tolerance: float = setting(
        0.0,
        ge=0,
        help="EM stops early when the relative gain in log-likelihood is less than this.",
    )
    binarization: str = setting(
        "right", choices=BINARIZATIONS, help="Direction in which long rules are binarized."
    )
    root: str = setting(ROOT, exposed=False, help="Label above the trees.")
    grammars: int = setting(
        1,
        ge=1,
        le=MOST_GRAMMARS,
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
    shards: int = core.shards()

    @property
    def n_reports(self) -> int:
        """Largest number of calls of `on_iteration` and of steps."""
        return self.grammars * (self._n_reports_of_one() + 1) - 1

    def _n_reports_of_one(self) -> int:
        iterations = self.split_iterations + self.merge_iterations + self.smooth_iterations
        return self.rounds * (iterations + 1)

    def encode(self, data: Trees) -> TreebankData:
        """Encode all trees of `data` as arrays."""
        parts = [part for part in data if isinstance(part, TreebankData)]
        others = (part for part in data if not isinstance(part, TreebankData))
        trees = [tree for part in others for tree in ([part] if isinstance(part, Tree) else part)]
        if trees or not parts:
            parts.append(binarize(trees, self.binarization, self.root))
        return concatenate(parts)

    def empty(self) -> LatentGrammar:
        """A grammar without symbols."""
        from .model import LatentGrammar

        return LatentGrammar.empty()

    def initialize(
        self, data: Trees, labels: Sequence[str] = (), previous: LatentGrammar | None = None
    ) -> LatentGrammar:
        """The treebank grammar, level 0; `labels` and `previous` are not used.

        Raises StructlearnError if there are no trees.
        """
        from .em import treebank_grammar

        return treebank_grammar(self.encode(data), self)

    def trainer(
        self, parameters: Any, data: Trees, *, make_engine: MakeEngine = make_engine
    ) -> Trainer[Any]:
        """Start training from `prior`, or the treebank grammar of the data.

        `parameters` are not used. Raises the errors of `read_prior`.
        """
        from .product import ProductTrainer

        prior = self.read_prior()
        if prior is not None:
            return self.adapter(prior, data, strength=self.prior_trees, make_engine=make_engine)
        kind = ProductTrainer if self.grammars > 1 else self._trainer()
        return kind(self, data, make_engine=make_engine)

    def read_prior(self) -> LatentGrammar | None:
        """Read the first `grammars` grammars of `prior`; None if there is no prior.

        With a grammar of the trees of another parser this is self-training (McClosky et al. 2006),
        from which latent grammars gain more than others (Huang & Harper 2009).

        Raises StructlearnError if the file is missing or damaged, or has fewer members.
        """
        from .model import LatentGrammar

        if self.prior is None:
            return None
        grammar = LatentGrammar.from_bytes(self.content("prior"))
        if self.grammars > grammar.members + 1:
            raise StructlearnError("SL409", path=self.prior, number=grammar.members + 1)
        return grammar.first_grammars(self.grammars)

    def adapter(
        self,
        parameters: LatentGrammar,
        data: Trees,
        labels: Sequence[str] = (),
        *,
        strength: float,
        make_engine: MakeEngine = make_engine,
    ) -> Trainer[Any]:
        """Learn on from `parameters`; `labels` are not used.

        strength: the number of trees for which the old grammar stands, beside those of the data.
        """
        from .adaptation import AdaptationTrainer

        return AdaptationTrainer(self, parameters, data, strength=strength, make_engine=make_engine)

    def _trainer(self) -> type[Trainer[Any]]:
        """The trainer of a single grammar."""
        from .training import LatentGrammarTrainer

        return LatentGrammarTrainer
