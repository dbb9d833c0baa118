"""Adaptation of trained classifiers to new data, without the data of the first training.

A log-linear model keeps its templates, and its old weights w0 are the mean of the prior (Chelba &
Acero 2004, "Adaptation of maximum entropy capitalizer: little data can help a lot"):

    f(w) = - sum_i log P(y_i | x_i) + strength * sum_j (l2 + h_j) (w_j - w0_j)^2 / 2

over the new data, with the l2 of the first training. w0 is 0 for new features and labels. h_j is a
bound of the second derivative of the first term, 0 for new features: it stands for that of the old
data, without which frequent features move too far and old data are forgotten (Kirkpatrick et al.
2017, "Overcoming catastrophic forgetting in neural networks"). So at a strength of 1 the old data
weigh about as much as the new. Weights of features that are not in the new data stay as they are.

A Bayesian network keeps its structure and its d, and new counts are added to the old ones, which
are prior counts (Bacchiani et al. 2006, "MAP adaptation of stochastic grammars"). The ratio of an
old to a new instance is the strength; the unit is an old instance, so that a strong prior leaves
the smoothing as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..kernels.index import KeyIndex, group
from ..learning.keys import mask
from ..learning.training import array_digest
from ..optimize.lbfgs import LBFGS
from .features import ClassificationData, LabelledTable, symbol, tuple_keys
from .linear.conditional import BIAS, LogLinearLikelihood, Sample, base_scores, feature_keys
from .linear.log_linear import LogLinear
from .nets.bayes_net import BayesNet
from .nets.counts import Group, JointCounts, Subset, cached, join
from .settings import BayesNetSettings, ClassifierSettings, LogLinearSettings
from .trainers import BayesNetTrainer, ClassifierTrainer, feature_names

S = TypeVar("S", bound=ClassifierSettings)

_NOTHING = np.empty(0, dtype=np.uint64), np.empty(0)
_BIAS_KEY = tuple_keys(seed=symbol(""))


class MergedCounts(JointCounts):
    """The counts of a network, and of new instances, each of which counts `weight` times.

    A value with a count below 1 is that part of a value in T and V.
    """

    def __init__(
        self, net: BayesNet, instances: LabelledTable, labels: Sequence[str], weight: float
    ):
        table, label_ids = instances
        super().__init__(table.select(net.used), label_ids, labels)
        self.weight = weight
        self._net, self._old = net, net.tables
        pairs = zip(net.tables.keys, net.tables.counts, strict=True)
        self._stored = dict(zip(net.tables.subsets, pairs, strict=True))

    @cached
    def group(self, subset: Subset) -> Group:
        new = JointCounts.group(self, subset)
        keys = np.union1d(new.keys, self._stored.get(subset, _NOTHING)[0])
        places = np.searchsorted(keys, new.keys).astype(np.int32)
        counts = self._old_counts(subset, keys)
        counts[places] += self.weight * new.counts
        return Group(keys, places[new.ids], counts, KeyIndex(keys))

    def n_values(self, variable: int) -> int:
        old = self._old.n_values[self._old.nodes.index(variable)]
        return old + round(float(self._added((variable,)).sum()))

    def distinct(self, context: Subset, variable: int) -> NDArray[Any]:
        events, contexts = self.group(join(context, variable)), self.group(context)
        rows = np.zeros(len(events.keys), dtype=np.int64)
        rows[events.ids] = np.arange(len(self))
        # Events without a row, whose context is not known, add nothing.
        added = self._added(join(context, variable))
        distinct = np.bincount(contexts.ids[rows], added, minlength=len(contexts.keys))
        table = self._old.nodes.index(variable)
        level = self._old.contexts[table].index(context)
        old = np.searchsorted(contexts.keys, self._stored[context][0])
        distinct[old] += self._old.distinct[table][level]
        return distinct

    def network(self) -> BayesNet:
        """Return the network with all counts."""
        return self._net.replaced(labels=self.labels, tables=self._old.filled(self))

    def _added(self, subset: Subset) -> NDArray[np.float64]:
        """Return by how much each value of a set of variables is more of a value than before."""
        keys, _, counts, _ = self.group(subset)
        return np.minimum(counts, 1.0) - np.minimum(self._old_counts(subset, keys), 1.0)

    def _old_counts(self, subset: Subset, keys: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Return the old count of each of these keys, among which are all old ones."""
        counts = np.zeros(len(keys))
        old_keys, old_counts = self._stored.get(subset, _NOTHING)
        counts[np.searchsorted(keys, old_keys)] = old_counts
        return counts


class ClassifierAdapter(ClassifierTrainer[S]):
    """The data, and the trained model to begin with, which is not changed."""

    def __init__(
        self,
        settings: S,
        model: Any,
        data: Sequence[ClassificationData],
        labels: Sequence[str] = (),
        *,
        strength: float,
    ):
        self._old, self._strength = model, strength
        super().__init__(settings, model, data, labels)

    def data_digest(self) -> bytes:
        return array_digest(super().data_digest(), self._old.to_bytes(), self._strength)

    def _counts(self, net: BayesNet) -> MergedCounts:
        return MergedCounts(net, self.instances, self.labels, 1.0 / self._strength)


