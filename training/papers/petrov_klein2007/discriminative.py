"""Grammars whose weights are corrections of generative ones: figure 2, costs, the best grammars.

Each part yields its figures one after another. Finished steps are not repeated.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from spacy_structlearn.evaluation.evalb import EvalbScore
from spacy_structlearn.grammar.chart.decode import THRESHOLDS, ChartParser
from spacy_structlearn.grammar.discriminative.objective import without_backoff
from spacy_structlearn.grammar.discriminative.settings import ConditionalGrammarSettings
from spacy_structlearn.grammar.discriminative.training import Objectives
from spacy_structlearn.grammar.latent.model import LatentGrammar
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.latent.stages import encode
from spacy_structlearn.grammar.treebank.data import TreebankData
from spacy_structlearn.trees.tree import Tree
from spacy_structlearn.writing import write_bytes
from training.common import kept
from training.common.kept import SEEDS, TABLE1, WSJ
from training.common.process import in_process
from training.common.recording import peak_mb
from training.common.scoring import Figures, score, under
from training.papers.petrov_klein2007.pruning import RebuiltObjective

NUMBERS = tuple(2**number for number in range(TABLE1.rounds + 1))
CENTRED = TABLE1.part(ConditionalGrammarSettings, l1=1.0, l2=0.0, shards=4)
REGIMES = ("cached", "coarse_to_fine", "none")
EVERY = 20  # pruning is measured on every 20th sentence, ordered by length
EVALUATIONS = 3
Settings = LatentGrammarSettings  # or of conditional grammars, a subclass
LENGTH = 40  # words, of the sentences that the literature also scores by themselves
# Pruning thresholds of the parser. A discriminative grammar has learned to separate the tree from
# the others that survived pruning on the training sentences, where pruning removes more.
PARSING_THRESHOLDS = (1e-4, 1e-3, 5e-3)


@dataclass(frozen=True)
class Run(kept.Run):
    """Also keeps scores and other measurements, in training/work/petrov_klein2007."""

    def train(self, plans: Sequence[tuple[str, Settings]]) -> None:
        """Train missing grammars of the training trees of corpora."""
        self.prepare((corpus, "train", settings) for corpus, settings in plans)

    def grammar(self, corpus: str, settings: Settings) -> tuple[LatentGrammar, Figures]:
        """Return the grammar of the training trees of a corpus, and its notes."""
        return self.prepared(corpus, "train", settings)

    def once(self, name: str, digest: str, measure: Callable[[], Any]) -> Any:
        """Return a stored measurement if its `digest` is the same. Otherwise measure now."""
        path = self.work / "petrov_klein2007" / f"{name}.json"
        if path.exists():
            found = json.loads(path.read_text(encoding="utf8"))
            if found["digest"] == digest:
                return found["found"]
        result = measure()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, json.dumps({"digest": digest, "found": result}, indent=2).encode())
        return result


def of_lengths(score: EvalbScore) -> Figures:
    """Return F1 and exact match of all sentences, and of those of at most 40 words."""
    found = {"f1": score.f1, "exact": score.complete_match}
    short = score.up_to(LENGTH)
    return found | {f"{LENGTH}.f1": short.f1, f"{LENGTH}.exact": short.complete_match}


def digest_of(path: Path) -> str:
    return blake2b(path.read_bytes(), digest_size=8).hexdigest()


# --- figure 2 -------------------------------------------------------------------------------------
def pruning(run: Run) -> Iterator[Figures]:
    """Yield constituents and CPU seconds with and without pruning, on a sample of WSJ train.

    Seconds are for one evaluation over all training sentences, extrapolated from the sample.
    """
    settings = CENTRED
    path = run.path("wsj", "train", settings)
    values: dict[str, float] = {}
    for regime in REGIMES:
        for level, number in enumerate(NUMBERS):
            measure = partial(in_process, pruning_worker, run, settings, level, regime, EVERY)
            found = run.once(f"pruning-{regime}-{number}-{EVERY}", digest_of(path), measure)
            values[regime] = found.pop("log_likelihood")
            yield under(f"pruning.{number}.{regime}", found)
        yield under(f"pruning.{regime}", found)
    for regime, key in (("coarse_to_fine", ""), ("none", "_of_none")):
        change = (values["cached"] - values[regime]) / abs(values[regime])
        yield {f"pruning.likelihood_change{key}_percent": 100 * change}


def pruning_worker(
    run: Run, settings: ConditionalGrammarSettings, level: int, regime: str, every: int
) -> Figures:
    """Evaluate the conditional likelihood of a sample of sentences once, at one level."""
    trained, _ = run.model("wsj", "train", settings)
    trees = run.trees("wsj", "train")
    part = sample(settings, trees, every)
    own = replace(settings, shards=1)
    with closing(Conditional(own, part, trained.truncated(level + 1), regime)) as conditional:
        if regime != "none":
            conditional.evaluate()  # allocates all memory
        start = time.process_time()
        value = conditional.evaluate()
        seconds = time.process_time() - start
        statistics = conditional.objectives.statistics
        left_out = conditional.objectives.left_out
    return {
        "constituents": statistics.constituents / statistics.sentences,
        "seconds": seconds * len(trees) / part.n_trees,
        "sentences": part.n_trees,
        "left_out": left_out,
        "log_likelihood": value,
        "peak_rss_mb": peak_mb(),
    }


def sample(settings: ConditionalGrammarSettings, trees: Sequence[Tree], every: int) -> TreebankData:
    """Return every `every`-th tree by length, with the symbols and rules of all trees."""
    order = sorted(range(len(trees)), key=lambda i: len(trees[i].words()))
    part = order[min(every, len(trees)) // 2 :: every]
    rest = set(range(len(trees))) - set(part)
    data = encode(settings, [[trees[i] for i in (*part, *sorted(rest))]])
    return data.subset(np.arange(len(part)))


class Conditional:
    """The conditional likelihood of trees by the last level of a grammar, at its own weights.

    regime: one of `REGIMES`.
    """

    def __init__(
        self,
        settings: ConditionalGrammarSettings,
        data: TreebankData,
        grammar: LatentGrammar,
        regime: str = "cached",
    ):
        # The weights are the base, and all parameters are zero.
        settings = replace(
            settings, rounds=grammar.depth, base="generative", first_level=0, l1=0.0, l2=0.0
        )
        whole = without_backoff(grammar)
        self.objectives: Objectives | RebuiltObjective
        if regime == "cached":
            self.objectives = Objectives(settings, data, whole, grammar.depth)
            self._objective = self.objectives.objective(grammar.depth, {})
        else:
            self.objectives = RebuiltObjective(settings, data, whole, regime)
            self._objective = self.objectives.objective

    def evaluate(self) -> float:
        """Return log P(trees | words). The gradient is computed too."""
        theta = np.zeros(self._objective.parameterization.n_parameters)
        return -self._objective.value_and_grad(theta)[0]

    def close(self) -> None:
        self.objectives.close()


# --- cost -----------------------------------------------------------------------------------------
def cost(run: Run) -> Iterator[Figures]:
    """Yield time and memory of training, and of an evaluation with one thread."""
    _, notes = run.grammar("ewt", CENTRED)
    yield {
        "train.ewt16.wall_min": notes["wall_s"] / 60,
        "train.ewt16.cpu_min": notes["cpu_s"] / 60,
        "train.ewt16.threads": notes["threads"],
        "train.peak_rss_gb": notes["peak_rss_mb"] / 1024,
    }
    digest = digest_of(run.path("ewt", "train", CENTRED))
    found = run.once("evaluation-ewt", digest, partial(in_process, evaluation_worker, run))
    yield {"train.cpu_s_per_evaluation.ewt16": found}


def evaluation_worker(run: Run) -> float:
    """Return the median CPU seconds of an evaluation on EWT after a warm-up."""
    trained, _ = run.grammar("ewt", CENTRED)
    data, seconds = encode(CENTRED, [run.trees("ewt", "train")]), []
    with closing(Conditional(CENTRED, data, trained)) as conditional:
        conditional.evaluate()
        for _ in range(EVALUATIONS):
            start = time.process_time()
            conditional.evaluate()
            seconds.append(time.process_time() - start)
    return float(np.median(seconds))


# --- the best grammars ----------------------------------------------------------------------------
def best(run: Run) -> Iterator[Figures]:
    """Yield figures of the best grammars and their product, with merging and smoothing.

    They are selected on WSJ dev. The selected one and the discriminative one are tested once.
    """
    generative = [replace(WSJ, seed=seed) for seed in SEEDS]
    # Only the finest level is trained. Earlier levels are for pruning.
    own = {name: getattr(CENTRED, name) for name in ("base", "start", "l1", "l2", "shards")}
    discriminative = [WSJ.part(ConditionalGrammarSettings, first_level=WSJ.rounds, **own)]
    run.train([("wsj", own) for own in (*generative, *discriminative)])
    four = [run.grammar("wsj", own)[0] for own in generative]
    one = [run.grammar("wsj", own)[0] for own in discriminative]
    candidates = {
        "generative": four[:1],
        "discriminative": one,
        "generative4": four,
        "both": [*four, *one],
    }
    dev, test = (run.trees("wsj", split) for split in ("dev", "test"))
    found = {}
    for name, members in candidates.items():
        f1 = {t: score(_parser(run, members, t), dev, "own").f1 for t in PARSING_THRESHOLDS}
        threshold = max(f1, key=f1.__getitem__)
        found[name] = (f1[threshold], threshold)
        figures = {"dev_f1": f1[threshold], "threshold": threshold}
        yield under(f"best.wsj.candidates.{name}", figures)
    name = max(found, key=found.__getitem__)
    yield {
        "best.wsj.chosen": name,
        "best.wsj.threshold": found[name][1],
        "best.wsj.dev_f1": found[name][0],
    }
    for prefix, own in (("best.wsj", name), ("best.wsj.discriminative", "discriminative")):
        on_test = of_lengths(score(_parser(run, candidates[own], found[own][1]), test, "own"))
        yield under(prefix, {f"test_{key}": value for key, value in on_test.items()})


def _parser(run: Run, members: Sequence[LatentGrammar], threshold: float) -> ChartParser:
    # The first pass is exhaustive and prunes little. The level with two subcategories is left out,
    # because the parser approximates it if it comes first.
    levels = (0, *range(2, members[0].depth + 1))
    thresholds = (THRESHOLDS[0], *[threshold] * (len(levels) - 2))
    return ChartParser(members, levels=levels, thresholds=thresholds, threads=run.jobs)


PARTS: dict[str, Callable[[Run], Iterator[Figures]]] = {
    "pruning": pruning,
    "cost": cost,
    "best": best,
}
