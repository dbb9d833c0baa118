"""Compare this package with packages that install from the index and train without downloads.

    python corpora/fetch.py conll2000 ppattach wsj_sample
    python -m training.benchmarks.peers --work training/work/peers

Writes training/results/benchmarks.json, benchmarks.md and benchmarks.svg (which needs matplotlib).
Peers are installed in virtual environments in --work, in the versions of PEERS. Nothing else needs
the network. On Linux, torch is installed with GPU packages unless pip is configured for its CPU
builds.

TASK.SYSTEM.* of the results:

f1, accuracy     on test, evaluated once with settings fixed in advance
f1_short         parsing: on the few short sentences that NLTK parses
train_cpu_s      from sentences and labels in memory to a model on disk
per_cpu_s        tokens, or items of PP attachment, per CPU second of prediction, from words to
                 labels or trees: median of --rounds, in which the systems of a task alternate
train_rss_mb, rss_mb   peak memory of the training process and of the prediction process
model_mb         size of the model on disk
install_mb, packages   installed size and packages, without Python itself and without bytecode

Each training and each round runs in its own process with one thread. CPU seconds do not include
start-up, imports, and reading data and models. Peers that fail, also during installation, are
skipped. Figures recorded with the same settings, data and versions are not measured again without
--again. Trained models are kept in --work. supar takes half an hour; SIGTERM to its process
(worker.py) ends the training with the best epoch so far.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import distributions
from pathlib import Path
from statistics import median
from typing import Any

import srsly
from tqdm import tqdm

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.evaluation.classification import score_labels
from spacy_structlearn.evaluation.conlleval import conlleval
from spacy_structlearn.evaluation.evalb import score_trees
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.tree import Tree
from training.benchmarks import chunker, classification
from training.benchmarks.peers import others, ours, report, worker
from training.benchmarks.product import install_mb, installed_mb
from training.common import process
from training.common.recording import CORPORA, RESULTS, record
from training.common.scoring import under
from training.common.treebanks import wsj_trees

NAME = "benchmarks"
N_DEV = 1000  # the last sentences of CoNLL-2000's train
# Requirements of each peer.
PEERS = {
    "python-crfsuite": ("python-crfsuite==0.9.12",),
    "spacy": ("spacy==3.8.18",),
    "nltk": ("nltk==3.10.4", "numpy==2.4.6"),
    "scikit-learn": ("scikit-learn==1.9.1",),
    "pgmpy": ("pgmpy==1.1.2",),
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
    train = chunker.read(corpora / "conll2000" / "train.txt.gz")
    test = chunker.read(corpora / "conll2000" / "test.txt.gz")
    parts = {"train": train[: chunker.N_TRAIN], "dev": train[-N_DEV:], "test": test}
    return {
        name: Part(
            [[(word, tag) for word, tag, _ in rows] for rows in part],
            [[iob for _, _, iob in rows] for rows in part],
        )
        for name, part in parts.items()
    }


def attachment(corpora: Path) -> Data:
    """Read quadruples in lower case with YEAR and NUM, and "V" or "N"."""
    files = {"train": "training", "dev": "devset", "test": "test"}
    return {name: Part(*classification.items(corpora, file)) for name, file in files.items()}


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
    """Return EVALB scores of all sentences, if all were parsed, and of the short ones."""
    trees = list(map(parse_tree, gold.outputs))
    parsed = [
        None if text is None else tagged(parse_tree(text), tree)
        for text, tree in zip(found, trees, strict=True)
    ]
    short = others.SYSTEMS["nltk_pcfg"].chosen(gold.inputs)
    scores = {"f1_short": score_trees([trees[i] for i in short], [parsed[i] for i in short]).f1}
    long = set(range(len(trees))) - set(short)
    if any(parsed[i] is not None for i in long):
        scores["f1"] = score_trees(trees, parsed).f1
    return scores


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
class Failed(Exception):
    """A peer cannot be installed, or its process failed."""


@dataclass(frozen=True)
class Run:
    """A run of one task. folder: for data and models. options: for training, by system."""

    task: str
    folder: Path
    work: Path
    options: Mapping[str, Figures]
    digest: str  # of the data

    def settings(self, system: str) -> str:
        """Return a digest of everything that the figures of a system depend on, except for the
        machine."""
        package = report.ROWS[self.task][system].package
        known = [repr(_system(system)), PEERS.get(package, ()), self.options.get(system, {})]
        return _digest([self.digest, known])

    def train(self, system: str, again: bool) -> Figures:
        """Train, unless there is a model with the same settings. Raises Failed."""
        result = self.folder / system / "train.result.json"
        if result.exists() and not again:
            found = json.loads(result.read_text(encoding="utf8"))
            if found.get("settings") == self.settings(system):
                return found
        found = {**self._stage(system, "train"), "settings": self.settings(system)}
        result.write_text(json.dumps(found, indent=2), encoding="utf8")
        return found

    def predict(self, system: str) -> Figures:
        """Run one round of prediction. Raises Failed."""
        return self._stage(system, "predict")

    def _stage(self, system: str, stage: str) -> Figures:
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
        with open(folder / f"{stage}.log", "w", encoding="utf8") as log:
            run = subprocess.run(
                command,
                env={**base, **one, "PYTHONHASHSEED": "0"},
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if run.returncode:
            last = (folder / f"{stage}.log").read_text(encoding="utf8").strip()[-500:]
            raise Failed(f"{system}, {stage}: exit status {run.returncode}: {last}")
        return json.loads(result.read_text(encoding="utf8"))

    def python(self, system: str) -> Path:
        """Return the interpreter of a system. Raises Failed if its peer cannot be installed."""
        package = report.ROWS[self.task][system].package
        return environment(package, self.work) if package else Path(sys.executable)


def environment(package: str, work: Path) -> Path:
    """Create a peer's environment if necessary. Return its interpreter. Raises Failed."""
    return virtual_environment(work / "environments" / package, PEERS[package])


