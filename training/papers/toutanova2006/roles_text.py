"""Semantic roles in text: the labeler of the default pipeline on the English Web Treebank.

The labeler is evaluated once on dev: with gold trees; with gold tokens and sentences, but predicted
tags and trees; and on raw text, where arguments are compared by characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spacy.tokens import Doc
from spacy.training import Example

import spacy_structlearn
from spacy_structlearn.pipeline.readers import to_example
from training.pipeline import default
from training.pipeline.labeler import COMPONENT as LABELER
from training.pipeline.labeler import SPANS

ROWS = ("ARG0", "ARG1", "ARG2", "ARGM-TMP", "ARGM-LOC")


def text(corpora: Path, work: Path) -> dict[str, Any]:
    """Score the labeler of the default pipeline on dev."""
    nlp = spacy_structlearn.load()
    labeler: Any = nlp.get_pipe(LABELER)
    gold = default.read_docs(default.build_docs(corpora, work)["dev"], nlp.vocab)
    figures: dict[str, Any] = {"labeler.sentences": sum(len(list(doc.sents)) for doc in gold)}

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
    found = nlp.pipe(doc.text for doc in gold)
    report("raw", [Example(*pair) for pair in zip(found, gold, strict=True)])
    return figures


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
