"""What is learned of a latent grammar: for every split round, a dense block for each coarse rule.

Petrov & Klein (2007), section 2: each symbol A of the X-bar grammar has substates A_x, and a rule
A -> B C the probabilities P(A_x -> B_y C_z), one block of them. Substate x of A at one level is
part of substate `ancestors`[x] of A one level before; parsing goes through the levels from coarse
to fine (Petrov & Klein 2007b). Words belong to the lexicon. In a file only the probabilities other
than zero are stored, after a bit for each place or the distances between them, whichever is less.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...arrays import cumulative
from ...errors import StructlearnError
from ...learning.stored import Stored
from ..treebank.lexicon import Lexicon
from ..treebank.symbols import (
    BINARIZATIONS,
    Chains,
    Rules,
    Symbols,
)

STORAGES = ("float32", "float16", "log8")
_LOG8_STEP = 0.08  # nats between two codes; 255 of them reach 1.4e-9
_LOG8_LAST = 255
_LARGEST_LOG = float(np.log(np.finfo(np.float32).max)) - 1e-6
_LEAST_SHIFT = -round(_LARGEST_LOG / _LOG8_STEP)
MOST_SUBSTATES = 1 << 10


class Entries(NamedTuple):
    """The values of a vector other than zero, float32, and their places, int64, ascending."""

    places: NDArray[np.int64]
    values: NDArray[np.float32]

    @classmethod
    def of(cls, vector: NDArray[np.float32]) -> Entries:
        """Those of a vector, float32 (n)."""
        places = np.flatnonzero(vector)
        return cls(places, vector[places])


class Level:
    """The probabilities of one split round.

    rules: the coarse rules. substates: int32 (n_symbols), the number of each symbol's substates.
    ancestors: int32 (sum of substates), for each substate that of the same symbol one level before,
    of level 0: zeros. binary: float32, blocks one after another, rule r in C order (n_parent,
    n_left, n_right), or only the entries of this vector, since what is trained is nearly empty;
    unary: (n_parent, n_child); root: (n_child), P(ROOT -> A_x). For each substate of a phrase or an
    intermediate the probabilities of its rules sum to 1.
    Raises StructlearnError if the parts do not fit together.
    """

    def __init__(
        self,
        rules: Rules,
        substates: NDArray[np.int32],
        ancestors: NDArray[np.int32],
        binary: NDArray[np.float32] | Entries,
        unary: NDArray[np.float32],
        root: NDArray[np.float32],
    ):
        self.rules = rules
        self.substates = np.ascontiguousarray(substates, dtype=np.int32)
        self.ancestors = np.ascontiguousarray(ancestors, dtype=np.int32)
        self._entries: Entries | None = None
        self._binary: NDArray[np.float32] | None = None
        if isinstance(binary, Entries):
            self._entries = binary
        else:
            self._binary = np.ascontiguousarray(binary, dtype=np.float32)
        self.unary = np.ascontiguousarray(unary, dtype=np.float32)
        self.root = np.ascontiguousarray(root, dtype=np.float32)
        self._check()

    @property
    def size(self) -> int:
        """Number of substates of all symbols."""
        return int(self.offsets[-1])

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where the substates of each symbol begin, int64 (n_symbols + 1)."""
        return cumulative(self.substates)

    @cached_property
    def binary_offsets(self) -> NDArray[np.int64]:
        """Where the block of each binary rule begins, int64 (n_binary + 1)."""
        return cumulative(self.rules.sizes(self.substates)["binary"])

    @cached_property
    def unary_offsets(self) -> NDArray[np.int64]:
        """Where the block of each unary rule begins, int64 (n_unary + 1)."""
        return cumulative(self.rules.sizes(self.substates)["unary"])

    @cached_property
    def root_offsets(self) -> NDArray[np.int64]:
        """Where the vector of each root rule begins, int64 (n_root + 1)."""
        return cumulative(self.rules.sizes(self.substates)["root"])

    @property
    def binary(self) -> NDArray[np.float32]:
        """The blocks of all binary rules; made anew each time for a level that has only entries."""
        if self._binary is not None:
            return self._binary
        assert self._entries is not None
        full = np.zeros(int(self.binary_offsets[-1]), dtype=np.float32)
        full[self._entries.places] = self._entries.values
        return full

    @property
    def entries(self) -> Entries:
        """The probabilities in `binary` other than zero."""
        if self._entries is not None:
            return self._entries
        assert self._binary is not None
        return Entries.of(self._binary)

    def binary_block(self, rule: int) -> NDArray[np.float32]:
        """A block (n_parent, n_left, n_right); a view, or new where there are only entries."""
        begin, end = self.binary_offsets[rule : rule + 2].tolist()
        shape = self.substates[self.rules.binary[rule]]
        if self._binary is not None:
            return self._binary[begin:end].reshape(shape)
        places, values = self.entries
        block = np.zeros(end - begin, dtype=np.float32)
        chosen = slice(*np.searchsorted(places, (begin, end)).tolist())
        block[places[chosen] - begin] = values[chosen]
        return block.reshape(shape)

    def unary_block(self, rule: int) -> NDArray[np.float32]:
        """A view of shape (n_parent, n_child)."""
        begin, end = self.unary_offsets[rule : rule + 2]
        return self.unary[begin:end].reshape(self.substates[self.rules.unary[rule]])

    def root_block(self, rule: int) -> NDArray[np.float32]:
        """A view of shape (n_child)."""
        return self.root[self.root_offsets[rule] : self.root_offsets[rule + 1]]

    @property
    def n_productions(self) -> int:
        """Number of refined productions with a probability other than zero, words not counted."""
        arrays = (self.entries.values, self.unary, self.root)
        return sum(int(np.count_nonzero(a)) for a in arrays)

    def _check(self) -> None:
        substates = self.substates
        problem = None
        if substates.ndim != 1 or (substates < 1).any() or (substates > MOST_SUBSTATES).any():
            problem = "a symbol with no substates or too many"
        elif self.ancestors.shape != (self.size,) or (self.ancestors < 0).any():
            problem = f"ancestors of shape {self.ancestors.shape} for {self.size} substates"
        else:
            for name, array in (
                ("binary", self._binary),
                ("unary", self.unary),
                ("root", self.root),
            ):
                size = int(getattr(self, name + "_offsets")[-1])
                if array is None:
                    assert self._entries is not None
                    places, array = self._entries
                    ascending = len(places) == len(array) and (np.diff(places) > 0).all()
                    if not ascending or (len(places) and not 0 <= places[0] <= places[-1] < size):
                        problem = f"{name} probabilities in places that are none"
                elif array.shape != (size,):
                    problem = f"{name} probabilities of shape {array.shape} instead of {(size,)}"
                if array.size and not (array.min() >= 0 and array.max() < np.inf):
                    problem = f"a {name} rule whose weight is none"
        if problem:
            raise StructlearnError("SL403", problem=problem)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Level):
            return NotImplemented
        names = ("substates", "ancestors", "unary", "root")
        return (
            self.rules == other.rules
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)
            and all(map(np.array_equal, self.entries, other.entries))
        )

    __hash__ = None  # type: ignore[assignment]


