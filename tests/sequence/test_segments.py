"""Chunks under brackets: the kernel against enumeration, and at the edges."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sequence.chains import (
    LABEL_SETS,
    enumerate_chunk_probabilities,
    enumerate_labels,
    random_data,
    random_model,
    sentences,
)

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.sequence.chain.decode import decode_with_segments
from spacy_structlearn.sequence.layout import encoding

SCALES = [0.3, 2.0, 400.0]

models = st.tuples(
    st.sampled_from(LABEL_SETS),
    st.sampled_from([{"order": 1}, {"order": 2}]),
    st.sampled_from(SCALES),
    st.integers(0, 1000),
)
lengths = st.lists(st.integers(0, 5), max_size=3)


def random_tree(start, end, rng):
    """The brackets of a random tree over some tokens, some of them twice."""
    if end - start < 1:
        return []
    cuts = np.flatnonzero(rng.random(max(0, end - start - 1)) < 0.5) + start + 1
    bounds = [start, *cuts.tolist(), end]
    here = [(start, end)] * int(rng.integers(0, 3))
    if len(cuts):
        for a, b in pairwise(bounds):
            here += random_tree(a, b, rng)
    return here


def make(lengths, chain):
    """A random model, sentences, and a tree for each."""
    (scheme, labels), options, scale, seed = chain
    data = random_data([3, 8], len(labels), seed, n_symbols=4)
    model = random_model(*data, labels, scale, seed, encoding=scheme, **options)
    columns, offsets, _ = random_data(lengths, len(labels), seed + 1, n_symbols=4)
    rng = np.random.default_rng(seed)
    found = [bracket for s in sentences(offsets) for bracket in random_tree(s.start, s.stop, rng)]
    brackets = rng.permutation(np.array(found, dtype=np.int64).reshape(-1, 2))
    return model, columns, offsets, brackets


def crosses(chunk, bracket):
    (i, j), (a, b) = chunk, bracket
    return i < a < j < b or a < i < b < j


def agreeing(model, columns, offsets, s, brackets):
    """Every label sequence of a sentence, and its score, -inf where a chunk crosses a bracket."""
    rows = model.rows(model.templates.keys(columns, offsets))[s]
    sequences, totals = enumerate_labels(model, rows)
    for k, ys in enumerate(sequences):
        chunks = encoding.decode([model.labels[y] for y in ys], model.encoding)
        places = [(start + s.start, end + s.start) for _, start, end in chunks]
        if any(crosses(chunk, bracket) for chunk in places for bracket in brackets.tolist()):
            totals[k] = -np.inf
    return sequences, totals


@settings(max_examples=30)
@given(lengths, models)
def test_chunks_under_a_tree_by_enumeration(lengths, chain):
    model, columns, offsets, brackets = make(lengths, chain)
    parts = [s for s in sentences(offsets) if s.start < s.stop]
    every = [agreeing(model, columns, offsets, s, brackets) for s in parts]
    if any(np.isneginf(totals).all() for _, totals in every):
        with pytest.raises(StructlearnError, match="SL217"):
            decode_with_segments(model, columns, offsets, brackets=brackets)
        return
    best, segments = decode_with_segments(model, columns, offsets, brackets=brackets)
    assert best.dtype == np.int32
    expected = []
    for s, (sequences, totals) in zip(parts, every, strict=True):
        assert totals[(sequences == best[s]).all(axis=1)][0] == pytest.approx(totals.max())
        exact = enumerate_chunk_probabilities(sequences, totals, model.labels, model.encoding)
        tags = [model.labels[y] for y in best[s]]
        for label, start, end in encoding.decode(tags, model.encoding):
            expected.append((label, start + s.start, end + s.start, exact[label, start, end]))
    assert list(zip(*segments[:3], strict=True)) == [chunk[:3] for chunk in expected]
    np.testing.assert_allclose(segments.probabilities, [chunk[3] for chunk in expected], atol=1e-9)


@given(lengths, models, st.integers(0, 1000))
def test_brackets_that_do_not_count(lengths, chain, seed):
    model, columns, offsets, brackets = make(lengths, chain)
    rng = np.random.default_rng(seed)
    n = len(columns)
    # Of one token, and over the bounds of sentences.
    singles = rng.integers(0, max(1, n), size=3)
    more = [(i, i + 1) for i in singles.tolist() if n]
    more += [
        (a, b)
        for a in range(n)
        for b in range(a + 2, n + 1)
        if (offsets[1:-1] > a).any() and any(a < edge < b for edge in offsets[1:-1].tolist())
    ]
    more = np.array(more, dtype=np.int64).reshape(-1, 2)
    best, segments = decode_with_segments(model, columns, offsets, brackets=brackets)
    found, again = decode_with_segments(
        model, columns, offsets, brackets=np.concatenate([more, brackets])
    )
    np.testing.assert_array_equal(found, best)
    np.testing.assert_array_equal(again.probabilities, segments.probabilities)


@pytest.mark.parametrize("shape", ["flat", "right", "left"])
def test_very_long_sentence(shape):
    n = 2_000
    columns, offsets, label_ids = random_data([n])
    model = random_model(columns, offsets, label_ids, scale=3.0)
    places = np.arange(n)
    brackets = {
        "flat": np.array([[0, n]]),
        "right": np.column_stack([places, np.full(n, n)]),
        "left": np.column_stack([np.zeros(n, dtype=int), places + 1]),
    }[shape]
    _, segments = decode_with_segments(model, columns, offsets, brackets=brackets)
    assert ((segments.probabilities > 0) & (segments.probabilities <= 1)).all()
    if shape == "flat":
        _, free = decode_with_segments(model, columns, offsets)
        assert segments.labels == free.labels
        np.testing.assert_array_equal(segments[1:3], free[1:3])
        np.testing.assert_allclose(segments.probabilities, free.probabilities, atol=1e-9)
