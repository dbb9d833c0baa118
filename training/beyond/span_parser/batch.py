"""Train span features on all forests at once (OWL-QN) or in small batches (AdaGrad)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spacy_structlearn.grammar.chart.hypergraph import Floats, Hypergraphs, Mask
from spacy_structlearn.grammar.spans import _features as _span_features
from spacy_structlearn.grammar.spans.features import (
    LinearLearner,
    LinearScorer,
    Sentences,
    SpanWeights,
)
from spacy_structlearn.grammar.spans.settings import SpanFeaturesSettings

# As in `SpanGrammarTrainer`.
LEAST_RATE = 0.02
NEGLIGIBLE = 1e-5


class SupportedScorer(LinearLearner):
    """A scorer whose other weights stay zero. support: bool (buckets)."""

    def __init__(
        self, weights: SpanWeights, features: SpanFeaturesSettings, support: NDArray[np.bool_]
    ):
        super().__init__(weights, features)
        self._support = support

    def places(self, sentences: Sentences, graphs: Hypergraphs) -> NDArray[np.int32]:
        places = super().places(sentences, graphs)
        places[~self._support[places]] = -1
        return places


class LinearObjective:
    """The mean loss of sentences, - log P(tree | words) in nats, as a function of the weights.

    graphs: forests of the sentences. gold: the edges of gold trees, bool (E). weights: define
    templates, words and buckets. base: factor of the grammar's scores. Parameters are the weights
    of features of gold items (supported features), in ascending order of place; all other weights
    are zero. The penalty is not included.
    """

    def __init__(
        self,
        graphs: Hypergraphs,
        sentences: Sentences,
        gold: Mask,
        weights: SpanWeights,
        base: float = 1.0,
    ):
        self.graphs, self.sentences, self.weights, self.base = graphs, sentences, weights, base
        self.gold = np.asarray(gold, dtype=np.bool_)
        self._targets = graphs.item_posteriors(self.gold.astype(np.float64))
        places = LinearScorer(weights).places(sentences, graphs)
        self.places = np.unique(places[self._targets > 0])
        self.places = self.places[self.places >= 0]
        column = np.full(weights.buckets + 1, -1, dtype=np.int32)
        column[self.places] = np.arange(len(self.places), dtype=np.int32)
        # The last column is for missing features of an item.
        self._columns = column[places]

    @property
    def n_parameters(self) -> int:
        """The number of supported features."""
        return len(self.places)

    @property
    def support(self) -> NDArray[np.bool_]:
        """The places of parameters, bool (buckets)."""
        found = np.zeros(self.weights.buckets, dtype=np.bool_)
        found[self.places] = True
        return found

    def value_and_grad(self, parameters: Floats) -> tuple[float, Floats]:
        """Return the mean loss and its gradient, float64 (n_parameters)."""
        scores = self.graphs.edge_scores(_span_features.sums(self._columns, parameters), self.base)
        log_z, posteriors = self.graphs.inside_outside(scores)
        n = max(len(self.graphs), 1)
        difference = self.graphs.item_posteriors(posteriors) - self._targets
        gradient = _span_features.scattered(self._columns, difference / n, self.n_parameters)
        return float(log_z.sum() - scores[self.gold].sum()) / n, gradient

    def parameters(self, weights: SpanWeights) -> Floats:
        """Extract the parameters from weights."""
        return weights.dense()[self.places].astype(np.float64)

    def weights_of(self, parameters: Floats) -> SpanWeights:
        """Return weights with these parameters."""
        full = np.zeros(self.weights.buckets, dtype=np.float32)
        full[self.places] = parameters
        return self.weights.with_weights(full)


class Progress(NamedTuple):
    """CPU seconds so far, the mean loss with the penalty, and the number of nonzero weights."""

    seconds: float
    value: float
    n_weights: int


def by_adagrad(
    objective: LinearObjective,
    features: SpanFeaturesSettings,
    passes: int,
    *,
    batch_size: int = 32,
    seed: int = 0,
) -> Iterator[Progress]:
    """Minimise the mean loss plus the penalty of `features` from zero, and report each pass.

    A pass visits batches of sentences in random order. The learning rate is constant for half of
    the passes, and then decreases. Times do not include the reports.
    """
    graphs, sentences = objective.graphs, objective.sentences
    zero = objective.weights.with_weights(np.zeros(objective.weights.buckets))
    scorer = SupportedScorer(zero, features, objective.support)
    rng = np.random.default_rng(seed)
    n = len(graphs)
    n_steps = passes * -(-n // batch_size)
    spent, step = 0.0, 0
    for _ in range(passes):
        start = time.process_time()
        order = rng.permutation(n)
        for first in range(0, n, batch_size):
            chosen = order[first : first + batch_size]
            batch = graphs.select(chosen)
            edges = [
                objective.gold[graphs.edge_offsets[x] : graphs.edge_offsets[x + 1]] for x in chosen
            ]
            targets = batch.item_posteriors(np.concatenate(edges).astype(np.float64))
            scores, backprop = scorer.begin_update([sentences[x] for x in chosen], batch)
            _, posteriors = batch.inside_outside(batch.edge_scores(scores, objective.base))
            gradient = batch.item_posteriors(posteriors) - targets
            gradient[np.abs(gradient) < NEGLIGIBLE] = 0.0
            backprop(gradient / len(chosen))
            step += 1
            scorer.finish_update(min(1.0, max(LEAST_RATE, 2.0 * (1.0 - step / n_steps))))
        spent += time.process_time() - start
        parameters = objective.parameters(scorer.weights)
        value = objective.value_and_grad(parameters)[0]
        penalty = features.l1_per_sentence * float(np.abs(parameters).sum())
        yield Progress(spent, value + penalty, int(np.count_nonzero(parameters)))
