"""Fuzz kernels, stored models, readers of files and whole pipelines.

    python -m training.reliability --only fuzz
    python -m training.reliability.fuzz --target kernels --inputs 20000
    python -m training.reliability.fuzz --target models.crf --input 759

Each input is a change of a recorded call of a kernel, a stored model or a file, or a random text.
It is determined by the target and its number: --input repeats one. Kernels are built by GCC with
the address and undefined-behaviour sanitizers. A fork takes one input after another, and ends after
20 CPU seconds or if it dies; then another one goes on. training/work/fuzz/COMMIT has this build,
what is done, and reports of failures.

An input fails if a sanitizer reports an error, the process dies, an undocumented exception is
raised, the output is invalid, or it needs more than 60 CPU seconds or 2 GB. After ten failures, a
target is aborted. In results/reliability.json:

fuzz.inputs             number of inputs of kernels, models, readers and small pipelines
fuzz.documents          number of documents in the default pipeline
fuzz.sanitized          number of these that ran with the sanitizers: all
fuzz.failures           number of failures
fuzz.GROUP.inputs       number of inputs of kernels, models, readers or pipelines
fuzz.GROUP.answered     % of them that were not refused
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.sharedctypes import Value
from pathlib import Path
from typing import Any

import spacy
import srsly
from spacy.language import Language

import spacy_structlearn
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.training import fitting
from training.common.recording import ROOT, WORK, git, show
from training.reliability import kernels, small_pipelines
from training.reliability.models import Loader
from training.reliability.mutations import Choices, Refused
from training.reliability.texts import Pipelines, readers

FOLDER = WORK / "fuzz"
INPUTS = 10_000_000
BATCH = 32  # documents of an input of the default pipeline
SECONDS, PART_S = 60, 20  # CPU seconds of an input and of a part
MEGABYTES = 2048
MOST_FAILURES = 10
LENGTH = 96  # bytes of an input
# Shares of the inputs: slower targets get fewer.
SHARES = {"kernels": 1.0, "readers": 0.3, "models": 0.02, "pipelines": 0.01}
# Components of one pipeline each, by the names of small_pipelines.
MIXED = (
    ("stochastic_crf", "hmm", "m_estimated", "bayes_net", "stages"),
    ("stochastic_crf", "m_estimation", "isbn", "log_linear", "stages"),
    ("stochastic_crf", "memm", "conditional", "bayes_net"),
    ("stochastic_crf", "crf_pairs", "span", "stages"),
    ("crf", "isbn_mean_field"),
)

Target = Callable[[Choices], None]


# --- targets --------------------------------------------------------------------------------------
def targets(folder: Path) -> dict[str, Target]:
    """Return the targets by name: GROUP.NAME. They are made anew in each process."""
    folder.mkdir(parents=True, exist_ok=True)
    trained: dict[str, Language] = {}
    made: dict[str, Target] = {}
    with kernels.recording() as recorder:
        small_pipelines.write_corpus(folder)
        for name in small_pipelines.COMPONENTS:
            _trained(name, folder)
        doc = spacy_structlearn.load()(small_pipelines.TEXT)
        matcher = spacy_structlearn.ConstituentMatcher(doc.vocab)
        matcher.add("with", ["NP < (PP=pp < IN)", "VP << NP"])
        matcher.count([doc])
    for module, calls in recorder.all().items():
        made[f"kernels.{module.removeprefix('spacy_structlearn.')}"] = kernels.Kernel(calls)
    for name in small_pipelines.COMPONENTS:  # again, without the recorder
        nlp = trained[name] = _trained(name, folder)
        docs = small_pipelines.input_docs(nlp, folder / "dev.spacy")
        made[f"models.{name}"] = Loader(nlp.get_pipe(nlp.pipe_names[-1]), docs)
    made |= {f"readers.{name}": reader for name, reader in readers(folder).items()}
    mixed = []
    for names in MIXED:
        nlp = spacy.blank("en")
        nlp.add_pipe("sentencizer")
        for name in names:
            nlp.add_pipe(trained[name].pipe_names[-1], source=trained[name])
        mixed.append(nlp)
    made["pipelines.small"] = Pipelines(mixed, 1)
    made["pipelines.default"] = Pipelines([spacy_structlearn.load()], BATCH)
    return made


def _trained(name: str, folder: Path) -> Language:
    """Train a small pipeline, and let it predict."""
    nlp = fitting.train(small_pipelines.write_config(name, folder), progress=False)
    component: Any = nlp.get_pipe(nlp.pipe_names[-1])
    docs = small_pipelines.input_docs(nlp, folder / "dev.spacy")
    for method in ("k_best", "n_best"):
        if hasattr(component, method):
            getattr(component, method)(docs[0], 3)
    list(nlp.pipe(docs))
    return nlp


def data_of(name: str, number: int) -> bytes:
    """Return the bytes of an input."""
    return random.Random(f"{name} {number}").randbytes(LENGTH)


def outcome(target: Target, data: bytes) -> str:
    """Run an input. Return what became of it."""
    try:
        target(Choices(data))
    except (Refused, StructlearnError):
        return "refused"
    return "answered"


# --- parts ----------------------------------------------------------------------------------------
def run_part(
    target: Target, name: str, begin: int, end: int, failures: Path, at: Any
) -> dict[str, Any]:
    """Run inputs of a target in this process, until some CPU seconds have passed.

    at: gets the number of each input before it is run.
    Return the numbers of the first input, after the last one and of failed ones, and the outcomes.
    """
    outcomes: Counter[str] = Counter()
    failed: list[int] = []
    started = time.process_time()
    for number in range(begin, end):
        at.value = number
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # ends this process, also within a kernel
        try:
            outcomes[outcome(target, data_of(name, number))] += 1
        except Exception:
            failed.append(number)
            (failures / f"{name}.{number}.txt").write_text(traceback.format_exc())
        if time.process_time() - started > PART_S or len(failed) >= MOST_FAILURES:
            break
    signal.setitimer(signal.ITIMER_PROF, 0)
    part = {"target": name, "begin": begin, "end": number + 1}
    return part | {"failures": failed, "outcomes": outcomes}


def forked_part(target: Target, name: str, begin: int, end: int, folder: Path) -> dict[str, Any]:
    """Run a part in a fork, whose death is a failure of its last input."""
    at, log = Value("q", begin), folder / f"{name}.log"
    result, to = get_context("fork").Pipe(duplex=False)

    def run() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        # Not much more than the resident memory, which only the sanitizers limit.
        most = used + (2 * MEGABYTES << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        to.send(run_part(target, name, begin, end, folder, at))

    process = get_context("fork").Process(target=run)
    process.start()
    to.close()
    try:
        part = result.recv()
    except EOFError:
        process.join()
        report = f"exit code {process.exitcode}\n{log.read_text(errors='replace')}"
        (folder / f"{name}.{at.value}.txt").write_text(report)
        part = {"target": name, "begin": begin, "end": at.value + 1}
        part |= {"failures": [at.value], "outcomes": {}}
    process.join()
    log.unlink(missing_ok=True)
    return part


def run_all(chosen: Mapping[str, Target], wanted: Mapping[str, int], folder: Path) -> None:
    """Run the inputs that are not done yet, one part of each target in turn."""
    done = folder / "done.jsonl"
    at, failed = Counter[str](), Counter[str]()

    def note(part: dict[str, Any]) -> None:
        at[part["target"]] = part["end"]
        failed[part["target"]] += len(part["failures"])

    for part in srsly.read_jsonl(done) if done.exists() else ():
        note(part)
    while left := [n for n in chosen if at[n] < wanted[n] and failed[n] < MOST_FAILURES]:
        for name in left:
            part = forked_part(chosen[name], name, at[name], wanted[name], folder)
            srsly.write_jsonl(done, [part], append=True, append_new_line=False)
            note(part)
        print(f"{at.total():,} inputs, {failed.total()} failures", flush=True)


def figures(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of all parts."""
    totals: Counter[str] = Counter()
    outcomes: dict[str, Counter[str]] = {}
    for part in parts:
        n, group = part["end"] - part["begin"], part["target"].partition(".")[0]
        totals["documents" if part["target"] == "pipelines.default" else "inputs"] += n
        totals["failures"] += len(part["failures"])
        totals[f"{group}.inputs"] += n
        outcomes.setdefault(group, Counter()).update(part["outcomes"])
    result: dict[str, Any] = {f"fuzz.{key}": value for key, value in totals.items()}
    result |= {"fuzz.documents": BATCH * totals["documents"], "fuzz.sanitized": totals["inputs"]}
    for group, counts in outcomes.items():
        result[f"fuzz.{group}.answered"] = 100 * counts["answered"] / max(counts.total(), 1)
    return result


