"""PP attachment in `nlp(text)`: `doc.spans["pp_attachments"]`, with probabilities.

A site is a verb, its object and a prepositional phrase after the object, which attaches to one of
the two ("ate pizza with a fork", "ate pizza with olives"). Sites are found in the constituents of a
Doc, whatever they attach the phrase to, or in its NP chunks and tags. Any classifier of the four
words can decide (Ratnaparkhi, Reynar & Roukos 1994). The default is the Bayesian network of
Toutanova (2006), section 4.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from spacy.tokens import Doc
from spacy.training import Example

from ..attachment.sites import (
    PENN,
    Lemmatizer,
    Quadruple,
    Site,
    normalized,
    sites,
    sites_from_chunks,
)
from ..classification.features import ClassificationData, Table
from ..errors import StructlearnError
from ..learning.settings import setting
from ..words.classes import WordClasses
from . import extensions
from .batch_trainable import BatchTrainable, ComponentSettings, factory
from .extensions import (
    CONSTITUENT_TAGS,
    CONSTITUENTS,
    NP_CHUNKS,
    PP_ATTACHMENTS,
    PP_ROLES,
    set_spans,
    site_spans,
)
from .scorers import pp_attachment_score
from .tokens import form_ids

AUTO = "auto"
SOURCES = (AUTO, CONSTITUENTS, NP_CHUNKS)
VARIABLES = ("v", "n1", "p", "n2")
LEMMAS = ("v_lemma", "n1_lemma", "n2_lemma")
CLASSES = ("v_class", "n1_class", "n2_class")

Attachment = tuple[Site, float]  # over the tokens of the Doc, with the probability of its label

extensions.register()


@dataclass(frozen=True, kw_only=True)
class PPAttacherSettings(ComponentSettings):
    """Predict what prepositional phrases attach to.

    The model is an architecture over nominal data, such as BayesNet, which trains in one step.
    """

    name: ClassVar[str] = "pp_attacher"
    source: str = setting(
        AUTO,
        choices=SOURCES,
        help='Where to find sites: in the "constituents", in "np_chunks" and tags, or "auto" for '
        "the constituents if the Doc has any and otherwise the chunks.",
    )
    min_confidence: float = setting(
        0.0, ge=0, le=1, help="Attachments with a lower probability are not reported."
    )
    lemmatizer: Lemmatizer | None = setting(
        None,
        help="Function from a word and its tag to its lemma. Lemmas are variables in addition to "
        "the words. None: only the words.",
    )


class PPAttacher(BatchTrainable):
    """Predicts what prepositional phrases attach to.

    Reads the groups of `source`, `token.tag` in addition to chunks, and `doc.sents` if set.
    """

    parameter = "predict_proba"
    key = PP_ATTACHMENTS
    settings_kind = PPAttacherSettings

    def __init__(self, *args: Any, scorer: Callable | None = pp_attachment_score, **settings: Any):
        super().__init__(*args, scorer=scorer, **settings)

    def _strings(self) -> Iterable[str]:
        return (*PP_ROLES, *self.labels)

    # --- training -----------------------------------------------------------------------------
    @property
    def annotation(self) -> str:
        phrases = ("verb_phrases", "noun_phrases", "preposition_phrases")
        labels = ", ".join(", ".join(sorted(getattr(PENN, name))) for name in phrases)
        verbs, prepositions = (", ".join(sorted(tags)) for tags in (PENN.verbs, PENN.prepositions))
        return (
            f"attachments in {super().annotation} (in a treebank, they are found by the labels "
            f"{labels}, the tags {verbs} of verbs, and {prepositions} of prepositions)"
        )

    def gold_labels(self, example: Example) -> Iterable[str]:
        return {gold.label for gold in extensions.pp_attachments(example.reference)}

    def gold_data(self, example: Example) -> ClassificationData | None:
        """Get the sites of the reference, over its own words; no tree is needed.

        Sites with an unknown label are left out.
        """
        gold = [
            (label, tuple(token.text for token in heads))
            for _, label, *heads, _ in extensions.pp_attachments(example.reference)
            if label in self.labels
        ]
        if not gold:
            return None
        return ClassificationData(
            self._variables([words for _, words in gold]),
            tuple(label for label, _ in gold),
        )

    def _variables(self, quadruples: Sequence[Quadruple]) -> Table:
        return variables(quadruples, self.lemmatizer, self.model.attrs.get("classes"))

    # --- prediction ---------------------------------------------------------------------------
    def predict(self, docs: Sequence[Doc]) -> list[list[Attachment]]:
        """Predict the attachments of each Doc; the sites of all Docs are classified together.

        Raises StructlearnError for a Doc without the annotation that `source` needs, and if the
        lemmatizer or the word classes of the training are missing.
        """
        self.require_parameters()
        all_sites = [self.sites(doc) for doc in docs]
        words = [
            tuple(doc[i].text for i in site[:4])
            for doc, candidates in zip(docs, all_sites, strict=True)
            for site in candidates
        ]
        if not words:
            return [[] for _ in docs]
        try:
            probabilities = self.parameters.predict_proba(self._variables(words))
        except StructlearnError as error:
            if error.code != "SL503":
                raise
            variable = error.fields["variable"]
            raise StructlearnError("SL030", component=self.name, variable=variable) from error
        labels = [self.parameters.labels[i] for i in probabilities.argmax(axis=1).tolist()]
        decided = zip(labels, probabilities.max(axis=1).tolist(), strict=True)
        return [
            [
                (site._replace(label=label), probability)
                for site, (label, probability) in zip(candidates, decided, strict=False)
                if probability >= self.min_confidence
            ]
            for candidates in all_sites
        ]

    def sites(self, doc: Doc) -> list[Site]:
        """Find the sites of a Doc in order, over its tokens, with the labels of its constituents.

        Raises StructlearnError if the Doc lacks the annotation that `source` needs.
        """
        missing = _missing(doc, self.source)
        if missing and not all(token.is_space for token in doc):
            raise StructlearnError(
                "SL026", component=self.name, missing=missing, text=doc.text[:40]
            )
        parsed = self.source != NP_CHUNKS and CONSTITUENTS in doc.spans
        return list((_sites_of_trees if parsed else _sites_of_chunks)(doc))

    def set_annotations(self, docs: Sequence[Doc], attachments: Sequence[list[Attachment]]) -> None:
        """Write the attachments of each Doc to its span group, replacing existing ones."""
        for doc, labelled in zip(docs, attachments, strict=True):
            scores = np.array([probability for _, probability in labelled], dtype=np.float32)
            spans = site_spans(site for site, _ in labelled)
            set_spans(doc, PP_ATTACHMENTS, spans, np.repeat(scores, extensions.PP_SITE))


def variables(
    quadruples: Sequence[Quadruple],
    lemmatizer: Lemmatizer | None = None,
    classes: WordClasses | None = None,
) -> Table:
    """Get the variables that the classifier reads of each quadruple.

    quadruples: their normal forms are the variables "v", "n1", "p" and "n2".
    lemmatizer: adds the lemmas ("v_lemma").
    classes: adds the classes of the words ("v_class").
    """
    names, rows = VARIABLES, [normalized(words) for words in quadruples]
    if lemmatizer is not None:
        lemmas = [normalized(words, lemmatizer) for words in quadruples]
        names = VARIABLES + LEMMAS
        rows = [(*row, v, n1, n2) for row, (v, n1, _, n2) in zip(rows, lemmas, strict=True)]
    table = Table.of(rows, names) if rows else Table(names, np.empty((0, len(names)), np.uint64))
    if classes is None or not classes.n_classes:
        return table
    ids = form_ids(word for v, n1, _, n2 in quadruples for word in (v, n1, n2))
    columns = classes.column(ids).reshape(-1, len(CLASSES))
    return Table(names + CLASSES, np.hstack([table.symbols, columns]), table.names)


def _missing(doc: Doc, source: str) -> str | None:
    """Name the annotation that `source` needs and the Doc lacks; None if nothing is missing."""
    tree, chunks, tags = f'doc.spans["{CONSTITUENTS}"]', f'doc.spans["{NP_CHUNKS}"]', "token.tag_"
    if source != NP_CHUNKS and CONSTITUENTS in doc.spans:
        # Without tags no word is a verb, so there would be no sites.
        tagged = CONSTITUENT_TAGS in doc.spans or doc.has_annotation("TAG")
        return None if tagged or not doc.spans[CONSTITUENTS] else f"{tags} next to {tree}"
    if source == CONSTITUENTS:
        return tree
    if NP_CHUNKS not in doc.spans:
        return chunks if source == NP_CHUNKS else f"{tree}, or {chunks} and {tags}"
    return None if doc.has_annotation("TAG") else f"{tags} next to {chunks}"


def _sites_of_trees(doc: Doc) -> Iterator[Site]:
    for sentence in extensions.sentences(doc):
        tree = extensions.tree(sentence)
        if tree is not None:
            positions = [token.i for token in sentence if not token.is_space]
            yield from (_shifted(site, positions) for site in sites(tree))


def _sites_of_chunks(doc: Doc) -> Iterator[Site]:
    chunks = [(chunk.start, chunk.end) for chunk in extensions.np_chunks(doc)]
    for sentence in extensions.sentences(doc):
        positions = [token.i for token in sentence if not token.is_space]
        begin, end = (bisect_left(chunks, (i,)) for i in (sentence.start, sentence.end))
        # A chunk may consist of white space, or cross the end of the sentence.
        places = (chunk for chunk in chunks[begin:end] if chunk[1] <= sentence.end)
        bounds = (tuple(bisect_left(positions, i) for i in chunk) for chunk in places)
        inside = [(first, last) for first, last in bounds if first < last]
        tags = [doc[i].tag_ for i in positions]
        yield from (_shifted(site, positions) for site in sites_from_chunks(tags, inside))


def _shifted(site: Site, positions: Sequence[int]) -> Site:
    """Convert a site over words to one over tokens. positions: the token of each word."""
    heads = (positions[i] for i in site[:4])
    return Site(*heads, positions[site.start], positions[site.end - 1] + 1, site.label)


make_pp_attacher = factory(
    PPAttacher,
    model={"@architectures": "spacy_structlearn.BayesNet.v2"},
    scorer="spacy_structlearn.pp_attachment_scorer.v1",
    scores=["pp_attachment_acc", "pp_attachment_p", "pp_attachment_r", "pp_attachment_f"],
    assigns=["doc.spans", "doc._.pp_attachments", "token._.pp_head"],
    requires=["doc.spans"],
)
