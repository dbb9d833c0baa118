"""Check that killed commands can be resumed without a difference.

    python -m training.reliability.kills

`structlearn train` of each small pipeline is killed by SIGKILL, or interrupted during a write,
several times, and restarted with the same arguments until it ends. Then every file must be the same
as after an uninterrupted training. Kills are drawn with a seed, in three ways: at a random time;
before a random file operation (opening for writing, renaming or removing); and by a maximum file
size, at which the kernel kills the process in the middle of a write. Checkpoints are written after
each iteration, instead of twice a minute.

Commands that write a file or folder are killed in the same ways. Unfinished files must not exist,
and existing files must be complete.

This needs fork, so it does not run on Windows. With --record, figures are recorded in
training/results/reliability.json: kill.resume.difference (maximum difference between numbers in a
model), .kills, .runs and .families; kill.writers.damaged, .kills and .runs.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import srsly
from spacy.tokens import DocBin
from tqdm import tqdm

from spacy_structlearn import cli, serialization
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.learning import training
from spacy_structlearn.pipeline.storage import digests
from training.common.recording import record, show
from training.reliability.small_pipelines import SAMPLE, SMALL, write_config, write_corpus

FAMILIES = (
    "crf",
    "split_merge",
    "span",
    "conditional",
    "isbn",
    "m_estimated",
    "bayes_net",
    "log_linear",
    "roles",
    "product",
)
WAYS = ("time", "step", "torn")
KILLED = (signal.SIGKILL, signal.SIGXFSZ)
PATIENCE = 20  # maximum number of kills of one training, so that it ends


# --- killing processes ----------------------------------------------------------------------------
@dataclass
class Undisturbed:
    """An uninterrupted command: its seconds, file operations, and sizes of files."""

    seconds: float
    steps: int
    sizes: list[int] = field(default_factory=list)


def run_command(arguments: Sequence[str], watched: Path) -> tuple[float, int]:
    """Run a command of `structlearn` to its end. Return seconds and file operations."""
    counted = watched.with_name(f"{watched.name}.steps")

    def count() -> None:
        steps = _Steps(watched)
        command(arguments)
        counted.write_text(str(steps.seen), encoding="ascii")

    began = time.monotonic()
    status = _wait(_fork(count, watched))
    seconds = time.monotonic() - began
    if status:
        raise RuntimeError(f"{arguments[0]} ended with {status}: {_said(watched)}")
    return seconds, int(counted.read_text(encoding="ascii"))


def kill_command(
    arguments: Sequence[str], watched: Path, way: str, usual: Undisturbed, rng: random.Random
) -> bool:
    """Run a command and kill it in one of WAYS. Return whether it was killed before its end.

    Raises RuntimeError if the command fails.
    """
    moment = rng.uniform(0.0, usual.seconds)
    step = rng.randrange(max(usual.steps, 1))
    size = rng.randrange(max(rng.choice(usual.sizes or [1]), 1))

    def disturbed() -> None:
        if way == "step":
            _Steps(watched, step)
        elif way == "torn":
            # By default, Python raises an error instead.
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        command(arguments)

    process = _fork(disturbed, watched)
    if way == "time":
        time.sleep(moment)
        # Kill the process group, with all child processes.
        os.killpg(process, signal.SIGKILL)
    status = _wait(process)
    if status and -status not in KILLED:
        raise RuntimeError(f"{arguments[0]} ended with {status}: {_said(watched)}")
    return status != 0


class _Steps:
    """Counts the file operations of this process in a folder, and kills it before one of them."""

    def __init__(self, folder: Path, last: int | None = None):
        self.seen = 0
        self._folder, self._last = str(folder), last
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple) -> None:
        if event == "open":
            changes = bool(args[2] & (os.O_WRONLY | os.O_RDWR))
        else:
            changes = event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir")
        if not changes or not str(args[0]).startswith(self._folder):
            return
        if self.seen == self._last:
            os.kill(os.getpid(), signal.SIGKILL)
        self.seen += 1


def command(arguments: Sequence[str]) -> None:
    """Run a command of `structlearn` in this process."""
    training.CHECKPOINT_SECONDS = -1
    cli.app([str(argument) for argument in arguments], standalone_mode=False)


def _fork(function: Callable[[], None], watched: Path) -> int:
    """Call a function in a child process, with its output in a file next to `watched`."""
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        os.setpgid(0, 0)
        log = os.open(_log(watched), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(log, stream)
        function()
        status = 0
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}".encode())
    finally:
        sys.stdout.flush()
        os._exit(status)


def _wait(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _log(watched: Path) -> Path:
    return watched.with_name(f"{watched.name}.log")


def _said(watched: Path) -> str:
    return _log(watched).read_text(encoding="utf8", errors="replace")[-500:]


# --- trainings ------------------------------------------------------------------------------------
@dataclass
class Resumed:
    """Results of trainings that were killed and resumed."""

    runs: int = 0
    kills: int = 0
    difference: float = 0.0


def train_killed(name: str, work: Path, seed: int, runs: int, kills: int) -> Resumed:
    """Train one of SMALL without interruption, and `runs` times with at most `kills` kills.

    The last run overwrites an existing pipeline.
    """
    rng = random.Random(f"{seed} {name}")
    overrides = [f"--{key}={value}" for key, value in write_corpus(work).items()]
    config = write_config(name, work / "config.cfg")
    result = Resumed()

    def arguments(folder: Path) -> list[str]:
        return ["train", str(config), "-o", str(folder / "pipeline"), *overrides]

    calm = _folder(work / "calm")
    seconds, steps = run_command(arguments(calm), calm)
    usual = Undisturbed(seconds, steps, [p.stat().st_size for p in _files(calm)])
    for number in range(runs):
        folder = _folder(work / f"killed{number}")
        if number == runs - 1:
            shutil.copytree(calm / "pipeline", folder / "pipeline")
        for attempt in range(min(kills, PATIENCE)):
            way = WAYS[(attempt + number) % len(WAYS)]
            if kill_command(arguments(folder), folder, way, usual, rng):
                result.kills += 1
            check_whole(folder / "pipeline")
        run_command(arguments(folder), folder)
        result.runs += 1
        result.difference = max(result.difference, difference(calm, folder))
    return result


def check_whole(pipeline: Path) -> None:
    """Check that a pipeline is complete if it exists. Raises StructlearnError."""
    if pipeline.exists():
        digests.check(pipeline)
        if not (pipeline / digests.DIGESTS).is_file():
            raise RuntimeError(f"{pipeline} is there without its digests")


def difference(one: Path, other: Path) -> float:
    """Return the maximum difference between numbers of models in two folders of pipelines.

    0.0: all files are equal, and there are no others. inf: something else differs.
    """
    names = [sorted(p.relative_to(root) for p in _files(root)) for root in (one, other)]
    if names[0] != names[1]:
        return np.inf
    differ = [n for n in names[0] if not filecmp.cmp(one / n, other / n, shallow=False)]
    largest = 0.0
    for name in differ:
        if name.name != "model":
            continue
        sides = [list(arrays((root / name).read_bytes())) for root in (one, other)]
        if [a.shape for a in sides[0]] != [a.shape for a in sides[1]]:
            return np.inf
        for a, b in zip(*sides, strict=True):
            apart = a != b  # both can be infinite
            largest = max(largest, float(np.abs(a[apart] - b[apart]).max(initial=0.0)))
    return largest or (np.inf if differ else 0.0)


def arrays(value: Any) -> Iterator[np.ndarray]:
    """Yield all arrays in the fields of a model and of its inner models, as doubles."""
    if isinstance(value, np.ndarray):
        inner = value.tobytes()
        if value.dtype == np.uint8 and inner.startswith(serialization.MAGIC):
            yield from arrays(inner)
        else:
            yield value.astype(np.float64)
    elif isinstance(value, bytes) and value.startswith(serialization.MAGIC):
        yield from arrays(_fields(value))
    elif isinstance(value, bytes):
        yield from arrays(srsly.msgpack_loads(value)) if value[:1] == b"\x84" else ()
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            yield from arrays(value[key])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from arrays(item)
    elif isinstance(value, (int, float)):
        yield np.array([value], dtype=np.float64)


def _fields(data: bytes) -> dict[str, Any]:
    """Unpack fields of any kind."""
    try:
        return serialization.unpack(data, "", range(100))[1]
    except StructlearnError as error:
        return serialization.unpack(data, error.fields["found"], range(100))[1]


# --- commands that write --------------------------------------------------------------------------
@dataclass
class Written:
    """Results of commands that were killed while they were writing."""

    runs: int = 0
    kills: int = 0
    damaged: int = 0


WRITERS = ("convert", "apply", "package")


def write_killed(work: Path, seed: int, kills: int, names: Sequence[str] = WRITERS) -> Written:
    """Kill `structlearn convert`, `apply` and `package` while they are writing."""
    rng = random.Random(f"{seed} writers")
    overrides = [f"--{key}={value}" for key, value in write_corpus(work).items()]
    model = work / "model"
    config = write_config("hmm", work / "hmm.cfg")
    run_command(["train", str(config), "-o", str(model), *overrides], model)
    docs = work / "train.spacy"
    sample = [f"--props={SAMPLE / 'sample.props'}", f"--spaces={SAMPLE / 'sample.spaces'}"]
    commands: dict[str, Callable[[Path], list[str]]] = {
        "convert": lambda out: [
            "convert",
            str(SAMPLE / "sample.trees"),
            str(out / "train.spacy"),
            f"--dev={out / 'dev.spacy'}",
            *sample,
        ],
        "apply": lambda out: ["apply", str(model), str(docs), str(out), "--part-size=2"],
        "package": lambda out: ["package", str(model), str(out)],
    }
    result = Written()
    # Files of killed processes are deleted with this folder.
    kept, tempfile.tempdir = tempfile.tempdir, str(work)
    os.environ["TMPDIR"] = str(work)
    try:
        for name in names:
            _kill_writer(name, commands[name], work, kills, rng, result)
    finally:
        tempfile.tempdir = kept
        del os.environ["TMPDIR"]
    return result


def _kill_writer(
    name: str,
    arguments: Callable[[Path], list[str]],
    work: Path,
    kills: int,
    rng: random.Random,
    result: Written,
) -> None:
    calm = _folder(work / f"{name}.calm")
    seconds, steps = run_command(arguments(calm), calm)
    usual = Undisturbed(seconds, steps, [p.stat().st_size for p in _files(calm)])
    # Building a wheel takes seconds.
    for attempt in range(kills if name != "package" else max(kills // 4, 1)):
        folder = _folder(work / f"{name}{attempt}")
        way = ("step", "torn", "time")[attempt % 3] if name != "package" else "step"
        result.kills += kill_command(arguments(folder), folder, way, usual, rng)
        result.damaged += not is_part(folder, calm)
        run_command(arguments(folder), folder)
        result.damaged += not is_part(folder, calm, whole=True)
        result.runs += 1


def is_part(folder: Path, calm: Path, *, whole: bool = False) -> bool:
    """Return whether all files are equal to those of the uninterrupted run. whole: none is missing.

    Hidden files, which were being written when the process was killed, are ignored.
    """
    found, wanted = (
        {p.relative_to(root) for p in _files(root) if not p.name.startswith(".")}
        for root in (folder, calm)
    )
    same = all(_same(folder / name, calm / name) for name in found & wanted)
    return same and found <= wanted and not (whole and found != wanted)


def _same(one: Path, other: Path) -> bool:
    if one.suffix == ".whl":  # contains the time
        with zipfile.ZipFile(one) as archive, zipfile.ZipFile(other) as wanted:
            return archive.testzip() is None and archive.namelist() == wanted.namelist()
    if one.suffix == ".spacy":
        first, second = (list(DocBin().from_disk(path).tokens) for path in (one, other))
        return len(first) == len(second) and all(
            np.array_equal(a, b) for a, b in zip(first, second, strict=True)
        )
    if one.name == "scores.json":  # contains the speed
        return srsly.read_json(one).keys() == srsly.read_json(other).keys()
    return filecmp.cmp(one, other, shallow=False)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


# --- the command ----------------------------------------------------------------------------------
def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Run the command line and return the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--families", nargs="*", default=FAMILIES, choices=sorted(SMALL))
    parser.add_argument(
        "--runs", type=int, default=3, help="number of killed trainings of each pipeline"
    )
    parser.add_argument("--kills", type=int, default=4, help="number of kills of each training")
    parser.add_argument(
        "--writer-kills", type=int, default=12, help="number of kills of each command"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", action="store_true", help="write the figures to the results")
    args = parser.parse_args(arguments)
    total = Resumed()
    for name in tqdm(args.families, desc="families", disable=None):
        with TemporaryDirectory() as work:
            found = train_killed(name, Path(work), args.seed, args.runs, args.kills)
        if found.difference:
            print(f"{name}: a difference of {found.difference}")
        total.runs += found.runs
        total.kills += found.kills
        total.difference = max(total.difference, found.difference)
    figures: dict[str, float] = {
        "kill.resume.difference": total.difference,
        "kill.resume.kills": total.kills,
        "kill.resume.runs": total.runs,
        "kill.resume.families": len(args.families),
    }
    if args.writer_kills:
        with TemporaryDirectory() as work:
            written = write_killed(Path(work), args.seed, args.writer_kills)
        figures |= {f"kill.writers.{name}": value for name, value in vars(written).items()}
    show(figures)
    if args.record:
        record("reliability", figures)
    return figures


if __name__ == "__main__":
    main()
