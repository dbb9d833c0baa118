"""Head rules, which select the head child of a phrase (Magerman 1995; Collins 1999, "Head-Driven
Statistical Models for Natural Language Parsing", appendix A).

The table for English is that of the Berkeley parser. The default for other languages and treebanks
is the leftmost child.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from ..kernels.index import number_keys
from .tree import Tree

Step = tuple[str, str]


def by_priority(direction: str, labels: str) -> list[Step]:
    """Return the rule that looks for each of `labels`, separated by blanks, in order of priority.

    Without labels it takes the outermost child.
    """
    return [(direction, label) for label in labels.split()] or [(direction, "")]


class HeadRules:
    """A table of head rules.

    rules: for each phrase label, its steps in order, at least one. A step (direction, labels) takes
        the first child with one of `labels` (separated by blanks), from the "left" or the "right".
        If no step finds a child, the head is the first child in the direction of the last step.
    default: the direction for phrases without a rule.
    coordinators: labels of conjunctions. If a conjunction directly precedes the head, the head is
        the child before the conjunction (Collins 1999).
    punctuation: tags of words that are ignored if a phrase has any other child.

    Function tags must be stripped (`spacy_structlearn.trees.normalize`). Raises StructlearnError if
    a direction is unknown or a rule has no steps.
    """

    def __init__(
        self,
        rules: Mapping[str, Iterable[Step]] | None = None,
        *,
        default: str = "left",
        coordinators: Collection[str] = (),
        punctuation: Collection[str] = (),
    ):
        self.coordinators = frozenset(coordinators)
        self.punctuation = frozenset(punctuation)
        self._default = _ranked(None, [(default, "")])
        self._ranked = {label: _ranked(label, steps) for label, steps in (rules or {}).items()}

    def head_child(self, node: Tree) -> int:
        """Return the index of the head child of a phrase. Raises StructlearnError for a leaf."""
        if node.word is not None:
            raise StructlearnError("SL111", tag=node.label, word=node.word)
        children = node.children
        if len(children) == 1:
            return 0
        kept: Sequence[int] = [
            index
            for index, child in enumerate(children)
            if child.word is None or child.label not in self.punctuation
        ] or range(len(children))
        labels = [children[index].label for index in kept]
        ranks, directions = self._ranked.get(node.label, self._default)
        head, best = 0, len(directions)
        for position, label in enumerate(labels):
            rank = ranks.get(label, len(directions) - 1)
            if rank < best or (rank == best and directions[rank] == "right"):
                head, best = position, rank
        if head >= 2 and labels[head - 1] in self.coordinators:
            head -= 2
        return kept[head]

    def head_children(
        self,
        names: Sequence[str],
        labels: NDArray[np.integer],
        sizes: NDArray[np.integer],
        children: NDArray[np.integer],
        is_word: NDArray[np.bool_],
    ) -> NDArray[np.int64]:
        """Return the index of the head child of each of many phrases, int64 (n).

        names: the labels. labels (n): of the phrases, as numbers in `names`. sizes (n): how many
            children each has, at least one. children (m): the labels of all children, one phrase
            after another. is_word (m): whether a child is a tag with its word.
        """
        n, phrases = len(labels), np.repeat(np.arange(len(labels)), sizes)
        if not n:
            return np.zeros(0, dtype=np.int64)
        firsts, own = number_keys(children.astype(np.uint64))
        below = [names[child] for child in children[firsts].tolist()]
        light = is_word & np.array([name in self.punctuation for name in below])[own]
        has_others = np.zeros(n, dtype=bool)
        has_others[phrases[~light]] = True
        kept = np.flatnonzero(~light | ~has_others[phrases])
        own, phrases = own[kept], phrases[kept]
        keys = labels[phrases].astype(np.int64) * len(below) + own
        firsts, pairs = number_keys(keys.astype(np.uint64))
        named = zip(labels[phrases[firsts]].tolist(), own[firsts].tolist(), strict=True)
        steps, last = np.array([self.rank(names[label], below[child]) for label, child in named]).T
        place = np.arange(len(kept))
        order = steps[pairs] * len(kept) + np.where(last[pairs], len(kept) - 1 - place, place)
        begins = np.flatnonzero(np.diff(phrases, prepend=-1))
        best = np.minimum.reduceat(order, begins)
        heads = np.flatnonzero(order == np.repeat(best, np.diff(begins, append=len(kept))))
        coordinated = np.array([name in self.coordinators for name in below])[own[heads - 1]]
        heads -= np.where(coordinated & (heads - begins >= 2), 2, 0)
        return kept[heads] - (np.cumsum(sizes) - sizes)

    def rank(self, label: str, child: str) -> tuple[int, bool]:
        """Return the step in which a child with this label can be the head of a phrase, from 0,
        and whether the last such child is chosen, not the first.
        """
        ranks, directions = self._ranked.get(label, self._default)
        step = ranks.get(child, len(directions) - 1)
        return step, directions[step] == "right"


def _ranked(label: str | None, steps: Iterable[Step]) -> tuple[dict[str, int], list[str]]:
    """Return the step of each child label, and the direction of each step.

    A final step, for all other children, has the direction of the one before it.
    """
    ranks: dict[str, int] = {}
    directions: list[str] = []
    for rank, (direction, wanted) in enumerate(steps):
        directions.append(direction)
        for child in wanted.split():
            ranks.setdefault(child, rank)
    if not directions or not {"left", "right"}.issuperset(directions):
        raise StructlearnError("SL112", label=label, directions=directions)
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
    "ADJP": by_priority(
        "left", "NNS QP NN $ ADVP JJ VBN VBG ADJP JJR NP JJS DT FW RBR RBS SBAR RB"
    ),
    "ADVP": by_priority("right", "RB RBR RBS FW ADVP TO CD JJR JJ IN NP JJS NN"),
    "CONJP": by_priority("right", "CC RB IN"),
    "FRAG": by_priority("right", ""),
    "INTJ": by_priority("left", ""),
    "LST": by_priority("right", "LS :"),
    "NAC": by_priority("left", "NN NNS NNP NNPS NP NAC EX $ CD QP PRP VBG JJ JJS JJR ADJP FW"),
    "NML": _NOUN_PHRASE,
    "NP": _NOUN_PHRASE,
    "NX": by_priority("left", ""),
    "PP": by_priority("right", "IN TO VBG VBN RP FW"),
    "PRN": by_priority("left", ""),
    "PRT": by_priority("right", "RP"),
    "QP": by_priority("left", "$ IN NNS NN JJ RB DT CD NCD QP JJR JJS"),
    "RRC": by_priority("right", "VP NP ADVP ADJP PP"),
    "S": by_priority("left", "TO IN VP S SBAR ADJP UCP NP"),
    "SBAR": by_priority("left", "WHNP WHPP WHADVP WHADJP IN DT S SQ SINV SBAR FRAG"),
    "SBARQ": by_priority("left", "SQ S SINV SBARQ FRAG"),
    "SINV": by_priority("left", "VBZ VBD VBP VB MD VP S SINV ADJP NP"),
    "SQ": by_priority("left", "VBZ VBD VBP VB MD VP SQ"),
    "UCP": by_priority("right", ""),
    "VP": by_priority("left", "TO VBD VBN MD VBZ VB VBG VBP AUX AUXG VP ADJP NN NNS NP"),
    "WHADJP": by_priority("left", "CC WRB JJ ADJP"),
    "WHADVP": by_priority("right", "CC WRB"),
    "WHNP": by_priority("left", "WDT WP WP$ WHADJP WHPP WHNP"),
    "WHPP": by_priority("right", "IN TO FW"),
    "X": by_priority("right", ""),
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
