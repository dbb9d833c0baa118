"""Cross-prediction: training data annotated by components that have not been trained on it.

A component reads the predictions of earlier components, with their errors, so it should be trained
on predictions. But those on the training data of the earlier components are too good. So the data
is divided into folds, and each fold is annotated by components trained on the other folds
(jackknifing).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any
from weakref import WeakKeyDictionary

from spacy.language import Language
from spacy.schemas import ConfigSchemaTraining
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.loop import create_train_batches
from spacy.util import registry
from thinc.api import constant, fix_random_seed
from tqdm import tqdm

from ...errors import StructlearnError
from ...learning.settings import check_argument
from ..doc_arrays import copy_with_vectors
from ..readers import Reader
from .batch_trainable import BatchTrainable

EPOCHS = 10  # passes through the data for components of spaCy
# The predicted Docs of each corpus by its digest, because spaCy reads a corpus several times.
_predicted: WeakKeyDictionary[Language, dict[bytes, list[Doc]]] = WeakKeyDictionary()


def create_cross_predicted_reader(corpus: Reader, annotating: list[str], folds: int = 5) -> Reader:
    """Read a corpus for training, with predictions of components in the predicted Docs.

    corpus: the reader of the corpus. Its predicted Docs should have no gold tags.
    Other arguments, and errors: see `cross_predict`.
    """

    def read(nlp: Language) -> Iterator[Example]:
        examples = list(corpus(nlp))
        held = _predicted.setdefault(nlp, {})
        digest = blake2b(repr((annotating, folds)).encode(), digest_size=16)
        for example in examples:
            for doc in (example.predicted, example.reference):
                digest.update(doc.to_bytes(exclude=["user_data"]))
        key = digest.digest()
        if key not in held:
            held[key] = cross_predict(nlp, examples, annotating, folds=folds)
        for example, doc in zip(examples, held[key], strict=True):
            yield Example(copy_with_vectors(doc), example.reference)

    return read


def cross_predict(
    nlp: Language, examples: Sequence[Example], annotating: Sequence[str], *, folds: int = 5
) -> list[Doc]:
    """Return copies of the predicted Docs of the examples, annotated by components of a pipeline.

    The components annotate in the order of the pipeline, so each reads the predictions of those
    before it. Frozen components, and those that are not trained, annotate all Docs. Components of
    spaCy are trained with the seed of the config; those of this package to the end.
    annotating: names of components.
    folds: number of folds; Doc i is in fold i modulo `folds`.
    Raises StructlearnError for an unknown component and for fewer than two folds or Docs.
    """
    names = ", ".join(nlp.component_names)
    for name in annotating:
        if name not in nlp.component_names:
            raise StructlearnError("SL017", component=name, names=names)
    check_argument("folds", folds, ge=2)
    if len(examples) < 2:
        raise StructlearnError("SL087")
    frozen = nlp.config["training"].get("frozen_components", ())
    folds = min(folds, len(examples))
    docs = [example.predicted for example in examples]
    for name, component in nlp.components:
        if name not in annotating:
            continue
        if name in frozen or not getattr(component, "is_trainable", False):
            docs = annotated(nlp, name, docs)
            continue
        pairs = zip(docs, examples, strict=True)
        so_far = [Example(doc, example.reference) for doc, example in pairs]
        # disable=None: tqdm is silent if the output is not a terminal.
        for fold in tqdm(range(folds), desc=f"{name}, cross-prediction", unit="fold", disable=None):
            docs[fold::folds] = predict_fold(nlp, name, so_far, fold, folds)
    return docs


def predict_fold(
    nlp: Language, name: str, examples: Sequence[Example], fold: int, folds: int
) -> list[Doc]:
    """Train a copy of one component on the other folds, and annotate copies of the Docs of a fold.

    A component that has learned already, because it comes from another pipeline, learns on.
    Arguments: see `cross_predict`. The pipeline does not change.
    """
    others = [example for i, example in enumerate(examples) if i % folds != fold]
    config = nlp.config.interpolate()
    training = registry.resolve(config["training"], schema=ConfigSchemaTraining)
    optimizer, dropout = training["optimizer"], training["dropout"]
    fix_random_seed(training["seed"] or 0)
    copy = type(nlp)(nlp.vocab)
    parts = _with_listened_to(nlp, name)
    frozen = [part for part in parts if part in training["frozen_components"]]
    learned = parts if getattr(nlp.get_pipe(name), "labels", ()) else []
    for part in parts:
        settings = dict(config["components"][part])
        added: Any = copy.add_pipe(settings.pop("factory"), part, config=settings)
        if part in learned or part in frozen:
            original: Any = nlp.get_pipe(part)
            added.from_bytes(original.to_bytes(exclude=["vocab"]), exclude=["vocab"])
    copy.config["initialize"]["components"] = config["initialize"]["components"]
    with copy.select_pipes(disable=learned or frozen):
        copy.initialize(lambda: others, sgd=optimizer)
    component = copy.get_pipe(name)
    if isinstance(component, BatchTrainable):
        component.fit(others)
    else:
        rates = constant(dropout) if isinstance(dropout, float) else dropout
        batches = create_train_batches(copy, lambda _: others, training["batcher"], EPOCHS)
        for (_, batch), rate in zip(batches, rates, strict=False):
            copy.update(batch, drop=rate, sgd=optimizer, exclude=frozen, annotates=frozen)
            optimizer.step_schedules()
    with copy.use_params(optimizer.averages):
        return annotated(copy, name, [example.predicted for example in examples[fold::folds]])


def _with_listened_to(nlp: Language, name: str) -> list[str]:
    """Get the names of a component and, before it, of those that it listens to."""
    heard = [
        other for other, of in nlp.components if name in getattr(of, "listening_components", ())
    ]
    return [*heard, name]


def annotated(nlp: Language, name: str, docs: Iterable[Doc]) -> list[Doc]:
    """Annotate copies of the Docs by one component, and by those that it listens to."""
    copies: Iterable[Doc] = map(copy_with_vectors, docs)
    for part in _with_listened_to(nlp, name):
        component = nlp.get_pipe(part)
        # The component may be disabled.
        if hasattr(component, "pipe"):
            copies = component.pipe(copies, batch_size=nlp.batch_size)
        else:
            copies = map(component, copies)
    return list(copies)
