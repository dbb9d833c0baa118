"""Compare the quadruples that our rules extract from trees with the original ones.

Ratnaparkhi, Reynar & Roukos (1994) used an early release of the Penn Treebank, which differs in
some brackets and lacks some sentences. The sample contains files 0001-0199, with which the training
items begin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from spacy_structlearn.attachment.sites import quadruple, sites
from spacy_structlearn.pipeline.readers import read_pp_quadruples
from spacy_structlearn.trees.brackets import read_trees
from spacy_structlearn.trees.tree import Tree

# Number of items from files 0001-0199. The last tree of the sample is sentence 3843 of the items,
# which count fewer sentences than the sample (3,844 instead of 3,914).
N_ITEMS = 2001
# A larger range, for comparison with earlier figures: 32 of these items come from files after 0199,
# so no rules can find them.
N_ITEMS_LOOSE = 2033

Labelled = tuple[str, str, str, str, str]


def extracted(trees: Iterable[Tree]) -> list[Labelled]:
    """Extract the labelled quadruples of trees, with unchanged words."""
    found = []
    for tree in trees:
        words = tree.words()
        found += [(*quadruple(site, words), site.label) for site in sites(tree)]
    return found


def agreement(found: Iterable[Labelled], items: Iterable[Labelled]) -> dict[str, float]:
    """Compare two multisets of quadruples.

    Returns the sizes of both, the number of equal items with and without labels, and recall and
    precision (with labels) in percent.
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


def quadruple_recall(corpora: Path) -> dict[str, float]:
    """Return the `agreement` of `sites` with the items of files 0001-0199 in their trees.

    The result also contains recall_loose, the recall on the first 2,033 items.
    corpora: folder of wsj_sample and ppattach.
    """
    found = extracted(read_trees(corpora / "wsj_sample" / "trees.mrg.gz"))
    read = islice(read_pp_quadruples(corpora / "ppattach" / "training"), N_ITEMS_LOOSE)
    items = [(*words, label) for words, label in read]
    figures = agreement(found, items[:N_ITEMS])
    loose = agreement(found, items)
    return figures | {"recall_loose": loose["recall"]}
