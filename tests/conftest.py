"""What every test may use: where the corpora are."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples in each run. HYPOTHESIS_PROFILE=random draws others, for the run of reliability.
# No deadlines, since a machine may be busy, and half the examples, which keeps the run short.
settings.register_profile("fixed", deadline=None, max_examples=50, derandomize=True, database=None)
settings.register_profile("random", deadline=None, max_examples=50, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

# Collecting thousands of tests makes many objects and no garbage.
gc.disable()


def pytest_collection_finish():
    gc.enable()


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
