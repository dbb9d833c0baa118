"""Train a constituency parser on fetched treebanks, and calibrate its probabilities.

    python corpora/fetch.py ewt mctb
    python -m training.pipeline.parser training/work/my_parser --threads 2

The grammar is trained on the training parts of EWT and of the five domains of MCTB_en, without the
tuning documents of `ewt/tune.txt`, and its temperature is fitted on these. With --all, a second
grammar is then trained on the tuning documents too, and gets the same temperature. An interrupted
run resumes. The saved scores are on dev of EWT, with gold tokens and sentences.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.training import Example

from spacy_structlearn.pipeline.readers import create_treebank_reader
from spacy_structlearn.pipeline.training import fitting
from spacy_structlearn.writing import write_bytes
from training.common.command import options
from training.common.ewt import treebank, tuning_documents
from training.common.recording import ROOT
from training.common.treebanks import MCTB_DOMAINS, ewt_documents

CONFIG = ROOT / "training" / "configs" / "parser.cfg"
COMPONENT = "constituency_parser"
# Settings after a tagger; the weight is tuned on the tuning documents.
BEHIND_TAGGER = {"tags": "prior", "tag_weight": 4.0}
HELD_OUT = "parser.without_tune"  # in the cache of stages
SETTINGS = {
    "rounds": "rounds of splitting and merging",
    "grammars": "number of grammars in the product",
    "seed": "the first of their seeds",
    "threads": "threads of training",
}


def train_parser(
    corpora: Path,
    output: Path,
    *,
    use_all: bool,
    held_out: Path | None = None,
    tagger: Language | None = None,
    **settings: Any,
) -> Language:
    """Train on EWT and MCTB_en with these settings of the architecture. Return the calibrated
    pipeline.

    use_all: train again on all documents after calibration. held_out: where to keep the pipeline
    trained without the tuning documents; later components are tuned on its trees. tagger: trained
    without these documents too; calibrates the probabilities for parsing behind a tagger.
    """
    paths = treebank(corpora, "train") | {"tune": corpora / "ewt" / "tune.txt"}
    paths["train"] = write_trees(corpora, output.with_name(output.name + ".trees.gz"), "fit")
    overrides = {f"paths.{name}": str(path) for name, path in paths.items()}
    model = f"components.{COMPONENT}.model"
    places = {key: "." if key == "threads" else ".grammar." for key in settings}
    overrides |= {f"{model}{places[key]}{key}": value for key, value in settings.items()}
    nlp = fitting.train(CONFIG, output, overrides=overrides, best=False)
    tune = create_treebank_reader(
        paths["trees"], paths["spaces"], paths["props"], include=paths["tune"]
    )
    temperature = calibrate(nlp.get_pipe(COMPONENT), tune(tagger or nlp), tagger)
    print(
        f"temperature {temperature:.3f}, tuning F1 {nlp.meta['performance']['constituents_f']:.4f}"
    )
    if held_out is not None:
        fitting.save(nlp, held_out)
    if use_all:
        write_trees(corpora, paths["train"], "train")
        nlp = fitting.train(CONFIG, output, overrides=overrides, best=False)
        nlp.get_pipe(COMPONENT).parameters.temperature = temperature
    return nlp


def calibrate(component: Any, examples: Iterable[Example], tagger: Language | None) -> float:
    """Fit the temperature, with the tags that the tagger predicts if there is one. Return it."""
    examples, settings = list(examples), {}
    if tagger is not None:
        for example in examples:
            tagger(example.predicted)
        settings = BEHIND_TAGGER
    before = {name: getattr(component, name) for name in settings}
    try:
        for name, value in settings.items():
            setattr(component, name, value)
        return component.calibrate(examples)
    finally:
        for name, value in before.items():
            setattr(component, name, value)


def write_trees(corpora: Path, target: Path, split: str) -> Path:
    """Write the training trees of EWT and MCTB_en to one file, a line a tree.

    split: "train", or "fit" for those without the tuning documents of EWT.
    """
    unwanted = tuning_documents(corpora) if split == "fit" else set()

    def lines() -> Iterator[str]:
        with gzip.open(corpora / "ewt" / "train.trees.gz", "rt", encoding="utf8") as trees:
            pairs = zip(trees, ewt_documents(corpora, "train"), strict=True)
            yield from (tree for tree, name in pairs if name not in unwanted)
        for domain in MCTB_DOMAINS:
            path = corpora / "mctb" / f"{domain}.train.trees.gz"
            with gzip.open(path, "rt", encoding="utf8") as trees:
                yield from trees

    write_bytes(target, gzip.compress("".join(lines()).encode(), mtime=0))
    return target


def held_out_parser(corpora: Path, work: Path, threads: int) -> Language:
    """Return the parser of the default pipeline, trained without the tuning documents."""
    target = work / HELD_OUT
    if not target.exists():
        nlp = train_parser(corpora, work / "parser.fit", use_all=False, threads=threads)
        fitting.save(nlp, target)
    return spacy.load(target)


def evaluate(nlp: Language, corpora: Path) -> dict[str, float]:
    """Return scores on dev, with gold tokens and sentences."""
    files = treebank(corpora, "dev")
    reader = create_treebank_reader(files["trees"], files["spaces"], files["props"], tags=False)
    scores = nlp.evaluate(list(reader(nlp)))
    names = ("p", "r", "f", "exact", "tag_acc")
    return {f"constituents_{name}": scores[f"constituents_{name}"] for name in names}


def main() -> None:
    parser = options(__doc__, "corpora")
    parser.add_argument("output", type=Path, help="where to save the pipeline")
    for name, text in SETTINGS.items():
        parser.add_argument(f"--{name}", type=int, help=f"{text}; default: see the config")
    parser.add_argument("--all", action="store_true", help="train on the tuning documents too")
    parser.add_argument("--threshold", type=float, default=0.0, help="smallest probability kept")
    parser.add_argument("--storage", default="float32", help="float32 or float16")
    args = parser.parse_args()
    settings = {name: getattr(args, name) for name in SETTINGS}
    settings = {name: value for name, value in settings.items() if value is not None}
    nlp = train_parser(args.corpora, args.output, use_all=args.all, **settings)
    component = nlp.get_pipe(COMPONENT)
    component.parameters = component.parameters.compact(args.threshold, args.storage)
    nlp.meta["performance"] = evaluate(nlp, args.corpora)
    fitting.save(nlp, args.output)
    for name, value in nlp.meta["performance"].items():
        print(f"{name:24} {value:.4f}")


if __name__ == "__main__":
    main()
