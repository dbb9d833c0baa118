"""Expectations of features of fragments under a base grammar, in closed form: E of M-estimation.

Smith, Vail & Lafferty (2007), section 4.1.2: the expected number of a fragment is the outside
quantity of its top, times the probabilities of its productions, times the inside quantities of its
leaves. Ancestors divide the outside quantity (`Expectations.annotated`). Words at or next to an end
of a span are left or right corners, summed over all paths to them (`Expectations.corner` and
`neighbour`). All of this takes a few linear systems; no sentence is parsed. The distribution is
that of the grammar itself, including chains of unary productions that the parser would not build.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ...arrays import ranges
from ...errors import StructlearnError
from ..chart.hypergraph import Floats
from ..latent.model import LatentGrammar
from .features import POSITIONS, RULE, TAG, Hashes, Sites, Template
from .pcfg import PCFG, Expectations

_CHUNK = 1 << 22  # pairs of a site and a refined production that are computed together


# A factor of each site and state, table[row of the site, state]: the table and the rows.
_Factor = tuple[Floats, NDArray[np.int64]]


class Words(NamedTuple):
    """The distinct words of training data.

    counts: int64 (n), the number of occurrences of each of the texts.
    names: the attributes.
    hashes: uint64 (n, n_attributes).
    """

    texts: Sequence[str]
    counts: NDArray[np.int64]
    names: tuple[str, ...]
    hashes: Hashes


class FragmentExpectations:
    """Expected numbers of features in a tree of the base distribution.

    grammar: its last level is the base distribution, with each substate as a nonterminal.
    words: the words of the training data. Their probabilities by the lexicon are normalised, so
    that there are no unknown words.
    boundary: the hash that stands for the outside of a sentence.
    Raises StructlearnError if the grammar never ends a tree, or for a product of grammars.
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
        self._emissions = emissions / np.maximum(emissions.sum(axis=1), 1e-300)[:, None]
        rules = grammar.rules
        size = grammar.symbols.size
        parents, lefts, rights = rules.binary.T
        tops, children = rules.unary.T
        codes = np.append(
            _code(parents, lefts, rights, size), _code(tops, children, np.int64(-1), size)
        )
        self._order = np.argsort(codes)
        self._codes = codes[self._order]
        self._size, self._n_binary = size, len(rules.binary)
        self._annotated = cache(self.expected.annotated)
        self._classes = cache(self._classes_of)
        self._corner = cache(self._corner_of)
        self._productions = cache(self._productions_of)

    def of(self, template: Template, sites: Sites, attributes: Hashes) -> Floats:
        """Return the expected number of features of a template, float64 (n).

        sites: a site of each feature.
        attributes: those of the words that the sites refer to.
        """
        above = None
        if template.relations:
            above = self._above(template, sites.relations)
        terms: list[_Factor | None] = [above, None, None]
        for name, position in template.words:
            place = POSITIONS.index(position)
            if name == TAG:
                values = sites.tags[:, place].astype(np.uint64)
            else:
                values = attributes[sites.words[:, place], self._words.names.index(name)]
            classes, _ = self._classes(name)
            rows = np.searchsorted(classes, values)
            if position in ("before", "after"):
                side, rows = 0, np.where(values == self._boundary, len(classes), rows)
            else:
                # The word at an end of a label or tag is a corner of its own span.
                side = 1 if template.part != RULE or position in ("first", "left") else 2
                position = "first" if position in ("first", "right") else "last"
            terms[side] = self._corner(name, position).T, rows
        if template.part != RULE:
            return self._of_labels(sites, terms)
        expected = np.zeros(len(sites))
        for unary in (False, True):
            rows = np.flatnonzero((sites.right < 0) == unary)
            if not len(rows):
                continue
            factors = [None if term is None else (term[0], term[1][rows]) for term in terms]
            if unary and factors[1] is None:
                # Both ends of the span are ends of the only child.
                factors[1:] = factors[2], None
            expected[rows] = self._of_rules(sites.select(rows), factors)
        return expected

    def _above(self, template: Template, relations: NDArray[np.int32]) -> _Factor:
        """Return the outside quantities of states with these ancestors."""
        table = self._annotated(*(place in template.relations for place in range(2)))
        columns = relations[:, template.relations]
        rows = np.ravel_multi_index(tuple(columns.T), table.shape[:-1])
        return table.reshape(-1, table.shape[-1]), rows

    def _classes_of(self, name: str) -> tuple[Hashes, Floats]:
        """Return the values of an attribute, ascending, and P(value | state), float64 (n, V)."""
        n_states = int(self._offsets[-1])
        if name == TAG:
            classes = np.arange(self._n_tags, dtype=np.uint64)
            table = np.zeros((n_states, self._n_tags))
            tags = self.expected.pcfg.symbol[: self.expected.pcfg.tags]
            table[np.arange(len(tags)), tags] = 1.0
            return classes, table
        hashes = self._words.hashes[:, self._words.names.index(name)]
        classes, of_word = np.unique(hashes, return_inverse=True)
        n = len(of_word)
        to = scipy.sparse.csr_array((np.ones(n), (np.arange(n), of_word)), (n, len(classes)))
        table = np.zeros((n_states, len(classes)))
        table[: len(self._emissions)] = self._emissions @ to
        return classes, table

    def _corner_of(self, name: str, position: str) -> Floats:
        """Return float64 (n, V), or (n, V + 1) for words outside the span; see `Expectations`."""
        if position in ("before", "after"):
            other = self._corner(name, "last" if position == "before" else "first")
            return self.expected.neighbour(1 if position == "before" else 2, other)
        return self.expected.corner(1 if position == "first" else 2, self._classes(name)[1])

    def _of_labels(self, sites: Sites, terms: list[_Factor | None]) -> Floats:
        """Return the expected numbers of sites whatever their production."""
        sizes = np.diff(self._offsets)[sites.symbol]
        owner = np.repeat(np.arange(len(sites)), sizes)
        states = ranges(self._offsets[sites.symbol], sizes)
        above, inside, _ = terms
        values = self.expected.outside[states] if above is None else _at(above, owner, states)
        if inside is not None:
            values = values * _at(inside, owner, states)
        expected: NDArray[Any] = np.bincount(owner, values, len(sites))
        return expected

    def _of_rules(self, sites: Sites, terms: list[_Factor | None]) -> Floats:
        asked = tuple(term is not None for term in terms)
        begins, states, weights = self._productions(asked)
        code = _code(sites.symbol, sites.left, sites.right, self._size)
        rule = self._order[np.searchsorted(self._codes, code)]
        sizes = np.diff(begins)[rule]
        expected = np.zeros(len(sites))
        ends = np.cumsum(sizes)
        cuts = np.searchsorted(ends, np.arange(_CHUNK, int(ends[-1]) + _CHUNK, _CHUNK)) + 1
        for first, last in zip([0, *cuts], cuts, strict=False):
            last = min(int(last), len(sites))
            counts = sizes[first:last]
            owner = np.repeat(np.arange(first, last), counts)
            entries = ranges(begins[rule[first:last]], counts)
            values = weights[entries]
            for term, column in zip(terms, states.T, strict=True):
                if term is not None:
                    values = values * _at(term, owner, column[entries])
            expected += np.bincount(owner, values, len(sites))
        return expected

    def _productions_of(
        self, asked: tuple[bool, ...]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """Return the refined productions of each rule, summed over states that do not matter.

        asked: whether there is a factor for the state of the parent, the left and the right child.
        Without one for the parent, the weights include its outside quantity.

        Returns the first entry of each rule, int64, binary rules first; the states of each entry,
        int64 (n, 3), 0 where not asked; and its weight, float64 (n).
        """
        pcfg = self.expected.pcfg
        rules = pcfg.coarse.astype(np.int64)
        rules[pcfg.n_binary :] += self._n_binary
        weights = pcfg.p
        if not asked[0]:
            weights = weights * self.expected.outside[pcfg.rules[:, 0]]
        states = np.where(np.array(asked), np.maximum(pcfg.rules, 0).astype(np.int64), 0)
        n = int(self._offsets[-1])
        code = ((rules * n + states[:, 0]) * n + states[:, 1]) * n + states[:, 2]
        _, first, group = np.unique(code, return_index=True, return_inverse=True)
        begins = np.searchsorted(rules[first], np.arange(len(self._codes) + 1))
        sums: NDArray[Any] = np.bincount(group, weights, len(first))
        return begins.astype(np.int64), states[first], sums


def _at(factor: _Factor, owner: NDArray[np.int64], states: NDArray[np.int64]) -> Floats:
    """Return the factors of the sites `owner` in these states."""
    table, rows = factor
    return table[rows[owner], states]


def _code(
    parent: NDArray[np.int32], left: NDArray[np.int32], right: NDArray[np.int32] | np.int64, n: int
) -> NDArray[np.int64]:
    """Number the productions of coarse symbols; right is -1 for a unary one."""
    return (parent.astype(np.int64) * n + left) * (n + 1) + right + 1


def _emissions(grammar: LatentGrammar, words: Words) -> Floats:
    """Return P(word | state) for the states of tags, float64 (states, n_words), not normalised."""
    lexicon = grammar.lexicon
    # Not as the first word of a sentence.
    ids = np.array([lexicon.encode(("", text))[1] for text in words.texts], dtype=np.int32)
    scores = lexicon.scores(grammar.depth, ids).astype(np.float64)
    # Words that are the same to the lexicon share its probability.
    _, groups = np.unique(ids, return_inverse=True)
    share = words.counts / np.bincount(groups, words.counts)[groups]
    return scores.T * share
