"""The questions about a phrase and a predicate from which its role is told: the seven features of
Gildea & Jurafsky (2002), which Toutanova (2006, Table 2) uses, and the additional ones of Xue &
Palmer (2004), Pradhan et al. (2005) and Surdeanu et al. (2003).

They are columns of strings or None, one row for each node; `predicate_features` has a row for each
predicate.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise

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
"""What is asked about a predicate alone: whether it is one, and in which sense."""
ROLESET = "roleset"
"""One more feature, where the sense of the predicate is known; not among `FEATURES`."""

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
    """What is asked about nodes and predicates of one tree: for each name a column, with a row for
    each node of the first site, then for those of the second, and so on.

    sites: (predicate, nodes): a token, and numbers of nodes such as `candidates`. names: some of
    `FEATURES`, and `ROLESET`. lemmatize: gives the base form of a word with a tag; None: words in
    lower case. rolesets: the sense of each site's predicate, None where it is not known. What is
    said of a node does not depend on which other nodes are asked about. Raises SL131 for a
    predicate that is no token, SL132 for a name that is none.

    The seven of Gildea & Jurafsky (2002):
    path: labels from the node up to the lowest common ancestor and down to the predicate, verb tags
        as one: "NP↑S↓VP↓VB". subcat: the rule that expands the predicate's parent, "VP->VBD-PP".
    voice: "active" or "passive"; passive is a participle with a form of be or get before a form of
        have on the way up through its verb phrases, or with neither.
    head: the head word. position: "before" or "after" the predicate. phrase: the label of the node.
    lemma: the base form of the predicate.

    Of the node: first_word, first_tag, last_word, last_tag; head_tag; content, content_tag: the
    word that carries the content, in a prepositional phrase the noun, in a clause the main verb
    (Surdeanu et al. 2003); left, left_head, right, right_head: label and head word of its sisters;
    parent, parent_head; governor: the nearest clause or verb phrase above (Gildea & Jurafsky 2002).
    Of both: partial_path: the path up to the lowest common ancestor; path_length: arrows in the
    path; distance: tokens in between, in ranges; frame: the noun phrases among the candidates
    around the predicate with the node in its place, "np_v_[NP]_np" (Xue & Palmer 2004). Of the
    predicate: predicate_tag; particle: its particle in lower case.
    """
    base = lemmatize or lower
    flat = [node for _, below in sites for node in below]
    columns: dict[str, Column] = {}
    for name in names:
        if name in _OF_NODES:
            values = _of_nodes(nodes, name)
            columns[name] = [values[node] for node in flat]
            continue
        column: Column = columns.setdefault(name, [])
        if name in _OF_PAIRS:
            for predicate, below in sites:
                nodes.predicate(predicate)
                column.extend(_OF_PAIRS[name](nodes, predicate, below))
        elif name in _OF_PREDICATES:
            for predicate, below in sites:
                value = _OF_PREDICATES[name](nodes, nodes.predicate(predicate))
                column.extend([value] * len(below))
        elif name == "lemma":
            for predicate, below in sites:
                leaf = nodes.predicate(predicate)
                value = base(nodes.words[leaf] or "", nodes.labels[leaf])
                column.extend([value] * len(below))
        elif name == ROLESET:
            known = rolesets if rolesets is not None else [None] * len(sites)
            for value, (_, below) in zip(known, sites, strict=True):
                column.extend([value] * len(below))
        else:
            raise StructlearnError("SL132", name=name, known=", ".join((*FEATURES, ROLESET)))
    return columns


# Of nodes: a column over all nodes of the tree, made once.
def _of_nodes(nodes: RoleTree, name: str) -> Column:
    values = nodes.columns.get(name)
    if values is None:
        values = nodes.columns[name] = _OF_NODES[name](nodes)
    return values


def _tokens(nodes: RoleTree, values: Sequence[str | None], tokens: Iterable[int]) -> Column:
    """The values of the nodes that tokens are."""
    of_tokens = [values[leaf] for leaf in nodes.leaves]
    return [of_tokens[token] for token in tokens]


def _phrase(nodes: RoleTree) -> Column:
    return list(nodes.labels)


def _head(nodes: RoleTree) -> Column:
    return _tokens(nodes, nodes.words, nodes.heads)


def _head_tag(nodes: RoleTree) -> Column:
    return _tokens(nodes, nodes.labels, nodes.heads)


def _first_word(nodes: RoleTree) -> Column:
    return _tokens(nodes, nodes.words, nodes.starts)


def _first_tag(nodes: RoleTree) -> Column:
    return _tokens(nodes, nodes.labels, nodes.starts)


def _last_word(nodes: RoleTree) -> Column:
    return _tokens(nodes, nodes.words, (end - 1 for end in nodes.ends))


def _last_tag(nodes: RoleTree) -> Column:
    return _tokens(nodes, nodes.labels, (end - 1 for end in nodes.ends))


def _content(nodes: RoleTree) -> Column:
    return _tokens(nodes, nodes.words, _content_tokens(nodes))


def _content_tag(nodes: RoleTree) -> Column:
    return _tokens(nodes, nodes.labels, _content_tokens(nodes))


def _content_tokens(nodes: RoleTree) -> list[int]:
    """The token with the content of each node: of a phrase with a preposition or subordinator that
    of its last phrase, of a clause or verb phrase that of the verb phrase in it, else the head.
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


