"""Vectors of the words of sentences by a pretrained encoder, which onnxruntime runs on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import cumulative
from ..errors import StructlearnError
from ..learning.stored import Stored
from .graph import SCALED, onnx, shapes
from .pieces import MAX_PIECES, N_CASES, WordPieces

BATCH_PIECES = 250
LEAST = MAX_PIECES + 2  # positions, for a word


class Encoder(Stored):
    """A pretrained encoder.

    pieces: the vocabulary. special: the pieces before, after and for unknown words.
    weights: float or int8, with the names and shapes of `graph.shapes`.
    layers, heads: their numbers. epsilon: of the layer norms.
    Raises ValueError unless the weights fit together.
    """

    kind = "encoder"

    def __init__(
        self,
        pieces: Sequence[str] = (),
        special: Sequence[str] = (),
        weights: dict[str, NDArray[Any]] | None = None,
        layers: int = 0,
        heads: int = 1,
        epsilon: float = 1e-12,
    ):
        self.pieces, self.special, self.weights = list(pieces), list(special), dict(weights or {})
        self.layers, self.heads, self.epsilon = layers, heads, epsilon
        self._sessions: dict[int, Any] = {}  # by the number of threads
        self.width = 0
        if not self.is_empty:
            self._word_pieces = WordPieces(self.pieces, *self.special)
            self._positions, self.width = self.weights["positions"].shape
            self._check()

    @property
    def is_empty(self) -> bool:
        """Whether there is no encoder."""
        return not self.weights

    def _check(self) -> None:
        weights, positions, width = self.weights, self._positions, self.width
        inner = len(weights.get("0.inner.bias", ()))
        wanted = shapes(len(self.pieces), N_CASES, width, self.layers, positions, inner)
        if "relative" in weights:
            wanted["relative"] = self.heads, 2 * positions - 1
        for name, array in weights.items():
            if array.dtype == np.int8 and name.split(".")[-1] in SCALED and name in wanted:
                wanted[f"{name}.scale"] = wanted[name][:1] if name == "pieces" else wanted[name][1:]
        found = {name: array.shape for name, array in weights.items()}
        fits = self.layers >= 1 and self.heads >= 1 and width % (2 * self.heads) == 0
        if found != wanted or not fits or positions < LEAST:
            raise ValueError("weights that do not fit together")
        if not all(np.isfinite(array).all() for array in weights.values()):
            raise ValueError("weights that are not finite")

    def describe(self) -> str:
        """Return the sizes in words."""
        sizes = f"{self.layers} layers of {self.width}, {len(self.pieces):,} word pieces"
        return f"encoder of {sizes}{', int8' * ('pieces.scale' in self.weights)}"

    def vectors(
        self,
        sentences: Sequence[Sequence[str]],
        *,
        batch_pieces: int = BATCH_PIECES,
        threads: int = 1,
    ) -> list[NDArray[np.float32]]:
        """Return the vectors of the words of sentences, float32 (n_words, width) each.

        The first half of a vector is of the last piece of a word, the second of its first piece:
        they look back and forward, as those of Kitaev & Klein (2018). Sentences with more pieces
        than the encoder reads are read in parts.
        batch_pieces: number of pieces that are read at once, in sentences of similar length.
        Raises StructlearnError if onnxruntime is not installed.
        """
        found = [np.zeros((len(words), self.width), dtype=np.float32) for words in sentences]
        parts: list[tuple[int, ...]] = []
        for number, words in enumerate(sentences):
            sizes = [len(self._word_pieces.word(word)[0]) for word in words]
            parts += [(*part, number) for part in _parts(sizes, self._positions - 2)]
        batches: list[list[tuple[int, ...]]] = [[]]
        for part in sorted(parts):
            # With the two pieces around each sentence.
            if (part[0] + 2) * (len(batches[-1]) + 1) > batch_pieces:
                batches.append([])
            batches[-1].append(part)
        for batch in filter(None, batches):
            rows = self._run(
                [sentences[number][begin:end] for _, begin, end, number in batch], threads
            )
            for _, begin, end, number in batch:
                found[number][begin:end], rows = rows[: end - begin], rows[end - begin :]
        return found

    def _run(self, sentences: Sequence[Sequence[str]], threads: int) -> NDArray[np.float32]:
        batch = self._word_pieces.batch(sentences)
        places = np.arange(batch.pieces.shape[1])
        given = {"pieces": batch.pieces, "cases": batch.cases, "places": places}
        given["lengths"] = batch.lengths.astype(np.int32)
        if "relative" in self.weights:
            given["distances"] = places[:, None] - places + self._positions - 1
        both = np.stack([batch.lasts, batch.firsts])
        given["rows"], rows = np.unique(both, return_inverse=True)
        (found,) = self._session(threads).run(None, given)
        (lasts, firsts), half = rows.reshape(both.shape), self.width // 2
        return np.concatenate([found[lasts, :half], found[firsts, half:]], axis=1)

    def _session(self, threads: int) -> Any:
        if threads not in self._sessions:
            try:
                import onnxruntime
            except ImportError:
                raise StructlearnError("SL193") from None
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
            options.log_severity_level = 3  # errors
            self._sessions[threads] = onnxruntime.InferenceSession(
                onnx(self.weights, self.layers, self.heads, self.epsilon),
                options,
                providers=["CPUExecutionProvider"],
                disabled_optimizers=["SkipLayerNormFusion"],  # slower than its parts
            )
        return self._sessions[threads]


def _parts(sizes: Sequence[int], most: int) -> Iterator[tuple[int, int, int]]:
    """Divide a sentence into parts of up to `most` pieces. sizes: the pieces of each word.

    Yields the number of pieces, the first word and the end of each part.
    """
    ends, begin = cumulative(np.array(sizes, dtype=np.int64)), 0
    while begin < len(sizes):
        end = int(np.searchsorted(ends, ends[begin] + most, "right")) - 1
        yield int(ends[end] - ends[begin]), begin, end
        begin = end
