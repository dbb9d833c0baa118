"""Grammars with fragment features, estimated without parsing (Smith, Vail & Lafferty 2007).

    python corpora/fetch.py wsj_sample ewt
    pip install matplotlib
    python -m training.beyond.m_estimated_grammars

Writes training/results/m_estimated_grammars.json, with a report and a figure (.md, .svg and .png).
Section 4.1.2 of the paper describes the method, without figures. Steps, which --only selects:

identities   expectations of the treebank grammar, compared with counts in the treebank
wsj_xbar ... the base grammar q0 alone (q0), and with M-estimates of fragment features (m_est;
             m_est_paper: the same prior for all features)
wsj_xbar_conditional ... the same features trained by conditional likelihood (discriminative); on
             EWT also _tune, trained without the tuning documents, and scored on them
wsj_xbar_initialiser ... conditional likelihood from the M-estimate, and from 0
wsj_xbar_penalties ... conditional likelihood with other penalties
sizes        fewer sentences of WSJ, with the X-bar grammar
templates    one group of templates at a time, by both methods, and the best three by each
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

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory

# Set before NumPy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np
from scipy.stats import spearmanr
from tqdm import tqdm

from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.fragments.pcfg import PCFG, Expectations
from spacy_structlearn.grammar.fragments.settings import (
    FragmentFeaturesSettings,
    MEstimatedGrammarSettings,
)
from spacy_structlearn.grammar.fragments.training import (
    FragmentObjective,
    FragmentStatistics,
    shrunk,
)
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
from spacy_structlearn.trees.tree import Tree
from training.beyond.m_estimated_grammars import report
from training.common.kept import LEXICON, grammar_at, grammar_path, kept_grammar
from training.common.recording import CORPORA, RESULTS, WORK, record_steps
from training.common.scoring import Figures, f1_standard_error, parsed, scored, under
from training.common.treebanks import PUNCTUATION, TREES

NAME = "m_estimated_grammars"
BASES = {
    "xbar": LEXICON.part(LatentGrammarSettings, rounds=0),
    "latent": LEXICON.part(LatentGrammarSettings, rounds=4),
}
# For each corpus, the parts for training and scoring during selection, and after selection.
CHOOSING = {"wsj": ("train", "dev"), "ewt": ("fit", "tune")}
SCORING = {"wsj": ("train", ("dev", "test")), "ewt": ("train", ("dev",))}
SETTINGS = MEstimatedGrammarSettings()  # with the default number of folds
# Penalties of conditional likelihood: the best of `GRID_L2` on WSJ dev, or the default if the best
# gains less than a standard error.
PENALTIES = {"xbar": 1.0, "latent": 30.0}
# Pruning thresholds. At 1e-4, the X-bar grammar prunes too little; at 1e-2, the other too much.
THRESHOLDS = {"xbar": SETTINGS.threshold, "latent": 1e-4}
DECODER = "labelled_recall"
# Variances of the prior by `scaling`. The paper's scaling is 0.
GRID = {
    0.0: (1.0, 2.0, 4.0, 8.0, 16.0),
    0.5: (0.1, 0.3, 1.0, 3.0),
    0.75: (0.1, 0.3, 1.0, 3.0),
    1.0: (0.03, 0.1, 0.3, 1.0),
}
GRID_L2 = (1.0, 3.0, 10.0, 30.0, 100.0)
ITERATIONS = 100  # maximum of L-BFGS, as in the paper's figure 1
SCORED = (5, 10, 20, 40, 60, 80, 100)  # iterations with scores of the parser
NEAR = (0.05, 0.01)  # tolerances, relative to the decrease of the objective
GROUPS = {
    "parent": ("RULE|PARENT", "TAG|PARENT"),
    "grandparent": ("LABEL|PARENT|GRANDPARENT",),
    "sibling": ("RULE|SIBLING",),
    "tags": tuple(f"RULE|TAG[{place}]" for place in ("first", "last", "left", "right")),
    "rule_words": tuple(f"RULE|WORD[{place}]" for place in ("first", "last", "left", "right")),
    "words_inside": ("LABEL|WORD[first]", "LABEL|WORD[last]"),
    "words_beside": ("LABEL|WORD[before]", "LABEL|WORD[after]"),
    "suffixes": tuple(f"LABEL|SUFFIX3[{place}]" for place in ("first", "last", "before", "after")),
    "tag_affixes": tuple(
        f"TAG|{attribute}[first]" for attribute in ("SUFFIX2", "SUFFIX3", "PREFIX2", "SHAPE")
    ),
    "tag_neighbours": ("TAG|WORD[before]", "TAG|WORD[after]"),
}
CHOSEN = 3  # number of groups
SIZES = (50, 100, 200, 400, 800, 1600)
GROUP_ITERATIONS = 40


@dataclass(frozen=True)
class Run:
    """The folders of corpora and of the cache, and the maximum number of trees."""

    corpora: Path
    work: Path
    limit: int | None = None

    def trees(self, corpus: str, split: str) -> list[Tree]:
        return list(TREES[corpus](self.corpora, split)[: self.limit])


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
    """A treebank with one base grammar and the models trained on it, which are created on demand.

    Grammars are kept in the run's folder.
    """

    def __init__(self, run: Run, corpus: str, split: str, base: str):
        self.run, self.corpus, self.split, self.base = run, corpus, split, base
        self.estimator = BASES[base]
        self.clocks: dict[str, Clock] = {}

    def clock(self, name: str) -> Clock:
        return self.clocks.setdefault(name, Clock())

    @cached_property
    def trees(self) -> list[Tree]:
        return self.run.trees(self.corpus, self.split)

    @cached_property
    def grammar(self) -> LatentGrammar:
        run = self.run
        if run.limit is None:
            settings = (run.work, run.corpora, self.corpus, self.split, self.estimator)
            found, notes = kept_grammar(*settings)
        else:
            path = run.work / f"{self.corpus}-{self.split}-{self.base}.bin"
            found, notes = grammar_at(path, self.estimator, lambda: self.trees)
        self.clock("q0").seconds = notes["cpu_s"]
        return found

    @cached_property
    def data(self) -> TreebankData:
        with self.clock("counting"):
            return encode(self.estimator, [self.trees])

    def statistics(self, features: FragmentFeaturesSettings) -> FragmentStatistics:
        grammar, data = self.grammar, self.data
        with self.clock("counting"):
            return FragmentStatistics(features, grammar, data)

    def m_estimate(
        self, statistics: FragmentStatistics, scaling: float, c: float
    ) -> tuple[FragmentWeights, Figures]:
        clock = Clock()
        with clock:
            dual = statistics.optimizer(
                1 / c, scaling=scaling, tolerance=SETTINGS.tolerance, seed=SETTINGS.seed
            ).run(SETTINGS.max_iterations)
            weights = statistics.estimate(dual.w, scaling)
        return weights, {"passes": dual.n_iterations, "passes_cpu_s": clock.seconds}

    @cached_property
    def forests(self) -> TrainingForests:
        """The forests of the training sentences by grammars of the other folds."""
        n, folds = len(self.trees), SETTINGS.folds
        bounds = [n * fold // folds for fold in range(folds + 1)]
        words, gold = self.data.sentences, [to_tree(self.data, i) for i in range(n)]
        parts = []
        for fold in tqdm(range(folds), desc="forests", mininterval=5):
            begin, end = bounds[fold : fold + 2]
            others = self.trees[:begin] + self.trees[end:]
            path = grammar_path(self.run.work, self.corpus, self.split, self.estimator)
            name = f"{path.stem}-{len(self.trees)}-fold{fold + 1}of{folds}.bin"
            # The function is called at once, with `others` of this fold.
            grammar, _ = grammar_at(path.with_name(name), self.estimator, lambda: others)  # noqa: B023
            with self.clock("forests"):
                parts.append(
                    training_forests(
                        grammar,
                        self.grammar,
                        words,
                        gold,
                        np.arange(begin, end),
                        threshold=THRESHOLDS[self.base],
                    )
                )
        return TrainingForests.joined(parts)

    def objective(self, weights: FragmentWeights, l2: float) -> FragmentObjective:
        forests, words = self.forests, self.data.sentences
        with self.clock("features"):
            scorer = FragmentScorer(weights, self.grammar.symbols)
            # Recorded penalties are l2 |w|^2, without the factor 1/2.
            return FragmentObjective(forests, words, scorer, l2=2 * l2)

    def scores(self, weights: FragmentWeights | None, splits: Sequence[str]) -> Figures:
        return {k: v for split in splits for k, v in self.score(weights, split).items()}

    def score(self, weights: FragmentWeights | None, split: str) -> Figures:
        grammar = FragmentGrammar(self.grammar, fragments=weights)
        thresholds = (THRESHOLDS[self.base],) * max(self.grammar.depth, 1)
        gold = self.run.trees(self.corpus, split)
        parser = ChartParser(grammar, decoder=DECODER, thresholds=thresholds)
        found = scored(parsed(parser, gold), gold, PUNCTUATION[self.corpus])
        return {
            f"{split}_f1": found.f1,
            f"{split}_f1_se": f1_standard_error(found),
            f"{split}_exact": found.complete_match,
        }


def climb(
    part: Part,
    objective: FragmentObjective,
    start: FragmentWeights,
    iterations: int,
    split: str | None,
) -> tuple[FragmentWeights, list[Figures], list[float]]:
    """Maximize the conditional likelihood, starting with these weights.

    Returns the final weights; intermediate scores on a split, if given, with CPU seconds; and the
    objective after each iteration.
    """
    optimizer = LBFGS(start.values)
    clock, curve, values = Clock(), [], []
    more = True
    with tqdm(total=iterations, desc=f"{part.corpus} {part.base}", mininterval=5) as bar:
        while more and optimizer.n_iterations < iterations:
            with clock:
                more = optimizer.step(objective.value_and_grad)
            values.append(float(optimizer.value or 0.0))
            bar.set_postfix(loss=f"{values[-1]:.4f}", refresh=False)
            bar.update()
            if split is not None and (optimizer.n_iterations in SCORED or not more):
                found = part.score(start.with_weights(optimizer.x), split)
                f1 = found[f"{split}_f1"]
                curve.append(
                    {
                        "iterations": optimizer.n_iterations,
                        "evaluations": optimizer.n_evaluations,
                        "cpu_s": clock.seconds,
                        "loss": values[-1],
                        "f1": f1,
                    }
                )
    part.clock("iterations").seconds = clock.seconds
    return start.with_weights(optimizer.x), curve, values


# --- steps ----------------------------------------------------------------------------------------
def identities(run: Run) -> Iterator[Figures]:
    """Yield differences of expected and mean counts of the treebank grammar."""
    for corpus, (split, _) in SCORING.items():
        part = Part(run, corpus, split, "xbar")
        data, pcfg = part.data, PCFG.of(part.grammar)
        n = data.n_trees
        n_binary = pcfg.n_binary
        counts = np.append(
            np.bincount(data.production[data.is_binary], minlength=n_binary),
            np.bincount(data.production[data.is_unary], minlength=len(pcfg.rules) - n_binary),
        )
        exact = replace(
            pcfg,
            p=counts / data.occurrences[pcfg.rules[:, 0]],
            root=np.bincount(data.symbol[data.offsets[1:] - 1], minlength=pcfg.size) / n,
        )
        for name, grammar in (("", exact), (".single_precision", pcfg)):
            expected = Expectations(grammar)
            differences = (
                expected.rules() - counts / n,
                expected.outside - data.occurrences / n,
            )
            largest = max(float(np.abs(difference).max()) for difference in differences)
            yield under(f"identities.{corpus}{name}", _small("max_abs_difference", largest))
        inside = float(np.abs(exact.inside() - 1.0).max())
        yield under(f"identities.{corpus}", _small("inside_max_abs_difference", inside))
        yield {f"identities.{corpus}.rules": len(pcfg.rules)}


def _small(name: str, value: float) -> Figures:
    """Return a number and its logarithm, which is more precise after rounding."""
    return {name: value, f"log10_{name}": float(np.log10(max(value, 1e-300)))}


def estimates(run: Run, corpus: str, base: str) -> Iterator[Figures]:
    """Yield figures of q0 and of M-estimates with the best priors."""
    where = f"{corpus}.{base}"
    learned, tuned = CHOOSING[corpus]
    part = Part(run, corpus, learned, base)
    statistics = part.statistics(SETTINGS)
    yield under(f"{where}.q0", part.score(None, tuned))
    grid = []
    for scaling, variances in GRID.items():
        for c in variances:
            weights, costs = part.m_estimate(statistics, scaling, c)
            f1 = part.score(weights, tuned)[f"{tuned}_f1"]
            grid.append({"scaling": scaling, "c": c, f"{tuned}_f1": f1, **costs})
    yield {f"{where}.grid": grid}
    papers = [row for row in grid if not row["scaling"]]
    learned, splits = SCORING[corpus]
    if learned != part.split:
        part = Part(run, corpus, learned, base)
        statistics = part.statistics(SETTINGS)
    for name, rows in (("m_est", grid), ("m_est_paper", papers)):
        row = max(rows, key=lambda row: row[f"{tuned}_f1"])
        weights, passes = part.m_estimate(statistics, row["scaling"], row["c"])
        spent = part.clock("counting").seconds + passes["passes_cpu_s"]
        yield under(
            f"{where}.{name}",
            {
                **{k: row[k] for k in (f"{tuned}_f1", "scaling", "c")},
                **part.scores(weights, splits),
                **passes,
                "cpu_s": spent,
                "features": len(weights),
            },
        )
    figures = part.scores(None, splits)
    yield under(f"{where}.q0", {**figures, "cpu_s": part.clock("q0").seconds})


def conditional(
    run: Run, corpus: str, base: str, learned: str, splits: Sequence[str]
) -> Iterator[Figures]:
    """Train by conditional likelihood, with intermediate scores on the first of the splits."""
    where = f"{corpus}.{base}"
    part = Part(run, corpus, learned, base)
    weights = part.statistics(SETTINGS).weights
    objective = part.objective(weights, PENALTIES[base])
    weights, rows, losses = climb(part, objective, weights, ITERATIONS, splits[0])
    objective.close()
    yield {f"{where}.curve.{splits[0]}": rows}
    seconds = {key: part.clock(key).seconds for key in ("forests", "features", "iterations")}
    yield under(
        f"{where}.discriminative",
        {
            **part.scores(weights, splits),
            **{f"{key}_cpu_s": value for key, value in seconds.items()},
            "cpu_s": sum(seconds.values()),
            "iterations": len(losses),
            "edges_per_sentence": objective.n_edges / len(part.trees),
        },
    )


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


def penalties(run: Run, corpus: str, base: str) -> Iterator[Figures]:
    """Yield figures of conditional likelihood with other penalties."""
    learned, split = CHOOSING[corpus]
    part = Part(run, corpus, learned, base)
    weights = part.statistics(SETTINGS).weights
    rows = []
    for l2 in GRID_L2:
        objective = part.objective(weights, l2)
        found, _, _ = climb(part, objective, weights, ITERATIONS, None)
        objective.close()
        rows.append({"l2": l2, **part.score(found, split)})
        yield {f"{corpus}.{base}.penalties": rows}


def initialiser(run: Run, corpus: str, base: str) -> Iterator[Figures]:
    """Yield figures of conditional likelihood from 0, and from the default M-estimate."""
    where = f"{corpus}.{base}"
    learned, tuned = CHOOSING[corpus]
    part = Part(run, corpus, learned, base)
    statistics = part.statistics(SETTINGS)
    objective = part.objective(statistics.weights, PENALTIES[base])
    estimate, _ = part.m_estimate(statistics, SETTINGS.scaling, 1 / SETTINGS.l2)
    start = estimate.with_weights(shrunk(objective, estimate.values))
    losses: dict[str, list[float]] = {}
    _, _, losses["zero"] = climb(part, objective, statistics.weights, ITERATIONS, None)
    _, rows, losses["m_est"] = climb(part, objective, start, ITERATIONS, tuned)
    objective.close()
    scale = float(np.abs(start.values).max() / np.abs(estimate.values).max())
    yield {f"{where}.curve.from_m_est": rows}
    yield under(f"{where}.initialiser", {"scale": scale, **_saved(losses)})


def _saved(losses: dict[str, list[float]]) -> Figures:
    """Return the iterations until the objective is near the end of the better of two runs."""
    end = min(values[-1] for values in losses.values())
    far = losses["zero"][0] - end
    found: Figures = {}
    for near in NEAR:
        reached = {
            start: next((i + 1 for i, v in enumerate(values) if v - end <= near * far), None)
            for start, values in losses.items()
        }
        name = f"within_{100 * near:.0f}_percent"
        found |= {f"{name}.{start}": number for start, number in reached.items()}
        if None not in reached.values():
            found[f"{name}.saved"] = reached["zero"] - reached["m_est"]
    return found


def ratios(run: Run) -> Iterator[Figures]:
    """Yield ratios of CPU times, conditional likelihood over M-estimate, and the least of them."""
    figures = json.loads((RESULTS / f"{NAME}.json").read_text(encoding="utf8"))
    found: Figures = {}
    for corpus in CHOOSING:
        for base in BASES:
            own = figures.get(corpus, {}).get(base, {})
            if "m_est" not in own or "cpu_s" not in own.get("discriminative", {}):
                continue
            ours = own["m_est"]["cpu_s"]
            key = f"ratio.cpu.{corpus}.{base}"
            found[f"{key}.discriminative_over_m_est"] = own["discriminative"]["cpu_s"] / ours
            found |= _same_f1(key, own, SCORING[corpus][1][0], ours)
    least = [v for k, v in found.items() if k.endswith("discriminative_over_m_est")]
    if least:
        found["ratio.cpu.discriminative_over_m_est"] = min(least)
    yield found


def _same_f1(key: str, own: Figures, split: str, ours: float) -> Figures:
    """Return the time ratio until conditional likelihood is as accurate as the M-estimate."""
    curve = own["curve"].get(split, [])
    before = sum(own["discriminative"][f"{name}_cpu_s"] for name in ("forests", "features"))
    good = [row["cpu_s"] for row in curve if row["f1"] >= own["m_est"][f"{split}_f1"]]
    return {f"{key}.same_f1": (before + good[0]) / ours} if good else {}


def sizes(run: Run) -> Iterator[Figures]:
    """Yield figures with the first sentences of WSJ's training data, with default settings."""
    for size in SIZES:
        with TemporaryDirectory() as folder:
            small = replace(run, work=Path(folder), limit=size)
            part = Part(small, "wsj", "train", "xbar")
            statistics = part.statistics(SETTINGS)
            weights, _ = part.m_estimate(statistics, SETTINGS.scaling, 1 / SETTINGS.l2)
            objective = part.objective(statistics.weights, PENALTIES[part.base])
            learned, _, _ = climb(part, objective, statistics.weights, ITERATIONS, None)
            objective.close()
            # All sentences for scoring.
            part.run = run
            for name, own in (("q0", None), ("m_est", weights), ("discriminative", learned)):
                yield under(f"sizes.{size}.{name}", part.score(own, "dev"))


