"""Check that the package installs and passes its tests on several Pythons.

    python -m training.reliability.platforms --python python3.10 python3.13 python3.14

For each Python, HEAD is cloned and installed into a new virtual environment by the command of the
README, which compiles the kernels. All tests run there, in one process. Tests are skipped that need
corpora or packages outside the extra `test`.

In results/reliability.json: platforms.cp310.{passed, failed, skipped}, the numbers of tests on
Python 3.10, or platforms.cp313_musl for Python 3.13 on musl; and pythons, the number of versions of
Python in the file without a failed test.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

import srsly

from training.common.recording import RESULTS, ROOT, clean_commit, record, show

NAME = """
import sys, sysconfig
musl = "_musl" if "musl" in (sysconfig.get_config_var("SOABI") or "") else ""
print("cp%d%d%s" % (*sys.version_info[:2], musl))
"""
TESTS = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "STRUCTLEARN_CORPORA")


def tested(python: str, folder: Path) -> dict[str, int]:
    """Install a clone of HEAD into an environment of its own, and run its tests.

    Return their counts, as figures. Raises CalledProcessError if the installation fails.
    """
    # Without variables that would lead to other code or data.
    variables = {key: value for key, value in os.environ.items() if key not in FOREIGN}
    clone, venv, report = folder / "clone", folder / "venv", folder / "tests.xml"
    installed = str(venv / ("Scripts" if os.name == "nt" else "bin") / "python")
    run = partial(subprocess.run, cwd=folder, env=variables, check=True)
    name = run([python, "-c", NAME], stdout=subprocess.PIPE, text=True).stdout.strip()
    run(["git", "clone", "-q", str(ROOT), str(clone)])
    run([python, "-m", "venv", str(venv)])
    run([installed, "-m", "pip", "install", "-q", "-e", ".[test]"], cwd=clone)
    run([installed, *TESTS, f"--junitxml={report}"], cwd=clone, stdout=sys.stderr, check=False)
    return {f"platforms.{name}.{key}": value for key, value in counts(report).items()}


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", nargs="+", required=True, metavar="PATH", help="interpreters")
    args = parser.parse_args()
    clean_commit()
    for python in args.python:
        with TemporaryDirectory() as folder:
            figures = tested(python, Path(folder))
        show(figures)
        record("reliability", figures)
        rows = srsly.read_json(RESULTS / "reliability.json")["platforms"].items()
        good = {name.partition("_")[0] for name, row in rows if row["passed"] and not row["failed"]}
        record("reliability", {"pythons": len(good)})


if __name__ == "__main__":
    main()
