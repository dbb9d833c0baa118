"""The chunker compared with python-crfsuite and spaCy's ner on CoNLL-2000, in one run.

    pip install python-crfsuite
    python corpora/fetch.py conll2000
    python -m training.benchmarks.chunker

Each measurement runs in its own process. Our runs and those of the peer alternate, so that changes
in the speed of the machine affect both. CPU seconds are of the whole process while it trains or
tags, with one thread. Medians and ratios are recorded in training/results/chunking.json. Both
systems have the same predicates (Sha & Pereira 2003, a padding symbol for each distance, a bias),
the first 7,936 sentences and the same objective. ner is the usual choice in spaCy: a small tok2vec
of words, without tags.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from spacy_structlearn.sequence.estimators.training import initialize
from spacy_structlearn.sequence.estimators.training import trainer as trainer_of
from training.common.conll2000 import (
    L2,
    N_TRAIN,
    Sentence,
    attributes,
    ours_data,
    ours_settings,
    read,
)
from training.common.process import measured
from training.common.recording import CORPORA, peak_mb, record, show


# --- ours -----------------------------------------------------------------------------------------
def ours_train(corpora: Path) -> dict[str, float]:
    data = [ours_data(read(corpora / "conll2000" / "train.txt.gz", N_TRAIN))]
    settings = ours_settings()
    start = process_time()
    trainer = trainer_of(settings, initialize(settings, data, ["NP"]), data)
    while trainer.step():
        pass
    seconds = process_time() - start
    return {
        "cpu_s": seconds,
        "iterations": trainer.n_iterations,
        "loss": trainer.value,
        "peak_mb": peak_mb(),
    }


def ours_gradient(corpora: Path) -> dict[str, float]:
    """Return milliseconds of one value and gradient, with one thread and with two."""
    from spacy_structlearn.sequence.estimators.crf import ChainLikelihood
    from spacy_structlearn.sequence.layout.data import concatenate

    data = [ours_data(read(corpora / "conll2000" / "train.txt.gz", N_TRAIN))]
    model = initialize(ours_settings(), data, ["NP"])
    arrays = concatenate(data, model.labels)
    objectives = [ChainLikelihood(model, *arrays, l2=L2, threads=n) for n in (1, 2)]
    theta = np.random.default_rng(0).normal(0, 0.1, objectives[0].n_parameters)
    wall: list[list[float]] = [[], []]
    for _ in range(15):
        for times, objective in zip(wall, objectives, strict=True):
            start = perf_counter()
            objective.value_and_grad(theta)
            times.append(1000 * (perf_counter() - start))
    one, two = (float(np.median(times[2:])) for times in wall)
    return {"gradient_ms": one, "gradient_ms_2_threads": two, "ratio.threads_2_over_1": one / two}


def ours_tagging(corpora: Path) -> dict[str, float]:
    """Return tokens per CPU second of the component, from Docs with tags to span groups."""
    import spacy
    from spacy.tokens import Doc

    train = read(corpora / "conll2000" / "train.txt.gz", N_TRAIN)
    test = read(corpora / "conll2000" / "test.txt.gz")
    nlp = spacy.blank("en")
    chunker = nlp.add_pipe("np_chunker")
    chunker.add_label("NP")
    data = [ours_data(train)]
    settings = ours_settings()
    symbols = [spacy_symbols(train, nlp, data[0])]
    trainer = trainer_of(settings, initialize(settings, symbols, ["NP"]), symbols)
    for _ in range(60):
        trainer.step()
    chunker.parameters = trainer.parameters()
    docs = [
        Doc(
            nlp.vocab,
            words=[word for word, _, _ in rows],
            tags=[tag for _, tag, _ in rows],
            sent_starts=[i == 0 for i in range(len(rows))],
        )
        for rows in test
    ]

    def run() -> None:
        for start in range(0, len(docs), 256):
            batch = docs[start : start + 256]
            chunker.set_annotations(batch, chunker.predict(batch))

    return {"tokens_per_cpu_s": tokens_per_second(run, test)}


def spacy_symbols(sentences: list[Sentence], nlp, data):
    """Return the same data with spaCy's ids, as the component reads them from Docs."""
    add = nlp.vocab.strings.add
    pairs = [(add(word), add(tag)) for rows in sentences for word, tag, _ in rows]
    return data._replace(columns=np.array(pairs, dtype=np.uint64))


