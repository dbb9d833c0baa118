"""The file format of all learned models: named arrays and strings as bytes.

A file is a magic number, a 16-byte BLAKE2b digest, and a msgpack map of a kind ("chain_model"), a
format version and the fields. Equal fields give equal bytes on every platform: map keys are sorted
and arrays are little-endian. A model file is data, not code: there are no pickles, no extension
types, and only the array types listed here. Everything is checked before memory is allocated. The
digest finds damage; it is not a signature.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from math import prod
from typing import Any

import numpy as np
import srsly.msgpack
from numpy.typing import NDArray

from .errors import StructlearnError

MAGIC = b"SLEARN\x00\x01"
DIGEST_SIZE = 16
ARRAY_TAG = "__array__"
DTYPES = {
    np.dtype(code).str: np.dtype(code)
    for code in ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8")
}
# Errors that msgpack, thinc and the models of the families raise for bytes that they did not write.
DAMAGE = (ValueError, TypeError, LookupError, AttributeError, OverflowError)
Bytes = bytes | NDArray[np.uint8]
_HEADER_SIZE = len(MAGIC) + DIGEST_SIZE
_MAX_DIMENSIONS = 8
_MAX_NESTING = 32  # of lists and dicts


def pack(kind: str, version: int, fields: dict[str, Any]) -> bytes:
    """Serialize `fields` deterministically.

    kind: the kind of the file, such as "chain_model".
    version: format version of this kind.
    fields: str keys; values are NumPy arrays (bool, integer or floating), str, int, float, bool,
        None, objects with `to_bytes`, which become arrays of bytes, or lists, tuples and str-keyed
        dicts of these. Tuples are read as lists, and dicts are sorted.
    Raises StructlearnError for other values.
    """
    content = {"fields": _encode(fields, "fields"), "kind": str(kind), "version": int(version)}
    try:
        payload = srsly.msgpack.packb(content, use_bin_type=True)
    except (OverflowError, ValueError, TypeError) as error:  # e.g. integers beyond 64 bits
        raise StructlearnError("SL055", where="fields", problem=str(error)) from None
    return MAGIC + _digest(payload) + payload


def unpack(data: Bytes, kind: str, versions: Collection[int]) -> tuple[int, dict[str, Any]]:
    """Read the version and the fields from bytes of `pack`; arrays are new, writable and native.

    data: the bytes, or the field of another model that has them. kind: the expected kind.
    versions: the format versions that the caller can read.
    Raises StructlearnError for bytes that are not such a file, are damaged, are of another kind or
    version, or have other contents than `pack` writes.
    """
    data = data.tobytes() if isinstance(data, np.ndarray) else data
    if not isinstance(data, (bytes, bytearray, memoryview)) or bytes(data[:8]) != MAGIC:
        raise StructlearnError("SL050", kind=kind)
    payload = memoryview(data)[_HEADER_SIZE:]
    if bytes(data[len(MAGIC) : _HEADER_SIZE]) != _digest(payload):
        raise StructlearnError("SL051", kind=kind)
    content = _loads(payload, kind)
    if not isinstance(content, dict) or set(content) != {"fields", "kind", "version"}:
        raise StructlearnError("SL054", kind=kind, problem="it is not a map of the three parts")
    if content["kind"] != kind:
        raise StructlearnError("SL052", kind=kind, found=content["kind"])
    version = content["version"]
    if type(version) is not int or version not in versions:
        known = ", ".join(map(str, sorted(versions)))
        raise StructlearnError("SL053", kind=kind, found=version, known=known)
    if not isinstance(content["fields"], dict):
        raise StructlearnError("SL054", kind=kind, problem="its fields are not a map")
    return version, {name: _decode(value, kind) for name, value in content["fields"].items()}


@contextmanager
def reading(kind: str, *passed: str) -> Iterator[None]:
    """Convert errors caused by damaged fields to a StructlearnError.

    kind: the kind of the file.
    passed: codes of errors of this package that are not converted.
    """
    try:
        yield
    except DAMAGE as error:
        if isinstance(error, StructlearnError) and error.code in passed:
            raise
        raise StructlearnError("SL054", kind=kind, problem=str(error)) from None


def nested(data: bytes) -> NDArray[np.uint8]:
    """Convert a serialized model to a field of another model; `tobytes` converts it back."""
    return np.frombuffer(data, dtype=np.uint8)


def flag(value: Any) -> bool:
    """Return `value`, which must be a bool. Raises TypeError otherwise."""
    if type(value) is not bool:
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def restore(target: object, names: Iterable[str], stored: dict[str, Any]) -> None:
    """Set attributes to stored values.

    Raises TypeError if a value has another type than the attribute, unless this is None, and
    ValueError for a negative whole number, because these are counts.
    """
    for name in names:
        now, value = getattr(target, name), stored[name]
        if now is not None and type(value) is not type(now):
            raise TypeError(f"{name} is of the type {type(value).__name__}")
        if isinstance(value, int) and value < 0:
            raise ValueError(f"{name} is {value}")
        setattr(target, name, value)


def _digest(payload: bytes | memoryview) -> bytes:
    return blake2b(payload, digest_size=DIGEST_SIZE).digest()


def _loads(payload: memoryview, kind: str) -> Any:
    try:
        # A pairs hook keeps srsly from adding its NumPy hook, which can unpickle object arrays.
        return srsly.msgpack.unpackb(
            payload, raw=False, strict_map_key=True, object_pairs_hook=dict
        )
    except Exception as error:  # msgpack raises many types of errors
        problem = f"{type(error).__name__} in msgpack"
        raise StructlearnError("SL054", kind=kind, problem=problem) from None


def _encode(value: Any, where: str) -> Any:
    """Convert `value` to plain msgpack types."""
    if isinstance(value, np.ndarray):
        return _encode_array(value, where)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "to_bytes"):
        return _encode_array(nested(value.to_bytes()), where)
    if isinstance(value, (list, tuple)):
        return [_encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value) or ARRAY_TAG in value:
            problem = f"the keys of a dict must be strings other than {ARRAY_TAG}"
            raise StructlearnError("SL055", where=where, problem=problem)
        return {key: _encode(value[key], f"{where}.{key}") for key in sorted(value)}
    raise StructlearnError("SL055", where=where, problem=f"its type is {type(value).__name__}")


def _encode_array(array: np.ndarray, where: str) -> dict[str, Any]:
    dtype = array.dtype.newbyteorder("<")
    if dtype.str not in DTYPES or array.ndim > _MAX_DIMENSIONS:
        problem = f"an array of {array.dtype} with {array.ndim} dimensions cannot be stored"
        raise StructlearnError("SL055", where=where, problem=problem)
    raw = array.astype(dtype, copy=False).tobytes()
    return {ARRAY_TAG: dtype.str, "data": raw, "shape": list(array.shape)}


def _decode(value: Any, kind: str, depth: int = 0) -> Any:
    if depth > _MAX_NESTING:
        raise StructlearnError("SL054", kind=kind, problem="its lists are nested too deeply")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [_decode(item, kind, depth + 1) for item in value]
    if isinstance(value, dict):
        if ARRAY_TAG in value:
            return _decode_array(value, kind)
        return {key: _decode(item, kind, depth + 1) for key, item in value.items()}
    raise StructlearnError("SL054", kind=kind, problem=f"a value is of {type(value).__name__}")


def _decode_array(value: dict[str, Any], kind: str) -> np.ndarray:
    code, shape, raw = value[ARRAY_TAG], value.get("shape"), value.get("data")
    dtype = DTYPES.get(code) if isinstance(code, str) else None
    if dtype is None:
        raise StructlearnError("SL054", kind=kind, problem="an array has a type not allowed")
    mismatch = StructlearnError("SL054", kind=kind, problem="an array and its shape do not agree")
    if not (isinstance(raw, bytes) and isinstance(shape, list)):
        raise mismatch
    # Python's integers do not overflow, so a hostile shape is found before memory is allocated.
    sizes = len(shape) <= _MAX_DIMENSIONS and all(type(n) is int and 0 <= n < 2**62 for n in shape)
    if not sizes or prod(shape) * dtype.itemsize != len(raw):
        raise mismatch
    try:
        array = np.frombuffer(raw, dtype).reshape(shape).astype(dtype.newbyteorder("="))
    except ValueError:  # an empty array with a vast shape
        raise mismatch from None
    # NumPy would accept bytes other than 0 and 1 as bools.
    return array.view(np.uint8).astype(np.bool_) if dtype == np.bool_ else array
