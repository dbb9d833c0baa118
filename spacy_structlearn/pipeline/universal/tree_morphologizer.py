"""Parts of speech, morphology and lemmas in `nlp(text)`: `token.pos`, `token.morph`, `token.lemma`.

The learner is any architecture over label sequences with `encoding = "none"`. The labels are
analyses, "NOUN|Number=Sing", as in Universal Dependencies. The default is a conditional random
field over tags, words, their neighbours and, where a Doc has them, its trees. Lemmas follow from
the analyses, see `words.morphology`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IS_SPACE, LEMMA, MORPH, ORTH, POS
from spacy.parts_of_speech import IDS as PARTS_OF_SPEECH
from spacy.strings import hash_string  # type: ignore[attr-defined] # its stubs lack it
from spacy.tokens import Doc, Token
from spacy.training import Example
from spacy.vocab import Vocab

from ...arrays import Coded
from ...errors import StructlearnError
from ...groups import CONSTITUENTS
from ...kernels.index import number_keys
from ...learning.settings import setting
from ...sequence.estimators.stochastic_crf import candidates
from ...sequence.layout.data import SequenceData
from ...trees.nodes import TreeNodes
from ...words.lemmas import Lemmatizer, lemma
from ...words.morphology import VERBAL, Lemmas, analysis, lower_form, next_to, phrases
from ..chain_tagger import ChainComponent
from ..doc_arrays import DocTrees, Tokens, distinct_words, is_tagged, read_tokens
from ..scorers import morphology_score
from ..training.factories import ComponentSettings, factory

Columns = dict[str, NDArray[np.uint64]]

OF_TREES = ("PHRASE", "PHRASE_ABOVE", "LEFT", "RIGHT")
OF_VERBS = ("VERB_BEFORE", "VERB_BEHIND")
_TEMPLATES = """
    bias TAG[0] LOWER[0] ORTH[0] SHAPE[0] SUFFIX3[0] PREFIX3[0] TAG[0]|LOWER[0] TAG[0]|SUFFIX3[0]
    TAG[0]|SUFFIX2[0] TAG[0]|FLAGS[0] FLAGS[-1]|FLAGS[0]|FLAGS[1] TAG[-1] TAG[1] TAG[-1]|TAG[0]
    TAG[0]|TAG[1] TAG[-1]|TAG[0]|TAG[1] TAG[-2]|TAG[-1]|TAG[0] TAG[0]|TAG[1]|TAG[2] LOWER[-1]
    LOWER[1] LOWER[-1]|LOWER[0] LOWER[0]|LOWER[1] TAG[-1]|TAG[0]|LOWER[0] TAG[0]|LOWER[0]|TAG[1]
    TAG[0]|VERB_BEFORE[0] TAG[-1]|TAG[0]|VERB_BEFORE[0] LOWER[0]|VERB_BEHIND[0] TAG[0]|PHRASE[0]
    LOWER[0]|PHRASE[0] TAG[0]|PHRASE[0]|PHRASE_ABOVE[0] LOWER[0]|RIGHT[0] TAG[0]|PHRASE[0]|RIGHT[0]
    TAG[0]|PHRASE[0]|LEFT[0] TAG[0]|PHRASE[0]|PHRASE_ABOVE[0]|LEFT[0]
    TAG[0]|PHRASE[0]|VERB_BEFORE[0]
