"""Features of phrases and predicates that tell the role of a phrase: the seven of Gildea &
Jurafsky (2002), which Toutanova (2006, Table 2) uses, and the additional ones of Xue & Palmer
(2004), Pradhan et al. (2005) and Surdeanu et al. (2003).

Each feature is a column of strings or None, computed for many nodes at once. `features` has a row
for each node, and `predicate_features` has a row for each predicate.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Coded, followed
from ..errors import StructlearnError
from ..words.lemmas import Lemmatizer, lemma, lower
from .phrases import ArgumentNodes, Nodes, RoleTrees, sisters

GILDEA_JURAFSKY = ("path", "subcat", "voice", "head", "position", "phrase", "lemma")
"""The seven features of Gildea & Jurafsky (2002)."""
ADDITIONAL = (
    *("first_word", "first_tag", "last_word", "last_tag", "head_tag", "content", "content_tag"),
    *("left", "left_head", "right", "right_head", "parent", "parent_head", "governor"),
    *("partial_path", "path_length", "distance", "frame", "predicate_tag", "particle"),
)
FEATURES = (*GILDEA_JURAFSKY, *ADDITIONAL)
PREDICATE_FEATURES = (
    *("word", "lemma", "predicate_tag", "previous", "previous_tag", "next", "next_tag"),
    *("above", "subcat", "voice", "particle", "before", "after", "after_phrase", "preposition"),
)
"""Features of a predicate alone, for its identification and its sense."""
OF_WORD_CLASSES = (
    *("head_class", "content_class", "predicate_class"),
    *("content_class_8", "content_class_10"),
)
"""Features of the classes of words; None without classes."""
OF_SPELLING = ("head_form", "content_form")
"""Features of the spelling of words."""
OF_LOWER_CASE = (
    *("head_lower", "first_word_lower", "last_word_lower", "content_lower"),
    *("left_head_lower", "right_head_lower", "parent_head_lower"),
)
"""Features of words in lower case, so that "In" at the beginning of a sentence is "in"."""
ROLESET = "roleset"
"""The sense of the predicate, for trees where it is known; not among `FEATURES`."""


def features(
    nodes: RoleTrees,
    sites: ArgumentNodes,
    names: Sequence[str] = FEATURES,
    *,
    lemmatize: Lemmatizer | None = lemma,
    rolesets: Sequence[str | None] | None = None,
) -> dict[str, Coded]:
    """Return the features of nodes and predicates: a column for each name.

    sites: predicates, and nodes such as `candidates`.
    names: some of `FEATURES`, `OF_WORD_CLASSES`, `OF_SPELLING`, `OF_LOWER_CASE`, and `ROLESET`,
        or of `PREDICATE_FEATURES`.
    lemmatize: returns the base form of a word with a tag. None: words in lower case.
    rolesets: the sense of the predicate of each site, or None.

    The columns have a row for each node of the sites. The features of a node do not depend on the
    other nodes. Raises StructlearnError if a predicate is not a token or a name is unknown.

    Gildea & Jurafsky (2002):
    path: labels from the node up to the lowest common ancestor and down to the predicate, with one
        tag for all verbs: "NP↑S↓VP↓VB".
    subcat: the rule that expands the parent of the predicate, "VP->VBD-PP".
    voice: "active" or "passive". Passive is a participle for which a form of be or get is found
        before a form of have on the way up through its verb phrases, or neither is found.
    head: the head word.
    position: "before" or "after" the predicate.
    phrase: the label of the node.
    lemma: the base form of the predicate.

    Of the node:
    first_word, first_tag, last_word, last_tag, head_tag.
    content, content_tag: the word that carries the content: the noun of a prepositional phrase, the
        main verb of a clause (Surdeanu et al. 2003).
    content_class: its class; None without classes.
    content_class_8, content_class_10: coarser classes, the first 8 or 10 turns to `content_class`.
    content_form: its shape and ending (`shape_signature`).
    left, left_head, right, right_head: labels and head words of the sisters.
    parent, parent_head.
    governor: the nearest clause or verb phrase above (Gildea & Jurafsky 2002).
    head_lower, content_lower and so on: words in lower case.

    Of node and predicate:
    partial_path: the path up to the lowest common ancestor.
    path_length: the number of arrows in the path.
    distance: the number of tokens in between, in ranges.
    frame: the noun phrases among the candidates around the predicate, with the node in its place,
        "np_v_[NP]_np" (Xue & Palmer 2004).

    Of the predicate: predicate_tag; predicate_class; particle, in lower case.
    """
    leaves, owners = nodes.predicates(sites.predicates), sites.owners
    of_predicates = _of_predicates(lemmatize or lower)
    columns: dict[str, Coded] = {}
    if not _OF_PATHS.keys().isdisjoint(names):
        paths = _path(nodes, sites)
    for name in names:
        if name in _OF_NODES:
            columns[name] = _OF_NODES[name](nodes, sites.nodes)
        elif name in _OF_PATHS:
            columns[name] = paths.map(_OF_PATHS[name])
        elif name in _OF_PAIRS:
            columns[name] = _OF_PAIRS[name](nodes, sites)
        elif name == ROLESET:
            columns[name] = Coded.of(rolesets or [None] * len(leaves)).at(owners)
        elif name in of_predicates:
            columns[name] = of_predicates[name](nodes, leaves).at(owners)
        else:
            known = (*_OF_NODES, *_OF_PATHS, *_OF_PAIRS, ROLESET, *of_predicates)
            raise StructlearnError("SL132", name=name, known=", ".join(known))
    return columns


# Features of nodes.
def _label(nodes: RoleTrees, numbers: Nodes) -> Coded:
    return Coded(nodes.names, nodes.labels[numbers])


def _governor(nodes: RoleTrees, numbers: Nodes) -> Coded:
    every = np.arange(len(nodes) + 1)
    governs = nodes.is_one_of(every, nodes.classes.governing)
    governors = followed(np.where(governs, every, nodes.parents))
    return _label(nodes, governors[nodes.parents[numbers]])


def _coarse_class(nodes: RoleTrees, tokens: Nodes, depth: int) -> Coded:
    """Return the first turns to the classes of tokens, after the 1 at the beginning."""
    return nodes.word_classes.map(lambda path: path[: depth + 1]).at(tokens)


Feature = Callable[[RoleTrees, Nodes], Coded]
# Words of nodes. n: the trees. a: numbers of nodes.
_WORDS: Mapping[str, Callable[[RoleTrees, Nodes], Nodes]] = {
    "head": lambda n, a: n.heads[a],
    "first_word": lambda n, a: n.starts[a],
    "last_word": lambda n, a: n.stops[a] - 1,
    "content": lambda n, a: n.contents[a],
    "left_head": lambda n, a: n.heads[n.left[a]],
    "right_head": lambda n, a: n.heads[n.right[a]],
    "parent_head": lambda n, a: n.heads[n.parents[a]],
}


def _of_word(word: str, column: str) -> Feature:
    return lambda nodes, numbers: getattr(nodes, column).at(_WORDS[word](nodes, numbers))


_OF_NODES: Mapping[str, Feature] = {
    "phrase": _label,
    "left": lambda n, a: _label(n, n.left[a]),
    "right": lambda n, a: _label(n, n.right[a]),
    "parent": lambda n, a: _label(n, n.parents[a]),
    "governor": _governor,
    **{word: _of_word(word, "words") for word in _WORDS},
    **{f"{word}_lower": _of_word(word, "lower") for word in _WORDS},
    "head_tag": _of_word("head", "tags"),
    "first_tag": _of_word("first_word", "tags"),
    "last_tag": _of_word("last_word", "tags"),
    "content_tag": _of_word("content", "tags"),
    "head_class": _of_word("head", "word_classes"),
    "content_class": _of_word("content", "word_classes"),
    "content_class_8": lambda n, a: _coarse_class(n, n.contents[a], 8),
    "content_class_10": lambda n, a: _coarse_class(n, n.contents[a], 10),
    "head_form": _of_word("head", "forms"),
    "content_form": _of_word("content", "forms"),
}


# Features of predicates, whose nodes are leaves.
def _subcat(nodes: RoleTrees, leaves: Nodes) -> Coded:
    parents, owners = np.unique(nodes.parents[leaves], return_inverse=True)
    labels = map(nodes.names.__getitem__, nodes.labels[nodes.children_of(parents)].tolist())
    rules: list[str | None] = []
    for parent, number in zip(parents.tolist(), nodes.n_children[parents].tolist(), strict=True):
        expansion = "-".join(islice(labels, number))
        rules.append(f"{nodes.label(parent)}->{expansion}" if parent >= 0 else None)
    return Coded.of(rules).at(owners)


def _voice(nodes: RoleTrees, leaves: Nodes) -> Coded:
    passive = nodes.is_one_of(leaves, nodes.classes.participles)
    rows = np.flatnonzero(passive).tolist()
    passive[rows] = [_is_passive(nodes, leaf) for leaf in leaves[rows].tolist()]
    return Coded(["active", "passive", None], passive.astype(np.intp))


def _is_passive(nodes: RoleTrees, leaf: int) -> bool:
    """Whether a participle is passive."""
    classes, below = nodes.classes, leaf
    while (parent := int(nodes.parents[below])) >= 0:
        # An inverted clause holds the auxiliary: (SQ was (NP it) (VP seen)).
        label = nodes.label(parent)
        if label not in classes.verb_phrases and label not in classes.clauses:
            break
        sister = below
        while (sister := int(nodes.left[sister])) >= 0:
            if nodes.label(sister) not in classes.verbs:
                continue
            word = nodes.words.texts[nodes.words.codes[nodes.starts[sister]]].lower()
            is_word = not nodes.n_children[sister]
            if is_word and (word in classes.be or word in classes.get):
                return True
            if is_word and word in classes.have:
                return False
        if label not in classes.verb_phrases:
            break
        below = parent
    return True


def _next(
    nodes: RoleTrees, leaves: Nodes, labels: Collection[str] | None = None, least: int = 1
) -> Nodes:
    """Return the next sister to the right of each leaf with one of the labels and this number of
    children; -1 for none.
    """
    every = np.arange(len(nodes) + 1)
    wanted = nodes.n_children >= least
    if labels is not None:
        wanted &= nodes.is_one_of(every, labels)
    return followed(np.where(wanted, every, nodes.right))[nodes.right[leaves]]


def _neighbours(nodes: RoleTrees, leaves: Nodes, step: int) -> Nodes:
    """Return the tokens next to leaves in the same tree, -1 for none."""
    tokens = nodes.starts[leaves]
    neighbours = np.clip(tokens + step, 0, max(len(nodes.leaves) - 1, 0))
    same_tree = nodes.tree_ids[neighbours] == nodes.tree_ids[tokens]
    return np.where((neighbours != tokens) & same_tree, neighbours, -1)


def _above(nodes: RoleTrees, leaves: Nodes) -> Coded:
    """Return the label above the phrase of the token, or above its chain of phrases."""
    every = np.arange(len(nodes) + 1)
    same = nodes.labels[nodes.parents] == nodes.labels
    tops = followed(np.where(same & (every < len(nodes)), nodes.parents, every))
    return _label(nodes, nodes.parents[tops[nodes.parents[leaves]]])


def _before(nodes: RoleTrees, leaves: Nodes) -> Coded:
    tokens = nodes.starts[leaves]
    near = sisters(nodes, tokens)
    fits = nodes.stops[near.nodes] <= tokens[near.owners]
    fits &= nodes.is_one_of(near.nodes, nodes.classes.noun_phrases)
    near = near.at(np.flatnonzero(fits))
    order = np.argsort(nodes.stops[near.nodes], kind="stable")
    nearest = np.full(len(tokens), -1)
    nearest[near.owners[order]] = near.nodes[order]  # numpy keeps the last of several
    return nodes.lower.at(nodes.heads[nearest])


def _of_predicates(base: Lemmatizer) -> Mapping[str, Feature]:
    def lemmas(nodes: RoleTrees, leaves: Nodes) -> Coded:
        n = len(nodes.names)
        pairs = nodes.words.codes[nodes.starts[leaves]] * n + nodes.labels[leaves]
        distinct, codes = np.unique(pairs, return_inverse=True)
        forms = (divmod(pair, n) for pair in distinct.tolist())
        bases = [base(nodes.words.texts[word], nodes.names[tag]) for word, tag in forms]
        return Coded([*bases, None], codes)

    return {
        "word": lambda n, a: n.lower.at(n.starts[a]),
        "lemma": lemmas,
        "predicate_tag": _label,
        "predicate_class": lambda n, a: n.word_classes.at(n.starts[a]),
        "previous": lambda n, a: n.lower.at(_neighbours(n, a, -1)),
        "previous_tag": lambda n, a: n.tags.at(_neighbours(n, a, -1)),
        "next": lambda n, a: n.lower.at(_neighbours(n, a, 1)),
        "next_tag": lambda n, a: n.tags.at(_neighbours(n, a, 1)),
        "above": _above,
        "subcat": _subcat,
        "voice": _voice,
        "particle": lambda n, a: n.lower.at(n.starts[_next(n, a, n.classes.particles, 0)]),
        "before": _before,
        "after": lambda n, a: n.lower.at(n.heads[_next(n, a)]),
        "after_phrase": lambda n, a: _label(n, _next(n, a)),
        "preposition": lambda n, a: n.lower.at(n.heads[_next(n, a, n.classes.preposition_phrases)]),
    }


# Features of pairs of a node and a predicate.
def _path(nodes: RoleTrees, sites: ArgumentNodes) -> Coded:
    texts, labels = nodes.collapsed.texts, nodes.collapsed.codes.tolist()
    up = [f"{text}↑" for text in texts]
    down = [f"{name}↓" for name in nodes.names]
    parents, names = nodes.parents.tolist(), nodes.labels.tolist()
    paths: list[str] = []
    leaves = nodes.predicates(sites.predicates).tolist()
    for node, below in zip(leaves, sites.split(), strict=True):
        path = texts[labels[node]]
        to_predicate = {node: path}
        while (node := parents[node]) >= 0:
            path = to_predicate[node] = down[names[node]] + path
        for node in below:
            way: list[int] = []
            while node not in to_predicate:
                way.append(node)
                node = parents[node]
            path = to_predicate[node]
            for step in reversed(way):
                path = to_predicate[step] = up[labels[step]] + path
            paths.append(path)
    return Coded.of(paths)


_OF_PATHS: Mapping[str, Callable[[str], str]] = {
    "path": str,
    "partial_path": lambda path: path.partition("↓")[0],
    "path_length": lambda path: str(path.count("↑") + path.count("↓")),
}


def _position(nodes: RoleTrees, sites: ArgumentNodes) -> Coded:
    after = nodes.starts[sites.nodes] >= sites.predicates[sites.owners]
    return Coded(["before", "after", None], after.astype(np.intp))


# The distances from which the ranges begin.
_DISTANCES = ("0", "1", "2", "3-4", "5-8", "9-16", "17-", None)
_BOUNDS = np.array([1, 2, 3, 5, 9, 17])


def _distance(nodes: RoleTrees, sites: ArgumentNodes) -> Coded:
    predicates = sites.predicates[sites.owners]
    right = nodes.starts[sites.nodes] - predicates - 1
    left = np.maximum(predicates - nodes.stops[sites.nodes], 0)
    return Coded(_DISTANCES, np.searchsorted(_BOUNDS, np.where(right >= 0, right, left), "right"))


def _frame(nodes: RoleTrees, sites: ArgumentNodes) -> Coded:
    near = sisters(nodes, sites.predicates)
    near = near.at(np.flatnonzero(nodes.is_one_of(near.nodes, nodes.classes.noun_phrases)))
    starts, labels = nodes.starts.tolist(), nodes.labels.tolist()
    lower_names = [(name or "").lower() for name in nodes.names]
    leaves = nodes.predicates(sites.predicates).tolist()
    sequences: dict[tuple[str, ...], int] = {}
    # Each frame by its sequence of names, what the node takes the place of, and its label.
    frames: dict[tuple[int, int, int, int], int] = {}
    codes: list[int] = []
    for leaf, noun_phrases, below in zip(leaves, near.split(), sites.split(), strict=True):
        pivots = sorted([*noun_phrases, leaf])  # from left to right
        begins = [starts[node] for node in pivots]
        names = [lower_names[labels[node]] for node in pivots]
        names[pivots.index(leaf)] = nodes.classes.verb[:1].lower()
        sequence = sequences.setdefault(tuple(names), len(sequences))
        for node in below:
            # A node that is no pivot itself precedes those that it contains.
            end = place = bisect_left(begins, starts[node])
            if place < len(pivots) and pivots[place] == node:
                end = place + 1
            frame = sequence, place, end, labels[node]
            codes.append(frames.setdefault(frame, len(frames)))
    every = list(sequences)
    texts = [
        "_".join([*every[number][:place], f"[{nodes.names[label]}]", *every[number][end:]])
        for number, place, end, label in frames
    ]
    return Coded([*texts, None], np.array(codes, dtype=np.intp))


_OF_PAIRS: Mapping[str, Callable[[RoleTrees, ArgumentNodes], Coded]] = {
    "position": _position,
    "distance": _distance,
    "frame": _frame,
}


def predicate_features(
    nodes: RoleTrees,
    tokens: ArrayLike,
    names: Sequence[str] = PREDICATE_FEATURES,
    *,
    lemmatize: Lemmatizer | None = lemma,
) -> dict[str, Coded]:
    """Return the features of tokens that may be predicates: a column with a row for each token.

    word, previous, next: the word and its neighbours in lower case.
    predicate_tag, previous_tag, next_tag: their tags.
    lemma, subcat, voice, particle: as in `features`.
    above: the label above the phrase of the token, or above a chain of phrases with one label.
    before: the head word of the nearest noun phrase to the left that may be an argument.
    after, after_phrase: the head word and the label of the next phrase to the right under the same
        node.
    preposition: the head of the next prepositional phrase to the right under the same node.

    Raises StructlearnError if a token is not in the tree or a name is unknown.
    """
    leaves = nodes.predicates(tokens)
    sites = ArgumentNodes(nodes.starts[leaves], np.ones(len(leaves), dtype=np.intp), leaves)
    return features(nodes, sites, names, lemmatize=lemmatize)
