"""Sigmoid belief networks of plain trees: training and parsing without spaCy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..learning.training import Estimator
from ..trees.normalize import normalize
from ..trees.parse import GivenTag
from ..trees.tree import Tree
from .model import ISBN
from .settings import ISBNSettings


def fit(settings: ISBNSettings, trees: Iterable[Tree]) -> ISBN:
    """Return a network of these trees.

    trees: with or without empty nodes, function tags and a root, see `trees.normalize`.
    Raises StructlearnError if there are no trees to train on.
    """
    kept = [normal for tree in trees if (normal := normalize(tree)) is not None]
    return Estimator(settings, f"{__package__}.training").fit(kept)


def predict(
    network: ISBN,
    sentences: Iterable[Sequence[str]],
    tags: Iterable[Sequence[GivenTag]] | None = None,
    **settings: Any,
) -> list[Tree]:
    """Return the best tree of each sentence.

    sentences: their words.
    tags: tags that the words must have, "" for any. None: tags are predicted.
    settings: those of `decode.DerivationParser`, whose `parse` also gives probabilities.
    Raises StructlearnError for an empty network, and as the parser does.
    """
    from .decode import DerivationParser

    words = [list(sentence) for sentence in sentences]
    parses = DerivationParser(network, **settings).parse(words, tags)
    return [parse.tree(own) for parse, own in zip(parses, words, strict=True)]