def templates(run: Run) -> Iterator[Figures]:
    """Yield figures of groups of templates on WSJ, with the X-bar grammar."""
    part = Part(run, "wsj", "train", "xbar")
    f1: dict[str, dict[str, float]] = {"m_est": {}, "discriminative": {}}
    seconds = {"m_est": 0.0, "discriminative": 0.0}
    for name, texts in GROUPS.items():
        own, spent = _by_both(part, texts)
        for kind, value in own.items():
            f1[kind][name] = value
            seconds[kind] += spent[kind]
        yield under(f"templates.{name}", {f"{kind}_f1": value for kind, value in own.items()})
    rank = spearmanr([f1["m_est"][name] for name in GROUPS], [*f1["discriminative"].values()])
    yield {"templates.spearman": float(rank.statistic)}
    for kind, values in f1.items():
        best = sorted(GROUPS, key=lambda name: -values[name])[:CHOSEN]
        texts = [text for name in GROUPS if name in best for text in GROUPS[name]]
        own, _ = _by_both(part, texts)
        yield under(
            f"templates.chosen_by_{kind}",
            {
                "groups": [name for name in GROUPS if name in best],
                "cpu_s": seconds[kind],
                **{f"{other}_f1": value for other, value in own.items()},
            },
        )


def _by_both(part: Part, texts: Sequence[str]) -> tuple[dict[str, float], dict[str, float]]:
    """Return F1 on dev and CPU seconds with these templates by both methods."""
    part.clock("counting").seconds = 0.0
    statistics = part.statistics(FragmentFeaturesSettings(templates=texts))
    weights, costs = part.m_estimate(statistics, SETTINGS.scaling, 1 / SETTINGS.l2)
    ours = part.clock("counting").seconds + costs["passes_cpu_s"]
    estimated = part.score(weights, "dev")["dev_f1"]
    part.clock("features").seconds = 0.0
    objective = part.objective(statistics.weights, PENALTIES[part.base])
    weights, curve, _ = climb(part, objective, statistics.weights, GROUP_ITERATIONS, "dev")
    objective.close()
    theirs = part.clock("features").seconds + curve[-1]["cpu_s"]
    return (
        {"m_est": estimated, "discriminative": curve[-1]["f1"]},
        {"m_est": ours, "discriminative": theirs},
    )


STEPS: dict[str, Callable[[Run], Iterator[Figures]]] = {
    "identities": identities,
    **{
        f"{corpus}_{base}{name}": partial(step, corpus=corpus, base=base)
        for base in BASES
        for corpus in CHOOSING
        for name, step in (
            ("", estimates),
            *((("_tune", held_out),) if corpus == "ewt" else ()),
            ("_conditional", final),
            ("_initialiser", initialiser),
            *((("_penalties", penalties),) if corpus == "wsj" else ()),
        )
    },
    "sizes": sizes,
    "templates": templates,
    "ratios": ratios,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=STEPS, help="some steps")
    parser.add_argument("--corpora", type=Path, default=CORPORA, help="default: %(default)s")
    parser.add_argument("--work", type=Path, default=WORK, help="cache of grammars")
    parser.add_argument(
        "--limit", type=int, help="use only this many trees of each part, and record nothing"
    )
    args = parser.parse_args()
    run = Run(args.corpora, args.work, args.limit)
    steps = (STEPS[name](run) for name in args.only or STEPS)
    record_steps(NAME, steps, report.write, args.limit is not None)


if __name__ == "__main__":
    main()
