"""Grammars with fragment features, estimated without parsing (Smith, Vail & Lafferty 2007).

    python corpora/fetch.py wsj_sample ewt
    python -m training.beyond.m_estimated_grammars

Writes training/results/m_estimated_grammars.json and a report, m_estimated_grammars.md. Section
4.1.2 of the paper describes the method, without figures. Parts, which --only selects:

wsj_xbar ... the base grammar q0 alone (q0), and with M-estimates of fragment features (m_est;
             m_est_paper: the same prior for all features)
wsj_xbar_conditional ... the same features trained by conditional likelihood (discriminative); on
             EWT also _tune, trained without the tuning documents, and scored on them
wsj_xbar_ranking ... the same features trained by ranking among samples of q0 (ranking)
ratios       of CPU times, from recorded figures

q0 is the X-bar grammar of the treebank (xbar), or a grammar after four rounds of splitting and
merging (latent). WSJ is the sample, split as in papers/petrov_klein2007. On EWT, settings are
selected on the documents of `ewt/tune.txt`, by models trained on the rest of train. Models for dev
are trained on all of train. Seconds are CPU time of one thread, in addition to q0. For M-estimates,
they include counts, expectations and passes through the counts. For conditional likelihood, they
include parsing, features of forests, and 100 iterations of L-BFGS, but not the grammars of the five
folds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import srsly
from tqdm import tqdm

from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.fragments.settings import MEstimatedGrammarSettings
from spacy_structlearn.grammar.fragments.training import FragmentStatistics
from spacy_structlearn.grammar.fragments.weights import (
    FragmentGrammar,
    FragmentScorer,
    FragmentWeights,
)
from spacy_structlearn.grammar.latent.model import LatentGrammar
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.latent.stages import encode
from spacy_structlearn.grammar.spans.forests import TrainingForests, training_forests
from spacy_structlearn.grammar.treebank.data import TreebankData, to_tree
from spacy_structlearn.optimize.lbfgs import LBFGS
from training.beyond.fragment_likelihood import FragmentObjective
from training.beyond.tree_ranking import TreeRanking
from training.common.command import bound, options, run_parts
from training.common.kept import LEXICON, Run, model_at
from training.common.recording import RESULTS
from training.common.scoring import Figures, f1_standard_error, parsed, scored, under
from training.common.treebanks import PUNCTUATION

NAME = "m_estimated_grammars"
BASES = {
    "xbar": LEXICON.part(LatentGrammarSettings, rounds=0),
    "latent": LEXICON.part(LatentGrammarSettings, rounds=4),
}
# For each corpus, the parts for training and scoring during selection, and after selection.
CHOOSING = {"wsj": ("train", "dev"), "ewt": ("fit", "tune")}
SCORING = {"wsj": ("train", ("dev", "test")), "ewt": ("train", ("dev",))}
SETTINGS = MEstimatedGrammarSettings()
FOLDS = 5  # each is parsed by a grammar trained on the others
# Penalties of conditional likelihood: the best of 1 to 100 on WSJ dev, or the default if the best
# gains less than a standard error.
PENALTIES = {"xbar": 1.0, "latent": 30.0}
# Pruning thresholds. At 1e-4, the X-bar grammar prunes too little; at 1e-2, the other too much.
THRESHOLDS = {"xbar": 1e-2, "latent": 1e-4}
DECODER = "labelled_recall"
# Variances of the prior by `scaling`. The paper's scaling is 0.
GRID = {
    0.0: (1.0, 2.0, 4.0, 8.0, 16.0),
    0.5: (0.1, 0.3, 1.0, 3.0),
    0.75: (0.1, 0.3, 1.0, 3.0),
    1.0: (0.03, 0.1, 0.3, 1.0),
}
ITERATIONS = 100  # maximum of L-BFGS, as in the paper's figure 1
SAMPLES = 20  # of each sentence, for ranking
RANKING = (0.3, 1.0, 3.0, 10.0)  # penalties
SCORED = (5, 10, 20, 40, 60, 80, 100)  # iterations with scores of the parser


class Clock:
    """A context manager that adds up CPU seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> Clock:
        self._start = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.process_time() - self._start


