"""The chart parser: from sentences to packed forests, and from these to trees.

A latent grammar runs as a coarse-to-fine cascade (Petrov & Klein 2007, sections 2 and 3.2). What is
left of a sentence is one packed forest (see `hypergraph`), in which each production over a span has
a posterior q. All decoders choose a tree from this forest:

    viterbi            the tree of the best derivation, substates included
    max_rule_sum       the largest sum of q: the expected number of correct productions
    max_rule_product   the largest product of q (Petrov & Klein 2007b): the default
    variational        the largest product of q given the parent (Matsuzaki et al. 2005)
    labelled_recall    the largest sum of the posteriors of brackets (Goodman 1996), each less one
                       half so that precision counts too: only brackets likelier than not gain

With several grammars of one treebank, members of one model or separate models, the forest has the
scores of all of them (Petrov 2010). With scorers (see `hypergraph.Scorer`) the trees of the forest
are scored again, and q is the posterior under that log-linear model. There "viterbi" is the most
probable tree, as the model has no substates.

Every sentence gets a tree. If nothing survives the thresholds, the thresholds are lowered, then
levels are left out. A sentence that not even the coarsest grammar can parse gets a flat fallback
tree, marked as failed. So does a sentence that is parsed hastily if nothing survives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import StructlearnError
from ...parallel.batches import Workspaces, in_batches
from ...trees.parse import GivenTag, Parse, calibrate, tag_shares
from ..latent.model import LatentGrammar
from ..treebank._lexicon import prefer_tags
from . import _chart
from .compiled import SHARE, compile_grammar, is_factored
from .constraints import Compiler, Constraint, Limited, limit_tags
from .hypergraph import Floats, Hypergraphs, Refinement, Scorer, together

if TYPE_CHECKING:
    from ..spans.model import SpanGrammar

LABELLED_RECALL = "labelled_recall"
DECODERS = ("viterbi", "max_rule_sum", "max_rule_product", "variational", LABELLED_RECALL)
# Items with lower posteriors are pruned after each level of the cascade.
THRESHOLDS = (1e-4, 3e-4, *(1e-3,) * 6)
EDGE_FACTOR = 0.3  # times the threshold, the posterior below which productions are pruned
# Times the weight of the tags of words that the grammar does not know: what a tagger has seen of
# their context is worth more than their spelling.
UNKNOWN_WORDS = 1.5
_BATCH_WORDS = 2000


class ChartParser:
    """Parses with latent grammars of one treebank.

    grammars: a LatentGrammar, several of them, or a SpanGrammar, which brings its scorers, its
        weight and its temperature along.
    decoder: one of `DECODERS`.
    levels: levels of the (first) grammar that make the cascade, from 0 to its depth. With level 1,
        which is factored for speed, level 0 is only used where nothing is left. None: 0, 1, 2 and
        the last.
    thresholds: posteriors below which items are pruned, one for each level but the last.
    threads: number of threads that share the sentences of a batch.
    scorers: further scorers of trees.

    Memory grows with the square of the longest sentence, and time faster: 250 words take 40 MB,
    5,000 words would take 16 GB.

    Raises StructlearnError for an empty grammar, for settings out of range, and for grammars of
    different symbols or rules; when it parses, for a sentence that is too long for the memory.
    """

    def __init__(
        self,
        grammars: LatentGrammar | SpanGrammar | Sequence[LatentGrammar],
        *,
        decoder: str = "max_rule_product",
        levels: Sequence[int] | None = None,
        thresholds: Sequence[float] = THRESHOLDS,
        threads: int = 1,
        scorers: Sequence[Scorer] = (),
    ):
        # The log-linear model of trees that the decoder reads, if there is one.
        self.scorers, self.rescores = list(scorers), bool(scorers) or decoder == LABELLED_RECALL
        self.weight, temperature = 1.0, None
        if not isinstance(grammars, LatentGrammar | Sequence):
            self.scorers, self.rescores = [*grammars.scorers(), *scorers], True
            self.weight, temperature = grammars.weight, grammars.temperature
            grammars = grammars.grammar
        self.grammars = [grammars] if isinstance(grammars, LatentGrammar) else list(grammars)
        if not all(isinstance(grammar, LatentGrammar) for grammar in self.grammars):
            raise StructlearnError("SL426")
        if not self.grammars or any(grammar.is_empty for grammar in self.grammars):
            raise StructlearnError("SL420")
        self.grammar = self.grammars[0]
        self.temperature = self.grammar.temperature if temperature is None else temperature
        last = self.grammar.depth
        default = sorted({0, min(1, last), min(2, last), last})
        self.levels = tuple(default if levels is None else levels)
        thresholds, least = tuple(thresholds), max(len(self.levels) - 1, 1)
        ascending = list(self.levels) == sorted({0, last, *self.levels})
        inside = all(0 <= level <= last for level in self.levels)
        enough = len(thresholds) >= least and all(0 <= t <= 1 for t in thresholds)
        for name, value, wanted, sound in (
            ("decoder", decoder, "one of " + ", ".join(DECODERS), decoder in DECODERS),
            ("levels", levels, f"ascending from 0 to {last}", ascending and inside),
            ("thresholds", thresholds, f"{least} or more posteriors from 0 to 1", enough),
            ("threads", threads, "1 or more", threads >= 1),
        ):
            if not sound:
                raise StructlearnError("SL421", name=name, value=value, wanted=wanted)
        for grammar in self.grammars[1:]:
            if grammar.symbols != self.grammar.symbols or grammar.rules != self.grammar.rules:
                raise StructlearnError("SL422")
        self.decoder = decoder
        self.threads = threads
        # The (grammar, level) pairs that score the last forest; the first ends the cascade.
        self._finals = [
            (grammar, level)
            for grammar in self.grammars
            for level in range(grammar.depth, len(grammar.levels))
        ]
        first = self.levels[:2] == (0, 1) and is_factored(self.grammar.levels[1])
        compiled = {}
        for grammar in self.grammars:
            read = {level for other, level in self._finals if other is grammar}
            is_first = grammar is self.grammar
            share = 0.0 if decoder == "viterbi" else SHARE
            read |= set(self.levels if is_first else ())
            compiled[id(grammar)] = compile_grammar(grammar, first and is_first, share, read)
        self._parser = _chart.Parser(
            [compiled[id(grammar)] for grammar, _ in self._finals],
            self.levels,
            [level for _, level in self._finals],
            thresholds,
            EDGE_FACTOR,
            decoder == "viterbi" and not self.rescores,
        )
        # The workspace of a chart grows with the square of the longest sentence, so it is reused.
        self._charts = Workspaces(_chart.Chart, threads)
        self._limits = Compiler(self.grammar)
        self._names = np.array(self.grammar.symbols.names, dtype=object)
        chains, unary = self.grammar.chains, self.grammar.rules.unary.tolist()
        # The last chain is that of edges that are not unary productions.
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
        constraints: Iterable[Sequence[Constraint] | None] | None = None,
        hasty: Iterable[bool] | None = None,
    ) -> list[Parse]:
        """Parse sentences.

        sentences: the words of each sentence.
        tags: a tag for each word ("" for none), or its possible tags with their probabilities. Tags
            that the grammar does not know are ignored.
        tag_weight: number of nats by which the score of a word with its given tag is raised at
            every level of the cascade, less if the tag is uncertain (`tag_shares`), and more if the
            grammar does not know the word. With infinity the most probable tag is required.
        constraints: of each sentence None or its constraints (start, end, label, must) in words:
            whether a bracket of exactly this span must be, or must not be. The label None is that
            of any phrase. A label of one word that is not a phrase but a tag is that of the word.
            If no tree of the grammar meets the constraints of a sentence, they are ignored, and
            `Parse.unmet` is true. Otherwise probabilities are those given the constraints.
        hasty: whether each sentence is parsed with thresholds that are three times as high, and
            gets the fallback tree if nothing survives them. Text that is not language can take
            thirty times as long otherwise.

        Raises StructlearnError unless there is one tag for each word and one list of constraints
        for each sentence, for constraints on words that a sentence has not, and if a scorer returns
        something other than scores.
        """
        words = [list(sentence) for sentence in sentences]
        given = [None] * len(words) if tags is None else [list(row) for row in tags]
        if len(given) != len(words):
            raise StructlearnError("SL423")
        wanted = [None] * len(words) if constraints is None else list(constraints)
        if len(wanted) != len(words):
            raise StructlearnError("SL429", number=len(wanted), of=len(words))
        in_haste = [False] * len(words) if hasty is None else list(hasty)
        every = zip(words, given, wanted, in_haste, strict=True)
        requests = [self._request(*one) for one in every]

        def run(batch: slice) -> list[Parse]:
            return self._parse_batch(requests[batch], tag_weight)

        with _enough_memory(words):
            batches = in_batches(words, run, words=_BATCH_WORDS, threads=self.threads)
            return [parse for parses in batches for parse in parses]

    def forests(self, sentences: Iterable[Sequence[str]]) -> tuple[Hypergraphs, NDArray[np.int64]]:
        """Return the forests of the sentences that can be parsed, and the numbers of these, int64.

        The scores are those of the grammar's variational distribution, log q of a production given
        its parent, or their means over several grammars. The probabilities of the trees of a forest
        sum to a little less than 1, since posteriors are not computed again after the last pruning.
        """
        every = [list(sentence) for sentence in sentences]
        filled = [i for i, sentence in enumerate(every) if sentence]
        words = [every[i] for i in filled]

        def run(batch: slice) -> tuple[Hypergraphs, NDArray[np.int64]]:
            requests = [_Request(sentence) for sentence in words[batch]]
            with self._charts.borrowed() as chart:
                forests = self._forests(chart, requests, np.inf)
            return forests.graphs, forests.numbers + batch.start

        with _enough_memory(words):
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
        constraints: Sequence[Constraint] | None = None,
    ) -> list[Parse]:
        """Return the k best trees of the decoder, best first, or fewer if there are no more.

        The decoder "viterbi" ranks trees like "max_rule_product", or with scorers by their
        probability. So does "labelled_recall", since a tree with most brackets of the best one may
        have next to no probability. For the arguments see `parse`. Only trees that meet the
        constraints are returned: none, if there is no such tree.
        """
        request = self._request(list(sentence), tags, constraints)
        parses: list[Parse] = []
        if request.words:
            ranking = self.decoder
            if ranking in ("viterbi", LABELLED_RECALL):
                ranking = "variational" if self.rescores else "max_rule_product"
            with _enough_memory([sentence]), self._charts.borrowed() as chart:
                forests = self._forests(chart, [request], tag_weight)
                if len(forests.numbers):
                    trees = self._scored(forests, [request], ranking)
                    parses = [
                        self._read(chart, forests, trees, edges)[0]
                        for _, edges in trees.graphs.k_best(trees.gains, k)[0]
                    ]
        if not parses and request.limited is None:
            parses = self._parse_batch([request], tag_weight)[:k]
        return parses

    def _request(
        self,
        words: list[str],
        tags: Sequence[GivenTag] | None = None,
        constraints: Sequence[Constraint] | None = None,
        hasty: bool = False,
    ) -> _Request:
        if tags is not None and len(tags) != len(words):
            raise StructlearnError("SL423")
        limited = self._limits.limited(constraints, len(words)) if constraints else None
        return _Request(words, tags, limited, hasty)

    def _parse_batch(self, requests: list[_Request], tag_weight: float) -> list[Parse]:
        root = self.grammar.symbols.root
        parses = [Parse([], [], [], np.empty(0, np.float32), [], root=root) for _ in requests]
        filled = [i for i, request in enumerate(requests) if request.words]
        if not filled:
            return parses
        some = [requests[i] for i in filled]
        with self._charts.borrowed() as chart:
            forests = self._forests(chart, some, tag_weight)
            trees = self._scored(forests, some, self.decoder)
            values, mask = trees.graphs.best(trees.gains)
            read = self._read(chart, forests, trees, np.flatnonzero(mask))
        parsed = dict(zip(forests.numbers.tolist(), zip(read, values, strict=True), strict=True))
        for number, (place, request) in enumerate(zip(filled, some, strict=True)):
            parse, value = parsed.get(number, (None, -np.inf))
            # Where the scorers forbid every tree there is no parse either.
            if value == -np.inf and request.limited is not None:
                (parse,) = self._parse_batch([request._replace(limited=None)], tag_weight)
                parse.unmet = True
            elif parse is None or value == -np.inf:
                parse = self._fallback(forests.word_scores[slice(*forests.offsets[number:][:2])])
            parses[place] = parse
        return parses

    def _forests(
        self, chart: _chart.Chart, requests: list[_Request], tag_weight: float
    ) -> _Forests:
        """Run the cascade over a batch of sentences, none of which is empty."""
        offsets = np.cumsum([0, *(len(request.words) for request in requests)])
        scores = self._scores(requests, tag_weight)
        lexicon, others = scores[: len(self.levels)], scores[len(self.levels) :]
        limits = None
        if any(request.limited is not None for request in requests):
            limits = [request.limited and request.limited.limits for request in requests]
        hasty = [request.hasty for request in requests]
        arrays = chart.hypergraphs(self._parser, lexicon, others, offsets, limits, hasty)
        numbers = np.flatnonzero(arrays["levels"])
        items, begins, edges = arrays["places"][np.append(0, numbers + 1)].T
        names = ("items", "begins", "tails", "scores", "made", "chain")
        graphs = Hypergraphs(
            item_offsets=np.ascontiguousarray(items),
            node_offsets=begins - np.arange(len(numbers) + 1),
            edge_offsets=np.ascontiguousarray(edges),
            n_words=np.diff(offsets)[numbers].astype(np.int32),
            **{name: arrays[name] for name in names},
        )
        return _Forests(graphs, numbers, arrays, offsets, lexicon[0])

    def _scored(self, forests: _Forests, requests: list[_Request], decoder: str) -> _ScoredTrees:
        """Score the trees of the forests, by the scorers if there are any, and for the decoder."""
        graphs, arrays = forests.graphs, forests.arrays
        if not self.rescores:
            gains = np.where(arrays["best"], 0.0, -np.inf)
            if decoder != "viterbi":
                gains = graphs.gains(
                    graphs.scores, arrays["posteriors"], decoder, logs=arrays["logs"]
                )
            return _ScoredTrees(graphs, None, None, None, arrays["posteriors"], gains)
        sentences = [requests[i].words for i in forests.numbers]
        total = np.zeros(len(graphs.items))
        of_edges, sources = np.zeros(len(graphs.scores)), None
        for scorer in self.scorers if len(graphs) else ():
            change = scorer.scores(sentences, graphs)
            if isinstance(change, Refinement):
                graphs = change.graphs
                of_edges = of_edges[change.edges] + change.scores
                sources = change.edges if sources is None else sources[change.edges]
            elif np.shape(change) != total.shape:
                raise StructlearnError("SL425", shape=np.shape(change), wanted=total.shape)
            else:
                total += change
        scores = graphs.edge_scores(total, self.weight) + of_edges
        log_z, posteriors = graphs.inside_outside(scores)
        gains = graphs.gains(scores, posteriors, decoder, self.grammar.symbols, sources)
        return _ScoredTrees(graphs, scores, sources, log_z, posteriors, gains)

    def _read(
        self,
        chart: _chart.Chart,
        forests: _Forests,
        trees: _ScoredTrees,
        edges: NDArray[np.int64],
    ) -> list[Parse]:
        """Return one tree of each forest as a parse. edges: of all trees, int64, ascending."""
        graphs, arrays = trees.graphs, forests.arrays
        parses = self._parses(trees, edges)
        if trees.scores is None or trees.log_z is None:
            mask = np.zeros(len(graphs.scores), dtype=bool)
            mask[edges] = True
            logs = chart.log_probabilities(self._parser, mask)[forests.numbers]
        else:
            owner = np.searchsorted(graphs.edge_offsets, edges, side="right") - 1
            with np.errstate(invalid="ignore"):  # -inf - -inf where there is no tree
                logs = np.bincount(owner, trees.scores[edges], len(graphs)) - trees.log_z
        for parse, number, log in zip(parses, forests.numbers, logs.tolist(), strict=True):
            parse.levels = int(arrays["levels"][number])
            parse.log_likelihood = float(arrays["log_likelihoods"][number])
            parse.log_probability = log
        return parses

    def _parses(self, trees: _ScoredTrees, edges: NDArray[np.int64]) -> list[Parse]:
        """Read the brackets and tags of one tree of each forest from its edges."""
        graphs = trees.graphs
        edges = edges[graphs.made[edges] >= 0]
        made, rules = graphs.made[edges], graphs.chain[edges]
        # The labels of a collapsed unary chain, below the symbol of its edge.
        lengths = self._chain_lengths[rules]
        above = np.repeat(np.arange(len(edges)), lengths)
        depth = np.arange(len(above)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        symbols = np.append(
            graphs.items[made, 0], self._chain_symbols[self._chain_begins[rules[above]] + depth]
        )
        of_items = graphs.item_posteriors(trees.posteriors)[made]
        of_chains = together(trees.posteriors, trees.sources)[edges[above]]
        probabilities = np.append(of_items, of_chains)
        place = np.append(np.arange(len(edges)), above)
        depth = np.append(np.zeros(len(edges), dtype=np.int64), depth + 1)
        starts, ends = graphs.items[made[place], 1:].T
        owner = np.searchsorted(graphs.edge_offsets, edges[place], side="right") - 1
        # Of the nodes over one span the later one in the hypergraph is the higher one.
        order = np.lexsort((depth, -place, -ends, starts, owner))
        table = self.grammar.symbols
        order = order[symbols[order] < table.n_tags + table.n_phrases]
        begins = np.searchsorted(owner[order], np.arange(len(graphs) + 1))
        symbols, starts, ends = symbols[order], starts[order], ends[order]
        probabilities = np.minimum(probabilities[order], 1.0).astype(np.float32)
        is_tag = symbols < table.n_tags
        bracket = ~is_tag
        # The phrase that holds together several children of the root is not in the treebank.
        if table.inserted_root >= 0:
            tops = begins[:-1][np.diff(begins) > 0]
            bracket[tops[symbols[tops] == table.inserted_root]] = False
        names = self._names[symbols]
        bounds = np.searchsorted(np.flatnonzero(bracket), begins).tolist()
        tag_bounds = np.searchsorted(np.flatnonzero(is_tag), begins).tolist()
        labels, tags = names[bracket].tolist(), names[is_tag].tolist()
        first, last = starts[bracket].tolist(), ends[bracket].tolist()
        calibrated = calibrate(probabilities[bracket], self.temperature)
        rows = zip(pairwise(bounds), pairwise(tag_bounds), strict=True)
        return [
            Parse(labels[a:b], first[a:b], last[a:b], calibrated[a:b], tags[c:d], root=table.root)
            for (a, b), (c, d) in rows
        ]

    def _scores(self, requests: list[_Request], tag_weight: float) -> list[NDArray[np.float32]]:
        """Return word scores for each level of the cascade, then for those of further grammars."""
        shares = None
        if any(request.tags is not None for request in requests):
            given: list[GivenTag] = []
            for request in requests:
                given += [""] * len(request.words) if request.tags is None else request.tags
            shares = tag_shares(given, self.grammar.symbols.tag_index)
        ids = {
            id(grammar): np.concatenate([grammar.lexicon.encode(x.words) for x in requests])
            for grammar in self.grammars
        }
        if shares is not None:
            is_unknown = ids[id(self.grammar)] >= len(self.grammar.lexicon.words)
            shares[is_unknown] *= UNKNOWN_WORDS
        scores = []
        cascade = [(self.grammar, level) for level in self.levels]
        for grammar, level in [*cascade, *self._finals[1:]]:
            rows = np.ascontiguousarray(grammar.lexicon.scores(level, ids[id(grammar)]), np.float32)
            substates = grammar.levels[level].substates[: grammar.symbols.n_tags]
            if shares is not None:
                prefer_tags(rows, substates, shares, tag_weight)
            begin = 0
            for request in requests:
                if request.limited is not None:
                    limit_tags(rows[begin:], substates, request.limited.tags)
                begin += len(request.words)
            scores.append(rows)
        return scores

    def _fallback(self, scores: NDArray[np.float32]) -> Parse:
        """Return a flat tree: the likeliest tag of each word under the likeliest phrase."""
        symbols, label = self.grammar.symbols, self.grammar.top_label
        tags = [symbols.names[tag] for tag in scores[:, : symbols.n_tags].argmax(axis=1)]
        probability = np.zeros(1, np.float32)
        return Parse([label], [0], [len(tags)], probability, tags, failed=True, root=symbols.root)


@contextmanager
def _enough_memory(sentences: Sequence[Sequence[str]]) -> Iterator[None]:
    """Name the length of the longest sentence where memory is short."""
    try:
        yield
    except MemoryError:
        raise StructlearnError("SL444", number=max(map(len, sentences))) from None


class _Request(NamedTuple):
    """A sentence to parse, and what is said of it; see `ChartParser.parse`."""

    words: list[str]
    tags: Sequence[GivenTag] | None = None
    limited: Limited | None = None
    hasty: bool = False


class _Forests(NamedTuple):
    """The forests of a batch: of sentences `numbers`, whose words begin at `offsets`.

    arrays: see `Chart.hypergraphs`. word_scores: of all words at level 0.
    """

    graphs: Hypergraphs
    numbers: NDArray[np.int64]
    arrays: dict[str, NDArray[Any]]
    offsets: NDArray[np.int64]
    word_scores: NDArray[np.float32]


class _ScoredTrees(NamedTuple):
    """Forests whose edges have scores, and log_z, under a log-linear model; None without one.

    sources: the edge that each edge of a refined forest is a copy of, or None.
    """

    graphs: Hypergraphs
    scores: Floats | None
    sources: NDArray[np.int64] | None
    log_z: Floats | None
    posteriors: Floats
    gains: Floats
