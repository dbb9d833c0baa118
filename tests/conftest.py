"""What every test may use: where the corpora are."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

from spacy_structlearn import serialization
from spacy_structlearn.errors import StructlearnError

# No deadlines, since a machine may be busy, and half the examples, which keeps the run short.
settings.register_profile("patient", deadline=None, max_examples=50)
settings.load_profile("patient")

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


@pytest.fixture
def refuses_damage():
    """Asserts that a trainer refuses states of which one field is missing, or of another type.

    Their digests are right. make: gives the trainer, which has to stay as it was. state: of another
    one, further on. unread: fields that are not read in such a state.
    """

    def check(make, state, unread=()):
        trainer = make()
        before = trainer.to_bytes()
        kind = serialization._loads(memoryview(state)[serialization._HEADER_SIZE :], "any")["kind"]
        version, fields = serialization.unpack(state, kind, {1})
        # With another one of these it is a state of other data.
        for name in fields.keys() - {"fingerprint", "digest", *unread}:
            rest = {other: value for other, value in fields.items() if other != name}
            for damaged in (rest, {**rest, name: "x"}):
                with pytest.raises(StructlearnError, match="SL054"):
                    trainer.resume(serialization.pack(kind, version, damaged))
                assert trainer.to_bytes() == before, name
        assert trainer.resume(state)
        assert trainer.to_bytes() == state

    return check
