"""One stage of one system of benchmarks/peers, in a process that measures itself.

    python worker.py MODULE SYSTEM STAGE FOLDER RESULT [OPTIONS]

MODULE is ours or others, and STAGE is train or predict. The model is in FOLDER/model.
train.json, with inputs and outputs of train and dev, and test.json, with inputs of test, are next
to FOLDER. The figures of `measured` are written to RESULT, a JSON file. OPTIONS is JSON. Only the
standard library is imported, because this also runs in the virtual environments of peers.
"""

from __future__ import annotations

import importlib
import json
import resource
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

WARM_UP = 20  # items predicted before timing
SECONDS = 1.0  # minimum CPU time of repeated predictions

Predict = Callable[[Sequence[Any]], list[Any]]


class System(Protocol):
    """A system to compare: its settings, training and prediction."""

    def setup(self) -> None:
        """Import libraries before timing. Raises ImportError if they are missing."""

    def train(
        self, train: dict[str, list], dev: dict[str, list], folder: Path, options: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Train on `inputs` and `outputs`, and save only the model in `folder`.

        Returns additional figures.
        """

    def load(self, folder: Path) -> Predict:
        """Load the model, and return its function from inputs to outputs."""


def cpu_s() -> float:
    """Return the CPU seconds of this process and of its finished child processes."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def peak_mb() -> float:
    """Return the peak resident memory of this process, MB of 1,048,576 bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # On Linux, ru_maxrss is at least the memory of the parent when it started this process.
        (line,) = [x for x in status.read_text().splitlines() if x.startswith("VmHWM:")]
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(system: System, stage: str, folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Run one stage. CPU seconds do not include imports and reading data or models. Prediction is
    repeated for SECONDS, and measured per pass.

    Returns cpu_s and rss_mb, for training the figures of the system, for prediction the outputs.
    """
    model = folder / "model"
    system.setup()
    if stage == "train":
        data = json.loads((folder.parent / "train.json").read_text(encoding="utf8"))
        shutil.rmtree(model, ignore_errors=True)
        model.mkdir()
        start = cpu_s()
        found = system.train(data["train"], data["dev"], model, options) or {}
        return {"cpu_s": cpu_s() - start, "rss_mb": peak_mb(), **found}
    inputs = json.loads((folder.parent / "test.json").read_text(encoding="utf8"))
    predict = system.load(model)
    predict(inputs[:WARM_UP])
    passes, start = 0, cpu_s()
    while passes == 0 or cpu_s() - start < SECONDS:
        outputs = predict(inputs)
        passes += 1
    if len(outputs) != len(inputs):
        raise ValueError(f"{len(outputs)} outputs of {len(inputs)} inputs")
    return {"cpu_s": (cpu_s() - start) / passes, "rss_mb": peak_mb(), "outputs": outputs}


def main() -> None:
    module, name, stage, folder, result, *rest = sys.argv[1:]
    system = importlib.import_module(module).SYSTEMS[name]
    found = measured(system, stage, Path(folder), json.loads(rest[0]) if rest else {})
    Path(result).write_text(json.dumps(found), encoding="utf8")


if __name__ == "__main__":
    main()
