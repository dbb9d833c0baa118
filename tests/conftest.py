"""What every test may use: where the corpora are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

BESIDE_REPOSITORY = Path(__file__).resolve().parents[2] / "shared" / "corpora"


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of the corpora: $STRUCTLEARN_CORPORA, else shared/corpora beside the repository.

    The test is skipped where there is none.
    """
    named = os.environ.get("STRUCTLEARN_CORPORA")
    folder = Path(named) if named else BESIDE_REPOSITORY
    if not folder.is_dir():
        pytest.skip(
            f"no corpora at {folder}: set STRUCTLEARN_CORPORA to the folder that holds them"
        )
    return folder
