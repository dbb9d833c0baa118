"""The pipelines with and without an encoder, side by side: en_structlearn_sm, md and lg.

    python corpora/fetch.py ewt craft mctb
    python -m training.benchmarks.encoder --models md=FOLDER lg=FOLDER

Scores are those of EWT's dev in percent, on gold tokens in gold sentences with predicted tags
unless they are named raw. In training/results/encoder.json, for each pipeline:

ewt                F1 (`dev_f1`) and exact trees of brackets, with the standard error of F1
bert_subset        the same on sentences that parsers trained on the WSJ were run on (--subset)
craft              F1 on every tenth sentence of CRAFT's dev
brackets, np_chunks, srl, tags   see raw_text.py
pp.ewt_dev         accuracy of attachments, see raw_text.py
ece                expected calibration error of brackets
words_per_cpu_s    words per CPU second on raw text, the best of several runs that alternate
                   between the pipelines; ratio: over that of sm
mb, load_s         size of the folder, and seconds to load it
build_cpu_s        CPU seconds of `training.encoder.build`, if it has made the pipeline
ablations          main score of each component of md on gold tokens, with its own parameters, those
                   of the encoder, or both; coarse: both, but the encoder proposes nothing;
                   words_per_cpu_s: of the component
teacher.ewt        the heads of the encoder that lg is made of, by themselves (--teacher)
cases              right and n of the cases of --cases
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any
from unittest.mock import patch

import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

import spacy_structlearn
from spacy_structlearn.encoder.scorer import Potentials
from spacy_structlearn.evaluation.calibration import expected_calibration_error
from spacy_structlearn.grammar.chart import encoded
from spacy_structlearn.pipeline.doc_arrays import copy_with_vectors
from spacy_structlearn.trees.parse import Parse
from spacy_structlearn.trees.tree import Tree
from training.benchmarks.adaptation import words_of
from training.benchmarks.product import megabytes
from training.benchmarks.raw_text import Run, layers, tags
from training.benchmarks.speed import parse_of
from training.common.command import Figures, options, run_parts
from training.common.jackknife import untagged
from training.common.scoring import brackets_right, f1_standard_error, scored, under
from training.common.sources import PACKAGED
from training.common.treebanks import craft_trees, ewt_trees

NAME = "encoder"
RUNS = 8
FRONT = ("sentence_splitter",)
KEPT = (
    *("brackets.raw.f", "np_chunks.raw.f", "srl.raw.f", "srl.gold_tokens.f"),
    *("tags.gold_tokens", "tags.unknown", "tags.raw_f"),
)


def parses(nlp: Language, gold: Sequence[Tree]) -> list[Parse]:
    """Parse the words of trees, each of which is a sentence."""
    with nlp.select_pipes(disable=[name for name in FRONT if name in nlp.pipe_names]):
        return list(map(parse_of, nlp.pipe(words_of(nlp, tree) for tree in gold)))


def pipeline(name: str, nlp: Language, args: Any) -> Iterator[Figures]:
    """Yield the scores of a pipeline."""
    run = Run(nlp, args.corpora, "dev")
    found = tags(run) | layers(run)
    figures = {key: found[key] for key in KEPT}
    figures["np_chunks.predicted_tags.f"] = found["np_chunks.gold_tokens.f"]
    figures["srl.verbs_f"] = found["srl.gold_tokens.verbs_f"]
    figures["pp.ewt_dev.acc"] = found["pp_attachment.gold_tokens.acc"]
    trees = ewt_trees(args.corpora, "dev")
    guesses = parses(nlp, trees)
    figures |= _trees("ewt.dev_", guesses, trees)
    figures["ece"] = float(expected_calibration_error(*brackets_right(guesses, trees)))
    if args.subset is not None:
        rows = json.loads(args.subset.read_text(encoding="utf8"))["sentences"]
        some = [guesses[row] for row in rows], [trees[row] for row in rows]
        figures |= _trees("bert_subset.", *some)
    craft = craft_trees(args.corpora, "dev")[::10]
    figures |= _trees("craft.dev_", parses(nlp, craft), craft)
    folder = Path(nlp.path)
    start = perf_counter()
    spacy.load(folder)
    figures |= {"load_s": perf_counter() - start, "mb": megabytes(folder)}
    built = folder.with_suffix(".build.json")
    if built.exists():
        figures["build_cpu_s"] = sum(json.loads(built.read_text(encoding="utf8")).values())
    yield under(name, figures)


def _trees(prefix: str, guesses: Sequence[Parse], gold: Sequence[Tree]) -> Figures:
    score = scored(guesses, gold, "gold")
    return {
        f"{prefix}f1": score.f1,
        f"{prefix}f1_se": f1_standard_error(score),
        f"{prefix.removesuffix('dev_')}exact": score.complete_match,
        f"{prefix.removesuffix('dev_')}n": len(gold),
    }


def ablations(nlp: Language, args: Any) -> Iterator[Figures]:
    """Yield the main scores of components with some of their parameters."""
    gold = Run(nlp, args.corpora, "dev").gold
    docs = [untagged(nlp, doc) for doc in gold]
    for name, component in nlp.pipeline:
        scorers = getattr(component, "site_scorers", {})
        parts = ("own", "encoder", "both", *["coarse"] * ("spans" in scorers)) if scorers else ()
        for part in parts:
            yield under(f"ablations.{name}", _scored(component, part, docs, gold))
        docs = docs if name in FRONT else list(component.pipe(docs))


def _scored(component: Any, part: str, docs: Sequence[Doc], gold: Sequence[Doc]) -> Figures:
    whole = component.potentials
    alone = {head: own.replaced(weights=(0.0, 1.0)) for head, own in whole.scorers.items()}
    component.potentials = Potentials(alone) if part == "encoder" else whole
    component.encoder = part != "own"
    found, start = list(map(copy_with_vectors, docs)), process_time()
    # For the coarse pass no posterior is certain.
    with patch.object(encoded, "CERTAIN", 2.0 if part == "coarse" else encoded.CERTAIN):
        found = list(component.pipe(found))
    speed = sum(map(len, found)) / (process_time() - start)
    component.potentials, component.encoder = whole, True
    score = component.score(list(map(Example, found, gold)))[component.main_score]
    return {part: 100 * score, f"words_per_cpu_s.{part}": speed}


def speed(pipelines: dict[str, Language], args: Any) -> Figures:
    """Return words per CPU second of all pipelines, alternating."""
    run = Run(pipelines["sm"], args.corpora, "dev")
    words = sum(not token.is_space for text in run.texts for token in run.nlp.make_doc(text))
    runs = {name: partial(nlp.pipe, run.texts) for name, nlp in pipelines.items()}
    best = fastest(runs, RUNS)
    figures = {f"{name}.words_per_cpu_s": words / seconds for name, seconds in best.items()}
    return figures | {f"{name}.ratio": best["sm"] / seconds for name, seconds in best.items()}


def fastest(runs: dict[str, Callable[[], Iterator]], times: int) -> dict[str, float]:
    """Return the fewest CPU seconds that each of several iterators takes, which alternate."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(times):
        for name, run in runs.items():
            start = process_time()
            for _ in run():
                pass
            best[name] = min(best[name], process_time() - start)
    return best


