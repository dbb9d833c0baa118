"""Parsers with span scores: their settings, accuracy and costs."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from spacy.util import load_config

from spacy_structlearn.evaluation.calibration import expected_calibration_error
from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.latent.model import LatentGrammar
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.spans.features import SPAN_TEMPLATES, TAG_TEMPLATES
from spacy_structlearn.grammar.spans.model import SpanGrammar
from spacy_structlearn.grammar.spans.settings import SpanGrammarSettings
from spacy_structlearn.trees.parse import Parse, calibrate, fit_temperature
from spacy_structlearn.trees.tree import Tree
from training.common import scoring
from training.common.kept import SETTINGS, Run
from training.common.treebanks import PUNCTUATION
from training.pipeline import default
from training.pipeline.parser import COMPONENT, CONFIG, held_out_parser

FOLDS = {"wsj": 10, "ewt": 5}  # for training span scores
BINS = 10
WARM_UP = 50  # sentences parsed before timing


class Model(NamedTuple):
    """A grammar, with or without span features, and the CPU seconds of its training if measured."""

    grammar: LatentGrammar | SpanGrammar
    cpu_s: float | None = None

    def reader(self, **settings: Any) -> ChartParser:
        """Return a parser. settings: of `ChartParser`; models with span features use the decoder of
        the default parser unless one is given.
        """
        if isinstance(self.grammar, SpanGrammar):
            settings = {"decoder": default_decoder(), **settings}
        return ChartParser(self.grammar, **settings)

    def first(self) -> Model:
        """Return a copy with only the first grammar of a product."""
        whole: Any = self.grammar
        latent = latent_of(whole)
        return Model(whole.replaced(grammar=latent.first_grammars(1)))

    @property
    def mb(self) -> float:
        """Return the size as shipped: without small probabilities, the others in 16 bits."""
        return len(self.grammar.compact(*default.COMPACT["constituency_parser"]).to_bytes()) / 1e6


def latent_of(grammar: LatentGrammar | SpanGrammar) -> LatentGrammar:
    """Return the grammar without span features."""
    return grammar.grammar if isinstance(grammar, SpanGrammar) else grammar


@functools.cache
def default_decoder() -> str:
    return load_config(CONFIG, interpolate=True)["components"][COMPONENT]["decoder"]


def span_settings(
    corpus: str, base: LatentGrammarSettings | None = None, **changes: Any
) -> SpanGrammarSettings:
    """Return the settings of grammars with span features. base: of the grammars; None: the default
    of the corpus.
    """
    templates = {"templates": SPAN_TEMPLATES, "tag_templates": TAG_TEMPLATES}
    return SpanGrammarSettings(
        grammar=base or SETTINGS[corpus], folds=FOLDS[corpus], **{**templates, **changes}
    )


def trained(run: Run, corpus: str, split: str, settings: Any) -> Model:
    """Return the model of a part of a corpus, which is kept."""
    if isinstance(settings, SpanGrammarSettings):  # a fold needs a tree
        settings = replace(settings, folds=min(settings.folds, len(run.trees(corpus, split))))
    grammar, notes = run.prepared(corpus, split, settings)
    return Model(grammar, notes["cpu_s"])


@functools.cache
def default_parser(run: Run, split: str) -> Model:
    """Return the uncalibrated parser of the default pipeline. split: "fit" or "train", of EWT."""
    learn = held_out_parser if split == "fit" else default.learn_parser
    grammar = learn(run.corpora, run.work, run.jobs).get_pipe(COMPONENT).parameters
    return Model(grammar.replaced(temperature=1.0))


# --- figures --------------------------------------------------------------------------------------
def measured(
    run: Run, step: str, corpus: str, models: Mapping[str, Model], **settings: Any
) -> Iterator[scoring.Figures]:
    """Yield scores and costs of models on parts of a corpus; the first is for tuning.

    models: by part. Seconds and size are of the first model, and so is the temperature, which is
    used for all parts. settings: of `ChartParser`.
    """
    temperature = None
    found: scoring.Figures = {}
    for split, model in models.items():
        gold = run.trees(corpus, split)
        parses, ms = timed(model.reader(**settings), gold)
        result = scoring.scored(parses, gold, PUNCTUATION[corpus])
        found |= {f"{split}_f1": result.f1, f"{split}_exact": result.complete_match}
        found[f"{split}_f1_se"] = scoring.f1_standard_error(result)
        probabilities, right = scoring.brackets_right(parses, gold)
        found[f"{split}_ece"] = expected_calibration_error(probabilities, right, BINS)
        if temperature is None:
            temperature = fit_temperature(probabilities, right)
            found |= {"ms_per_sentence": ms, "mb": model.mb, "temperature": temperature}
            if model.cpu_s is not None:
                found["train_cpu_s"] = model.cpu_s
        else:
            calibrated = calibrate(probabilities, temperature)
            ece = expected_calibration_error(calibrated, right, BINS)
            found[f"{split}_ece_calibrated"] = ece
    yield scoring.under(f"{step}.{corpus}", found)


def timed(parser: ChartParser, gold: Sequence[Tree]) -> tuple[list[Parse], float]:
    """Return parses and CPU milliseconds per sentence."""
    parser.parse([tree.words() for tree in gold[:WARM_UP]])
    start = time.process_time()
    parses = scoring.parsed(parser, gold)
    return parses, 1000 * (time.process_time() - start) / len(gold)
