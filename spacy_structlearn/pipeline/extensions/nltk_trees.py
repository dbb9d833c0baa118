"""Trees to and from NLTK (Bird, Klein & Loper 2009), which is imported when it is used.

An `nltk.Tree` of this module is what `nltk.Tree.fromstring` reads: a leaf is a word under a Tree
with its tag. Round brackets in words are -LRB- and -RRB-, as in treebanks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from ...errors import StructlearnError
from ...groups import CONSTITUENTS
from ...learning.settings import check_argument
from ...trees.brackets import unescape
from ...trees.normalize import normalize
from ...trees.tree import Tree, escape
from .brackets import tree, trees
from .span_groups import N_TOKENS, set_spans

if TYPE_CHECKING:
    import nltk


def to_nltk(part: Doc | Span | Tree) -> list[nltk.Tree] | nltk.Tree | None:
    """Convert a constituent or a Tree to an `nltk.Tree`, and a Doc to a list, one per sentence.

    The trees of a Doc have "TOP" above them, like `doc._.trees`. A Span of white space, or without
    a parser, gives None, and a Doc without a parser an empty list.
    Raises StructlearnError if nltk is not installed or the argument is something else, and
    NonConstituentException if the Span is not a constituent.
    """
    if isinstance(part, Doc):
        return [_to_nltk(top) for top in trees(part)]
    found = tree(part) if isinstance(part, Span) else part
    if found is None:
        return None
    if not isinstance(found, Tree):
        raise StructlearnError("SL141", wanted="a Doc, Span or Tree", kind=type(part).__name__)
    return _to_nltk(found)


def _to_nltk(top: Tree) -> nltk.Tree:
    try:
        from nltk import Tree as NLTKTree
    except ImportError as error:
        raise StructlearnError("SL181", package="nltk") from error
    return top.fold(
        lambda leaf: NLTKTree(leaf.label, [escape(leaf.word or "")]),
        lambda node, children: NLTKTree(node.label, children),
    )


def from_nltk(vocab: Vocab, trees: Iterable[nltk.Tree]) -> Doc:
    """Make a Doc of trees, one per sentence, with their tags and constituents.

    The trees are normalised as treebanks are: without traces, function tags and indices. A tree
    without words is left out. For a Doc of one tree, give [tree].
    Raises StructlearnError if a word has no tag.
    """
    check_argument("trees", trees, Iterable)
    normal = [top for top in (normalize(_from_nltk(one)) for one in trees) if top is not None]
    words: list[str] = []
    tags: list[str] = []
    starts: list[bool | int | None] = []
    spans: list[tuple[str, int, int]] = []
    for top in normal:
        first = len(words)
        # Without the root, which is the same in every tree.
        spans += [(label, first + start, first + end) for label, start, end in top.spans()[1:]]
        words += top.words()
        tags += top.tags()
        starts += [index == first for index in range(first, len(words))]
    doc = Doc(vocab, words=words, tags=tags, sent_starts=starts)
    set_spans(doc, CONSTITUENTS, spans)
    doc.spans[CONSTITUENTS].attrs[N_TOKENS] = len(doc)
    return doc


def _from_nltk(top: Any) -> Tree:
    """Convert one tree. Not recursive, like the methods of Tree."""
    nodes, stack = [], [top]
    while stack:
        node = stack.pop()
        if not hasattr(node, "label"):
            raise StructlearnError("SL182", word=node)
        nodes.append(node)
        if not _is_leaf(node):
            stack.extend(reversed(node))
    done: list[Tree] = []
    for node in reversed(nodes):  # the first child is on top of the stack
        if _is_leaf(node):
            done.append(Tree.leaf(str(node.label()), unescape(node[0])))
        else:
            done.append(Tree(str(node.label()), [done.pop() for _ in node]))
    return done[0]


def _is_leaf(node: Any) -> bool:
    return len(node) == 1 and isinstance(node[0], str)
