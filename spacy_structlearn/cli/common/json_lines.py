"""Lines of JSONL. What users have in them is copied as it is written, digit by digit."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from .terminal import warn

PREFIX = "input_"  # of users' keys that have the name of a layer
DEEPEST = 500  # lists and objects in one another; Python and msgpack can hold no more than twice
_SURROGATE = re.compile(r"\\u[dD]")
_BETWEEN = re.compile(r"[\s,:]*")
_SIGNS = re.compile(r'"(?:[^"\\]|\\.)*"|([\[{])|([\]}])')


def parsed(line: str, *, stored: bool = False) -> dict[str, Any]:
    """Return the object in a line, which has a text.

    stored: whether it must fit into a DocBin.
    Raises ValueError if it has no text, if it is not JSON, or if a key or a number would be lost.
    """
    if line.count("[") + line.count("{") > DEEPEST:
        depth = 0
        for match in _SIGNS.finditer(line):
            depth += bool(match[1]) - bool(match[2])
            if depth > DEEPEST:
                raise ValueError(f"more than {DEEPEST} brackets are open")
    found = (_STORED if stored else _DECODER).decode(line)
    if not isinstance(found, dict) or not isinstance(found.get("text"), str):
        raise ValueError("no text in it")
    if _SURROGATE.search(line):
        json.dumps(found, ensure_ascii=False).encode()  # fails if one has no partner
    return found


def with_predictions(line: str, predictions: Mapping[str, Any], layers: Collection[str]) -> str:
    """Return a line of JSON: the members of the input line as they are, then the predictions.

    line: "" if the text was not read from JSONL. layers: all names that predictions may have. A
    key of the input with such a name gets `PREFIX`, again until it is the only one with its name.
    """
    own = _members(line)
    parts = [f"{json.dumps(_renamed(key, own, layers))}:{value}" for key, value in own.items()]
    rest = {key: value for key, value in predictions.items() if not (own and key == "text")}
    return f"{{{','.join([*parts, dumps(rest)[1:-1]])}}}"


def _renamed(key: str, own: Collection[str], layers: Collection[str]) -> str:
    if key in layers and key != "text":
        name = key
        while name in layers or name in own:
            name = PREFIX + name
        warn(f"the key {key!r} of the input is kept as {name!r}")
        return name
    return key


def dumps(data: Any) -> str:
    """Return data as JSON without blanks."""
    return json.dumps(data, separators=(",", ":"))


def _members(line: str) -> dict[str, str]:
    """Return the keys of a line that was parsed before, with the JSON of their values."""
    found: dict[str, str] = {}
    place = line.find("{") + 1
    while place and line[place := _after(line, place)] != "}":
        key, place = _DECODER.raw_decode(line, place)
        begin = _after(line, place)
        _, place = _DECODER.raw_decode(line, begin)
        found[key] = line[begin:place]
    return found


def _after(line: str, place: int) -> int:
    match = _BETWEEN.match(line, place)
    return match.end() if match else place


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {max(keys, key=keys.count)!r} is there twice")
    return found


def _finite(text: str) -> float:
    if math.isinf(float(text)):
        raise ValueError(f"the number {text} is too large")
    return float(text)


def _of_64_bits(text: str) -> int:
    if not -(2**63) <= int(text) < 2**64:
        raise ValueError(f"the number {text} is too large for a DocBin; JSONL can keep it")
    return int(text)


def _no_json(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


_DECODER, _STORED = (
    json.JSONDecoder(
        object_pairs_hook=_once, parse_float=_finite, parse_int=whole, parse_constant=_no_json
    )
    for whole in (int, _of_64_bits)
)
