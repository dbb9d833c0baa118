"""Settings of the learners of grammars: latent grammars, generative and conditional."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..learning import settings as core
from ..learning.settings import Settings, setting
from ..learning.training import Trainer
from ..optimize.shards import MakeEngine, make_engine
from ..trees.signatures import spelling_constraints
from ..trees.tree import Tree
from .symbols import BINARIZATIONS, ROOT, TreebankData, binarize, concatenate

if TYPE_CHECKING:
    from .model import LatentGrammar

Trees = Sequence[Tree | Sequence[Tree] | TreebankData]
"""Training data: normalised trees, lists of them, or encoded ones."""
MOST_ROUNDS = 8
BASES = ("generative", "uniform")
LEVEL_STARTS = ("generative", "copy")
SOLVERS = ("lbfgs", "adagrad")
PRUNINGS = ("cached", "coarse_to_fine", "none")
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
        yield from spelling_constraints(self.signature, self.normalization)

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
        from .model import LatentGrammar

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
        from .hierarchical import ConditionalGrammarTrainer

        return ConditionalGrammarTrainer


def _threshold(default: float) -> Any:
    text = (
        "Constituents with a posterior below this are left out of the forests that training reads. "
        "It should be that of parsing."
    )
    return setting(default, ge=0, le=1, help=text)


_BASE = (
    "The grammar that parses first, in a block of its own: spacy_structlearn.LatentGrammar or "
    "spacy_structlearn.ConditionalGrammar. None: {}."
)


@dataclass(frozen=True, kw_only=True)
class SpanFeaturesSettings(Settings):
    """Linear scores of symbols over spans, learned by AdaGrad with an L1 penalty."""

    templates: Sequence[str] | None = setting(
        None,
        help='Features of a span, such as "WORD[first]|SUFFIX3[after]" or "LENGTH", as '
        "`grammar.span_features` has them. None: those of Hall, Durrett & Klein (2014), and tags.",
    )
    tag_templates: Sequence[str] | None = setting(
        None,
        help='Features of the word under a tag, such as "SUFFIX2[0]|WORD[-1]". None: its spelling '
        "and its neighbours.",
    )
    buckets: int = setting(
        2**20, ge=2**8, le=2**30, help="Number of weights, a power of 2. Features are hashed."
    )
    min_word_count: int = setting(
        2, ge=1, help="Words seen less often in training are known by shape and suffix only."
    )
    l1_per_sentence: float = setting(
        3e-4, ge=0, help="The strength l1 of the penalty is this times the number of sentences."
    )
    learn_rate: float = setting(0.1, gt=0, help="Learning rate of AdaGrad.")
    epsilon: float = setting(
        0.1, gt=0, exposed=False, help="Added to the roots of the sums of squares in AdaGrad."
    )

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        yield from super().constraints()
        yield "buckets", "a power of 2", self.buckets & (self.buckets - 1) == 0
        if self.templates is not None or self.tag_templates is not None:
            from .span_features import SpanTemplates

            SpanTemplates.of(self)


@dataclass(frozen=True, kw_only=True)
class ForestSettings(Settings):
    """What the learners have in common that score the trees in the forests of another grammar."""

    attributes: ClassVar[tuple[str, ...]] = ("ORTH",)

    grammar: LatentGrammarSettings | None = setting(
        None, help=_BASE.format("a latent grammar with its default settings")
    )
    folds: int = setting(
        5,
        ge=1,
        help="Parts into which the trees are cut. Those of each part are parsed by a grammar "
        "trained on the others.",
    )
    threshold: float = _threshold(1e-4)
    seed: int = core.seed()
    threads: int = core.threads()

    @property
    def base(self) -> LatentGrammarSettings:
        """The grammar that parses first."""
        return LatentGrammarSettings() if self.grammar is None else self.grammar

    def encode(self, data: Trees) -> TreebankData:
        """All trees of `data` as arrays."""
        return self.base.encode(data)

    def empty(self) -> Any:
        """A grammar without symbols."""
        from .span_model import SpanGrammar

        return SpanGrammar.empty()

    def initialize(self, data: Any, labels: Sequence[str] = (), previous: Any = None) -> Any:
        """The treebank grammar, without features."""
        from .span_model import SpanGrammar

        return SpanGrammar(self.base.initialize(data, labels))


@dataclass(frozen=True, kw_only=True)
class SpanScoreSettings(ForestSettings):
    """What the learners of scores of spans have in common, linear ones and those of a network."""

    weight: float = setting(
        1.0, ge=0, help="Weight of the grammar's score of a tree, log P(tree | words)."
    )
    fit_weight: bool = setting(True, help="Whether this weight is learned too.")
    weight_learn_rate: float = setting(
        0.01, ge=0, exposed=False, help="Learning rate of AdaGrad for this weight."
    )
    fold_grammars: int = setting(
        1, ge=1, help="Number of grammars that parse each part, as a product."
    )
    max_iterations: int = core.max_iterations(6, ge=0)
    batch_size: int = setting(32, ge=1, help="Sentences in a step.")

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        yield from super().constraints()
        yield "folds", "at least 2", self.folds >= 2

    @property
    def features(self) -> SpanFeaturesSettings | None:
        """The settings of linear scores; None without such scores."""
        raise NotImplementedError

    @property
    def network(self) -> Any:
        """A `span_grammar.NetworkScorer`, which is changed in place; None without a network."""
        return None

    @property
    def fold_base(self) -> LatentGrammarSettings:
        """The grammars of the folds."""
        return self.base.part(type(self.base), grammars=self.fold_grammars)

    @property
    def n_reports(self) -> int:
        """Calls of `on_iteration` and steps, at most."""
        from .span_grammar import REPORTS

        rounds = self.base.n_reports + 1 + self.folds * (self.fold_base.n_reports + 1)
        return rounds + (self.folds + self.max_iterations) * (REPORTS + 1) - 1

    def encode(self, data: Any) -> TreebankData:
        """All trees of `data` as arrays. Raises StructlearnError as `trainer`."""
        from .span_grammar import TrainingSentences

        return self.base.encode([TrainingSentences.of(data).trees])

    def initialize(self, data: Any, labels: Sequence[str] = (), previous: Any = None) -> Any:
        """The treebank grammar, without features."""
        from .span_grammar import TrainingSentences

        grammar = super().initialize([TrainingSentences.of(data).trees], labels)
        return grammar.replaced(weight=self.weight)

    def trainer(
        self, parameters: Any, data: Any, *, make_engine: MakeEngine = make_engine
    ) -> Trainer[Any]:
        """Training from the treebank grammar on; it follows from the data and the network alone.

        data: trees, pairs (tokens, tree), lists of either, or encoded trees, of which chains of
        unary productions come back as the most frequent ones.
        Raises StructlearnError for anything else.
        """
        from .span_grammar import SpanGrammarTrainer

        return SpanGrammarTrainer(self, data, make_engine=make_engine)


@dataclass(frozen=True, kw_only=True)
class SpanGrammarSettings(SpanScoreSettings, SpanFeaturesSettings):
    """Latent grammar whose trees are scored again, by features of the words around each span.

    A CRF over the trees that the grammar leaves of a sentence (Hall, Durrett & Klein 2014), which
    learns from forests of grammars that have not seen the sentence. More accurate than the grammar,
    and nearly as fast.
    """

    name: ClassVar[str] = "SpanGrammar"

    @property
    def features(self) -> SpanFeaturesSettings:
        """Those of the linear scores."""
        return self.part(SpanFeaturesSettings)


@dataclass(frozen=True, kw_only=True)
class NeuralGrammarSettings(SpanScoreSettings):
    """Latent grammar whose trees are scored again, by a small network over the words of each span.

    A neural CRF (Durrett & Klein 2015) over the trees that the grammar leaves of a sentence, which
    learns from forests of grammars that have not seen the sentence.
    """

    name: ClassVar[str] = "NeuralGrammar"

    tok2vec: Any = setting(
        None,
        identity=False,
        compare=False,
        help="Layers that make a row of each token of a sentence, such as spacy.Tok2Vec.v2, in a "
        "block of their own. A listener cannot be used, because they are trained with the parser "
        "alone. They see the sentence without white space, with the annotation of the components "
        "before the parser. None: spacy_structlearn.BiLSTMEncoder over hashed norms, prefixes, "
        "suffixes and shapes.",
    )
    features: SpanFeaturesSettings | None = setting(
        None, help="Linear scores that are added, spacy_structlearn.span_features in a block."
    )
    hidden_width: int = setting(160, ge=1, help="Width of the layer over a span.")
    dropout: float = setting(0.35, ge=0, lt=1, help="Dropout of all layers.")
    learn_rate: float = setting(0.001, ge=0, help="Learning rate of Adam.")
    weight_decay: float = setting(0.01, ge=0, help="Weight decay of Adam.")
    network: Any = setting(
        None,
        identity=False,
        compare=False,
        exposed=False,
        help="The layers in training, which are made of `tok2vec`.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.network is None and self.tok2vec is not None:
            from .neural import SpanNetwork, span_scorer

            network = SpanNetwork(self.tok2vec, span_scorer(self.hidden_width))
            object.__setattr__(self, "network", network)

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        yield from super().constraints()
        # Types that cannot be named here, because thinc is not imported.
        for name, method in (("tok2vec", "walk"), ("network", "begin_update")):
            value = getattr(self, name)
            yield name, "layers of thinc", value is None or hasattr(value, method)
        yield "seed", "less than 2**32", self.seed < 2**32


@dataclass(frozen=True, kw_only=True)
class FragmentFeaturesSettings(Settings):
    """Which features of fragments of trees there are."""

    templates: Sequence[str] | None = setting(
        None,
        help='Features, such as "RULE|PARENT" or "LABEL|WORD[first]", as `grammar.fragments` has '
        "them. None: local substructures and the words at the ends of spans.",
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
            from .fragments import FragmentTemplates

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
        None, help=_BASE.format("a treebank grammar, without any splitting")
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
    threshold: float = _threshold(1e-2)

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
        from .m_estimation import PASSES
        from .span_grammar import REPORTS

        found = self.base.n_reports + 1 + self.max_iterations + self.max_iterations // PASSES + 1
        if self.conditional_iterations:
            fold = self.base.n_reports + REPORTS + 2
            found += self.folds * fold + 2 * self.conditional_iterations
        return found

    def trainer(
        self, parameters: Any, data: Trees, *, make_engine: MakeEngine = make_engine
    ) -> Trainer[Any]:
        """Training from the treebank grammar on; it follows from the data alone."""
        from .m_estimation import MEstimatedGrammarTrainer

        return MEstimatedGrammarTrainer(self, data, make_engine=make_engine)
