"""Fuzz kernels, models, corpus files and whole pipelines with ten million inputs.

    python -m training.reliability.fuzz
    python -m training.reliability.fuzz --inputs 20000 --documents 100 --no-record
    python -m training.reliability.fuzz --target kernels.sequence.chain._chain --input 759

First, small pipelines of every architecture are trained (`fuzz_targets.workloads`), and their calls
of kernels are recorded. The fuzzer mutates these calls, stored models and files of corpora. Kernels
are built in WORK by GCC with the address and undefined-behaviour sanitizers, and this copy of the
package is used in all processes of the targets, except for those of pipelines, which are slower.

Everything is created once, in a process that forks for each part of a target. A fork takes one
input after another, and ends when it has used 20 CPU seconds or dies; then the target goes on with
the next input. Each input is determined by the target, the seed and its number: --input repeats
one. WORK/COMMIT has what is done, so a run that was cut off goes on; --fresh starts again.

An input fails if a sanitizer reports an error, the process dies, an undocumented exception is
raised (kernels may raise ValueError, TypeError, OverflowError, and MemoryError for the size of an
array), the output is invalid (`fuzz_targets.checks`), it takes more than 60 CPU seconds, or the
process uses more than 2 GB. WORK/COMMIT/failures has the report of each. After ten failures, a
target is aborted. In training/results/reliability.json:

fuzz.inputs                 number of inputs of kernels, loaders, readers and small pipelines
fuzz.documents              number of documents in the default pipeline
fuzz.sanitized              number of inputs that ran with the sanitizers
fuzz.failures               number of failures
fuzz.GROUP.inputs           number of inputs of kernels, loaders, readers or pipelines
fuzz.GROUP.NAME.inputs      of one target; the default pipeline gets 32 documents per input
fuzz.GROUP.NAME.answered    % of them that were not refused
fuzz.GROUP.NAME.refusals    number of different refusals
fuzz.slowest_s, peak_mb     CPU seconds of the slowest input, and the peak memory of a process
fuzz.cpu_s                  CPU seconds of all inputs
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import srsly
from tqdm import tqdm

from training.common.recording import WORK, clean_commit, git, peak_mb, record, show
from training.reliability.fuzz_targets import building

RESULTS, MODULE = "reliability", "training.reliability.fuzz"
INPUTS, DOCUMENTS = 10_000_000, 100_000
SECONDS = 60  # CPU seconds of an input; a wide search takes 20 with the sanitizers
PART_S = 20  # CPU seconds of a part
MEGABYTES = 2048
MOST_FAILURES = 10  # of a target, before it is aborted
BLOCK = 1024  # inputs whose bytes are drawn together
LENGTH = 96  # bytes of an input
SENTENCES = 8  # fewer sentences lead to smaller models and more inputs per second
BUILDS = ("sanitized", "ordinary")
SEEDS, CALLS = "seeds", "calls.pickle"  # a folder in that of the commit, and a file in it
RESUMED = (
    "crf", "crf_l1", "memm", "pseudolikelihood", "m_estimation", "latent", "product",
    "conditional", "span", "m_estimated", "isbn", "log_linear", "stages",
)  # fmt: skip
# Shares of the inputs of a target or a group: those of most kernels are 1, and slower targets get
# fewer.
SHARES = {"kernels": 1.0, "readers": 0.5, "loaders": 0.02, "pipelines": 0.0005}
SHARES |= {"kernels.grammar.chart._chart": 0.1, "kernels.isbn._search": 0.3}
SHARES["kernels.grammar.spans._features"] = 0.5
SHARES |= {
    f"readers.{name}": 0.2 for name in ("brackets", "docbin_content", "trees", "spaces", "tregex")
}


def targets(inputs: int, documents: int) -> dict[str, int]:
    """Return the names of all targets, with their numbers of inputs.

    inputs: of all targets but the default pipeline. documents: for the default pipeline.
    """
    from training.reliability.fuzz_targets import workloads
    from training.reliability.fuzz_targets.kernels import MODULES
    from training.reliability.fuzz_targets.pipeline import BATCH
    from training.reliability.fuzz_targets.readers import FORMATS

    names = [f"kernels.{module}" for module in MODULES]
    names += [f"readers.{name}" for name in FORMATS]
    names += [f"loaders.{name}" for name in (*workloads.CONFIGS, "serialization", "trainers")]
    names += ["pipelines.small"]
    shares = {name: SHARES.get(name, SHARES[name.partition(".")[0]]) for name in names}
    whole = sum(shares.values())
    found = {name: -int(-inputs * share // whole) for name, share in shares.items()}
    return found | {"pipelines.default": -(-documents // BATCH)}


def build_of(name: str, args: argparse.Namespace) -> str:
    """Return which build of the kernels a target uses."""
    return BUILDS[args.ordinary or name.startswith("pipelines.")]


@lru_cache(1)
def _block(name: str, seed: int, number: int) -> bytes:
    return np.random.default_rng([crc32(name.encode()), seed, number]).bytes(BLOCK * LENGTH)


def data_of(name: str, seed: int, number: int) -> bytes:
    """Return the bytes of an input."""
    begin = LENGTH * (number % BLOCK)
    return _block(name, seed, number // BLOCK)[begin : begin + LENGTH]


# --- targets --------------------------------------------------------------------------------------
def prepare(folder: Path, sentences: int = SENTENCES, only: Iterable[str] | None = None) -> None:
    """Train the small pipelines, and write them and their kernel calls to `folder`."""
    import spacy_structlearn
    from training.reliability.fuzz_targets import kernels, workloads

    folder.mkdir(parents=True, exist_ok=True)
    # Learn classes while calls are recorded.
    (folder / workloads.CLASSES_FILE).unlink(missing_ok=True)
    with kernels.recording() as recorder:
        for name in tqdm(workloads.names(only), desc="train", disable=None):
            trained = workloads.train(name, folder, sentences)
            for _ in workloads.predictions(trained):
                pass
        spacy_structlearn.load()(workloads.TEXT)
    # Train again, because models trained during recording contain recording wrappers.
    for name in tqdm(workloads.names(only), desc="store", disable=None):
        workloads.save(workloads.train(name, folder, sentences), folder / f"{name}.pickle")
    kernels.save(recorder.all(), folder / CALLS)


def target(name: str, folder: Path) -> Callable[[bytes], str]:
    """Return the function that is called with each input, and returns what became of it.

    folder: that of `prepare`.
    """
    from training.reliability.fuzz_targets import kernels, loaders, pipeline, readers, workloads

    # Otherwise all entry points of the environment are searched in each call.
    for registry in (srsly.msgpack_encoders, srsly.msgpack_decoders):
        registry.get_all = partial(dict, registry.get_all())

    def trained(names: Iterable[str]) -> dict[str, workloads.Trained]:
        paths = {name: folder / f"{name}.pickle" for name in names}
        return {name: workloads.load(path) for name, path in paths.items() if path.exists()}

    group, _, rest = name.partition(".")
    if group == "kernels":
        return kernels.Kernel(rest, kernels.load(folder / CALLS))
    if group == "readers":
        return readers.Reader(rest)
    if name == "loaders.trainers":
        return loaders.Trainers(list(trained(RESUMED).values()))
    if name == "loaders.serialization":
        return loaders.Serialization(list(trained(("crf", "latent", "bayes_net")).values()))
    if group == "loaders":
        return loaders.Loader(trained([rest])[rest])
    if rest == "default":
        return pipeline.Documents()
    return pipeline.Pipelines(pipeline.mixed(trained(workloads.CONFIGS)))


# --- parts ----------------------------------------------------------------------------------------
class Part(NamedTuple):
    """What became of the inputs from `begin` to `end` (not included) of a target."""

    target: str
    begin: int
    end: int
    failures: list[int]
    outcomes: dict[str, int]
    seconds: float = 0.0
    slowest_s: float = 0.0
    peak_mb: float = 0.0
    build: str = ""


def run_part(
    one: Callable[[bytes], str],
    name: str,
    seed: int,
    begin: int,
    end: int,
    failures: Path,
    at: Callable[[int], Any] = lambda number: None,
) -> Part:
    """Run inputs of a target in this process, until some CPU seconds have passed.

    at: called with the number of each input before it is run.
    """
    outcomes: Counter[str] = Counter()
    failed: list[int] = []
    slowest, started = 0.0, time.process_time()
    now = started
    for number in range(begin, end):
        at(number)
        try:
            outcomes[one(data_of(name, seed, number))] += 1
        except Exception:
            failed.append(number)
            _keep(failures, name, number, traceback.format_exc())
        before, now = now, time.process_time()
        slowest = max(slowest, now - before)
        if now - started > PART_S or len(failed) >= MOST_FAILURES:
            break
    return Part(name, begin, number + 1, failed, outcomes, now - started, slowest, peak_mb())


def _keep(folder: Path, name: str, number: int, report: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.{number}.txt").write_text(report)


def _fork(run: Callable[..., Part], place: mmap.mmap, log: Path, to: Connection) -> None:
    """Run a part in this process, which was forked for it."""
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)

    def at(number: int) -> None:
        place[:8] = number.to_bytes(8, "little")
        # Ends this process, also within a kernel.
        signal.setitimer(signal.ITIMER_PROF, SECONDS)

    to.send(run(at=at))


def _rss_mb(process: int) -> float:
    """Return the resident memory of a process; 0 if it has ended."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * resource.getpagesize() / 2**20


