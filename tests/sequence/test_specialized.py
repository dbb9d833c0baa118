"""The specialised HMM, features that are centred by it, and M-estimation with them."""

from itertools import product

import numpy as np
import pytest
from chains import built, enumerate_labels, random_data, sentences, trained
from conll import f1, read_noun_phrases

from spacy_structlearn.optimize.m_estimation import MEstimationObjective
from spacy_structlearn.sequence.data import SequenceData, arranged, concatenate
from spacy_structlearn.sequence.decode import marginals, viterbi
from spacy_structlearn.sequence.features import SHA_PEREIRA
from spacy_structlearn.sequence.m_estimation import ChainStatistics, Minimization
from spacy_structlearn.sequence.settings import MEstimationSettings
from spacy_structlearn.sequence.specialized import CentredCounts, SpecializedHMM

TAGS = ("O", "B-NP", "I-NP")
NAMES = ("A", "B", "C")  # no tags of an encoding, so that any pair may be
LENGTHS = (5, 3, 4, 0, 1, 6, 4, 4)


def numpy_scores(columns, offsets, label_ids, sentence, ys):
    """log q0 of one sentence with labels ys, but for p(x | t): counts, one after another."""
    tags, start = np.unique(columns[:, 1]), -1
    seen = []  # (label before, label, tag two before, tag before, tag, word)
    for s in [*sentences(offsets), None]:
        words = columns[s] if s else columns[sentence]
        labels = [start, *(label_ids[s] if s else ys)]
        padded = [-2, -1, *words[:, 1].tolist()]
        rows = [
            (labels[i], labels[i + 1], *padded[i : i + 3], int(word))
            for i, word in enumerate(words[:, 0])
        ]
        if s:
            seen += rows
    pairs = list(product((-1, 0, 1, 2), range(3)))

    def n(**wanted):
        places = {"a": 0, "b": 1, "t2": 2, "t1": 3, "t": 4, "x": 5}
        return sum(all(row[places[k]] == v for k, v in wanted.items()) for row in seen)

    def less(a, b, t):
        total = sum(n(a=a, b=y, t=u) + 1 for (x, y), u in product(pairs, tags) if x == a)
        return (n(a=a, b=b, t=t) + 1) / total

    total = 0.0
    for a, b, t2, t1, t, x in rows:
        p = (n(a=a, b=b, t1=t1, t=t) + less(a, b, t)) / (n(a=a, t1=t1) + 1)
        p = (n(a=a, b=b, t2=t2, t1=t1, t=t) + p) / (n(a=a, t2=t2, t1=t1) + 1)
        word = n(x=x, t=t) / n(t=t)
        total += np.log(p * (n(x=x, t=t, b=b) / word + 10) / (n(t=t, b=b) + 10))
    return total


def test_scores_by_enumeration():
    columns, offsets, label_ids = random_data(LENGTHS, seed=1, n_symbols=4)
    model = SpecializedHMM(columns, offsets, label_ids, NAMES).to_chain_model()
    assert model.states[:, 0].min() == -1
    for s in sentences(offsets)[1:3]:
        rows = model.rows(model.templates.keys(columns[s], np.array([0, s.stop - s.start])))
        sequences, found = enumerate_labels(model, rows)
        wanted = [numpy_scores(columns, offsets, label_ids, s, ys) for ys in sequences]
        np.testing.assert_allclose(found, wanted)


def test_residuals():
    columns, offsets, label_ids = random_data((30, 40, 35, 30), seed=2, n_symbols=3)
    hmm = SpecializedHMM(columns, offsets, label_ids, NAMES)
    model = hmm.to_chain_model()
    last = np.eye(3)[model.states[:, 1]]
    gold = np.eye(3)[label_ids]
    found = hmm.residuals(1) @ last
    np.testing.assert_allclose(found, gold - marginals(model, columns, offsets), atol=0.05)
    # Each half is judged by the other.
    found = hmm.residuals(2) @ last
    for own, other in ((slice(0, 2), slice(2, 4)), (slice(2, 4), slice(0, 2))):
        tokens, others = (slice(offsets[s.start], offsets[s.stop]) for s in (own, other))
        theirs = offsets[other.start : other.stop + 1] - others.start
        half = SpecializedHMM(columns[others], theirs, label_ids[others], NAMES).to_chain_model()
        mine = offsets[own.start : own.stop + 1] - tokens.start
        wanted = gold[tokens] - marginals(half, columns[tokens], mine)
        np.testing.assert_allclose(found[tokens], wanted, atol=0.05)
    # There are never more parts than sentences.
    np.testing.assert_array_equal(hmm.residuals(9).toarray(), hmm.residuals(4).toarray())


