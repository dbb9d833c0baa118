"""Check that commands end well when they are interrupted, share an output, or cannot write.

    python -m training.reliability.interrupts

Every command that does work is interrupted by SIGINT or SIGTERM at random moments, and must end
within two seconds with one line, the status of the signal, and no file half-written. Cold cases run
as the console script, from its call of `main` to its end; warm cases begin with everything
imported, in a forked process. Half of the cases replace an existing output. Half of the cold cases
interrupt all processes of the command, as Ctrl-C does.

With --record, figures are recorded in training/results/reliability.json:

interrupts  cases, commands: signals that a running command received; slowest_s: from the signal to
            the end of the process, wall time (a case that takes longer than 2 s is repeated twice
            on this shared machine, and the shortest time counts); half_written: outputs that are
            neither complete nor missing nor as before, or with unfinished files next to them;
            unclear: cases with another status or other lines on standard error; orphans: processes
            that outlive the command; resumed: interrupted trainings and `apply` that were run
            again, resumed_differently: with another result
threads     runs: threads that parse the same texts with one pipeline; texts; differences: results,
            with probabilities, that are not equal to those of one thread, bit for bit
writers     runs: two `apply` to the same output; refused: runs in which exactly one was refused
            with one line; half_written
disk_full   cases: commands that write to a full disk, with or without some room and earlier output;
            errors: cases that failed, since the others had enough room; unclear: without one line
            that names the output; lost: earlier output changed, or unfinished files left
read_only   the same for folders on a disk mounted for reading, without permission to write, and of
            another user

This needs fork and /proc. Disks are small tmpfs, which only root can mount; without root, disk_full
is left out, and read_only has only folders without permission.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tqdm import tqdm

import spacy_structlearn
from spacy_structlearn import __main__ as script
from spacy_structlearn import cli  # noqa: F401, before processes are forked
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.learning import training
from spacy_structlearn.pipeline import fitting
from spacy_structlearn.trees.brackets import read_trees
from training.common.recording import clean_commit, record, show
from training.reliability.kills import check_whole, is_part
from training.reliability.small_pipelines import SAMPLE, predictions, write_config, write_corpus

PATHS = "--paths.train {docs} --paths.dev {dev}"
COMMANDS = {
    "parse": "parse {texts} --model {parser}",
    "render": "render {texts} --model {parser} -o {out}/page.html",
    "apply file": "apply {model} {docs} {out}/parsed.jsonl",
    "apply": "apply {model} {docs} {out}/parts --part-size 2",
    "apply processes": "apply {model} {docs} {out}/parts --part-size 2 --batch-size 1 "
    "--n-process 2",
    "find": "find 'NP < DT' {trees}",
    "convert": "convert {trees} {out}/train.spacy --dev {out}/dev.spacy",
    "init-config": "init-config np_chunker constituency_parser -o {out}/config.cfg",
    "train crf": f"train {{crf}} -o {{out}}/pipeline {PATHS}",
    "train split_merge": f"train {{split_merge}} -o {{out}}/pipeline {PATHS} "
    "--components.constituency_parser.model.threads 2",
    "train log_linear": f"train {{log_linear}} -o {{out}}/pipeline {PATHS}",
    "adapt": "adapt {model} {docs} -o {out}/pipeline",
    "evaluate": "evaluate {model} {docs} --gold-tokens -o {out}/scores.json",
    "info": "info {model}",
    "package": "package {model} {out}/wheels",
    "upgrade": "upgrade {model} -o {out}/pipeline",
    "upgrade config": "upgrade {crf} -o {out}/config.cfg",
}
# Processes that it starts would import this module if it were forked.
COLD_ONLY = {"apply processes"}
# Further trainings write in the same way.
WRITERS = [
    name
    for name, command in COMMANDS.items()
    if "{out}" in command and name not in ("train split_merge", "train log_linear")
]
SIGNALS = (signal.SIGINT, signal.SIGTERM)
LIMIT = 2.0  # seconds from the signal to the end
TRIES = 3
STARTER = (
    "import os, sys\n"
    "from spacy_structlearn.__main__ import main\n"
    "os.write(int(sys.argv.pop(1)), b'.')\n"
    "main()"
)
THREADS, TEXTS = 8, 100
DISK = 16 << 20  # bytes of a disk that is filled
PAGE = 4096


# --- processes ------------------------------------------------------------------------------------
class Ended(NamedTuple):
    """A process that has ended. seconds: since the signal. said: its lines on standard error."""

    status: int
    seconds: float
    said: list[str]


class Process:
    """A command of `structlearn` in a process and a process group of its own.

    folder: for its streams and temporary files. cold: in a new interpreter, not in a forked one.
    powerless: without the permissions of root.
    """

    def __init__(
        self, arguments: Sequence[str], folder: Path, *, cold: bool = False, powerless: bool = False
    ):
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir(parents=True, exist_ok=True)
        ready, told = os.pipe()
        self.id = os.fork()
        if not self.id:
            self._run(arguments, told, cold, powerless)
        os.close(told)
        os.read(ready, 1)  # until `main` is called
        os.close(ready)
        self.began = time.monotonic()

    def _run(self, arguments: Sequence[str], told: int, cold: bool, powerless: bool) -> None:
        status: Any = 1
        try:
            os.setpgid(0, 0)
            for stream, name in ((1, "stdout"), (2, "stderr")):
                log = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(log, stream)
            os.environ["TMPDIR"] = tempfile.tempdir = str(self.temporary)
            if powerless and os.geteuid() == 0:
                _give_up_power()
            if cold:
                os.set_inheritable(told, True)
                os.execv(sys.executable, [sys.executable, "-c", STARTER, str(told), *arguments])
            training.CHECKPOINT_SECONDS = -1  # after each iteration
            sys.argv = ["structlearn", *arguments]
            os.write(told, b".")
            script.main()
            status = 0
        except SystemExit as error:
            status = error.code
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status if isinstance(status, int) else 1)

    def has_ended(self) -> bool:
        """Return whether it has ended; it is not forgotten then."""
        return os.waitid(os.P_PID, self.id, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def interrupt(self, number: int, moment: float, *, group: bool = False) -> Ended | None:
        """Send a signal so many seconds after the beginning. Return None if it has ended before."""
        time.sleep(max(0.0, self.began + moment - time.monotonic()))
        if self.has_ended():
            self.wait()
            return None
        began = time.monotonic()
        (os.killpg if group else os.kill)(self.id, number)
        return self.wait(began)

    def wait(self, began: float = 0.0) -> Ended:
        """Wait for the end. began: the time of the signal."""
        status = os.waitstatus_to_exitcode(os.waitpid(self.id, 0)[1])
        seconds = time.monotonic() - began
        said = (self.folder / "stderr").read_text("utf8", "replace").splitlines()
        return Ended(status if status >= 0 else 128 - status, seconds, said)

    def orphans(self) -> list[int]:
        """Return its processes that have not ended within the limit, after killing them."""
        until = time.monotonic() + LIMIT
        while (found := list(_group(self.id))) and time.monotonic() < until:
            time.sleep(0.01)
        for process in found:
            os.kill(process, signal.SIGKILL)
        return found


def _group(number: int) -> Iterator[int]:
    """Yield the living processes of a group."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it has ended
            continue
        if int(group) == number and state != "Z":
            yield int(stat.parent.name)


