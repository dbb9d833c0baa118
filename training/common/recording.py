"""Results as JSON, with what each part was made from; the folders of corpora and of the cache."""

from __future__ import annotations

import os
import platform
import resource
import shlex
import subprocess
import sys
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import srsly

from training.common.sources import ROOT, data_of

RESULTS = ROOT / "training" / "results"
CORPORA = Path(os.environ.get("STRUCTLEARN_CORPORA", ROOT / "corpora" / "data"))
WORK = ROOT / "training" / "work"
# What a results file has besides its figures; earlier files have "commits" instead of "stamps".
STAMPS = ("commit", "commits", "machine", "stamps")


def record(name: str, figures: Mapping[str, Any]) -> None:
    """Merge `figures` (keys joined by dots) into training/results/NAME.json.

    The file is nested, sorted and replaced atomically, so a run can record figures step by step.
    Besides the figures it has:

    stamps: of each part, the first two names of a key: the commit, the date, the processor and
        Python, and the command that made its last figure, with digests of the data that it reads.
        Parts may be recorded by different runs.
    commit, machine: those of the last run.

    Raises SystemExit if the checkout has changes that are not committed: nobody could make such
    figures again.
    """
    path = RESULTS / f"{name}.json"
    commit, own = clean_commit(), machine()
    stamp = {"commit": commit, "date": f"{date.today()}", "command": command()} | own
    stamp |= {"data": data_of(module())} if module() else {}
    results = srsly.read_json(path) if path.exists() else {}
    stamps = stamps_of(results)
    for key, value in figures.items():
        *parents, last = key.split(".")
        table = results
        for parent in parents:
            table = table.setdefault(parent, {})
        table[last] = _rounded(value)
        stamps[".".join(key.split(".")[:2])] = stamp
    results.pop("commits", None)
    results |= {"stamps": stamps, "commit": commit, "machine": own}
    RESULTS.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".json.new")
    srsly.write_json(fresh, {key: results[key] for key in sorted(results)}, indent=2)
    os.replace(fresh, path)


def stamps_of(results: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the stamp of each part of a results file. Those of earlier files have no command."""
    shared = {"commit": results.get("commit", "unknown")} | results.get("machine", {})
    commits, stamps = results.get("commits", {}), results.get("stamps", {})
    found = {}
    for name, value in results.items():
        if name not in STAMPS and name not in stamps:  # a table that was recorded as a whole
            below = [f"{name}.{key}" for key in value] if isinstance(value, Mapping) else [name]
            stamp = shared | ({"commit": commits[name]} if name in commits else {})
            found |= dict.fromkeys(below, stamp)
    return found | stamps


def show(figures: Mapping[str, Any]) -> None:
    """Print figures, one per line, without lists."""
    for key, value in figures.items():
        if not isinstance(value, list):
            text = f"{value:,.4f}" if isinstance(value, float) else value
            print(f"{key:52} {text}", flush=True)


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
def clean_commit() -> str:
    """Return the commit. Raises SystemExit if files other than results and README differ from it.

    A long run calls this before it begins.
    """
    commit = git("rev-parse", "--short=12", "HEAD")
    changed = git("status", "--porcelain", "--", ".", ":!training/results", ":!README.md")
    if changed:
        raise SystemExit(f"Commit these changes first, then measure:\n{changed}")
    return commit or "unknown"


def command() -> str:
    """Return the command of this process, such as "python -m training.benchmarks.product".

    Of a path outside the checkout it has the last name, because the rest is of one machine.
    """
    name = f"-m {module()}" if module() else sys.argv[0]
    # "name=/folder" is an argument, too.
    parts = [own.rpartition("=") for own in sys.argv[1:]]
    arguments = [a + b + (Path(c).name if Path(c).is_absolute() else c) for a, b, c in parts]
    return shlex.join(["python", *name.split(), *arguments])


def module() -> str:
    """Return the module that this process runs, or "" if it runs a file."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return "" if spec is None else spec.name.removesuffix(".__main__")


def git(*arguments: str) -> str:
    """Return the output of git in this checkout; empty if it fails."""
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
