"""Compare this package with packages that install from the index and train without downloads.

    python corpora/fetch.py conll2000 ppattach wsj_sample
    python -m training.benchmarks.peers

Writes training/results/benchmarks.json, benchmarks.md and benchmarks.svg (which needs matplotlib).
Peers are installed in virtual environments in training/work/peers, in the versions of PEERS.
Nothing else needs the network. On Linux, torch is installed with GPU packages unless pip is
configured for its CPU builds.

TASK.SYSTEM.* of the results:

f1, accuracy     on test, evaluated once with settings fixed in advance
train_cpu_s      from sentences and labels in memory to a model on disk
per_cpu_s        tokens, or items of PP attachment, per CPU second of prediction, from words to
                 labels or trees: median of --rounds, in which the systems of a task alternate
train_rss_mb, rss_mb   peak memory of the training process and of the prediction process
model_mb         size of the model on disk
install_mb, packages   installed size and packages, without Python itself and without bytecode

Each training and each round runs in its own process with one thread. CPU seconds do not include
start-up, imports, and reading data and models. Peers that fail, also during installation, are
skipped. supar takes half an hour; SIGTERM to its process (worker.py) ends the training with the
best epoch so far.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from spacy_structlearn.attachment.sites import normalized
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.evaluation.conlleval import conlleval
from spacy_structlearn.evaluation.evalb import score_trees
from spacy_structlearn.pipeline.readers import read_pp_quadruples
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.tree import Tree
from training.benchmarks.peers import others, ours, report, worker
from training.benchmarks.product import install_mb, installed_mb
from training.common import process
from training.common.command import options
from training.common.conll2000 import N_TRAIN, read
from training.common.labels import score_labels
from training.common.process import Failed, virtual_environment
from training.common.recording import clean_commit, record
from training.common.report import write_page
from training.common.scoring import under
from training.common.treebanks import wsj_trees

NAME = "benchmarks"
N_DEV = 1000  # the last sentences of CoNLL-2000's train
# Requirements of each peer.
PEERS = {
    "python-crfsuite": ("python-crfsuite==0.9.12",),
    "spacy": ("spacy==3.8.18",),
    "scikit-learn": ("scikit-learn==1.9.1",),
    "supar": ("supar==1.1.4", "torch==2.13.0"),
}
SLOW = 20.0  # CPU seconds; a system with a slower round has no further rounds

Figures = dict[str, Any]


# --- data -----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Part:
    """Inputs and outputs of train, dev or test."""

    inputs: list[Any]
    outputs: list[Any]


Data = Mapping[str, Part]


def chunks(corpora: Path) -> Data:
    """Read CoNLL-2000, NP only: (word, tag), and IOB labels."""
    train = read(corpora / "conll2000" / "train.txt.gz")
    test = read(corpora / "conll2000" / "test.txt.gz")
    parts = {"train": train[:N_TRAIN], "dev": train[-N_DEV:], "test": test}
    return {
        name: Part(
            [[(word, tag) for word, tag, _ in rows] for rows in part],
            [[iob for _, _, iob in rows] for rows in part],
        )
        for name, part in parts.items()
    }


def attachment(corpora: Path) -> Data:
    """Read quadruples in lower case with YEAR and NUM, and "V" or "N"."""
    parts = {}
    for name, file in (("train", "training"), ("dev", "devset"), ("test", "test")):
        words, labels = zip(*read_pp_quadruples(corpora / "ppattach" / file), strict=True)
        parts[name] = Part(list(map(normalized, words)), list(labels))
    return parts


def parsing(corpora: Path) -> Data:
    """Read the WSJ sample: words, and trees in brackets."""
    return {
        name: Part([tree.words() for tree in trees], list(map(str, trees)))
        for name in ("train", "dev", "test")
        for trees in [wsj_trees(corpora, name)]
    }


# --- scores ---------------------------------------------------------------------------------------
def chunk_scores(gold: Part, found: Sequence[Any]) -> Figures:
    return {"f1": 100 * conlleval(gold.outputs, found).f1}


def attachment_scores(gold: Part, found: Sequence[Any]) -> Figures:
    return {"accuracy": 100 * score_labels(gold.outputs, found).accuracy}


def parsing_scores(gold: Part, found: Sequence[Any]) -> Figures:
    """Return F1 by EVALB."""
    trees = list(map(parse_tree, gold.outputs))
    pairs = zip(found, trees, strict=True)
    return {"f1": score_trees(trees, [tagged(parse_tree(own), tree) for own, tree in pairs]).f1}


def tagged(tree: Tree, gold: Tree) -> Tree:
    """Return the tree with gold tags if it has none, because EVALB excludes punctuation by tags."""
    if set(tree.tags()) != {others.NO_TAG}:
        return tree
    return Tree.from_spans(gold.words(), gold.tags(), tree.spans())


@dataclass(frozen=True)
class Task:
    """read: reads data. score: scores predictions on test. size: tokens or items of an input."""

    read: Callable[[Path], Data]
    score: Callable[[Part, Sequence[Any]], Figures]
    size: Callable[[Any], int]


TASKS = {
    "chunks": Task(chunks, chunk_scores, len),
    "attachment": Task(attachment, attachment_scores, lambda row: 1),
    "parsing": Task(parsing, parsing_scores, len),
}


# --- processes ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Run:
    """A run of one task. work: the folder of environments, data and models. options: for training,
    by system.
    """

    task: str
    work: Path
    options: Mapping[str, Figures]

    @property
    def folder(self) -> Path:
        return self.work / self.task

    def stage(self, system: str, stage: str) -> Figures:
        """Train, or run one round of prediction. Raises Failed."""
        folder = self.folder / system
        folder.mkdir(parents=True, exist_ok=True)
        # The virtual environments of peers lack this package.
        is_ours = system in ours.SYSTEMS
        module = "ours" if is_ours else "others"
        result = folder / f"{stage}.json"
        command = [str(self.python(system)), worker.__file__, module, system, stage]
        command += [str(folder), str(result), json.dumps(self.options.get(system, {}))]
        base = process.environment() if is_ours else os.environ
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        log = folder / f"{stage}.log"
        with open(log, "w", encoding="utf8") as file:
            run = subprocess.run(
                command,
                env={**base, **one, "PYTHONHASHSEED": "0"},
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if run.returncode:
            last = log.read_text(encoding="utf8").strip()[-500:]
            raise Failed(f"{system}, {stage}: exit status {run.returncode}: {last}")
        return json.loads(result.read_text(encoding="utf8"))

    def python(self, system: str) -> Path:
        """Return the interpreter of a system. Raises Failed if its peer cannot be installed."""
        package = report.ROWS[self.task][system].package
        if not package:
            return Path(sys.executable)
        return virtual_environment(self.work / "environments" / package, PEERS[package])


def installed(package: str, work: Path) -> Figures:
    """Return the installed size and packages of a peer, or of this package ("")."""
    if not package:
        return install_mb()
    (site,) = (work / "environments" / package / "lib").glob("python*/site-packages")
    found = list(distributions(path=[str(site)]))
    return {"install_mb": installed_mb(found), "packages": len(found)}


# --- the run --------------------------------------------------------------------------------------
def compare(task: str, systems: Sequence[str], args: argparse.Namespace) -> None:
    """Train and measure systems of a task, and record their figures."""
    data = TASKS[task].read(args.corpora)
    run = Run(task, args.work / "peers", {"supar": {"epochs": args.supar_epochs}})
    run.folder.mkdir(parents=True, exist_ok=True)
    parts = {name: vars(part) for name, part in data.items()}
    test = parts.pop("test")
    (run.folder / "train.json").write_text(json.dumps(parts), encoding="utf8")
    (run.folder / "test.json").write_text(json.dumps(test["inputs"]), encoding="utf8")
    trained: dict[str, Figures] = {}
    for name in tqdm(systems, desc=f"{task}: training"):
        with _reported():
            trained[name] = run.stage(name, "train")
    rounds: dict[str, list[Figures]] = {name: [] for name in trained}
    waiting = list(trained)
    for number in range(args.rounds):
        for name in tqdm(waiting, desc=f"{task}: round {number + 1}"):
            with _reported():
                rounds[name].append(run.stage(name, "predict"))
        done = [name for name in waiting if len(rounds[name]) > number]
        waiting = [name for name in done if rounds[name][-1]["cpu_s"] <= SLOW]
    for name, found in rounds.items():
        if found:
            with _reported():
                own = figures(run, name, trained[name], found, data)
                record(NAME, under(f"{task}.{name}", own))


def figures(
    run: Run, system: str, trained: Figures, rounds: Sequence[Figures], data: Data
) -> Figures:
    """See above."""
    task, test = TASKS[run.task], data["test"]
    files = [path for path in (run.folder / system / "model").rglob("*") if path.is_file()]
    seconds = median(found["cpu_s"] for found in rounds)
    return {
        **task.score(test, rounds[0]["outputs"]),
        "train_cpu_s": trained["cpu_s"],
        "per_cpu_s": sum(map(task.size, test.inputs)) / seconds,
        "train_rss_mb": trained["rss_mb"],
        "rss_mb": median(found["rss_mb"] for found in rounds),
        "model_mb": 1e-6 * sum(path.stat().st_size for path in files),
        **installed(report.ROWS[run.task][system].package, run.work),
        "rounds": len(rounds),
        **({"epochs": trained["epochs"]} if "epochs" in trained else {}),
    }


@contextmanager
def _reported() -> Iterator[None]:
    """Print failures and continue. The output of a peer may be invalid."""
    try:
        yield
    except (Failed, StructlearnError) as error:
        tqdm.write(f"skipped: {error}")


def main() -> None:
    names = [name for rows in report.ROWS.values() for name in rows]
    parser = options(__doc__, "corpora", "work", only=[*TASKS, *names])
    parser.add_argument("--rounds", type=int, default=3, help="rounds of prediction")
    parser.add_argument("--supar-epochs", type=int, default=35, help="default: %(default)s")
    args = parser.parse_args()
    clean_commit()
    for task, rows in report.ROWS.items():
        asked = [n for n in rows if args.only is None or task in args.only or n in args.only]
        if asked:
            compare(task, asked, args)
            write_page(NAME)
            report.plot(NAME)


if __name__ == "__main__":
    main()
