"""The quadruples that our rules take from trees, against those that were taken from the same text.

    python corpora/fetch.py wsj_sample ppattach
    python -m training.papers.toutanova2006.quadruples

Ratnaparkhi, Reynar & Roukos (1994) took theirs from an early release of the Penn Treebank, with
other bracketing in places and without some of the sentences. The sample holds files 0001-0199, with
which the training items begin. Prints recall and precision; papers/toutanova2006 records them.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from spacy_structlearn.attachment.sites import quadruple, sites
from spacy_structlearn.pipeline.readers import read_pp_quadruples
from spacy_structlearn.trees.brackets import load_trees
from spacy_structlearn.trees.tree import Tree
from training.common.recording import CORPORA

# So many items come from files 0001-0199: the last tree of the sample is the one of sentence 3843,
# the items counting fewer sentences than the sample has, 3,844 instead of 3,914.
N_ITEMS = 2001
# A looser end of the range, for comparison with figures that were counted on it: 32 of these items
# come from file 0200 and later, where no rules can find them.
N_ITEMS_LOOSE = 2033

Labelled = tuple[str, str, str, str, str]


def extracted(trees: Iterable[Tree], *, every: bool = False) -> list[Labelled]:
    """The labelled quadruples of trees, words as they stand there."""
    found = []
    for tree in trees:
        words = tree.words()
        found += [(*quadruple(site, words), site.label) for site in sites(tree, every=every)]
    return found


def agreement(found: Iterable[Labelled], items: Iterable[Labelled]) -> dict[str, float]:
    """Compare two multisets: an item that is there twice must be found twice.

    Returns the number of either, of those that are the same, label included, and of those that are
    the same but for the label; recall and precision (labels included) in percent.
    """
    ours, theirs = Counter(found), Counter(items)
    same = (ours & theirs).total()
    words = (_unlabelled(ours) & _unlabelled(theirs)).total()
    return {
        "extracted": ours.total(),
        "items": theirs.total(),
        "same": same,
        "same_words": words,
        "recall": 100 * same / theirs.total(),
        "precision": 100 * same / ours.total(),
    }


def _unlabelled(counts: Counter) -> Counter:
    words: Counter = Counter()
    for item, count in counts.items():
        words[item[:4]] += count
    return words


def quadruple_recall(corpora: Path, *, every: bool = False) -> dict[str, float]:
    """What `sites` finds of the items of files 0001-0199 in the trees of these files.

    corpora: the folder that holds wsj_sample and ppattach. Returns `agreement`, and recall_loose
    with the range cut at the first 2,033 items. every: all prepositional phrases at an object and
    its verb, not only the first of either kind.
    """
    found = extracted(load_trees(corpora / "wsj_sample" / "trees.mrg.gz"), every=every)
    read = islice(read_pp_quadruples(corpora / "ppattach" / "training"), N_ITEMS_LOOSE)
    items = [(*words, label) for words, label in read]
    figures = agreement(found, items[:N_ITEMS])
    loose = agreement(found, items)
    return figures | {"recall_loose": loose["recall"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", type=Path, default=CORPORA)
    corpora = parser.parse_args().corpora
    for every in (False, True):
        figures = quadruple_recall(corpora, every=every)
        rounded = {name: round(value, 2) for name, value in figures.items()}
        print("all" if every else "first of either kind", json.dumps(rounded))


if __name__ == "__main__":
    main()
