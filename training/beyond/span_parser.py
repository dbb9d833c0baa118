"""Beyond Petrov & Klein (2007): rescoring the trees of a latent grammar.

    python corpora/fetch.py wsj_sample ewt craft
    python -m training.train_default
    python -m training.beyond.span_parser --jobs 2

Writes training/results/parsing_best.json and a report, parsing_best.md. Parts, which --only
selects:

generative            one split-merge grammar; product_generative: a product of four
span_features         linear span features (Hall, Durrett & Klein 2014), trained on forests by
                      grammars of other folds; span_features_xbar: with the X-bar grammar
product_features      the same features with four grammars
lexicon               only features of words and tags
default               the parser of the default pipeline; default_single: its first grammar
decoders              decoders of one grammar with features
tagger                tags of the pipeline's tagger as a prior, and gold tags
factorial             the parts of the default parser with and without each other, see factorial.py
reranking             its trees reranked by a sigmoid belief network

WSJ is the sample, split as in papers/petrov_klein2007. EWT's models are trained on train without
the documents of `ewt/tune.txt`, and scored on these. `default` is the parser of
training.train_default, which is also trained on MCTB_en and on parses of raw text, before and after
training on the tuning documents. The latter is scored on dev with the temperature of the former.
Grammars without span scores use the max-rule product, other models the decoder of the default
parser. Figures are for sentences of gold tokens, without tags. Times are CPU time of the parser on
one thread, and sizes are as shipped. Models are kept in training/work by their settings;
interrupted training resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import spacy_structlearn
from spacy_structlearn.evaluation.evalb import EvalbScore
from spacy_structlearn.grammar.chart.decode import DECODERS, ChartParser
from spacy_structlearn.grammar.spans.features import TAG_TEMPLATES
from training.beyond.factorial import XBAR, factorial, reranking
from training.common.command import bound, options, run_parts
from training.common.kept import SETTINGS, Run
from training.common.parsers import (
    Model,
    default_parser,
    latent_of,
    measured,
    span_settings,
    trained,
)
from training.common.scoring import Figures, scored, tagged, under
from training.common.treebanks import PUNCTUATION
from training.pipeline import default

NAME = "parsing_best"
FEW = 4  # grammars in products
# For each corpus, the parts for training and scoring.
PARTS = (("wsj", "train", ("dev", "test")), ("ewt", "fit", ("tune",)))
TAG_WEIGHTS = (0.5, 1.0, 2.0)
# Features of single words, as in a lexicon.
OWN_WORD = tuple(text for text in TAG_TEMPLATES if text.count("[") == text.count("[0]"))


def few(corpus: str) -> Any:
    """Return the settings of the product of grammars."""
    return replace(SETTINGS[corpus], grammars=FEW)


def learned(
    run: Run, step: str, settings: Callable[[str], Any], corpora: Sequence[str] = ("wsj", "ewt")
) -> Iterator[Figures]:
    """Yield figures of models by corpus. settings: returns those for a corpus."""
    for corpus, train, splits in PARTS:
        if corpus in corpora:
            model = trained(run, corpus, train, settings(corpus))
            yield from measured(run, step, corpus, dict.fromkeys(splits, model))


def shipped(run: Run, step: str, choose: Callable[[Model], Model]) -> Iterator[Figures]:
    """Yield figures on EWT of the default parser, or of what `choose` makes of it."""
    learned_on = {"tune": "fit", "dev": "train"}
    models = {split: choose(default_parser(run, train)) for split, train in learned_on.items()}
    yield from measured(run, step, "ewt", models)


def decoders(run: Run) -> Iterator[Figures]:
    """Yield figures of one grammar with features by decoder."""
    for corpus, train, (split, *_) in PARTS:
        model = trained(run, corpus, train, span_settings(corpus))
        for name in DECODERS:
            result = _score(run, model.reader(decoder=name), corpus, split)
            figures = {f"{split}_f1": result.f1, f"{split}_exact": result.complete_match}
            yield under(f"decoders.{name}.{corpus}", figures)


def tagger(run: Run) -> Iterator[Figures]:
    """Yield figures on EWT with tags of the pipeline's tagger as a prior, and with gold tags.

    For the default parser and its first grammar. The weight is tuned on the tuning documents.
    """
    gold = {split: run.trees("ewt", split) for split in ("tune", "dev")}
    taggers = {
        "tune": default.train_tagger(run.corpora, run.work, "fit"),
        "dev": spacy_structlearn.load(),
    }
    tags = {split: tagged(nlp, gold[split]) for split, nlp in taggers.items()}
    for split, found in tags.items():
        pairs = zip(found, gold[split], strict=True)
        right = [a == b for own, tree in pairs for a, b in zip(own, tree.tags(), strict=True)]
        yield {f"tagger.ewt.{split}_accuracy": 100 * float(np.mean(right))}
    for prefix, choose in (("", lambda model: model), ("generative_", _one_grammar)):
        readers = {
            split: choose(default_parser(run, train)).reader()
            for split, train in (("tune", "fit"), ("dev", "train"))
        }
        scores = {0.0: _score(run, readers["tune"], "ewt", "tune")}
        for weight in TAG_WEIGHTS:
            scores[weight] = _score(run, readers["tune"], "ewt", "tune", tags["tune"], weight)
        for weight, result in scores.items():
            name = f"{weight:g}".replace(".", "_")
            yield {f"{prefix}tagger.ewt.weights.{name}.tune_f1": result.f1}
        best = max(TAG_WEIGHTS, key=lambda weight: scores[weight].f1)
        on_dev = _score(run, readers["dev"], "ewt", "dev", tags["dev"], best)
        yield under(f"{prefix}tagger.ewt", {"weight": best, "dev_f1": on_dev.f1})
        for split, reader in readers.items():
            result = _score(run, reader, "ewt", split, [tree.tags() for tree in gold[split]])
            yield {f"{prefix}tagger_gold.ewt.{split}_f1": result.f1}


def _one_grammar(model: Model) -> Model:
    return Model(latent_of(model.first().grammar))


def _score(
    run: Run,
    reader: ChartParser,
    corpus: str,
    split: str,
    tags: list[list[str]] | None = None,
    tag_weight: float = np.inf,
) -> EvalbScore:
    gold = run.trees(corpus, split)
    parses = reader.parse([tree.words() for tree in gold], tags, tag_weight=tag_weight)
    return scored(parses, gold, PUNCTUATION[corpus])


STEPS: dict[str, Callable[[Run], Iterator[Figures]]] = {
    "generative": partial(learned, step="generative", settings=SETTINGS.__getitem__),
    "product_generative": partial(learned, step="product_generative", settings=few),
    "span_features": partial(learned, step="span_features", settings=span_settings),
    "span_features_xbar": partial(
        learned,
        step="span_features_xbar",
        settings=lambda corpus: span_settings(corpus, XBAR),
        corpora=["wsj"],
    ),
    "product_features": partial(
        learned, step="product_features", settings=lambda corpus: span_settings(corpus, few(corpus))
    ),
    "lexicon": partial(
        learned,
        step="lexicon",
        settings=lambda corpus: span_settings(corpus, templates=(), tag_templates=OWN_WORD),
    ),
    "decoders": decoders,
    "default": partial(shipped, step="default", choose=lambda model: model),
    "default_single": partial(shipped, step="default_single", choose=Model.first),
    "tagger": tagger,
    "factorial": factorial,
    "reranking": reranking,
}


def main() -> None:
    args = options(__doc__, "corpora", "work", "jobs", "limit", only=STEPS).parse_args()
    run = Run(args.corpora, args.work, args.jobs, args.limit)
    run_parts(NAME, bound(STEPS, run), args.only, is_trial=args.limit is not None, page=True)


if __name__ == "__main__":
    main()
