"""Costs of `structlearn apply` on many texts, and of the death of a process.

    python corpora/fetch.py ewt craft conll2000 wsj_sample
    python -m training.reliability.scale

The texts are sentences of the corpora as raw text, in random order, repeated if necessary. Writes
training/results/reliability.json, under "apply", and a report, scale.md, which extrapolates to a
billion sentences. Parts, which --only selects:

run         parse all sentences to a folder of JSONL with two processes, one of which is killed
            half-way. sentences, distinct; lost, duplicated: by key; deaths: reported deaths; words,
            words_per_cpu_s: tokens, per CPU second of all processes, including the killed one and
            loading; wall_s; rss_growth_mb: growth of a parsing process after 10 % of the run (slope
            of the least squares line, times duration; maximum of all processes),
            rss_growth_main_mb: of the writing process; peak_rss_mb, peak_rss_main_mb
components  components.NAME.words_per_cpu_s: each component alone, on a sample
speedup     speedup_2_over_1: wall time with one process over that with two, on a sample, including
            loading; median of several alternating pairs of runs
sizes       bytes_per_sentence.docbin and .jsonl, on a sample, with parts of the same size
load        load_s: seconds of load() after `import spacy`, in a new process

MB are 1,048,576 bytes. This needs /proc of Linux.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

# Set before NumPy is imported, here and in all processes.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy as np
import srsly
from tqdm import tqdm

from training.common.recording import RESULTS, ROOT, record

CORPORA = Path(os.environ.get("STRUCTLEARN_CORPORA", ROOT / "corpora" / "data"))
MODEL = "en_structlearn_sm"
SENTENCES = 100_000
SAMPLE = 4_000
RUNS = 5
PART = 10_000  # texts in a file, the default of the command
EVERY = 0.5  # seconds between measurements of processes
WARM = 0.1  # initial share of the run, in which loading and caching do not count as growth
MB = 2**20
PLAN = 1_000_000_000  # sentences
CHUNK = 256  # texts per batch of a process, the default of the command

TREES = (
    *("ewt/train.trees.gz", "ewt/dev.trees.gz", "craft/train.trees.gz", "craft/dev.trees.gz"),
    *("masc/train.trees.gz", "wsj_sample/trees.mrg.gz"),
)
COLUMNS = ("conll2000/train.txt.gz", "conll2000/test.txt.gz")
LEAF = re.compile(r"\(([^\s()]+) ([^\s()]+)\)")
BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
QUOTES = {"``": '"', "''": '"'}
# Tokens of treebanks without a space before or after them.
BEFORE = re.compile(r" (?=(?:[.,;:!?%)\]}]|n't|'(?:s|m|d|re|ve|ll)?)(?: |$))")
AFTER = re.compile(r"(?<=[(\[{$]) ")


# --- texts ----------------------------------------------------------------------------------------
def sentences(folder: Path = CORPORA) -> list[str]:
    """Return the distinct sentences of the existing corpora in random order.

    Raises SystemExit if there are none.
    """
    found = dict.fromkeys(text for text in _sentences(folder) if text)
    if not found:
        sys.exit(f"no corpora in {folder}: run `python corpora/fetch.py all`")
    texts = list(found)
    random.Random(0).shuffle(texts)
    return texts


def _sentences(folder: Path) -> Iterator[str]:
    for path in filter(Path.is_file, (folder / name for name in TREES)):
        with gzip.open(path, "rt", encoding="utf8") as lines:
            # One tree per line, or trees that begin at the margin after an empty line.
            whole = lines.read()
        for tree in re.split(r"\n(?=\()", whole):
            yield raw_text(word for tag, word in LEAF.findall(tree) if tag != "-NONE-")
    for path in filter(Path.is_file, (folder / name for name in COLUMNS)):
        with gzip.open(path, "rt", encoding="utf8") as lines:
            for block in lines.read().split("\n\n"):
                yield raw_text(line.split()[0] for line in block.splitlines())


def raw_text(words: Iterable[str]) -> str:
    """Join tokens of a treebank with normal spacing, except for quotation marks."""
    words = [QUOTES.get(word, word) for word in words]
    text = " ".join(words)
    for name, bracket in BRACKETS.items():
        text = text.replace(name, bracket)
    return AFTER.sub("", BEFORE.sub("", text)).strip()


def write_texts(path: Path, texts: Iterable[str]) -> None:
    """Write JSONL with the number of each text as its key."""
    srsly.write_jsonl(path, ({"id": n, "text": text} for n, text in enumerate(texts)))


# --- processes ------------------------------------------------------------------------------------
class Sample(NamedTuple):
    """A measurement: seconds since the start, and the memory of each process by its id."""

    at: float
    rss: dict[int, float]


def command(*arguments: object) -> list[str]:
    """Return the command line of `structlearn apply`."""
    return [sys.executable, "-m", "spacy_structlearn", "apply", *map(str, arguments)]


def workers_of(pid: int) -> list[int]:
    """Return the ids of the parsing processes of this process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            if parent == pid and b"spawn_main" in path.with_name("cmdline").read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # the process has ended
            continue
    return sorted(found)