class LatentGrammar(Stored):
    """A grammar at every stage of refinement; levels[0] is the treebank's X-bar grammar.

    symbols, rules, levels: see there. members: the last so many levels are no further refinements
    but the ends of other grammars of the same treebank, learned from other random numbers, with
    which the parser multiplies the end of the cascade (Petrov 2010); their ancestors are zeros.
    lexicon: words and tags, with as many levels. chains: labels
    to put back between (top, bottom) of a unary production; see `symbols`. binarization: "right" or
    "left". temperature: what the log odds of brackets are divided by, a calibration.
    storage: how `to_bytes` writes probabilities: "float32" (exact), "float16" or "log8" (their
    logarithms, in two bytes or in one: to 0.8 % or 4 %). Weights of conditional grammars may be
    above 1: "float16" is exact to 3 % beyond e^32, and "log8" needs two bytes for an array whose
    weights are further apart than e^20.4. What is below 1.4e-9 counts as that in "log8".
    Raises StructlearnError if the parts do not fit together.
    """

    kind = "latent_grammar"
    readable = (1, 2)  # 2: with weights above 1 among the codes of "log8"
    passed = ("SL405",)

    def __init__(
        self,
        symbols: Symbols,
        rules: Rules,
        levels: Sequence[Level],
        lexicon: Lexicon,
        chains: Chains | None = None,
        *,
        binarization: str = "right",
        temperature: float = 1.0,
        storage: str = "float32",
        members: int = 0,
    ):
        self.symbols = symbols
        self.rules = rules
        self.levels: list[Level] = list(levels)
        self.lexicon = lexicon
        self.chains: Chains = dict(chains or {})
        self.binarization = binarization
        self.temperature = float(temperature)
        self.storage = storage
        self.members = members
        problem = self._problem()
        if problem:
            raise StructlearnError("SL403", problem=problem)

    @classmethod
    def empty(cls) -> LatentGrammar:
        """A grammar without symbols: what an untrained component holds."""
        return cls(Symbols(), Rules.empty(), [], Lexicon.empty())

    @property
    def is_empty(self) -> bool:
        """Whether there are no levels, so that nothing can be parsed."""
        return not self.levels

    @property
    def depth(self) -> int:
        """The number of the last level of the cascade, -1 for an empty grammar."""
        return len(self.levels) - self.members - 1

    @property
    def top_label(self) -> str:
        """The phrase that most often stands right below the root; the root's label if none does."""
        symbols, tops = self.symbols, self.rules.root.tolist()
        often = {
            top: probability
            for top, probability in zip(tops, self.levels[0].root.tolist(), strict=True)
            if top >= symbols.n_tags and top != symbols.inserted_root
        }
        return symbols.names[max(often, key=often.__getitem__)] if often else symbols.root

    @property
    def n_productions(self) -> int:
        """Refined productions of the last level with a probability other than zero."""
        return self.levels[-1].n_productions if self.levels else 0

    def truncated(self, n_levels: int) -> LatentGrammar:
        """The first levels only, no members: what training had after n_levels - 1 rounds."""
        n_levels = min(n_levels, self.depth + 1)
        lexicon = self.lexicon.truncated(n_levels)
        return self.replaced(levels=self.levels[:n_levels], lexicon=lexicon, members=0)

    def without_words(self, words: Container[str]) -> LatentGrammar:
        """A grammar that does not know these words, such as those that are not to be published."""
        return self.replaced(lexicon=self.lexicon.without(words))

    def compact(self, threshold: float = 1e-6, storage: str = "float16") -> LatentGrammar:
        """A smaller grammar that parses (almost) as this one does.

        threshold: probabilities, or weights, of rules below it become zero. storage: the precision
        to which they are rounded, and with which `to_bytes` stores them. The parser is never
        without a rule for it: the likeliest of each substate stays.
        Raises StructlearnError for an unknown storage.
        """
        check_storage(storage)
        levels = []
        for level in self.levels:
            places, values = level.entries
            binary, unary, root = (
                _rounded(np.where(a < threshold, np.float32(0), a), storage)
                for a in (values, level.unary, level.root)
            )
            kept = binary > 0
            entries = Entries(places[kept], binary[kept])
            levels.append(Level(self.rules, level.substates, level.ancestors, entries, unary, root))
        lexicon = self.lexicon.rounded(lambda a: _rounded(a, storage))
        return self.replaced(levels=levels, lexicon=lexicon, storage=storage)

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        """See `Stored`; probabilities are written as `storage` says."""
        store = self.storage
        fields = {
            "tags": self.symbols.tags,
            "phrases": self.symbols.phrases,
            "intermediates": np.array(self.symbols.intermediates, dtype=np.int32),
            "root_label": self.symbols.root,
            "binary": self.rules.binary,
            "unary": self.rules.unary,
            "root": self.rules.root,
            "levels": [
                {
                    "substates": level.substates.astype(np.uint16),
                    "ancestors": level.ancestors.astype(np.uint16),
                    "binary": _packed(level.entries, int(level.binary_offsets[-1]), store),
                    "unary": sparse(level.unary, store),
                    "root": sparse(level.root, store),
                }
                for level in self.levels
            ],
            "lexicon": self.lexicon.fields(lambda values: sparse(values, store)),
            "chains": [[*pair, *between] for pair, between in sorted(self.chains.items())],
            "binarization": self.binarization,
            "temperature": self.temperature,
            "storage": store,
            "members": self.members,
        }
        arrays = (
            array
            for level in (*fields["levels"], *fields["lexicon"]["levels"])
            for array in level.values()
        )
        # Who reads version 1 alone would take the codes for those of other probabilities.
        shifted = any(isinstance(array, dict) and "shift" in array for array in arrays)
        return 2 if shifted else 1, fields

    @classmethod
    def from_fields(cls, version: int, fields: dict[str, Any]) -> LatentGrammar:
        """See `Stored`. Raises StructlearnError for a signature or normalisation that is not
        registered.
        """
        return cls._from_fields(**fields)

    @classmethod
    def _from_fields(
        cls,
        *,
        tags: list[str],
        phrases: list[str],
        intermediates: NDArray[np.int32],
        root_label: str,
        binary: NDArray[np.int32],
        unary: NDArray[np.int32],
        root: NDArray[np.int32],
        levels: list[dict[str, Any]],
        lexicon: dict[str, Any],
        chains: list[list[int]],
        binarization: str,
        temperature: float,
        storage: str,
        members: int,
    ) -> LatentGrammar:
        if not all(isinstance(name, str) for name in [*tags, *phrases, root_label]):
            raise TypeError("a label is not a string")
        symbols = Symbols(tuple(tags), tuple(phrases), tuple(intermediates.tolist()), root_label)
        rules = Rules(binary, unary, root)
        # Before anything is computed of them: an index out of range would not be noticed.
        problem = rules.problem(symbols)
        if problem:
            raise ValueError(problem)
        found = []
        for fields in levels:
            if {fields[name].dtype for name in ("substates", "ancestors")} != {np.dtype(np.uint16)}:
                raise TypeError("substates of the wrong type")
            substates = fields["substates"].astype(np.int32)
            if substates.shape != (symbols.size,) or (substates > MOST_SUBSTATES).any():
                raise ValueError("a level whose substates are not those of the symbols")
            sizes = {name: int(size.sum()) for name, size in rules.sizes(substates).items()}
            arrays = (
                _entries(fields["binary"], sizes["binary"]),
                *(dense(fields[name], sizes[name]) for name in ("unary", "root")),
            )
            found.append(Level(rules, substates, fields["ancestors"].astype(np.int32), *arrays))
        tag_substates = [level.substates[: symbols.n_tags] for level in found]
        words = Lexicon.from_fields(lexicon, symbols.n_tags, tag_substates, dense)
        return cls(
            symbols,
            rules,
            found,
            words,
            {(chain[0], chain[1]): tuple(chain[2:]) for chain in chains},
            binarization=binarization,
            temperature=temperature,
            storage=storage,
            members=members,
        )

    def __repr__(self) -> str:
        return (
            f"<LatentGrammar: {self.symbols.size} symbols, {len(self.levels)} levels, "
            f"{self.levels[-1].size if self.levels else 0} substates, "
            f"{self.n_productions} productions, {len(self.lexicon.words)} words>"
        )

    def _problem(self) -> str | None:
        symbols = self.symbols
        first, last = symbols.n_tags, symbols.n_tags + symbols.n_phrases
        for labels in (symbols.tags, symbols.phrases, symbols.intermediates):
            if list(labels) != sorted(set(labels)):
                return "symbols that are not ascending"
        if any(not first <= phrase < last for phrase in symbols.intermediates):
            return "an intermediate symbol of what is no phrase"
        problem = self.rules.problem(symbols)
        if problem:
            return problem
        if self.binarization not in BINARIZATIONS:
            return f"the binarisation {self.binarization!r}"
        if self.storage not in STORAGES:
            return f"the storage {self.storage!r}"
        if not (np.isfinite(self.temperature) and self.temperature > 0):
            return f"a temperature of {self.temperature}"
        for (top, bottom), between in self.chains.items():
            chain = (top, bottom, *between)
            if any(type(x) is not int or not first <= x < last for x in chain):
                return "a chain of labels that are no phrases"
        if type(self.members) is not int or not 0 <= self.members <= max(len(self.levels) - 1, 0):
            return f"{self.members} members of {len(self.levels)} levels"
        before = np.ones(symbols.size, dtype=np.int32)
        for number, level in enumerate(self.levels):
            if number > self.depth:
                before = np.ones(symbols.size, dtype=np.int32)
            if level.rules is not self.rules or level.substates.shape != before.shape:
                return "a level of other rules"
            if (level.ancestors >= np.repeat(before, level.substates)).any():
                return "a substate whose ancestor is none"
            before = level.substates
        if self.levels and (self.levels[0].substates != 1).any():
            return "a first level that is refined"
        return self.lexicon.problem([level.substates[:first] for level in self.levels])


