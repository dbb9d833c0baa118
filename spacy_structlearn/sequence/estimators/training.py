"""Training of chains: the models, trainers and adaptation that belong to the settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ...errors import StructlearnError
from ...learning.training import Trainer, array_digest
from ...optimize.lbfgs import LBFGS
from ..chain.model import ChainModel
from ..layout.data import Parts, Symbols, arranged, concatenate
from ..layout.encoding import tag_set
from ..layout.features import Templates
from ..settings import (
    ChainSettings,
    CRFSettings,
    HMMSettings,
    LikelihoodSettings,
    MEMMSettings,
    MEstimationSettings,
    PseudoLikelihoodSettings,
    SequenceSettings,
    StochasticCRFSettings,
)
from .crf import LBFGS_MEMORY, ChainLikelihood, LocalLikelihood, LogPseudoLikelihood
from .hmm import HMMTrainer, close_columns
from .m_estimation import MEstimationTrainer
from .pseudolikelihood import JointPseudoLikelihood
from .stochastic_crf import StochasticCRFTrainer


def initialize(
    settings: SequenceSettings,
    data: Parts,
    labels: Sequence[str],
    previous: ChainModel | None = None,
) -> ChainModel:
    """Return an untrained model: with the features of `data`, or without if they are counted.

    labels: chunk labels; the labels of the model are their tags in the encoding.
    previous: the model before, whose word classes are kept if the settings have none, and whose
        weights are kept in a warm start.
    """
    tags = tag_set(labels, settings.encoding)
    if isinstance(settings, HMMSettings):
        return _without_predicates(settings, tags, [f"{name}[0]" for name in settings.attributes])
    assert isinstance(settings, ChainSettings)
    vocabularies: Sequence[Symbols] = ()
    if isinstance(settings, MEstimationSettings):
        model = _without_predicates(settings, tags, settings.own_templates.texts)
        if data:
            _, vocabularies = close_columns(np.concatenate([part.columns for part in data]))
    else:
        columns, offsets, label_ids = concatenate(
            arranged(data) if is_joint(settings) else data, tags
        )
        if is_joint(settings):
            columns, vocabularies = close_columns(columns)
        model = ChainModel.build(
            columns,
            offsets,
            label_ids,
            tags,
            settings.own_templates,
            settings.min_count,
            order=settings.order,
            pair_features=settings.pair_features,
            encoding=settings.encoding,
        )
        if isinstance(settings, StochasticCRFSettings):
            # All features have a weight, not only those that occur with gold labels.
            model.margin = settings.margin
            model.supported = np.ones(model.weights.shape, dtype=np.bool_)
            model.supported_transitions = np.ones(model.transitions.shape, dtype=np.bool_)
    if vocabularies:
        model.vocabularies = dict(zip(settings.columns, vocabularies, strict=True))
    model.classes = settings.word_classes
    if previous is not None:
        model.classes = model.classes or previous.classes
        if settings.warm_start and not previous.is_empty:
            model.start_from(previous)
    return model


def _without_predicates(
    settings: SequenceSettings, tags: Sequence[str], templates: Sequence[str]
) -> ChainModel:
    """Return a model of the labels, whose other parts are counted."""
    n = len(tags)
    keys, weights = np.empty(0, dtype=np.uint64), np.empty((0, n))
    parts = tags, Templates(templates), keys, weights, np.zeros((n, n))
    return ChainModel(*parts, encoding=settings.encoding)


def trainer(settings: SequenceSettings, parameters: ChainModel, data: Parts) -> Trainer:
    """Return a trainer on `data`, which starts from `parameters`; data can be added later."""
    if isinstance(settings, HMMSettings):
        return HMMTrainer(settings, parameters, data)
    if isinstance(settings, MEstimationSettings):
        return MEstimationTrainer(settings, parameters, data)
    if isinstance(settings, StochasticCRFSettings):
        return StochasticCRFTrainer(settings, parameters, data)
    return LikelihoodTrainer(settings, parameters, data)


def adapter(
    settings: SequenceSettings,
    parameters: ChainModel,
    data: Parts,
    labels: Sequence[str],
    *,
    strength: float,
) -> LikelihoodTrainer:
    """Return a trainer of a trained model on new data (Chelba & Acero 2004).

    labels: chunk labels, old and new.
    strength: of the Gaussian prior, whose mean is the weights of the model, and 0 for new features.
    A stochastic CRF considers all labels then, not only likely ones.
    Raises StructlearnError for joint models.
    """
    if is_joint(settings):
        raise StructlearnError("SL095", learner=f"{settings.name} with joint = true")
    if isinstance(settings, StochasticCRFSettings):
        settings = settings.part(CRFSettings, max_iterations=CRFSettings.max_iterations)
    assert isinstance(settings, LikelihoodSettings)
    settings = replace(settings, l2=strength, l1=0.0)
    tags = tag_set(labels, parameters.encoding)
    extended = parameters.extended(*concatenate(data, tags), tags, settings.min_count)
    return LikelihoodTrainer(settings, extended, data, centered=True)


def objective_kind(settings: LikelihoodSettings) -> type[ChainLikelihood]:
    """Return the class of the objective."""
    if isinstance(settings, CRFSettings):
        return ChainLikelihood
    if isinstance(settings, MEMMSettings):
        return LocalLikelihood
    return JointPseudoLikelihood if is_joint(settings) else LogPseudoLikelihood


def is_joint(settings: SequenceSettings) -> bool:
    """Whether words and tags are predicted, too, which needs closed vocabularies."""
    return isinstance(settings, PseudoLikelihoodSettings) and settings.joint


class LikelihoodTrainer(Trainer[Any]):
    """Minimises the objective of `LikelihoodSettings`.

    With more data the curvature that was learned is forgotten: the objective is a new one, of the
    same features.
    centered: whether the mean of the prior is the weights of the model, not 0.
    """

    parts: ClassVar[dict[str, Any]] = {"_optimizer": LBFGS}
    _objective: ChainLikelihood | None = None
    _optimizer: LBFGS

    def __init__(self, settings: Any, model: ChainModel, data: Parts, *, centered: bool = False):
        super().__init__(settings)
        self._model = model
        self._center = (model.weights.copy(), model.transitions.copy()) if centered else None
        self._data: Parts = ()
        self.add(data)

    def _add(self, data: Parts) -> None:
        self._data = [*self._data, *data]
        if self._objective is not None:
            self._objective.write(self._optimizer.x)
            self._objective.close()
            self._objective = None

    def iterate(self) -> bool:
        objective, optimizer = self._begun(), self._optimizer
        before = optimizer.n_iterations
        more = optimizer.step(objective.value_and_grad)
        self.n_iterations += optimizer.n_iterations - before
        self.value = optimizer.value or 0.0
        return more and optimizer.n_iterations < self.settings.max_iterations

    def parameters(self) -> ChainModel:
        """A copy of the model as it stands, float32, without predicates that have no weight."""
        self._begun().write(self._optimizer.x)
        return self._model.compact("float32")

    def data_digest(self) -> bytes:
        objective = self._begun()
        center = [objective.center] if self._center else []
        return array_digest(objective.digest(), self._first, *center)

    def restore(self, state: dict[str, Any]) -> bool | None:
        super().restore(state)
        if self.finished:
            self._objective = self._make_objective()
        return len(self._optimizer.x) == len(self._first)

    def close(self) -> None:
        if self._objective is not None:
            self._objective.close()

    def _begun(self) -> ChainLikelihood:
        """Return the objective; first of all, make it and begin at the weights of the model."""
        if self._objective is None:
            self._objective = self._make_objective()
            self._optimizer = LBFGS(
                self._objective.parameters(),
                memory=LBFGS_MEMORY,
                gradient_tolerance=0.0,
                value_tolerance=self.settings.tolerance,
                l1=self.settings.l1,
            )
            self._first = self._optimizer.x
        return self._objective

    def _make_objective(self) -> ChainLikelihood:
        settings, data, labels = self.settings, self._data, self._model.labels
        joint = is_joint(settings)
        columns, offsets, label_ids = concatenate(arranged(data) if joint else data, labels)
        if joint:
            columns = self._model.derive(close_columns(columns)[0])
        shared: dict[str, Any] = {
            "l2": settings.l2,
            "threads": settings.threads,
            "shards": settings.shards,
        }
        objective = objective_kind(settings)(self._model, columns, offsets, label_ids, **shared)
        if self._center:
            objective.set_prior(settings.l2, objective.vector(*self._center))
        return objective
