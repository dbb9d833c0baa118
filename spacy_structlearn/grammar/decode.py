"""Sentences to trees: the cascade of a latent grammar, and what to make of its posteriors.

Petrov & Klein (2007), sections 2 and 3.2, and Petrov & Klein (2007b) for the decoders, which choose
among trees without substates by the posterior q of each production over its span:

    viterbi            the tree of the best derivation, substates and all
    max_rule_sum       the largest sum of q: the expected number of right productions
    max_rule_product   the largest product of q (Petrov & Klein 2007b): the default
    variational        the largest product of q given its parent (Matsuzaki et al. 2005)

With several grammars of one treebank, members of one model or models of their own, the scores of
all are added up (Petrov 2010). A tree always
comes back: where nothing survives the thresholds they are lowered, then levels are left out; a
sentence that not even the coarsest grammar can parse gets a flat tree, marked as failed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from ..trees.tree import Span, Tree
from . import _chart
from .model import LatentGrammar, Level

DECODERS = tuple(_chart.DECODERS)
# Posteriors below these are left out after each level of the cascade. The grammar of level 0 knows
# little, so that much must pass it; the others are nearly always right about what is impossible.
THRESHOLDS = (1e-4,) * 8
EDGE_FACTOR = 0.1
_BATCH_WORDS = 500
# An entry by itself takes the time of about so many in a row: blocks with fewer are kept as lists.
DENSE = 16


@dataclass
class Parse:
    """One sentence parsed.

    labels, starts, ends: the brackets in pre-order (by start, -end, depth), the root left out; a
    unary chain is a repeated span, topmost first. probabilities: float32, the posterior of each,
    calibrated by the grammar's temperature. tags: of the words. log_probability: log P(tree |
    sentence), and log_likelihood: log P(sentence), by the (first) grammar; both over what has
    passed the thresholds, so the second is a lower bound. Of a conditional grammar, whose weights
    are no probabilities, the second is log Z, the sum of the scores of all trees: it says nothing
    of how likely the sentence is. failed: whether the tree is only a makeshift, without a
    probability. root: the label above it.
    """

    labels: list[str]
    starts: list[int]
    ends: list[int]
    probabilities: NDArray[np.float32]
    tags: list[str]
    log_probability: float = -np.inf
    log_likelihood: float = -np.inf
    failed: bool = False
    root: str = "TOP"
    levels: int = field(default=0, repr=False)  # of the cascade that it went through

    @property
    def spans(self) -> list[Span]:
        """(label, start, end) of each bracket in pre-order."""
        return list(zip(self.labels, self.starts, self.ends, strict=True))

    def tree(self, words: Sequence[str]) -> Tree:
        """The tree over these words, with the root above it."""
        spans = [(self.root, 0, len(words)), *self.spans]
        return Tree.from_spans(list(words), self.tags, spans)


class ChartParser:
    """Parses with one latent grammar, or with several that are of one treebank.

    decoder: one of `DECODERS`. levels: those of the (first) grammar that make the cascade, from 0
    to its depth; None: all. thresholds: of posteriors, one for each level but the last.
    threads: so many share the sentences of a batch. Memory grows with the square of the longest
    sentence and its time faster: 250 words take 40 MB, 5,000 would take 16 GB.
    Raises StructlearnError SL420 for an empty grammar, SL421 for settings out of range, SL422 for
    grammars of different symbols or rules.
    """

    def __init__(
        self,
        grammars: LatentGrammar | Sequence[LatentGrammar],
        *,
        decoder: str = "max_rule_product",
        levels: Sequence[int] | None = None,
        thresholds: Sequence[float] = THRESHOLDS,
        edge_factor: float = EDGE_FACTOR,
        threads: int = 1,
    ):
        if isinstance(grammars, LatentGrammar):
            grammars = [grammars]
        if not grammars or any(grammar.is_empty for grammar in grammars):
            raise StructlearnError("SL420")
        self.grammar = grammars[0]
        self.grammars = list(grammars)
        last = self.grammar.depth
        self.levels = tuple(range(last + 1) if levels is None else levels)
        thresholds = tuple(thresholds)
        ascending = list(self.levels) == sorted({0, last, *self.levels})
        inside = all(0 <= level <= last for level in self.levels)
        for name, value, wanted, sound in (
            ("decoder", decoder, "one of " + ", ".join(DECODERS), decoder in DECODERS),
            ("levels", levels, f"ascending from 0 to {last}", ascending and inside),
            (
                "thresholds",
                thresholds,
                f"{max(len(self.levels) - 1, 1)} or more posteriors from 0 to 1",
                len(thresholds) >= max(len(self.levels) - 1, 1)
                and all(0 <= t <= 1 for t in thresholds),
            ),
            ("edge_factor", edge_factor, "from 0 to 1", 0 <= edge_factor <= 1),
            ("threads", threads, "1 or more", threads >= 1),
        ):
            if not sound:
                raise StructlearnError("SL421", name=name, value=value, wanted=wanted)
        for grammar in self.grammars[1:]:
            if grammar.symbols != self.grammar.symbols or grammar.rules != self.grammar.rules:
                raise StructlearnError("SL422")
        self.decoder = decoder
        self.threads = threads
        # What scores the last forest: (grammar, level), first the end of the cascade.
        self._finals = [
            (grammar, level)
            for grammar in self.grammars
            for level in range(grammar.depth, len(grammar.levels))
        ]
        compiled = {id(grammar): compile_grammar(grammar) for grammar in self.grammars}
        self._parser = _chart.Parser(
            [compiled[id(grammar)] for grammar, _ in self._finals],
            self.levels,
            [level for _, level in self._finals],
            thresholds,
            edge_factor,
            decoder,
        )
        # What a chart needs grows with the square of the longest sentence; it is used again.
        self._charts: SimpleQueue[_chart.Chart] = SimpleQueue()
        for _ in range(threads):
            self._charts.put(_chart.Chart())
        names = self.grammar.symbols.names
        self._names = np.array(names, dtype=object)

    def parse(
        self,
        sentences: Iterable[Sequence[str]],
        tags: Iterable[Sequence[str]] | None = None,
        *,
        tag_weight: float = np.inf,
    ) -> list[Parse]:
        """Parse sentences.

        sentences: the words of each. tags: a tag for each word, "" for none; tags that the grammar
        does not know are ignored. tag_weight: the score of a word with its given tag is raised by
        so many nats; with infinity the tag is certain.
        Raises StructlearnError SL423 if there is not one tag a word.
        """
        sentences = [list(sentence) for sentence in sentences]
        given: list[Sequence[str] | None] = [None] * len(sentences)
        if tags is not None:
            given = [list(own) for own in tags]
            if [len(own) for own in given] != [len(sentence) for sentence in sentences]:
                raise StructlearnError("SL423")
        ends = np.cumsum([len(sentence) for sentence in sentences], dtype=np.int64)
        cuts = np.flatnonzero(np.diff(ends // _BATCH_WORDS, prepend=0)) + 1
        bounds = sorted({0, *cuts.tolist(), len(sentences)})
        batches = [slice(*pair) for pair in pairwise(bounds)]

        def run(batch: slice) -> list[Parse]:
            return self._parse_batch(sentences[batch], given[batch], tag_weight)

        if self.threads == 1 or len(batches) < 2:
            found = map(run, batches)
        else:
            # Each takes the next batch when it is done with one, so that what holds the
            # interpreter's lock in one thread goes on beside the kernel of another.
            with ThreadPoolExecutor(self.threads) as pool:
                found = pool.map(run, batches)
        return [parse for parses in found for parse in parses]

    def k_best(
        self,
        sentence: Sequence[str],
        k: int,
        tags: Sequence[str] | None = None,
        *,
        tag_weight: float = np.inf,
    ) -> list[Parse]:
        """The k trees that the decoder likes best, best first; fewer if there are no more.

        With the decoder "viterbi" the trees are ranked as by "max_rule_product". The arguments are
        as in `parse`. Huang & Chiang (2005), algorithm 2.
        """
        sentence = list(sentence)
        lexicon, others = self._scores([sentence], [tags], tag_weight)
        parses = []
        chart = self._charts.get()
        try:
            forest = chart.forest(self._parser, lexicon, others) if sentence else None
            if forest is not None:
                for root, choices in _KBest(forest, self.grammar.symbols.n_tags, k).trees():
                    *arrays, log_probability = chart.read(self._parser, root, choices)
                    parse = self._parses(*arrays, np.array([0, len(arrays[0])]))[0]
                    parse.log_likelihood = forest["log_likelihood"]
                    parse.log_probability = log_probability
                    parse.levels = forest["levels"]
                    parses.append(parse)
        finally:
            self._charts.put(chart)
        if not parses:
            given = None if tags is None else [tags]
            parses = self.parse([sentence], given, tag_weight=tag_weight)[:k]
        return parses

    def _parse_batch(
        self,
        sentences: list[list[str]],
        tags: list[Sequence[str] | None],
        tag_weight: float,
    ) -> list[Parse]:
        filled = [i for i, sentence in enumerate(sentences) if sentence]
        words = [sentences[i] for i in filled]
        offsets = np.cumsum([0, *(len(sentence) for sentence in words)])
        parses: dict[int, Parse] = {}
        if filled:
            lexicon, others = self._scores(words, [tags[i] for i in filled], tag_weight)
            chart = self._charts.get()
            try:
                *arrays, begins, levels, logs = chart.parse(self._parser, lexicon, others, offsets)
            finally:
                self._charts.put(chart)
            found = self._parses(*arrays, begins)
            for number, (parse, level, log) in enumerate(
                zip(found, levels.tolist(), logs.tolist(), strict=True)
            ):
                parse.levels = level
                parse.log_likelihood, parse.log_probability = log
                if not level:
                    parse = self._makeshift(lexicon[0][offsets[number] : offsets[number + 1]])
                parses[filled[number]] = parse
        for i in range(len(sentences)):
            if i not in parses:
                nothing = np.empty(0, np.float32)
                parses[i] = Parse([], [], [], nothing, [], root=self.grammar.symbols.root)
        return [parses[i] for i in range(len(sentences))]

    def _scores(
        self,
        sentences: list[list[str]],
        tags: list[Sequence[str] | None],
        tag_weight: float,
    ) -> tuple[list[NDArray[np.float32]], list[NDArray[np.float32]]]:
        """Word scores for each level of the cascade, and for the last of each other grammar."""
        scores = []
        wanted = [(self.grammar, level) for level in self.levels] + self._finals[1:]
        given = None
        if any(own is not None for own in tags):
            index = self.grammar.symbols.tag_index
            given = np.array(
                [
                    index.get(tag, -1)
                    for own, sentence in zip(tags, sentences, strict=True)
                    for tag in (own if own is not None else [""] * len(sentence))
                ]
            )
        ids: dict[int, NDArray[np.int32]] = {}
        for grammar, level in wanted:
            if id(grammar) not in ids:
                encode = grammar.lexicon.encode
                ids[id(grammar)] = np.concatenate(
                    [np.empty(0, np.int32), *(encode(sentence) for sentence in sentences)]
                )
            rows = grammar.lexicon.scores(level, ids[id(grammar)])
            if given is not None:
                n_tags = grammar.symbols.n_tags
                owner = np.repeat(np.arange(n_tags), grammar.levels[level].substates[:n_tags])
                rows = _with_tags(rows, owner, given, tag_weight)
            scores.append(np.ascontiguousarray(rows, dtype=np.float32))
        return scores[: len(self.levels)], scores[len(self.levels) :]

    def _parses(
        self,
        symbols: NDArray[np.int32],
        starts: NDArray[np.int32],
        ends: NDArray[np.int32],
        probabilities: NDArray[np.float32],
        begins: NDArray[np.int64],
    ) -> list[Parse]:
        """The kernel's output as parses."""
        own = self.grammar.symbols
        is_tag = symbols < own.n_tags
        bracket = ~is_tag
        # The phrase that holds together several children of the root is not in the treebank.
        if own.inserted_root >= 0:
            tops = begins[:-1][np.diff(begins) > 0]
            bracket[tops[symbols[tops] == own.inserted_root]] = False
        names = self._names[symbols]
        bounds = np.searchsorted(np.flatnonzero(bracket), begins).tolist()
        tag_bounds = np.searchsorted(np.flatnonzero(is_tag), begins).tolist()
        labels, tags = names[bracket].tolist(), names[is_tag].tolist()
        first, last = starts[bracket].tolist(), ends[bracket].tolist()
        calibrated = calibrate(probabilities[bracket], self.grammar.temperature)
        return [
            Parse(
                labels[low:high],
                first[low:high],
                last[low:high],
                calibrated[low:high],
                tags[tag_low:tag_high],
                root=own.root,
            )
            for low, high, tag_low, tag_high in zip(
                bounds[:-1], bounds[1:], tag_bounds[:-1], tag_bounds[1:], strict=True
            )
        ]

    def _makeshift(self, scores: NDArray[np.float32]) -> Parse:
        """A flat tree: the likeliest tag of each word under the likeliest phrase."""
        symbols, label = self.grammar.symbols, self.grammar.top_label
        tags = [symbols.names[tag] for tag in scores[:, : symbols.n_tags].argmax(axis=1)]
        probability = np.zeros(1, np.float32)
        return Parse([label], [0], [len(tags)], probability, tags, failed=True, root=symbols.root)


