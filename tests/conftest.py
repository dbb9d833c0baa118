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


@pytest.fixture(scope="session")
def two_machines():
    """A Ray cluster of two machines with two cores each, both of them this one."""
    ray = pytest.importorskip("ray", reason="needs the extra ray")
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    head = {"num_cpus": 2, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(num_cpus=2)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()
    cluster.shutdown()
