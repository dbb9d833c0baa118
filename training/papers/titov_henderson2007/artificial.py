"""The artificial experiment of papers/titov_henderson2007: Titov & Henderson (2007), section 6.1.

Labelled sequences are drawn from random dynamic sigmoid belief networks, whose states follow from
the state, the label and the element before (eq. 4), labels from the state and elements from state
and label (eq. 3). Both approximations learn from them and label others, as does the most frequent
label of each element and Gibbs sampling from the network that the sequences were drawn from, here
checked by exact posteriors. Pieces of a sequence are drawn independently of one another, each from
a first state with nothing before it.

What is learned has the very parameters of the networks that the sequences come from, as in the
paper's equations: no biases, and a row for each element, whatever its label. Figures under `biases`
are of the package's networks as they are, with biases and a row for each pair of label and element.
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
# Standard deviations of the weights of random networks: of recurrent ones, of rows that a state
# reads, of outputs. With these about every third network is not trivial, and the accuracies of the
# unigram model and of the sampler come near those of the paper.
SPREADS = (3.0, 0.5, 4.0)
# Footnote 3, in percent.
LEAST_ACCURACY, LEAST_GAIN = 70.0, 3.0
# Of Gibbs sampling: each piece so many times, sweeps that do not count, and such that do.
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
        """Of other labels for the same elements, in percent."""
        return 100 * float((labels == self.labels).mean())


@dataclass(frozen=True)
class BeliefNetwork:
    """A dynamic sigmoid belief network with n binary variables, L labels and E elements.

    recurrent: (n, n), J[i, j] from variable j of the state before to variable i. label_inputs,
    element_inputs: (L, n), (E, n), the rows B of the label and the element before. label_outputs:
    (L, n), W of the labels. element_outputs: (L, E, n), W of the elements under each label.
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
        """Weights from normal distributions around 0. spreads: `SPREADS`, by default. sizes: n, L
        and E.
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
        """All 2^n states of the variables, (2^n, n)."""
        n = len(self.recurrent)
        return (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(float)

    @cached_property
    def log_emissions(self) -> Floats:
        """log P(label, element | state), (2^n, L, E)."""
        labels = _log_softmax(self.states @ self.label_outputs.T)
        scores = np.einsum("sn,yxn->syx", self.states, self.element_outputs)
        return labels[:, :, None] + _log_softmax(scores)

    @cached_property
    def log_transitions(self) -> Floats:
        """log P(next state | state, label, element), (2^n, L, E, 2^n)."""
        eta = (self.states @ self.recurrent.T)[:, None, None]
        eta = eta + self.label_inputs[:, None] + self.element_inputs
        # log sigma(eta) of a variable that is 1, log sigma(-eta) of one that is 0
        signs = 2 * self.states - 1
        return -np.logaddexp(0, -eta[..., None, :] * signs).sum(axis=-1)

    @cached_property
    def log_initial(self) -> Floats:
        """log P(first state), (2^n): nothing is before it, and eta is 0."""
        size = len(self.states)
        return np.full(size, -np.log(size))

    def sample(self, n_pieces: int, length: int, rng: np.random.Generator) -> Sequences:
        """Pieces that are independent of one another."""
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
    """One index of the last axis each, with a probability proportional to its weight."""
    cumulative = weights.cumsum(axis=-1)
    thresholds = rng.random((*weights.shape[:-1], 1)) * cumulative[..., -1:]
    # Rounding may bring the threshold up to the sum itself.
    return np.minimum((cumulative <= thresholds).sum(axis=-1), weights.shape[-1] - 1)


# --- what is known without learning ---------------------------------------------------------------
def unigram(train: Sequences, elements: Ids) -> Ids:
    """The label that each element has most often in `train`."""
    counts = np.zeros((elements.max() + 1, train.labels.max() + 1))
    seen = train.elements <= elements.max()
    np.add.at(counts, (train.elements[seen], train.labels[seen]), 1)
    return counts.argmax(axis=1)[elements]


def posteriors(network: BeliefNetwork, elements: Ids) -> Floats:
    """P(label | all elements of the piece), (P, length, L), by the forward-backward algorithm over
    the states. Given the element, next states follow from states by a matrix: labels sum out.
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
    """As `posteriors`, estimated by Gibbs sampling of the states.

    Each state is drawn given those before and after it and the elements, all even positions of all
    pieces at once, then all odd ones: these are independent of one another given the others. The
    labels are summed out of what states are drawn from, since chains that draw them as well hardly
    move where weights are large; what is averaged is the distribution of each label given the
    states around it. chains, burn_in, sweeps: so many copies of each piece, sweeps that do not
    count, and such that do; by default those of the module.
    """
    chains = CHAINS if chains is None else chains
    burn_in = BURN_IN if burn_in is None else burn_in
    sweeps = SWEEPS if sweeps is None else sweeps
    emissions, transitions = np.exp(network.log_emissions), np.exp(network.log_transitions)
    n_states, n_labels, n_elements = emissions.shape
    # One more state, and element, stand for what is before the first and after the last position.
    joint = np.empty((n_states, n_labels, n_elements, n_states + 1))
    joint[..., :-1] = emissions[..., None] * transitions
    joint[..., -1] = emissions
    # P(element, next state | state) by element, and by next state first.
    into = np.empty((n_elements + 1, n_states + 1, n_states))
    into[:-1, :-1] = joint[..., :-1].sum(axis=1).transpose(1, 0, 2)
    into[-1] = np.exp(network.log_initial)
    onward = joint.sum(axis=1).transpose(1, 2, 0).copy()
    # A next state may be impossible in all ways, but then it is not drawn.
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
            # Where the chains begin, nothing must be impossible.
            shares += LEAST_PROBABILITY
            s[:, here] = _drawn(shares, rng)
        if sweep >= burn_in:
            total += of_label[s[:, 1:-1], x[:, 1:-1], s[:, 2:]]
    return total.reshape(chains, n_pieces, length, n_labels).mean(axis=0) / sweeps