class Running:
    """A part in a process of its own. end: the number after the last input."""

    def __init__(self, folder: Path, one: Callable, name: str, seed: int, begin: int, end: int):
        self.name, self.begin, self.failures = name, begin, folder / "failures"
        self.log = folder / f"{name}.log"
        self.place = mmap.mmap(-1, 8)
        self.place[:8] = begin.to_bytes(8, "little")
        self.result, to = get_context("fork").Pipe(duplex=False)
        run = partial(run_part, one, name, seed, begin, end, self.failures)
        arguments = (run, self.place, self.log, to)
        self.process = get_context("fork").Process(target=_fork, args=arguments)
        self.process.start()
        to.close()

    def limit(self) -> None:
        """Kill the process if it uses too much memory."""
        if _rss_mb(self.process.pid or 0) > MEGABYTES:
            self.process.kill()

    def ended(self) -> Part:
        """Return the part of a process that has sent it or died."""
        try:
            part = self.result.recv()
            self.process.join()
        except EOFError:
            self.process.join()
            number = int.from_bytes(self.place[:8], "little")
            report = f"exit code {self.process.exitcode}\n{self.log.read_text(errors='replace')}"
            _keep(self.failures, self.name, number, report)
            part = Part(self.name, self.begin, number + 1, [number], {})
        self.log.unlink(missing_ok=True)
        return part


