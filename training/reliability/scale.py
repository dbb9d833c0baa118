"""What `structlearn apply` costs on many texts, and what the death of a process costs.

    python corpora/fetch.py ewt craft conll2000 wsj_sample
    python -m training.reliability.scale

The texts are sentences of the corpora, as raw text, in random order, repeated until there are
enough. Writes training/results/reliability.json, under "apply", and a report, scale.md, which works
out what a billion sentences would take. Parts, of which --only makes some:

run         all sentences, to a folder of JSONL, by two processes, one of which is killed half-way.
            sentences, distinct; lost and duplicated: by their keys; deaths: lines that tell of one;
            words, words_per_cpu_s: tokens, per CPU second of all processes, the killed one and
            loading included; wall_s; rss_growth_mb: how much a process that parses grows from 10 %
            of the run to its end (slope of the least squares line, times this time; the greatest of
            all processes), rss_growth_main_mb: the one that writes; peak_rss_mb, peak_rss_main_mb
components  components.NAME.words_per_cpu_s: each component alone, on a sample
speedup     speedup_2_over_1: wall time of the command with one process over that with two, on a
            sample, loading included; the median of several pairs of runs that take turns
sizes       bytes_per_sentence.docbin and .jsonl, on a sample, in parts as large as those of the run
load        load_s: seconds of load() after `import spacy`, in a fresh process

MB are 1,048,576 bytes. It needs /proc, as Linux has it.
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

# Before NumPy is there, here and in all processes.
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
PART = 10_000  # texts in a file, as is the default of the command
EVERY = 0.5  # seconds from one look at the processes to the next
WARM = 0.1  # of the run: what is loaded and cached then is no growth
MB = 2**20
PLAN = 1_000_000_000  # sentences
CHUNK = 256  # texts that a process has at a time, as is the default of the command

TREES = (
    *("ewt/train.trees.gz", "ewt/dev.trees.gz", "craft/train.trees.gz", "craft/dev.trees.gz"),
    *("masc/train.trees.gz", "wsj_sample/trees.mrg.gz"),
)
COLUMNS = ("conll2000/train.txt.gz", "conll2000/test.txt.gz")
LEAF = re.compile(r"\(([^\s()]+) ([^\s()]+)\)")
BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
QUOTES = {"``": '"', "''": '"'}
# Where treebanks have a token of its own and texts no space.
BEFORE = re.compile(r" (?=(?:[.,;:!?%)\]}]|n't|'(?:s|m|d|re|ve|ll)?)(?: |$))")
AFTER = re.compile(r"(?<=[(\[{$]) ")


# --- texts ----------------------------------------------------------------------------------------
def sentences(folder: Path = CORPORA) -> list[str]:
    """The different sentences of the corpora that are there, in random order.

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
            # A tree a line, or one that begins at the margin, after a line that is empty.
            whole = lines.read()
        for tree in re.split(r"\n(?=\()", whole):
            yield raw_text(word for tag, word in LEAF.findall(tree) if tag != "-NONE-")
    for path in filter(Path.is_file, (folder / name for name in COLUMNS)):
        with gzip.open(path, "rt", encoding="utf8") as lines:
            for block in lines.read().split("\n\n"):
                yield raw_text(line.split()[0] for line in block.splitlines())


def raw_text(words: Iterable[str]) -> str:
    """Tokens of a treebank as one would write them; quotation marks stand by themselves."""
    words = [QUOTES.get(word, word) for word in words]
    text = " ".join(words)
    for name, bracket in BRACKETS.items():
        text = text.replace(name, bracket)
    return AFTER.sub("", BEFORE.sub("", text)).strip()


def write_texts(path: Path, texts: Iterable[str]) -> None:
    """JSONL with a key for each text, its number."""
    srsly.write_jsonl(path, ({"id": n, "text": text} for n, text in enumerate(texts)))


# --- processes ------------------------------------------------------------------------------------
class Sample(NamedTuple):
    """What one look found: seconds since the start, and the memory of each process, by its id."""

    at: float
    rss: dict[int, float]


def command(*arguments: object) -> list[str]:
    """The command line of `structlearn apply`."""
    return [sys.executable, "-m", "spacy_structlearn", "apply", *map(str, arguments)]


def workers_of(pid: int) -> list[int]:
    """The processes that parse for this one."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            if parent == pid and b"spawn_main" in path.with_name("cmdline").read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it has ended in between
            continue
    return sorted(found)


def rss_mb(pid: int) -> float:
    """Resident memory; 0 of a process that has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / MB


