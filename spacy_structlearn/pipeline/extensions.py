"""Every extension attribute of the package, in one place: read-only views of `doc.spans`.

A prediction is stored once, as a SpanGroup. The getters here find what they need by bisection, so
a document of n spans costs O(log n) a look-up and never a scan. They are module-level functions,
because lambdas break pickling and `n_process` under spawn, and they are registered only where no
other package has taken the name.
"""

from __future__ import annotations

from collections.abc import Callable

from spacy.tokens import Doc, Span, SpanGroup, Token

NP_CHUNKS = "np_chunks"


def register() -> None:
    """Register all extensions; safe to call any number of times, in any process."""
    _add(Doc, "np_chunks", np_chunks)
    _add(Token, "np_iob", np_iob)
    _add(Span, "np_chunk_prob", np_chunk_prob)


def _add(target: type, name: str, getter: Callable) -> None:
    if not target.has_extension(name):
        target.set_extension(name, getter=getter)


def np_chunks(doc: Doc) -> tuple[Span, ...]:
    """The NP chunks of `doc` in order; empty where no chunker has run."""
    return tuple(doc.spans[NP_CHUNKS]) if NP_CHUNKS in doc.spans else ()


def np_iob(token: Token) -> str:
    """ "B" at the first token of an NP chunk, "I" inside one, "O" outside.

    Like `token.ent_iob_` it is "" where the document has no NP chunks annotated at all.
    """
    spans = token.doc.spans
    if NP_CHUNKS not in spans:
        return ""
    index = _last_starting_by(spans[NP_CHUNKS], token.i)
    if index < 0:
        return "O"
    chunk = spans[NP_CHUNKS][index]
    if token.i == chunk.start:
        return "B"
    return "I" if token.i < chunk.end else "O"


def np_chunk_prob(span: Span) -> float | None:
    """The model's probability that exactly this span is an NP chunk.

    None if the span is none of the predicted chunks, or if the chunks carry no scores (gold
    annotation; documents joined by `Doc.from_docs`, which drops them).
    """
    spans = span.doc.spans
    if NP_CHUNKS not in spans:
        return None
    group = spans[NP_CHUNKS]
    index = _last_starting_by(group, span.start)
    if index < 0 or (group[index].start, group[index].end) != (span.start, span.end):
        return None
    scores = group_scores(group)
    return None if scores is None else float(scores[index])


def group_scores(group: SpanGroup):
    """The scores of a group, one a span, or None where they are missing or of another length."""
    scores = group.attrs.get("scores")
    return scores if scores is not None and len(scores) == len(group) else None


def _last_starting_by(group: SpanGroup, start: int) -> int:
    """Index of the last span whose first token is at or before `start`, -1 if there is none.

    `group` is sorted by start, which is how it is written and how joining documents leaves it.
    """
    low, high = 0, len(group)
    while low < high:
        middle = (low + high) // 2
        if group[middle].start <= start:
            low = middle + 1
        else:
            high = middle
    return low - 1
