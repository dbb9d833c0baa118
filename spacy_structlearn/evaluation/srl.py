"""Precision, recall and F1 of semantic roles, as in the CoNLL-2005 shared task (Carreras & Màrquez
2005; the script srl-eval).

An argument is correct if the same predicate has one with the same label over the same words. V, the
predicate itself, is not counted. An argument in pieces, A and C-A, is correct if all pieces are; a
C-A without an A before it counts as an A. A reference, R-A, has a label of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from ..errors import StructlearnError
from .prf import PRF, Span, SpanScore, character_spans, check_documents, check_numbers, span_score

Frame = tuple[Hashable, Iterable[Span]]
"""A predicate, by its place in the sentence or text, and its arguments (label, start, end)."""
Pieces = tuple[tuple[int, int], ...]

_CONTINUATION = "C-"
_SPLIT = "-DSP"
_PREDICATE = "V"


@dataclass(frozen=True)
class RoleScore(SpanScore):
    """The figures of CoNLL-2005: a `SpanScore` of the arguments, per label as well.

    identification: Score of the arguments by predicate and words, ignoring labels.
    """

    identification: PRF = field(default_factory=PRF)

    @property
    def classification(self) -> float:
        """Fraction of the identified arguments that have the right label."""
        identified = self.identification.correct
        return self.correct / identified if identified else 0.0


def joined_arguments(arguments: Iterable[Span]) -> list[tuple[str, Pieces]]:
    """Return the arguments of one predicate, each as its label and the spans of its pieces.

    arguments: (label, start, end) in any order. A piece C-A belongs to the last A before it. The
        suffix -DSP, of a split quotation, is removed.
    Raises StructlearnError for an empty span.
    """
    joined: list[tuple[str, list[tuple[int, int]]]] = []
    latest: dict[str, list[tuple[int, int]]] = {}
    for label, start, end in sorted(arguments, key=lambda span: (span[1], -span[2])):
        if not start < end:
            raise StructlearnError("SL320", argument=(label, start, end))
        label = label.removesuffix(_SPLIT)
        if label.startswith(_CONTINUATION):
            label = label.removeprefix(_CONTINUATION)
            if label in latest:
                latest[label].append((start, end))
                continue
        latest[label] = [(start, end)]
        joined.append((label, latest[label]))
    return [(label, tuple(pieces)) for label, pieces in joined]


def score_roles(gold: Sequence[Iterable[Frame]], predicted: Sequence[Iterable[Frame]]) -> RoleScore:
    """Score predicted arguments against gold ones.

    gold, predicted: The frames of each sentence, compared by their predicates.
    Raises StructlearnError if the numbers of sentences differ, or for an empty span.
    """
    check_numbers(gold, predicted, "sentences")
    correct, given, wanted = Counter[str](), Counter[str](), Counter[str]()
    identified = 0
    for wanted_frames, given_frames in zip(gold, predicted, strict=True):
        left, right = _by_predicate(wanted_frames), _by_predicate(given_frames)
        for predicate, arguments in left.items():
            others = right.get(predicate, Counter())
            wanted.update(label for label, _ in arguments.elements())
            correct.update(label for label, _ in (arguments & others).elements())
            identified += (_unlabelled(arguments) & _unlabelled(others)).total()
        for arguments in right.values():
            given.update(label for label, _ in arguments.elements())
    score = span_score(correct, given, wanted)
    return RoleScore(**vars(score), identification=PRF(identified, score.predicted, score.gold))


def _by_predicate(frames: Iterable[Frame]) -> dict[Hashable, Counter[tuple[str, Pieces]]]:
    counts: dict[Hashable, Counter[tuple[str, Pieces]]] = {}
    for predicate, arguments in frames:
        counted = [pair for pair in joined_arguments(arguments) if pair[0] != _PREDICATE]
        counts.setdefault(predicate, Counter()).update(counted)
    return counts


def _unlabelled(arguments: Counter[tuple[str, Pieces]]) -> Counter[Pieces]:
    return Counter(pieces for _, pieces in arguments.elements())


TokenFrame = tuple[int, Iterable[Span]]


def score_token_roles(
    gold: Sequence[tuple[Sequence[str], Iterable[TokenFrame]]],
    predicted: Sequence[tuple[Sequence[str], Iterable[TokenFrame]]],
) -> RoleScore:
    """Score documents given as (words, frames), with predicates and arguments in tokens.

    Gold and predicted documents may have different tokens; predicates and arguments are compared by
    characters without white space. With the same tokens, this equals `score_roles`.
    Raises StructlearnError if the numbers or texts of documents differ, or for a bad span.
    """
    check_documents(gold, predicted)
    return score_roles(
        [_in_characters(words, frames) for words, frames in gold],
        [_in_characters(words, frames) for words, frames in predicted],
    )


def _in_characters(words: Sequence[str], frames: Iterable[TokenFrame]) -> list[Frame]:
    """Convert frames from tokens to characters, and omit predicates of only white space."""
    # All at once, because the characters of all words are counted; frames are numbered.
    pieces = [
        ((number, label), start, end)
        for number, (token, arguments) in enumerate(frames)
        for label, start, end in ((None, token, token + 1), *arguments)
    ]
    converted: dict[int, tuple[Hashable, list[Span]]] = {}
    for (number, label), start, end in character_spans(words, pieces):
        if label is None:
            converted[number] = ((start, end), [])
        elif number in converted:
            converted[number][1].append((label, start, end))
    return list(converted.values())
