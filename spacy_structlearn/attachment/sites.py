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
same sites. `chains_from_chunks` finds sites without a tree; `moves` changes attachments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..trees.heads import COLLINS
from ..trees.labels import VERBS, labels_of
from ..trees.normalize import EMPTY_TAG, strip_function
from ..trees.tree import PlacedNode, Tree, placed_nodes
from ..words.lemmas import Lemmatizer

VERB, NOUN = "V", "N"
LEAST = 1e-12  # probability, so that odds are finite
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


# Labels of phrases in the Penn Treebank, without function tags.
VERB_PHRASES = labels_of("VP")
NOUN_PHRASES = labels_of("NP")
PREPOSITION_PHRASES = labels_of("PP")
CLAUSES = labels_of("S")
QUANTITIES = labels_of("QP")
TEMPORAL = "TMP"  # the function tag of noun phrases that are not objects
# Tags. P and N2 in "for maintaining" have those of PREPOSITIONS and PARTICIPLES, and heads with one
# of NUMBERS are replaced by the last word with one of DIGITS (rule 4).
PREPOSITIONS = labels_of("IN TO")
PARTICIPLES = labels_of("VBG")
NUMBERS = labels_of("$ CD")
DIGITS = labels_of("CD")
# Only for chunks.
NOUNS = labels_of("NN NNS NNP NNPS PRP EX WP WDT")  # without a noun, a number is the head
PARTICLES = labels_of("RP RB RBR RBS")  # ignored between V and its object
POSSESSIVES = labels_of("POS")  # begins a chunk and joins it to the one before
FINITE = labels_of("VBD VBP VBZ MD AUX")  # a chunk right before one of these is a subject
PRONOUNS = labels_of("PRP")  # take no prepositional phrase


# --- sites of a tree ------------------------------------------------------------------------------
def sites(tree: Tree, *, every: bool = False) -> list[Site]:
    """Return the sites of a tree in the order of their prepositions, labelled as in the tree.

    every: include all prepositional phrases at an object and at its verb, not only the first of
        each kind, as in the quadruples of Ratnaparkhi et al.
    """
    result: list[Site] = []
    for places in places_of(tree):
        seen: set[str] = set()
        for site in filter(None, map(_site, places)):
            if every or site.label not in seen:
                seen.add(site.label)
                result.append(site)
    return sorted(result, key=attrgetter("preposition"))


def chains(tree: Tree) -> list[list[Site]]:
    """Return the chains of prepositional phrases behind the object of a verb, in order.

    A chain has a site for each phrase: "treated patients [with asthma] [with a low dose] [of it]".
    Later phrases can also belong to the nouns in earlier ones; if a phrase does in the tree, its
    site has the label "N" and this noun. If it belongs to the verb, the noun is the last one to
    which it could be attached without crossing another phrase. The first noun is the object.
    """
    return sorted(
        filter(None, map(_chain, places_of(tree))), key=lambda chain: chain[0].preposition
    )


def _chain(places: Iterable[Place]) -> list[Site]:
    """Return the sites of the phrases at a verb and its object, and of those in these phrases."""
    every = filter(None, map(_site, nested(places)))
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


def nested(places: Iterable[Place]) -> list[Place]:
    """Return places, and those of the phrases in their phrases, which are attached to nouns."""
    found: list[Place] = []
    waiting = list(places)
    while waiting:
        place = waiting.pop()
        if _site(place) is None:
            continue
        found.append(place)
        if (child := noun_phrase(place.phrase)) is not None:
            noun, inside = _noun(child)
            waiting += (Place(place.verb, child, noun, phrase, NOUN) for phrase in inside)
    return found


def noun_phrase(phrase: PlacedNode) -> PlacedNode | None:
    """Return the first noun phrase behind a preposition, or None."""
    return next((node for node in phrase.children[1:] if is_phrase(node, NOUN_PHRASES)), None)


def is_phrase(node: PlacedNode, wanted: frozenset[str]) -> bool:
    """Whether a node is a phrase with one of the `wanted` labels, and not empty."""
    return bool(node.children) and node.label in wanted


def _is_word(node: PlacedNode, wanted: frozenset[str]) -> bool:
    return node.word is not None and node.label in wanted


