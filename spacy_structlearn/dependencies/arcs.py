"""The dependency tree with the most expected right arcs, from the arcs of one or several trees.

The weights of the arcs of a word are its distribution over heads. A root is its own head. If the
best heads are no tree with one root, the tree is that of the largest sum of weights (McDonald,
Pereira, Ribarov & Hajic 2005, section 3.1), found by the algorithm of Chu & Liu (1965) and Edmonds
(1967).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import first_largest
from ..trees.nodes import Numbers
from ..trees.parse import Parse

MOST_WORDS = 400
"""In longer sentences, which are hardly ever sentences, a tree is found by breaking cycles."""
_ROOT_COST = 1e3  # so that only one word is a root
_NEVER = -1e9
LEAST = 1e-9  # probability of a choice
POWER = 0.5  # of the probabilities of trees, which makes them flatter


def likely(parses: Sequence[Parse]) -> list[tuple[Parse, float]]:
    """Return the probable trees of a sentence with weights: the probability of each over that of
    the most probable one, to the power `POWER`."""
    best = max((p.log_probability for p in parses), default=0.0)
    return [(p, exp(POWER * (p.log_probability - best))) for p in parses]


class Arcs(NamedTuple):
    """Arcs with their weights. dependents, heads: words. rows: any row of the arc with the largest
    weight. weights: of all rows of the arc."""

    dependents: NDArray[np.int64]
    heads: NDArray[np.int64]
    rows: NDArray[np.int64]
    weights: NDArray[np.float64]


def summed(dependents: Numbers, heads: Numbers, weights: NDArray, n_words: int) -> Arcs:
    """Return different arcs, sorted by dependent and head, with the sums of their weights.

    The weights of the arcs of each word become probabilities.
    """
    keys = dependents.astype(np.int64) * n_words + heads
    order = np.lexsort((-weights, keys))
    keys = keys[order]
    begins = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
    own = keys[begins] // n_words if len(begins) else keys[:0]
    sums = np.add.reduceat(weights[order], begins) if len(begins) else np.empty(0)
    return Arcs(own, keys[begins] % max(n_words, 1), order[begins], sums / _totals(own, sums))


def pooled_arcs(arcs: Arcs, others: NDArray, weights: Sequence[float]) -> Arcs:
    """Return the arcs with the weights of a log-linear pool.

    others: (n_arcs, n_labels), by itself, of each arc in another model, the probabilities of no arc
        and of labels. The odds are those of the arcs of a word.
    weights: of the logarithms of the weights and of these odds.
    """
    no_arc = others[:, 0]
    odds = np.log((1.0 - no_arc).clip(LEAST)) - np.log(no_arc.clip(LEAST))
    sums = np.exp(weights[0] * np.log(arcs.weights.clip(LEAST)) + weights[1] * odds)
    return arcs._replace(weights=sums / _totals(arcs.dependents, sums))


def _totals(own: Numbers, sums: NDArray) -> NDArray:
    """Return the sum of the same word for each row."""
    return np.bincount(own, sums)[own]


def best_trees(arcs: Arcs, offsets: Numbers, fallback: Numbers) -> NDArray[np.int64]:
    """Return the row in `arcs` of the arc of each word.

    offsets: the first word of each sentence, and the number of words. fallback: the head of each
    word in any tree, whose arcs are among the arcs.
    """
    n = int(offsets[-1])
    rows = first_largest(arcs.weights, arcs.dependents)
    heads = arcs.heads[rows]
    sentences = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    # In a tree with one root, all words lead to it.
    roots = np.bincount(sentences[heads == np.arange(n)], minlength=len(offsets) - 1)
    ends = _ends(heads)
    cyclic = np.bincount(sentences[heads[ends] != ends], minlength=len(offsets) - 1)
    for sentence in np.flatnonzero((roots != 1) | (cyclic > 0)).tolist():
        begin, end = offsets[sentence : sentence + 2].tolist()
        first, last = np.searchsorted(arcs.dependents, [begin, end]).tolist()
        part = slice(first, last)
        own = arcs.dependents[part] - begin, arcs.heads[part] - begin
        size = end - begin
        if size <= MOST_WORDS:
            scores = np.full((size + 1, size + 1), _NEVER)  # the last is above the roots
            above = np.where(own[0] == own[1], size, own[1])
            scores[own[0], above] = arcs.weights[part] - _ROOT_COST * (above == size)
            found = spanning_tree(scores)
        else:
            found = fallback[begin:end] - begin
            found = np.where(found == np.arange(size), size, found)
        wanted = np.where(found == size, np.arange(size), found)
        keys = own[0] * size + own[1]
        rows[begin:end] = first + np.searchsorted(keys, np.arange(size) * size + wanted)
    return rows


def _ends(heads: Numbers) -> Numbers:
    """Return where the chain of heads of each word is after at least as many steps as words."""
    links, steps = heads, 1
    while steps < len(heads):
        links, steps = links[links], 2 * steps
    return links


def spanning_tree(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the head of each word in the spanning tree with the largest sum of scores.

    scores: (n + 1, n + 1), of each dependent with each head; the last one is the root, which is the
    head n of the words below it. Cycles are contracted, one at a time.
    """
    n = len(scores) - 1
    scores = scores.copy()
    np.fill_diagonal(scores, _NEVER)
    heads = scores[:n].argmax(axis=1)
    if (cycle := _cycle(heads, n)) is None:
        return heads
    rest = np.setdiff1d(np.arange(n), cycle)
    kept = np.append(rest, [n])
    m = len(rest)
    smaller = np.full((m + 2, m + 2), _NEVER)
    # The contracted cycle is word m, the root m + 1.
    outside = [*range(m), m + 1]
    smaller[np.ix_(range(m), outside)] = scores[np.ix_(rest, kept)]
    leaving = scores[np.ix_(rest, cycle)]
    smaller[:m, m] = leaving.max(axis=1, initial=_NEVER)
    loss = scores[cycle, heads[cycle]]
    entering = scores[np.ix_(cycle, kept)] - loss[:, None]
    smaller[m, outside] = entering.max(axis=0)
    found = spanning_tree(smaller)
    result = heads.copy()
    into = outside.index(int(found[m]))
    broken = cycle[entering[:, into].argmax()]
    result[broken] = kept[into]
    for place, word in enumerate(rest.tolist()):
        head = int(found[place])
        result[word] = cycle[leaving[place].argmax()] if head == m else kept[outside.index(head)]
    return result


def _cycle(heads: Numbers, root: int) -> NDArray[np.int64] | None:
    """Return the words of a cycle; None if all words lead to the root."""
    links = np.append(heads, root)
    ends = _ends(links)
    on_cycle = ends[:root][ends[:root] != root]
    if not len(on_cycle):
        return None
    cycle = [int(on_cycle[0])]
    while (following := int(heads[cycle[-1]])) != cycle[0]:
        cycle.append(following)
    return np.array(cycle)
