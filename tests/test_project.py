"""The package as installed and as built: entry points, version, kernels, wheels, workflows."""

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import distribution, metadata, version
from pathlib import Path

import pytest
import srsly
from spacy.util import registry

import spacy_structlearn

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
REGISTRIES = {
    "spacy_factories": "factories",
    "spacy_architectures": "architectures",
    "spacy_readers": "readers",
    "spacy_scorers": "scorers",
    "spacy_batchers": "batchers",
    "spacy_tokenizers": "tokenizers",
}
OURS = [
    point for point in distribution("spacy-structlearn").entry_points if point.group in REGISTRIES
]


@pytest.mark.parametrize("point", OURS, ids=lambda point: point.name)
def test_entry_point_loads_and_is_registered(point):
    assert callable(point.load())
    assert callable(getattr(registry, REGISTRIES[point.group]).get(point.name))


def test_unbuilt_source_tree_is_named_in_one_line(tmp_path):
    package = Path(spacy_structlearn.__file__).parent
    ignore = shutil.ignore_patterns("*.so", "*.pyd", "*.c", "data", "__pycache__")
    shutil.copytree(package, tmp_path / "spacy_structlearn", ignore=ignore)
    run = subprocess.run(
        [sys.executable, "-c", "import spacy_structlearn"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: spacy_structlearn was imported from")
    assert "pip install -e ." in last


def test_importing_the_package_does_not_import_spacy():
    code = "import sys, spacy_structlearn; sys.exit('spacy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_build_path_is_nowhere_in_the_repository():
    """Nothing of one machine: no absolute home or temporary path in the text that is committed."""
    for path in [*ROOT.glob("*.md"), *ROOT.glob("training/**/*.py"), *ROOT.glob("corpora/*.py")]:
        text = path.read_text(encoding="utf8")
        assert str(ROOT) not in text, path


def run_python(*arguments: str, cwd: Path) -> str:
    """What it prints. Setuptools runs in a process of its own, before anything loads distutils."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout


def test_every_kernel_is_built():
    code = (
        "from setuptools import Distribution; from spacy_structlearn._build import BuildKernels;"
        "command = BuildKernels(Distribution()); command.ensure_finalized();"
        "print(*command.get_source_files(), sep='\\n')"
    )
    sources = run_python("-c", code, cwd=ROOT).split()
    kernels = [
        path.relative_to(ROOT).as_posix() for path in ROOT.glob("spacy_structlearn/**/*.pyx")
    ]
    assert sorted(sources) == sorted([*kernels, "spacy_structlearn/kernels/_cyutility.c"])


def test_a_wheel_takes_every_file_of_the_package(tmp_path):
    """Whatever its kind: a checkout works with files that an installed package lacks."""
    if int(version("setuptools").split(".")[0]) < 77:
        pytest.skip("needs setuptools 77 or later, as a build does")
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    built = shutil.ignore_patterns("*.so", "*.pyd", "*.c", "__pycache__")
    shutil.copytree(ROOT / "spacy_structlearn", tmp_path / "spacy_structlearn", ignore=built)
    run_python("-c", "import setuptools; setuptools.setup()", "build_py", "-d", "out", cwd=tmp_path)
    here, there = (
        {path.relative_to(root) for path in root.glob("spacy_structlearn/**/*") if path.is_file()}
        for root in (tmp_path, tmp_path / "out")
    )
    assert there == here


def test_wheels_are_for_the_versions_that_the_package_names():
    python = "Programming Language :: Python :: "
    named = [c.removeprefix(python) for c in PROJECT["project"]["classifiers"]]
    versions = [name for name in named if re.fullmatch(r"3\.\d+", name)]
    built = PROJECT["tool"]["cibuildwheel"]["build"]
    assert built == [f"cp{version.replace('.', '')}-*" for version in versions]
    assert PROJECT["project"]["requires-python"] == f">={versions[0]}"
    tests = srsly.read_yaml(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["tests"]
    tested = {row["python"] for row in tests["strategy"]["matrix"]["include"]}
    assert {versions[0], versions[-1]} <= tested <= set(versions)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_may_only_read_and_run_what_cannot_change(path):
    text = path.read_text(encoding="utf8")
    assert "secrets" not in text
    workflow = srsly.yaml_loads(text)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        if "permissions" in job:  # to publish, what is merged already
            assert job["permissions"] == {"contents": "write"}
            assert "pull_request" not in workflow["on"]
        for step in job["steps"]:
            assert "run" in step or re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", step["uses"])


def test_links_of_the_readme_work_elsewhere():
    """In the metadata of a wheel, which a package index shows without the repository."""
    about = metadata("spacy-structlearn")
    text = about.get_payload() or about["Description"]
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 10
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert any("/raw/main/training/results/" in link for link in links)
    urls = {url.split(", ")[0] for url in about.get_all("Project-URL")}
    assert {"Documentation", "Issues", "Source"} <= urls


def test_the_entry_of_the_universe():
    """spaCy's list of projects: what it must have, and an example that runs."""
    entry = srsly.read_json(ROOT / "training" / "site" / "universe.json")
    fields = {"id", "title", "slogan", "description", "github", "pip", "code_example", "category"}
    assert fields <= entry.keys()
    assert entry["pip"] == PROJECT["project"]["name"]
    exec("\n".join(entry["code_example"]), {})


def test_the_project_of_the_sample(tmp_path):
    """Trains, evaluates, reports and packages."""
    folder = shutil.copytree(ROOT / "corpora" / "sample", tmp_path / "sample")
    here = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": os.pathsep.join([here, os.environ.get("PATH", "")])}
    command = [sys.executable, "-m", "spacy", "project", "run", "all"]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    # Without colours, because it is no terminal; those of `spacy project` are not ours.
    assert "\x1b" not in next(li for li in run.stdout.splitlines() if "Saved the pipeline" in li)
    commands = srsly.read_yaml(folder / "project.yml")["commands"]
    made = [
        name.replace("${vars.name}", "sample")
        for one in commands
        for name in one.get("outputs", [])
    ]
    assert [name for name in made if not (folder / name).exists()] == []
    assert (folder / "reports" / "training.svg").stat().st_size > 500
    assert [*(folder / "packages").glob("*/dist/*.tar.gz")]
