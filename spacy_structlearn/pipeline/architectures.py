"""Architectures: each learner of the families as a `thinc.Model` that a config can name.

The model holds two attributes: "parameters", the family's model object (arrays and strings, stored
by thinc through the functions registered here), and "estimator", the settings by which they are
learned (not stored: the config has them). It has no thinc parameters, but for those of the layers
of a neural grammar.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d

from ..classification.settings import BayesNetSettings, LogLinearSettings, StagesSettings
from ..errors import StructlearnError
from ..grammar.estimators import SplitMerge
from ..grammar.lexicon import LexiconSettings
from ..grammar.model import LatentGrammar
from ..grammar.product import Product
from ..isbn.settings import ISBNSettings
from ..learning.settings import Settings, document, signature
from ..sequence.classes import WordClasses
from ..sequence.estimators import CRF
from ..sequence.features import SHA_PEREIRA
from ..sequence.hmm import HMM
from ..sequence.local import MEMM
from ..sequence.model import ChainModel
from ..sequence.perceptron import Perceptron
from ..sequence.pruned import StochasticCRF
from .batch_trainable import Estimator, let_be_stored

_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=M)(?=Estimat)")


def architecture(
    kind: type[Settings], stored_as: str | None = None, *, holds_classes: bool = False
) -> Callable[..., Model]:
    """A registered architecture made of the settings of a learner.

    Its arguments are the settings, as a config has them. A learner in a block of its own, which is
    a Model, is taken for its settings.
    stored_as: the name of the Model, if it is not that of the learner in small letters.
    holds_classes: the Model holds the word classes that `classes` names, not what is learned.
    """
    name = stored_as or _WORD.sub("_", kind.name).lower()

    def build(**values: Any) -> Model:
        settings = kind(**{key: _without_models(value) for key, value in values.items()})
        classes = _held_classes(settings.classes) if holds_classes else None
        return learner_model(name, settings.empty(), settings, classes)

    build.__name__ = build.__qualname__ = f"build_{name}"
    build.__doc__ = document(kind)
    build.__signature__ = signature(kind)  # type: ignore[attr-defined]
    return build


def _without_models(value: Any) -> Any:
    """The settings that a Model of ours holds; any other value as it is."""
    if isinstance(value, Model) and "estimator" in value.attrs:
        return value.attrs["estimator"]
    if isinstance(value, dict):
        return {key: _without_models(item) for key, item in value.items()}
    return value


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
    shards: int = 1,
    warm_start: bool = False,
) -> Model:
    """Conditional random field over label sequences (Lafferty et al. 2001).

    templates: predicates on the tokens around a position, such as "ORTH[-1]|ORTH[0]"; the names
        are spaCy's token attributes, CLASS and CLASS8 (the first eight turns of the path) for word
        classes, or PREFIX2, SUFFIX4, FLAGS ... for the spelling (`sequence.words`). None: those of
        Sha & Pereira (2003), on ORTH and TAG.
    order: 1, or 2 for pairs of labels as states, as in that paper. pair_features: whether
        predicates are crossed with the pairs too.
    encoding: of chunks as labels: IOB2, IOB1, IOE2 or IOBES.
    classes: a file of word classes (`WordClasses.to_bytes`), needed in training only.
    l2, l1: the penalty is l2 * |w|^2 + l1 * |w|_1, without one half.
    min_frequency: predicates seen less often in training are left out.
    max_iterations, tolerance: training ends after so many iterations of L-BFGS, or when the mean
        relative decrease of the objective over ten iterations falls below the tolerance.
    shards: the sentences are cut in so many parts, on which the result depends by rounding errors,
        and which may be on several machines. threads: so many share the sentences, or the parts, in
        training.
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
        shards=shards,
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
    shards: int = 1,
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
        shards=shards,
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
    shards: int = 1,
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
        shards=shards,
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


