import numpy as np
import pytest
import treebanks

from spacy_structlearn import serialization
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.em import treebank_grammar
from spacy_structlearn.grammar.estimators import PHASES, SplitMerge
from spacy_structlearn.grammar.lexicon import LexiconSettings
from spacy_structlearn.grammar.model import LatentGrammar
from spacy_structlearn.grammar.symbols import binarize
from spacy_structlearn.trees.brackets import load_trees
from spacy_structlearn.trees.normalize import normalize

FEW = {"split_iterations": 5, "merge_iterations": 3, "smooth_iterations": 2}
SIMPLE = LexiconSettings(kind="simple", rare=1)


def finish(trainer):
    steps = 1
    while trainer.step():
        steps += 1
    return steps


def learn(trees, **settings):
    trainer = SplitMerge(**{**FEW, **settings}).trainer(None, [trees])
    finish(trainer)
    return trainer


def test_a_step_is_a_round_and_every_round_a_level():
    trainer = SplitMerge(rounds=2, **FEW).trainer(None, [treebanks.sample()])
    values = []
    for rounds, more in ((0, True), (1, True), (2, False)):
        assert trainer.step() is more
        assert trainer.n_iterations == rounds
        assert len(trainer.parameters().levels) == rounds + 1
        values.append(trainer.value)
    assert values == sorted(values, reverse=True)
    assert not trainer.step()
    assert trainer.n_iterations == 2


def test_no_word_is_rare():
    """Then unknown words are judged by all words."""
    settings = LexiconSettings(rare=0)
    trainer = learn(treebanks.sample(), rounds=1, lexicon=settings)
    assert np.isfinite(trainer.value)
    assert len(trainer.parameters().levels) == 2


def test_initialize_gives_the_treebank_grammar():
    trees = treebanks.sample()
    grammar = SplitMerge().initialize([trees], ("NP",), LatentGrammar.empty())
    assert grammar == treebank_grammar(binarize(trees))


def test_data_may_be_trees_or_lists_or_encoded():
    trees = treebanks.sample()
    estimator = SplitMerge()
    wanted = estimator.initialize([trees]).to_bytes()
    assert estimator.initialize(trees).to_bytes() == wanted
    assert estimator.initialize([binarize(trees)]).to_bytes() == wanted
    assert estimator.initialize([binarize(trees[:9]), trees[9:]]).to_bytes() == wanted


@pytest.mark.parametrize("threads", [1, 3])
def test_the_same_seed_gives_the_same_bytes(threads):
    trees = treebanks.sample()
    first = learn(trees, rounds=2, seed=3).parameters().to_bytes()
    assert learn(trees, rounds=2, seed=3, threads=threads).parameters().to_bytes() == first


def learn_in_shards(shards, threads, **settings):
    settings = SplitMerge(threads=threads, **{**FEW, **settings})
    trainer = settings.trainer(None, treebanks.sample(), shards=shards)
    finish(trainer)
    return trainer


def test_the_grammar_depends_on_the_shards_not_on_the_threads():
    one, two = (learn_in_shards(3, threads, rounds=2) for threads in (1, 2))
    assert one.to_bytes() == two.to_bytes()
    assert one.parameters().to_bytes() == two.parameters().to_bytes()


def test_shards_change_nothing_but_rounding():
    # Which of two splits of nearly equal loss is taken back, rounding may tell.
    whole, cut = (learn_in_shards(n, 1, rounds=2, merge_fraction=0.0) for n in (1, 3))
    assert cut.value == pytest.approx(whole.value, rel=1e-5)
    for a, b in zip(whole.parameters().levels, cut.parameters().levels, strict=True):
        np.testing.assert_array_equal(a.substates, b.substates)


def test_another_seed_gives_another_grammar():
    trees = treebanks.sample()
    assert (
        learn(trees, rounds=1, seed=0).parameters() != learn(trees, rounds=1, seed=1).parameters()
    )


