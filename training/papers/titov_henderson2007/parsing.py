"""Titov & Henderson (2007), section 6.2: parsing with incremental sigmoid belief networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from spacy_structlearn.evaluation.evalb import EvalbScore, score_trees
from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.isbn.decode import DerivationParser
from spacy_structlearn.isbn.model import ISBN
from spacy_structlearn.isbn.reranking import Reranker
from spacy_structlearn.isbn.settings import ISBNSettings
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.trees.tree import Tree
from training.common.kept import Plan, Run
from training.common.parsers import default_parser
from training.common.scoring import Figures, bracket_counts, f1_of, paired_bootstrap, under
from training.common.treebanks import PUNCTUATION
from training.papers.titov_henderson2007 import models
from training.papers.titov_henderson2007.rows import grammars

MEANS = {"nn": "feed_forward", "mf": "mean_field"}
BASE = ISBNSettings(signature="english")
# As described in the paper: stochastic gradients of single sentences, lower learning rate and
# weight decay when the accuracy on held-out sentences decreases, no features of unknown words.
PAPER = replace(BASE, dropout=0.0, averages=False, validation=0.05, signature="", normalization="")
ADAM = replace(
    BASE,
    state_size=80,
    dropout=0.2,
    optimizer="adam",
    batch_size=8,
    learn_rate=0.005,
    weight_decay=0.02,
    max_iterations=12,
)
# Candidates for the selection of settings.
CANDIDATES: dict[str, dict[str, ISBNSettings]] = {
    "ewt": {"paper": PAPER, "package": BASE, "adam": ADAM},
    "wsj": {
        name: replace(one, min_word_count=5)
        for name, one in (("paper", PAPER), ("package", BASE), ("adam", ADAM))
    },
}
SEEDS = {"ewt": (0, 1, 2), "wsj": (0, 1, 2, 3, 4)}  # the sample has 48 test sentences
PAPER_SEEDS = range(5)
K = (20, 50)
# Weights of the networks' log-probabilities relative to the grammar's, and biases of each bracket.
WEIGHTS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0)
BIASES = (0.0, -0.5, -0.25, 0.25, 0.5, 0.75, 1.0)


# --- settings -------------------------------------------------------------------------------------
def settings_of(settings: ISBNSettings, name: str) -> ISBNSettings:
    """Return the settings with the approximation of this short name."""
    return replace(settings, means=MEANS[name])


@cache
def candidates(run: models.Short, corpus: str, name: str) -> dict[str, float]:
    """Return F1 of each candidate on the part for selection."""
    fit, choose, _, _ = models.PARTS[corpus]
    own = {key: settings_of(one, name) for key, one in CANDIDATES[corpus].items()}
    run.prepare(Plan(corpus, fit, one) for one in own.values())
    return {key: f1_on(run, corpus, fit, one, choose) for key, one in own.items()}


def f1_on(run: models.Short, corpus: str, train: str, settings: ISBNSettings, split: str) -> float:
    """Train on one part and return F1 on another, with the main input tags."""
    return _score(run, corpus, train, settings, split, models.MAIN_TAGS[corpus]).f1


def _score(
    run: models.Short, corpus: str, train: str, settings: ISBNSettings, split: str, kind: str
) -> EvalbScore:
    model, _ = run.model(corpus, train, settings)
    return models.evaluated(run, DerivationParser(model), corpus, split, kind)[0]


def chosen(run: models.Short, corpus: str, name: str) -> ISBNSettings:
    """Return the best settings on the part for selection."""
    scores = candidates(run, corpus, name)
    best = max(scores, key=lambda key: scores[key])
    return settings_of(CANDIDATES[corpus][best], name)


# --- parsing --------------------------------------------------------------------------------------
def parsing(run: models.Short) -> Iterator[Figures]:
    """Yield figures of both approximations on short sentences, best and paper's settings."""
    yield {
        f"ewt{run.longest}.tagger.{s}_accuracy": models.tagger_accuracy(run, s)
        for s in models.PARTS["ewt"][1::2]
    }
    for corpus, parts in models.PARTS.items():
        prefix = f"{corpus}{run.longest}"
        _, choose, train, _ = parts
        for part in dict.fromkeys(parts):
            yield {f"{prefix}.sentences.{part}": len(run.trees(corpus, part))}
        for name in MEANS:
            scores = candidates(run, corpus, name)
            for key, f1 in scores.items():
                yield {f"{prefix}.{name}.candidates.{key}.{choose}_f1": f1}
            best = max(scores, key=lambda key: scores[key])
            yield {f"{prefix}.{name}.chosen": best, f"{prefix}.{name}.{choose}_f1": scores[best]}
        yield from compared(run, corpus, train, {n: chosen(run, corpus, n) for n in MEANS}, prefix)
        paper = {name: settings_of(CANDIDATES[corpus]["paper"], name) for name in MEANS}
        yield from compared(run, corpus, train, paper, f"{prefix}.paper")


