"""Training of incremental sigmoid belief networks.

Titov & Henderson (2007): log P of the derivations of a treebank (eq. 6) is maximised by on-line
gradient descent with weight decay. Learning rate and decay are reduced whenever the score of
held-out sentences drops (their section 6.1). Extensions: Adam (Kingma & Ba 2015), several sentences
in an update, dropout, averages of the weights, and, without held-out sentences, a linear decrease
of learning rate and decay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from thinc.api import SGD, Adam

from ..errors import StructlearnError
from ..learning.training import Trainer, array_digest
from ..trees.tree import Tree, trees_of
from .decode import DerivationParser
from .derivation import LeftCornerDerivations, encode, symbols_of
from .model import ISBN
from .settings import REPORTS, ISBNSettings

VALIDATION_BEAM = 5
MIN_FACTOR = 1 / 64  # of the learning rate; training ends below it
GRAD_CLIP = 5.0  # maximum norm of the gradient of an update
SHARDS = 2  # of a batch; another number changes rounding errors
# Number of weights in a call of the optimiser. Its temporary arrays are then small enough for the
# allocator to reuse; new pages for each update would take most of the time.
_BLOCK = 2**14

Data = Sequence[Tree | Sequence[Tree]]


def initialize(
    settings: ISBNSettings, data: Data, labels: Sequence[str] = (), previous: ISBN | None = None
) -> ISBN:
    """Return a network for the symbols of the trees, with random weights.

    data: normalised trees, or lists of them. labels, previous: not used.
    Raises StructlearnError if there are no trees or an item is not a tree.
    """
    symbols, log_probs = symbols_of(trees_of(data, "SL621"), settings)
    return ISBN.initialize(symbols, log_probs, settings)


def trainer(settings: ISBNSettings, parameters: ISBN | None, data: Data) -> ISBNTrainer:
    """Return a trainer that starts from these parameters.

    parameters: None or empty parameters: start from `initialize`.
    data: normalised trees, or lists of them. Their order does not matter.

    Raises StructlearnError if there is nothing to train on.
    """
    if parameters is None or parameters.is_empty:
        parameters = initialize(settings, data)
    return ISBNTrainer(settings, parameters, data)


class ISBNTrainer(Trainer[ISBNSettings]):
    """On-line training; a step is an epoch.

    value: minus the mean log-likelihood of a sentence in the last epoch, in nats, with dropout and
        the weights of its update.
    left_out: number of trees that the symbols cannot encode.
    n_sentences: number of sentences trained on.
    scores: F1 of the held-out sentences after each epoch, from 0 to 1.
    factor: current factor of learning rate and decay.
    on_iteration: called with the mean log-likelihood in the epoch so far.
    """

    saved = ("scores", "factor", "batch", "sum")

    def __init__(self, settings: ISBNSettings, parameters: ISBN, data: Data):
        super().__init__(settings)
        self._start = parameters
        self._network = parameters.network()
        self._trees: list[Tree] = []
        self.add(data)

    def _add(self, data: Data) -> None:
        """Add sentences and restart from the initial parameters, so that the result does not depend
        on when sentences were added.
        """
        trees = [*self._trees, *trees_of(data, "SL621")]
        derivations, numbers = encode(trees, self._start.symbols)
        # An order that does not depend on the order of the data
        digests = _digests(derivations)
        order = np.array(sorted(range(len(digests)), key=digests.__getitem__), dtype=np.int64)
        n_held = 0
        if self.settings.validation and digests:
            # Equal sentences stay together.
            share = max(round(self.settings.validation * len(digests)), 1)
            last = digests[order[share - 1]]
            n_held = sum(digest <= last for digest in digests)
        left_out = len(trees) - len(numbers)
        if n_held == len(order):
            problem = f"no sentences ({left_out} have other symbols, {n_held} are held out)"
            raise StructlearnError("SL621", problem=problem)
        self._trees = trees
        self._held = [trees[number] for number in numbers[order[:n_held]].tolist()]
        self._data = derivations.subset(order[n_held:])
        self.left_out, self.n_sentences = left_out, len(self._data)
        self._lengths = np.diff(self._data.offsets)
        self._constants = self._start.signature_scores(self._data)
        self._set(self._first_state())
        self._wide = np.empty(self._network.n_weights)
        self._narrow = np.empty(self._network.n_weights, dtype=np.float32)
        self._best: dict[str, Any] | None = None
        self._gradients = np.empty((SHARDS, self._network.n_weights))
        self.batch, self.sum = 0, 0.0
        self.factor = 1.0
        self.scores: list[float] = []
        self.value = 0.0
        self.n_iterations = 0

    def iterate(self) -> bool:
        """Run an epoch. Raises StructlearnError if the weights diverge."""
        if not self._done:
            self._epoch()
        return not self._done

    def parameters(self) -> ISBN:
        """Return the network with the best weights if there are held-out sentences, otherwise with
        the current weights, in both cases averaged if the settings ask for it.
        """
        return self._model(self._state() if self._best is None else self._best)

    @property
    def _done(self) -> bool:
        # Without held-out sentences the factor also gets small, within the last epoch.
        halved = bool(self._held) and self.factor < MIN_FACTOR
        return halved or self.n_iterations >= self.settings.max_iterations

    def _epoch(self) -> None:
        settings = self.settings
        n = len(self._data)
        # A generator for each epoch, so that resumed training draws the same numbers.
        rng = np.random.default_rng([settings.seed, self.n_iterations])
        dropout_seed = int(rng.integers(2**63))
        batches = np.array_split(rng.permutation(n), -(-n // settings.batch_size))
        total = settings.max_iterations * len(batches)
        seen = sum(len(batch) for batch in batches[: self.batch])
        with ThreadPoolExecutor(settings.threads) as pool:
            run = pool.map if settings.threads > 1 else map
            while self.batch < len(batches):
                batch = batches[self.batch]
                if not self._held:
                    self.factor = 1 - (self.n_iterations * len(batches) + self.batch) / total
                self._update(batch, dropout_seed, run)
                seen += len(batch)
                self.batch += 1
                before, now = ((self.batch - i) * REPORTS // len(batches) for i in (1, 0))
                if now > before:
                    self.report(self.sum / seen)
        if not np.isfinite(self._weights).all():
            epoch = self.n_iterations + 1
            raise StructlearnError("SL622", epoch=epoch, value=settings.learn_rate)
        self.value = -self.sum / n
        if self._held:
            self._validate()
        self.batch, self.sum = 0, 0.0
        self.n_iterations += 1

    def _update(
        self, batch: NDArray[np.int64], dropout_seed: int, run: Callable[..., Iterable[Any]]
    ) -> None:
        """Make a step of the optimiser for the mean log-likelihood of some sentences."""
        settings, optimizer = self.settings, self._optimizer
        # Sentences are dealt out in order of length, so that shards have about the same size.
        dealt = batch[np.argsort(-self._lengths[batch], kind="stable")]
        shards = [dealt[i::SHARDS] for i in range(min(SHARDS, len(batch)))]
        np.copyto(self._wide, self._weights)

        def differentiate(sentences: NDArray[np.int64], gradient: NDArray[np.float64]) -> float:
            gradient.fill(0)
            numbers = np.ascontiguousarray(sentences)
            options = settings.dropout, dropout_seed, -1 / len(batch)
            return self._network.log_likelihoods(
                self._wide, *self._data.arrays, numbers, gradient, *options
            ).sum()

        value = sum(run(differentiate, shards, self._gradients)) + self._constants[batch].sum()
        self.sum += float(value)
        gradient, summed = self._narrow, self._gradients[0]
        for other in self._gradients[1 : len(shards)]:
            summed += other
        np.copyto(gradient, summed, casting="same_kind")
        length = np.linalg.norm(gradient)
        if length >= GRAD_CLIP:
            gradient *= GRAD_CLIP / length
        optimizer.learn_rate = settings.learn_rate * self.factor
        optimizer.L2 = settings.weight_decay * self.factor
        for key, block in self._blocks():
            optimizer(key, self._weights[block], gradient[block])
        self._n_updates += 1

    def _blocks(self) -> Iterator[tuple[tuple[int, str], slice]]:
        """Yield blocks of the weights, with their keys in the optimiser."""
        for begin in range(0, len(self._weights), _BLOCK):
            yield (begin, "weights"), slice(begin, begin + _BLOCK)

    def _validate(self) -> None:
        """Parse the held-out sentences, and return to the best state if the score drops."""
        state = self._state()
        score = self._score(self._model(state), self._held)
        if self._best is None or score >= max(self.scores):
            self._best = state
        else:
            self._set(self._best)
            self.factor /= 2
        self.scores.append(score)

    def _score(self, model: ISBN, trees: Sequence[Tree]) -> float:
        """Return the F1 of labelled brackets without the root, from 0 to 1."""
        parser = DerivationParser(model, beam=VALIDATION_BEAM, threads=self.settings.threads)
        parses = parser.parse([tree.words() for tree in trees], [tree.tags() for tree in trees])
        right = n_gold = n_parsed = 0
        for tree, parse in zip(trees, parses, strict=True):
            gold = Counter(tree.spans()[tree.label == model.symbols.root :])
            right += (gold & Counter(parse.spans)).total()
            n_gold += gold.total()
            n_parsed += len(parse.spans)
        return 2 * right / max(n_gold + n_parsed, 1)

    def _first_state(self) -> dict[str, Any]:
        """Return the initial weights and the initial state of the optimiser."""
        weights = self._start.weights
        state = {"n_updates": 0, "weights": weights}
        if self.settings.optimizer == "adam":
            state |= {"mom1": np.zeros_like(weights), "mom2": np.zeros_like(weights)}
        if self.settings.averages:
            # In thinc averages begin at 0, which has an effect for a dozen updates.
            state["averages"] = weights
        return state

    def _set(self, state: dict[str, Any]) -> None:
        """Continue with a new optimiser from a copy of a state.

        Raises ValueError if it is of another network.
        """
        settings = self.settings
        # The decay of thinc is decoupled: after the step, weights shrink by the share learn_rate *
        # L2. For SGD that is the gradient of the prior, except that it is not clipped. The clipping
        # of thinc would apply to each block.
        make = Adam if settings.optimizer == "adam" else SGD
        optimizer = make(
            settings.learn_rate,
            L2=settings.weight_decay,
            L2_is_weight_decay=True,
            grad_clip=0.0,
            use_averages=settings.averages,
        )
        shape = self._start.weights.shape
        vectors = {name: state[name].copy() for name in self._first_state().keys() - {"n_updates"}}
        if any(v.dtype != np.float32 or v.shape != shape for v in vectors.values()):
            raise ValueError("weights of another network")
        if state["n_updates"] < 0:
            raise ValueError(f"{state['n_updates']} updates")
        self._vectors, self._weights = vectors, vectors["weights"]
        self._optimizer, self._n_updates = optimizer, int(state["n_updates"])
        for key, block in self._blocks():
            for name in vectors.keys() - {"weights"}:
                getattr(optimizer, name)[key] = vectors[name][block]
            optimizer.nr_update[key] = self._n_updates

    # --- state --------------------------------------------------------------------------------
    def _state(self) -> dict[str, Any]:
        """Return a copy of the weights and the state of the optimiser."""
        arrays = {name: vector.copy() for name, vector in self._vectors.items()}
        return {"n_updates": self._n_updates, **arrays}

    def _model(self, state: dict[str, Any]) -> ISBN:
        weights = state["averages" if self.settings.averages else "weights"]
        return self._start.replaced(weights=weights)

    def state(self) -> dict[str, Any]:
        return super().state() | {"state": self._state(), "best": self._best}

    def restore(self, state: dict[str, Any]) -> bool | None:
        self._best = state["best"]
        if self._best is not None:
            self._set(self._best)  # raises, if training cannot return to it
        self._set(state["state"])
        return super().restore(state)

    def data_digest(self) -> bytes:
        held = sorted(map(str, self._held))
        return array_digest(self._start.to_bytes(), *self._data.arrays, held)


def _digests(derivations: LeftCornerDerivations) -> list[bytes]:
    """Return a digest of each derivation."""
    parts = (derivations.subset([i]).arrays[2:] for i in range(len(derivations)))
    digests = (blake2b(b"".join(map(np.ndarray.tobytes, part)), digest_size=8) for part in parts)
    return [digest.digest() for digest in digests]
