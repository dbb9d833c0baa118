"""The hidden Markov model of second order of Smith, Vail & Lafferty (2007, section 5.1): counting.

    q0(x, tau, y) = prod_i t(y_i | y_{i-2}, y_{i-1}) e(x_i | y_i) g(tau_i | y_i)
                    * t($ | y_{n-1}, y_n),        y_0 = y_{-1} = ^

with words x, tags tau and labels y; t is the relative frequency, e and g have one added to each
count, over closed vocabularies with one symbol for all that is out of them. That symbol is learned
by the paper's rule: read in order, the first token of every type is taken for an unknown one, so
that a word seen once leaves the vocabulary. Trigrams never seen have no probability, unless
`smoothing` is added to the counts of those that the encoding allows.

For decoding q0 is a chain of second order: log t are its transitions, and log e and log g are the
weights of two predicates, the word and the tag, with weights for unknown ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from ..learning.training import Trainer, array_digest
from ..serialization import nested
from . import encoding as encodings
from .data import SequenceData, concatenate
from .features import UNKNOWN, Templates, check_offsets, find_symbols
from .model import ChainModel, check_label_ids
from .states import START


@dataclass(frozen=True, eq=False)
class SecondOrderHMM:
    """The parameters of q0, with L labels; the edge symbols ^ and $ both have the place L.

    labels: the label strings.
    t: float64 (L + 1, L + 1, L + 1), t[a, b, c] = t(c | a, b); zeros where (a, b) was never seen.
    e: float64 (n_words + 1, L), e[x, y] = e(x | y); the last row is that of unknown words.
    g: float64 (n_tags + 1, L), likewise for tags.
    words, tags: uint64 (n_words), (n_tags), the ids of known symbols, ascending.
    """

    labels: tuple[str, ...]
    t: NDArray[np.float64]
    e: NDArray[np.float64]
    g: NDArray[np.float64]
    words: NDArray[np.uint64]
    tags: NDArray[np.uint64]

    @classmethod
    def fit(
        cls,
        columns: NDArray[np.uint64],
        offsets: NDArray[np.int64],
        label_ids: NDArray[np.integer],
        labels: Sequence[str],
        *,
        smoothing: float = 0.0,
        encoding: str | None = None,
    ) -> SecondOrderHMM:
        """Count labelled sentences.

        columns: uint64 (n_tokens, 2), symbol ids of words and tags; offsets: int64
        (n_sentences + 1); label_ids: integers (n_tokens), places in `labels`.
        smoothing: added to the count of every trigram that the encoding allows (if it is None, of
        every trigram) and of those in the data. With 0 there may be sentences without any path.
        Raises StructlearnError if the arrays do not fit together.
        """
        columns = _check_columns(columns)
        offsets = check_offsets(offsets, len(columns))
        label_ids = check_label_ids(label_ids, len(columns), len(labels))
        trigrams = count_trigrams(offsets, label_ids, len(labels)).astype(np.float64)
        trigrams += smoothing * legal_trigrams(trigrams > 0, labels, encoding)
        words, word_ids = close_vocabulary(columns[:, 0])
        tags, tag_ids = close_vocabulary(columns[:, 1])
        return cls(
            labels=tuple(labels),
            t=normalise(trigrams),
            e=_add_one(word_ids, label_ids, len(words) + 1, len(labels)),
            g=_add_one(tag_ids, label_ids, len(tags) + 1, len(labels)),
            words=words,
            tags=tags,
        )

    @property
    def n_parameters(self) -> int:
        """Numbers in e and g, and trigrams that were seen: what the paper counts as parameters."""
        return int(self.e.size + self.g.size + np.count_nonzero(self.t))

    def to_chain_model(
        self, attributes: tuple[str, str] = ("ORTH", "TAG"), encoding: str = "IOB2"
    ) -> ChainModel:
        """The same distribution as a chain of second order, whose states are the pairs seen.

        attributes: names of the columns of words and tags.
        """
        states, initial, transitions, final = pair_chain(self.t)
        keys, weights = self._predicates(attributes)
        return ChainModel(
            self.labels,
            Templates(_templates(attributes)),
            keys,
            weights,
            transitions,
            states=states,
            unknown=np.log([self.e[-1], self.g[-1]]),
            initial=initial,
            final=final,
            encoding=encoding,
        )

    def _predicates(
        self, attributes: tuple[str, str]
    ) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
        """Keys of the known words and tags, ascending, and their rows of log e and log g."""
        keys = [
            Templates((text,)).keys(symbols[:, None], np.array([0, len(symbols)]))[:, 0]
            for text, symbols in zip(_templates(attributes), (self.words, self.tags), strict=True)
        ]
        order = np.argsort(np.concatenate(keys))
        weights = np.log(np.concatenate([self.e[:-1], self.g[:-1]]))
        return np.concatenate(keys)[order], weights[order]

    def log_probabilities(
        self,
        columns: NDArray[np.uint64],
        offsets: NDArray[np.int64],
        label_ids: NDArray[np.integer],
    ) -> NDArray[np.float64]:
        """log q0(x, tau, y) of each sentence, float64 (n_sentences); an empty one has log t($|^^).

        Arguments and errors: as in `fit`.
        """
        columns = _check_columns(columns)
        offsets = check_offsets(offsets, len(columns))
        label_ids = check_label_ids(label_ids, len(columns), len(self.labels))
        with np.errstate(divide="ignore"):
            log_t = np.log(self.t)
        stream, starts = _with_edges(offsets, label_ids, len(self.labels))
        # The first two symbols of a sentence are given.
        steps = np.zeros(len(stream))
        steps[2:] = log_t[stream[:-2], stream[1:-1], stream[2:]]
        steps[starts] = steps[starts + 1] = 0.0
        emissions = np.log(self.e[find_symbols(columns[:, 0], self.words), label_ids])
        emissions += np.log(self.g[find_symbols(columns[:, 1], self.tags), label_ids])
        steps[_label_places(offsets)] += emissions
        return np.add.reduceat(steps, starts) if len(starts) else np.zeros(0)


def pair_chain(
    t: NDArray[np.float64],
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The chain of second order, in logarithms, that is t, float64 (L + 1,) * 3.

    Returns the states, int32 (n_states, 2), the pairs after which something may come, with START
    for ^, and as `ChainModel` has them the initial scores, transitions and final scores.
    """
    with np.errstate(divide="ignore"):
        log_t = np.log(t)
    edge = len(t) - 1
    pairs = np.argwhere(t.any(axis=2))
    pairs = pairs[pairs[:, 1] != edge]
    # The start, -1 as a label, is the last place of t and the first of the states.
    pairs = pairs[np.argsort((pairs[:, 0] + 1) % (edge + 1), kind="stable")]
    before, label = pairs.T
    agree = label[:, None] == before
    return (
        np.column_stack([np.where(before == edge, START, before), label]).astype(np.int32),
        np.where(before == edge, log_t[edge, edge, label], -np.inf),
        np.where(agree, log_t[before, label][:, label], -np.inf),
        log_t[before, label, edge],
    )


