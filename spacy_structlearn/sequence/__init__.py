"""Labels over tokens: chains, by likelihoods or by counting. Smith, Vail & Lafferty (2007)."""

from .chain.model import ChainModel
from .fitting import fit, predict
from .settings import (
    CRFSettings,
    HMMSettings,
    MEMMSettings,
    MEstimationSettings,
    PseudoLikelihoodSettings,
    StochasticCRFSettings,
)

__all__ = [
    "CRFSettings",
    "ChainModel",
    "HMMSettings",
    "MEMMSettings",
    "MEstimationSettings",
    "PseudoLikelihoodSettings",
    "StochasticCRFSettings",
    "fit",
    "predict",
]