def compared(
    run: models.Short, corpus: str, train: str, settings: Mapping[str, ISBNSettings], prefix: str
) -> Iterator[Figures]:
    """Yield test figures of both approximations, and the significance of their difference."""
    test = models.PARTS[corpus][3]
    run.prepare(Plan(corpus, train, one) for one in settings.values())
    parsers = {
        name: DerivationParser(run.model(corpus, train, one)[0]) for name, one in settings.items()
    }
    for kind in models.TAGS[corpus]:
        results = {}
        for name, parser in parsers.items():
            results[name], ms = models.evaluated(run, parser, corpus, test, kind)
            found = models.figures_of(results[name]) | {"ms_per_token": ms}
            yield under(f"{prefix}.{name}", models.under_tags(corpus, kind, found))
        yield under(
            prefix, models.under_tags(corpus, kind, difference(results["nn"], results["mf"]))
        )


def difference(first: EvalbScore, second: EvalbScore) -> Figures:
    """Return the advantage of the mean-field approximation."""
    p = paired_bootstrap(bracket_counts(first), bracket_counts(second))
    ahead = second.f1 - first.f1
    return {
        "mf_minus_nn_f1": ahead,
        "mf_over_nn_error_reduction": 100 * ahead / max(100 - first.f1, 1e-9),
        "mf_nn_p": p,
    }


def seeds(run: models.Short, corpus: str) -> Iterator[Figures]:
    """Yield figures of the chosen settings with other seeds."""
    settings = {name: chosen(run, corpus, name) for name in MEANS}
    prefix = f"{corpus}{run.longest}.seeds"
    yield from _by_seed(run, corpus, settings, SEEDS[corpus], models.MAIN_TAGS[corpus], prefix)


def paper_training(run: models.Short) -> Iterator[Figures]:
    """Yield figures of the training of the paper with gold tags, by seeds."""
    settings = {name: settings_of(PAPER, name) for name in MEANS}
    for corpus in models.PARTS:
        prefix = f"paper_training.{corpus}.gold_tags"
        yield from _by_seed(run, corpus, settings, PAPER_SEEDS, "gold_tags", prefix)


def _by_seed(
    run: models.Short,
    corpus: str,
    settings: Mapping[str, ISBNSettings],
    numbers: Sequence[int],
    kind: str,
    prefix: str,
) -> Iterator[Figures]:
    """Yield means over seeds of both approximations. p is of the sentences of all seeds."""
    _, _, train, test = models.PARTS[corpus]
    own = {name: [replace(one, seed=n) for n in numbers] for name, one in settings.items()}
    run.prepare(Plan(corpus, train, one) for plans in own.values() for one in plans)
    scores = {
        name: [_score(run, corpus, train, one, test, kind) for one in plans]
        for name, plans in own.items()
    }
    found = {name: np.array([score.f1 for score in own]) for name, own in scores.items()}
    for name, values in found.items():
        figures = {"f1": values.tolist(), "mean_f1": float(values.mean())}
        yield under(f"{prefix}.{name}", figures | {"sd_f1": float(values.std(ddof=1))})
    ahead = found["mf"] - found["nn"]
    # A sentence is drawn with its parses by all seeds.
    counts = [sum(map(bracket_counts, scores[name])) for name in ("nn", "mf")]
    yield under(
        prefix,
        {
            "mf_minus_nn_f1": float(ahead.mean()),
            "mf_wins": int((ahead > 0).sum()),
            "mf_over_nn_error_reduction": float(100 * ahead.mean() / (100 - found["nn"].mean())),
            "mf_nn_p": paired_bootstrap(*counts),
        },
    )


