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
    train = dict(read_documents(corpora, "train"))
    tuning = tuning_documents(corpora)
    write_docs(list(train.values()), paths["train"])
    write_docs([doc for name, doc in train.items() if name not in tuning], paths["fit"])
    write_docs([doc for name, doc in train.items() if name in tuning], paths["tune"])
    write_docs([doc for _, doc in read_documents(corpora, "dev")], paths["dev"])
    return paths


def read_documents(corpora: Path, split: str) -> list[tuple[str, Doc]]:
    """Return the documents of train or dev with their names, in order."""
    files = treebank(corpora, split)
    # An empty Vocab does not recognize white space.
    vocab = English().vocab
    return list(read_treebank(vocab, files["trees"], spaces=files["spaces"], props=files["props"]))


def document_names(corpora: Path) -> list[str]:
    """Return the names of the documents of train, in order."""
    return [name for name, _ in read_documents(corpora, "train")]


def read_docs(path: Path, vocab: Vocab | None = None) -> list[Doc]:
    """Read the Docs of a file. vocab: of the pipeline that annotates them."""
    return list(DocBin().from_disk(path).get_docs(vocab or English().vocab))
