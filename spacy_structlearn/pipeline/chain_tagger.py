"""Tags in `nlp(text)`: `token.tag`, with the probabilities of the tags.

The learner is any architecture over label sequences with `encoding = "none"` and templates that do
not read tags. The default is a conditional random field over the spelling of words and their
neighbours (Ratnaparkhi 1996, table 1; Toutanova et al. 2003). Each token gets the tag with the
highest posterior probability, which is more accurate per token than the best sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IDS, TAG
from spacy.pipeline.tagger import tagger_score
from spacy.tokens import Doc
from spacy.training import Example

from ..encoder.pool import Loss
from ..encoder.scorer import SiteScorer
from ..errors import StructlearnError
from ..groups import TAG_CANDIDATES
from ..learning.settings import quoted
from ..sequence.chain.decode import pool_loss
from ..sequence.chain.model import ChainModel
from ..sequence.estimators.stochastic_crf import candidates
from ..sequence.layout.data import SequenceData
from ..sequence.layout.encoding import PLAIN
from ..sequence.layout.words import is_word_column
from . import extensions
from .doc_arrays import Tokens, read_tokens, read_vectors
from .extensions import set_spans
from .extensions.span_groups import words_of
from .training.batch_trainable import BatchTrainable
from .training.factories import ComponentSettings, factory

_TEMPLATES = """
    bias ORTH[0] LOWER[0] LOWER[-1] LOWER[1] LOWER[-2] LOWER[2] LOWER[-1]|LOWER[0]
    LOWER[0]|LOWER[1] LOWER[-1]|LOWER[1] PREFIX1[0] PREFIX2[0] PREFIX3[0] PREFIX4[0] SUFFIX1[0]
    SUFFIX2[0] SUFFIX3[0] SUFFIX4[0] SUFFIX5[0] SUFFIX3[-1] SUFFIX3[1] SHAPE[0] SHAPE[-1]
    SHAPE[1] FLAGS[0] FLAGS[-1]|FLAGS[0]|FLAGS[1]