# --- reranking ------------------------------------------------------------------------------------
class Lists:
    """The best trees of each sentence by a first parser, with their scores.

    gold: gold trees. found: for each sentence trees and their log-probabilities, best first.
    counts: int64 (n, k, 3), see `bracket_counts`. log_probabilities: float64 (n, k), -inf if there
    are fewer than k trees. brackets: float64 (n, k), number in each tree. joint: for each network
    log P(tree, words), float64 (n, k).
    """

    def __init__(
        self, gold: Sequence[Tree], found: Sequence[Sequence[tuple[Tree, float]]], punctuation: str
    ):
        n, k = len(gold), max(map(len, found), default=0)
        self.shape = n, k
        self.gold, self.punctuation = list(gold), punctuation
        self.trees = [[tree for tree, _ in own] for own in found]
        self.rows = np.repeat(np.arange(n), [len(own) for own in found])
        self.columns = np.concatenate([np.arange(len(own)) for own in found] or [np.empty(0, int)])
        flat = [pair for own in found for pair in own]
        wanted = [gold[i] for i in self.rows]
        result = score_trees(wanted, [tree for tree, _ in flat], punctuation=punctuation)
        self.counts = np.zeros((n, k, 3), dtype=np.int64)
        self.counts[self.rows, self.columns] = bracket_counts(result)
        self.log_probabilities = self._placed([value for _, value in flat], -np.inf)
        self.brackets = self._placed([len(tree.spans()) - 1 for tree, _ in flat], 0.0)
        self.joint: dict[str, NDArray[np.float64]] = {}

    def add(self, name: str, model: ISBN) -> None:
        """Add the log-probabilities of a network."""
        trees = [tree for own in self.trees for tree in own]
        scores = Reranker(model, max(K), 1.0).log_probabilities(trees)
        self.joint[name] = self._placed(scores, -np.inf)

    def _placed(self, values: Any, nothing: float) -> NDArray[np.float64]:
        table = np.full(self.shape, nothing)
        table[self.rows, self.columns] = values
        return table

    def best(self, weights: Mapping[str, float], bias: float, k: int) -> NDArray[np.int64]:
        """Return the index of the best among the first k trees of each sentence.

        Trees that a network cannot derive are last, unless it can derive none of the sentence.
        """
        scores = self.log_probabilities[:, :k] + bias * self.brackets[:, :k]
        for name, weight in weights.items():
            if weight:
                own = self.joint[name][:, :k]
                impossible = ~np.isfinite(own).any(axis=1)
                scores = scores + weight * np.where(impossible[:, None], 0.0, own)
        return np.argmax(scores, axis=1)

    def f1(self, best: NDArray[np.int64]) -> float:
        """Return F1 in percent of the trees with these indices."""
        return float(f1_of(self.counts[np.arange(len(best)), best].sum(axis=0)))

    def score(self, best: NDArray[np.int64]) -> EvalbScore:
        """Return all scores of the trees with these indices."""
        taken = [own[i] for own, i in zip(self.trees, best.tolist(), strict=True)]
        return score_trees(self.gold, taken, punctuation=self.punctuation)

    def oracle(self, k: int) -> float:
        """Return F1 of the trees closest to the gold trees among the first k."""
        counts = self.counts[:, :k]
        present = np.isfinite(self.log_probabilities[:, :k])
        # If neither tree has brackets, nothing is wrong.
        empty = counts[..., 1:].sum(axis=-1) == 0
        own = np.where(empty, 100.0, f1_of(counts))
        return self.f1(np.argmax(np.where(present, own, -1.0), axis=1))


class Setting(NamedTuple):
    """Settings of a reranker."""

    kind: str
    k: int
    weights: tuple[tuple[str, float], ...]
    bias: float


def k_best_lists(run: models.Short, parser: ChartParser, split: str, kind: str) -> Lists:
    """Return k-best lists of a part of EWT by a parser that ranks trees by probability."""
    gold = run.trees("ewt", split)
    tags: models.Tags = models.tags_of(run, "ewt", split, kind)
    found = []
    for number, tree in enumerate(tqdm(gold, desc="k-best", mininterval=5)):
        words = tree.words()
        own = None if tags is None else tags[number]
        parses = parser.k_best(words, max(K), own)
        found.append([(normal(parse.tree(words)), parse.log_probability) for parse in parses])
    return Lists(gold, found, PUNCTUATION["ewt"])


def normal(tree: Tree) -> Tree:
    """Return the tree as it is trained on."""
    found = normalize(tree)
    assert found is not None
    return found


