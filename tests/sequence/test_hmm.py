"""The second-order HMM: counting, the rule for unknown words, and the chain that it becomes."""

from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest
from chains import LABELS, as_data, random_data, sentences
from conll import f1, read_noun_phrases
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.sequence.decode import marginals, viterbi
from spacy_structlearn.sequence.features import find_symbols
from spacy_structlearn.sequence.hmm import SecondOrderHMM, close_vocabulary
from spacy_structlearn.sequence.settings import HMMSettings

LENGTHS = (4, 1, 0, 6, 3, 2, 5)


def make(n_labels=3, seed=0, lengths=LENGTHS, **options):
    data = random_data(lengths, n_labels, seed)
    return SecondOrderHMM.fit(*data, LABELS[:n_labels], **options), data


def by_hand(hmm, words, tags, labels):
    """log q0 of one sentence, factor by factor."""
    edge = len(hmm.labels)
    padded = [edge, edge, *labels, edge]
    factors = [hmm.t[tuple(padded[i - 2 : i + 1])] for i in range(2, len(padded))]
    for word, tag, label in zip(words, tags, labels, strict=True):
        factors.append(hmm.e[find_symbols(np.array([word]), hmm.words)[0], label])
        factors.append(hmm.g[find_symbols(np.array([tag]), hmm.tags)[0], label])
    with np.errstate(divide="ignore"):
        return float(np.log(factors).sum())


def chain_score(model, columns, labels):
    """Score of a label sequence by the arrays of a chain; -inf if it has no path."""
    states = {tuple(state): i for i, state in enumerate(model.states.tolist())}
    path = [states.get(pair) for pair in zip([-1, *labels[:-1]], labels, strict=True)]
    if None in path:
        return -np.inf
    rows = model.rows(model.templates.keys(columns, np.array([0, len(columns)])))
    score = model.initial[path[0]] + model.final[path[-1]]
    score += sum(model.transitions[a, b] for a, b in pairwise(path))
    for row, label in zip(rows, labels, strict=True):
        for template, k in enumerate(row):
            score += (model.weights[k] if k >= 0 else model.unknown[template])[label]
    return float(score)


@given(st.integers(1, 5), st.integers(0, 1000), st.sampled_from([0.0, 0.5]))
@settings(deadline=None)
def test_probabilities_sum_to_one(n_labels, seed, smoothing):
    hmm, _ = make(n_labels, seed, smoothing=smoothing)
    np.testing.assert_allclose(hmm.e.sum(axis=0), 1)
    np.testing.assert_allclose(hmm.g.sum(axis=0), 1)
    totals = hmm.t.sum(axis=2)
    np.testing.assert_allclose(totals[totals > 0], 1)
    assert totals[-1, -1] > 0


def test_trigrams_are_relative_frequencies():
    hmm, (_, offsets, label_ids) = make()
    trigrams, contexts = Counter(), Counter()
    for s in sentences(offsets):
        padded = [3, 3, *label_ids[s].tolist(), 3]
        if len(padded) > 3:
            trigrams.update(zip(padded, padded[1:], padded[2:], strict=False))
    for (a, b, _), count in trigrams.items():
        contexts[a, b] += count
    for a, b, c in product(range(4), repeat=3):
        assert hmm.t[a, b, c] == trigrams[a, b, c] / max(contexts[a, b], 1)


def test_first_token_of_each_type_is_unknown():
    # a b a c a b d: the first of each is unknown; c and d are seen once and leave.
    a, b, c, d = 40, 10, 30, 20
    known, ids = close_vocabulary(np.array([a, b, a, c, a, b, d], dtype=np.uint64))
    assert known.tolist() == [b, a]
    assert ids.tolist() == [2, 2, 1, 2, 1, 0, 2]
    new_text = np.array([d, a, b, 99, 0], dtype=np.uint64)
    assert find_symbols(new_text, known).tolist() == [2, 1, 0, 2, 2]
    nothing = np.array([], dtype=np.uint64)
    assert find_symbols(known, nothing).tolist() == [0, 0]
    assert close_vocabulary(nothing)[1].tolist() == []


def test_counts_by_hand():
    # Words 1 2 1 | 1 2, tags 7 7 7 | 7 8, labels X Y X | X X.
    columns = np.array([[1, 7], [2, 7], [1, 7], [1, 7], [2, 8]], dtype=np.uint64)
    hmm = SecondOrderHMM.fit(columns, [0, 3, 5], np.array([0, 1, 0, 0, 0]), ("X", "Y"))
    assert hmm.words.tolist() == [1, 2]
    assert hmm.tags.tolist() == [7]
    # With X: unknown, 1, 1, 2. With Y: unknown. One more for each of three symbols.
    np.testing.assert_allclose(hmm.e, np.array([[3 / 7, 1 / 4], [2 / 7, 1 / 4], [2 / 7, 2 / 4]]))
    # With X: unknown, 7, 7, unknown (8 is seen once). With Y: 7. One more for each of two.
    np.testing.assert_allclose(hmm.g, np.array([[3 / 6, 2 / 3], [3 / 6, 1 / 3]]))
    assert hmm.t[2, 2].tolist() == [1, 0, 0]
    assert hmm.t[2, 0].tolist() == [0.5, 0.5, 0]
    assert hmm.t[1, 0].tolist() == hmm.t[0, 0].tolist() == [0, 0, 1]
    assert hmm.n_parameters == 6 + 4 + 6


