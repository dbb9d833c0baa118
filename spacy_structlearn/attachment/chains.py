"""Decisions about the chains of prepositional phrases behind the object of a verb.

A classifier decides between the verb and one noun. For several nouns, the odds of each against the
verb are compared: with the odds o_j = P(N | v, n_j, p, n2) / P(V | v, n_j, p, n2), the phrase
belongs to noun j with the probability o_j / (1 + sum o), and to the verb with 1 / (1 + sum o).
Phrases are attached from left to right, and do not cross: once "with asthma" in "treated patients
with asthma" belongs to the verb, the next phrase can only belong to the verb and to "asthma".
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from .sites import NOUN, VERB, Site, opened


def alternatives(chain: Sequence[Site]) -> list[Site]:
    """Return a site for each phrase of a chain and each noun before it, in order."""
    nouns = [chain[0].noun, *(site.object for site in chain)] if chain else []
    return [
        site._replace(noun=noun) for place, site in enumerate(chain) for noun in nouns[: place + 1]
    ]


def decided(chain: Sequence[Site], odds: Sequence[float]) -> list[tuple[Site, float]]:
    """Return the most probable sites of a chain with their probabilities.

    odds: for each of the `alternatives`, the odds of the noun against the verb.
    """
    decisions: list[tuple[Site, float]] = []
    every = zip(alternatives(chain), odds, strict=True)
    reachable = [chain[0].noun] if chain else []
    for place, site in enumerate(chain, 1):
        odds_of = {alternative.noun: odd for alternative, odd in islice(every, place)}
        total = 1.0 + sum(odds_of[noun] for noun in reachable)
        # Of equal nouns the nearest.
        noun = max(reversed(reachable), key=odds_of.__getitem__)
        label, odd = (NOUN, odds_of[noun]) if odds_of[noun] > 1 else (VERB, 1.0)
        site = site._replace(noun=noun, label=label)
        decisions.append((site, odd / total))
        reachable = opened(reachable, site)
    return decisions
