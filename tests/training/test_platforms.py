"""The command that runs the tests on several Pythons: its counts, its environments, its cases."""

import shutil
import subprocess
import sys

import pytest

from training.reliability import platforms

IDENTITY = "-c user.name=a -c user.email=a@b -c commit.gpgsign=false"


def test_counts_of_a_report(tmp_path):
    (tmp_path / "test_few.py").write_text(
        "import pytest\n"
        "@pytest.fixture\n"
        "def broken():\n"
        "    raise OSError\n"
        "def test_right(): pass\n"
        "def test_wrong(): assert 1 == 2\n"
        "def test_error(broken): pass\n"
        "def test_skipped(): pytest.skip('for a reason')\n"
        "@pytest.mark.parametrize('number', range(3))\n"
        "def test_more(number): pass\n"
    )
    report = tmp_path / "tests.xml"
    arguments = [sys.executable, *platforms.TESTS, f"--junitxml={report}"]
    subprocess.run(arguments, cwd=tmp_path, capture_output=True, check=False)
    assert platforms.counts(report) == {"passed": 4, "failed": 2, "skipped": 1}


def test_no_report_means_no_counts(tmp_path):
    with pytest.raises(SystemExit, match="did not run to their end"):
        platforms.counts(tmp_path / "tests.xml")


def test_lowest_versions_are_those_of_the_project():
    names = {name for case in platforms.CASES.values() for name in case.oldest}
    assert names == {"numpy", "spacy"}
    for name in names:
        assert platforms.pinned(name).startswith(f"{name}==")
    with pytest.raises(ValueError, match="not enough values"):
        platforms.pinned("unknown")


def test_only_versions_without_failures_count_and_each_once():
    passed = {"passed": 9, "failed": 0}
    found = {"cp310": passed, "cp313": passed, "cp313_musl": passed, "numpy_oldest": passed}
    assert platforms.whole(found) == 2
    assert platforms.whole(found | {"cp314": {"passed": 9, "failed": 1}}) == 2
    assert platforms.whole(found | {"cp314": {"passed": 0, "failed": 0}}) == 2


def test_other_code_and_data_stay_outside(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    monkeypatch.setenv("KEPT", "1")
    assert "PYTHONPATH" not in platforms.environment()
    assert platforms.environment()["KEPT"] == "1"
    name = platforms.ask(sys.executable, platforms.NAME)
    assert name.startswith(f"cp{sys.version_info[0]}{sys.version_info[1]}")


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_an_environment_is_kept_until_kernels_change(tmp_path, monkeypatch):
    root = tmp_path / "root"
    root.mkdir()

    def commit(name):
        (root / name).write_text(name)
        for arguments in ("init -q", f"add {name}", f"{IDENTITY} commit -q -m {name}"):
            subprocess.run(["git", *arguments.split()], cwd=root, check=True)

    def install():
        installed = platforms.Installed("", tmp_path / "work")
        return (installed.clone / "module.py").exists()

    installs = []
    run = platforms.Installed._run
    monkeypatch.setattr(platforms, "ROOT", root)
    monkeypatch.setattr(platforms.Installed, "install", lambda self, *what: installs.append(what))
    monkeypatch.setattr(
        platforms.Installed, "_run", lambda self, of, cwd: run(self, of, cwd) if of[0] else ""
    )
    commit("kernel.pyx")
    assert not install()
    commit("module.py")
    assert install()
    assert installs == [("-e", ".[test]")]
    commit("other.pyx")
    assert install()
    assert installs == [("-e", ".[test]")] * 2


def test_a_failed_command_is_named(tmp_path):
    installed = object.__new__(platforms.Installed)
    with pytest.raises(SystemExit, match=r"-c 'exit\(3\)' failed"):
        installed._run([sys.executable, "-c", "exit(3)"], tmp_path)
