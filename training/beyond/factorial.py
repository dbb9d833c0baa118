"""What carries the default parser, and what a reranker adds to it.

factorial: each of its parts with and without the others, on its own data.

teacher    trees of raw text by an encoder as a prior, see `training.pipeline.self_training`: the
           first FILES files of `training.encoder.label`
latent     ROUNDS rounds of splitting and merging, or none: an X-bar grammar
features   features of spans, learned on forests by grammars of FOLDS folds
encoder    spans are scored by vectors of tokens, too: in the pipeline with an encoder. The weights
           of both are fitted on dev of MCTB_en

Grammars learn from every third tree of EWT and MCTB_en, the trees of the default parser. Trees are
those of EWT's dev, behind the tagger of each pipeline, by the decoder of the default parser.

reranking: by the network of papers/titov_henderson2007 for all lengths, with the feed-forward
approximation, trained on EWT without the tuning documents. Its weight, the number of trees and the
decoder are chosen on half of MCTB_en's dev, which neither the parsers nor the network have seen.
speed_ratio is that of the words per CPU second of the whole pipeline on the raw text of dev.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product
from typing import Any
from unittest.mock import patch

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

import spacy_structlearn
from spacy_structlearn.evaluation.evalb import EvalbScore
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.spans.model import SpanGrammar
from spacy_structlearn.grammar.spans.settings import SpanGrammarSettings
from spacy_structlearn.isbn.decode import BY_BRACKETS
from spacy_structlearn.isbn.reranking import Reranker, choose
from spacy_structlearn.pipeline.doc_arrays import copy_with_vectors
from spacy_structlearn.pipeline.readers import create_treebank_reader
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.trees.parse import Parse
from spacy_structlearn.trees.tree import Tree
from training.benchmarks.adaptation import words_of
from training.benchmarks.encoder import fastest
from training.benchmarks.speed import parse_of
from training.common.ewt import build_docs, read_docs
from training.common.kept import LEXICON, Run
from training.common.scoring import (
    Figures,
    bracket_counts,
    f1_standard_error,
    paired_bootstrap,
    scored,
    under,
)
from training.common.treebanks import MCTB_DOMAINS, domain_trees
from training.papers.titov_henderson2007.models import Short
from training.papers.titov_henderson2007.parsing import ADAM, WEIGHTS, Lists, normal
from training.pipeline.self_training import labelled

ROUNDS, FOLDS, FILES = 3, 2, 8
SHARE = 3  # every third tree
DRAWN = 8  # and one sentence in so many for the weights
# The X-bar grammar, by merging all splits, after a level for pruning.
XBAR = LEXICON.part(LatentGrammarSettings, rounds=1, merge_fraction=1.0)
GRAMMARS = {"xbar": XBAR, "latent": replace(XBAR, rounds=ROUNDS, merge_fraction=0.5)}
PIPELINES = {"": "en_structlearn_sm", "encoder": "en_structlearn_md"}
PARSER = "constituency_parser"
K, DECODERS = (5, 10), ("viterbi", "labelled_recall")  # of the reranker


class Treebanks(Run):
    """The treebanks of the default parser as one corpus, a share of it, and the teacher's trees."""

    def trees(self, corpus: str, split: str) -> Sequence[Tree]:
        if corpus == "teacher":
            docs = (doc for path in labelled(self.work)[:FILES] for doc in read_docs(path))
            found = [normalize(tree) for doc in docs for tree in doc._.trees]
            return [tree for tree in found if tree is not None][: self.limit]
        others = (domain_trees(self.corpora, domain, split) for domain in MCTB_DOMAINS)
        every = chain(super().trees("ewt", split), *others)
        return list(every)[:: SHARE if corpus == "share" else 1]


def grammars(run: Run) -> Iterator[tuple[list[str], SpanGrammar]]:
    """Yield the grammars, and the names of their parts."""
    run = Treebanks(run.corpora, run.work, run.jobs, run.limit)
    for teacher, (name, base) in product(("", "teacher"), GRAMMARS.items()):
        prior = None
        if teacher:
            plan = teacher, "first", base
            run.prepare([plan])
            prior = run.path(*plan)
        settings = SpanGrammarSettings(grammar=replace(base, prior=prior), folds=FOLDS)
        grammar, _ = run.prepared("share", "train", settings)
        yield [name, teacher, "features"], grammar
        yield [name, teacher], bare(grammar)


def bare(grammar: SpanGrammar) -> SpanGrammar:
    """Return the grammar without span features."""
    return grammar.replaced(features=None, weight=1.0)


def factorial(run: Run) -> Iterator[Figures]:
    """Yield F1 and exact match of all combinations on EWT's dev."""
    pipelines = {name: Pipeline(run, model) for name, model in PIPELINES.items()}
    whole = pipelines[""].parser.parameters
    shipped = [("shipped", "teacher", "features"), whole], [("shipped", "teacher"), bare(whole)]
    for names, grammar in chain(shipped, grammars(run)):
        for encoder, pipeline in pipelines.items():
            result = pipeline.score(grammar)
            found = {"f1": result.f1, "exact": result.complete_match}
            found |= {"f1_se": f1_standard_error(result)} if names[0] == "shipped" else {}
            yield under("factorial." + "_".join(filter(None, [*names, encoder])), found)


