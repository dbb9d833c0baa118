"""Learn word classes from the raw text of the fetched corpora.

    python corpora/fetch.py ewt craft raw_text
    python -m training.pipeline.classes classes.bin --classes 1000

Only the words of training parts are read, without tags, trees or chunks. A word is represented by
its LOWER, or else its SHAPE, if it is rare. On EWT's dev, the first pipeline with classes and
self-training tags 81.9 % of unknown words right and attaches 83.6 % of the phrases; the last one of
treebanks alone had 79.5 % and 80.4 %. Classes learned from conll2000 or wsj_sample are for
experiments: the licences do not allow shipping them.
"""

from __future__ import annotations

import gzip
import json
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import process_time

import numpy as np
from spacy.lang.en import English
from tqdm import tqdm

from spacy_structlearn.pipeline.doc_arrays import form_ids
from spacy_structlearn.pipeline.readers import read_conll_columns
from spacy_structlearn.pipeline.readers.tokenizers import make_english_tokenizer
from spacy_structlearn.trees.brackets import read_trees, unescape
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.words.classes import FORMS, WordClasses, learn
from spacy_structlearn.writing import write_bytes
from training.common.command import options

FILES = {
    "conll2000": "conll2000/train.txt.gz",
    "craft": "craft/train.trees.gz",
    "ewt": "ewt/train.trees.gz",
    "raw_text": "raw_text",
    "wsj_sample": "wsj_sample/trees.mrg.gz",
}
MAY_BE_SHIPPED = ("craft", "ewt", "raw_text")
N_CLASSES = 1000
MIN_COUNT = 5  # of a word that gets a class
ENDS = frozenset(".!?")  # tokens at the ends of the sentences of raw text


def sentences(path: Path) -> Iterator[list[str]]:
    """Yield the words of each sentence of a treebank, a file of CoNLL-2000, or raw text, a folder.

    In raw text they end at a final mark; no sentence splitter is needed.
    """
    if path.is_dir():
        yield from _of_raw_text(path)
        return
    if path.name.endswith(".txt.gz"):
        for rows in read_conll_columns(path):
            yield [row[0] for row in rows]
        return
    for tree in read_trees(path):
        normal = normalize(tree)
        if normal is not None:
            yield [unescape(word) for word in normal.words()]


def _of_raw_text(folder: Path) -> Iterator[list[str]]:
    tokenizer = make_english_tokenizer(English())
    for path in tqdm(sorted(folder.glob("*.jsonl.gz")), desc="reading raw text"):
        with gzip.open(path, "rt", encoding="utf8") as lines:
            texts = [text for line in lines for text in json.loads(line)["text"].split("\n\n")]
        for text in texts:
            words: list[str] = []
            for token in tokenizer(text):
                words.append(token.text)
                if token.text in ENDS:
                    yield words
                    words = []
            if words:
                yield words


def train_classes(
    texts: Iterable[list[str]], n_classes: int = N_CLASSES, min_count: int = MIN_COUNT
) -> WordClasses:
    """Train classes of the words of sentences. Each type is hashed once."""
    types: dict[str, int] = {}
    offsets, numbers = array("q", [0]), array("i")
    for text in texts:
        numbers.extend(types.setdefault(word, len(types)) for word in text)
        offsets.append(len(numbers))
    ids, bounds = form_ids(types)[np.asarray(numbers)], np.asarray(offsets)
    return learn(ids, bounds, n_classes, forms=FORMS, min_count=min_count)


def learn_classes(corpora: Path, work: Path) -> Path:
    """Write the word classes of the default pipeline, learned from text that may be shipped."""
    target = work / "classes.bin"
    if not target.exists():
        texts = (text for name in MAY_BE_SHIPPED for text in sentences(corpora / FILES[name]))
        work.mkdir(parents=True, exist_ok=True)
        write_bytes(target, train_classes(texts).to_bytes())
    return target


def main() -> None:
    parser = options(__doc__, "corpora")
    parser.add_argument("output", type=Path)
    parser.add_argument("--texts", nargs="+", choices=FILES, default=MAY_BE_SHIPPED)
    parser.add_argument("--classes", type=int, default=N_CLASSES, help="default: %(default)s")
    parser.add_argument("--min-count", type=int, default=MIN_COUNT, help="default: %(default)s")
    args = parser.parse_args()
    start = process_time()
    texts = (text for name in args.texts for text in sentences(args.corpora / FILES[name]))
    classes = train_classes(texts, args.classes, args.min_count)
    args.output.write_bytes(classes.to_bytes())
    print(f"{classes!r} in {process_time() - start:.0f} CPU s: {args.output}")


if __name__ == "__main__":
    main()
