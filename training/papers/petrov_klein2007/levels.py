"""Tables 1 and 2 as in the paper: every level starts from a copy of the level before.

Petrov & Klein (2007), sections 2.2 and 3.1. A weight is exp(theta), priors pull theta to 0, and a
little noise, by the seed, breaks the symmetry of a split. The parser uses every level, all with one
threshold, and the decoder of the paper, the maximum expected number of correct productions.

`copy`: words, short sentences. Grammars of EWT are trained on its documents except for those of
tune.txt, on which the strengths of priors are chosen with four subcategories. Dev of EWT, and dev
and test of the WSJ sample together, are only reported. `skeleton`: all of the Wall Street Journal,
whose words are tags: the gain by the number of trees. `causes`: the gain on EWT with other numbers
of trees, without words, and with other pruning. `analysis`: section 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.discriminative.objective import (
    FLOOR,
    GrammarLikelihood,
    Parameterization,
    without_backoff,
)
from spacy_structlearn.grammar.discriminative.settings import ConditionalGrammarSettings
from spacy_structlearn.grammar.discriminative.training import MEMORY, Objectives, copied
from spacy_structlearn.grammar.latent.describe import subcategories
from spacy_structlearn.grammar.latent.model import LatentGrammar
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.latent.stages import encode
from spacy_structlearn.optimize.lbfgs import minimize
from spacy_structlearn.trees.tree import Tree
from training.common.kept import TABLE1
from training.common.scoring import Figures, f1_standard_error, score, under
from training.common.treebanks import PUNCTUATION, TREES
from training.papers.petrov_klein2007.discriminative import NUMBERS, Run, digest_of

# A level that starts from a copy needs the splits of the generative rounds, but not their EM.
SPLIT = {"split_iterations": 0, "merge_iterations": 0, "smooth_iterations": 0}
COPY = TABLE1.part(
    ConditionalGrammarSettings, base="uniform", start="copy", l1=0.0, l2=0.0, shards=4
)
COPY = replace(COPY, rounds=4, conditional_iterations=150, **SPLIT)
STRENGTHS = {"none": (0.0,), "l1": (0.1, 0.3, 1.0), "l2": (0.03, 0.1, 0.3, 1.0)}
NORM = "l1"  # of the paper's table 1
TUNED = 2  # with four subcategories
THRESHOLD = 1e-3  # of posteriors, after each level
DECODER = "max_rule_sum"
SIZES = (1000, 4000, 15_000, 30_060)
SKELETON = replace(COPY, rounds=2, conditional_iterations=40)
EVERY = 3  # of the skeleton's dev
# Tags whose subcategories the paper describes, and the number of words shown for each of them.
TAGS = ("DT", "IN", "NNP", "CD")
SHOWN = 3


@dataclass(frozen=True)
class Part(Run):
    """Grammars of a part of a corpus.

    corpus: with "_tags", each word is its tag. longest: number of words of a sentence. learned: the
    trees that are learned, at most `limit` of them. reported: those that are reported, such as
    "dev+test". seeds: number of seeds of table 1.
    """

    corpus: str = "ewt"
    longest: int = 15
    learned: str = "fit"
    reported: str = "dev"
    seeds: int = 3

    def trees(self, corpus: str, split: str) -> Sequence[Tree]:
        name = corpus.removesuffix("_tags")
        whole = [tree for part in split.split("+") for tree in TREES[name](self.corpora, part)]
        found = [tree for tree in whole if len(tree.words()) <= self.longest]
        if name != corpus:
            found = [
                tree.fold(lambda leaf: Tree.leaf(leaf.label, leaf.label), _same) for tree in found
            ]
        if split == self.learned:
            return found[: self.limit]
        return found[::EVERY] if corpus == "wsj_skeleton" else found

    def name(self, corpus: str, split: str) -> str:
        return f"{super().name(corpus, split)}-{self.longest}"

    def learn(self, settings: LatentGrammarSettings) -> tuple[LatentGrammar, Figures]:
        """Return the grammar with these settings, and its notes."""
        return self.prepared(self.corpus, self.learned, settings)

    def scores(self, settings: LatentGrammarSettings, split: str = "") -> list[Figures]:
        """Return F1 and exact match of each level, on `split` or what is reported."""
        trained, _ = self.learn(settings)
        path = self.path(self.corpus, self.learned, settings)
        split = split or self.reported
        measure = partial(self.measured, trained, split)
        return self.once(f"{path.stem}-{split}", digest_of(path), measure)

    def measured(self, grammar: LatentGrammar, split: str) -> list[Figures]:
        gold, found = self.trees(self.corpus, split), []
        for depth in range(grammar.depth + 1):
            parser = ChartParser(
                grammar.truncated(depth + 1),
                decoder=DECODER,
                levels=range(depth + 1),
                thresholds=[THRESHOLD] * max(depth, 1),
                threads=self.jobs,
            )
            own = score(parser, gold, PUNCTUATION.get(self.corpus[:3], "own"))
            found.append({"f1": own.f1, "exact": own.complete_match, "se": f1_standard_error(own)})
        return found

    def compared(self, prefix: str, settings: ConditionalGrammarSettings) -> Iterator[Figures]:
        """Yield the scores of generative and discriminative grammars of one seed, and the gain."""
        generative = self.scores(replace(TABLE1, rounds=settings.rounds))
        yield from _compared(prefix, generative[: TUNED + 1], self.scores(settings))


def _same(node: Tree, children: list[Tree]) -> Tree:
    return Tree(node.label, children)


def _compared(
    prefix: str, first: Sequence[Figures], second: Sequence[Figures]
) -> Iterator[Figures]:
    for number, one, other in zip(NUMBERS, first, second, strict=False):
        found = {"generative": one, "discriminative": other, "gain": other["f1"] - one["f1"]}
        found["exact_gain"] = other["exact"] - one["exact"]
        yield under(f"{prefix}.{number}", found)


def parts_of(run: Run) -> dict[str, Part]:
    """Return the short sentences of EWT and of the WSJ sample."""
    ewt = Part(run.corpora, run.work, run.jobs, 2000)
    wsj = Part(run.corpora, run.work, run.jobs, None, "wsj", 20, "train", "dev+test")
    return {"ewt": ewt, "wsj": wsj}


def settings_of(norm: str, strength: float, **changes: Any) -> ConditionalGrammarSettings:
    """Return the settings of a norm ("l1", "l2" or "none") and a strength of its prior."""
    return replace(COPY, **({} if norm == "none" else {norm: strength}), **changes)


# --- tables 1 and 2 -------------------------------------------------------------------------------
def copy(run: Run) -> Iterator[Figures]:
    """Yield tables 1 and 2: means and standard deviations over the seeds."""
    parts = parts_of(run)
    for norm, strengths in STRENGTHS.items():
        for strength in strengths:
            found = _on_tune(parts["ewt"], norm, strength)
            name = f"copy.tune.{norm}.{f'{strength:g}'.replace('.', '_')}"
            yield {f"{name}.{n}": one["f1"] for n, one in zip(NUMBERS, found, strict=False)}
        yield {f"copy.strength.{norm}": _best(parts["ewt"], norm)[1]}
    kinds = {"generative": TABLE1, "discriminative": chosen(parts["ewt"], NORM)}
    kinds["l2"] = chosen(parts["ewt"], "l2")
    for corpus, part in parts.items():
        for name in ("learned", "reported"):
            yield {f"copy.{corpus}.{name}": len(part.trees(corpus, getattr(part, name)))}
        yield under(f"copy.{corpus}", {"longest": part.longest, "seeds": part.seeds})
        for kind, settings in kinds.items():
            yield from _over_seeds(part, f"copy.{corpus}", kind, settings)
    for norm in STRENGTHS:
        yield from _table2(parts["ewt"], norm, chosen(parts["ewt"], norm))


def chosen(ewt: Part, norm: str) -> ConditionalGrammarSettings:
    """Return the settings of a norm, with the best strength on the short sentences of tune.txt."""
    return settings_of(norm, _best(ewt, norm)[1])


def _best(ewt: Part, norm: str) -> tuple[float, float]:
    """Return F1 with four subcategories, and the strength of the prior."""
    return max((_on_tune(ewt, norm, own)[TUNED]["f1"], own) for own in STRENGTHS[norm])


def _on_tune(ewt: Part, norm: str, strength: float) -> list[Figures]:
    return ewt.scores(settings_of(norm, strength, rounds=TUNED), "tune")


def _over_seeds(
    part: Part, prefix: str, kind: str, settings: LatentGrammarSettings
) -> Iterator[Figures]:
    found = [part.scores(replace(settings, seed=seed)) for seed in range(part.seeds)]
    for number, each in zip(NUMBERS, zip(*found, strict=True), strict=False):
        for name in ("f1", "exact"):
            values = [one[name] for one in each]
            figures = {name: np.mean(values).item(), f"{name}_sd": np.std(values, ddof=1).item()}
            yield under(f"{prefix}.{number}.{kind}", figures)
        yield {f"{prefix}.{number}.{kind}.f1_se": each[0]["se"]}


def _table2(part: Part, norm: str, settings: ConditionalGrammarSettings) -> Iterator[Figures]:
    """Yield F1, features and iterations of each level with one prior, of the first seed."""
    _, notes = part.learn(settings)
    for number, found, level in zip(NUMBERS, part.scores(settings), notes["levels"], strict=False):
        size = level["forests"]
        figures = {
            "f1": found["f1"],
            "exact": found["exact"],
            "features": level["nonzero"],
            "share": level["nonzero"] / level["parameters"],
            "iterations": level["iterations"],
            "log_likelihood": level["log_likelihood"] / size["sentences"],
            "constituents": size["constituents"] / size["sentences"],
        }
        yield under(f"copy.{norm}.{number}", figures)
    evaluations = sum(level["evaluations"] for level in notes["levels"])
    yield {f"copy.{norm}.cpu_s_per_evaluation": notes["cpu_s"] / evaluations}


# --- trees over tags ------------------------------------------------------------------------------
def skeleton(run: Run) -> Iterator[Figures]:
    """Yield the gain by the number of trees whose words are their tags."""
    for size in SIZES:
        part = Part(run.corpora, run.work, run.jobs, size, "wsj_skeleton", 1000, "train")
        yield from part.compared(f"skeleton.{size}", SKELETON)
        _, notes = part.learn(SKELETON)
        evaluations = sum(level["evaluations"] for level in notes["levels"])
        yield {f"skeleton.{size}.cpu_s_per_evaluation": notes["cpu_s"] / evaluations}
    yield {"skeleton.reported": len(part.trees("wsj_skeleton", "dev"))}


# --- causes ---------------------------------------------------------------------------------------
def causes(run: Run) -> Iterator[Figures]:
    """Yield the gain on EWT up to four subcategories if something is changed.

    `same` has nothing changed. `start`: levels start from the generative grammar of their size.
    `folds`: each half of the trees is pruned by grammars that have not seen it.
    """
    part = parts_of(run)["ewt"]
    brief = replace(chosen(part, NORM), rounds=TUNED)
    em = {name: getattr(TABLE1, name) for name in SPLIT}
    kinds: dict[str, tuple[Part, ConditionalGrammarSettings]] = {
        "same": (part, brief),
        "no_prior": (part, replace(COPY, rounds=4)),
        "tags": (replace(part, corpus="ewt_tags"), brief),
        "trees_500": (replace(part, limit=500), brief),
        "start": (part, replace(brief, start="generative", **em)),
    }
    for name, (own, settings) in kinds.items():
        yield from own.compared(f"causes.{name}", settings)
    generative = part.scores(replace(TABLE1, rounds=TUNED))
    found = part.once("causes-folds", brief.digest(), partial(_of_folds, part, brief))
    yield from _compared("causes.folds", generative, found)


def _of_folds(part: Part, settings: ConditionalGrammarSettings) -> list[Figures]:
    """Score a grammar whose forests are pruned by grammars of the other half of the trees."""
    trees = part.trees(part.corpus, part.learned)
    data = encode(settings, [trees])
    splits, _ = part.learn(settings.generative)
    grammar = without_backoff(splits)
    thetas: tuple[list[NDArray[np.float64]], ...] = ([], [], [])  # of each half, and of both
    levels, words = list(grammar.levels), list(grammar.lexicon.levels)
    with ExitStack() as stack:
        halves = [
            stack.enter_context(
                closing(Objectives(settings, data.subset(np.arange(k, len(trees), 2)), grammar))
            )
            for k in range(2)
        ]
        for number in range(settings.rounds + 1):
            own = [
                half.objective(number, dict(enumerate(thetas[1 - k])))
                for k, half in enumerate(halves)
            ]
            for found, parts in zip(thetas, (own[:1], own[1:], own), strict=True):
                found.append(_minimum(settings, grammar, number, found, parts))
            parameters = own[0].parameterization
            weights = parameters.weights(thetas[2][-1])
            levels[number], words[number] = parameters.refined(weights)
    return part.measured(grammar.with_levels(levels, words), part.reported)


def _minimum(
    settings: ConditionalGrammarSettings,
    grammar: LatentGrammar,
    number: int,
    before: Sequence[NDArray[np.float64]],
    parts: Sequence[GrammarLikelihood],
) -> NDArray[np.float64]:
    """Return the parameters of a level that minimise a sum of objectives, with L1 or no prior."""
    after = parts[0].parameterization
    start = after.initial(FLOOR)
    if before:
        coarse = Parameterization(grammar, number - 1, settings.base)
        start = copied(coarse, after, before[-1], settings.seed)

    def total(theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        values, gradients = zip(*(part.value_and_grad(theta) for part in parts), strict=True)
        return sum(values), np.sum(gradients, axis=0)

    return minimize(
        total,
        start,
        max_iterations=settings.conditional_iterations,
        memory=MEMORY,
        value_tolerance=settings.conditional_tolerance,
        l1=np.max([part.l1 for part in parts], axis=0),
    ).x


# --- section 4.4 ----------------------------------------------------------------------------------
def analysis(run: Run) -> Iterator[Figures]:
    """Yield what grammars of the WSJ sample have learned, of the first seed.

    Productions of ROOT are those of grammars with two subcategories, summed over these. Words are
    those of subcategories of grammars with four.
    """
    parts = parts_of(run)
    part, own = parts["wsj"], chosen(parts["ewt"], NORM)
    for kind, settings in (("generative", TABLE1), ("discriminative", own)):
        trained, _ = part.learn(settings)
        yield under(f"analysis.root.{kind}", root_productions(trained.truncated(2)))
        level = trained.truncated(TUNED + 1)
        for tag in TAGS:
            if tag in level.symbols.tag_index:
                yield under(f"analysis.words.{kind}.{tag}", words_of(level, tag))


def root_productions(grammar: LatentGrammar) -> Figures:
    """Return the likeliest production of the root, and the rank and the weight of ROOT -> S."""
    level, symbols = grammar.levels[-1], grammar.symbols
    weights = [float(level.root[a:b].sum()) for a, b in pairwise(level.root_offsets.tolist())]
    names = [symbols.names[symbol] for symbol in grammar.rules.root.tolist()]
    order = np.argsort(-np.array(weights), kind="stable").tolist()
    found: Figures = {"first": names[order[0]], "first_weight": weights[order[0]]}
    if "S" in names:
        place = names.index("S")
        found |= {"s_rank": order.index(place) + 1, "s_weight": weights[place]}
    return found


def words_of(grammar: LatentGrammar, tag: str) -> Figures:
    """Return the first words of each subcategory, and their mean share of its weight."""
    shares, words = [], []
    for _, pairs in subcategories(grammar, tag, len(grammar.lexicon.words)):
        if total := sum(weight for weight, _ in pairs):  # else only signatures
            shares.append(sum(weight for weight, _ in pairs[:SHOWN]) / total)
            words.append(" ".join(word for _, word in pairs[:SHOWN]))
    return {"words": words, "share": np.mean(shares).item()}


PARTS: Mapping[str, Callable[[Run], Iterator[Figures]]] = {
    "copy": copy,
    "skeleton": skeleton,
    "causes": causes,
    "analysis": analysis,
}
