"""Constituency trees in the style of the Penn Treebank (Marcus, Santorini & Marcinkiewicz 1993).

A leaf is a preterminal, a part-of-speech tag with its word. Every other node is a phrase with a
label and children. No method is recursive, so trees may be thousands of nodes deep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from ..errors import StructlearnError

T = TypeVar("T")
Span = tuple[str, int, int]


def escape(word: str) -> str:
    """Replace the round brackets of a word by -LRB- and -RRB-."""
    if "(" in word or ")" in word:
        return word.replace("(", "-LRB-").replace(")", "-RRB-")
    return word


class Tree:
    """A constituency tree, compared and hashed by value; treat it as immutable.

    label: the label of a phrase, or the part-of-speech tag of a leaf.
    children: the subtrees, a tuple, empty for a leaf.
    word: the token of a leaf, with real brackets ("(", not "-LRB-"); None for a phrase.

    `str(tree)` is the one-line bracket form, which `spacy_structlearn.trees.brackets` reads. Raises
    StructlearnError unless there is either a word or at least one child.
    """

    __slots__ = ("children", "label", "word")

    label: str
    children: tuple[Tree, ...]
    word: str | None

    def __init__(self, label: str, children: Iterable[Tree] = (), word: str | None = None):
        self.label = label
        self.children = children = tuple(children)
        self.word = word
        if (word is None) is not bool(children):
            raise StructlearnError("SL108", label=label)

    @classmethod
    def leaf(cls, tag: str, word: str) -> Tree:
        """Return a leaf: a token under its part-of-speech tag."""
        return cls(tag, (), word)

    @classmethod
    def from_spans(cls, words: Sequence[str], tags: Sequence[str], spans: Iterable[Span]) -> Tree:
        """Return the tree with these brackets, the inverse of `words`, `tags` and `spans()`.

        words, tags: one for each token.
        spans: (label, start, end) of each phrase in pre-order, in tokens, end exclusive. A unary
            chain is a repeated span, topmost first.

        Raises StructlearnError if the brackets are not a tree over all tokens.
        """
        if len(words) != len(tags):
            raise StructlearnError("SL109", problem=f"{len(words)} words but {len(tags)} tags")
        spans = list(spans)
        leaves = [cls(tag, (), word) for tag, word in zip(tags, words, strict=True)]
        if not spans and len(leaves) == 1:
            return leaves[0]
        if not spans or spans[0][1:] != (0, len(leaves)):
            problem = f"the first bracket does not cover all {len(leaves)} tokens"
            raise StructlearnError("SL109", problem=problem)
        # The open phrases, outermost first, under a sentinel that receives the finished tree.
        root: list[Tree] = []
        stack: list[tuple[str, int, list[Tree]]] = [("", len(leaves), root)]
        position = 0  # tokens already placed

        def close() -> None:
            nonlocal position
            label, end, children = stack.pop()
            children.extend(leaves[position:end])
            position = end
            stack[-1][2].append(cls(label, children))

        for label, start, end in spans:
            while len(stack) > 1 and stack[-1][1] <= start:
                close()
            if not position <= start < end <= stack[-1][1]:
                problem = f"({label}, {start}, {end}) is out of order, empty or crosses another"
                raise StructlearnError("SL109", problem=problem)
            stack[-1][2].extend(leaves[position:start])
            position = start
            stack.append((label, end, []))
        while len(stack) > 1:
            close()
        return root[0]

    @property
    def is_leaf(self) -> bool:
        """Whether this is a leaf, a tag over a word."""
        return self.word is not None

    @property
    def height(self) -> int:
        """Number of nodes on the longest path to a leaf; 1 for a leaf."""
        return self.fold(lambda leaf: 1, lambda node, heights: 1 + max(heights))

    def subtrees(self) -> Iterator[Tree]:
        """Yield this node and all nodes below it in pre-order."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    def fold(self, leaf: Callable[[Tree], T], phrase: Callable[[Tree, list[T]], T]) -> T:
        """Compute a value bottom-up without recursion.

        leaf(node) returns the value of a leaf, and phrase(node, values) that of a phrase with the
        values of its children, left to right. Returns the value of this node.
        """
        # In reversed pre-order a node comes after all nodes below it. The values of its children
        # are on top of the stack, the first child uppermost.
        values: list[T] = []
        for node in reversed(list(self.subtrees())):
            if node.word is not None:
                values.append(leaf(node))
            else:
                values.append(phrase(node, [values.pop() for _ in node.children]))
        return values[0]

    def leaves(self) -> list[Tree]:
        """Return the leaves, left to right."""
        return [node for node in self.subtrees() if node.word is not None]

    def words(self) -> list[str]:
        """Return the tokens, left to right."""
        return [node.word for node in self.subtrees() if node.word is not None]

    def tags(self) -> list[str]:
        """Return the part-of-speech tag of each token."""
        return [node.label for node in self.subtrees() if node.word is not None]

    def spans(self) -> list[Span]:
        """Return (label, start, end) of each phrase in pre-order, including the root.

        Start and end are tokens, end exclusive. A unary chain is a repeated span, topmost first.
        """
        spans: list[Span] = []
        opened: list[tuple[int, int]] = []  # index in spans and start of each open phrase
        stack: list[Tree | None] = [self]
        position = 0
        while stack:
            node = stack.pop()
            if node is None:
                index, start = opened.pop()
                spans[index] = (spans[index][0], start, position)
            elif node.word is not None:
                position += 1
            else:
                opened.append((len(spans), position))
                spans.append((node.label, position, position))
                stack.append(None)
                stack.extend(reversed(node.children))
        return spans

    def binarize(self, direction: str = "right") -> Tree:
        """Return the tree with at most two children in each phrase, by new phrases below.

        Their label is that of the phrase after "@". direction: "right": (X a b c) becomes
        (X a (@X b c)); "left": (X (@X a b) c).
        Raises StructlearnError for another direction.
        """
        pair = {"right": slice(-2, None), "left": slice(2)}.get(direction)
        if pair is None:
            raise StructlearnError("SL401", value=direction, known="right, left")

        def phrase(node: Tree, children: list[Tree]) -> Tree:
            while len(children) > 2:
                children[pair] = [Tree(f"@{node.label}", children[pair])]
            return Tree(node.label, children)

        return self.fold(lambda leaf: leaf, phrase)

    def pretty(self, width: int = 80, indent: int = 2) -> str:
        """Return the bracket form on several lines.

        A phrase that fits into `width` columns is one line. Otherwise each child begins a new line,
        indented by `indent` columns.
        """
        lines: list[str] = []
        stack: list[tuple[Tree | None, int]] = [(self, 0)]
        while stack:
            node, column = stack.pop()
            if node is None:
                lines[-1] += ")"
            elif node.word is not None or node._fits(width - column):
                lines.append(" " * column + str(node))
            else:
                lines.append(f"{' ' * column}({node.label}")
                stack.append((None, column))
                stack.extend((child, column + indent) for child in reversed(node.children))
        return "\n".join(lines)

    def _fits(self, width: int) -> bool:
        """Whether the one-line form has at most `width` characters."""
        size = -1
        for node in self.subtrees():
            size += len(node.label) + (3 if node.word is None else 4 + len(escape(node.word)))
            if size > width:
                return False
        return True

    def _flat(self) -> list[tuple[str, str | None, int]]:
        """Return the tree as a list of (label, word, number of children) in pre-order."""
        return [(node.label, node.word, len(node.children)) for node in self.subtrees()]

    def __str__(self) -> str:
        parts: list[str] = []
        stack: list[Tree | None] = [self]
        while stack:
            node = stack.pop()
            if node is None:
                parts.append(")")
            elif node.word is not None:
                parts.append(f" ({node.label} {escape(node.word)})")
            else:
                parts.append(f" ({node.label}")
                stack.append(None)
                stack.extend(reversed(node.children))
        return "".join(parts)[1:]

    def __repr__(self) -> str:
        return f"Tree({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        return self is other or self._flat() == other._flat()

    def __hash__(self) -> int:
        return hash(tuple(self._flat()))

    def __copy__(self, memo: object = None) -> Tree:
        return self

    __deepcopy__ = __copy__

    def __reduce__(self) -> tuple[object, ...]:
        # The default protocol is recursive.
        return _from_flat, (self._flat(),)