def rss_mb(pid: int) -> float:
    """Return the resident memory in MB; 0 if the process has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / MB


def watched(
    process: subprocess.Popen, n_parts: int, folder: Path, kill: bool
) -> tuple[list[Sample], list[Sample]]:
    """Monitor a run until it ends. kill: kill a parsing process after half of the parts.

    Returns the measurements of the parsing processes and of the main process.
    """
    start, parsing, first = time.monotonic(), [], []
    with tqdm(total=n_parts, unit=" files", disable=None) as progress:
        while process.poll() is None:
            pids = workers_of(process.pid)
            at = time.monotonic() - start
            parsing.append(Sample(at, {pid: mb for pid in pids if (mb := rss_mb(pid))}))
            first.append(Sample(at, {process.pid: rss_mb(process.pid)}))
            written = sum(1 for _ in folder.glob("texts.jsonl.*"))
            progress.update(written - progress.n)
            if kill and pids and written >= n_parts / 2:
                os.kill(pids[0], signal.SIGKILL)
                kill = False
            time.sleep(EVERY)
    return parsing, first


def growth(samples: Sequence[Sample]) -> float:
    """Return the maximum growth of a process in MB after its warm-up.

    NaN if no process was measured twice after that.
    """
    series: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for at, rss in samples:
        for pid, mb in rss.items():
            series[pid].append((at, mb))
    warm = WARM * samples[-1].at
    found = []
    for points in series.values():
        late = np.array([point for point in points if point[0] >= points[0][0] + warm])
        if len(late) > 2:
            slope = np.polyfit(late[:, 0], late[:, 1], 1)[0]
            found.append(float(slope * (late[-1, 0] - late[0, 0])))
    return max(found, default=float("nan"))


def peak(samples: Iterable[Sample]) -> float:
    """Return the peak memory of one process in MB."""
    return max((mb for sample in samples for mb in sample.rss.values()), default=0.0)


def cpu_s() -> float:
    """Return the CPU seconds of all finished child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# --- parts ----------------------------------------------------------------------------------------
