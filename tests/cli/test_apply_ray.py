"""`structlearn apply --ray`, on a cluster of two nodes on this machine."""

import json
import os
import sys
import tempfile

import pytest
from cli.toys import deadly_model, install_deadly, left, one_line_error

from spacy_structlearn.cli.common.texts import MANIFEST

TEXTS = ["The old dog slept.", "Run once!", "My sister bought apples.", "Run twice!", "Run!"]
CUT = ["--format", "jsonl", "--part-size", "2", "--batch-size", "1"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two nodes with a processor each, and this process connected to them."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        # A short path of its own: sockets are in it, and where others find the cluster.
        patch.setenv("RAY_TMPDIR", folder)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        packages = tmp_path_factory.mktemp("packages")
        install_deadly(packages)
        # Nodes and their workers inherit it.
        patch.setenv("PYTHONPATH", os.pathsep.join([str(packages), *sys.path]))
        patch.syspath_prepend(packages)
        settings = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 10**8}
        cluster = Cluster(initialize_head=True, head_node_args=settings)
        cluster.add_node(num_cpus=1, object_store_memory=10**8)
        ray.init(cluster.address, log_to_driver=False)
        yield cluster
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture
def folder(tmp_path):
    """Two files of texts, one of them further down."""
    folder = tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("\n\n".join(TEXTS), encoding="utf8")
    records = [{"id": 1, "text": "Run!"}, {"id": 2, "text": ""}, {"id": 3, "text": "Run!"}]
    text = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "sub" / "b.jsonl").write_text(text, encoding="utf8")
    return folder


def test_the_same_as_without(cluster, run, model, folder, tmp_path):
    run("apply", model, folder, tmp_path / "one", *CUT)
    on_cluster = ["--n-process", "2", "--ray", "auto"]
    arguments = ["apply", model, folder, tmp_path / "out", *CUT, *on_cluster]
    code, out, err = run(*arguments)
    assert (code, out) == (0, "")
    assert err.endswith(f"{tmp_path / 'out'}: 8 texts, 5 files written\n")
    assert left(tmp_path / "out") == left(tmp_path / "one")
    # What is there is left alone.
    (tmp_path / "out" / "a.txt.0001.jsonl").write_bytes(b"kept")
    (tmp_path / "out" / "sub" / "b.jsonl.0000.jsonl").unlink()
    err = run(*arguments)[2]
    assert err.endswith(": 2 texts, 1 file written, 4 files there already\n")
    found = left(tmp_path / "out")
    assert found.pop("a.txt.0001.jsonl") == b"kept"
    assert found.items() < left(tmp_path / "one").items()


def test_what_an_actor_dies_of_is_parsed_by_another(cluster, run, model, folder, tmp_path):
    mortal, log = deadly_model(model, tmp_path, {"Run once!": 1, "Run twice!": 2})
    run("apply", model, folder, tmp_path / "one", *CUT)
    code, _, err = run("apply", mortal, folder, tmp_path / "out", *CUT, "--ray", "auto")
    assert code == 0, err
    assert sorted(log.read_text("utf8").splitlines()) == ["Run once!"] * 2 + ["Run twice!"] * 3
    found, expected = left(tmp_path / "out"), left(tmp_path / "one")
    expected[MANIFEST] = found[MANIFEST]
    assert {name: found[name] for name in expected} == expected


def test_a_text_that_all_die_of_ends_the_run(cluster, run, model, folder, tmp_path):
    mortal, log = deadly_model(model, tmp_path, {"Run once!": 99})
    code, _, err = run("apply", mortal, folder, tmp_path / "out", *CUT, "--ray", "auto")
    assert code == 1
    assert "SL079" in err.splitlines()[-1]
    assert 1 < log.read_text("utf8").count("Run once!") < 9
    assert not (tmp_path / "out" / "a.txt.0000.jsonl").exists()


def test_errors_of_actors_are_one_line(cluster, run, model, folder, tmp_path):
    (folder / "sub" / "b.jsonl").write_text('{"text": "Run!"}\n{"txt": "Run!"}\n', encoding="utf8")
    code, _, err = run("apply", model, folder, tmp_path / "out", *CUT, "--ray", "auto")
    error = err.splitlines()[-1]
    assert code == 1
    assert "SL064" in error
    assert "b.jsonl, line 2" in error


# --- without a cluster ----------------------------------------------------------------------------
def test_ray_is_named_where_it_is_not_installed(run, model, folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    one_line_error(
        run("apply", model, folder, tmp_path / "out", "--ray", "auto"),
        "SL250",
        "pip install 'spacy-structlearn[ray]'",
    )


@pytest.mark.parametrize(("source", "output"), [("-", "out"), ("in", "out.spacy"), ("in", "-")])
def test_ray_is_for_folders(run, model, folder, tmp_path, monkeypatch, source, output):
    monkeypatch.chdir(tmp_path)
    assert run("apply", model, source, output, "--ray", "auto")[0] == 2
