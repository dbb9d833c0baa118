"""Prepositional phrases in raw text that can only belong to one word.

Treebanks are too small to tell which verbs and nouns take which prepositions. In raw text with tags
and noun phrase chunks, a phrase right behind a verb, or behind a verb and a pronoun, belongs to the
verb ("looked at the roof", "reminded her of the day"), and a phrase behind a noun without a verb
before it belongs to the noun ("the roof of the house fell") (Hindle & Rooth 1993, section 4;
Ratnaparkhi 1998, section 3). These cases are counted, with and without a phrase.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from spacy_structlearn.attachment.sites import (
    FINITE,
    NOUN,
    PARTICLES,
    PREPOSITIONS,
    PRONOUNS,
    VERB,
    VERBS,
    chunk_head,
    joined_chunks,
)

WINDOW = 6
"""A verb that is further to the left does not compete with a noun."""


class Head(NamedTuple):
    """A verb or noun that alone can have a prepositional phrase at this place.

    label: "V" or "N". head: the word.
    preposition, object: the words of the phrase; -1 if no phrase follows.
    """

    label: str
    head: int
    preposition: int = -1
    object: int = -1


def unambiguous_heads(tags: Sequence[str], chunks: Iterable[tuple[int, int]]) -> Iterator[Head]:
    """Iterate over the verbs and nouns of a sentence that do not compete for a phrase.

    tags, chunks: as for `sites.chains_from_chunks`.
    A noun competes if it is the object of a verb, or if there is a verb among the `WINDOW` words
    before its chunk; a verb competes with its object, unless that is a pronoun.
    """
    phrases = joined_chunks(tags, chunks)
    ends = dict(phrases)
    last_verb, passed = -1, 0

    def behind(index: int, *, has_verb: bool = True) -> tuple[int, int]:
        """Return the words P and N2 of the phrase that begins at this word, or -1 twice."""
        end = ends.get(index + 1)
        if end is None or tags[index] not in PREPOSITIONS:
            return -1, -1
        # With a verb before it, this is a conjunction, and the chunk is a subject.
        if has_verb and end < len(tags) and tags[end] in FINITE:
            return -1, -1
        return index, chunk_head(tags, index + 1, end)

    for start, end in phrases:
        for index in range(passed, start):
            if tags[index] in VERBS:
                last_verb = index
        passed = start
        verb = start - 1
        while verb >= 0 and tags[verb] in PARTICLES:
            verb -= 1
        head = chunk_head(tags, start, end)
        if verb >= 0 and tags[verb] in VERBS:
            if tags[head] in PRONOUNS:
                yield Head(VERB, verb, *behind(end))
        elif tags[head] not in PRONOUNS and (last_verb < 0 or start - last_verb > WINDOW):
            yield Head(NOUN, head, *behind(end, has_verb=last_verb >= 0))
    for verb, tag in enumerate(tags):
        if tag in VERBS:
            after = verb + 1
            while after < len(tags) and tags[after] in PARTICLES:
                after += 1
            if after not in ends:
                yield Head(VERB, verb, *behind(after))
