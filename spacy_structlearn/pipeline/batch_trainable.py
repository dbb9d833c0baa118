"""The base of our components: learners that need all their training data at once.

spaCy trains by small steps on small batches. L-BFGS, EM and counting need the whole training set
in every iteration, so one spaCy step is here a few iterations over all examples seen so far
(`iterations_per_step`). With the batcher `spacy_structlearn.full_batch.v1` the first step sees
everything; with any other batcher the data is complete after one epoch, and the optimum is the
same. Examples are turned into arrays once, keyed by their reference Doc, which spaCy keeps while
it copies the predicted one.

What is learned is one object of the family, held as the attribute "parameters" of the component's
`thinc.Model`, beside the "estimator" that learns it. spaCy's own `to_disk`, `to_bytes` and pickle
then store it; nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from inspect import Parameter, Signature
from typing import Any, ClassVar

import srsly
from spacy import util
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Config, Model
from thinc.model import deserialize_attr, serialize_attr

from ..errors import StructlearnError
from ..learning.settings import Settings, document, setting, signature
from ..learning.training import Estimator, Trainer
from ..parallel.shards import MakeEngine, make_engine
from ..serialization import DAMAGE
from . import digests


class _Training:
    """The running training of one component. Never travels: pickling drops it."""

    def __init__(self, make_engine: MakeEngine = make_engine) -> None:
        self.make_engine = make_engine
        self.trainer: Trainer | None = None
        # The references themselves are kept, so that no id() is ever given out twice.
        self.seen: dict[int, Doc] = {}

    def __reduce__(self) -> tuple:
        return (_Training, ())


@dataclass(frozen=True, kw_only=True)
class ComponentSettings(Settings):
    """Settings of every component. Each is an attribute of the component, which may be changed."""

    iterations_per_step: int = setting(
        10, ge=1, help="Steps of the learner in one `nlp.update`, such as iterations of L-BFGS."
    )


class BatchTrainable(TrainablePipe):
    """A component whose learner is an `Estimator`. Subclasses turn Docs into the family's data.

    They implement `annotation`, `gold_labels`, `gold_data`, `predict` and `set_annotations`.
    settings: those of `settings_kind`, by their names.
    RAISES: SL029 for a model of another family, SL043 for a setting out of range.
    """

    parameter: str = "is_empty"  # an attribute that only parameters of the right family have
    settings_kind: ClassVar[type[ComponentSettings]] = ComponentSettings

    def __init__(
        self,
        vocab: Vocab,
        model: Model,
        name: str = "",
        *,
        scorer: Callable | None = None,
        **settings: Any,
    ):
        checked = self.settings_kind(**settings)
        name = name or checked.name
        # What third parties register is asked for what it can do, not for its type.
        held = model.attrs.get("parameters")
        if "estimator" not in model.attrs or not hasattr(held, self.parameter):
            raise StructlearnError(
                "SL029", component=name, model=model.name[:40], missing=self.parameter
            )
        self.vocab = vocab
        self.model = model
        self.name = name
        self.scorer = scorer
        for part in fields(checked):
            setattr(self, part.name, getattr(checked, part.name))
        self.cfg: dict[str, Any] = {"labels": []}
        self._training = _Training()

    # --- for the subclass ---------------------------------------------------------------------
    @property
    def annotation(self) -> str:
        """What the reference Docs must carry, as an error message names it."""
        raise NotImplementedError

    def gold_labels(self, example: Example) -> Iterable[str]:
        """The labels in the reference of one example."""
        raise NotImplementedError

    def gold_data(self, example: Example) -> Any | None:
        """One example as the family's data, or None if its reference is not annotated."""
        raise NotImplementedError

    # --- labels and parameters ----------------------------------------------------------------
    @property
    def parameters(self) -> Any:
        """What is learned: the family's model object."""
        return self.model.attrs["parameters"]

    @parameters.setter
    def parameters(self, parameters: Any) -> None:
        self.model.attrs["parameters"] = parameters

    @property
    def estimator(self) -> Estimator:
        """What fits the parameters: the settings of the architecture."""
        return self.model.attrs["estimator"]

    @property
    def labels(self) -> tuple[str, ...]:
        """What the component can answer, in the order in which they were added."""
        return tuple(self.cfg["labels"])

    @property
    def label_data(self) -> list[str]:
        """For `spacy init labels`."""
        return list(self.labels)

    def add_label(self, label: str) -> int:
        """Add a label before `initialize`. RETURNS: 0 if it was there already, otherwise 1.

        RAISES: SL006 once the parameters exist, whose shape the labels fix.
        """
        if label in self.cfg["labels"]:
            return 0
        if not self.parameters.is_empty:
            raise StructlearnError("SL006", component=self.name, label=label)
        self._set_labels([*self.cfg["labels"], label])
        return 1

    def _set_labels(self, labels: Iterable[str]) -> None:
        # Interned now: a string first interned in a memory zone is gone when the zone ends.
        self.cfg["labels"] = sorted(set(labels))
        for label in self.cfg["labels"]:
            self.vocab.strings.add(label)

    def require_parameters(self) -> None:
        """Raise SL002 if the component has learned nothing yet."""
        if self.parameters.is_empty:
            raise StructlearnError("SL002", component=self.name)

    # --- training -----------------------------------------------------------------------------
    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: list[str] | None = None,
    ) -> None:
        """Fix labels and features from the examples; nothing is trained here.

        Parameters that were loaded survive an `initialize` without gold annotation, which spaCy
        calls when it assembles a pipeline.

        get_examples: returns the training examples. labels: as from `spacy init labels`.
        RAISES: SL005 if no example has a reference annotation and there are no parameters yet.
        """
        validate_get_examples(get_examples, f"{type(self).__name__}.initialize")
        examples = list(get_examples())
        found = {label for example in examples for label in self.gold_labels(example)}
        if not found:
            if self.parameters.is_empty:
                raise StructlearnError("SL005", component=self.name, annotation=self.annotation)
            return
        self._set_labels(labels or found.union(self.labels))
        data = [gold for example in examples if (gold := self.gold_data(example)) is not None]
        self._training = _Training()
        self._initialize(data)

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
        """Take in new examples, then run `iterations_per_step` iterations over all seen so far.

        `drop` and `sgd` are spaCy's and unused: the objective is deterministic.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.update")
        self._take_in(examples)
        if self._training.trainer is not None:
            for _ in range(self.iterations_per_step):
                if not self._training.trainer.step():
                    break
            losses[self.name] += self._training.trainer.value
            self.parameters = self._training.trainer.parameters()
        return losses

    def finish_update(self, sgd: Any) -> None:
        """Nothing: what is learned has its own steps, and spaCy's optimizer no part in it."""

    def fit(
        self,
        examples: Iterable[Example],
        *,
        make_engine: MakeEngine = make_engine,
        **options: Any,
    ) -> float:
        """Train on these examples alone, from the present parameters straight to the optimum.

        make_engine: makes what has the shards of the data, see `parallel.shards`. options: progress
        and checkpoints, see `learning.training.Trainer.run`.
        RETURNS: the objective at the optimum. RAISES: SL085 for a checkpoint that is damaged.
        """
        self._training = _Training(make_engine)
        self._take_in(list(examples))
        trainer = self._training.trainer
        if trainer is None:
            raise StructlearnError("SL005", component=self.name, annotation=self.annotation)
        self.parameters = trainer.run(**options)
        return trainer.value

    def name_features(self, docs: Sequence[Doc]) -> None:
        """Let the parameters call features by the words of these Docs; most learners cannot."""

    def _take_in(self, examples: list[Example]) -> None:
        """Add the examples that were not seen before to the training data."""
        training = self._training
        fresh = []
        for example in examples:
            key = id(example.reference)
            if key in training.seen:
                continue
            training.seen[key] = example.reference
            data = self.gold_data(example)
            if data is not None:
                fresh.append(data)
        if not fresh:
            return
        self.require_parameters()
        if training.trainer is None:
            training.trainer = self.estimator.trainer(
                self.parameters, fresh, make_engine=training.make_engine
            )
        else:
            training.trainer.add(fresh)

    # --- to and from disk and bytes -----------------------------------------------------------
    def to_disk(self, path: Any, *, exclude: Iterable[str] = ()) -> None:
        """Save the component to a folder, with digests of its files.

        Digests of the pipeline that the folder is in, which are of what is replaced, go.
        """
        folder = util.ensure_path(path)
        let_be_stored(self.model)
        digests.forget(folder.parent, folder.name)
        super().to_disk(folder, exclude=exclude)
        digests.write(folder)

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The component as bytes."""
        let_be_stored(self.model)
        return super().to_bytes(exclude=exclude)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> BatchTrainable:
        """Load what `to_bytes` gave. RAISES: SL080 to SL082 for bytes that are damaged."""
        place = f"what from_bytes was given for {self.name!r}"
        setters = {
            "cfg": lambda data: self._read_cfg(data, place),
            "vocab": lambda data: self.vocab.from_bytes(data, exclude=exclude),
            "model": lambda data: self._read_model(data, place),
        }
        try:
            stored = dict(srsly.msgpack_loads(bytes_data))
        except DAMAGE as error:
            raise self._damaged(place, error) from error
        util.from_dict(stored, setters, exclude)
        self._check_labels(place, exclude)
        return self._loaded()

    def from_disk(self, path: Any, *, exclude: Iterable[str] = ()) -> BatchTrainable:
        """Load what `to_disk` wrote.

        RAISES: SL080 to SL083 for a file that is damaged, or was not written by a component like
        this one; OSError for one that cannot be read.
        """
        path = util.ensure_path(path)
        digests.check_component(path, exclude=tuple(exclude))
        readers = {
            "cfg": lambda file: self._read_cfg(file.read_bytes(), file),
            "vocab": lambda file: self.vocab.from_disk(file, exclude=exclude),
            "model": lambda file: self._read_model(file.read_bytes(), file),
        }
        util.from_disk(path, readers, exclude)
        self._check_labels(path / "cfg", exclude)
        return self._loaded()

    def _read_model(self, data: bytes, place: object) -> None:
        let_be_stored(self.model)
        try:
            stored = srsly.msgpack_loads(data)
            # thinc takes in what it knows of these and ignores the rest; no checksum covers them.
            fits = _outline(stored) == _outline(self.model.to_dict())
            if fits:
                self.model.from_dict(stored)
        except DAMAGE as error:
            raise self._damaged(place, error) from error
        if not fits:
            raise StructlearnError(
                "SL082", place=place, component=self.name, architecture=self.model.name
            )

    def _damaged(self, place: object, error: Exception) -> StructlearnError:
        # Ours say themselves what is to be done.
        own = isinstance(error, StructlearnError)
        problem = f"{error}" if own else f"it is no model ({type(error).__name__}: {error})"
        return StructlearnError(
            "SL080", place=place, component=self.name, problem=problem.rstrip(".")
        )

    def _read_cfg(self, data: str | bytes, place: object) -> None:
        try:
            cfg = srsly.json_loads(data)
            sound = isinstance(cfg, dict) and self._is_sound(cfg)
        except ValueError as error:  # no JSON, or no UTF-8
            raise StructlearnError("SL081", place=place, problem=str(error)) from error
        if not sound:
            raise StructlearnError("SL081", place=place, problem="its values are of other types")
        self.cfg.update(cfg)

    def _is_sound(self, cfg: dict[str, Any]) -> bool:
        """Whether `cfg`, as it was stored, has the types that the component reads it as."""
        labels = cfg.get("labels")
        return isinstance(labels, list) and all(isinstance(label, str) for label in labels)

    def _answers(self) -> Iterable[str]:
        """The labels that the parameters can give, which are not empty; none: it cannot be told."""
        return ()

    def _check_labels(self, place: object, exclude: Iterable[str]) -> None:
        """Raise SL081 if the model can give labels that the settings do not have."""
        if self.parameters.is_empty or not {"cfg", "model"}.isdisjoint(exclude):
            return
        unknown = sorted(set(self._answers()).difference(self.cfg["labels"]))
        if unknown:
            problem = f"without labels that the model gives: {', '.join(unknown[:5])}"
            raise StructlearnError("SL081", place=place, problem=problem)

    def _loaded(self) -> BatchTrainable:
        self._set_labels(self.cfg["labels"])
        self._training = _Training()
        return self


def factory(
    component: type[BatchTrainable],
    *,
    model: str,
    scorer: str,
    score_weights: dict[str, float | None],
    blocks: dict[str, Any] | None = None,
    assigns: Iterable[str] = (),
    requires: Iterable[str] = (),
) -> Callable[..., BatchTrainable]:
    """Register the factory of a component, whose settings are those of its class.

    model: the default architecture, as a section [model] of a config. scorer: the default scorer.
    blocks: what a config has for settings whose default is not a plain value. The rest: see
    `Language.factory`.
    """
    kind = component.settings_kind
    settings = signature(kind).parameters
    defaults = {name: setting.default for name, setting in settings.items()} | (blocks or {})

    def make(nlp: Language, name: str, model: Model, scorer: Any, **given: Any) -> BatchTrainable:
        return component(nlp.vocab, model, name, scorer=scorer, **given)

    ours = [p for p in Signature.from_callable(make).parameters.values() if p.name != "given"]
    given = [setting.replace(default=Parameter.empty) for setting in settings.values()]
    make.__signature__ = Signature([*ours, *given])  # type: ignore[attr-defined]
    make.__name__ = make.__qualname__ = f"make_{kind.name}"
    further = "model: an architecture.\nscorer: how `nlp.evaluate` judges it."
    make.__doc__ = f"{document(kind)}\n{further}"
    return Language.factory(
        kind.name,
        assigns=list(assigns),
        requires=list(requires),
        default_config={
            "model": Config().from_str(model)["model"],
            **defaults,
            "scorer": {"@scorers": scorer},
        },
        default_score_weights=score_weights,
        func=make,
    )


def let_be_stored(model: Model) -> None:
    """Have thinc store what a model of ours holds by its own `to_bytes` and `from_bytes`.

    thinc leaves out what it does not know how to store. It is told of classes when there is a model
    with one of them, be it made here or unpickled: not all of them are imported in every process.
    """
    for name in ("parameters", "classes"):
        kind = type(model.attrs.get(name))
        if hasattr(kind, "from_bytes") and kind not in serialize_attr.registry:
            serialize_attr.register(kind, _stored)
            deserialize_attr.register(kind, partial(_restored, kind))


def _stored(_: Any, value: Any, name: str, model: Model) -> bytes:
    return value.to_bytes()


def _restored(kind: type, _: Any, value: bytes, name: str, model: Model) -> Any:
    return kind.from_bytes(value)


def _outline(stored: dict[str, list]) -> list:
    """What a `thinc.Model` stores of its layers beside their arrays and attributes.

    stored: as from `Model.to_dict`. Sizes are left out: a model may get them by being loaded.
    """
    outline: list = [sorted(stored)]
    parts = (stored[part] for part in ("nodes", "attrs", "params", "shims"))
    for node, attrs, params, shims in zip(*parts, strict=True):
        names = [sorted(held) for held in (node, node["dims"], attrs, params)]
        outline.append((node["index"], node["name"], node["refs"], names, type(shims), len(shims)))
    return outline
