"""Training of classifiers: the models, trainers and adaptation that belong to the settings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from typing import Any

from ..learning.training import Trainer, array_digest
from .adaptation import BayesNetAdapter, LogLinearAdapter
from .features import ClassificationData
from .linear.log_linear import LogLinear
from .nets.bayes_net import BayesNet
from .settings import AnySettings, LogLinearSettings, StagesSettings
from .stages import Stages, StagesData
from .trainers import BayesNetTrainer, LogLinearTrainer


def initialize(
    settings: AnySettings, data: Sequence[Any], labels: Collection[str], previous: Any = None
) -> Any:
    """Return an untrained model of the labels and the variables of `data`.

    labels: those of the model; of stages, the labels of the main stage. The other stages have the
        labels of their instances. A stage without instances has no variables.
    previous: not used.
    """
    if isinstance(settings, StagesSettings):
        classifiers = {}
        for stage, of in settings.stages.items():
            instances = instances_of(data, stage)
            known: Collection[str] = {label for part in instances for label in part.labels}
            known = labels if stage == settings.order[-1] else known
            classifiers[stage] = initialize(of, instances, known)
        return Stages(classifiers)
    kind: Any = LogLinear if isinstance(settings, LogLinearSettings) else BayesNet
    variables = data[0].table.variables if data else ()
    return kind(labels=sorted(set(labels)), variables=variables)


def trainer(settings: AnySettings, parameters: Any, data: Sequence[Any]) -> Trainer:
    """Return a trainer; the result depends only on the data and the labels."""
    if isinstance(settings, StagesSettings):
        return StagesTrainer(settings, parameters, data)
    if isinstance(settings, LogLinearSettings):
        return LogLinearTrainer(settings, parameters, data)
    return BayesNetTrainer(settings, parameters, data)


def adapter(
    settings: AnySettings,
    parameters: Any,
    data: Sequence[Any],
    labels: Sequence[str],
    *,
    strength: float,
) -> Trainer:
    """Return a trainer that starts from trained `parameters`; see `adaptation`.

    labels: those to add, to the main stage of stages, besides labels of the data. Stages without
        instances stay as they are.
    """
    if isinstance(settings, StagesSettings):
        return StagesTrainer(settings, parameters, data, labels, strength=strength)
    if not parameters.used:  # it is not trained, or has learned nothing from the variables
        untrained = initialize(settings, data, (*parameters.labels, *labels))
        return trainer(settings, untrained, data)
    if isinstance(settings, LogLinearSettings):
        return LogLinearAdapter(settings, parameters, data, labels, strength=strength)
    return BayesNetAdapter(settings, parameters, data, labels, strength=strength)


class StagesTrainer(Trainer[StagesSettings]):
    """Trains one stage after another, each to its end.

    labels, strength: of the main stage and of the priors, to adapt trained stages; None: all stages
        are trained from nothing.
    value: the sum of the objectives of the stages, 0 for stages that have not begun.
    n_iterations: number of steps of all stages.
    """

    def __init__(
        self,
        settings: StagesSettings,
        stages: Stages,
        data: Sequence[StagesData],
        labels: Sequence[str] = (),
        *,
        strength: float | None = None,
    ):
        super().__init__(settings)
        self._labels, self._strength = labels, strength
        self._classifiers = {stage: stages[stage] for stage in settings.order}
        self._trainers: dict[str, Trainer] = {}
        # Stages trained since their classifier was taken from the trainer.
        self._changed: set[str] = set()
        self.add(data)

    def _add(self, data: Sequence[StagesData]) -> None:
        """Add instances; stages that have any are trained again."""
        for stage, settings in self.settings.stages.items():
            instances = instances_of(data, stage)
            if not instances:
                continue
            if stage in self._trainers:
                self._trainers[stage].add(instances)
                continue
            classifier = self._classifiers[stage]
            if not classifier.variables:  # it had no instances
                classifier = initialize(settings, instances, classifier.labels)
            if self._strength is None:
                self._trainers[stage] = trainer(settings, classifier, instances)
            else:
                labels = self._labels if stage == self.settings.order[-1] else ()
                self._trainers[stage] = adapter(
                    settings, classifier, instances, labels, strength=self._strength
                )

    def iterate(self) -> bool:
        """Make a step of the first stage that is not finished."""
        trainers = self._in_order()
        stage = next((stage for stage, trainer in trainers.items() if not trainer.finished), None)
        if stage is not None:
            trainers[stage].step()
            self._changed.add(stage)
        self.value = float(sum(trainer.value for trainer in trainers.values()))
        self.n_iterations = sum(trainer.n_iterations for trainer in trainers.values())
        return not all(trainer.finished for trainer in trainers.values())

    def parameters(self) -> Stages:
        """Return the current model; stages without training are unchanged."""
        for stage in sorted(self._changed):
            self._classifiers[stage] = self._trainers[stage].parameters()
        self._changed.clear()
        return Stages(self._classifiers)

    def data_digest(self) -> bytes:
        labels = [(stage, part.labels) for stage, part in self._classifiers.items()]
        trainers = [(stage, part.identity()) for stage, part in self._in_order().items()]
        return array_digest(labels, trainers)

    def state(self) -> dict[str, Any]:
        return {"states": self._trainers}

    def restore(self, state: dict[str, Any]) -> bool:
        states = state["states"]
        trainers = {stage: copy(trainer) for stage, trainer in self._trainers.items()}
        if states.keys() != trainers.keys():
            return False
        resumed = all(trainers[stage].resume(states[stage]) for stage in trainers)
        self._trainers, self._classifiers = trainers, dict(self._classifiers)
        self._changed = {stage for stage in trainers if trainers[stage].n_iterations}
        return resumed

    def _in_order(self) -> dict[str, Trainer]:
        # A fixed order, because sums depend on it.
        return {
            stage: self._trainers[stage] for stage in self._classifiers if stage in self._trainers
        }


def instances_of(data: Sequence[StagesData], stage: str) -> list[ClassificationData]:
    """Return the instances of one stage, without empty parts."""
    return [datum[stage] for datum in data if stage in datum and datum[stage].labels]
