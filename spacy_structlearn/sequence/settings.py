"""Settings of the learners of chains: what a registered architecture names.

They fix what there is to learn (`initialize`) and give a trainer, which can take in more data
between steps. What trains is imported when it is needed: who loads a pipeline pays for none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..learning import settings
from ..learning.settings import Settings, setting
from ..parallel.shards import MakeEngine, make_engine
from .classes import WordClasses, derive_columns, read_classes, source_columns
from .data import SequenceData, arranged, concatenate
from .encoding import PLAIN, SCHEMES, tag_set
from .features import SHA_PEREIRA, Templates
from .model import ChainModel

if TYPE_CHECKING:
    from ..learning.training import Trainer
    from .conditional import ChainObjective


def _smoothing() -> Any:
    text = "Added to the count of each label trigram that the encoding allows. The paper has 0, "
    text += "which leaves sentences of which some trigram was never seen without an answer."
    return setting(1e-3, ge=0, help=text)


@dataclass(frozen=True, kw_only=True)
class SequenceSettings(Settings):
    """What all learners of chains have in common."""

    encoding: str = setting(
        "IOB2",
        choices=(*SCHEMES, PLAIN),
        help='How chunks become labels; "none" for labels of tokens, without chunks.',
    )

    def _trainer(self) -> Callable[..., Trainer]:
        """What trains: a class."""
        raise NotImplementedError

    def empty(self) -> ChainModel:
        """What an untrained component holds."""
        return ChainModel.empty()

    def trainer(
        self,
        parameters: ChainModel,
        data: Sequence[SequenceData],
        *,
        make_engine: MakeEngine = make_engine,
    ) -> Trainer:
        """Training on `data` that goes on from `parameters`, if it needs a place to begin."""
        return self._trainer()(self, parameters, data, make_engine=make_engine)

    def _unknowing(self, labels: Sequence[str], templates: Templates) -> ChainModel:
        """A model of labels, without any predicate."""
        tags = tag_set(labels, self.encoding)
        n = len(tags)
        keys, weights = np.empty(0, dtype=np.uint64), np.empty((0, n))
        return ChainModel(tags, templates, keys, weights, np.zeros((n, n)), encoding=self.encoding)


@dataclass(frozen=True, kw_only=True)
class ChainSettings(SequenceSettings):
    """What all learners of chains with templates have in common."""

    templates: Sequence[str] | None = setting(
        None,
        help='Predicates on the tokens around a position, such as "ORTH[-1]|ORTH[0]". Names are'
        " the token attributes of spaCy, CLASS and CLASS8 (the first eight turns of the path) for"
        " word classes, or PREFIX2, SUFFIX4, FLAGS for the spelling. None stands for the predicates"
        " of Sha and Pereira (2003), on ORTH and TAG.",
    )
    min_count: int = setting(1, ge=1, help="Predicates seen less often in training are left out.")
    order: int = setting(1, choices=(1, 2), help="1 for labels as states, 2 for pairs of labels.")
    pair_features: bool = setting(
        True, help="Whether predicates are crossed with the pairs of labels too, if order is 2."
    )
    classes: Path | WordClasses | None = setting(
        None, help="File of word classes, which is read in training only."
    )
    warm_start: bool = setting(
        False, help="Whether training a component anew begins with the weights that it had."
    )

    key_bits: ClassVar[int] = 64
    """Of the keys of predicates; fewer make a smaller model (see `Templates`)."""
    supported_only: ClassVar[bool] = True
    """Whether weights are of features that were seen with the right labels alone."""

    @property
    def own_templates(self) -> Templates:
        """The templates of the features."""
        texts = SHA_PEREIRA if self.templates is None else self.templates
        return Templates(texts, self.key_bits)

    @property
    def all_templates(self) -> Templates:
        """The templates of all that is read."""
        return self.own_templates

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that all templates read."""
        return self.all_templates.columns

    @cached_property
    def attributes(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns that are read from the text, in order."""
        return source_columns(self.columns)

    @cached_property
    def word_classes(self) -> WordClasses | None:
        """The word classes. Raises StructlearnError SL010 if there is no such file."""
        return read_classes(self.classes) if isinstance(self.classes, Path) else self.classes

    def derive(self, columns: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """`columns` from those of the text. Raises an error if classes are missing."""
        return derive_columns(columns, self.columns, self.word_classes)

    def close_vocabularies(
        self, columns: NDArray[np.uint64]
    ) -> tuple[NDArray[np.uint64], dict[str, NDArray[np.uint64]]]:
        """The columns of training data as they are learned from, and `ChainModel.vocabularies`.

        All symbols are taken as they are, unless a learner needs closed vocabularies.
        """
        return columns, {}

    def initialize(
        self,
        data: Sequence[SequenceData],
        labels: Sequence[str],
        previous: ChainModel | None = None,
    ) -> ChainModel:
        """A model whose features are those of `data`.

        labels: of chunks; the model's own are their tags in the encoding. previous: what was
        learned before, of which word classes stay if there are no others, and weights in a warm
        start.
        """
        tags = tag_set(labels, self.encoding)
        columns, offsets, label_ids = concatenate(data, tags)
        columns, vocabularies = self.close_vocabularies(columns)
        model = ChainModel.build(
            columns,
            offsets,
            label_ids,
            tags,
            self.own_templates,
            self.min_count,
            order=self.order,
            pair_features=self.pair_features,
            encoding=self.encoding,
        )
        if not self.supported_only:
            model.supported[:] = model.supported_transitions[:] = True
        model.classes = self.word_classes
        model.vocabularies = vocabularies
        if previous is not None:
            model.classes = model.classes or previous.classes
            if self.warm_start and not previous.is_empty:
                model.adopt(previous)
        return model


@dataclass(frozen=True, kw_only=True)
class LikelihoodSettings(ChainSettings):
    """What all learners have in common that minimise a loss and a penalty, by L-BFGS, or OWL-QN."""

    l2: float = settings.l2(2.0)
    l1: float = settings.l1()
    max_iterations: int = settings.max_iterations(300)
    tolerance: float = setting(
        1e-5,
        ge=0,
        help="Training ends when the objective falls by less than this, in relation to itself, in"
        " the mean of ten iterations.",
    )
    threads: int = settings.threads()
    shards: int = settings.shards()

    @property
    def objective_kind(self) -> type[ChainObjective]:
        """What is minimised."""
        raise NotImplementedError

    def _trainer(self) -> Callable[..., Trainer]:
        from .training import LikelihoodTrainer

        return LikelihoodTrainer


@dataclass(frozen=True, kw_only=True)
class CRFSettings(LikelihoodSettings):
    """Conditional random field over label sequences (Lafferty et al. 2001)."""

    name: ClassVar[str] = "CRF"

    @property
    def objective_kind(self) -> type[ChainObjective]:
        """See `LikelihoodSettings`."""
        from .conditional import ChainLikelihood

        return ChainLikelihood


@dataclass(frozen=True, kw_only=True)
class MEMMSettings(LikelihoodSettings):
    """Maximum entropy Markov model (McCallum, Freitag & Pereira 2000).

    Each label is predicted from the labels before, right ones in training: faster than a CRF, and
    less accurate.
    """

    name: ClassVar[str] = "MEMM"

    @property
    def objective_kind(self) -> type[ChainObjective]:
        """See `LikelihoodSettings`."""
        from .local import LocalLikelihood

        return LocalLikelihood


@dataclass(frozen=True, kw_only=True)
class PseudoLikelihoodSettings(LikelihoodSettings):
    """Pseudolikelihood of label sequences (Besag 1975; Smith, Vail & Lafferty 2007).

    Each label is predicted from all the other ones, right as they are.
    """

    name: ClassVar[str] = "PseudoLikelihood"

    joint: bool = setting(
        False,
        help="Whether words and tags are predicted too, from the labels, with closed vocabularies:"
        " all that was seen once is one unknown symbol. Each template then reads one place.",
    )

    @property
    def objective_kind(self) -> type[ChainObjective]:
        """See `LikelihoodSettings`."""
        from .pseudolikelihood import JointPseudoLikelihood, LogPseudoLikelihood

        return JointPseudoLikelihood if self.joint else LogPseudoLikelihood

    def initialize(
        self,
        data: Sequence[SequenceData],
        labels: Sequence[str],
        previous: ChainModel | None = None,
    ) -> ChainModel:
        """See `ChainSettings`. Raises an error for templates that the joint form cannot have."""
        return super().initialize(arranged(data) if self.joint else data, labels, previous)

    def close_vocabularies(
        self, columns: NDArray[np.uint64]
    ) -> tuple[NDArray[np.uint64], dict[str, NDArray[np.uint64]]]:
        """See `ChainSettings`."""
        if not self.joint:
            return columns, {}
        from .hmm import close_columns
        from .pseudolikelihood import check_templates

        check_templates(self.own_templates)
        closed, vocabularies = close_columns(columns)
        return closed, dict(zip(self.columns, vocabularies, strict=True))

    def _trainer(self) -> Callable[..., Trainer]:
        from .training import JointTrainer, LikelihoodTrainer

        return JointTrainer if self.joint else LikelihoodTrainer


@dataclass(frozen=True, kw_only=True)
class PerceptronSettings(ChainSettings):
    """Averaged perceptron over label sequences (Collins 2002): a model in a few seconds.

    Its probabilities are those of no likelihood: they tell better from worse and no more.
    """

    name: ClassVar[str] = "Perceptron"

    order: int = setting(2, choices=(1, 2), help="1 for labels as states, 2 for pairs of labels.")
    max_iterations: int = settings.max_iterations(20, "A pass without a mistake is the last one.")
    seed: int = settings.seed()

    def _trainer(self) -> Callable[..., Trainer]:
        from .perceptron import PerceptronTrainer

        return PerceptronTrainer


@dataclass(frozen=True, kw_only=True)
class StochasticCRFSettings(ChainSettings):
    """Conditional random field of first order for many labels, such as part-of-speech tags.

    It looks only at the labels that a token can well have, and learns from a sentence at a time
    (Duchi, Hazan & Singer 2011).
    """

    name: ClassVar[str] = "StochasticCRF"
    key_bits: ClassVar[int] = 40
    supported_only: ClassVar[bool] = False

    order: int = setting(1, choices=(1,), exposed=False, help="States are labels.")
    pair_features: bool = setting(False, exposed=False, help="There are no pairs of labels.")
    max_iterations: int = settings.max_iterations(5)
    learn_rate: float = setting(0.3, gt=0, help="Length of the adaptive steps.")
    damping: float = setting(
        0.3, gt=0, help="Added to the sums of squares of gradients that shorten the steps."
    )
    l1: float = settings.l1(0.1)
    margin: float = setting(
        6.0,
        gt=0,
        help="Labels whose score at a token, in nats, is lower than the best one's by more than"
        " this are not looked at.",
    )
    seed: int = settings.seed()

    def initialize(
        self,
        data: Sequence[SequenceData],
        labels: Sequence[str],
        previous: ChainModel | None = None,
    ) -> ChainModel:
        """See `ChainSettings`."""
        model = super().initialize(data, labels, previous)
        model.margin = self.margin
        return model

    def _trainer(self) -> Callable[..., Trainer]:
        from .pruned import StochasticCRFTrainer

        return StochasticCRFTrainer


@dataclass(frozen=True, kw_only=True)
class HMMSettings(SequenceSettings):
    """Hidden Markov model of second order (Smith, Vail & Lafferty 2007), by counting."""

    name: ClassVar[str] = "HMM"

    word: str = setting("ORTH", help="Token attribute that is emitted as the word.")
    tag: str = setting("TAG", help="Token attribute that is emitted as the tag.")
    smoothing: float = _smoothing()

    @property
    def attributes(self) -> tuple[str, str]:  # type: ignore[override]
        """The columns of words and tags."""
        return self.word, self.tag

    def derive(self, columns: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The columns of words and tags are those of the text."""
        return columns

    def initialize(
        self,
        data: Sequence[SequenceData],
        labels: Sequence[str],
        previous: ChainModel | None = None,
    ) -> ChainModel:
        """A model of the labels that knows nothing else yet; the states come with the counts.

        labels: the chunk labels; the model's own are their tags in the encoding. previous: not
        used, counting begins anew.
        """
        return self._unknowing(labels, Templates([f"{name}[0]" for name in self.attributes]))

    def _trainer(self) -> Callable[..., Trainer]:
        from .hmm import HMMTrainer

        return HMMTrainer


@dataclass(frozen=True, kw_only=True)
class MEstimationSettings(ChainSettings):
    """Model of second order by M-estimation (Smith, Vail & Lafferty 2007), in a few seconds.

    A base distribution, counted, is corrected by the weights of features, which are learned without
    inference. The order of the sentences makes no difference.
    """

    name: ClassVar[str] = "MEstimation"

    order: int = setting(2, choices=(2,), exposed=False, help="States are pairs of labels.")
    warm_start: bool = setting(
        False, exposed=False, help="Of no use: training always begins at the base distribution."
    )
    base: str = setting(
        "hmm",
        choices=("hmm", "locally_uniform", "empirical"),
        help="Base distribution: the HMM of the paper, its locally uniform distribution, or the"
        " empirical distribution of the sentences with the labels that the HMM expects.",
    )
    emitted: Sequence[Sequence[str]] | None = setting(
        None,
        help="Groups of columns that the base distribution emits. Columns of one group are emitted"
        ' together: [["ORTH", "SUFFIX"], ["TAG"]]. None: each column of the templates by itself.',
    )
    smoothing: float = _smoothing()
    l2: float = setting(
        1.0,
        ge=0,
        help=f"Strength of the Gaussian prior on the weights w, {settings.L2}, next to the mean"
        " over the sentences. With 0 there is usually no minimum; training then stops as soon as"
        " this is certain, and no weight exceeds 20.",
    )
    max_iterations: int = settings.max_iterations(100)
    tolerance: float = setting(
        1e-4,
        ge=0,
        help="Training ends when the objective is known to be at most this above its minimum, in"
        " relation to itself. If l2 is 0, when it falls by no more in the mean of ten iterations.",
    )
    samples: int = setting(
        0,
        ge=0,
        help="Sentences that are sampled from the base distribution to estimate what it expects of"
        " features. With 0 that is computed.",
    )
    seed: int = settings.seed()
    input_only: bool = setting(
        False,
        help="Whether weights of predicates without labels are trained besides, and forgotten"
        " afterwards.",
    )

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        conditional = self.base == "empirical"
        emits = self.own_templates.columns if self.emitted is None else self.emitted
        yield "samples", f"0 for {self.base}", not (self.samples and conditional)
        yield "input_only", f"false for {self.base}", not (self.input_only and conditional)
        yield "emitted", "at least one group of columns, if templates read none", emits

    @property
    def all_templates(self) -> Templates:
        """The templates of the features, then those of the base distribution."""
        own = self.own_templates
        groups = self.emitted or [(name,) for name in own.columns]
        further = ("|".join(f"{name}[0]" for name in group) for group in groups)
        return Templates(tuple(dict.fromkeys([*own.texts, *further])))

    def initialize(
        self,
        data: Sequence[SequenceData],
        labels: Sequence[str],
        previous: ChainModel | None = None,
    ) -> ChainModel:
        """A model of labels and vocabularies; features and q0 come with the data of the training.

        labels: of chunks; the model's own are their tags in the encoding. previous: of which word
        classes stay if there are no others.
        """
        from .hmm import close_columns

        model = self._unknowing(labels, self.all_templates)
        if data:
            _, found = close_columns(np.concatenate([part.columns for part in data]))
            model.vocabularies = dict(zip(self.columns, found, strict=True))
        model.classes = self.word_classes or (None if previous is None else previous.classes)
        return model

    def _trainer(self) -> Callable[..., Trainer]:
        from .m_estimation import MEstimationTrainer

        return MEstimationTrainer
