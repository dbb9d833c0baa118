"""Architectures: each learner of the families as a `thinc.Model` that a config can name.

The model has no thinc parameters. It holds two attributes: "parameters", the family's model object
(arrays and strings, stored by thinc through the functions registered here), and "estimator", the
settings by which they are learned (not stored: the config has them).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thinc.api import Model
from thinc.model import deserialize_attr, serialize_attr

from ..errors import StructlearnError
from ..grammar.estimators import SplitMerge
from ..grammar.lexicon import LexiconSettings
from ..grammar.model import LatentGrammar
from ..grammar.product import Product
from ..sequence.classes import WordClasses
from ..sequence.estimators import CRF
from ..sequence.features import SHA_PEREIRA
from ..sequence.hmm import HMM
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
        trigram that the encoding allows; the paper has none.
    """
    return learner_model("hmm", ChainModel.empty(), HMM((word, tag), smoothing, encoding))


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


def _read_classes(path: Path | None) -> WordClasses | None:
    if path is None:
        return None
    if not Path(path).is_file():
        raise StructlearnError("SL010", path=path)
    return WordClasses.from_bytes(Path(path).read_bytes())


def learner_model(name: str, parameters: Any, estimator: Estimator) -> Model:
    """A `thinc.Model` that holds a learner of ours."""
    return Model(name, _forward, attrs={"parameters": parameters, "estimator": estimator})


def _forward(model: Model, docs: Any, is_train: bool) -> Any:
    # Components call their family directly; spaCy asks only that a Model can be held and stored.
    raise NotImplementedError(f"{model.name}: call the component, not its model")


@serialize_attr.register(ChainModel)
def _serialize_chain_model(_: Any, value: ChainModel, name: str, model: Model) -> bytes:
    return value.to_bytes()


@deserialize_attr.register(ChainModel)
def _deserialize_chain_model(_: Any, value: bytes, name: str, model: Model) -> ChainModel:
    return ChainModel.from_bytes(value)


@serialize_attr.register(LatentGrammar)
def _serialize_latent_grammar(_: Any, value: LatentGrammar, name: str, model: Model) -> bytes:
    return value.to_bytes()


@deserialize_attr.register(LatentGrammar)
def _deserialize_latent_grammar(_: Any, value: bytes, name: str, model: Model) -> LatentGrammar:
    return LatentGrammar.from_bytes(value)
