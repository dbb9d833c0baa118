"""Classes of words by their spelling, for unknown words.

A signature function returns a chain of classes of a word, from the finest to the coarsest: those of
Petrov et al. (2006) for English, or shapes with endings for any language. A normalisation function
returns other spellings of a word. Model files refer to functions by name: register your own in
`SIGNATURES` or `NORMALIZATIONS`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from typing import Any

import catalogue

from ..errors import StructlearnError

Signature = Callable[[str, bool, Container[str]], Sequence[str]]
Normalization = Callable[[str, int], Sequence[str]]

_ENGLISH_SUFFIXES = ("ed", "ing", "ion", "er", "est", "ly", "ity", "y", "al")


def english_signature(word: str, initial: bool, known: Container[str]) -> tuple[str, ...]:
    """Return the classes of Petrov et al. (2006): capitals, digits, dashes, suffixes.

    initial: whether the word is the first of its sentence. known: the known words.
    """
    lowered = word.lower()
    capitals = sum(c.isupper() for c in word)
    parts = ["UNK"]
    if word[:1].isupper():
        if initial and capitals == 1:
            parts.append("-INITC-KNOWNLC" if lowered in known else "-INITC")
        else:
            parts.append("-CAPS")
    elif capitals and not word[:1].isalpha():
        parts.append("-CAPS")
    elif any(c.islower() for c in word):
        parts.append("-LC")
    digit, dash = any(c.isdigit() for c in word), "-" in word
    if digit:
        parts.append("-NUM")
    if dash:
        parts.append("-DASH")
    if lowered.endswith("s") and len(word) >= 3 and lowered[-2] not in "siu":
        parts.append("-s")
    elif len(word) >= 5 and not dash and not (digit and capitals):
        suffix = next((s for s in _ENGLISH_SUFFIXES if lowered.endswith(s)), None)
        if suffix:
            parts.append("-" + suffix)
    return tuple("".join(parts[:n]) for n in range(len(parts), 0, -1))


def shape_signature(word: str, initial: bool, known: Container[str]) -> tuple[str, ...]:
    """Return classes for any language: the shape with the last three to zero characters.

    initial: whether the word is the first of its sentence. known: the known words.
    """
    letters = [c for c in word if c.isalpha()]
    if not letters:
        shape = "none"
    elif word[:1].isupper():
        title = not any(c.isupper() for c in letters[1:])
        shape = ("Initial" if initial else "Title") if title else "CAPS"
    else:
        shape = "mixed" if any(c.isupper() for c in letters) else "lower"
    if any(c.isdigit() for c in word):
        shape += "+digit"
    if letters and not word.isalnum():
        shape += "+mark"
    ending = "".join("0" if c.isdigit() else c for c in word.lower()[-3:])
    suffixes = (f"{shape} {ending[-n:]}" for n in range(len(ending), 0, -1))
    return (*suffixes, shape)


_VARIANTS = (
    ("``", '"', "“", "«", "„", "''"),
    ("''", '"', "”", "»", "“", "``"),
    ("'", "’", "‘", "`", "ʼ"),
    ("`", "‘", "'", "’"),
    ("--", "–", "—", "-", "―", "−"),
    ("-", "‐", "‑", "–", "--"),
    ("...", "…", ". . ."),
    ("(", "[", "{"),
    (")", "]", "}"),
)
# The group of each spelling: the group that begins with it, or the first that contains it.
_GROUPS = {form: i for i, group in reversed([*enumerate(_VARIANTS)]) for form in group}
_GROUPS |= {group[0]: i for i, group in enumerate(_VARIANTS)} | {"”": 1, "»": 1, "’": 2}


def typographic(word: str, before: int) -> tuple[str, ...]:
    """Return other spellings of quotes, dashes and brackets, the nearest first.

    before: how often the word occurs earlier in its sentence, since plain quotation marks open and
        close in turn.

    Apostrophes and hyphens in words are replaced by plain ones, and compatibility characters are
    resolved.
    """
    group = before % 2 if word == '"' else _GROUPS.get(word)
    forms = [] if group is None else list(_VARIANTS[group])
    plain = unicodedata.normalize("NFKC", word)
    for variant, usual in (("’", "'"), ("ʼ", "'"), ("‐", "-"), ("‑", "-"), ("–", "-")):
        plain = plain.replace(variant, usual)
    forms += [plain, plain.replace("'", "’")]
    return tuple(form for form in dict.fromkeys(forms) if form and form != word)


# Other packages can use the entry points spacy_structlearn_signatures and
# spacy_structlearn_normalizations.
SIGNATURES = catalogue.create("spacy_structlearn", "signatures", entry_points=True)
SIGNATURES.register("english", func=english_signature)
SIGNATURES.register("shape", func=shape_signature)
NORMALIZATIONS = catalogue.create("spacy_structlearn", "normalizations", entry_points=True)
NORMALIZATIONS.register("typographic", func=typographic)


def registered(registry: catalogue.Registry, kind: str, name: str) -> Any:
    """Return the function with this name.

    registry: SIGNATURES or NORMALIZATIONS. kind: for the message. Raises StructlearnError if the
    function is not registered.
    """
    if not isinstance(name, str) or name not in registry:
        known = ", ".join(sorted(registry.get_all()))
        raise StructlearnError("SL405", kind=kind, name=name, known=known)
    return registry.get(name)


def spelling_constraints(
    signature: str, normalization: str, optional: Collection[str] = ("normalization",)
) -> Iterator[tuple[str, str, bool]]:
    """Yield the constraints of the settings `signature` and `normalization`.

    optional: the names of settings that may be empty.
    """
    for name, function, registry in (
        ("signature", signature, SIGNATURES),
        ("normalization", normalization, NORMALIZATIONS),
    ):
        known = ", ".join(sorted(registry.get_all()))
        sound = function in registry or (not function and name in optional)
        yield name, f"one of the registered functions, {known}", sound