def teacher(args: Any) -> Figures:
    """Return the scores of the trees and tags of the encoder's own heads."""
    from training.encoder.label import of_network

    labeller = of_network(args.teacher)
    trees = ewt_trees(args.corpora, "dev")
    vocab = spacy.blank("en").vocab
    docs: list[Any] = []
    for tree in trees:
        docs += labeller.docs([tree.words()], vocab)
    for doc in docs:
        doc.spans["constituents"].attrs["scores"] = [1.0] * len(doc.spans["constituents"])
    guesses = list(map(parse_of, docs))
    right = [
        own == tag
        for p, t in zip(guesses, trees, strict=True)
        for own, tag in zip(p.tags, t.tags(), strict=True)
    ]
    figures = _trees("ewt.dev_", guesses, trees)
    return under("teacher", figures | {"tags.gold_tokens": 100 * sum(right) / len(right)})


def cases(folders: dict[str, Path], args: Any) -> Figures:
    """Return the number of cases that each pipeline has right."""
    figures: dict[str, Any] = {}
    for name, folder in folders.items():
        command = [sys.executable, args.cases.with_name("check.py"), args.cases]
        run = subprocess.run(
            [*command, "--pipeline", folder], capture_output=True, text=True, check=True
        )
        right, _, n = run.stdout.strip().splitlines()[-1].partition(" of ")
        figures |= {f"cases.{name}.right": int(right.split()[-1]), "cases.n": int(n.split()[0])}
    return figures


def folders_of(models: Sequence[str]) -> dict[str, Path]:
    """Return the folder of each pipeline by its name: sm, and those given as name=folder."""
    given = (model.partition("=") for model in models)
    return {"sm": PACKAGED} | {name: Path(path) for name, _, path in given}


def main() -> None:
    parser = options(__doc__, "corpora")
    parser.add_argument("--models", nargs="*", default=[], help="name=folder of pipelines")
    parser.add_argument("--teacher", type=Path, help="a network, see training/encoder")
    parser.add_argument("--subset", type=Path, help="JSON with the numbers of sentences of dev")
    parser.add_argument("--cases", type=Path, help="a file of cases, with check.py beside it")
    parser.add_argument("--only", nargs="+", help="some parts; default: all")
    parser.add_argument("--trial", action="store_true", help="record nothing")
    args = parser.parse_args()
    folders = folders_of(args.models)
    pipelines = {name: spacy_structlearn.load(folder) for name, folder in folders.items()}
    parts: dict[str, Any] = {
        name: partial(pipeline, name, nlp, args) for name, nlp in pipelines.items()
    }
    parts["speed"] = partial(speed, pipelines, args)
    if args.teacher:
        parts["teacher"] = partial(teacher, args)
    if "md" in pipelines:
        parts["ablations"] = partial(ablations, pipelines["md"], args)
    if args.cases:
        parts["cases"] = partial(cases, folders, args)
    run_parts(NAME, parts, args.only, is_trial=args.trial)


if __name__ == "__main__":
    main()
