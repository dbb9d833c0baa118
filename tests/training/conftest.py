"""What the tests of the scripts in training/ share."""

import sys
from pathlib import Path

import pytest

from training.common import recording

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def committed(monkeypatch):
    """Let tests record figures from a checkout with changes."""
    monkeypatch.setattr(recording, "clean_commit", lambda: "0123456789ab")


@pytest.fixture(scope="session")
def nlp():
    """The default pipeline."""
    import spacy_structlearn

    return spacy_structlearn.load()


@pytest.fixture
def on_the_sample(monkeypatch, tmp_path):
    """Put sentences of the sample in place of all treebanks, work in this process, and keep results
    in tmp_path.
    """
    from spacy_structlearn.trees.brackets import read_trees
    from spacy_structlearn.trees.normalize import normalize
    from training.common.treebanks import TREES

    trees = map(normalize, read_trees(ROOT / "corpora" / "sample" / "sample.trees"))
    short = tuple(tree for tree in trees if len(tree.words()) < 16)
    train, others = {"train": short[:30], "fit": short[:28]}, short[40:46]
    for corpus in TREES:
        monkeypatch.setitem(TREES, corpus, lambda corpora, split: train.get(split, others))
    values = {"in_process": lambda function, *rest: function(*rest), "RESULTS": tmp_path}
    for module in [module for name, module in sys.modules.items() if name.startswith("training.")]:
        for name in vars(module).keys() & values.keys():
            monkeypatch.setattr(module, name, values[name])