# --- builds ---------------------------------------------------------------------------------------
FLAGS = (
    "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -w"
    # C now allows adding zero to a null pointer and copying zero bytes from it (N3322).
    " -fno-sanitize=pointer-overflow,nonnull-attribute"
)


def build_sanitized(folder: Path) -> dict[str, str]:
    """Build the package with sanitized kernels. Return the variables of its processes."""
    build = [sys.executable, "-c", "import setuptools; setuptools.setup()", "-q", "build"]
    build += [f"--build-lib={folder}", f"--build-temp={folder}.objects"]
    variables = os.environ | {"CC": "gcc", "CFLAGS": FLAGS, "STRUCTLEARN_CFLAGS": "-O1 -g1"}
    subprocess.run(build, cwd=ROOT, env=variables, check=True)
    runtime = subprocess.check_output(["gcc", "-print-file-name=libasan.so"], text=True)
    return {
        # Python itself is not built with the sanitizers.
        "LD_PRELOAD": runtime.strip(),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=2048"
        f":quarantine_size_mb=16:hard_rss_limit_mb={MEGABYTES}",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        # This build precedes that of the checkout.
        "PYTHONPATH": f"{folder}:{ROOT}",
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def run(arguments: Sequence[str] = ()) -> dict[str, Any]:
    """Run this module with sanitized kernels and return the figures.

    Raises SystemExit if it ends with an error.
    """
    folder = FOLDER / git("describe", "--always", "--dirty")
    variables = os.environ | build_sanitized(folder / "package")
    command = [sys.executable, "-m", "training.reliability.fuzz", f"--folder={folder}", *arguments]
    # The package in the current directory precedes all others.
    if status := subprocess.run(command, env=variables, cwd=folder / "package").returncode:
        raise SystemExit(status)
    done = folder / "done.jsonl"
    return figures(list(srsly.read_jsonl(done)) if done.exists() else [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--inputs", type=int, default=INPUTS, help="of all targets together")
    parser.add_argument("--target", default="", help="a group of targets, or one")
    parser.add_argument("--input", type=int, help="run only this input of a target, show its error")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not args.folder:
        show(run(sys.argv[1:]))
        return
    every = targets(args.folder)
    if args.input is not None:
        print(outcome(every[args.target], data_of(args.target, args.input)))
        return
    chosen = {name: one for name, one in every.items() if name.startswith(args.target)}
    shares = {name: SHARES[name.partition(".")[0]] for name in every}
    wanted = {n: -int(-args.inputs * share // sum(shares.values())) for n, share in shares.items()}
    run_all(chosen, wanted, args.folder)


if __name__ == "__main__":
    main()
