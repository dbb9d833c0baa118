"""Train the tagger of the default pipeline on the fetched English Web Treebank, and predict tags.

    python corpora/fetch.py ewt craft raw_text
    python -m training.train_default --only chain_tagger

Later components are trained on tags by k-fold jackknifing, where the tagger has not seen the
document. Each stage is kept in training/work.
"""

from __future__ import annotations

from pathlib import Path

import spacy
from spacy.language import Language

from spacy_structlearn.pipeline.training import fitting
from training.common.ewt import build_docs
from training.common.jackknife import jackknife, tag_docs
from training.common.recording import ROOT
from training.pipeline.classes import learn_classes

CONFIG = ROOT / "training" / "configs" / "chain_tagger.cfg"
FOLDS = 5
TUNE_TAGGED = Path("ewt", "tune.tagged.spacy")  # in the cache of stages


def train_tagger(corpora: Path, work: Path, split: str = "train") -> Language:
    """Train the tagger on one split of train, and score it on tune."""
    target = work / f"chain_tagger.{split}"
    if not target.exists():
        docs, classes = build_docs(corpora, work), learn_classes(corpora, work)
        paths = {"train": docs[split], "dev": docs["tune"], "classes": classes}
        overrides = {f"paths.{name}": str(path) for name, path in paths.items()}
        fitting.train(CONFIG, target, overrides=overrides, best=False)
    return spacy.load(target)


def jackknifed(corpora: Path, work: Path, jobs: int) -> Path:
    """Write train with predicted tags."""
    target = work / "ewt" / "train.jackknifed.spacy"
    if not target.exists():
        train, folds = build_docs(corpora, work)["train"], work / "jackknife"
        classes = {"paths.classes": str(learn_classes(corpora, work))}
        jackknife(CONFIG, train, target, work=folds, folds=FOLDS, jobs=jobs, overrides=classes)
    return target


def tagged(docs: Path, tagger: Language, target: Path) -> Path:
    """Write a file of Docs with the tags predicted by `tagger`."""
    if not target.exists():
        tag_docs(tagger, docs, target)
    return target
