"""Settings of learners: the name, type, default, bounds and help of each setting in one place.

The settings of a learner are the fields of a frozen dataclass that inherits `Settings`:

    @dataclass(frozen=True, kw_only=True)
    class CRFSettings(Settings):
        order: int = setting(1, choices=(1, 2), help="1, or 2 for pairs of labels as states.")

The checks of values, the signature of the registered architecture and the documentation are derived
from these fields. The bounds follow scikit-learn's `_parameter_constraints`.

In all learners the penalty `L1` or `L2` on the weights w is added to the loss, which is a sum over
the training data.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from hashlib import blake2b
from inspect import Parameter, Signature, cleandoc
from math import isfinite
from pathlib import Path
from textwrap import fill
from types import UnionType
from typing import Any, ClassVar, NoReturn, TypeVar, Union, get_args, get_origin

import numpy as np

from ..errors import StructlearnError
from ..reading import read_bytes
from .annotations import fits, hints, shown

S = TypeVar("S", bound="Settings")
Variants = Mapping[str, Mapping[str, Any]]

_BOUNDS = {
    "ge": (operator.ge, "at least"),
    "gt": (operator.gt, "more than"),
    "le": (operator.le, "at most"),
    "lt": (operator.lt, "less than"),
}

MAX_QUOTED = 80  # characters of a value in an error message
MAX_PARTS = 4096  # of the data or of the work, each of which takes memory
MAX_RATE = 1000  # beyond any use, and small enough that nothing overflows in a few steps
MAX_INTEGER = 2**63 - 1  # the largest integer, that of kernels and files

L1 = "l1 |w|_1"
"""The penalty of a Laplace prior, with which most weights become 0."""
L2 = "l2 |w|^2 / 2"
"""The penalty of a Gaussian prior; its variance is 1 / l2."""


def setting(
    default: Any = MISSING,
    *,
    help: str,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    choices: Iterable[Any] = (),
    identity: bool = True,
    exposed: bool = True,
) -> Any:
    """Return a field of `Settings`.

    help: its meaning, in one or two sentences.
    ge, gt, le, lt: bounds of numbers, which must be finite.
    choices: the possible strings or numbers. Values of other types are checked by the annotation.
    identity: whether the result of training depends on it. If so, training can only be resumed with
        the same value.
    exposed: whether the registered architecture has this setting.
    """
    given = {"ge": ge, "gt": gt, "le": le, "lt": lt, "choices": tuple(choices)}
    bounds = {name: bound for name, bound in given.items() if bound is not None}
    metadata = {"help": help, "bounds": bounds, "identity": identity, "exposed": exposed}
    return field(default=default, metadata=metadata)


def l1(default: float = 0.0) -> Any:
    """Return the strength of the penalty `L1`."""
    return setting(
        default, ge=0, help=f"Strength of the penalty {L1}, with which most weights become 0."
    )


def l2(default: Any, of: str = "weights", more: str = "", choices: Iterable[Any] = ()) -> Any:
    """Return the strength of the penalty `L2`. of: the name of w. more: further help."""
    text = f"Strength of the Gaussian prior on the {of} w, {L2}; 1 / its variance. {more}"
    return setting(default, ge=0, choices=choices, help=text.strip())


def seed() -> Any:
    """Return the seed of the random numbers."""
    return setting(0, ge=0, help="Seed of the random numbers.")


def learn_rate(default: float, help: str = "Learning rate.") -> Any:
    """Return a learning rate."""
    return setting(default, gt=0, le=MAX_RATE, help=help)


def max_iterations(default: int, *, ge: int = 1) -> Any:
    """Return the maximum number of passes through the data."""
    return setting(default, ge=ge, help="Maximum number of passes through the data.")


def threads() -> Any:
    """Return the number of threads."""
    return setting(
        1,
        ge=1,
        le=MAX_PARTS,
        identity=False,
        help="Number of threads. It does not change the result.",
    )


def shards(default: int = 1) -> Any:
    """Return the number of parts of the training data."""
    return setting(
        default,
        ge=1,
        le=MAX_PARTS,
        help="Number of parts of the training data, which the threads share. "
        "Results for different numbers differ by rounding errors.",
    )


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The base of all settings.

    Lists become tuples. `name` is the name of the learner in a config, without version.
    Raises StructlearnError if a value is invalid.
    """

    name: ClassVar[str] = ""
    attributes: ClassVar[tuple[str, ...]] = ()
    """The token attributes that the learner reads."""
    strengths: ClassVar[tuple[float, ...]] = ()
    """Strengths of the prior to choose from in learning on; empty if the learner cannot."""
    variants: ClassVar[Variants] = {}
    """Settings, as in a config, that make another method of the learner, by the method's name."""

    def __post_init__(self) -> None:
        for part in fields(self):
            annotation = _annotation(type(self), part.name)
            value = _frozen(getattr(self, part.name), annotation)
            wanted = violation(value, annotation, part.metadata)
            if wanted:
                self.refuse(part.name, wanted)
            object.__setattr__(self, part.name, value)
        for name, wanted, sound in self.constraints():
            if not sound:
                self.refuse(name, wanted)

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        """Yield further constraints: a name, what its value must be, and whether it is."""
        return ()

    def refuse(self, name: str, wanted: str) -> NoReturn:
        """Raise the error for a setting with an invalid value."""
        learner = self.name or type(self).__name__
        value = quoted(getattr(self, name))
        raise StructlearnError("SL043", learner=learner, name=name, wanted=wanted, value=value)

    def content(self, name: str) -> bytes:
        """Return the content of the file that a setting names.

        Raises StructlearnError if it cannot be read.
        """
        try:
            return read_bytes(getattr(self, name))
        except (OSError, ValueError):  # missing, a folder or a pipe, or no possible name of a file
            self.refuse(name, "a file that can be read")

    def part(self, kind: type[S], **changes: Any) -> S:
        """Return the settings that a class shares with these, for example a base class."""
        shared = {f.name: getattr(self, f.name) for f in fields(kind) if hasattr(self, f.name)}
        return kind(**shared | changes)

    def digest(self) -> str:
        """Return a digest that is equal for settings with the same result of training."""
        text = json.dumps([type(self).__name__, _identity(self)], sort_keys=True)
        return blake2b(text.encode("utf8", "surrogatepass"), digest_size=16).hexdigest()


