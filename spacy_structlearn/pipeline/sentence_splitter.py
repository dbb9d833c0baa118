"""Sentences in `nlp(text)`: `token.is_sent_start`, with the probability of every boundary.

A chain model labels each token of a text B (a sentence begins) or I. It reads words, shapes and
classes around each gap between tokens, and the layout of the text (`layout.boundaries`): white
space, full and short lines, bullets, open quotation marks and brackets, abbreviations. A blank line
always ends a sentence. Boundaries that are already set are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IDS
from spacy.pipeline.senter import senter_score
from spacy.tokens import Doc, Span
from spacy.training import Example

from ..errors import StructlearnError
from ..groups import SENTENCE_STARTS
from ..learning.settings import setting
from ..sequence.chain.decode import marginals, n_best
from ..sequence.layout import boundaries
from ..sequence.layout.boundaries import LABELS, Layout, word_kind
from ..sequence.layout.data import SequenceData
from . import extensions
from .chain_tagger import ChainComponent
from .doc_arrays import distinct_words, read_tokens
from .extensions import set_spans
from .training.factories import ComponentSettings, factory

_TEMPLATES = """
    bias LOWER[-2] LOWER[-1] LOWER[0] LOWER[1] KIND[-3] KIND[-2] KIND[-1] KIND[0] KIND[1]
    KIND[2] LOWER[-1]|GAP[0] ORTH[0]|GAP[0] KIND[-1]|GAP[0]|ORTH[0] LOWER[-2]|KIND[-1]|KIND[0]
    KIND[-2]|KIND[-1]|GAP[0]|KIND[0]|KIND[1] KIND[-1]|GAP[0]|KIND[0]|KIND[1]
    KIND[-2]|KIND[-1]|GAP[0]|KIND[0] SHAPE[-1]|GAP[0]|SHAPE[0] BREAK[0]|KIND[-1]|KIND[0]
    BREAK[0]|KIND[-1] BREAK[0]|KIND[0] LINE[0]|KIND[-1]|KIND[0] GAP[0]|KIND[0]|KIND[1]|PLACE[0]
    QUOTE[0]|KIND[-2]|KIND[-1]|KIND[0] QUOTE[0]|KIND[-1]|GAP[0]|KIND[0]|KIND[1]
    BRACKET[0]|KIND[-1]|KIND[0] CASE[0]|KIND[-1]|GAP[0] CASE[-2]|KIND[-1]|KIND[0]
    CAPITALS[0]|KIND[-1]|KIND[0] BEHIND[0]|KIND[-1]|KIND[0] AHEAD[0]|KIND[-1]|KIND[0]
    PLACE[-1]|KIND[-1]|KIND[0] LISTED[-1]|KIND[0] LISTED[-2]|KIND[-1]|KIND[0]
