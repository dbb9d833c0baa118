"""Sites of prepositional-phrase attachment: a verb, its object, and a prepositional phrase behind
the object that belongs to the verb ("ate pizza with a fork") or to the noun ("ate pizza with
olives"). A site gives the four words V N1 P N2 that Ratnaparkhi, Reynar & Roukos (1994), Collins &
Brooks (1995) and Toutanova (2006, section 4) decide from. In a tree:

1. V is a word under a verb phrase, the first if there are several, and the object the first noun
   phrase among its sisters to the right. A temporal noun phrase (NP-TMP) is no object, where
   function tags tell. A clause that holds a noun phrase and nothing else is seen through: "named
   [director of the firm]".
2. N1 is the head of the noun phrase that is reached from the object by going down to the head as
   long as that is a noun phrase. Prepositional phrases under the noun phrases on the way are
   attached to the noun, those under the verb phrase, right of the object, to the verb. Of either
   kind the first is taken.
3. P is the first word of the prepositional phrase, N2 the head of the noun phrase in it, or the
   participle in "for maintaining". Prepositional phrases of other forms make no site.
4. In a quantity, and wherever the head of a noun phrase is a number or a currency sign, the last
   number stands for it: "million" in "$ 4 million".

Traces are passed over and function tags cut, so raw, normalised and predicted trees are read alike.
`sites_from_chunks` finds sites without a tree; `reattach` makes a tree in which prepositional
phrases are attached as they should be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from ..errors import StructlearnError
from ..trees.heads import COLLINS, HeadRules
from ..trees.labels import VERBS, labels_of
from ..trees.normalize import EMPTY_TAG, strip_function
from ..trees.tree import Tree
from ..words.lemmas import Lemmatizer

VERB, NOUN = "V", "N"
Quadruple = tuple[str, str, str, str]

_YEAR = re.compile(r"\d{4}")
_NUMBER = re.compile(r"[-+.]?\d[\d.,:/\\-]*")


class Site(NamedTuple):
    """A prepositional phrase that can be attached in two ways; all indices are of tokens, the
    leaves of the tree.

    verb, noun, preposition, object: the words V, N1, P, N2. start, end: the prepositional phrase,
    end exclusive. label: "V" attached to the verb, "N" to the noun, "" where that is not known.
    """

    verb: int
    noun: int
    preposition: int
    object: int
    start: int
    end: int
    label: str


@dataclass(frozen=True)
class SiteLabels:
    """The labels that the rules speak of; the defaults are those of the Penn Treebank.

    verb_phrases, noun_phrases, preposition_phrases, clauses, quantities: labels of phrases without
    function tags. temporal: the function tag of noun phrases that are no objects. verbs,
    prepositions: tags of V and P. participles: tags of N2 in "for maintaining". numbers: tags of
    heads that the last word with a tag in `digits` stands for (rule 4). empty: the tag of traces.

    Only for chunks: nouns: tags of words that can be the head of a chunk; where there are none, a
    number is. particles: tags of words passed over between V and its object. possessives: tags of
    markers that begin a chunk and join it to the one before. finite: tags of verbs; a chunk right
    before one is a subject, so that the word before it is a conjunction.
    """

    verb_phrases: frozenset[str] = labels_of("VP")
    noun_phrases: frozenset[str] = labels_of("NP")
    preposition_phrases: frozenset[str] = labels_of("PP")
    clauses: frozenset[str] = labels_of("S")
    quantities: frozenset[str] = labels_of("QP")
    temporal: str = "TMP"
    verbs: frozenset[str] = VERBS
    prepositions: frozenset[str] = labels_of("IN TO")
    participles: frozenset[str] = labels_of("VBG")
    numbers: frozenset[str] = labels_of("$ CD")
    digits: frozenset[str] = labels_of("CD")
    empty: str = EMPTY_TAG
    nouns: frozenset[str] = labels_of("NN NNS NNP NNPS PRP EX WP WDT")
    particles: frozenset[str] = labels_of("RP RB RBR RBS")
    possessives: frozenset[str] = labels_of("POS")
    finite: frozenset[str] = labels_of("VBD VBP VBZ MD AUX")


PENN = SiteLabels()


# --- sites of a tree ------------------------------------------------------------------------------
def sites(
    tree: Tree, rules: HeadRules = COLLINS, labels: SiteLabels = PENN, *, every: bool = False
) -> list[Site]:
    """The sites of one tree in the order of their prepositions, each with the label of how the tree
    attaches it: the gold label in a gold tree, the parser's choice in a predicted one.

    rules: head rules of the treebank. labels: its labels. every: take all prepositional phrases at
    an object and at its verb, not only the first of either kind, which is what the quadruples of
    Ratnaparkhi et al. have. Source: the rules at the top of this module.
    """
    nodes = _Nodes(tree, labels)
    found: list[Site] = []
    for places in _places(nodes, rules, labels):
        taken: set[str] = set()
        for place in places:
            site = _site(nodes, place, rules, labels)
            if site is not None and (every or site.label not in taken):
                taken.add(site.label)
                found.append(site)
    return sorted(found, key=_preposition)


def _preposition(site: Site) -> int:
    return site.preposition


class _Nodes:
    """The nodes of a tree by their number in pre-order, as the rules see them.

    originals: the nodes as they are. trees: the same without function tags and traces; None where
    nothing is left. children: numbers of the children that are left, in the order of those in
    `trees`. parents: number of the node above, -1 at the top. ranks: place among the children of
    the original node above. spans: (start, end) in tokens of the whole tree, traces counted.
    """

    def __init__(self, tree: Tree, labels: SiteLabels):
        self.originals = list(tree.subtrees())
        n = len(self.originals)
        self.trees: list[Tree | None] = [None] * n
        self.children: list[list[int]] = [[] for _ in range(n)]
        self.parents, self.ranks, self.spans = [-1] * n, [0] * n, [(0, 0)] * n
        end = sum(node.word is not None for node in self.originals)
        above: list[int] = []  # nodes whose parent has not been met yet, the leftmost on top
        for index in reversed(range(n)):
            node = self.originals[index]
            if node.word is not None:
                end -= 1
                self.spans[index] = (end, end + 1)
                self.trees[index] = None if node.label == labels.empty else node
            else:
                below = [above.pop() for _ in node.children]
                for rank, child in enumerate(below):
                    self.parents[child], self.ranks[child] = index, rank
                self.spans[index] = (self.spans[below[0]][0], self.spans[below[-1]][1])
                kept = [child for child in below if self.trees[child] is not None]
                if kept:
                    label = _category(node.label, labels)
                    self.trees[index] = Tree(label, [self.trees[child] for child in kept])
                    self.children[index] = kept
            above.append(index)

    def is_phrase(self, index: int, wanted: frozenset[str]) -> bool:
        """Whether this is a phrase with one of the `wanted` labels."""
        tree = self.trees[index]
        return tree is not None and tree.word is None and tree.label in wanted

    def is_word(self, index: int, wanted: frozenset[str]) -> bool:
        """Whether this is a word with one of the `wanted` tags."""
        tree = self.trees[index]
        return tree is not None and tree.word is not None and tree.label in wanted

    def head_child(self, index: int, rules: HeadRules) -> int:
        return self.children[index][rules.head_child(self.trees[index])]

    def head(self, index: int, rules: HeadRules, labels: SiteLabels) -> int:
        """The word that stands for a phrase: its head, or the last number (rule 4)."""
        phrase = index
        while self.children[index]:
            phrase, index = index, self.head_child(index, rules)
        if self.is_word(index, labels.numbers) or self.is_phrase(phrase, labels.quantities):
            digits = [c for c in self.children[phrase] if self.is_word(c, labels.digits)]
            index = digits[-1] if digits else index
        return index


def _category(label: str, labels: SiteLabels) -> str:
    """The label without function tags and indices, except that a noun phrase stays temporal."""
    category = strip_function(label)
    if category in labels.noun_phrases and labels.temporal in label.split("-"):
        return f"{category}-{labels.temporal}"
    return category


class _Place(NamedTuple):
    """Where a prepositional phrase is attached; numbers of nodes.

    verb: the word V. object: the noun phrase. noun: the phrase whose head is N1, the object itself
    or one in it. phrase: the prepositional phrase. label: "V" or "N".
    """

    verb: int
    object: int
    noun: int
    phrase: int
    label: str


def _places(nodes: _Nodes, rules: HeadRules, labels: SiteLabels) -> Iterator[list[_Place]]:
    """For each verb with an object the prepositional phrases at the noun and those at the verb,
    either kind from left to right (rules 1 and 2).
    """
    for index in range(len(nodes.originals)):
        if not nodes.is_phrase(index, labels.verb_phrases):
            continue
        children = nodes.children[index]
        verb = next((c for c in children if nodes.is_word(c, labels.verbs)), None)
        if verb is None:
            continue
        right = children[children.index(verb) + 1 :]
        found = ((i, _object(nodes, child, labels)) for i, child in enumerate(right))
        position, top = next(((i, phrase) for i, phrase in found if phrase is not None), (0, None))
        if top is None:
            continue
        outside = _prepositional(nodes, right[position + 1 :], labels)
        inside: list[int] = []
        noun = top
        while True:
            inside[:0] = _prepositional(nodes, nodes.children[noun], labels)
            head = nodes.head_child(noun, rules)
            if not nodes.is_phrase(head, labels.noun_phrases):
                break
            noun = head
        if nodes.is_phrase(head, labels.preposition_phrases):
            continue  # nothing that is a noun
        yield [
            *(_Place(verb, top, noun, phrase, NOUN) for phrase in inside),
            *(_Place(verb, top, noun, phrase, VERB) for phrase in outside),
        ]


def _object(nodes: _Nodes, index: int, labels: SiteLabels) -> int | None:
    """The noun phrase that a sister of the verb is, or that is all of a clause; None if neither."""
    while nodes.is_phrase(index, labels.clauses) and len(nodes.children[index]) == 1:
        index = nodes.children[index][0]
    return index if nodes.is_phrase(index, labels.noun_phrases) else None


def _prepositional(nodes: _Nodes, children: Iterable[int], labels: SiteLabels) -> list[int]:
    return [child for child in children if nodes.is_phrase(child, labels.preposition_phrases)]


def _site(nodes: _Nodes, place: _Place, rules: HeadRules, labels: SiteLabels) -> Site | None:
    """The site, or None where the prepositional phrase has another form than rule 3 has."""
    preposition, *rest = nodes.children[place.phrase]
    if not nodes.is_word(preposition, labels.prepositions):
        return None
    complement = _complement(nodes, rest, rules, labels)
    if complement is None:
        return None
    noun = nodes.head(place.noun, rules, labels)
    if noun >= preposition:
        return None
    words = (place.verb, noun, preposition, complement)
    verb, noun, first, last = (nodes.spans[word][0] for word in words)
    return Site(verb, noun, first, last, *nodes.spans[place.phrase], place.label)


def _complement(
    nodes: _Nodes, children: list[int], rules: HeadRules, labels: SiteLabels
) -> int | None:
    """The word N2, or None if there is neither a noun phrase nor a participle."""
    for child in children:
        if nodes.is_phrase(child, labels.noun_phrases):
            return nodes.head(child, rules, labels)
        if nodes.is_phrase(child, labels.clauses) and len(nodes.children[child]) == 1:
            index = nodes.children[child][0]
            if nodes.is_phrase(index, labels.verb_phrases):
                while nodes.children[index]:
                    index = nodes.head_child(index, rules)
                if nodes.is_word(index, labels.participles):
                    return index
    return None


# --- sites without a tree -------------------------------------------------------------------------
def sites_from_chunks(
    tags: Sequence[str], chunks: Iterable[tuple[int, int]], labels: SiteLabels = PENN
) -> list[Site]:
    """The sites that tags and noun phrase chunks suggest, all with the label "".

    tags: one a token of one sentence. chunks: (start, end) of the base noun phrases, end exclusive,
    in order, as `spacy_structlearn.trees.chunks` has them. A site is a verb, a chunk right behind
    it (adverbs and particles may stand between), a preposition right behind that, and a chunk right
    behind this one. Where a verb follows that could have the last chunk for its subject, the
    preposition is taken for a conjunction, and there is no site.
    """
    phrases = _joined_chunks(tags, chunks, labels)
    found: list[Site] = []
    for (start, stop), (begin, end) in pairwise(phrases):
        if begin != stop + 1 or tags[stop] not in labels.prepositions:
            continue
        verb = start - 1
        while verb >= 0 and tags[verb] in labels.particles:
            verb -= 1
        if verb < 0 or tags[verb] not in labels.verbs:
            continue
        if end < len(tags) and tags[end] in labels.finite:
            continue
        noun, last = _chunk_head(tags, start, stop, labels), _chunk_head(tags, begin, end, labels)
        found.append(Site(verb, noun, stop, last, stop, end, ""))
    return found


def _joined_chunks(
    tags: Sequence[str], chunks: Iterable[tuple[int, int]], labels: SiteLabels
) -> list[tuple[int, int]]:
    """The chunks, each possessor one with what it possesses: [the lawyer] ['s office]."""
    joined: list[tuple[int, int]] = []
    for start, end in chunks:
        if joined and joined[-1][1] == start and tags[start] in labels.possessives:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _chunk_head(tags: Sequence[str], start: int, end: int, labels: SiteLabels) -> int:
    """The last noun of a chunk, the last number if there is none, or else the last word."""
    for wanted in (labels.nouns, labels.digits, labels.numbers):
        for index in reversed(range(start, end)):
            if tags[index] in wanted:
                return index
    return end - 1


# --- words ----------------------------------------------------------------------------------------
def quadruple(site: Site, words: Sequence[str]) -> Quadruple:
    """The words V, N1, P, N2 of a site, as they stand in the sentence; `words`: one a token."""
    return words[site.verb], words[site.noun], words[site.preposition], words[site.object]


def normalized(quadruple: Quadruple, lemmatize: Lemmatizer | None = None) -> Quadruple:
    """The four words in lower case, with YEAR for numbers of four digits and NUM for other numbers
    (Collins & Brooks 1995, section 5.1).

    lemmatize: a function of word and tag that gives base forms, for verbs ("VB") and nouns ("NN"),
    such as `spacy_structlearn.words.lemmas.lemma`; None: words as they are.
    """
    tags = ("VB", "NN", "", "NN")
    verb, noun, preposition, last = (
        _normalized(word, tag, lemmatize) for word, tag in zip(quadruple, tags, strict=True)
    )
    return verb, noun, preposition, last


def _normalized(word: str, tag: str, lemmatize: Lemmatizer | None) -> str:
    if _NUMBER.fullmatch(word):
        return "YEAR" if _YEAR.fullmatch(word) else "NUM"
    word = word.lower()
    return lemmatize(word, tag) if lemmatize is not None and tag else word


# --- attaching otherwise --------------------------------------------------------------------------
def reattach(
    tree: Tree,
    attachments: Iterable[Site | tuple[int, int, str]],
    rules: HeadRules = COLLINS,
    labels: SiteLabels = PENN,
) -> Tree:
    """The tree with prepositional phrases attached as `attachments` says.

    attachments: sites, or (start, end, label): a prepositional phrase of exactly these tokens, and
    "V" to attach it to the verb, a child of the verb phrase behind the object, or "N" to attach it
    to the noun, a child of a noun phrase over the object (of the object itself where that ends in a
    prepositional phrase already). Where the same phrase is named twice the last one counts.
    rules, labels: as for `sites`.

    A phrase stays where it is attached so already, where there are not both a verb and an object,
    where another phrase stands in between (punctuation and traces may), or where a conjunction
    joins it to a sister. A noun phrase left with a noun phrase only is replaced by that. Words,
    tags and all other phrases stay the same, and doing it again changes nothing. Raises SL120 for
    another label.
    """
    wanted: dict[tuple[int, int], str] = {}
    for attachment in attachments:
        start, end, label = attachment[-3:]
        if label not in (VERB, NOUN):
            raise StructlearnError("SL120", start=start, end=end, label=label)
        wanted[start, end] = label
    # One move can make room for another, so look again after each.
    while (moved := _first_move(tree, wanted, rules, labels)) is not None:
        tree = moved
    return tree


def _first_move(
    tree: Tree, wanted: dict[tuple[int, int], str], rules: HeadRules, labels: SiteLabels
) -> Tree | None:
    """The tree after the first move that is wanted and possible; None if there is none."""
    if not wanted:
        return None
    nodes = _Nodes(tree, labels)
    for places in _places(nodes, rules, labels):
        for place in places:
            label = wanted.get(nodes.spans[place.phrase], place.label)
            if label != place.label:
                move = _to_noun if label == NOUN else _to_verb
                moved = move(nodes, place, rules, labels)
                if moved is not None:
                    return moved
    return None


def _to_verb(nodes: _Nodes, place: _Place, rules: HeadRules, labels: SiteLabels) -> Tree | None:
    """Move a prepositional phrase out of the object, to the right of it."""
    verb_phrase = nodes.parents[place.verb]
    index = nodes.parents[place.phrase]
    left, right = _around(nodes, place.phrase)
    moved = [nodes.originals[place.phrase], *right]
    if not _all_light(right, rules, labels):
        return None
    while left and _is_light(left[-1], rules, labels):
        moved.insert(0, left.pop())
    if not left or nodes.spans[place.noun][0] > nodes.spans[place.phrase][0]:
        return None
    if left[-1].label in rules.coordinators:
        return None
    kept = _collapsed(nodes.originals[index].label, left)
    while nodes.parents[index] != verb_phrase:
        left, right = _around(nodes, index)
        if not _all_light(right, rules, labels):
            return None
        moved += right
        index = nodes.parents[index]
        kept = _collapsed(nodes.originals[index].label, [*left, kept])
    left, right = _around(nodes, index)
    return _replaced(nodes, verb_phrase, [*left, kept, *moved, *right])


def _to_noun(nodes: _Nodes, place: _Place, rules: HeadRules, labels: SiteLabels) -> Tree | None:
    """Move a prepositional phrase from the right of the object into it."""
    verb_phrase = nodes.parents[place.verb]
    phrases: list[int] = [place.object]  # from the object up to the sister of the verb
    while nodes.parents[phrases[-1]] != verb_phrase:
        if _around(nodes, phrases[-1])[1]:
            return None
        phrases.append(nodes.parents[phrases[-1]])
    left, right = _around(nodes, phrases[-1])
    distance = nodes.ranks[place.phrase] - nodes.ranks[phrases[-1]]
    between, right = right[: distance - 1], right[distance:]
    if not _all_light(between, rules, labels):
        return None
    behind = next((sister for sister in right if not _is_light(sister, rules, labels)), None)
    if behind is not None and behind.label in rules.coordinators:
        return None
    added = [*between, nodes.originals[place.phrase]]
    old = nodes.originals[place.object]
    children = nodes.children[place.object]
    if nodes.is_phrase(children[-1], labels.preposition_phrases):
        new = Tree(old.label, [*old.children, *added])
    else:
        new = Tree(old.label, [Tree(nodes.trees[place.object].label, old.children), *added])
    for lower, upper in pairwise(phrases):
        new = Tree(nodes.originals[upper].label, [*_around(nodes, lower)[0], new])
    return _replaced(nodes, verb_phrase, [*left, new, *right])


def _around(nodes: _Nodes, index: int) -> tuple[list[Tree], list[Tree]]:
    """The sisters left and right of a node."""
    siblings, rank = nodes.originals[nodes.parents[index]].children, nodes.ranks[index]
    return list(siblings[:rank]), list(siblings[rank + 1 :])


def _is_light(node: Tree, rules: HeadRules, labels: SiteLabels) -> bool:
    """Whether this is punctuation or holds nothing but traces."""
    if node.word is not None:
        return node.label == labels.empty or node.label in rules.punctuation
    return all(leaf.label == labels.empty for leaf in node.leaves())


def _all_light(trees: Iterable[Tree], rules: HeadRules, labels: SiteLabels) -> bool:
    return all(_is_light(tree, rules, labels) for tree in trees)


def _collapsed(label: str, children: list[Tree]) -> Tree:
    """A phrase, without a second bracket where its only child is a phrase of the same category."""
    only = children[0]
    if len(children) == 1 and strip_function(only.label) == strip_function(label):
        children = list(only.children) or children
    return Tree(label, children)


def _replaced(nodes: _Nodes, index: int, children: list[Tree]) -> Tree:
    """The whole tree with other children at one node."""
    new = Tree(nodes.originals[index].label, children)
    while (parent := nodes.parents[index]) >= 0:
        left, right = _around(nodes, index)
        new = Tree(nodes.originals[parent].label, [*left, new, *right])
        index = parent
    return new
