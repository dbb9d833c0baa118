"""JSON lines of Prodigy (https://prodi.gy/docs/api-interfaces): a sentence each.

Phrases are its spans and roles its relations. A line whose tokens have no tags, as those of Prodigy
itself, has no tree: its spans are "constituent_constraints", phrases that must be in one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc

from ...attachment.sites import sites
from ...errors import StructlearnError
from ...groups import CONSTITUENT_CONSTRAINTS, CONSTITUENTS, NP_CHUNKS, PP_ATTACHMENTS, SRL
from ...roles.propositions import PREDICATE
from ..annotation.gold import Gold, golds_of
from ..extensions import frame_spans, set_spans, site_spans
from .examples import lines

Json = dict[str, Any]


def read_prodigy(nlp: Language, path: Path) -> Iterator[Doc]:
    """Iterate over the accepted lines of a file as Docs of one sentence.

    nlp: whose tokenizer divides texts without tokens. Raises StructlearnError for a missing file,
    and for a line in another format.
    """
    for number, line in enumerate(lines(path), 1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
            doc = _doc(nlp, data) if data.get("answer", "accept") == "accept" else None
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            problem = f"this is not Prodigy's JSON of tokens and spans ({error!r})"
            raise StructlearnError(
                "SL271", what=f"{path}, line {number}", problem=problem
            ) from None
        if doc is not None:
            yield doc


def _doc(nlp: Language, data: Json) -> Doc:
    rows = data.get("tokens") or [
        {"text": own.text, "ws": bool(own.whitespace_)} for own in nlp.make_doc(data["text"])
    ]
    is_tree = bool(rows) and all("tag" in own for own in rows)
    doc = Doc(
        nlp.vocab,
        words=[own["text"] for own in rows],
        spaces=[bool(own.get("ws", True)) for own in rows],
        tags=[own["tag"] for own in rows] if is_tree else None,
        sent_starts=[number == 0 for number in range(len(rows))],
    )

    def place(span: Json) -> tuple[int, int]:
        found = doc.char_span(span["start"], span["end"])
        if found is None:
            raise ValueError("a span does not begin and end with a token")
        return found.start, found.end

    brackets = [(own["label"], *place(own)) for own in data.get("spans") or ()]
    brackets.sort(key=lambda own: (own[1], -own[2]))
    set_spans(doc, CONSTITUENTS if is_tree else CONSTITUENT_CONSTRAINTS, brackets)
    if is_tree:
        set_spans(doc, PP_ATTACHMENTS, site_spans(sites(next(golds_of(doc)).tree)))
    if "np_chunks" in data:
        set_spans(doc, NP_CHUNKS, [("NP", *place(own)) for own in data["np_chunks"]])
    frames: list[Any] = []
    for own in data.get("relations", ()):
        head, child = own["head_span"], place(own["child_span"])
        if own["label"] == PREDICATE:
            frames.append((child[0], head["label"] or None, []))
        elif frames and frames[-1][0] == place(head)[0]:
            frames[-1][2].append((own["label"], *child))
    if frames or is_tree:
        set_spans(doc, SRL, frame_spans(frames))
    return doc


def to_prodigy(gold: Gold) -> Json:
    """Return the JSON of a sentence; a predicate is its own relation "V", with its roleset."""
    text, tokens = "", []
    rows = zip(gold.words, gold.spaces, gold.tags, strict=True)
    for number, (word, space, tag) in enumerate(rows):
        place = {"start": len(text), "end": len(text) + len(word), "id": number}
        tokens.append({"text": word, **place, "ws": space, "tag": tag})
        text += word + " " * space

    def span(label: str, start: int, end: int) -> Json:
        chars = {"start": tokens[start]["start"], "end": tokens[end - 1]["end"]}
        return chars | {"token_start": start, "token_end": end - 1, "label": label}

    relations = [
        {"head": verb, "child": end - 1, "label": label}
        | {"head_span": span(roleset or "", verb, verb + 1), "child_span": span(label, start, end)}
        for verb, roleset, arguments in gold.frames
        for label, start, end in [(PREDICATE, verb, verb + 1), *arguments]
    ]
    spans = [span(*own) for own in gold.brackets]
    chunks = {"np_chunks": [span("NP", *own) for own in gold.chunks]}
    return {"text": text, "tokens": tokens, "spans": spans, "relations": relations, **chunks}
