"""Decisions about the chains of prepositional phrases behind the object of a verb.

A classifier decides between the verb and one noun. For several nouns, the odds of each against the
verb are compared: with the odds o_j = P(N | v, n_j, p, n2) / P(V | v, n_j, p, n2), the phrase
belongs to noun j with the probability o_j / (1 + sum o), and to the verb with 1 / (1 + sum o).
Phrases are attached from left to right, and do not cross: once "with asthma" in "treated patients
with asthma" belongs to the verb, the next phrase can only belong to the verb and to "asthma".
"""

from __future__ import annotations

from collections.abc import Sequence

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
    found: list[tuple[Site, float]] = []
    reachable = [chain[0].noun] if chain else []
    first = 0
    for place, site in enumerate(chain):
        nouns = [chain[0].noun, *(before.object for before in chain[:place])]
        own = dict(zip(nouns, odds[first : first + place + 1], strict=True))
        first += place + 1
        total = 1.0 + sum(own[noun] for noun in reachable)
        # Of equal nouns the nearest.
        noun = max(reversed(reachable), key=own.__getitem__)
        label, odd = (NOUN, own[noun]) if own[noun] > 1 else (VERB, 1.0)
        site = site._replace(noun=noun, label=label)
        found.append((site, odd / total))
        reachable = opened(reachable, site)
    return found
