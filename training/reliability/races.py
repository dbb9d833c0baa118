"""Let commands write to one target at the same time, and look what is left.

    python -m training.reliability --only races

In each round, two to four processes train, adapt, apply or convert into one target, which in half
of the rounds exists before. Afterwards it must be what one of them writes when it is alone, or what
it was before. A process that did not write must have ended with one clear error. This needs fork.
In results/reliability.json:

races.rounds    number of rounds
races.lost      rounds after which the target was missing or could not be read
races.mixed     rounds after which it was something that no process writes alone
races.unclear   processes that ended with something else than success or an error of the package
races.refused   % of the processes that were refused
"""

from __future__ import annotations

import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import spacy
from tqdm import tqdm

from spacy_structlearn.errors import StructlearnError
from training.reliability.kills import command, exit_code, fork, run_command, same_files
from training.reliability.small_pipelines import SAMPLE, write_config, write_corpus

ROUNDS = 520
SPREAD_S = 0.05  # the processes of a round begin within this time
CLEAR = re.compile(r"SL\d{3}")


class Race(NamedTuple):
    """Commands that write to one target, their last argument, which is not in `commands`.

    read: raises an exception if the target is damaged.
    """

    commands: list[list[str]]
    read: Callable[[Path], object]


def races(work: Path) -> dict[str, Race]:
    """Return the races by the name of their target. work: for their input."""
    write_corpus(work)
    config = str(write_config("crf", work))
    l2 = "--components.np_chunker.model.l2"
    train = [["train", config, f"{l2}={value}", "-o"] for value in (1, 2, 4)]
    for i, arguments in enumerate(train):
        run_command([*arguments, work / f"model{i}"], work)
    adapt = [["adapt", str(work / "model0"), str(work / "train.spacy"), "-o"]]
    texts = work / "texts"
    texts.mkdir()
    for i in range(3):
        (texts / f"{i}.txt").write_text("He sold the old boat to her.\n\n" * (i + 1), "utf8")
    apply = [["apply", str(work / f"model{i}"), str(texts)] for i in range(2)]
    in_parts = [["apply", "--part-size", "2", *arguments] for _, *arguments in apply]
    convert = [["convert", str(one)] for one in (SAMPLE / "sample.trees", work / "short.trees")]
    return {
        "pipeline": Race([*train, *adapt], spacy.load),
        "folder": Race(in_parts, _read_docs),
        "docs.spacy": Race([*apply, *convert], _read_docs),
    }


def _read_docs(target: Path) -> None:
    files = sorted(target.glob("*.spacy")) if target.is_dir() else [target]
    docs = [spacy.tokens.DocBin().from_disk(path) for path in files]
    if not any(map(len, docs)):
        raise ValueError("no documents")


def run_round(
    race: Race, alone: list[Path], target: Path, rng: random.Random, counts: Counter[str]
) -> None:
    """Run some commands of a race at the same time. alone: what each of them writes alone."""
    target.parent.mkdir()
    if rng.random() < 0.5:
        before = rng.choice(alone)
        (shutil.copytree if before.is_dir() else shutil.copy2)(before, target)
    running = []
    for i in range(rng.randint(2, 4)):
        log = target.parent / f"{i}"
        running.append((fork(partial(command, [*rng.choice(race.commands), target]), log), log))
        time.sleep(rng.uniform(0, SPREAD_S) if rng.random() < 0.7 else 0)
    for process, log in running:
        counts["processes"] += 1
        if exit_code(process):
            text = Path(f"{log}.log").read_text(encoding="utf8", errors="replace")
            clear = CLEAR.search(text) and "Traceback" not in text
            counts["refused" if clear else "unclear"] += 1
    counts["rounds"] += 1
    try:
        race.read(target)
    except (OSError, ValueError, StructlearnError):
        counts["lost"] += 1
        return
    counts["mixed"] += not any(same_files(one, target) for one in alone)


def run(rounds: int = ROUNDS) -> dict[str, float]:
    """Run all races in turn. Return the figures."""
    counts: Counter[str] = Counter()
    rng = random.Random(0)
    with TemporaryDirectory() as folder:
        work = Path(folder)
        alone: dict[str, list[Path]] = {}
        made = races(work)
        for name, race in made.items():
            alone[name] = [work / f"alone{i}" / name for i in range(len(race.commands))]
            for arguments, target in zip(race.commands, alone[name], strict=True):
                target.parent.mkdir(exist_ok=True)
                run_command([*arguments, target], target.parent)
        for number in tqdm(range(rounds), "rounds", disable=None):
            name = [*made][number % len(made)]
            place = work / "round"
            run_round(made[name], alone[name], place / name, rng, counts)
            shutil.rmtree(place)
    refused = 100 * counts["refused"] / counts["processes"]
    figures = {f"races.{key}": counts[key] for key in ("rounds", "lost", "mixed", "unclear")}
    return figures | {"races.refused": refused}
