"""Train the PP attacher on the gold trees of fetched treebanks.

    python corpora/fetch.py ewt craft
    python -m training.pipeline.attacher training/work/my_attacher

The classifier is trained on CRAFT and EWT's train without the tuning documents of `ewt/tune.txt`.
It is scored on the tuning documents, at the sites of their gold trees. With --all, it is then
trained on all of train. Options override values of the config: --components.pp_attacher.model.l2 3
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from spacy.cli._util import parse_config_overrides
from spacy.language import Language
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_structlearn.pipeline import fitting
from spacy_structlearn.pipeline.extensions import PP_ATTACHMENTS
from spacy_structlearn.pipeline.readers import read_treebank
from training.common.ewt import read_documents, tuning_documents
from training.common.jackknife import write_docs
from training.common.recording import CORPORA, ROOT

CONFIG = ROOT / "training" / "configs" / "pp_attacher.cfg"
COMPONENT = "pp_attacher"
# Other treebanks that improve the accuracy on EWT, and whose licences allow shipping.
FURTHER = ("craft",)
SCORES = [f"pp_attachment_{name}" for name in ("acc", "p", "r", "f")]


def build_sites(corpora: Path, work: Path, further: tuple[str, ...] = FURTHER) -> dict[str, Path]:
    """Write DocBins with gold sites: `fit`, `tune` and their union, `train`.

    fit contains the documents of EWT's train that are not for tuning, and the further treebanks.
    """
    folder = work / "_".join(("pp", "ewt", *further))
    paths = {name: folder / f"{name}.spacy" for name in ("fit", "tune", "train")}
    if all(path.exists() for path in paths.values()):
        return paths
    tuning = tuning_documents(corpora)
    docs: dict[str, list[Doc]] = {"fit": [], "tune": []}
    for name, doc in read_documents(corpora, "train"):
        docs["tune" if name in tuning else "fit"].append(doc)
    for treebank in further:
        trees = read_treebank(Vocab(), corpora / treebank / "train.trees.gz")
        docs["fit"] += [doc for _, doc in trees if len(doc.spans[PP_ATTACHMENTS])]
    write_docs(docs["fit"], paths["fit"])
    write_docs(docs["tune"], paths["tune"])
    write_docs(docs["fit"] + docs["tune"], paths["train"])
    return paths


def train_pp_attacher(
    corpora: Path,
    work: Path,
    output: Path | None = None,
    *,
    use_all: bool = False,
    further: tuple[str, ...] = FURTHER,
    overrides: dict[str, Any] | None = None,
) -> tuple[Language, dict[str, float]]:
    """Train a PP attacher. Return the pipeline and its scores on the tuning documents.

    use_all: train again on all documents after scoring. overrides: of the config.
    """
    paths = build_sites(corpora, work, further)
    overrides = {"paths.train": str(paths["fit"]), "paths.dev": str(paths["tune"])} | (
        overrides or {}
    )
    nlp = fitting.train(CONFIG, output, overrides=overrides)
    tuning = {name: nlp.meta["performance"][name] for name in SCORES}
    if use_all:
        nlp = fitting.train(
            CONFIG, output, overrides=overrides | {"paths.train": str(paths["train"])}
        )
    return nlp, tuning


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=Path, help="where to save the pipeline")
    parser.add_argument("--corpora", type=Path, default=CORPORA, help="default: %(default)s")
    parser.add_argument("--all", action="store_true", help="train on the tuning documents too")
    args, others = parser.parse_known_args()
    nlp, tuning = train_pp_attacher(
        args.corpora,
        ROOT / "training" / "work",
        args.output,
        use_all=args.all,
        overrides=parse_config_overrides(others),
    )
    print(nlp.get_pipe(COMPONENT).parameters.describe())
    for name, value in tuning.items():
        print(f"tuning {name:20} {value:.4f}")


if __name__ == "__main__":
    main()
