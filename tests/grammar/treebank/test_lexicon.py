from collections import Counter

import numpy as np
import pytest
from grammar import treebanks

from spacy_structlearn.grammar.latent.em import treebank_grammar
from spacy_structlearn.grammar.treebank import estimation
from spacy_structlearn.grammar.treebank._lexicon import prefer_tags
from spacy_structlearn.grammar.treebank.data import binarize
from spacy_structlearn.grammar.treebank.estimation import UNSEEN, LexiconLearner
from spacy_structlearn.grammar.treebank.settings import LexiconSettings
from spacy_structlearn.words.signatures import english_signature


def counts_of(data):
    """Counts of (tag, word)."""
    found = Counter()
    for (tag, form), n in zip(data.pairs.tolist(), data.pair_counts.tolist(), strict=True):
        found[data.symbols.tags[tag], data.forms[form]] += n
    return found


def test_smoothed_probabilities_are_those_of_the_formulas(monkeypatch):
    monkeypatch.setattr(estimation, "FREQUENT", 40)
    data = binarize(treebanks.sample())
    rare, s0, s1 = 3, 0.5, 0.1
    settings = LexiconSettings(signature="english", min_word_count=rare + 1)
    grammar = treebank_grammar(data, settings)
    counts, tags = counts_of(data), data.symbols.tags
    c_word, c_tag = Counter(), Counter()
    for (tag, word), n in counts.items():
        c_word[word] += n
        c_tag[tag] += n
    c_unknown = dict.fromkeys(tags, 0)
    for (tag, word), n in counts.items():
        c_unknown[tag] += n if c_word[word] <= rare else 0
    p_unknown = {t: n / sum(c_unknown.values()) for t, n in c_unknown.items()}
    lexicon = grammar.lexicon
    words = [*sorted(c_word), "zzzzing"]
    scores = lexicon.scores(0, lexicon.encode(["x", *words])[1:])
    for word, row in zip(words[:-1], scores, strict=False):
        s = 1e-4 if c_word[word] > 40 else s1
        for tag, found in zip(tags, row.tolist(), strict=True):
            p = (counts.get((tag, word), 0) + s * p_unknown[tag]) / (c_word[word] + s)
            assert found == pytest.approx(p * c_word[word] / c_tag[tag], rel=1e-4)
    # From coarse to fine: each signature is smoothed with the one before.
    p = p_unknown
    for name in reversed(english_signature("zzzzing", False, lexicon.index)):
        own = Counter(
            leaf.label
            for tree in treebanks.sample()
            for i, leaf in enumerate(tree.leaves())
            if c_word[leaf.word] <= rare
            and name in english_signature(leaf.word, i == 0, lexicon.index)
        )
        p = {t: (own[t] + s0 * p[t]) / (own.total() + s0) for t in tags}
    assert scores[-1] == pytest.approx([p[t] / c_tag[t] for t in tags], rel=1e-4)


def test_rare_words_have_the_substates_of_unknown_ones(monkeypatch):
    monkeypatch.setattr(estimation, "WORD_SMOOTHING", 0.0)
    data = binarize(treebanks.sample())
    learner = LexiconLearner(LexiconSettings(min_word_count=4), data)
    substates = np.full(data.symbols.n_tags, 2, dtype=np.int32)
    rng = np.random.default_rng(0)
    share = rng.uniform(0.2, 0.8, len(data.pairs))
    counts = np.stack([share, 1 - share], axis=1) * data.pair_counts[:, None]
    level = learner.fit(counts.reshape(-1), substates)
    lexicon = learner.lexicon([substates], [level])
    words, n_of = lexicon.words, {}
    for (_, word), n in counts_of(data).items():
        n_of[word] = n_of.get(word, 0) + n
    nouns = data.symbols.tag_index["NN"]
    rows = lexicon.scores(0, np.arange(len(words), dtype=np.int32))[:, 2 * nouns : 2 * nouns + 2]
    ratio = [r[0] / r[1] for w, r in zip(words, rows, strict=True) if n_of[w] < 3 and r[0] > 0]
    assert len(ratio) > 50
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-4)


