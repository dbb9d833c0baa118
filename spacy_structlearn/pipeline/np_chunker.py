"""NP chunks in `nlp(text)`: `doc.spans["np_chunks"]`, with the probability of every chunk.

The chunks are those of CoNLL-2000 (Tjong Kim Sang & Buchholz 2000): base noun phrases that neither
nest nor overlap. The learner is any architecture over label sequences; the default is the
conditional random field of Sha & Pereira (2003).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc, Span, SpanGroup
from spacy.training import Example
from thinc.api import Config, Model

from ..errors import StructlearnError
from ..sequence.decode import decode_with_segments
from ..sequence.encoding import encode
from ..sequence.estimators import SequenceData
from . import extensions
from .batch_trainable import BatchTrainable
from .extensions import NP_CHUNKS
from .scorers import np_chunk_score
from .tokens import check_attributes, read_tokens

DEFAULT_MODEL = """
[model]
@architectures = "spacy_structlearn.CRF.v1"
"""

extensions.register()


@Language.factory(
    "np_chunker",
    assigns=["doc.spans", "doc._.np_chunks", "token._.np_iob", "span._.np_chunk_prob"],
    default_config={
        "model": Config().from_str(DEFAULT_MODEL)["model"],
        "iterations_per_step": 10,
        "set_noun_chunks": False,
        "scorer": {"@scorers": "spacy_structlearn.np_chunk_scorer.v1"},
    },
    default_score_weights={"np_chunk_f": 1.0, "np_chunk_p": 0.0, "np_chunk_r": 0.0},
)
def make_np_chunker(
    nlp: Language,
    name: str,
    model: Model,
    iterations_per_step: int,
    set_noun_chunks: bool,
    scorer: Callable | None,
) -> NPChunker:
    """Make an NP chunker.

    model: an architecture over label sequences, such as "spacy_structlearn.CRF.v1".
    iterations_per_step: iterations of the optimiser in one `nlp.update`.
    set_noun_chunks: let `doc.noun_chunks` give these chunks, in every Doc made by this pipeline
        from now on, with no dependency parse needed.
    """
    return NPChunker(
        nlp.vocab,
        model,
        name,
        iterations_per_step=iterations_per_step,
        set_noun_chunks=set_noun_chunks,
        scorer=scorer,
    )


class NPChunker(BatchTrainable):
    """Finds NP chunks. Reads `token.tag` if the features do, and `doc.sents` where they are set."""

    annotation = f'doc.spans["{NP_CHUNKS}"]'

    def __init__(
        self,
        vocab: Any,
        model: Model,
        name: str = "np_chunker",
        *,
        iterations_per_step: int = 10,
        set_noun_chunks: bool = False,
        scorer: Callable | None = np_chunk_score,
    ):
        super().__init__(vocab, model, name, iterations_per_step=iterations_per_step, scorer=scorer)
        check_attributes(self.estimator.attributes, name)
        if set_noun_chunks:
            vocab.get_noun_chunks = noun_chunks

    def gold_labels(self, example: Example) -> Iterable[str]:
        spans = example.reference.spans
        return {span.label_ for span in spans[NP_CHUNKS]} if NP_CHUNKS in spans else ()

    def gold_data(self, example: Example) -> SequenceData | None:
        """The example as label sequences over the tokens of its predicted Doc.

        Gold chunks that do not fit its tokens, or whose label is not known, are left out.
        """
        if NP_CHUNKS not in example.reference.spans:
            return None
        tokens = read_tokens([example.predicted], self.estimator.attributes, self.name)
        kept = np.full(len(example.predicted) + 1, -1)
        kept[tokens.positions] = np.arange(len(tokens.positions))
        spans = [
            (span.label_, kept[span.start], kept[span.end - 1] + 1)
            for span in example.get_aligned_spans_y2x(example.reference.spans[NP_CHUNKS])
            if span.label_ in self.labels
        ]
        return SequenceData(
            tokens.columns, tokens.offsets, tuple(encode(spans, len(tokens.positions)))
        )

    def predict(self, docs: Sequence[Doc]) -> list[list[tuple[str, int, int, float]]]:
        """The chunks of each Doc as (label, start, end, probability) over its tokens."""
        self.require_parameters()
        tokens = read_tokens(docs, self.estimator.attributes, self.name)
        _, segments = decode_with_segments(self.parameters, tokens.columns, tokens.offsets)
        ends = tokens.offsets[tokens.docs[1:]]
        chunks: list[list[tuple[str, int, int, float]]] = [[] for _ in docs]
        for label, start, end, probability in segments:
            doc = int(np.searchsorted(ends, start, side="right"))
            first, last = tokens.positions[start], tokens.positions[end - 1]
            chunks[doc].append((label, int(first), int(last) + 1, probability))
        return chunks

    def set_annotations(
        self, docs: Sequence[Doc], chunks: Sequence[Sequence[tuple[str, int, int, float]]]
    ) -> None:
        """Write the chunks of each Doc to `doc.spans["np_chunks"]`, replacing what was there."""
        for doc, found in zip(docs, chunks, strict=True):
            doc.spans[NP_CHUNKS] = SpanGroup(
                doc,
                name=NP_CHUNKS,
                spans=[Span(doc, start, end, label=label) for label, start, end, _ in found],
                attrs={"scores": np.array([chunk[3] for chunk in found], dtype=np.float32)},
            )


def noun_chunks(doclike: Doc | Span) -> Iterator[tuple[int, int, int]]:
    """The chunks as spaCy's `doc.noun_chunks` and `span.noun_chunks` ask for them.

    RAISES: SL007 if no chunker has run.
    """
    doc = doclike.doc
    if NP_CHUNKS not in doc.spans:
        raise StructlearnError("SL007", text=doc.text[:40])
    low, high = (doclike.start, doclike.end) if isinstance(doclike, Span) else (0, len(doc))
    for span in doc.spans[NP_CHUNKS]:
        if span.start >= low and span.end <= high:
            yield span.start, span.end, span.label
