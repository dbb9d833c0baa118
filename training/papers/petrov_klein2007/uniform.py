"""The paper's own parametrisation: a weight is exp(theta), and priors pull theta towards 0.

Petrov & Klein (2007), section 2.2 and tables 1 and 2, on the WSJ sample, which is small enough to
train to convergence. All figures are with the paper's decoder, the maximum expected number of
correct productions (max-rule-sum), unless their names say `product`, the decoder of Petrov & Klein
(2007b).

Strengths of priors are tuned on dev with one subcategory. The norm and the pruning threshold of the
parser are tuned on dev, too; test is read once for each number of subcategories.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.discriminative.settings import ConditionalGrammarSettings
from spacy_structlearn.grammar.latent.describe import subcategories
from spacy_structlearn.grammar.latent.model import LatentGrammar
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from training.common.kept import TABLE1, run_training
from training.common.process import in_process
from training.common.scoring import Figures, f1_standard_error, score, under
from training.papers.petrov_klein2007.discriminative import BASE, NUMBERS, Run, mean_f1

# The paper needs at most 148 iterations.
UNIFORM = replace(BASE, base="uniform", conditional_iterations=150)
TUNED_ROUNDS = 0
STRENGTHS = {"l1": (0.3, 1.0, 3.0, 10.0), "l2": (0.2, 0.5, 2.0, 5.0), "none": (0.0,)}
# L2 flattens the posteriors of brackets, so that pruning leaves many more of them. With four
# subcategories, an iteration takes much longer than with L1.
L2_ROUNDS = 1
COPIED_ROUNDS = 2  # levels up to four subcategories start from a copy, too
DECODERS = {"": "max_rule_sum", "product_": "max_rule_product"}
# Shares of the training trees, for the gain with one subcategory.
SHARES = (8, 4, 2, 1)
# Tags whose subcategories the paper describes, and the number of words shown for each of them.
TAGS = ("DT", "IN", "NNP", "NNPS", "JJS", "CD")
SHOWN = 3
COMPARED_LEVEL = 2  # with four subcategories


def settings_of(norm: str, strength: float, **changes: object) -> ConditionalGrammarSettings:
    """Return the settings of a norm ("l1", "l2" or "none") and a strength of its prior."""
    # The paper's prior is strength |theta|^2, ours half of this.
    prior = {} if norm == "none" else {norm: 2 * strength if norm == "l2" else strength}
    return replace(UNIFORM, **prior, **changes)


def uniform(run: Run) -> Iterator[Figures]:
    """Yield tables 1 and 2 with the paper's parametrisation, and the gain by more trees."""
    strengths = {}
    for norm in STRENGTHS:
        figures, strengths[norm] = _tuned(run, norm)
        yield figures
    settings = _whole(strengths)
    run.train([("wsj", own) for own in settings.values()])
    means = {}
    for norm, own in settings.items():
        yield {f"uniform.{norm}.strength": strengths[norm]}
        yield from _table2(run, f"uniform.{norm}", own)
        if own.rounds == UNIFORM.rounds:
            means[norm] = mean_f1(_best(run, own)[1])
    norm = max(means, key=lambda name: means[name])
    yield {"uniform.chosen": norm, **under("uniform.mean_f1", means)}
    yield from _noise(run, settings[norm])
    for kind, own in (("generative", TABLE1), ("discriminative", settings[norm])):
        threshold, _ = _best(run, own)
        yield {f"uniform.threshold.{kind}": threshold}
        for key, decoder in DECODERS.items():
            for split in ("dev", "test"):
                ending = "" if split == "dev" else "test_"
                levels = run.scores("wsj", own, threshold, split, decoder)
                for number, found in zip(NUMBERS, levels, strict=True):
                    prefix = f"uniform.{number}.{kind}.{key}{ending}"
                    yield {f"{prefix}{name}": value for name, value in found.items()}
    yield from _by_start(run, settings[norm])
    yield from _by_size(run, norm, strengths[norm])


def _whole(strengths: Mapping[str, float]) -> dict[str, ConditionalGrammarSettings]:
    """Return the settings of each norm with its strength, with as many levels as are affordable."""
    found = {norm: settings_of(norm, strength) for norm, strength in strengths.items()}
    if "l2" in found:
        found["l2"] = replace(found["l2"], rounds=L2_ROUNDS)
    return found


def _noise(run: Run, settings: ConditionalGrammarSettings) -> Iterator[Figures]:
    """Yield the numbers of sentences, and the standard errors of F1 of the last level."""
    trained, _ = run.grammar("wsj", settings)
    parser = ChartParser(trained, decoder=DECODERS[""], threads=run.jobs)
    for split in ("dev", "test"):
        gold = run.trees("wsj", split)
        error = f1_standard_error(score(parser, gold))
        yield under("uniform", {f"sentences.{split}": len(gold), f"standard_error.{split}": error})


