"""Parsers with span scores: training with a cache, accuracy and costs."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from spacy.util import load_config

from spacy_structlearn.evaluation.calibration import expected_calibration_error
from spacy_structlearn.grammar.chart.decode import THRESHOLDS, ChartParser
from spacy_structlearn.grammar.chart.hypergraph import Hypergraphs
from spacy_structlearn.grammar.latent.model import LatentGrammar, product
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.latent.training import initialize
from spacy_structlearn.grammar.spans.features import SPAN_TEMPLATES, TAG_TEMPLATES
from spacy_structlearn.grammar.spans.forests import renumbered
from spacy_structlearn.grammar.spans.model import SpanGrammar
from spacy_structlearn.grammar.spans.settings import (
    SpanFeaturesSettings,
    SpanGrammarSettings,
)
from spacy_structlearn.grammar.spans.training import SpanGrammarTrainer
from spacy_structlearn.grammar.treebank.settings import Trees
from spacy_structlearn.learning.settings import setting
from spacy_structlearn.learning.training import Trainer, write_bytes
from spacy_structlearn.trees.parse import Parse, calibrate, fit_temperature
from spacy_structlearn.trees.tree import Tree
from training.common.kept import EWT, WSJ, grammar_at, grammar_path, run_training
from training.common.process import in_process
from training.common.scoring import (
    Figures,
    brackets_right,
    f1_standard_error,
    parsed,
    scored,
    under,
)
from training.common.treebanks import PUNCTUATION, TREES
from training.pipeline import default
from training.pipeline.parser import COMPONENT, CONFIG, held_out_parser

# Default grammars, and the number of folds for training span scores.
SETTINGS = {"wsj": WSJ, "ewt": EWT}
FOLDS = {"wsj": 10, "ewt": 5}
# As in the default parser. Templates are explicit, because the cache is indexed by settings.
FEATURES = SpanFeaturesSettings(templates=SPAN_TEMPLATES, tag_templates=TAG_TEMPLATES)
BINS = 10
WARM_UP = 50  # sentences parsed before timing


# --- grammars -------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Kept(LatentGrammarSettings):
    """Settings whose grammars are cached in a folder.

    folder: see `grammar_path`. corpus, split: the source of the trees. n_trees: the number of trees
    in the split; grammars of fewer trees are identified by a digest of the trees.
    """

    name: ClassVar[str] = ""

    folder: Path = setting(help="Folder of the cache.")
    corpus: str = setting(help="Name of the corpus.")
    split: str = setting(help="Part of the corpus.")
    n_trees: int = setting(help="Number of trees.")

    n_reports = 1

    @property
    def own(self) -> LatentGrammarSettings:
        """The settings of the grammars only."""
        return self.part(LatentGrammarSettings)

    def path(self, trees: Sequence[Tree]) -> Path:
        """Return the path of the grammar of these trees."""
        name = self.split
        if len(trees) != self.n_trees:
            digest = blake2b(digest_size=6)
            for tree in trees:
                digest.update(str(tree).encode() + b"\n")
            name += f".{digest.hexdigest()}"
        return grammar_path(self.folder, self.corpus, name, self.own)

    def grammar(self, trees: Sequence[Tree]) -> tuple[LatentGrammar, Figures]:
        """Return the grammar of these trees and the notes of its training."""
        return grammar_at(self.path(trees), self.own, lambda: trees)


@dataclass(frozen=True, kw_only=True)
class Seen(Kept):
    """Like `Kept`, but with the grammar of all trees for any part of them."""

    def path(self, trees: Sequence[Tree]) -> Path:
        return grammar_path(self.folder, self.corpus, self.split, self.own)


class KeptTrainer(Trainer[Kept]):
    """A trainer with one step. Cached grammars have their own checkpoints."""

    def __init__(self, settings: Kept, data: Trees):
        super().__init__(settings)
        self._trees: list[Tree] = []
        self.add(data)

    def _add(self, data: Trees) -> None:
        self._trees += [tree for part in data for tree in part]

    def iterate(self) -> bool:
        self.settings.grammar(self._trees)
        self.n_iterations += 1
        return False

    def parameters(self) -> LatentGrammar:
        if not self.n_iterations:
            return initialize(self.settings, [self._trees])
        return self.settings.grammar(self._trees)[0]

    def data_digest(self) -> bytes:
        return self.settings.path(self._trees).name.encode()


# --- span scores ----------------------------------------------------------------------------
@dataclass(frozen=True)
class Learner:
    """The span scores that are trained on top of one grammar.

    seen: parse the training forests by the grammar of all sentences. grammar: settings of the
    grammar; None: the default of the corpus.
    """

    features: SpanFeaturesSettings = FEATURES
    seen: bool = False
    grammar: LatentGrammarSettings | None = None

    def estimator(self, base: Kept, folds: int, threads: int) -> SpanGrammarSettings:
        """Return the settings of the training. base: the settings of the grammar."""
        changes = {"grammar": base, "folds": folds, "threads": threads}
        return self.features.part(SpanGrammarSettings, **changes)


SPAN = Learner()


def component_block(config: Path) -> dict[str, Any]:
    """Return the block of the parser in a config."""
    return load_config(config, interpolate=True)["components"][COMPONENT]


@dataclass(frozen=True)
class Model:
    """A parser: a grammar or a product of grammars, optionally with linear scores.

    cpu_s: CPU seconds of the whole training; None if they were not measured.
    notes: other figures of the training.
    """

    grammar: LatentGrammar | SpanGrammar
    cpu_s: float | None = None
    notes: Mapping[str, Any] | None = None

    @property
    def latent(self) -> LatentGrammar:
        """The grammar without span scores."""
        own = self.grammar
        return own.grammar if isinstance(own, SpanGrammar) else own

    def with_latent(self, grammar: LatentGrammar, cpu_s: float | None = None) -> Model:
        """Return a copy with another grammar of the same trees. cpu_s: of the whole training."""
        own = self.grammar
        if grammar.symbols != own.symbols:
            raise ValueError("the grammars have different symbols")
        both = own.replaced(grammar=grammar) if isinstance(own, SpanGrammar) else grammar
        return replace(self, grammar=both, cpu_s=cpu_s)

    def first(self) -> Model:
        """Return a copy with only the first grammar."""
        return self.with_latent(self.latent.truncated(self.latent.depth + 1))

    def plain(self) -> Model:
        """Return a copy without span scores."""
        return Model(self.latent)

    def reader(self, **settings: Any) -> ChartParser:
        """Return a parser. settings: of `ChartParser`; models with span scores use the decoder of
        the default parser unless one is given.
        """
        if isinstance(self.grammar, SpanGrammar):
            settings = {"decoder": component_block(CONFIG)["decoder"], **settings}
        return ChartParser(self.grammar, **settings)

    @property
    def mb(self) -> float:
        """Return the size as shipped: without small probabilities, the others in 16 bits."""
        compact = self.grammar.compact(default.SMALLEST_PROBABILITY, "float16")
        return len(compact.to_bytes()) / 1e6


# --- the run --------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Run:
    """The folders of treebanks and of the cache.

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

    def kept(
        self, corpus: str, split: str, settings: LatentGrammarSettings, kind: type[Kept] = Kept
    ) -> Kept:
        """Return the settings of the cached grammars of this part."""
        name = split if self.limit is None else f"{split}{self.limit}"
        n_trees = len(self.trees(corpus, split))
        return settings.part(kind, folder=self.work, corpus=corpus, split=name, n_trees=n_trees)

    def generative(self, corpus: str, split: str, number: int) -> Model:
        """Return the product of `number` grammars with the seeds 0, 1, ..."""
        settings = [replace(SETTINGS[corpus], seed=seed) for seed in range(number)]
        self.prepare(corpus, split, settings)
        trees = self.trees(corpus, split)
        found = [self.kept(corpus, split, own).grammar(trees) for own in settings]
        return Model(
            product([trained for trained, _ in found]), cpu_s=sum(n["cpu_s"] for _, n in found)
        )

    def learned(self, corpus: str, split: str, learner: Learner) -> Model:
        """Return one grammar with trained span scores, which are cached too."""
        settings = learner.grammar or SETTINGS[corpus]
        base = self.kept(corpus, split, settings, Seen if learner.seen else Kept)
        trees = self.trees(corpus, split)
        folds = min(FOLDS[corpus], len(trees))
        self.prepare(corpus, split, [settings], 0 if learner.seen else folds)
        estimator = learner.estimator(base, folds, self.jobs)
        own = {part.name: getattr(estimator, part.name) for part in fields(estimator)}
        del own["threads"]
        own |= {"grammar": base.path(trees).stem, "seen": learner.seen}
        text = json.dumps(own, sort_keys=True, default=str)
        name = f"{corpus}-{base.split}-{blake2b(text.encode(), digest_size=6).hexdigest()}"
        path = self.work / "anchored" / f"{name}.bin"
        notes = path.with_suffix(".json")
        if path.exists():
            grammar = SpanGrammar.from_bytes(path.read_bytes())
            found = json.loads(notes.read_text(encoding="utf8"))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            checkpoint = path.with_suffix(".checkpoint")
            make = functools.partial(SpanGrammarTrainer, trainer_of_one=KeptTrainer)
            trainer, found = run_training(estimator, trees, name, checkpoint, make)
            grammar = trainer.parameters()
            found |= {
                "losses": trainer.losses,
                "left_out": trainer.left_out,
                "grammars_cpu_s": self._grammars_cpu_s(base, trees, folds),
                "settings": text,
            }
            write_bytes(notes, json.dumps(found, indent=2).encode())
            write_bytes(path, grammar.to_bytes())
            checkpoint.unlink(missing_ok=True)
        return Model(
            grammar,
            cpu_s=found["cpu_s"] + found["grammars_cpu_s"],
            notes={
                "loss": found["losses"][-1],
                "left_out": found["left_out"],
                "grammars_cpu_s": found["grammars_cpu_s"],
            },
        )

    def _grammars_cpu_s(self, base: Kept, trees: Sequence[Tree], folds: int) -> float:
        """Return the CPU seconds of the cached grammars that a training has used."""
        parts = {base.path(part) for part in (trees, *outside(trees, folds))}
        notes = (path.with_suffix(".json").read_text(encoding="utf8") for path in parts)
        return sum(json.loads(text)["cpu_s"] for text in notes)

    def prepare(
        self, corpus: str, split: str, settings: Sequence[LatentGrammarSettings], folds: int = 0
    ) -> None:
        """Train grammars that are not cached, each in its own process: grammars of all trees, and,
        with the first settings, grammars of the trees outside each fold.
        """
        trees = self.trees(corpus, split)
        plans = [(own, trees, None) for own in settings]
        plans += [(settings[0], part, fold) for fold, part in enumerate(outside(trees, folds))]
        todo = [
            (own, fold, folds)
            for own, part, fold in plans
            if not self.kept(corpus, split, own).path(part).exists()
        ]
        threads = self.jobs if len(todo) == 1 else 1

        def one(plan: tuple[LatentGrammarSettings, int | None, int]) -> None:
            in_process(_train, self, corpus, split, threads, *plan)

        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(one, todo))

    def folds(self, corpus: str, split: str) -> Forests:
        """Return the forests of a training part. The grammar of the other folds parses a fold."""
        trees = self.trees(corpus, split)
        n_folds = min(FOLDS[corpus], len(trees))
        settings = SETTINGS[corpus]
        self.prepare(corpus, split, [settings], n_folds)
        kept = self.kept(corpus, split, settings)
        full, _ = kept.grammar(trees)
        parts, numbers = [], []
        cut = bounds(len(trees), n_folds)
        for (begin, end), rest in zip(cut, outside(trees, n_folds), strict=True):
            grammar, _ = kept.grammar(rest)
            parser = ChartParser(SpanGrammar(grammar), threads=self.jobs)
            graphs, own = parser.forests([tree.words() for tree in trees[begin:end]])
            parts.append(renumbered(graphs, grammar, full))
            numbers += (own + begin).tolist()
        graphs = Hypergraphs.joined(parts)
        cpu_s = self._grammars_cpu_s(kept, trees, n_folds)
        return Forests(full, graphs, [trees[number] for number in numbers], cpu_s)


