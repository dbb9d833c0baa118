"""What the tests of the scripts in training/ share."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def nlp():
    """The default pipeline."""
    import spacy_structlearn

    return spacy_structlearn.load()


@pytest.fixture(scope="session")
def sample():
    """The trees of the sample treebank."""
    from spacy_structlearn.trees.brackets import load_trees
    from spacy_structlearn.trees.normalize import normalize

    return list(map(normalize, load_trees(ROOT / "corpora" / "sample" / "sample.trees")))


@pytest.fixture
def treebanks(monkeypatch):
    """Puts trees in place of all treebanks. train, fit: of these parts; others: of all others."""
    from training.common.treebanks import TREES

    def use(train, fit, others):
        parts = {"train": train, "fit": fit, **dict.fromkeys(("tune", "dev", "test"), others)}
        for corpus in TREES:
            monkeypatch.setitem(TREES, corpus, lambda corpora, split: parts[split])

    return use
