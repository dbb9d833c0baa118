"""The card of a pipeline: what its meta.json says of it next to its sources and its licence.

performance  scores on raw text, as spaCy's commands show them; and for each layer with
             probabilities its expected calibration error, `*_ece`
size         for each component the MB (1,000,000 bytes) of its folder, and the number of weights
speed        words and punctuation per CPU second, of all and of each component alone on Docs that
             those before it have annotated; and the processor. All else is the same in every run.
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
from spacy_structlearn.evaluation.calibration import expected_calibration_error
from spacy_structlearn.evaluation.prf import character_spans
from spacy_structlearn.grammar.latent.model import LatentGrammar
from spacy_structlearn.grammar.spans.model import SpanGrammar
from spacy_structlearn.isbn.model import ISBN
from spacy_structlearn.learning.training import write_bytes
from spacy_structlearn.pipeline.extensions import CONSTITUENTS, NP_CHUNKS, Frame, group_scores
from spacy_structlearn.sequence.model import ChainModel
from training.common.recording import machine

L = TypeVar("L")
NOTES = (
    "The scores are those on raw text of the development part of the English Web Treebank, from "
    "which nothing was learned; ECE is the expected calibration error of the probabilities."
)
WARM_UP = 20  # documents
# What is shown of each component; scores of single labels are left out.
SCORES = (
    *("tag_acc", "sents_f", "sents_p", "sents_r", "np_chunk_f", "np_chunk_p", "np_chunk_r"),
    *("constituents_f", "constituents_p", "constituents_r"),
    *(f"pp_attachment_{name}" for name in ("acc", "p", "r", "f")),
    *(f"srl_{name}" for name in ("p", "r", "f", "id_f", "label_acc", "sense_acc")),
)


def write_card(folder: Path, gold: Sequence[Doc]) -> dict[str, Any]:
    """Evaluate the pipeline in `folder` on raw text, and put its card into its meta.json.

    gold: the Docs it is scored on. No other file is written: words of these texts, which the vocab
    of a pipeline keeps, stay out of what is on disk. Returns the card.
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
    # Last what differs from run to run.
    meta = {key: value for key, value in meta.items() if key not in card} | card
    write_bytes(folder / "meta.json", srsly.json_dumps(meta, indent=2).encode())
    return card


def evaluate(nlp: Language, gold: Sequence[Doc]) -> tuple[dict[str, float], dict[str, int]]:
    """Scores and calibration errors of the components that are enabled; and their speed.

    Tags are scored where the tokens agree with the treebank's, the rest by characters.
    """
    docs, speed = annotated(nlp, [doc.text for doc in gold])
    examples = [Example(*pair) for pair in zip(docs, gold, strict=True)]
    scores = Scorer(nlp=nlp).score(examples)
    found = {name: float(scores[name]) for name in SCORES if scores.get(name) is not None}
    return found | calibration_errors(examples), speed


# --- speed ----------------------------------------------------------------------------------------
def annotated(nlp: Language, texts: Sequence[str]) -> tuple[list[Doc], dict[str, int]]:
    """The Docs of these texts, and the words per CPU second of "all" and of each component."""
    # What a component does once, such as filling a cache, is none of its speed.
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
    # A clock with a coarse tick may find that a small one took no time at all.
    return docs, {name: round(words / max(value, 1e-9)) for name, value in seconds.items()}


# --- size -----------------------------------------------------------------------------------------
def sizes(nlp: Language, folder: Path) -> dict[str, dict[str, float]]:
    """For each component the MB of its folder, and its weights."""
    return {
        name: {
            "mb": round(1e-6 * sum(p.stat().st_size for p in (folder / name).iterdir()), 3),
            "weights": weights_of(component),
        }
        for name, component in nlp.pipeline
    }


def weights_of(component: Any) -> int:
    """The weights, probabilities and counts other than zero that a component has learned."""
    nodes = component.model.walk()
    layers = sum(n.get_param(p).size for n in nodes for p in n.param_names if n.has_param(p))
    return layers + (n_weights(component.parameters) if hasattr(component, "parameters") else 0)


@singledispatch
def n_weights(model: Any) -> int:
    """The same of one model of a family; 0 for None, a model that is not there."""
    if model is not None:
        raise TypeError(f"no family has a {type(model).__name__}")
    return 0


@n_weights.register
def _(model: ChainModel) -> int:
    # Transitions that an encoding forbids are infinite: nothing was learned there.
    free = np.isfinite(model.transitions) & (model.transitions != 0)
    return int(np.count_nonzero(model.weights) + np.count_nonzero(free))


@n_weights.register
def _(grammar: LatentGrammar) -> int:
    lexicon = grammar.lexicon
    arrays = [lexicon.pair_weights, lexicon.backoff_weights, lexicon.backoff.weights]
    arrays += [array for level in lexicon.levels for array in level]
    own = sum(int(np.count_nonzero(array)) for array in arrays)
    # Those of the cascade, and the last of each further member of a product.
    return own + sum(level.n_productions for level in grammar.levels)


@n_weights.register
def _(span_grammar: SpanGrammar) -> int:
    scored = (span_grammar.features, getattr(span_grammar, "fragments", None))
    own = sum(weights.n_weights for weights in scored if weights is not None)
    return n_weights(span_grammar.grammar) + own


@n_weights.register
def _(network: ISBN) -> int:
    # Probabilities of signatures are kept as logarithms: none is zero.
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
    """The expected calibration error of each layer that has probabilities and gold annotation.

    All is compared by characters, as in the scores.
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


# Of everything predicted the probability, None where there is none, and whether it is right.
Judged = Iterator[tuple[float | None, bool]]


def _spans(example: Example, key: str) -> Judged:
    """A span of a group is right if the gold Doc has it with the same label; of equal ones as many
    are right as it has.
    """
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
    """Of prepositions that have a site in the gold Doc too."""
    gold, found = (
        _placed(doc, [(site, site.prep.i, site.prep.i + 1) for site in doc._.pp_attachments])
        for doc in (example.reference, example.predicted)
    )
    labels = {(start, end): site.label for site, start, end in gold}
    for site, start, end in found:
        if (start, end) in labels:
            yield site.prob, labels[start, end] == site.label


def _arguments(example: Example) -> Judged:
    """An argument is right if the gold Doc has exactly this span in this role of this predicate.

    As in the score, words do not count that are gold predicates and no verbs.
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
    """Spans of tokens as spans of characters."""
    return character_spans([token.text for token in doc], spans)


LAYERS = {
    "np_chunk": partial(_spans, key=NP_CHUNKS),
    "constituents": partial(_spans, key=CONSTITUENTS),
    "pp_attachment": _attachments,
    "srl": _arguments,
}
