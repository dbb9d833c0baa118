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
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from spacy.training import Example

from ..arrays import cumulative
from ..attachment.associations import Associations
from ..attachment.moves import follow
from ..attachment.sites import (
    NOUN,
    NOUN_PHRASES,
    PREPOSITION_PHRASES,
    PREPOSITIONS,
    VERB,
    VERB_PHRASES,
    VERBS,
    Lemmatizer,
    Quadruple,
    Site,
    alternatives,
    chains,
    chains_from_chunks,
    decided,
    normalized,
    odds_of_nouns,
)
from ..classification.features import ClassificationData, Table
from ..encoder.pool import Loss, pool_loss, pooled
from ..errors import StructlearnError
from ..groups import CONSTITUENTS, NP_CHUNKS, PP_ATTACHMENTS
from ..learning.settings import setting
from ..trees.normalize import strip_function
from ..trees.tree import Tree
from ..words.classes import MAX_DEPTH, WordClasses
from . import extensions
from .doc_arrays import (
    DocTrees,
    form_ids,
    has_gold_tokens,
    missing_for_trees,
    read_tokens,
    read_vectors,
    warn_of_other_tags,
)
from .extensions import set_spans, site_spans
from .extensions.brackets import ROOT
from .extensions.span_groups import PP_ROLES, PP_SITE, scored_group, words_of
from .scorers import pp_attachment_score
from .storage.alternatives import Bracket, is_given, replace_trees
from .training.batch_trainable import BatchTrainable
from .training.factories import ComponentSettings, factory

VARIABLES = ("v", "n1", "p", "n2")
LEMMAS = ("v_lemma", "n1_lemma", "n2_lemma")
CLASSES = {
    MAX_DEPTH: ("v_class", "n1_class", "n2_class"),
    7: ("v_class7", "n1_class7", "n2_class7"),
}
CONTEXT = ("v_next", "n1_before", "p_before")
ASSOCIATED = ("v_lemma", "n1_lemma", "p", "n2_lemma")
ASSOCIATIONS = ("v_p", "n1_p", "p_n2")
HEAD = "attachments"  # the site scorer

Context = tuple[str | None, str | None, str | None]
Place = tuple[Doc, Sequence[int]]  # the tokens V, N1, P, N2
Attachment = tuple[Site, float]  # over the tokens of the Doc, with the probability of its label

extensions.register()


class Reading(NamedTuple):
    """The attachments of a Doc, and the trees that were changed, by the first token of each."""

    attachments: list[Attachment]
    moved: dict[int, list[Bracket]]


class _Sentence(NamedTuple):
    """A sentence with prepositional phrases: the number of its Doc, the token of each word, the
    tree, if there is one, and its chains over words.
    """

    number: int
    positions: list[int]
    tree: Tree | None
    chains: list[list[Site]]


@dataclass(frozen=True, kw_only=True)
class PPAttacherSettings(ComponentSettings):
    """Predict what prepositional phrases attach to.

    The model is an architecture over nominal data, such as BayesNet, which trains in one step.
    """

    name: ClassVar[str] = "pp_attacher"
    min_confidence: float = setting(
        0.0, ge=0, le=1, help="Attachments with a lower probability are not reported."
    )
    move_confidence: float | None = setting(
        0.5,
        ge=0,
        le=1,
        help="Move phrases in predicted trees where the attachment has at least this probability. "
        "All other attachments are then those of the tree, so that both layers agree. Trees "
        "without probabilities or with constraints do not change. None: never change a tree.",
    )
    lemmatizer: Lemmatizer | None = setting(
        None,
        help="Function from a word and its tag to its lemma. Lemmas are variables in addition to "
        "the words. None: only the words.",
    )
    associations: Path | None = setting(
        None,
        help="File of associations of lemmas with prepositions (`Associations.to_bytes`), needed "
        "in training only. They are variables too.",
    )
    context: bool = setting(
        False,
        help="Whether the words behind the verb and before the noun and the preposition are "
        "variables too.",
    )

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        sound = self.associations is None or self.lemmatizer is not None
        yield "associations", "None without a lemmatizer", sound