def build_stochastic_crf(
    templates: list[str] | None = None,
    encoding: str = "IOB2",
    classes: Path | None = None,
    min_frequency: int = 1,
    max_epochs: int = 5,
    learn_rate: float = 0.3,
    damping: float = 0.3,
    l1: float = 0.1,
    margin: float = 6.0,
    seed: int = 0,
    warm_start: bool = False,
) -> Model:
    """Conditional random field of first order for many labels, such as part-of-speech tags.

    It looks only at the labels that a token can well have, and learns from a sentence at a time
    (Duchi, Hazan & Singer 2011).
    max_epochs: passes through the data. learn_rate, damping: of the adaptive steps.
    l1: the penalty is l1 * |w|_1; it leaves few weights.
    margin: labels whose score at a token, in nats, is lower than the best one's by more than this
        are not looked at.
    seed: of the order of sentences. The rest: see `build_crf`.
    """
    estimator = StochasticCRF(
        templates=tuple(SHA_PEREIRA if templates is None else templates),
        min_frequency=min_frequency,
        encoding=encoding,
        classes=_read_classes(classes),
        warm_start=warm_start,
        max_epochs=max_epochs,
        learn_rate=learn_rate,
        damping=damping,
        l1=l1,
        margin=margin,
        seed=seed,
    )
    return learner_model("stochastic_crf", ChainModel.empty(), estimator)


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
    shards: int = 1,
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
    shards: the sentences are cut in so many parts, on which the result depends by rounding errors,
        and which may be on several machines. threads: so many share the sentences, or the parts, in
        training; the result is the same.
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
        shards=shards,
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
    scales: str = "own",
    solver: str = "lbfgs",
    learn_rate: float = 0.3,
    batch_size: int = 64,
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
    scales: parameters of the productions of a level's "own" substates, or of those of "all" levels
        up to it, which are added up (Petrov & Klein 2008).
    solver: "lbfgs", or "adagrad", by steps of a few sentences each: an iteration is a pass through
        all of them. Sooner at first, and less near to the optimum. batch_size, learn_rate: of it.
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
        scales=scales,
        solver=solver,
        learn_rate=learn_rate,
        batch_size=batch_size,
        shards=shards,
        threads=threads,
    )
    if grammars > 1:
        estimator = Product(estimator, grammars)
    return learner_model("conditional_grammar", LatentGrammar.empty(), estimator)


def build_span_grammar(
    grammar: Model | None = None,
    templates: list[str] | None = None,
    tag_templates: list[str] | None = None,
    buckets: int = 2**20,
    min_count: int = 2,
    l1: float = 3e-4,
    learn_rate: float = 0.1,
    weight: float = 1.0,
    fit_weight: bool = True,
    folds: int = 5,
    fold_grammars: int = 1,
    threshold: float = 1e-4,
    epochs: int = 6,
    batch_size: int = 32,
    seed: int = 0,
    threads: int = 1,
) -> Model:
    """Latent grammar whose trees are scored again, by features of the words around each span.

    A CRF over the trees that the grammar leaves of a sentence (Hall, Durrett & Klein 2014), which
    learns from forests by grammars that have not seen the sentence. More accurate than the grammar,
    and nearly as fast.
    grammar: the architecture of the latent grammar, "spacy_structlearn.LatentGrammar.v1" or
        "spacy_structlearn.ConditionalGrammar.v1", in a block of its own; None: the first, as it is.
    templates, tag_templates, buckets, min_count, l1, learn_rate: see `span_features`.
    weight: of the grammar's score of a tree, log P(tree | words). fit_weight: learn it too.
    folds: the trees are cut in so many parts, and those of each are parsed by a grammar of the
        others. fold_grammars: so many grammars each time, as a product.
    threshold: posteriors below it are left out of the forests; those of parsing should be alike.
    epochs: passes through the forests. batch_size: sentences in a step.
    seed: of the order of the sentences. threads: so many share the sentences when forests are made;
        the result is the same.
    """
    features = span_features(templates, tag_templates, buckets, min_count, l1, learn_rate)
    settings = {
        "folds": folds,
        "fold_grammars": fold_grammars,
        "threshold": threshold,
        "features": features,
        "epochs": epochs,
        "batch_size": batch_size,
        "weight": weight,
        "fit_weight": fit_weight,
        "seed": seed,
        "threads": threads,
    }
    return _anchored_model("span_grammar", "spacy_structlearn.SpanGrammar.v1", grammar, settings)


