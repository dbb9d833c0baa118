"""Measurements and training in separate processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
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