class BayesNetAdapter(ClassifierAdapter[BayesNetSettings], BayesNetTrainer):
    """A single step: adds the new counts to the old ones."""

    def _estimated(self) -> tuple[BayesNet, NDArray[np.float64]]:
        counts = self._counts(self._old)
        return counts.network(), self._old.scores_left_out(counts)


class LogLinearAdapter(ClassifierAdapter[LogLinearSettings]):
    """L-BFGS from the old weights, over the features of the new data. Each iteration is a step.

    Of the settings only min_count, for new features, max_iterations and tolerance are used. When
    data are added, it goes on from the current weights, and the prior remains.
    """

    parts: ClassVar[dict[str, Any]] = {"_optimizer": LBFGS}
    _optimizer: LBFGS

    def _add(self, data: Sequence[ClassificationData]) -> None:
        current = self._merged() if hasattr(self, "_optimizer") else self._old
        super()._add(data)
        table, label_ids = self.instances
        n_labels = len(self.labels)
        self._base, given = self._old.base, np.empty((len(table), n_labels, 0))
        if self._base is not None:
            merged = self._counts(self._base)
            given = base_scores(self._base.scores_left_out(merged))
            self._base = merged.network()
        sample = Sample.of(table, label_ids, given)
        keys = feature_keys(sample.table, (BIAS, *self._old.templates))
        keys &= np.uint64(mask(self._old.key_bits))
        self._names = dict(self._old.names)
        for template, column in zip(self._old.templates, keys.T[1:], strict=True):
            self._names.update(feature_names(column, sample.table, template))
        distinct, ids, _ = group(keys.reshape(-1))
        counts = np.bincount(ids, np.repeat(sample.counts, keys.shape[1]))
        chosen = (counts >= self.settings.min_count) | (distinct == _bias_key(self._old))
        chosen |= KeyIndex(self._old.keys, self._old.key_bits).find(distinct) >= 0
        numbers = np.where(chosen, np.cumsum(chosen) - 1, -1).astype(np.int32)
        self._keys = distinct[chosen]
        self._likelihood = LogLinearLikelihood(
            numbers[ids].reshape(keys.shape),
            len(self._keys),
            sample.label_ids,
            sample.counts,
            sample.given,
            l2=self._old.l2,
            centre=_in_columns(_weights_at(self._old, self._keys, self.labels)),
            given_centre=self._old.coefficients,
            strength=self._strength,
        )
        begin = _in_columns(_weights_at(current, self._keys, self.labels))
        tolerance = self.settings.tolerance
        self._optimizer = self._likelihood.optimizer(begin, current.coefficients, tolerance)

    def iterate(self) -> bool:
        more = self._optimizer.step(self._likelihood.value_and_grad)
        self.value = self._optimizer.value or 0.0
        self.n_iterations += 1
        return more and self._optimizer.n_iterations < self.settings.max_iterations

    def parameters(self) -> LogLinear:
        """Return the current model with the precision of the old one."""
        return self._merged().compact(self._old.storage)

    def _merged(self) -> LogLinear:
        """Return the current model without rounding."""
        weights, coefficients = self._likelihood.unpack(self._optimizer.x)
        keys = np.union1d(self._old.keys, self._keys)
        merged = _weights_at(self._old, keys, self.labels)
        moved = self._likelihood.of_labels(weights - self._likelihood.centre)
        merged[np.searchsorted(keys, self._keys)] += moved
        bias = keys == _bias_key(self._old)
        return self._old.replaced(
            labels=self.labels,
            keys=keys[~bias],
            weights=merged[~bias],
            bias=merged[bias][0],
            coefficients=coefficients,
            base=self._base,
            names=self._names,
        )


def _weights_at(
    model: LogLinear, keys: NDArray[np.uint64], labels: Sequence[str]
) -> NDArray[np.float64]:
    """Return the weights of these keys and labels, float64 (n, n_labels); 0 where it has none."""
    rows = KeyIndex(model.keys, model.key_bits).find(keys)
    columns = [labels.index(label) for label in model.labels]
    weights = np.zeros((len(keys), len(labels)))
    weights[np.ix_(rows >= 0, columns)] = model.weights[rows[rows >= 0]]
    weights[np.ix_(keys == _bias_key(model), columns)] = model.bias
    return weights


def _bias_key(model: LogLinear) -> NDArray[np.uint64]:
    return _BIAS_KEY & np.uint64(mask(model.key_bits))


def _in_columns(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights as `LogLinearLikelihood` has them: of two labels only the difference."""
    return weights if weights.shape[1] > 2 else weights[:, :1] - weights[:, 1:]