def signature(kind: type[Settings]) -> Signature:
    """Return the settings as keyword arguments, with types and defaults for a config."""
    parameters = []
    for part in fields(kind):
        default = Parameter.empty if part.default is MISSING else plain(part.default)
        annotation = _in_config(_annotation(kind, part.name))
        if part.metadata.get("exposed", True):
            how = {"default": default, "annotation": annotation}
            parameters.append(Parameter(part.name, Parameter.KEYWORD_ONLY, **how))
    return Signature(parameters)


def plain(value: Any) -> Any:
    """Return a value as in a config, with lists in place of tuples."""
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return value


def quoted(value: Any) -> str:
    """Return a value for an error message: as in a config, cut if it is long, or the name of a
    learner or function. Paths are not cut."""
    if isinstance(value, Path):
        return repr(str(value))
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    text = name if isinstance(name, str) else repr(plain(value))
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."


def reference(kind: type[Settings]) -> list[tuple[str, str, str, str]]:
    """Return the name, type, default and help of each setting."""
    rows = []
    for name, parameter in signature(kind).parameters.items():
        (part,) = (part for part in fields(kind) if part.name == name)
        required = parameter.default is Parameter.empty
        default = "required" if required else _default_text(parameter.default)
        text = " ".join([part.metadata.get("help", ""), *_limits(part.metadata)])
        rows.append((name, shown(parameter.annotation), default, text.strip()))
    return rows


def _default_text(default: Any) -> str:
    """Return a default as in a config, or the name of a function with a block of its own."""
    if default is None or isinstance(default, (str, int, float, list, dict)):
        return repr(default)
    return getattr(default, "__name__", type(default).__name__)


def document(kind: type[Settings], text: str | None = None) -> str:
    """Return a docstring with a line for each setting.

    text: what is above these lines. None: the docstring of the class of the settings.
    """
    lines = [cleandoc(text or kind.__doc__ or ""), ""]
    for name, of, default, text in reference(kind):
        row = f"{name} ({of}, default {default}): {text}"
        lines.append(fill(row, 96, subsequent_indent="    ", break_long_words=False))
    return "\n".join(lines)


