"""Small random encoders."""

import numpy as np

from spacy_structlearn.encoder.graph import LEVELS, shapes
from spacy_structlearn.encoder.pieces import N_CASES
from spacy_structlearn.encoder.session import Encoder

SPECIAL = ["[CLS]", "[SEP]", "[UNK]"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
PIECES = [*SPECIAL, "the", "dog", "##s", "bark", *LETTERS, *(f"##{x}" for x in LETTERS), "."]


def tiny(*, int8=True, relative=True, width=16, layers=2, heads=2, positions=32, seed=0):
    """An encoder with random weights."""
    draw = np.random.default_rng(seed)
    sizes = shapes(len(PIECES), N_CASES, width, layers, positions, 3 * width)
    if relative:
        sizes["relative"] = heads, 2 * positions - 1
    weights = {}
    for name, shape in sizes.items():
        weights[name] = draw.normal(0, 0.3, shape).astype(np.float32)
        if name.endswith("gain"):
            weights[name] += 1
    for name in [name for name in weights if weights[name].ndim == 2] if int8 else ():
        if name not in ("positions", "cases", "relative"):
            axis = 1 if name == "pieces" else 0
            scale = np.abs(weights[name]).max(axis=axis) / LEVELS
            weights[f"{name}.scale"] = scale
            rounded = np.round(weights[name] / np.expand_dims(scale, axis))
            weights[name] = rounded.astype(np.int8)
    return Encoder(PIECES, SPECIAL, weights, layers, heads, 1e-5)


def plain(encoder):
    """The weights as floats."""
    found = {}
    for name, array in encoder.weights.items():
        if name.endswith(".scale"):
            continue
        found[name] = array.astype(np.float64)
        if f"{name}.scale" in encoder.weights:
            axis = 1 if name == "pieces" else 0
            found[name] *= np.expand_dims(encoder.weights[f"{name}.scale"], axis)
    return found
