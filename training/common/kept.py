"""Models that are kept in training/work by their settings, and the trees that they learn."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.discriminative.settings import ConditionalGrammarSettings
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.treebank.settings import LexiconSettings
from spacy_structlearn.pipeline.architectures import empty_parameters, estimator
from spacy_structlearn.trees.tree import Tree
from spacy_structlearn.writing import write_bytes
from training.common.process import in_process
from training.common.recording import peak_mb
from training.common.treebanks import TREES

Figures = dict[str, Any]

CHECKPOINT_S = 60
CHECKPOINT_RATIO = 20  # training time between two checkpoints, over the time to save one

LEXICON = LexiconSettings(signature="english", word_backoff="signature")
PAPER_LEXICON = LexiconSettings(lexicon="simple", signature="english", normalization="")
ROUNDS = (1, 2, 3, 4)
WSJ = LEXICON.part(LatentGrammarSettings, rounds=max(ROUNDS))
# The grammars of the default pipeline, as in training/configs/parser.cfg, without other treebanks.
EWT = LEXICON.part(LatentGrammarSettings, rounds=5)
SETTINGS = {"wsj": WSJ, "ewt": EWT}
SEEDS = (0, 1, 2, 3)  # of the grammars of a product
# Table 1: each round splits all substates, without merging or smoothing.
TABLE1 = PAPER_LEXICON.part(
    LatentGrammarSettings,
    rounds=4,
    merge_fraction=0.0,
    rule_smoothing=0.0,
    lexicon_smoothing=0.0,
)


class Plan(NamedTuple):
    """A model to train: the part of a corpus and the settings."""

    corpus: str
    split: str
    settings: Any


@dataclass(frozen=True)
class Run:
    """The folders of treebanks and of models.

    jobs: number of processes, or of threads of one process. limit: maximum number of trees of each
    part of a corpus.
    """

    corpora: Path
    work: Path
    jobs: int = 1
    limit: int | None = None

    def trees(self, corpus: str, split: str) -> Sequence[Tree]:
        """Return the normalised trees of a part of a corpus."""
        return TREES[corpus](self.corpora, split)[: self.limit]

    def name(self, corpus: str, split: str) -> str:
        """Return the name of a part of a corpus in file names."""
        return f"{corpus}-{split}{'' if self.limit is None else self.limit}"

    def path(self, corpus: str, split: str, settings: Any) -> Path:
        """Return the path of the model with these settings."""
        kind = f"{settings.name}-{getattr(settings, 'seed', 0)}-{settings.digest()[:12]}"
        return self.work / "models" / f"{self.name(corpus, split)}-{kind}.bin"

    def model(self, corpus: str, split: str, settings: Any) -> tuple[Any, Figures]:
        """Return the model of these trees, and the notes of `run_training`. See `model_at`."""
        path = self.path(corpus, split, settings)
        return model_at(path, settings, lambda: self.trees(corpus, split))

    def prepare(self, plans: Iterable[Plan | tuple[str, str, Any]]) -> None:
        """Train missing models: several in parallel processes, or one with several threads."""
        todo = [own for own in dict.fromkeys(plans) if not self.path(*own).exists()]
        threads = self.jobs if len(todo) == 1 else 1

        def one(plan: tuple[str, str, Any]) -> None:
            corpus, split, settings = plan
            seconds = in_process(_train, self, corpus, split, replace(settings, threads=threads))
            print(f"{self.path(*plan).stem}: {seconds:.0f} CPU s", flush=True)

        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(one, todo))

    def prepared(self, corpus: str, split: str, settings: Any) -> tuple[Any, Figures]:
        """Return the model as `model` does, trained in a process of its own."""
        self.prepare([(corpus, split, settings)])
        return self.model(corpus, split, settings)


def _train(run: Run, *plan: Any) -> float:
    return run.model(*plan)[1]["cpu_s"]


def model_at(path: Path, settings: Any, data: Callable[[], Sequence[Any]]) -> tuple[Any, Figures]:
    """Return the model in this file and its notes. Train it if the file does not exist."""
    notes = path.with_suffix(".json")
    if path.exists():
        try:
            found = type(empty_parameters(settings)).from_bytes(path.read_bytes())
            return found, json.loads(notes.read_text(encoding="utf8"))
        except StructlearnError as error:
            print(f"{path.name} is trained again: {error}", file=sys.stderr)
    path.parent.mkdir(parents=True, exist_ok=True)
    checkpoint = path.with_suffix(".checkpoint")
    trainer, figures = run_training(settings, data(), path.stem, checkpoint)
    trained = trainer.parameters()
    figures["settings"] = asdict(settings)
    write_bytes(notes, json.dumps(figures, indent=2, default=str).encode())
    write_bytes(path, trained.to_bytes())
    checkpoint.unlink(missing_ok=True)
    return trained, figures


def run_training(
    settings: Any, data: Sequence[Any], name: str, checkpoint: Path | None = None
) -> tuple[Any, Figures]:
    """Train with a progress bar.

    settings: of any model of trees. checkpoint: a file for the state, which is saved from time to
    time and restored if the file exists.
    Returns the trainer, and notes: CPU and wall seconds, including those before an interruption,
    the peak memory of this process in MB, and the records of conditional levels.
    """
    clock = _Clock()
    trainer: Any = estimator(settings).trainer(None, [data])
    if checkpoint is not None and checkpoint.exists():
        before, state = checkpoint.read_bytes().split(b"\n", 1)
        if trainer.resume(state):
            clock = _Clock(**json.loads(before))
    last, wait = time.monotonic(), CHECKPOINT_S
    with tqdm(desc=name, total=settings.n_reports, unit="it", mininterval=5) as bar:

        def on_iteration(value: float) -> None:
            nonlocal last, wait
            bar.set_postfix(step=trainer.n_iterations, loglik=f"{value:.0f}", refresh=False)
            bar.update()
            if checkpoint is not None and time.monotonic() - last > wait:
                begun = time.monotonic()
                write_bytes(
                    checkpoint, json.dumps(clock.read()).encode() + b"\n" + trainer.to_bytes()
                )
                last = time.monotonic()
                # The state of a large grammar has hundreds of megabytes.
                wait = max(CHECKPOINT_S, CHECKPOINT_RATIO * (last - begun))

        trainer.on_iteration = on_iteration
        while trainer.step():
            pass
    notes = clock.read()
    if isinstance(settings, ConditionalGrammarSettings):
        notes |= {"threads": settings.threads, "levels": [asdict(r) for r in trainer.records]}
    return trainer, notes


class _Clock:
    """Peak memory, and seconds, including those before an interruption."""

    def __init__(self, cpu_s: float = 0.0, wall_s: float = 0.0, peak_rss_mb: float = 0.0):
        self._cpu = cpu_s - time.process_time()
        self._wall = wall_s - time.monotonic()
        self._peak = peak_rss_mb

    def read(self) -> Figures:
        return {
            "cpu_s": self._cpu + time.process_time(),
            "wall_s": self._wall + time.monotonic(),
            "peak_rss_mb": max(self._peak, peak_mb()),
        }
