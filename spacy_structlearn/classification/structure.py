"""Structures of Bayes nets: the order of given ones, and the search for one that classifies well.

Every variable has the class for a parent. The greedy search (Toutanova 2006, section 2.1) begins
with the class alone; a step tries every variable that is not placed yet with every small set of
placed ones for its parents, and takes what classifies the evaluation instances best, as long as
that is better than without. All d are 1 during the search, and the tables in the net never change
when a variable is added: a candidate costs one addition and one comparison of the scores that the
instances have with the labels. The exhaustive search goes through all acyclic structures in which
a variable has one of these sets of parents, or is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import comb
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from .counts import Cache, CountedInstances, Subset
from .witten_bell import TIE, best_labels, family, probabilities

Parents: TypeAlias = "dict[str, tuple[str, ...]]"
"""The parents of each variable, the class not among them, in order of placement."""

Progress: TypeAlias = "Callable[[str], object]"

MAX_STRUCTURES = 2_000_000
"""So many structures at most are tried by the exhaustive search."""


class PlacementStep(NamedTuple):
    """A step of a search; the first one is the class alone, with the name None.

    accuracy: share of the evaluation instances that the net classifies right after the step.
    log_likelihood: sum of log P(y | x) over them, with all d = 1, in nats.
    n_candidates: how many structures were tried in the step.
    """

    variable: str | None
    parents: tuple[str, ...]
    accuracy: float
    log_likelihood: float
    n_candidates: int


class Evaluator:
    """The scores of the evaluation instances, and how good they are.

    instances: with labels. Scores are float64 (L, n), log P(x, y) up to what all labels share.
    """

    def __init__(self, instances: CountedInstances, smoothing: str):
        assert instances.label_ids is not None
        self.variables = instances.counts.table.variables
        self._instances = instances
        self._smoothing = smoothing
        self._gold = instances.label_ids
        self._is_second = self._gold == 1
        self._kept: Cache[NDArray[np.float64]] = Cache()

    def scores(self, variable: int, parents: Subset) -> NDArray[np.float64]:
        """log P(z | parents, y) of one variable; of the class itself, log P(y)."""
        found = self._kept.get((variable, parents))
        if found is None:
            table = family(self._instances, variable, parents, self._smoothing)
            d = None if self._smoothing == "uniform" else np.ones(len(table.levels))
            p = np.broadcast_to(probabilities(table, d), self._instances.shape)
            found = np.log(np.ascontiguousarray(p.T))
            self._kept.keep((variable, parents), found, found.nbytes)
        return found

    def prior(self) -> NDArray[np.float64]:
        """The scores of the net of the class alone."""
        return self.scores(self._instances.counts.target, ())

    def n_right(self, scores: NDArray[np.float64]) -> int:
        """How many instances have their own label for the best one; of equals the first is best."""
        if len(scores) == 2:
            return int(np.count_nonzero((scores[1] >= scores[0] + TIE) == self._is_second))
        if not scores.size:
            return 0
        return int(np.count_nonzero(best_labels(scores.T) == self._gold))

    def log_likelihood(self, scores: NDArray[np.float64]) -> float:
        """The sum of log P(y | x), to the sixth digit."""
        if not scores.size:
            return 0.0
        best = scores.max(axis=0)
        total = best + np.log(np.exp(scores - best).sum(axis=0))
        value = float((scores[self._gold, np.arange(len(self._gold))] - total).sum())
        # Equals are equal on every machine, whatever the last digits of the sum.
        return round(value, 6)

    def accuracy(self, n_right: int) -> float:
        """The share of the instances; 0 of none."""
        return n_right / max(1, len(self._gold))

    def step(
        self,
        variable: int | None,
        parents: Subset,
        scores: NDArray[np.float64],
        n_candidates: int,
    ) -> PlacementStep:
        """The record of a step that led to these scores."""
        return PlacementStep(
            None if variable is None else self.variables[variable],
            tuple(self.variables[parent] for parent in parents),
            self.accuracy(self.n_right(scores)),
            self.log_likelihood(scores),
            n_candidates,
        )


def ordered(structure: Mapping[str, Sequence[str]], variables: Sequence[str]) -> Parents:
    """A given structure in an order in which parents come before their children.

    Otherwise the order of the mapping is kept; the parents of a variable are in that of
    `variables`. Raises StructlearnError if it names a variable that is not there or is not
    placed, a variable twice, or has a cycle.
    """
    for variable, parents in structure.items():
        if isinstance(parents, str) or not isinstance(parents, Iterable):
            problem = f"the parents of {variable!r} are {parents!r}, not a list of names"
            raise StructlearnError("SL511", problem=problem)
        for name in (variable, *parents):
            if name not in variables:
                known = ", ".join(variables)
                problem = f"there is no variable {name!r}, only: {known}"
                raise StructlearnError("SL511", problem=problem)
        for parent in parents:
            if parent not in structure:
                problem = f"{variable!r} has the parent {parent!r}, which is not in it"
                raise StructlearnError("SL511", problem=problem)
        if len(set(parents)) < len(parents):
            raise StructlearnError("SL511", problem=f"a parent of {variable!r} is named twice")
    result: Parents = {}
    while len(result) < len(structure):
        ready = [
            variable
            for variable, parents in structure.items()
            if variable not in result and all(parent in result for parent in parents)
        ]
        if not ready:
            rest = ", ".join(variable for variable in structure if variable not in result)
            raise StructlearnError("SL511", problem=f"there is a cycle among: {rest}")
        result[ready[0]] = tuple(sorted(structure[ready[0]], key=list(variables).index))
    return result


def greedy(
    instances: CountedInstances,
    *,
    max_parents: int = 3,
    min_gain: float = 0.0,
    smoothing: str = "witten_bell",
    progress: Progress | None = None,
) -> tuple[Parents, list[PlacementStep]]:
    """Place a variable at a time, while that makes more instances right.

    instances: where accuracy is measured. max_parents: of a variable, the class included.
    min_gain: a step must raise the accuracy by more than this. Of equal candidates that of the
    higher conditional log-likelihood is taken, then that with fewer parents, then the first.
    Returns the structure and the steps, the class alone for the first.
    """
    evaluator = Evaluator(instances, smoothing)
    scores = evaluator.prior()
    steps = [evaluator.step(None, (), scores, 1)]
    placed: dict[int, Subset] = {}
    while True:
        best = _best_candidate(evaluator, scores, placed, max_parents)
        if best is None or evaluator.accuracy(best.n_right) - steps[-1].accuracy <= min_gain:
            break
        placed[best.variable] = best.parents
        scores = scores + evaluator.scores(best.variable, best.parents)
        steps.append(evaluator.step(best.variable, best.parents, scores, best.n_candidates))
        _report(progress, steps[-1])
    return _named(placed, evaluator.variables), steps


class Candidate(NamedTuple):
    """What a step of the greedy search may add."""

    variable: int
    parents: Subset
    n_right: int
    n_candidates: int


def _best_candidate(
    evaluator: Evaluator,
    scores: NDArray[np.float64],
    placed: Mapping[int, Subset],
    max_parents: int,
) -> Candidate | None:
    """The best next step; None if all variables are placed."""
    most, n_candidates = -1, 0
    best: list[tuple[int, Subset]] = []
    for variable in range(len(evaluator.variables)):
        if variable in placed:
            continue
        for parents in subsets(sorted(placed), max_parents - 1):
            n_candidates += 1
            n_right = evaluator.n_right(scores + evaluator.scores(variable, parents))
            if n_right > most:
                most, best = n_right, []
            if n_right == most:
                best.append((variable, parents))
    if not best:
        return None
    # The likelihood, which costs more than the accuracy, is needed for equals only.
    ranks = [
        (-_tie_likelihood(evaluator, scores, best, i), len(parents), i)
        for i, (_, parents) in enumerate(best)
    ]
    variable, parents = best[min(ranks)[-1]]
    return Candidate(variable, parents, most, n_candidates)


def _tie_likelihood(
    evaluator: Evaluator,
    scores: NDArray[np.float64],
    candidates: Sequence[tuple[int, Subset]],
    number: int,
) -> float:
    if len(candidates) == 1:
        return 0.0
    return evaluator.log_likelihood(scores + evaluator.scores(*candidates[number]))


def exhaustive(
    instances: CountedInstances,
    *,
    max_parents: int = 3,
    min_gain: float = 0.0,
    smoothing: str = "witten_bell",
    progress: Progress | None = None,
) -> tuple[Parents, list[PlacementStep]]:
    """The best of all acyclic structures; see `greedy` for the arguments and the result.

    min_gain: every variable must raise the accuracy by more than this on the average. Of equals
    that of the higher conditional log-likelihood is best, then that with fewer parents.
    Raises StructlearnError if there are too many structures.
    """
    evaluator = Evaluator(instances, smoothing)
    n = len(evaluator.variables)
    # Counted before they are listed: there may be more sets of parents than fit in memory.
    n_choices = 1 + sum(comb(n - 1, size) for size in range(min(max_parents, n))) if n else 1
    if n_choices**n > MAX_STRUCTURES:
        raise StructlearnError("SL512", most=MAX_STRUCTURES, variables=n)
    choices = [
        [*subsets([other for other in range(n) if other != variable], max_parents - 1), None]
        for variable in range(n)
    ]
    prior = evaluator.prior()
    best: dict[int, Subset] = {}
    best_scores, best_value = prior, evaluator.accuracy(evaluator.n_right(prior))
    best_likelihood: float | None = None
    n_candidates = 0
    for structure, scores in _structures(evaluator, choices, prior):
        n_candidates += 1
        value = evaluator.accuracy(evaluator.n_right(scores)) - min_gain * len(structure)
        if value < best_value:
            continue
        likelihood = None
        if value == best_value:
            if best_likelihood is None:
                best_likelihood = evaluator.log_likelihood(best_scores)
            likelihood = evaluator.log_likelihood(scores)
            if (-likelihood, _n_parents(structure)) >= (-best_likelihood, _n_parents(best)):
                continue
        best, best_scores = structure, scores
        best_value, best_likelihood = value, likelihood
    names = evaluator.variables
    parents = ordered(_named(best, names), names)
    steps = [evaluator.step(None, (), prior, n_candidates)]
    scores = prior
    for variable in map(names.index, parents):
        scores = scores + evaluator.scores(variable, best[variable])
        steps.append(evaluator.step(variable, best[variable], scores, 0))
        _report(progress, steps[-1])
    return parents, steps


def _structures(
    evaluator: Evaluator,
    choices: Sequence[Sequence[Subset | None]],
    scores: NDArray[np.float64],
    chosen: tuple[Subset | None, ...] = (),
) -> Iterator[tuple[dict[int, Subset], NDArray[np.float64]]]:
    """All acyclic structures that begin with `chosen`, a set for each variable; with scores."""
    variable = len(chosen)
    if variable == len(choices):
        structure = {i: parents for i, parents in enumerate(chosen) if parents is not None}
        if _is_closed(structure):
            yield structure, scores
        return
    for parents in choices[variable]:
        if not _is_acyclic((*chosen, parents)):
            continue
        added = scores if parents is None else scores + evaluator.scores(variable, parents)
        yield from _structures(evaluator, choices, added, (*chosen, parents))


def _is_closed(structure: Mapping[int, Subset]) -> bool:
    """Whether all parents are in the structure."""
    return all(parent in structure for parents in structure.values() for parent in parents)


def _is_acyclic(chosen: Sequence[Subset | None]) -> bool:
    """Whether there is no cycle among the first variables, whose parents are known."""
    last = len(chosen) - 1
    # Any new cycle goes through the last one: can it be reached from itself?
    open_, reached = list(chosen[last] or ()), set()
    while open_:
        variable = open_.pop()
        if variable == last:
            return False
        if variable not in reached and variable < last:
            reached.add(variable)
            open_.extend(chosen[variable] or ())
    return True


def subsets(places: Sequence[int], most: int) -> Iterator[Subset]:
    """All sets of at most so many of the places, the smaller ones first."""
    for size in range(min(most, len(places)) + 1):
        yield from combinations(places, size)


def _n_parents(structure: Mapping[int, Subset]) -> int:
    return len(structure) + sum(len(parents) for parents in structure.values())


def _named(structure: Mapping[int, Subset], variables: Sequence[str]) -> Parents:
    return {
        variables[variable]: tuple(variables[parent] for parent in parents)
        for variable, parents in structure.items()
    }


def _report(progress: Progress | None, step: PlacementStep) -> None:
    if progress is not None:
        progress(f"{as_text(step.variable, step.parents)}: {100 * step.accuracy:.2f} % right")


def as_text(variable: str | None, parents: Sequence[str]) -> str:
    """For example "v | y, p", where y is the class."""
    return f"{variable} | {', '.join(('y', *parents))}"
