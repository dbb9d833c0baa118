"""Semantic roles in `nlp(text)`: `doc.spans["srl"]`, with the probability of every span.

The trees of a Doc are read in four stages, like in Toutanova, Haghighi & Manning (2005) and the
systems of CoNLL-2005: which words are predicates, which sense (roleset) each one has, which phrases
are its arguments (identification), and which roles these have. The stages are the classifiers of
one model. The best arguments that do not overlap follow from the probabilities of the last two
(`roles.arguments`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, count, groupby, islice
from typing import Any, ClassVar, NamedTuple, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray
from spacy.attrs import IS_SPACE
from spacy.tokens import Doc
from spacy.training import Example, validate_get_examples

from ..classification.calibration import fit_pool, pooled
from ..classification.features import ClassificationData, Table
from ..errors import StructlearnError
from ..groups import CONSTITUENT_TAGS, CONSTITUENTS, SRL
from ..learning.settings import setting
from ..roles.arguments import (
    decode,
    log_probabilities,
    mark_pieces,
    role_probabilities,
)
from ..roles.features import (
    FEATURES,
    OF_LOWER_CASE,
    OF_SPELLING,
    OF_WORD_CLASSES,
    PREDICATE_FEATURES,
    ROLESET,
    features,
    predicate_features,
)
from ..roles.phrases import ArgumentNodes, RoleTrees, candidates, gold_roles
from ..roles.propositions import (
    CONTINUATION,
    ENGLISH,
    PREDICATE,
    REFERENCE,
    Argument,
    PlainFrame,
    RoleLabels,
    base_label,
)
from ..trees.brackets import uncollected
from ..trees.heads import COLLINS, HeadRules
from ..trees.nodes import Brackets
from ..words.lemmas import Lemmatizer, lemma, lower
from . import extensions
from .doc_arrays import DocTrees, form_ids, gold_trees, has_gold_tokens
from .extensions import Frame, frame_spans, set_spans
from .penn_tags import PENN_TAGS, warn_of_other_tags
from .scorers import srl_score
from .srl_templates import IDENTIFICATION, PREDICATES, ROLES, SENSES, STAGES
from .training.batch_trainable import BatchTrainable, ComponentSettings, factory

DEFAULT_MODEL = {
    "@architectures": "spacy_structlearn.Stages.v1",
    "order": list(STAGES),
    "stages": {
        stage: {
            "@architectures": "spacy_structlearn.LogLinear.v1",
            "l2": 1.0,
            "templates": {"@misc": "spacy_structlearn.srl_templates.v1", "stage": stage},
        }
        for stage in STAGES
    },
}
WORDS = 10_000  # about how many words, in whole Docs, go through the stages together
# About how many candidates are classified together: a sentence of thousands of words can have a
# million.
ROWS = 10_000
# Labels of the stages before the roles.
IS_PREDICATE, IS_ARGUMENT, NONE = "PREDICATE", "ARG", "NONE"
VERBS, ALL = "verbs", "all"
RARE_TAGS = 0.01  # share of the predicates that are not verbs
# Features of a candidate by itself.
OF_CANDIDATES = (*FEATURES, *OF_SPELLING, *OF_WORD_CLASSES, *OF_LOWER_CASE, ROLESET)

extensions.register()


@dataclass(frozen=True, kw_only=True)
class SRLLabelerSettings(ComponentSettings):
    """Predict predicates and their arguments.

    The model is Stages with the stages "identification" and "roles". They may be preceded by
    "predicates", without which every word with a predicate's tag is a predicate, and by "senses",
    without which there are no rolesets.
    """

    name: ClassVar[str] = "srl_labeler"
    iterations_per_step: int = setting(
        50, ge=1, help="Number of iterations of the learners in one `nlp.update`."
    )
    predicate_tags: Sequence[str] | None = setting(
        None, help="Tags of words that can be predicates. None: the verb tags of `role_labels`."
    )
    predicates: str = setting(
        VERBS,
        choices=(VERBS, ALL),
        help='"verbs": only words with one of the `predicate_tags`. "all": other words too, such '
        "as nouns and adjectives, if their lemma and their tag were those of a predicate in "
        "training.",
    )
    min_confidence: float = setting(
        0.0, ge=0, le=1, help="Arguments with a lower probability are not reported."
    )
    attachment_confidence: float | None = setting(
        None,
        ge=0,
        le=1,
        help="Move prepositional phrases in the trees according to attachments of the Doc with at "
        "least this probability, so that roles agree with them. None: use the trees unchanged. "
        "Training always uses them unchanged.",
    )
    within_noun_phrases: bool = setting(
        False,
        help="Phrases and the head of a noun phrase after the predicate can be arguments too, such "
        'as "bath" in "take a bath", or a prepositional phrase that the parser attached too low.',
    )
    once: bool = setting(
        True,
        help="Give each core role to at most one argument of a predicate, except relative phrases "
        "and what they continue.",
    )
    bias: float = setting(
        0.0,
        help="Added to the log-odds of being an argument when arguments are chosen. Larger values "
        "find more arguments, and more wrong ones. Probabilities do not change.",
    )
    lemmatizer: Lemmatizer | None = setting(
        lemma, help="Function from a word and its tag to its lemma. None: words in lower case."
    )
    head_rules: HeadRules = setting(COLLINS, help="Head rules of the treebank.")
    role_labels: RoleLabels = setting(ENGLISH, help="Labels of the roles and tags of verbs.")

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        yield "predicate_tags", "a list of one tag or more, or none", self.predicate_tags != ()


class FrameReading(NamedTuple):
    """The frames of a Doc over its tokens, and the probability of each of their spans."""

    frames: list[PlainFrame]
    scores: list[float]


class _Predicates(NamedTuple):
    """The words that are predicates, their rolesets if known, and their probabilities."""

    words: NDArray[np.intp]
    rolesets: list[str | None]
    probabilities: NDArray[np.float64]


class _Role(NamedTuple):
    """An argument of a predicate.

    label: without R- and C-.
    probability: according to the classifiers and the other arguments.
    """

    label: str
    node: int
    probability: float


class _Others(TypedDict):
    """The tags of known predicates that are not verbs, and their lemmas."""

    tags: list[str]
    lemmas: list[str]


class SRLLabeler(BatchTrainable):
    """Predicts predicates and their arguments.

    Reads the groups "constituents" and "constituent_tags", or else `token.tag`, and `doc.sents` if
    they are set.
    """

    parameter = "stages"
    settings_kind = SRLLabelerSettings
    cfg_types: ClassVar[dict[str, Any]] = {
        **BatchTrainable.cfg_types,
        "rolesets": dict[str, dict[str, str]],
        "others": _Others,
        "calibration": tuple[float, float] | None,
    }

    def __init__(self, *args: Any, scorer: Callable | None = srl_score, **settings: Any):
        super().__init__(*args, scorer=scorer, **settings)
        stages = self.parameters.stages
        if stages[-1:] != (ROLES,) or IDENTIFICATION not in stages or not {*stages} <= {*STAGES}:
            raise StructlearnError("SL036", component=self.name, found=", ".join(stages) or "none")
        # The rolesets of each lemma by their numbers, which follow the last ".".
        self.cfg["rolesets"] = {}
        self.cfg["others"] = {"tags": [], "lemmas": []}
        self.cfg["calibration"] = None
        self._warned = False

    @property
    def tags(self) -> frozenset[str]:
        """The tags of words that can be predicates."""
        if self.predicate_tags is None:
            return self.role_labels.verbs
        return frozenset(self.predicate_tags)

    # --- training -----------------------------------------------------------------------------
    @property
    def annotation(self) -> str:
        arguments = f'doc.spans["{SRL}"] with arguments of predicates'
        if self.predicates != ALL:
            tags = " or ".join(sorted(self.tags)) or "any of no tags"
            arguments += f" tagged {tags} (see predicate_tags)"
        return f'{arguments}, and trees in doc.spans["{CONSTITUENTS}"],'

    def gold_labels(self, example: Example) -> Iterable[str]:
        return {
            base_label(argument.label)
            for frame in self._gold_frames(_annotated(example))
            for argument in frame.arguments
        }

    def gold_data(self, example: Example) -> dict[str, ClassificationData] | None:
        """Convert the reference to the instances of each stage.

        The trees and their tags are those of the predicted Doc if it has any and the tokens of the
        reference, and otherwise those of the reference.
        Sentences without a complete tree or with words without a tag are left out, and their number
        is logged. Arguments with an unknown label, and those that are no phrase of the tree, are
        left out. Raises StructlearnError if no word has a tag and if the frames are malformed.
        """
        doc = _annotated(example)
        if SRL not in doc.spans or CONSTITUENTS not in doc.spans:
            return None
        frames = {frame.predicate.start: frame for frame in self._gold_frames(doc)}
        pairs = gold_trees(doc, self.name)
        positions = [token.i for sentence, _ in pairs for token in sentence if not token.is_space]
        of_words = [frames.get(i) for i in positions]
        nodes = self._nodes(Brackets.of(tree for _, tree in pairs))
        return {
            **self._gold_predicates(nodes, of_words),
            **self._gold_arguments(nodes, of_words, positions),
        } or None

    def _gold_frames(self, doc: Doc) -> list[Frame]:
        """Get the gold frames of predicates that may be found, without C-V arguments."""
        if SRL not in doc.spans or CONSTITUENTS not in doc.spans:
            return []
        self._check(doc)
        tags, wanted = extensions.constituent_tags(doc, range(len(doc))), self.tags
        return [
            frame._replace(
                arguments=tuple(a for a in frame.arguments if base_label(a.label) != PREDICATE)
            )
            for frame in extensions.frames(doc)
            if self.predicates == ALL or tags[frame.predicate.start] in wanted
        ]

    def _gold_predicates(
        self, nodes: RoleTrees, of_words: Sequence[Frame | None]
    ) -> dict[str, ClassificationData]:
        """Get the words that can be predicates, and the senses of the gold predicates."""
        words = self._words(nodes)
        if not len(words):
            return {}
        columns = predicate_features(nodes, words, lemmatize=self.lemmatizer)
        table = Table.of(columns, PREDICATE_FEATURES)
        own = [of_words[word] for word in words.tolist()]
        labels = tuple(NONE if frame is None else IS_PREDICATE for frame in own)
        known = [row for row, frame in enumerate(own) if frame is not None and frame.roleset]
        data = {PREDICATES: ClassificationData(table, labels)}
        if known:
            numbers = tuple(own[row].roleset.rpartition(".")[-1] for row in known)
            data[SENSES] = ClassificationData(table.take(known), numbers)
        return data

    def _gold_arguments(
        self, nodes: RoleTrees, of_words: Sequence[Frame | None], positions: Sequence[int]
    ) -> dict[str, ClassificationData]:
        """Get the candidates of the gold predicates, and the roles of the gold arguments."""
        words = [word for word in self._words(nodes).tolist() if of_words[word] is not None]
        sites = self._candidates(nodes, words)
        roles: list[str | None] = []
        for word, own in zip(words, sites.split(), strict=True):
            bounds = np.searchsorted(nodes.tree_ids, nodes.tree_ids[word] + np.arange(2))
            arguments = _arguments_in_words(of_words[word], positions, *bounds.tolist())
            roles += gold_roles(nodes, arguments, own)
        if not roles:
            return {}
        rolesets = None
        if SENSES in self.parameters.stages:  # otherwise they are not known in prediction
            rolesets = [of_words[word].roleset or None for word in words]
        columns = features(
            nodes, sites, OF_CANDIDATES, lemmatize=self.lemmatizer, rolesets=rolesets
        )
        table = Table.of(columns, OF_CANDIDATES)
        labels = tuple(NONE if role is None else IS_ARGUMENT for role in roles)
        known = [row for row, role in enumerate(roles) if role in self.labels]
        data = {IDENTIFICATION: ClassificationData(table, labels)}
        if known:
            named = tuple(roles[row] for row in known)
            data[ROLES] = ClassificationData(table.take(known), named)
        return data

    def initialize(self, get_examples: Callable[[], Iterable[Example]], **kwargs: Any) -> None:
        validate_get_examples(get_examples, f"{type(self).__name__}.initialize")
        frames = [frame for e in get_examples() for frame in self._gold_frames(_annotated(e))]
        # Without any argument there are no labels, and loaded parameters are kept.
        has_arguments = any(frame.arguments for frame in frames)
        if has_arguments:
            self.cfg["others"] = self._gold_others(frames)  # on which the data depends
        super().initialize(get_examples, **kwargs)
        if has_arguments:
            self.calibration = None  # a loaded calibration belongs to other parameters
            self.cfg["rolesets"] = self._gold_rolesets(frames)
            self._intern()

    def _begin(self, examples: list[Example]) -> None:
        super()._begin(examples)
        if not self._training.from_scratch:
            frames = [frame for e in examples for frame in self._gold_frames(_annotated(e))]
            # Known numbers keep their rolesets, which are those of more data.
            held = self.cfg["rolesets"]
            for base, numbers in self._gold_rolesets(frames).items():
                held[base] = numbers | held.get(base, {})
            others = self.cfg["others"]
            for name, new in self._gold_others(frames).items():
                others[name] = sorted({*others[name], *new})
            self._intern()

    def _gold_rolesets(self, frames: Iterable[Frame]) -> dict[str, dict[str, str]]:
        """Get the rolesets of each lemma by their numbers, as `cfg` has them."""
        # The most frequent roleset for each lemma and number.
        counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for frame in frames:
            if frame.roleset:
                token = frame.predicate[0]
                (tag,) = extensions.constituent_tags(token.doc, [token.i])
                base = (self.lemmatizer or lower)(token.text, tag)
                counts[base, frame.roleset.rpartition(".")[-1]][frame.roleset] += 1
        rolesets: dict[str, dict[str, str]] = {}
        for (base, number), names in sorted(counts.items()):
            # The first by name if several are equally frequent.
            best = min(names, key=lambda roleset: (-names[roleset], roleset))
            rolesets.setdefault(base, {})[number] = best
        return rolesets

    def _gold_others(self, frames: Iterable[Frame]) -> dict[str, list[str]]:
        """Get the tags and lemmas of predicates that are not verbs, as `cfg` has them.

        Tags of fewer than one in a hundred are left out: most are errors of a tagger.
        """
        found, wanted = [], self.tags
        for frame in frames:
            token = frame.predicate[0]
            (tag,) = extensions.constituent_tags(token.doc, [token.i])
            if tag not in wanted:
                found.append((tag, (self.lemmatizer or lower)(token.text, tag)))
        counts = Counter(tag for tag, _ in found)
        tags = {tag for tag, n in counts.items() if n >= RARE_TAGS * len(found)}
        lemmas = {base for tag, base in found if tag in tags}
        return {"tags": sorted(tags), "lemmas": sorted(lemmas)}

    def _strings(self) -> Iterable[str]:
        yield PREDICATE
        for label in self.labels:
            yield from (label, REFERENCE + label, CONTINUATION + label)
        for numbers in self.cfg.get("rolesets", {}).values():
            yield from numbers.values()

    @property
    def calibration(self) -> tuple[float, float] | None:
        """The result of `calibrate`: a constant and a weight of the log-odds; None before."""
        return tuple(self.cfg["calibration"]) if self.cfg["calibration"] else None

    @calibration.setter
    def calibration(self, weights: Iterable[float] | None) -> None:
        # Rounded to what JSON stores, so that saving and loading changes nothing.
        self.cfg["calibration"] = None if weights is None else [round(float(w), 6) for w in weights]

    def calibrate(self, examples: Iterable[Example]) -> tuple[float, float]:
        """Fit the probabilities of arguments to gold frames that were not trained on.

        The choice of arguments does not change. Arguments below `min_confidence` count here too.
        examples: Examples whose predicted Docs have trees predicted by the parser, with
            probabilities. Only those with the tokens of the reference are used.
        Returns `calibration`. Raises StructlearnError, and changes nothing, unless some arguments
        are right and some are wrong.
        """
        self.require_parameters()
        examples = [
            example
            for example in examples
            if SRL in example.reference.spans
            and extensions.span_groups.scored_group(example.predicted, CONSTITUENTS)[1] is not None
            and has_gold_tokens(example)
        ]
        probabilities, right = [], []
        held = self.calibration, self.min_confidence
        self.calibration, self.min_confidence = None, 0.0
        try:
            readings = self.predict([example.predicted for example in examples])
        finally:
            self.calibration, self.min_confidence = held
        for example, reading in zip(examples, readings, strict=True):
            gold = {
                (frame.predicate.start, label, span.start, span.end)
                for frame in extensions.frames(example.reference)
                for span, label, _ in frame.arguments
            }
            scores = iter(reading.scores)
            for predicate, _, arguments in reading.frames:
                next(scores)  # of the predicate
                for argument in arguments:
                    probabilities.append([next(scores)])
                    right.append((predicate, *argument) in gold)
        if len(set(right)) < 2:
            raise StructlearnError("SL037", component=self.name)
        self.calibration = fit_pool(probabilities, right)
        return self.calibration

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Score examples.

        If only verbs are found, frames of predicates with other tags than `tags` are ignored.
        Otherwise verbs and other predicates are also scored apart.
        """
        which = "verb_tags" if self.predicates == ALL else "predicate_tags"
        return super().score(examples, **{which: sorted(self.tags), **kwargs})

    # --- prediction ---------------------------------------------------------------------------
    def predict(self, docs: Sequence[Doc]) -> list[FrameReading]:
        """Predict the frames of each Doc; many Docs go through each stage together.

        If all tags of predicates are tags of the Penn Treebank, the first Doc without any tag of it
        gets a warning. Raises StructlearnError for a Doc without constituents or without tags.
        """
        self.require_parameters()
        readings = [FrameReading([], []) for _ in docs]
        totals = accumulate(map(len, docs))
        with uncollected():
            for _, part in groupby(
                zip(docs, readings, totals, strict=True), lambda part: part[-1] // WORDS
            ):
                own = [(d, reading) for d, reading, _ in part if not d.to_array(IS_SPACE).all()]
                if own:
                    self._predict(*zip(*own, strict=True))
        if self.tags.union(self.cfg["others"]["tags"]) <= PENN_TAGS:
            for doc, reading in zip(docs, readings, strict=True):
                if not reading.frames and not self._warned:
                    self._warned = warn_of_other_tags(self.name, doc, of_trees=True)
        return readings

    def _predict(self, docs: Sequence[Doc], readings: Sequence[FrameReading]) -> None:
        """Add the frames of Docs that go through the stages together to their readings."""
        for doc in docs:
            self._check(doc)
        trees = DocTrees(docs, self.attachment_confidence)
        nodes = self._nodes(trees.brackets)
        predicates = self._predicates(nodes)
        roles = self._roles(trees, nodes, predicates)
        self._read(readings, trees, nodes, predicates, roles)

    def _nodes(self, brackets: Brackets) -> RoleTrees:
        classes = self.model.attrs.get("classes")
        if classes is None or not classes.n_classes:
            return RoleTrees(brackets, self.head_rules, self.role_labels)
        return RoleTrees(
            brackets,
            self.head_rules,
            self.role_labels,
            lambda words: classes.column(form_ids(words)),
        )

    def _check(self, doc: Doc) -> None:
        """Raise StructlearnError for a Doc without trees, or without tags."""
        missing = f'doc.spans["{CONSTITUENTS}"]'
        if CONSTITUENTS in doc.spans:
            tagged = CONSTITUENT_TAGS in doc.spans or doc.has_annotation("TAG")
            if tagged or not doc.spans[CONSTITUENTS]:
                return
            missing = f"token.tag_ next to {missing}"
        raise StructlearnError("SL026", component=self.name, missing=missing, text=doc.text[:40])

    def _words(self, nodes: RoleTrees) -> NDArray[np.intp]:
        """Get the words that can be predicates."""
        possible = nodes.is_one_of(nodes.leaves, self.tags)
        if self.predicates == ALL:
            others = self.cfg["others"]
            rows = np.flatnonzero(~possible & nodes.is_one_of(nodes.leaves, others["tags"]))
            lemmas = predicate_features(nodes, rows, ("lemma",), lemmatize=self.lemmatizer)["lemma"]
            known = {*others["lemmas"]}
            possible[rows] = np.array([text in known for text in lemmas.texts])[lemmas.codes]
        return np.flatnonzero(possible)

    def _stage(self, name: str) -> Any | None:
        """Get a classifier; None if there is none, or it has learned nothing."""
        stage = self.parameters[name] if name in self.parameters.stages else None
        return None if stage is None or stage.is_empty else stage

    def _used(self, *stages: str) -> tuple[str, ...]:
        """Get the variables that these stages read."""
        used = (stage.used for name in stages if (stage := self._stage(name)) is not None)
        return tuple(sorted({variable for own in used for variable in own}))

    def _predicates(self, nodes: RoleTrees) -> _Predicates:
        """Find the predicates."""
        words = self._words(nodes)
        if not len(words):
            return _Predicates(words, [], np.ones(0))
        names = sorted({"lemma", *self._used(PREDICATES, SENSES)})
        columns = predicate_features(nodes, words, names, lemmatize=self.lemmatizer)
        table = Table.of(columns)
        probabilities = np.ones(len(table))
        if (stage := self._stage(PREDICATES)) is not None:
            probabilities = _of_label(stage, stage.predict_proba(table), IS_PREDICATE)
        chosen = np.flatnonzero(probabilities > 0.5)
        rolesets = self._rolesets(table.take(chosen), list(columns["lemma"].at(chosen)))
        return _Predicates(words[chosen], rolesets, probabilities[chosen])

    def _rolesets(self, table: Table, lemmas: Sequence[str]) -> list[str | None]:
        """Find the most probable roleset of each predicate among those known of its lemma."""
        stage = self._stage(SENSES)
        if stage is None:
            return [None] * len(lemmas)
        known = [self.cfg["rolesets"].get(base, {}) for base in lemmas]
        several = [row for row, numbers in enumerate(known) if len(numbers) > 1]
        probabilities = iter(stage.predict_proba(table.take(several)).tolist() if several else ())
        # Unknown labels have the probability 0 that is added.
        places = defaultdict(lambda: -1, zip(stage.labels, count()))
        rolesets = []
        for numbers in known:
            if len(numbers) > 1:
                scores = [*next(probabilities), 0.0]
                # The first one if several are equally probable.
                _, best = min((-scores[places[number]], number) for number in numbers)
                rolesets.append(numbers[best])
            else:
                rolesets.append(next(iter(numbers.values()), None))
        return rolesets

    def _candidates(self, nodes: RoleTrees, predicates: ArrayLike) -> ArgumentNodes:
        return candidates(nodes, predicates, within=self.within_noun_phrases)

    def _roles(
        self, trees: DocTrees, nodes: RoleTrees, predicates: _Predicates
    ) -> list[list[_Role]]:
        """Find the arguments of each predicate."""
        if self._stage(IDENTIFICATION) is None:  # no candidate in training
            return [[] for _ in predicates.words]
        rolesets = iter(predicates.rolesets)
        parts = (
            self._roles_of(trees, nodes, sites, list(islice(rolesets, len(sites.sizes))))
            for sites in self._candidates(nodes, predicates.words).parts(ROWS)
        )
        return [own for part in parts for own in part]

    def _roles_of(
        self,
        trees: DocTrees,
        nodes: RoleTrees,
        sites: ArgumentNodes,
        rolesets: Sequence[str | None],
    ) -> list[list[_Role]]:
        """Find the arguments of each predicate among its n candidates."""
        stage, labels = self._stage(IDENTIFICATION), self.parameters.labels
        names = self._used(IDENTIFICATION, ROLES) or FEATURES[:1]
        columns = features(nodes, sites, names, lemmatize=self.lemmatizer, rolesets=rolesets)
        table = Table.of(columns, names)
        probabilities = _of_label(stage, stage.predict_proba(table), IS_ARGUMENT)
        brackets = trees.probabilities(nodes.starts[sites.nodes], nodes.stops[sites.nodes])
        argument, none = log_probabilities(probabilities, brackets)
        # The others cannot be arguments, whatever their role.
        rows = np.flatnonzero(argument + self.bias > none)
        with np.errstate(divide="ignore"):
            roles = np.log(self.parameters[ROLES].predict_proba(table.take(rows)))
        possible = sites.at(rows)
        once, exempt, further = (), (), ()
        if self.once:
            once = [place for place, label in enumerate(labels) if label in self.role_labels.core]
            relative = nodes.is_one_of(possible.nodes, self.role_labels.relative)
            exempt = np.flatnonzero(relative).tolist()
            nominal = nodes.is_one_of(possible.nodes, self.role_labels.noun_phrases)
            further = np.flatnonzero(~nominal).tolist()
        chosen = decode(
            nodes,
            possible,
            none[rows],
            argument[rows, None] + self.bias + roles,
            once=once,
            exempt=exempt,
            further=further,
        )
        probabilities = role_probabilities(nodes, sites, none, argument, rows, roles)
        below = possible.nodes.tolist()
        return [
            [_Role(labels[label], below[row], probabilities.item(row, label)) for row, label in own]
            for own in chosen
        ]

    def _read(
        self,
        readings: Sequence[FrameReading],
        trees: DocTrees,
        nodes: RoleTrees,
        predicates: _Predicates,
        roles: Sequence[list[_Role]],
    ) -> None:
        """Add the frames to the reading of their Docs."""
        sizes = [len(own) for own in roles]
        of_predicates = np.repeat(predicates.probabilities, sizes)
        found = np.array([role.probability for own in roles for role in own]) * of_predicates
        doc_ids = trees.doc_ids[predicates.words]
        if self.calibration is not None:  # which is for predicted trees
            rows = np.repeat(trees.scored[doc_ids], sizes)
            found[rows] = pooled(found[rows, None], self.calibration)
        arguments = np.array([role.node for own in roles for role in own], dtype=np.intp)
        starts, ends = trees.tokens(nodes.starts[arguments], nodes.stops[arguments])
        places = zip(starts.tolist(), ends.tolist(), found.tolist(), strict=True)
        for number, position, roleset, probability, own in zip(
            doc_ids.tolist(),
            trees.positions[predicates.words].tolist(),
            predicates.rolesets,
            predicates.probabilities.tolist(),
            roles,
            strict=True,
        ):
            kept = {
                role.node: (role.label, *place)
                for role, place in zip(own, places, strict=False)
                if place[-1] >= self.min_confidence
            }
            marked = mark_pieces(nodes, [(label, node) for node, (label, *_) in kept.items()])
            spans = [(label, *kept[node][1:3]) for label, node in marked]
            readings[number].frames.append((position, roleset, spans))
            readings[number].scores.append(probability)
            readings[number].scores.extend(kept[node][-1] for _, node in marked)

    def set_annotations(self, docs: Sequence[Doc], readings: Sequence[FrameReading]) -> None:
        """Write the frames of each Doc to its span group, replacing existing ones."""
        for doc, (frames, scores) in zip(docs, readings, strict=True):
            set_spans(doc, SRL, frame_spans(frames), np.array(scores, dtype=np.float32))


