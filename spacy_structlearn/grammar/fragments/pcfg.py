"""Exact expectations under a latent grammar as a distribution of trees.

Smith, Vail & Lafferty (2007), section 4.1.2: the inside values i of symbols solve a quadratic
system, the outside values o then solve a linear one, and products of both with rule probabilities
are expected numbers of fragments of trees. Here each substate is a nonterminal, unary productions
are rules like others, and tags are rewritten as words of any kind. If trees may fail to end
(i < 1), the distribution is conditioned on ending, which gives a PCFG again (Chi 1999;
Nederhof & Satta 2003). Expectations of larger fragments, such as a symbol with its grandparent or
with the word before it, are outside values of a grammar whose states remember this context. They
solve a linear system, too, for all contexts at once.
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

_SUBSTITUTIONS = 16  # before Newton's method, whose steps are far more expensive
_NEWTON_STEPS = 100
_TOLERANCE = 1e-14  # change of a value at which Newton's method has converged
_ROUNDING = 4 * np.finfo(np.float64).eps
_UNSOLVED = 1e-9  # greater relative residuals are not rounding errors
_MAX_NODES = 1e6  # beyond, a grammar cannot be told from a critical one


@dataclass(frozen=True, eq=False)
class PCFG:
    """A PCFG with n states in flat arrays; the states of a symbol are consecutive.

    symbols: the coarse symbols.
    symbol: int32 (n), ascending, the symbol of each state.
    rules: int32 (R, 3), parent, left and right state of each rule, binary rules first. The right
        state of unary rules is -1.
    coarse: int32 (R), the coarse rule: a row of `Rules.binary`, then one of `Rules.unary`.
    p: float64 (R), the probability.
    root: float64 (n), P(ROOT -> state).
    lexical: float64 (n), P(state -> word), 1 for tags and 0 for others.

    Probabilities need not sum to 1, since they may have been rounded. The weight of a tree is the
    product of its rules, and the distribution normalises these weights.
    """

    symbols: Symbols
    symbol: NDArray[np.int32]
    rules: NDArray[np.int32]
    coarse: NDArray[np.int32]
    p: NDArray[np.float64]
    root: NDArray[np.float64]
    lexical: NDArray[np.float64]

    @classmethod
    def of(cls, grammar: LatentGrammar, level: int = -1) -> PCFG:
        """Take the rules other than zero of grammar.levels[level], in the order of its arrays."""
        source, symbols = grammar.levels[level], grammar.symbols
        symbol = np.repeat(np.arange(symbols.size, dtype=np.int32), source.substates)
        (of_binary, binary), (of_unary, unary) = map(source.entry_states, ("binary", "unary"))
        values = np.append(source.entries.values, source.unary[source.unary != 0])
        return cls(
            symbols,
            symbol,
            np.concatenate([binary, np.pad(unary, ((0, 0), (0, 1)), constant_values=-1)]).astype(
                np.int32
            ),
            np.append(of_binary, of_unary).astype(np.int32),
            values.astype(np.float64),
            source.root_vector(),
            (symbol < symbols.n_tags).astype(np.float64),
        )

    @property
    def size(self) -> int:
        """The number of states, n."""
        return len(self.symbol)

    @cached_property
    def n_binary(self) -> int:
        """The number of binary rules."""
        return int(np.count_nonzero(self.rules[:, 2] >= 0))

    @cached_property
    def tags(self) -> int:
        """The number of states of tags, which come first."""
        return int(np.searchsorted(self.symbol, self.symbols.n_tags))

    @cached_property
    def phrase_of(self) -> NDArray[np.int32]:
        """The phrase symbol of each state, int32 (n): X for an intermediate symbol @X."""
        symbols = self.symbols
        plain = np.arange(symbols.n_tags + symbols.n_phrases, dtype=np.int32)
        return np.append(plain, np.array(symbols.intermediates, dtype=np.int32))[self.symbol]

    @cached_property
    def is_intermediate(self) -> NDArray[np.bool_]:
        """Whether each state is of an intermediate symbol, bool (n)."""
        return self.symbol >= self.symbols.n_tags + self.symbols.n_phrases

    def inside(self) -> NDArray[np.float64]:
        """Compute i, float64 (n), the total weight of the trees below each state.

        In a proper PCFG this is the probability that a tree ends. It is the least solution of
        i_A = sum r(A -> B C) i_B i_C + sum r(A -> B) i_B + lexical_A, found by substitution from 0
        and then by Newton's method, which approaches it from below (Etessami & Yannakakis 2009).
        For a critical grammar, where i is a double root, about half of the digits are correct.
        Raises StructlearnError if there is no solution; this needs weights that sum to more than 1.
        """
        # Rules that never end do not change i but would make the Jacobian singular.
        pcfg = self._kept(self._ends())
        values = np.zeros(self.size)
        # Infinite sums overflow here and are detected below.
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(_SUBSTITUTIONS):
                values = pcfg._rewritten(values)
            for _ in range(_NEWTON_STEPS):
                residual = pcfg._rewritten(values) - values
                if (residual <= _ROUNDING * values).all():
                    break
                jacobian = _matrix(self.size, *pcfg._children(values))
                step = _solve(jacobian, np.maximum(residual, 0))
                # Close to a double root the matrix is singular up to rounding.
                if step is None or not np.isfinite(step).all() or (step < -_TOLERANCE).any():
                    break
                values += np.maximum(step, 0)
                if step.max(initial=0.0) <= _TOLERANCE:
                    break
            residual = np.abs(pcfg._rewritten(values) - values)
            if not (residual <= _UNSOLVED * np.maximum(values, 1)).all():
                raise StructlearnError(
                    "SL440", problem="the weights of its trees have no finite sum"
                )
        return values

    def terminating(self) -> PCFG:
        """Condition on trees that end: r becomes r i_B i_C / i_A, and so on.

        The probabilities of the result sum to 1. States below which no tree ends have no rules.
        Raises StructlearnError if no tree ends or if the weights have no finite sum.
        """
        values = self.inside()
        total = self.root @ values
        if not total > 0:
            raise StructlearnError("SL440", problem="it never ends a tree")
        # Not i itself, which may be off by some roundings: so probabilities sum to 1.
        rewritten = self._rewritten(values)
        scale = np.divide(1, rewritten, out=np.zeros(self.size), where=rewritten > 0)
        return replace(
            self,
            p=self._weights(values) * scale[self.rules[:, 0]],
            root=self.root * values / total,
            lexical=self.lexical * scale,
        )._kept(rewritten > 0)

    def _weights(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Multiply the probability of each rule by the values of its children."""
        _, left, right = self.rules.T
        return self.p * values[left] * np.append(values, 1.0)[right]

    def _rewritten(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Evaluate the right-hand side of the equation of i."""
        top, n, weights = self.rules[:, 0], self.n_binary, self._weights(values)
        unary = np.bincount(top[n:], weights[n:], self.size)
        return np.bincount(top[:n], weights[:n], self.size) + unary + self.lexical

    def _children(
        self, values: NDArray[np.float64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
        """Return parent, child and weight of the derivative of `_rewritten`."""
        n = self.n_binary
        (top, left, right), p = self.rules[:n].T, self.p[:n]
        unary, child, _ = self.rules[n:].T
        return (
            np.concatenate([top, top, unary]),
            np.concatenate([left, right, child]),
            np.concatenate([p * values[right], p * values[left], self.p[n:]]),
        )

    def _ends(self) -> NDArray[np.bool_]:
        """Return whether some tree below each state ends, bool (n)."""
        top, left, right = self.rules[self.p > 0].T
        ends, before = np.append(self.lexical > 0, True), 0
        while (number := int(np.count_nonzero(ends))) > before:
            before = number
            ends[top[ends[left] & ends[right]]] = True
        return ends[:-1]

    def _kept(self, states: NDArray[np.bool_]) -> PCFG:
        """Keep the rules of these states, bool (n), except those of probability 0."""
        stay = np.append(states, True)[self.rules].all(axis=1) & (self.p > 0)
        return replace(self, rules=self.rules[stay], coarse=self.coarse[stay], p=self.p[stay])


class Expectations:
    """Expected numbers of fragments in a tree of a PCFG, conditioned on trees that end.

    pcfg: the terminating PCFG, whose rules the results are indexed by.
    outside: o, float64 (n), the expected number of nodes of each state in a tree, which solves
    o = root + M^T o, where M[x, y] is the expected number of children y of a node x.

    Raises StructlearnError if no tree ends or if trees have an infinite expected size (or one above
    a million nodes).
    """

    def __init__(self, pcfg: PCFG):
        self.pcfg = pcfg.terminating()
        self.outside = self._outside()

    def rules(self) -> NDArray[np.float64]:
        """Return o_A r(A -> B C) or o_A r(A -> B), float64 (R), the expected numbers of rules."""
        return self.outside[self.pcfg.rules[:, 0]] * self.pcfg.p

    def annotated(self, parent: bool, sibling: bool) -> NDArray[np.float64]:
        """Divide `outside` by the parent and the sibling of each node.

        The parent of a tag or phrase is the phrase of the node above (X for @X); the parent of @X
        is the parent of X. It is 0 for ROOT, and 1 + k for the k-th phrase label. The sibling of an
        intermediate symbol is 1 + the coarse symbol of the other child; that of others is 0.

        Returns float64 ([1 + n_phrases,] [1 + n_symbols,] n).
        """
        nodes = self._by_parent() if parent else self.outside[None]
        if sibling:
            nodes = self._by_sibling(nodes)
        return nodes if parent else nodes[0]

    def _outside(self) -> NDArray[np.float64]:
        pcfg = self.pcfg
        parent, child, weight = pcfg._children(np.ones(pcfg.size))
        reached, before = pcfg.root > 0, 0
        while (number := int(np.count_nonzero(reached))) > before:
            before = number
            reached[child[reached[parent]]] = True
        # States that are never reached may have trees of infinite size; ignore them.
        matrix = _matrix(pcfg.size, child, parent, weight * reached[parent])
        outside = _solve(matrix, pcfg.root)
        if outside is None or not ((outside > -1e-9).all() and outside.sum() < _MAX_NODES):
            raise StructlearnError("SL440", problem="its trees have no finite expected size")
        return np.where(reached, np.maximum(outside, 0), 0.0)

    def _by_parent(self) -> NDArray[np.float64]:
        """Divide `outside` by the phrase of the parent, float64 (1 + n_phrases, n)."""
        pcfg = self.pcfg
        parent, child, weight = pcfg._children(np.ones(pcfg.size))
        is_inner, occurs = pcfg.is_intermediate[child], self.outside[parent] > 0
        plain, down = (
            _matrix(pcfg.size, parent[rows], child[rows], weight[rows]).tocsr()
            for rows in (~is_inner & occurs, is_inner & occurs)
        )
        below = np.zeros((1 + pcfg.symbols.n_phrases, pcfg.size))
        below[0] = pcfg.root
        for phrase in range(pcfg.symbols.n_phrases):
            states = np.flatnonzero(pcfg.phrase_of == pcfg.symbols.n_tags + phrase)
            below[1 + phrase] = self.outside[states] @ plain[states]
        inner = np.flatnonzero(pcfg.is_intermediate)
        if len(inner):
            # Intermediate symbols inherit the context of their parent: below (I - M_inter)^-1.
            down = down[:, inner]
            inherited = _solve(down[inner].T, (below @ down).T)
            assert inherited is not None  # since the system of `outside` has a solution
            below[:, inner] = inherited.T
        return below

    def _by_sibling(self, nodes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Divide (P, n) expected nodes by their siblings, to (P, 1 + n_symbols, n)."""
        pcfg = self.pcfg
        n_symbols = pcfg.symbols.size
        parents, columns, weights = [], [], []
        binary = pcfg.rules[: pcfg.n_binary]
        for side in (1, 2):
            child, sister = binary[:, side], pcfg.symbol[binary[:, 3 - side]]
            rules = np.flatnonzero(pcfg.is_intermediate[child])
            parents.append(binary[rules, 0])
            columns.append((1 + sister[rules].astype(np.int64)) * pcfg.size + child[rules])
            weights.append(pcfg.p[rules])
        rules = scipy.sparse.csr_array(
            (np.concatenate(weights), (np.concatenate(parents), np.concatenate(columns))),
            shape=(pcfg.size, (1 + n_symbols) * pcfg.size),
        )
        divided = (nodes @ rules).reshape(len(nodes), 1 + n_symbols, pcfg.size)
        plain = ~pcfg.is_intermediate
        divided[:, 0, plain] = nodes[:, plain]
        return divided

    def _along(self, side: int) -> scipy.sparse.csr_array:
        """Return the expected first (side 1) or last (side 2) children, (n, n)."""
        pcfg = self.pcfg
        top, left, right = pcfg.rules.T
        child = left if side == 1 else np.where(right < 0, left, right)
        return _matrix(pcfg.size, top, child, pcfg.p).tocsr()

    def corner(self, side: int, words: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P(the first (side 1) or last word (2) below a state is of class v), (n, V).

        words: float64 (n, V), P(v | state); only the rows of tags are read.
        The result is 0 for states below which no tree ends.
        """
        tags = self.pcfg.tags
        chain = self._along(side)[tags:]
        # P(state of the first or last tag | state)
        corner = _solve(chain[:, tags:], chain[:, :tags].toarray())
        assert corner is not None  # since whatever is rewritten ends
        return np.concatenate([words[:tags], corner @ words[:tags]])

    def neighbour(self, side: int, corner: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the expected number of nodes with a word of class v before (side 1) or after (2).

        corner: float64 (n, V), the result of `corner` for the other side.
        Returns float64 (n, V + 1). The last column is for the start or end of the sentence.
        """
        # A child on that side, or an only child, has the same neighbour as its parent. The
        # neighbour of the other child is a word of its sister.
        pcfg = self.pcfg
        binary, weights = pcfg.rules[: pcfg.n_binary], self.rules()[: pcfg.n_binary]
        sisters = _matrix(pcfg.size, binary[:, 3 - side], binary[:, side], weights)
        sources = np.concatenate([sisters.toarray(), pcfg.root[:, None]], axis=1)
        spread = _solve(self._along(side).T, sources)
        assert spread is not None  # as in `corner`
        return np.concatenate([spread[:, :-1] @ corner, spread[:, -1:]], axis=1)


def _matrix(
    size: int, rows: NDArray[np.integer], columns: NDArray[np.integer], values: NDArray[np.float64]
) -> scipy.sparse.csc_array:
    """Build a (size, size) matrix; values at the same place are added."""
    return scipy.sparse.csc_array((values, (rows, columns)), shape=(size, size))


def _solve(matrix: scipy.sparse.sparray, right: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return (I - matrix)^-1 right, or None if that is exactly singular."""
    if not len(right):
        return right
    identity = scipy.sparse.csc_array(scipy.sparse.identity(len(right)))
    try:
        return splu((identity - matrix).tocsc()).solve(right)
    except RuntimeError:
        return None
