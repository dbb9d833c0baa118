"""The report of beyond/span_parser, with figures of other parsers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from training.common.report import error_lines, shown, table, write_sections

Figures = Mapping[str, Any]

STEPS = {
    "generative": "one split-merge grammar",
    "lexicon": "with word features, for tags only",
    "span_features": "with span features",
    "span_features_batch": "with span features, by OWL-QN",
    "span_features_seen": "with span features, forests by a grammar that has seen the sentences",
    "span_features_xbar": "X-bar grammar with span features",
    "product_generative": "four grammars",
    "product_features": "four grammars with span features",
    "default": "the default parser",
    "default_single": "the default parser, first grammar with span features",
}
SCORES = (
    ("WSJ dev", "wsj.dev_f1"),
    ("WSJ test", "wsj.test_f1"),
    ("exact", "wsj.test_exact"),
    ("EWT tune", "ewt.tune_f1"),
    ("EWT dev", "ewt.dev_f1"),
    ("exact", "ewt.dev_exact"),
)
COSTS = (
    ("WSJ: training, CPU s", "wsj.train_cpu_s", ",.0f"),
    ("CPU ms per sentence", "wsj.ms_per_sentence", ".1f"),
    ("MB", "wsj.mb", ".1f"),
    ("EWT: training, CPU s", "ewt.train_cpu_s", ",.0f"),
    ("CPU ms per sentence", "ewt.ms_per_sentence", ".1f"),
    ("MB", "ewt.mb", ".1f"),
)
CALIBRATION = (
    ("WSJ dev", "wsj.dev_ece"),
    ("WSJ test", "wsj.test_ece"),
    ("the same, calibrated", "wsj.test_ece_calibrated"),
    ("EWT tune", "ewt.tune_ece"),
    ("EWT dev", "ewt.dev_ece"),
    ("the same, calibrated", "ewt.dev_ece_calibrated"),
)
HEAD = """\
# Beyond Petrov & Klein (2007)

Made by training/beyond/span_parser. A latent grammar prunes the trees of a sentence to a forest. A
log-linear model scores these trees by the grammar's variational score, and by scores of symbols
over spans that are linear in features (Hall, Durrett & Klein 2014). It is trained on forests by
grammars of other folds. A network over the words (Durrett & Klein 2015) was tried until commit
458abad and removed: F1 on the tuning documents of EWT was 82.28 with the network alone, 82.53 with
the network and features, and 82.66 with features alone. WSJ is NLTK's sample: files
0001-0159 for training, 0160-0179 as dev, 0180-0199 for the test. On EWT, models for the tuning
documents are trained on the other documents of train, and models for dev on all of train. The
default parser is also trained on the Multi-domain Constituent TreeBank and on parses of raw text,
so it is ahead on EWT for this reason, too. F1 and exact match are by EVALB, in percent. Grammars
without span scores use the max-rule product, other models the decoder of the default parser."""


def write(results: Path, name: str) -> None:
    """Write the report of results/NAME.json."""
    write_sections(results, name, HEAD, SECTIONS)


def errors(figures: Figures) -> Iterator[str]:
    """Write the standard errors of one grammar, and on EWT dev of the default parser."""
    both = {
        key.replace("default.ewt.dev_", "generative.ewt.dev_"): value
        for key, value in figures.items()
    }
    yield from error_lines(both, "generative.{corpus}.{split}_{score}")


def _found(figures: Figures, names: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Return the names with any of these figures."""
    return [name for name in names if any(f"{name}.{key}" in figures for key in keys)]


def scores(figures: Figures) -> Iterator[str]:
    """Write the scores of all steps."""
    found = _found(figures, list(STEPS), [key for _, key in SCORES])
    if not found:
        return
    rows = [
        (STEPS[step], *(shown(figures, f"{step}.{key}", ".2f") for _, key in SCORES))
        for step in found
    ]
    yield from ("", "## Scores")
    yield from table(("F1", *(text for text, _ in SCORES)), rows)


def costs(figures: Figures) -> Iterator[str]:
    """Write times and sizes."""
    found = _found(figures, list(STEPS), [key for _, key, _ in COSTS])
    if not found:
        return
    rows = [
        (
            STEPS[step],
            *(shown(figures, f"{step}.{key}", form) for _, key, form in COSTS),
        )
        for step in found
    ]
    yield from ("", "## Costs", "")
    yield "Training includes all grammars and those of the folds. Parsing is on one thread, without"
    yield "loading. Sizes are without small probabilities, with the others in 16 bits."
    yield from table(("", *(text for text, _, _ in COSTS)), rows)


def forests(figures: Figures) -> Iterator[str]:
    """Write oracle scores and sizes of forests."""
    names = {"forests.wsj": "WSJ sample, dev", "forests.ewt": "EWT, tune"}
    keys = ("oracle_f1", "oracle_exact", "items", "edges", "failures")
    found = _found(figures, list(names), keys)
    if found:
        yield from ("", "## Forests of one grammar")
        header = ("", "oracle F1", "exact", "items per sentence", "edges", "failures")
        forms = (".2f", ".2f", ",.0f", ",.0f", "d")
        rows = [
            (
                names[name],
                *(
                    shown(figures, f"{name}.{key}", form)
                    for key, form in zip(keys, forms, strict=True)
                ),
            )
            for name in found
        ]
        yield from table(header, rows)


