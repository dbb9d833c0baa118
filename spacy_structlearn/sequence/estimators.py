"""Estimators of chain models: settings that a registered architecture names, and their training.

An estimator fixes what there is to learn (`initialize`) and gives a trainer, which improves it one
iteration at a time and can take in more data between iterations. Optimisation is batch: the
objective is a sum over all sentences that the trainer has been given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from math import isclose
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from ..optimize.lbfgs import LBFGS
from ..optimize.owlqn import OWLQN
from .classes import WordClasses, derive_columns, source_columns
from .conditional import ChainObjective, ConditionalLikelihood
from .encoding import tag_set
from .features import Templates
from .model import ChainModel

LBFGS_MEMORY = 6  # pairs; each costs 16 bytes a feature, and more than CRFsuite's six gain nothing


class SequenceData(NamedTuple):
    """Labelled sentences.

    columns: uint64 (n_tokens, n_columns), symbol ids. offsets: int64 (n_sentences + 1), where
    sentences begin and end. tags: the label of each token, in the estimator's encoding.
    """

    columns: NDArray[np.uint64]
    offsets: NDArray[np.int64]
    tags: tuple[str, ...]


@dataclass(frozen=True)
class ChainEstimator:
    """What all estimators with templates have in common.

    templates: see `Templates`. min_frequency: predicates seen less often are left out. order,
    pair_features, encoding: see `ChainModel.build`. classes: word classes for templates that read
    them (columns CLASS, CLASS8, ...). warm_start: begin with the weights of the features that were
    there before.
    """

    templates: tuple[str, ...]
    min_frequency: int = 1
    order: int = 1
    pair_features: bool = True
    encoding: str = "IOB2"
    classes: WordClasses | None = None
    warm_start: bool = False

    key_bits: ClassVar[int] = 64
    """Of the keys of predicates; fewer make a smaller model (see `Templates`)."""
    supported_only: ClassVar[bool] = True
    """Whether weights are of features that were seen with the right labels alone."""

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The columns that are read from the text, in order."""
        return source_columns(Templates(self.templates).columns)

    def derive(self, columns: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The columns of the templates from those of the text (SL241 if classes are missing)."""
        return derive_columns(columns, Templates(self.templates).columns, self.classes)

    def close_vocabularies(
        self, columns: NDArray[np.uint64]
    ) -> tuple[NDArray[np.uint64], dict[str, NDArray[np.uint64]]]:
        """The columns of training data as they are learned from, and `ChainModel.vocabularies`.

        All symbols are taken as they are, unless an estimator needs closed vocabularies.
        """
        return columns, {}

    def initialize(
        self,
        data: Sequence[SequenceData],
        labels: Sequence[str],
        previous: ChainModel | None = None,
    ) -> ChainModel:
        """A model whose features are those of `data`.

        labels: of chunks; the model's own are their tags in the encoding. previous: what was
        learned before, of which word classes stay if there are no others, and weights in a warm
        start.
        """
        tags = tag_set(labels, self.encoding)
        columns, offsets, label_ids = concatenate(data, tags)
        columns, vocabularies = self.close_vocabularies(columns)
        model = ChainModel.build(
            columns,
            offsets,
            label_ids,
            tags,
            Templates(self.templates, self.key_bits),
            self.min_frequency,
            order=self.order,
            pair_features=self.pair_features,
            encoding=self.encoding,
        )
        if not self.supported_only:
            model.supported[:] = model.supported_transitions[:] = True
        model.classes = self.classes
        model.vocabularies = vocabularies
        if previous is not None:
            model.classes = self.classes or previous.classes
            if self.warm_start and not previous.is_empty:
                model.adopt(previous)
        return model


@dataclass(frozen=True)
class LikelihoodEstimator(ChainEstimator):
    """What all estimators have in common that minimise a loss and a penalty, by L-BFGS.

    l2: the penalty is l2 |w|^2. l1: l1 |w|_1 besides, which leaves few weights other than zero.
    max_iterations: of L-BFGS (with l1: OWL-QN), for one set of data. tolerance: training ends when
    the mean relative decrease of the objective over ten iterations is below it. threads, shards:
    see `ChainObjective`.
    """

    l2: float = 1.0
    l1: float = 0.0
    max_iterations: int = 300
    tolerance: float = 1e-5
    threads: int = 1
    shards: int = 1

    objective_kind: ClassVar[type[ChainObjective]]

    def objective(
        self,
        model: ChainModel,
        columns: NDArray[np.uint64],
        offsets: NDArray[np.int64],
        label_ids: NDArray[np.int32],
        **own: Any,
    ) -> ChainObjective:
        """What is minimised; arguments as in `ChainObjective`. own: settings of this kind alone."""
        return self.objective_kind(
            model,
            columns,
            offsets,
            label_ids,
            l2=self.l2,
            threads=self.threads,
            shards=self.shards,
            **own,
        )

    def trainer(
        self, parameters: ChainModel, data: Sequence[SequenceData], *, shards: int | None = None
    ) -> LikelihoodTrainer:
        """Training that goes on from `parameters`. shards: in place of the setting."""
        settings = self if shards is None else replace(self, shards=shards)
        return LikelihoodTrainer(settings, parameters, data)


@dataclass(frozen=True)
class CRF(LikelihoodEstimator):
    """Conditional random field (Lafferty et al. 2001; Sha & Pereira 2003).

    Settings: see `LikelihoodEstimator`.
    """

    objective_kind: ClassVar[type[ChainObjective]] = ConditionalLikelihood


class LikelihoodTrainer:
    """L-BFGS, or OWL-QN, on the objective of an estimator.

    value: the objective at the present weights; before the first step, 0.
    n_iterations: iterations so far, over all sets of data.
    """

    def __init__(
        self,
        settings: LikelihoodEstimator,
        model: ChainModel,
        data: Sequence[SequenceData],
    ):
        if not 0 <= settings.l1 < np.inf:
            raise StructlearnError("SL209", name="l1", wanted="0 or more", value=settings.l1)
        self.settings = settings
        self._objective = settings.objective(model, *concatenate(data, model.labels))
        self._done = 0  # iterations before the present optimiser
        self._optimizer = self._start(self._objective.parameters())

    @property
    def value(self) -> float:
        return self._optimizer.value or 0.0

    @property
    def n_iterations(self) -> int:
        return self._done + self._optimizer.n_iterations

    def add(self, data: Sequence[SequenceData]) -> None:
        """More sentences: a new objective, so the curvature of the old one is forgotten."""
        self._objective.add(*concatenate(data, self._objective.model.labels))
        self._done = self.n_iterations
        self._optimizer = self._start(self._optimizer.x)

    def step(self) -> bool:
        """One iteration. Returns False once training has ended."""
        most = self.settings.max_iterations
        more = self._optimizer.n_iterations < most  # it may have been resumed at its end
        more = more and self._optimizer.step(self._objective.value_and_grad)
        more = more and self._optimizer.n_iterations < most
        if not more:
            # The trainer is kept, for more data; its threads and what they work on need not be.
            self._objective.close()
        return more

    def parameters(self) -> ChainModel:
        """A copy of the model as it stands, float32, without predicates that have no weight."""
        self._objective.write(self._optimizer.x)
        return self._objective.model.compact("float32")

    def to_bytes(self) -> bytes:
        """The state of the optimisation, to go on bit for bit with the same data and shards."""
        return self._optimizer.to_bytes()

    def resume(self, state: bytes) -> bool:
        """Go on from `to_bytes`. Returns False if the state is of other data or settings."""
        optimizer = type(self._optimizer).from_bytes(state)
        if optimizer.value is None or len(optimizer.x) != self._objective.n_parameters:
            return False
        value, _ = self._objective.value_and_grad(optimizer.x)
        value += self.settings.l1 * float(np.abs(optimizer.x).sum())
        if not isclose(value, optimizer.value, rel_tol=1e-12):
            return False
        self._optimizer = optimizer
        return True

    def _start(self, x: NDArray[np.float64]) -> LBFGS:
        settings = {
            "memory": LBFGS_MEMORY,
            "gradient_tolerance": 0.0,
            "value_tolerance": self.settings.tolerance,
        }
        return (
            OWLQN(x, l1=self.settings.l1, **settings) if self.settings.l1 else LBFGS(x, **settings)
        )


def arranged(data: Sequence[SequenceData]) -> list[SequenceData]:
    """Each sentence by itself, in an order that depends on their contents alone.

    For training that depends on the order: by the rule for unknown words the first token of every
    type is one (`hmm.close_vocabulary`), and spaCy shuffles its examples.
    """
    sentences = [
        SequenceData(part.columns[begin:end], np.array([0, end - begin]), part.tags[begin:end])
        for part in data
        for begin, end in pairwise(np.asarray(part.offsets).tolist())
    ]
    return sorted(sentences, key=_digest)


def _digest(sentence: SequenceData) -> bytes:
    digest = blake2b(sentence.columns.astype("<u8").tobytes(), digest_size=8)
    digest.update(" ".join(sentence.tags).encode())
    return digest.digest()


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