def searched(network: BeliefNetwork, elements: Ids, beam: int = BEAM) -> Ids:
    """The labels of the piece that the true network finds by the search that the approximations
    have: the probability of labels and elements so far is exact, and so many hypotheses are kept.
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
    """A network that is not trivial, and sequences of it by `PIECES`; so many were drawn for it."""

    network: BeliefNetwork
    parts: dict[str, Sequences]
    drawn: int


def draw(number: int, limit: int | None = None) -> Task:
    """Networks and sequences until the development sequence passes footnote 3.

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
    """On-line training: learning rate and weight decay are lowered whenever the development
    sequence is labelled worse than by the best weights before, to which training goes back.

    biases: whether networks are those of the package as they are. learn_rates: that are tried.
    restarts: number of first weights for each. l2: the decay: weights shrink by learn_rate * l2 of
    themselves in an update. batch_size: pieces in an update. factor: what both are multiplied by.
    least: below this share of the first rate training ends. epochs: at most. scale: of first
    weights, see `ISBN.initialize`.
    """

    biases: bool = False
    learn_rates: tuple[float, ...] = (0.05,)
    restarts: int = 2
    l2: float = 1e-3
    batch_size: int = 4
    factor: float = 0.7
    least: float = 1 / 64
    epochs: int = 100
    scale: float = 1.0


LEARNING = {"": Learning(), "biases.": Learning(biases=True)}


class Learned(NamedTuple):
    """A network, its accuracy on the development sequence, the epochs it took to be as good as it
    became, and what it was learned with."""

    model: ISBN
    accuracy: float
    epochs: int
    learn_rate: float
    seed: int


def encode(sequences: Sequences) -> LeftCornerDerivations:
    """Each piece as a derivation that shifts its elements, with their labels as tags."""
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


def first(means: str, seed: int = 0, scale: float = 1.0) -> ISBN:
    """A network with random weights. means: one of `MEANS`."""
    settings = ISBNSettings(
        state_size=STATE_SIZE, means=MEANS[means], features="a", beam=BEAM, seed=seed
    )
    return ISBN.initialize(SYMBOLS, np.zeros((N_LABELS, 0)), settings, scale=scale)


def tie(
    model: ISBN, vector: NDArray[np.floating], combine: Callable[..., NDArray[np.floating]]
) -> None:
    """Reduce a vector of weights, or of their gradient, to the paper's parameters, in place.

    There are no biases, nothing is read of the move, and an element has one row: `combine`, a
    function such as np.sum, of the rows that it has under all labels.
    """
    parts = model.parts(vector)
    parts["bias"][:] = 0
    parts["output_bias"][:] = 0
    blocks = model.symbols.input_blocks
    parts["inputs"][blocks["a.moves"]] = 0
    rows = parts["inputs"][blocks["a.items"]].reshape(N_LABELS, N_ELEMENTS, -1)
    rows[:] = combine(rows, axis=0)


def label(model: ISBN, elements: Ids, beam: int = BEAM) -> Ids:
    """The most probable labels that the search finds."""
    parser = DerivationParser(model, beam=beam)
    parses = parser.parse([list(map(str, row)) for row in elements.tolist()])
    return np.array([[int(tag) for tag in parse.tags] for parse in parses])


def train(
    means: str, parts: dict[str, Sequences], settings: Learning, learn_rate: float, seed: int
) -> Learned:
    """One network, as it was when it labelled the development sequence best."""
    model = first(means, seed, settings.scale)
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
    """The best on the development sequence of all learning rates and first weights."""
    runs = [
        train(means, parts, settings, learn_rate, seed)
        for learn_rate in settings.learn_rates
        for seed in range(settings.restarts)
    ]
    return max(runs, key=lambda run: run.accuracy)


# --- experiments ----------------------------------------------------------------------------------
def experiment(number: int, limit: int | None = None) -> Figures:
    """All of one experiment: accuracies on the test sequence, reductions of errors, tests.

    number: which networks and sequences are drawn follows from it. limit: as of `draw`.
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
    """Of the errors above the sampler's, in percent: how many fewer nn makes than the unigram
    model, and mf than nn.
    """
    plain, best = figures["unigram.acc"], figures["gibbs.acc"]
    nn, mf = (figures[f"{prefix}{means}.acc"] for means in MEANS)
    return {
        f"{prefix}nn_error_reduction": 100 * (nn - plain) / (best - plain),
        f"{prefix}mf_over_nn_error_reduction": 100 * (mf - nn) / (best - nn),
    }


def summary(experiments: list[Figures]) -> Figures:
    """Means over experiments; reductions are so too, and, `of_means`, computed of mean accuracies.

    mf_wins: in how many mf is more accurate than nn. mf_significant, nn_significant: in how many
    one is ahead by McNemar's test.
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
    """Figures of each experiment as it is done, and in the end of all.

    seeds: how many there are. jobs: processes. limit: use only this many pieces of each part.
    """
    experiments = []
    with ExitStack() as stack:
        # `map` of a pool begins all of them at once.
        each = map
        if jobs > 1:
            pool = ProcessPoolExecutor(jobs, get_context("spawn"))
            each = stack.enter_context(pool).map
        for number, figures in enumerate(each(partial(experiment, limit=limit), range(seeds))):
            experiments.append(figures)
            yield under(f"artificial.experiments.{number}", figures)
    yield under("artificial", summary(experiments))


def artificial(part: Short) -> Iterator[Figures]:
    """Section 6.1: sequences of random networks."""
    return run(jobs=part.jobs, limit=part.limit)
