"""What a parser answers: the brackets of one sentence with their probabilities, and how these are
calibrated by a temperature (Guo et al. 2017). And what it may be told: how probable tags are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from .tree import Span, Tree

# What is known of the tag of a word: the tag, "" for nothing, or the probabilities of some tags.
GivenTag = str | Mapping[str, float]
# Tags that are no more probable are not raised at all; the tagger writes down no others. A tenth of
# it, with half as much weight again, does as well on the tuning documents of EWT.
TAG_FLOOR = 0.01


@dataclass
class Parse:
    """One sentence parsed.

    labels, starts, ends: the brackets in pre-order (by start, -end, depth), the root left out; a
    unary chain is a repeated span, topmost first. probabilities: float32, the posterior of each,
    calibrated by the model's temperature. tags: of the words. log_probability: log P(tree |
    sentence), and log_likelihood: log P(sentence), by the (first) model; both over what the parser
    has not pruned, so the second is a lower bound. Of a conditional grammar, whose weights are no
    probabilities, the second is log Z, the sum of the scores of all trees: it says nothing of how
    likely the sentence is. failed: whether the tree is only a makeshift, without a probability.
    root: the label above it.

    With span scores probabilities and log_probability are of the model that has them.
    """

    labels: list[str]
    starts: list[int]
    ends: list[int]
    probabilities: NDArray[np.float32]
    tags: list[str]
    log_probability: float = -np.inf
    log_likelihood: float = -np.inf
    failed: bool = False
    root: str = "TOP"
    levels: int = field(default=0, repr=False)  # of the cascade that it went through

    @property
    def spans(self) -> list[Span]:
        """(label, start, end) of each bracket in pre-order."""
        return list(zip(self.labels, self.starts, self.ends, strict=True))

    def tree(self, words: Sequence[str]) -> Tree:
        """The tree over these words, with the root above it."""
        spans = [(self.root, 0, len(words)), *self.spans]
        return Tree.from_spans(list(words), self.tags, spans)


def tag_shares(given: Iterable[GivenTag], index: Mapping[str, int]) -> NDArray[np.float64]:
    """What share of the weight of a prior the score of each word with each tag is raised by.

    1 + log(max(p, f)) / log(1 / f) for the probability p of the tag and f = `TAG_FLOOR`: 1 for a
    certain tag, 0 for one that is no more probable than f. index: the number of each tag that the
    model knows; others are ignored. RETURNS: float64 (words, tags).
    """
    places, probabilities = [], []
    row = -1
    for row, own in enumerate(given):
        for tag, probability in ((own, 1.0),) if isinstance(own, str) else own.items():
            if tag in index:
                places.append((row, index[tag]))
                probabilities.append(probability)
    shares = np.zeros((row + 1, len(index)))
    if places:
        credit = np.log(np.fmax(probabilities, TAG_FLOOR))
        shares[tuple(np.transpose(places))] = 1.0 + credit / np.log(1.0 / TAG_FLOOR)
    return shares


def calibrate(probabilities: NDArray[np.floating], temperature: float) -> NDArray[np.float32]:
    """p**(1/T) / (p**(1/T) + (1 - p)**(1/T)) for each probability p and temperature T."""
    p = np.clip(np.asarray(probabilities, dtype=np.float64), 0.0, 1.0)
    if temperature == 1.0:
        return p.astype(np.float32)
    with np.errstate(divide="ignore"):
        odds = (np.log(p) - np.log1p(-p)) / temperature
    return (0.5 * (1.0 + np.tanh(odds / 2.0))).astype(np.float32)


def fit_temperature(probabilities: NDArray[np.floating], right: NDArray[np.bool_]) -> float:
    """The temperature of the highest likelihood (Guo et al. 2017) for these brackets.

    probabilities: uncalibrated, right: whether the bracket is in the gold tree; both (n). Raises
    StructlearnError SL424 unless there are right brackets as well as wrong ones.
    """
    from scipy.optimize import minimize_scalar

    right = np.asarray(right, dtype=bool)
    if not 0 < right.sum() < len(right):
        raise StructlearnError("SL424", right=int(right.sum()), number=len(right))
    # Posteriors that float32 rounds to 0 or 1 are as good as their neighbours.
    p = np.clip(np.asarray(probabilities, dtype=np.float64), 1e-6, 1 - 1e-6)
    odds = np.where(right, 1.0, -1.0) * (np.log(p) - np.log1p(-p))

    def loss(log_temperature: float) -> float:
        return float(np.logaddexp(0.0, -odds * np.exp(-log_temperature)).sum())

    return float(np.exp(minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded").x))
