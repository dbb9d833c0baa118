"""Stages: one model of several classifiers under names, learned one after another.

Semantic role labeling, for example, has three stages: which words are predicates, which phrases are
their arguments, and which roles these have. Each stage is a Bayesian network or a log-linear model
with its own table and labels. The last stage is the main one, whose labels are those of the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import indent
from typing import Any, TypeAlias

from numpy.typing import DTypeLike

from ..errors import StructlearnError
from ..learning.stored import Stored
from ..learning.weights import Feature
from .features import ClassificationData
from .linear.log_linear import LogLinear
from .nets.bayes_net import BayesNet
from .settings import AnySettings, LogLinearSettings, StagesSettings

StagesData: TypeAlias = "Mapping[str, ClassificationData]"
"""Labelled instances of stages; a stage that has none may be missing."""

Classifier: TypeAlias = "BayesNet | LogLinear"

_CLASSIFIERS: dict[str, Any] = {kind.kind: kind for kind in (BayesNet, LogLinear)}


class Stages(Stored):
    """Classifiers under names, in the order in which they are learned; the last is the main one.

    classifiers: the classifier of each stage.
    """

    kind = "stages"

    def __init__(self, classifiers: Mapping[str, Classifier]):
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
        least = threshold if isinstance(threshold, Mapping) else dict.fromkeys(self, threshold)
        for stage in least:
            self[stage]  # raises
        return Stages({stage: self[stage].compact(dtype, least.get(stage, 0.0)) for stage in self})

    def describe(self) -> str:
        """Return a description of each stage."""
        parts = (f"{stage}:\n{indent(self[stage].describe(), '  ')}" for stage in self)
        return "\n".join(parts) or "no stages"

    def strongest(self, n: int, label: str | None = None, named: bool = True) -> list[Feature]:
        """Return the strongest features of the main stage; see `LogLinear.strongest`.

        The list is empty if the main stage is a Bayesian network, which has no weights.
        """
        main = self[self.stages[-1]] if self.classifiers else None
        return main.strongest(n, label, named) if isinstance(main, LogLinear) else []

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        return self.version, {
            "stages": self.stages,
            "kinds": [classifier.kind for classifier in self.classifiers.values()],
            "classifiers": list(self.classifiers.values()),
        }

    @classmethod
    def from_fields(cls, version: int, fields: dict[str, Any]) -> Stages:
        stages, kinds = fields.pop("stages"), fields.pop("kinds")
        if not all(isinstance(stage, str) for stage in stages) or len(set(stages)) < len(stages):
            raise ValueError("the names of its stages are not different strings")
        fields["classifiers"] = {
            stage: _CLASSIFIERS[kind].from_bytes(classifier)
            for stage, kind, classifier in zip(stages, kinds, fields["classifiers"], strict=True)
        }
        return super().from_fields(version, fields)


def empty(settings: AnySettings) -> Any:
    """Return a model without labels."""
    if isinstance(settings, StagesSettings):
        return Stages({stage: empty(of) for stage, of in settings.stages.items()})
    return LogLinear() if isinstance(settings, LogLinearSettings) else BayesNet()
