"""Encoders: their vectors, compared with a short computation in NumPy, and their files."""

import sys

import numpy as np
import pytest
from encoder.tiny import PIECES, SPECIAL, plain, tiny
from scipy.special import erf, softmax

from spacy_structlearn.encoder.pieces import WordPieces
from spacy_structlearn.encoder.session import Encoder, _parts
from spacy_structlearn.errors import StructlearnError

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
SENTENCES = [["The", "dogs", "bark", "."], ["abc"], [], ["Dog", "DOGS", "#", "bark"] * 2]


def norm(x, weights, name):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    return x * weights[f"{name}.gain"] + weights[f"{name}.offset"]


def vectors(encoder, words):
    """The vectors of one sentence."""
    weights, heads = plain(encoder), encoder.heads
    batch = WordPieces(PIECES, *SPECIAL).batch([words])
    n, width = len(batch.pieces[0]), encoder.width
    x = weights["pieces"][batch.pieces[0]] + weights["positions"][:n]
    x = norm(x + weights["cases"][batch.cases[0]], weights, "norm")
    places = np.arange(n)
    bias = weights["relative"][:, places[:, None] - places + 31] if "relative" in weights else 0
    for layer in range(encoder.layers):

        def product(name, x, layer=layer):
            return x @ weights[f"{layer}.{name}"] + weights[f"{layer}.{name}.bias"]

        parts = product("qkv", x).reshape(n, 3, heads, -1).transpose(1, 2, 0, 3)
        scores = parts[0] @ parts[1].transpose(0, 2, 1) / np.sqrt(width // heads)
        found = softmax(scores + bias, axis=-1) @ parts[2]
        found = found.transpose(1, 0, 2).reshape(n, width)
        x = norm(x + product("out", found), weights, f"{layer}.norm1")
        inner = product("inner", x)
        inner = inner * (1 + erf(inner / np.sqrt(2))) / 2
        x = norm(x + product("outer", inner), weights, f"{layer}.norm2")
    half = width // 2
    return np.concatenate([x[batch.lasts, :half], x[batch.firsts, half:]], axis=1)


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("int8", [False, True])
def test_vectors_are_those_of_numpy(int8, relative):
    encoder = tiny(int8=int8, relative=relative)
    found = encoder.vectors(SENTENCES)
    assert [own.shape for own in found] == [(len(words), 16) for words in SENTENCES]
    for words, own in zip(SENTENCES, found, strict=True):
        assert own.dtype == np.float32
        if words:
            wanted = vectors(encoder, words)
            assert np.abs(own - wanted).max() < (0.15 if int8 else 1e-4)


def test_a_sentence_does_not_depend_on_those_beside_it():
    encoder = tiny()
    together = encoder.vectors(SENTENCES)
    for words, own in zip(SENTENCES, together, strict=True):
        (alone,) = encoder.vectors([words], batch_pieces=1)
        np.testing.assert_allclose(alone, own, atol=1e-6)
    threads = encoder.vectors(SENTENCES, threads=2)
    np.testing.assert_allclose(np.concatenate(threads), np.concatenate(together), atol=1e-6)


def test_long_sentences_are_read_in_parts():
    encoder = tiny()
    words = [PIECES[3 + i % 30] for i in range(200)]
    (found,) = encoder.vectors([words])
    (begin,) = encoder.vectors([words[:30]])
    np.testing.assert_allclose(found[:20], begin[:20], atol=1e-6)
    assert (np.abs(found).sum(axis=1) > 0).all()


def test_parts():
    draw = np.random.default_rng(0)
    for most in (6, 30, 510):
        for length in (0, 1, 7, 100, 600):
            sizes = draw.integers(1, 7, length).tolist()
            parts = list(_parts(sizes, most))
            covered = [word for _, begin, end in parts for word in range(begin, end)]
            assert covered == list(range(length))
            for n, begin, end in parts:
                assert n == sum(sizes[begin:end]) <= most


def test_bytes():
    encoder = tiny()
    again = Encoder.from_bytes(encoder.to_bytes())
    assert again == encoder
    assert np.array_equal(again.vectors(SENTENCES)[0], encoder.vectors(SENTENCES)[0])
    assert Encoder.from_bytes(Encoder().to_bytes()).is_empty


def test_weights_that_do_not_fit():
    fields = tiny().fields()
    weights = fields["weights"]
    for wrong in (
        {"layers": 3},
        {"heads": 3},
        {"heads": 0},
        {"weights": {**weights, "positions": weights["positions"][:6]}},
        {"pieces": [*PIECES, "more"]},
        {"special": ["[CLS]", "[SEP]", "[NO]"]},
        {"special": []},
        {"weights": {**weights, "more": weights["cases"]}},
        {"weights": {**weights, "cases": weights["cases"][:, :8]}},
        {"weights": {**weights, "0.qkv.scale": weights["0.qkv.scale"][:3]}},
        {"weights": {**weights, "cases": weights["cases"] * np.nan}},
    ):
        with pytest.raises((ValueError, TypeError)):
            Encoder(**fields | wrong)


def test_damage_is_found():
    data = bytearray(tiny().to_bytes())
    draw = np.random.default_rng(0)
    for at in draw.integers(0, len(data), 100).tolist():
        damaged = bytearray(data)
        damaged[at] ^= 1 << int(draw.integers(8))
        with pytest.raises(StructlearnError, match="SL05"):
            Encoder.from_bytes(bytes(damaged))
        with pytest.raises(StructlearnError, match="SL05"):
            Encoder.from_bytes(bytes(data[:at]))


def test_without_onnxruntime(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(StructlearnError, match=r"SL193.*pip install 'spacy-structlearn\[md\]'"):
        tiny().vectors([["dog"]])