class PPAttacher(BatchTrainable):
    """Predicts what prepositional phrases attach to.

    Reads the constituents, or else the chunks and `token.tag`, and `doc.sents` if set. All phrases
    behind an object are attached, also to nouns in earlier phrases.
    """

    parameter = "predict_proba"
    key = PP_ATTACHMENTS
    settings_kind = PPAttacherSettings
    heads = (HEAD,)

    def __init__(self, *args: Any, scorer: Callable | None = pp_attachment_score, **settings: Any):
        super().__init__(*args, scorer=scorer, **settings)
        # Never None, because thinc loads an attribute as the type that it has.
        self.model.attrs.setdefault("associations", Associations())
        if self.associations is not None:
            data = self.settings_kind(**settings).content("associations")
            self.model.attrs["associations"] = Associations.from_bytes(data)
        self._warned = False

    def _strings(self) -> Iterable[str]:
        return (*PP_ROLES, *self.labels, VERB, NOUN)

    # --- training -----------------------------------------------------------------------------
    @property
    def annotation(self) -> str:
        labels = ", ".join((*VERB_PHRASES, *NOUN_PHRASES, *PREPOSITION_PHRASES))
        verbs, prepositions = (", ".join(sorted(tags)) for tags in (VERBS, PREPOSITIONS))
        return (
            f"attachments in {super().annotation} (in a treebank, they are found by the labels "
            f"{labels}, the tags {verbs} of verbs, and {prepositions} of prepositions)"
        )

    def gold_labels(self, example: Example) -> Iterable[str]:
        found = {gold.label for gold in extensions.pp_attachments(example.reference)}
        return found & {VERB, NOUN}

    def gold_data(self, example: Example) -> ClassificationData | None:
        """Get the sites of the reference, over its own words; no tree is needed.

        Sites with an unknown label are left out.
        """
        doc = example.reference
        gold = [
            (label, tuple(token.i for token in heads))
            for _, label, *heads, _ in extensions.pp_attachments(doc)
            if label in self.labels
        ]
        if not gold:
            return None
        return ClassificationData(
            self._variables([(doc, heads) for _, heads in gold]), tuple(label for label, _ in gold)
        )

    def _variables(self, places: Sequence[tuple[Doc, Sequence[int]]]) -> Table:
        """Get the variables of sites. places: the Docs, and the tokens V, N1, P, N2."""
        classes, associations = (self.model.attrs.get(n) for n in ("classes", "associations"))
        quadruples = [
            (doc[verb].text, doc[noun].text, doc[prep].text, doc[last].text)
            for doc, (verb, noun, prep, last) in places
        ]
        contexts = [context(doc, *heads[:3]) for doc, heads in places] if self.context else None
        return variables(quadruples, self.lemmatizer, classes, associations, contexts)

    # --- prediction ---------------------------------------------------------------------------
    def predict(self, docs: Sequence[Doc]) -> list[Reading]:
        """Predict the attachments of each Doc; the sites of all Docs are classified together.

        The first Doc without any tag of the Penn Treebank gets a warning. Raises StructlearnError
        for a Doc with neither trees nor chunks and tags, and if the lemmatizer or the word
        classes of the training are missing.
        """
        self.require_parameters()
        sentences = list(self._sentences(docs))
        decisions = self._decided(docs, sentences)
        moved = self._moved(docs, sentences, decisions)
        again = self._decided(docs, list(moved.values()), given=True)
        for row, own in zip(moved, again, strict=True):
            decisions[row] = own
        readings = [Reading([], {}) for _ in docs]
        for row, (sentence, attached) in enumerate(zip(sentences, decisions, strict=True)):
            number, positions, tree, _ = sentence
            reported = [one for one in attached if one[1] >= self.min_confidence]
            readings[number].attachments.extend(_shifted(reported, positions))
            if row in moved and moved[row].tree is not tree:
                prob = min((prob for _, prob in attached), default=1.0)
                readings[number].moved[positions[0]] = [
                    (label, positions[start], positions[end - 1] + 1, prob)
                    for label, start, end in moved[row].tree.spans()  # type: ignore[union-attr] # it has one
                    if label != ROOT
                ]
        with_sites = {sentence.number for sentence in sentences if sentence.chains}
        for number, (doc, reading) in enumerate(zip(docs, readings, strict=True)):
            # The chain of a verb can contain that of another.
            reading.attachments.sort(key=lambda attachment: attachment[0].preposition)
            if number not in with_sites and not self._warned:
                of_trees = CONSTITUENTS in doc.spans
                self._warned = warn_of_other_tags(self.name, doc, of_trees=of_trees)
        return readings

    def _decided(
        self, docs: Sequence[Doc], sentences: Sequence[_Sentence], *, given: bool = False
    ) -> list[list[Attachment]]:
        """Get the attachments of each sentence, over its words. given: see `decided`."""
        probabilities = self._probabilities(
            [
                (docs[number], [positions[word] for word in site[:4]])
                for number, positions, _, own in sentences
                for chain in own
                for site in alternatives(chain)
            ]
        )
        odds = iter(odds_of_nouns(probabilities, self.parameters.labels).tolist())
        return [
            [one for chain in sentence.chains for one in decided(chain, odds, given=given)]
            for sentence in sentences
        ]

    def _moved(
        self,
        docs: Sequence[Doc],
        sentences: Sequence[_Sentence],
        decisions: Sequence[Sequence[Attachment]],
    ) -> dict[int, _Sentence]:
        """Move phrases in the trees. Get the sentences with a decision that differs from the tree,
        by their places, with the new trees.
        """
        moved: dict[int, _Sentence] = {}
        if self.move_confidence is None:
            return moved
        scored = [scored_group(doc, CONSTITUENTS)[1] is not None for doc in docs]
        for row, (sentence, attached) in enumerate(zip(sentences, decisions, strict=True)):
            number, positions, tree, own = sentence
            if tree is None or not scored[number]:
                continue
            new = follow(tree, own, attached, self.move_confidence)
            if new is not tree and new is not None and is_given(docs[number], positions, tree, new):
                new = tree
            if new is not None:
                moved[row] = sentence._replace(tree=new, chains=chains(new))
        return moved

    def _probabilities(self, places: Sequence[Place]) -> NDArray[np.float64]:
        """Get the probabilities of the labels, float64 (n_sites, n_labels)."""
        if not places:
            return np.empty((0, len(self.parameters.labels)))
        own, scorer = self._classified(places), self.site_scorers.get(HEAD)
        return own if scorer is None else pooled(own, self._scored(places), scorer.weights)

    def _scored(self, places: Sequence[Place]) -> NDArray[np.float32]:
        """Get the probabilities of the labels by the site scorer, (n_sites, n_labels)."""
        docs = list({id(doc): doc for doc, _ in places}.values())
        tokens = read_tokens(docs, [], self.name)
        firsts = dict(zip(map(id, docs), tokens.firsts.tolist(), strict=False))
        sites = np.array([[firsts[id(doc)] + place for place in heads] for doc, heads in places])
        vectors, labels = (
            read_vectors(docs, tokens, self.name, self.site_scorers),
            self.parameters.labels,
        )
        sites = np.searchsorted(tokens.indices, sites)
        return self.site_scorers[HEAD].probabilities(vectors, sites, labels)

    def pool_losses(self, examples: Sequence[Example]) -> dict[str, list[Loss]]:
        found = [
            (example.predicted, [token.i for token in heads], self.parameters.labels.index(label))
            for example in examples
            if has_gold_tokens(example)
            for _, label, *heads, _ in extensions.pp_attachments(example.reference)
            if label in self.parameters.labels
        ]
        if not found:
            return {}
        places, gold = [place[:2] for place in found], np.array([label for *_, label in found])
        return {HEAD: [pool_loss(self._classified(places), self._scored(places), gold)]}

    def _classified(self, places: Sequence[Place]) -> NDArray[np.float64]:
        """Get the probabilities of the labels by the classifier, (n_sites, n_labels)."""
        try:
            return self.parameters.predict_proba(self._variables(places))
        except StructlearnError as error:
            if error.code != "SL503":
                raise
            variable = error.fields["variable"]
            raise StructlearnError("SL030", component=self.name, variable=variable) from error

    def found(self, docs: Sequence[Doc]) -> list[list[list[Site]]]:
        """Find the chains of each Doc, over its tokens, with the labels of its constituents.

        Raises StructlearnError if a Doc has neither trees nor chunks and tags.
        """
        found: list[list[list[Site]]] = [[] for _ in docs]
        for number, positions, _, own in self._sentences(docs):
            for chain in own:
                attached = _shifted([(site, 1.0) for site in chain], positions)
                found[number].append([site for site, _ in attached])
        return found

    def _sentences(self, docs: Sequence[Doc]) -> Iterator[_Sentence]:
        """Iterate over the sentences with prepositional phrases; see `found`."""
        for doc in docs:
            missing = _missing(doc)
            if missing and not all(token.is_space for token in doc):
                text = doc.text[:40]
                raise StructlearnError("SL026", component=self.name, missing=missing, text=text)
        is_parsed = np.array([CONSTITUENTS in doc.spans for doc in docs], dtype=bool)
        for number, positions, tree in _trees(docs, np.flatnonzero(is_parsed)):
            yield _Sentence(number, positions, tree, chains(tree))
        for number in np.flatnonzero(~is_parsed).tolist():
            for positions, tags, chunks in _chunked_sentences(docs[number]):
                yield _Sentence(number, positions, None, chains_from_chunks(tags, chunks))

    def set_annotations(self, docs: Sequence[Doc], readings: Sequence[Reading]) -> None:
        """Write the attachments of each Doc to its span group, replacing existing ones, and the
        trees in which phrases were moved.
        """
        for doc, (labelled, moved) in zip(docs, readings, strict=True):
            scores = np.array([probability for _, probability in labelled], dtype=np.float32)
            spans = site_spans(site for site, _ in labelled)
            set_spans(doc, PP_ATTACHMENTS, spans, np.repeat(scores, PP_SITE))
            if moved:
                replace_trees(doc, moved)


