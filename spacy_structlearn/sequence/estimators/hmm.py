"""The second-order hidden Markov model of Smith, Vail & Lafferty (2007, section 5.1).

    q0(x, tau, y) = prod_i t(y_i | y_{i-2}, y_{i-1}) e(x_i | y_i) g(tau_i | y_i)
                    * t($ | y_{n-1}, y_n),        y_0 = y_{-1} = ^

with words x, tags tau and labels y. It is trained by counting: t has relative frequencies, e and g
have one added to each count (see `base_distribution.hidden_markov`). The vocabularies are closed by
the paper's rule: the first token of every type counts as unknown, so a word seen once leaves the
vocabulary.

For decoding it is a second-order chain with transitions log t. The weights of its two predicates,
the word and the tag, are log e and log g, with other weights for unknown words and tags.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...learning.training import Trainer, array_digest
from ...serialization import nested
from ..chain.decode import state_scores
from ..chain.model import ChainModel
from ..layout.data import Ids, Ints, Parts, SequenceData, Symbols, concatenate
from ..layout.features import UNKNOWN
from .base_distribution import hidden_markov


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


def log_likelihood(model: ChainModel, columns: Symbols, offsets: Ints, label_ids: Ids) -> float:
    """Return the score of labelled sentences: log q0 of the model of an HMM, but for empty ones."""
    scores, offsets = state_scores(model, columns, offsets)
    states = model.state_ids(label_ids, offsets)
    firsts, lasts = (ends[np.diff(offsets) > 0] for ends in (offsets[:-1], offsets[1:] - 1))
    inside = np.delete(np.arange(len(states)), firsts)
    total = scores[np.arange(len(states)), states].sum()
    total += model.transitions[states[inside - 1], states[inside]].sum()
    return float(total + model.initial[states[firsts]].sum() + model.final[states[lasts]].sum())


class HMMTrainer(Trainer[Any]):
    """Counts, in one step; the value is the negative log-likelihood of the data."""

    def __init__(self, settings: Any, model: ChainModel, data: Parts):
        super().__init__(settings)
        self._model = model
        self._first = model.to_bytes()
        self._data: list[SequenceData] = []
        self.add(data)

    def take(self, data: Parts) -> None:
        self._data = [*self._data, *data]

    def iterate(self) -> bool:
        settings, labels = self.settings, self._model.labels
        columns, *rest = concatenate(self._data, labels)
        if len(columns):
            base = hidden_markov(
                close_columns(columns)[0],
                *rest,
                labels,
                settings.attributes,
                smoothing=settings.smoothing,
                encoding=settings.encoding,
            )
            self._model = base.to_chain_model(settings.encoding, closed=False)
            self.value = -log_likelihood(self._model, columns, *rest)
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
