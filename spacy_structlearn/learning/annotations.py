"""Checks of values against the annotations of settings and of fields of stored models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np


def fits(value: Any, annotation: Any) -> bool:
    """Whether `value` is of the type `annotation`.

    An int fits float, a bool fits neither int nor float, and a tuple fits Sequence and list.
    NDArray[T] requires elements of the type T or a subtype. Every value fits an annotation that
    cannot be checked, such as a type variable.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    alias = getattr(origin, "__value__", None)
    if alias is not None:  # NDArray is declared by a type statement since NumPy 2.5
        return fits(value, alias[arguments])
    if annotation is Any or isinstance(annotation, TypeVar):
        return True
    if annotation in (None, NoneType):
        return value is None
    if origin in (Union, UnionType):
        return any(fits(value, choice) for choice in arguments)
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in arguments)
    if annotation is bool:
        return isinstance(value, bool)
    if annotation is int:
        return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if annotation is float:
        return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if origin is np.ndarray:
        (wanted,) = get_args(arguments[1]) or (Any,)
        whatever = wanted is Any or not isinstance(wanted, type)
        return isinstance(value, np.ndarray) and (whatever or np.issubdtype(value.dtype, wanted))
    if origin is tuple or annotation is tuple:
        return isinstance(value, (tuple, list)) and _fit_in_tuple(value, arguments)
    if origin in (Sequence, list):
        return isinstance(value, (tuple, list)) and _all_fit(value, arguments[0])
    if origin in (Mapping, dict):
        of_key, of_value = arguments
        return (
            isinstance(value, Mapping)
            and _all_fit(value, of_key)
            and _all_fit(value.values(), of_value)
        )
    if is_typeddict(annotation):
        kinds = hints(annotation)
        known = isinstance(value, Mapping) and value.keys() == kinds.keys()
        return known and all(fits(value[name], kind) for name, kind in kinds.items())
    kind = origin or annotation
    return isinstance(value, kind) if isinstance(kind, type) else True


def _all_fit(items: Iterable[Any], annotation: Any) -> bool:
    if isinstance(annotation, type) and get_origin(annotation) is None:
        # Only the type of an item counts, and models have long lists.
        items = {type(item): item for item in items}.values()
    return all(fits(item, annotation) for item in items)


def _fit_in_tuple(value: Sequence[Any], arguments: tuple[Any, ...]) -> bool:
    if not arguments:
        return True
    if arguments[-1] is Ellipsis:
        return _all_fit(value, arguments[0])
    return len(value) == len(arguments) and all(map(fits, value, arguments))


@cache
def hints(function: Any) -> dict[str, Any]:
    """Return the evaluated annotations of a function or class; none if they cannot be evaluated."""
    try:
        return get_type_hints(function)
    except NameError:  # a name that is only imported for type checkers
        return {}


def fitting(function: Any, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments. Raises TypeError unless they fit the annotations of a function."""
    kinds = hints(function)
    for name, value in arguments.items():
        if not fits(value, kinds.get(name, Any)):
            raise TypeError(f"{name} is of the type {type(value).__name__}")
    return arguments


def shown(annotation: Any) -> str:
    """Return an annotation for the documentation: "float", "list of str", "int or none"."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in (None, NoneType):
        return "none"
    if origin in (Union, UnionType):
        return " or ".join(map(shown, arguments))
    if origin is Literal:
        return " or ".join(f'"{choice}"' for choice in arguments)
    if origin in (Sequence, list, tuple):
        return f"list of {shown(arguments[0])}"
    if origin in (Mapping, dict):
        return f"dict from {shown(arguments[0])} to {shown(arguments[1])}"
    if is_typeddict(annotation):
        parts = (f"{name}: {shown(kind)}" for name, kind in hints(annotation).items())
        return f"dict of {', '.join(parts)}"
    return getattr(annotation, "__name__", str(annotation))
