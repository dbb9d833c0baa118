"""Left-corner derivations of trees, and the symbols they consist of.

Titov & Henderson (2007), section 3, after Henderson (2003): a tree is built by four moves on a
stack of nodes, which holds only ROOT at first. S is a stack, X and Y are nodes, w is a word with
its tag:

    shift(w)      S -> S, w         w is the next leaf
    project(Y)    S, X -> S, Y      Y becomes the parent of X, its leftmost child
    attach        S, Y, X -> S, Y   X becomes the next child of Y
    modify        S, Y, X -> S, Y   X becomes a modifier of Y

A derivation ends when a node is attached to ROOT. Modifiers undo Chomsky adjunction: a phrase X
with two children whose first child is also a phrase X, as in (X (X a b) c), becomes one phrase X
with the modifier c. Frequent unary chains are collapsed into one label. A move consists of
elementary decisions: the type of the move, then the label of the new phrase, or the tag of the
word and then the word among the words of its tag. All rare words of a tag share one item.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import cumulative, ranges
from ..errors import StructlearnError
from ..trees.tree import Tree
from ..words.signatures import SIGNATURES, Signature
from .settings import ISBNSettings
from .symbols import ATTACH, MODIFY, PROJECT, ROOT, SHIFT, DerivationSymbols, segments

# Weight, in tokens, of the distribution of signatures over all tags in that of each tag.
_BACKGROUND = 1.0
# With hundreds of signatures, a network memorises the rare words of its few trees.
_MAX_SIGNATURES = 64


@dataclass(eq=False)
class LeftCornerDerivations:
    """The derivations of many sentences.

    offsets, word_offsets: int64 (N + 1), the beginning of the moves and words of each sentence.
    moves: int8 (n_moves).
    labels: int32 (n_moves), of projects; -1 for other moves.
    tags, items, signatures: int32 (n_words). The signature of a known word is -1.
    """

    offsets: NDArray[np.int64]
    word_offsets: NDArray[np.int64]
    moves: NDArray[np.int8]
    labels: NDArray[np.int32]
    tags: NDArray[np.int32]
    items: NDArray[np.int32]
    signatures: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All arrays in the order of the fields, as arguments of the kernels."""
        return tuple(getattr(self, field.name) for field in fields(self))

    def subset(self, indices: NDArray[np.integer] | Sequence[int]) -> LeftCornerDerivations:
        """Return the derivations with these numbers, in this order."""
        chosen = np.asarray(indices, dtype=np.int64)
        groups = (self.offsets, self.arrays[2:4]), (self.word_offsets, self.arrays[4:])
        ends: list[NDArray[Any]] = []
        parts: list[NDArray[Any]] = []
        for offsets, arrays in groups:
            sizes = np.diff(offsets)[chosen]
            rows = ranges(offsets[chosen], sizes)
            ends.append(cumulative(sizes))
            parts += [array[rows] for array in arrays]
        return LeftCornerDerivations(*ends, *parts)


class _Walk(NamedTuple):
    """Trees as moves, before unary chains are split into labels.

    codes: int64, -1 - move for other moves than projects; 2 i for the first project of chain i, and
        2 i + 1 for its other projects, if there are any.
    """

    codes: NDArray[np.int64]
    offsets: NDArray[np.int64]  # (N + 1), of the codes
    word_offsets: NDArray[np.int64]  # (N + 1), of words and tags
    words: list[str]
    tags: list[str]
    chains: list[tuple[str, ...]]  # topmost label first
    tops: Counter[str]  # of the labels right below the root

    def moves(
        self, index: dict[tuple[str, ...], int]
    ) -> tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.int32]]:
        """Return offsets, moves and labels. The label of a chain that has none is -1.

        index: see `DerivationSymbols.chain_index`.
        """
        labels_of = [segments(chain, index) or (-1,) for chain in self.chains]
        lengths = np.array([n for x in labels_of for n in (1, len(x) - 1)], dtype=np.int64)
        flat = np.array([label for x in labels_of for label in x], dtype=np.int32)
        is_chain = self.codes >= 0
        chains = self.codes[is_chain]
        sizes = np.ones(len(self.codes), dtype=np.int64)
        sizes[is_chain] = lengths[chains]
        codes = np.repeat(self.codes, sizes)
        moves = np.where(codes >= 0, PROJECT, -1 - codes).astype(np.int8)
        labels = np.full(len(codes), -1, dtype=np.int32)
        labels[codes >= 0] = flat[ranges(cumulative(lengths)[chains], lengths[chains])]
        return cumulative(sizes)[self.offsets], moves, labels


