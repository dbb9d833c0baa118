"""Random dynamic sigmoid belief networks of section 6.1, and inference in networks with few states.

unigram: the most frequent label of each element. posteriors, gibbs, searched: labels by a network.
log_likelihoods: probabilities of labelled sequences, with the gradient of the weights.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

STATE_SIZE, N_LABELS, N_ELEMENTS = 5, 6, 8
# Standard deviations of the recurrent, input and output weights of random networks. With these
# values, about every third network is nontrivial, and the accuracies of the unigram model and of
# the sampler are similar to those of the paper.
SPREADS = (3.0, 0.5, 4.0)
# Gibbs sampling: number of chains per piece, of burn-in sweeps, and of sweeps after burn-in.
CHAINS, BURN_IN, SWEEPS = 4, 200, 1000
LEAST_PROBABILITY = 1e-290
BEAM = 10


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
        cls, rng: np.random.Generator, spreads: tuple[float, float, float] = SPREADS
    ) -> BeliefNetwork:
        """Draw weights from normal distributions around 0 with these standard deviations."""
        recurrent, inputs, outputs = spreads
        return cls(
            rng.normal(0, recurrent, (STATE_SIZE, STATE_SIZE)),
            rng.normal(0, inputs, (N_LABELS, STATE_SIZE)),
            rng.normal(0, inputs, (N_ELEMENTS, STATE_SIZE)),
            rng.normal(0, outputs, (N_LABELS, STATE_SIZE)),
            rng.normal(0, outputs, (N_LABELS, N_ELEMENTS, STATE_SIZE)),
        )

    @property
    def vector(self) -> Floats:
        """Return all weights, (n_weights), in the order of the fields."""
        return np.concatenate([getattr(self, field.name).ravel() for field in fields(self)])

    def replaced(self, vector: NDArray[np.floating]) -> BeliefNetwork:
        """Return a network of the same sizes with other weights. vector: as `vector`."""
        shapes = [getattr(self, field.name).shape for field in fields(self)]
        ends = np.cumsum([np.prod(shape) for shape in shapes])
        blocks = np.split(vector.astype(np.float64), ends[:-1])
        return BeliefNetwork(*map(np.reshape, blocks, shapes))

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
    def etas(self) -> Floats:
        """Return log-odds of the next state's variables, (2^n, L, E, n)."""
        eta = (self.states @ self.recurrent.T)[:, None, None]
        return eta + self.label_inputs[:, None] + self.element_inputs

    @cached_property
    def log_transitions(self) -> Floats:
        """Return log P(next state | state, label, element), (2^n, L, E, 2^n)."""
        eta = self.etas
        # log sigma(eta) of a variable that is 1, log sigma(-eta) of one that is 0
        on, off = -np.logaddexp(0, -eta), -np.logaddexp(0, eta)
        return on @ self.states.T + off @ (1 - self.states).T

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


def gibbs(network: BeliefNetwork, elements: Ids, rng: np.random.Generator) -> Floats:
    """Estimate `posteriors` by Gibbs sampling of the states.

    States are drawn given their neighbours and the elements: first all even positions of all
    pieces, then all odd ones, which are independent given the others. Labels are summed out,
    because chains that also draw labels hardly move if weights are large. The result is the mean
    distribution of each label given the states around it.
    """
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
    shape = CHAINS * n_pieces, length + 2
    x = np.full(shape, n_elements)
    x[:, 1:-1] = np.tile(elements, (CHAINS, 1))
    s = rng.integers(n_states, size=shape)
    s[:, 0] = s[:, -1] = n_states
    total = np.zeros((CHAINS * n_pieces, length, n_labels))
    for sweep in range(BURN_IN + SWEEPS):
        for first in (1, 2):
            here, before, after = (slice(first + i, length + 1 + i, 2) for i in (0, -1, 1))
            shares = into[x[:, before], s[:, before]]
            shares *= onward[x[:, here], s[:, after]]
            # The initial states must not be impossible.
            shares += LEAST_PROBABILITY
            s[:, here] = _drawn(shares, rng)
        if sweep >= BURN_IN:
            total += of_label[s[:, 1:-1], x[:, 1:-1], s[:, 2:]]
    return total.reshape(CHAINS, n_pieces, length, n_labels).mean(axis=0) / SWEEPS


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
    return backtraced(choices)


