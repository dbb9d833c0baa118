import numpy as np
import pytest
from grammar import treebanks

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.latent.model import LatentGrammar, Level
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.treebank.storage import STORAGES, Entries
from spacy_structlearn.grammar.treebank.symbols import Symbols

FEW = {"split_iterations": 4, "merge_iterations": 2, "smooth_iterations": 2}


def learn(trees, **settings):
    return treebanks.learned(LatentGrammarSettings(**{**FEW, **settings}), trees)


@pytest.fixture(scope="module")
def grammar():
    return learn(treebanks.sample(), rounds=2, min_word_count=3)


def test_words_taken_out_are_unknown_and_the_others_as_before(grammar):
    gone = set(grammar.lexicon.words[::3])
    smaller = grammar.without_words(gone)
    assert not gone & set(smaller.lexicon.words)
    assert len(smaller.lexicon.words) == len(grammar.lexicon.words) - len(gone)
    assert LatentGrammar.from_bytes(smaller.to_bytes()) == smaller
    for level in range(2):
        for word in grammar.lexicon.words:
            known = ["padding", word]
            before, after = (g.lexicon.encode(known) for g in (grammar, smaller))
            scores = smaller.lexicon.scores(level, after)[1]
            if word in gone:
                assert after[1] >= len(smaller.lexicon.words)
            else:
                assert np.array_equal(scores, grammar.lexicon.scores(level, before)[1])
            assert scores.max() > 0


@pytest.mark.parametrize("storage", STORAGES)
def test_compact_grammars_are_close_and_small(grammar, storage):
    small = grammar.compact(1e-4, storage)
    data = small.to_bytes()
    assert len(data) <= len(grammar.to_bytes())
    assert LatentGrammar.from_bytes(data) == small
    assert small.compact(1e-4, storage) == small
    error = {"float32": 1e-7, "float16": 0.009}[storage]
    for a, b in zip(grammar.levels, small.levels, strict=True):
        kept = b.binary > 0
        np.testing.assert_allclose(a.binary[kept], b.binary[kept], rtol=error)
        assert (a.binary[~kept] < 1.1e-4).all()
    rows = grammar.lexicon.levels[-1].rows
    kept = rows > 1e-8
    np.testing.assert_allclose(small.lexicon.levels[-1].rows[kept], rows[kept], rtol=error)


@pytest.mark.parametrize("factor", [3.0, 1e20])
def test_grammars_with_weights_above_one_come_back(grammar, factor):
    last, words, factor = grammar.levels[-1], grammar.lexicon.levels[-1], np.float32(factor)
    arrays = (last.binary * factor, last.unary * factor, last.root)
    level = Level(last.rules, last.substates, last.ancestors, *arrays)
    words = [*grammar.lexicon.levels[:-1], words._replace(rows=words.rows * factor)]
    heavy = grammar.with_levels([*grammar.levels[:-1], level], words).compact(1e-6, "float16")
    again = LatentGrammar.from_bytes(heavy.to_bytes())
    assert again == heavy
    kept = last.binary > 1e-3
    found = again.levels[-1].binary[kept]
    np.testing.assert_allclose(found, last.binary[kept] * factor, rtol=0.04)


def test_parts_that_do_not_fit_together_are_refused(grammar):
    level = grammar.levels[1]
    with pytest.raises(StructlearnError, match="SL403"):
        Level(
            level.rules,
            level.substates,
            level.ancestors,
            level.binary[:-1],
            level.unary,
            level.root,
        )
    with pytest.raises(StructlearnError, match="SL403"):
        LatentGrammar(Symbols(), grammar.rules, grammar.levels, grammar.lexicon)


def test_levels_of_entries_are_levels(grammar):
    level = grammar.levels[-1]
    parts = (level.rules, level.substates, level.ancestors)
    listed = Level(*parts, Entries.of(level.binary), level.unary, level.root)
    assert listed == level
    assert level == listed
    np.testing.assert_array_equal(listed.binary, level.binary)
    assert listed.n_productions == level.n_productions
    for rule in range(len(level.rules.binary)):
        np.testing.assert_array_equal(listed.block("binary", rule), level.block("binary", rule))
    places, values = level.entries
    size = len(level.binary)
    for wrong in (
        Entries(places[::-1], values),
        Entries(places[:-1], values),
        Entries(np.append(places[:-1], size), values),
        Entries(places - places[0] - 1, values),
        Entries(places, -values),
        Entries(places, values * np.float32(np.inf)),
    ):
        with pytest.raises(StructlearnError, match="SL403"):
            Level(*parts, wrong, level.unary, level.root)
