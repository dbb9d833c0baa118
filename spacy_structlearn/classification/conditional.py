"""Estimation of log-linear models: penalised conditional likelihood of given templates.

Toutanova (2006), section 2.2: the weights minimise

    f(w) = - sum_i log P(y_i | x_i) + sum_y l2_y |w_y|^2 / 2

where l2 is one over the variance of the Gaussian prior. A constant, a feature that is always on,
is penalised as the others are. Where a label stands against one other, only the difference of
their weights is estimated, and weights are estimated in units in which all features have about the
same curvature, so that L-BFGS needs few iterations; neither changes the optimum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels.index import KeyIndex, group
from ..optimize.lbfgs import LBFGS
from ._log_linear import Instances, add_scores
from .bayes_net import BayesNet
from .features import SET_SEPARATOR, LabelledTable, Table, row_keys, symbol, tuple_keys
from .settings import BayesNetSettings, LogLinearSettings

Template = tuple[str, ...]

BIAS: Template = ()
"""The template of the feature that is always on."""

_LOWEST = -100.0  # log-probabilities of a base model below it are taken for it
_MEMORY = 6  # of L-BFGS; more cost more time than they save


class LogLinearLikelihood:
    """f(w) of distinct labelled rows, as a function of one vector of parameters.

    features: int32 (n, n_templates), -1 for none; n_features: how many there are. label_ids:
    int32 (n), counts: float64 (n), how often each row occurs. given: float64 (n, n_labels,
    n_given), scores with a coefficient, whose prior has the mean 1. l2: float64 (n_labels), of the
    weights of each label; given_l2: of the coefficients.

    Of two labels a and b only u = w_a - w_b matters for the likelihood, and of all weights with
    that difference those of least penalty are w_a = l2_b u / (l2_a + l2_b), w_b = w_a - u; so there
    is one column of weights, u, with the prior l2_a l2_b / (l2_a + l2_b), instead of two. The
    parameters are weights divided by `scale`, one over the root of an upper bound of the second
    derivative of f.
    """

    def __init__(
        self,
        features: NDArray[np.int32],
        n_features: int,
        label_ids: NDArray[np.int32],
        counts: NDArray[np.float64],
        given: NDArray[np.float64],
        *,
        l2: NDArray[np.float64],
        given_l2: float,
    ):
        n_labels = len(l2)
        self.n_columns = n_labels if n_labels > 2 else 1
        self._shares = np.ones(1)
        bound = (n_labels - 1) / n_labels**2
        if n_labels == 2:
            total = l2.sum()
            share = l2[1] / total if total > 0 else 0.5
            self._shares = np.array([share, share - 1.0])
            l2 = np.array([l2[0] * share])
            given = given[:, :1] - given[:, 1:]
        elif n_labels > 2:
            bound = 0.25  # of p (1 - p)
        self.l2, self.given_l2 = l2[: self.n_columns], given_l2
        given = np.ascontiguousarray(given[:, : self.n_columns])
        self._instances = Instances(features, n_features, label_ids, counts, given)
        occurrences = np.zeros(n_features)
        for column in features.T:
            known = column >= 0
            occurrences += np.bincount(column[known], counts[known], minlength=n_features)
        curvature = self.l2 + bound * occurrences[:, None]
        # Of a feature without a prior that no row has, the weight stays as it is.
        self.scale = 1.0 / np.sqrt(np.where(curvature > 0, curvature, 1.0))
        spread = np.square(given).sum(axis=1) if self.n_columns == 1 else n_labels * given.var(1)
        curvature = self.given_l2 + bound * (counts @ spread)
        self.given_scale = 1.0 / np.sqrt(np.where(curvature > 0, curvature, 1.0))
        self._gradient = np.empty_like(self.scale)
        self._given_gradient = np.empty_like(self.given_scale)

    @property
    def n_parameters(self) -> int:
        """Length of a vector of parameters."""
        return self.scale.size + len(self.given_scale)

    def value_and_grad(self, theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """f and its gradient, float64 (n_parameters), at `theta`, float64 (n_parameters)."""
        weights, coefficients = self.unpack(theta)
        gradient, given_gradient = self._gradient, self._given_gradient
        value = self._instances.value_and_gradient(weights, coefficients, gradient, given_gradient)
        shrunk = self.l2 * weights
        beyond = coefficients - 1.0
        value += 0.5 * np.einsum("ij,ij->", shrunk, weights)
        value += 0.5 * self.given_l2 * np.einsum("i,i->", beyond, beyond)
        gradient += shrunk
        gradient *= self.scale
        given_gradient += self.given_l2 * beyond
        given_gradient *= self.given_scale
        return float(value), np.concatenate([gradient.reshape(-1), given_gradient])

    def parameters(
        self, weights: NDArray[np.float64], coefficients: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The vector of weights, float64 (n_features, n_columns), and of coefficients."""
        return np.concatenate([(weights / self.scale).reshape(-1), coefficients / self.given_scale])

    def unpack(self, theta: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights, float64 (n_features, n_columns), and coefficients, float64 (n_given)."""
        n_weights = self.scale.size
        weights = theta[:n_weights].reshape(self.scale.shape) * self.scale
        return weights, theta[n_weights:] * self.given_scale

    def of_labels(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The weights of each label, float64 (n_features, n_labels)."""
        return weights * self._shares


class _Sample(NamedTuple):
    """Distinct labelled rows in the order of their keys, in which sums are always taken.

    label_ids: int32 (n). counts: float64 (n). given: float64 (n, n_labels, n_given).
    """

    table: Table
    label_ids: NDArray[np.int32]
    counts: NDArray[np.float64]
    given: NDArray[np.float64]

    @classmethod
    def of(cls, table: Table, label_ids: NDArray[np.int32], given: NDArray[np.float64]) -> _Sample:
        """The sample of a table, where given is float64 (n_rows, n_labels, n_given)."""
        _, ids, counts = group(row_keys(table, label_ids))
        rows = np.empty(len(counts), dtype=np.int64)
        rows[ids] = np.arange(len(ids))
        return cls(table.take(rows), label_ids[rows], counts.astype(np.float64), given[rows])


class _Column(NamedTuple):
    """The features of one template.

    keys: uint64 (k), ascending. rows: int64 (k), a training row that has each. train, dev: int32
    (n), the feature of each row, -1 if it has none.
    """

    keys: NDArray[np.uint64]
    rows: NDArray[np.int64]
    train: NDArray[np.int32]
    dev: NDArray[np.int32]


class Estimate(NamedTuple):
    """A model on the way.

    weights: float64 (n_features, n_columns), of the bias, then of the features of each template.
    coefficients: float64 (n_given). value: the objective. right: how many of the development data
    are; log_likelihood: of their labels, in nats.
    """

    templates: tuple[Template, ...]
    weights: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    value: float = 0.0
    right: float = 0.0
    log_likelihood: float = 0.0

    @property
    def quality(self) -> tuple[float, float]:
        """What models are compared by."""
        return self.right, self.log_likelihood


class Workshop:
    """Training data and development data on which models are estimated and compared.

    structure: of the base network; None: it is chosen as its own settings say.
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
            self.base = _trained(settings.base, labels, train, dev, structure)
            given = base_scores(self.base.log_joint_left_out())
            dev_given = base_scores(self.base.log_joint(dev[0]))
        self.train = _Sample.of(*train, given)
        self.dev = _Sample.of(*dev, dev_given)
        self.n_columns = len(labels) if len(labels) > 2 else 1
        self._columns: dict[Template, _Column] = {}

    @property
    def start(self) -> Estimate:
        """The model without templates, before it is estimated."""
        n_given = self.train.given.shape[2]
        return Estimate((), np.zeros((len(self.keys(())), self.n_columns)), np.ones(n_given))

    def column(self, template: Template) -> _Column:
        """The features of a template, kept for the next time."""
        if template not in self._columns:
            keys = feature_keys(self.train.table, [template]).reshape(-1)
            found, ids, _ = group(keys)
            counts = np.bincount(ids, self.train.counts, minlength=len(found))
            rows = np.empty(len(found), dtype=np.int64)
            rows[ids] = np.arange(len(ids))
            if template != BIAS and self.settings.min_count > 1:
                kept = counts >= self.settings.min_count
                numbers = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
                found, rows, ids = found[kept], rows[kept], numbers[ids]
            dev = KeyIndex(found).find(feature_keys(self.dev.table, [template]).reshape(-1))
            self._columns[template] = _Column(found, rows, ids, dev)
        return self._columns[template]

    def columns(self, templates: Sequence[Template]) -> list[_Column]:
        """The bias, and the features of these templates."""
        return [self.column(template) for template in (BIAS, *templates)]

    def keys(self, templates: Sequence[Template]) -> NDArray[np.uint64]:
        """The keys of the bias and of all features of these templates, in order."""
        return np.concatenate([column.keys for column in self.columns(templates)])

    def likelihood(self, templates: Sequence[Template], l2: float) -> LogLinearLikelihood:
        """The objective of a model with the bias and these templates."""
        columns = self.columns(templates)
        per_label = self.settings.l2_per_label or {}
        return LogLinearLikelihood(
            _side_by_side(columns, [column.train for column in columns]),
            sum(len(column.keys) for column in columns),
            self.train.label_ids,
            self.train.counts,
            self.train.given,
            l2=np.array([per_label.get(label, l2) for label in self.labels], dtype=np.float64),
            given_l2=l2,
        )

    def extended(self, estimate: Estimate, template: Template) -> Estimate:
        """A model with one template more, whose weights are zero."""
        fresh = np.zeros((len(self.column(template).keys), self.n_columns))
        return estimate._replace(
            templates=(*estimate.templates, template),
            weights=np.concatenate([estimate.weights, fresh]),
        )

    def optimizer(
        self,
        likelihood: LogLinearLikelihood,
        estimate: Estimate,
        tolerance: float | None = None,
    ) -> LBFGS:
        """L-BFGS that begins with the weights of a model; tolerance None: that of the settings."""
        return LBFGS(
            likelihood.parameters(estimate.weights, estimate.coefficients),
            gradient_tolerance=self.settings.tolerance if tolerance is None else tolerance,
            value_tolerance=0.0,
            memory=_MEMORY,
        )

    def fitted(self, estimate: Estimate, l2: float, tolerance: float | None = None) -> Estimate:
        """The model at the optimum, which does not depend on where it begins, and its quality."""
        likelihood = self.likelihood(estimate.templates, l2)
        optimizer = self.optimizer(likelihood, estimate, tolerance)
        while optimizer.n_iterations < self.settings.max_iterations:
            if not optimizer.step(likelihood.value_and_grad):
                break
        weights, coefficients = likelihood.unpack(optimizer.x)
        value = optimizer.value or 0.0
        estimate = Estimate(estimate.templates, weights, coefficients, value)
        right, log_likelihood = self._quality(estimate)
        return estimate._replace(right=right, log_likelihood=log_likelihood)

    def _quality(self, estimate: Estimate) -> tuple[float, float]:
        """How many of the development data are right, and the log-likelihood of their labels."""
        dev = self.dev
        columns = self.columns(estimate.templates)
        features = _side_by_side(columns, [column.dev for column in columns])
        given = dev.given[:, :1] - dev.given[:, 1:] if self.n_columns == 1 else dev.given
        scores = given @ estimate.coefficients
        add_scores(features, estimate.weights, scores)
        if self.n_columns == 1:
            scores = np.concatenate([scores, np.zeros_like(scores)], axis=1)
        right = dev.counts @ (scores.argmax(axis=1) == dev.label_ids)
        log_proba = log_softmax(scores)[np.arange(len(scores)), dev.label_ids]
        return float(right), float(dev.counts @ log_proba)


def feature_keys(table: Table, templates: Sequence[Template]) -> NDArray[np.uint64]:
    """The key of the feature that each row has by each template, uint64 (n, n_templates)."""
    keys = np.empty((len(table), len(templates)), dtype=np.uint64)
    column = {variable: place for place, variable in enumerate(table.variables)}
    by_size: dict[int, list[int]] = {}
    for place, template in enumerate(templates):
        by_size.setdefault(len(template), []).append(place)
    # All of one size at once: of few rows, each operation takes longer to call than to do.
    for size, places in by_size.items():
        own = [templates[place] for place in places]
        columns = (table.symbols[:, [column[t[i]] for t in own]] for i in range(size))
        seeds = [symbol(SET_SEPARATOR.join(template)) for template in own]
        keys[:, places] = tuple_keys(*columns, seed=np.array(seeds, dtype=np.uint64))
    return keys


def _side_by_side(
    columns: Sequence[_Column], features: Sequence[NDArray[np.int32]]
) -> NDArray[np.int32]:
    """Features of several templates, numbered one template after another; int32 (n, number)."""
    numbered = np.empty((len(features[0]), len(columns)), dtype=np.int32)
    begin = 0
    for place, (column, own) in enumerate(zip(columns, features, strict=True)):
        numbered[:, place] = np.where(own >= 0, own + begin, -1)
        begin += len(column.keys)
    return numbered


def _trained(
    base: BayesNetSettings,
    labels: tuple[str, ...],
    train: LabelledTable,
    dev: LabelledTable,
    structure: Mapping[str, Sequence[str]] | None,
) -> BayesNet:
    """The network of these settings, trained on this data."""
    given = {} if structure is None else {"structure": structure}
    net = BayesNet(base.part(BayesNetSettings, recount=False, **given))
    # Unless there are development data, the network leaves out what it is judged by.
    held_out = (dev[0], _names_of(dev[1], labels)) if len(dev[0]) else None
    net.fit(train[0], _names_of(train[1], labels), dev=held_out, known_labels=labels)
    net.settings = base.kept()
    return net


def _names_of(label_ids: NDArray[np.int32], labels: tuple[str, ...]) -> list[str]:
    return [labels[label] for label in label_ids]


def base_scores(log_joint: NDArray[np.float64]) -> NDArray[np.float64]:
    """log P(y | x) of a network as given scores, float64 (n, n_labels, 1)."""
    return np.maximum(log_softmax(log_joint), _LOWEST)[:, :, None]


def log_softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores less their log-sum-exp, of each row; float64 (n, n_labels)."""
    if not scores.size:
        return scores
    shifted = scores - scores.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
