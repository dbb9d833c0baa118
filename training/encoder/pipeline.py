"""Make a pipeline with an encoder: md of a student, lg of the teacher.

    python -m training.train_default
    python -m training.encoder.pipeline training/work/student.pt training/work/md --name md

The components are those of en_structlearn_sm, each pooled with the head of the encoder for its
labels (`spacy_structlearn.encoder.scorer`). The weights of both and the calibrations are fitted on
EWT's tuning documents, with components that have not seen these, and written next to the network,
to NETWORK.fitted.json. With --fitted, they are those of an earlier run.

Those in training/configs/md.json are values of the encoder with 6 layers, which were fitted so.
Since no component has seen dev of MCTB_en, they were multiplied by the ratio of what is fitted
there with the new and with the old encoder. Of roles, which MCTB_en has none of, the weights of the
encoder are such that its probabilities have the entropy of before on the tuning documents.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import spacy
import srsly
from spacy.language import Language
from spacy.training import Example
from spacy.util import load_model_from_config

from spacy_structlearn.encoder.scorer import Potentials, SiteScorer
from spacy_structlearn.encoder.session import Encoder
from spacy_structlearn.pipeline.storage.word_classes import share_classes, word_classes
from spacy_structlearn.pipeline.training import fitting
from training.common.command import options
from training.common.ewt import build_docs, read_docs
from training.common.jackknife import untagged
from training.common.sources import PACKAGED
from training.encoder.export import exported, scorers
from training.encoder.network import load
from training.pipeline import card, dependencies
from training.pipeline.default import (
    CONFIGS,
    META,
    SMALLEST_ROLE_WEIGHTS,
    SOURCES,
    held_out,
    learn_rare_kinds,
)
from training.pipeline.rare_kinds import ENCODER

SPLITTER, PARSER = "sentence_splitter", "constituency_parser"
# The tags of a tagger with an encoder are worth more to the grammar: on dev of MCTB_en, 95.1 % of
# the tags are right, and 95.0 % with the 4 of the default pipeline, with the same F1.
TAG_WEIGHT = 7.0
# Smaller parameters of the models that are pooled with heads are removed, and not of those alone.
COMPACT: dict[str, tuple[Any, ...]] = {
    PARSER: (1e-5, "float16"),
    "srl_labeler": ("float16", {**SMALLEST_ROLE_WEIGHTS, "roles": 0.08}),
}
SHARED = ("estimator", "potentials")  # attributes of models that are not copied
KINDS = {
    "md": "MiniLM (4 of 6 layers, 384 wide), taught by the encoder of en_structlearn_lg",
    "lg": "MPNet (12 layers, 768 wide)",
}
ENCODERS = srsly.read_json(CONFIGS / "encoders.json")


def with_encoder(base: Language, encoder: Encoder, heads: dict[str, SiteScorer]) -> Language:
    """Return a pipeline with an encoder behind the splitter, whose components read its vectors."""
    config = base.config.copy()
    names = list(base.pipe_names)
    names.insert(names.index(SPLITTER) + 1 if SPLITTER in names else 0, ENCODER)
    config["nlp"]["pipeline"] = names
    config["components"][ENCODER] = {"factory": ENCODER}
    for name, component in base.pipeline:
        config["components"][name]["encoder"] = bool(getattr(component, "heads", None))
    config["components"][PARSER]["tag_weight"] = TAG_WEIGHT
    nlp = load_model_from_config(config, auto_fill=True)
    share_classes(nlp.vocab, word_classes(base.vocab))
    nlp.get_pipe(ENCODER).parameters = encoder
    for name, component in base.pipeline:
        new = nlp.get_pipe(name)
        new.cfg = dict(component.cfg)
        for part in fields(component.settings_kind):  # those that were set after loading, too
            if (name, part.name) != (PARSER, "tag_weight") and part.name != "encoder":
                setattr(new, part.name, getattr(component, part.name))
        for key, value in component.model.attrs.items():
            if key not in SHARED:
                new.model.attrs[key] = value
        if name in COMPACT:
            new.parameters = new.parameters.compact(*COMPACT[name])
        if new.encoder:
            new.potentials = Potentials({head: heads[head] for head in new.heads if head in heads})
        for label in getattr(new, "labels", ()):
            nlp.vocab.strings.add(label)
    return nlp


def calibrate(nlp: Language, path: Path) -> None:
    """Fit the weights of the heads and the calibrations of all components, one after another.

    path: Docs with gold layers, which no component has seen.
    """
    examples = [Example(untagged(nlp, doc), doc) for doc in read_docs(path, nlp.vocab)]
    for name, component in nlp.pipeline:
        if name == SPLITTER:
            continue
        if is_fitted(component):
            component.calibrate(examples)
        for example in examples:
            example.predicted = component(example.predicted)


def is_fitted(component: Any) -> bool:
    """Whether a component has heads or a calibration."""
    return bool(getattr(component, "heads", None)) or "calibration" in getattr(component, "cfg", ())


def fitted(nlp: Language) -> dict[str, Any]:
    """Return what `calibrate` has fitted: of each component, the weights of the pools by head, the
    temperature and the calibration."""
    return {
        name: {
            "weights": {head: own.weights for head, own in component.potentials.scorers.items()},
            "temperature": getattr(component.parameters, "temperature", None),
            "calibration": component.cfg.get("calibration"),
        }
        for name, component in nlp.pipeline
        if is_fitted(component)
    }


def apply(nlp: Language, values: dict[str, Any]) -> None:
    """Give components, whose parameters may be others, the values of `fitted`."""
    for name, own in values.items():
        component = nlp.get_pipe(name)
        for head, weights in own["weights"].items():
            component.potentials[head].weights = tuple(weights)
        if own["temperature"] is not None:
            component.parameters.temperature = own["temperature"]
        if own["calibration"] is not None:
            component.cfg["calibration"] = own["calibration"]


def main() -> None:
    parser = options(__doc__, "corpora", "work", "jobs")
    parser.add_argument("network", type=Path, help="file of `encoder.tune`")
    parser.add_argument("output", type=Path, help="folder of the pipeline")
    parser.add_argument("--name", choices=KINDS, default="md")
    parser.add_argument("--fitted", type=Path, help="JSON of an earlier run, to fit nothing")
    args = parser.parse_args()
    network, labels, pieces = load(args.network)
    encoder, heads = exported(network, pieces), scorers(network, labels)
    docs = build_docs(args.corpora, args.work)
    parsed = args.work / "ewt" / "train.parsed.spacy"
    trees = dependencies.training_files(args.corpora, args.work, parsed)
    if args.fitted is None:
        held = with_encoder(held_out(args.corpora, args.work, args.jobs), encoder, heads)
        if dependencies.ARCS not in heads:  # the network is from before they were learned
            dependencies.learn_arcs(held, trees["fit"])
        calibrate(held, docs["tune"])
        values = fitted(held)
        srsly.write_json(args.network.with_suffix(".fitted.json"), values)
    else:
        values = srsly.read_json(args.fitted)
    packaged = spacy.load(PACKAGED)
    nlp = with_encoder(packaged, encoder, heads)
    if dependencies.ARCS not in heads:
        dependencies.learn_arcs(nlp, trees["train"])
    apply(nlp, values)
    nlp.meta.update(
        {
            **META,
            "name": f"structlearn_{args.name}",
            "requirements": ["onnxruntime>=1.20"],
            "description": f"{packaged.meta['description']} With the encoder {KINDS[args.name]}.",
            "sources": [*SOURCES, *ENCODERS["sources"]],
        }
    )
    licences = (PACKAGED / "LICENSES_SOURCES").read_text(encoding="utf8") + ENCODERS["text"]
    learn_rare_kinds(nlp, args.corpora, args.work, ())  # the heads
    fitting.save(nlp, args.output, extra={"LICENSES_SOURCES": licences})
    print(srsly.json_dumps(card.write_card(args.output, read_docs(docs["dev"])), indent=2))


if __name__ == "__main__":
    main()
