"""Test the package with random input, damaged files, killed trainings and random examples.

    python -m training.reliability
    python -m training.reliability --only corruption kills

Records the figures of each part in training/results/reliability.json:

fuzz        ten million changed inputs of kernels, models, files and pipelines
corruption  damaged files of pipelines
kills       killed and resumed trainings
races       commands that write to one target at the same time
jsonl       values in JSONL before and after `apply`

and numbers of tests of tests/, all and failed ones:

properties  with random examples: properties.tests and .failed
changes     of the input or the pipeline of an `apply`: apply.changes and .stale
arguments   wrong arguments of public methods: arguments.cases and .unclear
streams     closed and broken streams, and too little memory: streams.cases and .unclear
findings    what a review found: findings.tests and .open

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
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from training.common.recording import ROOT, clean_commit, record, show
from training.reliability import corruption, fuzz, jsonl, kills, platforms, races

PROFILE = "random"  # of hypothesis, in tests/conftest.py
# The marker of the tests of a part, and the names of its figures.
TESTS = {
    "properties": ("hypothesis", "properties.tests", "properties.failed"),
    "changes": ("stale", "apply.changes", "apply.stale"),
    "arguments": ("arguments", "arguments.cases", "arguments.unclear"),
    "streams": ("streams", "streams.cases", "streams.unclear"),
    "findings": ("finding", "findings.tests", "findings.open"),
}


def marked(marker: str, every: str, failed: str) -> dict[str, int]:
    """Run the tests with a marker, with random examples. Return the figures of these names."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "tests.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", marker, f"--junitxml={report}"]
        variables = os.environ | {"HYPOTHESIS_PROFILE": PROFILE}
        subprocess.run(command, cwd=ROOT, env=variables, check=False)
        counts = platforms.counts(report)
    return {every: counts["passed"] + counts["failed"], failed: counts["failed"]}


PARTS: dict[str, Callable[[], dict]] = {
    "fuzz": fuzz.run,
    "corruption": corruption.run,
    "kills": kills.run,
    "races": races.run,
    "jsonl": jsonl.run,
    **{part: partial(marked, *names) for part, names in TESTS.items()},
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
            record("reliability", figures)


if __name__ == "__main__":
    main()
