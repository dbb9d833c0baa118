"""One stage of one system of benchmarks/peers: a process of its own, which measures itself.

    python worker.py MODULE SYSTEM STAGE FOLDER RESULT [OPTIONS]

MODULE is peers_ours or peers_others, STAGE is train or predict. The model is kept in FOLDER/model;
train.json, with inputs and outputs of train and dev, and test.json, with inputs of test, are next
to FOLDER. RESULT, a JSON file, gets the figures of `measured`; OPTIONS is JSON. Nothing but the
standard library is imported here, because this also runs in the peers' own virtual environments.
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

WARM_UP = 20  # items that are predicted before the clock runs
SECONDS = 1.0  # of CPU, that prediction is repeated for

Predict = Callable[[Sequence[Any]], list[Any]]


class System(Protocol):
    """What is compared: its settings, and how it learns and predicts."""

    def setup(self) -> None:
        """Import its libraries, before any clock runs. Raises ImportError if they are missing."""

    def train(
        self, train: dict[str, list], dev: dict[str, list], folder: Path, options: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Learn from `inputs` and `outputs`, and save the model in `folder`, alone there.

        Returns more figures, if any.
        """

    def load(self, folder: Path) -> Predict:
        """The model of `train`, as a function of inputs."""


def cpu_s() -> float:
    """CPU seconds of this process, and of those that it started and that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def peak_mb() -> float:
    """Peak resident memory of this process, MB of 1,048,576 bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # On Linux the other figure is at least what the parent had when it started this process.
        (line,) = [x for x in status.read_text().splitlines() if x.startswith("VmHWM:")]
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(system: System, stage: str, folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Run one stage. CPU seconds are without imports, and without reading the data or the model;
    of prediction they are those of a pass, of as many as take SECONDS.

    Returns cpu_s and rss_mb; of training also what the system adds; of prediction the outputs.
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
