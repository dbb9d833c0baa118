"""The search for conjunctions, and the course of the training of a log-linear model.

Toutanova (2006), section 2.2.1: from single variables to conjunctions, one template at a time, by
the accuracy on development data of a model that is fully estimated for each candidate, from where
the last step ended. Then l2 is chosen on the same data, and the model estimated for good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from hashlib import blake2b
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import serialization
from ..optimize.lbfgs import LBFGS
from ._counts import Index
from .conditional import (
    BIAS,
    ConditionalLikelihood,
    Estimate,
    LabelledTable,
    LogLinearSettings,
    Template,
    Workshop,
    row_keys,
)
from .features import (
    MISSING,
    Labelled,
    Table,
    checked_known,
    checked_labels,
    development_data,
    label_ids_of,
)

Progress = Callable[[str], object]
KeyedWeights = tuple[NDArray[np.uint64], NDArray[np.float64]]

_STATE_KIND = "log_linear_training"
_VERSION = 1
PHASES = ("search", "l2", "last", "done")
_HELD_OUT = 10  # every so many of the training data are held out where there are no others


class Step(NamedTuple):
    """One step of the search: the template taken, and how good the model is with it.

    accuracy: on the development data. log_likelihood: of it, in nats. n_fits: models estimated in
    this step.
    """

    template: Template
    accuracy: float
    log_likelihood: float
    n_fits: int

    @classmethod
    def of(cls, fields: Sequence[Any]) -> Step:
        """A step as it was stored."""
        template, *rest = fields
        return cls(tuple(template), *rest)


class Training:
    """What `LogLinear.fit` goes through, one step at a time.

    A step of the search for templates, the choice of l2, and an iteration of L-BFGS are one step
    each. Data may be added between steps; then all begins anew, except that weights go on from
    where they were if there is nothing to select. labels: that are known beforehand.

    value: the objective at the present weights; before the first step, 0. n_iterations: steps so
    far, over all sets of data.
    """

    def __init__(
        self,
        settings: LogLinearSettings,
        *,
        dev: Labelled | None = None,
        labels: Iterable[str] = (),
        progress: Progress | None = None,
    ):
        self.settings = settings
        self.progress = progress
        self.value = 0.0
        self.n_iterations = 0
        self._dev = dev
        self._known_labels = checked_known(labels)
        self._tables: list[Table] = []
        self._labels: list[str] = []
        self._run: _Run | None = None
        self._previous: KeyedWeights | None = None

    def add(self, table: Table, labels: Sequence[str]) -> None:
        """More training data. Raises SL504 unless there is a label for each row."""
        self._labels.extend(checked_labels(labels, len(table)))
        self._tables.append(table)
        if self._run is not None and not self.settings.needs_dev:
            self._previous = self._run.weights_by_key()
        self._run = None

    def step(self) -> bool:
        """One step. Returns False once there is nothing left to improve."""
        more = self._running().step()
        self.value = self._running().value
        self.n_iterations += 1
        return more

    def learned(self) -> dict[str, Any]:
        """What is learned so far: the parts of a `LogLinear`."""
        return self._running().learned()

    def to_bytes(self) -> bytes:
        """The state of the training, to go on bit for bit with the same data and settings."""
        fields = {**self._running().state(), "n_iterations": self.n_iterations}
        return serialization.pack(_STATE_KIND, _VERSION, fields)

    def resume(self, state: bytes) -> bool:
        """Go on from `to_bytes`. Returns False if the state is of other data or settings.

        Raises StructlearnError SL050 to SL054 if the bytes are not those of such a state.
        """
        _, fields = serialization.unpack(state, _STATE_KIND, {_VERSION})
        run = copy(self._running())  # it replaces what it has, and changes none of it
        with serialization.reading(_STATE_KIND):
            n_iterations = int(fields.pop("n_iterations"))
            if not run.resume(**fields):
                return False
        self._run, self.value, self.n_iterations = run, run.value, n_iterations
        return True

    def _running(self) -> _Run:
        if self._run is None:
            table = Table.concatenate(self._tables)
            self._tables = [table]
            held_out = development_data(self._dev, table.variables)
            dev_labels = [] if held_out is None else held_out[1]
            labels = tuple(sorted(self._known_labels.union(self._labels, dev_labels)))
            dev = None
            if held_out is not None:
                dev = sorted_rows(held_out[0], label_ids_of(dev_labels, labels))
            train = sorted_rows(table, label_ids_of(self._labels, labels))
            self._run = _Run(self.settings, labels, train, dev, self.progress, self._previous)
        return self._run


class _Run:
    """The training on one set of data, whose rows are in the order of their keys.

    It goes through three phases: "search", "l2" and, with all that may be trained on, "last".
    """

    def __init__(
        self,
        settings: LogLinearSettings,
        labels: tuple[str, ...],
        train: LabelledTable,
        dev: LabelledTable | None,
        progress: Progress | None,
        previous: KeyedWeights | None,
    ):
        self.settings = settings
        self.labels = labels
        self.variables = train[0].variables
        self.progress = progress
        self.steps: list[Step] = []
        self.l2 = settings.search_l2
        self._previous = previous
        # What the last phase is to be trained on, if it is not what the others are.
        self._all: LabelledTable | None = None
        if settings.needs_dev and dev is None:
            self._all = train
            train, dev = _hold_out(*train)
        elif settings.recount and dev is not None:
            self._all = _together(train, dev)
        self._workshop = self._selection = Workshop(settings, labels, train, dev)
        self._estimate = self._workshop.start
        self._likelihood: ConditionalLikelihood | None = None
        self._optimizer: LBFGS | None = None
        self._phase = "search" if settings.templates == "search" else "l2"
        if len(labels) < 2 or not len(train[0]):
            self._phase = "done"  # there is nothing to tell apart
        elif self._phase == "search":
            self._estimate = self._searched(self._estimate)
        else:
            for template in self._fixed_templates():
                self._estimate = self._workshop.extended(self._estimate, template)

    @property
    def value(self) -> float:
        """The objective at the present weights; 0 if it was never asked for."""
        if self._optimizer is None:
            return self._estimate.value
        return self._optimizer.value or 0.0

    def step(self) -> bool:
        """One step; False once there is nothing left to improve."""
        if self._phase == "search":
            if not self._extend():
                self._phase = "l2"
            return True
        if self._phase == "l2":
            chooses = len(self.settings.l2_values) > 1
            if chooses:
                self._choose_l2()
            self._phase = "last"
            self._begin_last()
            if chooses:
                return True
        if self._optimizer is None or self._likelihood is None:
            return False
        more = self._optimizer.step(self._likelihood.value_and_grad)
        return more and self._optimizer.n_iterations < self.settings.max_iterations

    def _fixed_templates(self) -> list[Template]:
        settings, variables = self.settings, self.variables
        if isinstance(settings.templates, str):
            sizes = (1, 2) if settings.templates == "pairs" else (1,)
            return [t for size in sizes for t in combinations(variables, size)]
        for template in settings.templates:
            self._workshop.train.table.select(template)  # SL503 for a variable that is not there
        return [_in_order(template, variables) for template in settings.templates]

    def _candidates(self) -> list[Template]:
        """Templates that may be next, in the order in which they became so."""
        taken, largest = self._estimate.templates, self.settings.max_conjunction
        if self.settings.nested:
            found = [(variable,) for variable in self.variables]
            for template in taken:
                if len(template) < largest:
                    rest = [variable for variable in self.variables if variable not in template]
                    found += [_in_order((*template, other), self.variables) for other in rest]
        else:
            placed = [v for v in self.variables if any(v in template for template in taken)]
            found = [
                _in_order((variable, *parents), self.variables)
                for variable in self.variables
                if variable not in placed
                for size in range(largest)
                for parents in combinations(placed, size)
            ]
        return [template for template in dict.fromkeys(found) if template not in taken]

    def _searched(self, estimate: Estimate) -> Estimate:
        """A model as the search estimates it."""
        return self._workshop.fitted(estimate, self.l2, self.settings.search_tolerance)

    def _extend(self) -> bool:
        """A step of the search; False if no candidate makes the model better."""
        settings, before, workshop = self.settings, self._estimate, self._workshop
        limit = settings.max_templates
        candidates = self._candidates()
        if not candidates or (limit is not None and len(before.templates) >= limit):
            return False
        best: Estimate | None = None
        for template in candidates:
            found = self._searched(workshop.extended(before, template))
            # Of equally good ones the smallest template is best, and of these the first.
            if best is None or _rank(found) > _rank(best):
                best = found
        assert best is not None
        total = float(workshop.dev.counts.sum())
        if not best.right - before.right > settings.min_gain * total:
            return False
        self._estimate = best
        step = Step(best.templates[-1], best.right / total, best.log_likelihood, len(candidates))
        self.steps.append(step)
        self._report(
            f"{template_name(step.template)}: accuracy {step.accuracy:.4f}, log-likelihood "
            f"{step.log_likelihood:.1f}, best of {step.n_fits}"
        )
        return True

    def _choose_l2(self) -> None:
        """The l2 with the best model; each goes on from the weights of a stronger one."""
        best: Estimate | None = None
        estimate = self._estimate
        for l2 in self.settings.l2_values:
            estimate = self._workshop.fitted(estimate, l2)
            if best is None or estimate.quality > best.quality:
                best, self.l2 = estimate, l2
        assert best is not None
        self._estimate = best
        accuracy = best.right / float(self._workshop.dev.counts.sum())
        self._report(
            f"l2 {self.l2:g}: accuracy {accuracy:.4f}, log-likelihood {best.log_likelihood:.1f}"
        )

    def _begin_last(self) -> None:
        """Prepare the estimation of what was selected, on all that may be trained on."""
        chosen = self._estimate
        if self._all is not None:
            self._previous = self.weights_by_key()
            base = self._workshop.base
            structure = None if base is None else base.parents
            self._workshop = Workshop(self.settings, self.labels, self._all, None, structure)
            self._estimate = self._workshop.start._replace(coefficients=chosen.coefficients)
            for template in chosen.templates:
                self._estimate = self._workshop.extended(self._estimate, template)
        if self._previous is not None:
            self._adopt(*self._previous)
        self._likelihood = self._workshop.likelihood(chosen.templates, self.l2)
        self._optimizer = self._workshop.optimizer(self._likelihood, self._estimate)

    def weights_by_key(self) -> KeyedWeights:
        """The features of the model as it stands, ascending, and their weights."""
        keys = self._workshop.keys(self._estimate.templates)
        order = np.argsort(keys)
        return keys[order], self._present()[0][order]

    def _adopt(self, keys: NDArray[np.uint64], weights: NDArray[np.float64]) -> None:
        """Begin with these weights, where they are of features of the model."""
        places = Index(keys).find(self._workshop.keys(self._estimate.templates))
        begin = self._estimate.weights.copy()
        if weights.shape[1] == begin.shape[1]:
            begin[places >= 0] = weights[places[places >= 0]]
        self._estimate = self._estimate._replace(weights=begin)

    def _present(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights, float64 (n_features, n_columns), and coefficients as they stand."""
        if self._likelihood is None or self._optimizer is None:
            return self._estimate.weights, self._estimate.coefficients
        return self._likelihood.unpack(self._optimizer.x)

    def learned(self) -> dict[str, Any]:
        """The parts of a `LogLinear`."""
        templates, workshop = self._estimate.templates, self._workshop
        found = {"labels": self.labels, "variables": self.variables, "l2": self.l2}
        if self._phase == "done":
            return found
        keys, weights = self.weights_by_key()
        likelihood = self._likelihood or workshop.likelihood(templates, self.l2)
        weights = likelihood.of_labels(weights)
        bias = np.isin(keys, workshop.column(BIAS).keys)
        names: dict[int, str] = {}
        for template in templates:
            column = workshop.column(template)
            names.update(_names(column.keys, workshop.train.table.take(column.rows), template))
        return {
            **found,
            "templates": templates,
            "keys": keys[~bias],
            "weights": weights[~bias],
            "bias": weights[bias].sum(axis=0),
            "coefficients": self._present()[1].copy(),
            "base": None if workshop.base is None else workshop.base.compact(),
            "steps": self.steps,
            "names": names,
        }

    def state(self) -> dict[str, Any]:
        """What `resume` takes, as `serialization.pack` can store it."""
        optimizer = None
        if self._optimizer is not None:
            optimizer = serialization.nested(self._optimizer.to_bytes())
        return {
            "digest": self._digest(),
            "phase": self._phase,
            "estimate": self._estimate,
            "optimizer": optimizer,
            "l2": self.l2,
            "steps": self.steps,
        }

    def resume(
        self,
        digest: str,
        phase: str,
        estimate: list[Any],
        optimizer: NDArray[np.uint8] | None,
        l2: float,
        steps: list[list[Any]],
    ) -> bool:
        """Go on from `state`; False if it is of other data or settings."""
        if digest != self._digest():
            return False
        templates, *rest = estimate
        self._estimate = Estimate(tuple(tuple(template) for template in templates), *rest)
        if phase not in PHASES:
            raise ValueError("a phase that there is not")
        self._phase, self.l2 = phase, float(l2)
        self.steps = [Step.of(step) for step in steps]
        if optimizer is not None:
            self._begin_last()
            self._optimizer = LBFGS.from_bytes(optimizer.tobytes())
        return True

    def _digest(self) -> str:
        """Of all on which the course of the training depends."""
        digest = blake2b(digest_size=16)
        settings = {**vars(self.settings), "base": self.settings.base is not None}
        digest.update(repr((sorted(settings.items()), self.labels, self.variables)).encode())
        for sample in (self._selection.train, self._selection.dev):
            for array in (sample.table.symbols, sample.label_ids, sample.counts, sample.given):
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def _report(self, line: str) -> None:
        if self.progress is not None:
            self.progress(line)


