"""The default parsers with their trees reranked by a sigmoid belief network, see `isbn.reranking`.

The network is that of papers/titov_henderson2007 for all lengths, with the feed-forward
approximation, trained on EWT without the tuning documents. Its weight, the number of trees and the
decoder are chosen on half of MCTB_en's dev, which neither the parsers nor the network have seen.
speed_ratio is that of the words per CPU second of the whole pipeline on the raw text of dev.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np

import spacy_structlearn
from spacy_structlearn.isbn.decode import BY_BRACKETS
from spacy_structlearn.isbn.reranking import Reranker, choose
from spacy_structlearn.pipeline.doc_arrays import copy_with_vectors
from spacy_structlearn.trees.parse import Parse
from spacy_structlearn.trees.tree import Tree
from training.benchmarks.adaptation import words_of
from training.benchmarks.encoder import fastest
from training.benchmarks.speed import parse_of
from training.beyond.factorial import PARSER, PIPELINES, annotated
from training.common.ewt import build_docs, read_docs
from training.common.kept import Run
from training.common.scoring import Figures, bracket_counts, paired_bootstrap, scored, under
from training.common.treebanks import MCTB_DOMAINS, domain_trees
from training.papers.titov_henderson2007.models import Short
from training.papers.titov_henderson2007.parsing import ADAM, WEIGHTS, Lists, normal

K = (5, 10)
DECODERS = ("viterbi", "labelled_recall")


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
    before = scored(
        list(map(parse_of, parser.pipe(map(copy_with_vectors, dev.docs)))), gold, "gold"
    )
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
