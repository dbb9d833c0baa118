"""Small pipelines of every architecture, trained in seconds on short sentences of the sample.

Their accuracy is meaningless.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_structlearn.attachment.sites import sites
from spacy_structlearn.pipeline.readers import create_docbin_reader, read_treebank
from spacy_structlearn.trees.brackets import read_trees
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.words.classes import learn
from training.common.recording import ROOT

SAMPLE = ROOT / "corpora" / "sample"
ENDS = {"trees": "\n", "spaces": "\n", "props": "\n\n"}  # of a sentence in each file of the sample
SENTENCES, DEV = 12, 4
READ = ["constituents", "constituent_tags"]  # gold annotation in the input
TEXT = "The old man took a key from his pocket. He opened the door of the shed with it."
CLASSES = "classes.bin"  # in a setting: this file, in the folder of the corpus


def _model(name: str, **settings: Any) -> dict[str, Any]:
    return {"@architectures": f"spacy_structlearn.{name}.v1", **settings}


def _stages(*names: str) -> dict[str, Any]:
    templates = {"@misc": "spacy_structlearn.srl_templates.v1"}
    stages = {
        name: _model("LogLinear", max_iterations=5, templates={**templates, "stage": name})
        for name in names
    }
    return _model("Stages", order=list(names), stages=stages)


WORDS_ONLY = ["ORTH[0]", "LOWER[-1]", "LOWER[1]", "SUFFIX[0]", "bias"]
EM = {"rounds": 1, "split_iterations": 2, "merge_iterations": 1, "smooth_iterations": 1}
FOLDED = {"grammar": _model("LatentGrammar", **EM), "folds": 2}
ISBN = {"state_size": 4, "min_word_count": 1, "min_unknown": 1, "min_chain_count": 5}
ISBN |= {"max_iterations": 2, "beam": 2}
MODELS: dict[str, dict[str, dict[str, Any]]] = {
    "np_chunker": {
        "crf": _model("CRF", templates=WORDS_ONLY, max_iterations=4),
        "crf_pairs": _model("CRF", order=2, encoding="IOBES", max_iterations=3, classes=CLASSES),
        "crf_l1": _model("CRF", order=2, pair_features=False, l1=0.1, max_iterations=3),
        "memm": _model("MEMM", order=2, max_iterations=3),
        "pseudolikelihood": _model("PseudoLikelihood", order=2, max_iterations=3),
        "hmm": _model("HMM"),
        "m_estimation": _model("MEstimation", max_iterations=3),
    },
    "chain_tagger": {
        "stochastic_crf": _model(
            "StochasticCRF",
            encoding="none",
            templates=[*WORDS_ONLY, "SUFFIX2[0]", "FLAGS[0]"],
            max_iterations=2,
        ),
    },
    "constituency_parser": {
        "latent": _model("LatentGrammar", **EM),
        "product": _model("LatentGrammar", **EM, grammars=2),
        "conditional": _model("ConditionalGrammar", **EM, conditional_iterations=2, l1=0.1),
        "span": _model("SpanGrammar", **FOLDED, buckets=2**10, max_iterations=2, batch_size=8),
        "m_estimated": _model("MEstimatedGrammar", grammar=FOLDED["grammar"], max_iterations=3),
        "isbn": _model("ISBN", **ISBN),
        "isbn_mean_field": _model("ISBN", **ISBN, means="mean_field"),
    },
    "pp_attacher": {
        "bayes_net": _model("BayesNet", classes=CLASSES),
        "log_linear": _model("LogLinear", max_iterations=5, templates="pairs"),
    },
    "srl_labeler": {
        "stages": _stages("predicates", "senses", "identification", "roles"),
    },
}
COMPONENTS = {name: component for component, models in MODELS.items() for name in models}


def write_corpus(folder: Path) -> None:
    """Write train.spacy and dev.spacy, the shortest sentences of the sample with an attachment
    site, and word classes.
    """
    trees = [normalize(tree) for tree in read_trees(SAMPLE / "sample.trees")]
    order = sorted(range(len(trees)), key=lambda i: (not sites(trees[i]), len(trees[i].words())))
    chosen = order[: SENTENCES + DEV]
    for kind, end in ENDS.items():
        blocks = (SAMPLE / f"sample.{kind}").read_text(encoding="utf8").split(end)
        # A Doc of its own for each sentence.
        chosen_blocks = [
            re.sub(r"(?m)^sample/\S+ ", f"sample/{i} ", blocks[i]) + end for i in chosen
        ]
        (folder / f"short.{kind}").write_text("".join(chosen_blocks), encoding="utf8")
    files = {kind: folder / f"short.{kind}" for kind in ("spaces", "props")}
    docs = [doc for _, doc in read_treebank(Vocab(), folder / "short.trees", **files)]
    for name, part in (("train", docs[:SENTENCES]), ("dev", docs[SENTENCES:])):
        DocBin(docs=part).to_disk(folder / f"{name}.spacy")
    ids = np.concatenate([doc.to_array(["ORTH"]) for doc in docs]).reshape(-1, 1).astype(np.uint64)
    offsets = np.cumsum([0, *map(len, docs)])
    classes = learn(ids, offsets, n_classes=5, min_count=1)
    (folder / CLASSES).write_bytes(classes.to_bytes())


def write_config(name: str, folder: Path) -> Path:
    """Write the config of a small pipeline to the folder of `write_corpus`. Return its path."""
    component, nlp = COMPONENTS[name], spacy.blank("en")
    model = MODELS[component][name]
    if "classes" in model:
        model = {**model, "classes": str(folder / model["classes"])}
    nlp.add_pipe(component, config={"model": model})
    config = nlp.config
    reader = {"@readers": "spacy_structlearn.DocBin.v1", "spans": READ}
    for part in ("train", "dev"):
        config["corpora"][part] = {**reader, "path": str(folder / f"{part}.spacy")}
    config.to_disk(folder / f"{name}.cfg")
    return folder / f"{name}.cfg"


def input_docs(nlp: Language, path: str | Path) -> list[Doc]:
    """Return Docs with gold tags and brackets, as input of the components."""
    return [eg.predicted for eg in create_docbin_reader(Path(path), spans=READ)(nlp)]


def predictions(nlp: Language, docs: Iterable[Doc]) -> list[bytes]:
    """Return copies of the Docs with all predictions and probabilities, as bytes."""
    predicted = []
    for doc in docs:
        annotated = doc.copy()
        for _, component in nlp.pipeline:
            annotated = component(annotated)
        predicted.append(annotated.to_bytes(exclude=["strings"]))  # of which the order may differ
    return predicted