"""
DEFAULT_MODEL = {
    "@architectures": "spacy_structlearn.StochasticCRF.v1",
    "encoding": "none",
    "templates": _TEMPLATES.split(),
    "min_count": 2,
    "margin": 4.0,
}
SPACE = "SPACE"  # the part of speech of white space
_VERBAL = np.array(sorted(map(hash_string, VERBAL)), dtype=np.uint64)


class Analyses(NamedTuple):
    """The analyses of one Doc.

    positions: int64 (n), indices of the words. labels, lemmas: of the words.
    """

    positions: NDArray[np.int64]
    labels: Coded
    lemmas: Coded


@dataclass(frozen=True, kw_only=True)
class TreeMorphologizerSettings(ComponentSettings):
    """Predict parts of speech, morphology and lemmas.

    The model is an architecture over label sequences with `encoding = "none"`. Its templates read
    token attributes ("TAG", "LOWER"), the words "VERB_BEFORE" and the tags "VERB_BEHIND" of the
    next verbs, and labels of trees: "PHRASE", "PHRASE_ABOVE", "LEFT" and "RIGHT".
    """

    name: ClassVar[str] = "tree_morphologizer"
    lemmatizer: Lemmatizer | None = setting(
        lemma,
        help="Function from a word and its tag to its lemma, for verbs (VB) and plural nouns "
        "(NNS). Exceptions are learned. None: the lemma is the word in lower case.",
    )

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        yield "encoder", "false, because the tags know what the encoder knows", not self.encoder


class TreeMorphologizer(ChainComponent):
    """Predicts `token.pos`, `token.morph` and `token.lemma` of Universal Dependencies.

    Reads the tags of the parser or `token.tag`, and, if they are set, `doc.sents` and the group
    "constituents". The part of speech of white space is SPACE.
    """

    annotation = "token.pos_"
    own_columns = (*OF_TREES, *OF_VERBS)
    settings_kind = TreeMorphologizerSettings
    pairs = False

    def __init__(self, *args: Any, scorer: Callable | None = morphology_score, **settings: Any):
        super().__init__(*args, scorer=scorer, **settings)
        # Never None, because thinc loads an attribute as the type that it has.
        self.model.attrs.setdefault("lemmas", Lemmas())

    @property
    def lemmas(self) -> Lemmas:
        """The learned exceptions to the rules of lemmas."""
        return self.model.attrs["lemmas"]

    def _intern(self) -> None:
        super()._intern()
        _symbols(self.vocab, self.labels)

    # --- training -----------------------------------------------------------------------------
    def gold_labels(self, example: Example) -> Iterable[str]:
        return {analysis(t.pos_, str(t.morph)) for t in example.reference if _has_gold(t)}

    def gold_data(self, example: Example) -> SequenceData | None:
        """Get the sentences of the example whose tokens all have a known analysis."""
        if not any(map(_has_gold, example.reference)):
            return None
        tokens, columns = self._read([example.predicted])
        gold = [example.get_aligned(name, as_string=True) for name in ("POS", "MORPH")]
        labels = [pos and analysis(pos, morph) for pos, morph in zip(*gold, strict=True)]
        return self._whole_sentences(tokens, self._table(columns, training=True), labels)

    def _add(self, examples: list[Example], strength: float | None = None) -> None:
        training = self._training
        if training.counts is None:
            training.counts = Counter()
            self._known_lemmas = Lemmas() if training.from_scratch else self.lemmas
        new = (e.reference for e in examples if id(e.reference) not in training.seen)
        for token in (token for doc in new for token in doc if _has_gold(token) and token.lemma):
            label = analysis(token.pos_, str(token.morph))
            training.counts[lower_form(token.text, label), label, token.lemma_] += 1
        known, counts = self._known_lemmas, training.counts
        self.model.attrs["lemmas"] = known.learned(counts, self.lemmatizer)
        super()._add(examples, strength)

    # --- prediction ---------------------------------------------------------------------------
    def _read(self, docs: Sequence[Doc]) -> tuple[Tokens, Columns]:
        """Get the tokens of Docs, and all columns by name."""
        names = self.estimator.attributes
        given = dict.fromkeys([*names, "ORTH", "LOWER", "TAG"])
        read = [name for name in given if name not in self.own_columns]
        tokens = read_tokens(docs, read, self.name, optional=["TAG"])
        for doc in docs:
            if not is_tagged(doc) and not doc.to_array(IS_SPACE).all():
                missing = {"attribute": "token.tag_", "text": doc.text[:40]}
                raise StructlearnError("SL001", component=self.name, **missing)
        columns = dict(zip(read, tokens.columns.T, strict=True))
        columns |= dict.fromkeys(OF_TREES, np.zeros(len(tokens.columns), dtype=np.uint64))
        has_tree = np.array([CONSTITUENTS in doc.spans for doc in docs], dtype=bool)
        if has_tree.any():
            brackets = DocTrees(docs).brackets
            columns["TAG"] = _ids(brackets.tags)  # the parser's, if it does not write them
            if not set(OF_TREES).isdisjoint(names):
                for name, column in phrases(TreeNodes(brackets)).items():
                    columns[name] = _ids(column) * has_tree[tokens.doc_ids]
        tags = columns["TAG"]
        before, behind = next_to(np.isin(tags, _VERBAL), tokens.offsets)
        columns["VERB_BEFORE"] = np.append(columns["LOWER"], 0)[before]
        columns["VERB_BEHIND"] = np.append(tags, 0)[behind]
        return tokens, columns

    def _table(self, columns: Columns, *, training: bool = False) -> NDArray[np.uint64]:
        table = np.stack([columns[name] for name in self.estimator.attributes], axis=1)
        return self._columns(table, training=training)

    def predict(self, docs: Sequence[Doc]) -> list[Analyses]:
        """Predict the analyses and lemmas of each Doc."""
        self.require_parameters()
        tokens, columns = self._read(docs)
        labels, lemmatizer, lemma = self.parameters.labels, self.lemmatizer, self.lemmas.lemma
        best = candidates(self.parameters, self._table(columns), tokens.offsets).best()
        words, numbers = distinct_words(docs, columns["ORTH"])
        # Each word with an analysis is lemmatized once.
        firsts, places = number_keys(
            numbers.astype(np.uint64) * np.uint64(len(labels)) + best.astype(np.uint64)
        )
        pairs = zip(numbers[firsts].tolist(), best[firsts].tolist(), strict=True)
        texts = [lemma(words[word], labels[label], lemmatizer) for word, label in pairs]
        analyses, lemmas = Coded([*labels, None], best), Coded([*texts, None], places)
        bounds = pairwise(tokens.offsets[tokens.docs].tolist())
        return [
            Analyses(tokens.positions[own], analyses.at(own), lemmas.at(own))
            for own in (slice(begin, end) for begin, end in bounds)
        ]

    def set_annotations(self, docs: Sequence[Doc], found: Sequence[Analyses]) -> None:
        """Write parts of speech, morphology and lemmas, replacing existing ones."""
        symbols: dict[Any, tuple[NDArray, NDArray]] = {}
        for doc, own in zip(docs, found, strict=True):
            if not len(doc):
                continue
            # Analyses of one call share their texts.
            key = id(doc.vocab), id(own.labels.texts), id(own.lemmas.texts)
            if key not in symbols:
                of_labels = _symbols(doc.vocab, [*own.labels.texts[:-1], SPACE])
                lemmas = map(doc.vocab.strings.add, own.lemmas.texts[:-1])
                symbols[key] = of_labels, np.array([*lemmas], dtype=np.uint64)
            of_labels, of_lemmas = symbols[key]
            table = np.empty((len(doc), 3), dtype=np.uint64)
            table[:, :2], table[:, 2] = of_labels[-1], doc.to_array(ORTH)
            table[own.positions, :2] = of_labels[own.labels.codes]
            table[own.positions, 2] = of_lemmas[own.lemmas.codes]
            # spaCy's stub has thinc's type of arrays.
            doc.from_array([POS, MORPH, LEMMA], table)  # type: ignore[arg-type]


def _ids(column: Coded) -> NDArray[np.uint64]:
    """Get spaCy's ids of strings, 0 for None."""
    ids = [hash_string(text) if text else 0 for text in column.texts]
    return np.array(ids, dtype=np.uint64)[column.codes]


def _has_gold(token: Token) -> bool:
    return bool(token.pos) and not token.is_space


def _symbols(vocab: Vocab, labels: Iterable[str]) -> NDArray[np.uint64]:
    """Get the symbols of the part of speech and of the features of each label, in a vocab."""
    parts = [label.partition("|") for label in labels]
    ids = [(PARTS_OF_SPEECH.get(pos, 0), vocab.morphology.add(own)) for pos, _, own in parts]
    return np.array(ids, dtype=np.uint64).reshape(-1, 2)


make_tree_morphologizer = factory(
    TreeMorphologizer,
    model=DEFAULT_MODEL,
    scorer="spacy_structlearn.morphology_scorer.v1",
    scores=["pos_acc", "morph_acc", "lemma_acc"],
    blocks={"lemmatizer": {"@misc": "spacy_structlearn.english_lemmas.v1"}},
    assigns=["token.pos", "token.morph", "token.lemma"],
    requires=["token.tag"],
)
