"""Semantic roles in `nlp(text)`: `doc.spans["srl"]`, who did what to whom, with the probability of
every predicate and of every argument.

The trees of a Doc are read in four stages, as Toutanova, Haghighi & Manning (2005) and the systems
of CoNLL-2005 do it: which words are predicates, which sense (roleset) each has, which phrases are
arguments of it (identification), and which roles these have. The stages are the classifiers of one
model; from the probabilities of the last two follow the best arguments that do not overlap
(`trees.roles`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from math import isfinite
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Span, SpanGroup
from spacy.training import Example

from ..classification.calibration import fit_pool, pooled
from ..classification.features import ClassificationData, Table
from ..errors import StructlearnError
from ..learning.settings import setting
from ..roles.arguments import (
    decode,
    is_relative,
    log_probabilities,
    mark_pieces,
    role_probabilities,
)
from ..roles.features import (
    FEATURES,
    PREDICATE_FEATURES,
    features,
    join_columns,
    predicate_features,
)
from ..roles.phrases import RoleTree, candidates, gold_roles
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
from ..trees.tree import Tree
from ..words.lemmas import Lemmatizer, lemma, lower
from . import extensions
from .batch_trainable import BatchTrainable, ComponentSettings, factory
from .doc_trees import gold_trees, reattached
from .extensions import CONSTITUENT_TAGS, CONSTITUENTS, SRL, Frame, frame_spans
from .scorers import srl_score
from .srl_templates import IDENTIFICATION, PREDICATES, ROLES, SENSES, STAGES

DEFAULT_MODEL = """
[model]
@architectures = "spacy_structlearn.Stages.v1"
order = ["predicates", "senses", "identification", "roles"]

[model.stages]
"""
DEFAULT_MODEL += "".join(
    f"""
[model.stages.{stage}]
@architectures = "spacy_structlearn.LogLinear.v1"
l2 = 1.0