def check_storage(storage: str) -> None:
    """Raises StructlearnError for an unknown storage."""
    if storage not in STORAGES:
        raise StructlearnError("SL404", value=storage, known=", ".join(STORAGES))


def product(grammars: Sequence[LatentGrammar]) -> LatentGrammar:
    """One model of several grammars of the same trees: the first whole, the others' last levels.

    Raises StructlearnError if their symbols, rules or lexicons are not the same.
    """
    first = grammars[0]
    levels, words = list(first.levels), list(first.lexicon.levels)
    for other in grammars[1:]:
        same = (first.symbols, first.rules) == (other.symbols, other.rules)
        if not same or not first.lexicon.same_words(other.lexicon):
            raise StructlearnError("SL422")
        last = other.levels[other.depth]
        arrays = (last.entries, last.unary, last.root)
        levels.append(Level(first.rules, last.substates, np.zeros_like(last.ancestors), *arrays))
        words.append(other.lexicon.levels[other.depth])
    n_tags = first.symbols.n_tags
    tag_substates = [level.substates[:n_tags] for level in levels]
    return first.replaced(
        levels=levels,
        lexicon=first.lexicon.with_levels(tag_substates, words),
        members=first.members + len(grammars) - 1,
    )


def sparse(values: NDArray[np.float32], storage: str) -> dict[str, Any]:
    """The entries of a vector other than zero, and where they are, in the fewest bytes."""
    values = values.reshape(-1)
    return _packed(Entries.of(values), len(values), storage)


