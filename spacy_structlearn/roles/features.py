"""Features of phrases and predicates that tell the role of a phrase: the seven of Gildea &
Jurafsky (2002), which Toutanova (2006, Table 2) uses, and the additional ones of Xue & Palmer
(2004), Pradhan et al. (2005) and Surdeanu et al. (2003).

Each feature is a column of strings or None. `features` has a row for each node, and
`predicate_features` has a row for each predicate.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, pairwise

from ..errors import StructlearnError
from ..words.lemmas import Lemmatizer, lemma, lower
from .phrases import RoleTree, collapsed, sisters

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
ROLESET = "roleset"
"""The sense of the predicate, for trees where it is known; not among `FEATURES`."""

Column = list[str | None]
Sites = Sequence[tuple[int, Sequence[int]]]


def features(
    nodes: RoleTree,
    sites: Sites,
    names: Sequence[str] = FEATURES,
    *,
    lemmatize: Lemmatizer | None = lemma,
    rolesets: Sequence[str | None] | None = None,
) -> dict[str, Column]:
    """Return the features of nodes and predicates of one tree: a column for each name.

    sites: (predicate, nodes) pairs: a token, and numbers of nodes such as `candidates`.
    names: some of `FEATURES`, and `ROLESET`.
    lemmatize: returns the base form of a word with a tag. None: words in lower case.
    rolesets: the sense of the predicate of each site, or None.

    The columns have a row for each node of the first site, then for each node of the second, and so
    on. The features of a node do not depend on the other nodes. Raises StructlearnError if a
    predicate is not a token or a name is unknown.

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
    left, left_head, right, right_head: labels and head words of the sisters.
    parent, parent_head.
    governor: the nearest clause or verb phrase above (Gildea & Jurafsky 2002).

    Of node and predicate:
    partial_path: the path up to the lowest common ancestor.
    path_length: the number of arrows in the path.
    distance: the number of tokens in between, in ranges.
    frame: the noun phrases among the candidates around the predicate, with the node in its place,
        "np_v_[NP]_np" (Xue & Palmer 2004).

    Of the predicate: predicate_tag; particle, in lower case.
    """
    of_predicates = _of_predicates(lemmatize)
    leaves = [nodes.predicate(predicate) for predicate, _ in sites]
    columns: dict[str, Column] = {}
    for name in names:
        if name in _OF_NODES:
            values = _of_nodes(nodes, name)
            columns[name] = [values[node] for _, below in sites for node in below]
        elif name in _OF_PAIRS:
            parts = (_OF_PAIRS[name](nodes, *site) for site in sites)
            columns[name] = list(chain.from_iterable(parts))
        elif name in of_predicates or name == ROLESET:
            if name == ROLESET:
                values = rolesets or [None] * len(sites)
            else:
                values = [of_predicates[name](nodes, leaf) for leaf in leaves]
            pairs = zip(values, sites, strict=True)
            columns[name] = [value for value, (_, below) in pairs for _ in below]
        else:
            raise StructlearnError("SL132", name=name, known=", ".join((*FEATURES, ROLESET)))
    return columns


# Features of nodes: a column over all nodes of the tree, computed once.
def _of_nodes(nodes: RoleTree, name: str) -> Column:
    values = nodes.columns.get(name)
    if values is None:
        values = nodes.columns[name] = _OF_NODES[name](nodes)
    return values


def _tokens(nodes: RoleTree, values: Sequence[str | None], tokens: Iterable[int]) -> Column:
    """Return the values of the leaves of these tokens."""
    of_tokens = [values[leaf] for leaf in nodes.leaves]
    return [of_tokens[token] for token in tokens]


def _content_tokens(nodes: RoleTree) -> list[int]:
    """Return the token that carries the content of each node.

    It is that of the last phrase in a prepositional or subordinate phrase, that of the verb phrase
    in a clause or verb phrase, and the head otherwise.
    """
    tokens = list(nodes.heads)
    verbal = nodes.classes.clauses | nodes.classes.verb_phrases
    for node in range(len(nodes) - 1, -1, -1):
        label, below = nodes.labels[node], nodes.children[node]
        if label in nodes.classes.subordinate:
            wanted = [child for child in reversed(below) if nodes.children[child]]
        elif label in verbal:
            wanted = [child for child in below if nodes.labels[child] in nodes.classes.verb_phrases]
        else:
            head = nodes.heads[node]
            wanted = [child for child in below if nodes.starts[child] <= head < nodes.ends[child]]
        if wanted:
            tokens[node] = tokens[wanted[0]]
    return tokens


def _of_sisters(nodes: RoleTree, values: Sequence[str | None], step: int) -> Column:
    """Return the values of the sisters to the left (step -1) or right (1)."""
    column: Column = [None] * len(nodes)
    for below in nodes.children:
        for sister, node in pairwise(below[::-step]):
            column[node] = values[sister]
    return column


def _of_parents(nodes: RoleTree, values: Sequence[str | None]) -> Column:
    return [None if parent < 0 else values[parent] for parent in nodes.parents]


def _governor(nodes: RoleTree) -> Column:
    column: Column = []
    for parent, label in zip(nodes.parents, _of_parents(nodes, nodes.labels), strict=True):
        column.append(label if parent < 0 or label in nodes.classes.governing else column[parent])
    return column


_OF_NODES: Mapping[str, Callable[[RoleTree], Column]] = {
    "phrase": lambda nodes: list(nodes.labels),
    "head": lambda nodes: _tokens(nodes, nodes.words, nodes.heads),
    "head_tag": lambda nodes: _tokens(nodes, nodes.labels, nodes.heads),
    "first_word": lambda nodes: _tokens(nodes, nodes.words, nodes.starts),
    "first_tag": lambda nodes: _tokens(nodes, nodes.labels, nodes.starts),
    "last_word": lambda nodes: _tokens(nodes, nodes.words, [end - 1 for end in nodes.ends]),
    "last_tag": lambda nodes: _tokens(nodes, nodes.labels, [end - 1 for end in nodes.ends]),
    "content": lambda nodes: _tokens(nodes, nodes.words, _content_tokens(nodes)),
    "content_tag": lambda nodes: _tokens(nodes, nodes.labels, _content_tokens(nodes)),
    "left": lambda nodes: _of_sisters(nodes, nodes.labels, -1),
    "left_head": lambda nodes: _of_sisters(nodes, _of_nodes(nodes, "head"), -1),
    "right": lambda nodes: _of_sisters(nodes, nodes.labels, 1),
    "right_head": lambda nodes: _of_sisters(nodes, _of_nodes(nodes, "head"), 1),
    "parent": lambda nodes: _of_parents(nodes, nodes.labels),
    "parent_head": lambda nodes: _of_parents(nodes, _of_nodes(nodes, "head")),
    "governor": _governor,
}


# Features of predicates: one value for all nodes of a site. The argument is a node.
def _subcat(nodes: RoleTree, leaf: int) -> str | None:
    parent = nodes.parents[leaf]
    if parent < 0:
        return None
    expansion = "-".join([nodes.labels[child] for child in nodes.children[parent]])
    return f"{nodes.labels[parent]}->{expansion}"


def _voice(nodes: RoleTree, leaf: int) -> str:
    if nodes.labels[leaf] not in nodes.classes.participles:
        return "active"
    below = leaf
    for parent in nodes.ancestors(leaf):
        # An inverted clause holds the auxiliary: (SQ was (NP it) (VP seen)).
        label = nodes.labels[parent]
        if label not in nodes.classes.verb_phrases and label not in nodes.classes.clauses:
            break
        for child in reversed(nodes.children[parent]):
            if child >= below or nodes.labels[child] not in nodes.classes.verbs:
                continue
            word = (nodes.words[child] or "").lower()
            if word in nodes.classes.be or word in nodes.classes.get:
                return "passive"
            if word in nodes.classes.have:
                return "active"
        if label not in nodes.classes.verb_phrases:
            break
        below = parent
    return "passive"


def _particle(nodes: RoleTree, leaf: int) -> str | None:
    parent = nodes.parents[leaf]
    for child in nodes.children[parent] if parent >= 0 else ():
        if child > leaf and nodes.labels[child] in nodes.classes.particles:
            return (nodes.words[nodes.leaves[nodes.starts[child]]] or "").lower()
    return None


def _of_predicates(
    lemmatize: Lemmatizer | None,
) -> Mapping[str, Callable[[RoleTree, int], str | None]]:
    base = lemmatize or lower
    return {
        "subcat": _subcat,
        "voice": _voice,
        "predicate_tag": lambda nodes, leaf: nodes.labels[leaf],
        "particle": _particle,
        "lemma": lambda nodes, leaf: base(nodes.words[leaf] or "", nodes.labels[leaf]),
    }


# Features of pairs: the predicate is a token.
def _path(nodes: RoleTree, predicate: int, below: Sequence[int]) -> list[str]:
    names, parents, classes = nodes.labels, nodes.parents, nodes.classes
    known = nodes.paths.get(predicate)  # the path from each node to the predicate
    if known is None:
        node = nodes.leaves[predicate]
        path = collapsed(nodes, names[node])
        known = nodes.paths[predicate] = {node: path}
        while (node := parents[node]) >= 0:
            path = known[node] = f"{names[node]}↓{path}"
    for node in below:
        way: list[int] = []
        while node not in known:
            way.append(node)
            node = parents[node]
        path = known[node]
        for step in reversed(way):
            name = classes.verb if names[step] in classes.verbs else names[step]
            path = known[step] = f"{name}↑{path}"
    return [known[node] for node in below]


def _partial_path(nodes: RoleTree, predicate: int, below: Sequence[int]) -> Column:
    return [path.partition("↓")[0] for path in _path(nodes, predicate, below)]


def _path_length(nodes: RoleTree, predicate: int, below: Sequence[int]) -> Column:
    return [str(path.count("↑") + path.count("↓")) for path in _path(nodes, predicate, below)]


def _position(nodes: RoleTree, predicate: int, below: Sequence[int]) -> Column:
    starts = nodes.starts
    return ["before" if starts[node] < predicate else "after" for node in below]


_DISTANCES = ("0", "1", "2", *["3-4"] * 2, *["5-8"] * 4, *["9-16"] * 8)


def _distance(nodes: RoleTree, predicate: int, below: Sequence[int]) -> Column:
    column: Column = []
    for node in below:
        start, end = nodes.starts[node], nodes.ends[node]
        between = start - predicate - 1 if start > predicate else max(predicate - end, 0)
        column.append(_DISTANCES[between] if between < len(_DISTANCES) else "17-")
    return column


def _frame(nodes: RoleTree, predicate: int, below: Sequence[int]) -> Column:
    pivots = sorted(
        (nodes.starts[node], node, nodes.labels[node].lower())
        for node in sisters(nodes, predicate)
        if nodes.labels[node] in nodes.classes.noun_phrases
    )
    leaf = nodes.leaves[predicate]
    places = sorted([*pivots, (predicate, leaf, nodes.classes.verb[:1].lower())])
    texts = [text for _, _, text in places]
    begins = [begin for begin, _, _ in places]
    # The text to the left and to the right of each place.
    left = ["_".join([*texts[:place], ""]) for place in range(len(texts) + 1)]
    right = ["_".join(["", *texts[place:]]) for place in range(len(texts) + 1)]
    column: Column = []
    for node in below:
        first, last = (bisect_left(begins, i) for i in nodes.span(node))
        if last != first + 1 or places[first][1] != node:
            last = first  # not a pivot: the node precedes the pivots that it contains
        column.append(f"{left[first]}[{nodes.labels[node]}]{right[last]}")
    return column


_OF_PAIRS: Mapping[str, Callable[[RoleTree, int, Sequence[int]], Column]] = {
    "path": _path,
    "partial_path": _partial_path,
    "path_length": _path_length,
    "position": _position,
    "distance": _distance,
    "frame": _frame,
}


# Features of predicates alone.
def predicate_features(
    nodes: RoleTree,
    tokens: Sequence[int],
    names: Sequence[str] = PREDICATE_FEATURES,
    *,
    lemmatize: Lemmatizer | None = lemma,
) -> dict[str, Column]:
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
    leaves = [nodes.predicate(token) for token in tokens]
    columns: dict[str, Column] = {}
    for name in names:
        if name in of_predicates:
            columns[name] = [of_predicates[name](nodes, leaf) for leaf in leaves]
        elif name in PREDICATE_FEATURES:
            columns[name] = [_OF_TOKENS[name](nodes, token) for token in tokens]
        else:
            raise StructlearnError("SL132", name=name, known=", ".join(PREDICATE_FEATURES))
    return columns


def _word(nodes: RoleTree, token: int) -> str | None:
    inside = 0 <= token < len(nodes.leaves)
    return (nodes.words[nodes.leaves[token]] or "").lower() if inside else None


def _tag(nodes: RoleTree, token: int) -> str | None:
    return nodes.labels[nodes.leaves[token]] if 0 <= token < len(nodes.leaves) else None


def _above(nodes: RoleTree, token: int) -> str | None:
    """Return the label above the phrase of the token, or above its chain of verb phrases."""
    node = nodes.parents[nodes.leaves[token]]
    while node >= 0 and (top := nodes.parents[node]) >= 0:
        if nodes.labels[top] != nodes.labels[node]:
            return nodes.labels[top]
        node = top
    return None


def _before(nodes: RoleTree, token: int) -> str | None:
    found = [
        node
        for node in sisters(nodes, token)
        if nodes.ends[node] <= token and nodes.labels[node] in nodes.classes.noun_phrases
    ]
    return _head(nodes, max(found, key=nodes.ends.__getitem__, default=None))


def _head(nodes: RoleTree, node: int | None) -> str | None:
    return None if node is None else _word(nodes, nodes.heads[node])


def _after(nodes: RoleTree, token: int, wanted: Collection[str] | None = None) -> int | None:
    """Return the next phrase to the right under the same node, with one of the wanted labels."""
    leaf = nodes.leaves[token]
    parent = nodes.parents[leaf]
    for child in nodes.children[parent] if parent >= 0 else ():
        fits = wanted is None or nodes.labels[child] in wanted
        if child > leaf and nodes.children[child] and fits:
            return child
    return None


def _after_phrase(nodes: RoleTree, token: int) -> str | None:
    node = _after(nodes, token)
    return None if node is None else nodes.labels[node]


def _preposition(nodes: RoleTree, token: int) -> str | None:
    return _head(nodes, _after(nodes, token, nodes.classes.preposition_phrases))


_OF_TOKENS: Mapping[str, Callable[[RoleTree, int], str | None]] = {
    "word": _word,
    "previous": lambda nodes, token: _word(nodes, token - 1),
    "previous_tag": lambda nodes, token: _tag(nodes, token - 1),
    "next": lambda nodes, token: _word(nodes, token + 1),
    "next_tag": lambda nodes, token: _tag(nodes, token + 1),
    "above": _above,
    "before": _before,
    "after": lambda nodes, token: _head(nodes, _after(nodes, token)),
    "after_phrase": _after_phrase,
    "preposition": _preposition,
}


def join_columns(parts: Iterable[Mapping[str, Collection[str | None]]]) -> dict[str, Column]:
    """Concatenate the columns of several trees, which must have the same names."""
    joined: dict[str, Column] = {}
    for part in parts:
        for name, column in part.items():
            joined.setdefault(name, []).extend(column)
    return joined