[model.stages.{stage}.templates]
@misc = "spacy_structlearn.srl_templates.v1"
stage = "{stage}"
"""
    for stage in STAGES
)

BATCH = 500
"""So many sentences go through the stages together."""
ROWS = 10_000
"""So many candidates of theirs, at most, are asked about together: a sentence of thousands of words
can have a million.
"""
IS_PREDICATE, IS_ARGUMENT, NONE = "PREDICATE", "ARG", "NONE"
"""Labels of the stages before the roles."""

extensions.register()


@dataclass(frozen=True, kw_only=True)
class SRLLabelerSettings(ComponentSettings):
    """Finds predicates and their arguments. Its model is Stages with the stages "identification"
    and "roles", and before them "predicates", without which every word with a predicate's tag is
    one, and "senses", without which there are no rolesets.
    """

    name: ClassVar[str] = "srl_labeler"
    iterations_per_step: int = setting(50, ge=1, help="Steps of the learners in one `nlp.update`.")
    predicate_tags: Sequence[str] | None = setting(
        None, help="Tags of words that can be predicates. None: the verbs of `role_labels`."
    )
    min_confidence: float = setting(
        0.0, ge=0, le=1, help="Arguments that are less probable are not reported."
    )
    attachment_confidence: float | None = setting(
        None,
        ge=0,
        le=1,
        help="Where the Doc has attachments of prepositional phrases that are at least this "
        "probable, its trees are read with these, so that roles agree with them. None: the trees "
        "as they are. Training always takes them as they are.",
    )
    once: bool = setting(
        True,
        help="Give no core role to two arguments of one predicate, relative phrases apart.",
    )
    bias: float = setting(
        0.0,
        help="Added to the log-odds of being an argument where arguments are chosen: above 0 more "
        "are found, and more of them are wrong. Probabilities stay as they are.",
    )
    lemmatizer: Lemmatizer | None = setting(
        lemma, help="From a word and its tag to its base form. None: words in lower case."
    )
    head_rules: HeadRules = setting(COLLINS, help="Of the treebank that the trees are of.")
    role_labels: RoleLabels = setting(ENGLISH, help="Of the treebank that the roles are of.")

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        yield "predicate_tags", "a list of one tag or more, or none", self.predicate_tags != ()


class FrameReading(NamedTuple):
    """The frames of a Doc, over its tokens, and the probability of each of their spans."""

    frames: list[PlainFrame]
    scores: list[float]


class _Sentence(NamedTuple):
    """A sentence as its roles are asked of it.

    nodes: of its tree, over its words. positions: the token of each word. brackets: the probability
    of each bracket of the Doc by (start, end) in tokens, of a unary chain that of the topmost; None
    where brackets have no probabilities.
    """

    nodes: RoleTree
    positions: Sequence[int]
    brackets: Mapping[tuple[int, int], float] | None

    def tokens(self, node: int) -> tuple[int, int]:
        """(start, end) of a node in tokens of the Doc."""
        start, end = self.nodes.span(node)
        return self.positions[start], self.positions[end - 1] + 1

    def probabilities(self, nodes: Iterable[int]) -> list[float]:
        """The parser's probability of a bracket with the tokens of each node; 1 for a word, for
        what was moved after parsing, and where there are no probabilities.
        """
        if self.brackets is None:
            return [1.0 for _ in nodes]
        return [self.brackets.get(self.tokens(node), 1.0) for node in nodes]


_Site: TypeAlias = tuple[int, int, list[int]]
"""The number of a sentence, a predicate in it by its word, and the nodes that are candidates."""


class _Predicate(NamedTuple):
    """A word of a sentence, by its number, the roleset if known, and how probable it is."""

    word: int
    roleset: str | None
    probability: float


class _Scores(NamedTuple):
    """What the classifiers say of candidates.

    argument, none: log P that each is an argument, or none, float64 (n). rows: of those that can be
    chosen, ascending, (m). roles: log P(label | argument) of these, float64 (m, n_labels).
    """

    argument: NDArray[np.float64]
    none: NDArray[np.float64]
    rows: NDArray[np.intp]
    roles: NDArray[np.float64]

    def part(self, begin: int, end: int) -> _Scores:
        """Of the candidates from `begin` to `end` alone."""
        first, last = np.searchsorted(self.rows, (begin, end))
        rows = self.rows[first:last] - begin
        return _Scores(self.argument[begin:end], self.none[begin:end], rows, self.roles[first:last])


class _Role(NamedTuple):
    """An argument of a predicate: its label without R- and C-, its node, and how probable it is,
    as far as the classifiers and the arguments beside it tell.
    """

    label: str
    node: int
    marginal: float


class SRLLabeler(BatchTrainable):
    """Finds predicates and their arguments. Reads the group "constituents", the tags beside it or
    else `token.tag`, and `doc.sents` where they are set.
    """

    parameter = "stages"

    settings_kind = SRLLabelerSettings

    def __init__(self, *args: Any, scorer: Callable | None = srl_score, **settings: Any):
        super().__init__(*args, scorer=scorer, **settings)
        stages = self.parameters.stages
        if stages[-1:] != (ROLES,) or IDENTIFICATION not in stages or not {*stages} <= {*STAGES}:
            raise StructlearnError("SL036", component=self.name, found=", ".join(stages) or "none")
        # The rolesets of each base form, by what follows the last "." in them: their number.
        self.cfg["rolesets"] = {}
        self.cfg["calibration"] = None
        self._intern([PREDICATE])

    @property
    def tags(self) -> frozenset[str]:
        """The tags of words that can be predicates."""
        if self.predicate_tags is None:
            return self.role_labels.verbs
        return frozenset(self.predicate_tags)

    # --- training -----------------------------------------------------------------------------
    @property
    def annotation(self) -> str:
        tags = " or ".join(sorted(self.tags)) or "any of no tags (see predicate_tags)"
        arguments = f'doc.spans["{SRL}"] with arguments of predicates tagged {tags}'
        return f'{arguments}, and trees in doc.spans["{CONSTITUENTS}"],'

    def gold_labels(self, example: Example) -> Iterable[str]:
        return {
            base_label(argument.label)
            for frame in self._gold_frames(example.reference)
            for argument in frame.arguments
        }

    def gold_data(self, example: Example) -> dict[str, ClassificationData] | None:
        """The instances of each stage in the reference, read from its own trees and tags.

        Sentences whose brackets make no tree, or that have words without a tag or no bracket at
        all, are left out, and their number is logged; so are arguments whose label is not known.
        RAISES: SL026 if no word has a tag; SL033 for frames that are malformed.
        """
        doc = example.reference
        if not _is_annotated(doc):
            return None
        frames = {frame.predicate.start: frame for frame in self._gold_frames(doc)}
        sentences = self._gold_sentences(doc)
        return {
            **self._gold_predicates(sentences, frames),
            **self._gold_arguments(sentences, frames),
        } or None

    def _gold_frames(self, doc: Doc) -> list[Frame]:
        """The frames of a reference whose predicates have the tag of one, without further pieces of
        the predicate (C-V).
        """
        if not _is_annotated(doc):
            return []
        self._check(doc)
        tags, wanted = extensions.constituent_tags(doc, range(len(doc))), self.tags
        return [
            frame._replace(
                arguments=tuple(a for a in frame.arguments if base_label(a.label) != PREDICATE)
            )
            for frame in extensions.frames(doc)
            if tags[frame.predicate.start] in wanted
        ]

    def _gold_sentences(self, doc: Doc) -> list[_Sentence]:
        brackets = _bracket_probabilities(doc)
        return [self._sentence(*pair, brackets) for pair in gold_trees(doc, self.name)]

    def _gold_predicates(
        self, sentences: Sequence[_Sentence], frames: Mapping[int, Frame]
    ) -> dict[str, ClassificationData]:
        """The words that can be predicates, and the senses of those that are."""
        words = [self._words(sentence) for sentence in sentences]
        columns = self._predicate_columns(sentences, words, PREDICATE_FEATURES)
        if not columns:
            return {}
        found = [
            frames.get(sentence.positions[word])
            for sentence, own in zip(sentences, words, strict=True)
            for word in own
        ]
        table = Table.of(columns, PREDICATE_FEATURES)
        labels = tuple(NONE if frame is None else IS_PREDICATE for frame in found)
        known = [row for row, frame in enumerate(found) if frame is not None and frame.roleset]
        data = {PREDICATES: ClassificationData(table, labels)}
        if known:
            numbers = tuple(_number(found[row].roleset) for row in known)
            data[SENSES] = ClassificationData(table.take(known), numbers)
        return data

    def _gold_arguments(
        self, sentences: Sequence[_Sentence], frames: Mapping[int, Frame]
    ) -> dict[str, ClassificationData]:
        """The candidates of the predicates, and the roles of those that are arguments."""
        parts, roles = [], []
        for sentence in sentences:
            sites = []
            for word in self._words(sentence):
                frame = frames.get(sentence.positions[word])
                if frame is not None:
                    nodes = candidates(sentence.nodes, word)
                    arguments = _arguments_in_words(frame, sentence.positions)
                    roles += gold_roles(sentence.nodes, arguments, nodes)
                    sites.append((word, nodes))
            if sites:
                parts.append(self._argument_columns(sentence, sites, FEATURES))
        if not roles:
            return {}
        table = Table.of(join_columns(parts), FEATURES)
        labels = tuple(NONE if role is None else IS_ARGUMENT for role in roles)
        known = [row for row, role in enumerate(roles) if role in self.labels]
        data = {IDENTIFICATION: ClassificationData(table, labels)}
        if known:
            named = tuple(roles[row] for row in known)
            data[ROLES] = ClassificationData(table.take(known), named)
        return data

    def initialize(self, get_examples: Callable[[], Iterable[Example]], **kwargs: Any) -> None:
        super().initialize(get_examples, **kwargs)
        found = [frame for e in get_examples() for frame in self._gold_frames(e.reference)]
        # Without any argument there are no labels, and what was loaded stays.
        if any(frame.arguments for frame in found):
            self._set_rolesets(found)
            self.calibration = None  # what was loaded is of other parameters

    def _set_rolesets(self, frames: Iterable[Frame]) -> None:
        """Know the rolesets of these frames; of those with the same base form and number the one
        that is most frequent.
        """
        counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for frame in frames:
            if frame.roleset:
                token = frame.predicate[0]
                (tag,) = extensions.constituent_tags(token.doc, [token.i])
                base = (self.lemmatizer or lower)(token.text, tag)
                counts[base, _number(frame.roleset)][frame.roleset] += 1
        rolesets: dict[str, dict[str, str]] = {}
        for (base, number), found in sorted(counts.items()):
            # Of equally frequent ones the first by name.
            best = min(found, key=lambda roleset: (-found[roleset], roleset))
            rolesets.setdefault(base, {})[number] = best
        self.cfg["rolesets"] = rolesets
        self._intern_rolesets()

    def _set_labels(self, labels: Iterable[str]) -> None:
        super()._set_labels(labels)
        for mark in (REFERENCE, CONTINUATION):
            self._intern(mark + label for label in self.labels)

    def _is_sound(self, cfg: dict[str, Any]) -> bool:
        rolesets, calibration = cfg.get("rolesets", {}), cfg.get("calibration")
        if not isinstance(rolesets, dict) or not isinstance(calibration, (list, type(None))):
            return False
        if not all(isinstance(numbers, dict) for numbers in rolesets.values()):
            return False
        names = (name for numbers in rolesets.values() for name in numbers.values())
        weights = calibration or [0, 0]
        return (
            super()._is_sound(cfg)
            and all(isinstance(name, str) for name in names)
            and len(weights) == 2
            and all(isinstance(weight, (int, float)) and isfinite(weight) for weight in weights)
        )

    def _answers(self) -> Iterable[str]:
        return self.parameters.labels

    def _loaded(self) -> SRLLabeler:
        super()._loaded()
        self._intern_rolesets()
        return self

    def _intern_rolesets(self) -> None:
        for numbers in self.cfg["rolesets"].values():
            self._intern(numbers.values())

    def _intern(self, strings: Iterable[str]) -> None:
        # Interned now: a string first interned in a memory zone is gone when the zone ends.
        for string in strings:
            self.vocab.strings.add(string)

    @property
    def calibration(self) -> tuple[float, float] | None:
        """What `calibrate` has found, a constant and a weight of log-odds; None before."""
        return tuple(self.cfg["calibration"]) if self.cfg["calibration"] else None

    @calibration.setter
    def calibration(self, weights: Iterable[float] | None) -> None:
        # Rounded as JSON will hold them, so that a component that is stored stays the same.
        self.cfg["calibration"] = None if weights is None else [round(float(w), 6) for w in weights]

    def calibrate(self, examples: Iterable[Example]) -> tuple[float, float]:
        """Fit the probabilities of arguments to gold frames that were not trained on, over trees as
        the parser predicts them. Which arguments are chosen stays the same; what is below
        `min_confidence` counts here too.

        Only predicted Docs with the tokens of their reference count, whose brackets have
        probabilities. RETURNS: `calibration`. RAISES: SL037 unless some arguments are right and
        some are wrong; nothing changes then.
        """
        self.require_parameters()
        examples = [
            example
            for example in examples
            if SRL in example.reference.spans
            and _has_probabilities(example.predicted)
            and [t.text for t in example.predicted] == [t.text for t in example.reference]
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
        """Score examples by the scorer; frames of predicates with other tags do not count."""
        return super().score(examples, **{"predicate_tags": sorted(self.tags), **kwargs})

    # --- prediction ---------------------------------------------------------------------------
    def predict(self, docs: Sequence[Doc]) -> list[FrameReading]:
        """The frames of each Doc; many sentences go through each stage together.

        RAISES: SL026 for a Doc without constituents, or without tags beside them.
        """
        self.require_parameters()
        readings = [FrameReading([], []) for _ in docs]
        found = (
            (reading, sentence)
            for doc, reading in zip(docs, readings, strict=True)
            for sentence in self._sentences(doc)
        )
        with uncollected():
            while batch := list(islice(found, BATCH)):
                sentences = [sentence for _, sentence in batch]
                predicates = self._predicates(sentences)
                roles = self._roles(sentences, predicates)
                for (reading, sentence), *own in zip(batch, predicates, roles, strict=True):
                    self._read(reading, sentence, *own)
        return readings

    def _sentences(self, doc: Doc) -> Iterator[_Sentence]:
        if all(token.is_space for token in doc):
            return
        self._check(doc)
        sure = self.attachment_confidence
        trees = extensions.trees(doc) if sure is None else reattached(doc, sure)
        brackets = _bracket_probabilities(doc)
        spans = (s for s in extensions.sentences(doc) if not all(token.is_space for token in s))
        for sentence, tree in zip(spans, trees, strict=True):
            yield self._sentence(sentence, tree, brackets)

    def _sentence(
        self, sentence: Span, tree: Tree, brackets: Mapping[tuple[int, int], float] | None
    ) -> _Sentence:
        positions = [token.i for token in sentence if not token.is_space]
        return _Sentence(RoleTree(tree, self.head_rules, self.role_labels), positions, brackets)

    def _check(self, doc: Doc) -> None:
        """RAISES: SL026 for a Doc without trees, or without tags beside them."""
        missing = f'doc.spans["{CONSTITUENTS}"]'
        if CONSTITUENTS in doc.spans:
            tagged = CONSTITUENT_TAGS in doc.spans or doc.has_annotation("TAG")
            if tagged or not doc.spans[CONSTITUENTS]:
                return
            missing = f"token.tag_ beside {missing}"
        raise StructlearnError("SL026", component=self.name, missing=missing, text=doc.text[:40])

    def _words(self, sentence: _Sentence) -> list[int]:
        """The words that can be predicates."""
        nodes, tags = sentence.nodes, self.tags
        return [word for word, leaf in enumerate(nodes.leaves) if nodes.labels[leaf] in tags]

    def _predicate_columns(
        self, sentences: Sequence[_Sentence], words: Sequence[list[int]], names: Sequence[str]
    ) -> dict[str, list[str | None]]:
        return join_columns(
            predicate_features(sentence.nodes, own, names, lemmatize=self.lemmatizer)
            for sentence, own in zip(sentences, words, strict=True)
            if own
        )

    def _argument_columns(
        self, sentence: _Sentence, sites: Sequence[tuple[int, list[int]]], names: Sequence[str]
    ) -> dict[str, list[str | None]]:
        return features(sentence.nodes, sites, names, lemmatize=self.lemmatizer)

    def _stage(self, name: str) -> Any | None:
        """A classifier; None where there is none, or it has learned nothing."""
        held = name in self.parameters.stages and not self.parameters[name].is_empty
        return self.parameters[name] if held else None

    def _used(self, *stages: str) -> tuple[str, ...]:
        """The variables that these stages read."""
        used = (stage.used for name in stages if (stage := self._stage(name)) is not None)
        return tuple(sorted({variable for own in used for variable in own}))

    def _predicates(self, sentences: Sequence[_Sentence]) -> list[list[_Predicate]]:
        """The predicates of each sentence."""
        words = [self._words(sentence) for sentence in sentences]
        names = {"lemma", *self._used(PREDICATES, SENSES)}
        columns = self._predicate_columns(sentences, words, sorted(names))
        if not columns:
            return [[] for _ in sentences]
        table = Table.of(columns)
        probabilities = np.ones(len(table))
        if (stage := self._stage(PREDICATES)) is not None:
            probabilities = _of_label(stage, stage.predict_proba(table), IS_PREDICATE)
        chosen = np.flatnonzero(probabilities > 0.5)
        lemmas = [columns["lemma"][row] for row in chosen]
        rolesets = self._rolesets(table.take(chosen), lemmas)
        found = dict(zip(chosen.tolist(), rolesets, strict=True))
        rows = enumerate(probabilities.tolist())
        return [
            [
                _Predicate(word, found[row], probability)
                for word, (row, probability) in zip(own, rows, strict=False)
                if row in found
            ]
            for own in words
        ]

    def _rolesets(self, table: Table, lemmas: Sequence[str]) -> list[str | None]:
        """The most probable roleset of each predicate, of those known of its base form."""
        stage = self._stage(SENSES)
        if stage is None:
            return [None] * len(lemmas)
        known = [self.cfg["rolesets"].get(base, {}) for base in lemmas]
        several = [row for row, numbers in enumerate(known) if len(numbers) > 1]
        probabilities = iter(stage.predict_proba(table.take(several)).tolist() if several else ())
        found = []
        for numbers in known:
            if len(numbers) > 1:
                scores = dict(zip(stage.labels, next(probabilities), strict=True))
                # Of equally probable ones the first.
                _, best = min((-scores.get(number, 0.0), number) for number in numbers)
                found.append(numbers[best])
            else:
                found.append(next(iter(numbers.values()), None))
        return found

    def _roles(
        self, sentences: Sequence[_Sentence], predicates: Sequence[list[_Predicate]]
    ) -> list[list[list[_Role]]]:
        """The arguments of each predicate of each sentence."""
        if self._stage(IDENTIFICATION) is None:  # it has never seen a candidate
            return [[[] for _ in own] for own in predicates]
        names = self._used(IDENTIFICATION, ROLES) or FEATURES[:1]
        labels = self.parameters.labels if self.once else ()
        once = {place for place, label in enumerate(labels) if label in self.role_labels.core}
        found: list[list[list[_Role]]] = [[] for _ in sentences]
        for sites in _portions(sentences, predicates):
            parts = (
                self._argument_columns(
                    sentences[number], [(word, nodes) for _, word, nodes in own], names
                )
                for number, own in groupby(sites, key=itemgetter(0))
            )
            brackets = [
                probability
                for number, _, nodes in sites
                for probability in sentences[number].probabilities(nodes)
            ]
            scores = self._scores(Table.of(join_columns(parts), names), brackets)
            end = 0
            for number, word, nodes in sites:
                begin, end = end, end + len(nodes)
                part = scores.part(begin, end)
                found[number].append(self._chosen(sentences[number].nodes, word, nodes, part, once))
        return found

    def _scores(self, table: Table, brackets: Sequence[float]) -> _Scores:
        """What the classifiers say of candidates, one a row.

        brackets: the probability that each is a constituent.
        """
        stage = self.parameters[IDENTIFICATION]
        probabilities = _of_label(stage, stage.predict_proba(table), IS_ARGUMENT)
        argument, none = log_probabilities(probabilities, brackets)
        # No role can make an argument of the others.
        rows = np.flatnonzero(argument + self.bias > none)
        with np.errstate(divide="ignore"):
            roles = np.log(self.parameters[ROLES].predict_proba(table.take(rows)))
        return _Scores(argument, none, rows, roles)

    def _chosen(
        self,
        nodes: RoleTree,
        word: int,
        below: Sequence[int],
        scores: _Scores,
        once: Collection[int],
    ) -> list[_Role]:
        """The best arguments of one predicate, of the candidates `below`.

        once: labels, by number, that only one of them gets.
        """
        rows, labels = scores.rows, self.parameters.labels
        possible = [below[row] for row in rows.tolist()]
        chosen = decode(
            nodes,
            word,
            possible,
            scores.none[rows],
            scores.argument[rows, None] + self.bias + scores.roles,
            once=once,
            exempt=[i for i, node in enumerate(possible) if once and is_relative(nodes, node)],
        )
        if not chosen:
            return []
        probabilities = role_probabilities(
            nodes, word, below, scores.none, scores.argument, rows, scores.roles
        ).tolist()
        return [_Role(labels[label], possible[i], probabilities[i][label]) for i, label in chosen]

    def _probabilities(
        self, sentence: _Sentence, predicate: _Predicate, roles: Sequence[_Role]
    ) -> list[float]:
        """What is reported as the probability of each argument of one predicate."""
        found = [role.marginal * predicate.probability for role in roles]
        # Of trees that were not parsed there is nothing to be unsure of.
        if self.calibration is None or sentence.brackets is None or not found:
            return found
        return pooled([[probability] for probability in found], self.calibration).tolist()

    def _read(
        self,
        reading: FrameReading,
        sentence: _Sentence,
        predicates: Sequence[_Predicate],
        roles: Sequence[list[_Role]],
    ) -> None:
        """Add the frames of one sentence to the reading of its Doc."""
        for predicate, own in zip(predicates, roles, strict=True):
            probabilities = self._probabilities(sentence, predicate, own)
            kept = {
                role.node: (role.label, probability)
                for role, probability in zip(own, probabilities, strict=True)
                if probability >= self.min_confidence
            }
            marked = mark_pieces(sentence.nodes, [(label, n) for n, (label, _) in kept.items()])
            arguments = [(label, *sentence.tokens(node)) for label, node in marked]
            position = sentence.positions[predicate.word]
            reading.frames.append((position, predicate.roleset, arguments))
            reading.scores.append(predicate.probability)
            reading.scores.extend(kept[node][1] for _, node in marked)

    def set_annotations(self, docs: Sequence[Doc], readings: Sequence[FrameReading]) -> None:
        """Write the frames of each Doc to its span group, replacing what was there."""
        for doc, (frames, scores) in zip(docs, readings, strict=True):
            doc.spans[SRL] = SpanGroup(
                doc,
                name=SRL,
                spans=[
                    Span(doc, start, end, label, kb_id=kb_id)
                    for label, start, end, kb_id in frame_spans(frames)
                ],
                attrs={"scores": np.array(scores, dtype=np.float32)},
            )


def _portions(
    sentences: Sequence[_Sentence], predicates: Sequence[list[_Predicate]]
) -> Iterator[list[_Site]]:
    """The sites of all predicates in their order, about `ROWS` candidates at a time."""
    sites: list[_Site] = []
    n = 0
    for number, (sentence, own) in enumerate(zip(sentences, predicates, strict=True)):
        for predicate in own:
            nodes = candidates(sentence.nodes, predicate.word)
            if sites and n + len(nodes) > ROWS:
                yield sites
                sites, n = [], 0
            sites.append((number, predicate.word, nodes))
            n += len(nodes)
    if sites:
        yield sites


def _of_label(stage: Any, probabilities: NDArray[np.float64], label: str) -> NDArray[np.float64]:
    """The probabilities of one label, (n); 0 where the classifier has not seen it."""
    if label not in stage.labels:
        return np.zeros(len(probabilities))
    return probabilities[:, stage.labels.index(label)]


def _bracket_probabilities(doc: Doc) -> dict[tuple[int, int], float] | None:
    """The probability of each bracket by (start, end), of a unary chain that of the topmost."""
    group = extensions.aligned_group(doc, CONSTITUENTS)
    scores = extensions.group_scores(group)
    if scores is None:
        return None
    found: dict[tuple[int, int], float] = {}
    for span, score in zip(group, map(float, scores), strict=True):
        found.setdefault((span.start, span.end), score)
    return found


def _has_probabilities(doc: Doc) -> bool:
    return CONSTITUENTS in doc.spans and _bracket_probabilities(doc) is not None


def _is_annotated(doc: Doc) -> bool:
    return SRL in doc.spans and CONSTITUENTS in doc.spans


def _arguments_in_words(frame: Frame, positions: Sequence[int]) -> Iterator[Argument]:
    """The arguments of a frame in words of its sentence, whose tokens are `positions`, without
    those that go beyond it.
    """
    for span, label, _ in frame.arguments:
        start, end = (bisect_left(positions, place) for place in (span.start, span.end))
        if start < end and positions[0] <= span.start and span.end <= positions[-1] + 1:
            yield Argument(label, start, end)


def _number(roleset: str) -> str:
    """What tells the senses of one word apart: "01" of "give.01"."""
    return roleset.rpartition(".")[-1]


make_srl_labeler = factory(
    SRLLabeler,
    model=DEFAULT_MODEL,
    scorer="spacy_structlearn.srl_scorer.v1",
    score_weights={
        "srl_f": 1.0,
        "srl_p": 0.0,
        "srl_r": 0.0,
        "srl_id_p": 0.0,
        "srl_id_r": 0.0,
        "srl_id_f": 0.0,
        "srl_label_acc": 0.0,
        "srl_predicate_p": 0.0,
        "srl_predicate_r": 0.0,
        "srl_predicate_f": 0.0,
        "srl_sense_acc": 0.0,
    },
    blocks={
        "lemmatizer": {"@misc": "spacy_structlearn.english_lemmas.v1"},
        "head_rules": {"@misc": "spacy_structlearn.collins_head_rules.v1"},
        "role_labels": {"@misc": "spacy_structlearn.english_role_labels.v1"},
    },
    assigns=["doc.spans", "doc._.frames", "token._.srl"],
    requires=["doc.spans"],
)
