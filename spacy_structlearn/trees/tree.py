"""The constituency tree that every room of the package shares: a plain value, as the Penn Treebank
(Marcus, Santorini & Marcinkiewicz 1993) draws it. A leaf is a preterminal, the part-of-speech tag
and its word in one node; every other node is a phrase with a label and children. No method
recurses, so a tree may be thousands of nodes deep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from ..errors import StructlearnError

T = TypeVar("T")
Span = tuple[str, int, int]


def escape(word: str) -> str:
    """Write the round brackets of a word as -LRB- and -RRB-, so that it can stand in a tree."""
    if "(" in word or ")" in word:
        return word.replace("(", "-LRB-").replace(")", "-RRB-")
    return word


class Tree:
    """A constituency tree; treat it as immutable (it is compared and hashed by value).

    label: the phrase label, or for a leaf its part-of-speech tag. children: the subtrees, a tuple,
    empty for a leaf. word: the token of a leaf with real brackets ("(", never "-LRB-"); None for a
    phrase. Raises SL108 unless there is exactly one of a word and at least one child.

    `str(tree)` is the one-line bracket form; `spacy_structlearn.trees.brackets` reads it back.
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
        """A preterminal: one token under its part-of-speech tag."""
        return cls(tag, (), word)

    @classmethod
    def from_spans(cls, words: Sequence[str], tags: Sequence[str], spans: Iterable[Span]) -> Tree:
        """The tree whose brackets are `spans`, the inverse of `words`, `tags` and `spans()`.

        words, tags: one a token. spans: (label, start, end) of each phrase in pre-order, ends
        exclusive, in tokens; a unary chain is a repeated span, topmost first. Raises SL109 where
        the brackets are not one tree over all tokens.
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
        """Whether this is a preterminal, a tag over a word."""
        return self.word is not None

    @property
    def height(self) -> int:
        """Nodes on the longest way down, this one and the leaf included: 1 for a leaf."""
        return self.fold(lambda leaf: 1, lambda node, heights: 1 + max(heights))

    def subtrees(self) -> Iterator[Tree]:
        """This node and all below it in pre-order (parents first, left to right)."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    def fold(self, leaf: Callable[[Tree], T], phrase: Callable[[Tree, list[T]], T]) -> T:
        """Compute a value bottom-up without recursion.

        leaf(node) gives the value of a preterminal, phrase(node, values) that of a phrase from the
        values of its children, left to right. Returns the value of this node.
        """
        # Backwards through the pre-order every node comes after all nodes below it, and the values
        # of its children lie on top of the stack, the first child uppermost.
        values: list[T] = []
        for node in reversed(list(self.subtrees())):
            if node.word is not None:
                values.append(leaf(node))
            else:
                values.append(phrase(node, [values.pop() for _ in node.children]))
        return values[0]

    def leaves(self) -> list[Tree]:
        """The preterminals, left to right."""
        return [node for node in self.subtrees() if node.word is not None]

    def words(self) -> list[str]:
        """The tokens, left to right."""
        return [node.word for node in self.subtrees() if node.word is not None]

    def tags(self) -> list[str]:
        """The part-of-speech tag of each token."""
        return [node.label for node in self.subtrees() if node.word is not None]

    def spans(self) -> list[Span]:
        """(label, start, end) of each phrase in pre-order, the root included, leaves left out.

        start and end count tokens, end is exclusive. A unary chain gives repeated spans, topmost
        first.
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

    def pretty(self, width: int = 80, indent: int = 2) -> str:
        """The bracket form over several lines: a phrase that fits in `width` columns is one line,
        any other puts each child on a line of its own, `indent` columns further in.
        """
        sizes = self._sizes()
        position = 0  # of the node in pre-order
        lines: list[str] = []
        stack: list[tuple[Tree | None, int]] = [(self, 0)]
        while stack:
            node, column = stack.pop()
            if node is None:
                lines[-1] += ")"
                continue
            size, count = sizes[position]
            if size + column <= width or node.word is not None:
                lines.append(" " * column + str(node))
                position += count
            else:
                lines.append(f"{' ' * column}({node.label}")
                position += 1
                stack.append((None, column))
                stack.extend((child, column + indent) for child in reversed(node.children))
        return "\n".join(lines)

    def _sizes(self) -> list[tuple[int, int]]:
        """(length of the one-line form, number of nodes) of every node, in pre-order."""
        backwards: list[tuple[int, int]] = []

        def leaf(node: Tree) -> tuple[int, int]:
            backwards.append((len(node.label) + len(escape(node.word or "")) + 3, 1))
            return backwards[-1]

        def phrase(node: Tree, below: list[tuple[int, int]]) -> tuple[int, int]:
            size = len(node.label) + 2 + sum(size + 1 for size, _ in below)
            backwards.append((size, 1 + sum(count for _, count in below)))
            return backwards[-1]

        self.fold(leaf, phrase)
        return backwards[::-1]

    def _flat(self) -> list[tuple[str, str | None, int]]:
        """(label, word, number of children) in pre-order: the tree as one flat value."""
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
        # Equal pre-orders with equal numbers of children are equal trees, and the shorter of two
        # such sequences cannot be a prefix of the longer, so zip need not look at the lengths.
        return all(
            a is b or (a.label, a.word, len(a.children)) == (b.label, b.word, len(b.children))
            for a, b in zip(self.subtrees(), other.subtrees(), strict=False)
        )

    def __hash__(self) -> int:
        return hash(tuple(self._flat()))

    def __copy__(self) -> Tree:
        return self

    def __deepcopy__(self, memo: object) -> Tree:
        return self

    def __reduce__(self):
        # The default protocol would recurse once for each level of the tree.
        return _from_flat, (self._flat(),)


def _from_flat(flat: list[tuple[str, str | None, int]]) -> Tree:
    """The tree of a `_flat` list."""
    nodes: list[Tree] = []
    for label, word, arity in reversed(flat):
        nodes.append(Tree(label, [nodes.pop() for _ in range(arity)], word))
    return nodes[0]
