"""Parses with brackets that must or must not be: whether they are met, what they cost and bring.

    python corpora/fetch.py ewt
    python -m training.benchmarks.constraints

The parser of the default pipeline reads the sentences of dev of EWT with gold tokens and predicted
tags. 10,000 constraints are drawn with a fixed seed, up to three for a sentence, with and without a
label, and about a third of the sentences each way: from the tree without constraints, so
that some tree meets them; from the gold tree (must be) and from wrong brackets of the parser (must
not be), as a user would correct it; and at random. Whether the output meets them is checked bracket
by bracket. Figures are recorded in training/results/languages.json:

constraints.n                number of constraints
constraints.sentences        parsed with constraints
constraints.violations       constraints that a tree does not meet though it is not reported
constraints.impossible       sentences of which is reported that no tree meets the constraints:
                             own, gold and random, by what the constraints were drawn from
constraints.ms_per_sentence  CPU milliseconds with constraints and without (free), medians of
                             alternating runs over the same sentences
constraints.f1               of trees if so many (0, 1, 2) gold brackets that the parser does not
                             find by itself are given for each sentence
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from spacy.tokens import Doc, Span

import spacy_structlearn
from spacy_structlearn.evaluation.evalb import score_trees
from spacy_structlearn.groups import CONSTITUENT_CONSTRAINTS
from spacy_structlearn.pipeline.constituency_parser import UNMET, ConstituencyParser, Reading
from spacy_structlearn.trees.tree import Tree
from training.common.recording import CORPORA, clean_commit, record, show
from training.common.treebanks import ewt_trees

RESULTS = "languages"
NUMBER = 10_000
MOST = 3  # constraints of a sentence
GIVEN = (0, 1, 2)  # gold brackets of a sentence
SOURCES = ("own", "gold", "random")

Bracket = tuple[str, int, int]


class Drawn(NamedTuple):
    """The constraints of a sentence, as labels with or without "!" over spans of tokens."""

    sentence: int
    source: str
    spans: list[Bracket]


def draw(
    number: int, gold: Sequence[list[Bracket]], own: Sequence[list[Bracket]], lengths: Sequence[int]
) -> list[Drawn]:
    """Draw constraints. gold, own: the brackets of the gold trees and of the parser's.

    The sentences come in order, and again from the first one.
    """
    rng = np.random.default_rng(0)
    labels = sorted({label for brackets in gold for label, _, _ in brackets})
    drawn: list[Drawn] = []
    left = number
    while left > 0:
        for sentence, n in enumerate(lengths):
            source = SOURCES[rng.integers(len(SOURCES))]
            size = min(left, 1 + int(rng.integers(MOST)))
            trees = gold[sentence], own[sentence]
            found = [_constraint(rng, source, *trees, n, labels) for _ in range(size)]
            if spans := [span for span in found if span is not None]:
                drawn.append(Drawn(sentence, source, spans))
                left -= len(spans)
    return drawn


def _constraint(
    rng: np.random.Generator,
    source: str,
    gold: list[Bracket],
    own: list[Bracket],
    n: int,
    labels: list[str],
) -> Bracket | None:
    """Draw a constraint on a sentence of n words; None if there is no bracket to take."""
    bare = rng.random() < 0.5
    start, end = sorted(rng.choice(n + 1, size=2, replace=False).tolist())
    label, must = labels[rng.integers(len(labels))], bool(rng.random() < 0.6)
    if source == "own":
        if must and own:
            label, start, end = own[rng.integers(len(own))]
        must = not violations(own, [("" if bare else label, start, end)])
    elif source == "gold":
        wrong = [bracket for bracket in own if bracket not in gold]
        found = wrong if wrong and not must else gold
        if not found:
            return None
        must = found is gold
        label, start, end = found[rng.integers(len(found))]
        # The span of a wrong bracket may be right.
        bare = bare and must
    return ("" if must else "!") + ("" if bare else label), start, end


def violations(brackets: Iterable[Bracket], spans: Iterable[Bracket]) -> int:
    """Count the constraints that the brackets do not meet."""
    known = set(brackets)
    places = {(start, end) for _, start, end in known}
    wrong = 0
    for label, start, end in spans:
        name = label.removeprefix("!")
        has = (name, start, end) in known if name else (start, end) in places
        wrong += has == label.startswith("!")
    return wrong


class Setup:
    """The tagged sentences, and the parser."""

    def __init__(self, limit: int | None, corpora: Path):
        self.gold = list(ewt_trees(corpora, "dev"))[:limit]
        nlp = spacy_structlearn.load()
        part = nlp.get_pipe("constituency_parser")
        assert isinstance(part, ConstituencyParser)
        self.parser = part
        docs = [Doc(nlp.vocab, words=tree.words()) for tree in self.gold]
        for doc in docs:
            for token in doc[1:]:
                token.is_sent_start = False
        self.docs = list(nlp.get_pipe("chain_tagger").pipe(docs))

    def parse(self, sentences: Sequence[int], spans: Sequence[list[Bracket]]) -> list[Reading]:
        """Parse some sentences with these constraints. The Docs get no trees."""
        readings: list[Reading] = []
        # A Doc has one group: what comes again is parsed later.
        again = np.flatnonzero(np.diff(sentences) <= 0) + 1
        for part in np.split(np.arange(len(sentences)), again):
            docs = [self.docs[sentences[x]] for x in part]
            for doc, x in zip(docs, part.tolist(), strict=True):
                wanted = [Span(doc, start, end, label) for label, start, end in spans[x]]
                doc.spans[CONSTITUENT_CONSTRAINTS] = wanted
            readings += self.parser.predict(docs)
        return readings

    def f1(self, readings: Sequence[Reading]) -> float:
        trees = [
            Tree.from_spans(
                tree.words(),
                [tag for _, tag in reading.tags],
                [("TOP", 0, len(tree.words())), *brackets_of(reading)],
            )
            for tree, reading in zip(self.gold, readings, strict=True)
        ]
        return score_trees(self.gold, trees).f1


def brackets_of(reading: Reading) -> list[Bracket]:
    return [bracket[:3] for bracket in reading.brackets]


def is_unmet(reading: Reading) -> bool:
    return any(label == UNMET for label, _, _ in reading.failures)


def measure(setup: Setup, number: int, runs: int) -> dict[str, Any]:
    """Return all figures."""
    every = list(range(len(setup.gold)))
    free = setup.parse(every, [[] for _ in every])
    own = [brackets_of(reading) for reading in free]
    # The bracket of the root is none.
    gold = [tree.spans()[1:] for tree in setup.gold]
    drawn = draw(number, gold, own, [len(doc) for doc in setup.docs])
    numbers, spans = [one.sentence for one in drawn], [one.spans for one in drawn]
    readings = setup.parse(numbers, spans)
    figures: dict[str, Any] = {"constraints.n": sum(map(len, spans))}
    figures["constraints.sentences"] = len(drawn)
    pairs = list(zip(drawn, readings, strict=True))
    met = [(one.spans, brackets_of(reading)) for one, reading in pairs if not is_unmet(reading)]
    figures["constraints.violations"] = sum(violations(found, spans) for spans, found in met)
    for source in SOURCES:
        figures[f"constraints.impossible.{source}"] = sum(
            is_unmet(reading) for one, reading in pairs if one.source == source
        )
    times: dict[str, list[float]] = {"constrained": [], "free": []}
    for run in range(runs):
        for name in sorted(times, reverse=bool(run % 2)):
            began = process_time()
            setup.parse(numbers, spans if name == "constrained" else [[] for _ in spans])
            times[name].append(1000 * (process_time() - began) / len(drawn))
    for name, values in times.items():
        figures[f"constraints.ms_per_sentence.{name}"] = float(np.median(values))
    rng = np.random.default_rng(1)
    missed = [[b for b in g if b not in o] for g, o in zip(gold, own, strict=True)]
    orders = [rng.permutation(len(brackets)).tolist() for brackets in missed]
    for k in GIVEN:
        given = [[m[x] for x in order[:k]] for m, order in zip(missed, orders, strict=True)]
        figures[f"constraints.f1.{k}"] = setup.f1(setup.parse(every, given))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpora", type=Path, default=CORPORA, help="default: %(default)s")
    parser.add_argument("--runs", type=int, default=5, help="number of alternating runs")
    parser.add_argument("--limit", type=int, help="number of sentences of a trial")
    args = parser.parse_args()
    if args.limit is None:
        clean_commit()
    number = NUMBER if args.limit is None else 5 * args.limit
    figures = measure(Setup(args.limit, args.corpora), number, args.runs)
    show(figures)
    if args.limit is None:
        record(RESULTS, figures)


if __name__ == "__main__":
    main()
