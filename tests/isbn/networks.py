"""Random derivations, and a sigmoid belief network over them that is obviously right.

NumPy in float64: eta (eq. 4 of Titov & Henderson, 2007), feed-forward means, the incremental mean
field (eq. 8) by Newton's method with whole matrices; gradients by finite differences.
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from isbn.automaton import legal, replay

from spacy_structlearn.isbn import derivation
from spacy_structlearn.isbn._network import Network
from spacy_structlearn.isbn.derivation import LeftCornerDerivations
from spacy_structlearn.isbn.model import ISBN
from spacy_structlearn.isbn.settings import ISBNSettings
from spacy_structlearn.isbn.symbols import ATTACH, MODIFY, PROJECT, ROOT, SHIFT, DerivationSymbols
from spacy_structlearn.trees.brackets import read_trees
from spacy_structlearn.trees.normalize import normalize

LIMIT = 15.0  # of natural parameters
SAMPLE = Path(__file__).resolve().parents[2] / "corpora" / "sample" / "sample.trees"


@cache
def sample():
    """The hand-made treebank."""
    return [normalize(tree) for tree in read_trees(SAMPLE)]


def symbols_of(trees, *, root=ROOT, **settings):
    """With no signatures and other spellings, unless they are named."""
    plain = {"signature": "", "normalization": ""}
    return derivation.symbols_of(trees, ISBNSettings(**plain | settings), root)


def initialized(symbols, signature_log_probs, *, scale=1.0, **settings):
    """A network with random weights."""
    model = ISBN.initialize(symbols, signature_log_probs, ISBNSettings(**settings))
    return model.replaced(weights=scale * model.weights)


def log_likelihoods(network, weights, derivations, *gradient, **dropout):
    """Return log P of each derivation (eq. 6), in nats, by the kernel: (N)."""
    numbers = np.arange(len(derivations))
    return network.log_likelihoods(weights, *derivations.arrays, numbers, *gradient, **dropout)


# --- random problems -----------------------------------------------------------------------------
class Move(NamedTuple):
    """A move. leaf: tag, item, signature of a shift. candidate: of a search, its number there."""

    move: int
    label: int = -1
    leaf: tuple[int, int, int] | None = None
    candidate: int = -1


def make_symbols(n_labels=3, items=(2, 3), n_signatures=0, max_projects=2):
    """items: how many each tag has, the unknown one among them.

    With three labels or more one is a chain, with four or more one is the root.
    """
    names = ("A", "B", ROOT, *(f"X{label}" for label in range(n_labels)))
    chains = [(name,) for name in names[: n_labels - (n_labels > 2)]]
    return DerivationSymbols(
        tags=tuple(f"T{t:02}" for t in range(len(items))),
        chains=tuple(sorted([*chains, ("B", "A")] if n_labels > 2 else chains)),
        words=tuple(("", *(f"w{i:03}" for i in range(1, count))) for count in items),
        signatures=tuple(["", *(f"s{s}" for s in range(1, n_signatures))][:n_signatures]),
        signature_kind="shape" if n_signatures else "",
        max_projects=max_projects if n_labels else 0,
    )


def random_moves(rng, symbols, length):
    """The types of a complete derivation at random, its end near after `length` moves."""
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


def random_leaf(rng, symbols, tag):
    """A random item of a tag, with a random signature if that is the unknown one."""
    item, signature = int(rng.integers(*symbols.item_offsets[tag : tag + 2])), -1
    if symbols.n_signatures and item == symbols.unknown[tag]:
        signature = int(rng.integers(symbols.n_signatures))
    return int(tag), item, signature


def with_symbols(rng, symbols, sequences):
    """Derivations of moves of these types, with random labels and words."""

    def move_of(move):
        label = int(rng.integers(symbols.n_labels)) if move == PROJECT else -1
        tag = rng.integers(symbols.n_tags)
        return Move(move, label, random_leaf(rng, symbols, tag) if move == SHIFT else None)

    return derivations([[*map(move_of, moves)] for moves in sequences])


def derivations(sequences):
    """Sequences of moves as arrays."""
    leaves = [[move.leaf for move in moves if move.leaf] for moves in sequences]
    flat = np.array([leaf for row in leaves for leaf in row], dtype=np.int32).reshape(-1, 3)
    return LeftCornerDerivations(
        np.cumsum([0, *map(len, sequences)], dtype=np.int64),
        np.cumsum([0, *map(len, leaves)], dtype=np.int64),
        np.array([move.move for moves in sequences for move in moves], dtype=np.int8),
        np.array([move.label for moves in sequences for move in moves], dtype=np.int32),
        *(np.ascontiguousarray(column) for column in flat.T),
    )


def moves_of(derivations, number):
    """The inverse of `derivations`: the moves of one."""
    first, end = derivations.offsets[number : number + 2]
    words = slice(*derivations.word_offsets[number : number + 2])
    columns = (derivations.tags, derivations.items, derivations.signatures)
    leaves = zip(*(column[words].tolist() for column in columns), strict=True)
    types = derivations.moves[first:end].tolist()
    pairs = zip(types, derivations.labels[first:end].tolist(), strict=True)
    return tuple(Move(move, x, next(leaves) if move == SHIFT else None) for move, x in pairs)


def random_weights(rng, symbols, size, scale=1.0, scale_of_outputs=None):
    """From a normal distribution."""
    scales = {"outputs": scale if scale_of_outputs is None else scale_of_outputs}
    drawn = [rng.normal(0, scales.get(k, scale), v) for k, v in shapes(symbols, size).items()]
    return np.concatenate(drawn, axis=None)


class Problem(NamedTuple):
    """Derivations, and a network for them."""

    network: "PlainNetwork"
    derivations: LeftCornerDerivations

    @property
    def symbols(self):
        return self.network.symbols

    @property
    def weights(self):
        return self.network.weights

    def parts(self, vector):
        return parts(self.symbols, self.network.size, vector)

    def log_likelihood(self, weights=None):
        """Of all derivations, by the kernel."""
        weights = self.weights if weights is None else weights
        return log_likelihoods(self.network.kernel(), weights, self.derivations).sum()

    def gradient(self, weights=None, **options):
        """Return the value and gradient of all derivations, by the kernel."""
        weights = self.weights if weights is None else weights
        gradient = np.zeros(len(weights))
        given = self.network.kernel(), weights, self.derivations, gradient
        return log_likelihoods(*given, **options).sum(), gradient


def random_problem(
    seed, symbols=None, *, lengths=(12, 1, 30), size=5, mean_field=True, features="abcd", scale=1.0
):
    """scale: of the rows of outputs; they and no other weights make the mean field hard."""
    rng = np.random.default_rng(seed)
    symbols = make_symbols() if symbols is None else symbols
    sequences = [random_moves(rng, symbols, length) for length in lengths]
    some = with_symbols(rng, symbols, sequences)
    weights = random_weights(rng, symbols, size, scale_of_outputs=scale)
    return Problem(PlainNetwork(symbols, size, weights, mean_field, features), some)


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
    else:
        assert np.abs(force[free]).max() <= 1e-8  # it is at the maximum
    return phi


# --- the network ---------------------------------------------------------------------------------
class Decision(NamedTuple):
    """Rows of outputs of the legal alternatives (m, n), their biases (m), and which was chosen."""

    rows: np.ndarray
    biases: np.ndarray
    chosen: int


class PlainNetwork:
    """The equations in NumPy, one state at a time. weights: of all parts, float64."""

    def __init__(self, symbols, size, weights, mean_field=False, features="abcd"):
        self.symbols, self.size, self.weights = symbols, size, np.asarray(weights)
        self.mean_field, self.features = mean_field, features
        self.parts = parts(symbols, size, self.weights)
        self.prior, self.stages = cache(self._prior), cache(self._stages)

    def kernel(self, tolerance=1e-12):
        """Return the network of the kernel."""
        own = self.symbols
        sizes = own.n_labels, own.n_tags, own.item_offsets, own.n_signatures, own.max_projects
        return Network(self.size, *sizes, self.features, self.mean_field, tolerance)

    def legal(self, moves):
        return legal(self.symbols, [move.move for move in moves])

    def decisions(self, moves, move):
        """The elementary decisions of a move after some others."""
        offsets, mask = self.symbols.item_offsets, self.legal(moves)
        blocks = {name: block.start for name, block in self.symbols.output_blocks.items()}
        made = [(np.flatnonzero(mask), int(mask[: move.move].sum()))]
        if move.move == PROJECT:
            made.append((blocks["labels"] + np.arange(self.symbols.n_labels), move.label))
        if move.move == SHIFT:
            tag, item, _ = move.leaf
            made.append((blocks["tags"] + np.arange(self.symbols.n_tags), tag))
            made.append((blocks["items"] + np.arange(*offsets[tag : tag + 2]), item - offsets[tag]))
        rows, biases = self.parts["outputs"], self.parts["output_bias"]
        return [Decision(rows[block], biases[block], chosen) for block, chosen in made]

    def _stages(self, moves, move):
        """phi before each elementary decision of a move after some, and after the last."""
        phis = [self.prior(moves)]
        for decision in self.decisions(moves, move):
            phis.append(newton(phis[-1], [decision]) if self.mean_field else phis[-1])
        return phis

    def _prior(self, moves):
        """phi of the state after some moves, before its first decision."""
        dummy = Move(int(np.argmax(self.legal(moves))), 0, (0, 0, -1))
        states = replay(self.symbols, derivations([(*moves, dummy)]), 0, self.features)
        eta = self.parts["bias"] + self.parts["inputs"][list(states.rows[-1])].sum(axis=0)
        for matrix, state in zip(self.parts["recurrent"], states.relations[-1], strict=True):
            if state >= 0:
                eta = eta + matrix @ sigma(self.stages(moves[:state], moves[state])[-1])
        return np.clip(eta, -LIMIT, LIMIT)

    def log_probability(self, moves, move):
        """log P of a move after some."""
        stages, made = self.stages(moves, move), self.decisions(moves, move)
        pairs = zip(stages, made, strict=False)
        return sum(np.log(softmax(d.rows @ sigma(phi) + d.biases)[d.chosen]) for phi, d in pairs)


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
