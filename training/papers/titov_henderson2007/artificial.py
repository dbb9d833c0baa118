"""The artificial experiment of papers/titov_henderson2007: Titov & Henderson (2007), section 6.1.

Labelled sequences are drawn from random dynamic sigmoid belief networks. States depend on the
previous state, label and element (eq. 4), labels on the state, and elements on state and label
(eq. 3). Both approximations are trained on sequences and label others. They are compared with the
most frequent label of each element, and with Gibbs sampling from the true network, which is checked
by exact posteriors. Pieces of a sequence are independent; each starts from an initial state.

As in the paper's equations, the trained networks have the same parameters as the true networks: no
biases, and one row per element, for all labels. Figures under `biases` are for the networks of the
package, with biases and one row per pair of label and element. Those under `bound` are of networks
trained with exact probabilities, which shows how much of the errors is due to approximation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from thinc.api import Adam

from spacy_structlearn.evaluation.significance import mcnemar
from spacy_structlearn.isbn.decode import DerivationParser
from spacy_structlearn.isbn.derivation import LeftCornerDerivations
from spacy_structlearn.isbn.model import ISBN
from spacy_structlearn.isbn.settings import ISBNSettings
from spacy_structlearn.isbn.symbols import ANCESTOR, SHIFT, DerivationSymbols
from training.common.scoring import Figures, under
from training.papers.titov_henderson2007.models import Short
from training.papers.titov_henderson2007.networks import (
    BEAM,
    N_ELEMENTS,
    N_LABELS,
    SPREADS,
    STATE_SIZE,
    BeliefNetwork,
    Floats,
    Ids,
    Sequences,
    gibbs,
    log_likelihoods,
    posteriors,
    searched,
    unigram,
)

EXPERIMENTS = 10
# Other spreads of recurrent, input and output weights, with fewer experiments.
OTHER_SPREADS = {
    "outputs_2": (3.0, 0.5, 2.0),
    "recurrent_1_5": (1.5, 0.5, 4.0),
    "inputs_2": (3.0, 2.0, 4.0),
}
SPREAD_EXPERIMENTS = 4
PIECE = 50  # elements
PIECES = {"train": 400, "dev": 100, "test": 200}
# Footnote 3, in percent.
LEAST_ACCURACY, LEAST_GAIN = 70.0, 3.0
DEV_BEAM = 5
SIGNIFICANT = 0.05
MEANS = {"nn": "feed_forward", "mf": "mean_field"}
SYMBOLS = DerivationSymbols(
    tags=tuple(map(str, range(N_LABELS))), words=(tuple(map(str, range(N_ELEMENTS))),) * N_LABELS
)


# --- networks and sequences -----------------------------------------------------------------------
class Task(NamedTuple):
    """A nontrivial network, its sequences by `PIECES`, and the number of networks drawn."""

    network: BeliefNetwork
    parts: dict[str, Sequences]
    drawn: int


def draw(
    number: int, limit: int | None = None, spreads: tuple[float, float, float] = SPREADS
) -> Task:
    """Draw networks and sequences until the development sequence satisfies footnote 3.

    limit: use only this many pieces of each part. spreads: of the weights.
    """
    rng = np.random.default_rng([2007, number])
    drawn = 0
    while True:
        drawn += 1
        network = BeliefNetwork.random(rng, spreads)
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

    model: Any  # an ISBN or a BeliefNetwork
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


def belief(model: ISBN) -> BeliefNetwork:
    """Return the paper's parameters of a network, see `tie`."""
    parts, inputs, outputs = model.parts(), model.symbols.input_blocks, model.symbols.output_blocks
    by_label = N_LABELS, N_ELEMENTS, model.state_size
    return BeliefNetwork(
        # The last state of a word is that of the node below the next word on the stack.
        parts["recurrent"][ANCESTOR].astype(np.float64),
        parts["inputs"][inputs["a.tags"]].astype(np.float64),
        parts["inputs"][inputs["a.items"]].astype(np.float64).reshape(by_label).mean(axis=0),
        parts["outputs"][outputs["tags"]].astype(np.float64),
        parts["outputs"][outputs["items"]].astype(np.float64).reshape(by_label),
    )


