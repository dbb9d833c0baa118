"""Grammars of plain trees: training and parsing without spaCy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..learning.training import Estimator
from ..trees.normalize import all_normal
from ..trees.parse import GivenTag, best_trees
from ..trees.tree import Tree

# The rooms of the learners, each of which has a module `training`.
_ROOMS = {
    "LatentGrammar": "latent",
    "ConditionalGrammar": "discriminative",
    "SpanGrammar": "spans",
    "MEstimatedGrammar": "fragments",
}


def fit(settings: Any, trees: Iterable[Tree]) -> Any:
    """Return a grammar of these trees, which need not be normal, see `trees.normalize`.

    settings: of one of the learners of grammars. Raises StructlearnError if there are no trees.
    """
    room = _ROOMS[settings.name]
    return Estimator(settings, f"{__package__}.{room}.training").fit(all_normal(trees))


def predict(
    grammar: Any,
    sentences: Iterable[Sequence[str]],
    tags: Iterable[Sequence[GivenTag]] | None = None,
    **settings: Any,
) -> list[Tree]:
    """Return the best tree of each sentence. Raises what the parser raises.

    sentences, tags: see `ChartParser.parse`. settings: of this parser.
    """
    from .chart.decode import ChartParser

    return best_trees(ChartParser(grammar, **settings), sentences, tags)
