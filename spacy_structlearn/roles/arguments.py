"""The most probable arguments of a predicate, given the probabilities of nodes.

The arguments are the best set of nodes that do not overlap (Toutanova, Haghighi & Manning 2005,
"Joint learning improves semantic role labeling", section 4). A candidate that is not an argument
adds log P(NONE | t), so this is the set with the greatest sum of gains

    gain(t, l) = log P(l | t) - log P(NONE | t).

Nodes that do not overlap are spans that do not overlap, so the maximum is computed from left to
right over the tokens, best(j) = max( best(j - 1), max over t = [i, j) of best(i) + gain(t) ). This
is as fast as their recursion over the tree, and can keep track of used labels, with a bit for each,
so that no label is used twice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from math import inf
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._arguments import outside
from .phrases import ArgumentNodes, RoleTrees
from .propositions import CONTINUATION, REFERENCE

Floats = NDArray[np.float64]
# Replaces the logarithm of 0, so that differences are numbers.
_IMPOSSIBLE = -1e9


def decode(
    nodes: RoleTrees,
    sites: ArgumentNodes,
    none: Floats,
    roles: Floats,
    *,
    once: Collection[int] = (),
    exempt: Collection[int] = (),
    further: Collection[int] = (),
) -> list[list[tuple[int, int]]]:
    """Return the best arguments of each predicate that do not overlap.

    sites: predicates with candidates, which are different nodes. Nodes that contain the predicate
        are not arguments.
    none: (n_candidates), log P(NONE | t).
    roles: (n_candidates, n_labels), log P(l | t) = log P(ARG | t) + log P(l | ARG, t).
    once: labels, by number, that at most one candidate of a predicate gets.
    exempt: indices of candidates that may have such a label in addition, such as relative pronouns
        after their antecedent.
    further: indices of candidates that may have such a label after an exempt one, as a further
        piece of it: "for" in "what are you looking for". No other candidate may.

    The results, (index of the candidate, label) from left to right, are exact and deterministic.
    Time is linear in the number of candidates, after sorting, and grows fourfold with each label
    that has to be limited.
    """
    gains = _gains(nodes, sites, none, roles)
    if not gains.size:
        return [[] for _ in sites.sizes]
    limits = _Limits(gains, frozenset(once), frozenset(exempt), frozenset(further))
    # Candidates without a positive gain only cost time.
    best, labels = gains.max(axis=1), gains.argmax(axis=1)
    ends, owners = nodes.stops[sites.nodes], sites.owners
    rows = np.lexsort((ends, owners))
    rows = rows[best[rows] > 0]
    columns = (values[rows].tolist() for values in (nodes.starts[sites.nodes], ends, labels))
    candidates = list(map(_Candidate, rows.tolist(), *columns))
    bounds = np.searchsorted(owners[rows], np.arange(len(sites.sizes) + 1)).tolist()
    return [_decode(candidates[begin:end], limits) for begin, end in pairwise(bounds)]


class _Candidate(NamedTuple):
    """A candidate by its index, its span, and its best label."""

    row: int
    start: int
    end: int
    label: int


class _Limits(NamedTuple):
    """Which labels may not recur, and the candidates that are not treated as others; see `decode`.

    A limited label has two bits: the lower one is set by candidates without exemption.
    """

    gains: Floats
    once: Collection[int]
    exempt: Collection[int]
    further: Collection[int]

    def bits(self, row: int, shift: int = 0) -> tuple[int, int]:
        """Return the bit that a candidate sets, and those that exclude it. shift: of the label."""
        plain, exempt = 1 << shift, 2 << shift
        if row in self.exempt:
            return exempt, 0
        return plain, plain if row in self.further else plain | exempt

    def repeated(self, arguments: Iterable[tuple[int, int]]) -> set[int]:
        """Return the labels that arguments, from left to right, may not all have."""
        used: defaultdict[int, int] = defaultdict(int)
        repeated: set[int] = set()
        for row, label in arguments:
            bit, excluding = self.bits(row)
            if label in self.once and used[label] & excluding:
                repeated.add(label)
            used[label] |= bit
        return repeated

    def options(
        self, candidate: _Candidate, limited: Sequence[int]
    ) -> Iterator[tuple[float, int, int, int]]:
        """Iterate over the best label and all limited labels of a candidate, if they have a
        positive gain: (gain, label, bit, bits that exclude it).
        """
        gains = self.gains[candidate.row].tolist()
        free = [-inf if label in limited else gain for label, gain in enumerate(gains)]
        if (best := max(free)) > 0:
            yield best, free.index(best), 0, 0
        for place, label in enumerate(limited):
            if gains[label] > 0:
                yield gains[label], label, *self.bits(candidate.row, 2 * place)


def _decode(candidates: Sequence[_Candidate], limits: _Limits) -> list[tuple[int, int]]:
    """Return the best arguments of one predicate. candidates: sorted by their ends."""
    limited: list[int] = []
    arguments = [(candidate.row, candidate.label) for candidate in candidates]
    if any(left.end > right.start for left, right in pairwise(candidates)):
        arguments = _best(candidates, limits, limited)
    # A result with too few limits can only be too good. As soon as it satisfies all of them it is
    # optimal. A limited label is never used twice.
    while repeated := limits.repeated(arguments):
        limited += sorted(repeated)
        arguments = _best(candidates, limits, limited)
    return arguments


def _best(
    candidates: Sequence[_Candidate], limits: _Limits, limited: Sequence[int]
) -> list[tuple[int, int]]:
    """Return the arguments with the greatest sum of gains. Masks are the bits of `limited`."""
    n_masks = 1 << 2 * len(limited)
    # Only 0 and the tokens after which candidates end are considered. For each of them and each
    # mask, the sum of gains, and the last argument with its label after the others.
    ends = [0]
    best: list[list[tuple[float, Any]]] = [[(0.0, None), *[(-inf, None)] * (n_masks - 1)]]
    for end, group in groupby(candidates, attrgetter("end")):
        values = list(best[-1])
        for candidate in group:
            before = best[bisect_right(ends, candidate.start) - 1]
            for gain, label, bit, excluding in limits.options(candidate, limited):
                for mask, (total, others) in enumerate(before):
                    if not mask & excluding and total + gain > values[mask | bit][0]:
                        values[mask | bit] = (total + gain, (others, candidate.row, label))
        ends.append(end)
        best.append(values)
    _, chain = max(best[-1], key=itemgetter(0))
    arguments: list[tuple[int, int]] = []
    while chain is not None:
        chain, row, label = chain
        arguments.append((row, label))
    return arguments[::-1]


def _gains(nodes: RoleTrees, sites: ArgumentNodes, none: Floats, roles: Floats) -> Floats:
    """Return gain(t, l), (n_candidates, n_labels), -inf if t contains the predicate."""
    gains = np.maximum(roles, 2 * _IMPOSSIBLE) - np.maximum(none, _IMPOSSIBLE)[:, None]
    predicates = np.repeat(sites.predicates, sites.sizes)
    starts, ends = nodes.starts[sites.nodes], nodes.stops[sites.nodes]
    gains[(starts <= predicates) & (predicates < ends)] = -np.inf
    return gains


def marginals(nodes: RoleTrees, sites: ArgumentNodes, none: Floats, roles: Floats) -> Floats:
    """Return the probability of each role of each candidate, given that arguments do not overlap.

    The arguments are those of `decode`. The probability of a set of arguments of a
    predicate is proportional to the product of P(l | t) over them and P(NONE | t) over all other
    candidates. The result, (n_candidates, n_labels), is the sum over all sets in which t has the
    role l.
    """
    gains = _gains(nodes, sites, none, roles)
    if not gains.size:
        return np.zeros_like(gains)
    weights = gains[:, 0].copy() if gains.shape[1] == 1 else np.logaddexp.reduce(gains, axis=1)
    starts, ends = nodes.starts[sites.nodes], nodes.stops[sites.nodes]
    around = outside(sites.sizes, starts, ends, weights)
    return np.exp(np.minimum(gains + around[:, None], 0.0))


# --- references and continuations -----------------------------------------------------------------
def mark_pieces(nodes: RoleTrees, arguments: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Add R- and C- to the arguments of one predicate, (label, node), and sort them.

    A relative phrase gets R- if an earlier argument, its antecedent, has the same label. Any other
    argument with a core role gets C- if an earlier argument has the same label. A noun phrase after
    a relative phrase does not: "who" and "Mary" in "Who did Mary invite?" are two people.
    """
    classes = nodes.classes
    seen: set[str] = set()
    begun: set[str] = set()  # by a phrase that is not relative
    marked: list[tuple[str, int]] = []
    for label, node in sorted(arguments, key=itemgetter(1)):  # in the order of the text
        phrase, prefix = nodes.label(node), ""
        if phrase in classes.relative:
            prefix = REFERENCE if label in seen else ""
        elif label in classes.core and (
            label in begun or (label in seen and phrase not in classes.noun_phrases)
        ):
            prefix = CONTINUATION
        else:
            begun.add(label)
        seen.add(label)
        marked.append((prefix + label, node))
    return marked
