"""Bayesian networks of nominal variables that classify: Toutanova (2006), section 2.1.

    P(x, y) = P(y) prod_i P(x_i | Pa(x_i), y)

The tables are relative frequencies in the training data with interpolated Witten-Bell smoothing
(`witten_bell`), the structure is given or searched for (`structure`), and the d of the smoothing
are fitted on held-out data, or on the training data with each instance left out of its own counts:
to the joint likelihood (a generative model) or to the conditional one (the paper's hybrid).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from ..learning.stored import Stored
from ..optimize.lbfgs import minimize
from . import structure, witten_bell
from ._counts import BayesNetKernel
from .counts import CountedInstances, JointCounts, Subset, join, seed_of
from .features import (
    Labelled,
    Rows,
    Table,
    checked_known,
    checked_labels,
    development_data,
    is_by_name,
    label_ids_of,
    symbol,
)
from .settings import BayesNetSettings
from .structure import Parents, PlacementStep, Progress

_MAX_ITERATIONS = 200

D = dict[str | None, NDArray[np.float64]]


class BayesNet(Stored):
    """A Bayesian network over nominal variables and a class, which is a parent of every variable.

    settings: how it is learned; None: the defaults. The other arguments are what `fit` learns.
    labels: the classes, ascending; columns of all scores are in this order. variables: those at
    fit, also those that the structure does not use. parents: of each variable that is used, the
    class not named, in order of placement. d: of each table, float64 (n_levels), from the empty
    context to the full one; the class has the name None; empty with the smoothing "uniform".
    steps: what the search did, beginning with the class alone; () if there was none. tables: the
    counts.
    """

    kind = "bayes_net"
    version = 2
    readable = (1, 2)

    def __init__(
        self,
        settings: BayesNetSettings | None = None,
        labels: Sequence[str] = (),
        variables: Sequence[str] = (),
        parents: Mapping[str, Sequence[str]] | None = None,
        d: Mapping[str | None, NDArray[np.float64]] | None = None,
        steps: Sequence[PlacementStep] = (),
        tables: Tables | None = None,
    ):
        self.settings = (settings or BayesNetSettings()).kept()
        self.labels = tuple(labels)
        self.variables = tuple(variables)
        self.parents: Parents = {name: tuple(of) for name, of in (parents or {}).items()}
        self.d: D = dict(d or {})
        self.steps = tuple(steps)
        self.tables = Tables.empty() if tables is None else tables
        self._network: BayesNetKernel | None = None
        self._counts: JointCounts | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there are no labels, so that nothing can be classified."""
        return not self.labels

    @property
    def used(self) -> tuple[str, ...]:
        """The variables that prediction reads, in order."""
        return self.tables.variables

    @property
    def n_keys(self) -> int:
        """How many tuples of values have a count."""
        return sum(len(keys) for keys in self.tables.keys)

    def fit(
        self,
        rows: Rows,
        labels: Sequence[str],
        *,
        dev: Labelled | None = None,
        variables: Sequence[str] | None = None,
        known_labels: Iterable[str] = (),
        progress: Progress | None = None,
    ) -> BayesNet:
        """Choose the structure, count, and fit the d; returns the net itself.

        rows, labels: the training data; see `features.Table.of`.
        dev: rows and labels on which the structure is chosen and the d are fitted; None, or no
            rows: the training data, with each instance left out of its own counts.
        variables: their names; None: those of the rows.
        known_labels: labels that there are, whether or not they occur.
        progress: is called with a line of text after each step of a search.
        A label is what occurs in `labels`, `dev` or `known_labels`.
        Raises StructlearnError for rows and labels that do not fit together or to the structure,
        and for `recount` without `dev`.
        """
        table = Table.of(rows, variables)
        labels = checked_labels(labels, len(table))
        held_out = development_data(dev, table.variables)
        if self.settings.recount and held_out is None:
            raise StructlearnError("SL514")
        dev_labels = [] if held_out is None else held_out[1]
        names = tuple(sorted({*labels, *dev_labels, *checked_known(known_labels)}))
        counts = JointCounts(table, label_ids_of(labels, names), names)
        if held_out is None:
            instances = CountedInstances.left_out(counts)
        else:
            instances = CountedInstances(
                counts, held_out[0].symbols, label_ids_of(dev_labels, names)
            )
        parents, steps = self._choose(instances, progress)
        d = self._fit(instances, parents)
        if self.settings.recount and held_out is not None:
            both = Table.concatenate([table, held_out[0]])
            counts = JointCounts(both, label_ids_of(labels + dev_labels, names), names)
        tables = Tables.of(counts, parents, self.settings.smoothing)
        # Nothing of an earlier fit is changed before all that can fail is done.
        fitted = BayesNet(self.settings, names, table.variables, parents, d, steps, tables)
        vars(self).update(vars(fitted))
        self._counts = counts
        return self

    def log_joint(self, rows: Rows) -> NDArray[np.float64]:
        """log P(x, y) for each instance and label, float64 (n, n_labels).

        rows: a Table or a mapping, which must have the variables of the structure, or rows of
            values in the order of `variables`. Values that were never seen are allowed.
        Raises StructlearnError for others, and without labels.
        """
        if self.is_empty:
            raise StructlearnError("SL510")
        if self._network is None:
            self._network = self.tables.network(self.labels, self.d, self.settings.smoothing)
        used = self.tables.variables
        if used and is_by_name(rows):
            table = Table.of(rows, used)
        else:
            table = Table.of(rows, None if is_by_name(rows) else self.variables).select(used)
        out = np.empty((len(table), len(self.labels)))
        self._network.log_joint(table.symbols, out)
        return out

    def log_joint_left_out(self) -> NDArray[np.float64]:
        """log P(x_i, y) of the training instances, each without itself in the counts.

        float64 (n, n_labels), in the order of `fit`; with `recount` those of `dev` follow. The
        structure and the d are those of the net. It is what a second model may be trained on.
        Raises StructlearnError if the net was loaded or made compact.
        """
        if self._counts is None:
            raise StructlearnError("SL515")
        scores = np.zeros((len(self._counts), len(self.labels)))
        instances = CountedInstances.left_out(self._counts)
        for name, table in self._families(instances, self.parents):
            scores += np.log(witten_bell.probabilities(table, self.d.get(name)))
        return scores

    def predict_proba(self, rows: Rows) -> NDArray[np.float64]:
        """P(y | x), float64 (n, n_labels); see `log_joint`."""
        scores = self.log_joint(rows)
        return np.exp(scores - witten_bell.log_sum(scores))

    def predict(self, rows: Rows) -> list[str]:
        """The most probable label of each instance, of equals the first; see `log_joint`."""
        return [self.labels[i] for i in witten_bell.best_labels(self.log_joint(rows))]

    def describe(self) -> str:
        """The structure, the d, the sizes and the steps of the search, as text for people."""
        n_d = sum(len(d) for d in self.d.values())
        fitted = f"{n_d} d" if self.settings.n_d == "many" else "one d"
        lines = [
            f"Bayes net: {len(self.labels)} labels, {len(self.parents)} of "
            f"{len(self.variables)} variables, {self.n_keys} counts, "
            + (fitted if self.settings.smoothing == "witten_bell" else "uniform smoothing")
        ]
        heads = ["y", *(structure.as_text(v, parents) for v, parents in self.parents.items())]
        width = max(map(len, heads))
        for head, name, n_values in zip(
            heads, (None, *self.parents), self.tables.n_values, strict=False
        ):
            d = " ".join(f"{value:.3g}" for value in self.d.get(name, ()))
            lines.append(f"  {head:{width}}  {n_values:7} values" + (f"  d {d}" if d else ""))
        if self.steps:
            lines.append("search:")
        for step in self.steps:
            head = "y" if step.variable is None else structure.as_text(*step[:2])
            lines.append(
                f"  {head:{width}}  {100 * step.accuracy:6.2f} % right, log-likelihood "
                f"{step.log_likelihood:.1f}, {step.n_candidates} tried"
            )
        return "\n".join(lines)

    def compact(self) -> BayesNet:
        """A net that holds what prediction needs, without the instances it was trained on."""
        return self.replaced()

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        """What is stored: hashes of the values, no text but the names of variables and labels."""
        return self.version, {
            "settings": self.settings.stored(),
            "labels": self.labels,
            "variables": self.variables,
            "parents": [list(pair) for pair in self.parents.items()],  # a dict would be sorted
            "d": [self.d[name] for name in (None, *self.parents)] if self.d else [],
            "steps": self.steps,
            "tables": self.tables.fields(),
        }

    @classmethod
    def from_fields(cls, version: int, fields: dict[str, Any]) -> BayesNet:
        return cls._of_fields(**fields)

    @classmethod
    def _of_fields(
        cls,
        *,
        settings: dict[str, Any],
        labels: list[str],
        variables: list[str],
        parents: list[Any],
        d: list[NDArray[np.float64]],
        steps: list[Any],
        tables: dict[str, Any],
    ) -> BayesNet:
        if not all(isinstance(name, str) for name in (*labels, *variables)):
            raise TypeError("a label or a variable is no string")
        if labels != sorted(set(labels)) or len(set(variables)) < len(variables):
            raise ValueError("its labels or variables are not different, or out of order")
        placed = structure.ordered(dict(parents), variables)
        if list(placed) != [name for name, _ in parents]:
            raise ValueError("a variable stands before its parents")
        if d and [array.shape for array in d] != [(len(table),) for table in tables["contexts"]]:
            raise ValueError("there is not one d for each level")
        net = cls(
            BayesNetSettings.of(settings),
            labels,
            variables,
            placed,
            dict(zip((None, *placed), d, strict=True)) if d else {},
            [
                PlacementStep(name, tuple(of), float(right), float(value), int(n))
                for name, of, right, value, n in steps
            ],
            Tables.from_fields(tuple(variables), placed, **tables),
        )
        if labels:  # which shows whether the parts fit together
            net._network = net.tables.network(net.labels, net.d, net.settings.smoothing)
        return net

    def __repr__(self) -> str:
        parents = "; ".join(structure.as_text(v, of) for v, of in self.parents.items())
        return f"<BayesNet: {len(self.labels)} labels, {parents or 'no variables'}>"

    def _choose(
        self, instances: CountedInstances, progress: Progress | None
    ) -> tuple[Parents, tuple[PlacementStep, ...]]:
        """The structure, and the steps of the search if there is one."""
        variables = instances.counts.table.variables
        settings = self.settings
        if settings.structure == "naive":
            return dict.fromkeys(variables, ()), ()
        if isinstance(settings.structure, Mapping):
            return structure.ordered(settings.structure, variables), ()
        search = structure.greedy if settings.structure == "search" else structure.exhaustive
        parents, steps = search(
            instances,
            max_parents=settings.max_parents,
            min_gain=settings.min_gain,
            smoothing=settings.smoothing,
            progress=progress,
        )
        return parents, tuple(steps)

    def _families(
        self, instances: CountedInstances, parents: Parents
    ) -> Iterator[tuple[str | None, witten_bell.Family]]:
        """The tables of a structure, the class first, looked up for some instances."""
        smoothing = self.settings.smoothing
        for name, variable, of in _nodes(instances.counts.table.variables, parents):
            yield name, witten_bell.family(instances, variable, of, smoothing)

    def _fit(self, instances: CountedInstances, parents: Parents) -> D:
        """The d of all tables."""
        settings = self.settings
        if settings.smoothing == "uniform":
            return {}
        if settings.fit_d is None:
            counts = instances.counts
            return {
                name: np.ones(len(witten_bell.contexts(counts, variable, of)))
                for name, variable, of in _nodes(counts.table.variables, parents)
            }
        names, families = zip(*self._families(instances, parents), strict=True)
        assert instances.label_ids is not None
        objective = witten_bell.Objective(
            families,
            instances.label_ids,
            len(instances.counts.labels),
            conditional=settings.fit_d == "conditional",
            tied=settings.n_d == "one",
            l2=settings.l2,
        )
        theta = minimize(objective, np.zeros(objective.n), max_iterations=_MAX_ITERATIONS).x
        return dict(zip(names, objective.split(theta), strict=True))