def test_em_does_not_fall_within_a_phase():
    calls = []
    trainer = SplitMerge(rounds=2, lexicon=SIMPLE, split_iterations=12, merge_iterations=6).trainer(
        None, [treebanks.sample()]
    )
    trainer.on_iteration = lambda *call: calls.append(call)
    finish(trainer)
    for number in (1, 2):
        for phase, n in zip(PHASES, (12, 6, 10), strict=True):
            chosen = [call for call in calls if call[:2] == (number, phase)]
            assert [call[2] for call in chosen] == list(range(n))
            if phase != "smooth":
                values = np.array([call[3] for call in chosen])
                assert (np.diff(values) > -1e-6 * abs(values[0])).all()


def test_without_merging_subcategories_double():
    trees = treebanks.sample() * 3
    grammar = learn(trees, rounds=3, merge_fraction=0.0).parameters()
    often = binarize(trees).occurrences >= 8
    for k, level in enumerate(grammar.levels):
        assert (level.substates[often] == 2**k).all()


def test_merging_takes_back_its_share_of_the_splits():
    grammar = learn(treebanks.sample(), rounds=1, merge_fraction=0.5).parameters()
    can_be_split = (binarize(treebanks.sample()).occurrences >= 2).sum()
    assert (grammar.levels[1].substates == 2).sum() == can_be_split - int(can_be_split / 2 + 0.5)
    grammar = learn(treebanks.sample(), rounds=1, merge_fraction=1.0).parameters()
    assert (grammar.levels[1].substates == 1).all()


def test_without_smoothing_there_is_no_such_phase():
    calls = []
    trainer = SplitMerge(rounds=1, rule_smoothing=0, lexicon_smoothing=0, **FEW).trainer(
        None, [treebanks.sample()]
    )
    trainer.on_iteration = lambda *call: calls.append(call[1])
    finish(trainer)
    assert calls == ["split"] * 5 + ["merge"] * 3


def test_a_tolerance_ends_a_phase_early():
    calls = []
    trainer = SplitMerge(rounds=1, tolerance=0.5).trainer(None, [treebanks.sample()])
    trainer.on_iteration = lambda *call: calls.append(call)
    finish(trainer)
    assert len(calls) == 6


def test_a_state_knows_that_its_phase_is_over():
    trees, states = treebanks.sample(), []
    settings = {"rounds": 1, "tolerance": 2e-3}
    whole = SplitMerge(**settings).trainer(None, [trees])
    whole.on_iteration = lambda *call: states.append(whole.to_bytes())
    finish(whole)
    assert len(states) < 80
    for state in states[::5]:
        again = SplitMerge(**settings).trainer(None, [trees])
        assert again.resume(state)
        finish(again)
        assert again.parameters() == whole.parameters()


def test_ancestors_are_the_tree_of_splits():
    grammar = learn(treebanks.sample(), rounds=3).parameters()
    for before, after in zip(grammar.levels[:-1], grammar.levels[1:], strict=True):
        for symbol, n in enumerate(before.substates):
            found = after.ancestors[slice(*after.offsets[symbol : symbol + 2])]
            assert (np.diff(found) >= 0).all()
            assert set(found.tolist()) == set(range(n))
            assert np.bincount(found).max() <= 2


@pytest.mark.parametrize(
    "stop", [(1, "split", 2), (1, "split", 4), (2, "merge", 0), (2, "smooth", 1)]
)
def test_training_goes_on_bit_for_bit_within_a_round(stop):
    trees, settings = treebanks.sample(), {"rounds": 2, **FEW}
    whole, states = SplitMerge(**settings).trainer(None, [trees]), {}

    def keep(number, phase, iteration, value):
        states[number, phase, iteration] = whole.to_bytes()

    whole.on_iteration = keep
    finish(whole)
    again = SplitMerge(**settings, threads=2).trainer(None, [trees])
    assert again.resume(states[stop])
    finish(again)
    assert again.parameters().to_bytes() == whole.parameters().to_bytes()
    assert again.value == whole.value


