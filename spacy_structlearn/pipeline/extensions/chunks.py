"""Extensions of tokens and NP chunks: probabilities of sentence starts, tags, heads and chunks."""

from __future__ import annotations

from spacy.tokens import Doc, Span, Token

from ...groups import DEPENDENCIES, NP_CHUNKS, SENTENCE_STARTS, TAG_CANDIDATES
from ...trees.parse import GivenTag
from .span_groups import aligned_group, last_starting_by, scored_group


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
    group, scores = scored_group(span.doc, NP_CHUNKS)
    index = last_starting_by(group, span.start)
    if scores is None or index < 0:
        return None
    same = (group[index].start, group[index].end) == (span.start, span.end)
    return float(scores[index]) if same else None
