"""Conditional grammars of the WSJ sample by AdaGrad and by OWL-QN, both run to one tolerance.

    python -m training.papers.petrov_klein2007.adagrad

Writes training/results/adagrad.json and .md. AdaGrad is the composite mirror descent of Duchi,
Hazan & Singer (2011, section 1.3) over batches of sentences.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.discriminative.objective import GrammarLikelihood
from spacy_structlearn.grammar.discriminative.settings import ConditionalGrammarSettings
from spacy_structlearn.grammar.discriminative.training import ConditionalGrammarTrainer
from spacy_structlearn.parallel.shards import Engine
from spacy_structlearn.trees.tree import Tree
from training.common.kept import WSJ, run_training
from training.common.process import in_process
from training.common.recording import CORPORA, record_steps
from training.common.report import shown, table, write_sections
from training.common.scoring import Figures, f1_standard_error, score, under
from training.common.treebanks import wsj_trees

NAME = "adagrad"
SETTINGS = WSJ.part(ConditionalGrammarSettings, rounds=2, conditional_iterations=200)
BATCH = 64
LEARN_RATE = 0.3
SOLVERS = {"owlqn": "OWL-QN", "adagrad": "AdaGrad"}
WINDOW = 10  # iterations over which the decrease is averaged, as in L-BFGS


class AdaGrad:
    """Minimises a sum over shards plus l1 |x|, with a step along the gradient of each shard."""

    def __init__(self, start: NDArray[np.float64], settings: ConditionalGrammarSettings):
        self.x = start.copy()
        self.settings = settings
        self.value = np.inf
        self.n_iterations = self.n_evaluations = 0
        self.status = "running"
        self._squares = np.ones_like(start)
        self._values: list[float] = []

    def step(self, value_and_grad: Callable[..., Any]) -> bool:
        """Make a pass over the shards. Returns False at the end."""
        objective: GrammarLikelihood = value_and_grad.__self__  # type: ignore[attr-defined]
        shards = objective.engine.shards
        rng = np.random.default_rng([self.settings.seed, self.n_iterations])
        l1 = self.settings.l1 / len(shards)
        total = 0.0
        for number in rng.permutation(len(shards)):
            batch = copy.copy(objective)
            batch.engine = Engine([shards[number]])
            batch.l2 /= len(shards)
            value, gradient = batch.value_and_grad(self.x)
            total += value + l1 * np.abs(self.x).sum()
            self._squares += gradient * gradient
            rates = LEARN_RATE / np.sqrt(self._squares)
            x = self.x - rates * gradient
            self.x = np.sign(x) * np.maximum(np.abs(x) - rates * l1, 0.0)
        self.n_iterations += 1
        self.n_evaluations += len(shards)
        self._values.append(total)
        if len(self._values) > WINDOW:
            decrease = (self._values[-1 - WINDOW] - total) / WINDOW
            if decrease <= self.settings.conditional_tolerance * abs(total):
                self.status = "value"
        if self.status == "value":
            value, _ = value_and_grad(self.x)
            self.value = value + self.settings.l1 * np.abs(self.x).sum()
        return self.status == "running"


class AdaGradTrainer(ConditionalGrammarTrainer):
    """Trains the levels by AdaGrad."""

    def _new_optimizer(self, start: NDArray[np.float64]) -> Any:
        return AdaGrad(start, self.settings)


def measure(solver: str, corpora: Path, limit: int | None) -> Figures:
    """Train with one solver. Returns the figures of the last level, and F1 on dev."""
    trees, dev = ([*wsj_trees(corpora, part)][:limit] for part in ("train", "dev"))
    # Consecutive sentences are of one text, and would not be a sample of the treebank.
    order = np.random.default_rng(SETTINGS.seed).permutation(len(trees))
    shuffled: list[Tree] = [trees[number] for number in order]
    settings, make = SETTINGS, None
    if solver == "adagrad":
        settings, make = replace(SETTINGS, shards=max(1, len(trees) // BATCH)), AdaGradTrainer
    trainer, notes = run_training(settings, shuffled, solver, make=make)
    last = trainer.records[-1]
    on_dev = score(ChartParser(trainer.parameters()), dev, "own")
    return {
        "cpu_s": notes["cpu_s"],
        "iterations": last.iterations,
        "value": last.value,
        "nonzero": last.nonzero,
        "converged": float(last.status != "running"),
        "dev_f1": on_dev.f1,
        "dev_f1_se": f1_standard_error(on_dev),
        "n": len(dev),
    }


def run(corpora: Path, limit: int | None) -> Iterator[Figures]:
    """The figures of each solver, each in a process of its own."""
    for solver in SOLVERS:
        yield under(solver, in_process(measure, solver, corpora, limit))


def solvers(figures: Figures) -> Iterator[str]:
    """Both solvers, at the last level."""
    rows = [
        (
            text,
            shown(figures, f"{solver}.iterations", ".0f"),
            shown(figures, f"{solver}.cpu_s", ".0f"),
            shown(figures, f"{solver}.value", ",.1f"),
            shown(figures, f"{solver}.nonzero", ",.0f"),
            shown(figures, f"{solver}.dev_f1"),
            shown(figures, f"{solver}.dev_f1_se"),
        )
        for solver, text in SOLVERS.items()
    ]
    names = ("objective, nats", "parameters not 0", "F1 on dev", "standard error")
    yield from table(("", "iterations", "CPU s", *names), rows)


HEAD = f"""# Solvers of conditional grammars, WSJ sample

A grammar of {2**SETTINGS.rounds} subcategories with the default L1 penalty; the objective, the
parameters and the iterations are those of the last level. Both solvers stop when the mean relative
decrease of the objective over {WINDOW} iterations is below {SETTINGS.conditional_tolerance:g}. One
seed. AdaGrad takes longer to the same tolerance and leaves more parameters, so it is not in the
package."""


def write(results: Path, name: str) -> None:
    """Write the page."""
    write_sections(results, name, HEAD, [solvers])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpora", type=Path, default=CORPORA, help="default: %(default)s")
    parser.add_argument("--limit", type=int, help="use only this many trees, and record nothing")
    args = parser.parse_args()
    record_steps(NAME, [run(args.corpora, args.limit)], write, args.limit is not None)


if __name__ == "__main__":
    main()
