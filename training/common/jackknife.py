"""k-fold jackknifing: predicted annotation for training data.

A component reads the predictions of earlier components, which are too good on their own training
data. So the documents are divided into k folds, and each fold is annotated by a pipeline trained on
the other k - 1. In the result, tags or (`jackknife_parses`) brackets are replaced by predictions;
all other annotation is kept.

    python -m training.common.jackknife tagger.cfg train.spacy jackknifed.spacy
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable
from pathlib import Path

import spacy
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_structlearn.groups import TAG_CANDIDATES
from spacy_structlearn.learning.training import write_bytes
from spacy_structlearn.pipeline import fitting
from spacy_structlearn.pipeline.extensions import (
    CONSTITUENT_TAGS,
    CONSTITUENTS,
    constituent_tags,
)
from spacy_structlearn.pipeline.readers import set_gold_spans, to_example, with_norms


def jackknife(
    config: Path,
    source: Path,
    target: Path,
    *,
    work: Path,
    folds: int = 5,
    jobs: int = 1,
    overrides: dict | None = None,
) -> None:
    """Write the Docs of `source` to `target`, in order, with their tags predicted.

    config: of a tagger, such as `training/configs/chain_tagger.cfg`. work: a directory for the
    folds; existing folds are kept, so that an interrupted run resumes. jobs: number of processes.
    """
    docs = list(DocBin().from_disk(source).get_docs(Vocab()))
    work.mkdir(parents=True, exist_ok=True)
    tasks = [
        (config, source, work / f"fold-{fold}-of-{folds}", fold, folds, overrides or {})
        for fold in range(min(folds, len(docs)))
    ]
    interleave(in_processes(annotate_fold, tasks, jobs), len(docs), target)


def jackknife_parses(
    config: Path,
    source: Path,
    names: list[str],
    target: Path,
    *,
    work: Path,
    tagged: Path | None = None,
    folds: int = 5,
    jobs: int = 1,
    overrides: dict | None = None,
) -> None:
    """Write the Docs of `source` to `target`, in order, with their brackets predicted.

    config: of a parser, such as `training/configs/parser.cfg`, with the treebank of `source`. Its
    `paths.tune` is a file with the names of the documents excluded from training.
    names: of the Docs. tagged: a file of the same Docs with the input tags of the parser; None:
    the tags of `source`. Other arguments: see `jackknife`.
    """
    sources = source, tagged or source
    work.mkdir(parents=True, exist_ok=True)
    tasks = [
        (config, sources, names, work / f"fold-{fold}-of-{folds}", fold, folds, overrides or {})
        for fold in range(min(folds, len(names)))
    ]
    interleave(in_processes(parse_fold, tasks, jobs), len(names), target)


def in_processes(annotate: Callable[..., Path], tasks: list[tuple], jobs: int) -> list[Path]:
    """Call `annotate` once for each task, in `jobs` processes."""
    if jobs == 1:
        return [annotate(*task) for task in tasks]
    # spawn, because a forked child inherits the threads of BLAS in an undefined state.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        return pool.starmap(annotate, tasks, chunksize=1)


def interleave(folds: list[Path], n: int, target: Path) -> None:
    """Write the n Docs in their original order: Doc i is in fold i modulo the number of folds."""
    parts = [iter(DocBin().from_disk(path).get_docs(Vocab())) for path in folds]
    write_docs([next(parts[i % len(parts)]) for i in range(n)], target)


def annotate_fold(
    config: Path, source: Path, work: Path, fold: int, folds: int, overrides: dict
) -> Path:
    """Train on the other folds and tag this one. Return the file of tagged Docs."""
    target = work / "tagged.spacy"
    if target.exists():
        return target
    work.mkdir(parents=True, exist_ok=True)
    docs = list(DocBin().from_disk(source).get_docs(Vocab()))
    write_docs([doc for i, doc in enumerate(docs) if i % folds != fold], work / "train.spacy")
    write_docs([doc for i, doc in enumerate(docs) if i % folds == fold], work / "dev.spacy")
    nlp = trained(config, work / "model", work / "train.spacy", work / "dev.spacy", overrides)
    tag_docs(nlp, work / "dev.spacy", target)
    return target


def parse_fold(
    config: Path,
    sources: tuple[Path, Path],
    names: list[str],
    work: Path,
    fold: int,
    folds: int,
    overrides: dict,
) -> Path:
    """Train on the other folds and parse this one. Return the file of parsed Docs.

    sources: the files of the Docs, and of the same Docs with the input tags of the parser.
    """
    target = work / "parsed.spacy"
    if target.exists():
        return target
    work.mkdir(parents=True, exist_ok=True)
    left_out = work / "documents.txt"
    left_out.write_text("".join(f"{name}\n" for name in names[fold::folds]), encoding="utf8")
    model = work / "model"
    if model.exists():
        nlp = spacy.load(model)
    else:
        nlp = fitting.train(config, model, overrides={**overrides, "paths.tune": str(left_out)})
    docs, tagged = (
        list(DocBin().from_disk(source).get_docs(nlp.vocab))[fold::folds] for source in sources
    )
    write_docs(parsed_docs(nlp, docs, tagged), target)
    return target


def parsed_docs(nlp: spacy.Language, docs: list[Doc], tagged: list[Doc] | None = None) -> list[Doc]:
    """Return copies of the Docs with predicted brackets and the vocab of `nlp`.

    tagged: the same Docs with the input tags of the parser; None: the tags of `docs`.
    """
    given = (to_example(doc, spans=[TAG_CANDIDATES]).predicted for doc in tagged or docs)
    return [with_brackets(*pair) for pair in zip(docs, nlp.pipe(given), strict=True)]


def with_brackets(doc: Doc, parsed: Doc) -> Doc:
    """Return a copy of `doc` with the trees of `parsed`, a Doc with the same tokens."""
    copy = doc.copy()
    copy.spans[CONSTITUENTS] = parsed.spans[CONSTITUENTS].copy(doc=copy)
    words = [token.i for token in parsed if not token.is_space]
    tags = zip(constituent_tags(parsed, words), words, strict=True)
    set_gold_spans(copy, CONSTITUENT_TAGS, ((tag, i, i + 1) for tag, i in tags))
    return copy


def trained(
    config: Path, output: Path, train: Path, dev: Path, overrides: dict | None = None
) -> spacy.Language:
    """Load the pipeline `output`, or train it if it does not exist."""
    if not output.exists():
        paths = {"paths.train": str(train), "paths.dev": str(dev)}
        fitting.train(config, output, overrides={**(overrides or {}), **paths})
    return spacy.load(output)


def tag_docs(nlp: spacy.Language, source: Path, target: Path) -> None:
    """Write the Docs of `source` to `target` with the tags predicted by `nlp`."""
    # Another vocab may lack the lexical attributes of the pipeline.
    gold = list(DocBin().from_disk(source).get_docs(nlp.vocab))
    write_docs([with_predicted_tags(nlp, doc) for doc in gold], target)


def with_predicted_tags(nlp: spacy.Language, gold: Doc) -> Doc:
    """Return a copy of `gold`, a Doc with the vocab of `nlp`, with predicted tags and, if the
    tagger sets them, their probabilities."""
    predicted = nlp(untagged(nlp, gold))
    copy = gold.copy()
    for token, tagged in zip(copy, predicted, strict=True):
        if not token.is_space:
            token.tag_ = tagged.tag_
    if TAG_CANDIDATES in predicted.spans:
        copy.spans[TAG_CANDIDATES] = predicted.spans[TAG_CANDIDATES].copy(doc=copy)
    return copy


def untagged(nlp: spacy.Language, gold: Doc) -> Doc:
    """Return a Doc with only the words and sentences of `gold`."""
    return with_norms(nlp, to_example(gold, tags=False).predicted)


def write_docs(docs: list[Doc], path: Path) -> None:
    """Write a DocBin atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, DocBin(docs=docs, store_user_data=False).to_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("config", type=Path, help="config of a tagger")
    parser.add_argument("source", type=Path, help="DocBin with gold annotation")
    parser.add_argument("target", type=Path, help="DocBin to write")
    parser.add_argument("--work", type=Path, default=Path("training/work/jackknife"))
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    args = parser.parse_args()
    jackknife(
        args.config,
        args.source,
        args.target,
        work=args.work,
        folds=args.folds,
        jobs=args.jobs,
    )


if __name__ == "__main__":
    main()
