"""A conditional base distribution: the specialised HMM, and features centred by its posteriors.

Beyond Smith, Vail & Lafferty (2007), who close with a wish for a better q0. The states of a
specialised HMM (Molina & Pla 2002) are a label c and a tag t together, here

    q0(x, t, c) = prod_i p(c_i, t_i | c_{i-1}, t_{i-2}, t_{i-1}) p(x_i | c_i, t_i)

each a relative frequency, interpolated with that of less context, by Dirichlet priors: with counts
n and a strength s,

    p(a | context) = (n(context, a) + s p(a | less)) / (n(context) + s)
                   = p(a | less) * s / (n(context) + s) * (1 + n(context, a) / (s p(a | less)))

The second form makes q0 a chain model: each factor is the weight of a predicate, and what was never
seen has the weight zero by itself. q0 is counted in a tenth of a second, and a better chunker than
an HMM whose tags are emitted.

Of q0 only q0(c | x, t) is used, with the sentences as they are (equation 15). The model q0 exp(w.f)
does not change, as a model of labels, when features change by what depends on the sentence alone;
so let them be centred, f - E_q0[f | x, t]. Their expectation is zero, and the objective (equation
3) is the mean of exp(-w.(f_i - E_q0[f | x_i, t_i])) with the regulariser, which asks of each
example no more than that its right labels score higher than those that q0 expects. An example is a
token, with the features there. q0 is too sure of sentences that it was counted on, so each part of
them is judged by the counts of the others; tokens of which q0 is sure then, and right, have no
part in the training.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from . import _chain
from .features import state_templates
from .model import ChainModel, check_label_ids
from .states import previous_labels

_N_FOLDS = 10
_SURE = 0.01
"""Probabilities that are nearer to the truth count as right."""
_TAG_STRENGTH = 1.0
_WORD_STRENGTH = 10.0
_ADDED = 1.0
"""To the count of each tag with each label, given the label before."""


class SpecializedHMM:
    """Counts of labelled sentences, and what they say of labels.

    columns: uint64 (n_tokens, 2), words and tags, whose vocabularies are closed; offsets: int64
        (n_sentences + 1); label_ids: integers (n_tokens), places in `labels`.
    names: of the columns. encoding: see `encoding`.
    Raises StructlearnError SL203, SL204 or SL207.
    """

    def __init__(
        self,
        columns: NDArray[np.uint64],
        offsets: NDArray[np.int64],
        label_ids: NDArray[np.integer],
        labels: Sequence[str],
        names: tuple[str, str] = ("ORTH", "TAG"),
        *,
        encoding: str = "IOB2",
    ):
        self.templates = state_templates(names)
        columns, self._offsets = self.templates.check(columns, offsets)
        self._label_ids = check_label_ids(label_ids, len(columns), len(labels))
        # The states and which of them may follow one another: a model without predicates.
        self._chain = ChainModel.build(
            columns[:, :0],
            self._offsets,
            self._label_ids,
            labels,
            (),
            1,
            order=2,
            pair_features=True,
            encoding=encoding,
        )
        self._before = previous_labels(self._label_ids, self._offsets, self._chain.start)
        self._state_ids = self._chain.state_ids(self._label_ids, self._offsets)
        keys = self.templates.keys(columns, self._offsets)
        self._ids = np.empty((len(self.templates), len(keys)), dtype=np.int32)
        self._firsts = [
            _chain.number_keys(np.ascontiguousarray(column), ids)
            for column, ids in zip(keys.T, self._ids, strict=True)
        ]
        self._keys = [column[firsts] for column, firsts in zip(keys.T, self._firsts, strict=True)]
        self._counts = self._count(slice(None))

    def residuals(self, n_folds: int = _N_FOLDS) -> scipy.sparse.csr_array:
        """1 for the right state less the probability of each, float64 (n_tokens, n_states).

        n_folds: the sentences are parted in so many, one after another, and the probabilities of
        each part are those of the counts of the others; 1: of the counts of all. Small ones are
        left out.
        """
        n_sentences = len(self._offsets) - 1
        n_folds = max(1, min(n_folds, n_sentences))
        bounds = np.linspace(0, n_sentences, n_folds + 1).astype(np.int64)
        chain = _chain.Chain(self._chain.initial, self._chain.transitions, self._chain.final)
        seconds, found = self._chain.states[:, 1], []
        for begin, end in pairwise(bounds.tolist()):
            tokens = slice(self._offsets[begin], self._offsets[end])
            counts = self._counts
            if n_folds > 1:
                counts = [all_ - own for all_, own in zip(counts, self._count(tokens), strict=True)]
            of_words, of_states = self._weights(counts)
            scores = np.take(of_words[self._ids[_WORDS, tokens]], seconds, axis=1)
            for table, ids in zip(of_states, self._ids[1:, tokens], strict=True):
                scores += table[ids]
            offsets = self._offsets[begin : end + 1] - self._offsets[begin]
            _chain.forward_backward(chain, scores, offsets, scores)
            np.negative(scores, out=scores)
            scores[np.arange(len(scores)), self._state_ids[tokens]] += 1.0
            scores[np.abs(scores) < _SURE] = 0.0
            found.append(scipy.sparse.csr_array(scores))
        return scipy.sparse.csr_array(scipy.sparse.vstack(found, format="csr"))

    def to_chain_model(self, encoding: str = "IOB2") -> ChainModel:
        """q0 as a chain of second order, but for factors that no label depends on.

        encoding: how its labels stand for chunks.
        """
        of_words, of_states = self._weights(self._counts)
        keys = np.concatenate(self._keys)
        n_words, n_labels = len(of_words), of_words.shape[1]
        weights = np.zeros((len(keys), n_labels + len(self._chain.states)))
        weights[:n_words, :n_labels] = of_words
        weights[n_words:, n_labels:] = np.concatenate(of_states)
        order = np.argsort(keys)
        return ChainModel(
            self._chain.labels,
            self.templates,
            keys[order],
            weights[order],
            self._chain.transitions,
            states=self._chain.states,
            initial=self._chain.initial,
            final=self._chain.final,
            encoding=encoding,
        )

    def _count(self, tokens: slice) -> list[NDArray[np.float64]]:
        """How often each predicate is there with each label (words), state (tags), or label
        before (the tags before): by template, float64 (n_predicates, n)."""
        n_labels, n_states = len(self._chain.labels), len(self._chain.states)
        # The label before may be the start, which is the last.
        before = self._before[tokens] % (n_labels + 1)
        of_states = (self._state_ids[tokens], n_states)
        places = [
            (self._label_ids[tokens], n_labels),
            *[of_states] * 3,
            *[(before, n_labels + 1)] * 2,
        ]
        counts = []
        for ids, firsts, (columns, n) in zip(self._ids, self._firsts, places, strict=True):
            size = len(firsts) * n
            found = np.bincount(ids[tokens] * np.int64(n) + columns, minlength=size)
            counts.append(found.reshape(-1, n).astype(np.float64))
        return counts

    def _weights(
        self, counts: list[NDArray[np.float64]]
    ) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
        """Logarithms of the factors: of words, float64 (n_words, n_labels), and of each of the
        other templates, float64 (n_predicates, n_states)."""
        words, tags, bigrams, trigrams, before, two_before = counts
        first, second = self._chain.states.T
        # By label before and by label: the sums over states, and back.
        n_labels = len(self._chain.labels)
        of_first = np.eye(n_labels + 1)[first % (n_labels + 1)]
        of_second = np.eye(n_labels)[second]
        of_tags = tags + _ADDED
        of_tags /= of_tags.sum(axis=0) @ of_first @ of_first.T
        p, factors = of_tags, []
        for seen, contexts, less, context in (
            (bigrams, before, _TAGS, _BEFORE),
            (trigrams, two_before, _BIGRAMS, _TWO_BEFORE),
        ):
            firsts = self._firsts[less + 1]
            expected = _TAG_STRENGTH * p[self._ids[less, firsts]]
            totals = contexts @ of_first.T + _TAG_STRENGTH
            factors.append((np.log1p(seen / expected), np.log(_TAG_STRENGTH / totals)))
            p = (seen + expected) / totals[self._ids[context, firsts]]
        (of_bigrams, of_before), (of_trigrams, of_two_before) = factors
        tagged = tags @ of_second
        owners = self._ids[_TAGS, self._firsts[_WORDS]]
        given_tag = words.sum(axis=1) / np.maximum(tagged.sum(axis=1)[owners], 1.0)
        # The least number there is, where a word is not there: 0 / 0 is then 0.
        expected = np.maximum(_WORD_STRENGTH * given_tag, np.finfo(np.float64).tiny)
        of_words = np.log1p(words / expected[:, None])
        shares = np.log(_WORD_STRENGTH / (tagged + _WORD_STRENGTH)) @ of_second.T
        of_states = [np.log(of_tags) + shares, of_bigrams, of_trigrams, of_before, of_two_before]
        return of_words, of_states


_WORDS, _TAGS, _BIGRAMS, _TRIGRAMS, _BEFORE, _TWO_BEFORE = range(6)


class CentredCounts(LinearOperator):
    """F of centred features: what each token's right state has more of than q0 expects.

    model: whose supported features are counted, those of predicates.
    columns: uint64 (n_tokens, n_columns); offsets: int64 (n_sentences + 1); see `Templates`.
    residuals: sparse (n_tokens, n_states), see `SpecializedHMM.residuals`.
    examples: integers (n_tokens), the example that a token is part of; None: each is one of its
        own. Those without any residual are none; if all are, there is one of zeros.
    Its shape is (n_examples, n_parameters). Attributes: places, int64 (n_parameters), of the
    features in the model's flattened weights.
    """

    def __init__(
        self,
        model: ChainModel,
        columns: NDArray[np.uint64],
        offsets: NDArray[np.int64],
        residuals: scipy.sparse.csr_array,
        examples: NDArray[np.integer] | None = None,
    ):
        assert model.supported is not None
        # A feature of the label has the sum over the states of the label.
        features = np.eye(len(model.labels))[model.states[:, -1]]
        if model.has_pair_features:
            features = np.hstack([features, np.eye(len(model.states))])
        residuals = scipy.sparse.coo_array(residuals @ scipy.sparse.csr_array(features))
        tokens, of_columns = residuals.coords
        used, token_numbers = np.unique(tokens, return_inverse=True)
        numbers = np.arange(len(used))
        if examples is not None:
            numbers = np.unique(examples[used], return_inverse=True)[1]
        supported = model.supported.reshape(-1)
        owners, places, values = [], [], []
        for template in range(len(model.templates)):
            keys = model.templates.keys(columns, offsets, [template])[used, 0]
            rows = model.rows(keys).astype(np.int64)[token_numbers]
            place = rows * model.weights.shape[1] + of_columns
            kept = np.flatnonzero(rows >= 0)
            kept = kept[supported[place[kept]]]
            owners.append(numbers[token_numbers[kept]])
            places.append(place[kept])
            values.append(residuals.data[kept])
        owner, place, value = (
            np.concatenate([np.empty(0, dtype), *parts])
            for dtype, parts in ((np.int64, owners), (np.int64, places), (np.float64, values))
        )
        ids = np.empty(len(place), dtype=np.int32)
        self.places = place[_chain.number_keys(place.view(np.uint64), ids)]
        # Where q0 is right of all, one without features, so that the weights are zero.
        n_examples = max(1, int(numbers.max(initial=-1)) + 1)
        self._matrix = scipy.sparse.coo_array(
            (value, (owner, ids)), shape=(n_examples, len(self.places))
        ).tocsr()
        super().__init__(np.dtype(np.float64), self._matrix.shape)

    def write(self, vector: NDArray[np.float64], model: ChainModel) -> None:
        """Put a parameter vector into the model."""
        model.weights.reshape(-1)[self.places] = vector

    def distinct(
        self, expectations: NDArray[np.float64]
    ) -> tuple[scipy.sparse.csr_array, NDArray[np.float64]]:
        """F and E of a smaller problem, as in `GoldCounts.distinct`."""
        # Sums in the same order: equal for equal columns, for others by an accident of 2 ** -50.
        sums = self._matrix.T @ np.random.default_rng(0).random(self.shape[0])
        groups = np.empty(len(sums), dtype=np.int32)
        firsts = _chain.number_keys(sums.view(np.uint64), groups)
        scale = np.sqrt(np.bincount(groups, minlength=len(firsts)))
        totals = np.bincount(groups, weights=expectations, minlength=len(firsts))
        chosen = self._matrix[:, firsts]
        chosen.data *= scale[chosen.indices]
        return chosen, totals / scale

    def _matvec(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._matrix @ vector.reshape(-1)

    def _rmatvec(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._matrix.T @ vector.reshape(-1)
