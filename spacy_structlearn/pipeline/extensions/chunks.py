"""Extensions of tokens, NP chunks and attachments, with the probabilities of each."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from spacy.tokens import Doc, Span, SpanGroup, Token

from ...attachment.sites import NOUN, VERB, Site, chunk_head
from ...errors import StructlearnError
from ...groups import DEPENDENCIES, NP_CHUNKS, PP_ATTACHMENTS, SENTENCE_STARTS, TAG_CANDIDATES
from ...trees.heads import COLLINS
from ...trees.parse import GivenTag
from .brackets import is_constituent, tree
from .span_groups import (
    PP_ROLES,
    PP_SITE,
    aligned_group,
    group_scores,
    last_starting_by,
    scored_group,
    words_of,
)


def sent_start_prob(token: Token) -> float | None:
    """Get the probability that a sentence begins with this token; values below 0.01 become 0.

    None if no sentence splitter has run, or if the scores are missing (see `group_scores`).
    """
    group, scores = scored_group(token.doc, SENTENCE_STARTS)
    if scores is None:
        return None
    index = last_starting_by(group, token.i)
    return 0.0 if index < 0 or group[index].start != token.i else float(scores[index])


def dep_prob(token: Token) -> float | None:
    """Get the probability that the head of a token is right.

    None for white space, if `tree_dependencies` has not run, or if the scores are missing.
    """
    group, scores = scored_group(token.doc, DEPENDENCIES)
    if scores is None:
        return None
    index = last_starting_by(group, token.i)
    return None if index < 0 or group[index].start != token.i else float(scores[index])


def tag_probs(token: Token) -> dict[str, float] | None:
    """Get the tags that a token may have and their probabilities, the most probable tag first.

    If the tagger was certain, `token.tag_` alone has probability 1. Tags below 0.01 are left out.
    None for a token without a tag, if no tagger with probabilities has run, or if the scores are
    missing.
    """
    group, scores = scored_group(token.doc, TAG_CANDIDATES)
    if scores is None or not token.tag:
        return None
    first = last = last_starting_by(group, token.i)
    while first >= 0 and group[first].start == token.i:
        first -= 1
    probabilities = {group[i].label_: float(scores[i]) for i in range(first + 1, last + 1)}
    return probabilities or {token.tag_: 1.0}


def with_candidates(doc: Doc, indices: list[int], tags: list[GivenTag]) -> list[GivenTag]:
    """Replace the tags of tokens that have candidates by the probabilities of these.

    A token whose tag is no longer the first candidate keeps it: another component has set it.
    """
    group, scores = scored_group(doc, TAG_CANDIDATES)
    if scores is None:
        return tags
    candidates: dict[int, dict[str, float]] = {}
    for span, probability in zip(group, scores.tolist(), strict=True):
        candidates.setdefault(span.start, {})[span.label_] = probability
    own = (candidates.get(index) for index in indices)
    return [
        tag if found is None or next(iter(found)) != tag else found
        for found, tag in zip(own, tags, strict=True)
    ]


def np_chunks(doc: Doc) -> tuple[Span, ...]:
    """Get the NP chunks in order; empty if no chunker has run."""
    return tuple(aligned_group(doc, NP_CHUNKS) or ())


def np_iob(token: Token) -> str:
    """Get "B" for the first token of an NP chunk, "I" inside a chunk, and "O" outside.

    Like `token.ent_iob_`, it is "" if the document has no NP chunks annotated at all.
    """
    group = aligned_group(token.doc, NP_CHUNKS)
    if group is None:
        return ""
    index = last_starting_by(group, token.i)
    if index < 0 or token.i >= group[index].end:
        return "O"
    return "B" if token.i == group[index].start else "I"


def np_chunk_prob(span: Span) -> float | None:
    """Get the model's probability that exactly this span is an NP chunk.

    None if the span is not one of the predicted chunks, or if the scores are missing.
    """
    _, scores = scored_group(span.doc, NP_CHUNKS)
    index = _chunk_at(span)
    return None if scores is None or index < 0 else float(scores[index])


def _chunk_at(span: Span) -> int:
    """Return the number of the chunk that is exactly this span, -1 if there is none."""
    group = aligned_group(span.doc, NP_CHUNKS) or SpanGroup(span.doc)
    index = last_starting_by(group, span.start)
    same = index >= 0 and (group[index].start, group[index].end) == (span.start, span.end)
    return index if same else -1


def head(span: Span) -> Token | None:
    """Get the head of a constituent, by the head rules of Collins (1999), or of an NP chunk.

    The head of a prepositional phrase is its preposition. That of a chunk that is no constituent is
    its last noun, number or word. None for other spans and for white space. Never raises.
    """
    node = tree(span) if is_constituent(span) else None
    if node is not None:
        words = words_of(span)
        while not node.is_leaf:
            rank = COLLINS.head_child(node)
            words = words[sum(len(child.words()) for child in node.children[:rank]) :]
            node = node.children[rank]
        return span.doc[words[0]]
    tags = [token.tag_ for token in span]
    return None if _chunk_at(span) < 0 else span[chunk_head(tags, 0, len(span))]


# --- attachments ----------------------------------------------------------------------------------
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