def _packed(entries: Entries, size: int, storage: str) -> dict[str, Any]:
    places = entries.places
    codes, shift = _encoded(entries.values, storage)
    fields: dict[str, Any] = {"values": codes, **({"shift": shift} if shift else {})}
    gaps = np.diff(places, prepend=-1) - 1
    narrow = not len(gaps) or gaps.max() < 256
    if 8 * len(places) * (1 if narrow else 2) < size and (narrow or gaps.max() < 65536):
        fields["gaps"] = gaps.astype(np.uint8 if narrow else np.uint16)
    else:
        mask = np.zeros(size, dtype=np.bool_)
        mask[places] = True
        fields["mask"] = np.packbits(mask, bitorder="little")
    return fields


def dense(fields: dict[str, Any], size: int) -> NDArray[np.float32]:
    """The vector, float32 (size), that `sparse` stored. Raises ValueError if it cannot be one."""
    places, values = _entries(fields, size)
    full = np.zeros(size, dtype=np.float32)
    full[places] = values
    return full


def signed(entries: Entries, size: int, storage: str) -> dict[str, Any]:
    """Values of either sign in a vector of this size: what `sparse` makes of their magnitudes, and
    which are negative."""
    magnitudes = np.zeros(size, dtype=np.float32)
    magnitudes[entries.places] = np.abs(entries.values)
    negative = np.packbits(entries.values < 0, bitorder="little")
    return {"magnitudes": sparse(magnitudes, storage), "negative": negative}