"""
DEFAULT_MODEL = {
    "@architectures": "spacy_structlearn.StochasticCRF.v1",
    "encoding": "none",
    "templates": _TEMPLATES.split(),
}
CERTAIN = 0.99  # a tag with at least this probability is stored without candidates
SMALLEST = 0.01  # less probable tags are not candidates


class Tags(NamedTuple):
    """The tags of one Doc.

    positions: int64 (n), indices of the words.
    tags: uint64 (n), symbols of their tags.
    tokens, symbols, probabilities: of the candidates, the most probable one of a token first.
    """

    positions: NDArray[np.int64]
    tags: NDArray[np.uint64]
    tokens: list[int]
    symbols: list[int]
    probabilities: NDArray[np.float32]


extensions.register()


class ChainComponent(BatchTrainable):
    """A component over label sequences.

    encodings: the encodings of labels that it reads.
    own_columns: columns that it makes itself; all others are those of `read_tokens`.
    A site scorer of the labels of tokens is added to the scores of the chain.
    """

    parameter = "encoding"
    encodings: ClassVar[Collection[str]] = (PLAIN,)
    own_columns: ClassVar[Collection[str]] = ()

    def __init__(self, *args: Any, scorer: Callable | None = None, **settings: Any):
        super().__init__(*args, scorer=scorer, **settings)
        # Learners of third parties may have no such setting.
        encoding = getattr(self.estimator.settings, "encoding", None)
        if encoding is not None and encoding not in self.encodings:
            wanted = " or ".join(map(repr, self.encodings))
            given = {"learner": self.name, "name": "encoding", "value": quoted(encoding)}
            raise StructlearnError("SL043", wanted=wanted, **given)
        for name in self.estimator.attributes:
            # spaCy lists "", too.
            known = name in IDS or is_word_column(name) or name in self.own_columns
            if not (name and known):
                raise StructlearnError("SL003", attribute=name, component=self.name)

    def _columns(self, columns: NDArray[np.uint64], *, training: bool = False) -> NDArray:
        """Compute the columns that the templates read, uint64 (n, k).

        columns: those of the `attributes` of the learner.
        training: keep all symbols, of which learners make vocabularies, not only known symbols.
        """
        parameters = self.parameters
        if training and (parameters.is_empty or parameters.classes is None):
            return self.estimator.settings.derive(columns)
        return parameters.derive(columns, **{"closed": False} if training else {})

    def _whole_sentences(
        self, tokens: Tokens, columns: NDArray[np.uint64], labels: Sequence[Any]
    ) -> SequenceData | None:
        """Get the sentences of a Doc whose tokens all have a known label; None if there are none.

        columns: of the templates. labels: of all tokens of the Doc.
        """
        own = np.array(labels, dtype=object)[tokens.positions]
        has_label = np.array([label in self.cfg["labels"] for label in own], dtype=bool)
        sentences = (slice(*bounds) for bounds in pairwise(tokens.offsets.tolist()))
        whole = [sentence for sentence in sentences if has_label[sentence].all()]
        if not whole:
            return None
        return SequenceData(
            np.concatenate([columns[part] for part in whole]),
            np.cumsum([0, *(part.stop - part.start for part in whole)]),
            tuple(label for part in whole for label in own[part]),
        )

    def scored_label(self, label: str) -> str:
        """Get the label of the site scorer that stands for a label."""
        return label

    def _pooled(self, docs: Sequence[Doc], tokens: Tokens) -> ChainModel:
        """Get the parameters, in a pool with the site scorer if there is one."""
        model = self.parameters
        for scorer in self.site_scorers.values():
            model = model.pooled(scorer.weights, self._outside(scorer, docs, tokens))
        return model

    def _outside(self, scorer: SiteScorer, docs: Sequence[Doc], tokens: Tokens) -> NDArray:
        """Get the log-probabilities of the labels by a site scorer, (n_tokens, n_labels)."""
        vectors = read_vectors(docs, tokens, self.name, self.site_scorers)
        labels = [self.scored_label(label) for label in self.parameters.labels]
        return scorer.log_probabilities(vectors, np.arange(len(vectors))[:, None], labels)

    def pool_losses(self, examples: Sequence[Example]) -> dict[str, list[Loss]]:
        docs: list[Doc] = []
        tags: list[str] = []
        for example in examples:
            gold = self.gold_data(example)
            # Only Docs that are annotated throughout.
            if gold is not None and len(gold.tags) == len(words_of(example.predicted)):
                docs.append(example.predicted)
                tags += gold.tags
        tokens = read_tokens(docs, self.estimator.attributes, self.name)
        given = self.parameters, self._columns(tokens.columns), tokens.offsets
        return {
            head: [pool_loss(*given, self._outside(scorer, docs, tokens), tags)]
            for head, scorer in self.site_scorers.items()
        }


@dataclass(frozen=True, kw_only=True)
class ChainTaggerSettings(ComponentSettings):
    """Predict tags. The model is an architecture over label sequences with `encoding = "none"`."""

    name: ClassVar[str] = "chain_tagger"


class ChainTagger(ChainComponent):
    """Predicts `token.tag` and `doc.spans["tag_candidates"]`.

    If the tag of a token is not certain, the group has a span of this token for each likely tag,
    with the probability as score. White space tokens keep their tags.
    """

    annotation = "token.tag_"
    settings_kind = ChainTaggerSettings
    counted: ClassVar[dict[str, str]] = {"tag": "SUFFIX"}
    heads = ("tags",)

    def __init__(self, *args: Any, scorer: Callable | None = tagger_score, **settings: Any):
        super().__init__(*args, scorer=scorer, **settings)

    def gold_labels(self, example: Example) -> Iterable[str]:
        return {token.tag_ for token in example.reference if token.tag_ and not token.is_space}

    def gold_data(self, example: Example) -> SequenceData | None:
        """Get the sentences of the example whose tokens all have a known tag."""
        tokens = read_tokens([example.predicted], self.estimator.attributes, self.name)
        columns = self._columns(tokens.columns, training=True)
        return self._whole_sentences(tokens, columns, example.get_aligned("TAG", as_string=True))

    def predict(self, docs: Sequence[Doc]) -> list[Tags]:
        """Predict the tags of each Doc."""
        self.require_parameters()
        tokens = read_tokens(docs, self.estimator.attributes, self.name)
        model = self._pooled(docs, tokens)
        posteriors = candidates(model, self._columns(tokens.columns), tokens.offsets)
        strings = self.vocab.strings
        symbols = np.array([strings[tag] for tag in self.parameters.labels], dtype=np.uint64)
        uncertain, rivals = posteriors.uncertain(CERTAIN, SMALLEST)
        indices = np.repeat(tokens.positions[uncertain], np.diff(rivals.starts)).tolist()
        rival_symbols = symbols[rivals.labels].tolist()
        # Where the words and the candidates of each Doc begin.
        words = tokens.offsets[tokens.docs]
        firsts = rivals.starts[np.searchsorted(uncertain, words)].tolist()
        words, tags = words.tolist(), symbols[posteriors.best()]
        return [
            Tags(
                tokens.positions[begin:end],
                tags[begin:end],
                indices[first:last],
                rival_symbols[first:last],
                rivals.probabilities[first:last],
            )
            for (begin, end), (first, last) in zip(pairwise(words), pairwise(firsts), strict=True)
        ]

    def set_annotations(self, docs: Sequence[Doc], tags: Sequence[Tags]) -> None:
        """Write tags and candidates, replacing existing ones."""
        for doc, of_doc in zip(docs, tags, strict=True):
            # Symbols are the same in all vocabs, but another vocab may lack the strings.
            if doc.vocab is not self.vocab:
                for tag in self.labels:
                    doc.vocab.strings.add(tag)
            # A symbol of 0 does not change the tag.
            if len(doc):
                table = np.zeros((len(doc), 1), dtype=np.uint64)
                table[of_doc.positions, 0] = of_doc.tags
                # spaCy's stub has thinc's type of arrays.
                doc.from_array([TAG], table)  # type: ignore[arg-type]
            ends = [token + 1 for token in of_doc.tokens]
            spans = zip(of_doc.symbols, of_doc.tokens, ends, strict=True)
            set_spans(doc, TAG_CANDIDATES, spans, of_doc.probabilities.copy())


make_chain_tagger = factory(
    ChainTagger,
    model=DEFAULT_MODEL,
    scorer="spacy.tagger_scorer.v1",
    scores=["tag_acc", "pos_acc", "tag_micro_f"],
    assigns=["token.tag", "doc.spans", "token._.tag_probs"],
)
