"""The predictions for a Doc as plain data for JSON: `spacy_structlearn.as_dict`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from spacy.tokens import Doc, Span, Token

from ...display.frames import LONG, cut_mark, plain_frame, window
from ...display.html import ShownSentence, by_sentence, enclosed, sentences
from ...errors import StructlearnError
from ...groups import CONSTITUENTS, PP_ATTACHMENTS, SRL
from ...roles.propositions import PREDICATE
from ...sequence.layout.encoding import encode
from .brackets import constituent_prob, parse_failures, trees
from .chunks import np_chunk_prob, np_chunks, pp_attachments
from .roles import Frame, frames
from .span_groups import PP_ROLES, rounded

# The keys of `as_dict`: those of every Doc, and those of layers that a component has set.
LAYERS = frozenset(
    {"text", "tokens", "sents", "np_chunks", "trees", "constituents"}
    | {"parse_failures", "pp_attachments", "frames"}
)


def as_dict(doc: Doc) -> dict[str, Any]:
    """Return the predictions for a Doc as plain data, which `json.dumps` accepts.

    A span is a dict of its characters, `text[start:end]`, most with a `label` and the rounded
    probability `prob` of exactly this span with this label, or None. White space is left out.

    text: that of the Doc.
    tokens: spans with a `tag`, "" if no tagger has run; with `pos`, `lemma` and `morph` if they are
        set; and with `dep` and `head`, the number of a token, its own for a root, if they are set.
    sents: spans with the texts of their tokens, `words`.
    np_chunks, constituents: labelled spans, the latter those of all trees, without the root.
    trees: one for each sentence, in brackets.
    parse_failures: spans with a `label`: "fallback", "cut" or "constraints".
    pp_attachments: labelled spans, "V" or "N", with the spans `verb`, `noun`, `prep`, `object`.
    frames: dicts with the span `predicate`, its `roleset` and `prob`, its `arguments`, which are
        labelled spans, and the number of its `sentence`; and with `verb`, `description` and `tags`
        as AllenNLP's predictor of semantic roles returns them. The tags are over the `words` of the
        sentence, in the IOB2 scheme. They are None if the arguments overlap, which tags cannot
        express, and for a sentence of more than 250 words, whose description has only the words
        around the frame.
    `trees` and what follows are missing if no component has set them. Raises StructlearnError for
    other objects than Docs.
    """
    if not isinstance(doc, Doc):
        raise StructlearnError("SL141", wanted="a Doc", kind=type(doc).__name__)
    shown = sentences(doc)
    data: dict[str, Any] = {
        "text": doc.text,
        "tokens": _tokens(doc),
        "sents": [
            _place(doc[s.positions[0] : s.positions[-1] + 1]) | {"words": s.words()} for s in shown
        ],
        "np_chunks": [
            _labelled(chunk, chunk.label_, np_chunk_prob(chunk)) for chunk in np_chunks(doc)
        ],
    }
    if CONSTITUENTS in doc.spans:
        data["trees"] = [str(tree) for tree in trees(doc)]
        data["constituents"] = [
            _labelled(bracket, bracket.label_, constituent_prob(bracket))
            for bracket in doc.spans[CONSTITUENTS]
        ]
        data["parse_failures"] = [
            _place(span) | {"label": span.label_} for span in parse_failures(doc)
        ]
    if PP_ATTACHMENTS in doc.spans:
        data["pp_attachments"] = [
            _labelled(site.pp, site.label, site.prob)
            | {role: _token(getattr(site, role)) for role in PP_ROLES}
            for site in pp_attachments(doc)
        ]
    if SRL in doc.spans:
        of_sentences = by_sentence(shown, frames(doc), lambda frame: frame.predicate.start)
        data["frames"] = [
            _frame(frame, number, shown[number])
            for number, own in enumerate(of_sentences)
            for frame in own
            if not frame.predicate[0].is_space
        ]
    return data


def _tokens(doc: Doc) -> list[dict[str, Any]]:
    words = [token for token in doc if not token.is_space]
    places = {token.i: place for place, token in enumerate(words)}
    found: list[dict[str, Any]] = []
    for place, token in enumerate(words):
        layers = {"pos": token.pos_, "lemma": token.lemma_, "morph": str(token.morph)}
        own = _token(token) | {"tag": token.tag_} | {key: val for key, val in layers.items() if val}
        if token.dep:
            own |= {"dep": token.dep_, "head": places.get(token.head.i, place)}
        found.append(own)
    return found


def _frame(frame: Frame, number: int, sentence: ShownSentence) -> dict[str, Any]:
    n = len(sentence.positions)
    predicate, _, arguments = plain_frame(frame, sentence.positions)
    spans = sorted([*arguments, (PREDICATE, predicate, predicate + 1)], key=lambda s: (s[1], -s[2]))
    first, last = window(n, [span[1:] for span in spans])
    texts = [(start - first, end - first, f"[{label}: ") for label, start, end in spans]
    description = enclosed(sentence.words(first, last), texts, "]")
    overlap = any(span[1] < before[2] for before, span in pairwise(spans))
    return {
        "predicate": _token(frame.predicate[0]),
        "roleset": frame.roleset,
        "prob": rounded(frame.prob),
        "arguments": [_labelled(a.span, a.label, a.prob) for a in frame.arguments],
        "sentence": number,
        "verb": frame.predicate[0].text,
        "description": f"{cut_mark(first)}{description}{cut_mark(n - last)}".strip(),
        "tags": None if overlap or n > LONG else encode(spans, n),
    }


def _place(span: Span) -> dict[str, Any]:
    return {"start": span.start_char, "end": span.end_char}


def _token(token: Token) -> dict[str, Any]:
    return {"start": token.idx, "end": token.idx + len(token)}


def _labelled(span: Span, label: str, prob: float | None) -> dict[str, Any]:
    return _place(span) | {"label": label, "prob": rounded(prob)}
