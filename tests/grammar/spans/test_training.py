"""Span grammars: the model, the loss and its gradient, and training."""

from collections import Counter
from functools import cache
from itertools import groupby

import numpy as np
import pytest
from grammar import treebanks
from grammar.treebanks import finish
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.spans import forests as span_forests
from spacy_structlearn.grammar.spans.forests import conditional_loss
from spacy_structlearn.grammar.spans.model import SpanGrammar
from spacy_structlearn.grammar.spans.settings import (
    REPORTS,
    SpanFeaturesSettings,
    SpanGrammarSettings,
)
from spacy_structlearn.grammar.spans.training import MIN_RATE, batches, learn_rate_factor
from spacy_structlearn.pipeline.architectures import estimator as learner

SHORT = LatentGrammarSettings(
    rounds=1, split_iterations=3, merge_iterations=2, smooth_iterations=2, min_word_count=3
)


@cache
def sample():
    return tuple(treebanks.sample()[:40])


FEATURES = SpanFeaturesSettings(
    buckets=2**12, min_word_count=1, l1_per_sentence=1e-4, learn_rate=0.3
)


def settings(**changes):
    changes = {"folds": 3, "max_iterations": 3, "batch_size": 8, **changes}
    return FEATURES.part(SpanGrammarSettings, **{"grammar": SHORT, **changes})


def run(estimator, data=None):
    """A trainer that has done all, and its calls."""
    return finish(learner(estimator).trainer(None, sample() if data is None else data))


@cache
def grammar():
    return treebanks.learned(SHORT, list(sample()))


@cache
def forests(number=6):
    trees = sample()[:number]
    graphs, numbers = ChartParser(SpanGrammar(grammar())).forests([t.words() for t in trees])
    assert numbers.tolist() == list(range(number))
    return graphs, graphs.closest(trees, grammar().symbols)


# --- the model ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", [{"weight": -1.0}, {"weight": np.inf}, {"weight": np.nan}, {"temperature": 0.0}], ids=str
)
def test_bad_parts(bad):
    with pytest.raises(StructlearnError, match="SL433"):
        SpanGrammar(grammar(), **bad)


# --- the loss -------------------------------------------------------------------------------------
def test_gradient_against_finite_differences():
    graphs, target = forests(2)
    rng = np.random.default_rng(0)
    scores, weight = rng.normal(size=len(graphs.items)), 0.8
    losses, by_item, by_weight = conditional_loss(graphs, target, scores, weight)
    assert losses.shape == (2,)
    assert (losses > 0).all()
    for of_weight in (0.0, *rng.normal(size=5)):
        direction = rng.normal(size=len(scores))
        ahead, behind = (
            conditional_loss(graphs, target, scores + x * direction, weight + x * of_weight)[0]
            for x in (1e-5, -1e-5)
        )
        slope = (ahead.sum() - behind.sum()) / 2e-5
        assert by_item @ direction + by_weight * of_weight == pytest.approx(slope, rel=1e-5)


# --- batches and the learning rate ----------------------------------------------------------------
@given(st.lists(st.integers(1, 200), max_size=300), st.integers(1, 20), st.integers(0, 99))
def test_each_sentence_is_in_one_batch(lengths, batch_size, seed):
    lengths = np.array(lengths, dtype=np.int32)
    found = batches(lengths, batch_size, np.random.default_rng(seed))
    assert sorted(np.concatenate([np.empty(0, int), *found])) == list(range(len(lengths)))
    assert all(0 < len(batch) <= batch_size for batch in found)
    again = batches(lengths, batch_size, np.random.default_rng(seed))
    assert all(map(np.array_equal, found, again))


def test_learning_rate():
    rates = [learn_rate_factor(update, 1000) for update in range(1, 1001)]
    assert [rates[i] for i in (0, 49, 99, 499, 999)] == [0.01, 0.5, 1.0, 1.0, 0.02]
    # Where there are few, it rises in a tenth of them.
    assert [learn_rate_factor(update, 40) for update in (1, 2, 4, 20)] == [0.25, 0.5, 1.0, 1.0]
    assert [learn_rate_factor(update, 2) for update in (1, 2)] == [1.0, MIN_RATE]


