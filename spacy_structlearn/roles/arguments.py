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

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from math import exp, inf, log1p
from operator import itemgetter
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import StructlearnError
from .phrases import RoleTree
from .propositions import CONTINUATION, REFERENCE

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

    Time is linear in candidates, sorting aside, and with `once` doubles for each label that would
    otherwise be taken twice.
    """
    gains = _gains(nodes, predicate, candidates, none, roles).tolist()
    spans = [nodes.span(node) for node in candidates]
    once, exempt = frozenset(once), frozenset(exempt)
    limited: list[int] = []
    while True:
        options = _options(gains, limited, exempt)
        chosen = _best(spans, options, 1 << len(limited))
        taken = Counter(label for place, label in chosen if label in once and place not in exempt)
        twice = [label for label, number in taken.items() if number > 1]
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
    gains = np.maximum(roles, 2 * _IMPOSSIBLE) - np.maximum(none, _IMPOSSIBLE)[:, None]
    # Of no labels there are no gains, and `none` may hold anything.
    if np.isnan(gains if gains.size else none).any():
        raise StructlearnError("SL133", n=n, problem="values that are not numbers")
    for place, node in enumerate(candidates):
        if nodes.starts[node] <= predicate < nodes.ends[node]:
            gains[place] = -np.inf
    return gains


def _options(
    gains: Sequence[Sequence[float]], limited: Sequence[int], exempt: Collection[int]
) -> list[Options]:
    """What each candidate may be: its best label, and each limited one, as far as they gain."""
    bits = {label: 1 << place for place, label in enumerate(limited)}
    options: list[Options] = []
    for place, row in enumerate(gains):
        own: Options = []
        if row and max(row) > 0:
            own_bits = {} if place in exempt else bits
            free = row
            if own_bits:
                free = [-inf if label in own_bits else gain for label, gain in enumerate(row)]
            if (best := max(free)) > 0:
                own.append((best, free.index(best), 0))
            own += [(row[label], label, bit) for label, bit in own_bits.items() if row[label] > 0]
        options.append(own)
    return options


def _best(
    spans: Sequence[tuple[int, int]], options: Sequence[Options], n_masks: int
) -> list[tuple[int, int]]:
    """The spans and labels with the greatest sum of gains. A mask has the bits of what is taken."""
    ending: defaultdict[int, list[int]] = defaultdict(list)
    for place, (_, end) in enumerate(spans):
        if options[place]:
            ending[end].append(place)
    # Where nothing ends, the best is what it was before: 0, and each token after which spans end.
    marks = [0, *sorted(ending)]
    best = [[0.0, *[-inf] * (n_masks - 1)]]
    # For each mark and mask the span that ends there, its label, and the mask before it.
    back: list[list[tuple[int, int, int] | None]] = [[None] * n_masks]
    for mark in marks[1:]:
        values, steps = list(best[-1]), [None] * n_masks
        for place in ending[mark]:
            before = best[_mark(marks, spans[place][0])]
            for gain, label, bit in options[place]:
                for mask in range(n_masks):
                    if not mask & bit and before[mask] + gain > values[mask | bit]:
                        values[mask | bit] = before[mask] + gain
                        steps[mask | bit] = (place, label, mask)
        best.append(values)
        back.append(steps)
    number, mask = len(marks) - 1, best[-1].index(max(best[-1]))
    chosen: list[tuple[int, int]] = []
    while number:
        step = back[number][mask]
        if step is None:
            number -= 1
        else:
            place, label, mask = step
            number = _mark(marks, spans[place][0])
            chosen.append((place, label))
    return chosen[::-1]


def _mark(marks: Sequence[int], position: int) -> int:
    """The place of the last mark that is not behind a position."""
    return bisect_right(marks, position) - 1


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
    starts = [nodes.starts[node] for node in candidates]
    ends = [nodes.ends[node] for node in candidates]
    positions = sorted({*starts, *ends})
    # By the first token, and by the token after the last: where each goes on, and its weight.
    starting: dict[int, list[tuple[int, float]]] = {position: [] for position in positions}
    ending: dict[int, list[tuple[int, float]]] = {position: [] for position in positions}
    weights = gains[:, 0] if gains.shape[1] == 1 else np.logaddexp.reduce(gains, axis=1)
    for start, end, weight in zip(starts, ends, weights.tolist(), strict=True):
        if weight > -inf:
            starting[start].append((end, weight))
            ending[end].append((start, weight))
    forward: dict[int, float] = {}
    total = 0.0
    for position in positions:
        for start, weight in ending[position]:
            total = _log_sum(total, forward[start] + weight)
        forward[position] = total
    backward: dict[int, float] = {}
    value = 0.0
    for position in reversed(positions):
        for end, weight in starting[position]:
            value = _log_sum(value, backward[end] + weight)
        backward[position] = value
    outside = [forward[i] + backward[j] - total for i, j in zip(starts, ends, strict=True)]
    return np.exp(np.minimum(gains + np.array(outside)[:, None], 0.0))


def _log_sum(x: float, y: float) -> float:
    """log(exp(x) + exp(y)); of two numbers NumPy's logaddexp takes many times longer."""
    return x + log1p(exp(y - x)) if x > y else y + log1p(exp(x - y))


def log_probabilities(
    arguments: ArrayLike, brackets: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """log P(ARG | t) and log P(NONE | t), float64 (n_candidates), in a tree that may be wrong.

    arguments: P(ARG | t), if t is a constituent, and brackets: the probability that it is one, each
    (n_candidates). What is no constituent is no argument, so P(ARG) is the product.
    """
    product = np.asarray(arguments, dtype=np.float64) * np.asarray(brackets, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.log(product), np.log1p(-product)


def role_probabilities(
    nodes: RoleTree,
    predicate: int,
    candidates: Sequence[int],
    none: ArrayLike,
    arguments: NDArray[np.float64],
    rows: NDArray[np.intp],
    roles: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The probability of each role of some candidates, given that arguments do not overlap.

    arguments: log P(ARG | t), (n_candidates); none as for `marginals`. rows: the places of those
    that are asked about, (m), and roles: log P(l | ARG, t) of these, (m, n_labels). Which role
    another candidate has makes no difference. Returns (m, n_labels). Raises SL133 as `decode`.
    """
    whole = marginals(nodes, predicate, candidates, none, arguments[:, None])[rows, 0]
    return whole[:, None] * np.exp(roles)


# --- references and continuations -----------------------------------------------------------------
def is_relative(nodes: RoleTree, node: int) -> bool:
    """Whether this is a relative or interrogative phrase or word."""
    return nodes.labels[node] in nodes.classes.relative


def mark_pieces(nodes: RoleTree, arguments: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """The arguments of one predicate, (label, node), with R- and C- where they belong, in the order
    of the text.

    A relative phrase gets R- where an argument before it has the same label: its antecedent. Any
    other argument with a core role gets C- where an argument before it has the same label: it is
    another piece. Labels that have R- or C- already stay as they are.
    """
    ordered = sorted(arguments, key=itemgetter(1))  # in pre-order, hence in the order of the text
    seen: set[str] = set()
    marked: list[tuple[str, int]] = []
    for label, node in ordered:
        if label in seen and is_relative(nodes, node):
            marked.append((REFERENCE + label, node))
        elif label in seen and label in nodes.classes.core:
            marked.append((CONTINUATION + label, node))
        else:
            marked.append((label, node))
            seen.add(label)
    return marked
