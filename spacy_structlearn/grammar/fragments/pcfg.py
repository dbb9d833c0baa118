"""A latent grammar as a distribution of trees, and what is expected in a tree of it, exactly.

Smith, Vail & Lafferty (2007), section 4.1.2: inside values i of symbols solve a quadratic system,
outside values o, given these, a linear one, and products of the two with probabilities of rules are
the expected numbers of fragments of trees. Here each substate is a nonterminal, A -> B a rule like
others, and a tag is what is rewritten as a word, of whatever kind. Where trees may fail to end
(i < 1), the distribution is conditioned on ending, which gives a PCFG again (Chi 1999;
Nederhof & Satta 2003). Larger fragments, such as a symbol with its grandparent or with the word
just before it, are what a state and its context have as o in a grammar that remembers the context.
That is a linear system too, which is solved for all contexts at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.linalg import splu

from ...errors import StructlearnError
from ..latent.model import LatentGrammar
from ..treebank.symbols import Symbols

_SUBSTITUTIONS = 16  # before Newton's method, of which a step costs as much as many of these
_NEWTON_STEPS = 100
_ROUNDING = 4 * np.finfo(np.float64).eps
_UNSOLVED = 1e-9  # a residual above this share of the value is not one of rounding
_MOST_NODES = 1e6  # beyond, a critical grammar and one close to it look the same


@dataclass(frozen=True, eq=False)
class PCFG:
    """A PCFG in flat arrays; n states, a symbol's one after another.

    symbols: the coarse ones. symbol: int32 (n), ascending, that of each state. binary: int32
    (R, 3), parent, left and right state; binary_rules: int32 (R), the coarse rule, a row of
    `Rules.binary`; binary_p: float64 (R). unary: int32 (U, 2), unary_rules, unary_p likewise. root:
    float64 (n), P(ROOT -> state). lexical: float64 (n), what a state is rewritten as a word with: 1
    for tags, 0 for others. binarization: "right" or "left".

    Probabilities need not sum to 1, as those that were rounded do not: a tree has the product of
    those of its rules, in the distribution a share of the sum over all trees.
    """

    symbols: Symbols
    symbol: NDArray[np.int32]
    binary: NDArray[np.int32]
    binary_rules: NDArray[np.int32]
    binary_p: NDArray[np.float64]
    unary: NDArray[np.int32]
    unary_rules: NDArray[np.int32]
    unary_p: NDArray[np.float64]
    root: NDArray[np.float64]
    lexical: NDArray[np.float64]
    binarization: str = "right"

    @classmethod
    def of(cls, grammar: LatentGrammar, level: int = -1) -> PCFG:
        """The rules of grammar.levels[level] other than zero, in the order of its arrays."""
        found, symbols = grammar.levels[level], grammar.symbols
        symbol = np.repeat(np.arange(symbols.size, dtype=np.int32), found.substates)
        places, values = found.entries
        offsets, rules = found.binary_offsets, grammar.rules.binary
        binary, binary_rules = _states(places, offsets, rules, found.substates, found.offsets)
        places = np.flatnonzero(found.unary)
        offsets, rules = found.unary_offsets, grammar.rules.unary
        unary, unary_rules = _states(places, offsets, rules, found.substates, found.offsets)
        root = np.zeros(found.size)
        tops, _ = _states(
            np.arange(len(found.root)),
            found.root_offsets,
            grammar.rules.root[:, None],
            found.substates,
            found.offsets,
        )
        root[tops[:, 0]] = found.root
        return cls(
            symbols,
            symbol,
            binary,
            binary_rules,
            values.astype(np.float64),
            unary,
            unary_rules,
            found.unary[places].astype(np.float64),
            root,
            (symbol < symbols.n_tags).astype(np.float64),
            grammar.binarization,
        )

    @property
    def size(self) -> int:
        """n, the number of states."""
        return len(self.symbol)

    @cached_property
    def tags(self) -> int:
        """Number of the states of tags, which are the first ones."""
        return int(np.searchsorted(self.symbol, self.symbols.n_tags))

    @cached_property
    def phrase_of(self) -> NDArray[np.int32]:
        """The symbol of the phrase of each state, int32 (n): its own, but for an @X that of X."""
        symbols = self.symbols
        plain = np.arange(symbols.n_tags + symbols.n_phrases, dtype=np.int32)
        return np.append(plain, np.array(symbols.intermediates, dtype=np.int32))[self.symbol]

    @cached_property
    def is_intermediate(self) -> NDArray[np.bool_]:
        """bool (n)"""
        return self.symbol >= self.symbols.n_tags + self.symbols.n_phrases

    def inside(self, tolerance: float = 1e-14) -> NDArray[np.float64]:
        """i, float64 (n): the weight of all trees below each state, in a proper PCFG P(it ends).

        The least solution of i_A = sum r(A -> B C) i_B i_C + sum r(A -> B) i_B + lexical_A, by
        substitution from 0 and then by Newton's method, which comes to it from below (Etessami &
        Yannakakis 2009), until no value changes by more than `tolerance`. At a critical grammar,
        where i is a double root, about half of the digits can be had.
        Raises StructlearnError if there is no solution, which needs weights of sum above 1.
        """
        # Left in, rules that never end make the Jacobian singular, though i does not need them.
        pcfg = self._kept(self._ends())
        values = np.zeros(self.size)
        # What has no finite sum ends in infinities, which are told below.
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(_SUBSTITUTIONS):
                values = pcfg._rewritten(values)
            for _ in range(_NEWTON_STEPS):
                residual = pcfg._rewritten(values) - values
                if (residual <= _ROUNDING * values).all():
                    break
                jacobian = _matrix(self.size, *pcfg._children(values))
                step = _solve(jacobian, np.maximum(residual, 0))
                # Close to a double root the matrix is singular but for rounding.
                if step is None or not np.isfinite(step).all() or (step < -tolerance).any():
                    break
                values += np.maximum(step, 0)
                if step.max(initial=0.0) <= tolerance:
                    break
            residual = np.abs(pcfg._rewritten(values) - values)
            if not (residual <= _UNSOLVED * np.maximum(values, 1)).all():
                raise StructlearnError(
                    "SL440", problem="the weights of its trees have no finite sum"
                )
        return values

    def terminating(self) -> PCFG:
        """The PCFG of the trees that end: r i_B i_C / i_A for r, and so on.

        Its probabilities sum to 1. States below which nothing ends have no rules, and those that
        rules of probability 0 rewrite are left out. Raises StructlearnError if no tree ends,
        or if the weights have no finite sum.
        """
        values = self.inside()
        total = self.root @ values
        if not total > 0:
            raise StructlearnError("SL440", problem="it never ends a tree")
        # In the place of i, which may be some roundings off, so that sums are 1.
        rewritten = self._rewritten(values)
        scale = np.divide(1, rewritten, out=np.zeros(self.size), where=rewritten > 0)
        _, left, right = self.binary.T
        parent, child = self.unary.T
        return replace(
            self,
            binary_p=self.binary_p * values[left] * values[right] * scale[self.binary[:, 0]],
            unary_p=self.unary_p * values[child] * scale[parent],
            root=self.root * values / total,
            lexical=self.lexical * scale,
        )._kept(rewritten > 0)

    def _rewritten(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The right side of the equation of i."""
        top, left, right = self.binary.T
        parent, child = self.unary.T
        return (
            np.bincount(top, self.binary_p * values[left] * values[right], self.size)
            + np.bincount(parent, self.unary_p * values[child], self.size)
            + self.lexical
        )

    def _children(
        self, values: NDArray[np.float64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
        """Parent, child and weight, the derivative of what `_rewritten` gives."""
        top, left, right = self.binary.T
        parent, child = self.unary.T
        return (
            np.concatenate([top, top, parent]),
            np.concatenate([left, right, child]),
            np.concatenate(
                [self.binary_p * values[right], self.binary_p * values[left], self.unary_p]
            ),
        )

    def _ends(self) -> NDArray[np.bool_]:
        """Below which states some tree ends, bool (n)."""
        top, left, right = self.binary.T
        parent, child = self.unary.T
        ends, before = self.lexical > 0, 0
        while (number := np.count_nonzero(ends)) > before:
            before = number
            ends[top[ends[left] & ends[right] & (self.binary_p > 0)]] = True
            ends[parent[ends[child] & (self.unary_p > 0)]] = True
        return ends

    def _kept(self, states: NDArray[np.bool_]) -> PCFG:
        """Without the rules of other states, and those that are zero. states: bool (n)."""
        binary = states[self.binary].all(axis=1) & (self.binary_p > 0)
        unary = states[self.unary].all(axis=1) & (self.unary_p > 0)
        return replace(
            self,
            binary=self.binary[binary],
            binary_rules=self.binary_rules[binary],
            binary_p=self.binary_p[binary],
            unary=self.unary[unary],
            unary_rules=self.unary_rules[unary],
            unary_p=self.unary_p[unary],
        )


class Expectations:
    """Expected numbers in a tree of the distribution of a PCFG; what never ends is left out.

    pcfg: the terminating one, of whose rules the numbers are. outside: o, float64 (n), the expected
    number of nodes of each state in a tree: o = root + M^T o, where M[x, y] is the expected number
    of children y of a node x.
    Raises StructlearnError if no tree ends, or if the expected size of trees is not finite,
    which above a million nodes cannot be told.
    """

    def __init__(self, pcfg: PCFG):
        self.pcfg = pcfg.terminating()
        self.outside = self._outside()

    def binary(self) -> NDArray[np.float64]:
        """o_A r(A -> B C), float64 (R): expected numbers of the rules of `pcfg`."""
        return self.outside[self.pcfg.binary[:, 0]] * self.pcfg.binary_p

    def unary(self) -> NDArray[np.float64]:
        """o_A r(A -> B), float64 (U)."""
        return self.outside[self.pcfg.unary[:, 0]] * self.pcfg.unary_p

    def annotated(self, depth: int, sibling: bool) -> NDArray[np.float64]:
        """`outside` divided up by what stands above.

        The parent of a tag or phrase is the phrase of the node above, X for @X, and that of @X the
        parent of X; the grandparent is the parent of that. On these axes 0 is ROOT, above which is
        ROOT again, and 1 + k the k-th label of phrases. depth: 0, 1 for the parent or 2 for also
        the grandparent. sibling: whether, on the axis before the last, also the coarse symbol of
        the other child of the node above is told, 1 + c, for intermediates alone; 0 for others.
        Returns float64 ([1 + n_phrases, [1 + n_phrases,]] [1 + n_symbols,] n).
        Raises ValueError for another depth, and for depth 2 with siblings.
        """
        if depth not in (0, 1, 2) or (depth == 2 and sibling):
            raise ValueError(f"no numbers by ancestors of depth {depth} with sibling={sibling}")
        found = self.outside[None].copy() if depth == 0 else self._by_parent()
        if depth == 2:
            return self._below(found)
        if sibling:
            found = self._by_sibling(found)
        return found[0] if depth == 0 else found

    def first(self, words: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability that the first word below a state is of class v, float64 (n, V).

        words: float64 (n, V), P(v | state) for the states of tags; rows of others are not read.
        What is never rewritten as a tree has 0.
        """
        return self._edge(words, 1)

    def last(self, words: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability that the last word below a state is of class v; see `first`."""
        return self._edge(words, 2)

    def before(self, last: NDArray[np.float64]) -> NDArray[np.float64]:
        """Expected number of nodes whose span comes just after a word of class v.

        last: float64 (n, V), what `last` gives. Returns float64 (n, V + 1); the last column is for
        the start of the sentence.
        """
        return self._beside(last, 1)

    def after(self, first: NDArray[np.float64]) -> NDArray[np.float64]:
        """Expected number of nodes whose span comes just before a word of class v.

        first: float64 (n, V), what `first` gives. Returns float64 (n, V + 1); the last column is
        for the end of the sentence.
        """
        return self._beside(first, 2)

    def _outside(self) -> NDArray[np.float64]:
        pcfg = self.pcfg
        parent, child, weight = pcfg._children(np.ones(pcfg.size))
        reached, before = pcfg.root > 0, 0
        while (number := np.count_nonzero(reached)) > before:
            before = number
            reached[child[reached[parent]]] = True
        # What is never reached might have trees of no finite size, which count for nothing.
        matrix = _matrix(pcfg.size, child, parent, weight * reached[parent])
        found = _solve(matrix, pcfg.root)
        if found is None or not ((found > -1e-9).all() and found.sum() < _MOST_NODES):
            raise StructlearnError("SL440", problem="its trees have no finite expected size")
        return np.where(reached, np.maximum(found, 0), 0.0)

    @cached_property
    def _plain(self) -> scipy.sparse.csr_array:
        """M_plain, (n, n): expected children that are no intermediates, of states that occur."""
        return self._children_that(~self.pcfg.is_intermediate)

    @cached_property
    def _down(self) -> scipy.sparse.csr_array:
        """M_inter, (n, n): expected children that are intermediates."""
        return self._children_that(self.pcfg.is_intermediate)

    def _children_that(self, are: NDArray[np.bool_]) -> scipy.sparse.csr_array:
        parent, child, weight = self.pcfg._children(np.ones(self.pcfg.size))
        kept = are[child] & (self.outside[parent] > 0)
        return _matrix(self.pcfg.size, parent[kept], child[kept], weight[kept]).tocsr()

    def _by_parent(self) -> NDArray[np.float64]:
        """(1 + n_phrases, n)"""
        return self._below(self.outside[None])[:, 0]

    def _below(self, nodes: NDArray[np.float64]) -> NDArray[np.float64]:
        """What is expected below nodes by their phrase, and the root.

        nodes: (G, n), expected nodes of each state, G kinds of them, of which the first includes
        the root. Returns (1 + n_phrases, G, n).
        """
        pcfg = self.pcfg
        n_tags, n_phrases = pcfg.symbols.n_tags, pcfg.symbols.n_phrases
        found = np.zeros((1 + n_phrases, len(nodes), pcfg.size))
        found[0, 0] = pcfg.root
        for phrase in range(n_phrases):
            own = np.flatnonzero(pcfg.phrase_of == n_tags + phrase)
            found[1 + phrase] = nodes[:, own] @ self._plain[own]
        return self._handed_down(found)

    def _handed_down(self, nodes: NDArray[np.float64]) -> NDArray[np.float64]:
        """nodes (I - M_inter)^-1, in the place of nodes: with the cascades below them."""
        inner = np.flatnonzero(self.pcfg.is_intermediate)
        if len(inner):
            flat = nodes.reshape(-1, self.pcfg.size)
            down = self._down[:, inner]
            below = _solve(down[inner].T, (flat @ down).T)
            assert below is not None  # it has the solution that `outside` is part of
            flat[:, inner] = below.T
        return nodes

    def _by_sibling(self, nodes: NDArray[np.float64]) -> NDArray[np.float64]:
        """(P, n) as (P, 1 + n_symbols, n)"""
        pcfg = self.pcfg
        n_symbols = pcfg.symbols.size
        found = np.zeros((len(nodes), 1 + n_symbols, pcfg.size))
        plain = ~pcfg.is_intermediate
        found[:, 0, plain] = nodes[:, plain]
        parents, columns, weights = [], [], []
        for side in (1, 2):
            child, sister = pcfg.binary[:, side], pcfg.symbol[pcfg.binary[:, 3 - side]]
            rules = np.flatnonzero(pcfg.is_intermediate[child])
            parents.append(pcfg.binary[rules, 0])
            columns.append((1 + sister[rules].astype(np.int64)) * pcfg.size + child[rules])
            weights.append(pcfg.binary_p[rules])
        cells, column = np.unique(np.concatenate(columns), return_inverse=True)
        rules = scipy.sparse.csr_array(
            (np.concatenate(weights), (np.concatenate(parents), column)),
            shape=(pcfg.size, len(cells)),
        )
        found.reshape(len(nodes), -1)[:, cells] = nodes @ rules
        return found

    def _corner(self, side: int) -> NDArray[np.float64]:
        """P(state of a tag | state) of the first (side 1) or last (2) word, for all but tags."""
        tags = self.pcfg.tags
        chain = self._along(side)[tags:]
        found = _solve(chain[:, tags:], chain[:, :tags].toarray())
        assert found is not None  # whatever is rewritten ends
        return found

    def _along(self, side: int) -> scipy.sparse.csr_array:
        """Expected first (side 1) or last (2) children, (n, n)."""
        pcfg = self.pcfg
        return _matrix(
            pcfg.size,
            np.concatenate([pcfg.binary[:, 0], pcfg.unary[:, 0]]),
            np.concatenate([pcfg.binary[:, side], pcfg.unary[:, 1]]),
            np.concatenate([pcfg.binary_p, pcfg.unary_p]),
        ).tocsr()

    def _edge(self, words: NDArray[np.float64], side: int) -> NDArray[np.float64]:
        tags = self.pcfg.tags
        words = self._rows(words)
        found = np.empty(words.shape)
        found[:tags] = words[:tags]
        np.matmul(self._corner(side), words[:tags], out=found[tags:])
        return found

    def _beside(self, inner: NDArray[np.float64], side: int) -> NDArray[np.float64]:
        """Expected nodes by the word before (side 1) or after (2) them.

        A child on that side, and an only child, has the word that its parent has; the other child
        one of its sister's, `inner`.
        """
        pcfg = self.pcfg
        inner = self._rows(inner)
        sisters = _matrix(pcfg.size, pcfg.binary[:, 3 - side], pcfg.binary[:, side], self.binary())
        sources = np.concatenate([sisters.toarray(), pcfg.root[:, None]], axis=1)
        spread = _solve(self._along(side).T, sources)
        assert spread is not None  # as in _corner
        found = np.empty((pcfg.size, inner.shape[1] + 1))
        np.matmul(spread[:, :-1], inner, out=found[:, :-1])
        found[:, -1] = spread[:, -1]
        return found

    def _rows(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        values = np.asarray(values, dtype=np.float64)
        if values.ndim != 2 or len(values) != self.pcfg.size:
            raise ValueError(f"values of shape {values.shape} for {self.pcfg.size} states")
        return values


def _states(
    places: NDArray[np.integer],
    offsets: NDArray[np.int64],
    rules: NDArray[np.int32],
    substates: NDArray[np.int32],
    starts: NDArray[np.int64],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The states, int32 (E, k), and the rule, int32 (E), of places in the blocks of rules.

    offsets: where the block of each rule begins. rules: int32 (R, k), coarse. starts: where the
    states of each symbol begin.
    """
    rule = np.searchsorted(offsets, places, side="right") - 1
    rest = places - offsets[rule]
    states = np.empty((len(places), rules.shape[1]), dtype=np.int32)
    for column in range(rules.shape[1])[::-1]:
        symbol = rules[rule, column]
        rest, own = np.divmod(rest, substates[symbol])
        states[:, column] = starts[symbol] + own
    return states, rule.astype(np.int32)


def _matrix(
    size: int,
    rows: NDArray[np.integer],
    columns: NDArray[np.integer],
    values: NDArray[np.float64],
) -> scipy.sparse.csc_array:
    """(size, size), where values of one place are added up."""
    return scipy.sparse.csc_array((values, (rows, columns)), shape=(size, size))


def _solve(matrix: scipy.sparse.sparray, right: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """(I - matrix)^-1 right; None if it is exactly singular."""
    if not len(right):
        return right
    identity = scipy.sparse.csc_array(scipy.sparse.identity(len(right)))
    try:
        return splu((identity - matrix).tocsc()).solve(right)
    except RuntimeError:
        return None
