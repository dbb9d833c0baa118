"""Features of the choices that make a dependency tree of a tree: whether a child is the head child,
whether a child depends on a sister, and the label of an arc.

A feature is a column of 64-bit symbols, as in tables of `classification`, with a row for each
choice. The templates are the conjunctions that were best on held-out documents of the English Web
Treebank. Tags and words of English in them are those of its verbs and copulas; they match nothing
in other treebanks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from ..kernels.index import number_keys
from ..trees.labels import VERBS
from ..trees.nodes import Numbers
from .phrases import PhraseTrees

Column = NDArray[np.uint64]
Columns = dict[str, Column]

HEAD, SISTER, LABEL = "heads", "sisters", "labels"
_NONE, _BEGIN, _END = map(np.uint64, (0, 1, 2))  # symbols of no value and of the edges
STAGES = (HEAD, SISTER, LABEL)
COPULAS = frozenset(
    {"be", "is", "are", "was", "were", "'s", "am", "'re", "'m", "been", "being", "ai", "s"}
)
AUXILIARIES = VERBS | {"MD", "TO"}
CONJUNCTIONS = frozenset({"CC", "CONJP"})
PUNCTUATION = frozenset({",", ".", ":", "``", "''", "-LRB-", "-RRB-", "HYPH", "NFP"})
NOUN_PHRASES = frozenset({"NP", "WHNP", "EX", "PRP"})
CLAUSES = frozenset({"VP", "S", "SQ"})


def _templates(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(template.split("+")) for template in text.split())


TEMPLATES = {
    HEAD: _templates(
        "q p+t q+t q+place q+prev q+next q+prev+next q+next+next2 q+prev+prev2 q+ends q+ends+cc"
        " seq+i p+w q+w q+set g+q q+v+is_v q+be+is_v+set p+t+place p+t+t_prev p+t+t_next"
        " q+low+below q+p_top l+ends+cc l+t+place p+t+w_prev p+t+w_next q+subj+be+is_v"
        " q+t_left+is_v+be q+t_right+is_v+be q+first q+last+prev+next"
        " q+prev+next+t_last+below1+one p+t+suffix seq+i+p_first seq+i+p_last seq+i+suffixes"
        " q+place+det+t_right seq+i+g+left q+below+next seq+i+seq_tags p+w+set q+w_prev+be"
    ),
    SISTER: _templates(
        "r+side r+l+side r+p+l+side r+t+side r+q+side r+q+d r+t+t2+side r+t+t2+d r+w+side r+w+w2"
        " r+w2+l r+l+l2+between r+l+cc+side+hs r+p+l+cc+next+side+hs r+p+l+prev+next+side"
        " r+l+same+side+hs r+q+same+cc r+t+th+t2 r+p+l+k+rank+hs r+l+lh+l2+d r+w+p+t2"
        " r+w+prev+next r+l+seq+i+i2 r+p+w+w2 r+w2+wh+t r+p+l+prev+next+t2+side r+g+q+side"
        " r+p+l+l2+prev2+next2+side r+t+t2+th+w2 r+l+edge2+p+side r+w+p+hs+cc+side"
    ),
    LABEL: _templates(
        "q t+t2+side t+w w+w2 l+w2+side q+lh+is_h q+prev+next t+first q+first q+t_first+t"
        " q+t2 q+t+t2 l+t+side+dist q+cc+is_h q+nps g+q l+below2+side l+below+t2 l+t+aux2+side"
        " l+t2+aux2+side t+aux2+w2 w+p+l w+t2+side w+l2+p l+l2+side+p w+prev+next first+w2"
        " first+w t_first+t_last+l+side q+low+one t+t2+dist+side+p l+first+second l+last"
        " l+aux+t+side q+w2+nps seq+i+i2 t+suffix+t2+side l+suffix2+side t+t_prev+t_next+side"
        " top+q+g+t2 l+w+side+t2 w+t+aux2 q+t_start+w_start q+t+lh+lowh"
    ),
}


def dependency_templates(stage: str) -> list[list[str]]:
    """Get the templates of one stage of `tree_dependencies`, for `LogLinear`.

    stage: "heads", "sisters" or "labels".
    Raises StructlearnError for another name.
    """
    if stage not in TEMPLATES:
        raise StructlearnError("SL039", stage=repr(stage), known=", ".join(STAGES))
    return [list(template) for template in TEMPLATES[stage]]


@lru_cache(maxsize=65536)
def _symbol(text: str | None) -> int:
    if text is None:
        return 0
    return int.from_bytes(
        blake2b(text.encode("utf8", "surrogatepass"), digest_size=8).digest(), "big"
    )


def _symbols(texts: Sequence[str | None]) -> Column:
    return np.array([*map(_symbol, texts)], dtype=np.uint64)


def _joined(*columns: NDArray) -> Column:
    """Return a symbol for the values of each row."""
    key: Any = np.uint64(0x9E3779B97F4A7C15)
    for column in columns:
        key = (key ^ np.asarray(column).astype(np.uint64)) * np.uint64(0xBF58476D1CE4E5B9)
        key ^= key >> np.uint64(29)
    return key


class Choices:
    """The features of the choices in some trees.

    Raises nothing; trees of other treebanks have other labels.
    """

    def __init__(self, phrases: PhraseTrees):
        self.phrases = p = phrases
        names = _symbols(p.names)
        self.tops, self.lows = names[p.tops], names[p.lows]
        texts = [None if text is None else text.lower() for text in p.words.texts]
        self.words = _padded(_symbols(texts)[p.words.codes])
        self.suffixes = _padded(_symbols([t and t[-3:] for t in texts])[p.words.codes])
        self.tags = _padded(_symbols(p.word_tags.texts)[p.word_tags.codes])
        self.is_copula = _padded(np.array([t in COPULAS for t in texts])[p.words.codes])
        self._of_phrases()

    def _is(self, labels: NDArray, wanted: frozenset[str]) -> NDArray[np.bool_]:
        return np.array([name in wanted for name in self.phrases.names])[labels]

    def _of_phrases(self) -> None:
        """Compute what rows of several stages share: of phrases, by the places of children."""
        p = self.phrases
        kids = p.children
        n, m = p.n, len(kids)
        self.place = np.full(n + 1, m)  # in children, m for a root
        self.place[kids] = np.arange(m)
        self.above = above = p.parents[kids]
        self.first, self.size = p.firsts[above], p.sizes[above]
        self.rank = p.ranks[kids].astype(np.int64)
        self.label = _padded(self.tops[kids])
        seq = np.zeros(n, dtype=np.uint64)
        sets = np.zeros(n, dtype=np.uint64)
        np.bitwise_or.at(sets, above, np.uint64(1) << (self.label[:-1] % np.uint64(64)))
        np.add.at(seq, above, _joined(self.label[:-1], self.rank))
        self.sets = sets
        self.seq = np.where(p.sizes <= 6, _joined(seq, self.lows), self.lows)
        below = [self._child(np.arange(n), i) for i in range(4)]
        self.below1, self.below2 = below[0], _joined(*below[:2])
        self.below = _joined(*below)
        is_cc = self._is(p.tops[kids], CONJUNCTIONS)
        self.is_cc = is_cc
        self.first_cc, self.last_cc = np.full(n, 10**6), np.full(n, -1)
        np.minimum.at(self.first_cc, above[is_cc], self.rank[is_cc])
        np.maximum.at(self.last_cc, above[is_cc], self.rank[is_cc])
        self.grand = _padded(self.lows)[p.parents]
        bare = (p.sizes[kids] == 0) & (p.tops[kids] == p.tags[kids])
        verbs = np.flatnonzero(bare & self._is(p.tops[kids], AUXILIARIES))
        self.verb = np.full(n, m)  # the place of the first verb
        self.verb[above[verbs[::-1]]] = verbs[::-1]
        at = p.starts[np.append(kids, 0)[self.verb]]
        self.verb_word = np.where(self.verb < m, self.words[at], _NONE)
        self.is_copular = (self.verb < m) & self.is_copula[at]

    def _child(self, of: Numbers, number: int) -> Column:
        p = self.phrases
        places = np.where(p.sizes[of] > number, p.firsts[of] + number, -1)
        return self.label[places]

    def _near(self, places: Numbers, distance: int, *columns: NDArray) -> list[Column]:
        """Get the values of the sister at a distance to each child; 1 and 2 for the edges.
        columns: by places, padded."""
        rank = self.rank[places] + distance
        inside = (rank >= 0) & (rank < self.size[places])
        near, edge = np.where(inside, places + distance, -1), np.where(rank < 0, _BEGIN, _END)
        return [np.where(inside, column[near], edge) for column in columns]

    def heads(self) -> Columns:
        """Return the features of all children: whether each is the head child."""
        p = self.phrases
        kids, above = p.children, self.above
        places, m = np.arange(len(kids)), len(kids)
        heads = p.rule_heads[kids]
        tags, words = _padded(self.tags[heads]), _padded(self.words[heads])
        label, low = self.label[:-1], self.lows[above]
        keys = _joined(above, label)
        ends = np.zeros(m, dtype=np.int64)
        ends[number_keys(keys)[0]] += 1
        ends[m - 1 - number_keys(keys[::-1].copy())[0]] += 2
        first_cc, last_cc = self.first_cc[above], self.last_cc[above]
        cc = np.where(last_cc < 0, 4, (self.rank < first_cc) + 2 * (self.rank > last_cc))
        begins, lasts = p.starts[kids], p.stops[kids] - 1
        first, last = p.starts[above], p.stops[above] - 1
        size = self.size
        left, right = np.minimum(self.rank, 3), np.minimum(size - 1 - self.rank, 3)
        left_sister = self._left(above)
        seq_tags = np.zeros(p.n, dtype=np.uint64)
        np.add.at(seq_tags, above, _joined(tags[:-1], self.rank))
        det = np.zeros(p.n, dtype=bool)
        det[above[self._is(p.tops[kids], frozenset({"DT", "PRP$"}))]] = True
        after = self.tags[np.minimum(last + 1, len(self.tags) - 1)]
        same_tree = self._same_tree(above, last + 1)
        prev, t_prev, w_prev = self._near(places, -1, self.label, tags, words)
        following, t_next, w_next = self._near(places, 1, self.label, tags, words)
        return {
            "q": _joined(low, label),
            "p": low,
            "p_top": self.tops[above],
            "l": label,
            "g": self.grand[above],
            "t": tags[:-1],
            "w": words[:-1],
            "i": _small(self.rank),
            "place": _small(left * 4 + right),
            "prev": prev,
            "prev2": self._near(places, -2, self.label)[0],
            "next": following,
            "next2": self._near(places, 2, self.label)[0],
            "ends": _small(ends),
            "cc": _small(cc),
            "seq": self.seq[above],
            "seq_tags": seq_tags[above],
            "set": self.sets[above],
            "v": self.verb_word[above],
            "is_v": _small(self.verb[above] == places),
            "be": _small(self.is_copular[above]),
            "t_prev": t_prev,
            "t_next": t_next,
            "w_prev": w_prev,
            "w_next": w_next,
            "low": self.lows[kids],
            "below": self.below[kids],
            "below1": self.below1[kids],
            "subj": self._subjects()[above],
            "t_left": np.where(left_sister < p.n, self.tags[self._start(left_sister)], _BEGIN),
            "left": np.append(self.tops, _BEGIN)[left_sister],
            "t_right": np.where(same_tree, after, _END),
            "first": self.words[begins],
            "last": self.words[lasts],
            "t_last": self.tags[lasts],
            "one": _small(begins == lasts),
            "suffix": self.suffixes[heads],
            "p_first": self.words[first],
            "p_last": self.words[last],
            "suffixes": _joined(self.suffixes[first], self.suffixes[last]),
            "det": _small(det[above]),
        }

    def _same_tree(self, phrases: Numbers, words: Numbers) -> NDArray[np.bool_]:
        p = self.phrases
        roots = p.roots[p.tree_ids[phrases]]
        return (words >= p.starts[roots]) & (words < p.stops[roots])

    def _start(self, phrases: Numbers) -> Numbers:
        return np.append(self.phrases.starts, -1)[phrases]

    def _left(self, phrases: Numbers) -> Numbers:
        """Get the sister to the left of phrases, n for none."""
        p = self.phrases
        places = self.place[phrases] - 1
        return np.where(p.ranks[phrases] > 0, np.append(p.children, p.n)[places], p.n)

    def _subjects(self) -> Column:
        """Get the label of the noun phrase to the left of each phrase or of the clause around it,
        or the tag of its only word."""
        p = self.phrases
        every = np.arange(p.n)
        first = (p.parents >= 0) & (p.ranks == 0) & self._is(p.lows, CLAUSES)
        around = every
        links = np.where(first, p.parents, every)
        while not np.array_equal(further := links[links], links):
            links = further
        around = links
        is_noun = self._is(p.tops[p.children], NOUN_PHRASES)
        last = np.maximum.accumulate(np.where(is_noun, np.arange(len(is_noun)), -1))
        before = np.append(last, -1)[self.place[around] - 1]
        found = (p.parents[around] >= 0) & (before >= p.firsts[p.parents[around]])
        found &= p.ranks[around] > 0
        noun = np.append(p.children, 0)[np.where(found, before, -1)]
        one = p.stops[noun] - p.starts[noun] == 1
        value = np.where(one, self.tags[p.starts[noun]], self.tops[noun])
        return np.where(found, value, _BEGIN)

    def sisters(self, places: Numbers, sisters: Numbers, head: Numbers, words: Numbers) -> Columns:
        """Return the features of pairs: whether each child depends on each sister.

        places, sisters: in `children`. head: the place of the head child of each phrase. words: the
        head word of each phrase.
        """
        p = self.phrases
        kids, above = p.children, self.above[places]
        head = head[above]
        own, other = words[kids[places]], words[kids[sisters]]
        main = words[kids[head]]
        distance = sisters - places
        low, label, label2 = self.lows[above], self.label[places], self.label[sisters]
        prev, further = self._content(places)
        role = (sisters == head) + 2 * (sisters == further) + 4 * (sisters == prev)
        rank, rank2 = self.rank[places], self.rank[sisters]
        cc = (self.last_cc[above] > rank) + 2 * (self.first_cc[above] < rank)
        same = (label2 == self.label[head]) + 2 * (self.tags[other] == self.tags[main])
        side = distance > 0
        return {
            "r": _small(role),
            "side": _small(side),
            "l": label,
            "p": low,
            "q": _joined(low, label, label2),
            "d": _small(np.clip(distance, -4, 4)),
            "t": self.tags[own],
            "t2": self.tags[other],
            "th": self.tags[main],
            "w": self.words[own],
            "w2": self.words[other],
            "wh": self.words[main],
            "l2": label2,
            "lh": self.label[head],
            "between": self._between(places, sisters),
            "cc": _small(cc),
            "hs": _small(head > places),
            "prev": self._near(places, -1, self.label)[0],
            "next": self._near(places, 1, self.label)[0],
            "prev2": self._near(sisters, -1, self.label)[0],
            "next2": self._near(sisters, 1, self.label)[0],
            "same": _small(same),
            "k": _small(np.minimum(self.size[places], 6)),
            "rank": _small(np.minimum(rank, 4)),
            "seq": self.seq[above],
            "i": _small(rank),
            "i2": _small(rank2),
            "g": self.grand[above],
            "edge2": _small((rank2 == 0) + 2 * (rank2 == self.size[places] - 1)),
        }

    def _content(self, places: Numbers) -> tuple[Numbers, Numbers]:
        """Get the places of the nearest sisters before and after children that are no punctuation
        or conjunction, -1 for none."""
        p = self.phrases
        m = len(p.children)
        empty = self.is_cc | self._is(p.tops[p.children], PUNCTUATION)
        every = np.arange(m)
        before = np.maximum.accumulate(np.where(empty, -1, every))
        after = np.minimum.accumulate(np.where(empty, m, every)[::-1])[::-1]
        begin, end = self.first[places], self.first[places] + self.size[places]
        prev = np.append(before, -1)[places - 1]
        further = np.append(after, m)[places + 1]
        prev = np.where((self.rank[places] > 0) & (prev >= begin), prev, -1)
        return prev, np.where(further < end, further, -1)

    def _between(self, places: Numbers, sisters: Numbers) -> Column:
        """Get a symbol for the set of labels of the sisters in between."""
        begin, end = np.minimum(places, sisters) + 1, np.maximum(places, sisters)
        bits = np.uint64(1) << (self.label % np.uint64(64))
        found = np.zeros(len(places), dtype=np.uint64)
        for step in range(int((end - begin).max(initial=0))):
            inside = begin + step < end
            found[inside] |= bits[(begin + step)[inside]]
        return found

    def labels(self, places: Numbers, sisters: Numbers, head: Numbers, words: Numbers) -> Columns:
        """Return the features of the labels of arcs; for the arguments see `sisters`."""
        p = self.phrases
        kids, above = p.children, self.above[places]
        head = head[above]
        child, sister = kids[places], kids[sisters]
        own, other = words[child], words[sister]
        side = other > own
        low, label = self.lows[above], self.label[places]
        begins, lasts = p.starts[child], p.stops[child] - 1
        start = p.starts[above]
        auxiliaries = self._auxiliaries(words)
        noun = self._is(p.tops[kids], frozenset({"NP"}))
        marks = self.is_cc + 2 * self._is(p.tops[kids], PUNCTUATION)
        counts = np.concatenate([[0], np.cumsum(noun)])
        begin, end = np.minimum(places, sisters) + 1, np.maximum(places, sisters)
        within = counts[end] - counts[begin]
        after = counts[self.first[places] + self.size[places]] - counts[places + 1] > 0
        before = counts[places] - counts[self.first[places]] > 0
        cc = np.concatenate([[0], np.cumsum(marks == 1)])
        commas = np.concatenate([[0], np.cumsum(marks >= 2)])
        cc, commas = cc[end] - cc[begin], commas[end] - commas[begin]
        distance = np.searchsorted([1, 2, 3, 4, 7, 12], np.abs(own - other), "right")
        return {
            "q": _joined(low, label, side),
            "p": low,
            "l": label,
            "l2": self.label[sisters],
            "lh": self.label[head],
            "top": self.tops[above],
            "g": self.grand[above],
            "side": _small(side),
            "t": self.tags[own],
            "t2": self.tags[other],
            "w": self.words[own],
            "w2": self.words[other],
            "is_h": _small(sisters == head),
            "prev": self._near(places, -1, self.label)[0],
            "next": self._near(places, 1, self.label)[0],
            "first": self.words[begins],
            "second": np.where(begins < lasts, self.words[begins + 1], _NONE),
            "last": self.words[lasts],
            "t_first": self.tags[begins],
            "t_last": self.tags[lasts],
            "dist": _small(distance),
            "cc": _small(np.minimum(cc, 2) * 4 + np.minimum(commas, 3)),
            "nps": _small(np.minimum(within, 3) * 4 + after * 2 + before),
            "below2": self.below2[child],
            "below": self.below[child],
            "aux": auxiliaries[own],
            "aux2": auxiliaries[other],
            "low": self.lows[child],
            "lowh": self.lows[kids[head]],
            "one": _small(begins == lasts),
            "seq": self.seq[above],
            "i": _small(self.rank[places]),
            "i2": _small(self.rank[sisters]),
            "suffix": self.suffixes[own],
            "suffix2": self.suffixes[other],
            "t_prev": np.where(self._same_tree(above, own - 1), self.tags[own - 1], _NONE),
            "t_next": np.where(self._same_tree(above, own + 1), self.tags[own + 1], _NONE),
            "t_start": self.tags[start],
            "w_start": self.words[start],
        }

    def _auxiliaries(self, words: Numbers) -> Column:
        """Get a symbol for the auxiliaries before each word in its phrases."""
        p = self.phrases
        kids = p.children
        bare = (p.sizes[kids] == 0) & (p.tops[kids] == p.tags[kids])
        governor = words[self.above]
        own = p.starts[kids]
        rows = np.flatnonzero(bare & self._is(p.tops[kids], AUXILIARIES) & (own < governor))
        found = np.zeros(len(p.words) + 1, dtype=np.uint64)
        # Those of a verb: its form for modals, otherwise the word.
        modal = self.tags[own[rows]] == np.uint64(_symbol("MD"))
        value = np.where(modal, np.uint64(7), self.words[own[rows]])
        np.add.at(found, governor[rows], _joined(value))
        return found


def _padded(values: NDArray) -> NDArray:
    """Add a last entry, for -1, which stands for nothing."""
    return np.append(values, np.zeros(1, dtype=values.dtype))


def _small(values: NDArray) -> Column:
    return np.asarray(values, dtype=np.int64).view(np.uint64)