def _nodes(tree: Tree) -> list[PlacedNode]:
    """Return the nodes of a tree in pre-order. Their labels have no function tags, and their
    children are those with other leaves than traces. A phrase over nothing but a phrase with its
    label has the children of that one, which has none then, as in `normalize`.
    """
    nodes = placed_nodes(tree)
    for node in reversed(nodes):
        if node.word is None:
            node.children = [
                child
                for child in node.children
                if child.children or (child.word is not None and child.label != EMPTY_TAG)
            ]
            node.label = strip_function(node.label)
            if node.label in NOUN_PHRASES and TEMPORAL in node.tree.label.split("-"):
                node.label = f"{node.label}-{TEMPORAL}"  # not an object
            only = node.children[0] if len(node.children) == 1 else None
            if only is not None and only.children and only.label == node.label:
                node.children, only.children = only.children, []
    return nodes


def places_of(tree: Tree) -> Iterator[list[Place]]:
    """Yield, for each verb with an object, the prepositional phrases at the noun and then those
    at the verb, left to right (rules 1 and 2).
    """
    for node in _nodes(tree):
        if not is_phrase(node, VERB_PHRASES):
            continue
        children = iter(node.children)
        verb = next((child for child in children if _is_word(child, VERBS)), None)
        top = next(filter(None, map(_object, children)), None)
        if verb is None or top is None:
            continue
        outside = _prepositional(children)
        noun, inside = _noun(top)
        if is_phrase(_head_child(noun), PREPOSITION_PHRASES):
            continue  # there is no noun
        yield [
            *(Place(verb, top, noun, phrase, NOUN) for phrase in inside),
            *(Place(verb, top, noun, phrase, VERB) for phrase in outside),
        ]


def _noun(phrase: PlacedNode) -> tuple[PlacedNode, list[PlacedNode]]:
    """Return the lowest noun phrase on the path to the head of one, and the prepositional
    phrases under all of them.
    """
    inside: list[PlacedNode] = []
    while True:
        inside[:0] = _prepositional(phrase.children)
        head = _head_child(phrase)
        if not is_phrase(head, NOUN_PHRASES):
            return phrase, inside
        phrase = head


def _site(place: Place) -> Site | None:
    """Return the site, or None if the prepositional phrase has another form than in rule 3."""
    preposition, *rest = place.phrase.children
    if not _is_word(preposition, PREPOSITIONS):
        return None
    last = _complement(rest)
    noun = head_of(place.noun)
    if last is None or noun.start >= preposition.start:
        return None
    words = place.verb.start, noun.start, preposition.start, last.start
    return Site(*words, place.phrase.start, place.phrase.end, place.label)


def _prepositional(children: Iterable[PlacedNode]) -> list[PlacedNode]:
    """Return the prepositional phrases among these nodes."""
    return [child for child in children if is_phrase(child, PREPOSITION_PHRASES)]


def are_light(*trees: Tree) -> bool:
    """Whether nodes are punctuation or contain only traces."""
    return all(
        node.label in COLLINS.punctuation
        if node.word is not None and node.label != EMPTY_TAG
        else all(leaf.label == EMPTY_TAG for leaf in node.leaves())
        for node in trees
    )


def _head_child(node: PlacedNode) -> PlacedNode:
    # It reads words, labels and children.
    return node.children[COLLINS.head_child(node)]  # type: ignore[arg-type]


def head_of(phrase: PlacedNode) -> PlacedNode:
    """Return the head of a phrase, or its last number (rule 4)."""
    word = phrase
    while word.children:
        phrase, word = word, _head_child(word)
    if _is_word(word, NUMBERS) or is_phrase(phrase, QUANTITIES):
        digits = [child for child in phrase.children if _is_word(child, DIGITS)]
        return digits[-1] if digits else word
    return word


def _object(node: PlacedNode) -> PlacedNode | None:
    """Return a noun phrase that is a sister of the verb or all of a clause, or None."""
    while is_phrase(node, CLAUSES) and len(node.children) == 1:
        node = node.children[0]
    return node if is_phrase(node, NOUN_PHRASES) else None


def _complement(children: Iterable[PlacedNode]) -> PlacedNode | None:
    """Return the word N2, or None if there is neither a noun phrase nor a participle."""
    for child in children:
        if is_phrase(child, NOUN_PHRASES):
            return head_of(child)
        if is_phrase(child, CLAUSES) and len(child.children) == 1:
            node = child.children[0]
            if is_phrase(node, VERB_PHRASES):
                while node.children:
                    node = _head_child(node)
                if _is_word(node, PARTICIPLES):
                    return node
    return None