def _give_up_power() -> None:
    """Give up the capabilities of root, which include writing anywhere, but not its files."""
    libc = ctypes.CDLL(None)
    for capability in range(64):  # those that a new interpreter would have again
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
    version, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if libc.capset(version, nothing):
        raise OSError("capset failed")


# --- the commands ---------------------------------------------------------------------------------
class Usual(NamedTuple):
    """An undisturbed command. out: its output. seconds: if it is cold, or warm."""

    out: Path
    seconds: dict[bool, float]
    said: list[str]


def prepare(work: Path) -> dict[str, Path]:
    """Write the inputs of the commands. Return their paths by the names in COMMANDS."""
    paths = write_corpus(work)
    inputs = {"docs": Path(paths["paths.train"]), "dev": Path(paths["paths.dev"])}
    inputs |= {name: write_config(name, work / name) for name in ("crf", "split_merge")}
    inputs["log_linear"] = write_config("log_linear", work / "log_linear")
    inputs["model"] = work / "model"
    fitting.train(inputs["crf"], inputs["model"], overrides=paths, progress=False)
    inputs["parser"] = work / "parser"
    nlp = fitting.train(inputs["split_merge"], overrides=paths, progress=False)
    nlp.add_pipe("sentencizer", first=True)
    fitting.save(nlp, inputs["parser"])
    inputs["trees"] = SAMPLE / "sample.trees"
    inputs["texts"] = work / "texts.txt"
    inputs["texts"].write_text("\n\n".join(texts()[:20]), encoding="utf8")
    return inputs


def texts() -> list[str]:
    """Return sentences of the sample."""
    return [" ".join(tree.words()) for tree in read_trees(SAMPLE / "sample.trees")][:TEXTS]


