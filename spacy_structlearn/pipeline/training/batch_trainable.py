"""The base class of the components: learners that need all their training data at once.

spaCy trains in small steps on small batches. L-BFGS, EM and counting need the whole training set in
every iteration. So one spaCy step runs a few iterations (`iterations_per_step`) over all examples
seen so far. With the batcher `spacy_structlearn.full_batch.v1` the first step sees all examples;
with any other batcher the data is complete after one epoch, and the optimum is the same. Examples
are converted to arrays once. The key is the reference Doc: spaCy keeps it, but copies the predicted
Doc.

A component that was loaded with its parameters learns on: it is trained with a prior centred on
them (`learning.training.Estimator`). After `initialize` it is trained from scratch.

The learned parameters are an attribute of the component's `thinc.Model` (`architectures`), which
`storage.component` saves and loads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from inspect import cleandoc
from typing import Any, ClassVar

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.util import minibatch
from spacy.vocab import Vocab
from thinc.api import Model

from ...encoder.pool import Loss, fit_weights
from ...encoder.scorer import Potentials, SiteScorer
from ...encoder.training import ScorerTraining
from ...errors import StructlearnError
from ...learning.settings import check_argument, document, quoted
from ...learning.training import Trainer
from ...reading import uncollected
from ..doc_arrays import copy_with_vectors
from ..storage.component import StoredComponent, let_be_stored
from ..storage.word_classes import add_classes
from .factories import SETTINGS, ComponentSettings, without_models
from .gold_sites import site_examples

# Cross-validation chooses the strength of the prior: number of folds, minimum number of examples.
FOLDS, LEAST_EXAMPLES = 4, 10

logger = logging.getLogger("spacy_structlearn")


class Transient:
    """State of a component that is not pickled: a copy begins without."""

    def __reduce__(self) -> tuple:
        return type(self), ()


class _Training(Transient):
    """The running training of one component."""

    def __init__(self, *, from_scratch: bool = False) -> None:
        self.from_scratch = from_scratch  # after `initialize`; otherwise the component learns on
        self.origin: Any = None  # the parameters from which it learns on
        self.n_examples = 0
        self.strength: float | None = None
        self.held_out: tuple[float, float] | None = None
        self.trainer: Trainer | None = None
        self.scorers: dict[str, ScorerTraining] = {}  # by head
        self.counts: Any = None  # what a component counts itself
        # Keeps the references alive, so that their id() cannot be reused.
        self.seen: dict[int, Doc] = {}
        self.data: list[Any] = []


class BatchTrainable(StoredComponent):
    """A component whose learner is an `Estimator`.

    Subclasses convert Docs to the data of the family. They implement `gold_data`, `predict` and
    `set_annotations`, and `annotation` and `gold_labels` unless these are spans with labels.
    settings: the settings of `settings_kind`, by name.
    Raises StructlearnError for a model of another family and for settings out of range.
    """

    parameter: str = "is_empty"  # an attribute that only parameters of the right family have
    key: str = ""  # the span group with the gold annotation
    main_score: str = ""  # the score that has weight 1 in training
    settings_kind: ClassVar[type[ComponentSettings]] = ComponentSettings
    heads: ClassVar[Collection[str]] = ()  # what its site scorers score, see `gold_sites`
    counted: ClassVar[Mapping[str, Any]] = {}  # settings of learners that are counted
    pairs: ClassVar[bool] = True  # whether its labels are few enough for pairs of them as states

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "settings_kind" in vars(cls):
            # For help(component), which shows the class and not the factory.
            text = f"{cleandoc(cls.__doc__ or '')}\n\n{SETTINGS}"
            cls.__doc__ = document(cls.settings_kind, text.strip())

    def __init__(
        self,
        vocab: Vocab,
        model: Model,
        name: str = "",
        *,
        scorer: Callable | None = None,
        **settings: Any,
    ):
        """Create an untrained component. Pipelines do this: see `Language.add_pipe`.

        model: an architecture, which a config gives as a block.
        scorer: the scoring function for `nlp.evaluate`.
        settings: the settings of the class, described above.
        """
        checked = self.settings_kind(**without_models(settings))
        name = name or checked.name
        # Third parties may register models of their own types, and a block of a config can return
        # anything.
        attrs = getattr(model, "attrs", {})
        if "estimator" not in attrs or not hasattr(attrs.get("parameters"), self.parameter):
            found = quoted(getattr(attrs.get("estimator"), "settings", model))
            raise StructlearnError("SL029", component=name, model=found, missing=self.parameter)
        if scorer is not None and not callable(scorer):
            wanted, value = "a function or none", quoted(scorer)
            raise StructlearnError("SL043", learner=name, name="scorer", wanted=wanted, value=value)
        self.vocab = vocab
        self.model = model
        self.name = name
        self.scorer = scorer
        for part in fields(checked):
            setattr(self, part.name, getattr(checked, part.name))
        if self.encoder:
            model.attrs.setdefault("potentials", Potentials())
            let_be_stored(model)
        self.cfg: dict[str, Any] = {"labels": []}
        self._training = _Training()
        self._intern()

    # --- for the subclass ---------------------------------------------------------------------
    @property
    def annotation(self) -> str:
        """The annotation that reference Docs must have, as error messages name it."""
        return f'doc.spans["{self.key}"]'

    def gold_labels(self, example: Example) -> Iterable[str]:
        """Get the labels in the reference of one example."""
        return {span.label_ for span in example.reference.spans.get(self.key, ())}

    def gold_data(self, example: Example) -> Any | None:
        """Convert one example to the data of the family; None if the reference is not annotated."""
        raise NotImplementedError

    @property
    def potentials(self) -> Potentials:
        """The site scorers that are combined with the learner; none without an encoder."""
        return self.model.attrs.get("potentials") or Potentials()

    @potentials.setter
    def potentials(self, potentials: Potentials) -> None:
        self.model.attrs["potentials"] = potentials

    @property
    def site_scorers(self) -> dict[str, SiteScorer]:
        """The site scorers in use, by the names of the heads."""
        return self.potentials.scorers if self.encoder else {}

    def pool_losses(self, examples: Sequence[Example]) -> Mapping[str, Sequence[Loss]]:
        """Get the losses of held-out examples by the weights of each pool."""
        return {}

    def calibrate(self, examples: Iterable[Example]) -> Any:
        """Fit the weights of the learner and of its site scorers on held-out examples, whose
        predicted Docs have vectors."""
        self.require_parameters()
        new = dict(self.site_scorers)
        for head, losses in self.pool_losses(list(examples)).items() if new else ():
            new[head] = new[head].replaced(weights=fit_weights(losses))
            self.potentials = Potentials(new)

    # --- labels and parameters ----------------------------------------------------------------
    def _loaded(self, place: object, exclude: Iterable[str]) -> None:
        super()._loaded(place, exclude)
        self._set_labels(self.cfg["labels"])
        self._training = _Training()

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that the component can predict."""
        return tuple(self.cfg["labels"])

    @property
    def label_data(self) -> list[str]:
        """The labels, for `spacy init labels`."""
        return list(self.labels)

    def add_label(self, label: str) -> int:
        """Add a label before `initialize`.

        Returns 0 if the label exists already, otherwise 1. Raises StructlearnError once the
        parameters exist, because the labels determine their shape.
        """
        if label in self.cfg["labels"]:
            return 0
        if not self.parameters.is_empty:
            raise StructlearnError("SL006", component=self.name, label=label)
        self._set_labels([*self.cfg["labels"], label])
        return 1

    def _set_labels(self, labels: Iterable[str]) -> None:
        self.cfg["labels"] = sorted(set(labels))
        self._intern()

    def _strings(self) -> Iterable[str]:
        """Get the strings that may be written to a Doc."""
        return self.labels

    def _intern(self) -> None:
        # A string that is first added in a memory zone is removed at the end of the zone.
        for string in self._strings():
            self.vocab.strings.add(string)

    def require_parameters(self) -> None:
        """Raise StructlearnError if the component is not trained."""
        if self.parameters.is_empty:
            raise StructlearnError("SL002", component=self.name)

    def require_adaptable(self) -> None:
        """Raise StructlearnError if the learner cannot learn on."""
        if not self.estimator.strengths:
            raise StructlearnError("SL094", component=self.name, learner=self.model.name)

    # --- training -----------------------------------------------------------------------------
    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: list[str] | None = None,
    ) -> None:
        """Determine labels and features from the examples, without training.

        Loaded parameters are replaced, which is logged as a warning, but kept if the examples have
        no gold annotation. spaCy calls this when it assembles a pipeline.

        labels: the labels, as from `spacy init labels`. None: those of the examples.
        Raises StructlearnError if there is neither gold annotation nor parameters.
        """
        validate_get_examples(get_examples, f"{type(self).__name__}.initialize")
        examples = list(get_examples())
        gold_labels = {label for example in examples for label in self.gold_labels(example)}
        if not gold_labels:
            if self.parameters.is_empty:
                raise StructlearnError("SL005", component=self.name, annotation=self.annotation)
            return
        if not (self.parameters.is_empty or self._training.from_scratch):
            logger.warning("%s: trained from scratch; its parameters are replaced", self.name)
        self._set_labels(labels or gold_labels.union(self.labels))
        data = [gold for example in examples if (gold := self.gold_data(example)) is not None]
        self._training = _Training(from_scratch=True)
        if self.encoder:
            self.potentials = Potentials()
        self._initialize(data)
        self._intern()

    def _initialize(self, data: list) -> None:
        self.parameters = self.estimator.initialize(data, self.labels, self.parameters)

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Any = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Add new examples, then run `iterations_per_step` iterations over all examples so far.

        drop, sgd: ignored; the objective is deterministic.
        losses: updated with the objective, under the name of the component.
        Returns losses. Raises StructlearnError if the component should learn on and its learner
        cannot.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.update")
        self._begin(examples)
        self._add(examples)
        self._learn_sites(passes=1)
        if self._training.trainer is not None:
            for _ in range(self.iterations_per_step):
                if not self._training.trainer.step():
                    break
            losses[self.name] += self._training.trainer.value
            self.parameters = self._training.trainer.parameters()
            self._intern()
        return losses

    def finish_update(self, sgd: Any) -> None:
        """Do nothing: spaCy's optimizer is not used."""

    def fit(
        self,
        examples: Iterable[Example],
        *,
        dev: Sequence[Example] = (),
        on_score: Callable[[int, float], None] | None = None,
        **options: Any,
    ) -> float:
        """Train on these examples alone, from the current parameters to the optimum.

        If the component learns on, the strength of the prior is chosen on held-out examples, unless
        it is one of the options.
        dev: examples that choose the parameters: those with the best main score, after
            `iterations_per_step` iterations, twice as many and so on. Without any, the last ones.
        on_score: is called with the number of iterations and each of these scores.
        options: progress and checkpoints, see `learning.training.Trainer.run`.
        Returns the objective at the optimum. Raises StructlearnError if no example has gold
        annotation and for a damaged checkpoint.
        """
        examples = list(examples)
        self._begin(examples)
        training = _Training(from_scratch=self._training.from_scratch)
        self._training = training
        if not training.from_scratch:
            training.strength = options.pop("strength", None) or self._best_strength(examples)
        self._add(examples, training.strength)
        self._learn_sites()
        trainer = training.trainer
        if trainer is None:
            raise StructlearnError("SL005", component=self.name, annotation=self.annotation)
        kind = type(self.parameters)

        def compare() -> None:
            """Keep the current parameters, if it is time and they have the best score."""
            if trainer.n_iterations % self.iterations_per_step and not trainer.finished:
                return
            self.parameters = trainer.parameters()
            score = self.main_score_on(list(dev))
            if on_score is not None:
                on_score(trainer.n_iterations, score)
            if trainer.best is None or score >= trainer.best[0]:
                trainer.best = score, self.parameters

        self.parameters = trainer.run(after_step=compare if dev else None, **options)
        if trainer.best is not None:
            _, best = trainer.best
            is_stored = isinstance(best, np.ndarray)  # in a training that was resumed
            self.parameters = kind.from_bytes(best.tobytes()) if is_stored else best
        self._intern()
        return trainer.value

    @property
    def adaptation(self) -> tuple[int, float | None, tuple[float, float] | None]:
        """How the last `fit` went: (number of examples with gold annotation, strength, scores).

        The strength of the prior is None for training from scratch. The scores are those on
        held-out folds of the examples, before and after learning on with this strength; None if it
        was not chosen.
        """
        return self._training.n_examples, self._training.strength, self._training.held_out

    def name_features(self, docs: Sequence[Doc]) -> None:
        """Store readable names of features, from the words of these Docs, if the learner can."""

    def _begin(self, examples: list[Example]) -> None:
        if self._training.from_scratch:
            return
        if self.reinitialise:
            self.initialize(lambda: examples)
        else:
            new = {label for example in examples for label in self.gold_labels(example)}
            self._set_labels(new.union(self.labels))

    def _add(self, examples: list[Example], strength: float | None = None) -> None:
        """Add the examples that are new to the training data. strength: None is the default."""
        training = self._training
        new = {id(e.reference): e for e in examples if id(e.reference) not in training.seen}
        training.seen |= {key: example.reference for key, example in new.items()}
        if self.encoder:
            self._add_sites(new.values())
        fresh = [gold for e in new.values() if (gold := self.gold_data(e)) is not None]
        if not fresh:
            return
        training.n_examples += len(fresh)
        self.require_parameters()
        if not training.from_scratch:
            training.data += fresh
            training.origin = self.parameters if training.origin is None else training.origin
            training.trainer = self._adapter(training.origin, training.data, strength)
        elif training.trainer is None:
            training.trainer = self.estimator.trainer(self.parameters, fresh)
        else:
            training.trainer.add(fresh)

    def _add_sites(self, examples: Iterable[Example]) -> None:
        """Add the sites of examples to the training data of the site scorers."""
        found = [site_examples(self, example) for example in examples]
        training, scorers = self._training.scorers, self.potentials.scorers
        for head in self.heads:
            if head not in training:
                training[head] = ScorerTraining(scorers.get(head))
            training[head].add([own[head] for own in found if head in own])

    def _learn_sites(self, passes: int | None = None) -> None:
        """Let the site scorers pass through their data. passes: None is as often as they need."""
        training = self._training.scorers
        for own in training.values():
            for _ in range(passes or own.passes):
                own.step()
        learned = {head: own.scorer for head, own in training.items() if own.scorer is not None}
        if learned:
            self.potentials = Potentials({**self.potentials.scorers, **learned})

    def _adapter(self, origin: Any, data: list[Any], strength: float | None = None) -> Trainer:
        self.require_adaptable()
        strength = self.estimator.strengths[0] if strength is None else strength
        return self.estimator.adapter(origin, data, self.labels, strength=strength)

    def _best_strength(self, examples: list[Example]) -> float:
        """Choose the strength of the prior by cross-validation.

        The default wins unless another strength is better by more than two standard errors of the
        difference over the folds, similar to Breiman et al. (1984), section 3.4.3; also if there
        are too few examples or the component has no scorer.
        """
        self.require_adaptable()
        origin, strengths = self.parameters, self.estimator.strengths
        pairs = [(example, self.gold_data(example)) for example in examples]
        annotated = [(example, gold) for example, gold in pairs if gold is not None]
        if len(annotated) < LEAST_EXAMPLES or self.scorer is None:
            return strengths[0]
        held_out = [[example for example, _ in annotated[fold::FOLDS]] for fold in range(FOLDS)]
        before = [self.main_score_on(part) for part in held_out]
        scores = np.zeros((len(strengths), FOLDS))
        try:
            for fold, part in enumerate(held_out):
                rest = [gold for i, (_, gold) in enumerate(annotated) if i % FOLDS != fold]
                for k, strength in enumerate(strengths):
                    self.parameters = self._adapter(origin, rest, strength).run()
                    scores[k, fold] = self.main_score_on(part)
        finally:
            self.parameters = origin
        differences = scores - scores[0]
        gains = differences.mean(axis=1)
        errors = differences.std(axis=1, ddof=1) / np.sqrt(FOLDS)
        # The first of several with the same score.
        best = int(np.argmax(np.where(gains > 2 * errors, gains, 0.0)))
        self._training.held_out = float(np.mean(before)), float(scores[best].mean())
        return strengths[best]

    def main_score_on(self, examples: list[Example]) -> float:
        """Return the main score of predictions on copies of the Docs."""
        docs = self.pipe(copy_with_vectors(example.predicted) for example in examples)
        pairs = [Example(doc, e.reference) for doc, e in zip(docs, examples, strict=True)]
        return self.score(pairs).get(self.main_score) or 0.0

    # --- prediction ---------------------------------------------------------------------------
    def __call__(self, doc: Doc) -> Doc:
        """Annotate a Doc."""
        with uncollected():
            return super().__call__(add_classes(doc, self.vocab))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Annotate Docs in batches."""
        check_argument("batch_size", batch_size, ge=1)
        docs = (add_classes(doc, self.vocab) for doc in stream)
        for batch in minibatch(docs, batch_size):
            with uncollected():
                annotated = list(super().pipe(batch, batch_size=batch_size))
            yield from annotated
