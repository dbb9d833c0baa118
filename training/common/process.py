"""Measurements and training in separate processes, and the environments of other packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from training.common.recording import ROOT


def in_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a separate process and return its result."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def measured(module: str, *arguments: Any) -> dict[str, Any]:
    """Run `python -m module arguments ...` with one BLAS thread.

    Returns the JSON in the last line of its output. Raises CalledProcessError if it fails.
    """
    run = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(run.stdout.splitlines()[-1])


def environment() -> dict[str, str]:
    """Return the environment of a process with one BLAS thread that can import `training`."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {**os.environ, **one, "PYTHONPATH": path}


class Failed(Exception):
    """A peer cannot be installed, or its process failed."""


def virtual_environment(folder: Path, requirements: Sequence[str]) -> Path:
    """Create an environment in `folder` with these requirements, unless it exists.

    Returns its interpreter. Raises Failed.
    """
    python = folder / "bin" / "python"
    done = folder / "installed.json"
    if not done.exists() or json.loads(done.read_text()) != list(requirements):
        venv.create(folder, clear=True, with_pip=False)
        command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
        run = subprocess.run([*command, *requirements], capture_output=True, text=True, check=False)
        if run.returncode:
            problem = run.stderr.strip()[-500:]
            raise Failed(f"{folder.name} cannot be installed: {problem}")
        done.write_text(json.dumps(requirements))
    return python