def run_all(
    numbers: dict[str, int],
    done: list[Part],
    folder: Path,
    seed: int,
    jobs: int,
    write: Callable[[Part], Any],
) -> None:
    """Run the inputs of targets that are not done yet, in turn. write: called with each part."""
    begins = {name: max([p.end for p in done if p.target == name], default=0) for name in numbers}
    failures = Counter(
        {name: sum(len(p.failures) for p in done if p.target == name) for name in numbers}
    )
    left = deque(name for name, number in numbers.items() if begins[name] < number)
    ones = {name: target(name, folder / SEEDS) for name in tqdm(left, "load", disable=None)}
    running: list[Running] = []
    total = sum(numbers.values())
    with tqdm(total=total, initial=sum(begins.values()), disable=None, unit_scale=True) as bar:
        while left or running:
            while left and len(running) < jobs:
                name = left.popleft()
                part = Running(folder, ones[name], name, seed, begins[name], numbers[name])
                running.append(part)
            for result in wait([part.result for part in running], timeout=0.5):
                (part,) = (part for part in running if part.result is result)
                running.remove(part)
                ended = part.ended()
                write(ended)
                bar.update(ended.end - ended.begin)
                begins[ended.target] = ended.end
                failures[ended.target] += len(ended.failures)
                is_aborted = failures[ended.target] >= MOST_FAILURES
                if ended.end < numbers[ended.target] and not is_aborted:
                    left.append(ended.target)
            for part in running:
                part.limit()


# --- figures --------------------------------------------------------------------------------------
def read_parts(path: Path) -> list[Part]:
    """Return the parts that a run, perhaps cut off, has written."""
    return [Part(**line) for line in srsly.read_jsonl(path, skip=True)] if path.exists() else []