def _walk(trees: Iterable[Tree], root: str) -> _Walk:
    shift, attach, modify = -1 - SHIFT, -1 - ATTACH, -1 - MODIFY
    codes: list[int] = []
    words: list[str] = []
    tags: list[str] = []
    chains: dict[tuple[str, ...], int] = {}
    tops: Counter[str] = Counter()
    offsets, word_offsets = [0], [0]
    for tree in trees:
        top = tree
        if tree.label == root and len(tree.children) == 1:
            top = tree.children[0]
        # A root with several children is kept as a phrase below the root.
        if top.word is None and (top is not tree or top.label != root):
            tops[top.label] += 1
        work: list[Tree | int] = [attach, top]
        while work:
            item = work.pop()
            if isinstance(item, int):
                codes.append(item)
                continue
            if item.word is not None:
                codes.append(shift)
                words.append(item.word)
                tags.append(item.label)
                continue
            labels = []
            while True:
                label, children = item.label, item.children
                modifiers = []  # the last one first
                while len(children) == 2 and children[0].label == label:
                    if children[0].word is not None:
                        break
                    modifiers.append(children[1])
                    children = children[0].children
                labels.append(label)
                if modifiers or len(children) != 1 or children[0].word is not None:
                    break
                item = children[0]
            chain = chains.setdefault(tuple(labels), len(chains))
            if len(labels) > 1:
                work.append(2 * chain + 1)
            for child in modifiers:
                work += (modify, child)
            for child in children[:0:-1]:
                work += (attach, child)
            work += (2 * chain, children[0])
        offsets.append(len(codes))
        word_offsets.append(len(words))
    return _Walk(
        np.array(codes, dtype=np.int64),
        np.array(offsets, dtype=np.int64),
        np.array(word_offsets, dtype=np.int64),
        words,
        tags,
        list(chains),
        tops,
    )


def symbols_of(
    trees: Iterable[Tree], settings: ISBNSettings, root: str = ROOT
) -> tuple[DerivationSymbols, NDArray[np.float64]]:
    """Return the symbols of normalised trees, and log P(signature | tag, unknown word).

    Words seen less than `min_word_count` times with a tag are unknown, and so are the rarest words
    of a tag until it has `min_unknown` unknown tokens (Henderson 2004). The most frequent pairs of
    labels in unary chains are collapsed while they occur `min_chain_count` times. The signatures
    are the 64 most frequent ones that `min_word_count` unknown tokens have.

    root: the label above the trees.

    The log probabilities, float64 (T, S), are relative frequencies, smoothed by one token with the
    distribution over all tags. Raises StructlearnError if there are no trees.
    """
    walk = _walk(trees, root)
    if len(walk.offsets) == 1:
        raise StructlearnError("SL407")
    tags = tuple(sorted(set(walk.tags)))
    # Without a label the only moves would be shifts.
    chains = _collapsed(walk, settings.min_chain_count) or ((root,),)
    _, moves, _ = walk.moves({chain: i for i, chain in enumerate(chains)})
    symbols = DerivationSymbols(
        tags,
        chains,
        _vocabulary(walk, tags, settings.min_word_count, settings.min_unknown),
        normalization=settings.normalization,
        root=root,
        max_projects=max(int(_runs(moves).max()), 1),
        top_label=min(walk.tops, key=lambda label: (-walk.tops[label], label), default=root),
    )
    if not settings.signature:
        return symbols, np.zeros((len(tags), 0))
    return _with_signatures(symbols, walk, settings.signature, settings.min_word_count)


def _collapsed(walk: _Walk, min_count: int) -> tuple[tuple[str, ...], ...]:
    """Return the labels: single ones, and frequent chains."""
    begun = walk.codes[(walk.codes >= 0) & (walk.codes % 2 == 0)] // 2
    counts = np.bincount(begun, minlength=len(walk.chains)).tolist()
    labels: set[tuple[str, ...]] = {(label,) for chain in walk.chains for label in chain}
    branching = [x for x in zip(walk.chains, counts, strict=True) if len(x[0]) > 1]
    while min_count:
        names = sorted(labels)
        index = {chain: i for i, chain in enumerate(names)}
        pairs: Counter[tuple[str, ...]] = Counter()
        for chain, count in branching:
            for lower, upper in pairwise(segments(chain, index) or ()):
                pairs[names[upper] + names[lower]] += count
        best = min(pairs, key=lambda pair: (-pairs[pair], pair), default=())
        if pairs[best] < min_count:
            break
        labels.add(best)
    return tuple(sorted(labels))


