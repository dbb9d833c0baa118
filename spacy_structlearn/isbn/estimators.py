"""Training of incremental sigmoid belief networks: settings that a registered architecture names.

Titov & Henderson (2007): log P of the derivations of a treebank (eq. 6) is maximised by on-line
gradient descent with weight decay; learning rate and decay are lowered whenever held-out sentences
are parsed worse than before (their section 6.1). Beyond the paper: Adam (Kingma & Ba 2015), several
sentences in an update, dropout, averages of the weights, and, where nothing is held out, a learning
rate and a decay that fall to 0 in a straight line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from thinc.api import SGD, Adam

from .. import serialization
from ..errors import StructlearnError
from ..trees.signatures import NORMALIZATIONS, SIGNATURES, registered
from ..trees.tree import Tree
from .decode import DerivationParser
from .derivation import FEATURES, Derivations, encode, symbols_of
from .model import ISBN, MEANS, SEARCHES

_KIND = "isbn_state"
_VERSION = 1
OPTIMIZERS = ("adam", "sgd")
REPORTS = 20  # calls of `on_iteration` in an epoch, at most
VALIDATION_BEAM = 5
LEAST_FACTOR = 1 / 64  # of the learning rate; below, training ends
# Weights that the optimiser is given at once. What it puts between is then small enough to be kept
# by the allocator; fresh pages for each update would take most of the time.
_BLOCK = 2**14

Callback = Callable[[int, str, int, float], None]
Data = Sequence[Tree | Sequence[Tree] | Derivations]


@dataclass(frozen=True)
class ISBNEstimator:
    """How an `ISBN` is learned.

    means: "feed_forward" or "mean_field". state_size: units of a state. threshold, min_unknown,
    fuse, signature, normalization: see `symbols_of`. features: the inputs of a state, see `ISBN`.
    epochs: passes through the sentences, at most. batch_size: sentences in an update, which follows
    the gradient of their mean log-likelihood. optimizer: "adam" or "sgd". learn_rate: at first.
    l2: what is maximised is the mean log-likelihood of a sentence less l2 / 2 times the squared
    length of the weights (a Gaussian prior), whatever the size of batches and treebank; with Adam,
    whose steps have another scale, the decay is decoupled: weights shrink by learn_rate * l2 of
    themselves in an update. dropout: of the means that later states read. grad_clip: the longest
    gradient of an update; longer ones are shortened; 0: none are. averages: the weights that are
    learned are moving averages, in effect over the last tenth of the updates.
    validation: so large a share of the sentences is held out and, after each epoch, parsed with
    their tags; where labelled brackets have a lower F1 than the best before, the training goes back
    to that state, with half the learning rate and decay, until the rate is below 1/64 of the first;
    the best weights are learned. 0: none is, and learning rate and decay fall linearly to 0.
    seed: of the first weights, of dropout and of the order of the sentences. beam, branching,
    search: how trees are found, see `ISBN`. shards: a batch is cut in so many parts, on which the
    result depends by rounding errors alone. threads: so many share these parts; the result is the
    same, bit for bit.
    Raises StructlearnError SL620 for a setting out of range, SL405 for a signature or normalisation
    that is not registered.
    """

    means: str = "feed_forward"
    state_size: int = 40
    threshold: int = 10
    min_unknown: int = 5
    fuse: int = 50
    signature: str = "shape"
    normalization: str = "typographic"
    features: str = FEATURES
    epochs: int = 20
    batch_size: int = 1
    optimizer: str = "sgd"
    learn_rate: float = 0.1
    l2: float = 1e-4
    dropout: float = 0.1
    grad_clip: float = 5.0
    averages: bool = True
    validation: float = 0.0
    seed: int = 0
    beam: int = 10
    branching: int = 10
    search: str = SEARCHES[0]
    shards: int = 2
    threads: int = 1

    attributes: ClassVar[tuple[str, ...]] = ("ORTH", "TAG")

    def __post_init__(self) -> None:
        in_order = "".join(name for name in FEATURES if name in self.features)
        counts = ("state_size", "threshold", "batch_size", "beam", "branching", "shards", "threads")
        for name, wanted, sound in (
            ("means", " or ".join(MEANS), self.means in MEANS),
            ("optimizer", " or ".join(OPTIMIZERS), self.optimizer in OPTIMIZERS),
            ("search", " or ".join(SEARCHES), self.search in SEARCHES),
            ("features", f"some of {FEATURES}, in this order", self.features == in_order),
            *((name, "1 or more", getattr(self, name) >= 1) for name in counts),
            *(
                (name, "0 or more", 0 <= getattr(self, name) < np.inf)
                for name in ("min_unknown", "fuse", "epochs", "seed", "l2", "grad_clip")
            ),
            ("learn_rate", "more than 0", 0 < self.learn_rate < np.inf),
            *(
                (name, "0 or more and below 1", 0 <= getattr(self, name) < 1)
                for name in ("dropout", "validation")
            ),
        ):
            if not sound:
                value = getattr(self, name)
                raise StructlearnError("SL620", name=name, wanted=wanted, value=value)
        if self.signature:
            registered(SIGNATURES, "signature", self.signature)
        if self.normalization:
            registered(NORMALIZATIONS, "normalization", self.normalization)

    @property
    def max_iterations(self) -> int:
        """Calls of `on_iteration` and steps after which there is another, at most."""
        return max(self.epochs * (REPORTS + 1) - 1, 0)

    def initialize(
        self,
        data: Sequence[Tree | Sequence[Tree]],
        labels: Sequence[str] = (),
        previous: ISBN | None = None,
    ) -> ISBN:
        """A network of the symbols of the trees, with random weights.

        data: normalised trees, or lists of them. Labels and what was learned before have no part in
        it. Raises StructlearnError SL601 for no trees, SL621 for what is none.
        """
        trees = [tree for part in data for tree in _trees_of(part)]
        symbols, signature_log_probs = symbols_of(
            trees,
            threshold=self.threshold,
            min_unknown=self.min_unknown,
            fuse=self.fuse,
            signature=self.signature,
            normalization=self.normalization,
        )
        return ISBN.initialize(
            symbols,
            signature_log_probs,
            state_size=self.state_size,
            means=self.means,
            features=self.features,
            beam=self.beam,
            branching=self.branching,
            search=self.search,
            seed=self.seed,
        )

    def trainer(
        self,
        parameters: ISBN | None,
        data: Data,
        *,
        validation_trees: Sequence[Tree] | None = None,
    ) -> ISBNTrainer:
        """Training from these parameters on; None, or empty ones: from those of `initialize`.

        data: normalised trees, lists of them, or derivations of the symbols of `parameters`. Their
        order makes no difference. validation_trees: what is parsed after each epoch, in place of
        the share `validation` of `data`.
        Raises StructlearnError SL621 if nothing of it can be trained on.
        """
        if parameters is None or parameters.is_empty:
            parameters = self.initialize(data)
        return ISBNTrainer(self, parameters, data, validation_trees)


class ISBNTrainer:
    """Epochs of on-line updates; a step is an epoch.

    value: minus the mean log-likelihood of a sentence, in nats, in the last epoch, each by the
    weights of its update, with dropout; before the first, 0. n_iterations: epochs so far. left_out:
    how many trees the symbols cannot encode. n_sentences: trained on. scores: the F1, from 0 to 1,
    of the held-out sentences after each epoch. factor: what learning rate and decay are multiplied
    by at present. on_iteration: called with the number of the epoch, from 1, "update", how many
    updates of it are done, and the mean log-likelihood in it so far. The state may be saved there
    too.
    """

    def __init__(
        self,
        settings: ISBNEstimator,
        parameters: ISBN,
        data: Data,
        validation_trees: Sequence[Tree] | None = None,
    ):
        self.settings = settings
        self.on_iteration: Callback | None = None
        self._start = parameters
        self._network = parameters.network()
        self._given = validation_trees
        self._begin(_Sentences.of(data, parameters))

    def _begin(self, data: _Sentences) -> None:
        self._all = data
        order = data.order
        n_held = data.n_held_out(self.settings.validation) if self._given is None else 0
        if n_held == len(order):
            problem = f"no sentences ({data.left_out} have other symbols, {n_held} are held out)"
            raise StructlearnError("SL621", problem=problem)
        held = [data.trees[number] for number in order[:n_held].tolist()]
        if None in held:
            raise StructlearnError("SL621", problem="derivations alone and hold some of them out")
        self._held: list[Tree] = held if self._given is None else list(self._given)
        self._data = data.derivations.subset(order[n_held:])
        self.left_out = data.left_out
        self._lengths = np.diff(self._data.offsets)
        self._constants = _signature_sums(self._data, self._start.signature_log_probs)
        self._set_vectors(self._first_vectors(), 0)
        self._wide = np.empty(self._network.n_weights)
        self._narrow = np.empty(self._network.n_weights, dtype=np.float32)
        self._best: dict[str, Any] | None = None
        self._gradients: list[NDArray[np.float64]] = []
        self._fingerprint: str | None = None
        self._batch, self._sum = 0, 0.0
        self.factor = 1.0
        self.scores: list[float] = []
        self.value = 0.0
        self.n_iterations = 0

    def add(self, data: Data) -> None:
        """More sentences. Training begins again, from the parameters that the trainer was given, so
        that the result does not depend on when the sentences came.
        """
        self._begin(self._all + _Sentences.of(data, self._start))

    @property
    def n_sentences(self) -> int:
        """See above."""
        return len(self._data)

    def step(self) -> bool:
        """An epoch. Returns False once all are done.

        Raises StructlearnError SL622 if the weights grow out of all bounds.
        """
        if not self._done:
            self._epoch()
        return not self._done

    def parameters(self) -> ISBN:
        """The network so far: the weights that were best if there are held-out sentences, otherwise
        the present ones; in both cases their averages if there are any.
        """
        state = self._state() if self._best is None else self._best
        return self._start.with_weights(self._learned(state))

    @property
    def _done(self) -> bool:
        # Without held-out sentences it falls within the last epoch, too, and that is no end.
        halved = bool(self._held) and self.factor < LEAST_FACTOR
        return halved or self.n_iterations >= self.settings.epochs

    def _epoch(self) -> None:
        settings = self.settings
        n = len(self._data)
        # A generator for each epoch, so that one taken up again draws the same.
        rng = np.random.default_rng([settings.seed, self.n_iterations])
        dropout_seed = int(rng.integers(2**63))
        batches = np.array_split(rng.permutation(n), -(-n // settings.batch_size))
        total = settings.epochs * len(batches)
        seen = sum(len(batch) for batch in batches[: self._batch])
        with ThreadPoolExecutor(settings.threads) as pool:
            run = pool.map if settings.threads > 1 else map
            while self._batch < len(batches):
                batch = batches[self._batch]
                if not self._held:
                    self.factor = 1 - (self.n_iterations * len(batches) + self._batch) / total
                self._update(batch, dropout_seed, run)
                seen += len(batch)
                self._batch += 1
                before, now = ((self._batch - i) * REPORTS // len(batches) for i in (1, 0))
                if now > before and self.on_iteration is not None:
                    done = (self.n_iterations + 1, "update", self._batch)
                    self.on_iteration(*done, self._sum / seen)
        if not np.isfinite(self._weights).all():
            epoch = self.n_iterations + 1
            raise StructlearnError("SL622", epoch=epoch, value=settings.learn_rate)
        self.value = -self._sum / n
        if self._held:
            self._validate()
        self._batch, self._sum = 0, 0.0
        self.n_iterations += 1

    def _update(
        self, batch: NDArray[np.int64], dropout_seed: int, run: Callable[..., Iterable[Any]]
    ) -> None:
        """One step of the optimiser, by the mean log-likelihood of some sentences."""
        settings, optimizer = self.settings, self._optimizer
        # The longest first, and dealt out in turn: each shard has about as much to do.
        dealt = batch[np.argsort(-self._lengths[batch], kind="stable")]
        shards = [dealt[i :: settings.shards] for i in range(min(settings.shards, len(batch)))]
        while len(self._gradients) < len(shards):
            self._gradients.append(np.empty(self._network.n_weights))
        np.copyto(self._wide, self._weights)
        work = partial(self._add_gradient, self._wide, dropout_seed, -1 / len(batch))
        value = sum(run(work, shards, self._gradients)) + self._constants[batch].sum()
        self._sum += float(value)
        summed = self._gradients[0]
        for other in self._gradients[1 : len(shards)]:
            summed += other
        gradient = self._narrow
        np.copyto(gradient, summed, casting="same_kind")
        if settings.grad_clip:
            length = np.linalg.norm(gradient)
            if length >= settings.grad_clip:
                gradient *= settings.grad_clip / length
        optimizer.learn_rate = settings.learn_rate * self.factor
        optimizer.L2 = settings.l2 * self.factor
        for key, block in self._blocks():
            optimizer(key, self._weights[block], gradient[block])
        self._n_updates += 1

    def _blocks(self) -> Iterator[tuple[tuple[int, str], slice]]:
        """Parts of the weights, and the names under which the optimiser knows them."""
        for begin in range(0, len(self._weights), _BLOCK):
            yield (begin, "weights"), slice(begin, begin + _BLOCK)

    def _add_gradient(
        self,
        weights: NDArray[np.float64],
        seed: int,
        scale: float,
        sentences: NDArray[np.int64],
        gradient: NDArray[np.float64],
    ) -> float:
        """Into `gradient`, whatever it held before. RETURNS: the log-likelihood."""
        gradient.fill(0)
        numbers = np.ascontiguousarray(sentences)
        dropout = self.settings.dropout
        return self._network.add_gradient(
            weights, *self._data.arrays, numbers, gradient, dropout, seed, scale
        )

    def _validate(self) -> None:
        """Parse the held-out sentences; go back to the best state if they are parsed worse."""
        state = self._state()
        model = self._start.with_weights(self._learned(state))
        score = self._score(model, self._held)
        if self._best is None or score >= max(self.scores):
            self._best = state
        else:
            self._set(self._best)
            self.factor /= 2
        self.scores.append(score)

    def _score(self, model: ISBN, trees: Sequence[Tree]) -> float:
        """F1 of labelled brackets, the root left out, from 0 to 1."""
        parser = DerivationParser(model, beam=VALIDATION_BEAM, threads=self.settings.threads)
        parses = parser.parse([tree.words() for tree in trees], [tree.tags() for tree in trees])
        right = wanted = found = 0
        for tree, parse in zip(trees, parses, strict=True):
            gold = Counter(tree.spans()[tree.label == model.symbols.root :])
            right += (gold & Counter(parse.spans)).total()
            wanted += gold.total()
            found += len(parse.spans)
        return 2 * right / max(wanted + found, 1)

    def _first_vectors(self) -> dict[str, NDArray[np.float32]]:
        """Weights before the first update, and what the optimiser knows of them."""
        weights = self._start.weights
        vectors = {"weights": weights}
        if self.settings.optimizer == "adam":
            vectors |= {"mom1": np.zeros_like(weights), "mom2": np.zeros_like(weights)}
        if self.settings.averages:
            # thinc's would begin at 0, which is still to be seen after a dozen of updates.
            vectors["averages"] = weights
        return vectors

    def _set_vectors(self, vectors: dict[str, NDArray[np.float32]], n_updates: int) -> None:
        """Go on from copies of these, with a new optimiser, which works on them in place."""
        settings = self.settings
        # thinc's decay is decoupled for both: after the step, weights lose learn_rate * L2 of
        # themselves. For SGD that is the gradient of the prior, except that it is not clipped. Its
        # own clipping would be of each block.
        make = Adam if settings.optimizer == "adam" else SGD
        optimizer = make(
            settings.learn_rate,
            L2=settings.l2,
            L2_is_weight_decay=True,
            grad_clip=0.0,
            use_averages=settings.averages,
        )
        own = {name: self._checked(vectors[name]).copy() for name in self._first_vectors()}
        self._vectors, self._weights = own, own["weights"]
        self._optimizer, self._n_updates = optimizer, n_updates
        for key, block in self._blocks():
            for name in own.keys() - {"weights"}:
                getattr(optimizer, name)[key] = own[name][block]
            optimizer.nr_update[key] = n_updates

    # --- state --------------------------------------------------------------------------------
    def _state(self) -> dict[str, Any]:
        """Weights and optimiser; a copy."""
        arrays = {name: vector.copy() for name, vector in self._vectors.items()}
        return {"n_updates": self._n_updates, **arrays}

    def _set(self, state: dict[str, Any]) -> None:
        """Go back, or on, to a state. Raises ValueError if it is of another network."""
        self._set_vectors(state, int(state["n_updates"]))

    def _learned(self, state: dict[str, Any]) -> NDArray[np.float32]:
        return state["averages" if self.settings.averages else "weights"]

    def _checked(self, array: NDArray[Any]) -> NDArray[np.float32]:
        if array.dtype != np.float32 or array.shape != self._start.weights.shape:
            raise ValueError("weights of another network")
        return array

    def to_bytes(self) -> bytes:
        """The state of the training, to go on bit for bit with the same data and settings."""
        own = {
            "fingerprint": self._identity(),
            "state": self._state(),
            "best": self._best,
            "scores": self.scores,
            "factor": self.factor,
            "batch": self._batch,
            "sum": self._sum,
            "value": self.value,
            "n_iterations": self.n_iterations,
        }
        return serialization.pack(_KIND, _VERSION, own)

    def resume(self, state: bytes) -> bool:
        """Go on from `to_bytes`. Returns False if the state is of other data or settings.

        Raises StructlearnError SL050 to SL054 if the bytes are no such state.
        """
        _, own = serialization.unpack(state, _KIND, {_VERSION})
        if own.get("fingerprint") != self._identity():
            return False
        with serialization.reading(_KIND):
            best, scores = own["best"], [*map(float, own["scores"])]
            if best is not None:  # what training may go back to
                for name in self._first_vectors():
                    self._checked(best[name])
                int(best["n_updates"])
            factor, total, value = (float(own[name]) for name in ("factor", "sum", "value"))
            batch, n_iterations = int(own["batch"]), int(own["n_iterations"])
            self._set(own["state"])  # changes nothing where it raises
        self._best, self.scores, self.factor = best, scores, factor
        self._batch, self._sum, self.value = batch, total, value
        self.n_iterations = n_iterations
        return True

    def _identity(self) -> str:
        """Equal for equal data, first parameters and settings; threads make no difference."""
        if self._fingerprint is None:
            digest = blake2b(digest_size=16)
            digest.update(repr(astuple(replace(self.settings, threads=1))).encode())
            digest.update(self._start.to_bytes())
            for array in self._data.arrays:
                digest.update(array.tobytes())
            for text in sorted(map(str, self._held)):
                digest.update(text.encode("utf8", "surrogatepass") + b"\n")
            self._fingerprint = digest.hexdigest()
        return self._fingerprint


@dataclass
class _Sentences:
    """Derivations, a digest of each, its tree where that is known, and how many trees have none."""

    derivations: Derivations
    digests: list[bytes]
    trees: list[Tree | None]
    left_out: int

    @property
    def order(self) -> NDArray[np.int64]:
        """The sentences as good as by chance, but the same however they were ordered."""
        order = sorted(range(len(self.digests)), key=self.digests.__getitem__)
        return np.array(order, dtype=np.int64)

    @classmethod
    def of(cls, data: Data, parameters: ISBN) -> _Sentences:
        """What a trainer is given."""
        trees: list[Tree] = []
        parts: list[Derivations] = []
        for part in data:
            if isinstance(part, Derivations):
                parts.append(part)
            else:
                trees += _trees_of(part)
        encoded, kept = encode(trees, parameters.symbols)
        n_others = sum(len(part) for part in parts)
        derivations = Derivations.concatenate([encoded, *parts])
        return cls(
            derivations,
            _digests(derivations),
            [*(trees[number] for number in kept.tolist()), *[None] * n_others],
            len(trees) - len(kept),
        )

    def __add__(self, other: _Sentences) -> _Sentences:
        return _Sentences(
            Derivations.concatenate([self.derivations, other.derivations]),
            self.digests + other.digests,
            self.trees + other.trees,
            self.left_out + other.left_out,
        )

    def n_held_out(self, share: float) -> int:
        """How many at the front of `order` are this share; with the last of them those like it."""
        if not share or not self.digests:
            return 0
        last = sorted(self.digests)[max(round(share * len(self.digests)), 1) - 1]
        return sum(digest <= last for digest in self.digests)


def _digests(derivations: Derivations) -> list[bytes]:
    """A digest of each derivation, the same for the same one."""
    own = derivations
    per_move, per_word = (own.moves, own.labels), (own.tags, own.items, own.signatures)
    bounds, words = own.offsets.tolist(), own.word_offsets.tolist()
    digests = []
    for i in range(len(own)):
        digest = blake2b(digest_size=8)
        for columns, offsets in ((per_move, bounds), (per_word, words)):
            for column in columns:
                digest.update(column[offsets[i] : offsets[i + 1]].tobytes())
        digests.append(digest.digest())
    return digests


def _trees_of(part: Any) -> Iterable[Tree]:
    """A tree, or those of a list. Raises SL621 for anything else."""
    found = [part] if isinstance(part, Tree) or not isinstance(part, Iterable) else list(part)
    for tree in found:
        if not isinstance(tree, Tree):
            problem = f"something of the type {type(tree).__name__}"
            raise StructlearnError("SL621", problem=problem)
    return found


def _signature_sums(
    derivations: Derivations, log_probs: NDArray[np.floating]
) -> NDArray[np.float64]:
    """log P of the signatures of the words of each sentence, float64 (N)."""
    sums = np.zeros(len(derivations.signatures) + 1)
    has = derivations.signatures >= 0
    sums[1:][has] = log_probs[derivations.tags[has], derivations.signatures[has]]
    cumulative = np.cumsum(sums)
    return np.diff(cumulative[derivations.word_offsets])
