"""The parser compared with the Berkeley parser (Petrov et al. 2006) on the WSJ sample, in one run.

    python corpora/fetch.py wsj_sample
    python -m training.benchmarks.parser --berkeley BerkeleyParser-1.7.jar --train
    python -m training.benchmarks.parser --berkeley BerkeleyParser-1.7.jar --grammar wsj.gr

The Berkeley parser (https://github.com/slavpetrov/berkeleyparser) needs Java and has the GPL. It is
not part of this package; download it yourself. --train trains it on the same trees with its default
settings; --grammar uses a grammar trained earlier. Each measurement runs in its own process with
one thread, and runs of both parsers alternate. Times are CPU seconds. The time per sentence is
measured in further passes over the test sentences, without start-up, loading and the first pass, in
which Java compiles. Medians and ratios are recorded in training/results/parsing_generative.json
under `peer`.

    python -m training.benchmarks.parser --speed --before CHECKOUT --berkeley JAR --grammar ewt.gr

compares the parser with that of another checkout instead, and with the Berkeley parser on the
English Web Treebank: see speed.py. With --train, its grammar is trained first (half an hour).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from spacy_structlearn.evaluation.evalb import score_trees
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.trees.tree import Tree, escape
from training.benchmarks import parser_worker, speed
from training.common.command import options
from training.common.kept import Run
from training.common.process import measured
from training.common.recording import record, show
from training.common.treebanks import ewt_trees, wsj_trees
from training.papers.petrov_klein2007.generative import best_wsj_grammar

NAME = "parsing_generative"
JAVA = ["java", "-XX:+UseSerialGC", "-Xmx1200m"]
PACKAGE = "edu.berkeley.nlp.PCFGLA"
ROUNDS = {"wsj_sample": 4, "ewt": 5}  # of the Berkeley parser, which are best on dev
PASSES = 3
EVERY = 4  # of the sentences of EWT's dev, which take the Berkeley parser minutes
NOTHING = "(())"  # output of the Berkeley parser if it finds no tree


def berkeley(jar: Path, program: str, options: Sequence[str]) -> dict[str, float]:
    """Run one program of the jar. Return its CPU seconds and peak memory. (On Linux, this is at
    least the memory of this process, which is much lower.)
    """
    command = [*JAVA, "-cp", str(jar), f"{PACKAGE}.{program}", *options]
    with tempfile.TemporaryFile() as messages:
        process = subprocess.Popen(command, stdout=messages, stderr=messages)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            messages.seek(0)
            sys.exit(f"{program}: {messages.read()[-2000:].decode(errors='replace')}")
    return {"cpu_s": usage.ru_utime + usage.ru_stime, "peak_rss_mb": usage.ru_maxrss / 1024}


def berkeley_training(jar: Path, trees: Path, grammar: Path, rounds: int) -> dict[str, float]:
    """Train the Berkeley parser with default settings and this number of rounds."""
    options = ["-path", str(trees), "-out", str(grammar)]
    options += ["-treebank", "SINGLEFILE", "-SMcycles", str(rounds)]
    return berkeley(jar, "GrammarTrainer", options)


def berkeley_parsing(jar: Path, grammar: Path, test: Sequence[Tree], folder: Path) -> dict:
    """Return milliseconds per sentence, memory and accuracy from runs of one and several passes."""
    lines = "".join(" ".join(map(escape, tree.words())) + "\n" for tree in test)
    runs = {}
    for passes in (1, PASSES):
        source, target = folder / f"{passes}.txt", folder / f"{passes}.out"
        source.write_text(passes * lines, encoding="utf8")
        options = ["-gr", str(grammar), "-inputFile", str(source), "-outputFile", str(target)]
        runs[passes] = berkeley(jar, "BerkeleyParser", options)
    extra = runs[PASSES]["cpu_s"] - runs[1]["cpu_s"]
    with open(folder / "1.out", encoding="utf8") as output:
        predicted = [_read(line.strip()) for line in output]
    score = score_trees(test, predicted)
    return {
        "ms_per_sentence": 1000 * extra / (PASSES - 1) / len(test),
        "peak_rss_mb": runs[1]["peak_rss_mb"],
        "test_f1": score.f1,
        "test_complete": score.complete_match,
    }


def _read(line: str) -> Tree | None:
    return None if line.replace(" ", "") == NOTHING else normalize(parse_tree(line))


def write_trees(trees: Iterable[Tree], path: Path) -> Path:
    """Write one tree per line, with an empty outer bracket as the peer expects."""
    with open(path, "w", encoding="utf8") as file:
        for tree in trees:
            file.write(f"( {' '.join(map(str, tree.children))} )\n")
    return path


def alternating(
    ours: Callable[[], dict], peer: Callable[[], dict], runs: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the medians of both in alternating runs."""
    pairs = []
    for _ in range(runs):
        pairs.append((ours(), peer()))
        for name, side in zip(("ours", "berkeley"), pairs[-1], strict=True):
            print(name, {key: round(value, 3) for key, value in side.items()}, flush=True)
    medians = [
        {name: float(np.median([run[name] for run in side])) for name in side[0]}
        for side in zip(*pairs, strict=True)
    ]
    return medians[0], medians[1]