class Part:
    """A treebank with one base grammar, and the models trained on it, created on demand."""

    def __init__(self, run: Run, corpus: str, split: str, base: str):
        self.run, self.corpus, self.split, self.base = run, corpus, split, base
        self.settings = BASES[base]
        self.trees = list(run.trees(corpus, split))
        self.clocks: dict[str, Clock] = {}

    def clock(self, name: str) -> Clock:
        return self.clocks.setdefault(name, Clock())

    @cached_property
    def grammar(self) -> LatentGrammar:
        found, notes = self.run.model(self.corpus, self.split, self.settings)
        self.clock("q0").seconds = notes["cpu_s"]
        return found

    @cached_property
    def data(self) -> TreebankData:
        with self.clock("counting"):
            return encode(self.settings, [self.trees])

    @cached_property
    def statistics(self) -> FragmentStatistics:
        grammar, data = self.grammar, self.data
        with self.clock("counting"):
            return FragmentStatistics(SETTINGS, grammar, data)

    def m_estimate(self, scaling: float, c: float) -> tuple[FragmentWeights, Figures]:
        statistics, clock = self.statistics, Clock()
        with clock:
            dual = statistics.optimizer(
                1 / c, scaling=scaling, tolerance=SETTINGS.tolerance, seed=SETTINGS.seed
            ).run(SETTINGS.max_iterations)
            weights = statistics.estimate(dual.w, scaling)
        return weights, {"passes": dual.n_iterations, "passes_cpu_s": clock.seconds}

    def forests(self) -> TrainingForests:
        """Return the forests of the training sentences by grammars of the other folds."""
        n, folds = len(self.trees), FOLDS
        bounds = [n * fold // folds for fold in range(folds + 1)]
        words, gold = self.data.sentences, [to_tree(self.data, i) for i in range(n)]
        whole = self.run.path(self.corpus, self.split, self.settings)
        parts = []
        for fold in tqdm(range(folds), desc="forests", mininterval=5):
            begin, end = bounds[fold : fold + 2]
            others = self.trees[:begin] + self.trees[end:]
            path = whole.with_name(f"{whole.stem}-{n}-fold{fold + 1}of{folds}.bin")
            # The function is called at once, with `others` of this fold.
            grammar, _ = model_at(path, self.settings, lambda: others)  # noqa: B023
            own, threshold = np.arange(begin, end), THRESHOLDS[self.base]
            with self.clock("forests"):
                parts.append(
                    training_forests(grammar, self.grammar, words, gold, own, threshold=threshold)
                )
        return TrainingForests.joined(parts)

    def objective(self, weights: FragmentWeights, l2: float) -> FragmentObjective:
        forests, words = self.forests(), self.data.sentences
        with self.clock("features"):
            scorer = FragmentScorer(weights, self.grammar.symbols)
            # Recorded penalties are l2 |w|^2, without the factor 1/2.
            return FragmentObjective(forests, words, scorer, l2=2 * l2)

    def scores(self, weights: FragmentWeights | None, splits: Sequence[str]) -> Figures:
        """Return the scores with these weights, None: of q0 alone, on parts of the treebank."""
        grammar = FragmentGrammar(self.grammar, fragments=weights)
        thresholds = (THRESHOLDS[self.base],) * max(self.grammar.depth, 1)
        parser = ChartParser(grammar, decoder=DECODER, thresholds=thresholds)
        figures: Figures = {}
        for split in splits:
            gold = self.run.trees(self.corpus, split)
            found = scored(parsed(parser, gold), gold, PUNCTUATION[self.corpus])
            figures |= {
                f"{split}_f1": found.f1,
                f"{split}_f1_se": f1_standard_error(found),
                f"{split}_exact": found.complete_match,
            }
        return figures


def estimates(run: Run, corpus: str, base: str) -> Iterator[Figures]:
    """Yield figures of q0 and of M-estimates with the best priors."""
    where = f"{corpus}.{base}"
    learned, tuned = CHOOSING[corpus]
    part = Part(run, corpus, learned, base)
    yield under(f"{where}.q0", part.scores(None, [tuned]))
    grid = []
    for scaling, variances in GRID.items():
        for c in variances:
            weights, costs = part.m_estimate(scaling, c)
            f1 = part.scores(weights, [tuned])[f"{tuned}_f1"]
            grid.append({"scaling": scaling, "c": c, f"{tuned}_f1": f1, **costs})
    yield {f"{where}.grid": grid}
    learned, splits = SCORING[corpus]
    if learned != part.split:
        part = Part(run, corpus, learned, base)
    papers = [row for row in grid if not row["scaling"]]
    for name, rows in (("m_est", grid), ("m_est_paper", papers)):
        row = max(rows, key=lambda row: row[f"{tuned}_f1"])
        weights, passes = part.m_estimate(row["scaling"], row["c"])
        figures = {key: row[key] for key in (f"{tuned}_f1", "scaling", "c")}
        figures |= {**part.scores(weights, splits), **passes, "features": len(weights)}
        figures["cpu_s"] = part.clock("counting").seconds + passes["passes_cpu_s"]
        yield under(f"{where}.{name}", figures)
    seconds = {"cpu_s": part.clock("q0").seconds}
    yield under(f"{where}.q0", part.scores(None, splits) | seconds)


def conditional(
    run: Run, corpus: str, base: str, learned: str, splits: Sequence[str]
) -> Iterator[Figures]:
    """Train by conditional likelihood, with intermediate scores on the first of the splits."""
    where, split = f"{corpus}.{base}", splits[0]
    part = Part(run, corpus, learned, base)
    start = part.statistics.weights
    objective = part.objective(start, PENALTIES[base])
    optimizer, clock, curve = LBFGS(start.values), part.clock("iterations"), []
    more = True
    with tqdm(total=ITERATIONS, desc=where, mininterval=5) as bar:
        while more and optimizer.n_iterations < ITERATIONS:
            with clock:
                more = optimizer.step(objective.value_and_grad)
            loss = float(optimizer.value or 0.0)
            bar.set_postfix(loss=f"{loss:.4f}", refresh=False)
            bar.update()
            if optimizer.n_iterations in SCORED or not more:
                f1 = part.scores(start.with_weights(optimizer.x), [split])[f"{split}_f1"]
                iterations = {"iterations": optimizer.n_iterations, "loss": loss}
                curve.append({**iterations, "cpu_s": clock.seconds, "f1": f1})
    yield {f"{where}.curve.{split}": curve}
    seconds = {key: part.clock(key).seconds for key in ("forests", "features", "iterations")}
    figures: dict[str, Any] = part.scores(start.with_weights(optimizer.x), splits)
    figures |= {f"{key}_cpu_s": value for key, value in seconds.items()}
    figures |= {"cpu_s": sum(seconds.values()), "iterations": optimizer.n_iterations}
    yield under(f"{where}.discriminative", figures)


def ranking(run: Run, corpus: str, base: str) -> Iterator[Figures]:
    """Yield figures of ranking among samples, with the best penalty."""
    learned, tuned = CHOOSING[corpus]
    scores: dict[float, float] = {}
    for l2, part, weights, _ in _ranked(run, corpus, base, learned, RANKING):
        scores[l2] = part.scores(weights, [tuned])[f"{tuned}_f1"]
    best = max(scores, key=scores.__getitem__)
    learned, splits = SCORING[corpus]
    for l2, part, weights, seconds in _ranked(run, corpus, base, learned, [best]):
        figures = {f"{tuned}_f1": scores[best], "l2": l2, "samples": SAMPLES}
        figures |= {**part.scores(weights, splits), **seconds, "cpu_s": sum(seconds.values())}
        yield under(f"{corpus}.{base}.ranking", figures)


def _ranked(
    run: Run, corpus: str, base: str, split: str, penalties: Sequence[float]
) -> Iterator[tuple[float, Part, FragmentWeights, dict[str, float]]]:
    part = Part(run, corpus, split, base)
    start = part.statistics.weights
    objective = part.objective(start, 0.0)
    with part.clock("samples"):
        ranked = TreeRanking(objective, SAMPLES)
    del objective
    for l2 in penalties:
        clock = Clock()
        optimizer = LBFGS(start.values)
        bar = tqdm(total=ITERATIONS, desc=f"{corpus} ranking, {l2:g}", mininterval=5)
        with clock, bar:
            while optimizer.n_iterations < ITERATIONS and optimizer.step(
                lambda w, l2=l2: ranked.value_and_grad(w, l2)
            ):
                bar.set_postfix(loss=f"{optimizer.value:.4f}", refresh=False)
                bar.update()
        names = ("forests", "features", "samples")
        seconds = {f"{name}_cpu_s": part.clock(name).seconds for name in names}
        weights = start.with_weights(optimizer.x)
        yield l2, part, weights, {**seconds, "iterations_cpu_s": clock.seconds}


def held_out(run: Run, corpus: str, base: str) -> Iterator[Figures]:
    """Yield figures of conditional likelihood on the part for choosing settings."""
    learned, split = CHOOSING[corpus]
    for figures in conditional(run, corpus, base, learned, (split,)):
        # Only the costs with all sentences are reported.
        own = f"{corpus}.{base}.discriminative.{split}_"
        yield {k: v for k, v in figures.items() if "curve" in k or k.startswith(own)}


def final(run: Run, corpus: str, base: str) -> Iterator[Figures]:
    """Yield figures of conditional likelihood with all sentences."""
    learned, splits = SCORING[corpus]
    yield from conditional(run, corpus, base, learned, splits)


def ratios(run: Run) -> Figures:
    """Return ratios of CPU times, conditional likelihood over M-estimate, and the least of them."""
    figures: Any = srsly.read_json(RESULTS / f"{NAME}.json")
    found: Figures = {}
    for corpus in CHOOSING:
        for base in BASES:
            own = figures.get(corpus, {}).get(base, {})
            if "m_est" not in own or "cpu_s" not in own.get("discriminative", {}):
                continue
            ours, theirs = own["m_est"], own["discriminative"]
            key, split = f"ratio.cpu.{corpus}.{base}", SCORING[corpus][1][0]
            found[f"{key}.discriminative_over_m_est"] = theirs["cpu_s"] / ours["cpu_s"]
            # The time until conditional likelihood is as accurate as the M-estimate.
            before = theirs["forests_cpu_s"] + theirs["features_cpu_s"]
            curve = own["curve"].get(split, [])
            good = [row["cpu_s"] for row in curve if row["f1"] >= ours[f"{split}_f1"]]
            if good:
                found[f"{key}.same_f1"] = (before + good[0]) / ours["cpu_s"]
    least = [v for k, v in found.items() if k.endswith("discriminative_over_m_est")]
    return found | ({"ratio.cpu.discriminative_over_m_est": min(least)} if least else {})


PARTS: dict[str, Callable[[Run], Iterator[Figures] | Figures]] = {
    f"{corpus}_{base}{name}": partial(step, corpus=corpus, base=base)
    for base in BASES
    for corpus in CHOOSING
    for name, step in (
        ("", estimates),
        *((("_tune", held_out),) if corpus == "ewt" else ()),
        ("_conditional", final),
        ("_ranking", ranking),
    )
} | {"ratios": ratios}


def main() -> None:
    args = options(__doc__, "corpora", "work", "limit", only=PARTS).parse_args()
    run = Run(args.corpora, args.work, limit=args.limit)
    run_parts(NAME, bound(PARTS, run), args.only, is_trial=args.limit is not None, page=True)


if __name__ == "__main__":
    main()
