"""M-estimation of grammars: a log-linear model of trees, trained without parsing a sentence.

Smith, Vail & Lafferty (2007), section 4.1.2, describe the method for PCFGs. The model is a base
grammar q0, corrected by features of fragments of trees (equation 2),

    p_w(x, y) = q0(x, y) exp(w.f(x, y)) / Z(w)

and w minimises the objective of `optimize.m_estimation` (equation 3). This needs two statistics,
which are computed once: the features of each tree of the treebank and their expectations under q0.
Each iteration is then a pass over sparse counts. To parse, the forest that q0 leaves of a sentence
is rescored by the variational distribution of q0 and the features (`weights`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from ...learning.training import Trainer
from ...optimize.lbfgs import Vector
from ...optimize.m_estimation import DualCoordinateDescent
from ..chart.hypergraph import Floats
from ..discriminative.training import trainer_of_one
from ..latent import training as latent
from ..latent.model import LatentGrammar
from ..latent.settings import LatentGrammarSettings
from ..latent.stages import StagedTrainer
from ..spans.word_attributes import vocabulary
from ..treebank.data import TreebankData
from ..treebank.settings import Trees
from .expectations import FragmentExpectations, Words
from .features import BOUNDARY, FeatureHasher, FragmentTemplates, sites_of_trees
from .settings import PASSES, MEstimatedGrammarSettings
from .weights import FragmentGrammar, FragmentWeights


class FragmentStatistics:
    """The statistics of a treebank that M-estimation needs, whatever the penalty.

    settings: their fields on features.
    grammar: q0, trained on the same trees.
    data: the trees.

    weights: the features, with weights of 0.
    counts: F, float64 (n_trees, n_features), a SciPy CSR array.
    expectations: E, float64 (n_features); `expected` computed them.

    Raises StructlearnError as `FragmentExpectations` does.
    """

    def __init__(
        self, settings: MEstimatedGrammarSettings, grammar: LatentGrammar, data: TreebankData
    ):
        sentences = data.sentences
        templates = FragmentTemplates(settings.templates)
        known = vocabulary(sentences, settings.min_word_count)
        symbols = grammar.symbols
        hasher = FeatureHasher(templates, known)
        sites = sites_of_trees(data, templates)
        tree = np.repeat(np.arange(data.n_trees), np.diff(data.offsets))
        attributes = hasher.attributes(sentences)
        self.expected = FragmentExpectations(grammar, _distinct(sentences, hasher), BOUNDARY)
        rows, columns, keys, expectations = [], [], [], []
        n = 0
        for template in templates.all:
            having, every = hasher.features(template, sites, attributes)
            distinct, first, which, counts = np.unique(
                every, return_index=True, return_inverse=True, return_counts=True
            )
            frequent = counts >= settings.min_count
            number = np.cumsum(frequent) - 1 + n
            is_frequent = frequent[which]
            rows.append(tree[having[is_frequent]])
            columns.append(number[which[is_frequent]])
            keys.append(distinct[frequent])
            examples = sites.select(having[first[frequent]])
            expectations.append(self.expected.of(template, examples, attributes))
            n += len(keys[-1])
        # Sort the keys of all templates together.
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
        """Return the optimiser of the objective; pass its weights to `estimate`.

        The penalty on a feature that occurs m times in a tree on average is l2 m^scaling.
        """
        scales = self._scales(scaling)
        counts = self.counts if not scaling else (self.counts * scales).tocsr()
        expectations = self.expectations * scales
        return DualCoordinateDescent(
            counts, expectations, c=1.0 / l2, tolerance=tolerance, seed=seed
        )

    def estimate(self, w: Vector, scaling: float = 0.0) -> FragmentWeights:
        """Convert the weights w of an `optimizer` with this scaling to weights of features."""
        return self.weights.with_weights(w * self._scales(scaling))

    def _scales(self, scaling: float) -> Vector:
        """Factors of the features, float64 (n), with which one penalty suits all."""
        means = np.asarray(self.counts.sum(axis=0)) / self.counts.shape[0]
        return means ** (-scaling / 2.0)


def _distinct(sentences: Sequence[Sequence[str]], hasher: FeatureHasher) -> Words:
    counts = Counter(word for sentence in sentences for word in sentence)
    texts = list(counts)
    # As one sentence, without the boundaries at both ends.
    hashes = hasher.attributes([texts])[1:-1]
    return Words(texts, np.array(list(counts.values())), hasher.templates.attributes, hashes)


# --- the trainer ----------------------------------------------------------------------------------
def initialize(
    settings: MEstimatedGrammarSettings,
    data: Trees,
    labels: Sequence[str] = (),
    previous: FragmentGrammar | None = None,
) -> FragmentGrammar:
    """Return the treebank grammar, without features; `labels` and `previous` are not used."""
    return FragmentGrammar(latent.initialize(settings.base, data))


def trainer(settings: MEstimatedGrammarSettings, parameters: Any, data: Trees) -> Trainer[Any]:
    """Return a trainer that starts from scratch, whatever `parameters` are."""
    return MEstimatedGrammarTrainer(settings, data)


class MEstimatedGrammarTrainer(StagedTrainer[MEstimatedGrammarSettings]):
    """Trains q0, then the M-estimate. A step is a round of q0, or `PASSES` passes over the trees.

    `value` is that of the grammar's own trainer, then the objective of M-estimation.
    """

    def __init__(self, settings: MEstimatedGrammarSettings, data: Trees):
        super().__init__(settings, data, trainer_of_one)

    @property
    def grammar_settings(self) -> LatentGrammarSettings:
        """The settings of the base distribution."""
        return self.settings.base

    def begin(self) -> None:
        super().begin()
        self._statistics: FragmentStatistics | None = None
        self._dual: DualCoordinateDescent | None = None

    def iterate(self) -> bool:
        """Do one step. Raises StructlearnError if q0 is not a proper distribution."""
        more = True
        if not self.has_grammars:
            self.train_grammar()
        else:
            more = self._descend()
        self.n_iterations += 1
        return more

    def _descend(self) -> bool:
        if self._dual is None:
            self._dual = self._new_dual()
        dual, most = self._dual, self.settings.max_iterations
        for _ in range(PASSES):
            more = dual.n_iterations < most and dual.step()
            self.value = dual.value
            self.report(-self.value)
            if not more or dual.n_iterations >= most:
                return False
        return True

    def parameters(self) -> FragmentGrammar:
        """Return the present grammar."""
        weights = None
        if self._dual is not None:
            weights = self._gather().estimate(self._dual.w, self.settings.scaling)
        return FragmentGrammar(super().parameters(), fragments=weights)

    def _gather(self) -> FragmentStatistics:
        if self._statistics is None:
            assert self._first is not None
            self._statistics = FragmentStatistics(self.settings, self._first, self._data)
        return self._statistics

    def _new_dual(self) -> DualCoordinateDescent:
        names = ("scaling", "tolerance", "seed")
        options = {name: getattr(self.settings, name) for name in names}
        return self._gather().optimizer(self.settings.l2, **options)

    def state(self) -> dict[str, Any]:
        """Return the state, without the statistics, which are computed again."""
        return super().state() | {"dual": self._dual}

    def restore(self, state: dict[str, Any]) -> bool | None:
        self.begin()
        if super().restore(state) is False:
            return False
        if state["dual"] is not None:
            if not self.has_grammars:
                raise ValueError("weights without a grammar")
            new = self._new_dual().objective
            data = new.counts, new.expectations
            self._dual = DualCoordinateDescent.from_bytes(state["dual"], *data)
        return None
