"""The symbols that left-corner derivations consist of; see `derivation`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from ..words.signatures import NORMALIZATIONS, SIGNATURES, Normalization, Signature, registered

MOVES = SHIFT, PROJECT, ATTACH, MODIFY = 0, 1, 2, 3
RELATIONS = SELF, ANCESTOR, LEFT_CHILD, RECENT_CHILD = 0, 1, 2, 3
ROOT = "TOP"
_CACHE_SIZE = 100_000


@dataclass(frozen=True)
class DerivationSymbols:
    """The symbols of all decisions, with their indices.

    tags: ascending.
    chains: for each label, the unary chain that it stands for, topmost label first; ascending.
    words: for each tag, "" for the item of all unknown words, then its known words, ascending. In
        sequence mode, with no labels and no moves but shifts, "" may be missing. Items are numbered
        across all tags.
    signatures: classes of unknown words. The first, "", is for words in no other class.
    signature_kind: the name of the registered function that determines the signature.
    normalization: the name of the registered function that returns other spellings, or "".
    root: the label above trees.
    max_projects: the maximum number of consecutive projects.
    top_label: the label most often right below the root.

    Raises StructlearnError if the symbols are inconsistent or a function is not registered.
    """

    tags: tuple[str, ...] = ()
    chains: tuple[tuple[str, ...], ...] = ()
    words: tuple[tuple[str, ...], ...] = ()
    signatures: tuple[str, ...] = ()
    signature_kind: str = ""
    normalization: str = ""
    root: str = ROOT
    max_projects: int = 0
    top_label: str = ROOT

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise StructlearnError("SL600", problem=problem)
        if self.signature_kind:
            registered(SIGNATURES, "signature", self.signature_kind)
        if self.normalization:
            registered(NORMALIZATIONS, "normalization", self.normalization)

    @property
    def n_tags(self) -> int:
        """Number of tags, T."""
        return len(self.tags)

    @property
    def n_labels(self) -> int:
        """Number of labels, L, including collapsed chains."""
        return len(self.chains)

    @property
    def n_items(self) -> int:
        """Number of items, V."""
        return int(self.item_offsets[-1])

    @property
    def n_signatures(self) -> int:
        """Number of signatures, S."""
        return len(self.signatures)

    @cached_property
    def item_offsets(self) -> NDArray[np.int32]:
        """The offsets of the items of each tag, int32 (T + 1)."""
        return np.cumsum([0, *map(len, self.words)], dtype=np.int32)

    @cached_property
    def unknown(self) -> NDArray[np.int32]:
        """The item of unknown words of each tag, int32 (T), or -1."""
        has = [bool(words) and words[0] == "" for words in self.words]
        return np.where(np.array(has, dtype=bool), self.item_offsets[:-1], -1).astype(np.int32)

    @cached_property
    def phrases(self) -> tuple[str, ...]:
        """The labels of phrases in trees, ascending."""
        return tuple(sorted({label for chain in self.chains for label in chain}))

    @cached_property
    def tag_index(self) -> dict[str, int]:
        """Id of each tag."""
        return {tag: i for i, tag in enumerate(self.tags)}

    @cached_property
    def chain_index(self) -> dict[tuple[str, ...], int]:
        """Label of each chain."""
        return {chain: i for i, chain in enumerate(self.chains)}

    @cached_property
    def input_blocks(self) -> dict[str, slice]:
        """The rows of inputs of each block, by names such as "a.moves".

        a: the last move, with its label or word. b: the top of the stack. c: the last word that was
        shifted. d: the leftmost word below the top.
        """
        leaf = {"tags": self.n_tags, "items": self.n_items, "signatures": self.n_signatures}
        parts = {
            "a": {"moves": len(MOVES), "labels": self.n_labels, **leaf},
            "b": {"labels": self.n_labels, "root": 1, "tags": self.n_tags},
            "c": leaf,
            "d": leaf,
        }
        return _blocks({f"{x}.{name}": size for x in parts for name, size in parts[x].items()})

    @cached_property
    def output_blocks(self) -> dict[str, slice]:
        """The rows of outputs of "moves", "labels", "tags" and "items"."""
        sizes = {"moves": len(MOVES), "labels": self.n_labels}
        return _blocks({**sizes, "tags": self.n_tags, "items": self.n_items})

    def item(self, tag: int, word: str, initial: bool = False, before: int = 0) -> tuple[int, int]:
        """Return the item and the signature of a word under a tag, each -1 if it has none.

        tag: its id. initial: whether the word is the first of its sentence. before: how often it
        occurs earlier in the sentence.
        """
        item = self.items_of(word, before).get(tag, -1)
        if item >= 0:
            return item, -1
        return int(self.unknown[tag]), self.signature(word, initial)

    def signature(self, word: str, initial: bool = False) -> int:
        """Return the signature of a word as an unknown word; -1 if there are no signatures."""
        return self._cached_signature(word, initial) if self.signatures else -1

    def candidates(self, words: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the possible items of the words of a sentence, and their signatures.

        The items, int32 (n, T), are -1 for impossible tags. The signatures, int32 (n), belong to
        the items of unknown words.
        """
        items = np.tile(self.unknown, (len(words), 1))
        seen: Counter[str] = Counter()
        for i, word in enumerate(words):
            for tag, item in self.items_of(word, seen[word]).items():
                items[i, tag] = item
            seen[word] += 1
        signatures = [self.signature(word, not i) for i, word in enumerate(words)]
        return items, np.array(signatures, dtype=np.int32)

    def items_of(self, word: str, before: int) -> dict[int, int]:
        """Return the items of a word or of its known spelling, by tag."""
        found = self._known_items.get(word)
        if found is None and self.normalization:
            form = self._cached_form(word, before & 1)
            found = None if form is None else self._known_items[form]
        return found or {}

    @cached_property
    def known(self) -> frozenset[str]:
        """The words that are known with some tag."""
        return frozenset(self._known_items)

    @cached_property
    def _known_items(self) -> dict[str, dict[int, int]]:
        items: dict[str, dict[int, int]] = {}
        numbers = count()
        for tag, words in enumerate(self.words):
            for word, item in zip(words, numbers, strict=False):
                if word:
                    items.setdefault(word, {})[tag] = item
        return items

    # A registry searches all entry points on each lookup, so functions are kept.
    @cached_property
    def _cached_signature(self) -> Callable[[str, bool], int]:
        function: Signature = SIGNATURES.get(self.signature_kind)
        index = {name: i for i, name in enumerate(self.signatures)}

        @lru_cache(_CACHE_SIZE)
        def signature(word: str, initial: bool) -> int:
            names = function(word, initial, self.known)
            return next((index[name] for name in names if name in index), 0)

        return signature

    @cached_property
    def _cached_form(self) -> Callable[[str, int], str | None]:
        normalize: Normalization = NORMALIZATIONS.get(self.normalization)

        @lru_cache(_CACHE_SIZE)
        def form(word: str, before: int) -> str | None:
            return next((form for form in normalize(word, before) if form in self.known), None)

        return form

    def to_fields(self) -> dict[str, Any]:
        """Return the fields to be stored."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    # Without caches: a registered function may not be picklable.
    __getstate__ = to_fields

    @classmethod
    def from_fields(cls, stored: dict[str, Any]) -> DerivationSymbols:
        """Return the symbols of `to_fields`, in which tuples may have become lists.

        Raises StructlearnError or TypeError if a field is invalid.
        """
        nested = {name: tuple(map(tuple, stored[name])) for name in ("chains", "words")}
        flat = {name: tuple(stored[name]) for name in ("tags", "signatures")}
        return cls(**stored | nested | flat)

    def _problem(self) -> str | None:
        texts = (self.signature_kind, self.normalization, self.root, self.top_label)
        groups = (texts, self.tags, self.signatures, *self.chains, *self.words)
        if not all(isinstance(text, str) for group in groups for text in group):
            return "a name that is no string"
        # "" sorts before all other words.
        for names in (self.tags, self.chains, *self.words):
            if list(names) != sorted(set(names)):  # type: ignore[type-var] # strings or tuples
                return "tags, labels or words of a tag that are not ascending"
        if not all(self.chains):
            return "a label without a name"
        if any((label,) not in self.chain_index for chain in self.chains for label in chain):
            return "a chain of labels of which one is no label by itself"
        if len(self.words) != len(self.tags) or not all(self.words):
            return "a tag without words"
        if self.chains and (self.unknown < 0).any():
            return "a tag without an item for unknown words"
        if len(set(self.signatures)) != len(self.signatures) or self.signatures[:1] not in (
            (),
            ("",),
        ):
            return 'signatures that are not different, or of which the first is not ""'
        if self.signatures and not self.signature_kind:
            return "signatures without the function that finds them"
        if type(self.max_projects) is not int or self.max_projects < bool(self.chains):
            return f"{self.max_projects} projects in a row"
        return None


def _blocks(sizes: dict[str, int]) -> dict[str, slice]:
    ends = np.cumsum([0, *sizes.values()]).tolist()
    return {name: slice(ends[i], ends[i + 1]) for i, name in enumerate(sizes)}


def segments(chain: tuple[str, ...], index: dict[tuple[str, ...], int]) -> tuple[int, ...] | None:
    """Return the longest known labels of a unary chain, the lowest first, or None.

    chain: labels of phrases, topmost first. index: see `DerivationSymbols.chain_index`.
    """
    labels = []
    end = len(chain)
    while end:
        begin = next((i for i in range(end) if chain[i:end] in index), end)
        if begin == end:
            return None
        labels.append(index[chain[begin:end]])
        end = begin
    return tuple(labels)
