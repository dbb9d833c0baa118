"""M-estimation of grammars: a log-linear model of trees, trained without parsing a sentence.

Smith, Vail & Lafferty (2007), section 4.1.2, describe the method for PCFGs. The model is a base
grammar q0, corrected by features of fragments of trees (equation 2),

    p_w(x, y) = q0(x, y) exp(w.f(x, y)) / Z(w)

and w minimises the objective of `optimize.m_estimation` (equation 3). This needs two statistics,
which are computed once: the features of each tree of the treebank and their expectations under q0.
Each iteration is then a pass over sparse counts. To parse, the forest that q0 leaves of a sentence
is rescored by the variational distribution of q0 and the features (`weights`).

The M-estimate may be followed by maximising the conditional likelihood of the trees in the forests
that q0 leaves of the training sentences (Petrov & Klein 2007, section 3, without substates):

    log P(tree | words) = log q0(tree | words) + w.f - log Z

Each evaluation of it runs inside-outside over all forests, which M-estimation avoids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from ... import serialization
from ...learning.training import Trainer
from ...optimize.lbfgs import LBFGS, Vector
from ...optimize.m_estimation import DualCoordinateDescent
from ...parallel.shards import Engine
from ...trees.tree import Tree
from ..chart.hypergraph import Floats, Mask
from ..discriminative.training import trainer_of_one
from ..latent import training as latent
from ..latent.model import LatentGrammar
from ..latent.settings import LatentGrammarSettings
from ..latent.stages import StagedTrainer
from ..spans.forests import Folds, TrainingForests
from ..spans.word_attributes import vocabulary
from ..treebank.data import TreebankData, to_tree
from ..treebank.settings import Trees
from .expectations import FragmentExpectations, Words
from .features import BOUNDARY, FeatureHasher, FragmentTemplates, sites_of_trees
from .settings import PASSES, FragmentFeaturesSettings, MEstimatedGrammarSettings
from .weights import FragmentGrammar, FragmentPlaces, FragmentScorer, FragmentWeights

ITERATIONS = 10  # of L-BFGS in a step
_BATCH = 50  # sentences whose forests are refined together
_MAX_SHARDS = 16
_MAX_HALVINGS = 10


class FragmentStatistics:
    """The statistics of a treebank that M-estimation needs, whatever the penalty.

    features: settings of the features.
    grammar: q0, trained on the same trees.
    data: the trees.

    weights: the features, with weights of 0.
    counts: F, float64 (n_trees, n_features), a SciPy CSR array.
    expectations: E, float64 (n_features); `expected` computed them.

    Raises StructlearnError as `FragmentExpectations` does.
    """

    def __init__(
        self, features: FragmentFeaturesSettings, grammar: LatentGrammar, data: TreebankData
    ):
        sentences = data.sentences
        templates = FragmentTemplates.of(features.templates)
        known = vocabulary(sentences, features.min_word_count)
        symbols = grammar.symbols
        hasher = FeatureHasher(templates, known)
        sites, tree = sites_of_trees(data)
        attributes = hasher.attributes(sentences)
        self.expected = FragmentExpectations(grammar, _distinct(sentences, hasher), BOUNDARY)
        rows, columns, keys, expectations = [], [], [], []
        n = 0
        for template in templates.all:
            having, every = hasher.features(template, sites, attributes)
            distinct, first, which, counts = np.unique(
                every, return_index=True, return_inverse=True, return_counts=True
            )
            frequent = counts >= features.min_count
            number = np.cumsum(frequent) - 1 + n
            is_frequent = frequent[which]
            rows.append(tree[having[is_frequent]])
            columns.append(number[which[is_frequent]])
            keys.append(distinct[frequent])
            examples = sites.select(having[first[frequent]])
            expectations.append(self.expected.of(template, examples, attributes))
            n += len(keys[-1])
        # Sort the keys of all templates together.
        order = np.argsort(np.concatenate(keys))
        rank = np.empty(n, dtype=np.int32)
        rank[order] = np.arange(n, dtype=np.int32)
        row, column = np.concatenate(rows), rank[np.concatenate(columns)]
        ones = np.ones(len(row))
        self.counts = scipy.sparse.coo_array((ones, (row, column)), (data.n_trees, n)).tocsr()
        self.expectations: Floats = np.concatenate(expectations)[order]
        self.weights = FragmentWeights(
            templates.texts,
            symbols.n_tags,
            symbols.size,
            data.binarization,
            known,
            np.concatenate(keys)[order],
            np.zeros(n, dtype=np.float32),
        )

    def optimizer(
        self, l2: float, *, scaling: float = 0.0, tolerance: float = 1e-4, seed: int = 0
    ) -> DualCoordinateDescent:
        """Return the optimiser of the objective; pass its weights to `estimate`.

        The penalty on a feature that occurs m times in a tree on average is l2 m^scaling.
        """
        scales = self._scales(scaling)
        counts = self.counts if not scaling else (self.counts * scales).tocsr()
        expectations = self.expectations * scales
        return DualCoordinateDescent(
            counts, expectations, c=1.0 / l2, tolerance=tolerance, seed=seed
        )

    def estimate(self, w: Vector, scaling: float = 0.0) -> FragmentWeights:
        """Convert the weights w of an `optimizer` with this scaling to weights of features."""
        return self.weights.with_weights(w * self._scales(scaling))

    def _scales(self, scaling: float) -> Vector:
        """Factors of the features, float64 (n), with which one penalty suits all."""
        means = np.asarray(self.counts.sum(axis=0)) / self.counts.shape[0]
        return means ** (-scaling / 2.0)


def _distinct(sentences: Sequence[Sequence[str]], hasher: FeatureHasher) -> Words:
    counts = Counter(word for sentence in sentences for word in sentence)
    texts = list(counts)
    # As one sentence, without the boundaries at both ends.
    hashes = hasher.attributes([texts])[1:-1]
    return Words(texts, np.array(list(counts.values())), hasher.templates.attributes, hashes)


# --- conditional likelihood -----------------------------------------------------------------------
class FragmentObjective:
    """The mean loss of n sentences in nats, plus the penalty l2 |w|^2 / 2 divided by n.

    forests: the forests of the sentences and the trees to learn.
    sentences: the words of all sentences that `forests.numbers` refers to.
    scorer: the features.
    l2: strength of the penalty.
    threads: number of threads. It does not change the result.
    """

    def __init__(
        self,
        forests: TrainingForests,
        sentences: Sequence[Sequence[str]],
        scorer: FragmentScorer,
        *,
        l2: float,
        threads: int = 1,
    ):
        n = len(forests.numbers)
        self._l2 = l2 / max(n, 1)
        size = len(scorer.weights)
        parts = []
        for first in range(0, n, _BATCH):
            batch = np.arange(n)[first : first + _BATCH]
            graphs, target = forests.select(batch)
            words = [sentences[number] for number in forests.numbers[batch].tolist()]
            places = scorer.places(words, graphs, target)
            refined = places.forests
            # The context of each node follows from the tree: it is one tree after refining, too.
            reached = np.where(target[refined.edges], 0.0, -np.inf)
            parts.append((places, refined.graphs.best(reached)[1]))
        self.n_edges = sum(len(target) for _, target in parts)
        groups = np.array_split(np.arange(len(parts)), min(_MAX_SHARDS, max(len(parts), 1)))
        shards = [
            _FragmentShard([parts[i] for i in group], size, 1.0 / max(n, 1)) for group in groups
        ]
        self._engine = Engine(shards, threads)

    def value_and_grad(self, w: Vector) -> tuple[float, Vector]:
        """Return the objective at w, float64 (n_features), and its gradient of the same shape."""
        value, gradient = self._engine.value_and_grad(w)
        return value + 0.5 * self._l2 * float(w @ w), gradient + self._l2 * w

    def close(self) -> None:
        """Free the forests and the threads."""
        self._engine.close()


class _FragmentShard:
    """Features of refined forests, and the edges of the right trees; see `parallel.shards`."""

    def __init__(self, parts: Sequence[tuple[FragmentPlaces, Mask]], size: int, share: float):
        self._parts, self._size, self._share = parts, size, share

    def value_and_grad(self, x: Vector) -> tuple[float, Vector]:
        value, gradient = 0.0, np.zeros(self._size)
        for places, target in self._parts:
            graphs = places.forests.graphs
            scores: Floats = graphs.scores + places.scores(x)
            log_z, posteriors = graphs.inside_outside(scores)
            value += float(log_z.sum() - scores[target].sum())
            gradient += places.gradient(posteriors - target, self._size)
        gradient *= self._share
        return value * self._share, gradient

    def close(self) -> None:
        self._parts = []


def shrunk(objective: FragmentObjective, weights: ArrayLike) -> Vector:
    """Scale weights, (n_features), to a good starting point for an objective.

    The weights are halved as long as the objective falls. The result is 0 if none of these points
    is better than 0.
    """
    best = np.array(weights, dtype=np.float64)
    least = objective.value_and_grad(best)[0]
    for _ in range(_MAX_HALVINGS):
        value = objective.value_and_grad(best / 2.0)[0]
        if not value < least:
            break
        best, least = best / 2.0, value
    return best if least < objective.value_and_grad(np.zeros_like(best))[0] else np.zeros_like(best)


# --- the trainer ----------------------------------------------------------------------------------
def initialize(
    settings: MEstimatedGrammarSettings,
    data: Trees,
    labels: Sequence[str] = (),
    previous: FragmentGrammar | None = None,
) -> FragmentGrammar:
    """Return the treebank grammar, without features; `labels` and `previous` are not used."""
    return FragmentGrammar(latent.initialize(settings.base, data))


def trainer(settings: MEstimatedGrammarSettings, parameters: Any, data: Trees) -> Trainer[Any]:
    """Return a trainer that starts from scratch, whatever `parameters` are."""
    return MEstimatedGrammarTrainer(settings, data)


class MEstimatedGrammarTrainer(StagedTrainer[MEstimatedGrammarSettings]):
    """Trains q0, then the M-estimate, then, if asked for, the conditional likelihood.

    A step is a round of q0, `PASSES` passes over the trees, the forests of one fold, or
    `ITERATIONS` iterations of L-BFGS.

    `value` is that of the grammar's own trainer, then the objective of M-estimation, then the mean
    loss of the forests in nats per sentence with weights of 0, then the conditional objective.
    `left_out` is the number of sentences without a forest.

    Reports are numbered by the fold, from 1, during the training of its grammar and its phase
    "forests", and by 0 for q0 and in the phases "m_estimation" and "conditional".
    """

    saved = ("estimated",)
    _objective: FragmentObjective | None = None

    def __init__(self, settings: MEstimatedGrammarSettings, data: Trees):
        super().__init__(settings, data, trainer_of_one)

    @property
    def grammar_settings(self) -> LatentGrammarSettings:
        return self.settings.base

    def report_stage(self, number: int, *parts: Any) -> None:
        self.report(number, *parts[1:])

    def begin(self) -> None:
        """Begin with the training of q0."""
        super().begin()
        self._gold: list[Tree] = []
        self._words: list[list[str]] = []
        self._statistics: FragmentStatistics | None = None
        self._dual: DualCoordinateDescent | None = None
        self._weights: FragmentWeights | None = None
        self.estimated = self.settings.start == "zero"
        self._folds = Folds(self._data.n_trees, self.settings.folds)
        self._optimizer: LBFGS | None = None
        self.left_out = 0

    def iterate(self) -> bool:
        """Do one step. Raises StructlearnError if q0 is not a proper distribution."""
        if not self.has_grammars:
            self.train_grammar()
        elif not self.estimated:
            self._estimate()
        elif self._folds.n_parsed < len(self._folds):
            self._make_forests(self._folds.n_parsed + 1)
        else:
            self._climb()
        self.n_iterations += 1
        if not self.has_grammars or not self.estimated:
            return True
        return bool(self.settings.conditional_iterations) and not self._climbed

    def parameters(self) -> FragmentGrammar:
        """Return the present grammar."""
        weights = self._weights
        if self._dual is not None:
            weights = self._gather().estimate(self._dual.w, self.settings.scaling)
        elif self._optimizer is not None and weights is not None:
            weights = weights.with_weights(self._optimizer.x)
        return FragmentGrammar(super().parameters(), fragments=weights)

    # --- steps --------------------------------------------------------------------------------
    @property
    def _climbed(self) -> bool:
        """Whether the maximisation of the conditional likelihood is over."""
        optimizer = self._optimizer
        return optimizer is not None and (
            optimizer.status != "running"
            or optimizer.n_iterations >= self.settings.conditional_iterations
        )

    def _gather(self) -> FragmentStatistics:
        if self._statistics is None:
            assert self._first is not None
            self._statistics = FragmentStatistics(self.settings, self._first, self._data)
        return self._statistics

    def _estimate(self) -> None:
        settings, statistics = self.settings, self._gather()
        if self._dual is None:
            self._dual = self._new_dual()
        dual = self._dual
        for _ in range(PASSES):
            more = dual.n_iterations < settings.max_iterations and dual.step()
            self.value = dual.value
            self.report(0, "m_estimation", dual.n_iterations, -self.value)
            if not more or dual.n_iterations >= settings.max_iterations:
                self.estimated = True
                self._weights = statistics.estimate(dual.w, settings.scaling)
                self._dual = self._statistics = None
                break

    def _new_dual(self) -> DualCoordinateDescent:
        names = ("scaling", "tolerance", "seed")
        options = {name: getattr(self.settings, name) for name in names}
        return self._gather().optimizer(self.settings.l2, **options)

    def _make_forests(self, folds: int) -> None:
        """Parse the first `folds` folds, except those that have been parsed."""
        if not self._gold:
            self._gold = [to_tree(self._data, number) for number in range(self._data.n_trees)]
            self._words = self._data.sentences
        assert self._first is not None
        self._folds.parse(
            folds,
            self._grammar_of,
            self._first,
            self._words,
            self._gold,
            self.settings,
            self.report,
        )
        self.left_out, self.value = self._folds.left_out, self._folds.loss

    def _grammar_of(self, fold: int) -> LatentGrammar:
        """Return the grammar that parses a fold: of the other folds, if there are any."""
        if len(self._folds) < 2:
            return super().parameters()
        trainer = trainer_of_one(self.grammar_settings, [self._folds.rest(fold, self._gold)])
        trainer.on_iteration = lambda _, phase, i, value: self.report(fold + 1, phase, i, value)
        while trainer.step():
            pass
        return trainer.parameters()

    def _climb(self) -> None:
        settings = self.settings
        if self._weights is None:
            self._weights = self._gather().weights
            self._statistics = None
        if self._objective is None:
            self._make_forests(self._folds.n_parsed)
            assert self._first is not None
            self._objective = FragmentObjective(
                TrainingForests.joined(self._folds.parts),
                self._words,
                FragmentScorer(self._weights, self._first.symbols),
                l2=settings.conditional_l2,
                threads=settings.threads,
            )
            self._folds.parts = []
        if self._optimizer is None:
            start: NDArray[Any] = self._weights.values
            if settings.start == "m_estimate":
                start = shrunk(self._objective, start)
            self._optimizer = LBFGS(start)
        optimizer = self._optimizer
        for _ in range(ITERATIONS):
            optimizer.step(self._objective.value_and_grad)
            self.value = float(optimizer.value or 0.0)
            self.report(0, "conditional", optimizer.n_iterations, -self.value)
            if self._climbed:
                break

    def close(self) -> None:
        """Free what only training needs."""
        super().close()
        self._statistics, self._gold, self._words = None, [], []
        if self._objective is not None:
            self._objective.close()
            self._objective = None

    # --- state --------------------------------------------------------------------------------
    def state(self) -> dict[str, Any]:
        """Return the state, without statistics and forests, which are computed again."""
        parts = {"dual": self._dual, "optimizer": self._optimizer}
        stored: dict[str, Any] = {
            name: None if part is None else serialization.nested(part.to_bytes())
            for name, part in parts.items()
        }
        stored["weights"] = None if self._weights is None else self._weights.values
        return super().state() | stored | {"n_forests": self._folds.n_parsed}

    def restore(self, state: dict[str, Any]) -> bool | None:
        self.begin()
        self._objective = None
        if super().restore(state) is False:
            return False
        dual, optimizer = (
            None if state[name] is None else state[name].tobytes() for name in ("dual", "optimizer")
        )
        if not self.has_grammars and not (dual is state["weights"] is None):
            raise ValueError("weights without a grammar")
        if dual is not None:
            new = self._new_dual().objective
            self._dual = DualCoordinateDescent.from_bytes(dual, new.counts, new.expectations)
        if state["weights"] is not None:
            self._weights = self._gather().weights.with_weights(state["weights"])
            self._statistics = None
        if optimizer is not None:
            self._optimizer = LBFGS.from_bytes(optimizer)
        self._folds = Folds(self._data.n_trees, self.settings.folds, int(state["n_forests"]))
        return None
