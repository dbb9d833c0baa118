"""One measurement of the installed version of the package, as a JSON line; `house` compares two.

    python training/benchmarks/paired.py output|load|pipeline|parser|train

It imports nothing else of this repository, so that an earlier version can run it. Data are the
dev part of the English Web Treebank, if it was built, and the sample otherwise.

output: a digest of the Docs that the built-in pipeline makes of the text and of the gold tokens
load: seconds until the built-in pipeline is loaded
pipeline: words per CPU second of the built-in pipeline, on the text
parser: words per CPU second of the parser, on gold tokens with predicted tags
train: CPU seconds of training a chunker and a parser on 500 sentences
"""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
from hashlib import blake2b
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CORPORA = Path(os.environ.get("STRUCTLEARN_CORPORA", ROOT / "corpora" / "data"))
LEAF = re.compile(r"\([^\s()]+ ([^\s()]+)\)")
ROUNDS = 3
TRAINED = {"np_chunker": "CRF", "constituency_parser": "SpanGrammar"}


def treebank() -> list[str]:
    """Return the trees, one a line."""
    path = CORPORA / "ewt" / "dev.trees.gz"
    if path.exists():
        return gzip.decompress(path.read_bytes()).decode("utf8").splitlines()
    return (ROOT / "corpora" / "sample" / "sample.trees").read_text(encoding="utf8").splitlines()


def sentences() -> list[list[str]]:
    """Return the words of the trees."""
    escaped = [LEAF.findall(line) for line in treebank()]
    return [[w.replace("-LRB-", "(").replace("-RRB-", ")") for w in words] for words in escaped]


def texts() -> list[str]:
    """Return texts of ten sentences, their words separated by single spaces."""
    lines = [" ".join(words) for words in sentences()]
    return [" ".join(lines[i : i + 10]) for i in range(0, len(lines), 10)]


def tokenized(nlp: Any) -> list[Any]:
    """Return a Doc of each sentence."""
    from spacy.tokens import Doc

    return [
        Doc(nlp.vocab, words=words, sent_starts=[i == 0 for i in range(len(words))])
        for words in sentences()
    ]


def output() -> str:
    from spacy.tokens import DocBin

    import spacy_structlearn

    nlp = spacy_structlearn.load()
    docs = [*nlp.pipe(texts()), *nlp.pipe(tokenized(nlp))]
    return blake2b(DocBin(docs=docs, store_user_data=True).to_bytes(), digest_size=16).hexdigest()


def load() -> float:
    import spacy  # noqa: F401

    began = perf_counter()
    import spacy_structlearn

    spacy_structlearn.load()
    return perf_counter() - began


def pipeline() -> float:
    import spacy_structlearn

    nlp = spacy_structlearn.load()
    return _words_per_second(lambda: list(nlp.pipe(texts())))


def parser() -> float:
    import spacy_structlearn

    nlp = spacy_structlearn.load(enable=["chain_tagger", "constituency_parser"])
    tagged = list(nlp.get_pipe("chain_tagger").pipe(tokenized(nlp)))
    component = nlp.get_pipe("constituency_parser")
    return _words_per_second(lambda: list(component.pipe(tagged)))


def _words_per_second(work: Any) -> float:
    work()  # fills caches
    seconds = []
    for _ in range(ROUNDS):
        began = process_time()
        work()
        seconds.append(process_time() - began)
    return sum(map(len, sentences())) / min(seconds)


def train() -> float:
    import spacy
    from spacy.util import registry

    path = Path(sys.argv[2], "trees")
    path.write_text("\n".join(treebank()[:500]), encoding="utf8")
    seconds = 0.0
    for component, learner in TRAINED.items():
        nlp = spacy.blank("en")
        # An earlier commit has the version 2 of its architectures.
        versions = [f"spacy_structlearn.{learner}.v{version}" for version in (2, 1)]
        name = next(name for name in versions if registry.has("architectures", name))
        pipe = nlp.add_pipe(component, config={"model": {"@architectures": name}})
        reader = registry.readers.get("spacy_structlearn.Treebank.v1")
        examples = list(reader(path)(nlp))
        began = process_time()
        pipe.initialize(lambda examples=examples: examples)
        pipe.fit(examples)
        seconds += process_time() - began
    return seconds


if __name__ == "__main__":
    measure = {f.__name__: f for f in (output, load, pipeline, parser, train)}[sys.argv[1]]
    print(json.dumps(measure()))
