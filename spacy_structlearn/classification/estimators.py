"""Estimators of classifiers: settings that a registered architecture names, and their training.

An estimator fixes the labels and the variables (`initialize`) and gives a trainer, which learns one
step at a time and can take in more data between steps. A Bayesian network is learned in one step,
a log-linear model in steps of its search, and then in iterations of L-BFGS. What is learned does
not depend on the parts in which the data come, nor on their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import ClassVar

import numpy as np

from .. import serialization
from .bayes_net import BayesNet
from .conditional import LabelledTable, LogLinearSettings
from .conjunctions import Training, sorted_rows
from .features import Table, label_ids_of
from .log_linear import LogLinear

_STATE_KIND = "bayes_net_training"
_VERSION = 1


@dataclass(frozen=True, eq=False)
class ClassificationData:
    """Labelled instances. table: the rows; labels: one for each."""

    table: Table
    labels: tuple[str, ...]


def concatenate(data: Sequence[ClassificationData]) -> ClassificationData:
    """All instances of `data`, of which there is one part or more."""
    table = Table.concatenate([part.table for part in data])
    return ClassificationData(table, tuple(label for part in data for label in part.labels))


@dataclass(frozen=True)
class BayesNetEstimator:
    """A Bayesian network; the settings are those of `BayesNet`.

    What `BayesNet.fit` does with development data is done here with the training data, each
    instance left out of its own counts; so there is no `recount`.
    Raises StructlearnError SL513 for a setting out of range.
    """

    structure: str | Mapping[str, Sequence[str]] = "search"
    fit_d: str | None = "conditional"
    n_d: str = "many"
    smoothing: str = "witten_bell"
    max_parents: int = 3
    min_gain: float = 0.0
    prior_variance: float = 1.0

    attributes: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        self.untrained()

    def untrained(self) -> BayesNet:
        """A network with these settings."""
        return BayesNet(**{field.name: getattr(self, field.name) for field in fields(self)})

    def initialize(
        self,
        data: Sequence[ClassificationData],
        labels: Sequence[str],
        previous: BayesNet | None = None,
    ) -> BayesNet:
        """A network without variables in its structure, which knows the labels and the variables of
        `data`; what was learned before has no part in it.
        """
        table = concatenate(data).table.take(np.empty(0, dtype=np.int64))
        return BayesNet({}, fit_d=None).fit(table, (), known_labels=labels)

    def trainer(self, parameters: BayesNet, data: Sequence[ClassificationData]) -> BayesNetTrainer:
        """Training, which follows from the data and the labels alone."""
        return BayesNetTrainer(self, parameters, data)


class BayesNetTrainer:
    """A single step: structure, counts and d.

    value: minus the log-likelihood of the labels of the training data, each instance left out of
    the counts; before the step, 0. n_iterations: steps so far, over all sets of data.
    """

    def __init__(
        self,
        settings: BayesNetEstimator,
        net: BayesNet,
        data: Sequence[ClassificationData],
    ):
        self.settings = settings
        self.value = 0.0
        self.n_iterations = 0
        self._labels, self._variables = net.labels, net.variables
        self._data = list(data)
        self._net = net
        self._done = False

    def add(self, data: Sequence[ClassificationData]) -> None:
        """More instances: there is something to learn again."""
        self._data.extend(data)
        self._done = False

    def step(self) -> bool:
        """Learn. Returns False: after that there is nothing left to improve."""
        if not self._done:
            (table, ids), labels = self._instances()
            own_labels = [labels[label] for label in ids]
            net = self.settings.untrained().fit(table, own_labels, known_labels=labels)
            log_joint = net.log_joint_left_out()
            log_z = np.logaddexp.reduce(log_joint, axis=1)
            self.value = float((log_z - log_joint[np.arange(len(ids)), ids]).sum())
            self._net, self._done = net, True
            self.n_iterations += 1
        return False

    def parameters(self) -> BayesNet:
        """The network as it stands, without what only training needs."""
        return self._net.compact()

    def to_bytes(self) -> bytes:
        """The state of the training, without data and settings."""
        state = {
            "digest": self._digest(),
            "net": serialization.nested(self._net.to_bytes()),
            "value": self.value,
            "n_iterations": self.n_iterations,
            "done": self._done,
        }
        return serialization.pack(_STATE_KIND, _VERSION, state)

    def resume(self, state: bytes) -> bool:
        """Go on from `to_bytes`. Returns False if the state is of other data or settings.

        Raises StructlearnError SL050 to SL054 if the bytes are not those of such a state.
        """
        _, found = serialization.unpack(state, _STATE_KIND, {_VERSION})
        with serialization.reading(_STATE_KIND):
            if found["digest"] != self._digest():
                return False
            net = BayesNet.from_bytes(found["net"].tobytes())
            value, n_iterations = float(found["value"]), int(found["n_iterations"])
            done = serialization.flag(found["done"])
        self._net, self._done = net, done
        self.value, self.n_iterations = value, n_iterations
        return True

    def _instances(self) -> tuple[LabelledTable, tuple[str, ...]]:
        """The data in an order of their own, and all labels."""
        data = concatenate(self._data)
        labels = tuple(sorted({*self._labels, *data.labels}))
        table = data.table.select(self._variables)
        return sorted_rows(table, label_ids_of(data.labels, labels)), labels

    def _digest(self) -> str:
        """Of all on which what is learned depends."""
        (table, ids), labels = self._instances()
        digest = blake2b(repr((self.settings, labels, table.variables)).encode(), digest_size=16)
        digest.update(table.symbols.tobytes())
        digest.update(ids.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class LogLinearEstimator(LogLinearSettings):
    """A log-linear model; the settings are those of `LogLinear`.

    What is to be selected is selected on a tenth of the training data, so there is nothing to
    `recount`. Raises StructlearnError SL520 for a setting out of range.
    """

    attributes: ClassVar[tuple[str, ...]] = ()

    def initialize(
        self,
        data: Sequence[ClassificationData],
        labels: Sequence[str],
        previous: LogLinear | None = None,
    ) -> LogLinear:
        """A model without features, which knows the labels and the variables of `data`; what was
        learned before has no part in it.
        """
        return LogLinear.of(self).prepare(labels, concatenate(data).table.variables)

    def trainer(
        self, parameters: LogLinear, data: Sequence[ClassificationData]
    ) -> LogLinearTrainer:
        """Training, which follows from the data and the labels alone."""
        return LogLinearTrainer(self, parameters, data)


class LogLinearTrainer:
    """The search, a step at a time, then L-BFGS; see `conjunctions.Training`.

    value: the objective at the present weights; before the first step, 0. n_iterations: steps so
    far, over all sets of data.
    """

    def __init__(
        self,
        settings: LogLinearEstimator,
        model: LogLinear,
        data: Sequence[ClassificationData],
    ):
        self.settings = settings
        self._variables = model.variables
        self._training = Training(settings, labels=model.labels)
        self.add(data)

    @property
    def value(self) -> float:
        return self._training.value

    @property
    def n_iterations(self) -> int:
        return self._training.n_iterations

    def add(self, data: Sequence[ClassificationData]) -> None:
        """More instances; the search begins anew, or the weights go on from where they are."""
        found = concatenate(data)
        self._training.add(found.table.select(self._variables), found.labels)

    def step(self) -> bool:
        """One step. Returns False once there is nothing left to improve."""
        return self._training.step()

    def parameters(self) -> LogLinear:
        """The model as it stands, float32, without names of conjunctions."""
        return LogLinear.of(self.settings, self._training).compact("float32")

    def to_bytes(self) -> bytes:
        """The state of the training, without data and settings."""
        return self._training.to_bytes()

    def resume(self, state: bytes) -> bool:
        """Go on from `to_bytes`. Returns False if the state is of other data or settings."""
        return self._training.resume(state)