# --- decisions about chains -----------------------------------------------------------------------
# A classifier decides between the verb and one noun. With the odds o_j = P(N | v, n_j, p, n2) /
# P(V | v, n_j, p, n2), a phrase belongs to noun j with the probability o_j / (1 + sum o), and to
# the verb with 1 / (1 + sum o). Phrases are attached from left to right, and do not cross: once
# "with asthma" in "treated patients with asthma" belongs to the verb, the next phrase can only
# belong to the verb and to "asthma".
def alternatives(chain: Sequence[Site]) -> list[Site]:
    """Return a site for each phrase of a chain and each noun before it, in order."""
    nouns = [chain[0].noun, *(site.object for site in chain)] if chain else []
    return [
        site._replace(noun=noun) for place, site in enumerate(chain) for noun in nouns[: place + 1]
    ]


def odds_of_nouns(probabilities: NDArray[np.float64], labels: Sequence[str]) -> NDArray[np.float64]:
    """Return the odds of the noun against the verb, (n). probabilities: of the labels, (n, k)."""
    verb, noun = (
        # A label may not occur in the training data.
        probabilities[:, [own == label for own in labels]].sum(axis=1).clip(LEAST)
        for label in (VERB, NOUN)
    )
    return noun / verb


def decided(
    chain: Sequence[Site], odds: Iterable[float], *, given: bool = False
) -> list[tuple[Site, float]]:
    """Return the most probable sites of a chain with their probabilities.

    odds: for each of the `alternatives`, the odds of the noun against the verb. No more than these
        are taken from an iterator.
    given: return the sites as they are attached, with the probabilities of that.
    """
    decisions: list[tuple[Site, float]] = []
    every = zip(alternatives(chain), odds, strict=False)
    reachable = [chain[0].noun] if chain else []
    for place, site in enumerate(chain, 1):
        odds_of = {alternative.noun: odd for alternative, odd in islice(every, place)}
        total = 1.0 + sum(odds_of[noun] for noun in reachable)
        if not given:
            # Of equal nouns the nearest.
            noun = max(reversed(reachable), key=odds_of.__getitem__)
            site = site._replace(noun=noun, label=NOUN if odds_of[noun] > 1 else VERB)
        decisions.append((site, (odds_of[site.noun] if site.label == NOUN else 1.0) / total))
        reachable = opened(reachable, site)
    return decisions


# --- sites without a tree -------------------------------------------------------------------------
def chains_from_chunks(tags: Sequence[str], chunks: Iterable[tuple[int, int]]) -> list[list[Site]]:
    """Return the chains found by tags and noun phrase chunks, with sites of the label "".

    tags: one for each token of a sentence. chunks: (start, end) of the base noun phrases in order,
    end exclusive, as in `spacy_structlearn.trees.chunks`.

    A chain begins with a verb, a chunk (possibly after adverbs and particles), a preposition, and
    a chunk, and goes on with prepositions and chunks. The noun of a later site is the last word
    before its preposition that could be one. If a finite verb follows, its subject is the last
    chunk: the preposition is a conjunction, and there is no site.
    """
    result: list[list[Site]] = []
    verb = -1  # that of the chain so far, -1 for none
    for (start, stop), (begin, end) in pairwise(joined_chunks(tags, chunks)):
        continued = bool(result) and verb >= 0 and result[-1][-1].end == stop
        if not continued:
            verb = start - 1
            while verb >= 0 and tags[verb] in PARTICLES:
                verb -= 1
        joined = begin == stop + 1 and tags[stop] in PREPOSITIONS
        subject = end < len(tags) and tags[end] in FINITE
        if not joined or subject or verb < 0 or (not continued and tags[verb] not in VERBS):
            verb = -1
            continue
        noun, last = chunk_head(tags, start, stop), chunk_head(tags, begin, end)
        site = Site(verb, noun, stop, last, stop, end, "")
        if continued:
            result[-1].append(site)
        else:
            result.append([site])
    return result


def joined_chunks(tags: Sequence[str], chunks: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join chunks of possessors with those that follow: [the lawyer] ['s office]."""
    joined: list[tuple[int, int]] = []
    for start, end in chunks:
        if joined and joined[-1][1] == start and tags[start] in POSSESSIVES:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def chunk_head(tags: Sequence[str], start: int, end: int) -> int:
    """Return the last noun of a chunk, otherwise the last number, otherwise the last word."""
    for wanted in (NOUNS, DIGITS, NUMBERS):
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
