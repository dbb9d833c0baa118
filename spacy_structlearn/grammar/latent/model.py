"""Latent grammars: for each level of refinement, a dense block for each coarse rule.

Petrov & Klein (2007), section 2. Each symbol A of the X-bar grammar has substates A_x, and a rule
A -> B C has a block of probabilities P(A_x -> B_y C_z). Substate x of A at one level refines
substate `ancestors`[x] of A at the level before. Parsing goes through the levels from coarse to
fine (Petrov & Klein 2007b). The lexicon has the probabilities of words. Files store nonzero
probabilities only, with either a bit mask of their positions or the gaps between them.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import cumulative
from ...errors import StructlearnError
from ...learning.settings import check_argument
from ...learning.stored import Stored, same
from ..treebank.data import BINARIZATIONS, Chains
from ..treebank.lexicon import Lexicon, LexiconLevel
from ..treebank.storage import STORAGES, Entries, pack, rounded, sparse, unpack
from ..treebank.symbols import Rules, Symbols, substate_columns

MAX_SUBSTATES = 1 << 10
KINDS = ("binary", "unary", "root")


class Level:
    """The probabilities of one level of refinement.

    rules: the coarse rules.
    substates: int32 (n_symbols), the number of substates of each symbol.
    ancestors: int32 (sum of substates), the substate at the level before that each one refines;
        zeros at level 0.
    binary: float32, one block (n_parent, n_left, n_right) in C order after another, or only its
        entries, since most trained probabilities are zero.
    unary: float32, blocks (n_parent, n_child).
    root: float32, vectors (n_child), P(ROOT -> A_x).

    In a generative grammar, the probabilities of the rules of each substate sum to 1.

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
        self._listed = isinstance(binary, Entries)  # only the entries are kept
        self._binary: Any = binary if self._listed else np.ascontiguousarray(binary, np.float32)
        self.unary = np.ascontiguousarray(unary, dtype=np.float32)
        self.root = np.ascontiguousarray(root, dtype=np.float32)
        if problem := self._problem():
            raise StructlearnError("SL403", problem=problem)

    @classmethod
    def zeros(
        cls, rules: Rules, substates: NDArray[np.int32], ancestors: NDArray[np.int32]
    ) -> Level:
        """A level whose probabilities are all zero."""
        sizes = rules.sizes(substates).values()
        return cls(rules, substates, ancestors, *(np.zeros(n.sum(), np.float32) for n in sizes))

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
        """The same, of unary rules."""
        return cumulative(self.rules.sizes(self.substates)["unary"])

    @cached_property
    def root_offsets(self) -> NDArray[np.int64]:
        """The same, of root rules."""
        return cumulative(self.rules.sizes(self.substates)["root"])

    @property
    def binary(self) -> NDArray[np.float32]:
        """The blocks of all binary rules. A level that has only entries makes them in each call."""
        binary: NDArray[np.float32] = self._binary
        return self._binary.dense(int(self.binary_offsets[-1])) if self._listed else binary

    @property
    def entries(self) -> Entries:
        """The nonzero probabilities of binary rules."""
        entries: Entries = self._binary if self._listed else Entries.of(self._binary)
        return entries

    def entry_substates(self, kind: str = "binary") -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of each nonzero probability of "binary" or "unary" rules the rule, int64 (E), and the
        substates of the parent and its children in their symbols, int64 (E, 3 or 2)."""
        rules, offsets = getattr(self.rules, kind), getattr(self, f"{kind}_offsets")
        places = self.entries.places if kind == "binary" else np.flatnonzero(self.unary)
        rule = np.repeat(np.arange(len(rules)), np.diff(np.searchsorted(places, offsets)))
        rest, columns = places - offsets[rule], []
        for sizes in self.substates[rules[rule, 1:]].astype(np.int64).T[::-1]:
            rest, column = np.divmod(rest, sizes)
            columns.append(column)
        return rule, np.column_stack([rest, *columns[::-1]])

    def entry_states(self, kind: str = "binary") -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The same, with the substates among those of all symbols."""
        rule, substates = self.entry_substates(kind)
        return rule, self.offsets[getattr(self.rules, kind)[rule]] + substates

    def sums(self) -> NDArray[np.float64]:
        """The sum of the binary and unary rules of each substate, float64 (size)."""
        parents = [self.entry_states(kind)[1][:, 0] for kind in ("binary", "unary")]
        values = np.append(self.entries.values, self.unary[self.unary != 0])
        total: NDArray[Any] = np.bincount(np.concatenate(parents), values, self.size)
        return total

    @property
    def root_states(self) -> NDArray[np.int64]:
        """The substates of the root rules among those of all symbols, as `root`."""
        return substate_columns(self.rules.root, self.substates)[1]

    def unary_matrix(self) -> NDArray[np.float64]:
        """P(A_x -> B_y) of all pairs of substates, float64 (size, size)."""
        full = np.zeros((self.size, self.size))
        full[tuple(self.entry_states("unary")[1].T)] = self.unary[self.unary != 0]
        return full

    def root_vector(self) -> NDArray[np.float64]:
        """P(ROOT -> A_x) of all substates, float64 (size)."""
        full = np.zeros(self.size)
        full[self.root_states] = self.root
        return full

    def block(self, kind: str, rule: int) -> NDArray[np.float32]:
        """The block of a rule of one of `KINDS`, with an axis for the parent, except ROOT, and each
        child. It is a view, or new if there are only entries."""
        begin, end = getattr(self, f"{kind}_offsets")[rule : rule + 2]
        block: NDArray[np.float32] = getattr(self, kind)[begin:end]
        return block.reshape(self.substates[getattr(self.rules, kind)[rule]])

    @property
    def n_productions(self) -> int:
        """Number of refined productions with nonzero probability, without words."""
        return sum(map(np.count_nonzero, (self.entries.values, self.unary, self.root)))

    def to_fields(self, storage: str) -> dict[str, Any]:
        """The fields to store, without the rules."""
        return {
            "substates": self.substates.astype(np.uint16),
            "ancestors": self.ancestors.astype(np.uint16),
            "binary": pack(self.entries, int(self.binary_offsets[-1]), storage),
            "unary": sparse(self.unary, storage),
            "root": sparse(self.root, storage),
        }

    @classmethod
    def from_fields(cls, rules: Rules, n_symbols: int, fields: dict[str, Any]) -> Level:
        """The level of these fields. Raises an error in `serialization.DAMAGE` if damaged."""
        substates, ancestors = fields["substates"], fields["ancestors"]
        if substates.dtype.kind not in "iu" or ancestors.dtype.kind not in "iu":
            raise TypeError("substates of the wrong type")
        if substates.shape != (n_symbols,) or (substates > MAX_SUBSTATES).any():
            raise ValueError("the substates of a level do not fit the symbols")
        sizes = {kind: int(size.sum()) for kind, size in rules.sizes(substates).items()}
        binary, *others = (unpack(fields[kind], size) for kind, size in sizes.items())
        unary, root = map(Entries.dense, others, (sizes["unary"], sizes["root"]))
        return cls(rules, substates, ancestors, binary, unary, root)

    def _problem(self) -> str | None:
        substates, ancestors = self.substates, self.ancestors
        if substates.ndim != 1 or (substates < 1).any() or (substates > MAX_SUBSTATES).any():
            return "a symbol with no substates or too many"
        if ancestors.shape != (self.size,) or (ancestors < 0).any():
            return f"ancestors of shape {ancestors.shape} for {self.size} substates"
        for kind in KINDS:
            size = int(getattr(self, f"{kind}_offsets")[-1])
            array: NDArray[np.float32] = self._binary if kind == "binary" else getattr(self, kind)
            if isinstance(array, Entries):
                places, array = array
                ascending = len(places) == len(array) and (np.diff(places) > 0).all()
                if not ascending or (len(places) and not 0 <= places[0] <= places[-1] < size):
                    return f"{kind} probabilities at wrong positions"
            elif array.shape != (size,):
                return f"{kind} probabilities of shape {array.shape} instead of {(size,)}"
            if array.size and not (array.min() >= 0 and array.max() < np.inf):
                return f"a {kind} rule with a negative or infinite weight"
        return None

    def __eq__(self, other: object) -> bool:
        names = ("rules", "substates", "ancestors", "unary", "root", "entries")
        return isinstance(other, Level) and all(
            same(getattr(self, name), getattr(other, name)) for name in names
        )

    __hash__ = None  # type: ignore[assignment]


