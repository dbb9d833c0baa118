"""Extensions of the attachments of prepositional phrases."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from spacy.tokens import Doc, Span, SpanGroup, Token

from ...attachment.sites import NOUN, VERB, Site
from ...errors import StructlearnError
from ...groups import PP_ATTACHMENTS
from .span_groups import PP_ROLES, PP_SITE, aligned_group, group_scores


class PPAttachment(NamedTuple):
    """A prepositional phrase after a verb and its object, and the one that it attaches to.

    label: "V" or "N".
    noun, object: the heads of the objects of the verb and of the preposition. For phrases behind
        another one, the noun may be the object of that one.
    prob: probability of the label; None if the scores are missing.
    """

    pp: Span
    label: str
    verb: Token
    noun: Token
    prep: Token
    object: Token
    prob: float | None

    @property
    def head(self) -> Token | None:
        """The verb or noun that the phrase attaches to; None for labels other than V and N."""
        return {VERB: self.verb, NOUN: self.noun}.get(self.label)


def pp_attachments(doc: Doc) -> tuple[PPAttachment, ...]:
    """Get the attachments in the order of their prepositions; empty if no attacher has run.

    Raises StructlearnError if the group is malformed.
    """
    group = aligned_group(doc, PP_ATTACHMENTS)
    return () if group is None else tuple(_attachment(group, n) for n in range(_n_sites(group)))


def pp_head(token: Token) -> Token | None:
    """Get the verb or noun that the phrase of a preposition attaches to.

    None for all other tokens, if no attacher has run, and for prepositions without a site or below
    `min_confidence`. Raises StructlearnError if the group is malformed.
    """
    group = aligned_group(token.doc, PP_ATTACHMENTS)
    if group is None:
        return None
    preps = range(1 + PP_ROLES.index("prep"), _n_sites(group) * PP_SITE, PP_SITE)
    number = bisect_left(preps, token.i, key=lambda index: group[index].start)
    if number == len(preps) or group[preps[number]].start != token.i:
        return None
    return _attachment(group, number).head


def site_spans(sites: Iterable[Site]) -> Iterator[tuple[str, int, int]]:
    """Iterate over the spans of `doc.spans["pp_attachments"]`: (label, start, end), five a site."""
    for site in sites:
        yield site.label, site.start, site.end
        yield from ((role, head, head + 1) for role, head in zip(PP_ROLES, site[:4], strict=True))


def _n_sites(group: SpanGroup) -> int:
    number, rest = divmod(len(group), PP_SITE)
    if rest:
        raise StructlearnError("SL027", text=group.doc.text[:40])
    return number


def _attachment(group: SpanGroup, number: int) -> PPAttachment:
    first = number * PP_SITE
    pp, *parts = (group[index] for index in range(first, first + PP_SITE))
    if tuple(part.label_ for part in parts) != PP_ROLES:
        raise StructlearnError("SL027", text=pp.doc.text[:40])
    scores = group_scores(group)
    prob = None if scores is None else float(scores[first])
    verb, noun, prep, last = (part[0] for part in parts)
    return PPAttachment(pp, pp.label_, verb, noun, prep, last, prob)