def variables(
    quadruples: Sequence[Quadruple],
    lemmatizer: Lemmatizer | None = None,
    classes: WordClasses | None = None,
    associations: Associations | None = None,
    contexts: Sequence[Context] | None = None,
) -> Table:
    """Get the variables that the classifier reads of each quadruple.

    quadruples: their normal forms are the variables "v", "n1", "p" and "n2".
    lemmatizer: adds the lemmas ("v_lemma").
    classes: adds the classes of the words ("v_class") and coarser ones ("v_class7").
    associations: adds the associations of verb and noun with the preposition, and of the phrase
        with verbs and nouns ("v_p", "n1_p", "p_n2"). They need lemmas.
    contexts: adds the `context` of each quadruple ("v_next").
    """
    names: tuple[str, ...] = VARIABLES
    rows: list[tuple[str | None, ...]] = [normalized(words) for words in quadruples]
    if lemmatizer is not None:
        lemmas = [normalized(words, lemmatizer) for words in quadruples]
        names += LEMMAS
        rows = [(*row, v, n1, n2) for row, (v, n1, _, n2) in zip(rows, lemmas, strict=True)]
    if contexts is not None:
        names += CONTEXT
        rows = [(*row, *around) for row, around in zip(rows, contexts, strict=True)]
    table = Table.of(rows, names) if rows else Table(names, np.empty((0, len(names)), np.uint64))
    columns = [table.symbols]
    if associations is not None and len(associations):
        names += ASSOCIATIONS
        columns.append(associations.columns(*map(table.column, ASSOCIATED)))
    if classes is not None and classes.n_classes:
        places = classes.places(form_ids(w for v, n1, _, n2 in quadruples for w in (v, n1, n2)))
        for depth, own in CLASSES.items():
            names += own
            columns.append(classes.symbols(places, depth).reshape(-1, len(own)))
    return table if len(columns) == 1 else Table(names, np.hstack(columns), table.names)


