"""Fuzz stored models and checkpoints by changing fields and correcting checksums.

Loaded components predict, and their predictions must be valid. Loaded trainers continue.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import srsly
from spacy.tokens import Doc

from spacy_structlearn import serialization
from spacy_structlearn.errors import StructlearnError

from . import checks
from .choices import Choices, changed
from .workloads import Trained, examples

ARRAY = serialization.ARRAY_TAG
HEADER = len(serialization.MAGIC) + serialization.DIGEST_SIZE
STEP_SHARE = 12  # continue training from every 12th state


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
    for _ in range(choices.below(4)):
        fresh = _put(fresh, choices)
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
    """A target: models of some components, loaded by `from_bytes` of the component."""

    def __init__(self, trained: list[Trained]):
        self.seeds = [self._seed(each) for each in trained]

    def _seed(self, trained: Trained) -> tuple:
        component = trained.component
        stored = srsly.msgpack_loads(component.to_bytes(exclude=["vocab"]))
        del stored["digest"]  # which would find every change
        model = srsly.msgpack_loads(stored["model"])
        places = [
            (node, name, unpacked(value))
            for node, attributes in enumerate(model["attrs"])
            for name, value in attributes.items()
            if isinstance(value, bytes) and value.startswith(serialization.MAGIC)
        ]
        docs = [example.predicted for example in examples(trained.nlp, 3)]
        return component, stored, model, places, docs

    def __call__(self, data: bytes) -> None:
        choices = Choices(data)
        component, stored, model, places, docs = choices.one_of(self.seeds)
        node, name, value = choices.one_of(places)
        fresh = mutated(value, choices)
        attributes = [dict(held) for held in model["attrs"]]
        attributes[node][name] = fresh
        model = srsly.msgpack_dumps({**model, "attrs": attributes})
        bytes_data = srsly.msgpack_dumps({**stored, "model": model})
        try:
            component.from_bytes(bytes_data, exclude=["vocab"])
        except StructlearnError:
            return
        doc = docs[choices.below(len(docs))].copy()
        try:
            component(doc)
            checks.sane(doc)
            self._ask(component, doc, choices)
        except StructlearnError:
            return

    def _ask(self, component: Any, doc: Doc, choices: Choices) -> None:
        if choices.below(4) == 0 and hasattr(component, "k_best") and len(doc):
            component.k_best(doc, 1 + choices.below(4))
        if choices.below(4) == 0 and hasattr(component, "n_best"):
            component.n_best(doc, 1 + choices.below(4))


class Trainers:
    """A target: checkpoints, loaded by `resume`."""

    def __init__(self, trained: list[Trained]):
        self.seeds = []
        for each in trained:
            component, data = each.component, examples(each.nlp)
            gold = [own for eg in data if (own := component.gold_data(eg)) is not None]
            before = type(component.parameters).from_bytes(each.before)
            states = [unpacked(state) for state in each.states]
            if states:
                self.seeds.append((component.estimator, before, gold, states))

    def __call__(self, data: bytes) -> None:
        choices = Choices(data)
        estimator, before, gold, states = choices.one_of(self.seeds)
        trainer = estimator.trainer(before, list(gold))
        try:
            resumed = trainer.resume(mutated(choices.one_of(states), choices))
            if resumed:
                trainer.parameters()
                if choices.below(STEP_SHARE) == 0:
                    trainer.step()
        except StructlearnError:
            return


class Serialization:
    """A target: only `serialization.unpack`."""

    def __init__(self, trained: list[Trained]):
        self.seeds = [unpacked(each.before) for each in trained]

    def __call__(self, data: bytes) -> None:
        choices = Choices(data)
        if choices.one_in(4):
            payload = choices.rest()
            fresh = serialization.MAGIC + serialization._digest(payload) + payload
            kind, versions = "chain_model", {1}
        else:
            value = choices.one_of(self.seeds)
            fresh, kind, versions = mutated(value, choices), value["kind"], {value["version"]}
        try:
            serialization.unpack(fresh, kind, versions)
        except StructlearnError:
            return
