"""The artificial experiment of papers/titov_henderson2007: Titov & Henderson (2007), section 6.1.

Labelled sequences are drawn from random dynamic sigmoid belief networks. States depend on the
previous state, label and element (eq. 4), labels on the state, and elements on state and label
(eq. 3). Both approximations are trained on sequences and label others. They are compared with the
most frequent label of each element, and with Gibbs sampling from the true network, which is checked
by exact posteriors. Pieces of a sequence are independent; each starts from an initial state.

As in the paper's equations, the trained networks have the same parameters as the true networks: no
biases, and one row per element, for all labels. Figures under `biases` are for the networks of the
package, with biases and one row per pair of label and element.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from thinc.api import Adam

from spacy_structlearn.evaluation.mcnemar import mcnemar
from spacy_structlearn.isbn.decode import DerivationParser
from spacy_structlearn.isbn.derivation import SHIFT, DerivationSymbols, LeftCornerDerivations
from spacy_structlearn.isbn.model import ISBN
from spacy_structlearn.isbn.settings import ISBNSettings
from training.common.scoring import Figures, under
from training.papers.titov_henderson2007.models import Short

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

EXPERIMENTS = 10
STATE_SIZE, N_LABELS, N_ELEMENTS = 5, 6, 8
PIECE = 50  # elements
PIECES = {"train": 400, "dev": 100, "test": 200}
# Standard deviations of the recurrent, input and output weights of random networks. With these
# values, about every third network is nontrivial, and the accuracies of the unigram model and of
# the sampler are similar to those of the paper.
SPREADS = (3.0, 0.5, 4.0)
# Footnote 3, in percent.
LEAST_ACCURACY, LEAST_GAIN = 70.0, 3.0
# Gibbs sampling: number of chains per piece, of burn-in sweeps, and of sweeps after burn-in.
CHAINS, BURN_IN, SWEEPS = 4, 200, 1000
LEAST_PROBABILITY = 1e-290
BEAM, DEV_BEAM = 10, 5
SIGNIFICANT = 0.05
MEANS = {"nn": "feed_forward", "mf": "mean_field"}
SYMBOLS = DerivationSymbols(
    tags=tuple(map(str, range(N_LABELS))), words=(tuple(map(str, range(N_ELEMENTS))),) * N_LABELS
)


# --- random networks ------------------------------------------------------------------------------
class Sequences(NamedTuple):
    """Pieces of equal length: labels and elements, both (P, length)."""

    labels: Ids
    elements: Ids

    def accuracy(self, labels: Ids) -> float:
        """Return the accuracy of predicted labels, in percent."""
        return 100 * float((labels == self.labels).mean())


@dataclass(frozen=True)
class BeliefNetwork:
    """A dynamic sigmoid belief network with n binary variables, L labels and E elements.

    recurrent: (n, n), J[i, j] from variable j of the previous state to variable i. label_inputs,
    element_inputs: (L, n), (E, n), the rows B of the previous label and element. label_outputs:
    (L, n), W of the labels. element_outputs: (L, E, n), W of the elements given each label.
    """

    recurrent: Floats
    label_inputs: Floats
    element_inputs: Floats
    label_outputs: Floats
    element_outputs: Floats

    @classmethod
    def random(
        cls,
        rng: np.random.Generator,
        spreads: tuple[float, float, float] | None = None,
        sizes: tuple[int, int, int] = (STATE_SIZE, N_LABELS, N_ELEMENTS),
    ) -> BeliefNetwork:
        """Draw weights from normal distributions around 0. spreads: standard deviations. sizes: n,
        L and E.
        """
        recurrent, inputs, outputs = SPREADS if spreads is None else spreads
        n, labels, elements = sizes
        return cls(
            rng.normal(0, recurrent, (n, n)),
            rng.normal(0, inputs, (labels, n)),
            rng.normal(0, inputs, (elements, n)),
            rng.normal(0, outputs, (labels, n)),
            rng.normal(0, outputs, (labels, elements, n)),
        )

    @cached_property
    def states(self) -> Floats:
        """Return all 2^n states of the variables, (2^n, n)."""
        n = len(self.recurrent)
        return (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(float)

    @cached_property
    def log_emissions(self) -> Floats:
        """Return log P(label, element | state), (2^n, L, E)."""
        labels = _log_softmax(self.states @ self.label_outputs.T)
        scores = np.einsum("sn,yxn->syx", self.states, self.element_outputs)
        return labels[:, :, None] + _log_softmax(scores)

    @cached_property
    def log_transitions(self) -> Floats:
        """Return log P(next state | state, label, element), (2^n, L, E, 2^n)."""
        eta = (self.states @ self.recurrent.T)[:, None, None]
        eta = eta + self.label_inputs[:, None] + self.element_inputs
        # log sigma(eta) of a variable that is 1, log sigma(-eta) of one that is 0
        signs = 2 * self.states - 1
        return -np.logaddexp(0, -eta[..., None, :] * signs).sum(axis=-1)

    @cached_property
    def log_initial(self) -> Floats:
        """Return log P(first state), (2^n). eta is 0, because nothing precedes it."""
        size = len(self.states)
        return np.full(size, -np.log(size))

    def sample(self, n_pieces: int, length: int, rng: np.random.Generator) -> Sequences:
        """Draw independent pieces."""
        n_elements = self.log_emissions.shape[2]
        labels, elements = np.empty((2, n_pieces, length), dtype=np.int64)
        weights = np.exp(self.log_initial)[None].repeat(n_pieces, axis=0)
        flat = np.exp(self.log_emissions).reshape(len(self.states), -1)
        for t in range(length):
            state = _drawn(weights, rng)
            labels[:, t], elements[:, t] = divmod(_drawn(flat[state], rng), n_elements)
            weights = np.exp(self.log_transitions[state, labels[:, t], elements[:, t]])
        return Sequences(labels, elements)


def _log_softmax(scores: Floats) -> Floats:
    return scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True)


def _drawn(weights: Floats, rng: np.random.Generator) -> Ids:
    """Draw indices of the last axis with probabilities proportional to the weights."""
    cumulative = weights.cumsum(axis=-1)
    thresholds = rng.random((*weights.shape[:-1], 1)) * cumulative[..., -1:]
    # By rounding, the threshold can be equal to the sum.
    return np.minimum((cumulative <= thresholds).sum(axis=-1), weights.shape[-1] - 1)


# --- baselines and true networks ------------------------------------------------------------------
def unigram(train: Sequences, elements: Ids) -> Ids:
    """Label each element with its most frequent label in `train`."""
    counts = np.zeros((elements.max() + 1, train.labels.max() + 1))
    seen = train.elements <= elements.max()
    np.add.at(counts, (train.elements[seen], train.labels[seen]), 1)
    return counts.argmax(axis=1)[elements]


def posteriors(network: BeliefNetwork, elements: Ids) -> Floats:
    """Return P(label | all elements of the piece), (P, length, L), by forward-backward over states.

    The transition matrix of an element sums over labels.
    """
    emissions, transitions = np.exp(network.log_emissions), np.exp(network.log_transitions)
    forward = np.exp(network.log_initial)[None].repeat(len(elements), axis=0)
    before = []
    for column in elements.T:
        before.append(forward)
        joint = forward[:, :, None] * emissions[:, :, column].transpose(2, 0, 1)
        forward = np.empty_like(forward)
        for x in np.unique(column):
            forward[column == x] = np.tensordot(joint[column == x], transitions[:, :, x], 2)
        forward /= forward.sum(axis=1, keepdims=True)
    backward = np.ones_like(forward)
    found = np.empty((*elements.shape, emissions.shape[1]))
    for t, column in reversed(list(enumerate(elements.T))):
        below = np.empty((len(elements), *emissions.shape[:2]))
        for x in np.unique(column):
            rows = column == x
            below[rows] = emissions[:, :, x] * np.tensordot(
                backward[rows], transitions[:, :, x], (1, 2)
            )
        found[:, t] = np.einsum("ps,psy->py", before[t], below)
        backward = below.sum(axis=2)
        backward /= backward.sum(axis=1, keepdims=True)
    return found / found.sum(axis=2, keepdims=True)


def gibbs(
    network: BeliefNetwork,
    elements: Ids,
    rng: np.random.Generator,
    *,
    chains: int | None = None,
    burn_in: int | None = None,
    sweeps: int | None = None,
) -> Floats:
    """Estimate `posteriors` by Gibbs sampling of the states.

    States are drawn given their neighbours and the elements: first all even positions of all
    pieces, then all odd ones, which are independent given the others. Labels are summed out,
    because chains that also draw labels hardly move if weights are large. The result is the mean
    distribution of each label given the states around it. chains: number of copies of each piece.
    burn_in, sweeps: number of sweeps before and after burn-in.
    """
    chains = CHAINS if chains is None else chains
    burn_in = BURN_IN if burn_in is None else burn_in
    sweeps = SWEEPS if sweeps is None else sweeps
    emissions, transitions = np.exp(network.log_emissions), np.exp(network.log_transitions)
    n_states, n_labels, n_elements = emissions.shape
    # An additional state and element stand for positions before the first and after the last one.
    joint = np.empty((n_states, n_labels, n_elements, n_states + 1))
    joint[..., :-1] = emissions[..., None] * transitions
    joint[..., -1] = emissions
    # P(element, next state | state) by element, and by next state first.
    into = np.empty((n_elements + 1, n_states + 1, n_states))
    into[:-1, :-1] = joint[..., :-1].sum(axis=1).transpose(1, 0, 2)
    into[-1] = np.exp(network.log_initial)
    onward = joint.sum(axis=1).transpose(1, 2, 0).copy()
    # If a next state is impossible after all states, it is never drawn.
    sums = np.maximum(joint.sum(axis=1, keepdims=True), LEAST_PROBABILITY)
    of_label = (joint / sums).transpose(0, 2, 3, 1).copy()
    n_pieces, length = elements.shape
    shape = chains * n_pieces, length + 2
    x = np.full(shape, n_elements)
    x[:, 1:-1] = np.tile(elements, (chains, 1))
    s = rng.integers(n_states, size=shape)
    s[:, 0] = s[:, -1] = n_states
    total = np.zeros((chains * n_pieces, length, n_labels))
    for sweep in range(burn_in + sweeps):
        for first in (1, 2):
            here, before, after = (slice(first + i, length + 1 + i, 2) for i in (0, -1, 1))
            shares = into[x[:, before], s[:, before]]
            shares *= onward[x[:, here], s[:, after]]
            # The initial states must not be impossible.
            shares += LEAST_PROBABILITY
            s[:, here] = _drawn(shares, rng)
        if sweep >= burn_in:
            total += of_label[s[:, 1:-1], x[:, 1:-1], s[:, 2:]]
    return total.reshape(chains, n_pieces, length, n_labels).mean(axis=0) / sweeps


def searched(network: BeliefNetwork, elements: Ids, beam: int = BEAM) -> Ids:
    """Label pieces by the true network, with the beam search of the approximations. The
    probability of the labels and elements so far is exact.
    """
    emissions, transitions = np.exp(network.log_emissions), np.exp(network.log_transitions)
    n_labels = emissions.shape[1]
    rows = np.arange(len(elements))[:, None]
    states = np.exp(network.log_initial)[None, None].repeat(len(elements), axis=0)
    scores = np.zeros((len(elements), 1))
    choices = []
    for column in elements.T:
        joint = states[:, :, None] * emissions[:, :, column].transpose(2, 1, 0)[:, None]
        sums = joint.sum(axis=-1)
        scores = (scores[..., None] + np.log(sums)).reshape(len(elements), -1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :beam]
        scores = scores[rows, best]
        origins, labels = divmod(best, n_labels)
        choices.append((origins, labels))
        filtered = (joint / sums[..., None])[rows, origins, labels]
        onward = transitions[:, :, column].transpose(2, 1, 0, 3)[rows, labels]
        states = np.einsum("pks,pkst->pkt", filtered, onward)
    found = np.empty_like(elements)
    rows, places = rows[:, 0], np.zeros(len(elements), dtype=np.int64)
    for t, (origins, labels) in reversed(list(enumerate(choices))):
        found[:, t] = labels[rows, places]
        places = origins[rows, places]
    return found


class Task(NamedTuple):
    """A nontrivial network, its sequences by `PIECES`, and the number of networks drawn."""

    network: BeliefNetwork
    parts: dict[str, Sequences]
    drawn: int


def draw(number: int, limit: int | None = None) -> Task:
    """Draw networks and sequences until the development sequence satisfies footnote 3.

    limit: use only this many pieces of each part.
    """
    rng = np.random.default_rng([2007, number])
    drawn = 0
    while True:
        drawn += 1
        network = BeliefNetwork.random(rng)
        parts = {
            name: network.sample(n if limit is None else min(n, limit), PIECE, rng)
            for name, n in PIECES.items()
        }
        dev = parts["dev"]
        best = dev.accuracy(gibbs(network, dev.elements, rng).argmax(axis=2))
        plain = dev.accuracy(unigram(parts["train"], dev.elements))
        if best > LEAST_ACCURACY and best - plain > LEAST_GAIN:
            return Task(network, parts, drawn)


# --- learning -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Learning:
    """Settings of online training.

    When the accuracy on the development sequence decreases, training returns to the best weights
    and lowers the learning rate and the weight decay.

    biases: whether networks have all parameters of the package. learn_rates: rates to try.
    restarts: number of initializations for each. l2: weight decay; an update shrinks weights by the
    factor learn_rate * l2. batch_size: pieces per update. factor: for lowering rate and decay.
    least: training ends below this share of the initial rate. epochs: maximum number.
    """

    biases: bool = False
    learn_rates: tuple[float, ...] = (0.05,)
    restarts: int = 2
    l2: float = 1e-3
    batch_size: int = 4
    factor: float = 0.7
    least: float = 1 / 64
    epochs: int = 100


LEARNING = {"": Learning(), "biases.": Learning(biases=True)}


class Learned(NamedTuple):
    """A network, its accuracy on the development sequence, the epochs until this accuracy, and the
    learning rate and seed."""

    model: ISBN
    accuracy: float
    epochs: int
    learn_rate: float
    seed: int


def encode(sequences: Sequences) -> LeftCornerDerivations:
    """Encode each piece as a derivation that shifts its elements, with their labels as tags."""
    n_pieces, length = sequences.labels.shape
    offsets = np.arange(n_pieces + 1, dtype=np.int64) * length
    tags = sequences.labels.ravel()
    items = SYMBOLS.item_offsets[tags] + sequences.elements.ravel()
    none = np.full(len(tags), -1, dtype=np.int32)
    return LeftCornerDerivations(
        offsets,
        offsets,
        np.full(len(tags), SHIFT, dtype=np.int8),
        none,
        tags.astype(np.int32),
        items.astype(np.int32),
        none,
    )


def first(means: str, seed: int = 0) -> ISBN:
    """Return a network with random weights. means: one of `MEANS`."""
    settings = ISBNSettings(
        state_size=STATE_SIZE, means=MEANS[means], features="a", beam=BEAM, seed=seed
    )
    return ISBN.initialize(SYMBOLS, np.zeros((N_LABELS, 0)), settings)


def tie(
    model: ISBN, vector: NDArray[np.floating], combine: Callable[..., NDArray[np.floating]]
) -> None:
    """Reduce a vector of weights, or of their gradient, to the paper's parameters, in place.

    Biases and the weights of moves become zero, and the rows of an element for all labels are
    replaced by `combine` of these rows, such as np.sum.
    """
    parts = model.parts(vector)
    parts["bias"][:] = 0
    parts["output_bias"][:] = 0
    blocks = model.symbols.input_blocks
    parts["inputs"][blocks["a.moves"]] = 0
    rows = parts["inputs"][blocks["a.items"]].reshape(N_LABELS, N_ELEMENTS, -1)
    rows[:] = combine(rows, axis=0)


def label(model: ISBN, elements: Ids, beam: int = BEAM) -> Ids:
    """Return the most probable labels found by the search."""
    parser = DerivationParser(model, beam=beam)
    parses = parser.parse([list(map(str, row)) for row in elements.tolist()])
    return np.array([[int(tag) for tag in parse.tags] for parse in parses])


def train(
    means: str, parts: dict[str, Sequences], settings: Learning, learn_rate: float, seed: int
) -> Learned:
    """Train one network. Return the weights with the best accuracy on the development sequence."""
    model = first(means, seed)
    weights = model.weights.copy()
    if not settings.biases:
        tie(model, weights, np.mean)
    network, data = model.network(), encode(parts["train"]).arrays
    n_pieces, dev = len(parts["train"].labels), parts["dev"]
    optimizer = Adam(learn_rate, grad_clip=0.0, use_averages=False)
    rng = np.random.default_rng(seed)
    gradient = np.empty(network.n_weights)
    factor, best = 1.0, Learned(model, -1.0, 0, learn_rate, seed)
    for epoch in range(1, settings.epochs + 1):
        optimizer.learn_rate = learn_rate * factor
        optimizer.L2 = settings.l2 * factor
        for batch in np.array_split(rng.permutation(n_pieces), -(-n_pieces // settings.batch_size)):
            gradient.fill(0)
            scale = -1 / len(batch)
            network.log_likelihoods(weights.astype(np.float64), *data, batch, gradient, scale=scale)
            if not settings.biases:
                tie(model, gradient, np.sum)
            weights, _ = optimizer((0, "weights"), weights, gradient.astype(np.float32))
        found = model.replaced(weights=weights.copy())
        accuracy = dev.accuracy(label(found, dev.elements, DEV_BEAM))
        if accuracy >= best.accuracy:
            best = best._replace(model=found, accuracy=accuracy, epochs=epoch)
            continue
        factor *= settings.factor
        if factor < settings.least:
            break
        weights = best.model.weights.copy()
    return best


def learn(means: str, parts: dict[str, Sequences], settings: Learning) -> Learned:
    """Train with all learning rates and initializations. Return the best on the development
    sequence."""
    runs = [
        train(means, parts, settings, learn_rate, seed)
        for learn_rate in settings.learn_rates
        for seed in range(settings.restarts)
    ]
    return max(runs, key=lambda run: run.accuracy)


# --- experiments ----------------------------------------------------------------------------------
def experiment(number: int, limit: int | None = None) -> Figures:
    """Return test accuracies, error reductions and significance tests of one experiment.

    number: seed of networks and sequences. limit: see `draw`.
    """
    begun = time.process_time()
    task = draw(number, limit)
    test = task.parts["test"]
    rng = np.random.default_rng([2007, number, 1])
    answers = {
        "unigram": unigram(task.parts["train"], test.elements),
        "gibbs": gibbs(task.network, test.elements, rng).argmax(axis=2),
        "exact": posteriors(task.network, test.elements).argmax(axis=2),
        "search": searched(task.network, test.elements),
    }
    found: Figures = {f"{name}.acc": test.accuracy(own) for name, own in answers.items()}
    found["drawn"] = task.drawn
    for prefix, settings in LEARNING.items():
        for means in MEANS:
            start = time.process_time()
            learned = learn(means, task.parts, settings)
            answers[means] = label(learned.model, test.elements)
            found |= under(
                f"{prefix}{means}",
                {
                    "acc": test.accuracy(answers[means]),
                    "dev_acc": learned.accuracy,
                    "epochs": learned.epochs,
                    "learn_rate": learned.learn_rate,
                    "seed": learned.seed,
                    "train_s": time.process_time() - start,
                },
            )
        result = mcnemar(
            test.labels.ravel().tolist(),
            answers["nn"].ravel().tolist(),
            answers["mf"].ravel().tolist(),
        )
        found |= {
            f"{prefix}only_nn": result.only_a,
            f"{prefix}only_mf": result.only_b,
            f"{prefix}p": result.p,
            **reductions(found, prefix),
        }
    return found | {"seconds": time.process_time() - begun}


def reductions(figures: Figures, prefix: str) -> Figures:
    """Return reductions of the errors above the sampler's, in percent: by nn relative to the
    unigram model, and by mf relative to nn.
    """
    plain, best = figures["unigram.acc"], figures["gibbs.acc"]
    nn, mf = (figures[f"{prefix}{means}.acc"] for means in MEANS)
    return {
        f"{prefix}nn_error_reduction": 100 * (nn - plain) / (best - plain),
        f"{prefix}mf_over_nn_error_reduction": 100 * (mf - nn) / (best - nn),
    }


def summary(experiments: list[Figures]) -> Figures:
    """Return means over experiments. Reductions `of_means` are computed from mean accuracies.

    mf_wins: number of experiments in which mf is more accurate than nn. mf_significant,
    nn_significant: number in which one is better by McNemar's test.
    """
    names = [key for key in experiments[0] if key.endswith((".acc", "_error_reduction"))]
    found: Figures = {
        key: float(np.mean([figures[key] for figures in experiments])) for key in names
    }
    for prefix in LEARNING:
        for key, value in reductions(found, prefix).items():
            found[f"{key}_of_means"] = value
        ahead = [figures[f"{prefix}mf.acc"] - figures[f"{prefix}nn.acc"] for figures in experiments]
        clear = [figures[f"{prefix}p"] < SIGNIFICANT for figures in experiments]
        found[f"{prefix}mf_wins"] = sum(gain > 0 for gain in ahead)
        for means, sign in (("mf", 1), ("nn", -1)):
            pairs = zip(ahead, clear, strict=True)
            found[f"{prefix}{means}_significant"] = sum(sure and sign * x > 0 for x, sure in pairs)
    found["drawn"] = sum(figures["drawn"] for figures in experiments)
    found["seconds"] = sum(figures["seconds"] for figures in experiments)
    return found


def run(seeds: int = EXPERIMENTS, jobs: int = 1, limit: int | None = None) -> Iterator[Figures]:
    """Yield figures of each experiment, and finally of all.

    seeds: number of experiments. jobs: number of processes. limit: see `draw`.
    """
    experiments = []
    with ExitStack() as stack:
        # `map` of a pool submits all of them at once.
        each = map
        if jobs > 1:
            pool = ProcessPoolExecutor(jobs, get_context("spawn"))
            each = stack.enter_context(pool).map
        for number, figures in enumerate(each(partial(experiment, limit=limit), range(seeds))):
            experiments.append(figures)
            yield under(f"artificial.experiments.{number}", figures)
    yield under("artificial", summary(experiments))


def artificial(part: Short) -> Iterator[Figures]:
    """Yield figures of section 6.1: sequences of random networks."""
    return run(jobs=part.jobs, limit=part.limit)
