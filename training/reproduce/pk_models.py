"""What the parts of petrov_klein2007.py share: treebanks, grammars that are kept, scores."""

from __future__ import annotations

import gzip
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from ewt import tuning_documents
from recording import peak_mb

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.evaluation.evalb import EvalbScore, score_trees
from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.discriminative.settings import ConditionalGrammarSettings
from spacy_structlearn.grammar.latent.model import LatentGrammar
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.spans.model import SpanGrammar
from spacy_structlearn.grammar.treebank.settings import LexiconSettings
from spacy_structlearn.trees.brackets import read_trees
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.trees.parse import Parse
from spacy_structlearn.trees.tree import Tree

Figures = dict[str, Any]

CHECKPOINT_S = 60
CHECKPOINT_RATIO = 20  # training goes on for so many times as long as the state took to save

LEXICON = LexiconSettings(signature="english", word_backoff="signature")
PAPER_LEXICON = LexiconSettings(lexicon="simple", signature="english", normalization="")
ROUNDS = (1, 2, 3, 4)
WSJ = LEXICON.part(LatentGrammarSettings, rounds=max(ROUNDS))
# The grammars of the default pipeline, as in training/configs/parser.cfg; and what is compared.
EWT = LEXICON.part(LatentGrammarSettings, rounds=5)
EWT_ROUNDS = (3, 4, 5)
SEEDS = (0, 1, 2, 3)  # of the grammars of the default pipeline
# Table 1: all substates are split in each round and none merged or smoothed.
TABLE1 = PAPER_LEXICON.part(
    LatentGrammarSettings,
    rounds=4,
    merge_fraction=0.0,
    rule_smoothing=0.0,
    lexicon_smoothing=0.0,
)


# --- corpora --------------------------------------------------------------------------------------
@cache
def wsj_trees(corpora: Path, split: str) -> tuple[Tree, ...]:
    """Normalised trees of train, dev or test: the files that split.json names."""
    folder = corpora / "wsj_sample"
    splits = json.loads((folder / "split.json").read_text(encoding="utf8"))["splits"]
    low, high = splits[split]["files"]
    with open(folder / "trees.index.tsv", encoding="utf8") as lines:
        rows = [line.split("\t") for line in lines if not line.startswith("#")]
    files = [int(name.removeprefix("wsj_")) for _, name, *_ in rows]
    trees = read_trees(folder / "trees.mrg.gz")
    pairs = zip(trees, files, strict=True)
    return _normalized(tree for tree, number in pairs if low <= number <= high)


@cache
def ewt_trees(corpora: Path, split: str) -> tuple[Tree, ...]:
    """Normalised trees of train, dev, tune (the documents of tune.txt) or fit (train without)."""
    folder = corpora / "ewt"
    if split in ("train", "dev"):
        return _normalized(read_trees(folder / f"{split}.trees.gz"))
    tuning = tuning_documents(corpora)
    names = ewt_documents(corpora, "train")
    pairs = zip(ewt_trees(corpora, "train"), names, strict=True)
    return tuple(tree for tree, name in pairs if (name in tuning) is (split == "tune"))


def ewt_documents(corpora: Path, split: str) -> list[str]:
    """The name of each sentence's document."""
    names, inside = [], False
    with gzip.open(corpora / "ewt" / f"{split}.props.gz", "rt", encoding="utf8") as lines:
        for line in lines:
            if line.strip() and not inside:
                names.append(line.split(maxsplit=1)[0])
            inside = bool(line.strip())
    return names


@cache
def craft_trees(corpora: Path, split: str) -> tuple[Tree, ...]:
    return _normalized(read_trees(corpora / "craft" / f"{split}.trees.gz"))


def _normalized(trees: Iterator[Tree]) -> tuple[Tree, ...]:
    found = (normalize(tree) for tree in trees)
    return tuple(tree for tree in found if tree is not None)


@cache
def skeleton_trees(corpora: Path, split: str) -> tuple[Tree, ...]:
    """Trees of train or dev over tags, which are their own words."""
    return _normalized(read_trees(corpora / "wsj_skeleton" / f"{split}.postrees.gz"))


TREES: dict[str, Callable[[Path, str], tuple[Tree, ...]]] = {
    "wsj": wsj_trees,
    "ewt": ewt_trees,
    "craft": craft_trees,
    "wsj_skeleton": skeleton_trees,
}


# --- training -------------------------------------------------------------------------------------
Settings = LatentGrammarSettings  # conditional ones too


def grammar(
    work: Path, corpora: Path, corpus: str, split: str, settings: Settings
) -> tuple[LatentGrammar, float]:
    """The grammar of these trees and settings, trained unless it is in `work` already.

    RETURNS: the grammar, and the CPU seconds of its training.
    """
    found, notes = kept_grammar(work, corpora, corpus, split, settings)
    return found, notes["cpu_s"]


