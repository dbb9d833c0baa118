"""Chains of plain strings: training and prediction without spaCy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from ..arrays import cumulative
from ..errors import StructlearnError
from ..learning.training import Estimator
from .chain.decode import viterbi
from .chain.model import ChainModel
from .layout.data import Ints, SequenceData, Symbols
from .layout.encoding import PLAIN, split_tag
from .layout.features import symbol_of
from .settings import ChainSettings, HMMSettings

Sentence = Sequence[Sequence[str]]
"""The columns of each token, in the order of `attributes` of the settings: word, then tag."""


def fit(
    settings: HMMSettings | ChainSettings,
    sentences: Iterable[Sentence],
    labels: Iterable[Sequence[str]],
) -> ChainModel:
    """Return a model of sentences and the labels of their tokens, such as "B-NP".

    Raises StructlearnError if a label is not in the encoding, or if the arguments do not fit.
    """
    columns, offsets = _arrays(sentences, len(settings.attributes))
    tags = tuple(label for sentence in labels for label in sentence)
    if len(tags) != len(columns):
        raise StructlearnError("SL209", name="labels", wanted="one for each token", value=len(tags))
    kinds = set(tags)
    if settings.encoding != PLAIN:
        kinds = {kind for tag in kinds if (kind := split_tag(tag, settings.encoding)[1])}
    data = [SequenceData(settings.derive(columns), offsets, tags)]
    learner = Estimator(settings, f"{__package__}.estimators.training")
    return learner.fit(data, sorted(kinds))


def predict(model: ChainModel, sentences: Iterable[Sentence]) -> list[list[str]]:
    """Return the most probable labels of each sentence. Raises StructlearnError as `fit` does."""
    columns, offsets = _arrays(sentences, len(model.attributes))
    ids = viterbi(model, model.derive(columns), offsets).tolist()
    return [[model.labels[i] for i in ids[begin:end]] for begin, end in pairwise(offsets)]


def _arrays(sentences: Iterable[Sentence], width: int) -> tuple[Symbols, Ints]:
    """Return the symbols of the columns, uint64 (n_tokens, width), and the offsets."""
    rows = [list(sentence) for sentence in sentences]
    tokens = [token for sentence in rows for token in sentence]
    if wrong := [token for token in tokens if isinstance(token, str) or len(token) != width]:
        wanted = f"{width} strings"
        raise StructlearnError("SL209", name="a token", wanted=wanted, value=repr(wrong[0]))
    symbols = [[symbol_of(value) for value in token] for token in tokens]
    columns = np.array(symbols, dtype=np.uint64).reshape(-1, width)
    return columns, cumulative(np.array([len(sentence) for sentence in rows], dtype=np.int64))
