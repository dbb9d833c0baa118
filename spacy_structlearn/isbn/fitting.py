"""Sigmoid belief networks of plain trees: training and parsing without spaCy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..learning.training import Estimator
from ..trees.normalize import all_normal
from ..trees.parse import GivenTag, best_trees
from ..trees.tree import Tree
from .model import ISBN
from .settings import ISBNSettings


def fit(settings: ISBNSettings, trees: Iterable[Tree]) -> ISBN:
    """Return a network of these trees, which need not be normal, see `trees.normalize`.

    Raises StructlearnError if there are no trees to train on.
    """
    return Estimator(settings, f"{__package__}.training").fit(all_normal(trees))


def predict(
    network: ISBN,
    sentences: Iterable[Sequence[str]],
    tags: Iterable[Sequence[GivenTag]] | None = None,
    **settings: Any,
) -> list[Tree]:
    """Return the best tree of each sentence. Raises what the parser raises.

    sentences, tags: see `DerivationParser.parse`. settings: of this parser.
    """
    from .decode import DerivationParser

    return best_trees(DerivationParser(network, **settings), sentences, tags)