def _annotation(kind: type, name: str) -> Any:
    return hints(kind).get(name, Any)


def _in_config(annotation: Any) -> Any:
    """Return an annotation for a config, with lists in place of tuples. The settings of other
    learners can be anything, since they are blocks that are resolved to a Model."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return Any
    if origin in (Union, UnionType):
        return Union[tuple(map(_in_config, arguments))]  # noqa: UP007
    if origin in (Sequence, tuple):
        return list[_in_config(arguments[0])]  # type: ignore[misc]  # made at run time
    if origin is Mapping:
        return dict[tuple(map(_in_config, arguments))]  # type: ignore[misc]  # made at run time
    return annotation


def _frozen(value: Any, annotation: Any = Any) -> Any:
    """Convert lists to tuples, and integers to floats and strings to paths if the annotation asks
    for these. Mappings are copied. Integers that are too large and empty strings stay."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    if isinstance(value, Mapping):
        return {key: _frozen(item) for key, item in value.items()}
    if type(value) is int and annotation is not Any and fits(0.5, annotation):
        return float(value) if abs(value) <= MAX_INTEGER else value
    if type(value) is str and value and fits(Path(), annotation) and not fits("", annotation):
        return Path(value)
    return value


def violation(value: Any, annotation: Any, metadata: Mapping[str, Any] = {}) -> str | None:
    """Return what the value of a setting must be, or None if it is valid.

    metadata: of the field of the setting.
    """
    bounds = metadata.get("bounds", {})
    limits = ", ".join(_limits(metadata, sentence=False))
    wanted = f"{shown(annotation)}, {limits}" if limits else shown(annotation)
    # What can be anything is checked by constraints.
    numbers = [] if Any in get_args(annotation) else _numbers(value)
    if not fits(value, annotation):
        return wanted
    if any(isinstance(n, int) and abs(n) > MAX_INTEGER for n in numbers):
        return f"{wanted}, in 64 bits"
    choices = bounds.get("choices", ())
    kinds = tuple({type(choice) for choice in choices})
    if isinstance(value, kinds) and value not in choices:
        return limits
    limited = [(holds, bounds[name]) for name, (holds, _) in _BOUNDS.items() if name in bounds]
    if not all(isfinite(n) and all(holds(n, bound) for holds, bound in limited) for n in numbers):
        return limits or "finite"
    return None


def check_argument(name: str, value: Any, annotation: Any = int, **bounds: Any) -> None:
    """Raise SL209 unless an argument of a public function fits an annotation and bounds.

    bounds: as in `setting`.
    """
    if not bounds and fits(value, annotation):  # usual, and fast
        return
    if wanted := violation(value, annotation, {"bounds": bounds}):
        raise StructlearnError("SL209", name=name, wanted=wanted, value=quoted(value))


def _numbers(value: Any) -> list[float]:
    """Return all numbers in a value."""
    if isinstance(value, (tuple, list)):
        return [number for item in value for number in _numbers(item)]
    if isinstance(value, Mapping):
        return _numbers(tuple(value.values()))
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    return [value] if is_number else []


def _limits(metadata: Mapping[str, Any], *, sentence: bool = True) -> list[str]:
    """Return the bounds of a setting in words."""
    bounds = metadata.get("bounds", {})
    limits = []
    if bounds.get("choices"):
        limits.append("one of " + ", ".join(map(repr, bounds["choices"])))
    words = [f"{word} {bounds[name]}" for name, (_, word) in _BOUNDS.items() if name in bounds]
    if words:
        limits.append(" and ".join(words))
    return [f"{text[0].upper()}{text[1:]}." for text in limits] if sentence else limits


def _identity(value: Any) -> Any:
    """Return the identity of a value of settings for JSON."""
    if isinstance(value, Settings):
        return {
            part.name: _identity(getattr(value, part.name))
            for part in fields(value)
            if part.metadata.get("identity", True)
        } | {"": type(value).__name__}
    if isinstance(value, (list, tuple)):
        return [_identity(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _identity(item) for key, item in value.items()}
    if hasattr(value, "to_bytes") and not isinstance(value, int):
        return blake2b(value.to_bytes(), digest_size=16).hexdigest()
    if isinstance(value, Path) and value.is_file():
        return blake2b(value.read_bytes(), digest_size=16).hexdigest()
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)
