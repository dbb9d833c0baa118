"""Fuzz the `def` entry points of kernels by changing recorded calls.

While small pipelines are trained and predict, all calls of kernels are recorded with copies of
their arguments. Kernel objects among them are stored as the calls that created them. The fuzzer
repeats a call with a few changed arguments, also of the objects. Some of the calls are made twice,
and must have the same result.
"""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.machinery import EXTENSION_SUFFIXES
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import spacy_structlearn
from training.reliability.mutations import CHANGES, Choices, Refused, changed, changed_items, mapped

PACKAGE = "spacy_structlearn"
# Calls after which an object has the arrays that its other calls read.
BEFORE = ("hypergraphs", "lay_out")
# Exceptions for invalid arguments. MemoryError: for a size. AttributeError, LookupError and
# BufferError: for None, and values that are not arrays.
REFUSALS = (ValueError, TypeError, OverflowError, MemoryError)
REFUSALS += (AttributeError, LookupError, BufferError)
MOST_CALLS = 5  # calls of an entry point with arguments of the same kinds
MOST_BYTES = 20_000  # of a call, unless all of the same kinds are larger
FUNCTIONS = ("cython_function_or_method", "fused_cython_function")


class Made(NamedTuple):
    """A kernel object, as the call that created it and a later call (name, arguments)."""

    module: str
    name: str
    args: tuple
    before: tuple[str, tuple] | None


class Call(NamedTuple):
    """A call. name: "function" or "Class.method". own: the object of a method."""

    module: str
    name: str
    own: Made | None
    args: tuple


def modules() -> list[str]:
    """Return the names of all kernels."""
    infos = pkgutil.walk_packages(spacy_structlearn.__path__, f"{PACKAGE}.")
    origins = {info.name: info.module_finder.find_spec(info.name).origin or "" for info in infos}
    return sorted(n for n, origin in origins.items() if origin.endswith(tuple(EXTENSION_SUFFIXES)))


# --- recording ------------------------------------------------------------------------------------
class Recorder:
    """Records the smallest calls of each kind, and the largest that are not slow."""

    def __init__(self) -> None:
        self.calls: dict[tuple, list[tuple[int, bytes]]] = {}
        self.final: dict[int, tuple[Any, Made]] = {}  # objects of final classes, by their id

    def note(self, module: str, name: str, own: Any, args: tuple) -> None:
        try:
            call = Call(module, name, None if own is None else self.frozen(own), self.frozen(args))
        except TypeError:
            return
        stored = pickle.dumps(call)
        entries = self.calls.setdefault((module, name, str(_kinds(call))), [])
        if (len(stored), stored) not in entries:
            entries.append((len(stored), stored))
            entries.sort()
            entries[1:] = [entry for entry in entries[1:] if entry[0] <= MOST_BYTES]
            del entries[MOST_CALLS - 2 : -2]

    def all(self) -> dict[str, list[Call]]:
        """Return the calls by module."""
        return {
            module: [pickle.loads(stored) for key in keys for _, stored in self.calls[key]]
            for module, keys in groupby(sorted(self.calls), itemgetter(0))
        }

    def frozen(self, value: Any) -> Any:
        """Copy arrays in a value, and replace kernel objects by the calls that created them."""
        if id(value) in self.final:
            return self.final[id(value)][1]
        if hasattr(value, "_made"):
            before = getattr(value, "_before", None)
            # One record for an object, because some calls need the same object twice.
            return value._made if before is None else value._made._replace(before=before)
        if isinstance(value, np.ndarray):
            return value.copy()
        if isinstance(value, (tuple, list, dict)):
            return mapped(self.frozen, value)
        if value is None or isinstance(value, (bool, int, float, str, np.generic)):
            return value
        raise TypeError(type(value))


