"""Training of sigmoid belief networks: updates, schedules, held-out sentences, states."""

from functools import partial

import numpy as np
import pytest
from contracts.isbn_learners import parts
from isbn import networks
from isbn.networks import sample

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.isbn import training
from spacy_structlearn.isbn.decode import DerivationParser
from spacy_structlearn.isbn.derivation import encode
from spacy_structlearn.isbn.settings import ISBNSettings
from spacy_structlearn.isbn.training import ISBNTrainer
from spacy_structlearn.pipeline.architectures import estimator
from spacy_structlearn.trees.brackets import parse_tree

SMALL = {"state_size": 6, "min_word_count": 1, "min_unknown": 1, "min_chain_count": 3}
SMALL |= {"max_iterations": 4, "batch_size": 2, "optimizer": "adam", "learn_rate": 0.05}
# One update an epoch, which is a step up the gradient and nothing else.
PLAIN = {"optimizer": "sgd", "batch_size": 100, "averages": False}
PLAIN |= {"weight_decay": 0.0, "dropout": 0.0}


def toy():
    return [tree for part in parts() for tree in part]


def small(**settings):
    return ISBNSettings(**SMALL | settings)


def toy_trainer(**settings):
    return estimator(small(**settings)).trainer(None, toy())


def finish(trainer):
    while trainer.step():
        pass
    return trainer


def stored(trainer):
    return trainer.parameters().to_bytes()


def doubles(model):
    return model.weights.astype(np.float64)


def log_likelihoods(model, trees):
    """Of each tree, with the signatures of its words."""
    derivations, kept = encode(trees, model.symbols)
    assert len(kept) == len(trees)
    values = networks.log_likelihoods(model.network(), doubles(model), derivations)
    return values + model.signature_scores(derivations)


def gradient(model, trees):
    """Of the mean log-likelihood of a tree."""
    derivations, _ = encode(trees, model.symbols)
    found = np.zeros(model.n_weights)
    networks.log_likelihoods(model.network(), doubles(model), derivations, found)
    return found / len(trees)


def rated(monkeypatch, *scores):
    """Let the held-out sentences be parsed with these F1 scores, the last one for ever."""

    def score(trainer, model, trees):
        return scores[min(len(trainer.scores), len(scores) - 1)]

    monkeypatch.setattr(ISBNTrainer, "_score", score)


# --- initialize -----------------------------------------------------------------------------------
def test_no_trees():
    learner = estimator(small())
    for begin in (learner.initialize, partial(learner.trainer, None)):
        with pytest.raises(StructlearnError, match="SL407"):
            begin([[]])
    begin = partial(learner.trainer, learner.initialize(toy()))
    with pytest.raises(StructlearnError, match=r"SL621.*no sentences \(0 have"):
        begin([])
    for other in ("a tree", 1, None, [("tokens", "tree")]):
        with pytest.raises(StructlearnError, match=r"SL621.*of the type"):
            learner.initialize([other])
        with pytest.raises(StructlearnError, match=r"SL621.*of the type"):
            begin([toy(), other])


