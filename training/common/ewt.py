"""The English Web Treebank: its files, and its documents as Docs with all layers."""

from __future__ import annotations

from pathlib import Path

from spacy.lang.en import English
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_structlearn.pipeline.readers import read_treebank
from training.common.jackknife import write_docs


def treebank(corpora: Path, split: str) -> dict[str, Path]:
    """Return the files of train or dev by the names of the readers' settings."""
    kinds = ("trees", "spaces", "props")
    return {kind: corpora / "ewt" / f"{split}.{kind}.gz" for kind in kinds}


def tuning_documents(corpora: Path) -> set[str]:
    """Return the documents of train that are used for tuning (`ewt/tune.txt`)."""
    return set((corpora / "ewt" / "tune.txt").read_text(encoding="utf8").split())


def build_docs(corpora: Path, work: Path) -> dict[str, Path]:
    """Write EWT as DocBins of documents with gold tags and chunks: train, fit, tune and dev.

    tune contains the documents of `ewt/tune.txt`, fit the other documents of train.
    """
    paths = {name: work / "ewt" / f"{name}.spacy" for name in ("train", "fit", "tune", "dev")}
    if all(path.exists() for path in paths.values()):
        return paths
    for split in ("train", "dev"):
        write_docs([doc for _, doc in read_documents(corpora, split)], paths[split])
    split_tuning(corpora, paths["train"], paths["fit"], paths["tune"])
    return paths


def read_documents(corpora: Path, split: str) -> list[tuple[str, Doc]]:
    """Return the documents of train or dev with their names, in order."""
    files = treebank(corpora, split)
    # An empty Vocab does not recognize white space.
    vocab = English().vocab
    return list(read_treebank(vocab, files["trees"], spaces=files["spaces"], props=files["props"]))


def split_tuning(corpora: Path, train: Path, fit: Path, tune: Path) -> tuple[Path, Path]:
    """Split a file of all documents of train into those not in `ewt/tune.txt` and those in it.

    fit, tune: the files to write, which are returned.
    """
    tuning = tuning_documents(corpora)
    names = [name for name, _ in read_documents(corpora, "train")]
    named = list(zip(names, read_docs(train), strict=True))
    write_docs([doc for name, doc in named if name not in tuning], fit)
    write_docs([doc for name, doc in named if name in tuning], tune)
    return fit, tune


def read_docs(path: Path, vocab: Vocab | None = None) -> list[Doc]:
    """Read the Docs of a file. vocab: of the pipeline that annotates them."""
    return list(DocBin().from_disk(path).get_docs(vocab or English().vocab))
