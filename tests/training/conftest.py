"""What the tests of the scripts in training/ share."""

import json
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


@pytest.fixture(scope="session")
def sample():
    """The trees of the sample treebank."""
    from spacy_structlearn.trees.brackets import load_trees
    from spacy_structlearn.trees.normalize import normalize

    return list(map(normalize, load_trees(ROOT / "corpora" / "sample" / "sample.trees")))


@pytest.fixture
def treebanks(monkeypatch):
    """Put trees in place of all treebanks. train, fit: these parts; others: all other parts."""
    from training.common.treebanks import TREES

    def use(train, fit, others):
        parts = {"train": train, "fit": fit, **dict.fromkeys(("tune", "dev", "test"), others)}
        for corpus in TREES:
            monkeypatch.setitem(TREES, corpus, lambda corpora, split: parts[split])

    return use


@pytest.fixture
def smaller(monkeypatch, tmp_path):
    """Give constants other values in each module that has them, and keep results in tmp_path.

    Work is done in this process.
    """

    def use(*modules, **values):
        values["in_process"] = lambda function, *arguments: function(*arguments)
        values["RESULTS"] = tmp_path / "results"
        for module in (*modules, recording):
            for name in vars(module).keys() & values.keys():
                monkeypatch.setattr(module, name, values[name])

    return use


@pytest.fixture
def run_script(monkeypatch, tmp_path):
    """Run the main function of a script. Returns the figures that it has recorded, if any."""

    def run(script, *arguments):
        monkeypatch.setattr(sys, "argv", ["script", *map(str, arguments)])
        script.main()
        path = tmp_path / "results" / f"{script.NAME}.json"
        return json.loads(path.read_text(encoding="utf8")) if path.exists() else None

    return run
