"""Check that killed trainings are resumed without a difference.

    python -m training.reliability --only kills

`structlearn train` of small pipelines is killed several times, and restarted with the same
arguments until it ends. Then every file must be the same as after an uninterrupted training. Kills
are at a random time, before a random file operation, or by a maximum file size, at which the kernel
kills the process in the middle of a write. Checkpoints are written after each iteration. This needs
fork. In results/reliability.json: kill.resume.kills, .runs, .families, and .different, the number
of runs that ended with other files.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.sharedctypes import Value
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tqdm import tqdm

from spacy_structlearn import cli
from spacy_structlearn.learning import training
from spacy_structlearn.pipeline.storage import digests
from training.reliability.small_pipelines import write_config, write_corpus

FAMILIES = (
    *("crf", "latent", "product", "span", "conditional", "isbn", "m_estimated"),
    *("bayes_net", "log_linear", "stages"),
)
WAYS = ("time", "step", "torn")
KILLED = (signal.SIGKILL, signal.SIGXFSZ)
RUNS, KILLS = 3, 4  # killed trainings of each pipeline, and kills of each


def hear_steps(folder: Path, seen: Any, last: int | None = None) -> None:
    """Count the file operations of this process in a folder, and kill it before the last."""

    def hear(event: str, args: tuple) -> None:
        changes = event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir")
        if event == "open":
            changes = bool(args[2] & (os.O_WRONLY | os.O_RDWR))
        if changes and str(args[0]).startswith(str(folder)):
            if seen.value == last:
                os.kill(os.getpid(), signal.SIGKILL)
            seen.value += 1

    sys.addaudithook(hear)


def run_command(arguments: Sequence[object], folder: Path) -> tuple[float, int]:
    """Run a command of `structlearn` to its end. Return seconds and file operations in a folder."""
    seen = Value("q", lock=False)  # shared with the other process

    def counted() -> None:
        hear_steps(folder, seen)
        command(arguments)

    began = time.monotonic()
    _wait(fork(counted, folder), folder, (0,))
    return time.monotonic() - began, seen.value


def kill_command(
    arguments: Sequence[object], folder: Path, way: str, moment: float, step: int, most: int
) -> bool:
    """Run a command and kill it in one of WAYS. Return whether it was killed before its end.

    moment, step, most: seconds, file operations, or bytes of a file until it is killed.
    Raises RuntimeError if the command fails.
    """

    def disturbed() -> None:
        if way == "step":
            hear_steps(folder, Value("q", lock=False), step)
        elif way == "torn":
            # By default, Python raises an error instead.
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        command(arguments)

    process = fork(disturbed, folder)
    if way == "time":
        time.sleep(moment)
        # The process group, with all child processes.
        os.killpg(process, signal.SIGKILL)
    return _wait(process, folder, (0, *(-number for number in KILLED))) != 0


def command(arguments: Sequence[object]) -> None:
    """Run a command of `structlearn` in this process. Checkpoints are written at each iteration."""
    training.CHECKPOINT_SECONDS = -1
    cli.app([str(argument) for argument in arguments], standalone_mode=False)


def fork(function: Callable[[], None], folder: Path) -> int:
    """Call a function in a child process, with its output in a file next to `folder`.

    Return the id of the process.
    """
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        os.setpgid(0, 0)
        log = os.open(f"{folder}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        function()
        status = 0
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}".encode())
    finally:
        sys.stdout.flush()
        os._exit(status)


def exit_code(process: int) -> int:
    """Wait for the end of a process."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _wait(process: int, folder: Path, expected: Iterable[int]) -> int:
    """Return the exit code of a process. Raises RuntimeError if it is another than expected."""
    status = exit_code(process)
    if status not in expected:
        log = Path(f"{folder}.log").read_text(encoding="utf8", errors="replace")
        raise RuntimeError(f"ended with {status}: {log[-500:]}")
    return status


def train_killed(name: str, work: Path, runs: int = RUNS, kills: int = KILLS) -> Counter[str]:
    """Train a small pipeline without interruption, and `runs` times with at most `kills` kills.

    The last run overwrites an existing pipeline. Return the numbers of runs, kills and runs that
    ended with other files.
    """
    rng, counts = random.Random(name), Counter(families=1)
    write_corpus(work)
    config = write_config(name, work)

    def arguments(folder: Path) -> list[str]:
        folder.mkdir(exist_ok=True)
        return ["train", str(config), "-o", str(folder / "pipeline")]

    calm = work / "calm"
    seconds, steps = run_command(arguments(calm), calm)
    sizes = [path.stat().st_size for path in calm.rglob("*") if path.is_file()]
    for number in range(runs):
        folder = work / f"killed{number}"
        if number == runs - 1:
            shutil.copytree(calm / "pipeline", folder / "pipeline")
        for attempt in range(kills):
            way, most = WAYS[(attempt + number) % len(WAYS)], max(rng.choice(sizes), 1)
            last = rng.uniform(0, seconds), rng.randrange(steps), rng.randrange(most)
            counts["kills"] += kill_command(arguments(folder), folder, way, *last)
            if (folder / "pipeline").exists():
                digests.check(folder / "pipeline")  # raises an error if it is not complete
        run_command(arguments(folder), folder)
        counts["runs"] += 1
        counts["different"] += not same_files(calm, folder)
    return counts


def same_files(one: Path, other: Path) -> bool:
    """Return whether two folders have the same files with the same content, or two files have."""
    kept = [
        {
            path.relative_to(top): path.read_bytes()
            for path in (top, *top.rglob("*"))
            if path.is_file()
        }
        for top in (one, other)
    ]
    return kept[0] == kept[1]


def run(families: Iterable[str] = FAMILIES) -> dict[str, int]:
    """Kill trainings of small pipelines and return the figures."""
    total: Counter[str] = Counter()
    for name in tqdm(families, "families", disable=None):
        with TemporaryDirectory() as work:
            total += train_killed(name, Path(work))
    return {f"kill.resume.{key}": total[key] for key in ("kills", "runs", "families", "different")}
