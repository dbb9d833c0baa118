"""Grammars of plain trees: training and parsing without spaCy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..learning.training import Estimator
from ..trees.normalize import normalize
from ..trees.parse import GivenTag
from ..trees.tree import Tree
from .discriminative.settings import ConditionalGrammarSettings
from .fragments.settings import MEstimatedGrammarSettings
from .latent.settings import LatentGrammarSettings
from .spans.settings import SpanGrammarSettings

TRAINING = {
    LatentGrammarSettings: "latent",
    ConditionalGrammarSettings: "discriminative",
    SpanGrammarSettings: "spans",
    MEstimatedGrammarSettings: "fragments",
}
"""The rooms of the learners, each of which has a module `training`."""


def fit(settings: Any, trees: Iterable[Tree]) -> Any:
    """Return a grammar of these trees.

    settings: of one of the learners in `TRAINING`.
    trees: with or without empty nodes, function tags and a root, see `trees.normalize`.
    Raises StructlearnError if there are no trees.
    """
    learner = Estimator(settings, f"{__package__}.{TRAINING[type(settings)]}.training")
    return learner.fit([kept for tree in trees if (kept := normalize(tree)) is not None])


def predict(
    grammar: Any,
    sentences: Iterable[Sequence[str]],
    tags: Iterable[Sequence[GivenTag]] | None = None,
    **settings: Any,
) -> list[Tree]:
    """Return the best tree of each sentence.

    grammar: from `fit`. sentences: their words.
    tags: tags that the words must have, "" for any. None: tags are predicted.
    settings: those of `chart.decode.ChartParser`, whose `parse` also gives probabilities.
    Raises StructlearnError for an empty grammar, and as the parser does.
    """
    from .chart.decode import ChartParser

    words = [list(sentence) for sentence in sentences]
    parses = ChartParser(grammar, **settings).parse(words, tags)
    return [parse.tree(own) for parse, own in zip(parses, words, strict=True)]
