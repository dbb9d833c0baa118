"""Fuzz the `def` entry points of kernels by mutating recorded calls.

While small pipelines are trained and predict, all calls of kernels are recorded with copies of
their arguments. Kernel objects among them are stored as the calls that created them. The fuzzer
repeats a call with a few changed arguments, also of the objects. Some of the calls are made
twice, and must have the same result.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .checks import ANSWERED, ROUNDING, NotSane, refusal
from .choices import CHANGES, Choices, changed

PACKAGE = "spacy_structlearn"
MODULES = (
    "classification.nets._counts",
    "classification.linear._log_linear",
    "grammar.fragments._annotation",
    "grammar.chart._chart",
    "grammar.latent._derivations",
    "grammar.latent._factors",
    "grammar.treebank._lexicon",
    "grammar.discriminative._forest",
    "grammar.chart._hypergraph",
    "grammar.spans._features",
    "isbn._network",
    "isbn._search",
    "kernels.index",
    "matching._forest",
    "optimize._dual",
    "roles._arguments",
    "sequence.layout._predicates",
    "sequence.chain._chain",
    "words._classes",
    "sequence.estimators._local",
    "sequence.chain._segments",
    "sequence.estimators._stochastic_crf",
    "sequence.layout._words",
)
# Objects that calls change; others are created once and shared.
STATEFUL = ("Chart", "ForestArrays", "Learner", "Scratch", "Searcher", "Trees", "Workspace")
MOST_WEIGHT = 1e4
# Where probabilities are in the result and the arguments of an entry point.
PROBABILITIES: dict[str, Callable[[Any, list[Any]], Any]] = {
    "forward_backward": lambda _, args: args[3],
    "posteriors": lambda _, args: args[6][: args[4][-1]],
}
# Exceptions for invalid arguments. MemoryError: for a size argument. AttributeError and
# LookupError: for None, values that are not arrays, and missing arrays.
REFUSALS = (ValueError, TypeError, OverflowError, MemoryError, AttributeError, LookupError)
REFUSALS += (BufferError,)  # for a scalar of NumPy
MOST_CALLS = 5  # calls of an entry point with arguments of the same kinds
MOST_BYTES = 20_000  # maximum size of a call, unless all of the same kinds are larger
FUNCTIONS = ("cython_function_or_method", "fused_cython_function")
# Calls that read the state that another call left in their object.
BEFORE = {"Chart.log_probabilities": "hypergraphs", "Trees.inside_outside": "lay_out"}


class Made(NamedTuple):
    """A kernel object, as the call that created it and a later call."""

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


# Objects of final classes, which cannot have attributes, and how they were made.
_of_final: dict[int, tuple[Any, Made]] = {}


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
        if all(stored != other for _, other, _ in held):
            held.append((size, stored, call))
            held.sort(key=lambda entry: entry[0])
            # Keep the smallest, which are often trivial, and the largest that are not slow.
            held[1:] = [entry for entry in held[1:] if entry[0] <= MOST_BYTES]
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
        elif call.name == "KeyIndex":
            own = Made(call.module, call.name, call.args, None)
            found.append(call._replace(name="KeyIndex.find", own=own))
    return found


def _frozen(value: Any) -> Any:
    """Copy arrays in a value, and replace kernel objects by the calls that created them."""
    if isinstance(value, Made):
        return value
    made = getattr(value, "_made", None)
    if id(value) in _of_final:
        return _of_final[id(value)][1]
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
                make = _recorded_class if _is_base(value) else _recorded_final
                replaced[id(value)] = make(recorder, name, value)
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
        _of_final.clear()


def _recorded_function(recorder: Recorder, module: str, name: str, function: Callable) -> Callable:
    def recorded(*args: Any, **kwargs: Any) -> Any:
        recorder.note(module, name, None, args + tuple(kwargs.values()))
        return function(*args, **kwargs)

    return recorded


def _is_base(kind: type) -> bool:
    """Whether a class can have subclasses."""
    try:
        type(kind.__name__, (kind,), {})
    except TypeError:
        return False
    return True


def _recorded_final(recorder: Recorder, module: str, kind: type) -> Callable:
    """Record the calls that create objects of a final class, but not those of its methods."""

    def recorded(*args: Any) -> Any:
        fresh, values = kind(*args), _frozen(args)
        _of_final[id(fresh)] = fresh, Made(module, kind.__name__, values, None)
        recorder.note(module, kind.__name__, None, values)
        return fresh

    return recorded


def _recorded_class(recorder: Recorder, module: str, kind: type) -> type:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if kind.__init__ is not object.__init__:
            kind.__init__(self, *args, **kwargs)
        values = _frozen(args + tuple(kwargs.values()))
        self._made = Made(module, kind.__name__, values, None)
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
        self.module = module
        own = [call for call in calls if call.module == module]
        if not own:
            raise ValueError(f"no calls of {module}")
        # Each entry point is called equally often.
        self.names = sorted({call.name for call in own})
        self.calls = {name: [call for call in own if call.name == name] for name in self.names}
        self.paths = {id(call): list(_paths((call.own, call.args))) for call in own}
        self.kept = {id(made): made for call in own for made in _objects((call.own, call.args))}
        self.shared: dict[int, Any] = {}

    def __call__(self, data: bytes) -> str:
        choices = Choices(data)
        call = choices.one_of(self.calls[choices.one_of(self.names)])
        paths = self.paths[id(call)]
        own, args = call.own, call.args
        for _ in range(choices.one_of(CHANGES) if paths else 0):
            path = choices.one_of(paths)
            own, args = _put((own, args), path, lambda value: changed(value, choices))
        call = call._replace(own=own, args=args)
        try:
            found = self.run(call)
            # Memory that was not written would differ.
            if choices.one_in(8) and not same(found, self.run(call)):
                raise NotSane(f"{call.name} has another result when it is called again")
        except REFUSALS as error:
            return refusal(error)
        if call.name in PROBABILITIES and moderate((own, args)):
            values = np.asarray(PROBABILITIES[call.name](*found))
            if not ((values >= 0) & (values <= 1 + ROUNDING)).all():
                raise NotSane(f"{call.name}: probabilities {values.ravel()[:20]}")
        return ANSWERED

    def run(self, call: Call) -> tuple[Any, list[Any]]:
        """Make a call with copies of its arguments. Return its result and these arguments."""
        self.made: dict[int, Any] = {}
        if call.own is None:
            function = getattr(_imported(call.module), call.name)
        else:
            function = getattr(self._fresh(call.own), call.name.partition(".")[2])
        args = call.args if isinstance(call.args, tuple) else (call.args,)
        given = [self._fresh(arg) for arg in args]
        return function(*given), given

    def _fresh(self, value: Any) -> Any:
        """Copy arrays in a recorded value, and create its objects."""
        if isinstance(value, np.ndarray):
            # The copy of a read-only array would be writable.
            return value.copy() if value.flags.writeable and value.flags.c_contiguous else value
        if isinstance(value, Made):
            made = (
                self.shared if id(value) in self.kept and value.name not in STATEFUL else self.made
            )
            if id(value) not in made:
                made[id(value)] = self._made(value)
            return made[id(value)]
        if isinstance(value, (tuple, list)):
            return type(value)(self._fresh(item) for item in value)
        if isinstance(value, dict):
            return {key: self._fresh(item) for key, item in value.items()}
        return value

    def _made(self, made: Made) -> Any:
        args = made.args if isinstance(made.args, tuple) else (made.args,)
        fresh = getattr(_imported(made.module), made.name)(*(self._fresh(arg) for arg in args))
        if isinstance(made.before, tuple) and len(made.before) == 2:
            name, values = made.before
            getattr(fresh, name)(*(self._fresh(value) for value in values))
        return fresh


@cache
def _imported(module: str) -> Any:
    return importlib.import_module(f"{PACKAGE}.{module}")


def same(one: Any, other: Any) -> bool:
    """Whether two results are equal to the bit. Objects of kernels are not compared."""
    if isinstance(one, np.ndarray) and one.dtype != object:
        return (
            one.dtype == other.dtype
            and one.shape == other.shape
            and (one.tobytes() == other.tobytes())
        )
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other) if isinstance(one, (int, float)) else True


def moderate(value: Any) -> bool:
    """Whether all floats in a value are of a size that a model can have."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind != "f" or bool((np.abs(value) < MOST_WEIGHT).all())
    if isinstance(value, Made):
        return moderate((value.args, value.before))
    if isinstance(value, (tuple, list)):
        return all(map(moderate, value))
    return not isinstance(value, float) or abs(value) < MOST_WEIGHT


def _objects(value: Any) -> Iterator[Made]:
    """Yield the objects of kernels in a value."""
    if isinstance(value, Made):
        yield value
        yield from _objects((value.args, value.before))
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _objects(item)
    elif isinstance(value, dict):
        yield from _objects(list(value.values()))


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
