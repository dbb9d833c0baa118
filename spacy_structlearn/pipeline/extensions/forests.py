"""The trees of Docs, and of the stored Docs of a DocBin, as forests for `ConstituentMatcher`.

White space tokens are no words. A tree has the root TOP, as in `extensions.trees`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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
from ..doc_arrays import (
    SET_BY_COMPONENTS,
    CodedIds,
    Spans,
    Tokens,
    coded_ids,
    ids_of_spans,
    read_brackets,
    read_tokens,
)
from .span_groups import (
    STORED_SPAN,
    aligned_group,
    bounds,
    lower_bound,
    spans_from,
    stored_groups,
    stored_spans,
)

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
    tokens: Tokens,
    column: Callable[[str], Coded],
    brackets: Spans,
    tags: Spans,
    coded: CodedIds,
    rules: HeadRules,
) -> DocForest:
    """Make a forest of the tokens and spans of some Docs. column: an attribute of the tokens.

    Sentences of several words without a bracket were not parsed, and are left out.
    """
    sizes, starts = np.diff(tokens.offsets), np.searchsorted(tokens.indices, brackets.starts)
    starts, kept = starts[starts < len(tokens.positions)], sizes == 1
    kept[np.searchsorted(tokens.offsets, starts, "right") - 1] = True
    rows = slice(None) if kept.all() else np.flatnonzero(np.repeat(kept, sizes))
    tokens = Tokens(
        tokens.columns[rows],
        cumulative(sizes[kept]),
        tokens.positions[rows],
        cumulative(kept)[tokens.docs],
        tokens.doc_ids[rows],
        tokens.firsts,
    )

    def kept_column(name: str) -> Coded:
        return column(name).at(rows)

    trees = read_brackets(tokens, kept_column("ORTH"), kept_column("TAG"), brackets, tags, coded)
    n_docs = len(tokens.docs) - 1
    return DocForest(n_docs, Forest(trees, kept_column, rules), tokens.positions, tokens.doc_ids)


def doc_forest(
    docs: Sequence[Doc], names: Sequence[str], rules: HeadRules, span: Span | None = None
) -> DocForest:
    """Make a forest of the trees of Docs.

    names: the attributes that patterns read. span: of a single Doc; only the sentences that it
        overlaps are read.
    Raises StructlearnError if a Doc has no trees.
    """
    attributes = list(dict.fromkeys(("ORTH", "TAG", *names)))
    tokens = read_tokens(docs, attributes, "", optional=SET_BY_COMPONENTS)
    if span is not None:
        tokens = _around(tokens, span)
    firsts, coded = tokens.firsts.tolist(), coded_ids(docs)

    def spans(key: str) -> Spans:
        found: list[tuple[int, int, int]] = []
        for doc, first in zip(docs, firsts, strict=False):
            group = aligned_group(doc, key)
            if group is None:
                if key == CONSTITUENTS and len(doc):
                    raise StructlearnError("SL020", text=doc.text[:40])
            elif span is None:
                found += ids_of_spans(group, first)
            elif len(tokens.positions):
                begin, last = tokens.positions[[0, -1]].tolist()
                inside = spans_from(group, lower_bound(group, begin, len(doc)), last + 1)
                found += ids_of_spans(inside)
        return Spans.of(found)

    def column(name: str) -> Coded:
        ids = tokens.columns[:, attributes.index(name)]
        return _flags(ids) if name in FLAGS else coded(ids)

    return _doc_forest(tokens, column, spans(CONSTITUENTS), spans(CONSTITUENT_TAGS), coded, rules)


def _around(tokens: Tokens, span: Span) -> Tokens:
    """Return the sentences of a Doc that a Span overlaps."""
    first, last = np.searchsorted(tokens.positions, [span.start, span.end]).tolist()
    n = len(tokens.offsets) - 1
    begin = min(int(np.searchsorted(tokens.offsets, first, "right")) - 1, n)
    end = max(begin, int(np.searchsorted(tokens.offsets, last)))
    offsets = tokens.offsets[begin : end + 1]
    part = slice(offsets[0], offsets[-1])
    return Tokens(
        tokens.columns[part],
        offsets - offsets[0],
        tokens.positions[part],
        np.array([0, end - begin]),
        tokens.doc_ids[part],
        tokens.firsts,
    )


def doc_forests(docs: Iterable[Doc], names: Sequence[str], rules: HeadRules) -> Iterator[DocForest]:
    """Iterate over the trees of some Docs at a time; see `doc_forest`."""
    held: list[Doc] = []
    n_tokens = 0
    for doc in docs:
        bounds(doc)
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
        tokens = Tokens.of(table, lengths, is_space[words.codes], starts)
        words = words.at(tokens.indices)

        def column(name: str) -> Coded:
            if name == "ORTH":
                return words
            if (place := self.columns.get(IDS[name])) is not None:
                return self._coded(tokens.columns[:, place])
            made = Doc(self.vocab, words=list(texts)).to_array([IDS[name]])[words.codes]
            if name in FLAGS:
                return _flags(made)
            firsts, codes = number_keys(made)
            return Coded([*map(self.vocab.strings.__getitem__, made[firsts].tolist()), None], codes)

        brackets, tags = self._spans(begin, lengths, characters, sizes)
        return _doc_forest(tokens, column, brackets, tags, self._coded, self.rules)

    def _spans(
        self,
        begin: int,
        lengths: NDArray[np.int64],
        characters: NDArray[np.int64],
        sizes: NDArray[np.int64],
    ) -> list[Spans]:
        """Read the brackets and the tags of trees.

        Spans are found by their characters, as `realign` does, and dropped if no token begins or
        ends there.
        """
        held: list[tuple[list[bytes], list[int]]] = [([], []), ([], [])]
        for number, length in enumerate(lengths.tolist(), begin):
            groups = stored_groups(self.docs.span_groups[number])
            if CONSTITUENTS not in groups and length:
                words = map(
                    self.texts.__getitem__, self.docs.tokens[number][:, self.columns[ORTH]].tolist()
                )
                raise StructlearnError("SL020", text=" ".join(words)[:40])
            for key, (spans, numbers) in zip((CONSTITUENTS, CONSTITUENT_TAGS), held, strict=True):
                own = stored_spans(groups[key]) if key in groups else b""
                spans.append(own)
                numbers.append(len(own) // STORED_SPAN.itemsize)
        firsts = cumulative(lengths)
        return [
            _placed(spans, np.repeat(np.arange(len(lengths)), numbers), firsts, characters, sizes)
            for spans, numbers in held
        ]

    def _coded(self, keys: NDArray[np.uint64]) -> Coded:
        keys = np.ascontiguousarray(keys)
        firsts, codes = number_keys(keys)
        return Coded([*map(self.texts.__getitem__, keys[firsts].tolist()), None], codes)


def _placed(
    spans: Sequence[bytes],
    docs: NDArray[np.int64],
    firsts: NDArray[np.int64],
    characters: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> Spans:
    """Find stored spans by their characters; see `StoredForests._spans`.

    docs: the number of the Doc of each span. firsts: the first token of each Doc, and the number of
        tokens. characters: where each token begins in the texts of all Docs. sizes: of the tokens.
    """
    own = np.frombuffer(b"".join(spans), dtype=STORED_SPAN)
    full = own["start"] < own["end"]  # an empty span covers no characters
    own, docs = own[full], docs[full]
    begins, ends = characters[:-1], characters[:-1] + sizes
    first, shifts = firsts[docs], characters[firsts[docs]]
    starts = _found(begins, own["start_char"] + shifts, own["start"] + first)
    lasts = _found(ends, own["end_char"] + shifts, own["end"] - 1 + first)
    kept = (starts >= first) & (starts <= lasts) & (lasts < firsts[docs + 1])
    return Spans(own["label"][kept].astype(np.uint64), starts[kept], lasts[kept] + 1)


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
