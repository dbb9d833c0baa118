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
from operator import attrgetter
from typing import NamedTuple

from ..trees.heads import COLLINS, HeadRules
from ..trees.labels import VERBS, labels_of
from ..trees.normalize import EMPTY_TAG, strip_function
from ..trees.placed import PlacedNode, placed_nodes
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
    result: list[Site] = []
    for places in nodes.places():
        seen: set[str] = set()
        for site in filter(None, map(nodes.site, places)):
            if every or site.label not in seen:
                seen.add(site.label)
                result.append(site)
    return sorted(result, key=attrgetter("preposition"))


def chains(tree: Tree, rules: HeadRules = COLLINS, labels: SiteLabels = PENN) -> list[list[Site]]:
    """Return the chains of prepositional phrases behind the object of a verb, in order.

    A chain has a site for each phrase: "treated patients [with asthma] [with a low dose] [of it]".
    Later phrases can also belong to the nouns in earlier ones; if a phrase does in the tree, its
    site has the label "N" and this noun. If it belongs to the verb, the noun is the last one to
    which it could be attached without crossing another phrase. The first noun is the object.
    """
    nodes = SiteNodes(tree, rules, labels)
    every = (_chain(nodes, places) for places in nodes.places())
    return sorted(filter(None, every), key=lambda chain: chain[0].preposition)


def _chain(nodes: SiteNodes, places: Iterable[Place]) -> list[Site]:
    """Return the sites of the phrases at a verb and its object, and of those in these phrases."""
    every: list[Site] = []
    waiting = [(place, site) for place in places if (site := nodes.site(place)) is not None]
    while waiting:
        place, site = waiting.pop()
        every.append(site)
        for child in place.phrase.children[1:]:
            if is_phrase(child, nodes.labels.noun_phrases):
                noun, inside = nodes.noun(child)
                below = (Place(place.verb, child, noun, phrase, NOUN) for phrase in inside)
                waiting += [(b, s) for b in below if (s := nodes.site(b)) is not None]
                break
    chain: list[Site] = []
    reachable: list[int] = []  # nouns, from left to right
    for site in sorted(every, key=attrgetter("preposition")):
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
    n_left = 0 if site.label == VERB else reachable.index(site.noun) + 1
    return [*reachable[:n_left], site.object]


class Place(NamedTuple):
    """The attachment of a prepositional phrase.

    verb: the word V. object: the noun phrase. noun: the phrase in the object whose head is N1.
    phrase: the prepositional phrase. label: "V" or "N".
    """

    verb: PlacedNode
    object: PlacedNode
    noun: PlacedNode
    phrase: PlacedNode
    label: str


def is_phrase(node: PlacedNode, wanted: frozenset[str]) -> bool:
    """Whether a node is a phrase with one of the `wanted` labels, and not empty."""
    return bool(node.children) and node.label in wanted


def _is_word(node: PlacedNode, wanted: frozenset[str]) -> bool:
    return node.word is not None and node.label in wanted


class SiteNodes:
    """The nodes of a tree in pre-order. Their labels have no function tags, and their children are
    those with other leaves than traces.
    """

    def __init__(self, tree: Tree, rules: HeadRules, labels: SiteLabels):
        self.rules, self.labels, self.nodes = rules, labels, placed_nodes(tree)
        for node in reversed(self.nodes):
            if node.word is None:
                node.children = [
                    child
                    for child in node.children
                    if child.children or (child.word is not None and child.label != labels.empty)
                ]
                node.label = strip_function(node.label)
                parts = node.tree.label.split("-")
                if labels.temporal in parts and node.label in labels.noun_phrases:
                    node.label = f"{node.label}-{labels.temporal}"  # not an object

    def places(self) -> Iterator[list[Place]]:
        """Yield, for each verb with an object, the prepositional phrases at the noun and then those
        at the verb, left to right (rules 1 and 2).
        """
        labels = self.labels
        for node in self.nodes:
            if not is_phrase(node, labels.verb_phrases):
                continue
            children = iter(node.children)
            verb = next((child for child in children if _is_word(child, labels.verbs)), None)
            top = next(filter(None, map(self._object, children)), None)
            if verb is None or top is None:
                continue
            outside = self.prepositional(children)
            noun, inside = self.noun(top)
            if is_phrase(self._head_child(noun), labels.preposition_phrases):
                continue  # there is no noun
            yield [
                *(Place(verb, top, noun, phrase, NOUN) for phrase in inside),
                *(Place(verb, top, noun, phrase, VERB) for phrase in outside),
            ]

    def noun(self, phrase: PlacedNode) -> tuple[PlacedNode, list[PlacedNode]]:
        """Return the lowest noun phrase on the path to the head of one, and the prepositional
        phrases under all of them.
        """
        inside: list[PlacedNode] = []
        while True:
            inside[:0] = self.prepositional(phrase.children)
            head = self._head_child(phrase)
            if not is_phrase(head, self.labels.noun_phrases):
                return phrase, inside
            phrase = head

    def site(self, place: Place) -> Site | None:
        """Return the site, or None if the prepositional phrase has another form than in rule 3."""
        preposition, *rest = place.phrase.children
        if not _is_word(preposition, self.labels.prepositions):
            return None
        last = self._complement(rest)
        noun = self._head(place.noun)
        if last is None or noun.start >= preposition.start:
            return None
        words = place.verb.start, noun.start, preposition.start, last.start
        return Site(*words, place.phrase.start, place.phrase.end, place.label)

    def prepositional(self, children: Iterable[PlacedNode]) -> list[PlacedNode]:
        """Return the prepositional phrases among these nodes."""
        return [child for child in children if is_phrase(child, self.labels.preposition_phrases)]

    def are_light(self, *trees: Tree) -> bool:
        """Whether nodes are punctuation or contain only traces."""
        return all(
            node.label in self.rules.punctuation
            if node.word is not None and node.label != self.labels.empty
            else all(leaf.label == self.labels.empty for leaf in node.leaves())
            for node in trees
        )

    def _head_child(self, node: PlacedNode) -> PlacedNode:
        # It reads words, labels and children.
        return node.children[self.rules.head_child(node)]  # type: ignore[arg-type]

    def _head(self, phrase: PlacedNode) -> PlacedNode:
        """Return the head of a phrase, or its last number (rule 4)."""
        labels, word = self.labels, phrase
        while word.children:
            phrase, word = word, self._head_child(word)
        if _is_word(word, labels.numbers) or is_phrase(phrase, labels.quantities):
            digits = [child for child in phrase.children if _is_word(child, labels.digits)]
            return digits[-1] if digits else word
        return word

    def _object(self, node: PlacedNode) -> PlacedNode | None:
        """Return a noun phrase that is a sister of the verb or all of a clause, or None."""
        while is_phrase(node, self.labels.clauses) and len(node.children) == 1:
            node = node.children[0]
        return node if is_phrase(node, self.labels.noun_phrases) else None

    def _complement(self, children: Iterable[PlacedNode]) -> PlacedNode | None:
        """Return the word N2, or None if there is neither a noun phrase nor a participle."""
        labels = self.labels
        for child in children:
            if is_phrase(child, labels.noun_phrases):
                return self._head(child)
            if is_phrase(child, labels.clauses) and len(child.children) == 1:
                node = child.children[0]
                if is_phrase(node, labels.verb_phrases):
                    while node.children:
                        node = self._head_child(node)
                    if _is_word(node, labels.participles):
                        return node
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
