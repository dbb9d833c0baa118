"""Hill climbing over the structures of a Bayesian network (Heckerman 1999).

The search starts from the result of a greedy search. It adds, removes, replaces or reverses an arc
as long as this improves the network. The greedy search of `BayesNet` adds one variable after
another, with all d at 1, and never revises a decision. Here, the d of each network are fitted to
the tuning items, and its score is the accuracy in cross-validation by documents. (Leaving out
single items is not enough: the other arguments of the verb share their values.)
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import eq

import numpy as np

from spacy_structlearn.classification import BayesNetSettings
from spacy_structlearn.classification.trainers import fit
from training.papers.toutanova2006.role_items import Items

FOLDS = 3

Structure = dict[str, tuple[str, ...]]


class Judge:
    """Cross-validation over the documents of `train`."""

    def __init__(self, train: Items, tune: Items):
        self._dev = (tune.table, tune.labels)
        places = {name: place for place, name in enumerate(dict.fromkeys(train.documents))}
        fold = np.array([places[name] % FOLDS for name in train.documents])
        self._folds = [(train.take(fold != k), train.take(fold == k)) for k in range(FOLDS)]

    def n_right(self, structure: Structure) -> int:
        """Return the number of items that a network with this structure classifies right."""
        n_right = 0
        settings = BayesNetSettings(structure=structure)
        for part, held_out in self._folds:
            net = fit(settings, part.table, part.labels, dev=self._dev)
            predicted = net.predict(held_out.table)
            n_right += sum(map(eq, predicted, held_out.labels))
        return n_right


def climb(structure: Structure, most: int, train: Items, tune: Items) -> tuple[Structure, int]:
    """Return the best structure, the first one of equals, and the number of structures tried.

    most: maximum number of parents of a variable, without the class.
    """
    judge = Judge(train, tune)
    best, n_right = structure, judge.n_right(structure)
    tried = {as_key(best)}
    while True:
        taken = None
        for other in neighbours(best, most):
            if as_key(other) in tried:
                continue
            tried.add(as_key(other))
            n_other = judge.n_right(other)
            if n_other > n_right:
                n_right, taken = n_other, other
        if taken is None:
            return best, len(tried)
        best = taken
        print(f"  {n_right / len(train.labels):.4f} right, {len(tried)} networks", flush=True)


def neighbours(structure: Structure, most: int) -> Iterator[Structure]:
    """Yield all acyclic networks that differ by one change."""
    for variable, parents in structure.items():
        for changed in changes(structure, variable, parents, most):
            if is_acyclic(changed):
                yield changed


def changes(
    structure: Structure, variable: str, parents: tuple[str, ...], most: int
) -> Iterator[Structure]:
    """Yield the changes of one variable and its parents."""
    others = [name for name in structure if name != variable and name not in parents]
    for parent in parents:
        rest = tuple(name for name in parents if name != parent)
        yield {**structure, variable: rest}
        for other in others:
            yield {**structure, variable: (*rest, other)}
        if len(structure[parent]) < most:
            yield {**structure, variable: rest, parent: (*structure[parent], variable)}
    if len(parents) < most:
        for other in others:
            yield {**structure, variable: (*parents, other)}


def is_acyclic(structure: Structure) -> bool:
    placed: set[str] = set()
    while len(placed) < len(structure):
        ready = {
            v for v, parents in structure.items() if v not in placed and placed >= set(parents)
        }
        if not ready:
            return False
        placed |= ready
    return True


def as_key(structure: Structure) -> frozenset[tuple[str, frozenset[str]]]:
    return frozenset((variable, frozenset(parents)) for variable, parents in structure.items())