def virtual_environment(folder: Path, requirements: Sequence[str]) -> Path:
    """Create an environment in `folder` with these requirements. Raises Failed."""
    python = folder / "bin" / "python"
    done = folder / "installed.json"
    if not done.exists() or json.loads(done.read_text()) != list(requirements):
        venv.create(folder, clear=True, with_pip=False)
        command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
        run = subprocess.run([*command, *requirements], capture_output=True, text=True)
        if run.returncode:
            problem = run.stderr.strip()[-500:]
            raise Failed(f"{folder.name} cannot be installed: {problem}")
        done.write_text(json.dumps(requirements))
    return python


def installed(package: str, work: Path) -> Figures:
    """Return the installed size and packages of a peer, or of this package ("")."""
    if not package:
        return install_mb()
    (site,) = (work / "environments" / package / "lib").glob("python*/site-packages")
    found = list(distributions(path=[str(site)]))
    return {"install_mb": installed_mb(found), "packages": len(found)}


def _system(name: str) -> Any:
    return {**ours.SYSTEMS, **others.SYSTEMS}[name]


def _digest(value: Any) -> str:
    return blake2b(json.dumps(value).encode(), digest_size=6).hexdigest()


# --- the run --------------------------------------------------------------------------------------
def compare(
    task: str, systems: Iterable[str], args: argparse.Namespace, known: Mapping[str, Any]
) -> None:
    """Train and measure systems of a task, and record their figures."""
    data = TASKS[task].read(args.corpora)
    parts = {name: vars(part) for name, part in data.items()}
    run = Run(task, args.work / task, args.work, options(args), _digest(parts))
    run.folder.mkdir(parents=True, exist_ok=True)
    test = parts.pop("test")
    (run.folder / "train.json").write_text(json.dumps(parts), encoding="utf8")
    (run.folder / "test.json").write_text(json.dumps(test["inputs"]), encoding="utf8")
    asked = [
        name
        for name in systems
        if args.again or known.get(name, {}).get("settings") != run.settings(name)
    ]
    trained: dict[str, Figures] = {}
    for name in tqdm(asked, desc=f"{task}: training"):
        with _reported():
            trained[name] = run.train(name, args.again)
    rounds: dict[str, list[Figures]] = {name: [] for name in trained}
    waiting = list(trained)
    for number in range(args.rounds):
        for name in tqdm(waiting, desc=f"{task}: round {number + 1}"):
            with _reported():
                rounds[name].append(run.predict(name))
        waiting = [
            name for name in waiting if len(rounds[name]) > number and not _is_slow(rounds[name])
        ]
    for name, found in rounds.items():
        if found:
            with _reported():
                own = figures(run, name, trained[name], found, data)
                record(NAME, under(f"{task}.{name}", own))


def figures(
    run: Run, system: str, trained: Figures, rounds: Sequence[Figures], data: Data
) -> Figures:
    """See above."""
    task = TASKS[run.task]
    outputs = rounds[0]["outputs"]
    pairs = zip(data["test"].inputs, outputs, strict=True)
    size = sum(task.size(own) for own, output in pairs if output is not None)
    files = [path for path in (run.folder / system / "model").rglob("*") if path.is_file()]
    package = report.ROWS[run.task][system].package
    return {
        **task.score(data["test"], outputs),
        "train_cpu_s": trained["cpu_s"],
        "per_cpu_s": size / median(found["cpu_s"] for found in rounds),
        "train_rss_mb": trained["rss_mb"],
        "rss_mb": median(found["rss_mb"] for found in rounds),
        "model_mb": 1e-6 * sum(path.stat().st_size for path in files),
        **installed(package, run.work),
        "rounds": len(rounds),
        "settings": run.settings(system),
        **({"epochs": trained["epochs"]} if "epochs" in trained else {}),
    }


def options(args: argparse.Namespace) -> dict[str, Figures]:
    return {"supar": {"epochs": args.supar_epochs}}


def _is_slow(rounds: Sequence[Figures]) -> bool:
    return rounds[-1]["cpu_s"] > SLOW


class _reported:
    """Prints failures and continues."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        # The output of a peer may be invalid.
        failed = isinstance(error, (Failed, StructlearnError))
        if failed:
            tqdm.write(f"skipped: {error}")
        return failed


def main() -> None:
    names = [name for rows in report.ROWS.values() for name in rows]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="environments, data and models")
    parser.add_argument("--corpora", type=Path, default=CORPORA, help="default: %(default)s")
    parser.add_argument("--only", nargs="+", choices=[*TASKS, *names], help="tasks or systems")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of prediction")
    parser.add_argument("--supar-epochs", type=int, default=35, help="default: %(default)s")
    parser.add_argument("--again", action="store_true", help="repeat recorded measurements")
    args = parser.parse_args()
    path = RESULTS / f"{NAME}.json"
    for task, rows in report.ROWS.items():
        asked = [n for n in rows if args.only is None or task in args.only or n in args.only]
        if asked:
            known = srsly.read_json(path).get(task, {}) if path.exists() else {}
            compare(task, asked, args, known)
            if path.exists():
                report.write(RESULTS, NAME)


if __name__ == "__main__":
    main()