"""
DEFAULT_MODEL = {
    "@architectures": "spacy_structlearn.CRF.v1",
    "encoding": "none",
    "min_count": 2,
    "templates": _TEMPLATES.split(),
}
SMALLEST = 0.01  # less probable boundaries are not stored
_BEGINS, _GOES_ON = (LABELS.index(label) for label in ("B", "I"))
_START, _NO_START = 1, 2**64 - 1  # spaCy's codes of SENT_START, as `Doc.from_array` takes them
_kind = lru_cache(maxsize=1 << 14)(word_kind)  # of frequent words
_READ = ("ORTH", "LOWER", "IDX", "LENGTH", "SENT_START")

# SENT_START of all tokens of a Doc, and (token, probability) of the likely sentence starts.
Boundaries = tuple[NDArray[np.uint64], list[tuple[int, float]]]

extensions.register()


@dataclass(frozen=True, kw_only=True)
class SentenceSplitterSettings(ComponentSettings):
    """Split texts into sentences.

    The model is an architecture over label sequences with `encoding = "none"`. Its templates read
    token attributes ("LOWER", "SHAPE"), word classes and `sequence.layout.boundaries.COLUMNS`.
    """

    name: ClassVar[str] = "sentence_splitter"
    abbreviations: tuple[str, ...] = setting(
        (),
        help="Words that may have a full stop inside a sentence, in any case, such as `approx`; "
        "only before a number: `vol. #`. The built-in pipelines have a list learned from text.",
    )

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        yield "encoder", "false, because encoders read sentences", not self.encoder


class SentenceSplitter(ChainComponent):
    """Predicts `token.is_sent_start` and `doc.spans["sentence_starts"]`.

    The group has the tokens that may begin a sentence, with their probabilities. A text is one
    sequence. White space between two sentences belongs to the first one.
    """

    annotation = "token.is_sent_start"
    own_columns = tuple(boundaries.COLUMNS)
    settings_kind = SentenceSplitterSettings
    counted: ClassVar[dict[str, str]] = {"tag": "GAP"}

    def __init__(self, *args: Any, scorer: Callable | None = senter_score, **settings: Any):
        super().__init__(*args, scorer=scorer, **settings)

    def gold_labels(self, example: Example) -> Iterable[str]:
        return LABELS if example.reference.has_annotation("SENT_START") else ()

    def gold_data(self, example: Example) -> SequenceData | None:
        """Convert the example to one sequence; None if the reference has no sentences."""
        if not example.reference.has_annotation("SENT_START"):
            return None
        text = _Text([example.predicted], self)
        if not len(text.positions):
            return None
        aligned = example.get_aligned_sent_starts()
        starts = np.array([start == 1 for start in aligned])[text.positions]
        # White space before the first word is not a sentence.
        starts[0] = True
        columns = self._columns(text.columns, training=True)
        labels = tuple(LABELS[_BEGINS if start else _GOES_ON] for start in starts.tolist())
        return SequenceData(columns, text.layout.offsets, labels)

    def predict(self, docs: Sequence[Doc]) -> list[Boundaries]:
        """Predict the sentence starts of each Doc."""
        self.require_parameters()
        text = _Text(docs, self)
        columns = self._columns(text.columns)
        offsets, known = text.layout.offsets, self._known(text)
        probabilities = marginals(self.parameters, columns, offsets, known)[:, self._label(_BEGINS)]
        # This differs from the best label sequence in few places, and is as accurate.
        return text.boundaries(probabilities > 0.5, probabilities)

    def set_annotations(self, docs: Sequence[Doc], predictions: Sequence[Boundaries]) -> None:
        """Write the sentence starts of each Doc, and the span group, replacing what was there."""
        for doc, (starts, likely) in zip(docs, predictions, strict=True):
            if len(doc):
                # spaCy's stub has thinc's type of arrays.
                doc.from_array([IDS["SENT_START"]], starts[:, None])  # type: ignore[arg-type]
            scores = np.array([p for _, p in likely], dtype=np.float32)
            set_spans(doc, SENTENCE_STARTS, [(0, token, token + 1) for token, _ in likely], scores)

    def n_best(self, doc: Doc, n: int = 5) -> list[tuple[float, list[Span]]]:
        """Find the n most probable ways to split a text into sentences, best first.

        Boundaries that are already set are kept. Returns the log probability and the sentences of
        each split, without white space around sentences. Raises StructlearnError as
        `np_chunker.n_best` does.
        """
        self.require_parameters()
        if not isinstance(doc, Doc):
            raise StructlearnError("SL141", wanted="a Doc", kind=type(doc).__name__)
        text = _Text([doc], self)
        columns = self._columns(text.columns)
        known = self._known(text)
        ids, scores = n_best(self.parameters, columns, text.layout.offsets, n, known)
        readings = []
        for row, score in zip(ids, scores.sum(axis=1).tolist(), strict=True):
            if score == -np.inf or not len(text.positions):
                break
            first = np.flatnonzero(row == self._label(_BEGINS))
            starts = text.positions[first].tolist()
            ends = (text.positions[np.append(first[1:], len(row)) - 1] + 1).tolist()
            readings.append((score, [Span(doc, s, e) for s, e in zip(starts, ends, strict=True)]))
        return readings

    def _label(self, label: int) -> int:
        return self.parameters.labels.index(LABELS[label])

    def _known(self, text: _Text) -> NDArray[np.int64]:
        """Get the labels of the tokens whose label is given, -1 for the others."""
        known = np.full(len(text.positions), -1, dtype=np.int64)
        known[text.preset == _NO_START] = self._label(_GOES_ON)
        settled = (text.preset == _START) | (text.layout.gaps == boundaries.BEGINNING)
        # A component that sets boundaries also sets those at blank lines.
        blank_line = (text.layout.gaps == boundaries.BLANK_LINE) & (text.preset != _NO_START)
        known[settled | blank_line] = self._label(_BEGINS)
        return known


class _Text:
    """The n tokens of some Docs that are not white space, as arrays.

    columns: uint64 (n, k), token attributes and `boundaries.COLUMNS`.
    positions: int64 (n), index of each token in its Doc.
    preset: uint64 (n), SENT_START.
    layout: the layout of the text.
    """

    def __init__(self, docs: Sequence[Doc], splitter: SentenceSplitter):
        attributes = splitter.estimator.attributes
        forms = {a.removesuffix(" #").rstrip(".").lower(): a for a in splitter.abbreviations}
        listed = {word: 1 + form.endswith(" #") for word, form in forms.items()}
        lexical = [name for name in attributes if name not in boundaries.COLUMNS]
        tokens = read_tokens(docs, [*lexical, *_READ], splitter.name)
        orth, lower, characters, lengths, self.preset = tokens.columns[:, len(lexical) :].T
        # The start of a sentence may be set at the white space before its first word.
        self.preset[tokens.offsets[:-1]] = _START
        self.positions = tokens.positions
        self._bounds = tokens.offsets[tokens.docs]  # the first of the n tokens of each Doc
        self._sizes = [len(doc) for doc in docs]
        sizes = np.diff(self._bounds)
        # Characters are counted through all Docs.
        texts = [doc.text for doc in docs]
        before = np.cumsum([0, *(len(text) + 1 for text in texts)])
        starts = characters.astype(np.int64) + np.repeat(before[:-1], sizes)
        ends = starts + lengths.astype(np.int64)
        # Line breaks in the white space before each token.
        behind = np.maximum(np.append(0, ends[:-1])[: len(ends)], np.repeat(before[:-1], sizes))
        breaks, text = np.zeros(len(starts), dtype=np.int64), " ".join(texts)
        places = np.flatnonzero(np.diff(tokens.indices, prepend=-1) > 1)
        spaces = map(slice, behind[places].tolist(), starts[places].tolist())
        breaks[places] = [_line_breaks(text[space]) for space in spaces]
        types, numbers = distinct_words(docs, orth)
        self.layout = Layout(
            documents=np.repeat(np.cumsum(sizes > 0) - 1, sizes),
            starts=starts,
            ends=ends,
            breaks=breaks,
            kinds=np.array([*map(_kind, types)], dtype=np.int64)[numbers],
            words=lower,
            listed=np.array([listed.get(w.rstrip(".").lower(), 0) for w in types], np.int64)[
                numbers
            ],
        )
        read = {name: tokens.columns[:, column] for column, name in enumerate(lexical)}
        # np.stack needs a column, and templates such as "bias" read none.
        self.columns = np.empty((len(self.positions), len(attributes)), dtype=np.uint64)
        for column, name in enumerate(attributes):
            self.columns[:, column] = read[name] if name in read else self.layout.column(name)

    def boundaries(
        self, begins: NDArray[np.bool_], probabilities: NDArray[np.float64]
    ) -> list[Boundaries]:
        """Convert decisions and probabilities of the n tokens to the boundaries of each Doc."""
        likely = np.flatnonzero(probabilities >= SMALLEST)
        tokens, scores = self.positions[likely].tolist(), probabilities[likely].tolist()
        pairs = list(zip(tokens, scores, strict=True))
        cuts = np.searchsorted(likely, self._bounds).tolist()
        of_docs = []
        rows = zip(self._sizes, pairwise(self._bounds.tolist()), pairwise(cuts), strict=True)
        for size, (first, end), (low, high) in rows:
            starts = np.full(size, _NO_START, dtype=np.uint64)
            # A Doc begins with a sentence, even if it begins with white space.
            starts[self.positions[first + 1 : end][begins[first + 1 : end]]] = _START
            starts[:1] = _START
            of_docs.append((starts, pairs[low:high]))
        return of_docs


@lru_cache(maxsize=1024)
def _line_breaks(space: str) -> int:
    return len(f"{space}.".splitlines()) - 1


make_sentence_splitter = factory(
    SentenceSplitter,
    model=DEFAULT_MODEL,
    scorer="spacy.senter_scorer.v1",
    scores=["sents_f", "sents_p", "sents_r"],
    assigns=["token.is_sent_start", "doc.sents", "doc.spans", "token._.sent_start_prob"],
)