def from_signed(fields: dict[str, Any], size: int) -> Entries:
    """The values that `signed` stored. Raises ValueError if they cannot be of such a vector."""
    places, values = Entries.of(dense(fields["magnitudes"], size))
    negative = fields["negative"]
    if negative.dtype != np.uint8 or negative.shape != ((len(places) + 7) // 8,):
        raise ValueError("signs that do not fit the weights")
    signs = np.unpackbits(negative, count=len(places), bitorder="little")
    return Entries(places, np.where(signs, -values, values))


def _entries(fields: dict[str, Any], size: int) -> Entries:
    """What `sparse` stored. Raises ValueError if it cannot be of a vector of this size."""
    stored = fields["values"]
    if "gaps" in fields:
        gaps = fields["gaps"]
        if gaps.dtype not in (np.uint8, np.uint16) or gaps.shape != stored.shape:
            raise ValueError("places that do not fit the values")
        places = np.cumsum(gaps.astype(np.int64) + 1) - 1
    else:
        mask = fields["mask"]
        if mask.dtype != np.uint8 or mask.shape != ((size + 7) // 8,):
            raise ValueError("a bit mask of the wrong length")
        places = np.flatnonzero(np.unpackbits(mask, count=size, bitorder="little"))
    if stored.shape != places.shape or (len(places) and places[-1] >= size):
        raise ValueError("values that do not fit their places")
    return Entries(places, _decoded(stored, fields.get("shift", 0)))


def _encoded(values: NDArray[np.float32], storage: str) -> tuple[NDArray, int]:
    """Values above zero; other than float32 as negative logarithms.

    With the codes of "log8" comes the least of them, below 0 if values are above 1 (otherwise 0),
    from which they are counted: uint8, or uint16 if they are too many.
    """
    if storage == "float32":
        return values, 0
    logs = -np.log(values.astype(np.float64))
    if storage == "float16":
        return logs.astype(np.float16), 0
    codes = np.minimum(np.rint(logs / _LOG8_STEP), _LOG8_LAST).astype(np.int64)
    shift = min(int(codes.min(initial=0)), 0)
    codes -= shift
    return codes.astype(np.uint8 if codes.max(initial=0) <= _LOG8_LAST else np.uint16), shift


def _decoded(stored: NDArray, shift: int) -> NDArray[np.float32]:
    """What `_encoded` encoded. Raises ValueError if these are no codes of it."""
    sound = type(shift) is int and _LEAST_SHIFT <= shift <= 0
    if not sound or (shift and stored.dtype.kind != "u"):
        raise ValueError("weights with a shift that is none")
    if stored.dtype == np.float32:
        return stored
    if stored.dtype == np.float16:
        logs = stored.astype(np.float64)
    elif stored.dtype == np.uint8 or (stored.dtype == np.uint16 and shift):
        logs = _LOG8_STEP * (stored.astype(np.float64) + shift)
    else:
        raise ValueError("probabilities of the wrong type")
    # The logarithm of the largest float32 is not one of float16.
    return np.exp(np.minimum(-logs, _LARGEST_LOG)).astype(np.float32)


def _rounded(values: NDArray[np.float32], storage: str) -> NDArray[np.float32]:
    found = np.zeros_like(values)
    kept = values != 0
    found[kept] = _decoded(*_encoded(values[kept], storage))
    return found