class LatentGrammar(Stored):
    """A grammar at all levels of refinement; levels[0] is the X-bar grammar of the treebank.

    symbols, rules, levels: see `Symbols`, `Rules` and `Level`.
    lexicon: the probabilities of words, with the same number of levels.
    chains: labels to restore between (top, bottom) of a unary production, see `symbols`.
    binarization: "right" or "left".
    temperature: divisor of the log odds of brackets, for calibration.
    storage: how `to_bytes` writes probabilities: "float32" (exact), or their logarithms as
        "float16" (two bytes, error 0.8 %; 3 % for weights of conditional grammars beyond e^32).
    members: the last `members` levels are not refinements but the last levels of other grammars of
        the same treebank, trained with other random numbers, for a product (Petrov 2010). Their
        ancestors are zeros.

    Raises StructlearnError if the parts do not fit together.
    """

    kind = "latent_grammar"
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
        if problem := self._problem():
            raise StructlearnError("SL403", problem=problem)

    @classmethod
    def empty(cls) -> LatentGrammar:
        """A grammar without symbols, that of an untrained component."""
        return cls(Symbols(), Rules.empty(), [], Lexicon.empty())

    @property
    def is_empty(self) -> bool:
        """Whether there are no levels; the grammar cannot parse then."""
        return not self.levels

    @property
    def depth(self) -> int:
        """The number of the last level of the cascade, -1 for an empty grammar."""
        return len(self.levels) - self.members - 1

    @property
    def top_label(self) -> str:
        """The most frequent phrase below the root, or the label of the root if there is none."""
        symbols, tops = self.symbols, self.rules.root
        phrases = tops[(tops >= symbols.n_tags) & (tops != symbols.inserted_root)]
        if not len(phrases):
            return symbols.root
        probabilities = self.levels[0].root[np.isin(tops, phrases)]
        return symbols.names[phrases[probabilities.argmax()]]

    def truncated(self, n_levels: int) -> LatentGrammar:
        """The grammar after n_levels - 1 rounds of training: its first levels, without members."""
        return self._first(min(n_levels, self.depth + 1), 0)

    def first_grammars(self, number: int) -> LatentGrammar:
        """The product of the first grammars: this one, without its last members."""
        return self._first(self.depth + number, number - 1)

    def _first(self, n_levels: int, members: int) -> LatentGrammar:
        words = self.lexicon.levels[:n_levels]
        return self.with_levels(self.levels[:n_levels], words, members=members)

    def with_levels(
        self, levels: Sequence[Level], words: Sequence[LexiconLevel], **changes: Any
    ) -> LatentGrammar:
        """The grammar with other levels of the same symbols, rules and words, and other changes."""
        substates = [level.substates[: self.symbols.n_tags] for level in levels]
        lexicon = replace(self.lexicon, tag_substates=substates, levels=words)
        return self.replaced(levels=levels, lexicon=lexicon, **changes)

    def without_words(self, words: Container[str]) -> LatentGrammar:
        """A grammar in which these words are unknown, for example because they are private."""
        return self.replaced(lexicon=self.lexicon.without(words))

    def compact(self, threshold: float = 1e-6, storage: str = "float16") -> LatentGrammar:
        """A smaller grammar that parses almost like this one.

        threshold: lower probabilities, or weights, of rules are set to zero.
        storage: the precision to which they are rounded and with which `to_bytes` stores them.

        Raises StructlearnError for an unknown storage.
        """
        check_argument("storage", storage, str, choices=STORAGES)
        levels = []
        for level in self.levels:
            places, values = level.entries
            values, unary, root = (
                rounded(np.where(a < threshold, np.float32(0), a), storage)
                for a in (values, level.unary, level.root)
            )
            entries = Entries(places[values > 0], values[values > 0])
            levels.append(Level(self.rules, level.substates, level.ancestors, entries, unary, root))
        words = [
            LexiconLevel(*(rounded(array, storage) for array in level))
            for level in self.lexicon.levels
        ]
        return self.with_levels(levels, words, storage=storage)

    def to_fields(self) -> tuple[int, dict[str, Any]]:
        return self.version, {
            "tags": self.symbols.tags,
            "phrases": self.symbols.phrases,
            "intermediates": np.array(self.symbols.intermediates, dtype=np.int32),
            "root_label": self.symbols.root,
            "binary": self.rules.binary,
            "unary": self.rules.unary,
            "root": self.rules.root,
            "levels": [level.to_fields(self.storage) for level in self.levels],
            "lexicon": self.lexicon.to_fields(self.storage),
            "chains": [[*pair, *between] for pair, between in sorted(self.chains.items())],
            "binarization": self.binarization,
            "temperature": self.temperature,
            "storage": self.storage,
            "members": self.members,
        }

    @classmethod
    def from_fields(cls, version: int, fields: dict[str, Any]) -> LatentGrammar:
        """See `Stored`. Raises StructlearnError for a signature that is not registered."""
        tags, phrases, root = (fields.pop(name) for name in ("tags", "phrases", "root_label"))
        if not all(isinstance(name, str) for name in [*tags, *phrases, root]):
            raise TypeError("a label is not a string")
        intermediates = tuple(fields.pop("intermediates").tolist())
        symbols = Symbols(tuple(tags), tuple(phrases), intermediates, root)
        rules = Rules(*(fields.pop(name) for name in ("binary", "unary", "root")))
        levels = [Level.from_fields(rules, symbols.size, stored) for stored in fields.pop("levels")]
        tag_substates = [level.substates[: symbols.n_tags] for level in levels]
        words = Lexicon.from_fields(fields.pop("lexicon"), tag_substates)
        chains = {(chain[0], chain[1]): tuple(chain[2:]) for chain in fields.pop("chains")}
        return cls(symbols, rules, levels, words, chains, **fields)

    def _problem(self) -> str | None:
        symbols = self.symbols
        first, last = symbols.n_tags, symbols.n_tags + symbols.n_phrases
        for labels in (symbols.tags, symbols.phrases, symbols.intermediates):
            if any(not a < b for a, b in pairwise(labels)):  # type: ignore[operator] # one type
                return "symbols that are not ascending"
        if any(not first <= phrase < last for phrase in symbols.intermediates):
            return "an intermediate symbol without a phrase"
        if problem := self.rules.problem(symbols):
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
                return "a chain with a label that is not a phrase"
        if type(self.members) is not int or not 0 <= self.members <= max(len(self.levels) - 1, 0):
            return f"{self.members} members of {len(self.levels)} levels"
        before = ones = np.ones(symbols.size, dtype=np.int32)
        for number, level in enumerate(self.levels):
            if number > self.depth:
                before = ones
            if level.rules is not self.rules or level.substates.shape != before.shape:
                return "a level with other rules"
            if (level.ancestors >= np.repeat(before, level.substates)).any():
                return "a substate without an ancestor"
            before = level.substates
        if self.levels and (self.levels[0].substates != 1).any():
            return "a first level that is refined"
        return self.lexicon.problem([level.substates[:first] for level in self.levels])


def product(grammars: Sequence[LatentGrammar]) -> LatentGrammar:
    """Combine grammars of the same trees: all levels of the first, the last ones of the others.

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
    return first.with_levels(levels, words, members=first.members + len(grammars) - 1)
