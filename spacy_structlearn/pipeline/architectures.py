"""Architectures: each learner of the families as a `thinc.Model` that a config can name.

The model holds two attributes: "parameters", the family's model object (arrays and strings, stored
by thinc through the functions registered here), and "estimator", the settings by which they are
learned (not stored: the config has them). It has no thinc parameters, but for those of the layers
of a neural grammar.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d

from ..classification.bayes_net import BayesNet
from ..classification.estimators import BayesNetEstimator, LogLinearEstimator
from ..classification.log_linear import LogLinear
from ..classification.stages import Stages, StagesEstimator
from ..errors import StructlearnError
from ..grammar.settings import (
    ConditionalGrammarSettings,
    LatentGrammarSettings,
    MEstimatedGrammarSettings,
    NeuralGrammarSettings,
    SpanFeaturesSettings,
    SpanGrammarSettings,
)
from ..learning.settings import Settings, document, setting, signature
from ..learning.training import Estimator
from ..sequence.classes import WordClasses
from ..sequence.settings import (
    CRFSettings,
    HMMSettings,
    MEMMSettings,
    MEstimationSettings,
    PerceptronSettings,
    PseudoLikelihoodSettings,
    StochasticCRFSettings,
)
from .batch_trainable import let_be_stored

F = TypeVar("F", bound=Callable)

_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=M)(?=Estimat)")


def architecture(kind: type[Settings], stored_as: str | None = None) -> Callable[..., Model]:
    """A registered architecture made of the settings of a learner.

    Its arguments are the settings, as a config has them. A learner in a block of its own, which is
    a Model, is taken for its settings.
    stored_as: the name of the Model, if it is not that of the learner in small letters.
    """
    name = stored_as or _WORD.sub("_", kind.name).lower()

    def build(**values: Any) -> Model:
        settings = kind(**{key: _without_models(value) for key, value in values.items()})
        return learner_model(name, settings.empty(), settings)

    build.__name__ = build.__qualname__ = f"build_{name}"
    return _documented(kind)(build)


def _documented(kind: type[Settings]) -> Callable[[F], F]:
    """Gives a function of settings, which are its arguments, their signature and documentation."""

    def decorated(function: F) -> F:
        function.__doc__ = document(kind)
        function.__signature__ = signature(kind)  # type: ignore[attr-defined]
        function.settings = kind  # type: ignore[attr-defined]
        return function

    return decorated


def _without_models(value: Any) -> Any:
    """The settings that a Model of ours holds; any other value as it is."""
    if isinstance(value, Model) and "estimator" in value.attrs:
        return value.attrs["estimator"]
    if isinstance(value, dict):
        return {key: _without_models(item) for key, item in value.items()}
    return value


build_crf = architecture(CRFSettings)
build_memm = architecture(MEMMSettings)
build_pseudolikelihood = architecture(PseudoLikelihoodSettings, stored_as="pseudolikelihood")
build_perceptron = architecture(PerceptronSettings)
build_stochastic_crf = architecture(StochasticCRFSettings)
build_hmm = architecture(HMMSettings)
build_m_estimation = architecture(MEstimationSettings)


build_latent_grammar = architecture(LatentGrammarSettings)
build_conditional_grammar = architecture(ConditionalGrammarSettings)


build_span_grammar = architecture(SpanGrammarSettings)
build_m_estimated_grammar = architecture(MEstimatedGrammarSettings)


@_documented(NeuralGrammarSettings)
def build_neural_grammar(**values: Any) -> Model:
    """RAISES: SL040 for a listener."""
    values = {key: _without_models(value) for key, value in values.items()}
    tok2vec = values.pop("tok2vec", None) or _default_tok2vec(values.get("seed", 0))
    settings = NeuralGrammarSettings(tok2vec=tok2vec, **values)
    for node in tok2vec.walk():
        # Those of spaCy and of its satellites have this in common, and no base class.
        if hasattr(node, "upstream_name") or node.name.endswith("listener"):
            upstream = getattr(node, "upstream_name", "*")
            raise StructlearnError("SL040", architecture=settings.name, upstream=upstream)
    model = learner_model("neural_grammar", settings.empty(), settings)
    for name, layers in (("tok2vec", tok2vec), ("scorer", settings.network.scorer)):
        model.layers.append(layers)
        model.set_ref(name, layers)
    return model


@_documented(SpanFeaturesSettings)
def span_features(**values: Any) -> SpanFeaturesSettings:
    """For `build_neural_grammar`."""
    return SpanFeaturesSettings(**values)


@dataclass(frozen=True, kw_only=True)
class BiLSTMEncoderSettings(Settings):
    """Layers of long short-term memory in both directions, without torch.

    For the block `encode` of "spacy.Tok2Vec.v2": it reads rows of a sentence's words, of any width,
    and gives rows that know the whole sentence. Dropout is that of the architecture around it.
    """

    width: int = setting(192, ge=2, help="Width of the rows that it gives, an even number.")
    depth: int = setting(1, ge=1, help="Number of layers.")
    seed: int = setting(0, ge=0, help="Of their first parameters.")

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        yield "width", "even", self.width % 2 == 0


@_documented(BiLSTMEncoderSettings)
def build_bilstm_encoder(**values: Any) -> Model[list[Floats2d], list[Floats2d]]:
    """For the block `encode`."""
    from thinc.api import Dropout, chain, with_array

    from ..grammar.bilstm import bilstm

    settings = BiLSTMEncoderSettings(**values)
    layers: list[Model] = [with_array(Dropout(0.0))]
    for number in range(settings.depth):
        layers += [bilstm(settings.width, seed=settings.seed + number), with_array(Dropout(0.0))]
    model: Model[list[Floats2d], list[Floats2d]] = chain(*layers)
    model.set_dim("nO", settings.width)
    return model


def _default_tok2vec(seed: int) -> Model[list[Doc], list[Floats2d]]:
    from spacy.ml.models.tok2vec import MultiHashEmbed, build_Tok2Vec_model

    attrs = ["NORM", "PREFIX", "SUFFIX", "SHAPE"]
    embed = MultiHashEmbed(
        width=96, attrs=attrs, rows=[5000, 1000, 2500, 2500], include_static_vectors=False
    )
    return build_Tok2Vec_model(embed, build_bilstm_encoder(seed=seed))


def build_isbn(
    means: str = "feed_forward",
    state_size: int = 40,
    threshold: int = 10,
    min_unknown: int = 5,
    fuse: int = 50,
    signature: str = "shape",
    normalization: str = "typographic",
    features: str = "abcd",
    epochs: int = 20,
    batch_size: int = 1,
    optimizer: str = "sgd",
    learn_rate: float = 0.1,
    l2: float = 1e-4,
    dropout: float = 0.1,
    grad_clip: float = 5.0,
    averages: bool = True,
    validation: float = 0.0,
    seed: int = 0,
    beam: int = 10,
    branching: int = 10,
    search: str = "best_first",
    shards: int = 2,
    threads: int = 1,
) -> Model:
    """Incremental sigmoid belief network over left-corner derivations (Titov & Henderson 2007).

    A tree is built move by move, and the probability of a move follows from a vector of means that
    sums up the moves before, where a grammar sees a rule. Trees are found by a search with a beam.
    means: of a state, "feed_forward" or "mean_field". The second takes in what has just been
        decided, within a move too; it is several times slower and, in the paper, the better one.
    state_size: units of a state, 40 in the paper.
    threshold: words seen less often with a tag in training are unknown words of this tag.
        min_unknown: each tag has so many of these in training, or its rarest words become such.
    fuse: two labels, one right above the other, such as S over VP, become one label if they are
        seen so often; 0: none do.
    signature: how unknown words are told apart: "shape", for any language, "english", or "" for not
        at all, as in the paper. normalization: of typographic variants of words; "" for none.
    features: what a state reads beside other states, some of "abcd": a for the last move, b for the
        top of the stack, c for the last word, d for the first word below the top.
    epochs: passes through the sentences. batch_size: sentences in an update.
    optimizer: "sgd", or "adam", which wants a learning rate of about 0.005, an l2 of 0.02 and 8
        sentences in an update. learn_rate, l2: of it and of its weight decay, at first; both fall
        to 0 in a straight line if `validation` is 0. dropout: of means. grad_clip: longer gradients
        are shortened to so much; 0: none are.
    averages: learn moving averages of the weights.
    validation: so large a share of the sentences is held out and parsed after each epoch; where
        that goes worse than before, learning rate and decay are halved and the best weights are
        taken again, as in the paper. 0: none is.
    seed: of the first weights, of dropout and of the order of the sentences.
    beam: so many hypotheses go on from each word to the next. branching: of each hypothesis so many
        moves are followed. search: which go on first, "best_first", as in the paper, or those of as
        many moves together, "word_synchronous". All three are stored with what is learned.
    shards: a batch is cut in so many parts, on which the result depends by rounding errors.
        threads: so many share them; the result is the same.
    """
    # Not above: only who trains or has trained one pays for the import.
    from ..isbn.estimators import ISBNEstimator
    from ..isbn.model import ISBN

    estimator = ISBNEstimator(
        means=means,
        state_size=state_size,
        threshold=threshold,
        min_unknown=min_unknown,
        fuse=fuse,
        signature=signature,
        normalization=normalization,
        features=features,
        epochs=epochs,
        batch_size=batch_size,
        optimizer=optimizer,
        learn_rate=learn_rate,
        l2=l2,
        dropout=dropout,
        grad_clip=grad_clip,
        averages=averages,
        validation=validation,
        seed=seed,
        beam=beam,
        branching=branching,
        search=search,
        shards=shards,
        threads=threads,
    )
    return learner_model("isbn", ISBN.empty(), estimator)


def build_bayes_net(
    structure: str | dict[str, list[str]] = "search",
    fit_d: str | None = "conditional",
    n_d: str = "many",
    smoothing: str = "witten_bell",
    max_parents: int = 3,
    min_gain: float = 0.0,
    prior_variance: float = 1.0,
    classes: Path | None = None,
) -> Model:
    """Bayesian network over nominal variables (Toutanova 2006): the whole training in a second.

    Structure and smoothing are chosen by leave-one-out on the training data.
    structure: "naive", "search" (greedy), "exhaustive" (for few variables), or the parents of each
        variable that is used; the label is a parent of all and not named.
    fit_d: fit the parameters d of Witten-Bell smoothing to the "conditional" or the "joint"
        likelihood; None: all are 1. n_d: "one" for all, or "many", one for each type of context.
    smoothing: "witten_bell", or "uniform" for comparison.
    max_parents: of a variable, the label counted, in a search. min_gain: accuracy that a step of
        the search must gain more than. prior_variance: of log d.
    classes: a file of word classes (`WordClasses.to_bytes`), needed in training only; components
        make variables of them.
    """
    estimator = BayesNetEstimator(
        structure=structure,
        fit_d=fit_d,
        n_d=n_d,
        smoothing=smoothing,
        max_parents=max_parents,
        min_gain=min_gain,
        prior_variance=prior_variance,
    )
    return learner_model("bayes_net", BayesNet.empty(), estimator, _held_classes(classes))


def build_log_linear(
    templates: str | list[list[str]] = "search",
    l2: float | str | list[float] = 1.0,
    l2_per_label: dict[str, float] | None = None,
    max_conjunction: int = 3,
    min_gain: float = 0.0,
    max_templates: int | None = None,
    min_count: int = 1,
    base: Model | None = None,
    max_iterations: int = 200,
    tolerance: float = 1e-5,
    search_tolerance: float | None = None,
    classes: Path | None = None,
) -> Model:
    """Conditional log-linear model of conjunctions of nominal variables (Toutanova 2006).

    What is to be chosen is chosen on a tenth of the training data.
    templates: "single", a feature for each value of each variable; "pairs", also for each pair of
        values; "search", for the conjunctions that are worth it; or a list of lists of variables.
    l2: the penalty is l2 * |w|^2 / 2, so it is one over the variance of a Gaussian prior; a list
        to choose from, or "search". l2_per_label: for some labels another one.
    max_conjunction: variables of a template, in a search. min_gain: accuracy that a step of it must
        gain more than. max_templates: steps of it; None: no limit.
    min_count: features seen less often in training are left out.
    base: another architecture, "spacy_structlearn.BayesNet.v1", whose probabilities are features
        too: those of the training data by leave-one-out.
    max_iterations, tolerance: of L-BFGS, for one model. search_tolerance: for the models that a
        search compares; 1e-3 makes it several times faster. None: tolerance.
    classes: a file of word classes (`WordClasses.to_bytes`), needed in training only; components
        make variables of them.
    """
    if base is not None and not hasattr(base.attrs.get("estimator"), "untrained"):
        raise StructlearnError("SL031", model=base.name)
    estimator = LogLinearEstimator(
        templates=templates,
        l2=l2,
        l2_per_label=l2_per_label,
        max_conjunction=max_conjunction,
        min_gain=min_gain,
        max_templates=max_templates,
        min_count=min_count,
        base=None if base is None else base.attrs["estimator"].untrained(),
        max_iterations=max_iterations,
        tolerance=tolerance,
        search_tolerance=search_tolerance,
    )
    return learner_model("log_linear", LogLinear.empty(), estimator, _held_classes(classes))


def build_stages(stages: dict[str, Any], order: list[str]) -> Model:
    """Several classifiers, learned one after another and stored as one model.

    stages: an architecture for each stage, "spacy_structlearn.LogLinear.v1" or
        "spacy_structlearn.BayesNet.v1", without word classes. In a config this is a section,
        [components.x.model.stages], with a section for each stage in it.
    order: of learning; the last is the main stage. Stages that are not in it are left out. It has
        to be given, because sections of a config may change their order when it is stored.
    RAISES: SL530 if there is no stage of a name in `order`, SL531 or SL532 for one that cannot be a
    stage, SL533 if `order` is empty or has a name twice.
    """
    # Not dict[str, Model]: the types are checked while these are still sections of a config.
    if not order or len(set(order)) < len(order):
        raise StructlearnError("SL533", order=", ".join(order) or "empty")
    parameters, estimators = {}, {}
    for stage in order:
        if stage not in stages:
            raise StructlearnError("SL530", stage=stage, known=", ".join(stages))
        attrs = getattr(stages[stage], "attrs", {})
        if "estimator" not in attrs:
            raise StructlearnError("SL531", stage=stage, found=type(stages[stage]).__name__)
        parameters[stage], estimators[stage] = attrs["parameters"], attrs["estimator"]
        if "classes" in attrs and attrs["classes"].n_classes:
            raise StructlearnError("SL532", stage=stage)
    return learner_model("stages", Stages(parameters), StagesEstimator(estimators))


def _read_classes(path: Path | None) -> WordClasses | None:
    if path is None:
        return None
    if not Path(path).is_file():
        raise StructlearnError("SL010", path=path)
    return WordClasses.from_bytes(Path(path).read_bytes())


def _held_classes(path: Path | None) -> WordClasses:
    # Never None: what is loaded is read as the type of what is there.
    return _read_classes(path) or WordClasses.empty()


def learner_model(
    name: str, parameters: Any, estimator: Estimator, classes: WordClasses | None = None
) -> Model:
    """A `thinc.Model` that holds a learner of ours.

    classes: of words, for learners whose parameters do not hold them themselves.
    """
    attrs = {"parameters": parameters, "estimator": estimator}
    if classes is not None:
        attrs["classes"] = classes
    model = Model(name, _forward, attrs=attrs)
    let_be_stored(model)
    return model


def _forward(model: Model, docs: Any, is_train: bool) -> Any:
    # Components call their family directly; spaCy asks only that a Model can be held and stored.
    raise NotImplementedError(f"{model.name}: call the component, not its model")
