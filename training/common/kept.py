"""Grammars that are cached in training/work, and their settings."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.discriminative.settings import ConditionalGrammarSettings
from spacy_structlearn.grammar.latent.model import LatentGrammar
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.spans.model import SpanGrammar
from spacy_structlearn.grammar.treebank.settings import LexiconSettings
from spacy_structlearn.learning.training import write_bytes
from spacy_structlearn.pipeline.architectures import estimator
from spacy_structlearn.trees.tree import Tree
from training.common.recording import peak_mb
from training.common.treebanks import TREES

Figures = dict[str, Any]

CHECKPOINT_S = 60
CHECKPOINT_RATIO = 20  # training time between two checkpoints, over the time to save one

LEXICON = LexiconSettings(signature="english", word_backoff="signature")
PAPER_LEXICON = LexiconSettings(lexicon="simple", signature="english", normalization="")
ROUNDS = (1, 2, 3, 4)
WSJ = LEXICON.part(LatentGrammarSettings, rounds=max(ROUNDS))
# The grammars of the default pipeline, as in training/configs/parser.cfg, and other treebanks.
EWT = LEXICON.part(LatentGrammarSettings, rounds=5)
EWT_ROUNDS = (3, 4, 5)
SEEDS = (0, 1, 2, 3)  # of the grammars of a product
# Table 1: each round splits all substates, without merging or smoothing.
TABLE1 = PAPER_LEXICON.part(
    LatentGrammarSettings,
    rounds=4,
    merge_fraction=0.0,
    rule_smoothing=0.0,
    lexicon_smoothing=0.0,
)


Settings = LatentGrammarSettings  # or of conditional grammars, a subclass


def grammar(
    work: Path, corpora: Path, corpus: str, split: str, settings: Settings
) -> tuple[LatentGrammar, float]:
    """Return the grammar and the CPU seconds of its training. Train it unless it is in `work`."""
    found, notes = kept_grammar(work, corpora, corpus, split, settings)
    return found, notes["cpu_s"]


def kept_grammar(
    work: Path, corpora: Path, corpus: str, split: str, settings: Settings
) -> tuple[LatentGrammar, Figures]:
    """Return the grammar, as in `grammar`, and the notes of `train`."""
    path = grammar_path(work, corpus, split, settings)
    return grammar_at(path, settings, lambda: TREES[corpus](corpora, split))


def grammar_at(
    path: Path, settings: Settings, trees: Callable[[], Sequence[Tree]]
) -> tuple[LatentGrammar, Figures]:
    """Return the grammar in this file and its notes. Train it if the file does not exist."""
    notes = path.with_suffix(".json")
    if path.exists():
        try:
            found = LatentGrammar.from_bytes(path.read_bytes())
            return found, json.loads(notes.read_text(encoding="utf8"))
        except StructlearnError as error:
            print(f"{path.name} is trained again: {error}", file=sys.stderr)
    path.parent.mkdir(parents=True, exist_ok=True)
    trained, found = train(trees(), settings, path.stem, path.with_suffix(".checkpoint"))
    found["settings"] = asdict(settings)
    write_bytes(notes, json.dumps(found, indent=2, default=str).encode())
    write_bytes(path, trained.to_bytes())
    path.with_suffix(".checkpoint").unlink(missing_ok=True)
    return trained, found


def grammar_path(work: Path, corpus: str, split: str, settings: Settings) -> Path:
    """Return the path of the grammar with these settings."""
    kind = ""
    if isinstance(settings, ConditionalGrammarSettings):
        kind = f"{settings.base}-{settings.l1:g}-{settings.l2:g}-"
    digest = settings.digest()[:12]
    name = f"{corpus}-{split}-{settings.rounds}-{settings.seed}-{kind}{digest}.bin"
    return work / "grammars" / name


def train(
    trees: Sequence[Tree], settings: Settings, name: str, checkpoint: Path | None = None
) -> tuple[LatentGrammar, Figures]:
    """Train with a progress bar. Return the grammar and the notes of `run_training`."""
    trainer, notes = run_training(settings, trees, name, checkpoint)
    return trainer.parameters(), notes


def run_training(
    settings: Any,
    data: Sequence[Any],
    name: str,
    checkpoint: Path | None = None,
    make: Callable[[Any, Any], Any] | None = None,
) -> tuple[Any, Figures]:
    """Train with a progress bar.

    settings: of any model of trees. checkpoint: a file for the state, which is saved from time to
    time and restored if the file exists. make: makes the trainer, from settings and
    data. None: that of the architecture.
    Returns the trainer, and notes: CPU and wall seconds, including those before an interruption,
    the peak memory of this process in MB, and the records of conditional levels.
    """
    clock = _Clock()
    trainer = make(settings, [data]) if make else estimator(settings).trainer(None, [data])
    if checkpoint is not None and checkpoint.exists():
        before, state = checkpoint.read_bytes().split(b"\n", 1)
        if trainer.resume(state):
            clock = _Clock(**json.loads(before))
    last, wait = time.monotonic(), CHECKPOINT_S
    with tqdm(desc=name, total=settings.n_reports, unit="it", mininterval=5) as bar:

        def on_iteration(number: int, phase: str, iteration: int, value: float) -> None:
            nonlocal last, wait
            bar.set_postfix(round=number, phase=phase, loglik=f"{value:.0f}", refresh=False)
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


def ewt_grammar() -> LatentGrammar:
    """Return the latent grammar of the installed default pipeline, without span scores.

    training.train_default trains it with settings tuned on the tuning documents.
    """
    from spacy_structlearn import load

    parameters = load().get_pipe("constituency_parser").parameters
    return parameters.grammar if isinstance(parameters, SpanGrammar) else parameters
