"""The scripts of training/ are no package: they import one another as neighbours."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("benchmarks", "reliability", "reproduce")
for folder in ("corpora", "training", *(f"training/{name}" for name in SCRIPTS)):
    sys.path.insert(0, str(ROOT / folder))


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
    import pk_models

    def use(train, fit, others):
        parts = {"train": train, "fit": fit, **dict.fromkeys(("tune", "dev", "test"), others)}
        for corpus in pk_models.TREES:
            monkeypatch.setitem(pk_models.TREES, corpus, lambda corpora, split: parts[split])

    return use