def build_neural_grammar(
    tok2vec: Model[list[Doc], list[Floats2d]] | None = None,
    grammar: Model | None = None,
    features: Any | None = None,
    hidden_width: int = 160,
    dropout: float = 0.35,
    learn_rate: float = 0.001,
    l2: float = 0.01,
    weight: float = 1.0,
    fit_weight: bool = True,
    folds: int = 5,
    fold_grammars: int = 1,
    threshold: float = 1e-4,
    epochs: int = 6,
    batch_size: int = 32,
    seed: int = 0,
    threads: int = 1,
) -> Model:
    """Latent grammar whose trees are scored again, by a small network over the words of each span.

    A neural CRF (Durrett & Klein 2015) over the trees that the grammar leaves of a sentence, which
    learns from forests by grammars that have not seen the sentence.
    tok2vec: layers that make a row of each token of a sentence, such as "spacy.Tok2Vec.v2", in a
        block of their own; no listener, because they are trained with the parser alone. They see
        the sentence without white space, with the annotation of components before the parser. None:
        "spacy_structlearn.BiLSTMEncoder.v1" over hashed norms, prefixes, suffixes and shapes.
    features: linear scores beside, "spacy_structlearn.span_features.v1" in a block; None: none.
    hidden_width: of the layer over a span. dropout: of all layers. learn_rate, l2: of Adam and of
        its weight decay.
    seed: of the first parameters, of dropout and of the order of the sentences.
    The rest: see `build_span_grammar`.
    RAISES: SL040 for a listener.
    """
    # Not above: only who trains or has trained one pays for the import.
    from ..grammar.neural import Network, span_scorer

    name = "spacy_structlearn.NeuralGrammar.v1"
    if tok2vec is None:
        tok2vec = _default_tok2vec(seed)
    for node in tok2vec.walk():
        # Those of spaCy and of its satellites have this in common, and no base class.
        if hasattr(node, "upstream_name") or node.name.endswith("listener"):
            upstream = getattr(node, "upstream_name", "*")
            raise StructlearnError("SL040", architecture=name, upstream=upstream)
    scorer = span_scorer(hidden_width)
    network = Network(tok2vec, scorer, dropout=dropout, learn_rate=learn_rate, l2=l2, seed=seed)
    settings = {
        "folds": folds,
        "fold_grammars": fold_grammars,
        "threshold": threshold,
        "features": features,
        "network": network,
        "epochs": epochs,
        "batch_size": batch_size,
        "weight": weight,
        "fit_weight": fit_weight,
        "seed": seed,
        "threads": threads,
    }
    layers = {"tok2vec": tok2vec, "scorer": scorer}
    return _anchored_model("neural_grammar", name, grammar, settings, layers)


def build_m_estimated_grammar(
    grammar: Model | None = None,
    templates: list[str] | None = None,
    min_count: int = 2,
    min_word_count: int = 2,
    c: float = 1.0,
    scaling: float = 0.75,
    tolerance: float = 1e-4,
    max_passes: int = 50,
    conditional_iterations: int = 0,
    l2: float = 1.0,
    start: str = "m_estimate",
    folds: int = 5,
    threshold: float = 1e-2,
    seed: int = 0,
    threads: int = 1,
) -> Model:
    """Grammar corrected by features of fragments of trees (Smith, Vail & Lafferty 2007).

    M-estimation: how often the grammar expects each feature has a closed form, and the treebank is
    counted once, so that no sentence is parsed in training.
    grammar: the architecture of the grammar that is corrected, "spacy_structlearn.LatentGrammar.v1"
        in a block of its own; None: the treebank grammar, without any splitting.
    templates: of features, such as "RULE|PARENT" or "LABEL|WORD[first]"; see `grammar.fragments`.
        None: the usual ones. min_count: features seen less often in training are left out.
        min_word_count: words seen less often are unknown ones.
    c: the variance of the prior on the weight of a feature that is in a tree once, on the average;
        of one that is there m times it is c / m^scaling. scaling: 0 for the paper's, c for all.
    tolerance, max_passes: training ends when the objective is known to be within this of its
        minimum, or after so many passes through the trees.
    conditional_iterations: so many of L-BFGS follow, which make the trees likely given the words:
        more accurate, and the training sentences are parsed for it. 0: none. l2: the penalty there
        is l2 * |w|^2, without one half. start: of these, "m_estimate", or "zero", without
        M-estimation before.
    folds: the trees are cut in so many parts, and those of each are parsed by a grammar of the
        others; 1: all by that of all. threshold: posteriors below it are left out of the forests;
        those of parsing should be alike, and lower, such as 1e-4, where the grammar is split. Both
        are for these iterations.
    seed: of the order of the trees. threads: so many share the forests; the result is the same.
    RAISES: SL443 for a product of grammars.
    """
    # Not above, as in `build_pseudolikelihood`.
    from ..grammar.anchored import AnchoredGrammar
    from ..grammar.fragment_weights import FragmentFeatures
    from ..grammar.m_estimation import MEstimation

    if grammar is None:
        grammar = build_latent_grammar(rounds=0)
    estimator = MEstimation(
        base=_grammar_estimator("spacy_structlearn.MEstimatedGrammar.v1", grammar),
        features=FragmentFeatures(templates, min_count, min_word_count),
        c=c,
        scaling=scaling,
        tolerance=tolerance,
        max_passes=max_passes,
        conditional_iterations=conditional_iterations,
        l2=l2,
        start=start,
        folds=folds,
        threshold=threshold,
        seed=seed,
        threads=threads,
    )
    return learner_model("m_estimated_grammar", AnchoredGrammar.empty(), estimator)