def _kinds(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.ndim, value.size == 0
    if isinstance(value, (tuple, list)):
        return tuple(_kinds(item) for item in value)
    return value if isinstance(value, (bool, str)) else type(value).__name__


@contextmanager
def recording() -> Iterator[Recorder]:
    """Record all calls of kernels in this context."""
    recorder = Recorder()
    replaced: dict[int, Any] = {}
    for name in modules():
        for attribute, value in vars(importlib.import_module(name)).items():
            if isinstance(value, type) and value.__module__ == name:
                replaced[id(value)] = _recorded_class(recorder, name, value)
            elif type(value).__name__ in FUNCTIONS and not attribute.startswith("_"):
                replaced[id(value)] = _recorded_function(recorder, name, attribute, value)
    # A module beside a kernel that is first imported in this context would keep what is replaced.
    rooms = {name.rpartition(".")[0] for name in modules()}
    for info in pkgutil.walk_packages(spacy_structlearn.__path__, f"{PACKAGE}."):
        if info.name.rpartition(".")[0] in rooms:
            importlib.import_module(info.name)
    with ExitStack() as stack:
        for module in [module for name, module in sys.modules.items() if name.startswith(PACKAGE)]:
            for attribute, value in list(vars(module).items()):
                if id(value) in replaced:
                    stack.enter_context(patch.object(module, attribute, replaced[id(value)]))
        yield recorder


def _recorded_function(recorder: Recorder, module: str, name: str, function: Callable) -> Callable:
    def recorded(*args: Any, **kwargs: Any) -> Any:
        recorder.note(module, name, None, args + tuple(kwargs.values()))
        return function(*args, **kwargs)

    return recorded


def _recorded_class(recorder: Recorder, module: str, kind: type) -> Any:
    """Return a subclass whose calls are recorded; for a final class, a function."""

    def final(*args: Any) -> Any:
        fresh, made = kind(*args), Made(module, kind.__name__, recorder.frozen(args), None)
        recorder.final[id(fresh)] = fresh, made
        recorder.note(module, kind.__name__, None, args)
        return fresh

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if kind.__init__ is not object.__init__:
            kind.__init__(self, *args, **kwargs)
        values = args + tuple(kwargs.values())
        self._made = Made(module, kind.__name__, recorder.frozen(values), None)
        recorder.note(module, kind.__name__, None, values)

    def method(name: str) -> Callable:
        def recorded(self: Any, *args: Any, **kwargs: Any) -> Any:
            values = args + tuple(kwargs.values())
            recorder.note(module, f"{kind.__name__}.{name}", self, values)
            result = getattr(kind, name)(self, *args, **kwargs)
            if name in BEFORE:
                self._before = name, recorder.frozen(values)
            return result

        return recorded

    methods = [name for name, value in vars(kind).items() if callable(value) and name[0] != "_"]
    namespace: dict[str, Any] = {"__init__": __init__, **{name: method(name) for name in methods}}
    try:
        return type(kind.__name__, (kind,), namespace)
    except TypeError:
        return final


# --- fuzzing --------------------------------------------------------------------------------------
class Kernel:
    """A target: the calls of one kernel."""

    def __init__(self, calls: list[Call]):
        # Each entry point is called equally often.
        names = sorted({call.name for call in calls})
        self.calls = [[call for call in calls if call.name == name] for name in names]

    def __call__(self, choices: Choices) -> None:
        call = choices.one_of(choices.one_of(self.calls))
        own, args = call.own, call.args
        for _ in range(choices.one_of(CHANGES)):
            if own is not None and choices.one_in(2):
                own = changed(own, choices)
            else:
                args = changed_items(args, choices)
        twice = choices.one_in(8)
        try:
            result = _run(call, own, args)
            # Memory that was not written would differ.
            if twice and not same(result, _run(call, own, args)):
                raise AssertionError(f"{call.name} has another result when it is called again")
        except REFUSALS as error:
            raise Refused(f"{type(error).__name__}: {error}") from None


def _run(call: Call, own: Made | None, args: tuple) -> tuple[Any, list[Any]]:
    """Make a call with copies of its arguments. Return its result and these arguments."""
    made: dict[int, Any] = {}  # some calls need the same object twice
    if own is None:
        function = getattr(importlib.import_module(call.module), call.name)
    else:
        function = getattr(_fresh(own, made), call.name.partition(".")[2])
    given = [_fresh(arg, made) for arg in args]
    return function(*given), given


def _fresh(value: Any, made: dict[int, Any]) -> Any:
    """Copy arrays in a recorded value, and create its objects."""
    if isinstance(value, np.ndarray):
        # The copy of a read-only array would be writable.
        return value.copy() if value.flags.writeable and value.flags.c_contiguous else value
    if isinstance(value, Made):
        if id(value) not in made:
            kind = getattr(importlib.import_module(value.module), value.name)
            made[id(value)] = kind(*(_fresh(arg, made) for arg in value.args))
            if value.before is not None:
                name, values = value.before
                getattr(made[id(value)], name)(*(_fresh(arg, made) for arg in values))
        return made[id(value)]
    return mapped(partial(_fresh, made=made), value)


def same(one: Any, other: Any) -> bool:
    """Return whether two results are equal to the bit. Objects of kernels are not compared."""
    if isinstance(one, np.ndarray) and one.dtype != object:
        equal = one.dtype == other.dtype and one.shape == other.shape
        return equal and one.tobytes() == other.tobytes()
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other) if isinstance(one, (int, float)) else True