def kept_grammar(
    work: Path, corpora: Path, corpus: str, split: str, settings: Settings
) -> tuple[LatentGrammar, Figures]:
    """As `grammar`, with the notes of `train` in place of the seconds."""
    path = grammar_path(work, corpus, split, settings)
    return grammar_at(path, settings, lambda: TREES[corpus](corpora, split))


def grammar_at(
    path: Path, settings: Settings, trees: Callable[[], Sequence[Tree]]
) -> tuple[LatentGrammar, Figures]:
    """The grammar in this file and the notes beside it, from these trees unless it is there."""
    notes = path.with_suffix(".json")
    if path.exists():
        try:
            found = LatentGrammar.from_bytes(path.read_bytes())
            return found, json.loads(notes.read_text(encoding="utf8"))
        except StructlearnError as error:
            print(f"{path.name} is trained anew: {error}", file=sys.stderr)
    path.parent.mkdir(parents=True, exist_ok=True)
    trained, found = train(trees(), settings, path.stem, path.with_suffix(".checkpoint"))
    found["settings"] = asdict(settings)
    write(notes, json.dumps(found, indent=2, default=str).encode())
    write(path, trained.to_bytes())
    path.with_suffix(".checkpoint").unlink(missing_ok=True)
    return trained, found


def grammar_path(work: Path, corpus: str, split: str, settings: Settings) -> Path:
    """Where the grammar of these settings is kept."""
    kind = ""
    if isinstance(settings, ConditionalGrammarSettings):
        kind = f"{settings.base}-{settings.l1:g}-{settings.l2:g}-"
    digest = settings.digest()[:12]
    name = f"{corpus}-{split}-{settings.rounds}-{settings.seed}-{kind}{digest}.bin"
    return work / "grammars" / name


def train(
    trees: Sequence[Tree], settings: Settings, name: str, checkpoint: Path | None = None
) -> tuple[LatentGrammar, Figures]:
    """Train with a progress bar. RETURNS: the grammar, and the notes of `run_training`."""
    trainer, notes = run_training(settings, trees, name, checkpoint)
    return trainer.parameters(), notes


def run_training(
    settings: Any, data: Sequence[Any], name: str, checkpoint: Path | None = None
) -> tuple[Any, Figures]:
    """Train with a progress bar.

    settings: any estimator of trees. checkpoint: a file that the state is written to now and then,
    and read from if it is there.
    RETURNS: the trainer, and notes: CPU and wall seconds, those before a break too, the peak memory
    of this process in MB, and the records of conditional levels.
    """
    clock = _Clock()
    trainer = settings.trainer(None, [data])
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
                write(checkpoint, json.dumps(clock.read()).encode() + b"\n" + trainer.to_bytes())
                last = time.monotonic()
                # The state of a large grammar is some hundred megabytes.
                wait = max(CHECKPOINT_S, CHECKPOINT_RATIO * (last - begun))

        trainer.on_iteration = on_iteration
        while trainer.step():
            pass
    notes = clock.read()
    if isinstance(settings, ConditionalGrammarSettings):
        notes |= {"threads": settings.threads, "levels": [asdict(r) for r in trainer.records]}
    return trainer, notes


class _Clock:
    """Seconds so far, after those of the run before a break; and peak memory."""

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


def in_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """What the function returns when a process of its own calls it."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def write(path: Path, data: bytes) -> None:
    """Write a file at once."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(data)
    os.replace(fresh, path)


# --- scoring --------------------------------------------------------------------------------------
def parsed(parser: ChartParser, gold: Sequence[Tree]) -> list[Parse]:
    """Parses of the words of these trees, a few at a time under a progress bar."""
    sentences = [tree.words() for tree in gold]
    parses: list[Parse] = []
    for start in tqdm(range(0, len(sentences), 100), desc="parsing", mininterval=5):
        parses += parser.parse(sentences[start : start + 100])
    return parses


def scored(parses: Sequence[Parse], gold: Sequence[Tree], punctuation: str) -> EvalbScore:
    """EVALB over parses, makeshift trees too."""
    pairs = zip(parses, gold, strict=True)
    return score_trees(
        gold, [parse.tree(tree.words()) for parse, tree in pairs], punctuation=punctuation
    )


def score(parser: ChartParser, gold: Sequence[Tree], punctuation: str = "own") -> EvalbScore:
    return scored(parsed(parser, gold), gold, punctuation)


def figures_of(score: EvalbScore, split: str) -> dict[str, float]:
    return {
        f"{split}_f1": score.f1,
        f"{split}_complete": score.complete_match,
        f"{split}_f1_strict": score.strict.f1,
    }


# --- figures --------------------------------------------------------------------------------------
def under(prefix: str, figures: dict[str, float]) -> dict[str, float]:
    return {f"{prefix}.{key}": value for key, value in figures.items()}


def ewt_grammar() -> LatentGrammar:
    """The latent grammar of the default pipeline, as it is installed, without span scores;
    training/train_default.py made it with the settings that the tuning documents chose.
    """
    from spacy_structlearn import load

    parameters = load().get_pipe("constituency_parser").parameters
    return parameters.grammar if isinstance(parameters, SpanGrammar) else parameters