def context(doc: Doc, verb: int, noun: int, preposition: int) -> Context:
    """Get the word behind the verb and those before the noun and the preposition, in lower case;
    None for the noun next to the verb or the preposition.
    """
    return (
        None if noun == verb + 1 else doc[verb + 1].text.lower(),
        None if noun == verb + 1 else doc[noun - 1].text.lower(),
        None if preposition == noun + 1 else doc[preposition - 1].text.lower(),
    )


def _missing(doc: Doc) -> str | None:
    """Name the annotation that a Doc lacks; None if nothing is missing."""
    tree, chunks, tags = f'doc.spans["{CONSTITUENTS}"]', f'doc.spans["{NP_CHUNKS}"]', "token.tag_"
    if CONSTITUENTS in doc.spans:
        # Without tags no word is a verb, so there would be no sites.
        return missing_for_trees(doc)
    if NP_CHUNKS not in doc.spans:
        return f"{tree}, or {chunks} and {tags}"
    return None if doc.has_annotation("TAG") else f"{tags} next to {chunks}"


def _trees(docs: Sequence[Doc], numbers: NDArray[np.intp]) -> Iterator[tuple[int, list[int], Tree]]:
    """Iterate over the trees with prepositional phrases of some Docs: the number of the Doc, the
    token of each word, and the tree.
    """
    trees = DocTrees([docs[number] for number in numbers.tolist()])
    brackets, offsets = trees.brackets, cumulative(trees.brackets.sizes)
    names = [strip_function(label or "") for label in brackets.labels.texts]
    is_phrase = np.array([name in PREPOSITION_PHRASES for name in names])[brackets.labels.codes]
    places = np.searchsorted(offsets, brackets.starts[is_phrase], "right") - 1
    wanted = np.unique(places).tolist()
    for place, tree in zip(wanted, brackets.trees(wanted), strict=True):
        words = slice(*offsets[place : place + 2])
        yield int(numbers[trees.doc_ids[words.start]]), trees.positions[words].tolist(), tree


