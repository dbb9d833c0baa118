"""Training of classifiers: of a Bayesian network in one step, of a log-linear model in many.

The result depends neither on the order of the data nor on the parts in which they are added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, combinations
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from ..kernels.index import KeyIndex
from ..learning.training import Trainer, array_digest
from ..optimize.lbfgs import LBFGS
from .classifier import Step
from .features import (
    MISSING,
    ClassificationData,
    Labelled,
    LabelledTable,
    Rows,
    Table,
    checked_labels,
    concatenate,
    label_ids_of,
    sorted_rows,
)
from .linear.conditional import BIAS, Estimate, LogLinearLikelihood, Template, Workshop
from .linear.log_linear import LogLinear
from .nets.bayes_net import BayesNet, fit_network
from .settings import SEARCH_L2, BayesNetSettings, ClassifierSettings, LogLinearSettings

S = TypeVar("S", bound=ClassifierSettings)
KeyedWeights = tuple[NDArray[np.uint64], NDArray[np.float64]]

_PHASES = ("new", "search", "l2", "last", "done")
MAX_CONJUNCTION = 3
"""The maximum number of variables of a template in a search."""
_HELD_OUT = 10  # one in ten training instances is held out if there are no development data


class ClassifierTrainer(Trainer[S]):
    """The data of a classifier, in the order of a hash.

    model: an untrained model with labels and variables; labels of the data are added.
    labels: further labels.
    """

    labels: tuple[str, ...]
    instances: LabelledTable

    def __init__(
        self,
        settings: S,
        model: BayesNet | LogLinear,
        data: Sequence[ClassificationData],
        labels: Sequence[str] = (),
    ):
        super().__init__(settings)
        self._model: Any = model
        # Those of a trained model include labels of the data.
        self._known = (*model.labels, *labels)
        self.variables = model.variables
        self._data: list[ClassificationData] = []
        self.add(data)

    def _add(self, data: Sequence[ClassificationData]) -> None:
        whole = concatenate([*self._data, *data])
        self._data = [whole]
        self.labels = tuple(sorted({*self._known, *whole.labels}))
        self.instances = self._sorted(whole)

    def _sorted(self, data: ClassificationData) -> LabelledTable:
        table = data.table.select(self.variables)
        return sorted_rows(table, label_ids_of(data.labels, self.labels))

    def data_digest(self) -> bytes:
        table, label_ids = self.instances
        return array_digest(self.labels, self.variables, table.symbols, label_ids)


class BayesNetTrainer(ClassifierTrainer[BayesNetSettings]):
    """A single step: structure, counts and d.

    value: minus the log-likelihood of the labels, with each instance left out of the counts.
    """

    parts: ClassVar[dict[str, Any]] = {"_model": BayesNet}

    def iterate(self) -> bool:
        self._model, log_joint = self._estimated()
        log_z = np.logaddexp.reduce(log_joint, axis=1)
        right = log_joint[np.arange(len(log_joint)), self.instances[1]]
        self.value = float((log_z - right).sum())
        self.n_iterations += 1
        return False

    def _estimated(self) -> tuple[BayesNet, NDArray[np.float64]]:
        """Return the network, and log P(x_i, y) of the instances, each left out of the counts."""
        net, counts = fit_network(self.settings, self.instances, None, self.labels)
        return net, net.scores_left_out(counts)

    def parameters(self) -> BayesNet:
        return self._model


class LogLinearTrainer(ClassifierTrainer[LogLinearSettings]):
    """The search for templates, the choice of l2, and then L-BFGS.

    Toutanova (2006), section 2.2.1: the search goes from single variables to conjunctions and adds
    one template at a time. Each candidate is estimated from the weights of the last step, and
    judged by its accuracy on development data. Then l2 is chosen on the same data, and the final
    model is estimated. Each of these steps, and each iteration of L-BFGS, is a step of training.
    When data are added, everything starts again, but from the same weights if there is nothing to
    select.

    dev: data to select on. None: a tenth of the data, which is added again at the end.
    """

    def __init__(
        self,
        settings: LogLinearSettings,
        model: LogLinear,
        data: Sequence[ClassificationData],
        *,
        dev: ClassificationData | None = None,
    ):
        self._dev = dev
        self._phase = "new"
        self._previous: KeyedWeights | None = None
        self.steps: list[Step]
        self._estimate: Estimate  # from the first step on
        self._optimizer: LBFGS | None
        self._workshop: Workshop
        self._likelihood: LogLinearLikelihood | None
        super().__init__(settings, model, data)

    def _add(self, data: Sequence[ClassificationData]) -> None:
        if self._phase not in ("new", "done") and not self.settings.needs_dev:
            self._previous = self._weights_by_key()
        super()._add(data)
        self._phase = "new"
        self.l2, self.steps, self._optimizer = 0.0, [], None

    def data_digest(self) -> bytes:
        dev = () if self._dev is None else (self._dev.table.symbols, self._dev.labels)
        return array_digest(super().data_digest(), *dev)

    def iterate(self) -> bool:
        self._begin()
        more = self._advance()
        optimizer = self._optimizer
        self.value = (self._estimate if optimizer is None else optimizer).value or 0.0
        self.n_iterations += 1
        return more

    def parameters(self) -> LogLinear:
        """Return the current model in float32."""
        return self.learned().compact("float32")

    def learned(self) -> LogLinear:
        """Return the current model without rounding."""
        self._begin()
        model = LogLinear(self.labels, self.variables, l2=self.l2)
        if self._phase == "done":
            return model
        templates, workshop = self._estimate.templates, self._workshop
        keys, weights = self._weights_by_key()
        likelihood = self._likelihood or workshop.likelihood(templates, self.l2)
        weights = likelihood.of_labels(weights)
        bias = np.isin(keys, workshop.column(BIAS).keys)
        names: dict[int, str] = {}
        for template, column in zip(templates, workshop.columns(templates)[1:], strict=True):
            rows = workshop.train.table.take(column.rows)
            names.update(feature_names(column.keys, rows, template))
        return model.replaced(
            templates=templates,
            keys=keys[~bias],
            weights=weights[~bias],
            bias=weights[bias].sum(axis=0),
            coefficients=self._present()[1].copy(),
            base=workshop.base,
            steps=self.steps,
            names=names,
        )

    def state(self) -> dict[str, Any]:
        optimizer = self._optimizer
        return {
            "phase": self._phase,
            "l2": self.l2,
            "steps": self.steps,
            "estimate": None if self._phase == "new" else self._estimate,
            "optimizer": optimizer,
            "previous": self._previous if optimizer is None else None,
        }

    def restore(self, state: dict[str, Any]) -> None:
        phase, estimate, optimizer = state["phase"], state["estimate"], state["optimizer"]
        steps = list(map(Step.of, state["steps"]))
        l2, previous = float(state["l2"]), state["previous"]
        if phase not in _PHASES or (phase == "new") != (estimate is None):
            raise ValueError("a phase that there is not")
        if previous is not None:
            keys, weights = previous
            previous = keys.astype(np.uint64), weights.astype(np.float64)
        self._phase, self._previous = "new", previous
        if estimate is None:
            return
        self._begin()
        self._phase, self.l2, self.steps = phase, l2, steps
        templates, *rest = estimate
        self._estimate = Estimate(tuple(tuple(template) for template in templates), *rest)
        if optimizer is not None:
            self._use_all()
            self._likelihood = self._workshop.likelihood(self._estimate.templates, l2)
            self._optimizer = LBFGS.from_bytes(optimizer)

    # --- the steps -------------------------------------------------------------------------------
    def _begin(self) -> None:
        """Prepare the first step."""
        if self._phase != "new":
            return
        settings, train = self.settings, self.instances
        dev = None if self._dev is None else self._sorted(self._dev)
        values = settings.l2_values
        self.l2 = values[0] if len(values) == 1 else SEARCH_L2
        self._likelihood = None
        # The data of the last phase, if they are not those of the others.
        self._all: LabelledTable | None = None
        if settings.needs_dev and dev is None:
            self._all = train
            train, dev = _hold_out(*train)
        self._workshop = Workshop(settings, self.labels, train, dev)
        self._estimate = self._workshop.untrained()
        if len(self.labels) < 2 or not len(train[0]):
            self._phase = "done"
        elif settings.templates == "search":
            self._estimate = self._workshop.fitted(self._estimate, self.l2)
            self._phase = "search"
        else:
            self._estimate = self._workshop.untrained(self._fixed_templates())
            self._phase = "l2"

    def _advance(self) -> bool:
        """Make a step. Returns False after the last one."""
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
            self._workshop.train.table.select(template)  # raises for a variable that is not there
        return [_in_order(template, variables) for template in settings.templates]

    def _candidates(self) -> list[Template]:
        """Return the templates that may be added, in the order in which they became possible."""
        taken = self._estimate.templates
        if self.settings.nested:
            candidates: list[Template] = [(variable,) for variable in self.variables]
            for template in taken:
                if len(template) < MAX_CONJUNCTION:
                    rest = [variable for variable in self.variables if variable not in template]
                    candidates += [_in_order((*template, other), self.variables) for other in rest]
        else:
            placed = [v for v in self.variables if any(v in template for template in taken)]
            candidates = [
                _in_order((variable, *parents), self.variables)
                for variable in self.variables
                if variable not in placed
                for size in range(MAX_CONJUNCTION)
                for parents in combinations(placed, size)
            ]
        return [template for template in dict.fromkeys(candidates) if template not in taken]

    def _extend(self) -> bool:
        """Make a step of the search. Returns False if no candidate is better."""
        before, workshop, candidates = self._estimate, self._workshop, self._candidates()
        if not candidates:
            return False
        # Of equal models that with the smallest template is best, and of these the first.
        best = max(
            (workshop.fitted(workshop.extended(before, t), self.l2) for t in candidates),
            key=lambda model: (*model.quality, -len(model.templates[-1])),
        )
        if not best.right > before.right:
            return False
        self._estimate = best
        template, accuracy = best.templates[-1], best.right / float(workshop.dev.counts.sum())
        self.steps.append(Step(template, accuracy, best.log_likelihood, len(candidates)))
        return True

    def _choose_l2(self) -> None:
        """Choose the l2 of the best model, each starting from the weights of a stronger one."""
        values = self.settings.l2_values
        _, *models = accumulate(values, self._workshop.fitted, initial=self._estimate)
        pairs = zip(models, values, strict=True)
        self._estimate, self.l2 = max(pairs, key=lambda pair: pair[0].quality)

    def _begin_last(self) -> None:
        """Prepare the estimation of the selected model on all data."""
        chosen = self._estimate
        if self._all is not None:
            self._previous = self._weights_by_key()
            self._use_all()
            fresh = self._workshop.untrained(chosen.templates)
            self._estimate = fresh._replace(coefficients=chosen.coefficients)
        if self._previous is not None:
            # Start with these weights for features that the model has.
            keys, weights = self._previous
            places = KeyIndex(keys).find(self._workshop.keys(chosen.templates))
            begin = self._estimate.weights.copy()
            if weights.shape[1] == begin.shape[1]:
                begin[places >= 0] = weights[places[places >= 0]]
            self._estimate = self._estimate._replace(weights=begin)
        self._likelihood = self._workshop.likelihood(chosen.templates, self.l2)
        begin, coefficients = self._estimate.weights, self._estimate.coefficients
        tolerance = self.settings.tolerance
        self._optimizer = self._likelihood.optimizer(begin, coefficients, tolerance)

    def _use_all(self) -> None:
        """Continue with all data; a base keeps its structure."""
        if self._all is not None:
            base = self._workshop.base
            structure = None if base is None else base.parents
            self._workshop = Workshop(self.settings, self.labels, self._all, None, structure)

    def _weights_by_key(self) -> KeyedWeights:
        """Return the keys of features, ascending, and their current weights."""
        keys = self._workshop.keys(self._estimate.templates)
        order = np.argsort(keys)
        return keys[order], self._present()[0][order]

    def _present(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the current weights, float64 (n_features, n_columns), and coefficients."""
        if self._likelihood is None or self._optimizer is None:
            return self._estimate.weights, self._estimate.coefficients
        return self._likelihood.unpack(self._optimizer.x)


