"""Fuzz kernels, models, corpus files and whole pipelines with more than a million inputs.

    python -m venv FUZZ && FUZZ/bin/pip install -e .[test] cython atheris==3.0.0
    FUZZ/bin/python -m training.reliability.fuzz --work WORK

This needs Clang (--clang), Linux, and a Python with a wheel of Atheris. First, small pipelines of
every architecture are trained (`fuzz_targets.workloads`). The fuzzer mutates their files and their
kernel calls. Kernels are built in WORK with the address and undefined-behaviour sanitizers and with
coverage. For each target, a process runs libFuzzer through Atheris (Serebryany 2016), guided by the
coverage of kernels or, for other targets, of the package's Python. Pipelines run without sanitizers
on consecutive seeds.

An input fails if a sanitizer reports an error, the process dies, an undocumented exception is
raised (kernels may raise ValueError, TypeError, OverflowError, and MemoryError for the size of an
array), the output is invalid (`fuzz_targets.checks`), it takes more than 20 seconds, or the process
uses more than 2 GB. Failing inputs are stored in WORK/failures, and the target continues. --loop
uses random inputs without sanitizers and guidance. In training/results/reliability.json:

fuzz.kernels.inputs     number of inputs of kernels, loaders and readers
fuzz.kernels.NAME.inputs    of one kernel; also fuzz.loaders.NAME, fuzz.readers.all
fuzz.pipeline.inputs, slowest_s, peak_rss_mb
fuzz.failures           total number
fuzz.cpu_s              total CPU seconds
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import re
import resource
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

RESULTS = "reliability"
SECONDS = 20  # time limit of an input
SECONDS_OF_A_DOC = 60  # time limit of a document in a whole pipeline
MEGABYTES = 2048
MOST_FAILURES = 3  # failures before a target is aborted
# Fewer sentences lead to smaller models and more inputs per second.
SENTENCES = 8
LOADERS = {
    "chains": ("crf", "crf_pairs", "crf_l1", "hmm", "m_estimation", "memm", "joint", "tagger"),
    "classifiers": ("bayes_net", "log_linear", "stages"),
    "grammars": ("latent", "product", "conditional", "span", "m_estimated", "neural"),
    "isbn": ("isbn", "isbn_mean_field"),
}
RESUMED = (
    "crf", "crf_l1", "memm", "pseudolikelihood", "perceptron", "m_estimation", "latent", "product",
    "conditional", "span", "neural", "m_estimated", "isbn", "log_linear",
    "stages",
)  # fmt: skip
# Number of inputs of each target in a full run.
INPUTS = {"kernels": 60_000, "loaders": 4_000, "readers": 80_000, "serialization": 40_000}
INPUTS |= {"isbn._search": 20_000, "grammar.chart._chart": 20_000}  # slow targets
LENGTHS = {"kernels": 48, "loaders": 96, "readers": 96}  # bytes of an input


def targets() -> dict[str, int]:
    """Return the names of all targets, with their numbers of inputs in a full run."""
    from training.reliability.fuzz_targets.kernels import MODULES

    found = {f"kernels.{module}": INPUTS.get(module, INPUTS["kernels"]) for module in MODULES}
    found |= {f"loaders.{name}": INPUTS["loaders"] for name in LOADERS}
    found["loaders.trainers"] = INPUTS["loaders"]
    found["loaders.serialization"] = INPUTS["serialization"]
    found["readers.all"] = INPUTS["readers"]
    return found


# --- targets --------------------------------------------------------------------------------------
def prepare(work: Path, sentences: int = SENTENCES, only: Iterable[str] | None = None) -> None:
    """Train the small pipelines, and write them and their kernel calls to `work`."""
    from tqdm import tqdm

    from training.reliability.fuzz_targets import kernels, workloads

    (work / "seeds").mkdir(parents=True, exist_ok=True)
    # Learn classes while calls are recorded.
    (work / workloads.CLASSES_FILE).unlink(missing_ok=True)
    with kernels.recording() as recorder:
        for name in tqdm(workloads.names(only), desc="train", disable=None):
            trained = workloads.train(name, work, sentences)
            for _ in workloads.predictions(trained):
                pass
    kernels.save(recorder.all(), work / "seeds" / "calls.pickle")
    # Train again, because models trained during recording contain recording wrappers.
    for name in tqdm(workloads.names(only), desc="store", disable=None):
        workloads.save(workloads.train(name, work, sentences), work / "seeds" / f"{name}.pickle")


def target(name: str, work: Path) -> Callable[[bytes], None]:
    """Return the function that is called with each input."""
    from training.reliability.fuzz_targets import kernels, workloads

    def trained(names: Iterable[str]) -> list[workloads.Trained]:
        paths = [work / "seeds" / f"{each}.pickle" for each in names]
        return [workloads.load(path) for path in paths if path.exists()]

    group, _, rest = name.partition(".")
    if group == "kernels":
        return kernels.Kernel(rest, kernels.load(work / "seeds" / "calls.pickle"))
    if group == "readers":
        from training.reliability.fuzz_targets.readers import Readers

        return Readers()
    from training.reliability.fuzz_targets import loaders

    if rest == "trainers":
        return loaders.Trainers(trained(RESUMED))
    if rest == "serialization":
        return loaders.Serialization(trained(("crf", "latent", "bayes_net")))
    return loaders.Loader(trained(LOADERS[rest]))


# --- by libFuzzer ---------------------------------------------------------------------------------
def child(name: str, work: Path, options: list[str]) -> None:
    """Run a target under the sanitizers in this process. Never returns."""
    import atheris

    if name.startswith("kernels"):
        one = target(name, work)
    else:
        with atheris.instrument_imports(include=["spacy_structlearn"]):
            import spacy_structlearn.pipeline.architectures
            import spacy_structlearn.pipeline.readers  # noqa: F401
        one = target(name, work)
    atheris.Setup([sys.argv[0], *options], one)
    atheris.Fuzz()


def sanitized(
    name: str, inputs: int, work: Path, seed: int, seconds: int = SECONDS
) -> tuple[int, int]:
    """Run a target under the sanitizers. Return the numbers of inputs and failures."""
    done = failures = 0
    begun = time.monotonic()
    while done < inputs and failures < MOST_FAILURES:
        ran, failed = _process(name, inputs - done, work, seed + failures, seconds)
        done += ran
        failures += failed
    print(f"{name:32} {done:9} {failures:3} {time.monotonic() - begun:8.1f} s", flush=True)
    return done, failures


def _process(name: str, inputs: int, work: Path, seed: int, seconds: int) -> tuple[int, int]:
    from training.reliability.fuzz_targets.building import FOLDER

    log = work / "logs" / f"{name}.{seed}.log"
    failures = work / "failures" / name
    corpus = work / "corpus" / name
    for folder in (log.parent, failures, corpus):
        folder.mkdir(parents=True, exist_ok=True)
    length = LENGTHS[name.partition(".")[0]]
    rng = random.Random(f"{name} {seed}")
    for number in range(200):
        (corpus / f"random{number}").write_bytes(rng.randbytes(length))
    spec = importlib.util.find_spec("atheris")
    if spec is None or spec.origin is None:
        sys.exit("Atheris is not installed: see the head of this file, or take --loop.")
    runtime = Path(spec.origin).parent.parent
    environment = {
        **os.environ,
        "LD_PRELOAD": str(runtime / "asan_with_fuzzer.so"),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=2048"
        ":quarantine_size_mb=64",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        # Python's own allocator is faster, and kernels do not use its memory.
        "PYTHONMALLOC": "malloc" if name.startswith("kernels") else "default",
        # The instrumented package must precede that of the checkout.
        "PYTHONPATH": os.pathsep.join(map(str, (work / FOLDER, runtime, HERE.parents[1]))),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    options = [
        str(corpus),
        f"-runs={inputs}",
        f"-seed={seed + 1}",
        f"-timeout={seconds}",
        f"-rss_limit_mb={MEGABYTES}",
        f"-max_len={length}",
        "-len_control=0",
        "-print_final_stats=1",
        f"-artifact_prefix={failures}{os.sep}",
    ]
    # Run by path, because with -m the package in the current directory would precede both.
    command = [sys.executable, __file__, "--child", name, "--work", str(work), "--", *options]
    with open(log, "w") as out:
        code = subprocess.run(
            command, env=environment, stdout=out, stderr=out, check=False
        ).returncode
    found = re.findall(r"number_of_executed_units: (\d+)", log.read_text(errors="replace"))
    ran = int(found[-1]) if found else 0
    return ran, int(code != 0 or not ran)


# --- by random inputs -----------------------------------------------------------------------------
def looped(
    name: str, inputs: int, work: Path, seed: int, seconds: int = SECONDS
) -> tuple[int, int]:
    """Run random inputs in this process, without sanitizers. Return the numbers of inputs and
    failures."""
    one = target(name, work)
    length = LENGTHS[name.partition(".")[0]]
    failures = 0
    for number in range(inputs):
        data = random.Random(f"{name} {seed} {number}").randbytes(length)
        begun = time.monotonic()
        try:
            one(data)
        except Exception:
            failures += 1
            _keep(work, name, data)
            if failures >= MOST_FAILURES:
                break
        else:
            failures += time.monotonic() - begun > seconds
    return number + 1, failures


def _keep(work: Path, name: str, data: bytes) -> None:
    folder = work / "failures" / name
    folder.mkdir(parents=True, exist_ok=True)
    number = len(list(folder.iterdir()))
    (folder / f"input{number}").write_bytes(data)
    (folder / f"input{number}.txt").write_text(traceback.format_exc())


def pipelines(inputs: int, work: Path, seed: int) -> dict[str, Any]:
    """Run documents through whole pipelines. Return the figures."""
    from tqdm import tqdm

    import spacy_structlearn
    from training.reliability.fuzz_targets import workloads
    from training.reliability.fuzz_targets.pipeline import Pipeline, mixed

    trained = {path.stem: path for path in sorted((work / "seeds").glob("*.pickle"))}
    trained.pop("calls", None)
    small = mixed({name: workloads.load(path) for name, path in trained.items()})
    one = Pipeline([(spacy_structlearn.load(), 0.4), *((nlp, 0.6 / len(small)) for nlp in small)])
    slowest = 0.0
    failures = 0
    for number in tqdm(range(inputs), desc="pipeline", disable=None):
        begun = time.process_time()
        try:
            one(seed + number)
        except Exception:
            failures += 1
            _keep(work, "pipeline", str(seed + number).encode())
        taken = time.process_time() - begun
        slowest = max(slowest, taken)
        if taken > SECONDS_OF_A_DOC:
            failures += 1
            _keep(work, "pipeline", str(seed + number).encode())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    failures += peak > MEGABYTES
    return {"inputs": inputs, "slowest_s": slowest, "peak_rss_mb": peak, "failures": failures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, default=HERE.parent / "work" / "fuzz")
    parser.add_argument("--clang", default="clang")
    parser.add_argument("--only", nargs="+", help="targets, or prefixes of their names")
    parser.add_argument(
        "--share", type=float, default=1.0, help="share of the inputs of a full run"
    )
    parser.add_argument("--pipelines", type=int, default=10_000, help="number of documents")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--seconds",
        type=int,
        default=SECONDS,
        help="time limit of an input; increase it on a busy machine",
    )
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel targets")
    parser.add_argument("--loop", action="store_true", help="no sanitizers, no Atheris")
    parser.add_argument("--fresh", action="store_true", help="train the small pipelines again")
    parser.add_argument("--no-record", action="store_true", help="do not record figures")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("options", nargs="*", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.work = args.work.resolve()
    if args.child:
        child(args.child, args.work, args.options)
        return
    if args.fresh or not (args.work / "seeds" / "calls.pickle").exists():
        prepare(args.work)
    run = looped if args.loop else sanitized
    if not args.loop:
        from training.reliability.fuzz_targets.building import build

        build(args.work, args.clang, args.jobs)
    chosen = {
        name: max(1, int(inputs * args.share))
        for name, inputs in targets().items()
        if not args.only or name.startswith(tuple(args.only))
    }
    with ThreadPoolExecutor(1 if args.loop else args.jobs) as pool:
        found = pool.map(
            lambda item: run(*item, args.work, args.seed, args.seconds), chosen.items()
        )
        results = dict(zip(chosen, found, strict=True))
    figures: dict[str, Any] = {}
    for name, (done, _) in results.items():
        group, *_, last = name.split(".")
        figures[f"fuzz.{group}.{last.strip('_')}.inputs"] = done
    failures = sum(failed for _, failed in results.values())
    figures["fuzz.kernels.inputs"] = sum(done for done, _ in results.values())
    if args.pipelines and not (args.only and "pipeline" not in args.only):
        whole = pipelines(args.pipelines, args.work, args.seed)
        failures += whole.pop("failures")
        figures |= {f"fuzz.pipeline.{key}": value for key, value in whole.items()}
    own, below = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    figures["fuzz.cpu_s"] = own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime
    figures["fuzz.failures"] = failures
    for name, value in figures.items():
        print(f"{name:44} {value}")
    if not args.no_record:
        from training.common.recording import record

        record(RESULTS, figures)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
