"""M-estimation of grammars: a log-linear model of trees, trained without parsing a sentence.

Smith, Vail & Lafferty (2007), section 4.1.2, which describes it for PCFGs: the model is a base
grammar q0, corrected by features of fragments of trees (equation 2),

    p_w(x, y) = q0(x, y) exp(w.f(x, y)) / Z(w)

and w minimises the objective of `optimize.m_estimation` (equation 3), for which two things are
gathered once: how often each feature is in each tree of the treebank (`counts` of
`FragmentStatistics`), and how often q0 expects it (`expectations`). From there on an iteration is
one pass over sparse counts. To parse, the forest that q0 leaves is scored anew by q0, of a grammar
with substates its variational distribution, and the features (`fragment_weights`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse

from ... import serialization
from ...learning.training import Trainer
from ...optimize.lbfgs import LBFGS, Vector
from ...optimize.m_estimation import DualCoordinateDescent
from ...trees.tree import Tree
from ..chart.hypergraph import Floats
from ..latent.model import LatentGrammar
from ..latent.training import TreebankTrainer
from ..spans.training import TrainingForests, fold_bounds, training_forests
from ..spans.word_attributes import vocabulary
from ..treebank.settings import Trees
from ..treebank.symbols import TreebankData, to_tree
from .expectations import FragmentExpectations, Words
from .features import (
    BOUNDARY,
    FeatureHasher,
    FragmentTemplates,
    sites_of_trees,
)
from .objective import FragmentObjective, shrunk
from .settings import FragmentFeaturesSettings, MEstimatedGrammarSettings
from .weights import FragmentGrammar, FragmentScorer, FragmentWeights

PASSES = 10  # through the trees in a step
ITERATIONS = 10  # of L-BFGS in a step


class FragmentStatistics:
    """What M-estimation needs of a treebank, for every strength of the regulariser.

    features: which there are. grammar: q0, learned of the same trees. data: these.
    Attributes: weights, all 0; counts, F, float64 (n_trees, n_features), in SciPy's CSR format;
    expectations, E, float64 (n_features); expected: what they come from.
    Raises StructlearnError, see `FragmentExpectations`.
    """

    def __init__(
        self, features: FragmentFeaturesSettings, grammar: LatentGrammar, data: TreebankData
    ):
        sentences = words_of(data)
        templates = FragmentTemplates.of(features)
        known = vocabulary(sentences, features.min_word_count)
        symbols = grammar.symbols
        hasher = FeatureHasher(templates, known)
        sites, tree = sites_of_trees(data)
        attributes = hasher.attributes(sentences)
        parts = hasher.parts(sites)
        self.expected = FragmentExpectations(grammar, _distinct(sentences, hasher), BOUNDARY)
        rows, columns, keys, expectations = [], [], [], []
        n = 0
        for template in templates.all:
            own = np.flatnonzero(sites.of(template, sites.relations))
            chosen = sites.select(own)
            part = parts[template.part][own]
            found = hasher.keys(template, chosen, part, chosen.relations, attributes)
            distinct, first, which, counts = np.unique(
                found, return_index=True, return_inverse=True, return_counts=True
            )
            frequent = counts >= features.min_count
            number = np.cumsum(frequent) - 1 + n
            kept = frequent[which]
            rows.append(tree[own[kept]])
            columns.append(number[which[kept]])
            keys.append(distinct[frequent])
            examples = sites.select(own[first[frequent]])
            expectations.append(self.expected.of(template, examples, attributes))
            n += len(keys[-1])
        # The keys of all templates ascending.
        order = np.argsort(np.concatenate(keys))
        rank = np.empty(n, dtype=np.int32)
        rank[order] = np.arange(n, dtype=np.int32)
        row, column = np.concatenate(rows), rank[np.concatenate(columns)]
        ones = np.ones(len(row))
        self.counts = scipy.sparse.coo_array((ones, (row, column)), (data.n_trees, n)).tocsr()
        self.expectations: Floats = np.concatenate(expectations)[order]
        self.weights = FragmentWeights(
            templates.texts,
            symbols.n_tags,
            symbols.size,
            data.binarization,
            known,
            np.concatenate(keys)[order],
            np.zeros(n, dtype=np.float32),
        )

    def optimizer(
        self, l2: float, *, scaling: float = 0.0, tolerance: float = 1e-4, seed: int = 0
    ) -> DualCoordinateDescent:
        """The minimisation of the objective with this penalty; for `estimate`.

        On a feature that is in a tree m times on the average its strength is l2 m^scaling.
        """
        scales = self._scales(scaling)
        counts = self.counts if not scaling else (self.counts * scales).tocsr()
        expectations = self.expectations * scales
        return DualCoordinateDescent(
            counts, expectations, c=1.0 / l2, tolerance=tolerance, seed=seed
        )

    def estimate(self, w: Vector, scaling: float = 0.0) -> FragmentWeights:
        """The weights of features from those of an `optimizer` with the same scaling."""
        return self.weights.with_weights(w * self._scales(scaling))

    def _scales(self, scaling: float) -> Vector:
        """What features are multiplied by, so that one prior is right for all: float64 (n)."""
        means = np.asarray(self.counts.sum(axis=0)) / self.counts.shape[0]
        return means ** (-scaling / 2.0)


def words_of(data: TreebankData) -> list[list[str]]:
    """The words of each tree."""
    forms = [data.forms[form] for form in data.pairs[data.production[data.is_word], 1].tolist()]
    ends = np.append(0, np.cumsum(data.is_word))[data.offsets].tolist()
    return [forms[begin:end] for begin, end in pairwise(ends)]


def _distinct(sentences: Sequence[Sequence[str]], hasher: FeatureHasher) -> Words:
    counts: dict[str, int] = {}
    for sentence in sentences:
        for word in sentence:
            counts[word] = counts.get(word, 0) + 1
    texts = list(counts)
    # Of one sentence, the boundaries at both ends left out.
    hashes = hasher.attributes([texts])[1:-1]
    return Words(texts, np.array(list(counts.values())), hasher.templates.attributes, hashes)


class MEstimatedGrammarTrainer(TreebankTrainer[MEstimatedGrammarSettings]):
    """q0, then the M-estimate, then what may follow: forests, and conditional likelihood.

    A step is a round of q0, some passes through the trees, the forests of a fold, or some
    iterations of L-BFGS. value: of a grammar, see its own trainer; then the objective of
    M-estimation; of forests the mean loss in nats a sentence if all weights were 0; then the
    conditional objective. left_out: sentences without a forest. Reports: in the phases of the
    grammars' own trainers the number is that of the fold, from 1, or 0 for q0, in "m_estimation" 0,
    in "forests" that of the fold, and in "conditional" 0.
    """

    _objective: FragmentObjective | None = None

    def begin(self) -> None:
        """The training of q0."""
        self._trees: list[Tree] = []
        self._words: list[list[str]] = []
        self._base: Trainer[Any] | None = self._grammar_trainer([self._data])
        self._grammar: LatentGrammar | None = None
        self._statistics: FragmentStatistics | None = None
        self._dual: DualCoordinateDescent | None = None
        self._weights: FragmentWeights | None = None
        self._estimated = self.settings.start == "zero"
        self._bounds = fold_bounds(self._data.n_trees, self.settings.folds)
        self._forests: list[TrainingForests] = []
        self._n_forests = 0  # folds that have had theirs; after `resume` they are made again
        self._optimizer: LBFGS | None = None
        self.left_out = 0

    def iterate(self) -> bool:
        """A part of the training. Raises StructlearnError if the base is no distribution."""
        if self._grammar is None:
            self._round()
        elif not self._estimated:
            self._estimate()
        elif self._n_forests < self._n_folds:
            self._make_forests(self._n_forests + 1)
        else:
            self._climb()
        self.n_iterations += 1
        if self._grammar is None or not self._estimated:
            return True
        return bool(self.settings.conditional_iterations) and not self._climbed

    def parameters(self) -> FragmentGrammar:
        """The grammar so far."""
        grammar = self._grammar
        if grammar is None:
            assert self._base is not None
            return FragmentGrammar(self._base.parameters())
        return FragmentGrammar(grammar, fragments=self._current_weights())

    def _current_weights(self) -> FragmentWeights | None:
        if self._dual is not None:
            return self._gather().estimate(self._dual.w, self.settings.scaling)
        if self._optimizer is not None and self._weights is not None:
            return self._weights.with_weights(self._optimizer.x)
        return self._weights

    # --- steps --------------------------------------------------------------------------------
    @property
    def _n_folds(self) -> int:
        return len(self._bounds) - 1

    @property
    def _climbed(self) -> bool:
        """Whether conditional likelihood is as high as it is to get."""
        optimizer = self._optimizer
        if optimizer is None:
            return False
        most = self.settings.conditional_iterations
        return optimizer.status != "running" or optimizer.n_iterations >= most

    def _grammar_trainer(self, data: Trees) -> Trainer[Any]:
        return self.settings.base.trainer(None, data, make_engine=self.make_engine)

    def _round(self) -> None:
        assert self._base is not None
        base = self._base
        base.on_iteration = lambda _, phase, i, value: self.report(0, phase, i, value)
        more = base.step()
        self.value = base.value
        if not more:
            self._grammar = base.parameters()
            self._base = None

    def _gather(self) -> FragmentStatistics:
        if self._statistics is None:
            assert self._grammar is not None
            self._statistics = FragmentStatistics(self.settings, self._grammar, self._data)
        return self._statistics

    def _estimate(self) -> None:
        settings = self.settings
        statistics = self._gather()
        if self._dual is None:
            self._dual = self._new_dual(statistics)
        dual = self._dual
        for _ in range(PASSES):
            more = dual.n_iterations < settings.max_iterations and dual.step()
            self.value = dual.value
            self.report(0, "m_estimation", dual.n_iterations, -self.value)
            if not more or dual.n_iterations >= settings.max_iterations:
                self._estimated = True
                self._weights = statistics.estimate(dual.w, settings.scaling)
                self._dual = self._statistics = None
                break

    def _new_dual(self, statistics: FragmentStatistics) -> DualCoordinateDescent:
        settings = self.settings
        return statistics.optimizer(
            settings.l2,
            scaling=settings.scaling,
            tolerance=settings.tolerance,
            seed=settings.seed,
        )

    def _make_forests(self, folds: int) -> None:
        """Those of so many folds that are not there yet."""
        if not self._trees:
            self._trees = [to_tree(self._data, number) for number in range(self._data.n_trees)]
            self._words = words_of(self._data)
        while len(self._forests) < folds:
            self._forests.append(self._forests_of(len(self._forests)))
        self._n_forests = folds
        parsed = sum(len(part.numbers) for part in self._forests)
        self.left_out = self._bounds[folds] - parsed
        self.value = sum(part.loss for part in self._forests) / max(parsed, 1)

    def _forests_of(self, fold: int) -> TrainingForests:
        settings, grammar = self.settings, self._grammar
        assert grammar is not None
        begin, end = self._bounds[fold : fold + 2]
        parser = grammar
        if self._n_folds > 1:
            trainer = self._grammar_trainer([self._trees[:begin] + self._trees[end:]])
            trainer.on_iteration = lambda _, phase, i, value: self.report(fold + 1, phase, i, value)
            while trainer.step():
                pass
            parser = trainer.parameters()
        return training_forests(
            parser,
            grammar,
            self._words,
            self._trees,
            np.arange(begin, end),
            threshold=settings.threshold,
            threads=settings.threads,
            report=lambda done, loss: self.report(fold + 1, "forests", done, -loss),
        )

    def _climb(self) -> None:
        settings = self.settings
        if self._weights is None:
            self._weights = self._gather().weights
            self._statistics = None
        if self._objective is None:
            self._make_forests(self._n_forests)
            assert self._grammar is not None
            self._objective = FragmentObjective(
                TrainingForests.joined(self._forests),
                self._words,
                FragmentScorer(self._weights, self._grammar.symbols),
                l2=settings.conditional_l2,
                threads=settings.threads,
            )
            self._forests = []
        if self._optimizer is None:
            start = self._weights.values
            if settings.start == "m_estimate":
                start = shrunk(self._objective, start)
            self._optimizer = LBFGS(start)
        optimizer = self._optimizer
        for _ in range(ITERATIONS):
            optimizer.step(self._objective.value_and_grad)
            self.value = float(optimizer.value or 0.0)
            self.report(0, "conditional", optimizer.n_iterations, -self.value)
            if self._climbed:
                break

    def close(self) -> None:
        """Let go of what only training needs."""
        self._statistics, self._trees, self._words = None, [], []
        if self._objective is not None:
            self._objective.close()
            self._objective = None

    # --- state --------------------------------------------------------------------------------
    def state(self) -> dict[str, Any]:
        """Counts, expectations and forests are no part of it: they are made again."""
        return {
            "base": _nested(self._base),
            "grammar": _nested(self._grammar),
            "dual": _nested(self._dual),
            "optimizer": _nested(self._optimizer),
            "weights": None if self._weights is None else self._weights.values,
            "estimated": self._estimated,
            "n_forests": self._n_forests,
        }

    def restore(self, state: dict[str, Any]) -> bool | None:
        self.begin()
        self._objective = None
        base, grammar, dual, optimizer = (
            None if state[name] is None else state[name].tobytes()
            for name in ("base", "grammar", "dual", "optimizer")
        )
        if grammar is None:
            assert self._base is not None
            if not self._base.resume(base):
                return False
        else:
            self._grammar, self._base = LatentGrammar.from_bytes(grammar), None
        if dual is not None:
            new = self._new_dual(self._gather()).objective
            self._dual = DualCoordinateDescent.from_bytes(dual, new.counts, new.expectations)
        if state["weights"] is not None:
            self._weights = self._gather().weights.with_weights(state["weights"])
            self._statistics = None
        if optimizer is not None:
            self._optimizer = LBFGS.from_bytes(optimizer)
        self._estimated = serialization.flag(state["estimated"])
        self._n_forests = int(state["n_forests"])
        return None


def _nested(part: Any) -> Any:
    return None if part is None else serialization.nested(part.to_bytes())
