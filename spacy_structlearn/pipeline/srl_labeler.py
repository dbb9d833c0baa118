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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import Any, ClassVar, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IS_SPACE
from spacy.tokens import Doc
from spacy.training import Example, validate_get_examples

from ..classification.calibration import fit_pool
from ..classification.features import ClassificationData
from ..encoder.pool import Loss
from ..encoder.scorer import NO_VECTORS
from ..errors import StructlearnError
from ..groups import CONSTITUENTS, SRL
from ..learning.settings import setting
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
from ..trees.heads import COLLINS, HeadRules
from ..trees.nodes import Brackets
from ..words.lemmas import Lemmatizer, lemma, lower
from . import extensions
from .doc_arrays import (
    PENN_TAGS,
    DocTrees,
    gold_trees,
    has_gold_tokens,
    is_tagged,
    missing_for_trees,
    read_vectors,
    warn_of_other_tags,
)
from .extensions import Frame, constituent_tags, frame_spans, frames, set_spans
from .extensions.span_groups import scored_group, words_of
from .scorers import srl_score
from .srl_stages import (
    ALL,
    ARGUMENTS,
    IDENTIFICATION,
    ROLES,
    ROLESETS,
    STAGES,
    VERBS,
    FrameFinder,
    GoldFrame,
)
from .training.batch_trainable import BatchTrainable
from .training.factories import ComponentSettings, factory

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
RARE_TAGS = 0.01  # share of the predicates that are not verbs

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
    predicates: str = setting(
        VERBS,
        choices=(VERBS, ALL),
        help='"verbs": only words with a tag of verbs in `role_labels`. "all": other words too, '
        "such as nouns and adjectives, if their lemma and their tag were those of a predicate in "
        "training.",
    )
    min_confidence: float = setting(
        0.0, ge=0, le=1, help="Arguments with a lower probability are not reported."
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


class FrameReading(NamedTuple):
    """The frames of a Doc over its tokens, and the probability of each of their spans."""

    frames: list[PlainFrame]
    scores: list[float]


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
    heads = (ROLESETS, ARGUMENTS)
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
        return self.role_labels.verbs

    # --- training -----------------------------------------------------------------------------
    @property
    def annotation(self) -> str:
        arguments = f'doc.spans["{SRL}"] with arguments of predicates'
        if self.predicates != ALL:
            tags = " or ".join(sorted(self.tags)) or "any of no tags"
            arguments += f" tagged {tags} (see role_labels)"
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
        gold: list[GoldFrame | None] = []  # of each word
        pairs = gold_trees(doc, self.name)
        own = {frame.predicate.start: frame for frame in self._gold_frames(doc)}
        for sentence, _ in pairs:
            gold += _of_words(own, words_of(sentence), len(gold))
        finder = FrameFinder(self)
        nodes = finder.nodes(Brackets.of(tree for _, tree in pairs))
        return finder.gold_data(nodes, gold, self.labels) or None

    def _gold_frames(self, doc: Doc) -> list[Frame]:
        """Get the gold frames of predicates that may be found, without C-V arguments."""
        if SRL not in doc.spans or CONSTITUENTS not in doc.spans:
            return []
        self._check(doc)
        tags, wanted = constituent_tags(doc, range(len(doc))), self.tags
        return [
            frame._replace(
                arguments=tuple(a for a in frame.arguments if base_label(a.label) != PREDICATE)
            )
            for frame in frames(doc)
            if self.predicates == ALL or tags[frame.predicate.start] in wanted
        ]

    def initialize(self, get_examples: Callable[[], Iterable[Example]], **kwargs: Any) -> None:
        validate_get_examples(get_examples, f"{type(self).__name__}.initialize")
        gold = [frame for e in get_examples() for frame in self._gold_frames(_annotated(e))]
        # Without any argument there are no labels, and loaded parameters are kept.
        has_arguments = any(frame.arguments for frame in gold)
        if has_arguments:
            self.cfg["others"] = self._gold_others(gold)  # on which the data depends
        super().initialize(get_examples, **kwargs)
        if has_arguments:
            self.calibration = None  # a loaded calibration belongs to other parameters
            self.cfg["rolesets"] = self._gold_rolesets(gold)
            self._intern()

    def _begin(self, examples: list[Example]) -> None:
        super()._begin(examples)
        if not self._training.from_scratch:
            gold = [frame for e in examples for frame in self._gold_frames(_annotated(e))]
            # Known numbers keep their rolesets, which are those of more data.
            held = self.cfg["rolesets"]
            for base, numbers in self._gold_rolesets(gold).items():
                held[base] = numbers | held.get(base, {})
            others = self.cfg["others"]
            for name, new in self._gold_others(gold).items():
                others[name] = sorted({*others[name], *new})
            self._intern()

    def _gold_rolesets(self, frames: Iterable[Frame]) -> dict[str, dict[str, str]]:
        """Get the rolesets of each lemma by their numbers, as `cfg` has them."""
        # The most frequent roleset for each lemma and number.
        counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for frame in frames:
            if frame.roleset:
                _, base = self._tag_and_lemma(frame)
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
        verbs = self.tags
        others = [pair for pair in map(self._tag_and_lemma, frames) if pair[0] not in verbs]
        counts = Counter(tag for tag, _ in others)
        tags = {tag for tag, n in counts.items() if n >= RARE_TAGS * len(others)}
        lemmas = {base for tag, base in others if tag in tags}
        return {"tags": sorted(tags), "lemmas": sorted(lemmas)}

    def _tag_and_lemma(self, frame: Frame) -> tuple[str, str]:
        token = frame.predicate[0]
        (tag,) = constituent_tags(token.doc, [token.i])
        return tag, (self.lemmatizer or lower)(token.text, tag)

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

    def pool_losses(self, examples: Sequence[Example]) -> dict[str, list[Loss]]:
        docs = [example.predicted for example in examples]
        if not docs:
            return {}
        trees = DocTrees(docs)
        gold: list[GoldFrame | None] = []  # of each word
        for number, example in enumerate(examples):
            own = {f.predicate.start: f for f in self._gold_frames(_annotated(example))}
            positions = trees.positions[trees.doc_ids == number].tolist()
            gold += _of_words(own, positions, len(gold))
        finder = FrameFinder(self, vectors=self._vectors(docs, trees), gold=gold)
        for _ in finder.find(trees):
            pass
        return finder.losses

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
            and scored_group(example.predicted, CONSTITUENTS)[1] is not None
            and has_gold_tokens(example)
        ]
        super().calibrate(examples)
        probabilities, right = [], []
        readings = self._find([example.predicted for example in examples], FrameFinder(self))
        for example, reading in zip(examples, readings, strict=True):
            gold = {
                (frame.predicate.start, label, span.start, span.end)
                for frame in frames(example.reference)
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
        constant, weight = fit_pool(probabilities, right)
        self.calibration = constant, weight
        return self.cfg["calibration"][0], self.cfg["calibration"][1]

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
        readings = self._find(docs, FrameFinder(self, self.min_confidence, self.calibration))
        if self.tags.union(self.cfg["others"]["tags"]) <= PENN_TAGS:
            for doc, reading in zip(docs, readings, strict=True):
                if not reading.frames and not self._warned:
                    self._warned = warn_of_other_tags(self.name, doc, of_trees=True)
        return readings

    def _find(self, docs: Sequence[Doc], finder: FrameFinder) -> list[FrameReading]:
        readings = [FrameReading([], []) for _ in docs]
        totals = accumulate(map(len, docs))
        parts = groupby(zip(docs, readings, totals, strict=True), lambda part: part[-1] // WORDS)
        for _, part in parts:
            own = [(d, reading) for d, reading, _ in part if not d.to_array(IS_SPACE).all()]
            for doc, _ in own:
                self._check(doc)
            trees = DocTrees([doc for doc, _ in own])
            finder = replace(finder, vectors=self._vectors([doc for doc, _ in own], trees))
            for number, frame, scores in finder.find(trees) if own else ():
                own[number][1].frames.append(frame)
                own[number][1].scores.extend(scores)
        return readings

    def _vectors(self, docs: Sequence[Doc], trees: DocTrees) -> NDArray[np.float32]:
        """Get the vectors of the words of trees, (n_words, width); none without site scorers."""
        return (
            read_vectors(docs, trees.rows, self.name, self.site_scorers)
            if self.site_scorers
            else NO_VECTORS
        )

    def _check(self, doc: Doc) -> None:
        """Raise StructlearnError for a Doc without trees, or without tags."""
        if missing := missing_for_trees(doc):
            text = doc.text[:40]
            raise StructlearnError("SL026", component=self.name, missing=missing, text=text)

    def set_annotations(self, docs: Sequence[Doc], readings: Sequence[FrameReading]) -> None:
        """Write the frames of each Doc to its span group, replacing existing ones."""
        for doc, (own, scores) in zip(docs, readings, strict=True):
            set_spans(doc, SRL, frame_spans(own), np.array(scores, dtype=np.float32))


def _annotated(example: Example) -> Doc:
    """Get a Doc with the gold frames and, if the predicted Doc has any, with predicted trees."""
    predicted, reference = example.predicted, example.reference
    parsed = CONSTITUENTS in predicted.spans and is_tagged(predicted) and has_gold_tokens(example)
    if SRL not in reference.spans or not parsed:
        return reference
    doc = predicted.copy()
    # Not SpanGroup.copy, which finds tokens by their characters: spaces may differ.
    spans = [(span.label_, span.start, span.end, span.kb_id_) for span in reference.spans[SRL]]
    set_spans(doc, SRL, spans)
    return doc


def _of_words(
    frames: Mapping[int, Frame], positions: Sequence[int], first: int
) -> Iterator[GoldFrame | None]:
    """Iterate over the frames of words, with the arguments among them, in words of all trees.

    frames: by the tokens of their predicates. positions: the tokens of the words. first: the
        number of the first word.
    """
    for frame in map(frames.get, positions):
        arguments = []
        for span, label, _ in frame.arguments if frame else ():
            start, end = (bisect_left(positions, place) for place in (span.start, span.end))
            if start < end and positions[0] <= span.start and span.end <= positions[-1] + 1:
                arguments.append(Argument(label, first + start, first + end))
        yield (frame.roleset, arguments) if frame else None


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
