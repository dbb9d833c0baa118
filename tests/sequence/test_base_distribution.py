"""Expectations under base distributions: against enumeration, against samples, and identities."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sequence.chains import LABELS, TEMPLATES, built, random_data, sentences
from sequence.conll import read_noun_phrases

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.sequence.estimators import base_distribution as bases
from spacy_structlearn.sequence.estimators.base_distribution import BaseDistribution
from spacy_structlearn.sequence.estimators.emissions import Emission
from spacy_structlearn.sequence.estimators.hmm import close_columns, hidden_markov, locally_uniform
from spacy_structlearn.sequence.layout.features import SHA_PEREIRA, UNKNOWN

WINDOWS = (
    "bias",
    "ORTH[0]",
    "ORTH[-1]|ORTH[0]",
    "ORTH[0]|SHAPE[0]",
    "TAG[1]|SHAPE[1]",
    "TAG[-2]|ORTH[2]",
    "ORTH[-1]|TAG[-1]|SHAPE[2]",
    "ORTH[-3]",
    "ORTH[3]|TAG[0]",
    "TAG[-2]|TAG[-1]|TAG[0]",
    "TAG[0]|SHAPE[1]|TAG[2]",
)
"""Places apart, several columns at one place, windows that leave a sentence at both ends."""
TAGS = ("O", "B-NP", "I-NP")


def distributions(rng, n, n_labels):
    return rng.dirichlet(np.ones(n), n_labels).T


def rising(labels, seed=0):
    """A q0 that is not tight, in whose sentences each label is higher than the one before."""
    rng, n = np.random.default_rng(seed), len(labels)
    t = rng.random((n + 1, n + 1, n + 1))
    for a, b, c in product(range(n + 1), repeat=3):
        if c <= b < n or (b == n and a < n) or b <= a < n:
            t[a, b, c] = 0.0
    emissions = (
        Emission("ORTH", np.array([3, 8], np.uint64), distributions(rng, 2, n)),
        Emission("TAG", np.array([1, 5], np.uint64), distributions(rng, 2, n)),
        Emission("SHAPE", np.array([6], np.uint64), distributions(rng, 1, n)),
    )
    return BaseDistribution(tuple(labels), t, emissions)


def probability(base, columns, labels):
    """q0 of a sentence, factor by factor."""
    edge = len(base.labels)
    padded = [edge, edge, *labels, edge]
    q = np.prod([base.t[tuple(padded[i - 2 : i + 1])] for i in range(2, len(padded))])
    for row, label in zip(columns, labels, strict=True):
        for emission, symbol in zip(base.emissions, row, strict=True):
            known = symbol if symbol in emission.symbols else UNKNOWN
            q *= emission.table[np.flatnonzero(emission.symbols == known)[0], label]
    return q


def everything(base):
    """All sentences with up to as many tokens as there are labels: data and probabilities."""
    rows = list(product(*(part.symbols.tolist() for part in base.emissions)))
    n = len(base.labels)
    columns, lengths, label_ids, q = [], [], [], []
    for length in range(n + 1):
        for labels in product(range(n), repeat=length):
            if not (np.diff(labels) > 0).all():
                continue
            for symbols in product(rows, repeat=length):
                columns += symbols
                lengths.append(length)
                label_ids += labels
                q.append(probability(base, symbols, labels))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    # In the order of WINDOWS: ORTH, SHAPE, TAG.
    columns = np.array(columns, dtype=np.uint64)[:, [0, 2, 1]]
    return (columns, offsets, np.array(label_ids)), np.array(q)


def weighted_counts(model, columns, offsets, label_ids, q):
    """The sum over sentences of q times their features, one after the other."""
    weights, n_states = np.zeros(model.weights.shape), len(model.states)
    transitions, predicates = np.zeros((n_states, n_states)), np.zeros(len(model.keys))
    rows = model.rows(model.templates.keys(columns, offsets))
    states = model.state_ids(label_ids.astype(np.int32), offsets)
    for s, weight in zip(sentences(offsets), q, strict=True):
        for t in range(s.start, s.stop):
            known = rows[t][rows[t] >= 0]
            predicates[known] += weight
            weights[known, label_ids[t]] += weight
            if model.has_pair_features:
                weights[known, len(model.labels) + states[t]] += weight
            if t > s.start:
                transitions[states[t - 1], states[t]] += weight
    return weights, transitions, predicates


def expected_length(base):
    """The sum of q0 times the number of tokens."""
    prefix, suffix = base.sums
    return (prefix * suffix)[:, : len(base.labels)].sum()


def make(seed=0, lengths=(4, 1, 6, 3, 2, 5), labels=LABELS[:3], **options):
    """A q0 counted on random data, and these data."""
    data = random_data(lengths, len(labels), seed)
    return hidden_markov(*data, labels, **options), data


@pytest.mark.parametrize(
    ("labels", "options"),
    [
        ("OXY", {"order": 2}),
        ("XOY", {"order": 2, "min_count": 40}),
        ("XYZ", {"order": 2}),
        ("OXY", {"order": 2, "pair_features": False}),
        ("XYO", {"order": 1}),
    ],
)
@pytest.mark.parametrize("block", [1, 1 << 22])
def test_by_enumeration(labels, options, block, monkeypatch):
    monkeypatch.setattr(bases, "_BLOCK", block)
    base = rising(labels)
    data, q = everything(base)
    model = built(*data, labels, WINDOWS, **options)
    weights, transitions, predicates = weighted_counts(model, *data, q)
    assert base.mass == pytest.approx(q.sum())
    assert expected_length(base) == pytest.approx(q @ np.diff(data[1]))
    found = base.expectations(model, *data[:2])
    np.testing.assert_allclose(found[0], weights, atol=1e-14)
    np.testing.assert_allclose(found[1], transitions, atol=1e-14)
    found = base.predicate_expectations(model, *data[:2])
    np.testing.assert_allclose(found, predicates, atol=1e-14)
    # What is not supported has none.
    model.supported[::2] = False
    model.supported_transitions[:1] = False
    found = base.expectations(model, *data[:2])
    np.testing.assert_allclose(found[0], np.where(model.supported, weights, 0), atol=1e-14)
    assert not found[1][0].any()


@pytest.mark.parametrize("block", [1, 1 << 22])
@pytest.mark.parametrize("options", [{"order": 1}, {"order": 2}])
@pytest.mark.parametrize("labels", ["OXY", "XYZ"])
def test_posterior_by_enumeration(labels, options, block, monkeypatch):
    monkeypatch.setattr(bases, "_BLOCK", block)
    base, (columns, offsets, label_ids) = make(
        lengths=(4, 0, 1, 3, 5, 0), labels=tuple(labels), smoothing=0.1
    )
    model = built(columns, offsets, label_ids, labels, TEMPLATES, **options)
    model.support(columns, offsets, (label_ids + 1) % 3)
    weights, transitions = np.zeros(model.weights.shape), np.zeros(model.transitions.shape)
    for s in sentences(offsets):
        n = s.stop - s.start
        if not n:
            continue
        paths = np.array(list(product(range(3), repeat=n)), dtype=np.int32).reshape(-1, n)
        q = np.array([probability(base, columns[s], path) for path in paths])
        data = np.tile(columns[s], (len(paths), 1)), np.arange(len(paths) + 1) * n
        found = weighted_counts(model, *data, paths.ravel(), q / q.sum())
        weights += found[0] / 6
        transitions += found[1] / 6
    found = base.posterior_expectations(model, columns, offsets)
    np.testing.assert_allclose(found[0], np.where(model.supported, weights, 0), atol=1e-14)
    supported = model.supported_transitions
    np.testing.assert_allclose(found[1], np.where(supported, transitions, 0), atol=1e-14)


@pytest.mark.parametrize(("order", "labels"), [(1, LABELS[:3]), (2, LABELS[:3]), (2, ("X", "Y"))])
def test_exact_and_sampled(order, labels):
    n = 20_000
    base, (columns, offsets, label_ids) = make(seed=1, labels=labels, smoothing=0.5)
    # Not tight: the sampled sentences stand for the mass that there is.
    base = BaseDistribution(base.labels, 0.9 * base.t, base.emissions)
    assert 0.3 < base.mass < 0.9
    model = built(columns, offsets, label_ids, labels, TEMPLATES, order=order)
    exact = base.expectations(model, columns, offsets)
    sampled = base.sampled_expectations(model, n, seed=4)
    for mine, theirs in zip(exact, sampled, strict=True):
        np.testing.assert_allclose(theirs, mine, atol=0.05)
        assert theirs.any()
    smoothed = base.sampled_expectations(model, n, seed=4, smoothing=0.5)
    supported = model.supported, model.supported_transitions
    for mine, theirs, chosen in zip(smoothed, sampled, supported, strict=True):
        np.testing.assert_allclose(mine, theirs + np.where(chosen, 0.5 * base.mass / n, 0.0))


@given(st.integers(1, 4), st.integers(0, 1000), st.lists(st.integers(1, 6), min_size=1))
@settings(deadline=None, max_examples=30)
def test_relative_frequencies_expect_what_was_counted(n_labels, seed, lengths):
    base, (columns, offsets, label_ids) = make(seed, lengths, LABELS[:n_labels])
    assert base.mass == pytest.approx(1)
    assert expected_length(base) == pytest.approx(np.mean(lengths))
    templates = ("bias", "ORTH[0]", "ORTH[-2]", "TAG[1]|ORTH[2]")
    model = built(columns, offsets, label_ids, base.labels, templates, order=2)
    mean = np.full(len(lengths), 1 / len(lengths))
    weights, transitions, _ = weighted_counts(model, columns, offsets, label_ids, mean)
    found = base.expectations(model, columns, offsets)
    np.testing.assert_allclose(found[1], transitions, atol=1e-12)
    bias = model.rows(model.templates.keys(columns, offsets, [0])[:1, 0])
    np.testing.assert_allclose(found[0][bias], weights[bias], atol=1e-12)
    # Every token has one word.
    predicates = base.predicate_expectations(model, columns, offsets)
    for template in (0, 1, 2):
        rows = np.unique(model.rows(model.templates.keys(columns, offsets, [template])))
        total = predicates[rows].sum()
        # All words may be anywhere, but none is known at places where none was in the data.
        assert template == 2 or total == pytest.approx(expected_length(base))
        assert total <= expected_length(base) + 1e-9


def test_locally_uniform():
    columns, offsets, label_ids = random_data((5, 3, 4))
    base = locally_uniform(columns, offsets, np.array([0, 1, 2, 0] * 3), TAGS)
    o, b, i, edge = range(4)
    third, quarter = [1 / 3, 1 / 3, 0, 1 / 3], [1 / 4] * 4
    assert base.t[edge, edge].tolist() == base.t[edge, o].tolist() == base.t[i, o].tolist() == third
    assert base.t[edge, b].tolist() == base.t[o, b].tolist() == base.t[i, i].tolist() == quarter
    assert not base.t[o, i].any()
    assert not base.t[edge, i].any()
    assert base.mass == pytest.approx(1)
    # With x tokens to come after O or the start, and z after B or I: x = (2 + x + z) / 3 and
    # z = (3 + 2 z + x) / 4.
    assert expected_length(base) == pytest.approx(7 / 3)
    words, counts = np.unique(columns[:, 0], return_counts=True)
    assert base.emissions[0].symbols.tolist() == words.tolist()
    p = (counts + 1) / (counts + 1).sum()
    np.testing.assert_allclose(base.emissions[0].table, np.repeat(p[:, None], 3, axis=1))
    # A pair that the data have may be, whatever the encoding says.
    assert locally_uniform(columns, offsets, label_ids, TAGS).t[edge, label_ids[0], :3].all()


def test_dead_ends_have_no_part():
    base = rising("OXY")
    t = base.t.copy()
    # From X X there is no way out.
    t[:, 1, 1] = t[1, 1, 1] = 1.0
    t[1, 1, [0, 2, 3]] = 0.0
    circle = BaseDistribution(base.labels, t, base.emissions)
    np.testing.assert_allclose(circle.sums, base.sums)


def test_unending_sentences():
    base = rising("OXY")
    for p in (1.0, 1.5):
        t = base.t.copy()
        t[:, 1, 1] = 1.0
        t[1, 1, [1, 3]] = p, 0.1
        with pytest.raises(StructlearnError, match="SL246"):
            BaseDistribution(base.labels, t, base.emissions).sums  # noqa: B018
    nothing = BaseDistribution(base.labels, 0.0 * t, base.emissions)
    assert nothing.mass == expected_length(nothing) == 0
    with pytest.raises(StructlearnError, match="SL246"):
        nothing.sample(3, np.random.default_rng(0))


def test_errors():
    base, (columns, offsets, label_ids) = make()
    other = built(columns, offsets, label_ids, LABELS[:3], ("ORTH[0]|LEMMA[0]",))
    for expectations in (base.expectations, base.posterior_expectations):
        with pytest.raises(StructlearnError, match="SL247"):
            expectations(other, columns, offsets)
    words = built(columns[:, :1], offsets, label_ids, LABELS[:3], ("ORTH[0]",))
    with pytest.raises(StructlearnError, match="SL247"):
        base.posterior_expectations(words, columns[:, :1], offsets)
    with pytest.raises(StructlearnError, match="SL204"):
        make(names=("ORTH",))


@pytest.mark.corpus
def test_conll_2000(corpora):
    columns, offsets, label_ids = read_noun_phrases(corpora / "conll2000" / "train.txt.gz", 8036)
    # No word of these is the unknown one.
    columns, _ = close_columns(columns ^ np.uint64(1))
    base = hidden_markov(columns, offsets, label_ids, LABELS[:3])
    model = built(columns, offsets, label_ids, LABELS[:3], SHA_PEREIRA, order=2)
    weights, _ = base.expectations(model, columns, offsets)
    assert expected_length(base) == pytest.approx(len(columns) / 8036)
    bias = model.rows(model.templates.keys(columns[:1], [0, 1], [19]))[0, 0]
    assert weights[bias, :3].sum() == pytest.approx(expected_length(base))
    assert expected_length(locally_uniform(columns, offsets, label_ids, LABELS[:3])) < 3