def span_features(
    templates: list[str] | None = None,
    tag_templates: list[str] | None = None,
    buckets: int = 2**20,
    min_count: int = 2,
    l1: float = 3e-4,
    learn_rate: float = 0.1,
) -> Any:
    """Linear scores of symbols over spans, for `build_neural_grammar`.

    templates: what is asked of a span, such as "WORD[first]|SUFFIX3[after]" or "LENGTH"; see
        `spacy_structlearn.grammar.span_features.Templates`. tag_templates: of the word below a tag,
        such as "SUFFIX2[0]|WORD[-1]". None: the usual ones.
    buckets: number of weights, a power of 2; features that fall together share one.
    min_count: words seen less often in training are known by shape and suffix only.
    l1: the penalty is l1 * |w|_1, of the mean loss of a sentence in nats. learn_rate: of AdaGrad.
    """
    # Not above, as in `build_neural_grammar`.
    from ..grammar.span_features import SpanFeatures

    return SpanFeatures(
        templates=templates,
        tag_templates=tag_templates,
        buckets=buckets,
        min_count=min_count,
        l1=l1,
        learn_rate=learn_rate,
    )


def build_bilstm_encoder(
    width: int = 192, depth: int = 1, seed: int = 0
) -> Model[list[Floats2d], list[Floats2d]]:
    """Layers of long short-term memory in both directions, without torch.

    For the block `encode` of "spacy.Tok2Vec.v2": it reads rows of a sentence's words, of any width,
    and gives rows that know the whole sentence. Dropout is that of the architecture around it.
    width: of the rows that it gives, even. depth: number of layers. seed: of their first
    parameters.
    RAISES: SL042 for a width or depth that is none.
    """
    from thinc.api import Dropout, chain, with_array

    from ..grammar.bilstm import bilstm

    for name, value, sound, wanted in (
        ("width", width, width >= 2 and width % 2 == 0, "even, 2 or more"),
        ("depth", depth, depth >= 1, "1 or more"),
    ):
        if not sound:
            raise StructlearnError("SL042", name=name, value=value, wanted=wanted)
    layers: list[Model] = [with_array(Dropout(0.0))]
    for number in range(depth):
        layers += [bilstm(width, seed=seed + number), with_array(Dropout(0.0))]
    model: Model[list[Floats2d], list[Floats2d]] = chain(*layers)
    model.set_dim("nO", width)
    return model


def _default_tok2vec(seed: int) -> Model[list[Doc], list[Floats2d]]:
    from spacy.ml.models.tok2vec import MultiHashEmbed, build_Tok2Vec_model

    attrs = ["NORM", "PREFIX", "SUFFIX", "SHAPE"]
    embed = MultiHashEmbed(
        width=96, attrs=attrs, rows=[5000, 1000, 2500, 2500], include_static_vectors=False
    )
    return build_Tok2Vec_model(embed, build_bilstm_encoder(seed=seed))


def _anchored_model(
    name: str,
    architecture: str,
    grammar: Model | None,
    settings: dict[str, Any],
    layers: dict[str, Model] | None = None,
) -> Model:
    """A model of a latent grammar with scores beside it. RAISES: SL041 if `grammar` holds none."""
    from ..grammar.anchored import AnchoredEstimator, AnchoredGrammar

    base = _grammar_estimator(architecture, grammar or build_latent_grammar())
    model = learner_model(name, AnchoredGrammar.empty(), AnchoredEstimator(base, **settings))
    for ref, layer in (layers or {}).items():
        model.layers.append(layer)
        model.set_ref(ref, layer)
    return model


def _grammar_estimator(architecture: str, grammar: Model) -> Any:
    """How the grammar of a block is learned. RAISES: SL041 if `grammar` holds none."""
    base = grammar.attrs.get("estimator")
    if base is None or not isinstance(grammar.attrs.get("parameters"), LatentGrammar):
        raise StructlearnError("SL041", architecture=architecture, model=grammar.name)
    return base


build_isbn = architecture(ISBNSettings)
build_bayes_net = architecture(BayesNetSettings, holds_classes=True)
build_log_linear = architecture(LogLinearSettings, holds_classes=True)
build_stages = architecture(StagesSettings)


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
