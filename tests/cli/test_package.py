"""`structlearn package`: the wheel, what is in it, and that it loads where it is installed."""

import email
import os
import shutil
import subprocess
import sys
import zipfile
from importlib import import_module
from importlib.util import find_spec

import pytest
import spacy
import srsly
from cli.toys import TEXT, one_line_error
from typer.testing import CliRunner

import spacy_structlearn
from spacy_structlearn import cli
from spacy_structlearn.pipeline.storage import digests

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


CODE = "'''; import os; open('executed', 'w'); '''"


@pytest.fixture
def described(model, tmp_path):
    """Makes a copy of the pipeline with changes of its meta.json."""

    def make(**changes):
        folder = shutil.copytree(model, tmp_path / "pipeline")
        srsly.write_json(folder / "meta.json", {**srsly.read_json(folder / "meta.json"), **changes})
        return folder

    return make


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(("name", value) for value in (CODE, "a\n", "../x", "..", "a/b", "a-b", "", "\u212a", 7)),
        *(("name", value) for value in ("x" * 101, "x = os:system", None, ["x"], 'a"b', "a b")),
        *(("version", value) for value in (CODE, "1.0\n", "../../x", " 1.0", "1" * 200, 1.0, "")),
        *(("lang", value) for value in ("../en", "en\n", CODE, 1)),
        *(("author", value) for value in ("x\nRequires-Dist: evil", "x\0", "x\u2028y", 7)),
        *((name, "x\nKeywords: y") for name in ("email", "url", "license")),
        *(("requirements", value) for value in (["x; import os"], ["x\ny"], "x", [1])),
        ("description", 7),
    ],
)
def test_a_meta_that_no_package_can_have(run, described, tmp_path, setting, value):
    folder = described(**{setting: value})
    line = one_line_error(run("package", folder, tmp_path / "wheels"), "SL090", "meta.json")
    assert setting in line
    assert not (tmp_path / "wheels").exists()


@pytest.mark.parametrize("options", [["--name", "x/../y"], ["--version", "../../x"]])
def test_options_that_no_package_can_have(run, described, tmp_path, options):
    one_line_error(run("package", described(), tmp_path / "wheels", *options), "SL090")


@pytest.mark.parametrize("content", [b"{", b"[]", b"null", b"[" * 100_000])
def test_a_meta_that_is_no_json(run, described, tmp_path, content):
    folder = described()
    (folder / "meta.json").write_bytes(content)
    one_line_error(run("package", folder, tmp_path / "wheels"), "SL090")


def test_nothing_of_a_meta_is_executed(run, described, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = {"description": f"{CODE}\nRequires-Dist: evil\n\n{CODE}", "notes": f"{CODE}\n{CODE}"}
    texts |= dict.fromkeys(("author", "email", "url", "license"), CODE)
    code, out, _ = run("package", described(**texts), tmp_path / "wheels")
    assert code == 0
    with zipfile.ZipFile(out.strip()) as archive:
        archive.extractall(tmp_path / "installed")
        (name,) = [n for n in archive.namelist() if n.endswith("METADATA")]
        head = email.message_from_bytes(archive.read(name))
        (entries,) = [n for n in archive.namelist() if n.endswith("entry_points.txt")]
        assert archive.read(entries).split() == b"[spacy_models] en_pipeline = en_pipeline".split()
    assert head["Author"] == CODE
    assert not any("evil" in line for line in head.get_all("Requires-Dist"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    subprocess.run([sys.executable, "-c", "import en_pipeline"], env=environment, check=True)
    assert not list(tmp_path.rglob("executed"))


@pytest.mark.skipif(os.name != "posix", reason="needs links")
@pytest.mark.parametrize("target", ["../outside", "link", "nothing"])
def test_links_out_of_the_pipeline(run, described, tmp_path, target):
    folder, new = described(), tmp_path / "new"
    (tmp_path / "outside").write_text("a secret")
    (folder / "link").symlink_to(target)
    one_line_error(run("package", folder, new), "SL057", str(folder / "link"))
    assert not new.exists()


def test_what_spacy_refuses_is_one_line(run, model, tmp_path, monkeypatch):
    def package(*_, **__):
        print("\u2718 It does not\nwant to.")
        raise SystemExit(1)

    monkeypatch.setattr(import_module("spacy.cli.package"), "package", package)
    one_line_error(run("package", model, tmp_path / "wheels"), "SL066", "It does not want to.")


def test_a_wheel_that_cannot_be_built_is_one_line(run, model, tmp_path, monkeypatch):
    monkeypatch.setattr(cli.package, "BUILD", "no toml")
    one_line_error(run("package", model, tmp_path / "wheels"), "SL067")
    assert not (tmp_path / "wheels").exists()
