"""Titov & Henderson (2007): incremental sigmoid belief networks with two approximations.

    python corpora/fetch.py wsj_sample ewt craft
    python -m training.train_default
    python -m training.papers.titov_henderson2007 --jobs 2

Writes training/results/titov_henderson2007.json and a report next to it. nn is the feed-forward
approximation, mf the mean-field one. Parts, of which --only runs some:

rows          grammars of the package in the setup of table 1: X-bar and treebank grammars without
              substates, a split-merge grammar, a product of four, and this with span features
artificial    section 6.1: sequences of random networks, and Gibbs sampling from these
parsing       section 6.2, table 1: sentences of at most 15 words, including punctuation
rerank        the best trees of the four grammars, reranked by the probabilities of the networks
cpu           CPU time of training and parsing
full          sentences of all lengths of EWT; reranking of the default parser
beyond        one setting at a time, on EWT's tuning documents; --sweeps selects some
seeds         the selected settings with other seeds, on EWT; only with --only
wsj_seeds     the same on the WSJ sample, which has 48 test sentences
jackknifed    training on jackknifed tags; only with --only

On EWT, settings are selected on the documents of `ewt/tune.txt`, by networks trained on the rest of
train. The selected models are trained on all of train and scored on dev. WSJ is the sample, split
as in Petrov & Klein (2007), with selection on dev and scores on test. Main figures are with input
tags, as in the paper: on EWT from a tagger that has not seen the sentences, on WSJ gold tags,
because there is no tagger. Figures with `gold_tags` in their names have gold tags, and those with
`own_tags` tags predicted by the parser. Scores are from EVALB, in percent. On EWT, punctuation is
identified by gold tags, so that no sentence is dropped. Models are kept in
training/work/titov_henderson2007 by their settings; interrupted training resumes.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

# Set before NumPy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np

from spacy_structlearn.isbn.decode import DerivationParser
from spacy_structlearn.isbn.model import ISBN
from spacy_structlearn.isbn.settings import ISBNSettings
from spacy_structlearn.learning.training import write_bytes
from spacy_structlearn.pipeline.architectures import estimator
from training.common.process import measured
from training.common.recording import CORPORA, WORK, record_steps
from training.common.scoring import Figures, under
from training.papers.titov_henderson2007 import artificial, report
from training.papers.titov_henderson2007.models import LONGEST, NAME, PARTS, Short, tagger_tags
from training.papers.titov_henderson2007.parsing import (
    MEANS,
    SEARCHED,
    SWEEPS,
    Plan,
    beyond,
    chosen,
    full,
    jackknifed,
    network,
    network_path,
    parsing,
    prepare,
    rerank,
    seeds,
)
from training.papers.titov_henderson2007.rows import rows

REPEATS = 3
WARM_UP = 50  # sentences parsed before timing
SOME = 300  # sentences for comparing one thread with two
EPOCHS = 1  # epochs for comparing one thread with two


# --- CPU time -------------------------------------------------------------------------------------
def cpu(run: Short) -> Iterator[Figures]:
    """Yield times of training on one thread; of parsing EWT's short sentences with input tags in a
    separate process, without loading; and the gain by a second thread.
    """
    _, _, train, test = PARTS["ewt"]
    settings = {name: chosen(run, "ewt", name) for name in MEANS}
    prepare(run, (Plan("ewt", train, one) for one in settings.values()))
    seconds = {}
    for name, one in settings.items():
        model, notes = network(run, "ewt", train, one)
        seconds[name] = notes["cpu_s"]
        found = {
            "train_s": notes["cpu_s"],
            "train_mb": notes["peak_rss_mb"],
            "epochs": one.max_iterations,
            "weights": model.n_weights,
            "mb": len(model.to_bytes()) / 1e6,
        }
        yield under(f"cpu.{name}", found)
    sentences = run.work / "speed" / f"{run.name('ewt', test)}.json"
    sentences.parent.mkdir(parents=True, exist_ok=True)
    words = [tree.words() for tree in run.trees("ewt", test)]
    write_bytes(sentences, json.dumps([words, tagger_tags(run, test)]).encode())
    files = [network_path(run, "ewt", train, settings[name]) for name in MEANS]
    found = measure("parse", sentences, *files)
    yield under("cpu", found)
    yield {
        "cpu.ratio.train": seconds["mf"] / seconds["nn"],
        "cpu.ratio.parse": found["mf.ms_per_token"] / found["nn.ms_per_token"],
    }
    yield under("cpu.threads2.parse", measure("parse_threads", sentences, *files))
    for name, one in settings.items():
        walls: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(REPEATS):
            for threads, times in walls.items():
                times.append(_training_s(run, replace(one, threads=threads, max_iterations=EPOCHS)))
        ratio = float(np.median(walls[1]) / np.median(walls[2]))
        yield {f"cpu.threads2.train.{name}": ratio}


def _training_s(run: Short, settings: ISBNSettings) -> float:
    """Return wall-clock seconds of training."""
    trainer = estimator(settings).trainer(None, [run.trees("ewt", PARTS["ewt"][2])])
    start = time.perf_counter()
    while trainer.step():
        pass
    return time.perf_counter() - start


def parse_worker(sentences: Path, *models: Path) -> dict[str, float]:
    """Return CPU milliseconds per token of both approximations, in alternating runs."""
    words, tags = json.loads(sentences.read_text(encoding="utf8"))
    parsers = _parsers(models, 1)
    times = _times(parsers, words, tags, time.process_time)
    n_tokens = sum(map(len, words))
    return {f"{name}.ms_per_token": 1000 * s / n_tokens for name, s in times.items()}


def parse_threads_worker(sentences: Path, *models: Path) -> dict[str, float]:
    """Return the wall-clock time of one thread over that of two."""
    words, tags = (own[:SOME] for own in json.loads(sentences.read_text(encoding="utf8")))
    found = {}
    for name, path in zip(MEANS, models, strict=True):
        parsers = {str(threads): _parsers([path], threads, [name])[name] for threads in (1, 2)}
        times = _times(parsers, words, tags, time.perf_counter)
        found[name] = times["1"] / times["2"]
    return found


def _parsers(
    models: Sequence[Path], threads: int, names: Sequence[str] = tuple(MEANS)
) -> dict[str, DerivationParser]:
    return {
        name: DerivationParser(ISBN.from_bytes(path.read_bytes()), threads=threads)
        for name, path in zip(names, models, strict=True)
    }


def _times(
    parsers: dict[str, DerivationParser], words: Any, tags: Any, clock: Callable[[], float]
) -> dict[str, float]:
    """Return the median seconds of alternating runs."""
    times: dict[str, list[float]] = {name: [] for name in parsers}
    for parser in parsers.values():
        parser.parse(words[:WARM_UP], tags[:WARM_UP])
    for _ in range(REPEATS):
        for name, parser in parsers.items():
            start = clock()
            parser.parse(words, tags)
            times[name].append(clock() - start)
    return {name: float(np.median(own)) for name, own in times.items()}


WORKERS: dict[str, Callable[..., dict[str, float]]] = {
    "parse": parse_worker,
    "parse_threads": parse_threads_worker,
}


def measure(worker: str, *files: Path) -> Figures:
    """Run one worker in its own process."""
    return measured(__spec__.name, "--worker", worker, *files)


# --- the run --------------------------------------------------------------------------------------
STEPS: dict[str, Callable[[Short], Iterator[Figures]]] = {
    "rows": rows,
    "artificial": lambda run: artificial.artificial(run),
    "parsing": parsing,
    "rerank": rerank,
    "cpu": cpu,
    "full": full,
    "beyond": beyond,
    "seeds": lambda run: seeds(run, "ewt"),
    "wsj_seeds": lambda run: seeds(run, "wsj"),
    "jackknifed": jackknifed,
}
OPTIONAL = ("seeds", "jackknifed")  # only with --only


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=STEPS, help="some parts")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes or threads")
    parser.add_argument("--corpora", type=Path, default=CORPORA, help="default: %(default)s")
    parser.add_argument("--work", type=Path, default=WORK, help="cache of models")
    parser.add_argument(
        "--sweeps", nargs="+", choices=[*SWEEPS, *SEARCHED], help="some sweeps of `beyond`"
    )
    parser.add_argument(
        "--limit", type=int, help="use only this many trees of each part, and record nothing"
    )
    parser.add_argument("--worker", choices=WORKERS, help=argparse.SUPPRESS)
    parser.add_argument("files", nargs="*", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(WORKERS[args.worker](*args.files)))
        return
    run = Short(args.corpora, args.work / NAME, args.jobs, args.limit, LONGEST, args.work)
    names = args.only or [step for step in STEPS if step not in OPTIONAL]
    make = {**STEPS, "beyond": lambda run: beyond(run, args.sweeps)}
    steps = (make[name](run) for name in names)
    record_steps(NAME, steps, report.write, args.limit is not None)


if __name__ == "__main__":
    main()
