"""The joint form of pseudolikelihood (Smith, Vail & Lafferty 2007, section 5), p(x, tau, y).

Words, tags and labels are modelled together. Next to each label given all others (see
`crf.LogPseudoLikelihood`), each symbol is predicted,

    - sum_t log p(x_t | y) - sum_t log p(tau_t | y)

with sums over the closed vocabulary of its column. If no predicate reads two symbols, a symbol
depends only on the labels around it. There are few such contexts, and each needs only one sum over
a vocabulary: log p(x_t = v | y) = g(v) - log sum_u exp g(u), where g(v) is the weight of v's
predicates with the labels of the context.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...arrays import find_symbols, ranges
from ...errors import StructlearnError
from ...optimize.lbfgs import dot
from ..chain.model import ChainModel
from ..layout.data import AnyInts, Floats, Ids, Ints, Symbols
from ..layout.features import UNKNOWN, check_single_symbols
from .crf import ChainLikelihood, LabelledSentences, Numbering, PseudoShard

_BLOCK = 2**22  # probabilities that are in memory at a time


class JointShard(PseudoShard):
    """Some sentences of the joint form. Arguments: see `ChainShard`."""

    def number(self, numbering: Numbering) -> None:
        """See `ChainShard`."""
        super().number(numbering)
        self.emissions = [self._emission(column) for column in range(self._columns.shape[1])]

    def value_and_grad(self, theta: Floats) -> tuple[float, Floats]:
        """See `ChainShard`."""
        value, gradient = super().value_and_grad(theta)
        for emission in self.emissions:
            table = emission.table(theta)
            counts = np.zeros_like(table)
            for block in emission.blocks():
                log_sum, block_counts = emission.log_sums(table, block)
                value += log_sum
                counts += block_counts
            value -= dot(emission.gold, theta[emission.features])
            gradient[emission.features] += counts.reshape(-1)[emission.places] - emission.gold
        return value, gradient

    def _emission(self, column: int) -> _Emission:
        """The loss of the symbols of one column."""
        model, templates = self.model, self.model.templates
        name = templates.columns[column]
        known = model.vocabularies[name]
        known = known[known != UNKNOWN]  # which all vocabularies have, once
        symbols = find_symbols(self._columns[:, column], known)
        all_symbols = np.append(known, np.uint64(UNKNOWN))
        marks = [self._label_ids]
        if model.has_pair_features:
            marks.append(len(model.labels) + self._state_ids)
        return _Emission(
            [
                (offset, *self._features_of(model.rows(templates.symbol_keys(i, all_symbols))))
                for i, terms in enumerate(templates.terms)
                for term, offset in terms
                if term == name
            ],
            np.stack(marks, axis=1),
            model.weights.shape[1],
            symbols,
            len(known) + 1,
            self._offsets,
        )

    def _features_of(self, rows: Ids) -> tuple[Ints, Ints, NDArray[np.int16]]:
        """The features of some rows of the model: the place in `rows`, the number, the column."""
        numbering = self.numbering
        counts = numbering.count_of_row[rows].astype(np.int64)
        features = ranges(numbering.first_of_row[rows], counts)
        return np.repeat(np.arange(len(rows)), counts), features, numbering.column[features]


class JointPseudoLikelihood(ChainLikelihood):
    """The objective of the joint form, which predicts all columns of the templates, too.

    Columns are closed by `model.vocabularies`, and each template reads one position at most.
    Arguments: see `ChainLikelihood`. Raises StructlearnError also if the model is not for the joint
    form, or if a symbol is not in its vocabulary.
    """

    shard = JointShard

    def __init__(self, model: ChainModel, *sentences: Any, **settings: Any):
        check_single_symbols(model.templates)
        for name in model.templates.columns:
            if name not in model.vocabularies:
                raise StructlearnError("SL256", column=name)
        super().__init__(model, *sentences, **settings)

    def _check(self, columns: Symbols, offsets: Ints, label_ids: AnyInts) -> LabelledSentences:
        columns, offsets, label_ids = super()._check(columns, offsets, label_ids)
        for place, name in enumerate(self.model.templates.columns):
            symbols, known = columns[:, place], self.model.vocabularies[name]
            strange = (find_symbols(symbols, known) == len(known)) & (symbols != UNKNOWN)
            if strange.any():
                raise StructlearnError("SL257", column=name, at=int(strange.argmax()))
        return columns, offsets, label_ids


class _Emission:
    """- sum over tokens of log p(symbol | labels) for one column, without the prior.

    The weights form a table with a row for each template that reads the column and each column of
    the model's weights, and a column for each symbol; the last is the unknown symbol.

    templates: the offset of each template that reads the column, and the symbol, the number and the
        column of weights of each of its features.
    marks: (n_tokens, 1 or 2), the columns of weights of the gold labels. symbols: (n_tokens).
    Attributes: features, int64 (n), parameters; places, int64 (n), in the table; gold, float64 (n),
    counts on the gold paths; contexts, float64 (n_contexts, n_rows), the rows that are added up for
    distinct labels around a token; n_tokens, int64 (n_contexts), their numbers of tokens.
    """

    def __init__(
        self,
        templates: list[tuple[int, Ints, Ints, NDArray[np.int16]]],
        marks: AnyInts,
        n_columns: int,
        symbols: Ints,
        n_symbols: int,
        offsets: Ints,
    ):
        n_tokens, n_rows = len(symbols), len(templates) * n_columns
        lengths = np.diff(offsets)
        begins, ends = np.repeat(offsets[:-1], lengths), np.repeat(offsets[1:], lengths)
        here = np.arange(n_tokens)
        # The rows that a token's symbol meets, -1 for a template whose position is outside.
        met = np.full((n_tokens, len(templates), marks.shape[1]), -1, dtype=np.int64)
        for i, (offset, *_) in enumerate(templates):
            inside = (here - offset >= begins) & (here - offset < ends)
            met[inside, i] = i * n_columns + marks[here[inside] - offset]
        rows = met.reshape(n_tokens, len(templates) * marks.shape[1])
        kinds, ids = np.unique(rows, axis=0, return_inverse=True)
        ids = ids.reshape(-1)
        context, place = np.nonzero(kinds >= 0)
        shape = len(kinds), n_rows
        self.contexts = csr_array((np.ones(len(place)), (context, kinds[context, place])), shape)
        seen = csr_array((np.ones(n_tokens), (ids, symbols)), shape=(len(kinds), n_symbols))
        owners, self.features, columns = (
            np.concatenate([np.empty(0, dtype=np.int64), *parts])
            for parts in zip(*(features for _, *features in templates), strict=True)
        )
        shifts = np.repeat(np.arange(len(templates)), [len(features[1]) for features in templates])
        self.places = (shifts * n_columns + columns) * n_symbols + owners
        self.gold = (self.contexts.T @ seen).toarray().reshape(-1)[self.places]
        self.n_tokens = np.bincount(ids, minlength=len(kinds))
        self.n_rows, self.n_symbols = n_rows, n_symbols

    def table(self, theta: Floats) -> Floats:
        """The table, float64 (n_rows, n_symbols), of a parameter vector."""
        table = np.zeros(self.n_rows * self.n_symbols)
        table[self.places] = theta[self.features]
        return table.reshape(self.n_rows, self.n_symbols)

    def blocks(self) -> Iterator[slice]:
        """The contexts in parts that are not too large."""
        n_contexts, size = len(self.n_tokens), max(1, _BLOCK // self.n_symbols)
        return (slice(i, i + size) for i in range(0, n_contexts, size))

    def log_sums(self, table: Floats, block: slice) -> tuple[float, Floats]:
        """Of some contexts the sum over their tokens of log sum_v exp g(v), and its derivative."""
        contexts, n_tokens = self.contexts[block], self.n_tokens[block]
        scores = contexts @ table
        highest = scores.max(axis=1)
        scores -= highest[:, None]
        np.exp(scores, out=scores)
        totals = scores.sum(axis=1)
        scores *= (n_tokens / totals)[:, None]
        return float(n_tokens @ (highest + np.log(totals))), contexts.T @ scores
