"""Learning on: old counts as prior counts."""

from dataclasses import replace

import numpy as np
import pytest
from grammar.treebanks import finish, learned, sample, trees

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.discriminative.settings import ConditionalGrammarSettings
from spacy_structlearn.grammar.latent.adaptation import uses
from spacy_structlearn.grammar.latent.em import treebank_grammar
from spacy_structlearn.grammar.latent.model import product
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.treebank.data import binarize
from spacy_structlearn.pipeline.architectures import estimator as learner
from spacy_structlearn.trees.tree import Tree

SETTINGS = LatentGrammarSettings(
    rounds=2, split_iterations=4, merge_iterations=2, smooth_iterations=1
)
KNOWN, NEW = sample()[:70], sample()[70:]
# Words, tags, phrases, unary chains and rules that the sample has not.
STRANGE = trees(
    "(TOP (FOO (NP (DT the) (GRU zorp)) (QUX (BAR (VP (VBZ blips))) (. !))))",
    "(TOP (FOO (NP (DT a) (GRU zorp)) (QUX (BAR (VP (VBD blipped))) (. .))))",
    "(TOP (FOO (NP (GRU Zorp)) (QUX (QUX (BAR (VP (VBZ blips)))) (NP (NN flood)) (. .))))",
)


@pytest.fixture(scope="module")
def old():
    return learned(SETTINGS, KNOWN)


def adapter(old, data, strength, settings=SETTINGS):
    return learner(settings).adapter(old, [data], (), strength=strength)


def adapted(*arguments, **more):
    return finish(adapter(*arguments, **more))[0].parameters()


def test_uses_in_a_treebank_grammar_are_those_in_the_treebank():
    # Chi & Geman (1998): so it is for relative frequencies.
    data = binarize(KNOWN)
    level = treebank_grammar(data).levels[0]
    assert uses(level) == pytest.approx(data.occurrences / data.n_trees, rel=1e-4)


@pytest.mark.parametrize("lexicon", ["simple", "smoothed"])
def test_a_treebank_grammar_that_learns_on_is_that_of_all_trees(lexicon):
    settings = LatentGrammarSettings(rounds=0, lexicon=lexicon, word_backoff="signature")
    if lexicon == "simple":
        new, settings = NEW, replace(settings, min_word_count=1)
    else:
        # All words are new, since the counts of known words do not change those of signatures.
        new = [
            tree.fold(
                lambda leaf: Tree.leaf(leaf.label, f"{leaf.word}zq"),
                lambda node, children: Tree(node.label, children),
            )
            for tree in NEW
        ]
    both = learned(settings, [*KNOWN, *new])
    found = adapted(learned(settings, KNOWN), new, len(KNOWN), settings)
    assert (found.symbols, found.rules) == (both.symbols, both.rules)
    for name in ("binary", "unary", "root"):
        wanted = getattr(both.levels[0], name)
        assert getattr(found.levels[0], name) == pytest.approx(wanted, rel=1e-3)
    words = sorted({word for tree in (*KNOWN, *new) for word in tree.words()})
    found, both = (
        g.lexicon.scores(0, g.lexicon.encode([*words, "floodzq", "Unheard"])) for g in (found, both)
    )
    assert np.allclose(found, both, rtol=1e-3, atol=1e-7)


def test_probabilities_sum_to_one(old):
    for data in (NEW, STRANGE):
        found = adapted(old, data, 50)
        assert len(found.levels) == len(old.levels)
        for level in found.levels:
            total = level.sums()
            assert total[total > 0] == pytest.approx(1, abs=1e-4)
            assert level.root.sum() == pytest.approx(1, abs=1e-4)


def probabilities(level):
    refined, emissions = level.refined()
    parts = refined.binary, refined.unary, refined.root, emissions
    return np.concatenate(parts).astype(np.float64)


def log_prior(level, before):
    """The log density of the prior, relative to that of the probabilities before."""
    parents = level.layout.parents(np.arange(len(before)))
    counts = np.zeros(len(before))
    counts[level.counts.places] = level.counts.values
    pseudo = level.weight[parents] * before
    rest = level.weight - np.bincount(parents, pseudo, len(level.weight))
    total = level.weight + np.bincount(parents, counts, len(level.weight))
    return pseudo @ np.log(probabilities(level) / before) + rest @ np.log(level.weight / total)


@pytest.mark.parametrize("strength", [1, 50])
def test_every_step_raises_the_posterior(old, strength):
    trainer = adapter(old, NEW, strength)
    before = [probabilities(level) for level in trainer._levels]
    found = []
    for _ in range(6):
        prior = sum(map(log_prior, trainer._levels, before))
        trainer.iterate()  # its value is that of the probabilities until here
        found.append(prior - trainer.value)
    assert (np.diff(found) > 0).all()
    assert found[2] - found[1] < 0.2 * (found[1] - found[0])


def test_new_words_labels_and_rules_are_parsed(old):
    found = adapted(old, STRANGE, 5)
    assert {"GRU"} <= set(found.symbols.tags)
    assert {"FOO", "QUX", "BAR"} <= set(found.symbols.phrases)
    parser = ChartParser(found)
    for tree, parse in zip(STRANGE, parser.parse([t.words() for t in STRANGE]), strict=True):
        assert parse.tree(tree.words()) == tree
        assert not parse.failed
    # A word that is unknown still, and an old sentence.
    assert not parser.parse([["the", "unheard", "blips", "."]])[0].failed
    words = [tree.words() for tree in KNOWN]
    same = [
        one.spans == other.spans
        for one, other in zip(parser.parse(words), ChartParser(old).parse(words), strict=True)
    ]
    assert np.mean(same) > 0.6


def test_the_grammars_of_a_product_learn_on_by_themselves(old):
    other = learned(replace(SETTINGS, seed=1), KNOWN)
    found = adapted(product([old, other]), STRANGE, 10)
    assert found == product([adapted(old, STRANGE, 10), adapted(other, STRANGE, 10)])


# --- a file of a grammar as the prior of training -------------------------------------------------
@pytest.fixture(scope="module")
def prior(old, tmp_path_factory):
    """A file of a product of two grammars, and the grammars."""
    grammars = [old, learned(replace(SETTINGS, seed=1), KNOWN)]
    path = tmp_path_factory.mktemp("prior") / "grammar.bin"
    path.write_bytes(product(grammars).to_bytes())
    return path, grammars


@pytest.mark.parametrize("number", [1, 2])
def test_training_starts_from_a_prior(prior, number):
    path, grammars = prior
    settings = replace(SETTINGS, prior=path, prior_trees=30.0, grammars=number)
    assert learned(settings, NEW) == product([adapted(one, NEW, 30) for one in grammars[:number]])


def test_priors_that_cannot_be_read(prior, tmp_path):
    with pytest.raises(StructlearnError, match=r"SL043.*prior is"):
        learned(replace(SETTINGS, prior=tmp_path / "missing.bin"), NEW)
    with pytest.raises(StructlearnError, match=r"SL409.*has 2 grammars"):
        learned(replace(SETTINGS, prior=prior[0], grammars=3), NEW)
    damaged = tmp_path / "damaged.bin"
    damaged.write_bytes(prior[0].read_bytes()[:-9])
    with pytest.raises(StructlearnError):
        learned(replace(SETTINGS, prior=damaged), NEW)
    with pytest.raises(StructlearnError, match="SL408"):
        learned(ConditionalGrammarSettings(prior=prior[0]), NEW)
