"""Precision, recall and F1 of labelled spans, the measure that all components share.

Spans are compared by character offsets without white space, so the gold and the predicted document
may have different tokens. With the same tokens, this is the measure of the shared tasks (Tjong Kim
Sang & Buchholz 2000). Repeated spans are matched as often as they occur on both sides, as in
bracket scoring (Black et al. 1991).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, TypeVar

from ..errors import StructlearnError

Span = tuple[str, int, int]
Spans = Sequence[Iterable[tuple[str, Any, Any]]]
L = TypeVar("L")


@dataclass(frozen=True)
class PRF:
    """Counts of spans. Precision, recall and F1 are from 0 to 1, and 0 if undefined.

    correct: Number of spans that are both gold and predicted.
    predicted, gold: Number of all predicted and of all gold spans.
    """

    correct: int = 0
    predicted: int = 0
    gold: int = 0

    @property
    def precision(self) -> float:
        """correct / predicted."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """correct / gold."""
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall, 2 correct / (predicted + gold)."""
        both = self.predicted + self.gold
        return 2 * self.correct / both if both else 0.0


@dataclass(frozen=True)
class SpanScore(PRF):
    """A `PRF` over all labels (micro average), and one for each label in alphabetical order."""

    per_label: dict[str, PRF] = field(default_factory=dict)


def span_score(correct: Counter[str], predicted: Counter[str], gold: Counter[str]) -> SpanScore:
    """Make a score from the counts of each label."""
    per_label = {
        label: PRF(correct[label], predicted[label], gold[label])
        for label in sorted(gold | predicted)
    }
    return SpanScore(correct.total(), predicted.total(), gold.total(), per_label)


def score_spans(gold_docs: Spans, predicted_docs: Spans) -> SpanScore:
    """Score predicted spans against gold ones.

    Each document is a multiset of (label, start, end). A span that occurs m times in the gold
    document and n times in the predicted one is correct min(m, n) times. Offsets can have any unit,
    or be other hashable objects. Raises StructlearnError if the numbers of documents differ.
    """
    check_numbers(gold_docs, predicted_docs, "documents")
    correct, predicted, gold = Counter[str](), Counter[str](), Counter[str]()
    for wanted, given in zip(gold_docs, predicted_docs, strict=True):
        wanted, given = Counter(wanted), Counter(given)
        for counts, spans in ((gold, wanted), (predicted, given), (correct, wanted & given)):
            counts.update(label for label, _, _ in spans.elements())
    return span_score(correct, predicted, gold)


def score_token_spans(
    gold_docs: Sequence[tuple[Sequence[str], Iterable[Span]]],
    predicted_docs: Sequence[tuple[Sequence[str], Iterable[Span]]],
) -> SpanScore:
    """Score documents given as (words, spans), with spans as (label, start, end) in tokens.

    Gold and predicted documents may have different tokens; see `character_spans`.
    Raises StructlearnError if the numbers or the texts of documents differ, or for a bad span.
    """
    check_documents(gold_docs, predicted_docs)
    return score_spans(
        [character_spans(words, spans) for words, spans in gold_docs],
        [character_spans(words, spans) for words, spans in predicted_docs],
    )


def character_spans(
    words: Sequence[str], spans: Iterable[tuple[L, int, int]]
) -> list[tuple[L, int, int]]:
    """Convert spans of tokens to spans of characters, not counting white space.

    words: The tokens of a document.
    spans: (label, start, end) in tokens, end exclusive.

    Returns the spans in the same order, with character offsets. Spans of only white space are
    omitted. Raises StructlearnError for a span that is empty or goes beyond the tokens.
    """
    offsets = letter_offsets(words)
    converted: list[tuple[L, int, int]] = []
    for label, start, end in spans:
        if not 0 <= start < end <= len(words):
            raise StructlearnError("SL305", span=(label, start, end), length=len(words))
        if offsets[start] < offsets[end]:
            converted.append((label, offsets[start], offsets[end]))
    return converted


def letters(text: str) -> str:
    """Remove white space from a text."""
    return "".join(text.split())


def letter_offsets(words: Iterable[str]) -> list[int]:
    """Return where each of n words begins, not counting white space, and the end (n + 1)."""
    return [0, *accumulate(len(letters(word)) for word in words)]


def check_numbers(gold: Sequence, predicted: Sequence, what: str) -> None:
    """Raise SL301 unless both sides have the same length."""
    if len(gold) != len(predicted):
        raise StructlearnError("SL301", gold=len(gold), predicted=len(predicted), what=what)


def check_documents(gold: Sequence[tuple], predicted: Sequence[tuple]) -> None:
    """Check the texts of documents given as (words or text, spans).

    Raises StructlearnError unless the texts are the same, ignoring white space.
    """
    check_numbers(gold, predicted, "documents")
    for number, pair in enumerate(zip(gold, predicted, strict=True), 1):
        wanted, given = (letters("".join(document[0])) for document in pair)
        if wanted != given:
            pairs = enumerate(zip(wanted, given, strict=False))
            at = next((i for i, (a, b) in pairs if a != b), min(len(wanted), len(given)))
            texts = {"gold": wanted[at : at + 20], "predicted": given[at : at + 20]}
            raise StructlearnError("SL304", document=number, at=at, **texts)
