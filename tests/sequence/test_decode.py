"""Decoding: labels, marginals and chunk probabilities against enumeration, and at the edges."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from sequence.chains import (
    CHAINS,
    LABEL_SETS,
    enumerate_chunk_probabilities,
    enumerate_labels,
    random_data,
    random_model,
    sentences,
)

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.sequence.chain import decode
from spacy_structlearn.sequence.chain.model import ChainModel
from spacy_structlearn.sequence.layout import encoding

chains = st.tuples(
    st.sampled_from(LABEL_SETS),
    st.sampled_from(list(CHAINS.values())),
    st.booleans(),  # whether the data are encoded; else all pairs are states
    st.sampled_from([0.3, 2.0, 400.0]),  # the last goes in log space
    st.integers(0, 1000),
)
lengths = st.lists(st.integers(0, 4), max_size=4)


def make(lengths, chain):
    """A random model, and sentences in which some of its predicates are unknown."""
    (scheme, labels), options, is_encoded, scale, seed = chain
    data = random_data([3, 8], len(labels), seed, n_symbols=4)
    if options["order"] == 2 and is_encoded:
        data = (*data[:2], encoded(data[1], labels, scheme))
    model = random_model(*data, labels, scale, seed, encoding=scheme, **options)
    return model, *random_data(lengths, len(labels), seed + 1, n_symbols=5)[:2]


def encoded(offsets, labels, scheme):
    """Label ids of sentences, as the scheme has them, or of its leniently read ones."""
    tags = []
    for s in sentences(offsets):
        length = s.stop - s.start
        name = next(label for label in labels if label != "O")[2:]
        found = encoding.encode([(name, 0, 1)], length, scheme) if length else []
        tags += [labels.index(tag) if tag in labels else labels.index("O") for tag in found]
    return np.array(tags)


def every_sequence(model, columns, offsets, s, allowed=None):
    rows = model.rows(model.templates.keys(columns, offsets))[s]
    return enumerate_labels(model, rows, None if allowed is None else allowed[s])


@settings(max_examples=30)
@given(lengths, chains, st.booleans())
def test_labels_chunks_and_probabilities_by_enumeration(lengths, chain, is_forced):
    model, columns, offsets = make(lengths, chain)
    rng = np.random.default_rng(chain[-1])
    n_labels = len(model.labels)
    forced = allowed = None
    if is_forced:
        forced = rng.integers(-1, n_labels, size=len(columns))
        forced[rng.random(len(columns)) < 0.5] = -1
        allowed = np.array([[i in (-1, y) for y in range(n_labels)] for i in forced])
        allowed = allowed.reshape(-1, n_labels).astype(bool)
    parts = [s for s in sentences(offsets) if s.start < s.stop]
    sequences = [every_sequence(model, columns, offsets, s, allowed) for s in parts]
    if any(np.isneginf(totals).all() for _, totals in sequences):
        for function in (decode.viterbi, decode.marginals, decode.decode_with_segments):
            with pytest.raises(StructlearnError, match="SL217"):
                function(model, columns, offsets, forced)
        with pytest.raises(StructlearnError, match="SL217"):
            decode.n_best(model, columns, offsets, 2, forced)
        return
    best, segments = decode.decode_with_segments(model, columns, offsets, forced)
    p = decode.marginals(model, columns, offsets, forced)
    n = int(rng.integers(1, 9))
    paths, log_probabilities = decode.n_best(model, columns, offsets, n, forced)
    np.testing.assert_array_equal(paths[0], best)
    np.testing.assert_array_equal(decode.viterbi(model, columns, offsets, forced), best)
    assert best.dtype == np.int32
    n_chunks = 0
    chunks = {
        (label, a, b): probability for label, a, b, probability in zip(*segments, strict=True)
    }
    for s, (ids, totals) in zip(parts, sequences, strict=True):
        i = int(np.searchsorted(offsets, s.start, side="right")) - 1
        assert totals[(ids == best[s]).all(axis=1)][0] == pytest.approx(totals.max())
        weights = np.exp(totals - logsumexp(totals))
        for y in range(n_labels):
            np.testing.assert_allclose(p[s, y], weights @ (ids == y), atol=1e-9)
        k = min(n, int(np.isfinite(totals).sum()))
        best_totals = np.sort(totals)[::-1][:k] - logsumexp(totals)
        np.testing.assert_allclose(log_probabilities[:k, i], best_totals, atol=1e-8)
        assert (log_probabilities[k:, i] == -np.inf).all()
        assert (paths[k:, s] == -1).all()
        # All are different, and have the scores that are given for them.
        assert len({tuple(path) for path in paths[:k, s].tolist()}) == k
        for path, log_p in zip(paths[:k, s], best_totals, strict=True):
            score = totals[(ids == path).all(axis=1)][0] - logsumexp(totals)
            assert log_p == pytest.approx(score, abs=1e-8)
        exact = enumerate_chunk_probabilities(ids, totals, model.labels, model.encoding)
        sums = Counter()
        for path, weight in zip(ids.tolist(), weights.tolist(), strict=True):
            sums[tuple(encoding.decode([model.labels[y] for y in path], model.encoding))] += weight
        own = None if forced is None else forced[s]
        different = decode.n_best_chunks(model, columns[s], len(sums), own)
        assert [score for score, _ in different] == sorted((s for s, _ in different), reverse=True)
        assert len({tuple(spans) for _, spans in different}) == len(different)
        assert np.exp([score for score, _ in different]).sum() == pytest.approx(1)
        for score, spans in different:
            assert np.exp(score) == pytest.approx(sums[tuple(spans)], abs=1e-9)
        tags = [model.labels[y] for y in best[s]]
        for label, a, b in encoding.decode(tags, model.encoding):
            assert chunks[label, a + s.start, b + s.start] == pytest.approx(
                exact[label, a, b], abs=1e-9
            )
            n_chunks += 1
    assert len(segments.labels) == len(chunks) == n_chunks


@settings(max_examples=20)
@given(lengths, chains, st.booleans())
def test_a_pool_by_enumeration(lengths, chain, is_local):
    model, columns, offsets = make(lengths, chain)
    model.locally_normalized = is_local
    outside = np.random.default_rng(chain[-1]).normal(size=(len(columns), len(model.labels)))
    pool, n = model.pooled((0.6, 1.0), outside), 10_000
    paths, own = decode.n_best(model, columns, offsets, n)
    _, found = decode.n_best(pool, columns, offsets, n)
    p = decode.marginals(pool, columns, offsets)
    best, segments = decode.decode_with_segments(pool, columns, offsets)
    for i, s in enumerate(sentences(offsets)):
        k = int(np.isfinite(own[:, i]).sum())
        if s.start == s.stop or not k:
            continue
        rows = np.arange(s.start, s.stop)
        totals = 0.6 * own[:k, i] + outside[rows, paths[:k, s]].sum(axis=1)
        totals -= logsumexp(totals)
        order = np.argsort(-totals, kind="stable")
        np.testing.assert_allclose(found[:k, i], totals[order], atol=1e-8)
        assert totals[(paths[:k, s] == best[s]).all(axis=1)][0] == pytest.approx(totals.max())
        for y in range(len(model.labels)):
            expected = np.exp(totals) @ (paths[:k, s] == y)
            np.testing.assert_allclose(p[s, y], expected, atol=1e-9)
        exact = enumerate_chunk_probabilities(paths[:k, s], totals, model.labels, model.encoding)
        for label, a, b, probability in zip(*segments, strict=True):
            if s.start <= a < s.stop:
                key = label, a - s.start, b - s.start
                assert probability == pytest.approx(exact[key], abs=1e-9)
    same = decode.marginals(model.pooled((1.0, 0.0), outside), columns, offsets)
    np.testing.assert_allclose(same, decode.marginals(model, columns, offsets), atol=1e-12)


@pytest.mark.parametrize(
    "bad",
    [
        np.zeros((3, 2), dtype=bool),
        np.zeros((2, 3), dtype=bool),
        np.zeros((3, 3)),
        np.zeros(2, dtype=int),
        np.array([0, 3, 0]),
        np.array([-2, 0, 0]),
        np.zeros(3),
    ],
)
def test_forced_labels_that_do_not_fit(bad):
    data = random_data([3])
    with pytest.raises(StructlearnError, match="SL216"):
        decode.viterbi(random_model(*data), *data[:2], bad)


def test_very_long_sentence():
    columns, offsets, label_ids = random_data([100_000])
    model = random_model(columns, offsets, label_ids, scale=3.0)
    p = decode.marginals(model, columns, offsets)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-9)
    _, segments = decode.decode_with_segments(model, columns, offsets)
    assert ((segments.probabilities > 0) & (segments.probabilities <= 1 + 1e-9)).all()


def test_refusals():
    columns, offsets, label_ids = random_data([3])
    with pytest.raises(StructlearnError, match="SL209"):
        decode.n_best(random_model(columns, offsets, label_ids), columns, offsets, 0)
    for function in (decode.viterbi, decode.marginals, decode.decode_with_segments):
        with pytest.raises(StructlearnError, match="SL205"):
            function(ChainModel.empty(), columns, offsets)
    with pytest.raises(StructlearnError, match="SL205"):
        decode.n_best(ChainModel.empty(), columns, offsets, 1)


def test_other_labels_can_be_decoded_but_not_read_as_chunks():
    columns, offsets, label_ids = random_data([3], 2)
    model = random_model(columns, offsets, label_ids, ("noun", "verb"))
    assert set(decode.viterbi(model, columns, offsets)) <= {0, 1}
    with pytest.raises(StructlearnError, match="SL210"):
        decode.decode_with_segments(model, columns, offsets)
