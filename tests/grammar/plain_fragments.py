"""Features of fragments by recursion over one tree: what is obviously right."""

import re
from collections import Counter
from functools import cache

import numpy as np

from spacy_structlearn.grammar.spans.word_attributes import WordAttributes, hash_of

MASK = 2**64 - 1
BOUNDARY = hash_of("BOUNDARY")
hash_of = cache(hash_of)


class Part:
    """A node of a binarised tree. number: by which who made it knows it."""

    def __init__(self, symbol, children=(), word=None, number=None):
        self.symbol, self.children, self.word, self.number = symbol, children, word, number


class Site:
    """A production in its tree; end is one beyond the last word."""

    def __init__(self, part, relations, start):
        self.part, self.relations, self.start = part, relations, start
        below = [child.symbol for child in part.children]
        self.symbol, (self.left, self.right, *_) = part.symbol, (*below, -1, -1)
        self.split = self.end = None


def tree_of(data, tree):
    """One tree of encoded ones."""

    def part(node):
        children = [int(x[node]) for x in (data.left, data.right) if x[node] >= 0]
        word = None if children else data.forms[data.pairs[data.production[node], 1]]
        return Part(int(data.symbol[node]), [part(x) for x in children], word, node)

    return part(int(data.offsets[tree + 1]) - 1)


def spelt(part):
    """A tree as nested tuples."""
    return (part.symbol, part.word, *map(spelt, part.children))


def sites_of(tree, symbols):
    """All sites of a tree, and its words and tags."""
    n_tags, last = symbols.n_tags, symbols.n_tags + symbols.n_phrases
    found, words, tags = [], [], []

    def visit(part, relations):
        site = Site(part, relations, len(words))
        parent, _ = relations
        for i, child in enumerate(part.children):
            if i:
                site.split = len(words)
            if child.symbol >= last:
                sister = part.children[1 - i].symbol
                visit(child, (parent, 1 + sister))
            else:
                phrase = part.symbol
                if phrase >= last:
                    phrase = symbols.intermediates[phrase - last]
                visit(child, (1 + phrase - n_tags, 0))
        if not part.children:
            words.append(part.word)
            tags.append(part.symbol)
        site.end = len(words)
        found.append(site)

    visit(tree, (0, 0))
    return found, words, tags


def place_of(site, position):
    """The word at a position: -1 for the start of the sentence; None if there is none."""
    return {
        "first": site.start,
        "last": site.end - 1,
        "left": None if site.split is None else site.split - 1,
        "right": site.split,
        "before": site.start - 1,
        "after": site.end,
    }[position]


def mix(key, value):
    state = (key * 0xD1342543DE82EF95 + value + 0x9E3779B97F4A7C15) & MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


@cache
def parsed(text):
    """Part, relations and (attribute, position) of a template."""
    part, *terms = text.split("|")
    looked_at = [re.fullmatch(r"(.*)\[(.*)\]", term) for term in terms if term.endswith("]")]
    return part, terms, [m.groups() for m in looked_at]


@cache
def attribute(name, word, known):
    return int(WordAttributes((name,), known).hashes([[word]])[0, 0])


def key_of(text, site, words, tags, known=frozenset()):
    """The feature of a template at a site, or None."""
    part, terms, looked_at = parsed(text)
    if (part == "TAG") != (not site.part.children):
        return None
    key = mix(0, site.symbol + 2)
    if part == "RULE":
        key = mix(mix(key, site.left + 2), site.right + 2)
    key ^= hash_of(f"fragment:{text}")
    for i, name in enumerate(("PARENT", "SIBLING")):
        if name in terms:
            if name == "SIBLING" and not site.relations[i]:
                return None
            key = mix(key, site.relations[i] + 2)
    inside = [position for _, position in looked_at if position not in ("before", "after")]
    if len(inside) > 1 and len(site.part.children) < 2:
        return None
    for name, position in looked_at:
        place = place_of(site, position)
        if place is None:
            return None
        if name == "TAG":
            key = mix(key, tags[place] + 2)
        elif 0 <= place < len(words):
            key = mix(key, attribute(name, words[place], known))
        else:
            key = mix(key, BOUNDARY)
    return key


def features_of(tree, symbols, templates, known=frozenset()):
    """The features of a tree and how often it has them."""
    sites, words, tags = sites_of(tree, symbols)
    known = frozenset(known)
    keys = (key_of(text, site, words, tags, known) for site in sites for text in templates)
    return Counter(key for key in keys if key is not None)


def tree_of_edges(graphs, x, edges, words):
    """The tree that some edges of a sentence's forest make; edges count through all sentences."""
    first, end = graphs.edge_offsets[x : x + 2].tolist()
    begin, stop = graphs.node_offsets[x : x + 2].tolist()
    begins = graphs.begins[begin + x : stop + x + 1]
    heads = np.repeat(np.arange(stop - begin), np.diff(begins))
    of_node = {int(heads[edge - first]): edge for edge in edges.tolist()}
    assert len(of_node) == len(edges)

    def part(node):
        edge = of_node[node]
        below = [tail for tail in graphs.tails[edge].tolist() if tail >= 0]
        made = int(graphs.made[edge])
        if made < 0:
            return part(below[0])
        symbol, start, _ = graphs.items[made].tolist()
        children = [part(tail) for tail in below]
        return Part(symbol, children, None if children else words[start], edge)

    assert end - first == len(heads)
    return part(stop - begin - 1)
