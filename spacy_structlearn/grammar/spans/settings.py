"""Settings of grammars with scores of spans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...learning import settings as core
from ...learning.settings import Settings, setting
from ...learning.training import Trainer
from ...parallel.shards import MakeEngine, make_engine
from ..latent.settings import LatentGrammarSettings
from ..treebank.settings import Trees
from ..treebank.symbols import TreebankData


def threshold_setting(default: float) -> Any:
    """The setting `threshold` of the learners that read forests, with its default."""
    text = (
        "Constituents with a posterior below this are left out of the forests that training reads. "
        "It should be that of parsing."
    )
    return setting(default, ge=0, le=1, help=text)


BASE = (
    "The grammar that parses first, in a block of its own: spacy_structlearn.LatentGrammar or "
    "spacy_structlearn.ConditionalGrammar. None: {}."
)


@dataclass(frozen=True, kw_only=True)
class SpanFeaturesSettings(Settings):
    """Linear scores of symbols over spans, learned by AdaGrad with an L1 penalty."""

    templates: Sequence[str] | None = setting(
        None,
        help='Features of a span, such as "WORD[first]|SUFFIX3[after]" or "LENGTH", as '
        "`grammar.spans.features` has them. None: those of Hall, Durrett & Klein (2014), and tags.",
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
            from .features import SpanTemplates

            SpanTemplates.of(self)


@dataclass(frozen=True, kw_only=True)
class ForestSettings(Settings):
    """What the learners have in common that score the trees in the forests of another grammar."""

    attributes: ClassVar[tuple[str, ...]] = ("ORTH",)

    grammar: LatentGrammarSettings | None = setting(
        None, help=BASE.format("a latent grammar with its default settings")
    )
    folds: int = setting(
        5,
        ge=1,
        help="Parts into which the trees are cut. Those of each part are parsed by a grammar "
        "trained on the others.",
    )
    threshold: float = threshold_setting(1e-4)
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
        from .model import SpanGrammar

        return SpanGrammar.empty()

    def initialize(self, data: Any, labels: Sequence[str] = (), previous: Any = None) -> Any:
        """The treebank grammar, without features."""
        from .model import SpanGrammar

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
        from .training import REPORTS

        rounds = self.base.n_reports + 1 + self.folds * (self.fold_base.n_reports + 1)
        return rounds + (self.folds + self.max_iterations) * (REPORTS + 1) - 1

    def encode(self, data: Any) -> TreebankData:
        """All trees of `data` as arrays. Raises StructlearnError as `trainer`."""
        from .training import TrainingSentences

        return self.base.encode([TrainingSentences.of(data).trees])

    def initialize(self, data: Any, labels: Sequence[str] = (), previous: Any = None) -> Any:
        """The treebank grammar, without features."""
        from .training import TrainingSentences

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
        from .training import SpanGrammarTrainer

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
            from .network import SpanNetwork, span_scorer

            network = SpanNetwork(self.tok2vec, span_scorer(self.hidden_width))
            object.__setattr__(self, "network", network)

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        yield from super().constraints()
        # Types that cannot be named here, because thinc is not imported.
        for name, method in (("tok2vec", "walk"), ("network", "begin_update")):
            value = getattr(self, name)
            yield name, "layers of thinc", value is None or hasattr(value, method)
        yield "seed", "less than 2**32", self.seed < 2**32
