"""Chunking figures: CoNLL-2000 with the first-order CRF, EWT with the default pipeline.

    python corpora/fetch.py conll2000 ewt
    python -m training.beyond.chunking

Writes training/results/chunking.json. CoNLL-2000, as in Smith, Vail & Lafferty (2007) and in
comparisons with other packages: only NP chunks, the first 7,936 training sentences, the predicates
of Sha & Pereira (2003) and a bias, l2 = 1. EWT: the stages of pipeline/default.py, on gold tokens.
test_f1_se is the standard error by a bootstrap over sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from time import process_time

import numpy as np
import spacy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.training import Example
from spacy.util import load_config

from spacy_structlearn.groups import NP_CHUNKS
from spacy_structlearn.pipeline.readers import create_conll_chunks_reader, to_example
from spacy_structlearn.writing import write_bytes
from training.common.command import options, run_parts
from training.common.scoring import bootstrap_error, under
from training.pipeline import default
from training.pipeline.classes import FILES, sentences, train_classes

N_TRAIN = 7936
CRF2_L2 = 1.0
TYPES = ["ADJP", "ADVP", "CONJP", "INTJ", "LST", "NP", "PP", "PRT", "SBAR", "UCP", "VP"]


# --- CoNLL-2000 -----------------------------------------------------------------------------------
def conll(
    corpora: Path, architecture: str, n_train: int | None = N_TRAIN, types=("NP",), **settings
) -> dict[str, float]:
    """Train a chunker on the first sentences of train, and score it on test."""
    nlp = spacy.blank("en")
    model = {"@architectures": f"spacy_structlearn.{architecture}", **settings}
    chunker = nlp.add_pipe("np_chunker", config={"model": model})
    folder = corpora / "conll2000"
    types = list(types) or TYPES
    train, test = (
        list(islice(create_conll_chunks_reader(folder / f"{name}.txt.gz", types)(nlp), stop))
        for name, stop in (("train", n_train), ("test", None))
    )
    chunker.initialize(lambda: train)
    start = process_time()
    chunker.fit(train)
    figures = {"train_cpu_s": process_time() - start, "features": chunker.parameters.n_features}
    for example in test:
        chunker(example.predicted)
    scores = chunker.score(test)
    for name, key in (("f1", "f"), ("p", "p"), ("r", "r")):
        figures[f"test_{name}"] = 100 * scores[f"np_chunk_{key}"]
    return figures | {"test_f1_se": bootstrap_error(chunk_counts(test))}


def crf1(corpora: Path) -> dict[str, float]:
    """Return figures of a first-order CRF, trained close to the optimum."""
    return conll(corpora, "CRF.v1", tolerance=1e-7, max_iterations=1000)


def crf2(corpora: Path) -> dict[str, float]:
    """Return figures of a CRF with label pairs, on the first 7,936 sentences and on all. l2 is the
    same as for other packages."""
    part = conll(corpora, "CRF.v1", order=2, l2=CRF2_L2)
    full = conll(corpora, "CRF.v1", None, order=2, l2=CRF2_L2)
    return part | {f"full.{key}": value for key, value in full.items()}


def hmm(corpora: Path) -> dict[str, float]:
    """Return figures of a second-order HMM, with unsmoothed trigrams as in the paper."""
    return conll(corpora, "HMM.v1", smoothing=0.0)


def all_chunks(corpora: Path) -> dict[str, float]:
    """Return figures for all eleven chunk types, first order, on all of train."""
    return conll(corpora, "CRF.v1", None, types=())


def best(corpora: Path, work: Path) -> dict[str, float]:
    """Return figures of the settings of the default pipeline with l2 = 2, on all of train.

    The word classes are learned from all fetched corpora. Classes from CoNLL-2000 and the WSJ
    sample must not be shipped.
    """
    classes = work / "classes-all.bin"
    if not classes.exists():
        texts = (text for path in FILES.values() for text in sentences(corpora / path))
        classes.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(classes, train_classes(texts).to_bytes())
    config = load_config(default.CHUNKER_CONFIG, interpolate=True)
    settings = dict(config["components"]["np_chunker"]["model"])
    del settings["@architectures"]
    settings |= {"classes": str(classes), "l2": 2.0}
    full = conll(corpora, "CRF.v1", None, **settings)
    return {f"full.{key}": value for key, value in full.items()}


# --- EWT ------------------------------------------------------------------------------------------
def ewt(corpora: Path, work: Path, jobs: int) -> dict[str, float]:
    """Return F1 of the chunker on dev by the tags used in training and evaluation."""
    docs = default.build_docs(corpora, work)
    tagger = default.train_tagger(corpora, work)
    jackknifed = default.jackknifed(corpora, work, jobs)
    tagged = default.tagged(docs["dev"], tagger, work / "ewt" / "dev.tagged.spacy")
    classes = default.learn_classes(corpora, work)
    on_gold_tags = default.train_chunker(docs["train"], docs["dev"], classes)
    on_predicted_tags = default.train_chunker(jackknifed, tagged, classes)
    return {
        "dev_f1.gold_tags": chunk_f1(on_gold_tags, docs["dev"]),
        "dev_f1.predicted_tags": chunk_f1(on_predicted_tags, tagged),
        "dev_f1.no_jackknife": chunk_f1(on_gold_tags, tagged),
    }


def chunk_f1(nlp: Language, docs: Path) -> float:
    examples = [to_example(doc) for doc in default.read_docs(docs, nlp.vocab)]
    return 100 * nlp.evaluate(examples)["np_chunk_f"]


def chunk_counts(examples: Sequence[Example]) -> NDArray[np.int64]:
    """Return the numbers of right, gold and predicted chunks of each example, (n, 3)."""
    rows = []
    for example in examples:
        gold, predicted = (
            {(span.start, span.end, span.label) for span in doc.spans[NP_CHUNKS]}
            for doc in (example.reference, example.predicted)
        )
        rows.append((len(gold & predicted), len(gold), len(predicted)))
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


CONLL2000 = (crf1, crf2, hmm, all_chunks)


def main() -> None:
    names = [*(part.__name__ for part in CONLL2000), "best", "ewt"]
    args = options(__doc__, "corpora", "work", "jobs", only=names).parse_args()
    parts: dict[str, Callable[[], dict[str, float]]] = {
        part.__name__: partial(lambda part: under(part.__name__, part(args.corpora)), part)
        for part in CONLL2000
    }
    parts["best"] = lambda: under("best", best(args.corpora, args.work))
    parts["ewt"] = lambda: under("ewt", ewt(args.corpora, args.work, args.jobs))
    run_parts("chunking", parts, args.only)


if __name__ == "__main__":
    main()
