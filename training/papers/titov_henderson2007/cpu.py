"""CPU time of the networks of papers/titov_henderson2007."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spacy_structlearn.isbn.decode import DerivationParser
from training.common.kept import Plan, estimator
from training.common.parsers import WARM_UP
from training.common.process import in_process
from training.common.scoring import Figures, under
from training.papers.titov_henderson2007.models import PARTS, Short, tagger_tags
from training.papers.titov_henderson2007.parsing import MEANS, chosen

REPEATS = 3
SOME = 300  # sentences for comparing one thread with two
EPOCHS = 1  # epochs for comparing one thread with two


def cpu(run: Short) -> Iterator[Figures]:
    """Yield times of training on one thread; of parsing EWT's short sentences with input tags in a
    separate process, without loading; and the gain by a second thread.
    """
    _, _, train, test = PARTS["ewt"]
    settings = {name: chosen(run, "ewt", name) for name in MEANS}
    run.prepare(Plan("ewt", train, one) for one in settings.values())
    models, seconds = {}, {}
    for name, one in settings.items():
        models[name], notes = run.model("ewt", train, one)
        seconds[name] = notes["cpu_s"]
        found = {
            "train_s": notes["cpu_s"],
            "train_mb": notes["peak_rss_mb"],
            "weights": models[name].n_weights,
            "mb": len(models[name].to_bytes()) / 1e6,
        }
        yield under(f"cpu.{name}", found)
    words, tags = [tree.words() for tree in run.trees("ewt", test)], tagger_tags(run, test)
    found = in_process(parse_times, models, words, tags)
    yield under("cpu", {f"{name}.ms_per_token": ms for name, ms in found.items()})
    yield {
        "cpu.ratio.train": seconds["mf"] / seconds["nn"],
        "cpu.ratio.parse": found["mf"] / found["nn"],
    }
    faster = in_process(thread_gains, models, words[:SOME], tags[:SOME])
    yield under("cpu.threads2.parse", faster)
    for name, one in settings.items():
        walls: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(REPEATS):
            for threads, times in walls.items():
                times.append(_training_s(run, replace(one, threads=threads, max_iterations=EPOCHS)))
        ratio = float(np.median(walls[1]) / np.median(walls[2]))
        yield {f"cpu.threads2.train.{name}": ratio}


def _training_s(run: Short, settings: Any) -> float:
    """Return wall-clock seconds of training."""
    trainer = estimator(settings).trainer(None, [run.trees("ewt", PARTS["ewt"][2])])
    start = time.perf_counter()
    while trainer.step():
        pass
    return time.perf_counter() - start


def parse_times(models: dict[str, Any], words: Sequence[Any], tags: Any) -> dict[str, float]:
    """Return CPU milliseconds per token of both approximations, in alternating runs."""
    parsers = {name: DerivationParser(model, threads=1) for name, model in models.items()}
    times = _times(parsers, words, tags, time.process_time)
    n_tokens = sum(map(len, words))
    return {name: 1000 * seconds / n_tokens for name, seconds in times.items()}


def thread_gains(models: dict[str, Any], words: Sequence[Any], tags: Any) -> dict[str, float]:
    """Return the wall-clock time of one thread over that of two."""
    found = {}
    for name, model in models.items():
        parsers = {str(n): DerivationParser(model, threads=n) for n in (1, 2)}
        times = _times(parsers, words, tags, time.perf_counter)
        found[name] = times["1"] / times["2"]
    return found


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
