"""Check that the package installs and passes its tests on several Pythons.

    python -m training.reliability.platforms --python python3.10 python3.13 python3.14

For each Python, HEAD is cloned and installed into a new virtual environment by the command of the
README, which compiles the kernels. All tests run there, in one process. Tests are skipped that need
corpora or packages outside the extra `test`.

Recorded in training/results/reliability.json, as platforms.cp310 for Python 3.10, or as
platforms.cp313_musl for Python 3.13 on musl:

passed, failed, skipped   tests
python, numpy, spacy      versions

and after it

pythons                   versions of Python in the file without a failed test

On musl, scikit-learn, which seqeval requires, would be compiled by a C++ compiler.
`--install . pytest hypothesis nltk` leaves it out.

With --work, clones and environments are kept. If they are there, the clone is brought to HEAD, and
is only installed again if the kernels or pyproject.toml have changed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import srsly

from training.common.recording import RESULTS, ROOT, clean_commit, record, show

INSTALL = (".[test]",)
NAME = """
import sys, sysconfig
musl = "_musl" if "musl" in (sysconfig.get_config_var("SOABI") or "") else ""
print("cp%d%d%s" % (*sys.version_info[:2], musl))
"""
VERSIONS = """
import json, platform
from importlib.metadata import version
print(json.dumps({"python": platform.python_version()} | {p: version(p) for p in PACKAGES}))
"""
PACKAGES = ("numpy", "spacy")
COMPILED = ("*.pyx", "*.pxd", "*.h", "pyproject.toml")
TESTS = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "STRUCTLEARN_CORPORA")


class Installed:
    """A clone of HEAD in a folder, installed into a virtual environment of its own.

    Raises SystemExit if a command fails.
    """

    def __init__(self, python: str, folder: Path, install: Sequence[str] = INSTALL):
        self.folder = folder
        self.clone = folder / "clone"
        self.environment = folder / "venv"
        self.python = self.environment / ("Scripts" if os.name == "nt" else "bin") / "python"
        done = folder / "installed"
        folder.mkdir(parents=True, exist_ok=True)
        if done.exists():
            self._git("fetch", "-q", str(ROOT), "HEAD")
            changed = self._git("diff", "--name-only", "FETCH_HEAD", "--", *COMPILED)
            self._git("checkout", "-q", "FETCH_HEAD")
            if not changed:
                return
            done.unlink()
        shutil.rmtree(self.clone, ignore_errors=True)
        self._run(["git", "clone", "-q", str(ROOT), str(self.clone)], folder)
        self._run([python, "-m", "venv", "--clear", str(self.environment)], folder)
        python = str(self.python)
        self._run([python, "-m", "pip", "install", "-e", *install], self.clone)
        done.touch()

    def versions(self) -> dict[str, str]:
        return json.loads(ask(self.python, f"{PACKAGES = }\n{VERSIONS}"))

    def test(self, tests: Sequence[str] = ()) -> dict[str, int]:
        """Run all tests, or only `tests`. Return their counts, and print those that failed."""
        report = self.folder / "tests.xml"
        report.unlink(missing_ok=True)
        subprocess.run(
            [str(self.python), *TESTS, f"--junitxml={report}", *tests],
            cwd=self.clone,
            env=environment(),
            stdout=sys.stderr,
            check=False,
        )
        return counts(report)

    def _git(self, *arguments: str) -> str:
        return self._run(["git", *arguments], self.clone)

    def _run(self, arguments: Sequence[str], cwd: Path) -> str:
        ended = subprocess.run(
            arguments, cwd=cwd, env=environment(), capture_output=True, text=True, check=False
        )
        if ended.returncode:
            raise SystemExit(f"{shlex.join(arguments)} failed:\n{ended.stdout}{ended.stderr}")
        return ended.stdout


def ask(python: str | Path, program: str) -> str:
    """Return what a program prints in another Python."""
    arguments = [str(python), "-c", program]
    return subprocess.check_output(arguments, env=environment(), text=True).strip()


def environment() -> dict[str, str]:
    """Return the variables of this process without those that would lead to other code or data."""
    return {key: value for key, value in os.environ.items() if key not in FOREIGN}


def counts(report: Path) -> dict[str, int]:
    """Return how many tests of a report in JUnit's format passed, failed and were skipped.

    Raises SystemExit if the tests did not run to their end.
    """
    if not report.exists():
        raise SystemExit("The tests did not run to their end.")
    suites = [suite.attrib for suite in ElementTree.parse(report).iter("testsuite")]
    total, failed, errors, skipped = (
        sum(int(suite[key]) for suite in suites)
        for key in ("tests", "failures", "errors", "skipped")
    )
    failed += errors
    return {"passed": total - failed - skipped, "failed": failed, "skipped": skipped}


def whole(platforms: Mapping[str, Mapping[str, Any]]) -> int:
    """Return the number of versions of Python on which tests passed and none failed."""
    return len(
        {
            found[0]
            for name, figures in platforms.items()
            if (found := re.match(r"cp\d+", name)) and figures["passed"] and not figures["failed"]
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", nargs="+", required=True, metavar="PATH", help="interpreters")
    parser.add_argument("--install", nargs="+", default=INSTALL, metavar="REQUIREMENT")
    parser.add_argument("--work", type=Path, help="keep clones, environments and logs here")
    parser.add_argument("--tests", nargs="+", help="run only these files, record nothing")
    args = parser.parse_args()
    clean_commit()
    with TemporaryDirectory() as temporary:
        for python in args.python:
            platform = ask(python, NAME)
            folder = (args.work or Path(temporary)).resolve() / platform
            installed = Installed(python, folder, args.install)
            found = installed.test(args.tests or ()) | installed.versions()
            figures = {f"platforms.{platform}.{figure}": value for figure, value in found.items()}
            show(figures)
            if not args.tests:
                record("reliability", figures)
                platforms = srsly.read_json(RESULTS / "reliability.json")["platforms"]
                record("reliability", {"pythons": whole(platforms)})


if __name__ == "__main__":
    main()
