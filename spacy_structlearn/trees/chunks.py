"""Base noun phrases of a tree by the convention of the CoNLL-2000 chunking task (Tjong Kim Sang &
Buchholz 2000, "Introduction to the CoNLL-2000 Shared Task: Chunking"). A chunk extends from the
beginning of a noun phrase to its head. It contains the determiners and modifiers before the head,
but no phrase after it. Chunks do not overlap. The rules for trees without traces and function tags,
in the style of the Penn Treebank or of OntoNotes, are:

1. The head of a noun phrase is its last child that is a noun, pronoun, number or noun-like phrase
   and contains no other noun phrase or clause. Words directly after it belong to the chunk
   ("nothing else", "8:15 p.m. sharp"), phrases do not.
2. Without such a child, the phrase is a chunk to its last word or modifier phrase ("the poor",
   "this", "all", "the firm 's [own]"), unless it contains a noun phrase or clause other than a
   possessive.
3. Any other noun phrase (coordination or apposition of noun phrases, a noun phrase with a
   prepositional phrase or clause) is not a chunk, but the noun phrases in it are. Coordinated nouns
   without noun phrases of their own ("tea and sugar") are one chunk by rule 1.
4. The chunk begins after a child before the head that contains a noun phrase or clause. This child
   and all phrases after the head are searched for further chunks.
5. A possessive marker begins a chunk: [the lawyer] ['s old office]. If nothing follows, it is a
   chunk alone. An opening bracket or a bullet at the beginning is left out, a quote is kept.
6. OntoNotes uses NML for a part of a noun phrase. Such a part is never a chunk. If it contains a
   noun phrase or clause, its children count as children of the noun phrase. Outside of noun
   phrases, as in (ADJP (NML ten years) old), it is a noun phrase.
7. OntoNotes splits words at hyphens: a modifier joined by hyphens ("an in - house lawyer") counts
   as a word.
"""

from __future__ import annotations

from .labels import labels_of
from .tree import PlacedNode, Tree, placed_nodes

NOUN_PHRASES = labels_of("NP WHNP")  # phrases that become chunks
PARTS = labels_of("NML NX")  # parts of a noun phrase (rule 6)
HEADS = PARTS | labels_of("NN NNS NNP NNPS PRP EX WP WDT CD $ QP NAC")  # rule 1
MODIFIERS = labels_of("ADJP UCP INTJ X")  # phrases that can end a chunk without a noun (rule 2)
# What other phrases contain if they do not belong to a chunk as they are.
BREAKING = NOUN_PHRASES | labels_of("S SBAR SBARQ SINV SQ FRAG RRC PP WHPP")
POSSESSIVES = labels_of("POS")
SEPARATORS = labels_of(", : . `` '' -LRB- -RRB- SYM NFP CC POS")  # tags that never end a chunk
OPENERS = labels_of("-LRB- NFP")  # tags that never begin a chunk
HYPHENS = labels_of("HYPH")  # tags of hyphens that are separate tokens (rule 7)


def base_noun_phrases(tree: Tree) -> list[tuple[int, int]]:
    """Return the base noun phrases of a tree without traces and function tags, left to right.

    Each is (start, end) in tokens, end exclusive. The rules are at the top of this module.
    """
    nodes = placed_nodes(tree)
    complex_nodes = _complex_nodes(nodes)
    chunks: list[tuple[int, int]] = []
    # Phrases to search, the leftmost on top: the node, and whether it is in a noun phrase.
    stack = [(nodes[0], False)]
    while stack:
        node, inside = stack.pop()
        if node.word is not None:
            if node.label in POSSESSIVES:
                chunks.append((node.start, node.end))
            continue
        nominal = node.label in NOUN_PHRASES or node.label in PARTS
        children = _children(node, complex_nodes) if nominal else node.children
        first = stop = 0
        if node.label in NOUN_PHRASES or (nominal and not inside):
            stop = _end_of_chunk(children, complex_nodes)
            first = _begin_of_chunk(children[:stop], complex_nodes)
            if first < stop:
                begin = children[first].start
                if first and _possessive(children[first - 1]):
                    begin -= 1
                chunks.append((begin, children[stop - 1].end))
        stack.extend((child, nominal) for child in children[:first] + children[stop:])
    return _without_overlap(chunks)


def _complex_nodes(nodes: list[PlacedNode]) -> set[PlacedNode]:
    """Return the nodes of a tree that are or contain a noun phrase or clause."""
    complex_nodes: set[PlacedNode] = set()
    joined: set[PlacedNode] = set()  # phrases that are one word split at its hyphens
    for node in reversed(nodes):
        children = node.children
        if node.word is not None:
            continue
        if node.label not in NOUN_PHRASES and (
            any(child.label in HYPHENS for child in children)
            or (len(children) == 1 and children[0] in joined)
        ):
            joined.add(node)
        elif node.label in BREAKING or not complex_nodes.isdisjoint(children):
            complex_nodes.add(node)
    return complex_nodes


def _children(node: PlacedNode, complex_nodes: set[PlacedNode]) -> list[PlacedNode]:
    """Return the children, where complex parts are replaced by their children (rule 6)."""
    children: list[PlacedNode] = []
    stack = list(reversed(node.children))
    while stack:
        child = stack.pop()
        if child in complex_nodes and child.label in PARTS:
            stack.extend(reversed(child.children))
        else:
            children.append(child)
    return children


def _end_of_chunk(children: list[PlacedNode], complex_nodes: set[PlacedNode]) -> int:
    """Return the number of children up to the head and the words after it; 0 without a head
    (rules 1 to 3).
    """
    for i in reversed(range(len(children))):
        if children[i].label in HEADS and children[i] not in complex_nodes:
            stop = i + 1
            while stop < len(children) and _is_word(children[stop]):
                stop += 1
            return stop
    if all(child not in complex_nodes or _possessive(child) for child in children):
        for i in reversed(range(len(children))):
            if children[i] in complex_nodes:
                return 0
            if _is_word(children[i]) or children[i].label in MODIFIERS:
                return i + 1
    return 0


def _begin_of_chunk(children: list[PlacedNode], complex_nodes: set[PlacedNode]) -> int:
    """Return the index after the last complex child or after opening brackets (rules 4 and 5)."""
    for i in reversed(range(len(children))):
        if children[i] in complex_nodes:
            return i + 1
    first = 0
    while first < len(children) and children[first].label in OPENERS:
        first += 1
    return first


def _is_word(node: PlacedNode) -> bool:
    return node.word is not None and node.label not in SEPARATORS


def _possessive(node: PlacedNode) -> bool:
    """Whether the phrase ends in a possessive marker."""
    while node.children:
        node = node.children[-1]
    return node.label in POSSESSIVES


def _without_overlap(chunks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort chunks, and drop single possessive markers that begin a chunk."""
    apart: list[tuple[int, int]] = []
    for start, end in sorted(chunks, key=lambda chunk: (chunk[0], -chunk[1])):
        if not apart or start >= apart[-1][1]:
            apart.append((start, end))
    return apart
