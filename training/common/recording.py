"""Results as JSON, with the commit and the machine; and the folders of corpora and of the cache."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import srsly

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "training" / "results"
CORPORA = Path(os.environ.get("STRUCTLEARN_CORPORA", ROOT / "corpora" / "data"))
WORK = ROOT / "training" / "work"
STAMPS = ("commit", "commits", "machine")  # what a results file has besides its figures


def record(name: str, figures: Mapping[str, Any]) -> None:
    """Merge `figures` (keys joined by dots) into training/results/NAME.json.

    The file is nested, sorted and replaced atomically, so a run can record figures step by step.
    commits: that of each part, since parts may be recorded at different commits; commit: the last.
    """
    path = RESULTS / f"{name}.json"
    results = srsly.read_json(path) if path.exists() else {}
    for key, value in figures.items():
        *parents, last = key.split(".")
        table = results
        for parent in parents:
            table = table.setdefault(parent, {})
        table[last] = _rounded(value)
    before = {key: results.get("commit", "unknown") for key in results if key not in STAMPS}
    now = {key.split(".")[0]: _commit() for key in figures}
    results["commits"] = before | results.get("commits", {}) | now
    results["commit"] = _commit()
    results["machine"] = machine()
    RESULTS.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".json.new")
    srsly.write_json(fresh, {key: results[key] for key in sorted(results)}, indent=2)
    os.replace(fresh, path)


def show(figures: Mapping[str, Any]) -> None:
    """Print figures, one per line, without lists."""
    for key, value in figures.items():
        if not isinstance(value, list):
            text = f"{value:,.4f}" if isinstance(value, float) else value
            print(f"{key:52} {text}", flush=True)


def record_steps(
    name: str,
    steps: Iterable[Iterable[Mapping[str, Any]]],
    write_report: Callable[[Path, str], None],
    is_trial: bool,
) -> None:
    """Print and record the figures of each step, and write the report. is_trial: only print."""
    for step in steps:
        for figures in step:
            if not is_trial:
                record(name, figures)
            show(figures)
        if not is_trial:
            write_report(RESULTS, name)


def peak_mb() -> float:
    """Return the peak resident memory of this process in MB."""
    status = Path("/proc/self/status")
    if status.exists():
        # On Linux, ru_maxrss is at least the memory of the parent when it started this process.
        (line,) = [x for x in status.read_text().splitlines() if x.startswith("VmHWM:")]
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _rounded(value: Any) -> Any:
    """Round numbers to six decimals, also in lists and tables."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return value


@cache
def _commit() -> str:
    """Return the commit, with "+" if files other than results and README differ from it."""
    commit = _git("rev-parse", "--short=12", "HEAD")
    changed = _git("status", "--porcelain", "--", ".", ":!training/results", ":!README.md")
    return f"{commit}+" if commit and changed else commit or "unknown"


def _git(*arguments: str) -> str:
    run = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return run.stdout.strip()


def machine() -> dict[str, Any]:
    """Return the processor, the number of cores, and the version of Python."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"cpu": model, "cores": os.cpu_count(), "python": platform.python_version()}
