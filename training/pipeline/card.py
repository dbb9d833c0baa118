"""The model card of a pipeline: figures in its meta.json.

performance  scores on raw text, named as in spaCy; and the expected calibration error of each
             layer with probabilities, `*_ece`
size         MB (1,000,000 bytes) of the folder and number of weights of each component
speed        words and punctuation per CPU second, of the pipeline and of each component alone,
             which reads the annotation of earlier components; and the processor. Only the speed
             differs between runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial, singledispatch
from pathlib import Path
from time import process_time
from typing import Any, TypeVar

import numpy as np
import spacy
import srsly
from spacy.language import Language
from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example

from spacy_structlearn.classification import BayesNet, LogLinear
from spacy_structlearn.classification.stages import Stages
from spacy_structlearn.encoder.session import Encoder
from spacy_structlearn.evaluation.calibration import expected_calibration_error
from spacy_structlearn.evaluation.prf import character_spans
from spacy_structlearn.grammar.latent.model import LatentGrammar
from spacy_structlearn.grammar.spans.model import SpanGrammar
from spacy_structlearn.groups import CONSTITUENTS, NP_CHUNKS
from spacy_structlearn.isbn.model import ISBN
from spacy_structlearn.pipeline.extensions import Frame, group_scores
from spacy_structlearn.sequence.chain.model import ChainModel
from spacy_structlearn.writing import write_bytes
from training.common.recording import machine

L = TypeVar("L")
NOTES = (
    "The scores are those on raw text of the development part of the English Web Treebank, from "
    "which nothing was learned; ECE is the expected calibration error of the probabilities."
)
WARM_UP = 20  # documents
# The scores of each component, without those of single labels.
SCORES = (
    *("tag_acc", "sents_f", "sents_p", "sents_r", "np_chunk_f", "np_chunk_p", "np_chunk_r"),
    *("constituents_f", "constituents_p", "constituents_r"),
    *(f"pp_attachment_{name}" for name in ("acc", "p", "r", "f")),
    *(f"srl_{name}" for name in ("p", "r", "f", "id_f", "label_acc", "sense_acc")),
    *("srl_verbs_f", "srl_others_f"),
)


def write_card(folder: Path, gold: Sequence[Doc]) -> dict[str, Any]:
    """Evaluate the pipeline in `folder` on raw text, write the card to its meta.json and return it.

    gold: the Docs for evaluation. No other file is written, because the vocab of the pipeline now
    contains words of these texts.
    """
    nlp = spacy.load(folder)
    performance, speed = evaluate(nlp, gold)
    card = {
        "notes": NOTES,
        "performance": performance,
        "size": sizes(nlp, folder),
        "speed": {"words_per_cpu_s": speed, "cpu": machine()["cpu"]},
    }
    meta = srsly.read_json(folder / "meta.json")
    # The card is last, because it differs between runs.
    meta = {key: value for key, value in meta.items() if key not in card} | card
    write_bytes(folder / "meta.json", srsly.json_dumps(meta, indent=2).encode())
    return card


def evaluate(nlp: Language, gold: Sequence[Doc]) -> tuple[dict[str, float], dict[str, int]]:
    """Return scores and calibration errors of the enabled components, and their speed.

    Tags are scored on tokens that agree with the treebank, other layers by characters.
    """
    docs, speed = annotated(nlp, [doc.text for doc in gold])
    examples = [Example(*pair) for pair in zip(docs, gold, strict=True)]
    scores = Scorer(nlp=nlp).score(examples)
    found = {name: float(scores[name]) for name in SCORES if scores.get(name) is not None}
    return found | calibration_errors(examples), speed


# --- speed ----------------------------------------------------------------------------------------
def annotated(nlp: Language, texts: Sequence[str]) -> tuple[list[Doc], dict[str, int]]:
    """Return the Docs of these texts, and the words per CPU second of "all" and each component."""
    # Warm up, because caches are filled only once.
    list(nlp.pipe(texts[:WARM_UP]))
    seconds = {}
    start = process_time()
    docs = [nlp.make_doc(text) for text in texts]
    total = process_time() - start
    for name, component in nlp.pipeline:
        start = process_time()
        docs = list(component.pipe(docs, batch_size=nlp.batch_size))
        seconds[name] = process_time() - start
    words = sum(map(len, docs))
    seconds = {"all": total + sum(seconds.values()), **seconds}
    # With a coarse clock, a small component may take no time.
    return docs, {name: round(words / max(value, 1e-9)) for name, value in seconds.items()}


# --- size -----------------------------------------------------------------------------------------
def sizes(nlp: Language, folder: Path) -> dict[str, dict[str, float]]:
    """Return the MB of the folder and the number of weights of each component."""
    return {
        name: {
            "mb": round(1e-6 * sum(p.stat().st_size for p in (folder / name).iterdir()), 3),
            "weights": weights_of(component),
        }
        for name, component in nlp.pipeline
    }


def weights_of(component: Any) -> int:
    """Count the nonzero weights, probabilities and counts of a component."""
    nodes = component.model.walk()
    layers = sum(n.get_param(p).size for n in nodes for p in n.param_names if n.has_param(p))
    return int(
        layers + (n_weights(component.parameters) if hasattr(component, "parameters") else 0)
    )


@singledispatch
def n_weights(model: Any) -> int:
    """Count the weights of one model; 0 if there is none."""
    if model is not None:
        raise TypeError(f"no family has a {type(model).__name__}")
    return 0


@n_weights.register
def _(encoder: Encoder) -> int:
    return sum(int(array.size) for array in encoder.weights.values())


@n_weights.register
def _(model: ChainModel) -> int:
    # Transitions forbidden by the encoding are infinite, not trained.
    free = np.isfinite(model.transitions) & (model.transitions != 0)
    return int(np.count_nonzero(model.weights) + np.count_nonzero(free))


@n_weights.register
def _(grammar: LatentGrammar) -> int:
    lexicon = grammar.lexicon
    arrays = [lexicon.pair_weights, lexicon.backoff_weights, lexicon.backoff.weights]
    arrays += [array for level in lexicon.levels for array in level]
    own = sum(int(np.count_nonzero(array)) for array in arrays)
    # Productions of the cascade, and of the last level of each further member of a product.
    return own + sum(level.n_productions for level in grammar.levels)


@n_weights.register
def _(span_grammar: SpanGrammar) -> int:
    scored = (span_grammar.features, getattr(span_grammar, "fragments", None))
    own = sum(weights.n_weights for weights in scored if weights is not None)
    return n_weights(span_grammar.grammar) + own


@n_weights.register
def _(network: ISBN) -> int:
    # The logarithms of the signature probabilities can be zero, but the probabilities cannot.
    return int(np.count_nonzero(network.weights)) + network.signature_log_probs.size


@n_weights.register
def _(model: LogLinear) -> int:
    arrays = (model.weights, model.bias, model.coefficients)
    return sum(int(np.count_nonzero(array)) for array in arrays) + n_weights(model.base)


@n_weights.register
def _(net: BayesNet) -> int:
    return net.n_keys + sum(d.size for d in net.d.values())


@n_weights.register
def _(model: Stages) -> int:
    return sum(n_weights(model[stage]) for stage in model)


# --- calibration ----------------------------------------------------------------------------------
def calibration_errors(examples: Iterable[Example]) -> dict[str, float]:
    """Return the expected calibration error of each layer with probabilities and gold annotation.

    Annotation is compared by characters, as in the scores.
    """
    outcomes: dict[str, list[tuple[float, bool]]] = {name: [] for name in LAYERS}
    for example in examples:
        for name, judged in LAYERS.items():
            outcomes[name] += (pair for pair in judged(example) if pair[0] is not None)
    return {
        f"{name}_ece": float(expected_calibration_error(*zip(*pairs, strict=True)))
        for name, pairs in outcomes.items()
        if pairs
    }


# The probability of each prediction, if any, and whether it is right.
Judged = Iterator[tuple[float | None, bool]]


def _spans(example: Example, key: str) -> Judged:
    """Judge spans of a group: right if the gold Doc has the span with this label as often."""
    gold, doc = example.reference, example.predicted
    if key not in gold.spans or key not in doc.spans:
        return
    left = Counter(_placed(gold, [(s.label_, s.start, s.end) for s in gold.spans[key]]))
    group = doc.spans[key]
    scores = group_scores(group)
    probs = [None] * len(group) if scores is None else scores.tolist()
    spans = [((s.label_, prob), s.start, s.end) for s, prob in zip(group, probs, strict=True)]
    for (label, prob), start, end in _placed(doc, spans):
        yield prob, left[label, start, end] > 0
        left[label, start, end] -= 1


def _attachments(example: Example) -> Judged:
    """Judge attachments of prepositions that have a site in the gold Doc too."""
    gold, found = (
        _placed(doc, [(site, site.prep.i, site.prep.i + 1) for site in doc._.pp_attachments])
        for doc in (example.reference, example.predicted)
    )
    labels = {(start, end): site.label for site, start, end in gold}
    for site, start, end in found:
        if (start, end) in labels:
            yield site.prob, labels[start, end] == site.label


def _arguments(example: Example) -> Judged:
    """Judge arguments: right if the gold Doc has this span with this role of this predicate.

    As in the score, gold predicates that are not verbs are skipped.
    """
    gold, others = set(), set()
    for frame, start, _ in _predicates(example.reference):
        spans = [(a.label, a.span.start, a.span.end) for a in frame.arguments]
        gold.update((start, *placed) for placed in _placed(example.reference, spans))
        if not frame.predicate[0].tag_.startswith("V"):
            others.add(start)
    for frame, start, _ in _predicates(example.predicted):
        if start in others:
            continue
        spans = [((a.label, a.prob), a.span.start, a.span.end) for a in frame.arguments]
        for (label, prob), *place in _placed(example.predicted, spans):
            yield prob, (start, label, *place) in gold


def _predicates(doc: Doc) -> list[tuple[Frame, int, int]]:
    return _placed(doc, [(f, f.predicate.start, f.predicate.end) for f in doc._.frames])


def _placed(doc: Doc, spans: list[tuple[L, int, int]]) -> list[tuple[L, int, int]]:
    """Convert spans of tokens to spans of characters."""
    return character_spans([token.text for token in doc], spans)


LAYERS = {
    "np_chunk": partial(_spans, key=NP_CHUNKS),
    "constituents": partial(_spans, key=CONSTITUENTS),
    "pp_attachment": _attachments,
    "srl": _arguments,
}
