"""Architectures: each learner as a `thinc.Model` that a config can name.

The model has two attributes: "parameters", the model object of the family, which thinc stores by
the functions registered in `batch_trainable`, and "estimator", the learner with its settings, which
is not stored because the config has them. It has no thinc parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from thinc.api import Model

from ..classification.settings import BayesNetSettings, LogLinearSettings, StagesSettings
from ..classification.stages import empty as empty_classifier
from ..grammar.discriminative.settings import ConditionalGrammarSettings
from ..grammar.fragments.settings import MEstimatedGrammarSettings
from ..grammar.latent.settings import LatentGrammarSettings
from ..grammar.spans.settings import SpanGrammarSettings
from ..isbn.settings import ISBNSettings
from ..learning.settings import Settings, document, signature
from ..learning.training import Estimator
from ..sequence.chain.model import ChainModel
from ..sequence.settings import (
    CRFSettings,
    HMMSettings,
    MEMMSettings,
    MEstimationSettings,
    PseudoLikelihoodSettings,
    StochasticCRFSettings,
)
from ..words.classes import WordClasses
from .storage.component import let_be_stored
from .training.factories import without_models

_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


# For each type of settings: a function from settings to the parameters of an untrained component,
# and the name of the module that trains the learner, see `Estimator`.
_FAMILIES: dict[type[Settings], tuple[Callable[[Any], Any], str]] = {}


def architecture(
    kind: type[Settings],
    empty: Callable[[Any], Any],
    module: str,
    *,
    package: str = "spacy_structlearn",
    stored_as: str | None = None,
) -> Callable[..., Model]:
    """Make the architecture of a learner from its settings, which are its arguments.

    A learner in a block of its own, which is a Model, is replaced by its settings.
    empty: function from settings to the parameters of an untrained component.
    module: the name, in `package`, of the module that trains it, see `Estimator`.
    stored_as: the name of the Model. None: the name of the learner in snake case.
    """
    name = stored_as or _WORD.sub("_", kind.name).lower()
    _FAMILIES[kind] = empty, f"{package}.{module}"

    def build(**values: Any) -> Model:
        settings: Any = kind(**{key: without_models(value) for key, value in values.items()})
        parameters, attrs = empty_parameters(settings), {}
        if hasattr(settings, "classes") and not hasattr(parameters, "classes"):
            # Never None, because thinc loads an attribute as the type that it has.
            attrs["classes"] = WordClasses.empty()
            if settings.classes is not None:
                attrs["classes"] = WordClasses.from_bytes(settings.content("classes"))
        return learner_model(name, parameters, estimator(settings), **attrs)

    build.__name__ = build.__qualname__ = f"build_{name}"
    build.__doc__ = document(kind)
    build.__signature__ = signature(kind)  # type: ignore[attr-defined]
    build.settings = kind  # type: ignore[attr-defined]
    return build


def estimator(settings: Settings) -> Estimator:
    """Return the learner with these settings. The type of the settings has an architecture."""
    return Estimator(settings, _FAMILIES[type(settings)][1])


def empty_parameters(settings: Settings) -> Any:
    """Return the parameters of an untrained component, for settings as in `estimator`."""
    return _FAMILIES[type(settings)][0](settings)


def _empty(path: str) -> Callable[[Any], Any]:
    """Return a function that makes an empty model of a class, whose module it imports."""
    module, name = path.split(":")

    def empty(settings: Any) -> Any:
        return getattr(import_module(f"spacy_structlearn.{module}"), name).empty()

    return empty


_CHAINS: dict[str, Any] = {
    "empty": lambda _: ChainModel.empty(),
    "module": "sequence.estimators.training",
}
_CLASSIFIERS: dict[str, Any] = {"empty": empty_classifier, "module": "classification.training"}

build_crf = architecture(CRFSettings, **_CHAINS)
build_memm = architecture(MEMMSettings, **_CHAINS)
build_pseudolikelihood = architecture(
    PseudoLikelihoodSettings, **_CHAINS, stored_as="pseudolikelihood"
)
build_stochastic_crf = architecture(StochasticCRFSettings, **_CHAINS)
build_hmm = architecture(HMMSettings, **_CHAINS)
build_m_estimation = architecture(MEstimationSettings, **_CHAINS, stored_as="m_estimation")
build_latent_grammar = architecture(
    LatentGrammarSettings, _empty("grammar.latent.model:LatentGrammar"), "grammar.latent.training"
)
build_conditional_grammar = architecture(
    ConditionalGrammarSettings,
    _empty("grammar.latent.model:LatentGrammar"),
    "grammar.discriminative.training",
)
build_span_grammar = architecture(
    SpanGrammarSettings, _empty("grammar.spans.model:SpanGrammar"), "grammar.spans.training"
)
build_m_estimated_grammar = architecture(
    MEstimatedGrammarSettings,
    _empty("grammar.fragments.weights:FragmentGrammar"),
    "grammar.fragments.training",
    stored_as="m_estimated_grammar",
)
build_isbn = architecture(ISBNSettings, _empty("isbn.model:ISBN"), "isbn.training")
build_bayes_net = architecture(BayesNetSettings, **_CLASSIFIERS)
build_log_linear = architecture(LogLinearSettings, **_CLASSIFIERS)
build_stages = architecture(StagesSettings, **_CLASSIFIERS)


def learner_model(name: str, parameters: Any, estimator: Estimator, **attrs: Any) -> Model:
    """Make a `thinc.Model` that holds a learner of this package."""
    attrs = {"parameters": parameters, "estimator": estimator, **attrs}
    model: Model = Model(name, forward, attrs=attrs)
    let_be_stored(model)
    return model


def forward(model: Model, docs: Any, is_train: bool) -> Any:
    """Raise NotImplementedError."""
    # Components call their family directly; spaCy only needs to store the Model.
    raise NotImplementedError(f"{model.name}: call the component, not its model")
