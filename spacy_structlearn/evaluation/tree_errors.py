"""Errors of a predicted tree by kind (Kummerfeld, Hall, Curran & Klein 2012, sections 3 and 4).

The predicted tree is changed into the gold tree step by step. A step moves siblings to another
parent, or changes the label of a phrase, removes it or adds it. The step that repairs the most
brackets comes first; of equal ones, a move. So one wrong attachment is one error, although several
brackets around it are wrong. What was moved, and next to what, gives the kind of an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import compress
from typing import NamedTuple

from ..trees.tree import Span, Tree
from .evalb import COLLINS, EvalbParameters, kept_as_in_gold, kept_words

COORDINATION, NP_INTERNAL, DIFFERENT = "coordination", "NP-internal", "different label"
ONE_WORD, UNARY, MISSING, EXTRA = "one-word phrase", "unary", "missing phrase", "extra phrase"
# By what is moved.
PP, CLAUSE, MODIFIER = "PP attachment", "clause attachment", "modifier attachment"
VERB, NOUN, OTHER = "VP attachment", "NP attachment", "other attachment"
KINDS = (
    *(PP, CLAUSE, MODIFIER, NOUN, VERB, OTHER),
    *(COORDINATION, NP_INTERNAL, DIFFERENT, UNARY, ONE_WORD, MISSING, EXTRA),
)
UNEXPLAINED = frozenset({OTHER, MISSING, EXTRA})
"""The kinds of which only the step is known, and no cause."""

_CONJUNCTIONS = frozenset({"CC", "CONJP"})
_NOMINAL = frozenset({"NP", "NX", "NML", "NAC", "QP", "WHNP"})
_ATTACHMENTS = {
    name: kind
    for kind, names in {
        PP: "PP WHPP IN TO",
        CLAUSE: "S SBAR SINV SQ SBARQ RRC FRAG PRN",
        MODIFIER: "ADVP ADJP WHADVP WHADJP PRT RP INTJ UH RB RBR RBS WRB JJ JJR JJS",
        VERB: "VP MD VB VBD VBG VBN VBP VBZ",
        NOUN: "NP NX NML NAC QP WHNP NN NNS NNP NNPS PRP CD DT EX",
    }.items()
    for name in names.split()
}


class TreeError(NamedTuple):
    """An error of a tree.

    kind: one of `KINDS`. step: "move", "relabel", "remove" or "add".
    label: of the first phrase or tag that is moved, or of the phrase that is predicted or missing.
    start, end: its words in the gold tree, end exclusive.
    repaired: the number of missing and extra brackets less after the step.
    """

    kind: str
    step: str
    label: str
    start: int
    end: int
    repaired: int


def tree_errors(
    gold: Tree, predicted: Tree, parameters: EvalbParameters = COLLINS
) -> list[TreeError]:
    """Return the errors of a tree in the order of their repair.

    Words that EVALB deletes in the gold tree are left out of both trees, and the labels of phrases
    are those that it compares. The sum of `repaired` is the number of missing and extra brackets.
    Raises StructlearnError if the words of the trees differ.
    """
    leaves = gold.leaves()
    kept = kept_words(leaves, parameters)
    others = kept_as_in_gold(leaves, predicted.leaves(), parameters, 1)
    places = list(compress(range(len(leaves)), kept))
    wanted = Counter(_Node.of(gold, kept, parameters).brackets())
    tree = _Node.of(predicted, others, parameters)
    errors = []
    while step := _best(tree, wanted):
        label = step.label if step.name == "add" else step.nodes[0].label
        start, end = places[step.nodes[0].start], places[step.nodes[-1].end - 1] + 1
        errors.append(TreeError(_kind(step), step.name, label, start, end, step.repaired))
        step.apply()
        tree.place()
    return errors


class _Node:
    """A node of a tree that can be changed. A leaf has no children; the root does not count."""

    __slots__ = ("children", "end", "label", "parent", "start")

    def __init__(self, label: str, children: Iterable[_Node] = ()):
        self.label, self.children = label, list(children)
        self.parent: _Node | None = None
        self.start = self.end = 0

    @classmethod
    def of(cls, tree: Tree, kept: Iterable[bool], parameters: EvalbParameters) -> _Node:
        """Convert what EVALB compares of a tree."""
        # A fold reads the leaves from right to left.
        remains = list(kept)

        def phrase(node: Tree, parts: list[list[_Node]]) -> list[_Node]:
            children = [child for part in parts for child in part]
            label = parameters.bracket_label(node.label)
            return children if label is None or not children else [cls(label, children)]

        def leaf(node: Tree) -> list[_Node]:
            return [cls(node.label)] * remains.pop()

        children: list[_Node] = tree.fold(leaf, phrase)
        root = cls("", children)
        root.place()
        return root

    def nodes(self) -> list[_Node]:
        """Return this node and all nodes below it in pre-order."""
        found, stack = [], [self]
        while stack:
            found.append(node := stack.pop())
            stack.extend(reversed(node.children))
        return found

    def place(self) -> None:
        """Set the parents and the words of all nodes."""
        nodes, end = self.nodes(), 0
        for node in nodes:
            node.start = end
            end += not node.children
            for child in node.children:
                child.parent = node
        for node in reversed(nodes):
            node.end = node.children[-1].end if node.children else node.start + 1

    def phrases(self) -> list[_Node]:
        return [node for node in self.nodes() if node.children]

    def brackets(self) -> list[Span]:
        return [node.bracket for node in self.phrases()[1:]]

    @property
    def bracket(self) -> Span:
        return self.label, self.start, self.end

    def grown(self, start: int, end: int) -> Span:
        return self.label, min(self.start, start), max(self.end, end)

    def shrunk(self, start: int, end: int) -> Span:
        return (self.label, *((end, self.end) if self.start == start else (self.start, start)))

    def replace(self, old: list[_Node], new: list[_Node]) -> None:
        """Replace neighbouring children."""
        first = self.children.index(old[0])
        self.children[first : first + len(old)] = new

    def neighbours(self, nodes: list[_Node]) -> list[_Node]:
        """Return the children before and after some neighbouring children."""
        first, last = self.children.index(nodes[0]), self.children.index(nodes[-1])
        return self.children[max(first - 1, 0) : first] + self.children[last + 1 : last + 2]


class _Place(NamedTuple):
    """A place for nodes that are moved: next to the target, inside of it, or beside it in a new
    phrase over both. shrunk, grown: the phrases that lose and get these words.
    """

    target: _Node
    shrunk: tuple[_Node, ...] = ()
    grown: tuple[_Node, ...] = ()
    how: str = "next"


class _Step(NamedTuple):
    """A change of a tree.

    nodes: the children of `parent` that are moved or get a new phrase, or the phrase alone.
    collapsed: whether the parent becomes its only other child, which has the same label.
    """

    name: str
    repaired: int
    nodes: list[_Node]
    parent: _Node
    label: str = ""
    place: _Place | None = None
    collapsed: bool = False

    @property
    def home(self) -> _Node:
        """The parent after the step, or the phrase that the new parent is like."""
        if self.place is None or self.place.how == "next":
            return self.parent if self.place is None else self.place.target.parent or self.parent
        return self.place.target

    def apply(self) -> None:
        """Change the tree."""
        if self.name == "relabel":
            self.nodes[0].label = self.label
        elif self.name == "remove":
            self.parent.replace(self.nodes, self.nodes[0].children)
        elif self.place is None:
            self.parent.replace(self.nodes, [_Node(self.label, self.nodes)])
        else:
            home, target = self.home, self.place.target
            is_after = target.start < self.nodes[0].start
            self.parent.replace(self.nodes, [])
            if self.place.how == "inside":
                at = len(home.children) if is_after else 0
                home.children[at:at] = self.nodes
            else:
                both = [target, *self.nodes] if is_after else [*self.nodes, target]
                new = both if self.place.how == "next" else [_Node(target.label, both)]
                (target.parent or home).replace([target], new)
            if self.collapsed and self.parent.parent is not None:
                self.parent.parent.replace([self.parent], self.parent.children)


def _best(tree: _Node, gold: Counter[Span]) -> _Step | None:
    """Return the step that repairs the most brackets, of equal ones the first; None at the end."""
    balance = Counter(tree.brackets())
    balance.subtract(gold)
    if not any(balance.values()):
        return None
    steps = [*_moves(tree, balance), *_edits(tree, balance)]
    return max(steps, key=lambda step: step.repaired)


# In what follows, balance has the brackets: positive numbers of extra and negative ones of missing.
def _edits(tree: _Node, balance: Counter[Span]) -> Iterator[_Step]:
    """Yield the steps that change one phrase."""
    missing = [span for span, n in balance.items() if n < 0]
    for node in tree.phrases():
        if node.parent and balance[node.bracket] > 0:
            for label, *span in missing:
                if span == [node.start, node.end]:
                    yield _Step("relabel", 2, [node], node.parent, label)
            yield _Step("remove", 1, [node], node.parent)
        for label, start, end in missing:
            inside = [n for n in node.children if start <= n.start and n.end <= end]
            if inside and (inside[0].start, inside[-1].end) == (start, end):
                yield _Step("add", 1, inside, node, label)


def _moves(tree: _Node, balance: Counter[Span]) -> Iterator[_Step]:
    """Yield the moves of siblings that repair brackets. Right brackets stay as they are."""
    for parent in tree.phrases():
        n = len(parent.children)
        for first in range(n):
            for last in range(first + 1, n + (first > 0)):
                for place in _places(parent, first, last, balance):
                    step = _move(parent, first, last, place, balance)
                    if step.repaired > 0:
                        yield step


def _places(parent: _Node, first: int, last: int, balance: Counter[Span]) -> Iterator[_Place]:
    """Yield the places for some children of a node at which the words keep their order."""
    n = len(parent.children)
    if first > 0:
        yield from _edge(parent.children[first - 1], -1, (), balance)
    if last < n:
        yield from _edge(parent.children[last], 0, (), balance)
    for is_edge, step, side in ((first == 0, -1, -1), (last == n, 1, 0)):
        node: _Node = parent
        shrunk: tuple[_Node, ...] = (parent,)
        while is_edge and node.parent and balance[node.bracket] > 0:
            yield _Place(node, shrunk)
            siblings = node.parent.children
            beside = siblings.index(node) + step
            if 0 <= beside < len(siblings):
                yield from _edge(siblings[beside], side, shrunk, balance)
                break
            node = node.parent
            shrunk = (*shrunk, node)


def _edge(
    node: _Node, side: int, shrunk: tuple[_Node, ...], balance: Counter[Span]
) -> Iterator[_Place]:
    """Yield the places at the left (0) or right (-1) edge of a node."""
    grown: tuple[_Node, ...] = ()
    while node.children:
        yield _Place(node, shrunk, grown, "beside")
        if balance[node.bracket] <= 0:
            return
        grown = (*grown, node)
        yield _Place(node, shrunk, grown, "inside")
        node = node.children[side]


def _move(parent: _Node, first: int, last: int, place: _Place, balance: Counter[Span]) -> _Step:
    """Make a step of a move, and count what it repairs, less what it breaks."""
    nodes, left = parent.children[first:last], parent.children[:first] + parent.children[last:]
    words = nodes[0].start, nodes[-1].end
    # There is no NP over nothing but an NP in a treebank.
    like = [parent.label] if parent.parent and left[0].children else []
    is_new = place.how == "beside" and place.target is left[0]
    collapsed = [node.label for node in left] == like and not is_new
    changed = Counter(node.grown(*words) for node in place.grown)
    changed.update(n.shrunk(*words) for n in place.shrunk if n is not parent or not collapsed)
    if place.how == "beside":
        changed[place.target.grown(*words)] += 1
    changed.subtract(node.bracket for node in (*place.shrunk, *place.grown))
    if collapsed and not place.shrunk:
        changed[parent.bracket] -= 1
    pairs = ((balance[span], balance[span] + n) for span, n in changed.items())
    repaired = sum(abs(before) - abs(after) for before, after in pairs)
    return _Step("move", repaired, nodes, parent, "", place, collapsed)


def _kind(step: _Step) -> str:
    """Classify a step."""
    if step.name == "relabel":
        return DIFFERENT
    nodes = step.nodes[0].children if step.name == "remove" else step.nodes
    if step.name != "move" and len(nodes) == 1:
        return UNARY if nodes[0].end - nodes[0].start > 1 else ONE_WORD
    labels = [node.label for node in nodes]
    around = step.parent.neighbours(step.nodes)
    if step.place and step.place.how == "inside":
        around += [step.home.children[-1 if step.home.start < nodes[0].start else 0]]
    elif step.place and step.place.how == "next":
        beside, target = step.home.neighbours([step.place.target]), step.place.target
        is_after = target.start < nodes[0].start
        around += [node for node in beside if (node.start > target.start) == is_after]
    if not _CONJUNCTIONS.isdisjoint([*labels, *(node.label for node in around)]):
        return COORDINATION
    label = step.label or step.nodes[0].label
    nominal = all(not node.children or node.label in _NOMINAL for node in nodes)
    over = {step.parent.label, step.home.label}
    if nominal and over <= _NOMINAL and (step.place or label in _NOMINAL | {"ADJP"}):
        return NP_INTERNAL
    if step.place is None and (label not in labels or len(labels) < 2):
        return EXTRA if step.name == "remove" else MISSING
    # A phrase over a phrase of its kind: what else is in it was attached there, or was not.
    if step.place is None:
        labels.remove(label)
    return next((_ATTACHMENTS[name] for name in labels if name in _ATTACHMENTS), OTHER)
