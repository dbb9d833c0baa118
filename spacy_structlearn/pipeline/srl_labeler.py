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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, islice
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Span
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
from .doc_trees import gold_trees, has_gold_tokens, reattached
from .extensions import CONSTITUENT_TAGS, CONSTITUENTS, SRL, Frame, frame_spans, set_spans
from .scorers import srl_score
from .srl_templates import IDENTIFICATION, PREDICATES, ROLES, SENSES, STAGES

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
BATCH = 500  # number of sentences that go through the stages together
# About how many candidates are classified together: a sentence of thousands of words can have a
# million.
ROWS = 10_000
# Labels of the stages before the roles.
IS_PREDICATE, IS_ARGUMENT, NONE = "PREDICATE", "ARG", "NONE"

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
    once: bool = setting(
        True,
        help="Give each core role to at most one argument of a predicate, except relative phrases.",
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


class _Sentence(NamedTuple):
    """A tree, the token of each word, and the result of `_bracket_probabilities`."""

    nodes: RoleTree
    positions: Sequence[int]
    brackets: Mapping[tuple[int, int], float] | None

    def tokens(self, node: int) -> tuple[int, int]:
        """Get (start, end) of a node in tokens of the Doc."""
        start, end = self.nodes.span(node)
        return self.positions[start], self.positions[end - 1] + 1

    def probabilities(self, nodes: Iterable[int]) -> list[float]:
        """Get the parser's probability of a bracket over each node.

        1 for words, for phrases that were moved after parsing, and without probabilities.
        """
        if self.brackets is None:
            return [1.0 for _ in nodes]
        return [self.brackets.get(self.tokens(node), 1.0) for node in nodes]


class _Predicate(NamedTuple):
    """The number of a word, its roleset if known, and the probability that it is a predicate."""

    word: int
    roleset: str | None
    probability: float


# The label of an argument without R- and C-, its node, and its probability according to the
# classifiers and the other arguments.
_Role: TypeAlias = tuple[str, int, float]


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
        "calibration": tuple[float, float] | None,
    }

    def __init__(self, *args: Any, scorer: Callable | None = srl_score, **settings: Any):
        super().__init__(*args, scorer=scorer, **settings)
        stages = self.parameters.stages
        if stages[-1:] != (ROLES,) or IDENTIFICATION not in stages or not {*stages} <= {*STAGES}:
            raise StructlearnError("SL036", component=self.name, found=", ".join(stages) or "none")
        # The rolesets of each lemma by their numbers, which follow the last ".".
        self.cfg["rolesets"] = {}
        self.cfg["calibration"] = None

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
            for frame in self._gold_frames(_annotated(example))
            for argument in frame.arguments
        }

    def gold_data(self, example: Example) -> dict[str, ClassificationData] | None:
        """Convert the reference to the instances of each stage.

        The trees and their tags are those of the predicted Doc if it has any and the tokens of the
        reference, and otherwise those of the reference.
        Sentences without a complete tree or with words without a tag are left out, and their number
        is logged. Arguments with an unknown label are left out. Raises StructlearnError if no word
        has a tag and if the frames are malformed.
        """
        doc = _annotated(example)
        if SRL not in doc.spans or CONSTITUENTS not in doc.spans:
            return None
        frames = {frame.predicate.start: frame for frame in self._gold_frames(doc)}
        sentences = list(self._sentences(doc, gold_trees(doc, self.name)))
        return {
            **self._gold_predicates(sentences, frames),
            **self._gold_arguments(sentences, frames),
        } or None

    def _gold_frames(self, doc: Doc) -> list[Frame]:
        """Get the gold frames whose predicates have the right tags, without C-V arguments."""
        if SRL not in doc.spans or CONSTITUENTS not in doc.spans:
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

    def _gold_predicates(
        self, sentences: Sequence[_Sentence], frames: Mapping[int, Frame]
    ) -> dict[str, ClassificationData]:
        """Get the words that can be predicates, and the senses of the gold predicates."""
        words, columns = self._predicate_columns(sentences, PREDICATE_FEATURES)
        if not columns:
            return {}
        of_words = [
            frames.get(sentence.positions[word])
            for sentence, own in zip(sentences, words, strict=True)
            for word in own
        ]
        table = Table.of(columns, PREDICATE_FEATURES)
        labels = tuple(NONE if frame is None else IS_PREDICATE for frame in of_words)
        known = [row for row, frame in enumerate(of_words) if frame is not None and frame.roleset]
        data = {PREDICATES: ClassificationData(table, labels)}
        if known:
            numbers = tuple(of_words[row].roleset.rpartition(".")[-1] for row in known)
            data[SENSES] = ClassificationData(table.take(known), numbers)
        return data

    def _gold_arguments(
        self, sentences: Sequence[_Sentence], frames: Mapping[int, Frame]
    ) -> dict[str, ClassificationData]:
        """Get the candidates of the gold predicates, and the roles of the gold arguments."""
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
                parts.append(features(sentence.nodes, sites, FEATURES, lemmatize=self.lemmatizer))
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
        frames = [frame for e in get_examples() for frame in self._gold_frames(_annotated(e))]
        # Without any argument there are no labels, and loaded parameters are kept.
        if not any(frame.arguments for frame in frames):
            return
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
            and _bracket_probabilities(example.predicted) is not None
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
        """Score examples; frames of predicates with other tags than `tags` are ignored."""
        return super().score(examples, **{"predicate_tags": sorted(self.tags), **kwargs})

    # --- prediction ---------------------------------------------------------------------------
    def predict(self, docs: Sequence[Doc]) -> list[FrameReading]:
        """Predict the frames of each Doc; many sentences go through each stage together.

        Raises StructlearnError for a Doc without constituents or without tags.
        """
        self.require_parameters()
        readings = [FrameReading([], []) for _ in docs]
        pairs = (
            (reading, sentence)
            for doc, reading in zip(docs, readings, strict=True)
            for sentence in self._parsed(doc)
        )
        with uncollected():
            while batch := list(islice(pairs, BATCH)):
                sentences = [sentence for _, sentence in batch]
                predicates = self._predicates(sentences)
                roles = self._roles(sentences, predicates)
                for (reading, sentence), *own in zip(batch, predicates, roles, strict=True):
                    self._read(reading, sentence, *own)
        return readings

    def _parsed(self, doc: Doc) -> Iterator[_Sentence]:
        if all(token.is_space for token in doc):
            return
        self._check(doc)
        sure = self.attachment_confidence
        trees = extensions.trees(doc) if sure is None else reattached(doc, sure)
        spans = (s for s in extensions.sentences(doc) if not all(token.is_space for token in s))
        yield from self._sentences(doc, zip(spans, trees, strict=True))

    def _sentences(self, doc: Doc, pairs: Iterable[tuple[Span, Tree]]) -> Iterator[_Sentence]:
        brackets = _bracket_probabilities(doc)
        for sentence, tree in pairs:
            positions = [token.i for token in sentence if not token.is_space]
            nodes = RoleTree(tree, self.head_rules, self.role_labels)
            yield _Sentence(nodes, positions, brackets)

    def _check(self, doc: Doc) -> None:
        """Raise StructlearnError for a Doc without trees, or without tags."""
        missing = f'doc.spans["{CONSTITUENTS}"]'
        if CONSTITUENTS in doc.spans:
            tagged = CONSTITUENT_TAGS in doc.spans or doc.has_annotation("TAG")
            if tagged or not doc.spans[CONSTITUENTS]:
                return
            missing = f"token.tag_ next to {missing}"
        raise StructlearnError("SL026", component=self.name, missing=missing, text=doc.text[:40])

    def _words(self, sentence: _Sentence) -> list[int]:
        """Get the words that can be predicates."""
        nodes, tags = sentence.nodes, self.tags
        return [word for word, leaf in enumerate(nodes.leaves) if nodes.labels[leaf] in tags]

    def _predicate_columns(
        self, sentences: Sequence[_Sentence], names: Sequence[str]
    ) -> tuple[list[list[int]], dict[str, list[str | None]]]:
        """Get the words of each sentence that can be predicates, and the features of all."""
        words = [self._words(sentence) for sentence in sentences]
        return words, join_columns(
            predicate_features(sentence.nodes, own, names, lemmatize=self.lemmatizer)
            for sentence, own in zip(sentences, words, strict=True)
            if own
        )

    def _stage(self, name: str) -> Any | None:
        """Get a classifier; None if there is none, or it has learned nothing."""
        stage = self.parameters[name] if name in self.parameters.stages else None
        return None if stage is None or stage.is_empty else stage

    def _used(self, *stages: str) -> tuple[str, ...]:
        """Get the variables that these stages read."""
        used = (stage.used for name in stages if (stage := self._stage(name)) is not None)
        return tuple(sorted({variable for own in used for variable in own}))

    def _predicates(self, sentences: Sequence[_Sentence]) -> list[list[_Predicate]]:
        """Find the predicates of each sentence."""
        names = {"lemma", *self._used(PREDICATES, SENSES)}
        words, columns = self._predicate_columns(sentences, sorted(names))
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
        """Find the most probable roleset of each predicate among those known of its lemma."""
        stage = self._stage(SENSES)
        if stage is None:
            return [None] * len(lemmas)
        known = [self.cfg["rolesets"].get(base, {}) for base in lemmas]
        several = [row for row, numbers in enumerate(known) if len(numbers) > 1]
        probabilities = iter(stage.predict_proba(table.take(several)).tolist() if several else ())
        rolesets = []
        for numbers in known:
            if len(numbers) > 1:
                scores = dict(zip(stage.labels, next(probabilities), strict=True))
                # The first one if several are equally probable.
                _, best = min((-scores.get(number, 0.0), number) for number in numbers)
                rolesets.append(numbers[best])
            else:
                rolesets.append(next(iter(numbers.values()), None))
        return rolesets

    def _roles(
        self, sentences: Sequence[_Sentence], predicates: Sequence[list[_Predicate]]
    ) -> list[list[list[_Role]]]:
        """Find the arguments of each predicate of each sentence."""
        stage = self._stage(IDENTIFICATION)
        if stage is None:  # no candidate in training
            return [[[] for _ in own] for own in predicates]
        names = self._used(IDENTIFICATION, ROLES) or FEATURES[:1]
        labels = self.parameters.labels if self.once else ()
        once = {place for place, label in enumerate(labels) if label in self.role_labels.core}
        found: list[list[list[_Role]]] = [[] for _ in sentences]
        all_sites = [
            (number, predicate.word, candidates(sentence.nodes, predicate.word))
            for number, (sentence, own) in enumerate(zip(sentences, predicates, strict=True))
            for predicate in own
        ]
        totals = accumulate(len(nodes) for _, _, nodes in all_sites)
        portions = groupby(zip(all_sites, totals, strict=True), lambda pair: pair[1] // ROWS)
        for _, portion in portions:
            sites = [site for site, _ in portion]
            parts = (
                features(
                    sentences[number].nodes,
                    [(word, nodes) for _, word, nodes in own],
                    names,
                    lemmatize=self.lemmatizer,
                )
                for number, own in groupby(sites, key=itemgetter(0))
            )
            brackets = [
                probability
                for number, _, nodes in sites
                for probability in sentences[number].probabilities(nodes)
            ]
            table = Table.of(join_columns(parts), names)
            probabilities = _of_label(stage, stage.predict_proba(table), IS_ARGUMENT)
            argument, none = log_probabilities(probabilities, brackets)
            # The others cannot be arguments, whatever their role.
            rows = np.flatnonzero(argument + self.bias > none)
            with np.errstate(divide="ignore"):
                roles = np.log(self.parameters[ROLES].predict_proba(table.take(rows)))
            end = 0
            for number, word, nodes in sites:
                begin, end = end, end + len(nodes)
                part, own = slice(begin, end), slice(*np.searchsorted(rows, (begin, end)))
                scores = none[part], argument[part], rows[own] - begin, roles[own]
                found[number].append(
                    self._chosen(sentences[number].nodes, word, nodes, scores, once)
                )
        return found

    def _chosen(
        self,
        nodes: RoleTree,
        word: int,
        below: Sequence[int],
        scores: tuple[NDArray, NDArray, NDArray, NDArray],
        once: Collection[int],
    ) -> list[_Role]:
        """Choose the best arguments of one predicate among the n candidates `below`.

        scores: log P that a candidate is no argument and that it is one, (n); the candidates that
            can be chosen, ascending, (m); log P(label | argument) of these, (m, n_labels).
        once: numbers of labels that at most one argument gets.
        """
        none, argument, rows, roles = scores
        possible = [below[row] for row in rows.tolist()]
        chosen = decode(
            nodes,
            word,
            possible,
            none[rows],
            argument[rows, None] + self.bias + roles,
            once=once,
            exempt=[i for i, node in enumerate(possible) if once and is_relative(nodes, node)],
        )
        if not chosen:
            return []
        labels = self.parameters.labels
        probabilities = role_probabilities(nodes, word, below, *scores).tolist()
        return [(labels[label], possible[i], probabilities[i][label]) for i, label in chosen]

    def _read(
        self,
        reading: FrameReading,
        sentence: _Sentence,
        predicates: Sequence[_Predicate],
        roles: Sequence[list[_Role]],
    ) -> None:
        """Add the frames of one sentence to the reading of its Doc."""
        for predicate, own in zip(predicates, roles, strict=True):
            probabilities = [marginal * predicate.probability for _, _, marginal in own]
            # Calibration is for predicted trees.
            if own and self.calibration is not None and sentence.brackets is not None:
                probabilities = pooled([[p] for p in probabilities], self.calibration).tolist()
            kept = {
                node: (label, probability)
                for (label, node, _), probability in zip(own, probabilities, strict=True)
                if probability >= self.min_confidence
            }
            marked = mark_pieces(sentence.nodes, [(label, n) for n, (label, _) in kept.items()])
            arguments = [(label, *sentence.tokens(node)) for label, node in marked]
            position = sentence.positions[predicate.word]
            reading.frames.append((position, predicate.roleset, arguments))
            reading.scores.append(predicate.probability)
            reading.scores.extend(kept[node][1] for _, node in marked)

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


def _bracket_probabilities(doc: Doc) -> dict[tuple[int, int], float] | None:
    """Get the probability of each bracket by (start, end), the topmost of a unary chain.

    None if brackets have no probabilities.
    """
    group, scores = extensions.scored_group(doc, CONSTITUENTS)
    if scores is None:
        return None
    probabilities: dict[tuple[int, int], float] = {}
    for span, score in zip(group, map(float, scores), strict=True):
        probabilities.setdefault((span.start, span.end), score)
    return probabilities


def _arguments_in_words(frame: Frame, positions: Sequence[int]) -> Iterator[Argument]:
    """Iterate over the arguments, in words, that lie within the sentence of these tokens."""
    for span, label, _ in frame.arguments:
        start, end = (bisect_left(positions, place) for place in (span.start, span.end))
        if start < end and positions[0] <= span.start and span.end <= positions[-1] + 1:
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
