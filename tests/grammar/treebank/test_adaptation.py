"""New words in a trained lexicon."""

import numpy as np
import pytest
from grammar import treebanks

from spacy_structlearn.grammar.latent.em import treebank_grammar
from spacy_structlearn.grammar.treebank import estimation
from spacy_structlearn.grammar.treebank.adaptation import LexiconAdapter
from spacy_structlearn.grammar.treebank.data import binarize
from spacy_structlearn.grammar.treebank.settings import LexiconSettings

OLD = treebanks.trees(
    "(R (P (N tora) (A ni) (V mita) (. 。)))",
    "(R (P (N inu) (A ga) (V naita) (. 。)))",
    "(R (P (N neko) (V nemuru) (. 。)))",
)
NEW = treebanks.trees(
    "(R (P (N kamera) (A ni) (V tsuita) (. 。)))", "(R (P (N kamera) (N naita) (V mita) (. 。)))"
)


def adapted(settings, share=1.0):
    """The lexicon, of one level, of both, and the tags; counts are those of the trees."""
    before, data = treebank_grammar(binarize(OLD, root="R"), settings), binarize(NEW, root="R")
    assert before.symbols.tags == data.symbols.tags
    n_tags = before.symbols.n_tags
    old_counts = share * before_counts(n_tags)
    new_counts = np.bincount(data.pairs[:, 0], data.pair_counts, n_tags)
    total = old_counts + new_counts
    added = data.pair_counts / total[data.pairs[:, 0]]
    adapter = LexiconAdapter(settings, before.lexicon, data, share)
    return before.lexicon, adapter.lexicon([(old_counts / total, added)]), before.symbols.tags


def before_counts(n_tags):
    data = binarize(OLD, root="R")
    return np.bincount(data.pairs[:, 0], data.pair_counts, n_tags).astype(float)


def row(lexicon, word):
    """P(word | T) of a word within a sentence."""
    return lexicon.scores(0, lexicon.encode(["。", word]))[1]


def test_known_words_have_old_and_new_counts(monkeypatch):
    monkeypatch.setattr(estimation, "WORD_SMOOTHING", 0.0)
    _, found, tags = adapted(LexiconSettings())
    wanted = dict.fromkeys(tags, 0.0) | {"V": 2 / 5}
    assert dict(zip(tags, row(found, "mita"), strict=True)) == pytest.approx(wanted)
    wanted = dict.fromkeys(tags, 0.0) | {"N": 1 / 6, "V": 1 / 5}
    assert dict(zip(tags, row(found, "naita"), strict=True)) == pytest.approx(wanted)
    _, found, tags = adapted(LexiconSettings(), share=0.5)
    assert row(found, "mita")[tags.index("V")] == pytest.approx((0.5 + 1) / (1.5 + 2))


def test_signatures_learn_from_new_words():
    before, found, tags = adapted(LexiconSettings())
    noun, verb = tags.index("N"), tags.index("V")
    # Words in -ita were verbs and still are; of words in -era only the new trees have one.
    for lexicon in (before, found):
        assert row(lexicon, "kaita").argmax() == verb
    assert "lower era" not in before.signatures
    assert "lower era" in found.signatures
    assert row(found, "opera")[noun] > row(found, "opera")[verb]
    assert found.problem(found.tag_substates) is None
