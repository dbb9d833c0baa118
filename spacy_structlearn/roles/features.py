"""Features of phrases and predicates that tell the role of a phrase: the seven of Gildea &
Jurafsky (2002), which Toutanova (2006, Table 2) uses, and the additional ones of Xue & Palmer
(2004), Pradhan et al. (2005) and Surdeanu et al. (2003).

Each feature is a column of strings or None, computed for many nodes at once. `features` has a row
for each node, and `predicate_features` has a row for each predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice, pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Coded, cumulative, followed
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
    names: some of `FEATURES`, `OF_WORD_CLASSES`, `OF_SPELLING`, `OF_LOWER_CASE`, and `ROLESET`.
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
    head_class, content_class: the classes of these words; None without classes.
    content_class_8, content_class_10: coarser classes, the first 8 or 10 turns to `content_class`.
    head_form, content_form: the shapes and endings of these words (`shape_signature`).
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
    of_predicates = _of_predicates(lemmatize)
    leaves, owners = nodes.predicates(sites.predicates), sites.owners
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
            known = (*FEATURES, *OF_WORD_CLASSES, *OF_SPELLING, *OF_LOWER_CASE, ROLESET)
            raise StructlearnError("SL132", name=name, known=", ".join(known))
    return columns


# Features of nodes.
def _label(nodes: RoleTrees, found: Nodes) -> Coded:
    return nodes.coded(nodes.labels[found])


def _tag(nodes: RoleTrees, tokens: Nodes) -> Coded:
    return _label(nodes, nodes.leaves[tokens])


def _word(nodes: RoleTrees, tokens: Nodes) -> Coded:
    return nodes.words.at(tokens)


def _head(nodes: RoleTrees, found: Nodes) -> Coded:
    """Return the head words of nodes."""
    return _at_or_none(nodes.words, nodes.heads[found])


def _at_or_none(column: Coded, rows: Nodes) -> Coded:
    """Return the values of these rows, None for -1."""
    return Coded(column.texts, np.where(rows < 0, -1, column.codes[rows]))


def _governor(nodes: RoleTrees, found: Nodes) -> Coded:
    every = np.arange(len(nodes) + 1)
    governs = nodes.is_one_of(every, nodes.classes.governing)
    governors = followed(np.where(governs, every, nodes.parents))
    return _label(nodes, governors[nodes.parents[found]])


def _coarse_class(nodes: RoleTrees, tokens: Nodes, depth: int) -> Coded:
    """Return the first turns to the classes of tokens, after the 1 at the beginning."""
    return nodes.word_classes.map(lambda path: path[: depth + 1]).at(tokens)


_OF_NODES: Mapping[str, Callable[[RoleTrees, Nodes], Coded]] = {
    "phrase": _label,
    "head": _head,
    "head_tag": lambda nodes, found: _tag(nodes, nodes.heads[found]),
    "first_word": lambda nodes, found: _word(nodes, nodes.starts[found]),
    "first_tag": lambda nodes, found: _tag(nodes, nodes.starts[found]),
    "last_word": lambda nodes, found: _word(nodes, nodes.stops[found] - 1),
    "last_tag": lambda nodes, found: _tag(nodes, nodes.stops[found] - 1),
    "content": lambda nodes, found: _word(nodes, nodes.contents[found]),
    "content_tag": lambda nodes, found: _tag(nodes, nodes.contents[found]),
    "left": lambda nodes, found: _label(nodes, nodes.left[found]),
    "left_head": lambda nodes, found: _head(nodes, nodes.left[found]),
    "right": lambda nodes, found: _label(nodes, nodes.right[found]),
    "right_head": lambda nodes, found: _head(nodes, nodes.right[found]),
    "parent": lambda nodes, found: _label(nodes, nodes.parents[found]),
    "parent_head": lambda nodes, found: _head(nodes, nodes.parents[found]),
    "governor": _governor,
    "head_class": lambda nodes, found: _at_or_none(nodes.word_classes, nodes.heads[found]),
    "content_class": lambda nodes, found: nodes.word_classes.at(nodes.contents[found]),
    "content_class_8": lambda nodes, found: _coarse_class(nodes, nodes.contents[found], 8),
    "content_class_10": lambda nodes, found: _coarse_class(nodes, nodes.contents[found], 10),
    "head_form": lambda nodes, found: _at_or_none(nodes.forms, nodes.heads[found]),
    "content_form": lambda nodes, found: nodes.forms.at(nodes.contents[found]),
    "head_lower": lambda nodes, found: _lower(nodes, nodes.heads[found]),
    "first_word_lower": lambda nodes, found: _lower(nodes, nodes.starts[found]),
    "last_word_lower": lambda nodes, found: _lower(nodes, nodes.stops[found] - 1),
    "content_lower": lambda nodes, found: _lower(nodes, nodes.contents[found]),
    "left_head_lower": lambda nodes, found: _lower(nodes, nodes.heads[nodes.left[found]]),
    "right_head_lower": lambda nodes, found: _lower(nodes, nodes.heads[nodes.right[found]]),
    "parent_head_lower": lambda nodes, found: _lower(nodes, nodes.heads[nodes.parents[found]]),
}


# Features of predicates, whose nodes are leaves: one value for all nodes of a site.
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


def _next(nodes: RoleTrees, leaves: Nodes, wanted: NDArray[np.bool_]) -> Nodes:
    """Return the next wanted sister to the right of each leaf, -1 for none.

    wanted: bool (n_nodes + 1).
    """
    links = np.where(wanted, np.arange(len(wanted)), nodes.right)
    return followed(links)[nodes.right[leaves]]


def _particle(nodes: RoleTrees, leaves: Nodes) -> Coded:
    wanted = nodes.is_one_of(np.arange(len(nodes) + 1), nodes.classes.particles)
    return _lower(nodes, nodes.starts[_next(nodes, leaves, wanted)])


def _of_predicates(
    lemmatize: Lemmatizer | None,
) -> Mapping[str, Callable[[RoleTrees, Nodes], Coded]]:
    base = lemmatize or lower

    def _lemma(nodes: RoleTrees, leaves: Nodes) -> Coded:
        n = len(nodes.names)
        pairs = nodes.words.codes[nodes.starts[leaves]] * n + nodes.labels[leaves]
        distinct, own = np.unique(pairs, return_inverse=True)
        forms = (divmod(pair, n) for pair in distinct.tolist())
        bases = [base(nodes.words.texts[word], nodes.names[tag]) for word, tag in forms]
        return Coded([*bases, None], own)

    return {
        "subcat": _subcat,
        "voice": _voice,
        "predicate_tag": _label,
        "particle": _particle,
        "lemma": _lemma,
        "predicate_class": lambda nodes, leaves: nodes.word_classes.at(nodes.starts[leaves]),
    }


# Features of pairs of a node and a predicate.
class _Path(dict[str, "_Path"]):
    """A path to a predicate. Its items are the paths that are one step longer, by this step.

    number: of the path in a column; -1 if it is not there.
    """

    __slots__ = ("number", "text")

    def __init__(self, text: str):
        self.text, self.number = text, -1

    def __missing__(self, step: str) -> _Path:
        path = self[step] = _Path(step + self.text)
        return path


def _path(nodes: RoleTrees, sites: ArgumentNodes) -> Coded:
    texts, labels = nodes.collapsed.texts, nodes.collapsed.codes.tolist()
    up = [f"{text}↑" for text in texts]
    down = [f"{text}↓" for text in nodes.names]
    parents, own = nodes.parents.tolist(), nodes.labels.tolist()
    empty = _Path("")
    found: list[str | None] = []
    codes: list[int] = []
    of_sites, end = sites.nodes.tolist(), 0
    leaves = nodes.predicates(sites.predicates).tolist()
    for node, size in zip(leaves, sites.sizes.tolist(), strict=True):
        # The path from each node to the predicate.
        path = empty[texts[labels[node]]]
        known = {node: path}
        while (node := parents[node]) >= 0:
            path = known[node] = path[down[own[node]]]
        begin, end = end, end + size
        for node in of_sites[begin:end]:
            way: list[int] = []
            while node not in known:
                way.append(node)
                node = parents[node]
            path = known[node]
            for step in reversed(way):
                path = known[step] = path[up[labels[step]]]
            if path.number < 0:
                path.number = len(found)
                found.append(path.text)
            codes.append(path.number)
    return Coded([*found, None], np.array(codes, dtype=np.intp))


_OF_PATHS: Mapping[str, Callable[[str], str]] = {
    "path": str,
    "partial_path": lambda path: path.partition("↓")[0],
    "path_length": lambda path: str(path.count("↑") + path.count("↓")),
}


def _position(nodes: RoleTrees, sites: ArgumentNodes) -> Coded:
    after = nodes.starts[sites.nodes] >= np.repeat(sites.predicates, sites.sizes)
    return Coded(["before", "after", None], after.astype(np.intp))


# The distances from which the ranges begin.
_DISTANCES = ("0", "1", "2", "3-4", "5-8", "9-16", "17-", None)
_BOUNDS = np.array([1, 2, 3, 5, 9, 17])


def _distance(nodes: RoleTrees, sites: ArgumentNodes) -> Coded:
    predicates = np.repeat(sites.predicates, sites.sizes)
    right = nodes.starts[sites.nodes] - predicates - 1
    left = np.maximum(predicates - nodes.stops[sites.nodes], 0)
    return Coded(_DISTANCES, np.searchsorted(_BOUNDS, np.where(right >= 0, right, left), "right"))


def _frame(nodes: RoleTrees, sites: ArgumentNodes) -> Coded:
    near, owners = sisters(nodes, sites.predicates), sites.owners
    is_pivot = nodes.is_one_of(near.nodes, nodes.classes.noun_phrases)
    n_sites = len(sites.predicates)
    # The places of each site, its noun phrases and its predicate, from left to right.
    places = np.concatenate([near.nodes[is_pivot], nodes.predicates(sites.predicates)])
    of_places = np.concatenate([near.owners[is_pivot], np.arange(n_sites)])
    keys = of_places * (len(nodes.leaves) + 1) + nodes.starts[places]
    order = np.argsort(keys)
    places, of_places, keys = places[order], of_places[order], keys[order]
    begins = cumulative(np.bincount(of_places, minlength=n_sites))
    # The places to the left of a node, and up to its end. A node that is no place itself precedes
    # those that it contains.
    own_keys = owners * (len(nodes.leaves) + 1)
    first, last = (
        np.searchsorted(keys, own_keys + ends[sites.nodes]) for ends in (nodes.starts, nodes.stops)
    )
    inside = np.minimum(first, max(len(places) - 1, 0))
    is_place = (last == first + 1) & (places[inside] == sites.nodes)
    first = first - begins[owners]
    last = np.where(is_place, first + 1, first)
    # Equal sequences of places have one number.
    texts = [None if name is None else name.lower() for name in nodes.names]
    names = [texts[label] for label in nodes.labels[places].tolist()]
    for place in np.flatnonzero(places == nodes.leaves[sites.predicates[of_places]]).tolist():
        names[place] = nodes.classes.verb[:1].lower()
    bounds = begins.tolist()
    sequences: dict[tuple[str, ...], int] = {}
    ids = [
        sequences.setdefault(tuple(names[begin:end]), len(sequences))
        for begin, end in pairwise(bounds)
    ]
    parts = np.stack([np.array(ids, dtype=np.intp)[owners], first, last, nodes.labels[sites.nodes]])
    sizes = parts.max(axis=1, initial=0) + 1
    distinct, codes = np.unique(np.ravel_multi_index(tuple(parts), sizes), return_inverse=True)
    known = list(sequences)
    frames = []
    for number, begin, end, label in np.transpose(np.unravel_index(distinct, sizes)).tolist():
        before, behind = known[number][:begin], known[number][end:]
        frames.append("_".join([*before, f"[{nodes.names[label]}]", *behind]))
    return Coded([*frames, None], codes)


_OF_PAIRS: Mapping[str, Callable[[RoleTrees, ArgumentNodes], Coded]] = {
    "position": _position,
    "distance": _distance,
    "frame": _frame,
}


# Features of predicates alone.
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
    of_predicates = _of_predicates(lemmatize)
    tokens = np.asarray(tokens, dtype=np.intp)
    leaves = nodes.predicates(tokens)
    columns: dict[str, Coded] = {}
    for name in names:
        if name in of_predicates:
            columns[name] = of_predicates[name](nodes, leaves)
        elif name in PREDICATE_FEATURES:
            columns[name] = _OF_TOKENS[name](nodes, tokens)
        else:
            raise StructlearnError("SL132", name=name, known=", ".join(PREDICATE_FEATURES))
    return columns


def _neighbours(nodes: RoleTrees, tokens: Nodes, step: int) -> Nodes:
    """Return the tokens next to others in the same tree, -1 for none."""
    found = np.clip(tokens + step, 0, max(len(nodes.leaves) - 1, 0))
    same = (found != tokens) & (nodes.tree_ids[found] == nodes.tree_ids[tokens])
    return np.where(same, found, -1)


def _lower(nodes: RoleTrees, tokens: Nodes) -> Coded:
    return _at_or_none(nodes.lower, tokens)


def _tag_or_none(nodes: RoleTrees, tokens: Nodes) -> Coded:
    return _label(nodes, np.where(tokens < 0, -1, nodes.leaves[tokens]))


def _above(nodes: RoleTrees, tokens: Nodes) -> Coded:
    """Return the label above the phrase of the token, or above its chain of phrases."""
    every = np.arange(len(nodes) + 1)
    same = nodes.labels[nodes.parents] == nodes.labels
    tops = followed(np.where(same & (every < len(nodes)), nodes.parents, every))
    phrases = nodes.parents[nodes.leaves[tokens]]
    return _label(nodes, nodes.parents[tops[phrases]])


def _before(nodes: RoleTrees, tokens: Nodes) -> Coded:
    near = sisters(nodes, tokens)
    owners, predicates = near.owners, np.repeat(tokens, near.sizes)
    fits = nodes.stops[near.nodes] <= predicates
    fits &= nodes.is_one_of(near.nodes, nodes.classes.noun_phrases)
    owners, found = owners[fits], near.nodes[fits]
    order = np.argsort(nodes.stops[found], kind="stable")
    nearest = np.full(len(tokens), -1)
    nearest[owners[order]] = found[order]  # numpy keeps the last of several
    return _lower(nodes, nodes.heads[nearest])


def _after(nodes: RoleTrees, tokens: Nodes) -> Nodes:
    """Return the next phrase to the right under the same node."""
    return _next(nodes, nodes.leaves[tokens], nodes.n_children > 0)


def _preposition(nodes: RoleTrees, tokens: Nodes) -> Coded:
    wanted = nodes.n_children > 0
    wanted &= nodes.is_one_of(np.arange(len(wanted)), nodes.classes.preposition_phrases)
    return _lower(nodes, nodes.heads[_next(nodes, nodes.leaves[tokens], wanted)])


_OF_TOKENS: Mapping[str, Callable[[RoleTrees, Nodes], Coded]] = {
    "word": _lower,
    "previous": lambda nodes, tokens: _lower(nodes, _neighbours(nodes, tokens, -1)),
    "previous_tag": lambda nodes, tokens: _tag_or_none(nodes, _neighbours(nodes, tokens, -1)),
    "next": lambda nodes, tokens: _lower(nodes, _neighbours(nodes, tokens, 1)),
    "next_tag": lambda nodes, tokens: _tag_or_none(nodes, _neighbours(nodes, tokens, 1)),
    "above": _above,
    "before": _before,
    "after": lambda nodes, tokens: _lower(nodes, nodes.heads[_after(nodes, tokens)]),
    "after_phrase": lambda nodes, tokens: _label(nodes, _after(nodes, tokens)),
    "preposition": _preposition,
}
