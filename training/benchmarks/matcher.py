"""The speed of ConstituentMatcher, and its agreement with an exhaustive search.

    python corpora/fetch.py ewt
    python -m training.benchmarks.matcher
    python -m training.benchmarks.matcher --trial

Three patterns are searched together in the gold trees of train and dev of EWT, which are searched
several times, to have 100,000 trees. Times are CPU seconds of one thread. Figures are recorded in
training/results/languages.json (--trial only prints them):

matcher.trees             number of trees that are searched
matcher.trees_per_cpu_s   in DocBins, including the time to read the files
matcher.docs.trees_per_cpu_s   in Docs in memory, one Doc at a time
matcher.docs_together.trees_per_cpu_s   in Docs in memory, many at a time
matcher.count.trees_per_cpu_s  in DocBins, if matches are only counted
matcher.matches.PATTERN   number of matches in train and dev
matcher.random_trees      number of random trees that are searched for random patterns
matcher.differences       in how many of these the exhaustive search (`training.common.tree_search`)
                          finds something else
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from random import Random
from time import process_time

from spacy.lang.en import English
from spacy.tokens import Doc, DocBin

from spacy_structlearn import ConstituentMatcher
from spacy_structlearn.pipeline import extensions
from training.common.ewt import build_docs
from training.common.recording import CORPORA, WORK, clean_commit, record, show
from training.common.tree_search import found_in, random_doc, random_pattern

PATTERNS = {
    "of_phrase": "NP < (NP $+ (PP <<, of))",
    "passive": "VP < (/^VB/ < /^(am|is|are|was|were|be|been|being)$/) < (VP <# VBN)",
    "relative_clause": "NP <, NP=head < (SBAR <, /^WH/)",
}
TREES = 100_000
RANDOM_TREES = 3000


def speed() -> dict[str, float]:
    """Return the speed of the search, and the number of matches."""
    nlp = English()
    matcher = ConstituentMatcher(nlp.vocab)
    for name, pattern in PATTERNS.items():
        matcher.add(name, [pattern])
    built = build_docs(CORPORA, WORK)
    paths = [built[name] for name in ("train", "dev")]
    docs = [doc for path in paths for doc in DocBin().from_disk(path).get_docs(nlp.vocab)]
    trees = sum(len(list(doc.sents)) for doc in docs)
    copies = -(-TREES // trees)
    matches = dict.fromkeys(PATTERNS, 0)
    for doc in docs:
        for key, _ in matcher(doc):
            matches[nlp.vocab.strings[key]] += 1

    def stored() -> Iterable[DocBin]:
        return (DocBin().from_disk(path) for path in paths)

    def found(some: DocBin | Iterable[Doc]) -> int:
        return sum(1 for _ in matcher.search(some))

    ways: dict[str, Callable[[], int]] = {
        "matcher.trees_per_cpu_s": lambda: sum(map(found, stored())),
        "matcher.count.trees_per_cpu_s": lambda: sum(
            sum(matcher.count(some).values()) for some in stored()
        ),
        "matcher.docs.trees_per_cpu_s": lambda: sum(len(matcher(doc)) for doc in docs),
        "matcher.docs_together.trees_per_cpu_s": lambda: found(docs),
    }
    figures = {
        "matcher.trees": trees * copies,
        **{f"matcher.matches.{name}": number for name, number in matches.items()},
    }
    for name, way in ways.items():
        seconds = process_time()
        numbers = {way() for _ in range(copies)}
        figures[name] = trees * copies / (process_time() - seconds)
        if numbers != {sum(matches.values())}:
            raise SystemExit(f"{name}: found {numbers} matches, not {sum(matches.values())}")
    return figures


def agreement(number: int = RANDOM_TREES, seed: int = 0) -> dict[str, int]:
    """Return in how many random trees the matcher and the exhaustive search differ."""
    extensions.register()
    random, vocab, differences = Random(seed), English().vocab, 0
    for _ in range(number):
        doc, pattern = random_doc(random, vocab, 1, most=8), random_pattern(random, 4)
        matcher = ConstituentMatcher(vocab)
        matcher.add("pattern", [pattern])
        found = [[(s.label_, s.start, s.end) for s in spans] for _, spans in matcher(doc)]
        stored = [nodes for _, _, nodes in matcher.search(DocBin(docs=[doc]))]
        differences += not found_in(doc, pattern) == found == stored
    return {"matcher.random_trees": number, "matcher.differences": differences}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trial", action="store_true", help="do not record the figures")
    args = parser.parse_args()
    if not args.trial:
        clean_commit()
    figures = {**speed(), **agreement()}
    show(figures)
    if not args.trial:
        record("languages", figures)


if __name__ == "__main__":
    main()
