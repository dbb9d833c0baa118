"""Semantic roles in a tree: who did what to whom, as PropBank writes it (Palmer, Gildea & Kingsbury
2005), and the questions about a phrase and a predicate from which its role is told.

1. `read_props` reads trees with their propositions from the columns of the CoNLL shared tasks.
2. `RoleTree` numbers the nodes of a tree; an argument is a phrase in it, a bare word, or neither.
3. `candidates` are the nodes that can be arguments of a predicate (Xue & Palmer 2004, "Calibrating
   features for semantic role labeling", section 4).
4. `features` are the seven of Gildea & Jurafsky (2002), which Toutanova (2006, Table 2) uses, and
   the additional ones of Xue & Palmer (2004), Pradhan et al. (2005) and Surdeanu et al. (2003),
   as columns of strings or None, one row for each node; `predicate_features` has a row for each
   predicate.

Trees are in standard form: neither traces nor function tags (`spacy_structlearn.trees.normalize`).
"""

from __future__ import annotations

import gc
import os
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from sys import intern
from typing import NamedTuple, TypeAlias

from ..errors import StructlearnError
from .brackets import open_text, unescape
from .heads import COLLINS, HeadRules
from .lemmas import Lemmatizer, lemma
from .tree import Tree

CORE = frozenset({"ARG0", "ARG1", "ARG2", "ARG3", "ARG4", "ARG5", "ARGA"})
PREDICATE = "V"
REFERENCE, CONTINUATION, SPLIT = "R-", "C-", "-DSP"

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


# --- propositions ---------------------------------------------------------------------------------
class Argument(NamedTuple):
    """One piece of an argument, in tokens, end exclusive. label: "ARG0" to "ARG5", "ARGA",
    "ARGM-TMP" ...; "R-" before it for a relative pronoun, "C-" for the later pieces of an argument
    in several; "-DSP" behind it for a quotation that is split; "V" and "C-V" for the predicate.
    """

    label: str
    start: int
    end: int


class Proposition(NamedTuple):
    """A predicate and what belongs to it.

    predicate: its token. lemma: as written in the corpus. roleset: its sense, such as "give.01", or
    None. arguments: all pieces as written, the predicate's own among them, from left to right.
    """

    predicate: int
    lemma: str
    roleset: str | None
    arguments: tuple[Argument, ...]

    @property
    def roles(self) -> tuple[Argument, ...]:
        """The arguments without the predicate's own, V and C-V."""
        return tuple(piece for piece in self.arguments if base_label(piece.label) != PREDICATE)


PlainFrame: TypeAlias = tuple[int, str | None, Iterable[tuple[str, int, int]]]
"""A frame as plain data: the token of its predicate, its roleset if known, and its arguments as
(label, start, end)."""


class Sentence(NamedTuple):
    """A sentence of a corpus. document: its name there. number: of the sentence in the document.
    words, tags: one a token, words with real brackets. tree: over the same words and tags.
    """

    document: str
    number: int
    words: tuple[str, ...]
    tags: tuple[str, ...]
    tree: Tree
    propositions: tuple[Proposition, ...]


def base_label(label: str) -> str:
    """The role itself, without R-, C- and -DSP: "C-ARG1-DSP" is an ARG1."""
    while label.startswith((REFERENCE, CONTINUATION)):
        label = label[2:]
    return label.removesuffix(SPLIT)


def read_props(source: str | os.PathLike[str] | Iterable[str]) -> Iterator[Sentence]:
    """Read sentences with their propositions one after another.

    source: the name of a UTF-8 file (gzipped if it ends in .gz), an open text file, or any lines.
    One token a line and an empty line after a sentence; the columns, between white space, are the
    document, the number of the sentence, the number of the token, word, tag, parse bit, lemma or
    "-", roleset or "-", and a column for each predicate. Where as many tokens have a lemma as there
    are columns, but not as many have a roleset, those with a lemma are the predicates. Raises SL130
    with file and line for anything else.
    """
    if isinstance(source, (str, os.PathLike)):
        with open_text(source) as lines:
            yield from _sentences(lines, os.fspath(source))
    else:
        yield from _sentences(source, getattr(source, "name", "<lines>"))


