"""Conditional training, level after level: what it reaches, and that it can be taken up again."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import treebanks
from numpy_forest import SETTINGS, learned

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.discriminative import training as hierarchical
from spacy_structlearn.grammar.discriminative.forests import Forests
from spacy_structlearn.grammar.discriminative.objective import Parameterization
from spacy_structlearn.grammar.discriminative.settings import (
    BASES,
    LEVEL_STARTS,
    PRUNINGS,
    SOLVERS,
    ConditionalGrammarSettings,
)
from spacy_structlearn.grammar.discriminative.training import Objectives, copied

BRIEF = SETTINGS["simple"].part(
    ConditionalGrammarSettings,
    rounds=2,
    split_iterations=4,
    merge_iterations=2,
    smooth_iterations=2,
    root="R",
    l1=0.0,
    l2=0.2,
    conditional_iterations=4,
    threshold=1e-4,
    shards=2,
)


@cache
def data():
    return BRIEF.encode([treebanks.toy()])


def run(settings, state=None, stop=None):
    """A trainer that has done all, or all before the callback numbered `stop`; and the calls."""
    trainer = settings.trainer(None, [data()])
    calls, states = [], []

    def callback(*call):
        calls.append(call)
        if len(calls) == stop:
            states.append(trainer.to_bytes())
            raise KeyboardInterrupt

    trainer.on_iteration = callback
    if state is not None:
        assert trainer.resume(state)
    try:
        while trainer.step():
            pass
    except KeyboardInterrupt:
        trainer.close()
        return states[0], calls
    return trainer, calls


@cache
def done():
    return run(BRIEF)


def arrays_of(forests):
    return {name: np.array(array) for name, array in forests._arrays.items()}


def same_forests(mine, its):
    found = ([shard.forests for shard in of.engine.shards] for of in (mine, its))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one.trees, other.trees)
        assert one.n_made == other.n_made
        for name, array in arrays_of(one).items():
            if name == "item_terminal":
                keys, others = (f._keys for f in (one, other))
                is_tag = array >= 0
                its_places = other._arrays[name]
                np.testing.assert_array_equal(is_tag, its_places >= 0)
                np.testing.assert_array_equal(keys[array[is_tag]], others[its_places[is_tag]])
            else:
                np.testing.assert_array_equal(array, other._arrays[name], err_msg=name)
                assert array.dtype == other._arrays[name].dtype


def values_of(calls, level):
    """Minus the objective after each iteration of a level."""
    wanted = (level, "conditional")
    return [value for number, phase, _, value in calls if (number, phase) == wanted]


# --- training -------------------------------------------------------------------------------------
def test_each_level_is_trained():
    trainer, calls = done()
    assert [record.level for record in trainer.records] == [0, 1, 2]
    steps = 3 + 3
    assert trainer.n_iterations == steps
    assert len(calls) + steps - 1 <= BRIEF.n_reports
    for record in trainer.records:
        values = values_of(calls, record.level)
        assert values == sorted(values)
        assert (
            record.iterations
            == len(values)
            <= BRIEF.conditional_iterations
            < record.evaluations + 1
        )
        assert record.value == -values[-1]
        assert record.nonzero <= record.parameters
        assert -record.value <= record.log_likelihood < 0
        assert record.left_out == 0
        assert record.forests.sentences == data().n_trees
    likelihoods = [record.log_likelihood for record in trainer.records]
    assert likelihoods == sorted(likelihoods)
    whole = trainer.parameters()
    assert whole == type(whole).from_bytes(whole.to_bytes())


def test_levels_before_the_first_stay_generative():
    trainer, _ = run(replace(BRIEF, first_level=1))
    generative = trainer.generative_grammar()
    found = trainer.parameters()
    assert found.levels[0] == generative.levels[0]
    assert found.levels[1] != generative.levels[1]
    assert [record.level for record in trainer.records] == [1, 2]


@pytest.mark.parametrize("start", LEVEL_STARTS)
@pytest.mark.parametrize("base", BASES)
def test_bases_and_starts(base, start):
    trainer, calls = run(replace(BRIEF, base=base, start=start, l1=0.05, l2=0.0))
    for record in trainer.records:
        values = values_of(calls, record.level)
        assert values == sorted(values)
        assert values[-1] > values[0]
    if base == "generative":
        assert 0 < record.nonzero < record.parameters


# --- steps along the gradients of batches ---------------------------------------------------------
BATCHES = replace(BRIEF, solver="adagrad", batch_size=5)


@pytest.mark.parametrize("more", [{}, {"l1": 0.05, "l2": 0.0}], ids=str)
def test_adagrad_trains_each_level(more):
    trainer, calls = run(replace(BATCHES, **more))
    batches = -(-data().n_trees // BATCHES.batch_size)
    reached = run(replace(BRIEF, **more))[0].records
    for record, its in zip(trainer.records, reached, strict=True):
        values = values_of(calls, record.level)
        assert len(values) == record.iterations == BATCHES.conditional_iterations
        assert record.evaluations == batches * record.iterations
        assert values[-1] > values[0]
        assert record.forests.sentences == data().n_trees
        assert record.parameters == its.parameters
        assert -record.value <= record.log_likelihood < 0
        # Of the same objective.
        assert record.value < 3 * its.value


def test_adagrad_reaches_the_optimum():
    """Of the coarsest level, which is convex."""
    settings = replace(BRIEF, rounds=0, conditional_iterations=200, conditional_tolerance=1e-8)
    values = [
        run(replace(settings, solver=solver, batch_size=10))[0].records[0].value
        for solver in SOLVERS
    ]
    assert values[1] == pytest.approx(values[0], rel=0.01)


def test_steps_that_are_too_long():
    with pytest.raises(StructlearnError, match="SL436"):
        run(replace(BATCHES, learn_rate=1e6))


def test_parameters_copied_are_those_of_what_is_refined():
    _, grammar = learned("toy", "simple")
    before, after = (
        Parameterization(grammar.levels[n], grammar.lexicon.levels[n], grammar.lexicon, "uniform")
        for n in (1, 2)
    )
    theta = np.random.default_rng(0).normal(size=before.n_parameters)
    found = copied(before, after, theta, 1)
    np.testing.assert_array_equal(found, copied(before, after, theta, 1))
    assert np.abs(found - copied(before, after, theta, 2)).max() > 0
    coarse, fine = grammar.levels[1:]
    old, new = before.refined(theta)[0], after.refined(found)[0]
    for rule, symbols in enumerate(grammar.rules.binary.tolist()):
        ancestors = [fine.ancestors[slice(*fine.offsets[s : s + 2])] for s in symbols]
        wanted = old.binary_block(rule)[np.ix_(*ancestors)]
        np.testing.assert_allclose(new.binary_block(rule), wanted, rtol=0.02)
    assert coarse.size < fine.size


def test_a_folder_changes_no_bit(tmp_path):
    trainer, calls = run(replace(BRIEF, folder=tmp_path / "a" / "b"))
    assert trainer.parameters().to_bytes() == done()[0].parameters().to_bytes()
    assert calls == done()[1]
    assert not list(tmp_path.rglob("*.npy"))


def test_shards_change_rounding_errors():
    trainer, _ = run(replace(BRIEF, shards=20))
    for mine, its in zip(trainer.records, done()[0].records, strict=True):
        assert mine.value == pytest.approx(its.value, rel=1e-3)


def test_no_pruning_is_the_same_kept_or_rebuilt():
    settings = replace(BRIEF, rounds=1)
    cached, none, cascade = (
        run(replace(settings, pruning=pruning, threshold=threshold))[0].records
        for pruning, threshold in (("cached", 0.0), ("none", 1e-4), ("coarse_to_fine", 0.0))
    )
    for records in zip(cached, none, cascade, strict=True):
        assert len({(r.level, r.parameters, r.left_out) for r in records}) == 1
        for record in records[1:]:
            assert record.value == pytest.approx(records[0].value, rel=1e-4)


def test_the_cascade_is_the_same_kept_or_rebuilt():
    kept, anew = (run(replace(BRIEF, pruning=pruning))[0].records for pruning in PRUNINGS[:2])
    for mine, its in zip(kept, anew, strict=True):
        assert mine.value == pytest.approx(its.value, rel=1e-4)
        # Both count at the last level what is left before it is pruned for a finer one.
        assert its.forests.items >= mine.forests.items


def test_more_trees_begin_anew():
    trainer = BRIEF.trainer(None, [data()])
    trainer.step()
    trainer.add([treebanks.toy()])
    assert trainer.n_iterations == 0
    assert trainer.parameters() == BRIEF.initialize([data(), treebanks.toy()])


# --- forests --------------------------------------------------------------------------------------
@pytest.mark.parametrize("threshold", [0.0, 1e-4, 1e-2])
@pytest.mark.parametrize("kind", SETTINGS)
def test_forests_made_few_at_a_time_are_those_of_all(monkeypatch, kind, threshold):
    data, grammar = learned("toy", kind)
    settings = ConditionalGrammarSettings(rounds=2, threshold=threshold, shards=2)
    rng = np.random.default_rng(0)
    whole = Objectives(settings, data, grammar)
    n = whole.parameterization(1, settings.base).n_parameters
    trained = {1: rng.normal(scale=0.3, size=n)}
    wanted = whole.objective(2, trained)
    monkeypatch.setattr(hierarchical, "AT_ONCE", 3)
    parts = Objectives(settings, data, grammar, 2, trained)
    found = parts.objective(2, trained)
    same_forests(parts, whole)
    assert parts.statistics == whole.statistics
    some, those = (
        set(zip(*map(np.ndarray.tolist, x.terminals), strict=True)) for x in (parts, whole)
    )
    assert some <= those
    theta = rng.normal(scale=0.3, size=wanted.parameterization.n_parameters)
    (value, gradient), (other, its) = (x.value_and_grad(theta) for x in (wanted, found))
    assert other == value
    np.testing.assert_array_equal(its, gradient)
    with pytest.raises(ValueError, match="forests of level 2"):
        parts.objective(1, trained)
    parts.close()
    whole.close()


def test_fewer_trees_than_shards():
    data, grammar = learned("toy")
    settings = ConditionalGrammarSettings(rounds=2, shards=20)
    objectives = Objectives(settings, data, grammar, 1)
    assert 0 in [shard.forests.n_sentences for shard in objectives.engine.shards]
    assert objectives.statistics.sentences == data.n_trees
    assert not objectives.left_out
    objectives.close()
    objectives.close()


def test_two_trainings_in_one_folder(tmp_path):
    data, grammar = learned("toy")
    settings = ConditionalGrammarSettings(rounds=2, shards=2, folder=tmp_path)
    one = Objectives(settings, data, grammar)
    other = Objectives(replace(settings, threshold=0.9), data, grammar)
    memory = Objectives(replace(settings, folder=None), data, grammar)
    assert len(list(tmp_path.iterdir())) == 2
    theta = np.zeros(one.parameterization(1, settings.base).n_parameters)
    (mine, _), (wanted, _), (its, _) = (
        x.objective(1, {}).value_and_grad(theta) for x in (one, memory, other)
    )
    assert mine == wanted != its
    same_forests(one, memory)
    one.close()
    assert len(list(tmp_path.iterdir())) == 1
    assert other.objective(1, {}).value_and_grad(theta)[0] == its
    del other
    assert not list(tmp_path.iterdir())


def test_an_error_leaves_no_files(tmp_path, monkeypatch):
    data, grammar = learned("toy")

    def broken(*_):
        raise MemoryError

    monkeypatch.setattr(Forests, "number_terminals", broken)
    settings = ConditionalGrammarSettings(rounds=2, folder=tmp_path)
    with pytest.raises(MemoryError):
        Objectives(settings, data, grammar)
    assert not list(tmp_path.iterdir())


# --- sentences that float32 loses -----------------------------------------------------------------
def lose(monkeypatch, *lost):
    """Let float32 lose some trees, by number, from their first evaluation on."""
    original = Forests.add_counts

    def add_counts(self, weights, sums):
        broken = np.flatnonzero(np.isin(self.trees, lost) & (self._left_out == 0))
        masks = self._arrays["item_mask"]
        for s in broken.tolist():
            cells = self._arrays["sentence_cell"][s : s + 2]
            masks[slice(*self._arrays["cell_item"][cells])] = 0
        return original(self, weights, sums)

    monkeypatch.setattr(Forests, "add_counts", add_counts)


def test_lost_sentences_stay_lost_when_training_goes_on(monkeypatch):
    lose(monkeypatch, 1, 4)
    whole, calls = run(BRIEF)
    assert [record.left_out for record in whole.records] == [2, 2, 2]
    assert calls != done()[1]
    assert whole._lost.tolist() == [1, 4]
    for stop in (len(calls) - 6, len(calls) - 1):
        state, before = run(BRIEF, stop=stop)
        # What is lost is known, and nothing else may be.
        monkeypatch.undo()
        trainer, after = run(BRIEF, state)
        lose(monkeypatch, 1, 4)
        assert [*before, *after] == calls
        assert trainer.parameters().to_bytes() == whole.parameters().to_bytes()
        assert [record.left_out for record in trainer.records] == [2, 2, 2]


def test_a_sentence_that_is_lost_later_is_an_overflow():
    data, grammar = learned("toy")
    settings = ConditionalGrammarSettings(rounds=2, shards=2, l2=0.0)
    objectives = Objectives(settings, data, grammar, 1)
    objective = objectives.objective(1, {}, may_lose=False)
    theta = np.zeros(objective.parameterization.n_parameters)
    assert objective.value_and_grad(theta - 200)[0] == np.inf
    assert np.isfinite(objective.value_and_grad(theta)[0])
    assert not objectives.left_out
    objectives.close()
