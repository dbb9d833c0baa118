"""From probabilities of nodes to the arguments of a predicate: the best set of nodes that do not
overlap (Toutanova, Haghighi & Manning 2005, "Joint learning improves semantic role labeling",
section 4), and the labels of what refers to an argument or continues it.

Bottom-up over the tree, with none(t) and best(t) the best log probability of the nodes under t
and t itself without and with arguments among them,

    none(t) = log P(NONE | t) + sum of none(children)
    best(t) = max( log P(NONE | t) + sum of best(children),
                   max_l log P(l | t) + sum of none(children) ),

and log P(NONE) = 0 for nodes that are no candidates. So each candidate that is no argument adds its
log P(NONE), wherever it is, and the best set is the one with the greatest sum of gains

    gain(t, l) = log P(l | t) - log P(NONE | t).

Sets of nodes that do not overlap are sets of spans that do not overlap, so the maximum is found
from left to right over the tokens, best(j) = max( best(j - 1), max over t = [i, j) of best(i) +
gain(t) ). That takes as little time as the recursion over the tree, and, unlike it, has room for
what has been used already: with a bit for each label, no label is taken twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from operator import itemgetter
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import StructlearnError
from .srl import CONTINUATION, CORE, REFERENCE, RoleTree

# Stands for the logarithm of 0, so that differences are numbers.
_IMPOSSIBLE = -1e9
# A candidate's possible roles: (gain, label, bit); bit 0 for a label that may be taken again.
Options: TypeAlias = list[tuple[float, int, int]]


def decode(
    nodes: RoleTree,
    predicate: int,
    candidates: Sequence[int],
    none: ArrayLike,
    roles: ArrayLike,
    *,
    once: Collection[int] = (),
    exempt: Collection[int] = (),
) -> list[tuple[int, int]]:
    """The best arguments of a predicate that do not overlap.

    predicate: a token; nodes that hold it are no arguments. candidates: nodes, different ones.
    none: log P(NONE | t), (n_candidates). roles: log P(l | t), that is log P(ARG | t) + log P(l |
    ARG, t), (n_candidates, n_labels). once: labels, by number, that at most one candidate gets.
    exempt: places among the candidates that this does not concern, such as relative pronouns.
    Returns (place among the candidates, label) from left to right. The result is exact, and where
    several sets are equally good always the same one. Raises SL133 for arrays of other shapes or
    with values that are not numbers.

    Time is linear in tokens and candidates, and with `once` doubles for each label that would
    otherwise be taken twice.
    """
    gains = _gains(nodes, predicate, candidates, none, roles)
    spans = [nodes.span(node) for node in candidates]
    limited: list[int] = []
    while True:
        options = _options(gains, limited, exempt)
        chosen = _best(spans, options, len(nodes.leaves), 1 << len(limited))
        taken = [label for place, label in chosen if label in once and place not in exempt]
        twice = {label for label in taken if taken.count(label) > 1}
        if not twice:
            return chosen
        # With too few limits the result can only be too good: as soon as it keeps to all of them
        # it is the best that does. A label that is limited is never taken twice.
        limited += sorted(twice)


def _gains(
    nodes: RoleTree, predicate: int, candidates: Sequence[int], none: ArrayLike, roles: ArrayLike
) -> NDArray[np.float64]:
    """gain(t, l), -inf where t holds the predicate, (n_candidates, n_labels)."""
    none = np.asarray(none, dtype=np.float64)
    roles = np.asarray(roles, dtype=np.float64)
    n = len(candidates)
    if none.shape != (n,) or roles.ndim != 2 or len(roles) != n:
        problem = f"arrays of the shapes {none.shape} and {roles.shape}"
        raise StructlearnError("SL133", n=n, problem=problem)
    if np.isnan(none).any() or np.isnan(roles).any():
        raise StructlearnError("SL133", n=n, problem="values that are not numbers")
    gains = np.maximum(roles, 2 * _IMPOSSIBLE) - np.maximum(none, _IMPOSSIBLE)[:, None]
    for place, node in enumerate(candidates):
        if nodes.starts[node] <= predicate < nodes.ends[node]:
            gains[place] = -np.inf
    return gains


def _options(
    gains: NDArray[np.float64], limited: Sequence[int], exempt: Collection[int]
) -> list[Options]:
    """What each candidate may be: its best label, and each limited one, as far as they gain."""
    bits = {label: 1 << place for place, label in enumerate(limited)}
    options: list[Options] = []
    for place, row in enumerate(gains.tolist()):
        own: Options = []
        if row and max(row) > 0:
            own_bits = {} if place in exempt else bits
            free = [(gain, -label) for label, gain in enumerate(row) if label not in own_bits]
            if free and (best := max(free))[0] > 0:
                own.append((best[0], -best[1], 0))
            own += [(row[label], label, bit) for label, bit in own_bits.items() if row[label] > 0]
        options.append(own)
    return options


def _best(
    spans: Sequence[tuple[int, int]], options: Sequence[Options], n_tokens: int, n_masks: int
) -> list[tuple[int, int]]:
    """The spans and labels with the greatest sum of gains. A mask has the bits of what is taken."""
    ending: list[list[int]] = [[] for _ in range(n_tokens + 1)]
    for place, (_, end) in enumerate(spans):
        if options[place]:
            ending[end].append(place)
    best = [[0.0, *[-np.inf] * (n_masks - 1)]]
    # For each token and mask the span that ends there, its label, and the mask before it.
    back: list[list[tuple[int, int, int] | None]] = [[None] * n_masks]
    for position in range(1, n_tokens + 1):
        values, steps = list(best[-1]), [None] * n_masks
        for place in ending[position]:
            before = best[spans[place][0]]
            for gain, label, bit in options[place]:
                for mask in range(n_masks):
                    if not mask & bit and before[mask] + gain > values[mask | bit]:
                        values[mask | bit] = before[mask] + gain
                        steps[mask | bit] = (place, label, mask)
        best.append(values)
        back.append(steps)
    position, mask = n_tokens, best[-1].index(max(best[-1]))
    chosen: list[tuple[int, int]] = []
    while position:
        step = back[position][mask]
        if step is None:
            position -= 1
        else:
            place, label, mask = step
            position = spans[place][0]
            chosen.append((place, label))
    return chosen[::-1]


def marginals(
    nodes: RoleTree, predicate: int, candidates: Sequence[int], none: ArrayLike, roles: ArrayLike
) -> NDArray[np.float64]:
    """The probability of each role of each candidate, given that arguments do not overlap.

    The arguments are as for `decode`. The probability of a set of arguments is in proportion to the
    product of P(l | t) over them and P(NONE | t) over all other candidates; this is the sum over
    all sets in which t has the role l. Returns (n_candidates, n_labels). Raises SL133 as `decode`.
    """
    gains = _gains(nodes, predicate, candidates, none, roles)
    if not gains.size:
        return np.zeros_like(gains)
    spans = [nodes.span(node) for node in candidates]
    weights = np.logaddexp.reduce(gains, axis=1).tolist()
    n = len(nodes.leaves)
    forward, backward = [0.0] * (n + 1), [0.0] * (n + 1)
    ending: list[list[int]] = [[] for _ in range(n + 1)]
    starting: list[list[int]] = [[] for _ in range(n + 1)]
    for place, (start, end) in enumerate(spans):
        if weights[place] > -np.inf:
            starting[start].append(place)
            ending[end].append(place)
    for j in range(1, n + 1):
        terms = [forward[spans[place][0]] + weights[place] for place in ending[j]]
        forward[j] = np.logaddexp.reduce([forward[j - 1], *terms]) if terms else forward[j - 1]
    for i in range(n - 1, -1, -1):
        terms = [backward[spans[place][1]] + weights[place] for place in starting[i]]
        backward[i] = np.logaddexp.reduce([backward[i + 1], *terms]) if terms else backward[i + 1]
    outside = [forward[start] + backward[end] - forward[n] for start, end in spans]
    return np.exp(np.minimum(gains + np.array(outside)[:, None], 0.0))


# --- references and continuations -----------------------------------------------------------------
def is_relative(nodes: RoleTree, node: int) -> bool:
    """Whether this is a relative or interrogative phrase or word."""
    return nodes.labels[node] in nodes.classes.relative


def mark_pieces(
    nodes: RoleTree, arguments: Iterable[tuple[str, int]], core: Collection[str] = CORE
) -> list[tuple[str, int]]:
    """The arguments of one predicate, (label, node), with R- and C- where they belong, in the order
    of the text.

    A relative phrase gets R- where an argument before it has the same label: its antecedent. Any
    other argument with one of the `core` labels gets C- where an argument before it has the same
    label: it is another piece. Labels that have R- or C- already stay as they are.
    """
    ordered = sorted(arguments, key=itemgetter(1))  # in pre-order, hence in the order of the text
    seen: set[str] = set()
    marked: list[tuple[str, int]] = []
    for label, node in ordered:
        if label in seen and is_relative(nodes, node):
            marked.append((REFERENCE + label, node))
        elif label in seen and label in core:
            marked.append((CONTINUATION + label, node))
        else:
            marked.append((label, node))
            seen.add(label)
    return marked