def _runs(moves: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return the number of consecutive projects that end with each move."""
    places = np.arange(1, len(moves) + 1)
    return places - np.maximum.accumulate(np.where(moves == PROJECT, 0, places))


def _vocabulary(
    walk: _Walk, tags: tuple[str, ...], min_count: int, min_unknown: int
) -> tuple[tuple[str, ...], ...]:
    counts: dict[str, list[tuple[int, str]]] = {tag: [] for tag in tags}
    for (tag, word), count in Counter(zip(walk.tags, walk.words, strict=True)).items():
        counts[tag].append((count, word))
    words = []
    for tag in tags:
        frequent = []
        n_unknown = 0
        for count, word in sorted(counts[tag]):
            # The empty word stands for the item of unknown words.
            if count < min_count or n_unknown < min_unknown or not word:
                n_unknown += count
            else:
                frequent.append(word)
        words.append(("", *sorted(frequent)))
    return tuple(words)


def _with_signatures(
    symbols: DerivationSymbols, walk: _Walk, kind: str, min_count: int
) -> tuple[DerivationSymbols, NDArray[np.float64]]:
    function: Signature = SIGNATURES.get(kind)
    tags, items, _ = _leaves(symbols, walk)
    rare = np.flatnonzero(items == symbols.unknown[tags])
    starts = set(walk.word_offsets.tolist())
    tokens = [(walk.words[i], i in starts) for i in rare.tolist()]
    types = {key: function(*key, symbols.known) for key in dict.fromkeys(tokens)}
    counts: Counter[str] = Counter()
    for key, count in Counter(tokens).items():
        for name in dict.fromkeys(types[key]):
            counts[name] += count
    frequent = sorted((-count, name) for name, count in counts.items() if count >= min_count)
    frequent_names = sorted([name for _, name in frequent if name][:_MAX_SIGNATURES])
    with_signatures = replace(symbols, signatures=("", *frequent_names), signature_kind=kind)
    ids = np.array([with_signatures.signature(*key) for key in tokens], dtype=np.int64)
    table = np.zeros((symbols.n_tags, with_signatures.n_signatures))
    np.add.at(table, (tags[rare], ids), 1.0)
    background = table.sum(axis=0) + 1.0
    table += _BACKGROUND * background / background.sum()
    return with_signatures, np.log(table / table.sum(axis=1, keepdims=True))


def _leaves(
    symbols: DerivationSymbols, walk: _Walk
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return tags, items and signatures of all words; unknown tags and their items are -1."""
    tags = [symbols.tag_index.get(tag, -1) for tag in walk.tags]
    leaves = []
    for begin, end in pairwise(walk.word_offsets.tolist()):
        seen: Counter[str] = Counter()
        for i, word in enumerate(walk.words[begin:end], begin):
            known = tags[i] >= 0
            leaves.append(
                symbols.item(tags[i], word, i == begin, seen[word]) if known else (-1, -1)
            )
            seen[word] += 1
    items, signatures = np.array(leaves, dtype=np.int32).reshape(-1, 2).T.copy()
    return np.array(tags, dtype=np.int32), items, signatures


def encode(
    trees: Iterable[Tree], symbols: DerivationSymbols
) -> tuple[LeftCornerDerivations, NDArray[np.int64]]:
    """Return the derivations of normalised trees, and the numbers of these trees, int64.

    A unary chain without a label is projected by its parts. Trees with an unknown tag or label, or
    with too many consecutive projects, are left out.
    """
    walk = _walk(trees, symbols.root)
    offsets, moves, labels = walk.moves(symbols.chain_index)
    leaves = _leaves(symbols, walk)
    every = LeftCornerDerivations(offsets, walk.word_offsets, moves, labels, *leaves)
    wrong = ((moves == PROJECT) & (labels < 0)) | (_runs(moves) > symbols.max_projects)
    bad = np.zeros(len(every), dtype=bool)
    for ends, mask in ((offsets, wrong), (walk.word_offsets, every.items < 0)):
        bad[np.searchsorted(ends, np.flatnonzero(mask), side="right") - 1] = True
    numbers = np.flatnonzero(~bad)
    return (every if len(numbers) == len(every) else every.subset(numbers)), numbers