@pytest.mark.parametrize("pair_features", [True, False])
@pytest.mark.parametrize("of_sentences", [True, False])
def test_centred_counts(pair_features, of_sentences):
    columns, offsets, label_ids = random_data(LENGTHS, seed=3)
    templates = ("ORTH[0]", "TAG[-1]|TAG[0]", "TAG[0]|TAG[-1]", "bias")
    model = built(
        columns, offsets, label_ids, TAGS, templates, order=2, pair_features=pair_features
    )
    residuals = SpecializedHMM(columns, offsets, label_ids, TAGS).residuals()
    examples = np.arange(len(columns))
    if of_sentences:
        examples = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
    counts = CentredCounts(model, columns, offsets, residuals, examples if of_sentences else None)
    wanted = np.zeros((len(columns), *model.weights.shape))
    rows = model.rows(model.templates.keys(columns, offsets))
    for token, state in product(range(len(columns)), range(len(model.states))):
        value = residuals.toarray()[token, state]
        for row in rows[token]:
            wanted[examples[token], row, model.states[state, 1]] += value
            if pair_features:
                wanted[examples[token], row, 3 + state] += value
    wanted[:, ~model.supported] = 0.0
    wanted = wanted.reshape(len(wanted), -1)
    kept = np.unique(examples[np.diff(residuals.indptr) > 0])
    dense = counts @ np.eye(counts.shape[1])
    np.testing.assert_allclose(dense, wanted[kept][:, counts.places], atol=1e-12)
    others = np.delete(wanted, counts.places, axis=1)
    np.testing.assert_allclose(others, 0.0, atol=1e-12)
    np.testing.assert_allclose(counts.rmatvec(np.ones(len(kept))), dense.sum(axis=0), atol=1e-12)
    # Features that no example tells apart are one: the dual is the same.
    distinct, totals = counts.distinct(np.ones(counts.shape[1]))
    assert len(totals) < counts.shape[1]
    np.testing.assert_allclose((distinct @ distinct.T).toarray(), dense @ dense.T, atol=1e-12)
    np.testing.assert_allclose(distinct @ totals, dense.sum(axis=1), atol=1e-12)


@pytest.mark.parametrize("pair_features", [True, False])
def test_estimator(pair_features):
    columns, offsets, label_ids = random_data(LENGTHS, seed=3)
    data = [SequenceData(columns, offsets, tuple(TAGS[i] for i in label_ids))]
    estimator = MEstimationSettings(
        templates=("TAG[0]", "ORTH[1]", "bias"),
        base="specialized",
        pair_features=pair_features,
        l2=2.0,
        tolerance=1e-10,
        max_iterations=1000,
    )
    assert estimator.attributes == ("TAG", "ORTH")
    columns = np.ascontiguousarray(columns[:, ::-1])
    data = [data[0]._replace(columns=columns)]
    start = estimator.initialize(data, ["NP"])
    trainer = estimator.trainer(start, data)
    model = trained(trainer).parameters()
    # The minimum of the sum over tokens: what they have more than q0 expects is what w is.
    statistics = ChainStatistics(estimator, *concatenate(arranged(data), TAGS), TAGS)
    w, counts = Minimization(statistics, 2.0).run(), statistics.counts
    np.testing.assert_allclose(counts.rmatvec(np.exp(-counts.matvec(w))), w / 0.5, atol=1e-4)
    mean = MEstimationObjective(counts, statistics.expectations, c=0.5 * counts.shape[0])
    assert trainer.value == mean.value(w)
    # Without weights it is q0, whatever the templates have of it already.
    q0 = statistics.corrected(np.zeros(len(w)))
    assert q0.vocabularies.keys() == {"ORTH", "TAG"}
    text = model.derive(np.vstack([columns, [[91, 92]]]).astype(np.uint64))
    ends = np.append(offsets, len(text))
    own = np.ascontiguousarray(text[:, ::-1])
    wanted = marginals(statistics.base.to_chain_model(), own, ends)
    np.testing.assert_allclose(marginals(q0, text, ends), wanted, atol=1e-12)
    assert np.abs(marginals(model, text, ends) - wanted).max() > 0.01


