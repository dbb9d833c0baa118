"""Train the component of dependencies on gold and jackknifed trees of EWT.

    python corpora/fetch.py ewt
    python -m training.train_default --only tree_dependencies

The gold arcs are those of UD r2.6. Each document occurs twice, with its gold trees and with trees
of a parser that has not seen it: on predicted trees, jackknifed trees alone are worse than both.
Probabilities are calibrated on the tuning documents, with the trees of a parser that has not seen
these.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from spacy.language import Language
from spacy.training import Example

from spacy_structlearn.pipeline.training import fitting
from training.common.ewt import read_docs, read_documents, tuning_documents
from training.common.jackknife import untagged, with_brackets, write_docs
from training.common.recording import ROOT

CONFIG = ROOT / "training" / "configs" / "tree_dependencies.cfg"
COMPONENT = "tree_dependencies"
SCORES = ("dep_uas", "dep_las")


def training_files(corpora: Path, work: Path, parsed: Path) -> dict[str, Path]:
    """Write DocBins: `fit` and `train` with both trees of each document, `tune` with gold trees.

    parsed: a DocBin of the documents of train, in order, with jackknifed trees.
    """
    paths = {name: work / "ewt" / f"{name}.dependencies.spacy" for name in ("fit", "tune", "train")}
    if all(path.exists() for path in paths.values()):
        return paths
    named, tuning = read_documents(corpora, "train"), tuning_documents(corpora)
    pairs = [
        (name, gold, with_brackets(gold, own))
        for (name, gold), own in zip(named, read_docs(parsed, named[0][1].vocab), strict=True)
    ]
    write_docs([doc for _, *both in pairs for doc in both], paths["train"])
    both = [doc for name, *own in pairs if name not in tuning for doc in own]
    write_docs(both, paths["fit"])
    write_docs([gold for name, gold, _ in pairs if name in tuning], paths["tune"])
    return paths


def train_dependencies(
    files: dict[str, Path], output: Path, held_out: Path, front: Callable[[], Language]
) -> dict[str, float]:
    """Train on fit, calibrate and score on tune, and train on all of train; save both pipelines.

    files: those of `training_files`. output, held_out: folders of the pipelines trained on train
    and on fit. front: returns a pipeline of a tagger and a parser that have not seen tune.
    Returns the scores on tune, by `gold_trees` and `parsed`.
    """
    nlp = train(files["fit"])
    component = nlp.get_pipe(COMPONENT)
    parsed = predicted(front(), files["tune"])
    calibration = component.calibrate(parsed)
    scores = {"gold_trees": figures(nlp, gold_examples(files["tune"]))}
    scores["parsed"] = figures(nlp, parsed)
    fitting.save(nlp, held_out)
    nlp = train(files["train"])
    nlp.get_pipe(COMPONENT).cfg["calibration"] = list(calibration)
    fitting.save(nlp, output)
    return {
        f"{trees}.{name}": value for trees, own in scores.items() for name, value in own.items()
    }


def train(path: Path) -> Language:
    """Train on the trees of a DocBin."""
    return fitting.train(
        CONFIG, overrides={"paths.train": str(path), "paths.dev": str(path)}, best=False
    )


def predicted(front: Language, path: Path) -> list[Example]:
    """Return examples of the Docs of a file, with the trees of a pipeline; their probable trees
    remain beside them."""
    gold = read_docs(path, front.vocab)
    docs = front.pipe([untagged(front, doc) for doc in gold])
    return [Example(doc, own) for doc, own in zip(docs, gold, strict=True)]


def gold_examples(path: Path) -> list[Example]:
    """Return examples whose predicted Docs have gold tags and trees."""
    return [Example(doc.copy(), doc) for doc in read_docs(path)]


def figures(nlp: Language, examples: list[Example]) -> dict[str, float]:
    """Return the attachment scores of the component on the trees of predicted Docs."""
    component = nlp.get_pipe(COMPONENT)
    docs = [example.predicted for example in examples]
    component.set_annotations(docs, component.predict(docs))
    scores = component.score(examples)
    return {name: 100 * scores[name] for name in SCORES}