def test_log_probabilities_factor_by_factor():
    hmm, _ = make(smoothing=0.1)
    columns, offsets, label_ids = random_data((3, 0, 1, 5), n_symbols=9, seed=5)
    found = hmm.log_probabilities(columns, offsets, label_ids)
    wanted = [by_hand(hmm, columns[s, 0], columns[s, 1], label_ids[s]) for s in sentences(offsets)]
    np.testing.assert_allclose(found, wanted)
    assert found[1] == -np.inf
    assert hmm.log_probabilities(columns[:0], [0], label_ids[:0]).shape == (0,)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("n_labels", [1, 3])
def test_chain_model_is_the_same_distribution(n_labels, smoothing):
    hmm, _ = make(n_labels, smoothing=smoothing)
    model = hmm.to_chain_model()
    for n, seed in ((1, 0), (2, 1), (4, 2)):
        columns = random_data([n], seed=seed, n_symbols=9)[0]
        for labels in product(range(n_labels), repeat=n):
            score = by_hand(hmm, columns[:, 0], columns[:, 1], labels)
            assert chain_score(model, columns, labels) == pytest.approx(score)


@pytest.mark.parametrize("seed", range(5))
def test_decoding_by_enumeration(seed):
    hmm, _ = make(seed=seed)
    columns, offsets, _ = random_data((4, 4), seed=seed + 50, n_symbols=9)
    sequences = np.array(list(product(range(3), repeat=4)))
    model = hmm.to_chain_model()
    for s in sentences(offsets):
        scores = np.array([by_hand(hmm, columns[s, 0], columns[s, 1], ys) for ys in sequences])
        inside = np.array([0, 4])
        assert viterbi(model, columns[s], inside).tolist() == sequences[scores.argmax()].tolist()
        p = np.exp(scores - scores.max())
        p /= p.sum()
        of_labels = [[p[sequences[:, t] == y].sum() for y in range(3)] for t in range(4)]
        np.testing.assert_allclose(marginals(model, columns[s], inside), of_labels, atol=1e-12)


def test_smoothing_opens_what_the_encoding_allows_and_no_more():
    tags = ("O", "B-NP", "I-NP")
    columns, offsets, _ = random_data((3, 2))
    label_ids = np.array([0, 0, 1, 1, 0])
    hmm = SecondOrderHMM.fit(columns, offsets, label_ids, tags, smoothing=0.1, encoding="IOB2")
    _, b, i, edge = range(4)
    legal = {(x, y) for x, y in product(range(4), repeat=2) if y != i or x in (b, i)}
    legal -= {(edge, edge)}
    for x, y, z in product(range(4), repeat=3):
        first = (x, y) == (edge, edge)
        allowed = (((x, y) in legal and y != edge) or first) and (y, z) in legal
        assert (hmm.t[x, y, z] > 0) == (allowed and not (first and z == edge)), (x, y, z)
    everything = SecondOrderHMM.fit(columns, offsets, label_ids, tags, smoothing=0.1)
    assert (everything.t[:3, :3] > 0).all()


def test_estimator():
    columns, offsets, label_ids = random_data((5, 3, 4, 6), seed=3)
    tags = np.array(["O", "B-NP", "I-NP"])
    data = as_data(columns, offsets, label_ids, tags)
    estimator = HMMSettings()
    assert estimator.attributes == ("ORTH", "TAG")
    model = estimator.initialize(data, ["NP"])
    assert not model.is_empty
    trainer = estimator.trainer(model, data[:2])
    assert not trainer.step()
    trainer.add(data[2:])
    assert not trainer.step()
    assert trainer.n_iterations == 2
    hmm = SecondOrderHMM.fit(
        columns, offsets, label_ids, tags.tolist(), smoothing=1e-3, encoding="IOB2"
    )
    assert trainer.parameters() == hmm.to_chain_model().compact("float32")
    assert trainer.value == pytest.approx(-hmm.log_probabilities(columns, offsets, label_ids).sum())


def test_other_columns_and_encoding():
    model = make()[0].to_chain_model(("LOWER", "POS"))
    assert model.templates.columns == ("LOWER", "POS")
    estimator = HMMSettings(word="LOWER", tag="POS", encoding="IOE2")
    assert estimator.initialize([], ["NP"]).labels == ("O", "I-NP", "E-NP")


def test_errors():
    columns, offsets, label_ids = random_data((3, 2))
    with pytest.raises(StructlearnError, match="SL230"):
        SecondOrderHMM.fit(columns[:, :1], offsets, label_ids, LABELS[:3])
    with pytest.raises(StructlearnError, match="SL207"):
        SecondOrderHMM.fit(columns, offsets, label_ids + 1, LABELS[:3])
    with pytest.raises(StructlearnError, match="SL203"):
        SecondOrderHMM.fit(columns, offsets + 1, label_ids, LABELS[:3])


@pytest.mark.corpus
def test_conll_2000(corpora):
    # Smith et al. train on 8,036 sentences: 27,213 parameters (their 900 others differ), F1 87.1.
    folder = corpora / "conll2000"
    train = read_noun_phrases(folder / "train.txt.gz", 8036)
    hmm = SecondOrderHMM.fit(*train, LABELS[:3])
    assert hmm.e.shape == (9063, 3)
    assert hmm.g.shape == (45, 3)
    assert hmm.n_parameters == 27_360
    columns, offsets, gold = read_noun_phrases(folder / "test.txt.gz")
    found = viterbi(hmm.to_chain_model(), columns, offsets)
    assert f1(offsets, gold, found) == pytest.approx(86.94, abs=0.02)
