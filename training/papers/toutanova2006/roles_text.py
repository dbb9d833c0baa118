"""Semantic roles in text: the labeler of the default pipeline on the English Web Treebank.

The labeler is evaluated once on dev: with gold trees; with gold tokens and sentences, but predicted
tags and trees; and on raw text, where arguments are compared by characters. On the documents of
`ewt/tune.txt`, in trees of a parser that has not seen them, it compares labelers trained on gold
trees, jackknifed trees or both, and trees with re-attached prepositional phrases.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
from spacy.tokens import Doc
from spacy.training import Example

import spacy_structlearn
from spacy_structlearn.evaluation.calibration import expected_calibration_error
from spacy_structlearn.pipeline.readers import to_example
from training.pipeline import default
from training.pipeline.attacher import COMPONENT as ATTACHER
from training.pipeline.attacher import train_pp_attacher
from training.pipeline.labeler import COMPONENT as LABELER
from training.pipeline.labeler import SPANS, TREES, train_srl_labeler, training_files

ROWS = ("ARG0", "ARG1", "ARG2", "ARGM-TMP", "ARGM-LOC")
CONFIDENCES = (None, 0.95, 0.9, 0.8, 0.7, 0.5)
CONFIDENT = 0.9
COUNTED = ("predicates", "identification", "roles")  # stages with a min_count
RUNS = 5


def text(corpora: Path, work: Path) -> dict[str, Any]:
    """Score the default pipeline on dev, and time its labeler."""
    nlp = spacy_structlearn.load()
    labeler = nlp.get_pipe(LABELER)
    gold = default.read_docs(default.build_docs(corpora, work)["dev"], nlp.vocab)
    figures: dict[str, Any] = {}

    def report(name: str, examples: list[Example]) -> None:
        scores = labeler.score(examples)
        figures.update({f"end_to_end.{name}.{key}": v for key, v in percentages(scores).items()})
        print(f"{name:12} F1 {figures[f'end_to_end.{name}.f1']:.2f}", flush=True)

    examples = [to_example(doc, spans=SPANS) for doc in gold]
    labelled(labeler, [example.predicted for example in examples])
    report("gold_trees", examples)
    tokens = [to_example(doc, tags=False) for doc in gold]
    with nlp.select_pipes(disable=["sentence_splitter"]):
        # In place: the Docs of the examples.
        list(nlp.pipe(example.predicted for example in tokens))
    report("gold_tokens", tokens)
    figures["role_ece"] = calibration_error(tokens)
    figures |= agreement([example.predicted for example in tokens])
    found = nlp.pipe(doc.text for doc in gold)
    report("raw", [Example(*pair) for pair in zip(found, gold, strict=True)])
    return figures | speed(labeler, [example.predicted for example in tokens])


def labelled(labeler: Any, docs: Sequence[Doc]) -> None:
    """Annotate Docs with only the labeler."""
    labeler.set_annotations(docs, labeler.predict(docs))


def percentages(scores: dict[str, Any]) -> dict[str, float]:
    """Return the scores of `srl_score`, with the names in the results."""
    names = {
        "f1": "f",
        "precision": "p",
        "recall": "r",
        "identification_f1": "id_f",
        "label_acc": "label_acc",
        "predicate_f1": "predicate_f",
        "sense_acc": "sense_acc",
        "verbs.f1": "verbs_f",
        "others.f1": "others_f",
    }
    found = {
        name: 100 * scores[f"srl_{key}"] for name, key in names.items() if f"srl_{key}" in scores
    }
    per_type = scores["srl_per_type"]
    rows = {f"{label}.f1": 100 * per_type[label]["f"] for label in ROWS if label in per_type}
    return found | rows


def calibration_error(examples: Iterable[Example]) -> float:
    """Return the expected calibration error of arguments, for Docs of the same tokens."""
    probabilities, right = [], []
    for example in examples:
        gold = {
            (f.predicate.start, a.label, a.span.start, a.span.end)
            for f in example.reference._.frames
            for a in f.arguments
        }
        for frame in example.predicted._.frames:
            for a in frame.arguments:
                probabilities.append(a.prob)
                place = frame.predicate.start
                right.append((place, a.label, a.span.start, a.span.end) in gold)
    return expected_calibration_error(np.array(probabilities), np.array(right))


def agreement(docs: Iterable[Doc]) -> dict[str, Any]:
    """Return the share of prepositional phrases that are arguments of their verb and also attached
    to the verb: of all, and of those where both components are confident.
    """
    counts = {False: [0, 0], True: [0, 0]}
    for doc in docs:
        for found in doc._.pp_attachments:
            frame = found.verb._.srl
            for argument in frame.arguments if frame is not None else ():
                if (argument.span.start, argument.span.end) == (found.pp.start, found.pp.end):
                    sure = argument.prob >= CONFIDENT and found.prob >= CONFIDENT
                    for kind in {False, sure}:
                        counts[kind][0] += found.head == found.verb
                        counts[kind][1] += 1
    names = {False: "all", True: "confident"}
    return {
        f"pp_agreement.{names[kind]}.{key}": value
        for kind, (agreeing, n) in counts.items()
        for key, value in (("n", n), ("share", 100 * agreeing / n if n else 0.0))
    }


def speed(labeler: Any, docs: Sequence[Doc]) -> dict[str, float]:
    """Return sentences per CPU second of the labeler on Docs with trees, median of several runs."""
    n = sum(1 for doc in docs for _ in doc.sents)
    seconds = []
    for _ in range(RUNS):
        start = process_time()
        labelled(labeler, docs)
        seconds.append(process_time() - start)
    return {"labeler.sentences_per_cpu_s": n / median(seconds), "labeler.sentences": n}


def trees(corpora: Path, work: Path, jobs: int) -> dict[str, Any]:
    """Return the comparisons on the tuning documents."""
    return compare_trees(corpora, work, jobs) | compare_attachments(corpora, work, jobs)


def compare_trees(corpora: Path, work: Path, jobs: int) -> dict[str, Any]:
    """Return F1 on the tuning documents for several kinds of training trees."""
    figures: dict[str, Any] = {}
    # The config is for two copies of each Doc.
    once = {f"components.{LABELER}.model.stages.{stage}.min_count": 2 for stage in COUNTED}
    for kind in TREES:
        files = training_files(kind, corpora, work, jobs)
        _, scores = train_srl_labeler(files, overrides={} if kind == "both" else once)
        figures |= {
            f"trained_on.{kind}.tune_f1": 100 * scores["srl_f"],
            f"trained_on.{kind}.tune_identification_f1": 100 * scores["srl_id_f"],
        }
        print(f"trained on {kind:12} tune F1 {100 * scores['srl_f']:.2f}", flush=True)
    return figures


def compare_attachments(corpora: Path, work: Path, jobs: int) -> dict[str, Any]:
    """Return F1 on the tuning documents in re-attached trees, for several minimum probabilities."""
    files = training_files(default.ROLES_FROM, corpora, work, jobs)
    trained, _ = train_srl_labeler(files)
    nlp, _ = train_pp_attacher(corpora, work)
    nlp.add_pipe(LABELER, source=trained)
    attacher, labeler = nlp.get_pipe(ATTACHER), nlp.get_pipe(LABELER)
    examples = [to_example(doc, spans=SPANS) for doc in default.read_docs(files["tune"], nlp.vocab)]
    docs = [example.predicted for example in examples]
    attacher.set_annotations(docs, attacher.predict(docs))
    figures: dict[str, Any] = {}
    for confidence in CONFIDENCES:
        labeler.attachment_confidence = confidence
        labelled(labeler, docs)
        score = 100 * labeler.score(examples)["srl_f"]
        name = "none" if confidence is None else f"{100 * confidence:.0f}_percent"
        figures[f"attachment_confidence.{name}.tune_f1"] = score
        print(f"re-attached from {confidence}: tune F1 {score:.2f}", flush=True)
    return figures
