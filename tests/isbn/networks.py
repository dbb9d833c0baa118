"""Random derivations, and a sigmoid belief network over them that is obviously right.

NumPy in float64: eta (eq. 4 of Titov & Henderson, 2007), feed-forward means, the incremental mean
field (eq. 8) by Newton's method with whole matrices, and the coordinate ascent of the paper, one
mean at a time; gradients by finite differences.
"""

import threading
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from isbn.automaton import legal, replay
from scipy.optimize import brentq

from spacy_structlearn.isbn import derivation
from spacy_structlearn.isbn._network import Network
from spacy_structlearn.isbn.derivation import LeftCornerDerivations
from spacy_structlearn.isbn.model import ISBN
from spacy_structlearn.isbn.settings import ISBNSettings
from spacy_structlearn.isbn.symbols import ATTACH, MODIFY, PROJECT, ROOT, SHIFT, DerivationSymbols
from spacy_structlearn.trees.brackets import load_trees
from spacy_structlearn.trees.normalize import normalize

LIMIT = 15.0  # of natural parameters
SAMPLE = Path(__file__).resolve().parents[2] / "corpora" / "sample" / "sample.trees"


@cache
def sample():
    """The hand-made treebank."""
    return [normalize(tree) for tree in load_trees(SAMPLE)]


def turns_of(function, *arguments):
    """How often this thread had its turn while another one was in a call."""
    thread = threading.Thread(target=function, args=arguments)
    turns = 0
    thread.start()
    while thread.is_alive():
        time.sleep(0.001)
        turns += 1
    return turns


def symbols_of(trees, *, root=ROOT, **settings):
    """With no signatures and other spellings, unless they are named."""
    plain = {"signature": "", "normalization": ""}
    return derivation.symbols_of(trees, ISBNSettings(**plain | settings), root)


def initialized(symbols, signature_log_probs, *, scale=1.0, **settings):
    """A network with random weights."""
    model = ISBN.initialize(symbols, signature_log_probs, ISBNSettings(**settings))
    return model.replaced(weights=scale * model.weights)


class Decision(NamedTuple):
    """Rows of outputs of the legal alternatives (m, n), their biases (m), and which was chosen."""

    rows: np.ndarray
    biases: np.ndarray
    chosen: int


def log_likelihoods(network, weights, derivations, *gradient, **dropout):
    """Return log P of each derivation (eq. 6), in nats, by the kernel: (N)."""
    numbers = np.arange(len(derivations))
    return network.log_likelihoods(weights, *derivations.arrays, numbers, *gradient, **dropout)


def network_of(symbols, size, mean_field, features="abcd", tolerance=1e-12):
    """Return a network of the kernel."""
    return Network(
        size,
        symbols.n_labels,
        symbols.n_tags,
        symbols.item_offsets,
        symbols.n_signatures,
        symbols.max_projects,
        features,
        mean_field,
        tolerance,
    )


class Problem(NamedTuple):
    """Derivations, and weights of a network for them."""

    symbols: DerivationSymbols
    derivations: LeftCornerDerivations
    size: int
    weights: np.ndarray
    mean_field: bool
    features: str = "abcd"

    def network(self, tolerance=1e-12):
        return network_of(self.symbols, self.size, self.mean_field, self.features, tolerance)

    def log_likelihood(self, weights=None, tolerance=1e-12):
        """Of all derivations, by the kernel."""
        weights = self.weights if weights is None else weights
        return log_likelihoods(self.network(tolerance), weights, self.derivations).sum()

    def gradient(self, **options):
        """Return the value and gradient of all derivations, by the kernel."""
        gradient = np.zeros(len(self.weights))
        given = self.network(), self.weights, self.derivations, gradient
        return log_likelihoods(*given, **options).sum(), gradient


# --- random problems -----------------------------------------------------------------------------
def make_symbols(n_labels=3, items=(2, 3), n_signatures=0, max_projects=2):
    """items: how many each tag has, the unknown one among them."""
    return DerivationSymbols(
        tags=tuple(f"T{t:02}" for t in range(len(items))),
        chains=tuple((f"L{label:02}",) for label in range(n_labels)),
        words=tuple(("", *(f"w{i:03}" for i in range(1, count))) for count in items),
        signatures=tuple(["", *(f"s{s}" for s in range(1, n_signatures))][:n_signatures]),
        signature_kind="shape" if n_signatures else "",
        max_projects=max_projects if n_labels else 0,
    )


