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

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...encoder.scorer import SiteScorer, Vectors
from ...errors import StructlearnError
from ...parallel.batches import Workspaces, in_batches
from ...trees.parse import GivenTag, Parse, tag_shares
from ...trees.tree import Tree
from ..latent.model import LatentGrammar
from ..treebank._lexicon import prefer_tags
from . import _chart
from .compiled import SHARE, compile_grammar, is_factored
from .constraints import Compiler, Constraint, Limited, limit_tags
from .encoded import SpanScorer, climb, pooled
from .hypergraph import Hypergraphs, Refinement, Scorer
from .reading import Forests, ParseReader, Reranker, ScoredTrees

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
    encoder: scores spans by vectors of their words, and leaves spans out, see `encoded`.
    reranker: chooses among the most probable trees in place of the decoder.

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
        encoder: SiteScorer | None = None,
        reranker: Reranker | None = None,
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
        self.encoder = None if encoder is None else SpanScorer(encoder, self.grammar)
        self.rescores = self.rescores or encoder is not None
        self.temperature = self.grammar.temperature if temperature is None else temperature
        last = self.grammar.depth
        default = sorted({0, min(1, last), min(2, last), last})
        self.levels = tuple(default if levels is None else levels)
        thresholds, least = tuple(thresholds), max(len(self.levels) - 1, 1)
        ascending = list(self.levels) == sorted({0, last, *self.levels} & {*range(last + 1)})
        enough = len(thresholds) >= least and all(0 <= t <= 1 for t in thresholds)
        for name, value, wanted, sound in (
            ("decoder", decoder, "one of " + ", ".join(DECODERS), decoder in DECODERS),
            ("levels", levels, f"ascending from 0 to {last}", ascending),
            ("thresholds", thresholds, f"{least} or more posteriors from 0 to 1", enough),
            ("threads", threads, "1 or more", threads >= 1),
        ):
            if not sound:
                raise StructlearnError("SL421", name=name, value=value, wanted=wanted)
        for grammar in self.grammars[1:]:
            if grammar.symbols != self.grammar.symbols or grammar.rules != self.grammar.rules:
                raise StructlearnError("SL422")
        self.decoder, self.threads, self.reranker = decoder, threads, reranker
        self.n_probable = 0  # trees of each sentence, see `Parse.probable`
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
        self._reader = ParseReader(self.grammar)

    def parse(
        self,
        sentences: Iterable[Sequence[str]],
        tags: Iterable[Sequence[GivenTag]] | None = None,
        *,
        tag_weight: float = np.inf,
        constraints: Iterable[Sequence[Constraint] | None] | None = None,
        hasty: Iterable[bool] | None = None,
        vectors: Iterable[Vectors] | None = None,
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
        vectors: of the words of each sentence, float32 (n, width), for the encoder.

        Raises StructlearnError unless there is one tag for each word and one list of constraints
        for each sentence, for constraints on words that a sentence has not, and if a scorer returns
        something other than scores.
        """
        requests = self._requests(sentences, tags, constraints, hasty, vectors)

        def run(batch: slice) -> list[Parse]:
            return self._parse_batch(requests[batch], tag_weight)

        words = [request.words for request in requests]
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
        vectors: Vectors | None = None,
    ) -> list[Parse]:
        """Return the k best trees of the decoder, best first, or fewer if there are no more.

        The decoder "viterbi" ranks trees like "max_rule_product", or with scorers by their
        probability. So does "labelled_recall", since a tree with most brackets of the best one may
        have next to no probability. For the arguments see `parse`. Only trees that meet the
        constraints are returned: none, if there is no such tree.
        """
        each = tags, constraints, None, vectors
        rows: list[Any] = [None if row is None else [row] for row in each]
        (request,) = self._requests([sentence], *rows)
        parses: list[Parse] = []
        if request.words:
            ranking = self.decoder
            if ranking in ("viterbi", LABELLED_RECALL):
                ranking = "variational" if self.rescores else "max_rule_product"
            with _enough_memory([sentence]), self._charts.borrowed() as chart:
                forests = self._forests(chart, [request], tag_weight)
                if not len(forests.numbers):
                    request = request._replace(proposes=False)
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

    def fit_weights(
        self,
        sentences: Sequence[Sequence[str]],
        trees: Sequence[Tree | None],
        *,
        tag_weight: float = np.inf,
        **given: Any,
    ) -> tuple[float, float]:
        """Return the weights of the grammar and of the encoder with the best F1 of brackets.

        trees: the gold trees of the sentences, which must not have been trained on, or None. given:
        tags and vectors, see `parse`.
        """
        some = [i for i, tree in enumerate(trees) if tree is not None]
        given = {name: [rows[i] for i in some] for name, rows in given.items()}
        words = [sentences[i] for i in some]
        requests = [own._replace(proposes=False) for own in self._requests(words, **given)]

        def run(batch: slice) -> tuple[ScoredTrees, list[Tree]]:
            with self._charts.borrowed() as chart:
                forests = self._forests(chart, requests[batch], tag_weight)
            gold: list[Any] = [trees[some[batch.start + i]] for i in forests.numbers]
            return self._scored(forests, requests[batch], self.decoder), gold

        parts = list(in_batches(words, run, words=_BATCH_WORDS, threads=self.threads))

        def f1(own: float, weight: float) -> float:
            right = total = 0
            for scored, gold in parts:
                found = self._pooled(scored, self.decoder, (own, weight))
                edges = np.flatnonzero(found.graphs.best(found.gains)[1])
                for parse, tree in zip(self._reader.parses(found, edges, 1.0), gold, strict=True):
                    brackets, wanted = parse.spans, Counter(tree.spans()[1:])
                    right += (Counter(brackets) & wanted).total()
                    total += len(brackets) + wanted.total()
            return 2 * right / max(total, 1)

        return climb(f1)

    def _requests(
        self,
        sentences: Iterable[Sequence[str]],
        tags: Iterable[Sequence[GivenTag]] | None = None,
        constraints: Iterable[Sequence[Constraint] | None] | None = None,
        hasty: Iterable[bool] | None = None,
        vectors: Iterable[Vectors] | None = None,
    ) -> list[_Request]:
        words = [list(sentence) for sentence in sentences]
        given = [None] * len(words) if tags is None else [list(row) for row in tags]
        if len(given) != len(words):
            raise StructlearnError("SL423")
        wanted = [None] * len(words) if constraints is None else list(constraints)
        if len(wanted) != len(words):
            raise StructlearnError("SL429", number=len(wanted), of=len(words))
        hurries, rows = ([None] * len(words) if own is None else own for own in (hasty, vectors))
        every = zip(words, given, wanted, hurries, rows, strict=True)
        requests = []
        for sentence, own, some, in_hurry, of_words in every:
            if own is not None and len(own) != len(sentence):
                raise StructlearnError("SL423")
            limited = self._limits.limited(some, len(sentence)) if some else None
            requests.append(_Request(sentence, own, limited, bool(in_hurry), of_words))
        return requests

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
        if self.reranker is not None:
            words = [some[i].words for i in forests.numbers]
            self._reader.rerank(self.reranker, words, read, trees, self.temperature)
        if self.n_probable:
            self._reader.add_probable(read, trees, self.n_probable)
        parsed = dict(zip(forests.numbers.tolist(), zip(read, values, strict=True), strict=True))
        for number, (place, request) in enumerate(zip(filled, some, strict=True)):
            parse, value = parsed.get(number, (None, -np.inf))
            # Where the scorers forbid every tree there is no parse either.
            if value == -np.inf and request.limited is not None:
                (parse,) = self._parse_batch([request._replace(limited=None)], tag_weight)
                parse.unmet = True
            elif value == -np.inf and self.encoder is not None and request.proposes:
                (parse,) = self._parse_batch([request._replace(proposes=False)], tag_weight)
            elif parse is None or value == -np.inf:
                rows = slice(*forests.offsets[number:][:2])
                parse = self._reader.fallback(forests.word_scores[rows], self.grammar.top_label)
            parses[place] = parse
        return parses

    def _forests(self, chart: _chart.Chart, requests: list[_Request], tag_weight: float) -> Forests:
        """Run the cascade over a batch of sentences, none of which is empty."""
        offsets = np.cumsum([0, *(len(request.words) for request in requests)])
        scores = self._scores(requests, tag_weight)
        lexicon, others = scores[: len(self.levels)], scores[len(self.levels) :]
        limits = [request.limited and request.limited.limits for request in requests]
        spans = None
        if self.encoder is not None:
            vectors = [request.vectors for request in requests]
            spans = self.encoder.spans(vectors, np.diff(offsets))
            for x, proposed in enumerate(self.encoder.limits(spans)):
                if requests[x].limited is None and requests[x].proposes:
                    limits[x] = proposed
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
        return Forests(graphs, numbers, arrays, offsets, lexicon[0], spans)

    def _scored(self, forests: Forests, requests: list[_Request], decoder: str) -> ScoredTrees:
        """Score the trees of the forests, by the scorers if there are any, and for the decoder."""
        graphs, arrays = forests.graphs, forests.arrays
        if not self.rescores:
            gains = np.where(arrays["best"], 0.0, -np.inf)
            if decoder != "viterbi":
                gains = graphs.gains(
                    graphs.scores, arrays["posteriors"], decoder, logs=arrays["logs"]
                )
            return ScoredTrees(graphs, None, None, None, arrays["posteriors"], gains)
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
        trees = ScoredTrees(graphs, scores, sources, None, scores, scores, (scores,))
        if self.encoder is None:
            return self._pooled(trees, decoder)
        added = self.encoder.scores(graphs, forests.spans, forests.numbers)
        trees = trees._replace(parts=(scores, added))
        return self._pooled(trees, decoder, self.encoder.scorer.weights)

    def _pooled(
        self, trees: ScoredTrees, decoder: str, weights: Sequence[float] = ()
    ) -> ScoredTrees:
        """Combine the scores of the model and the encoder, if there are any, and compute gains."""
        graphs, scores = trees.graphs, trees.parts[0]
        if weights:
            scores = pooled(scores, trees.parts[1], *weights)
        log_z, posteriors = graphs.inside_outside(scores)
        gains = graphs.gains(scores, posteriors, decoder, self.grammar.symbols, trees.sources)
        return trees._replace(scores=scores, log_z=log_z, posteriors=posteriors, gains=gains)

    def _read(
        self,
        chart: _chart.Chart,
        forests: Forests,
        trees: ScoredTrees,
        edges: NDArray[np.int64],
    ) -> list[Parse]:
        """Return one tree of each forest as a parse. edges: of all trees, int64, ascending."""
        graphs, arrays = trees.graphs, forests.arrays
        parses = self._reader.parses(trees, edges, self.temperature)
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
    vectors: Any = None
    proposes: bool = True
