"""Search in the trees of Docs by patterns: `ConstituentMatcher`.

Docs, or the stored Docs of a DocBin, are read as arrays, and many are searched at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from spacy.tokens import Doc, DocBin, Span
from spacy.util import registry
from spacy.vocab import Vocab

from ...errors import StructlearnError
from ...glossary import warn_of_unknown
from ...learning.settings import check_argument
from ...matching.patterns import Pattern, compiled
from ...matching.search import count, matches
from ...matching.tregex import parsed
from ...trees.heads import HeadRules
from .forests import DocForest, doc_forest, forests_of
from .span_groups import bounds

PatternType: TypeAlias = "str | Sequence[Mapping[str, Any]]"
OnMatch: TypeAlias = "Callable[[ConstituentMatcher, Doc, int, list[tuple[int, list[Span]]]], Any]"
COLLINS = "spacy_structlearn.collins_head_rules.v1"


class _Row(NamedTuple):
    """The patterns of a key, as given and compiled, and what is called with their matches."""

    given: list[PatternType]
    compiled: list[Pattern]
    on_match: OnMatch | None


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
        if isinstance(head_rules, HeadRules):
            self._rules = head_rules
        else:
            check_argument("head_rules", head_rules, str)
            if head_rules not in registry.misc:
                known = ", ".join(name for name in registry.misc.get_all() if "head_rules" in name)
                raise StructlearnError("SL405", kind="head rule", name=head_rules, known=known)
            self._rules = registry.misc.get(head_rules)()
        self._rows: dict[int, _Row] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: str | int) -> bool:
        return self.has_key(key)

    def has_key(self, key: str | int) -> bool:
        """Check whether there are patterns with this key."""
        return self._key(key) in self._rows

    def add(
        self, key: str | int, patterns: Iterable[PatternType], *, on_match: OnMatch | None = None
    ) -> None:
        """Add patterns, each a list of dicts or a string in the notation of Tregex.

        key: their name. If there are patterns with this name, these are further ones.
        on_match: called with the matcher, the Doc, the number of a match, and all matches.
        Raises StructlearnError if a pattern is malformed. An unknown label of a node that is above
        others gets a warning; a label of another node may be a word.
        """
        self._key(key)
        check_argument("patterns", patterns, str | Iterable)
        if isinstance(patterns, str):
            patterns = [patterns]
        patterns = list(patterns)
        check_argument("patterns", patterns, list[str | Sequence])
        read = [
            compiled(dicts)
            for pattern in patterns
            for dicts in (parsed(pattern) if isinstance(pattern, str) else [pattern])
        ]
        for pattern in read:
            warn_of_unknown(pattern.labels, self.vocab.strings)
        number = self.vocab.strings.add(key) if isinstance(key, str) else key
        before = self._rows.get(number, _Row([], [], None))
        self._rows[number] = _Row(before.given + patterns, before.compiled + read, on_match)

    def remove(self, key: str | int) -> None:
        """Remove the patterns with this key. Raises StructlearnError if the key is unknown."""
        number = self._key(key)
        if number not in self._rows:
            strings = self.vocab.strings
            known = ", ".join(
                strings[own] if own in strings else str(own)  # type: ignore[operator] # of hashes, too
                for own in self._rows
            )
            raise StructlearnError("SL703", key=key, known=known)
        del self._rows[number]

    def get(
        self, key: str | int, default: Any = None
    ) -> tuple[OnMatch | None, list[PatternType]] | Any:
        """Get the callback and the patterns with this key."""
        row = self._rows.get(self._key(key))
        return default if row is None else (row.on_match, list(row.given))

    def __call__(self, doclike: Doc | Span) -> list[tuple[int, list[Span]]]:
        """Find all matches in a Doc, or those that lie within a Span.

        Returns (key, spans) for each, in the order of the Doc. There is a Span for each node that
        is not negated, in the order of the pattern, with the label of the node.
        Raises StructlearnError if the Doc has no trees.
        """
        doc, start, end = bounds(doclike)
        span = doclike if isinstance(doclike, Span) else None
        found = [
            (key, [Span(doc, begin, stop, label=label) for label, begin, stop in nodes])
            for _, key, nodes in self._matches(doc_forest([doc], self._names(), self._rules, span))
            if all(start <= begin and stop <= end for _, begin, stop in nodes)
        ]
        for number, (key, _) in enumerate(found):
            if (on_match := self._rows[key].on_match) is not None:
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
        for trees in forests_of(docs, self.vocab, self._names(), self._rules):
            for number, key, nodes in self._matches(trees):
                yield first + number, key, nodes
            first += trees.n_docs

    def count(self, docs: DocBin | Iterable[Doc]) -> dict[int, int]:
        """Return the number of matches of each key in many Docs.

        Matches are not enumerated, which is faster than `search`. Raises StructlearnError if a Doc
        has no trees.
        """
        total = dict.fromkeys(self._rows, 0)
        keys, patterns = self._all_patterns()
        for trees in forests_of(docs, self.vocab, self._names(), self._rules):
            for key, number in zip(keys, count(trees.forest, patterns), strict=True):
                total[key] += number
        return total

    def _matches(self, trees: DocForest) -> Iterator[tuple[int, int, list[tuple[str, int, int]]]]:
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
        pairs = [(key, pattern) for key, row in self._rows.items() for pattern in row.compiled]
        return [key for key, _ in pairs], [pattern for _, pattern in pairs]

    def _names(self) -> list[str]:
        """Return the names of the attributes that patterns read."""
        return sorted({name for pattern in self._all_patterns()[1] for name in pattern.names})

    def _key(self, key: str | int) -> int:
        if not isinstance(key, int):  # a hash may be larger than an argument
            check_argument("key", key, str)
        return self.vocab.strings[key] if isinstance(key, str) else key
