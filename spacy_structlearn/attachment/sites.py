"""Sites of prepositional-phrase attachment.

A site is a verb, its object, and a prepositional phrase after the object, which belongs to the
verb ("ate pizza with a fork") or to the noun ("ate pizza with olives"). Ratnaparkhi, Reynar &
Roukos (1994), Collins & Brooks (1995) and Toutanova (2006, section 4) decide by the four words V N1
P N2. In a tree:

1. V is the first verb under a verb phrase, and the object is the first noun phrase among its
   sisters to the right. A temporal noun phrase (NP-TMP) is not an object, if there are function
   tags. A clause that consists of a noun phrase counts as this noun phrase: "named [director of the
   firm]".
2. N1 is the head of the object, or of the lowest noun phrase on the path to the head. Prepositional
   phrases under these noun phrases are attached to the noun, and those under the verb phrase, right
   of the object, to the verb. The first of each kind makes a site.
3. P is the first word of the prepositional phrase, and N2 the head of the noun phrase in it, or the
   participle in "for maintaining". Prepositional phrases of other forms make no site.
4. In a quantity, and if the head of a noun phrase is a number or a currency sign, the last number
   is used instead: "million" in "$ 4 million".

Traces are ignored and function tags removed, so that raw, normalised and predicted trees have the
same sites. `sites_from_chunks` finds sites without a tree; `moves` changes attachments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

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
    """A prepositional phrase that can be attached in two ways. All indices are tokens.

    verb, noun, preposition, object: the words V, N1, P, N2.
    start, end: the prepositional phrase, end exclusive.
    label: "V" for attachment to the verb, "N" to the noun, "" if unknown.
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
    """The labels of the rules, by default those of the Penn Treebank.

    verb_phrases, noun_phrases, preposition_phrases, clauses, quantities: labels of phrases, without
        function tags.
    temporal: the function tag of noun phrases that are not objects.
    verbs, prepositions: tags of V and P.
    participles: tags of N2 in "for maintaining".
    numbers: tags of heads that are replaced by the last word with a tag in `digits` (rule 4).
    empty: the tag of traces.

    Only for chunks:
    nouns: tags of heads of chunks; without a noun, a number is the head.
    particles: tags of words that are ignored between V and its object.
    possessives: tags of markers that begin a chunk and join it to the one before.
    finite: tags of verbs. A chunk right before one is a subject.
    pronouns: tags of heads that take no prepositional phrase.
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
    pronouns: frozenset[str] = labels_of("PRP")


PENN = SiteLabels()


# --- sites of a tree ------------------------------------------------------------------------------
def sites(
    tree: Tree, rules: HeadRules = COLLINS, labels: SiteLabels = PENN, *, every: bool = False
) -> list[Site]:
    """Return the sites of a tree in the order of their prepositions, labelled as in the tree.

    rules, labels: head rules and labels of the treebank.
    every: include all prepositional phrases at an object and at its verb, not only the first of
        each kind, as in the quadruples of Ratnaparkhi et al.
    """
    nodes = SiteNodes(tree, rules, labels)
    found: list[Site] = []
    for places in places_of(nodes):
        taken: set[str] = set()
        for site in filter(None, (_site(nodes, place) for place in places)):
            if every or site.label not in taken:
                taken.add(site.label)
                found.append(site)
    return sorted(found, key=lambda site: site.preposition)


def chains(tree: Tree, rules: HeadRules = COLLINS, labels: SiteLabels = PENN) -> list[list[Site]]:
    """Return the chains of prepositional phrases behind the object of a verb, in order.

    A chain has a site for each phrase: "treated patients [with asthma] [with a low dose] [of it]".
    Later phrases can also belong to the nouns in earlier ones; if a phrase does in the tree, its
    site has the label "N" and this noun. If it belongs to the verb, the noun is the last one to
    which it could be attached without crossing another phrase. The first noun is the object.
    """
    nodes = SiteNodes(tree, rules, labels)
    found = (_chain(nodes, places) for places in places_of(nodes))
    return sorted(filter(None, found), key=lambda chain: chain[0].preposition)


def _chain(nodes: SiteNodes, places: Iterable[Place]) -> list[Site]:
    """Return the sites of the phrases at a verb and its object, and of those in these phrases."""
    found: list[tuple[int, int, Site]] = []
    waiting = [(place, site) for place in places if (site := _site(nodes, place)) is not None]
    while waiting:
        place, site = waiting.pop()
        found.append((site.preposition, len(found), site))
        for child in nodes.children[place.phrase][1:]:
            if nodes.is_phrase(child, nodes.labels.noun_phrases):
                noun, inside = _noun(nodes, child)
                below = (Place(place.verb, child, noun, phrase, NOUN) for phrase in inside)
                waiting += [(b, s) for b in below if (s := _site(nodes, b)) is not None]
                break
    chain: list[Site] = []
    reachable: list[int] = []  # nouns, from left to right
    for *_, site in sorted(found):
        reachable = reachable or [site.noun]
        if site.label == VERB:
            site = site._replace(noun=reachable[-1])
        elif site.noun not in reachable:
            continue
        chain.append(site)
        reachable = opened(reachable, site)
    return chain


def opened(reachable: Sequence[int], site: Site) -> list[int]:
    """Return the nouns to which the next phrase can be attached, from left to right.

    reachable: the nouns to which the phrase of `site` could be attached.
    """
    kept = 0 if site.label == VERB else reachable.index(site.noun) + 1
    return [*reachable[:kept], site.object]


class SiteNodes:
    """The nodes of a tree by their number in pre-order.

    originals: the nodes.
    trees: the nodes without function tags and traces; None for nodes without other leaves.
    children: numbers of the remaining children, in the order of those in `trees`.
    parents: number of the parent, -1 at the top.
    ranks: position among the children of the original parent.
    spans: (start, end) in tokens of the whole tree, including traces.
    """

    def __init__(self, tree: Tree, rules: HeadRules, labels: SiteLabels):
        self.rules, self.labels = rules, labels
        self.originals = list(tree.subtrees())
        n = len(self.originals)
        self.trees: list[Tree | None] = [None] * n
        self.children: list[list[int]] = [[] for _ in range(n)]
        self.parents, self.ranks, self.spans = [-1] * n, [0] * n, [(0, 0)] * n
        end = sum(node.word is not None for node in self.originals)
        above: list[int] = []  # nodes whose parent comes later, the leftmost on top
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
                parts = [part for child in below if (part := self.trees[child]) is not None]
                if kept:
                    label = strip_function(node.label)
                    if label in labels.noun_phrases and labels.temporal in node.label.split("-"):
                        label = f"{label}-{labels.temporal}"  # not an object
                    self.trees[index] = Tree(label, parts)
                    self.children[index] = kept
            above.append(index)

    def is_phrase(self, index: int, wanted: frozenset[str]) -> bool:
        """Whether a node is a phrase with one of the `wanted` labels."""
        tree = self.trees[index]
        return tree is not None and tree.word is None and tree.label in wanted

    def is_word(self, index: int, wanted: frozenset[str]) -> bool:
        """Whether a node is a word with one of the `wanted` tags."""
        tree = self.trees[index]
        return tree is not None and tree.word is not None and tree.label in wanted

    def tree(self, index: int) -> Tree:
        """Return a node that is not empty, without function tags and traces."""
        tree = self.trees[index]
        assert tree is not None
        return tree

    def head_child(self, index: int) -> int:
        """Return the number of the head child of a phrase."""
        return self.children[index][self.rules.head_child(self.tree(index))]

    def head(self, index: int) -> int:
        """Return the head of a phrase, or its last number (rule 4)."""
        labels, phrase = self.labels, index
        while self.children[index]:
            phrase, index = index, self.head_child(index)
        if self.is_word(index, labels.numbers) or self.is_phrase(phrase, labels.quantities):
            digits = [c for c in self.children[phrase] if self.is_word(c, labels.digits)]
            index = digits[-1] if digits else index
        return index

    def prepositional(self, children: Iterable[int]) -> list[int]:
        """Return the prepositional phrases among these nodes."""
        return [
            child for child in children if self.is_phrase(child, self.labels.preposition_phrases)
        ]

    def around(self, index: int) -> tuple[list[Tree], list[Tree]]:
        """Return the sisters left and right of a node."""
        siblings, rank = self.originals[self.parents[index]].children, self.ranks[index]
        return list(siblings[:rank]), list(siblings[rank + 1 :])

    def are_light(self, *trees: Tree) -> bool:
        """Whether nodes are punctuation or contain only traces."""
        return all(
            node.label in self.rules.punctuation
            if node.word is not None and node.label != self.labels.empty
            else all(leaf.label == self.labels.empty for leaf in node.leaves())
            for node in trees
        )


class Place(NamedTuple):
    """The attachment of a prepositional phrase, in numbers of nodes.

    verb: the word V. object: the noun phrase. noun: the phrase in the object whose head is N1.
    phrase: the prepositional phrase. label: "V" or "N".
    """

    verb: int
    object: int
    noun: int
    phrase: int
    label: str


def places_of(nodes: SiteNodes) -> Iterator[list[Place]]:
    """Yield, for each verb with an object, the prepositional phrases at the noun and then those at
    the verb, left to right (rules 1 and 2).
    """
    labels = nodes.labels
    for index in range(len(nodes.originals)):
        if not nodes.is_phrase(index, labels.verb_phrases):
            continue
        children = nodes.children[index]
        verb = next((c for c in children if nodes.is_word(c, labels.verbs)), None)
        if verb is None:
            continue
        right = children[children.index(verb) + 1 :]
        found = ((i, _object(nodes, child)) for i, child in enumerate(right))
        position, top = next(((i, phrase) for i, phrase in found if phrase is not None), (0, None))
        if top is None:
            continue
        outside = nodes.prepositional(right[position + 1 :])
        noun, inside = _noun(nodes, top)
        if nodes.is_phrase(nodes.head_child(noun), labels.preposition_phrases):
            continue  # there is no noun
        yield [
            *(Place(verb, top, noun, phrase, NOUN) for phrase in inside),
            *(Place(verb, top, noun, phrase, VERB) for phrase in outside),
        ]


def _noun(nodes: SiteNodes, phrase: int) -> tuple[int, list[int]]:
    """Return the lowest noun phrase on the path to the head of one, and the prepositional phrases
    under all of them.
    """
    inside: list[int] = []
    while True:
        inside[:0] = nodes.prepositional(nodes.children[phrase])
        head = nodes.head_child(phrase)
        if not nodes.is_phrase(head, nodes.labels.noun_phrases):
            return phrase, inside
        phrase = head


def _object(nodes: SiteNodes, index: int) -> int | None:
    """Return a noun phrase that is a sister of the verb or all of a clause, or None."""
    while nodes.is_phrase(index, nodes.labels.clauses) and len(nodes.children[index]) == 1:
        index = nodes.children[index][0]
    return index if nodes.is_phrase(index, nodes.labels.noun_phrases) else None


def _site(nodes: SiteNodes, place: Place) -> Site | None:
    """Return the site, or None if the prepositional phrase has another form than in rule 3."""
    preposition, *rest = nodes.children[place.phrase]
    if not nodes.is_word(preposition, nodes.labels.prepositions):
        return None
    complement = _complement(nodes, rest)
    noun = nodes.head(place.noun)
    if complement is None or noun >= preposition:
        return None
    words = (place.verb, noun, preposition, complement)
    verb, noun, first, last = (nodes.spans[word][0] for word in words)
    return Site(verb, noun, first, last, *nodes.spans[place.phrase], place.label)


def _complement(nodes: SiteNodes, children: list[int]) -> int | None:
    """Return the word N2, or None if there is neither a noun phrase nor a participle."""
    labels = nodes.labels
    for child in children:
        if nodes.is_phrase(child, labels.noun_phrases):
            return nodes.head(child)
        if nodes.is_phrase(child, labels.clauses) and len(nodes.children[child]) == 1:
            index = nodes.children[child][0]
            if nodes.is_phrase(index, labels.verb_phrases):
                while nodes.children[index]:
                    index = nodes.head_child(index)
                if nodes.is_word(index, labels.participles):
                    return index
    return None


# --- sites without a tree -------------------------------------------------------------------------
def sites_from_chunks(
    tags: Sequence[str], chunks: Iterable[tuple[int, int]], labels: SiteLabels = PENN
) -> list[Site]:
    """Return the sites found by tags and noun phrase chunks, all with the label "".

    tags: one for each token of a sentence. chunks: (start, end) of the base noun phrases in order,
    end exclusive, as in `spacy_structlearn.trees.chunks`.

    A site is a sequence of a verb, a chunk (possibly after adverbs and particles), a preposition,
    and a chunk. If a finite verb follows, its subject is the last chunk: the preposition is a
    conjunction, and there is no site.
    """
    return [chain[0] for chain in chains_from_chunks(tags, chunks, labels)]


def chains_from_chunks(
    tags: Sequence[str], chunks: Iterable[tuple[int, int]], labels: SiteLabels = PENN
) -> list[list[Site]]:
    """Return the chains found by tags and chunks: a site, and one for each preposition and chunk
    that follow. The noun of a later site is the last word before its preposition that could be one.
    """
    found: list[list[Site]] = []
    verb = -1  # that of the chain so far, -1 for none
    for (start, stop), (begin, end) in pairwise(joined_chunks(tags, chunks, labels)):
        continued = bool(found) and verb >= 0 and found[-1][-1].end == stop
        if not continued:
            verb = start - 1
            while verb >= 0 and tags[verb] in labels.particles:
                verb -= 1
        joined = begin == stop + 1 and tags[stop] in labels.prepositions
        subject = end < len(tags) and tags[end] in labels.finite
        if not joined or subject or verb < 0 or (not continued and tags[verb] not in labels.verbs):
            verb = -1
            continue
        noun, last = chunk_head(tags, start, stop, labels), chunk_head(tags, begin, end, labels)
        site = Site(verb, noun, stop, last, stop, end, "")
        if continued:
            found[-1].append(site)
        else:
            found.append([site])
    return found


def joined_chunks(
    tags: Sequence[str], chunks: Iterable[tuple[int, int]], labels: SiteLabels
) -> list[tuple[int, int]]:
    """Join chunks of possessors with those that follow: [the lawyer] ['s office]."""
    joined: list[tuple[int, int]] = []
    for start, end in chunks:
        if joined and joined[-1][1] == start and tags[start] in labels.possessives:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def chunk_head(tags: Sequence[str], start: int, end: int, labels: SiteLabels) -> int:
    """Return the last noun of a chunk, otherwise the last number, otherwise the last word."""
    for wanted in (labels.nouns, labels.digits, labels.numbers):
        for index in reversed(range(start, end)):
            if tags[index] in wanted:
                return index
    return end - 1


# --- words ----------------------------------------------------------------------------------------
def quadruple(site: Site, words: Sequence[str]) -> Quadruple:
    """Return the words V, N1, P, N2 of a site. words: those of the sentence."""
    return words[site.verb], words[site.noun], words[site.preposition], words[site.object]


def normalized(quadruple: Quadruple, lemmatize: Lemmatizer | None = None) -> Quadruple:
    """Return the four words in lower case, with YEAR for numbers of four digits and NUM for other
    numbers (Collins & Brooks 1995, section 5.1).

    lemmatize: a function that maps verbs ("VB") and nouns ("NN") to base forms, such as
        `spacy_structlearn.words.lemmas.lemma`. None: keep the words.
    """

    def normal(word: str, tag: str) -> str:
        if _NUMBER.fullmatch(word):
            return "YEAR" if _YEAR.fullmatch(word) else "NUM"
        word = word.lower()
        return lemmatize(word, tag) if lemmatize is not None and tag else word

    verb, noun, preposition, last = quadruple
    return normal(verb, "VB"), normal(noun, "NN"), normal(preposition, ""), normal(last, "NN")