def reranked(
    run: models.Short,
    prefix: str,
    kinds: Sequence[str],
    first: Callable[[str], ChartParser],
    networks: Callable[[str], Mapping[str, ISBN]],
) -> Iterator[Figures]:
    """Yield figures of reranking lists of the first parser. Weights, the length of lists and the
    input tags are chosen on the tuning documents.

    first, networks: by the part of EWT that they were trained on.
    """
    fit, choose, train, test = models.PARTS["ewt"]
    lists: dict[tuple[str, str], Lists] = {}
    for part, split in ((fit, choose), (train, test)):
        parser, own = first(part), networks(part)
        for kind in kinds:
            made = k_best_lists(run, parser, split, kind)
            for name, model in own.items():
                made.add(name, model)
            lists[split, kind] = made
    for kind in kinds:
        tune, dev = lists[choose, kind], lists[test, kind]
        for k in K:
            found = {f"{choose}_oracle_f1": tune.oracle(k), "oracle_f1": dev.oracle(k)}
            yield under(f"{prefix}.lists.{kind}.{k}", found)
        nothing = dev.best({}, 0.0, max(K))
        found = models.figures_of(dev.score(nothing))
        found[f"{choose}_f1"] = tune.f1(tune.best({}, 0.0, max(K)))
        yield under(f"{prefix}.lists.{kind}.first", found)
    best: dict[str, tuple[float, Setting]] = {}
    for names in (("nn",), ("mf",), tuple(MEANS)):
        best["_".join(names)] = _best_setting({kind: lists[choose, kind] for kind in kinds}, names)
    scores = {}
    for name, (tune_f1, setting) in best.items():
        dev = lists[test, setting.kind]
        weights = dict(setting.weights)
        scores[name] = dev.score(dev.best(weights, setting.bias, setting.k))
        figures = {
            **models.figures_of(scores[name]),
            f"{choose}_f1": tune_f1,
            "oracle_f1": dev.oracle(setting.k),
            "tags": setting.kind,
            "k": setting.k,
            "bias": setting.bias,
            **{f"weights.{key}": value for key, value in setting.weights},
        }
        yield under(f"{prefix}.{name}", figures)
    name = max(best, key=lambda key: best[key][0])
    setting = best[name][1]
    dev = lists[test, setting.kind]
    yield under(
        prefix,
        {
            "chosen": name,
            **models.figures_of(scores[name]),
            f"{choose}_f1": best[name][0],
            "oracle_f1": dev.oracle(setting.k),
            "tags": setting.kind,
            "k": setting.k,
            "weight": [value for _, value in setting.weights],
            "bias": setting.bias,
        },
    )
    alone = dev.score(dev.best({}, 0.0, setting.k))
    p = paired_bootstrap(bracket_counts(alone), bracket_counts(scores[name]))
    yield under(prefix, {"minus_first_f1": scores[name].f1 - alone.f1, "first_p": p})


def _best_setting(lists: Mapping[str, Lists], names: Sequence[str]) -> tuple[float, Setting]:
    """Return the best F1 and its setting. Ties go to the first, which has no bias."""
    found: list[tuple[float, Setting]] = []
    for kind, own in lists.items():
        for k, bias, weights in product(K, BIASES, product(WEIGHTS, repeat=len(names))):
            setting = Setting(kind, k, tuple(zip(names, weights, strict=True)), bias)
            found.append((own.f1(own.best(dict(setting.weights), bias, k)), setting))
    return max(found, key=lambda pair: pair[0])


def rerank(run: models.Short) -> Iterator[Figures]:
    """Yield figures of reranking the product of four latent grammars of the same sentences."""

    def first(part: str) -> ChartParser:
        # This decoder ranks lists by probability.
        return ChartParser(grammars(run, "ewt", part).grammar, decoder="labelled_recall")

    yield from reranked(
        run, "rerank", ("tagger", "own_tags"), first, lambda part: _networks(run, part)
    )


def _networks(
    run: models.Short, part: str, own: Mapping[str, ISBNSettings] | None = None
) -> dict[str, ISBN]:
    if own is None:
        own = {name: chosen(run, "ewt", name) for name in MEANS}
    run.prepare(Plan("ewt", part, one) for one in own.values())
    return {name: run.model("ewt", part, one)[0] for name, one in own.items()}


# --- all lengths ----------------------------------------------------------------------------------
def full(run: models.Short) -> Iterator[Figures]:
    """Yield figures on sentences of all lengths of EWT, and of reranking the default parser."""
    fit, choose, train, _ = models.PARTS["ewt"]
    settings = {name: chosen(run, "ewt", name) for name in MEANS}
    whole = replace(run, longest=None)
    whole.prepare(Plan("ewt", part, one) for part in (fit, train) for one in settings.values())
    for name, one in settings.items():
        found = {f"{choose}_f1": f1_on(whole, "ewt", fit, one, choose)}
        _, notes = whole.model("ewt", train, one)
        yield under(f"full.{name}", found | {"train_s": notes["cpu_s"]})
    yield from compared(whole, "ewt", train, settings, "full")

    def first(part: str) -> ChartParser:
        return default_parser(Run(run.corpora, run.work, run.jobs), part).reader()

    yield from reranked(
        whole, "full.rerank", ("own_tags",), first, lambda part: _networks(whole, part, settings)
    )