# --- CRFsuite -------------------------------------------------------------------------------------
def crfsuite_trainer(corpora: Path, *, streaming: bool = False):
    """Return a trainer with the data. As in CRFsuite's example, all features are computed first."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    sentences = read(corpora / "conll2000" / "train.txt.gz", N_TRAIN)
    features = map(attributes, sentences)
    for x, rows in zip(features if streaming else list(features), sentences, strict=True):
        trainer.append(x, [iob for _, _, iob in rows])
    return trainer


def crfsuite_streaming(corpora: Path) -> dict[str, float]:
    """Return the minimum memory of the trainer: features of a sentence are deleted after use."""
    return crfsuite_train(corpora, streaming=True)


def crfsuite_train(corpora: Path, *, streaming: bool = False) -> dict[str, float]:
    trainer = crfsuite_trainer(corpora, streaming=streaming)
    trainer.set_params({"c1": 0.0, "c2": L2 / 2, "max_iterations": 500})
    with tempfile.TemporaryDirectory() as folder:
        start = process_time()
        trainer.train(str(Path(folder) / "model"))
        seconds = process_time() - start
    last = trainer.logparser.last_iteration
    return {
        "cpu_s": seconds,
        "iterations": last["num"],
        "loss": last["loss"],
        "peak_mb": peak_mb(),
    }


def crfsuite_tagging(corpora: Path) -> dict[str, float]:
    """Return tokens per CPU second from Python strings to labels, as for its users."""
    import pycrfsuite

    trainer = crfsuite_trainer(corpora)
    trainer.set_params({"c1": 0.0, "c2": L2 / 2, "max_iterations": 60})
    test = read(corpora / "conll2000" / "test.txt.gz")
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "model")
        trainer.train(model)
        tagger = pycrfsuite.Tagger()
        tagger.open(model)
        return {
            "tokens_per_cpu_s": tokens_per_second(
                lambda: [tagger.tag(attributes(rows)) for rows in test], test
            )
        }


def tokens_per_second(run: Callable[[], object], test: list[Sentence]) -> float:
    run()
    seconds = []
    for _ in range(5):
        start = process_time()
        run()
        seconds.append(process_time() - start)
    return sum(map(len, test)) / float(np.median(seconds))


# --- spaCy's ner ----------------------------------------------------------------------------------
def ner(corpora: Path, epochs: int = 4) -> dict[str, float]:
    """Return figures of spaCy's tok2vec and ner on words, with the defaults of `init config`."""
    import spacy
    from spacy.tokens import Doc, Span
    from spacy.training import Example
    from spacy.util import fix_random_seed, minibatch

    from spacy_structlearn.evaluation.conlleval import chunks

    fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("ner")

    def examples(path: Path, stop: int | None) -> Iterator[Example]:
        for rows in read(path, stop):
            words = [word for word, _, _ in rows]
            gold = Doc(nlp.vocab, words=words)
            spans = chunks([iob for _, _, iob in rows])
            gold.ents = [Span(gold, start, end, label=label) for label, start, end in spans]
            yield Example(Doc(nlp.vocab, words=words), gold)

    train = list(examples(corpora / "conll2000" / "train.txt.gz", N_TRAIN))
    test = list(examples(corpora / "conll2000" / "test.txt.gz", None))
    start = process_time()
    sgd = nlp.initialize(lambda: train)
    shuffle = random.Random(0).shuffle
    for _ in range(epochs):
        shuffle(train)
        for batch in minibatch(train, 64):
            nlp.update(batch, sgd=sgd, drop=0.1)
    seconds = process_time() - start
    docs = [example.predicted for example in test]
    begin = process_time()
    for _ in nlp.pipe(docs):
        pass
    tagging = sum(map(len, docs)) / (process_time() - begin)
    f1 = 100 * nlp.evaluate(test)["ents_f"]
    return {
        "test_f1": f1,
        "train_cpu_s": seconds,
        "tokens_per_cpu_s": tagging,
        "peak_mb": peak_mb(),
    }


