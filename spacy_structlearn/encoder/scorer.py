"""Scores of the labels of sites from vectors of tokens: potentials of structured models.

A site is a row of token numbers: `(t)` in a chain, `(before, first, last, after)` for a span,
`(predicate, first, last)` for an argument, `(v, n1, p, n2)` for an attachment; -1 stands for no
token. The vectors of a site are projected, each slot by a matrix of its own, and summed; a layer
norm, a rectifier and an output layer follow. For spans this contains the differences of Kitaev &
Klein (2018). Several models of the same labels are combined as a log-linear pool (Genest & Zidek
1986), whose weights are fitted on held-out data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..learning.stored import Stored
from ..serialization import nested
from . import _spans
from .pool import LEAST, log_softmax

Vectors = NDArray[np.float32]
Sites = NDArray[np.integer]
Scores = NDArray[np.float32]

HIDDEN = 256
NO_VECTORS = np.empty((0, 0), dtype=np.float32)
EPSILON = 1e-5  # of the layer norm
_CELLS = 2**18  # about how many numbers of sites are computed together, which a cache holds
_LEAST_ROWS = 256  # sites that are computed together, so that reading a large matrix pays


class SiteScorer(Stored):
    """A network with one hidden layer over the vectors of a site.

    labels: of the scores.
    input: float32 (slots, width, hidden), the matrix of each slot.
    edges: float32 (slots, hidden), in place of the projected vector where there is no token.
    shift: float32 (hidden), added to the sum.
    gain, offset: float32 (hidden), of the layer norm.
    output: float32 (labels, hidden). bias: float32 (labels).
    weights: of the log-probabilities of the model that it is combined with, and of its own.
    storage: of the matrices in a file, "float32", or "int8" with a scale for each row, to which
        they are rounded.
    Raises ValueError unless the arrays fit together.
    """

    kind = "site_scorer"
    ARRAYS = ("input", "edges", "shift", "gain", "offset", "output", "bias")

    def __init__(
        self,
        labels: Sequence[str],
        input: NDArray[np.floating],
        edges: NDArray[np.floating],
        shift: NDArray[np.floating],
        gain: NDArray[np.floating],
        offset: NDArray[np.floating],
        output: NDArray[np.floating],
        bias: NDArray[np.floating],
        weights: Sequence[float] = (1.0, 1.0),
        storage: str = "float32",
    ):
        if storage not in ("int8", "float32"):
            raise ValueError("matrices of another type")
        if storage == "int8":
            input, output = (np.multiply(*_levels(np.asarray(x))) for x in (input, output))
        self.labels = tuple(labels)
        self.input, self.edges, self.shift, self.gain, self.offset, self.output, self.bias = (
            np.ascontiguousarray(array, dtype=np.float32)
            for array in (input, edges, shift, gain, offset, output, bias)
        )
        self.weights: tuple[float, ...] = tuple(map(float, weights))
        self.storage = storage
        slots, _, hidden = self.input.shape
        shapes = [(slots, hidden), *[(hidden,)] * 3, (len(self.labels), hidden)]
        found = [getattr(self, name).shape for name in self.ARRAYS[1:]]
        if found != [*shapes, (len(self.labels),)]:
            raise ValueError("arrays that do not fit together")
        if len(self.weights) != 2 or not np.isfinite(self.weights).all():
            raise ValueError("weights that are not two numbers")
        if not all(np.isfinite(array).all() for array in self.arrays().values()):
            raise ValueError("arrays that are not finite")

    @classmethod
    def untrained(
        cls, labels: Sequence[str], width: int, slots: int, *, hidden: int = HIDDEN
    ) -> SiteScorer:
        """Return a scorer with random weights; its scores are zero."""
        size, n = (slots * width) ** -0.5, len(labels)
        input = np.random.default_rng(0).normal(0.0, size, (slots, width, hidden))
        shift, gain, offset = np.zeros(hidden), np.ones(hidden), np.zeros(hidden)
        edges, output = np.zeros((slots, hidden)), np.zeros((n, hidden))
        return cls(labels, input, edges, shift, gain, offset, output, np.zeros(n))

    @property
    def width(self) -> int:
        """The size of the vectors."""
        return self.input.shape[1]

    @property
    def slots(self) -> int:
        """The number of tokens of a site."""
        return self.input.shape[0]

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """Return the parameters that are trained."""
        return {name: getattr(self, name) for name in self.ARRAYS}

    def scores(self, vectors: Vectors, sites: Sites) -> Scores:
        """Return the score of each label, float32 (n_sites, n_labels).

        vectors: float32 (n_tokens, width). sites: (n_sites, slots).
        """
        found = np.empty((len(sites), len(self.labels)), dtype=np.float32)
        for rows, scores in self._blocks(vectors, sites):
            found[rows] = scores
        return found

    def log_probabilities(
        self, vectors: Vectors, sites: Sites, labels: Sequence[str] | None = None
    ) -> Scores:
        """Return the log-probability of each label at each site by itself, at least `LEAST`.

        labels: in the order of the columns. None: those of the scorer.
        """
        labels = self.labels if labels is None else labels
        places = {label: number for number, label in enumerate(self.labels)}
        known = [label in places for label in labels]
        columns = [places[label] for label in labels if label in places]
        found = np.full((len(sites), len(labels)), LEAST, dtype=np.float32)
        for rows, scores in self._blocks(vectors, sites):
            found[rows, known] = log_softmax(scores, columns).clip(LEAST)
        return found

    def probabilities(
        self, vectors: Vectors, sites: Sites, labels: Sequence[str] | None = None
    ) -> Scores:
        """Return the exponents of `log_probabilities`."""
        return np.exp(self.log_probabilities(vectors, sites, labels))

    def projected(self, vectors: Vectors) -> list[NDArray[np.float32]]:
        """Project the vectors for each slot; the last row, which -1 means, is that of no token.

        The mean of each row is 0, so that the layer norm needs no means.
        """
        return [self._projected(vectors, slot) for slot in range(self.slots)]

    def _projected(self, vectors: Vectors, slot: int) -> NDArray[np.float32]:
        part = np.empty((len(vectors) + 1, self.input.shape[2]), dtype=np.float32)
        np.matmul(vectors, self.input[slot], out=part[:-1])
        part[-1] = self.edges[slot]
        if slot == 0:
            part += self.shift
        part -= part.mean(axis=1, keepdims=True)
        return part

    def of_parts(
        self, parts: Sequence[NDArray[np.float32]], sites: Sites
    ) -> Iterator[tuple[slice, Scores]]:
        """Yield the scores of the sites a few rows at a time, from rows of parts that are summed.

        parts: see `projected`; any other parts with these sums. sites: (n_sites, parts).
        """
        size = max(_CELLS // max(len(self.labels), self.input.shape[2]), _LEAST_ROWS)
        for begin in range(0, len(sites), size):
            rows = slice(begin, begin + size)
            own = np.ascontiguousarray(sites[rows], dtype=np.int64)
            hidden = _spans.hidden([*parts], own, self.gain, self.offset, EPSILON)
            scores = hidden @ self.output.T
            scores += self.bias
            yield rows, scores

    def begin_update(
        self, vectors: Vectors, sites: Sites
    ) -> tuple[Scores, Callable[[Scores], dict[str, NDArray[np.float32]]]]:
        """Return the scores, and a function from the gradient by scores to that by `arrays`."""
        sums = _sums(self.projected(vectors), sites)
        hidden, scale = self._normalized(sums)
        active = np.maximum(hidden, 0.0)

        def backprop(gradient: Scores) -> dict[str, NDArray[np.float32]]:
            by_hidden = (gradient @ self.output) * (hidden > 0)
            unit = sums * scale
            by_unit = by_hidden * self.gain
            by_sums = by_unit - by_unit.mean(axis=1, keepdims=True)
            by_sums -= unit * (by_unit * unit).mean(axis=1, keepdims=True)
            by_sums *= scale
            by_input, by_edges = np.zeros_like(self.input), np.zeros_like(self.edges)
            for slot in range(self.slots):
                by_token = np.zeros((len(vectors) + 1, self.input.shape[2]), dtype=np.float32)
                order = np.argsort(sites[:, slot], kind="stable")
                rows, starts = np.unique(sites[order, slot], return_index=True)
                by_token[rows] = np.add.reduceat(by_sums[order], starts, axis=0)
                by_input[slot] = vectors.T @ by_token[:-1]
                by_edges[slot] = by_token[-1]
            by_gain, by_offset = (by_hidden * unit).sum(axis=0), by_hidden.sum(axis=0)
            of_layer = by_input, by_edges, by_sums.sum(axis=0), by_gain, by_offset
            values = *of_layer, gradient.T @ active, gradient.sum(axis=0)
            return dict(zip(self.ARRAYS, values, strict=True))

        return active @ self.output.T + self.bias, backprop

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        fields = self.fields()
        for name in ("input", "output") if self.storage == "int8" else ():
            levels, fields[f"{name}_scale"] = _levels(fields[name])
            fields[name] = levels.astype(np.int8)
        return self.version, fields

    @classmethod
    def from_fields(cls, version: int, fields: dict[str, Any]) -> SiteScorer:
        for name in ("input", "output") if fields["storage"] == "int8" else ():
            fields[name] = fields[name] * fields.pop(f"{name}_scale")
        return super().from_fields(version, fields)

    def _blocks(self, vectors: Vectors, sites: Sites) -> Iterator[tuple[slice, Scores]]:
        """Yield the scores of some sites after the others, and their rows."""
        if not len(sites):
            return iter(())  # without vectors, perhaps
        parts, places = [], []
        for slot, column in enumerate(sites.T):
            # Only the vectors of the sites are projected.
            numbers = np.full(len(vectors) + 1, -1)
            numbers[column] = 0
            numbers[-1] = -1
            used = np.flatnonzero(numbers == 0)
            numbers[used] = np.arange(len(used))
            own = vectors if len(used) == len(vectors) else vectors[used]
            parts.append(self._projected(own, slot))
            places.append(numbers[column])
        return self.of_parts(parts, np.stack(places, axis=1))

    def _normalized(self, sums: NDArray) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the layer norm of rows whose means are 0, and the scale of each row."""
        variance = np.einsum("ij,ij->i", sums, sums) / sums.shape[1]
        scale = (1.0 / np.sqrt(variance + EPSILON))[:, None].astype(np.float32)
        return sums * scale * self.gain + self.offset, scale


