"""The scripts of training/ are no package: they import one another as neighbours."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
for folder in ("corpora", "training", "training/benchmarks", "training/reproduce"):
    sys.path.insert(0, str(ROOT / folder))


@pytest.fixture(scope="session")
def nlp():
    """The default pipeline."""
    import spacy_structlearn

    return spacy_structlearn.load()