def backtraced(choices: list[tuple[Ids, Ids]]) -> Ids:
    """Return the labels of the best hypothesis of each piece, (P, length).

    choices: for each position, the numbers of the previous hypotheses and the labels, both (P,
    beam), best first.
    """
    n_pieces = len(choices[0][0])
    found = np.empty((n_pieces, len(choices)), dtype=np.int64)
    rows, places = np.arange(n_pieces), np.zeros(n_pieces, dtype=np.int64)
    for t, (origins, labels) in reversed(list(enumerate(choices))):
        found[:, t] = labels[rows, places]
        places = origins[rows, places]
    return found


# --- exact likelihood -----------------------------------------------------------------------------
def log_likelihoods(network: BeliefNetwork, sequences: Sequences) -> tuple[Floats, Floats]:
    """Return log P(labels, elements) of each piece, (P), and the gradient of their sum.

    States are summed out by forward-backward. The gradient is that of `network.vector`, computed
    from the posterior probabilities of states and of pairs of adjacent states.
    """
    states, emissions = network.states, np.exp(network.log_emissions)
    y, x = sequences
    n_pieces, length = y.shape
    # (P, length, 2^n), and (P, length - 1, 2^n, 2^n) from each state to the next
    emitted = emissions.transpose(1, 2, 0)[y, x]
    to = y[:, :-1], x[:, :-1]
    steps = np.exp(network.log_transitions.transpose(1, 2, 0, 3))[to]
    forward, scales = np.empty_like(emitted), np.empty((n_pieces, length))
    prior = np.exp(network.log_initial)[None]
    for t in range(length):
        joint = prior * emitted[:, t]
        scales[:, t] = joint.sum(axis=1)
        forward[:, t] = joint / scales[:, t, None]
        if t + 1 < length:
            prior = (forward[:, t, None] @ steps[:, t])[:, 0]
    backward = np.ones_like(emitted)
    ahead = emitted / scales[..., None]
    for t in range(length - 1, 0, -1):
        ahead[:, t] *= backward[:, t]
        backward[:, t - 1] = (steps[:, t - 1] @ ahead[:, t, :, None])[..., 0]
    # Transitions: expected variables of the next state, minus those predicted from the state.
    on = 1 / (1 + np.exp(-network.etas.transpose(1, 2, 0, 3)))[to]
    expected = steps @ (ahead[:, 1:, :, None] * states)
    delta = forward[:, :-1, :, None] * (expected - backward[:, :-1, :, None] * on)
    label_inputs = np.zeros_like(network.label_inputs)
    element_inputs = np.zeros_like(network.element_inputs)
    np.add.at(label_inputs, to[0], delta.sum(axis=2))
    np.add.at(element_inputs, to[1], delta.sum(axis=2))
    # Outputs: expected counts of state, label and element, minus those predicted from the state.
    counts = np.zeros((*emissions.shape[1:], len(states)))
    np.add.at(counts, (y, x), forward * backward)
    of_label, of_state = counts.sum(axis=1), counts.sum(axis=(0, 1))
    p_label = emissions.sum(axis=2)
    p_element = emissions / p_label[:, :, None]
    gradient = BeliefNetwork(
        delta.sum(axis=(0, 1)).T @ states,
        label_inputs,
        element_inputs,
        (of_label - of_state * p_label.T) @ states,
        (counts - of_label[:, None] * p_element.transpose(1, 2, 0)) @ states,
    )
    return np.log(scales).sum(axis=1), gradient.vector
