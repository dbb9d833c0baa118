"""L-BFGS and AdaGrad on the conditional likelihood of the WSJ sample, level by level.

    python corpora/fetch.py wsj_sample
    python -m training.benchmarks.stochastic

Both start each level where the generative grammar is, with the same forests and the same priors;
AdaGrad goes along the gradients of batches of sentences in random order, a pass at a time. One
thread, CPU seconds of the steps alone: what is kept of the parses is made before, and the objective
of all sentences after a pass of AdaGrad, which L-BFGS has anyway, is not counted. The generative
grammar is kept in training/work/grammars. In training/results/parsing_best.json, for each level:

stochastic.N.lbfgs        points: CPU seconds, and the objective, in nats, after each iteration;
                          value: the least of them; cpu_s: when it was reached
stochastic.N.adagrad.*    the same after each pass, by batch size and learning rate
stochastic.N.*.within_P   CPU seconds until the objective is within P per cent of the least of all,
                          null if it never is
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from spacy_structlearn.grammar.discriminative.objective import without_backoff
from spacy_structlearn.grammar.discriminative.settings import ConditionalGrammarSettings
from spacy_structlearn.grammar.discriminative.training import FLOOR, Objectives
from spacy_structlearn.grammar.latent.model import LatentGrammar
from spacy_structlearn.grammar.treebank.symbols import TreebankData
from spacy_structlearn.optimize.adagrad import AdaGrad
from spacy_structlearn.optimize.lbfgs import LBFGS
from spacy_structlearn.optimize.owlqn import OWLQN
from training.common.kept import TABLE1, grammar
from training.common.recording import CORPORA, WORK, record
from training.common.treebanks import TREES

RESULTS = "parsing_best"
PERCENT = (10, 5, 1)
Points = list[tuple[float, float]]


def lbfgs_points(
    settings: ConditionalGrammarSettings, data: TreebankData, generative: LatentGrammar, level: int
) -> Points:
    """CPU seconds and objectives of L-BFGS, or with l1 of OWL-QN; the starting point is one."""
    with closing(Objectives(settings, data, generative, level)) as objectives:
        objective = objectives.objective(level, {})
        start = objective.parameterization.initial(FLOOR)
        options: dict[str, Any] = {
            "memory": settings.memory,
            "value_tolerance": settings.conditional_tolerance,
        }
        optimizer = (
            OWLQN(start, l1=settings.l1, **options) if settings.l1 else LBFGS(start, **options)
        )
        first, _ = objective.value_and_grad(start)
        points = [(0.0, first + settings.l1 * float(abs(start).sum()))]
        begun = time.process_time()
        more = True
        while more and optimizer.n_iterations < settings.conditional_iterations:
            more = optimizer.step(objective.value_and_grad)
            points.append((time.process_time() - begun, float(optimizer.value or 0.0)))
    return points


def adagrad_points(
    settings: ConditionalGrammarSettings, data: TreebankData, generative: LatentGrammar, level: int
) -> Points:
    """CPU seconds and objectives of AdaGrad, after each pass and before the first."""
    settings = replace(settings, solver="adagrad")
    order = np.random.default_rng(settings.seed).permutation(data.n_trees)
    with closing(Objectives(settings, data.subset(order), generative, level)) as objectives:
        objective = objectives.objective(level, {})
        optimizer = AdaGrad(
            objective.parameterization.initial(FLOOR),
            l1=settings.l1,
            learn_rate=settings.learn_rate,
            value_tolerance=0.0,
            seed=settings.seed,
        )
        batches = objective.batches(objectives.engine.shards)
        seconds, points = 0.0, []
        for _ in range(settings.conditional_iterations + 1):
            value, _ = objective.value_and_grad(optimizer.x)
            points.append((seconds, value + settings.l1 * float(abs(optimizer.x).sum())))
            begun = time.process_time()
            if len(points) <= settings.conditional_iterations:
                optimizer.step(batches)
            seconds += time.process_time() - begun
    return points


def summary(points: Points, least: float) -> dict[str, Any]:
    """See above. least: of all solvers."""
    cpu_s, value = min(points, key=lambda point: point[1])
    found: dict[str, Any] = {
        "points": [[round(seconds, 3), round(value, 2)] for seconds, value in points],
        "value": value,
        "cpu_s": cpu_s,
    }
    for percent in PERCENT:
        limit = least + 0.01 * percent * abs(least)
        times = [seconds for seconds, value in points if value <= limit]
        found[f"within_{percent}"] = times[0] if times else None
    return found


def compared(
    settings: ConditionalGrammarSettings,
    data: TreebankData,
    generative: LatentGrammar,
    level: int,
    passes: int,
    grid: Sequence[tuple[int, float]],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The figures of a level, by name. grid: batch sizes and learning rates of AdaGrad."""
    runs = {"lbfgs": lbfgs_points(settings, data, generative, level)}
    for batch_size, learn_rate in grid:
        own = replace(
            settings,
            conditional_iterations=passes,
            batch_size=batch_size,
            learn_rate=learn_rate,
        )
        rate = f"{learn_rate:g}".replace(".", "_")
        runs[f"adagrad.{batch_size}-{rate}"] = adagrad_points(own, data, generative, level)
    least = min(value for points in runs.values() for _, value in points)
    for name, points in runs.items():
        yield name, summary(points, least)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpora", type=Path, default=CORPORA)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--levels", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--learn-rates", type=float, nargs="+", default=[0.1, 0.3])
    parser.add_argument("--iterations", type=int, default=50, help="of L-BFGS")
    parser.add_argument("--passes", type=int, default=20, help="of AdaGrad")
    parser.add_argument("--l1", type=float, default=0.0)
    parser.add_argument("--l2", type=float, default=1.0)
    parser.add_argument("--limit", type=int, help="first trees only; figures are not kept")
    args = parser.parse_args()
    generative = replace(TABLE1, rounds=max(args.levels))
    trees = TREES["wsj"](args.corpora, "train")
    if args.limit:
        trees = trees[: args.limit]
        trainer = generative.trainer(None, [trees])
        while trainer.step():
            pass
        whole = trainer.parameters()
    else:
        generative = TABLE1
        whole, _ = grammar(args.work, args.corpora, "wsj", "train", TABLE1)
    settings = generative.part(
        ConditionalGrammarSettings,
        l1=args.l1,
        l2=args.l2,
        conditional_iterations=args.iterations,
        conditional_tolerance=0.0,
        shards=4,
    )
    data = settings.encode([trees])
    grid = [(size, rate) for size in args.batch_sizes for rate in args.learn_rates]
    for level in args.levels:
        found = compared(settings, data, without_backoff(whole), level, args.passes, grid)
        for name, figures in found:
            if not args.limit:
                prefix = f"stochastic.{level}.{name}"
                record(RESULTS, {f"{prefix}.{key}": value for key, value in figures.items()})
            shown = {key: value for key, value in figures.items() if key != "points"}
            text = " ".join(
                f"{key} {'never' if value is None else f'{value:.1f}'}"
                for key, value in shown.items()
            )
            print(f"{level} {name:20} {text}", flush=True)


if __name__ == "__main__":
    main()