# --- forests of the folds -------------------------------------------------------------------------


def test_no_grammar_has_seen_what_it_parses(monkeypatch):
    parsed = []

    class Parser(ChartParser):
        def forests(self, sentences):
            parsed.append((self.grammar, [tuple(words) for words in sentences]))
            return super().forests(sentences)

    monkeypatch.setattr(span_forests, "ChartParser", Parser)
    run(settings(max_iterations=0))
    assert [words for _, some in parsed for words in some] == [tuple(t.words()) for t in sample()]
    blocks = {}
    for own, some in parsed:
        blocks.setdefault(frozenset(own.lexicon.words), []).extend(some)
    assert sorted(map(len, blocks.values())) == [13, 13, 14]
    for known, held_out in blocks.items():
        others = [tree.words() for tree in sample() if tuple(tree.words()) not in held_out]
        assert known <= {word for words in others for word in words}
        assert {word for words in held_out for word in words} - known


# --- training -------------------------------------------------------------------------------------
def test_phases_and_steps():
    trainer = learner(settings()).trainer(None, sample())
    calls = []

    def stage(_):
        if not trainer.has_grammars:
            calls.append((len(trainer._grammars), "grammar"))
        elif trainer._folds.n_parsed < len(trainer._folds):
            calls.append((len(trainer._folds.parts) + 1, "forests"))
        else:
            calls.append((len(trainer.losses) + 1, "weights"))

    trainer.on_iteration = stage
    while trainer.step():
        pass
    order = [call for call, _ in groupby(calls)]
    expected = [(number, "grammar") for number in range(4)]
    expected += [(number, "forests") for number in (1, 2, 3)]
    assert order == expected + [(number, "weights") for number in (1, 2, 3)]
    assert trainer.n_iterations == 4 * 2 + 3 + 3
    assert len(calls) + trainer.n_iterations - 1 <= trainer.settings.n_reports
    counts = Counter(calls)
    assert all(counts[call] <= REPORTS for call in counts if call[1] != "grammar")
    assert not trainer.step()


def test_the_loss_falls():
    trainer = learner(settings(max_iterations=8, learn_rate=0.03)).trainer(None, sample())
    values = []
    while trainer.step():
        values.append(trainer.value)
    # After the forests of the last fold the loss is that of scores that are all 0.
    assert len(values) == 18
    assert trainer.losses[0] == pytest.approx(values[10], rel=0.1)
    assert trainer.losses == [*values[11:], trainer.value]
    assert trainer.losses == sorted(trainer.losses, reverse=True)
    assert trainer.losses[-1] < 0.8 * trainer.losses[0]
    assert trainer.left_out == 0


@pytest.mark.parametrize("bad", [[3], [[3]], [None], ["tree"], [(None, None)]], ids=str)
def test_what_is_no_tree(bad):
    with pytest.raises(StructlearnError, match="SL434"):
        learner(settings()).trainer(None, bad)


def test_too_few_trees():
    with pytest.raises(StructlearnError, match="SL407"):
        learner(settings()).trainer(None, [])
    trainer = learner(settings()).trainer(None, sample()[:1])
    with pytest.raises(StructlearnError, match="SL434"):
        trainer.step()
    two, _ = run(settings(folds=5), data=sample()[:2])
    assert len(two._folds) == 2
    assert np.isfinite(two.value)


def test_sentences_without_a_forest(monkeypatch):
    class Parser(ChartParser):
        def forests(self, sentences):
            kept = [number for number, words in enumerate(sentences) if len(words) % 2]
            graphs, numbers = super().forests([sentences[number] for number in kept])
            return graphs, np.array(kept, dtype=np.int64)[numbers]

    monkeypatch.setattr(span_forests, "ChartParser", Parser)
    trainer, _ = run(settings())
    assert trainer.left_out == sum(len(tree.words()) % 2 == 0 for tree in sample())
    assert np.isfinite(trainer.losses).all()