def compare_checkouts(args: argparse.Namespace) -> None:
    """Compare the parser with that of another checkout, and with the Berkeley parser if given."""
    figures = speed.compare(args.before.resolve(), args.rounds, args.limit)
    if args.berkeley is not None and args.grammar is not None:
        if args.train:
            trees = write_trees(ewt_trees(args.corpora, "train"), args.grammar.with_suffix(".mrg"))
            berkeley_training(args.berkeley, trees, args.grammar, ROUNDS["ewt"])
        test = list(ewt_trees(args.corpora, "dev"))[:: args.limit or EVERY]
        with tempfile.TemporaryDirectory() as name:
            peer = berkeley_parsing(args.berkeley, args.grammar, test, Path(name))
        figures["berkeley.ms_per_sentence"] = peer["ms_per_sentence"]
        figures["berkeley.f1.ewt_dev"] = peer["test_f1"]
    show(figures)
    if args.limit is None:
        record("speed", figures)


def compare(args: argparse.Namespace, folder: Path) -> None:
    """Compare training, with --train, and parsing with the Berkeley parser."""
    jar, grammar, worker = args.berkeley, args.grammar, parser_worker.__name__
    if args.train:
        grammar, rounds = grammar or folder / "wsj.gr", ROUNDS["wsj_sample"]
        train = wsj_trees(args.corpora, "train")
        own, trees = folder / "train.trees", write_trees(train, folder / "train.mrg")
        own.write_text("".join(f"{tree}\n" for tree in train), encoding="utf8")
        ours, peer = alternating(
            lambda: measured(worker, "train", own, rounds),
            lambda: berkeley_training(jar, trees, grammar, rounds),
            args.runs,
        )
        keep("train", ours, peer)
    path = best_wsj_grammar(Run(args.corpora, args.work))
    sentences, test = folder / "test.json", wsj_trees(args.corpora, "test")
    sentences.write_text(json.dumps([tree.words() for tree in test]), encoding="utf8")
    ours, peer = alternating(
        lambda: measured(worker, "parse", path, sentences),
        lambda: berkeley_parsing(jar, grammar, test, folder),
        args.runs,
    )
    keep("parse", ours, peer)


def keep(what: str, ours: dict, peer: dict) -> None:
    """Record and print medians."""
    figures = {f"peer.{what}.ours.{key}": value for key, value in ours.items()}
    figures |= {f"peer.{what}.berkeley.{key}": value for key, value in peer.items()}
    record(NAME, figures)
    show(figures)


def main() -> None:
    parser = options(__doc__, "corpora", "work", "runs", "limit")
    parser.add_argument("--speed", action="store_true", help="compare with another checkout")
    parser.add_argument("--before", type=Path, help="that checkout, for --speed")
    parser.add_argument("--rounds", type=int, default=5, help="of --speed; default: %(default)s")
    parser.add_argument("--berkeley", type=Path, help="BerkeleyParser-1.7.jar (GPL, not ours)")
    parser.add_argument(
        "--grammar", type=Path, help="its grammar of the WSJ sample, or with --speed of EWT"
    )
    parser.add_argument("--train", action="store_true", help="train its grammar first")
    args = parser.parse_args()
    if args.speed:
        if args.before is None:
            parser.error("--speed needs --before, a checkout with its compiled kernels")
        compare_checkouts(args)
        return
    if args.berkeley is None or not args.berkeley.is_file():
        sys.exit("skipped: give --berkeley BerkeleyParser-1.7.jar; it is GPL and not shipped here")
    if shutil.which("java") is None:
        sys.exit("skipped: the Berkeley parser needs Java")
    if not args.train and args.grammar is None:
        sys.exit("skipped: give --grammar, or --train to train one")
    with tempfile.TemporaryDirectory() as name:
        compare(args, Path(name))


if __name__ == "__main__":
    main()
