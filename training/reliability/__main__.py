"""Test the package with random input, damaged files, killed trainings and random examples.

    python -m training.reliability
    python -m training.reliability --only corruption kills

Records the figures of each part in training/results/reliability.json:

fuzz        ten million changed inputs of kernels, models, files and pipelines
corruption  damaged files of pipelines
kills       killed and resumed trainings
properties  the property tests of tests/ with random examples: properties.tests and .failed

All parts take two days on one core. `training.reliability.platforms` runs the tests on other
Pythons. What random input finds becomes a test: an `@example` of the property test, or a case in
tests/test_found_inputs.py. --trial only prints the figures.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from training.common.recording import ROOT, clean_commit, record, show
from training.reliability import corruption, fuzz, kills, platforms

NAME = "reliability"
PROFILE = "random"  # of hypothesis, in tests/conftest.py


def properties() -> dict[str, int]:
    """Run the tests of hypothesis with random examples. Return the figures."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "tests.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "hypothesis", f"--junitxml={report}"]
        variables = os.environ | {"HYPOTHESIS_PROFILE": PROFILE}
        subprocess.run(command, cwd=ROOT, env=variables, check=False)
        counts = platforms.counts(report)
    tests, failed = counts["passed"] + counts["failed"], counts["failed"]
    return {"properties.tests": tests, "properties.failed": failed}


PARTS: dict[str, Callable[[], dict]] = {
    "fuzz": fuzz.run,
    "corruption": corruption.run,
    "kills": kills.run,
    "properties": properties,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=[*PARTS])
    parser.add_argument("--trial", action="store_true", help="record nothing")
    args = parser.parse_args()
    if not args.trial:
        clean_commit()
    for part in args.only:
        figures = PARTS[part]()
        show(figures)
        if not args.trial:
            record(NAME, figures)


if __name__ == "__main__":
    main()
