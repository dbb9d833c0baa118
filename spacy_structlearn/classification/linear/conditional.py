"""Estimation of log-linear models with given templates; see `log_linear` for the objective f.

With two labels, only the difference of their weights is estimated. Weights are scaled so that all
features have about the same curvature, and L-BFGS needs few iterations. Neither changes the
optimum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...arrays import cumulative
from ...kernels.index import KeyIndex, group
from ...optimize.lbfgs import LBFGS, dot, run
from ..features import SET_SEPARATOR, LabelledTable, Table, row_keys, symbol, tuple_keys
from ..nets.bayes_net import BayesNet, fit_network
from ..settings import BayesNetSettings, LogLinearSettings
from ._log_linear import Instances

Template = tuple[str, ...]

BIAS: Template = ()
"""The template of the constant feature."""

_LOWEST = -100.0  # smallest log-probability of a base model
_MEMORY = 6  # of L-BFGS; more would cost more time than it saves


class LogLinearLikelihood:
    """f(w) of distinct labelled rows, as a function of one vector of parameters.

    features: int32 (n, n_templates), numbers below n_features, -1 for none.
    label_ids: int32 (n). counts: float64 (n), how often each row occurs.
    given: float64 (n, n_labels, n_given), scores with a coefficient.
    l2: of the weights and the coefficients.
    centre, given_centre: the means of the priors, of the shapes of `unpack`.
    strength: a multiple of l2 and, for features whose centre is not 0, of the bound of the second
        derivative: a prior that stands for earlier data. None: the prior is l2.

    For two labels a and b, only u = w_a - w_b matters for the likelihood. The weights with this
    difference and the smallest penalty are u / 2 and -u / 2, so there is one column of weights, u,
    with l2 / 2. The parameters are weights, less their centre, divided by `scale`, one over the
    root of an upper bound of the second derivative of f.
    """

    def __init__(
        self,
        features: NDArray[np.int32],
        n_features: int,
        label_ids: NDArray[np.int32],
        counts: NDArray[np.float64],
        given: NDArray[np.float64],
        *,
        l2: float,
        centre: NDArray[np.float64] | float = 0.0,
        given_centre: NDArray[np.float64] | float = 1.0,
        strength: float | None = None,
    ):
        n_labels = given.shape[1]
        self.n_columns = n_labels if n_labels > 2 else 1
        self.l2: NDArray[np.float64] | float = l2 / 2.0 if n_labels == 2 else l2
        self.given_l2: NDArray[np.float64] | float = l2
        self.centre, self.given_centre = centre, given_centre
        self._is_binary = n_labels == 2
        if n_labels == 2:
            given = given[:, :1] - given[:, 1:]
        bound = (n_labels - 1) / n_labels**2 if n_labels < 3 else 0.25  # of p (1 - p)
        given = np.ascontiguousarray(given)
        self._instances = Instances(features, n_features, label_ids, counts, given)
        occurrences = np.zeros(n_features)
        for column in features.T:
            known = column >= 0
            occurrences += np.bincount(column[known], counts[known], minlength=n_features)
        curvature = np.tile(self.l2 + bound * occurrences[:, None], self.n_columns)
        # Without prior and rows, the weight of a feature does not change.
        self.scale = 1.0 / np.sqrt(np.where(curvature > 0, curvature, 1.0))
        if strength is not None:
            known = np.any(centre, axis=1, keepdims=True)
            self.l2 = strength * np.where(known, curvature, self.l2)
        spread = np.square(given).sum(axis=1) if self.n_columns == 1 else n_labels * given.var(1)
        curvature = self.given_l2 + bound * (counts @ spread)
        self.given_scale = 1.0 / np.sqrt(np.where(curvature > 0, curvature, 1.0))
        if strength is not None:
            self.given_l2 = strength * curvature
        self._gradient = np.empty_like(self.scale)
        self._given_gradient = np.empty_like(self.given_scale)

    def value_and_grad(self, theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return f and its gradient, of the shape of `theta`."""
        weights, coefficients = self.unpack(theta)
        gradient, given_gradient = self._gradient, self._given_gradient
        value = self._instances.value_and_gradient(weights, coefficients, gradient, given_gradient)
        moved = weights - self.centre
        shrunk = self.l2 * moved
        beyond = coefficients - self.given_centre
        value += 0.5 * np.einsum("ij,ij->", shrunk, moved)
        value += 0.5 * np.sum(self.given_l2 * (beyond * beyond))
        gradient += shrunk
        gradient *= self.scale
        given_gradient += self.given_l2 * beyond
        given_gradient *= self.given_scale
        return float(value), np.concatenate([gradient.reshape(-1), given_gradient])

    def parameters(
        self, weights: NDArray[np.float64], coefficients: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return theta for weights, float64 (n_features, n_columns), and coefficients."""
        moved = (weights - self.centre) / self.scale
        return np.concatenate([moved.reshape(-1), coefficients / self.given_scale])

    def optimizer(
        self, weights: NDArray[np.float64], coefficients: NDArray[np.float64], tolerance: float
    ) -> LBFGS:
        """Return L-BFGS that starts there."""
        begin = self.parameters(weights, coefficients)
        return LBFGS(begin, gradient_tolerance=tolerance, value_tolerance=0.0, memory=_MEMORY)

    def unpack(self, theta: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the weights and coefficients, the inverse of `parameters`."""
        n_weights = self.scale.size
        weights = theta[:n_weights].reshape(self.scale.shape) * self.scale + self.centre
        return weights, theta[n_weights:] * self.given_scale

    def of_labels(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights of each label, float64 (n_features, n_labels)."""
        return weights * np.array([0.5, -0.5]) if self._is_binary else weights


class Sample(NamedTuple):
    """Distinct labelled rows in the order of their keys, so that sums do not depend on others.

    label_ids: int32 (n). counts: float64 (n). given: float64 (n, n_labels, n_given).
    """

    table: Table
    label_ids: NDArray[np.int32]
    counts: NDArray[np.float64]
    given: NDArray[np.float64]

    @classmethod
    def of(cls, table: Table, label_ids: NDArray[np.int32], given: NDArray[np.float64]) -> Sample:
        """Return the sample of a table. given: float64 (n_rows, n_labels, n_given)."""
        _, ids, counts = group(row_keys(table, label_ids))
        rows = np.empty(len(counts), dtype=np.int64)
        rows[ids] = np.arange(len(ids))
        return cls(table.take(rows), label_ids[rows], counts.astype(np.float64), given[rows])


class _Column(NamedTuple):
    """The features of one template.

    keys: uint64 (k), ascending. rows: int64 (k), a training row with each feature.
    train, dev: int32 (n), the feature of each row, or -1.
    """

    keys: NDArray[np.uint64]
    rows: NDArray[np.int64]
    train: NDArray[np.int32]
    dev: NDArray[np.int32]


class Estimate(NamedTuple):
    """A model during training.

    weights: float64 (n_features, n_columns), of the bias, then of the features of each template.
    coefficients: float64 (n_given). value: the objective.
    right, log_likelihood: number of right development instances, and their likelihood in nats.
    """

    templates: tuple[Template, ...]
    weights: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    value: float = 0.0
    right: float = 0.0
    log_likelihood: float = 0.0

    @property
    def quality(self) -> tuple[float, float]:
        """The criterion for comparing models."""
        return self.right, self.log_likelihood


class Workshop:
    """Estimates models on training data and compares them on development data.

    structure: of the base network; None: chosen by its settings.
    """

    def __init__(
        self,
        settings: LogLinearSettings,
        labels: tuple[str, ...],
        train: LabelledTable,
        dev: LabelledTable | None,
        structure: Mapping[str, Sequence[str]] | None = None,
    ):
        self.settings = settings
        self.labels = labels
        self.base: BayesNet | None = None
        given = np.empty((len(train[0]), len(labels), 0))
        if dev is None:
            dev = train[0].take(np.empty(0, dtype=np.int64)), train[1][:0]
        dev_given = np.empty((len(dev[0]), *given.shape[1:]))
        if settings.base is not None and len(labels) > 1 and len(train[0]):
            given_structure = {} if structure is None else {"structure": structure}
            net_settings = settings.base.part(BayesNetSettings, **given_structure)
            held_out = dev if len(dev[0]) else None
            self.base, counts = fit_network(net_settings, train, held_out, labels)
            given = base_scores(self.base.scores_left_out(counts))
            dev_given = base_scores(self.base.log_joint(dev[0]))
        self.train = Sample.of(*train, given)
        self.dev = Sample.of(*dev, dev_given)
        self.n_columns = len(labels) if len(labels) > 2 else 1
        self._columns: dict[Template, _Column] = {}

    def untrained(self, templates: Iterable[Template] = ()) -> Estimate:
        """Return a model with these templates and weights of zero."""
        templates = tuple(templates)
        weights = np.zeros((len(self.keys(templates)), self.n_columns))
        return Estimate(templates, weights, np.ones(self.train.given.shape[2]))

    def column(self, template: Template) -> _Column:
        """Return the features of a template."""
        if template not in self._columns:
            keys = feature_keys(self.train.table, [template]).reshape(-1)
            distinct, ids, _ = group(keys)
            counts = np.bincount(ids, self.train.counts, minlength=len(distinct))
            rows = np.empty(len(distinct), dtype=np.int64)
            rows[ids] = np.arange(len(ids))
            if template != BIAS and self.settings.min_count > 1:
                frequent = counts >= self.settings.min_count
                numbers = np.where(frequent, np.cumsum(frequent) - 1, -1).astype(np.int32)
                distinct, rows, ids = distinct[frequent], rows[frequent], numbers[ids]
            dev = KeyIndex(distinct).find(feature_keys(self.dev.table, [template]).reshape(-1))
            self._columns[template] = _Column(distinct, rows, ids, dev)
        return self._columns[template]

    def columns(self, templates: Sequence[Template]) -> list[_Column]:
        """Return the bias and the features of these templates."""
        return [self.column(template) for template in (BIAS, *templates)]

    def keys(self, templates: Sequence[Template]) -> NDArray[np.uint64]:
        """Return the keys of the bias and of the features of these templates."""
        return np.concatenate([column.keys for column in self.columns(templates)])

    def likelihood(self, templates: Sequence[Template], l2: float) -> LogLinearLikelihood:
        """Return the objective of a model with the bias and these templates."""
        columns = self.columns(templates)
        return LogLinearLikelihood(
            _side_by_side(columns, "train"),
            sum(len(column.keys) for column in columns),
            self.train.label_ids,
            self.train.counts,
            self.train.given,
            l2=l2,
        )

    def extended(self, estimate: Estimate, template: Template) -> Estimate:
        """Add a template with weights of zero."""
        fresh = np.zeros((len(self.column(template).keys), self.n_columns))
        return estimate._replace(
            templates=(*estimate.templates, template),
            weights=np.concatenate([estimate.weights, fresh]),
        )

    def fitted(self, estimate: Estimate, l2: float) -> Estimate:
        """Return the model at the optimum, with its quality on the development data."""
        likelihood, tolerance = self.likelihood(estimate.templates, l2), self.settings.tolerance
        optimizer = likelihood.optimizer(estimate.weights, estimate.coefficients, tolerance)
        run(optimizer, likelihood.value_and_grad, self.settings.max_iterations)
        weights, coefficients = likelihood.unpack(optimizer.x)
        estimate = Estimate(estimate.templates, weights, coefficients, optimizer.value or 0.0)
        dev = self.dev
        columns = self.columns(estimate.templates)
        given = dev.given[:, :1] - dev.given[:, 1:] if self.n_columns == 1 else dev.given
        scores = given @ estimate.coefficients
        padded = np.append(weights, np.zeros((1, self.n_columns)), axis=0)  # -1: no feature
        for features in _side_by_side(columns, "dev").T:
            scores += padded[features]
        if self.n_columns == 1:
            scores = np.concatenate([scores, np.zeros_like(scores)], axis=1)
        right = dev.counts @ (scores.argmax(axis=1) == dev.label_ids)
        log_proba = log_softmax(scores)[np.arange(len(scores)), dev.label_ids]
        return estimate._replace(right=float(right), log_likelihood=dot(dev.counts, log_proba))


def feature_keys(table: Table, templates: Sequence[Template]) -> NDArray[np.uint64]:
    """Return the keys of the features of each row, uint64 (n, n_templates)."""
    keys = np.empty((len(table), len(templates)), dtype=np.uint64)
    for place, template in enumerate(templates):
        seed = symbol(SET_SEPARATOR.join(template))
        keys[:, place] = tuple_keys(*map(table.column, template), seed=seed)
    return keys


@lru_cache(maxsize=64)
def template_columns(
    variables: tuple[str, ...], templates: tuple[Template, ...]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint64]]:
    """Return the templates as the kernel reads them, for the same keys as those of `feature_keys`.

    variables: those of the table.
    Returns three arrays, which must not be changed: the columns of the variables of all templates;
    where those of each template begin, and their number; the state from which the key of each
    template begins.
    """
    column = {variable: place for place, variable in enumerate(variables)}
    columns = [column[variable] for template in templates for variable in template]
    starts = cumulative(np.array([len(template) for template in templates], dtype=np.int64))
    seeds = [symbol(SET_SEPARATOR.join(template)) for template in templates]
    return (
        np.array(columns, dtype=np.int32),
        starts.astype(np.int32),
        tuple_keys(seed=np.array(seeds, dtype=np.uint64)),
    )


def _side_by_side(columns: Sequence[_Column], part: str) -> NDArray[np.int32]:
    """Return the features of "train" or "dev", numbered in order; int32 (n, n_columns)."""
    numbered = np.empty((len(getattr(columns[0], part)), len(columns)), dtype=np.int32)
    begin = 0
    for place, column in enumerate(columns):
        features = getattr(column, part)
        numbered[:, place] = np.where(features >= 0, features + begin, -1)
        begin += len(column.keys)
    return numbered


def base_scores(log_joint: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log P(y | x) of a network as given scores, float64 (n, n_labels, 1)."""
    return np.maximum(log_softmax(log_joint), _LOWEST)[:, :, None]


def log_softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Subtract the log-sum-exp of each row from its scores, float64 (n, n_labels)."""
    # Sums over few columns are faster one column after another.
    columns = np.ascontiguousarray(scores.T) if scores.shape[1] < 8 else scores.T
    columns = columns - columns.max(axis=0, initial=-np.inf)
    return (columns - np.log(np.exp(columns).sum(axis=0))).T if scores.size else scores
