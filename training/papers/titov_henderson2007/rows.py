"""The grammars of the package in the setup of Titov & Henderson (2007), for their table 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.latent.em import treebank_grammar
from spacy_structlearn.grammar.latent.model import LatentGrammar
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.treebank.data import binarize
from spacy_structlearn.trees.parse import Parse
from training.common.kept import LEXICON, SEEDS, SETTINGS
from training.common.parsers import Model, span_settings, trained
from training.common.scoring import Figures, under
from training.common.treebanks import folded, unfolded
from training.papers.titov_henderson2007 import models

ROUNDS = {"ewt": (3, 4, 5), "wsj": (1, 2, 3, 4)}


def rows(run: models.Short) -> Iterator[Figures]:
    """Yield figures of each grammar with a tagger's tags, gold tags and predicted tags."""
    for corpus in models.PARTS:
        prefix = f"{corpus}{run.longest}.rows"
        _, choose, _, _ = models.PARTS[corpus]
        for number, f1 in rounds(run, corpus).items():
            yield {f"{prefix}.split_merge.rounds.{number}.{choose}_f1": f1}
        yield {f"{prefix}.split_merge.round": chosen(run, corpus).rounds}
        for name, make, restore in (
            ("xbar", _xbar, None),
            ("treebank", _treebank, folded),
            ("split_merge", _single, None),
            ("product4", grammars, None),
            ("span_features", _span_features, None),
        ):
            yield from _row(run, corpus, f"{prefix}.{name}", make, restore)


def _row(
    run: models.Short,
    corpus: str,
    prefix: str,
    make: Callable[[models.Short, str, str], Model],
    restore: Callable[[Parse], Parse] | None,
) -> Iterator[Figures]:
    fit, choose, train, test = models.PARTS[corpus]
    first = make(run, corpus, fit)
    result, _ = models.evaluated(
        run, first.reader(), corpus, choose, models.MAIN_TAGS[corpus], restore
    )
    found: Figures = {f"{choose}_f1": result.f1}
    model = make(run, corpus, train)
    if model.cpu_s is not None:
        found["train_s"] = model.cpu_s
    for kind in models.TAGS[corpus]:
        result, ms = models.evaluated(run, model.reader(), corpus, test, kind, restore)
        found |= models.under_tags(corpus, kind, models.figures_of(result) | {"ms_per_token": ms})
    yield under(prefix, found)


# --- grammars -------------------------------------------------------------------------------------
@cache
def rounds(run: models.Short, corpus: str) -> dict[int, float]:
    """Return F1 after each number of rounds on the part for selection."""
    fit, choose, _, _ = models.PARTS[corpus]
    whole: Any = trained(run, corpus, fit, SETTINGS[corpus]).grammar
    scores = {}
    for number in ROUNDS[corpus]:
        if number <= whole.depth:
            parser = ChartParser(whole.truncated(number + 1))
            result, _ = models.evaluated(run, parser, corpus, choose, models.MAIN_TAGS[corpus])
            scores[number] = result.f1
    return scores


def chosen(run: models.Short, corpus: str) -> LatentGrammarSettings:
    """Return the settings of the grammars with the best number of rounds."""
    scores = rounds(run, corpus)
    return replace(SETTINGS[corpus], rounds=max(scores, key=lambda number: scores[number]))


def _single(run: models.Short, corpus: str, split: str) -> Model:
    return trained(run, corpus, split, chosen(run, corpus))


def grammars(run: models.Short, corpus: str, split: str) -> Model:
    """Return the product of four grammars."""
    return trained(run, corpus, split, replace(chosen(run, corpus), grammars=len(SEEDS)))


def _span_features(run: models.Short, corpus: str, split: str) -> Model:
    """Return the product with span features, as in the default parser."""
    base = replace(chosen(run, corpus), grammars=len(SEEDS))
    return trained(run, corpus, split, span_settings(corpus, base))


def _xbar(run: models.Short, corpus: str, split: str) -> Model:
    return Model(_counted(run.trees(corpus, split)))


def _treebank(run: models.Short, corpus: str, split: str) -> Model:
    return Model(_counted([unfolded(tree) for tree in run.trees(corpus, split)]))


def _counted(trees: Any) -> LatentGrammar:
    """Return the treebank grammar without substates."""
    return treebank_grammar(binarize(trees), LEXICON)
