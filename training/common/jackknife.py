"""k-fold cross-prediction (jackknifing) from files to files, in several processes.

The work is done by `spacy_structlearn.pipeline.training.cross_prediction`. In the result, tags or
brackets are replaced by predictions; all other annotation is kept.
"""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import spacy
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.util import load_config, load_model_from_config
from spacy.vocab import Vocab

from spacy_structlearn.groups import CONSTITUENT_TAGS, CONSTITUENTS, TAG_CANDIDATES
from spacy_structlearn.pipeline.extensions import constituent_tags, set_spans
from spacy_structlearn.pipeline.readers import to_example, with_norms
from spacy_structlearn.pipeline.training.cross_prediction import predict_fold
from spacy_structlearn.writing import write_bytes


def jackknife(
    config: Path,
    source: Path,
    target: Path,
    *,
    work: Path,
    tagged: Path | None = None,
    folds: int = 5,
    jobs: int = 1,
    overrides: dict | None = None,
) -> None:
    """Write the Docs of `source` to `target`, in order, with their tags or brackets predicted.

    config: of a tagger, such as `training/configs/chain_tagger.cfg`, or with `tagged` of a parser.
    work: a directory for the folds; existing folds are kept, so that an interrupted run resumes.
    tagged: a file of the same Docs with the input tags of the parser. jobs: number of processes.
    """
    docs = list(DocBin().from_disk(source).get_docs(Vocab()))
    folds = min(folds, len(docs))
    paths = [work / f"fold-{fold}-of-{folds}.spacy" for fold in range(folds)]
    tasks = [
        (config, source, tagged, path, fold, folds, overrides) for fold, path in enumerate(paths)
    ]
    if jobs == 1:
        for task in tasks:
            annotate_fold(*task)
    else:
        # spawn, because a forked child inherits the threads of BLAS in an undefined state.
        with multiprocessing.get_context("spawn").Pool(jobs) as pool:
            pool.starmap(annotate_fold, tasks, chunksize=1)
    for fold, path in enumerate(paths):
        docs[fold::folds] = DocBin().from_disk(path).get_docs(Vocab())
    write_docs(docs, target)


def annotate_fold(
    config: Path,
    source: Path,
    tagged: Path | None,
    target: Path,
    fold: int,
    folds: int,
    overrides: dict | None,
) -> None:
    """Train on the other folds and write the Docs of this one, if `target` does not exist."""
    if target.exists():
        return
    loaded = load_config(config, overrides or {})
    loaded.pop("corpora")  # whose paths are not given
    nlp = load_model_from_config(loaded, auto_fill=True)
    gold = list(DocBin().from_disk(source).get_docs(nlp.vocab))
    if tagged is None:
        combine, given = with_tags, [untagged(nlp, doc) for doc in gold]
    else:
        docs = DocBin().from_disk(tagged).get_docs(nlp.vocab)
        combine = with_brackets
        given = [to_example(doc, spans=[TAG_CANDIDATES]).predicted for doc in docs]
    examples = list(map(Example, given, gold))
    predicted = predict_fold(nlp, nlp.pipe_names[-1], examples, fold, folds)
    write_docs(list(map(combine, gold[fold::folds], predicted)), target)


def with_brackets(doc: Doc, parsed: Doc) -> Doc:
    """Return a copy of `doc` with the trees of `parsed`, a Doc with the same tokens."""
    copy = doc.copy()
    copy.spans[CONSTITUENTS] = parsed.spans[CONSTITUENTS].copy(doc=copy)
    words = [token.i for token in parsed if not token.is_space]
    tags = zip(constituent_tags(parsed, words), words, strict=True)
    set_spans(copy, CONSTITUENT_TAGS, ((tag, i, i + 1) for tag, i in tags))
    return copy


def with_tags(doc: Doc, tagged: Doc) -> Doc:
    """Return a copy of `doc` with the tags and, if there are any, the tag candidates of `tagged`.

    tagged: a Doc with the same tokens.
    """
    copy = doc.copy()
    for token, predicted in zip(copy, tagged, strict=True):
        if not token.is_space:
            token.tag_ = predicted.tag_
    if TAG_CANDIDATES in tagged.spans:
        copy.spans[TAG_CANDIDATES] = tagged.spans[TAG_CANDIDATES].copy(doc=copy)
    return copy


def tag_docs(nlp: spacy.Language, source: Path, target: Path) -> None:
    """Write the Docs of `source` to `target` with the tags predicted by `nlp`."""
    # Another vocab may lack the lexical attributes of the pipeline.
    gold = list(DocBin().from_disk(source).get_docs(nlp.vocab))
    write_docs([with_tags(doc, nlp(untagged(nlp, doc))) for doc in gold], target)


def untagged(nlp: spacy.Language, gold: Doc) -> Doc:
    """Return a Doc with only the words and sentences of `gold`, a Doc with the vocab of `nlp`."""
    return with_norms(nlp, to_example(gold, tags=False).predicted)


def write_docs(docs: list[Doc], path: Path) -> None:
    """Write a DocBin atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, DocBin(docs=docs, store_user_data=False).to_bytes())