def test_one_sentence_and_one_label():
    columns = np.array([[1, 1], [1, 1]], dtype=np.uint64)
    hmm = SpecializedHMM(columns, np.array([0, 2]), np.array([0, 0]), ("A",))
    assert hmm.residuals().nnz == 0
    estimator = MEstimationSettings(templates=("ORTH[0]", "TAG[0]"), base="specialized")
    data = [SequenceData(columns, np.array([0, 2]), ("B-NP", "I-NP"))]
    trainer = estimator.trainer(estimator.initialize(data, ["NP"]), data)
    trainer.step()
    model = trainer.parameters()
    assert len(viterbi(model, model.derive(columns), [0, 2])) == 2


@pytest.mark.parametrize("l2", [1.0, 0.0])
def test_nothing_to_correct(l2):
    # q0 is sure, and right: no residuals, and all weights are zero.
    columns = np.tile(np.array([[1, 1], [2, 2]], dtype=np.uint64), (20, 1))
    data = [SequenceData(columns, np.arange(0, 41, 2), ("X",) * 40)]
    estimator = MEstimationSettings(
        templates=("ORTH[0]", "TAG[0]"), base="specialized", encoding="none", l2=l2
    )
    trainer = estimator.trainer(estimator.initialize(data, ["X"]), data)
    model = trained(trainer).parameters()
    assert trainer.value == 1.0
    statistics = ChainStatistics(estimator, *concatenate(arranged(data), ("X",)), ("X",))
    assert statistics.counts.shape[0] == 1
    assert model == statistics.corrected(np.zeros(statistics.counts.shape[1])).compact("float32")
    assert viterbi(model, model.derive(columns), data[0].offsets).tolist() == [0] * 40


def test_no_predicate_is_frequent_enough():
    columns, offsets, label_ids = random_data(LENGTHS, seed=3)
    data = [SequenceData(columns, offsets, tuple(TAGS[i] for i in label_ids))]
    estimator = MEstimationSettings(
        templates=("ORTH[0]", "TAG[0]"), base="specialized", min_count=1000
    )
    trainer = estimator.trainer(estimator.initialize(data, ["NP"]), data)
    model = trained(trainer).parameters()
    p = marginals(model, model.derive(columns), offsets)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


@pytest.mark.corpus
def test_conll_2000(corpora):
    # 500 training sentences after the first 4,000.
    columns, offsets, label_ids = read_noun_phrases(corpora / "conll2000" / "train.txt.gz", 4500)
    n, tokens = 4000, slice(0, offsets[4000])
    rest = slice(tokens.stop, None)
    labels = ("B-NP", "I-NP", "O")
    estimator = MEstimationSettings(templates=SHA_PEREIRA, base="specialized", tolerance=1e-2)
    statistics = ChainStatistics(
        estimator, columns[tokens], offsets[: n + 1], label_ids[tokens], labels
    )
    scores = {}
    vector = Minimization(statistics, 4.0).run()
    for name, weights in (("q0", 0.0 * vector), ("m-estimate", vector)):
        model = statistics.corrected(weights)
        found = viterbi(model, model.derive(columns[rest]), offsets[n:] - offsets[n])
        scores[name] = f1(offsets[n:] - offsets[n], label_ids[rest], found)
    assert scores["q0"] > 90.0
    assert scores["m-estimate"] > scores["q0"] + 1.0
