"""The parts of a network, how it begins, how it is stored, and what cannot be one."""

import pickle
from dataclasses import replace

import catalogue
import numpy as np
import pytest
from isbn.networks import initialized

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.isbn.model import ISBN
from spacy_structlearn.isbn.symbols import DerivationSymbols
from spacy_structlearn.words.signatures import SIGNATURES

SYMBOLS = DerivationSymbols(
    tags=("N", "V"),
    chains=(("A",), ("A", "B"), ("B",)),
    words=(("", "cat", "dog"), ("",)),
    signatures=("", "lower", "lower s"),
    signature_kind="shape",
    normalization="typographic",
    max_projects=2,
    top_label="A",
)
LOG_PROBS = np.log(np.array([[0.2, 0.3, 0.5], [0.5, 0.25, 0.25]]))


def network(state_size=5, **settings):
    return initialized(SYMBOLS, LOG_PROBS, state_size=state_size, **settings)


def test_parts_are_views_of_the_weights_in_their_order():
    model = network()
    # 4 moves, 3 labels, 2 tags, 4 items, 3 signatures; a label, the root or a tag; twice a word.
    n_inputs, n_outputs = (4 + 3 + 2 + 4 + 3) + (3 + 1 + 2) + 2 * (2 + 4 + 3), 4 + 3 + 2 + 4
    shapes = [(4, 5, 5), (n_inputs, 5), (5,), (n_outputs, 5), (n_outputs,)]
    parts = model.parts()
    assert [*parts] == ["recurrent", "inputs", "bias", "outputs", "output_bias"]
    assert [part.shape for part in parts.values()] == shapes
    flat = np.concatenate([part.reshape(-1) for part in parts.values()])
    np.testing.assert_array_equal(flat, model.weights)
    parts["bias"][2] = 7
    assert (model.weights == 7).sum() == 1


N_WEIGHTS = network().n_weights
WRONG = {
    "weights": (np.zeros(3), np.full(N_WEIGHTS, np.nan), np.zeros((N_WEIGHTS, 1))),
    "state_size": (4, 5.0),
    "means": ("median",),
    "features": ("ba", "abe", ["a"]),
    "temperature": (0.0, np.inf),
    "beam": (0, True),
    "signature_log_probs": tuple(
        np.full(*of) for of in (((2, 2), 0.0), ((2, 3), -np.inf), ((2, 3), 0.1))
    ),
}


@pytest.mark.parametrize(
    "wrong",
    [
        *({name: value} for name, values in WRONG.items() for value in values),
        {"state_size": 0, "weights": np.zeros(13)},
    ],
)
def test_parts_that_do_not_fit_together(wrong):
    fields = {
        "symbols": SYMBOLS,
        "state_size": 5,
        "means": "feed_forward",
        "weights": network().weights,
        "signature_log_probs": LOG_PROBS,
    }
    ISBN(**fields)
    with pytest.raises(StructlearnError, match=r"SL604|SL043"):
        ISBN(**fields | wrong)


def test_a_signature_that_is_not_registered_here():
    SIGNATURES.register("length", func=lambda word, initial, known: (str(len(word)),))
    try:
        symbols = replace(SYMBOLS, signature_kind="length")
        model = initialized(symbols, LOG_PROBS, state_size=2)
        assert symbols.item(0, "unheard")[1] == 0
        data = model.to_bytes()
        assert pickle.loads(pickle.dumps(model)) == model
    finally:
        catalogue._remove(("spacy_structlearn", "signatures", "length"))
    with pytest.raises(StructlearnError, match=r"SL405.*length"):
        ISBN.from_bytes(data)
