"""Does PP attachment improve a parser? On the English Web Treebank, with gold tokens and sentences.

Three predictions are evaluated at the sites of gold trees: the attacher, which reads words from the
predicted tree; the predicted tree; and the predicted tree after the attacher has re-attached
phrases with a high probability. A site is identified by its preposition. If the predicted tree has
no such site, all three predictions are wrong.

The minimum probability is tuned on the documents of `ewt/tune.txt`, with a parser and an attacher
that were not trained on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc, DocBin

import spacy_structlearn
from spacy_structlearn.attachment.sites import Site, sites
from spacy_structlearn.evaluation.evalb import score_trees
from spacy_structlearn.pipeline.doc_arrays import reattached
from spacy_structlearn.pipeline.readers import to_example
from spacy_structlearn.trees.tree import Tree
from training.pipeline import default
from training.pipeline.attacher import train_pp_attacher
from training.pipeline.parser import COMPONENT as PARSER
from training.pipeline.parser import held_out_parser

CONFIDENCES = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


def compare(gold: Sequence[Doc], parsed: Sequence[Doc], confidence: float) -> dict[str, float]:
    """Return the three accuracies, in percent, and bracket F1 before and after re-attaching.

    gold, parsed: Docs of the same tokens; the latter with constituents and pp_attachments.
    confidence: minimum probability of attachments for re-attaching.
    """
    right = {"resolver": 0, "parser": 0, "combined": 0}
    n_sites = n_found = n_moved = 0
    trees: list[tuple[Tree, Tree, Tree]] = []
    for wanted, found in zip(gold, parsed, strict=True):
        offset = 0
        resolved = {a.prep.i: a.label for a in found._.pp_attachments}
        triples = zip(wanted._.trees, found._.trees, reattached(found, confidence), strict=True)
        for gold_tree, tree, moved in triples:
            n_moved += moved != tree
            trees.append((gold_tree, tree, moved))
            answers = {
                "resolver": {i - offset: label for i, label in resolved.items()},
                "parser": labels(sites(tree, every=True)),
                "combined": labels(sites(moved, every=True)),
            }
            for site in sites(gold_tree):
                n_sites += 1
                n_found += site.preposition in answers["parser"]
                for name, answer in answers.items():
                    right[name] += answer.get(site.preposition) == site.label
            offset += len(tree.words())
    golds, before, after = zip(*trees, strict=True)
    figures = {f"{name}.acc": 100 * number / n_sites for name, number in right.items()}
    return figures | {
        "sites": n_sites,
        "found": 100 * n_found / n_sites,
        "sentences_changed": n_moved,
        "bracket_f1.before": score_trees(golds, before, punctuation="gold").f1,
        "bracket_f1.after": score_trees(golds, after, punctuation="gold").f1,
    }


def labels(found: Iterable[Site]) -> dict[int, str]:
    """Return the attachment of each preposition."""
    return {site.preposition: site.label for site in found}


def text(corpora: Path, work: Path, threads: int) -> dict[str, Any]:
    """Choose the confidence on the tuning documents; compare on dev with the default pipeline."""
    docs = default.build_docs(corpora, work)
    parser = held_out_parser(corpora, work, threads)
    tuning, _ = train_pp_attacher(corpora, work)
    tuning.add_pipe(PARSER, source=parser, first=True)
    gold, found = parsed(tuning, docs["tune"])
    compared = {confidence: compare(gold, found, confidence) for confidence in CONFIDENCES}
    # Of equally good ones the highest: it moves least.
    chosen = max(CONFIDENCES, key=lambda c: (compared[c]["bracket_f1.after"], c))
    for confidence, figures in compared.items():
        print(f"tune, {confidence:.2f}: {figures}")
    figures = {f"text.ewt_tune.{key}": value for key, value in compared[chosen].items()}
    figures["text.confidence"] = chosen
    pipeline = spacy_structlearn.load(disable=["sentence_splitter"])
    dev = compare(*parsed(pipeline, docs["dev"]), chosen)
    print(f"dev, {chosen:.2f}: {dev}")
    return figures | {f"text.ewt_dev.{key}": value for key, value in dev.items()}


def parsed(nlp: Language, path: Path) -> tuple[list[Doc], list[Doc]]:
    """Return gold Docs, and the predictions of a pipeline for their words and sentences."""
    gold = list(DocBin().from_disk(path).get_docs(nlp.vocab))
    return gold, list(nlp.pipe(to_example(doc, tags=False).predicted for doc in gold))
