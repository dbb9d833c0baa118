"""Measurements and trainings in processes of their own."""

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
    """What the function returns when a process of its own calls it."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def measured(module: str, *arguments: Any) -> dict[str, Any]:
    """Run `python -m module arguments ...` with one thread of BLAS.

    Returns the JSON of the last line that it prints. Raises CalledProcessError if it fails.
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
    """The environment of a process with one thread of BLAS, which can import `training`."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {**os.environ, **one, "PYTHONPATH": path}
