"""Check that predictions survive the operations of spaCy on Docs.

A prediction is stored once, in `doc.spans`; getters are views of it. For each layer and each of
WAYS, there are two checks: `views`, that all getters return the same as before, and `scores`, that
probabilities are the same. By design of spaCy, `Doc.from_docs` drops the scores, so the getters
must return None, and `Span.as_doc` drops the groups, so there must be none, and the components must
predict the same for the new Doc.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span, Token

from spacy_structlearn.groups import CONSTITUENTS, NP_CHUNKS, PP_ATTACHMENTS, SRL

TEXTS = (
    "The committee approved a new plan for the old harbor. Did your sister read it?",
    "She ate the pizza with a fork, and he opened the door of the shed.",
    "",
    "The clerk who sold us the tickets has thanked my aunt for her patience.\n\nIt rained.",
    " \n",
    "Cafés don't open on Sundays 🙂. Run!",
)
PROCESSES = 2


class Reading(NamedTuple):
    """The output of the getters of a layer for a sentence, as plain data and probabilities.

    Tokens are counted from the start of the sentence, which can be in another Doc.
    """

    views: Any
    scores: list[float | None]


def read(docs: Iterable[Doc]) -> list[dict[str, Reading]]:
    """Read all sentences of some Docs."""
    return [
        {key: getters(sentence) for key, getters in GETTERS.items()}
        for doc in docs
        for sentence in doc.sents
    ]


# --- the getters ----------------------------------------------------------------------------------
def _chunks(sentence: Span) -> Reading:
    chunks = [chunk for chunk in sentence.doc._.np_chunks if _within(chunk, sentence)]
    views = [(chunk.label_, *_place(chunk, sentence)) for chunk in chunks]
    iob = [token._.np_iob for token in sentence]
    return Reading((views, iob), [chunk._.np_chunk_prob for chunk in chunks])


def _constituents(sentence: Span) -> Reading:
    brackets = list(sentence._.constituents)
    views = [
        (
            *_place(bracket, sentence),
            bracket._.labels,
            bracket._.parse_string,
            bracket._.is_constituent,
            None if bracket._.parent is None else _place(bracket._.parent, sentence),
            [_place(child, sentence) for child in bracket._.children],
        )
        for bracket in brackets
    ]
    words = [(t._.labels, t._.parse_string) for t in sentence]
    failures = [
        (span.label_, *_place(span, sentence))
        for span in sentence.doc._.parse_failures
        if _within(span, sentence)
    ]
    # A single word can lack a bracket.
    probs = [bracket._.constituent_prob for bracket in brackets if bracket._.labels]
    return Reading((views, words, str(sentence._.tree), failures), probs)


def _attachments(sentence: Span) -> Reading:
    found = [site for site in sentence.doc._.pp_attachments if _within(site.pp, sentence)]
    views = [
        (
            site.label,
            *_place(site.pp, sentence),
            *(t.i - sentence.start for t in (site.verb, site.noun, site.prep, site.object)),
        )
        for site in found
    ]
    heads = [_number(token._.pp_head, sentence) for token in sentence]
    return Reading((views, heads), [site.prob for site in found])


def _frames(sentence: Span) -> Reading:
    frames = [frame for frame in sentence.doc._.frames if _within(frame.predicate, sentence)]
    views = [
        (
            *_place(frame.predicate, sentence),
            frame.roleset,
            [(a.label, *_place(a.span, sentence)) for a in frame.arguments],
            frame.predicate[0]._.srl == frame,
        )
        for frame in frames
    ]
    predicates = [token._.srl is not None for token in sentence]
    probs = [prob for f in frames for prob in (f.prob, *(a.prob for a in f.arguments))]
    return Reading((views, predicates), probs)


def _within(span: Span, sentence: Span) -> bool:
    return sentence.start <= span.start < sentence.end


def _place(span: Span, sentence: Span) -> tuple[int, int]:
    return span.start - sentence.start, span.end - sentence.start


def _number(token: Token | None, sentence: Span) -> int | None:
    return None if token is None else token.i - sentence.start


GETTERS: dict[str, Callable[[Span], Reading]] = {
    NP_CHUNKS: _chunks,
    CONSTITUENTS: _constituents,
    PP_ATTACHMENTS: _attachments,
    SRL: _frames,
}


# --- the ways -------------------------------------------------------------------------------------
def _joined(nlp: Language, docs: Sequence[Doc]) -> list:
    return read([Doc.from_docs(docs)])


def _copied(nlp: Language, docs: Sequence[Doc]) -> list:
    return read(doc.copy() for doc in docs)


def _as_docs(nlp: Language, docs: Sequence[Doc]) -> list:
    found = []
    for doc in docs:
        for sentence in doc.sents:
            alone = sentence.as_doc()
            if alone.spans or alone._.np_chunks or alone._.pp_attachments or alone._.frames:
                return []
            for _, component in nlp.pipeline:
                alone = component(alone)
            found += read([alone])
    return found


def _doc_bin(nlp: Language, docs: Sequence[Doc]) -> list:
    return read(DocBin().from_bytes(DocBin(docs=docs).to_bytes()).get_docs(nlp.vocab))


def _bytes(nlp: Language, docs: Sequence[Doc]) -> list:
    return read(Doc(nlp.vocab).from_bytes(doc.to_bytes()) for doc in docs)


def _pickled(nlp: Language, docs: Sequence[Doc]) -> list:
    return read(pickle.loads(pickle.dumps(list(docs))))


def _pickled_pipeline(nlp: Language, docs: Sequence[Doc]) -> list:
    return read(pickle.loads(pickle.dumps(nlp)).pipe(doc.text for doc in docs))


def _processes(nlp: Language, docs: Sequence[Doc]) -> list:
    return read(nlp.pipe([doc.text for doc in docs], n_process=PROCESSES, batch_size=2))


def _memory_zone(nlp: Language, docs: Sequence[Doc]) -> list:
    texts = [doc.text for doc in docs]
    with nlp.memory_zone():
        found = list(nlp.pipe(texts))
        inside, stored = read(found), [doc.to_bytes() for doc in found]
        del found
    # Strings added in the zone are deleted at its end, so the Docs are converted to bytes.
    after = read(Doc(nlp.vocab).from_bytes(data) for data in stored)
    return inside if inside == after == read(nlp.pipe(texts)) else []


# n_process uses the start method of `multiprocessing`.
WAYS: dict[str, Callable[[Language, Sequence[Doc]], list]] = {
    "from_docs": _joined,
    "copy": _copied,
    "as_doc": _as_docs,
    "DocBin": _doc_bin,
    "bytes": _bytes,
    "pickle": _pickled,
    "pickle_nlp": _pickled_pipeline,
    "n_process": _processes,
    "memory_zone": _memory_zone,
}
WITHOUT_SCORES = ("from_docs",)


def checks(nlp: Language, ways: Iterable[str] = tuple(WAYS)) -> Iterator[tuple[str, bool]]:
    """Yield the name of each check, such as "DocBin.srl.scores", and whether it passes."""
    docs = list(nlp.pipe(TEXTS))
    before = read(docs)
    for way in ways:
        after = WAYS[way](nlp, docs)
        for key in GETTERS:
            wanted, found = ([sentence[key] for sentence in side] for side in (before, after))
            scores = [
                [None] * len(reading.scores) if way in WITHOUT_SCORES else reading.scores
                for reading in wanted
            ]
            yield f"{way}.{key}.views", [r.views for r in found] == [r.views for r in wanted]
            yield f"{way}.{key}.scores", [r.scores for r in found] == scores
