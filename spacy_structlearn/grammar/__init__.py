"""Trees by latent grammars: Petrov & Klein (2007), "Discriminative log-linear grammars with latent
variables", and the split-merge training that it builds on (Petrov, Barrett, Thibaux & Klein 2006).
"""

from .discriminative.settings import ConditionalGrammarSettings
from .fitting import fit, predict
from .fragments.settings import MEstimatedGrammarSettings
from .latent.model import LatentGrammar
from .latent.settings import LatentGrammarSettings
from .spans.settings import SpanGrammarSettings

__all__ = [
    "ConditionalGrammarSettings",
    "LatentGrammar",
    "LatentGrammarSettings",
    "MEstimatedGrammarSettings",
    "SpanGrammarSettings",
    "fit",
    "predict",
]
