"""Conditional log-linear models over conjunctions of nominal variables, and the search for them.

Toutanova (2006), section 2.2: with a feature for each tuple of values of the variables of a
template, the probability of a label is

    P(y | x) = exp(s_y(x)) / sum_y' exp(s_y'(x)),
    s_y(x) = b_y + sum_t w(values of template t in x, y) [+ c log P_base(y | x)]

and the weights minimise the penalised conditional likelihood, where l2 is one over the variance of
the Gaussian prior,

    f(w) = - sum_i log P(y_i | x_i) + l2 |w|^2 / 2.

The constant b is penalised like other features; it gives a row of unknown values the frequencies of
the labels. The term in brackets stacks the model on a Bayesian network. Its coefficient is learned
too, from leave-one-out probabilities of the training data, which are as good as those of new data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ...errors import StructlearnError
from ...kernels.index import KeyIndex
from ...learning.keys import gaps, mask, narrow, of_gaps
from ...learning.settings import check_argument
from ...learning.weights import Feature, strongest
from ..classifier import Classifier, Step
from ..features import Rows, Table, is_by_name
from ..nets.bayes_net import BayesNet
from ._log_linear import add_scores_of_values
from .conditional import Template, base_scores, log_softmax, template_columns

_DENSE, _SPARSE, _NARROW = 1, 2, 3  # format versions, by how weights and keys are stored
_WEIGHT_DTYPES = ("float16", "float32", "float64")
_SPARSE_OVERHEAD = 64  # maximum number of bytes for the name of an array


def template_name(template: Template) -> str:
    """Return a template as in table 7 of the paper, "<p,n1>"."""
    return f"<{','.join(template)}>"


class LogLinear(Classifier):
    """A conditional log-linear model.

    All arguments are learned (`trainers.fit`).
    labels, variables: see `Classifier`. templates: tuples of variables.
    keys, weights: uint64 (n_features), ascending, and floating (n_features, n_labels).
    bias: float64 (n_labels). coefficients: float64 (1) with a base, otherwise (0).
    base: the trained network. l2: the chosen value. steps: of the search.
    names: of features of single variables by their keys, such as "p=of".
    storage: the precision with which `to_bytes` stores weights.
    key_bits: the upper bits of keys that are compared; the others are zero.
    """

    kind = "log_linear"
    readable = (_DENSE, _SPARSE, _NARROW)

    def __init__(
        self,
        labels: Sequence[str] = (),
        variables: Sequence[str] = (),
        templates: Sequence[Template] = (),
        keys: NDArray[np.uint64] | None = None,
        weights: NDArray[np.floating] | None = None,
        bias: NDArray[np.float64] | None = None,
        coefficients: NDArray[np.float64] | None = None,
        base: BayesNet | None = None,
        l2: float = 0.0,
        steps: Sequence[Step] = (),
        names: Mapping[int, str] | None = None,
        storage: str = "float64",
        key_bits: int = 64,
    ):
        self.labels = tuple(labels)
        self.variables = tuple(variables)
        self.templates = tuple(map(tuple, templates))
        self.keys = np.empty(0, dtype=np.uint64) if keys is None else keys
        self.weights = np.empty((0, len(labels))) if weights is None else weights
        self.bias = np.zeros(len(labels)) if bias is None else bias
        self.coefficients = np.empty(0) if coefficients is None else coefficients
        self.base = base
        self.l2 = l2
        self.steps = tuple(steps)
        self.names = dict(names or {})
        self.storage = storage
        self.key_bits = key_bits
        self._index = KeyIndex(self.keys, key_bits)

    @property
    def used(self) -> tuple[str, ...]:
        """The variables that prediction reads, in order."""
        used = {variable for template in self.templates for variable in template}
        if self.base is not None:
            used.update(self.base.used)
        return tuple(variable for variable in self.variables if variable in used)

    def log_proba(self, rows: Rows) -> NDArray[np.float64]:
        """Return log P(y | x), float64 (n, n_labels); see `BayesNet.log_joint`."""
        if self.is_empty:
            raise StructlearnError("SL522")
        table = Table.of(rows, self.used if is_by_name(rows) else self.variables)
        scores = np.tile(self.bias, (len(table), 1))
        columns, starts, seeds = template_columns(table.variables, self.templates)
        add_scores_of_values(
            table.symbols, starts, columns, seeds, self._index, self.weights, scores
        )
        if self.base is not None:
            scores += base_scores(self.base.log_joint(table)) @ self.coefficients
        return log_softmax(scores)

    def predict_proba(self, rows: Rows) -> NDArray[np.float64]:
        """Return P(y | x), float64 (n, n_labels)."""
        return np.exp(self.log_proba(rows))

    def predict(self, rows: Rows) -> list[str]:
        """Return the most probable label of each row, or the first of equal ones."""
        return [self.labels[i] for i in self.log_proba(rows).argmax(axis=1)]

    def strongest(self, n: int, label: str | None = None, named: bool = True) -> list[Feature]:
        """Return the n largest weights, by magnitude, as (name, key, label, weight).

        label: only weights of this label. named: only features with a name; otherwise it may be "".
        """
        features = self.weights, self.keys, self.labels, self.names
        return strongest(*features, n, label, named=named)

    def describe(self) -> str:
        """Return a description of the templates and the prior."""
        if self.is_empty:
            return "log-linear model, empty"
        lines = [
            f"log-linear model of {len(self.labels)} labels ({', '.join(self.labels)}) from "
            f"{len(self.variables)} variables ({', '.join(self.variables)})",
            f"{len(self.templates)} templates, {len(self.keys)} features, l2 {self.l2:g}",
        ]
        names = ", ".join(map(template_name, self.templates))
        lines += wrap(names, 100, initial_indent="  ", subsequent_indent="  ")
        if self.base is not None:
            weight = ", ".join(f"{value:.3f}" for value in self.coefficients)
            lines.append(f"stacked, with the coefficient {weight}, on")
            lines.extend("  " + line for line in self.base.describe().splitlines())
        return "\n".join(lines)

    def compact(self, dtype: DTypeLike = "float16", threshold: float = 0.0) -> LogLinear:
        """Return a smaller model with almost the same predictions.

        dtype: "float16", "float32" or "float64", to which weights are rounded and in which
            `to_bytes` stores them. In memory, float16 is float32. With float16, keys are narrow,
            see `learning.keys`.
        threshold: weights up to this magnitude become zero; features without weights are dropped.
        Raises StructlearnError if a weight is too large for `dtype`, or for another dtype.
        """
        storage = np.dtype(dtype).name
        check_argument("dtype", storage, str, choices=_WEIGHT_DTYPES)
        with np.errstate(over="ignore"):
            rounded = self.weights.astype(storage)
        if not np.isfinite(rounded).all():
            raise StructlearnError("SL208", dtype=storage)
        weights = rounded.astype("float64" if storage == "float64" else "float32")
        weights[np.abs(weights) <= threshold] = 0
        used = weights.any(axis=1)
        keys, bits = self.keys[used], self.key_bits
        names = {key: self.names[key] for key in sorted(self.names.keys() & keys.tolist())}
        if storage == "float16":
            keys, bits = narrow(keys, bits)
            names = {key & mask(bits): name for key, name in names.items()}
        changes = {"names": names, "storage": storage, "key_bits": bits}
        return self.replaced(keys=keys, weights=weights[used], **changes)

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        """Return what is stored.

        If two labels have opposite weights, only those of the first one are stored. If many weights
        are zero, only the others are stored, with a bit for each weight.
        """
        weights = self.weights.astype(self.storage)
        mirrored = len(self.labels) == 2 and np.array_equal(weights[:, 0], -weights[:, 1])
        if mirrored:
            weights = np.ascontiguousarray(weights[:, :1])
        sparse = _sparse(weights)
        named = sorted(self.names)
        own = {"key_bits": self.key_bits} if self.key_bits < 64 else {}
        return _NARROW if own else _SPARSE if sparse else _DENSE, {
            "labels": self.labels,
            "variables": self.variables,
            "templates": self.templates,
            "keys": gaps(self.keys, self.key_bits),
            **own,
            **(sparse or {"weights": weights}),
            "mirrored": mirrored,
            "bias": self.bias,
            "coefficients": self.coefficients,
            "base": self.base,
            "l2": self.l2,
            "steps": self.steps,
            "named_keys": np.array(named, dtype=np.uint64),
            "names": [self.names[key] for key in named],
        }

    @classmethod
    def from_fields(cls, version: int, fields: dict[str, Any]) -> LogLinear:
        labels, variables = fields["labels"], fields["variables"]
        keys = fields["keys"] = of_gaps(fields["keys"], fields.get("key_bits", 64))
        mirrored, named_keys, base = (
            fields.pop(name) for name in ("mirrored", "named_keys", "base")
        )
        fields.pop("settings", None)  # which files once had
        shape = len(keys), 1 if mirrored else len(labels)
        weights = fields["weights"]
        if "nonzero" in fields:
            weights = _dense(weights, fields.pop("nonzero"), shape)
        storage = weights.dtype.name
        if storage not in _WEIGHT_DTYPES or named_keys.dtype != np.uint64:
            raise ValueError("its keys or weights have the wrong type")
        if len(set(labels)) < len(labels) or len(set(variables)) < len(variables):
            raise ValueError("a label or a variable is there twice")
        if not {v for template in fields["templates"] for v in template} <= set(variables):
            raise ValueError("a template is of a variable that is not there")
        if mirrored and len(labels) != 2:
            raise ValueError("its weights are not of its labels")
        if weights.shape != shape:
            raise ValueError("its keys and weights do not fit together")
        weights = weights.astype("float64" if storage == "float64" else "float32")
        if mirrored:
            weights = np.concatenate([weights, -weights], axis=1)
        bias, coefficients = fields["bias"], fields["coefficients"]
        if bias.shape != (len(labels),) or coefficients.shape != ((0,) if base is None else (1,)):
            raise ValueError("its bias or coefficients have the wrong shape")
        if not all(np.isfinite(array).all() for array in (weights, bias, coefficients)):
            raise ValueError("a weight is not finite")
        if base is not None:
            base = BayesNet.from_bytes(base)
            if list(base.labels) != labels:
                raise ValueError("its labels are not those of its network")
        fields |= {
            "templates": tuple(map(tuple, fields["templates"])),
            "weights": weights,
            "base": base,
            "steps": list(map(Step.of, fields["steps"])),
            "names": dict(zip(named_keys.tolist(), fields["names"], strict=True)),
            "storage": storage,
        }
        return super().from_fields(version, fields)


def _sparse(weights: NDArray[np.floating]) -> dict[str, NDArray] | None:
    """Return the nonzero weights and a bit for each weight, row by row, if they are smaller."""
    # Compare bits, to keep minus zero.
    nonzero = weights.view(f"u{weights.itemsize}") != 0
    size = -(-weights.size // 8) + np.count_nonzero(nonzero) * weights.itemsize
    if size + _SPARSE_OVERHEAD > weights.nbytes:
        return None
    return {"weights": weights[nonzero], "nonzero": np.packbits(nonzero)}


def _dense(
    stored: NDArray[np.floating], nonzero: NDArray[np.uint8], shape: tuple[int, int]
) -> NDArray[np.floating]:
    """Return the weights of this shape, the inverse of `_sparse`."""
    size = shape[0] * shape[1]
    # Check before allocating.
    if nonzero.dtype != np.uint8 or nonzero.shape != (-(-size // 8),):
        raise ValueError("there is not one bit for each weight")
    bits = np.unpackbits(nonzero).view(np.bool_)
    if bits[size:].any() or stored.shape != (np.count_nonzero(bits),):
        raise ValueError("there is not one weight for each bit that is set")
    weights = np.zeros(size, dtype=stored.dtype)
    weights[bits[:size]] = stored
    return weights.reshape(shape)