class Potentials(Stored):
    """The site scorers of a component, by the name of what they score."""

    kind = "potentials"

    def __init__(self, scorers: Mapping[str, SiteScorer] | None = None):
        self.scorers = dict(scorers or {})

    def __getitem__(self, name: str) -> SiteScorer:
        return self.scorers[name]

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        found = {name: nested(scorer.to_bytes()) for name, scorer in self.scorers.items()}
        return self.version, {"scorers": found}

    @classmethod
    def from_fields(cls, version: int, fields: dict[str, Any]) -> Potentials:
        stored = fields.pop("scorers")
        return cls(
            {name: SiteScorer.from_bytes(own.tobytes()) for name, own in stored.items()}, **fields
        )


def _levels(matrix: NDArray[np.floating]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return whole numbers of at most 127 and a scale for each row of a matrix.

    A scale has 11 bits, so that the product of both has the same levels and scales again.
    """
    fraction, exponent = np.frexp(np.abs(matrix).max(axis=-1, keepdims=True) / 127)
    scale = np.ldexp(np.round(fraction * 2**11) / 2**11, exponent).astype(np.float32)
    levels = np.round(matrix / np.where(scale > 0, scale, 1.0))
    return levels.clip(-127, 127).astype(np.float32), scale


def _sums(parts: Sequence[NDArray[np.float32]], sites: Sites) -> NDArray[np.float32]:
    sums = parts[0][sites[:, 0]]
    for part, column in zip(parts[1:], sites.T[1:], strict=True):
        sums += part[column]
    return sums