@dataclass(frozen=True)
class Forests:
    """Forests with the symbols of a grammar, gold trees, and CPU seconds of all grammars."""

    grammar: LatentGrammar
    graphs: Hypergraphs
    trees: list[Tree]
    cpu_s: float


def bounds(number: int, folds: int) -> list[tuple[int, int]]:
    """Return the begins and ends of the folds of `number` sentences; see `SpanGrammarSettings`."""
    ends = [number * fold // folds for fold in range(folds + 1)] if folds else []
    return list(pairwise(ends))


def outside(trees: Sequence[Tree], folds: int) -> Iterator[list[Tree]]:
    """Yield the trees outside each fold."""
    for begin, end in bounds(len(trees), folds):
        yield [*trees[:begin], *trees[end:]]


def _train(
    run: Run,
    corpus: str,
    split: str,
    threads: int,
    settings: LatentGrammarSettings,
    fold: int | None,
    folds: int,
) -> None:
    trees = run.trees(corpus, split)
    if fold is not None:
        trees = list(outside(trees, folds))[fold]
    run.kept(corpus, split, replace(settings, threads=threads)).grammar(trees)


@functools.cache
def default_parser(run: Run, split: str) -> Model:
    """Return the uncalibrated parser of the default pipeline. split: "fit" or "train", of EWT."""
    learn = held_out_parser if split == "fit" else default.learn_parser
    component = learn(run.corpora, run.work, run.jobs).get_pipe(COMPONENT)
    grammar = component.parameters
    if not isinstance(grammar, SpanGrammar) or grammar.features is None:
        raise ValueError("the default parser in training/work has no features: train it again")
    return Model(grammar.replaced(temperature=1.0))


# --- figures --------------------------------------------------------------------------------------
def measured(
    run: Run, step: str, corpus: str, models: Mapping[str, Model], **settings: Any
) -> Iterator[Figures]:
    """Return scores and costs of models on parts of a corpus; the first is for tuning.

    models: by part. Seconds and size are of the first model, and so is the temperature, which is
    used for all parts.
    """
    temperature = None
    found: Figures = {}
    for split, model in models.items():
        gold = run.trees(corpus, split)
        parses, ms = timed(model.reader(**settings), gold)
        result = scored(parses, gold, PUNCTUATION[corpus])
        found |= {f"{split}_f1": result.f1, f"{split}_exact": result.complete_match}
        found[f"{split}_f1_se"] = f1_standard_error(result)
        probabilities, right = brackets_right(parses, gold)
        found[f"{split}_ece"] = expected_calibration_error(probabilities, right, BINS)
        if temperature is None:
            temperature = fit_temperature(probabilities, right)
            costs = {"ms_per_sentence": ms, "mb": model.mb}
            if model.cpu_s is not None:
                costs["train_cpu_s"] = model.cpu_s
            found |= {**costs, "temperature": temperature, **(model.notes or {})}
        else:
            calibrated = calibrate(probabilities, temperature)
            ece = expected_calibration_error(calibrated, right, BINS)
            found[f"{split}_ece_calibrated"] = ece
    yield under(f"{step}.{corpus}", found)
    if corpus == "ewt":
        yield under(step, costs)


def timed(reader: ChartParser, gold: Sequence[Tree]) -> tuple[list[Parse], float]:
    """Return parses and CPU milliseconds per sentence."""
    reader.parse([tree.words() for tree in gold[:WARM_UP]])
    start = time.process_time()
    parses = parsed(reader, gold)
    return parses, 1000 * (time.process_time() - start) / len(gold)


class Closest:
    """Scores for which the best tree of a forest is the one closest to the gold tree.

    Tokens are gold trees. See `Hypergraphs.closest`.
    """

    def __init__(self, grammar: LatentGrammar):
        self._symbols = grammar.symbols
        self.items = self.edges = self.sentences = 0

    def scores(
        self, sentences: Sequence[Sequence[str]], tokens: Sequence[Any] | None, graphs: Hypergraphs
    ) -> np.ndarray:
        assert tokens is not None
        self.items += len(graphs.items)
        self.edges += len(graphs.scores)
        self.sentences += len(graphs)
        made = graphs.made[graphs.closest(tokens, self._symbols)]
        scores = np.zeros(len(graphs.items))
        scores[made[made >= 0]] = 1e3
        return scores


def oracle(grammar: LatentGrammar, gold: Sequence[Tree], corpus: str) -> Figures:
    """Return the oracle scores and the sizes of the forests."""
    closest = Closest(grammar)
    parser = ChartParser(
        SpanGrammar(grammar), decoder="viterbi", thresholds=THRESHOLDS, scorers=[closest]
    )
    parses = parser.parse([tree.words() for tree in gold], tokens=gold)
    result = scored(parses, gold, PUNCTUATION[corpus])
    n = max(closest.sentences, 1)
    return {
        "oracle_f1": result.f1,
        "oracle_exact": result.complete_match,
        "items": closest.items / n,
        "edges": closest.edges / n,
        "failures": sum(parse.failed for parse in parses),
    }
