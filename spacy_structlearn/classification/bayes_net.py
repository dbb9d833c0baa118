"""Bayesian networks of nominal variables that classify: Toutanova (2006), section 2.1.

    P(x, y) = P(y) prod_i P(x_i | Pa(x_i), y)

The tables are relative frequencies in the training data with interpolated Witten-Bell smoothing
(`witten_bell`), the structure is given or searched for (`structure`), and the d of the smoothing
are fitted on held-out data, or on the training data with each instance left out of its own counts:
to the joint likelihood (a generative model) or to the conditional one (the paper's hybrid).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import serialization
from ..errors import StructlearnError
from ..optimize.lbfgs import minimize
from . import structure, witten_bell
from ._counts import Network
from .counts import Instances, JointCounts, Subset, join, seed_of
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
from .settings import is_number, is_one_of, is_whole
from .structure import Parents, Progress, Step

STRUCTURES = ("naive", "search", "exhaustive")
FITS = ("conditional", "joint", None)
NUMBERS_OF_D = ("one", "many")

_KIND = "bayes_net"
_VERSION = 1
_MAX_ITERATIONS = 200
_SETTINGS = (
    "structure",
    "fit_d",
    "n_d",
    "smoothing",
    "max_parents",
    "min_gain",
    "prior_variance",
    "recount",
)

D = dict[str | None, NDArray[np.float64]]


class BayesNet:
    """A Bayesian network over nominal variables and a class, which is a parent of every variable.

    structure: "naive" (no other parents), "search" (greedy), "exhaustive" (for few variables), or
        the parents of each variable that is used, without the class; a parent must be used too.
    fit_d: fit the d of the smoothing to the conditional or to the joint likelihood of the
        development data; None leaves them at 1.
    n_d: one d for all tables, or one for each context, from the empty to the full one, of each
        table: 1 for the class and 1 + the number of parents for a variable, the class counted.
    smoothing: "witten_bell", or for comparison "uniform", 0.9 of the relative frequency and 0.1 of
        the uniform distribution, which has no d.
    max_parents: most parents of a variable in a search, with the class. min_gain: accuracy (as a
        share) that a step of the search must gain more than; see `structure`.
    prior_variance: that of the Gaussian prior of log d, with mean 0; may be infinite.
    recount: after all is chosen and fitted, count again on training and development data.
    Raises StructlearnError SL513 for a setting out of range.
    """

    def __init__(
        self,
        structure: Literal["naive", "search", "exhaustive"]
        | Mapping[str, Sequence[str]] = "search",
        *,
        fit_d: Literal["conditional", "joint"] | None = "conditional",
        n_d: Literal["one", "many"] = "many",
        smoothing: Literal["witten_bell", "uniform"] = "witten_bell",
        max_parents: int = 3,
        min_gain: float = 0.0,
        prior_variance: float = 1.0,
        recount: bool = False,
    ):
        for name, value, known in (
            ("fit_d", fit_d, FITS),
            ("n_d", n_d, NUMBERS_OF_D),
            ("smoothing", smoothing, witten_bell.SMOOTHINGS),
        ):
            if not is_one_of(value, known):
                wanted = "one of " + ", ".join(map(str, known))
                raise StructlearnError("SL513", name=name, wanted=wanted, value=value)
        if not isinstance(structure, Mapping) and not is_one_of(structure, STRUCTURES):
            wanted = "one of " + ", ".join(STRUCTURES) + ", or the parents of each variable"
            raise StructlearnError("SL513", name="structure", wanted=wanted, value=structure)
        for name, value, wanted, sound in (
            ("max_parents", max_parents, "a whole number from 1", is_whole(max_parents, 1)),
            ("min_gain", min_gain, "a number", is_number(min_gain)),
            (
                "prior_variance",
                prior_variance,
                "more than 0",
                is_number(prior_variance) and prior_variance > 0,
            ),
        ):
            if not sound:
                raise StructlearnError("SL513", name=name, wanted=wanted, value=value)
        self.structure = dict(structure) if isinstance(structure, Mapping) else structure
        self.fit_d = fit_d
        self.n_d = n_d
        self.smoothing = smoothing
        self.max_parents = int(max_parents)
        self.min_gain = float(min_gain)
        self.prior_variance = float(prior_variance)
        self.recount = bool(recount)
        self._labels: tuple[str, ...] = ()
        self._variables: tuple[str, ...] = ()
        self._parents: Parents = {}
        self._d: D = {}
        self._steps: tuple[Step, ...] = ()
        self._tables = Tables.empty()
        self._network: Network | None = None
        self._counts: JointCounts | None = None

    @classmethod
    def empty(cls) -> BayesNet:
        """A net without labels and variables: what an untrained component holds."""
        return cls()

    @property
    def is_empty(self) -> bool:
        """Whether there are no labels, so that nothing can be classified."""
        return not self._labels

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes, ascending; columns of all scores are in this order."""
        return self._labels

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables at fit, also those that the structure does not use."""
        return self._variables

    @property
    def parents(self) -> Parents:
        """The parents of each variable that is used, the class not named, in order of placement."""
        return dict(self._parents)

    @property
    def used(self) -> tuple[str, ...]:
        """The variables that prediction reads, in order."""
        return self._tables.variables

    @property
    def d(self) -> D:
        """The d of each table, float64 (n_levels), from the empty context to the full one.

        The class has the name None. Empty with the smoothing "uniform".
        """
        return {name: d.copy() for name, d in self._d.items()}

    @property
    def steps(self) -> tuple[Step, ...]:
        """What the search did, beginning with the class alone; () if there was none."""
        return self._steps

    @property
    def n_keys(self) -> int:
        """How many tuples of values have a count."""
        return sum(len(keys) for keys in self._tables.keys)

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
        Raises StructlearnError SL501 to SL503 or SL506 for rows that fit no table, SL504 if there
        is not one label for each, SL507 or SL508 for other `dev` or `known_labels`, SL511, SL512
        for the structure, SL514 for `recount` without `dev`.
        """
        table = Table.of(rows, variables)
        labels = checked_labels(labels, len(table))
        held_out = development_data(dev, table.variables)
        if self.recount and held_out is None:
            raise StructlearnError("SL514")
        dev_labels = [] if held_out is None else held_out[1]
        names = tuple(sorted({*labels, *dev_labels, *checked_known(known_labels)}))
        counts = JointCounts(table, label_ids_of(labels, names), names)
        if held_out is None:
            instances = Instances.left_out(counts)
        else:
            instances = Instances(counts, held_out[0].symbols, label_ids_of(dev_labels, names))
        parents, steps = self._choose(instances, progress)
        # Nothing of an earlier fit is changed before all that can fail is done.
        self._labels, self._variables = names, table.variables
        self._parents, self._steps = parents, steps
        self._d = self._fit(instances)
        if self.recount and held_out is not None:
            both = Table.concatenate([table, held_out[0]])
            counts = JointCounts(both, label_ids_of(labels + dev_labels, names), names)
        self._counts = counts
        self._tables = Tables.of(counts, self._parents, self.smoothing)
        self._network = None
        return self

    def log_joint(self, rows: Rows) -> NDArray[np.float64]:
        """log P(x, y) for each instance and label, float64 (n, n_labels).

        rows: a Table or a mapping, which must have the variables of the structure, or rows of
            values in the order of `variables`. Values that were never seen are allowed.
        Raises StructlearnError SL502, SL503 or SL506 for others, SL510 without labels.
        """
        if self.is_empty:
            raise StructlearnError("SL510")
        if self._network is None:
            self._network = self._tables.network(self._labels, self._d, self.smoothing)
        used = self._tables.variables
        if used and is_by_name(rows):
            table = Table.of(rows, used)
        else:
            table = Table.of(rows, None if is_by_name(rows) else self._variables).select(used)
        out = np.empty((len(table), len(self._labels)))
        self._network.log_joint(table.symbols, out)
        return out

    def log_joint_left_out(self) -> NDArray[np.float64]:
        """log P(x_i, y) of the training instances, each without itself in the counts.

        float64 (n, n_labels), in the order of `fit`; with `recount` those of `dev` follow. The
        structure and the d are those of the net. It is what a second model may be trained on.
        Raises StructlearnError SL515 if the net was loaded or made compact.
        """
        if self._counts is None:
            raise StructlearnError("SL515")
        scores = np.zeros((len(self._counts), len(self._labels)))
        instances = Instances.left_out(self._counts)
        for name, table in self._families(instances):
            scores += np.log(witten_bell.probabilities(table, self._d.get(name)))
        return scores

    def predict_proba(self, rows: Rows) -> NDArray[np.float64]:
        """P(y | x), float64 (n, n_labels); see `log_joint`."""
        scores = self.log_joint(rows)
        return np.exp(scores - witten_bell.log_sum(scores))

    def predict(self, rows: Rows) -> list[str]:
        """The most probable label of each instance, of equals the first; see `log_joint`."""
        return [self._labels[i] for i in witten_bell.best_labels(self.log_joint(rows))]

    def describe(self) -> str:
        """The structure, the d, the sizes and the steps of the search, as text for people."""
        n_d = sum(len(d) for d in self._d.values())
        fitted = f"{n_d} d" if self.n_d == "many" else "one d"
        lines = [
            f"Bayes net: {len(self._labels)} labels, {len(self._parents)} of "
            f"{len(self._variables)} variables, {self.n_keys} counts, "
            + (fitted if self.smoothing == "witten_bell" else "uniform smoothing")
        ]
        heads = ["y", *(structure.as_text(v, parents) for v, parents in self._parents.items())]
        width = max(map(len, heads))
        for head, name, n_values in zip(
            heads, (None, *self._parents), self._tables.n_values, strict=False
        ):
            d = " ".join(f"{value:.3g}" for value in self._d.get(name, ()))
            lines.append(f"  {head:{width}}  {n_values:7} values" + (f"  d {d}" if d else ""))
        if self._steps:
            lines.append("search:")
        for step in self._steps:
            head = "y" if step.variable is None else structure.as_text(*step[:2])
            lines.append(
                f"  {head:{width}}  {100 * step.accuracy:6.2f} % right, log-likelihood "
                f"{step.log_likelihood:.1f}, {step.n_candidates} tried"
            )
        return "\n".join(lines)

    def compact(self) -> BayesNet:
        """A net that holds what prediction needs, without the instances it was trained on."""
        other = BayesNet(**{name: getattr(self, name) for name in _SETTINGS})
        for name in ("_labels", "_variables", "_parents", "_d", "_steps", "_tables"):
            setattr(other, name, getattr(self, name))
        return other

    def to_bytes(self) -> bytes:
        """The net without the instances it was trained on; see `serialization.pack`.

        It holds hashes of the values, no text but the names of variables and labels.
        """
        settings = {name: getattr(self, name) for name in _SETTINGS}
        if isinstance(self.structure, Mapping):
            settings["structure"] = _as_pairs(self.structure)
        return serialization.pack(
            _KIND,
            _VERSION,
            {
                "settings": settings,
                "labels": self._labels,
                "variables": self._variables,
                "parents": _as_pairs(self._parents),
                "d": [self._d[name] for name in (None, *self._parents)] if self._d else [],
                "steps": [list(step) for step in self._steps],
                "tables": self._tables.fields(),
            },
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> BayesNet:
        """The net that `to_bytes` wrote; it predicts the same.

        Raises StructlearnError SL050 to SL054 if the bytes are not those of a Bayes net.
        """
        _, fields = serialization.unpack(data, _KIND, {_VERSION})
        with serialization.reading(_KIND):
            return cls._from_fields(**fields)

    @classmethod
    def _from_fields(
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
        if isinstance(settings["structure"], list):
            settings["structure"] = dict(settings["structure"])
        net = cls(**settings)
        if not all(isinstance(name, str) for name in (*labels, *variables)):
            raise TypeError("a label or a variable is no string")
        if labels != sorted(set(labels)) or len(set(variables)) < len(variables):
            raise ValueError("its labels or variables are not different, or out of order")
        net._labels, net._variables = tuple(labels), tuple(variables)
        net._parents = structure.ordered(dict(parents), variables)
        if list(net._parents) != [name for name, _ in parents]:
            raise ValueError("a variable stands before its parents")
        if d:
            net._d = dict(zip((None, *net._parents), d, strict=True))
            if [array.shape for array in d] != [(len(table),) for table in tables["contexts"]]:
                raise ValueError("there is not one d for each level")
        net._steps = tuple(
            Step(name, tuple(of), float(right), float(value), int(n))
            for name, of, right, value, n in steps
        )
        net._tables = Tables.from_fields(net._variables, net._parents, **tables)
        if net._labels:
            net._network = net._tables.network(net._labels, net._d, net.smoothing)
        return net

    def __reduce__(self):
        return BayesNet.from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        parents = "; ".join(structure.as_text(v, of) for v, of in self._parents.items())
        return f"<BayesNet: {len(self._labels)} labels, {parents or 'no variables'}>"

    def _choose(
        self, instances: Instances, progress: Progress | None
    ) -> tuple[Parents, tuple[Step, ...]]:
        """The structure, and the steps of the search if there is one."""
        variables = instances.counts.table.variables
        if self.structure == "naive":
            return dict.fromkeys(variables, ()), ()
        if isinstance(self.structure, Mapping):
            return structure.ordered(self.structure, variables), ()
        search = structure.greedy if self.structure == "search" else structure.exhaustive
        parents, steps = search(
            instances,
            max_parents=self.max_parents,
            min_gain=self.min_gain,
            smoothing=self.smoothing,
            progress=progress,
        )
        return parents, tuple(steps)

    def _families(self, instances: Instances) -> Iterator[tuple[str | None, witten_bell.Family]]:
        """The tables, the class first, looked up for some instances."""
        for name, variable, parents in _nodes(self._variables, self._parents):
            yield name, witten_bell.family(instances, variable, parents, self.smoothing)

    def _fit(self, instances: Instances) -> D:
        """The d of all tables."""
        if self.smoothing == "uniform":
            return {}
        if self.fit_d is None:
            return {
                name: np.ones(len(witten_bell.contexts(instances.counts, variable, parents)))
                for name, variable, parents in _nodes(self._variables, self._parents)
            }
        names, families = zip(*self._families(instances), strict=True)
        assert instances.label_ids is not None
        objective = witten_bell.Objective(
            families,
            instances.label_ids,
            len(self._labels),
            conditional=self.fit_d == "conditional",
            tied=self.n_d == "one",
            prior_variance=self.prior_variance,
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

    def network(self, labels: Sequence[str], d: D, smoothing: str) -> Network:
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
        return Network(
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


def _as_pairs(parents: Mapping[str, Sequence[str]]) -> list[list[Any]]:
    """As it is stored: a dict would lose the order."""
    return [[variable, list(of)] for variable, of in parents.items()]


def _narrow(numbers: NDArray[np.int32]) -> NDArray[np.unsignedinteger]:
    """The same numbers, none negative, in the smallest type that holds them."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _concatenate(parts: Sequence[Any], dtype: Any) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *(np.asarray(part, dtype) for part in parts)])


def _starts(parts: Sequence[Any], dtype: Any) -> NDArray[Any]:
    """Where each part begins when they lie one after another, and where the last one ends."""
    return np.cumsum([0, *map(len, parts)]).astype(dtype)