def _beside(nodes: RoleTree, values: Sequence[str | None], step: int) -> Column:
    """The values of the sisters to the left (step -1) or right (1)."""
    column: Column = [None] * len(nodes)
    for below in nodes.children:
        if len(below) > 1:
            for left, right in pairwise(below):
                if step < 0:
                    column[right] = values[left]
                else:
                    column[left] = values[right]
    return column


def _left(nodes: RoleTree) -> Column:
    return _beside(nodes, nodes.labels, -1)


def _left_head(nodes: RoleTree) -> Column:
    return _beside(nodes, _of_nodes(nodes, "head"), -1)


def _right(nodes: RoleTree) -> Column:
    return _beside(nodes, nodes.labels, 1)


def _right_head(nodes: RoleTree) -> Column:
    return _beside(nodes, _of_nodes(nodes, "head"), 1)


def _parent(nodes: RoleTree) -> Column:
    return [None if parent < 0 else nodes.labels[parent] for parent in nodes.parents]


def _parent_head(nodes: RoleTree) -> Column:
    heads = _of_nodes(nodes, "head")
    return [None if parent < 0 else heads[parent] for parent in nodes.parents]


def _governor(nodes: RoleTree) -> Column:
    column: Column = []
    for parent in nodes.parents:
        label = None if parent < 0 else nodes.labels[parent]
        column.append(label if parent < 0 or label in nodes.classes.governing else column[parent])
    return column


_OF_NODES: Mapping[str, Callable[[RoleTree], Column]] = {
    "phrase": _phrase,
    "head": _head,
    "head_tag": _head_tag,
    "first_word": _first_word,
    "first_tag": _first_tag,
    "last_word": _last_word,
    "last_tag": _last_tag,
    "content": _content,
    "content_tag": _content_tag,
    "left": _left,
    "left_head": _left_head,
    "right": _right,
    "right_head": _right_head,
    "parent": _parent,
    "parent_head": _parent_head,
    "governor": _governor,
}


# Of predicates: one value for all nodes of a site; the predicate is given as a node.
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


def _predicate_tag(nodes: RoleTree, leaf: int) -> str:
    return nodes.labels[leaf]


def _particle(nodes: RoleTree, leaf: int) -> str | None:
    parent = nodes.parents[leaf]
    for child in nodes.children[parent] if parent >= 0 else ():
        if child > leaf and nodes.labels[child] in nodes.classes.particles:
            return (nodes.words[nodes.leaves[nodes.starts[child]]] or "").lower()
    return None


_OF_PREDICATES: Mapping[str, Callable[[RoleTree, int], str | None]] = {
    "subcat": _subcat,
    "voice": _voice,
    "predicate_tag": _predicate_tag,
    "particle": _particle,
}


# Of both: the predicate is given as a token.
def _path(nodes: RoleTree, predicate: int, below: Sequence[int]) -> Column:
    names, parents = nodes.labels, nodes.parents
    node = nodes.leaves[predicate]
    path = collapsed(nodes, names[node])
    known = {node: path}  # the rest of the path from a node on
    while (node := parents[node]) >= 0:
        path = known[node] = f"{names[node]}↓{path}"
    return _climb(nodes, known, below)


def _partial_path(nodes: RoleTree, predicate: int, below: Sequence[int]) -> Column:
    leaf = nodes.leaves[predicate]
    known = {node: nodes.labels[node] for node in nodes.ancestors(leaf)}
    known[leaf] = collapsed(nodes, nodes.labels[leaf])
    return _climb(nodes, known, below)


def _climb(nodes: RoleTree, known: dict[int, str], below: Sequence[int]) -> Column:
    """From each node up to one whose path is known."""
    names, parents, verbs = nodes.labels, nodes.parents, nodes.classes.verbs
    column: Column = []
    for node in below:
        path = known.get(node)
        if path is None:
            way = [node]
            while (top := parents[way[-1]]) not in known:
                way.append(top)
            path = known[top]
            for step in reversed(way):
                name = names[step]
                path = known[step] = f"{nodes.classes.verb if name in verbs else name}↑{path}"
        column.append(path)
    return column