def _of_label(stage: Any, probabilities: NDArray[np.float64], label: str) -> NDArray[np.float64]:
    """Get the probabilities of one label, (n); 0 if the classifier has never seen it."""
    if label not in stage.labels:
        return np.zeros(len(probabilities))
    return probabilities[:, stage.labels.index(label)]


def _annotated(example: Example) -> Doc:
    """Get a Doc with the gold frames and, if the predicted Doc has any, with predicted trees."""
    predicted, reference = example.predicted, example.reference
    tagged = CONSTITUENT_TAGS in predicted.spans or predicted.has_annotation("TAG")
    parsed = CONSTITUENTS in predicted.spans and tagged and has_gold_tokens(example)
    if SRL not in reference.spans or not parsed:
        return reference
    doc = predicted.copy()
    # Not SpanGroup.copy, which finds tokens by their characters: spaces may differ.
    spans = [(span.label_, span.start, span.end, span.kb_id_) for span in reference.spans[SRL]]
    set_spans(doc, SRL, spans)
    return doc


def _arguments_in_words(
    frame: Frame, positions: Sequence[int], first: int, last: int
) -> Iterator[Argument]:
    """Iterate over the arguments, in words, that lie within the sentence of these words."""
    for span, label, _ in frame.arguments:
        start, end = (bisect_left(positions, place) for place in (span.start, span.end))
        inside = positions[first] <= span.start and span.end <= positions[last - 1] + 1
        if start < end and inside:
            yield Argument(label, start, end)


make_srl_labeler = factory(
    SRLLabeler,
    model=DEFAULT_MODEL,
    scorer="spacy_structlearn.srl_scorer.v1",
    scores=[
        *("srl_f", "srl_p", "srl_r", "srl_id_p", "srl_id_r", "srl_id_f", "srl_label_acc"),
        *("srl_predicate_p", "srl_predicate_r", "srl_predicate_f", "srl_sense_acc"),
    ],
    blocks={
        "lemmatizer": {"@misc": "spacy_structlearn.english_lemmas.v1"},
        "head_rules": {"@misc": "spacy_structlearn.collins_head_rules.v1"},
        "role_labels": {"@misc": "spacy_structlearn.english_role_labels.v1"},
    },
    assigns=["doc.spans", "doc._.frames", "token._.srl"],
    requires=["doc.spans"],
)
