"""Structures of Bayesian networks: the order of given ones, and the search for one.

The class is a parent of every variable. The greedy search (Toutanova 2006, section 2.1) begins with
the class alone. A step tries every remaining variable with every small set of placed variables as
its parents, and adds the best classifier of the evaluation instances, as long as it is better than
before. All d are 1 during the search, and the tables in the network do not change when a variable
is added, so a candidate costs one addition and one comparison of scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...errors import StructlearnError
from ..classifier import Step
from ..settings import BayesNetSettings
from .counts import Caching, CountedInstances, Subset, cached
from .witten_bell import best_labels, contexts, family, ones, probabilities

Parents: TypeAlias = "dict[str, tuple[str, ...]]"
"""The parents of each variable, without the class, in order of placement."""
Structure: TypeAlias = "dict[int, Subset]"
"""The same by the indices of variables."""


class Evaluator(Caching):
    """Scores of labelled instances, float64 (L, n): log P(x, y) up to a term that labels share."""

    def __init__(self, instances: CountedInstances, smoothing: str):
        super().__init__()
        assert instances.label_ids is not None
        self.variables = instances.counts.table.variables
        self._instances = instances
        self._smoothing = smoothing
        self._gold = instances.label_ids
        self.prior = self.scores(instances.counts.target, ())  # of the class alone

    @cached
    def scores(self, variable: int, parents: Subset) -> NDArray[np.float64]:
        """Return log P(z | parents, y) of one variable; for the class itself, log P(y)."""
        levels = contexts(self._instances.counts, variable, parents, self._smoothing)
        table = family(self._instances, variable, levels, self._smoothing)
        p = np.broadcast_to(probabilities(table, ones(table)), self._instances.shape)
        return np.log(np.ascontiguousarray(p.T))

    def accuracy(self, scores: NDArray[np.float64]) -> float:
        """Return the fraction of instances that are right; the first of equal labels is chosen."""
        if not scores.size:
            return 0.0
        return int(np.count_nonzero(best_labels(scores.T) == self._gold)) / len(self._gold)

    def log_likelihood(self, scores: NDArray[np.float64]) -> float:
        """Return the sum of log P(y | x), rounded so that it is the same on every machine."""
        if not scores.size:
            return 0.0
        best = scores.max(axis=0)
        total = best + np.log(np.exp(scores - best).sum(axis=0))
        value = float((scores[self._gold, np.arange(len(self._gold))] - total).sum())
        return round(value, 6)

    def step(self, chosen: Subset, scores: NDArray[np.float64], n_candidates: int) -> Step:
        """Return the record of a step with these scores."""
        names = tuple(self.variables[i] for i in chosen)
        return Step(names, self.accuracy(scores), self.log_likelihood(scores), n_candidates)


def ordered(structure: Mapping[str, Sequence[str]], variables: Sequence[str]) -> Parents:
    """Return a structure with parents before their children, otherwise in the same order.

    The parents of a variable are in the order of `variables`. Raises StructlearnError for a cycle,
    a parent that is named twice or not placed, or a name that is not in `variables`.
    """
    for variable, parents in structure.items():
        problem = None
        if isinstance(parents, str) or not isinstance(parents, Iterable):
            problem = f"the parents of {variable!r} are {parents!r}, not a list of names"
        elif unknown := [name for name in (variable, *parents) if name not in variables]:
            problem = f"there is no variable {unknown[0]!r}, only: {', '.join(variables)}"
        elif missing := [parent for parent in parents if parent not in structure]:
            problem = f"{variable!r} has the parent {missing[0]!r}, which is not in it"
        elif len(set(parents)) < len(parents):
            problem = f"a parent of {variable!r} is named twice"
        if problem:
            raise StructlearnError("SL511", problem=problem)
    result: Parents = {}
    while len(result) < len(structure):
        rest = [variable for variable in structure if variable not in result]
        ready = next((v for v in rest if all(parent in result for parent in structure[v])), None)
        if ready is None:
            raise StructlearnError("SL511", problem=f"there is a cycle among: {', '.join(rest)}")
        result[ready] = tuple(sorted(structure[ready], key=list(variables).index))
    return result


def greedy(instances: CountedInstances, settings: BayesNetSettings) -> tuple[Parents, list[Step]]:
    """Place one variable at a time, as long as the accuracy increases.

    instances: evaluation instances.
    Of equally accurate candidates that with the highest conditional log-likelihood is taken, then
    that with the fewest parents, then the first.
    Returns the structure and the steps, beginning with the class alone; each of the others has the
    variable and its parents.
    """
    evaluator = Evaluator(instances, settings.smoothing)
    scores = evaluator.prior
    steps = [evaluator.step((), scores, 1)]
    placed: Structure = {}
    while len(placed) < len(evaluator.variables):
        best, accuracy, n_candidates = _best_candidate(
            evaluator, scores, placed, settings.max_parents
        )
        if accuracy <= steps[-1].accuracy:
            break
        placed[best[0]] = best[1]
        scores = scores + evaluator.scores(*best)
        steps.append(evaluator.step((best[0], *best[1]), scores, n_candidates))
    names = evaluator.variables
    return {names[i]: tuple(names[parent] for parent in of) for i, of in placed.items()}, steps


def _best_candidate(
    evaluator: Evaluator, scores: NDArray[np.float64], placed: Structure, max_parents: int
) -> tuple[tuple[int, Subset], float, int]:
    """Return the best variable with its parents, its accuracy, and the number of candidates."""
    candidates = [
        (variable, parents)
        for variable in range(len(evaluator.variables))
        if variable not in placed
        for size in range(max_parents)
        for parents in combinations(sorted(placed), size)
    ]
    accuracies = [evaluator.accuracy(scores + evaluator.scores(*one)) for one in candidates]
    highest = max(accuracies)
    best = [one for one, value in zip(candidates, accuracies, strict=True) if value == highest]

    def rank(candidate: tuple[int, Subset]) -> tuple[float, int]:
        likelihood = evaluator.log_likelihood(scores + evaluator.scores(*candidate))
        return -likelihood, len(candidate[1])

    # The likelihood costs more than the accuracy, so it is computed only for equal candidates.
    return best[0] if len(best) == 1 else min(best, key=rank), highest, len(candidates)


def as_text(variable: str | None, parents: Sequence[str]) -> str:
    """Return, for example, "v | y, p", where y is the class."""
    return f"{variable} | {', '.join(('y', *parents))}"
