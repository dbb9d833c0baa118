"""Training of chains by L-BFGS, or by OWL-QN where magnitudes are penalised too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...learning.training import Trainer, array_digest
from ...optimize.lbfgs import LBFGS
from ...optimize.owlqn import OWLQN
from ...serialization import nested
from ..chain.model import ChainModel
from ..layout.data import Floats, Parts, arranged, concatenate
from ..layout.encoding import tag_set
from ..settings import LikelihoodSettings
from .crf import ChainLikelihood
from .hmm import close_columns

LBFGS_MEMORY = 6  # pairs; each costs 16 bytes a feature, and more than CRFsuite's six gain nothing


class LikelihoodTrainer(Trainer[Any]):
    """Minimises the objective of `LikelihoodSettings`.

    With more data the curvature that was learned is forgotten: the objective is a new one.
    centered: whether the mean of the prior is the weights of the model, not 0.
    """

    _objective: ChainLikelihood | None = None
    _optimizer: LBFGS

    def __init__(
        self,
        settings: Any,
        model: ChainModel,
        data: Parts,
        *,
        centered: bool = False,
        **engine: Any,
    ):
        super().__init__(settings, **engine)
        self._model = model
        self._centered = centered
        self.add(data)

    def take(self, data: Parts) -> None:
        sentences = concatenate(data, self._model.labels)
        if self._objective is None:
            self._begin(*sentences)
        else:
            self._objective.add(*sentences)
            self._start(self._optimizer.x)

    def iterate(self) -> bool:
        optimizer = self._optimizer
        before = optimizer.n_iterations
        more = optimizer.step(self._begun.value_and_grad)
        self.n_iterations += optimizer.n_iterations - before
        self.value = optimizer.value or 0.0
        return more and optimizer.n_iterations < self.settings.max_iterations

    def parameters(self) -> ChainModel:
        """A copy of the model as it stands, float32, without predicates that have no weight."""
        self._begun.write(self._optimizer.x)
        return self._model.compact("float32")

    def data_digest(self) -> bytes:
        center = [self._begun.center] if self._centered else []
        return array_digest(self._begun.digest(), self._first, *center)

    def state(self) -> dict[str, Any]:
        return {"optimizer": nested(self._optimizer.to_bytes())}

    def restore(self, state: dict[str, Any]) -> bool | None:
        self._optimizer = type(self._optimizer).from_bytes(state["optimizer"].tobytes())
        return len(self._optimizer.x) == len(self._first)

    def close(self) -> None:
        self._begun.close()

    @property
    def _begun(self) -> ChainLikelihood:
        assert self._objective is not None
        return self._objective

    def _begin(self, *sentences: Any) -> None:
        """Make the objective, and begin at the weights of the model."""
        settings = self.settings
        self._objective = settings.objective_kind(
            self._model,
            *sentences,
            l2=settings.l2,
            threads=settings.threads,
            shards=settings.shards,
            make_engine=self.make_engine,
        )
        start = self._begun.parameters()
        if self._centered:
            self._begun.center = start
        self._start(start)

    def _start(self, x: Floats) -> None:
        settings, l1 = self.settings, self.settings.l1
        of_both = {
            "memory": LBFGS_MEMORY,
            "gradient_tolerance": 0.0,
            "value_tolerance": settings.tolerance,
        }
        self._optimizer = OWLQN(x, l1=l1, **of_both) if l1 else LBFGS(x, **of_both)
        self._first = self._optimizer.x


class JointTrainer(LikelihoodTrainer):
    """Trains the joint form of `PseudoLikelihoodSettings`.

    It keeps its data: which tokens are the first of their types, only all of them together tell.
    """

    _data: Parts = ()

    def take(self, data: Parts) -> None:
        if self._objective is not None:
            self._objective.write(self._optimizer.x)
            self._objective.close()
        self._data = [*self._data, *data]
        columns, *others = concatenate(arranged(self._data), self._model.labels)
        self._begin(self._model.derive(close_columns(columns)[0]), *others)


def adapter(
    settings: LikelihoodSettings,
    model: ChainModel,
    data: Parts,
    labels: Sequence[str],
    **engine: Any,
) -> LikelihoodTrainer:
    """Return a trainer of a trained model on new data (Chelba & Acero 2004).

    settings: of the objective; l2 is the strength of the prior, whose mean is the weights of the
        model, and 0 for new features.
    labels: chunk labels, old and new.
    """
    tags = tag_set(labels, model.encoding)
    extended = model.extended(*concatenate(data, tags), tags, settings.min_count)
    return LikelihoodTrainer(settings, extended, data, centered=True, **engine)
