"""The default parsers with their trees reranked by a sigmoid belief network, see `isbn.reranking`.

The network is that of papers/titov_henderson2007 for all lengths, with the feed-forward
approximation, trained on EWT without the tuning documents. Its weight, the number of trees and the
decoder are chosen on dev of MCTB_en, which neither the parsers nor the network have seen.
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
from spacy_structlearn.evaluation.evalb import EvalbScore
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

K = (5, 10, 20)
DECODERS = ("viterbi", "labelled_recall")


def reranking(run: Run) -> Iterator[Figures]:
    """Yield the scores of both pipelines."""
    whole = Short(run.corpora, run.work, run.jobs, longest=None)
    network, notes = whole.prepared("ewt", "fit", ADAM)
    yield {"isbn.rerank.train_s": notes["cpu_s"], "isbn.rerank.mb": len(network.to_bytes()) / 1e6}
    trees = [x for domain in MCTB_DOMAINS for x in domain_trees(run.corpora, domain, "dev")]
    for name in PIPELINES.values():
        nlp = spacy_structlearn.load(name)
        prefix = f"isbn.rerank.{name.rpartition('_')[2]}"
        yield under(prefix, _measured(run, nlp, network, trees[: run.limit]))


def _measured(run: Run, nlp: Any, network: Any, trees: Sequence[Tree]) -> Figures:
    parser = nlp.get_pipe(PARSER)
    decoder, parser.reranker = parser.decoder, network
    lists, parses = _lists(nlp, trees)
    lists.add("nn", network)
    scores = {}
    for setting in product(DECODERS, WEIGHTS, K):
        by, weight, k = setting
        pairs = zip(parses, lists.joint["nn"], strict=True)
        taken = [
            choose(own[:k], row[: len(own)][:k], weight, by in BY_BRACKETS) for own, row in pairs
        ]
        scores[setting] = lists.f1(np.array(taken))
    found: Figures = {f"oracle.{k}": lists.oracle(k) for k in K}
    gold = run.trees("ewt", "dev")
    docs = annotated(nlp, [words_of(nlp, tree) for tree in gold])

    def result(by: str, weight: float, k: int) -> EvalbScore:
        parser.decoder, parser.rerank_weight, parser.rerank = by, weight, k
        pipe = parser.pipe(map(copy_with_vectors, docs))
        return scored(list(map(parse_of, pipe)), gold, "gold")

    before = result(decoder, 0.0, 0)
    found |= {"first.f1": before.f1, "first.exact": before.complete_match}
    best: Any = max(scores, key=lambda setting: scores[setting])
    for by in DECODERS:
        setting: Any = max((own for own in scores if own[0] == by), key=lambda own: scores[own])
        after = result(*setting)
        figures = {"f1": after.f1, "exact": after.complete_match, "tune_f1": scores[setting]}
        figures |= {"weight": setting[1], "k": setting[2]}
        figures["p"] = paired_bootstrap(bracket_counts(before), bracket_counts(after))
        found |= under(by, figures) | (figures if setting == best else {})
    texts = [doc.text for doc in read_docs(build_docs(run.corpora, run.work)["dev"])][: run.limit]

    def annotate(k: int) -> Iterator[Any]:
        parser.decoder, parser.rerank_weight, _ = best if k else (decoder, 0.0, 0)
        parser.rerank = k
        yield from nlp.pipe(texts)

    seconds = fastest({str(k): partial(annotate, k) for k in (0, best[2])}, 2)
    return found | {"speed_ratio": seconds["0"] / seconds[str(best[2])]}


def _lists(nlp: Any, trees: Sequence[Tree]) -> tuple[Lists, list[Sequence[Parse]]]:
    """Return the most probable parses of sentences, best first."""
    kept: dict[tuple[str, ...], Sequence[Parse]] = {}

    def keep(_: Any, sentences: Sequence[Sequence[str]], lists: Sequence[Sequence[Parse]]) -> Any:
        kept.update(zip(map(tuple, sentences), lists, strict=True))
        return [0] * len(lists)

    docs = annotated(nlp, [words_of(nlp, tree) for tree in trees])
    nlp.get_pipe(PARSER).rerank = max(K)
    with patch.object(Reranker, "best", keep):
        alone = map(parse_of, nlp.get_pipe(PARSER).pipe(docs))
        rows = zip(trees, alone, strict=True)
        parses = [kept.get(tuple(tree.words())) or [parse] for tree, parse in rows]
    found = [
        [(normal(parse.tree(tree.words())), parse.log_probability) for parse in own]
        for tree, own in zip(trees, parses, strict=True)
    ]
    return Lists(trees, found, "gold"), parses
