"""Let a tagger, a parser and a chunker learn on from templates, the last stage of their training.

Each learns on from its weights (`Estimator.adapter`), and the heads of an encoder stay as they are.
The parser learns from templates alone: trees of the treebanks would count twice, and those of one
of them more than before (F1 on dev of MCTB_en fell by .8 with 1,000 trees of EWT). The weights of
the tagger and the chunker are all that they know, so they read the treebank again, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import NamedTuple

from spacy.language import Language
from spacy.training import Example

from spacy_structlearn.pipeline.readers import (
    read_treebank,
    to_example,
    with_gold_tokens,
    with_norms,
)
from spacy_structlearn.pipeline.training.cross_prediction import annotated
from training.common.ewt import build_docs, read_docs
from training.pipeline.tagger import jackknifed
from training.pipeline.templates import write_templates

TEMPLATES = 300  # of each kind that are written


class Lesson(NamedTuple):
    """What a component learns on from: numbers of templates and of documents of the treebank, and
    the strength of the prior on its weights."""

    templates: int
    documents: int
    strength: float


LESSONS = {
    "chain_tagger": Lesson(1000, 200, 4.0),
    "constituency_parser": Lesson(2000, 0, 4.0),
    "np_chunker": Lesson(1000, 200, 4.0),
}


def learn_on(
    nlp: Language, corpora: Path, work: Path, jobs: int, lessons: Iterable[str] = tuple(LESSONS)
) -> None:
    """Let components of a pipeline learn on. They are stored as float32 afterwards.

    The chunker reads tags that the tagger and the parser predict, and jackknifed ones.
    """
    path = work / "templates.trees.gz"
    if not path.exists():
        write_templates(corpora, path, TEMPLATES)
    gold = {
        "chain_tagger": build_docs(corpora, work)["train"],
        "np_chunker": jackknifed(corpora, work, jobs),
    }
    examples = [with_gold_tokens(nlp, doc) for _, doc in read_treebank(nlp.vocab, path)]
    Random(0).shuffle(examples)
    for name in ("token_encoder", *LESSONS):
        if name not in nlp.pipe_names:
            continue
        if name in lessons:
            component, lesson = nlp.get_pipe(name), LESSONS[name]
            docs = read_docs(gold[name], nlp.vocab) if lesson.documents else []
            Random(0).shuffle(docs)
            every = [*examples[: lesson.templates], *map(to_example, docs[: lesson.documents])]
            for example in every:
                with_norms(nlp, example.predicted)
            data = [part for part in map(component.gold_data, every) if part is not None]
            learner, labels = component.estimator, component.labels
            adapter = learner.adapter(component.parameters, data, labels, strength=lesson.strength)
            component.parameters = adapter.run()
        docs = annotated(nlp, name, (example.predicted for example in examples))
        examples = [Example(doc, e.reference) for doc, e in zip(docs, examples, strict=True)]
