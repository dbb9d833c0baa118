"""Chunk precision, recall and F1 over a corpus, as the conlleval script of the CoNLL shared tasks
computes them (Tjong Kim Sang & Buchholz 2000), from tags in IOB1 or IOB2 or invalid sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import StructlearnError
from .prf import Span, SpanScore, check_numbers, score_spans


@dataclass(frozen=True)
class ConllEval(SpanScore):
    """The `SpanScore` of chunks, and the numbers of tokens and of tokens with the gold tag."""

    tokens: int = 0
    correct_tags: int = 0

    @property
    def accuracy(self) -> float:
        """Fraction of tokens with the gold tag; 0 without tokens."""
        return self.correct_tags / self.tokens if self.tokens else 0.0


def chunks(tags: Sequence[str]) -> list[Span]:
    """Return the chunks of one sentence as (type, start, end), end exclusive.

    tags: "B-NP", "I-NP", "O"; bare "B" and "I" have the type "". A chunk begins at B, and at I
        after O or another type.
    Raises StructlearnError for other tags.
    """
    spans: list[Span] = []
    for position, tag in enumerate(tags):
        prefix, _, label = tag.partition("-")
        if prefix not in ("B", "I", "O"):
            raise StructlearnError("SL303", tag=tag, position=position)
        if prefix == "I" and spans and (spans[-1][0], spans[-1][2]) == (label, position):
            spans[-1] = (label, spans[-1][1], position + 1)
        elif prefix != "O":
            spans.append((label, position, position + 1))
    return spans


def conlleval(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> ConllEval:
    """Score predicted tag sequences against gold ones, one for each sentence.

    A chunk is correct if a gold chunk of the sentence has the same type, start and end.
    Raises StructlearnError for other tags, or if numbers or lengths of sentences differ.
    """
    check_numbers(gold, predicted, "sentences")
    tokens = correct_tags = 0
    for number, (wanted, given) in enumerate(zip(gold, predicted, strict=True), 1):
        if len(wanted) != len(given):
            raise StructlearnError("SL302", sentence=number, gold=len(wanted), predicted=len(given))
        tokens += len(wanted)
        correct_tags += sum(a == b for a, b in zip(wanted, given, strict=True))
    score = score_spans([chunks(tags) for tags in gold], [chunks(tags) for tags in predicted])
    return ConllEval(**vars(score), tokens=tokens, correct_tags=correct_tags)
