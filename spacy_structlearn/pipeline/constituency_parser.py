"""Constituency parses in `nlp(text)`: `doc.spans["constituents"]`, with probabilities of brackets.

The trees are those of the Penn Treebank (Marcus, Santorini & Marcinkiewicz 1993) without traces and
function tags. The learner is any architecture over trees. The default is the grammar with latent
annotations of Petrov & Klein (2007); the incremental sigmoid belief network of Titov & Henderson
(2007) is another. Every sentence gets a tree. `doc._.parse_failures` has the sentences whose tree
is not the model's, or not as it should be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from spacy.tokens import Doc, Span
from spacy.training import Example

from ..encoder.scorer import SiteScorer
from ..errors import StructlearnError
from ..grammar.chart.constraints import Constraint
from ..grammar.chart.decode import DECODERS, THRESHOLDS, ChartParser
from ..groups import CONSTITUENT_CONSTRAINTS, CONSTITUENT_TAGS, CONSTITUENTS, PARSE_FAILURES
from ..learning.settings import MAX_PARTS, check_argument, setting
from ..trees.parse import GivenTag, Parse, fit_temperature
from ..trees.tree import Tree
from . import extensions
from .doc_arrays import (
    Tokens,
    distinct_words,
    gold_trees,
    has_gold_tokens,
    ids_of_spans,
    is_tagged,
    read_tokens,
    read_vectors,
)
from .extensions import OF_SPANS_AND_TOKENS, set_spans
from .extensions.brackets import CUT
from .extensions.chunks import with_candidates
from .extensions.constraints import PIECE, Constraints, by_sentence, cut, read_constraints
from .extensions.span_groups import N_TOKENS, words_of
from .scorers import constituency_score
from .storage.alternatives import Bracket, set_alternatives
from .storage.component import let_be_stored
from .training.batch_trainable import BatchTrainable, Transient
from .training.factories import ComponentSettings, factory

TAGS = ("ignore", "prior", "require")
FALLBACK, UNMET = "fallback", "constraints"

extensions.register()


class Reading(NamedTuple):
    """The parse of a Doc, over its tokens; brackets are in pre-order."""

    brackets: list[Bracket]
    tags: list[tuple[int, str]]  # token, tag
    failures: list[tuple[str, int, int]]  # label, start, end
    probable: dict[int, list[Parse]]  # by first token


@dataclass(frozen=True, kw_only=True)
class ConstituencyParserSettings(ComponentSettings):
    """Predict a tree for each sentence.

    The model is an architecture over trees, such as LatentGrammar.
    """

    name: ClassVar[str] = "constituency_parser"
    iterations_per_step: int = setting(
        1,
        ge=1,
        help="Number of steps of the learner in one `nlp.update`: rounds of splitting, merging and "
        "smoothing of a latent grammar, followed by what other grammars need, such as the forests "
        "of a fold, and passes through all sentences; or passes of a sigmoid belief network.",
    )
    decoder: str = setting(
        "max_rule_product",
        choices=DECODERS,
        help="How the tree is chosen, see `grammar.chart.decode`. Among the trees that a sigmoid "
        'belief network finds or reranks, "max_rule_sum" and "labelled_recall" choose the one with '
        "the most expected right brackets, and all others the most probable one.",
    )
    thresholds: Sequence[float] | None = setting(
        None,
        ge=0,
        le=1,
        help="Posterior probabilities below which chart items are pruned before the next level of "
        "the grammar, one for each level but the last. Higher values are faster and less accurate. "
        "None: the defaults of the package. A sigmoid belief network has no levels; the width of "
        "its search is set by its `beam`.",
    )
    threads: int = setting(
        1,
        ge=1,
        le=MAX_PARTS,
        help="Number of threads that share the sentences of a batch. Use 1 with `n_process`.",
    )
    tags: str = setting(
        "ignore",
        choices=TAGS,
        help='How `token.tag` is used: "ignore" it; "prior" adds `tag_weight` nats to the score of '
        'the word with this tag; "require" gives the word this tag in the tree. Unknown tags are '
        'ignored. If `doc.spans["tag_candidates"]` has several tags for a '
        "token, and `token.tag` is the first of these, each of them is a prior in proportion to "
        "its probability, see `trees.parse.tag_shares`.",
    )
    tag_weight: float = setting(1.0, ge=0, help="Strength of the prior of a tag, in nats.")
    set_tags: bool = setting(
        False,
        help='Write the tags of trees to `token.tag`, not to `doc.spans["constituent_tags"]`.',
    )
    one_sentence: bool = setting(
        False,
        help="Whether a Doc without sentence boundaries is read as one sentence. By default it is "
        "an error.",
    )
    max_length: int = setting(
        250,
        ge=1,
        help=f"Longer sentences are cut into pieces of at most {PIECE} words: most are not "
        "sentences, and the time to parse a word grows with the square of the length.",
    )
    probable_trees: int = setting(
        0,
        ge=0,
        help="Number of probable trees of each sentence that are kept for `tree_dependencies`.",
    )
    rerank: int = setting(
        0, ge=0, help="Number of best trees that `reranker`, a sigmoid belief network, scores, too."
    )
    rerank_weight: float = setting(0.3, ge=0, help="Weight of the network's log-probabilities.")
    constraint_keys: Sequence[str] = setting(
        (CONSTITUENT_CONSTRAINTS,),
        help="Keys of span groups that constrain the trees. The spans of "
        '"constituent_constraints" must be brackets with their label, or must not be with a "!" '
        "before it. The spans of other groups that have several tokens must be brackets of any "
        'label; "ents" are the entities.',
    )

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        yield "thresholds", "a list of one posterior or more, or none", self.thresholds != ()


class _Held(Transient):
    """The parser for the current parameters and settings."""

    parameters: Any = None
    settings: Any = None
    parser: Any = None


class ConstituencyParser(BatchTrainable):
    """Predicts a tree for each sentence.

    Reads `doc.sents`, and `token.tag` and its probabilities according to the setting `tags`.
    """

    parameter = "symbols"  # tags and phrases, which all models of trees have
    key = CONSTITUENTS
    settings_kind = ConstituencyParserSettings
    heads = ("spans",)

    def __init__(self, *args: Any, scorer: Callable | None = constituency_score, **settings: Any):
        super().__init__(*args, scorer=scorer, **settings)
        if (self.encoder or self.rerank) and self._is_searched:
            raise StructlearnError("SL198", component=self.name)
        if self.rerank and "reranker" not in self.model.attrs:
            from ..isbn.model import ISBN  # only here, as most parsers have no network

            self.reranker = ISBN.empty()
        self._held = _Held()

    # --- training -----------------------------------------------------------------------------
    def gold_data(self, example: Example) -> list[Tree] | None:
        """Get the trees of the reference, over its own words and with its own tags.

        Sentences without a complete tree or with words without a tag are left out, and their number
        is logged. Raises StructlearnError if no word has a tag.
        """
        doc = example.reference
        if CONSTITUENTS not in doc.spans:
            return None
        if not is_tagged(doc) and len(doc):
            raise StructlearnError("SL022", component=self.name, text=doc.text[:40])
        return [tree for _, tree in gold_trees(doc, self.name)] or None

    def _add(self, examples: list[Example], strength: float | None = None) -> None:
        # `spacy train` shuffles the examples, and sums of floats depend on the order.
        def content(x: Example) -> tuple[Any, ...]:
            return x.reference.text, ids_of_spans(x.reference.spans.get(CONSTITUENTS, ()))

        super()._add(sorted(examples, key=content), strength)

    def _answers(self) -> Iterable[str]:
        symbols = self.parameters.symbols
        return set(symbols.phrases) - {symbols.root}

    def _strings(self) -> Iterable[str]:
        symbols = self.parameters.symbols
        return (FALLBACK, CUT, UNMET, *self.labels, *symbols.tags, *symbols.phrases)

    # --- prediction ---------------------------------------------------------------------------
    def predict(self, docs: Sequence[Doc]) -> list[Reading]:
        """Parse the sentences of all Docs together.

        Raises StructlearnError for a Doc without sentence boundaries, unless `one_sentence` is set.
        """
        self.require_parameters()
        for doc in docs if not self.one_sentence else ():
            if not doc.has_annotation("SENT_START") and len(words_of(doc)) > 1:
                raise StructlearnError("SL191", component=self.name, text=doc.text[:40])
        given, pieces, constraints = self._given(docs)
        parses = iter(self._parser().parse(**given) if given["sentences"] else ())
        impossible = iter([any(piece.impossible for piece in pieces) for pieces in constraints])
        return [self._reading(own, parses, impossible) for own in pieces]

    def _given(
        self, docs: Sequence[Doc]
    ) -> tuple[dict[str, Any], list[list[list[list[int]]]], list[list[Constraints]]]:
        """Get the arguments of the parser for the pieces of all sentences of all Docs.

        Also returns the positions of the words of each piece of each sentence of each Doc, and the
        constraints of each piece of each sentence.
        """
        attributes = ["ORTH"] if self.tags == "ignore" else ["ORTH", "TAG"]
        # Without a prior the parser tags the words itself.
        optional = ["TAG"] if self.tags == "prior" else []
        tokens = read_tokens(docs, attributes, self.name, optional=optional)
        distinct = [distinct_words(docs, column) for column in tokens.columns.T]
        texts: list[list[Any]] = [[words[i] for i in ids.tolist()] for words, ids in distinct]
        positions = tokens.positions.tolist()
        if self.tags == "prior":
            ends = tokens.offsets[tokens.docs].tolist()
            for doc, (begin, end) in zip(docs, pairwise(ends), strict=True):
                part = slice(begin, end)
                texts[1][part] = with_candidates(doc, positions[part], texts[1][part])
        sentences, wanted = [], self._constraints(docs, positions, tokens)
        constraints: list[list[Constraints]] = []
        for (begin, end), own in zip(pairwise(tokens.offsets.tolist()), wanted, strict=True):
            ends = cut(texts[0][begin:end], self.max_length, own.required)
            sentences.append([slice(begin + b, begin + e) for b, e in pairwise([0, *ends])])
            constraints.append(own.pieces(ends))
        words, *tags = ([text[piece] for pieces in sentences for piece in pieces] for text in texts)
        given = {"sentences": words, **self._tags(*tags)}
        given |= _given(piece.inside for piece in chain(*constraints))
        # Most sentences that are cut are not language, and a tree of them takes long to find.
        hasty = [len(own) > 1 and not piece.inside for own in constraints for piece in own]
        if any(hasty) and not self._is_searched:
            given["hasty"] = hasty
        if self._spans is not None:
            rows = read_vectors(docs, tokens, self.name, self.site_scorers)
            given["vectors"] = [rows[piece] for piece in chain(*sentences)]
        pieces = [[positions[piece] for piece in pieces] for pieces in sentences]
        by_doc = [pieces[first:last] for first, last in pairwise(tokens.docs.tolist())]
        return given, by_doc, constraints

    def _constraints(
        self, docs: Sequence[Doc], positions: list[int], tokens: Tokens
    ) -> list[Constraints]:
        """Get the constraints of each sentence of all Docs."""
        offsets, constraints = tokens.offsets.tolist(), []
        for doc, (first, last) in zip(docs, pairwise(tokens.docs.tolist()), strict=True):
            begin, ends = offsets[first], offsets[first + 1 : last + 1]
            given = read_constraints(doc, self.constraint_keys)
            words = positions[begin : offsets[last]]
            constraints += by_sentence(given, words, [end - begin for end in ends])
        return constraints

    def _reading(
        self, sentences: list[list[list[int]]], parses: Iterator[Parse], impossible: Iterator[bool]
    ) -> Reading:
        """Read the parses of the pieces of the sentences of one Doc.

        impossible: whether a sentence has constraints that no tree can meet.
        """
        brackets, tags, failures, probable = reading = Reading([], [], [], {})
        for pieces in sentences:
            unmet = next(impossible)
            first, end = pieces[0][0], pieces[-1][-1] + 1
            if len(pieces) > 1:
                # The bracket that joins the pieces does not come from the model.
                brackets.append((self.parameters.top_label, first, end, 0.0))
                failures.append((CUT, first, end))
            for piece, parse in zip(pieces, parses, strict=False):
                starts = [piece[start] for start in parse.starts]
                ends = [piece[end - 1] + 1 for end in parse.ends]
                probabilities = np.asarray(parse.probabilities).tolist()
                brackets += zip(parse.labels, starts, ends, probabilities, strict=True)
                tags += zip(piece, parse.tags, strict=True)
                if parse.failed:
                    failures.append((FALLBACK, piece[0], piece[-1] + 1))
                unmet |= parse.unmet
                if parse.probable and len(pieces) == 1:
                    probable[first] = parse.probable
            if unmet:
                failures.append((UNMET, first, end))
        return reading

    def set_annotations(self, docs: Sequence[Doc], readings: Sequence[Reading]) -> None:
        """Write the groups of each Doc, replacing existing ones."""
        for doc, (brackets, tags, failures, probable) in zip(docs, readings, strict=True):
            set_alternatives(doc, probable)
            scores = np.array([bracket[3] for bracket in brackets], dtype=np.float32)
            set_spans(doc, CONSTITUENTS, [bracket[:3] for bracket in brackets], scores)
            doc.spans[CONSTITUENTS].attrs[N_TOKENS] = len(doc)
            for key in (CONSTITUENT_TAGS, PARSE_FAILURES):
                doc.spans.pop(key, None)
            if failures:
                set_spans(doc, PARSE_FAILURES, failures)
            if self.set_tags:
                for index, tag in tags:
                    doc[index].tag_ = tag
            else:
                set_spans(doc, CONSTITUENT_TAGS, [(tag, i, i + 1) for i, tag in tags])

    def k_best(self, doclike: Doc | Span, k: int = 5) -> list[tuple[float, Tree]]:
        """Find the k best trees of a sentence, in the order of the decoder.

        With a sigmoid belief network, the trees that its search finds are ranked by probability.
        doclike: a Doc of one sentence, or any Span, which is read as one sentence.
        Returns log P(tree | words) and the tree of each; none for white space. With constraints
        these are the probabilities given that the tree meets them. Trees are not reranked. Raises
        StructlearnError for a Doc of several sentences, for more than `max_length` words, for
        constraints that no tree meets, and if k is not a number of at least 1.
        """
        self.require_parameters()
        check_argument("k", k, ge=1)
        if not isinstance(doclike, (Doc, Span)):
            kind = type(doclike).__name__
            raise StructlearnError("SL141", wanted="a Doc or a Span", kind=kind)
        if isinstance(doclike, Doc):
            sentences = extensions.sentences(doclike)
            number = sum(not all(token.is_space for token in s) for s in sentences)
            if number > 1:
                raise StructlearnError("SL024", component=self.name, number=number)
        tokens = [token for token in doclike if not token.is_space]
        if not tokens:
            return []
        if len(tokens) > self.max_length:
            raise StructlearnError(
                "SL025", component=self.name, number=len(tokens), most=self.max_length
            )
        words = [token.text for token in tokens]
        tags: list[GivenTag] = [token.tag_ for token in tokens]
        if self.tags == "prior":
            tags = with_candidates(tokens[0].doc, [token.i for token in tokens], tags)
        given = self._tags(tags)
        bounds = (0, len(doclike)) if isinstance(doclike, Doc) else (doclike.start, doclike.end)
        # What concerns words around these is left out.
        wanted = [
            own
            for own in read_constraints(tokens[0].doc, self.constraint_keys)
            if own[0] < bounds[1] and own[1] > bounds[0]
            if own[:2] == bounds or own[0] > bounds[0] or own[1] < bounds[1]
        ]
        inside = [own for own in wanted if bounds[0] <= own[0] and own[1] <= bounds[1]]
        (own,) = by_sentence(inside, [token.i for token in tokens], [len(tokens)])
        crosses = any(other[3] for other in wanted if other not in inside)
        parses = []
        if not crosses and not own.impossible:
            listed = {name: rows[0] for name, rows in _given([own.inside]).items()}
            if self._spans is not None:
                docs = [tokens[0].doc]
                read = read_tokens(docs, ["ORTH"], self.name)
                at = np.isin(read.positions, [token.i for token in tokens])
                listed["vectors"] = read_vectors(docs, read, self.name, self.site_scorers)[at]
            parses = self._parser().k_best(words, k, **given, **listed)
        if not parses:
            spans = ", ".join(f"{label or ''}[{i}:{j}]" for i, j, label, _ in wanted)
            raise StructlearnError(
                "SL190", component=self.name, text=doclike.text[:40], constraints=spans
            )
        return [(parse.log_probability, parse.tree(words)) for parse in parses]

    def calibrate(self, examples: Iterable[Example]) -> float:
        """Fit the temperature of the probabilities to gold trees that were not trained on, and
        before this, with an encoder, the weights of the learner and of the encoder.

        examples: only those whose predicted Docs have the tokens of the reference are used.
        Returns the temperature. Raises StructlearnError unless some predicted brackets are right
        and some are wrong.
        """
        self.require_parameters()
        examples = [x for x in examples if CONSTITUENTS in x.reference.spans and has_gold_tokens(x)]
        if (scorer := self._spans) is not None:
            self._fit_weights(scorer, examples)
        probabilities, right = [], []
        parameters, temperature = self.parameters, self.parameters.temperature
        parameters.temperature = 1.0
        try:
            readings = self.predict([example.predicted for example in examples])
        finally:
            parameters.temperature = temperature
        for example, reading in zip(examples, readings, strict=True):
            group = example.reference.spans[CONSTITUENTS]
            gold = {(span.label_, span.start, span.end) for span in group}
            probabilities += [bracket[3] for bracket in reading.brackets]
            right += [bracket[:3] in gold for bracket in reading.brackets]
        temperature = fit_temperature(np.array(probabilities), np.array(right, dtype=bool))
        parameters.temperature = temperature
        return temperature

    def _fit_weights(self, scorer: SiteScorer, examples: Sequence[Example]) -> None:
        given, pieces, _ = self._given([example.predicted for example in examples])
        gold = {
            (x, next(token.i for token in sentence if not token.is_space), len(tree.words())): tree
            for x, example in enumerate(examples)
            for sentence, tree in gold_trees(example.reference, self.name)
        }
        found = enumerate(chain(*sentences) for sentences in pieces)
        trees = [gold.get((x, piece[0], len(piece))) for x, own in found for piece in own]
        scorer.weights = self._parser().fit_weights(trees=trees, **given)

    @property
    def reranker(self) -> Any:
        """The `ISBN` that reranks trees, None without one. Setting `rerank` makes it read."""
        return self.model.attrs.get("reranker")

    @reranker.setter
    def reranker(self, network: Any) -> None:
        self.model.attrs["reranker"] = network
        let_be_stored(self.model)

    @property
    def _spans(self) -> SiteScorer | None:
        """The scorer of spans by vectors of tokens, if there is one."""
        return self.potentials.scorers.get("spans") if self.encoder else None

    def _tags(self, tags: list | None = None) -> dict[str, Any]:
        """Get the arguments of the parser for the tags."""
        if self.tags == "ignore":
            return {}
        return {"tags": tags, "tag_weight": self.tag_weight if self.tags == "prior" else np.inf}

    @property
    def _is_searched(self) -> bool:
        """Whether trees are found by a search over derivations, not in a chart."""
        return hasattr(self.parameters, "derivations")

    def _parser(self) -> Any:
        """Get the parser, rebuilt if the parameters or the settings have changed."""
        held, parameters = self._held, self.parameters
        settings: dict[str, Any] = {"decoder": self.decoder, "threads": self.threads}
        if self._is_searched:
            settings["beam"] = parameters.beam
        else:
            thresholds = THRESHOLDS if self.thresholds is None else tuple(self.thresholds)
            settings |= {"thresholds": thresholds, "encoder": self._spans}
        # Changed in place, by `calibrate`.
        weights = self._spans and self._spans.weights
        known = {**settings, "temperature": parameters.temperature, "weights": weights}
        known["reranker"] = self.rerank and (self.reranker, self.rerank, self.rerank_weight)
        if held.parameters is not parameters or held.settings != known:
            if self._is_searched:
                # Imported here, because pipelines without a network do not need it.
                from ..isbn.decode import DerivationParser

                held.parser = DerivationParser(parameters, **settings)
            else:
                if self.rerank:
                    from ..isbn.reranking import Reranker

                    settings["reranker"] = Reranker(*known["reranker"], decoder=self.decoder)
                held.parser = ChartParser(parameters, **settings)
            held.parameters, held.settings = parameters, known
        held.parser.n_probable = self.probable_trees
        return held.parser


def _given(constraints: Iterable[list[Constraint]]) -> dict[str, Any]:
    """Get the arguments of the parser for constraints; an empty dict without constraints."""
    rows = list(constraints)
    return {"constraints": rows} if any(rows) else {}


make_constituency_parser = factory(
    ConstituencyParser,
    model={"@architectures": "spacy_structlearn.LatentGrammar.v1"},
    scorer="spacy_structlearn.constituency_scorer.v1",
    scores=[f"constituents_{name}" for name in ("f", "p", "r", "exact", "tag_acc")],
    assigns=[
        *("doc.spans", "token.tag", "doc._.trees", "doc._.parse_failures"),
        *("span._.tree", "span._.is_constituent", "span._.constituent_prob"),
        *(f"{of}._.{name}" for of in ("span", "token") for name in OF_SPANS_AND_TOKENS),
        *(f"{of}._.{x}" for of in ("doc", "span") for x in ("phrases", "clauses", "propositions")),
    ],
    # Not doc.sents, which spaCy's senter does not name.
    requires=["token.is_sent_start"],
)
