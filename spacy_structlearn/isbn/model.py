"""The model of an incremental sigmoid belief network.

Titov & Henderson (2007), sections 4 and 5. A state has n latent variables. Their means depend on

    eta = sum over relations of J mu + sum of the rows of the inputs + bias        (eq. 4)

with a matrix J for each relation to an earlier state and a row for each input
(`DerivationSymbols.input_blocks`). The probability of a decision d is proportional to
exp(W_d mu + b_d), normalised over the possible decisions (eq. 5), with a row W_d for each
(`DerivationSymbols.output_blocks`). All weights are in one vector: recurrent, the four J; inputs;
bias; outputs, the W; output_bias, the b.
"""

from __future__ import annotations

from collections import Counter
from math import prod
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from ..learning.stored import Stored
from .derivation import LeftCornerDerivations
from .settings import FEATURES, MEANS, ISBNSettings
from .symbols import RELATIONS, DerivationSymbols

if TYPE_CHECKING:
    from ._network import Network

# A state reads about ten rows of inputs.
_ROWS_READ = 10


class ISBN(Stored):
    """An incremental sigmoid belief network.

    symbols: the symbols of its derivations.
    state_size: n, the number of latent variables of a state.
    means: how they are approximated, "feed_forward" or "mean_field".
    weights: float32 (n_weights), see the docstring of the module.
    signature_log_probs: float32 (T, S), log P(signature | tag, unknown word).
    features: the blocks of inputs that are used, some of "abcd".
    temperature: divides the log odds of brackets, to calibrate them.
    beam: see `decode.DerivationParser`.

    Raises StructlearnError if the parts are inconsistent, or out of the bounds of `ISBNSettings`.
    """

    top_label = property(attrgetter("symbols.top_label"))
    kind = "isbn"
    passed = ("SL405",)
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
    ):
        self.symbols = symbols
        self.state_size = state_size
        self.means = means
        self.weights = np.ascontiguousarray(weights, dtype=np.float32)
        self.signature_log_probs = np.ascontiguousarray(signature_log_probs, dtype=np.float32)
        self.features = features
        self.temperature = float(temperature)
        self.beam = beam
        ISBNSettings(  # raises
            state_size=state_size or int(self.is_empty),
            means=means,
            features=features,
            beam=beam,
            signature="",
            normalization="",
        )
        problem = self._problem()
        if problem:
            raise StructlearnError("SL604", problem=problem)

    @classmethod
    def empty(cls) -> ISBN:
        """Return a network without symbols, for untrained components."""
        symbols = DerivationSymbols()
        return cls(
            symbols, 0, MEANS[0], np.zeros(symbols.output_blocks["items"].stop), np.zeros((0, 0))
        )

    @classmethod
    def initialize(
        cls,
        symbols: DerivationSymbols,
        signature_log_probs: NDArray[np.floating],
        settings: ISBNSettings,
    ) -> ISBN:
        """Return a network with random weights.

        They are uniform between -+ sqrt(3 / k), where k is the number of terms in a sum. Biases are
        0.
        """
        generator = np.random.default_rng(settings.seed)
        n = settings.state_size
        fan_in = {"recurrent": len(RELATIONS) * n, "inputs": _ROWS_READ, "outputs": n}
        drawn = [
            generator.uniform(-1.0, 1.0, shape) * np.sqrt(3 / fan_in[name])
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
        )

    @property
    def is_empty(self) -> bool:
        """Whether there are no symbols."""
        return not self.symbols.tags

    @property
    def n_weights(self) -> int:
        """Number of weights."""
        return sum(map(prod, _shapes(self.symbols, self.state_size).values()))

    def parts(self, weights: NDArray[Any] | None = None) -> dict[str, NDArray[Any]]:
        """Return views of each part of the weights, by default those of the network."""
        shapes = _shapes(self.symbols, self.state_size)
        ends = np.cumsum([*map(prod, shapes.values())])[:-1]
        views = np.split(self.weights if weights is None else weights, ends)
        pairs = zip(views, shapes.items(), strict=True)
        return {name: view.reshape(shape) for view, (name, shape) in pairs}

    def network(self) -> Network:
        """Return the network as an object of the kernel."""
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

    def signature_scores(self, derivations: LeftCornerDerivations) -> NDArray[np.float64]:
        """Return log P of the signatures of each derivation, float64 (N)."""
        words = np.flatnonzero(derivations.signatures >= 0)
        owner = np.searchsorted(derivations.word_offsets, words, side="right") - 1
        log_probs = self.signature_log_probs[derivations.tags[words], derivations.signatures[words]]
        scores: NDArray[Any] = np.bincount(owner, log_probs, len(derivations))
        return scores

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        return self.version, self.fields() | {"symbols": self.symbols.to_fields()}

    @classmethod
    def from_fields(cls, version: int, fields: dict[str, Any]) -> ISBN:
        if not fields["weights"].dtype == fields["signature_log_probs"].dtype == np.float32:
            raise TypeError("weights of the wrong type")
        fields["symbols"] = DerivationSymbols.from_fields(fields["symbols"])
        return super().from_fields(version, fields)

    def describe(self) -> str:
        """Describe the sizes of the network and the number of known words of each tag."""
        if self.is_empty:
            return "sigmoid belief network, empty"
        symbols = self.symbols
        collapsed = sum(len(chain) > 1 for chain in symbols.chains)
        words = zip(symbols.tags, symbols.words, strict=True)
        n_words = Counter({tag: sum(map(bool, own)) for tag, own in words})
        tags = ", ".join(f"{tag} {number:,}" for tag, number in n_words.most_common())
        classes = f"{symbols.n_signatures:,} classes ({symbols.signature_kind})"
        return (
            f"sigmoid belief network of {symbols.n_tags} tags and {symbols.n_labels} phrases, "
            f"{collapsed} of them collapsed chains\n"
            f"{self.state_size} units a state, {self.means} means, {self.n_weights:,} weights; "
            f"beam {self.beam}\n"
            f"{n_words.total():,} words with their tags, unknown words of "
            f"{classes if symbols.n_signatures else 'no classes'}\n  tags: {tags}"
        )

    def _problem(self) -> str | None:
        symbols = self.symbols
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
    n_inputs = symbols.input_blocks["d.signatures"].stop
    n_outputs = symbols.output_blocks["items"].stop
    return {
        "recurrent": (len(RELATIONS), n, n),
        "inputs": (n_inputs, n),
        "bias": (n,),
        "outputs": (n_outputs, n),
        "output_bias": (n_outputs,),
    }
