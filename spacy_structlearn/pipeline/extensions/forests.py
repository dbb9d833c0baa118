"""The trees of Docs, and of the stored Docs of a DocBin, as forests for `ConstituentMatcher`.

White space tokens are no words. A tree has the root TOP, as in `extensions.trees`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy import symbols
from spacy.attrs import IDS, IS_SPACE, ORTH, SENT_START
from spacy.strings import hash_string  # type: ignore[attr-defined] # its stubs lack it
from spacy.tokens import Doc, DocBin, Span
from spacy.vocab import Vocab

from ...arrays import Coded, cumulative
from ...errors import StructlearnError
from ...groups import CONSTITUENT_TAGS, CONSTITUENTS
from ...kernels.index import number_keys
from ...matching.forest import Forest
from ...matching.patterns import FLAGS
from ...trees.heads import HeadRules
from .. import doc_arrays
from . import span_groups

TOKENS = 2**16  # how many are in a forest, except if there are more in one Doc


class DocForest(NamedTuple):
    """The trees of some Docs.

    n_docs: the number of Docs. positions, docs: for each word, the token of its Doc, and the number
    of the Doc.
    """

    n_docs: int
    forest: Forest
    positions: NDArray[np.int64]
    docs: NDArray[np.int64]


def _doc_forest(
    tokens: doc_arrays.Tokens,
    column: Callable[[doc_arrays.Tokens, str], Coded],
    brackets: doc_arrays.Spans,
    tags: doc_arrays.Spans,
    coded: doc_arrays.CodedIds,
    rules: HeadRules,
) -> DocForest:
    """Make a forest of the tokens and spans of some Docs. column: an attribute of tokens.

    Sentences of several words without a bracket were not parsed, and are left out.
    """
    sizes, starts = np.diff(tokens.offsets), np.searchsorted(tokens.indices, brackets.starts)
    starts, kept = starts[starts < len(tokens.positions)], sizes == 1
    kept[np.searchsorted(tokens.offsets, starts, "right") - 1] = True
    tokens = tokens.sentences(kept)
    own = partial(column, tokens)
    trees = doc_arrays.read_brackets(tokens, own("ORTH"), own("TAG"), brackets, tags, coded)
    n_docs = len(tokens.docs) - 1
    return DocForest(n_docs, Forest(trees, own, rules), tokens.positions, tokens.doc_ids)


def doc_forest(
    docs: Sequence[Doc], names: Sequence[str], rules: HeadRules, span: Span | None = None
) -> DocForest:
    """Make a forest of the trees of Docs.

    names: the attributes that patterns read. span: of a single Doc; only the sentences that it
        overlaps are read.
    Raises StructlearnError if a Doc has no trees.
    """
    attributes = list(dict.fromkeys(("ORTH", "TAG", *names)))
    tokens = doc_arrays.read_tokens(docs, attributes, "", optional=doc_arrays.SET_BY_COMPONENTS)
    if span is not None:
        tokens = _around(tokens, span)
    firsts, coded = tokens.firsts.tolist(), partial(doc_arrays.coded_ids, docs)

    def spans(key: str) -> doc_arrays.Spans:
        found: list[tuple[Iterable[Span], int]] = []
        for doc, first in zip(docs, firsts, strict=False):
            group = span_groups.aligned_group(doc, key)
            if group is None:
                if key == CONSTITUENTS and len(doc):
                    raise StructlearnError("SL020", text=doc.text[:40])
            elif span is None:
                found.append((group, first))
            elif len(tokens.positions):
                begin, last = tokens.positions[[0, -1]].tolist()
                lowest = span_groups.lower_bound(group, begin, len(doc))
                found.append((span_groups.spans_from(group, lowest, last + 1), 0))
        return doc_arrays.Spans.of(found)

    def column(tokens: doc_arrays.Tokens, name: str) -> Coded:
        ids = tokens.columns[:, attributes.index(name)]
        return _flags(ids) if name in FLAGS else coded(ids)

    return _doc_forest(tokens, column, spans(CONSTITUENTS), spans(CONSTITUENT_TAGS), coded, rules)


def _around(tokens: doc_arrays.Tokens, span: Span) -> doc_arrays.Tokens:
    """Return the sentences of a Doc that a Span overlaps."""
    firsts, lasts = (tokens.positions[at] for at in (tokens.offsets[:-1], tokens.offsets[1:] - 1))
    return tokens.sentences((lasts >= span.start) & (firsts < span.end))


def forests_of(
    docs: DocBin | Iterable[Doc], vocab: Vocab, names: Sequence[str], rules: HeadRules
) -> Iterator[DocForest]:
    """Iterate over the trees of some Docs at a time; see `doc_forest`. vocab: of the Docs."""
    if isinstance(docs, DocBin):
        yield from StoredForests(docs, vocab, rules)
        return
    if not isinstance(docs, Iterable):
        raise StructlearnError("SL141", wanted="Docs", kind=type(docs).__name__)
    held: list[Doc] = []
    n_tokens = 0
    for doc in docs:
        span_groups.bounds(doc)
        held.append(doc)
        n_tokens += len(doc)
        if n_tokens >= TOKENS:
            yield doc_forest(held, names, rules)
            held, n_tokens = [], 0
    if held:
        yield doc_forest(held, names, rules)


def _flags(values: NDArray[np.uint64]) -> Coded:
    return Coded([0, 1, None], values.astype(np.int64))


class StoredForests:
    """Reads the trees of a DocBin, without making Docs.

    vocab: decides what is white space, and has the attributes of words that are not stored.
    """

    def __init__(self, docs: DocBin, vocab: Vocab, rules: HeadRules):
        self.docs, self.vocab, self.rules = docs, vocab, rules
        # Faster than a StringStore. Symbols, such as NOUN, have other ids.
        self.texts = dict(zip(map(hash_string, docs.strings), docs.strings, strict=True))
        self.texts |= {number: text for text, number in symbols.IDS.items()}
        # An empty vocab does not recognize white space.
        self.is_space = vocab.lex_attr_getters.get(  # type: ignore[attr-defined] # the same
            IS_SPACE, lambda text: False
        )
        self.columns = {attribute: n for n, attribute in enumerate(docs.attrs)}

    def __iter__(self) -> Iterator[DocForest]:
        """Iterate over the trees of some Docs at a time.

        Raises StructlearnError if a Doc has none.
        """
        begin, n_tokens = 0, 0
        for number, tokens in enumerate(self.docs.tokens, 1):
            n_tokens += len(tokens)
            if n_tokens >= TOKENS or number == len(self.docs):
                yield self._some(begin, number)
                begin, n_tokens = number, 0

    def _some(self, begin: int, end: int) -> DocForest:
        tables = self.docs.tokens[begin:end]
        lengths = np.array([len(own) for own in tables], dtype=np.int64)
        table = np.concatenate(tables)
        words = self._coded(table[:, self.columns[ORTH]])
        texts = words.texts[:-1]
        sizes = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))[words.codes]
        # The characters where tokens begin, in the texts of all Docs.
        spaces = np.concatenate(self.docs.spaces[begin:end])[:, 0]
        characters = cumulative(sizes + spaces)

        starts = np.zeros(len(table), dtype=bool)
        if (place := self.columns.get(SENT_START)) is not None:
            starts = table[:, place] == 1
        is_space = np.fromiter(map(self.is_space, texts), dtype=bool, count=len(texts))
        tokens = doc_arrays.Tokens.of(table, lengths, is_space[words.codes], starts)

        def column(tokens: doc_arrays.Tokens, name: str) -> Coded:
            own = words.at(tokens.indices)
            if name == "ORTH":
                return own
            if (place := self.columns.get(IDS[name])) is not None:
                return self._coded(tokens.columns[:, place])
            made = Doc(self.vocab, words=list(texts)).to_array([IDS[name]])[own.codes]
            if name in FLAGS:
                return _flags(made)
            return _coded(made, self.vocab.strings.__getitem__)

        brackets, tags = self._spans(begin, lengths, characters, sizes)
        return _doc_forest(tokens, column, brackets, tags, self._coded, self.rules)

    def _spans(
        self,
        begin: int,
        lengths: NDArray[np.int64],
        characters: NDArray[np.int64],
        sizes: NDArray[np.int64],
    ) -> list[doc_arrays.Spans]:
        """Read the brackets and the tags of trees.

        Spans are found by their characters, as `realign` does, and dropped if no token begins or
        ends there.
        """
        held: list[tuple[list[bytes], list[int]]] = [([], []), ([], [])]
        for number, length in enumerate(lengths.tolist(), begin):
            groups = span_groups.stored_groups(self.docs.span_groups[number])
            if CONSTITUENTS not in groups and length:
                words = map(
                    self.texts.__getitem__, self.docs.tokens[number][:, self.columns[ORTH]].tolist()
                )
                raise StructlearnError("SL020", text=" ".join(words)[:40])
            for key, (spans, numbers) in zip((CONSTITUENTS, CONSTITUENT_TAGS), held, strict=True):
                own = span_groups.stored_spans(groups[key]) if key in groups else b""
                spans.append(own)
                numbers.append(len(own) // span_groups.STORED_SPAN.itemsize)
        firsts = cumulative(lengths)
        return [
            _placed(spans, np.repeat(np.arange(len(lengths)), numbers), firsts, characters, sizes)
            for spans, numbers in held
        ]

    def _coded(self, keys: NDArray[np.uint64]) -> Coded:
        return _coded(keys, self.texts.__getitem__)


def _coded(keys: NDArray[np.uint64], text_of: Callable[[int], str]) -> Coded:
    """Return the strings of ids. text_of: the string of an id."""
    firsts, codes = number_keys(keys := np.ascontiguousarray(keys))
    return Coded([*map(text_of, keys[firsts].tolist()), None], codes)


def _placed(
    spans: Sequence[bytes],
    docs: NDArray[np.int64],
    firsts: NDArray[np.int64],
    characters: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> doc_arrays.Spans:
    """Find stored spans by their characters; see `StoredForests._spans`.

    docs: the number of the Doc of each span. firsts: the first token of each Doc, and the number of
        tokens. characters: where each token begins in the texts of all Docs. sizes: of the tokens.
    """
    own = np.frombuffer(b"".join(spans), dtype=span_groups.STORED_SPAN)
    full = own["start"] < own["end"]  # an empty span covers no characters
    own, docs = own[full], docs[full]
    begins, ends = characters[:-1], characters[:-1] + sizes
    first, shifts = firsts[docs], characters[firsts[docs]]
    starts = _found(begins, own["start_char"] + shifts, own["start"] + first)
    lasts = _found(ends, own["end_char"] + shifts, own["end"] - 1 + first)
    kept = (starts >= first) & (starts <= lasts) & (lasts < firsts[docs + 1])
    return doc_arrays.Spans(own["label"][kept].astype(np.uint64), starts[kept], lasts[kept] + 1)


def _found(
    places: NDArray[np.int64], wanted: NDArray[np.int64], guesses: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return where each wanted number is in `places` (ascending), -1 if it is not there."""
    found = np.minimum(guesses, len(places) - 1)
    wrong = np.flatnonzero(places[found] != wanted)
    if len(wrong):
        others = np.minimum(np.searchsorted(places, wanted[wrong]), len(places) - 1)
        found[wrong] = np.where(places[others] == wanted[wrong], others, -1)
    return found