def _path_length(nodes: RoleTree, predicate: int, below: Sequence[int]) -> Column:
    known = {nodes.leaves[predicate]: 0}
    for length, node in enumerate(nodes.ancestors(nodes.leaves[predicate]), 1):
        known[node] = length
    column: Column = []
    for node in below:
        length = 0
        while node not in known:
            node = nodes.parents[node]
            length += 1
        column.append(str(length + known[node]))
    return column


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
    # What stands to the left and to the right of each place.
    left = ["_".join([*texts[:place], ""]) for place in range(len(texts) + 1)]
    right = ["_".join(["", *texts[place:]]) for place in range(len(texts) + 1)]
    column: Column = []
    for node in below:
        first, last = (bisect_left(begins, i) for i in nodes.span(node))
        if last != first + 1 or places[first][1] != node:
            last = first  # a node that is no pivot is put in, before the pivots that it holds
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


# Of predicates alone.
def predicate_features(
    nodes: RoleTree,
    tokens: Sequence[int],
    names: Sequence[str] = PREDICATE_FEATURES,
    *,
    lemmatize: Lemmatizer | None = lemma,
) -> dict[str, Column]:
    """What is asked about tokens that are, or may be, predicates: columns with a row for each.

    word, previous, next: the word and its neighbours in lower case; predicate_tag, previous_tag,
    next_tag: their tags. lemma, subcat, voice, particle: as in `features`. above: the label above
    its phrase, or chain of such phrases. before, after: the head words of the nearest noun phrase
    to the left, of those that may be arguments, and of the next phrase beside it to the right;
    after_phrase: the label of that. preposition: the head of the next prepositional phrase beside
    it. Raises SL131 for a token that is none, SL132 for a name that is none.
    """
    base = lemmatize or lower
    leaves = [nodes.predicate(token) for token in tokens]
    columns: dict[str, Column] = {}
    for name in names:
        if name in _OF_PREDICATES:
            columns[name] = [_OF_PREDICATES[name](nodes, leaf) for leaf in leaves]
        elif name == "lemma":
            columns[name] = [base(nodes.words[leaf] or "", nodes.labels[leaf]) for leaf in leaves]
        elif name in PREDICATE_FEATURES:
            columns[name] = [_OF_TOKENS[name](nodes, token) for token in tokens]
        else:
            raise StructlearnError("SL132", name=name, known=", ".join(PREDICATE_FEATURES))
    return columns


def _word(nodes: RoleTree, token: int) -> str | None:
    if not 0 <= token < len(nodes.leaves):
        return None
    return (nodes.words[nodes.leaves[token]] or "").lower()


def _tag(nodes: RoleTree, token: int) -> str | None:
    return nodes.labels[nodes.leaves[token]] if 0 <= token < len(nodes.leaves) else None


def _above(nodes: RoleTree, token: int) -> str | None:
    """The label above the phrase of the predicate; for a verb in a chain of verb phrases, above
    the chain.
    """
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
    return _word(nodes, nodes.heads[max(found, key=nodes.ends.__getitem__)]) if found else None


def _right_phrases(nodes: RoleTree, token: int) -> list[int]:
    """The phrases to the right of a token under the same node."""
    leaf = nodes.leaves[token]
    parent = nodes.parents[leaf]
    below = nodes.children[parent] if parent >= 0 else []
    return [child for child in below if child > leaf and nodes.children[child]]


def _after(nodes: RoleTree, token: int) -> str | None:
    found = _right_phrases(nodes, token)
    return _word(nodes, nodes.heads[found[0]]) if found else None


def _after_phrase(nodes: RoleTree, token: int) -> str | None:
    found = _right_phrases(nodes, token)
    return nodes.labels[found[0]] if found else None


def _preposition(nodes: RoleTree, token: int) -> str | None:
    for node in _right_phrases(nodes, token):
        if nodes.labels[node] in nodes.classes.preposition_phrases:
            return _word(nodes, nodes.heads[node])
    return None


_OF_TOKENS: Mapping[str, Callable[[RoleTree, int], str | None]] = {
    "word": _word,
    "previous": lambda nodes, token: _word(nodes, token - 1),
    "previous_tag": lambda nodes, token: _tag(nodes, token - 1),
    "next": lambda nodes, token: _word(nodes, token + 1),
    "next_tag": lambda nodes, token: _tag(nodes, token + 1),
    "above": _above,
    "before": _before,
    "after": _after,
    "after_phrase": _after_phrase,
    "preposition": _preposition,
}


def join_columns(parts: Iterable[Mapping[str, Collection[str | None]]]) -> dict[str, Column]:
    """The columns of several trees one behind the other; all must have the same names."""
    joined: dict[str, Column] = {}
    for part in parts:
        for name, column in part.items():
            joined.setdefault(name, []).extend(column)
    return joined
