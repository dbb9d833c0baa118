"""Stages: one model of several classifiers under names, learned one after another.

Semantic role labeling, for example, has three stages: which words are predicates, which phrases are
their arguments, and which roles these have. Each stage is a Bayesian network or a log-linear model
with its own table and labels. The last stage is the main one, whose labels are those of the model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from textwrap import indent
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from ..errors import StructlearnError
from ..learning.stored import Stored
from ..learning.training import Trainer, array_digest
from ..parallel.shards import MakeEngine, make_engine
from ..serialization import nested
from .bayes_net import BayesNet
from .classifier import Classifier
from .features import ClassificationData, Table
from .log_linear import LogLinear
from .settings import BayesNetSettings, LogLinearSettings, StagesSettings

StagesData: TypeAlias = "Mapping[str, ClassificationData]"
"""Labelled instances of stages; a stage that has none may be missing."""

_CLASSIFIERS: dict[str, type[Classifier]] = {kind.kind: kind for kind in (BayesNet, LogLinear)}


class Stages(Stored):
    """Classifiers under names, in the order in which they are learned; the last is the main one.

    classifiers: the classifier of each stage.
    Raises StructlearnError for one that is neither a Bayes net nor a log-linear model.
    """

    kind = "stages"

    def __init__(self, classifiers: Mapping[str, Classifier]):
        for stage, classifier in classifiers.items():
            if not isinstance(classifier, Classifier):
                raise StructlearnError("SL531", stage=stage, found=f"a {type(classifier).__name__}")
        self.classifiers = dict(classifiers)

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of the stages, in order."""
        return tuple(self.classifiers)

    @property
    def is_empty(self) -> bool:
        """Whether the main stage has no labels."""
        return not self.labels

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the main stage, ascending."""
        return self[self.stages[-1]].labels if self.classifiers else ()

    def __iter__(self) -> Iterator[str]:
        return iter(self.classifiers)

    def __getitem__(self, stage: str) -> Classifier:
        """Return the classifier of a stage. Raises StructlearnError if the stage is unknown."""
        if stage not in self.classifiers:
            raise StructlearnError("SL530", stage=stage, known=", ".join(self.classifiers))
        return self.classifiers[stage]

    def compact(
        self, dtype: DTypeLike = "float16", threshold: float | Mapping[str, float] = 0.0
    ) -> Stages:
        """Return a smaller model; see `LogLinear.compact`.

        threshold: one for all stages, or by the names of stages, 0 for others.
        Raises StructlearnError for an unknown stage or dtype.
        """
        own = threshold if isinstance(threshold, Mapping) else dict.fromkeys(self, threshold)
        for stage in own:
            self[stage]  # raises
        return Stages({stage: self[stage].compact(dtype, own.get(stage, 0.0)) for stage in self})

    def describe(self) -> str:
        """Return a description of each stage."""
        parts = (f"{stage}:\n{indent(self[stage].describe(), '  ')}" for stage in self)
        return "\n".join(parts) or "no stages"

    def strongest(
        self, n: int, label: str | None = None, named: bool = True
    ) -> list[tuple[str, int, str, float]]:
        """Return the strongest features of the main stage; see `LogLinear.strongest`.

        The list is empty if the main stage is a Bayesian network, which has no weights.
        """
        main = self[self.stages[-1]] if self.classifiers else None
        return main.strongest(n, label, named) if isinstance(main, LogLinear) else []

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        return self.version, {
            "stages": self.stages,
            "kinds": [classifier.kind for classifier in self.classifiers.values()],
            "classifiers": [nested(c.to_bytes()) for c in self.classifiers.values()],
        }

    @classmethod
    def from_fields(cls, version: int, fields: dict[str, Any]) -> Stages:
        stages, kinds = fields.pop("stages"), fields.pop("kinds")
        if not all(isinstance(stage, str) for stage in stages) or len(set(stages)) < len(stages):
            raise ValueError("the names of its stages are not different strings")
        fields["classifiers"] = {
            stage: _CLASSIFIERS[kind].from_bytes(classifier.tobytes())
            for stage, kind, classifier in zip(stages, kinds, fields["classifiers"], strict=True)
        }
        return super().from_fields(version, fields)

    def __repr__(self) -> str:
        return f"<Stages: {', '.join(self) or 'none'}; {len(self.labels)} labels>"


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
        make_engine: MakeEngine = make_engine,
    ):
        super().__init__(settings, make_engine=make_engine)
        self._labels, self._strength = labels, strength
        self._classifiers = {stage: stages[stage] for stage in settings.order}
        self._trainers: dict[str, Trainer] = {}
        # Stages trained since their classifier was taken from the trainer.
        self._changed: set[str] = set()
        self.add(data)

    def take(self, data: Sequence[StagesData]) -> None:
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
                classifier = initialized(settings, instances, classifier.labels)
            if self._strength is None:
                trainer = settings.trainer(classifier, instances, make_engine=self.make_engine)
            else:
                labels = self._labels if stage == self.settings.order[-1] else ()
                trainer = settings.adapter(
                    classifier,
                    instances,
                    labels,
                    strength=self._strength,
                    make_engine=self.make_engine,
                )
            self._trainers[stage] = trainer

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
        known = [(stage, found.labels) for stage, found in self._classifiers.items()]
        own = [(stage, trainer.identity()) for stage, trainer in self._in_order().items()]
        return array_digest(known, own)

    def state(self) -> dict[str, Any]:
        return {
            "states": {
                stage: nested(trainer.to_bytes()) for stage, trainer in self._trainers.items()
            }
        }

    def restore(self, state: dict[str, Any]) -> bool:
        states = state["states"]
        trainers = {stage: copy(trainer) for stage, trainer in self._trainers.items()}
        if states.keys() != trainers.keys():
            return False
        resumed = all(trainers[stage].resume(states[stage].tobytes()) for stage in trainers)
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


def initialized(
    settings: BayesNetSettings | LogLinearSettings,
    instances: Sequence[ClassificationData],
    labels: Collection[str],
) -> Classifier:
    """Return an untrained classifier; without instances, it has no variables."""
    none = ClassificationData(Table((), np.empty((0, 0), dtype=np.uint64)), ())
    return settings.initialize(instances or [none], tuple(sorted(labels)))
