"""k-fold jackknife: predicted annotation for the training data itself.

A component reads what the components before it predict, and those predict their own training data
far better than anything else. So the data is cut into k folds by document, and each fold is
annotated by a pipeline that was trained on the other k - 1. The result is the input with its tags
replaced, or (`jackknife_parses`) its brackets; all other annotation stays.

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

    config: of a tagger, as `training/configs/chain_tagger.cfg`. work: a directory for the folds;
    those that are there already are kept, so that an interrupted run resumes. jobs: processes.
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

    config: of a parser, as `training/configs/parser.cfg`, with the treebank that `source` was read
    from: its `paths.tune` is a file with the names of the documents that are left out of training.
    names: those of the Docs. tagged: a file of the same Docs with the tags that the parser gets;
    None: those of `source`. The rest: as in `jackknife`.
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
    # spawn: a forked child would inherit the threads of BLAS in an undefined state.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        return pool.starmap(annotate, tasks, chunksize=1)


def interleave(folds: list[Path], n: int, target: Path) -> None:
    """Write the n Docs of all folds in their old order: Doc i is of fold i modulo their number."""
    parts = [iter(DocBin().from_disk(path).get_docs(Vocab())) for path in folds]
    write_docs([next(parts[i % len(parts)]) for i in range(n)], target)


def annotate_fold(
    config: Path, source: Path, work: Path, fold: int, folds: int, overrides: dict
) -> Path:
    """Train on the other folds, tag this one. Returns the file with its tagged Docs."""
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
    """Train on the other folds, parse this one. Returns the file with its parsed Docs.

    sources: of the Docs, and of those with the tags that the parser is given.
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
    """Copies of the Docs, of the vocab of `nlp`, with predicted brackets; all else is kept.

    tagged: the same Docs with the tags that the parser is given; None: their own.
    """
    given = (to_example(doc, spans=[TAG_CANDIDATES]).predicted for doc in tagged or docs)
    return [with_brackets(*pair) for pair in zip(docs, nlp.pipe(given), strict=True)]


def with_brackets(doc: Doc, parsed: Doc) -> Doc:
    """A copy of `doc` with the trees of `parsed`, a Doc of the same tokens."""
    copy = doc.copy()
    copy.spans[CONSTITUENTS] = parsed.spans[CONSTITUENTS].copy(doc=copy)
    words = [token.i for token in parsed if not token.is_space]
    tags = zip(constituent_tags(parsed, words), words, strict=True)
    set_gold_spans(copy, CONSTITUENT_TAGS, ((tag, i, i + 1) for tag, i in tags))
    return copy


def trained(
    config: Path, output: Path, train: Path, dev: Path, overrides: dict | None = None
) -> spacy.Language:
    """The pipeline of a config, trained unless `output` is there already."""
    if not output.exists():
        paths = {"paths.train": str(train), "paths.dev": str(dev)}
        fitting.train(config, output, overrides={**(overrides or {}), **paths})
    return spacy.load(output)


def tag_docs(nlp: spacy.Language, source: Path, target: Path) -> None:
    """Write the Docs of `source` to `target` with the tags that `nlp` gives to their tokens."""
    # Docs of the pipeline's own vocab: another one may not know the features of its words.
    gold = list(DocBin().from_disk(source).get_docs(nlp.vocab))
    write_docs([with_predicted_tags(nlp, doc) for doc in gold], target)


def with_predicted_tags(nlp: spacy.Language, gold: Doc) -> Doc:
    """A copy of `gold`, a Doc of the vocab of `nlp`, with predicted tags and, where the tagger has
    such, their probabilities; all else is kept."""
    predicted = nlp(untagged(nlp, gold))
    copy = gold.copy()
    for token, tagged in zip(copy, predicted, strict=True):
        if not token.is_space:
            token.tag_ = tagged.tag_
    if TAG_CANDIDATES in predicted.spans:
        copy.spans[TAG_CANDIDATES] = predicted.spans[TAG_CANDIDATES].copy(doc=copy)
    return copy


def untagged(nlp: spacy.Language, gold: Doc) -> Doc:
    """The words and sentences of `gold`, as a Doc that the tokenizer of `nlp` might have made."""
    return with_norms(nlp, to_example(gold, tags=False).predicted)


def write_docs(docs: list[Doc], path: Path) -> None:
    """Write a DocBin at once, so that no file is left half written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, DocBin(docs=docs, store_user_data=False).to_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("config", type=Path, help="config of a pipeline that tags")
    parser.add_argument("source", type=Path, help="DocBin with gold annotation")
    parser.add_argument("target", type=Path, help="DocBin to write")
    parser.add_argument("--work", type=Path, default=Path("training/work/jackknife"))
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
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