def run(texts: Sequence[str], n: int, *, model: str = MODEL, kill: bool = True) -> dict[str, Any]:
    """Run the part `run`: see above. Raises CalledProcessError if the command fails."""
    size = min(PART, -(-n // 10))
    with TemporaryDirectory() as folder:
        source, output, log = (Path(folder) / name for name in ("texts.jsonl", "out", "log"))
        write_texts(source, islice(cycle(texts), n))
        arguments = command(model, source, output, "--format", "jsonl", "--part-size", size)
        before, start = cpu_s(), time.monotonic()
        with log.open("wb") as errors:
            process = subprocess.Popen([*arguments, "--n-process", "2"], stderr=errors)
            parsing, first = watched(process, -(-n // size), output, kill)
        if process.returncode:
            sys.exit(log.read_text(encoding="utf8"))
        wall, cpu = time.monotonic() - start, cpu_s() - before
        keys, words, sizes = counted(output)
        return {
            "sentences": n,
            "distinct": min(n, len(texts)),
            **missing(keys, n),
            "deaths": log.read_text(encoding="utf8").count("a worker died"),
            "words": words,
            "words_per_cpu_s": words / cpu,
            "wall_s": wall,
            "rss_growth_mb": growth(parsing),
            "rss_growth_main_mb": growth(first),
            "peak_rss_mb": peak(parsing),
            "peak_rss_main_mb": peak(first),
            "output_mb": sizes / MB,
        }


def counted(folder: Path) -> tuple[Counter[int], int, int]:
    """Return the frequency of each key in the files of a folder, and their words and bytes."""
    keys: Counter[int] = Counter()
    words = size = 0
    for path in tqdm(sorted(folder.glob("texts.jsonl.*")), unit=" files", disable=None):
        size += path.stat().st_size
        for found in srsly.read_jsonl(path):
            keys[found["id"]] += 1
            words += len(found["tokens"])
    return keys, words, size


def missing(keys: Counter[int], n: int) -> dict[str, int]:
    """Count the missing and the duplicated keys from 0 to n - 1."""
    return {
        "lost": len(set(range(n)) - keys.keys()),
        "duplicated": sum(keys.values()) - len(keys),
    }


def components(texts: Sequence[str], n: int) -> dict[str, float]:
    """Run the part `components`: see above."""
    import spacy_structlearn
    from training.pipeline.card import annotated

    _, speed = annotated(spacy_structlearn.load(), list(islice(cycle(texts), n)))
    del speed["all"]
    return {f"components.{name}.words_per_cpu_s": value for name, value in speed.items()}


def speedup(
    texts: Sequence[str], n: int, *, model: str = MODEL, runs: int = RUNS
) -> dict[str, float]:
    """Run the part `speedup`: see above."""
    found = []
    with TemporaryDirectory() as folder:
        source = Path(folder) / "texts.jsonl"
        write_texts(source, islice(cycle(texts), n))
        for _ in tqdm(range(runs), unit=" pairs", disable=None):
            seconds = []
            for processes in (1, 2):
                start = time.monotonic()
                arguments = (model, source, Path(folder) / "out.jsonl", "--n-process", processes)
                subprocess.run(
                    [*command(*arguments), "--force"], check=True, stderr=subprocess.DEVNULL
                )
                seconds.append(time.monotonic() - start)
            found.append(seconds[0] / seconds[1])
    return {"speedup_2_over_1": median(found), "speedup_runs": runs, "speedup_sentences": n}


def sizes(texts: Sequence[str], n: int, *, model: str = MODEL) -> dict[str, float]:
    """Run the part `sizes`: see above."""
    found = {}
    with TemporaryDirectory() as folder:
        source = Path(folder) / "texts.jsonl"
        write_texts(source, islice(cycle(texts), n))
        for format in tqdm(("docbin", "jsonl"), unit=" formats", disable=None):
            output = Path(folder) / format
            arguments = (model, source, output, "--format", format, "--part-size", PART)
            subprocess.run(command(*arguments), check=True, stderr=subprocess.DEVNULL)
            size = sum(path.stat().st_size for path in output.glob("texts.jsonl.*"))
            found[f"bytes_per_sentence.{format}"] = size / n
    return found


def load(runs: int = RUNS) -> dict[str, float]:
    """Run the part `load`: see above."""
    code = (
        "import spacy, spacy_structlearn, time; start = time.perf_counter(); "
        "spacy_structlearn.load(); print(time.perf_counter() - start)"
    )
    times = [
        float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
        for _ in tqdm(range(runs), unit=" runs", disable=None)
    ]
    return {"load_s": median(times)}


# --- report ---------------------------------------------------------------------------------------
def report(figures: dict[str, Any], results: dict[str, Any]) -> str:
    """Return the text of scale.md: the measurements, extrapolated to PLAN sentences.

    figures: "apply" of the results, with all parts.
    """
    words = figures["words"] / figures["sentences"]
    seconds = words / figures["words_per_cpu_s"]
    hours = PLAN * seconds / 3600
    files = PLAN // PART
    size = figures["bytes_per_sentence"]
    part_s = PART * seconds
    machine = results["machine"]
    rows = [
        ("sentences, of which distinct", f"{figures['sentences']:,}, {figures['distinct']:,}"),
        ("killed processes", f"{figures['deaths']:,}"),
        ("lost, written twice", f"{figures['lost']:,}, {figures['duplicated']:,}"),
        ("words per CPU second, whole command", f"{figures['words_per_cpu_s']:,.0f}"),
        *(
            (f"the same, {name} alone", f"{found['words_per_cpu_s']:,.0f}")
            for name, found in figures["components"].items()
        ),
        ("growth of a parsing process, MB", f"{figures['rss_growth_mb']:.1f}"),
        ("growth of the writing process, MB", f"{figures['rss_growth_main_mb']:.1f}"),
        ("peak memory of a parsing process, MB", f"{figures['peak_rss_mb']:,.0f}"),
        ("peak memory of the writing process, MB", f"{figures['peak_rss_main_mb']:,.0f}"),
        ("wall time with one process over two", f"{figures['speedup_2_over_1']:.2f}"),
        ("bytes per sentence, DocBin", f"{size['docbin']:,.0f}"),
        ("bytes per sentence, JSONL", f"{size['jsonl']:,.0f}"),
        ("load(), seconds", f"{figures['load_s']:.2f}"),
    ]
    plan = [
        ("words", f"{words:.1f} per sentence", f"{words * PLAN / 1e9:,.1f} billion"),
        ("CPU hours", f"{1000 * seconds:.1f} ms per sentence", f"{hours:,.0f}"),
        ("days on 64 cores", "CPU hours / 64 / 24", f"{hours / 64 / 24:,.1f}"),
        ("days on 1,000 cores", "CPU hours / 1,000 / 24", f"{hours / 1000 / 24:,.2f}"),
        (
            "output as DocBins, GB",
            f"{size['docbin']:,.0f} bytes",
            f"{size['docbin'] * PLAN / 1e9:,.0f}",
        ),
        (
            "output as JSONL, GB",
            f"{size['jsonl']:,.0f} bytes",
            f"{size['jsonl'] * PLAN / 1e9:,.0f}",
        ),
        ("files", f"{PART:,} sentences each", f"{files:,}"),
        ("one file, CPU minutes", f"{PART:,} sentences", f"{part_s / 60:.1f}"),
        ("memory of 64 processes, GB", "peak of one", f"{64 * figures['peak_rss_mb'] / 1024:,.0f}"),
        (
            "a process dies, CPU seconds lost",
            f"{CHUNK} sentences and load()",
            f"{CHUNK * seconds + figures['load_s']:.1f}",
        ),
        (
            "a machine of 64 cores dies, CPU hours lost",
            "one unfinished file; with Ray one per core",
            f"{part_s / 3600:.2f}; {64 * part_s / 3600:.1f}",
        ),
    ]
    lines = [
        "# `structlearn apply` on many texts",
        "",
        f"By `training/reliability/scale.py`, at commit {results['commit']}, on "
        f"{machine['cores']} cores of {machine['cpu']}.",
        "",
        "| measured | figure |",
        "| --- | ---: |",
        *(f"| {name} | {value} |" for name, value in rows),
        "",
        f"## Extrapolation to {PLAN:,} sentences",
        "",
        "| cost | computed from | figure |",
        "| --- | --- | ---: |",
        *(f"| {name} | {by} | {value} |" for name, by, value in plan),
        "",
        "The length of sentences depends on the texts, and the costs of parsing grow faster than "
        "the length. Measure a sample of your own texts first.",
    ]
    return "\n".join(lines) + "\n"


def write_report() -> bool:
    """Write scale.md from reliability.json. Return whether all parts were recorded."""
    results = srsly.read_json(RESULTS / "reliability.json")
    try:
        text = report(results["apply"], results)
    except KeyError as missing:
        print(f"no report yet: {missing} has not been measured", file=sys.stderr)
        return False
    (RESULTS / "scale.md").write_text(text, encoding="utf8")
    return True


PARTS: dict[str, Callable[[Sequence[str], argparse.Namespace], dict[str, Any]]] = {
    "load": lambda texts, args: load(args.runs),
    "run": lambda texts, args: run(texts, args.sentences),
    "components": lambda texts, args: components(texts, args.sample),
    "sizes": lambda texts, args: sizes(texts, args.sample),
    "speedup": lambda texts, args: speedup(texts, args.sample, runs=args.runs),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sentences", type=int, default=SENTENCES, help="number in the run")
    parser.add_argument("--sample", type=int, default=SAMPLE, help="sentences in the other parts")
    parser.add_argument("--runs", type=int, default=RUNS, help="number of runs for a median")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--dry", action="store_true", help="record nothing")
    args = parser.parse_args()
    texts = sentences()
    for name in args.only:
        figures = {f"apply.{key}": value for key, value in PARTS[name](texts, args).items()}
        for key, value in figures.items():
            print(f"{key:56} {value:14,.2f}", flush=True)
        if not args.dry:
            record("reliability", figures)
    if not args.dry:
        write_report()


if __name__ == "__main__":
    main()
