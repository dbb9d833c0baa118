"""The stages of the role labeler: their templates, and how they find the frames of trees.

Which words are predicates, which sense (roleset) each one has, which phrases are its arguments
(identification), and which roles these have. The templates are lists of the features of
`roles.features`. They were chosen on held-out documents of the English Web Treebank, where longer
ones were not better, and do not depend on English.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..classification.calibration import pooled as calibrated
from ..classification.features import ClassificationData, Table
from ..encoder.pool import Floats, Loss, pool_loss, pooled
from ..encoder.scorer import NO_VECTORS
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
from ..roles.propositions import Argument, PlainFrame, base_label
from ..roles.rolesets import inventory, possible_rolesets
from ..trees.nodes import Brackets
from .doc_arrays import DocTrees, form_ids

PREDICATES, SENSES, IDENTIFICATION, ROLES = "predicates", "senses", "identification", "roles"
STAGES = (PREDICATES, SENSES, IDENTIFICATION, ROLES)
VERBS, ALL = "verbs", "all"  # which words can be predicates
ROLESETS, ARGUMENTS = "rolesets", "arguments"  # the site scorers
NEITHER = ""  # their label of words that are no predicates and of spans that are no arguments


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
    # What tells agents of passives from times, means and amounts: "by the team", "by June".
    *(_lower("voice", "head", f"content_{name}") for name in ("form", "class_8", "class_10")),
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
        log-odds of arguments, or None. vectors: of the words, for the site scorers. gold: the
        frame of each word, or None; with it, the `losses` of the pools are kept.
    """

    labeler: Any
    min_confidence: float = 0.0
    calibration: tuple[float, float] | None = None
    vectors: NDArray[np.float32] = field(default_factory=NO_VECTORS.copy)
    gold: Sequence[GoldFrame | None] | None = None
    losses: defaultdict[str, list[Loss]] = field(default_factory=lambda: defaultdict(list))

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
            if scorer := self.labeler.site_scorers.get(ROLESETS):
                none = scorer.probabilities(self.vectors, words[:, None], [NEITHER])[:, 0]
                gold = [int(frame is None) for frame in self._gold_of(words)]
                probabilities = self._pooled(ROLESETS, probabilities, 1.0 - none, gold)
        chosen = np.flatnonzero(probabilities > 0.5)
        lemmas = list(columns["lemma"].at(chosen))
        rolesets = self._rolesets(nodes, table.take(chosen), lemmas, words[chosen])
        return Predicates(words[chosen], rolesets, probabilities[chosen])

    def _gold_of(self, words: NDArray[np.integer]) -> list[GoldFrame | None]:
        return [None if self.gold is None else self.gold[word] for word in words.tolist()]

    def _pooled(self, head: str, own: Floats, other: Floats, gold: Any) -> Floats:
        """Pool probabilities of a stage and of a site scorer. gold: see `pool_loss`."""
        if self.gold is not None:
            self.losses[head].append(pool_loss(own, other, np.asarray(gold, dtype=np.intp)))
        return pooled(own, other, self.labeler.site_scorers[head].weights)

    def _rolesets(
        self, nodes: RoleTrees, table: Table, lemmas: Sequence[str], words: NDArray[np.intp]
    ) -> list[str | None]:
        """Find the most probable roleset of each predicate among those that it can have."""
        stage = self._stage(SENSES)
        if stage is None:
            return [None] * len(lemmas)
        known = [self.labeler.cfg["rolesets"].get(base, {}).values() for base in lemmas]
        further = inventory() if self.labeler.role_labels.propbank else {}
        nouns = self.labeler.predicates == ALL
        possible = list(possible_rolesets(nodes, words, lemmas, known, further, nouns))
        rolesets = [next(iter(names), None) for names in possible]
        several = [row for row, names in enumerate(possible) if len(names) > 1]
        if not several:
            return rolesets
        names = [possible[row] for row in several]
        numbers = [[name.rpartition(".")[-1] for name in own] for own in names]
        # Unknown labels have the probability 0 that is added.
        probabilities = np.pad(stage.predict_proba(table.take(several)), ((0, 0), (0, 1)))
        scores = np.take_along_axis(probabilities, _places(numbers, stage.labels), axis=1)
        if scorer := self.labeler.site_scorers.get(ROLESETS):
            labels = sorted({name for own in names for name in own})
            other = scorer.probabilities(self.vectors, words[several, None], labels)
            other = np.pad(other, ((0, 0), (0, 1)))
            other = np.take_along_axis(other, _places(names, labels), axis=1)
            gold = [
                own.index(frame[0]) if frame and frame[0] in own else -1
                for own, frame in zip(names, self._gold_of(words[several]), strict=True)
            ]
            scores = self._pooled(ROLESETS, scores, other, gold)
        # The first one if several are equally probable.
        for row, own, best in zip(several, names, scores.argmax(axis=1).tolist(), strict=True):
            rolesets[row] = own[best]
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
        scored, gold = self._scored_roles(nodes, sites), self._gold_roles(nodes, sites)
        if scored is not None:
            which = np.where(gold == len(labels), 1, np.minimum(gold, 0))
            product = self._pooled(ARGUMENTS, product, scored[:, :-1].sum(axis=1), which)
        with np.errstate(divide="ignore"):
            argument, none = np.log(product), np.log1p(-product)
            # The others cannot be arguments, whatever their role.
            rows = np.flatnonzero(argument + bias > none)
            roles = self.stages[ROLES].predict_proba(table.take(rows))
            if scored is not None:
                role = np.where(gold == len(labels), -1, gold)[rows]
                roles = self._pooled(ARGUMENTS, roles, scored[rows, :-1], role)
            roles = np.log(roles)
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

    def _scored_roles(self, nodes: RoleTrees, sites: ArgumentNodes) -> Floats | None:
        """Get the probabilities of the roles of candidates, and of none, by the site scorer."""
        scorer = self.labeler.site_scorers.get(ARGUMENTS)
        if scorer is None:
            return None
        spans = nodes.starts[sites.nodes], nodes.stops[sites.nodes] - 1
        places = np.stack([sites.predicates[sites.owners], *spans], axis=1)
        found = scorer.probabilities(self.vectors, places)
        # R-ARG0 and C-ARG0 are ARG0, as in the stages.
        names = np.array([base_label(label) for label in scorer.labels])
        return found @ (names[:, None] == [*self.stages.labels, NEITHER]).astype(found.dtype)

    def _gold_roles(self, nodes: RoleTrees, sites: ArgumentNodes) -> NDArray[np.intp]:
        """Get the gold role of each candidate by its place in the labels, their number for none,
        -1 if it is not known."""
        places = {label: place for place, label in enumerate([*self.stages.labels, None])}
        frames = self._gold_of(sites.predicates)
        roles = [
            places.get(role, -1)
            for frame, below in zip(frames, sites.split(), strict=True)
            for role in (gold_roles(nodes, frame[1], below) if frame else ["?"] * len(below))
        ]
        return np.array(roles, dtype=np.intp)

    def _frames(
        self, trees: DocTrees, nodes: RoleTrees, predicates: Predicates, roles: Sequence[list[Role]]
    ) -> Iterator[Reading]:
        sizes = [len(own) for own in roles]
        of_predicates = np.repeat(predicates.probabilities, sizes)
        probabilities = np.array([p for own in roles for _, _, p in own]) * of_predicates
        doc_ids = trees.doc_ids[predicates.words]
        if self.calibration is not None:  # which is for predicted trees
            rows = np.repeat(trees.scored[doc_ids], sizes)
            probabilities[rows] = calibrated(probabilities[rows, None], self.calibration)
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


def _places(names: Sequence[Sequence[str]], labels: Sequence[str]) -> NDArray[np.intp]:
    """Get the places of names in labels, a row each; their number for other names."""
    places = {label: place for place, label in enumerate(labels)}
    table = np.full((len(names), max(map(len, names))), len(labels), dtype=np.intp)
    for row, own in zip(table, names, strict=True):
        row[: len(own)] = [places.get(name, len(labels)) for name in own]
    return table


def _of_label(stage: Any, table: Table, label: str) -> NDArray[np.float64]:
    """Get the probabilities of one label, (n); 0 if the classifier has never seen it."""
    probabilities = stage.predict_proba(table)
    if label not in stage.labels:
        return np.zeros(len(table))
    return probabilities[:, stage.labels.index(label)]
