"""Scorers for `spacy train` and `nlp.evaluate`: Docs in, the measures of `evaluation` out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from spacy.tokens import Doc
from spacy.training import Example

from ..evaluation.prf import score_token_spans
from .extensions import NP_CHUNKS


def make_np_chunk_scorer() -> Callable[..., dict[str, Any]]:
    return np_chunk_score


def np_chunk_score(
    examples: Iterable[Example], *, spans_key: str = NP_CHUNKS, **cfg: Any
) -> dict[str, Any]:
    """Precision, recall and F1 of the chunks: conlleval's measure over character offsets.

    On gold tokens it equals conlleval; where the tokens are predicted, a chunk is right if it
    covers the same characters, white space apart. Examples without gold chunks do not count; if
    none has any, the scores are None.
    """
    return span_score(examples, spans_key, "np_chunk")


def span_score(examples: Iterable[Example], key: str, prefix: str) -> dict[str, Any]:
    """Score the group `doc.spans[key]`, under score names that begin with `prefix`."""
    gold, predicted = [], []
    for example in examples:
        if key in example.reference.spans:
            gold.append(_labelled_spans(example.reference, key))
            predicted.append(_labelled_spans(example.predicted, key))
    names = [f"{prefix}_{measure}" for measure in ("p", "r", "f", "per_type")]
    if not gold:
        return dict.fromkeys(names)
    scores = score_token_spans(gold, predicted)
    per_type = {
        label: {"p": prf.precision, "r": prf.recall, "f": prf.f1}
        for label, prf in scores.per_label.items()
    }
    return dict(zip(names, (scores.precision, scores.recall, scores.f1, per_type), strict=True))


def _labelled_spans(doc: Doc, key: str) -> tuple[list[str], list[tuple[str, int, int]]]:
    group = doc.spans.get(key, ())
    return [token.text for token in doc], [(s.label_, s.start, s.end) for s in group]
