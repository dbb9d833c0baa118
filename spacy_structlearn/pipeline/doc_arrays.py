"""The one view of Docs that all components read: their tokens and trees as arrays.

`read_tokens` gives the ids of symbols, sentence by sentence, and `DocTrees` the brackets. White
space tokens are left out, because treebanks have none; the positions of the other tokens are
kept. The ids are spaCy's 64-bit hashes, which are the same on all machines. Strings are used once
for each distinct word, and only for columns that spaCy does not have (`layout.words`).
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IDS, IS_SPACE, SENT_START
from spacy.lang.lex_attrs import word_shape
from spacy.strings import hash_string  # type: ignore[attr-defined] # its stubs lack it
from spacy.tokens import Doc, Span, SpanGroup
from spacy.training import Example

from ..arrays import Coded, cumulative
from ..encoder.scorer import SiteScorer
from ..errors import StructlearnError, message
from ..glossary import TAGS
from ..groups import CONSTITUENT_TAGS, CONSTITUENTS
from ..kernels.index import number_keys
from ..sequence.layout.words import is_word_column, word_columns
from ..trees.labels import VERBS
from ..trees.nodes import Brackets
from ..trees.normalize import normalize
from ..trees.tree import Tree
from ..words.classes import FORMS
from .extensions.brackets import (
    ROOT,
    UNKNOWN_TAG,
    constituent_tags,
    cut_sentences,
    pieces,
    sentences,
    tree,
)
from .extensions.span_groups import (
    aligned_group,
    lower_bound,
    scored_group,
    span_columns,
    spans_from,
)

logger = logging.getLogger("spacy_structlearn")

# Attributes that are set by a component before ours; the others are lexical.
SET_BY_COMPONENTS = ("TAG", "POS", "LEMMA", "MORPH", "DEP", "ENT_TYPE")


class Tokens(NamedTuple):
    """The tokens of some Docs that are not white space, in order.

    columns: uint64 (n, k), one column per attribute.
    offsets: int64 (s + 1), begin of each sentence; no sentence is empty.
    positions: int64 (n), index of each token in its Doc.
    docs: int64 (d + 1), first sentence of each Doc.
    doc_ids: int64 (n), number of the Doc of each token.
    firsts: int64 (d + 1), number of tokens before each Doc, white space included.
    """

    columns: np.ndarray
    offsets: np.ndarray
    positions: np.ndarray
    docs: np.ndarray
    doc_ids: np.ndarray
    firsts: np.ndarray

    @classmethod
    def of(
        cls,
        table: NDArray[np.uint64],
        lengths: NDArray[np.int64],
        is_space: NDArray[np.bool_],
        sentence_starts: NDArray[np.bool_],
    ) -> Tokens:
        """Leave out white space. table: the columns of all tokens. lengths: of the Docs.

        Sentences are numbered over all tokens, because one may begin with white space.
        """
        firsts, rows = cumulative(lengths), np.flatnonzero(~is_space)
        doc_ids = np.repeat(np.arange(len(lengths)), lengths)[rows]
        begins = sentence_starts.copy()
        begins[firsts[:-1][lengths > 0]] = True
        starts = np.flatnonzero(np.diff(np.cumsum(begins)[rows], prepend=-1))
        return cls(
            columns=np.ascontiguousarray(table[rows]),
            offsets=np.append(starts, len(rows)).astype(np.int64),
            positions=rows - firsts[doc_ids],
            docs=np.searchsorted(doc_ids[starts], np.arange(len(lengths) + 1)).astype(np.int64),
            doc_ids=doc_ids,
            firsts=firsts,
        )

    def sentences(self, kept: NDArray[np.bool_]) -> Tokens:
        """Leave out sentences. kept: whether each is kept, (s)."""
        sizes = np.diff(self.offsets)
        rows = slice(None) if kept.all() else np.flatnonzero(np.repeat(kept, sizes))
        return self._replace(
            columns=self.columns[rows],
            offsets=cumulative(sizes[kept]),
            positions=self.positions[rows],
            docs=cumulative(kept.astype(np.int64))[self.docs],
            doc_ids=self.doc_ids[rows],
        )

    @property
    def indices(self) -> NDArray[np.int64]:
        """The index of each token among all tokens of all Docs, white space included."""
        return self.firsts[self.doc_ids] + self.positions


def read_tokens(
    docs: Sequence[Doc], attributes: Sequence[str], component: str, *, optional: Sequence[str] = ()
) -> Tokens:
    """Read the symbol ids of token attributes.

    A Doc without sentence boundaries is one sentence.
    attributes: spaCy's ("ORTH", "TAG", "SHAPE") or those of `layout.words` ("SUFFIX2", "FLAGS").
    component: its name, for error messages.
    optional: attributes that may be missing.
    Raises StructlearnError if an attribute set by another component is missing in a whole Doc.
    """
    made = [name for name in attributes if is_word_column(name)]
    read = [name for name in attributes if name not in made]
    ids = [IDS[name] for name in (*read, *["ORTH"] * bool(made))]
    # One table for all Docs, because operations on each of many short Docs are slow.
    tables = [doc.to_array([*ids, IS_SPACE, SENT_START]) for doc in docs]
    table = np.concatenate([np.zeros((0, len(ids) + 2), dtype=np.uint64), *tables])
    lengths = np.fromiter(map(len, tables), dtype=np.int64, count=len(tables))
    tokens = Tokens.of(table[:, : len(ids)], lengths, table[:, -2] != 0, table[:, -1] == 1)
    _check_annotated(docs, tokens, read, component, optional)
    if made:
        columns = np.empty((len(tokens.columns), len(attributes)), dtype=np.uint64)
        words, numbers = distinct_words(docs, tokens.columns[:, -1])
        columns[:, [attributes.index(name) for name in read]] = tokens.columns[:, : len(read)]
        columns[:, [attributes.index(name) for name in made]] = word_columns(words, made)[numbers]
        tokens = tokens._replace(columns=columns)
    return tokens


def distinct_words(
    docs: Sequence[Doc], orth: NDArray[np.uint64]
) -> tuple[list[str], NDArray[np.int32]]:
    """Find the distinct words, or other strings, of some tokens.

    orth: uint64 (n), of tokens of the Docs.
    Returns the words, and the index of the word of each token, int32 (n). The vocabs are those of
    the Docs: a component that comes from another pipeline keeps the vocab of that pipeline.
    """
    orth = np.ascontiguousarray(orth)
    firsts, numbers = number_keys(orth)
    keys = orth[firsts].tolist()
    stores = list({id(doc.vocab): doc.vocab.strings for doc in docs}.values())
    if len(stores) == 1:
        return [stores[0][key] for key in keys], numbers
    return [next((store[key] for store in stores if key in store), "") for key in keys], numbers


def _check_annotated(
    docs: Sequence[Doc],
    tokens: Tokens,
    attributes: Sequence[str],
    component: str,
    optional: Sequence[str],
) -> None:
    n_tokens = np.bincount(tokens.doc_ids, minlength=len(docs))
    for column, name in enumerate(attributes):
        if name not in SET_BY_COMPONENTS or name in optional:
            continue
        is_set = tokens.columns[:, column] != 0
        n_set = np.bincount(tokens.doc_ids[is_set], minlength=len(docs))
        for i in np.flatnonzero((n_set == 0) & (n_tokens > 0)).tolist():
            # A text without entities may be annotated too, which only the IOB codes show.
            if name != "ENT_TYPE" or not docs[i].has_annotation("ENT_IOB"):
                attribute, text = f"token.{name.lower()}_", docs[i].text[:40]
                raise StructlearnError("SL001", component=component, attribute=attribute, text=text)


# The vectors of the tokens of a Doc. They are not in the Doc, whose bytes they would multiply.
_VECTORS: WeakKeyDictionary[Doc, NDArray[np.float32]] = WeakKeyDictionary()


def set_vectors(doc: Doc, vectors: NDArray[np.float32]) -> None:
    """Keep the vectors of the tokens of a Doc, white space included, float32 (n, width)."""
    _VECTORS[doc] = vectors


def copy_with_vectors(doc: Doc) -> Doc:
    """Return a copy of a Doc, with its vectors."""
    copy = doc.copy()
    if doc in _VECTORS:
        _VECTORS[copy] = _VECTORS[doc]
    return copy


def read_vectors(
    docs: Sequence[Doc], tokens: Tokens, component: str, scorers: Mapping[str, SiteScorer] = {}
) -> NDArray[np.float32]:
    """Return the vectors of tokens, float32 (n, width): those of `token_encoder`, or `doc.tensor`.

    component: its name, for the error message. scorers: the site scorers that read the vectors.
    Raises StructlearnError if a Doc has none, none for its tokens, or ones of another width.
    """
    tables, widths = [], {scorer.width for scorer in scorers.values()}
    for doc in docs:
        own = _VECTORS.get(doc)
        table: Any = doc.tensor if own is None or len(own) != len(doc) else own
        if not len(doc):
            continue
        if len(table) != len(doc) or np.ndim(table) != 2:
            raise StructlearnError("SL192", component=component, text=doc.text[:40])
        if not widths.issubset(table.shape[1:]):
            sizes = {"found": table.shape[1], "wanted": max(widths)}
            raise StructlearnError("SL195", component=component, text=doc.text[:40], **sizes)
        tables.append(table)
    rows = np.concatenate(tables) if tables else np.empty((0, 0), dtype=np.float32)
    if len(rows) != len(tokens.indices):
        rows = rows[tokens.indices]
    return np.ascontiguousarray(rows, dtype=np.float32)


def form_ids(words: Iterable[str]) -> NDArray[np.uint64]:
    """Return the ids of the forms of words, uint64 (n, 3), by which `WordClasses` are looked up."""
    forms = list(map(_form_ids, words))
    return np.array(forms, dtype=np.uint64).reshape(-1, len(FORMS))


@lru_cache(maxsize=16384)
def _form_ids(word: str) -> tuple[int, int, int]:
    return hash_string(word), hash_string(word.lower()), hash_string(word_shape(word))


# --- tags of the Penn Treebank --------------------------------------------------------------------
PENN_TAGS = VERBS.union(TAGS)


def warn_of_other_tags(component: str, doc: Doc, *, of_trees: bool) -> bool:
    """Warn if words of a Doc have tags, and none of them is a tag of the Penn Treebank.

    Components whose rules read these tags find nothing in such Docs. Words have letters:
    punctuation marks have the same tags in many treebanks.
    of_trees: whether the tags of the trees are read, if there are any, and not `token.tag_`.
    Returns whether there was a warning.
    """
    words = [token.i for token in doc if any(map(str.isalpha, token.text))]
    read = constituent_tags(doc, words) if of_trees else [doc[i].tag_ for i in words]
    tags = dict.fromkeys(filter(None, read))
    if not tags or not PENN_TAGS.isdisjoint(tags):
        return False
    some = ", ".join(list(tags)[:5])
    text = message("SL801", component=component, text=doc.text[:40], tags=some)
    warnings.warn(text, stacklevel=2)
    return True


# --- trees ----------------------------------------------------------------------------------------
def is_tagged(doc: Doc) -> bool:
    """Check whether a Doc has tags, by the parser or by a tagger."""
    return CONSTITUENT_TAGS in doc.spans or doc.has_annotation("TAG")


def missing_for_trees(doc: Doc) -> str | None:
    """Name what a Doc lacks, trees or their tags; None if nothing is missing."""
    trees = f'doc.spans["{CONSTITUENTS}"]'
    if CONSTITUENTS not in doc.spans:
        return trees
    return None if is_tagged(doc) or not doc.spans[CONSTITUENTS] else f"token.tag_ next to {trees}"


class Spans(NamedTuple):
    """Spans of some Docs. labels: ids, uint64 (n). starts, ends: int64, in tokens of all Docs."""

    labels: NDArray[np.uint64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, groups: Iterable[tuple[Iterable[Span], int]]) -> Spans:
        """Return the spans of groups. Each is given with the number of tokens before its Doc."""
        parts = [span_columns(())]
        for group, first in groups:
            labels, starts, ends = span_columns(group)
            parts.append((labels, first + starts, first + ends))
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


def ids_of_spans(spans: Iterable[Span]) -> list[tuple[int, int, int]]:
    """Return (label, start, end) of spans."""
    return list(zip(*(column.tolist() for column in span_columns(spans)), strict=True))


CodedIds = Callable[[NDArray[np.uint64]], Coded]


def coded_ids(docs: Sequence[Doc], ids: NDArray[np.uint64]) -> Coded:
    """Return the strings of ids in Docs."""
    texts, codes = distinct_words(docs, ids)
    return Coded([*texts, None], codes)


def read_brackets(
    tokens: Tokens, words: Coded, tags: Coded, brackets: Spans, given: Spans, coded: CodedIds
) -> Brackets:
    """Return the trees over sentences, with "TOP" above each, as `extensions.trees` returns them.

    words, tags: of the tokens. brackets: sorted; those that a sentence does not contain are cut or
    left out. given: the parser's tags, in place of `tags`. coded: returns the strings of ids.
    """
    indices, offsets = tokens.indices, tokens.offsets
    starts, ends = (np.searchsorted(indices, bounds) for bounds in (brackets.starts, brackets.ends))
    limits = np.append(offsets, len(indices))[np.searchsorted(offsets, starts, "right")]
    begins = np.isin(starts, offsets)
    kept = np.flatnonzero((starts < ends) & ~((ends > limits) & begins))
    starts, ends = starts[kept], np.minimum(ends, limits)[kept]
    places = np.searchsorted(indices, given.starts)
    tagged = np.append(indices, -1)[places] == given.starts
    own = coded(given.labels[tagged])
    codes = tags.codes.astype(np.int64)
    codes[places[tagged]] = own.codes + len(tags.texts)
    texts = [text or UNKNOWN_TAG for text in (*tags.texts, *own.texts)]
    labels = coded(brackets.labels[kept])
    sizes = np.diff(offsets)
    return Brackets(words, Coded([*texts, None], codes), sizes, labels, starts, ends).rooted(ROOT)


class DocTrees:
    """The trees of Docs as arrays.

    A sentence that the parser cut has a tree for each piece. Otherwise a predicate would have all
    other pieces as possible arguments, and time would grow with the square of the length. `whole`
    keeps such a sentence in one tree.

    brackets: the trees. Their words are the tokens that are no white space, `rows`.
    positions: int (n_words), the token of its Doc that each word is.
    doc_ids: int (n_words), the number of its Doc.
    scored: bool (n_docs), whether the brackets of each Doc have probabilities.
    """

    def __init__(self, docs: Sequence[Doc], *, whole: bool = False):
        tokens = read_tokens(docs, ["ORTH", "TAG"], "", optional=["TAG"])
        self.rows, self.positions, self.doc_ids = tokens, tokens.positions, tokens.doc_ids
        self.scored = np.zeros(len(docs), dtype=bool)
        groups: list[tuple[SpanGroup, int]] = []
        tags: list[tuple[SpanGroup, int]] = []
        begins: list[int] = []  # of pieces
        probabilities, kept = [np.empty(0)], [np.empty(0, dtype=bool)]
        for number, (doc, first) in enumerate(zip(docs, tokens.firsts.tolist(), strict=False)):
            group, scores = scored_group(doc, CONSTITUENTS)
            groups.append((group, first))
            kept.append(np.ones(len(group), dtype=bool))
            if joined := {} if whole else cut_sentences(doc):
                kept[-1][:] = [(span.start, span.end) not in joined for span in group]
                begins += [first + piece.start for piece in pieces(doc)]
            # Without probabilities, brackets are certain.
            probabilities.append(np.ones(len(group)) if scores is None else scores)
            if (given := aligned_group(doc, CONSTITUENT_TAGS)) is not None:
                tags.append((given, first))
            self.scored[number] = scores is not None
        is_kept, coded = np.concatenate(kept), partial(coded_ids, docs)
        brackets = Spans(*(column[is_kept] for column in Spans.of(groups)))
        indices = tokens.indices
        starts, ends = (np.searchsorted(indices, at) for at in (brackets.starts, brackets.ends))
        # Only the topmost bracket of a unary chain.
        self._keys, rows = np.unique(self._key(starts, ends), return_index=True)
        self._probabilities = np.concatenate(probabilities)[is_kept][rows].astype(np.float64)
        if begins:
            tokens = tokens._replace(
                offsets=np.union1d(tokens.offsets, np.searchsorted(indices, begins))
            )
        words, own_tags = (coded(column) for column in tokens.columns.T)
        self.brackets = read_brackets(tokens, words, own_tags, brackets, Spans.of(tags), coded)

    def tokens(self, starts: NDArray, ends: NDArray) -> tuple[NDArray, NDArray]:
        """Get (start, end) in tokens of their Docs for spans of words."""
        return self.positions[starts], self.positions[ends - 1] + 1

    def probabilities(self, starts: NDArray, ends: NDArray) -> NDArray[np.float64]:
        """Get the parser's probability of a bracket over each span of words.

        1 for words, and without probabilities.
        """
        keys = self._key(starts, ends)
        if not len(self._keys):
            return np.ones(len(keys))
        rows = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[rows] == keys, self._probabilities[rows], 1.0)

    def _key(self, starts: NDArray, ends: NDArray) -> NDArray[np.int64]:
        return starts.astype(np.int64) * (len(self.positions) + 1) + ends


# --- gold annotation ------------------------------------------------------------------------------
def has_gold_tokens(example: Example) -> bool:
    """Check whether the predicted Doc has the tokens of the reference."""
    return [t.text for t in example.predicted] == [t.text for t in example.reference]


def gold_trees(doc: Doc, component: str) -> list[tuple[Span, Tree]]:
    """Get the gold sentences with a complete tree, and log the number of the others."""
    pairs, left_out = [], 0
    for sentence in sentences(doc):
        gold = _gold_tree(sentence)
        if gold is not None:
            pairs.append((sentence, gold))
        elif not all(token.is_space for token in sentence):
            left_out += 1
    if left_out:
        message = "%s: %d of the sentences of %r have no complete tree and are not trained on"
        logger.warning(message, component, left_out, doc.text[:40])
    return pairs


def _gold_tree(sentence: Span) -> Tree | None:
    """Get the normalised tree of a gold sentence; None if it is not complete."""
    doc = sentence.doc
    if CONSTITUENT_TAGS not in doc.spans and not all(t.tag_ or t.is_space for t in sentence):
        return None
    group = doc.spans[CONSTITUENTS]
    # Starts at the largest bracket that begins in the sentence.
    first = lower_bound(group, sentence.start, len(doc))
    if any(bracket.end > sentence.end for bracket in spans_from(group, first, sentence.end)):
        return None
    try:
        top = tree(sentence)
    except StructlearnError:
        return None
    if top is None:
        return None
    # Several words without any bracket: the annotation is missing.
    bare = top.label == ROOT and all(child.is_leaf for child in top.children)
    return None if bare and not top.is_leaf else normalize(top, strip_functions=False)
