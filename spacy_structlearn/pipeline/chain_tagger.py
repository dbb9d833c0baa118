"""A tagger by the learners of the chunker: one label a token, written to `token.tag`.

Any architecture over label sequences serves, with the labels as they are (encoding "none") and
templates that do not read the tags they are to predict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from spacy.language import Language
from spacy.pipeline.tagger import tagger_score
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Config, Model

from ..sequence.decode import viterbi
from ..sequence.estimators import SequenceData
from .batch_trainable import BatchTrainable
from .tokens import check_attributes, read_tokens, template_columns

DEFAULT_MODEL = """
[model]
@architectures = "spacy_structlearn.Perceptron.v1"
order = 1
encoding = "none"
templates = ["bias","ORTH[0]","NORM[0]","NORM[-1]","NORM[1]","NORM[-2]","NORM[2]",\
"NORM[-1]|NORM[0]","NORM[0]|NORM[1]","SHAPE[0]","PREFIX[0]","SUFFIX[0]","SUFFIX[0]|SHAPE[0]",\
"SUFFIX[-1]","SUFFIX[1]","SHAPE[-1]","SHAPE[1]"]
"""


@Language.factory(
    "chain_tagger",
    assigns=["token.tag"],
    default_config={
        "model": Config().from_str(DEFAULT_MODEL)["model"],
        "iterations_per_step": 10,
        "scorer": {"@scorers": "spacy.tagger_scorer.v1"},
    },
    default_score_weights={"tag_acc": 1.0, "pos_acc": None, "tag_micro_f": None},
)
def make_chain_tagger(
    nlp: Language, name: str, model: Model, iterations_per_step: int, scorer: Callable | None
) -> ChainTagger:
    """Make a tagger.

    model: an architecture over label sequences with `encoding = "none"`.
    iterations_per_step: iterations of the optimiser, or epochs, in one `nlp.update`.
    scorer: how `nlp.evaluate` judges it, such as "spacy.tagger_scorer.v1". None: not at all.
    """
    return ChainTagger(
        nlp.vocab, model, name, iterations_per_step=iterations_per_step, scorer=scorer
    )


class ChainTagger(BatchTrainable):
    """Sets `token.tag`. White space tokens keep the tag that they have."""

    annotation = "token.tag_"
    parameter = "encoding"

    def __init__(
        self,
        vocab: Any,
        model: Model,
        name: str = "chain_tagger",
        *,
        iterations_per_step: int = 10,
        scorer: Callable | None = tagger_score,
    ):
        super().__init__(vocab, model, name, iterations_per_step=iterations_per_step, scorer=scorer)
        check_attributes(self.estimator.attributes, name)

    def gold_labels(self, example: Example) -> Iterable[str]:
        return {token.tag_ for token in example.reference if token.tag_ and not token.is_space}

    def gold_data(self, example: Example) -> SequenceData | None:
        """The sentences of the example whose tokens all have a known tag."""
        tokens = read_tokens([example.predicted], self.estimator.attributes, self.name)
        tags = np.array(example.get_aligned("TAG", as_string=True), dtype=object)[tokens.positions]
        known = np.array([tag in self.cfg["labels"] for tag in tags], dtype=bool)
        bounds = zip(tokens.offsets[:-1].tolist(), tokens.offsets[1:].tolist(), strict=True)
        whole = [slice(begin, end) for begin, end in bounds if known[begin:end].all()]
        if not whole:
            return None
        columns = template_columns(tokens, self.parameters, self.estimator, training=True)
        return SequenceData(
            np.concatenate([columns[part] for part in whole]),
            np.cumsum([0, *(part.stop - part.start for part in whole)]),
            tuple(tag for part in whole for tag in tags[part]),
        )

    def _answers(self) -> Iterable[str]:
        return self.parameters.labels

    def predict(self, docs: Sequence[Doc]) -> list[list[tuple[int, str]]]:
        """The tags of each Doc as (token, tag)."""
        self.require_parameters()
        tokens = read_tokens(docs, self.estimator.attributes, self.name)
        ids = viterbi(
            self.parameters,
            template_columns(tokens, self.parameters, self.estimator),
            tokens.offsets,
        )
        pairs = [
            (position, self.parameters.labels[label])
            for position, label in zip(tokens.positions.tolist(), ids.tolist(), strict=True)
        ]
        bounds = tokens.offsets[tokens.docs].tolist()
        return [pairs[begin:end] for begin, end in pairwise(bounds)]

    def set_annotations(self, docs: Sequence[Doc], tags: Sequence[list[tuple[int, str]]]) -> None:
        """Write the tags."""
        for doc, pairs in zip(docs, tags, strict=True):
            for position, tag in pairs:
                doc[position].tag = doc.vocab.strings.add(tag)