class Pipeline:
    """A pipeline whose parser gets other grammars, and the sentences to score it on."""

    def __init__(self, run: Run, model: str):
        nlp = spacy_structlearn.load(model)
        self.parser: Any = nlp.get_pipe(PARSER)
        self.gold = run.trees("ewt", "dev")
        self.docs = annotated(nlp, [words_of(nlp, tree) for tree in self.gold])
        self.tuning: list[Example] = []
        for domain in MCTB_DOMAINS if self.parser.encoder else ():
            path = run.corpora / "mctb" / f"{domain}.dev.trees.gz"
            read = list(create_treebank_reader(path, tags=False)(nlp))[::DRAWN]
            docs = annotated(nlp, [example.predicted for example in read])
            pairs = zip(docs, read, strict=True)
            self.tuning += [Example(doc, example.reference) for doc, example in pairs]

    def score(self, grammar: Any) -> EvalbScore:
        """Return the scores with another grammar; the weights of an encoder are fitted first."""
        self.parser.parameters = grammar
        if self.tuning:
            self.parser.calibrate(self.tuning)
        docs = self.parser.pipe(map(copy_with_vectors, self.docs))
        return scored(list(map(parse_of, docs)), self.gold, "gold")


def annotated(nlp: Language, docs: list[Doc]) -> list[Doc]:
    """Annotate Docs with sentences by what is between the splitter and the parser."""
    names = nlp.pipe_names
    for name in names[1 : names.index(PARSER)]:
        docs = list(nlp.get_pipe(name).pipe(docs))  # type: ignore[attr-defined] # a component
    return docs


# --- reranking ------------------------------------------------------------------------------------
def reranking(run: Run) -> Iterator[Figures]:
    """Yield the scores of both pipelines."""
    whole = Short(run.corpora, run.work, run.jobs, longest=None)
    network, notes = whole.prepared("ewt", "fit", ADAM)
    yield {"isbn.rerank.train_s": notes["cpu_s"], "isbn.rerank.mb": len(network.to_bytes()) / 1e6}
    trees = [x for domain in MCTB_DOMAINS for x in domain_trees(run.corpora, domain, "dev")[::2]]
    for name in PIPELINES.values():
        nlp = spacy_structlearn.load(name)
        prefix = f"isbn.rerank.{name.rpartition('_')[2]}"
        yield under(prefix, _measured(run, nlp, network, trees[: run.limit]))


def _measured(run: Run, nlp: Any, network: Any, tuning: Sequence[Tree]) -> Figures:
    parser, gold = nlp.get_pipe(PARSER), run.trees("ewt", "dev")
    decoder, parser.reranker = parser.decoder, network
    tune, dev = (_Lists(nlp, network, trees) for trees in (tuning, gold))
    f1 = {own: tune.f1(tune.chosen(*own)) for own in product(DECODERS, WEIGHTS, K)}
    parser.rerank = 0
    alone = parser.pipe(map(copy_with_vectors, dev.docs))
    before = scored(list(map(parse_of, alone)), gold, "gold")
    found: Figures = {f"oracle.{k}": dev.oracle(k) for k in K}
    found |= {"first.f1": before.f1, "first.exact": before.complete_match}
    best = max(f1, key=f1.__getitem__)
    for name in DECODERS:
        own = max((x for x in f1 if x[0] == name), key=f1.__getitem__)
        after = dev.score(dev.chosen(*own))
        figures = {"f1": after.f1, "exact": after.complete_match, "tune_f1": f1[own]}
        figures |= {"weight": own[1], "k": own[2]}
        figures["p"] = paired_bootstrap(bracket_counts(before), bracket_counts(after))
        found |= under(name, figures) | (figures if own == best else {})
    texts = [doc.text for doc in read_docs(build_docs(run.corpora, run.work)["dev"])][::2]

    def annotate(k: int) -> Iterator[Any]:
        parser.decoder, parser.rerank_weight, _ = best if k else (decoder, 0.0, 0)
        parser.rerank = k
        yield from nlp.pipe(texts)

    seconds = fastest({str(k): partial(annotate, k) for k in (0, best[2])}, 2)
    return found | {"speed_ratio": seconds["0"] / seconds[str(best[2])]}


class _Lists(Lists):
    """The most probable trees of a pipeline, and the scores of a network."""

    def __init__(self, nlp: Any, network: Any, trees: Sequence[Tree]):
        kept: dict[tuple[str, ...], Sequence[Parse]] = {}

        def keep(_: Any, sentences: Any, lists: Any) -> Any:
            kept.update(zip(map(tuple, sentences), lists, strict=True))
            return [0] * len(lists)

        self.docs = annotated(nlp, [words_of(nlp, tree) for tree in trees])
        parser = nlp.get_pipe(PARSER)
        parser.rerank = max(K)
        with patch.object(Reranker, "best", keep):
            alone = map(parse_of, parser.pipe(map(copy_with_vectors, self.docs)))
            pairs = zip(trees, alone, strict=True)
            self.parses = [kept.get(tuple(tree.words())) or [parse] for tree, parse in pairs]
        found = [
            [(normal(parse.tree(tree.words())), parse.log_probability) for parse in own]
            for tree, own in zip(trees, self.parses, strict=True)
        ]
        super().__init__(trees, found, "gold")
        self.add("nn", network)

    def chosen(self, decoder: str, weight: float, k: int) -> Any:
        """Return the number of the tree of each sentence."""
        rows = [
            row[: min(k, len(own))] for own, row in zip(self.parses, self.joint["nn"], strict=True)
        ]
        pairs, by = zip(self.parses, rows, strict=True), decoder in BY_BRACKETS
        return np.array([choose(own[:k], row, weight, by) for own, row in pairs])
