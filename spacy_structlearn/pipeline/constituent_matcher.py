"""Search in the trees of Docs by patterns: `ConstituentMatcher`.

Docs, or the stored Docs of a DocBin, are read as arrays, and many are searched at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from spacy import symbols
from spacy.attrs import IDS, IS_SPACE, ORTH, SENT_START
from spacy.strings import hash_string
from spacy.tokens import Doc, DocBin, Span
from spacy.util import registry
from spacy.vocab import Vocab
from srsly import msgpack

from ..arrays import Coded, cumulative
from ..errors import StructlearnError
from ..kernels.index import number_keys
from ..matching.forest import Forest
from ..matching.patterns import FLAGS, Pattern, compiled
from ..matching.search import count, matches
from ..matching.tregex import parsed
from ..trees.heads import HeadRules
from .extensions import (
    CONSTITUENT_TAGS,
    CONSTITUENTS,
    ROOT,
    UNKNOWN_TAG,
    aligned_group,
    lower_bound,
)
from .tokens import distinct_words

PatternType: TypeAlias = "str | Sequence[Mapping[str, Any]]"
OnMatch: TypeAlias = "Callable[[ConstituentMatcher, Doc, int, list[tuple[int, list[Span]]]], Any]"
COLLINS = "spacy_structlearn.collins_head_rules.v1"
TOKENS = 2**16  # how many are searched at a time, except in a longer Doc
# A span as in SpanGroup.to_bytes, after msgpack's mark of 40 bytes.
_STORED = np.dtype(
    [("mark", "V2"), ("id", ">u8"), ("kb_id", ">u8"), ("label", ">u8")]
    + [(name, ">i4") for name in ("start", "end", "start_char", "end_char")]
)
_MARK = b"\xc4\x28"
_SPANS = re.compile(rb"\xa5spans(?:[\x90-\x9f]|\xdc..|\xdd....)", re.DOTALL)


class ConstituentMatcher:
    """Finds nodes of trees by their labels and words, and by their relations.

    The API is that of spaCy's DependencyMatcher. The nodes are those of the Penn Treebank: the root
    TOP, phrases, tags, and words below tags. White space is left out.

    vocab: the vocab of the Docs.
    head_rules: rules for the relations of heads, or the name of a registered function that returns
        them. Default: those of Collins for English.
    Raises StructlearnError if no such function is registered.
    """

    def __init__(self, vocab: Vocab, *, head_rules: str | HeadRules = COLLINS):
        self.vocab, self.head_rules = vocab, head_rules
        self._rules = _head_rules(head_rules)
        self._patterns: dict[int, list[PatternType]] = {}
        self._compiled: dict[int, list[Pattern]] = {}
        self._callbacks: dict[int, OnMatch | None] = {}

    def __reduce__(self):
        patterns = [(key, own, self._callbacks[key]) for key, own in self._patterns.items()]
        return _restored, (self.vocab, self.head_rules, patterns)

    def __len__(self) -> int:
        return len(self._patterns)

    def __contains__(self, key: str | int) -> bool:
        return self.has_key(key)

    def has_key(self, key: str | int) -> bool:
        """Check whether there are patterns with this key."""
        return self._key(key) in self._patterns

    def add(
        self, key: str | int, patterns: Iterable[PatternType], *, on_match: OnMatch | None = None
    ) -> None:
        """Add patterns, each a list of dicts or a string in the notation of Tregex.

        key: their name. If there are patterns with this name, these are further ones.
        on_match: called with the matcher, the Doc, the number of a match, and all matches.
        Raises StructlearnError if a pattern is malformed.
        """
        if isinstance(patterns, str):
            patterns = [patterns]
        patterns = list(patterns)
        own = [
            compiled(dicts)
            for pattern in patterns
            for dicts in (parsed(pattern) if isinstance(pattern, str) else [pattern])
        ]
        number = self.vocab.strings.add(key) if isinstance(key, str) else key
        self._patterns.setdefault(number, []).extend(patterns)
        self._compiled.setdefault(number, []).extend(own)
        self._callbacks[number] = on_match

    def remove(self, key: str | int) -> None:
        """Remove the patterns with this key. Raises StructlearnError if there are none."""
        number = self._key(key)
        if number not in self._patterns:
            strings = self.vocab.strings
            known = ", ".join(
                strings[own] if own in strings else str(own) for own in self._patterns
            )
            raise StructlearnError("SL703", key=key, known=known)
        for table in (self._patterns, self._compiled, self._callbacks):
            del table[number]

    def get(
        self, key: str | int, default: Any = None
    ) -> tuple[OnMatch | None, list[PatternType]] | Any:
        """Get the callback and the patterns with this key."""
        number = self._key(key)
        if number not in self._patterns:
            return default
        return self._callbacks[number], list(self._patterns[number])

    def __call__(self, doclike: Doc | Span) -> list[tuple[int, list[Span]]]:
        """Find all matches in a Doc, or those that lie within a Span.

        Returns (key, spans) for each, in the order of the Doc. There is a Span for each node that
        is not negated, in the order of the pattern, with the label of the node.
        Raises StructlearnError if the Doc has no trees.
        """
        doc, start, end = doclike, 0, len(doclike)
        if isinstance(doclike, Span):
            doc, start, end = doclike.doc, doclike.start, doclike.end
        trees = _doc_trees(
            [doc], self._names(), self._rules, doclike if doc is not doclike else None
        )
        found = [
            (key, [Span(doc, begin, stop, label=label) for label, begin, stop in nodes])
            for _, key, nodes in self._matches(trees)
            if all(start <= begin and stop <= end for _, begin, stop in nodes)
        ]
        for number, (key, _) in enumerate(found):
            if (on_match := self._callbacks[key]) is not None:
                on_match(self, doc, number, found)
        return found

    def search(
        self, docs: DocBin | Iterable[Doc]
    ) -> Iterator[tuple[int, int, list[tuple[str, int, int]]]]:
        """Iterate over the matches in many Docs, much faster than one by one.

        The Docs of a DocBin are not created. Callbacks are not called.
        Yields (number of the Doc, key, nodes), where each node is (label, start, end) in tokens.
        Raises StructlearnError if a Doc has no trees.
        """
        first = 0
        for trees in self._trees(docs):
            for number, key, nodes in self._matches(trees):
                yield first + number, key, nodes
            first += trees.n_docs

    def count(self, docs: DocBin | Iterable[Doc]) -> dict[int, int]:
        """Return the number of matches of each key in many Docs.

        Matches are not enumerated, which is faster than `search`. Raises StructlearnError if a Doc
        has no trees.
        """
        total = dict.fromkeys(self._compiled, 0)
        keys, patterns = self._all_patterns()
        for trees in self._trees(docs):
            for key, number in zip(keys, count(trees.forest, patterns), strict=True):
                total[key] += number
        return total

    def _trees(self, docs: DocBin | Iterable[Doc]) -> Iterator[_Trees]:
        """Iterate over the trees of Docs, of some Docs at a time."""
        if isinstance(docs, DocBin):
            yield from _Stored(docs, self.vocab, self._rules).trees()
            return
        held: list[Doc] = []
        n_tokens = 0
        for doc in docs:
            held.append(doc)
            n_tokens += len(doc)
            if n_tokens >= TOKENS:
                yield _doc_trees(held, self._names(), self._rules)
                held, n_tokens = [], 0
        yield _doc_trees(held, self._names(), self._rules)

    def _matches(self, trees: _Trees) -> Iterator[tuple[int, int, list[tuple[str, int, int]]]]:
        """Iterate over the matches as `search` returns them."""
        keys, patterns = self._all_patterns()
        forest, positions = trees.forest, trees.positions
        for found in matches(forest, patterns):
            starts, lasts = forest.starts[found.nodes], forest.stops[found.nodes] - 1
            texts = map(forest.names.__getitem__, forest.labels[found.nodes].tolist())
            places = positions[starts].tolist(), (positions[lasts] + 1).tolist()
            nodes = list(zip(texts, *places, strict=True))
            docs = trees.docs[starts[found.offsets[:-1]]].tolist()
            bounds = found.offsets.tolist()
            for number, (pattern, doc) in enumerate(
                zip(found.patterns.tolist(), docs, strict=True)
            ):
                yield doc, keys[pattern], nodes[bounds[number] : bounds[number + 1]]

    def _all_patterns(self) -> tuple[list[int], list[Pattern]]:
        keys = [key for key, own in self._compiled.items() for _ in own]
        return keys, list(chain.from_iterable(self._compiled.values()))

    def _names(self) -> list[str]:
        """Return the names of the attributes that patterns read."""
        return sorted({name for own in self._compiled.values() for p in own for name in p.names})

    def _key(self, key: str | int) -> int:
        return self.vocab.strings[key] if isinstance(key, str) else key


def _restored(
    vocab: Vocab, head_rules: str | HeadRules, patterns: Iterable[tuple]
) -> ConstituentMatcher:
    matcher = ConstituentMatcher(vocab, head_rules=head_rules)
    for key, own, on_match in patterns:
        matcher.add(key, own, on_match=on_match)
    return matcher


def _head_rules(given: str | HeadRules) -> HeadRules:
    if isinstance(given, HeadRules):
        return given
    if given not in registry.misc:
        known = ", ".join(name for name in registry.misc.get_all() if "head_rules" in name)
        raise StructlearnError("SL405", kind="head rule", name=given, known=known)
    return registry.misc.get(given)()


# --- Docs as arrays -------------------------------------------------------------------------------
class _Trees(NamedTuple):
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


def _trees(
    lengths: NDArray[np.int64],
    words: Coded,
    is_space: NDArray[np.bool_],
    column: Callable[[str], Coded],
    sentence_starts: NDArray[np.bool_],
    brackets: _Spans,
    tags: _Spans,
    coded: Callable[[NDArray[np.uint64]], Coded],
    rules: HeadRules,
) -> _Trees:
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
    return _Trees(
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


def _doc_trees(
    docs: Sequence[Doc], names: Sequence[str], rules: HeadRules, span: Span | None = None
) -> _Trees:
    """Make a forest of the trees of Docs.

    names: the attributes that are read. span: of a single Doc, for the sentences that it overlaps.
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

    trees = _trees(
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
    return trees._replace(positions=trees.positions + begin)


def _flags(values: NDArray[np.uint64]) -> Coded:
    return Coded([0, 1, None], values.astype(np.int64))


class _Stored:
    """Reads the trees of a DocBin.

    vocab: decides what is white space, and has the attributes of words that are not stored.
    """

    def __init__(self, docs: DocBin, vocab: Vocab, rules: HeadRules):
        self.docs, self.vocab, self.rules = docs, vocab, rules
        # Faster than a StringStore. Symbols, such as NOUN, have other ids.
        self.texts = dict(zip(map(hash_string, docs.strings), docs.strings, strict=True))
        self.texts |= {number: text for text, number in symbols.IDS.items()}
        # An empty vocab does not recognize white space.
        self.is_space = str.isspace if IS_SPACE in vocab.lex_attr_getters else lambda text: False
        self.columns = {attribute: n for n, attribute in enumerate(docs.attrs)}

    def trees(self) -> Iterator[_Trees]:
        """Iterate over the trees of all Docs, some at a time."""
        begin, n_tokens = 0, 0
        for number, tokens in enumerate(self.docs.tokens, 1):
            n_tokens += len(tokens)
            if n_tokens >= TOKENS or number == len(self.docs):
                yield self._some(begin, number)
                begin, n_tokens = number, 0

    def _some(self, begin: int, end: int) -> _Trees:
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
        return _trees(
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
            groups = {}
            if stored := self.docs.span_groups[number]:
                found = dict(_unpacked(stored))
                groups = {key: group for group, keys in found.items() for key in keys}
            if CONSTITUENTS not in groups and length:
                words = map(self.texts.__getitem__, self.docs.tokens[number][:, 0].tolist())
                raise StructlearnError("SL020", text=" ".join(words)[:40])
            for key, (spans, numbers) in zip((CONSTITUENTS, CONSTITUENT_TAGS), held, strict=True):
                own = _stored_spans(groups[key]) if key in groups else b""
                spans.append(own)
                numbers.append(len(own) // _STORED.itemsize)
        firsts = cumulative(lengths)
        return [
            _placed(spans, np.repeat(np.arange(len(lengths)), numbers), firsts, characters, sizes)
            for spans, numbers in held
        ]

    def _coded(self, keys: NDArray[np.uint64]) -> Coded:
        keys = np.ascontiguousarray(keys)
        firsts, codes = number_keys(keys)
        return Coded([*map(self.texts.__getitem__, keys[firsts].tolist()), None], codes)


def _unpacked(data: bytes) -> Any:
    # Without hooks: srsly would look them up each time.
    return msgpack.unpackb(data, object_pairs_hook=dict, raw=False)


def _stored_spans(group: bytes) -> bytes:
    """Return the spans of a stored group, each as `_STORED`. They are at its end."""
    found = _SPANS.search(group)
    spans = group[found.end() :] if found else b""
    if spans and len(spans) % _STORED.itemsize == 0 and spans.startswith(_MARK):
        return spans
    return b"".join(_MARK + span for span in _unpacked(group)["spans"])


def _placed(
    spans: Sequence[bytes],
    docs: NDArray[np.int64],
    firsts: NDArray[np.int64],
    characters: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> _Spans:
    """Find stored spans by their characters; see `_Stored._spans`.

    docs: the number of the Doc of each span. firsts: the first token of each Doc, and the number of
        tokens. characters: where each token begins in the texts of all Docs. sizes: of the tokens.
    """
    own = np.frombuffer(b"".join(spans), dtype=_STORED)
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
