"""The stages of the role labeler: their templates, and how they find the frames of trees.

Which words are predicates, which sense (roleset) each one has, which phrases are its arguments
(identification), and which roles these have. The templates are lists of the features of
`roles.features`. They were chosen on held-out documents of the English Web Treebank, where longer
ones were not better, and do not depend on English.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, count, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..classification.calibration import pooled
from ..classification.features import ClassificationData, Table
from ..errors import StructlearnError
from ..learning.settings import quoted
from ..roles.arguments import decode, marginals, mark_pieces
from ..roles.features import (
    ADDITIONAL,
    FEATURES,
    GILDEA_JURAFSKY,
    OF_LOWER_CASE,
    OF_SPELLING,
    OF_WORD_CLASSES,
    PREDICATE_FEATURES,
    ROLESET,
    features,
    predicate_features,
)
from ..roles.phrases import ArgumentNodes, RoleTrees, candidates, gold_roles
from ..roles.propositions import Argument, PlainFrame
from ..trees.nodes import Brackets
from .doc_arrays import DocTrees, form_ids

PREDICATES, SENSES, IDENTIFICATION, ROLES = "predicates", "senses", "identification", "roles"
STAGES = (PREDICATES, SENSES, IDENTIFICATION, ROLES)
VERBS, ALL = "verbs", "all"  # which words can be predicates


def _lower(*names: str) -> tuple[str, ...]:
    """Replace features by those in lower case."""
    return tuple(f"{name}_lower" if f"{name}_lower" in OF_LOWER_CASE else name for name in names)


_OF_ARGUMENTS = (
    *((name,) for name in _lower(*GILDEA_JURAFSKY, *ADDITIONAL)),
    *combinations(_lower(*GILDEA_JURAFSKY), 2),
)
# Conjunctions with the lemma: what these say of roles depends on the predicate.
_WITH_LEMMA = _lower(
    *("first_word", "first_tag", "last_word", "head_tag", "content", "right_head", "left"),
    *("parent", "frame", "distance", "particle", "partial_path"),
)
# Each sense has its own roles, and that of a light verb has few: "take" in "take a bath".
_OF_SENSES = (
    (ROLESET,),
    *((name, ROLESET) for name in _lower("path", "position", "phrase", "head")),
)
# What is next to a phrase tells whether it is complete.
_OF_NEIGHBOURS = (
    *((name, "lemma") for name in _lower("right_head", "parent", "parent_head")),
    *(("path", name) for name in _lower("right_head", "right", "left_head", "content")),
    _lower("parent", "right_head"),
)
_OF_GRAMMAR = (
    ("frame", ROLESET),
    ("voice", "position", "phrase"),
    ("voice", "position", "phrase", ROLESET),
    _lower("phrase", "head", ROLESET),
)
# What tells places from times: the classes and the spelling of "Ohio" in "in Ohio". With coarser
# classes, "in March" is like "in June".
_OF_CLASSES = (
    *(("content_class",), _lower("head", "content_class"), ("content_class", "lemma")),
    *(("content_class_8",), _lower("head", "content_class_8")),
    *(("content_class_10",), _lower("head", "content_class_10")),
    *(("content_form",), _lower("head", "content_form"), _lower("head", "content")),
)
_TEMPLATES: dict[str, tuple[tuple[str, ...], ...]] = {
    PREDICATES: (
        *((name,) for name in PREDICATE_FEATURES),
        *(("lemma", name) for name in PREDICATE_FEATURES if name != "lemma"),
    ),
    SENSES: (("lemma",), *(("lemma", name) for name in PREDICATE_FEATURES if name != "lemma")),
    IDENTIFICATION: (*_OF_ARGUMENTS, *_OF_NEIGHBOURS, *_OF_SENSES),
    ROLES: (*_OF_ARGUMENTS, *((name, "lemma") for name in _WITH_LEMMA), *_OF_SENSES, *_OF_GRAMMAR),
}


def srl_templates(stage: str, classes: bool = False) -> list[list[str]]:
    """Get the templates of one stage, for `LogLinear`.

    stage: "predicates", "senses", "identification" or "roles".
    classes: adds templates of the word classes of `Stages`, and of the spelling of words, to those
        of "roles".
    Raises StructlearnError for another name.
    """
    if stage not in _TEMPLATES:
        raise StructlearnError("SL039", stage=quoted(stage), known=", ".join(STAGES))
    more = _OF_CLASSES if classes and stage == ROLES else ()
    return [list(template) for template in (*_TEMPLATES[stage], *more)]


# --- data and prediction --------------------------------------------------------------------------
# About how many candidates are classified together: a sentence of thousands of words can have a
# million.
ROWS = 10_000
# Labels of the stages before the roles.
IS_PREDICATE, IS_ARGUMENT, NONE = "PREDICATE", "ARG", "NONE"
OF_CANDIDATES = (*FEATURES, *OF_SPELLING, *OF_WORD_CLASSES, *OF_LOWER_CASE, ROLESET)


class Predicates(NamedTuple):
    """The words that are predicates, their rolesets if known, and their probabilities."""

    words: NDArray[np.intp]
    rolesets: list[str | None]
    probabilities: NDArray[np.float64]


# The roleset and the arguments, in words.
GoldFrame = tuple[str | None, Sequence[Argument]]
Role = tuple[str, int, float]  # label without R- and C-, node, probability
Reading = tuple[int, PlainFrame, list[float]]  # number of the Doc, frame, probabilities of spans


@dataclass(frozen=True)
class FrameFinder:
    """Finds the frames of trees with the classifiers of all stages of a labeler.

    min_confidence: arguments with a lower probability are left out. calibration: weights of the
        log-odds of arguments, or None.
    """

    labeler: Any
    min_confidence: float = 0.0
    calibration: tuple[float, float] | None = None

    @property
    def stages(self) -> Any:
        """The classifiers."""
        return self.labeler.parameters

    def nodes(self, brackets: Brackets) -> RoleTrees:
        """Number the nodes of trees."""
        labeler = self.labeler
        classes = labeler.model.attrs.get("classes")
        has_classes = classes is not None and classes.n_classes
        classes_of = (lambda words: classes.column(form_ids(words))) if has_classes else None
        return RoleTrees(brackets, labeler.head_rules, labeler.role_labels, classes_of)

    def words(self, nodes: RoleTrees) -> NDArray[np.intp]:
        """Get the words that can be predicates."""
        labeler = self.labeler
        possible = nodes.is_one_of(nodes.leaves, labeler.tags)
        if labeler.predicates == ALL:
            others = labeler.cfg["others"]
            rows = np.flatnonzero(~possible & nodes.is_one_of(nodes.leaves, others["tags"]))
            known, lemmatize = {*others["lemmas"]}, labeler.lemmatizer
            lemma = predicate_features(nodes, rows, ("lemma",), lemmatize=lemmatize)["lemma"]
            possible[rows] = np.array([text in known for text in lemma.texts])[lemma.codes]
        return np.flatnonzero(possible)

    def find(self, trees: DocTrees) -> Iterator[Reading]:
        """Iterate over the frames of trees, in order."""
        nodes = self.nodes(trees.brackets)
        predicates = self._predicates(nodes)
        return self._frames(trees, nodes, predicates, self._roles(trees, nodes, predicates))

    def gold_data(
        self, nodes: RoleTrees, gold: Sequence[GoldFrame | None], labels: Sequence[str]
    ) -> dict[str, ClassificationData]:
        """Get the instances of each stage that has any.

        gold: the frame of each word, or None. labels: the known roles.
        """
        data: dict[str, ClassificationData] = {}
        words, lemmatize = self.words(nodes), self.labeler.lemmatizer
        own = [gold[word] for word in words.tolist()]
        if own:
            columns = predicate_features(nodes, words, lemmatize=lemmatize)
            table = Table.of(columns, PREDICATE_FEATURES)
            answers = tuple(NONE if frame is None else IS_PREDICATE for frame in own)
            data[PREDICATES] = ClassificationData(table, answers)
            _add_known(data, SENSES, table, [_number(frame) for frame in own])
        words = words[[frame is not None for frame in own]]
        frames = [frame for frame in own if frame is not None]
        sites = candidates(nodes, words)
        roles: list[str | None] = []
        for (_, arguments), below in zip(frames, sites.split(), strict=True):
            roles += gold_roles(nodes, arguments, below)
        if roles:
            rolesets = None
            if SENSES in self.stages.stages:  # otherwise they are not known in prediction
                rolesets = [roleset or None for roleset, _ in frames]
            columns = features(nodes, sites, OF_CANDIDATES, lemmatize=lemmatize, rolesets=rolesets)
            table = Table.of(columns, OF_CANDIDATES)
            answers = tuple(NONE if role is None else IS_ARGUMENT for role in roles)
            data[IDENTIFICATION] = ClassificationData(table, answers)
            known = [role if role in labels else None for role in roles]
            _add_known(data, ROLES, table, known)
        return data

    def _stage(self, name: str) -> Any | None:
        """Get a classifier; None if there is none, or it has learned nothing."""
        stage = self.stages[name] if name in self.stages.stages else None
        return None if stage is None or stage.is_empty else stage

    def _used(self, *stages: str) -> tuple[str, ...]:
        """Get the variables that these stages read."""
        used = (stage.used for name in stages if (stage := self._stage(name)) is not None)
        return tuple(sorted({variable for own in used for variable in own}))

    def _predicates(self, nodes: RoleTrees) -> Predicates:
        words = self.words(nodes)
        if not len(words):
            return Predicates(words, [], np.ones(0))
        names = sorted({"lemma", *self._used(PREDICATES, SENSES)})
        columns = predicate_features(nodes, words, names, lemmatize=self.labeler.lemmatizer)
        table = Table.of(columns)
        probabilities = np.ones(len(table))
        if (stage := self._stage(PREDICATES)) is not None:
            probabilities = _of_label(stage, table, IS_PREDICATE)
        chosen = np.flatnonzero(probabilities > 0.5)
        rolesets = self._rolesets(table.take(chosen), list(columns["lemma"].at(chosen)))
        return Predicates(words[chosen], rolesets, probabilities[chosen])

    def _rolesets(self, table: Table, lemmas: Sequence[str]) -> list[str | None]:
        """Find the most probable roleset of each predicate among those known of its lemma."""
        stage = self._stage(SENSES)
        if stage is None:
            return [None] * len(lemmas)
        known = [self.labeler.cfg["rolesets"].get(base, {}) for base in lemmas]
        several = [row for row, numbers in enumerate(known) if len(numbers) > 1]
        probabilities = iter(stage.predict_proba(table.take(several)).tolist() if several else ())
        # Unknown labels have the probability 0 that is added.
        places = defaultdict(lambda: -1, zip(stage.labels, count()))
        rolesets: list[str | None] = []
        for numbers in known:
            if len(numbers) > 1:
                scores = [*next(probabilities), 0.0]
                # The first one if several are equally probable.
                _, best = min((-scores[places[number]], number) for number in numbers)
                rolesets.append(numbers[best])
            else:
                rolesets.append(next(iter(numbers.values()), None))
        return rolesets

    def _roles(self, trees: DocTrees, nodes: RoleTrees, predicates: Predicates) -> list[list[Role]]:
        """Find the arguments of each predicate."""
        if self._stage(IDENTIFICATION) is None:  # no candidate in training
            return [[] for _ in predicates.words]
        rolesets = iter(predicates.rolesets)
        parts = (
            self._roles_of(trees, nodes, sites, list(islice(rolesets, len(sites.sizes))))
            for sites in candidates(nodes, predicates.words).parts(ROWS)
        )
        return [own for part in parts for own in part]

    def _roles_of(
        self,
        trees: DocTrees,
        nodes: RoleTrees,
        sites: ArgumentNodes,
        rolesets: Sequence[str | None],
    ) -> list[list[Role]]:
        """Find the arguments of each predicate among its candidates."""
        labels, bias = self.stages.labels, self.labeler.bias
        names = self._used(IDENTIFICATION, ROLES) or FEATURES[:1]
        columns = features(
            nodes, sites, names, lemmatize=self.labeler.lemmatizer, rolesets=rolesets
        )
        table = Table.of(columns, names)
        brackets = trees.probabilities(nodes.starts[sites.nodes], nodes.stops[sites.nodes])
        # P(ARG | t) if t is a constituent, and in a predicted tree.
        product = _of_label(self._stage(IDENTIFICATION), table, IS_ARGUMENT) * brackets
        with np.errstate(divide="ignore"):
            argument, none = np.log(product), np.log1p(-product)
            # The others cannot be arguments, whatever their role.
            rows = np.flatnonzero(argument + bias > none)
            roles = np.log(self.stages[ROLES].predict_proba(table.take(rows)))
        possible = sites.at(rows)
        # A core role is that of one argument, apart from relative phrases and what they continue.
        classes = self.labeler.role_labels
        nominal = nodes.is_one_of(possible.nodes, classes.noun_phrases)
        relative = nodes.is_one_of(possible.nodes, classes.relative)
        chosen = decode(
            nodes,
            possible,
            none[rows],
            argument[rows, None] + bias + roles,
            once=[place for place, label in enumerate(labels) if label in classes.core],
            exempt=np.flatnonzero(relative).tolist(),
            further=np.flatnonzero(~nominal).tolist(),
        )
        probabilities = marginals(nodes, sites, none, argument[:, None])[rows] * np.exp(roles)
        below = possible.nodes.tolist()
        return [
            [(labels[label], below[row], probabilities.item(row, label)) for row, label in own]
            for own in chosen
        ]

    def _frames(
        self, trees: DocTrees, nodes: RoleTrees, predicates: Predicates, roles: Sequence[list[Role]]
    ) -> Iterator[Reading]:
        sizes = [len(own) for own in roles]
        of_predicates = np.repeat(predicates.probabilities, sizes)
        probabilities = np.array([p for own in roles for _, _, p in own]) * of_predicates
        doc_ids = trees.doc_ids[predicates.words]
        if self.calibration is not None:  # which is for predicted trees
            rows = np.repeat(trees.scored[doc_ids], sizes)
            probabilities[rows] = pooled(probabilities[rows, None], self.calibration)
        arguments = np.array([node for own in roles for _, node, _ in own], dtype=np.intp)
        starts, ends = trees.tokens(nodes.starts[arguments], nodes.stops[arguments])
        places = zip(starts.tolist(), ends.tolist(), probabilities.tolist(), strict=True)
        for number, position, roleset, probability, own in zip(
            doc_ids.tolist(),
            trees.positions[predicates.words].tolist(),
            predicates.rolesets,
            predicates.probabilities.tolist(),
            roles,
            strict=True,
        ):
            reported = {
                node: (label, *place)
                for (label, node, _), place in zip(own, places, strict=False)
                if place[-1] >= self.min_confidence
            }
            marked = mark_pieces(nodes, [(place[0], node) for node, place in reported.items()])
            spans = [(label, *reported[node][1:3]) for label, node in marked]
            scores = [probability, *(reported[node][-1] for _, node in marked)]
            yield number, (position, roleset, spans), scores


def _number(frame: GoldFrame | None) -> str | None:
    """Get the number of the roleset, which follows the last "."; None if it is not known."""
    return frame[0].rpartition(".")[-1] if frame is not None and frame[0] else None


def _add_known(
    data: dict[str, ClassificationData], stage: str, table: Table, labels: Sequence[str | None]
) -> None:
    """Add the rows with a label to the data of a stage."""
    rows = [row for row, label in enumerate(labels) if label is not None]
    if rows:
        known = tuple(label for label in labels if label is not None)
        data[stage] = ClassificationData(table.take(rows), known)


def _of_label(stage: Any, table: Table, label: str) -> NDArray[np.float64]:
    """Get the probabilities of one label, (n); 0 if the classifier has never seen it."""
    probabilities = stage.predict_proba(table)
    if label not in stage.labels:
        return np.zeros(len(table))
    return probabilities[:, stage.labels.index(label)]
