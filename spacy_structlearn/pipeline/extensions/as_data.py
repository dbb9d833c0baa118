"""The predictions for a Doc as plain data for JSON: `spacy_structlearn.as_dict`."""

from __future__ import annotations

from itertools import pairwise
from typing import TypedDict

from spacy.tokens import Doc, Span, Token

from ...display.frames import LONG, cut_mark, plain_frame, window
from ...display.html import ShownSentence, by_sentence, enclosed, sentences
from ...errors import StructlearnError
from ...groups import CONSTITUENTS, PP_ATTACHMENTS, SRL
from ...roles.propositions import PREDICATE
from ...sequence.layout.encoding import encode
from .attachments import PPAttachment, pp_attachments
from .brackets import constituent_prob, parse_failures, trees
from .chunks import np_chunk_prob, np_chunks
from .roles import Frame, frames


class Place(TypedDict):
    """The characters `text[start:end]`."""

    start: int
    end: int


class TokenDict(Place):
    """A token that is not white space. tag: "" if no tagger has run."""

    tag: str


class SentenceDict(Place):
    """A sentence without the white space around it. words: its tokens, without white space."""

    words: list[str]


class LabelledDict(Place):
    """A span. prob: probability of exactly this span with this label; None if it is not known."""

    label: str
    prob: float | None


class FailureDict(Place):
    """A sentence that could not be parsed properly. label: "fallback", "cut" or "constraints"."""

    label: str


class AttachmentDict(LabelledDict):
    """A prepositional phrase; `label` is "V" for the verb and "N" for the noun."""

    verb: Place
    noun: Place
    prep: Place
    object: Place


class FrameDict(TypedDict):
    """A predicate and its arguments.

    sentence: its number in `sents`.
    verb, description, tags: as AllenNLP's predictor of semantic roles returns them, over the
        `words` of the sentence. tags: in the IOB2 scheme, "B-ARG0", "I-ARG0", "B-V", "O"; None if
        the arguments overlap, because tags cannot express that. For a sentence of more than 250
        words, tags is None, and description has only the words around the frame.
    """

    predicate: Place
    roleset: str | None
    prob: float | None
    arguments: list[LabelledDict]
    sentence: int
    verb: str
    description: str
    tags: list[str] | None


class _Always(TypedDict):
    text: str
    tokens: list[TokenDict]
    sents: list[SentenceDict]
    np_chunks: list[LabelledDict]


class DocDict(_Always, total=False):
    """A Doc. The layers below are missing if no component has set them.

    trees: one for each sentence, in brackets.
    constituents: the brackets of all trees without the root, in pre-order.
    """

    trees: list[str]
    constituents: list[LabelledDict]
    parse_failures: list[FailureDict]
    pp_attachments: list[AttachmentDict]
    frames: list[FrameDict]


LAYERS = frozenset(DocDict.__required_keys__ | DocDict.__optional_keys__)
"""All keys that `as_dict` may return."""


def as_dict(doc: Doc) -> DocDict:
    """Return the predictions for a Doc as plain data, which `json.dumps` accepts.

    Spans are given by their characters, and probabilities are rounded to four digits. White space
    tokens are left out. Raises StructlearnError for other objects than Docs.
    """
    if not isinstance(doc, Doc):
        raise StructlearnError("SL141", wanted="a Doc", kind=type(doc).__name__)
    shown = sentences(doc)
    data: DocDict = {
        "text": doc.text,
        "tokens": [{**_token(token), "tag": token.tag_} for token in doc if not token.is_space],
        "sents": [_sentence(sentence) for sentence in shown],
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
            {**_place(span), "label": span.label_} for span in parse_failures(doc)
        ]
    if PP_ATTACHMENTS in doc.spans:
        data["pp_attachments"] = [_attachment(site) for site in pp_attachments(doc)]
    if SRL in doc.spans:
        of_sentences = by_sentence(shown, frames(doc), lambda frame: frame.predicate.start)
        data["frames"] = [
            _frame(frame, number, shown[number])
            for number, own in enumerate(of_sentences)
            for frame in own
            if not frame.predicate[0].is_space
        ]
    return data


def _sentence(sentence: ShownSentence) -> SentenceDict:
    doc, positions = sentence.span.doc, sentence.positions
    return {**_place(doc[positions[0] : positions[-1] + 1]), "words": sentence.words()}


def _attachment(site: PPAttachment) -> AttachmentDict:
    return {
        **_labelled(site.pp, site.label, site.prob),
        "verb": _token(site.verb),
        "noun": _token(site.noun),
        "prep": _token(site.prep),
        "object": _token(site.object),
    }


def _frame(frame: Frame, number: int, sentence: ShownSentence) -> FrameDict:
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
        "prob": _rounded(frame.prob),
        "arguments": [_labelled(a.span, a.label, a.prob) for a in frame.arguments],
        "sentence": number,
        "verb": frame.predicate[0].text,
        "description": f"{cut_mark(first)}{description}{cut_mark(n - last)}".strip(),
        "tags": None if overlap or n > LONG else encode(spans, n),
    }


def _place(span: Span) -> Place:
    return {"start": span.start_char, "end": span.end_char}


def _token(token: Token) -> Place:
    return {"start": token.idx, "end": token.idx + len(token)}


def _labelled(span: Span, label: str, prob: float | None) -> LabelledDict:
    return {**_place(span), "label": label, "prob": _rounded(prob)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