def close_vocabulary(
    symbols: NDArray[np.uint64],
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The paper's rule for unknown symbols: the first token of every type is one.

    symbols: uint64 (n_tokens), in the order of training. Returns the symbols seen twice or more,
    uint64 (n_known), ascending, and the place of each token in them, int64 (n_tokens), n_known for
    unknown.
    """
    types, first, counts = np.unique(symbols, return_index=True, return_counts=True)
    known = types[counts > 1]
    ids = find_symbols(symbols, known)
    ids[first] = len(known)
    return known, ids


def close_columns(
    columns: NDArray[np.uint64],
) -> tuple[NDArray[np.uint64], list[NDArray[np.uint64]]]:
    """Training data after the rule of `close_vocabulary`, applied to each column by itself.

    columns: uint64 (n_tokens, n_columns), in the order of training. Returns them with UNKNOWN in
    place of unknown symbols, and the known symbols of each column, as `ChainModel.vocabularies`
    wants them. What `ChainModel.derive` has closed by such vocabularies comes out the same as the
    text that it closed.
    """
    closed = np.empty(columns.shape, dtype=np.uint64)
    vocabularies = []
    for place, symbols in enumerate(columns.T):
        known, ids = close_vocabulary(symbols)
        # A symbol that was unknown before is no known one, however often it is there.
        table = np.append(known, np.uint64(UNKNOWN))
        closed[:, place] = table[ids]
        vocabularies.append(known[known != UNKNOWN])
    return closed, vocabularies


def count_trigrams(
    offsets: NDArray[np.int64], label_ids: NDArray[np.int32], n_labels: int
) -> NDArray[np.int64]:
    """How often each label comes after two others, int64 (n_labels + 1,) * 3.

    The last place stands for ^ in the first two axes and for $ in the third. Empty sentences do
    not count.
    """
    filled = np.concatenate([[0], offsets[1:][np.diff(offsets) > 0]])
    stream, _ = _with_edges(filled, label_ids, n_labels)
    size = n_labels + 1
    ends = np.ones(len(stream), dtype=np.bool_)
    ends[_label_places(filled)] = False
    trigrams = (stream[:-2] * size + stream[1:-1]) * size + stream[2:]
    # Those that end in one of the two ^ are no trigrams of the model.
    counted = ~ends[2:] | ~ends[1:-1]
    counts = np.bincount(trigrams[counted], minlength=size**3)
    return counts.reshape(size, size, size)


def legal_trigrams(
    seen: NDArray[np.bool_], labels: Sequence[str], encoding: str | None
) -> NDArray[np.bool_]:
    """bool (n_labels + 1,) * 3: the trigrams seen, and those of pairs that the encoding allows.

    Axes: as in `count_trigrams`.
    """
    n = len(labels)
    pairs = np.ones((n + 1, n + 1), dtype=np.bool_)
    if encodings.is_of(labels, encoding):
        pairs[:n, :n] = encodings.successions(labels, encoding)
        pairs[:n, n] = encodings.endings(labels, encoding)
        # A sentence begins as if O were before it.
        pairs[n, :n] = encodings.successions(["O", *labels], encoding)[0, 1:]
    pairs[n, n] = False
    legal = pairs[:, :, None] & pairs[None, :, :]
    legal[:, n] = False
    legal[n, n] = pairs[n]
    return legal | seen


def normalise(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each row of the last axis divided by its sum; rows of zeros stay so."""
    totals = counts.sum(axis=-1, keepdims=True)
    return np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)