def figures(parts: list[Part]) -> dict[str, Any]:
    """Return the figures of all parts."""
    from training.reliability.fuzz_targets.checks import ANSWERED
    from training.reliability.fuzz_targets.pipeline import BATCH

    outcomes: dict[str, Counter[str]] = {}
    inputs: Counter[str] = Counter()
    for part in parts:
        inputs[part.target] += part.end - part.begin
        outcomes.setdefault(part.target, Counter()).update(part.outcomes)
    found: dict[str, Any] = {
        "inputs": inputs.total() - inputs["pipelines.default"],
        "documents": BATCH * inputs["pipelines.default"],
        "sanitized": sum(part.end - part.begin for part in parts if part.build == "sanitized"),
        "failures": sum(len(part.failures) for part in parts),
        "slowest_s": max(part.slowest_s for part in parts),
        "peak_mb": max(part.peak_mb for part in parts),
        "cpu_s": sum(part.seconds for part in parts),
    }
    for name, own in outcomes.items():
        group, _, rest = name.partition(".")
        # Kernels have the last name of their module and of its package.
        key = f"{group}.{'_'.join(rest.split('.')[-2:]).replace('__', '_')}"
        found[f"{group}.inputs"] = found.get(f"{group}.inputs", 0) + inputs[name]
        found[f"{key}.inputs"] = inputs[name]
        found[f"{key}.answered"] = 100 * own[ANSWERED] / inputs[name]
        found[f"{key}.refusals"] = len(own) - (ANSWERED in own)
    return {f"fuzz.{key}": value for key, value in found.items()}


# --- the script -----------------------------------------------------------------------------------
def run_build(args: argparse.Namespace, numbers: dict[str, int]) -> None:
    """Run the targets of one build, or one input, in this process, which uses this build."""
    if args.build == "ordinary":
        # Larger arrays raise MemoryError; the sanitizers have such a limit of their own.
        most = (2 * MEGABYTES) << 20
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    if args.input is not None:
        (name,) = numbers
        print(target(name, args.folder / SEEDS)(data_of(name, args.seed, args.input)))
        return
    path = args.folder / f"{args.seed}.jsonl"
    with open(path, "a", encoding="utf8") as file:

        def write(part: Part) -> None:
            file.write(json.dumps(part._replace(build=args.build)._asdict()) + "\n")
            file.flush()

        own = {name: n for name, n in numbers.items() if build_of(name, args) == args.build}
        run_all(own, read_parts(path), args.folder, args.seed, args.jobs, write)


def start(build: str, work: Path, folder: Path, compiler: str) -> int:
    """Run this command again with a build of the kernels. Return its exit status."""
    own = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    if build == "sanitized":
        own |= building.environment(work / build, compiler)
    command = [sys.executable, "-m", MODULE, *sys.argv[1:], "--build", build]
    command += ["--folder", str(folder)]
    # The package in the current directory precedes all others.
    place = work / build if build == "sanitized" else None
    return subprocess.run(command, env={**os.environ, **own}, cwd=place, check=False).returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--inputs", type=int, default=INPUTS, help="of all targets together")
    parser.add_argument("--documents", type=int, default=DOCUMENTS, help="for the default pipeline")
    parser.add_argument("--target", nargs="+", help="targets, or groups of them")
    parser.add_argument(
        "--input", type=int, help="run only this input of a target, and show errors"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel processes")
    parser.add_argument("--work", type=Path, default=WORK / "fuzz")
    parser.add_argument("--compiler", default="gcc", help="of the sanitized kernels")
    parser.add_argument("--ordinary", action="store_true", help="no sanitizers")
    parser.add_argument("--fresh", action="store_true", help="forget what was done at this commit")
    parser.add_argument("--no-record", action="store_true", help="do not record figures")
    parser.add_argument("--build", choices=BUILDS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    chosen = [f"{name}." for name in args.target or ()]
    numbers = {
        name: number
        for name, number in targets(args.inputs, args.documents).items()
        if number and (not args.target or f"{name}.".startswith(tuple(chosen)))
    }
    if args.build:
        run_build(args, numbers)
        return
    is_recorded = not (args.no_record or args.target)
    commit = clean_commit() if is_recorded else git("describe", "--always", "--dirty")
    work = args.work.resolve()
    folder = work / commit
    if args.fresh:
        shutil.rmtree(folder, ignore_errors=True)
    if not (folder / SEEDS / CALLS).exists():
        prepare(folder / SEEDS)
    builds = [build for build in BUILDS if any(build_of(n, args) == build for n in numbers)]
    if "sanitized" in builds:
        building.build(work / "sanitized", args.compiler, args.jobs)
    for build in builds:
        if status := start(build, work, folder, args.compiler):
            sys.exit(status)
    if args.input is not None:
        return
    found = figures(read_parts(folder / f"{args.seed}.jsonl"))
    show(found)
    if is_recorded:
        record(RESULTS, found)
    sys.exit(1 if found["fuzz.failures"] else 0)


if __name__ == "__main__":
    main()