def _in_order(template: Iterable[str], variables: tuple[str, ...]) -> Template:
    """Return the variables of a template in the order of the table."""
    return tuple(sorted(template, key=variables.index))


def feature_names(keys: NDArray[np.uint64], rows: Table, template: Template) -> dict[int, str]:
    """Return the names of the features of these rows; conjunctions have none."""
    if len(template) != 1:
        return {}
    texts = {MISSING: None, **rows.names}
    values = rows.column(*template).tolist()
    pairs = zip(keys.tolist(), values, strict=True)
    return {key: f"{template[0]}={texts[value]}" for key, value in pairs if value in texts}


def _hold_out(table: Table, label_ids: NDArray[np.int32]) -> tuple[LabelledTable, LabelledTable]:
    """Return the data without every tenth row, and these rows; all rows twice if there are few."""
    held = np.zeros(len(table), dtype=np.bool_)
    held[_HELD_OUT // 2 :: _HELD_OUT] = True
    if not held.any():
        return (table, label_ids), (table, label_ids)
    return (table.take(~held), label_ids[~held]), (table.take(held), label_ids[held])


def fit(
    settings: BayesNetSettings | LogLinearSettings,
    rows: Rows,
    labels: Sequence[str],
    *,
    dev: Labelled | None = None,
    variables: Sequence[str] | None = None,
) -> Any:
    """Return a classifier of labelled rows.

    rows, labels: the training data (see `features.Table.of`), and the label of each row.
    dev: rows and labels, on which a Bayesian network chooses its structure and d, and a log-linear
        model templates and l2. None, or no rows: a network leaves each training instance out of the
        counts, and a log-linear model holds out a tenth of the training data, in the order of a
        hash, which is added again before the weights are estimated.
    variables: their names; None: those of the rows.
    Raises StructlearnError if the arguments do not fit together or with the settings.
    """
    table = Table.of(rows, variables)
    train, held_out = ClassificationData(table, checked_labels(labels, len(table))), None
    if dev is not None:
        if not isinstance(dev, (tuple, list)) or len(dev) != 2:
            parts = isinstance(dev, (tuple, list))
            found = f"{len(dev)} parts" if parts else type(dev).__name__
            raise StructlearnError("SL507", found=found)
        dev_table = Table.of(dev[0], table.variables)
        held_out = ClassificationData(dev_table, checked_labels(dev[1], len(dev_table)))
    if held_out is not None and not held_out.labels:
        held_out = None
    parts = [train] if held_out is None else [train, held_out]
    known = tuple(sorted({label for part in parts for label in part.labels}))
    if isinstance(settings, BayesNetSettings):
        instances, *others = ((part.table, label_ids_of(part.labels, known)) for part in parts)
        return fit_network(settings, instances, others[0] if others else None, known)[0]
    untrained = LogLinear(known, table.variables)
    trainer = LogLinearTrainer(settings, untrained, [train], dev=held_out)
    while trainer.step():
        pass
    return trainer.learned()
