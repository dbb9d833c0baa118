"""The English Web Treebank: its files, and its documents as Docs with all layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from spacy.lang.en import English
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_structlearn.pipeline.readers import read_treebank
from spacy_structlearn.pipeline.readers.examples import lines
from training.common.jackknife import write_docs


def treebank(corpora: Path, split: str) -> dict[str, Path]:
    """Return the files of train or dev by the names of the readers' settings."""
    kinds = ("trees", "spaces", "props")
    return {kind: corpora / "ewt" / f"{split}.{kind}.gz" for kind in kinds}


def tuning_documents(corpora: Path) -> set[str]:
    """Return the documents of train that are used for tuning (`ewt/tune.txt`)."""
    return set((corpora / "ewt" / "tune.txt").read_text(encoding="utf8").split())


def build_docs(corpora: Path, work: Path) -> dict[str, Path]:
    """Write EWT as DocBins of documents with all gold layers: train, fit, tune and dev.

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
    """Return the documents of train or dev with their names, in order; with UD if it is there."""
    files, ud = treebank(corpora, split), corpora / "ewt" / f"{split}.ud.gz"
    # An empty Vocab does not recognize white space.
    vocab = English().vocab
    documents = read_treebank(vocab, files["trees"], spaces=files["spaces"], props=files["props"])
    if not ud.exists():
        return list(documents)
    dependencies = ud_sentences(ud)
    return [(name, with_ud(doc, dependencies)) for name, doc in documents]


def ud_sentences(path: Path) -> Iterator[list[list[str]]]:
    """Iterate over the sentences of a file of UD columns: UPOS, FEATS, LEMMA, HEAD and DEPREL of
    each token, all `_` in a sentence without UD."""
    for empty, block in groupby(lines(path), key=lambda line: not line.strip()):
        if not empty:
            yield [line.rstrip("\n").split("\t") for line in block]


def with_ud(doc: Doc, sentences: Iterator[Sequence[Sequence[str]]]) -> Doc:
    """Return a copy of `doc` with the UD annotation of the next sentences.

    White space is attached to the word before it. In a sentence without UD, `pos`, `morph`,
    `lemma` and `dep` are missing. The sentence boundaries remain.
    """
    heads = [max(token.i - 1, token.sent.start) for token in doc]
    columns = {name: [""] * len(doc) for name in ("pos", "morphs", "lemmas", "deps")}
    for sentence in doc.sents:
        words = [token.i for token in sentence if not token.is_space]
        for i, (*annotation, head, dep) in zip(words, next(sentences), strict=True):
            if head != "_":
                heads[i] = words[int(head) - 1] if int(head) else i
                annotation.append("ROOT" if dep == "root" else dep)
                for name, value in zip(columns, annotation, strict=True):
                    columns[name][i] = "" if name == "morphs" and value == "_" else value
    copy = Doc(
        doc.vocab,
        words=[token.text for token in doc],
        spaces=[bool(token.whitespace_) for token in doc],
        tags=[token.tag_ for token in doc],
        heads=heads,
        **columns,
    )
    for name, group in doc.spans.items():
        copy.spans[name] = group.copy(doc=copy)
    return copy


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
