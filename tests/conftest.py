"""What every test may use: where the corpora are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("conll2000", "craft", "ewt", "ppattach", "wsj_sample", "wsj_skeleton")
# What `corpora/fetch.py all` builds, or a folder with the same content beside the repository.
PLACES = (ROOT / "corpora" / "data", ROOT.parent / "shared" / "corpora")


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of the corpora: $STRUCTLEARN_CORPORA, or the first of PLACES with all of them.

    The test is skipped where there is none.
    """
    named = os.environ.get("STRUCTLEARN_CORPORA")
    places = [Path(named)] if named else PLACES
    for folder in places:
        if all((folder / name).is_dir() for name in NAMES):
            return folder
    pytest.skip("no corpora: run `python corpora/fetch.py all`, or set STRUCTLEARN_CORPORA")
