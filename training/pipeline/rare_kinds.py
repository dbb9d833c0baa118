"""Let a tagger and a parser learn on from templates, the last stage of their training.

Each learns on from its weights (`Estimator.adapter`). The parser learns from templates alone: trees
of the treebanks would count twice, and those of one of them more than before (F1 on dev of MCTB_en
fell by .8 with 1,000 trees of EWT). The weights of the tagger are all that it knows, so it reads
the treebank again, too. So do the heads of an encoder, and MCTB_en: without, F1 on dev of MCTB_en
fell by .8. A chunker that learned on in the same way found more of the lists, but lost .4 of F1 on
dev of EWT.

What learned on is less sure of its brackets, and as often right. Its temperature is changed such
that brackets of training sentences have the mean probability of before: the expected calibration
error of en_structlearn_md on dev of EWT was .008 before, .018 after, and is .007 so.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from spacy.language import Language
from spacy.training import Example

from spacy_structlearn.encoder.scorer import Potentials
from spacy_structlearn.encoder.training import ScorerTraining
from spacy_structlearn.groups import CONSTITUENTS
from spacy_structlearn.pipeline.readers import (
    read_treebank,
    to_example,
    with_gold_tokens,
    with_norms,
)
from spacy_structlearn.pipeline.training.cross_prediction import annotated
from spacy_structlearn.pipeline.training.gold_sites import site_examples
from spacy_structlearn.trees.parse import calibrate
from training.common.ewt import build_docs, read_docs
from training.common.jackknife import untagged
from training.pipeline.parser import write_trees
from training.pipeline.templates import write_templates

TEMPLATES = 300  # of each kind that are written
ENCODER, PARSER = "token_encoder", "constituency_parser"
TREES, PASSES = 2000, 4  # of the treebanks, for the heads of an encoder
SURE = 60  # documents whose brackets keep their mean probability


class Lesson(NamedTuple):
    """What a component learns on from: numbers of templates and of documents of the treebank, and
    the strength of the prior on its weights."""

    templates: int
    documents: int
    strength: float


LESSONS = {
    "chain_tagger": Lesson(1500, 300, 4.0),
    PARSER: Lesson(2500, 0, 8.0),
}


def learn_on(
    nlp: Language, corpora: Path, work: Path, models: Iterable[str] = tuple(LESSONS)
) -> None:
    """Let components of a pipeline learn on; `models` are those of the components that do.

    Models are stored as float32 afterwards, heads as before.
    """
    path = work / "templates.trees.gz"
    if not path.exists():
        write_templates(corpora, path, TEMPLATES)
    examples = [with_gold_tokens(nlp, doc) for _, doc in read_treebank(nlp.vocab, path)]
    Random(0).shuffle(examples)
    for name, lesson in LESSONS.items():
        if name not in nlp.pipe_names:
            continue
        component, own = nlp.get_pipe(name), examples[: lesson.templates]
        mean = probabilities(nlp, corpora, work).mean() if name == PARSER else None
        if name in models:
            docs = read_docs(build_docs(corpora, work)["train"], nlp.vocab)
            Random(0).shuffle(docs)
            _adapt(nlp, component, own + list(map(to_example, docs[: lesson.documents])), lesson)
        if component.site_scorers:
            _learn_sites(component, _encoded(nlp, own) + _trees(nlp, corpora, work))
        if mean is not None:
            component.parameters.temperature *= factor(probabilities(nlp, corpora, work), mean)


def probabilities(nlp: Language, corpora: Path, work: Path) -> NDArray[np.float64]:
    """Return the probabilities of all brackets of some training documents."""
    docs = read_docs(build_docs(corpora, work)["train"], nlp.vocab)
    Random(1).shuffle(docs)
    with nlp.select_pipes(enable=[n for n in (ENCODER, *LESSONS) if n in nlp.pipe_names]):
        found = nlp.pipe(untagged(nlp, doc) for doc in docs[:SURE])
        spans = [span for doc in found for span in doc.spans[CONSTITUENTS]]
    return np.array([span._.constituent_prob for span in spans])


def factor(found: NDArray[np.floating], mean: float) -> float:
    """Return the factor of a temperature with which probabilities have a mean."""
    return float(brentq(lambda t: float(calibrate(found, t).mean()) - mean, 0.1, 10.0))


def _adapt(nlp: Language, component: Any, examples: list[Example], lesson: Lesson) -> None:
    for example in examples:
        with_norms(nlp, example.predicted)
    data = [part for part in map(component.gold_data, examples) if part is not None]
    model, learner = component.parameters, component.estimator
    adapter = learner.adapter(model, data, component.labels, strength=lesson.strength)
    component.parameters = adapter.run()


def _trees(nlp: Language, corpora: Path, work: Path) -> list[Example]:
    """Return some training trees of EWT and MCTB_en, with vectors."""
    path = write_trees(corpora, work / "treebanks.trees.gz", "train")
    docs = [doc for _, doc in read_treebank(nlp.vocab, path)]
    Random(0).shuffle(docs)
    return _encoded(nlp, [with_gold_tokens(nlp, doc) for doc in docs[:TREES]])


def _encoded(nlp: Language, examples: list[Example]) -> list[Example]:
    """Return copies of Examples with vectors."""
    docs = annotated(nlp, ENCODER, (example.predicted for example in examples))
    return [Example(doc, e.reference) for doc, e in zip(docs, examples, strict=True)]


def _learn_sites(component: Any, examples: list[Example]) -> None:
    """Let the heads of a component learn on; they are stored as before."""
    found, new = [site_examples(component, example) for example in examples], {}
    for head, scorer in component.site_scorers.items():
        training = ScorerTraining(scorer)
        training.add([own[head] for own in found if head in own])
        for _ in range(PASSES):
            training.step()
        new[head] = training.scorer.replaced(storage=scorer.storage)
    component.potentials = Potentials({**component.potentials.scorers, **new})