def calibration(figures: Figures) -> Iterator[str]:
    """Write the calibration of brackets."""
    found = _found(figures, list(STEPS), [key for _, key in CALIBRATION])
    if not found:
        return
    yield from ("", "## Calibration", "")
    yield "Expected calibration error of the probabilities of brackets, in ten bins. The calibrated"
    yield "models have a temperature that was fitted on WSJ dev or EWT's tuning documents."
    rows = [
        (STEPS[step], *(shown(figures, f"{step}.{key}", ".3f") for _, key in CALIBRATION))
        for step in found
    ]
    yield from table(("", *(text for text, _ in CALIBRATION)), rows)


def decoders(figures: Figures) -> Iterator[str]:
    """Write decoders of one grammar with features."""
    keys = ("wsj.dev_f1", "wsj.dev_exact", "ewt.tune_f1", "ewt.tune_exact")
    names = list(_below(figures, "decoders."))
    if names:
        yield from ("", "## Decoders of a grammar with span features")
        rows = [
            (
                name.replace("_", " "),
                *(shown(figures, f"decoders.{name}.{key}", ".2f") for key in keys),
            )
            for name in names
        ]
        yield from table(("", "WSJ dev, F1", "exact", "EWT tune, F1", "exact"), rows)


def tagger(figures: Figures) -> Iterator[str]:
    """Write figures with tags of a tagger."""
    kinds = {"": "the default parser", "generative_": "its first grammar, without span features"}
    rows = []
    for prefix, text in kinds.items():
        key = f"{prefix}tagger.ewt"
        for name in _below(figures, f"{key}.weights."):
            weight = name.replace("_", ".")
            what = f"{text}, weight {weight}" if name != "0" else text
            tune = shown(figures, f"{key}.weights.{name}.tune_f1", ".2f")
            chosen = figures.get(f"{key}.weight") == float(weight)
            dev = shown(figures, f"{key}.dev_f1", ".2f") if chosen else ""
            rows.append((what, tune, dev))
        gold = f"{prefix}tagger_gold.ewt"
        if f"{gold}.tune_f1" in figures:
            cells = (shown(figures, f"{gold}.{split}_f1", ".2f") for split in ("tune", "dev"))
            rows.append((f"{text}, gold tags", *cells))
    if rows:
        yield from ("", "## Tags of a tagger as a prior, EWT")
        yield from table(("F1", "tune", "dev"), rows)
        accuracy = shown(figures, "tagger.ewt.tune_accuracy", ".1f")
        yield from ("", f"The accuracy of the tagger on the tuning documents is {accuracy}.")


def batch(figures: Figures) -> Iterator[str]:
    """Write the objective of features over time."""
    rows, stopped = [], []
    for solver, text in (("owlqn", "OWL-QN"), ("adagrad", "AdaGrad")):
        points = figures.get(f"span_features_batch.{solver}.points", [])
        for number in sorted({1, 2, 4, 8, 16, 32, len(points)}):
            if 0 < number <= len(points):
                seconds, value, weights = points[number - 1]
                rows.append((text, f"{number}", f"{seconds:.1f}", f"{value:.4f}", f"{weights:,}"))
        if len(points) > 1:
            before, last = points[-2][1], points[-1][1]
            stopped.append(
                f"{text} was stopped after {len(points)} passes, the last of which decreased the "
                f"objective by {100 * (before - last) / last:.2f} %."
            )
    if rows:
        yield from ("", "## Span features: one objective, two solvers, WSJ sample")
        yield from ("", *wrap(" ".join(stopped), 100))
        header = ("", "passes", "CPU s", "nats per sentence, with the penalty", "weights")
        yield from table(header, rows)


def chosen(figures: Figures) -> Iterator[str]:
    """Write the best models."""
    names = {"best_single": "of one grammar", "best_product": "of all"}
    rows = []
    for name, text in names.items():
        for corpus, held_out in (("wsj", "test"), ("ewt", "dev")):
            step = figures.get(f"{name}.{corpus}.step")
            if step is not None:
                cells = (
                    shown(figures, f"{name}.{corpus}.{held_out}_{what}", ".2f")
                    for what in ("f1", "exact")
                )
                title = f"the best {text}, {corpus.upper()} {held_out}"
                rows.append((title, STEPS.get(step, step), *cells))
    if rows:
        yield from ("", "## The best", "")
        yield "Chosen on WSJ dev, and on EWT's tuning documents among models scored on EWT dev."
        yield from table(("", "", "F1", "exact"), rows)


def _below(figures: Figures, prefix: str) -> dict[str, None]:
    """Return the next parts of the keys with this prefix, in order."""
    keys = (key.removeprefix(prefix) for key in figures if key.startswith(prefix))
    return dict.fromkeys(key.split(".")[0] for key in keys)


SECTIONS = (
    errors,
    scores,
    chosen,
    costs,
    forests,
    calibration,
    decoders,
    tagger,
    batch,
)
