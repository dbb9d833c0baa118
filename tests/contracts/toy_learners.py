"""The smallest learner there is, as an example: the mean of numbers, by steps."""

from collections.abc import Sequence
from dataclasses import dataclass

from contracts.cases import Case, Model

from spacy_structlearn.learning import settings
from spacy_structlearn.learning.settings import Settings, setting
from spacy_structlearn.learning.stored import Stored
from spacy_structlearn.learning.training import Trainer, array_digest
from spacy_structlearn.pipeline.architectures import architecture


class Mean(Stored):
    kind = "toy_mean"

    def __init__(self, mean: float = 0.0, labels: Sequence[str] = ()):
        self.mean = mean
        self.labels = tuple(labels)

    @property
    def is_empty(self) -> bool:
        return not self.labels


@dataclass(frozen=True, kw_only=True)
class MeanSettings(Settings):
    """The mean of numbers, by gradient descent."""

    learn_rate: float = setting(0.5, gt=0, lt=1, help="Length of a step.")
    l2: float = settings.l2(0.0)
    max_iterations: int = settings.max_iterations(7)


class MeanTrainer(Trainer[MeanSettings]):
    saved = ("mean", "last")

    def __init__(self, settings, parameters, data):
        super().__init__(settings)
        self.labels, self.mean = parameters.labels, parameters.mean
        self.numbers: list[float] = []
        self.add(data)

    def _add(self, data):
        self.numbers = sorted(self.numbers + list(data))
        self.last = self.n_iterations + self.settings.max_iterations

    def iterate(self):
        errors = [self.mean - number for number in self.numbers]
        gradient = sum(errors) / len(errors) + self.settings.l2 * self.mean
        self.mean -= self.settings.learn_rate * gradient
        self.value = sum(error**2 for error in errors) / 2
        self.n_iterations += 1
        return self.n_iterations < self.last

    def parameters(self):
        return Mean(self.mean, self.labels)

    def data_digest(self):
        return array_digest(self.numbers)


def initialize(settings, data, labels, previous=None) -> Mean:
    return Mean(0.0, labels)


def trainer(settings, parameters, data) -> MeanTrainer:
    return MeanTrainer(settings, parameters, data)


architecture(MeanSettings, lambda settings: Mean(), "toy_learners", package="contracts")

CASES = [
    Case(
        "mean",
        MeanSettings(),
        data=lambda: [1.0, 5.0, 2.5],
        other=lambda: [1.0, 5.0, 2.0],
        labels=("a",),
        same_in_any_order=True,
        changes=({"l2": 1.0}, {"learn_rate": 0.1}),
    )
]
STORED = [Model("mean", lambda: Mean(2.5, ("a",)), {"mean": 3.5})]
