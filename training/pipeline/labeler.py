"""Train the role labeler on the propositions of a fetched treebank.

    python corpora/fetch.py ewt
    python -m training.pipeline.labeler training/work/my_labeler

The labeler is trained on EWT's train without the tuning documents of `ewt/tune.txt`. It reads their
gold trees and, to learn the errors of a parser, jackknifed trees; --trees selects one of these. It
is scored on predicted and on gold trees of the tuning documents, and calibrated on the predicted
ones. With --all, it is then trained on all of train. Options override values of the config:
--components.srl_labeler.bias 0.5
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from spacy.cli._util import parse_config_overrides
from spacy.language import Language
from spacy.scorer import Scorer
from spacy.tokens import DocBin
from spacy.training import Example
from spacy.vocab import Vocab

from spacy_structlearn.pipeline.extensions import frames
from spacy_structlearn.pipeline.readers import create_docbin_reader
from spacy_structlearn.pipeline.training import fitting
from training.common.command import options
from training.common.ewt import build_docs, split_tuning
from training.common.jackknife import jackknife, write_docs
from training.common.recording import ROOT
from training.pipeline.classes import learn_classes
from training.pipeline.parser import BEHIND_TAGGER
from training.pipeline.self_training import with_text
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
SCORES += ["srl_verbs_f", "srl_others_f"]
WORDS = 200_000  # of labelled text that the labeler learns beside the treebank
TMP_LOC = ("ARGM-TMP", "ARGM-LOC")


def train_srl_labeler(
    files: dict[str, Path],
    output: Path | None = None,
    *,
    use_all: bool = False,
    held_out: Path | None = None,
    overrides: dict[str, Any] | None = None,
) -> tuple[Language, dict[str, float]]:
    """Train a labeler. Return the calibrated pipeline and its scores on the tuning documents.

    files: DocBins with gold frames: `fit` for training, `tune` with predicted trees, `tune_gold`
    with gold trees, and `train`, the union of fit and the tuning documents; and `classes`, a file
    of word classes. use_all: train again on `train` after scoring and calibration. held_out: where
    to keep the pipeline trained on `fit`. overrides: of the config.
    """
    paths = {"train": files["fit"], "dev": files["tune"], "classes": files["classes"]}
    overrides = {f"paths.{name}": str(path) for name, path in paths.items()} | (overrides or {})
    nlp = fitting.train(CONFIG, output, overrides=overrides, best=False)
    tuning = figures(nlp, files["tune"])
    tuning |= {f"gold_trees.{name}": v for name, v in figures(nlp, files["tune_gold"]).items()}
    labeler = nlp.get_pipe(COMPONENT)
    calibration = labeler.calibrate(create_docbin_reader(files["tune"], spans=SPANS)(nlp))
    if held_out is not None:
        fitting.save(nlp, held_out)
    if use_all:
        overrides |= {"paths.train": str(files["train"])}
        nlp = fitting.train(CONFIG, output, overrides=overrides, best=False)
        nlp.get_pipe(COMPONENT).calibration = calibration
    if output is not None:
        fitting.save(nlp, output)
    return nlp, tuning


def figures(nlp: Language, path: Path) -> dict[str, float | None]:
    """Return the scores of a pipeline of a labeler, and `tmp_loc_acc`, on the trees of a DocBin."""
    examples = list(create_docbin_reader(path, spans=SPANS)(nlp))
    for example in examples:
        example.predicted = nlp(example.predicted)
    scores = Scorer(nlp=nlp).score(examples)
    figures = {name: scores.get(name) for name in SCORES}
    return figures | {"srl_tmp_loc_acc": label_accuracy(examples, TMP_LOC)}


def label_accuracy(examples: Iterable[Example], labels: Collection[str]) -> float | None:
    """Return the accuracy of these labels where the gold and the predicted label are among them.

    The arguments are those of the same predicate over the same words, which must be those of the
    reference. Returns None without such arguments.
    """
    right = []
    for example in examples:
        found = {
            (frame.predicate.start, argument.span.start, argument.span.end): argument.label
            for frame in frames(example.predicted)
            for argument in frame.arguments
        }
        for frame in frames(example.reference):
            for argument in frame.arguments:
                place = frame.predicate.start, argument.span.start, argument.span.end
                if argument.label in labels and found.get(place) in labels:
                    right.append(found[place] == argument.label)
    return sum(right) / len(right) if right else None


def jackknifed(corpora: Path, work: Path, jobs: int, prior: Path | None = None) -> dict[str, Path]:
    """Write DocBins `fit`, `tune` and `train` with predicted trees and tags.

    The grammars and taggers have not seen the documents. A fold is parsed by a single grammar, not
    by a product. prior: a grammar that those of the folds learn on from, like the parser.
    """
    paths = {name: work / "ewt" / f"{name}.parsed.spacy" for name in ("train", "fit", "tune")}
    if all(path.exists() for path in paths.values()):
        return paths
    component = "components.constituency_parser"
    overrides = {f"{component}.{name}": value for name, value in BEHIND_TAGGER.items()}
    overrides |= {f"{component}.model.grammars": 1}
    if prior is not None:
        overrides |= {f"{component}.model.prior": str(prior)}
    jackknife(
        PARSER_CONFIG,
        build_docs(corpora, work)["train"],
        paths["train"],
        tagged=jackknifed_tags(corpora, work, jobs),
        work=work / "jackknife-parses",
        jobs=jobs,
        overrides=overrides,
    )
    split_tuning(corpora, paths["train"], paths["fit"], paths["tune"])
    return paths


def joined(first: dict[str, Path], second: dict[str, Path], work: Path) -> dict[str, Path]:
    """Write DocBins with the Docs of both."""
    paths = {name: work / "ewt" / f"{name}.both.spacy" for name in ("fit", "train")}
    for name, path in paths.items():
        if not path.exists():
            both = [DocBin().from_disk(files[name]) for files in (first, second)]
            write_docs([doc for part in both for doc in part.get_docs(Vocab())], path)
    return paths


def training_files(
    trees: str, corpora: Path, work: Path, jobs: int, prior: Path | None = None
) -> dict[str, Path]:
    """Return the files for `train_srl_labeler`; see TREES, and `jackknifed` for `prior`."""
    docs, predicted = build_docs(corpora, work), jackknifed(corpora, work, jobs, prior)
    files = {name: docs[name] for name in ("fit", "train")}
    if trees != "gold":
        files = predicted if trees == "jackknifed" else joined(files, predicted, work)
    files = {name: with_text(path, work, WORDS) for name, path in files.items()}
    classes = learn_classes(corpora, work)
    return {**files, "tune": predicted["tune"], "tune_gold": docs["tune"], "classes": classes}


def main() -> None:
    parser = options(__doc__, "corpora", "work", "jobs")
    parser.add_argument("output", type=Path, help="where to save the pipeline")
    parser.add_argument("--trees", choices=TREES, default="both", help="default: %(default)s")
    parser.add_argument("--all", action="store_true", help="train on the tuning documents too")
    parser.add_argument("--prior", type=Path, help="a grammar, see self_training.py")
    args, others = parser.parse_known_args()
    nlp, tuning = train_srl_labeler(
        training_files(args.trees, args.corpora, args.work, args.jobs, args.prior),
        args.output,
        use_all=args.all,
        overrides=parse_config_overrides(others),
    )
    print(nlp.get_pipe(COMPONENT).parameters.describe())
    for name, value in tuning.items():
        print(f"tuning {name:30} {'-' if value is None else f'{value:.4f}'}")


if __name__ == "__main__":
    main()