def compile_grammar(grammar: LatentGrammar) -> _chart.Grammar:
    """The grammar as the kernel takes it."""
    symbols, rules = grammar.symbols, grammar.rules
    chains = [grammar.chains.get((top, bottom), ()) for top, bottom in rules.unary.tolist()]
    levels = []
    for level in grammar.levels:
        dense, dense_offsets, *entries = _blocks(level)
        unary = (level.unary, level.unary_offsets)
        root = (level.root, level.root_offsets)
        levels.append(
            (level.substates, level.offsets, dense, dense_offsets, *unary, *root, *entries)
        )
    return _chart.Grammar(
        symbols.n_tags,
        symbols.n_phrases,
        symbols.size,
        rules.binary,
        rules.unary,
        rules.root,
        levels,
        grammar.levels[0].binary,
        np.cumsum([0, *map(len, chains)], dtype=np.int32),
        np.array([symbol for chain in chains for symbol in chain], dtype=np.int32),
    )


def _blocks(level: Level) -> tuple[NDArray, ...]:
    """The blocks of the binary rules: those that are well filled dense, of the others the entries.

    RETURNS: the dense ones, float32, and where the block of each rule begins there, int64, -1 for
    those that are not; where the entries of each rule begin, int32 (n_binary + 1), and of each its
    parent substate, its pair of children, and its probability.
    """
    places, values = level.entries
    offsets = level.binary_offsets
    sizes = np.diff(offsets)
    widths = level.substates[level.rules.binary[:, 1:]].astype(np.int64).prod(axis=1)
    begins = np.searchsorted(places, offsets)
    filled = np.diff(begins) * DENSE >= sizes
    dense_sizes = np.where(filled, sizes, 0)
    dense_offsets = np.cumsum(dense_sizes) - dense_sizes
    rule = np.repeat(np.arange(len(sizes)), np.diff(begins))
    local = places - offsets[rule]
    dense = np.zeros(int(dense_sizes.sum()), dtype=np.float32)
    inside = filled[rule]
    dense[dense_offsets[rule[inside]] + local[inside]] = values[inside]
    rule, local, values = rule[~inside], local[~inside], values[~inside]
    return (
        dense,
        np.where(filled, dense_offsets, -1),
        np.searchsorted(rule, np.arange(len(sizes) + 1)).astype(np.int32),
        (local // widths[rule]).astype(np.int32),
        (local % widths[rule]).astype(np.int32),
        values,
    )


def calibrate(probabilities: NDArray[np.floating], temperature: float) -> NDArray[np.float32]:
    """p**(1/T) / (p**(1/T) + (1 - p)**(1/T)) for each probability p and temperature T."""
    p = np.clip(np.asarray(probabilities, dtype=np.float64), 0.0, 1.0)
    if temperature == 1.0:
        return p.astype(np.float32)
    with np.errstate(divide="ignore"):
        odds = (np.log(p) - np.log1p(-p)) / temperature
    return (0.5 * (1.0 + np.tanh(odds / 2.0))).astype(np.float32)


def fit_temperature(probabilities: NDArray[np.floating], right: NDArray[np.bool_]) -> float:
    """The temperature of the highest likelihood (Guo et al. 2017) for these brackets.

    probabilities: uncalibrated, right: whether the bracket is in the gold tree; both (n). Raises
    StructlearnError SL424 unless there are right brackets as well as wrong ones.
    """
    from scipy.optimize import minimize_scalar

    right = np.asarray(right, dtype=bool)
    if not 0 < right.sum() < len(right):
        raise StructlearnError("SL424", right=int(right.sum()), number=len(right))
    # Posteriors that float32 rounds to 0 or 1 are as good as their neighbours.
    p = np.clip(np.asarray(probabilities, dtype=np.float64), 1e-6, 1 - 1e-6)
    odds = np.where(right, 1.0, -1.0) * (np.log(p) - np.log1p(-p))

    def loss(log_temperature: float) -> float:
        return float(np.logaddexp(0.0, -odds * np.exp(-log_temperature)).sum())

    return float(np.exp(minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded").x))


def _with_tags(
    rows: NDArray[np.float32],
    owner: NDArray[np.int64],
    given: NDArray[np.int64],
    weight: float,
) -> NDArray[np.float32]:
    """Scores of words whose tags are given (-1: not). owner: the tag of each column."""
    own = owner == given[:, None]
    rows = np.array(rows, dtype=np.float32)
    if np.isinf(weight):
        known = given >= 0
        # A word that was never seen with its tag is as likely under each substate.
        never = known & ~(rows * own).any(axis=1)
        rows[never] = 1.0
        rows[known] *= own[known]
        return rows
    # The scale of a row does not matter: lower the others, so that nothing overflows; a word that
    # was never seen with its tag is left as it is, so that it does not vanish altogether.
    seen = (rows * own).any(axis=1)
    rows[seen] *= np.where(own[seen], 1.0, np.exp(-weight)).astype(np.float32)
    return rows


class _KBest:
    """The k best trees of a scored forest.

    A vertex is the lower or the upper node of an item; its derivations are lists of vertices below
    with a score of their own. Bottom up each vertex gets its k best trees, of which each is known
    by a derivation and the ranks of its parts (Huang & Chiang 2005, algorithm 2).
    """

    def __init__(self, forest: dict[str, Any], n_tags: int, k: int):
        items = forest["items"]
        n = len(items)
        self.n = n
        self.k = k
        self.is_tag = (items[:, 0] < n_tags).tolist()
        # (score, choice, vertices below) by vertex: lower 0..n - 1, upper n..2n - 1, the root 2n.
        self.derivations: list[list[tuple[float, int, tuple[int, ...]]]]
        self.derivations = [[] for _ in range(2 * n + 1)]
        edges = zip(forest["edges"].tolist(), forest["edge_score"].tolist(), strict=True)
        for edge, ((parent, left, right), score) in enumerate(edges):
            self.derivations[parent].append((score, edge, (n + left, n + right)))
        unaries = zip(forest["unaries"].tolist(), forest["unary_score"].tolist(), strict=True)
        for x, ((parent, child), score) in enumerate(unaries):
            if self.is_tag[child]:
                self.derivations[parent].append((score, -2 - x, (n + child,)))
            else:
                self.derivations[n + parent].append((score, x, (child,)))
        tag_score, same_score = forest["tag_score"].tolist(), forest["same_score"].tolist()
        for item in range(n):
            if self.is_tag[item]:
                self.derivations[n + item].append((tag_score[item], -1, ()))
            else:
                self.derivations[n + item].append((same_score[item], -1, (item,)))
        roots = zip(forest["roots"].tolist(), forest["root_score"].tolist(), strict=True)
        for x, (item, score) in enumerate(roots):
            self.derivations[2 * n].append((score, x, (n + item,)))
        # The best trees of each vertex, as (score, derivation, ranks of the parts).
        self.best: list[list[tuple[float, int, tuple[int, ...]]]] = [[] for _ in range(2 * n + 1)]
        # The items of a cell are together, narrow cells first; of a cell first the lower nodes.
        spans = [tuple(span) for span in items[:, 1:].tolist()]
        begin = 0
        while begin < n:
            end = begin
            while end < n and spans[end] == spans[begin]:
                end += 1
            for shift, tags in ((n, True), (0, False), (n, False)):
                for item in range(begin, end):
                    if self.is_tag[item] is tags:
                        self._rank(shift + item)
            begin = end
        self._rank(2 * n)

    def trees(self) -> Iterator[tuple[int, list[tuple[int, int, int]]]]:
        """The root and the choices (item, edge, unary) of each tree, best first."""
        for rank in range(len(self.best[2 * self.n])):
            yield self._read(rank)

    def _rank(self, vertex: int) -> None:
        derivations, best = self.derivations[vertex], self.best
        queue: list[tuple[float, int, tuple[int, ...]]] = []
        seen: set[tuple[int, tuple[int, ...]]] = set()

        def consider(derivation: int, ranks: tuple[int, ...]) -> None:
            score, _, parts = derivations[derivation]
            if (derivation, ranks) in seen:
                return
            seen.add((derivation, ranks))
            for part, rank in zip(parts, ranks, strict=True):
                if rank >= len(best[part]):
                    return
                score += best[part][rank][0]
            heapq.heappush(queue, (-score, derivation, ranks))

        for derivation, (_, _, parts) in enumerate(derivations):
            consider(derivation, (0,) * len(parts))
        while queue and len(best[vertex]) < self.k:
            score, derivation, ranks = heapq.heappop(queue)
            best[vertex].append((-score, derivation, ranks))
            for place in range(len(ranks)):
                bumped = tuple(rank + (i == place) for i, rank in enumerate(ranks))
                consider(derivation, bumped)

    def _read(self, rank: int) -> tuple[int, list[tuple[int, int, int]]]:
        root = -1
        lower: dict[int, int] = {}
        upper: dict[int, int] = {}
        stack = [(2 * self.n, rank)]
        while stack:
            vertex, rank = stack.pop()
            _, derivation, ranks = self.best[vertex][rank]
            _, choice, parts = self.derivations[vertex][derivation]
            if vertex == 2 * self.n:
                root = choice
            elif vertex < self.n:
                lower[vertex] = choice
            elif not self.is_tag[vertex - self.n]:
                upper[vertex - self.n] = choice
            stack.extend(zip(parts, ranks, strict=True))
        items = lower.keys() | upper.keys()
        return root, [(item, lower.get(item, -1), upper.get(item, -1)) for item in sorted(items)]
