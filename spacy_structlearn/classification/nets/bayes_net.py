"""Bayesian networks of nominal variables that classify: Toutanova (2006), section 2.1.

    P(x, y) = P(y) prod_i P(x_i | Pa(x_i), y)

The tables are relative frequencies in the training data with interpolated Witten-Bell smoothing
(`witten_bell`). The structure is given or searched for (`structure`). The parameters d of the
smoothing maximise the joint likelihood (a generative model) or the conditional one (the hybrid of
the paper) of held-out data, or of the training data with each instance left out of its own counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ...errors import StructlearnError
from ...optimize.lbfgs import minimize
from ..classifier import Classifier, Step
from ..features import LabelledTable, Rows, Table, is_by_name, symbol
from ..settings import BayesNetSettings
from . import structure, witten_bell
from ._counts import BayesNetKernel
from .counts import CountedInstances, JointCounts, Subset, join, seed_of
from .structure import Parents

_MAX_ITERATIONS = 200
_L2 = 1.0  # of the logarithms of d

D = dict[str | None, NDArray[np.float64]]


class BayesNet(Classifier):
    """A Bayesian network over nominal variables and a class, which is a parent of every variable.

    smoothing: see `BayesNetSettings`. All other arguments are learned (`trainers.fit`).
    labels, variables: see `Classifier`.
    parents: of each variable that is used, without the class, in order of placement.
    d: of each table, float64 (n_levels), from the empty to the full context. The class has the name
        None.
    steps: of the search, beginning with the class alone; empty without a search.
    tables: the counts.
    """

    kind = "bayes_net"
    version = 2  # 3 with counts that are not whole
    readable = (2, 3)

    def __init__(
        self,
        smoothing: str = "witten_bell",
        labels: Sequence[str] = (),
        variables: Sequence[str] = (),
        parents: Mapping[str, Sequence[str]] | None = None,
        d: Mapping[str | None, NDArray[np.float64]] | None = None,
        steps: Sequence[Step] = (),
        tables: Tables | None = None,
    ):
        self.smoothing = smoothing
        self.labels = tuple(labels)
        self.variables = tuple(variables)
        self.parents: Parents = {name: tuple(of) for name, of in (parents or {}).items()}
        self.d: D = dict(d or {})
        self.steps = tuple(steps)
        self.tables = tables or Tables()
        self._network: BayesNetKernel | None = None

    @property
    def used(self) -> tuple[str, ...]:
        """The variables that prediction reads, in order."""
        return self.tables.variables

    @property
    def n_keys(self) -> int:
        """How many tuples of values have a count."""
        return sum(len(keys) for keys in self.tables.keys)

    def log_joint(self, rows: Rows) -> NDArray[np.float64]:
        """Return log P(x, y) for each instance and label, float64 (n, n_labels).

        rows: a Table or a mapping with the variables of the structure, or rows of values in the
            order of `variables`. Values may be unknown.
        Raises StructlearnError for other rows, or if there are no labels.
        """
        if self.is_empty:
            raise StructlearnError("SL510")
        if self._network is None:
            self._network = self.tables.network(self.labels, self.d, self.smoothing)
        if not (self.used and is_by_name(rows)):
            rows = Table.of(rows, None if is_by_name(rows) else self.variables)
        table = Table.of(rows, self.used)
        out = np.empty((len(table), len(self.labels)))
        self._network.log_joint(table.symbols, out)
        return out

    def scores_left_out(self, counts: JointCounts) -> NDArray[np.float64]:
        """Return log P(x_i, y) of counted instances, each left out of the counts.

        counts: of the used variables. Returns float64 (n, n_labels), on which a second model can be
            trained.
        """
        scores = np.zeros((len(counts), len(counts.labels)))
        instances = CountedInstances.left_out(counts)
        for name, node, contexts in zip(
            (None, *self.parents), self.tables.nodes, self.tables.contexts, strict=True
        ):
            table = witten_bell.family(instances, node, contexts, self.smoothing)
            scores += np.log(witten_bell.probabilities(table, self.d[name]))
        return scores

    def predict_proba(self, rows: Rows) -> NDArray[np.float64]:
        """Return P(y | x), float64 (n, n_labels); see `log_joint`."""
        scores = self.log_joint(rows)
        return np.exp(scores - witten_bell.log_sum(scores))

    def predict(self, rows: Rows) -> list[str]:
        """Return the most probable label of each instance, or the first of equal ones."""
        return [self.labels[i] for i in witten_bell.best_labels(self.log_joint(rows))]

    def describe(self) -> str:
        """Return a description of the structure, the d and the sizes."""
        n_d = sum(len(d) for d in self.d.values())
        of_d = f"{n_d} d" if self.smoothing == "witten_bell" else "uniform smoothing"
        lines = [
            f"Bayes net: {len(self.labels)} labels, {len(self.parents)} of "
            f"{len(self.variables)} variables, {self.n_keys} counts, {of_d}"
        ]
        heads = ["y", *(structure.as_text(v, parents) for v, parents in self.parents.items())]
        width = max(map(len, heads))
        for head, name, n_values in zip(
            heads, (None, *self.parents), self.tables.n_values, strict=False
        ):
            d = " ".join(f"{value:.3g}" for value in self.d.get(name, ()))
            lines.append(f"  {head:{width}}  {n_values:7} values" + (f"  d {d}" if d else ""))
        return "\n".join(lines)

    def dot(self) -> str:
        """Return the network in the DOT language of Graphviz, such as for `dot -Tsvg`."""
        nodes = {None: "class"} | {v: str(v) for v in self.parents}
        ids = {v: f"n{i}" for i, v in enumerate(nodes)}
        lines = ["digraph network {", "  node [shape=box];"]
        for variable, name in nodes.items():
            # Graphviz interprets escapes, and character references of HTML.
            quoted = name.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
            lines.append(f'  {ids[variable]} [label="{quoted}"];')
        for variable, parents in self.parents.items():
            lines.append(f"  {ids[None]} -> {ids[variable]} [color=gray];")
            lines += [f"  {ids[parent]} -> {ids[variable]};" for parent in parents]
        return "\n".join([*lines, "}", ""])

    def compact(self, dtype: DTypeLike = "float16", threshold: float = 0.0) -> BayesNet:
        """Return the network itself; the arguments are those of `LogLinear.compact`."""
        return self

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        """What is stored: hashes of the values, no text but the names of variables and labels."""
        return 3 if self.tables.fractional else self.version, {
            "settings": {"smoothing": self.smoothing},
            "labels": self.labels,
            "variables": self.variables,
            "parents": [list(pair) for pair in self.parents.items()],  # a dict would be sorted
            "d": [self.d[name] for name in (None, *self.parents)] if self.d else [],
            "steps": self.steps,
            "tables": self.tables.fields(),
        }

    @classmethod
    def from_fields(cls, version: int, fields: dict[str, Any]) -> BayesNet:
        labels, variables, d = fields["labels"], fields["variables"], fields["d"]
        if labels != sorted(set(labels)) or len(set(variables)) < len(variables):
            raise ValueError("its labels or variables are not different, or out of order")
        parents = structure.ordered(dict(fields["parents"]), variables)
        if list(parents) != [name for name, _ in fields["parents"]]:
            raise ValueError("a variable stands before its parents")
        smoothing = fields.pop("settings")["smoothing"]
        if smoothing not in ("witten_bell", "uniform"):
            raise ValueError("its smoothing is not known")
        tables = Tables.from_fields(tuple(variables), parents, fields["tables"])
        if d and [array.shape for array in d] != [(len(table),) for table in tables.contexts]:
            raise ValueError("there is not one d for each level")
        fields |= {
            "smoothing": smoothing,
            "parents": parents,
            "d": dict(zip((None, *parents), d, strict=True)) if d else {},
            "steps": list(map(Step.of, fields["steps"])),
            "tables": tables,
        }
        net = super().from_fields(version, fields)
        if labels:  # this checks whether the parts fit together
            net._network = net.tables.network(net.labels, net.d, net.smoothing)
        return net


def fit_network(
    settings: BayesNetSettings,
    train: LabelledTable,
    dev: LabelledTable | None,
    labels: tuple[str, ...],
) -> tuple[BayesNet, JointCounts]:
    """Return a network of labelled rows, and the counts of its variables.

    The structure and the d are chosen on `dev`, or on the training data, with each instance left
    out of its own counts.
    """
    (table, label_ids), smoothing = train, settings.smoothing
    counts = JointCounts(table, label_ids, labels)
    instances = CountedInstances.left_out(counts)
    if dev is not None:
        instances = CountedInstances(counts, dev[0].symbols, dev[1])
    steps: list[Step] = []
    if isinstance(settings.structure, Mapping):
        parents = structure.ordered(settings.structure, table.variables)
    elif settings.structure == "naive":
        parents = dict.fromkeys(table.variables, ())
    else:
        parents, steps = structure.greedy(instances, settings)
    d = _fit_d(settings, instances, parents)
    used = [variable for variable in table.variables if variable in parents]
    counts = JointCounts(table.select(used), label_ids, labels)
    tables = Tables.of(counts, parents, smoothing)
    return BayesNet(smoothing, labels, table.variables, parents, d, steps, tables), counts


def _fit_d(settings: BayesNetSettings, instances: CountedInstances, parents: Parents) -> D:
    """Return the d of all tables."""
    names, families = (None, *parents), []
    for variable, of in _nodes(instances.counts.table.variables, parents):
        contexts = witten_bell.contexts(instances.counts, variable, of, settings.smoothing)
        families.append(witten_bell.family(instances, variable, contexts, settings.smoothing))
    if settings.smoothing == "uniform" or settings.fit_d is None:
        return dict(zip(names, map(witten_bell.ones, families), strict=True))
    assert instances.label_ids is not None
    objective = witten_bell.Objective(
        families,
        instances.label_ids,
        len(instances.counts.labels),
        conditional=settings.fit_d == "conditional",
        tied=settings.n_d == "one",
        l2=_L2,
    )
    theta = minimize(objective, np.zeros(objective.n), max_iterations=_MAX_ITERATIONS).x
    return dict(zip(names, objective.split(theta), strict=True))


class Tables(NamedTuple):
    """The counts that the tables of a network need.

    Indices are those of `variables`, the used variables in the order at fit, followed by the class.
    There are as many nodes, contexts, distinct and n_values as tables: that of the class, then
    those of the variables in order of placement.

    nodes: the variable of each table.
    subsets: the sets of variables that are counted.
    keys, counts: uint64 (k), ascending, and int32 (k), or float32 (k) if they are not all whole, of
        each set.
    contexts: the set of each level of each table.
    distinct: T of each level, like counts, in the order of the keys of the context.
    n_values: number of different values of the variable.
    """

    variables: tuple[str, ...] = ()
    nodes: tuple[int, ...] = (0,)
    subsets: tuple[Subset, ...] = ()
    keys: tuple[NDArray[np.uint64], ...] = ()
    counts: tuple[NDArray[Any], ...] = ()
    contexts: tuple[tuple[Subset, ...], ...] = ((),)
    distinct: tuple[tuple[NDArray[Any], ...], ...] = ((),)
    n_values: tuple[int, ...] = (0,)

    @classmethod
    def of(cls, counts: JointCounts, parents: Parents, smoothing: str) -> Tables:
        """Return the tables of a structure. counts: of the used variables."""
        nodes, of = zip(*_nodes(counts.table.variables, parents), strict=True)
        contexts = tuple(
            witten_bell.contexts(counts, *pair, smoothing) for pair in zip(nodes, of, strict=True)
        )
        levels = [(node, c) for node, table in zip(nodes, contexts, strict=True) for c in table]
        needed = {subset for node, context in levels for subset in (context, join(context, node))}
        subsets = tuple(sorted(needed, key=lambda subset: (len(subset), subset)))
        variables = counts.table.variables
        return cls(variables, nodes, subsets, contexts=contexts).filled(counts)

    def filled(self, counts: JointCounts) -> Tables:
        """Return the same tables with these counts."""
        groups = [counts.group(subset) for subset in self.subsets]
        return self._replace(
            keys=tuple(group.keys for group in groups),
            counts=tuple(whole(group.counts) for group in groups),
            distinct=tuple(
                tuple(whole(counts.distinct(context, node)) for context in table)
                for node, table in zip(self.nodes, self.contexts, strict=True)
            ),
            n_values=tuple(map(counts.n_values, self.nodes)),
        )

    @property
    def fractional(self) -> bool:
        """Whether some counts are not whole."""
        return any(array.dtype.kind == "f" for array in chain(self.counts, *self.distinct))

    def fields(self) -> dict[str, Any]:
        """Return what is stored, with integers of the smallest type."""
        return {
            "subsets": self.subsets,
            "keys": self.keys,
            "counts": list(map(_narrow, self.counts)),
            "contexts": self.contexts,
            "distinct": [list(map(_narrow, table)) for table in self.distinct],
            "n_values": self.n_values,
        }

    @classmethod
    def from_fields(
        cls, variables: tuple[str, ...], parents: Parents, stored: Mapping[str, Any]
    ) -> Tables:
        """Return the tables of `fields`. Raises an error in `DAMAGE` if they do not fit."""
        keys, counts, n_values = stored["keys"], stored["counts"], stored["n_values"]
        contexts, distinct = stored["contexts"], stored["distinct"]
        used = tuple(variable for variable in variables if variable in parents)
        nodes = (len(used), *map(used.index, parents))
        if not len(contexts) == len(distinct) == len(n_values) == len(nodes) or min(n_values) < 0:
            raise ValueError("its tables are not those of its structure")
        if any(array.dtype != np.uint64 or array.ndim != 1 for array in keys):
            raise ValueError("its keys have the wrong type")
        if [array.shape for array in keys] != [array.shape for array in counts]:
            raise ValueError("there is not one count for each key")
        return cls(
            used,
            nodes,
            tuple(map(tuple, stored["subsets"])),
            tuple(keys),
            tuple(map(whole, counts)),
            tuple(tuple(map(tuple, table)) for table in contexts),
            tuple(tuple(map(whole, table)) for table in distinct),
            tuple(map(int, n_values)),
        )

    def network(self, labels: Sequence[str], d: D, smoothing: str) -> BayesNetKernel:
        """Return the tables for the kernel. Raises ValueError if they do not fit together."""
        number = {subset: i for i, subset in enumerate(self.subsets)}
        levels = [
            (number[context], number[join(context, node)])
            for node, table in zip(self.nodes, self.contexts, strict=True)
            for context in table
        ]
        distinct = [numbers for table in self.distinct for numbers in table]
        if smoothing == "uniform":
            distinct = [self.counts[i] * witten_bell.UNIFORM_RATIO for i, _ in levels]
        all_d = np.concatenate([*d.values()]) if d else np.ones(len(levels))
        if not (np.isfinite(all_d) & (all_d > 0)).all():
            raise ValueError("a d is not finite, or not positive")
        sets = np.array(levels, dtype=np.int32).reshape(-1, 2)
        return BayesNetKernel(
            _concatenate(self.keys, np.uint64),
            _concatenate(self.counts, np.float64),
            _starts(self.keys, np.int64),
            np.array([seed_of(self.variables, s) for s in self.subsets], dtype=np.uint64),
            _concatenate(self.subsets, np.int32),
            _starts(self.subsets, np.int32),
            _starts(self.contexts, np.int32),
            sets[:, 0].copy(),
            sets[:, 1].copy(),
            _concatenate(distinct, np.float64),
            _starts(distinct, np.int64),
            all_d,
            1.0 / (np.array(self.n_values, dtype=np.float64) + 1.0),
            np.array([symbol(label) for label in labels], dtype=np.uint64),
            len(self.variables),
        )


def _nodes(variables: Sequence[str], parents: Parents) -> list[tuple[int, Subset]]:
    """Return (index, indices of parents) of the class and of each variable in `parents`."""
    place = {variable: i for i, variable in enumerate(variables)}
    nodes = [(place[name], tuple(sorted(place[of] for of in parents[name]))) for name in parents]
    return [(len(variables), ()), *nodes]


def whole(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as int32, or as float32 if they are not all whole, or too large."""
    is_float = numbers.dtype.kind == "f"
    if is_float and ((np.trunc(numbers) != numbers) | (np.abs(numbers) >= 2**31)).any():
        return numbers.astype(np.float32)
    return numbers.astype(np.int32)


def _narrow(numbers: NDArray[Any]) -> NDArray[Any]:
    if numbers.dtype.kind == "f":
        return numbers
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _concatenate(parts: Sequence[Any], dtype: Any) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *(np.asarray(part, dtype) for part in parts)])


def _starts(parts: Sequence[Any], dtype: Any) -> NDArray[Any]:
    """Return the offset of each part in their concatenation, and of its end."""
    return np.cumsum([0, *map(len, parts)]).astype(dtype)
