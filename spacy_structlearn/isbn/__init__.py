"""Trees by derivations: Titov & Henderson (2007), "Incremental Bayesian networks for structure
prediction", and the left-corner derivations of Henderson (2003) that it builds on.
"""

from typing import TYPE_CHECKING, Any

from .settings import ISBNSettings

if TYPE_CHECKING:
    from .fitting import fit, predict
    from .model import ISBN

__all__ = ["ISBN", "ISBNSettings", "fit", "predict"]


def __getattr__(name: str) -> Any:
    # Settings are read with those of all learners, networks only by a pipeline with one.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import fitting

    return getattr(fitting, name)