# --- the run --------------------------------------------------------------------------------------
WORKERS = {
    function.__name__: function
    for function in (
        ours_train,
        ours_gradient,
        ours_tagging,
        crfsuite_train,
        crfsuite_streaming,
        crfsuite_tagging,
        ner,
    )
}


def measure(worker: str, corpora: Path) -> dict[str, float]:
    """Run one worker in its own process."""
    figures = measured(__spec__.name, "--worker", worker, "--corpora", corpora)
    print(worker, {name: round(value, 3) for name, value in figures.items()}, flush=True)
    return figures


def alternating(ours: str, peer: str, corpora: Path, runs: int) -> tuple[dict, dict]:
    """Return the medians of both in alternating runs."""
    pairs = [(measure(ours, corpora), measure(peer, corpora)) for _ in range(runs)]
    medians = [
        {name: float(np.median([run[name] for run in side])) for name in side[0]}
        for side in zip(*pairs, strict=True)
    ]
    return medians[0], medians[1]


# --- parts ----------------------------------------------------------------------------------------
def train(corpora: Path, runs: int) -> dict[str, float]:
    """Compare time and memory of training with CRFsuite."""
    ours, peer = alternating("ours_train", "crfsuite_train", corpora, runs)
    streaming = measure("crfsuite_streaming", corpora)
    return {
        **{f"benchmark.ours.{name}": value for name, value in ours.items()},
        **{f"benchmark.crfsuite.{name}": value for name, value in peer.items()},
        "benchmark.crfsuite.streaming_peak_mb": streaming["peak_mb"],
        "ratio.cpu_per_iteration.crfsuite_over_ours": (peer["cpu_s"] / peer["iterations"])
        / (ours["cpu_s"] / ours["iterations"]),
        "ratio.train_cpu.crfsuite_over_ours": peer["cpu_s"] / ours["cpu_s"],
        "ratio.peak_rss.crfsuite_over_ours": peer["peak_mb"] / ours["peak_mb"],
    }


def gradient(corpora: Path, runs: int) -> dict[str, float]:
    """Measure the wall time of a gradient. Nothing else must run on the machine."""
    gradients = [measure("ours_gradient", corpora) for _ in range(runs)]
    return {name: float(np.median([run[name] for run in gradients])) for name in gradients[0]}


def tagging(corpora: Path, runs: int) -> dict[str, float]:
    """Compare the speed of prediction with CRFsuite."""
    ours, peer = alternating("ours_tagging", "crfsuite_tagging", corpora, runs)
    return {
        "tagging.tokens_per_cpu_s": ours["tokens_per_cpu_s"],
        "benchmark.crfsuite.tagging_tokens_per_cpu_s": peer["tokens_per_cpu_s"],
        "ratio.tagging.ours_over_crfsuite": ours["tokens_per_cpu_s"] / peer["tokens_per_cpu_s"],
    }


def spacy_ner(corpora: Path, runs: int) -> dict[str, float]:
    """Train spaCy's entity recognizer, once."""
    return {f"benchmark.ner.{name}": value for name, value in measure("ner", corpora).items()}


PARTS = {"train": train, "gradient": gradient, "tagging": tagging, "ner": spacy_ner}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpora", type=Path, default=CORPORA)
    parser.add_argument("--runs", type=int, default=3, help="number of alternating runs")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--worker", choices=WORKERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(WORKERS[args.worker](args.corpora)))
        return
    for part in args.only:
        figures = PARTS[part](args.corpora, args.runs)
        record("chunking", figures)
        show(figures)


if __name__ == "__main__":
    main()