def load_props(source: str | os.PathLike[str] | Iterable[str]) -> list[Sentence]:
    """All sentences of `source` at once, otherwise as `read_props`.

    Python's garbage collector is held off meanwhile, as in `load_trees`.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        return list(read_props(source))
    finally:
        if collecting:
            gc.enable()


def _sentences(lines: Iterable[str], path: str) -> Iterator[Sentence]:
    rows: list[list[str]] = []
    number = 0
    for number, line in enumerate(lines, 1):
        row = line.split()
        if row:
            rows.append(row)
        elif rows:
            yield _sentence(rows, path, number - len(rows))
            rows = []
    if rows:
        yield _sentence(rows, path, number - len(rows) + 1)


def _sentence(rows: list[list[str]], path: str, line: int) -> Sentence:
    """line: the number of the first row in the file."""
    width = len(rows[0])
    for place, row in enumerate(rows):
        if len(row) != width or width < 8:
            wanted = "8 or more" if width < 8 else f"{width}, as in the first line of the sentence"
            _fail(path, line + place, f"{len(row)} columns, expected are {wanted}")
    documents, numbers, _, words, tags, bits, lemmas, rolesets, *columns = zip(*rows, strict=True)
    if not numbers[0].isdecimal():
        _fail(path, line, f"{numbers[0]!r} is no number of a sentence")
    predicates = [token for token, roleset in enumerate(rolesets) if roleset != "-"]
    if len(predicates) != len(columns):
        predicates = [token for token, text in enumerate(lemmas) if text != "-"]
    if len(predicates) != len(columns):
        _fail(
            path, line, f"the sentence has {len(columns)} columns for {len(predicates)} predicates"
        )
    words = tuple(unescape(word) for word in words)
    tags = tuple(intern(tag) for tag in tags)
    tree = _tree(words, tags, bits, path, line)
    propositions = tuple(
        Proposition(
            token,
            lemmas[token],
            None if rolesets[token] == "-" else rolesets[token],
            _arguments(column, path, line),
        )
        for token, column in zip(predicates, columns, strict=True)
    )
    return Sentence(intern(documents[0]), int(numbers[0]), words, tags, tree, propositions)


def _fail(path: str, line: int, problem: str) -> None:
    raise StructlearnError("SL130", path=path, line=line, problem=problem)


def _bit(bit: str, path: str, line: int) -> tuple[list[str], int]:
    """The labels that open at a token, and how many brackets close after it."""
    opening, star, closing = bit.partition("*")
    first, *labels = opening.split("(")
    if not star or first or "" in labels or ")" in opening or closing.strip(")"):
        _fail(path, line, f"{bit!r} is neither a parse bit nor an argument, such as '(NP*)'")
    return labels, len(closing)


def _tree(
    words: Sequence[str], tags: Sequence[str], bits: Sequence[str], path: str, line: int
) -> Tree:
    root: list[Tree] = []
    stack: list[tuple[str, list[Tree]]] = [("", root)]
    for token, (word, tag, bit) in enumerate(zip(words, tags, bits, strict=True)):
        opened, closed = _bit(bit, path, line + token)
        stack.extend((intern(label), []) for label in opened)
        stack[-1][1].append(Tree(tag, (), word))
        if closed >= len(stack):
            _fail(path, line + token, f"the parse bit {bit!r} closes more brackets than are open")
        for _ in range(closed):
            label, children = stack.pop()
            stack[-1][1].append(Tree(label, children))
        if len(root) > 1:
            _fail(path, line + token, "a second tree begins, or a word stands outside of the tree")
    if len(stack) > 1:
        _fail(path, line + len(words) - 1, "the sentence ends inside its tree")
    return root[0]


def _arguments(column: Sequence[str], path: str, line: int) -> tuple[Argument, ...]:
    found: list[Argument] = []
    label, start = "", 0
    for token, cell in enumerate(column):
        if cell == "*":
            continue
        opened, closed = _bit(cell, path, line + token)
        if len(opened) > (not label) or closed > 1 or (closed and not label and not opened):
            _fail(path, line + token, f"{cell!r} does not fit: arguments follow one another")
        if opened:
            label, start = intern(opened[0]), token
        if closed:
            found.append(Argument(label, start, token + 1))
            label = ""
    if label:
        _fail(path, line + len(column) - 1, f"the sentence ends inside the argument {label}")
    return tuple(found)


# --- the labels of the rules ----------------------------------------------------------------------
def _labels(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclass(frozen=True)
class RoleLabels:
    """The labels and words that candidates and features speak of; the defaults are those of the
    Penn Treebank and of English.

    verbs: tags of verbs. verb: what stands for each of them in a path. participles: tags of verbs
    that can be passive. verb_phrases, noun_phrases, preposition_phrases, clauses: labels of
    phrases. subordinate: labels of phrases whose content is in their last phrase, as that of a
    prepositional phrase. governing: labels of what a phrase can be governed by. conjunctions: tags
    and labels of what coordinates. particles: tags and labels of verb particles. relative: tags and
    labels of relative and interrogative phrases. be, have, get: forms of these verbs, lower case.
    core: roles that a predicate has once, in several pieces if need be.
    """

    verbs: frozenset[str] = _labels("VB VBD VBG VBN VBP VBZ AUX AUXG")
    verb: str = "VB"
    participles: frozenset[str] = _labels("VBN")
    verb_phrases: frozenset[str] = _labels("VP")
    noun_phrases: frozenset[str] = _labels("NP")
    preposition_phrases: frozenset[str] = _labels("PP")
    clauses: frozenset[str] = _labels("S SQ SINV")
    subordinate: frozenset[str] = _labels("PP WHPP SBAR SBARQ")
    governing: frozenset[str] = _labels("S SQ SINV SBAR SBARQ VP")
    conjunctions: frozenset[str] = _labels("CC CONJP")
    particles: frozenset[str] = _labels("RP PRT")
    relative: frozenset[str] = _labels("WHNP WHPP WHADVP WHADJP WDT WP WP$ WRB")
    be: frozenset[str] = _labels("be am is are was were been being 's 're 'm ’s ’re ’m ai")
    have: frozenset[str] = _labels("have has had having 've 'd ’ve ’d")
    get: frozenset[str] = _labels("get gets got getting gotten")
    core: frozenset[str] = CORE


ENGLISH = RoleLabels()


def english_role_labels() -> RoleLabels:
    """The labels of the Penn Treebank and the auxiliaries of English, for the registry."""
    return ENGLISH


# Not any iterable: in a config a text in the place of a list is to be refused.
LabelList: TypeAlias = list[str] | tuple[str, ...]


def role_labels(
    verbs: LabelList = (),
    verb: str = "V",
    participles: LabelList = (),
    verb_phrases: LabelList = (),
    noun_phrases: LabelList = (),
    preposition_phrases: LabelList = (),
    clauses: LabelList = (),
    subordinate: LabelList = (),
    governing: LabelList = (),
    conjunctions: LabelList = (),
    particles: LabelList = (),
    relative: LabelList = (),
    be: LabelList = (),
    have: LabelList = (),
    get: LabelList = (),
    core: LabelList = (),
) -> RoleLabels:
    """The labels of another treebank, for the registry; see `RoleLabels`. What is not given is
    empty, and what would be asked of it is then the same of every phrase.
    """
    return RoleLabels(
        verbs=frozenset(verbs),
        verb=verb,
        participles=frozenset(participles),
        verb_phrases=frozenset(verb_phrases),
        noun_phrases=frozenset(noun_phrases),
        preposition_phrases=frozenset(preposition_phrases),
        clauses=frozenset(clauses),
        subordinate=frozenset(subordinate),
        governing=frozenset(governing),
        conjunctions=frozenset(conjunctions),
        particles=frozenset(particles),
        relative=frozenset(relative),
        be=frozenset(be),
        have=frozenset(have),
        get=frozenset(get),
        core=frozenset(core),
    )


def predicates(tags: Iterable[str], labels: RoleLabels = ENGLISH) -> list[int]:
    """The tokens that are verbs; PropBank counts auxiliaries among its predicates."""
    return [token for token, tag in enumerate(tags) if tag in labels.verbs]


# --- nodes ----------------------------------------------------------------------------------------
class RoleTree:
    """The nodes of a tree by their number in pre-order, 0 the root, words included.

    labels, words (None for a phrase), parents (-1 for the root), children, starts, ends (tokens,
    end exclusive), heads (the token that is the head): each has an entry for a node. leaves: the
    node of each token. rules, classes: the head rules and the labels that candidates and features
    go by.
    """

    __slots__ = ("_columns", "_nodes", "_sisters", "children", "classes", "ends", "heads", "labels")
    __slots__ += ("leaves", "parents", "rules", "starts", "tree", "words")

    def __init__(self, tree: Tree, rules: HeadRules = COLLINS, labels: RoleLabels = ENGLISH):
        self.tree, self.rules, self.classes = tree, rules, labels
        nodes = list(tree.subtrees())
        n = len(nodes)
        self.labels = [node.label for node in nodes]
        self.words = [node.word for node in nodes]
        self.leaves = [index for index, word in enumerate(self.words) if word is not None]
        self.parents, self.starts, self.ends, self.heads = [-1] * n, [0] * n, [0] * n, [0] * n
        self.children: list[list[int]] = [[]] * n
        position = len(self.leaves)
        above: list[int] = []  # nodes whose parent has not been met yet, the leftmost on top
        for index in range(n - 1, -1, -1):
            node = nodes[index]
            if node.word is not None:
                self.ends[index] = position
                position -= 1
                self.starts[index] = self.heads[index] = position
            else:
                number = len(node.children)
                below = above[: -number - 1 : -1]
                del above[-number:]
                for child in below:
                    self.parents[child] = index
                self.children[index] = below
                self.starts[index], self.ends[index] = self.starts[below[0]], self.ends[below[-1]]
                head = rules.head_child(node) if number > 1 else 0
                self.heads[index] = self.heads[below[head]]
            above.append(index)
        self._nodes: dict[tuple[int, int], int] | None = None
        self._sisters: dict[int, list[int]] = {}
        self._columns: dict[str, list[str | None]] = {}

    def __len__(self) -> int:
        return len(self.labels)

    def span(self, node: int) -> tuple[int, int]:
        """(start, end) in tokens."""
        return self.starts[node], self.ends[node]

    def node(self, start: int, end: int) -> int | None:
        """The highest node over exactly these tokens; a word where it has no phrase of its own;
        None where there is no such node.
        """
        if self._nodes is None:
            self._nodes = {}
            for index, span in enumerate(zip(self.starts, self.ends, strict=True)):
                self._nodes.setdefault(span, index)
        return self._nodes.get((start, end))

    def pieces(self, start: int, end: int) -> list[int]:
        """The fewest nodes that make up these tokens, from left to right, each the highest of its
        span. Raises SL131 for a span that is empty or goes beyond the tokens.
        """
        if not 0 <= start < end <= len(self.leaves):
            raise StructlearnError("SL131", what=f"span ({start}, {end})", n=len(self.leaves))
        found: list[int] = []
        while start < end:
            node = self.leaves[start]
            while (parent := self.parents[node]) >= 0 and (
                self.starts[parent] == start and self.ends[parent] <= end
            ):
                node = parent
            found.append(node)
            start = self.ends[node]
        return found

    def predicate(self, token: int) -> int:
        """The node of a token. Raises SL131 if there is none."""
        if not 0 <= token < len(self.leaves):
            raise StructlearnError("SL131", what=f"token {token}", n=len(self.leaves))
        return self.leaves[token]

    def ancestors(self, node: int) -> Iterator[int]:
        """The nodes above a node, from the nearest to the root."""
        while (node := self.parents[node]) >= 0:
            yield node


def argument_nodes(
    nodes: RoleTree, arguments: Iterable[Argument], *, split: bool = True
) -> list[tuple[str, int]]:
    """The nodes that arguments are, as (label, node), in the order of the arguments.

    An argument that is no node gives a node for each of its pieces, those after the first labelled
    C-; without `split` it is left out. Raises SL131 as `RoleTree.pieces`.
    """
    found: list[tuple[str, int]] = []
    for label, start, end in arguments:
        node = nodes.node(start, end)
        if node is not None:
            found.append((label, node))
        elif split:
            first, *rest = nodes.pieces(start, end)
            later = label if label.startswith(CONTINUATION) else CONTINUATION + label
            found.append((label, first))
            found.extend((later, piece) for piece in rest)
    return found


def gold_roles(
    nodes: RoleTree, arguments: Iterable[Argument], candidates: Sequence[int]
) -> list[str | None]:
    """The role of each candidate, without R- and C-; None for one that is no argument.

    arguments: those of one predicate, `Proposition.roles`. The tree may be another than the one
    that they were annotated in: an argument that is no node of it is found in its pieces.
    """
    roles = {node: base_label(label) for label, node in argument_nodes(nodes, arguments)}
    return [roles.get(node) for node in candidates]


# --- candidates -----------------------------------------------------------------------------------
def candidates(nodes: RoleTree, predicate: int) -> list[int]:
    """The nodes that can be arguments of a predicate, a token, in ascending order.

    They are the sisters of the predicate and of each node above it, and the children of those that
    are prepositional phrases. Punctuation is left out, and so is what is coordinated: where a
    conjunction is a sister, it and the sisters with the same label. Source: Xue & Palmer (2004).
    Raises SL131 for a token that is none.
    """
    found: list[int] = []
    for node in _sisters(nodes, predicate):
        found.append(node)
        below = nodes.children[node]
        if len(below) > 1 and nodes.labels[node] in nodes.classes.preposition_phrases:
            found.extend(child for child in below if not _is_punctuation(nodes, child))
    return sorted(found)


def _is_punctuation(nodes: RoleTree, node: int) -> bool:
    return nodes.words[node] is not None and nodes.labels[node] in nodes.rules.punctuation


def _sisters(nodes: RoleTree, predicate: int) -> list[int]:
    """The sisters on the way from the predicate to the root, without punctuation and what is
    coordinated, nearest level first.
    """
    found = nodes._sisters.get(predicate)
    if found is not None:
        return found
    found = []
    below = nodes.predicate(predicate)
    punctuation = nodes.rules.punctuation
    for parent in nodes.ancestors(below):
        sisters = [child for child in nodes.children[parent] if child != below]
        if sisters:
            names = [nodes.labels[child] for child in sisters]
            own = _collapsed(nodes, nodes.labels[below])
            same = [_collapsed(nodes, name) == own for name in names]
            coordinated = any(same) and not nodes.classes.conjunctions.isdisjoint(names)
            found.extend(
                child
                for child, name, alike in zip(sisters, names, same, strict=True)
                if not (coordinated and (alike or name in nodes.classes.conjunctions))
                and (name not in punctuation or nodes.words[child] is None)
            )
        below = parent
    nodes._sisters[predicate] = found
    return found


def _collapsed(nodes: RoleTree, label: str) -> str:
    """The label as it stands in a path: one for all tags of verbs."""
    return nodes.classes.verb if label in nodes.classes.verbs else label


# --- features -------------------------------------------------------------------------------------
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
                word = nodes.words[leaf] or ""
                value = lemmatize(word, nodes.labels[leaf]) if lemmatize else word.lower()
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
    values = nodes._columns.get(name)
    if values is None:
        values = nodes._columns[name] = _OF_NODES[name](nodes)
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
    path = _collapsed(nodes, names[node])
    known = {node: path}  # the rest of the path from a node on
    while (node := parents[node]) >= 0:
        path = known[node] = f"{names[node]}↓{path}"
    return _climb(nodes, known, below)


def _partial_path(nodes: RoleTree, predicate: int, below: Sequence[int]) -> Column:
    leaf = nodes.leaves[predicate]
    known = {node: nodes.labels[node] for node in nodes.ancestors(leaf)}
    known[leaf] = _collapsed(nodes, nodes.labels[leaf])
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
        for node in _sisters(nodes, predicate)
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
    leaves = [nodes.predicate(token) for token in tokens]
    columns: dict[str, Column] = {}
    for name in names:
        if name in _OF_PREDICATES:
            columns[name] = [_OF_PREDICATES[name](nodes, leaf) for leaf in leaves]
        elif name == "lemma":
            columns[name] = [
                (lemmatize or _lower)(nodes.words[leaf] or "", nodes.labels[leaf])
                for leaf in leaves
            ]
        elif name in PREDICATE_FEATURES:
            columns[name] = [_OF_TOKENS[name](nodes, token) for token in tokens]
        else:
            raise StructlearnError("SL132", name=name, known=", ".join(PREDICATE_FEATURES))
    return columns


def _lower(word: str, tag: str) -> str:
    return word.lower()


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
        for node in _sisters(nodes, token)
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
