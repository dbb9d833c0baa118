"""Learn word classes from the raw text of the fetched corpora.

    python corpora/fetch.py ewt craft
    python -m training.pipeline.classes classes.bin --classes 400

Only the words of training parts are read, without tags, trees or chunks. A word is
represented by its LOWER, or else its SHAPE, if it is rare. Classes learned from conll2000 or
wsj_sample are for experiments: the licences do not allow shipping them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import process_time

import numpy as np

from spacy_structlearn.pipeline.readers import read_conll_columns
from spacy_structlearn.pipeline.tokens import form_ids
from spacy_structlearn.trees.brackets import read_trees, unescape
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.words.classes import FORMS, WordClasses, learn
from training.common.recording import CORPORA

FILES = {
    "conll2000": "conll2000/train.txt.gz",
    "craft": "craft/train.trees.gz",
    "ewt": "ewt/train.trees.gz",
    "wsj_sample": "wsj_sample/trees.mrg.gz",
}
MAY_BE_SHIPPED = ("craft", "ewt")


def sentences(path: Path) -> Iterator[list[str]]:
    """Yield the words of each sentence of a treebank or a file of CoNLL-2000."""
    if path.name.endswith(".txt.gz"):
        for rows in read_conll_columns(path):
            yield [row[0] for row in rows]
        return
    for tree in read_trees(path):
        normal = normalize(tree)
        if normal is not None:
            yield [unescape(word) for word in normal.words()]


def train_classes(texts: Iterable[list[str]], n_classes: int, min_count: int) -> WordClasses:
    """Train classes of the words of sentences. Each type is hashed once."""
    types: dict[str, int] = {}
    offsets, numbers = [0], []
    for text in texts:
        numbers += [types.setdefault(word, len(types)) for word in text]
        offsets.append(len(numbers))
    ids = form_ids(types)[numbers]
    return learn(ids, np.array(offsets), n_classes, forms=FORMS, min_count=min_count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--corpora", type=Path, default=CORPORA, help="default: %(default)s")
    parser.add_argument("--texts", nargs="+", choices=FILES, default=MAY_BE_SHIPPED)
    parser.add_argument("--classes", type=int, default=400, help="default: %(default)s")
    parser.add_argument("--min-count", type=int, default=2, help="default: %(default)s")
    args = parser.parse_args()
    start = process_time()
    texts = (text for name in args.texts for text in sentences(args.corpora / FILES[name]))
    classes = train_classes(texts, args.classes, args.min_count)
    args.output.write_bytes(classes.to_bytes())
    print(f"{classes!r} in {process_time() - start:.0f} CPU s: {args.output}")


if __name__ == "__main__":
    main()