# --- updates --------------------------------------------------------------------------------------
@pytest.mark.parametrize("means", ["feed_forward", "mean_field"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_likelihood_rises(means, optimizer):
    """That of the averages of the weights, in each epoch."""
    trees = sample()[:40]
    settings = {"optimizer": optimizer, "means": means, "dropout": 0.0, "state_size": 12}
    settings |= {"learn_rate": 0.005 if optimizer == "adam" else 0.1}
    trainer = estimator(small(**settings)).trainer(None, trees)
    values, losses = [log_likelihoods(trainer.parameters(), trees).mean()], []
    while not trainer.finished:
        trainer.step()
        values.append(log_likelihoods(trainer.parameters(), trees).mean())
        losses.append(trainer.value)
    assert len(losses) == 4
    assert values == sorted(values)
    assert losses == sorted(losses, reverse=True)
    assert values[-1] > values[0] + 20
    assert -values[1] < losses[0] < -values[0]


def test_value_is_the_mean_log_likelihood():
    """As the weights hardly move, and with the signatures of unknown words."""
    trees = toy()
    trainer = toy_trainer(
        learn_rate=1e-12, dropout=0.0, min_word_count=3, max_iterations=1, batch_size=4
    )
    assert trainer.value == 0.0
    calls = []
    trainer.on_iteration = calls.append
    assert not trainer.step()
    model = trainer.parameters()
    assert (encode(trees, model.symbols)[0].signatures >= 0).any()
    found = log_likelihoods(model, trees)
    assert trainer.value == pytest.approx(-found.mean(), rel=1e-6)
    assert len(calls) == 2
    assert calls[-1] == pytest.approx(found.mean(), rel=1e-6)


@pytest.mark.parametrize("l2", [0.0, 0.5])
@pytest.mark.parametrize("clip", [1.0, np.inf])
@pytest.mark.parametrize("means", ["feed_forward", "mean_field"])
def test_a_step_of_sgd(monkeypatch, means, clip, l2):
    """Up the gradient of the mean log-likelihood, of limited length; then weights decay."""
    monkeypatch.setattr(training, "GRAD_CLIP", clip)
    settings = small(**PLAIN | {"weight_decay": l2, "means": means})
    trainer = estimator(settings).trainer(None, toy())
    before = trainer.parameters()
    trainer.step()
    rate, slope = settings.learn_rate, gradient(before, toy())
    slope *= min(1, clip / np.linalg.norm(slope))
    wanted = (doubles(before) + rate * slope) * (1 - rate * l2)
    np.testing.assert_allclose(trainer.parameters().weights, wanted, atol=1e-6)


def test_the_learning_rate_falls_to_0():
    trainer = toy_trainer(max_iterations=3, batch_size=4)
    found = []
    trainer.on_iteration = lambda *_: found.append(
        (trainer.factor, trainer._optimizer.learn_rate, trainer._optimizer.L2)
    )
    finish(trainer)
    factors = 1 - np.arange(6) / 6
    np.testing.assert_allclose(found, factors[:, None] * [1.0, 0.05, 1e-4])


def test_averages_are_those_of_all_updates():
    settings = PLAIN | {"max_iterations": 6}
    raw, averaged = toy_trainer(**settings), toy_trainer(**settings | {"averages": True})
    average = doubles(raw.parameters())
    np.testing.assert_array_equal(averaged.parameters().weights, average)
    for update in range(1, 7):
        raw.step()
        averaged.step()
        decay = (1 + update) / (10 + update)
        average = decay * average + (1 - decay) * raw.parameters().weights
        np.testing.assert_allclose(averaged.parameters().weights, average, atol=1e-6)
    assert np.abs(average - raw.parameters().weights).max() > 1e-3
    assert "averages" not in raw._state()


def test_weights_out_of_all_bounds(monkeypatch):
    """Also by the last update of an epoch. With rates that settings allow, it takes longer."""
    monkeypatch.setattr(training, "GRAD_CLIP", np.inf)
    for rate, batch_size in ((1e38, 2), (1e39, 100)):
        settings = small(**PLAIN | {"batch_size": batch_size})
        object.__setattr__(settings, "learn_rate", rate)
        trainer = estimator(settings).trainer(None, toy())
        with np.errstate(all="ignore"), pytest.raises(StructlearnError, match=r"SL622.*epoch 1\. "):
            finish(trainer)


def test_learns_a_toy():
    settings = {"max_iterations": 60, "learn_rate": 0.03, "state_size": 12, "dropout": 0.0}
    model = finish(toy_trainer(**settings)).parameters()
    parser = DerivationParser(model)
    trees = toy()
    parses = parser.parse([tree.words() for tree in trees])
    assert [parse.tree(tree.words()) for parse, tree in zip(parses, trees, strict=True)] == trees


# --- data -----------------------------------------------------------------------------------------


def test_trees_with_other_symbols_are_left_out():
    trees = toy()
    texts = ("(TOP (P (X tora) (V naita)))", "(TOP (Q (V naita)))", f"(TOP {'(P ' * 6}(N a)")
    other = [parse_tree(texts[0]), parse_tree(texts[1]), parse_tree(texts[2] + " (N a))" * 6 + ")")]
    model = estimator(small()).initialize(trees)
    trainer = estimator(small()).trainer(model, [*trees, other[0], other[2]])
    assert (trainer.left_out, trainer.n_sentences) == (1, len(trees) + 1)
    trainer.add(other[:2])
    assert (trainer.left_out, trainer.n_sentences) == (3, len(trees) + 1)
    finish(trainer)
    with pytest.raises(StructlearnError, match=r"SL621.*no sentences \(2 have other"):
        estimator(small()).trainer(model, other[:2])


# --- held-out sentences ---------------------------------------------------------------------------
def test_a_share_is_held_out():
    trees = sample()
    trainer = estimator(small(validation=0.2)).trainer(None, trees)
    assert trainer.n_sentences == len(trees) - 21
    assert estimator(small(validation=1e-6)).trainer(None, trees).n_sentences == len(trees) - 1
    assert estimator(small(validation=0.0)).trainer(None, trees).n_sentences == len(trees)
    # Alike sentences stay together.
    trainer = estimator(small(validation=0.05)).trainer(None, toy() * 3)
    assert trainer.n_sentences == 3 * (len(toy()) - 1)
    with pytest.raises(StructlearnError, match=r"SL621.*0 have other symbols, 3 are held out"):
        estimator(small(validation=0.1)).trainer(None, toy()[:1] * 3)


def test_whenever_they_are_parsed_worse_rate_and_decay_are_halved(monkeypatch):
    scores = [0.5, 0.6, 0.4, 0.3, 0.6, 0.59, 0.7, 0.1]
    rated(monkeypatch, *scores)
    trainer = toy_trainer(validation=0.2, max_iterations=len(scores))
    factors, networks, states, rates = [], [], [], []
    trainer.on_iteration = lambda *_: rates.append(
        (trainer._optimizer.learn_rate, trainer._optimizer.L2)
    )
    while not trainer.finished:
        trainer.step()
        factors.append(trainer.factor)
        networks.append(stored(trainer))
        states.append(trainer._state())
    assert trainer.scores == scores
    assert factors == [1.0, 1.0, 0.5, 0.25, 0.25, 0.125, 0.125, 0.0625]
    by_epoch = np.array(rates).reshape(len(scores), -1, 2)[:, -1]
    np.testing.assert_allclose(by_epoch, np.outer([1.0, *factors[:-1]], [0.05, 1e-4]))
    for fallen, best in ((2, 1), (3, 1), (5, 4), (7, 6)):
        assert networks[fallen] == networks[best] not in networks[:best]
        assert states[fallen].keys() == states[best].keys()
        for name, value in states[best].items():
            np.testing.assert_array_equal(states[fallen][name], value)


@pytest.mark.parametrize("epochs", [5, 20])
def test_training_ends_when_the_rate_is_small(monkeypatch, epochs):
    rated(monkeypatch, 0.5, 0.6, 0.4)
    trainer = finish(toy_trainer(validation=0.2, max_iterations=epochs))
    assert trainer.n_iterations == min(epochs, 9)
    assert trainer.factor == (2**-7 if epochs == 20 else 2**-3)
