"""How often a base grammar expects features of fragments: E of M-estimation, in closed form.

Smith, Vail & Lafferty (2007), section 4.1.2: the outside quantity of the top of a fragment, times
the probabilities of its productions, times the inside quantities of its leaves. What stands above a
node divides its outside quantity (`Expectations.annotated`); what word stands at an end of a span,
or beside it, is a left or right corner, summed over all paths that lead there (`Expectations.first`
and so on). All of this is a few linear systems; no sentence is ever parsed. The distribution is
that of the grammar by itself, with chains of unary productions that the parser would not build.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ...errors import StructlearnError
from ..chart.hypergraph import Floats
from ..latent.model import LatentGrammar
from .features import (
    POSITIONS,
    RULE,
    TAG,
    Hashes,
    Sites,
    Template,
)
from .pcfg import PCFG, Expectations

_CHUNK = 1 << 22  # products of one site and one refined production that are computed together


class Words(NamedTuple):
    """The distinct words of training data.

    texts; counts: int64 (n), how often each is there; names: of attributes; hashes: uint64
    (n, n_attributes).
    """

    texts: Sequence[str]
    counts: NDArray[np.int64]
    names: Sequence[str]
    hashes: Hashes


class FragmentExpectations:
    """How often features of fragments are expected in a tree of the base distribution.

    grammar: of which the last level of the cascade is the base, each substate a nonterminal. Words
    are distributed as its lexicon says, but for unknown ones: probabilities are divided by their
    sum over the words of the training data, `lexical_mass`, float64 (substates of tags). boundary:
    the hash of what stands outside of a sentence.
    Raises StructlearnError if it never ends a tree, or for a product of grammars.
    """

    def __init__(self, grammar: LatentGrammar, words: Words, boundary: int):
        if grammar.members:
            raise StructlearnError("SL443", members=grammar.members + 1)
        self._words, self._boundary = words, np.uint64(boundary)
        self._n_tags = grammar.symbols.n_tags
        level = grammar.levels[grammar.depth]
        self._offsets = level.offsets
        self.expected = Expectations(PCFG.of(grammar, grammar.depth))
        emissions = _emissions(grammar, words)
        self.lexical_mass = emissions.sum(axis=1)
        self._emissions = emissions / np.maximum(self.lexical_mass, 1e-300)[:, None]
        rules = grammar.rules
        size = grammar.symbols.size
        codes = np.concatenate(
            [
                _code(rules.binary[:, 0], rules.binary[:, 1], rules.binary[:, 2], size),
                _code(rules.unary[:, 0], rules.unary[:, 1], np.int64(-1), size),
            ]
        )
        self._order = np.argsort(codes)
        self._codes = codes[self._order]
        self._size, self._n_binary = size, len(rules.binary)
        self._annotated = cache(self.expected.annotated)
        self._classes = cache(self._classes_of)
        self._corner = cache(self._corner_of)
        self._productions = cache(self._productions_of)

    def of(self, template: Template, sites: Sites, attributes: Hashes) -> Floats:
        """The expected number of each feature of a template, float64 (n).

        sites: one of each feature. attributes: of the words around these; see `Sites`.
        """
        above = None
        if template.depth or template.sibling:
            above = self._above(template, sites.relations)
        terms: list[_Factor | None] = [above, None, None]
        for name, position in template.words:
            place = POSITIONS.index(position)
            if name == TAG:
                values = sites.tags[:, place].astype(np.uint64)
            else:
                column = list(self._words.names).index(name)
                values = attributes[sites.words[:, place], column]
            side = 0
            if position not in ("before", "after"):
                # Of a label or a tag it is the corner of its own span.
                side = 1 if template.part != RULE or position in ("first", "left") else 2
                position = "first" if position in ("first", "right") else "last"
            terms[side] = self._factor(name, position, values)
        if template.part != RULE:
            return self._of_labels(sites, terms)
        found = np.zeros(len(sites))
        for unary in (False, True):
            # Both ends of what has one child are ends of that.
            own = np.flatnonzero((sites.right < 0) == unary)
            if not len(own):
                continue
            chosen = [None if term is None else term.select(own) for term in terms]
            if unary and chosen[1] is None:
                chosen[1:] = chosen[2], None
            found[own] = self._of_rules(sites.select(own), chosen)
        return found

    def _above(self, template: Template, relations: NDArray[np.int32]) -> _Factor:
        """The outside quantities of states below what is above them."""
        table = self._annotated(template.depth, template.sibling)
        columns = [*range(template.depth), *([2] if template.sibling else ())]
        rows = np.zeros(len(relations), dtype=np.int64)
        for axis, column in enumerate(columns):
            rows = rows * table.shape[axis] + relations[:, column]
        return _Factor(table.reshape(-1, table.shape[-1]), rows, by_state=False)

    def _factor(self, name: str, position: str, values: Hashes) -> _Factor:
        known, _ = self._classes(name)
        places = np.searchsorted(known, values)
        if position in ("before", "after"):
            places = np.where(values == self._boundary, len(known), places)
        return _Factor(self._corner(name, position), places, by_state=True)

    def _classes_of(self, name: str) -> tuple[Hashes, Floats]:
        """The values of an attribute, ascending, and P(value | state), float64 (n, V)."""
        n_states = int(self._offsets[-1])
        if name == TAG:
            known = np.arange(self._n_tags, dtype=np.uint64)
            table = np.zeros((n_states, self._n_tags))
            sizes = np.diff(self._offsets[: self._n_tags + 1])
            table[np.arange(int(sizes.sum())), np.repeat(np.arange(self._n_tags), sizes)] = 1.0
            return known, table
        hashes = self._words.hashes[:, list(self._words.names).index(name)]
        known, classes = np.unique(hashes, return_inverse=True)
        n = len(classes)
        to = scipy.sparse.csr_array((np.ones(n), (np.arange(n), classes)), (n, len(known)))
        table = np.zeros((n_states, len(known)))
        table[: len(self._emissions)] = self._emissions @ to
        return known, table

    def _corner_of(self, name: str, position: str) -> Floats:
        """float64 (n, V), or (n, V + 1) outside of the span; see `pcfg.Expectations`."""
        if position in ("before", "after"):
            other = self._corner(name, "last" if position == "before" else "first")
            return getattr(self.expected, position)(other)
        return getattr(self.expected, position)(self._classes(name)[1])

    def _of_labels(self, sites: Sites, terms: list[_Factor | None]) -> Floats:
        """Of sites whose production makes no difference."""
        sizes = np.diff(self._offsets)[sites.symbol]
        owner = np.repeat(np.arange(len(sites)), sizes)
        begins = np.cumsum(sizes) - sizes
        states = np.arange(len(owner)) + np.repeat(self._offsets[sites.symbol] - begins, sizes)
        above, inside, _ = terms
        found = self.expected.outside[states] if above is None else above.at(owner, states)
        if inside is not None:
            found = found * inside.at(owner, states)
        return np.bincount(owner, found, len(sites))

    def _of_rules(self, sites: Sites, terms: list[_Factor | None]) -> Floats:
        asked = tuple(term is not None for term in terms)
        begins, states, weights = self._productions(asked)
        code = _code(sites.symbol, sites.left, sites.right, self._size)
        rule = self._order[np.searchsorted(self._codes, code)]
        sizes = np.diff(begins)[rule]
        found = np.zeros(len(sites))
        ends = np.cumsum(sizes)
        cuts = np.searchsorted(ends, np.arange(_CHUNK, int(ends[-1]) + _CHUNK, _CHUNK)) + 1
        for first, last in zip([0, *cuts], cuts, strict=False):
            last = min(int(last), len(sites))
            own = sizes[first:last]
            owner = np.repeat(np.arange(first, last), own)
            before = np.cumsum(own) - own
            entries = np.arange(len(owner)) + np.repeat(begins[rule[first:last]] - before, own)
            values = weights[entries]
            for term, column in zip(terms, states.T, strict=True):
                if term is not None:
                    values = values * term.at(owner, column[entries])
            found += np.bincount(owner, values, len(sites))
        return found

    def _productions_of(
        self, asked: tuple[bool, ...]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """The refined productions of each coarse one, those alike in what is asked added up.

        asked: whether there are factors of the states of the parent, the left and the right child;
        without one of the parent the weights hold its outside quantities.
        RETURNS: where those of each rule begin, binary ones first, int64; their states, int64
        (n, 3), 0 where not asked; and their weights, float64 (n).
        """
        pcfg = self.expected.pcfg
        none = np.zeros(len(pcfg.unary), dtype=np.int64)
        n_binary = self._n_binary
        rules = np.concatenate([pcfg.binary_rules, pcfg.unary_rules + n_binary]).astype(np.int64)
        states = np.concatenate(
            [pcfg.binary.astype(np.int64), np.column_stack([pcfg.unary.astype(np.int64), none])]
        )
        weights = np.concatenate([pcfg.binary_p, pcfg.unary_p])
        if not asked[0]:
            weights = weights * self.expected.outside[states[:, 0]]
        states = np.where(np.array(asked), states, 0)
        n = int(self._offsets[-1])
        code = ((rules * n + states[:, 0]) * n + states[:, 1]) * n + states[:, 2]
        _, first, group = np.unique(code, return_index=True, return_inverse=True)
        begins = np.searchsorted(rules[first], np.arange(len(self._codes) + 1))
        return begins, states[first], np.bincount(group, weights, len(first))


class _Factor(NamedTuple):
    """What a product over states has for each site: table[row, state], or table[state, row]."""

    table: Floats
    rows: NDArray[np.int64]
    by_state: bool

    def at(self, owner: NDArray[np.int64], states: NDArray[np.int64]) -> Floats:
        """For the sites `owner` with these states."""
        rows = self.rows[owner]
        return self.table[states, rows] if self.by_state else self.table[rows, states]

    def select(self, sites: NDArray[np.int64]) -> _Factor:
        """That of some of the sites."""
        return self._replace(rows=self.rows[sites])


def _code(
    parent: NDArray[np.int32], left: NDArray[np.int32], right: NDArray[np.int32] | np.int64, n: int
) -> NDArray[np.int64]:
    """A number for each production of coarse symbols; right is -1 for a unary one."""
    return (parent.astype(np.int64) * n + left) * (n + 1) + right + 1


def _emissions(grammar: LatentGrammar, words: Words) -> Floats:
    """P(word | state) of the tags, float64 (states, n_words), before it is made to sum to 1."""
    lexicon = grammar.lexicon
    # In a place that is not the first of its sentence.
    ids = np.array([lexicon.encode(("", text))[1] for text in words.texts], dtype=np.int32)
    scores = lexicon.scores(grammar.depth, ids).astype(np.float64)
    # Words that the lexicon does not tell apart share what it gives them.
    _, groups = np.unique(ids, return_inverse=True)
    share = words.counts / np.bincount(groups, words.counts)[groups]
    return scores.T * share
