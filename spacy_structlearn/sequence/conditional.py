"""Conditional random fields: maximum conditional likelihood with a Gaussian prior.

Lafferty, McCallum & Pereira (2001); the objective and its gradient are those of Sha & Pereira
(2003, section 3.1), negated, with the prior in CRFsuite's unit (no one-half):

    f(w) = - sum_s log p_w(y_s | x_s) + l2 |w|^2
    df/dw = expected counts - empirical counts + 2 l2 w

Only supported features, those seen with the right labels in the training data, have a weight;
the others stay at zero (Sha & Pereira, section 4.2).
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from ..optimize.lbfgs import LBFGS, dot, minimize
from . import _chain
from .features import Templates, check_offsets
from .model import ChainModel, check_label_ids, count_transitions


class ConditionalLikelihood:
    """The objective of a CRF as a function of its supported weights.

    model: what is trained; its `supported` features, or, if it has none (it was loaded), those of
        this data. Its predicates stay fixed.
    columns: uint64 (n_tokens, n_columns); offsets: int64 (n_sentences + 1); see `Templates`.
    label_ids: integers (n_tokens), the right labels.
    l2: strength of the prior, 0 or more; 1 / (2 variance).
    A parameter vector has the supported (predicate, label) pairs, those of frequent predicates
    first, then the supported (label, next label) pairs. Not to be used by two threads at a time.
    Raises StructlearnError SL203 to SL205, SL207 or SL209.
    """

    def __init__(
        self,
        model: ChainModel,
        columns: NDArray[np.uint64],
        offsets: NDArray[np.int64],
        label_ids: NDArray[np.integer],
        *,
        l2: float,
    ):
        if model.is_empty:
            raise StructlearnError("SL205")
        if not 0 <= l2 < np.inf:
            raise StructlearnError("SL209", name="l2", wanted="0 or more", value=l2)
        self.model = model
        self.l2 = float(l2)
        rows, offsets, label_ids = self._rows(columns, offsets, label_ids)
        if model.supported is None or model.supported_transitions is None:
            model.support(rows, offsets, label_ids)
        self._number_parameters(rows)
        self._blocks: list[tuple[NDArray[np.int32], NDArray[np.int64]]] = []
        self._add_block(rows, offsets, label_ids)

    @property
    def n_parameters(self) -> int:
        """Length of a parameter vector."""
        return len(self._empirical)

    def add(
        self,
        columns: NDArray[np.uint64],
        offsets: NDArray[np.int64],
        label_ids: NDArray[np.integer],
    ) -> None:
        """Extend the data; features that it does not share with the model stay unsupported.

        Arguments and errors are those of the constructor.
        """
        self._add_block(*self._rows(columns, offsets, label_ids))

    def value_and_gradient(self, theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """f and its gradient, float64 (n_parameters), at `theta`, float64 (n_parameters)."""
        theta = self._check(theta)
        weights, transitions = self._unpack(theta)
        expected, expected_transitions = self._expected, np.zeros_like(transitions)
        expected.fill(0.0)
        pairs = np.empty_like(transitions)
        value = self.l2 * dot(theta, theta) - dot(theta, self._empirical)
        for rows, offsets in self._blocks:
            scores = self._scores[: len(rows)]
            _chain.emission_scores(rows, weights, scores)
            # The marginals take the place of the scores.
            value += _chain.forward_backward(scores, offsets, transitions, scores, pairs)
            _chain.add_to_rows(rows, scores, expected)
            expected_transitions += pairs
        gradient = (2.0 * self.l2) * theta
        gradient -= self._empirical
        gradient += self._pack(expected, expected_transitions)
        return value, gradient

    def parameters(self) -> NDArray[np.float64]:
        """The model's present weights as a parameter vector."""
        weights = self.model.weights[self._order].astype(np.float64, copy=False)
        return self._pack(weights, self.model.transitions)

    def write(self, theta: NDArray[np.float64]) -> None:
        """Put a parameter vector into the model."""
        weights, transitions = self._unpack(self._check(theta))
        self.model.weights[self._order] = weights
        self.model.transitions[:] = transitions

    def _rows(
        self,
        columns: NDArray[np.uint64],
        offsets: NDArray[np.int64],
        label_ids: NDArray[np.integer],
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
        rows = self.model.rows(self.model.templates.keys(columns, offsets))
        offsets = check_offsets(offsets, len(rows))
        return rows, offsets, check_label_ids(label_ids, len(rows), len(self.model.labels))

    def _number_parameters(self, rows: NDArray[np.int32]) -> None:
        """Order the predicates by frequency: those needed most then share the caches."""
        n_predicates = len(self.model.keys)
        counts = np.bincount(rows[rows >= 0], minlength=n_predicates)
        self._order = np.argsort(-counts, kind="stable")
        # One more than there are predicates: the last, -1, is the rank of the unknown ones.
        self._rank = np.full(n_predicates + 1, -1, dtype=np.int32)
        self._rank[self._order] = np.arange(n_predicates, dtype=np.int32)
        assert self.model.supported is not None
        self._emissions = np.flatnonzero(self.model.supported[self._order])
        self._transitions = np.flatnonzero(self.model.supported_transitions)
        self._empirical = np.zeros(len(self._emissions) + len(self._transitions))
        # Arrays of this size are kept, since new memory costs as much as the arithmetic does.
        # What is not supported stays zero in the weights.
        self._weights = np.zeros((n_predicates, len(self.model.labels)))
        self._expected = np.zeros_like(self._weights)
        self._scores = np.empty((0, len(self.model.labels)))

    def _add_block(
        self, rows: NDArray[np.int32], offsets: NDArray[np.int64], label_ids: NDArray[np.int32]
    ) -> None:
        n_labels = len(self.model.labels)
        rows = self._rank[rows]
        observed = np.zeros((len(rows), n_labels))
        observed[np.arange(len(rows)), label_ids] = 1.0
        self._expected.fill(0.0)
        _chain.add_to_rows(rows, observed, self._expected)
        transitions = count_transitions(offsets, label_ids, n_labels)
        self._empirical += self._pack(self._expected, transitions)
        self._blocks.append((rows, offsets))
        if len(rows) > len(self._scores):
            self._scores = np.empty((len(rows), n_labels))

    def _check(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        theta = np.asarray(theta, dtype=np.float64)
        if theta.shape != (self.n_parameters,):
            raise StructlearnError("SL221", n=self.n_parameters, shape=theta.shape)
        return theta

    def _unpack(
        self, theta: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights with a row for each predicate in order of frequency, and transitions."""
        transitions = np.zeros((len(self.model.labels),) * 2)
        n_emissions = len(self._emissions)
        self._weights.reshape(-1)[self._emissions] = theta[:n_emissions]
        transitions.reshape(-1)[self._transitions] = theta[n_emissions:]
        return self._weights, transitions

    def _pack(
        self, weights: NDArray[np.float64], transitions: NDArray[np.number]
    ) -> NDArray[np.float64]:
        return np.concatenate(
            [weights.reshape(-1)[self._emissions], transitions.reshape(-1)[self._transitions]]
        )


def train_crf(
    columns: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    label_ids: NDArray[np.integer],
    labels: Sequence[str],
    templates: Templates | Sequence[str],
    *,
    l2: float = 1.0,
    min_frequency: int = 1,
    max_iterations: int = 500,
    gradient_tolerance: float = 1e-5,
    value_tolerance: float = 1e-9,
    memory: int = 10,
    callback: Callable[[LBFGS], object] | None = None,
) -> ChainModel:
    """A CRF trained on labelled sentences, with float64 weights.

    columns, offsets, label_ids, labels, templates, min_frequency: as in `ChainModel.build`.
    l2: as in `ConditionalLikelihood`. The rest: as in `optimize.lbfgs.minimize`.
    """
    model = ChainModel.build(columns, offsets, label_ids, labels, templates, min_frequency)
    objective = ConditionalLikelihood(model, columns, offsets, label_ids, l2=l2)
    optimizer = minimize(
        objective.value_and_gradient,
        objective.parameters(),
        max_iterations=max_iterations,
        callback=callback,
        memory=memory,
        gradient_tolerance=gradient_tolerance,
        value_tolerance=value_tolerance,
    )
    objective.write(optimizer.x)
    return model
