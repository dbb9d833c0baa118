"""The generative grammars of papers/petrov_klein2007, and the grammars of the default parser."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import spacy_structlearn
from spacy_structlearn.evaluation.calibration import expected_calibration_error
from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.latent.em import treebank_grammar
from spacy_structlearn.grammar.latent.model import LatentGrammar
from spacy_structlearn.grammar.treebank.data import binarize
from spacy_structlearn.writing import write_bytes
from training.common import scoring
from training.common.kept import EWT, LEXICON, ROUNDS, SEEDS, WSJ, Run
from training.common.parsers import latent_of


def on_dev_and_test(run: Run, grammars: Any) -> scoring.Figures:
    """Return the scores of a grammar, or a product of some, on dev and test of the WSJ sample."""
    parser, found = ChartParser(grammars, threads=run.jobs), {}
    for split in ("dev", "test"):
        found |= scoring.figures_of(scoring.score(parser, run.trees("wsj", split)), split)
    return found


def wsj(run: Run) -> Iterator[scoring.Figures]:
    """Yield figures of the best number of rounds, and of seeds and a product with it."""
    whole, _ = run.prepared("wsj", "train", WSJ)
    rounds = {n: on_dev_and_test(run, whole.truncated(n + 1)) for n in ROUNDS}
    best = max(rounds, key=lambda number: rounds[number]["dev_f1"])
    yield scoring.under("wsj.best", {"round": best, **rounds[best]})
    settings = [replace(WSJ, seed=seed) for seed in SEEDS]
    run.prepare(("wsj", "train", own) for own in settings)
    grammars = [run.model("wsj", "train", own)[0].truncated(best + 1) for own in settings]
    of_seeds = [on_dev_and_test(run, one) for one in grammars]
    for key in of_seeds[0]:
        values = [found[key] for found in of_seeds]
        yield {f"wsj.seeds.{key}.mean": float(np.mean(values)), f"wsj.seeds.{key}.sd": _sd(values)}
    yield scoring.under("wsj.product4", on_dev_and_test(run, grammars))
    xbar = treebank_grammar(binarize(run.trees("wsj", "train")), LEXICON)
    yield scoring.under("wsj.xbar", on_dev_and_test(run, xbar))


def best_wsj_grammar(run: Run) -> Path:
    """Return the file of the grammar with the best round on dev."""
    whole, _ = run.prepared("wsj", "train", WSJ)
    dev, grammars = run.trees("wsj", "dev"), [whole.truncated(n + 1) for n in ROUNDS]
    best = max(grammars, key=lambda one: scoring.score(ChartParser(one), dev).f1)
    path = run.work / "models" / "wsj-best.bin"
    write_bytes(path, best.to_bytes())
    return path


def ewt(run: Run) -> Iterator[scoring.Figures]:
    """Yield figures on dev from gold tokens, of the grammars of the default pipeline, which are
    trained on more treebanks; and (single) of one grammar of EWT alone.
    """
    dev = run.trees("ewt", "dev")
    parses = scoring.parsed(ChartParser(default_grammar()), dev)
    result = scoring.scored(parses, dev, "gold")
    single, _ = run.prepared("ewt", "train", EWT)
    alone = scoring.score(ChartParser(single), dev, "gold")
    yield {
        "ewt.dev_f1": result.f1,
        "ewt.dev_exact": result.complete_match,
        "ewt.tag_accuracy": result.tag_accuracy,
        "ewt.failures": sum(parse.failed for parse in parses),
        "ewt.bracket_ece": expected_calibration_error(*scoring.brackets_right(parses, dev)),
        "ewt.single.dev_f1": alone.f1,
        "ewt.single.dev_exact": alone.complete_match,
    }


def default_grammar() -> LatentGrammar:
    """Return the latent grammar of the installed default pipeline, without span scores."""
    parser: Any = spacy_structlearn.load().get_pipe("constituency_parser")
    return latent_of(parser.parameters)


def _sd(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1))


PARTS: dict[str, Callable[[Run], Iterator[scoring.Figures]]] = {"wsj": wsj, "ewt": ewt}
