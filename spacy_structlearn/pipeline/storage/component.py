"""Storage of components: settings and parameters as files or bytes, in which damage is found.

A component is stored as two parts, which spaCy names "cfg" and "model". The model is that of thinc,
whose parameters have a checksum of their own. The settings are JSON, with the kind of the component
and a digest of both parts. If the component is in a pipeline with digests, these are checked
instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, ClassVar, TypeVar

import srsly
from spacy import util
from spacy.pipeline import TrainablePipe
from thinc.api import Model
from thinc.model import deserialize_attr, serialize_attr

from ...errors import StructlearnError
from ...learning.settings import Settings, quoted, violation
from ...learning.training import Estimator
from ...reading import read_bytes
from ...serialization import DAMAGE, DIGEST_SIZE
from ...words.classes import NOT_SHARED, sharing
from . import digests
from .word_classes import word_classes

PARTS = ("cfg", "model")
KIND, DIGEST = "component", "digest"  # in the stored settings

C = TypeVar("C", bound="StoredComponent")


class StoredComponent(TrainablePipe):
    """A component whose model holds parameters with `to_bytes` and `from_bytes`."""

    settings_kind: ClassVar[type[Settings]] = Settings
    cfg_types: ClassVar[dict[str, Any]] = {"labels": list[str]}

    @property
    def parameters(self) -> Any:
        """The learned parameters: the model object of the family."""
        return self.model.attrs["parameters"]

    @parameters.setter
    def parameters(self, parameters: Any) -> None:
        self.model.attrs["parameters"] = parameters

    @property
    def estimator(self) -> Estimator:
        """The learner that fits the parameters, with the settings of the architecture."""
        return self.model.attrs["estimator"]

    # --- for the subclass ---------------------------------------------------------------------
    def _answers(self) -> Iterable[str]:
        """Get the labels that the parameters, which are not empty, can predict."""
        return self.parameters.labels

    def _loaded(self, place: object, exclude: Iterable[str]) -> None:
        """Check that the labels of the model are in `cfg`, and that its columns are read."""
        if self.parameters.is_empty or "model" in exclude:
            return
        wanted = tuple(self.estimator.attributes)
        needed = getattr(self.parameters, "attributes", wanted)
        if needed != wanted:
            read = {"found": ", ".join(needed), "wanted": ", ".join(wanted) or "nothing"}
            raise StructlearnError("SL088", place=place, component=self.name, **read)
        unknown = sorted(set(self._answers()).difference(self.cfg["labels"]))
        if unknown and "cfg" not in exclude:
            given, labels = ", ".join(unknown[:5]), quoted(self.cfg["labels"])
            problem = f"labels is {labels}, without labels that the model gives: {given}"
            raise StructlearnError("SL081", place=place, problem=problem)

    # --- saving -------------------------------------------------------------------------------
    def to_disk(self, path: Any, *, exclude: Iterable[str] = ()) -> None:
        """Save the component to a folder.

        Digests of the pipeline around the folder are removed if they cover the replaced files.
        Links in place of its files are replaced, not written through. Raises StructlearnError if
        another process saves a pipeline to the same folder at the same time.
        """
        folder, parts = util.ensure_path(path), self._parts(exclude)
        with digests.alone(folder):
            digests.forget(folder.parent, folder.name)
            digests.remove_links(folder)
            folder.mkdir(exist_ok=True)
            if "vocab" not in exclude:
                self.vocab.to_disk(folder / "vocab", exclude=exclude)
            for name, data in parts.items():
                (folder / name).write_bytes(data)

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Serialize the component to bytes."""
        parts = self._parts(exclude)
        if "vocab" not in exclude:
            parts["vocab"] = self.vocab.to_bytes(exclude=exclude)
        return srsly.msgpack_dumps(parts)

    def _parts(self, exclude: Iterable[str]) -> dict[str, bytes]:
        let_be_stored(self.model)
        with sharing(word_classes(self.vocab)):
            model = self.model.to_bytes()
        cfg = json.loads(srsly.json_dumps(self.cfg)) | {KIND: self.settings_kind.name}
        cfg[DIGEST] = _digest(cfg, model)
        parts = {"cfg": srsly.json_dumps(cfg, indent=2).encode(), "model": model}
        return {name: part for name, part in parts.items() if name not in exclude}

    # --- loading ------------------------------------------------------------------------------
    def from_disk(self: C, path: Any, *, exclude: Iterable[str] = ()) -> C:
        """Load a folder written by `to_disk`.

        Raises StructlearnError for files that are damaged or were written by another component, and
        OSError for files that cannot be read.
        """
        folder = util.ensure_path(path)
        exclude = tuple(exclude)
        checked = digests.check_component(folder, exclude=exclude)
        if "vocab" not in exclude:
            self.vocab.from_disk(folder / "vocab", exclude=exclude)
        places = {name: folder / name for name in PARTS if name not in exclude}
        parts = {name: read_bytes(place) for name, place in places.items()}
        self._read_parts(parts, places, exclude, checked)
        return self

    def from_bytes(self: C, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> C:
        """Load the result of `to_bytes`. Raises StructlearnError for damaged bytes."""
        place = f"what from_bytes was given for {self.name!r}"
        try:
            stored = dict(srsly.msgpack_loads(bytes_data))
            if set(PARTS).isdisjoint({*stored, *exclude}):
                raise ValueError("neither settings nor parameters")
            if not all(isinstance(stored.get(name, b""), bytes) for name in PARTS):
                raise TypeError("settings or parameters that are no bytes")
        except DAMAGE as error:
            raise self._unloadable(place, error) from error
        if "vocab" in stored and "vocab" not in exclude:
            self.vocab.from_bytes(stored["vocab"], exclude=exclude)
        parts = {name: stored[name] for name in PARTS if name in stored and name not in exclude}
        self._read_parts(parts, dict.fromkeys(PARTS, place), exclude, checked=False)
        return self

    def _read_parts(
        self, parts: dict[str, bytes], places: dict[str, Any], exclude: Iterable[str], checked: bool
    ) -> None:
        """Load the parts. checked: whether the digests of a pipeline cover them."""
        cfg, digest = self._read_cfg(parts["cfg"], places["cfg"]) if "cfg" in parts else ({}, None)
        if "model" in parts:
            before = dict(self.model.attrs)
            self._read_model(parts["model"], places["model"])
            if digest is not None and not checked and digest != _digest(cfg, parts["model"]):
                self.model.attrs.update(before)
                problem = "settings and model are not what was saved; if the settings were edited "
                problem += "on purpose, remove their digest"
                raise self._unloadable(places["model"], problem)
        self.cfg.update((name, value) for name, value in cfg.items() if name != KIND)
        self._loaded(next(iter(places.values()), ""), exclude)

    def _read_cfg(self, data: bytes, place: object) -> tuple[dict[str, Any], str | None]:
        """Get the stored settings and, if there is one, the digest."""
        try:
            # Not srsly, which does not say where NaN is.
            cfg = dict(json.loads(data))
        except (ValueError, TypeError) as error:  # not JSON, not UTF-8, or not a dict
            raise StructlearnError("SL081", place=place, problem=str(error)) from error
        found, wanted = cfg.get(KIND), self.settings_kind.name
        if found not in (None, wanted):
            kinds = {"found": found, "wanted": wanted}
            raise StructlearnError("SL089", place=place, component=self.name, **kinds)
        for name, annotation in self.cfg_types.items():
            value = cfg.get(name, self.cfg[name] if name != "labels" else None)
            if limits := violation(value, annotation):
                problem = f"{name} is {quoted(value)}; it must be {limits}"
                raise StructlearnError("SL081", place=place, problem=problem)
        return cfg, cfg.pop(DIGEST, None)

    def _read_model(self, data: bytes, place: object) -> None:
        let_be_stored(self.model)
        try:
            stored = srsly.msgpack_loads(data)
            # thinc ignores attributes that it does not know.
            of_this_kind = _outline(stored) == _outline(self.model.to_dict())
            if of_this_kind:
                with sharing(word_classes(self.vocab)):
                    self.model.from_dict(stored)
        except DAMAGE as error:
            if getattr(error, "code", None) == NOT_SHARED:
                raise
            raise self._unloadable(place, error) from error
        if not of_this_kind:
            name = self.model.name
            raise StructlearnError("SL082", place=place, component=self.name, architecture=name)

    def _unloadable(self, place: object, problem: object) -> StructlearnError:
        # Errors of this package already say how to mend the problem.
        if isinstance(problem, Exception) and not isinstance(problem, StructlearnError):
            problem = f"it is no model ({type(problem).__name__}: {problem})"
        given = {"component": self.name, "problem": str(problem).rstrip(".")}
        return StructlearnError("SL080", place=place, **given)


def _digest(cfg: dict[str, Any], model: bytes) -> str:
    digest = blake2b(json.dumps(cfg, sort_keys=True).encode(), digest_size=DIGEST_SIZE)
    digest.update(model)
    return digest.hexdigest()


def let_be_stored(model: Model) -> None:
    """Let thinc serialize the parameters of a model by their own `to_bytes` and `from_bytes`.

    thinc ignores attributes of unknown types. Types are registered when a model with them exists,
    created or unpickled, because not all families are imported in every process.
    """
    for kind in map(type, model.attrs.values()):
        if hasattr(kind, "from_bytes") and kind not in serialize_attr.registry:
            serialize_attr.register(kind, lambda _, value, *place: value.to_bytes())
            deserialize_attr.register(kind, lambda held, data, *place: type(held).from_bytes(data))


def _outline(stored: dict[str, list]) -> list:
    """Summarise what a `thinc.Model` stores. stored: the result of `Model.to_dict`."""
    parts = (stored[part] for part in ("nodes", "attrs", "params", "shims"))
    return [
        (node["name"], sorted(attrs), params, shims)
        for node, attrs, params, shims in zip(*parts, strict=True)
    ]
