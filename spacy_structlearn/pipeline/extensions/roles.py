"""Extensions of semantic roles: frames."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from spacy.tokens import Doc, Span, SpanGroup, Token

from ...display.html import Rows
from ...errors import StructlearnError
from ...glossary import warn_of_unknown
from ...groups import SRL
from ...learning.settings import check_argument
from ...roles.propositions import PREDICATE, PlainFrame
from .span_groups import aligned_group, group_scores


class FrameArgument(NamedTuple):
    """An argument of a frame, or one piece of a discontinuous argument.

    label: "ARG0" to "ARG5", "ARGA", "ARGM-TMP" and so on, with the prefix "R-" for relative
        pronouns and "C-" for the second and later pieces of an argument.
    prob: probability of exactly this span with this label; None if the scores are missing.
    """

    span: Span
    label: str
    prob: float | None


class Frame(NamedTuple):
    """A predicate and its arguments. Notebooks draw it over its sentence.

    For JSON, use `spacy_structlearn.as_dict(doc)`, because a frame contains Spans.
    roleset: the sense of the predicate, such as "give.01"; None if it is not known.
    prob: probability that the token is a predicate; None if the scores are missing.
    """

    predicate: Span
    roleset: str | None
    arguments: tuple[FrameArgument, ...]
    prob: float | None

    def as_row(self) -> dict[str, str]:
        """Return the row of a table, with two digits of probabilities."""
        parts = [FrameArgument(self.predicate, "", self.prob), *self.arguments]
        texts = [f"{label} {span} {'' if p is None else f'{p:.2f}'}" for span, label, p in parts]
        predicate, *arguments = (" ".join(text.split()) for text in texts)
        roleset = self.roleset or ""
        return {"predicate": predicate, "roleset": roleset, "arguments": "; ".join(arguments)}

    def get(self, label: str) -> Span | None:
        """Get the first argument with this label; None if there is none.

        An unknown label gets a warning.
        """
        check_argument("label", label, str)
        warn_of_unknown([label], self.predicate.vocab.strings)
        return next((part.span for part in self.arguments if part.label == label), None)

    def _repr_html_(self) -> str:
        from ...display.frames import frame_line
        from ...display.html import fragment, sentences

        return fragment(
            self.predicate.doc, [frame_line(s, self) for s in sentences(self.predicate)]
        )


def frames(doc: Doc) -> tuple[Frame, ...]:
    """Get the frames in the order of their predicates; empty if no labeler has run.

    Notebooks display them as a table.

    Raises StructlearnError if the group is malformed.
    """
    group = aligned_group(doc, SRL) or SpanGroup(doc)
    all_frames: list[Frame] = []
    index = 0
    while index < len(group):
        all_frames.append(_frame(group, index))
        index += 1 + len(all_frames[-1].arguments)
    return Rows(all_frames)


def srl(token: Token) -> Frame | None:
    """Get the frame whose predicate is this token; None for all other tokens.

    Raises StructlearnError if the group is malformed.
    """
    group = aligned_group(token.doc, SRL)
    if group is None:
        return None
    # Spans of one frame have the same predicate, and frames are sorted by it.
    place = bisect_left(
        range(len(group)), token.i, key=lambda index: group[_predicate(group, index)].start
    )
    if place == len(group) or group[place].start != token.i:
        return None
    return _frame(group, place)


def frame_spans(frames: Iterable[PlainFrame]) -> Iterator[tuple[str, int, int, str]]:
    """Iterate over the spans of `doc.spans["srl"]` as (label, start, end, kb_id).

    frames: sorted by predicate, the arguments of each by (start, -end).
    """
    for predicate, roleset, arguments in frames:
        yield PREDICATE, predicate, predicate + 1, roleset or ""
        yield from ((label, start, end, "") for label, start, end in arguments)


def _predicate(group: SpanGroup, index: int) -> int:
    """Find the index of the predicate in whose frame the span at `index` is."""
    while index >= 0 and group[index].label_ != PREDICATE:
        index -= 1
    if index < 0:
        raise StructlearnError("SL033", text=group.doc.text[:40])
    return index


def _frame(group: SpanGroup, first: int) -> Frame:
    """Read the frame that begins at the index `first`."""
    predicate, scores = group[first], group_scores(group)
    sound = predicate.label_ == PREDICATE
    arguments = []
    for index in range(first + 1, len(group)):
        span = group[index]
        if span.label_ == PREDICATE:
            sound = sound and span.start >= predicate.start
            break
        prob = None if scores is None else float(scores[index])
        arguments.append(FrameArgument(span, span.label_, prob))
    if not sound:
        raise StructlearnError("SL033", text=predicate.doc.text[:40])
    prob = None if scores is None else float(scores[first])
    return Frame(predicate, predicate.kb_id_ or None, tuple(arguments), prob)
