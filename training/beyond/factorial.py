"""What carries the parser: each of its parts with and without the others, on its own data.

teacher    trees of raw text by an encoder as a prior, see `training.pipeline.self_training`: the
           first FILES files of `training.encoder.label`
latent     ROUNDS rounds of splitting and merging, or none: an X-bar grammar
features   features of spans, learned on forests by grammars of FOLDS folds
encoder    spans are scored by vectors of tokens, too: in the pipeline with an encoder. The weights
           of both are fitted on dev of MCTB_en

Grammars learn from every third tree of EWT and MCTB_en, the trees of the default parser. Trees are
those of EWT's dev, behind the tagger of each pipeline, by the decoder of the default parser.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

import spacy_structlearn
from spacy_structlearn.evaluation.evalb import EvalbScore
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.spans.model import SpanGrammar
from spacy_structlearn.grammar.spans.settings import SpanGrammarSettings
from spacy_structlearn.pipeline.doc_arrays import copy_with_vectors
from spacy_structlearn.pipeline.readers import create_treebank_reader
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.trees.tree import Tree
from training.benchmarks.adaptation import words_of
from training.benchmarks.speed import parse_of
from training.common.ewt import read_docs
from training.common.kept import LEXICON, Run
from training.common.scoring import Figures, f1_standard_error, scored, under
from training.common.treebanks import MCTB_DOMAINS, domain_trees
from training.pipeline.self_training import labelled

ROUNDS, FOLDS, FILES = 3, 2, 8
SHARE = 3  # one tree in so many
DRAWN = 8  # and one sentence in so many for the weights
# The X-bar grammar, by merging all splits, after a level for pruning.
XBAR = LEXICON.part(LatentGrammarSettings, rounds=1, merge_fraction=1.0)
GRAMMARS = {"xbar": XBAR, "latent": replace(XBAR, rounds=ROUNDS, merge_fraction=0.5)}
PIPELINES = {"": "en_structlearn_sm", "encoder": "en_structlearn_md"}
PARSER = "constituency_parser"


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
