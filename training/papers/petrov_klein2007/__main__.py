"""Petrov & Klein (2007): generative and discriminative grammars with latent annotations.

    python corpora/fetch.py wsj_sample wsj_skeleton ewt craft
    pip install matplotlib
    python -m training.papers.petrov_klein2007 --jobs 2

Writes training/results/petrov_klein2007.json, .md, .svg and .png: tables 1 and 2 and figures 2 and
3, with those of the paper. Parts (discriminative.py), which --only selects: `tune`, the strengths
of priors on WSJ dev, which the other parts need; `l1` and `l2`, table 2; `table1`; `pruning`,
figure 2; `cost`; `merge`, figure 3; `best`, selected grammars; `uniform`, tables 1 and 2 with the
paper's parametrisation, on the WSJ sample; and `analysis`, section 4.4, of the grammars of
`uniform`. In the other parts, weights are corrections of generative ones, because the paper's
parametrisation takes much longer.

    python -m training.papers.petrov_klein2007 --generative

writes training/results/parsing_generative.json, with the generative grammars and the default
parser.

Sentences are parsed from gold tokens without tags, unless a key says raw. wsj_sample: files
0001-0159 for training, 0160-0179 as dev, 0180-0199 for the test, scored by EVALB with the original
COLLINS.prm. EWT: punctuation is identified by gold tags, so that no sentence is dropped. Settings
of the default parser are tuned on the documents of `ewt/tune.txt` by grammars of the rest of train.
The installed default pipeline, which is trained on more treebanks, parses dev. Grammars are kept in
training/work/grammars by their settings; interrupted training resumes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, islice
from pathlib import Path

import numpy as np
from tqdm import tqdm

from spacy_structlearn.evaluation.calibration import expected_calibration_error
from spacy_structlearn.evaluation.evalb import offset_brackets
from spacy_structlearn.evaluation.prf import score_spans
from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.latent.em import treebank_grammar
from spacy_structlearn.grammar.latent.model import LatentGrammar, product
from spacy_structlearn.grammar.treebank.data import binarize
from spacy_structlearn.learning.training import write_bytes
from spacy_structlearn.trees.parse import fit_temperature
from spacy_structlearn.trees.tree import Tree
from training.common import recording
from training.common.kept import (
    EWT,
    EWT_ROUNDS,
    LEXICON,
    ROUNDS,
    SEEDS,
    TABLE1,
    WSJ,
    ewt_grammar,
    grammar,
    train,
)
from training.common.process import measured
from training.common.recording import CORPORA, RESULTS, WORK, peak_mb, record, show
from training.common.scoring import (
    Figures,
    brackets_right,
    figures_and_error,
    parsed,
    score,
    scored,
    under,
)
from training.common.treebanks import TREES, craft_trees, ewt_trees, folded, unfolded, wsj_trees
from training.papers.petrov_klein2007 import discriminative, memory, report
from training.papers.petrov_klein2007.uniform import analysis, uniform

MADE_TOKENS = 5000


# --- WSJ sample -----------------------------------------------------------------------------------
def wsj(corpora: Path, work: Path) -> Iterator[dict[str, float]]:
    """Yield figures of each split-merge round, and seeds, decoders and a product for the best."""
    dev, test = wsj_trees(corpora, "dev"), wsj_trees(corpora, "test")
    first, _ = grammar(work, corpora, "wsj", "train", WSJ)
    rounds = {}
    for number in ROUNDS:
        parser = ChartParser(first.truncated(number + 1))
        on_dev, on_test = score(parser, dev), score(parser, test)
        rounds[number] = {
            **figures_and_error(on_dev, "dev"),
            **figures_and_error(on_test, "test"),
            "tag_accuracy": on_test.tag_accuracy,
        }
        yield under(f"split_merge.{number}", rounds[number])
    best = max(rounds, key=lambda number: rounds[number]["dev_f1"])
    yield under("best", {"round": best, **rounds[best]})
    for decoder in ("viterbi", "max_rule_sum", "variational"):
        parser = ChartParser(first.truncated(best + 1), decoder=decoder)
        yield under(decoder, figures_and_error(score(parser, test), "test"))
    grammars = [
        grammar(work, corpora, "wsj", "train", replace(WSJ, seed=seed))[0].truncated(best + 1)
        for seed in SEEDS
    ]
    of_seeds: dict[str, list[float]] = {}
    for one in grammars:
        parser = ChartParser(one)
        both = {
            **figures_and_error(score(parser, dev), "dev"),
            **figures_and_error(score(parser, test), "test"),
        }
        for key, value in both.items():
            of_seeds.setdefault(key, []).append(value)
    for key, values in of_seeds.items():
        yield {f"seeds.{key}.mean": float(np.mean(values)), f"seeds.{key}.sd": _sd(values)}
    parser = ChartParser(grammars)
    on_dev, on_test = score(parser, dev), score(parser, test)
    yield under(
        "product4", {**figures_and_error(on_dev, "dev"), **figures_and_error(on_test, "test")}
    )


def baselines(corpora: Path, work: Path) -> Iterator[dict[str, float]]:
    """Yield figures of the X-bar grammar and the plain treebank grammar, without substates."""
    dev, test = wsj_trees(corpora, "dev"), wsj_trees(corpora, "test")
    plain = treebank_grammar(binarize(wsj_trees(corpora, "train")), LEXICON)
    whole = treebank_grammar(
        binarize([unfolded(tree) for tree in wsj_trees(corpora, "train")]), LEXICON
    )
    for name, one, restore in (("xbar", plain, None), ("treebank", whole, folded)):
        for prefix, decoder in ((name, "max_rule_product"), (f"{name}.viterbi", "viterbi")):
            parser = ChartParser(one, decoder=decoder)
            for split, gold in (("dev", dev), ("test", test)):
                parses = parsed(parser, gold)
                if restore is not None:
                    parses = [restore(parse) for parse in parses]
                yield under(prefix, figures_and_error(scored(parses, gold, "own"), split))


# --- Table 1 --------------------------------------------------------------------------------------
def table1_wsj(corpora: Path, work: Path) -> Iterator[dict[str, float]]:
    yield from _table1(corpora, work, "wsj", "own")


def table1_ewt(corpora: Path, work: Path) -> Iterator[dict[str, float]]:
    yield from _table1(corpora, work, "ewt", "gold")


def _table1(corpora: Path, work: Path, corpus: str, punctuation: str) -> Iterator[dict[str, float]]:
    """Yield dev figures of 1 to 16 subcategories, without merging, with the simple lexicon."""
    dev = TREES[corpus](corpora, "dev")
    trained, _ = grammar(work, corpora, corpus, "train", TABLE1)
    for number in range(TABLE1.rounds + 1):
        # The best decoder of Petrov & Klein (2007b), which the paper cites.
        parser = ChartParser(trained.truncated(number + 1), decoder="max_rule_product")
        on_dev = score(parser, dev, punctuation)
        yield under(str(2**number), {"f1": on_dev.f1, "exact": on_dev.complete_match})


# --- cost -----------------------------------------------------------------------------------------
def training(corpora: Path, work: Path) -> Iterator[dict[str, float]]:
    """Yield CPU seconds and memory of four rounds on the WSJ sample, and the gain by threads."""
    runs = [measure("train", corpora) for _ in range(3)]
    yield {name: float(np.median([run[name] for run in runs])) for name in runs[0]}
    wall: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(3):
        for threads, seconds in wall.items():
            seconds.append(measure(f"train{threads}", corpora)["wall_s"])
    yield {"threads2_ratio": float(np.median(wall[1]) / np.median(wall[2]))}


def train_worker(corpora: Path, threads: int = 1) -> dict[str, float]:
    """Train four rounds. Return the CPU seconds of this process, including reading and imports."""
    trees = wsj_trees(corpora, "train")
    start = time.perf_counter()
    train(trees, replace(WSJ, rounds=4, threads=threads), "wsj")
    wall = time.perf_counter() - start
    return {"cpu_s": time.process_time(), "wall_s": wall, "peak_rss_mb": peak_mb()}


def speed(corpora: Path, work: Path) -> Iterator[dict[str, float]]:
    """Yield CPU times of parsing with the best WSJ grammar in its own process, without loading."""
    path, sentences = best_wsj_grammar(corpora, work), work / "speed"
    sentences.mkdir(parents=True, exist_ok=True)
    test = [tree.words() for tree in wsj_trees(corpora, "test")]
    write_bytes(sentences / "test.json", json.dumps(test).encode())
    write_bytes(sentences / "lengths.json", json.dumps(sentences_by_length(corpora)).encode())
    for worker in ("speed", "speed0", "spacy", "threads", "exponent"):
        name = "lengths" if worker == "exponent" else "test"
        yield measure(worker, corpora, path, sentences / f"{name}.json")
    yield measured(memory.__name__, path, sentences / "test.json")


def best_wsj_grammar(corpora: Path, work: Path) -> Path:
    """Return the file of the grammar with the best round on dev."""
    dev = wsj_trees(corpora, "dev")
    trained, _ = grammar(work, corpora, "wsj", "train", WSJ)
    grammars = [trained.truncated(number + 1) for number in ROUNDS]
    best = max(grammars, key=lambda one: score(ChartParser(one), dev).f1)
    path = work / "grammars" / "wsj-best.bin"
    write_bytes(path, best.to_bytes())
    return path


def sentences_by_length(corpora: Path, most: int = 8) -> list[list[str]]:
    """Return at most eight sentences of each length from 10 to 80 tokens, from WSJ dev and test
    and, for greater lengths, from EWT train.
    """
    found: dict[int, list[list[str]]] = {}
    trees = (*wsj_trees(corpora, "test"), *wsj_trees(corpora, "dev"), *ewt_trees(corpora, "train"))
    for tree in trees:
        words = tree.words()
        own = found.setdefault(len(words), [])
        if 10 <= len(words) <= 80 and len(own) < most:
            own.append(words)
    return [words for length in sorted(found) for words in found[length]]


def speed_worker(grammar: Path, sentences: Path) -> dict[str, float]:
    parser, words = _loaded(grammar, sentences)
    seconds = _median_seconds(lambda: parser.parse(words), 9)
    n_words = sum(map(len, words))
    return {
        "ms_per_sentence": 1000 * seconds / len(words),
        "words_per_second": n_words / seconds,
    }


def speed0_worker(grammar: Path, sentences: Path) -> dict[str, float]:
    """Measure the parser with only the grammar of level 0: word scores, exhaustive inside-outside,
    pruning, and decoding to Parse objects.
    """
    parser, words = _loaded(grammar, sentences, levels=1)
    return {"level0_ms": 1000 * _median_seconds(lambda: parser.parse(words), 9) / len(words)}


def spacy_worker(grammar: Path, sentences: Path) -> dict[str, float]:
    """Measure the component, from Docs with one sentence to span groups."""
    import spacy

    nlp = spacy.blank("en")
    parser = add_parser(nlp, LatentGrammar.from_bytes(grammar.read_bytes()))
    words = json.loads(sentences.read_text(encoding="utf8"))
    docs = [doc_of(nlp, own) for own in words]

    def run() -> None:
        for start in range(0, len(docs), 256):
            batch = docs[start : start + 256]
            parser.set_annotations(batch, parser.predict(batch))

    return {"spacy_ms": 1000 * _median_seconds(run, 9) / len(docs)}


def threads_worker(grammar: Path, sentences: Path) -> dict[str, float]:
    """Return the wall time of one thread over that of two, in alternating runs."""
    parsers = [_loaded(grammar, sentences, threads=n) for n in (1, 2)]
    wall: list[list[float]] = [[], []]
    for _ in range(12):
        for times, (parser, words) in zip(wall, parsers, strict=True):
            start = time.perf_counter()
            parser.parse(words)
            times.append(time.perf_counter() - start)
    return {"threads2_ratio": float(np.median(wall[0][2:]) / np.median(wall[1][2:]))}


def exponent_worker(grammar: Path, sentences: Path) -> dict[str, float]:
    """Return the slope of log time over log length of sentences, by least squares."""
    parser, words = _loaded(grammar, sentences)
    parser.parse(words)
    lengths = np.array([len(sentence) for sentence in words])
    seconds = np.array(
        [_median_seconds(lambda own=sentence: parser.parse([own]), 5) for sentence in words]
    )
    slope = np.polyfit(np.log(lengths), np.log(seconds), 1)[0]
    long = (lengths >= 50) & (lengths < 60)
    return {"exponent": float(slope), "ms_50_to_59_tokens": 1000 * float(seconds[long].mean())}


def _loaded(grammar: Path, sentences: Path, levels: int | None = None, threads: int = 1):
    one = LatentGrammar.from_bytes(grammar.read_bytes())
    if levels is not None:
        one = one.truncated(levels)
    return ChartParser(one, threads=threads), json.loads(sentences.read_text(encoding="utf8"))


def _median_seconds(run: Callable[[], object], times: int) -> float:
    """Return the median of CPU seconds after a warm-up run."""
    run()
    seconds = []
    for _ in range(times):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return float(np.median(seconds))


# --- EWT ------------------------------------------------------------------------------------------
def ewt_tune(corpora: Path, work: Path) -> Iterator[dict[str, float]]:
    """Compare numbers of rounds and of grammars on the tuning documents, by grammars of the other
    documents of train; and fit the temperature.
    """
    tuning = ewt_trees(corpora, "tune")
    grammars, seconds = [], []
    for seed in SEEDS:
        one, cpu_s = grammar(work, corpora, "ewt", "fit", replace(EWT, seed=seed))
        grammars.append(one)
        seconds.append(cpu_s)
        if seed == SEEDS[0]:
            for number in EWT_ROUNDS:
                result = score(ChartParser(one.truncated(number + 1)), tuning, "gold")
                yield under(f"round{number}", {"f1": result.f1, "exact": result.complete_match})
            continue
        parses = parsed(ChartParser(product(grammars)), tuning)
        result = scored(parses, tuning, "gold")
        figures = {"f1": result.f1, "exact": result.complete_match}
        yield under(f"product{len(grammars)}", figures)
    probabilities, right = brackets_right(parses, tuning)
    yield {
        "rounds": EWT.rounds,
        "grammars": len(grammars),
        "temperature": fit_temperature(probabilities, right),
        "bracket_ece_uncalibrated": expected_calibration_error(probabilities, right),
        "train_cpu_s": sum(seconds),
        "single.train_cpu_s": seconds[0],
    }


def ewt(corpora: Path, work: Path) -> Iterator[dict[str, float]]:
    """Yield figures on dev from gold tokens, of the grammars of the default pipeline, which are
    trained on more treebanks; and (single) of one grammar of EWT alone.
    """
    dev = ewt_trees(corpora, "dev")
    sentences = [tree.words() for tree in dev]
    trained = ewt_grammar()
    parser = ChartParser(trained)
    parser.parse(sentences[:50])
    start = time.process_time()
    parses = parser.parse(sentences)
    ms = 1000 * (time.process_time() - start) / len(dev)
    result = scored(parses, dev, "gold")
    probabilities, right = brackets_right(parses, dev)
    single, _ = grammar(work, corpora, "ewt", "train", EWT)
    alone = score(ChartParser(single), dev, "gold")
    yield {
        "dev_f1": result.f1,
        "dev_f1_strict": result.strict.f1,
        "dev_exact": result.complete_match,
        "tag_accuracy": result.tag_accuracy,
        "failures": sum(parse.failed for parse in parses),
        "bracket_ece": expected_calibration_error(probabilities, right),
        "bracket_ece_equal_mass": expected_calibration_error(probabilities, right, equal_mass=True),
        "mean_bracket_probability": float(probabilities.mean()),
        "brackets_right": float(right.mean()),
        "ms_per_sentence": ms,
        "model_bytes": len(trained.to_bytes()),
        "single.dev_f1": alone.f1,
        "single.dev_exact": alone.complete_match,
    }


def raw(corpora: Path, work: Path) -> Iterator[dict[str, float]]:
    """Yield figures of the installed default pipeline on raw text of dev, by characters."""
    from spacy_structlearn import load

    nlp = load()
    documents = list(ewt_texts(corpora, "dev"))
    gold, predicted = [], []
    start = time.process_time()
    texts = (text for _, text in documents)
    docs = list(tqdm(nlp.pipe(texts), desc="raw text", total=len(documents), mininterval=5))
    seconds = time.process_time() - start
    for (trees, _), doc in zip(documents, docs, strict=True):
        gold.append(document_brackets(trees))
        predicted.append(document_brackets([sent._.tree for sent in doc.sents]))
    result = score_spans(gold, predicted)
    yield {
        "dev_f1": 100 * result.f1,
        "dev_p": 100 * result.precision,
        "dev_r": 100 * result.recall,
        "words_per_cpu_s": sum(map(len, docs)) / seconds,
    }


def document_brackets(trees: Sequence[Tree | None]) -> list[tuple[str, int, int]]:
    """Return the brackets of a document over its characters, without white space."""
    found, before = [], 0
    for tree in trees:
        if tree is None:
            continue
        ends = list(accumulate(len("".join(word.split())) for word in tree.words()))
        offsets = [(before + a, before + b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
        before += ends[-1]
        found += offset_brackets(tree, offsets)
    return found


def ewt_texts(corpora: Path, split: str) -> Iterator[tuple[list[Tree], str]]:
    """Yield the trees and the text of each document of train or dev."""
    trees = iter(ewt_trees(corpora, split))
    with gzip.open(corpora / "ewt" / f"{split}.raw.jsonl.gz", "rt", encoding="utf8") as lines:
        for document in map(json.loads, lines):
            yield list(islice(trees, len(document["sentences"]))), document["text"]


def add_parser(nlp, trained: LatentGrammar):
    """Add a parser with this grammar to the end of the pipeline, and return it."""
    component = nlp.add_pipe("constituency_parser")
    component.parameters = trained
    return component


def doc_of(nlp, words: list[str]):
    """Return a Doc with one sentence."""
    from spacy.tokens import Doc

    return Doc(nlp.vocab, words=words, sent_starts=[i == 0 for i in range(len(words))])


# --- robustness -----------------------------------------------------------------------------------
def failures(corpora: Path, work: Path) -> Iterator[dict[str, float]]:
    """Yield the number of sentences of each dev without a proper parse by the EWT grammar."""
    parser = ChartParser(ewt_grammar())
    for corpus in ("wsj", "ewt", "craft"):
        parses = parsed(parser, TREES[corpus](corpora, "dev"))
        yield {corpus: sum(parse.failed for parse in parses)}


def longest(corpora: Path, work: Path) -> Iterator[dict[str, float]]:
    """Yield costs of the longest sentence of CRAFT and an artificial one of 5,000 tokens. The spaCy
    component cuts them; the sentence of CRAFT is also parsed in one piece.
    """
    path = work / "grammars" / "ewt-shipped.bin"
    write_bytes(path, ewt_grammar().to_bytes())
    trees = (*craft_trees(corpora, "train"), *craft_trees(corpora, "dev"))
    craft = max((tree.words() for tree in trees), key=len)
    text = (word for tree in ewt_trees(corpora, "train") for word in tree.words())
    made = list(islice(text, MADE_TOKENS))
    for name, words in (("craft", craft), ("made", made)):
        file = work / "speed" / f"{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(file, json.dumps([words]).encode())
        found = measure("longest", corpora, path, file)
        yield {f"{name}_{key}": value for key, value in found.items()}
        if name == "craft":
            found = measure("uncut", corpora, path, file)
            yield {f"{name}_uncut_{key}": value for key, value in found.items()}


def longest_worker(grammar: Path, sentences: Path) -> dict[str, float]:
    """Return CPU seconds and peak memory of one sentence in the component, including spaCy."""
    import spacy

    nlp = spacy.blank("en")
    parser = add_parser(nlp, LatentGrammar.from_bytes(grammar.read_bytes()))
    (words,) = json.loads(sentences.read_text(encoding="utf8"))
    doc = doc_of(nlp, words)
    start = time.process_time()
    parser(doc)
    seconds = time.process_time() - start
    assert doc.spans["constituents"]
    return {"tokens": len(words), "s": seconds, "mb": peak_mb()}


def uncut_worker(grammar: Path, sentences: Path) -> dict[str, float]:
    """Return CPU seconds and peak memory of sentences in one piece, without spaCy."""
    parser, words = _loaded(grammar, sentences)
    start = time.process_time()
    parses = parser.parse(words)
    return {
        "s": time.process_time() - start,
        "mb": peak_mb(),
        "failures": sum(parse.failed for parse in parses),
    }


# --- the run --------------------------------------------------------------------------------------
GENERATIVE = "parsing_generative"
NAME = "petrov_klein2007"
DISCRIMINATIVE = {**discriminative.PARTS, "uniform": uniform, "analysis": analysis}
# For each part, its function and the prefix of its keys.
PARTS: dict[str, tuple[Callable[[Path, Path], Iterator[dict[str, float]]], str]] = {
    "wsj": (wsj, "wsj"),
    "baselines": (baselines, "wsj"),
    "training": (training, "train"),
    "speed": (speed, "speed"),
    "table1_wsj": (table1_wsj, "table1.wsj"),
    "table1_ewt": (table1_ewt, "table1.ewt"),
    "ewt_tune": (ewt_tune, "ewt.tune"),
    "ewt": (ewt, "ewt"),
    "raw": (raw, "ewt.raw"),
    "failures": (failures, "failures"),
    "longest": (longest, "longest"),
}
WORKERS: dict[str, Callable[..., dict[str, float]]] = {
    "train": lambda corpora: train_worker(corpora),
    "train1": lambda corpora: train_worker(corpora, 1),
    "train2": lambda corpora: train_worker(corpora, 2),
    "speed": lambda corpora, *files: speed_worker(*files),
    "speed0": lambda corpora, *files: speed0_worker(*files),
    "spacy": lambda corpora, *files: spacy_worker(*files),
    "threads": lambda corpora, *files: threads_worker(*files),
    "exponent": lambda corpora, *files: exponent_worker(*files),
    "longest": lambda corpora, *files: longest_worker(*files),
    "uncut": lambda corpora, *files: uncut_worker(*files),
}


def measure(worker: str, corpora: Path, *files: Path) -> Figures:
    """Run one worker in its own process."""
    return measured(__spec__.name, "--worker", worker, "--corpora", corpora, *files)


def main() -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--generative", action="store_true", help="measure the generative grammars")
    parser.add_argument("--only", choices=[*DISCRIMINATIVE, *PARTS], help="one part")
    parser.add_argument(
        "--jobs", type=int, default=1, help="number of processes, or of threads of one"
    )
    parser.add_argument("--corpora", type=Path, default=CORPORA, help="default: %(default)s")
    parser.add_argument("--work", type=Path, default=WORK, help="cache of grammars")
    parser.add_argument("--worker", choices=WORKERS, help=argparse.SUPPRESS)
    parser.add_argument("files", nargs="*", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.generative and args.only in DISCRIMINATIVE:
        parser.error(f"{args.only} is not a part of --generative")
    if not args.worker:
        recording.clean_commit()
    if args.worker:
        print(json.dumps(WORKERS[args.worker](args.corpora, *args.files)))
    elif args.generative or args.only in PARTS:
        for name, (part, prefix) in PARTS.items():
            if args.only in (None, name):
                for figures in part(args.corpora, args.work):
                    _record(GENERATIVE, under(prefix, figures))
    else:
        run = discriminative.Run(args.corpora, args.work, args.jobs)
        for name, make in DISCRIMINATIVE.items():
            if args.only in (None, name):
                for figures in make(run):
                    _record(NAME, figures)
                print(report.section(RESULTS, NAME, name), flush=True)
                report.write(RESULTS, NAME)


def _record(name: str, figures: Figures) -> None:
    record(name, figures)
    show(figures)


def _sd(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1))


if __name__ == "__main__":
    main()
