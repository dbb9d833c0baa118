"""Architectures: each learner of the families as a `thinc.Model` that a config can name.

The model has no thinc parameters. It holds two attributes: "parameters", the family's model object
(arrays and strings, stored by thinc through the functions registered here), and "estimator", the
settings by which they are learned (not stored: the config has them).
"""

from __future__ import annotations

from typing import Any

from thinc.api import Model
from thinc.model import deserialize_attr, serialize_attr

from ..sequence.estimators import CRF
from ..sequence.features import SHA_PEREIRA
from ..sequence.model import ChainModel
from .batch_trainable import Estimator


def build_crf(
    templates: list[str] | None = None,
    l2: float = 1.0,
    min_frequency: int = 1,
    max_iterations: int = 300,
    tolerance: float = 1e-5,
) -> Model:
    """First-order conditional random field over label sequences (Lafferty et al. 2001).

    templates: predicates on the tokens around a position, such as "ORTH[-1]|ORTH[0]"; the names
        are spaCy's token attributes. None: those of Sha & Pereira (2003), on ORTH and TAG.
    l2: the penalty is l2 * |w|^2, without one half.
    min_frequency: predicates seen less often in training are left out.
    max_iterations, tolerance: training ends after so many iterations of L-BFGS, or when the mean
        relative decrease of the objective over ten iterations falls below the tolerance.
    """
    estimator = CRF(
        templates=tuple(SHA_PEREIRA if templates is None else templates),
        l2=l2,
        min_frequency=min_frequency,
        max_iterations=max_iterations,
        tolerance=tolerance,
    )
    return learner_model("crf", ChainModel.empty(), estimator)


def learner_model(name: str, parameters: Any, estimator: Estimator) -> Model:
    """A `thinc.Model` that holds a learner of ours."""
    return Model(name, _forward, attrs={"parameters": parameters, "estimator": estimator})


def _forward(model: Model, docs: Any, is_train: bool) -> Any:
    # Components call their family directly; spaCy asks only that a Model can be held and stored.
    raise NotImplementedError(f"{model.name}: call the component, not its model")


@serialize_attr.register(ChainModel)
def _serialize_chain_model(_: Any, value: ChainModel, name: str, model: Model) -> bytes:
    return value.to_bytes()


@deserialize_attr.register(ChainModel)
def _deserialize_chain_model(_: Any, value: bytes, name: str, model: Model) -> ChainModel:
    return ChainModel.from_bytes(value)