def label(model: ISBN, elements: Ids, beam: int = BEAM) -> Ids:
    """Return the most probable labels found by the search."""
    parser = DerivationParser(model, beam=beam)
    parses = parser.parse([list(map(str, row)) for row in elements.tolist()])
    return np.array([[int(tag) for tag in parse.tags] for parse in parses])


def approximation(means: str, network: BeliefNetwork) -> ISBN:
    """Return an approximation with the weights of a network. This is the inverse of `belief`."""
    model = first(means)
    weights = np.zeros_like(model.weights)
    parts, inputs, outputs = model.parts(weights), SYMBOLS.input_blocks, SYMBOLS.output_blocks
    parts["recurrent"][ANCESTOR] = network.recurrent
    parts["inputs"][inputs["a.tags"]] = network.label_inputs
    parts["inputs"][inputs["a.items"]] = np.tile(network.element_inputs, (N_LABELS, 1))
    parts["outputs"][outputs["tags"]] = network.label_outputs
    parts["outputs"][outputs["items"]] = network.element_outputs.reshape(-1, STATE_SIZE)
    return model.replaced(weights=weights)


def train(
    means: str,
    parts: dict[str, Sequences],
    settings: Learning,
    learn_rate: float,
    seed: int,
    start: BeliefNetwork | None = None,
) -> Learned:
    """Train an approximation. Return the weights with the best accuracy on the development
    sequence. means: one of `MEANS`. start: initial weights, by default random ones.
    """
    model = first(means, seed) if start is None else approximation(means, start)
    weights = model.weights.copy()
    if not settings.biases:
        tie(model, weights, np.mean)
    network, data = model.network(), encode(parts["train"]).arrays
    gradient = np.empty(network.n_weights)

    def slope(weights: NDArray[np.float32], batch: Ids) -> Floats:
        gradient.fill(0)
        network.log_likelihoods(weights.astype(np.float64), *data, batch, gradient)
        if not settings.biases:
            tie(model, gradient, np.sum)
        return gradient

    def build(weights: NDArray[np.float32]) -> ISBN:
        return model.replaced(weights=weights)

    return _descend(weights, slope, build, label, parts, settings, learn_rate, seed)


def train_exact(
    parts: dict[str, Sequences],
    settings: Learning,
    learn_rate: float,
    seed: int,
    start: BeliefNetwork | None = None,
) -> Learned:
    """Train like `train`, with exact probabilities.

    start: initial weights, by default the same random ones as for the approximations.
    """
    network = belief(first("mf", seed)) if start is None else start
    data = parts["train"]

    def slope(weights: NDArray[np.float32], batch: Ids) -> Floats:
        some = Sequences(data.labels[batch], data.elements[batch])
        return log_likelihoods(network.replaced(weights), some)[1]

    weights = network.vector.astype(np.float32)
    return _descend(weights, slope, network.replaced, searched, parts, settings, learn_rate, seed)


