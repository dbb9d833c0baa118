"""Fuzz the `def` entry points of kernels by mutating recorded calls.

While small pipelines are trained and predict, all calls of kernels are recorded with copies of
their arguments. Kernel objects among them are stored as the calls that created them. The fuzzer
repeats a call with up to three changed arguments, also of the objects.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .choices import Choices, changed

PACKAGE = "spacy_structlearn"
MODULES = (
    "classification._counts",
    "classification._log_linear",
    "grammar.fragments._annotation",
    "grammar.chart._chart",
    "grammar.latent._derivations",
    "grammar.discriminative._forest",
    "grammar.chart._hypergraph",
    "grammar.spans._features",
    "isbn._network",
    "isbn._search",
    "optimize._dual",
    "sequence._chain",
    "words._classes",
    "sequence._local",
    "sequence._perceptron",
    "sequence._segments",
    "sequence._stochastic_crf",
    "sequence._words",
)
# Exceptions for invalid arguments. MemoryError: for a size argument. AttributeError and
# LookupError: for None, values that are not arrays, and missing arrays.
REFUSALS = (ValueError, TypeError, OverflowError, MemoryError, AttributeError, LookupError)
MOST_CALLS = 5  # calls of an entry point with arguments of the same kinds
MOST_BYTES = 400_000  # maximum size of a call; small calls are faster and equally effective
FUNCTIONS = ("cython_function_or_method", "fused_cython_function")
# Calls that read the state that another call left in their object.
BEFORE = {"Chart.log_probabilities": "hypergraphs", "Trees.inside_outside": "lay_out"}


class Made(NamedTuple):
    """A kernel object, as the call that created it and a later call."""

    name: str
    args: tuple
    before: tuple[str, tuple] | None


class Call(NamedTuple):
    """A call. name: "function" or "Class.method". own: the object of a method."""

    module: str
    name: str
    own: Made | None
    args: tuple


# --- recording ------------------------------------------------------------------------------------
class Recorder:
    """Records the smallest calls of each kind."""

    def __init__(self) -> None:
        self.calls: dict[tuple, list[tuple[int, bytes, Call]]] = {}

    def note(self, module: str, name: str, own: Any, args: tuple) -> None:
        try:
            call = Call(module, name, None if own is None else _frozen(own), _frozen(args))
        except TypeError:
            return
        size = _bytes(call)
        held = self.calls.setdefault((module, name, _kinds(call)), [])
        stored = pickle.dumps(call)
        if size <= MOST_BYTES and all(stored != other for _, other, _ in held):
            held.append((size, stored, call))
            held.sort(key=lambda entry: entry[0])
            # Keep the smallest, which is often trivial, and the largest.
            del held[MOST_CALLS - 2 : -2]

    def all(self) -> list[Call]:
        calls = [call for key in sorted(self.calls, key=str) for *_, call in self.calls[key]]
        return calls + others(calls)


def others(calls: list[Call]) -> list[Call]:
    """Return calls of functions that are not used by training and parsing, but by tests and
    merging."""
    found = []
    for call in calls:
        if call.name == "step" and call.module == "grammar.spans._features":
            touched, *shared = call.args
            places = np.resize(touched, (2, 3))
            found.append(call._replace(name="current_sums", args=(places, *shared)))
            args = (places, np.array([1.0, -0.5]), shared[0])
            found.append(call._replace(name="accumulate", args=args))
        elif call.name == "expected_counts" and call.module == "grammar.discriminative._forest":
            forests, workspace, begin, _, weights, *_ = call.args
            args = (forests, workspace, begin, weights)
            found.append(call._replace(name="scores", args=args))
    return found


def _frozen(value: Any) -> Any:
    """Copy arrays in a value, and replace kernel objects by the calls that created them."""
    if isinstance(value, Made):
        return value
    made = getattr(value, "_made", None)
    if made is not None:
        before = getattr(value, "_before", None)
        # Use one record per object, because some calls require the same object.
        return made if before is None else made._replace(before=before)
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, (tuple, list)):
        return type(value)(_frozen(item) for item in value)
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    if value is None or isinstance(value, (bool, int, float, str, np.generic)):
        return value
    raise TypeError(type(value))


def _bytes(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, (tuple, list)):
        return sum(_bytes(item) for item in value)
    if isinstance(value, dict):
        return sum(_bytes(item) for item in value.values())
    return 8


def _kinds(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.ndim, value.size == 0
    if isinstance(value, (tuple, list)):
        return tuple(_kinds(item) for item in value)
    if isinstance(value, dict):
        return "dict"
    return value if isinstance(value, (bool, str)) else type(value).__name__


@contextmanager
def recording() -> Iterator[Recorder]:
    """Record all calls of kernels in this context."""
    recorder = Recorder()
    replaced: dict[int, Any] = {}
    for name in MODULES:
        module = importlib.import_module(f"{PACKAGE}.{name}")
        for attribute, value in vars(module).items():
            if attribute.startswith("_"):
                continue
            if isinstance(value, type) and value.__module__ == module.__name__:
                replaced[id(value)] = _recorded_class(recorder, name, value)
            elif type(value).__name__ in FUNCTIONS:
                replaced[id(value)] = _recorded_function(recorder, name, attribute, value)
    changes = []
    for name, module in list(sys.modules.items()):
        if name.startswith(PACKAGE) and module is not None:
            for attribute, value in list(vars(module).items()):
                if id(value) in replaced:
                    changes.append((module, attribute, value))
                    setattr(module, attribute, replaced[id(value)])
    try:
        yield recorder
    finally:
        for module, attribute, value in changes:
            setattr(module, attribute, value)


def _recorded_function(recorder: Recorder, module: str, name: str, function: Callable) -> Callable:
    def recorded(*args: Any, **kwargs: Any) -> Any:
        recorder.note(module, name, None, args + tuple(kwargs.values()))
        return function(*args, **kwargs)

    return recorded


def _recorded_class(recorder: Recorder, module: str, kind: type) -> type:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if kind.__init__ is not object.__init__:
            kind.__init__(self, *args, **kwargs)
        values = _frozen(args + tuple(kwargs.values()))
        self._made = Made(kind.__name__, values, None)
        recorder.note(module, kind.__name__, None, values)

    def recorded(name: str) -> Callable:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            values = args + tuple(kwargs.values())
            recorder.note(module, f"{kind.__name__}.{name}", self, values)
            result = getattr(kind, name)(self, *args, **kwargs)
            if name in BEFORE.values():
                self._before = (name, _frozen(values))
            return result

        return method

    def __reduce__(self: Any) -> tuple:
        return kind.__reduce__(self)

    namespace: dict[str, Any] = {"__init__": __init__}
    if "__reduce__" in vars(kind):
        namespace["__reduce__"] = __reduce__
    for name, value in vars(kind).items():
        if callable(value) and not name.startswith("_"):
            namespace[name] = recorded(name)
    return type(kind.__name__, (kind,), namespace)


# --- fuzzing --------------------------------------------------------------------------------------
class Kernel:
    """A target: calls of one kernel."""

    def __init__(self, module: str, calls: list[Call]):
        self.module = importlib.import_module(f"{PACKAGE}.{module}")
        self.calls = [call for call in calls if call.module == module]
        if not self.calls:
            raise ValueError(f"no calls of {module}")
        self.paths = [list(_paths((call.own, call.args))) for call in self.calls]

    def __call__(self, data: bytes) -> None:
        choices = Choices(data)
        number = choices.index(len(self.calls))
        call = self.calls[number]
        own, args = call.own, call.args
        for _ in range(choices.below(4)):
            if self.paths[number]:
                path = choices.one_of(self.paths[number])
                own, args = _put((own, args), path, lambda value: changed(value, choices))
        with suppress(REFUSALS):
            self.run(call._replace(own=own, args=args))

    def run(self, call: Call) -> None:
        """Make a call with copies of its arguments."""
        _, name, own, args = call
        function: Any
        self.made: dict[int, Any] = {}
        if own is None:
            function = getattr(self.module, name)
        else:
            function = getattr(self._fresh(own), name.partition(".")[2])
        if not isinstance(args, tuple):
            args = (args,)
        function(*(self._fresh(arg) for arg in args))

    def _fresh(self, value: Any) -> Any:
        """Copy arrays in a recorded value, and create its objects."""
        if isinstance(value, np.ndarray):
            # The copy of a read-only array would be writable.
            return value.copy() if value.flags.writeable and value.flags.c_contiguous else value
        if isinstance(value, Made):
            if id(value) not in self.made:
                self.made[id(value)] = self._made(value)
            return self.made[id(value)]
        if isinstance(value, (tuple, list)):
            return type(value)(self._fresh(item) for item in value)
        if isinstance(value, dict):
            return {key: self._fresh(item) for key, item in value.items()}
        return value

    def _made(self, made: Made) -> Any:
        args = made.args if isinstance(made.args, tuple) else (made.args,)
        kind = getattr(self.module, made.name, None)
        if kind is None:
            raise ValueError(made.name)
        fresh = kind(*(self._fresh(arg) for arg in args))
        if isinstance(made.before, tuple) and len(made.before) == 2:
            name, values = made.before
            getattr(fresh, name)(*(self._fresh(value) for value in values))
        return fresh


def _paths(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """Yield the paths of arguments, also in containers and objects."""
    if isinstance(value, Made):
        yield from _paths(value.args, (*path, "args"))
        if value.before is not None:
            yield from _paths(value.before[1], (*path, "before"))
        return
    # Skip the tuples of all arguments.
    whole = isinstance(value, tuple) and (len(path) == 1 or path[-1:] in (("args",), ("before",)))
    if path not in ((), (0,)) and not whole:
        yield path
    if isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from _paths(item, (*path, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _paths(item, (*path, key))


def _put(value: Any, path: tuple, change: Callable[[Any], Any]) -> Any:
    """Change the value at this path, if the path still exists."""
    if not path:
        return change(value)
    key, *rest = path
    if isinstance(value, Made):
        if key == "args":
            return value._replace(args=_put(value.args, tuple(rest), change))
        if value.before is None:
            return value
        name, values = value.before
        return value._replace(before=(name, _put(values, tuple(rest), change)))
    if isinstance(value, (tuple, list)):
        if not isinstance(key, int) or key >= len(value):
            return value
        items = list(value)
        items[key] = _put(items[key], tuple(rest), change)
        return type(value)(items)
    if isinstance(value, dict) and key in value:
        return {**value, key: _put(value[key], tuple(rest), change)}
    return value


def save(calls: list[Call], path: Path) -> None:
    path.write_bytes(pickle.dumps(calls))


def load(path: Path) -> list[Call]:
    return pickle.loads(path.read_bytes())
