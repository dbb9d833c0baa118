"""M-estimation of chains: gold counts, the corrected base distribution, and the estimator."""

import dataclasses
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sequence import chains
from sequence.conll import f1, read_noun_phrases

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.optimize.m_estimation import MEstimationObjective
from spacy_structlearn.sequence.chain.decode import marginals, viterbi
from spacy_structlearn.sequence.estimators import m_estimation, training
from spacy_structlearn.sequence.estimators.hmm import close_columns, hidden_markov, locally_uniform
from spacy_structlearn.sequence.layout.data import arranged, concatenate
from spacy_structlearn.sequence.layout.features import SHA_PEREIRA, Templates
from spacy_structlearn.sequence.settings import MEstimationSettings

TAGS = ("O", "B-NP", "I-NP")
LENGTHS = (4, 1, 0, 6, 3, 2, 5)


def closed_data(n_labels=3, seed=0, lengths=LENGTHS):
    columns, offsets, label_ids = chains.random_data(lengths, n_labels, seed)
    return close_columns(columns)[0], offsets, label_ids


def dense_counts(counts, model, columns, offsets, label_ids):
    """F, a feature and a token at a time."""
    wanted = np.zeros(counts.shape)
    numbers = {place: i for i, place in enumerate(counts.places.tolist())}
    state_ids = model.state_ids(label_ids.astype(np.int32), offsets)
    rows = model.rows(model.templates.keys(columns, offsets))
    for i, s in enumerate(chains.sentences(offsets)):
        for t in range(s.start, s.stop):
            own = [label_ids[t]]
            if model.has_pair_features:
                own.append(len(model.labels) + state_ids[t])
            known = rows[t][rows[t] >= 0]
            on = [row * model.weights.shape[1] + column for row, column in product(known, own)]
            if t > s.start:
                step = state_ids[t - 1] * len(model.states) + state_ids[t]
                on.append(model.weights.size + step)
            # Predicates alone, if they are counted.
            on += (model.weights.size + model.transitions.size + known).tolist()
            for place in on:
                if place in numbers:
                    wanted[i, numbers[place]] += 1
    return wanted


# --- gold counts ----------------------------------------------------------------------------------
@given(
    st.integers(0, 1000),
    st.lists(st.sampled_from(chains.RICH_TEMPLATES), min_size=0, max_size=6, unique=True),
    st.booleans(),
    st.integers(1, 3),
    st.sampled_from([chains.LABELS[:1], ("X", "Y"), TAGS]),
    st.booleans(),
)
@settings(deadline=None, max_examples=40)
def test_gold_counts(seed, templates, pair_features, min_count, labels, input_only):
    columns, offsets, label_ids = closed_data(len(labels), seed)
    columns = columns[:, [chains.COLUMNS.index(name) for name in Templates(templates).columns]]
    model = chains.built(
        columns,
        offsets,
        label_ids,
        labels,
        templates,
        min_count,
        order=2,
        pair_features=pair_features,
    )
    counts = m_estimation.GoldCounts(model, columns, offsets, label_ids, input_only=input_only)
    wanted = dense_counts(counts, model, columns, offsets, label_ids)
    # Every supported feature has one parameter.
    supported = np.concatenate([model.supported, model.supported_transitions], axis=None)
    supported = np.append(supported, np.full(len(model.keys), input_only))
    assert sorted(counts.places.tolist()) == np.flatnonzero(supported).tolist()
    n_parameters = np.count_nonzero(supported)
    assert counts.shape == (len(LENGTHS), n_parameters)
    rng = np.random.default_rng(seed)
    vector, of_sentences = rng.normal(size=n_parameters), rng.normal(size=len(LENGTHS))
    np.testing.assert_allclose(counts.matvec(vector), wanted @ vector, atol=1e-12)
    np.testing.assert_allclose(counts.rmatvec(of_sentences), of_sentences @ wanted, atol=1e-12)
    # To the arrays of the model and back.
    counts.write(vector, model)
    alone = rng.normal(size=len(model.keys))
    again = counts.vector(model.weights, model.transitions, alone)
    n = model.weights.size + model.transitions.size
    with_labels = counts.places < n
    assert again[with_labels].tolist() == vector[with_labels].tolist()
    assert again[~with_labels].tolist() == alone[counts.places[~with_labels] - n].tolist()