class Tables(NamedTuple):
    """The counts of a net: what its tables need, and no more.

    variables: those of the structure, in the order at fit; places below are in these, and the
    class has the place after the last. subsets: the sets of variables that are counted; keys:
    uint64 (k), ascending, and counts: int32 (k), of each of them. contexts: of each table, the
    class first and then in order of placement, the sets of its levels; distinct: with how many
    values each was seen, int32, aligned with the keys of the context. n_values: of each table, the
    number of different values.
    """

    variables: tuple[str, ...]
    nodes: tuple[int, ...]
    subsets: tuple[Subset, ...]
    keys: tuple[NDArray[np.uint64], ...]
    counts: tuple[NDArray[np.int32], ...]
    contexts: tuple[tuple[Subset, ...], ...]
    distinct: tuple[tuple[NDArray[np.int32], ...], ...]
    n_values: tuple[int, ...]

    @classmethod
    def empty(cls) -> Tables:
        """The tables of a net without labels and variables."""
        return cls((), (0,), (), (), (), ((),), ((),), (0,))

    @classmethod
    def of(cls, counts: JointCounts, parents: Parents, smoothing: str) -> Tables:
        """The counts that the tables of a structure need."""
        variables = counts.table.variables
        used = tuple(variable for variable in variables if variable in parents)
        place = {variables.index(variable): i for i, variable in enumerate(used)}
        place[counts.target] = len(used)
        nodes, contexts, distinct, n_values = [], [], [], []
        needed: set[Subset] = set()
        for _, node, of in _nodes(variables, parents):
            found = witten_bell.contexts(counts, node, of)
            found = witten_bell.levels_used(found, smoothing)
            nodes.append(place[node])
            contexts.append(tuple(_moved(context, place) for context in found))
            distinct.append(
                tuple(counts.distinct(context, node).astype(np.int32) for context in found)
            )
            n_values.append(counts.n_values(node))
            needed.update(found)
            needed.update(join(context, node) for context in found)
        subsets = sorted(needed, key=_by_size)
        groups = [counts.group(subset) for subset in subsets]
        return cls(
            used,
            tuple(nodes),
            tuple(_moved(subset, place) for subset in subsets),
            tuple(group.keys for group in groups),
            tuple(group.counts.astype(np.int32) for group in groups),
            tuple(contexts),
            tuple(distinct),
            tuple(n_values),
        )

    def fields(self) -> dict[str, Any]:
        """What is stored; numbers with as few bytes as hold them."""
        return {
            "subsets": self.subsets,
            "keys": self.keys,
            "counts": [_narrow(counts) for counts in self.counts],
            "contexts": self.contexts,
            "distinct": [[_narrow(numbers) for numbers in table] for table in self.distinct],
            "n_values": self.n_values,
        }

    @classmethod
    def from_fields(
        cls,
        variables: tuple[str, ...],
        parents: Parents,
        *,
        subsets: list[list[int]],
        keys: list[NDArray[np.uint64]],
        counts: list[NDArray[np.unsignedinteger]],
        contexts: list[list[list[int]]],
        distinct: list[list[NDArray[np.unsignedinteger]]],
        n_values: list[int],
    ) -> Tables:
        """What `fields` made. Raises ValueError or TypeError if the parts do not fit together."""
        used = tuple(variable for variable in variables if variable in parents)
        nodes = (len(used), *(used.index(variable) for variable in parents))
        tables = cls(
            used,
            nodes,
            tuple(map(tuple, subsets)),
            tuple(keys),
            tuple(array.astype(np.int32) for array in counts),
            tuple(tuple(map(tuple, table)) for table in contexts),
            tuple(tuple(array.astype(np.int32) for array in table) for table in distinct),
            tuple(map(int, n_values)),
        )
        sizes = {len(part) for part in (tables.contexts, tables.distinct, n_values, nodes)}
        if len(sizes) > 1 or min(n_values, default=0) < 0:
            raise ValueError("its tables are not those of its structure")
        if any(array.dtype != np.uint64 or array.ndim != 1 for array in tables.keys):
            raise ValueError("its keys have the wrong type")
        if [array.shape for array in tables.keys] != [array.shape for array in tables.counts]:
            raise ValueError("there is not one count for each key")
        return tables

    def network(self, labels: Sequence[str], d: D, smoothing: str) -> BayesNetKernel:
        """The tables as the kernel reads them. Raises ValueError if they do not fit together."""
        number = {subset: i for i, subset in enumerate(self.subsets)}
        levels = [
            (number[context], number[join(context, node)])
            for node, table in zip(self.nodes, self.contexts, strict=True)
            for context in table
        ]
        distinct = [numbers for table in self.distinct for numbers in table]
        all_d = np.concatenate([*d.values()]) if d else np.ones(len(levels))
        if not (np.isfinite(all_d) & (all_d > 0)).all():
            raise ValueError("a d is not finite, or not positive")
        is_uniform = smoothing == "uniform"
        return BayesNetKernel(
            _concatenate(self.keys, np.uint64),
            _concatenate(self.counts, np.int32),
            _starts(self.keys, np.int64),
            np.array([seed_of(self.variables, s) for s in self.subsets], dtype=np.uint64),
            _concatenate(self.subsets, np.int32),
            _starts(self.subsets, np.int32),
            _starts(self.contexts, np.int32),
            np.array([context for context, _ in levels], dtype=np.int32),
            np.array([event for _, event in levels], dtype=np.int32),
            _concatenate(distinct, np.int32),
            _starts(distinct, np.int64),
            all_d,
            1.0 / (np.array(self.n_values, dtype=np.float64) + 1.0),
            np.array([symbol(label) for label in labels], dtype=np.uint64),
            len(self.variables),
            witten_bell.UNIFORM_WEIGHT if is_uniform else -1.0,
        )


def _nodes(variables: Sequence[str], parents: Parents) -> list[tuple[str | None, int, Subset]]:
    """Name, place and places of the parents of the class and of each variable that is used."""
    place = {variable: i for i, variable in enumerate(variables)}
    nodes: list[tuple[str | None, int, Subset]] = [(None, len(variables), ())]
    for variable, of in parents.items():
        nodes.append((variable, place[variable], tuple(sorted(place[name] for name in of))))
    return nodes


def _moved(subset: Subset, place: Mapping[int, int]) -> Subset:
    return tuple(place[i] for i in subset)


def _by_size(subset: Subset) -> tuple[int, Subset]:
    return len(subset), subset


def _narrow(numbers: NDArray[np.int32]) -> NDArray[np.unsignedinteger]:
    """The same numbers, none negative, in the smallest type that holds them."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _concatenate(parts: Sequence[Any], dtype: Any) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *(np.asarray(part, dtype) for part in parts)])


def _starts(parts: Sequence[Any], dtype: Any) -> NDArray[Any]:
    """Where each part begins when they lie one after another, and where the last one ends."""
    return np.cumsum([0, *map(len, parts)]).astype(dtype)