def _tuned(run: Run, norm: str) -> tuple[Figures, float]:
    """Return the mean F1 on dev by strength, and the best strength."""
    if len(STRENGTHS[norm]) == 1:
        return {}, STRENGTHS[norm][0]
    own = {s: settings_of(norm, s, rounds=TUNED_ROUNDS) for s in STRENGTHS[norm]}
    run.train([("wsj", settings) for settings in own.values()])
    means = {strength: mean_f1(_best(run, settings)[1]) for strength, settings in own.items()}
    figures = {
        f"uniform.tune.{norm}.{f'{strength:g}'.replace('.', '_')}.mean_f1": mean
        for strength, mean in means.items()
    }
    return figures, max(means, key=lambda strength: means[strength])


def _best(run: Run, settings: ConditionalGrammarSettings) -> tuple[float, list[Figures]]:
    """Return the best pruning threshold on dev, and the scores of each level with it."""
    return run.best("wsj", settings, decoder=DECODERS[""])


def _table2(run: Run, prefix: str, settings: ConditionalGrammarSettings) -> Iterator[Figures]:
    """Yield F1 on dev, features and iterations of each level."""
    _, notes = run.grammar("wsj", settings)
    _, levels = _best(run, settings)
    for number, found, level in zip(NUMBERS, levels, notes["levels"], strict=False):
        figures = {
            "features": level["nonzero"],
            "share": level["nonzero"] / level["parameters"],
            **{key: level[key] for key in ("iterations", "evaluations", "left_out")},
            "constituents": level["forests"]["constituents"] / level["forests"]["sentences"],
            "converged": int(level["status"] in ("gradient", "value")),
        }
        yield under(f"{prefix}.{number}", found | figures)


def _by_start(run: Run, settings: ConditionalGrammarSettings) -> Iterator[Figures]:
    """Yield table 2 of levels that start from a copy of the level before, without EM between."""
    copied = replace(settings, start="copy", rounds=COPIED_ROUNDS)
    run.train([("wsj", copied)])
    yield from _table2(run, "uniform.copy", copied)


def _by_size(run: Run, norm: str, strength: float) -> Iterator[Figures]:
    """Yield F1 on dev with one subcategory, by the number of training trees."""
    kinds = {
        "generative": replace(TABLE1, rounds=0),
        "discriminative": settings_of(norm, strength, rounds=0),
    }
    for share in SHARES:
        for kind, settings in kinds.items():
            measure = partial(in_process, of_share, run, settings, share)
            found = run.once(f"share-{share}-{kind}", settings.digest(), measure)
            yield {f"uniform.size.{found['trees']}.{kind}.f1": found["f1"]}


def of_share(run: Run, settings: LatentGrammarSettings, share: int) -> Figures:
    """Train on every `share`-th tree of the WSJ sample, and parse dev."""
    trees = run.trees("wsj", "train")[::share]
    trainer, _ = run_training(settings, trees, f"1/{share} of the trees")
    parser = ChartParser(trainer.parameters(), decoder=DECODERS[""])
    return {"trees": len(trees), "f1": score(parser, run.trees("wsj", "dev"), "own").f1}


# --- section 4.4 ----------------------------------------------------------------------------------
def analysis(run: Run) -> Iterator[Figures]:
    """Yield what the grammars have learned: productions of ROOT, and words of subcategories.

    Productions are those of grammars with two subcategories; weights are summed over subcategories.
    Words are those of grammars with four.
    """
    own = {
        norm: settings
        for norm, settings in _whole({norm: _tuned(run, norm)[1] for norm in STRENGTHS}).items()
        if settings.rounds == UNIFORM.rounds
    }
    norm = max(own, key=lambda name: mean_f1(_best(run, own[name])[1]))
    for kind, settings in (("generative", TABLE1), ("discriminative", own[norm])):
        trained, _ = run.grammar("wsj", settings)
        yield under(f"analysis.root.{kind}", root_productions(trained.truncated(2)))
        level = trained.truncated(COMPARED_LEVEL + 1)
        for tag in TAGS:
            if tag not in level.symbols.tag_index:
                continue
            yield under(f"analysis.words.{kind}.{tag}", words_of(level, tag))


def root_productions(grammar: LatentGrammar) -> Figures:
    """Return the likeliest production of the root, and the rank and the weight of ROOT -> S."""
    level, symbols = grammar.levels[-1], grammar.symbols
    bounds = level.root_offsets
    weights = [float(level.root[a:b].sum()) for a, b in pairwise(bounds.tolist())]
    names = [symbols.names[symbol] for symbol in grammar.rules.root.tolist()]
    order = np.argsort(-np.array(weights), kind="stable").tolist()
    found: Figures = {"first": names[order[0]], "first_weight": weights[order[0]]}
    if "S" in names:
        place = names.index("S")
        found |= {"s_rank": order.index(place) + 1, "s_weight": weights[place]}
    return found


def words_of(grammar: LatentGrammar, tag: str) -> Figures:
    """Return the first words of each subcategory, and their mean share of its weight."""
    everything = list(subcategories(grammar, tag, len(grammar.lexicon.words)))
    shares, words = [], []
    for _, pairs in everything:
        total = sum(weight for weight, _ in pairs)
        shares.append(sum(weight for weight, _ in pairs[:SHOWN]) / total if total else 0.0)
        words.append(" ".join(word for _, word in pairs[:SHOWN]))
    return {"words": words, "share": _mean(shares)}


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0
