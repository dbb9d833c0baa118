"""A bidirectional LSTM layer in NumPy, for comparison.

Hochreiter & Schmidhuber (1997) with forget gates (Gers et al. 2000), forwards and backwards (Graves
& Schmidhuber 2005). For each word x, with the state h of the previous word in the same direction,

    i, f, o = sigmoid(x W + h U + b)    g = tanh(x W + h U + b)
    c = f c + i g                       h = o tanh(c)

`thinc.api.LSTM` cannot be used: without torch, its gradients differ from finite differences (as of
thinc 8.3). Both directions and all sentences of a batch are computed together. Sentences are sorted
by length, so that those that reach a step come first and there is no padding.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.util import registry
from thinc.api import Dropout, Model, chain, with_array

Floats = NDArray[np.float32]

BILSTM = {"@architectures": "training.BiLSTM.v1", "width": 192}  # without the seed

FORGET_BIAS = 1.0  # initial bias of the forget gates: cells keep their values at first


@registry.architectures(BILSTM["@architectures"])
def build_bilstm(width: int, seed: int) -> Model:
    """Return layers for the block `encode` of spacy.Tok2Vec.v2."""
    layers: Model = chain(
        with_array(Dropout(0.0)), bilstm(width, seed=seed), with_array(Dropout(0.0))
    )
    layers.set_dim("nO", width)
    return layers


def bilstm(width: int, n_in: int | None = None, *, seed: int = 0) -> Model:
    """Make a layer from lists of float32 (n_words, n_in) to lists of float32 (n_words, width).

    width: the width of the output, an even number, half for each direction.
    n_in: the width of the input.
    seed: of the initial parameters.
    Raises ValueError for an odd width.
    """
    if width < 2 or width % 2:
        raise ValueError(f"a width of {width}, which is to be even")
    return Model(
        "bilstm",
        _forward,
        init=_initialize,
        dims={"nO": width, "nI": n_in},
        params={"W": None, "U": None, "b": None},
        attrs={"seed": seed},
    )


def _initialize(model: Model, X: list[Floats] | None = None, Y: Any = None) -> Model:
    if X:
        model.set_dim("nI", X[0].shape[1])
    n_in, half = model.get_dim("nI"), model.get_dim("nO") // 2
    rng = np.random.default_rng(model.attrs["seed"])

    def uniform(n: int) -> Floats:
        # As for a separate matrix for each gate (Glorot & Bengio 2010).
        most = np.sqrt(6.0 / (n + half))
        return rng.uniform(-most, most, (2, n, 4 * half)).astype(np.float32)

    model.set_param("W", uniform(n_in))
    model.set_param("U", uniform(half))
    bias = np.zeros((2, 4 * half), dtype=np.float32)
    bias[:, half : 2 * half] = FORGET_BIAS
    model.set_param("b", bias)
    return model


def _forward(
    model: Model, X: list[Floats], is_train: bool
) -> tuple[list[Floats], Callable[[list[Floats]], list[Floats]]]:
    W, U, b = (model.get_param(name) for name in "WUb")
    lengths = np.array([len(x) for x in X], dtype=np.int64)
    words, begins, previous = _order(lengths)
    inputs = _joined(X, W.shape[1])[words]
    gates = inputs @ W
    gates += b[:, None]
    states, cells, squashed = _run(gates, U, begins)
    half = U.shape[1]
    halves = slice(half), slice(half, 2 * half)  # of the columns of the output

    def backprop(gradients: list[Floats]) -> list[Floats]:
        d_out = _joined(gradients, 2 * half)
        d_states = np.stack([d_out[words[k], halves[k]] for k in (0, 1)])
        d_gates = _run_back(d_states, gates, cells, squashed, U, begins)
        d_later, before = d_gates[:, begins[1] :], states[:, previous]
        model.inc_grad("W", inputs.transpose(0, 2, 1) @ d_gates)
        model.inc_grad("U", before.transpose(0, 2, 1) @ d_later)
        model.inc_grad("b", d_gates.sum(axis=1))
        d_inputs = d_gates @ W.transpose(0, 2, 1)
        d_joined = np.empty_like(d_inputs[0])
        d_joined[words[0]] = d_inputs[0]
        d_joined[words[1]] += d_inputs[1]
        return _split(d_joined, lengths)

    out = np.empty((states.shape[1], 2 * half), dtype=states.dtype)
    for k in (0, 1):
        out[words[k], halves[k]] = states[k]
    return _split(out, lengths), backprop


def _joined(rows: list[Floats], width: int) -> Floats:
    return np.concatenate(rows) if rows else np.zeros((0, width), dtype=np.float32)


def _split(rows: Floats, lengths: NDArray[np.int64]) -> list[Floats]:
    return np.split(rows, np.cumsum(lengths)[:-1]) if len(lengths) else []


def _order(lengths: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[int], NDArray[np.int64]]:
    """Return the words in the order of the steps, at each step long sentences first.

    Returns their numbers in the batch, int64 (2, n_words), forwards and backwards; the first word
    of each step, and the end; and the previous word of each word after the first step, int64.
    """
    long_first = np.argsort(-lengths, kind="stable")
    ends = np.cumsum(lengths)[long_first]
    # At least one step, even without words.
    numbers = np.arange(lengths.max(initial=1))
    going = (lengths > numbers[:, None]).sum(axis=1)
    begins = np.cumsum(going) - going
    step = np.repeat(numbers, going)
    rank = np.arange(len(step)) - begins[step]
    forwards = (ends - lengths[long_first])[rank] + step
    backwards = ends[rank] - 1 - step
    previous = (begins[step - 1] + rank)[going[0] :]
    return np.stack([forwards, backwards]), [*begins.tolist(), len(step)], previous


def _run(gates: Floats, U: Floats, begins: list[int]) -> tuple[Floats, Floats, Floats]:
    """Return h, c and tanh(c) of all words in the order of steps, each float32 (2, n_words, half).

    gates: x W + b, float32 (2, n_words, 4 half); overwritten by the gates i, f, o, g.
    """
    half = U.shape[1]
    states, cells, squashed = np.empty((3, *gates.shape[:2], half), dtype=gates.dtype)
    # sigmoid(z) = (1 + tanh(z / 2)) / 2
    gates[:, :, : 3 * half] *= 0.5
    U = U.copy()
    U[:, :, : 3 * half] *= 0.5
    h = c = states[:, :0]
    for begin, end in pairwise(begins):
        z = gates[:, begin:end]
        if begin:
            z += h[:, : end - begin] @ U
        np.tanh(z, out=z)
        sigmoids = z[:, :, : 3 * half]
        sigmoids *= 0.5
        sigmoids += 0.5
        i, f, o, g = _blocks(z, half)
        before, c = c[:, : end - begin], np.multiply(i, g, out=cells[:, begin:end])
        if begin:
            c += f * before
        t = np.tanh(c, out=squashed[:, begin:end])
        h = np.multiply(o, t, out=states[:, begin:end])
    return states, cells, squashed


def _run_back(
    d_states: Floats,
    gates: Floats,
    cells: Floats,
    squashed: Floats,
    U: Floats,
    begins: list[int],
) -> Floats:
    """Return the gradient with respect to x W + h U + b, float32 (2, n_words, 4 half).

    d_states: the gradient with respect to h; overwritten.
    """
    half = U.shape[1]
    d_gates = np.empty_like(gates)
    back = U.transpose(0, 2, 1)
    d_h = d_c = d_states[:, :0]
    bounds = list(zip([0, *begins], begins, begins[1:], strict=False))
    for last, begin, end in reversed(bounds):
        i, f, o, g = _blocks(gates[:, begin:end], half)
        d_i, d_f, d_o, d_g = _blocks(d_gates[:, begin:end], half)
        d, t, later = d_states[:, begin:end], squashed[:, begin:end], d_h.shape[1]
        d[:, :later] += d_h
        d_cell = d * o * (1 - t * t)
        d_cell[:, :later] += d_c
        before = cells[:, last : last + end - begin] if begin else 0
        np.multiply(d_cell * g, i * (1 - i), out=d_i)
        np.multiply(d_cell * before, f * (1 - f), out=d_f)
        np.multiply(d * t, o * (1 - o), out=d_o)
        np.multiply(d_cell * i, 1 - g * g, out=d_g)
        d_h = d_gates[:, begin:end] @ back
        d_c = d_cell * f
    return d_gates


def _blocks(gates: Floats, half: int) -> list[Floats]:
    return [gates[:, :, k * half : (k + 1) * half] for k in range(4)]
