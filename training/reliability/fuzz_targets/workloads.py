"""Small pipelines of every architecture, as the corpus of the fuzzer.

They are trained on a few sentences of the sample treebank. The targets of the fuzzer start from the
pipelines, their checkpoints, and their calls of kernels.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import registry

from spacy_structlearn.pipeline.extensions.matcher import ConstituentMatcher
from spacy_structlearn.pipeline.readers import create_treebank_reader
from spacy_structlearn.words.classes import learn

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = ROOT / "corpora" / "sample"
SENTENCES = 16
TEXT = "The old man took a key from his pocket. He opened the door of the shed with it."
WORDS_ONLY = ["ORTH[0]", "LOWER[-1]", "LOWER[1]", "SUFFIX[0]", "bias"]
LATENT = {
    "@architectures": "spacy_structlearn.LatentGrammar.v1",
    "rounds": 1,
    "split_iterations": 2,
    "merge_iterations": 1,
    "smooth_iterations": 1,
}
FOLDED = {"grammar": LATENT, "folds": 2}
EMBED = {
    "@architectures": "spacy.MultiHashEmbed.v2",
    "width": 8,
    "include_static_vectors": False,
    "attrs": ["NORM", "SUFFIX"],
    "rows": [50, 20],
}
ISBN = {"state_size": 4, "min_word_count": 1, "min_unknown": 1, "min_chain_count": 5}
ISBN |= {"max_iterations": 2, "beam": 2, "branching": 2}
LOG_LINEAR = {"@architectures": "spacy_structlearn.LogLinear.v1", "max_iterations": 5}
STAGES = ("predicates", "senses", "identification", "roles")
CLASSES = "<word classes>"  # placeholder in a config for the path of a file
CLASSES_FILE = "classes.bin"


def _chain(name: str, **settings: Any) -> tuple[str, dict[str, Any]]:
    model = {"@architectures": f"spacy_structlearn.{name}.v1", **settings}
    return "np_chunker", {"model": model}


def _parser(name: str, **settings: Any) -> tuple[str, dict[str, Any]]:
    model = {"@architectures": f"spacy_structlearn.{name}.v1", **settings}
    return "constituency_parser", {"model": model}


def _stage(name: str) -> dict[str, Any]:
    return {
        **LOG_LINEAR,
        "templates": {"@misc": "spacy_structlearn.srl_templates.v1", "stage": name},
    }


CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "crf": _chain("CRF", templates=WORDS_ONLY, max_iterations=4),
    "crf_pairs": _chain("CRF", order=2, encoding="IOBES", max_iterations=3, classes=CLASSES),
    "crf_l1": _chain("CRF", order=2, pair_features=False, l1=0.1, max_iterations=3),
    "memm": _chain("MEMM", order=2, max_iterations=3),
    "pseudolikelihood": _chain("PseudoLikelihood", order=2, max_iterations=3),
    "joint": _chain(
        "PseudoLikelihood", templates=["ORTH[0]", "TAG[0]"], joint=True, max_iterations=3
    ),
    "hmm": _chain("HMM"),
    "m_estimation": _chain("MEstimation", max_iterations=3),
    "m_estimation_empirical": _chain("MEstimation", base="empirical", max_iterations=3),
    "tagger": (
        "chain_tagger",
        _chain("CRF", encoding="none", templates=WORDS_ONLY, max_iterations=3)[1],
    ),
    "stochastic_crf": (
        "chain_tagger",
        _chain(
            "StochasticCRF",
            encoding="none",
            templates=[*WORDS_ONLY, "SUFFIX2[0]", "FLAGS[0]"],
            max_iterations=2,
        )[1],
    ),
    "latent": _parser("LatentGrammar", **{k: v for k, v in LATENT.items() if k[0] != "@"}),
    "product": _parser(
        "LatentGrammar", **{k: v for k, v in LATENT.items() if k[0] != "@"}, grammars=2
    ),
    "conditional": _parser(
        "ConditionalGrammar",
        rounds=1,
        split_iterations=2,
        merge_iterations=1,
        smooth_iterations=1,
        conditional_iterations=2,
        l1=0.1,
    ),
    "span": _parser("SpanGrammar", **FOLDED, buckets=2**10, max_iterations=2, batch_size=8),
    "m_estimated": _parser(
        "MEstimatedGrammar", grammar=LATENT, max_iterations=3, folds=2, conditional_iterations=2
    ),
    "isbn": _parser("ISBN", **ISBN),
    "isbn_mean_field": _parser("ISBN", **ISBN, means="mean_field"),
    "bayes_net": (
        "pp_attacher",
        {"model": {"@architectures": "spacy_structlearn.BayesNet.v1", "classes": CLASSES}},
    ),
    "log_linear": (
        "pp_attacher",
        {
            "model": {
                **LOG_LINEAR,
                "templates": "pairs",
                "base": {"@architectures": "spacy_structlearn.BayesNet.v1"},
            }
        },
    ),
    "stages": (
        "srl_labeler",
        {
            "model": {
                "@architectures": "spacy_structlearn.Stages.v1",
                "order": list(STAGES),
                "stages": {stage: _stage(stage) for stage in STAGES},
            }
        },
    ),
}


class Trained(NamedTuple):
    """A pipeline whose last component is ours. sentences: the number it was trained on. before: its
    parameters before training. states: output of `to_bytes` of the trainer.
    """

    nlp: Language
    sentences: int
    before: bytes
    states: list[bytes]

    @property
    def component(self) -> Any:
        return self.nlp.get_pipe(self.nlp.pipe_names[-1])


def examples(nlp: Language, number: int = SENTENCES) -> list[Example]:
    """Return the shortest of the first sentences, one per Doc, with all layers and gold trees."""
    files = {"spaces": SAMPLE / "sample.spaces", "props": SAMPLE / "sample.props"}
    reader = create_treebank_reader(SAMPLE / "sample.trees", **files, tags=False)
    found = []
    for example in reader(nlp):
        for sentence in example.reference.sents:
            reference = sentence.as_doc(copy_user_data=False)
            predicted = Doc(
                nlp.vocab,
                words=[token.text for token in sentence],
                tags=[token.tag_ for token in sentence],
                sent_starts=[token.i == sentence.start for token in sentence],
            )
            for key, group in example.reference.spans.items():
                own = [span for span in group if sentence.start <= span.start < sentence.end]
                reference.spans[key] = [_moved(reference, span, sentence.start) for span in own]
                if key == "constituents":
                    predicted.spans[key] = [_moved(predicted, span, sentence.start) for span in own]
            found.append(Example(predicted, reference))
    # First sentences with frames and sites, then the shortest.
    found.sort(key=lambda eg: (not len(eg.reference.spans["pp_attachments"]), len(eg.reference)))
    return found[:number]


def _moved(doc: Doc, span: Any, first: int) -> Any:
    return doc.char_span(
        doc[span.start - first].idx,
        doc[span.end - first - 1].idx + len(doc[span.end - first - 1]),
        label=span.label_,
        kb_id=span.kb_id_,
    )


def word_classes(nlp: Language) -> bytes:
    """Train a few word classes on the sample."""
    docs = [example.reference for example in examples(nlp)]
    ids = np.concatenate([doc.to_array(["ORTH"]).reshape(-1, 1) for doc in docs]).astype(np.uint64)
    offsets = np.cumsum([0, *(len(doc) for doc in docs)]).astype(np.int64)
    return learn(ids, offsets, n_classes=5, min_count=1).to_bytes()


def train(name: str, work: Path, number: int = SENTENCES) -> Trained:
    """Train the pipeline of this name."""
    factory, config = CONFIGS[name]
    nlp = spacy.blank("en")
    config = _with_classes(config, nlp, work)
    nlp.add_pipe("sentencizer")
    nlp.add_pipe(factory, config=config)
    data = examples(nlp, number)
    component = nlp.get_pipe(factory)
    component.initialize(lambda: data)
    before = component.parameters.to_bytes()
    states: list[bytes] = []

    def keep(*_: Any) -> None:
        states.append(component._training.trainer.to_bytes())

    component.fit(data, on_iteration=keep)
    # Keep one state of each size, as an approximation of one of each kind.
    kinds = {len(state) // 1000: state for state in states}
    return Trained(nlp, number, before, list(kinds.values())[-8:])


def _with_classes(config: Any, nlp: Language, work: Path) -> Any:
    if isinstance(config, dict):
        return {key: _with_classes(value, nlp, work) for key, value in config.items()}
    if config == CLASSES:
        path = work / CLASSES_FILE
        if not path.exists():
            path.write_bytes(word_classes(nlp))
        return str(path)
    return config


def predictions(trained: Trained) -> Iterator[Doc]:
    """Yield predictions for several kinds of Docs, after calling all methods of the component."""
    nlp, component = trained.nlp, trained.component
    docs = [example.predicted.copy() for example in examples(nlp, 4)]
    yield from nlp.pipe(docs)
    if nlp.pipe_names[-1] in ("constituency_parser",):
        yield nlp(TEXT)
        component.k_best(docs[0], 3)
        matcher = ConstituentMatcher(nlp.vocab)
        matcher.add("with", ["NP < (PP=pp < IN)", "VP << NP"])
        matcher.count(docs)
    if hasattr(component, "n_best"):
        component.n_best(docs[0], 3)


def save(trained: Trained, path: Path) -> None:
    path.write_bytes(pickle.dumps(trained))


def load(path: Path) -> Trained:
    """Load a pipeline written by `save`."""
    # The builders register storage of parameters with thinc, but pickle does not call them.
    for name in ("ISBN", "MEstimatedGrammar"):
        registry.architectures.get(f"spacy_structlearn.{name}.v1")()
    return pickle.loads(path.read_bytes())


def names(only: Iterable[str] | None = None) -> list[str]:
    return [name for name in CONFIGS if only is None or name in set(only)]
