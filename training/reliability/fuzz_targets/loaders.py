"""Fuzz stored models and checkpoints by changing fields and correcting checksums.

Loaded components predict, and their predictions must be valid. Loaded trainers continue. What is
loaded is stored and loaded again, and must have the same bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import srsly

from spacy_structlearn import serialization
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.constituency_parser import _content

from . import checks
from .choices import CHANGES, Choices, changed, changed_bytes
from .workloads import Trained, examples

ARRAY = serialization.ARRAY_TAG
HEADER = len(serialization.MAGIC) + serialization.DIGEST_SIZE
STEP_SHARE = 12  # continue training from every 12th state
USED_SHARE = 4  # annotate with every fourth model
WHOLE_SHARE = 16  # every 16th input is a component instead of a part of its model


class Packed(dict):
    """Unpacked data of `serialization.pack`: kind, version and fields, which can be nested."""


# --- bytes ----------------------------------------------------------------------------------------
def unpacked(data: bytes) -> Packed:
    """Unpack data like `serialization.unpack`, recursively and without checks."""
    return Packed(_read(srsly.msgpack_loads(data[HEADER:], use_list=True)))


def _read(value: Any) -> Any:
    if isinstance(value, dict) and ARRAY in value:
        array = np.frombuffer(value["data"], value[ARRAY]).reshape(value["shape"])
        data = array.tobytes() if array.dtype == np.uint8 else b""
        return unpacked(data) if data.startswith(serialization.MAGIC) else array.copy()
    if isinstance(value, dict):
        return {key: _read(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_read(item) for item in value]
    return value


def packed(value: Packed, choices: Choices) -> bytes:
    """Pack data with correct checksums, sometimes with a wrong byte or shape."""
    payload = bytearray(srsly.msgpack_dumps(_written(dict(value), choices)))
    if choices.one_in(16) and payload:
        payload[choices.index(len(payload))] = choices.byte()
    if choices.one_in(64):
        del payload[choices.index(len(payload)) :]
    return serialization.MAGIC + serialization._digest(bytes(payload)) + bytes(payload)


def _written(value: Any, choices: Choices) -> Any:
    if isinstance(value, Packed):
        return _written(np.frombuffer(packed(value, choices), np.uint8), choices)
    if isinstance(value, np.ndarray):
        shape = list(value.shape)
        if choices.one_in(128):
            shape = changed([*shape, 1], choices)
        dtype = value.dtype.newbyteorder("<")
        return {ARRAY: dtype.str, "data": value.astype(dtype).tobytes(), "shape": shape}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {key: _written(item, choices) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_written(item, choices) for item in value]
    return value


def mutated(value: Packed, choices: Choices) -> bytes:
    """Pack data with up to three changed values. Return b"" if msgpack cannot pack them."""
    fresh: Any = value
    for _ in range(choices.one_of(CHANGES)):
        # The kind and the version are the first check.
        if choices.one_in(32) or not isinstance(fresh, dict) or "fields" not in fresh:
            fresh = _put(fresh, choices)
        else:
            fresh = type(value)({**fresh, "fields": _put(fresh["fields"], choices)})
    try:
        return packed(fresh, choices)
    except (ValueError, TypeError, OverflowError):  # such as integers of more than 64 bits
        return b""


def _put(value: Any, choices: Choices) -> Any:
    """Change one value, possibly a nested one."""
    here = choices.one_in(12)
    if isinstance(value, dict) and value and not here:
        key = choices.one_of(list(value))
        return type(value)({**value, key: _put(value[key], choices)})
    if isinstance(value, list) and value and not here and isinstance(value[0], (dict, list)):
        place = choices.index(len(value))
        return [*value[:place], _put(value[place], choices), *value[place + 1 :]]
    fresh = changed(dict(value) if isinstance(value, Packed) else value, choices, stored=True)
    return Packed(fresh) if isinstance(value, Packed) and isinstance(fresh, dict) else fresh


# --- targets --------------------------------------------------------------------------------------
class Loader:
    """A target: the models of a component. What is loaded annotates a Doc."""

    def __init__(self, trained: Trained):
        component = self.component = trained.component
        self.stored = srsly.msgpack_loads(component.to_bytes(exclude=["vocab"]))
        del self.stored["digest"]  # which would find every change
        self.bytes = srsly.msgpack_dumps(self.stored)
        self.nodes = list(component.model.walk())
        attributes = srsly.msgpack_loads(self.stored["model"])["attrs"]
        self.places = [
            (node, name, unpacked(value))
            for node, values in zip(self.nodes, attributes, strict=True)
            for name, value in values.items()
            if isinstance(value, bytes) and value.startswith(serialization.MAGIC)
        ]
        self.docs = [example.predicted for example in examples(trained.nlp, 3)]

    def __call__(self, data: bytes) -> str:
        choices = Choices(data)
        load = self._component if choices.one_in(WHOLE_SHARE) else self._part
        attributes = [dict(node.attrs) for node in self.nodes]
        try:
            load(choices)
            if choices.one_in(USED_SHARE):
                self._use(choices)
            return checks.ANSWERED
        except StructlearnError as error:
            return error.code
        finally:
            for node, own in zip(self.nodes, attributes, strict=True):
                node.attrs.update(own)

    def _part(self, choices: Choices) -> None:
        """Load one of the parts of the model, and check its bytes."""
        node, name, value = choices.one_of(self.places)
        loaded = type(node.attrs[name]).from_bytes(mutated(value, choices))
        again = loaded.to_bytes()
        if type(loaded).from_bytes(again).to_bytes() != again:
            raise checks.NotSane("other bytes after from_bytes and to_bytes")
        node.attrs[name] = loaded
        self.component._loaded("fuzz", ())

    def _component(self, choices: Choices) -> None:
        """Load the component, also with changes outside the parts of the model."""
        key = choices.one_of(("cfg", "model"))
        stored = self.stored[key]
        if isinstance(stored, str):
            changed = changed_bytes(stored.encode(), choices).decode(errors="replace")
        else:
            changed = changed_bytes(stored, choices)
        try:
            self.component.from_bytes(srsly.msgpack_dumps({**self.stored, key: changed}))
            self._use(choices)
        finally:
            self.component.from_bytes(self.bytes)

    def _use(self, choices: Choices) -> None:
        component, doc = self.component, choices.one_of(self.docs).copy()
        component(doc)
        checks.sane(doc)
        if choices.one_in(4) and hasattr(component, "k_best") and len(doc):
            component.k_best(doc, 1 + choices.below(4))
        if choices.one_in(4) and hasattr(component, "n_best"):
            component.n_best(doc, 1 + choices.below(4))


class Trainers:
    """A target: checkpoints, loaded by `resume`."""

    def __init__(self, trained: list[Trained]):
        self.seeds = []
        for each in trained:
            component, data = each.component, examples(each.nlp, each.sentences)
            if component.name == "constituency_parser":
                data.sort(key=_content)  # as it does in training
            gold = [own for eg in data if (own := component.gold_data(eg)) is not None]
            before = type(component.parameters).from_bytes(each.before)
            states = [unpacked(state) for state in each.states]
            if states:
                self.seeds.append((component.estimator, before, gold, states))

    def __call__(self, data: bytes) -> str:
        choices = Choices(data)
        estimator, before, gold, states = choices.one_of(self.seeds)
        trainer = estimator.trainer(before, list(gold))
        try:
            if not trainer.resume(mutated(choices.one_of(states), choices)):
                return "another training"
            trainer.parameters()
            if choices.one_in(STEP_SHARE):
                trainer.step()
        except ValueError as error:  # also of optimizers, for weights that are too large
            return checks.refusal(error)
        return checks.ANSWERED


class Serialization:
    """A target: only `serialization.unpack`."""

    def __init__(self, trained: list[Trained]):
        self.seeds = [unpacked(each.before) for each in trained]

    def __call__(self, data: bytes) -> str:
        choices = Choices(data)
        if choices.one_in(4):
            payload = choices.rest()
            fresh = serialization.MAGIC + serialization._digest(payload) + payload
            kind, versions = "chain_model", {1}
        else:
            value = choices.one_of(self.seeds)
            fresh, kind, versions = mutated(value, choices), value["kind"], {value["version"]}
        try:
            version, fields = serialization.unpack(fresh, kind, versions)
            again = serialization.pack(kind, version, fields)
        except StructlearnError as error:
            return error.code
        if serialization.pack(kind, *serialization.unpack(again, kind, versions)) != again:
            raise checks.NotSane("other bytes after unpack and pack")
        return checks.ANSWERED
