"""Stages: one model of several classifiers under names, learned one after another.

A decision is often made in stages: which words are predicates, which phrases are arguments of one,
and which roles these have. Each stage is a Bayesian network or a log-linear model with a table and
labels of its own; together they are learned, stored and shown as one model. The last stage is the
main one: its labels are those of the whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..errors import StructlearnError
from ..learning.stored import Stored
from ..learning.training import Trainer, array_digest
from ..parallel.shards import MakeEngine, make_engine
from ..serialization import nested
from .bayes_net import BayesNet
from .features import ClassificationData, Table
from .log_linear import LogLinear
from .settings import BayesNetSettings, LogLinearSettings, StagesSettings

Classifier: TypeAlias = "BayesNet | LogLinear"
StagesData: TypeAlias = "Mapping[str, ClassificationData]"
"""Labelled instances of stages; a stage that has none may be missing."""

_CLASSIFIERS: dict[str, type[BayesNet] | type[LogLinear]] = {
    kind.kind: kind for kind in (BayesNet, LogLinear)
}


class Stages(Stored):
    """Classifiers under names, in the order in which they are learned; the last is the main one.

    classifiers: the classifier of each stage.
    Raises StructlearnError for one that is neither a Bayes net nor a log-linear model.
    """

    kind = "stages"

    def __init__(self, classifiers: Mapping[str, Classifier]):
        for stage, classifier in classifiers.items():
            if not isinstance(classifier, tuple(_CLASSIFIERS.values())):
                raise StructlearnError("SL531", stage=stage, found=type(classifier).__name__)
        self.classifiers = dict(classifiers)

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of the stages, in order."""
        return tuple(self.classifiers)

    @property
    def is_empty(self) -> bool:
        """Whether the main stage has no labels, so that nothing can be predicted."""
        return not self.labels

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the main stage, ascending."""
        return self._main.labels if self.classifiers else ()

    @property
    def _main(self) -> Classifier:
        return self[self.stages[-1]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.classifiers)

    def __getitem__(self, stage: str) -> Classifier:
        """The classifier of a stage, which may be empty. Raises StructlearnError without one."""
        if stage not in self.classifiers:
            raise StructlearnError("SL530", stage=stage, known=", ".join(self.classifiers))
        return self.classifiers[stage]

    def compact(
        self, dtype: DTypeLike = "float16", threshold: float | Mapping[str, float] = 0.0
    ) -> Stages:
        """A smaller model that answers (almost) as this one does; see `LogLinear.compact`.

        dtype, threshold: of the weights of log-linear models; threshold may be a number for each
            stage by its name, and is 0 for those that are not named.
        Raises StructlearnError for a stage that is not there, or for the dtype.
        """
        own = threshold if isinstance(threshold, Mapping) else dict.fromkeys(self, threshold)
        for stage in own:
            self[stage]  # raises
        return Stages(
            {
                stage: classifier.compact(dtype, own.get(stage, 0.0))
                if isinstance(classifier, LogLinear)
                else classifier.compact()
                for stage, classifier in self.classifiers.items()
            }
        )

    def describe(self) -> str:
        """What each stage has learned, to be read."""
        lines = []
        for stage, classifier in self.classifiers.items():
            lines.append(f"{stage}:")
            lines.extend("  " + line for line in classifier.describe().splitlines())
        return "\n".join(lines) or "no stages"

    def strongest(
        self, n: int, label: str | None = None, named: bool = True
    ) -> list[tuple[str, int, str, float]]:
        """The n features of greatest weight of the main stage; see `LogLinear.strongest`.

        A Bayes net has no weights, and so no such features.
        """
        if not self.classifiers or not isinstance(self._main, LogLinear):
            return []
        return self._main.strongest(n, label, named)

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        return self.version, {
            "stages": self.stages,
            "kinds": [classifier.kind for classifier in self.classifiers.values()],
            "classifiers": [nested(c.to_bytes()) for c in self.classifiers.values()],
        }

    @classmethod
    def from_fields(cls, version: int, fields: dict[str, Any]) -> Stages:
        stages, kinds, classifiers = (
            fields.pop(name) for name in ("stages", "kinds", "classifiers")
        )
        if fields or not all(isinstance(stage, str) for stage in stages):
            raise TypeError("the names of its stages are no strings, or there is more")
        found = {
            stage: _CLASSIFIERS[kind].from_bytes(classifier.tobytes())
            for stage, kind, classifier in zip(stages, kinds, classifiers, strict=True)
        }
        if list(found) != stages:
            raise ValueError("a stage that occurs twice")
        return cls(found)

    def __repr__(self) -> str:
        return f"<Stages: {', '.join(self) or 'none'}; {len(self.labels)} labels>"


def _checked(
    *, stages: list[str], kinds: list[str], classifiers: list[NDArray[np.uint8]]
) -> dict[str, Classifier]:
    """What `Stages` takes, of what `Stages.to_fields` stored."""
    if not all(isinstance(stage, str) for stage in stages) or len(set(stages)) < len(stages):
        raise ValueError("the names of its stages are not different strings")
    return {
        stage: _CLASSIFIERS[kind].from_bytes(classifier.tobytes())
        for stage, kind, classifier in zip(stages, kinds, classifiers, strict=True)
    }


class StagesTrainer(Trainer[StagesSettings]):
    """The stages one after another, each to its end before the next begins.

    value: the sum over the stages of the objective, which is 0 of one that has not begun.
    n_iterations: steps of all stages so far, over all sets of data.
    """

    def __init__(
        self,
        settings: StagesSettings,
        stages: Stages,
        data: Sequence[StagesData],
        *,
        make_engine: MakeEngine = make_engine,
    ):
        super().__init__(settings, make_engine=make_engine)
        self._classifiers = {stage: stages[stage] for stage in settings.order}
        self._trainers: dict[str, Trainer] = {}
        # Stages that have learned since their classifier was taken from the trainer.
        self._changed: set[str] = set()
        self.add(data)

    def take(self, data: Sequence[StagesData]) -> None:
        """More instances; stages that have any are learned again."""
        for stage, settings in self.settings.stages.items():
            instances = instances_of(data, stage)
            if not instances:
                continue
            if stage in self._trainers:
                self._trainers[stage].add(instances)
                continue
            classifier = self._classifiers[stage]
            if not classifier.variables:  # nothing was seen of it before
                classifier = initialized(settings, instances, classifier.labels)
            self._trainers[stage] = settings.trainer(
                classifier, instances, make_engine=self.make_engine
            )

    def iterate(self) -> bool:
        """A step of the first stage that is not at its end."""
        trainers = self._in_order()
        stage = next((stage for stage, trainer in trainers.items() if not trainer.finished), None)
        if stage is not None:
            trainers[stage].step()
            self._changed.add(stage)
        self.value = float(sum(trainer.value for trainer in trainers.values()))
        self.n_iterations = sum(trainer.n_iterations for trainer in trainers.values())
        return not all(trainer.finished for trainer in trainers.values())

    def parameters(self) -> Stages:
        """The model as it stands: stages that have not learned anything yet are as they were."""
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
        # In one order, so that sums of numbers do not differ.
        return {
            stage: self._trainers[stage] for stage in self._classifiers if stage in self._trainers
        }


def instances_of(data: Sequence[StagesData], stage: str) -> list[ClassificationData]:
    """The instances of one stage, without parts that have none."""
    return [datum[stage] for datum in data if stage in datum and datum[stage].labels]


def initialized(
    settings: BayesNetSettings | LogLinearSettings,
    instances: Sequence[ClassificationData],
    labels: Collection[str],
) -> Classifier:
    """A classifier that knows labels and variables; without instances, the labels alone."""
    none = ClassificationData(Table((), np.empty((0, 0), dtype=np.uint64)), ())
    return settings.initialize(instances or [none], tuple(sorted(labels)))
