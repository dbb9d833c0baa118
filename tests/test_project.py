"""The package as installed: entry points, version, the guard against an unbuilt source tree."""

import shutil
import subprocess
import sys
from importlib.metadata import distribution, entry_points
from pathlib import Path

import pytest
from spacy.util import registry

import spacy_structlearn

REGISTRIES = {
    "spacy_factories": "factories",
    "spacy_architectures": "architectures",
    "spacy_readers": "readers",
    "spacy_scorers": "scorers",
    "spacy_batchers": "batchers",
}
OURS = [
    point for point in distribution("spacy-structlearn").entry_points if point.group in REGISTRIES
]


def test_there_are_entry_points_of_every_kind():
    assert {point.group for point in OURS} == set(REGISTRIES)


@pytest.mark.parametrize("point", OURS, ids=lambda point: point.name)
def test_entry_point_loads_and_is_registered(point):
    assert callable(point.load())
    assert callable(getattr(registry, REGISTRIES[point.group]).get(point.name))


def test_registered_names_are_versioned():
    for point in OURS:
        if point.group != "spacy_factories":
            assert point.name.startswith("spacy_structlearn.")
            assert point.name.rpartition(".v")[2].isdigit()


def test_console_script():
    (script,) = [p for p in entry_points(group="console_scripts") if p.name == "structlearn"]
    assert callable(script.load())


def test_version():
    assert distribution("spacy-structlearn").version == spacy_structlearn.__version__


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
    root = Path(__file__).resolve().parent.parent
    for path in [*root.glob("*.md"), *root.glob("training/**/*.py"), *root.glob("corpora/*.py")]:
        text = path.read_text(encoding="utf8")
        assert str(root) not in text, path
