"""Products of grammars: one model of several trainings."""

from dataclasses import replace

import pytest
from treebanks import sample, toy

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.decode import ChartParser
from spacy_structlearn.grammar.estimators import SplitMerge
from spacy_structlearn.grammar.model import LatentGrammar, product
from spacy_structlearn.grammar.product import Product

SHORT = SplitMerge(rounds=2, seed=3, split_iterations=4, merge_iterations=2, smooth_iterations=2)


def trained(settings, trees):
    trainer = settings.trainer(None, [trees])
    while trainer.step():
        pass
    return trainer.parameters()


@pytest.fixture(scope="module")
def singles():
    return [trained(replace(SHORT, seed=seed), sample()) for seed in (3, 4, 5)]


@pytest.fixture(scope="module")
def together():
    return trained(Product(SHORT, 3), sample())


def test_it_is_the_product_of_the_single_ones(singles, together):
    assert together == product(singles)
    assert together.members == 2
    assert together.depth == singles[0].depth == 2
    assert len(together.levels) == 5
    assert together.truncated(3) == singles[0]


def test_it_parses_like_the_single_ones_together(singles, together):
    sentences = [tree.words() for tree in sample()[:20]]
    expected = ChartParser(singles).parse(sentences)
    found = ChartParser(together).parse(sentences)
    for parse, wanted in zip(found, expected, strict=True):
        assert parse.spans == wanted.spans
        assert parse.tags == wanted.tags
        assert parse.probabilities == pytest.approx(wanted.probabilities, abs=1e-5)


def test_bytes(together):
    assert LatentGrammar.from_bytes(together.to_bytes()) == together
    compact = together.compact(1e-5, "float16")
    assert LatentGrammar.from_bytes(compact.to_bytes()) == compact
    assert compact.members == 2


def test_a_product_of_one_is_the_grammar(singles):
    assert trained(Product(SHORT, 1), sample()) == singles[0]
    assert product(singles[:1]) == singles[0]


def test_rounds_are_counted_over_all():
    trainer = Product(SHORT, 2).trainer(None, [toy()])
    seen = []
    trainer.on_iteration = lambda *args: seen.append(args)
    steps = 1
    while trainer.step():
        steps += 1
    assert steps == 2 * (1 + SHORT.rounds)
    assert trainer.n_iterations == 2 * SHORT.rounds
    assert len(seen) + steps - 1 == Product(SHORT, 2).max_iterations
    assert trainer.value > 0
    assert not trainer.step()


@pytest.mark.parametrize("steps", [0, 2, 3, 5, 6])
def test_resume(steps):
    settings = Product(SHORT, 2)
    whole = trained(settings, toy())
    trainer = settings.trainer(None, [toy()])
    for _ in range(steps):
        trainer.step()
    again = settings.trainer(None, [toy()])
    assert again.resume(trainer.to_bytes())
    assert again.n_iterations == trainer.n_iterations
    assert again.to_bytes() == trainer.to_bytes()
    assert not settings.trainer(None, [toy()[1:]]).resume(trainer.to_bytes())
    while again.step():
        pass
    assert again.parameters() == whole


def test_resume_within_a_round():
    settings = Product(SHORT, 2)
    states = []
    trainer = settings.trainer(None, [toy()])
    trainer.on_iteration = lambda *args: states.append(trainer.to_bytes())
    while trainer.step():
        pass
    again = settings.trainer(None, [toy()])
    assert again.resume(states[-3])
    while again.step():
        pass
    assert again.parameters() == trainer.parameters()


def test_no_resume_with_other_settings_or_data():
    state = Product(SHORT, 2).trainer(None, [toy()]).to_bytes()
    assert not Product(replace(SHORT, seed=9), 2).trainer(None, [toy()]).resume(state)
    assert not Product(SHORT, 2).trainer(None, [toy()[1:]]).resume(state)
    with pytest.raises(StructlearnError, match="SL05"):
        Product(SHORT, 2).trainer(None, [toy()]).resume(b"nothing")


def test_damaged_states(refuses_damage):
    trainer = Product(SHORT, 2).trainer(None, [toy()])
    for _ in range(SHORT.rounds + 3):
        trainer.step()
    refuses_damage(lambda: Product(SHORT, 2).trainer(None, [toy()]), trainer.to_bytes())


def test_data_may_be_added(singles):
    trainer = Product(SHORT, 2).trainer(None, [toy()[:3]])
    trainer.step()
    trainer.add([toy()[3:]])
    while trainer.step():
        pass
    assert trainer.parameters() == trained(Product(SHORT, 2), toy())


def test_no_grammars():
    with pytest.raises(StructlearnError, match="SL406"):
        Product(SHORT, 0)


def test_grammars_of_other_trees(singles):
    with pytest.raises(StructlearnError, match="SL422"):
        product([singles[0], trained(SHORT, toy())])
