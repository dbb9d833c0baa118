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
from spacy.strings import hash_string
from spacy.tokens import Doc, DocBin, Span
from spacy.vocab import Vocab

from ...arrays import Coded, cumulative
from ...errors import StructlearnError
from ...groups import CONSTITUENT_TAGS, CONSTITUENTS
from ...kernels.index import number_keys
from ...matching.forest import Forest
from ...matching.patterns import FLAGS
from ...trees.heads import HeadRules
from ..tokens import distinct_words
from .brackets import ROOT, UNKNOWN_TAG
from .span_groups import STORED_SPAN, aligned_group, lower_bound, stored_groups, stored_spans

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


class _Spans(NamedTuple):
    """Spans of all Docs. labels: ids, uint64 (n). starts, ends: tokens of all Docs."""

    labels: NDArray[np.uint64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


def _forest(
    lengths: NDArray[np.int64],
    words: Coded,
    is_space: NDArray[np.bool_],
    column: Callable[[str], Coded],
    sentence_starts: NDArray[np.bool_],
    brackets: _Spans,
    tags: _Spans,
    coded: Callable[[NDArray[np.uint64]], Coded],
    rules: HeadRules,
) -> DocForest:
    """Make a forest of the tokens and spans of some Docs.

    lengths: the number of tokens of each Doc. words, is_space, sentence_starts: of each token.
    column: returns another attribute of all tokens. coded: returns the strings of ids.
    """
    firsts = cumulative(lengths)
    tokens, before = np.flatnonzero(~is_space), cumulative(~is_space)
    begins = sentence_starts.copy()
    begins[firsts[:-1][lengths > 0]] = True
    sizes = np.bincount((np.cumsum(begins) - 1)[tokens])
    sizes = sizes[sizes > 0]
    docs = np.repeat(np.arange(len(lengths)), lengths)[tokens]
    # The brackets in words, without those of white space.
    starts, ends = before[brackets.starts], before[brackets.ends]
    kept = np.flatnonzero(starts < ends)
    starts, ends, labels = starts[kept], ends[kept], coded(brackets.labels[kept])
    # A root above each tree that has none.
    offsets = cumulative(sizes)
    places = np.searchsorted(starts, offsets[:-1])
    top = labels.texts.index(ROOT) if ROOT in labels.texts else len(labels.texts) - 1
    rooted = np.zeros(len(sizes), dtype=bool)
    known = np.flatnonzero(places < len(starts))
    at = places[known]
    rooted[known] = (
        (starts[at] == offsets[known])
        & (ends[at] == offsets[known + 1])
        & (labels.codes[at] == top)
    )
    bare = np.flatnonzero(~rooted)
    places = places[bare]
    return DocForest(
        len(lengths),
        Forest(
            sizes,
            words.at(tokens),
            _tree_tags(column("TAG"), tags, coded).at(tokens),
            Coded([*labels.texts[:-1], ROOT, None], np.insert(labels.codes, places, top)),
            np.insert(starts, places, offsets[bare]),
            np.insert(ends, places, offsets[bare + 1]),
            lambda name: column(name).at(tokens),
            rules,
        ),
        tokens - firsts[docs],
        docs,
    )


def _tree_tags(own: Coded, tags: _Spans, coded: Callable[[NDArray[np.uint64]], Coded]) -> Coded:
    """Return the tags of the trees: those of the parser, or else `token.tag_`."""
    given = coded(tags.labels)
    codes = own.codes.copy()
    codes[tags.starts] = given.codes + len(own.texts)
    return Coded([*(text or UNKNOWN_TAG for text in (*own.texts, *given.texts)), None], codes)


def doc_forest(
    docs: Sequence[Doc], names: Sequence[str], rules: HeadRules, span: Span | None = None
) -> DocForest:
    """Make a forest of the trees of Docs.

    names: the attributes that patterns read. span: of a single Doc; only the sentences that it
        overlaps are read.
    Raises StructlearnError if a Doc has no trees.
    """
    ids = [IDS[name] for name in ("ORTH", "IS_SPACE", "SENT_START", "TAG", *names)]
    tables = [doc.to_array(ids).reshape(-1, len(ids)) for doc in docs]
    begin = end = 0  # of the tokens that are read, if there is a span
    if span is not None:
        bounds = np.append(np.flatnonzero(tables[0][:, 2] == 1), len(docs[0]))
        begin = int(bounds[bounds <= span.start].max(initial=0))
        end = int(bounds[bounds >= span.end].min())
        tables[0] = tables[0][begin:end]
    lengths = np.array([len(table) for table in tables], dtype=np.int64)
    table = np.concatenate([np.zeros((0, len(ids)), dtype=np.uint64), *tables])
    firsts = (cumulative(lengths)[:-1] - begin).tolist()

    def spans(key: str) -> _Spans:
        found: list[tuple[int, int, int]] = []
        for doc, first in zip(docs, firsts, strict=True):
            group = aligned_group(doc, key)
            if group is None:
                if key == CONSTITUENTS and len(doc):
                    raise StructlearnError("SL020", text=doc.text[:40])
            elif span is None:
                found += [(s.label, first + s.start, first + s.end) for s in group]
            else:
                for index in range(lower_bound(group, begin, len(doc)), len(group)):
                    own = group[index]
                    if own.start >= end:
                        break
                    found.append((own.label, first + own.start, first + own.end))
        labels, starts, ends = zip(*found, strict=True) if found else ((), (), ())
        return _Spans(
            np.array(labels, dtype=np.uint64),
            np.array(starts, dtype=np.int64),
            np.array(ends, dtype=np.int64),
        )

    def coded(keys: NDArray[np.uint64]) -> Coded:
        texts, codes = distinct_words(docs, keys)
        return Coded([*texts, None], codes)

    def column(name: str) -> Coded:
        own = table[:, ids.index(IDS[name])]
        return _flags(own) if name in FLAGS else coded(own)

    found = _forest(
        lengths,
        column("ORTH"),
        table[:, 1] == 1,
        column,
        table[:, 2] == 1,
        spans(CONSTITUENTS),
        spans(CONSTITUENT_TAGS),
        coded,
        rules,
    )
    return found._replace(positions=found.positions + begin)


def doc_forests(docs: Iterable[Doc], names: Sequence[str], rules: HeadRules) -> Iterator[DocForest]:
    """Iterate over the trees of some Docs at a time; see `doc_forest`."""
    held: list[Doc] = []
    n_tokens = 0
    for doc in docs:
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
        self.is_space = vocab.lex_attr_getters.get(IS_SPACE, lambda text: False)
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
        tokens = self.docs.tokens[begin:end]
        lengths = np.array([len(own) for own in tokens], dtype=np.int64)
        table = np.concatenate(tokens)
        words = self._coded(table[:, self.columns[ORTH]])
        texts = words.texts[:-1]
        sizes = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))[words.codes]
        # The characters where tokens begin, in the texts of all Docs.
        spaces = np.concatenate(self.docs.spaces[begin:end])[:, 0]
        characters = cumulative(sizes + spaces)

        def column(name: str) -> Coded:
            if (own := self.columns.get(IDS[name])) is not None:
                return self._coded(table[:, own])
            made = Doc(self.vocab, words=texts).to_array([IDS[name]])[words.codes]
            if name in FLAGS:
                return _flags(made)
            firsts, codes = number_keys(made)
            found = [self.vocab.strings[key] for key in made[firsts].tolist()]
            return Coded([*found, None], codes)

        starts = np.zeros(len(table), dtype=bool)
        if (own := self.columns.get(SENT_START)) is not None:
            starts = table[:, own] == 1
        is_space = np.fromiter(map(self.is_space, texts), dtype=bool, count=len(texts))
        brackets, tags = self._spans(begin, lengths, characters, sizes)
        return _forest(
            lengths,
            words,
            is_space[words.codes],
            column,
            starts,
            brackets,
            tags,
            self._coded,
            self.rules,
        )

    def _spans(
        self,
        begin: int,
        lengths: NDArray[np.int64],
        characters: NDArray[np.int64],
        sizes: NDArray[np.int64],
    ) -> list[_Spans]:
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
) -> _Spans:
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
    return _Spans(own["label"][kept].astype(np.uint64), starts[kept], lasts[kept] + 1)


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