@pytest.mark.parametrize("kind", ["smoothed", "simple"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_emissions_of_training_are_scores_of_parsing(kind, smoothing):
    data = binarize(treebanks.sample())
    learner = LexiconLearner(LexiconSettings(lexicon=kind, min_word_count=3), data)
    rng = np.random.default_rng(0)
    substates = rng.integers(1, 5, data.symbols.n_tags).astype(np.int32)
    sizes = substates[data.pairs[:, 0]]
    counts = rng.uniform(0, 1, int(sizes.sum()))
    groups = np.repeat(np.arange(len(substates)), substates)
    level = learner.fit(counts, substates, groups, smoothing)
    lexicon = learner.lexicon([substates], [level])
    emissions = learner.emissions(level, substates)
    starts, columns = np.cumsum([0, *sizes]), np.cumsum([0, *substates])
    for pair, (tag, form) in enumerate(data.pairs.tolist()):
        sentence = [data.forms[form]] if data.initial[form] else ["", data.forms[form]]
        scores = lexicon.scores(0, lexicon.encode(sentence))[-1]
        np.testing.assert_allclose(
            emissions[starts[pair] : starts[pair + 1]],
            scores[columns[tag] : columns[tag + 1]],
            rtol=1e-5,
        )


def test_the_simple_lexicon_is_a_distribution_and_forbids_what_it_has_not_seen():
    data = binarize(treebanks.sample())
    settings = LexiconSettings(lexicon="simple", signature="english", min_word_count=1)
    lexicon = treebank_grammar(data, settings).lexicon
    n = len(lexicon.words)
    everything = lexicon.scores(0, np.arange(n))
    np.testing.assert_allclose(everything.sum(axis=0), 1, rtol=1e-4)
    the = lexicon.scores(0, lexicon.encode(["of", "the"]))[1]
    assert np.flatnonzero(the).tolist() == [data.symbols.tag_index["DT"]]
    unseen = lexicon.scores(0, lexicon.encode(["zzzzing"]))
    assert (unseen == np.float32(UNSEEN)).all()


def test_unknown_words_are_looked_up_by_ever_coarser_signatures():
    trees = treebanks.trees("(TOP (S (A abc) (B 12) (A xbc)))")
    lexicon = treebank_grammar(binarize(trees), LexiconSettings(signature="shape")).lexicon
    ids = lexicon.encode(["abc", "zbc", "zzc", "zzz", "", "99"])
    names = [*lexicon.words, *lexicon.signatures, None]
    assert [names[i] for i in ids] == ["abc", "lower bc", "lower c", "lower", None, "none+digit 00"]
    scores = lexicon.scores(0, ids)
    assert (scores.max(axis=1) > 0).all()
    assert lexicon.scores(0, ids[:0]).shape == (0, 2)


def test_other_spellings_of_known_words_are_found():
    trees = treebanks.trees("(TOP (S (Q ``) (A ab) (Q '') (D --) (L -LRB-)))")
    lexicon = treebank_grammar(binarize(trees)).lexicon
    names = lexicon.words
    ids = lexicon.encode(['"', "ab", '"', "—", "["])
    assert [names[i] for i in ids] == ["``", "ab", "''", "--", "("]
    plain = treebank_grammar(binarize(trees), LexiconSettings(normalization="")).lexicon
    assert plain.encode(["—"])[0] >= len(plain.words)


def test_given_tags_are_preferred():
    substates = np.array([1, 2, 1], dtype=np.int32)
    rows = np.array([[0.5, 0.2, 0.4, 0.0]] * 4, dtype=np.float32)
    shares = np.array([[0.0, 1.0, 0.0], [0.25, 0.75, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])

    def preferred(weight):
        found = rows.copy()
        prefer_tags(found, substates, shares, weight)
        return found

    np.testing.assert_array_equal(preferred(0.0), rows)
    low = np.exp(-1.0)
    wanted = [[0.5 * np.exp(-2), 0.2, 0.4, 0], [0.5 * low, 0.2, 0.4, 0], rows[2], rows[3]]
    # A word that was never seen with its tag, and one without tags, stay as they are.
    np.testing.assert_allclose(preferred(2.0), wanted, rtol=1e-6)
    wanted = [[0, 0.2, 0.4, 0], [0, 0.2, 0.4, 0], [0, 0, 0, 1], rows[3]]
    np.testing.assert_array_equal(preferred(np.inf), np.array(wanted, np.float32))
    for bad in ((substates, shares[1:]), (substates + np.int32(1), shares)):
        with pytest.raises(ValueError, match="a share for each word and tag"):
            prefer_tags(rows, *bad, 1.0)


def test_words_that_are_none():
    lexicon = treebank_grammar(binarize(treebanks.toy(), root="R")).lexicon
    for wrong in (-1, len(lexicon.words) + len(lexicon.signatures) + 1):
        with pytest.raises(ValueError, match="no such word"):
            lexicon.scores(0, np.array([wrong]))
