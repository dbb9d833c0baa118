"""Forests of training sentences by grammars of other folds, and their conditional loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...learning.training import Callback
from ...optimize.lbfgs import dot
from ...trees.tree import Tree
from ..chart.decode import THRESHOLDS, ChartParser
from ..chart.hypergraph import Floats, Hypergraphs, Mask
from ..latent.model import LatentGrammar
from ..treebank.symbols import renumbering
from .model import SpanGrammar
from .settings import REPORTS


def conditional_loss(
    graphs: Hypergraphs, target: Mask, item_scores: Floats, weight: float
) -> tuple[Floats, Floats, float]:
    """Return - log P(tree | words), and its gradient: expected minus observed counts of items.

    target: the edges of the trees, a mask (E). item_scores: float64 (I). weight: of the grammar.

    Returns the losses of the sentences in nats, float64 (s), and the derivatives of their sum by
    item_scores, float64 (I), and by the weight.
    """
    scores = graphs.edge_scores(item_scores, weight)
    log_z, posteriors = graphs.inside_outside(scores)
    owner = graphs.edge_sentences
    reached = np.bincount(owner[target], scores[target], len(graphs))
    difference = posteriors - target
    # An edge with score -inf is in no tree.
    moved = difference != 0
    by_weight = dot(difference[moved], graphs.scores[moved])
    return log_z - reached, graphs.item_posteriors(difference), by_weight


def renumbered(graphs: Hypergraphs, old: LatentGrammar, new: LatentGrammar) -> Hypergraphs:
    """Renumber the symbols and rules of forests as in another grammar, which has all of them."""
    to = renumbering(old.symbols, new.symbols)
    items = graphs.items.copy()
    items[:, 0] = to[items[:, 0]]
    rules = {pair: rule for rule, pair in enumerate(map(tuple, new.rules.unary.tolist()))}
    # The last place is that of edges without a rule.
    places = [*(rules[pair] for pair in map(tuple, to[old.rules.unary].tolist())), -1]
    return replace(graphs, items=items, chain=np.array(places, dtype=np.int32)[graphs.chain])


@dataclass
class TrainingForests:
    """Parsed sentences: their forests and numbers, the edges of their trees, and the sum of the
    losses of these trees if all scores are 0."""

    graphs: Hypergraphs
    numbers: NDArray[np.int64]
    target: Mask
    loss: float

    @classmethod
    def joined(cls, parts: Sequence[TrainingForests]) -> TrainingForests:
        """Concatenate forests."""
        return cls(
            Hypergraphs.joined([part.graphs for part in parts]),
            np.concatenate([part.numbers for part in parts]),
            np.concatenate([part.target for part in parts]),
            sum(part.loss for part in parts),
        )

    def select(self, chosen: NDArray[np.int64]) -> tuple[Hypergraphs, Mask]:
        """Return some of the forests, by their places, and the edges of their trees."""
        offsets = self.graphs.edge_offsets
        targets = [self.target[slice(*offsets[x : x + 2].tolist())] for x in chosen.tolist()]
        return self.graphs.select(chosen), np.concatenate(targets)


def training_forests(
    grammar: LatentGrammar,
    full: LatentGrammar,
    words: Sequence[Sequence[str]],
    trees: Sequence[Tree],
    numbers: NDArray[np.int64],
    *,
    threshold: float | None = None,
    threads: int = 1,
    report: Callback | None = None,
) -> TrainingForests:
    """Parse sentences, and find the tree of each forest that is closest to the gold tree.

    grammar: parses.
    full: the grammar whose symbols and rules the forests get; it has all those of `grammar`.
    words, trees: of all sentences.
    numbers: of the sentences to parse, in ascending order.
    threshold: of posteriors, for all levels. None: the thresholds of parsing, which are best.
    report: called with minus the mean loss of the sentences parsed so far if all scores are 0.
    """
    thresholds = THRESHOLDS if threshold is None else (threshold,) * max(grammar.depth, 1)
    parser = ChartParser(SpanGrammar(grammar), thresholds=thresholds, threads=threads)
    parts: list[TrainingForests] = []
    for part in np.array_split(numbers, min(REPORTS, len(numbers))):
        graphs, parsable = parser.forests([words[number] for number in part])
        graphs = renumbered(graphs, grammar, full)
        parsed = part[parsable]
        target = graphs.closest([trees[number] for number in parsed], full.symbols)
        parts.append(TrainingForests(graphs, parsed, target, -float(graphs.scores[target].sum())))
        if report is not None:
            report(-mean_loss(parts))
    return TrainingForests.joined(parts)


def mean_loss(parts: Sequence[TrainingForests]) -> float:
    """The mean loss of forests in nats if all scores are 0."""
    return sum(part.loss for part in parts) / max(sum(len(part.numbers) for part in parts), 1)


class Folds:
    """Parts of the training sentences, whose forests are made one part after another.

    trees: of the sentences.
    n_folds: number of folds; there are at most as many as trees.
    n_parsed: number of folds parsed so far.

    words: of the trees.
    parts: the forests of the first folds.
    In a resumed training, `parts` are made again. Raises ValueError if there are not as many folds.
    """

    def __init__(self, trees: Sequence[Tree], n_folds: int, n_parsed: int = 0):
        n = len(trees)
        self.trees, self.words = trees, [tree.words() for tree in trees]
        n_folds = max(min(n_folds, n), 1)
        self.bounds = [n * fold // n_folds for fold in range(n_folds + 1)]
        self.parts: list[TrainingForests] = []
        if not 0 <= n_parsed <= len(self):
            raise ValueError(f"{n_parsed} parsed folds")
        self.n_parsed = n_parsed

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def rest(self, fold: int) -> list[Tree]:
        """Return the trees of the other folds."""
        begin, end = self.bounds[fold : fold + 2]
        return [*self.trees[:begin], *self.trees[end:]]

    def parse(
        self,
        n_folds: int,
        grammar_of: Callable[[int], LatentGrammar],
        full: LatentGrammar,
        threads: int,
        report: Callback | None = None,
    ) -> None:
        """Parse the first folds, unless they are parsed already.

        grammar_of: returns the grammar that parses a fold, by its number. For the other arguments
            see `training_forests`.
        """
        for fold in range(len(self.parts), n_folds):
            own = np.arange(*self.bounds[fold : fold + 2])
            arguments = (grammar_of(fold), full, self.words, self.trees, own)
            self.parts.append(training_forests(*arguments, threads=threads, report=report))
        self.n_parsed = n_folds
