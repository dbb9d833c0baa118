"""Stages: one model of several classifiers under names, learned one after another.

A decision is often made in stages: which words are predicates, which phrases are arguments of one,
and which roles these have. Each stage is a Bayesian network or a log-linear model with a table and
labels of its own; together they are learned, stored and shown as one model. The last stage is the
main one: its labels are those of the whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import serialization
from ..errors import StructlearnError
from .bayes_net import BayesNet
from .estimators import ClassificationData
from .features import Table
from .log_linear import LogLinear

Classifier: TypeAlias = "BayesNet | LogLinear"
StagesData: TypeAlias = "Mapping[str, ClassificationData]"
"""Labelled instances of stages; a stage that has none may be missing."""

_KIND = "stages"
_STATE_KIND = "stages_training"
_VERSION = 1
_CLASSIFIERS: dict[str, type[BayesNet] | type[LogLinear]] = {
    "bayes_net": BayesNet,
    "log_linear": LogLinear,
}
"""What a stage may be, by the name under which it is stored."""


class Stages:
    """Classifiers under names, in the order in which they are learned; the last is the main one.

    classifiers: the classifier of each stage.
    Raises StructlearnError SL531 for one that is neither a Bayes net nor a log-linear model.
    """

    def __init__(self, classifiers: Mapping[str, Classifier]):
        for stage, classifier in classifiers.items():
            if not isinstance(classifier, tuple(_CLASSIFIERS.values())):
                raise StructlearnError("SL531", stage=stage, found=type(classifier).__name__)
        self._classifiers = dict(classifiers)

    @classmethod
    def empty(cls) -> Stages:
        """A model without stages."""
        return cls({})

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of the stages, in order."""
        return tuple(self._classifiers)

    @property
    def is_empty(self) -> bool:
        """Whether the main stage has no labels, so that nothing can be predicted."""
        return not self.labels

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the main stage, ascending."""
        return self._main.labels if self._classifiers else ()

    @property
    def _main(self) -> Classifier:
        return self[self.stages[-1]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._classifiers)

    def __getitem__(self, stage: str) -> Classifier:
        """The classifier of a stage, which may be empty. Raises SL530 if there is no such stage."""
        if stage not in self._classifiers:
            raise StructlearnError("SL530", stage=stage, known=", ".join(self._classifiers))
        return self._classifiers[stage]

    def compact(
        self, dtype: DTypeLike = "float16", threshold: float | Mapping[str, float] = 0.0
    ) -> Stages:
        """A smaller model that answers (almost) as this one does; see `LogLinear.compact`.

        dtype, threshold: of the weights of log-linear models; threshold may be a number for each
            stage by its name, and is 0 for those that are not named.
        Raises StructlearnError SL530 for a stage that is not there, SL520 or SL523 for the dtype.
        """
        own = threshold if isinstance(threshold, Mapping) else dict.fromkeys(self, threshold)
        for stage in own:
            self[stage]  # SL530
        return Stages(
            {
                stage: classifier.compact(dtype, own.get(stage, 0.0))
                if isinstance(classifier, LogLinear)
                else classifier.compact()
                for stage, classifier in self._classifiers.items()
            }
        )

    def describe(self) -> str:
        """What each stage has learned, to be read."""
        lines = []
        for stage, classifier in self._classifiers.items():
            lines.append(f"{stage}:")
            lines.extend("  " + line for line in classifier.describe().splitlines())
        return "\n".join(lines) or "no stages"

    def strongest(
        self, n: int, label: str | None = None, named: bool = True
    ) -> list[tuple[str, int, str, float]]:
        """The n features of greatest weight of the main stage; see `LogLinear.strongest`.

        A Bayes net has no weights, and so no such features.
        """
        if not self._classifiers or not isinstance(self._main, LogLinear):
            return []
        return self._main.strongest(n, label, named)

    def to_bytes(self) -> bytes:
        """The model as bytes, the same for equal models; see `serialization.pack`."""
        return serialization.pack(
            _KIND,
            _VERSION,
            {
                "stages": self.stages,
                "kinds": [_kind(classifier) for classifier in self._classifiers.values()],
                "classifiers": [
                    serialization.nested(classifier.to_bytes())
                    for classifier in self._classifiers.values()
                ],
            },
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Stages:
        """The model that `to_bytes` wrote; it predicts the same.

        Raises StructlearnError SL050 to SL054 if the bytes are not those of stages.
        """
        _, fields = serialization.unpack(data, _KIND, {_VERSION})
        with serialization.reading(_KIND):
            return cls(_checked(**fields))

    def __repr__(self) -> str:
        return f"<Stages: {', '.join(self) or 'none'}; {len(self.labels)} labels>"


def _kind(classifier: Classifier) -> str:
    return next(kind for kind, known in _CLASSIFIERS.items() if isinstance(classifier, known))


def _checked(
    *, stages: list[str], kinds: list[str], classifiers: list[NDArray[np.uint8]]
) -> dict[str, Classifier]:
    """What `Stages` takes, of what `Stages.to_bytes` stored."""
    if not all(isinstance(stage, str) for stage in stages) or len(set(stages)) < len(stages):
        raise ValueError("the names of its stages are not different strings")
    return {
        stage: _CLASSIFIERS[kind].from_bytes(classifier.tobytes())
        for stage, kind, classifier in zip(stages, kinds, classifiers, strict=True)
    }


class Estimator(Protocol):
    """What learns one stage, such as `LogLinearEstimator`."""

    def initialize(
        self, data: Sequence[ClassificationData], labels: Sequence[str], previous: Any
    ) -> Classifier:
        """A classifier that knows these labels and the variables of `data`."""

    def trainer(self, parameters: Any, data: Sequence[ClassificationData]) -> Any:
        """Training on `data`."""


@dataclass(frozen=True)
class StagesEstimator:
    """Several classifiers, learned one after another.

    estimators: of each stage, in the order in which they are learned; the last is the main one.
    Raises StructlearnError SL533 if there are none.
    """

    estimators: Mapping[str, Estimator]

    attributes: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if not self.estimators:
            raise StructlearnError("SL533", order="empty")

    def initialize(
        self,
        data: Sequence[StagesData],
        labels: Sequence[str],
        previous: Stages | None = None,
    ) -> Stages:
        """Classifiers that know the variables and the labels of `data`, and nothing else.

        labels: of the main stage; every other one has those of its instances. A stage without
        instances stays empty; the main one knows its labels then. What `data` has of other stages
        is passed over.
        """
        main = list(self.estimators)[-1]
        classifiers = {}
        for stage, estimator in self.estimators.items():
            instances = _instances(data, stage)
            known = labels if stage == main else {y for part in instances for y in part.labels}
            before = previous[stage] if previous is not None and stage in previous else None
            classifiers[stage] = _initialized(estimator, instances, known, before)
        return Stages(classifiers)

    def trainer(self, parameters: Stages, data: Sequence[StagesData]) -> StagesTrainer:
        """Training, which follows from the data and the labels alone."""
        return StagesTrainer(self, parameters, data)


class StagesTrainer:
    """The stages one after another, each to its end before the next begins.

    value: the sum over the stages of the objective, which is 0 of one that has not begun.
    n_iterations: steps of all stages so far, over all sets of data.
    """

    def __init__(self, settings: StagesEstimator, stages: Stages, data: Sequence[StagesData]):
        self.settings = settings
        self._classifiers = {stage: stages[stage] for stage in settings.estimators}
        self._trainers: dict[str, Any] = {}
        self._unfinished: set[str] = set()
        # Stages that have learned since their classifier was taken from the trainer.
        self._changed: set[str] = set()
        self.add(data)

    @property
    def value(self) -> float:
        return float(sum(trainer.value for trainer in self._in_order()))

    @property
    def n_iterations(self) -> int:
        return sum(trainer.n_iterations for trainer in self._in_order())

    def add(self, data: Sequence[StagesData]) -> None:
        """More instances; stages that have any are learned again."""
        for stage, estimator in self.settings.estimators.items():
            instances = _instances(data, stage)
            if not instances:
                continue
            if stage in self._trainers:
                self._trainers[stage].add(instances)
            else:
                classifier = self._classifiers[stage]
                if not classifier.variables:  # nothing was seen of it before
                    classifier = _initialized(estimator, instances, classifier.labels, None)
                self._trainers[stage] = estimator.trainer(classifier, instances)
            self._unfinished.add(stage)

    def step(self) -> bool:
        """A step of the first stage that is not at its end. Returns False once all are."""
        stage = next((stage for stage in self._classifiers if stage in self._unfinished), None)
        if stage is None:
            return False
        if not self._trainers[stage].step():
            self._unfinished.remove(stage)
        self._changed.add(stage)
        return bool(self._unfinished)

    def parameters(self) -> Stages:
        """The model as it stands: stages that have not learned anything yet are as they were."""
        for stage in sorted(self._changed):
            self._classifiers[stage] = self._trainers[stage].parameters()
        self._changed.clear()
        return Stages(self._classifiers)

    def to_bytes(self) -> bytes:
        """The state of the training, without data and settings."""
        # A stage that has not begun has no state that would be worth its time.
        begun = {stage: t for stage, t in self._trainers.items() if t.n_iterations}
        states = {
            stage: serialization.nested(trainer.to_bytes()) for stage, trainer in begun.items()
        }
        fields = {
            "stages": tuple(self._classifiers),
            "states": states,
            "unfinished": sorted(self._unfinished),
        }
        return serialization.pack(_STATE_KIND, _VERSION, fields)

    def resume(self, state: bytes) -> bool:
        """Go on from `to_bytes`. Returns False if a state is of other data or settings; stages
        before that one go on all the same.

        Raises StructlearnError SL050 to SL054 if the bytes are not those of such a state.
        """
        _, fields = serialization.unpack(state, _STATE_KIND, {_VERSION})
        # A stage that another learner trains has a state of another kind.
        with serialization.reading(_STATE_KIND, "SL052"):
            stages, states = fields["stages"], fields["states"]
            unfinished = set(fields["unfinished"])
            known = {*states, *unfinished} <= set(self._trainers)
            if stages != list(self._classifiers) or not known:
                return False
            for stage in filter(states.__contains__, self._classifiers):
                if not self._trainers[stage].resume(states[stage].tobytes()):
                    return False
                self._changed.add(stage)
                if stage not in unfinished:
                    self._unfinished.discard(stage)
        return True

    def _in_order(self) -> list[Any]:
        # In one order, so that sums of numbers do not differ.
        return [self._trainers[stage] for stage in self._classifiers if stage in self._trainers]


def _instances(data: Sequence[StagesData], stage: str) -> list[ClassificationData]:
    """The instances of one stage, without parts that have none."""
    return [datum[stage] for datum in data if stage in datum and datum[stage].labels]


def _initialized(
    estimator: Estimator,
    instances: Sequence[ClassificationData],
    labels: Collection[str],
    previous: Classifier | None,
) -> Classifier:
    """A classifier that knows labels and variables; without instances, the labels alone."""
    none = ClassificationData(Table((), np.empty((0, 0), dtype=np.uint64)), ())
    return estimator.initialize(instances or [none], tuple(sorted(labels)), previous)