def _chunked_sentences(doc: Doc) -> Iterator[tuple[list[int], list[str], list[tuple[int, int]]]]:
    """Iterate over the sentences: the token of each word, the tags, and the chunks in words."""
    chunks = [(chunk.start, chunk.end) for chunk in extensions.np_chunks(doc)]
    for sentence in extensions.sentences(doc):
        positions = words_of(sentence)
        begin, end = (bisect_left(chunks, (i,)) for i in (sentence.start, sentence.end))
        # A chunk may consist of white space, or cross the end of the sentence.
        places = (chunk for chunk in chunks[begin:end] if chunk[1] <= sentence.end)
        bounds = (tuple(bisect_left(positions, i) for i in chunk) for chunk in places)
        inside = [(first, last) for first, last in bounds if first < last]
        yield positions, [doc[i].tag_ for i in positions], inside


def _shifted(over_words: Iterable[Attachment], positions: Sequence[int]) -> list[Attachment]:
    """Convert sites over words to ones over tokens. positions: the token of each word."""
    return [
        (
            Site._make(
                [*(positions[word] for word in site[:5]), positions[site.end - 1] + 1, site.label]
            ),
            prob,
        )
        for site, prob in over_words
    ]


make_pp_attacher = factory(
    PPAttacher,
    model={"@architectures": "spacy_structlearn.BayesNet.v1"},
    scorer="spacy_structlearn.pp_attachment_scorer.v1",
    scores=["pp_attachment_acc", "pp_attachment_p", "pp_attachment_r", "pp_attachment_f"],
    assigns=["doc.spans", "doc._.pp_attachments", "token._.pp_head"],
    requires=["doc.spans"],
)