def _from_flat(flat: list[tuple[str, str | None, int]]) -> Tree:
    """Return the tree of a `_flat` list."""
    nodes: list[Tree] = []
    for label, word, arity in reversed(flat):
        nodes.append(Tree(label, [nodes.pop() for _ in range(arity)], word))
    return nodes[0]


# --- places ---------------------------------------------------------------------------------------
class PlacedNode:
    """A node of a tree with its place.

    parent: None at the top. rank: number of sisters to the left. start, end: in words.
    """

    __slots__ = ("children", "end", "label", "parent", "rank", "start", "tree", "word")

    def __init__(self, tree: Tree, parent: PlacedNode | None, rank: int):
        self.tree, self.label, self.word, self.parent = tree, tree.label, tree.word, parent
        self.rank, self.start, self.end = rank, 0, 0
        self.children: list[PlacedNode] = []

    @property
    def bracket(self) -> Span:
        """The label, start and end."""
        return self.label, self.start, self.end

    def around(self) -> tuple[list[Tree], list[Tree]]:
        """Return the sisters to the left and to the right."""
        sisters = () if self.parent is None else self.parent.tree.children
        return list(sisters[: self.rank]), list(sisters[self.rank + 1 :])


def placed_nodes(tree: Tree) -> list[PlacedNode]:
    """Return the nodes of a tree in pre-order."""
    nodes: list[PlacedNode] = []
    stack = [PlacedNode(tree, None, 0)]
    n_words = 0
    while stack:
        node = stack.pop()
        nodes.append(node)
        node.start = n_words
        if node.word is not None:
            n_words += 1
            node.end = n_words
        else:
            below = enumerate(node.tree.children)
            node.children = [PlacedNode(child, node, rank) for rank, child in below]
            stack += node.children[::-1]
    for node in reversed(nodes):
        if node.children:
            node.end = node.children[-1].end
    return nodes


def trees_of(data: Iterable[Any], code: str) -> list[Tree]:
    """The trees of training data. Raises StructlearnError with a code for anything else."""
    trees: list[Tree] = []
    for item in data:
        trees += item if isinstance(item, Iterable) and not isinstance(item, Tree) else [item]
    if wrong := [type(tree).__name__ for tree in trees if not isinstance(tree, Tree)]:
        raise StructlearnError(code, problem=f"something of the type {wrong[0]}")
    return trees
