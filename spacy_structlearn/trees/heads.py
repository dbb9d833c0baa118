"""Head rules, which select the head child of a phrase (Magerman 1995; Collins 1999, "Head-Driven
Statistical Models for Natural Language Parsing", appendix A).

The table for English is that of the Berkeley parser. The default for other languages and treebanks
is the leftmost child.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..arrays import cumulative, ranges
from ..errors import StructlearnError
from ..kernels.index import mix_pairs, number_keys
from .tree import Tree

Step = tuple[str, str]


def _by_priority(direction: str, labels: str) -> list[Step]:
    """Return the rule that looks for each of `labels`, separated by blanks, in order of priority.

    Without labels it takes the outermost child.
    """
    return [(direction, label) for label in labels.split()] or [(direction, "")]


class HeadRules:
    """A table of head rules.

    rules: for each phrase label, its steps in order, at least one. A step (direction, labels) takes
        the first child with one of `labels` (separated by blanks), from the "left" or the "right".
        If no step finds a child, the head is the first child in the direction of the last step.
        The head of a phrase without a rule is its leftmost child.
    coordinators: labels of conjunctions. If a conjunction directly precedes the head, the head is
        the child before the conjunction (Collins 1999).
    punctuation: tags of words that are ignored if a phrase has any other child.

    Function tags must be stripped (`spacy_structlearn.trees.normalize`).
    """

    def __init__(
        self,
        rules: Mapping[str, Iterable[Step]] | None = None,
        *,
        coordinators: Collection[str] = (),
        punctuation: Collection[str] = (),
    ):
        self.coordinators = frozenset(coordinators)
        self.punctuation = frozenset(punctuation)
        self._default = _ranked([("left", "")])
        self._ranked = {label: _ranked(steps) for label, steps in (rules or {}).items()}

    def head_child(self, node: Tree) -> int:
        """Return the index of the head child of a phrase. Raises StructlearnError for a leaf."""
        if node.word is not None:
            raise StructlearnError("SL111", tag=node.label, word=node.word)
        children = [(child.label, child.word is not None) for child in node.children]
        return self._head(node.label, children) if len(children) > 1 else 0

    def head_children(
        self,
        names: Sequence[str],
        labels: NDArray[np.integer],
        sizes: NDArray[np.integer],
        children: NDArray[np.integer],
        is_word: NDArray[np.bool_],
    ) -> NDArray[np.int64]:
        """Return the index of the head child of each of n phrases.

        names: the labels. labels (n): of the phrases, as numbers in `names`. sizes (n): how many
            children each has. children (m): the labels of all children, one phrase after another.
            is_word (m): whether a child is a tag with its word.
        """
        kinds, ends = (2 * children + is_word).astype(np.uint64), cumulative(sizes)
        if not len(labels):
            return ends[:0]
        ranks = ranges(np.zeros_like(sizes), sizes).astype(np.uint64)
        keys = np.add.reduceat(mix_pairs(kinds, ranks), ends[:-1])
        # Equal phrases have equal hashes.
        firsts, numbers = number_keys(mix_pairs(keys, labels.astype(np.uint64)))
        heads = []
        for first in firsts.tolist():
            below = kinds[ends[first] : ends[first + 1]].tolist()
            parts = [(names[kind // 2], kind % 2 == 1) for kind in below]
            heads.append(self._head(names[labels[first]], parts))
        return np.array(heads, dtype=np.int64)[numbers]

    def _head(self, label: str, children: Sequence[tuple[str, bool]]) -> int:
        """Return the index of the head among the children, (label, whether it is a word)."""
        kept: Sequence[int] = [
            index
            for index, (name, is_word) in enumerate(children)
            if not is_word or name not in self.punctuation
        ] or range(len(children))
        labels = [children[index][0] for index in kept]
        ranks, directions = self._ranked.get(label, self._default)
        head, best = 0, len(directions)
        for position, name in enumerate(labels):
            rank = ranks.get(name, len(directions) - 1)
            if rank < best or (rank == best and directions[rank] == "right"):
                head, best = position, rank
        if head >= 2 and labels[head - 1] in self.coordinators:
            head -= 2
        return kept[head]


def _ranked(steps: Iterable[Step]) -> tuple[dict[str, int], list[str]]:
    """Return the step of each child label, and the direction of each step.

    A final step, for all other children, has the direction of the one before it.
    """
    ranks: dict[str, int] = {}
    directions: list[str] = []
    for rank, (direction, wanted) in enumerate(steps):
        directions.append(direction)
        for child in wanted.split():
            ranks.setdefault(child, rank)
    return ranks, [*directions, directions[-1]]


# Collins' first rule, that the head of a noun phrase ending in POS is POS, follows from the first
# step. NML, which OntoNotes and later treebanks use for NX or flat structures, is an addition.
_NOUN_PHRASE: list[Step] = [
    ("right", "NN NNP NNPS NNS NX NML POS JJR"),
    ("left", "NP"),
    ("right", "$ ADJP PRN"),
    ("right", "CD"),
    ("right", "JJ JJS RB QP"),
]

_COLLINS: dict[str, list[Step]] = {
    "ADJP": _by_priority(
        "left", "NNS QP NN $ ADVP JJ VBN VBG ADJP JJR NP JJS DT FW RBR RBS SBAR RB"
    ),
    "ADVP": _by_priority("right", "RB RBR RBS FW ADVP TO CD JJR JJ IN NP JJS NN"),
    "CONJP": _by_priority("right", "CC RB IN"),
    "FRAG": _by_priority("right", ""),
    "INTJ": _by_priority("left", ""),
    "LST": _by_priority("right", "LS :"),
    "NAC": _by_priority("left", "NN NNS NNP NNPS NP NAC EX $ CD QP PRP VBG JJ JJS JJR ADJP FW"),
    "NML": _NOUN_PHRASE,
    "NP": _NOUN_PHRASE,
    "NX": _by_priority("left", ""),
    "PP": _by_priority("right", "IN TO VBG VBN RP FW"),
    "PRN": _by_priority("left", ""),
    "PRT": _by_priority("right", "RP"),
    "QP": _by_priority("left", "$ IN NNS NN JJ RB DT CD NCD QP JJR JJS"),
    "RRC": _by_priority("right", "VP NP ADVP ADJP PP"),
    "S": _by_priority("left", "TO IN VP S SBAR ADJP UCP NP"),
    "SBAR": _by_priority("left", "WHNP WHPP WHADVP WHADJP IN DT S SQ SINV SBAR FRAG"),
    "SBARQ": _by_priority("left", "SQ S SINV SBARQ FRAG"),
    "SINV": _by_priority("left", "VBZ VBD VBP VB MD VP S SINV ADJP NP"),
    "SQ": _by_priority("left", "VBZ VBD VBP VB MD VP SQ"),
    "UCP": _by_priority("right", ""),
    "VP": _by_priority("left", "TO VBD VBN MD VBZ VB VBG VBP AUX AUXG VP ADJP NN NNS NP"),
    "WHADJP": _by_priority("left", "CC WRB JJ ADJP"),
    "WHADVP": _by_priority("right", "CC WRB"),
    "WHNP": _by_priority("left", "WDT WP WP$ WHADJP WHPP WHNP"),
    "WHPP": _by_priority("right", "IN TO FW"),
    "X": _by_priority("right", ""),
}

COLLINS = HeadRules(
    _COLLINS,
    coordinators=["CC"],
    # -NONE- is the tag of traces, HYPH and NFP are OntoNotes' tags of hyphens and other marks.
    punctuation=[",", ":", ".", "``", "''", "-LRB-", "-RRB-", "HYPH", "NFP", "-NONE-"],
)
LEFTMOST = HeadRules()


def collins_head_rules() -> HeadRules:
    """Return the head rules of Collins (1999) for the Penn Treebank. A registered function."""
    return COLLINS


def leftmost_head_rules() -> HeadRules:
    """Return rules for which the head of a phrase is its leftmost child. A registered function."""
    return LEFTMOST
