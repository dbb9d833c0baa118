"""What is shown of a network: sizes, and what is alike to it."""

import numpy as np
import pytest
from isbn.networks import initialized

from spacy_structlearn.isbn.describe import describe, labels, neighbours
from spacy_structlearn.isbn.model import ISBN
from spacy_structlearn.isbn.symbols import DerivationSymbols

NN = ("", "dollar", "month", "week", "year")


@pytest.fixture
def model():
    """Rows of outputs as plain as a compass."""
    symbols = DerivationSymbols(
        tags=("NN", "RB", "VB"),
        chains=(("NP",), ("NP", "QP"), ("QP",), ("S",)),
        words=(NN, ("", "now"), ("", "be")),
        signatures=("", "-s"),
        signature_kind="shape",
        max_projects=2,
        top_label="S",
    )
    network = initialized(symbols, np.log(np.full((3, 2), 0.5)), state_size=2, beam=7)
    parts, blocks = network.parts(), symbols.output_blocks
    # Three tags in three directions from their mean; the second and the third are nearer.
    parts["outputs"][blocks["tags"]] = [[-2, 0], [1, 1], [1, -1]]
    parts["outputs"][blocks["labels"]] = [[1, 0], [1, 1], [-1, 0], [-1, -1]]
    own = slice(blocks["items"].start, blocks["items"].start + len(NN))
    # Around (100, 100), which is in all rows and so in no probability.
    parts["outputs"][own] = [[100, 101], [100, 99], [101, 100], [101, 101], [98, 99]]
    parts["output_bias"][own] = [9, 1, 3, 1.5, 3]
    return network


def test_sizes(model):
    lines = describe(model).splitlines()
    assert lines == [
        "sigmoid belief network of 3 tags and 4 phrases, 1 of them collapsed chains",
        f"2 units a state, feed_forward means, {model.n_weights:,} weights; beam 7, branching 10, "
        "best_first search",
        "6 words with their tags, unknown words of 2 classes (shape)",
        "  tags: NN 4, RB 1, VB 1",
    ]
    assert describe(ISBN.empty()) == "sigmoid belief network, empty"
    assert labels(ISBN.empty()) == ()
    assert [*neighbours(ISBN.empty(), 5)] == []


def test_symbols_that_are_alike(model):
    similar = dict(neighbours(model, 3))
    assert tuple(similar) == labels(model) == ("NN", "RB", "VB", "NP", "NP+QP", "QP", "S")
    near = [(np.sqrt(0.5), "NP+QP"), (-np.sqrt(0.5), "S"), (-1, "QP")]
    assert similar["NP"] == [(pytest.approx(cosine), name) for cosine, name in near]
    assert [name for _, name in similar["RB"]] == ["VB", "NN"]
    assert dict(neighbours(model, 1))["RB"] == similar["RB"][:1]
    assert [*neighbours(model, 3, "QP")] == [("QP", similar["QP"])]
    (tag, _), *words = neighbours(model, 3, "NN")
    # By their biases and half the sum of their rows; the unknown word is not shown.
    assert [tag, *(name for name, _ in words)] == ["NN", "NN/month", "NN/week", "NN/year"]
    rows = np.array([[100, 101], [100, 99], [101, 100], [101, 101], [98, 99]], dtype=float)
    rows -= rows.mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for name, others in words:
        index = NN.index(name.partition("/")[2])
        expected = {NN[i]: rows[i] @ rows[index] for i in range(1, 5) if i != index}
        assert {word: cosine for cosine, word in others} == pytest.approx(expected)
        assert [cosine for cosine, _ in others] == sorted(expected.values(), reverse=True)
