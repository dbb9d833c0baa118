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
from collections.abc import Collection, Hashable, Iterable, Sequence
from math import inf
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import cumulative
from ..errors import StructlearnError
from ._arguments import outside
from .phrases import ArgumentNodes, RoleTrees
from .propositions import CONTINUATION, REFERENCE

T = TypeVar("T", bound=Hashable)

# Replaces the logarithm of 0, so that differences are numbers.
_IMPOSSIBLE = -1e9
# Smaller gains may be lost in a sum of the largest ones.
_TINY = 1e-5
# Possible roles of a candidate: (gain, label, bit, excluding). bit: set by the label, 0 for one
# without limit. excluding: the bits that exclude this role.
Options: TypeAlias = list[tuple[float, int, int, int]]


def decode(
    nodes: RoleTrees,
    sites: ArgumentNodes,
    none: ArrayLike,
    roles: ArrayLike,
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
    that has to be limited. Raises StructlearnError if an array has another shape or contains NaN.
    """
    gains = _gains(nodes, sites, none, roles)
    chosen: list[list[tuple[int, int]]] = [[] for _ in sites.predicates]
    if not gains.size:
        return chosen
    once, kinds = frozenset(once), _Kinds(frozenset(exempt), frozenset(further))
    best, labels, owners = gains.max(axis=1), gains.argmax(axis=1), sites.owners
    ends = nodes.stops[sites.nodes]
    rows = np.flatnonzero(best > 0)
    rows = rows[np.lexsort((ends[rows], owners[rows]))]
    hard = _conflicts(nodes, sites, rows, best, labels, once, kinds)
    for row, label, owner in zip(
        *(values.tolist() for values in (rows, labels[rows], owners[rows])), strict=True
    ):
        if owner not in hard:
            chosen[owner].append((row, label))
    ends_of_sites = cumulative(sites.sizes).tolist()
    for owner in hard:
        begin, end = ends_of_sites[owner : owner + 2]
        # The others only cost time.
        possible = [row for row in range(begin, end) if best[row] > 0]
        spans = [nodes.span(node) for node in sites.nodes[possible]]
        found = _decode(spans, gains[possible].tolist(), once, kinds.at(possible))
        chosen[owner] = [(possible[place], label) for place, label in found]
    return chosen


class _Kinds(NamedTuple):
    """The candidates that are not treated as others; see `decode`."""

    exempt: Collection[int]
    further: Collection[int]

    def at(self, rows: Sequence[int]) -> _Kinds:
        """Return the places of these candidates among some rows."""
        return _Kinds(*({place for place, row in enumerate(rows) if row in kind} for kind in self))

    def bits(self, place: int, bits: tuple[int, int]) -> tuple[int, int]:
        """Return the bit that a candidate with a label sets, and those that exclude it.

        bits: of the label, for candidates with and without the limit.
        """
        limited, exempt = bits
        if place in self.exempt:
            return exempt, 0
        return limited, limited if place in self.further else limited | exempt

    def repeated(self, chosen: Iterable[tuple[int, T]]) -> set[T]:
        """Return the labels that candidates, from left to right, may not all have."""
        taken: defaultdict[T, int] = defaultdict(int)
        found: set[T] = set()
        for place, label in chosen:
            bit, excluding = self.bits(place, (1, 2))
            if taken[label] & excluding:
                found.add(label)
            taken[label] |= bit
        return found


def _conflicts(
    nodes: RoleTrees,
    sites: ArgumentNodes,
    rows: NDArray[np.intp],
    best: NDArray[np.float64],
    labels: NDArray[np.intp],
    once: Collection[int],
    kinds: _Kinds,
) -> set[int]:
    """Return the sites that may not have all candidates with a positive gain as arguments.

    rows: these candidates, those of a site from left to right by their ends.
    """
    own = sites.at(rows)
    owners, starts, ends = own.owners, nodes.starts[own.nodes], nodes.stops[own.nodes]
    overlaps = (owners[1:] == owners[:-1]) & (starts[1:] < ends[:-1])
    # Rounding may make a sum equal to one of its terms.
    found = {*owners[1:][overlaps].tolist(), *owners[best[rows] < _TINY].tolist()}
    places = zip(rows.tolist(), owners.tolist(), labels[rows].tolist(), strict=True)
    limited = ((row, (owner, label)) for row, owner, label in places if label in once)
    return found | {owner for owner, _ in kinds.repeated(limited)}


def _decode(
    spans: Sequence[tuple[int, int]],
    gains: Sequence[Sequence[float]],
    once: Collection[int],
    kinds: _Kinds,
) -> list[tuple[int, int]]:
    """Return the best arguments of one predicate."""
    limited: list[int] = []
    while True:
        options = _options(gains, limited, kinds)
        chosen = _best(spans, options, 1 << 2 * len(limited))
        twice = kinds.repeated(pair for pair in chosen if pair[1] in once)
        if not twice:
            return chosen
        # A result with too few limits can only be too good. As soon as it satisfies all of them it
        # is optimal. A limited label is never used twice.
        limited += sorted(twice)


def _gains(
    nodes: RoleTrees, sites: ArgumentNodes, none: ArrayLike, roles: ArrayLike
) -> NDArray[np.float64]:
    """Return gain(t, l), (n_candidates, n_labels), -inf if t contains the predicate."""
    none = np.asarray(none, dtype=np.float64)
    roles = np.asarray(roles, dtype=np.float64)
    n = len(sites.nodes)
    if none.shape != (n,) or roles.ndim != 2 or len(roles) != n:
        problem = f"arrays of the shapes {none.shape} and {roles.shape}"
        raise StructlearnError("SL133", n=n, problem=problem)
    gains = np.maximum(roles, 2 * _IMPOSSIBLE) - np.maximum(none, _IMPOSSIBLE)[:, None]
    # Without labels there are no gains to check.
    if np.isnan(gains if gains.size else none).any():
        raise StructlearnError("SL133", n=n, problem="values that are not numbers")
    predicates = np.repeat(sites.predicates, sites.sizes)
    starts, ends = nodes.starts[sites.nodes], nodes.stops[sites.nodes]
    gains[(starts <= predicates) & (predicates < ends)] = -np.inf
    return gains


def _options(
    gains: Sequence[Sequence[float]], limited: Sequence[int], kinds: _Kinds
) -> list[Options]:
    """Return the best label and all limited labels of each candidate with a positive gain."""
    bits = {label: (1 << 2 * place, 2 << 2 * place) for place, label in enumerate(limited)}
    options: list[Options] = []
    for place, row in enumerate(gains):
        own: Options = []
        if row and max(row) > 0:
            free = row
            if bits:
                free = [-inf if label in bits else gain for label, gain in enumerate(row)]
            if (best := max(free)) > 0:
                own.append((best, free.index(best), 0, 0))
            own += [
                (row[label], label, *kinds.bits(place, pair))
                for label, pair in bits.items()
                if row[label] > 0
            ]
        options.append(own)
    return options


def _best(
    spans: Sequence[tuple[int, int]], options: Sequence[Options], n_masks: int
) -> list[tuple[int, int]]:
    """Return the spans and labels with the greatest sum of gains. Masks are sets of labels."""
    ending: defaultdict[int, list[int]] = defaultdict(list)
    for place, (_, end) in enumerate(spans):
        if options[place]:
            ending[end].append(place)
    # Only 0 and the tokens after which spans end are considered.
    marks = [0, *sorted(ending)]
    # For each mark and mask, the sum of gains, and the last span with its label after the others.
    best: list[list[tuple[float, Any]]] = [[(0.0, None), *[(-inf, None)] * (n_masks - 1)]]
    for mark in marks[1:]:
        values = list(best[-1])
        for place in ending[mark]:
            before = best[bisect_right(marks, spans[place][0]) - 1]
            for gain, label, bit, excluding in options[place]:
                for mask in range(n_masks):
                    total, others = before[mask]
                    if not mask & excluding and total + gain > values[mask | bit][0]:
                        values[mask | bit] = (total + gain, (others, place, label))
        best.append(values)
    _, chain = max(best[-1], key=itemgetter(0))
    chosen: list[tuple[int, int]] = []
    while chain is not None:
        chain, place, label = chain
        chosen.append((place, label))
    return chosen[::-1]


def marginals(
    nodes: RoleTrees, sites: ArgumentNodes, none: ArrayLike, roles: ArrayLike
) -> NDArray[np.float64]:
    """Return the probability of each role of each candidate, given that arguments do not overlap.

    The arguments and errors are those of `decode`. The probability of a set of arguments of a
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


def log_probabilities(
    arguments: ArrayLike, brackets: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return log P(ARG | t) and log P(NONE | t), float64 (n_candidates), in a predicted tree.

    arguments: (n_candidates), P(ARG | t) if t is a constituent.
    brackets: (n_candidates), the probability that t is a constituent.
    """
    product = np.asarray(arguments, dtype=np.float64) * np.asarray(brackets, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.log(product), np.log1p(-product)


def role_probabilities(
    nodes: RoleTrees,
    sites: ArgumentNodes,
    none: ArrayLike,
    arguments: NDArray[np.float64],
    rows: NDArray[np.intp],
    roles: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the probability of each role of some candidates, (m, n_labels); see `marginals`.

    none, arguments: (n_candidates), log P(NONE | t) and log P(ARG | t).
    rows: (m), the indices of these candidates.
    roles: (m, n_labels), their log P(l | ARG, t).
    """
    whole = marginals(nodes, sites, none, arguments[:, None])[rows, 0]
    return whole[:, None] * np.exp(roles)


# --- references and continuations -----------------------------------------------------------------
def is_relative(nodes: RoleTrees, node: int) -> bool:
    """Whether a node is a relative or interrogative phrase or word."""
    return nodes.label(node) in nodes.classes.relative


def is_noun_phrase(nodes: RoleTrees, node: int) -> bool:
    """Whether a node is a noun phrase."""
    return nodes.label(node) in nodes.classes.noun_phrases


def mark_pieces(nodes: RoleTrees, arguments: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Add R- and C- to the arguments of one predicate, (label, node), and sort them.

    A relative phrase gets R- if an earlier argument, its antecedent, has the same label. Any other
    argument with a core role gets C- if an earlier argument has the same label. A noun phrase after
    a relative phrase does not: "who" and "Mary" in "Who did Mary invite?" are two people.
    """
    ordered = sorted(arguments, key=itemgetter(1))  # in pre-order, hence in the order of the text
    seen: set[str] = set()
    begun: set[str] = set()
    marked: list[tuple[str, int]] = []
    for label, node in ordered:
        if is_relative(nodes, node):
            marked.append((REFERENCE + label if label in seen else label, node))
        elif label in nodes.classes.core and (
            label in begun or (label in seen and not is_noun_phrase(nodes, node))
        ):
            marked.append((CONTINUATION + label, node))
        else:
            marked.append((label, node))
            begun.add(label)
        seen.add(label)
    return marked
