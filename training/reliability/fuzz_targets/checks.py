"""Invariants of Docs after one of our pipelines, and of the getters of its layers."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from spacy.tokens import Doc, Span

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline import extensions
from spacy_structlearn.trees.brackets import parse_tree

LAYERS = ("np_chunks", "constituents", "pp_attachments", "srl")
ROUNDING = 1e-5
# The documented errors of getters.
WITHOUT = {"SL021"}


ANSWERED = "answered"


class NotSane(AssertionError):
    """An impossible result."""


def refusal(error: Exception) -> str:
    """Return the code of an error, or its text without numbers and quotations."""
    return (
        getattr(error, "code", None)
        or re.sub(r"'[^']*'|[\d.]+", "#", f"{type(error).__name__}: {error}")[:60]
    )


def sane(doc: Doc) -> None:
    """Raise NotSane unless the span groups of our layers are valid."""
    for key in LAYERS:
        if key not in doc.spans:
            continue
        group = doc.spans[key]
        places = [(span.start, span.end) for span in group]
        if not all(0 <= start < end <= len(doc) for start, end in places):
            raise NotSane(f"{key}: {places} in {len(doc)} tokens")
        scores = group.attrs.get("scores")
        if scores is None:
            continue
        values = np.asarray(scores, dtype=np.float64)
        if len(values) != len(group):
            raise NotSane(f"{key}: {len(values)} scores of {len(group)} spans")
        if not ((values >= -ROUNDING) & (values <= 1 + ROUNDING)).all():
            raise NotSane(f"{key}: probabilities {values[:20]}")
        if key == "np_chunks" and any(a[1] > b[0] for a, b in pairwise(places)):
            raise NotSane(f"{key}: {places} overlap")
        if key == "constituents" and places != sorted(places, key=lambda p: (p[0], -p[1])):
            raise NotSane(f"{key}: {places} are not in pre-order")


def covered(doc: Doc) -> None:
    """Raise NotSane unless each sentence has one tree over its words."""
    for sentence in extensions.sentences(doc):
        words = [token.text for token in sentence if not token.is_space]
        if not words:
            continue
        tree = extensions.tree(sentence)
        if tree is None or tree.words() != words:
            raise NotSane(f"{words} and {tree and tree.words()}")
        if len(parse_tree(sentence._.parse_string).words()) != len(words):
            raise NotSane(sentence._.parse_string)


def read_all(doc: Doc, spans: list[Span]) -> None:
    """Read each getter of the Doc, its sentences and tokens, and of some spans.

    Raises NotSane for an invalid probability, and undocumented exceptions of getters.
    """
    ask = _Asked()
    for name in ("np_chunks", "trees", "parse_failures", "pp_attachments", "frames"):
        ask(lambda name=name: getattr(doc._, name))
    for frame in doc._.frames:
        ask.probability(frame.prob)
        for argument in frame.arguments:
            ask.probability(argument.prob)
    for site in doc._.pp_attachments:
        ask.probability(site.prob)
        site.head  # noqa: B018  (a property)
    for span in [*extensions.sentences(doc), *spans]:
        for name in ("labels", "parse_string", "tree", "parent"):
            ask(lambda name=name, span=span: getattr(span._, name))
        for name in ("constituents", "children"):
            ask(lambda name=name, span=span: list(getattr(span._, name)))
        ask(lambda span=span: span._.is_constituent, never=True)
        ask.probability(ask(lambda span=span: span._.constituent_prob, never=True))
        ask.probability(ask(lambda span=span: span._.np_chunk_prob, never=True))
    # In long texts, only the first tokens.
    for token in list(doc)[:60]:
        ask(lambda token=token: token._.np_iob, never=True)
        ask(lambda token=token: (token._.pp_head, token._.srl))
        for name in ("labels", "parse_string", "parent"):
            ask(lambda name=name, token=token: getattr(token._, name))
        for name in ("constituents", "children"):
            ask(lambda name=name, token=token: list(getattr(token._, name)))


class _Asked:
    """Calls getters, and accepts documented errors."""

    def __call__(self, getter: Callable[[], Any], *, never: bool = False) -> Any:
        try:
            return getter()
        except StructlearnError as error:
            if never:
                raise NotSane(f"a getter that never raises: {error}") from error
            if error.code not in WITHOUT:
                raise
            return None

    def probability(self, value: float | None) -> None:
        if value is not None and not -ROUNDING <= value <= 1 + ROUNDING:
            raise NotSane(f"a probability of {value}")
