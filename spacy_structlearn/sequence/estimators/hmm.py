"""The second-order hidden Markov model of Smith, Vail & Lafferty (2007, section 5.1).

    q0(x, tau, y) = prod_i t(y_i | y_{i-2}, y_{i-1}) e(x_i | y_i) g(tau_i | y_i)
                    * t($ | y_{n-1}, y_n),        y_0 = y_{-1} = ^

with words x, tags tau and labels y. It is trained by counting: t has relative frequencies, e and g
have one added to each count (see `hidden_markov`). The vocabularies are closed by
the paper's rule: the first token of every type counts as unknown, so a word seen once leaves the
vocabulary.

For decoding it is a second-order chain with transitions log t. The weights of its two predicates,
the word and the tag, are log e and log g.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...learning.training import Trainer, array_digest
from ..chain._segments import Segmenter
from ..chain.decode import state_scores
from ..chain.model import ChainModel
from ..chain.states import check_label_ids, count_trigrams, legal_trigrams
from ..layout.data import AnyInts, Floats, Ids, Ints, Parts, SequenceData, Symbols, concatenate
from ..layout.features import UNKNOWN, Templates, close
from .base_distribution import BaseDistribution
from .emissions import counted_emissions


def close_columns(columns: Symbols) -> tuple[Symbols, list[Symbols]]:
    """Close the vocabulary of each column by the paper's rule.

    columns: uint64 (n_tokens, n_columns), in the order of training.
    Returns them with UNKNOWN in place of the first token of every type, and the known symbols of
    each column, ascending, for `ChainModel.vocabularies`. Closing the result of
    `ChainModel.derive` with these vocabularies changes nothing.
    """
    closed = np.array(columns, dtype=np.uint64)
    vocabularies = []
    for place in range(closed.shape[1]):
        types, first, counts = np.unique(closed[:, place], return_index=True, return_counts=True)
        closed[first, place] = UNKNOWN
        # A symbol that was unknown before stays unknown, however frequent it is.
        vocabularies.append(types[(counts > 1) & (types != UNKNOWN)])
    return closed, vocabularies


def hidden_markov(
    columns: Symbols,
    offsets: Ints,
    label_ids: AnyInts,
    labels: Sequence[str],
    names: Sequence[str] = ("ORTH", "TAG"),
    *,
    smoothing: float = 0.0,
    encoding: str | None = None,
) -> BaseDistribution:
    """Count a second-order HMM.

    columns: uint64 (n_tokens, n_columns), with closed vocabularies (see `close_columns`).
    offsets: int64 (n_sentences + 1).
    label_ids: integers (n_tokens), places in `labels`.
    names: names of the columns.
    smoothing: added to the count of every trigram that the encoding allows and of those in the
        data. With 0, some sentences may have no path.
    encoding: the scheme of the labels; None: every trigram is allowed.
    Raises StructlearnError if the arrays or the names do not fit together.
    """
    columns, label_ids, trigrams = _counted(columns, offsets, label_ids, labels, names)
    t = trigrams + smoothing * legal_trigrams(trigrams > 0, labels, encoding)
    emissions = counted_emissions(columns, names, label_ids, len(labels))
    return BaseDistribution(tuple(labels), _normalise(t), emissions)


def locally_uniform(
    columns: Symbols,
    offsets: Ints,
    label_ids: AnyInts,
    labels: Sequence[str],
    names: Sequence[str] = ("ORTH", "TAG"),
    *,
    encoding: str | None = "IOB2",
) -> BaseDistribution:
    """Return the locally uniform base distribution (equation 14).

        q(x, y) = prod_i p(x_i) / N(y_i) * 1 / N(^)

    N(y) is the number of labels, with the end, that may follow y by the encoding or in the data.
    The end may follow the start, as in the paper, where N(^) = N(O) = 3. p does not depend on the
    label; it has one added to each count. Arguments and errors are those of `hidden_markov`.
    """
    columns, label_ids, trigrams = _counted(columns, offsets, label_ids, labels, names)
    pairs = np.asarray(legal_trigrams(trigrams > 0, labels, encoding).any(axis=0))
    pairs[-1, -1] = True
    t = np.broadcast_to(_normalise(pairs.astype(np.float64)), trigrams.shape).copy()
    t[~pairs] = 0.0
    # Nothing follows the pair (y, $), and (^, ^) is the start.
    t[:-1, -1] = 0.0
    emissions = tuple(
        part._replace(table=np.repeat(part.table, len(labels), axis=1))
        for part in counted_emissions(columns, names, np.zeros_like(label_ids), 1)
    )
    return BaseDistribution(tuple(labels), t, emissions)


def _counted(
    columns: Symbols, offsets: Ints, label_ids: AnyInts, labels: Sequence[str], names: Sequence[str]
) -> tuple[Symbols, Ids, Floats]:
    """Check columns and label ids, and count trigrams."""
    columns, offsets = Templates([f"{name}[0]" for name in names]).check(columns, offsets)
    label_ids = check_label_ids(label_ids, len(columns), len(labels))
    trigrams = count_trigrams(offsets, label_ids, len(labels)).astype(np.float64)
    return columns, label_ids, trigrams


def _normalise(counts: Floats) -> Floats:
    """Divide each row of the last axis by its sum; rows of zeros stay zero."""
    totals = counts.sum(axis=-1, keepdims=True)
    return np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)


def log_likelihood(model: ChainModel, columns: Symbols, offsets: Ints, label_ids: Ids) -> float:
    """Return the score of labelled sentences: log q0 of the model of an HMM, but for empty ones."""
    scores, offsets = state_scores(model, columns, offsets, label_ids)
    segmenter = Segmenter(model.initial, model.transitions, model.final)
    brackets, state_ids = np.empty((0, 2), dtype=np.int64), np.empty(len(scores), dtype=np.int32)
    return segmenter.best(scores, offsets, brackets, state_ids)


class HMMTrainer(Trainer[Any]):
    """Counts, in one step; the value is the negative log-likelihood of the data."""

    parts: ClassVar[dict[str, Any]] = {"_model": ChainModel}

    def __init__(self, settings: Any, model: ChainModel, data: Parts):
        super().__init__(settings)
        self._model = model
        self._first = model.to_bytes()
        self._data: list[SequenceData] = []
        self.add(data)

    def _add(self, data: Parts) -> None:
        self._data = [*self._data, *data]

    def iterate(self) -> bool:
        settings, labels = self.settings, self._model.labels
        columns, offsets, label_ids = concatenate(self._data, labels)
        if len(columns):
            base = hidden_markov(
                close_columns(columns)[0],
                offsets,
                label_ids,
                labels,
                settings.attributes,
                smoothing=settings.smoothing,
                encoding=settings.encoding,
            )
            self._model = base.to_chain_model(settings.encoding)
            known = close(columns, settings.attributes, self._model.vocabularies)
            self.value = -log_likelihood(self._model, known, offsets, label_ids)
        self.n_iterations += 1
        return False

    def parameters(self) -> ChainModel:
        """A copy of the model as it stands, float32."""
        return self._model.compact("float32")

    def data_digest(self) -> bytes:
        return array_digest(self._first, *concatenate(self._data, self._model.labels))
