"""Phrases, clauses and measures, read from the constituents of a Doc: `doc._.phrases("NP")`,
`doc._.clauses`, `doc._.measures`.

The rules that find clauses are in `roles.clauses`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from spacy.tokens import Doc, Span, SpanGroup, Token

from ...errors import StructlearnError
from ...glossary import warn_of_unknown
from ...groups import CONSTITUENTS
from ...learning.settings import check_argument
from ...measures.totals import measures_of, totals
from ...roles.clauses import PlainClause, find_clauses
from ...roles.propositions import Argument
from ...trees.heads import COLLINS
from ...trees.tree import Span as Bracket
from .brackets import sentences, tree
from .forests import doc_forest
from .roles import srl
from .span_groups import aligned_group, bounds, lower_bound, spans_from, words_of

ALL, MAXIMAL, MINIMAL = "all", "maximal", "minimal"


# --- phrases --------------------------------------------------------------------------------------
def phrases(part: Doc | Span, *labels: str, which: str = ALL) -> tuple[Span, ...]:
    """Get the phrases with one of these labels, in pre-order (outer ones first).

    The label of a phrase is its `label_`. Where two phrases with the same label cover the same
    tokens, there is one. Of a Span, get the phrases within it, which may be the Span itself. The
    Span need not be a constituent. Empty if no parser has run. An unknown label gets a warning.
    labels: such as "NP" and "SBAR"; if none is given, all labels.
    which: "all"; "maximal": only those that are not inside another one of these phrases; "minimal":
        only those that contain no other.
    Raises StructlearnError if `which` is not one of these, and for labels that are no strings.
    """
    for label in labels:
        check_argument("labels", label, str)
    warn_of_unknown(labels, part.doc.vocab.strings)
    if which not in (ALL, MAXIMAL, MINIMAL):
        raise StructlearnError("SL180", value=which, known=", ".join((ALL, MAXIMAL, MINIMAL)))
    spans = list(dict.fromkeys(_labelled(part, frozenset(labels))))
    if which == MAXIMAL:
        ends = accumulate((span.end for span in spans), max, initial=-1)
        spans = [span for span, end in zip(spans, ends, strict=False) if span.end > end]
    elif which == MINIMAL:
        last = spans[-1:]
        spans = [span for span, after in pairwise(spans) if after.start >= span.end] + last
    return tuple(spans)


def _labelled(part: Doc | Span, labels: frozenset[str]) -> Iterator[Span]:
    """Iterate over the brackets with these labels within a Doc or Span, in pre-order."""
    doc, start, end = bounds(part)
    group = aligned_group(doc, CONSTITUENTS) or SpanGroup(doc)
    for span in spans_from(group, lower_bound(group, start, len(doc)), end):
        if span.end <= end and (not labels or span.label_ in labels):
            yield span


# --- clauses --------------------------------------------------------------------------------------
class Clause(NamedTuple):
    """A clause: S, SINV, SQ, SBARQ or SBAR with a verb phrase, or SQ or SINV with a verb.

    SBAR or SBARQ and the S, SINV or SQ inside are one clause, whose span includes "that" or "who".
    Coordinated verbs make several clauses with the same span and the same subject: "She came and
    sold it". The parts are read from the tree. Where the verb has a frame (`token._.srl`), it
    tells modifiers from objects and complements, and what is extracted: "the boat that she sold".

    label: label of the outermost bracket; that of the span.
    verb: the verb behind all auxiliaries ("sold" in "will have been sold"); the last auxiliary if
        the verb is left out.
    subject: the noun phrase before the verb phrase, or after the auxiliary of a question; a clause
        ("That he left surprised her"); the relative or interrogative phrase. None for imperatives
        and infinitives. The subject of another clause is never filled in.
    objects: noun phrases beside the verb, direct or indirect, and the relative or interrogative
        phrase. A form of "be" has none.
    attribute: the noun or adjective phrase that a form of "be" is followed by; None if there is
        none.
    complements: clauses beside the verb: "She said (that he left)".
    passive: whether the verb is a participle after "be" or "get", or without an auxiliary.
    agent: the noun phrase after "by" that the frame calls ARG0. None if there is none.
    """

    span: Span
    label: str
    verb: Token
    subject: Span | None
    objects: tuple[Span, ...]
    attribute: Span | None
    complements: tuple[Span, ...]
    passive: bool
    agent: Span | None


def clauses(part: Doc | Span) -> tuple[Clause, ...]:
    """Get the clauses, outer ones first, in the order of their verbs if they have the same span.

    Of a Span, get the clauses within it. The trees must have the labels of the Penn Treebank. Empty
    if no parser has run. Raises StructlearnError if the frames are malformed.
    """
    doc, start, end = bounds(part)
    if CONSTITUENTS not in doc.spans or start == end:
        return ()
    found = [
        clause
        for sentence in sentences(part)
        for clause in _clauses_of(sentence)
        if start <= clause.span.start and clause.span.end <= end
    ]
    return tuple(found)


def _clauses_of(sentence: Span) -> Iterator[Clause]:
    top = tree(sentence)
    if top is None:
        return
    doc = sentence.doc
    tokens = words_of(sentence)
    words = {token: word for word, token in enumerate(tokens)}

    def arguments(verb: int) -> Iterator[Argument]:
        frame = srl(doc[tokens[verb]])
        for span, label, _ in () if frame is None else frame.arguments:
            if span.start in words and span.end - 1 in words:
                yield Argument(label, words[span.start], words[span.end - 1] + 1)

    for plain in find_clauses(top, arguments):
        yield _clause(doc, tokens, plain)


def _clause(doc: Doc, tokens: Sequence[int], plain: PlainClause) -> Clause:
    """Make a clause of one in words. tokens: the token of each word."""

    def span(bracket: Bracket) -> Span:
        label, start, end = bracket
        return Span(doc, tokens[start], tokens[end - 1] + 1, label)

    return Clause(
        span(plain.bracket),
        plain.bracket[0],
        doc[tokens[plain.verb]],
        plain.subject and span(plain.subject),
        tuple(map(span, plain.objects)),
        plain.attribute and span(plain.attribute),
        tuple(map(span, plain.complements)),
        plain.passive,
        plain.agent and span(plain.agent),
    )


# --- measures -------------------------------------------------------------------------------------
def measures(part: Doc | Span) -> dict[str, float]:
    """Get measures of syntactic complexity by name, of a Doc or of the sentences of a Span.

    These are the counts and indices of Lu (2010), such as "W", "C/T" and "CN/C", and mean depths
    and lengths, such as "yngve_depth" and "np_length". The trees must have the labels of the Penn
    Treebank. Empty if no parser has run.
    """
    doc, span = bounds(part)[0], part if isinstance(part, Span) else None
    if aligned_group(doc, CONSTITUENTS) is None:
        return {}
    return measures_of(totals(doc_forest([doc], (), COLLINS, span).forest).sum(axis=0))
