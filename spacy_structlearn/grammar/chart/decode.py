"""Sentences to trees: the cascade of a latent grammar, and what to make of its posteriors.

Petrov & Klein (2007), sections 2 and 3.2, and Petrov & Klein (2007b) for the decoders, which choose
among trees without substates by the posterior q of each production over its span:

    viterbi            the tree of the best derivation, substates and all
    max_rule_sum       the largest sum of q: the expected number of right productions
    max_rule_product   the largest product of q (Petrov & Klein 2007b): the default
    variational        the largest product of q given its parent (Matsuzaki et al. 2005)
    labelled_recall    the largest sum of the posteriors of brackets (Goodman 1996), each less one
                       half, so that precision counts too: all that are likelier than not

With several grammars of one treebank, members of one model or models of their own, the scores of
all are added up (Petrov 2010). With span scores (see `span_grammar`) what is left is scored anew,
and q is of that model. A tree always comes back: where nothing survives the thresholds they are
lowered, then levels are left out; a sentence that not even the coarsest grammar can parse gets a
flat tree, marked as failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import StructlearnError
from ...parallel.batches import Workspaces, in_batches
from ...trees.parse import (
    GivenTag,
    Parse,
    calibrate,
    tag_shares,
)
from ..fragments.weights import FragmentScorer
from ..latent.model import LatentGrammar, Level
from ..spans.features import LinearScorer
from ..spans.model import SpanGrammar
from . import _chart
from .hypergraph import (
    Floats,
    Hypergraphs,
    Scorer,
    from_forest,
    together,
)

LABELLED_RECALL = "labelled_recall"
DECODERS = (*_chart.DECODERS, LABELLED_RECALL)
# Posteriors below these are left out after each level of the cascade. The grammar of level 0 knows
# little, so that much must pass it; the others are nearly always right about what is impossible.
THRESHOLDS = (1e-4,) * 8
EDGE_FACTOR = 0.1
_BATCH_WORDS = 500
# An entry by itself takes the time of about so many in a row: blocks with fewer are kept as lists.
DENSE = 16


class ChartParser:
    """Parses with one latent grammar, or with several that are of one treebank.

    grammars: LatentGrammar, or several of them, or one SpanGrammar. decoder: one of `DECODERS`.
    levels: those of the (first) grammar that make the cascade, from 0 to its depth; None: all.
    thresholds: of posteriors, one for each level but the last. threads: so many share the sentences
    of a batch. network: adds its scores to those of an SpanGrammar.
    Memory grows with the square of the longest sentence and its time faster: 250 words take 40 MB,
    5,000 would take 16 GB.
    Raises StructlearnError for an empty grammar, for settings out of range, for grammars of
    different symbols or rules, and for a network, or several grammars, that do not go with what is
    given.
    """

    def __init__(
        self,
        grammars: LatentGrammar | SpanGrammar | Sequence[LatentGrammar],
        *,
        decoder: str = "max_rule_product",
        levels: Sequence[int] | None = None,
        thresholds: Sequence[float] = THRESHOLDS,
        edge_factor: float = EDGE_FACTOR,
        threads: int = 1,
        network: Scorer | None = None,
    ):
        self.weight: float | None = None  # of the grammar's scores, where there are others
        self.scorers: list[Scorer] = []
        self.fragments: FragmentScorer | None = None
        if isinstance(grammars, SpanGrammar):
            span_grammar, grammars = grammars, grammars.grammar
            self.weight = span_grammar.weight
            self.temperature = span_grammar.temperature
            if span_grammar.features is not None:
                self.scorers.append(LinearScorer(span_grammar.features))
            if network is not None:
                self.scorers.append(network)
            if span_grammar.fragments is not None:
                self.fragments = FragmentScorer(span_grammar.fragments, grammars.symbols)
        elif network is not None:
            raise StructlearnError("SL426")
        if isinstance(grammars, LatentGrammar):
            grammars = [grammars]
        if not all(isinstance(grammar, LatentGrammar) for grammar in grammars):
            raise StructlearnError("SL426")
        if not grammars or any(grammar.is_empty for grammar in grammars):
            raise StructlearnError("SL420")
        if self.weight is None:
            self.temperature = grammars[0].temperature
            if decoder == LABELLED_RECALL:
                self.weight = 1.0  # the kernel does not have it
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

        def parser(decoder: str) -> _chart.Parser:
            return _chart.Parser(
                [compiled[id(grammar)] for grammar, _ in self._finals],
                self.levels,
                [level for _, level in self._finals],
                thresholds,
                edge_factor,
                decoder,
            )

        self._parser = parser("variational" if decoder == LABELLED_RECALL else decoder)
        self._variational = parser("variational")  # its scores are those of forests
        # What a chart needs grows with the square of the longest sentence; it is used again.
        self._charts = Workspaces(_chart.Chart, threads)
        names = self.grammar.symbols.names
        self._names = np.array(names, dtype=object)
        chains, unary = self.grammar.chains, self.grammar.rules.unary.tolist()
        # The last one is of edges that are no unary productions.
        between = [*(chains.get((top, bottom), ()) for top, bottom in unary), ()]
        self._chain_lengths = np.array([len(chain) for chain in between], dtype=np.int64)
        self._chain_begins = np.cumsum(self._chain_lengths) - self._chain_lengths
        self._chain_symbols = np.array([x for chain in between for x in chain], dtype=np.int32)

    def parse(
        self,
        sentences: Iterable[Sequence[str]],
        tags: Iterable[Sequence[GivenTag]] | None = None,
        *,
        tag_weight: float = np.inf,
        tokens: Iterable[Any] | None = None,
    ) -> list[Parse]:
        """Parse sentences.

        sentences: the words of each. tags: a tag for each word, "" for none, or its tags and their
        probabilities; tags that the grammar does not know are ignored. tag_weight: the score of a
        word with its given tag is raised by that many nats, by less if the tag is not certain
        (`tag_shares`), at every level of the cascade; with infinity its most probable tag is
        certain. tokens: for each sentence what the network reads; None if it reads words only.
        Raises StructlearnError if there is not one tag for each word, or not one list of tokens for
        each sentence, or if a scorer gives something other than scores.
        """
        own = [list(sentence) for sentence in sentences]
        given: list[Sequence[GivenTag] | None] = [None] * len(own)
        if tags is not None:
            given = [list(row) for row in tags]
            if [len(row) for row in given] != [len(sentence) for sentence in own]:
                raise StructlearnError("SL423")
        read = None if tokens is None else list(tokens)
        if read is not None and len(read) != len(own):
            raise StructlearnError("SL427", number=len(read), of=len(own))

        def run(batch: slice) -> list[Parse]:
            more = None if read is None else read[batch]
            return self._parse_batch(own[batch], given[batch], tag_weight, more)

        batches = in_batches(own, run, words=_BATCH_WORDS, threads=self.threads)
        return [parse for parses in batches for parse in parses]

    def forests(self, sentences: Iterable[Sequence[str]]) -> tuple[Hypergraphs, NDArray[np.int64]]:
        """The forests that the cascade leaves of those sentences that it can parse.

        Their scores are by the variational distribution of the grammar, log q of a production given
        its parent; of several grammars the mean. RETURNS: the forests, and the numbers of their
        sentences, int64.
        """
        own = [list(sentence) for sentence in sentences]
        filled = [i for i, sentence in enumerate(own) if sentence]
        words = [own[i] for i in filled]

        def run(batch: slice) -> tuple[Hypergraphs, NDArray[np.int64]]:
            part = words[batch]
            offsets = np.cumsum([0, *map(len, part)])
            found = self._forests(*self._scores(part, [None] * len(part), np.inf), offsets)
            return found.graphs, found.numbers + batch.start

        parts = list(in_batches(words, run, words=_BATCH_WORDS, threads=self.threads))
        numbers = np.concatenate([np.empty(0, np.int64), *(numbers for _, numbers in parts)])
        graphs = Hypergraphs.joined([graphs for graphs, _ in parts])
        return graphs, np.array(filled, dtype=np.int64)[numbers]

    def k_best(
        self,
        sentence: Sequence[str],
        k: int,
        tags: Sequence[GivenTag] | None = None,
        *,
        tag_weight: float = np.inf,
        tokens: Any | None = None,
    ) -> list[Parse]:
        """The k trees that the decoder likes best, best first; fewer if there are no more.

        With the decoder "viterbi" the trees are ranked as by "max_rule_product", but with span
        scores by their probability; so they are with "labelled_recall", since a tree that has most
        brackets of the best one may have next to no probability. The arguments are as in `parse`.
        """
        sentence = list(sentence)
        parses: list[Parse] = []
        if sentence:
            lexicon, others = self._scores([sentence], [tags], tag_weight)
            if self.weight is None:
                parses = self._k_best(lexicon, others, k)
            else:
                own = None if tokens is None else [tokens]
                parses = self._k_best_rescored(sentence, own, lexicon, others, k)
        if not parses:
            given = None if tags is None else [tags]
            read = None if tokens is None else [tokens]
            parses = self.parse([sentence], given, tag_weight=tag_weight, tokens=read)[:k]
        return parses

    def _k_best(
        self, lexicon: list[NDArray[np.float32]], others: list[NDArray[np.float32]], k: int
    ) -> list[Parse]:
        parses = []
        with self._charts.borrowed() as chart:
            forest = chart.forest(self._parser, lexicon, others)
            if forest is None:
                return []
            n_tags = self.grammar.symbols.n_tags
            graphs, origins = from_forest(forest, n_tags)
            for _, edges in graphs.k_best(graphs.scores, k)[0]:
                root, choices = _choices(forest, n_tags, origins[edges])
                *arrays, log_probability = chart.read(self._parser, root, choices)
                parse = self._parses(*arrays, np.array([0, len(arrays[0])]))[0]
                parse.log_likelihood = forest["log_likelihood"]
                parse.log_probability = log_probability
                parse.levels = forest["levels"]
                parses.append(parse)
        return parses

    def _k_best_rescored(
        self,
        sentence: list[str],
        tokens: list[Any] | None,
        lexicon: list[NDArray[np.float32]],
        others: list[NDArray[np.float32]],
        k: int,
    ) -> list[Parse]:
        found = self._forests(lexicon, others, np.array([0, len(sentence)]))
        if not len(found.numbers):
            return []
        graphs, scores, sources = self._scored(found, [sentence], tokens)
        log_z, posteriors = graphs.inside_outside(scores)
        decoder = "viterbi" if self.decoder == LABELLED_RECALL else self.decoder
        gains = graphs.gains(scores, posteriors, decoder, sources=sources)
        parses = []
        for _, edges in graphs.k_best(gains, k)[0]:
            parse = self._parses(*self._brackets(graphs, edges, posteriors, sources))[0]
            parse.log_likelihood = float(found.log_likelihoods[0])
            parse.log_probability = float(scores[edges].sum() - log_z[0])
            parse.levels = int(found.levels[0])
            parses.append(parse)
        return parses

    def _parse_batch(
        self,
        sentences: list[list[str]],
        tags: list[Sequence[GivenTag] | None],
        tag_weight: float,
        tokens: list[Any] | None,
    ) -> list[Parse]:
        filled = [i for i, sentence in enumerate(sentences) if sentence]
        words = [sentences[i] for i in filled]
        offsets = np.cumsum([0, *(len(sentence) for sentence in words)])
        parses: dict[int, Parse] = {}
        if filled:
            lexicon, others = self._scores(words, [tags[i] for i in filled], tag_weight)
            if self.weight is None:
                with self._charts.borrowed() as chart:
                    found = chart.parse(self._parser, lexicon, others, offsets)
            else:
                own = None if tokens is None else [tokens[i] for i in filled]
                found = self._rescored(words, own, lexicon, others, offsets)
            *arrays, levels, logs = found
            for number, (parse, level, log) in enumerate(
                zip(self._parses(*arrays), levels.tolist(), logs.tolist(), strict=True)
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

    def _rescored(
        self,
        words: list[list[str]],
        tokens: list[Any] | None,
        lexicon: list[NDArray[np.float32]],
        others: list[NDArray[np.float32]],
        offsets: NDArray[np.int64],
    ) -> tuple[NDArray[Any], ...]:
        """As `Chart.parse`, with span scores."""
        found = self._forests(lexicon, others, offsets)
        numbers = found.numbers
        graphs, scores, sources = self._scored(found, words, tokens)
        symbols = self.grammar.symbols
        mask, log_z, posteriors = graphs.decode(scores, self.decoder, symbols, sources)
        edges = np.flatnonzero(mask)
        *brackets, begins = self._brackets(graphs, edges, posteriors, sources)
        owner = np.searchsorted(graphs.edge_offsets, edges, side="right") - 1
        # Where the scorers forbid every tree there is as little of a parse as without a forest.
        possible = log_z > -np.inf
        levels = np.where(possible, found.levels[numbers], 0)
        logs = np.full((len(words), 2), -np.inf)
        logs[numbers, 0] = found.log_likelihoods[numbers]
        logs[numbers[possible], 1] = (
            np.bincount(owner, scores[edges], len(graphs))[possible] - log_z[possible]
        )
        sizes = np.zeros(len(words) + 1, dtype=np.int64)
        sizes[numbers + 1] = np.diff(begins)
        through = np.zeros(len(words), dtype=np.int32)
        through[numbers] = levels
        return (*brackets, np.cumsum(sizes), through, logs)

    def _forests(
        self,
        lexicon: list[NDArray[np.float32]],
        others: list[NDArray[np.float32]],
        offsets: NDArray[np.int64],
    ) -> _Forests:
        """The forests of a batch of sentences, none of which is empty."""
        if len(offsets) == 1:
            return _Forests(Hypergraphs.joined([]), offsets[:0], np.empty(0, np.int32), np.empty(0))
        with self._charts.borrowed() as chart:
            items, begins, tails, scores, made, chain, places, levels, logs = chart.hypergraphs(
                self._variational, lexicon, others, offsets
            )
        numbers = np.flatnonzero(levels)
        item_offsets, begin_offsets, edge_offsets = places[np.append(0, numbers + 1)].T
        graphs = Hypergraphs(
            items,
            np.ascontiguousarray(item_offsets),
            begin_offsets - np.arange(len(numbers) + 1),
            np.ascontiguousarray(edge_offsets),
            begins,
            tails,
            scores,
            made,
            np.diff(offsets)[numbers].astype(np.int32),
            chain,
        )
        return _Forests(graphs, numbers, levels, logs)

    def _scored(
        self, forests: _Forests, words: list[list[str]], tokens: list[Any] | None
    ) -> tuple[Hypergraphs, Floats, NDArray[np.int64] | None]:
        """The forests, with the scores of their edges by the grammar and all scorers.

        Where there are features of fragments the forests are refined as these ask; the third tells
        of what each edge is then a copy.
        """
        graphs = forests.graphs
        sentences = [words[i] for i in forests.numbers]
        read = None if tokens is None else [tokens[i] for i in forests.numbers]
        total = np.zeros(len(graphs.items))
        if len(graphs):
            for scorer in self.scorers:
                scores = scorer.scores(sentences, read, graphs)
                if np.shape(scores) != total.shape:
                    raise StructlearnError("SL425", shape=np.shape(scores), wanted=total.shape)
                total += scores
        assert self.weight is not None
        scores = graphs.edge_scores(total, self.weight)
        if self.fragments is None or not len(graphs):
            return graphs, scores, None
        refined, own = self.fragments.scores(sentences, graphs)
        return refined.graphs, scores[refined.edges] + own, refined.edges

    def _brackets(
        self,
        graphs: Hypergraphs,
        edges: NDArray[np.int64],
        posteriors: Floats,
        sources: NDArray[np.int64] | None,
    ) -> tuple[NDArray[Any], ...]:
        """The brackets and tags of one tree of each forest, as `Chart.parse` gives them.

        edges: int64, ascending, of all trees. posteriors: float64 (E), of the edges. sources: see
        `Hypergraphs.decode`.
        """
        edges = edges[graphs.made[edges] >= 0]
        made, rules = graphs.made[edges], graphs.chain[edges]
        # The labels that a chain has left out, below the symbol of its edge.
        lengths = self._chain_lengths[rules]
        above = np.repeat(np.arange(len(edges)), lengths)
        depth = np.arange(len(above)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        symbols = np.append(
            graphs.items[made, 0], self._chain_symbols[self._chain_begins[rules[above]] + depth]
        )
        own = graphs.item_posteriors(posteriors)[made]
        probabilities = np.append(own, together(posteriors, sources)[edges[above]])
        place = np.append(np.arange(len(edges)), above)
        depth = np.append(np.zeros(len(edges), dtype=np.int64), depth + 1)
        starts, ends = graphs.items[made[place], 1:].T
        owner = np.searchsorted(graphs.edge_offsets, edges[place], side="right") - 1
        # Over one span the node that is later in the hypergraph is the higher one.
        order = np.lexsort((depth, -place, -ends, starts, owner))
        order = order[symbols[order] < self.grammar.symbols.n_tags + self.grammar.symbols.n_phrases]
        begins = np.searchsorted(owner[order], np.arange(len(graphs) + 1))
        return (
            symbols[order],
            starts[order],
            ends[order],
            np.minimum(probabilities[order], 1.0).astype(np.float32),
            begins,
        )

    def _scores(
        self,
        sentences: list[list[str]],
        tags: list[Sequence[GivenTag] | None],
        tag_weight: float,
    ) -> tuple[list[NDArray[np.float32]], list[NDArray[np.float32]]]:
        """Word scores for each level of the cascade, and for the last of each other grammar."""
        scores = []
        wanted = [(self.grammar, level) for level in self.levels] + self._finals[1:]
        shares = None
        if any(own is not None for own in tags):
            given = (
                tag
                for own, sentence in zip(tags, sentences, strict=True)
                for tag in (own if own is not None else [""] * len(sentence))
            )
            shares = tag_shares(given, self.grammar.symbols.tag_index)
        ids: dict[int, NDArray[np.int32]] = {}
        for grammar, level in wanted:
            if id(grammar) not in ids:
                encode = grammar.lexicon.encode
                ids[id(grammar)] = np.concatenate(
                    [np.empty(0, np.int32), *(encode(sentence) for sentence in sentences)]
                )
            rows = grammar.lexicon.scores(level, ids[id(grammar)])
            if shares is not None:
                substates = grammar.levels[level].substates[: grammar.symbols.n_tags]
                rows = _with_tags(rows, substates, shares, tag_weight)
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
        calibrated = calibrate(probabilities[bracket], self.temperature)
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


class _Forests(NamedTuple):
    """Forests of a batch: of the sentences `numbers`, int64; levels and log P(words) of all."""

    graphs: Hypergraphs
    numbers: NDArray[np.int64]
    levels: NDArray[np.int32]
    log_likelihoods: Floats


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


def _with_tags(
    rows: NDArray[np.float32],
    substates: NDArray[np.integer],
    shares: Floats,
    weight: float,
) -> NDArray[np.float32]:
    """Scores of words, float32 (n, X), whose tags are given. substates: of each tag. shares: see
    `tag_shares`; (n, tags).
    """
    begins = np.cumsum(substates) - substates
    seen = np.maximum.reduceat(rows, begins, axis=1) > 0
    if np.isinf(weight):
        known = shares.any(axis=1)[:, None]
        own = np.arange(len(substates)) == shares.argmax(axis=1)[:, None]
        # A word that was never seen with its tag is as likely under each substate.
        rows = np.where(known & ~(seen & own).any(axis=1)[:, None], np.float32(1), rows)
        factors = np.where(known, own, True)
    else:
        # The scale of a row does not matter: lower the others, so that nothing overflows; a word
        # that was never seen with its tags is left as it is, so that it does not vanish altogether.
        best = np.where(seen, shares, 0.0).max(axis=1, keepdims=True)
        factors = np.exp(weight * np.where(seen, shares - best, 0.0))
    return rows * np.repeat(factors.astype(np.float32), substates, axis=1)


def _choices(
    forest: Mapping[str, Any], n_tags: int, origins: NDArray[np.int64]
) -> tuple[int, list[tuple[int, int, int]]]:
    """The root and the choices of a tree, as `Chart.read` takes them, from its `origins`.

    origins: of its edges, as `from_forest` numbers them.
    """
    is_tag = forest["items"][:, 0] < n_tags
    phrases = np.flatnonzero(~is_tag)
    sizes = [int(is_tag.sum()), len(forest["edges"]), len(forest["unaries"]), len(phrases)]
    first_edge, first_unary, first_same, first_root = np.cumsum(sizes).tolist()
    root = -1
    lower: dict[int, int] = {}
    upper: dict[int, int] = {}
    for x in origins.tolist():
        if x >= first_root:
            root = x - first_root
        elif x >= first_same:
            upper[int(phrases[x - first_same])] = -1
        elif x >= first_unary:
            x -= first_unary
            parent, child = forest["unaries"][x].tolist()
            if is_tag[child]:
                lower[parent] = -2 - x
            else:
                upper[parent] = x
        elif x >= first_edge:
            x -= first_edge
            lower[int(forest["edges"][x, 0])] = x
    items = sorted(lower.keys() | upper.keys())
    return root, [(item, lower.get(item, -1), upper.get(item, -1)) for item in items]
