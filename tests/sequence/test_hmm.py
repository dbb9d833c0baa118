"""The second-order HMM: counting, the rule for unknown words, and the chain that it becomes."""

from itertools import product

import numpy as np
import pytest
from sequence.chains import LABELS, as_data, random_data, sentences
from sequence.conll import f1, read_noun_phrases
from sequence.test_base_distribution import probability

from spacy_structlearn.sequence.chain.decode import viterbi
from spacy_structlearn.sequence.estimators import training
from spacy_structlearn.sequence.estimators.hmm import close_columns, hidden_markov, log_likelihood
from spacy_structlearn.sequence.layout.features import UNKNOWN
from spacy_structlearn.sequence.settings import HMMSettings

TAGS = ("O", "B-NP", "I-NP")


def counted(columns, offsets, label_ids, labels=LABELS[:3], **options):
    return hidden_markov(close_columns(columns)[0], offsets, label_ids, labels, **options)


def test_counts_by_hand():
    # Words 1 2 1 | 1 2, tags 7 7 7 | 7 8, labels X Y X | X X.
    columns = np.array([[1, 7], [2, 7], [1, 7], [1, 7], [2, 8]], dtype=np.uint64)
    hmm = counted(columns, [0, 3, 5], np.array([0, 1, 0, 0, 0]), ("X", "Y"))
    words, tags = hmm.emissions
    assert words.symbols.tolist() == [1, 2, UNKNOWN]
    assert tags.symbols.tolist() == [7, UNKNOWN]
    # With X: unknown, 1, 1, 2. With Y: unknown. One more for each of three symbols.
    np.testing.assert_allclose(words.table, [[3 / 7, 1 / 4], [2 / 7, 1 / 4], [2 / 7, 2 / 4]])
    # With X: unknown, 7, 7, unknown (8 is seen once). With Y: 7. One more for each of two.
    np.testing.assert_allclose(tags.table, [[3 / 6, 2 / 3], [3 / 6, 1 / 3]])
    assert hmm.t[2, 2].tolist() == [1, 0, 0]
    assert hmm.t[2, 0].tolist() == [0.5, 0.5, 0]
    assert hmm.t[1, 0].tolist() == hmm.t[0, 0].tolist() == [0, 0, 1]


@pytest.mark.parametrize("n_labels", [1, 3])
def test_chain_is_the_same_distribution(n_labels):
    data = random_data((4, 1, 0, 6, 3, 2, 5), n_labels)
    hmm = counted(*data, LABELS[:n_labels], smoothing=0.3)
    model = hmm.to_chain_model()
    for n, seed in ((1, 0), (2, 1), (4, 2)):
        columns = random_data([n], seed=seed, n_symbols=9)[0]
        for labels in product(range(n_labels), repeat=n):
            score = log_likelihood(
                model, model.derive(columns), np.array([0, n]), np.array(labels, dtype=np.int32)
            )
            assert score == pytest.approx(np.log(probability(hmm, columns, labels)))


def test_smoothing_opens_what_the_encoding_allows_and_no_more():
    columns, offsets, _ = random_data((3, 2))
    data = columns, offsets, np.array([0, 0, 1, 1, 0]), TAGS
    hmm = counted(*data, smoothing=0.1, encoding="IOB2")
    _, b, i, edge = range(4)
    legal = {(x, y) for x, y in product(range(4), repeat=2) if y != i or x in (b, i)}
    legal -= {(edge, edge)}
    for x, y, z in product(range(4), repeat=3):
        first = (x, y) == (edge, edge)
        allowed = (((x, y) in legal and y != edge) or first) and (y, z) in legal
        assert (hmm.t[x, y, z] > 0) == (allowed and not (first and z == edge)), (x, y, z)
    everything = counted(*data, smoothing=0.1)
    assert (everything.t[:3, :3] > 0).all()


def test_trainer():
    columns, offsets, label_ids = random_data((5, 3, 4, 6), seed=3)
    data = as_data(columns, offsets, label_ids, TAGS)
    settings = HMMSettings(word="LOWER", tag="POS")
    assert settings.attributes == ("LOWER", "POS")
    trainer = training.trainer(settings, training.initialize(settings, data, ["NP"]), data[:2])
    assert not trainer.step()
    trainer.add(data[2:])
    assert not trainer.step()
    assert trainer.n_iterations == 2
    options = {"names": ("LOWER", "POS"), "smoothing": 1e-3, "encoding": "IOB2"}
    hmm = counted(columns, offsets, label_ids, TAGS, **options)
    assert trainer.parameters() == hmm.to_chain_model().compact("float32")
    parts = [probability(hmm, columns[s], label_ids[s]) for s in sentences(offsets)]
    assert trainer.value == pytest.approx(-np.log(parts).sum())


@pytest.mark.corpus
def test_conll_2000(corpora):
    # Smith et al. train on 8,036 sentences: 27,213 parameters (their 900 others differ), F1 87.1.
    folder = corpora / "conll2000"
    hmm = counted(*read_noun_phrases(folder / "train.txt.gz", 8036))
    assert [part.table.shape for part in hmm.emissions] == [(9063, 3), (45, 3)]
    assert sum(part.table.size for part in hmm.emissions) + np.count_nonzero(hmm.t) == 27_360
    columns, offsets, gold = read_noun_phrases(folder / "test.txt.gz")
    model = hmm.to_chain_model()
    found = viterbi(model, model.derive(columns), offsets)
    assert f1(offsets, gold, found) == pytest.approx(86.94, abs=0.02)
