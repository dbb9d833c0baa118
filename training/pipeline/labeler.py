"""Train the labeler of semantic roles on the propositions of a fetched treebank.

    python corpora/fetch.py ewt
    python -m training.pipeline.labeler training/work/my_labeler

It is learned from the documents of EWT's train that `ewt/tune.txt` does not name, in their gold
trees and again in predicted ones: k-fold jackknife, so that a parser's errors are known to it; with
--trees gold or jackknifed from one of the two alone. The documents for tuning, in predicted trees,
tell how good it is, and their outcomes calibrate its probabilities; with --all it is then trained
on all of train. Any value of the config is set by an option of its name:
--components.srl_labeler.bias 0.5
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from spacy.cli._util import parse_config_overrides
from spacy.language import Language
from spacy.tokens import DocBin
from spacy.vocab import Vocab

from spacy_structlearn.pipeline import fitting
from spacy_structlearn.pipeline.readers import create_docbin_reader
from training.common.ewt import build_docs, document_names, read_docs, treebank, tuning_documents
from training.common.jackknife import jackknife_parses, write_docs
from training.common.recording import CORPORA, ROOT, WORK
from training.pipeline.parser import BEHIND_TAGGER
from training.pipeline.tagger import jackknifed as jackknifed_tags

CONFIG = ROOT / "training" / "configs" / "srl_labeler.cfg"
PARSER_CONFIG = ROOT / "training" / "configs" / "grammar.cfg"
COMPONENT = "srl_labeler"
TREES = ("gold", "jackknifed", "both")
SPANS = ["constituents", "constituent_tags"]
SCORES = [
    f"srl_{name}"
    for name in ("p", "r", "f", "id_p", "id_r", "id_f", "label_acc", "predicate_f", "sense_acc")
]


def train_srl_labeler(
    files: dict[str, Path],
    output: Path | None = None,
    *,
    use_all: bool = False,
    overrides: dict[str, Any] | None = None,
) -> tuple[Language, dict[str, float]]:
    """Train it. Returns the calibrated pipeline, and its scores on the tuning documents.

    files: DocBins with gold frames: `fit`, which is learned from, `tune`, whose trees are
    predicted, and `train`, fit and the tuning documents. use_all: learn from train, once scores and
    calibration are known. overrides: of the config.
    """
    overrides = {"paths.train": str(files["fit"]), "paths.dev": str(files["tune"])} | (
        overrides or {}
    )
    nlp = fitting.train(CONFIG, output, overrides=overrides)
    tuning = {name: nlp.meta["performance"].get(name) for name in SCORES}
    labeler = nlp.get_pipe(COMPONENT)
    calibration = labeler.calibrate(create_docbin_reader(files["tune"], spans=SPANS)(nlp))
    if use_all:
        overrides |= {"paths.train": str(files["train"])}
        nlp = fitting.train(CONFIG, output, overrides=overrides)
        nlp.get_pipe(COMPONENT).calibration = calibration
    if output is not None:
        fitting.save(nlp, output)
    return nlp, tuning


def jackknifed(corpora: Path, work: Path, jobs: int) -> dict[str, Path]:
    """DocBins `fit`, `tune` and `train` whose trees are predicted, by grammars that have not seen
    them and are given the tags of taggers that have not seen them either.

    One grammar a fold, not the product of several.
    """
    paths = {name: work / "ewt" / f"{name}.parsed.spacy" for name in ("train", "fit", "tune")}
    if all(path.exists() for path in paths.values()):
        return paths
    names = document_names(corpora)
    component = "components.constituency_parser"
    overrides = {f"{component}.{name}": value for name, value in BEHIND_TAGGER.items()}
    overrides |= {f"{component}.model.grammars": 1}
    overrides |= {f"paths.{kind}": str(path) for kind, path in treebank(corpora, "train").items()}
    jackknife_parses(
        PARSER_CONFIG,
        build_docs(corpora, work)["train"],
        names,
        paths["train"],
        tagged=jackknifed_tags(corpora, work, jobs),
        work=work / "jackknife-parses",
        jobs=jobs,
        overrides=overrides,
    )
    tuning = tuning_documents(corpora)
    named = list(zip(names, read_docs(paths["train"]), strict=True))
    write_docs([doc for name, doc in named if name not in tuning], paths["fit"])
    write_docs([doc for name, doc in named if name in tuning], paths["tune"])
    return paths


def joined(first: dict[str, Path], second: dict[str, Path], work: Path) -> dict[str, Path]:
    """DocBins of the Docs of both."""
    paths = {name: work / "ewt" / f"{name}.both.spacy" for name in ("fit", "train")}
    for name, path in paths.items():
        if not path.exists():
            both = [DocBin().from_disk(files[name]) for files in (first, second)]
            write_docs([doc for part in both for doc in part.get_docs(Vocab())], path)
    return paths


def training_files(trees: str, corpora: Path, work: Path, jobs: int) -> dict[str, Path]:
    """The DocBins that `train_srl_labeler` takes; see TREES."""
    docs, predicted = build_docs(corpora, work), jackknifed(corpora, work, jobs)
    files = {name: docs[name] for name in ("fit", "train")}
    if trees != "gold":
        files = predicted if trees == "jackknifed" else joined(files, predicted, work)
    return {**files, "tune": predicted["tune"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=Path, help="where to save the pipeline")
    parser.add_argument("--corpora", type=Path, default=CORPORA, help="default: %(default)s")
    parser.add_argument("--trees", choices=TREES, default="both", help="default: %(default)s")
    parser.add_argument("--all", action="store_true", help="train on the tuning documents too")
    parser.add_argument("--jobs", type=int, default=1, help="processes or threads")
    args, others = parser.parse_known_args()
    nlp, tuning = train_srl_labeler(
        training_files(args.trees, args.corpora, WORK, args.jobs),
        args.output,
        use_all=args.all,
        overrides=parse_config_overrides(others),
    )
    print(nlp.get_pipe(COMPONENT).parameters.describe())
    for name, value in tuning.items():
        print(f"tuning {name:20} {'-' if value is None else f'{value:.4f}'}")


if __name__ == "__main__":
    main()
