"""What is learned of an incremental sigmoid belief network: its weights in one flat vector.

Titov & Henderson (2007), sections 4 and 5. A state has n latent variables; their means are found of

    eta = sum over relations of J mu + sum of the rows of what is read + bias        (eq. 4)

with a matrix J for each relation to an earlier state and a row for each thing that a state reads
(`DerivationSymbols.input_blocks`). A decision d has the probability exp(W_d mu + b_d), normalised
over those that are possible (eq. 5), with a row W_d for each (`DerivationSymbols.output_blocks`).
The weights are, one after the other: recurrent, the four J; inputs; bias; outputs, the W;
output_bias, the b.
"""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from ..learning.stored import Stored
from .derivation import RELATIONS, DerivationSymbols
from .settings import FEATURES, MEANS, SEARCHES, ISBNSettings

if TYPE_CHECKING:
    from ._network import Network

STORAGES = ("float32", "float16")
# A state reads some ten of its rows of inputs.
_ROWS_READ = 10


class ISBN(Stored):
    """A network, ready to be used; its parts are as in the module's docstring.

    symbols: see there. state_size: n, the number of latent variables of a state. means: how those
    of a state are found, "feed_forward" or "mean_field". weights: float32 (n_weights).
    signature_log_probs: float32 (T, S), log P(signature | tag, word without an item of its own).
    features: the blocks of inputs that are used, some of "abcd". temperature: what the log odds of
    brackets are divided by, a calibration. beam: so many hypotheses are kept after each word.
    branching: so many alternatives of a decision are followed. search: one of `SEARCHES`, see
    `decode`. storage: how `to_bytes` writes weights, "float32" (exact) or "float16" (to 0.05 %, see
    `compact`).
    Raises StructlearnError if the parts do not fit together.
    """

    kind = "isbn"
    passed = ("SL405",)
    # What tells the parameters of this family from others.
    derivations = True

    def __init__(
        self,
        symbols: DerivationSymbols,
        state_size: int,
        means: str,
        weights: NDArray[np.floating],
        signature_log_probs: NDArray[np.floating],
        *,
        features: str = FEATURES,
        temperature: float = 1.0,
        beam: int = 10,
        branching: int = 10,
        search: str = SEARCHES[0],
        storage: str = "float32",
    ):
        self.symbols = symbols
        self.state_size = state_size
        self.means = means
        self.weights = np.ascontiguousarray(weights, dtype=np.float32)
        self.signature_log_probs = np.ascontiguousarray(signature_log_probs, dtype=np.float32)
        self.features = features
        self.temperature = float(temperature)
        self.beam = beam
        self.branching = branching
        self.search = search
        self.storage = storage
        problem = self._problem()
        if problem:
            raise StructlearnError("SL604", problem=problem)

    @classmethod
    def empty(cls) -> ISBN:
        """A network without symbols: what an untrained component holds."""
        symbols = DerivationSymbols()
        return cls(symbols, 0, MEANS[0], np.zeros(symbols.n_outputs), np.zeros((0, 0)))

    @classmethod
    def initialize(
        cls,
        symbols: DerivationSymbols,
        signature_log_probs: NDArray[np.floating],
        settings: ISBNSettings,
        *,
        scale: float = 1.0,
    ) -> ISBN:
        """A network with random weights.

        scale: they are uniform between -+ scale sqrt(3 / k), where k of them are summed up; biases
        are 0.
        Raises StructlearnError if the parts do not fit together.
        """
        generator = np.random.default_rng(settings.seed)
        n = settings.state_size
        fan_in = {"recurrent": len(RELATIONS) * n, "inputs": _ROWS_READ, "outputs": n}
        drawn = [
            generator.uniform(-1.0, 1.0, shape) * scale * np.sqrt(3 / fan_in[name])
            if name in fan_in
            else np.zeros(shape)
            for name, shape in _shapes(symbols, n).items()
        ]
        return cls(
            symbols,
            n,
            settings.means,
            np.concatenate([part.reshape(-1) for part in drawn]),
            signature_log_probs,
            features=settings.features,
            beam=settings.beam,
            branching=settings.branching,
            search=settings.search,
        )

    def compact(self, storage: str = "float16") -> ISBN:
        """The network with weights rounded to this precision, in which `to_bytes` stores them.

        Raises StructlearnError for another storage, or for weights too large for it.
        """
        if storage not in STORAGES:
            raise StructlearnError("SL605", value=storage, known=", ".join(STORAGES))
        with np.errstate(over="ignore"):
            weights = self.weights.astype(storage)
            log_probs = self.signature_log_probs.astype(storage)
        return self.replaced(weights=weights, signature_log_probs=log_probs, storage=storage)

    @property
    def is_empty(self) -> bool:
        """Whether there are no symbols, so that nothing can be parsed."""
        return not self.symbols.tags

    @property
    def top_label(self) -> str:
        """The phrase that most often stands right below the root; the root's label if none does."""
        return self.symbols.top_label

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each part of the weights, in their order."""
        return _shapes(self.symbols, self.state_size)

    @property
    def n_weights(self) -> int:
        """Number of weights."""
        return sum(prod(shape) for shape in self.shapes.values())

    @property
    def input_blocks(self) -> dict[str, slice]:
        """Rows of inputs, see `DerivationSymbols.input_blocks`."""
        return self.symbols.input_blocks

    def parts(self, weights: NDArray[Any] | None = None) -> dict[str, NDArray[Any]]:
        """Views of each part of a vector of weights, (n_weights); None: of the network's own."""
        vector = self.weights if weights is None else weights
        found = {}
        begin = 0
        for name, shape in self.shapes.items():
            end = begin + prod(shape)
            found[name] = vector[begin:end].reshape(shape)
            begin = end
        return found

    def network(self) -> Network:
        """The shape of the network as the kernels take it."""
        return self._network

    @cached_property
    def _network(self) -> Network:
        from ._network import Network

        symbols = self.symbols
        return Network(
            self.state_size,
            symbols.n_labels,
            symbols.n_tags,
            symbols.item_offsets,
            symbols.n_signatures,
            symbols.max_projects,
            features=self.features,
            mean_field=self.means == "mean_field",
        )

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        fields = self.fields() | {"symbols": self.symbols.to_fields()}
        if self.search == SEARCHES[0]:
            del fields["search"]  # the only one that readers of earlier versions know
        for name in ("weights", "signature_log_probs"):
            fields[name] = fields[name].astype(self.storage)
        return self.version, fields

    @classmethod
    def from_fields(cls, version: int, fields: dict[str, Any]) -> ISBN:
        for name in ("weights", "signature_log_probs"):
            if fields[name].dtype != fields["storage"]:
                raise TypeError(f"{name} of the wrong type")
        fields["symbols"] = DerivationSymbols.from_fields(fields["symbols"])
        return super().from_fields(version, fields)

    def __repr__(self) -> str:
        symbols = self.symbols
        return (
            f"<ISBN: {self.means}, {self.state_size} latent variables, {symbols.n_labels} labels, "
            f"{symbols.n_tags} tags, {symbols.n_items} items, {self.weights.size} weights>"
        )

    def _problem(self) -> str | None:
        symbols = self.symbols
        numbers = {"state_size": 0 if self.is_empty else 1, "beam": 1, "branching": 1}
        for name, least in numbers.items():
            value = getattr(self, name)
            if type(value) is not int or value < least:
                return f"{name} of {value!r}"
        if self.means not in MEANS:
            return f"the means {self.means!r}"
        if self.search not in SEARCHES:
            return f"the search {self.search!r}"
        if self.storage not in STORAGES:
            return f"the storage {self.storage!r}"
        features = self.features
        if not isinstance(features, str) or features != "".join(
            x for x in FEATURES if x in features
        ):
            return f"the features {features!r}"
        if not (np.isfinite(self.temperature) and self.temperature > 0):
            return f"a temperature of {self.temperature}"
        if self.weights.shape != (self.n_weights,):
            return f"weights of shape {self.weights.shape} instead of {(self.n_weights,)}"
        wanted = (symbols.n_tags, symbols.n_signatures)
        if self.signature_log_probs.shape != wanted:
            return f"signatures of shape {self.signature_log_probs.shape} instead of {wanted}"
        if not (np.isfinite(self.weights).all() and np.isfinite(self.signature_log_probs).all()):
            return "a weight that is no number"
        if (self.signature_log_probs > 1e-3).any():
            return "a signature more probable than 1"
        return None


def _shapes(symbols: DerivationSymbols, n: int) -> dict[str, tuple[int, ...]]:
    return {
        "recurrent": (len(RELATIONS), n, n),
        "inputs": (symbols.n_inputs, n),
        "bias": (n,),
        "outputs": (symbols.n_outputs, n),
        "output_bias": (symbols.n_outputs,),
    }