def _with_edges(
    offsets: NDArray[np.int64], label_ids: NDArray[np.int32], n_labels: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The labels with ^ ^ before and $ after each sentence, and where each sentence starts."""
    starts = offsets + 3 * np.arange(len(offsets))
    stream = np.full(starts[-1], n_labels, dtype=np.int64)
    stream[_label_places(offsets)] = label_ids
    return stream, starts[:-1]


def _label_places(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of each label in the stream of `_with_edges`."""
    sentences = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return np.arange(offsets[-1]) + 3 * sentences + 2


def _add_one(
    symbols: NDArray[np.int64], label_ids: NDArray[np.int32], n_symbols: int, n_labels: int
) -> NDArray[np.float64]:
    """Laplace's p(symbol | label), float64 (n_symbols, n_labels)."""
    counts = np.bincount(symbols * n_labels + label_ids, minlength=n_symbols * n_labels) + 1.0
    counts = counts.reshape(n_symbols, n_labels)
    return counts / counts.sum(axis=0)


def _templates(attributes: tuple[str, str]) -> tuple[str, str]:
    word, tag = attributes
    return f"{word}[0]", f"{tag}[0]"


def _check_columns(columns: NDArray[np.uint64]) -> NDArray[np.uint64]:
    columns = np.asarray(columns, dtype=np.uint64)
    if columns.ndim != 2 or columns.shape[1] != 2:
        raise StructlearnError("SL230", shape=columns.shape)
    return columns


class HMMTrainer(Trainer[Any]):
    """Counts, in one step; the value is -log q0 of the data that were counted."""

    def __init__(
        self, settings: Any, model: ChainModel, data: Sequence[SequenceData], **engine: Any
    ):
        super().__init__(settings, **engine)
        self._model = model
        self._first = model.to_bytes()
        self._data: list[SequenceData] = []
        self.add(data)

    def take(self, data: Sequence[SequenceData]) -> None:
        self._data = [*self._data, *data]

    def iterate(self) -> bool:
        settings, sentences = self.settings, concatenate(self._data, self._model.labels)
        hmm = SecondOrderHMM.fit(
            *sentences,
            self._model.labels,
            smoothing=settings.smoothing,
            encoding=settings.encoding,
        )
        self._model = hmm.to_chain_model(settings.attributes, settings.encoding)
        self.value = -float(hmm.log_probabilities(*sentences).sum())
        self.n_iterations += 1
        return False

    def parameters(self) -> ChainModel:
        """A copy of the model as it stands, float32."""
        return self._model.compact("float32")

    def data_digest(self) -> bytes:
        return array_digest(self._first, *concatenate(self._data, self._model.labels))

    def state(self) -> dict[str, Any]:
        return {"model": nested(self._model.to_bytes())}

    def restore(self, state: dict[str, Any]) -> bool | None:
        self._model = ChainModel.from_bytes(state["model"].tobytes())
        return None
