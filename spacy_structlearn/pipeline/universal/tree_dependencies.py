"""Dependencies in `nlp(text)`: `token.head` and `token.dep`, from the trees of a Doc.

In each phrase one child is the head child, and every other child depends on one of its sisters
(`dependencies`). Classifiers of these choices give each word a distribution over heads, which is
summed over the most probable trees of the parser. With the setting `encoder`, a site scorer of
arcs is pooled with it. The dependency tree is the one with the most expected right arcs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import DEP, HEAD, IS_SPACE, SENT_START
from spacy.tokens import Doc
from spacy.training import Example

from ...arrays import Coded, cumulative
from ...classification.calibration import fit_pool, pooled
from ...classification.features import ClassificationData, Table
from ...dependencies.arcs import LEAST, MOST_WORDS, Arcs, best_trees, pooled_arcs, summed
from ...dependencies.choosing import YES, PossibleArcs, arc_sites, gold_choices, possible_arcs
from ...dependencies.features import LABEL, STAGES, Columns
from ...dependencies.phrases import PhraseTrees
from ...encoder import pool
from ...errors import StructlearnError
from ...groups import CONSTITUENTS, DEPENDENCIES
from ...kernels.index import mix_pairs, number_keys
from ...learning.settings import setting
from ...trees.heads import COLLINS, HeadRules
from ...trees.nodes import Brackets
from .. import extensions
from ..doc_arrays import gold_trees, has_gold_tokens, is_tagged, missing_for_trees, read_vectors
from ..extensions import set_spans
from ..scorers import dependency_score
from ..storage.alternatives import SeveralTrees, several_trees
from ..training.batch_trainable import BatchTrainable
from ..training.factories import ComponentSettings, factory
from ..training.gold_sites import NONE, gold_words

DEFAULT_MODEL = {
    "@architectures": "spacy_structlearn.Stages.v1",
    "order": list(STAGES),
    "stages": {
        stage: {
            "@architectures": "spacy_structlearn.LogLinear.v1",
            "l2": 1.0,
            "templates": {"@misc": "spacy_structlearn.dependency_templates.v1", "stage": stage},
        }
        for stage in STAGES
    },
}
ROOT = "ROOT"  # spaCy's label of the root
SPACE = "dep"  # and of white space
ARCS = "arcs"  # what the site scorer scores
TOGETHER = 8192  # words, whose features fit into a processor's cache

extensions.register()


@dataclass(frozen=True, kw_only=True)
class TreeDependenciesSettings(ComponentSettings):
    """Predict the head of each word and its dependency label.

    The model is Stages with the stages "heads", whether a child of a phrase is its head child,
    "sisters", whether a child depends on a sister, and "labels", those of arcs.
    """

    name: ClassVar[str] = "tree_dependencies"
    iterations_per_step: int = setting(
        50, ge=1, help="Number of iterations of the learners in one `nlp.update`."
    )
    subtypes: bool = setting(
        False,
        help='Whether subtypes of labels are learned, such as "nmod:poss". Otherwise it is "nmod".',
    )
    head_rules: HeadRules = setting(
        COLLINS, help="Head rules of the treebank, which features read."
    )


class Reading(NamedTuple):
    """The dependencies of a Doc over its tokens without white space.

    words: their tokens. heads: tokens. labels: the labels of the arcs. probabilities: of the heads.
    """

    words: NDArray[np.int64]
    heads: NDArray[np.int64]
    labels: Coded
    probabilities: NDArray[np.float64]


class _Found(NamedTuple):
    """The possible arcs in the trees of some Docs, and their sums over these.

    others: of each sum, the probabilities of no arc and of the labels of the last stage in the site
        scorer, float64 (n_arcs, 1 + n_labels); None without one.
    """

    trees: SeveralTrees
    possible: PossibleArcs
    arcs: Arcs
    others: Any


class TreeDependencies(BatchTrainable):
    """Predicts the heads of words and their dependency labels.

    Reads the groups "constituents" and "constituent_tags", or else `token.tag`, and `doc.sents` if
    they are set. Each sentence gets exactly one root. Sentence boundaries do not change.
    """

    parameter = "stages"
    settings_kind = TreeDependenciesSettings
    heads: ClassVar[Collection[str]] = (ARCS,)
    cfg_types: ClassVar[dict[str, Any]] = {
        **BatchTrainable.cfg_types,
        "calibration": tuple[float, float] | None,
    }

    def __init__(self, *args: Any, scorer: Callable | None = dependency_score, **settings: Any):
        super().__init__(*args, scorer=scorer, **settings)
        if self.parameters.stages != STAGES:
            found = ", ".join(self.parameters.stages) or "none"
            wanted = ", ".join(STAGES)
            raise StructlearnError("SL047", component=self.name, found=found, wanted=wanted)
        self.cfg["calibration"] = None

    # --- training -----------------------------------------------------------------------------
    @property
    def annotation(self) -> str:
        return f'token.head and token.dep, and trees in doc.spans["{CONSTITUENTS}"],'

    def _strings(self) -> Iterable[str]:
        return (ROOT, SPACE, *self.labels)

    def _label(self, text: str) -> str | None:
        """Get what is learned of a gold label; None for the label of a root."""
        label = text if self.subtypes else text.partition(":")[0] or text
        return None if label.upper() == ROOT else label

    def gold_labels(self, example: Example) -> Iterable[str]:
        if CONSTITUENTS not in _parsed(example).spans:
            return ()
        tokens = (token for token in example.reference if token.dep and not token.is_space)
        labels = {self._label(token.dep_) for token in tokens}
        return {label for label in labels if label is not None}

    def gold_data(self, example: Example) -> dict[str, ClassificationData] | None:
        """Convert the reference to the choices of each stage.

        The trees and their tags are those of the predicted Doc if it has any and the tokens of the
        reference, and otherwise those of the reference. Sentences without a complete tree are left
        out, and their number is logged.
        """
        doc, reference = _parsed(example), example.reference
        if CONSTITUENTS not in doc.spans or not reference.has_annotation("DEP"):
            return None
        self._check(doc)
        pairs = gold_trees(doc, self.name)
        words, heads = gold_words(pairs, reference)
        known = {*self.labels}
        labels = [label if (label := self._label(t.dep_)) in known else None for t in words]
        if not words:
            return None
        phrases = PhraseTrees(Brackets.of(tree for _, tree in pairs), self.head_rules)
        choices = gold_choices(phrases, np.array(heads, dtype=np.int64), labels)
        data = {
            stage: ClassificationData(_table(columns), tuple(answers))
            for stage, (columns, answers) in choices.items()
            if answers
        }
        return data or None

    def calibrate(self, examples: Iterable[Example]) -> tuple[float, float]:
        """Fit the probabilities of arcs to gold arcs that were not trained on.

        examples: Examples whose predicted Docs have trees predicted by the parser. Only those with
            the tokens of the reference are used.
        Returns a constant and a weight of the log-odds. Raises StructlearnError unless some arcs
        are right and some are wrong.
        """
        self.require_parameters()
        examples = [e for e in examples if e.reference.has_annotation("DEP") and has_gold_tokens(e)]
        super().calibrate(examples)
        probabilities, right = [], []
        before, self.cfg["calibration"] = self.cfg["calibration"], None
        try:
            readings = self.predict([example.predicted for example in examples])
        finally:
            self.cfg["calibration"] = before
        for example, reading in zip(examples, readings, strict=True):
            gold = example.reference
            for i, head, _, p in zip(*reading, strict=True):
                if gold[i].dep:
                    probabilities.append([p])
                    right.append(gold[i].head.i == head)
        if len(set(right)) < 2:
            raise StructlearnError("SL049", component=self.name)
        # Rounded to what JSON stores, so that saving and loading changes nothing.
        weights = [round(float(weight), 6) for weight in fit_pool(probabilities, right)]
        self.cfg["calibration"] = weights
        return weights[0], weights[1]

    def pool_losses(self, examples: Sequence[Example]) -> dict[str, list[pool.Loss]]:
        trees, _, arcs, others = self._find([example.predicted for example in examples])
        tokens, gold = trees.rows, [e.reference for e in examples]
        heads = [
            first + token.head.i if token.dep else -1
            for first, doc in zip(tokens.firsts.tolist(), gold, strict=False)
            for token in doc
        ]
        own = tokens.indices
        right = own[arcs.heads] == np.array(heads, dtype=np.int64)[own][arcs.dependents]
        return {ARCS: [lambda w: pool.log_loss(pooled_arcs(arcs, others, w).weights[right])]}

    # --- prediction ---------------------------------------------------------------------------
    def predict(self, docs: Sequence[Doc]) -> list[Reading]:
        """Predict the dependencies of each Doc; the trees of many Docs are read together.

        Raises StructlearnError for a Doc without constituents or without tags.
        """
        self.require_parameters()
        for doc in docs:
            self._check(doc)
        begins = cumulative(np.array([*map(len, docs)], dtype=np.int64))[:-1]
        bounds = [*np.unique(begins // TOGETHER, return_index=True)[1].tolist(), len(docs)]
        return [reading for b, e in pairwise(bounds) for reading in self._predict(docs[b:e])]

    def _predict(self, docs: Sequence[Doc]) -> list[Reading]:
        trees, possible, arcs, others = self._find(docs)
        origins = trees.origins
        if others is not None:
            arcs = pooled_arcs(arcs, others, self.site_scorers[ARCS].weights)
        fallback = np.empty(len(trees.rows.positions), dtype=np.int64)
        if np.diff(trees.rows.offsets).max(initial=0) > MOST_WORDS:
            # In reverse, so that the first tree of each sentence is the last one written.
            fallback[origins[::-1]] = origins[possible.best][::-1]
        rows = best_trees(arcs, trees.rows.offsets, fallback)
        heads, sources = arcs.heads[rows], arcs.rows[rows]
        labels = self._labels_of(possible, sources, others if others is None else others[rows])
        probabilities = arcs.weights[rows].clip(LEAST, 1.0)
        if self.cfg["calibration"] is not None and len(rows):
            probabilities = pooled(probabilities[:, None], self.cfg["calibration"])
        positions, ends = trees.rows.positions, trees.rows.offsets[trees.rows.docs].tolist()
        own, of_heads = [slice(b, e) for b, e in pairwise(ends)], positions[heads]
        return [Reading(positions[x], of_heads[x], labels.at(x), probabilities[x]) for x in own]

    def _find(self, docs: Sequence[Doc]) -> _Found:
        """Find the possible arcs of Docs."""
        trees = several_trees(docs)
        possible = possible_arcs(PhraseTrees(trees.brackets, self.head_rules), self._score)
        weights, origins = trees.weights[trees.tree_ids], trees.origins
        own = possible.dependents
        arcs = summed(
            origins[np.append(own, possible.roots)],
            origins[np.append(possible.heads, possible.roots)],
            np.append(weights[own] * possible.probabilities, weights[possible.roots]),
            len(trees.rows.positions),
        )
        if (scorer := self.site_scorers.get(ARCS)) is None:
            return _Found(trees, possible, arcs, None)
        vectors = read_vectors(docs, trees.rows, self.name, self.site_scorers)
        wanted = [NONE, *(x.partition(":")[0] or x for x in self.parameters.labels)]
        sites = arc_sites(arcs.dependents, arcs.heads)
        # In double precision, because weights are fitted by differences.
        others = scorer.probabilities(vectors, sites, wanted).astype("f8")
        return _Found(trees, possible, arcs, others)

    def _labels_of(
        self, possible: PossibleArcs, rows: NDArray[np.int64], others: NDArray | None
    ) -> Coded:
        """Get the labels of arcs. rows: of the possible arcs; those behind are roots. others: see
        `_Found`."""
        named = np.flatnonzero(rows < len(possible.places))
        stage = self.parameters[LABEL]
        codes = np.full(len(rows), len(stage.labels))
        if len(named):
            columns = possible.labels(rows[named])
            found = stage.predict_proba(_table(columns, stage.used))
            if others is not None:
                # Trees are more certain than right; the classifier of labels is not.
                own, other = self.site_scorers[ARCS].weights
                weight = min(1.0, other / own) if own else 1.0
                found = pool.pooled(found, others[named, 1:], (1.0, weight))
            codes[named] = found.argmax(axis=1)
        return Coded([*stage.labels, ROOT, None], codes)

    def _score(self, stage: str, columns: Columns) -> NDArray[np.float64]:
        """Get the probability of YES of each row; equal ones if there was nothing to learn."""
        classifier = self.parameters[stage]
        n = len(next(iter(columns.values())))
        if YES not in classifier.labels:
            return np.full(n, 0.5)
        names = classifier.used
        # Most choices are the same in several trees of a sentence.
        firsts, numbers = number_keys(reduce(mix_pairs, map(columns.__getitem__, names)))
        found = classifier.predict_proba(_table(columns, names, firsts))
        return found[numbers, classifier.labels.index(YES)]

    def _check(self, doc: Doc) -> None:
        """Raise StructlearnError for a Doc without trees, or without tags."""
        missing = missing_for_trees(doc)
        if missing and not doc.to_array(IS_SPACE).all():
            text = doc.text[:40]
            raise StructlearnError("SL026", component=self.name, missing=missing, text=text)

    def set_annotations(self, docs: Sequence[Doc], readings: Sequence[Reading]) -> None:
        """Write the heads and labels of each Doc, and their probabilities.

        White space depends on the token before it, and at the beginning of a sentence on the first
        word; where there is no word, on itself.
        """
        if not docs:
            return
        # A Doc may have another vocab, with the same ids.
        for strings in {id(doc.vocab): doc.vocab.strings for doc in docs}.values():
            ids = {label: strings.add(label) for label in (SPACE, ROOT, *self.labels)}
        # Readings of one call share their texts.
        shared = {id(reading.labels.texts): reading.labels.texts[:-1] for reading in readings}
        of_texts = {key: np.array([ids[x] for x in own], np.uint64) for key, own in shared.items()}
        kinds = [of_texts[id(reading.labels.texts)][reading.labels.codes] for reading in readings]
        for doc, (words, *_, probabilities), own in zip(docs, readings, kinds, strict=True):
            spans = zip(own.tolist(), words.tolist(), (words + 1).tolist(), strict=True)
            set_spans(doc, DEPENDENCIES, spans, np.asarray(probabilities, dtype=np.float32))
        # All at once, because operations on few tokens are slow.
        bounds = cumulative(np.array([*map(len, docs)], dtype=np.int64))
        begins: Any = np.concatenate([doc.to_array(SENT_START) for doc in docs]) == 1
        begins[bounds[:-1][np.diff(bounds) > 0]] = True
        firsts = list(zip(bounds.tolist(), readings, strict=False))
        words = np.concatenate([first + reading.words for first, reading in firsts])
        n, tokens = len(begins), np.arange(len(begins))
        starts = np.append(np.flatnonzero(begins), n)
        found = np.append(words, n)[np.searchsorted(words, starts[:-1])]
        of_spaces = np.where(found < starts[1:], found, starts[:-1])[np.cumsum(begins) - 1]
        heads = np.where(tokens > of_spaces, tokens - 1, of_spaces)
        labels = np.full(n, ids[SPACE], dtype=np.uint64)
        heads[words] = np.concatenate([first + reading.heads for first, reading in firsts])
        labels[words] = np.concatenate(kinds)
        labels[heads == tokens] = ids[ROOT]
        columns: Any = np.stack([(heads - tokens).view(np.uint64), labels], axis=1)
        for doc, (begin, end) in zip(docs, pairwise(bounds.tolist()), strict=True):
            if end > begin:
                doc.from_array([HEAD, DEP], columns[begin:end])


def _parsed(example: Example) -> Doc:
    """Get the predicted Doc if it has trees over the tokens of the reference, or the reference."""
    predicted = example.predicted
    parsed = CONSTITUENTS in predicted.spans and is_tagged(predicted) and has_gold_tokens(example)
    return predicted if parsed else example.reference


def _table(columns: Columns, names: Iterable[str] | None = None, rows: Any = slice(None)) -> Table:
    names = tuple(columns if names is None else names)
    return Table(names, np.stack([columns[name][rows] for name in names]).T)


make_tree_dependencies = factory(
    TreeDependencies,
    model=DEFAULT_MODEL,
    scorer="spacy_structlearn.dependency_scorer.v1",
    scores=["dep_las", "dep_uas"],
    blocks={"head_rules": {"@misc": "spacy_structlearn.collins_head_rules.v1"}},
    assigns=["token.head", "token.dep", "doc.spans", "token._.dep_prob"],
    requires=["doc.spans"],
)