@given(st.integers(0, 1000), st.booleans())
@settings(deadline=None, max_examples=20)
def test_features_that_no_sentence_tells_apart_are_one(seed, pair_features):
    columns, offsets, label_ids = closed_data(seed=seed)
    options = {"order": 2, "pair_features": pair_features}
    model = chains.built(columns, offsets, label_ids, TAGS, chains.RICH_TEMPLATES, **options)
    counts = m_estimation.GoldCounts(model, columns, offsets, label_ids)
    dense = dense_counts(counts, model, columns, offsets, label_ids)
    expectations = np.random.default_rng(seed).random(counts.shape[1])
    few, few_expectations = counts.distinct(expectations)
    assert few.shape[1] == len(np.unique(dense, axis=1).T)
    np.testing.assert_allclose((few @ few.T).toarray(), dense @ dense.T)
    np.testing.assert_allclose(few @ few_expectations, dense @ expectations)


# --- q0 times exp(w.f) ----------------------------------------------------------------------------
@pytest.mark.parametrize("labels", [TAGS, ("X", "Y"), ("X",)])
@pytest.mark.parametrize("make_base", [hidden_markov, locally_uniform])
@pytest.mark.parametrize(
    ("templates", "pair_features"),
    [
        (chains.RICH_TEMPLATES, True),
        (("ORTH[0]", "TAG[0]"), False),
        (("ORTH[-1]",), True),
        ((), True),
    ],
)
def test_corrected_scores_by_enumeration(labels, make_base, templates, pair_features):
    columns, offsets, label_ids = closed_data(len(labels), seed=3)
    base = make_base(columns, offsets, label_ids, labels, chains.COLUMNS, encoding=None)
    templates = Templates(templates)
    places = [chains.COLUMNS.index(name) for name in templates.columns]
    model = chains.built(
        columns[:, places],
        offsets,
        label_ids,
        labels,
        templates,
        order=2,
        pair_features=pair_features,
        encoding="none",
    )
    rng = np.random.default_rng(0)
    model.weights[:] = rng.normal(size=model.weights.shape)
    model.transitions += rng.normal(size=model.transitions.shape)
    corrected = m_estimation.correct(base, model)
    chain = base.to_chain_model()
    for n in (1, 2, 4):
        text = columns[:n]
        wanted = 0.0
        for part in (chain, model):
            its_columns = [chains.COLUMNS.index(name) for name in part.templates.columns]
            keys = part.templates.keys(text[:, its_columns], [0, n])
            wanted = wanted + chains.enumerate_labels(part, part.rows(keys))[1]
        its_columns = [chains.COLUMNS.index(name) for name in corrected.templates.columns]
        keys = corrected.templates.keys(text[:, its_columns], [0, n])
        _, found = chains.enumerate_labels(corrected, corrected.rows(keys))
        np.testing.assert_allclose(found, wanted)
        assert np.isfinite(found).any()


# --- the estimator --------------------------------------------------------------------------------


def make_estimator(**options):
    options = {
        "templates": chains.RICH_TEMPLATES[:7],
        "tolerance": 1e-10,
        "max_iterations": 1000,
        **options,
    }
    # The columns of the templates in the order of the data.
    return MEstimationSettings(**{**options, "templates": ("ORTH[0]", *options["templates"][2:])})


