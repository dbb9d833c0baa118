"""What the tests of the scripts in training/ share."""

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