def _descend(
    weights: NDArray[np.float32],
    slope: Callable[[NDArray[np.float32], Ids], Floats],
    build: Callable[[NDArray[np.float32]], Any],
    search: Callable[[Any, Ids, int], Ids],
    parts: dict[str, Sequences],
    settings: Learning,
    learn_rate: float,
    seed: int,
) -> Learned:
    """Train online from initial weights.

    slope: returns the gradient of the log-likelihood of some pieces, by their numbers. build:
    returns the network with the given weights. search: labels elements by a network with a beam.
    """
    n_pieces, dev = len(parts["train"].labels), parts["dev"]
    optimizer = Adam(learn_rate, grad_clip=0.0, use_averages=False)
    rng = np.random.default_rng(seed)
    factor, best = 1.0, Learned(build(weights.copy()), -1.0, 0, learn_rate, seed)
    kept = weights
    for epoch in range(1, settings.epochs + 1):
        optimizer.learn_rate = learn_rate * factor
        optimizer.L2 = settings.l2 * factor
        for batch in np.array_split(rng.permutation(n_pieces), -(-n_pieces // settings.batch_size)):
            step = (slope(weights, batch) / -len(batch)).astype(np.float32)
            weights, _ = optimizer((0, "weights"), weights, step)
        found = build(weights.copy())
        accuracy = dev.accuracy(search(found, dev.elements, DEV_BEAM))
        if accuracy >= best.accuracy:
            best = best._replace(model=found, accuracy=accuracy, epochs=epoch)
            kept = weights.copy()
            continue
        factor *= settings.factor
        if factor < settings.least:
            break
        weights = kept.copy()
    return best


def trainer(means: str) -> Callable[..., Learned]:
    """Return the function that trains one of `MEANS`, or with "exact" probabilities."""
    return train_exact if means == "exact" else partial(train, means)


def learn(means: str, parts: dict[str, Sequences], settings: Learning) -> Learned:
    """Train with all learning rates and initializations. Return the best on the development
    sequence. means: one of `MEANS`, or "exact".
    """
    own = trainer(means)
    runs = [
        own(parts, settings, learn_rate, seed)
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
    networks: dict[str, Learned] = {}
    for prefix, settings in LEARNING.items():
        for means in MEANS:
            start = time.process_time()
            learned = networks[f"{prefix}{means}"] = learn(means, task.parts, settings)
            answers[means] = label(learned.model, test.elements)
            took = time.process_time() - start
            found |= under(f"{prefix}{means}", _notes(learned, test, answers[means], took))
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
    found |= under("bound", reachable(task, networks))
    return found | bounds(found) | {"seconds": time.process_time() - begun}


def _notes(learned: Learned, test: Sequences, labels: Ids, seconds: float) -> Figures:
    """Return figures of a trained network. labels: its labels of the test sequence."""
    return {
        "acc": test.accuracy(labels),
        "dev_acc": learned.accuracy,
        "epochs": learned.epochs,
        "learn_rate": learned.learn_rate,
        "seed": learned.seed,
        "train_s": seconds,
    }


def reachable(task: Task, networks: dict[str, Learned]) -> Figures:
    """Return figures of exact training, and of training that cannot miss the true network.

    exact_learned: trained like the approximations, with exact probabilities. nn, mf, exact: the
    better, on the development sequence, of the network learned from random weights and of one that
    is trained from the weights of the true network. exact_posteriors: exact, but with the most
    probable label of each element in place of the search. networks: those learned, by `MEANS`.
    """
    settings, test = LEARNING[""], task.parts["test"]
    start = time.process_time()
    exact = learn("exact", task.parts, settings)
    took = time.process_time() - start
    labels = searched(exact.model, test.elements)
    found = under("exact_learned", _notes(exact, test, labels, took))
    for name, learned in {**{means: networks[means] for means in MEANS}, "exact": exact}.items():
        own = trainer(name)
        near = own(task.parts, settings, settings.learn_rates[0], 0, task.network)
        best = max(near, learned, key=lambda run: run.accuracy)
        search = searched if name == "exact" else label
        found[f"{name}.acc"] = test.accuracy(search(best.model, test.elements))
        found[f"{name}.dev_acc"] = best.accuracy
        if name == "exact":
            smooth = posteriors(best.model, test.elements).argmax(axis=2)
            found["exact_posteriors.acc"] = test.accuracy(smooth)
    return found


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


def bounds(figures: Figures) -> Figures:
    """Return the parts of the errors above the sampler's, in percent of elements, and bounds.

    search_error: of the true network with the search. The search maximizes the probability of all
    labels of a piece, the sampler that of each label. estimation_error: added by learning the
    weights from a training sequence of limited length, with exact probabilities, and from the true
    network. nn_approximation_error, mf_approximation_error: added by approximating, also from the
    true network. nn_optimum_error, mf_optimum_error: added by local optima, in which training from
    random weights ends. See `reachable`. The four parts of an approximation sum to all its errors
    above the sampler's. A part can be negative by chance.

    The others are reductions of nn's errors above the sampler's, in percent, with the same search:
    search_over_nn_error_reduction: by the true network, the limit for unlimited sequences.
    exact_over_nn_error_reduction: by training without approximation or local optima, the limit for
    any approximation with these sequences. mf_over_nn_error_reduction: by mean field without local
    optima. exact_learned_over_nn_error_reduction: by exact training from random weights.
    """
    best, nn, search = (figures[f"{name}.acc"] for name in ("gibbs", "nn", "search"))
    exact = figures["bound.exact.acc"]
    found = {"search_error": best - search, "estimation_error": search - exact}
    for means in MEANS:
        own = figures[f"bound.{means}.acc"]
        found[f"{means}_approximation_error"] = exact - own
        found[f"{means}_optimum_error"] = own - figures[f"{means}.acc"]
    for name in ("search", "bound.exact", "bound.mf", "bound.exact_learned"):
        gain = figures[f"{name}.acc"] - nn
        key = f"{name.removeprefix('bound.')}_over_nn_error_reduction"
        found[key] = 100 * gain / (best - nn)
    return under("bound", found)


def summary(experiments: list[Figures]) -> Figures:
    """Return means over experiments, and under `se` their standard errors. Reductions `of_means`
    are computed from mean accuracies.

    mf_wins: number of experiments in which mf is more accurate than nn. mf_significant,
    nn_significant: number in which one is better by McNemar's test.
    """
    names = [key for key in experiments[0] if key.endswith((".acc", "_reduction", "_error"))]
    found: Figures = {"n_experiments": len(experiments)}
    for key in names:
        values = [figures[key] for figures in experiments]
        found[key] = float(np.mean(values))
        found[f"se.{key}"] = float(np.std(values, ddof=1) / len(values) ** 0.5)
    of_means = bounds(found)
    for prefix in LEARNING:
        of_means |= reductions(found, prefix)
    for key, value in of_means.items():
        if key.endswith("_reduction"):
            found[f"{key}_of_means"] = value
    for prefix in LEARNING:
        ahead = [figures[f"{prefix}mf.acc"] - figures[f"{prefix}nn.acc"] for figures in experiments]
        clear = [figures[f"{prefix}p"] < SIGNIFICANT for figures in experiments]
        found[f"{prefix}mf_wins"] = sum(gain > 0 for gain in ahead)
        for means, sign in (("mf", 1), ("nn", -1)):
            pairs = zip(ahead, clear, strict=True)
            found[f"{prefix}{means}_significant"] = sum(sure and sign * x > 0 for x, sure in pairs)
    found["drawn"] = sum(figures["drawn"] for figures in experiments)
    found["seconds"] = sum(figures["seconds"] for figures in experiments)
    return found


def artificial(run: Short) -> Iterator[Figures]:
    """Yield figures of section 6.1, of each experiment, and finally of all. The limit of the run is
    one of pieces, see `draw`.
    """
    experiments = []
    with ExitStack() as stack:
        # `map` of a pool submits all of them at once.
        each = map
        if run.jobs > 1:
            pool = ProcessPoolExecutor(run.jobs, get_context("spawn"))
            each = stack.enter_context(pool).map
        one = partial(experiment, limit=run.limit)
        for number, figures in enumerate(each(one, range(EXPERIMENTS))):
            experiments.append(figures)
            yield under(f"artificial.experiments.{number}", figures)
    yield under("artificial", summary(experiments))


def spreads(run: Short) -> Iterator[Figures]:
    """Yield accuracies and reductions of errors for networks with other spreads of weights."""
    for name, own in OTHER_SPREADS.items():
        found = []
        for number in range(SPREAD_EXPERIMENTS):
            task = draw(number, run.limit, own)
            test, rng = task.parts["test"], np.random.default_rng([2007, number, 1])
            answers = {
                "unigram": unigram(task.parts["train"], test.elements),
                "gibbs": gibbs(task.network, test.elements, rng).argmax(axis=2),
            }
            for means in MEANS:
                model = learn(means, task.parts, LEARNING[""]).model
                answers[means] = label(model, test.elements)
            found.append({f"{key}.acc": test.accuracy(ids) for key, ids in answers.items()})
        mean = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
        wins = sum(one["mf.acc"] > one["nn.acc"] for one in found)
        figures = mean | reductions(mean, "") | {"mf_wins": wins, "n": len(found)}
        yield under(f"artificial.spreads.{name}", figures)