def arguments_of(name: str, inputs: Mapping[str, Path], out: Path, *, again: bool) -> list[str]:
    """Return the arguments of one of COMMANDS. again: replace existing output."""
    more = ["--force"] if again and name.startswith("apply") else []
    return [part.format(**inputs, out=out) for part in shlex.split(COMMANDS[name])] + more


def undisturbed(name: str, inputs: Mapping[str, Path], work: Path, imports: float = 0.0) -> Usual:
    """Run a command to its end. Raises RuntimeError if it fails.

    imports: the seconds that a cold case takes in addition.
    """
    folder = work / f"{name} undisturbed"
    out = folder / "out"
    out.mkdir(parents=True)
    arguments = arguments_of(name, inputs, out, again=False)
    process = Process(arguments, folder, cold=name in COLD_ONLY)
    ended = process.wait(process.began)
    if ended.status:
        raise RuntimeError(f"{name} ended with {ended.status}: {ended.said}")
    more = 0.0 if name in COLD_ONLY else imports
    seconds = {True: ended.seconds + more, False: ended.seconds}
    return Usual(out, seconds, _without(ended.said, out))


def import_seconds(inputs: Mapping[str, Path], work: Path) -> float:
    """Return the difference between a cold and a warm run of a fast command."""
    arguments = arguments_of("init-config", inputs, work, again=False)
    seconds = {}
    for cold in (True, False):
        process = Process(arguments, work / "imports", cold=cold)
        seconds[cold] = process.wait(process.began).seconds
    return max(0.0, seconds[True] - seconds[False])


def _without(said: Iterable[str], out: Path) -> list[str]:
    """Leave out the path of the output, by which the lines of two runs differ."""
    return [line.replace(str(out), "") for line in said]


def is_damaged(out: Path, usual: Path, *, whole: bool) -> bool:
    """Return whether an output is not complete, or has unfinished files next to it.

    whole: nothing may be missing.
    """
    try:
        check_whole(out / "pipeline")
    except (StructlearnError, RuntimeError):
        return True
    if (out / "pipeline").exists() and not is_part(
        out / "pipeline", usual / "pipeline", whole=True
    ):
        return True
    return bool(leftovers(out)) or not is_part(out, usual, whole=whole)


def leftovers(out: Path) -> list[Path]:
    """Return hidden files and folders. The checkpoint of a training is meant to stay."""
    return [p for p in out.rglob(".*") if not p.name.endswith(".checkpoint")]


# --- interruptions --------------------------------------------------------------------------------
def interrupted(
    usuals: Mapping[str, Usual],
    inputs: Mapping[str, Path],
    work: Path,
    seed: int,
    warm: int,
    cold: int,
) -> dict[str, float]:
    """Interrupt commands, each `warm` times in a forked process and `cold` times in a new one."""
    found: Counter[str] = Counter()
    slowest = 0.0
    for name, usual in tqdm(usuals.items(), desc="interrupts", disable=None):
        rng = random.Random(f"{seed} {name}")
        modes = [True] * cold + [False] * (0 if name in COLD_ONLY else warm)
        for number, is_cold in enumerate(modes):
            seconds = _case(name, inputs, usual, work / f"{name} {number}", rng, is_cold, found)
            slowest = max(slowest, seconds)
        found["commands"] += 1
    return {
        f"interrupts.{key}": found[key]
        for key in ("cases", "commands", "half_written", "unclear", "orphans")
    } | {
        "interrupts.slowest_s": slowest,
        "interrupts.resumed": found["resumed"],
        "interrupts.resumed_differently": found["resumed_differently"],
    }


def _case(
    name: str,
    inputs: Mapping[str, Path],
    usual: Usual,
    folder: Path,
    rng: random.Random,
    cold: bool,
    found: Counter[str],
) -> float:
    """Interrupt a command once, and count what happens. Return the seconds until its end."""
    number, again, group = rng.choice(SIGNALS), rng.random() < 0.5, cold and rng.random() < 0.5
    moment = rng.uniform(0.0, usual.seconds[cold])
    shortest = float("inf")
    for _ in range(TRIES):
        out = folder / "out"
        shutil.rmtree(folder, ignore_errors=True)
        if again:
            shutil.copytree(usual.out, out)
        else:
            out.mkdir(parents=True)
        arguments = arguments_of(name, inputs, out, again=again)
        process = Process(arguments, folder, cold=cold)
        ended = process.interrupt(number, moment, group=group)
        if ended is None:
            moment *= 0.8
            continue
        found["cases"] += 1
        shortest = min(shortest, ended.seconds)
        problems = {
            "half_written": is_damaged(out, usual.out, whole=again) or _is_used(process.temporary),
            "unclear": not _is_clear(ended, number, usual, out),
            "orphans": bool(process.orphans()),
        }
        found.update(problem for problem, is_there in problems.items() if is_there)
        for problem in (problem for problem, is_there in problems.items() if is_there):
            files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))
            print(f"{problem}: {arguments} {number!r} after {moment:.3f} s: {ended} {files}")
        if ended.seconds <= LIMIT:
            break
        print(f"slow: {arguments} {number!r} after {moment:.3f} s: {ended}", flush=True)
    if shortest == float("inf"):  # it was faster than usual
        return 0.0
    if ended is not None and ended.status and name.startswith(("train", "apply")) and not again:
        found["resumed"] += 1
        status = Process(arguments, folder, cold=name in COLD_ONLY).wait().status
        if status or is_damaged(out, usual.out, whole=True) or list(out.rglob("*.checkpoint")):
            found["resumed_differently"] += 1
            print(f"resumed differently: {arguments} {number!r} after {moment:.3f} s", flush=True)
    shutil.rmtree(folder)
    return shortest


