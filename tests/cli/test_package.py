"""`structlearn package`: the wheel, what is in it, and that it loads where it is installed."""

import email
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec

import pytest
import spacy
import srsly
from cli.toys import TEXT, one_line_error
from typer.testing import CliRunner

import spacy_structlearn
from spacy_structlearn import cli
from spacy_structlearn.pipeline import digests

pytestmark = pytest.mark.skipif(not find_spec("setuptools"), reason="setuptools builds the wheel")


@pytest.fixture(scope="module")
def wheel(model, tmp_path_factory):
    """The wheel of a pipeline with a file about its sources."""
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(model, folder / "pipeline")
    (folder / "pipeline" / "LICENSES_SOURCES").write_text("Hand-made.", encoding="utf8")
    digests.write(folder / "pipeline")
    arguments = [str(folder / "pipeline"), str(folder / "wheels")]
    done = CliRunner().invoke(
        cli.app, ["package", *arguments, "--name", "chunks", "--version", "1.2.0"]
    )
    assert done.exit_code == 0, done.output
    path = folder / "wheels" / "en_chunks-1.2.0-py3-none-any.whl"
    assert done.output == f"{path}\n"
    assert [found.name for found in (folder / "wheels").iterdir()] == [path.name]
    return path


def test_the_wheel_holds_the_pipeline_and_its_papers(wheel):
    inside = "en_chunks/en_chunks-1.2.0/"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        meta = srsly.json_loads(archive.read(inside + "meta.json"))
    wanted = ("config.cfg", "meta.json", "LICENSES_SOURCES", "np_chunker/model", "digests.json")
    assert {inside + name for name in wanted} <= set(names)
    assert (meta["name"], meta["version"]) == ("chunks", "1.2.0")


def test_the_wheel_requires_this_package_and_spacy(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith("METADATA")]
        required = email.message_from_bytes(archive.read(name)).get_all("Requires-Dist")
    ours = [line for line in required if line.startswith("spacy-structlearn")]
    major, minor = spacy_structlearn.__version__.split(".")[:2]
    assert len(ours) == 1
    assert f">={spacy_structlearn.__version__}" in ours[0]
    assert f"<{major}.{int(minor) + 1}.0" in ours[0]
    assert any(line.startswith("spacy<") or line.startswith("spacy>") for line in required)


def test_the_wheel_can_be_loaded_where_it_is_unpacked(wheel, model, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    file = tmp_path / "en_chunks" / "en_chunks-1.2.0" / "vocab" / "strings.json"
    code = (
        "import spacy, sys\n"
        "from pathlib import Path\n"
        "from spacy_structlearn import cli\n"
        f"print(list(spacy.load('en_chunks')({TEXT!r})._.np_chunks))\n"
        f"Path({str(file)!r}).write_text('[]', encoding='utf8')\n"
        "sys.argv = ['structlearn', 'info', 'en_chunks']\n"
        "cli.main()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == str(list(spacy.load(model)(TEXT)._.np_chunks))
    # Its digests are found in the package.
    assert done.returncode == 1
    assert f"[SL083] {file}" in done.stderr


def test_a_wheel_that_cannot_be_built_is_one_line(run, model, tmp_path, monkeypatch):
    monkeypatch.setattr(cli.package, "BUILD", "no toml")
    one_line_error(run("package", model, tmp_path / "wheels"), "SL067")
    assert not (tmp_path / "wheels").exists()