def template_name(template: Template) -> str:
    """How a template is written: "<p,n1>", as in table 7 of the paper."""
    return f"<{','.join(template)}>"


def _rank(estimate: Estimate) -> tuple[float, float, int]:
    """How good a candidate is."""
    return (*estimate.quality, -len(estimate.templates[-1]))


def _in_order(template: Iterable[str], variables: tuple[str, ...]) -> Template:
    """The variables of a template in the order of the table's."""
    return tuple(sorted(template, key=variables.index))


def _names(keys: NDArray[np.uint64], rows: Table, template: Template) -> dict[int, str]:
    """What the features of these rows are called, where all their values have names."""
    columns = []
    for variable in template:
        symbols = rows.column(variable).tolist()
        names = {
            value: f"{variable}={rows.names[value]}" for value in symbols if value in rows.names
        }
        names[MISSING] = f"{variable}=None"
        columns.append([names.get(value) for value in symbols])
    parts = zip(keys.tolist(), zip(*columns, strict=True), strict=True)
    return {key: "|".join(names) for key, names in parts if None not in names}


def sorted_rows(table: Table, label_ids: NDArray[np.int32]) -> LabelledTable:
    """The rows in the order of their keys: what is learned does not depend on their own."""
    order = np.argsort(row_keys(table, label_ids), kind="stable")
    return table.take(order), label_ids[order]


def _hold_out(table: Table, label_ids: NDArray[np.int32]) -> tuple[LabelledTable, LabelledTable]:
    """The data without every tenth row, and these rows.

    Of few rows none is held out: they stand on both sides.
    """
    held = np.zeros(len(table), dtype=np.bool_)
    held[_HELD_OUT // 2 :: _HELD_OUT] = True
    if not held.any():
        return (table, label_ids), (table, label_ids)
    return (table.take(~held), label_ids[~held]), (table.take(held), label_ids[held])


def _together(train: LabelledTable, dev: LabelledTable) -> LabelledTable:
    """Training and development data in one."""
    return sorted_rows(Table.concatenate([train[0], dev[0]]), np.concatenate([train[1], dev[1]]))