def random_moves(rng, symbols, length):
    """A complete derivation at random, its end near after `length` moves, and not before."""
    if not symbols.n_labels:
        return [SHIFT] * length
    moves = []
    while (allowed := legal(symbols, moves)).any():
        choices = np.flatnonzero(allowed)
        if len(moves) >= length and len(choices) > 1:
            choices = [move for move in choices if move in (ATTACH, MODIFY)]
        elif moves.count(SHIFT) - moves.count(ATTACH) - moves.count(MODIFY) == 1:
            choices = [move for move in choices if move != ATTACH] or choices
        moves.append(int(rng.choice(choices)))
    return moves


def with_symbols(rng, symbols, sequences):
    """Derivations of these moves, with random labels and words."""
    moves = np.array([move for own in sequences for move in own], dtype=np.int8)
    labels = np.full(len(moves), -1, dtype=np.int32)
    projects = moves == PROJECT
    if projects.any():
        labels[projects] = rng.integers(symbols.n_labels, size=projects.sum())
    n_words = np.cumsum([0, *(own.count(SHIFT) for own in sequences)])
    tags = rng.integers(symbols.n_tags, size=n_words[-1]).astype(np.int32)
    first, end = symbols.item_offsets[:-1], symbols.item_offsets[1:]
    items = rng.integers(first[tags], end[tags]).astype(np.int32)
    signatures = np.full(len(tags), -1, dtype=np.int32)
    unknown = items == symbols.unknown[tags]
    if symbols.n_signatures and unknown.any():
        signatures[unknown] = rng.integers(symbols.n_signatures, size=unknown.sum())
    offsets = np.cumsum([0, *map(len, sequences)])
    return LeftCornerDerivations(offsets, n_words, moves, labels, tags, items, signatures)


def random_problem(
    seed,
    symbols=None,
    *,
    lengths=(12, 1, 30),
    size=5,
    mean_field=True,
    features="abcd",
    scale=1.0,
):
    """scale: of the rows of outputs; they and no other weights make the mean field hard."""
    rng = np.random.default_rng(seed)
    symbols = make_symbols() if symbols is None else symbols
    derivations = with_symbols(rng, symbols, [random_moves(rng, symbols, n) for n in lengths])
    weights = np.concatenate(
        [
            rng.normal(scale=scale, size=shape) if name == "outputs" else rng.normal(size=shape)
            for name, shape in shapes(symbols, size).items()
        ],
        axis=None,
    )
    return Problem(symbols, derivations, size, weights, mean_field, features)


def shapes(symbols, size):
    """The parts of weights, in their order."""
    return {
        "recurrent": (4, size, size),
        "inputs": (symbols.input_blocks["d.signatures"].stop, size),
        "bias": (size,),
        "outputs": (symbols.output_blocks["items"].stop, size),
        "output_bias": (symbols.output_blocks["items"].stop,),
    }


def parts(symbols, size, weights):
    """Views of weights, by name."""
    found, begin = {}, 0
    for name, shape in shapes(symbols, size).items():
        end = begin + int(np.prod(shape))
        found[name] = weights[begin:end].reshape(shape)
        begin = end
    assert begin == len(weights)
    return found


# --- means ---------------------------------------------------------------------------------------
def sigma(phi):
    return 1 / (1 + np.exp(-phi))


def softmax(scores):
    odds = np.exp(scores - scores.max())
    return odds / odds.sum()


def lower_bound(mu, theta, seen):
    """L of eq. 7 and, for the one decision seen after the means of theta, of eq. 8."""
    value = np.sum(-mu * np.log(mu) - (1 - mu) * np.log(1 - mu) + mu * theta)
    for rows, biases, chosen in seen:
        scores = rows @ mu + biases
        value += scores[chosen] - scores.max() - np.log(np.exp(scores - scores.max()).sum())
    return value


def slope(mu, theta, seen):
    """dL / dmu without the entropy's -phi: the phi that is stationary for these mu."""
    value = np.array(theta, dtype=float)
    for rows, biases, chosen in seen:
        value += rows[chosen] - softmax(rows @ mu + biases) @ rows
    return value


def newton(theta, seen, tolerance=1e-12):
    """phi at the maximum of L, with whole matrices; steps are halved until L does not fall."""
    phi = theta = np.clip(theta, -LIMIT, LIMIT)
    for _ in range(200):
        mu = sigma(phi)
        force = phi - slope(mu, theta, seen)
        held = ((phi == LIMIT) & (force < 0)) | ((phi == -LIMIT) & (force > 0))
        free = np.flatnonzero(~held)
        if not len(free) or np.abs(force[free]).max() <= tolerance:
            break
        jacobian = np.eye(len(phi))
        for rows, biases, _chosen in seen:
            p = softmax(rows @ mu + biases)
            centred = rows - p @ rows
            jacobian += (centred.T * p) @ centred * (mu * (1 - mu))
        step = np.zeros(len(phi))
        step[free] = np.linalg.solve(jacobian[np.ix_(free, free)], force[free])
        before = lower_bound(mu, theta, seen)
        for halving in range(30):
            after = np.clip(phi - step / 2**halving, -LIMIT, LIMIT)
            if lower_bound(sigma(after), theta, seen) >= before - 1e-14 * abs(before):
                break
        phi = after
    return phi