def test_training_goes_on_between_rounds():
    trees = treebanks.sample()
    first = SplitMerge(rounds=1, **FEW).trainer(None, [trees])
    finish(first)
    more = SplitMerge(rounds=2, **FEW).trainer(None, [trees])
    assert more.resume(first.to_bytes())
    assert more.n_iterations == 1
    finish(more)
    assert more.parameters() == learn(trees, rounds=2).parameters()


def test_a_state_of_other_data_or_settings_is_not_taken_up():
    trees = treebanks.sample()
    state = learn(trees, rounds=1).to_bytes()
    assert not SplitMerge(**FEW).trainer(None, [trees[1:]]).resume(state)
    assert not SplitMerge(**FEW, seed=1).trainer(None, [trees]).resume(state)
    assert not SplitMerge(**FEW, lexicon=SIMPLE).trainer(None, [trees]).resume(state)
    assert SplitMerge(**FEW).trainer(None, [trees]).resume(state)


def test_damaged_states_are_refused():
    trainer = learn(treebanks.sample(), rounds=1)
    state = trainer.to_bytes()
    with pytest.raises(StructlearnError, match="SL051"):
        trainer.resume(state[:-1])
    _, fields = serialization.unpack(state, "split_merge_state", {1})
    fields["levels"][0]["substates"] = fields["levels"][0]["substates"][:-1]
    with pytest.raises(StructlearnError, match="SL054"):
        trainer.resume(serialization.pack("split_merge_state", 1, fields))


def test_more_trees_begin_again_with_all():
    trees = treebanks.sample()
    trainer = SplitMerge(rounds=1, **FEW).trainer(None, [trees[:50]])
    trainer.step()
    trainer.add([trees[50:]])
    assert trainer.n_iterations == 0
    finish(trainer)
    assert trainer.parameters() == learn(trees, rounds=1).parameters()


@pytest.mark.parametrize("binarization", ["right", "left"])
@pytest.mark.parametrize("kind", ["smoothed", "simple"])
def test_a_treebank_of_another_language(binarization, kind):
    settings = {"binarization": binarization, "root": "R", "rounds": 2}
    lexicon = LexiconSettings(kind=kind, rare=1)
    grammar = learn(treebanks.toy(), **settings, lexicon=lexicon).parameters()
    assert grammar.symbols.root == "R"
    assert grammar.binarization == binarization
    assert LatentGrammar.from_bytes(grammar.to_bytes()) == grammar
    ids = grammar.lexicon.encode(["hebi", "ga", "kita"])
    assert (grammar.lexicon.scores(2, ids).max(axis=1) > 0).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rounds", -1),
        ("rounds", 99),
        ("merge_fraction", 1.5),
        ("rule_smoothing", -0.1),
        ("lexicon_smoothing", 2.0),
        ("split_iterations", -1),
        ("tolerance", -1.0),
        ("binarization", "up"),
        ("threads", 0),
        ("seed", -1),
    ],
)
def test_settings_out_of_range(name, value):
    with pytest.raises(StructlearnError, match=f"SL406.*{name}"):
        SplitMerge(**{name: value})


def test_without_trees_there_is_nothing_to_learn():
    with pytest.raises(StructlearnError, match="SL407"):
        SplitMerge().trainer(None, [])


@pytest.mark.corpus
def test_one_round_on_the_wsj_sample(corpora):
    trees = [normalize(tree) for tree in load_trees(corpora / "wsj_sample" / "trees.mrg.gz")]
    trainer = SplitMerge(rounds=1, threads=2).trainer(None, [trees[:3396]])
    trainer.step()
    before = trainer.value
    trainer.step()
    assert before == pytest.approx(593000, rel=0.01)
    assert trainer.value < 0.94 * before
