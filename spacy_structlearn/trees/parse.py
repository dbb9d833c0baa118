"""The brackets that parsers return, with calibrated probabilities (Guo et al. 2017), and the tags
with probabilities that they read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from .tree import Span, Tree

# The tag of a word, "" if it is unknown, or the probabilities of some tags.
GivenTag = str | Mapping[str, float]
# Tags with a lower probability have no prior weight; the tagger omits them. A tenth of it, with 1.5
# times the weight, works as well on the tuning documents of EWT.
TAG_FLOOR = 0.01
# Pruning leaves many brackets without an alternative. These would count too much.
CERTAIN = 1e-3


@dataclass
class Parse:
    """The parse of a sentence.

    labels, starts, ends: the brackets in pre-order (by start, -end, depth), without the root. A
        unary chain is a repeated span, topmost first.
    probabilities: float32, the calibrated posterior of each bracket.
    tags: the tags of the words.
    log_probability: log P(tree | sentence).
    log_likelihood: log P(sentence), a lower bound because of pruning. For a conditional grammar it
        is log Z, which does not measure the likelihood of the sentence.
    failed: whether this is a fallback tree without a probability.
    unmet: whether constraints were given that no tree meets, and so they were ignored.
    root: the label above the tree.
    probable: several probable trees, if they were asked for.

    Both logarithms are those of the (first) model. With span scores, probabilities and
    log_probability are those of the rescoring model.
    """

    labels: list[str]
    starts: list[int]
    ends: list[int]
    probabilities: NDArray[np.float32]
    tags: list[str]
    log_probability: float = -np.inf
    log_likelihood: float = -np.inf
    failed: bool = False
    unmet: bool = False
    root: str = "TOP"
    levels: int = field(default=0, repr=False)  # of the cascade
    probable: list[Parse] = field(default_factory=list, repr=False)

    @property
    def spans(self) -> list[Span]:
        """The brackets (label, start, end) in pre-order."""
        return list(zip(self.labels, self.starts, self.ends, strict=True))

    def tree(self, words: Sequence[str]) -> Tree:
        """Return the tree over these words, with the root."""
        spans = [(self.root, 0, len(words)), *self.spans]
        return Tree.from_spans(list(words), self.tags, spans)


def best_trees(
    parser: Any, sentences: Iterable[Sequence[str]], tags: Iterable[Sequence[GivenTag]] | None
) -> list[Tree]:
    """Return the trees of the best parses. Arguments are those of `parser.parse`."""
    words = [list(sentence) for sentence in sentences]
    return [parse.tree(own) for parse, own in zip(parser.parse(words, tags), words, strict=True)]


def tag_shares(given: Iterable[GivenTag], index: Mapping[str, int]) -> NDArray[np.float64]:
    """Return the share of the prior weight for each word and tag, float64 (words, tags).

    It is 1 + log(max(p, f)) / log(1 / f) for the probability p of the tag and f = `TAG_FLOOR`: 1
    for a certain tag, 0 if p is at most f. index: the ids of known tags; others are ignored.
    """
    rows = [{own: 1.0} if isinstance(own, str) else own for own in given]
    shares = np.zeros((len(rows), len(index)))
    found = [
        (row, index[tag], own[tag]) for row, own in enumerate(rows) for tag in own if tag in index
    ]
    if found:
        row, tag, probability = zip(*found, strict=True)
        credit = np.log(np.fmax(probability, TAG_FLOOR))
        shares[row, tag] = 1.0 + credit / np.log(1.0 / TAG_FLOOR)
    return shares


def calibrate(probabilities: NDArray[np.floating], temperature: float) -> NDArray[np.float32]:
    """Return p**(1/T) / (p**(1/T) + (1 - p)**(1/T)) for each probability p and temperature T.

    With a temperature other than 1, p is at least `CERTAIN` and at most 1 - `CERTAIN`.
    """
    p = np.clip(np.asarray(probabilities, dtype=np.float64), 0.0, 1.0)
    if temperature == 1.0:
        return p.astype(np.float32)
    return (0.5 * (1.0 + np.tanh(_log_odds(p) / temperature / 2.0))).astype(np.float32)


def _log_odds(probabilities: NDArray[np.floating]) -> NDArray[np.float64]:
    p = np.clip(np.asarray(probabilities, dtype=np.float64), CERTAIN, 1 - CERTAIN)
    return np.log(p) - np.log1p(-p)


def fit_temperature(probabilities: NDArray[np.floating], right: NDArray[np.bool_]) -> float:
    """Return the temperature with the highest likelihood (Guo et al. 2017) for these brackets.

    probabilities: (n), uncalibrated. right: (n), whether the bracket is in the gold tree. Raises
    StructlearnError unless there are both right and wrong brackets.
    """
    from scipy.optimize import minimize_scalar

    right = np.asarray(right, dtype=bool)
    if not 0 < right.sum() < len(right):
        raise StructlearnError("SL424", right=int(right.sum()), number=len(right))
    odds = np.where(right, 1.0, -1.0) * _log_odds(probabilities)

    def loss(log_temperature: float) -> float:
        return float(np.logaddexp(0.0, -odds * np.exp(-log_temperature)).sum())

    return float(np.exp(minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded").x))
