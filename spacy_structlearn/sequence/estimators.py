"""Estimators of chain models: settings that a registered architecture names, and their training.

An estimator fixes what there is to learn (`initialize`) and gives a trainer, which improves it one
iteration at a time and can take in more data between iterations. Optimisation is batch: the
objective is a sum over all sentences that the trainer has been given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..optimize.lbfgs import LBFGS
from .conditional import ConditionalLikelihood
from .features import Templates
from .model import ChainModel


class SequenceData(NamedTuple):
    """Labelled sentences.

    columns: uint64 (n_tokens, n_columns), symbol ids. offsets: int64 (n_sentences + 1), where
    sentences begin and end. tags: the IOB2 tag of each token.
    """

    columns: NDArray[np.uint64]
    offsets: NDArray[np.int64]
    tags: tuple[str, ...]


@dataclass(frozen=True)
class CRF:
    """First-order conditional random field (Lafferty et al. 2001; Sha & Pereira 2003).

    templates: see `Templates`. l2: the penalty is l2 |w|^2. min_frequency: predicates seen less
    often are left out. max_iterations: of L-BFGS, for one set of data. tolerance: training ends
    when the mean relative decrease of the objective over ten iterations is below it.
    """

    templates: tuple[str, ...]
    l2: float
    min_frequency: int
    max_iterations: int
    tolerance: float

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The columns that the templates read, in order."""
        return Templates(self.templates).columns

    def initialize(self, data: Sequence[SequenceData], labels: Sequence[str]) -> ChainModel:
        """A model without weights, whose features are those of `data`.

        labels: the chunk labels; the model's own are their IOB2 tags.
        """
        tags = ("O", *(f"{prefix}-{label}" for label in labels for prefix in "BI"))
        columns, offsets, ids = concatenate(data, tags)
        return ChainModel.build(columns, offsets, ids, tags, self.templates, self.min_frequency)

    def trainer(self, parameters: ChainModel, data: Sequence[SequenceData]) -> CRFTrainer:
        """Training that goes on from `parameters`."""
        return CRFTrainer(self, parameters, data)


class CRFTrainer:
    """L-BFGS on the conditional likelihood.

    value: the objective at the present weights; before the first step, 0.
    n_iterations: iterations so far, over all sets of data.
    """

    def __init__(self, settings: CRF, model: ChainModel, data: Sequence[SequenceData]):
        self.settings = settings
        self._objective = ConditionalLikelihood(
            model, *concatenate(data, model.labels), l2=settings.l2
        )
        self._optimizer = self._start(self._objective.parameters())

    @property
    def value(self) -> float:
        return self._optimizer.value or 0.0

    @property
    def n_iterations(self) -> int:
        return self._optimizer.n_iterations

    def add(self, data: Sequence[SequenceData]) -> None:
        """More sentences: a new objective, so the curvature of the old one is forgotten."""
        self._objective.add(*concatenate(data, self._objective.model.labels))
        self._optimizer = self._start(self._optimizer.x)

    def step(self) -> bool:
        """One iteration. Returns False once training has ended."""
        more = self._optimizer.step(self._objective.value_and_gradient)
        return more and self._optimizer.n_iterations < self.settings.max_iterations

    def parameters(self) -> ChainModel:
        """A copy of the model as it stands, float32, without predicates that have no weight."""
        self._objective.write(self._optimizer.x)
        return self._objective.model.compact("float32")

    def to_bytes(self) -> bytes:
        """The state of the optimisation, to go on bit for bit with the same data."""
        return self._optimizer.to_bytes()

    def resume(self, state: bytes) -> bool:
        """Go on from `to_bytes`. Returns False if the state is of other data or settings."""
        optimizer = LBFGS.from_bytes(state)
        if len(optimizer.x) != self._objective.n_parameters:
            return False
        value, _ = self._objective.value_and_gradient(optimizer.x)
        if value != optimizer.value:
            return False
        self._optimizer = optimizer
        return True

    def _start(self, x: NDArray[np.float64]) -> LBFGS:
        return LBFGS(x, gradient_tolerance=0.0, value_tolerance=self.settings.tolerance)


def concatenate(
    data: Sequence[SequenceData], tags: Sequence[str]
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int32]]:
    """Columns, offsets and label ids of all sentences of `data`.

    tags: the labels, whose places are the ids. Raises KeyError for a tag that is not among them.
    """
    ids = {tag: index for index, tag in enumerate(tags)}
    shifts = np.cumsum([0, *(len(part.tags) for part in data)])
    offsets = [part.offsets[1:] + shift for part, shift in zip(data, shifts[:-1], strict=True)]
    return (
        np.concatenate([part.columns for part in data]),
        np.concatenate([[0], *offsets]).astype(np.int64),
        np.array([ids[tag] for part in data for tag in part.tags], dtype=np.int32),
    )
