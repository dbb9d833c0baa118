"""Chunk precision, recall and F1 as the conlleval script of the CoNLL shared tasks computes them
(Tjong Kim Sang & Buchholz 2000; also what Smith, Vail & Lafferty 2007 report): over the whole
corpus, from tags decoded leniently, so that IOB1 and IOB2 and sequences that are neither are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import StructlearnError
from .prf import Span, SpanScore, check_numbers, score_spans


@dataclass(frozen=True)
class ConllEval(SpanScore):
    """The figures of conlleval: a `SpanScore` of the chunks, per type as well, with `tokens`, the
    number of tokens, and `correct_tags`, the number of tokens with the gold tag.
    """

    tokens: int = 0
    correct_tags: int = 0

    @property
    def accuracy(self) -> float:
        """Tokens with the gold tag, O included, from 0 to 1; 0 without tokens."""
        return self.correct_tags / self.tokens if self.tokens else 0.0


def chunks(tags: Sequence[str]) -> list[Span]:
    """The chunks of one sentence by the lenient rules of conlleval.

    tags: "B-NP", "I-NP", "O"; bare "B" and "I" are of the type "". A chunk begins at B, and at I
    where the tag before is O, of another type, or absent; it ends before the next beginning, before
    O and at the end. Returns (type, start, end), end exclusive, in order. Raises SL303 for a tag
    that is none of these.
    """
    found: list[Span] = []
    start = 0
    current: str | None = None  # the type of the open chunk
    for position, tag in enumerate(tags):
        prefix, _, label = tag.partition("-")
        if prefix not in ("B", "I", "O"):
            raise StructlearnError("SL303", tag=tag, position=position)
        if prefix == "I" and label == current:
            continue
        if current is not None:
            found.append((current, start, position))
        current = None if prefix == "O" else label
        start = position
    if current is not None:
        found.append((current, start, len(tags)))
    return found


def conlleval(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> ConllEval:
    """Score predicted tag sequences against gold ones, one sequence a sentence.

    A predicted chunk is correct if a gold chunk of the sentence has the same type, start and end;
    the counts are summed over the corpus. Raises SL301 if the numbers of sentences differ, SL302 if
    a sentence has two lengths (it is named, counted from 1), SL303 as `chunks`.
    """
    check_numbers(gold, predicted, "sentences")
    tokens = correct_tags = 0
    for number, (wanted, given) in enumerate(zip(gold, predicted, strict=True), 1):
        if len(wanted) != len(given):
            raise StructlearnError("SL302", sentence=number, gold=len(wanted), predicted=len(given))
        tokens += len(wanted)
        correct_tags += sum(a == b for a, b in zip(wanted, given, strict=True))
    score = score_spans([chunks(tags) for tags in gold], [chunks(tags) for tags in predicted])
    return ConllEval(
        score.correct, score.predicted, score.gold, score.per_label, tokens, correct_tags
    )