def _is_used(temporary: Path) -> bool:
    return any(temporary.iterdir())


def _is_clear(ended: Ended, number: int, usual: Usual, out: Path) -> bool:
    """Return whether a command ended by the signal with one line of its own, or had finished."""
    more = [line for line in _without(ended.said, out) if line not in usual.said]
    if ended.status == 0:
        return not more
    is_line = len(more) == 1 and more[0].startswith("structlearn: interrupted by ")
    return ended.status == 128 + number and is_line


# --- threads --------------------------------------------------------------------------------------
def in_threads() -> dict[str, float]:
    """Parse the same texts with one pipeline in some threads, and in one."""
    nlp = spacy_structlearn.load()
    inputs = texts()

    def parsed(_: int) -> list[Any]:
        return [predictions(nlp, [nlp.make_doc(text)]) for text in inputs]

    serial = parsed(0)
    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(parsed, range(THREADS)))
    differences = sum(a != b for one in results for a, b in zip(one, serial, strict=True))
    return {"threads.runs": THREADS, "threads.texts": len(inputs)} | {
        "threads.differences": differences
    }


# --- two writers ----------------------------------------------------------------------------------
def two_writers(
    usuals: Mapping[str, Usual], inputs: Mapping[str, Path], work: Path, runs: int
) -> dict[str, float]:
    """Run `apply` while another one writes to the same output."""
    figures: Counter[str] = Counter()
    for name in usuals.keys() & {"apply", "apply file"}:
        for number in range(runs):
            folder = work / f"{name} twice {number}"
            out = folder / "out"
            out.mkdir(parents=True)
            arguments = arguments_of(name, inputs, out, again=False)
            first = Process(arguments, folder / "first")
            while not list(out.rglob(".*.lock")):
                if first.has_ended():
                    raise RuntimeError(f"{first.wait()} without a lock")
            os.kill(first.id, signal.SIGSTOP)
            second = Process(arguments, folder / "second").wait()
            os.kill(first.id, signal.SIGCONT)
            statuses = (first.wait().status, second.status)
            is_clear = len(second.said) == 1 and "SL098" in second.said[0]
            figures["writers.runs"] += 1
            figures["writers.refused"] += statuses == (0, 1) and is_clear
            figures["writers.half_written"] += is_damaged(out, usuals[name].out, whole=True)
    return dict(figures)


# --- outputs that cannot be written ---------------------------------------------------------------
@contextmanager
def disk(place: Path) -> Iterator[Path]:
    """Mount a small disk."""
    place.mkdir()
    size = f"size={DISK},mode=0777"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)
        place.rmdir()


def fill(place: Path, room: int) -> None:
    """Fill a disk, except for some bytes."""
    with (place / "filler").open("wb") as file:
        while free := os.statvfs(place).f_bavail * PAGE - room:
            file.write(bytes(min(max(free, 0), 1 << 16)))
            file.flush()


