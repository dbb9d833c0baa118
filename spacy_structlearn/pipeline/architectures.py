"""Architectures: each learner of the families as a `thinc.Model` that a config can name.

The model has no thinc parameters. It holds two attributes: "parameters", the family's model object
(arrays and strings, stored by thinc through the functions registered here), and "estimator", the
settings by which they are learned (not stored: the config has them).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from thinc.api import Model
from thinc.model import deserialize_attr, serialize_attr

from ..classification.bayes_net import BayesNet
from ..classification.estimators import BayesNetEstimator, LogLinearEstimator
from ..classification.log_linear import LogLinear
from ..classification.stages import Stages, StagesEstimator
from ..errors import StructlearnError
from ..grammar.estimators import SplitMerge
from ..grammar.lexicon import LexiconSettings
from ..grammar.model import LatentGrammar
from ..grammar.product import Product
from ..sequence.classes import WordClasses
from ..sequence.estimators import CRF
from ..sequence.features import SHA_PEREIRA
from ..sequence.hmm import HMM
from ..sequence.local import MEMM
from ..sequence.model import ChainModel
from ..sequence.perceptron import Perceptron
from .batch_trainable import Estimator


def build_crf(
    templates: list[str] | None = None,
    order: int = 1,
    pair_features: bool = True,
    encoding: str = "IOB2",
    classes: Path | None = None,
    l2: float = 1.0,
    l1: float = 0.0,
    min_frequency: int = 1,
    max_iterations: int = 300,
    tolerance: float = 1e-5,
    threads: int = 1,
    warm_start: bool = False,
) -> Model:
    """Conditional random field over label sequences (Lafferty et al. 2001).

    templates: predicates on the tokens around a position, such as "ORTH[-1]|ORTH[0]"; the names
        are spaCy's token attributes, or CLASS and CLASS8 (the first eight turns of the path) for
        word classes. None: those of Sha & Pereira (2003), on ORTH and TAG.
    order: 1, or 2 for pairs of labels as states, as in that paper. pair_features: whether
        predicates are crossed with the pairs too.
    encoding: of chunks as labels: IOB2, IOB1, IOE2 or IOBES.
    classes: a file of word classes (`WordClasses.to_bytes`), needed in training only.
    l2, l1: the penalty is l2 * |w|^2 + l1 * |w|_1, without one half.
    min_frequency: predicates seen less often in training are left out.
    max_iterations, tolerance: training ends after so many iterations of L-BFGS, or when the mean
        relative decrease of the objective over ten iterations falls below the tolerance.
    threads: so many share the sentences in training.
    warm_start: when the component is initialized anew, begin with the weights that it had.
    """
    estimator = CRF(
        templates=tuple(SHA_PEREIRA if templates is None else templates),
        min_frequency=min_frequency,
        order=order,
        pair_features=pair_features,
        encoding=encoding,
        classes=_read_classes(classes),
        warm_start=warm_start,
        l2=l2,
        l1=l1,
        max_iterations=max_iterations,
        tolerance=tolerance,
        threads=threads,
    )
    return learner_model("crf", ChainModel.empty(), estimator)


def build_memm(
    templates: list[str] | None = None,
    order: int = 1,
    pair_features: bool = True,
    encoding: str = "IOB2",
    classes: Path | None = None,
    l2: float = 1.0,
    l1: float = 0.0,
    min_frequency: int = 1,
    max_iterations: int = 300,
    tolerance: float = 1e-5,
    threads: int = 1,
    warm_start: bool = False,
) -> Model:
    """Maximum entropy Markov model (McCallum, Freitag & Pereira 2000).

    Each label is predicted from the labels before, right ones in training: faster than a CRF, and
    less accurate. Settings: see `build_crf`.
    """
    estimator = MEMM(
        templates=tuple(SHA_PEREIRA if templates is None else templates),
        min_frequency=min_frequency,
        order=order,
        pair_features=pair_features,
        encoding=encoding,
        classes=_read_classes(classes),
        warm_start=warm_start,
        l2=l2,
        l1=l1,
        max_iterations=max_iterations,
        tolerance=tolerance,
        threads=threads,
    )
    return learner_model("memm", ChainModel.empty(), estimator)


def build_pseudolikelihood(
    templates: list[str] | None = None,
    order: int = 1,
    pair_features: bool = True,
    encoding: str = "IOB2",
    classes: Path | None = None,
    l2: float = 1.0,
    l1: float = 0.0,
    min_frequency: int = 1,
    max_iterations: int = 300,
    tolerance: float = 1e-5,
    threads: int = 1,
    warm_start: bool = False,
    joint: bool = False,
) -> Model:
    """Pseudolikelihood of label sequences (Besag 1975; Smith, Vail & Lafferty 2007).

    Each label is predicted from all the other ones, right as they are.
    joint: so are words and tags, from the labels and a closed vocabulary, all that was seen once
        being one unknown symbol. Templates then read one place each.
    The rest: see `build_crf`.
    """
    # Not above: what it needs of SciPy takes a tenth of a second to import, in every `load()`.
    from ..sequence.pseudolikelihood import PseudoLikelihood

    estimator = PseudoLikelihood(
        templates=tuple(SHA_PEREIRA if templates is None else templates),
        min_frequency=min_frequency,
        order=order,
        pair_features=pair_features,
        encoding=encoding,
        classes=_read_classes(classes),
        warm_start=warm_start,
        l2=l2,
        l1=l1,
        max_iterations=max_iterations,
        tolerance=tolerance,
        threads=threads,
        joint=joint,
    )
    return learner_model("pseudolikelihood", ChainModel.empty(), estimator)


def build_perceptron(
    templates: list[str] | None = None,
    order: int = 2,
    pair_features: bool = True,
    encoding: str = "IOB2",
    classes: Path | None = None,
    min_frequency: int = 1,
    max_epochs: int = 20,
    seed: int = 0,
    warm_start: bool = False,
) -> Model:
    """Averaged perceptron over label sequences (Collins 2002): a model in a few seconds.

    Its probabilities are those of no likelihood: they tell better from worse and no more.
    max_epochs: passes through the data. seed: of the order of sentences. The rest: see `build_crf`.
    """
    estimator = Perceptron(
        templates=tuple(SHA_PEREIRA if templates is None else templates),
        min_frequency=min_frequency,
        order=order,
        pair_features=pair_features,
        encoding=encoding,
        classes=_read_classes(classes),
        warm_start=warm_start,
        max_epochs=max_epochs,
        seed=seed,
    )
    return learner_model("perceptron", ChainModel.empty(), estimator)


def build_hmm(
    word: str = "ORTH", tag: str = "TAG", smoothing: float = 1e-3, encoding: str = "IOB2"
) -> Model:
    """Hidden Markov model of second order (Smith, Vail & Lafferty 2007), by counting.

    word, tag: the two token attributes that it emits. smoothing: added to the count of each label
        trigram that the encoding allows; the paper has none. encoding: see `build_crf`.
    """
    return learner_model("hmm", ChainModel.empty(), HMM((word, tag), smoothing, encoding))


def build_m_estimation(
    templates: list[str] | None = None,
    pair_features: bool = True,
    encoding: str = "IOB2",
    classes: Path | None = None,
    base: str = "hmm",
    emitted: list[list[str]] | None = None,
    smoothing: float = 1e-3,
    c: float | None = 1.0,
    min_frequency: int = 1,
    max_iterations: int = 100,
    tolerance: float = 1e-4,
    samples: int = 0,
    seed: int = 0,
    input_only: bool = False,
) -> Model:
    """Model of second order by M-estimation (Smith, Vail & Lafferty 2007), in a few seconds.

    A base distribution, counted, is corrected by the weights of features, which are learned without
    inference.
    base: "hmm", "locally_uniform" or "empirical", as in the paper; or "specialized", which makes a
        far better chunker.
    emitted: the columns that it emits, each by itself or, where one follows from another, together,
        such as [["ORTH", "SUFFIX"], ["TAG"]]; None: those of the templates, each by itself. For
        "specialized" it is words and tags, [["ORTH"], ["TAG"]] if it is None.
    smoothing: added to the count of each label trigram that the encoding allows; the paper has
        none. Of no use to "specialized".
    c: the penalty is |w|^2 / 2c; None: none. About 0.25 is good for "specialized".
    max_iterations, tolerance: training ends after so many passes through the sentences, or when the
        objective is known to be within this of its minimum, in relation to itself.
    samples: so many sentences of the base distribution are sampled to estimate what it expects of
        features; 0: that is computed. seed: of the samples, and of the order of sentences.
    input_only: train weights of predicates without labels besides, and forget them afterwards.
    The rest: see `build_crf`.
    """
    # Not above, as in `build_pseudolikelihood`.
    from ..sequence.m_estimation import MEstimation

    estimator = MEstimation(
        templates=tuple(SHA_PEREIRA if templates is None else templates),
        min_frequency=min_frequency,
        pair_features=pair_features,
        encoding=encoding,
        classes=_read_classes(classes),
        base=base,
        emitted=None if emitted is None else tuple(tuple(group) for group in emitted),
        smoothing=smoothing,
        c=c,
        max_iterations=max_iterations,
        tolerance=tolerance,
        samples=samples,
        seed=seed,
        input_only=input_only,
    )
    return learner_model("m_estimation", ChainModel.empty(), estimator)


def build_latent_grammar(
    rounds: int = 4,
    seed: int = 0,
    merge_fraction: float = 0.5,
    rule_smoothing: float = 0.01,
    lexicon_smoothing: float = 0.1,
    split_iterations: int = 50,
    merge_iterations: int = 20,
    smooth_iterations: int = 10,
    tolerance: float = 0.0,
    binarization: str = "right",
    lexicon: str = "smoothed",
    signature: str = "shape",
    normalization: str = "typographic",
    rare: int | None = None,
    hierarchical: bool = True,
    word_backoff: str = "unknown",
    grammars: int = 1,
    threads: int = 1,
) -> Model:
    """Grammar with latent annotations, by split-merge EM on observed trees (Petrov & Klein 2007).

    rounds: of splitting every symbol in two. seed: of the noise that tells the halves apart.
    merge_fraction: of the splits that are taken back in each round, those that gain least.
    rule_smoothing, lexicon_smoothing: how far probabilities are drawn to those of the substates of
        the same first split.
    split_iterations, merge_iterations, smooth_iterations: of EM in each round, after splitting,
        after merging, and with smoothing. tolerance: they end early when the log-likelihood rises
        by less, relative to itself.
    binarization: "right" or "left".
    lexicon: "smoothed" or "simple". signature: how unknown words are told apart: "shape", for any
        language, or "english". normalization: of typographic variants of words; "" for none.
        rare: words seen at most so often are what unknown ones are judged by; None: 20 or 5.
        hierarchical: smooth a signature with the next coarser one, not at once with all of them.
        word_backoff: what known words are smoothed with, "unknown" ones or those of their
        "signature".
    grammars: so many are learned, from seeds one after another, and parse together, as a product
        (Petrov 2010): more accurate, at the cost of their training time and of some speed.
    threads: so many share the sentences in training; the result is the same.
    """
    estimator: Estimator = SplitMerge(
        rounds=rounds,
        seed=seed,
        merge_fraction=merge_fraction,
        rule_smoothing=rule_smoothing,
        lexicon_smoothing=lexicon_smoothing,
        split_iterations=split_iterations,
        merge_iterations=merge_iterations,
        smooth_iterations=smooth_iterations,
        tolerance=tolerance,
        binarization=binarization,
        lexicon=LexiconSettings(
            kind=lexicon,
            signature=signature,
            normalization=normalization,
            rare=rare,
            hierarchical=hierarchical,
            word_backoff=word_backoff,
        ),
        threads=threads,
    )
    if grammars > 1:
        estimator = Product(estimator, grammars)
    return learner_model("latent_grammar", LatentGrammar.empty(), estimator)


def build_conditional_grammar(
    rounds: int = 4,
    seed: int = 0,
    merge_fraction: float = 0.5,
    rule_smoothing: float = 0.01,
    lexicon_smoothing: float = 0.1,
    split_iterations: int = 50,
    merge_iterations: int = 20,
    smooth_iterations: int = 10,
    tolerance: float = 0.0,
    binarization: str = "right",
    lexicon: str = "smoothed",
    signature: str = "shape",
    normalization: str = "typographic",
    rare: int | None = None,
    hierarchical: bool = True,
    word_backoff: str = "unknown",
    base: str = "generative",
    start: str = "generative",
    first_level: int = 0,
    l1: float = 1.0,
    l2: float = 0.0,
    iterations: int = 50,
    iteration_tolerance: float = 1e-4,
    threshold: float = math.exp(-10),
    shards: int = 4,
    grammars: int = 1,
    threads: int = 1,
) -> Model:
    """Grammar with latent annotations whose weights make the trees likely, given the words.

    Discriminative training (Petrov & Klein 2007, sections 3 and 4): rounds of splitting, merging
    and smoothing as in `build_latent_grammar`, then each level by L-BFGS. More accurate, and slower
    to train. Its weights are no probabilities; those of brackets and trees are.
    base: what a weight is a correction of: the "generative" probability, to which the penalties
        then draw it, or 1, "uniform", as in the paper, for which `lexicon` must be "simple".
    start: what each level begins with: its "generative" probabilities, or a "copy" of the weights
        of the level before.
    first_level: levels before it stay generative. A level has at most 2^level substates a symbol.
    l1, l2: the penalty is l1 * |theta|_1 + l2 * |theta|^2, without one half, where theta is the
        logarithm of a weight over its base. With l1 most corrections are none.
    iterations, iteration_tolerance: the training of a level ends after so many iterations of
        L-BFGS (with l1, OWL-QN), or when the mean relative decrease of the objective over ten of
        them falls below the tolerance.
    threshold: constituents of the training sentences with a posterior below it, at one level, are
        left out at the next.
    shards: the sentences are cut in so many parts, on which the result depends by rounding errors.
    grammars: as in `build_latent_grammar`.
    threads: so many share the parts in training; the result is the same.
    The rest: see `build_latent_grammar`.
    """
    # Not above: only who trains or has trained one pays for the import.
    from ..grammar.hierarchical import ConditionalGrammar

    generative = SplitMerge(
        rounds=rounds,
        seed=seed,
        merge_fraction=merge_fraction,
        rule_smoothing=rule_smoothing,
        lexicon_smoothing=lexicon_smoothing,
        split_iterations=split_iterations,
        merge_iterations=merge_iterations,
        smooth_iterations=smooth_iterations,
        tolerance=tolerance,
        binarization=binarization,
        lexicon=LexiconSettings(
            kind=lexicon,
            signature=signature,
            normalization=normalization,
            rare=rare,
            hierarchical=hierarchical,
            word_backoff=word_backoff,
        ),
        threads=threads,
    )
    estimator: Estimator = ConditionalGrammar(
        generative=generative,
        base=base,
        start=start,
        first_level=first_level,
        l1=l1,
        l2=l2,
        iterations=iterations,
        tolerance=iteration_tolerance,
        threshold=threshold,
        shards=shards,
        threads=threads,
    )
    if grammars > 1:
        estimator = Product(estimator, grammars)
    return learner_model("conditional_grammar", LatentGrammar.empty(), estimator)


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
    return Model(name, _forward, attrs=attrs)


def _forward(model: Model, docs: Any, is_train: bool) -> Any:
    # Components call their family directly; spaCy asks only that a Model can be held and stored.
    raise NotImplementedError(f"{model.name}: call the component, not its model")


def _store_by_its_own_bytes(kind: type) -> None:
    """Let thinc store attributes of this class by its `to_bytes` and `from_bytes`."""

    @serialize_attr.register(kind)
    def serialize(_: Any, value: Any, name: str, model: Model) -> bytes:
        return value.to_bytes()

    @deserialize_attr.register(kind)
    def deserialize(_: Any, value: bytes, name: str, model: Model) -> Any:
        return kind.from_bytes(value)


for _kind in (ChainModel, LatentGrammar, BayesNet, LogLinear, Stages, WordClasses):
    _store_by_its_own_bytes(_kind)