def watched(
    process: subprocess.Popen, n_parts: int, folder: Path, kill: bool
) -> tuple[list[Sample], list[Sample]]:
    """Look at a run until it ends. kill: one that parses, once half of the parts are written.

    Returns what was seen of the processes that parse, and of the first one.
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
    """MB by which the process that grew most did so, its own warm-up left out.

    NaN if none was seen twice after that.
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
    """The most MB that one process had."""
    return max((mb for sample in samples for mb in sample.rss.values()), default=0.0)


def cpu_s() -> float:
    """CPU seconds of all processes that have been started from here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# --- parts ----------------------------------------------------------------------------------------
def run(texts: Sequence[str], n: int, *, model: str = MODEL, kill: bool = True) -> dict[str, Any]:
    """All of it: see above. Raises CalledProcessError if the command fails."""
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
    """How often each key is in the files of a folder; the words in them, and their bytes."""
    keys: Counter[int] = Counter()
    words = size = 0
    for path in tqdm(sorted(folder.glob("texts.jsonl.*")), unit=" files", disable=None):
        size += path.stat().st_size
        for found in srsly.read_jsonl(path):
            keys[found["id"]] += 1
            words += len(found["tokens"])
    return keys, words, size


def missing(keys: Counter[int], n: int) -> dict[str, int]:
    """How many of the keys from 0 to n - 1 are not there, and how many are there once too often."""
    return {
        "lost": len(set(range(n)) - keys.keys()),
        "duplicated": sum(keys.values()) - len(keys),
    }


def components(texts: Sequence[str], n: int) -> dict[str, float]:
    """Each component alone: see above."""
    import spacy_structlearn
    from training.pipeline.card import annotated

    _, speed = annotated(spacy_structlearn.load(), list(islice(cycle(texts), n)))
    del speed["all"]
    return {f"components.{name}.words_per_cpu_s": value for name, value in speed.items()}


def speedup(
    texts: Sequence[str], n: int, *, model: str = MODEL, runs: int = RUNS
) -> dict[str, float]:
    """Two processes instead of one: see above."""
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
    """Bytes of the output: see above."""
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
    """Seconds of load(): see above."""
    code = (
        "import spacy, spacy_structlearn, time; start = time.perf_counter(); "
        "spacy_structlearn.load(); print(time.perf_counter() - start)"
    )
    times = [
        float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
        for _ in tqdm(range(runs), unit=" runs", disable=None)
    ]
    return {"load_s": median(times)}


# --- the plan -------------------------------------------------------------------------------------
def report(figures: dict[str, Any], results: dict[str, Any]) -> str:
    """The text of scale.md: what was measured, and what PLAN sentences would take by that.

    figures: "apply" of the results; all parts must be in it.
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
        ("processes killed on the way", f"{figures['deaths']:,}"),
        ("lost, written twice", f"{figures['lost']:,}, {figures['duplicated']:,}"),
        ("words per CPU second, all of the command", f"{figures['words_per_cpu_s']:,.0f}"),
        *(
            (f"the same, {name} alone", f"{found['words_per_cpu_s']:,.0f}")
            for name, found in figures["components"].items()
        ),
        ("growth of a process that parses, MB", f"{figures['rss_growth_mb']:.1f}"),
        ("of the one that writes", f"{figures['rss_growth_main_mb']:.1f}"),
        ("peak memory of a process that parses, MB", f"{figures['peak_rss_mb']:,.0f}"),
        ("of the one that writes", f"{figures['peak_rss_main_mb']:,.0f}"),
        ("wall time with one process over two", f"{figures['speedup_2_over_1']:.2f}"),
        ("bytes a sentence, DocBin", f"{size['docbin']:,.0f}"),
        ("bytes a sentence, JSONL", f"{size['jsonl']:,.0f}"),
        ("load(), seconds", f"{figures['load_s']:.2f}"),
    ]
    plan = [
        ("words", f"{words:.1f} a sentence", f"{words * PLAN / 1e9:,.1f} billion"),
        ("CPU hours", f"{1000 * seconds:.1f} ms a sentence", f"{hours:,.0f}"),
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
            "one file that was being written; with Ray one of each core",
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
        f"## {PLAN:,} sentences, by these figures",
        "",
        "| what it takes | by | figure |",
        "| --- | --- | ---: |",
        *(f"| {name} | {by} | {value} |" for name, by, value in plan),
        "",
        "Sentences of other texts are longer or shorter, and costs of parsing grow faster than "
        "length: measure a sample of yours first.",
    ]
    return "\n".join(lines) + "\n"


def write_report() -> bool:
    """Write scale.md from reliability.json. Returns whether all parts were there."""
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
    parser.add_argument("--sentences", type=int, default=SENTENCES, help="of the run")
    parser.add_argument("--sample", type=int, default=SAMPLE, help="of the other parts")
    parser.add_argument("--runs", type=int, default=RUNS, help="of what a median is taken of")
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
