"""Small pipelines of every architecture, trained in seconds on the sample treebank.

Each is a config of the package with smaller settings. Their accuracy is meaningless.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from confection import Config
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.util import load_config_from_str
from spacy.vocab import Vocab

from spacy_structlearn.cli._configs import config_text
from spacy_structlearn.groups import CONSTITUENTS
from spacy_structlearn.pipeline.readers import create_docbin_reader, read_treebank

SAMPLE = Path(__file__).resolve().parents[2] / "corpora" / "sample"
DOCUMENTS = 6  # training documents of the sample; one more for the dev part
GRAMMAR = {
    "@architectures": "spacy_structlearn.LatentGrammar.v1",
    "rounds": 1,
    "split_iterations": 3,
    "merge_iterations": 2,
    "smooth_iterations": 2,
}


@dataclass(frozen=True)
class Small:
    """The name of a config of the package, and changes or a replacement of its model."""

    config: str
    model: dict[str, Any] = field(default_factory=dict)
    replace: bool = False

    @property
    def component(self) -> str:
        """The name of the only trained component."""
        return self.config.split(".")[0]


def _chunker(architecture: str, **model: Any) -> Small:
    named = {"@architectures": f"spacy_structlearn.{architecture}.v1", **model}
    return Small("np_chunker", named, replace=True)


def _attacher(architecture: str, **model: Any) -> Small:
    named = {"@architectures": f"spacy_structlearn.{architecture}.v1", **model}
    return Small("pp_attacher", named, replace=True)


SMALL = {
    "crf": _chunker("CRF", max_iterations=20),
    "memm": _chunker("MEMM", max_iterations=10),
    "pseudolikelihood": _chunker("PseudoLikelihood", max_iterations=10),
    "hmm": _chunker("HMM"),
    "m_estimation": _chunker("MEstimation", max_iterations=10),
    "split_merge": Small("constituency_parser", {**GRAMMAR, "rounds": 2}),
    "product": Small("constituency_parser", {**GRAMMAR, "grammars": 2}),
    "conditional": Small(
        "constituency_parser.ConditionalGrammar",
        {
            **GRAMMAR,
            "@architectures": "spacy_structlearn.ConditionalGrammar.v1",
            "conditional_iterations": 4,
        },
    ),
    "span": Small(
        "constituency_parser.SpanGrammar",
        {"grammar": GRAMMAR, "buckets": 2**12, "folds": 2, "max_iterations": 2},
    ),
    "m_estimated": Small(
        "constituency_parser.MEstimatedGrammar",
        {"max_iterations": 10, "folds": 2, "conditional_iterations": 4},
    ),
    "isbn": Small("constituency_parser.ISBN", {"state_size": 6, "max_iterations": 2, "beam": 3}),
    "bayes_net": _attacher("BayesNet", structure="search"),
    "log_linear": _attacher("LogLinear", templates="search", max_templates=2),
    "roles": Small("srl_labeler"),
}


def write_corpus(folder: Path) -> dict[str, str]:
    """Write a part of the sample as DocBins. Return their paths as overrides of a config."""
    files = {"spaces": SAMPLE / "sample.spaces", "props": SAMPLE / "sample.props"}
    docs = [doc for _, doc in read_treebank(Vocab(), SAMPLE / "sample.trees", **files)]
    parts = {"train": docs[:DOCUMENTS], "dev": docs[DOCUMENTS : DOCUMENTS + 1]}
    for name, part in parts.items():
        DocBin(docs=part).to_disk(folder / f"{name}.spacy")
    return {f"paths.{name}": str(folder / f"{name}.spacy") for name in parts}


def config_of(small: Small) -> Config:
    """Return the config of a small pipeline."""
    architecture = small.config.partition(".")[2] or None
    config = load_config_from_str(config_text(small.component, architecture=architecture))
    component = config["components"][small.component]
    component["model"] = small.model if small.replace else _merged(component["model"], small.model)
    return config


def write_config(name: str, path: Path) -> Path:
    """Write the config of one of SMALL. Return the path."""
    config_of(SMALL[name]).to_disk(path)
    return path


def dev_docs(nlp: Language, overrides: dict[str, str]) -> list[Doc]:
    """Return Docs with gold tags and brackets as input of the components of SMALL."""
    reader = create_docbin_reader(Path(overrides["paths.dev"]), spans=[CONSTITUENTS])
    return [example.predicted for example in reader(nlp)]


def predictions(nlp: Language, docs: Iterable[Doc]) -> list[Any]:
    """Return all predictions with probabilities, as plain data for comparisons."""
    found = []
    for doc in docs:
        copy = doc.copy()
        for _, component in nlp.pipeline:
            copy = component(copy)
        found.append([copy.to_array(["TAG", "SENT_START"]).tolist(), _groups(copy)])
    return found


def _groups(doc: Doc) -> dict[str, Any]:
    return {
        key: (
            [(span.label_, span.start, span.end, span.kb_id_) for span in group],
            np.asarray(group.attrs.get("scores", ())).tolist(),
        )
        for key, group in doc.spans.items()
    }


def _merged(settings: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return settings with changes, merging common sections."""
    merged = dict(settings)
    for name, value in changes.items():
        held = merged.get(name)
        merged[name] = _merged(held, value) if isinstance(held, dict) and value else value
    return merged