def disk_full(
    usuals: Mapping[str, Usual], inputs: Mapping[str, Path], work: Path
) -> dict[str, float]:
    """Run commands that write to a full disk."""
    found: Counter[str] = Counter()
    for name, usual in tqdm(usuals.items(), desc="disk_full", disable=None):
        size = sum(p.stat().st_size for p in usual.out.rglob("*") if p.is_file())
        for again in (False, True):
            for room in (0, size // 2 // PAGE * PAGE):
                with disk(work / "disk") as place:
                    out = _output(place, usual, again)
                    fill(place, room)
                    _unwritable(name, inputs, usual, work / "case", out, again, found)
    return {f"disk_full.{key}": found[key] for key in ("cases", "errors", "unclear", "lost")}


def read_only(
    usuals: Mapping[str, Usual], inputs: Mapping[str, Path], work: Path
) -> dict[str, float]:
    """Run commands that write to a folder that they must not write to."""
    found: Counter[str] = Counter()
    is_root = os.geteuid() == 0
    for name, usual in tqdm(usuals.items(), desc="read_only", disable=None):
        for again in (False, True):
            if is_root:
                with disk(work / "mounted") as place:
                    out = _output(place, usual, again)
                    subprocess.run(["mount", "-o", "remount,ro", place], check=True)
                    _unwritable(name, inputs, usual, work / "case", out, again, found)
            for owner in (0, 65534) if is_root else (None,):
                place = work / "folder"
                place.mkdir()
                out = _output(place, usual, again)
                for folder in [place, *(p for p in place.rglob("*") if p.is_dir())]:
                    folder.chmod(0o755 if owner else 0o555)
                    if owner is not None:
                        os.chown(folder, owner, -1)
                _unwritable(name, inputs, usual, work / "case", out, again, found)
                for folder in [place, *(p for p in place.rglob("*") if p.is_dir())]:
                    folder.chmod(0o755)
                shutil.rmtree(place)
    return {f"read_only.{key}": found[key] for key in ("cases", "errors", "unclear", "lost")}


def _output(place: Path, usual: Usual, again: bool) -> Path:
    out = place / "out"
    if again:
        shutil.copytree(usual.out, out)
    else:
        out.mkdir()
    return out


def _unwritable(
    name: str,
    inputs: Mapping[str, Path],
    usual: Usual,
    folder: Path,
    out: Path,
    again: bool,
    found: Counter[str],
) -> None:
    """Run a command that cannot write its output, and count what happens."""
    arguments = arguments_of(name, inputs, out, again=again)
    process = Process(arguments, folder, powerless=True, cold=name in COLD_ONLY)
    ended = process.wait()
    more = [line for line in _without(ended.said, Path("-")) if line not in usual.said]
    is_clear = len(more) == 1 and more[0].startswith("structlearn: ") and str(out) in more[0]
    problems = {
        "errors": ended.status != 0,
        "unclear": ended.status != 0 and not (ended.status == 1 and is_clear),
        "lost": is_damaged(out, usual.out, whole=again or not ended.status)
        or _is_used(process.temporary)
        or bool(list(out.rglob("*.checkpoint")) and again),
    }
    found["cases"] += 1
    found.update(problem for problem, is_there in problems.items() if is_there)
    if problems["unclear"] or problems["lost"]:
        files = sorted(str(p.relative_to(out)) for p in out.rglob("*"))
        print(f"{[p for p in problems if problems[p]]}: {arguments} {ended} {files}", flush=True)
    shutil.rmtree(folder)


# --- the command ----------------------------------------------------------------------------------
PARTS = ("interrupts", "threads", "writers", "disk_full", "read_only")


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Run the command line and return the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", default=PARTS, choices=PARTS)
    parser.add_argument("--commands", nargs="*", default=list(COMMANDS), choices=list(COMMANDS))
    parser.add_argument("--warm", type=int, default=11, help="number of warm cases of each command")
    parser.add_argument("--cold", type=int, default=3, help="number of cold cases of each command")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", action="store_true", help="write the figures to the results")
    args = parser.parse_args(arguments)
    if args.record:
        clean_commit()
    # Background jobs of a shell ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    figures: dict[str, float] = {}
    with TemporaryDirectory() as folder:
        work = Path(folder)
        inputs = prepare(work)
        imports = import_seconds(inputs, work)
        usuals = {
            name: undisturbed(name, inputs, work, imports)
            for name in tqdm(args.commands, desc="undisturbed", disable=None)
            if name in WRITERS or "interrupts" in args.only
        }
        writers = {name: usuals[name] for name in WRITERS if name in usuals}
        if "interrupts" in args.only:
            figures |= interrupted(usuals, inputs, work, args.seed, args.warm, args.cold)
        if "writers" in args.only:
            figures |= two_writers(usuals, inputs, work, 3)
        if "disk_full" in args.only and os.geteuid() == 0:
            figures |= disk_full(writers, inputs, work)
        elif "disk_full" in args.only:
            print("disk_full is left out: only root can mount a disk")
        if "read_only" in args.only:
            figures |= read_only(writers, inputs, work)
        # Last, because threads are not forked.
        if "threads" in args.only:
            figures |= in_threads()
    show(figures)
    if args.record:
        record("reliability", figures)
    return figures


if __name__ == "__main__":
    main()
