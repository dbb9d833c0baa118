"""M-estimation of grammars: a log-linear model of trees, trained without parsing a sentence.

Smith, Vail & Lafferty (2007), section 4.1.2, which describes it for PCFGs: the model is a base
grammar q0, corrected by features of fragments of trees (equation 2),

    p_w(x, y) = q0(x, y) exp(w.f(x, y)) / Z(w)

and w minimises the objective of `optimize.m_estimation` (equation 3), for which two things are
gathered once: how often each feature is in each tree of the treebank (`FragmentStatistics.counts`), and
how often q0 expects it (`expectations`). From there on an iteration is one pass over sparse counts. To
parse, the forest that q0 leaves is scored anew by q0, of a grammar with substates its variational
distribution, and the features (`fragment_weights`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import scipy.sparse

from .. import serialization
from ..errors import StructlearnError
from ..optimize.lbfgs import LBFGS, Vector
from ..optimize.m_estimation import DualCoordinateDescent
from ..trees.tree import Tree
from .estimators import Callback, SplitMerge
from .expectations import FragmentExpectations, Words
from .fragment_objective import FragmentObjective, shrunk
from .fragment_weights import FragmentFeatures, FragmentScorer, FragmentWeights
from .fragments import BOUNDARY, FeatureHasher, sites_of_trees
from .hypergraph import Floats
from .model import LatentGrammar
from .product import GrammarEstimator, GrammarTrainer, Product
from .span_grammar import REPORTS, TrainingForests, fold_bounds, outline, training_forests
from .span_model import SpanGrammar
from .symbols import TreebankData, to_tree

_KIND = "m_estimated_grammar_state"
_VERSION = 1
STARTS = ("m_estimate", "zero")
PASSES = 10  # through the trees in a step
ITERATIONS = 10  # of L-BFGS in a step


class FragmentStatistics:
    """What M-estimation needs of a treebank, for every strength of the regulariser.

    features: which there are. grammar: q0, learned of the same trees. data: these.
    Attributes: weights, all 0; counts, F, float64 (n_trees, n_features), in SciPy's CSR format;
    expectations, E, float64 (n_features); expected: what they come from.
    Raises StructlearnError SL440 or SL443, see `FragmentExpectations`.
    """

    def __init__(self, features: FragmentFeatures, grammar: LatentGrammar, data: TreebankData):
        sentences = words_of(data)
        templates = features.texts()
        vocabulary = features.vocabulary(sentences)
        symbols = grammar.symbols
        hasher = FeatureHasher(templates, vocabulary)
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
            vocabulary,
            np.concatenate(keys)[order],
            np.zeros(n, dtype=np.float32),
        )

    def optimizer(
        self, c: float, *, scaling: float = 0.0, tolerance: float = 1e-4, seed: int = 0
    ) -> DualCoordinateDescent:
        """The minimisation of the objective with this regulariser; for `estimate`.

        The prior variance of a feature that is in a tree m times on the average is c / m^scaling.
        """
        scales = self._scales(scaling)
        counts = self.counts if not scaling else (self.counts * scales).tocsr()
        expectations = self.expectations * scales
        return DualCoordinateDescent(counts, expectations, c=c, tolerance=tolerance, seed=seed)

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


@dataclass(frozen=True)
class MEstimation:
    """How an M-estimated grammar is learned.

    base: of q0, one grammar. features: which there are. c: the variance of the prior on the weight
    of a feature that is once in a tree; of one that is there m times, on the average, it is
    c / m^scaling, since what is rare has to be far from q0 to matter; 0: the paper's, c for all.
    tolerance: of the duality gap; max_passes: through the trees, at most.
    conditional_iterations: so many of L-BFGS on the conditional likelihood follow, which parses the
    treebank; 0: none. l2: the penalty there, beside the sum over sentences, is l2 |w|^2, without
    one half. start: of these iterations, "m_estimate", of which some fraction is taken, or "zero",
    which leaves the M-estimate out. folds: for these the sentences are cut in so many blocks, in
    the order given, and those of each are parsed by a grammar of the others; 1: q0 parses all.
    threshold: posteriors below are pruned in the forests; it should be that of parsing. seed: of
    the order of the trees. threads: so many share the forests; the result is the same.
    Raises StructlearnError SL406 for a setting out of range, SL443 for a product of grammars.
    """

    base: GrammarEstimator = field(default_factory=lambda: SplitMerge(rounds=0))
    features: FragmentFeatures = field(default_factory=FragmentFeatures)
    c: float = 1.0
    scaling: float = 0.75
    tolerance: float = 1e-4
    max_passes: int = 50
    conditional_iterations: int = 0
    l2: float = 1.0
    start: str = "m_estimate"
    folds: int = 5
    threshold: float = 1e-2
    seed: int = 0
    threads: int = 1

    attributes: ClassVar[tuple[str, ...]] = ("ORTH",)

    def __post_init__(self) -> None:
        for name, wanted, sound in (
            ("c", "more than 0, and finite", 0 < self.c < np.inf),
            ("scaling", "0 or more", 0 <= self.scaling < np.inf),
            ("tolerance", "0 or more", 0 <= self.tolerance < np.inf),
            ("max_passes", "0 or more", self.max_passes >= 0),
            ("conditional_iterations", "0 or more", self.conditional_iterations >= 0),
            ("l2", "0 or more", 0 <= self.l2 < np.inf),
            ("start", " or ".join(STARTS), self.start in STARTS),
            ("folds", "1 or more", self.folds >= 1),
            ("threshold", "0 to 1", 0 <= self.threshold <= 1),
            ("seed", "0 or more", self.seed >= 0),
            ("threads", "1 or more", self.threads >= 1),
        ):
            if not sound:
                value = getattr(self, name)
                raise StructlearnError("SL406", name=name, wanted=wanted, value=value)
        if isinstance(self.base, Product):
            raise StructlearnError("SL443", members=self.base.grammars)

    @property
    def max_iterations(self) -> int:
        """Calls of `on_iteration` and steps after which there is another, at most."""
        found = self.base.max_iterations + 1 + self.max_passes + self.max_passes // PASSES + 1
        if self.conditional_iterations:
            fold = self.base.max_iterations + REPORTS + 2
            found += self.folds * fold + 2 * self.conditional_iterations
        return found

    def encode(self, data: Sequence[Tree | Sequence[Tree] | TreebankData]) -> TreebankData:
        """All trees of `data`; see `SplitMerge`."""
        return self.base.encode(data)

    def initialize(
        self,
        data: Sequence[Tree | Sequence[Tree] | TreebankData],
        labels: Sequence[str] = (),
        previous: SpanGrammar | None = None,
    ) -> SpanGrammar:
        """The treebank grammar, without features; see `SplitMerge`."""
        return SpanGrammar(self.base.initialize(data, labels))

    def trainer(
        self,
        parameters: SpanGrammar | None,
        data: Sequence[Tree | Sequence[Tree] | TreebankData],
    ) -> MEstimationTrainer:
        """Training from the treebank grammar on; it follows from the data alone."""
        return MEstimationTrainer(self, self.encode(data))


class MEstimationTrainer:
    """q0, then the M-estimate, then what may follow: forests, and conditional likelihood.

    A step is a round of q0, some passes through the trees, the forests of a fold, or some
    iterations of L-BFGS. value: of a grammar, see its own trainer; then the objective of
    M-estimation; of forests the mean loss in nats a sentence if all weights were 0; then the
    conditional objective. n_iterations: steps so far. left_out: sentences without a forest.
    on_iteration: called between the parts of a step with a number, the phase, the iteration in it,
    and minus a value: in the phases of the grammars' own trainers the number is that of the fold,
    from 1, or 0 for q0, in "m_estimation" 0, in "forests" that of the fold, and in "conditional" 0.
    """

    def __init__(self, settings: MEstimation, data: TreebankData):
        self.settings = settings
        self.on_iteration: Callback | None = None
        self._begin(data)

    def _begin(self, data: TreebankData) -> None:
        self._data = data
        self._trees: list[Tree] = []
        self._words: list[list[str]] = []
        self._base: GrammarTrainer | None = self.settings.base.trainer(None, [data])
        self._grammar: LatentGrammar | None = None
        self._statistics: FragmentStatistics | None = None
        self._dual: DualCoordinateDescent | None = None
        self._weights: FragmentWeights | None = None
        self._estimated = self.settings.start == "zero"
        self._bounds = fold_bounds(data.n_trees, self.settings.folds)
        self._forests: list[TrainingForests] = []
        self._n_forests = 0  # folds that have had theirs; after `resume` they are made again
        self._objective: FragmentObjective | None = None
        self._optimizer: LBFGS | None = None
        self.left_out = 0
        self.value = 0.0
        self.n_iterations = 0

    def add(self, data: Sequence[Tree | Sequence[Tree] | TreebankData]) -> None:
        """More trees: training begins again; see `SplitMergeTrainer.add`."""
        self._begin(self.settings.encode([self._data, *data]))

    def step(self) -> bool:
        """A part of the training. Returns False once all is done.

        Raises StructlearnError SL440 if the base is no distribution of trees.
        """
        if self._done:
            return False
        if self._grammar is None:
            self._round()
        elif not self._estimated:
            self._estimate()
        elif self._n_forests < self._n_folds:
            self._make_forests(self._n_forests + 1)
        else:
            self._climb()
        self.n_iterations += 1
        if self._done:
            self._close()
        return not self._done

    def parameters(self) -> SpanGrammar:
        """The grammar so far."""
        grammar = self._grammar
        if grammar is None:
            assert self._base is not None
            return SpanGrammar(self._base.parameters())
        return SpanGrammar(grammar, fragments=self._current_weights())

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
    def _done(self) -> bool:
        if self._grammar is None or not self._estimated:
            return False
        return not self.settings.conditional_iterations or self._climbed

    @property
    def _climbed(self) -> bool:
        """Whether conditional likelihood is as high as it is to get."""
        optimizer = self._optimizer
        if optimizer is None:
            return False
        most = self.settings.conditional_iterations
        return optimizer.status != "running" or optimizer.n_iterations >= most

    def _round(self) -> None:
        assert self._base is not None
        base = self._base
        base.on_iteration = lambda _, phase, i, value: self._report(0, phase, i, value)
        more = base.step()
        self.value = base.value
        if not more:
            self._grammar = base.parameters()
            self._base = None

    def _gather(self) -> FragmentStatistics:
        if self._statistics is None:
            assert self._grammar is not None
            self._statistics = FragmentStatistics(self.settings.features, self._grammar, self._data)
        return self._statistics

    def _estimate(self) -> None:
        settings = self.settings
        statistics = self._gather()
        if self._dual is None:
            self._dual = self._new_dual(statistics)
        dual = self._dual
        for _ in range(PASSES):
            more = dual.n_iterations < settings.max_passes and dual.step()
            self.value = dual.value
            self._report(0, "m_estimation", dual.n_iterations, -self.value)
            if not more or dual.n_iterations >= settings.max_passes:
                self._estimated = True
                self._weights = statistics.estimate(dual.w, settings.scaling)
                self._dual = self._statistics = None
                break

    def _new_dual(self, statistics: FragmentStatistics) -> DualCoordinateDescent:
        settings = self.settings
        return statistics.optimizer(
            settings.c,
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
            trainer = settings.base.trainer(None, [self._trees[:begin] + self._trees[end:]])
            trainer.on_iteration = lambda _, phase, i, value: self._report(
                fold + 1, phase, i, value
            )
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
            report=lambda done, loss: self._report(fold + 1, "forests", done, -loss),
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
                l2=settings.l2,
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
            self._report(0, "conditional", optimizer.n_iterations, -self.value)
            if self._climbed:
                break

    def _close(self) -> None:
        """Let go of what only training needs."""
        self._statistics, self._trees, self._words = None, [], []
        if self._objective is not None:
            self._objective.close()
            self._objective = None

    def _report(self, number: int, phase: str, iteration: int, value: float) -> None:
        if self.on_iteration is not None:
            self.on_iteration(number, phase, iteration, value)

    # --- state --------------------------------------------------------------------------------
    def to_bytes(self) -> bytes:
        """The state of the training, to go on bit for bit with the same data and settings.

        Counts, expectations and forests are no part of it: they are made again.
        """
        base, grammar, dual, optimizer = self._base, self._grammar, self._dual, self._optimizer
        own = {
            "fingerprint": self._identity(),
            "base": None if base is None else serialization.nested(base.to_bytes()),
            "grammar": None if grammar is None else serialization.nested(grammar.to_bytes()),
            "dual": None if dual is None else serialization.nested(dual.to_bytes()),
            "estimated": self._estimated,
            "weights": None if self._weights is None else self._weights.values,
            "n_forests": self._n_forests,
            "optimizer": None if optimizer is None else serialization.nested(optimizer.to_bytes()),
            "n_iterations": self.n_iterations,
            "value": self.value,
        }
        return serialization.pack(_KIND, _VERSION, own)

    def resume(self, state: bytes) -> bool:
        """Go on from `to_bytes`. Returns False if the state is of other data or settings.

        What is no part of it is made again by the next step. Raises StructlearnError SL050 to SL054
        if the bytes are no such state.
        """
        _, own = serialization.unpack(state, _KIND, {_VERSION})
        if own.get("fingerprint") != self._identity():
            return False
        # What is read may turn out to be damaged at its end: until then it is another trainer's.
        fresh = MEstimationTrainer(self.settings, self._data)
        with serialization.reading(_KIND):
            if not fresh._read(own):
                return False
        fresh.on_iteration = self.on_iteration
        self._close()
        vars(self).update(vars(fresh))
        return True

    def _read(self, own: dict[str, Any]) -> bool:
        """See `resume`; for a trainer that has not begun."""
        if own["grammar"] is None:
            assert self._base is not None
            if not self._base.resume(own["base"].tobytes()):
                return False
        else:
            self._grammar = LatentGrammar.from_bytes(own["grammar"].tobytes())
            self._base = None
        if own["dual"] is not None:
            new = self._new_dual(self._gather()).objective
            self._dual = DualCoordinateDescent.from_bytes(
                own["dual"].tobytes(), new.counts, new.expectations
            )
        if own["weights"] is not None:
            self._weights = self._gather().weights.with_weights(own["weights"])
            self._statistics = None
        if own["optimizer"] is not None:
            self._optimizer = LBFGS.from_bytes(own["optimizer"].tobytes())
        self._estimated = serialization.flag(own["estimated"])
        self._n_forests = int(own["n_forests"])
        self.n_iterations, self.value = int(own["n_iterations"]), float(own["value"])
        return True

    def _identity(self) -> str:
        """Equal for equal trees and settings, but for threads and conditional_iterations."""
        same = replace(self.settings, conditional_iterations=0)
        text = repr((outline(same), self._data.digest()))
        return blake2b(text.encode(), digest_size=16).hexdigest()
