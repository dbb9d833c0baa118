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
