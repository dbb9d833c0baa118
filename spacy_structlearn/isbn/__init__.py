"""Trees by derivations: Titov & Henderson (2007), "Incremental Bayesian networks for structure
prediction", and the left-corner derivations of Henderson (2003) that it builds on.
"""

from .fitting import fit, predict
from .model import ISBN
from .settings import ISBNSettings

__all__ = ["ISBN", "ISBNSettings", "fit", "predict"]
