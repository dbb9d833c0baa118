"""Training of site scorers on vectors that do not change.

The loss is the cross-entropy of the labels, for spans the margin of the best wrong tree (`spans`),
plus strength / 2 times the squared distance from the parameters that a scorer learns on from. Adam
(Kingma & Ba 2015) takes a step for each batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from thinc.api import Adam

from ..arrays import cumulative
from .pool import log_softmax
from .scorer import NO_VECTORS, SiteScorer
from .spans import JOIN, margin, n_spans

PASSES = 5  # through the data; four times as many from scratch, and at least
LEAST_STEPS = 100  # then
RATE = 5e-4  # twice as high from scratch
STRENGTH = 0.01  # of the prior, for each batch
SITES = 1000  # of a batch; that of spans may have more
CROSS_ENTROPY = 0.2  # its weight when it is added to the margin of trees


class SiteExamples(NamedTuple):
    """Sites of one text and their gold labels.

    sites: int (n, slots). labels: (n). vectors: float32 (n_tokens, width).
    lengths: of the sentences whose spans these are, in the order of `spans`; none for other sites.
    """

    sites: NDArray[np.int64]
    labels: Sequence[str]
    lengths: Sequence[int] = ()
    vectors: NDArray[np.float32] = NO_VECTORS

    def parts(self) -> Iterator[SiteExamples]:
        """Divide the sites into parts of about `SITES`, each with its own tokens."""
        sizes = [n_spans(n) for n in self.lengths] or [1] * len(self.labels)
        ends, begin = cumulative(np.array(sizes)), 0
        while begin < len(sizes):
            end = max(begin + 1, int(np.searchsorted(ends, ends[begin] + SITES, "right")) - 1)
            rows = slice(*ends[[begin, end]].tolist())
            used, places = np.unique(np.append(self.sites[rows], -1), return_inverse=True)
            sites = places[:-1].reshape(-1, self.sites.shape[1]) - 1  # -1 is the least
            lengths = self.lengths[begin:end]
            yield SiteExamples(sites, self.labels[rows], lengths, self.vectors[used[1:]])
            begin = end


class ScorerTraining:
    """Training of one scorer. scorer: learns on. None: a new one is trained."""

    def __init__(self, scorer: SiteScorer | None = None):
        self.scorer = self._origin = scorer and scorer.replaced(storage="float32")
        self.strength = STRENGTH
        self._draw = np.random.default_rng(0)
        self._adam = Adam(2 * RATE if scorer is None else RATE, grad_clip=0.0)
        self._parts: list[SiteExamples] = []

    @property
    def passes(self) -> int:
        """The number of passes with which it is trained."""
        n = sum(len(part.labels) for part in self._parts)
        return PASSES if self._origin else max(4 * PASSES, LEAST_STEPS * SITES // max(n, SITES))

    def add(self, examples: Sequence[SiteExamples]) -> None:
        """Add examples, and their labels to those of the scorer."""
        self._parts += [part for own in examples for part in own.parts()]
        found = {label for own in examples for label in own.labels}
        if self.scorer is not None:
            # Chains that are not known have the label of their top.
            tops = {_top(label) for label in found.difference(self.scorer.labels)}
            new = sorted(tops.difference(self.scorer.labels))
            self.scorer = _with_labels(self.scorer, new)
            self._origin = self._origin and _with_labels(self._origin, new)
        elif found:
            # No phrase, which sorts first, is the first label of spans.
            width, slots = examples[0].vectors.shape[1], examples[0].sites.shape[1]
            self.scorer = SiteScorer.untrained(sorted(found), width, slots)
            self.scorer.weights = 0.5, 0.5  # both models learn the same data

    def step(self, rate: float = 1.0) -> None:
        """Pass through all examples. rate: the learning rate, over the usual one."""
        if self.scorer is None or not self._parts:
            return
        arrays = {name: array.copy() for name, array in self.scorer.arrays().items()}
        self.scorer = self.scorer.replaced(**arrays)
        order = self._draw.permutation(len(self._parts))
        sizes = np.array([len(self._parts[number].labels) for number in order])
        for batch in np.split(order, np.flatnonzero(np.diff(sizes.cumsum() // SITES)) + 1):
            self._descend(self.scorer, [self._parts[number] for number in batch], rate)

    def _descend(self, scorer: SiteScorer, batch: Sequence[SiteExamples], rate: float) -> None:
        gradient = _gradient(scorer, batch)
        for name, array in scorer.arrays().items():
            if self._origin is not None:
                gradient[name] += self.strength * (array - getattr(self._origin, name))
            # Means begin anew when there are new labels.
            key = len(scorer.labels), name
            array[...] = self._adam(key, array, gradient[name], lr_scale=rate)[0]


def _gradient(scorer: SiteScorer, batch: Sequence[SiteExamples]) -> dict[str, NDArray[np.float32]]:
    """Return the gradient of the mean loss by the arrays of a scorer."""
    numbers = {label: number for number, label in enumerate(scorer.labels)}
    given = [label for part in batch for label in part.labels]
    gold = np.array([numbers[label if label in numbers else _top(label)] for label in given])
    firsts = cumulative(np.array([len(part.vectors) for part in batch]))
    pairs = zip(batch, firsts, strict=False)
    sites = np.concatenate([np.where(p.sites < 0, -1, p.sites + first) for p, first in pairs])
    scores, backprop = scorer.begin_update(np.concatenate([p.vectors for p in batch]), sites)
    gradient = np.exp(log_softmax(scores))
    gradient[np.arange(len(gold)), gold] -= 1.0
    lengths = [length for part in batch for length in part.lengths]
    if lengths:
        gradient = CROSS_ENTROPY * gradient + margin(scores, gold, lengths)[1]
    return backprop((gradient / (sum(lengths) or len(gold))).astype(np.float32))


def _top(label: str) -> str:
    return label.partition(JOIN)[0]


def _with_labels(scorer: SiteScorer, labels: Sequence[str]) -> SiteScorer:
    """Add labels, which are as improbable as the least frequent ones."""
    output = np.pad(scorer.output, ((0, len(labels)), (0, 0)))
    bias = np.pad(scorer.bias, (0, len(labels)), constant_values=scorer.bias.min())
    return scorer.replaced(labels=[*scorer.labels, *labels], output=output, bias=bias)