ESTIMATORS = {
    "default": {},
    "label features": {"pair_features": False},
    "locally uniform": {"base": "locally_uniform"},
    "empirical": {"base": "empirical"},
    "samples": {"samples": 200, "seed": 1},
    "no smoothing": {"smoothing": 0.0},
    "frequent": {"min_count": 2},
    "input-only features": {"input_only": True},
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimator(name):
    estimator = make_estimator(**ESTIMATORS[name], l2=2.0)
    assert estimator.attributes == ("ORTH", "TAG")
    columns, offsets, label_ids = chains.random_data((5, 3, 4, 0, 6, 4, 4), seed=3)
    data = chains.as_data(columns, offsets, label_ids, TAGS)
    start = training.initialize(estimator, data, ["NP"])
    assert start.labels == TAGS
    assert set(start.vocabularies) == {"ORTH", "TAG"}
    trainer = training.trainer(estimator, start, data)
    chains.trained(trainer)
    assert 1 < trainer.n_iterations <= estimator.max_iterations
    model = trainer.parameters()
    assert model.weights.dtype == np.float32
    # The minimum: weighted counts are what is expected, up to the regulariser.
    sentences_in_order = concatenate(arranged(data), TAGS)
    statistics = m_estimation.ChainStatistics(estimator, *sentences_in_order, TAGS)
    w, counts = m_estimation.Minimization(statistics, 2.0).run(), statistics.counts
    alpha = np.exp(-counts.matvec(w)) / 6  # one of the seven sentences is empty
    wanted = statistics.expectations + w / 0.5
    np.testing.assert_allclose(counts.rmatvec(alpha), wanted, atol=5e-5)
    assert trainer.value == MEstimationObjective(counts, statistics.expectations, c=0.5).value(w)
    none = chains.trained(
        training.trainer(dataclasses.replace(estimator, max_iterations=20, l2=0.0), start, data)
    )
    assert none.value < trainer.value
    # It answers, with known words and unknown ones.
    text = np.vstack([columns[:3], [[77, 1], [1, 78]]]).astype(np.uint64)
    p = marginals(model, model.derive(text), [0, 3, 5])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


@pytest.mark.parametrize("base", ["hmm", "locally_uniform", "empirical"])
def test_without_regulariser(base):
    # More features than sentences: there is no minimum, and the weights must not grow for ever.
    estimator = make_estimator(base=base, l2=0.0)
    columns, offsets, label_ids = chains.random_data((5, 3, 4, 6, 4, 4), seed=3)
    data = chains.as_data(columns, offsets, label_ids, TAGS)
    trainer = chains.fit(estimator, data, ["NP"])
    assert 0 < trainer.n_iterations < estimator.max_iterations
    model = trainer.parameters()
    p = marginals(model, model.derive(columns), offsets)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


def test_settings_that_do_not_go_together():
    for further in ({"samples": 10}, {"input_only": True}):
        with pytest.raises(StructlearnError, match="SL043"):
            make_estimator(base="empirical", **further)
    with pytest.raises(
        StructlearnError, match=r"SL043.*base.*one of .hmm., .locally_uniform., .empirical."
    ):
        make_estimator(base="specialized")
    with pytest.raises(StructlearnError, match=r"SL043.*templates"):
        MEstimationSettings(templates=("bias",))


def test_errors():
    columns, offsets, label_ids = chains.random_data((5, 3))
    for bad, code in (
        ((columns[:, :1], offsets, label_ids), "SL204"),
        ((columns, offsets + 1, label_ids), "SL203"),
        ((columns, offsets, label_ids + 1), "SL207"),
        ((columns[:0], [0, 0], label_ids[:0]), "SL226"),
    ):
        with pytest.raises(StructlearnError, match=code):
            m_estimation.ChainStatistics(make_estimator(), *bad, TAGS)


@pytest.mark.corpus
def test_conll_2000(corpora):
    # The last 900 training sentences after the first 8,036; no test sentence is looked at.
    columns, offsets, ids = read_noun_phrases(corpora / "conll2000" / "train.txt.gz")
    n = offsets[8036]
    for templates, pair_features, n_features, wanted in (
        (("ORTH[0]", "TAG[0]"), False, 13_025, 85.3),
        (SHA_PEREIRA, True, 608_692, 88.3),
    ):
        estimator = MEstimationSettings(templates=templates, pair_features=pair_features)
        statistics = m_estimation.ChainStatistics(
            estimator, columns[:n], offsets[:8037], ids[:n], chains.LABELS[:3]
        )
        assert statistics.counts.shape == (8036, n_features)
        model = statistics.corrected(m_estimation.Minimization(statistics, 1.0).run())
        found = viterbi(model, model.derive(columns[n:]), offsets[8036:] - n)
        assert f1(offsets[8036:] - n, ids[n:], found) == pytest.approx(wanted, abs=0.2)
