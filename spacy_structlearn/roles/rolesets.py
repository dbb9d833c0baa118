"""The rolesets that a predicate can have in its tree.

A roleset with a particle, such as give_up.08, needs the particle behind its verb. A light verb,
such as make.LV, needs a noun that is a predicate. Rolesets of verbs that training data lack are
those of PropBank (Palmer, Gildea & Kingsbury 2005).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from .phrases import Nodes, RoleTrees, sisters

ROLESETS = Path(__file__).parents[1] / "data" / "propbank_frames" / "rolesets.tsv"
LIGHT = ".LV"  # in place of the number, in rolesets of verbs whose noun has the meaning


@lru_cache(maxsize=1)
def meanings() -> dict[str, str]:
    """Return the meanings of the rolesets of the table in the package, except of light verbs."""
    lines = ROLESETS.read_text(encoding="utf8").splitlines()
    return dict(line.split("\t") for line in lines if not line.startswith("#"))


@lru_cache(maxsize=1)
def inventory() -> Mapping[str, list[str]]:
    """Return the rolesets of each verb, by their numbers."""
    found: dict[str, list[str]] = {}
    for name in sorted(meanings(), key=lambda name: name.rpartition(".")[-1]):
        found.setdefault(verb_of(name), []).append(name)
    return found


def possible_rolesets(
    nodes: RoleTrees,
    predicates: Nodes,
    lemmas: Sequence[str],
    known: Sequence[Collection[str]],
    further: Mapping[str, Sequence[str]],
    with_nouns: bool = True,
) -> Iterator[list[str]]:
    """Yield the rolesets that each predicate can have.

    predicates: (n) tokens, all that are predicates. lemmas: of each. known: the rolesets of each in
        training. further: other rolesets of verbs, by their lemmas. with_nouns: whether nouns can
        be predicates, and light verbs need one.

    A particle, or an adverb behind an object ("gave her job up"), which taggers confuse with it,
    decides for the rolesets that have it. Otherwise the first of `further` is that of a
    verb that can have none of its known ones.
    """
    verbs = nodes.is_one_of(nodes.predicates(predicates), nodes.classes.verbs)
    near = sisters(nodes, predicates)
    nouns = np.isin(nodes.heads[near.nodes], predicates[~verbs])
    light = np.bincount(near.owners[nouns], minlength=len(lemmas)) >= int(with_nouns)
    after = nodes.starts[near.nodes] > predicates[near.owners]
    after &= nodes.parents[near.nodes] == nodes.parents[nodes.leaves[predicates]][near.owners]
    below, owners = near.nodes[after], near.owners[after].tolist()
    heads = nodes.lower.at(nodes.heads[below])
    single = nodes.stops[below] - nodes.starts[below] == 1
    is_particle = nodes.is_one_of(nodes.leaves[nodes.starts[below]], nodes.classes.particles)
    is_particle = single & (is_particle | nodes.is_one_of(below, nodes.classes.particles))
    is_adverb = single & nodes.is_one_of(below, nodes.classes.adverb_phrases)
    is_object = nodes.is_one_of(below, nodes.classes.noun_phrases)
    words: list[set[str | None]] = [set() for _ in lemmas]
    particles: dict[int, str | None] = {}
    objects: set[int] = set()
    for place, owner in enumerate(owners):
        word = heads.texts[heads.codes[place]]
        words[owner].add(word)
        if is_particle[place] or (is_adverb[place] and owner in objects):
            particles.setdefault(owner, word)
        elif is_object[place]:
            objects.add(owner)
    for row, (base, verb) in enumerate(zip(lemmas, verbs.tolist(), strict=True)):
        own, more = list(known[row]), list(further.get(base, ()))
        if verb:
            if more:  # rolesets of other verbs are those of unknown verbs
                own = [name for name in own if verb_of(name) == base]
            wanted = [particles.get(row)]
            with_it = [[n for n in names if _particle(n) == wanted] for names in (own, more)]
            if any(with_it):
                yield with_it[0] or with_it[1]
                continue
            own, more = (
                [n for n in names if words[row].issuperset(_particle(n))] for names in (own, more)
            )
            if not light[row]:
                own = [name for name in own if not name.endswith(LIGHT)]
        yield own or more[:1]


def _particle(roleset: str) -> list[str]:
    return roleset.rpartition(".")[0].split("_")[1:2]


def verb_of(roleset: str) -> str:
    """Return the verb that a roleset is named after."""
    return roleset.rpartition(".")[0].partition("_")[0]
