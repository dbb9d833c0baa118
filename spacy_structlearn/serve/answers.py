"""What a worker process makes of texts: the JSON of its answers.

`<` is written as an escape, so an answer has no markup even if a browser takes it for a page.
"""

from __future__ import annotations

import json
from math import exp
from typing import TYPE_CHECKING, Any

from ..display.html import ShownSentence, sentences
from ..display.page import MOST_WORDS, page
from ..display.trees import tree_latex, tree_svg
from ..errors import StructlearnError
from ..groups import CONSTITUENTS
from ..pipeline.extensions.as_data import LAYERS, as_dict
from ..pipeline.extensions.brackets import ROOT
from ..pipeline.universal.conllu import conllu_lines
from ..trees.tree import Tree

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

    from .workers import Job

MOST_COMPARED = 20
"""The first sentences of a text, whose alternatives are found."""
NAMES = sorted(LAYERS)
"""The layers that a client may ask for."""


def answers(nlp: Language, jobs: list[Job]) -> list[bytes | str]:
    """Return the JSON of each job, or, for one that fails, the type of its error."""
    try:
        # The words of the texts are freed at the end.
        with nlp.memory_zone():
            docs = nlp.pipe([text for job in jobs for text in job.texts])
            return [_dumped(_answer(nlp, job, [next(docs) for _ in job.texts])) for job in jobs]
    except Exception as error:  # components raise any type
        if len(jobs) == 1:
            return [type(error).__name__]
    # Only those that cannot be parsed fail.
    return [answers(nlp, [job])[0] for job in jobs]


def _dumped(data: dict[str, Any]) -> bytes:
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").encode()


def _answer(nlp: Language, job: Job, docs: list[Doc]) -> dict[str, Any]:
    if job.trees is not None:
        return _drawn(nlp, docs[0], job.trees)
    found = [as_dict(doc) for doc in docs]
    if job.layers is not None:
        found = [{key: own[key] for key in job.layers if key in own} for own in found]
    return {"docs": found} if job.several else found[0]


def _drawn(nlp: Language, doc: Doc, k: int) -> dict[str, Any]:
    shown = sentences(doc)
    return {
        "html": page(doc),
        "data": as_dict(doc),
        "conllu": "\n".join(conllu_lines(doc, "1")),
        "sentences": [
            _sentence(nlp, sentence, k if number < MOST_COMPARED else 0)
            for number, sentence in enumerate(shown)
        ],
    }


def _sentence(nlp: Language, sentence: ShownSentence, k: int) -> dict[str, Any]:
    found: dict[str, Any] = {"text": sentence.text()}
    if CONSTITUENTS not in sentence.span.doc.spans or len(sentence.positions) > MOST_WORDS:
        return found
    tree = sentence.span._.tree
    found |= {"brackets": tree.pretty(), "latex": tree_latex(tree), "svg": tree_svg(tree)}
    parsers = [parser for _, parser in nlp.pipeline if hasattr(parser, "k_best")]
    best = []
    if k and parsers:
        try:
            best = parsers[-1].k_best(sentence.span, k)
        except StructlearnError:  # a sentence that was parsed in pieces
            best = []
    best = [(log_prob, _without_root(other)) for log_prob, other in best]
    found["trees"] = [
        {
            "prob": round(exp(log_prob), 4),
            "brackets": other.pretty(),
            "svg": tree_svg(other),
            "chosen": str(other) == str(tree),
        }
        for log_prob, other in best
    ]
    return found


def _without_root(tree: Tree) -> Tree:
    return tree.children[0] if tree.label == ROOT and len(tree.children) == 1 else tree
