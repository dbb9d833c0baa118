"""Beyond Petrov & Klein (2007): rescoring the trees of a latent grammar.

    python corpora/fetch.py wsj_sample ewt craft
    python -m training.train_default
    python -m training.beyond.span_parser --jobs 2

Writes training/results/parsing_best.json and a report, parsing_best.md. Steps, which --only
selects:

generative            one split-merge grammar; product_generative: a product of four
forests               oracle scores and sizes of the forests of one grammar
span_features         linear span features (Hall, Durrett & Klein 2014), trained on forests by
                      grammars of other folds; _seen: by a grammar that has seen the sentences;
                      _xbar: with the X-bar grammar; _batch: by OWL-QN
product_features      the same features with four grammars
lexicon               only features of words and tags
default               the parser of the default pipeline; default_single: its first grammar
decoders              decoders of one grammar with features
tagger                tags of the pipeline's tagger as a prior, and gold tags
best                  the best step, chosen on WSJ dev and EWT's tuning documents

WSJ is the sample, split as in papers/petrov_klein2007. EWT's models are trained on train without
the documents of `ewt/tune.txt`, and scored on these. `default` is the parser of
training.train_default, which is also trained on MCTB_en and on parses of raw text, before and after
training on the tuning documents. The latter is scored on dev with the temperature of the former.
Span scores are trained on forests by single grammars, so they are the same with a product of
grammars. Grammars without span scores use the max-rule product, other models the decoder of the
default parser. Figures are for sentences of gold tokens, without tags. Times are CPU time of the
parser on one thread, and sizes are as shipped. Models are kept in training/work by their settings;
interrupted training resumes.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

# Set before NumPy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np
import srsly

import spacy_structlearn
from spacy_structlearn.evaluation.evalb import EvalbScore
from spacy_structlearn.grammar.chart.decode import DECODERS, ChartParser
from spacy_structlearn.grammar.spans.features import TAG_TEMPLATES, SpanWeights
from spacy_structlearn.grammar.spans.model import SpanGrammar
from spacy_structlearn.optimize.owlqn import OWLQN
from training.beyond.span_parser import report
from training.beyond.span_parser.batch import LinearObjective, by_adagrad
from training.common.parsers import (
    FEATURES,
    SETTINGS,
    SPAN,
    Learner,
    Model,
    Run,
    default_parser,
    measured,
    oracle,
)
from training.common.recording import CORPORA, RESULTS, WORK, record_steps
from training.common.report import flat
from training.common.scoring import Figures, scored, tagged, under
from training.common.treebanks import PUNCTUATION
from training.pipeline import default

NAME = "parsing_best"
FEW = 4  # grammars in a product
# For each corpus, the parts for training and scoring.
PARTS = (("wsj", "train", ("dev", "test")), ("ewt", "fit", ("tune",)))
TAG_WEIGHTS = (0.5, 1.0, 2.0)
# The X-bar grammar, by merging all splits, after a level for pruning.
XBAR = replace(SETTINGS["wsj"], rounds=1, merge_fraction=1.0)
# Features of single words, as in a lexicon.
OWN_WORD = tuple(text for text in TAG_TEMPLATES if text.count("[") == text.count("[0]"))
LEXICON = replace(FEATURES, templates=(), tag_templates=OWN_WORD)
PASSES = {"owlqn": 60, "adagrad": 12}


# --- grammars -------------------------------------------------------------------------------------
def generative(run: Run, step: str, number: int) -> Iterator[Figures]:
    """Yield figures of a product of `number` grammars."""
    for corpus, train, splits in PARTS:
        model = run.generative(corpus, train, number)
        yield from measured(run, step, corpus, dict.fromkeys(splits, model))


def forests(run: Run) -> Iterator[Figures]:
    """Yield figures of the forests of one grammar for unseen sentences."""
    for corpus, train, (split, *_) in PARTS:
        grammar = run.generative(corpus, train, 1).latent
        found = oracle(grammar, run.trees(corpus, split), corpus)
        yield under(f"forests.{corpus}", found)


# --- features ------------------------------------------------------------------------
def learned(
    run: Run, step: str, learner: Learner, corpora: Sequence[str] = ("wsj", "ewt")
) -> Iterator[Figures]:
    """Yield figures of one grammar with trained span scores."""
    for corpus, train, splits in PARTS:
        if corpus in corpora:
            model = run.learned(corpus, train, learner)
            yield from measured(run, step, corpus, dict.fromkeys(splits, model))


def span_features_batch(run: Run) -> Iterator[Figures]:
    """Yield the objective of features, with the penalty, after each pass of OWL-QN and AdaGrad over
    the forests of WSJ; and figures of the parser by OWL-QN.
    """
    own = run.folds("wsj", "train")
    sentences = [tree.words() for tree in own.trees]
    zero = SpanWeights.untrained(FEATURES, sentences, own.grammar.symbols)
    target = own.graphs.closest(own.trees, own.grammar.symbols)
    objective = LinearObjective(own.graphs, sentences, target, zero)
    step = "span_features_batch"
    optimizer = OWLQN(np.zeros(objective.n_parameters), l1=FEATURES.l1_per_sentence)
    points: dict[str, list[tuple[float, float, int]]] = {"owlqn": [], "adagrad": []}
    begun = time.process_time()
    for _ in range(PASSES["owlqn"]):
        more = optimizer.step(objective.value_and_grad)
        n_weights = int(np.count_nonzero(optimizer.x))
        points["owlqn"].append((time.process_time() - begun, float(optimizer.value), n_weights))
        if not more:
            break
    for progress in by_adagrad(objective, FEATURES, PASSES["adagrad"]):
        points["adagrad"].append(tuple(progress))
    for solver, found in points.items():
        seconds, value, n_weights = found[-1]
        figures = {
            "points": [[round(s, 2), round(v, 5), n] for s, v, n in found],
            "cpu_s": seconds,
            "objective": value,
            "weights": n_weights,
        }
        yield under(f"{step}.{solver}", figures)
    grammar = SpanGrammar(own.grammar, features=objective.weights_of(optimizer.x))
    model = Model(grammar, cpu_s=own.cpu_s + points["owlqn"][-1][0])
    yield from measured(run, step, "wsj", {"dev": model, "test": model})


def products(run: Run, step: str, learner: Learner) -> Iterator[Figures]:
    """Yield figures of four grammars with trained span scores."""
    for corpus, train, splits in PARTS:
        model = _with_product(run, corpus, train, run.learned(corpus, train, learner), FEW)
        yield from measured(run, step, corpus, dict.fromkeys(splits, model))


def _with_product(run: Run, corpus: str, split: str, model: Model, number: int) -> Model:
    """Replace the grammar of a model by the product of `number` grammars."""
    grammars = run.generative(corpus, split, number)
    costs = None
    if model.cpu_s is not None and grammars.cpu_s is not None:
        costs = model.cpu_s + grammars.cpu_s - run.generative(corpus, split, 1).cpu_s
    return model.with_latent(grammars.latent, costs)


# --- the default parser ---------------------------------------------------------------------------
def shipped(run: Run, step: str, choose: Callable[[Model], Model]) -> Iterator[Figures]:
    """Yield figures on EWT of the default parser, or of what `choose` makes of it."""
    learned_on = {"tune": "fit", "dev": "train"}
    models = {split: choose(default_parser(run, train)) for split, train in learned_on.items()}
    yield from measured(run, step, "ewt", models)


# --- parsing otherwise ----------------------------------------------------------------------------
def decoders(run: Run) -> Iterator[Figures]:
    """Yield figures of one grammar with features by decoder."""
    for corpus, train, (split, *_) in PARTS:
        model = run.learned(corpus, train, SPAN)
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
        right = [
            a == b
            for own, tree in zip(found, gold[split], strict=True)
            for a, b in zip(own, tree.tags(), strict=True)
        ]
        yield {f"tagger.ewt.{split}_accuracy": 100 * float(np.mean(right))}
    for prefix, choose in (("", lambda model: model), ("generative_", _one_grammar)):
        readers = {
            split: choose(default_parser(run, train)).reader()
            for split, train in (("tune", "fit"), ("dev", "train"))
        }
        step = f"{prefix}tagger"
        scores = {}
        for weight in (0.0, *TAG_WEIGHTS):
            own = tags["tune"] if weight else None
            scores[weight] = _score(run, readers["tune"], "ewt", "tune", own, weight)
            name = f"{weight:g}".replace(".", "_")
            yield {f"{step}.ewt.weights.{name}.tune_f1": scores[weight].f1}
        best = max(TAG_WEIGHTS, key=lambda weight: scores[weight].f1)
        on_dev = _score(run, readers["dev"], "ewt", "dev", tags["dev"], best)
        figures = {
            "weight": best,
            "tune_f1": scores[best].f1,
            "tune_exact": scores[best].complete_match,
            "dev_f1": on_dev.f1,
            "dev_exact": on_dev.complete_match,
        }
        yield under(f"{step}.ewt", figures)
        for split, reader in readers.items():
            own = [tree.tags() for tree in gold[split]]
            result = _score(run, reader, "ewt", split, own, np.inf)
            figures = {f"{split}_f1": result.f1, f"{split}_exact": result.complete_match}
            yield under(f"{prefix}tagger_gold.ewt", figures)


def _one_grammar(model: Model) -> Model:
    return model.first().plain()


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


# --- the best -------------------------------------------------------------------------------------
SINGLE = (
    *("generative", "span_features", "lexicon"),
    "default_single",
)
PRODUCTS = ("product_generative", "product_features", "default")
COSTS = ("ms_per_sentence", "train_cpu_s", "mb")


def best(run: Run) -> Iterator[Figures]:
    """Yield figures of the best step with one grammar, and of all steps. Chosen on WSJ dev, and on
    the tuning documents of EWT among steps with figures on its dev.
    """
    figures = flat(srsly.read_json(RESULTS / f"{NAME}.json"))
    for name, steps in (("best_single", SINGLE), ("best_product", (*SINGLE, *PRODUCTS))):
        for corpus, chosen, held_out in (("wsj", "dev", "test"), ("ewt", "tune", "dev")):
            found = [s for s in steps if f"{s}.{corpus}.{held_out}_f1" in figures]
            if found:
                step = max(found, key=lambda s: figures[f"{s}.{corpus}.{chosen}_f1"])
                yield under(name, {f"{corpus}.step": step, **_of(figures, step, corpus)})


def _of(figures: Figures, step: str, corpus: str) -> Figures:
    """Return the scores and costs of a step on a corpus."""
    names = [f"{split}_{what}" for split in ("tune", "dev", "test") for what in ("f1", "exact")]
    keys = [f"{corpus}.{name}" for name in (*names, *COSTS)]
    return {key: figures[f"{step}.{key}"] for key in keys if f"{step}.{key}" in figures}


# --- the run --------------------------------------------------------------------------------------
def _learned(step: str, *arguments: Any) -> Callable[[Run], Iterator[Figures]]:
    return lambda run: learned(run, step, *arguments)


STEPS: dict[str, Callable[[Run], Iterator[Figures]]] = {
    "generative": partial(generative, step="generative", number=1),
    "product_generative": partial(generative, step="product_generative", number=FEW),
    "forests": forests,
    "span_features": _learned("span_features", SPAN),
    "span_features_seen": _learned("span_features_seen", replace(SPAN, seen=True), ["wsj"]),
    "span_features_xbar": _learned("span_features_xbar", replace(SPAN, grammar=XBAR), ["wsj"]),
    "span_features_batch": span_features_batch,
    "product_features": partial(products, step="product_features", learner=SPAN),
    "lexicon": _learned("lexicon", Learner(features=LEXICON)),
    "decoders": decoders,
    "default": partial(shipped, step="default", choose=lambda model: model),
    "default_single": partial(shipped, step="default_single", choose=Model.first),
    "tagger": tagger,
    "best": best,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=STEPS, help="some steps")
    parser.add_argument("--jobs", type=int, default=1, help="processes, or threads of one")
    parser.add_argument("--corpora", type=Path, default=CORPORA, help="default: %(default)s")
    parser.add_argument("--work", type=Path, default=WORK, help="cache of models")
    parser.add_argument(
        "--limit", type=int, help="use only this many trees of each part, and record nothing"
    )
    args = parser.parse_args()
    run = Run(args.corpora, args.work, args.jobs, args.limit)
    steps = (STEPS[name](run) for name in args.only or STEPS)
    record_steps(NAME, steps, report.write, args.limit is not None)


if __name__ == "__main__":
    main()