def coordinate_ascent(theta, seen, tolerance=1e-11, sweeps=2000):
    """phi at the maximum of L as the paper finds it: by a search along each mean in turn."""
    theta = np.clip(theta, -LIMIT, LIMIT)
    phi = theta.copy()
    mu = sigma(phi)

    def pull(value, i):
        mu[i] = sigma(value)
        return value - slope(mu, theta, seen)[i]

    for _ in range(sweeps):
        before = phi.copy()
        for i in range(len(phi)):
            if pull(LIMIT, i) <= 0:
                phi[i] = LIMIT
            elif pull(-LIMIT, i) >= 0:
                phi[i] = -LIMIT
            else:
                phi[i] = brentq(pull, -LIMIT, LIMIT, args=(i,), xtol=1e-14, rtol=1e-14)
            mu[i] = sigma(phi[i])
        if np.abs(phi - before).max() <= tolerance:
            return phi
    raise AssertionError("not at the maximum after all sweeps")


# --- derivations ---------------------------------------------------------------------------------
def elementary(problem, number):
    """The elementary decisions of each move of a derivation: names of blocks of outputs, rows in
    them that are alternatives, and which was chosen."""
    symbols, derivations = problem.symbols, problem.derivations
    first, end = derivations.offsets[number : number + 2]
    masks = replay(symbols, derivations, number).legal
    word = derivations.word_offsets[number]
    blocks = {name: np.arange(x.start, x.stop) for name, x in symbols.output_blocks.items()}
    made = []
    moves, labels = derivations.moves[first:end].tolist(), derivations.labels[first:end].tolist()
    for move, label, mask in zip(moves, labels, masks, strict=True):
        own = [(blocks["moves"][mask], int(mask[:move].sum()))]
        if move == PROJECT:
            own.append((blocks["labels"], label))
        if move == SHIFT:
            tag, item = derivations.tags[word], derivations.items[word]
            begin, stop = symbols.item_offsets[tag : tag + 2]
            own += [(blocks["tags"], tag), (blocks["items"][begin:stop], item - begin)]
            word += 1
        made.append(own)
    return made


def numpy_log_probs(problem, number, masks=None):
    """Return log P of the elementary decisions of each move, 0 for none, (m, 3), and eta, (m, n).

    masks: (m, n), factors of the final means of each state as later states read them.
    """
    symbols, size = problem.symbols, problem.size
    weights = parts(symbols, size, problem.weights)
    made = elementary(problem, number)
    states = replay(symbols, problem.derivations, number, problem.features)
    m = len(made)
    eta, final, log_probs = np.zeros((m, size)), np.zeros((m, size)), np.zeros((m, 3))
    for t, own in enumerate(made):
        eta[t] = weights["bias"] + weights["inputs"][list(states.rows[t])].sum(axis=0)
        for tau, related in enumerate(states.relations[t]):
            if related >= 0:
                eta[t] += weights["recurrent"][tau] @ final[related]
        phi = np.clip(eta[t], -LIMIT, LIMIT)
        for k, (rows, chosen) in enumerate(own):
            decision = Decision(weights["outputs"][rows], weights["output_bias"][rows], chosen)
            scores = decision.rows @ sigma(phi) + decision.biases
            log_probs[t, k] = scores[chosen] - np.logaddexp.reduce(scores)
            if problem.mean_field:
                phi = newton(phi, [decision])
        final[t] = sigma(phi) * (1 if masks is None else masks[t])
    return log_probs, eta


# --- gradients -----------------------------------------------------------------------------------
def finite_differences(function, x, step=1e-2):
    """The gradient of a function of a vector, by differences of the sixth order."""
    gradient = np.empty(x.shape)
    for i in np.ndindex(x.shape):
        moved = x.copy()
        values = []
        for far in (-3, -2, -1, 1, 2, 3):
            moved[i] = x[i] + far * step
            values.append(function(moved))
        gradient[i] = np.dot(values, (-1, 9, -45, 45, -9, 1)) / (60 * step)
    return gradient
