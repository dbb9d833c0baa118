"""NP chunks in `nlp(text)`: `doc.spans["np_chunks"]`, with the probability of every chunk.

The chunks are those of CoNLL-2000 (Tjong Kim Sang & Buchholz 2000): base noun phrases that neither
nest nor overlap. The learner is any architecture over label sequences; the default is the
conditional random field of Sha & Pereira (2003).

If a parser has run before, the chunks are the best ones that cross no bracket of its trees, and
their probabilities are conditioned on that. By convention a possessive marker, the last word of a
phrase, begins the next chunk: [the lawyer] ['s old office]. These phrases therefore count without
the marker.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from spacy.attrs import TAG
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from ..errors import StructlearnError
from ..groups import CONSTITUENTS, NP_CHUNKS
from ..learning.settings import check_argument, quoted, setting
from ..sequence.chain.decode import decode_with_segments, n_best_chunks
from ..sequence.layout.data import SequenceData
from ..sequence.layout.encoding import SCHEMES, encode, split_tag
from ..sequence.layout.features import UNKNOWN
from ..trees.chunks import POSSESSIVES
from . import extensions
from .chain_tagger import ChainComponent
from .doc_arrays import Tokens, read_tokens
from .extensions import set_spans
from .scorers import np_chunk_score
from .training.factories import ComponentSettings, factory

Chunk = tuple[str, int, int, float]  # label, start, end, probability

extensions.register()


@dataclass(frozen=True, kw_only=True)
class NPChunkerSettings(ComponentSettings):
    """Predict NP chunks. The model is an architecture over label sequences, such as CRF."""

    name: ClassVar[str] = "np_chunker"
    spans_key: str = setting(
        NP_CHUNKS,
        help="The span group that the component learns from and writes. The extensions read "
        '"np_chunks"; use another group for other types of chunks.',
    )
    respect_constituents: bool = setting(
        True,
        help='Whether chunks must not cross the brackets of `doc.spans["constituents"]`, if there '
        "are any. A possessive marker at the end of a bracket does not count. Turn this off for "
        "chunks that need not be parts of phrases.",
    )
    set_noun_chunks: bool = setting(
        False,
        help="Let `doc.noun_chunks` return these chunks, in every Doc with the vocab of this "
        "pipeline. No dependency parse is needed. Without one, spaCy's `chunk.root` is the first "
        "word, not the head, which is `chunk._.head`, and `merge_noun_chunks` does nothing: use "
        "`merge_np_chunks`.",
    )


class NPChunker(ChainComponent):
    """Predicts NP chunks.

    Reads `token.tag` if the features do, and `doc.sents` and `doc.spans["constituents"]` if they
    are set.
    """

    cfg_types: ClassVar[dict[str, Any]] = {**ChainComponent.cfg_types, "spans_key": str}
    encodings = tuple(SCHEMES)
    settings_kind = NPChunkerSettings
    heads = ("chunks",)

    def __init__(self, *args: Any, scorer: Callable | None = np_chunk_score, **settings: Any):
        super().__init__(*args, scorer=scorer, **settings)
        # In cfg, because spaCy passes cfg to the scorer.
        self.cfg["spans_key"] = self.spans_key
        if self.set_noun_chunks:
            # spaCy's stub has Spans in place of these tuples.
            self.vocab.get_noun_chunks = noun_chunks  # type: ignore[assignment]

    @property
    def key(self) -> str:  # type: ignore[override]
        """The span group that the component learns from and writes."""
        return self.cfg["spans_key"]

    @property
    def annotation(self) -> str:
        if self.key == NP_CHUNKS:
            return super().annotation
        return f"doc.spans[{quoted(self.key)}], the setting spans_key,"

    def _answers(self) -> Iterable[str]:
        tags = (tag.partition("-") for tag in self.parameters.labels)
        return {label for _, _, label in tags if label}

    def gold_data(self, example: Example) -> SequenceData | None:
        """Convert the example to label sequences over the tokens of its predicted Doc.

        Gold chunks that do not fit these tokens or sentences, or have an unknown label, are left
        out.
        """
        if self.key not in example.reference.spans:
            return None
        tokens = read_tokens([example.predicted], self.estimator.attributes, self.name)
        positions, offsets, labels = tokens.positions.tolist(), tokens.offsets.tolist(), self.labels
        spans = []
        for span in example.get_aligned_spans_y2x(example.reference.spans[self.key]):
            start, end = (bisect_left(positions, place) for place in (span.start, span.end))
            within = bisect_right(offsets, start) == bisect_right(offsets, end - 1)
            if within and span.label_ in labels:
                spans.append((span.label_, start, end))
        tags = encode(spans, len(positions), self.estimator.settings.encoding)
        columns = self._columns(tokens.columns, training=True)
        return SequenceData(columns, tokens.offsets, tuple(tags))

    def scored_label(self, label: str) -> str:
        # The site scorer knows only that a chunk begins or goes on.
        prefix, _ = split_tag(label, self.parameters.encoding)
        return {"S": "B", "E": "I"}.get(prefix, prefix)

    def predict(self, docs: Sequence[Doc]) -> list[list[Chunk]]:
        """Predict the chunks of each Doc as (label, start, end, probability) over its tokens."""
        self.require_parameters()
        tokens = read_tokens(docs, self.estimator.attributes, self.name)
        columns = self._columns(tokens.columns)
        brackets = _brackets(docs, tokens) if self.respect_constituents else None
        model = self._pooled(docs, tokens)
        _, segments = decode_with_segments(model, columns, tokens.offsets, brackets=brackets)
        firsts = tokens.positions[segments.starts].tolist()
        ends = (tokens.positions[segments.ends - 1] + 1).tolist()
        probabilities = segments.probabilities.tolist()
        chunks = list(zip(segments.labels, firsts, ends, probabilities, strict=True))
        # Where the chunks of each Doc begin among all chunks.
        bounds = np.searchsorted(segments.starts, tokens.offsets[tokens.docs]).tolist()
        return [chunks[begin:end] for begin, end in pairwise(bounds)]

    def set_annotations(self, docs: Sequence[Doc], chunks: Sequence[Sequence[Chunk]]) -> None:
        """Write the chunks of each Doc to its span group, replacing existing ones."""
        # Look up each label once; a Doc may have another vocab.
        for strings in {id(doc.vocab): doc.vocab.strings for doc in docs}.values():
            ids = {label: strings.add(label) for label in self.labels}
        for doc, of_doc in zip(docs, chunks, strict=True):
            scores = np.array([chunk[3] for chunk in of_doc], dtype=np.float32)
            spans = ((ids[label], start, end) for label, start, end, _ in of_doc)
            set_spans(doc, self.key, spans, scores)

    def n_best(
        self, doc: Doc, n: int = 5, *, known: dict[int, str] | None = None
    ) -> list[tuple[float, list[Span]]]:
        """Find the most probable chunkings of a Doc of one sentence, n different ones, best first.

        Brackets of a parser are ignored here.
        known: tags of some tokens by their index: "O", "B-NP" and so on, in the encoding of the
            model. The result agrees with them.
        Returns the log probability, given the known tags, and the chunks of each chunking. Raises
        StructlearnError for an unknown tag or token, for a Doc of several sentences, and if n is
        not a number from 1 to what fits in memory.
        """
        self.require_parameters()
        if not isinstance(doc, Doc):
            raise StructlearnError("SL141", wanted="a Doc", kind=type(doc).__name__)
        tokens = read_tokens([doc], self.estimator.attributes, self.name)
        if len(tokens.offsets) > 2:
            raise StructlearnError("SL018", component=self.name, number=len(tokens.offsets) - 1)
        check_argument("known", known, Mapping | None)
        labels = self.parameters.labels
        allowed = np.full(len(tokens.positions), -1)
        for index, tag in (known or {}).items():
            place = np.flatnonzero(tokens.positions == index)
            if tag not in labels or not len(place):
                raise StructlearnError("SL016", index=index, tag=tag, tags=", ".join(labels))
            allowed[place] = labels.index(tag)
        positions = tokens.positions.tolist()
        return [
            (score, [Span(doc, positions[s], positions[e - 1] + 1, label) for label, s, e in spans])
            for score, spans in n_best_chunks(
                self._pooled([doc], tokens), self._columns(tokens.columns), n, allowed
            )
        ]

    def name_features(self, docs: Sequence[Doc]) -> None:
        """Store names such as "ORTH[-1]=the" of features of single symbols in the model.

        docs: Docs with the words, tags and so on that are the names. Conjunctions get no names;
            they are known only by their hashes.
        """
        model = self.parameters
        tokens = read_tokens(docs, self.estimator.attributes, self.name)
        values = self._columns(tokens.columns).T
        symbols = {
            column: {
                symbol: self._symbol_name(column, symbol) for symbol in np.unique(own).tolist()
            }
            for column, own in zip(model.templates.columns, values, strict=True)
        }
        names = model.templates.names(symbols)
        keys = np.array(list(names), dtype=np.uint64)
        weighted = keys[model.rows(keys) >= 0].tolist()
        model.names |= {key: names[key] for key in weighted}  # it may have learned on

    def _symbol_name(self, column: str, symbol: int) -> str:
        if column.startswith("CLASS"):
            return f"{symbol:b}"[1:]  # the path, without its leading 1
        # All symbols outside a closed vocabulary are one symbol, without a string.
        return "<unknown>" if symbol == UNKNOWN else self.vocab.strings[symbol]


def _brackets(docs: Sequence[Doc], tokens: Tokens) -> np.ndarray | None:
    """Get the brackets of all trees as rows of `tokens.columns`: int64 (n, 2), or None."""
    bounds = [
        (first + span.start, first + span.end)
        for doc, first in zip(docs, tokens.firsts.tolist(), strict=False)
        for span in extensions.aligned_group(doc, CONSTITUENTS) or ()
    ]
    if not bounds:
        return None
    brackets = np.array(bounds)
    # The marker at the end of a phrase begins the next chunk (`trees.chunks`, rule 5).
    markers = [docs[0].vocab.strings[tag] for tag in POSSESSIVES]
    tags = np.concatenate([doc.to_array(TAG) for doc in docs])
    last = tags.take(brackets[:, 1] - 1, mode="clip")
    brackets[:, 1] -= np.isin(last, np.array(markers, dtype=np.uint64))
    return np.searchsorted(tokens.indices, brackets)


def noun_chunks(doclike: Doc | Span) -> Iterator[tuple[int, int, int]]:
    """Iterate over (start, end, label) of the chunks, for spaCy's `doc.noun_chunks`.

    Raises StructlearnError if no chunker has run.
    """
    doc = doclike.doc
    if NP_CHUNKS not in doc.spans:
        raise StructlearnError("SL007", text=doc.text[:40])
    low, high = (doclike.start, doclike.end) if isinstance(doclike, Span) else (0, len(doc))
    for span in extensions.np_chunks(doc):
        if span.start >= low and span.end <= high and span.label_ == "NP":
            yield span.start, span.end, span.label


@Language.component("merge_np_chunks", requires=["doc._.np_chunks"], retokenizes=True)
def merge_np_chunks(doc: Doc) -> Doc:
    """Merge each NP chunk into one token, with the tag of its last word, the head.

    spaCy's `merge_noun_chunks` does nothing without a dependency parse, which it reads heads from.
    The span groups of this package are aligned with the new tokens.
    doc: a Doc with NP chunks.
    Returns the same Doc.
    """
    with doc.retokenize() as retokenizer:
        for chunk in extensions.np_chunks(doc):
            retokenizer.merge(chunk, attrs={"TAG": chunk[-1].tag})
    extensions.realign(doc)
    return doc


make_np_chunker = factory(
    NPChunker,
    model={"@architectures": "spacy_structlearn.CRF.v1"},
    scorer="spacy_structlearn.np_chunk_scorer.v1",
    scores=["np_chunk_f", "np_chunk_p", "np_chunk_r"],
    assigns=["doc.spans", "doc._.np_chunks", "token._.np_iob", "span._.np_chunk_prob"],
)
